/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/filter.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/signals.h"
#include "sock/core/extra/held.h"
#include "sock/core/kind.h"

/* A run of a filter, on the stack of its thread. */
struct run {
	struct filter *f;
	struct sock_ref ref;	      /* of the socket when the packets were taken */
	unsigned forks;		      /* in a forked child the filter is the parent's */
	struct pkt *pkt;	      /* the callback has it */
	vma_recv_callback_t callback; /* NULL: no packets were taken so far */
	void *context;
	nsec_t stamp; /* of the last packet that was shown */
	struct filter_batch b;
};

/* Of this thread: the filters that it has claimed, oldest first, and the one that it runs. */
static __thread struct {
	struct filter *first, *last, *current;
} filters __attribute__((tls_model("initial-exec")));

static void run_filters(void);
static void wait_for_program(struct filter *f, struct ring *ring);

_Static_assert(offsetof(struct filter, fd) ==
			       offsetof(struct filter, flow_tag) + sizeof(uint32_t) &&
		       offsetof(struct filter_batch, fd) ==
			       offsetof(struct filter_batch, info.flow_tag) + sizeof(uint32_t),
	       "take() copies both");

static struct inet_sock *sock_of(const struct filter *f)
{
	return inet_of(f->ref.sk);
}

/* holder */
static struct filter *filter_of(const struct inet_sock *so)
{
	return sock_kind_made(&so->sk)->filter->get(so);
}

/* ---- claiming (holder of home) ---------------------------------------------------------- */

/* May this thread run callbacks when it has released the ring? */
static bool may_run(void)
{
	return !ring_thread.internal && !busy_locks && !signals_are_blocked();
}

static void claim(struct filter *f)
{
	f->running = true;
	f->next = NULL;
	if (filters.first)
		filters.last->next = f;
	else
		filters.first = f;
	filters.last = f;
	if (!filters.current) /* otherwise run_filters() goes on with it */
		ring_run_afterwards(run_filters);
}

