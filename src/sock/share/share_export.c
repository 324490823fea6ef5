/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections in transit between the processes that hold them: request, export, import,
 * failure.
 */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/move/kernel_handover.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"

#define STAY_MIN NSEC_PER_MSEC	       /* the shortest time that a connection stays */
#define PAUSE_MAX (64 * NSEC_PER_MSEC) /* the longest pause before it is requested again */

/* A connection that was exported and not yet acknowledged. */
struct export
{
	struct list link;
	struct inet_sock *so;
	uint64_t id;
	struct channel *to;
	int memfd;
};

/* ---- export ------------------------------------------------------------------------ */

/* Was anything read or written since the last call with note? */
static bool was_used(struct sharing *sharing, bool note)
{
	const struct tcp_conn *c = &sharing->so->tcp.conn;
	struct ring *home = sock_home(sharing->so);
	uint32_t read_to, written_to;
	bool used;

	if (!ring_hold_cold(home))
		return false;
	read_to = c->rcv_nxt - c->rcv.bytes;
	written_to = c->snd_una + c->snd.len;
	used = sharing->read_to != read_to || sharing->written_to != written_to;
	if (note) {
		sharing->read_to = read_to;
		sharing->written_to = written_to;
	}
	ring_release_cold(home);
	return used;
}

/* The pause doubles as long as the connection leaves without having been used here. */
static void set_pause(struct sharing *sharing, nsec_t now)
{
	if (was_used(sharing, false) || !sharing->pause)
		sharing->pause = STAY_MIN;
	else if (sharing->pause < PAUSE_MAX)
		sharing->pause *= 2;
	sharing->ask_at = now + sharing->pause;
}

/* Exports the connection to ch. False: not now. */
static bool export_to(struct inet_sock *so, struct channel *ch)
{
	struct export *export = mem_zalloc(sizeof(*export));
	bool last = sock_is_kept(so) && !share_other_holder(so, ch);
	int memfd, rc = export && share_of(so) ? 0 : -ENOMEM;

	if (!rc) {
		set_pause(so->sharing, clock_now());
		rc = transfer_export(so, ch->serial, so->id, &memfd);
	}
	if (rc) {
		mem_free(export);
		return false;
	}
	*export = (struct export){.so = so, .id = so->id, .to = ch, .memfd = memfd};
	list_init(&export->link);
	list_push_back(&share_process.exports, &export->link);
	share_set_toward(so, ch);
	so->sharing->from = 0;
	sharing_set_state(so->sharing, SHARING_IN_TRANSIT);
	log_debug("fd %d: the connection goes to another process", sock_twin(&so->sk));
	channel_send(ch, MESSAGE_EXPORT, so->id, last ? MESSAGE_FLAG_LAST : 0, sys_fd_copy(memfd));
	return true;
}

static struct export *find_export(const struct channel *to, uint64_t id)
{
	list_for_each(link, &share_process.exports) {
		struct export *export = container_of(link, struct export, link);

		if (export->to == to && export->id == id)
			return export;
	}
	return NULL;
}

static void export_end(struct export *export)
{
	sharing_set_state(export->so->sharing, SHARING_IDLE);
	list_remove(&export->link);
	sys_close_fd(&export->memfd);
	mem_free(export);
}

static void note_arrived(struct inet_sock *so)
{
	share_set_toward(so, NULL);
	sharing_set_state(so->sharing, SHARING_IDLE);
	so->sharing->failed = 0;
	so->sharing->arrived = clock_now();
	list_remove(&so->sharing->asking);
	(void)was_used(so->sharing, true);
	share_wake_waiters();
}

/* The connection was not imported there: imports it again. */
static void take_back(struct export *export)
{
	struct inet_sock *so = export->so;
	int rc = transfer_import(so, export->memfd);

	export_end(export);
	if (rc) {
		log_debug("fd %d: the connection cannot come back: %s", sock_twin(&so->sk),
			  strerror(-rc));
		share_lose(so);
		return;
	}
	note_arrived(so);
	share_settle(so);
}

