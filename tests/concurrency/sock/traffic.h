/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic between pairs of sockets in a shared table.  Stamps show at once what is lost,
 * repeated, damaged or out of order.
 *
 *	UDP	each datagram has the pair, the age of the pair, the direction, a number
 *		and a checksum.  None is repeated or lost (the sender keeps a window);
 *		datagrams are in order while no socket moves.
 *	TCP	the value of each byte follows from its position; the end of the stream
 *		comes after the last byte.
 *
 * Role		traffic_init(), traffic_end(): one thread.  The others: any thread;
 *		one thread at a time sends in a direction, and one receives.
 * Lifetime	a closed pair stays until no thread is in a call on it.
 */
#ifndef TESTS_CONCURRENCY_SOCK_TRAFFIC_H
#define TESTS_CONCURRENCY_SOCK_TRAFFIC_H

#include "tests/lib/loop_net.h"

#define PAIRS_MAX 48
#define TRAFFIC_WINDOW 16	/* datagrams in transit, per direction */
#define TRAFFIC_TCP_WINDOW 8192 /* bytes */

enum pair_kind { PAIR_UDP, PAIR_UDP_UNCONNECTED, PAIR_TCP, PAIR_KINDS };

enum pair_state {
	PAIR_FREE,
	PAIR_BUSY,    /* a thread opens it, or adds its accepted end */
	PAIR_OPENING, /* TCP: until the connection is accepted */
	PAIR_OPEN,
	PAIR_CLOSING,
};

/* The traffic from end[i] to end[1 - i]. */
struct direction {
	pthread_mutex_t tx, rx;
	uint64_t sent, got; /* datagrams or bytes; any, atomic */
	/* rx: the first datagram that was not received yet, and earlier ones that are missing */
	uint64_t next;
	uint64_t missing[TRAFFIC_WINDOW];
	unsigned n_missing;
};

struct pair {
	int state; /* any, atomic */
	int users; /* any, atomic: number of threads in a call on it */
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
	/* set before the threads start */
	unsigned n_pairs, kinds; /* bits of allowed kinds */
	bool options;		 /* allocation logics change at random */
	nsec_t patience;
	nsec_t until; /* of traffic_work(); 0 after traffic_init() */
	struct tsock listener[2];
	struct sockaddr_in listening[2];
	struct pair pairs[PAIRS_MAX];
	/* any, atomic */
	unsigned next_port;
	struct traffic_stats stats;
};

/* A thread with its random numbers. */
struct worker {
	struct traffic *traffic;
	uint64_t rnd;
};

static inline unsigned worker_random(struct worker *worker, unsigned below)
{
	worker->rnd ^= worker->rnd << 13;
	worker->rnd ^= worker->rnd >> 7;
	worker->rnd ^= worker->rnd << 17;
	return (unsigned)(worker->rnd >> 20) % below;
}

void traffic_init(struct traffic *traffic, unsigned pairs, unsigned kinds, bool options);

/* The random numbers of the i-th thread follow from the seed. */
struct worker traffic_worker(struct traffic *traffic, unsigned seed, unsigned i);

/* Does one of the operations that threads do with sockets, at random. */
void traffic_act(struct worker *worker);

/* A thread, for a struct worker: acts until traffic->until. */
void *traffic_work(void *worker);

/* Sends and receives some rounds on one pair, unless another thread does so. */
void traffic_session(struct worker *worker, struct pair *pair, unsigned rounds);
void traffic_accept(struct worker *worker);
bool traffic_open(struct worker *worker, struct pair *pair);
void traffic_change_logic(struct worker *worker, struct pair *pair);
/*
 * Requests rings of users' numbers below the limit for its ends, for receiving, sending, or
 * both.
 */
void traffic_move(struct worker *worker, struct pair *pair, unsigned users);

/* Ends a pair, after everything was received or before, and perhaps opens a new one. */
void traffic_renew(struct worker *worker, struct pair *pair);

/* Receives everything that is in transit, then closes all pairs. */
void traffic_end(struct worker *worker);

/* Prints what it did, if VMA_STRESS_SHOW is set. */
void traffic_show(const struct traffic *traffic, const char *name);

#endif
