/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member of a port group writes anything into the memory that all members share (topology: see
 * xdp_port_test.c). Another member, with traffic, flows that come and go, and housekeeping, may lose
 * all of that; but it goes on, and ends in order. A newcomer joins, or is refused.
 *
 *	HOSTILE_SECONDS=600 xdp_hostile_test	the duration (4)
 *	HOSTILE_SEED=n				that seed alone
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"
#include "xdp_fixture.h"

#define ROUND (300 * NSEC_PER_MSEC) /* of one seed: a member sweeps each 100 ms */
#define AT_ONCE 20		    /* words that are written between two frames */

static const struct spec to_7000 = {.vlan = -1, .proto = IPPROTO_UDP, .dport = 7000};

/* Memory shared with the victims. */
struct victim {
	uint64_t beats; /* rounds that it has made */
	uint64_t stop;
	char why[PORT_WHY];
	/* used by the process that started it */
	pid_t pid;
};

#define REFUSED 9 /* exit status; a sanitizer has others */

static uint64_t get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- a victim ----------------------------------------------------------------------------- */

static void receive_and_send(struct port_queue *q)
{
	static const struct spec out = {.vlan = -1,
					.proto = IPPROTO_UDP,
					.dport = 9,
					.dst = their_mac,
					.daddr = "10.77.0.2"};
	struct pkt *pkts[16], *pkt;
	int n = q->ops->rx_burst(q, pkts, 16);

	for (int i = 0; i < n; i++)
		pkt_free(pkts[i]);
	pkt = q->ops->tx_get(q);
	if (!pkt)
		return;
	pkt->frame_len = (uint32_t)make_frame(pkt->frame, &out, 1);
	if (q->ops->tx_put(q, pkt))
		pkt_free(pkt);
	else
		q->ops->tx_flush(q);
}

static void change_flows(struct port_queue *q, unsigned i)
{
	struct flow_key conn =
		key5(IPPROTO_TCP, "10.77.0.1", (uint16_t)(7100 + i % 64), "10.77.0.2", 4000);
	struct flow_key shared = key3(IPPROTO_UDP, "10.77.0.1", (uint16_t)(7500 + i % 8));
	struct flow_share part = {.spread = i & 1};

	if (!q->ops->add_flow(q, &conn)) {
		(void)q->ops->flow_is_foreign(q->port, &conn);
		q->ops->del_flow(q, &conn);
	}
	if (!q->ops->reuseport_join(q, &shared, &part)) {
		(void)q->ops->reuseport_pick(q, &part, &conn);
		q->ops->reuseport_leave(q, &shared, &part);
	}
}

static void victim_main(struct victim *v, int ifindex)
{
	struct flow_key key = key3(IPPROTO_UDP, "10.77.0.1", 7000);
	struct port_queue *q;
	struct port *port;
	int fds[PORT_FDS_MAX];

	if (port_xdp_open(ifindex, &port, v->why))
		_exit(REFUSED);
	if (port->ops->open_queue(port, &q, v->why))
		_exit(REFUSED);
	(void)q->ops->add_flow(q, &key);
	for (unsigned i = 0; !get(&v->stop); i++) {
		receive_and_send(q);
		if (!(i % 16)) {
			port->ops->service(port, fds);
			change_flows(q, i / 16);
		}
		set(&v->beats, i + 1);
	}
	port->ops->close_queue(q);
	port->ops->free_port(port);
	_exit(0);
}

static void start(struct victim *v, int ifindex)
{
	pid_t pid;

	memset(v, 0, sizeof(*v));
	pid = fork();
	if (!pid) {
		sys_fd_forget_all();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		victim_main(v, ifindex);
	}
	v->pid = pid; /* not by the child, which has the same memory */
}

/* ---- the hostile member ------------------------------------------------------------------- */

static uint64_t random_state;

static unsigned any(unsigned n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(random_state >> 33) % n;
}

static uint64_t any_value(uint64_t now)
{
	switch (any(6)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return now + any(5) - 2;
	case 3:
		return any(1024);
	case 4:
		return now ^ 1ull << any(64);
	default:
		return random_state;
	}
}

