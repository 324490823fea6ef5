/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What sockets write into the flight recorder (base/stats/recorder.h): in the area of their home
 * ring, or in that of calls when the thread holds no ring.
 *
 * Role		as each function says.
 */
#ifndef SOCK_CORE_STATS_SOCK_RECORD_H
#define SOCK_CORE_STATS_SOCK_RECORD_H

#include "base/stats/recorder.h"
#include "base/stats/stats_text.h"
#include "sock/core/inet_sock.h"

_Static_assert(sizeof(struct stats_addr) == sizeof(struct inaddr), "both map IPv4 addresses");

static inline struct stats_addr sock_stats_addr(const struct inaddr *addr)
{
	struct stats_addr copy;

	memcpy(&copy, addr, sizeof(copy));
	return copy;
}

/* 0.0.0.0 if the socket has no peer. */
static inline struct stats_addr sock_stats_remote(const struct inet_sock *so)
{
	struct inaddr none = addr_v4_any();

	return sock_stats_addr(so->remote.port ? &so->remote.addr : &none);
}

/* control lock, before a ring is opened: makes the recorder, if somebody wants statistics. */
void sock_record_start(void);
/* In a forked child: the recorder is the parent's. */
void sock_record_forget(void);

/*
 * The number of a socket in records; 0 is none.  While accept() gives a connection its number, the
 * holder may still record it under the one before.
 */
static inline uint32_t sock_record_id(const struct inet_sock *so)
{
	/* atomic: pairs with the store in accept_finish() */
	return (uint32_t)__atomic_load_n(&so->id, __ATOMIC_RELAXED);
}

/*
 * control lock; the program has no descriptor of the socket yet: its number changed from old_id.
 * Its connection is left, if the process is killed, under the new number only.
 */
void sock_record_renumbered(const struct inet_sock *so, uint64_t old_id);

/* any: records an event of the socket. */
void sock_record(const struct inet_sock *so, enum record_event event, uint32_t argument);

/* holder: what the engine reports; counts a segment that is sent again. */
void sock_record_tcp(const struct inet_sock *so, enum tcp_event event, uint32_t argument);

#endif
