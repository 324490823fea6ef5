/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners of local connections, and the handler of LOCAL_CONNECT; see local_sock.h. */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"
#include "sock/local/local.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"
#include "sock/tcp/tcp_sock.h"

/* A connection that waits for room in the queue. */
struct pending {
	struct list link;
	struct local_link *from;
	uint32_t number;
	struct local_message message;
	struct local_end end; /* keeps its number; its death ends the pending connection */
	uint8_t *slot;
	nsec_t until; /* then its client does not wait any more */
};

struct local_listener {
	/* lock */
	struct list link;
	struct list pending;
	/* set when made */
	struct sock_ref ref;
	struct local_place place;
	struct local_entry entry;
	/* control lock: it is in the directory, unless one of these says no */
	bool stopped;
	bool rests;	  /* see local_listen_served() */
	nsec_t rest;	  /* the length of the last rest; 0: none so far */
	nsec_t rest_ends; /* the end of the last rest */
	nsec_t since;	  /* the first of n_brief */
	unsigned n_brief; /* connections that ended soon */
};

#define BRIEF NSEC_PER_SEC /* a connection that another process has served for less */
#define BRIEF_MAX 8	   /* of them within BRIEF_TIME; then the listener rests */
#define BRIEF_AGAIN 2	   /* ... after a rest that has just ended */
#define BRIEF_TIME (4 * NSEC_PER_SEC)
#define REST NSEC_PER_SEC /* the first time; twice as long each time that nothing else has come */
#define REST_MAX (16 * REST)

static struct list listeners;  /* lock; control lock, too, to write */
static uint32_t last_listener; /* lock */
static nsec_t look_at;	       /* lock to write, atomic: the first of pending.until; 0: none */
static nsec_t rested_at; /* control lock to write, atomic: a rest ends then, or later; 0: none */

static struct local_listener *find_listener(uint32_t socket)
{
	list_for_each(at, &listeners) {
		struct local_listener *l = container_of(at, struct local_listener, link);

		if (l->entry.socket == socket)
			return l;
	}
	return NULL;
}

bool local_may_listen(const struct inet_sock *so)
{
	/* TCP_DEFER_ACCEPT: the kernel waits for the first bytes. */
	return local_available() && !so->opt->bind_ifindex && !so->opt->defer_accept;
}

struct local_place local_place_of(const struct inet_sock *so, enum local_proto proto)
{
	bool all6 = addr_is_any(&so->local.addr) && !addr_is_v4(&so->local.addr);

	control_assert_held();
	return (struct local_place){proto, so->local, all6 && sock_has_ipv4(so)};
}

/* With SO_REUSEPORT the kernel chooses among the listeners of the port, also those of others. */
static uint64_t cookie_for(const struct inet_sock *so)
{
	return so->opt->reuseport ? sys_socket_cookie(sock_twin(&so->sk)) : 0;
}

/* A listener that was stopped, or whose SO_REUSEPORT was set, which gives it a cookie. */
static bool listen_again(struct inet_sock *so, uint64_t cookie)
{
	struct local_listener *l = so->listen.local;

	if (!l->entry.cookie && cookie) {
		local_listen_stop(so);
		l->entry.cookie = cookie;
	}
	if (l->stopped && l->rests)
		l->stopped = false; /* it is to be in the directory after the rest */
	else if (l->stopped)
		l->stopped = local_dir_add(&l->place, &l->entry);
	return !l->stopped;
}

static void leave_directory(struct local_listener *l)
{
	if (!l->stopped && !l->rests)
		local_dir_remove(&l->place, &l->entry);
}

bool local_listen(struct inet_sock *so)
{
	uint64_t cookie = cookie_for(so);
	struct local_listener *l;

	control_assert_held();
	if (so->listen.local)
		return listen_again(so, cookie);
	if (!local_may_listen(so) || (so->opt->reuseport && !cookie))
		return false;
	l = mem_zalloc(sizeof(*l));
	if (!l)
		return false;
	l->ref = sock_ref_of(so);
	l->place = local_place_of(so, LOCAL_TCP);
	list_init(&l->pending);
	local_lock();
	if (!listeners.next)
		list_init(&listeners);
	l->entry = (struct local_entry){
		.process = local_name(), .socket = ++last_listener, .cookie = cookie};
	list_push_back(&listeners, &l->link);
	local_unlock();
	if (local_dir_add(&l->place, &l->entry)) {
		local_lock();
		list_remove(&l->link);
		local_unlock();
		mem_free(l);
		return false;
	}
	so->listen.local = l;
	sock_adopt_home(so, local_ring());
	return true;
}

