/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing a queue: a slot of the group, AF_XDP sockets, rings.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define RX_ENTRIES_MIN 256u
#define TX_ENTRIES_MIN 256u
#define FREE_MAX 256u /* frames on a queue's stack */
#define FREE_MIN 16u

/* ---- one socket ------------------------------------------------------------- */

static int map_rings(struct xdp_sock *s, uint32_t rx_entries, uint32_t tx_entries)
{
	struct xdp_mmap_offsets off;
	int rc = xdp_ring_offsets(s->fd, &off);

	if (!rc)
		rc = xdp_map(&s->maps[0], off.rx.desc + rx_entries * sizeof(struct xdp_desc), s->fd,
			     XDP_PGOFF_RX_RING);
	if (!rc)
		rc = xdp_map(&s->maps[1], off.tx.desc + tx_entries * sizeof(struct xdp_desc), s->fd,
			     XDP_PGOFF_TX_RING);
	if (rc)
		return rc;
	xdp_ring_set(&s->rx, &s->maps[0], &off.rx, rx_entries);
	xdp_ring_set(&s->tx, &s->maps[1], &off.tx, tx_entries);
	s->tx.cached_cons = s->tx.size; /* see xsk_prod_nb_free() */
	return 0;
}

static int set_ring_sizes(const struct xdp_sock *s, uint32_t rx_entries, uint32_t tx_entries)
{
	int rc = xdp_set_option(s->fd, XDP_RX_RING, &rx_entries, sizeof(rx_entries));

	if (!rc)
		rc = xdp_set_option(s->fd, XDP_TX_RING, &tx_entries, sizeof(tx_entries));
	return rc;
}

static int bind_sock(const struct xdp_port *port, const struct xdp_sock *s, unsigned rx_queue)
{
	struct sockaddr_xdp addr = {
		.sxdp_family = AF_XDP,
		.sxdp_ifindex = (uint32_t)port->base.ifindex,
		.sxdp_queue_id = rx_queue,
		.sxdp_flags = XDP_SHARED_UMEM,
		.sxdp_shared_umem_fd = (uint32_t)port->anchors[rx_queue],
	};

	return xdp_bind(s->fd, &addr);
}

/*
 * Can the socket's queue send?  On an interface with fewer TX queues than RX queues (virtio_net,
 * veth) sending from the other queues does nothing and reports no error.  Only this counter
 * tells: it does not change.
 */
static bool can_send(const struct xdp_sock *s)
{
	struct xdp_statistics before, after;
	socklen_t len = sizeof(before);

	if (sys_getsockopt(s->fd, SOL_XDP, XDP_STATISTICS, &before, &len) || len < sizeof(before))
		return true;
	sys_sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
	if (sys_getsockopt(s->fd, SOL_XDP, XDP_STATISTICS, &after, &len))
		return true;
	return after.tx_ring_empty_descs != before.tx_ring_empty_descs;
}

/* In zero-copy mode every queue can receive and send. */
static unsigned count_tx_socks(const struct xdp_queue *q)
{
	unsigned n = q->zerocopy ? q->nsocks : 1;

	while (n < q->nsocks && can_send(&q->socks[n]))
		n++;
	return n;
}

static void close_sock(struct xdp_sock *s)
{
	for (size_t i = 0; i < sizeof(s->maps) / sizeof(*s->maps); i++)
		xdp_unmap(&s->maps[i]);
	sys_close(s->fd);
	if (s->big)
		pkt_free(s->big);
}

static int open_sock(struct xdp_queue *q, unsigned rx_queue, uint32_t rx_entries,
		     uint32_t tx_entries)
{
	struct xdp_port *port = (struct xdp_port *)q->base.port;
	struct xdp_sock *s = &q->socks[rx_queue];
	int rc;

	*s = (struct xdp_sock){.driver_fd = port->anchors[rx_queue],
			       .drive.quiet = XDP_DRIVE_QUIET,
			       .drive.useless = !params.xdp_busy_poll};
	s->fd = xdp_socket();
	if (s->fd < 0)
		return s->fd;
	rc = set_ring_sizes(s, rx_entries, tx_entries);
	if (!rc)
		rc = map_rings(s, rx_entries, tx_entries);
	if (!rc)
		rc = bind_sock(port, s, rx_queue);
	if (rc)
		goto close;
	rc = xdp_flow_set_socket(port, q->slot, rx_queue, s->fd);
	if (rc)
		goto close;
	return 0;

close:
	close_sock(s);
	return rc;
}

/*
 * Frames in the RX ring of a process that does not read are not available to the other rings:
 * the more rings there are, the smaller their RX rings.
 */
