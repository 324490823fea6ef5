/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/share/channel.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "sock/wait/epoll.h"
#include "sock/wait/wait.h"

#define ROUND (10 * NSEC_PER_MSEC) /* of a call that waits: the longest sleep */

uint64_t family_last_id;   /* control lock to write */
uint64_t family_shared_id; /* control lock to write */

/* Everything here: control lock, but for what says otherwise. */
struct family family = {.epoll_fd = -1, .fresh_fd = -1};

static void on_readable(void)
{
	family.readable = true;
	__atomic_store_n(&family.busy, 1, __ATOMIC_RELAXED);
}

bool family_watch(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (family.epoll_fd < 0) {
		family.epoll_fd =
			sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
		progress_watch(PROGRESS_FAMILY, family.epoll_fd, on_readable);
	}
	return !sys_call(SYS_epoll_ctl, family.epoll_fd, EPOLL_CTL_ADD, fd, &ev, 0, 0);
}

void family_unwatch(const struct channel *ch)
{
	sys_call(SYS_epoll_ctl, family.epoll_fd, EPOLL_CTL_DEL, ch->fd, NULL, 0, 0);
}

/* ---- what a socket has to do with others -------------------------------------------------- */

void family_init(void)
{
	if (family.channels.next)
		return;
	list_init(&family.channels);
	list_init(&family.kept);
	list_init(&family.asking);
	list_init(&family.gifts);
	list_init(&family.members);
	list_init(&family.parcels);
}

/* NULL: no memory. What is away from the beginning is at our parent's. */
struct kin *family_kin(struct inet_sock *so)
{
	if (so->kin)
		return so->kin;
	so->kin = mem_zalloc(sizeof(*so->kin));
	if (!so->kin)
		return NULL;
	so->kin->so = so;
	list_init(&so->kin->asking);
	list_init(&so->kin->member);
	so->kin->toward = sock_is_away(&so->sk) ? family.up : NULL;
	return so->kin;
}

void kin_set_state(struct kin *kin, enum kin_state next)
{
	static const uint8_t edges[] = {
		[KIN_REST] = 1 << KIN_REST | 1 << KIN_ASKED | 1 << KIN_LEAVING,
		[KIN_ASKED] = 1 << KIN_REST | 1 << KIN_ASKED,
		[KIN_LEAVING] = 1 << KIN_REST,
	};

	if (!(edges[kin->state] & 1 << next))
		__builtin_trap();
	kin->state = next;
}

struct channel *family_toward(const struct inet_sock *so)
{
	return so->kin ? so->kin->toward : family.up;
}

void family_set_toward(struct inet_sock *so, struct channel *ch)
{
	if (so->kin->toward)
		so->kin->toward->toward--;
	so->kin->toward = ch;
	if (ch)
		ch->toward++;
}

bool family_begin_toward(struct inet_sock *so, struct channel *ch)
{
	if (!family_kin(so))
		return false;
	if (so->kin->toward) /* not that our parent knows of it */
		so->kin->toward = NULL;
	family_set_toward(so, ch);
	return true;
}

/* Is there a process, but those behind this channel, that holds it? */
struct channel *family_other_holder(const struct inet_sock *so, const struct channel *but)
{
	if (so->id > family_last_id)
		return NULL;
	list_for_each(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch != but && channel_holds(ch, so->id))
			return ch;
	}
	return pass_holder(so->id);
}

bool family_may_travel(const struct inet_sock *so)
{
	return so->inet == INET_TCP && so->connected;
}

bool family_is_known_to_children(const struct inet_sock *so)
{
	return sock_is_away(&so->sk) || family_may_travel(so) || member_is(so);
}

bool family_is_kept(const struct inet_sock *so)
{
	return so->kin && so->kin->kept;
}

/* The newest first: it is they that are given away. */
static struct inet_sock *find_in(const struct list *list, uint64_t id)
{
	for (struct list *link = list->prev; link != list; link = link->prev) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (so->id == id)
			return so;
	}
	return NULL;
}

struct inet_sock *family_find(uint64_t id)
{
	struct inet_sock *so = find_in(&family.kept, id);

