/* SPDX-License-Identifier: BSD-2-Clause */
#include "traffic_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/poll.h>

#include "sock/wait/epoll.h"

void pair_fail(const struct pair *pair, unsigned dir, const char *what, long a, long b)
{
	const struct direction *d = &pair->dir[dir];

	fprintf(stderr,
		"pair %u (kind %d, age %u, state %d), direction %u, %lu sent, %lu received: %s: %ld, %ld\n",
		pair->number, pair->kind, pair->age, pair_state(pair), dir,
		(long)pair_count(&d->sent), (long)pair_count(&d->got), what, a, b);
	loop_net_show();
	abort();
}

/* ---- one pair ------------------------------------------------------------------------------ */

/* True: go on.  While the pair closes, errors and the end of the stream are allowed. */
static bool check_result(const struct pair *pair, unsigned dir, const char *what, ssize_t n)
{
	if (n > 0 || n == -EAGAIN)
		return n > 0;
	if (pair_state(pair) == PAIR_OPEN)
		pair_fail(pair, dir, what, (long)n, 0);
	return false;
}

void pair_send_some(struct worker *worker, struct pair *pair, unsigned dir)
{
	unsigned n = 1 + worker_random(worker, 6);
	ssize_t rc;

	do {
		rc = stamp_send(worker, pair, dir);
	} while (check_result(pair, dir, "cannot send", rc) && --n);
}

static void recv_some(struct worker *worker, struct pair *pair, unsigned dir)
{
	int flags = worker_random(worker, 200) ? MSG_DONTWAIT : 0;
	unsigned n = 1 + worker_random(worker, 8);

	while (check_result(pair, dir, "cannot receive", stamp_recv(worker, pair, dir, flags)) &&
	       --n)
		flags = MSG_DONTWAIT;
}

void traffic_session(struct worker *worker, struct pair *pair, unsigned rounds)
{
	unsigned wanted = worker_random(worker, 3) ? 15 : 1 + worker_random(worker, 15), got = 0;

	if (!pair_enter(pair))
		return;
	for (unsigned d = 0; d < 2; d++) {
		if ((wanted & 1u << d) && !pthread_mutex_trylock(&pair->dir[d].tx))
			got |= 1u << d;
		if ((wanted & 4u << d) && !pthread_mutex_trylock(&pair->dir[d].rx))
			got |= 4u << d;
	}
	while (got && rounds-- && pair_state(pair) == PAIR_OPEN) {
		for (unsigned d = 0; d < 2; d++) {
			if (got & 1u << d)
				pair_send_some(worker, pair, d);
			if (got & 4u << d)
				recv_some(worker, pair, d);
		}
	}
	for (unsigned d = 0; d < 2; d++) {
		if (got & 1u << d)
			pthread_mutex_unlock(&pair->dir[d].tx);
		if (got & 4u << d)
			pthread_mutex_unlock(&pair->dir[d].rx);
	}
	pair_leave(pair);
}

static __thread struct pair *polled;

static struct sock_ref lookup(int fd)
{
	for (unsigned i = 0; i < 2; i++) {
		if (polled->end[i].fd == fd)
			return polled->end[i].ref;
	}
	return (struct sock_ref){NULL, 0};
}

static void poll_round(struct pair *pair)
{
	struct pollfd fds[2];
	int n;

	if (!pair_enter(pair))
		return;
	polled = pair;
	for (unsigned i = 0; i < 2; i++)
		fds[i] = (struct pollfd){.fd = pair->end[i].fd, .events = POLLIN};
	n = poll_sockets(fds, 2, NSEC_PER_MSEC, NULL, lookup);
	if (n < 0 && pair_state(pair) == PAIR_OPEN)
		pair_fail(pair, 0, "cannot poll", n, 0);
	pair_leave(pair);
}

void traffic_change_logic(struct worker *worker, struct pair *pair)
{
	static const int logics[] = {0, 1, 10, 11, 11, 11, 20, 30};
	struct tsock *ts = &pair->end[worker_random(worker, 2)];
	int logic = logics[worker_random(worker, sizeof(logics) / sizeof(*logics))], rc;
	unsigned sides = 1 + worker_random(worker, 3);

	if (!pair_enter(pair))
		return;
	rc = tsock_set_logic(ts, logic, worker_random(worker, 4), sides & 1, sides & 2);
	if (rc && pair_state(pair) == PAIR_OPEN)
		pair_fail(pair, 0, "cannot change the logic", rc, logic);
	pair_leave(pair);
}

void traffic_move(struct worker *worker, struct pair *pair, unsigned users)
{
	for (unsigned i = 0; i < 2; i++) {
		unsigned sides = worker_random(worker, 2) ? 3 : 1 + worker_random(worker, 2);
		int rc;

		if (!pair_enter(pair))
			return;
		rc = tsock_set_logic(&pair->end[i], 11, 1 + worker_random(worker, users), sides & 1,
				     sides & 2);
		if (rc && pair_state(pair) == PAIR_OPEN)
			pair_fail(pair, 0, "cannot ask it to move", rc, 0);
		pair_leave(pair);
	}
}

/* ---- all of it ------------------------------------------------------------------------------------ */

