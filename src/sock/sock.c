/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/sock.h"

#include <ck_spinlock.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/signals.h"
#include "base/sys.h"
#include "net/netlink.h"
#include "sock/async.h"
#include "sock/epoll.h"
#include "sock/family.h"
#include "sock/icmp.h"
#include "sock/mcast.h"
#include "sock/move.h"
#include "sock/poll_events.h"
#include "sock/timewait.h"
#include "sock/travel.h"
#include "sock/wait.h"
#include "sock/sock_internal.h"

#define LOOK_INTERVAL (250 * NSEC_PER_MSEC)
#define LOOK_SHARE 50
#define LOOK_AGAIN (50 * NSEC_PER_MSEC)
#define EXIT_LOCK_MAX NSEC_PER_SEC
#define EXIT_GRACE (100 * NSEC_PER_MSEC)   /* for peers that close, too, when we do */
#define EXIT_LINGER_MAX (2 * NSEC_PER_SEC) /* for data that peers have not acknowledged */

__thread struct sock_signals sock_signals __attribute__((tls_model("initial-exec")));

static struct sock_hooks hooks;
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static struct list sockets; /* control lock */
static bool started;	    /* control lock */
static bool start_failed;   /* control lock */
static int links_changed;   /* any, atomic: the internal thread has to look */

static uint64_t last_id; /* any, atomic */

/*
 * Objects of a kind: those that ended, for the next ones, and memory for more.  It is
 * taken in large pieces, which are never given back: an allocator's size classes would
 * add to each object.  (And to each piece it adds a page, to shift it by.)  What is not
 * used of a piece is not touched.  Under a spinlock held for some instructions.
 */
#define POOL_PIECE (1u << 20)
#define POOL_ALIGN 64u /* a cache line */
struct pool {
	struct list ended;
	char *fresh; /* NULL: none */
	size_t left; /* bytes there */
};

static ck_spinlock_fas_t pool_lock = CK_SPINLOCK_FAS_INITIALIZER;
static struct pool pools[SOCK_KINDS];

/* ---- the control lock ------------------------------------------------------------ */

bool control_lock(void)
{
	if (hold_current)
		return false;
	signals_block();
	pthread_mutex_lock(&control);
	return true;
}

bool control_trylock(void)
{
	if (hold_current)
		return false;
	signals_block();
	if (!pthread_mutex_trylock(&control))
		return true;
	signals_unblock();
	return false;
}

void control_unlock(void)
{
	pthread_mutex_unlock(&control);
	signals_unblock();
}

/* ---- objects ---------------------------------------------------------------------- */

static void pools_init(void)
{
	memset(pools, 0, sizeof(pools));
	for (unsigned kind = 0; kind < SOCK_KINDS; kind++)
		list_init(&pools[kind].ended);
}

/* What an object of the kind needs: it ends with its part of the union. */
static size_t size_of(enum sock_kind kind)
{
	switch (kind) {
	case SOCK_KIND_UDP:
		return offsetof(struct inet_sock, udp) + sizeof(struct udp_state);
	case SOCK_KIND_TCP:
		return sizeof(struct inet_sock);
	case SOCK_KIND_EPOLL:
	default:
		return offsetof(struct inet_sock, udp);
	}
}

/* Under the lock: an object that ended, or a new one; NULL: there is no memory left. */
static struct inet_sock *take(struct pool *pool, size_t room, bool *fresh)
{
	struct list *link = list_pop_front(&pool->ended);
	char *at = pool->fresh;

	*fresh = !link;
	if (link)
		return container_of(link, struct inet_sock, link);
	if (pool->left < room)
		return NULL;
	pool->fresh += room;
	pool->left -= room;
	return (struct inet_sock *)(void *)at;
}

/* False: no memory. */
static bool extend(struct pool *pool, size_t room)
{
	char *piece = mem_aligned(POOL_ALIGN, POOL_PIECE);

	if (!piece)
		return false;
	ck_spinlock_fas_lock(&pool_lock);
	if (pool->left < room) { /* else another thread was faster */
		pool->fresh = piece;
		pool->left = POOL_PIECE;
		piece = NULL;
	}
	ck_spinlock_fas_unlock(&pool_lock);
	mem_free(piece);
	return true;
}

