/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes receive for a listener or datagram socket that several hold. A process
 * that uses one joins its receivers; a member whose process does not look at it withdraws,
 * and sends what waits there to another process.
 */
#include "sock/share/share_machine_internal.h"

#include <errno.h>

#define IDLE (20 * NSEC_PER_MSEC) /* after this time without a look it is idle */
#define OFFER_AGAIN (5 * IDLE)	  /* interval of offers */

/* To all but one; NULL: to all. */
static void send_to_holders(struct share_sink *sink, const struct shared *s,
			    const struct channel *but, enum message_kind kind, uint64_t flags)
{
	list_for_each(link, sink->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch != but && channel_holds(ch, s->id))
			shared_send(sink, s, ch, kind, flags);
	}
}

/*
 * Do processes behind two channels hold it?  Their messages go through this process, so it keeps
 * a member that it closed, and passes on what the others have to know.
 */
static bool is_between(struct share_sink *sink, const struct shared *s)
{
	const struct channel *one = shared_other_holder(sink, s->id, NULL);

	return one && shared_other_holder(sink, s->id, one);
}

/*
 * s is closed: offers its place, or the one that but offers, to a side where it may be open, if
 * possible not to but.  If there is only one, nobody else can have it open, and it has to know
 * that: when all have closed it, nobody would join.  True: that is so, and s is dropped.
 */
static bool offer_closed(struct share_sink *sink, struct shared *s, const struct channel *but)
{
	struct channel *to = NULL;
	unsigned n = 0;

	list_for_each(link, sink->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (!channel_holds(ch, s->id) || idset_has(&ch->all_closed, s->id))
			continue;
		n++;
		if (!to || to == but)
			to = ch;
	}
	if (n && (but || !shared_is_away(s)))
		shared_send(sink, s, to, MESSAGE_OFFER, n == 1 ? MESSAGE_FLAG_LAST : 0);
	if (n || sink->ops->passed(sink, s->id))
		return false;
	send_to_holders(sink, s, NULL, MESSAGE_CLOSED, 0);
	shared_drop(sink, s);
	return true;
}

/* Tells each channel from which no holder is left on this side. */
static void tell_closed(struct share_sink *sink, const struct shared *s)
{
	list_for_each(link, sink->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, s->id) && !shared_other_holder(sink, s->id, ch))
			shared_send(sink, s, ch, MESSAGE_CLOSED, 0);
	}
}

/* ---- join ------------------------------------------------------------------------------ */

/*
 * An exported member falls back to the kernel, but only after its owner has: until then the
 * owner answers new connections, and nobody would accept them.
 */
static void to_kernel(struct share_sink *sink, struct shared *s)
{
	if (!s->toward) {
		sink->ops->leave(sink, s);
		return;
	}
	shared_set_state(s, SHARED_PARTING);
	if (!s->closed)
		sink->ops->part(sink, s);
	shared_send(sink, s, s->toward, MESSAGE_TO_KERNEL, 0);
	sink->ops->arrived(sink, s);
}

bool shared_join(struct share_sink *sink, struct shared *s, nsec_t used)
{
	int rc;

	if (s->state == SHARED_PARTING)
		return false; /* its owner was told that it falls back to the kernel */
	shared_set_state(s, SHARED_EXPORTED);
	s->arrived = used;
	s->joins = true;
	s->yields_to = 0;
	rc = sink->ops->join(sink, s);
	if (rc == SHARE_UNABLE) {
		to_kernel(sink, s);
		return false;
	}
	if (!rc) {
		shared_set_state(s, SHARED_HERE);
		shared_set_toward(s, NULL); /* that channel may end while it receives here */
		sink->ops->look(sink, s, true);
		send_to_holders(sink, s, NULL, MESSAGE_JOIN, 0);
	}
	sink->ops->arrived(sink, s);
	return !rc;
}

bool shared_admit(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	if (s->state == SHARED_PARTING)
		return false;
	if (shared_is_away(s) && !s->joins && s->toward) {
		if (s->state == SHARED_REQUESTED)
			return false;
		/* The process that receives has to know first. */
		shared_set_state(s, SHARED_REQUESTED);
		s->relays = true;
		shared_send(sink, s, s->toward, MESSAGE_REQUEST, 0);
		return false;
	}
	if (!shared_is_away(s)) {
		int rc = sink->ops->spread(sink, s);

		sink->ops->look(sink, s, true);
		s->joins = true;
		if (rc == -EAGAIN)
			return false;
	}
	s->joins = true;
	/*
	 * Not JOIN if it is closed: ch may have joined meanwhile, by an earlier offer, and would
	 * then withdraw in favour of this process, which only waits for it.
	 */
	shared_send(sink, s, ch, s->closed && !shared_is_away(s) ? MESSAGE_OFFER : MESSAGE_JOIN, 0);
	return true;
}

