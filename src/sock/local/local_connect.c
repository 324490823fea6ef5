/* SPDX-License-Identifier: BSD-2-Clause */
/* connect(2) of local connections, see local_sock.h; and the memory that they take. */
#include <errno.h>
#include <fcntl.h>

#include "base/delay.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "ring/progress.h"
#include "sock/core/extra/filter.h"
#include "sock/core/msg/family.h"
#include "sock/core/port/local_port.h"
#include "sock/core/sock_options.h"
#include "sock/local/local.h"
#include "sock/local/local_choice.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/wait.h"

/* ---- memory (control lock) ------------------------------------------------------------------ */

static uint64_t memory_used; /* any, atomic: bytes of the rings of connections begun here */

static uint64_t memory_limit(void)
{
	return (uint64_t)params.local_mem << 20;
}

/*
 * The capacity of each ring of a new connection: less where memory runs low, so that it suffices
 * for many.  0: there is no room.
 */
static uint32_t choose_capacity(void)
{
	uint64_t used = __atomic_load_n(&memory_used, __ATOMIC_RELAXED), limit = memory_limit();
	uint64_t left = limit > used ? limit - used : 0;
	uint32_t capacity = LOCAL_RING_MAX;

	while (capacity > LOCAL_RING_MIN && capacity > left / 128)
		capacity /= 2;
	return 2 * (uint64_t)capacity <= left ? capacity : 0;
}

bool local_memory_take(uint64_t bytes)
{
	/* Several may exceed the limit together, by little. */
	if (__atomic_load_n(&memory_used, __ATOMIC_RELAXED) + bytes > memory_limit())
		return false;
	__atomic_fetch_add(&memory_used, bytes, __ATOMIC_RELAXED);
	return true;
}

void local_memory_give(uint64_t bytes)
{
	__atomic_fetch_sub(&memory_used, bytes, __ATOMIC_RELAXED);
}

void local_memory_get(struct inet_sock *so, uint32_t capacity)
{
	so->shm.memory = 2 * capacity;
	__atomic_fetch_add(&memory_used, so->shm.memory, __ATOMIC_RELAXED);
}

void local_memory_put(struct inet_sock *so)
{
	local_memory_give(so->shm.memory);
	so->shm.memory = 0;
}

void local_memory_forget(void)
{
	__atomic_store_n(&memory_used, 0, __ATOMIC_RELAXED);
}

/* lock: the initiator's slot for a connection, all zeros; NULL: no memory. */
static uint8_t *new_slot(struct local_link *link, uint32_t number)
{
	struct segment *chunk = local_link_chunk(link, number);
	uint8_t *slot;

	if (!chunk || (!chunk->base && segment_create(chunk, LOCAL_SEGMENT, LOCAL_SEGMENT_SIZE)))
		return NULL;
	slot = local_slot(chunk, number);
	if (slot)
		segment_release(slot, LOCAL_SLOT); /* an earlier connection may have used it */
	return slot;
}

/* ---- connect (control lock) ----------------------------------------------------------------- */

bool local_find_source(const struct inet_sock *so, const struct endpoint *to, struct inaddr *src)
{
	struct route_query query = {.dst = to->addr,
				    .src = so->bound ? so->local.addr : addr_v4_any(),
				    .mark = so->opt->mark,
				    .tos = so->opt->tos};
	struct route route;

	control_assert_held();
	if (route_get(&query, &route) || route.type != ROUTE_LOCAL)
		return false;
	*src = so->bound && !addr_is_any(&so->local.addr) ? so->local.addr : route.src;
	return !addr_is_any(src);
}

static int reserve_port(struct inet_sock *so, const struct inaddr *src, const struct endpoint *to)
{
	int rc = 0;

	/* After IP_BIND_ADDRESS_NO_PORT a socket may be bound, but have no port yet. */
	if (!so->bound || !so->local.port) {
		rc = local_port_reserve(so, local_ring(), src, to);
		so->bound |= !rc;
	}
	if (!rc && addr_is_any(&so->local.addr))
		so->local.addr = *src;
	return rc == -EADDRINUSE ? -EADDRNOTAVAIL : rc;
}