static void init_fresh(struct sock *sk, enum sock_kind kind)
{
	memset(sk, 0, sizeof(*sk));
	sk->kind = kind;
}

static const struct sock_ops *ops_of(enum sock_kind kind)
{
	if (kind == SOCK_KIND_EPOLL)
		return NULL;
	return kind == SOCK_KIND_TCP ? &tcp_sock_ops[ring_mode] : &udp_ops[ring_mode];
}

struct inet_sock *sock_alloc(enum sock_kind kind)
{
	size_t size = size_of(kind), room = (size + POOL_ALIGN - 1) & ~(size_t)(POOL_ALIGN - 1);
	struct pool *pool = &pools[kind];
	struct inet_sock *so;
	uint32_t gen;
	bool fresh;

	do {
		ck_spinlock_fas_lock(&pool_lock);
		so = take(pool, room, &fresh);
		ck_spinlock_fas_unlock(&pool_lock);
	} while (!so && extend(pool, room));
	if (!so)
		return NULL;
	if (fresh)
		init_fresh(&so->sk, kind);
	gen = so->sk.gen;
	/* A stale reference reads what is in sk at any time: never a wild value. */
	memset((char *)so + sizeof(so->sk), 0, size - sizeof(so->sk));
	if (so->sk.ops != ops_of(kind)) /* it was away; others only read it */
		__atomic_store_n(&so->sk.ops, ops_of(kind), __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.epoll, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.twin, -1, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.twin_events, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.events, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.nonblock, false, __ATOMIC_RELAXED);
	so->spare = PORT_KEEPER_NONE;
	list_init(&so->link);
	list_init(&so->flows);
	list_init(&so->sk.watches);
	so->rx_key = so->tx_key = SOCK_NO_KEY;
	so->id = sock_new_id();
	ring_get(rings_nowhere());
	__atomic_store_n(&so->sk.home, rings_nowhere(), __ATOMIC_RELEASE);
	__atomic_store_n(&so->sk.gen, gen + 1, __ATOMIC_RELEASE);
	return so;
}

void sock_free(struct inet_sock *so)
{
	if (so->sk.kind != SOCK_KIND_EPOLL)
		epoll_sock_closed(&so->sk); /* who came late, after close() */
	__atomic_store_n(&so->sk.gen, so->sk.gen + 1, __ATOMIC_RELEASE);
	port_keeper_close(so->spare);
	mem_free(so->wander);
	mem_free(so->kin);
	options_put(so->opt);
	ring_put(sock_home(so));
	ck_spinlock_fas_lock(&pool_lock);
	list_push_back(&pools[so->sk.kind].ended, &so->link);
	ck_spinlock_fas_unlock(&pool_lock);
}

void sock_list_add(struct inet_sock *so)
{
	list_push_back(&sockets, &so->link);
}

const struct list *sock_list(void)
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

void sock_each(void (*fn)(struct inet_sock *so, void *arg), void *arg)
{
	list_for_each_safe(link, &sockets)
		fn(container_of(link, struct inet_sock, link), arg);
}

int sock_hold_cold(struct sock_ref ref, struct ring **ring)
{
	struct ring *home;

	for (;;) {
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
	__atomic_store_n(&so->sk.home, ring, __ATOMIC_RELEASE);
}

int sock_read_local(struct inet_sock *so)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int rc = sys_getsockname(sock_twin(&so->sk), (struct sockaddr *)&ss, &len);

	if (rc)
		return rc;
	if (!endpoint_from_sockaddr(&so->local, (struct sockaddr *)&ss, len))
		return -EAFNOSUPPORT;
	return 0;
}

enum verdict sock_verdict(const struct sock *sk)
{
	return inet_of((struct sock *)(uintptr_t)sk)->verdict;
}

void sock_set_nonblock(struct sock_ref ref, bool nonblock)
{
	__atomic_store_n(&ref.sk->nonblock, nonblock, __ATOMIC_RELAXED);
}

void sock_set_twin(struct sock_ref ref, int fd)
{
	if (ref.sk->kind == SOCK_KIND_EPOLL)
		epoll_set_fd(ref.sk->epoll, fd);
	__atomic_store_n(&ref.sk->twin, fd, __ATOMIC_RELEASE);
}

