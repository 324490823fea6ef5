/* SPDX-License-Identifier: BSD-2-Clause */
/* Pairs begin: sockets are created, bound, connected, accepted. */
#include "traffic_internal.h"

#define CALL_TIMEOUT 3 /* ms, of a call that blocks */

static void set_timeouts(struct tsock *ts)
{
	tsock_block(ts, true);
	NET_CHECK_EQ(tsock_set_timeout(ts, SO_RCVTIMEO, CALL_TIMEOUT), 0);
	NET_CHECK_EQ(tsock_set_timeout(ts, SO_SNDTIMEO, CALL_TIMEOUT), 0);
}

static void bind_new_port(struct worker *worker, struct tsock *ts, uint32_t addr)
{
	int rc;

	do {
		rc = tsock_bind(ts, addr, 10000 + ADD(worker->traffic->next_port, 1) % 50000);
	} while (rc == -EADDRINUSE);
	NET_CHECK_EQ(rc, 0);
}

static uint32_t some_addr(struct worker *worker)
{
	return fake_link_addr(worker_random(worker, FAKE_LINK_ADDRS));
}

static void open_udp(struct worker *worker, struct pair *pair)
{
	for (unsigned i = 0; i < 2; i++) {
		bool wild = pair->kind == PAIR_UDP_UNCONNECTED && worker_random(worker, 2);

		pair->end[i] = tsock_udp();
		NET_CHECK(pair->end[i].fd >= 0);
		set_timeouts(&pair->end[i]);
		bind_new_port(worker, &pair->end[i], wild ? INADDR_ANY : some_addr(worker));
		pair->name[i] = tsock_name(&pair->end[i]);
		if (wild)
			pair->name[i].sin_addr.s_addr = some_addr(worker);
	}
	for (unsigned i = 0; i < 2 && pair->kind == PAIR_UDP; i++)
		NET_CHECK_EQ(tsock_connect(&pair->end[i], &pair->name[1 - i]), 0);
	pair_set_state(pair, PAIR_OPEN);
}

/* Its other end is the accepted connection from its address. */
static void open_tcp(struct worker *worker, struct pair *pair)
{
	unsigned which = worker_random(worker, 2);
	struct sockaddr_in to = worker->traffic->listening[which];
	struct tsock *ts = &pair->end[0], copy;
	int rc;

	if (!to.sin_addr.s_addr)
		to.sin_addr.s_addr = some_addr(worker);
	*ts = tsock_tcp();
	NET_CHECK(ts->fd >= 0);
	set_timeouts(ts);
	bind_new_port(worker, ts, some_addr(worker));
	pair->name[0] = tsock_name(ts);
	pair->end[1] = TSOCK_NONE;
	copy = *ts;
	ADD(pair->users, 1);
	pair_set_state(pair, PAIR_OPENING);
	rc = tsock_connect(&copy, &to);
	if (rc && rc != -EINPROGRESS && pair_state(pair) <= PAIR_OPEN)
		pair_fail(pair, 0, "cannot connect", rc, 0);
	pair_leave(pair);
}

bool traffic_open(struct worker *worker, struct pair *pair)
{
	struct traffic *traffic = worker->traffic;

	if (!pair_change_state(pair, PAIR_FREE, PAIR_BUSY))
		return false;
	pair->age++;
	__atomic_store_n(&pair->since, clock_now(), __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++) {
		struct direction *d = &pair->dir[i];

		d->sent = d->got = d->next = d->n_missing = 0;
	}
	do {
		pair->kind = worker_random(worker, PAIR_KINDS);
	} while (!(traffic->kinds & 1u << pair->kind));
	ADD(traffic->stats.opened, 1);
	if (pair->kind == PAIR_TCP)
		open_tcp(worker, pair);
	else
		open_udp(worker, pair);
	return true;
}

/* The pair of a connection. NULL: its opener has closed it already. */
static struct pair *pair_of(struct traffic *traffic, const struct sockaddr_in *from)
{
	for (unsigned i = 0; i < traffic->n_pairs; i++) {
		struct pair *pair = &traffic->pairs[i];

		if (!pair_change_state(pair, PAIR_OPENING, PAIR_BUSY))
			continue;
		if (pair->name[0].sin_port == from->sin_port &&
		    pair->name[0].sin_addr.s_addr == from->sin_addr.s_addr)
			return pair;
		pair_set_state(pair, PAIR_OPENING);
	}
	return NULL;
}

static struct pair *find_opener(struct traffic *traffic, const struct sockaddr_in *from)
{
	struct pair *pair = NULL;

	/* Other threads search the pairs as well, and may hold the right one for a moment. */
	for (int tries = 0; tries < 10 && !pair; tries++)
		pair = pair_of(traffic, from);
	return pair;
}

static void accept_one(struct worker *worker, struct tsock *listener)
{
	struct traffic *traffic = worker->traffic;
	struct sockaddr_in from = {0};
	struct tsock child;
	struct pair *pair;
	int fd = tsock_accept(listener, &child, &from);

	if (fd == -EAGAIN)
		return;
	NET_CHECK(fd >= 0 && child.ref.sk);
	ADD(traffic->stats.accepted, 1);
	pair = find_opener(traffic, &from);
	if (!pair) {
		ADD(traffic->stats.strays, 1);
		tsock_linger_none(&child);
		tsock_close(&child);
		return;
	}
	set_timeouts(&child);
	pair->end[1] = child;
	pair_set_state(pair, PAIR_OPEN);
}

void traffic_accept(struct worker *worker)
{
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned n = 0; n < 4; n++)
			accept_one(worker, &worker->traffic->listener[i]);
	}
}
