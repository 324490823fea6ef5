/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>

#include "base/image/sections.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/share/channel.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "sock/wait/epoll.h"
#include "sock/wait/wait.h"

#define WAIT_ROUND (10 * NSEC_PER_MSEC) /* the longest sleep of a call that waits */

uint64_t share_last_id EARLY_DATA; /* any, atomic; control lock to write */

/* Control lock, except where a field says otherwise. */
struct share_process share_process EARLY_DATA = {.epoll_fd = -1, .fresh_fd = -1};

static void on_readable(void)
{
	share_process.readable = true;
	__atomic_store_n(&share_process.busy, 1, __ATOMIC_RELAXED);
}

bool share_watch(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (share_process.epoll_fd < 0) {
		share_process.epoll_fd =
			sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
		progress_watch(share_process.epoll_fd, on_readable);
	}
	return !sys_call(SYS_epoll_ctl, share_process.epoll_fd, EPOLL_CTL_ADD, fd, &ev, 0, 0);
}

void share_unwatch(const struct channel *ch)
{
	sys_call(SYS_epoll_ctl, share_process.epoll_fd, EPOLL_CTL_DEL, ch->fd, NULL, 0, 0);
}

/* ---- what is known of a shared socket ---------------------------------------------- */

void share_init_lists(void)
{
	list_init(&share_process.channels);
	list_init(&share_process.kept);
	list_init(&share_process.asking);
	list_init(&share_process.members);
	list_init(&share_process.pending);
}

void share_init(void)
{
	if (!share_process.channels.next)
		share_init_lists();
}

static void begin(struct sharing *sharing, struct inet_sock *so)
{
	*sharing = (struct sharing){.so = so, .memfd = -1};
	list_init(&sharing->asking);
	list_init(&sharing->member);
	sharing->shared.id = so->id;
	sharing->shared.toward = sock_is_exported(&so->sk) ? share_process.up : NULL;
}

struct shared *share_view(struct inet_sock *so, struct sharing *plain)
{
	struct shared *s = so->sharing ? &so->sharing->shared : &plain->shared;

	if (!so->sharing)
		begin(plain, so);
	s->member = share_is_member(so);
	s->listens = so->inet == INET_LISTEN;
	s->joins |= so->joins; /* or the machine learnt it from another process */
	shared_observe(s, sock_is_exported(&so->sk), share_is_known_to_children(so),
		       sock_is_kept(so));
	return s;
}

struct shared *share_of(struct inet_sock *so)
{
	if (!so->sharing) {
		so->sharing = mem_alloc(sizeof(*so->sharing));
		if (!so->sharing)
			return NULL;
		begin(so->sharing, so);
	}
	return share_view(so, so->sharing);
}

struct channel *share_toward(const struct inet_sock *so)
{
	return so->sharing ? so->sharing->shared.toward : share_process.up;
}

bool share_is_in_transit(const struct inet_sock *so)
{
	return so->sharing && so->sharing->shared.state == SHARED_IN_TRANSIT;
}

bool share_begin_toward(struct inet_sock *so, struct channel *ch)
{
	struct shared *s = share_of(so);

	if (!s)
		return false;
	s->toward = NULL; /* not counted in up->toward: the parent does not know so */
	shared_set_toward(s, ch);
	return true;
}

struct channel *share_other_holder(const struct inet_sock *so, const struct channel *but)
{
	return so->id > share_last_id ? NULL : shared_other_holder(share_sink(), so->id, but);
}

bool share_may_export(const struct inet_sock *so)
{
	return sock_has_connection(so) ||
	       (sock_life_is(so, LIFE_LOCAL) && so->shm.established && so->shm.shared);
}

bool share_is_known_to_children(const struct inet_sock *so)
{
	return sock_is_exported(&so->sk) || share_may_export(so) || member_is(so);
}

/* Newest first: those are exported most. */
static struct inet_sock *find_in(const struct list *list, uint64_t id)
{
	for (struct list *link = list->prev; link != list; link = link->prev) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (so->id == id)
			return so;
	}
	return NULL;
}

struct inet_sock *share_find(uint64_t id)
{
	struct inet_sock *so = find_in(&share_process.kept, id);

	return so ? so : find_in(sock_list(), id);
}

