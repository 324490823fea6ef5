/* SPDX-License-Identifier: BSD-2-Clause */
/* Receivers of datagrams through shared memory; see local_udp.h. */
#include "sock/local/local_udp.h"

#include <errno.h>
#include <net/ethernet.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"
#include "ring/capture.h"
#include "ring/local/record_quick.h"
#include "sock/core/rules/rules.h"
#include "sock/local/local.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_sock.h"
#include "sock/options/sock_opt.h"
#include "sock/udp/udp_sock.h"

#define WRITERS_PATIENCE NSEC_PER_SEC /* with those that are in the middle of a record */

static struct list receivers;  /* lock */
static uint32_t last_receiver; /* lock */
static bool watch_wanted;      /* internal thread: by a receiver */

const struct sock_ops local_udp_ops[LOCAL_UDP_OPS] = {
#define X(name, mode)                                                                        \
	[mode] = {UDP_OPS(name, local_udp_quick_recvmsg), QUICK_OPS(local_udp_quick, name)}, \
	[HOLD_MODES + mode] = {UDP_OPS(name, udp_recv), QUICK_SENDS_OPS(local_udp_quick, name)},
	SOCK_MODES(X)
#undef X
};

/* ---- records become datagrams (holder) ------------------------------------------------------ */

uint32_t local_address_at(const struct local_udp *l, const struct inaddr *addr)
{
	uint32_t i = 0;

	while (i < l->n_addrs && !addr_eq(&l->addrs[i], addr))
		i++;
	return i < l->n_addrs ? i : LOCAL_NO_ADDRESS;
}

/* Of IPv4, compared by the 32 bits that records have: this is on the path of each recvfrom(). */
static bool may_have4(const struct local_udp *l, uint32_t addr)
{
	if (*(const uint8_t *)&addr == 127)
		return true;
	for (uint32_t i = 0; i < l->n_addrs; i++) {
		if (addr_v4_of(&l->addrs[i]) == addr && addr_is_v4(&l->addrs[i]))
			return true;
	}
	return false;
}

static bool is_possible4(const struct local_udp *l, const struct record_header *h)
{
	const struct inaddr *at = &l->place.at.addr;
	bool any = addr_is_any(at);

	if (!addr_is_v4(at) && !(any && l->place.ipv4))
		return false;
	return (any ? h->to && may_have4(l, h->to) : h->to == addr_v4_of(at)) &&
	       may_have4(l, h->from);
}

/* The numbers are of addresses that the receiver has agreed to; another number is 0.0.0.0. */
static bool is_possible6(const struct local_udp *l, const struct record_header *h)
{
	struct inaddr from = local_record_addr(l, h, h->from), to = local_record_addr(l, h, h->to);

	return !addr_is_v4(&from) && !addr_is_v4(&to) && local_place_has(&l->place, &to);
}

bool local_may_be_from(const struct local_udp *l, const struct record_header *h)
{
	return may_have4(l, h->from) && ntohs(h->from_port) >= l->lowest;
}

bool local_is_possible(const struct local_udp *l, const struct record_header *h)
{
	if (h->to_port != l->place.at.port || ntohs(h->from_port) < l->lowest)
		return false;
	return __builtin_expect(h->flags & RECORD_IPV6, 0) ? is_possible6(l, h)
							   : is_possible4(l, h);
}

static bool takes(const struct local_udp *l, const struct record_header *h)
{
	return local_is_possible(l, h) && local_hears_record(l, inet_of(l->ref.sk), h);
}

/* The record that was peeked is consumed.  group: it was sent to one. */
static void deliver(struct local_udp *l, struct inet_sock *so, bool group)
{
	const struct record_header *h = &l->reader.record.header;
	struct ring *home = sock_home(so);
	struct pkt *pkt = NULL;
	enum drop reason = DROP_NONE;

	if (__builtin_expect(so->noted, 0))
		local_capture_record(l);
	if (group ? local_group_takes(l, h) && local_hears_record(l, so, h) : takes(l, h))
		pkt = local_udp_frame(l);
	if (pkt && group) {
		pkt->ifindex = (int)h->ifindex;
		pkt->flags |= PKT_LOOPED;
	}
	record_ring_consume(&l->reader);
	if (!pkt)
		return;
	reason = udp_input(so, home, pkt, false);
	if (reason == DROP_NONE)
		return;
	ring_drop(home, reason);
	pkt_free(pkt);
}

