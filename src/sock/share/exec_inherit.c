/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/exec_inherit.h"

#include <errno.h>
#include <string.h>
#include <fcntl.h>
#include <linux/tcp.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"
#include "sock/move/kernel_handover.h"
#include "sock/share/exec_local.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "sock/tcp/tcp_orphans.h"
#include "sock/udp/udp_pace.h"

#define OFFER_MAX NSEC_PER_SEC
#define ORPHANS_MAX (2 * NSEC_PER_SEC) /* as at exit */

/* ---- the old image ----------------------------------------------------------------- */

/*
 * Who goes on with so: the parent, if it holds so, or another process with a local connection, which
 * the kernel cannot serve. NULL: nobody.
 */
static struct channel *heir_of(struct inet_sock *so)
{
	if (share_parent_holds(so))
		return share_process.up;
	return so->inet == INET_LOCAL ? share_other_holder(so, NULL) : NULL;
}

/* Offers each socket to its heir, once. True: some are still here. */
static bool offer_all(void)
{
	bool left = false;

	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);
		struct channel *heir = share_is_known_to_children(so) ? heir_of(so) : NULL;
		struct shared *s = heir ? share_of(so) : NULL;

		left |= s && shared_offer(share_sink(), s, heir);
	}
	return left;
}

static void forget_offers(void)
{
	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (so->sharing)
			so->sharing->shared.offered = false;
	}
}

/* Hands the socket over to the kernel, or closes it with a warning. */
static void hand_over(struct inet_sock *so)
{
	static bool warned; /* control lock */
	bool connection = sock_is_connection(so);
	uint64_t id = so->id;
	int fd = sock_twin(&so->sk), rc;

	rc = kernel_handover(so, VERDICT_EXECUTED);
	if (!rc) {
		/* Not before: a peer process uses its twin as soon as it hears of it. */
		if (connection)
			shared_tell_to_kernel(share_sink(), id);
		return;
	}
	if (!warned)
		log_box(LOG_WARNING,
			"Descriptor %d is not inherited by the program that is executed.\n"
			"The program needs the kernel to serve the connection, but kernel\n"
			"handover failed: %s (TCP_REPAIR needs CAP_NET_ADMIN). It is closed.",
			fd, strerror(-rc));
	warned = true;
	sock_close_locked(sock_ref_of(so));
}

static bool is_to_hand_over(const struct inet_sock *so, bool connections)
{
	return !sock_is_exported(&so->sk) && sock_has_owner(so) == connections;
}

static void hand_over_all(bool connections, bool inherits)
{
	struct rings_barrier barrier = {.n = 0};

	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (is_to_hand_over(so, connections))
			kernel_handover_begin(so, &barrier);
	}
	rings_barrier_wait(&barrier);
	list_for_each_safe(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (!is_to_hand_over(so, connections))
			continue;
		if (so->inet == INET_LOCAL)
			exec_local_leave(so, inherits);
		else
			hand_over(so);
	}
}

/*
 * What the program has closed or sent ends as it would without exec: until peers have acknowledged
 * it, for a while.  The internal thread polls the rings.
 */
static void wait_for_orphans(void)
{
	nsec_t deadline = clock_now() + ORPHANS_MAX;

	while ((__atomic_load_n(&tcp_orphans[TCP_ORPHAN_UNACKED], __ATOMIC_RELAXED) ||
		__atomic_load_n(&udp_pace_waiting, __ATOMIC_RELAXED)) &&
	       clock_now() < deadline)
		sys_sleep(NSEC_PER_MSEC);
}

/* Listeners first: connections covered by a listener's flow get flows of their own by that. */
void exec_inherit_leave(bool inherits)
{
	if (!control_lock())
		return;
	hand_over_all(false, inherits);
	hand_over_all(true, inherits);
	control_unlock();
	if (inherits)
		wait_for_orphans();
	else
		sock_upcalls.exit();
}

void exec_inherit_fetch(struct sock_ref ref)
{
	if (sock_is_exported(ref.sk) && !share_is_member(inet_of(ref.sk)))
		(void)share_fetch(ref, SHARE_FETCH_MAX);
}

/* Meanwhile the internal thread answers requests for what was offered. */
static void wait_a_little(void)
{
	control_unlock();
	sys_sleep(NSEC_PER_MSEC);
}

/* The next image inherits the channel to the parent. False: it cannot. */
static bool leave_channel(struct exec_channel *ch)
{
	if (!share_process.up)
		return false;
	ch->fd = share_process.up->fd;
	ch->last_id = share_process.up->last_id;
	return channel_flush(share_process.up) && ch->last_id < EXEC_INHERIT_ID_MAX &&
	       !sys_fcntl(ch->fd, F_SETFD, 0);
}

bool exec_inherit_begin(struct exec_channel *ch)
{
	nsec_t deadline = 0;

	for (;;) {
		if (!control_lock())
			return false;
		share_init();
		if (share_process.exiting || share_process.executing) {
			control_unlock();
			return false;
		}
		if (!deadline)
			deadline = clock_now() + OFFER_MAX;
		if (!offer_all() || clock_now() >= deadline)
			break;
		wait_a_little();
	}
	forget_offers();
	share_process.executing = leave_channel(ch);
	control_unlock();
	return share_process.executing;
}

static bool is_at_parents(const struct inet_sock *so)
{
	if (share_is_member(so))
		return channel_holds(share_process.up, so->id);
	return share_toward(so) == share_process.up && so->id <= share_process.up->last_id;
}

uint64_t exec_inherit_id(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	uint64_t id = 0;

	if (!control_lock())
		return 0;
	if (sock_ref_valid(ref) && sock_is_exported(ref.sk) && is_at_parents(so)) {
		sock_twin_prepare(so); /* the new image does not know how */
		id = so->id;
	}
	control_unlock();
	return id;
}

