/* SPDX-License-Identifier: BSD-2-Clause */
/* Every file of behaviours defines NAME_behaviours; its tests are NAME_diff_test. */
#include "tests/diff/diff.h"

#define SUITES(SUITE)  \
	SUITE(calls)   \
	SUITE(cmsg)    \
	SUITE(dual)    \
	SUITE(edges)   \
	SUITE(epoll)   \
	SUITE(errors)  \
	SUITE(execs)   \
	SUITE(exits)   \
	SUITE(fault)   \
	SUITE(fds)     \
	SUITE(gather)  \
	SUITE(jumps)   \
	SUITE(leaving) \
	SUITE(linger)  \
	SUITE(mcast)   \
	SUITE(mcast6)  \
	SUITE(mmsg)    \
	SUITE(names)   \
	SUITE(options) \
	SUITE(pass)    \
	SUITE(poll)    \
	SUITE(recv)    \
	SUITE(reuse)   \
	SUITE(rights)  \
	SUITE(scope)   \
	SUITE(send)    \
	SUITE(share)   \
	SUITE(states)  \
	SUITE(stdio)   \
	SUITE(tcp)     \
	SUITE(threads) \
	SUITE(udp)     \
	SUITE(users)   \
	SUITE(wait)    \
	SUITE(zerocopy)

#define DECLARE(name) extern const struct behaviour name##_behaviours[];
SUITES(DECLARE)

#define ENTRY(name) {#name, name##_behaviours},
const struct suite suites[] = {SUITES(ENTRY){NULL, NULL}};
