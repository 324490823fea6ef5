/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One TCP connection in any state; its peer and its program do anything.
 *
 * Input	one byte of options, one byte for the way in which the connection begins, then
 *	steps: a byte for the kind of step, and its arguments.  Numbers of segments
 *	are relative to what the connection expects, so that many are close to it.
 *
 * Checked: the program reads the bytes that were sent for their place in the stream, even if
 * segments overlap; the connection sends the bytes that the program wrote, in segments of
 * allowed size; memory is limited; after the end nothing is left and no timer is armed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/tcp/tcp.h"
#include "net/tcp/tcp_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(x)               \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

#define ROOM 2048
#define STEPS_MAX 400
#define IRS 0xfffffc00u /* close to the wrap-around */
#define ISS 0x7ffffe00u

static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

static struct {
	const uint8_t *at, *end;
	struct tcp_conn conn;
	bool closed, done; /* CLOSED was reported; the program has closed it */
	nsec_t now;
	uint64_t got, put; /* bytes received and sent */
	bool lost_place;   /* urgent or discarded data changes the positions in the stream */
	unsigned packets, buffers, sent;
	uint32_t rcvbuf;
} w;

/* ---- the input ------------------------------------------------------------------------ */

static uint8_t byte(void)
{
	return w.at < w.end ? *w.at++ : 0;
}

static uint16_t word(void)
{
	uint8_t high = byte();

	return (uint16_t)(high << 8 | byte());
}

/* A small number, most of the time. */
static uint32_t offset(void)
{
	uint8_t how = byte();

	switch (how & 7) {
	case 0:
	case 1:
	case 2:
		return 0;
	case 3:
		return (uint32_t)(int8_t)byte();
	case 4:
	case 5:
		return (uint32_t)(int16_t)word();
	case 6:
		return word() * 64u;
	default:
		return (uint32_t)word() << 16 | word();
	}
}

/* ---- the world ---------------------------------------------------------------------------- */

/* The byte at a position of the peer's stream, and of ours. */
static uint8_t theirs(uint32_t seq)
{
	return (uint8_t)(seq * 31 + (seq >> 8));
}

static uint8_t ours(uint64_t place)
{
	return (uint8_t)(place * 7 + (place >> 8) + 3);
}

static void pool_put(struct pkt_pool *pool, struct pkt *pkt)
{
	(void)pool;
	free(pkt->frame);
	free(pkt);
	w.packets--;
}

static struct pkt_pool pool = {.put = pool_put};

static void *op_alloc(size_t size)
{
	w.buffers++;
	return malloc(size);
}

static void op_free(void *buffer)
{
	w.buffers--;
	free(buffer);
}

static void op_closed(struct tcp_conn *c, int error)
{
	(void)error;
	REQUIRE(c == &w.conn && !w.closed);
	w.closed = true;
}

static void op_event(struct tcp_conn *c)
{
	REQUIRE(c == &w.conn && !w.closed);
}

static int op_send(struct tcp_conn *c, const struct tcp_segment *seg)
{
	uint32_t place = seg->seq - c->iss - 1, n = 0;

	w.sent++;
	REQUIRE(seg->len <= c->agreed_mss);
	REQUIRE(seg->opt_len % 4 == 0 && seg->opt_len <= TCP_OPT_MAX);
	for (unsigned part = 0; part < 2; part++) {
		for (uint32_t i = 0; i < seg->part[part].len; i++, n++) {
			REQUIRE(seg->part[part].data[i] == ours(place + n));
		}
	}
	REQUIRE(n == seg->len);
	return byte() == 0xff ? -ENOBUFS : 0;
}

static void op_record(struct tcp_conn *conn, enum tcp_event event, uint32_t argument)
{
	REQUIRE(event != TCP_EVENT_STATE || argument >> 8 == conn->state);
}

static const struct tcp_ops ops = {
	.alloc = op_alloc,
	.closed = op_closed,
	.established = op_event,
	.event = op_record,
	.free = op_free,
	.readable = op_event,
	.send = op_send,
	.send_train = tcp_send_train,
	.urgent = op_event,
	.writable = op_event,
};

