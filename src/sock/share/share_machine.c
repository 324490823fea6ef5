/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/share_machine.h"

#include <assert.h>
#include <errno.h>

#include "sock/share/share_machine_internal.h"

/* ---- the state ------------------------------------------------------------------------- */

void shared_set_state(struct shared *s, enum shared_state next)
{
#define TO(state) (1u << SHARED_##state)
	static const uint8_t edges[SHARED_STATES] = {
		[SHARED_KERNEL] = 0, /* shared_observe() */
		[SHARED_HERE] = TO(IN_TRANSIT) | TO(WITHDRAWING) | TO(EXPORTED) | TO(KERNEL),
		[SHARED_WITHDRAWING] = TO(HERE) | TO(EXPORTED) | TO(KERNEL),
		[SHARED_EXPORTED] = TO(REQUESTED) | TO(HERE) | TO(PARTING) | TO(KERNEL),
		[SHARED_REQUESTED] = TO(EXPORTED) | TO(HERE) | TO(PARTING) | TO(KERNEL),
		[SHARED_IN_TRANSIT] = TO(EXPORTED) | TO(HERE) | TO(KERNEL),
		[SHARED_PARTING] = TO(KERNEL),
	};
#undef TO

	if (s->state == next)
		return;
	if (!(edges[s->state] & 1u << next))
		__builtin_trap();
	s->state = next;
}

void shared_observe(struct shared *s, bool exported, bool known, bool closed)
{
	if (!exported && !known)
		s->state = SHARED_KERNEL;
	else if (!exported && s->state != SHARED_WITHDRAWING)
		s->state = SHARED_HERE;
	else if (exported && !shared_is_away(s))
		s->state = SHARED_EXPORTED;
	s->closed = closed;
}

void shared_set_toward(struct shared *s, struct channel *ch)
{
	if (s->toward)
		s->toward->toward--;
	s->toward = ch;
	if (ch)
		ch->toward++;
}

struct channel *shared_other_holder(struct share_sink *sink, uint64_t id, const struct channel *but)
{
	struct channel *any = NULL;

	list_for_each(link, sink->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch == but || !channel_holds(ch, id))
			continue;
		if (!idset_has(&ch->all_closed, id))
			return ch;
		any = any ? any : ch;
	}
	return any ? any : sink->ops->passed(sink, id);
}

enum message_place shared_place(const struct shared *s, const struct channel *ch)
{
	if (!s || s->state == SHARED_KERNEL)
		return PLACE_UNKNOWN;
	if (s->member)
		return PLACE_MEMBER;
	if (s->state == SHARED_HERE)
		return PLACE_HERE;
	if (s->toward != ch)
		return PLACE_ELSEWHERE;
	if (s->state == SHARED_IN_TRANSIT)
		return PLACE_IN_TRANSIT;
	return s->state == SHARED_REQUESTED ? PLACE_REQUESTED : PLACE_THERE;
}

void shared_send(struct share_sink *sink, const struct shared *s, struct channel *ch,
		 enum message_kind kind, uint64_t flags)
{
	assert(message_rules[kind].senders & shared_place(s, ch));
	sink->ops->send(sink, ch, kind, s->id, flags);
}

/* ---- endings --------------------------------------------------------------------------- */

void shared_drop(struct share_sink *sink, struct shared *s)
{
	shared_set_toward(s, NULL);
	sink->ops->drop(sink, s);
}

bool shared_settle(struct share_sink *sink, struct shared *s)
{
	struct channel *toward = shared_is_away(s) ? s->toward : NULL;

	if (s->closed && s->member && shared_is_away(s))
		return shared_settle_member(sink, s);
	if (!s->closed || s->state == SHARED_IN_TRANSIT || shared_other_holder(sink, s->id, toward))
		return false;
	if (toward)
		shared_send(sink, s, toward, MESSAGE_CLOSED, 0);
	shared_drop(sink, s);
	return true;
}

void shared_close(struct share_sink *sink, struct shared *s)
{
	s->closed = true;
	sink->ops->keep(sink, s);
	(void)shared_settle(sink, s);
}

/* This process knows it no more, so whoever expects it here would wait. */
static void tell_lost(struct share_sink *sink, uint64_t id)
{
	list_for_each(link, sink->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, id))
			sink->ops->send(sink, ch, MESSAGE_LOST, id, 0);
	}
}

void shared_lose(struct share_sink *sink, struct shared *s)
{
	if (s->member) {
		shared_lose_member(sink, s);
		return;
	}
	if (s->closed) {
		shared_set_toward(s, NULL);
		shared_set_state(s, SHARED_KERNEL);
		tell_lost(sink, s->id);
		shared_drop(sink, s);
		return;
	}
	shared_set_toward(s, NULL);
	shared_set_state(s, SHARED_HERE);
	sink->ops->reset(sink, s);
	sink->ops->arrived(sink, s);
}

