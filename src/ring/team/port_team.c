/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/team/port_team.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "ring/team/team_internal.h"

/* Calls a function for each port. */
#define each_port(team, i, port)                           \
	for (unsigned(i) = 0; (i) < TEAM_PORTS_MAX; (i)++) \
		for (struct port * (port) = (team)->ports[i]; (port); (port) = NULL)

static void team_at_exit(struct port_queue *base, bool held)
{
	const struct team_queue *q = team_queue_of(base);

	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		if (q->parts[i])
			q->parts[i]->ops->at_exit(q->parts[i], held);
	}
}

static void team_stamp(struct port_queue *base)
{
	struct team_queue *q = team_queue_of(base);

	q->stamped = true;
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++)
		if (q->parts[i])
			q->parts[i]->ops->stamp(q->parts[i]);
}

/* All parts that are left; what the first one says that cannot. */
static int team_moderate(struct port_queue *base, uint16_t frames, uint16_t usec)
{
	const struct team_queue *q = team_queue_of(base);
	int rc = 0;

	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		int one = 0;

		if (q->parts[i])
			one = q->parts[i]->ops->moderate(q->parts[i], frames, usec);
		if (!rc)
			rc = one;
	}
	return rc;
}

static void team_addrs_gone(struct port *base, const struct inaddr *gone, unsigned n)
{
	each_port(team_of(base), i, port)
		port->ops->addrs_gone(port, gone, n);
}

static void team_barrier(struct port *base)
{
	each_port(team_of(base), i, port)
		port->ops->barrier(port);
}

static void team_fence(struct port *base)
{
	each_port(team_of(base), i, port)
		port->ops->fence(port);
}

static bool team_is_needed(struct port *base)
{
	bool needed = false;

	each_port(team_of(base), i, port)
		needed |= port_is_needed(port);
	return needed;
}

static int team_grant(struct port *base, const struct flow_key *key)
{
	int rc = 0;

	each_port(team_of(base), i, port)
		rc = rc ? rc : port->ops->grant(port, key);
	return rc;
}

static bool team_flow_is_foreign(struct port *base, const struct flow_key *key)
{
	struct team_port *team = team_of(base);
	bool foreign = false;

	mutex_lock(&team->lock);
	each_port(team, i, port)
		foreign |= port->ops->flow_is_foreign(port, key);
	mutex_unlock(&team->lock);
	return foreign;
}

static void team_free_port(struct port *base)
{
	struct team_port *team = team_of(base);

	each_port(team, i, port)
		port->ops->free_port(port);
	if (team->rules && team->rules->forget)
		team->rules->forget(team->arg);
	flow_table_fini(&team->flows);
	pthread_mutex_destroy(&team->lock);
	mem_free(team);
}

/* Descriptors that find no room are looked at once per round. */
static int team_service(struct port *base, int fds[PORT_FDS_MAX])
{
	struct team_port *team = team_of(base);
	int of_port[PORT_FDS_MAX], n = 0;
	bool all = true, some = false;

	if (team->rules && team->rules->look)
		team->rules->look(base);
	each_port(team, i, port) {
		int got = port->ops->service(port, of_port);

		for (int f = 0; f < got && n < PORT_FDS_MAX; f++)
			fds[n++] = of_port[f];
		all &= port_is_lost(port);
		some |= port_is_lost(port);
	}
	if (team->rules && team->rules->fragile ? some : all)
		/* release: pairs with rings_lost(), called after this under the same lock */
		__atomic_store_n(&base->lost, true, __ATOMIC_RELEASE);
	return n;
}

static void team_follow(struct port *base)
{
	struct team_port *team = team_of(base);

	if (team->rules && team->rules->follow)
		team->rules->follow(base);
}

static bool team_settle(struct port *base)
{
	bool settled = true;

	each_port(team_of(base), i, port)
		settled &= port->ops->settle(port);
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
	.follow = team_follow,
	.free_port = team_free_port,
	.grant = team_grant,
	.idle = team_idle,
	.is_needed = team_is_needed,
	.kernel_done = team_kernel_done,
	.may_part = port_may_part,
	.moderate = team_moderate,
	.move_flow = team_move_flow,
	.open_queue = team_open_queue,
	.part_flow = team_part_flow,
	.rx_burst = team_rx_burst,
	.service = team_service,
	.settle = team_settle,
	.stamp = team_stamp,
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
	can->kernel_stamps |= port->can.kernel_stamps;
	can->zero_copy &= port->can.zero_copy;
	can->must_arm |= port->can.must_arm;
	can->shared_steering &= port->can.shared_steering;
	can->frame_max = lower(can->frame_max, port->can.frame_max);
	can->tags = false;    /* each port has its own */
	can->segment_max = 0; /* a frame says which port it leaves by */
}

void port_team_set_view(struct port *base, const struct team_view *view)
{
	struct team_port *team = team_of(base);
	uint64_t senders = view->n;

	for (unsigned i = 0; i < view->n; i++)
		senders |= (uint64_t)view->sender[i] << (4 + 4 * i);
	__atomic_store_n(&team->senders, senders, __ATOMIC_RELAXED);
	__atomic_store_n(&team->hears, view->hears, __ATOMIC_RELAXED);
}

void port_team_set_rules(struct port *team, const struct team_rules *rules, void *arg)
{
	team_of(team)->rules = rules;
	team_of(team)->arg = arg;
	team->can.follows = rules->follow != NULL;
}

void *port_team_arg(struct port *team)
{
	return team_of(team)->arg;
}

struct port *port_team_at(struct port *team, unsigned slot)
{
	return team_of(team)->ports[slot];
}

int port_team_open(struct port *const ports[], unsigned n, struct port **out, char why[PORT_WHY])
{
	struct team_view all = {.n = n, .hears = UINT32_MAX};
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
		all.sender[i] = (uint8_t)i;
		add_port(&team->base, ports[i]);
	}
	port_team_set_view(&team->base, &all);
	pthread_mutex_init(&team->lock, NULL);
	flow_table_init(&team->flows);
	list_init(&team->shares);
	list_init(&team->queues);
	*out = &team->base;
	return 0;
}
