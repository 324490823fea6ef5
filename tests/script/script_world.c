/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/script/script_world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/too_big.h"

#define ISS 70000u
#define ROOM 2048
#define LOOK_AGAIN (10 * NSEC_PER_USEC) /* like a program that polls */

/* The alloc function of the engine has no argument that leads to the state. */
static struct world *current;

__attribute__((format(printf, 1, 2))) static void complain(const char *fmt, ...)
{
	va_list args;

	if (current->complaint[0])
		return;
	va_start(args, fmt);
	vsnprintf(current->complaint, sizeof(current->complaint), fmt, args);
	va_end(args);
}

static uint8_t byte_at(bool ours, uint64_t n)
{
	return (uint8_t)(n * 7 + (n >> 8) + (ours ? 0 : 0x55));
}

uint8_t world_peer_byte(uint64_t at)
{
	return byte_at(false, at);
}

/* ---- memory ---- */

static void *op_alloc(size_t size)
{
	current->buffers++;
	return malloc(size);
}

static void op_free(void *p)
{
	current->buffers--;
	free(p);
}

static void pool_put(struct pkt_pool *pool, struct pkt *pkt)
{
	current->packets--;
	free(pkt->frame);
	free(pkt);
}

static struct pkt_pool pool = {.put = pool_put};

/* ---- the wire ---- */

static struct endpoint endpoint_of(bool ours)
{
	static const struct inaddr net6 = {.b = {0x20, 0x01, 0x0d, 0xb8}};
	struct endpoint e = {.addr = addr_v4(htonl(0x0a000001u + !ours)),
			     .port = htons(ours ? 80 : 40000)};

	if (current->ip6) {
		e.addr = net6;
		e.addr.b[15] = ours ? 1 : 2;
	}
	return e;
}

/* Of the frames that we send, or that the peer sends. */
static struct frame_template template_of(bool ours)
{
	static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};
	struct frame_params params = {.src_mac = mac[!ours],
				      .dst_mac = mac[ours],
				      .proto = IPPROTO_TCP,
				      .ttl = 64,
				      .src = endpoint_of(ours),
				      .dst = endpoint_of(!ours)};
	struct frame_template t;

	if (frame_template_init(&t, &params))
		abort();
	return t;
}

/* Checks that these are the bytes that the program wrote. */
static void look_at_data(const struct tcp_segment *seg, uint32_t iss)
{
	uint64_t at = seg->seq - iss - 1;

	for (int i = 0; i < 2; i++) {
		for (uint32_t k = 0; k < seg->part[i].len; k++) {
			if (seg->part[i].data[k] != byte_at(true, at++))
				complain("a wrong byte was sent at %llu", (unsigned long long)at);
		}
	}
}

static int note(const struct tcp_segment *seg, uint32_t iss)
{
	struct world *w = current;
	struct world_segment *s = &w->out[w->out_tail % WORLD_SENT];

	if (w->sink_full)
		return -ENOBUFS;
	if (!w->iss_known && !(seg->flags & TCP_RST)) {
		w->iss = iss;
		w->iss_known = true;
	}
	*s = (struct world_segment){.at = w->now,
				    .flags = seg->flags,
				    .wnd = seg->wnd,
				    .seq = seg->seq,
				    .ack = seg->ack,
				    .urg = seg->urg,
				    .ecn = seg->ecn,
				    .len = seg->len};
	if (!tcp_options_parse(&s->opt, seg->opts, seg->opt_len))
		complain("malformed options were sent");
	if (w->out_tail - w->out_head == WORLD_SENT)
		complain("more than %d segments were sent and not expected", WORLD_SENT);
	else
		w->out_tail++;
	look_at_data(seg, iss);
	return 0;
}

static int op_send(struct tcp_conn *conn, const struct tcp_segment *seg)
{
	return note(seg, conn->iss);
}

/* ---- what the engine reports ---- */

static void report_closed(int error)
{
	if (current->closed++)
		complain("CLOSED was reported twice");
	current->error = error;
}

static void op_closed(struct tcp_conn *conn, int error)
{
	report_closed(error);
}

static void op_established(struct tcp_conn *conn)
{
	if (current->established++ || current->closed)
		complain("ESTABLISHED was reported twice, or too late");
}

static void op_readable(struct tcp_conn *conn)
{
	current->readable++;
}

static void op_urgent(struct tcp_conn *conn)
{
	current->urgent++;
}

static void op_writable(struct tcp_conn *conn)
{
	current->writable++;
}

static void op_record(struct tcp_conn *conn, enum tcp_event event, uint32_t argument)
{
}

