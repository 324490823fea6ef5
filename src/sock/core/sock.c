/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/sock.h"

#include <errno.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "sock/core/extra/filter.h"
#include "sock/core/kind.h"
#include "sock/core/port/port_keeper.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"
#include "sock/core/sock_options.h"
#include "sock/core/stats/sock_record.h"

enum verdict sock_verdict(const struct sock *sk)
{
	return inet_of((struct sock *)(uintptr_t)sk)->verdict;
}

static enum verdict *wire_of(struct inet_sock *so)
{
	return so->inet == INET_UDP ? &so->udp.wire : &so->listen.wire;
}

void sock_set_local(struct inet_sock *so)
{
	control_assert_held();
	if (so->verdict != VERDICT_LOCAL)
		*wire_of(so) = so->verdict;
	so->verdict = VERDICT_LOCAL;
}

enum verdict sock_told_verdict(const struct inet_sock *so)
{
	enum verdict wire;

	control_assert_held();
	if (so->verdict != VERDICT_LOCAL || (so->inet != INET_UDP && so->inet != INET_LISTEN))
		return so->verdict;
	wire = *wire_of((struct inet_sock *)(uintptr_t)so);
	return verdict_is_fallback(wire) || wire == VERDICT_DENIED ? wire : so->verdict;
}

void sock_set_nonblock(struct sock_ref ref, bool nonblock)
{
	__atomic_store_n(&ref.sk->nonblock, nonblock, __ATOMIC_RELAXED);
}

void sock_set_twin(struct sock_ref ref, int fd)
{
	if (ref.sk->type == SOCK_TYPE_EPOLL)
		sock_upcalls.epoll_set_fd(ref.sk->epoll, fd);
	/* Pairs with sock_twin(): a reader of the number finds the descriptor open. */
	__atomic_store_n(&ref.sk->twin, fd, __ATOMIC_RELEASE);
}

/* Control lock.  NULL: no memory. */
static struct inet_sock *create_sock(int fd, int domain, int type, bool nonblock)
{
	const struct sock_kind *kind = sock_kinds[type == SOCK_DGRAM ? INET_UDP : INET_TCP];
	struct inet_sock *so = sock_alloc(type == SOCK_DGRAM ? SOCK_TYPE_UDP : SOCK_TYPE_TCP);

	control_assert_held();
	if (!so)
		return NULL;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.nonblock, nonblock, __ATOMIC_RELAXED);
	so->verdict = VERDICT_UNDECIDED;
	so->family = (uint8_t)domain;
	if (!sock_options_init_new(so, kind)) {
		sock_free(so);
		return NULL;
	}
	kind->init(so);
	sock_list_add(so);
	return so;
}

struct sock_ref sock_create(int fd, int domain, int type, int protocol, bool nonblock)
{
	struct sock_ref none = {NULL, 0};
	struct inet_sock *so;

	if ((domain != AF_INET && domain != AF_INET6) || !sock_is_ours(type, protocol))
		return none;
	if (!control_lock())
		return none;
	so = sock_start_failed() ? NULL : create_sock(fd, domain, type, nonblock);
	if (!so)
		verdict_count(VERDICT_NO_RESOURCES);
	control_unlock();
	return so ? sock_ref_of(so) : none;
}

struct sock_ref sock_create_epoll(int fd, struct epoll *epoll)
{
	struct sock_ref none = {NULL, 0};
	struct inet_sock *so = sock_alloc(SOCK_TYPE_EPOLL);

	if (!so)
		return none;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	/* Orders the set's memory before the pointer, for a call with a stale reference. */
	__atomic_store_n(&so->sk.epoll, epoll, __ATOMIC_RELEASE);
	return sock_ref_of(so);
}

void sock_become_exported(struct inet_sock *so)
{
	/* A datagram socket still sends, by its twin. */
	uint32_t writable = so->inet == INET_UDP ? EPOLLOUT | EPOLLWRNORM : 0u;

	if (!sock_life_in(so, LIFE(EXPORTED) | LIFE(KEPT_EXPORTED)))
		sock_life_set(so, sock_is_kept(so) ? LIFE_KEPT_EXPORTED : LIFE_EXPORTED);
	so->rx_key = so->tx_key = SOCK_NO_KEY;
	/* Pairs with the load of ops in each wrapper: the table is complete. */
	__atomic_store_n(&so->sk.ops, sock_upcalls.exported_ops[so->inet], __ATOMIC_RELEASE);
	sock_set_events(so, SOCK_EXPORTED | writable);
}

/* ---- ending -------------------------------------------------------------------------- */

