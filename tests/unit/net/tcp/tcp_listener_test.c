/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a listener does with more SYNs than its queue holds: cookies (RFC 4987) and a rate
 * limit; and with a connection that has sent no data yet (TCP_DEFER_ACCEPT).
 */
#include "net/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>

#include "net/tcp/tcp_cookie.h"
#include "net/tcp/tcp_internal.h"
#include "tests/vma_test.h"

#define BACKLOG 4
#define START (1000 * NSEC_PER_SEC)
#define IRS 77000u

static const uint8_t secret[16] = "a secret of ours";
static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

/* What surrounds the listener. */
static struct tcp_listener listener;
static struct tcp_segment answer; /* the segment that it sent last */
static struct tcp_options said;	  /* its options */
static struct tcp_synreq accepted;
static unsigned answers, accepts, requests, packets, under_way;
static int accept_rc;
static uint8_t syn_flags = TCP_SYN;

static void pool_put(struct pkt_pool *pool, struct pkt *pkt)
{
	free(pkt->frame);
	free(pkt);
	packets--;
}

static struct pkt_pool pool = {.put = pool_put};

/* The connection that the listener asks for. */
static struct tcp_conn conn;
static bool connects;

static void *conn_alloc(size_t size)
{
	return malloc(size);
}

static void conn_free(void *ptr)
{
	free(ptr);
}

static void conn_event(struct tcp_conn *c)
{
}

static void conn_closed(struct tcp_conn *c, int error)
{
}

static int conn_send(struct tcp_conn *c, const struct tcp_segment *seg)
{
	return 0;
}

static void conn_record(struct tcp_conn *c, enum tcp_event event, uint32_t argument)
{
}

static const struct tcp_ops conn_ops = {
	.alloc = conn_alloc,
	.closed = conn_closed,
	.established = conn_event,
	.event = conn_record,
	.free = conn_free,
	.readable = conn_event,
	.send = conn_send,
	.send_train = tcp_send_train,
	.urgent = conn_event,
	.writable = conn_event,
};

static int op_accept(struct tcp_listener *l, const struct tcp_synreq *req, struct pkt *pkt,
		     nsec_t now)
{
	if (accept_rc)
		return accept_rc;
	accepted = *req;
	accepts++;
	if (connects) {
		tcp_init_passive(&conn, &conn_ops, &l->config, req, now);
		assert_int_equal(tcp_input(&conn, pkt, now), DROP_NONE);
	} else {
		pkt_free(pkt);
	}
	return 0;
}

static void *op_alloc(size_t size)
{
	requests++;
	return malloc(size);
}

static void op_free(void *ptr)
{
	requests--;
	free(ptr);
}

/* Segments that belong to connections elsewhere, if there are any. */
static bool elsewhere;
static unsigned passes;

static bool op_pass(struct tcp_listener *l, struct pkt *pkt)
{
	passes += elsewhere;
	if (elsewhere)
		pkt_free(pkt);
	return elsewhere;
}

static void op_began(struct tcp_listener *l, struct tcp_synreq *req)
{
	assert_false(req->expected);
	req->expected = true;
	under_way++;
}

static void op_ended(struct tcp_listener *l, struct tcp_synreq *req)
{
	assert_true(req->expected);
	under_way--;
}

static struct tcp_start op_start(struct tcp_listener *l, const struct endpoint *local,
				 const struct endpoint *remote, nsec_t now)
{
	return tcp_start_of(secret, local, remote, now);
}

static int op_send(struct tcp_listener *l, const struct endpoint *local,
		   const struct endpoint *remote, const struct tcp_segment *seg)
{
	assert_int_equal(under_way, requests); /* the owner is told first */
	answers++;
	answer = *seg;
	assert_true(tcp_options_parse(&said, seg->opts, seg->opt_len));
	return 0;
}

static const struct tcp_listener_ops ops = {.accept = op_accept,
					    .alloc = op_alloc,
					    .began = op_began,
					    .ended = op_ended,
					    .free = op_free,
					    .pass = op_pass,
					    .send = op_send,
					    .start = op_start};

static struct endpoint endpoint(uint32_t addr, uint16_t port)
{
	return (struct endpoint){.addr = addr_v4(htonl(addr)), .port = htons(port)};
}

/* The peer, and our side: of IPv6 if it is set. */
static bool ip6;

static struct endpoint side(uint32_t addr, uint16_t port)
{
	struct endpoint ep = endpoint(addr, port);

