/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process whose sockets run over the loop-back port, without wire or privilege.
 *
 * Role		loop_net_enter(): main(), before threads.  loop_net_start(): once
 *		per process, before the first socket (cases that want a fresh
 *		start run in children: loop_net_run()).
 */
#ifndef TESTS_LIB_LOOP_NET_H
#define TESTS_LIB_LOOP_NET_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/param.h"
#include "tests/lib/fake_netlink.h"
#include "tests/lib/loop_port.h"
#include "tests/lib/tsock.h"

/* One kind of failure: says where, and dies at once, threads and all. */
#define NET_CHECK(what)                                                                    \
	do {                                                                               \
		if (!(what)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                           \
		}                                                                          \
	} while (0)

#define NET_CHECK_EQ(a, b)                                                                 \
	do {                                                                               \
		long long a_ = (long long)(a), b_ = (long long)(b);                        \
		if (a_ != b_) {                                                            \
			fprintf(stderr, "%s:%d: not so: %s == %s: %lld, %lld\n", __FILE__, \
				__LINE__, #a, #b, a_, b_);                                 \
			abort();                                                           \
		}                                                                          \
	} while (0)

/* Under a sanitizer everything takes longer. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NET_SLOW 5
#else
#define NET_SLOW 1
#endif

/* True by then, or not at all: polls every millisecond. */
#define NET_WAIT(what, msec)                                                   \
	({                                                                     \
		nsec_t until_ = clock_now() + (msec)*NSEC_PER_MSEC * NET_SLOW; \
		bool is_;                                                      \
		while (!(is_ = (what)) && clock_now() < until_)                \
			usleep(1000);                                          \
		is_ || (what);                                                 \
	})

/* A network namespace of its own, with the fake link's addresses. */
void loop_net_enter(void);

/* params are set. */
void loop_net_start(void);

/* From here on fork(2) does to the library what intercept makes it do; once. */
void loop_net_follow_forks(void);

/* In a child: what the program had open, as such a program would. */
void loop_net_close_inherited(void);

/* Nothing moves and no request waits. */
void loop_net_settle(void);

/*
 * All sockets are closed: moves come to their end, rings are closed with all their
 * packets, and no descriptor is left but those that the library keeps.
 */
void loop_net_finish(void);

unsigned loop_net_moves(void);	/* finished, both directions */
unsigned loop_net_starts(void); /* begun */

/* Runs a case in a child that has so many seconds; 0 when it ended well. */
struct loop_net_child {
	int pid;
	const char *name;
};
struct loop_net_child loop_net_fork(const char *name, void (*run)(void *arg), void *arg,
				    unsigned seconds);
int loop_net_join(const struct loop_net_child *child);
int loop_net_run(const char *name, void (*run)(void *arg), void *arg, unsigned seconds);

#endif
