/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues of a team, and the frames that they send and receive. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "ring/team/team_internal.h"

/* ---- parts (holder) ----------------------------------------------------------------------- */

static void watch(struct team_queue *q, struct port_queue *part, int op)
{
	int fds[PORT_FDS_MAX], n = part->ops->fds(part, fds);

	for (int f = 0; f < n; f++) {
		struct epoll_event event = {.events = EPOLLIN};

		sys_call(SYS_epoll_ctl, q->epoll_fd, op, fds[f], &event, 0, 0);
	}
}

/*
 * The ring looks at one number, and a part that is short is enough: that number is what all
 * parts would have if they had as few as the shortest.
 */
static void tell_free(struct team_queue *q)
{
	unsigned least = UINT32_MAX, n = 0;

	for (unsigned i = 0; i < q->n; i++) {
		if (!q->parts[i])
			continue;
		n++;
		if (q->parts[i]->frames_free < least)
			least = q->parts[i]->frames_free;
	}
	q->base.frames_free = n ? least * n : 0;
}

/* The parts have changed: what depends on them. */
static void count_parts(struct team_queue *q)
{
	struct port_queue **link = &q->base.parts;
	struct ring *ring = team_ring_of(q);

	q->n = 0;
	q->base.frames = 0;
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		if (!q->parts[i])
			continue;
		q->n = i + 1;
		q->base.frames += q->parts[i]->frames;
		*link = q->parts[i];
		link = &q->parts[i]->next;
	}
	*link = NULL;
	if (q->next >= q->n)
		q->next = 0;
	if (q->guess >= q->n)
		q->guess = 0;
	if (ring && ring_queue(ring) == &q->base)
		ring->low_water = q->base.frames / 8;
	tell_free(q);
}

void team_attach_part(struct team_queue *q, unsigned slot, struct port_queue *part)
{
	watch(q, part, EPOLL_CTL_ADD);
	if (q->stamped)
		part->ops->stamp(part);
	mutex_lock(&q->team->lock);
	q->parts[slot] = part;
	mutex_unlock(&q->team->lock);
	q->emptying &= ~(1u << slot);
	count_parts(q);
}

void team_detach_part(struct team_queue *q, unsigned slot)
{
	struct port_queue *part = q->parts[slot];

	part->ops->tx_flush(part); /* gives back what was put */
	watch(q, part, EPOLL_CTL_DEL);
	mutex_lock(&q->team->lock);
	q->parts[slot] = NULL;
	mutex_unlock(&q->team->lock);
	q->lost[slot] = part;
	count_parts(q);
}

static __attribute__((noinline)) void close_lost(struct team_queue *q, unsigned i)
{
	struct port_queue *part = q->lost[i];

	/* Those of a port that was removed are closed by port_team_reap(). */
	if (!port_is_lost(part->port) || !part->ops->idle(part))
		return;
	part->ops->close_queue(part);
	q->lost[i] = NULL;
}

static void follow_losses(struct team_queue *q)
{
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		if (q->parts[i] && __builtin_expect(port_is_lost(q->parts[i]->port), 0))
			team_detach_part(q, i); /* closed when its packets are back */
		if (__builtin_expect(q->lost[i] != NULL, 0))
			close_lost(q, i);
	}
}

/* ---- frames that arrive -------------------------------------------------------------------- */

/*
 * What a port has when it is not heard any more arrived before, and is delivered.  More cannot be
 * told from what arrives later.
 */
static __attribute__((noinline)) void hear_others(struct team_queue *q, uint32_t hears)
{
	uint32_t before = q->heard;

	q->heard = hears;
	q->emptying = (q->emptying | before) & ~hears;
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		if ((before & ~hears) >> i & 1)
			q->rest[i] = q->parts[i] ? q->parts[i]->frames : 0;
	}
}

/* Of n frames from a part that is not heard: the number that is delivered. */
static __attribute__((noinline)) int drop_unheard(struct team_queue *q, unsigned i,
						  struct pkt **pkts, int n, int asked)
{
	struct ring *ring = team_ring_of(q);