void shared_tell_to_kernel(struct share_sink *sink, uint64_t id)
{
	list_for_each(link, sink->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (channel_holds(ch, id))
			sink->ops->send(sink, ch, MESSAGE_TO_KERNEL, id, 0);
	}
}

void shared_left(struct share_sink *sink, struct shared *s, bool tells)
{
	if (tells)
		shared_tell_to_kernel(sink, s->id);
	shared_set_toward(s, NULL);
	shared_set_state(s, SHARED_KERNEL);
}

/* ---- request --------------------------------------------------------------------------- */

static void request_now(struct share_sink *sink, struct shared *s)
{
	if (s->member && (s->joins || !s->toward)) {
		(void)shared_join(sink, s, sink->now);
		return;
	}
	if (!s->toward) {
		shared_lose(sink, s);
		return;
	}
	shared_set_state(s, SHARED_REQUESTED);
	/* The owner still serves the connection while the rings are opened. */
	if (!s->member)
		sink->ops->prepare(sink, s);
	shared_send(sink, s, s->toward, MESSAGE_REQUEST, 0);
}

void shared_request(struct share_sink *sink, struct shared *s)
{
	s->relays = false;
	if (!shared_is_away(s) || s->state == SHARED_REQUESTED || s->state == SHARED_PARTING)
		return;
	if (shared_may_request(sink, s))
		request_now(sink, s);
	else
		sink->ops->ask_later(sink, s);
}

/* ---- export ---------------------------------------------------------------------------- */

/* Exports the connection to ch. False: not now. */
static bool export_to(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	bool used = sink->ops->used(sink, s, false);

	if (sink->ops->export(sink, s, ch))
		return false;
	/* The pause doubles as long as the connection leaves without having been used here. */
	if (used || !s->pause)
		s->pause = SHARED_STAY_MIN;
	else if (s->pause < SHARED_PAUSE_MAX)
		s->pause *= 2;
	s->ask_at = sink->now + s->pause;
	s->from = 0;
	shared_set_toward(s, ch);
	shared_set_state(s, SHARED_IN_TRANSIT);
	shared_send(sink, s, ch, MESSAGE_EXPORT, 0);
	return true;
}

bool shared_serve(struct share_sink *sink, struct shared *s, struct channel *ch, uint64_t id)
{
	if (!channel_holds(ch, id))
		return true; /* closed there meanwhile */
	if (!s || s->state == SHARED_KERNEL) {
		sink->ops->send(sink, ch, MESSAGE_LOST, id, 0);
		return true;
	}
	if (s->member)
		return shared_admit(sink, s, ch);
	if (s->state == SHARED_HERE)
		return (sink->now - s->arrived >= SHARED_STAY_MIN || sink->exiting) &&
		       export_to(sink, s, ch);
	if (s->toward == ch) /* it arrived there after the request, if not before an answer */
		return s->state != SHARED_IN_TRANSIT;
	shared_request(sink, s);
	return false;
}

static void note_arrived(struct share_sink *sink, struct shared *s)
{
	shared_set_toward(s, NULL);
	shared_set_state(s, SHARED_HERE);
	s->failed = 0;
	s->arrived = sink->now;
	(void)sink->ops->used(sink, s, true);
	sink->ops->arrived(sink, s);
}

/* A holder is gone, to which it may have been offered: it is for another one now, or ends. */
static void left_by_holder(struct share_sink *sink, struct shared *s)
{
	if (shared_settle(sink, s))
		return;
	if (s->member)
		shared_offer_again(sink, s);
	else if (s->state == SHARED_HERE)
		s->offered = false;
}

/* It was exported and not imported: imports it again.  False: s is dropped. */
static bool take_back(struct share_sink *sink, struct shared *s)
{
	if (sink->ops->transit_over(sink, s, true)) {
		bool closed = s->closed;

		shared_lose(sink, s);
		return !closed;
	}
	note_arrived(sink, s);
	return !shared_settle(sink, s);
}

int shared_pack(struct share_sink *sink, struct shared *s)
{
	int rc = s->state == SHARED_HERE && !s->member ? sink->ops->export(sink, s, NULL) : -EINVAL;

	if (rc)
		return rc;
	s->from = 0;
	s->offered = false;
	shared_set_state(s, SHARED_IN_TRANSIT);
	return 0;
}

void shared_begin_packed(struct shared *s)
{
	assert(s->state == SHARED_EXPORTED && !s->toward);
	s->state = SHARED_IN_TRANSIT;
}

bool shared_is_packed(const struct shared *s)
{
	return s->state == SHARED_IN_TRANSIT && !s->toward;
}