	if (ip6)
		ep.addr = (struct inaddr){.w = {htonl(0x20010db8), 0, 0, htonl(addr)}};
	return ep;
}

/* Delivers a segment from the peer with that number. */
static enum drop input(uint16_t peer, struct tcp_segment seg, nsec_t now)
{
	struct frame_params params = {.src_mac = mac,
				      .dst_mac = mac,
				      .src = side(0x0a090002, peer),
				      .dst = side(0x0a090001, 80),
				      .proto = IPPROTO_TCP,
				      .ttl = 64};
	struct frame_template template;
	struct flow_key key;
	struct pkt *pkt = calloc(1, sizeof(*pkt));
	enum drop why;

	assert_int_equal(frame_template_init(&template, &params), 0);
	pkt->frame = malloc(2048);
	pkt->room = 2048;
	pkt->pool = &pool;
	packets++;
	pkt->frame_len = (uint32_t)frame_build_tcp(&template, pkt->frame, &seg);
	assert_int_equal(frame_parse(pkt, 0, &key), DROP_NONE);
	why = tcp_listener_input(&listener, pkt, now);
	if (why != DROP_NONE)
		pkt_free(pkt);
	return why;
}

static enum drop syn(uint16_t peer, const struct tcp_options *opt, nsec_t now)
{
	struct tcp_segment seg = {.seq = IRS, .wnd = 5000, .flags = syn_flags};

	if (opt)
		seg.opt_len = (uint8_t)tcp_options_write_syn(seg.opts, opt);
	return input(peer, seg, now);
}

/* Completes the handshake as the last answer says it. */
static enum drop ack(uint16_t peer, nsec_t now)
{
	struct tcp_segment seg = {
		.seq = IRS + 1, .ack = answer.seq + 1, .wnd = 6000, .flags = TCP_ACK};

	if (said.has_ts)
		seg.opt_len = (uint8_t)tcp_options_write_timestamps(seg.opts, 4711, said.tsval);
	return input(peer, seg, now);
}

static int set_up(void **state)
{
	struct tcp_config config = {
		.mss = 1460, .rcvbuf = 1u << 20, .sndbuf = 65536, .timestamps = true};

	answers = accepts = requests = 0;
	accept_rc = 0;
	accepted = (struct tcp_synreq){0};
	tcp_listener_init(&listener, &ops, &config, BACKLOG);
	listener.cookie_secret = secret;
	return 0;
}

static int tear_down(void **state)
{
	tcp_listener_fini(&listener);
	assert_int_equal(requests, 0);
	assert_int_equal(under_way, 0);
	assert_int_equal(packets, 0);
	return 0;
}

static void fill(nsec_t now)
{
	for (uint16_t i = (uint16_t)listener.pending; i < BACKLOG; i++)
		assert_int_equal(syn((uint16_t)(60000 + i), NULL, now), DROP_NONE);
	assert_int_equal(listener.pending, BACKLOG);
}

/* ---- segments without a handshake ------------------------------------------------------- */

static void test_what_belongs_elsewhere_is_passed_there(void **state)
{
	struct tcp_segment seg = {.seq = IRS + 1, .ack = 4711, .wnd = 5000};

	for (unsigned i = 0; i < 3; i++) {
		seg.flags = i == 1 ? TCP_RST : TCP_ACK;
		/* Also while such a segment may be the answer to a cookie. */
		listener.cookies_until = i == 2 ? NSEC_NEVER : 0;
		answers = passes = 0;
		elsewhere = true;
		assert_int_equal(input(60000, seg, START), DROP_NONE);
		assert_int_equal(passes, 1);
		assert_int_equal(answers, 0);
		elsewhere = false;
		assert_int_equal(input(60000, seg, START), DROP_NO_FLOW);
		assert_int_equal(answers, i == 1 ? 0 : 1);
	}
	assert_int_equal(answer.flags, TCP_RST);
}

static void test_a_handshake_does_not_belong_elsewhere(void **state)
{
	passes = 0;
	elsewhere = true;
	assert_int_equal(syn(60000, NULL, START), DROP_NONE);
	assert_int_equal(ack(60000, START), DROP_NONE);
	elsewhere = false;
	assert_int_equal(accepts, 1);
	assert_int_equal(passes, 0);
}

/* ---- the requests of a listener ------------------------------------------------------ */

