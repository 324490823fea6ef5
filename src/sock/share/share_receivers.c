/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners and datagram sockets of several processes: who receives. Whoever uses one
 * joins; who has joined and does not look steps back, and hands on what waits there.
 */
#include "sock/share/share_internal.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define IDLE (20 * NSEC_PER_MSEC) /* so long nobody has looked at it */
#define OFFER_AGAIN (5 * IDLE)	  /* to whoever has not joined by then */
#define PARCELS_MAX 1024	  /* that were sent on to one channel, or back */

/* A connection of a listener on its way to another process. */
struct parcel {
	struct list link;
	struct channel *to;
	uint64_t id; /* of the listener */
	int memfd;
};

/* It is looked at now and then. */
static void add_member(struct kin *kin)
{
	list_push_back(&family.members, &kin->member);
	__atomic_store_n(&family.looking, 1, __ATOMIC_RELAXED);
}

/* memfd is consumed. */
static void send_parcel(struct channel *to, uint64_t id, uint64_t hops, int memfd)
{
	struct parcel *parcel = mem_alloc(sizeof(*parcel));

	if (parcel) {
		*parcel = (struct parcel){.to = to, .id = id, .memfd = sys_fd_copy(memfd)};
		list_push_back(&family.parcels, &parcel->link);
		to->parcels++;
	}
	channel_send(to, LETTER_PENDING, id, hops, memfd);
}

static struct parcel *find_parcel(const struct channel *to, uint64_t id)
{
	list_for_each(link, &family.parcels) {
		struct parcel *parcel = container_of(link, struct parcel, link);

		if (parcel->to == to && (!id || parcel->id == id))
			return parcel;
	}
	return NULL;
}

/* Its memfd is the caller's, if he took it. */
static void parcel_over(struct parcel *parcel)
{
	list_remove(&parcel->link);
	parcel->to->parcels--;
	sys_close_fd(&parcel->memfd);
	mem_free(parcel);
}

/* Everything that nobody has accepted goes to another process. */
static void hand_on(struct inet_sock *so, struct channel *to)
{
	int memfd;

	while (member_take_off(so, to->serial, &memfd))
		send_parcel(to, so->id, 0, memfd);
}

void family_part(struct inet_sock *so, enum verdict reason)
{
	struct kin *kin = family_kin(so);

	control_assert_held();
	control_assert_no_ring();
	if (kin && kin->parting)
		return;
	if (!kin || !kin->toward) {
		(void)sock_leave(so, reason);
		family_turn();
		return;
	}
	kin->parting = true;
	kin->reason = reason;
	so->verdict = VERDICT_ACCELERATED; /* until then */
	sock_flows_del(so);
	kin_set_state(kin, KIN_ASKED); /* who uses it waits */
	channel_send(kin->toward, LETTER_LEFT, so->id, 0, -1);
}

/*
 * Whoever receives for it shares: we do, too, from now on, and tell the others.  used:
 * when the program asked for it; 0: it did not.
 */
void family_join(struct inet_sock *so, nsec_t used)
{
	int rc;

	if (so->kin->parting)
		return; /* its owner has been told otherwise */
	kin_set_state(so->kin, KIN_REST);
	so->kin->arrived = used;
	list_remove(&so->kin->asking);
	rc = member_arrive(so);
	if (rc) {
		if (rc == SOCK_KERNEL)
			family_part(so, so->verdict);
		family_turn();
		return;
	}
	add_member(so->kin);
	list_for_each(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, so->id))
			channel_send(ch, LETTER_JOIN, so->id, 0, -1);
	}
	family_turn();
}

/* Nobody on this side holds it any more, as seen from each of those who do. */
static void say_closed(const struct inet_sock *so)
{
	list_for_each(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, so->id) && !family_other_holder(so, ch))
			channel_send(ch, LETTER_CLOSED, so->id, 0, -1);
	}
}

/*
 * True: it goes on until one of the others, who may not have used it so far, receives: in
 * between the kernel would.
 */
