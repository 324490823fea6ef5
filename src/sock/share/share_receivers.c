/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes receive for a listener or datagram socket that several hold. A process
 * that uses one joins its receivers; a member whose process does not look at it withdraws,
 * and sends what waits there to another process.
 */
#include "sock/share/share_internal.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define IDLE (20 * NSEC_PER_MSEC) /* after this time without a look it is idle */
#define OFFER_AGAIN (5 * IDLE)	  /* interval of offers */
#define PENDING_MAX 1024	  /* forwarded to one channel and not yet received */

/* A connection of a listener, or datagrams, sent to another process and not yet received. */
struct pending {
	struct list link;
	struct channel *to;
	uint64_t id; /* of the listener or datagram socket */
	int memfd;
};

/* From now on share_look_at_members() looks at it. */
static void add_member(struct sharing *sharing)
{
	list_push_back(&share_process.members, &sharing->member);
	__atomic_store_n(&share_process.looking, 1, __ATOMIC_RELAXED);
}

/* memfd is consumed. */
static void send_pending(struct channel *to, uint64_t id, uint64_t hops, int memfd)
{
	struct pending *pending = mem_alloc(sizeof(*pending));

	if (pending) {
		*pending = (struct pending){.to = to, .id = id, .memfd = sys_fd_copy(memfd)};
		list_push_back(&share_process.pending, &pending->link);
		to->pending++;
	}
	channel_send(to, MESSAGE_PENDING, id, hops, memfd);
}

static struct pending *find_pending(const struct channel *to, uint64_t id)
{
	list_for_each(link, &share_process.pending) {
		struct pending *pending = container_of(link, struct pending, link);

		if (pending->to == to && (!id || pending->id == id))
			return pending;
	}
	return NULL;
}

/* Closes its memfd, unless the caller took it and set it to -1. */
static void pending_end(struct pending *pending)
{
	list_remove(&pending->link);
	pending->to->pending--;
	sys_close_fd(&pending->memfd);
	mem_free(pending);
}

/* Sends all unaccepted connections, or unread datagrams, to another process. */
static void send_waiting(struct inet_sock *so, struct channel *to)
{
	int memfd;

	while (member_take_off(so, to->serial, &memfd))
		send_pending(to, so->id, 0, memfd);
}

void share_member_to_kernel(struct inet_sock *so, enum verdict reason)
{
	struct sharing *sharing = share_of(so);

	control_assert_held();
	control_assert_no_ring();
	if (sharing && sharing->parting)
		return;
	if (!sharing || !sharing->toward) {
		(void)sock_leave(so, reason);
		share_wake_waiters();
		return;
	}
	sharing->parting = true;
	sharing->reason = reason;
	so->verdict = VERDICT_ACCELERATED; /* until share_lose() */
	sock_flows_del(so);
	sharing_set_state(sharing, SHARING_REQUESTED); /* calls on it wait */
	channel_send(sharing->toward, MESSAGE_TO_KERNEL, so->id, 0, -1);
}

/*
 * so is exported, and its receivers share from now on: joins them, and tells the other
 * holders. used: when the program asked for it; 0: it did not.
 */
void share_join(struct inet_sock *so, nsec_t used)
{
	int rc;

	if (so->sharing->parting)
		return; /* its owner was told that it falls back to the kernel */
	sharing_set_state(so->sharing, SHARING_IDLE);
	so->sharing->arrived = used;
	list_remove(&so->sharing->asking);
	rc = member_arrive(so);
	if (rc) {
		if (rc == SOCK_KERNEL)
			share_member_to_kernel(so, so->verdict);
		share_wake_waiters();
		return;
	}
	add_member(so->sharing);
	list_for_each(link, &share_process.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, so->id))
			channel_send(ch, MESSAGE_JOIN, so->id, 0, -1);
	}
	share_wake_waiters();
}

/* Sends MESSAGE_CLOSED to each channel from which no holder of so is left on this side. */
static void tell_closed(const struct inet_sock *so)
{
	list_for_each(link, &share_process.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, so->id) && !share_other_holder(so, ch))
			channel_send(ch, MESSAGE_CLOSED, so->id, 0, -1);
	}
}

/*
 * True: so goes on receiving until another holder, which may not have used it so far,
 * receives: in between the kernel would.
 */
