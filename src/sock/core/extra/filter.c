/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/filter.h"

#include <errno.h>

#include "base/busy.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/signals.h"
#include "sock/core/extra/held.h"
#include "sock/core/kind.h"

/*
 * Of this thread: the filters that it has claimed, oldest first, and the one that it runs.
 *
 * A signal handler of the program may leave the call by siglongjmp().  From a claim on, handlers are
 * deferred (ring_run_last()), but for the time in which callbacks are called: then a cleanup record
 * gives all of these filters up.  So whenever a handler runs, none is left that it could strand.
 */
static __thread struct {
	struct filter *first, *last, *current;
	bool running; /* in run_filters() */
} filters __attribute__((tls_model("initial-exec")));

static void run_filters(void);
static void wait_for_program(struct filter *f, struct ring *ring);

_Static_assert(offsetof(struct filter, fd) ==
			       offsetof(struct filter, flow_tag) + sizeof(uint32_t) &&
		       offsetof(struct filter_batch, fd) ==
			       offsetof(struct filter_batch, info.flow_tag) + sizeof(uint32_t),
	       "take() copies both");

_Static_assert(VMA_PACKET_DROP == 0, "for show()");

static struct inet_sock *sock_of(const struct filter *f)
{
	return inet_of(f->ref.sk);
}

/* holder: of a connection within this host, or as the socket was made. */
static const struct filter_kind *kind_of(const struct inet_sock *so)
{
	return (so->inet == INET_LOCAL ? sock_kind_of(so) : sock_kind_made(&so->sk))->filter;
}

/* holder */
static struct filter *filter_of(const struct inet_sock *so)
{
	return kind_of(so)->get(so);
}

/* ---- claiming (holder of home) ---------------------------------------------------------- */

/* May this thread run callbacks when it has released the ring? */
static bool may_run(void)
{
	return !ring_thread.internal && !busy_locks && !signals_are_blocked();
}

/* holder of home: the oldest unseen packets are the next ones that the callback is called for. */
static void take(struct filter *f)
{
	struct filter_batch *b = &f->batch;

	b->callback = f->callback;
	b->context = f->context;
	b->ref = f->ref;
	b->info.struct_sz = sizeof(b->info);
	b->info.src = &b->src.in;
	b->info.dst = &b->dst.in;
	b->info.packet_id = f->held_id;
	__builtin_memcpy(&b->info.flow_tag, &f->flow_tag, 2 * sizeof(uint32_t));
	__atomic_store_n(&f->changed, 0, __ATOMIC_RELAXED);
	f->kind->take(f, b);
}

static void claim(struct filter *f)
{
	if (f->kind->takes_at_once)
		take(f);
	f->running = true;
	f->next = NULL;
	if (filters.first)
		filters.last->next = f;
	else
		filters.first = f;
	filters.last = f;
	if (!filters.running) /* otherwise run_filters() goes on with it */
		ring_run_last(run_filters);
}

void filter_wake(struct filter *f, struct ring *ring)
{
	if (may_run())
		claim(f);
	else
		wait_for_program(f, ring);
}

static void work_run(struct ring *ring, struct ring_work *work, nsec_t now)
{
	(void)now;
	filter_look(container_of(work, struct filter, work), ring);
}

/* The next thread of the program that polls the ring claims it; one that sleeps wakes up. */
static void wait_for_program(struct filter *f, struct ring *ring)
{
	ring_work_later(ring, &f->work);
	ready_notify(f->ref.sk, EPOLLIN | EPOLLRDNORM);
}

/* ---- ending (holder of home) ------------------------------------------------------------- */

static void free_filter(struct filter *f)
{
	if (f->held)
		held_cancel(f->held);
	mem_free(f);
}

/* The second one of the two who know the filter frees it. */
static void part(struct filter *f)
{
	/* Pairs with itself: orders what the first one did with the filter before the free. */
	if (__atomic_exchange_n(&f->ends, true, __ATOMIC_ACQ_REL))
		free_filter(f);
}

/* holder, or whoever was it when the socket ended: does the socket have another one, or none? */
static bool is_off(const struct filter *f)
{
	return __atomic_load_n(&f->ends, __ATOMIC_RELAXED);
}

/* The socket has no filter any more; whoever runs it notices. */
static void take_off(struct filter *f)
{
	f->kind->set(sock_of(f), NULL);
	if (list_linked(&f->work.link))
		list_remove(&f->work.link);
	__atomic_store_n(&f->changed, 1, __ATOMIC_RELAXED);
	if (f->running)
		part(f);
	else
		free_filter(f);
}