static void count_each(struct tcp_listener *l, struct tcp_synreq *req)
{
	answers++;
}

static void test_a_handshake_is_known_until_it_is_complete(void **state)
{
	struct tcp_segment seg = {.seq = IRS + 1, .flags = TCP_ACK};

	assert_int_equal(syn(60000, NULL, START), DROP_NONE);
	seg.ack = answer.seq + 1;
	tcp_listener_fini(&listener);
	fill(START);
	assert_int_equal(under_way, BACKLOG);
	answers = 0;
	tcp_listener_each(&listener, count_each);
	assert_int_equal(answers, BACKLOG);
	assert_int_equal(input(60000, seg, START + 1), DROP_NONE);
	assert_int_equal(accepts, 1);
	assert_true(accepted.expected);
	assert_int_equal(under_way, BACKLOG - 1);
}

/* Their peers believe that they are connected, or will do so. */
static void test_handshakes_are_reset_at_the_end(void **state)
{
	uint32_t iss;

	fill(START);
	iss = answer.seq;
	answers = 0;
	tcp_listener_fini(&listener);
	assert_int_equal(answers, BACKLOG);
	assert_int_equal(requests, 0);
	assert_int_equal(answer.flags, TCP_RST | TCP_ACK);
	assert_int_equal(answer.seq, iss + 1);
	assert_int_equal(answer.ack, IRS + 1);
}

/* ---- cookies ---------------------------------------------------------------------- */

static const struct tcp_options offer = {.mss = 1448,
					 .wscale = 7,
					 .sack_permitted = true,
					 .has_ts = true,
					 .tsval = 4710};

static void test_a_full_queue_answers_and_keeps_nothing(void **state)
{
	fill(START);
	for (uint16_t peer = 1; peer <= 10000; peer++) {
		answers = 0;
		assert_int_equal(syn(peer, &offer, START), DROP_NONE);
		assert_int_equal(answers, 1);
		assert_int_equal(answer.flags, TCP_SYN | TCP_ACK);
		assert_int_equal(answer.ack, IRS + 1);
	}
	assert_int_equal(requests, BACKLOG);
}

static void test_a_cookie_becomes_a_connection(void **state)
{
	fill(START);
	syn(1, &offer, START);
	assert_int_equal(ack(1, START + 1000), DROP_NONE);
	assert_int_equal(accepts, 1);
	assert_int_equal(accepted.irs, IRS);
	assert_int_equal(accepted.iss, answer.seq);
	assert_int_equal(accepted.peer_mss, 1440); /* the next smaller one */
	assert_int_equal(accepted.peer_wscale, 7);
	assert_true(accepted.sack && accepted.timestamps);
	assert_int_equal(accepted.ts_recent, 4711);
	assert_int_equal(accepted.wscale, said.wscale);
	assert_true(accepted.created == NSEC_NEVER);
	assert_int_equal(requests, BACKLOG);
}

/* The IP header is 20 bytes longer; without an option the peer takes 1220 bytes (RFC 9293 3.7.1). */
static void test_the_mss_of_ip6(void **state)
{
	static const struct tcp_options none = {.wscale = -1};

	syn(1, &offer, START);
	assert_int_equal(said.mss, 1460);
	ip6 = true;
	syn(2, &offer, START);
	assert_int_equal(said.mss, 1440);
	fill(START);
	syn(3, &none, START);
	assert_int_equal(ack(3, START + 1000), DROP_NONE);
	ip6 = false;
	assert_int_equal(accepted.peer_mss, 1220);
}

/* The first SYN was answered with a cookie, its repetition when there was room again. */
static void test_a_peer_takes_either_of_two_answers(void **state)
{
	for (unsigned first = 0; first < 2; first++) {
		uint16_t peer = (uint16_t)(1 + first);
		nsec_t now = START + 1000;
		uint32_t iss[2];

		fill(START);
		syn(peer, &offer, START);
		iss[0] = answer.seq;
		listener.backlog++;
		assert_int_equal(syn(peer, &offer, now), DROP_NONE);
		iss[1] = answer.seq;
		listener.backlog--;
		assert_int_not_equal(iss[0], iss[1]);
		assert_int_equal(listener.pending, BACKLOG + 1);
		/* Of neither; of data, whose ACK was lost; the ACK. */
		answer.seq = iss[0] + (1u << 30);
		answers = 0;
		assert_int_equal(ack(peer, now), DROP_TCP_ACK);
		assert_true(answers == 1 && answer.flags == TCP_RST);
		answers = 0;
		if (first == 0)
			assert_int_equal(input(peer,
					       (struct tcp_segment){.seq = IRS + 101,
								    .ack = iss[0] + 1,
								    .flags = TCP_ACK},
					       now),
					 DROP_TCP_SEQ);
		answer.seq = iss[first];
		assert_int_equal(ack(peer, now), DROP_NONE);
		assert_int_equal(answers, 0);
		assert_int_equal(accepts, first + 1);
		assert_int_equal(accepted.iss, iss[first]);
		assert_int_equal(listener.pending, BACKLOG);
	}
}