/* Control lock; NULL: no memory. */
static struct inet_sock *create(int fd, int type, bool nonblock)
{
	struct inet_sock *so = sock_alloc(type == SOCK_DGRAM ? SOCK_KIND_UDP : SOCK_KIND_TCP);

	if (!so)
		return NULL;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.nonblock, nonblock, __ATOMIC_RELAXED);
	so->verdict = VERDICT_UNDECIDED;
	if (!sock_options_init(so, type == SOCK_STREAM)) {
		sock_free(so);
		return NULL;
	}
	if (type == SOCK_DGRAM)
		udp_init(so);
	else
		tcp_sock_init(so);
	sock_list_add(so);
	return so;
}

struct sock_ref sock_create(int fd, int domain, int type, int protocol, bool nonblock)
{
	struct sock_ref none = {NULL, 0};
	struct inet_sock *so;

	if (!params.offloaded_sockets || domain != AF_INET)
		return none;
	if (!(type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP)) &&
	    !(type == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)))
		return none;
	if (!control_lock())
		return none;
	so = start_failed ? NULL : create(fd, type, nonblock);
	if (!so)
		verdict_count(VERDICT_NO_RESOURCES);
	control_unlock();
	return so ? sock_ref_of(so) : none;
}

struct sock_ref sock_create_epoll(int fd, struct epoll *epoll)
{
	struct sock_ref none = {NULL, 0};
	struct inet_sock *so = sock_alloc(SOCK_KIND_EPOLL);

	if (!so)
		return none;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.epoll, epoll, __ATOMIC_RELEASE);
	return sock_ref_of(so);
}

/* ---- ending -------------------------------------------------------------------------- */

/* Control lock: the last step of a socket that has no flows any more. */
static void destroy(struct inet_sock *so)
{
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	sock_free(so);
	ring_release_cold(ring);
}

/* A closed connection keeps its port as long as it talks: the program's descriptor goes. */
static void keep_port(struct inet_sock *so, struct ring *ring)
{
	if (so->spare < 0 && so->bound && so->connected && !so->tcp.dead && sock_twin(&so->sk) >= 0)
		so->spare = port_keeper_open(ring, sock_twin(&so->sk), true);
}

/*
 * Control lock, holding home: the program has no reference any more.  A call of
 * another thread that comes late must not meet a connection that lives on, and may
 * be reaped under its hands.
 */
static void end_references(struct inet_sock *so)
{
	__atomic_store_n(&so->sk.gen, so->sk.gen + 2, __ATOMIC_RELEASE);
	sock_move_closed(so);
}

/* holder: the program has left it. */
static void leave_program(struct inet_sock *so)
{
	so->gone = true;
	sock_port_unclaim(so);
	end_references(so);
	list_remove(&so->link);
	epoll_sock_closed(&so->sk);
}

/* No ring held: what there was to receive and send by ends. */
static void end(struct inet_sock *so, struct ring *ring)
{
	bool lives_on = false;

	if (so->inet == INET_UDP) {
		udp_close(so, ring);
	} else if (so->inet == INET_LISTEN) {
		tcp_listen_close(so, ring);
	} else {
		keep_port(so, ring);
		lives_on = tcp_sock_close(so, ring);
	}
	ring_release_cold(ring);
	if (lives_on)
		return; /* by now it may be gone already */
	sock_flows_del(so);
	mcast_forget(so);
	destroy(so);
}

static void close_locked(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;

	if (!sock_ref_valid(ref) || so->gone || family_close(so) || sock_hold_cold(ref, &ring))
		return;
	log_debug("fd %d: closed (%s)", sock_twin(&so->sk), verdict_text(so->verdict));
	if (!udp_lingers(so))
		verdict_count(so->verdict);
	leave_program(so);
	end(so, ring);
}

void sock_keep(struct inet_sock *so)
{
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (so->inet == INET_TCP) {
		leave_program(so);
	} else { /* connections that it is going to get name its generation */
		list_remove(&so->link);
		epoll_sock_closed(&so->sk);
	}
	__atomic_store_n(&so->sk.twin, -1, __ATOMIC_RELEASE); /* the port is the others' */
	ring_release_cold(ring);
}

void sock_end(struct inet_sock *so)
{
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (!so->gone)
		leave_program(so);
	end(so, ring);
}

/*
 * Another thread is in a call on it: like the kernel's file, the socket stays until
 * that returns.  The twin goes on under another number.
 */
