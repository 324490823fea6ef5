/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/loop_port.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "net/tcp/tcp_wire.h"
#include "tests/cut_large.h"

#define FLOWS_MAX 4096
#define GATE_MAX (10 * NSEC_PER_SEC)

uint32_t loop_port_mtu = 1500;

static const struct port_ops *loop; /* the port behind this one */
static struct port_ops ops;

/* any, atomic */
static int gate_shut, opens_to_fail, moves_to_fail, takes_to_fail, queues;
static unsigned barriers;
static bool leaked, late;
static bool (*lose_fn)(const struct pkt *pkt);
static int (*large_fn)(const struct frame_large *large);
static bool (*foreign_fn)(const struct flow_key *key);

/* The owner of each flow. */
static pthread_mutex_t flows_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct flow_key key;
	struct port_queue *q; /* of a shared flow: the queue that joined last */
	unsigned members;     /* 0: not shared */
} flows[FLOWS_MAX];
static unsigned n_flows;

void loop_port_gate(bool shut)
{
	__atomic_store_n(&gate_shut, shut, __ATOMIC_RELEASE);
}

unsigned loop_port_barriers(void)
{
	return __atomic_load_n(&barriers, __ATOMIC_ACQUIRE);
}

void loop_port_fail_opens(int n)
{
	__atomic_store_n(&opens_to_fail, n, __ATOMIC_RELEASE);
}

void loop_port_fail_moves(int n)
{
	__atomic_store_n(&moves_to_fail, n, __ATOMIC_RELEASE);
}

void loop_port_fail_takes(int n)
{
	__atomic_store_n(&takes_to_fail, n, __ATOMIC_RELEASE);
}

void loop_port_late(void)
{
	__atomic_store_n(&late, true, __ATOMIC_RELEASE);
}

void loop_port_lose(bool (*lose)(const struct pkt *pkt))
{
	__atomic_store_n(&lose_fn, lose, __ATOMIC_RELEASE);
}

void loop_port_large(int (*take)(const struct frame_large *large))
{
	__atomic_store_n(&large_fn, take, __ATOMIC_RELEASE);
}

void loop_port_share(bool (*is_foreign)(const struct flow_key *key))
{
	__atomic_store_n(&foreign_fn, is_foreign, __ATOMIC_RELEASE);
}

int loop_port_queues(void)
{
	return __atomic_load_n(&queues, __ATOMIC_ACQUIRE);
}

bool loop_port_leaked(void)
{
	return __atomic_load_n(&leaked, __ATOMIC_ACQUIRE);
}

void loop_port_forget(void)
{
	gate_shut = opens_to_fail = moves_to_fail = takes_to_fail = queues = 0;
	leaked = late = false;
	lose_fn = NULL;
	large_fn = NULL;
	foreign_fn = NULL;
	pthread_mutex_init(&flows_lock, NULL); /* its holder may not exist in the child */
	n_flows = 0;
}

static bool take_one(int *count)
{
	int n = __atomic_load_n(count, __ATOMIC_ACQUIRE);

	while (n > 0 && !__atomic_compare_exchange_n(count, &n, n - 1, false, __ATOMIC_ACQ_REL,
						     __ATOMIC_ACQUIRE))
		;
	return n > 0;
}

/* ---- who has a flow ---------------------------------------------------------------- */

static struct flow_key spelled(const struct flow_key *key)
{
	struct flow_key one = *key;

	if (!one.remote_port)
		memset(&one.remote, 0, sizeof(one.remote));
	return one;
}

/* flows_lock: the index, or n_flows. */
static unsigned find(const struct flow_key *key)
{
	unsigned i = 0;

	while (i < n_flows && !flow_key_eq(&flows[i].key, key))
		i++;
	return i;
}

static bool port_flow_is_foreign(struct port *port, const struct flow_key *key)
{
	bool (*is_foreign)(const struct flow_key *) =
		__atomic_load_n(&foreign_fn, __ATOMIC_ACQUIRE);

	(void)port;
	return is_foreign && is_foreign(key);
}

