/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process whose sockets run over the loop-back port, without an interface or privileges.
 *
 * Role		loop_net_enter(): main(), before threads.  loop_net_start(): once
 *		per process, before the first socket (cases that need a fresh
 *		process run in children: loop_net_run()).
 */
#ifndef TESTS_LIB_LOOP_NET_H
#define TESTS_LIB_LOOP_NET_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/param.h"
#include "tests/check.h"
#include "tests/lib/fake_netlink.h"
#include "tests/lib/loop_port.h"
#include "tests/lib/tsock.h"

/* The only kinds of failure. */
#define NET_CHECK TEST_CHECK
#define NET_CHECK_EQ(a, b)                                                                 \
	do {                                                                               \
		long long a_ = (long long)(a), b_ = (long long)(b);                        \
		if (a_ != b_) {                                                            \
			fprintf(stderr, "%s:%d: not so: %s == %s: %lld, %lld\n", __FILE__, \
				__LINE__, #a, #b, a_, b_);                                 \
			abort();                                                           \
		}                                                                          \
	} while (0)

/* A sanitizer makes everything slower. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NET_SLOW 5
#else
#define NET_SLOW 1
#endif

/* Milliseconds after which what was waited for has not come: a slow machine needs less. */
#define NET_PATIENCE 30000

/* Polls every millisecond until the condition is true, at most this long. */
#define NET_WAIT(what, msec)                                                   \
	({                                                                     \
		nsec_t until_ = clock_now() + (msec)*NSEC_PER_MSEC * NET_SLOW; \
		bool is_;                                                      \
		while (!(is_ = (what)) && clock_now() < until_)                \
			usleep(1000);                                          \
		is_ || (what);                                                 \
	})

/* A number from the environment, for runs by hand. */
unsigned loop_net_number(const char *name, unsigned otherwise);

/* Enters a new network namespace with the addresses of the fake link. */
void loop_net_enter(void);

/* Starts the library; params are set. */
void loop_net_start(void);

/* From here on fork(2) calls what intercept would call; once. */
void loop_net_follow_forks(void);

/* In a child: closes the sockets that the program had, as such a program would. */
void loop_net_close_inherited(void);

/* When a test fails: prints the rings and what they dropped. They may change meanwhile. */
void loop_net_show(void);

/* Waits until no socket moves and no request waits. */
void loop_net_settle(void);

/*
 * All sockets are closed: ends moves, closes rings, and checks that all packets were returned,
 * and that no descriptor is left except those that the library keeps.
 */
void loop_net_finish(void);

unsigned loop_net_moves(void);	/* finished, both directions */
unsigned loop_net_starts(void); /* started */

/* Runs a case in a child with a limit of seconds, on a usual machine; 0 if it passed. */
struct loop_net_child {
	int pid;
	const char *name;
};
struct loop_net_child loop_net_fork(const char *name, void (*run)(void *arg), void *arg,
				    unsigned seconds);
int loop_net_join(const struct loop_net_child *child);
int loop_net_run(const char *name, void (*run)(void *arg), void *arg, unsigned seconds);

/* The cmocka test test_NAME of a case, with 60 seconds; its entry of the table; their set-up. */
#define LOOP_NET_TEST(name)                                               \
	static void test_##name(void **state)                             \
	{                                                                 \
		assert_int_equal(loop_net_run(#name, name, NULL, 60), 0); \
	}
#define LOOP_NET_ENTRY(name) cmocka_unit_test(test_##name),

static inline int loop_net_enter_group(void **state)
{
	loop_net_enter();
	return 0;
}

#endif
