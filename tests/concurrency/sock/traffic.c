/* SPDX-License-Identifier: BSD-2-Clause */
#include "traffic.h"

#include <stdio.h>
#include <string.h>
#include <sys/poll.h>
#include <unistd.h>

#include "sock/epoll.h"

#define MAGIC 0x57a3b1e5u
#define PAYLOAD_MAX 200
#define CALL_TIMEOUT 3 /* ms, of a call that blocks */

/* A datagram. */
struct stamp {
	uint32_t magic;
	uint32_t pair, age, dir;
	uint64_t number;
	uint32_t starts; /* moves begun before it was sent */
	uint32_t calm;	 /* and all had ended */
	uint32_t len;
	uint32_t sum;
};

#define ADD(what, n) __atomic_fetch_add(&(what), (n), __ATOMIC_RELAXED)

static int state_of(const struct pair *pair)
{
	return __atomic_load_n(&pair->state, __ATOMIC_SEQ_CST);
}

static void set_state(struct pair *pair, int state)
{
	__atomic_store_n(&pair->state, state, __ATOMIC_SEQ_CST);
}

static bool change_state(struct pair *pair, int from, int to)
{
	return __atomic_compare_exchange_n(&pair->state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static bool enter(struct pair *pair)
{
	__atomic_fetch_add(&pair->users, 1, __ATOMIC_SEQ_CST);
	if (state_of(pair) == PAIR_OPEN)
		return true;
	__atomic_fetch_sub(&pair->users, 1, __ATOMIC_SEQ_CST);
	return false;
}

static void leave(struct pair *pair)
{
	__atomic_fetch_sub(&pair->users, 1, __ATOMIC_SEQ_CST);
}

static uint64_t load(const uint64_t *value)
{
	return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

static void fail(const struct pair *pair, unsigned dir, const char *what, long a, long b)
{
	const struct direction *d = &pair->dir[dir];

	fprintf(stderr,
		"pair %u (kind %d, age %u, state %d), direction %u, %lu sent, %lu received: %s: %ld, %ld\n",
		pair->number, pair->kind, pair->age, state_of(pair), dir, (long)load(&d->sent),
		(long)load(&d->got), what, a, b);
	abort();
}

/* ---- datagrams ------------------------------------------------------------------------- */

static uint32_t checksum(const uint8_t *data, size_t len)
{
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ data[i]) * 16777619u;
	return sum;
}

static bool is_calm(uint32_t *starts)
{
	unsigned before = loop_net_starts();
	unsigned ended = loop_net_moves() +
			 __atomic_load_n(&sock_moves_rx.abandoned, __ATOMIC_RELAXED) +
			 __atomic_load_n(&sock_moves_tx.abandoned, __ATOMIC_RELAXED);

	*starts = before;
	return ended == before && loop_net_starts() == before;
}

static ssize_t send_datagram(struct hand *hand, struct pair *pair, unsigned dir)
{
	struct direction *d = &pair->dir[dir];
	uint8_t buf[sizeof(struct stamp) + PAYLOAD_MAX];
	struct stamp stamp = {.magic = MAGIC, .pair = pair->number, .age = pair->age, .dir = dir};
	size_t len = hand_random(hand, PAYLOAD_MAX);
	ssize_t n;

	if ((int64_t)(load(&d->sent) - load(&d->got)) >= TRAFFIC_WINDOW)
		return -EAGAIN;
	for (size_t i = 0; i < len; i++)
		buf[sizeof(stamp) + i] = (uint8_t)(hand->rnd >> (i % 8 * 8));
	stamp.number = d->sent;
	stamp.len = (uint32_t)len;
	stamp.calm = is_calm(&stamp.starts);
	memcpy(buf, &stamp, sizeof(stamp));
	stamp.sum = checksum(buf, sizeof(stamp) + len);
	memcpy(buf, &stamp, sizeof(stamp));
	n = pair->kind == PAIR_UDP
		    ? tsock_send(&pair->end[dir], buf, sizeof(stamp) + len, MSG_DONTWAIT)
		    : tsock_sendto(&pair->end[dir], buf, sizeof(stamp) + len, &pair->name[1 - dir]);
	if (n > 0) {
		if (n != (ssize_t)(sizeof(stamp) + len))
			fail(pair, dir, "part of a datagram was sent", n, (long)len);
		__atomic_fetch_add(&d->sent, 1, __ATOMIC_ACQ_REL);
		ADD(hand->traffic->stats.datagrams, 1);
	}
	return n;
}

/* It came after one that was sent later. */
static void note_reorder(struct hand *hand, struct pair *pair, unsigned dir,
			 const struct stamp *stamp)
{
	uint32_t starts = loop_net_starts();

	if (stamp->calm && stamp->starts == starts)
		fail(pair, dir, "out of order, and nothing moved", (long)stamp->number,
		     (long)pair->dir[dir].next);
	ADD(hand->traffic->stats.reordered, 1);
}

static void check_number(struct hand *hand, struct pair *pair, unsigned dir,
			 const struct stamp *stamp)
{
	struct direction *d = &pair->dir[dir];
	unsigned i = 0;

	if (stamp->number >= d->next) {
		for (; d->next < stamp->number; d->next++) {
			if (d->n_missing == TRAFFIC_WINDOW)
				fail(pair, dir, "more are missing than were sent", 0, 0);
			d->missing[d->n_missing++] = d->next;
		}
		d->next++;
		return;
	}
	while (i < d->n_missing && d->missing[i] != stamp->number)
		i++;
	if (i == d->n_missing)
		fail(pair, dir, "received twice", (long)stamp->number, (long)d->next);
	d->missing[i] = d->missing[--d->n_missing];
	note_reorder(hand, pair, dir, stamp);
}

static ssize_t recv_datagram(struct hand *hand, struct pair *pair, unsigned dir, int flags)
{
	struct direction *d = &pair->dir[dir];
	uint8_t buf[sizeof(struct stamp) + PAYLOAD_MAX + 1];
	struct stamp stamp;
	uint32_t sum;
	ssize_t n = tsock_recv(&pair->end[1 - dir], buf, sizeof(buf), flags);

	if (n < 0)
		return n;
	if ((size_t)n < sizeof(stamp))
		fail(pair, dir, "a datagram is too short", n, 0);
	memcpy(&stamp, buf, sizeof(stamp));
	sum = stamp.sum;
	memset(buf + offsetof(struct stamp, sum), 0, sizeof(sum));
	if (stamp.magic != MAGIC || sizeof(stamp) + stamp.len != (size_t)n ||
	    sum != checksum(buf, (size_t)n))
		fail(pair, dir, "a datagram is damaged", n, stamp.len);
	if (stamp.pair != pair->number || stamp.age != pair->age || stamp.dir != dir)
		fail(pair, dir, "a datagram is another's", stamp.pair, stamp.age);
	check_number(hand, pair, dir, &stamp);
	__atomic_fetch_add(&d->got, 1, __ATOMIC_ACQ_REL);
	return n;
}

/* ---- streams ------------------------------------------------------------------------------ */

static uint8_t byte_at(const struct pair *pair, unsigned dir, uint64_t pos)
{
	uint64_t x = (pos >> 3) * 0x9e3779b97f4a7c15ull + pair->age * 31 + pair->number * 7 + dir;

	return (uint8_t)((x ^ x >> 29) >> (pos & 7));
}

static ssize_t send_bytes(struct hand *hand, struct pair *pair, unsigned dir)
{
	struct direction *d = &pair->dir[dir];
	size_t len = hand_random(hand, 4) ? 1 + hand_random(hand, 300) : 1000;
	uint8_t buf[1000];
	ssize_t n;

	if ((int64_t)(load(&d->sent) - load(&d->got)) >= TRAFFIC_TCP_WINDOW)
		return -EAGAIN;
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_at(pair, dir, d->sent + i);
	n = tsock_send(&pair->end[dir], buf, len, hand_random(hand, 100) ? MSG_DONTWAIT : 0);
	if (n > 0) {
		__atomic_fetch_add(&d->sent, (uint64_t)n, __ATOMIC_ACQ_REL);
		ADD(hand->traffic->stats.bytes, (unsigned long)n);
	}
	return n;
}

/* 0: the end. */
static ssize_t recv_bytes(struct hand *hand, struct pair *pair, unsigned dir, int flags)
{
	struct direction *d = &pair->dir[dir];
	uint8_t buf[2000];
	size_t len = hand_random(hand, 4) ? sizeof(buf) : 1 + hand_random(hand, 100);
	ssize_t n = tsock_recv(&pair->end[1 - dir], buf, len, flags);

	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] != byte_at(pair, dir, d->got + (uint64_t)i))
			fail(pair, dir, "a byte is another one", (long)d->got + i, buf[i]);
	}
	if (n > 0)
		__atomic_fetch_add(&d->got, (uint64_t)n, __ATOMIC_ACQ_REL);
	return n;
}

