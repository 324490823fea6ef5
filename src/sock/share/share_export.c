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

#define HOLD NSEC_PER_MSEC	       /* a connection stays at least so long */
#define PAUSE_MAX (64 * NSEC_PER_MSEC) /* before it is asked back, in vain again and again */

/* A connection that has left, until it is known to have arrived. */
struct gift {
	struct list link;
	struct inet_sock *so;
	uint64_t id;
	struct channel *to;
	int memfd;
};

/* ---- giving ------------------------------------------------------------------------------------ */

/* Was anything read or written since that was noted? */
static bool was_used(struct kin *kin, bool note)
{
	const struct tcp_conn *c = &kin->so->tcp.conn;
	struct ring *home = sock_home(kin->so);
	uint32_t read_to, written_to;
	bool used;

	if (!ring_hold_cold(home))
		return false;
	read_to = c->rcv_nxt - c->rcv.bytes;
	written_to = c->snd_una + c->snd.len;
	used = kin->read_to != read_to || kin->written_to != written_to;
	if (note) {
		kin->read_to = read_to;
		kin->written_to = written_to;
	}
	ring_release_cold(home);
	return used;
}

/* Who lost it without having got anything by it comes back later. */
static void set_pause(struct kin *kin, nsec_t now)
{
	if (was_used(kin, false) || !kin->pause)
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
		rc = travel_out(so, ch->serial, so->id, &memfd);
	}
	if (rc) {
		mem_free(gift);
		return false;
	}
	*gift = (struct gift){.so = so, .id = so->id, .to = ch, .memfd = memfd};
	list_init(&gift->link);
	list_push_back(&family.gifts, &gift->link);
	family_set_toward(so, ch);
	so->kin->from = 0;
	kin_set_state(so->kin, KIN_LEAVING);
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
	kin_set_state(gift->so->kin, KIN_REST);
	list_remove(&gift->link);
	sys_close_fd(&gift->memfd);
	mem_free(gift);
}

static void arrived(struct inet_sock *so)
{
	family_set_toward(so, NULL);
	kin_set_state(so->kin, KIN_REST);
	so->kin->failed = 0;
	so->kin->arrived = clock_now();
	list_remove(&so->kin->asking);
	(void)was_used(so->kin, true);
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
		family_lose(so);
		return;
	}
	arrived(so);
	family_settle(so);
}

void family_gifts_back(const struct channel *ch)
{
	list_for_each_safe(link, &family.gifts) {
		struct gift *gift = container_of(link, struct gift, link);

		if (gift->to == ch)
			take_back(gift);
	}
}

bool family_is_given(const struct channel *ch, uint64_t id)
{
	return find_gift(ch, id) != NULL;
}

/*
 * Somebody else who has it, and asked for it, can only use it through the kernel. twin: his;
 * consumed.  0, and it is the kernel's; -errno.
 */
static int to_kernel(struct inet_sock *so, int twin)
{
	bool kept = family_is_kept(so);
	int rc;

	if (!kept) {
		sys_close_fd(&twin);
		return surrender(so, VERDICT_SHARED);
	}
	/* Our program closed it: there is no twin of it here any more. */
	if (twin < 0 || !so->kin->cookie || family_cookie(twin) != so->kin->cookie) {
		sys_close_fd(&twin);
		return -EBADF;
	}
	__atomic_store_n(&so->sk.twin, twin, __ATOMIC_RELEASE);
	rc = surrender(so, VERDICT_SHARED);
	__atomic_store_n(&so->sk.twin, -1, __ATOMIC_RELEASE);
	sys_close_fd(&twin);
	if (rc)
		return rc;
	family_say_left(so->id);
	family_drop(so);
	return 0;
}

/* *twin is consumed. */
void family_on_refused(struct channel *ch, const struct letter *letter, int *twin)
{
	struct gift *gift = find_gift(ch, letter->id);
	struct inet_sock *so;
	int rc;

	if (!gift)
		return;
	take_back(gift);
	if (!(letter->flags & LETTER_UNABLE))
		return;
	so = family_find(letter->id); /* nobody may need it any more */
	if (!so || sock_is_away(&so->sk) || so->tcp.dead)
		return;
	rc = to_kernel(so, *twin);
	*twin = -1;
	if (!rc)
		return;
	log_debug("a connection cannot be given to the kernel: %s", strerror(-rc));
	channel_send(ch, LETTER_STAYS, letter->id, 0, -1);
}