/* What writers dropped, because the ring was full, counts as dropped by the socket. */
static void count_drops(struct local_udp *l, struct inet_sock *so)
{
	uint32_t dropped = record_ring_dropped(&l->reader), more = dropped - l->dropped;

	if (__builtin_expect(!more, 1))
		return;
	l->dropped = dropped;
	so->udp.dropped += more;
	sock_count(so, rx_drops, more);
}

/* May datagrams be taken as a run? */
static inline bool takes_runs(const struct local_udp *l, const struct inet_sock *so)
{
	return local_udp_stays(so) && so->life > LIFE_CLOSED && so->inet == INET_UDP &&
	       (!so->noted || (so->udp.filter && !ring_capture_runs())) && !l->twin.waits;
}

/* Takes max datagrams at most that are a run; returns their number. */
static __attribute__((noinline)) unsigned pull_run(struct local_udp *l, struct inet_sock *so,
						   unsigned max)
{
	struct filter_sum sum;
	struct pkt *first, *last;

	first = local_udp_run(l, takes, max, so->udp.limit - so->udp.bytes, &last, &sum);
	if (!first)
		return 0;
	udp_input_apart(so, sock_home(so), first, last, &sum);
	return sum.n;
}

static bool pull(struct local_udp *l, unsigned max)
{
	struct inet_sock *so = inet_of(l->ref.sk);
	const struct record_found *found = &l->reader.record;
	unsigned marks = 0;

	if (!l->segment.base)
		return false;
	count_drops(l, so);
	for (unsigned i = 0, n; i < max; i++) {
		if (so->udp.bytes >= so->udp.limit || !local_twin_lets(l))
			return true;
		n = takes_runs(l, so) ? pull_run(l, so, max - i) : 0;
		if (n) {
			if (record_ring_end(&l->reader) == l->reader.next)
				return false;
			i += n - 1;
			continue;
		}
		if (record_ring_peek(&l->reader))
			return false;
		if (__builtin_expect(found->is_mark && found->header.flags != RECORD_GROUP, 0)) {
			record_ring_consume(&l->reader);
			local_twin_mark(l);
			i -= marks++ < LOCAL_PULL_MAX; /* it is no datagram */
			continue;
		}
		deliver(l, so, found->is_mark);
	}
	return true;
}

bool local_pull(struct local_udp *l, unsigned max)
{
	bool more = pull(l, max);

	ring_assert_held(sock_home(inet_of(l->ref.sk)));
	__atomic_store_n(&l->more, more, __ATOMIC_RELAXED);
	return more;
}

/* ---- begin and end (control lock) -------------------------------------------------------------- */

struct local_udp *local_receiver(uint32_t socket)
{
	if (!receivers.next)
		return NULL;
	list_for_each(at, &receivers) {
		struct local_udp *l = container_of(at, struct local_udp, link);

		if (l->entry.socket == socket)
			return l;
	}
	return NULL;
}

struct ring *local_hold_home(struct local_udp *l)
{
	const struct sock *sk = l->ref.sk;

	for (;;) {
		/* Pairs with sock_set_home() and with the ARRIVE of a move. */
		struct ring *home = __atomic_load_n(&sk->home, __ATOMIC_ACQUIRE);

		if (!ring_hold_cold(home))
			return NULL;
		if (__atomic_load_n(&sk->home, __ATOMIC_RELAXED) == home) {
			ring_catch_up(home); /* as in sock_hold_mode() */
			return home;
		}
		ring_release_cold(home);
	}
}

struct local_udp *local_udp_part(struct inet_sock *so)
{
	struct local_udp *l = so->udp.local;
	struct ring *ring;

