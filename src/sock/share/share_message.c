/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages between processes that share sockets: which are legal, and what each does. */
#include "base/sys.h"
#include "sock/move/kernel_handover.h"
#include "sock/share/share_internal.h"

static void on_closed(struct channel *ch, uint64_t id)
{
	struct inet_sock *so;

	idset_add(&ch->closed, id);
	so = share_find(id);
	if (so && so->sharing && so->sharing->parting && so->sharing->toward == ch)
		share_lose(so);
	else if (so)
		share_settle(so);
}

static void on_offer(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = share_find(id);

	if (!so) {
		channel_send(ch, MESSAGE_CLOSED, id, 0, -1);
	} else if (share_is_member(so) && sock_is_kept(so) && !share_other_holder(so, ch)) {
		return; /* offered to ch as well, and waits for its answer */
	} else if (share_is_member(so) && share_of(so)) {
		so->joins = true;
		share_member_stays(so, ch);
		if (sock_is_exported(&so->sk))
			share_join(so, sharing_is(so, SHARING_REQUESTED) ? clock_now() : 0);
		else
			channel_send(ch, MESSAGE_JOIN, id, MESSAGE_FLAG_ANSWER, -1);
	} else if (sock_is_exported(&so->sk) && share_of(so) && so->sharing->toward == ch) {
		so->sharing->ask_at = 0;
		share_request_for(so);
	}
}

static void on_lost(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = share_find(id);

	/*
	 * A connection that we exported and ch did not acknowledge is still ours, even if
	 * ch closed it.
	 */
	if (so && sock_is_exported(&so->sk) && share_toward(so) == ch &&
	    !sharing_is(so, SHARING_IN_TRANSIT))
		share_lose(so);
}

/*
 * The sender handed the socket over to the kernel. The connection is in the sender's twin,
 * which is the same file as ours; or the kernel receives for the listener or datagram
 * socket there, and so here.
 */
static void on_to_kernel(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = share_find(id);

	if (!so) {
		channel_send(ch, MESSAGE_CLOSED, id, 0,
			     -1); /* the sender may wait for our answer */
		return;
	}
	if (share_is_member(so) && sock_is_exported(&so->sk) && share_toward(so) &&
	    share_toward(so) != ch && !sock_is_kept(so)) {
		share_member_to_kernel(so, VERDICT_SHARED);
		return;
	}
	if (!share_is_member(so)) {
		if (!sock_is_exported(&so->sk) || share_toward(so) != ch)
			return;
		sock_set_events(so, 0);
	}
	if (sock_is_kept(so)) {
		share_drop(so);
		share_tell_to_kernel(id);
		return;
	}
	if (so->sharing && so->sharing->parting) {
		share_lose(so);
		return;
	}
	(void)(sock_is_exported(&so->sk) ? sock_leave : kernel_handover)(so, VERDICT_SHARED);
	share_wake_waiters();
}

static bool is_channel(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);

	return !sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
	       !sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET;
}

/* The process between us and the next one exits; *fd is its channel to the next one. */
static bool on_reroute(struct channel *ch, int *fd)
{
	if (*fd < 0)
		return true; /* no descriptor was free here: this channel ends by itself */
	if (!is_channel(*fd))
		return false;
	share_unwatch(ch);
	sys_close_fd(&ch->fd);
	ch->fd = *fd;
	*fd = -1;
	ch->rerouted = true;
	return share_watch(ch->fd);
}

/* The other end executed a program and holds only what it named: closes the rest. */
static void close_unnamed(struct channel *ch, const struct list *list)
{
	list_for_each_safe(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (!channel_holds(ch, so->id) || idset_has(&ch->held, so->id))
			continue;
		idset_add(&ch->closed, so->id);
		if (sharing_is(so, SHARING_IN_TRANSIT))
			continue; /* its import fails there, and it comes back */
		if (sock_is_exported(&so->sk) && share_toward(so) == ch)
			share_lose(so);
		else
			share_settle(so);
	}
}

static void on_inventory_end(struct channel *ch)
{
	close_unnamed(ch, sock_list());
	close_unnamed(ch, &share_process.kept);
	idset_fini(&ch->held);
	ch->held = (struct idset){0};
}

/* ---- which messages are legal ------------------------------------------------------ */

/* Where a socket is, as seen from a channel. */
enum {
	UNKNOWN = 1 << 0,    /* unknown here, or no longer, or served by the kernel */
	LOCAL = 1 << 1,	     /* a connection that is here */
	ELSEWHERE = 1 << 2,  /* exported, its owner is behind another channel */
	AT_SENDER = 1 << 3,  /* exported, its owner is behind this channel */
	REQUESTED = 1 << 4,  /* ... and it was requested there */
	IN_TRANSIT = 1 << 5, /* exported to this channel, not yet acknowledged */
	MEMBER = 1 << 6,     /* a listener or datagram socket */
	ANYWHERE = (1 << 7) - 1,
};

static unsigned place_of(const struct channel *ch, const struct inet_sock *so)
{
	if (!so || !share_is_known_to_children(so))
		return UNKNOWN;
	if (share_is_member(so))
		return MEMBER;
	if (!sock_is_exported(&so->sk))
		return LOCAL;
	if (share_toward(so) != ch)
		return ELSEWHERE;
	if (sharing_is(so, SHARING_IN_TRANSIT))
		return IN_TRANSIT;
	return sharing_is(so, SHARING_REQUESTED) ? REQUESTED : AT_SENDER;
}

