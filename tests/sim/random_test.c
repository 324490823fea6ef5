/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RFC 9293 as a whole: thousands of connections. A seed decides about the link, the buffers,
 * the options and the actions of the programs. All bytes arrive in order and intact, both sides
 * reach CLOSED, and all memory is returned.
 * SIM_SEEDS=n runs this number of seeds, SIM_SEED=n only that seed (SIM_TRACE=1 prints what
 * happens).
 */
#include <errno.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

#ifdef NDEBUG
#define SEEDS 10000
#else
#define SEEDS 3000 /* a sanitizer makes each run ten times slower */
#endif

/* The plan of one program. */
struct plan {
	uint64_t bytes;	    /* number of bytes to send */
	uint32_t write_max; /* per call */
	uint32_t read_max;
	nsec_t pause;  /* longest pause between two reads */
	unsigned more; /* chance of MSG_MORE */
	unsigned oob;  /* chance of MSG_OOB; urgent data is read inline */
	unsigned eor;  /* chance of MSG_EOR */
	uint64_t pace; /* bytes per second */
	uint32_t pace_burst;
	nsec_t next_read;
	bool shut, closed;
	bool early;	    /* shuts down first; otherwise after the peer */
	bool closes_unread; /* closes without reading the rest */
	bool keepalive;	    /* enables keepalive */
};

struct life {
	struct sim *sim;
	struct plan plan[2];
	bool abrupt;	/* a program may close without reading, or abort: losses are allowed */
	unsigned moves; /* chance of a move to another process at each step */
};

/*
 * One statement per random number: the compiler chooses the order of evaluation within a
 * statement.
 */
static struct tcp_config random_config(struct sim *sim)
{
	static const uint16_t mss[] = {1460, 1460, 1460, 536, 100, 1448};
	struct tcp_config config = {0};

	config.ip6 = sim->params.ip6;
	config.mss = mss[sim_random(sim, 6)];
	config.rcvbuf = 256u << sim_random(sim, 12);
	config.sndbuf = 256u << sim_random(sim, 12);
	config.nodelay = sim_chance(sim, 500);
	config.timestamps = sim_chance(sim, 700);
	config.quickack = sim_chance(sim, 100);
	config.cc_algo = (uint8_t)sim_random(sim, 3);
	config.ecn = (uint8_t)sim_random(sim, 3);
	config.rcvbuf += sim_random(sim, 100);
	config.sndbuf += sim_random(sim, 100);
	config.rcvbuf_max = config.rcvbuf << sim_random(sim, 6);
	config.sndbuf_max = config.sndbuf << sim_random(sim, 6);
	if (sim_chance(sim, 100))
		config.window_clamp = 1152 << sim_random(sim, 10);
	return config;
}

/* Half of the links have a single defect, the others have several. */
static struct sim_link random_link(struct sim *sim)
{
	struct sim_link link = {0};
	uint32_t divide = 1 + sim_random(sim, 100), one;
	bool mixed = sim_chance(sim, 500);

	link.delay = 1 + sim_random(sim, 50000) * USEC / divide;
	one = sim_random(sim, 13);
	if (one == 0 || (mixed && sim_chance(sim, 500)))
		link.loss = sim_random(sim, sim_chance(sim, 200) ? 250 : 50);
	if (one == 1 || (mixed && sim_chance(sim, 300)))
		link.duplicate = sim_random(sim, 200);
	if (one == 2 || (mixed && sim_chance(sim, 300)))
		link.corrupt = sim_random(sim, 50);
	if (one == 3 || (mixed && sim_chance(sim, 400)))
		link.jitter = sim_random(sim, 20000) * USEC;
	if (one == 4 || (mixed && sim_chance(sim, 300))) {
		link.bytes_per_sec = 20000u << sim_random(sim, 10);
		link.queue = sim_chance(sim, 500) ? 10000 + sim_random(sim, 100000) : 0;
	}
	if (one == 5 || (mixed && sim_chance(sim, 200))) {
		link.burst = 1 + sim_random(sim, 20);
		link.burst_len = 1 + sim_random(sim, 12);
	}
	if (one == 6 || (mixed && sim_chance(sim, 200)))
		link.overtake = sim_random(sim, 200);
	if (one == 7 || (mixed && sim_chance(sim, 200)))
		link.ack_loss = sim_random(sim, 300);
	if (one == 8 || (mixed && sim_chance(sim, 200)))
		link.mark = sim_random(sim, 300);
	if (one == 9 || (mixed && sim_chance(sim, 150))) {
		link.mtu = 576 + sim_random(sim, 900);
		if (sim->params.ip6) /* at least 1280, RFC 8200 section 5 */
			link.mtu = IP6_MTU_MIN + link.mtu % 200;
		link.mtu_from = (nsec_t)sim_random(sim, 200) * MSEC;
		link.icmp = sim_chance(sim, 700);
	}
	if (one == 10 || (mixed && sim_chance(sim, 100)))
		link.shrink = sim_random(sim, 100);
	if (one == 11)
		link.lie = 1 + sim_random(sim, 50);
	return link;
}