	control_assert_held();
	if (l || !local_available())
		return l;
	l = mem_zalloc(sizeof(*l));
	if (!l)
		return NULL;
	l->ref = sock_ref_of(so);
	l->segment = SEGMENT_NONE;
	l->lowest = LOCAL_LOW_PORTS; /* until a peer asks for less */
	l->look.run = local_look_run;
	list_init(&l->writers);
	local_twin_unquiet(l);
	if (sock_hold_cold(l->ref, &ring)) {
		mem_free(l);
		return NULL;
	}
	so->udp.local = l;
	ring_release_cold(ring);
	return l;
}

static bool may_receive(struct inet_sock *so)
{
	const struct inaddr *at = &so->local.addr;

	/* udp.limit is 0 after SO_VMA_SHUTDOWN_RX. */
	return local_available() && so->bound && so->local.port && so->udp.limit &&
	       !so->opt->bind_ifindex && (!addr_is_multicast(at) || addr_is_v4(at)) &&
	       !addr_is_broadcast(at) && rules_ask_receiver(so) != CONF_OS;
}

/* May other sockets be bound to its port, among which the kernel chooses? */
static bool is_shared(const struct inet_sock *so)
{
	return so->opt->reuseaddr || so->opt->reuseport;
}

static void enter(struct local_udp *l, const struct inet_sock *so)
{
	uint64_t cookie = is_shared(so) ? sys_socket_cookie(sock_twin(&so->sk)) : 0;

	if (is_shared(so) && !cookie)
		return;
	l->place = local_place_of(so, LOCAL_UDP);
	l->connected = so->udp.connected;
	local_lock();
	if (!receivers.next)
		list_init(&receivers);
	l->entry = (struct local_entry){
		.process = local_name(), .socket = ++last_receiver, .cookie = cookie};
	list_push_back(&receivers, &l->link);
	local_unlock();
	l->registered = !local_dir_add(&l->place, &l->entry);
	if (l->registered)
		return;
	local_lock();
	list_remove(&l->link);
	local_unlock();
}

/* The entry stays: the program belongs to all sockets of the port. */
void local_filtered(const struct inet_sock *so)
{
	struct local_entry entry = {.cookie = LOCAL_COOKIE_FILTER};
	struct local_place place;

	if (!so->bound || !so->local.port || !local_available())
		return;
	place = local_place_of(so, so->inet == INET_UDP ? LOCAL_UDP : LOCAL_TCP);
	local_lock();
	entry.process = local_name();
	entry.socket = ++last_receiver;
	local_unlock();
	local_dir_add(&place, &entry);
}

/* holder: takes in what is left.  False: a writer is in the middle of a record. */
static bool drain(struct local_udp *l)
{
	struct inet_sock *so = inet_of(l->ref.sk);
	uint32_t limit = so->udp.limit;

	so->udp.limit = UINT32_MAX; /* what the ring had taken is not lost */
	if (!l->twin.more)	    /* else what is in the queue by now is read before the twin's */
		local_twin_done(l);
	l->twin.ends = true;
	while (local_pull(l, LOCAL_PULL_MAX))
		;
	l->twin.ends = false;
	so->udp.limit = limit;
	return record_ring_is_drained(&l->reader);
}

/* holder: nobody writes any more, and nobody is told of a writer. */
static void close_ring(struct local_udp *l)
{
	if (!l->twin.more)
		local_twin_done(l);
	l->twin.at = 0; /* of no ring */
	local_twin_unquiet(l);
	local_udp_keep_all(l);
	local_memory_give(l->memory);
	l->memory = 0;
	l->n_addrs = 0;
	l->closed++;
	__atomic_store_n(&l->watch, WATCH_NOT, __ATOMIC_RELAXED);
	segment_close(&l->segment);
}

/* Ends the ring for the writers.  keep: what has arrived is queued.  False: this thread holds a ring. */
static bool stop_writers(struct local_udp *l, bool keep)
{
	nsec_t until = clock_now() + WRITERS_PATIENCE;
	struct ring *home;
	bool over;

	do {
		home = local_hold_home(l);
		if (!home)
			return false;
		if (l->segment.base)
			record_ring_close(&l->reader);
		over = !l->segment.base || !keep || drain(l) || clock_now() > until;
		ring_release_cold(home);
		if (!over)
			sys_sched_yield();
	} while (!over);
	return true;
}

