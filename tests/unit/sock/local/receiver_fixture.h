/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receiver of local datagrams, so, whose peer is in the test's hands: it asks, and writes into the
 * ring what it wants.  The internal thread runs.
 */
#ifndef TESTS_UNIT_SOCK_LOCAL_RECEIVER_FIXTURE_H
#define TESTS_UNIT_SOCK_LOCAL_RECEIVER_FIXTURE_H

#include "sock/local/local_udp.h"

#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "ring/progress.h"
#include "sock/core/control.h"
#include "sock/core/sock_options.h"
#include "mellanox/vma_extra.h"
#include "sock/local/local.h"
#include "sock/udp/udp_sock.h"
#include "tests/lib/local_receiver.h"
#include "vma_test.h"

#define PATIENCE (30 * NSEC_PER_SEC)
#define HERE htonl(INADDR_LOOPBACK)
#define THERE htonl(0x0a090001) /* 10.9.0.1, of another host */

static struct inet_sock *so;
static struct local_link *link_to_us;

/* The answer; any, atomic: n. */
static struct {
	unsigned n;
	struct local_message message;
	int fd;
} got = {.fd = -1};

/* The writer. */
static struct local_end end;
static unsigned notices; /* any, atomic */
static struct segment segment;
static struct record_ring_writer writer;

static bool take_records(struct local_link *link, const struct local_message *m, int *fds,
			 unsigned n)
{
	got.message = *m;
	got.fd = n ? fds[0] : -1;
	__atomic_fetch_add(&got.n, 1, __ATOMIC_RELEASE); /* pairs with await() */
	return true;
}

static void on_notice(struct local_end *at)
{
	__atomic_fetch_add(&notices, 1, __ATOMIC_RELEASE); /* pairs with await() */
}

static void on_death(struct local_end *at)
{
	local_end_leave(at);
}

static const struct local_end_ops ops = {.notice = on_notice, .died = on_death};

static local_handler *const handlers[LOCAL_KINDS] =
	{[LOCAL_ASK] = local_take_ask, [LOCAL_RECORDS] = take_records};

static void await(const unsigned *word, unsigned least)
{
	nsec_t until = clock_now() + PATIENCE;

	/* acquire: pairs with the functions above */
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < least) {
		assert_true(clock_now() < until);
		sched_yield();
	}
}

static bool hook(void)
{
	local_links_run(clock_now());
	return false;
}

static int setup(void **state)
{
	local_receiver_start(handlers);
	assert_int_equal(progress_start(), 0);
	progress_set_hook(hook);
	return 0;
}

static int teardown(void **state)
{
	assert_true(control_lock());
	local_links_stop();
	control_unlock();
	progress_stop();
	progress_set_hook(NULL);
	return 0;
}

/* The socket fd is bound to a free port there, and receives from local senders. */
static int begin_at(int fd, const struct sockaddr *at, socklen_t len)
{
	so = local_receiver_open(fd, at, len);
	assert_non_null(so);
	assert_true(control_lock());
	assert_ptr_equal(sock_home(so), local_ring());
	local_lock();
	assert_int_equal(local_link_to(local_name(), &link_to_us), 0);
	local_unlock();
	control_unlock();
	return 0;
}

static inline int begin(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = HERE};

	return begin_at(socket(AF_INET, SOCK_DGRAM, 0), (struct sockaddr *)&at, sizeof(at));
}

static int finish(void **state)
{
	assert_true(ring_hold_cold(local_ring()));
	if (end.link)
		local_end_leave(&end);
	ring_release_cold(local_ring());
	local_receiver_close(so);
	segment_close(&segment);
	sys_close_fd(&got.fd);
	return 0;
}

static struct local_message question(void)
{
	return (struct local_message){.kind = LOCAL_ASK,
				      .socket = so->udp.local->entry.socket,
				      .from = addr_v4(HERE),
				      .to = addr_v4(HERE),
				      .from_port = htons(5000),
				      .to_port = so->local.port};
}

/* True: the ring came. */
static bool ask(struct local_message m)
{
	unsigned answers = __atomic_load_n(&got.n, __ATOMIC_RELAXED);

	assert_true(control_lock());
	local_lock();
	assert_true(ring_hold_cold(local_ring()));
	if (end.link)
		local_end_leave(&end);
	end.ops = &ops; /* before, its holder may read it */
	assert_int_equal(local_end_begin(link_to_us, &end), 0);
	m.number = end.number;
	assert_int_equal(local_link_send(link_to_us, &m, -1), 0);
	ring_release_cold(local_ring());
	local_unlock();
	control_unlock();
	await(&got.n, answers + 1);
	assert_int_equal(got.message.number, m.number);
	return got.fd >= 0;
}

/* The ring that came is written from now on. */
static void open_writer_of_answer(void)
{
	uint32_t cells;
	size_t size;

	cells = got.message.size;
	size = local_records_size(cells);
	assert_int_equal(segment_open(&segment, got.fd, LOCAL_RECORDS_SEGMENT, size,
				      size + SEGMENT_PAGE),
			 0);
	got.fd = -1;
	assert_int_equal(record_ring_writer_open(&writer, local_records(&segment, cells), cells,
						 got.message.value[0]),
			 0);
}

static inline void open_writer(void)
{
	assert_true(ask(question()));
	open_writer_of_answer();
}

static inline struct record_header header(void)
{
	return (struct record_header){.from = HERE,
				      .to = HERE,
				      .from_port = htons(5000),
				      .to_port = so->local.port,
				      .ttl = 64};
}

/* A poll of this thread; returns how many datagrams the socket has then. */
static inline uint32_t poll_once(bool notice)
{
	uint32_t n;

	assert_true(ring_hold_cold(local_ring()));
	if (notice)
		local_end_post(&end);
	ring_poll(local_ring());
	n = so->udp.count;
	ring_release_cold(local_ring());
	return n;
}

/* Writes a record of one byte and returns how many datagrams the socket has then. */
static inline uint32_t write_one(struct record_header h, char byte)
{
	struct iovec iov = {&byte, 1};

	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), 0);
	return poll_once(true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

#endif