void shared_unpack(struct share_sink *sink, struct shared *s)
{
	assert(shared_is_packed(s));
	(void)take_back(sink, s);
}

static bool offer(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	if (!s->offered)
		shared_send(sink, s, ch, MESSAGE_OFFER, 0);
	s->offered = true;
	return true;
}

bool shared_offer(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	if (s->state == SHARED_IN_TRANSIT)
		return true;
	if (shared_is_away(s) || s->state == SHARED_KERNEL || !channel_holds(ch, s->id))
		return false;
	return offer(sink, s, ch);
}

/* Whoever is offered the connection; if it was fetched for that, not where it came from. */
static struct channel *heir_of(struct share_sink *sink, const struct shared *s)
{
	list_for_each(link, sink->channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch->serial != s->from && channel_holds(ch, s->id))
			return ch;
	}
	return shared_other_holder(sink, s->id, NULL);
}

bool shared_exit(struct share_sink *sink, struct shared *s, bool requests)
{
	struct channel *toward = shared_is_away(s) ? s->toward : NULL;

	if (s->state == SHARED_IN_TRANSIT)
		return true;
	if (s->state == SHARED_KERNEL || !shared_other_holder(sink, s->id, toward))
		return false;
	if (s->member) /* was offered when it was closed */
		return !shared_is_away(s);
	if (!shared_is_away(s)) /* the heir may be a message of unix(7), which holds it, too */
		return offer(sink, s, heir_of(sink, s));
	if (s->offered || !requests)
		return false; /* whoever took it has it now */
	s->ask_at = 0;
	shared_request(sink, s);
	return true;
}

void shared_channel_ended(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	if (!shared_is_away(s) || s->toward != ch) {
		left_by_holder(sink, s);
	} else if (s->state == SHARED_IN_TRANSIT) {
		s->offered = false;
		(void)take_back(sink, s);
	} else {
		shared_lose(sink, s);
	}
}

void shared_unnamed(struct share_sink *sink, struct shared *s, struct channel *ch)
{
	if (s->state == SHARED_IN_TRANSIT)
		return; /* its import fails there, and it comes back */
	if (shared_is_away(s) && s->toward == ch)
		shared_lose(sink, s);
	else
		left_by_holder(sink, s);
}

/* ---- messages -------------------------------------------------------------------------- */

bool shared_is_legal(const struct shared *s, const struct channel *ch,
		     const struct message *message)
{
	const struct message_rule *rule = message_rules;
	uint64_t id = message->id;
	unsigned legal;

	if (message->kind >= MESSAGE_KINDS)
		return false;
	rule += message->kind;
	if (ch->expects_claim && !ch->claimed)
		return message->kind == MESSAGE_CLAIM;
	if (rule->of_channel)
		return message->kind == MESSAGE_REROUTE ||
		       (message->kind == MESSAGE_INVENTORY_END && !ch->only);
	/* What came with a MESSAGE_PENDING for another process went back: shared_for_another(). */
	if (ch->rerouted && message->kind == MESSAGE_RECEIVED)
		return true;
	if (ch->only ? id != ch->only : id > ch->last_id)
		return false;
	if (message->kind == MESSAGE_PENDING && message->flags > MESSAGE_HOPS_MAX &&
	    message->flags != MESSAGE_FLAG_BACK)
		return false;
	legal = idset_has(&ch->closed, id) ? rule->closed : rule->receivers;
	if (ch->done) /* we dropped the socket: what the other end sent before it knew */
		legal |= rule->receivers & PLACE_UNKNOWN;
	return legal & shared_place(s, ch);
}

bool shared_for_another(struct share_sink *sink, struct channel *ch, const struct message *message)
{
	if (ch->rerouted && message->kind == MESSAGE_REQUEST)
		sink->ops->send(sink, ch, MESSAGE_LOST, message->id, 0);
	if (ch->rerouted && message->kind == MESSAGE_EXPORT)
		sink->ops->send(sink, ch, MESSAGE_NACK, message->id, 0);
	if (ch->rerouted && message->kind == MESSAGE_PENDING)
		(void)shared_forward(sink, message->id, ch, message->flags);
	return ch->rerouted;
}

static bool is_requested_from(const struct shared *s, const struct channel *ch)
{
	return s && s->state == SHARED_REQUESTED && s->toward == ch;
}

/* The connection cannot be imported, and the kernel cannot take it: calls that wait fail. */
static void fail_waiting(struct share_sink *sink, struct shared *s, int rc)
{
	shared_set_state(s, SHARED_EXPORTED);
	s->failed = -rc;
	sink->ops->arrived(sink, s);
}

/*
 * An export could not be imported. Bytes that no owner wrote (-EINVAL) cannot be handed over
 * to the kernel either.
 */
