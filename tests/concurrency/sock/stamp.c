/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends stamped data, and checks what arrives. */
#include "traffic_internal.h"

#include <string.h>

#define MAGIC 0x57a3b1e5u
#define PAYLOAD_MAX 200

/* A datagram. */
struct stamp {
	uint32_t magic;
	uint32_t pair, age, dir;
	uint64_t number;
	uint32_t starts; /* number of moves that had begun when it was sent */
	uint32_t calm;	 /* all of them had ended */
	uint32_t len;
	uint32_t sum;
};

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

static ssize_t send_datagram(struct worker *worker, struct pair *pair, unsigned dir)
{
	struct direction *d = &pair->dir[dir];
	uint8_t buf[sizeof(struct stamp) + PAYLOAD_MAX];
	struct stamp stamp = {.magic = MAGIC, .pair = pair->number, .age = pair->age, .dir = dir};
	size_t len = worker_random(worker, PAYLOAD_MAX);
	ssize_t n;

	if ((int64_t)(pair_count(&d->sent) - pair_count(&d->got)) >= TRAFFIC_WINDOW)
		return -EAGAIN;
	for (size_t i = 0; i < len; i++)
		buf[sizeof(stamp) + i] = (uint8_t)(worker->rnd >> (i % 8 * 8));
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
			pair_fail(pair, dir, "part of a datagram was sent", n, (long)len);
		__atomic_fetch_add(&d->sent, 1, __ATOMIC_ACQ_REL);
		ADD(worker->traffic->stats.datagrams, 1);
	}
	return n;
}

/* It arrived after one that was sent later. */
static void note_reorder(struct worker *worker, struct pair *pair, unsigned dir,
			 const struct stamp *stamp)
{
	uint32_t starts = loop_net_starts();

	if (stamp->calm && stamp->starts == starts)
		pair_fail(pair, dir, "out of order, and nothing moved", (long)stamp->number,
			  (long)pair->dir[dir].next);
	ADD(worker->traffic->stats.reordered, 1);
}

static void check_number(struct worker *worker, struct pair *pair, unsigned dir,
			 const struct stamp *stamp)
{
	struct direction *d = &pair->dir[dir];
	unsigned i = 0;

	if (stamp->number >= d->next) {
		for (; d->next < stamp->number; d->next++) {
			if (d->n_missing == TRAFFIC_WINDOW)
				pair_fail(pair, dir, "more are missing than were sent", 0, 0);
			d->missing[d->n_missing++] = d->next;
		}
		d->next++;
		return;
	}
	while (i < d->n_missing && d->missing[i] != stamp->number)
		i++;
	if (i == d->n_missing)
		pair_fail(pair, dir, "received twice", (long)stamp->number, (long)d->next);
	d->missing[i] = d->missing[--d->n_missing];
	note_reorder(worker, pair, dir, stamp);
}

static ssize_t recv_datagram(struct worker *worker, struct pair *pair, unsigned dir, int flags)
{
	struct direction *d = &pair->dir[dir];
	uint8_t buf[sizeof(struct stamp) + PAYLOAD_MAX + 1];
	struct stamp stamp;
	uint32_t sum;
	ssize_t n = tsock_recv(&pair->end[1 - dir], buf, sizeof(buf), flags);

	if (n < 0)
		return n;
	if ((size_t)n < sizeof(stamp))
		pair_fail(pair, dir, "a datagram is too short", n, 0);
	memcpy(&stamp, buf, sizeof(stamp));
	sum = stamp.sum;
	memset(buf + offsetof(struct stamp, sum), 0, sizeof(sum));
	if (stamp.magic != MAGIC || sizeof(stamp) + stamp.len != (size_t)n ||
	    sum != checksum(buf, (size_t)n))
		pair_fail(pair, dir, "a datagram is damaged", n, stamp.len);
	if (stamp.pair != pair->number || stamp.age != pair->age || stamp.dir != dir)
		pair_fail(pair, dir, "a datagram is another's", stamp.pair, stamp.age);
	check_number(worker, pair, dir, &stamp);
	__atomic_fetch_add(&d->got, 1, __ATOMIC_ACQ_REL);
	return n;
}

/* ---- streams ------------------------------------------------------------------------------ */

static uint8_t byte_at(const struct pair *pair, unsigned dir, uint64_t pos)
{
	uint64_t x = (pos >> 3) * 0x9e3779b97f4a7c15ull + pair->age * 31 + pair->number * 7 + dir;

	return (uint8_t)((x ^ x >> 29) >> (pos & 7));
}

static ssize_t send_bytes(struct worker *worker, struct pair *pair, unsigned dir)
{
	struct direction *d = &pair->dir[dir];
	size_t len = worker_random(worker, 4) ? 1 + worker_random(worker, 300) : 1000;
	uint8_t buf[1000];
	ssize_t n;

	if ((int64_t)(pair_count(&d->sent) - pair_count(&d->got)) >= TRAFFIC_TCP_WINDOW)
		return -EAGAIN;
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_at(pair, dir, d->sent + i);
	n = tsock_send(&pair->end[dir], buf, len, worker_random(worker, 100) ? MSG_DONTWAIT : 0);
	if (n > 0) {
		__atomic_fetch_add(&d->sent, (uint64_t)n, __ATOMIC_ACQ_REL);
		ADD(worker->traffic->stats.bytes, (unsigned long)n);
	}
	return n;
}

/* 0: the end of the stream. */
static ssize_t recv_bytes(struct worker *worker, struct pair *pair, unsigned dir, int flags)
{
	struct direction *d = &pair->dir[dir];
	uint8_t buf[2000];
	size_t len = worker_random(worker, 4) ? sizeof(buf) : 1 + worker_random(worker, 100);
	ssize_t n = tsock_recv(&pair->end[1 - dir], buf, len, flags);

	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] != byte_at(pair, dir, d->got + (uint64_t)i))
			pair_fail(pair, dir, "a byte is another one", (long)d->got + i, buf[i]);
	}
	if (n > 0)
		__atomic_fetch_add(&d->got, (uint64_t)n, __ATOMIC_ACQ_REL);
	return n;
}

/* ---- either ----------------------------------------------------------------------------------- */

ssize_t stamp_send(struct worker *worker, struct pair *pair, unsigned dir)
{
	return pair->kind == PAIR_TCP ? send_bytes(worker, pair, dir)
				      : send_datagram(worker, pair, dir);
}

ssize_t stamp_recv(struct worker *worker, struct pair *pair, unsigned dir, int flags)
{
	return pair->kind == PAIR_TCP ? recv_bytes(worker, pair, dir, flags)
				      : recv_datagram(worker, pair, dir, flags);
}