	if (q->emptying >> i & 1) {
		if (n < asked || (unsigned)n >= q->rest[i])
			q->emptying &= ~(1u << i);
		else
			q->rest[i] -= (unsigned)n;
		return n;
	}
	for (int p = 0; p < n; p++) {
		pkt_free(pkts[p]);
		if (ring)
			ring_drop_of(ring, DROP_BOND_BACKUP, NULL);
	}
	return 0;
}

int team_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	struct team_queue *q = team_queue_of(base);
	uint32_t hears = __atomic_load_n(&q->team->hears, __ATOMIC_RELAXED);
	unsigned i;
	int n = 0;

	follow_losses(q);
	if (__builtin_expect(hears != q->heard, 0))
		hear_others(q, hears);
	i = q->next;
	for (unsigned asked = 0; asked < q->n && n < max; asked++) {
		struct port_queue *part = q->parts[i];

		if (part) {
			int got = part->ops->rx_burst(part, pkts + n, max - n);

			if (__builtin_expect(!(hears >> i & 1), 0))
				got = drop_unheard(q, i, pkts + n, got, max - n);
			n += got;
		}
		if (++i >= q->n)
			i = 0;
	}
	q->next = i;
	tell_free(q);
	return n;
}

/* ---- frames that leave --------------------------------------------------------------------- */

/* Without rules: of the destination address. */
static uint32_t hash_destination(const uint8_t *frame)
{
	const uint8_t *at = frame + ETH_HDR;
	uint32_t word, hash = 0;
	unsigned words = 1;

	if (at[-2] == 0x81 && at[-1] == 0x00)
		at += ETH_TAG;
	if (at[-2] == 0x86 && at[-1] == 0xdd)
		words = 4;
	at += words == 4 ? 24 : 16; /* the destination address of IPv6, of IPv4 */
	for (unsigned w = 0; w < words; w++) {
		memcpy(&word, at + 4 * w, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b1u;
	}
	return hash;
}

static inline unsigned sender_at(uint64_t senders, unsigned i)
{
	return senders >> (4 + 4 * i) & 0xf;
}

/* The slot of the part that sends the frame; TEAM_PORTS_MAX: none does. */
static unsigned part_for(const struct team_queue *q, const struct pkt *pkt)
{
	const struct team_port *team = q->team;
	uint64_t senders = __atomic_load_n(&team->senders, __ATOMIC_RELAXED);
	unsigned n = senders & 0xf, first = 0;

	if (n > 1 && team->rules && team->rules->hash)
		first = team->rules->hash(pkt->frame, team->arg) % n;
	else if (n > 1)
		first = (unsigned)((uint64_t)hash_destination(pkt->frame) * n >> 32);
	/* The queue may lack a part, because its port is lost, or has just come. */
	for (unsigned tried = 0; tried < n; tried++) {
		unsigned i = sender_at(senders, first);

		if (q->parts[i])
			return i;
		if (++first == n)
			first = 0;
	}
	return TEAM_PORTS_MAX;
}

/* A guess: frames of a burst often have one destination. */
struct pkt *team_tx_get(struct port_queue *base)
{
	struct team_queue *q = team_queue_of(base);
	struct port_queue *part;

	for (unsigned tried = 0; !q->parts[q->guess] && tried < q->n; tried++)
		q->guess = (q->guess + 1) % q->n;
	part = q->parts[q->guess];
	return part ? part->ops->tx_get(part) : NULL;
}

/* Puts a copy in a frame of the part, where pkt is a frame of another one. */
static int put_copy(struct port_queue *part, struct pkt *pkt)
{
	struct pkt *copy = part->ops->tx_get(part);
	uint32_t len = pkt->frame_len;

	if (copy && copy->room >= len) {
		memcpy(copy->frame, pkt->frame, len);
		copy->frame_len = len;
		pkt_free(pkt);
		return part->ops->tx_put(part, copy);
	}
	if (copy)
		pkt_free(copy);
	pkt_free(pkt);
	return -ENOBUFS;
}

int team_tx_put(struct port_queue *base, struct pkt *pkt)
{
	struct team_queue *q = team_queue_of(base);
	unsigned i = part_for(q, pkt);
	struct port_queue *part;

	if (i == TEAM_PORTS_MAX) {
		pkt_free(pkt);
		return -ENOBUFS;
	}
	q->guess = i;
	part = q->parts[i];
	return pkt->pool == &part->pool ? part->ops->tx_put(part, pkt) : put_copy(part, pkt);
}

void team_tx_flush(struct port_queue *base)
{
	const struct team_queue *q = team_queue_of(base);

	for (unsigned i = 0; i < q->n; i++) {
		if (q->parts[i])
			q->parts[i]->ops->tx_flush(q->parts[i]);
	}
}

/* ---- sleeping ------------------------------------------------------------------------------ */

bool team_arm(struct port_queue *base)
{
	const struct team_queue *q = team_queue_of(base);
	bool quiet = true;

	for (unsigned i = 0; i < q->n; i++) {
		if (q->parts[i] && !q->parts[i]->ops->arm(q->parts[i]))
			quiet = false;
	}
	return quiet;
}

/* One descriptor, which stays the same when a part leaves. */
int team_fds(struct port_queue *base, int fds[PORT_FDS_MAX])
{
	fds[0] = team_queue_of(base)->epoll_fd;
	return 1;
}

/* ---- queues ---------------------------------------------------------------------------- */

bool team_idle(struct port_queue *base)
{
	const struct team_queue *q = team_queue_of(base);

	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		struct port_queue *part = q->parts[i] ? q->parts[i] : q->lost[i];

		if (part && !part->ops->idle(part))
			return false;
	}
	return true;
}

