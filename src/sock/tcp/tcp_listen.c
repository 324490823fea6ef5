/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening TCP sockets: listen(2), accept(2), and how an established connection gets from the
 * ring of its shard (tcp_shard.c) through an inbox to the listener's home, where it waits for
 * accept().
 */
#include <errno.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/source.h"
#include "sock/core/access.h"
#include "sock/core/extra/xtreme.h"
#include "sock/core/msg/family.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"
#include "sock/core/sock_options.h"
#include "sock/core/stats/sock_record.h"
#include "sock/tcp/syn_catch.h"
#include "sock/tcp/tcp_handed.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/wait.h"

/* ---- from the child's ring to the accept queue -------------------------------------- */

/* holder of the child's home */
static void child_abort_run(struct ring *ring, struct inbox_item *item)
{
	struct inet_sock *child = container_of(item, struct inet_sock, item);

	list_init(&child->flows); /* the item shares its memory */
	sock_kind_of(child)->abandon(child, ring);
}

void tcp_abandon(struct inet_sock *so, struct ring *ring)
{
	sock_life_set(so, LIFE_ORPHAN);
	if (!sock_has_ended(so))
		tcp_abort(&so->tcp.conn, 0, clock_now());
	ring_work_add(ring, &so->tcp.flush);
}

/* No process will accept the child: resets it. */
static void abort_child(struct inet_sock *child)
{
	child->item.run = child_abort_run;
	ring_post(sock_home(child), &child->item);
}

/* holder of the listener's home */
static void count_waiting(struct inet_sock *so, unsigned delta)
{
	__atomic_store_n(&so->listen.waiting, so->listen.waiting + delta, __ATOMIC_RELAXED);
}

/* A child's listener, whatever kind of connection it is. */
_Static_assert(offsetof(struct tcp_state_part, listener) == offsetof(struct shm_state, listener) &&
		       offsetof(struct tcp_state_part, listener_gen) ==
			       offsetof(struct shm_state, listener_gen),
	       "child->tcp.listener is child->shm.listener");

/* holder of the listener's home */
static void child_arrived_run(struct ring *ring, struct inbox_item *item)
{
	struct inet_sock *child = container_of(item, struct inet_sock, item);
	struct inet_sock *so = child->tcp.listener;
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&so->sk.home, __ATOMIC_ACQUIRE);

	if (home != ring &&
	    /* pairs with the end of references */
	    __atomic_load_n(&so->sk.gen, __ATOMIC_ACQUIRE) == child->tcp.listener_gen) {
		ring_post(home, item); /* the listener has moved */
		return;
	}
	if (so->sk.gen != child->tcp.listener_gen || so->inet != INET_LISTEN || sock_is_gone(so)) {
		abort_child(child);
		return;
	}
	list_push_back(&so->listen.queue, &child->accept_link);
	count_waiting(so, 1);
	sock_set_events(so, sock_own_events(so) | EPOLLIN | EPOLLRDNORM);
	ready_notify(&so->sk, EPOLLIN | EPOLLRDNORM);
}

/* holder of a ring that was the listener's home a moment ago */
static void child_queued_run(struct ring *ring, struct inbox_item *item)
{
	struct inet_sock *child = container_of(item, struct inet_sock, item);
	struct inet_sock *so = child->tcp.listener;

	/* Under this ring it is the same listener as before, or none. */
	if (so->sk.gen == child->tcp.listener_gen && so->inet == INET_LISTEN)
		__atomic_fetch_sub(&so->listen.coming, 1, __ATOMIC_RELAXED);
	child->item.run = child_arrived_run;
	child_arrived_run(ring, item);
}

void tcp_child_queue(struct inet_sock *child)
{
	control_assert_no_ring();
	child->item.run = child_queued_run;
	__atomic_fetch_add(&child->tcp.listener->listen.coming, 1, __ATOMIC_RELAXED);
	/* Pairs with sock_set_home(): the listener's home at this moment; the item follows it. */
	ring_post(__atomic_load_n(&child->tcp.listener->sk.home, __ATOMIC_ACQUIRE), &child->item);
}

void tcp_child_established(struct inet_sock *child)
{
	sock_life_set(child, LIFE_QUEUED);
	child->item.run = child_arrived_run;
	tcp_update_events(child, 0);
	/* Posts the child to the listener's home if that is another ring. */
	child_arrived_run(sock_home(child), &child->item);
}

