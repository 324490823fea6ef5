/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What waits at a member that withdraws is sent to another process: connections that nobody
 * accepted, datagrams that nobody read.
 */
#include "sock/share/share_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

/* A connection of a listener, or datagrams, sent to another process and not yet received. */
struct pending {
	struct list link;
	struct channel *to;
	uint64_t id; /* of the listener or datagram socket */
	int memfd;
};

void share_send_pending(struct channel *to, uint64_t id, uint64_t hops, int memfd)
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

void share_send_waiting(struct inet_sock *so, struct channel *to)
{
	int memfd;

	while (member_take_off(so, to->serial, &memfd))
		share_send_pending(to, so->id, 0, memfd);
}

bool share_look_at_members(void)
{
	bool again = false;

	list_for_each_safe(link, &share_process.members) {
		struct sharing *sharing = container_of(link, struct sharing, member);

		again |= shared_look(share_sink(), share_of(sharing->so));
	}
	__atomic_store_n(&share_process.looking, !list_empty(&share_process.members),
			 __ATOMIC_RELAXED);
	return again;
}

bool share_is_pending_at(const struct channel *ch, uint64_t id)
{
	return find_pending(ch, id) != NULL;
}

static void accept_pending(struct channel *from, uint64_t id, uint64_t hops, int memfd)
{
	if (!share_sink_pending(id, from, hops, &memfd))
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
