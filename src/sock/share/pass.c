/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/pass.h"

#include <errno.h>

#include "base/log.h"
#include "base/signals.h"
#include "base/sys.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"

#define TAKE_MAX (2 * NSEC_PER_SEC) /* for an acknowledgement that is due */
#define STOP_ROUND NSEC_PER_MSEC

/* ---- listeners --------------------------------------------------------------------- */

static bool is_receiving_listener(const struct inet_sock *so)
{
	return so->inet == INET_LISTEN && !sock_is_exported(&so->sk) && member_receives(so);
}

/*
 * Control lock. May so stop receiving for the kernel's sake? Only if no other process would
 * go on receiving. A process without privileges tells the others to stop: without the rings
 * that it opened before, the kernel would serve its listener already.
 */
static bool may_stop(const struct inet_sock *so)
{
	control_assert_held();
	return is_receiving_listener(so) &&
	       (sock_is_unprivileged() || !share_other_holder(so, NULL));
}

/*
 * No ring held: from now on the kernel answers new connections; waits until handshakes that
 * began here have ended. 1: stopped; 0: it goes on receiving; -errno.
 *
 * Rounds count, each with a look at the rings, and not the clock: a process that had no processor for
 * half a second has answered nobody meanwhile.
 */
static int stop_receiving(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	nsec_t rounds = 0;
	bool more = true;

	control_assert_no_ring();
	while (more) {
		if (!control_lock())
			return -EAGAIN;
		more = sock_ref_valid(ref) && may_stop(so);
		if (more && !rounds++)
			member_stop(so);
		if (more)
			more = (member_has_handshakes(so) &&
				rounds * STOP_ROUND < SHARED_HANDSHAKES_MAX) ||
			       rounds * STOP_ROUND < SHARED_LATE;
		control_unlock();
		if (more)
			sys_sleep(STOP_ROUND);
	}
	return rounds != 0;
}

/* ---- sending ----------------------------------------------------------------------- */

static bool has_nothing_unread(const struct inet_sock *so)
{
	if (so->inet == INET_LISTEN)
		return !__atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED);
	return so->inet != INET_UDP || !so->udp.connected || !so->udp.head;
}

/* 1: nothing is lost if it falls back to the kernel now; 0; -errno. */
static int may_leave(struct sock_ref ref)
{
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	ring_poll(ring);
	rc = has_nothing_unread(inet_of(ref.sk));
	ring_release_cold(ring);
	return rc;
}

/*
 * Control lock, a listener that has stopped. Connections that wait can be accepted in this
 * process, and nowhere else.
 */
static int leave_listener(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	int may = share_other_holder(so, NULL) ? 0 : may_leave(ref);

	control_assert_held();
	if (may)
		return may < 0 ? may : sock_leave(so, VERDICT_PASSED);
	member_end_flows(so);
	sock_port_unclaim(so);
	so->verdict = VERDICT_PASSED;
	if (share_is_active())
		shared_tell_to_kernel(share_sink(), so->id);
	return 0;
}

/* Control lock: falls back to the kernel, if no other process goes on receiving. */
static int leave_to_kernel(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	int may;

	control_assert_held();
	if (so->inet == INET_LISTEN && so->verdict == VERDICT_PASSED)
		return 0; /* the twin receives already */
	may = share_other_holder(so, NULL) ? 0 : may_leave(ref);
	if (may < 0)
		return may;
	return may ? sock_leave(so, VERDICT_PASSED) : -EBUSY;
}

static bool is_connection(const struct inet_sock *so)
{
	return sock_has_owner(so) && (sock_is_exported(&so->sk) || share_may_export(so));
}

static int send_connection(struct inet_sock *so, int unix_fd, uint64_t ticket)
{
	int rc;

	share_init();
	if (!share_of(so))
		return -ENOMEM;
	sock_twin_prepare(so); /* the receiver does not know how */
	so->sharing->cookie = sys_socket_cookie(sock_twin(&so->sk));
	rc = pass_send(so, unix_fd, ticket);
	return rc ? rc : 1;
}

int sock_pass(struct sock_ref ref, int unix_fd, uint64_t ticket)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool is_conn = is_connection(so); /* a guess: no lock is held */
	int stopped = 0, rc = 0;

	if (is_conn && !pass_peer_is_ours(unix_fd, so->verdict == VERDICT_LOCAL))
		return -EREMOTE;
	if (is_receiving_listener(so))
		stopped = stop_receiving(ref);
	if (stopped < 0)
		return stopped;
	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref) && stopped && is_receiving_listener(so))
		rc = leave_listener(ref);
	else if (sock_ref_valid(ref) && !is_connection(so))
		rc = leave_to_kernel(ref);
	else if (sock_ref_valid(ref))
		rc = is_conn ? send_connection(so, unix_fd, ticket) : -EAGAIN;
	control_unlock();
	return rc;
}

/* ---- receiving --------------------------------------------------------------------- */

static uint16_t port_of(int fd)
{
	struct sock_addr addr = {.len = sizeof(addr.in6)};

	/* at the same place in both families */
	return sys_getsockname(fd, &addr.sa, &addr.len) ? 0 : addr.in.sin_port;
}

/*
 * Is so the socket of this cookie? The cookie of a socket that was never sent or kept has
 * to be read from its twin.
 */