static bool close_later(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	int fd;

	if (!sock_ref_valid(ref) || !__atomic_load_n(&ref.sk->waiters, __ATOMIC_SEQ_CST))
		return false;
	fd = port_keeper_open(NULL, sock_twin(&so->sk), false);
	if (fd < 0)
		return false;
	so->spare = fd;
	__atomic_store_n(&so->sk.twin, fd, __ATOMIC_RELEASE);
	__atomic_store_n(&so->close_pending, true, __ATOMIC_SEQ_CST);
	/* Pairs with sock_wait_leave(): the last one sees that, or we see it gone. */
	return __atomic_load_n(&ref.sk->waiters, __ATOMIC_SEQ_CST) != 0;
}

void sock_wait_leave(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);

	if (__atomic_sub_fetch(&ref.sk->waiters, 1, __ATOMIC_SEQ_CST) ||
	    !__atomic_load_n(&so->close_pending, __ATOMIC_SEQ_CST) || !control_lock())
		return;
	if (sock_ref_valid(ref))
		close_locked(ref);
	control_unlock();
}

void sock_close(struct sock_ref ref)
{
	if (ref.sk->kind == SOCK_KIND_EPOLL) {
		epoll_destroy_set(ref.sk->epoll);
		sock_free(inet_of(ref.sk));
		return;
	}
	/* Refused to a signal handler that came in the middle of a call: it stays open. */
	if (!control_lock())
		return;
	if (!close_later(ref))
		close_locked(ref);
	control_unlock();
}

int sock_leave(struct inet_sock *so, enum verdict reason)
{
	struct ring *ring;

	if (so->gone)
		return 0;
	if (so->inet == INET_TCP && (so->connected || sock_is_away(&so->sk)))
		return -EBUSY; /* the kernel knows nothing of the connection */
	if (!udp_lingers(so)) {
		log_debug("fd %d: left to the kernel: %s", sock_twin(&so->sk),
			  verdict_text(reason));
		so->verdict = reason;
		verdict_count(reason);
		sock_port_unclaim(so);
		sock_move_settle(so);
	}
	if (so->inet == INET_UDP && udp_linger(so))
		return 0;
	epoll_sock_left(&so->sk);
	hooks.left(&so->sk);
	sock_flows_del(so);
	mcast_forget(so);
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return -EAGAIN;
	so->gone = true;
	list_remove(&so->link);
	__atomic_store_n(&so->sk.left_gen, so->sk.gen, __ATOMIC_RELAXED);
	epoll_sock_closed(&so->sk);
	if (so->inet == INET_UDP)
		udp_close(so, ring);
	else if (so->inet == INET_LISTEN)
		tcp_listen_close(so, ring);
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

/* ---- what poll, select and epoll ask ------------------------------------------------- */

bool sock_twin_matters(const struct sock *sk)
{
	const struct inet_sock *so = inet_of((struct sock *)(uintptr_t)sk);

	/* A datagram that the kernel sent has bound it, whatever we know. */
	return sk->kind != SOCK_KIND_EPOLL && so->inet != INET_TCP;
}

void sock_look_at_twin(struct sock *sk)
{
	struct pollfd pfd = {.fd = sock_twin(sk), .events = POLLIN};
	struct timespec zero = {0, 0};
	uint32_t events = 0;

	if (sys_ppoll(&pfd, 1, &zero, NULL) == 1)
		events = poll_events_of_twin((uint32_t)pfd.revents & (POLLIN | POLLERR));
	__atomic_store_n(&sk->twin_events, events, __ATOMIC_RELAXED);
}

unsigned sock_rings(const struct sock *sk, struct ring **rings, unsigned max)
{
	const struct inet_sock *so = inet_of((struct sock *)(uintptr_t)sk);
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

/* ---- start and stop -------------------------------------------------------------------- */

static void on_neigh(int ifindex, const struct inaddr *addr, enum neigh_state state,
		     const uint8_t mac[6])
{
	/* The kernel forgot it: the address is good until it says otherwise. */
	if (state == NEIGH_UNKNOWN)
		return;
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);
		struct port_queue *q = ring_queue(ring);

		if (q && q->port->ifindex == ifindex)
			ring_neigh_changed(ring, addr, state, mac);
	}
}

