/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic between pairs of sockets on a shared table, stamped so that what is lost,
 * repeated, damaged or out of order is found at once.
 *
 *	UDP	each datagram: pair, age of the pair, direction, number, checksum.
 *		None twice, none lost (the sender keeps a window); in order while
 *		nothing moves.
 *	TCP	each byte follows from its position; the end comes after the last.
 *
 * Role		traffic_init(), traffic_end(): one thread.  The others: any
 *		thread; a thread at a time sends, and receives, in a direction.
 * Lifetime	a pair that is closed stays until nobody is in a call on it.
 */
#ifndef TESTS_CONCURRENCY_SOCK_TRAFFIC_H
#define TESTS_CONCURRENCY_SOCK_TRAFFIC_H

#include "tests/lib/loop_net.h"

#define PAIRS_MAX 48
#define TRAFFIC_WINDOW 16	/* datagrams under way, per direction */
#define TRAFFIC_TCP_WINDOW 8192 /* bytes */

enum pair_kind { PAIR_UDP, PAIR_UDP_UNCONNECTED, PAIR_TCP, PAIR_KINDS };

enum pair_state {
	PAIR_FREE,
	PAIR_BUSY,    /* somebody makes it, or joins its child to it */
	PAIR_OPENING, /* TCP: until its child is accepted */
	PAIR_OPEN,
	PAIR_CLOSING,
};

/* From end[i] to end[1 - i]. */
struct direction {
	pthread_mutex_t tx, rx;
	uint64_t sent, got; /* datagrams or bytes; any, atomic */
	/* rx: the first that was not received yet, and those before it that were not */
	uint64_t next;
	uint64_t missing[TRAFFIC_WINDOW];
	unsigned n_missing;
};

struct pair {
	int state; /* any, atomic */
	int users; /* any, atomic: in a call */
	unsigned number, age;
	enum pair_kind kind;
	nsec_t since; /* any, atomic */
	struct sockaddr_in name[2];
	struct tsock end[2];
	struct direction dir[2]; /* from end[i] */
};

struct traffic_stats {
	unsigned long datagrams, bytes, reordered, opened, closed, accepted, strays;
};

struct traffic {
	/* set before threads */
	unsigned n_pairs, kinds; /* kinds: bits */
	bool options;		 /* allocation logic changes at random */
	nsec_t patience;
	struct tsock listener[2];
	struct sockaddr_in listening[2];
	struct pair pairs[PAIRS_MAX];
	/* any, atomic */
	unsigned next_port;
	struct traffic_stats stats;
};

/* A worker: its random numbers. */
struct hand {
	struct traffic *traffic;
	uint64_t rnd;
};

static inline unsigned hand_random(struct hand *hand, unsigned below)
{
	hand->rnd ^= hand->rnd << 13;
	hand->rnd ^= hand->rnd >> 7;
	hand->rnd ^= hand->rnd << 17;
	return (unsigned)(hand->rnd >> 20) % below;
}

void traffic_init(struct traffic *traffic, unsigned pairs, unsigned kinds, bool options);

/* One of the things that threads do with sockets, at random. */
void traffic_act(struct hand *hand);

/* Traffic of some rounds on one pair, if nobody else is at it. */
void traffic_session(struct hand *hand, struct pair *pair, unsigned rounds);
void traffic_accept(struct hand *hand);
bool traffic_open(struct hand *hand, struct pair *pair);
void traffic_change_logic(struct hand *hand, struct pair *pair);
/* Its ends are asked to receive, send, or both, by rings of users' numbers up to that. */
void traffic_move(struct hand *hand, struct pair *pair, unsigned users);

/* A pair ends, with everything received or in the middle of it, and may begin again. */
void traffic_renew(struct hand *hand, struct pair *pair);

/* Everything that is under way arrives, then all is closed. */
void traffic_end(struct hand *hand);

void traffic_show(const struct traffic *traffic, const char *name);

#endif