static void close_parts(struct team_queue *q)
{
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		struct port_queue *part = q->parts[i] ? q->parts[i] : q->lost[i];

		if (part)
			part->ops->close_queue(part);
	}
	if (q->epoll_fd >= 0)
		sys_close(q->epoll_fd);
	mem_free(q);
}

void team_close_queue(struct port_queue *base)
{
	struct team_queue *q = team_queue_of(base);

	team_forget_flows(q);
	mutex_lock(&q->team->lock);
	list_remove(&q->link);
	mutex_unlock(&q->team->lock);
	close_parts(q);
}

/* Packets belong to parts; the queue itself hands out none. */
static void no_packet(struct pkt_pool *pool, struct pkt *pkt)
{
	(void)pool;
	(void)pkt;
	__builtin_trap();
}

static int open_parts(struct team_queue *q, char why[PORT_WHY])
{
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		struct port *port = q->team->ports[i];
		struct port_queue *part;
		int rc;

		/* A team with a lost port goes on without it. */
		if (!port || q->team->leaving >> i & 1 || port_is_lost(port))
			continue;
		rc = port->ops->open_queue(port, &part, why);
		if (rc)
			return rc;
		team_attach_part(q, i, part);
	}
	return 0;
}

int team_open_queue(struct port *port, struct port_queue **out, char why[PORT_WHY])
{
	struct team_queue *q = mem_zalloc(sizeof(*q));
	int rc;

	snprintf(why, PORT_WHY, "No memory or no descriptor for a queue of %s.\n", port->name);
	if (!q)
		return -ENOMEM;
	q->team = team_of(port);
	q->base = (struct port_queue){.port = port, .ops = port->ops, .pool.put = no_packet};
	q->heard = __atomic_load_n(&q->team->hears, __ATOMIC_RELAXED);
	q->epoll_fd = sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
	rc = q->epoll_fd < 0 ? q->epoll_fd : open_parts(q, why);
	if (rc) {
		close_parts(q);
		return rc;
	}
	mutex_lock(&q->team->lock);
	list_push_back(&q->team->queues, &q->link);
	mutex_unlock(&q->team->lock);
	*out = &q->base;
	return 0;
}
