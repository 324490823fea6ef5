/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing a queue: buffers, sockets, rings.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "ring/port_xdp_internal.h"

#define BUSY_RETRIES 100 /* of 2 ms */

static int map_memory(struct xdp_map *map, size_t len, int fd, uint64_t offset)
{
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
	long addr = sys_call(SYS_mmap, NULL, len, PROT_READ | PROT_WRITE, flags, fd, offset);

	if (addr < 0 && addr > -4096)
		return (int)addr;
	*map = (struct xdp_map){.addr = (void *)addr, .len = len};
	return 0;
}

static void unmap_memory(struct xdp_map *map)
{
	if (map->addr)
		munmap(map->addr, map->len);
	*map = (struct xdp_map){0};
}

/* ---- one socket ------------------------------------------------------------- */

static int set_option(int fd, int name, const void *val, socklen_t len)
{
	return sys_setsockopt(fd, SOL_XDP, name, val, len);
}

static int set_ring_sizes(int fd)
{
	static const struct {
		int option;
		uint32_t entries;
	} rings[] = {
		{XDP_UMEM_FILL_RING, XDP_RX_ENTRIES},
		{XDP_UMEM_COMPLETION_RING, XDP_TX_ENTRIES},
		{XDP_RX_RING, XDP_RX_ENTRIES},
		{XDP_TX_RING, XDP_TX_ENTRIES},
	};

	for (size_t i = 0; i < sizeof(rings) / sizeof(*rings); i++) {
		int rc = set_option(fd, rings[i].option, &rings[i].entries, sizeof(uint32_t));

		if (rc)
			return rc;
	}
	return 0;
}

/* Both kinds of ring of xdp/xsk.h have these members, under different types. */
#define ring_set(r, map, off, entries)                                      \
	do {                                                                \
		uint8_t *at = (map)->addr;                                  \
                                                                            \
		(r)->mask = (entries)-1;                                    \
		(r)->size = (entries);                                      \
		(r)->producer = (uint32_t *)(void *)(at + (off)->producer); \
		(r)->consumer = (uint32_t *)(void *)(at + (off)->consumer); \
		(r)->flags = (uint32_t *)(void *)(at + (off)->flags);       \
		(r)->ring = at + (off)->desc;                               \
	} while (0)

static int map_rings(struct xdp_sock *s)
{
	struct xdp_mmap_offsets off;
	socklen_t len = sizeof(off);
	int rc;

	rc = sys_getsockopt(s->fd, SOL_XDP, XDP_MMAP_OFFSETS, &off, &len);
	if (rc)
		return rc;
	if (len != sizeof(off)) /* before Linux 5.4: no flags */
		return -EOPNOTSUPP;
	rc = map_memory(&s->maps[0], off.rx.desc + XDP_RX_ENTRIES * sizeof(struct xdp_desc), s->fd,
			XDP_PGOFF_RX_RING);
	if (!rc)
		rc = map_memory(&s->maps[1], off.tx.desc + XDP_TX_ENTRIES * sizeof(struct xdp_desc),
				s->fd, XDP_PGOFF_TX_RING);
	if (!rc)
		rc = map_memory(&s->maps[2], off.fr.desc + XDP_RX_ENTRIES * sizeof(uint64_t), s->fd,
				XDP_UMEM_PGOFF_FILL_RING);
	if (!rc)
		rc = map_memory(&s->maps[3], off.cr.desc + XDP_TX_ENTRIES * sizeof(uint64_t), s->fd,
				XDP_UMEM_PGOFF_COMPLETION_RING);
	if (rc)
		return rc;
	ring_set(&s->rx, &s->maps[0], &off.rx, XDP_RX_ENTRIES);
	ring_set(&s->tx, &s->maps[1], &off.tx, XDP_TX_ENTRIES);
	ring_set(&s->fill, &s->maps[2], &off.fr, XDP_RX_ENTRIES);
	ring_set(&s->comp, &s->maps[3], &off.cr, XDP_TX_ENTRIES);
	s->fill.cached_cons = s->fill.size; /* see xsk_prod_nb_free() */
	s->tx.cached_cons = s->tx.size;
	return 0;
}

static int register_umem(struct xdp_queue *q, int fd)
{
	struct xdp_umem_reg reg = {
		.addr = (uintptr_t)q->umem,
		.len = XDP_UMEM_SIZE,
		.chunk_size = 1u << q->frame_shift,
	};

	return set_option(fd, XDP_UMEM_REG, &reg, sizeof(reg));
}

/* The kernel takes queues back a little after the last user went. */
static int bind_patiently(int fd, const struct sockaddr_xdp *addr)
{
	for (int i = 0;; i++) {
		struct timespec pause = {.tv_nsec = 2 * NSEC_PER_MSEC};
		int rc = sys_bind(fd, (const struct sockaddr *)addr, sizeof(*addr));

		if (rc != -EBUSY || i == BUSY_RETRIES)
			return rc;
		sys_ppoll(NULL, 0, &pause, NULL);
	}
}