bool family_close_member(struct inet_sock *so)
{
	struct channel *heir = family_other_holder(so, NULL);

	if (so->kin)
		list_remove(&so->kin->asking);
	if (so->kin)
		list_remove(&so->kin->member);
	if (!heir)
		return false;
	if (sock_is_away(&so->sk) || !family_kin(so) || sock_flows_inherited(so)) {
		say_closed(so);
		return false;
	}
	so->joins = true;
	so->kin->kept = true;
	so->kin->offered = true;
	sock_keep(so);
	list_push_back(&family.kept, &so->link);
	channel_send(heir, LETTER_OFFER, so->id, 0, -1);
	return true;
}

/* A listener or datagram socket that others want to receive for, too. False: not now. */
bool family_admit(struct inet_sock *so, struct channel *ch)
{
	int rc = 0;

	if (sock_is_away(&so->sk) && !so->joins && family_kin(so) && so->kin->toward) {
		if (!kin_is(so, KIN_ASKED)) /* who receives has to know first */
			channel_send(so->kin->toward, LETTER_WANT, so->id, 0, -1);
		kin_set_state(so->kin, KIN_ASKED);
		so->kin->passing = true;
		return false;
	}
	if (!sock_is_away(&so->sk)) {
		rc = sock_flows_inherited(so);
		if (family_kin(so) && !list_linked(&so->kin->member))
			add_member(so->kin);
	}
	so->joins = true;
	if (rc == -EAGAIN)
		return false;
	if (rc)
		log_debug("fd %d: cannot be received for by others: %s", sock_twin(&so->sk),
			  strerror(-rc));
	channel_send(ch, LETTER_JOIN, so->id, 0, -1);
	return true;
}

/* Can a handshake end here, or even begin, that was steered here before others received? */
static bool has_handshakes(struct inet_sock *so, nsec_t now)
{
	if (so->inet != INET_LISTEN || now >= so->kin->step_until)
		return false;
	return member_has_handshakes(so) ||
	       now < so->kin->step_until - (MEMBER_HANDSHAKES_MAX - MEMBER_LATE);
}

/*
 * The others receive: who does not look here would keep things from them.  A handshake
 * that has begun here ends here first.
 */
static void step_back(struct inet_sock *so, struct channel *ch)
{
	struct kin *kin = so->kin;
	nsec_t now = clock_now();

	kin->receiver = ch;
	if (!kin->stepping) {
		member_stop(so);
		kin->step_until = now + MEMBER_HANDSHAKES_MAX;
	}
	if (has_handshakes(so, now)) {
		hand_on(so, ch); /* what is complete does not wait for the others */
		kin->stepping = true;
		if (!list_linked(&kin->member))
			add_member(kin);
		return;
	}
	log_debug("fd %d: other processes receive for it", sock_twin(&so->sk));
	kin->stepping = false;
	list_remove(&kin->member);
	sock_flows_del(so);
	hand_on(so, ch);
	if (family_is_kept(so)) {
		say_closed(so);
		family_drop(so);
		return;
	}
	kin->offered = false;
	member_leave(so);
}

void family_go_on(struct inet_sock *so, struct channel *ch)
{
	if (!so->kin || !so->kin->stepping || family_is_kept(so))
		return;
	/* What has begun here goes on here. */
	if (member_start(so)) {
		so->kin->stepping = false;
		return;
	}
	so->kin->step_until = 0;
	step_back(so, ch);
}

/* Nobody here accepts: who can joins, and says so; until then it goes on, or the kernel would. */
static void offer_to_all(struct inet_sock *so, nsec_t now)
{
	if (so->kin->offered && now - so->kin->offered_at < OFFER_AGAIN)
		return;
	so->kin->offered = true;
	so->kin->offered_at = now;
	list_for_each(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, so->id))
			channel_send(ch, LETTER_OFFER, so->id, 0, -1);
	}
}

static bool is_idle(struct inet_sock *so)
{
	return clock_now() - so->kin->arrived >= IDLE && member_is_idle(so);
}