static const struct tcp_ops ops = {
	.alloc = op_alloc,
	.closed = op_closed,
	.established = op_established,
	.event = op_record,
	.free = op_free,
	.readable = op_readable,
	.send = op_send,
	.send_train = tcp_send_train,
	.urgent = op_urgent,
	.writable = op_writable,
};

static int listener_accept(struct tcp_listener *l, const struct tcp_synreq *req, struct pkt *pkt,
			   nsec_t now)
{
	struct world *w = current;

	if (w->exists || w->accept_fails) {
		w->accept_fails -= w->accept_fails != 0;
		return -ENOMEM;
	}
	tcp_init_passive(&w->conn, &ops, &w->config, req, now);
	w->exists = true;
	w->established = w->closed = 0; /* it may be the second connection */
	w->drop = tcp_input(&w->conn, pkt, now);
	if (w->drop != DROP_NONE)
		pkt_free(pkt);
	return 0;
}

static const struct tcp_start begin = {.iss = ISS, .ts_offset = ISS};

static struct tcp_start listener_start(struct tcp_listener *l, const struct endpoint *local,
				       const struct endpoint *remote, nsec_t now)
{
	return begin;
}

static int listener_send(struct tcp_listener *l, const struct endpoint *local,
			 const struct endpoint *remote, const struct tcp_segment *seg)
{
	return note(seg, seg->seq);
}

static const struct tcp_listener_ops listener_ops = {
	.accept = listener_accept,
	.alloc = op_alloc,
	.free = op_free,
	.send = listener_send,
	.start = listener_start,
};

/* ---- life ---- */

void world_init(struct world *w, bool ip6)
{
	static struct tcp_settings host;
	static bool kept;

	if (!kept)
		host = tcp_settings;
	kept = true;
	tcp_settings = host; /* scripts change it */
	*w = (struct world){.now = 1000 * NSEC_PER_SEC, .look_at = NSEC_NEVER, .ip6 = ip6};
	w->start = w->now;
	w->config =
		(struct tcp_config){.mss = 1000, .rcvbuf = 65536, .sndbuf = 1u << 20, .ip6 = ip6};
	current = w;
}

const char *world_fini(struct world *w)
{
	current = w;
	if (w->exists) {
		tcp_abort(&w->conn, 0, w->now);
		if (tcp_deadline(&w->conn) != NSEC_NEVER)
			complain("a timer is armed on a connection that is CLOSED");
	}
	if (w->listening)
		tcp_listener_fini(&w->listener);
	if (w->buffers || w->packets)
		complain("%u buffers and %u packets were not given back", w->buffers, w->packets);
	return w->complaint;
}

void world_listen(struct world *w)
{
	current = w;
	tcp_listener_init(&w->listener, &listener_ops, &w->config, 4);
	w->listening = true;
}

int world_connect(struct world *w)
{
	current = w;
	tcp_init(&w->conn, &ops, &w->config);
	w->exists = true;
	return tcp_connect(&w->conn, begin, w->now);
}

/* ---- events ---- */

static uint8_t write_options(const struct world_segment *seg, uint8_t *opts)
{
	const struct tcp_options *o = &seg->opt;
	size_t at = 0;

	if (seg->flags & TCP_SYN) {
		if (!o->mss) /* no options, as in RFC 793 */
			return 0;
		return (uint8_t)tcp_options_write_syn(opts, o);
	}
	if (o->has_ts)
		at = tcp_options_write_timestamps(opts, o->tsval, o->tsecr);
	if (o->sacks)
		at += tcp_options_write_sack(opts + at, TCP_OPT_MAX - at, o->sack, o->sacks);
	return (uint8_t)at;
}

static struct pkt *packet_of(struct world *w, const struct world_segment *seg)
{
	struct frame_template t = template_of(false);
	struct tcp_segment s = {.seq = seg->seq,
				.ack = seg->ack,
				.wnd = seg->wnd,
				.flags = seg->flags,
				.urg = seg->urg,
				.ecn = seg->ecn};
	struct pkt *pkt = calloc(1, sizeof(*pkt));
	struct flow_key key;
	uint8_t data[1500];

	for (uint32_t i = 0; i < seg->len; i++)
		data[i] = byte_at(false, (uint64_t)(seg->seq - WORLD_PEER_ISS - 1) + i);
	s.len = seg->len;
	s.part[0].data = data;
	s.part[0].len = seg->len;
	s.opt_len = write_options(seg, s.opts);
	pkt->frame = malloc(ROOM);
	pkt->room = ROOM;
	pkt->pool = &pool;
	w->packets++;
	pkt->frame_len = (uint32_t)frame_build_tcp(&t, pkt->frame, &s);
	if (frame_parse(pkt, 0, &key) != DROP_NONE)
		complain("the script's own frame is malformed");
	return pkt;
}

