/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/xtreme.h"

#include <errno.h>

#include "base/delay.h"
#include "base/mem.h"
#include "sock/core/extra/filter.h"
#include "sock/core/kind.h"

#define NEXT_TO(type, member, next)                                                  \
	_Static_assert(offsetof(type, next) ==                                       \
			       offsetof(type, member) + sizeof(((type *)0)->member), \
		       #next)

/* xtreme_fill() copies two at once. */
NEXT_TO(struct vma_completion_t, events, user_data);
NEXT_TO(struct vma_completion_t, listen_fd, flow_tag);
NEXT_TO(struct xtreme_name, events, user_data);
NEXT_TO(struct xtreme_name, listen_fd, flow_tag);

#define REPORTED (EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP)

struct xtreme_queue *xtreme_queues[SOCK_RING_NUMBERS];

/* ---- queues ------------------------------------------------------------------------------- */

/* holder, of a ring that has none.  NULL: as queue_made(). */
static __attribute__((noinline)) struct xtreme_queue *make_queue(const struct ring *ring)
{
	struct xtreme_queue *q = NULL;

	ring_assert_held(ring);
	if (ring->id < SOCK_RING_NUMBERS)
		q = mem_zalloc(sizeof(*q));
	if (!q)
		return NULL;
	list_init(&q->ready);
	buff_store_init(&q->store, ring->id);
	/* release: pairs with xtreme_queue_of() */
	__atomic_store_n(&xtreme_queues[ring->id], q, __ATOMIC_RELEASE);
	return q;
}

/* holder: the queue, made at need.  NULL: no memory, or the ring has no number (rings_nowhere()). */
static inline struct xtreme_queue *queue_made(const struct ring *ring)
{
	struct xtreme_queue *q = xtreme_queue_of(ring->id);

	return __builtin_expect(q != NULL, 1) ? q : make_queue(ring);
}

/* ---- watches (holder) --------------------------------------------------------------------- */

static const struct watch_ops watch_ops;

static struct xtreme *xtreme_of(const struct inet_sock *so)
{
	list_for_each(link, &so->sk.watches) {
		struct watch *watch = container_of(link, struct watch, link);

		if (watch->ops == &watch_ops)
			return container_of(watch, struct xtreme, watch);
	}
	return NULL;
}

/* The next poll of the ring, home of the socket, looks at it. */
static void enqueue(struct xtreme *x, const struct ring *ring)
{
	struct xtreme_queue *q = queue_made(ring);

	if (q && !list_linked(&x->ready))
		list_push_back(&q->ready, &x->ready);
}

static void notify(struct watch *watch, uint32_t events)
{
	struct xtreme *x = container_of(watch, struct xtreme, watch);

	x->pending |= events & REPORTED;
	if (!list_linked(&x->ready))
		enqueue(x, sock_home(inet_of(watch->sk)));
}

static void free_watch(struct watch *watch)
{
	struct xtreme *x = container_of(watch, struct xtreme, watch);
	struct inet_sock *so = inet_of(watch->sk);

	if (list_linked(&x->ready))
		list_remove(&x->ready);
	if (so->inet == INET_UDP)
		so->udp.xtreme = NULL;
	mem_free(x);
}

static const struct watch_ops watch_ops = {.notify = notify, .free = free_watch};

void xtreme_leave(struct inet_sock *so)
{
	struct xtreme *x = xtreme_of(so);

	if (x && list_linked(&x->ready)) /* what is pending stays so */
		list_remove(&x->ready);
}

void xtreme_arrive(struct inet_sock *so, struct ring *ring)
{
	struct xtreme *x = xtreme_of(so);

	if (!x)
		return;
	x->pending |= sock_own_events(so) & (EPOLLIN | EPOLLERR | EPOLLRDHUP);
	if (x->pending)
		enqueue(x, ring);
}

/* Posted to the new home of a socket, follows the socket to the next one. */
struct follow_item {
	struct inbox_item item;
	struct sock_ref ref;
};

static void follow_run(struct ring *ring, struct inbox_item *item)
{
	struct follow_item *follow = container_of(item, struct follow_item, item);
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&follow->ref.sk->home, __ATOMIC_ACQUIRE);

	if (home != ring && sock_ref_valid(follow->ref)) {
		ring_post(home, item);
		return;
	}
	if (sock_at_home(follow->ref, ring))
		xtreme_arrive(inet_of(follow->ref.sk), ring);
	mem_free(follow);
}

void xtreme_follow(struct inet_sock *so, struct ring *ring)
{
	struct follow_item *follow;

	if (list_empty(&so->sk.watches))
		return;
	follow = mem_alloc(sizeof(*follow));
	if (!follow)
		return; /* the next event enqueues it */
	follow->item.run = follow_run;
	follow->ref = sock_ref_of(so);
	ring_post(ring, &follow->item);
}

/* ---- taking part -------------------------------------------------------------------------- */

/* holder: of what has happened already, a socket without a connection has nothing to report. */
static void add(struct xtreme *x, struct inet_sock *so, struct ring *ring)
{
	watch_add(&x->watch);
	x->name.flow_tag = so->opt->flow_tag;
	if (so->inet == INET_UDP)
		so->udp.xtreme = x;
	if (sock_own_events(so) & EPOLLIN)
		x->pending = sock_own_events(so) & REPORTED & ~(uint32_t)EPOLLOUT;
	if (x->pending)
		enqueue(x, ring);
}

