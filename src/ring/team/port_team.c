/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/team/port_team.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "ring/team/team_internal.h"

/* ---- parts of a queue (holder) ---------------------------------------------------------- */

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
	unsigned least = UINT32_MAX;

	for (unsigned i = 0; i < q->team->n; i++) {
		if (q->parts[i] && q->parts[i]->frames_free < least)
			least = q->parts[i]->frames_free;
	}
	q->base.frames_free = least == UINT32_MAX ? 0 : least * q->team->n;
}

/* The port of part i is lost: the part leaves, and is closed when its packets are back. */
static __attribute__((noinline)) void lose_part(struct team_queue *q, unsigned i)
{
	struct port_queue *part = q->parts[i];

	part->ops->tx_flush(part); /* gives back what was put */
	watch(q, part, EPOLL_CTL_DEL);
	mutex_lock(&q->team->lock);
	q->parts[i] = NULL;
	mutex_unlock(&q->team->lock);
	q->lost[i] = part;
}

static __attribute__((noinline)) void close_lost(struct team_queue *q, unsigned i)
{
	struct port_queue *part = q->lost[i];

	if (!part->ops->idle(part))
		return;
	part->ops->close_queue(part);
	q->lost[i] = NULL;
}

static void follow_losses(struct team_queue *q)
{
	for (unsigned i = 0; i < q->team->n; i++) {
		if (q->parts[i] && __builtin_expect(port_is_lost(q->parts[i]->port), 0))
			lose_part(q, i);
		if (__builtin_expect(q->lost[i] != NULL, 0))
			close_lost(q, i);
	}
}

/* ---- frames --------------------------------------------------------------------------- */

static int team_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	struct team_queue *q = team_queue_of(base);
	unsigned i = q->next;
	int n = 0;

	follow_losses(q);
	for (unsigned asked = 0; asked < q->team->n && n < max; asked++) {
		struct port_queue *part = q->parts[i];

		if (part)
			n += part->ops->rx_burst(part, pkts + n, max - n);
		if (++i == q->team->n)
			i = 0;
	}
	q->next = i;
	tell_free(q);
	return n;
}