void tcp_listen_options_applied(struct inet_sock *so)
{
	control_assert_held();
	if (so->opt->defer_accept && so->listen.local)
		sock_upcalls.local_unlisten(so);
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (!f->shard || !ring_hold_cold(f->ring))
			continue;
		options_put(f->shard->opt);
		f->shard->opt = options_get(so->opt);
		f->shard->l.defer = so->opt->defer_accept;
		f->shard->l.syn_ack_retries = so->opt->syncnt;
		f->shard->l.config = tcp_config_for(so->opt, ring_mtu(f->ring), &f->flow.key.local);
		ring_release_cold(f->ring);
	}
}

void tcp_listen_attach(struct inet_sock *so)
{
	bool foreign = list_empty(&so->flows) && sock_port_foreign(so);

	control_assert_held();
	so->verdict = foreign ? VERDICT_SHARED_PORT : sock_attach(so);
	if (so->verdict != VERDICT_ACCELERATED && so->listen.local)
		sock_set_local(so);
}

void tcp_listen_device_changed(struct inet_sock *so)
{
	int device = so->opt->bind_ifindex;

	control_assert_held();
	/* Handshakes on the remaining flows go on. */
	sock_upcalls.move_settle(so);
	list_for_each_safe(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (device && f->ring->ifindex != device)
			sock_flow_del(f);
	}
	tcp_listen_attach(so);
	sock_rings_changed(so);
}

void tcp_listen_ended(struct inet_sock *so)
{
	if (so->listen.local)
		sock_upcalls.local_unlisten(so);
}

bool tcp_listen_close(struct inet_sock *so, struct ring *ring)
{
	struct list *link;

	control_assert_held();
	ring_assert_held(ring);
	while ((link = list_pop_front(&so->listen.queue)))
		abort_child(container_of(link, struct inet_sock, accept_link));
	tcp_handed_end(so);
	return false;
}

/* ---- listen ------------------------------------------------------------------------- */

static unsigned bound_backlog(int backlog)
{
	int max = sys_read_number("/proc/sys/net/core/somaxconn", 4096);

	return (unsigned)(backlog < 0 || backlog > max ? max : backlog);
}

static void make_listener(struct inet_sock *so, int backlog)
{
	so->inet = INET_LISTEN;
	sock_life_set(so, LIFE_LISTENING);
	memset(&so->listen, 0, sizeof(so->listen));
	list_init(&so->listen.queue);
	so->listen.claim = -1;
	so->listen.syn_at = 0;
	so->listen.backlog = bound_backlog(backlog);
	sock_set_events(so, 0);
}

/* Makes it an unconnected socket again: listen(2) failed, or the kernel serves the listener. */
static void unmake_listener(struct inet_sock *so)
{
	struct ring *ring;

	tcp_listen_ended(so);
	sock_flows_del(so);
	sock_port_unclaim(so);
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	tcp_listen_close(so, ring);
	so->inet = INET_TCP;
	sock_life_set(so, LIFE_OPEN);
	tcp_part_init(so);
	tcp_update_events(so, 0);
	ring_release_cold(ring);
}

/* listen(2) binds a socket that is not bound. */
static int listen_bind(struct inet_sock *so)
{
	int rc = so->bound ? 0 : sock_twin_bind_any(so);

	if (!rc)
		rc = sock_read_local(so);
	so->bound = !rc;
	return rc;
}

/* Attaches the listener, which also gets SYNs that arrived while the interface was opened. */
static int listen_attach(struct inet_sock *so, int backlog)
{
	struct syn_catch caught = {.fd = -1};
	int rc = 0;

	if (!rings_count() && !syn_catch_begin(&caught, so))
		rc = sys_listen(sock_twin(&so->sk), backlog);
	if (!rc)
		so->verdict = sock_attach(so);
	syn_catch_end(&caught, so);
	return rc;
}

/* The kernel receives from the wire; local clients may still come (SO_REUSEPORT). */
static enum verdict verdict_of_shared(const struct inet_sock *so)
{
	enum verdict verdict = sock_start_for(so);

	return verdict == VERDICT_ACCELERATED ? VERDICT_SHARED_PORT : verdict;
}

static bool may_be_local(const struct inet_sock *so)
{
	return so->verdict != VERDICT_RULE && so->verdict != VERDICT_NAMESPACE &&
	       !strict_forbids(so, so->verdict) && sock_upcalls.local_may_listen &&
	       sock_upcalls.local_may_listen(so);
}

/*
 * The verdict is known.  A listener without an address waits for interfaces, even if there are
 * none now.
 */
