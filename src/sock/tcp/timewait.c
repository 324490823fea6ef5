/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/tcp/timewait.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "net/tcp/tcp_timewait.h"
#include "sock/core/stats/sock_record.h"
#include "sock/tcp/tcp_sock.h"

#define TIMER_GRID (100 * NSEC_PER_MSEC) /* one wake-up for all records that end within it */
#define ENQUEUE_STEPS 64		 /* most records compared to find its place */
#define MOVED_AT_ONCE 64		 /* in one hold of a ring that is in use */
#define ENDED_AT_ONCE 1024		 /* the same, for records that end */
#define KEEPERS_SHARE 8			 /* records may use an eighth of RLIMIT_NOFILE */
#define KEEPERS_PARTS 6			 /* eighths for all keepers, with those of orphans */
#define KEEPERS_MAX 4096

struct timewait {
	struct flow flow; /* first */
	struct list link; /* in its queue */
	struct tcp_timewait tw;
	int port; /* keeper of its port, or PORT_KEEPER_NONE: the listener has the port */
	uint8_t tos, ttl;
};

_Static_assert(sizeof(struct timewait) <= 128, "there may be a hundred thousand of them");

#define QUEUES 2

struct queue {
	struct list all;     /* the record that ends first is first */
	struct list *keeper; /* the first record that may have a keeper, or &all */
};

/* The records of one ring; ring->records. */
struct timewaits {
	struct ring *ring;
	struct timer timer;
	struct queue queues[QUEUES]; /* TIME_WAIT, FIN_WAIT_2: usually one duration each */
};

static struct queue *queues_of(struct ring *ring)
{
	struct timewaits *set = ring->records;

	return set ? set->queues : NULL;
}

struct timewait_stats timewait_stats;

static unsigned counter_add(unsigned *counter, unsigned n)
{
	return __atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

static unsigned counter_load(const unsigned *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static struct timewait *of_link(struct list *link)
{
	return container_of(link, struct timewait, link);
}

/* ---- ports -------------------------------------------------------------------------- */

/* RLIMIT_NOFILE, read once a second because the program may change it. */
static unsigned files_limit(nsec_t now)
{
	static nsec_t next; /* any, atomic, like max */
	static unsigned max;
	struct rlimit limit = {.rlim_cur = UINT32_MAX};

	if (now < __atomic_load_n(&next, __ATOMIC_RELAXED))
		return counter_load(&max);
	sys_call(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit, 0, 0);
	if (limit.rlim_cur > UINT32_MAX)
		limit.rlim_cur = UINT32_MAX;
	__atomic_store_n(&max, (unsigned)limit.rlim_cur, __ATOMIC_RELAXED);
	__atomic_store_n(&next, now + NSEC_PER_SEC, __ATOMIC_RELAXED);
	return (unsigned)limit.rlim_cur;
}

/* Maximum number of keepers, for a new record. */
static unsigned keepers_max(nsec_t now)
{
	unsigned n = files_limit(now) / KEEPERS_SHARE;

	return n < KEEPERS_MAX ? n : KEEPERS_MAX;
}

static void skip_unkept(struct queue *q)
{
	while (q->keeper != &q->all && of_link(q->keeper)->port < 0)
		q->keeper = q->keeper->next;
}

/* ---- the records of a ring (holder) ------------------------------------------------- */

static void timewait_run_timer(struct timer *timer, nsec_t now);

static struct timewaits *timewaits_of(struct ring *ring)
{
	struct timewaits *set = ring->records;

	if (set)
		return set;
	set = mem_alloc(sizeof(*set));
	if (!set)
		return NULL;
	set->ring = ring;
	timer_init(&set->timer, timewait_run_timer);
	for (unsigned i = 0; i < QUEUES; i++) {
		list_init(&set->queues[i].all);
		set->queues[i].keeper = &set->queues[i].all;
	}
	ring->records = set;
	return set;
}

/* The record that ends first, or NULL. */
static struct timewait *first_of(const struct queue *q)
{
	return list_empty(&q->all) ? NULL : of_link(q->all.next);
}

static void timewait_arm(struct timewaits *set)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		const struct timewait *t = first_of(&set->queues[i]);
		nsec_t at;

		if (!t)
			continue;
		at = (t->tw.until + TIMER_GRID - 1) / TIMER_GRID * TIMER_GRID;
		if (at < set->timer.when)
			ring_arm(set->ring, &set->timer, at);
	}
}