/* No receiver any more.  keep: what has arrived is queued. */
static void leave(struct local_udp *l, bool keep)
{
	struct ring *home;

	if (!l->registered)
		return;
	l->registered = false;
	local_group_leave(l);
	local_dir_remove(&l->place, &l->entry);
	local_lock();
	list_remove(&l->link);
	local_unlock();
	if (!stop_writers(l, keep) || !local_writers_end(l))
		return;
	home = local_hold_home(l);
	if (!home)
		return;
	close_ring(l);
	ring_release_cold(home);
}

/* Where no frames arrive, nobody else looks at the twin. */
static void begin_turns(struct local_udp *l)
{
	struct ring *home = local_hold_home(l);

	if (!home)
		return;
	if (home == local_ring())
		local_turn_begin(l);
	ring_release_cold(home);
}

bool local_receive(struct inet_sock *so)
{
	struct local_udp *l = local_udp_part(so);

	if (!l || l->stopped)
		return false;
	if (!may_receive(so)) {
		local_receive_stop(so);
		return false;
	}
	sock_adopt_home(so, local_ring());
	begin_turns(l);
	if (l->registered && endpoint_eq(&l->place.at, &so->local) && !l->connected &&
	    !so->udp.connected && is_shared(so) == !!l->entry.cookie)
		return true;
	leave(l, true);
	/* It hears its peer only. */
	if (!so->udp.connected || local_is_address(&so->remote.addr))
		enter(l, so);
	local_groups(so);
	sock_rings_changed(so);
	return l->registered;
}

void local_receive_stop(struct inet_sock *so)
{
	struct local_udp *l = so->udp.local;

	control_assert_held();
	if (!l)
		return;
	leave(l, true);
	l->stopped = true;
	sock_rings_changed(so);
}

void local_udp_end(struct inet_sock *so)
{
	struct local_udp *l = so->udp.local;
	struct ring *home;

	control_assert_held();
	leave(l, false);
	home = local_hold_home(l);
	if (!home)
		return;
	so->udp.local = NULL;
	mem_free(l->kernel);
	mem_free(l->groups);
	/* Pairs with local_look_run(), which frees it if it is still to run. */
	if (__atomic_exchange_n(&l->look_state, LOOK_ENDED, __ATOMIC_ACQ_REL) == LOOK_NOT)
		mem_free(l);
	ring_release_cold(home);
}

struct ring *local_udp_ring(const struct inet_sock *so)
{
	const struct local_udp *l = so->udp.local;

	control_assert_held();
	if (!l || !l->registered || __atomic_load_n(&l->watch, __ATOMIC_RELAXED) == WATCH_NOT)
		return NULL;
	return local_ring();
}

/* ---- threads that wait poll local_ring() ------------------------------------------------------- */

void local_watch_later(struct local_udp *l)
{
	__atomic_store_n(&l->watch, WATCH_WANTED, __ATOMIC_RELAXED);
	watch_wanted = true;
}

static void begin_watch(struct local_udp *l)
{
	struct inet_sock *so = inet_of(l->ref.sk);
	struct ring *home;

	sock_rings_changed(so);
	home = local_hold_home(l);
	if (!home)
		return;
	__atomic_store_n(&l->watch, WATCH_BEGUN, __ATOMIC_RELAXED);
	/* Threads that sleep would leave local_ring() to the internal thread, if that polls rings at all. */
	ready_wake_all(&so->sk);
	ring_release_cold(home);
}

bool local_receivers_run(void)
{
	if (__builtin_expect(!watch_wanted, 1))
		return false;
	if (!control_trylock())
		return true;
	watch_wanted = false;
	list_for_each(at, &receivers) {
		struct local_udp *l = container_of(at, struct local_udp, link);

		if (__atomic_load_n(&l->watch, __ATOMIC_RELAXED) == WATCH_WANTED)
			begin_watch(l);
	}
	control_unlock();
	return false;
}

void local_udp_forget(void)
{
	receivers = (struct list){0};
	watch_wanted = false;
	local_targets_forget();
}
