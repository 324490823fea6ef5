/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What waits at a member that withdraws is sent to another process: connections that nobody
 * accepted, datagrams that nobody read.
 */
#include "sock/share/share_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/sock_options.h"
#include "sock/move/kernel_handover.h"
#include "sock/share/transfer.h"

/* A connection of a listener, or datagrams, sent to another process and not yet received. */
struct pending {
	struct list link;
	struct channel *to;
	uint64_t id; /* of the listener or datagram socket */
	int memfd;
};

void share_send_pending(struct channel *to, uint64_t id, uint64_t flags, int memfd)
{
	struct pending *pending = mem_alloc(sizeof(*pending));

	if (pending) {
		*pending = (struct pending){.to = to, .id = id, .memfd = sys_fd_copy(memfd)};
		list_push_back(&share_process.pending, &pending->link);
		to->pending++;
	}
	channel_send(to, MESSAGE_PENDING, id, flags, memfd);
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

/* ---- what came back: the process that accepts cannot receive its frames ------------------- */

/* Its twin, which is the caller's. */
static int part_from_twin(struct inet_sock *child)
{
	int twin = sock_twin(&child->sk);

	/* Pairs with sock_twin(). */
	__atomic_store_n(&child->sk.twin, -1, __ATOMIC_RELEASE);
	return twin;
}

/*
 * The connection is here again, with a twin that nobody uses.  so: its listener, or NULL: it is not
 * known here any more.
 */
static struct inet_sock *back_revive(const struct inet_sock *so, int memfd)
{
	int family = transfer_family(memfd), twin = -1, rc = -EINVAL;
	struct inet_sock *child = NULL;

	if (family && (!so || so->family == family))
		twin = sys_socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	twin = sys_fd_hide(twin);
	if (twin >= 0)
		child = transfer_create(twin);
	if (child && so)
		child->local = so->local;
	if (child)
		rc = transfer_import(child, memfd);
	if (!rc)
		return child;
	log_debug("a connection that nobody accepted cannot come back: %s", strerror(-rc));
	if (child) {
		(void)part_from_twin(child);
		sock_end(child);
	}
	sys_close_fd(&twin);
	return NULL;
}

/* The peer gets a reset. */
static void end_by_reset(struct inet_sock *child)
{
	struct sock_options opt = *child->opt;
	struct ring *ring;

	opt.linger_on = true;
	opt.linger_seconds = 0;
	if (!sock_options_hold(sock_ref_of(child), &opt, &ring))
		ring_release_cold(ring);
	sys_close(part_from_twin(child));
	sock_end(child);
}

/*
 * The kernel gets the connection: its socket, hidden; or -errno: the peer gets a reset, if the connection
 * can be imported at all.
 */
static int back_to_kernel(const struct inet_sock *so, int memfd)
{
	struct inet_sock *child = back_revive(so, memfd);
	int rc, twin;

	control_assert_held();
	control_assert_no_ring();
	if (!child)
		return -ENOTCONN;
	rc = kernel_handover_unaccepted(child);
	if (rc) {
		log_debug("a connection that nobody accepted is reset, because the kernel does not "
			  "take it: %s",
			  strerror(-rc));
		end_by_reset(child);
		return rc;
	}
	log_debug("a connection that nobody accepted goes to the kernel, for another process");
	twin = part_from_twin(child);
	sock_end(child);
	return twin;
}

/* No process will accept it any more: the peer gets a reset. */
static void back_end(int memfd)
{
	struct inet_sock *child = back_revive(NULL, memfd);

	control_assert_held();
	control_assert_no_ring();
	if (child)
		end_by_reset(child);
}

static bool is_same(int a, int b)
{
	struct stat one, other;

	return !sys_call(SYS_fstat, a, &one, 0, 0, 0, 0) &&
	       !sys_call(SYS_fstat, b, &other, 0, 0, 0, 0) && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

/* Its peer must not wait for ever.  Consumes memfd. */
static void pending_lose(struct channel *from, uint64_t id, int memfd)
{
	log_debug("a connection that nobody accepted is lost");
	if (from && from->pending < SHARED_PENDING_MAX && transfer_family(memfd)) {
		share_send_pending(from, id, MESSAGE_FLAG_BACK, memfd);
		return;
	}
	if (!from && !share_process.exiting)
		back_end(memfd);
	sys_close_fd(&memfd);
}

/* from NULL: it came back. */
static void accept_pending(struct channel *from, uint64_t id, uint64_t hops, int memfd)
{
	if (!share_sink_pending(id, from, hops, &memfd))
		pending_lose(from, id, memfd);
	else
		sys_close_fd(&memfd);
}

/*
 * The process at from's end accepts, but cannot receive the frames.  Does nothing for what was not
 * sent there.
 */
static void take_back(struct channel *from, uint64_t id, int memfd)
{
	const struct pending *sent = find_pending(from, id);
	const struct inet_sock *so = share_find(id);
	int fd = -EINVAL;

	if (sent && is_same(sent->memfd, memfd))
		fd = back_to_kernel(so && so->inet == INET_LISTEN ? so : NULL, memfd);
	sys_close_fd(&memfd);
	if (fd >= 0)
		share_send_pending(from, id, 0, fd);
}

void share_on_pending(struct channel *ch, const struct message *message, int *memfd)
{
	if (*memfd < 0)
		return;
	if (message->flags == MESSAGE_FLAG_BACK)
		take_back(ch, message->id, *memfd);
	else
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