static struct queue *queue_of(struct timewaits *set, const struct timewait *t)
{
	return &set->queues[tcp_timewait_half(&t->tw)];
}

/*
 * Inserts the record at or near the end of its queue. If its place is further away (the program
 * closed the connection late, or set TCP_LINGER2), it lasts as long as the last record instead.
 */
static void timewait_enqueue(struct timewaits *set, struct timewait *t)
{
	struct queue *q = queue_of(set, t);
	struct list *before = q->all.prev;
	unsigned steps = 0;

	while (before != &q->all && of_link(before)->tw.until > t->tw.until) {
		before = before->prev;
		if (++steps > ENQUEUE_STEPS) {
			before = q->all.prev;
			t->tw.until = of_link(before)->tw.until;
		}
	}
	list_insert_between(&t->link, before, before->next);
	if (t->port >= 0 && (q->keeper == &q->all || of_link(q->keeper)->tw.until > t->tw.until))
		q->keeper = &t->link;
	timewait_arm(set);
}

static void timewait_dequeue(struct queue *q, struct timewait *t)
{
	if (q->keeper == &t->link) {
		q->keeper = t->link.next;
		skip_unkept(q);
	}
	list_remove(&t->link);
}

/* A FIN_WAIT_2 record counts as an orphan, and keeps its ring open. */
static void count_half(struct ring *ring, bool begins)
{
	__atomic_fetch_add(&tcp_orphans[TCP_ORPHAN_HALF], begins ? 1 : -1u, __ATOMIC_RELAXED);
	if (begins)
		ring_get(ring);
	else
		ring_put(ring);
}

/* The record is in no queue any more, but its flow is still there. */
static void timewait_end(struct ring *ring, struct timewait *t)
{
	if (tcp_timewait_half(&t->tw))
		count_half(ring, false);
	ring_flow_del(ring, &t->flow);
	port_keeper_close(t->port);
	counter_add(&timewait_stats.now, -1u);
	mem_free(t);
}

static void timewait_remove(struct timewaits *set, struct timewait *t)
{
	timewait_dequeue(queue_of(set, t), t);
	timewait_end(set->ring, t);
}

/*
 * Ends the ring's oldest record that has a keeper, for the descriptor. The record cannot stay
 * without it: another socket may get the port, and its frames would arrive here. False: there is
 * no such record.
 */
static bool end_oldest_keeper(struct ring *ring)
{
	for (struct queue *q = queues_of(ring); q && q < queues_of(ring) + QUEUES; q++) {
		if (q->keeper == &q->all)
			continue;
		timewait_remove(ring->records, of_link(q->keeper));
		counter_add(&timewait_stats.early, 1);
		return true;
	}
	return false;
}

/*
 * An orphan usually keeps its port, and a record ends for it: another socket that gets the port
 * would get no answers. The orphan's keeper replaces the descriptor that is closed.
 */
int timewait_keep_port(struct ring *ring, int twin)
{
	int fd;

	ring_assert_held(ring);
	if (counter_load(&port_keepers) >= files_limit(ring->now) / KEEPERS_SHARE * KEEPERS_PARTS &&
	    !end_oldest_keeper(ring))
		return PORT_KEEPER_NONE;
	fd = port_keeper_open(twin);
	if ((fd == -EMFILE || fd == -ENFILE) && end_oldest_keeper(ring))
		fd = port_keeper_open(twin);
	return fd < 0 ? PORT_KEEPER_NONE : fd;
}

static void timewait_run_timer(struct timer *timer, nsec_t now)
{
	struct timewaits *set = container_of(timer, struct timewaits, timer);
	struct timewait *t;

	for (unsigned i = 0; i < QUEUES; i++) {
		while ((t = first_of(&set->queues[i])) && t->tw.until <= now)
			timewait_remove(set, t);
	}
	timewait_arm(set);
}

/* ---- segments that arrive (holder) -------------------------------------------------- */

/* Sends a segment back to the sender of `to`. */
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
		return; /* the peer sends its segment again */
	pkt->frame_len = (uint32_t)frame_build_tcp(&tmpl, pkt->frame, seg);
	ring_tx_put(ring, pkt);
}

/*
 * A SYN that begins a new connection while no socket here listens is answered with an ACK, as by
 * the kernel. A peer in SYN-SENT answers that with an RST, and sends its SYN again within
 * milliseconds instead of a second. By then this record has ended, and the listener, wherever it
 * is, gets the SYN.
 */
