/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/tcp/timewait.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "net/tcp/tcp_timewait.h"
#include "sock/tcp/tcp_sock.h"

#define TIMER_GRID (100 * NSEC_PER_MSEC) /* one wake-up for all that end within it */
#define FILE_STEPS 64			 /* most that a new one looks for its place */
#define MOVED_AT_ONCE 64		 /* in one hold of a ring that others use */
#define ENDED_AT_ONCE 1024		 /* the same, without a new place */
#define KEEPERS_SHARE 8			 /* of RLIMIT_NOFILE, one part for ports */
#define KEEPERS_ALIVE 6			 /* such parts, with those of connections that live on */
#define KEEPERS_MAX 4096

struct timewait {
	struct flow flow; /* first */
	struct list link; /* of its queue */
	struct tcp_timewait tw;
	int port; /* who keeps it, or PORT_KEEPER_NONE: it is a listener's */
	uint8_t tos, ttl;
};

_Static_assert(sizeof(struct timewait) <= 128, "there may be a hundred thousand of them");

#define QUEUES 2

struct queue {
	struct list all;     /* who ends first is first */
	struct list *keeper; /* the first that may keep a port, or &all */
};

/* Those of one ring; ring->timewaits. */
struct timewaits {
	struct ring *ring;
	struct timer timer;
	struct queue queues[QUEUES]; /* TIME_WAIT, FIN_WAIT_2: each lasts as long, as a rule */
};

static struct queue *queues_of(struct ring *ring)
{
	return ring->timewaits ? ring->timewaits->queues : NULL;
}

struct timewait_stats timewait_stats;

static unsigned add(unsigned *counter, unsigned n)
{
	return __atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

static unsigned load(const unsigned *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static struct timewait *of_link(struct list *link)
{
	return container_of(link, struct timewait, link);
}

/* ---- ports -------------------------------------------------------------------------- */

/* RLIMIT_NOFILE, looked at once a second: a program may raise it, or lower it. */
static unsigned files_limit(nsec_t now)
{
	static nsec_t next; /* any, atomic, as max */
	static unsigned max;
	struct rlimit limit = {.rlim_cur = UINT32_MAX};

	if (now < __atomic_load_n(&next, __ATOMIC_RELAXED))
		return load(&max);
	sys_call(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit, 0, 0);
	if (limit.rlim_cur > UINT32_MAX)
		limit.rlim_cur = UINT32_MAX;
	__atomic_store_n(&max, (unsigned)limit.rlim_cur, __ATOMIC_RELAXED);
	__atomic_store_n(&next, now + NSEC_PER_SEC, __ATOMIC_RELAXED);
	return (unsigned)limit.rlim_cur;
}

/* Of connections that are small. */
static unsigned keepers_max(nsec_t now)
{
	unsigned n = files_limit(now) / KEEPERS_SHARE;

	return n < KEEPERS_MAX ? n : KEEPERS_MAX;
}

static void skip_no_keepers(struct queue *q)
{
	while (q->keeper != &q->all && of_link(q->keeper)->port < 0)
		q->keeper = q->keeper->next;
}

/* ---- the list of a ring (holder) ---------------------------------------------------- */

static void run_timer(struct timer *timer, nsec_t now);

static struct timewaits *place_of(struct ring *ring)
{
	struct timewaits *place = ring->timewaits;

	if (place)
		return place;
	place = mem_alloc(sizeof(*place));
	if (!place)
		return NULL;
	place->ring = ring;
	timer_init(&place->timer, run_timer);
	for (unsigned i = 0; i < QUEUES; i++) {
		list_init(&place->queues[i].all);
		place->queues[i].keeper = &place->queues[i].all;
	}
	ring->timewaits = place;
	return place;
}

/* Who ends first of a queue, or NULL. */
static struct timewait *first_of(const struct queue *q)
{
	return list_empty(&q->all) ? NULL : of_link(q->all.next);
}

static void arm(struct timewaits *place)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		const struct timewait *t = first_of(&place->queues[i]);
		nsec_t at;

		if (!t)
			continue;
		at = (t->tw.until + TIMER_GRID - 1) / TIMER_GRID * TIMER_GRID;
		if (at < place->timer.when)
			ring_arm(place->ring, &place->timer, at);
	}
}

static struct queue *queue_of(struct timewaits *place, const struct timewait *t)
{
	return &place->queues[tcp_timewait_half(&t->tw)];
}

/*
 * Its place is at the end or near it.  Who would have to look for long (its program
 * closed it late, or set TCP_LINGER2 for it alone) lasts as long as the last one.
 */