	return so ? so : find_in(sock_list(), id);
}

/* Calls that wait look again. */
void family_turn(void)
{
	__atomic_add_fetch(&family.turns, 1, __ATOMIC_SEQ_CST);
	sys_call(SYS_futex, &family.turns, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void family_busy(void)
{
	__atomic_store_n(&family.busy, 1, __ATOMIC_RELEASE);
	if (progress_running())
		progress_kick();
}

/* ---- endings -------------------------------------------------------------------------------- */

static void forget_kin(struct inet_sock *so)
{
	if (!so->kin)
		return;
	list_remove(&so->kin->asking);
	list_remove(&so->kin->member);
	if (so->kin->toward)
		so->kin->toward->toward--;
	so->kin->toward = NULL;
	so->kin->kept = false;
}

/* Channels that were for it alone, but not in the middle of a letter. */
static void finish_channels(uint64_t id)
{
	list_for_each(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch->only == id && idset_add(&ch->closed, id))
			ch->done = true;
	}
	family_busy();
}

/* Kept, and for nobody: the object goes, and the connection if it is here. */
void family_drop(struct inet_sock *so)
{
	forget_kin(so);
	finish_channels(so->id);
	list_remove(&so->link);
	sock_end(so);
}

void family_lose(struct inet_sock *so)
{
	if (so->kin && so->kin->parting) {
		(void)sock_leave(so, so->kin->reason);
		family_turn();
		return;
	}
	if (family_is_member(so)) { /* it joins by itself, when it is used */
		if (kin_is(so, KIN_ASKED))
			family_join(so, clock_now());
		return;
	}
	log_debug("fd %d: the process that had the connection is gone", sock_twin(&so->sk));
	if (family_is_kept(so)) {
		family_drop(so);
		return;
	}
	if (so->kin) {
		forget_kin(so);
		kin_set_state(so->kin, KIN_REST);
	}
	travel_lost(so);
	family_turn();
}

void family_settle(struct inet_sock *so)
{
	if (!family_is_kept(so) || kin_is(so, KIN_LEAVING))
		return;
	if (family_is_member(so)) {
		if (!family_other_holder(so, NULL))
			family_drop(so);
		return;
	}
	if (!sock_is_away(&so->sk)) {
		if (!family_other_holder(so, NULL))
			family_drop(so);
	} else if (!family_other_holder(so, so->kin->toward)) {
		if (so->kin->toward)
			channel_send(so->kin->toward, LETTER_CLOSED, so->id, 0, -1);
		family_drop(so);
	}
}

bool family_close(struct inet_sock *so)
{
	bool away = sock_is_away(&so->sk);

	if (family_is_member(so))
		return so->bound && so->verdict == VERDICT_ACCELERATED && family_close_member(so);
	if (!away && (!family_may_travel(so) || !family_other_holder(so, NULL)))
		return false;
	if (!family_kin(so))
		return false;
	log_debug("fd %d: closed, others have it open", sock_twin(&so->sk));
	list_remove(&so->kin->asking);
	so->kin->kept = true;
	if (!so->kin->cookie)
		so->kin->cookie = family_cookie(sock_twin(&so->sk));
	sock_keep(so);
	list_push_back(&family.kept, &so->link);
	family_settle(so);
	return true;
}

void family_revive(struct inet_sock *so, int fd)
{
	so->kin->kept = false;
	list_remove(&so->link);
	sock_unkeep(so, fd);
	(void)family_nonblock_now(so);
}

uint64_t family_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) ? 0 : cookie;
}

void family_say_left(uint64_t id)
{
	list_for_each(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, id))
			channel_send(ch, LETTER_LEFT, id, 0, -1);
	}
}

void family_leave(struct inet_sock *so, enum verdict reason)
{
	if (reason != VERDICT_EXECUTED && family_is_active())
		family_say_left(so->id);
	forget_kin(so);
}

/* ---- channels ------------------------------------------------------------------------------------ */

static void lose_toward(const struct list *list, const struct channel *ch)
{
	list_for_each_safe(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (sock_is_away(&so->sk) && family_toward(so) == ch)
			family_lose(so);
	}
}

