/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links of this process to itself.  What arrives goes to the test's handlers, when it calls settle().
 *
 * Role		one thread, which is the internal one, too; no lock.
 */
#ifndef TESTS_UNIT_SOCK_LOCAL_LINKS_FIXTURE_H
#define TESTS_UNIT_SOCK_LOCAL_LINKS_FIXTURE_H

#include <arpa/inet.h>

#include "sock/core/control.h"
#include "sock/local/local.h"
#include "sock/local/local_link_internal.h"
#include "tests/lib/local_receiver.h"
#include "vma_test.h"

#define HERE htonl(INADDR_LOOPBACK)

/* handlers[LOCAL_KINDS] */
static inline void start_links(local_handler *const *handlers)
{
	local_receiver_start(handlers);
	assert_true(control_lock());
	assert_true(local_available());
	control_unlock();
}

static inline void end_links(void)
{
	assert_true(control_lock());
	local_links_stop();
	control_unlock();
}

/* Delivers messages and notices until there are none. */
static inline void settle(void)
{
	for (int i = 0; i < 4; i++) {
		local_links_readable();
		local_links_run(clock_now());
		assert_true(ring_hold_cold(local_ring()));
		ring_poll(local_ring());
		ring_release_cold(local_ring());
	}
}

#endif
