/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile peer: RFC 9293 section 3.10.7 and RFC 5961 in every state. Random segments near the
 * valid numbers, and random calls. After each of them the invariants hold (sim.c checks them),
 * the connection sends only what was requested, and in the end all memory is returned.
 */
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

#define SEEDS 3000
#define MOVES 150

static uint32_t near(struct sim *sim, uint32_t value, uint32_t edge)
{
	switch (sim_random(sim, 8)) {
	case 0:
		return value + sim_random(sim, 3000);
	case 1:
		return value - sim_random(sim, 3000);
	case 2:
		return edge - sim_random(sim, 3);
	case 3:
		return (uint32_t)sim_random(sim, UINT32_MAX);
	case 4:
		return value - 1;
	default:
		return value;
	}
}

static uint8_t random_flags(struct sim *sim)
{
	static const uint8_t usual[] = {TCP_ACK,	   TCP_ACK,	      TCP_ACK | TCP_PSH,
					TCP_ACK | TCP_FIN, TCP_RST,	      TCP_RST | TCP_ACK,
					TCP_SYN,	   TCP_SYN | TCP_ACK, TCP_ACK | TCP_URG};

	if (sim_chance(sim, 200))
		return (uint8_t)sim_random(sim, 256);
	return usual[sim_random(sim, sizeof(usual))];
}

static void random_options(struct sim *sim, struct tcp_segment *seg, const struct tcp_conn *c)
{
	struct tcp_range block[3];
	uint32_t at;

	seg->opt_len = 0;
	switch (sim_random(sim, 5)) {
	case 0:
		break;
	case 1:
		seg->opt_len = (uint8_t)(4 * sim_random(sim, 11));
		for (unsigned i = 0; i < seg->opt_len; i++)
			seg->opts[i] = (uint8_t)sim_random(sim, sim_chance(sim, 500) ? 12 : 256);
		break;
	case 2:
		for (int i = 0; i < 3; i++) {
			block[i].start = near(sim, c->snd_una, c->snd_nxt);
			at = near(sim, c->snd_nxt, c->snd_nxt);
			block[i].end = sim_chance(sim, 500) ? at : block[i].start + 500;
		}
		seg->opt_len = (uint8_t)tcp_options_write_sack(seg->opts, 40, block, 3);
		break;
	default:
		at = c->ts_recent + sim_random(sim, 3) - 1;
		seg->opt_len = (uint8_t)tcp_options_write_timestamps(
			seg->opts, at, tcp_ts_now(c, sim->now) - sim_random(sim, 100));
	}
}

static void lie_to(struct sim *sim, int h)
{
	const struct tcp_conn *c = &sim->host[h].conn;
	static uint8_t data[1400];
	struct tcp_segment seg = {0};

	seg.flags = random_flags(sim);
	seg.seq = near(sim, c->rcv_nxt, c->rcv_edge);
	seg.ack = near(sim, c->snd_nxt, c->snd_una);
	seg.wnd = (uint16_t)sim_random(sim, sim_chance(sim, 300) ? 3 : 65536);
	if (sim_chance(sim, 500))
		seg.len = 1 + sim_random(sim, sim_chance(sim, 500) ? 3 : 1400);
	seg.part[0].data = data;
	seg.part[0].len = seg.len;
	random_options(sim, &seg, c);
	sim_inject(sim, h, &seg);
}

static void call(struct sim *sim, int h)
{
	static const struct tcp_keepalive keepalive = {true, 3, 10, 5};
	struct tcp_conn *c = &sim->host[h].conn;
	uint8_t data[3000];
	struct iovec iov = {data, 1 + sim_random(sim, sizeof(data))};

	switch (sim_random(sim, 14)) {
	case 0:
	case 1:
	case 2:
	case 3:
		sim_send(sim, h, 1 + sim_random(sim, 5000), sim_random(sim, 2));
		break;
	case 4:
	case 5:
	case 6: /* not compared: the bytes may be false */
		if (sim_chance(sim, 500))
			tcp_recv(c, &iov, 1, sim_chance(sim, 300), sim->now);
		break;
	case 7:
		tcp_set_cork(c, sim_chance(sim, 500), sim->now);
		break;
	case 8:
		tcp_set_nodelay(c, sim_chance(sim, 500), sim->now);
		break;
	case 9:
		tcp_set_keepalive(c, &keepalive, sim->now);
		tcp_set_user_timeout(c, sim_chance(sim, 200) ? 30 * SEC : 0);
		break;
	case 10:
		if (sim_chance(sim, 100))
			sim_shutdown(sim, h);
		break;
	case 11:
		if (sim_chance(sim, 50))
			sim_close(sim, h);
		break;
	case 12:
		if (sim_chance(sim, 100))
			tcp_shutdown_read(c);
		break;
	default:
		tcp_set_quickack(c, sim_chance(sim, 500), sim->now);
	}
}

static void run_seed(uint64_t seed)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.seed = seed;
	params.wrap = seed % 2;
	params.config[A].rcvbuf = 1024u << seed % 8;
	params.config[B].timestamps = seed % 3 != 0;
	params.link[A].loss = seed % 5 ? 0 : 100;
	params.link[B].loss = seed % 7 ? 0 : 100;
	sim = sim_create(&params);
	sim_listen(sim, B);
	sim_open(sim, A);
	for (int i = 0; i < MOVES; i++) {
		int h = (int)sim_random(sim, 2);

		if (!sim->host[h].exists)
			h = A;
		if (sim_chance(sim, 300))
			lie_to(sim, h);
		else if (sim_chance(sim, 500))
			call(sim, h);
		else
			sim_run(sim, sim_random(sim, sim_chance(sim, 100) ? 1000 : 10) * MSEC);
	}
	for (int h = A; h <= B; h++) {
		if (sim->host[h].exists)
			tcp_abort(&sim->host[h].conn, 0, sim->now);
	}
	sim_destroy(sim);
}

static void test_a_peer_that_lies_breaks_nothing(void **state)
{
	const char *one = getenv("SIM_SEED"), *many = getenv("SIM_SEEDS");
	uint64_t seeds = many ? strtoull(many, NULL, 0) : SEEDS;

	if (one) {
		run_seed(strtoull(one, NULL, 0));
		return;
	}
	for (uint64_t seed = 1; seed <= seeds; seed++)
		run_seed(seed);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_peer_that_lies_breaks_nothing),
};

VMA_TEST_MAIN("hostile", tests, NULL, NULL)