static void file(struct timewaits *place, struct timewait *t)
{
	struct queue *q = queue_of(place, t);
	struct list *before = q->all.prev;
	unsigned steps = 0;

	while (before != &q->all && of_link(before)->tw.until > t->tw.until) {
		before = before->prev;
		if (++steps > FILE_STEPS) {
			before = q->all.prev;
			t->tw.until = of_link(before)->tw.until;
		}
	}
	list_insert_between(&t->link, before, before->next);
	if (t->port >= 0 && (q->keeper == &q->all || of_link(q->keeper)->tw.until > t->tw.until))
		q->keeper = &t->link;
	arm(place);
}

static void unfile(struct queue *q, struct timewait *t)
{
	if (q->keeper == &t->link) {
		q->keeper = t->link.next;
		skip_no_keepers(q);
	}
	list_remove(&t->link);
}

/* It waits for the peer's FIN: that is a connection yet, and needs its ring. */
static void count_half(struct ring *ring, bool begins)
{
	__atomic_fetch_add(&tcp_orphans[TCP_ORPHAN_HALF], begins ? 1 : -1u, __ATOMIC_RELAXED);
	if (begins)
		ring_get(ring);
	else
		ring_put(ring);
}

/* Off the lists already, but for its flow. */
static void end(struct ring *ring, struct timewait *t)
{
	if (tcp_timewait_half(&t->tw))
		count_half(ring, false);
	ring_flow_del(ring, &t->flow);
	port_keeper_close(t->port);
	add(&timewait_stats.now, -1u);
	mem_free(t);
}

static void end_filed(struct timewaits *place, struct timewait *t)
{
	unfile(queue_of(place, t), t);
	end(place->ring, t);
}

/*
 * The oldest of the ring that keeps a port ends, for its descriptor.  Without that it could
 * not stay: others get the port, and their frames would come here.  False: there is none.
 */
static bool end_a_keeper(struct ring *ring)
{
	for (struct queue *q = queues_of(ring); q && q < queues_of(ring) + QUEUES; q++) {
		if (q->keeper == &q->all)
			continue;
		end_filed(ring->timewaits, of_link(q->keeper));
		add(&timewait_stats.early, 1);
		return true;
	}
	return false;
}

/*
 * A connection that lives on keeps its port, as a rule, and a TIME_WAIT ends for that: who
 * got the port would get no answers.  It takes the place of the descriptor that is closed.
 */
int timewait_keep_port(struct ring *ring, int twin)
{
	int fd;

	ring_assert_held(ring);
	if (load(&port_keepers) >= files_limit(ring->now) / KEEPERS_SHARE * KEEPERS_ALIVE &&
	    !end_a_keeper(ring))
		return PORT_KEEPER_NONE;
	fd = port_keeper_open(twin);
	if ((fd == -EMFILE || fd == -ENFILE) && end_a_keeper(ring))
		fd = port_keeper_open(twin);
	return fd < 0 ? PORT_KEEPER_NONE : fd;
}

static void run_timer(struct timer *timer, nsec_t now)
{
	struct timewaits *place = container_of(timer, struct timewaits, timer);
	struct timewait *t;

	for (unsigned i = 0; i < QUEUES; i++) {
		while ((t = first_of(&place->queues[i])) && t->tw.until <= now)
			end_filed(place, t);
	}
	arm(place);
}

/* ---- what arrives (holder) ---------------------------------------------------------- */

/* Back to where the segment came from. */
static void send_answer(struct ring *ring, uint8_t ttl, uint8_t tos, const struct pkt *to,
			const struct tcp_segment *seg)
{
	struct dst_headers headers = {
		.src = frame_destination(to), .proto = IPPROTO_TCP, .ttl = ttl, .tos = tos};
	struct endpoint peer = frame_source(to);
	struct frame_template tmpl;
	struct pkt *pkt;

	if (dst_template(&tmpl, ring, to->frame + 6, &peer, &headers))
		return;
	pkt = ring_tx_get(ring);
	if (!pkt)
		return; /* the peer asks again */
	pkt->frame_len = (uint32_t)frame_build_tcp(&tmpl, pkt->frame, seg);
	ring_tx_put(ring, pkt);
}

/*
 * A SYN that begins a new connection, and that nobody here listens to, is answered with an ACK,
 * as by the kernel. A peer that sees it in SYN-SENT resets, and sends its SYN again within
 * milliseconds instead of a second; by then this is over, and whoever listens gets it.
 */