bool share_close_member(struct inet_sock *so)
{
	struct channel *holder = share_other_holder(so, NULL);

	if (so->sharing)
		list_remove(&so->sharing->asking);
	if (so->sharing)
		list_remove(&so->sharing->member);
	if (!holder)
		return false;
	if (sock_is_exported(&so->sk) || !share_of(so) || sock_flows_inherited(so)) {
		tell_closed(so);
		return false;
	}
	so->joins = true;
	so->sharing->offered = true;
	sock_keep(so);
	list_push_back(&share_process.kept, &so->link);
	channel_send(holder, MESSAGE_OFFER, so->id, 0, -1);
	return true;
}

bool share_admit(struct inet_sock *so, struct channel *ch)
{
	int rc = 0;

	if (sock_is_exported(&so->sk) && !so->joins && share_of(so) && so->sharing->toward) {
		if (!sharing_is(so,
				SHARING_REQUESTED)) /* the process that receives has to know first */
			channel_send(so->sharing->toward, MESSAGE_REQUEST, so->id, 0, -1);
		sharing_set_state(so->sharing, SHARING_REQUESTED);
		so->sharing->passing = true;
		return false;
	}
	if (!sock_is_exported(&so->sk)) {
		rc = sock_flows_inherited(so);
		if (share_of(so) && !list_linked(&so->sharing->member))
			add_member(so->sharing);
	}
	so->joins = true;
	if (rc == -EAGAIN)
		return false;
	if (rc)
		log_debug("fd %d: other processes cannot receive for it: %s", sock_twin(&so->sk),
			  strerror(-rc));
	channel_send(ch, MESSAGE_JOIN, so->id, 0, -1);
	return true;
}

/* Can a handshake end here, or even begin, with a SYN steered here before others received? */
static bool has_handshakes(struct inet_sock *so, nsec_t now)
{
	if (so->inet != INET_LISTEN || now >= so->sharing->withdraw_until)
		return false;
	return member_has_handshakes(so) ||
	       now < so->sharing->withdraw_until - (MEMBER_HANDSHAKES_MAX - MEMBER_LATE);
}

/*
 * Others receive, and connections spread to this member would wait unaccepted: stops
 * receiving, and sends ch what waits. Handshakes that began here end here first.
 */
static void withdraw(struct inet_sock *so, struct channel *ch)
{
	struct sharing *sharing = so->sharing;
	nsec_t now = clock_now();

	sharing->receiver = ch;
	if (!sharing->withdrawing) {
		member_stop(so);
		sharing->withdraw_until = now + MEMBER_HANDSHAKES_MAX;
	}
	if (has_handshakes(so, now)) {
		send_waiting(so, ch); /* complete connections do not wait for the handshakes */
		sharing->withdrawing = true;
		if (!list_linked(&sharing->member))
			add_member(sharing);
		return;
	}
	log_debug("fd %d: other processes receive for it", sock_twin(&so->sk));
	sharing->withdrawing = false;
	list_remove(&sharing->member);
	sock_flows_del(so);
	send_waiting(so, ch);
	if (sock_is_kept(so)) {
		tell_closed(so);
		share_drop(so);
		return;
	}
	sharing->offered = false;
	member_leave(so);
}

void share_member_stays(struct inet_sock *so, struct channel *ch)
{
	if (!so->sharing || !so->sharing->withdrawing || sock_is_kept(so))
		return;
	/* Handshakes that began here go on here. */
	if (member_start(so)) {
		so->sharing->withdrawing = false;
		return;
	}
	so->sharing->withdraw_until = 0;
	withdraw(so, ch);
}

/*
 * No thread here accepts: offers the place to all holders. The socket goes on receiving
 * until one of them joins; in between the kernel would receive.
 */
static void offer_to_all(struct inet_sock *so, nsec_t now)
{
	if (so->sharing->offered && now - so->sharing->offered_at < OFFER_AGAIN)
		return;
	so->sharing->offered = true;
	so->sharing->offered_at = now;
	list_for_each(link, &share_process.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, so->id))
			channel_send(ch, MESSAGE_OFFER, so->id, 0, -1);
	}
}

static bool is_idle(struct inet_sock *so)
{
	return clock_now() - so->sharing->arrived >= IDLE && member_is_idle(so);
}