void share_exports_back(const struct channel *ch)
{
	list_for_each_safe(link, &share_process.exports) {
		struct export *export = container_of(link, struct export, link);

		if (export->to == ch)
			take_back(export);
	}
}

bool share_is_in_transit(const struct channel *ch, uint64_t id)
{
	return find_export(ch, id) != NULL;
}

/*
 * A process that holds the connection and requested it can use it only through the kernel.
 * twin: the requester's; consumed. 0: the kernel serves the connection; -errno.
 */
static int hand_to_kernel(struct inet_sock *so, int twin)
{
	bool kept = sock_is_kept(so);
	int rc;

	if (!kept) {
		sys_close_fd(&twin);
		return kernel_handover(so, VERDICT_SHARED);
	}
	/* Our program closed it, so there is no twin here any more. */
	if (twin < 0 || !so->sharing->cookie || share_cookie(twin) != so->sharing->cookie) {
		sys_close_fd(&twin);
		return -EBADF;
	}
	/* Pairs with sock_twin(). */
	__atomic_store_n(&so->sk.twin, twin, __ATOMIC_RELEASE);
	rc = kernel_handover(so, VERDICT_SHARED);
	/* Pairs with sock_twin(), before the descriptor is closed. */
	__atomic_store_n(&so->sk.twin, -1, __ATOMIC_RELEASE);
	sys_close_fd(&twin);
	if (rc)
		return rc;
	share_tell_to_kernel(so->id);
	share_drop(so);
	return 0;
}

void share_on_nack(struct channel *ch, const struct message *message, int *twin)
{
	struct export *export = find_export(ch, message->id);
	struct inet_sock *so;
	int rc;

	if (!export)
		return;
	take_back(export);
	if (!(message->flags & MESSAGE_FLAG_UNABLE))
		return;
	so = share_find(message->id); /* it may have been dropped */
	if (!so || !sock_has_connection(so) || sock_has_ended(so))
		return;
	rc = hand_to_kernel(so, *twin);
	*twin = -1;
	if (!rc)
		return;
	log_debug("kernel handover of a connection failed: %s", strerror(-rc));
	channel_send(ch, MESSAGE_STAYS, message->id, 0, -1);
}

/* ---- request ----------------------------------------------------------------------- */

static void request_now(struct inet_sock *so)
{
	struct channel *ch = so->sharing->toward;

	list_remove(&so->sharing->asking);
	if (so->sharing->state != SHARING_IDLE)
		return;
	if (share_is_member(so) && (so->joins || !ch)) {
		share_join(so, clock_now());
		return;
	}
	if (!ch) {
		share_lose(so);
		return;
	}
	sharing_set_state(so->sharing, SHARING_REQUESTED);
	/* The owner still serves the connection while the rings are opened. */
	if (!share_is_member(so))
		transfer_prepare(so);
	channel_send(ch, MESSAGE_REQUEST, so->id, 0, -1);
}

void share_request_for(struct inet_sock *so)
{
	struct sharing *sharing = share_of(so);

	if (!sharing || sharing->state == SHARING_REQUESTED)
		return;
	if (sharing->state == SHARING_IDLE && clock_now() >= sharing->ask_at) {
		request_now(so);
	} else if (!list_linked(&sharing->asking)) {
		list_push_back(&share_process.asking, &sharing->asking);
		share_busy();
	}
}

bool share_request_due(void)
{
	bool left = false;
	nsec_t now = clock_now();

	list_for_each_safe(link, &share_process.asking) {
		struct sharing *sharing = container_of(link, struct sharing, asking);

		if (now >= sharing->ask_at && sharing->state != SHARING_IN_TRANSIT)
			request_now(sharing->so);
		else
			left = true;
	}
	return left;
}