/*
 * Legal places of a socket that the other end holds. A socket that we closed meanwhile is
 * UNKNOWN. A program that was executed may receive answers to requests of its predecessor.
 */
static const uint8_t legal[] = {
	[MESSAGE_REQUEST] = ANYWHERE,
	[MESSAGE_EXPORT] = UNKNOWN | AT_SENDER | REQUESTED,
	[MESSAGE_CLOSED] = UNKNOWN | LOCAL | ELSEWHERE | IN_TRANSIT | MEMBER,
	[MESSAGE_OFFER] = UNKNOWN | AT_SENDER | REQUESTED | MEMBER,
	[MESSAGE_LOST] = UNKNOWN | LOCAL | ELSEWHERE | AT_SENDER | REQUESTED | MEMBER,
	[MESSAGE_JOIN] = UNKNOWN | MEMBER,
	[MESSAGE_PENDING] = UNKNOWN | MEMBER,
	[MESSAGE_INVENTORY] = ANYWHERE,
	[MESSAGE_TO_KERNEL] = UNKNOWN | AT_SENDER | REQUESTED | MEMBER,
	[MESSAGE_STAYS] = UNKNOWN | AT_SENDER | REQUESTED,
	[MESSAGE_LATE] = ANYWHERE,
};

/* Legal for a socket that the other end has closed: messages that crossed one of ours. */
static bool is_legal_when_closed(enum message_kind kind)
{
	return kind == MESSAGE_CLOSED || kind == MESSAGE_LOST || kind == MESSAGE_PENDING ||
	       kind == MESSAGE_LATE; /* after MESSAGE_EXPORT with MESSAGE_FLAG_LAST */
}

static bool is_legal(const struct channel *ch, const struct message *message)
{
	uint64_t id = message->id;

	if (ch->expects_claim && !ch->claimed)
		return message->kind == MESSAGE_CLAIM;
	switch (message->kind) {
	case MESSAGE_CLAIM:
		return false;
	case MESSAGE_REROUTE:
		return true;
	case MESSAGE_INVENTORY_END:
		return !ch->only;
	case MESSAGE_ACK:
	case MESSAGE_NACK:
		return share_is_in_transit(ch, id);
	case MESSAGE_RECEIVED:
		return share_is_pending_at(ch, id);
	case MESSAGE_PENDING:
		if (message->flags > PENDING_HOPS_MAX)
			return false;
		break;
	default:
		break;
	}
	if (message->kind >= sizeof(legal) || (ch->only ? id != ch->only : id > ch->last_id))
		return false;
	if (idset_has(&ch->closed, id))
		return is_legal_when_closed(message->kind);
	return legal[message->kind] & place_of(ch, share_find(id));
}

/* ---- acting ------------------------------------------------------------------------ */

/*
 * True: the channel goes on, because it was rerouted, and messages meant for another
 * process may come. A request is answered.
 */
static bool is_for_another(struct channel *ch, const struct message *message)
{
	if (ch->rerouted && message->kind == MESSAGE_REQUEST)
		channel_send(ch, MESSAGE_LOST, message->id, 0, -1);
	return ch->rerouted;
}

bool share_act(struct channel *ch, const struct message *message, int memfd)
{
	bool ok = true;

	if (!is_legal(ch, message)) {
		sys_close_fd(&memfd);
		return is_for_another(ch, message);
	}
	switch (message->kind) {
	case MESSAGE_REQUEST:
		channel_note_request(ch, message->id);
		break;
	case MESSAGE_EXPORT:
		share_on_export(ch, message, memfd);
		break;
	case MESSAGE_ACK:
		share_on_ack(ch, message->id);
		break;
	case MESSAGE_NACK:
		share_on_nack(ch, message, &memfd);
		break;
	case MESSAGE_CLOSED:
		on_closed(ch, message->id);
		break;
	case MESSAGE_OFFER:
		on_offer(ch, message->id);
		break;
	case MESSAGE_LOST:
		on_lost(ch, message->id);
		break;
	case MESSAGE_JOIN:
		share_on_join(ch, message);
		break;
	case MESSAGE_PENDING:
		share_on_pending(ch, message, &memfd);
		break;
	case MESSAGE_RECEIVED:
		share_on_received(ch, message->id);
		break;
	case MESSAGE_REROUTE:
		ok = on_reroute(ch, &memfd);
		break;
	case MESSAGE_INVENTORY:
		idset_add(&ch->held, message->id);
		break;
	case MESSAGE_INVENTORY_END:
		on_inventory_end(ch);
		break;
	case MESSAGE_CLAIM:
		pass_on_claim(ch, message);
		break;
	case MESSAGE_TO_KERNEL:
		on_to_kernel(ch, message->id);
		break;
	case MESSAGE_STAYS:
		share_on_stays(ch, message->id);
		break;
	case MESSAGE_LATE:
		share_on_late(ch, message, memfd);
		break;
	}
	sys_close_fd(&memfd);
	return ok;
}