/* ---- one pair ------------------------------------------------------------------------------ */

/* What a call returned: may it be so?  The end of a stream is no error here. */
static bool check_result(const struct pair *pair, unsigned dir, const char *what, ssize_t n)
{
	if (n > 0 || n == -EAGAIN)
		return n > 0;
	if (state_of(pair) == PAIR_OPEN)
		fail(pair, dir, what, (long)n, 0);
	return false;
}

static void send_some(struct hand *hand, struct pair *pair, unsigned dir)
{
	unsigned n = 1 + hand_random(hand, 6);
	ssize_t rc;

	do {
		rc = pair->kind == PAIR_TCP ? send_bytes(hand, pair, dir)
					    : send_datagram(hand, pair, dir);
	} while (check_result(pair, dir, "cannot send", rc) && --n);
}

static ssize_t recv_one(struct hand *hand, struct pair *pair, unsigned dir, int flags)
{
	return pair->kind == PAIR_TCP ? recv_bytes(hand, pair, dir, flags)
				      : recv_datagram(hand, pair, dir, flags);
}

static void recv_some(struct hand *hand, struct pair *pair, unsigned dir)
{
	int flags = hand_random(hand, 200) ? MSG_DONTWAIT : 0;
	unsigned n = 1 + hand_random(hand, 8);

	while (check_result(pair, dir, "cannot receive", recv_one(hand, pair, dir, flags)) && --n)
		flags = MSG_DONTWAIT;
}