static bool is_same(const struct inet_sock *so, uint64_t cookie, uint16_t port)
{
	if (!sock_has_owner(so))
		return false;
	if (so->sharing && so->sharing->cookie)
		return so->sharing->cookie == cookie;
	return so->id <= share_last_id && so->local.port == port &&
	       sys_socket_cookie(sock_twin(&so->sk)) == cookie;
}

static struct inet_sock *find_in(const struct list *list, uint64_t cookie, uint16_t port)
{
	list_for_each(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (is_same(so, cookie, port))
			return so;
	}
	return NULL;
}

/* A descriptor that was received, and what is known of it. */
struct receipt {
	int fd;
	bool peek;
	uint64_t cookie;
	bool connected; /* tried to connect to the sender ... */
	int channel_fd; /* ... the socket for a channel; -1: the sender died or gave up */
};

#define CONNECT_FIRST (-EINPROGRESS)

static struct channel *send_claim(struct receipt *r, uint64_t id, uint64_t flags)
{
	struct channel *ch = r->channel_fd < 0 ? NULL : channel_create_only(r->channel_fd, id);

	r->channel_fd = -1;
	if (ch)
		channel_send(ch, MESSAGE_CLAIM, id, flags, -1);
	return ch;
}

/* Must the sender learn that this process already held the connection? */
static bool must_tell(const struct receipt *r, uint64_t id)
{
	return !r->peek && !pass_holder(id);
}

static void tell_sender(struct receipt *r, uint64_t id)
{
	struct channel *ch;

	if (r->peek)
		return;
	if (pass_holder(id)) {
		pass_received(id);
		return;
	}
	ch = send_claim(r, id, MESSAGE_FLAG_HAVE);
	if (ch)
		channel_destroy(ch);
}

/* Makes the exported socket, and its channel to the sender. NULL: no memory. */
static struct inet_sock *create_exported(struct receipt *r)
{
	struct inet_sock *so = transfer_create(r->fd);
	struct channel *ch;

	if (!so)
		return NULL;
	ch = send_claim(r, so->id, r->peek ? MESSAGE_FLAG_PEEK : 0);
	if (!share_begin_toward(so, ch)) {
		if (ch)
			channel_destroy(ch);
		sock_free(so);
		return NULL;
	}
	so->sharing->cookie = r->cookie;
	(void)share_nonblock_now(so);
	sock_list_add(so);
	if (ch)
		share_listen_to(ch);
	else
		transfer_lost(so);
	log_debug("fd %d: received from another process%s", r->fd, ch ? "" : ", which is gone");
	return so;
}

/*
 * Control lock. Finds or makes the socket. 0; -EAGAIN: not now; CONNECT_FIRST: call
 * connect_sender() and try again; -ENOMEM.
 */
static int take_locked(struct receipt *r, struct inet_sock **so)
{
	uint16_t port = port_of(r->fd);
	bool kept = false;

	control_assert_held();
	share_init();
	*so = find_in(sock_list(), r->cookie, port);
	if (!*so) {
		*so = find_in(&share_process.kept, r->cookie, port);
		kept = *so != NULL;
	}
	if (kept && share_is_in_transit(*so))
		return -EAGAIN; /* the others were told that we do not hold it any more */
	if (!r->connected && (!*so || must_tell(r, (*so)->id)))
		return CONNECT_FIRST;
	if (kept)
		share_revive(*so, r->fd);
	if (*so) {
		tell_sender(r, (*so)->id);
		return 0;
	}
	*so = create_exported(r);
	return *so ? 0 : -ENOMEM;
}

/*
 * No lock is held: whoever has taken the sender's address, and whatever it does with the
 * connection, no other thread waits for that.
 */
static void connect_sender(struct receipt *r)
{
	struct pass_mark mark;
	int fd = pass_mark_get(r->fd, &mark) ? pass_connect(&mark) : -1;

	r->connected = true;
	r->channel_fd = fd < 0 ? -1 : fd;
}

static struct sock_ref take_marked(struct receipt *r)
{
	struct sock_ref ref = {NULL, 0};
	struct inet_sock *so = NULL;
	nsec_t deadline = 0;
	int rc = 0;

	do {
		if (rc == CONNECT_FIRST)
			connect_sender(r);
		else if (rc)
			sys_sleep(NSEC_PER_MSEC);
		if (!control_lock())
			break;
		clock_init(); /* this may be the first socket here */
		if (!deadline)
			deadline = clock_now() + TAKE_MAX;
		rc = take_locked(r, &so);
		if (!rc)
			ref = sock_ref_of(so);
		control_unlock();
	} while (rc == CONNECT_FIRST || (rc == -EAGAIN && clock_now() < deadline));
	sys_close_fd(&r->channel_fd);
	return ref;
}

struct sock_ref pass_take(int fd, bool peek)
{
	struct sock_ref ref = {NULL, 0};
	struct receipt receipt = {.fd = fd, .peek = peek, .channel_fd = -1};
	struct pass_mark mark;

	if (!pass_mark_get(fd, &mark))
		return ref;
	receipt.cookie = sys_socket_cookie(fd);
	signals_block(); /* a handler that jumps out would leak what we hold */
	ref = take_marked(&receipt);
	signals_unblock();
	return ref;
}
