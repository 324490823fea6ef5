/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Housekeeping of a member: it answers newcomers, notices dead members, and reclaims their slots
 * and frames.
 *
 * One epoll descriptor is readable whenever there is something to do: newcomers, the end of a
 * connection, a timer while something is under way, and wake_fd, which a member writes so that
 * all members run their service().
 */
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "ring/ports.h"
#include "ring/xdp/xdp_internal.h"

#define SWEEP_INTERVAL (100 * NSEC_PER_MSEC) /* between sweeps, without a sign of a death */
#define STEP_INTERVAL (20 * NSEC_PER_MSEC)   /* between rounds while something is under way */
#define REST_INTERVAL (100 * NSEC_PER_MSEC)  /* before newcomers are accepted again, see rest() */
/* A group at least this old may be outgrown: some drivers do not tell their number of queues. */
#define OUTGROW_INTERVAL NSEC_PER_SEC
#define EVENTS_MAX 32

void xdp_service_watch(struct xdp_port *port, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.fd = fd};

	sys_call(SYS_epoll_ctl, port->epoll_fd, EPOLL_CTL_ADD, fd, &ev, 0, 0);
}

/*
 * Removes it explicitly: if a forked child still has the descriptor open, the set would go on to
 * report its number, which another descriptor may have by then.
 */
void xdp_service_close(struct xdp_port *port, int *fd)
{
	sys_call(SYS_epoll_ctl, port->epoll_fd, EPOLL_CTL_DEL, *fd, NULL, 0, 0);
	sys_close_fd(fd);
}

int xdp_service_init(struct xdp_port *port)
{
	port->epoll_fd =
		sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
	port->timer_fd = sys_fd_hide((int)sys_call(SYS_timerfd_create, CLOCK_MONOTONIC,
						   TFD_CLOEXEC | TFD_NONBLOCK, 0, 0, 0, 0));
	if (port->epoll_fd < 0 || port->timer_fd < 0)
		return -EMFILE;
	xdp_service_watch(port, port->timer_fd, EPOLLIN);
	/* Edge-triggered: each write is one event for each member, and no member reads it. */
	xdp_service_watch(port, port->wake_fd, EPOLLIN | EPOLLET);
	if (port->listen_fd >= 0)
		xdp_service_watch(port, port->listen_fd, EPOLLIN);
	if (port->lifeline_fd >= 0)
		xdp_service_watch(port, port->lifeline_fd, EPOLLIN);
	return 0;
}

void xdp_service_fini(struct xdp_port *port)
{
	/* The name first: a newcomer that waits for our answer asks another member. */
	sys_close_fd(&port->listen_fd);
	while (port->n_conns)
		sys_close_fd(&port->conns[--port->n_conns].fd);
	sys_close_fd(&port->lifeline_fd);
	sys_close_fd(&port->epoll_fd);
	sys_close_fd(&port->timer_fd);
}

/* No descriptor is left to accept newcomers: not watched, or the set would stay readable. */
static void rest(struct xdp_port *port)
{
	sys_call(SYS_epoll_ctl, port->epoll_fd, EPOLL_CTL_DEL, port->listen_fd, NULL, 0, 0);
	port->listen_rests = true;
}

static void end_rest(struct xdp_port *port)
{
	if (port->listen_fd >= 0 && !xdp_group_accept(port))
		return;
	port->listen_rests = false;
	if (port->listen_fd >= 0)
		xdp_service_watch(port, port->listen_fd, EPOLLIN);
}

/* Handles a readable descriptor.  True: a member may have died. */
static bool handle(struct xdp_port *port, int fd)
{
	uint64_t count;

	if (fd == port->listen_fd) {
		if (!xdp_group_accept(port))
			rest(port);
		return false;
	}
	if (fd == port->timer_fd) {
		sys_read(fd, &count, sizeof(count));
		return false;
	}
	if (fd == port->wake_fd)
		return false;
	if (fd == port->lifeline_fd) {
		xdp_service_close(port, &port->lifeline_fd);
		return true;
	}
	return !xdp_group_answer(port, fd);
}

static bool handle_events(struct xdp_port *port)
{
	struct epoll_event events[EVENTS_MAX];
	bool died = false;
	long n = sys_call(SYS_epoll_pwait, port->epoll_fd, events, EVENTS_MAX, 0, NULL, 8);

	for (long i = 0; i < n; i++)
		died |= handle(port, events[i].data.fd);
	return died;
}

/* ---- RX rings for the audit ------------------------------------------------------------ */

static uint32_t load(const uint32_t *index)
{
	/*
	 * acquire: pairs with the kernel's store of an RX ring's producer, with rx_sock()
	 * (xdp_burst.c), and with audit_step() and set_stage() (xdp_group_sweep.c)
	 */
	return __atomic_load_n(index, __ATOMIC_ACQUIRE);
}

/*
 * Was the RX ring of each socket read up to where it was when the audit began?  The holder of the
 * ring writes owner words before it releases the entries, so these frames have their words.
 */
static bool is_drained(struct xdp_queue *q, uint32_t seq)
{
	if (q->drain_seq != seq) {
		q->drain_seq = seq;
		for (unsigned i = 0; i < q->nsocks; i++)
			q->socks[i].drain_to = load(q->socks[i].rx.producer);
	}
	for (unsigned i = 0; i < q->nsocks; i++)
		if ((int32_t)(load(q->socks[i].rx.consumer) - q->socks[i].drain_to) < 0)
			return false;
	return true;
}