static void on_link(int ifindex)
{
	int none = 0;

	/* One is remembered by its number; after that it was several. */
	if (!__atomic_compare_exchange_n(&links_changed, &none, ifindex, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED) &&
	    none != ifindex)
		__atomic_store_n(&links_changed, RINGS_ANY_INTERFACE, __ATOMIC_RELEASE);
}

static void reattach(struct inet_sock *so, void *arg)
{
	(void)arg;
	if (so->wildcard && !sock_is_away(&so->sk))
		sock_reattach(so);
}

/* Rings that nobody needs any more, ports that somebody else has come to share. */
static void look_around(nsec_t now)
{
	static nsec_t next; /* internal thread */
	bool again;

	if (now < next || !control_trylock())
		return;
	if (rings_close_unused(now, timewait_vacate))
		now = clock_now(); /* that took long, but is not done again */
	again = sock_ports_look();
	control_unlock();
	/* A table of many sockets takes its time: a small part of ours at most. */
	next = clock_now();
	next += again ? LOOK_AGAIN : (next - now) * LOOK_SHARE + LOOK_INTERVAL;
}

static void follow_links(void)
{
	int ifindex;

	if (!__atomic_load_n(&links_changed, __ATOMIC_ACQUIRE) || !control_trylock())
		return;
	ifindex = __atomic_exchange_n(&links_changed, 0, __ATOMIC_ACQ_REL);
	rings_interface_changed(ifindex);
	sock_each(reattach, NULL);
	control_unlock();
}

static void (*exit_then)(int arg); /* any, atomic; after exit_arg */
static int exit_arg;

/* The internal thread, between rounds. */
static bool internal_hook(void)
{
	void (*then)(int arg) = __atomic_load_n(&exit_then, __ATOMIC_ACQUIRE);
	nsec_t now = clock_now();
	bool more;

	if (__builtin_expect(then != NULL, 0))
		then(exit_arg);
	dst_check_mcast(now);
	follow_links();
	look_around(now);
	more = sock_moves_run();
	return family_run() || more;
}

static const struct netlink_events events = {.neigh = on_neigh, .link = on_link};

/* Nobody outside can choose addresses that collide. */
static void seed_hashes(void)
{
	uint64_t seed[5];

	if (getrandom(seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed))
		flow_key_seed(seed);
}

bool sock_start(void)
{
	int rc;

	if (started || start_failed)
		return started;
	clock_init();
	seed_hashes();
	rc = netlink_open(&events);
	if (!rc) {
		sock_icmp_open();
		progress_set_hook(internal_hook);
		rc = progress_start();
		if (rc) {
			sock_icmp_forget();
			netlink_close();
		}
	}
	if (rc) {
		start_failed = true;
		log_box(LOG_WARNING,
			"No socket of this process is accelerated.\n"
			"%s: %s\n"
			"The program runs through the kernel.",
			rc == -EMFILE || rc == -ENFILE
				? "Too few descriptors (ulimit -n)"
				: "The internal thread or netlink cannot start",
			strerror(-rc));
		verdict_start_failed();
		return false;
	}
	started = true;
	if (hooks.started)
		hooks.started();
	progress_kick(); /* it sleeps on netlink, too, from now on */
	return true;
}

void sock_init(const struct sock_hooks *h)
{
	hooks = *h;
	list_init(&sockets);
	pools_init();
	ring_mode = (enum hold_mode)params.thread_mode;
	if (ring_mode == HOLD_SINGLE && !hold_single_supported()) {
		log_warn("VMA_THREAD_MODE=0 needs membarrier(2), which this kernel lacks; using 1");
		ring_mode = HOLD_SPIN;
	}
	rings_init(port_xdp_open);
}

static void close_at_exit(struct inet_sock *so, void *arg)
{
	(void)arg;
	if (so->inet != INET_UDP)
		close_locked(sock_ref_of(so));
	else if (!udp_lingers(so))
		verdict_count(so->verdict);
}

/* Until no orphan waits for that any more, or timeout. */
static void linger(enum tcp_orphan kind, nsec_t timeout)
{
	nsec_t deadline = clock_now() + timeout;

	while (__atomic_load_n(&tcp_orphans[kind], __ATOMIC_RELAXED) && clock_now() < deadline) {
		for (unsigned i = 0; i < rings_count(); i++)
			sock_poll_ring(rings_at(i));
		sys_sched_yield();
	}
}