void share_wake_waiters(void)
{
	/* Pairs with share_fetch(): a call that misses the change does not sleep. */
	__atomic_add_fetch(&share_process.turns, 1, __ATOMIC_SEQ_CST);
	sys_call(SYS_futex, &share_process.turns, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void share_busy(void)
{
	/* Pairs with share_run(), which then sees what there is to do. */
	__atomic_store_n(&share_process.busy, 1, __ATOMIC_RELEASE);
	if (progress_running())
		progress_kick();
}

/* ---- endings ----------------------------------------------------------------------- */

static void forget_links(struct inet_sock *so)
{
	if (!so->sharing)
		return;
	list_remove(&so->sharing->asking);
	list_remove(&so->sharing->member);
}

void share_settle(struct inet_sock *so)
{
	struct sharing plain;

	(void)shared_settle(share_sink(), share_view(so, &plain));
}

bool share_close(struct inet_sock *so)
{
	bool member = share_is_member(so);
	struct shared *s;

	control_assert_held();
	forget_links(so);
	if (member ? !member_receives(so) : !sock_is_exported(&so->sk) && !share_may_export(so))
		return false;
	if ((member || !sock_is_exported(&so->sk)) && !share_other_holder(so, NULL))
		return false;
	s = share_of(so);
	if (!s)
		return false;
	if (member)
		return shared_close_member(share_sink(), s);
	shared_close(share_sink(), s);
	return true;
}

void share_revive(struct inet_sock *so, int fd)
{
	list_remove(&so->link);
	sock_unkeep(so, fd);
	(void)share_nonblock_now(so);
}

void share_leave(struct inet_sock *so, enum verdict reason)
{
	struct sharing plain;

	control_assert_held();
	forget_links(so);
	if (so->sharing && so->sharing->cookie)
		pass_mark_remove(sock_twin(&so->sk));
	if (share_is_active())
		shared_left(share_sink(), share_view(so, &plain), reason != VERDICT_EXECUTED);
}

/* ---- channels ---------------------------------------------------------------------- */

static void end_at(const struct list *list, struct channel *ch)
{
	list_for_each_safe(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);
		struct sharing plain;

		if (list == &share_process.kept ||
		    (sock_is_exported(&so->sk) && share_toward(so) == ch))
			shared_channel_ended(share_sink(), share_view(so, &plain), ch);
	}
}

/* The other end is gone: takes back what was exported there, and loses what it owned. */
static void close_channel(struct channel *ch)
{
	list_remove(&ch->link);
	share_unwatch(ch);
	/* Sockets without a record are toward the parent, and without memory for one they stay so. */
	if (ch->toward || ch == share_process.up)
		end_at(sock_list(), ch);
	if (share_process.up == ch)
		share_process.up = NULL;
	share_pending_back(ch);
	end_at(&share_process.kept, ch);
	channel_destroy(ch);
	if (list_empty(&share_process.channels) && !pass_any())
		share_last_id = 0;
}

void share_read(struct channel *ch)
{
	struct message message;
	int memfd, rc;

	while ((rc = channel_receive(ch, &message, &memfd)) > 0) {
		if (!share_act(ch, &message, memfd)) {
			log_warn("illegal message %u about socket %llu from another process: "
				 "no sockets are shared with it any more",
				 message.kind, (unsigned long long)message.id);
			rc = -1;
			break;
		}
	}
	if (rc < 0)
		close_channel(ch);
}

void share_receive(void)
{
	list_for_each_safe(link, &share_process.channels)
		share_read(container_of(link, struct channel, link));
}

bool share_serve(void)
{
	bool left = share_request_due();

	share_send_late();
	list_for_each_safe(link, &share_process.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		left |= !share_serve_requests(ch);
		left |= !channel_flush(ch);
		if (ch->broken || (ch->done && !ch->toward && list_empty(&ch->unsent)))
			close_channel(ch);
	}
	return pass_serve() || left;
}

/* Requests the exported sockets that a thread polls. */
static void request_polled(void)
{
	list_for_each_safe(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);
		uint32_t events = __atomic_load_n(&so->sk.events, __ATOMIC_RELAXED);

		if ((events & (SOCK_EXPORTED | SOCK_ASKED)) == (SOCK_EXPORTED | SOCK_ASKED) &&
		    sock_start())
			share_request_for(so);
	}
}