/* ---- steps ------------------------------------------------------------------------------------ */

static struct endpoint endpoint(uint32_t addr, uint16_t port)
{
	return (struct endpoint){.addr = addr_v4(htonl(addr)), .port = htons(port)};
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, 4);
}

static void add_options(struct tcp_segment *seg)
{
	uint8_t how = byte(), *p = seg->opts;

	if (how & 1) {
		p += tcp_options_write_timestamps(p, (uint32_t)(w.now / NSEC_PER_MSEC) + offset(),
						  w.conn.ts_offset + offset());
	}
	if (how & 2) {
		unsigned n = 1 + (how >> 6);

		*p++ = 1;
		*p++ = 1;
		*p++ = 5;
		*p++ = (uint8_t)(2 + 8 * n);
		for (; n && p + 8 <= seg->opts + TCP_OPT_MAX; n--, p += 8) {
			put32(p, w.conn.snd_una + offset());
			put32(p + 4, w.conn.snd_nxt + offset());
		}
	}
	if (how & 4) {
		unsigned n = 4 * (byte() % 10u);

		for (; n && p < seg->opts + TCP_OPT_MAX; n--)
			*p++ = byte();
	}
	if ((how & 8) && p + 8 <= seg->opts + TCP_OPT_MAX) {
		struct tcp_options opt = {
			.mss = word(), .wscale = (int8_t)(byte() % 16), .sack_permitted = true};

		p = seg->opts + tcp_options_write_syn(seg->opts, &opt);
	}
	while ((p - seg->opts) % 4)
		*p++ = 0;
	seg->opt_len = (uint8_t)(p - seg->opts);
}

/* The frame of the segment, parsed; NULL: the parser refused it. */
static struct pkt *arriving(struct tcp_segment *seg)
{
	struct frame_params params = {.src_mac = mac,
				      .dst_mac = mac,
				      .src = endpoint(0x0a090002, 1000),
				      .dst = endpoint(0x0a090001, 80),
				      .proto = IPPROTO_TCP,
				      .ttl = 64};
	struct frame_template template;
	struct pkt *pkt = calloc(1, sizeof(*pkt));
	struct flow_key key;
	uint8_t payload[1500];

	REQUIRE(pkt && frame_template_init(&template, &params) == 0);
	for (uint32_t i = 0; i < seg->len; i++)
		payload[i] = theirs(seg->seq + !!(seg->flags & TCP_SYN) + i);
	seg->part[0].data = payload;
	seg->part[0].len = seg->len;
	pkt->frame = malloc(ROOM);
	pkt->room = ROOM;
	pkt->pool = &pool;
	w.packets++;
	pkt->frame_len = (uint32_t)frame_build_tcp(&template, pkt->frame, seg);
	if (frame_parse(pkt, 0, &key) == DROP_NONE)
		return pkt;
	pkt_free(pkt);
	return NULL;
}

static void input_pkt(struct pkt *pkt)
{
	enum drop why = tcp_input(&w.conn, pkt, w.now);

	REQUIRE(why < DROP_COUNT);
	if (why != DROP_NONE)
		pkt_free(pkt);
}

static void input(struct tcp_segment *seg)
{
	struct pkt *pkt = arriving(seg);

	if (pkt)
		input_pkt(pkt);
}

static struct tcp_segment any_segment(void)
{
	static const uint8_t flags[] = {TCP_ACK,	   TCP_ACK | TCP_PSH,
					TCP_ACK | TCP_FIN, TCP_SYN,
					TCP_SYN | TCP_ACK, TCP_RST,
					TCP_RST | TCP_ACK, 0};
	uint8_t how = byte();
	struct tcp_segment seg = {.flags = how & 8 ? byte() : flags[how & 7]};

	seg.seq = w.conn.rcv_nxt + offset();
	seg.ack = (how & 0x40 ? w.conn.snd_una : w.conn.snd_nxt) + offset();
	seg.wnd = how & 0x20 ? word() : 60000;
	if (seg.flags & TCP_URG) {
		seg.urg = word();
		w.lost_place = true;
	}
	if (how & 0x10)
		seg.len = word() % 1400;
	if (how & 0x80)
		add_options(&seg);
	return seg;
}

