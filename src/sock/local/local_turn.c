/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where two paths meet: the order of what came through shared memory and what the kernel has.
 *
 * A sender may change from the ring to the kernel.  So when the twin has been seen to have a
 * datagram, those that its sender sent before are in the ring, up to its end as it is then.  What is
 * before that end is read first, then one datagram of the twin, and then it is looked at again.
 * So none overtakes another of its sender, and neither path waits for more than the other had.
 *
 * A sender that changes from the kernel to the ring writes a mark first, when what it sent before is in
 * the twin (local_change.c).  Where the reader meets a mark, it reads what the twin has by then, before
 * it goes on.  That the twin has nothing is believed only of a look after the mark: a thread that looked,
 * or read, before it may come later.
 *
 * The twin is looked at when somebody has seen something there, once in VMA_RX_UDP_POLL_OS_RATIO
 * receives, after RECORD_STRIDE cells of the ring, and if nothing else is there, once in 8 us; after
 * SHUT_RD always, because a receive does not come again.
 *
 * A socket that gets its datagrams otherwise pays next to nothing: while the ring's tail is as it was when
 * all was read, and the twin is not known to have something, a receive does not ask (struct local_quiet).
 * After OTHERS_MAX of them it has calls that do not try to receive at once, until the ring is read again.
 */
#include <linux/sock_diag.h>

#include "base/param.h"
#include "base/sys.h"
#include "ring/local/record_quick.h"
#include "sock/core/access.h"
#include "sock/local/local.h"
#include "sock/local/local_udp.h"

#define OTHERS_MAX 32u
#define DATAGRAM_LEAST 256u /* bytes that the kernel counts for any datagram, or fewer */
#define DATAGRAMS_MAX 4096u /* if it does not tell */

static bool twin_has(const struct local_udp *l)
{
	return __atomic_load_n(&l->ref.sk->twin_events, __ATOMIC_RELAXED) != 0;
}

/* The twin waits: is there nothing to wait for?  After a mark, somebody may have looked before it. */
static bool twin_is_empty(const struct local_udp *l)
{
	return l->twin.more ? !sock_look_at_twin(l->ref.sk) : !twin_has(l);
}

static uint32_t coarse_now(void)
{
	return (uint32_t)(clock_now() >> 13);
}

void local_twin_unquiet(struct local_udp *l)
{
	static const uint64_t tail;

	l->quiet.tail = &tail;
	l->quiet.seen = 1;
}

/* Nothing is left to be asked for, until the tail is another one. */
static void note_quiet(struct local_udp *l)
{
	local_twin_unquiet(l);
	if (!l->segment.base || l->reader.broken)
		l->quiet.seen = 0;
	else if (record_ring_is_read(&l->reader, &l->quiet.seen))
		l->quiet.tail = &l->reader.shared->tail;
}