static void small_over(struct world *w)
{
	w->small = false;
	report_closed(0);
}

void world_settle(struct world *w)
{
	current = w;
	if (!w->exists || !tcp_timewait_due(&w->conn))
		return;
	tcp_timewait_begin(&w->tw, &w->conn);
	w->exists = false;
	w->small = true;
	if (w->buffers || w->packets)
		complain("a connection that became small keeps memory");
}

/* True: it may be for a listener. */
static bool small_input(struct world *w, struct pkt *pkt)
{
	struct tcp_timewait_answer ans;

	w->drop = tcp_timewait_input(&w->tw, pkt, &ans, w->now);
	if (ans.send)
		note(&ans.seg, w->iss);
	if (ans.over)
		small_over(w);
	if (w->drop == DROP_NONE)
		pkt_free(pkt);
	return w->drop == DROP_NO_FLOW;
}

void world_input(struct world *w, const struct world_segment *seg)
{
	struct pkt *pkt = packet_of(w, seg);
	struct tcp_segment rst;

	current = w;
	w->drop = DROP_NO_FLOW;
	if (w->small && !small_input(w, pkt)) {
		if (w->drop != DROP_NONE)
			pkt_free(pkt);
		return;
	}
	if (w->exists && w->conn.state != TCP_CLOSED)
		w->drop = tcp_input(&w->conn, pkt, w->now);
	if (w->drop == DROP_NO_FLOW && w->listening)
		w->drop = tcp_listener_input(&w->listener, pkt, w->now);
	else if (w->drop == DROP_NO_FLOW && tcp_reset_for(pkt, &rst))
		note(&rst, w->iss);
	if (w->drop != DROP_NONE)
		pkt_free(pkt);
}

bool world_icmp(struct world *w, uint32_t seq, uint32_t mtu)
{
	struct icmp_error error;
	struct frame_template t;

	current = w;
	t = template_of(true);
	if (!too_big_heard(&t, seq, mtu, &error))
		return false;
	if (w->exists && tcp_icmp_is_ours(&w->conn, error.seq))
		tcp_path_mtu(&w->conn, error.mtu, w->now);
	return true;
}

void world_flush(struct world *w)
{
	current = w;
	w->look_at = NSEC_NEVER;
	if (w->exists && tcp_flush(&w->conn, w->now))
		w->look_at = w->now + LOOK_AGAIN;
}

ssize_t world_send(struct world *w, uint32_t n, unsigned flags)
{
	uint8_t *data = malloc(n + 1);
	struct iovec iov = {data, n};
	ssize_t rc;

	current = w;
	for (uint32_t i = 0; i < n; i++)
		data[i] = byte_at(true, w->sent + i);
	rc = tcp_send(&w->conn, &iov, 1, flags, w->now);
	if (rc > 0)
		w->sent += (uint64_t)rc;
	free(data);
	return rc;
}

ssize_t world_recv(struct world *w, uint32_t n)
{
	uint8_t *data = malloc(n + 1);
	struct iovec iov = {data, n};
	ssize_t rc;

	current = w;
	rc = tcp_recv(&w->conn, &iov, 1, false, w->now);
	if (rc > 0 && w->hole && w->received == w->hole - 1)
		w->received++; /* without the urgent byte */
	for (ssize_t i = 0; i < rc; i++) {
		if (data[i] != byte_at(false, w->received + (uint64_t)i))
			complain("a wrong byte was read at %llu",
				 (unsigned long long)w->received + (unsigned long long)i);
	}
	if (rc > 0)
		w->received += (uint64_t)rc;
	free(data);
	return rc;
}

static nsec_t next_deadline(const struct world *w)
{
	nsec_t next = w->exists ? tcp_deadline(&w->conn) : w->small ? w->tw.until : NSEC_NEVER;
	nsec_t other = w->listening ? tcp_listener_deadline(&w->listener) : NSEC_NEVER;

	next = other < next ? other : next;
	return w->look_at < next ? w->look_at : next;
}

void world_pass(struct world *w, nsec_t at)
{
	nsec_t next;

	current = w;
	while ((next = next_deadline(w)) <= at) {
		if (next > w->now)
			w->now = next;
		if (w->listening)
			tcp_listener_timer(&w->listener, w->now);
		if (w->exists) {
			tcp_timer(&w->conn, w->now);
			world_flush(w);
			world_settle(w);
		}
		if (w->small && w->now >= w->tw.until)
			small_over(w);
		if (next_deadline(w) <= w->now) {
			complain("a timer that fired is still due");
			break;
		}
	}
	w->now = at;
}
