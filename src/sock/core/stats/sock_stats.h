/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The statistics of sockets and rings, in the page of the process (base/stats/stats.h).
 *
 * An accelerated socket has a slot there, as long as there are free ones.  The hot calls count
 * in it, holding the home ring.  What a socket or a ring knows anyway is stored when a reader
 * asks: the internal thread posts an item to each ring, and the ring's holder stores it.
 *
 * Role		as each function says.
 * Lifetime	a socket has its slot from sock_stats_begin() to sock_stats_end(); it survives a
 *		move, and the export to another process.
 */
#ifndef SOCK_CORE_STATS_SOCK_STATS_H
#define SOCK_CORE_STATS_SOCK_STATS_H

#include "base/stats/stats.h"
#include "sock/core/inet_sock.h"

/* holder: the counts of a connection that were added to its slot already. */
struct sock_stats_seen {
	uint32_t rx_packets, tx_packets, retransmits, rx_reads;
	uint64_t rx_bytes, tx_bytes;
};

/*
 * control lock, no ring held: the library serves the socket from now on.  Gives it a slot if it
 * has none; makes the page with the first one.  imported: what the connection did in another
 * process does not count.
 */
void sock_stats_begin(struct inet_sock *so, bool imported);
/*
 * control lock, no ring held: so->verdict has changed.  A socket that does not receive by the
 * library gets a slot, too, if readers can ask why.
 */
void sock_stats_verdict(struct inet_sock *so);
/* control lock, after sock_stats_begin(): the rule that decided about listener did about child. */
void sock_stats_accepted(struct inet_sock *child, const struct inet_sock *listener);
/* control lock, no ring held: the kernel serves it from now on, because of reason. */
void sock_stats_left(struct inet_sock *so, enum verdict reason);
/* control lock, no ring held: the socket ends, or its connection does. */
void sock_stats_end(struct inet_sock *so);
/* In a forked child: the page is the parent's.  Then for each socket: so is its slot. */
void sock_stats_forget(void);
void sock_stats_fork_child(struct inet_sock *so);

/* any, no ring held: the socket receives, or sends, no more by ring `from`, but by another one. */
void sock_stats_moved(struct inet_sock *so, bool receives, unsigned from);

/* internal thread, between rounds: does what readers ask.  True: call again soon. */
bool sock_stats_run(nsec_t now);

/*
 * internal thread, or control lock: logs the slots 1 to n, which were stored a moment ago, of the descriptor and
 * at the level that the argument of STATS_DUMP says.
 */
void sock_stats_dump(uint32_t argument, unsigned n);

/*
 * any, no lock: the same at once, for the program itself; fd 0: all.  0, or -EAGAIN: a ring is
 * held, because it was called in a signal handler.
 */
int sock_stats_dump_now(int fd, int level);

/* holder of home: the slot to count in, or NULL. */
static inline struct stats_sock *sock_stats(const struct inet_sock *so)
{
	return so->stats_slot ? stats_slot(so->stats_slot) : NULL;
}

/* holder of home: adds n to a counter of the socket. */
#define sock_count(so, counter, n)                               \
	do {                                                     \
		struct stats_sock *sock_count_ = sock_stats(so); \
		if (sock_count_)                                 \
			stats_add(&sock_count_->counter, n);     \
	} while (0)

/*
 * holder of home: the program reads data that the library received at that time of clock_real(); 0:
 * unknown.  For sockets with ->told, which all have if latencies are measured.
 */
void sock_stats_latency(const struct inet_sock *so, nsec_t arrived);

/* any: n (an error or a number of bytes) is the result of a call that the twin made. */
void sock_stats_twin_recv(struct inet_sock *so, ssize_t n);
/* any: the kernel is about to send n bytes. */
void sock_stats_twin_send(struct inet_sock *so, size_t n);

#endif