static int port_add_flow(struct port_queue *q, const struct flow_key *key)
{
	struct flow_key one = spelled(key);
	int rc = -EEXIST;

	pthread_mutex_lock(&flows_lock);
	if (n_flows == FLOWS_MAX)
		rc = -ENOSPC;
	else if (find(&one) == n_flows && !port_flow_is_foreign(q->port, key))
		rc = loop->add_flow(q, key);
	if (!rc) {
		flows[n_flows].key = one;
		flows[n_flows].members = 0;
		flows[n_flows++].q = q;
	}
	pthread_mutex_unlock(&flows_lock);
	return rc;
}

static int port_move_flow(struct port_queue *q, const struct flow_key *key)
{
	struct flow_key one = spelled(key);
	unsigned i;
	int rc;

	if (take_one(&moves_to_fail))
		return -ENOMEM;
	pthread_mutex_lock(&flows_lock);
	i = find(&one);
	rc = loop->move_flow(q, key);
	if (!rc)
		flows[i].q = q;
	pthread_mutex_unlock(&flows_lock);
	return rc;
}

static int port_take_flow(struct port_queue *q, const struct flow_key *key)
{
	int rc = take_one(&takes_to_fail) ? -EPERM : port_move_flow(q, key);

	return rc == -ENOENT ? port_add_flow(q, key) : rc;
}

static void forget(unsigned i)
{
	flows[i] = flows[--n_flows];
}

static int port_del_flow(struct port_queue *q, const struct flow_key *key)
{
	struct flow_key one = spelled(key);
	unsigned i;
	int rc;

	pthread_mutex_lock(&flows_lock);
	rc = loop->del_flow(q, key);
	i = find(&one);
	if (!rc && i < n_flows)
		forget(i);
	pthread_mutex_unlock(&flows_lock);
	return rc;
}

static int port_share_join(struct port_queue *q, const struct flow_key *key,
			   struct flow_share *share)
{
	struct flow_key one = spelled(key);
	unsigned i;
	int rc = -ENOSPC;

	pthread_mutex_lock(&flows_lock);
	i = find(&one);
	if (i < FLOWS_MAX)
		rc = loop->reuseport_join(q, key, share);
	if (!rc) {
		if (i == n_flows)
			flows[n_flows++].members = 0;
		flows[i].key = one;
		flows[i].q = q;
		flows[i].members++;
	}
	pthread_mutex_unlock(&flows_lock);
	return rc;
}

static void port_share_leave(struct port_queue *q, const struct flow_key *key,
			     const struct flow_share *share)
{
	struct flow_key one = spelled(key);
	unsigned i;

	pthread_mutex_lock(&flows_lock);
	loop->reuseport_leave(q, key, share);
	i = find(&one);
	if (i < n_flows && !--flows[i].members)
		forget(i);
	pthread_mutex_unlock(&flows_lock);
}

static bool has_flow(struct flow_key key)
{
	bool has;

	pthread_mutex_lock(&flows_lock);
	has = find(&key) < n_flows;
	key.remote_port = 0;
	key = spelled(&key);
	has |= find(&key) < n_flows;
	pthread_mutex_unlock(&flows_lock);
	return has;
}

/* ---- sending ------------------------------------------------------------------------- */

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Turns the segment into the reset that answers it (RFC 9293 section 3.5.2). */
static void turn_into_reset(struct pkt *pkt, const struct flow_key *key)
{
	const uint8_t *tcp = pkt->frame + pkt->l4;
	bool ack = pkt->tcp_flags & TCP_ACK;
	uint32_t len = pkt->len + !!(pkt->tcp_flags & TCP_SYN) + !!(pkt->tcp_flags & TCP_FIN);
	struct tcp_segment seg = {
		.seq = ack ? get32(tcp + 8) : 0,
		.ack = ack ? 0 : get32(tcp + 4) + len,
		.flags = ack ? TCP_RST : TCP_RST | TCP_ACK,
	};
	struct frame_params fp = {
		.src_mac = pkt->frame,
		.dst_mac = pkt->frame,
		.src = {.addr = key->local, .port = key->local_port},
		.dst = {.addr = key->remote, .port = key->remote_port},
		.proto = IPPROTO_TCP,
		.ttl = 64,
	};
	struct frame_template tmpl;

	frame_template_init(&tmpl, &fp);
	pkt->frame_len = (uint32_t)frame_build_tcp(&tmpl, pkt->frame, &seg);
}