void filter_look(struct filter *f, struct ring *ring)
{
	if (f->running || !f->kind->waits(f))
		return;
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

/* The socket has no filter any more; whoever runs it notices. */
static void take_off(struct filter *f)
{
	f->kind->set(sock_of(f), NULL);
	if (list_linked(&f->work.link))
		list_remove(&f->work.link);
	__atomic_store_n(&f->changed, true, __ATOMIC_RELAXED);
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
	memset(&filters, 0, sizeof(filters));
	sock_in_callback = false;
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
static bool hold_socket(struct filter *f, struct ring **ring)
{
	struct ring *home;

	for (;;) {
		/* Pairs with sock_set_home() and with the ARRIVE of a move. */
		home = __atomic_load_n(&f->ref.sk->home, __ATOMIC_ACQUIRE);
		if (!ring_hold_cold(home))
			return false;
		/* Pairs with sock_set_home(), as above. */
		if (__builtin_expect(__atomic_load_n(&f->ref.sk->home, __ATOMIC_ACQUIRE) == home,
				     1))
			break;
		ring_release_cold(home);
	}
	if (__atomic_load_n(&f->ref.sk->gen, __ATOMIC_RELAXED) == f->ref.gen) {
		ring_catch_up(home); /* as in sock_hold_mode() */
		*ring = home;
		return true;
	}
	ring_release_cold(home);
	return false;
}

static void drop_later(struct run *r, struct pkt *pkt)
{
	pkt->next = r->b.dropped;
	r->b.dropped = pkt;
}

/* The socket is gone. */
static void obey_gone(struct run *r)
{
	if (r->b.passed)
		pkt_free(r->b.passed);
	r->b.passed = NULL;
	pkt_free_list(r->b.dropped);
	pkt_free_list(r->b.unseen);
	r->b.dropped = r->b.unseen = NULL;
}

/* holder of home: the oldest unseen packets are the next ones. */
static void take(struct run *r)
{
	struct filter *f = r->f;

	r->ref = f->ref;
	r->callback = f->callback;
	r->context = f->context;
	__builtin_memcpy(&r->b.info.flow_tag, &f->flow_tag, 2 * sizeof(uint32_t));
	__atomic_store_n(&f->changed, false, __ATOMIC_RELAXED);
	f->kind->take(f, &r->b);
}

/*
 * Does what the callback said about the last packets and takes the next ones.  False: there are
 * none, and this thread does not run the filter any more.
 */
static bool next_batch(struct run *r)
{
	struct filter *f = r->f;
	struct ring *ring;
	bool goes_on = false;

	if (!hold_socket(f, &ring)) {
		obey_gone(r);
		part(f);
		return false;
	}
	if (r->callback) /* not the first ones */
		f->kind->obey(f, &r->b, ring);
	if (filter_of(sock_of(f)) != f) {
		part(f);
	} else if (!f->callback) {
		f->running = false;
		filter_pass(f);
	} else if (!f->kind->waits(f)) {
		f->running = false;
	} else {
		take(r);
		goes_on = true;
	}
	ring_release_cold(ring);
	return goes_on;
}

/* Another thread may run it. */
static void give_up(struct filter *f)
{
	struct ring *ring;

	if (!hold_socket(f, &ring)) {
		part(f);
		return;
	}
	if (filter_of(sock_of(f)) != f) {
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

/* The callback does not return: its thread was cancelled, or jumped. */
static void leave_batch(void *arg)
{
	struct run *r = arg;
	struct filter *f;
	struct ring *ring;

	sock_in_callback = false;
	filters.current = NULL;
	if (r->forks != ready_forks)
		return;
	if (r->pkt)
		drop_later(r, r->pkt);
	if (!hold_socket(r->f, &ring)) {
		obey_gone(r);
	} else {
		r->f->kind->obey(r->f, &r->b, ring);
		ring_release_cold(ring);
	}
	give_up(r->f);
	while ((f = pop_filter()))
		give_up(f);
}

static struct timespec spec_of(nsec_t stamp)
{
	return (struct timespec){stamp / NSEC_PER_SEC, stamp % NSEC_PER_SEC};
}

/* There is a slot for a packet that the program may hold, if there is memory. */
static __attribute__((noinline)) void prepare_held(struct run *r)
{
	struct filter *f = r->f;

	f->held = held_new();
	f->held_id = f->held ? held_id(f->held) : NULL;
	r->b.info.packet_id = f->held_id;
}

#define NO_STAMP (-1) /* of no packet */

static __attribute__((noinline)) void tell_stamp(struct run *r, nsec_t stamp)
{
	r->stamp = stamp;
	r->b.info.sw_timestamp = spec_of(stamp);
}

/* What the callback is told about all packets. */
static void begin_info(struct run *r)
{
	struct vma_info_t *info = &r->b.info;

	info->struct_sz = sizeof(*info);
	info->src = &r->b.src.in;
	info->dst = &r->b.dst.in;
	info->packet_id = r->f->held_id;
	r->stamp = NO_STAMP;
}

/* What it is told about one that is not like the one before. */
static inline void describe_other(struct run *r, const struct pkt *pkt)
{
	if (r->f->kind->describe)
		r->f->kind->describe(&r->b, pkt);
	if (__builtin_expect(pkt->flags & PKT_ARRIVAL, 0))
		r->b.info.hw_timestamp = spec_of(pkt_arrival(pkt)->device);
}

/* What it is told about r->pkt. */
static inline void describe(struct run *r, const struct pkt *pkt)
{
	if (__builtin_expect(!r->f->held, 0))
		prepare_held(r);
	r->b.info.payload_sz = pkt->len;
	r->b.info.hw_timestamp = (struct timespec){0};
	if ((pkt->flags & (PKT_ALIKE | PKT_ARRIVAL)) == PKT_ALIKE) {
		r->b.src.in = r->b.alike_src;
		r->b.dst.in = r->b.alike_dst;
	} else {
		describe_other(r, pkt);
	}
	if (pkt->stamp != r->stamp) /* those of one poll have the same */
		tell_stamp(r, pkt->stamp);
}

static void hold_packet(struct run *r, struct pkt *pkt)
{
	struct filter *f = r->f;
	struct held *held = f->held;

	f->held = NULL;
	r->b.held++;
	r->b.held_bytes += pkt->len; /* before another thread of the program frees it */
	held_fill(held, r->ref, pkt, f->kind->charge(pkt));
}

/* Calls the callback for the packets of the batch, or for the first ones. */
static void show(struct run *r)
{
	struct filter *f = r->f;

	while ((r->pkt = filter_pop(&r->b.unseen))) {
		struct pkt *pkt = r->pkt;
		struct iovec iov = {pkt_payload(pkt), pkt->len};
		vma_recv_callback_retval_t verdict;

		describe(r, pkt);
		verdict = r->callback(r->b.fd, 1, &iov, &r->b.info, r->context);
		if (r->forks != ready_forks)
			return; /* the child of a fork() in the callback */
		r->pkt = NULL;
		if (verdict == VMA_PACKET_RECV) {
			r->b.passed = pkt;
			return;
		}
		if (verdict == VMA_PACKET_HOLD && f->held && sock_ref_valid(r->ref))
			hold_packet(r, pkt);
		else
			drop_later(r, pkt);
		if (__atomic_load_n(&f->changed, __ATOMIC_RELAXED))
			return;
	}
}

/* longjmp() compares the address of undo with the stack: AddressSanitizer must leave it there. */
__attribute__((no_sanitize_address)) static void run(struct filter *f)
{
	struct run r; /* not cleared: take() and describe() set what is used */
	struct cleanup undo;

	r.f = f;
	r.callback = NULL;
	r.forks = ready_forks;
	r.pkt = r.b.unseen = r.b.passed = r.b.dropped = NULL;
	r.b.held = r.b.held_bytes = 0;
	begin_info(&r);
	filters.current = f;
	sock_signal_enters(); /* the thread may be about to sleep, and the callback may sleep, too */
	while (next_batch(&r)) {
		cleanup_push(&undo, leave_batch, &r);
		sock_in_callback = true;
		show(&r);
		sock_in_callback = false;
		cleanup_pop(&undo);
		if (r.forks != ready_forks)
			break;
	}
	filters.current = NULL;
}

static void run_filters(void)
{
	struct filter *f;
	int saved = errno;

	if (filters.current)
		return;
	while ((f = pop_filter()))
		run(f);
	errno = saved;
}

/* ---- registering ------------------------------------------------------------------------- */

/* holder: the socket has this filter, which is new, from now on. */
static int begin(struct sock_ref ref, const struct filter_kind *kind, struct filter *f)
{
	int rc = kind->check ? kind->check(inet_of(ref.sk)) : 0;

	if (rc)
		return rc;
	if (!f)
		return -ENOMEM;
	f->kind = kind;
	f->ref = ref;
	f->flow_tag = inet_of(ref.sk)->opt->flow_tag;
	f->work.run = work_run;
	list_init(&f->work.link);
	return kind->set(inet_of(ref.sk), f) ? 0 : -ENOMEM;
}

static void change(struct filter *f, int fd, vma_recv_callback_t callback, void *context)
{
	f->callback = callback;
	f->context = context;
	f->fd = fd;
	__atomic_store_n(&f->changed, true, __ATOMIC_RELAXED);
	if (!callback && !f->running)
		filter_pass(f);
}

void filter_set_flow_tag(struct inet_sock *so, uint32_t tag)
{
	const struct filter_kind *kind = sock_kind_of(so)->filter;
	struct filter *f = kind ? kind->get(so) : NULL;

	ring_assert_held(sock_home(so));
	if (!f)
		return;
	f->flow_tag = tag;
	__atomic_store_n(&f->changed, true, __ATOMIC_RELAXED); /* unseen packets are taken anew */
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

static int try_register(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context)
{
	const struct filter_kind *kind = sock_kind_made(ref.sk)->filter;
	struct filter *f, *unused = mem_zalloc(sizeof(*unused));
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc) {
		mem_free(unused);
		return rc;
	}
	f = kind->get(inet_of(ref.sk));
	if (!f && callback) {
		rc = begin(ref, kind, unused);
		if (!rc) {
			f = unused;
			unused = NULL;
		}
	}
	if (f)
		change(f, fd, callback, context);
	ring_release_cold(ring);
	mem_free(unused);
	return rc;
}

int filter_register(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context)
{
	int rc;

	while ((rc = try_register(ref, fd, callback, context)) == SOCK_FETCH) {
		rc = sock_upcalls.fetch(ref, 0);
		if (rc)
			break;
	}
	return rc;
}