static int bind_first(const struct xdp_port *port, int fd, struct sockaddr_xdp *addr)
{
	int rc;

	addr->sxdp_flags = XDP_USE_NEED_WAKEUP;
	if (port->native) /* the kernel tries zero-copy, and falls back to copying by itself */
		return bind_patiently(fd, addr);
	addr->sxdp_flags |= XDP_COPY | XDP_USE_SG;
	rc = bind_patiently(fd, addr);
	if (rc != -EINVAL)
		return rc;
	/* Before Linux 6.6.  Only real devices never show unsplit segments. */
	if (port->base.flags & PORT_PARTIAL_CSUM)
		return -EPROTONOSUPPORT;
	addr->sxdp_flags &= (uint16_t)~XDP_USE_SG;
	return bind_patiently(fd, addr);
}

static int bind_sock(const struct xdp_queue *q, struct xdp_sock *s, unsigned rx_queue)
{
	const struct xdp_port *port = (const struct xdp_port *)q->base.port;
	struct sockaddr_xdp addr = {
		.sxdp_family = AF_XDP,
		.sxdp_ifindex = (uint32_t)port->base.ifindex,
		.sxdp_queue_id = rx_queue,
	};

	if (!rx_queue)
		return bind_first(port, s->fd, &addr);
	addr.sxdp_flags = XDP_SHARED_UMEM;
	addr.sxdp_shared_umem_fd = (uint32_t)q->socks[0].fd;
	return bind_patiently(s->fd, &addr);
}

/* Where the driver polls for us (zero-copy), ask for it; elsewhere it only costs. */
static void prefer_busy_poll(int fd)
{
	int prefer = 1, usec = 20, budget = 64;

	sys_setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &prefer, sizeof(prefer));
	sys_setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &usec, sizeof(usec));
	sys_setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget, sizeof(budget));
}

static bool is_zerocopy(int fd)
{
	struct xdp_options options = {0};
	socklen_t len = sizeof(options);

	return !sys_getsockopt(fd, SOL_XDP, XDP_OPTIONS, &options, &len) &&
	       (options.flags & XDP_OPTIONS_ZEROCOPY);
}

static void close_sock(struct xdp_sock *s)
{
	for (size_t i = 0; i < sizeof(s->maps) / sizeof(*s->maps); i++)
		unmap_memory(&s->maps[i]);
	sys_close(s->fd);
}

