/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that shares sockets exits: it offers what others hold, and drops the rest. */
#include "sock/share/share_internal.h"

#include "base/sys.h"
#include "sock/share/transfer.h"

/*
 * For other processes to take what they hold.  Time counts in rounds of this process: one that has
 * no processor for a second gives nothing away meanwhile.
 */
#define EXIT_MAX NSEC_PER_SEC
#define EXIT_LAST (4 * NSEC_PER_SEC) /* of the clock */
#define ROUND NSEC_PER_MSEC	     /* the longest wait of a round */

struct patience {
	nsec_t last, now; /* of the clock */
	nsec_t left;
};

static struct patience begin_patience(void)
{
	nsec_t now = clock_now();

	return (struct patience){.last = now + EXIT_LAST, .now = now, .left = EXIT_MAX};
}

/* Called once a round. */
static bool has_patience(struct patience *patience)
{
	nsec_t now = clock_now(), passed = now - patience->now;

	patience->now = now;
	patience->left -= passed < 2 * ROUND ? passed : 2 * ROUND;
	return patience->left > 0 && now < patience->last;
}

static bool has_one_socket(struct list *link)
{
	return container_of(link, struct channel, link)->only;
}

/*
 * Are there exactly two neighbours, which share sockets through this process by the same
 * numbers?
 */
static bool is_between_two(void)
{
	struct list *first = share_process.channels.next;

	return first != &share_process.channels && first->next != &share_process.channels &&
	       first->next->next == &share_process.channels &&
	       !has_one_socket(first) == !has_one_socket(first->next);
}

/* Is there a socket that both hold? */
static bool have_common(const struct list *list, const struct channel *one,
			const struct channel *other)
{
	list_for_each(link, list) {
		const struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (channel_holds(one, so->id) && channel_holds(other, so->id))
			return true;
	}
	return false;
}

/* What one requested here, and did not get, it requests from the other. */
static void forward_requests(const struct channel *from, struct channel *to)
{
	list_for_each(link, &from->wants)
		channel_send(to, MESSAGE_REQUEST, container_of(link, struct want, link)->id, 0, -1);
}

/* Sends the first of two neighbours our channel to the other. */
static void reroute_neighbours(struct patience *patience)
{
	struct channel *one, *other;

	if (!is_between_two())
		return;
	one = container_of(share_process.channels.next, struct channel, link);
	other = container_of(one->link.next, struct channel, link);
	if (!have_common(&share_process.kept, one, other) && !have_common(sock_list(), one, other))
		return;
	forward_requests(one, other);
	forward_requests(other, one);
	channel_send(other, MESSAGE_REROUTE, 1, 0, -1);
	channel_flush(other);
	channel_send(one, MESSAGE_REROUTE, 1, 0, sys_fd_copy(other->fd));
	/* Messages that it sent before it read that are for the other neighbour. */
	while (channel_relay(one, other) && has_patience(patience)) {
		struct pollfd pfd = {.fd = one->fd, .events = POLLIN};
		struct timespec ts = {.tv_nsec = ROUND};

		channel_flush(one);
		channel_flush(other);
		sys_ppoll(&pfd, 1, &ts, NULL);
	}
}

/* How many are left. */
static unsigned offer_all(const struct list *list)
{
	unsigned left = 0;

	list_for_each_safe(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);
		struct shared *s = share_of(so);

		left += s && shared_exit(share_sink(), s, !is_between_two());
	}
	return left;
}

static void wait_for_messages(void)
{
	struct pollfd pfd = {.fd = share_process.epoll_fd, .events = POLLIN};
	struct timespec ts = {.tv_nsec = ROUND};

	sys_ppoll(&pfd, 1, &ts, NULL);
	for (unsigned i = 0; i < rings_count(); i++)
		sock_poll_ring(rings_at(i));
	rings_service(NULL, 0); /* this may be the internal thread, whose work this is */
}

/*
 * Exactly one other process holds so. It is told that so is closed here, so an offer of its
 * own that is on the way must not find the socket. Two or more are not told, because their
 * messages to each other go through this process.
 */
static bool has_one_holder(const struct inet_sock *so)
{
	struct channel *holder = share_other_holder(so, NULL);

	return holder && !share_other_holder(so, holder);
}

/*
 * Does the port bring frames here of a connection that was sent to another process?  When our
 * rings are closed, they would go to a listener, or to the kernel, which would reset it: the
 * process that received it may have sent it on, to one that has not taken it yet.
 */
static bool are_parting(void)
{
	bool some = false;

	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		if (!ring_hold_cold(ring))
			continue;
		some |= ring->parting != 0;
		ring_release_cold(ring);
	}
	return some;
}

/* Is there still something that another process takes? */
static bool has_to_wait(void)
{
	bool left = offer_all(&share_process.kept) != 0;

	return left || !list_empty(&share_process.pending) || are_parting();
}

void share_exit(void)
{
	struct patience patience = begin_patience();

	control_assert_held();
	if (!share_process.channels.next)
		return;
	share_process.exiting = true;
	list_for_each_safe(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (share_is_member(so)) {
			if (!share_close(so) && has_one_holder(so))
				so->id = sock_new_id();
		} else if (sock_is_exported(&so->sk) || share_other_holder(so, NULL)) {
			share_close(so);
		}
	}
	while (has_to_wait() && has_patience(&patience)) {
		share_serve();
		wait_for_messages();
		share_receive();
		share_look_at_members(); /* members that wait for a handshake to end */
	}
	share_receive();
	reroute_neighbours(&patience);
	list_for_each_safe(link, &share_process.kept) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		shared_drop(share_sink(), share_of(so)); /* what is closed has its struct shared */
	}
	while (!list_empty(&share_process.channels)) {
		struct channel *ch =
			container_of(share_process.channels.next, struct channel, link);

		channel_flush(ch);
		list_remove(&ch->link);
		channel_destroy(ch);
	}
}