/* All at its other end are gone. */
static void hang_up(struct channel *ch)
{
	list_remove(&ch->link);
	family_unwatch(ch);
	family_gifts_back(ch);
	if (ch->toward) {
		lose_toward(sock_list(), ch);
		lose_toward(&family.kept, ch);
	}
	if (family.up == ch)
		family.up = NULL;
	family_parcels_back(ch);
	list_for_each_safe(link, &family.kept)
		family_settle(container_of(link, struct inet_sock, link));
	channel_destroy(ch);
	if (list_empty(&family.channels) && !pass_any())
		family_last_id = 0;
}

void family_read(struct channel *ch)
{
	struct letter letter;
	int memfd, rc;

	while ((rc = channel_receive(ch, &letter, &memfd)) > 0) {
		if (!family_act(ch, &letter, memfd)) {
			log_warn("letter %u about socket %llu of another process is against the "
				 "rules: no sockets are shared with it any more",
				 letter.kind, (unsigned long long)letter.id);
			rc = -1;
			break;
		}
	}
	if (rc < 0)
		hang_up(ch);
}

void family_receive(void)
{
	list_for_each_safe(link, &family.channels)
		family_read(container_of(link, struct channel, link));
}

/* What is due, of others and of ours. True: something is left for soon. */
bool family_serve(void)
{
	bool left = family_ask_due();

	family_send_late();
	list_for_each_safe(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		left |= !family_serve_wants(ch);
		left |= !channel_flush(ch);
		if (ch->broken || (ch->done && !ch->toward && list_empty(&ch->unsent)))
			hang_up(ch);
	}
	return pass_serve() || left;
}

/* Those that somebody polls. */
static void look_for_asked(void)
{
	list_for_each_safe(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);
		uint32_t events = __atomic_load_n(&so->sk.events, __ATOMIC_RELAXED);

		if ((events & (SOCK_AWAY | SOCK_ASKED)) == (SOCK_AWAY | SOCK_ASKED) && sock_start())
			family_ask_for(so);
	}
}

bool family_run(void)
{
	bool left;

	if (!__atomic_load_n(&family.busy, __ATOMIC_ACQUIRE) &&
	    !__atomic_load_n(&family.looking, __ATOMIC_RELAXED))
		return false;
	if (!control_trylock())
		return true;
	if (family.executing) {
		control_unlock();
		return false;
	}
	__atomic_store_n(&family.busy, 0, __ATOMIC_RELAXED);
	if (family.readable) {
		family.readable = false;
		family_receive();
	}
	if (__atomic_exchange_n(&family.look, 0, __ATOMIC_ACQ_REL))
		look_for_asked();
	left = family_serve();
	left |= family_look_at_members();
	if (left || pass_rests())
		__atomic_store_n(&family.busy, 1, __ATOMIC_RELAXED);
	control_unlock();
	return left;
}

void family_held(uint64_t id)
{
	if (id > family_last_id)
		__atomic_store_n(&family_last_id, id, __ATOMIC_RELAXED);
	if (id > family_shared_id)
		__atomic_store_n(&family_shared_id, id, __ATOMIC_RELAXED);
}

/* Its letters wake the internal thread, which may not be there yet. */
void family_listen_to(struct channel *ch)
{
	family_watch(ch->fd);
	list_push_back(&family.channels, &ch->link);
	family_held(ch->last_id);
	if (progress_running()) {
		progress_kick(); /* it sleeps on other descriptors from now on */
		return;
	}
	clock_init();
	progress_set_hook(family_run);
	if (progress_start())
		log_debug("the internal thread cannot start for sockets of other processes");
}

/* ---- fetching (app) ---------------------------------------------------------------------------- */

/* 1: it is here; 0: it was asked for; -errno. */
static int try_fetch(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	int rc;

	if (!control_lock())
		return -EAGAIN;
	rc = sock_gone(ref);
	if (sock_ref_valid(ref)) {
		rc = 1;
		if (sock_is_away(ref.sk) && so->kin && so->kin->failed) {
			rc = -so->kin->failed;
			so->kin->failed = 0;
		} else if (sock_is_away(ref.sk)) {
			rc = sock_start() ? 0 : -ENOMEM;
			if (!rc)
				family_ask_for(so);
		}
	}
	control_unlock();
	return rc;
}

