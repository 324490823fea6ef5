/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initiator's end of a local connection in `slot`, over a link from this process to itself: the
 * responder's side is in the test's hands.
 *
 * Role		one thread; setup() and teardown() of the group have the control lock between them.
 */
#ifndef TESTS_UNIT_SOCK_LOCAL_CONN_FIXTURE_H
#define TESTS_UNIT_SOCK_LOCAL_CONN_FIXTURE_H

#include "sock/local/local_sock.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "ring/rings.h"
#include "sock/core/control.h"
#include "sock/core/extra/held.h"
#include "sock/core/sock_options.h"
#include "sock/local/local_link_internal.h"
#include "vma_test.h"

static local_handler *const handlers[LOCAL_KINDS];
static char base[] = "/dev/shm/local-test-XXXXXX";
static struct local_link *link_to_us;
static struct inet_sock *so;
static _Alignas(SEGMENT_PAGE) uint8_t slot[LOCAL_SLOT];

static inline int setup(void **state)
{
	static const struct port_kind *const kinds[] = {&port_local_kind, NULL};

	(void)state;
	clock_init();
	rings_init(kinds);
	sock_alloc_init();
	assert_non_null(mkdtemp(base));
	assert_true(control_lock());
	assert_int_equal(local_links_start(base, handlers), 0);
	local_lock();
	assert_int_equal(local_link_to(local_name(), &link_to_us), 0);
	local_unlock();
	return 0;
}

static inline int teardown(void **state)
{
	char command[128];

	(void)state;
	local_links_stop();
	control_unlock();
	snprintf(command, sizeof(command), "rm -rf %s", base);
	return system(command);
}

static inline struct local_shared *shared(void)
{
	return (void *)slot;
}

static inline void begin(void)
{
	so = sock_alloc(SOCK_TYPE_TCP);
	assert_non_null(so);
	assert_true(sock_options_init_new(so, sock_kinds[INET_TCP]));
	sock_set_home(so, local_ring());
	memset(slot, 0, sizeof(slot));
	local_conn_begin(so, true);
	assert_int_equal(local_end_begin(link_to_us, &so->shm.end), 0);
}

static inline void end(void)
{
	local_conn_close(so, true);
	sock_life_set(so, LIFE_CLOSED);
	sock_free(so);
}

/* Ends it, unless the test did.  The program has no packet, and the link no number any more. */
static inline void end_without_rest(void)
{
	assert_true(ring_hold_cold(local_ring()));
	if (so)
		end();
	ring_release_cold(local_ring());
	assert_int_equal(held_count(), 0);
	assert_int_equal(link_to_us->used, 0);
}

static inline void notice(void)
{
	so->shm.end.ops->notice(&so->shm.end);
}

/* The peer has answered; in, out: its sides. */
static inline void begin_established(struct byte_ring_reader *in, struct byte_ring_writer *out)
{
	uint8_t *forth = slot + SEGMENT_PAGE, *back = forth + LOCAL_RING_MAX;

	begin();
	assert_int_equal(local_conn_open(so, slot, LOCAL_RING_MIN), 0);
	assert_int_equal(byte_ring_reader_open(in, &shared()->to_responder, forth, LOCAL_RING_MIN),
			 0);
	assert_int_equal(byte_ring_writer_open(out, &shared()->to_initiator, back, LOCAL_RING_MIN,
					       LOCAL_RING_MIN),
			 0);
	/* release: as the responder stores it */
	__atomic_store_n(&shared()->answer, LOCAL_ACCEPTED, __ATOMIC_RELEASE);
	notice();
	assert_true(so->shm.established);
}

#endif