/* ---- withdraw -------------------------------------------------------------------------- */

/* Can a handshake end here, or even begin, with a SYN steered here before others received? */
static bool has_handshakes(struct share_sink *sink, struct shared *s)
{
	if (!s->listens || s->withdrawing >= SHARED_HANDSHAKES_MAX)
		return false;
	return sink->ops->has_handshakes(sink, s) || s->withdrawing < SHARED_LATE;
}

static void count_time(struct share_sink *sink, struct shared *s)
{
	nsec_t passed = sink->now - s->looked_at;

	s->withdrawing += passed < SHARED_LOOK_MAX ? passed : SHARED_LOOK_MAX;
	s->looked_at = sink->now;
}

/*
 * Others receive, and connections spread to this member would wait unaccepted: stops
 * receiving, and sends ch what waits. Handshakes that began here end here first.
 */
static void withdraw(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	bool stays;

	s->receiver = ch->serial;
	if (s->state != SHARED_WITHDRAWING) {
		sink->ops->stop(sink, s);
		s->withdrawing = 0;
		s->looked_at = sink->now;
	}
	count_time(sink, s);
	if (has_handshakes(sink, s)) {
		/* Complete connections do not wait for the handshakes. */
		sink->ops->send_waiting(sink, s, ch);
		shared_set_state(s, SHARED_WITHDRAWING);
		sink->ops->look(sink, s, true);
		return;
	}
	sink->ops->look(sink, s, false);
	stays = !s->closed || (s->state != SHARED_KERNEL && is_between(sink, s));
	sink->ops->withdraw(sink, s, ch, stays);
	if (!stays) {
		tell_closed(sink, s);
		shared_drop(sink, s);
		return;
	}
	s->offered = false;
	s->yields_to = 0;
	shared_set_state(s, SHARED_EXPORTED);
}

/* Another process offers its place: if s is withdrawing, it stays. */
static void stay(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	if (s->state != SHARED_WITHDRAWING || s->closed)
		return;
	/* Handshakes that began here go on here. */
	if (sink->ops->start(sink, s)) {
		shared_set_state(s, SHARED_HERE);
		return;
	}
	s->withdrawing = SHARED_HANDSHAKES_MAX;
	withdraw(sink, s, ch);
}

bool shared_settle_member(struct share_sink *sink, struct shared *s)
{
	if (is_between(sink, s))
		return false;
	tell_closed(sink, s);
	shared_drop(sink, s);
	return true;
}

bool shared_close_member(struct share_sink *sink, struct shared *s)
{
	struct channel *holder = shared_other_holder(sink, s->id, NULL);

	if (!holder)
		return false;
	if (shared_is_away(s) && is_between(sink, s)) {
		s->closed = true;
		sink->ops->keep(sink, s);
		return true;
	}
	if (shared_is_away(s) || sink->ops->spread(sink, s)) {
		tell_closed(sink, s);
		return false;
	}
	s->joins = true;
	s->offered = true;
	s->closed = true;
	sink->ops->keep(sink, s);
	(void)offer_closed(sink, s, NULL);
	return true;
}

void shared_offer_again(struct share_sink *sink, struct shared *s)
{
	if (s->closed)
		(void)offer_closed(sink, s, NULL);
}

/*
 * No thread here accepts: offers the place to all holders. The socket goes on receiving
 * until one of them joins; in between the kernel would receive.
 */
static void offer_to_all(struct share_sink *sink, struct shared *s)
{
	if (s->offered && sink->now - s->offered_at < OFFER_AGAIN)
		return;
	s->offered = true;
	s->offered_at = sink->now;
	send_to_holders(sink, s, NULL, MESSAGE_OFFER, 0);
}

/*
 * The process that joined while this one withdraws; else any holder. Another holder may be
 * withdrawing at the same time, and the two would send connections to each other.
 */
static struct channel *receiver_of(struct share_sink *sink, const struct shared *s)
{
	if (s->state != SHARED_WITHDRAWING)
		return shared_other_holder(sink, s->id, NULL);
	list_for_each(link, sink->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch->serial == s->receiver && channel_holds(ch, s->id))
			return ch;
	}
	return shared_other_holder(sink, s->id, NULL);
}

bool shared_look(struct share_sink *sink, struct shared *s)
{
	struct channel *receiver = receiver_of(sink, s);

	if (receiver && s->state == SHARED_WITHDRAWING) {
		withdraw(sink, s, receiver);
		return true;
	}
	if (!receiver || !s->listens || !sink->ops->is_idle(sink, s) ||
	    !sink->ops->has_waiting(sink, s)) {
		s->stale = 0;
		s->offered = false;
		return false;
	}
	if (!s->stale)
		s->stale = sink->now;
	else if (sink->now - s->stale >= IDLE)
		offer_to_all(sink, s);
	return true;
}