static void listen_at(struct traffic *traffic, unsigned i, uint32_t addr)
{
	struct tsock *ts = &traffic->listener[i];

	*ts = tsock_tcp();
	NET_CHECK(ts->fd >= 0);
	NET_CHECK_EQ(tsock_bind(ts, addr, 7000 + i), 0);
	NET_CHECK_EQ(tsock_listen(ts, 128), 0);
	traffic->listening[i] = tsock_name(ts);
}

void traffic_init(struct traffic *traffic, unsigned pairs, unsigned kinds, bool options)
{
	memset(traffic, 0, sizeof(*traffic));
	traffic->n_pairs = pairs;
	traffic->kinds = kinds;
	traffic->options = options;
	traffic->patience = NET_PATIENCE * NSEC_PER_MSEC * NET_SLOW;
	for (unsigned i = 0; i < pairs; i++) {
		struct pair *pair = &traffic->pairs[i];

		pair->number = i;
		pair->end[0] = pair->end[1] = TSOCK_NONE;
		for (unsigned d = 0; d < 2; d++) {
			pthread_mutex_init(&pair->dir[d].tx, NULL);
			pthread_mutex_init(&pair->dir[d].rx, NULL);
		}
	}
	listen_at(traffic, 0, fake_link_addr(1));
	listen_at(traffic, 1, INADDR_ANY);
}

static void check_age(const struct traffic *traffic, const struct pair *pair)
{
	nsec_t since = __atomic_load_n(&pair->since, __ATOMIC_ACQUIRE);

	if (pair_state(pair) == PAIR_OPENING && clock_now() - since > traffic->patience &&
	    __atomic_load_n(&pair->since, __ATOMIC_RELAXED) == since)
		pair_fail(pair, 0, "nobody accepts it", 0, 0);
}

void traffic_renew(struct worker *worker, struct pair *pair)
{
	pair_close(worker, pair, worker_random(worker, 2));
	traffic_open(worker, pair);
	check_age(worker->traffic, pair);
}

void traffic_act(struct worker *worker)
{
	struct traffic *traffic = worker->traffic;
	struct pair *pair = &traffic->pairs[worker_random(worker, traffic->n_pairs)];
	unsigned what = worker_random(worker, 1000);

	if (what < 800)
		traffic_session(worker, pair, 10 + worker_random(worker, 50));
	else if (what < 900)
		traffic_accept(worker);
	else if (what < 920)
		poll_round(pair);
	else if (what < 950)
		pair_close(worker, pair, worker_random(worker, 2));
	else if (what < 952)
		fake_netlink_change(worker_random(worker, 2));
	else if (what < 970 && traffic->options)
		traffic_change_logic(worker, pair);
	traffic_open(worker, pair);
	check_age(traffic, pair);
}

struct worker traffic_worker(struct traffic *traffic, unsigned seed, unsigned i)
{
	return (struct worker){traffic, (seed + 1) * 0x9e3779b97f4a7c15ull + i * 7919 + 1};
}

void *traffic_work(void *arg)
{
	struct worker *worker = arg;

	while (clock_now() < worker->traffic->until)
		traffic_act(worker);
	NET_CHECK(!hold_current);
	return NULL;
}

void traffic_end(struct worker *worker)
{
	struct traffic *traffic = worker->traffic;
	nsec_t until = clock_now() + traffic->patience;

	for (unsigned i = 0; i < traffic->n_pairs; i++) {
		struct pair *pair = &traffic->pairs[i];

		while (pair_state(pair) == PAIR_OPENING && clock_now() < until) {
			traffic_accept(worker);
			sock_poll_ring(tsock_home(&pair->end[0]));
		}
		if (pair_state(pair) == PAIR_OPENING)
			pair_fail(pair, 0, "nobody accepted it", 0, 0);
		pair_close(worker, pair, true);
		NET_CHECK_EQ(pair_state(pair), PAIR_FREE);
	}
	for (unsigned i = 0; i < 2; i++)
		tsock_close(&traffic->listener[i]);
}

static struct sock_move_stats moves(const struct sock_move_stats *stats)
{
	return (struct sock_move_stats){
		.started = __atomic_load_n(&stats->started, __ATOMIC_RELAXED),
		.finished = __atomic_load_n(&stats->finished, __ATOMIC_RELAXED),
		.abandoned = __atomic_load_n(&stats->abandoned, __ATOMIC_RELAXED),
	};
}

void traffic_show(const struct traffic *traffic, const char *name)
{
	const struct traffic_stats *s = &traffic->stats;
	struct sock_move_stats rx = moves(&sock_moves_rx), tx = moves(&sock_moves_tx);

	if (!getenv("VMA_STRESS_SHOW"))
		return;
	printf("%s: %lu datagrams, %lu bytes, %lu out of order, %lu opened, %lu closed, %lu accepted, %lu strays; moves rx %u/%u/%u, tx %u/%u/%u\n",
	       name, s->datagrams, s->bytes, s->reordered, s->opened, s->closed, s->accepted,
	       s->strays, rx.started, rx.finished, rx.abandoned, tx.started, tx.finished,
	       tx.abandoned);
}
