/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/local/port_local.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "base/sys.h"
#include "net/frame.h"
#include "ring/progress.h"

#define EVENTS_MAX 16
#define FRAME_MAX (ETH_HDR + 65535u)

struct local_queue {
	struct port_queue base;
	/* set when opened */
	int epoll_fd; /* has the eventfds of all lanes */
	/* holder */
	struct list lanes; /* of port_local_lane.link */
	bool armed;
};

static struct local_queue *queue_of(struct port_queue *q)
{
	return container_of(q, struct local_queue, base);
}

static struct port_local_lane *lane_of(struct list *link)
{
	return container_of(link, struct port_local_lane, link);
}

/* ---- lanes (holder) ------------------------------------------------------------------------ */

int port_local_add(struct ring *ring, struct port_local_lane *lane)
{
	struct local_queue *q = queue_of(ring->q);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = lane->wake_fd};
	int rc;

	ring_assert_held(ring);
	rc = (int)sys_call(SYS_epoll_ctl, q->epoll_fd, EPOLL_CTL_ADD, lane->wake_fd, &event, 0, 0);
	if (rc)
		return rc;
	/*
	 * A thread that sleeps armed the other lanes only, if it did: it must look again.  q->armed does
	 * not tell of it, when another has polled since.
	 */
	ring_fds_changed(ring);
	progress_wake();
	list_push_back(&q->lanes, &lane->link);
	q->base.unused = false;
	return 0;
}

void port_local_remove(struct ring *ring, struct port_local_lane *lane)
{
	struct local_queue *q = queue_of(ring->q);

	ring_assert_held(ring);
	list_remove(&lane->link);
	sys_call(SYS_epoll_ctl, q->epoll_fd, EPOLL_CTL_DEL, lane->wake_fd, NULL, 0, 0);
}

/* Reads the eventfds that writers wrote, or the descriptor would stay readable. */
static void take_wakes(struct local_queue *q)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t count;
	long n = sys_call(SYS_epoll_pwait, q->epoll_fd, events, EVENTS_MAX, 0, NULL, 8);

	for (long i = 0; i < n; i++)
		sys_read(events[i].data.fd, &count, sizeof(count));
}

static __attribute__((noinline)) void disarm(struct local_queue *q)
{
	list_for_each(link, &q->lanes)
		notice_disarm(&lane_of(link)->in);
	q->armed = false;
	take_wakes(q);
}

static int local_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	struct local_queue *q = queue_of(base);

	(void)pkts;
	(void)max;
	if (__builtin_expect(q->armed, 0))
		disarm(q);
	list_for_each(link, &q->lanes) {
		struct port_local_lane *lane = lane_of(link);

		if (notice_is_posted(&lane->in))
			notice_take(&lane->in, lane->notice, lane->arg);
		if (__builtin_expect(lane->looks, 0))
			lane->look(lane->arg);
	}
	return 0;
}

static bool local_arm(struct port_queue *base)
{
	struct local_queue *q = queue_of(base);
	bool quiet;

	list_for_each(link, &q->lanes) {
		struct port_local_lane *lane = lane_of(link);

		notice_arm(&lane->in);
		if (lane->looks) /* what it asks the peer for is stored before the barrier, too */
			lane->look(lane->arg);
	}
	q->armed = true;
	quiet = notice_barrier();
	list_for_each(link, &q->lanes) {
		struct port_local_lane *lane = lane_of(link);

		if (notice_is_posted(&lane->in) || (lane->looks && lane->look(lane->arg)))
			quiet = false;
	}
	return quiet;
}

/* ---- the port ------------------------------------------------------------------------------ */

static int local_fds(struct port_queue *base, int fds[PORT_FDS_MAX])
{
	fds[0] = queue_of(base)->epoll_fd;
	return 1;
}

static int local_open_queue(struct port *port, struct port_queue **out, char why[PORT_WHY])
{
	struct local_queue *q = mem_zalloc(sizeof(*q));
	int rc = -ENOMEM;

	if (!q)
		goto fail;
	rc = (int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0);
	if (rc < 0)
		goto free_queue;
	q->epoll_fd = sys_fd_hide(rc);
	q->base = (struct port_queue){.port = port, .ops = port->ops, .unused = true};
	list_init(&q->lanes);
	*out = &q->base;
	return 0;
free_queue:
	mem_free(q);
fail:
	snprintf(why, PORT_WHY, "No memory or descriptor is left for shared memory.\n");
	return rc;
}

static void local_close_queue(struct port_queue *base)
{
	struct local_queue *q = queue_of(base);

	sys_close_fd(&q->epoll_fd);
	mem_free(q);
}

/* For what leaves by another ring, as a copy; this one sends no frames. */
static struct pkt *local_tx_get(struct port_queue *base)
{
	(void)base;
	return pkt_blank(FRAME_MAX);
}

static void local_free_port(struct port *port)
{
	mem_free(port);
}

static struct port_ops local_ops; /* set when the port is opened: the null table's otherwise */

static int local_open(int ifindex, struct port **out, char why[PORT_WHY])
{
	struct port *port = mem_zalloc(sizeof(*port));

	(void)ifindex;
	if (!port) {
		snprintf(why, PORT_WHY, "No memory is left.\n");
		return -ENOMEM;
	}
	local_ops = port_null_ops;
	local_ops.arm = local_arm;
	local_ops.close_queue = local_close_queue;
	local_ops.fds = local_fds;
	local_ops.free_port = local_free_port;
	local_ops.open_queue = local_open_queue;
	local_ops.rx_burst = local_rx_burst;
	local_ops.tx_get = local_tx_get;
	*port = (struct port){.ops = &local_ops,
			      .ifindex = PORT_LOCAL_IFINDEX,
			      .name = "local",
			      .mtu = 65535,
			      .can.must_arm = true};
	*out = port;
	return 0;
}

const struct port_kind port_local_kind = {
	.name = "local",
	.own_ifindex = PORT_LOCAL_IFINDEX,
	.takes = port_takes_all,
	.open = local_open,
	.thread_begins = port_kind_ignores,
	.thread_ends = port_kind_ignores,
	.forget = port_kind_ignores,
};