static uint32_t rx_entries_of(const struct xdp_group *g)
{
	uint32_t entries = XDP_RX_ENTRIES, others = g->ctl->n_slots - 1;

	while (entries / 2 >= RX_ENTRIES_MIN && entries / 2 >= g->fill_target)
		entries /= 2;
	for (unsigned halve = 0; halve < 3 && others && entries / 2 >= RX_ENTRIES_MIN; halve++) {
		entries /= 2;
		others /= 2;
	}
	return entries;
}

/* In total about as many as for one queue, but enough for a burst on each. */
static uint32_t tx_entries_of(const struct xdp_group *g)
{
	uint32_t entries = XDP_TX_ENTRIES;

	while (entries > (uint32_t)params.tx_wre)
		entries /= 2;
	for (unsigned n = g->queues; n > 1 && entries > TX_ENTRIES_MIN; n = (n + 1) / 2)
		entries /= 2;
	return entries;
}

/* ---- the queue -------------------------------------------------------------- */

static int open_socks(struct xdp_queue *q, char why[PORT_WHY])
{
	struct xdp_port *port = (struct xdp_port *)q->base.port;
	uint32_t rx_entries = rx_entries_of(q->group);
	uint32_t tx_entries = tx_entries_of(q->group);

	q->unstamped = &port->conf->unstamped;
	for (q->nsocks = 0; q->nsocks < port->group.queues; q->nsocks++) {
		int rc = open_sock(q, q->nsocks, rx_entries, tx_entries);

		if (rc)
			return xdp_why_no_sock(why, port, q->nsocks, rc);
	}
	q->tx_socks = count_tx_socks(q);
	log_debug("%s: ring %u, %u AF_XDP sockets of %u frames, %u send", port->base.name, q->slot,
		  q->nsocks, rx_entries, q->tx_socks);
	return 0;
}

/* Several sockets have one epoll descriptor, so that a thread blocks on one descriptor only. */
static int open_fds(struct xdp_queue *q, char why[PORT_WHY])
{
	const struct xdp_port *port = (const struct xdp_port *)q->base.port;

	if (q->nsocks == 1)
		return 0;
	q->fds = sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
	if (q->fds < 0)
		return xdp_why_no_sock(why, port, 0, q->fds);
	for (unsigned i = 0; i < q->nsocks; i++) {
		struct epoll_event ev = {.events = EPOLLIN};
		long rc = sys_call(SYS_epoll_ctl, q->fds, EPOLL_CTL_ADD, q->socks[i].fd, &ev, 0, 0);

		if (rc)
			return xdp_why_no_sock(why, port, i, (int)rc);
	}
	return 0;
}

static void unsteer(struct xdp_queue *q)
{
	struct xdp_port *port = (struct xdp_port *)q->base.port;
	uint8_t slots[XDP_STEER_SLOTS] = {0};
	bool locked = group_lock_wait(q->group, &q->group->ctl->lock);

	slots[q->slot] = 1;
	xdp_unsteer(port, slots);
	xdp_shares_clear(port, slots, locked);
	if (locked)
		group_lock_release(q->group, &q->group->ctl->lock);
}

static void close_socks(struct xdp_queue *q)
{
	sys_close_fd(&q->fds);
	while (q->nsocks)
		close_sock(&q->socks[--q->nsocks]);
}

static int alloc_frames(struct xdp_queue *q)
{
	struct xdp_group *g = q->group;

	q->nframes = g->frames;
	q->frame_shift = g->frame_shift;
	q->umem = g->umem;
	q->owner = g->ctl->owner;
	q->zerocopy = g->zerocopy;
	q->free.slot = q->slot;
	q->held_word = owner_word(OWNER_HELD, q->slot);
	q->sent_word = owner_word(OWNER_TX, q->slot);
	q->pkts = mem_map(g->frames * sizeof(struct pkt));
	q->free.frames = mem_alloc(g->frames * sizeof(*q->free.frames));
	if (!q->pkts || !q->free.frames)
		return -ENOMEM;
	/* As the frames: no child uses them. If it fails, the child has a copy. */
	sys_call(SYS_madvise, q->pkts, g->frames * sizeof(struct pkt), MADV_DONTFORK, 0, 0, 0);
	q->base.frames = g->frames;
	xdp_share(q);
	return 0;
}

static void free_frames(struct xdp_queue *q)
{
	mem_free(q->free.frames);
	if (q->pkts)
		mem_unmap(q->pkts, q->nframes * sizeof(struct pkt));
}