void filter_pass(struct filter *f)
{
	if (!f)
		return;
	f->kind->pass(f);
	take_off(f);
}

void filter_end(struct filter *f)
{
	if (!f)
		return;
	f->kind->discard(f);
	take_off(f);
}

void filters_fork_child(void)
{
	if (filters.current) { /* this thread is in its callback: show() sees it */
		__atomic_store_n(&filters.current->changed, 1, __ATOMIC_RELAXED);
		sock_signals.handled++; /* the call that the callback runs in ends with EINTR */
	}
	memset(&filters, 0, sizeof(filters));
	sock_in_callback = false;
	filter_early_fork_child();
}

/* ---- a move ------------------------------------------------------------------------------ */

/* Posted to the home that is left, follows the socket to its new one. */
struct follow_item {
	struct inbox_item item;
	struct sock_ref ref;
};

static void follow_run(struct ring *ring, struct inbox_item *item)
{
	struct follow_item *follow = container_of(item, struct follow_item, item);
	struct sock *sk = follow->ref.sk;
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&sk->home, __ATOMIC_ACQUIRE);

	if (home != ring && sock_ref_valid(follow->ref)) {
		ring_post(home, item);
		return;
	}
	if (sock_at_home(follow->ref, ring) && filter_of(inet_of(sk)))
		filter_look(filter_of(inet_of(sk)), ring);
	mem_free(follow);
}

void filter_leave(struct filter *f, struct ring *ring)
{
	struct follow_item *follow;

	if (!f)
		return;
	if (list_linked(&f->work.link))
		list_remove(&f->work.link);
	if (f->running || !f->kind->waits(f))
		return;
	follow = mem_alloc(sizeof(*follow));
	if (!follow)
		return; /* the next arrival does it */
	follow->item.run = follow_run;
	follow->ref = f->ref;
	ring_post(ring, &follow->item);
}

/* ---- running (no ring held) ---------------------------------------------------------------- */

/*
 * As sock_hold_cold(), but ->ref is read holding home: filter_keep() may change it.  False: the socket
 * is gone.
 */
static inline bool hold_socket(struct filter *f, struct ring **ring)
{
	struct sock *sk = f->ref.sk;
	struct ring *home;

	for (;;) {
		/* Pairs with sock_set_home() and with the ARRIVE of a move. */
		home = __atomic_load_n(&sk->home, __ATOMIC_ACQUIRE);
		if (!ring_hold_cold(home))
			return false;
		/* Pairs with sock_set_home(), as above. */
		if (__builtin_expect(__atomic_load_n(&sk->home, __ATOMIC_ACQUIRE) == home, 1))
			break;
		ring_release_cold(home);
	}
	if (__builtin_expect(__atomic_load_n(&sk->gen, __ATOMIC_RELAXED) == f->ref.gen, 1)) {
		*ring = home;
		return true;
	}
	ring_release_cold(home);
	return false;
}

/* The socket is gone. */
static void obey_gone(struct filter_batch *b)
{
	if (b->passed)
		pkt_free(b->passed);
	pkt_free_list(b->first);
	b->passed = b->first = b->shown = NULL;
}

/* holder of home: does what the callback said about the packets that were taken, if any were. */
static void obey(struct filter *f, struct ring *ring)
{
	if (f->batch.callback)
		f->kind->obey(f, &f->batch, ring);
	f->batch.callback = NULL;
}

/*
 * Does what the callback said about the last packets and takes the next ones.  False: there are
 * none, and this thread does not run the filter any more.
 */
static bool next_batch(struct filter *f)
{
	struct ring *ring;
	bool goes_on = false;

	if (!hold_socket(f, &ring)) {
		obey_gone(&f->batch);
		part(f);
		return false;
	}
	obey(f, ring);
	if (is_off(f)) {
		part(f);
	} else if (!f->callback) {
		f->running = false;
		filter_pass(f);
	} else if (!f->kind->waits(f)) {
		f->running = false;
	} else {
		take(f);
		goes_on = true;
	}
	ring_release_cold(ring);
	return goes_on;
}