void family_on_join(struct channel *ch, const struct letter *letter)
{
	struct inet_sock *so = family_find(letter->id);

	if (!so || !family_is_member(so) || !family_kin(so) || so->kin->parting)
		return;
	so->joins = true;
	if (family_is_kept(so)) {
		step_back(so, ch);
	} else if (sock_is_away(&so->sk)) {
		bool wanted = kin_is(so, KIN_ASKED) && !so->kin->passing;

		kin_set_state(so->kin, KIN_REST);
		so->kin->passing = false; /* who asked us is told next */
		if (wanted)
			family_join(so, clock_now());
	} else if (so->kin->offered || is_idle(so)) {
		step_back(so, ch);
	} else if (!(letter->flags & LETTER_TOO)) {
		channel_send(ch, LETTER_JOIN, so->id, LETTER_TOO, -1);
	}
}

/*
 * The process that has joined while this one is leaving the receivers; else any that holds the
 * socket.  Another holder may be leaving at the same time: both would hand on to each other.
 */
static struct channel *receiver_of(const struct inet_sock *so)
{
	if (!so->kin->stepping)
		return family_other_holder(so, NULL);
	list_for_each(link, &family.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch == so->kin->receiver && channel_holds(ch, so->id))
			return ch;
	}
	return family_other_holder(so, NULL);
}

/* Connections wait where nobody accepts. True: look again soon. */
bool family_look_at_members(void)
{
	bool again = false;
	nsec_t now = clock_now();

	list_for_each_safe(link, &family.members) {
		struct kin *kin = container_of(link, struct kin, member);
		struct inet_sock *so = kin->so;
		struct channel *receiver = receiver_of(so);

		if (receiver && kin->stepping) {
			step_back(so, receiver);
			again = true;
			continue;
		}
		if (!receiver || so->inet != INET_LISTEN || !member_is_idle(so) ||
		    !__atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED)) {
			kin->stale = 0;
			kin->offered = false;
			continue;
		}
		again = true;
		if (!kin->stale)
			kin->stale = now;
		else if (now - kin->stale >= IDLE)
			offer_to_all(so, now);
	}
	__atomic_store_n(&family.looking, !list_empty(&family.members), __ATOMIC_RELAXED);
	return again;
}

bool family_is_parcel(const struct channel *ch, uint64_t id)
{
	return find_parcel(ch, id) != NULL;
}

/* Not for ever, and not more than a channel may have. */
static bool may_send_on(const struct channel *to, uint64_t hops)
{
	return to && hops < PARCEL_HOPS_MAX && to->parcels < PARCELS_MAX;
}

/* Here, or on to others who hold the listener, but not to those it came from. */
static void accept_parcel(struct channel *from, uint64_t id, uint64_t hops, int memfd)
{
	struct inet_sock *so = family_find(id);
	struct channel *heir = so ? family_other_holder(so, from) : NULL;
	bool away = so && family_is_member(so) && sock_is_away(&so->sk);
	int rc = -ENOENT;

	if (away && may_send_on(heir, hops)) {
		send_parcel(heir, id, hops + 1, memfd);
		return;
	}
	if (away && !family.exiting && family_kin(so)) {
		family_join(so, 0);
		so = family_find(id);
		away = so && sock_is_away(&so->sk);
	}
	if (so && family_is_member(so) && !away)
		rc = member_take_pending(so, from ? from->serial : 0, memfd);
	if (!rc) {
		sys_close_fd(&memfd);
		return;
	}
	if (rc != -EINVAL && may_send_on(from, hops)) {
		send_parcel(from, id, hops + 1, memfd);
		return;
	}
	log_debug("a connection that nobody accepted is lost");
	sys_close_fd(&memfd);
}

void family_on_pending(struct channel *ch, const struct letter *letter, int *memfd)
{
	if (*memfd < 0)
		return;
	accept_parcel(ch, letter->id, letter->flags, *memfd);
	*memfd = -1;
	channel_send(ch, LETTER_RECEIVED, letter->id, 0, -1);
}

void family_on_received(struct channel *ch, uint64_t id)
{
	struct parcel *parcel = find_parcel(ch, id);

	if (parcel)
		parcel_over(parcel);
}

/* What was on its way to a process that is gone is looked after here. */
void family_parcels_back(struct channel *ch)
{
	struct parcel *parcel;

	while ((parcel = find_parcel(ch, 0))) {
		int memfd = parcel->memfd;
		uint64_t id = parcel->id;

		parcel->memfd = -1;
		parcel_over(parcel);
		accept_parcel(NULL, id, 0, memfd);
	}
}