static int listen_finish(struct inet_sock *so, int backlog)
{
	bool waits = so->wildcard && so->verdict != VERDICT_SHARED_PORT &&
		     !strict_forbids(so, so->verdict);
	bool local = may_be_local(so);
	int rc;

	if (so->verdict == VERDICT_ACCELERATED || waits || local) {
		rc = sys_listen(sock_twin(&so->sk), backlog);
		if (rc)
			unmake_listener(so);
		else
			local = local && sock_upcalls.local_listen(so);
		if (!rc && local && so->verdict != VERDICT_ACCELERATED)
			sock_set_local(so);
		if (rc || so->verdict == VERDICT_ACCELERATED || waits || local)
			return rc;
	}
	unmake_listener(so);
	rc = sock_fall_back(so, so->verdict);
	if (rc) /* listen_attach() may have made the twin listen */
		sys_shutdown(sock_twin(&so->sk), SHUT_RD);
	return rc ? rc : SOCK_KERNEL;
}

/* The twin listens, too, for connections that the kernel still accepts. */
static int listen_locked(struct inet_sock *so, int backlog)
{
	struct ring *ring;
	int rc;

	if (sock_has_connection(so))
		return -EINVAL;
	if (so->inet == INET_LISTEN) {
		so->listen.backlog = bound_backlog(backlog);
		return sys_listen(sock_twin(&so->sk), backlog);
	}
	rc = listen_bind(so);
	if (!rc)
		rc = sock_options_for_children(so);
	if (rc)
		return rc;
	if (rules_ask_receiver(so) == CONF_OS) {
		rc = sock_leave(so, VERDICT_RULE);
		return rc ? rc : SOCK_KERNEL;
	}
	rc = sock_hold_cold(sock_ref_of(so), &ring);
	if (rc)
		return rc;
	make_listener(so, backlog);
	ring_release_cold(ring);
	sock_port_claim(so);
	if (sock_port_shared(so))
		so->verdict = verdict_of_shared(so);
	else
		rc = listen_attach(so, backlog);
	if (rc) {
		unmake_listener(so);
		return rc;
	}
	if (so->verdict != VERDICT_ACCELERATED)
		sock_port_unclaim(so);
	log_debug("fd %d: listening, %s", sock_twin(&so->sk), verdict_text(so->verdict));
	return listen_finish(so, backlog);
}

int tcp_sock_listen(struct sock_ref ref, int backlog)
{
	int rc = -EBADF;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref))
		rc = listen_locked(inet_of(ref.sk), backlog);
	control_unlock();
	return rc;
}

/* ---- accept ------------------------------------------------------------------------- */

/* Takes the oldest child from the queue; NULL: it is empty. */
static struct inet_sock *dequeue_child(struct inet_sock *so)
{
	struct list *link = list_pop_front(&so->listen.queue);

	if (list_empty(&so->listen.queue) && !so->listen.handed)
		sock_set_events(so, sock_own_events(so) & ~(uint32_t)(EPOLLIN | EPOLLRDNORM));
	if (!link)
		return NULL;
	count_waiting(so, -1u);
	return container_of(link, struct inet_sock, accept_link);
}