/* Another thread may run it. */
static __attribute__((noinline, cold)) void give_up(struct filter *f)
{
	struct ring *ring;

	if (!hold_socket(f, &ring)) {
		obey_gone(&f->batch);
		part(f);
		return;
	}
	obey(f, ring);
	if (is_off(f)) {
		part(f);
	} else {
		f->running = false;
		if (!f->callback)
			filter_pass(f);
		else if (f->kind->waits(f))
			wait_for_program(f, ring);
	}
	ring_release_cold(ring);
}

static struct filter *pop_filter(void)
{
	struct filter *f = filters.first;

	if (f)
		filters.first = f->next;
	return f;
}

/*
 * The callback does not return: its thread was cancelled, it has thrown, or it or a signal handler has
 * jumped.  A handler that jumps, too, at the begin or at the end, has it called again.
 */
static void leave(void *arg)
{
	struct filter *f;

	(void)arg;
	busy_defer_begin();
	sock_in_callback = false;
	f = filters.current;
	filters.current = NULL;
	for (; f; f = pop_filter())
		give_up(f);
	filters.running = false;
	busy_defer_end();
}

static struct timespec spec_of(nsec_t stamp)
{
	return (struct timespec){stamp / NSEC_PER_SEC, stamp % NSEC_PER_SEC};
}

/* There is a slot for a packet that the program may hold, if there is memory. */
static __attribute__((noinline)) void prepare_held(struct filter *f)
{
	f->held = held_new();
	f->held_id = f->held ? held_id(f->held) : NULL;
	f->batch.info.packet_id = f->held_id;
}

void filter_describe_alike(struct filter_batch *b, const struct pkt *pkt)
{
	(void)pkt;
	b->src = b->alike_src;
	b->dst = b->alike_dst;
}

/* What the callback is told about a packet that is not like the one before. */
static __attribute__((noinline)) void describe(struct filter *f, const struct pkt *pkt)
{
	struct filter_batch *b = &f->batch;

	f->kind->describe(b, pkt);
	b->info.hw_timestamp = (struct timespec){0};
	if (__builtin_expect(pkt->flags & PKT_ARRIVAL, 0))
		b->info.hw_timestamp = spec_of(pkt_arrival(pkt)->device);
	if (pkt->stamp != b->stamp) { /* those of one poll have the same */
		b->stamp = pkt->stamp;
		b->info.sw_timestamp = spec_of(pkt->stamp);
	}
}

/* Takes the packet that was shown last out of the batch. */
static void take_out(struct filter_batch *b)
{
	struct pkt *pkt = b->shown, *before = NULL;

	for (struct pkt *p = b->first; p != pkt; p = p->next)
		before = p;
	b->shown = before;
	if (before)
		before->next = pkt->next;
	else
		b->first = pkt->next;
	if (b->last == pkt)
		b->last = before;
}

static void hold_packet(struct filter *f, struct pkt *pkt)
{
	struct filter_batch *b = &f->batch;
	struct held *held = f->held;

	take_out(b);
	f->held = NULL;
	b->held++;
	b->held_bytes += pkt->len; /* before another thread of the program frees it */
	held_fill(held, b->ref, pkt, f->kind->charge(pkt));
	prepare_held(f);
}

/* What the callback said about the packet that was shown last, if that was not to drop it. */
static void obey_verdict(struct filter *f, struct pkt *pkt, vma_recv_callback_retval_t verdict)
{
	if (verdict == VMA_PACKET_RECV) {
		take_out(&f->batch);
		f->batch.passed = pkt;
	} else if (verdict == VMA_PACKET_HOLD && f->held && sock_ref_valid(f->batch.ref)) {
		hold_packet(f, pkt);
	}
}

/*
 * The callback has not just said that the packet is dropped, or was changed.  True: the next one is
 * shown.
 */
static __attribute__((noinline)) bool goes_on(struct filter *f, unsigned forks, struct pkt *pkt,
					      vma_recv_callback_retval_t verdict)
{
	if (forks != ready_forks)
		return false; /* the child of a fork() in the callback: the filter is the parent's */
	busy_defer_begin();
	obey_verdict(f, pkt, verdict);
	busy_defer_end();
	return verdict != VMA_PACKET_RECV && __atomic_load_n(&f->changed, __ATOMIC_RELAXED) == 0;
}