static enum drop timewait_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct timewait *t = container_of(flow, struct timewait, flow);
	struct timewaits *set = ring->records;
	bool half = tcp_timewait_half(&t->tw);
	uint8_t ttl = t->ttl, tos = t->tos;
	nsec_t until = t->tw.until;
	struct tcp_timewait_answer ans;
	struct flow_key key = flow->key;
	enum drop reason = tcp_timewait_input(&t->tw, pkt, &ans, now);
	bool waits = half && !tcp_timewait_half(&t->tw); /* it moves to the other queue */
	bool refile = ans.over || waits || t->tw.until != until;

	if (ans.send)
		send_answer(ring, ttl, tos, pkt, &ans.seg);
	if (waits)
		count_half(ring, false);
	if (refile)
		timewait_dequeue(&set->queues[half], t);
	if (ans.over)
		timewait_end(ring, t);
	else if (refile)
		timewait_enqueue(set, t);
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

/* ---- creating a record (holder) ----------------------------------------------------- */

/* Has its port a keeper, if it needs one? An accepted connection uses its listener's port. */
static bool port_is_kept(const struct inet_sock *so)
{
	if (!so->bound || so->spare >= 0)
		return true;
	counter_add(&timewait_stats.early, 1);
	return false;
}

/* Is there room for one more, of all rings together? If not, a record of this ring ends. */
static bool make_room(struct timewaits *set)
{
	if (counter_load(&timewait_stats.now) < tcp_kernel()->timewaits_max)
		return true;
	counter_add(&timewait_stats.early, 1);
	for (unsigned i = 0; i < QUEUES; i++) {
		struct timewait *oldest = first_of(&set->queues[i]);

		if (!oldest)
			continue;
		timewait_remove(set, oldest);
		return true;
	}
	return false;
}