/* lock: the peer hears that it is refused, or why. */
static void drop_pending(struct pending *p, enum local_answer answer)
{
	struct local_shared *shared = (void *)p->slot;

	list_remove(&p->link);
	if (ring_hold_cold(local_ring())) {
		/* release: pairs with look_for_the_answer() */
		__atomic_store_n(&shared->answer, answer, __ATOMIC_RELEASE);
		local_end_post(&p->end);
		local_end_leave(&p->end);
		ring_release_cold(local_ring());
	}
	mem_free(p);
}

void local_unlisten(struct inet_sock *so)
{
	struct local_listener *l = so->listen.local;
	struct list *link;

	control_assert_held();
	if (!l)
		return;
	so->listen.local = NULL;
	leave_directory(l);
	local_lock();
	list_remove(&l->link);
	while ((link = l->pending.next) != &l->pending)
		drop_pending(container_of(link, struct pending, link), LOCAL_REFUSED);
	local_unlock();
	mem_free(l);
}

void local_listen_stop(struct inet_sock *so)
{
	struct local_listener *l = so->listen.local;

	control_assert_held();
	if (!l || l->stopped)
		return;
	leave_directory(l);
	l->stopped = true;
}

/* ---- rests (control lock) -------------------------------------------------------------------- */

static void begin_rest(struct local_listener *l, nsec_t now)
{
	bool again = l->rest && now - l->rest_ends < BRIEF_TIME;

	log_debug(
		"the kernel serves new connections of port %u for a while: those before ended soon",
		ntohs(l->place.at.port));
	l->rest = again ? 2 * l->rest : REST;
	if (l->rest > REST_MAX)
		l->rest = REST_MAX;
	l->rest_ends = now + l->rest;
	leave_directory(l);
	l->rests = true;
	l->n_brief = 0;
	if (!rested_at || l->rest_ends < rested_at)
		__atomic_store_n(&rested_at, l->rest_ends, __ATOMIC_RELAXED);
}

void local_listen_served(struct sock_ref listener, nsec_t lived)
{
	struct inet_sock *so = inet_of(listener.sk);
	struct local_listener *l;
	nsec_t now = clock_now();

	control_assert_held();
	l = sock_ref_valid(listener) && so->inet == INET_LISTEN ? so->listen.local : NULL;
	if (!l || l->rests || lived >= BRIEF)
		return;
	if (!l->n_brief || now - l->since > BRIEF_TIME) {
		l->since = now;
		l->n_brief = 0;
	}
	if (++l->n_brief == BRIEF_MAX)
		begin_rest(l, now);
}

/* Returns when the next rest ends; 0: none. */
static nsec_t end_rests(nsec_t now)
{
	nsec_t next = 0;

	list_for_each(link, &listeners) {
		struct local_listener *l = container_of(link, struct local_listener, link);

		if (l->rests && now >= l->rest_ends) {
			l->rests = false;
			l->since = now;
			l->n_brief = BRIEF_MAX - BRIEF_AGAIN;
			l->stopped = l->stopped || local_dir_add(&l->place, &l->entry);
		} else if (l->rests && (!next || l->rest_ends < next)) {
			next = l->rest_ends;
		}
	}
	return next;
}

static void look_at_rests(nsec_t now)
{
	nsec_t at = __atomic_load_n(&rested_at, __ATOMIC_RELAXED);

	if (__builtin_expect(!at || now < at, 1) || !control_trylock())
		return;
	__atomic_store_n(&rested_at, end_rests(now), __ATOMIC_RELAXED);
	control_unlock();
}

void local_listen_forget(void)
{
	listeners = (struct list){0};
	__atomic_store_n(&look_at, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rested_at, 0, __ATOMIC_RELAXED);
}

/* lock */
static void look_not_after(nsec_t until)
{
	if (!look_at || until < look_at)
		__atomic_store_n(&look_at, until, __ATOMIC_RELAXED);
}