/* Makes the local ring the home of a socket that has no state on its ring yet. */
static int set_home(struct inet_sock *so)
{
	struct ring *from;
	int rc = sock_hold_cold(sock_ref_of(so), &from);

	if (rc)
		return rc;
	if (from != local_ring())
		sock_set_home(so, local_ring());
	ring_release_cold(from);
	return 0;
}

/* Control lock: has this process a local connection between the same endpoints? */
static bool is_taken(const struct inet_sock *so, const struct endpoint *to)
{
	control_assert_held();
	list_for_each(link, sock_list()) {
		const struct inet_sock *other = container_of(link, struct inet_sock, link);

		if (other != so && other->inet == INET_LOCAL &&
		    other->local.port == so->local.port &&
		    addr_eq(&other->local.addr, &so->local.addr) &&
		    other->remote.port == to->port && addr_eq(&other->remote.addr, &to->addr))
			return true;
	}
	return false;
}

/* The part of a connect that holds the ring, before the slot is known. */
static int begin_end(struct inet_sock *so, struct local_link *link, const struct endpoint *to)
{
	int rc;

	if (!ring_hold_cold(local_ring()))
		return -EAGAIN;
	local_conn_begin(so, true);
	so->remote = *to;
	rc = local_end_begin(link, &so->shm.end);
	if (rc)
		local_disconnect(so, false);
	ring_release_cold(local_ring());
	return rc;
}

static int open_end(struct inet_sock *so, uint8_t *slot, uint32_t capacity)
{
	int rc = slot ? 0 : -ENOMEM;

	if (!ring_hold_cold(local_ring()))
		return -EAGAIN;
	if (!rc)
		rc = local_conn_open(so, slot, capacity);
	if (!rc && !random_bytes(&so->shm.token, sizeof(so->shm.token)))
		rc = -ENODATA;
	if (!rc)
		rc = filter_connect(so);
	if (!rc)
		local_move_begin(so, so->shm.end.number % LOCAL_CHUNK);
	if (rc)
		local_disconnect(so, false);
	else
		local_memory_get(so, capacity);
	ring_release_cold(local_ring());
	return rc;
}

#define SYN_INTERVAL 1000u /* msec: before the first SYN is sent again, RFC 6298 (2.1) */
#define SYN_INTERVAL_MAX 120000u

/* In milliseconds: how long a kernel sends SYNs that nobody answers; TCP_USER_TIMEOUT may end that before. */
static uint32_t patience(const struct sock_options *opt)
{
	unsigned linear = tcp_settings.syn_linear;
	unsigned retries = linear + (opt->syncnt ? opt->syncnt : tcp_settings.syn_retries);
	uint32_t interval = SYN_INTERVAL, sum = SYN_INTERVAL;
	nsec_t most = opt->user_timeout;

	for (unsigned i = 1; i <= retries; i++) {
		if (i > linear)
			interval *= 2;
		interval = interval < SYN_INTERVAL_MAX ? interval : SYN_INTERVAL_MAX;
		sum += interval;
	}
	return most && most < sum * NSEC_PER_MSEC ? (uint32_t)(most / NSEC_PER_MSEC) : sum;
}

/* lock: asks the listener.  The chunk goes with its first connection. */
static int ask(struct inet_sock *so, struct local_link *link, uint32_t socket, uint32_t capacity)
{
	int chunk = local_link_chunk_to_send(link, so->shm.end.number);
	struct local_message message = {
		.kind = LOCAL_CONNECT,
		.number = so->shm.end.number,
		.socket = socket,
		.size = capacity,
		.from = so->local.addr,
		.to = so->remote.addr,
		.from_port = so->local.port,
		.to_port = so->remote.port,
		.value = {(uint32_t)so->shm.token, (uint32_t)(so->shm.token >> 32),
			  patience(so->opt)},
	};
	int rc = local_link_send(link, &message, chunk);

	if (!rc)
		local_link_chunk_sent(link, so->shm.end.number);
	return rc;
}

/* lock: begins the connection on the link.  0, or -errno and nothing has happened. */
static int begin_on(struct inet_sock *so, struct local_link *link, uint32_t socket,
		    const struct endpoint *to, uint32_t capacity)
{
	struct ring *ring;
	int rc = begin_end(so, link, to);

	/* A notice to the number's last connection may come now. */
	delay_at(DELAY_LOCAL);
	if (!rc)
		rc = open_end(so, new_slot(link, so->shm.end.number), capacity);
	if (rc)
		return rc;
	rc = ask(so, link, socket, capacity);
	if (rc && !sock_hold_cold(sock_ref_of(so), &ring)) {
		local_disconnect(so, false);
		ring_release_cold(ring);
	}
	return rc;
}

