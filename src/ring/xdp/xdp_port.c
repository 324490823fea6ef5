/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/xdp/port_xdp.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

static int xdp_fds(struct port_queue *base, int fds[PORT_FDS_MAX])
{
	const struct xdp_queue *q = (const struct xdp_queue *)base;

	fds[0] = q->nsocks == 1 ? q->socks[0].fd : q->fds;
	return 1;
}

/* An XDP program runs in one RCU read-side section, from its look-up to the RX ring. */
static void xdp_barrier(struct port *port)
{
	int rc = grace_wait(&((struct xdp_port *)port)->grace);

	if (rc)
		log_debug("%s: cannot wait for an RCU grace period: %s", port->name,
			  strerrordesc_np(-rc));
}

/* The member leaves; what the members share stays as long as another member lives. */
static void xdp_free_port(struct port *base)
{
	struct xdp_port *port = (struct xdp_port *)base;

	xdp_napi_fini(port);
	xdp_service_fini(port);
	group_member_leave(&port->group);
	xdp_unload(port);
	xdp_group_drop(port);
	grace_fini(&port->grace);
	xdp_grants_free(port);
	pthread_mutex_destroy(&port->lock);
	mem_free(port);
}

static void xdp_stamp(struct port_queue *q)
{
	struct xdp_port *port = (struct xdp_port *)q->port;

	/* Frames before the program sees it have no time. */
	__atomic_store_n(&port->conf->stamped, 1, __ATOMIC_RELAXED);
	q->ops = &port->stamping;
}

static const struct port_ops xdp_ops = {
	.add_flow = xdp_add_flow,
	.addrs_gone = xdp_addrs_gone,
	.arm = xdp_arm,
	.at_exit = xdp_at_exit,
	.barrier = xdp_barrier,
	.close_queue = xdp_close_queue,
	.del_flow = xdp_del_flow,
	.fds = xdp_fds,
	.fence = xdp_fence,
	.flow_is_foreign = xdp_flow_is_foreign,
	.free_port = xdp_free_port,
	.grant = xdp_grant,
	.idle = xdp_idle,
	.is_needed = xdp_group_needs,
	.kernel_done = xdp_kernel_done,
	.may_part = port_may_part,
	.moderate = port_moderates_nothing,
	.move_flow = xdp_move_flow,
	.open_queue = xdp_open_queue,
	.part_flow = xdp_part_flow,
	.rx_burst = xdp_rx_burst,
	.service = xdp_service,
	.settle = xdp_settle,
	.stamp = xdp_stamp,
	.reuseport_join = xdp_share_join,
	.reuseport_leave = xdp_share_leave,
	.reuseport_move = xdp_share_move,
	.reuseport_pick = xdp_share_pick,
	.take_flow = xdp_take_flow,
	.tx_flush = xdp_tx_flush,
	.tx_get = xdp_tx_get,
	.tx_large = xdp_tx_large,
	.tx_put = xdp_tx_put,
};

/* The group was joined: it decides about jumbo frames. */
static void set_ops(struct xdp_port *port)
{
	port->plain = xdp_ops;
	if (port->jumbo) {
		port->plain.tx_get = xdp_tx_get_jumbo;
		port->plain.tx_put = xdp_tx_put_jumbo;
	}
	port->stamping = port->plain;
	port->stamping.rx_burst = xdp_rx_burst_stamped;
}

static int open_port(int ifindex, int master, struct port **out, char why[PORT_WHY])
{
	struct xdp_device dev;
	struct xdp_port *port;
	struct grace grace;
	int rc;

	rc = xdp_check_device(&dev, ifindex, master, why);
	if (rc && !strcmp(dev.kind, "bond"))
		why[0] = '\0'; /* ring/bond says why */
	if (!rc)
		rc = xdp_why_missing_caps(why, dev.name);
	if (rc)
		return rc;
	rc = grace_init(&grace);
	if (rc)
		return xdp_why(
			why, rc,
			"Interface %s is not accelerated: neither membarrier(2) nor a BPF map of\n"
			"maps (%s) tells when its programs have ended.\n",
			dev.name, strerrordesc_np(-rc));
	port = mem_zalloc(sizeof(*port));
	if (!port) {
		grace_fini(&grace);
		return xdp_why(why, -ENOMEM, "Interface %s is not accelerated: out of memory.\n",
			       dev.name);
	}
	port->grace = grace;
	port->jumbo = dev.mtu > XDP_MTU_MAX;
	port->base.ops = &port->plain;
	port->base.ifindex = ifindex;
	memcpy(port->base.name, dev.name, sizeof(dev.name));
	memcpy(port->base.mac, dev.mac, sizeof(dev.mac));
	port->base.mtu = dev.mtu;
	port->base.linger = (unsigned)params.xdp_linger;
	port->base.can = (struct port_abilities){
		.partial_csum = dev.is_virtual,
		.kernel_stamps = dev.stamps,
		.shared_steering = true,
		.frame_max = dev.mtu + ETH_HDR + ETH_TAG,
	};
	port->rx_queues = dev.rx_queues;
	port->group.ctl_fd = port->listen_fd = port->lifeline_fd = -1;
	port->epoll_fd = port->timer_fd = port->napi.fd = -1;
	pthread_mutex_init(&port->lock, NULL);
	list_init(&port->queues);
	list_init(&port->grants);
	rc = xdp_group_join(port, &dev, why);
	if (rc) {
		grace_fini(&grace);
		mem_free(port);
		return rc;
	}
	set_ops(port);
	/* The group may have been made under another MAC address, or MTU. */
	xdp_conf_mac(port, dev.mac);
	port->conf->udp_max = dev.mtu;
	port->base.can.zero_copy = port->group.zerocopy;
	/* Frames of zero-copy queues are still on their way when the kernel has taken them. */
	if (!port->group.zerocopy && packet_tx_can(ifindex, dev.name, dev.tx_queues))
		port->base.can.segment_max = PACKET_TX_MAX;
	port->base.can.large_udp = port->base.can.segment_max != 0;
	xdp_napi_init(port);
	rc = xdp_service_init(port);
	if (rc) {
		xdp_free_port(&port->base);
		return xdp_why(why, rc, "Interface %s is not accelerated: %s.\n", dev.name,
			       strerrordesc_np(-rc));
	}
	log_debug("%s: member %u of its port group, %s XDP", dev.name, port->group.member,
		  port->native ? "native" : "generic");
	*out = &port->base;
	return 0;
}

/* libbpf writes errno also when it succeeds; a call of the program that opens a port must not. */
int port_xdp_open_slave(int ifindex, int master, struct port **out, char why[PORT_WHY])
{
	int saved = errno, rc;

	rc = open_port(ifindex, master, out, why);
	errno = saved;
	return rc;
}

int port_xdp_open(int ifindex, struct port **out, char why[PORT_WHY])
{
	return port_xdp_open_slave(ifindex, 0, out, why);
}

const struct port_kind port_xdp_kind = {
	.name = "xdp",
	.takes = xdp_takes,
	.open = port_xdp_open,
	.thread_begins = deathmarks_begin,
	.thread_ends = deathmarks_end,
	.forget = deathmarks_forget,
};
