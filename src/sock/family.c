/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/family.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/channel.h"
#include "sock/epoll.h"
#include "sock/family_internal.h"
#include "sock/travel.h"
#include "sock/wait.h"

#define HOLD NSEC_PER_MSEC	       /* a connection stays at least so long */
#define PAUSE_MAX (64 * NSEC_PER_MSEC) /* before it is asked back, in vain again and again */
#define ROUND (10 * NSEC_PER_MSEC)     /* of a call that waits: the longest sleep */

uint64_t family_last_id; /* control lock to write */

/* Everything here: control lock, but for what says otherwise. */
struct family family = {.epoll_fd = -1, .fresh_fd = -1};

/* A connection that has left, until it is known to have arrived. */
struct gift {
	struct list link;
	struct inet_sock *so;
	uint64_t id;
	struct channel *to;
	int memfd;
};

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

/* A child may have it open for longer, and its end would be told for so long. */
static void unwatch(const struct channel *ch)
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

struct channel *family_toward(const struct inet_sock *so)
{
	return so->kin ? so->kin->toward : family.up;
}

static void set_toward(struct inet_sock *so, struct channel *ch)
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
	set_toward(so, ch);
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

/* The process that had it died. */
static void lose(struct inet_sock *so)
{
	if (family_is_member(so)) { /* it joins by itself, when it is used */
		if (so->kin && so->kin->asked)
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
		so->kin->asked = false;
	}
	travel_lost(so);
	family_turn();
}

void family_settle(struct inet_sock *so)
{
	if (!family_is_kept(so) || so->kin->leaving)
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

void family_say_left(const struct inet_sock *so, const struct channel *but)
{
	list_for_each(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch != but && channel_holds(ch, so->id))
			channel_send(ch, LETTER_LEFT, so->id, 0, -1);
	}
}

/* ---- giving ------------------------------------------------------------------------------------ */

static void note_use(struct kin *kin)
{
	const struct tcp_conn *c = &kin->so->tcp.conn;

	kin->read_to = c->rcv_nxt - c->rcv.bytes;
	kin->written_to = c->snd_una + c->snd.len;
}

static bool was_used(const struct kin *kin)
{
	const struct tcp_conn *c = &kin->so->tcp.conn;

	return kin->read_to != c->rcv_nxt - c->rcv.bytes ||
	       kin->written_to != c->snd_una + c->snd.len;
}

/* Who lost it without having got anything by it comes back later. */
static void set_pause(struct kin *kin, nsec_t now)
{
	if (was_used(kin) || !kin->pause)
		kin->pause = HOLD;
	else if (kin->pause < PAUSE_MAX)
		kin->pause *= 2;
	kin->ask_at = now + kin->pause;
}

/* False: not now. */
static bool give(struct inet_sock *so, struct channel *ch)
{
	struct gift *gift = mem_zalloc(sizeof(*gift));
	bool last = family_is_kept(so) && !family_other_holder(so, ch);
	int memfd, rc = gift && family_kin(so) ? 0 : -ENOMEM;

	if (!rc) {
		set_pause(so->kin, clock_now());
		rc = travel_out(so, &memfd);
	}
	if (rc) {
		mem_free(gift);
		return false;
	}
	*gift = (struct gift){.so = so, .id = so->id, .to = ch, .memfd = memfd};
	list_init(&gift->link);
	list_push_back(&family.gifts, &gift->link);
	set_toward(so, ch);
	so->kin->asked = false;
	so->kin->leaving = true;
	log_debug("fd %d: the connection goes to another process", sock_twin(&so->sk));
	channel_send(ch, LETTER_GIVE, so->id, last ? LETTER_LAST : 0, sys_fd_copy(memfd));
	return true;
}

static struct gift *find_gift(const struct channel *to, uint64_t id)
{
	list_for_each(link, &family.gifts) {
		struct gift *gift = container_of(link, struct gift, link);

		if (gift->to == to && gift->id == id)
			return gift;
	}
	return NULL;
}

static void gift_over(struct gift *gift)
{
	gift->so->kin->leaving = false;
	list_remove(&gift->link);
	sys_close_fd(&gift->memfd);
	mem_free(gift);
}

static void arrived(struct inet_sock *so)
{
	set_toward(so, NULL);
	so->kin->asked = false;
	so->kin->failed = 0;
	so->kin->arrived = clock_now();
	list_remove(&so->kin->asking);
	note_use(so->kin);
	family_turn();
}

/* It did not get there, and is ours again. */
static void take_back(struct gift *gift)
{
	struct inet_sock *so = gift->so;
	int rc = travel_in(so, gift->memfd);

	gift_over(gift);
	if (rc) {
		log_debug("fd %d: the connection cannot come back: %s", sock_twin(&so->sk),
			  strerror(-rc));
		lose(so);
		return;
	}
	arrived(so);
	family_settle(so);
}

