/* SPDX-License-Identifier: BSD-2-Clause */
/* Start, exit and fork of the process, and the tables of kind.h. */
#include <errno.h>

#include "base/image/sections.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "ring/bond/port_bond.h"
#include "ring/capture.h"
#include "ring/local/port_local.h"
#include "ring/mlx5/port_mlx5.h"
#include "ring/source.h"
#include "ring/xdp/port_xdp.h"
#include "sock/core/async.h"
#include "sock/core/extra/direct.h"
#include "sock/core/extra/filter.h"
#include "sock/core/extra/held.h"
#include "sock/core/extra/room.h"
#include "sock/core/extra/xtreme.h"
#include "sock/core/host_state.h"
#include "sock/core/icmp.h"
#include "sock/core/kind.h"
#include "sock/core/port/strangers.h"
#include "sock/core/stats/sock_capture.h"
#include "sock/core/stats/sock_record.h"
#include "sock/local/local.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_link.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"
#include "sock/move/kernel_handover.h"
#include "sock/move/links.h"
#include "sock/move/move.h"
#include "sock/share/share.h"
#include "sock/share/transfer.h"
#include "sock/tcp/syn_catch.h"
#include "sock/tcp/tcp_left.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/tcp/timewait.h"
#include "sock/udp/udp_pace.h"
#include "sock/udp/udp_sock.h"
#include "sock/wait/epoll.h"

#define LOOK_INTERVAL (250 * NSEC_PER_MSEC) /* between two calls of look_around(), at least */
#define LOOK_SHARE 50			    /* it takes 1/50 of the time at most */
#define LOOK_AGAIN (50 * NSEC_PER_MSEC)	    /* if sock_ports_look() asks for it */
#define EXIT_LOCK_MAX NSEC_PER_SEC	    /* to get the control lock at exit */
#define EXIT_GRACE (100 * NSEC_PER_MSEC)    /* for peers that close their half when we do */
#define EXIT_LINGER_MAX (2 * NSEC_PER_SEC)  /* for data that peers have not acknowledged */

/* ---- start and stop -------------------------------------------------------------------- */

static void on_neigh(int ifindex, const struct inaddr *addr, enum neigh_state state,
		     const uint8_t mac[6])
{
	/* The kernel forgot the address: it stays in use until the kernel reports another state. */
	if (state == NEIGH_UNKNOWN)
		return;
	for (unsigned i = 0; i < rings_count(); i++) {
		if (ring_interface(rings_at(i)) == ifindex)
			ring_neigh_changed(rings_at(i), addr, state, mac);
	}
}

/*
 * Closes unused rings; looks for other sockets at our ports and for connections of the kernel.
 */
static void look_around(nsec_t now)
{
	static nsec_t next; /* internal thread */
	bool again, kernel;

	if (now < next || !control_trylock())
		return;
	rings_follow();
	if (rings_close_unused(now, timewait_leave_ring))
		now = clock_now(); /* closing took long, but does not happen again soon */
	direct_run();
	again = sock_ports_look();
	kernel = kernel_conns_due(now);
	control_unlock();
	xtreme_run();
	if (kernel)
		kernel_conns_look(now);
	/* Reading a table of many sockets takes long: it gets a small part of the time at most. */
	next = clock_now();
	next += again ? LOOK_AGAIN : (next - now) * LOOK_SHARE + LOOK_INTERVAL;
}

static void renew_ops(struct inet_sock *so, void *arg)
{
	(void)arg;
	sock_ops_renew(so);
}

/* Once, after a second thread came in HOLD_SINGLE: sockets get the calls of the new mode. */
static void follow_mode(void)
{
	static bool done; /* internal thread */

	if (__builtin_expect(done || !hold_single_left(), 1) || !control_trylock())
		return;
	sock_each(renew_ops, NULL);
	done = true;
	control_unlock();
}

static void (*exit_then)(int arg); /* any, atomic: set by sock_exit_by() */
static int exit_arg;		   /* set before exit_then */

/* The internal thread calls it between rounds.  True: there is more to do soon. */
static bool internal_hook(void)
{
	/* Pairs with sock_exit_by(), which sets exit_arg first. */
	void (*then)(int arg) = __atomic_load_n(&exit_then, __ATOMIC_ACQUIRE);
	nsec_t now = clock_now();
	bool more;

	if (__builtin_expect(then != NULL, 0))
		then(exit_arg);
	follow_mode();
	source_answer_all();
	dst_check_host(now);
	more = sock_stats_run(now);
	more = sock_capture_run(now) || more;
	links_follow(now);
	local_links_run(now);
	more = local_moves_run() || more;
	more = local_connects_run() || more;
	local_listeners_run(now);
	more = local_receivers_run() || more;
	syn_catch_close();
	look_around(now);
	more = tcp_left_run(now) || more;
	more = sock_moves_run() || more;
	return share_run() || more;
}