static void log_moves(const char *what, const struct sock_move_stats *stats)
{
	if (stats->started)
		log_debug("sockets that moved, %s: %u started, %u finished, %u abandoned", what,
			  stats->started, stats->finished, stats->abandoned);
}

/* A thread that is stuck in a slow call must not keep the process from ending. */
static bool lock_at_exit(void)
{
	nsec_t deadline = clock_now() + EXIT_LOCK_MAX;

	while (!control_trylock()) {
		if (clock_now() > deadline)
			return false;
		sys_sched_yield();
	}
	return true;
}

/* Of a process that accelerated nothing, too. */
static void log_verdicts(void)
{
	static bool told; /* control lock, or there never was another thread of ours */

	if (!told)
		verdict_log_counts();
	told = true;
}

void sock_exit(void)
{
	if (!(started || family_is_active())) {
		log_verdicts();
		return;
	}
	if (hold_current || !lock_at_exit())
		return;
	family_exit();
	progress_stop();
	log_moves("receiving", &sock_moves_rx);
	log_moves("sending", &sock_moves_tx);
	timewait_log_stats();
	sock_each(close_at_exit, NULL);
	/* As the kernel would after a process ended, but not for as long. */
	linger(TCP_ORPHAN_UNACKED, EXIT_LINGER_MAX);
	linger(TCP_ORPHAN_HALF, EXIT_GRACE);
	for (unsigned i = 0; i < rings_count(); i++)
		ring_log_stats(rings_at(i));
	log_verdicts();
	/*
	 * Rings stay as they are: other threads may be in the middle of a call until
	 * the process is gone, and with it the kernel takes the interfaces back.
	 */
	netlink_close();
	started = false;
	start_failed = true; /* nothing begins any more */
	control_unlock();
}

bool sock_exit_by(int arg, void (*then)(int arg))
{
	if (!started && !family_is_active())
		return false;
	if (!__atomic_load_n(&exit_then, __ATOMIC_RELAXED)) {
		exit_arg = arg;
		__atomic_store_n(&exit_then, then, __ATOMIC_RELEASE);
	}
	progress_kick();
	return true;
}

/* ---- fork ---------------------------------------------------------------------------------- */

void sock_fork_prepare(void)
{
	pthread_mutex_lock(&control); /* intercept has the signals blocked */
	family_fork_prepare();
	ck_spinlock_fas_lock(&pool_lock);
}

void sock_fork_parent(void)
{
	ck_spinlock_fas_unlock(&pool_lock);
	family_fork_parent();
	pthread_mutex_unlock(&control);
}

/* Connections are in the family from now on; other sockets are the kernel's. */
static void sort_out(struct inet_sock *so, void *arg)
{
	struct list *family = arg;

	list_remove(&so->link);
	if (family_fork_child_takes(so)) {
		list_push_back(family, &so->link);
		return;
	}
	so->verdict = VERDICT_FORKED;
	verdict_count(VERDICT_FORKED);
	hooks.left(&so->sk);
}

static unsigned begin_away(struct list *family)
{
	unsigned n = 0;
	struct list *link;

	while ((link = list_pop_front(family))) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		travel_begin_away(so);
		sock_list_add(so);
		n++;
	}
	return n;
}

/*
 * Other threads of the parent may have been anywhere, rings included: nothing
 * of theirs is touched.  Old objects are abandoned, not freed.
 */
void sock_fork_child(void)
{
	struct list family;
	unsigned n;

	list_init(&family);
	family_fork_child();
	epoll_fork_child();
	ck_spinlock_fas_init(&pool_lock);
	pthread_mutex_init(&control, NULL);
	hold_current = NULL;
	ring_thread = (struct ring_thread){0};
	async_fork_child();
	sock_each(sort_out, &family);
	pools_init();
	options_fork_child();
	sock_moves_forget();
	sock_icmp_forget();
	logic_fork_child();
	if (started || progress_running()) {
		progress_forget();
		netlink_close();
		rings_forget();
		sys_fd_forget_all();
	}
	exit_then = NULL;
	started = false;
	memset(tcp_orphans, 0, sizeof(tcp_orphans));
	timewait_forget();
	n = begin_away(&family);
	family_fork_child_done(n);
}