/* Calls the callback for the packets of the batch, or for the first ones. */
static void show(struct filter *f, unsigned forks)
{
	struct filter_batch *b = &f->batch;
	struct pkt *pkt = b->first;

	if (__atomic_load_n(&f->changed, __ATOMIC_RELAXED))
		return;
	while (pkt) {
		struct iovec iov = {pkt_payload(pkt), pkt->len};
		vma_recv_callback_retval_t verdict;

		b->info.payload_sz = pkt->len;
		if (__builtin_expect(pkt->flags & PKT_APART, 0)) {
			describe(f, pkt);
		} else {
			b->src.in = b->alike_src.in;
			b->dst.in = b->alike_dst.in;
		}
		b->shown = pkt; /* unless the callback says something else, it is dropped */
		verdict = b->callback(b->fd, 1, &iov, &b->info, b->context);
		if (!((unsigned)verdict | __atomic_load_n(&f->changed, __ATOMIC_RELAXED)))
			pkt = pkt->next; /* VMA_PACKET_DROP */
		else if (goes_on(f, forks, pkt, verdict))
			pkt = filter_unseen(b);
		else
			return;
	}
}

/* False: this is the child of a fork() in a callback. */
static bool run(struct filter *f, unsigned forks)
{
	filters.current = f;
	for (bool more = f->batch.callback || next_batch(f); more; more = next_batch(f)) {
		if (__builtin_expect(!f->held, 0))
			prepare_held(f);
		sock_in_callback = true;
		busy_defer_end();
		show(f, forks);
		busy_defer_begin();
		sock_in_callback = false;
		if (forks != ready_forks)
			return false;
	}
	filters.current = NULL;
	return true;
}

/*
 * Handlers are deferred.  longjmp() compares the address of undo with the stack: AddressSanitizer must
 * leave it there.
 */
__attribute__((no_sanitize_address)) static void run_filters(void)
{
	unsigned forks = ready_forks;
	struct cleanup undo;
	struct filter *f;
	int saved = errno;

	assert(busy_defers == 1);
	sock_signal_enters(); /* the thread may be about to sleep, and the callback may sleep, too */
	filters.running = true;
	cleanup_push(&undo, leave, NULL);
	while ((f = pop_filter()) && run(f, forks))
		;
	cleanup_pop(&undo);
	filters.running = false;
	errno = saved;
}

/* ---- registering ------------------------------------------------------------------------- */

static void change(struct filter *f, int fd, vma_recv_callback_t callback, void *context)
{
	f->callback = callback;
	f->context = context;
	f->fd = fd;
	__atomic_store_n(&f->changed, 1, __ATOMIC_RELAXED);
	if (!callback && !f->running)
		filter_pass(f);
}

int filter_begin(struct inet_sock *so, struct filter *f, int fd, vma_recv_callback_t callback,
		 void *context)
{
	const struct filter_kind *kind = kind_of(so);
	int rc = kind->check ? kind->check(so) : 0;

	if (rc)
		return rc;
	if (!f)
		return -ENOMEM;
	f->kind = kind;
	f->ref = sock_ref_of(so);
	f->flow_tag = so->opt->flow_tag;
	f->work.run = work_run;
	list_init(&f->work.link);
	if (!kind->set(so, f))
		return -ENOMEM;
	change(f, fd, callback, context);
	return 0;
}

void filter_set_flow_tag(struct inet_sock *so, uint32_t tag)
{
	const struct filter_kind *kind = sock_kind_of(so)->filter;
	struct filter *f = kind ? kind->get(so) : NULL;

	ring_assert_held(sock_home(so));
	if (!f)
		return;
	f->flow_tag = tag;
	__atomic_store_n(&f->changed, 1, __ATOMIC_RELAXED); /* unseen packets are taken anew */
}

void filter_keep(struct inet_sock *so)
{
	const struct filter_kind *kind = sock_kind_of(so)->filter;
	struct filter *f = kind ? kind->get(so) : NULL;

	if (!f)
		return;
	f->ref.gen = so->sk.gen;
	change(f, f->fd, NULL, NULL);
}

int filter_try_register(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context,
			bool *early)
{
	struct filter *f, *unused = mem_zalloc(sizeof(*unused));
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	*early = false;
	if (rc) {
		mem_free(unused);
		return rc;
	}
	f = filter_of(so);
	if (f) {
		change(f, fd, callback, context);
	} else if (callback) {
		rc = filter_begin(so, unused, fd, callback, context);
		if (!rc)
			unused = NULL;
		*early = rc == -ENOTCONN && so->inet != INET_LOCAL && !sock_has_connection(so);
	}
	ring_release_cold(ring);
	mem_free(unused);
	return rc;
}
