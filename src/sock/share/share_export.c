/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections on their way between processes that have them: asking, giving, arriving, and
 * what cannot arrive.
 */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/move/kernel_handover.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"

#define STAY_MIN NSEC_PER_MSEC	       /* a connection stays at least so long */
#define PAUSE_MAX (64 * NSEC_PER_MSEC) /* before it is asked back, in vain again and again */

/* A connection that has left, until it is known to have arrived. */
struct export
{
	struct list link;
	struct inet_sock *so;
	uint64_t id;
	struct channel *to;
	int memfd;
};

/* ---- giving ------------------------------------------------------------------------------------ */

/* Was anything read or written since that was noted? */
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

/* Who lost it without having got anything by it comes back later. */
static void set_pause(struct sharing *sharing, nsec_t now)
{
	if (was_used(sharing, false) || !sharing->pause)
		sharing->pause = STAY_MIN;
	else if (sharing->pause < PAUSE_MAX)
		sharing->pause *= 2;
	sharing->ask_at = now + sharing->pause;
}

/* False: not now. */
static bool export_to(struct inet_sock *so, struct channel *ch)
{
	struct export *export = mem_zalloc(sizeof(*export));
	bool last = share_is_kept(so) && !share_other_holder(so, ch);
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

/* It did not get there, and is ours again. */
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
 * Somebody else who has it, and asked for it, can only use it through the kernel. twin: his;
 * consumed.  0, and it is the kernel's; -errno.
 */
static int hand_to_kernel(struct inet_sock *so, int twin)
{
	bool kept = share_is_kept(so);
	int rc;

	if (!kept) {
		sys_close_fd(&twin);
		return kernel_handover(so, VERDICT_SHARED);
	}
	/* Our program closed it: there is no twin of it here any more. */
	if (twin < 0 || !so->sharing->cookie || share_cookie(twin) != so->sharing->cookie) {
		sys_close_fd(&twin);
		return -EBADF;
	}
	__atomic_store_n(&so->sk.twin, twin, __ATOMIC_RELEASE);
	rc = kernel_handover(so, VERDICT_SHARED);
	__atomic_store_n(&so->sk.twin, -1, __ATOMIC_RELEASE);
	sys_close_fd(&twin);
	if (rc)
		return rc;
	share_tell_to_kernel(so->id);
	share_drop(so);
	return 0;
}

/* *twin is consumed. */
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
	so = share_find(message->id); /* nobody may need it any more */
	if (!so || sock_is_exported(&so->sk) || so->tcp.dead)
		return;
	rc = hand_to_kernel(so, *twin);
	*twin = -1;
	if (!rc)
		return;
	log_debug("a connection cannot be given to the kernel: %s", strerror(-rc));
	channel_send(ch, MESSAGE_STAYS, message->id, 0, -1);
}

/* ---- asking ------------------------------------------------------------------------------------- */

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
	/* While the rings are opened the connection is still looked after. */
	if (!share_is_member(so))
		transfer_prepare(so);
	channel_send(ch, MESSAGE_REQUEST, so->id, 0, -1);
}

/* For the program, or for somebody who asked us: not before it is polite. */
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
			done = true; /* it was closed there since */
		} else if (!so || !share_is_known_to_children(so)) {
			channel_send(ch, MESSAGE_LOST, want->id, 0, -1);
			done = true;
		} else if (share_is_member(so)) {
			done = share_admit(so, ch);
		} else if (sock_is_exported(&so->sk)) {
			/* If it is there, it went there after it was asked for. */
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

/* It will not come, nor be the kernel's. */
static void fail_waiting(struct inet_sock *so, int rc)
{
	log_warn("fd %d: a connection of another process cannot be used here: %s",
		 sock_twin(&so->sk), strerror(-rc));
	sharing_set_state(so->sharing, SHARING_IDLE);
	so->sharing->failed = -rc;
	share_wake_waiters();
}

/* so: NULL if it is not known here any more.  What no owner wrote the kernel cannot have. */
static void refuse(struct channel *ch, struct inet_sock *so, uint64_t id, int rc)
{
	int twin = so ? sock_twin(&so->sk) : -1;

	if (!so || !is_requested_from(so, ch) || rc == -EINVAL) {
		channel_send(ch, MESSAGE_NACK, id, 0, -1);
		if (so && is_requested_from(so, ch))
			fail_waiting(so, rc);
		return;
	}
	log_debug("fd %d: the connection is to be the kernel's: %s", twin, strerror(-rc));
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

/* The calls that wait for it fail. */
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
	if (share_is_kept(so) && !share_other_holder(so, ch)) {
		share_drop(so); /* the message said that we hold it no more */
		return;
	}
	share_settle(so);
}