/* ---- asking ------------------------------------------------------------------------------------- */

static void ask_now(struct inet_sock *so)
{
	struct channel *ch = so->kin->toward;

	list_remove(&so->kin->asking);
	if (so->kin->asked || so->kin->leaving)
		return;
	if (family_is_member(so) && (so->joins || !ch)) {
		family_join(so, clock_now());
		return;
	}
	if (!ch) {
		lose(so);
		return;
	}
	so->kin->asked = true;
	/* While the rings are opened the connection is still looked after. */
	if (!family_is_member(so))
		travel_prepare(so);
	channel_send(ch, LETTER_WANT, so->id, 0, -1);
}

/* For the program, or for somebody who asked us: not before it is polite. */
void family_ask_for(struct inet_sock *so)
{
	struct kin *kin = family_kin(so);

	if (!kin || kin->asked)
		return;
	if (!kin->leaving && clock_now() >= kin->ask_at) {
		ask_now(so);
	} else if (!list_linked(&kin->asking)) {
		list_push_back(&family.asking, &kin->asking);
		family_busy();
	}
}

/* Serves what one channel asked for, as far as it is time. False: something is left. */
static bool serve(struct channel *ch)
{
	nsec_t now = clock_now();

	list_for_each_safe(link, &ch->wants) {
		struct want *want = container_of(link, struct want, link);
		struct inet_sock *so = family_find(want->id);
		bool done = false;

		if (!so || !family_is_known_to_children(so)) {
			channel_send(ch, LETTER_LOST, want->id, 0, -1);
			done = true;
		} else if (family_is_member(so)) {
			done = family_admit(so, ch);
		} else if (sock_is_away(&so->sk)) {
			/* If it is there, it went there after it was asked for. */
			done = family_toward(so) == ch && !(so->kin && so->kin->leaving);
			if (!done && family_toward(so) != ch)
				family_ask_for(so);
		} else if (!so->kin || now - so->kin->arrived >= HOLD || family.exiting) {
			done = give(so, ch);
		}
		if (!done)
			continue;
		list_remove(link);
		mem_free(want);
	}
	return list_empty(&ch->wants);
}

/* ---- letters ------------------------------------------------------------------------------------- */

static void on_give(struct channel *ch, const struct letter *letter, int memfd)
{
	struct inet_sock *so = family_find(letter->id);
	int rc = -ENOENT;

	if (letter->flags & LETTER_LAST)
		idset_add(&ch->closed, letter->id);
	if (so && sock_is_away(&so->sk) && family_kin(so) && so->kin->toward == ch)
		rc = travel_in(so, memfd);
	if (rc == 0) {
		log_debug("fd %d: the connection came from another process", sock_twin(&so->sk));
		arrived(so);
		channel_send(ch, LETTER_TAKEN, letter->id, 0, -1);
		family_settle(so);
		return;
	}
	channel_send(ch, LETTER_REFUSED, letter->id, 0, -1);
	if (!so || !so->kin || !so->kin->asked || so->kin->toward != ch)
		return; /* nobody waits for it */
	log_warn("fd %d: a connection of another process cannot be used here: %s",
		 sock_twin(&so->sk), strerror(-rc));
	so->kin->asked = false;
	so->kin->failed = -rc;
	family_turn();
}

static void on_taken(struct channel *ch, uint64_t id)
{
	struct gift *gift = find_gift(ch, id);
	struct inet_sock *so;

	if (!gift)
		return;
	so = gift->so;
	gift_over(gift);
	if (family_is_kept(so) && !family_other_holder(so, ch)) {
		family_drop(so); /* the letter said that we hold it no more */
		return;
	}
	family_settle(so);
}

static void on_closed(struct channel *ch, uint64_t id)
{
	struct inet_sock *so;

	idset_add(&ch->closed, id);
	so = family_find(id);
	if (so)
		family_settle(so);
}

static void on_offer(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = family_find(id);

	if (!so) {
		channel_send(ch, LETTER_CLOSED, id, 0, -1);
	} else if (family_is_member(so) && family_kin(so)) {
		so->joins = true;
		if (sock_is_away(&so->sk))
			family_join(so, so->kin->asked ? clock_now() : 0);
		else
			channel_send(ch, LETTER_JOIN, id, LETTER_TOO, -1);
	} else if (sock_is_away(&so->sk) && family_kin(so) && so->kin->toward == ch) {
		so->kin->ask_at = 0;
		family_ask_for(so);
	}
}

static void on_lost(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = family_find(id);

	if (so && sock_is_away(&so->sk) && family_toward(so) == ch)
		lose(so);
}

/* Its twin, which is the same file as ours, has the connection. */
static void on_left(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = family_find(id);

	if (!so || family_is_member(so) || !sock_is_away(&so->sk) || family_toward(so) != ch)
		return;
	family_say_left(so, ch);
	if (family_is_kept(so)) {
		family_drop(so);
		return;
	}
	forget_kin(so);
	sock_set_events(so, 0);
	(void)sock_leave(so, VERDICT_EXECUTED);
	family_turn();
}

