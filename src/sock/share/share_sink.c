/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the rules of process sharing (share_machine.h) do to sockets of this process, and the
 * events that come from its internal thread.
 */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/local/local_sock.h"
#include "sock/move/kernel_handover.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "sock/tcp/tcp_sock.h"

static int *message_fd; /* of the message that the machine acts on; NULL: none. Control lock */

static struct sharing *sharing_of(struct shared *s)
{
	return container_of(s, struct sharing, shared);
}

static struct inet_sock *sock_of(struct shared *s)
{
	return sharing_of(s)->so;
}

/* ---- in general ------------------------------------------------------------------------ */

/* Our twin; if our program has closed it, that of a process for which it is requested. */
static int twin_for(const struct inet_sock *so)
{
	int twin = sock_twin(&so->sk);

	list_for_each(link, &share_process.channels) {
		const struct want *want =
			twin < 0 ? channel_want(container_of(link, struct channel, link), so->id)
				 : NULL;

		twin = want ? want->twin : twin;
	}
	return twin;
}

static int fd_of(uint64_t id, enum message_kind kind, uint64_t flags)
{
	bool twin = kind == MESSAGE_REQUEST ||
		    (kind == MESSAGE_NACK && flags & MESSAGE_FLAG_UNABLE);
	struct inet_sock *so = twin || kind == MESSAGE_EXPORT ? share_find(id) : NULL;
	int fd = -1;

	if (so && (!twin || !share_is_member(so)))
		fd = twin ? twin_for(so) : so->sharing->memfd;
	return fd < 0 ? -1 : sys_fd_copy(fd);
}

static void sink_send(struct share_sink *sink, struct channel *ch, enum message_kind kind,
		      uint64_t id, uint64_t flags)
{
	channel_send(ch, kind, id, flags, fd_of(id, kind, flags));
}

static struct channel *sink_passed(struct share_sink *sink, uint64_t id)
{
	return pass_holder(id);
}

static void sink_ask_later(struct share_sink *sink, struct shared *s)
{
	struct sharing *sharing = sharing_of(s);

	if (list_linked(&sharing->asking))
		return;
	list_push_back(&share_process.asking, &sharing->asking);
	share_busy();
}

static void sink_arrived(struct share_sink *sink, struct shared *s)
{
	if (s->failed)
		log_warn("fd %d: a connection of another process cannot be used here: %s",
			 sock_twin(&sock_of(s)->sk), strerror(s->failed));
	list_remove(&sharing_of(s)->asking);
	share_wake_waiters();
}

/* It cannot be served here, or its owner said so. */
static enum verdict reason_to_leave(const struct inet_sock *so)
{
	return so->verdict == VERDICT_ACCELERATED || so->verdict == VERDICT_LOCAL ? VERDICT_SHARED
										  : so->verdict;
}

/*
 * A connection is in the owner's twin, which is the same file as ours; or the kernel receives
 * for a listener or datagram socket there, and so here.
 */
static void sink_leave(struct share_sink *sink, struct shared *s)
{
	struct inet_sock *so = sock_of(s);
	enum verdict reason = s->state == SHARED_PARTING ? sharing_of(s)->reason
							 : reason_to_leave(so);

	control_assert_held();
	control_assert_no_ring();
	(void)(shared_is_away(s) ? sock_leave_exported : kernel_handover)(so, reason);
	share_wake_waiters();
}

static void sink_keep(struct share_sink *sink, struct shared *s)
{
	struct sharing *sharing = sharing_of(s);

	log_debug("fd %d: closed, others have it open", sock_twin(&sharing->so->sk));
	list_remove(&sharing->asking);
	if (!sharing->cookie && !s->member)
		sharing->cookie = sys_socket_cookie(sock_twin(&sharing->so->sk));
	sock_keep(sharing->so);
	list_push_back(&share_process.kept, &sharing->so->link);
}

/*
 * Channels of this socket alone are done. They are destroyed later, not in the middle of a
 * message.
 */
static void finish_channels(uint64_t id)
{
	list_for_each(link, &share_process.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch->only == id && idset_add(&ch->closed, id))
			ch->done = true;
	}
	share_busy();
}

/* Another process served it; its listener hears for how long. */
static void tell_listener(const struct sharing *sharing)
{
	if (sharing->listener.sk)
		local_listen_served(sharing->listener, clock_now() - sharing->exported_at);
}

static void sink_drop(struct share_sink *sink, struct shared *s)
{
	struct sharing *sharing = sharing_of(s);

	tell_listener(sharing);
	list_remove(&sharing->asking);
	list_remove(&sharing->member);
	/* Those who have it open go on by the kernel. */
	if (s->state == SHARED_KERNEL && sharing->so->inet == INET_UDP &&
	    !sock_is_exported(&sharing->so->sk))
		kernel_handover_last(sharing->so);
	finish_channels(s->id);
	list_remove(&sharing->so->link);
	sock_end(sharing->so);
}

/* ---- connections ----------------------------------------------------------------------- */