static struct plan random_plan(struct sim *sim)
{
	struct plan plan = {0};

	if (sim_chance(sim, 800))
		plan.bytes = sim_random(sim, 1u << (6 + sim_random(sim, 12)));
	plan.write_max = 1 + sim_random(sim, 1u << sim_random(sim, 16));
	plan.read_max = 1 + sim_random(sim, 1u << (4 + sim_random(sim, 13)));
	plan.more = sim_chance(sim, 200) ? 300 : 0;
	plan.oob = sim_chance(sim, 100) ? 100 : 0;
	plan.eor = sim_chance(sim, 100) ? 200 : 0;
	plan.pace = sim_chance(sim, 100) ? 2000u << sim_random(sim, 12) : 0;
	plan.pace_burst = plan.bytes & 1 ? (uint32_t)plan.pace / 100 : 0;
	plan.early = sim_chance(sim, 600);
	plan.keepalive = sim_chance(sim, 100);
	if (plan.write_max < plan.bytes / 500)
		plan.write_max = (uint32_t)(plan.bytes / 500);
	if (sim_chance(sim, 300))
		plan.pause = (nsec_t)(1 + sim_random(sim, 1000)) * MSEC;
	return plan;
}

static void act(struct life *life, int h)
{
	static const struct tcp_keepalive keepalive = {true, 8, 10, 5};
	struct sim *sim = life->sim;
	struct sim_host *host = &sim->host[h];
	struct plan *plan = &life->plan[h];
	unsigned flags;
	ssize_t rc;

	if (!host->exists || plan->closed || !host->established)
		return;
	if (plan->keepalive) {
		tcp_set_keepalive(&host->conn, &keepalive, sim->now);
		plan->keepalive = false;
	}
	tcp_set_oobinline(&host->conn, true);
	if (plan->pace) {
		tcp_set_pacing(&host->conn, plan->pace, plan->pace_burst, sim->now);
		plan->pace = 0;
	}
	while (!plan->shut && host->sent < plan->bytes) {
		uint32_t n = 1 + sim_random(sim, plan->write_max);

		if (n > plan->bytes - host->sent)
			n = (uint32_t)(plan->bytes - host->sent);
		flags = sim_chance(sim, plan->more) ? TCP_SEND_MORE : 0;
		if (sim_chance(sim, plan->oob))
			flags |= TCP_SEND_OOB;
		if (sim_chance(sim, plan->eor))
			flags |= TCP_SEND_EOR;
		rc = sim_send(sim, h, n, flags);
		if (rc < 0 && rc != -EAGAIN && rc != -ENOMEM) {
			plan->shut = true; /* the peer has ended */
			break;
		}
		if (rc < (ssize_t)n)
			break;
	}
	if (sim->now >= plan->next_read && !host->eof && !plan->closes_unread) {
		rc = sim_recv(sim, h, 1 + sim_random(sim, plan->read_max));
		if (rc < 0 && rc != -EAGAIN)
			host->eof = true;
		if (plan->pause && rc > 0)
			plan->next_read = sim->now + 1 + sim_random(sim, (uint32_t)plan->pause);
	}
	if (!plan->shut && host->sent >= plan->bytes && (plan->early || host->eof)) {
		sim_shutdown(sim, h);
		plan->shut = true;
	}
	if (plan->shut && (host->eof || plan->closes_unread)) {
		sim_close(sim, h);
		plan->closed = true;
	}
	if (sim_chance(sim, 5))
		tcp_set_nodelay(&host->conn, sim_chance(sim, 500), sim->now);
	if (sim_chance(sim, 5))
		tcp_set_quickack(&host->conn, sim_chance(sim, 500), sim->now);
}

/* The time at which a program wants to continue without an event. */
static nsec_t wants(const struct life *life, int h)
{
	const struct sim_host *host = &life->sim->host[h];
	const struct plan *plan = &life->plan[h];

	if (!host->exists || plan->closed || !host->established)
		return NSEC_NEVER;
	if (!host->eof && !plan->closes_unread &&
	    (tcp_readable_bytes(&host->conn) || host->conn.state == TCP_CLOSED ||
	     (host->conn.flags & CONN_FIN_RCVD)))
		return plan->next_read > life->sim->now ? plan->next_read : life->sim->now;
	if (!plan->shut && host->sent >= plan->bytes && (plan->early || host->eof))
		return life->sim->now;
	if (plan->shut && (host->eof || plan->closes_unread))
		return life->sim->now;
	if (!plan->shut && tcp_writable_bytes(&host->conn)) /* there was no memory before */
		return life->sim->now + MSEC;
	return NSEC_NEVER;
}