/* The twin of a child is an unconnected socket, which provides its descriptor. */
static int make_twin(const struct inet_sock *so, int flags)
{
	return sys_socket(so->family, SOCK_STREAM | (flags & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0);
}

/* The program has accepted the child. */
static void mark_accepted(struct sock_ref child)
{
	struct ring *ring;

	if (sock_hold_cold(child, &ring))
		return;
	if (inet_of(child.sk)->inet == INET_TCP)
		sock_life_set(inet_of(child.sk), LIFE_CONNECTED);
	ring_release_cold(ring);
}

/* As in the kernel, the interface of a link-local peer is the connection's device. */
static void bind_to_interface(struct inet_sock *child)
{
	struct endpoint peer = child->remote;

	(void)sock_bind_to_scope(child, &peer); /* without memory it is told no device */
}

static int accept_finish(struct sock_ref listener, struct inet_sock *child, int fd,
			 struct sockaddr *addr, socklen_t *len, int flags, struct sock_ref *ref)
{
	uint64_t old_id;

	ref->sk = &child->sk;
	ref->gen = child->sk.gen;
	__atomic_store_n(&child->sk.nonblock, (flags & SOCK_NONBLOCK) != 0, __ATOMIC_RELAXED);
	sock_set_twin(*ref, fd);
	mark_accepted(*ref);
	if (control_lock()) {
		old_id = child->id;
		/* A process forked earlier does not know it.  atomic: pairs with sock_record_id() */
		__atomic_store_n(&child->id, sock_new_id(), __ATOMIC_RELAXED);
		sock_record_renumbered(child, old_id);
		sock_list_add(child);
		sock_stats_begin(child, false);
		if (sock_ref_valid(listener))
			sock_stats_accepted(child, inet_of(listener.sk));
		/*
		 * With a ring for each socket: so far the child uses its listener's ring, which a
		 * program of socketxtreme goes on polling.
		 */
		if (child->inet == INET_TCP && !xtreme_is_on() &&
		    !ring_logic_moves(child->opt->alloc_rx.logic))
			sock_alloc_changed(child, true, false);
		bind_to_interface(child);
		if (child->inet == INET_TCP)
			tcp_resolve_locked(*ref);
		control_unlock();
	}
	if (addr)
		sock_addr_write(child, &child->remote, addr, len);
	return fd;
}

static bool twin_due(struct inet_sock *so, struct sock_wait *wait)
{
	if (__atomic_load_n(&so->sk.twin_events, __ATOMIC_RELAXED) || tcp_handed_any(so) ||
	    !ring_is_open(sock_home(so)))
		return true;
	if (so->listen.os_countdown-- > 0 && !spin_was_late(&wait->spin))
		return false;
	so->listen.os_countdown = params.rx_udp_poll_os_ratio;
	return true;
}

/*
 * Accepts a connection of the twin: its descriptor, or -EAGAIN. The twin may be in blocking mode,
 * so it is polled first, and only one thread at a time does so: accept4() must not block.
 */
static int accept_twin(struct inet_sock *so, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sock *sk = &so->sk;
	int fd = -EAGAIN;

	/* Tries a lock; pairs with its release below. */
	if (__atomic_exchange_n(&so->listen.twin_taken, 1, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	sock_look_at_twin(sk);
	if (__atomic_load_n(&sk->twin_events, __ATOMIC_RELAXED))
		fd = sys_accept4(sock_twin(sk), addr, len, flags);
	/* Pairs with the exchange above. */
	__atomic_store_n(&so->listen.twin_taken, 0, __ATOMIC_RELEASE);
	return fd;
}

struct accept {
	struct inet_sock *so;
	struct sock_ref ref;	 /* of so */
	struct inet_sock *child; /* the child that was accepted, and its descriptor */
	int spare;
	int flags;
	struct sockaddr *addr;
	socklen_t *len;
};

/*
 * Accepts a child. Makes its descriptor first: without one the connection stays in the queue, as
 * in the kernel.
 */
static bool accept_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct accept *a = arg;
	struct inet_sock *so = a->so;

	*n = -EINVAL;
	if (so->inet != INET_LISTEN)
		return true;
	sock_access_rx(so);
	if (list_empty(&so->listen.queue) && !(a->flags & SOCK_ACCEPT_QUEUED))
		ring_poll(ring);
	else if (so->listen.waiting <= so->listen.backlog / 2) /* else new frames wait */
		ring_keep_up(ring);
	if (!list_empty(&so->listen.queue)) {
		if (a->spare < 0)
			a->spare = make_twin(so, a->flags);
		*n = a->spare;
		if (a->spare >= 0)
			a->child = dequeue_child(so);
		return true;
	}
	if (a->flags & SOCK_ACCEPT_QUEUED) {
		*n = -EAGAIN;
		return true;
	}
	*n = twin_due(so, wait) || wait->dontwait ? SOCK_TRY_ASIDE : SOCK_TRY_WAIT;
	return false;
}

static ssize_t accept_aside(void *arg, struct sock_wait *wait)
{
	const struct accept *a = arg;
	int fd = -EAGAIN;

	(void)wait;
	if (tcp_handed_any(a->so))
		fd = tcp_handed_accept(a->ref, a->addr, a->len, a->flags);
	if (fd == -EAGAIN)
		fd = accept_twin(a->so, a->addr, a->len, a->flags);
	return fd == -EAGAIN ? SOCK_TRY_WAIT : fd;
}

static void accept_held_back(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);

	if (!control_lock())
		return;
	if (sock_ref_valid(ref) && so->inet == INET_LISTEN)
		sock_upcalls.local_accepted(so);
	control_unlock();
}

int tcp_sock_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
		    struct sock_ref *out)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, 0, EPOLLIN);
	struct accept a = {
		.so = so, .ref = ref, .spare = -1, .flags = flags, .addr = addr, .len = len};
	int rc;

	out->sk = NULL;
	if (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC | SOCK_ACCEPT_QUEUED))
		return -EINVAL;
	rc = (int)sock_wait_loop(call, SOCK_WAIT_COLD, accept_try, accept_aside, &a);
	/* Pairs with the store of true, after which the queue was full. */
	if (__builtin_expect(__atomic_load_n(&so->listen.held_back, __ATOMIC_RELAXED), 0))
		accept_held_back(ref);
	return a.child ? accept_finish(ref, a.child, a.spare, addr, len, flags, out) : rc;
}