static enum drop deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct timewait *t = container_of(flow, struct timewait, flow);
	struct timewaits *place = ring->timewaits;
	bool half = tcp_timewait_half(&t->tw);
	uint8_t ttl = t->ttl, tos = t->tos;
	nsec_t until = t->tw.until;
	struct tcp_timewait_answer ans;
	struct flow_key key = flow->key;
	enum drop reason = tcp_timewait_input(&t->tw, pkt, &ans, now);
	bool waits = half && !tcp_timewait_half(&t->tw); /* from now on in the other queue */
	bool refile = ans.over || waits || t->tw.until != until;

	if (ans.send)
		send_answer(ring, ttl, tos, pkt, &ans.seg);
	if (waits)
		count_half(ring, false);
	if (refile)
		unfile(&place->queues[half], t);
	if (ans.over)
		end(ring, t);
	else if (refile)
		file(place, t);
	if (reason == DROP_NO_FLOW && ans.over) {
		reason = tcp_deliver_to_listener(ring, &key, pkt, now);
		if (reason == DROP_NO_FLOW)
			send_answer(ring, ttl, tos, pkt, &ans.seg);
		return reason;
	}
	if (reason == DROP_NONE)
		pkt_free(pkt);
	return reason;
}

/* ---- making one (holder) ------------------------------------------------------------ */

static unsigned most(void)
{
	static int known; /* any, atomic */
	int max = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (!max) {
		max = sys_read_number("/proc/sys/net/ipv4/tcp_max_tw_buckets", 65536);
		max = max > 0 ? max : -1;
		__atomic_store_n(&known, max, __ATOMIC_RELAXED);
	}
	return max > 0 ? (unsigned)max : 0;
}

/* Is its port its own as long as it needs it?  An accepted one's is the listener's. */
static bool is_kept(const struct inet_sock *so)
{
	if (!so->bound || so->spare >= 0)
		return true;
	add(&timewait_stats.early, 1);
	return false;
}

/* Of all rings together: one more, or one of this ring goes for it. */
static bool make_room(struct timewaits *place)
{
	if (load(&timewait_stats.now) < most())
		return true;
	add(&timewait_stats.early, 1);
	for (unsigned i = 0; i < QUEUES; i++) {
		struct timewait *oldest = first_of(&place->queues[i]);

		if (!oldest)
			continue;
		end_filed(place, oldest);
		return true;
	}
	return false;
}

