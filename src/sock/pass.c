/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/pass.h"

#include <errno.h>
#include <linux/filter.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/family_internal.h"
#include "sock/travel.h"

#define MARK 0x766d6170u
#define CALL_MAX (2 * NSEC_PER_SEC) /* for something that is on its way just now */

/* A filter that does nothing: a twin receives no segment. */
static const struct sock_filter mark[] = {
	BPF_STMT(BPF_LD | BPF_IMM, MARK),
	BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
};
#define MARK_LEN (sizeof(mark) / sizeof(mark[0]))

static bool is_marked(int fd)
{
	struct sock_filter found[MARK_LEN];
	socklen_t len = MARK_LEN;

	return !sys_getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, found, &len) && len == MARK_LEN &&
	       !memcmp(found, mark, sizeof(mark));
}

static bool set_mark(int fd)
{
	struct sock_fprog prog = {.len = MARK_LEN, .filter = (struct sock_filter *)(uintptr_t)mark};

	return !sys_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* ---- sending ------------------------------------------------------------------------------ */

/* Nothing is lost by it, and nobody goes on receiving in the kernel's place. */
static bool may_leave(struct inet_sock *so, struct ring *ring)
{
	ring_poll(ring);
	if (so->inet == INET_LISTEN)
		return !__atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED);
	return so->inet != INET_UDP || !so->connected || !so->udp.head;
}

static int leave(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	bool may;
	int rc;

	if (family_other_holder(so, NULL))
		return -EBUSY;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	may = may_leave(so, ring);
	ring_release_cold(ring);
	return may ? sock_leave(so, VERDICT_PASSED) : -EBUSY;
}

static bool is_connection(const struct inet_sock *so)
{
	return so->inet == INET_TCP && (sock_is_away(&so->sk) || family_may_travel(so));
}

static int send_connection(struct inet_sock *so, int way, uint64_t ticket)
{
	int rc;

	family_init();
	if (!family_kin(so))
		return -ENOMEM;
	sock_twin_prepare(so); /* there nobody knows how */
	if (!set_mark(sock_twin(&so->sk)))
		return -EBUSY;
	so->kin->cookie = family_cookie(sock_twin(&so->sk));
	rc = pass_send(so, way, ticket);
	return rc ? rc : 1;
}

int sock_pass(struct sock_ref ref, int way, uint64_t ticket)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool travels = is_connection(so); /* a guess, it is not held */
	int rc = 0;

	if (travels && !pass_peer_is_ours(way))
		return -EREMOTE;
	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref) && !is_connection(so))
		rc = leave(ref);
	else if (sock_ref_valid(ref))
		rc = travels ? send_connection(so, way, ticket) : -EAGAIN;
	control_unlock();
	return rc;
}

/* ---- receiving ---------------------------------------------------------------------------- */

static uint16_t port_of(int fd)
{
	struct sockaddr_in addr = {0};
	socklen_t len = sizeof(addr);

	return sys_getsockname(fd, (struct sockaddr *)&addr, &len) ? 0 : addr.sin_port;
}

/* Is it the one?  What has not been sent or kept here before has to be looked at. */
static bool is_same(const struct inet_sock *so, uint64_t cookie, uint16_t port)
{
	if (so->inet != INET_TCP)
		return false;
	if (so->kin && so->kin->cookie)
		return so->kin->cookie == cookie;
	return so->id <= family_last_id && so->local.port == port &&
	       family_cookie(sock_twin(&so->sk)) == cookie;
}

static struct inet_sock *find_in(const struct list *list, uint64_t cookie, uint16_t port)
{
	list_for_each(link, list) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (is_same(so, cookie, port))
			return so;
	}
	return NULL;
}

/* The sender may have died, or have given up. */
static struct channel *call_sender(uint64_t cookie, uint64_t id, uint64_t flags)
{
	int fd = pass_call(cookie);
	struct channel *ch = fd < 0 ? NULL : channel_create_only(fd, id);

	if (ch)
		channel_send(ch, LETTER_CLAIM, id, flags, -1);
	return ch;
}

/* We have had it before. */
static void tell_sender(uint64_t cookie, uint64_t id, bool peek)
{
	struct channel *ch;

	if (peek)
		return;
	if (pass_holder(id)) {
		pass_received(id);
		return;
	}
	ch = call_sender(cookie, id, LETTER_HAVE);
	if (ch)
		channel_destroy(ch);
}

static struct inet_sock *make(int fd)
{
	struct inet_sock *so = sock_alloc(SOCK_KIND_TCP);

	if (!so)
		return NULL;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	if (!sock_options_init(so, true)) {
		sock_free(so);
		return NULL;
	}
	so->verdict = VERDICT_ACCELERATED;
	so->inet = INET_TCP;
	travel_blank(so);
	return so;
}

/* NULL: no memory. */
static struct inet_sock *begin(int fd, uint64_t cookie, bool peek)
{
	struct inet_sock *so = make(fd);
	struct channel *ch;

	if (!so)
		return NULL;
	ch = call_sender(cookie, so->id, peek ? LETTER_PEEK : 0);
	if (!family_begin_toward(so, ch)) {
		if (ch)
			channel_destroy(ch);
		sock_free(so);
		return NULL;
	}
	so->kin->cookie = cookie;
	(void)family_nonblock_now(so);
	sock_list_add(so);
	if (ch)
		family_listen_to(ch);
	else
		travel_lost(so);
	log_debug("fd %d: received from another process%s", fd, ch ? "" : ", which is gone");
	return so;
}

/* Control lock.  -EAGAIN: not now. */
static int take(int fd, uint64_t cookie, bool peek, struct inet_sock **so)
{
	uint16_t port = port_of(fd);

	family_init();
	*so = find_in(sock_list(), cookie, port);
	if (!*so) {
		*so = find_in(&family.kept, cookie, port);
		if (*so && kin_is(*so, KIN_LEAVING))
			return -EAGAIN; /* the others were told that we have it no more */
		if (*so)
			family_revive(*so, fd);
	}
	if (*so) {
		tell_sender(cookie, (*so)->id, peek);
		return 0;
	}
	*so = begin(fd, cookie, peek);
	return *so ? 0 : -ENOMEM;
}

struct sock_ref pass_take(int fd, bool peek)
{
	struct sock_ref ref = {NULL, 0};
	struct inet_sock *so = NULL;
	uint64_t cookie;
	nsec_t deadline = 0;
	int rc;

	if (!is_marked(fd))
		return ref;
	cookie = family_cookie(fd);
	do {
		struct timespec ts = {.tv_nsec = NSEC_PER_MSEC};

		if (deadline)
			sys_ppoll(NULL, 0, &ts, NULL);
		if (!control_lock())
			return ref;
		clock_init(); /* it may be our first socket */
		if (!deadline)
			deadline = clock_now() + CALL_MAX;
		rc = take(fd, cookie, peek, &so);
		if (!rc)
			ref = sock_ref_of(so);
		control_unlock();
	} while (rc == -EAGAIN && clock_now() < deadline);
	return ref;
}