/* Whom we had in the middle has gone, and the next one is at the end of his channel. */
static void on_adopt(struct channel *ch, int *memfd)
{
	if (*memfd < 0)
		return;
	unwatch(ch);
	sys_close_fd(&ch->fd);
	ch->fd = *memfd;
	*memfd = -1;
	family_watch(ch->fd);
}

/* Its other end was executed and holds what it named, nothing else. */
static void close_unnamed(struct channel *ch, const struct list *list)
{
	list_for_each_safe(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (!channel_holds(ch, so->id) || idset_has(&ch->held, so->id))
			continue;
		idset_add(&ch->closed, so->id);
		if (so->kin && so->kin->leaving)
			continue; /* it is refused there, and comes back */
		if (sock_is_away(&so->sk) && family_toward(so) == ch)
			lose(so);
		else
			family_settle(so);
	}
}

static void on_execed(struct channel *ch)
{
	close_unnamed(ch, sock_list());
	close_unnamed(ch, &family.kept);
	idset_fini(&ch->held);
	ch->held = (struct idset){0};
}

static void act(struct channel *ch, const struct letter *letter, int memfd)
{
	struct gift *gift;

	switch (letter->kind) {
	case LETTER_WANT:
		channel_note_want(ch, letter->id);
		break;
	case LETTER_GIVE:
		on_give(ch, letter, memfd);
		break;
	case LETTER_TAKEN:
		on_taken(ch, letter->id);
		break;
	case LETTER_REFUSED:
		gift = find_gift(ch, letter->id);
		if (gift)
			take_back(gift);
		break;
	case LETTER_CLOSED:
		on_closed(ch, letter->id);
		break;
	case LETTER_OFFER:
		on_offer(ch, letter->id);
		break;
	case LETTER_LOST:
		on_lost(ch, letter->id);
		break;
	case LETTER_JOIN:
		family_on_join(ch, letter);
		break;
	case LETTER_PENDING:
		family_on_pending(ch, letter, &memfd);
		break;
	case LETTER_RECEIVED:
		family_on_received(ch, letter->id);
		break;
	case LETTER_ADOPT:
		on_adopt(ch, &memfd);
		break;
	case LETTER_HELD:
		idset_add(&ch->held, letter->id);
		break;
	case LETTER_EXECED:
		on_execed(ch);
		break;
	case LETTER_CLAIM:
		pass_on_claim(ch, letter);
		break;
	case LETTER_LEFT:
		on_left(ch, letter->id);
		break;
	}
	sys_close_fd(&memfd);
}

/* ---- channels ------------------------------------------------------------------------------------ */

static void lose_toward(const struct list *list, const struct channel *ch)
{
	list_for_each_safe(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (sock_is_away(&so->sk) && family_toward(so) == ch)
			lose(so);
	}
}

/* All at its other end are gone. */
static void hang_up(struct channel *ch)
{
	list_remove(&ch->link);
	unwatch(ch);
	list_for_each_safe(link, &family.gifts) {
		struct gift *gift = container_of(link, struct gift, link);

		if (gift->to == ch)
			take_back(gift);
	}
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

	while ((rc = channel_receive(ch, &letter, &memfd)) > 0)
		act(ch, &letter, memfd);
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
	bool left = false;
	nsec_t now = clock_now();

	list_for_each_safe(link, &family.asking) {
		struct kin *kin = container_of(link, struct kin, asking);

		if (now >= kin->ask_at && !kin->leaving)
			ask_now(kin->so);
		else
			left = true;
	}
	list_for_each_safe(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		left |= !serve(ch);
		left |= !channel_flush(ch);
		if (ch->done && !ch->toward && list_empty(&ch->unsent))
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
	    (!family.members.next || list_empty(&family.members)))
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
	if (left)
		__atomic_store_n(&family.busy, 1, __ATOMIC_RELAXED);
	control_unlock();
	return left;
}

void family_held(uint64_t id)
{
	if (id > family_last_id)
		__atomic_store_n(&family_last_id, id, __ATOMIC_RELAXED);
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
	unsigned handled = sock_signals.handled;
	int rc;

	for (;;) {
		uint32_t seen = __atomic_load_n(&family.turns, __ATOMIC_SEQ_CST);

		if (sock_ref_valid(ref) && !sock_is_away(ref.sk))
			return 0;
		rc = try_fetch(ref);
		if (rc)
			return rc > 0 ? 0 : rc;
		if (sock_signals.handled != handled && sock_signals.restart == 0)
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
	pass_fork_child();
	family.up = family.fresh ? channel_create(fd, family.fresh->last_id) : NULL;
	family.fresh = NULL;
	family_last_id = 0;
	family.readable = false;
	family.executing = false;
	family.busy = 0;
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