static struct timewait *timewait_create(struct timewaits *set, struct inet_sock *so)
{
	struct timewait *t = make_room(set) ? mem_zalloc(sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	t->flow.deliver = timewait_deliver;
	t->tos = options_tos(so->opt, &so->remote.addr);
	t->ttl = so->tcp.dst.ring ? frame_template_ttl(&so->tcp.dst.tmpl)
				  : options_ttl(so->opt, &so->remote.addr);
	t->port = PORT_KEEPER_NONE;
	if (so->bound) { /* else its twin is unbound, so a duplicate would keep no port */
		t->port = so->spare;
		so->spare = PORT_KEEPER_NONE;
	}
	counter_add(&timewait_stats.now, 1);
	counter_add(&timewait_stats.total, 1);
	return t;
}

/*
 * A connection that is moving is taken when it has arrived, because the move refers to the
 * socket, and its frames go to the stand-in. so->move may be read here: no move begins for a
 * socket that its program closed, and LEAVE, which ends a move, runs in a holder.
 */
bool timewait_take(struct inet_sock *so, struct ring *ring)
{
	struct timewaits *set;
	struct timewait *t;

	ring_assert_held(ring);
	if (!tcp_timewait_due(&so->tcp.conn) || so->move || !so->tcp.flow.listed)
		return false;
	set = timewaits_of(ring);
	t = set && port_is_kept(so) ? timewait_create(set, so) : NULL;
	if (t) {
		sock_record(so, RECORD_TIME_WAIT, 0);
		ring_flow_replace(ring, &so->tcp.flow, &t->flow);
		tcp_timewait_begin(&t->tw, &so->tcp.conn);
		if (tcp_timewait_half(&t->tw))
			count_half(ring, true);
		timewait_enqueue(set, t);
		while (counter_load(&port_keepers) > keepers_max(ring->now) &&
		       end_oldest_keeper(ring))
			;
	}
	/* As on Linux, it ends at once without room or memory; also without a keeper. */
	return true;
}

/* ---- connecting again (holder) ------------------------------------------------------ */

/*
 * As on Linux. The new SYN tells a peer that still has its half of the old connection (RFC 9293
 * section 3.5.2).
 */
static bool timewait_is_reusable(const struct timewait *t, nsec_t now)
{
	return tcp_timewait_reusable(&t->tw, now) &&
	       sys_read_number("/proc/sys/net/ipv4/tcp_tw_reuse", 2) == 1;
}

int timewait_reuse(struct ring *ring, struct flow *flow, uint32_t *iss, nsec_t now)
{
	struct timewait *t = container_of(flow, struct timewait, flow);

	if (flow->deliver != timewait_deliver || !timewait_is_reusable(t, now))
		return -EADDRNOTAVAIL;
	*iss = tcp_timewait_next_iss(&t->tw);
	timewait_remove(ring->records, t);
	return 0;
}

/* ---- a ring that closes (control lock) ---------------------------------------------- */

/*
 * holder of the old ring: removes some records, which `moving` gets; those that cannot be handed
 * over end. There is no FIN_WAIT_2 record, because those keep the ring open. False: there are no
 * more records.
 */
static bool remove_some(struct timewaits *set, bool hand_over, struct list *moving)
{
	struct ring *ring = set->ring;

	for (unsigned i = 0; i < MOVED_AT_ONCE; i++) {
		struct timewait *t = first_of(&set->queues[0]);

		if (!t) {
			wheel_cancel(&ring->wheel, &set->timer);
			ring->records = NULL;
			mem_free(set);
			return false;
		}
		timewait_dequeue(&set->queues[0], t);
		if (!hand_over || ring_flow_unsteer(ring, &t->flow)) {
			timewait_end(ring, t);
		} else {
			ring_flow_del(ring, &t->flow);
			list_push_back(moving, &t->link);
		}
	}
	return true;
}

/* holder of the new ring: adds the records; `refused` gets those that cannot be steered to it. */
static void add_moved(struct ring *ring, struct list *moving, struct list *refused)
{
	struct timewaits *set = timewaits_of(ring);
	struct list *link;

	while ((link = list_pop_front(moving))) {
		struct timewait *t = of_link(link);

		if (set && !ring_flow_list(ring, &t->flow) && !ring_flow_steer(ring, &t->flow)) {
			timewait_enqueue(set, t);
		} else {
			ring_flow_del(ring, &t->flow);
			list_push_back(refused, link);
		}
	}
}

/* holder of the old ring, whose port still steers the frames of these records to it. */
static void end_refused(struct ring *ring, struct list *refused)
{
	struct list *link;

	while ((link = list_pop_front(refused))) {
		struct timewait *t = of_link(link);

		ring_flow_unexpect(ring, &t->flow.key);
		timewait_end(ring, t);
	}
}

/*
 * False: there are no more records. The caller holds the control lock and no ring, so both rings
 * can be held.
 */
static bool leave_some(struct ring *ring, struct ring *other)
{
	struct list moving, refused;
	bool more = false;

	list_init(&moving);
	list_init(&refused);
	if (!ring_hold_cold(ring))
		return false;
	/* Pairs with ring_put(): the changes by the ring's last user are visible. */
	if (ring->records && !__atomic_load_n(&ring->refs, __ATOMIC_ACQUIRE))
		more = remove_some(ring->records, other != NULL, &moving);
	ring_release_cold(ring);
	if (!list_empty(&moving) && ring_hold_cold(other)) {
		add_moved(other, &moving, &refused);
		ring_release_cold(other);
	}
	if (!list_empty(&refused) && ring_hold_cold(ring)) {
		end_refused(ring, &refused);
		ring_release_cold(ring);
	}
	return more;
}

void timewait_leave_ring(struct ring *ring, struct ring *other)
{
	control_assert_held();
	control_assert_no_ring();
	while (leave_some(ring, other))
		;
}

/* ---- a listener that stops (control lock) ------------------------------------------- */

/* Did the listener accept the connection? Its records have no keeper. */
static bool was_accepted_by(const struct timewait *t, const struct endpoint *listener)
{
	return t->port < 0 && t->flow.key.local_port == listener->port &&
	       (addr_is_any(&listener->addr) || addr_eq(&t->flow.key.local, &listener->addr));
}

/* holder: ends some records of the listener's connections. True: there are more. */
static bool end_some_accepted(struct ring *ring, const struct endpoint *listener)
{
	struct queue *q = queues_of(ring); /* the queue of TIME_WAIT */
	unsigned n = 0;

	if (!q)
		return false;
	list_for_each_safe(link, &q->all) {
		struct timewait *t = of_link(link);

		if (!was_accepted_by(t, listener))
			continue;
		if (n++ == ENDED_AT_ONCE)
			return true;
		timewait_remove(ring->records, t);
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
			more = end_some_accepted(ring, &so->local);
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
	if (counter_load(&timewait_stats.total))
		log_debug(
			"connections in FIN_WAIT_2 and TIME_WAIT: %u, %u of them now, %u ended early",
			counter_load(&timewait_stats.total), counter_load(&timewait_stats.now),
			counter_load(&timewait_stats.early));
}