/* Control lock: the last step in the life of a socket, which has no flows any more. */
static void free_sock(struct inet_sock *so)
{
	struct ring *ring;

	control_assert_held();
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	sock_free(so);
	ring_release_cold(ring);
}

/*
 * Control lock, holder of home: makes all references of the program invalid.  A late call of
 * another thread must not use a connection that lives on, because it may be freed meanwhile.
 */
static void end_references(struct inet_sock *so)
{
	control_assert_held();
	/* Pairs with sock_ref_valid() and sock_at_home(). */
	__atomic_store_n(&so->sk.gen, so->sk.gen + 2, __ATOMIC_RELEASE);
	__atomic_store_n(&so->close_pending, false, __ATOMIC_RELAXED);
	sock_upcalls.move_closed(so);
}

/* Control lock, holder: the program has no access to the socket from now on. */
static void leave_program(struct inet_sock *so, enum sock_life next)
{
	control_assert_held();
	sock_life_set(so, next);
	sock_port_unclaim(so);
	end_references(so);
	list_remove(&so->link);
	sock_upcalls.epoll_sock_closed(&so->sk);
}

/* The state after the last process has closed it: a connection still sends what it has to. */
static enum sock_life life_after(const struct inet_sock *so)
{
	return sock_has_connection(so) && so->inet != INET_LOCAL ? LIFE_ORPHAN : LIFE_CLOSED;
}

/*
 * Control lock, holder of ring, which is home: ends the socket, unless its connection lives
 * on.  Releases the ring.
 */
static void end_and_release(struct inet_sock *so, struct ring *ring)
{
	const struct sock_kind *kind = sock_kind_of(so);
	bool lives_on = kind->close(so, ring);

	control_assert_held();
	ring_release_cold(ring);
	if (lives_on)
		return; /* it may be freed already */
	sock_flows_del(so);
	if (kind->ended)
		kind->ended(so);
	free_sock(so);
}

void sock_close_locked(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;

	control_assert_held();
	if (!sock_ref_valid(ref) || sock_is_gone(so) || sock_upcalls.share_close(so))
		return;
	if (so->inet == INET_UDP && so->udp.forked && sock_upcalls.unread_to_kernel(so))
		return;
	sock_stats_end(so);
	if (sock_hold_cold(ref, &ring))
		return;
	log_debug("fd %d: closed (%s)", sock_twin(&so->sk), verdict_text(so->verdict));
	if (!udp_lingers(so))
		verdict_count(sock_told_verdict(so));
	leave_program(so, life_after(so));
	end_and_release(so, ring);
}

void sock_keep(struct inet_sock *so)
{
	struct ring *ring;

	control_assert_held();
	sock_stats_end(so);
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (sock_has_owner(so) || sock_life_in(so, LIFE(EXPORTED) | LIFE(KEPT_RECEIVER))) {
		leave_program(so, sock_is_connection(so) ? LIFE_KEPT : LIFE_KEPT_EXPORTED);
	} else { /* connections on their way to it refer to its generation */
		sock_life_set(so, LIFE_KEPT_RECEIVER);
		list_remove(&so->link);
		sock_upcalls.epoll_sock_closed(&so->sk);
	}
	filter_keep(so);
	/* Pairs with sock_twin(). */
	__atomic_store_n(&so->sk.twin, -1, __ATOMIC_RELEASE); /* other processes have the port */
	ring_release_cold(ring);
}

void sock_unkeep(struct inet_sock *so, int fd)
{
	struct ring *ring;

	control_assert_held();
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (!sock_has_connection(so))
		sock_life_set(so, LIFE_EXPORTED);
	else if (so->inet == INET_LOCAL)
		sock_life_set(so, LIFE_LOCAL);
	else
		sock_life_set(so, sock_is_connecting(so) ? LIFE_CONNECTING : LIFE_CONNECTED);
	ring_release_cold(ring);
	/* Pairs with sock_twin(). */
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELEASE);
	sock_list_add(so);
}

void sock_end(struct inet_sock *so)
{
	struct ring *ring;

	control_assert_held();
	sock_stats_end(so);
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (!sock_is_gone(so))
		leave_program(so, life_after(so));
	else if (!sock_life_is(so, LIFE_CLOSED))
		sock_life_set(so, life_after(so));
	end_and_release(so, ring);
}

/*
 * If another thread is in a blocking call on it, the socket stays until that call returns, as
 * the kernel's file does.  The twin gets another descriptor.  False: close it now.
 */