/* A piece of a stream: the bytes at seq, with the negotiated options. */
static struct tcp_segment next_segment(uint32_t seq)
{
	uint8_t how = byte();
	struct tcp_segment seg = {.flags = how & 1 ? TCP_ACK | TCP_PSH : TCP_ACK,
				  .seq = seq,
				  .ack = how & 2 ? w.conn.snd_una : w.conn.snd_nxt,
				  .wnd = 60000,
				  .len = 1 + how};

	if (w.conn.flags & CONN_TIMESTAMPS)
		seg.opt_len = (uint8_t)tcp_options_write_timestamps(
			seg.opts, w.conn.ts_recent + (how >> 6), w.conn.ts_offset);
	return seg;
}

/* A burst, as a ring delivers it: most of it in order, sometimes any segments. */
static void step_burst(void)
{
	unsigned n = 2 + byte() % 4;
	uint32_t seq = w.conn.rcv_nxt;
	struct pkt *first = NULL, **last = &first, *next;

	while (n--) {
		struct tcp_segment seg = byte() & 7 ? next_segment(seq) : any_segment();

		seq += seg.len;
		*last = arriving(&seg);
		if (*last)
			last = &(*last)->next;
	}
	if (first && tcp_input_chain(&w.conn, first, w.now))
		return;
	for (; first; first = next) {
		next = first->next;
		first->next = NULL;
		input_pkt(first);
	}
}

static void step_segment(void)
{
	struct tcp_segment seg = any_segment();

	input(&seg);
}

static void step_time(void)
{
	nsec_t deadline = tcp_deadline(&w.conn);
	uint8_t how = byte();

	if (how < 128 || deadline == NSEC_NEVER)
		w.now += (nsec_t)1 << how % 35;
	else if (deadline > w.now)
		w.now = deadline;
	tcp_timer(&w.conn, w.now);
}

static void step_send(void)
{
	uint8_t bytes[4096], how = byte();
	uint32_t n = word() % sizeof(bytes);
	unsigned flags = (how & 1 ? TCP_SEND_MORE : 0) | (how & 2 ? TCP_SEND_OOB : 0) |
			 (how & 4 ? TCP_SEND_EOR : 0);
	struct iovec iov = {bytes, n};
	ssize_t rc;

	for (uint32_t i = 0; i < n; i++)
		bytes[i] = ours(w.put + i);
	rc = tcp_send(&w.conn, &iov, 1, flags, w.now);
	REQUIRE(rc <= (ssize_t)n);
	if (rc > 0)
		w.put += (uint64_t)rc;
}

static void step_recv(void)
{
	uint8_t bytes[4096], how = byte();
	struct iovec iov = {bytes, 1 + word() % (sizeof(bytes) - 1)};
	ssize_t rc = tcp_recv(&w.conn, &iov, 1, how & 1, w.now);

	REQUIRE(rc <= (ssize_t)iov.iov_len);
	if (rc > 0 && !w.lost_place) {
		for (ssize_t i = 0; i < rc; i++)
			REQUIRE(bytes[i] == theirs(w.conn.irs + 1 + (uint32_t)w.got + (uint32_t)i));
	}
	if (rc > 0 && !(how & 1))
		w.got += (uint64_t)rc;
}

static void step_program(uint8_t what)
{
	switch (what) {
	case 4:
		tcp_shutdown(&w.conn, w.now);
		break;
	case 5:
		tcp_close(&w.conn, w.now);
		w.done = true;
		break;
	case 6:
		tcp_set_nodelay(&w.conn, byte() & 1, w.now);
		break;
	case 7:
		tcp_set_cork(&w.conn, byte() & 1, w.now);
		break;
	case 8:
		tcp_shutdown_read(&w.conn);
		w.lost_place = true; /* data that arrives now has no reader */
		break;
	case 9:
		tcp_unreachable(&w.conn, EHOSTUNREACH, w.now);
		break;
	case 10:
		tcp_set_user_timeout(&w.conn, byte() * NSEC_PER_SEC);
		break;
	case 11:
		tcp_set_quickack(&w.conn, byte() & 1, w.now);
		break;
	}
}

