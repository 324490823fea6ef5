/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages from other processes: each goes to who acts on it, if it is legal. */
#include "base/sys.h"
#include "sock/share/share_internal.h"

static bool is_channel(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);

	return !sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
	       !sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET;
}

/*
 * The process between us and the next one exits; *fd is its channel to the next one, or the next
 * one gets this channel.
 */
static bool on_reroute(struct channel *ch, int *fd)
{
	ch->rerouted = true;
	if (*fd < 0)
		return true; /* or no descriptor was free here: this channel ends by itself */
	if (!is_channel(*fd))
		return false;
	share_unwatch(ch);
	sys_close_fd(&ch->fd);
	ch->fd = *fd;
	*fd = -1;
	return share_watch(ch->fd);
}

/* One that is away gets a record: what changes in a copy is lost.  Without memory it is a copy. */
static struct shared *view_to_change(struct inet_sock *so, struct sharing *plain)
{
	struct shared *s = sock_is_exported(&so->sk) ? share_of(so) : NULL;

	return s ? s : share_view(so, plain);
}

/* The other end executed a program and holds only what it named: closes the rest. */
static void close_unnamed(struct channel *ch, const struct list *list)
{
	list_for_each_safe(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);
		struct sharing plain;

		if (!channel_holds(ch, so->id) || idset_has(&ch->held, so->id))
			continue;
		idset_add(&ch->closed, so->id);
		shared_unnamed(share_sink(), view_to_change(so, &plain), ch);
	}
}

static void on_inventory_end(struct channel *ch)
{
	close_unnamed(ch, sock_list());
	close_unnamed(ch, &share_process.kept);
	idset_fini(&ch->held);
	ch->held = (struct idset){0};
}

/* ---- acting ------------------------------------------------------------------------ */

/* For the machine.  fd: as in share_sink_receive(). */
static void act_on_socket(struct channel *ch, const struct message *message, struct inet_sock *so,
			  int *fd)
{
	struct sharing plain;
	bool begins = message->kind == MESSAGE_EXPORT || message->kind == MESSAGE_OFFER ||
		      message->kind == MESSAGE_JOIN;
	struct shared *s = NULL;

	if (so)
		s = begins ? share_of(so) : view_to_change(so, &plain);
	/* Without memory an export is refused, and an offer and a join have no effect. */
	if (s || !so || message->kind == MESSAGE_EXPORT)
		share_sink_receive(s, ch, message, fd);
}

bool share_act(struct channel *ch, const struct message *message, int memfd)
{
	struct inet_sock *so = share_find(message->id);
	struct sharing plain;
	bool ok = true;

	if (!shared_is_legal(so ? share_view(so, &plain) : NULL, ch, message) ||
	    (message->kind == MESSAGE_RECEIVED && !share_is_pending_at(ch, message->id))) {
		ok = share_sink_for_another(ch, message, &memfd);
		sys_close_fd(&memfd);
		return ok;
	}
	switch (message->kind) {
	case MESSAGE_REQUEST:
		channel_note_request(ch, message->id, memfd);
		memfd = -1;
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
	case MESSAGE_LATE:
		share_on_late(ch, message, memfd);
		break;
	default:
		act_on_socket(ch, message, so, &memfd);
		break;
	}
	sys_close_fd(&memfd);
	return ok;
}