/* One of its words, of two, four, or eight bytes. */
static void write_into(void *at, size_t size)
{
	uint64_t *eight = at;
	uint32_t *four = at;
	uint16_t *two = at;
	size_t n;

	switch (any(3)) {
	case 0:
		n = any((unsigned)(size / sizeof(*eight)));
		__atomic_store_n(&eight[n], any_value(eight[n]), __ATOMIC_RELAXED);
		break;
	case 1:
		n = any((unsigned)(size / sizeof(*four)));
		__atomic_store_n(&four[n], (uint32_t)any_value(four[n]), __ATOMIC_RELAXED);
		break;
	default:
		n = any((unsigned)(size / sizeof(*two)));
		__atomic_store_n(&two[n], (uint16_t)any_value(two[n]), __ATOMIC_RELAXED);
	}
}

#define WRITE_INTO(field) write_into(&(field), sizeof(field))

static void write_ring(struct group_ring *r)
{
	switch (any(3)) {
	case 0:
		*r->producer = (uint32_t)any_value(*r->producer);
		break;
	case 1:
		*r->consumer = (uint32_t)any_value(*r->consumer);
		break;
	default:
		r->addrs[any(r->size)] = any_value(r->addrs[0]);
	}
}

#define PLACES 14u

/* places: a bit for each.  A victim that is soon taken for dead does little, so not all of them. */
static void write_something(struct xdp_port *port, unsigned places)
{
	struct group_ctl *ctl = port->group.ctl;
	unsigned place = any(PLACES);

	switch (places & 1u << place ? place : PLACES) {
	case 0:
		WRITE_INTO(ctl->lock);
		break;
	case 1:
		WRITE_INTO(ctl->members[any(4)]);
		break;
	case 2:
		WRITE_INTO(ctl->slots[any(4)]);
		break;
	case 3:
		WRITE_INTO(ctl->audit);
		break;
	case 4:
		WRITE_INTO(ctl->shares[any(8)]);
		break;
	case 5:
		ctl->pool_n = (uint32_t)any_value(ctl->pool_n);
		break;
	case 6: /* what is taken next */
		ctl->pool[(ctl->pool_n - any(64)) % XDP_FRAMES_MAX] = (uint32_t)any_value(0);
		break;
	case 7:
		WRITE_INTO(ctl->owner);
		break;
	case 8:
		write_into(ctl, sizeof(*ctl));
		break;
	case 9:
		write_ring(&port->group.fill[any(port->group.queues)]);
		break;
	case 10:
		write_ring(&port->group.comp[any(port->group.queues)]);
		break;
	case 11:
		WRITE_INTO(port->shares[any(8)]);
		break;
	case 12:
		WRITE_INTO(*port->conf);
		break;
	case 13:
		write_into(port->local_ports, XDP_STEER_PORTS * sizeof(*port->local_ports));
		break;
	default:
		break;
	}
}

/* ---- the test ------------------------------------------------------------------------------- */

/* It was refused, or ended in order.  Not by a signal. */
static bool has_ended(struct victim *v, uint64_t seed)
{
	int status;
	pid_t pid;

	if (!v->pid)
		return true;
	pid = waitpid(v->pid, &status, WNOHANG);
	if (pid == 0)
		return false;
	assert_int_equal(pid, v->pid);
	if (!WIFEXITED(status))
		fail_msg("seed %lu: the victim died of signal %d", (unsigned long)seed,
			 WTERMSIG(status));
	if (WEXITSTATUS(status) && WEXITSTATUS(status) != REFUSED)
		fail_msg("seed %lu: the victim ended with status %d", (unsigned long)seed,
			 WEXITSTATUS(status));
	v->pid = 0;
	return true;
}

static void await_beats(struct victim *v, uint64_t n, uint64_t seed)
{
	nsec_t end = clock_now() + DEADLINE;
	uint64_t from = get(&v->beats);

	while (get(&v->beats) - from < n && !has_ended(v, seed)) {
		if (clock_now() > end)
			fail_msg("seed %lu: the victim hangs", (unsigned long)seed);
		usleep(500);
	}
}