static bool sink_used(struct share_sink *sink, struct shared *s, bool note)
{
	struct sharing *sharing = sharing_of(s);
	struct inet_sock *so = sharing->so;
	struct ring *home = sock_home(so);
	uint32_t read_to, written_to;
	bool used;

	if (!ring_hold_cold(home))
		return false;
	if (so->inet == INET_LOCAL) {
		read_to = (uint32_t)so->shm.in.head;
		written_to = (uint32_t)so->shm.out.tail;
	} else {
		read_to = so->tcp.conn.rcv_nxt - so->tcp.conn.rcv.bytes;
		written_to = so->tcp.conn.snd_una + so->tcp.conn.snd.len;
	}
	used = sharing->read_to != read_to || sharing->written_to != written_to;
	if (note) {
		sharing->read_to = read_to;
		sharing->written_to = written_to;
	}
	ring_release_cold(home);
	return used;
}

static int sink_export(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	struct inet_sock *so = sock_of(s);
	int rc;

	if (so->inet == INET_LOCAL && so->shm.listener && !so->sharing->listener.sk) {
		so->sharing->listener =
			(struct sock_ref){&so->shm.listener->sk, so->shm.listener_gen};
		so->sharing->exported_at = clock_now();
	}
	rc = transfer_export(so, ch ? ch->serial : 0, so->id, &so->sharing->memfd);
	if (!rc)
		log_debug("fd %d: the connection goes to another %s", sock_twin(&so->sk),
			  ch ? "process" : "program");
	return rc;
}

static int sink_import(struct share_sink *sink, struct shared *s)
{
	int rc = transfer_import(sock_of(s), *message_fd);

	log_debug("fd %d: the connection came from another process: %s", sock_twin(&sock_of(s)->sk),
		  strerror(-rc));
	return rc;
}

static int sink_transit_over(struct share_sink *sink, struct shared *s, bool back)
{
	struct sharing *sharing = sharing_of(s);
	int rc = back ? transfer_import(sharing->so, sharing->memfd) : 0;

	if (rc)
		log_debug("fd %d: the connection cannot come back: %s", sock_twin(&sharing->so->sk),
			  strerror(-rc));
	sys_close_fd(&sharing->memfd);
	return rc;
}

static void sink_prepare(struct share_sink *sink, struct shared *s)
{
	transfer_prepare(sock_of(s));
}

static void sink_reset(struct share_sink *sink, struct shared *s)
{
	log_debug("fd %d: the process that had the connection is gone", sock_twin(&sock_of(s)->sk));
	transfer_lost(sock_of(s));
}

/* Our program closed it, so there is no twin here any more: the message's is used. */
static int hand_over_kept(struct inet_sock *so)
{
	int rc;

	if (*message_fd < 0 || !so->sharing->cookie ||
	    sys_socket_cookie(*message_fd) != so->sharing->cookie)
		return -EBADF;
	/* Pairs with sock_twin(). */
	__atomic_store_n(&so->sk.twin, *message_fd, __ATOMIC_RELEASE);
	rc = kernel_handover(so, VERDICT_SHARED);
	if (!rc)
		pass_mark_remove(*message_fd); /* share_leave() is not called for it */
	/* Pairs with sock_twin(), before the descriptor is closed. */
	__atomic_store_n(&so->sk.twin, -1, __ATOMIC_RELEASE);
	return rc;
}

static int sink_hand_over(struct share_sink *sink, struct shared *s)
{
	struct inet_sock *so = sock_of(s);
	int rc = -ENOTCONN;

	if (so->inet != INET_LOCAL && sock_has_connection(so) && !sock_has_ended(so))
		rc = s->closed ? hand_over_kept(so) : kernel_handover(so, VERDICT_SHARED);
	if (rc)
		log_debug("kernel handover of a connection failed: %s", strerror(-rc));
	return rc;
}

/* ---- members --------------------------------------------------------------------------- */

static int sink_join(struct share_sink *sink, struct shared *s)
{
	int rc = member_arrive(sock_of(s));

	return rc == SOCK_KERNEL ? SHARE_UNABLE : rc;
}

static int sink_spread(struct share_sink *sink, struct shared *s)
{
	int rc = sock_flows_inherited(sock_of(s));

	if (rc && rc != -EAGAIN)
		log_debug("fd %d: other processes cannot receive for it: %s",
			  sock_twin(&sock_of(s)->sk), strerror(-rc));
	return rc;
}

static void sink_stop(struct share_sink *sink, struct shared *s)
{
	member_stop(sock_of(s));
}

static bool sink_start(struct share_sink *sink, struct shared *s)
{
	return member_start(sock_of(s));
}

static void sink_withdraw(struct share_sink *sink, struct shared *s, struct channel *ch, bool stays)
{
	struct inet_sock *so = sock_of(s);

	log_debug("fd %d: other processes receive for it", sock_twin(&so->sk));
	member_end_flows(so);
	share_send_waiting(so, ch);
	if (!stays)
		return;
	if (s->closed)
		sink_keep(sink, s); /* connections on their way to it are reset from now on */
	member_leave(so);
}