/* ---- messages -------------------------------------------------------------------------- */

static bool is_idle(struct share_sink *sink, struct shared *s)
{
	return sink->now - s->arrived >= IDLE && sink->ops->is_idle(sink, s);
}

void shared_on_join(struct share_sink *sink, struct shared *s, struct channel *ch,
		    const struct message *message)
{
	bool answers = message->flags & MESSAGE_FLAG_ANSWER;

	if ((s->state == SHARED_KERNEL && !s->closed) || s->state == SHARED_PARTING)
		return;
	s->joins = true;
	if (s->closed)
		send_to_holders(sink, s, ch, MESSAGE_JOIN, message->flags);
	if (s->closed && shared_is_away(s)) {
		shared_set_state(s, SHARED_EXPORTED);
	} else if (s->closed) {
		withdraw(sink, s, ch);
	} else if (shared_is_away(s)) {
		bool wanted = s->state == SHARED_REQUESTED && !s->relays;

		shared_set_state(s, SHARED_EXPORTED);
		s->relays = false; /* the process that requested it is told next */
		if (wanted)
			(void)shared_join(sink, s, sink->now);
	} else if (s->offered || (answers && s->yields_to == ch->serial && is_idle(sink, s))) {
		withdraw(sink, s, ch);
	} else if (!answers && is_idle(sink, s)) {
		/* The other one may be idle, too, and nobody would receive: it says first that it stays. */
		s->yields_to = ch->serial;
		shared_send(sink, s, ch, MESSAGE_OFFER, 0);
	} else if (!answers) {
		shared_send(sink, s, ch, MESSAGE_JOIN, MESSAGE_FLAG_ANSWER);
	}
}

void shared_on_member_offer(struct share_sink *sink, struct shared *s, struct channel *ch,
			    const struct message *message)
{
	if (message->flags & MESSAGE_FLAG_LAST)
		idset_add(&ch->all_closed, s->id);
	if (s->closed) {
		(void)offer_closed(sink, s, ch);
		return;
	}
	s->joins = true;
	s->offered = false; /* if both offer, both stay */
	s->yields_to = 0;
	stay(sink, s, ch);
	if (shared_is_away(s))
		(void)shared_join(sink, s, s->state == SHARED_REQUESTED ? sink->now : 0);
	else
		shared_send(sink, s, ch, MESSAGE_JOIN, MESSAGE_FLAG_ANSWER);
}

void shared_lose_member(struct share_sink *sink, struct shared *s)
{
	bool parts = s->state == SHARED_PARTING;

	shared_set_toward(s, NULL);
	if (s->closed && parts) {
		shared_left(sink, s, true);
		shared_drop(sink, s);
	} else if (s->closed) {
		s->joins = true; /* nobody receives: who asks here may join */
		shared_set_state(s, SHARED_EXPORTED);
		(void)shared_settle(sink, s);
	} else if (parts) {
		sink->ops->leave(sink, s);
	} else if (s->state == SHARED_REQUESTED) {
		(void)shared_join(sink, s, sink->now);
	} /* else it joins by itself when it is used */
}

bool shared_on_member_to_kernel(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	if (!shared_is_away(s) || !s->toward || s->toward == ch)
		return false;
	if (s->state != SHARED_PARTING)
		to_kernel(sink, s);
	return true;
}

bool shared_forward(struct share_sink *sink, uint64_t id, struct channel *to, uint64_t hops)
{
	if (!to || hops >= MESSAGE_HOPS_MAX || to->pending >= SHARED_PENDING_MAX)
		return false;
	sink->ops->forward(sink, id, to, hops + 1);
	return true;
}

/*
 * Not to a member that would join again for it, and offer its place again: no other process could
 * accept the connection in the end.
 */
static bool send_back(struct share_sink *sink, uint64_t id, struct channel *to)
{
	if (!to || to->pending >= SHARED_PENDING_MAX)
		return false;
	sink->ops->forward(sink, id, to, MESSAGE_FLAG_BACK);
	return true;
}

bool shared_pending(struct share_sink *sink, struct shared *s, uint64_t id, struct channel *ch,
		    uint64_t hops)
{
	struct channel *holder = s ? shared_other_holder(sink, id, ch) : NULL;
	bool here = s && s->member && !shared_is_away(s);
	int rc = -ENOENT;

	if (s && s->member && !here) {
		if (shared_forward(sink, id, holder, hops))
			return true;
		here = !s->closed && !sink->exiting && shared_join(sink, s, 0);
	}
	if (here)
		rc = sink->ops->take_pending(sink, s, ch);
	if (rc == SHARE_UNABLE)
		return send_back(sink, id, ch);
	return !rc || (rc != -EINVAL && shared_forward(sink, id, ch, hops));
}
