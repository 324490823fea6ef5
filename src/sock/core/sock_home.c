/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of all sockets, the home ring of a socket, and the rings that have frames for it.
 */
#include <errno.h>

#include "base/sys.h"
#include "base/image/sections.h"
#include "sock/core/extra/xtreme.h"
#include "sock/core/inet_sock.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"
#include "sock/core/poll_events.h"

__thread struct sock_signals sock_signals __attribute__((tls_model("initial-exec")));

static struct list sockets EARLY_DATA; /* control lock */

static uint64_t last_id; /* any, atomic */

uint64_t sock_shared_id EARLY_DATA; /* control lock to write */

EARLY_CODE void sock_list_init(void)
{
	list_init(&sockets);
}

void sock_list_add(struct inet_sock *so)
{
	control_assert_held();
	list_push_back(&sockets, &so->link);
	sock_ops_renew(so); /* it may have been made before the process went over */
}

EARLY_CODE const struct list *sock_list(void)
{
	return &sockets;
}

uint64_t sock_new_id(void)
{
	return __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
}

void sock_skip_ids(uint64_t last)
{
	__atomic_store_n(&last_id, last, __ATOMIC_RELAXED);
}

uint64_t sock_last_id(void)
{
	return __atomic_load_n(&last_id, __ATOMIC_RELAXED);
}

EARLY_CODE void sock_each(void (*fn)(struct inet_sock *so, void *arg), void *arg)
{
	control_assert_held();
	list_for_each_safe(link, &sockets)
		fn(container_of(link, struct inet_sock, link), arg);
}

int sock_hold_cold(struct sock_ref ref, struct ring **ring)
{
	struct ring *home;

	for (;;) {
		/* Pairs with sock_set_home() and with the ARRIVE of a move. */
		home = __atomic_load_n(&ref.sk->home, __ATOMIC_ACQUIRE);
		if (!ring_hold_cold(home))
			return -EAGAIN;
		if (sock_at_home(ref, home)) {
			ring_catch_up(home); /* as in sock_hold_mode() */
			*ring = home;
			return 0;
		}
		ring_release_cold(home);
		if (!sock_ref_valid(ref))
			return sock_gone(ref);
	}
}

int sock_hold_here(struct sock_ref ref, struct ring **ring)
{
	int rc = sock_hold_cold(ref, ring);

	while (!rc && __builtin_expect(sock_is_exported(ref.sk), 0)) {
		bool dontwait = __atomic_load_n(&ref.sk->nonblock, __ATOMIC_RELAXED);

		ring_release_cold(*ring);
		rc = sock_upcalls.fetch(ref, dontwait ? SHARE_FETCH_MAX : 0);
		if (!rc)
			rc = sock_hold_cold(ref, ring);
	}
	return rc;
}

bool sock_hold(struct sock_ref ref, struct ring **ring)
{
	return sock_hold_cold(ref, ring) == 0;
}

void sock_release(struct ring *ring)
{
	ring_release_cold(ring);
}

void sock_set_home(struct inet_sock *so, struct ring *ring)
{
	ring_get(ring);
	ring_put(sock_home(so));
	if (xtreme_is_on())
		xtreme_leave(so);
	/* Pairs with sock_hold_mode(): the socket is complete on that ring. */
	__atomic_store_n(&so->sk.home, ring, __ATOMIC_RELEASE);
	if (xtreme_is_on())
		xtreme_follow(so, ring);
}

int sock_read_local(struct inet_sock *so)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int rc = sys_getsockname(sock_twin(&so->sk), (struct sockaddr *)&ss, &len);

	control_assert_held();
	if (rc)
		return rc;
	if (!sock_addr_read(so, &so->local, (struct sockaddr *)&ss, len))
		return -EAFNOSUPPORT;
	return 0;
}

/* ---- what poll, select and epoll ask ------------------------------------------------- */

bool sock_twin_matters(const struct sock *sk)
{
	const struct inet_sock *so = inet_of((struct sock *)(uintptr_t)sk);

	/* Datagram sockets, bound or not: a send by the kernel may have bound the twin. */
	return sk->type != SOCK_TYPE_EPOLL && so->inet != INET_TCP && so->inet != INET_LOCAL;
}

uint32_t sock_look_at_twin(struct sock *sk)
{
	struct pollfd pfd = {.fd = sock_twin(sk), .events = POLLIN};
	struct timespec zero = {0, 0};
	uint32_t events = 0;

	if (sys_ppoll(&pfd, 1, &zero, NULL) == 1)
		events = poll_events_of_twin((uint32_t)pfd.revents & (POLLIN | POLLERR));
	__atomic_store_n(&sk->twin_events, events, __ATOMIC_RELAXED);
	return events;
}

unsigned sock_rings(const struct sock *sk, struct ring **rings, unsigned max)
{
	const struct inet_sock *so = inet_of((struct sock *)(uintptr_t)sk);
	/* The first pairs with sock_set_home(), the second with note_ring() in sock_flow.c. */
	struct ring *home = __atomic_load_n(&sk->home, __ATOMIC_ACQUIRE);
	unsigned n = 0, others = __atomic_load_n(&so->n_rings, __ATOMIC_ACQUIRE);

	if (others > INET_RINGS) {
		for (unsigned i = 0; i < rings_count() && n < max; i++)
			rings[n++] = rings_at(i);
		return n;
	}
	if (ring_queue(home) && n < max)
		rings[n++] = home;
	for (unsigned i = 0; i < others && n < max; i++) {
		struct ring *ring = rings_at(__atomic_load_n(&so->rings[i], __ATOMIC_RELAXED));

		if (ring != home)
			rings[n++] = ring;
	}
	return n;
}

void sock_poll_others(const struct sock *sk)
{
	struct ring *rings[SOCK_RINGS_MAX];
	/* Pairs with sock_set_home(). */
	const struct ring *home = __atomic_load_n(&sk->home, __ATOMIC_ACQUIRE);
	unsigned n = sock_rings(sk, rings, SOCK_RINGS_MAX);

	for (unsigned i = 0; i < n; i++) {
		if (rings[i] != home)
			sock_poll_ring(rings[i]);
	}
}

int sock_poll_ring(struct ring *ring)
{
	int n;

	if (!ring_hold_cold(ring))
		return 0;
	n = ring_poll(ring);
	ring_release_cold(ring);
	return n;
}