/* ---- asking ------------------------------------------------------------------------------------- */

static void ask_now(struct inet_sock *so)
{
	struct channel *ch = so->kin->toward;

	list_remove(&so->kin->asking);
	if (so->kin->state != KIN_REST)
		return;
	if (family_is_member(so) && (so->joins || !ch)) {
		family_join(so, clock_now());
		return;
	}
	if (!ch) {
		family_lose(so);
		return;
	}
	kin_set_state(so->kin, KIN_ASKED);
	/* While the rings are opened the connection is still looked after. */
	if (!family_is_member(so))
		travel_prepare(so);
	channel_send(ch, LETTER_WANT, so->id, 0, -1);
}

/* For the program, or for somebody who asked us: not before it is polite. */
void family_ask_for(struct inet_sock *so)
{
	struct kin *kin = family_kin(so);

	if (!kin || kin->state == KIN_ASKED)
		return;
	if (kin->state == KIN_REST && clock_now() >= kin->ask_at) {
		ask_now(so);
	} else if (!list_linked(&kin->asking)) {
		list_push_back(&family.asking, &kin->asking);
		family_busy();
	}
}

bool family_ask_due(void)
{
	bool left = false;
	nsec_t now = clock_now();

	list_for_each_safe(link, &family.asking) {
		struct kin *kin = container_of(link, struct kin, asking);

		if (now >= kin->ask_at && kin->state != KIN_LEAVING)
			ask_now(kin->so);
		else
			left = true;
	}
	return left;
}

bool family_serve_wants(struct channel *ch)
{
	nsec_t now = clock_now();

	list_for_each_safe(link, &ch->wants) {
		struct want *want = container_of(link, struct want, link);
		struct inet_sock *so = family_find(want->id);
		bool done = false;

		if (!channel_holds(ch, want->id)) {
			done = true; /* it was closed there since */
		} else if (!so || !family_is_known_to_children(so)) {
			channel_send(ch, LETTER_LOST, want->id, 0, -1);
			done = true;
		} else if (family_is_member(so)) {
			done = family_admit(so, ch);
		} else if (sock_is_away(&so->sk)) {
			/* If it is there, it went there after it was asked for. */
			done = family_toward(so) == ch && !kin_is(so, KIN_LEAVING);
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

static bool is_asked_of(const struct inet_sock *so, const struct channel *ch)
{
	return kin_is(so, KIN_ASKED) && so->kin->toward == ch;
}

/* It will not come, nor be the kernel's. */
static void fail(struct inet_sock *so, int rc)
{
	log_warn("fd %d: a connection of another process cannot be used here: %s",
		 sock_twin(&so->sk), strerror(-rc));
	kin_set_state(so->kin, KIN_REST);
	so->kin->failed = -rc;
	family_turn();
}

/* so: NULL if it is not known here any more.  What no owner wrote the kernel cannot have. */
static void refuse(struct channel *ch, struct inet_sock *so, uint64_t id, int rc)
{
	int twin = so ? sock_twin(&so->sk) : -1;

	if (!so || !is_asked_of(so, ch) || rc == -EINVAL) {
		channel_send(ch, LETTER_REFUSED, id, 0, -1);
		if (so && is_asked_of(so, ch))
			fail(so, rc);
		return;
	}
	log_debug("fd %d: the connection is to be the kernel's: %s", twin, strerror(-rc));
	channel_send(ch, LETTER_REFUSED, id, LETTER_UNABLE, twin < 0 ? -1 : sys_fd_copy(twin));
}

void family_on_give(struct channel *ch, const struct letter *letter, int memfd)
{
	struct inet_sock *so = family_find(letter->id);
	int rc = -ENOENT;

	if (so && sock_is_away(&so->sk) && family_kin(so) && so->kin->toward == ch)
		rc = travel_in(so, memfd);
	if (rc == 0) {
		if (letter->flags & LETTER_LAST)
			idset_add(&ch->closed, letter->id);
		log_debug("fd %d: the connection came from another process", sock_twin(&so->sk));
		arrived(so);
		so->kin->from = ch->serial;
		channel_send(ch, LETTER_TAKEN, letter->id, 0, -1);
		family_settle(so);
		return;
	}
	refuse(ch, so, letter->id, rc);
}

/* The calls that wait for it fail. */
void family_on_stays(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = family_find(id);

	if (so && is_asked_of(so, ch))
		fail(so, -ENETUNREACH);
}

void family_on_taken(struct channel *ch, uint64_t id)
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
