/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mlx5 port: an interface of a ConnectX card.
 *
 * Role		see struct port_ops.  Lists of the port are under its lock, which
 *		is held during commands to the card; queues belong to their holders.
 * Lifetime	the device is open from open to free_port.
 */
#include "ring/mlx5/port_mlx5.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/param.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "ring/mlx5/mlx5_internal.h"

#define ANSWERS 16		     /* interfaces whose answer is kept */
#define BARRIER (10 * NSEC_PER_MSEC) /* far longer than a frame takes through the card */

static int mlx5_fds(struct port_queue *base, int fds[PORT_FDS_MAX])
{
	fds[0] = mlx5_queue_of(base)->channel->fd;
	return 1;
}

/* A command that removes a rule ends after it took effect; frames before it are in the card. */
static void mlx5_barrier(struct port *port)
{
	(void)port;
	sys_sleep(BARRIER);
}

/* The card ends queues and rules with the process. */
static void mlx5_at_exit(struct port_queue *base, bool held)
{
	if (held)
		mlx5_tx_drain(mlx5_queue_of(base));
}

static void mlx5_fence(struct port *base)
{
	struct mlx5_port *port = mlx5_port_of(base);

	mutex_lock(&port->lock);
	port->fenced = true;
	mutex_unlock(&port->lock);
}

/* Without privileges the kernel makes no rule, so there is nothing to promise. */
static int mlx5_grant(struct port *port, const struct flow_key *key)
{
	(void)port;
	(void)key;
	return -EOPNOTSUPP;
}

/* The port never passes frames of a 3-tuple to the kernel: can.takes_conns. */
static void mlx5_kernel_done(struct port_queue *q, const struct flow_key *key)
{
	(void)q;
	(void)key;
}

/* Opening the device does not touch the link. */
static bool mlx5_settle(struct port *port)
{
	(void)port;
	return true;
}

/* ---- the end of a device ---------------------------------------------------------------------- */

static void lose(struct mlx5_port *port, const char *what)
{
	if (port->base.lost)
		return;
	log_warn("%s (%s): %s; its sockets go on without the card", port->base.name,
		 port->name.device, what);
	/* Pairs with rings_lost() and rings_gone(). */
	__atomic_store_n(&port->base.lost, true, __ATOMIC_RELEASE);
}

static void judge_event(struct mlx5_port *port, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		lose(port, "the device has failed, or was removed");
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_WQ_FATAL:
		lose(port, "a queue has failed");
		break;
	default: /* the link, addresses: netlink tells them */
		break;
	}
}

static void read_events(struct mlx5_port *port)
{
	struct ibv_async_event event;
	int saved = errno;

	for (errno = 0; !mlx5_verbs.get_async_event(port->context, &event); errno = 0) {
		judge_event(port, &event);
		mlx5_verbs.ack_async_event(&event);
	}
	/* EIO, or the end of the file: the kernel has taken the device away. */
	if (errno != EAGAIN && errno != EINTR)
		lose(port, "the device is gone");
	errno = saved;
}

static bool has_failed(struct mlx5_port *port)
{
	bool failed = false;

	mutex_lock(&port->lock);
	/* acquire: pairs with mlx5_queue_fail() */
	list_for_each(link, &port->queues)
		failed |= __atomic_load_n(&container_of(link, struct mlx5_queue, link)->failed,
					  __ATOMIC_ACQUIRE);
	mutex_unlock(&port->lock);
	return failed;
}

static int mlx5_service(struct port *base, int fds[PORT_FDS_MAX])
{
	struct mlx5_port *port = mlx5_port_of(base);
	uint64_t count;

	if (!base->lost)
		read_events(port);
	if (sys_read(port->event_fd, &count, sizeof(count)) == sizeof(count) && has_failed(port))
		lose(port, "a queue has failed");
	if (base->lost)
		return 0; /* the descriptors stay readable */
	fds[0] = port->context->async_fd;
	fds[1] = port->event_fd;
	mutex_lock(&port->lock);
	fds[2] = mlx5_clock_serve(&port->clock);
	mutex_unlock(&port->lock);
	return fds[2] < 0 ? 2 : 3;
}

/* ---- opening ---------------------------------------------------------------------------------- */

static void mlx5_free_port(struct port *base)
{
	struct mlx5_port *port = mlx5_port_of(base);
	int saved = errno;

	mlx5_clock_fini(&port->clock);
	mlx5_device_close(port);
	if (port->claims >= 0)
		sys_close(port->claims);
	sys_close(port->event_fd);
	pthread_mutex_destroy(&port->lock);
	mem_free(port);
	errno = saved;
}

static void mlx5_stamp(struct port_queue *base)
{
	struct mlx5_port *port = mlx5_port_of(base->port);

	if (!port->clock.reads && port->clock.conversion == MLX5_CONVERT_NONE)
		return;
	mutex_lock(&port->lock);
	mlx5_clock_run(&port->clock);
	mutex_unlock(&port->lock);
	base->ops = &port->stamping;
}

static const struct port_ops mlx5_ops = {
	.add_flow = mlx5_add_flow,
	.add_wide = mlx5_add_wide,
	.addrs_gone = mlx5_addrs_gone,
	.arm = mlx5_arm,
	.at_exit = mlx5_at_exit,
	.barrier = mlx5_barrier,
	.close_queue = mlx5_close_queue,
	.del_flow = mlx5_del_flow,
	.fds = mlx5_fds,
	.fence = mlx5_fence,
	.flow_is_foreign = mlx5_flow_is_foreign,
	.free_port = mlx5_free_port,
	.grant = mlx5_grant,
	.idle = mlx5_idle,
	.kernel_done = mlx5_kernel_done,
	.may_part = mlx5_may_part,
	.moderate = mlx5_moderate,
	.move_flow = mlx5_move_flow,
	.open_queue = mlx5_open_queue,
	.part_flow = mlx5_part_flow,
	.rx_burst = mlx5_rx_burst,
	.service = mlx5_service,
	.settle = mlx5_settle,
	.stamp = mlx5_stamp,
	.reuseport_join = mlx5_share_join,
	.reuseport_leave = mlx5_share_leave,
	.reuseport_move = mlx5_share_move,
	.reuseport_pick = mlx5_share_pick,
	.take_flow = mlx5_take_flow,
	.tx_flush = mlx5_tx_flush,
	.tx_get = mlx5_tx_get,
	.tx_large = mlx5_tx_large,
	.tx_put = mlx5_tx_put,
};