static void test_a_connection_by_a_cookie_knows_no_round_trip(void **state)
{
	connects = true;
	fill(START);
	syn(1, &offer, START);
	assert_int_equal(ack(1, START + 3 * NSEC_PER_SEC), DROP_NONE);
	connects = false;
	assert_int_equal(conn.state, TCP_ESTABLISHED);
	assert_int_equal(conn.rtt.srtt, 0);
	assert_int_equal(conn.rtt.rto, RTT_INITIAL_RTO);
	tcp_abort(&conn, 0, START);
}

/* The sequence number does not tell the clock of the timestamps either. */
static void test_syn_acks_do_not_reveal_the_uptime(void **state)
{
	/* every second SYN beyond the backlog gets a cookie */
	for (uint16_t peer = 1; peer <= 2 * BACKLOG; peer += 2) {
		uint32_t difference;

		assert_int_equal(syn(peer, &offer, START), DROP_NONE);
		difference = said.tsval - answer.seq;
		assert_int_equal(syn((uint16_t)(peer + 1), &offer, START), DROP_NONE);
		assert_int_not_equal(said.tsval - answer.seq, difference);
	}
}

/* The timestamps of one connection continue, in whichever segment they are. */
static void test_an_ack_of_a_handshake_has_the_timestamps_of_its_syn_ack(void **state)
{
	uint32_t began;

	assert_int_equal(syn(1, &offer, START), DROP_NONE);
	began = said.tsval;
	assert_int_equal(answer.flags, TCP_SYN | TCP_ACK);
	assert_int_equal(input(1,
			       (struct tcp_segment){
				       .seq = 0x80000000, .ack = answer.seq + 1, .flags = TCP_ACK},
			       START + 5 * NSEC_PER_MSEC),
			 DROP_TCP_SEQ);
	assert_int_equal(answer.flags, TCP_ACK);
	assert_int_equal(said.tsval, began + 5);
}

static void test_without_timestamps_options_are_not_offered(void **state)
{
	struct tcp_options bare = offer;

	bare.has_ts = false;
	fill(START);
	syn(1, &bare, START);
	assert_true(said.wscale < 0 && !said.sack_permitted && !said.has_ts && said.mss == 1460);
	assert_int_equal(ack(1, START), DROP_NONE);
	assert_int_equal(accepted.peer_wscale, -1);
	assert_true(!accepted.sack && !accepted.timestamps);
	assert_int_equal(accepted.peer_mss, 1440);
}

static void test_every_offer_comes_back(void **state)
{
	fill(START);
	for (int wscale = -1; wscale <= 14; wscale++) {
		for (int sack = 0; sack < 2; sack++) {
			nsec_t now = START + (wscale * 2 + sack) * 17 * NSEC_PER_MSEC;
			struct tcp_options opt = offer;

			opt.wscale = (int8_t)wscale;
			opt.sack_permitted = sack;
			syn(1, &opt, now);
			assert_int_equal(ack(1, now), DROP_NONE);
			assert_int_equal(accepted.peer_wscale, wscale);
			assert_int_equal(accepted.sack, sack);
		}
	}
}