static bool close_later(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	int fd;

	/* Pairs with sock_wait_begin(), which counts itself before it checks the reference. */
	if (!sock_ref_valid(ref) || !__atomic_load_n(&ref.sk->waiters, __ATOMIC_SEQ_CST))
		return false;
	fd = port_keeper_open(sock_twin(&so->sk));
	if (fd < 0)
		return false;
	so->spare = fd;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELEASE); /* pairs with sock_twin() */
	/* Pairs with sock_wait_leave(): the last waiter sees this, or we see no waiter. */
	__atomic_store_n(&so->close_pending, true, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&ref.sk->waiters, __ATOMIC_SEQ_CST))
		return true;
	__atomic_store_n(&so->close_pending, false, __ATOMIC_RELAXED);
	return false;
}

void sock_wait_leave(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	/* Pairs with close_later(). */
	unsigned left = __atomic_sub_fetch(&ref.sk->waiters, 1, __ATOMIC_SEQ_CST);

	if (left) {
		if (left == ~0u) /* a child of a fork() in the wait, which was not counted there */
			__atomic_store_n(&ref.sk->waiters, 0, __ATOMIC_RELAXED);
		return;
	}
	/* Pairs with close_later(), as above. */
	if (!__atomic_load_n(&so->close_pending, __ATOMIC_SEQ_CST) || !control_lock())
		return;
	/*
	 * Not always the socket that this thread waited for: close_later() counts threads whose
	 * reference has become stale, too.
	 */
	if (__atomic_load_n(&so->close_pending, __ATOMIC_RELAXED)) {
		__atomic_store_n(&so->close_pending, false, __ATOMIC_RELAXED);
		sock_close_locked(sock_ref_of(so));
	}
	control_unlock();
}

void sock_close(struct sock_ref ref)
{
	if (ref.sk->type == SOCK_TYPE_EPOLL) {
		sock_upcalls.epoll_destroy(ref.sk->epoll);
		sock_free(inet_of(ref.sk));
		return;
	}
	/* False for a signal handler that interrupted the holder of a ring: it stays open. */
	if (!control_lock())
		return;
	if (!close_later(ref))
		sock_close_locked(ref);
	control_unlock();
}

int sock_leave(struct inet_sock *so, enum verdict reason)
{
	control_assert_held();
	if (!sock_is_gone(so) && so->inet == INET_TCP && sock_is_exported(&so->sk))
		return -EBUSY; /* the kernel does not know the connection */
	return sock_leave_exported(so, reason);
}

int sock_leave_exported(struct inet_sock *so, enum verdict reason)
{
	const struct sock_kind *kind = sock_kind_of(so);
	char why[RULES_TEXT];
	bool tells = false;
	struct ring *ring;

	control_assert_held();
	if (sock_is_gone(so))
		return 0;
	if (sock_is_connection(so))
		return -EBUSY;
	if (!udp_lingers(so)) {
		/* Where no call is left that could fail, strict says it aloud. */
		rules_verdict_text(reason, rules_last(so), why);
		log_at(strict_forbids(so, reason) ? LOG_ERROR : LOG_DEBUG,
		       "fd %d: left to the kernel: %s", sock_twin(&so->sk), why);
		so->verdict = reason;
		verdict_count(reason);
		sock_record(so, RECORD_KERNEL, reason);
		sock_port_unclaim(so);
		sock_upcalls.move_settle(so);
		sock_stats_left(so, reason);
		tells = true;
	}
	if (kind->linger && kind->linger(so)) {
		if (tells)
			sock_upcalls.share_leave(so, reason);
		return 0;
	}
	/*
	 * From now on a new watch is refused, or epoll_sock_left() finds it.  The release orders
	 * this before epoll_sock_left() searches.
	 */
	__atomic_store_n(&so->sk.left_gen, so->sk.gen, __ATOMIC_RELEASE);
	sock_upcalls.epoll_sock_left(&so->sk);
	sock_hooks.left(&so->sk);
	if (kind->leaving)
		kind->leaving(so);
	sock_flows_del(so);
	if (kind->ended)
		kind->ended(so);
	if (tells) /* only now: a process that waits for this finds the kernel receiving */
		sock_upcalls.share_leave(so, reason);
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return -EAGAIN;
	sock_life_set(so, LIFE_CLOSED);
	list_remove(&so->link);
	sock_upcalls.epoll_sock_closed(&so->sk);
	kind->close(so, ring); /* false, because it is not a connection */
	sock_free(so);
	ring_release_cold(ring);
	return 0;
}

int sock_to_kernel(struct sock_ref ref, enum verdict reason)
{
	int rc = 0;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref))
		rc = sock_leave(inet_of(ref.sk), reason);
	control_unlock();
	return rc;
}