static int open_sock(struct xdp_queue *q, struct xdp_sock *s, unsigned rx_queue)
{
	int rc;

	*s = (struct xdp_sock){0};
	s->fd = sys_fd_hide(sys_socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
	if (s->fd < 0)
		return s->fd;
	rc = rx_queue ? 0 : register_umem(q, s->fd);
	if (!rc)
		rc = set_ring_sizes(s->fd);
	if (!rc)
		rc = map_rings(s);
	if (rc)
		goto close;
	/* Some drivers take frames at bind already. */
	s->fill_missing = q->fill_target;
	xdp_refill(q, s);
	rc = bind_sock(q, s, rx_queue);
	if (rc)
		goto close;
	if (is_zerocopy(s->fd)) {
		q->zerocopy = true;
		prefer_busy_poll(s->fd);
	}
	rc = xdp_flow_set_socket((struct xdp_port *)q->base.port, q->slot, rx_queue, s->fd);
	if (rc)
		goto close;
	return 0;

close:
	close_sock(s);
	return rc;
}

/* ---- the queue -------------------------------------------------------------- */

static int why_no_sock(char why[PORT_WHY], const char *ifname, unsigned rx_queue, int rc)
{
	switch (rc) {
	case -EPERM:
	case -EACCES:
		return xdp_why_refused(why, ifname, "open an AF_XDP socket");
	case -EBUSY:
		return xdp_why(why, rc,
			       "Interface %s is not accelerated: RX queue %u is in use by another\n"
			       "AF_XDP socket.  End the program that has it (ss --xdp -p).\n",
			       ifname, rx_queue);
	case -ENOBUFS:
		return xdp_why_memlock(why, ifname);
	case -ENETDOWN:
		return xdp_why(why, rc,
			       "Interface %s is not accelerated: it is down.\n"
			       "Bring it up before the program starts: ip link set %s up\n",
			       ifname, ifname);
	case -EPROTONOSUPPORT:
		return xdp_why(
			why, -EOPNOTSUPP,
			"Interface %s is not accelerated: its driver has no native XDP, and generic\n"
			"XDP on a virtual interface needs Linux 6.6 or later.\n",
			ifname);
	case -EAFNOSUPPORT:
		return xdp_why(why, -EOPNOTSUPP,
			       "Interface %s is not accelerated: the kernel has no AF_XDP.\n"
			       "A kernel with CONFIG_XDP_SOCKETS is needed.\n",
			       ifname);
	default:
		return xdp_why(
			why, rc,
			"Interface %s is not accelerated: no AF_XDP socket on RX queue %u (%s).\n"
			"VMA_TRACELEVEL=debug tells more.\n",
			ifname, rx_queue, strerrordesc_np(-rc));
	}
}

static int open_socks(struct xdp_queue *q, char why[PORT_WHY])
{
	struct xdp_port *port = (struct xdp_port *)q->base.port;
	unsigned want = port->rx_queues ? port->rx_queues : XDP_STEER_QUEUES;

	for (q->nsocks = 0; q->nsocks < want; q->nsocks++) {
		int rc = open_sock(q, &q->socks[q->nsocks], q->nsocks);

		/* A device that does not tell how many it has: as many as can be bound. */
		if (rc == -EINVAL && !port->rx_queues && q->nsocks)
			break;
		if (rc)
			return why_no_sock(why, port->base.name, q->nsocks, rc);
	}
	log_debug("%s: %u AF_XDP sockets, %s XDP, %s", port->base.name, q->nsocks,
		  port->native ? "native" : "generic", q->zerocopy ? "zero-copy" : "copy");
	return 0;
}

static void close_socks(struct xdp_queue *q)
{
	/* The first one last: the others share its UMEM. */
	while (q->nsocks)
		close_sock(&q->socks[--q->nsocks]);
}

static int alloc_frames(struct xdp_queue *q, uint32_t mtu, unsigned rx_queues)
{
	struct xdp_map umem = {0};
	unsigned frames;

	q->frame_shift = mtu <= XDP_MTU_OF(2048) ? 11 : 12;
	frames = XDP_UMEM_SIZE >> q->frame_shift;
	q->fill_target = frames / 2 / (rx_queues ? rx_queues : 1);
	if (q->fill_target > XDP_RX_ENTRIES)
		q->fill_target = XDP_RX_ENTRIES;
	q->pkts = mem_aligned(sizeof(struct pkt), frames * sizeof(struct pkt));
	q->free = mem_alloc(frames * sizeof(*q->free));
	if (!q->pkts || !q->free || map_memory(&umem, XDP_UMEM_SIZE, -1, 0)) {
		mem_free(q->free);
		mem_free(q->pkts);
		return -ENOMEM;
	}
	q->umem = umem.addr;
	q->base.frames = frames;
	q->base.frames_free = frames;
	memset(q->pkts, 0, frames * sizeof(struct pkt));
	for (unsigned i = 0; i < frames; i++) {
		q->pkts[i].pool = &q->base.pool;
		q->free[i] = frames - 1 - i;
	}
	return 0;
}

static void free_frames(struct xdp_queue *q)
{
	munmap(q->umem, XDP_UMEM_SIZE);
	mem_free(q->free);
	mem_free(q->pkts);
}

static int take_slot(struct xdp_port *port)
{
	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++)
		if (!(port->slots & (1ull << i))) {
			port->slots |= 1ull << i;
			return (int)i;
		}
	return -ENOSPC;
}

static void put_slot(struct xdp_port *port, unsigned slot)
{
	port->slots &= ~(1ull << slot);
}

int xdp_open_queue(struct port *base, struct port_queue **out, char why[PORT_WHY])
{
	struct xdp_port *port = (struct xdp_port *)base;
	struct xdp_queue *q;
	int slot, rc;

	slot = take_slot(port);
	if (slot < 0)
		return xdp_why(why, slot, "Interface %s has %u rings already.\n", base->name,
			       XDP_STEER_SLOTS);
	q = mem_zalloc(sizeof(*q));
	if (!q) {
		rc = -ENOMEM;
		goto put_slot;
	}
	q->slot = (unsigned)slot;
	q->base.port = base;
	q->base.ops = base->ops;
	q->base.pool.put = xdp_pool_put;
	rc = alloc_frames(q, base->mtu, port->rx_queues);
	if (rc)
		goto free_queue;
	xdp_big_init(q);
	xdp_flow_clear_slot(port, q->slot);
	rc = open_socks(q, why);
	if (rc)
		goto close_socks;
	*out = &q->base;
	return 0;

close_socks:
	close_socks(q);
	free_frames(q);
free_queue:
	mem_free(q);
put_slot:
	put_slot(port, (unsigned)slot);
	if (rc == -ENOMEM)
		xdp_why(why, rc, "Interface %s is not accelerated: out of memory.\n", base->name);
	return rc;
}

void xdp_close_queue(struct port_queue *base)
{
	struct xdp_queue *q = (struct xdp_queue *)base;

	close_socks(q);
	xdp_big_fini(q);
	free_frames(q);
	put_slot((struct xdp_port *)base->port, q->slot);
	mem_free(q);
}

bool xdp_idle(struct port_queue *base)
{
	const struct xdp_queue *q = (const struct xdp_queue *)base;
	unsigned filled = 0;

	for (unsigned i = 0; i < q->nsocks; i++)
		filled += q->fill_target - q->socks[i].fill_missing;
	return !q->nbigs && base->frames_free + filled + q->tx_outstanding >= base->frames;
}