int xtreme_begin(struct sock_ref ref, int fd)
{
	struct xtreme *x = mem_zalloc(sizeof(*x));
	struct ring *ring;
	int rc;

	if (!x)
		return -ENOMEM;
	watch_init(&x->watch, NULL, ref.sk, 0);
	x->watch.ops = &watch_ops;
	list_init(&x->ready);
	x->fd = fd;
	x->name.events = VMA_SOCKETXTREME_PACKET;
	x->name.user_data = (uint64_t)fd;
	rc = sock_hold_cold(ref, &ring);
	if (!rc) {
		if (!xtreme_of(inet_of(ref.sk))) {
			add(x, inet_of(ref.sk), ring);
			x = NULL;
		}
		ring_release_cold(ring);
	}
	mem_free(x);
	return rc;
}

static int with_user_data(struct sock_ref ref, uint64_t *data, bool set)
{
	struct xtreme *x;
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	x = xtreme_of(inet_of(ref.sk));
	if (!x)
		rc = -ENOMEM; /* there was none for it when the socket was made */
	else if (set)
		x->name.user_data = *data;
	else
		*data = x->name.user_data;
	ring_release_cold(ring);
	return rc;
}

int xtreme_set_user_data(struct sock_ref ref, uint64_t data)
{
	return with_user_data(ref, &data, true);
}

int xtreme_get_user_data(struct sock_ref ref, uint64_t *data)
{
	return with_user_data(ref, data, false);
}

void xtreme_set_flow_tag(struct inet_sock *so, uint32_t tag)
{
	struct xtreme *x = xtreme_of(so);

	ring_assert_held(sock_home(so));
	if (x)
		x->name.flow_tag = tag;
}

void xtreme_again(struct sock_ref ref)
{
	struct ring *ring;

	if (sock_hold_cold(ref, &ring))
		return;
	xtreme_arrive(inet_of(ref.sk), ring);
	ring_release_cold(ring);
}

/* ---- a poll (holder) ---------------------------------------------------------------------- */

void xtreme_set_sender(struct vma_completion_t *c, const struct endpoint *from)
{
	memset(&c->src, 0, sizeof(c->src));
	if (addr_is_v4(&from->addr))
		filter_set_address(&c->src, &from->addr.w[3], &from->port);
	else /* no room for its address */
		c->src = (struct sockaddr_in){.sin_family = AF_INET6, .sin_port = from->port};
}

static void add_events(struct xtreme_batch *b, const struct xtreme *x, uint32_t events)
{
	struct vma_completion_t *c = &b->completions[b->n++];

	memset(c, 0, sizeof(*c));
	c->events = events;
	c->user_data = x->name.user_data;
}

/* Connections wait.  False: no room. */
static bool add_listener(struct xtreme_batch *b, struct xtreme *x)
{
	if (b->n_listeners == XTREME_BATCH || !xtreme_has_room(b))
		return false;
	b->listeners[b->n_listeners++] = (struct xtreme_listener){
		.ref = sock_ref_of(inet_of(x->watch.sk)),
		.fd = x->fd,
	};
	return true;
}

/* Takes what the socket has.  True: something is left for the next poll. */
static bool take(struct xtreme_batch *b, struct xtreme *x, struct ring *ring)
{
	struct inet_sock *so = inet_of(x->watch.sk);
	const struct sock_kind *kind = sock_kind_of(so);
	uint32_t events;

	if (kind->xtreme_take && kind->xtreme_take(so, ring, b, &x->name))
		return true;
	events = x->pending & sock_own_events(so);
	if (so->inet == INET_LISTEN && events & EPOLLIN) {
		if (!add_listener(b, x))
			return true;
		events &= ~(uint32_t)EPOLLIN;
	}
	if (events && !xtreme_has_room(b))
		return true;
	if (events)
		add_events(b, x, events);
	x->pending = 0;
	return false;
}

/* Once through the list. */
static void take_ready(struct xtreme_queue *q, struct xtreme_batch *b, struct ring *ring)
{
	const struct list *last = q->ready.prev;
	struct list *link;

	while (xtreme_has_room(b) && (link = list_pop_front(&q->ready))) {
		struct xtreme *x = container_of(link, struct xtreme, ready);

		if (take(b, x, ring) && !list_linked(&x->ready))
			list_push_back(&q->ready, &x->ready);
		if (link == last)
			break;
	}
}

void xtreme_poll(unsigned number, struct xtreme_batch *b)
{
	struct ring *ring = rings_at(number);
	struct xtreme_queue *q;

	b->n = b->n_listeners = 0;
	if (!ring_hold_cold(ring))
		return;
	q = queue_made(ring);
	if (q) {
		b->store = &q->store;
		if (buff_has_returned(&q->store))
			buff_take_returned(&q->store, ring);
		if (!list_empty(&q->ready)) {
			ring_set_now(ring, clock_now());
			take_ready(q, b, ring);
		}
		if (xtreme_has_room(b)) {
			q->batch = b;
			ring_poll(ring);
			q->batch = NULL;
			if (!list_empty(&q->ready))
				take_ready(q, b, ring);
		}
	}
	ring_release_cold(ring);
}

/* ---- the process -------------------------------------------------------------------------- */

void xtreme_run(void)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		struct xtreme_queue *q = xtreme_queue_of(i);

		if (q && buff_has_returned(&q->store))
			buff_store_post(&q->store);
	}
}

void xtreme_fork_child(void)
{
	memset(xtreme_queues, 0,
	       sizeof(xtreme_queues)); /* other threads of the parent may have been in them */
	buff_fork_child();
}

void xtreme_fork_child_sock(struct inet_sock *so)
{
	if (so->inet == INET_UDP)
		so->udp.xtreme = NULL; /* the parent's */
}