/* The socket's calls are those of `from`, or others that stay: those of `to` instead, of the same mode. */
static void set_calls(struct sock *sk, const struct sock_ops *from, const struct sock_ops *to)
{
	const struct sock_ops *old = sock_ops_of(sk);

	/*
	 * Others store those of another mode, of share or of udp_linger.  Pairs with sock_ops_of(): the
	 * socket's part, and the table, which is constant.
	 */
	while (old >= from && old < from + HOLD_MODES &&
	       !__atomic_compare_exchange_n(&sk->ops, &old, to + (old - from), false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

void local_turn_begin(struct local_udp *l)
{
	struct inet_sock *so = inet_of(l->ref.sk);

	ring_assert_held(sock_home(so));
	if (so->udp.by_local)
		return;
	so->udp.by_local = true;
	set_calls(&so->sk, sock_kinds[INET_UDP]->ops, local_udp_ops);
	sock_access_init(so);
}

static void be_calm(struct local_udp *l, bool calm)
{
	const struct sock_ops *quick = local_udp_ops, *others = local_udp_ops + HOLD_MODES;

	l->calm = calm;
	set_calls(l->ref.sk, calm ? quick : others, calm ? others : quick);
}

/* Do local senders send lately?  A receive that found nothing does not count. */
static void note_senders(struct local_udp *l, bool nothing)
{
	uint64_t next = l->reader.next;

	if (nothing && l->quiet.others)
		l->quiet.others--;
	if (next == l->read && l->quiet.others <= OTHERS_MAX)
		return;
	if (l->calm == (next != l->read))
		be_calm(l, next == l->read);
	l->read = next;
	l->quiet.others = 0;
}

static void begin_to_wait(struct local_udp *l)
{
	local_twin_unquiet(l);
	l->twin.waits = true;
	l->twin.reached = false;
	l->twin.at = 0;
	if (!l->segment.base)
		return;
	l->twin.at = record_ring_end(&l->reader);
	record_ring_pause_at(&l->reader, l->twin.at);
}

void local_twin_done(struct local_udp *l)
{
	if (l->twin.waits && l->segment.base)
		record_ring_pause_at(&l->reader, UINT64_MAX);
	l->twin.waits = false;
	l->twin.more = 0;
}

void local_twin_pause(struct local_udp *l)
{
	if (l->twin.waits)
		record_ring_pause_at(&l->reader, l->twin.at);
}

/* The most datagrams that the twin can have now. */
static uint32_t most_in_twin(const struct local_udp *l)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	if (sys_getsockopt(sock_twin(l->ref.sk), SOL_SOCKET, SO_MEMINFO, info, &len))
		return DATAGRAMS_MAX;
	return info[SK_MEMINFO_RMEM_ALLOC] / DATAGRAM_LEAST + 1;
}

void local_twin_mark(struct local_udp *l)
{
	struct local_twin *twin = &l->twin;

	if (twin->waits && twin->more)
		return; /* the ring ends: what follows the first mark is in the queue, too */
	if (!sock_look_at_twin(l->ref.sk)) {
		local_twin_done(l);
		return;
	}
	local_twin_unquiet(l);
	twin->waits = true;
	twin->at = l->reader.next;
	record_ring_pause_at(&l->reader, twin->at);
	twin->reached = true;
	twin->ahead = inet_of(l->ref.sk)->udp.count;
	twin->more = most_in_twin(l);
}

/* Are there records that are read before what the twin has? */
static bool is_before(const struct local_udp *l)
{
	return l->segment.base && !l->reader.broken && l->reader.next < l->twin.at;
}

bool local_twin_lets(struct local_udp *l)
{
	if (__builtin_expect(!l->twin.waits, 1) || l->twin.ends)
		return true;
	if (twin_is_empty(l)) /* another has read it */
		local_twin_done(l);
	return !l->twin.waits || is_before(l);
}

/* The twin has its turn.  After a mark, others follow. */
static void take_turn(struct local_udp *l)
{
	if (l->twin.more > 1)
		l->twin.more--;
	else
		local_twin_done(l);
}

/* The twin waits: is it its turn? */
static bool is_twins(struct local_udp *l, const struct inet_sock *so, bool peeks)
{
	struct local_twin *twin = &l->twin;

	if (is_before(l))
		return false;
	if (!twin->reached) {
		twin->reached = true;
		twin->ahead = so->udp.count;
	}
	if (!so->udp.head || !twin->ahead)
		return true;
	if (!peeks)
		twin->ahead--;
	return false;
}

static void note_look(struct local_udp *l)
{
	l->twin.looked_at = l->reader.next;
	l->twin.looked = coarse_now();
}

static bool is_due(const struct local_udp *l, const struct inet_sock *so, unsigned says)
{
	if (twin_has(l))
		return true;
	if (!params.rx_udp_poll_os_ratio)
		return false;
	if ((says & LOCAL_TURN_DUE) || l->reader.next - l->twin.looked_at >= RECORD_STRIDE)
		return true;
	return !(says & LOCAL_TURN_EARLY) && !so->udp.head &&
	       (so->shut_rd || l->twin.looked != coarse_now());
}

/*
 * With `more`, no notice tells of the rest.  The next poll looks at the ring, or else the queue does not run
 * empty before it; then no receive is quick until all is read.
 */
static bool is_last(struct local_udp *l, const struct inet_sock *so)
{
	return l->more && so->udp.count == 1 && !local_look_for_more(l);
}

enum local_turn local_turn(struct inet_sock *so, unsigned says)
{
	struct local_udp *l = so->udp.local;

	ring_assert_held(sock_home(so));
	if ((says & LOCAL_TURN_NOTHING) && (!l->twin.more || twin_is_empty(l)))
		local_twin_done(l);
	if ((says & LOCAL_TURN_LOOKED) && !l->twin.waits && twin_has(l))
		begin_to_wait(l);
	if ((!so->udp.head && !local_is_quiet(&l->quiet)) || (says & LOCAL_TURN_DUE) ||
	    is_last(l, so))
		local_pull(l, so->udp.filter ? FILTER_BATCH : 1); /* a callback sees all */
	note_senders(l, !(says & LOCAL_TURN_EARLY));
	if (l->twin.waits) {
		if (!is_twins(l, so, says & LOCAL_TURN_PEEKS))
			return LOCAL_TURN_OURS;
		if (!(says & LOCAL_TURN_PEEKS)) /* else the next call finds it waiting, too */
			take_turn(l);
		return LOCAL_TURN_TWIN;
	}
	/* One look a try: after SHUT_RD the twin is always readable. */
	if (!(says & (LOCAL_TURN_LOOKED | LOCAL_TURN_NOTHING)) && is_due(l, so, says)) {
		note_look(l);
		return LOCAL_TURN_LOOK;
	}
	if (!so->udp.head || (says & LOCAL_TURN_DUE))
		note_quiet(l);
	return LOCAL_TURN_OURS;
}
