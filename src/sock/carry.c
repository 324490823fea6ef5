/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/carry.h"

#include <errno.h>
#include <fcntl.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/family_internal.h"
#include "sock/travel.h"

#define GIVE_BACK_MAX NSEC_PER_SEC

/* ---- the old image ----------------------------------------------------------------------- */

/* What the parent holds, too, is offered to him, once. Is something not there yet? */
static bool give_back(void)
{
	bool left = false;

	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (so->kin && so->kin->leaving) {
			left = true;
			continue;
		}
		if (sock_is_away(&so->sk) || !family_may_travel(so) ||
		    !channel_holds(family.up, so->id) || !family_kin(so))
			continue;
		left = true;
		if (!so->kin->offered)
			channel_send(family.up, LETTER_OFFER, so->id, 0, -1);
		so->kin->offered = true;
	}
	return left;
}

static void forget_offers(void)
{
	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (so->kin)
			so->kin->offered = false;
	}
}

/* The internal thread answers whom we made an offer. */
static void wait_a_little(void)
{
	struct timespec ts = {.tv_nsec = NSEC_PER_MSEC};

	control_unlock();
	sys_ppoll(NULL, 0, &ts, NULL);
}

bool carry_begin(struct carry_channel *ch)
{
	nsec_t deadline = 0;

	for (;;) {
		if (!control_lock())
			return false;
		if (!family.up || family.exiting || family.executing) {
			control_unlock();
			return false;
		}
		if (!deadline)
			deadline = clock_now() + GIVE_BACK_MAX;
		if (!give_back() || clock_now() >= deadline)
			break;
		wait_a_little();
	}
	forget_offers();
	ch->fd = family.up->fd;
	ch->last_id = family.up->last_id;
	family.executing = channel_flush(family.up) && ch->last_id < CARRY_ID_MAX &&
			   !sys_fcntl(ch->fd, F_SETFD, 0);
	control_unlock();
	return family.executing;
}

uint64_t carry_id(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	uint64_t id = 0;

	if (ref.sk->kind != SOCK_KIND_TCP || !control_lock())
		return 0;
	if (sock_ref_valid(ref) && so->inet == INET_TCP && sock_is_away(ref.sk) &&
	    family_toward(so) == family.up && so->id <= family.up->last_id) {
		sock_twin_prepare(so); /* there nobody knows how */
		id = so->id;
	}
	control_unlock();
	return id;
}

void carry_undo(void)
{
	if (!control_lock())
		return;
	family.executing = false;
	if (family.up)
		sys_fcntl(family.up->fd, F_SETFD, FD_CLOEXEC);
	family.readable = true;
	family_busy();
	control_unlock();
}

/* ---- the new one ------------------------------------------------------------------------- */

bool carry_open(const struct carry_channel *ch)
{
	bool ok;

	if (!control_lock())
		return false;
	family_init();
	family.up = channel_create(sys_fd_hide(ch->fd), ch->last_id);
	if (family.up)
		sock_skip_ids(ch->last_id);
	ok = family.up != NULL;
	control_unlock();
	return ok;
}

static struct inet_sock *create(int fd, uint64_t id)
{
	struct inet_sock *so = sock_alloc(SOCK_KIND_TCP);

	if (!so)
		return NULL;
	so->inet = INET_TCP;
	so->id = id;
	so->verdict = VERDICT_ACCELERATED;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	if (!sock_options_init(so, true)) {
		sock_free(so);
		return NULL;
	}
	travel_blank(so);
	(void)family_nonblock_now(so);
	sock_list_add(so);
	channel_send(family.up, LETTER_HELD, id, 0, -1);
	family.up->toward++;
	return so;
}

struct sock_ref carry_add(int fd, uint64_t id)
{
	struct sock_ref none = {NULL, 0};
	struct inet_sock *so;

	if (!control_lock())
		return none;
	so = NULL;
	if (id && id <= family.up->last_id) {
		so = family_find(id);
		so = so ? so : create(fd, id);
	}
	control_unlock();
	return so ? sock_ref_of(so) : none;
}

void carry_done(void)
{
	if (!control_lock())
		return;
	channel_send(family.up, LETTER_EXECED, 1, 0, -1);
	log_debug("executed, with %u connections of the parent", family.up->toward);
	family_listen_up();
	family_busy(); /* letters may still wait for room */
	control_unlock();
}
