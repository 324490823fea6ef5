/* SPDX-License-Identifier: BSD-2-Clause */
/* The letters that processes which have sockets in common send each other: what each does. */
#include "base/sys.h"
#include "sock/move/kernel_handover.h"
#include "sock/share/share_internal.h"

static void on_closed(struct channel *ch, uint64_t id)
{
	struct inet_sock *so;

	idset_add(&ch->closed, id);
	so = family_find(id);
	if (so && so->kin && so->kin->parting && so->kin->toward == ch)
		family_lose(so);
	else if (so)
		family_settle(so);
}

static void on_offer(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = family_find(id);

	if (!so) {
		channel_send(ch, LETTER_CLOSED, id, 0, -1);
	} else if (family_is_member(so) && family_is_kept(so) && !family_other_holder(so, ch)) {
		return; /* it was offered there as well, and waits for that */
	} else if (family_is_member(so) && family_kin(so)) {
		so->joins = true;
		family_go_on(so, ch);
		if (sock_is_away(&so->sk))
			family_join(so, kin_is(so, KIN_ASKED) ? clock_now() : 0);
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

	/* What we have given and it has not taken is still ours, though it closed it meanwhile. */
	if (so && sock_is_away(&so->sk) && family_toward(so) == ch && !kin_is(so, KIN_LEAVING))
		family_lose(so);
}

/*
 * Its twin, which is the same file as ours, has the connection; or the kernel receives for
 * it at the other end, and so here.
 */
static void on_left(struct channel *ch, uint64_t id)
{
	struct inet_sock *so = family_find(id);

	if (!so) {
		channel_send(ch, LETTER_CLOSED, id, 0, -1); /* he may wait for us */
		return;
	}
	if (family_is_member(so) && sock_is_away(&so->sk) && family_toward(so) &&
	    family_toward(so) != ch && !family_is_kept(so)) {
		family_part(so, VERDICT_SHARED);
		return;
	}
	if (!family_is_member(so)) {
		if (!sock_is_away(&so->sk) || family_toward(so) != ch)
			return;
		sock_set_events(so, 0);
	}
	if (family_is_kept(so)) {
		family_drop(so);
		family_say_left(id);
		return;
	}
	if (so->kin && so->kin->parting) {
		family_lose(so);
		return;
	}
	(void)(sock_is_away(&so->sk) ? sock_leave : surrender)(so, VERDICT_SHARED);
	family_turn();
}

static bool is_channel(int fd)
{
	int domain = 0, type = 0;
	socklen_t len = sizeof(int);

	return !sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
	       !sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET;
}

/* Whom we had in the middle has gone, and the next one is at the end of his channel. */
static bool on_adopt(struct channel *ch, int *fd)
{
	if (*fd < 0)
		return true; /* there was no room for it here: this one ends by itself */
	if (!is_channel(*fd))
		return false;
	family_unwatch(ch);
	sys_close_fd(&ch->fd);
	ch->fd = *fd;
	*fd = -1;
	ch->adopted = true;
	return family_watch(ch->fd);
}

/* Its other end was executed and holds what it named, nothing else. */
static void close_unnamed(struct channel *ch, const struct list *list)
{
	list_for_each_safe(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (!channel_holds(ch, so->id) || idset_has(&ch->held, so->id))
			continue;
		idset_add(&ch->closed, so->id);
		if (kin_is(so, KIN_LEAVING))
			continue; /* it is refused there, and comes back */
		if (sock_is_away(&so->sk) && family_toward(so) == ch)
			family_lose(so);
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

/* ---- which letters are legal --------------------------------------------------------------- */

/* Where a socket is, as seen from a channel. */
enum {
	NOWHERE = 1 << 0, /* not known here (any more), or the kernel's */
	HERE = 1 << 1,	  /* a connection, as the following ones */
	AWAY = 1 << 2,	  /* its owner is at another channel */
	THERE = 1 << 3,	  /* its owner is at this one */
	ASKED = 1 << 4,	  /* ... and was asked for it */
	GIVEN = 1 << 5,	  /* it was given there, and has not arrived */
	MEMBER = 1 << 6,  /* a listener or datagram socket */
	ANYWHERE = (1 << 7) - 1,
};

static unsigned place_of(const struct channel *ch, const struct inet_sock *so)
{
	if (!so || !family_is_known_to_children(so))
		return NOWHERE;
	if (family_is_member(so))
		return MEMBER;
	if (!sock_is_away(&so->sk))
		return HERE;
	if (family_toward(so) != ch)
		return AWAY;
	if (kin_is(so, KIN_LEAVING))
		return GIVEN;
	return kin_is(so, KIN_ASKED) ? ASKED : THERE;
}

/*
 * About a socket that the other end holds.  What we closed meanwhile is NOWHERE; a program
 * that was executed may hear answers to what its predecessor asked.
 */
static const uint8_t legal[] = {
	[LETTER_WANT] = ANYWHERE,
	[LETTER_GIVE] = NOWHERE | THERE | ASKED,
	[LETTER_CLOSED] = NOWHERE | HERE | AWAY | GIVEN | MEMBER,
	[LETTER_OFFER] = NOWHERE | THERE | ASKED | MEMBER,
	[LETTER_LOST] = NOWHERE | HERE | AWAY | THERE | ASKED | MEMBER,
	[LETTER_JOIN] = NOWHERE | MEMBER,
	[LETTER_PENDING] = NOWHERE | MEMBER,
	[LETTER_HELD] = ANYWHERE,
	[LETTER_LEFT] = NOWHERE | THERE | ASKED | MEMBER,
	[LETTER_STAYS] = NOWHERE | THERE | ASKED,
	[LETTER_LATE] = ANYWHERE,
};

/* About one that it has closed: what crossed a letter of ours. */
static bool is_legal_when_closed(enum letter_kind kind)
{
	return kind == LETTER_CLOSED || kind == LETTER_LOST || kind == LETTER_PENDING ||
	       kind == LETTER_LATE; /* after a GIVE with LETTER_LAST */
}

static bool is_legal(const struct channel *ch, const struct letter *letter)
{
	uint64_t id = letter->id;

	if (ch->called && !ch->claimed)
		return letter->kind == LETTER_CLAIM;
	switch (letter->kind) {
	case LETTER_CLAIM:
		return false;
	case LETTER_ADOPT:
		return true;
	case LETTER_EXECED:
		return !ch->only;
	case LETTER_TAKEN:
	case LETTER_REFUSED:
		return family_is_given(ch, id);
	case LETTER_RECEIVED:
		return family_is_parcel(ch, id);
	case LETTER_PENDING:
		if (letter->flags > PARCEL_HOPS_MAX)
			return false;
		break;
	default:
		break;
	}
	if (letter->kind >= sizeof(legal) || (ch->only ? id != ch->only : id > ch->last_id))
		return false;
	if (idset_has(&ch->closed, id))
		return is_legal_when_closed(letter->kind);
	return legal[letter->kind] & place_of(ch, family_find(id));
}

/* ---- acting ---------------------------------------------------------------------------------- */

/* True: it goes on, as letters for somebody else may come; who asks is told. */
static bool is_for_another(struct channel *ch, const struct letter *letter)
{
	if (ch->adopted && letter->kind == LETTER_WANT)
		channel_send(ch, LETTER_LOST, letter->id, 0, -1);
	return ch->adopted;
}

bool family_act(struct channel *ch, const struct letter *letter, int memfd)
{
	bool ok = true;

	if (!is_legal(ch, letter)) {
		sys_close_fd(&memfd);
		return is_for_another(ch, letter);
	}
	switch (letter->kind) {
	case LETTER_WANT:
		channel_note_want(ch, letter->id);
		break;
	case LETTER_GIVE:
		family_on_give(ch, letter, memfd);
		break;
	case LETTER_TAKEN:
		family_on_taken(ch, letter->id);
		break;
	case LETTER_REFUSED:
		family_on_refused(ch, letter, &memfd);
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
		ok = on_adopt(ch, &memfd);
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
	case LETTER_STAYS:
		family_on_stays(ch, letter->id);
		break;
	case LETTER_LATE:
		family_on_late(ch, letter, memfd);
		break;
	}
	sys_close_fd(&memfd);
	return ok;
}