void share_on_join(struct channel *ch, const struct message *message)
{
	struct inet_sock *so = share_find(message->id);

	if (!so || !share_is_member(so) || !share_of(so) || so->sharing->parting)
		return;
	so->joins = true;
	if (sock_is_kept(so)) {
		withdraw(so, ch);
	} else if (sock_is_exported(&so->sk)) {
		bool wanted = sharing_is(so, SHARING_REQUESTED) && !so->sharing->passing;

		sharing_set_state(so->sharing, SHARING_IDLE);
		so->sharing->passing = false; /* the process that requested it is told next */
		if (wanted)
			share_join(so, clock_now());
	} else if (so->sharing->offered || is_idle(so)) {
		withdraw(so, ch);
	} else if (!(message->flags & MESSAGE_FLAG_ANSWER)) {
		channel_send(ch, MESSAGE_JOIN, so->id, MESSAGE_FLAG_ANSWER, -1);
	}
}

/*
 * The process that joined while this one withdraws; else any holder. Another holder may be
 * withdrawing at the same time, and the two would send connections to each other.
 */
static struct channel *receiver_of(const struct inet_sock *so)
{
	if (!so->sharing->withdrawing)
		return share_other_holder(so, NULL);
	list_for_each(link, &share_process.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch == so->sharing->receiver && channel_holds(ch, so->id))
			return ch;
	}
	return share_other_holder(so, NULL);
}

bool share_look_at_members(void)
{
	bool again = false;
	nsec_t now = clock_now();

	list_for_each_safe(link, &share_process.members) {
		struct sharing *sharing = container_of(link, struct sharing, member);
		struct inet_sock *so = sharing->so;
		struct channel *receiver = receiver_of(so);

		if (receiver && sharing->withdrawing) {
			withdraw(so, receiver);
			again = true;
			continue;
		}
		if (!receiver || so->inet != INET_LISTEN || !member_is_idle(so) ||
		    !__atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED)) {
			sharing->stale = 0;
			sharing->offered = false;
			continue;
		}
		again = true;
		if (!sharing->stale)
			sharing->stale = now;
		else if (now - sharing->stale >= IDLE)
			offer_to_all(so, now);
	}
	__atomic_store_n(&share_process.looking, !list_empty(&share_process.members),
			 __ATOMIC_RELAXED);
	return again;
}

bool share_is_pending_at(const struct channel *ch, uint64_t id)
{
	return find_pending(ch, id) != NULL;
}

/* Limits the number of hops, and of messages in one channel. */
static bool may_send_on(const struct channel *to, uint64_t hops)
{
	return to && hops < PENDING_HOPS_MAX && to->pending < PENDING_MAX;
}

/*
 * Imports a pending connection here, or forwards it to another holder, but not to the one
 * it came from.
 */
static void accept_pending(struct channel *from, uint64_t id, uint64_t hops, int memfd)
{
	struct inet_sock *so = share_find(id);
	struct channel *holder = so ? share_other_holder(so, from) : NULL;
	bool exported = so && share_is_member(so) && sock_is_exported(&so->sk);
	int rc = -ENOENT;

	if (exported && may_send_on(holder, hops)) {
		send_pending(holder, id, hops + 1, memfd);
		return;
	}
	if (exported && !share_process.exiting && share_of(so)) {
		share_join(so, 0);
		so = share_find(id);
		exported = so && sock_is_exported(&so->sk);
	}
	if (so && share_is_member(so) && !exported)
		rc = member_take_pending(so, from ? from->serial : 0, memfd);
	if (!rc) {
		sys_close_fd(&memfd);
		return;
	}
	if (rc != -EINVAL && may_send_on(from, hops)) {
		send_pending(from, id, hops + 1, memfd);
		return;
	}
	log_debug("a connection that nobody accepted is lost");
	sys_close_fd(&memfd);
}

void share_on_pending(struct channel *ch, const struct message *message, int *memfd)
{
	if (*memfd < 0)
		return;
	accept_pending(ch, message->id, message->flags, *memfd);
	*memfd = -1;
	channel_send(ch, MESSAGE_RECEIVED, message->id, 0, -1);
}

void share_on_received(struct channel *ch, uint64_t id)
{
	struct pending *pending = find_pending(ch, id);

	if (pending)
		pending_end(pending);
}

/* The process at ch's end is gone: takes back what was pending there. */
void share_pending_back(struct channel *ch)
{
	struct pending *pending;

	while ((pending = find_pending(ch, 0))) {
		int memfd = pending->memfd;
		uint64_t id = pending->id;

		pending->memfd = -1;
		pending_end(pending);
		accept_pending(NULL, id, 0, memfd);
	}
}