static int port_tx_put(struct port_queue *q, struct pkt *pkt)
{
	bool (*lose)(const struct pkt *) = __atomic_load_n(&lose_fn, __ATOMIC_ACQUIRE);
	uint32_t len = pkt->frame_len;
	struct flow_key key;

	if (frame_parse(pkt, 0, &key) == DROP_NONE && key.proto == IPPROTO_TCP) {
		if (lose && lose(pkt)) {
			pkt_free(pkt);
			return 0;
		}
		if (!(pkt->tcp_flags & TCP_RST) && !has_flow(key)) {
			turn_into_reset(pkt, &key);
			len = pkt->frame_len;
		}
	} else if (lose && lose(pkt)) {
		pkt_free(pkt);
		return 0;
	}
	pkt->frame_len = len;
	return loop->tx_put(q, pkt);
}

/* Without a frame for one of them, that one is lost. */
static int port_tx_large(struct port_queue *q, const struct frame_large *large)
{
	int (*take)(const struct frame_large *) = __atomic_load_n(&large_fn, __ATOMIC_ACQUIRE);
	int rc = take ? take(large) : -EOPNOTSUPP;

	for (uint32_t i = 0; !rc && i < frame_large_segments(large); i++) {
		struct pkt *pkt = loop->tx_get(q);

		if (!pkt)
			continue;
		pkt->frame_len = (uint32_t)cut_large(large, i, pkt->frame);
		(void)port_tx_put(q, pkt);
	}
	if (!rc)
		loop->tx_flush(q);
	return rc;
}

/* ---- the port -------------------------------------------------------------------------- */

static int port_rx_burst(struct port_queue *q, struct pkt **pkts, int max)
{
	return __atomic_load_n(&late, __ATOMIC_ACQUIRE) ? 0 : loop->rx_burst(q, pkts, max);
}

static void port_barrier(struct port *port)
{
	struct timespec nap = {0, 100000};
	nsec_t until = clock_now() + GATE_MAX;

	__atomic_fetch_add(&barriers, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&gate_shut, __ATOMIC_ACQUIRE) && clock_now() < until)
		nanosleep(&nap, NULL);
	loop->barrier(port);
	__atomic_store_n(&late, false, __ATOMIC_RELEASE);
}

static int port_open_queue(struct port *port, struct port_queue **q, char why[PORT_WHY])
{
	int rc;

	if (take_one(&opens_to_fail)) {
		snprintf(why, PORT_WHY, "The test says so.\n");
		return -ENOMEM;
	}
	rc = loop->open_queue(port, q, why);
	if (!rc)
		__atomic_fetch_add(&queues, 1, __ATOMIC_ACQ_REL);
	return rc;
}

static void port_close_queue(struct port_queue *q)
{
	if (!loop->idle(q))
		__atomic_store_n(&leaked, true, __ATOMIC_RELEASE);
	pthread_mutex_lock(&flows_lock);
	for (unsigned i = n_flows; i-- > 0;) {
		if (flows[i].q == q)
			forget(i);
	}
	pthread_mutex_unlock(&flows_lock);
	loop->close_queue(q);
	__atomic_fetch_sub(&queues, 1, __ATOMIC_ACQ_REL);
}

static int open_kind(int ifindex, struct port **port, char why[PORT_WHY])
{
	const struct port_ops *real;
	int rc = port_loop_open(loop_port_mtu, port);

	if (rc)
		return rc;
	(*port)->can.segment_max = 65535;
	(*port)->can.large_udp = true;
	real = (*port)->ops;
	(*port)->ops = &ops;
	if (loop)
		return 0; /* opened again, after all its queues were closed */
	loop = real;
	ops = *loop;
	ops.add_flow = port_add_flow;
	ops.barrier = port_barrier;
	ops.close_queue = port_close_queue;
	ops.del_flow = port_del_flow;
	ops.flow_is_foreign = port_flow_is_foreign;
	ops.move_flow = port_move_flow;
	ops.open_queue = port_open_queue;
	ops.reuseport_join = port_share_join;
	ops.reuseport_leave = port_share_leave;
	ops.rx_burst = port_rx_burst;
	ops.take_flow = port_take_flow;
	ops.tx_large = port_tx_large;
	ops.tx_put = port_tx_put;
	return 0;
}

const struct port_kind loop_port_kind = {
	.name = "loop",
	.takes = port_takes_all,
	.open = open_kind,
	.thread_begins = port_kind_ignores,
	.thread_ends = port_kind_ignores,
	.forget = port_kind_ignores,
};