/*
 * Of the processes that have a listener there, those stay in found that have the one which the kernel
 * chooses for this client.  Their number; 0: the kernel connects.
 */
static unsigned keep_chosen(const struct inet_sock *so, const struct endpoint *to,
			    struct local_entry *found, unsigned n)
{
	enum local_sharing sharing = local_sharing(found, n);
	const struct local_entry *chosen;
	uint64_t cookie;
	unsigned kept = 0;

	if (sharing != LOCAL_SHARED)
		return sharing == LOCAL_UNSHARED ? n : 0;
	chosen = local_choice(LOCAL_TCP, &so->local, to, found, n);
	if (!chosen)
		return 0;
	cookie = chosen->cookie;
	for (unsigned i = 0; i < n; i++) {
		if (found[i].cookie == cookie)
			found[kept++] = found[i];
	}
	return kept;
}

/*
 * Begins the connection with the first of these processes that can be reached, beginning at a random
 * one: they have the same listener.
 */
static int begin_with_any(struct inet_sock *so, const struct endpoint *to,
			  const struct local_place *at, const struct local_entry *found, unsigned n,
			  uint32_t capacity)
{
	unsigned first = (ntohs(so->local.port) * 2654435761u >> 8) % n;
	int rc = -ECONNREFUSED;

	local_lock();
	for (unsigned i = 0; i < n && rc; i++) {
		const struct local_entry *entry = &found[(first + i) % n];
		struct local_link *link;

		rc = local_link_to(entry->process, &link);
		if (!rc)
			rc = begin_on(so, link, entry->socket, to, capacity);
		if (rc == -ECONNREFUSED) /* its process has ended */
			local_dir_remove(at, entry);
	}
	local_unlock();
	return rc;
}

int local_connect(struct inet_sock *so, const struct endpoint *to)
{
	struct local_entry found[LOCAL_MEMBERS];
	struct local_place place = {.proto = LOCAL_TCP, .at = *to}, at;
	uint32_t capacity;
	struct inaddr src;
	bool chosen = so->bound && so->local.port; /* by the program: others may have it, too */
	unsigned n;
	int rc;

	control_assert_held();
	if (!local_available() || so->opt->bind_ifindex || addr_is_any(&to->addr) ||
	    addr_needs_scope(&to->addr))
		return SOCK_KERNEL;
	n = local_dir_find(&place, &at, found);
	capacity = n ? choose_capacity() : 0;
	if (!capacity || !local_find_source(so, to, &src))
		return SOCK_KERNEL;
	rc = reserve_port(so, &src, to);
	if (rc)
		return rc;
	/* A connection to itself is the kernel's: a simultaneous open. */
	if (so->local.port == to->port && addr_eq(&so->local.addr, &to->addr))
		return SOCK_KERNEL;
	if (!local_may_come_from(so->local.port))
		return SOCK_KERNEL;
	if (chosen && is_taken(so, to))
		return -EADDRNOTAVAIL;
	n = keep_chosen(so, to, found, n);
	if (!n)
		return SOCK_KERNEL;
	rc = set_home(so);
	if (!rc)
		rc = begin_with_any(so, to, &at, found, n, capacity);
	if (rc) {
		log_debug("fd %d: not through shared memory: %s", sock_twin(&so->sk),
			  strerrordesc_np(-rc));
		return SOCK_KERNEL;
	}
	so->verdict = VERDICT_LOCAL;
	sock_stats_begin(so, false);
	return 0;
}

/* ---- refusals ------------------------------------------------------------------------------- */

#define BY_KERNEL EINPROGRESS /* tcp.error, until the socket has left */

static bool refusals; /* any, atomic: there may be some for local_connects_run() */

void local_connect_refused(struct inet_sock *so)
{
	__atomic_store_n(&so->shm.refused, true, __ATOMIC_RELAXED);
	/* release: pairs with local_connects_run() */
	__atomic_store_n(&refusals, true, __ATOMIC_RELEASE);
	progress_kick();
}