static const struct netlink_events events = {.neigh = on_neigh,
					     .link = links_changed,
					     .addr = links_addr};

/*
 * So that other hosts can neither choose addresses with equal hashes nor guess sequence
 * numbers.
 */
static int open_secrets(void)
{
	uint64_t seed[5];

	if (!random_bytes(seed, sizeof(seed)))
		return -ENODATA;
	flow_key_seed(seed);
	return host_state_open();
}

static int open_netlink(void)
{
	int rc = netlink_open(&events);

	if (rc)
		return rc;
	sock_icmp_open();
	progress_set_hook(internal_hook);
	rc = progress_start();
	if (rc) {
		sock_icmp_forget();
		netlink_close();
		return rc;
	}
	source_start();
	return 0;
}

/* sock_upcalls.start */
static int start_acceleration(void)
{
	int rc;

	clock_init();
	rc = open_secrets();
	return rc ? rc : open_netlink();
}

/* ---- what lower directories need from higher ones ------------------------------------------ */

const struct sock_kind *const sock_kinds[INET_KINDS] = {
	[INET_UDP] = &udp_kind,
	[INET_TCP] = &tcp_kind,
	[INET_LISTEN] = &tcp_listen_kind,
	[INET_LOCAL] = &local_kind,
};

const struct sock_upcalls sock_upcalls = {
	.start = start_acceleration,
	.exit = sock_exit,
	.epoll_set_fd = epoll_set_fd,
	.epoll_destroy = epoll_destroy_set,
	.epoll_sock_closed = epoll_sock_closed,
	.epoll_sock_left = epoll_sock_left,
	.move_settle = sock_move_settle,
	.move_cancel = sock_move_cancel,
	.move_closed = sock_move_closed,
	.unread_to_kernel = kernel_handover_unread,
	.port_opened = links_new_port,
	.addr_expected = links_addr_expected,
	.exported_ops = {[INET_UDP] = &share_udp_ops,
			 [INET_TCP] = &share_ops,
			 [INET_LISTEN] = &share_listen_ops},
	.fetch = share_fetch,
	.request = share_request,
	.nonblock_ask = share_nonblock_ask,
	.share_close = share_close,
	.share_leave = share_leave,
	.local_available = local_available,
	.local_connect = local_connect,
	.local_connect_wait = local_connect_wait,
	.local_may_listen = local_may_listen,
	.local_listen = local_listen,
	.local_unlisten = local_unlisten,
	.local_accepted = local_accepted,
	.local_receive = local_receive,
	.local_receive_stop = local_receive_stop,
	.local_find_group = local_find_group,
	.local_groups = local_groups,
	.local_find = local_find,
	.local_await = local_await,
	.local_may_connect = local_may_connect,
	.local_is_there = local_is_there,
	.local_by_kernel = local_by_kernel,
	.local_by_twin = local_by_twin,
	.local_filtered = local_filtered,
	.local_capture = local_capture,
	.local_send = local_udp_send,
	.local_turn = local_turn,
	.local_look = local_udp_look,
	.local_send_stop = local_send_stop,
	.local_udp_end = local_udp_end,
	.local_udp_ring = local_udp_ring,
	.local_udp_ops = local_udp_ops,
};

static local_handler *const local_handlers[LOCAL_KINDS] = {
	[LOCAL_CONNECT] = local_take_connect, [LOCAL_MOVE] = local_take_move,
	[LOCAL_MOVED] = local_take_moved,     [LOCAL_ASK] = local_take_ask,
	[LOCAL_RECORDS] = local_take_records,
};

void sock_init(const struct sock_hooks *h)
{
	static const struct port_kind *const kinds[] = {&port_mlx5_kind, &port_xdp_kind,
							&port_bond_kind, &port_local_kind, NULL};

	sock_hooks = *h;
	sock_list_init();
	sock_alloc_init();
	ring_mode = (enum hold_mode)params.thread_mode;
	if (ring_mode == HOLD_SINGLE && !hold_single_supported()) {
		log_warn("VMA_THREAD_MODE=0 needs membarrier(2), which this kernel lacks; using 1");
		ring_mode = HOLD_SPIN;
	}
	hold_single_begin();
	rings_init(kinds);
	direct_init(&mlx5_direct_kind);
	local_init(local_handlers);
}