bool share_serve_requests(struct channel *ch)
{
	nsec_t now = clock_now();

	list_for_each_safe(link, &ch->wants) {
		struct want *want = container_of(link, struct want, link);
		struct inet_sock *so = share_find(want->id);
		bool done = false;

		if (!channel_holds(ch, want->id)) {
			done = true; /* closed there meanwhile */
		} else if (!so || !share_is_known_to_children(so)) {
			channel_send(ch, MESSAGE_LOST, want->id, 0, -1);
			done = true;
		} else if (share_is_member(so)) {
			done = share_admit(so, ch);
		} else if (sock_is_exported(&so->sk)) {
			/* If ch's side owns it, it arrived there after the request. */
			done = share_toward(so) == ch && !sharing_is(so, SHARING_IN_TRANSIT);
			if (!done && share_toward(so) != ch)
				share_request_for(so);
		} else if (!so->sharing || now - so->sharing->arrived >= STAY_MIN ||
			   share_process.exiting) {
			done = export_to(so, ch);
		}
		if (!done)
			continue;
		list_remove(link);
		mem_free(want);
	}
	return list_empty(&ch->wants);
}

static bool is_requested_from(const struct inet_sock *so, const struct channel *ch)
{
	return sharing_is(so, SHARING_REQUESTED) && so->sharing->toward == ch;
}

/* The connection cannot be imported, and the kernel cannot take it: calls that wait fail. */
static void fail_waiting(struct inet_sock *so, int rc)
{
	log_warn("fd %d: a connection of another process cannot be used here: %s",
		 sock_twin(&so->sk), strerror(-rc));
	sharing_set_state(so->sharing, SHARING_IDLE);
	so->sharing->failed = -rc;
	share_wake_waiters();
}

/*
 * Answers an export that could not be imported. so: NULL if it is not known here any more.
 * Bytes that no owner wrote (-EINVAL) cannot be handed over to the kernel either.
 */
static void refuse(struct channel *ch, struct inet_sock *so, uint64_t id, int rc)
{
	int twin = so ? sock_twin(&so->sk) : -1;

	if (!so || !is_requested_from(so, ch) || rc == -EINVAL) {
		channel_send(ch, MESSAGE_NACK, id, 0, -1);
		if (so && is_requested_from(so, ch))
			fail_waiting(so, rc);
		return;
	}
	log_debug("fd %d: the owner is asked for kernel handover: %s", twin, strerror(-rc));
	channel_send(ch, MESSAGE_NACK, id, MESSAGE_FLAG_UNABLE, twin < 0 ? -1 : sys_fd_copy(twin));
}

void share_on_export(struct channel *ch, const struct message *message, int memfd)
{
	struct inet_sock *so = share_find(message->id);
	int rc = -ENOENT;

	if (so && sock_is_exported(&so->sk) && share_of(so) && so->sharing->toward == ch)
		rc = transfer_import(so, memfd);
	if (rc == 0) {
		if (message->flags & MESSAGE_FLAG_LAST)
			idset_add(&ch->closed, message->id);
		log_debug("fd %d: the connection came from another process", sock_twin(&so->sk));
		note_arrived(so);
		so->sharing->from = ch->serial;
		channel_send(ch, MESSAGE_ACK, message->id, 0, -1);
		share_settle(so);
		return;
	}
	refuse(ch, so, message->id, rc);
}

void share_on_stays(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = share_find(id);

	if (so && is_requested_from(so, ch))
		fail_waiting(so, -ENETUNREACH);
}

void share_on_ack(struct channel *ch, uint64_t id)
{
	struct export *export = find_export(ch, id);
	struct inet_sock *so;

	if (!export)
		return;
	so = export->so;
	export_end(export);
	if (sock_is_kept(so) && !share_other_holder(so, ch)) {
		share_drop(so); /* MESSAGE_FLAG_LAST told that we do not hold it any more */
		return;
	}
	share_settle(so);
}