static void wait_for_turn(uint32_t seen)
{
	struct timespec ts = {.tv_nsec = ROUND};

	sys_call(SYS_futex, &family.turns, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

int family_fetch(struct sock_ref ref, nsec_t patience)
{
	nsec_t deadline = patience ? clock_now() + patience : NSEC_NEVER;
	struct sock_signals before = sock_signals;
	int rc;

	for (;;) {
		uint32_t seen = __atomic_load_n(&family.turns, __ATOMIC_SEQ_CST);

		if (sock_ref_valid(ref) && !sock_is_away(ref.sk))
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

bool family_nonblock_now(struct inet_sock *so)
{
	int flags = sys_fcntl(sock_twin(&so->sk), F_GETFL, 0);

	if (flags >= 0)
		__atomic_store_n(&so->sk.nonblock, (flags & O_NONBLOCK) != 0, __ATOMIC_RELAXED);
	return so->sk.nonblock;
}

bool family_is_active(void)
{
	return family.channels.next && !list_empty(&family.channels);
}

void family_ask(struct sock_ref ref)
{
	if ((__atomic_load_n(&ref.sk->events, __ATOMIC_RELAXED) & (SOCK_AWAY | SOCK_ASKED)) !=
		    SOCK_AWAY ||
	    !sock_ref_valid(ref))
		return;
	__atomic_fetch_or(&ref.sk->events, SOCK_ASKED, __ATOMIC_RELAXED);
	__atomic_store_n(&family.look, 1, __ATOMIC_RELEASE);
	family_busy();
}

/* ---- fork -------------------------------------------------------------------------------------- */

bool family_has_sockets(void)
{
	list_for_each(link, sock_list()) {
		if (family_is_known_to_children(container_of(link, struct inet_sock, link)))
			return true;
	}
	return false;
}

struct channel *family_new_channel(int *end)
{
	struct channel *ch;
	int fds[2];

	family_init();
	if (!family_has_sockets() ||
	    sys_call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds,
		     0, 0))
		return NULL; /* the child does without */
	ch = channel_create(sys_fd_hide(fds[0]), sock_last_id());
	if (!ch) {
		sys_close(fds[1]);
		return NULL;
	}
	*end = sys_fd_hide(fds[1]);
	/* What was closed here the child does not have. */
	list_for_each(link, &family.kept)
		idset_add(&ch->closed, container_of(link, struct inet_sock, link)->id);
	return ch;
}

void family_fork_prepare(void)
{
	family.fresh = family_new_channel(&family.fresh_fd);
}

void family_fork_parent(void)
{
	sys_close_fd(&family.fresh_fd);
	if (family.fresh)
		family_listen_to(family.fresh);
	family.fresh = NULL;
}

/* Channels of the parent are closed with its other descriptors; their memory is left. */
void family_fork_child(void)
{
	int fd = family.fresh_fd;

	family_init();
	if (family.fresh) {
		family.fresh->fd = -1;
		sys_fd_unhide(fd); /* the only one that stays */
	}
	family.fresh_fd = -1;
	list_for_each(link, &family.channels)
		sys_close_fd(&container_of(link, struct channel, link)->fd);
	sys_close_fd(&family.epoll_fd);
	list_init(&family.channels);
	list_init(&family.kept);
	list_init(&family.asking);
	list_init(&family.gifts);
	list_init(&family.members);
	list_init(&family.parcels);
	family_forget_late();
	pass_fork_child();
	family.up = family.fresh ? channel_create(fd, family.fresh->last_id) : NULL;
	family.fresh = NULL;
	family_last_id = 0;
	family.readable = false;
	family.executing = false;
	family.busy = 0;
	family.looking = 0;
}

bool family_fork_child_takes(const struct inet_sock *so)
{
	return family.up && family_is_known_to_children(so);
}

void family_fork_child_done(unsigned sockets)
{
	if (!family.up)
		return;
	sys_fd_hide(family.up->fd);
	family.up->toward = sockets;
	family_listen_to(family.up);
}