static void refuse(struct share_sink *sink, struct shared *s, struct channel *ch, uint64_t id,
		   int rc)
{
	bool fails = is_requested_from(s, ch) && rc == -EINVAL;
	bool unable = is_requested_from(s, ch) && rc != -EINVAL;

	sink->ops->send(sink, ch, MESSAGE_NACK, id, unable ? MESSAGE_FLAG_UNABLE : 0);
	if (fails)
		fail_waiting(sink, s, rc);
}

static void on_export(struct share_sink *sink, struct shared *s, struct channel *ch,
		      const struct message *message)
{
	int rc = -ENOENT;

	if (s && shared_is_away(s) && s->toward == ch)
		rc = sink->ops->import(sink, s);
	if (rc) {
		refuse(sink, s, ch, message->id, rc);
		return;
	}
	note_arrived(sink, s);
	s->from = ch->serial;
	shared_send(sink, s, ch, MESSAGE_ACK, 0);
	(void)shared_settle(sink, s);
}

static void on_ack(struct share_sink *sink, struct shared *s)
{
	(void)sink->ops->transit_over(sink, s, false);
	shared_set_state(s, SHARED_EXPORTED);
	(void)shared_settle(sink, s);
}

/* Whoever could not import it waits for TO_KERNEL or STAYS. */
static void on_nack(struct share_sink *sink, struct shared *s, struct channel *ch,
		    const struct message *message)
{
	uint64_t id = s->id;
	bool closed = s->closed, here;

	if (!channel_holds(ch, id))
		s->offered = false; /* to be offered to another holder */
	here = take_back(sink, s);
	if (!here || !(message->flags & MESSAGE_FLAG_UNABLE))
		return; /* not here: nobody else holds it, or all were told that it is lost */
	if (sink->ops->hand_over(sink, s)) {
		sink->ops->send(sink, ch, MESSAGE_STAYS, id, 0);
	} else if (closed) {
		shared_left(sink, s, true);
		shared_drop(sink, s);
	}
}

static void on_closed(struct share_sink *sink, struct shared *s, struct channel *ch, uint64_t id)
{
	idset_add(&ch->closed, id);
	if (!s)
		return;
	if (s->state == SHARED_PARTING && s->toward == ch)
		shared_lose(sink, s);
	else
		left_by_holder(sink, s);
}

static void on_lost(struct share_sink *sink, struct shared *s, struct channel *ch, uint64_t id)
{
	idset_add(&ch->closed, id);
	if (!s || s->state == SHARED_IN_TRANSIT)
		return; /* in transit to ch it is still ours */
	if (shared_is_away(s) && s->toward == ch)
		shared_lose(sink, s);
	else
		(void)shared_settle(sink, s);
}

static void on_offer(struct share_sink *sink, struct shared *s, struct channel *ch,
		     const struct message *message)
{
	if (!s) {
		sink->ops->send(sink, ch, MESSAGE_CLOSED, message->id, 0);
	} else if (s->member) {
		shared_on_member_offer(sink, s, ch, message);
	} else if (shared_is_away(s) && s->toward == ch) {
		s->ask_at = 0;
		shared_request(sink, s);
	}
}

static void on_to_kernel(struct share_sink *sink, struct shared *s, struct channel *ch, uint64_t id)
{
	if (!s) {
		sink->ops->send(sink, ch, MESSAGE_CLOSED, id, 0); /* the sender may wait for it */
		return;
	}
	if (s->state == SHARED_KERNEL || (s->member && shared_on_member_to_kernel(sink, s, ch)) ||
	    (!s->member && (!shared_is_away(s) || s->toward != ch)))
		return;
	if (s->closed) {
		shared_left(sink, s, true);
		shared_drop(sink, s);
	} else {
		sink->ops->leave(sink, s);
	}
}

void shared_receive(struct share_sink *sink, struct shared *s, struct channel *ch,
		    const struct message *message)
{
	switch (message->kind) {
	case MESSAGE_EXPORT:
		on_export(sink, s, ch, message);
		break;
	case MESSAGE_ACK:
		on_ack(sink, s);
		break;
	case MESSAGE_NACK:
		on_nack(sink, s, ch, message);
		break;
	case MESSAGE_CLOSED:
		on_closed(sink, s, ch, message->id);
		break;
	case MESSAGE_OFFER:
		on_offer(sink, s, ch, message);
		break;
	case MESSAGE_LOST:
		on_lost(sink, s, ch, message->id);
		break;
	case MESSAGE_TO_KERNEL:
		on_to_kernel(sink, s, ch, message->id);
		break;
	case MESSAGE_STAYS:
		if (is_requested_from(s, ch))
			fail_waiting(sink, s, -ENETUNREACH);
		break;
	case MESSAGE_JOIN:
		if (s && s->member)
			shared_on_join(sink, s, ch, message);
		break;
	default:
		break;
	}
}