static void test_ecn_comes_back_too(void **state)
{
	struct tcp_options bare = offer;

	listener.config.ecn = TCP_ECN_ANSWER;
	fill(START);
	syn(1, &offer, START);
	assert_int_equal(answer.flags, TCP_SYN | TCP_ACK);
	assert_int_equal(ack(1, START), DROP_NONE);
	assert_false(accepted.ecn);
	syn_flags = TCP_SYN | TCP_ECE | TCP_CWR;
	syn(2, &offer, START);
	assert_int_equal(answer.flags, TCP_SYN | TCP_ACK | TCP_ECE);
	assert_int_equal(ack(2, START), DROP_NONE);
	assert_true(accepted.ecn && accepted.sack);
	assert_int_equal(accepted.peer_wscale, 7);
	bare.has_ts = false; /* a cookie without timestamps cannot store it */
	syn(3, &bare, START);
	assert_int_equal(answer.flags, TCP_SYN | TCP_ACK);
	assert_int_equal(ack(3, START), DROP_NONE);
	assert_false(accepted.ecn);
	listener.config.ecn = TCP_ECN_NONE;
	syn(4, &offer, START);
	assert_int_equal(answer.flags, TCP_SYN | TCP_ACK);
	assert_int_equal(ack(4, START), DROP_NONE);
	assert_false(accepted.ecn);
	syn_flags = TCP_SYN;
}

static void test_sizes_are_never_larger_than_offered(void **state)
{
	const struct endpoint local = endpoint(1, 80), remote = endpoint(2, 1234);

	for (unsigned mss = 0; mss <= 10000; mss += 4) {
		uint32_t iss = tcp_cookie_make(secret, &local, &remote, IRS, (uint16_t)mss, START);
		uint16_t got = tcp_cookie_check(secret, &local, &remote, IRS, iss, START);

		assert_true(got >= 48);
		assert_true(got <= (mss == 0 ? 536 : mss < 48 ? 48 : mss));
	}
}

static void test_a_timestamp_is_never_ahead(void **state)
{
	for (uint32_t clock = 100; clock < 300; clock++) {
		uint32_t ts = tcp_cookie_timestamp(clock, &offer, clock & 1);

		assert_in_range(clock - ts, 0, 63);
	}
}

static void test_a_cookie_is_of_one_pair_and_one_number(void **state)
{
	const struct endpoint local = endpoint(1, 80), remote = endpoint(2, 1234);
	const struct endpoint other = endpoint(2, 1235);
	const uint8_t another[16] = "another secret..";
	uint32_t iss = tcp_cookie_make(secret, &local, &remote, IRS, 1460, START);

	assert_int_equal(tcp_cookie_check(secret, &local, &remote, IRS, iss, START), 1460);
	assert_int_equal(tcp_cookie_check(secret, &local, &other, IRS, iss, START), 0);
	assert_int_equal(tcp_cookie_check(secret, &remote, &local, IRS, iss, START), 0);
	assert_int_equal(tcp_cookie_check(secret, &local, &remote, IRS + 1, iss, START), 0);
	assert_int_equal(tcp_cookie_check(another, &local, &remote, IRS, iss, START), 0);
}

static void test_a_cookie_grows_old(void **state)
{
	const struct endpoint local = endpoint(1, 80), remote = endpoint(2, 1234);
	nsec_t made = START + 12345, later = made + TCP_COOKIE_LIFE;
	uint32_t iss = tcp_cookie_make(secret, &local, &remote, IRS, 536, made);

	assert_int_equal(tcp_cookie_check(secret, &local, &remote, IRS, iss, later), 536);
	later = made + 2 * TCP_COOKIE_LIFE;
	assert_int_equal(tcp_cookie_check(secret, &local, &remote, IRS, iss, later), 0);
	/* The low bits of the period repeat. */
	later = made + 256 * TCP_COOKIE_LIFE;
	assert_int_equal(tcp_cookie_check(secret, &local, &remote, IRS, iss, later), 0);
}

static void test_guesses_are_reset(void **state)
{
	unsigned lucky = 0, silent = 0;

	fill(START);
	syn(1, NULL, START);
	for (uint32_t guess = 0; guess < 100000; guess++) {
		answer.seq = guess * 2654435761u;
		answers = 0;
		switch (ack(2, START)) {
		case DROP_NONE:
			lucky++;
			break;
		case DROP_TCP_SEQ:
			silent++;
			assert_int_equal(answers, 0);
			break;
		default:
			assert_true(answers == 1 && answer.flags == TCP_RST);
			break;
		}
	}
	/* three of 256 periods are accepted: see tcp_cookie_maybe() */
	assert_in_range(silent, 800, 1600);
	/* Eight sizes of 2^24 in two periods of 256: one guess in 134 million is right. */
	assert_int_equal(lucky, 0);
}