/* The twin's connect(2), which does not wait.  0 or -errno. */
static int connect_twin(const struct inet_sock *so)
{
	int fd = sock_twin(&so->sk), flags = sys_fcntl(fd, F_GETFL, 0), rc;
	bool blocks = !(flags & O_NONBLOCK);

	if (blocks)
		sys_fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	rc = sock_twin_connect(so, &so->remote);
	if (blocks)
		sys_fcntl(fd, F_SETFL, flags);
	return rc == -EINPROGRESS ? 0 : rc;
}

int local_connect_by_kernel(struct inet_sock *so, enum verdict reason, bool anyway)
{
	struct ring *ring;
	int rc;

	control_assert_held();
	control_assert_no_ring();
	rc = connect_twin(so);
	if (!rc || anyway)
		rc = sock_hold_cold(sock_ref_of(so), &ring);
	if (rc)
		return rc;
	local_disconnect(so, false);
	so->tcp.error = BY_KERNEL;
	ring_release_cold(ring);
	return sock_leave(so, reason);
}

static void connect_refused(struct inet_sock *so)
{
	struct ring *ring;
	int rc;

	if (so->inet != INET_LOCAL || !local_is_refused(so) || so->shm.ended)
		return;
	rc = local_connect_by_kernel(so, VERDICT_LOOPBACK, false);
	if (!rc || sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (local_is_one(so))
		local_conn_fail(so, -rc);
	ring_release_cold(ring);
}

bool local_connects_run(void)
{
	if (__builtin_expect(!__atomic_load_n(&refusals, __ATOMIC_RELAXED), 1))
		return false;
	if (!control_trylock())
		return true;
	/* acquire: pairs with local_connect_refused(): those of before are seen in this round */
	if (__atomic_exchange_n(&refusals, false, __ATOMIC_ACQ_REL)) {
		list_for_each_safe(link, sock_list())
			connect_refused(container_of(link, struct inet_sock, link));
	}
	control_unlock();
	return false;
}

/* ---- the wait for the answer ---------------------------------------------------------------- */

static bool connect_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct inet_sock *so = arg;

	(void)wait;
	ring_poll(ring);
	*n = 0;
	if (!local_is_one(so))
		*n = so->tcp.error == BY_KERNEL ? SOCK_KERNEL : -ECONNABORTED;
	else if (so->shm.ended && !so->shm.established)
		*n = so->shm.error ? -local_conn_take_error(so) : -ECONNABORTED;
	else if (so->shm.established)
		so->shm.reported = true;
	else
		*n = SOCK_TRY_WAIT;
	return *n != SOCK_TRY_WAIT;
}

/* The connection failed, and connect(2) has reported that: the socket can be connected again. */
static void discard_refused(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;

	if (!control_lock())
		return;
	sock_stats_end(so);
	if (!sock_hold_cold(ref, &ring)) {
		if (local_is_one(so) && so->shm.ended)
			local_disconnect(so, false);
		ring_release_cold(ring);
	}
	control_unlock();
}

int local_connect_wait(struct sock_ref ref, const struct sock_call *call)
{
	int rc;

	if (call->dontwait)
		return -EINPROGRESS;
	rc = (int)sock_wait_loop(*call, SOCK_WAIT_COLD, connect_try, NULL, inet_of(ref.sk));
	if (rc == -EAGAIN)
		return -EINPROGRESS;
	if (rc == SOCK_KERNEL) {
		if (control_lock()) /* after local_connect_by_kernel() */
			control_unlock();
		return rc;
	}
	if (rc && rc != -EINTR)
		discard_refused(ref);
	return rc;
}

void local_disconnect(struct inet_sock *so, bool reset)
{
	int error = so->shm.error;

	local_conn_close(so, reset);
	so->inet = INET_TCP;
	tcp_part_init(so);
	sock_life_set(so, LIFE_OPEN);
	/* Pairs with sock_ops_of(). */
	__atomic_store_n(&so->sk.ops, &tcp_sock_ops[ring_mode_now()], __ATOMIC_RELEASE);
	so->shut_rd = so->shut_wr = false;
	if (!so->bound_addr)
		so->local.addr = sock_addr_any(so); /* the next peer may need another one */
	so->tcp.error = (uint8_t)(reset ? ECONNRESET : error);
	tcp_update_events(so, 0);
}