/* Marks the slots whose RX rings are drained.  True: some are not yet. */
static bool tell_drained(struct xdp_port *port)
{
	uint32_t seq = load(&port->group.ctl->audit.seq);
	bool waiting = false;

	list_for_each(link, &port->queues) {
		struct xdp_queue *q = container_of(link, struct xdp_queue, link);

		if (load(&port->group.ctl->slots[q->slot].drained) == seq)
			continue;
		if (is_drained(q, seq))
			group_slot_drained(&port->group, q->slot, seq);
		else
			waiting = true;
	}
	return waiting;
}

static void ring_wakeup(const struct xdp_port *port)
{
	uint64_t one = 1;

	sys_write(port->wake_fd, &one, sizeof(one));
}

/* Wakes the other members once per audit, to look at their RX rings. */
static void have_drained(struct xdp_port *port)
{
	uint32_t seq = load(&port->group.ctl->audit.seq);

	if (port->rung_seq == seq)
		return;
	port->rung_seq = seq;
	ring_wakeup(port);
}

/* ---- the round ---------------------------------------------------------------------------- */

static void unsteer(void *arg, const uint8_t slots[XDP_STEER_SLOTS])
{
	xdp_unsteer(arg, slots);
	xdp_shares_clear(arg, slots, true);
	__atomic_fetch_add(&ports_deaths, 1, __ATOMIC_RELAXED);
}

/*
 * The group goes on without this process, or ends.  Other members use its slots and frames, now
 * or within GROUP_QUARANTINE, so it neither takes nor gives back any.
 */
static void lose(struct xdp_port *port)
{
	__atomic_store_n(&port->group.lost, true, __ATOMIC_RELAXED);
	xdp_group_stop_answering(port);
	if (port->lifeline_fd >= 0)
		xdp_service_close(port, &port->lifeline_fd);
	/* Now: a later close() would drop the record lock of the port that is opened instead. */
	sys_close_fd(&port->group.ctl_fd);
	/* release: pairs with rings_lost(), called after this under the same lock of rings.c */
	__atomic_store_n(&port->base.lost, true, __ATOMIC_RELEASE);
}

/* Each member closes its port; the first one to open it again makes a group with more queues. */
static void outgrow(struct xdp_port *port)
{
	nsec_t now = group_now();

	if (now - port->group.ctl->made < OUTGROW_INTERVAL)
		return;
	log_info("%s: frames come by more than its %u RX queues; its port is opened anew",
		 port->base.name, port->group.queues);
	/* The kernel must not get frames of flows that members have removed. */
	__atomic_store_n(&port->conf->hold, (uint64_t)(now + XDP_HOLD), __ATOMIC_RELAXED);
	ring_wakeup(port);
	xdp_link_keep(port);
	lose(port);
}

static void sweep(struct xdp_port *port, bool died)
{
	nsec_t now = group_now();

	if (!died && !port->sweeping && now - port->swept < SWEEP_INTERVAL)
		return;
	port->swept = now;
	if (!group_member_renew(&port->group)) {
		log_warn("%s: the processes that share it took this one for dead; its port is "
			 "opened anew",
			 port->base.name);
		lose(port);
		return;
	}
	port->sweeping = group_sweep(&port->group, now, unsteer, port);
	if (load(&port->group.ctl->audit.stage) == AUDIT_DRAINING)
		have_drained(port);
}

/* From now on the kernel marks the slots of this process when it dies. */
static void mark_lives(struct xdp_port *port)
{
	list_for_each(link, &port->queues) {
		const struct xdp_queue *q = container_of(link, struct xdp_queue, link);

		deathmark_set(&port->lives, q->slot);
	}
}

static void check_large(struct xdp_port *port)
{
	nsec_t now = group_now();

	list_for_each(link, &port->queues)
		packet_tx_check(&container_of(link, struct xdp_queue, link)->large, now);
}

static void arm(struct xdp_port *port, nsec_t interval)
{
	struct itimerspec in = {.it_value = {.tv_nsec = interval}};

	sys_call(SYS_timerfd_settime, port->timer_fd, 0, &in, NULL, 0, 0);
}

int xdp_service(struct port *base, int fds[PORT_FDS_MAX])
{
	struct xdp_port *port = (struct xdp_port *)base;
	bool opener, alone, died, again;

	fds[0] = port->epoll_fd;
	if (port_is_lost(&port->base))
		return 0;
	if (!mutex_trylock(&port->lock)) /* a queue is being opened or closed */
		return 1;
	opener = xdp_group_is_opener(port);
	if (!opener)
		xdp_group_stop_answering(port);
	died = handle_events(port);
	if (port->listen_rests)
		end_rest(port);
	alone = opener && port->listen_fd < 0 && port->lifeline_fd < 0;
	if (alone)
		xdp_group_find_answerer(port);
	sweep(port, died);
	if (!port_is_lost(&port->base) && xdp_group_outgrown(port))
		outgrow(port);
	if (port_is_lost(&port->base)) {
		mutex_unlock(&port->lock);
		return 0;
	}
	mark_lives(port);
	again = tell_drained(port);
	again |= xdp_napi_service(port);
	check_large(port);
	again |= port->sweeping;
	again |= alone && port->listen_fd < 0 && port->lifeline_fd < 0;
	if (again)
		arm(port, STEP_INTERVAL);
	else if (port->listen_rests)
		arm(port, REST_INTERVAL);
	mutex_unlock(&port->lock);
	return 1;
}