bool share_run(void)
{
	bool left;

	/* Acquire: pairs with share_busy(). */
	if (!__atomic_load_n(&share_process.busy, __ATOMIC_ACQUIRE) &&
	    !__atomic_load_n(&share_process.looking, __ATOMIC_RELAXED))
		return false;
	if (!control_trylock())
		return true;
	if (share_process.executing) {
		control_unlock();
		return false;
	}
	__atomic_store_n(&share_process.busy, 0, __ATOMIC_RELAXED);
	if (share_process.readable) {
		share_process.readable = false;
		share_receive();
	}
	/* Pairs with share_request(): SOCK_ASKED is seen now, or look is set again. */
	if (__atomic_exchange_n(&share_process.look, 0, __ATOMIC_ACQ_REL))
		request_polled();
	left = share_serve();
	left |= share_look_at_members();
	if (left || pass_is_paused())
		__atomic_store_n(&share_process.busy, 1, __ATOMIC_RELAXED);
	control_unlock();
	return left;
}

void share_note_held(uint64_t id)
{
	if (id > share_last_id)
		__atomic_store_n(&share_last_id, id, __ATOMIC_RELAXED);
	if (id > sock_shared_id)
		__atomic_store_n(&sock_shared_id, id, __ATOMIC_RELAXED);
}

/* Starts the internal thread if there is none yet. */
void share_listen_to(struct channel *ch)
{
	share_watch(ch->fd);
	list_push_back(&share_process.channels, &ch->link);
	share_note_held(ch->last_id);
	if (progress_running())
		return;
	clock_init();
	progress_set_hook(share_run);
	if (progress_start())
		log_debug("the internal thread cannot start for sockets of other processes");
}

/* ---- fetching (app) ---------------------------------------------------------------- */

/* 1: the socket is here; 0: it was requested; -errno. */
static int try_fetch(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	int rc;

	if (!control_lock())
		return -EAGAIN;
	rc = sock_gone(ref);
	if (sock_ref_valid(ref)) {
		rc = 1;
		if (sock_is_exported(ref.sk) && so->sharing && so->sharing->shared.failed) {
			rc = -so->sharing->shared.failed;
			so->sharing->shared.failed = 0;
		} else if (sock_is_exported(ref.sk)) {
			rc = sock_start() ? 0 : -ENOMEM;
			if (!rc)
				share_request_for(so);
		}
	}
	control_unlock();
	return rc;
}

static void wait_for_turn(uint32_t seen)
{
	struct timespec ts = {.tv_nsec = WAIT_ROUND};

	sys_call(SYS_futex, &share_process.turns, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

int share_fetch(struct sock_ref ref, nsec_t patience)
{
	nsec_t deadline = patience ? clock_now() + patience : NSEC_NEVER;
	struct sock_signals before = sock_signals;
	int rc;

	for (;;) {
		/* Pairs with share_wake_waiters(): loaded before the socket is looked at. */
		uint32_t seen = __atomic_load_n(&share_process.turns, __ATOMIC_SEQ_CST);

		if (sock_ref_valid(ref) && !sock_is_exported(ref.sk))
			return 0;
		rc = try_fetch(ref);
		if (rc)
			return rc > 0 ? 0 : rc;
		if (sock_signals_interrupt(&before, false))
			return -EINTR;
		if (clock_now() >= deadline)
			return -EAGAIN;
		wait_for_turn(seen);
	}
}

bool share_nonblock_now(struct inet_sock *so)
{
	int twin, flags;

	do {
		twin = sock_twin(&so->sk);
		flags = sys_fcntl(twin, F_GETFL, 0);
	} while (twin != sock_twin(&so->sk)); /* closed meanwhile, and perhaps another file */
	if (flags >= 0)
		__atomic_store_n(&so->sk.nonblock, (flags & O_NONBLOCK) != 0, __ATOMIC_RELAXED);
	return __atomic_load_n(&so->sk.nonblock, __ATOMIC_RELAXED);
}

/* The hold keeps the object from another socket until the flag is stored. */
int share_nonblock_ask(struct sock_ref ref)
{
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	rc = share_nonblock_now(inet_of(ref.sk));
	ring_release_cold(ring);
	return rc;
}

bool share_is_active(void)
{
	return share_process.channels.next && !list_empty(&share_process.channels);
}

void share_request(struct sock_ref ref)
{
	if ((__atomic_load_n(&ref.sk->events, __ATOMIC_RELAXED) & (SOCK_EXPORTED | SOCK_ASKED)) !=
		    SOCK_EXPORTED ||
	    !sock_ref_valid(ref))
		return;
	__atomic_fetch_or(&ref.sk->events, SOCK_ASKED, __ATOMIC_RELAXED);
	/* Pairs with share_run(): orders SOCK_ASKED before look. */
	__atomic_store_n(&share_process.look, 1, __ATOMIC_RELEASE);
	share_busy();
}