static void test_data_before_the_ack_waits(void **state)
{
	uint32_t iss;

	fill(START);
	syn(1, &offer, START);
	iss = answer.seq;
	for (uint32_t behind = 1; behind < 65535; behind += 97) {
		struct tcp_segment seg = {
			.seq = IRS + 1 + behind, .ack = iss + 1, .flags = TCP_ACK};

		answers = 0;
		assert_int_equal(input(1, seg, START), DROP_TCP_SEQ);
		assert_int_equal(answers, 0);
	}
	answer.seq = iss;
	assert_int_equal(ack(1, START + TCP_COOKIE_LIFE), DROP_NONE);
}

static void test_without_a_flood_no_cookie_is_believed(void **state)
{
	const struct endpoint local = endpoint(0x0a090001, 80), remote = endpoint(0x0a090002, 1);

	answer.seq = tcp_cookie_make(secret, &local, &remote, IRS, 1460, START);
	assert_int_equal(ack(1, START), DROP_NO_FLOW);
	fill(START);
	syn(2, NULL, START);
	answer.seq = tcp_cookie_make(secret, &local, &remote, IRS, 1460, START);
	assert_int_equal(ack(1, START), DROP_NONE);
}

static void test_no_room_to_accept_leaves_it_to_the_peer(void **state)
{
	fill(START);
	syn(1, NULL, START);
	accept_rc = -EAGAIN;
	assert_int_equal(ack(1, START), DROP_TCP_BACKLOG);
	accept_rc = 0;
	assert_int_equal(ack(1, START), DROP_NONE); /* the same ACK again, with the data "say" */
	assert_int_equal(accepts, 1);
}

static void test_without_a_secret_a_full_queue_drops(void **state)
{
	listener.cookie_secret = NULL;
	fill(START);
	answers = 0;
	assert_int_equal(syn(1, &offer, START), DROP_TCP_BACKLOG);
	assert_int_equal(answers, 0);
}

/* ---- VMA_TCP_MAX_SYN_RATE -------------------------------------------------------------- */

static uint32_t rate;
static nsec_t syn_at;

static bool in_rate(struct tcp_listener *l, nsec_t now)
{
	return tcp_syn_in_rate(&syn_at, rate, now);
}

static void limit_rate(uint32_t per_second)
{
	static struct tcp_listener_ops limited;

	limited = *listener.ops;
	limited.in_rate = in_rate;
	listener.ops = &limited;
	rate = per_second;
	syn_at = 0;
}

static void test_a_rate_holds(void **state)
{
	unsigned passed = 0;
	uint16_t peer = 1;

	limit_rate(1000);
	for (nsec_t now = START; now < START + 2 * NSEC_PER_SEC; now += 100000, peer++)
		passed += syn(peer, NULL, now) == DROP_NONE; /* ten times the limit */
	assert_in_range(passed, 2000, 2000 + 1000 / 10 + 1);
}

static void test_a_rate_lets_through_what_comes_slowly(void **state)
{
	limit_rate(1);
	for (uint16_t peer = 1; peer <= 20; peer++)
		assert_int_equal(syn(peer, NULL, START + peer * NSEC_PER_SEC), DROP_NONE);
	assert_int_equal(syn(100, NULL, START + 20 * NSEC_PER_SEC), DROP_TCP_SYN_RATE);
}

/* ---- what the route to a peer says --------------------------------------------------------- */

#define ROUTED 7 /* the peer with this port */

static void configure(struct tcp_listener *l, const struct endpoint *local,
		      const struct endpoint *remote, struct tcp_config *config)
{
	assert_int_equal(local->port, htons(80));
	if (remote->port != htons(ROUTED))
		return;
	config->advmss = 500;
	config->ecn = TCP_ECN_ASK;
	config->route.window = 30000;
	config->route.initrwnd = 4;
}

static void use_routes(void)
{
	static struct tcp_listener_ops routed;

	routed = *listener.ops;
	routed.configure = configure;
	listener.ops = &routed;
	syn_flags = TCP_SYN | TCP_ECE | TCP_CWR;
}

/* Four segments, each with timestamps. */
static void check_routed_answer(void)
{
	syn(ROUTED, &offer, START);
	assert_int_equal(said.mss, 500);
	assert_int_equal(said.wscale, 0);
	assert_int_equal(answer.wnd, 4 * (500 - 12));
	assert_int_equal(answer.flags, TCP_SYN | TCP_ACK | TCP_ECE);
	assert_int_equal(ack(ROUTED, START + 1000), DROP_NONE);
	assert_int_equal(accepted.mss, 500);
	assert_int_equal(accepted.wscale, 0);
	assert_int_equal(accepted.wnd, 4 * (500 - 12));
	assert_true(accepted.ecn);
}