/* The part that sends to the packet's destination address. */
static unsigned part_for(const struct team_queue *q, const struct pkt *pkt)
{
	const uint8_t *at = pkt->frame + ETH_HDR;
	uint32_t word, hash = 0;
	unsigned words = 1, live = 0, i;

	if (at[-2] == 0x81 && at[-1] == 0x00)
		at += ETH_TAG;
	if (at[-2] == 0x86 && at[-1] == 0xdd)
		words = 4;
	at += words == 4 ? 24 : 16; /* the destination address of IPv6, of IPv4 */
	for (unsigned w = 0; w < words; w++) {
		memcpy(&word, at + 4 * w, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b1u;
	}
	for (unsigned p = 0; p < q->team->n; p++)
		live += q->parts[p] != NULL;
	if (!live)
		return q->team->n;
	hash = (uint32_t)((uint64_t)hash * live >> 32);
	for (i = 0; !q->parts[i] || hash--; i++)
		;
	return i;
}

/* A guess: frames of a burst often have one destination. */
static struct pkt *team_tx_get(struct port_queue *base)
{
	struct team_queue *q = team_queue_of(base);
	struct port_queue *part;

	for (unsigned tried = 0; !q->parts[q->guess] && tried < q->team->n; tried++)
		q->guess = (q->guess + 1) % q->team->n;
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

static int team_tx_put(struct port_queue *base, struct pkt *pkt)
{
	struct team_queue *q = team_queue_of(base);
	unsigned i = part_for(q, pkt);
	struct port_queue *part;

	if (i == q->team->n) {
		pkt_free(pkt);
		return -ENOBUFS;
	}
	q->guess = i;
	part = q->parts[i];
	return pkt->pool == &part->pool ? part->ops->tx_put(part, pkt) : put_copy(part, pkt);
}

static void team_tx_flush(struct port_queue *base)
{
	const struct team_queue *q = team_queue_of(base);

	for (unsigned i = 0; i < q->team->n; i++) {
		if (q->parts[i])
			q->parts[i]->ops->tx_flush(q->parts[i]);
	}
}

static bool team_arm(struct port_queue *base)
{
	const struct team_queue *q = team_queue_of(base);
	bool quiet = true;

	for (unsigned i = 0; i < q->team->n; i++) {
		if (q->parts[i] && !q->parts[i]->ops->arm(q->parts[i]))
			quiet = false;
	}
	return quiet;
}

/* One descriptor, which stays the same when a part leaves. */
static int team_fds(struct port_queue *base, int fds[PORT_FDS_MAX])
{
	fds[0] = team_queue_of(base)->epoll_fd;
	return 1;
}

/* ---- queues ---------------------------------------------------------------------------- */

static bool team_idle(struct port_queue *base)
{
	const struct team_queue *q = team_queue_of(base);

	for (unsigned i = 0; i < q->team->n; i++) {
		struct port_queue *part = q->parts[i] ? q->parts[i] : q->lost[i];

		if (part && !part->ops->idle(part))
			return false;
	}
	return true;
}

static void close_parts(struct team_queue *q)
{
	for (unsigned i = 0; i < q->team->n; i++) {
		struct port_queue *part = q->parts[i] ? q->parts[i] : q->lost[i];

		if (part)
			part->ops->close_queue(part);
	}
	if (q->epoll_fd >= 0)
		sys_close(q->epoll_fd);
	mem_free(q);
}

static void team_close_queue(struct port_queue *base)
{
	team_forget_flows(team_queue_of(base));
	close_parts(team_queue_of(base));
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
	struct port_queue **link = &q->base.parts;

	for (unsigned i = 0; i < q->team->n; i++) {
		struct port *port = q->team->ports[i];
		int rc;

		/* A team with a lost port goes on without it. */
		if (port_is_lost(port))
			continue;
		rc = port->ops->open_queue(port, &q->parts[i], why);
		if (rc)
			return rc;
		watch(q, q->parts[i], EPOLL_CTL_ADD);
		q->base.frames += q->parts[i]->frames;
		*link = q->parts[i];
		link = &q->parts[i]->next;
	}
	return 0;
}

static int team_open_queue(struct port *port, struct port_queue **out, char why[PORT_WHY])
{
	struct team_queue *q = mem_zalloc(sizeof(*q));
	int rc;

	snprintf(why, PORT_WHY, "No memory or no descriptor for a queue of %s.\n", port->name);
	if (!q)
		return -ENOMEM;
	q->team = team_of(port);
	q->base = (struct port_queue){.port = port, .ops = port->ops, .pool.put = no_packet};
	q->epoll_fd = sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
	rc = q->epoll_fd < 0 ? q->epoll_fd : open_parts(q, why);
	if (rc) {
		close_parts(q);
		return rc;
	}
	tell_free(q);
	*out = &q->base;
	return 0;
}

static void team_at_exit(struct port_queue *base, bool held)
{
	const struct team_queue *q = team_queue_of(base);

	for (unsigned i = 0; i < q->team->n; i++) {
		if (q->parts[i])
			q->parts[i]->ops->at_exit(q->parts[i], held);
	}
}

static void team_kernel_done(struct port_queue *base, const struct flow_key *key)
{
	const struct team_queue *q = team_queue_of(base);

	for (unsigned i = 0; i < q->team->n; i++) {
		if (q->parts[i])
			q->parts[i]->ops->kernel_done(q->parts[i], key);
	}
}

/* ---- ports ----------------------------------------------------------------------------- */

static void team_addrs_gone(struct port *base, const struct inaddr *gone, unsigned n)
{
	for (unsigned i = 0; i < team_of(base)->n; i++)
		team_of(base)->ports[i]->ops->addrs_gone(team_of(base)->ports[i], gone, n);
}

static void team_barrier(struct port *base)
{
	for (unsigned i = 0; i < team_of(base)->n; i++)
		team_of(base)->ports[i]->ops->barrier(team_of(base)->ports[i]);
}

static void team_fence(struct port *base)
{
	for (unsigned i = 0; i < team_of(base)->n; i++)
		team_of(base)->ports[i]->ops->fence(team_of(base)->ports[i]);
}

static int team_grant(struct port *base, const struct flow_key *key)
{
	int rc = 0;

	for (unsigned i = 0; i < team_of(base)->n; i++) {
		struct port *port = team_of(base)->ports[i];

		rc = rc ? rc : port->ops->grant(port, key);
	}
	return rc;
}

static bool team_flow_is_foreign(struct port *base, const struct flow_key *key)
{
	for (unsigned i = 0; i < team_of(base)->n; i++) {
		struct port *port = team_of(base)->ports[i];

		if (port->ops->flow_is_foreign(port, key))
			return true;
	}
	return false;
}

static void team_free_port(struct port *base)
{
	struct team_port *team = team_of(base);

	for (unsigned i = 0; i < team->n; i++)
		team->ports[i]->ops->free_port(team->ports[i]);
	flow_table_fini(&team->flows);
	pthread_mutex_destroy(&team->lock);
	mem_free(team);
}

/* Descriptors that find no room are looked at once per round. */
static int team_service(struct port *base, int fds[PORT_FDS_MAX])
{
	struct team_port *team = team_of(base);
	int of_port[PORT_FDS_MAX], n = 0;
	bool all_lost = true;

	for (unsigned i = 0; i < team->n; i++) {
		int got = team->ports[i]->ops->service(team->ports[i], of_port);

		for (int f = 0; f < got && n < PORT_FDS_MAX; f++)
			fds[n++] = of_port[f];
		all_lost &= port_is_lost(team->ports[i]);
	}
	if (all_lost)
		/* release: pairs with rings_lost(), called after this under the same lock */
		__atomic_store_n(&base->lost, true, __ATOMIC_RELEASE);
	return n;
}

static bool team_settle(struct port *base)
{
	bool settled = true;

	for (unsigned i = 0; i < team_of(base)->n; i++) {
		struct port *port = team_of(base)->ports[i];

		settled &= port->ops->settle(port);
	}
	return settled;
}

static const struct port_ops team_ops = {
	.add_flow = team_add_flow,
	.addrs_gone = team_addrs_gone,
	.arm = team_arm,
	.at_exit = team_at_exit,
	.barrier = team_barrier,
	.close_queue = team_close_queue,
	.del_flow = team_del_flow,
	.fds = team_fds,
	.fence = team_fence,
	.flow_is_foreign = team_flow_is_foreign,
	.free_port = team_free_port,
	.grant = team_grant,
	.idle = team_idle,
	.kernel_done = team_kernel_done,
	.move_flow = team_move_flow,
	.open_queue = team_open_queue,
	.rx_burst = team_rx_burst,
	.service = team_service,
	.settle = team_settle,
	.reuseport_join = team_share_join,
	.reuseport_leave = team_share_leave,
	.reuseport_move = team_share_move,
	.reuseport_pick = team_share_pick,
	.take_flow = team_take_flow,
	.tx_flush = team_tx_flush,
	.tx_get = team_tx_get,
	.tx_put = team_tx_put,
};

static uint32_t lower(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* What all ports can do; what one of them asks for. */
static void add_port(struct port *base, const struct port *port)
{
	struct port_abilities *can = &base->can;

	base->mtu = lower(base->mtu, port->mtu);
	base->linger = base->linger > port->linger ? base->linger : port->linger;
	can->tx_csum &= port->can.tx_csum;
	can->timestamps &= port->can.timestamps;
	can->zero_copy &= port->can.zero_copy;
	can->must_arm |= port->can.must_arm;
	can->shared_steering &= port->can.shared_steering;
	can->frame_max = lower(can->frame_max, port->can.frame_max);
	can->tags = false;    /* each port has its own */
	can->segment_max = 0; /* a frame says which port it leaves by */
}

int port_team_open(struct port *const ports[], unsigned n, struct port **out, char why[PORT_WHY])
{
	struct team_port *team;
	bool alike = n > 0 && n <= TEAM_PORTS_MAX;

	for (unsigned i = 1; alike && i < n; i++)
		alike = ports[i]->can.partial_csum == ports[0]->can.partial_csum;
	if (!alike) {
		snprintf(why, PORT_WHY,
			 "A team has 1 to %d ports, which accept the same checksums.\n",
			 TEAM_PORTS_MAX);
		return -EOPNOTSUPP;
	}
	team = mem_zalloc(sizeof(*team));
	if (!team) {
		snprintf(why, PORT_WHY, "No memory for a team.\n");
		return -ENOMEM;
	}
	team->base = *ports[0];
	team->base.ops = &team_ops;
	team->base.lost = false;
	for (unsigned i = 0; i < n; i++) {
		team->ports[i] = ports[i];
		add_port(&team->base, ports[i]);
	}
	team->n = n;
	pthread_mutex_init(&team->lock, NULL);
	flow_table_init(&team->flows);
	list_init(&team->shares);
	*out = &team->base;
	return 0;
}