void traffic_session(struct hand *hand, struct pair *pair, unsigned rounds)
{
	unsigned wanted = hand_random(hand, 3) ? 15 : 1 + hand_random(hand, 15), got = 0;

	if (!enter(pair))
		return;
	for (unsigned d = 0; d < 2; d++) {
		if ((wanted & 1u << d) && !pthread_mutex_trylock(&pair->dir[d].tx))
			got |= 1u << d;
		if ((wanted & 4u << d) && !pthread_mutex_trylock(&pair->dir[d].rx))
			got |= 4u << d;
	}
	while (got && rounds-- && state_of(pair) == PAIR_OPEN) {
		for (unsigned d = 0; d < 2; d++) {
			if (got & 1u << d)
				send_some(hand, pair, d);
			if (got & 4u << d)
				recv_some(hand, pair, d);
		}
	}
	for (unsigned d = 0; d < 2; d++) {
		if (got & 1u << d)
			pthread_mutex_unlock(&pair->dir[d].tx);
		if (got & 4u << d)
			pthread_mutex_unlock(&pair->dir[d].rx);
	}
	leave(pair);
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

	if (!enter(pair))
		return;
	polled = pair;
	for (unsigned i = 0; i < 2; i++)
		fds[i] = (struct pollfd){.fd = pair->end[i].fd, .events = POLLIN};
	n = poll_sockets(fds, 2, NSEC_PER_MSEC, NULL, lookup);
	if (n < 0 && state_of(pair) == PAIR_OPEN)
		fail(pair, 0, "cannot poll", n, 0);
	leave(pair);
}

