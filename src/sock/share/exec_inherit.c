/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/exec_inherit.h"

#include <errno.h>
#include <string.h>
#include <fcntl.h>
#include <linux/tcp.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/move/kernel_handover.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"

#define GIVE_BACK_MAX NSEC_PER_SEC

/* ---- the old image ----------------------------------------------------------------------- */

/* What the parent holds, too, is offered to him, once. Is something not there yet? */
static bool give_back(void)
{
	bool left = false;

	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (kin_is(so, KIN_LEAVING)) {
			left = true;
			continue;
		}
		if (sock_is_away(&so->sk) || !(family_may_travel(so) || member_is(so)) ||
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

/* It stays here no longer: the kernel has it, or its end is said. */
static void put_away(struct inet_sock *so)
{
	static bool warned; /* control lock */
	bool connection = so->inet == INET_TCP && so->connected;
	int fd = sock_twin(&so->sk), rc;

	if (connection)
		family_say_left(so->id);
	rc = surrender(so, VERDICT_EXECUTED);
	if (!rc)
		return;
	if (!warned)
		log_box(LOG_WARNING,
			"Descriptor %d does not go through exec.\n"
			"The program that is executed would need the kernel to go on with the\n"
			"connection: %s (TCP_REPAIR needs CAP_NET_ADMIN). It is closed.",
			fd, strerror(-rc));
	warned = true;
	sock_close_locked(sock_ref_of(so));
}

static void put_some_away(bool connections)
{
	list_for_each_safe(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (!sock_is_away(&so->sk) && (so->inet == INET_TCP) == connections)
			put_away(so);
	}
}

/* Listeners first: what their flows cover gets flows of its own by that. */
void carry_leave(bool carried)
{
	if (!control_lock())
		return;
	put_some_away(false);
	put_some_away(true);
	control_unlock();
	if (!carried)
		sock_exit();
}

void carry_fetch(struct sock_ref ref)
{
	if (sock_is_away(ref.sk) && !family_is_member(inet_of(ref.sk)))
		(void)family_fetch(ref, FAMILY_PATIENCE);
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

static bool is_at_parents(const struct inet_sock *so)
{
	if (family_is_member(so))
		return channel_holds(family.up, so->id);
	return family_toward(so) == family.up && so->id <= family.up->last_id;
}

uint64_t carry_id(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	uint64_t id = 0;

	if (!control_lock())
		return 0;
	if (sock_ref_valid(ref) && sock_is_away(ref.sk) && is_at_parents(so)) {
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

/* ---- a child that executes at once ------------------------------------------------------- */

bool carry_any(void)
{
	bool any = false;

	if (control_lock()) {
		any = !family.exiting && family_has_sockets();
		control_unlock();
	}
	return any;
}

bool carry_lend(struct carry_channel *ch)
{
	struct channel *channel = NULL;

	if (!control_lock())
		return false;
	if (!family.exiting)
		channel = family_new_channel(&ch->fd);
	if (channel) {
		ch->last_id = channel->last_id;
		family_listen_to(channel);
	}
	control_unlock();
	return channel != NULL;
}

uint64_t carry_lent_id(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	uint64_t id = 0;

	if (!control_lock())
		return 0;
	if (sock_ref_valid(ref) && family_is_known_to_children(so)) {
		sock_twin_prepare(so);
		id = so->id;
	}
	control_unlock();
	return id;
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

/* What of a listener or datagram socket the twin knows. False: it is none that has members. */
static bool be_member(struct inet_sock *so, bool udp)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (sock_read_local(so) || !so->local.port)
		return false;
	so->bound = true;
	so->bound_addr = !addr_is_any(&so->local.addr);
	so->inet = udp ? INET_UDP : INET_LISTEN;
	if (!udp && !sys_getsockopt(sock_twin(&so->sk), IPPROTO_TCP, TCP_INFO, &info, &len))
		so->listen.backlog = info.tcpi_sacked; /* of a listener it is that */
	member_begin_away(so);
	return true;
}

static bool be_away(struct inet_sock *so, bool udp)
{
	socklen_t len = sizeof(int);
	int listens = 0;

	if (!sock_options_init(so, !udp))
		return false;
	sys_getsockopt(sock_twin(&so->sk), SOL_SOCKET, SO_ACCEPTCONN, &listens, &len);
	if (udp || listens)
		return be_member(so, udp);
	so->inet = INET_TCP;
	travel_blank(so);
	return true;
}

static struct inet_sock *create(int fd, bool udp, uint64_t id)
{
	struct inet_sock *so = sock_alloc(udp ? SOCK_KIND_UDP : SOCK_KIND_TCP);

	if (!so)
		return NULL;
	so->id = id;
	so->verdict = VERDICT_ACCELERATED;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	if (!be_away(so, udp)) {
		sock_free(so);
		return NULL;
	}
	(void)family_nonblock_now(so);
	sock_list_add(so);
	channel_send(family.up, LETTER_HELD, id, 0, -1);
	family.up->toward++;
	return so;
}

struct sock_ref carry_add(int fd, bool udp, uint64_t id)
{
	struct sock_ref none = {NULL, 0};
	struct inet_sock *so;

	if (!control_lock())
		return none;
	so = NULL;
	if (id && id <= family.up->last_id) {
		so = family_find(id);
		so = so ? so : create(fd, udp, id);
	}
	control_unlock();
	return so ? sock_ref_of(so) : none;
}

void carry_done(void)
{
	if (!control_lock())
		return;
	channel_send(family.up, LETTER_EXECED, 1, 0, -1);
	log_debug("executed, with %u sockets of the parent", family.up->toward);
	family_listen_to(family.up);
	family_busy(); /* letters may still wait for room */
	control_unlock();
}