static struct timewait *create(struct timewaits *place, struct inet_sock *so)
{
	struct timewait *t = make_room(place) ? mem_zalloc(sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	t->flow.deliver = deliver;
	t->tos = so->opt->tos;
	t->ttl = so->opt->ttl;
	t->port = PORT_KEEPER_NONE;
	if (so->bound) { /* else its twin is not, and a duplicate keeps nothing */
		t->port = so->spare;
		so->spare = PORT_KEEPER_NONE;
	}
	add(&timewait_stats.now, 1);
	add(&timewait_stats.total, 1);
	return t;
}

/*
 * A connection on the move is taken when it has arrived: the move looks for the socket,
 * and its frames come to the stand-in.  so->move: nobody begins a move of a socket that
 * its program closed, and LEAVE, by a holder, ends this one.
 */
bool timewait_take(struct inet_sock *so, struct ring *ring)
{
	struct timewaits *place;
	struct timewait *t;

	ring_assert_held(ring);
	if (!tcp_timewait_due(&so->tcp.conn) || so->move || !so->tcp.flow.listed)
		return false;
	place = place_of(ring);
	t = place && is_kept(so) ? create(place, so) : NULL;
	if (t) {
		ring_flow_replace(ring, &so->tcp.flow, &t->flow);
		tcp_timewait_begin(&t->tw, &so->tcp.conn);
		if (tcp_timewait_half(&t->tw))
			count_half(ring, true);
		file(place, t);
		while (load(&port_keepers) > keepers_max(ring->now) && end_a_keeper(ring))
			;
	}
	return true; /* as Linux: without room, or memory, it ends at once; and without its port */
}

/* ---- a connection of ours ----------------------------------------------------------- */

/* As Linux.  A peer that still has its half is told by the new SYN (RFC 9293 section 3.5.2). */
static bool reusable(const struct timewait *t, nsec_t now)
{
	return tcp_timewait_reusable(&t->tw, now) &&
	       sys_read_number("/proc/sys/net/ipv4/tcp_tw_reuse", 2) == 1;
}

int timewait_reuse(struct ring *ring, struct flow *flow, uint32_t *iss, nsec_t now)
{
	struct timewait *t = container_of(flow, struct timewait, flow);

	if (flow->deliver != deliver || !reusable(t, now))
		return -EADDRNOTAVAIL;
	*iss = tcp_timewait_next_iss(&t->tw);
	end_filed(ring->timewaits, t);
	return 0;
}

/* ---- a ring that closes (control lock) ---------------------------------------------- */

/*
 * holder of the old ring: takes some off it; those that cannot be handed over end.  None
 * is half a connection, for those keep the ring.  False: there are no more.
 */
static bool take_off(struct timewaits *place, bool hand_over, struct list *moving)
{
	struct ring *ring = place->ring;

	for (unsigned i = 0; i < MOVED_AT_ONCE; i++) {
		struct timewait *t = first_of(&place->queues[0]);

		if (!t) {
			wheel_cancel(&ring->wheel, &place->timer);
			ring->timewaits = NULL;
			mem_free(place);
			return false;
		}
		unfile(&place->queues[0], t);
		if (!hand_over || ring_flow_unsteer(ring, &t->flow)) {
			end(ring, t);
		} else {
			ring_flow_del(ring, &t->flow);
			list_push_back(moving, &t->link);
		}
	}
	return true;
}

/* holder of the new one; refused: what could not be steered there */
static void take_on(struct ring *ring, struct list *moving, struct list *refused)
{
	struct timewaits *place = place_of(ring);
	struct list *link;

	while ((link = list_pop_front(moving))) {
		struct timewait *t = of_link(link);

		if (place && !ring_flow_list(ring, &t->flow) && !ring_flow_steer(ring, &t->flow)) {
			file(place, t);
		} else {
			ring_flow_del(ring, &t->flow);
			list_push_back(refused, link);
		}
	}
}

/* holder of the old one, whose port still brings their frames to it */
static void end_refused(struct ring *ring, struct list *refused)
{
	struct list *link;

	while ((link = list_pop_front(refused))) {
		struct timewait *t = of_link(link);

		ring->ops->del_flow(ring->q, &t->flow.key);
		end(ring, t);
	}
}

/*
 * False: there are no more.  The control lock is held, so this thread holds no ring, and
 * none is refused.
 */
static bool vacate_some(struct ring *ring, struct ring *heir)
{
	struct list moving, refused;
	bool more = false;

	list_init(&moving);
	list_init(&refused);
	if (!ring_hold_cold(ring))
		return false;
	/* Pairs with ring_put(): what its last user did is done. */
	if (ring->timewaits && !__atomic_load_n(&ring->refs, __ATOMIC_ACQUIRE))
		more = take_off(ring->timewaits, heir != NULL, &moving);
	ring_release_cold(ring);
	if (!list_empty(&moving) && ring_hold_cold(heir)) {
		take_on(heir, &moving, &refused);
		ring_release_cold(heir);
	}
	if (!list_empty(&refused) && ring_hold_cold(ring)) {
		end_refused(ring, &refused);
		ring_release_cold(ring);
	}
	return more;
}

void timewait_leave_ring(struct ring *ring, struct ring *heir)
{
	control_assert_held();
	control_assert_no_ring();
	while (vacate_some(ring, heir))
		;
}

/* ---- without their listener --------------------------------------------------------- */

/* The listener's own port, of which an accepted connection has no keeper. */
static bool began_at(const struct timewait *t, const struct endpoint *listener)
{
	return t->port < 0 && t->flow.key.local_port == listener->port &&
	       (addr_is_any(&listener->addr) || addr_eq(&t->flow.key.local, &listener->addr));
}

/* Holder of the ring. True: there are more. */
static bool end_some_of(struct ring *ring, const struct endpoint *listener)
{
	struct queue *q = queues_of(ring); /* TIME_WAIT */
	unsigned n = 0;

	if (!q)
		return false;
	list_for_each_safe(link, &q->all) {
		struct timewait *t = of_link(link);

		if (!began_at(t, listener))
			continue;
		if (n++ == ENDED_AT_ONCE)
			return true;
		end_filed(ring->timewaits, t);
	}
	return false;
}

void timewait_listener_stops(const struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);
		bool more = true;

		while (more && ring_hold_cold(ring)) {
			more = end_some_of(ring, &so->local);
			ring_release_cold(ring);
		}
	}
}

void timewait_forget(void)
{
	memset(&timewait_stats, 0, sizeof(timewait_stats));
}

void timewait_log_stats(void)
{
	if (load(&timewait_stats.total))
		log_debug(
			"connections in FIN_WAIT_2 and TIME_WAIT: %u, %u of them now, %u ended early",
			load(&timewait_stats.total), load(&timewait_stats.now),
			load(&timewait_stats.early));
}