void traffic_change_logic(struct hand *hand, struct pair *pair)
{
	static const int logics[] = {0, 1, 10, 11, 11, 11, 20, 30};
	struct tsock *ts = &pair->end[hand_random(hand, 2)];
	int logic = logics[hand_random(hand, sizeof(logics) / sizeof(*logics))], rc;
	unsigned sides = 1 + hand_random(hand, 3);

	if (!enter(pair))
		return;
	rc = tsock_set_logic(ts, logic, hand_random(hand, 4), sides & 1, sides & 2);
	if (rc && state_of(pair) == PAIR_OPEN)
		fail(pair, 0, "cannot change the logic", rc, logic);
	leave(pair);
}

/* ---- opening ---------------------------------------------------------------------------------- */

static void set_timeouts(struct tsock *ts)
{
	tsock_block(ts, true);
	NET_CHECK_EQ(tsock_set_timeout(ts, SO_RCVTIMEO, CALL_TIMEOUT), 0);
	NET_CHECK_EQ(tsock_set_timeout(ts, SO_SNDTIMEO, CALL_TIMEOUT), 0);
}

static void bind_new_port(struct hand *hand, struct tsock *ts, uint32_t addr)
{
	int rc;

	do {
		rc = tsock_bind(ts, addr, 10000 + ADD(hand->traffic->next_port, 1) % 50000);
	} while (rc == -EADDRINUSE);
	NET_CHECK_EQ(rc, 0);
}

static uint32_t some_addr(struct hand *hand)
{
	return fake_link_addr(hand_random(hand, FAKE_LINK_ADDRS));
}

static void open_udp(struct hand *hand, struct pair *pair)
{
	for (unsigned i = 0; i < 2; i++) {
		bool wild = pair->kind == PAIR_UDP_UNCONNECTED && hand_random(hand, 2);

		pair->end[i] = tsock_udp();
		NET_CHECK(pair->end[i].fd >= 0);
		set_timeouts(&pair->end[i]);
		bind_new_port(hand, &pair->end[i], wild ? INADDR_ANY : some_addr(hand));
		pair->name[i] = tsock_name(&pair->end[i]);
		if (wild)
			pair->name[i].sin_addr.s_addr = some_addr(hand);
	}
	for (unsigned i = 0; i < 2 && pair->kind == PAIR_UDP; i++)
		NET_CHECK_EQ(tsock_connect(&pair->end[i], &pair->name[1 - i]), 0);
	set_state(pair, PAIR_OPEN);
}

/* Its other end is whoever is accepted and comes from its address. */
static void open_tcp(struct hand *hand, struct pair *pair)
{
	unsigned which = hand_random(hand, 2);
	struct sockaddr_in to = hand->traffic->listening[which];
	struct tsock *ts = &pair->end[0], copy;
	int rc;

	if (!to.sin_addr.s_addr)
		to.sin_addr.s_addr = some_addr(hand);
	*ts = tsock_tcp();
	NET_CHECK(ts->fd >= 0);
	set_timeouts(ts);
	bind_new_port(hand, ts, some_addr(hand));
	pair->name[0] = tsock_name(ts);
	pair->end[1] = TSOCK_NONE;
	copy = *ts;
	ADD(pair->users, 1);
	set_state(pair, PAIR_OPENING);
	rc = tsock_connect(&copy, &to);
	if (rc && rc != -EINPROGRESS && state_of(pair) <= PAIR_OPEN)
		fail(pair, 0, "cannot connect", rc, 0);
	leave(pair);
}

bool traffic_open(struct hand *hand, struct pair *pair)
{
	struct traffic *traffic = hand->traffic;

	if (!change_state(pair, PAIR_FREE, PAIR_BUSY))
		return false;
	pair->age++;
	pair->since = clock_now();
	for (unsigned i = 0; i < 2; i++) {
		struct direction *d = &pair->dir[i];

		d->sent = d->got = d->next = d->n_missing = 0;
	}
	do {
		pair->kind = hand_random(hand, PAIR_KINDS);
	} while (!(traffic->kinds & 1u << pair->kind));
	ADD(traffic->stats.opened, 1);
	if (pair->kind == PAIR_TCP)
		open_tcp(hand, pair);
	else
		open_udp(hand, pair);
	return true;
}