static void live(struct life *life)
{
	struct sim *sim = life->sim;
	nsec_t end = sim->now + 100 * 3600 * SEC, next;

	for (;;) {
		act(life, A);
		act(life, B);
		for (int h = A; h <= B; h++) {
			if (sim_chance(sim, life->moves))
				sim_restore(sim, h);
		}
		next = wants(life, A) < wants(life, B) ? wants(life, A) : wants(life, B);
		SIM_CHECK(sim, sim->now < end); /* otherwise it is stalled */
		if (next < sim_next(sim))
			sim->now = next;
		else if (!sim_step(sim))
			break;
	}
}

static void judge(struct life *life)
{
	struct sim *sim = life->sim;
	struct sim_host *a = &sim->host[A], *b = &sim->host[B];
	bool whole;

	SIM_CHECK(sim, a->closed == 1 && (b->closed == 1 || !b->exists));
	SIM_CHECK(sim, sim_next(sim) == NSEC_NEVER);
	if (!b->established || !a->established)
		return; /* the handshake failed, or the opener closed at once */
	whole = a->sent == life->plan[A].bytes && b->received == a->sent &&
		b->sent == life->plan[B].bytes && a->received == b->sent;
	/*
	 * A reset after the last byte: TIME_WAIT was over before a FIN was retransmitted,
	 * because its acknowledgement had been lost several times.
	 */
	SIM_CHECK(sim, whole || life->abrupt || a->error == ETIMEDOUT || b->error == ETIMEDOUT);
}

static uint64_t large; /* trains that ports segmented, of all seeds */

/* Returns true when both programs had all their bytes and no error. */
static bool run_seed(uint64_t seed)
{
	struct sim_params params = {.seed = seed, .backlog = 2, .ip6 = sim_defaults().ip6};
	struct sim *dice = sim_create(&params);
	struct life life = {0};
	bool good;

	for (int h = A; h <= B; h++) {
		params.config[h] = random_config(dice);
		params.link[h] = random_link(dice);
		life.plan[h] = random_plan(dice);
	}
	params.send_fails = sim_chance(dice, 100) ? sim_random(dice, 100) : 0;
	params.alloc_fails = sim_chance(dice, 100) ? sim_random(dice, 300) : 0;
	params.wrap = sim_chance(dice, 300);
	params.no_sack = sim_chance(dice, 250);
	params.poll_delay = sim_chance(dice, 300) ? 1 + sim_random(dice, 3000) * USEC : 0;
	if (!life.plan[B].early)
		life.plan[A].early = true; /* one side has to shut down first */
	/* A program notices that its peer has given up only with keepalive. */
	for (int h = A; h <= B; h++) {
		const struct sim_link *link = &params.link[h];

		if (link->ack_loss || link->shrink || link->burst || link->lie) {
			life.plan[A].keepalive = true;
			life.plan[B].keepalive = true;
		}
		life.abrupt |= link->lie != 0;
	}
	if (sim_chance(dice, 50)) {
		struct plan *plan = &life.plan[sim_random(dice, 2)];

		/* A program notices a lost RST only with keepalive. */
		life.plan[A].keepalive = true;
		life.plan[B].keepalive = true;
		life.abrupt = true;
		plan->closes_unread = true;
		plan->early = true;
	}
	params.large = sim_chance(dice, 300) ? 1 + sim_random(dice, 1000) : 0;
	if (sim_chance(dice, 300))
		life.moves = 1 + sim_random(dice, 300);
	sim_destroy(dice);

	life.sim = sim_create(&params);
	if (sim_random(life.sim, 10) == 0) {
		sim_open(life.sim, B); /* simultaneous open */
		sim_open(life.sim, A);
	} else {
		sim_listen(life.sim, B);
		sim_open(life.sim, A);
	}
	live(&life);
	judge(&life);
	good = !life.sim->host[A].error && !life.sim->host[B].error &&
	       life.sim->host[B].established;
	large += life.sim->large;
	sim_destroy(life.sim);
	return good;
}

static void test_every_seed_ends_well(void **state)
{
	const char *one = getenv("SIM_SEED"), *many = getenv("SIM_SEEDS");
	uint64_t seeds = many ? strtoull(many, NULL, 0) : SEEDS, good = 0;

	/*
	 * A side that gives up sends nothing. With the few retransmissions of an orphan, some
	 * of these links would leave half of a connection, as with the kernel.
	 */
	tcp_settings.orphan_retries = TCP_DATA_RETRIES;
	if (one) {
		run_seed(strtoull(one, NULL, 0));
		return;
	}
	for (uint64_t seed = 1; seed <= seeds; seed++)
		good += run_seed(seed);
	print_message("%llu of %llu seeds without an error\n", (unsigned long long)good,
		      (unsigned long long)seeds);
	assert_true(good >= seeds * 9 / 10);
	print_message("%llu trains were segmented by a port\n", (unsigned long long)large);
	assert_true(large >= seeds / 10);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_every_seed_ends_well),
};

VMA_TEST_MAIN("random", tests, NULL, NULL)