void xdp_share(struct xdp_queue *q)
{
	unsigned rings = __atomic_load_n(&q->group->ctl->n_slots, __ATOMIC_RELAXED);
	unsigned max = rings ? q->nframes / 4 / rings : FREE_MAX;

	q->free_max = max > FREE_MAX ? FREE_MAX : max < FREE_MIN ? FREE_MIN : max;
	/* What all rings take before they fill must not empty a fill ring. */
	q->fill_batch = q->group->fill_target / 2 / (rings ? rings : 1);
	if (q->fill_batch > XDP_FILL_BATCH)
		q->fill_batch = XDP_FILL_BATCH;
	q->held_max = rings > 1 ? q->nframes / 4 : q->nframes;
	xdp_count_free(q);
}

/* Without it, all is sent in frames. */
static void open_large(struct xdp_queue *q)
{
	const struct port *port = q->base.port;
	int rc = port->can.segment_max ? packet_tx_open(&q->large, port->ifindex) : 0;

	if (rc)
		log_debug("%s: no packet socket for large segments: %s", port->name,
			  strerrordesc_np(-rc));
}

static int open_queue(struct xdp_port *port, struct xdp_queue *q, char why[PORT_WHY])
{
	int rc = alloc_frames(q);

	if (rc)
		return xdp_why(why, rc, "Interface %s is not accelerated: out of memory.\n",
			       port->base.name);
	xdp_big_init(q);
	unsteer(q);
	/* After unsteer(): the ring that had the slot before has no socket in the maps. */
	xdp_unfence(port, q->slot);
	deathmark_clear(&port->lives, q->slot); /* set by the ring that had the slot before */
	rc = open_socks(q, why);
	if (!rc)
		rc = open_fds(q, why);
	if (!rc)
		open_large(q);
	if (rc)
		unsteer(q);
	return rc;
}

static void close_queue(struct xdp_port *port, struct xdp_queue *q)
{
	packet_tx_close(&q->large);
	close_socks(q);
	if (!port_is_lost(&port->base))
		deathmark_clear(&port->lives, q->slot);
	if (q->jumbos.next)
		xdp_big_fini(q);
	free_frames(q);
	if (!port_is_lost(&port->base))
		group_slot_close(&port->group, q->slot, false, group_now());
	mem_free(q);
}

int xdp_open_queue(struct port *base, struct port_queue **out, char why[PORT_WHY])
{
	struct xdp_port *port = (struct xdp_port *)base;
	struct xdp_queue *q;
	int rc;

	if (port->fenced)
		return xdp_why(
			why, -EPERM,
			"Interface %s gives no more rings to this process, which gave up its\n"
			"privileges.\n",
			base->name);
	q = mem_zalloc(sizeof(*q));
	if (!q)
		return xdp_why(why, -ENOMEM, "Interface %s is not accelerated: out of memory.\n",
			       base->name);
	rc = group_slot_open(&port->group, &q->slot);
	if (rc) {
		mem_free(q);
		return xdp_why(why, rc,
			       rc == -ENOSPC
				       ? "Interface %s has %u rings already.\n"
				       : "Interface %s: one of the processes that share it is "
					 "stopped (%u rings at most).\n",
			       base->name, XDP_STEER_SLOTS);
	}
	q->group = &port->group;
	q->fds = q->large.fd = -1;
	q->base.port = base;
	q->base.ops = base->ops;
	q->base.pool.put = xdp_pool_put;
	q->base.pool.put_some = xdp_pool_put_some;
	rc = open_queue(port, q, why);
	if (rc) {
		close_queue(port, q);
		return rc;
	}
	mutex_lock(&port->lock);
	list_push_back(&port->queues, &q->link);
	mutex_unlock(&port->lock);
	*out = &q->base;
	return 0;
}

void xdp_close_queue(struct port_queue *base)
{
	struct xdp_queue *q = (struct xdp_queue *)base;
	struct xdp_port *port = (struct xdp_port *)base->port;

	mutex_lock(&port->lock);
	list_remove(&q->link);
	mutex_unlock(&port->lock);
	if (!port_is_lost(&port->base)) {
		unsteer(q);
		base->ops->barrier(base->port);
		xdp_drain(q);
	}
	xdp_drive_log(q);
	close_queue(port, q);
}

void xdp_at_exit(struct port_queue *base, bool held)
{
	struct xdp_port *port = (struct xdp_port *)base->port;

	/*
	 * Otherwise the slot is treated as that of a killed process: the kernel gets the frames
	 * steered here until other members notice, and its frames are used again after
	 * GROUP_QUARANTINE.
	 */
	if (held && !port_is_lost(&port->base)) {
		unsteer((struct xdp_queue *)base);
		xdp_give_back((struct xdp_queue *)base);
	}

	mutex_lock(&port->lock);
	xdp_napi_unmask(port);
	mutex_unlock(&port->lock);
	xdp_drive_log((const struct xdp_queue *)base);
}

bool xdp_idle(struct port_queue *base)
{
	const struct xdp_queue *q = (const struct xdp_queue *)base;

	return !q->held;
}