static void step(void)
{
	uint8_t what = byte() & 15;

	switch (what) {
	case 0:
		step_time();
		break;
	case 1:
		if (!w.done)
			step_send();
		break;
	case 2:
		if (!w.done)
			step_recv();
		break;
	case 3:
		tcp_flush(&w.conn, w.now);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		if (!w.done)
			step_program(what);
		break;
	case 12:
		step_burst();
		break;
	default:
		step_segment();
		break;
	}
}

/* ---- beginning and end -------------------------------------------------------------------------- */

static void begin(void)
{
	uint8_t how = byte(), start = byte();
	struct tcp_config config = {.mss = how & 1 ? 1460 : 200,
				    .rcvbuf = how & 2 ? 100000 : 3000,
				    .rcvbuf_max = how & 4 ? 200000 : 0,
				    .sndbuf = how & 4 ? 100000 : 3000,
				    .sndbuf_max = how & 2 ? 200000 : 0,
				    .nodelay = how & 8,
				    .timestamps = how & 16,
				    .cc_algo = how >> 6 & 1,
				    .route = {.window = start & 4 ? 20000 : 0,
					      .initrwnd = start & 4 ? 3 : 0}};
	struct tcp_synreq req = {.irs = IRS,
				 .iss = ISS,
				 .ts_offset = ISS,
				 .mss = config.mss,
				 .peer_mss = start & 8 ? 1460 : 0,
				 .peer_wnd = start & 16 ? 65535 : 500,
				 .peer_wscale = start & 32 ? (int8_t)(start >> 6) : (int8_t)-1,
				 .timestamps = how & 16,
				 .sack = how & 32,
				 .wnd = (uint16_t)(how & 2 ? 65535 : 3000),
				 .wscale = tcp_wscale_for(config.rcvbuf_max, UINT32_MAX),
				 .created = w.now};
	struct tcp_segment ack = {.seq = IRS + 1, .ack = ISS + 1, .wnd = 60000, .flags = TCP_ACK};

	w.rcvbuf = max_u32(config.rcvbuf, config.rcvbuf_max);
	if (start & 1) {
		tcp_init(&w.conn, &ops, &config);
		(void)tcp_connect(&w.conn, (struct tcp_start){ISS, ISS}, w.now);
		return;
	}
	tcp_init_passive(&w.conn, &ops, &config, &req, w.now);
	if (!(start & 2))
		return; /* still in SYN_RECEIVED */
	if (req.timestamps)
		ack.opt_len = (uint8_t)tcp_options_write_timestamps(
			ack.opts, (uint32_t)(w.now / NSEC_PER_MSEC), w.conn.ts_offset);
	input(&ack);
}

static void check(void)
{
	/* Payload is copied together when frames contain little of it. */
	REQUIRE(w.packets * ROOM <= 4 * w.rcvbuf + 64 * ROOM);
	REQUIRE(!w.closed || tcp_deadline(&w.conn) == NSEC_NEVER);
	REQUIRE(w.conn.cc.cwnd >= 1 && w.conn.cc.cwnd <= TCP_CC_MAX_WINDOW);
	REQUIRE(seq_leq(w.conn.snd_una, w.conn.snd_nxt));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&w, 0, sizeof(w));
	w.at = data;
	w.end = data + size;
	w.now = 1000 * NSEC_PER_SEC;
	begin();
	for (unsigned i = 0; i < STEPS_MAX && w.at < w.end && !w.closed; i++) {
		step();
		check();
	}
	if (!w.closed)
		tcp_abort(&w.conn, 0, w.now);
	if (!w.done) /* with the data that was not read */
		tcp_close(&w.conn, w.now);
	REQUIRE(tcp_deadline(&w.conn) == NSEC_NEVER);
	REQUIRE(w.buffers == 0 && w.packets == 0);
	return 0;
}