/*
 * Resets a connection that is still connecting: an answer to its SYN would stay in the ring,
 * which is not polled any more.
 */
static void end_connecting(struct inet_sock *so)
{
	struct ring *ring;

	if (!sock_has_connection(so) || sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (sock_is_connecting(so))
		tcp_reset_syn(&so->tcp.conn, clock_now());
	ring_release_cold(ring);
}

static void close_at_exit(struct inet_sock *so, void *arg)
{
	(void)arg;
	end_connecting(so);
	if (so->inet != INET_UDP) {
		sock_close_locked(sock_ref_of(so));
		return;
	}
	if (!udp_lingers(so))
		verdict_count(sock_told_verdict(so));
	sock_stats_end(so);
}

/* Polls all rings until nothing is left of what is counted there, or until the timeout. */
static void wait_for(const unsigned *left, nsec_t timeout)
{
	nsec_t deadline = clock_now() + timeout;

	while (__atomic_load_n(left, __ATOMIC_RELAXED) && clock_now() < deadline) {
		for (unsigned i = 0; i < rings_count(); i++)
			sock_poll_ring(rings_at(i));
		rings_service(NULL,
			      0); /* processes that begin to use an interface need an answer */
		sys_sched_yield();
	}
}

static void log_moves(const char *what, const struct sock_move_stats *stats)
{
	if (stats->started)
		log_debug("sockets that moved, %s: %u started, %u finished, %u abandoned", what,
			  stats->started, stats->finished, stats->abandoned);
}

/* False: another thread is stuck in a slow call; it must not keep the process from ending. */
static bool lock_at_exit(void)
{
	nsec_t deadline = clock_now() + EXIT_LOCK_MAX;

	while (!control_trylock()) {
		if (clock_now() > deadline)
			return false;
		sys_sched_yield();
	}
	return true;
}

/* Once, also in a process that accelerated nothing. */
static void log_verdicts(void)
{
	static bool told; /* control lock, unless nothing was accelerated */

	if (!told)
		verdict_log_counts();
	told = true;
}

void sock_exit(void)
{
	if (!sock_is_active()) {
		log_verdicts();
		return;
	}
	if (hold_current || !lock_at_exit())
		return;
	hold_at_exit();
	share_exit();
	source_stop();
	progress_stop();
	sock_moves_settle(); /* the internal thread does not run any more */
	log_moves("receiving", &sock_moves_rx);
	log_moves("sending", &sock_moves_tx);
	timewait_log_stats();
	sock_each(close_at_exit, NULL);
	/* As the kernel does after the end of a process, but for a shorter time. */
	wait_for(&tcp_orphans[TCP_ORPHAN_UNACKED], EXIT_LINGER_MAX);
	wait_for(&udp_pace_waiting, EXIT_LINGER_MAX);
	wait_for(&tcp_orphans[TCP_ORPHAN_HALF], EXIT_GRACE);
	for (unsigned i = 0; i < rings_count(); i++)
		ring_at_exit(rings_at(i));
	local_links_stop();
	stats_close();
	recorder_close();
	log_verdicts();
	/*
	 * Rings stay as they are, because other threads may be in the middle of a call until the
	 * process has ended.  Then the kernel takes the interfaces back.
	 */
	netlink_close();
	sock_stopped(true);
	control_unlock();
}

bool sock_is_active(void)
{
	return sock_started() || share_is_active();
}

bool sock_exit_by(int arg, void (*then)(int arg))
{
	/* Without internal_hook() nobody calls then; sockets that are only shared need no end. */
	if (!sock_started())
		return false;
	if (!__atomic_load_n(&exit_then, __ATOMIC_RELAXED)) {
		exit_arg = arg;
		/* Pairs with internal_hook(), which reads exit_arg after it. */
		__atomic_store_n(&exit_then, then, __ATOMIC_RELEASE);
	}
	progress_kick();
	return true;
}

/* ---- fork ---------------------------------------------------------------------------------- */

/*
 * A connected datagram socket with unread datagrams falls back to the kernel, so that parent
 * and child can read them.  Without any it stays (udp.forked); datagrams that are unread when
 * this process closes it are handed over to the kernel then.
 */
static void begin_unread_datagrams(struct inet_sock *so, void *barrier)
{
	if (so->inet == INET_UDP && so->udp.connected)
		so->udp.forked = !kernel_handover_begin_unread(so, barrier);
}

static void finish_unread_datagrams(struct inet_sock *so, void *arg)
{
	(void)arg;
	if (so->inet == INET_UDP && so->udp.connected && !so->udp.forked)
		so->udp.forked = kernel_handover(so, VERDICT_FORKED) != 0;
}

static void hand_over_unread_datagrams(void)
{
	struct rings_barrier barrier = {.n = 0};

	sock_each(begin_unread_datagrams, &barrier);
	rings_barrier_wait(&barrier);
	sock_each(finish_unread_datagrams, NULL);
}

/*
 * There is no channel to the child, and it accepts what the twin gets: the kernel gets new local
 * connections, too.
 */
static void stop_local_listening(struct inet_sock *so, void *arg)
{
	(void)arg;
	if (so->inet == INET_LISTEN)
		local_unlisten(so);
}

/* Of the parent, at the last fork(); the child reads its copy. */
static bool child_has_connections EARLY_DATA;

static void share_with_child(void)
{
	share_stop_local_receiving();
	hand_over_unread_datagrams();
	/* O_NONBLOCK, too, is the open files'. */
	__atomic_store_n(&sock_shared_id, sock_last_id(), __ATOMIC_RELAXED);
	if (!share_fork_prepare())
		sock_each(stop_local_listening, NULL);
	child_has_connections = share_has_connections();
}

void sock_fork_prepare(bool detached)
{
	control_fork_prepare();
	if (!detached)
		share_with_child();
	sock_alloc_fork_prepare();
}

void sock_fork_parent(bool detached)
{
	sock_alloc_fork_parent();
	if (!detached)
		share_fork_parent();
	control_fork_done();
}

/*
 * In the child: sockets that stay shared are moved to the list shared; the kernel serves the
 * others.
 */
static void sort_out(struct inet_sock *so, void *arg)
{
	struct list *shared = arg;

	sock_stats_fork_child(so);
	xtreme_fork_child_sock(so);
	if (so->inet == INET_UDP) {
		udp_filter_fork_child(so);
		udp_pace_fork_child(so);
	} else if (so->inet == INET_TCP) {
		tcp_filter_fork_child(so);
	} else if (so->inet == INET_LOCAL) {
		local_filter_fork_child(so);
	}
	list_remove(&so->link);
	if (share_fork_child_takes(so)) {
		list_push_back(shared, &so->link);
		return;
	}
	so->verdict = VERDICT_FORKED;
	verdict_count(VERDICT_FORKED);
	sock_hooks.left(&so->sk);
}

/* Makes these sockets exported and lists them.  Returns their number. */
static unsigned begin_exported(struct list *shared)
{
	unsigned n = 0;
	struct list *link;

	while ((link = list_pop_front(shared))) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		transfer_begin_exported(so);
		sock_list_add(so);
		n++;
	}
	return n;
}