/* Whose connection is it?  Nobody's, if its opener has closed it already. */
static struct pair *pair_of(struct traffic *traffic, const struct sockaddr_in *from)
{
	for (unsigned i = 0; i < traffic->n_pairs; i++) {
		struct pair *pair = &traffic->pairs[i];

		if (!change_state(pair, PAIR_OPENING, PAIR_BUSY))
			continue;
		if (pair->name[0].sin_port == from->sin_port &&
		    pair->name[0].sin_addr.s_addr == from->sin_addr.s_addr)
			return pair;
		set_state(pair, PAIR_OPENING);
	}
	return NULL;
}

static struct pair *find_opener(struct traffic *traffic, const struct sockaddr_in *from)
{
	struct pair *pair = NULL;

	/* Others look through the pairs as well: one may be theirs for a moment. */
	for (int tries = 0; tries < 10 && !pair; tries++)
		pair = pair_of(traffic, from);
	return pair;
}

static void accept_one(struct hand *hand, struct tsock *listener)
{
	struct traffic *traffic = hand->traffic;
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
	set_state(pair, PAIR_OPEN);
}

void traffic_accept(struct hand *hand)
{
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned n = 0; n < 4; n++)
			accept_one(hand, &hand->traffic->listener[i]);
	}
}

/* ---- closing ----------------------------------------------------------------------------------- */

static void close_end(struct pair *pair, unsigned i, bool reset)
{
	struct tsock ts = pair->end[i]; /* others still read theirs */

	if (ts.fd < 0)
		return;
	if (reset && pair->kind == PAIR_TCP)
		tsock_linger_none(&ts);
	tsock_close(&ts);
}

static void wait_for_users(struct pair *pair)
{
	nsec_t until = clock_now() + 10 * NSEC_PER_SEC * NET_SLOW;

	while (__atomic_load_n(&pair->users, __ATOMIC_SEQ_CST)) {
		if (clock_now() > until)
			fail(pair, 0, "somebody does not come back", pair->users, 0);
		sched_yield();
	}
}

/* In the middle of everything.  The one that goes last leaves no TIME_WAIT behind. */
static void close_abruptly(struct hand *hand, struct pair *pair)
{
	unsigned first = hand_random(hand, 2);

	if (pair->end[1].fd < 0)
		first = 1;
	close_end(pair, first, hand_random(hand, 2));
	close_end(pair, 1 - first, true);
	wait_for_users(pair);
}

/* Until everything that was sent is there. */
static void drain(struct hand *hand, struct pair *pair)
{
	nsec_t until = clock_now() + hand->traffic->patience;

	for (unsigned d = 0; d < 2; d++) {
		while (load(&pair->dir[d].got) < load(&pair->dir[d].sent)) {
			ssize_t n = recv_one(hand, pair, d, MSG_DONTWAIT);

			if (n > 0)
				continue;
			if (n != -EAGAIN)
				fail(pair, d, "cannot receive the rest", n, 0);
			if (clock_now() > until)
				fail(pair, d, "something is lost", 0, 0);
			sock_poll_ring(tsock_home(&pair->end[d]));
			sched_yield();
		}
		if (load(&pair->dir[d].got) > load(&pair->dir[d].sent))
			fail(pair, d, "more than was sent", 0, 0);
	}
}

/* The stream ends, and where it should. */
static void expect_end(struct hand *hand, struct pair *pair, unsigned d)
{
	nsec_t until = clock_now() + hand->traffic->patience;

	for (;;) {
		ssize_t n = recv_bytes(hand, pair, d, MSG_DONTWAIT);

		if (n == 0)
			break;
		if (n < 0 && n != -EAGAIN)
			fail(pair, d, "instead of the end", n, 0);
		if (clock_now() > until)
			fail(pair, d, "the end does not come", 0, 0);
	}
	if (load(&pair->dir[d].got) != load(&pair->dir[d].sent))
		fail(pair, d, "the end comes too soon", 0, 0);
}