static void sink_send_waiting(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	share_send_waiting(sock_of(s), ch);
}

static void sink_part(struct share_sink *sink, struct shared *s)
{
	struct inet_sock *so = sock_of(s);

	sharing_of(s)->reason = reason_to_leave(so);
	so->verdict = VERDICT_ACCELERATED; /* until it leaves */
	member_end_flows(so);
}

static bool sink_has_handshakes(struct share_sink *sink, struct shared *s)
{
	return member_has_handshakes(sock_of(s));
}

static bool sink_is_idle(struct share_sink *sink, struct shared *s)
{
	return member_is_idle(sock_of(s));
}

static bool sink_has_waiting(struct share_sink *sink, struct shared *s)
{
	return __atomic_load_n(&sock_of(s)->listen.waiting, __ATOMIC_RELAXED);
}

static void sink_look(struct share_sink *sink, struct shared *s, bool at_it)
{
	struct sharing *sharing = sharing_of(s);

	if (!at_it) {
		list_remove(&sharing->member);
	} else if (!list_linked(&sharing->member)) {
		list_push_back(&share_process.members, &sharing->member);
		__atomic_store_n(&share_process.looking, 1, __ATOMIC_RELAXED);
	}
}

static int sink_take_pending(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	return member_take_pending(sock_of(s), ch ? ch->serial : 0, *message_fd);
}

static void sink_forward(struct share_sink *sink, uint64_t id, struct channel *to, uint64_t flags)
{
	share_send_pending(to, id, flags, *message_fd);
	*message_fd = -1;
}

/* ---- events ---------------------------------------------------------------------------- */

struct share_sink *share_sink(void)
{
	static const struct share_sink_ops ops = {
		.send = sink_send,
		.passed = sink_passed,
		.ask_later = sink_ask_later,
		.arrived = sink_arrived,
		.leave = sink_leave,
		.keep = sink_keep,
		.drop = sink_drop,
		.used = sink_used,
		.export = sink_export,
		.import = sink_import,
		.transit_over = sink_transit_over,
		.prepare = sink_prepare,
		.reset = sink_reset,
		.hand_over = sink_hand_over,
		.join = sink_join,
		.spread = sink_spread,
		.stop = sink_stop,
		.start = sink_start,
		.withdraw = sink_withdraw,
		.send_waiting = sink_send_waiting,
		.part = sink_part,
		.has_handshakes = sink_has_handshakes,
		.is_idle = sink_is_idle,
		.has_waiting = sink_has_waiting,
		.look = sink_look,
		.take_pending = sink_take_pending,
		.forward = sink_forward,
	};
	static struct share_sink sink = {.ops = &ops, .channels = &share_process.channels};

	sink.now = clock_now();
	sink.exiting = share_process.exiting;
	return &sink;
}

void share_sink_receive(struct shared *s, struct channel *ch, const struct message *message,
			int *fd)
{
	message_fd = fd;
	shared_receive(share_sink(), s, ch, message);
	message_fd = NULL;
}

bool share_sink_for_another(struct channel *ch, const struct message *message, int *fd)
{
	bool goes_on;

	if (message->kind == MESSAGE_PENDING && *fd < 0)
		return ch->rerouted;
	message_fd = fd;
	goes_on = shared_for_another(share_sink(), ch, message);
	message_fd = NULL;
	if (goes_on && message->kind == MESSAGE_PENDING)
		channel_send(ch, MESSAGE_RECEIVED, message->id, 0, -1);
	return goes_on;
}

bool share_sink_pending(uint64_t id, struct channel *ch, uint64_t hops, int *memfd)
{
	struct inet_sock *so = share_find(id);
	bool ok;

	message_fd = memfd;
	ok = shared_pending(share_sink(), so ? share_of(so) : NULL, id, ch, hops);
	message_fd = NULL;
	return ok;
}

void share_request_for(struct inet_sock *so)
{
	struct shared *s = share_of(so);

	if (s)
		shared_request(share_sink(), s);
}

bool share_request_due(void)
{
	bool left = false;

	list_for_each_safe(link, &share_process.asking) {
		struct sharing *sharing = container_of(link, struct sharing, asking);
		struct shared *s = share_of(sharing->so);

		if (shared_may_request(share_sink(), s)) {
			list_remove(link);
			shared_request(share_sink(), s);
		} else {
			left = true;
		}
	}
	return left;
}

/* False: later. */
static bool serve(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = share_find(id);
	struct shared *s = so ? share_of(so) : NULL;

	if (so && !s)
		return false; /* no memory */
	return shared_serve(share_sink(), s, ch, id);
}

bool share_serve_requests(struct channel *ch)
{
	list_for_each_safe(link, &ch->wants) {
		struct want *want = container_of(link, struct want, link);

		if (!serve(ch, want->id))
			continue;
		channel_want_end(want);
	}
	return list_empty(&ch->wants);
}