/* Nothing has been written into the group's memory yet: it is not refused. */
static void start_and_await(struct victim *v, struct fixture *f, uint64_t seed)
{
	nsec_t end = clock_now() + DEADLINE;
	int fds[PORT_FDS_MAX];

	start(v, f->ifindex);
	while (!get(&v->beats)) {
		if (clock_now() > end)
			fail_msg("seed %lu: the victim does not join: %s", (unsigned long)seed,
				 v->why);
		f->port->ops->service(f->port, fds);
		usleep(500);
		if (has_ended(v, seed))
			fail_msg("seed %lu: the victim is refused: %s", (unsigned long)seed,
				 v->why);
	}
}

static void expect_end(struct victim *v, uint64_t seed)
{
	nsec_t end = clock_now() + DEADLINE;

	set(&v->stop, 1);
	while (!has_ended(v, seed)) {
		if (clock_now() > end)
			fail_msg("seed %lu: the victim does not end", (unsigned long)seed);
		usleep(500);
	}
}

static void attack(struct fixture *f, struct victim *v, uint64_t seed)
{
	nsec_t end = clock_now() + ROUND;
	int fds[PORT_FDS_MAX];
	unsigned places;

	random_state = seed * 0x9e3779b97f4a7c15u;
	places = any(1u << PLACES);
	start_and_await(&v[0], f, seed);
	start(&v[1], f->ifindex); /* it joins meanwhile */
	while (clock_now() < end) {
		for (int i = 0; i < AT_ONCE; i++)
			write_something((struct xdp_port *)f->port, places);
		inject(f, &to_7000);
		f->port->ops->service(f->port, fds);
	}
	await_beats(&v[0], 100, seed);
	expect_end(&v[0], seed);
	expect_end(&v[1], seed);
}

static void test_any_shared_memory_harms_no_process(void **state)
{
	const char *chosen = getenv("HOSTILE_SEED"), *seconds = getenv("HOSTILE_SECONDS");
	nsec_t end = clock_now() + (seconds ? atoi(seconds) : 4) * NSEC_PER_SEC;
	uint64_t seed = chosen ? strtoull(chosen, NULL, 0) : (uint64_t)end;
	struct victim *v = mmap(NULL, 2 * sizeof(*v), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fixture *f = *state;
	unsigned n = 0;

	do {
		attack(f, v, seed++);
		n++;
		close_port(f);
		if (port_xdp_open(f->ifindex, &f->port, f->why) ||
		    f->port->ops->open_queue(f->port, &f->q, f->why))
			fail_msg("seed %lu: %s", (unsigned long)seed - 1, f->why);
	} while (!chosen && clock_now() < end);
	print_message("%u seeds up to %lu\n", n, (unsigned long)seed - 1);
}

/* A ring is opened on an interface without a carrier: it does not wait for as long as another says. */
static void test_no_member_makes_others_wait_for_ever(void **state)
{
	struct fixture *f = *state;
	struct xdp_port *port = (struct xdp_port *)f->port;

	setns(peer_fd, CLONE_NEWNET);
	shell("ip link set v1 down");
	setns(here_fd, CLONE_NEWNET);
	port->group.ctl->settle_until = INT64_MAX;
	alarm(DEADLINE / NSEC_PER_SEC);
	assert_false(f->port->ops->settle(f->port));
	alarm(0);
	setns(peer_fd, CLONE_NEWNET);
	shell("ip link set v1 up");
	setns(here_fd, CLONE_NEWNET);
}

#define TEST(test, prepare) cmocka_unit_test_setup_teardown(test, prepare, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_any_shared_memory_harms_no_process, setup),
	TEST(test_any_shared_memory_harms_no_process, setup_queues),
	TEST(test_no_member_makes_others_wait_for_ever, setup),
};

VMA_TEST_MAIN("xdp_hostile", tests, make_topology, NULL)