static int check_link(const struct link *link, char why[PORT_WHY])
{
	if (!link->ethernet || link->master) {
		snprintf(why, PORT_WHY, "%s is not an Ethernet interface by itself.\n", link->name);
		return -PORT_UNTRIED;
	}
	if (!link->up) {
		snprintf(why, PORT_WHY, "%s is down; bring it up: ip link set %s up\n", link->name,
			 link->name);
		return -ENETDOWN;
	}
	if (link->mtu > MLX5_MTU_MAX) {
		snprintf(why, PORT_WHY, "%s: its MTU of %u does not fit a buffer; at most %u do.\n",
			 link->name, link->mtu, MLX5_MTU_MAX);
		return -EOPNOTSUPP;
	}
	return 0;
}

static void describe(struct mlx5_port *port, const struct link *link)
{
	port->base.ops = &mlx5_ops;
	port->stamping = mlx5_ops;
	port->stamping.rx_burst = mlx5_rx_burst_stamped;
	port->base.ifindex = link->ifindex;
	memcpy(port->base.name, link->name, sizeof(port->base.name));
	memcpy(port->base.mac, link->mac, sizeof(port->base.mac));
	port->base.mtu = link->mtu;
	port->base.linger = 0; /* opening it costs nobody anything */
	port->base.can = (struct port_abilities){
		.zero_copy = true,
		.must_arm = true,
		.takes_conns = true,
		.tags = true,
		.frame_max = link->mtu + ETH_HDR + ETH_TAG,
	};
}

static int open_port(int ifindex, struct port **out, char why[PORT_WHY])
{
	struct mlx5_port *port;
	struct mlx5_name name;
	struct link link;
	int rc = link_get(ifindex, &link);

	if (!rc)
		rc = mlx5_find(link.name, &name, why);
	if (rc)
		return rc == -ENODEV ? -PORT_UNTRIED : rc;
	rc = check_link(&link, why);
	if (!rc)
		rc = mlx5_verbs_get(why);
	if (rc)
		return rc;
	port = mem_zalloc(sizeof(*port));
	if (!port)
		return -ENOMEM;
	describe(port, &link);
	port->name = name;
	list_init(&port->queues);
	for (unsigned i = 0; i < MLX5_RULE_LISTS; i++)
		list_init(&port->rules[i]);
	list_init(&port->shares);
	port->event_fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = port->event_fd < 0 ? port->event_fd : mlx5_device_open(port, why);
	if (rc) {
		sys_close_fd(&port->event_fd);
		mem_free(port);
		return rc;
	}
	pthread_mutex_init(&port->lock, NULL);
	mlx5_clock_init(&port->clock, port->context);
	port->base.can.timestamps = port->clock.conversion != MLX5_CONVERT_NONE;
	port->base.can.kernel_stamps = port->clock.khz != 0;
	port->claims = mlx5_claims_open();
	*out = &port->base;
	return 0;
}

/* libibverbs writes errno; a call of the program that opens a port must not. */
static int mlx5_open(int ifindex, struct port **out, char why[PORT_WHY])
{
	int saved = errno, rc;

	rc = open_port(ifindex, out, why);
	errno = saved;
	return rc;
}

/* Interfaces of other devices are not its business, and need no reason. */
static bool ask(const struct link *link, char why[PORT_WHY])
{
	struct mlx5_name name;
	int saved = errno, rc;

	if (!link->ethernet || link->master)
		return false;
	rc = mlx5_find(link->name, &name, why);
	if (rc == -ENODEV && name.device[0])
		log_debug("%s (%s): no ConnectX card; the mlx5 port leaves it to others",
			  link->name, name.device);
	errno = saved;
	return !rc;
}

/*
 * Every connect() asks; sysfs is asked again after a change of the kernel's network.  ports_take()
 * has the control lock.
 */
static bool mlx5_takes(const struct link *link, char why[PORT_WHY])
{
	static struct {
		int ifindex; /* 0: none */
		uint32_t generation;
		bool takes;
		char why[PORT_WHY];
	} answers[ANSWERS], *answer;
	uint32_t generation = netlink_generation();

	answer = &answers[(unsigned)link->ifindex % ANSWERS];
	if (answer->ifindex != link->ifindex || answer->generation != generation) {
		answer->ifindex = link->ifindex;
		answer->generation = generation;
		answer->why[0] = '\0';
		answer->takes = ask(link, answer->why);
	}
	strcpy(why, answer->why);
	return answer->takes;
}

int mlx5_check(const char *interface, char why[PORT_WHY])
{
	struct mlx5_name name;
	int saved = errno, rc = mlx5_find(interface, &name, why);

	if (!rc)
		rc = mlx5_verbs_get(why);
	errno = saved;
	return rc;
}

const struct port_kind port_mlx5_kind = {
	.name = "mlx5",
	.takes = mlx5_takes,
	.open = mlx5_open,
	.thread_begins = port_kind_ignores,
	.thread_ends = port_kind_ignores,
	.forget = port_kind_ignores,
};