/* lock: drops those that have waited for too long. */
static void drop_late(struct local_listener *l, nsec_t now)
{
	list_for_each_safe(link, &l->pending) {
		struct pending *p = container_of(link, struct pending, link);

		if (p->until <= now)
			drop_pending(p, LOCAL_TIMED_OUT);
		else
			look_not_after(p->until);
	}
}

void local_listeners_run(nsec_t now)
{
	nsec_t at = __atomic_load_n(&look_at, __ATOMIC_RELAXED);

	look_at_rests(now);
	if (__builtin_expect(!at || now < at, 1))
		return;
	local_lock();
	__atomic_store_n(&look_at, 0, __ATOMIC_RELAXED);
	list_for_each(at_link, &listeners)
		drop_late(container_of(at_link, struct local_listener, link), now);
	local_unlock();
}

/* ---- the handler of LOCAL_CONNECT (lock, internal thread) ----------------------------------- */

static void on_pending_notice(struct local_end *end)
{
	(void)end;
}

/* lock: nobody waits for it any more, and a listener that does not accept need not keep it. */
static void on_pending_death(struct local_end *end)
{
	struct pending *p = container_of(end, struct pending, end);

	list_remove(&p->link);
	local_end_leave(end);
	mem_free(p);
}

static const struct local_end_ops pending_ops = {.notice = on_pending_notice,
						 .died = on_pending_death};

bool local_is_address(const struct inaddr *addr)
{
	return addr_is_loopback(addr) || (!addr_needs_scope(addr) && link_of_addr(addr));
}

bool local_is_for(const struct local_place *place, const struct local_message *m)
{
	return m->to_port == place->at.port && addr_is_v4(&m->from) == addr_is_v4(&m->to) &&
	       local_place_has(place, &m->to) && local_is_address(&m->from) &&
	       (addr_eq(&place->at.addr, &m->to) || local_is_address(&m->to));
}

/* The new connection, with the options of its listener; NULL: no memory, or it does not listen. */
static struct inet_sock *new_child(const struct local_listener *l, const struct local_message *m)
{
	struct inet_sock *listener = inet_of(l->ref.sk), *child = NULL;
	struct ring *ring;

	if (sock_hold_cold(l->ref, &ring))
		return NULL;
	if (listener->inet == INET_LISTEN)
		child = sock_alloc(SOCK_TYPE_TCP);
	if (child) {
		sock_options_use(child, options_get(listener->opt));
		child->rcvtimeo = __atomic_load_n(&listener->rcvtimeo, __ATOMIC_RELAXED);
		child->sndtimeo = __atomic_load_n(&listener->sndtimeo, __ATOMIC_RELAXED);
		child->family = listener->family;
		child->local = (struct endpoint){.addr = m->to, .port = m->to_port};
		child->remote = (struct endpoint){.addr = m->from, .port = m->from_port};
		child->verdict = VERDICT_LOCAL;
		child->raw_twin = true;
	}
	ring_release_cold(ring);
	return child;
}

/* Has the accept queue room, as the kernel counts? */
static bool has_room(const struct local_listener *l)
{
	const struct inet_sock *so = inet_of(l->ref.sk);

	return __atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED) +
		       __atomic_load_n(&so->listen.coming, __ATOMIC_RELAXED) <=
	       so->listen.backlog;
}

/* Opens the end of the child in place of the pending one, and answers.  0 or -errno. */
static int open_child(struct inet_sock *child, struct pending *p)
{
	struct local_shared *shared = (void *)p->slot;
	int rc;

	if (!ring_hold_cold(local_ring()))
		return -EAGAIN;
	sock_set_home(child, local_ring());
	local_conn_begin(child, false);
	local_end_leave_to(&p->end, &child->shm.end);
	rc = local_conn_open(child, p->slot, p->message.size);
	if (!rc) {
		child->shm.established = child->shm.reported = true;
		child->shm.token = local_value(p->message.value);
		local_move_begin(child, p->message.number % LOCAL_CHUNK);
		local_conn_events(child, 0);
		if (child->shm.captured)
			local_capture_opened(child);
		/* release: pairs with look_for_the_answer() */
		__atomic_store_n(&shared->answer, LOCAL_ACCEPTED, __ATOMIC_RELEASE);
		local_end_post(&child->shm.end);
	}
	ring_release_cold(local_ring());
	return rc;
}