static void test_a_route_is_that_of_its_peer(void **state)
{
	use_routes();
	check_routed_answer();
	syn(1, &offer, START);
	assert_int_equal(said.mss, 1460);
	assert_int_equal(answer.wnd, UINT16_MAX);
	assert_int_equal(answer.flags, TCP_SYN | TCP_ACK);
	syn_flags = TCP_SYN;
}

static void test_a_cookie_says_the_same(void **state)
{
	use_routes();
	fill(START);
	check_routed_answer();
	assert_true(accepted.created == NSEC_NEVER);
	syn_flags = TCP_SYN;
}

/* ---- TCP_DEFER_ACCEPT -------------------------------------------------------------------- */

static enum drop data(uint16_t peer, nsec_t now)
{
	struct tcp_segment seg = {.seq = IRS + 1,
				  .ack = answer.seq + 1,
				  .wnd = 6000,
				  .flags = TCP_ACK,
				  .len = 5,
				  .part = {{(const uint8_t *)"hello", 5}}};

	return input(peer, seg, now);
}

static void test_a_deferred_connection_waits_for_data(void **state)
{
	listener.defer = 3;
	syn(1, NULL, START);
	assert_int_equal(ack(1, START), DROP_NONE);
	assert_int_equal(accepts, 0);
	assert_int_equal(data(1, START + 1), DROP_NONE);
	assert_int_equal(accepts, 1);
}

static void run_timers(nsec_t from, nsec_t to)
{
	for (nsec_t now = from; now < to; now += 10 * NSEC_PER_MSEC)
		tcp_listener_timer(&listener, now);
}

static void test_a_deferred_connection_is_silent_and_then_asks(void **state)
{
	listener.defer = 3;
	syn(1, NULL, START);
	ack(1, START);
	answers = 0;
	run_timers(START, START + 6 * NSEC_PER_SEC); /* the third is due after seven seconds */
	assert_int_equal(answers, 0);
	run_timers(START + 6 * NSEC_PER_SEC, START + 8 * NSEC_PER_SEC);
	assert_int_equal(answers, 1);
	assert_int_equal(ack(1, START + 8 * NSEC_PER_SEC), DROP_NONE);
	assert_int_equal(accepts, 1);
}

static void test_a_peer_that_sends_no_data_is_forgotten(void **state)
{
	listener.defer = 2;
	syn(1, NULL, START);
	ack(1, START);
	run_timers(START, START + 70 * NSEC_PER_SEC);
	assert_int_equal(listener.pending, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_what_belongs_elsewhere_is_passed_there, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_a_handshake_does_not_belong_elsewhere, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_a_handshake_is_known_until_it_is_complete, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_handshakes_are_reset_at_the_end, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_full_queue_answers_and_keeps_nothing, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_a_cookie_becomes_a_connection, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_the_mss_of_ip6, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_peer_takes_either_of_two_answers, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_connection_by_a_cookie_knows_no_round_trip, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_syn_acks_do_not_reveal_the_uptime, set_up, tear_down),
	cmocka_unit_test_setup_teardown(
		test_an_ack_of_a_handshake_has_the_timestamps_of_its_syn_ack, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_without_timestamps_options_are_not_offered, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_every_offer_comes_back, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_ecn_comes_back_too, set_up, tear_down),
	cmocka_unit_test(test_sizes_are_never_larger_than_offered),
	cmocka_unit_test(test_a_timestamp_is_never_ahead),
	cmocka_unit_test(test_a_cookie_is_of_one_pair_and_one_number),
	cmocka_unit_test(test_a_cookie_grows_old),
	cmocka_unit_test_setup_teardown(test_guesses_are_reset, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_data_before_the_ack_waits, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_without_a_flood_no_cookie_is_believed, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_no_room_to_accept_leaves_it_to_the_peer, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_without_a_secret_a_full_queue_drops, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_a_rate_holds, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_rate_lets_through_what_comes_slowly, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_a_route_is_that_of_its_peer, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_cookie_says_the_same, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_deferred_connection_waits_for_data, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_a_deferred_connection_is_silent_and_then_asks, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_a_peer_that_sends_no_data_is_forgotten, set_up,
					tear_down),
};

VMA_TEST_MAIN("tcp_listener", tests, NULL, NULL)