void exec_inherit_undo(void)
{
	if (!control_lock())
		return;
	share_process.executing = false;
	if (share_process.up)
		sys_fcntl(share_process.up->fd, F_SETFD, FD_CLOEXEC);
	share_process.readable = true;
	share_busy();
	control_unlock();
}

/* ---- a forked child that has not begun ---------------------------------------------- */

/*
 * Nothing is exported to this process, and it sends nothing: the new image speaks first on the
 * channel.
 */
bool exec_inherit_begin_waiting(struct exec_channel *ch)
{
	const struct channel *fresh = share_process.fresh;

	list_for_each(link, sock_list()) {
		const struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (so->raw_twin && share_is_known_to_children(so))
			return false; /* the new image does not know how to prepare it */
	}
	if (!fresh || fresh->last_id >= EXEC_INHERIT_ID_MAX)
		return false;
	ch->fd = share_process.fresh_fd;
	ch->last_id = fresh->last_id;
	share_process.fresh_executes = !sys_fcntl(ch->fd, F_SETFD, 0);
	return share_process.fresh_executes;
}

uint64_t exec_inherit_waiting_id(struct sock_ref ref)
{
	const struct inet_sock *so = inet_of(ref.sk);

	return sock_ref_valid(ref) && share_is_known_to_children(so) ? so->id : 0;
}

void exec_inherit_undo_waiting(void)
{
	share_process.fresh_executes = false;
	sys_fcntl(share_process.fresh_fd, F_SETFD, FD_CLOEXEC);
}

/* ---- a child that executes a program at once --------------------------------------- */

bool exec_inherit_any(void)
{
	bool any = false;

	if (control_lock()) {
		share_stop_local_receiving();
		any = !share_process.exiting && share_has_sockets();
		control_unlock();
	}
	return any;
}

bool exec_inherit_lend(struct exec_channel *ch)
{
	struct channel *channel = NULL;

	if (!control_lock())
		return false;
	if (!share_process.exiting)
		channel = share_new_channel(&ch->fd);
	if (channel) {
		ch->last_id = channel->last_id;
		share_listen_to(channel);
	}
	control_unlock();
	return channel != NULL;
}

uint64_t exec_inherit_lent_id(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	uint64_t id = 0;

	if (!control_lock())
		return 0;
	if (sock_ref_valid(ref) && share_is_known_to_children(so)) {
		sock_twin_prepare(so);
		id = so->id;
	}
	control_unlock();
	return id;
}

/* ---- the new image ----------------------------------------------------------------- */

bool exec_inherit_open(const struct exec_channel *ch)
{
	bool ok;

	if (!control_lock())
		return false;
	share_init();
	share_process.up = channel_create(sys_fd_hide(ch->fd), ch->last_id);
	if (share_process.up)
		sock_skip_ids(ch->last_id);
	ok = share_process.up != NULL;
	control_unlock();
	return ok;
}

/* Takes the state of a listener or datagram socket from its twin. False: it is not bound. */
static bool begin_member(struct inet_sock *so, bool udp)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (sock_read_local(so) || !so->local.port)
		return false;
	so->bound = true;
	so->bound_addr = !addr_is_any(&so->local.addr);
	so->inet = udp ? INET_UDP : INET_LISTEN;
	if (!udp && !sys_getsockopt(sock_twin(&so->sk), IPPROTO_TCP, TCP_INFO, &info, &len))
		so->listen.backlog = info.tcpi_sacked; /* the backlog, of a listener */
	member_begin_exported(so);
	return true;
}

static bool begin_exported(struct inet_sock *so, bool udp)
{
	socklen_t len = sizeof(int);
	int listens = 0;

	if (!sock_options_init(so, sock_kinds[udp ? INET_UDP : INET_TCP]))
		return false;
	sys_getsockopt(sock_twin(&so->sk), SOL_SOCKET, SO_ACCEPTCONN, &listens, &len);
	if (udp || listens)
		return begin_member(so, udp);
	so->inet = INET_TCP;
	transfer_blank(so);
	return true;
}

static struct inet_sock *create(int fd, bool udp, uint64_t id)
{
	struct inet_sock *so = sock_alloc(udp ? SOCK_TYPE_UDP : SOCK_TYPE_TCP);

	if (!so)
		return NULL;
	__atomic_store_n(&so->id, id, __ATOMIC_RELAXED);
	so->verdict = VERDICT_ACCELERATED;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	sock_family_init(so, fd);
	if (!begin_exported(so, udp)) {
		sock_free(so);
		return NULL;
	}
	(void)share_nonblock_now(so);
	sock_list_add(so);
	channel_send(share_process.up, MESSAGE_INVENTORY, id, 0, -1);
	share_process.up->toward++;
	return so;
}

struct sock_ref exec_inherit_add(int fd, bool udp, uint64_t id)
{
	struct sock_ref none = {NULL, 0};
	struct inet_sock *so;

	if (!control_lock())
		return none;
	so = NULL;
	if (id && id <= share_process.up->last_id) {
		so = share_find(id);
		so = so ? so : create(fd, udp, id);
	}
	control_unlock();
	return so ? sock_ref_of(so) : none;
}

void exec_inherit_done(void)
{
	if (!control_lock())
		return;
	channel_send(share_process.up, MESSAGE_INVENTORY_END, 1, 0, -1);
	log_debug("executed, with %u sockets of the parent", share_process.up->toward);
	share_listen_to(share_process.up);
	share_busy(); /* messages may still be queued */
	control_unlock();
}