/* Also after sock_exit() in the parent, which leaves rings as they are. */
EARLY_CODE static bool has_descriptors(void)
{
	return sock_started() || sock_start_failed() || progress_running();
}

EARLY_CODE bool sock_fork_child_may_wait(void)
{
	return !child_has_connections && !sock_in_callback;
}

EARLY_CODE void sock_fork_child_waits(void)
{
	if (has_descriptors())
		sys_fd_close_hidden(share_fork_child_fd());
}

/*
 * Other threads of the parent may have been anywhere, also in the middle of a change to a ring.
 * So what they may have used is not touched, and old objects are abandoned, not freed.
 */
void sock_fork_child(void)
{
	bool returns = sock_in_callback; /* into a call that polls the parent's rings */
	struct list shared;
	unsigned n;

	list_init(&shared);
	control_fork_child();
	share_fork_child();
	epoll_fork_child();
	hold_current = NULL;
	ring_thread = (struct ring_thread){0};
	busy_defers = 0;
	hold_fork_child();
	async_fork_child();
	held_fork_child();
	rooms_fork_child();
	xtreme_fork_child();
	direct_fork_child();
	filters_fork_child();
	sock_stats_forget();
	sock_record_forget();
	ring_capture_forget();
	sock_each(sort_out, &shared);
	sock_alloc_fork_child();
	options_fork_child();
	sock_moves_forget();
	sock_icmp_forget();
	links_forget();
	syn_catch_forget();
	kernel_conns_forget();
	strangers_forget();
	tcp_left_forget();
	logic_fork_child();
	local_fork_child();
	local_moves_forget();
	local_listen_forget();
	local_udp_forget();
	local_memory_forget();
	if (has_descriptors()) {
		progress_forget();
		source_forget();
		netlink_close();
		rings_forget(returns);
		sys_fd_forget_all();
	}
	exit_then = NULL;
	sock_stopped(false);
	memset(tcp_orphans, 0, sizeof(tcp_orphans));
	timewait_forget();
	n = begin_exported(&shared);
	share_fork_child_done(n);
	control_fork_done();
}