static void close_in_order(struct hand *hand, struct pair *pair)
{
	unsigned first = hand_random(hand, 2);

	wait_for_users(pair);
	if (pair->kind != PAIR_TCP) {
		drain(hand, pair);
	} else if (hand_random(hand, 2)) {
		/* Nobody calls on its behalf while it sends the rest. */
		while (load(&pair->dir[1 - first].got) < load(&pair->dir[1 - first].sent))
			drain(hand, pair);
		send_some(hand, pair, first);
		close_end(pair, first, false);
		expect_end(hand, pair, first);
		first = 1 - first;
		close_end(pair, first, true);
		return;
	} else {
		for (unsigned d = 0; d < 2; d++)
			NET_CHECK_EQ(tsock_shutdown(&pair->end[d], SHUT_WR), 0);
		for (unsigned d = 0; d < 2; d++)
			expect_end(hand, pair, d);
	}
	close_end(pair, first, true);
	close_end(pair, 1 - first, true);
}

static void close_pair(struct hand *hand, struct pair *pair, bool in_order)
{
	if (change_state(pair, PAIR_OPEN, PAIR_CLOSING)) {
		if (in_order)
			close_in_order(hand, pair);
		else
			close_abruptly(hand, pair);
	} else if (!in_order && change_state(pair, PAIR_OPENING, PAIR_CLOSING)) {
		close_abruptly(hand, pair);
	} else {
		return;
	}
	ADD(hand->traffic->stats.closed, 1);
	set_state(pair, PAIR_FREE);
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
	traffic->patience = 10 * NSEC_PER_SEC * NET_SLOW;
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
	if (state_of(pair) == PAIR_OPENING && clock_now() - pair->since > traffic->patience)
		fail(pair, 0, "nobody accepts it", 0, 0);
}

void traffic_act(struct hand *hand)
{
	struct traffic *traffic = hand->traffic;
	struct pair *pair = &traffic->pairs[hand_random(hand, traffic->n_pairs)];
	unsigned what = hand_random(hand, 1000);

	if (what < 800)
		traffic_session(hand, pair, 10 + hand_random(hand, 50));
	else if (what < 900)
		traffic_accept(hand);
	else if (what < 920)
		poll_round(pair);
	else if (what < 950)
		close_pair(hand, pair, hand_random(hand, 2));
	else if (what < 952)
		fake_netlink_change(hand_random(hand, 2));
	else if (what < 970 && traffic->options)
		traffic_change_logic(hand, pair);
	traffic_open(hand, pair);
	check_age(traffic, pair);
}

void traffic_end(struct hand *hand)
{
	struct traffic *traffic = hand->traffic;
	nsec_t until = clock_now() + traffic->patience;

	for (unsigned i = 0; i < traffic->n_pairs; i++) {
		struct pair *pair = &traffic->pairs[i];

		while (state_of(pair) == PAIR_OPENING && clock_now() < until) {
			traffic_accept(hand);
			sock_poll_ring(tsock_home(&pair->end[0]));
		}
		if (state_of(pair) == PAIR_OPENING)
			fail(pair, 0, "nobody accepted it", 0, 0);
		close_pair(hand, pair, true);
		NET_CHECK_EQ(state_of(pair), PAIR_FREE);
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

	printf("%s: %lu datagrams, %lu bytes, %lu out of order, %lu opened, %lu closed, %lu accepted, %lu strays; moves rx %u/%u/%u, tx %u/%u/%u\n",
	       name, s->datagrams, s->bytes, s->reordered, s->opened, s->closed, s->accepted,
	       s->strays, rx.started, rx.finished, rx.abandoned, tx.started, tx.finished,
	       tx.abandoned);
}