static void free_child(struct inet_sock *child)
{
	if (!ring_hold_cold(local_ring()))
		return;
	if (local_is_one(child))
		local_disconnect(child, true);
	sock_free(child);
	ring_release_cold(local_ring());
}

/* There is room in the queue: p becomes a connection, or is refused. */
static void accept_pending(struct local_listener *l, struct pending *p)
{
	const struct local_shared *shared = (const void *)p->slot;
	struct inet_sock *child = NULL;

	if (!__atomic_load_n(&shared->cancelled, __ATOMIC_RELAXED))
		child = new_child(l, &p->message);
	if (!child) {
		drop_pending(p, LOCAL_REFUSED);
		return;
	}
	if (open_child(child, p)) {
		free_child(child);
	} else {
		child->shm.listener = inet_of(l->ref.sk);
		child->shm.listener_gen = l->ref.gen;
		tcp_child_queue(child);
	}
	list_remove(&p->link);
	mem_free(p);
}

static void accept_all(struct local_listener *l)
{
	struct list *link;

	while ((link = l->pending.next) != &l->pending && has_room(l))
		accept_pending(l, container_of(link, struct pending, link));
	if (l->pending.next != &l->pending)
		/* Pairs with accept_finish(): accept() calls local_accepted() from now on. */
		__atomic_store_n(&inet_of(l->ref.sk)->listen.held_back, true, __ATOMIC_RELAXED);
}

void local_listen_finish(struct inet_sock *so)
{
	struct local_listener *l = so->listen.local;
	struct list *link;

	control_assert_held();
	if (!l)
		return;
	local_lock();
	while ((link = l->pending.next) != &l->pending)
		accept_pending(l, container_of(link, struct pending, link));
	local_unlock();
	local_unlisten(so);
}

void local_accepted(struct inet_sock *so)
{
	struct local_listener *l = so->listen.local;

	control_assert_held();
	__atomic_store_n(&so->listen.held_back, false, __ATOMIC_RELAXED);
	if (!l)
		return;
	local_lock();
	accept_all(l);
	local_unlock();
}

/* The responder's slot; fds: of the chunk, with its first connection.  NULL: it cannot be. */
static uint8_t *take_slot(struct local_link *link, uint32_t number, int *fds, unsigned n)
{
	struct segment *chunk = number < NOTICE_CONNS ? local_link_chunk(link, number) : NULL;

	for (unsigned i = 1; i < n; i++)
		sys_close_fd(&fds[i]);
	if (n && chunk && !chunk->base)
		local_segment_open(chunk, fds[0]);
	else if (n)
		sys_close_fd(&fds[0]);
	return chunk && chunk->base ? local_slot(chunk, number) : NULL;
}

static struct pending *new_pending(struct local_link *link, const struct local_message *m,
				   uint8_t *slot)
{
	struct pending *p = mem_zalloc(sizeof(*p));
	int rc = -EAGAIN;

	if (!p)
		return NULL;
	p->message = *m;
	p->slot = slot;
	p->end.ops = &pending_ops;
	if (ring_hold_cold(local_ring())) {
		rc = local_end_begin_at(link, &p->end, m->number);
		ring_release_cold(local_ring());
	}
	if (!rc)
		return p;
	mem_free(p);
	return NULL;
}

bool local_take_connect(struct local_link *link, const struct local_message *m, int *fds,
			unsigned n)
{
	uint8_t *slot = take_slot(link, m->number, fds, n);
	struct local_listener *l;
	struct pending *p;

	if (!slot || !local_is_capacity(m->size))
		return false;
	p = new_pending(link, m, slot);
	if (!p)
		return false;
	l = listeners.next ? find_listener(m->socket) : NULL;
	if (!l || !local_is_for(&l->place, m) || !local_may_come_from(m->from_port)) {
		list_init(&p->link);
		drop_pending(p, LOCAL_REFUSED);
		return true;
	}
	p->until = m->value[2] ? clock_now() + m->value[2] * NSEC_PER_MSEC : NSEC_NEVER;
	look_not_after(p->until);
	list_push_back(&l->pending, &p->link);
	accept_all(l);
	return true;
}
