/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several rings, and several processes, on the same interface (topology: see
 * xdp_port_test.c).
 *
 * A member is a process with one ring and a flow.  It reads frames with
 * consecutive numbers, and sends numbered ones.  The process that started the
 * members sends them frames, a window at a time, and reads what they send.
 *
 *	GROUP_SECONDS=60 xdp_group_test	the duration (4)
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"
#include "xdp_veth.h"

#define TCP IPPROTO_TCP
#define UDP IPPROTO_UDP
#define RINGS_MAX 40
#define MEMBERS 8
#define WINDOW 32		/* frames in transit to one member */
#define ASK (5 * NSEC_PER_MSEC) /* a frame for each, to a member that has received none */

static const struct spec to_7000 = {.vlan = -1, .proto = UDP, .dport = 7000};

/* ---- the group's books -------------------------------------------------------------- */

struct books {
	unsigned kinds[4];
	unsigned lost; /* in fill rings according to their word, but not there */
};

static struct books read_books(const struct xdp_port *port)
{
	const struct group_ctl *ctl = port->group.ctl;
	struct books books = {0};

	for (unsigned f = 0; f < ctl->frames; f++)
		books.kinds[owner_kind(ctl->owner[f]) & 3]++;
	books.lost = books.kinds[OWNER_FILL];
	for (unsigned i = 0; i < ctl->queues; i++)
		books.lost -= *port->group.fill[i].producer - *port->group.fill[i].consumer;
	return books;
}

static unsigned slots_of(const struct group_ctl *ctl)
{
	unsigned n = 0;

	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++)
		n += ctl->slots[i].state != SLOT_FREE;
	return n;
}

static unsigned map_entries(int map)
{
	uint8_t key[64], next[64];
	union bpf_attr attr = {.map_fd = (uint32_t)map, .next_key = (uintptr_t)next};
	unsigned n = 0;

	while (!syscall(SYS_bpf, BPF_MAP_GET_NEXT_KEY, &attr, sizeof(attr))) {
		memcpy(key, next, sizeof(key));
		attr.key = (uintptr_t)key;
		n++;
	}
	return n;
}

static unsigned count_conns(const struct xdp_port *port)
{
	unsigned n = 0;

	for (unsigned i = 0; i < XDP_STEER_PORTS; i++)
		n += port->local_ports[i].owner != 0;
	return n;
}

static unsigned count_sharers(const struct xdp_port *port)
{
	unsigned n = 0;

	for (unsigned i = 0; i < XDP_STEER_SHARES; i++)
		n += reuseport_receivers(&port->group.ctl->shares[i].members) != 0;
	return n;
}

static void service(struct port *port)
{
	int fds[PORT_FDS_MAX];

	assert_int_equal(port->ops->service(port, fds), 1);
}

/*
 * Soon, every frame is in the pool or in a fill ring, except one per queue that the
 * kernel may keep; slots, maps and members are as before.
 */
static void expect_settled(struct port *base, bool flows6_counts)
{
	struct xdp_port *port = (struct xdp_port *)base;
	const struct group_ctl *ctl = port->group.ctl;
	nsec_t end = clock_now() + DEADLINE;
	struct books books;
	unsigned entries;
	bool settled;

	do {
		service(base);
		usleep(2000);
		books = read_books(port);
		entries = map_entries(port->flows3_fd) + map_entries(port->flows5_fd) +
			  map_entries(port->exact_fd) + count_conns(port) + count_sharers(port);
		settled = !books.kinds[OWNER_HELD] && !books.kinds[OWNER_TX] &&
			  books.lost <= ctl->queues && !slots_of(ctl) && !entries &&
			  ctl->pool_n == books.kinds[OWNER_POOL] && !port->conf->flows5 &&
			  (!flows6_counts || !port->conf->flows6);
	} while (!settled && clock_now() < end);
	if (!settled)
		fail_msg("pool %u (%u) held %u tx %u lost %u, %u slots, %u entries, %u counted",
			 books.kinds[OWNER_POOL], ctl->pool_n, books.kinds[OWNER_HELD],
			 books.kinds[OWNER_TX], books.lost, slots_of(ctl), entries,
			 port->conf->flows5);
}

static void expect_baseline(struct port *base)
{
	expect_settled(base, true);
}

/* ---- several rings of one process ----------------------------------------------------- */

struct fixture {
	struct port *port;
	struct port_queue *q[RINGS_MAX];
	int inject_fd;
	int ifindex;
	uint64_t number;
	char why[PORT_WHY];
};

static int setup_on(void **state, const char *pair)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char name[8];

	snprintf(name, sizeof(name), "%s0", pair);
	f->ifindex = (int)if_nametoindex(name);
	snprintf(name, sizeof(name), "%s1", pair);
	setns(peer_fd, CLONE_NEWNET);
	f->inject_fd = packet_socket(name);
	setns(here_fd, CLONE_NEWNET);
	*state = f;
	return 0;
}

static void open_port(struct fixture *f)
{
	if (port_xdp_open(f->ifindex, &f->port, f->why))
		fail_msg("%s", f->why);
}

static void open_ring(struct fixture *f, unsigned i)
{
	if (f->port->ops->open_queue(f->port, &f->q[i], f->why))
		fail_msg("%s", f->why);
}

static void close_ring(struct fixture *f, unsigned i)
{
	f->port->ops->close_queue(f->q[i]);
	f->q[i] = NULL;
}

static int setup_rings_on(void **state, const char *pair)
{
	struct fixture *f;

	setup_on(state, pair);
	f = *state;
	open_port(f);
	open_ring(f, 0);
	open_ring(f, 1);
	return 0;
}

static int setup_rings(void **state)
{
	return setup_rings_on(state, "v");
}

static int setup_rings_queues(void **state)
{
	return setup_rings_on(state, "q");
}

static int setup_rings_generic(void **state)
{
	return setup_rings_on(state, "g");
}

static int setup_alone(void **state)
{
	return setup_on(state, "v");
}

static int setup_rings6(void **state)
{
	over6 = true;
	return setup_rings(state);
}

static int setup_alone6(void **state)
{
	over6 = true;
	return setup_alone(state);
}

#define FICKLE 4

static pid_t fickle[FICKLE]; /* see start_fickle() */

static int teardown(void **state)
{
	over6 = false;
	struct fixture *f = *state;

	/* Those that a failed test has left would be members in the next one. */
	for (unsigned i = 0; i < FICKLE; i++) {
		if (fickle[i] && waitpid(fickle[i], NULL, WNOHANG) == 0) {
			kill(fickle[i], SIGKILL);
			waitpid(fickle[i], NULL, 0);
		}
		fickle[i] = 0;
	}

	for (unsigned i = 0; i < RINGS_MAX; i++)
		if (f->q[i])
			close_ring(f, i);
	if (f->port)
		f->port->ops->free_port(f->port);
	close(f->inject_fd);
	free(f);
	return 0;
}

static uint64_t inject_of(struct fixture *f, uint8_t proto, uint16_t dport, uint16_t sport)
{
	struct spec s = to_7000;
	uint8_t frame[256];
	size_t len;

	s.proto = proto;
	s.dport = dport;
	s.sport = sport;
	len = make_frame(frame, &s, ++f->number);
	assert_int_equal(send(f->inject_fd, frame, len, 0), len);
	return f->number;
}

static uint64_t inject(struct fixture *f, uint16_t dport, uint16_t sport)
{
	return inject_of(f, UDP, dport, sport);
}

/* The number of the next frame of a ring; 0: none. */
static uint64_t next_number(struct fixture *f, unsigned ring)
{
	struct pkt *pkt;
	uint64_t number;

	if (!f->port->ops->rx_burst(f->q[ring], &pkt, 1))
		return 0;
	number = number_of(pkt->frame, pkt->frame_len);
	pkt_free(pkt);
	return number;
}

static uint64_t await_number(struct fixture *f, unsigned ring)
{
	nsec_t end = clock_now() + DEADLINE;
	uint64_t number;

	while (!(number = next_number(f, ring)) && clock_now() < end)
		;
	return number;
}

/* The number of frames at the other end; none of them is malformed. */
static unsigned drain_peer(int fd)
{
	uint8_t frame[2048];
	unsigned n = 0;

	while (recv(fd, frame, sizeof(frame), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

static bool send_one(struct port_queue *q, uint64_t number)
{
	static const struct spec out = {
		.vlan = -1, .proto = UDP, .dport = 9, .dst = their_mac, .daddr = "10.77.0.2"};
	struct pkt *pkt = q->ops->tx_get(q);

	if (!pkt)
		return false;
	pkt->frame_len = (uint32_t)make_frame(pkt->frame, &out, number);
	return q->ops->tx_put(q, pkt) == 0;
}

static void test_each_ring_gets_its_own_frames(void **state)
{
	struct fixture *f = *state;
	struct flow_key a = key3(UDP, "10.77.0.1", 7000), b = key3(UDP, "10.77.0.1", 7001);

	assert_int_equal(f->port->ops->add_flow(f->q[0], &a), 0);
	assert_int_equal(f->port->ops->add_flow(f->q[1], &b), 0);
	for (uint16_t i = 0; i < 2000; i++) {
		unsigned ring = i % 2;

		inject(f, (uint16_t)(7000 + ring), (uint16_t)(1000 + i / 2 % 64));
		assert_int_equal(await_number(f, ring), f->number);
		assert_int_equal(next_number(f, !ring), 0);
	}
	assert_int_equal(f->port->ops->add_flow(f->q[1], &a), -EEXIST);
	assert_int_equal(f->port->ops->move_flow(f->q[1], &a), 0);
	inject(f, 7000, 1000);
	assert_int_equal(await_number(f, 1), f->number);
	assert_int_equal(f->port->ops->del_flow(f->q[1], &a), 0);
	assert_int_equal(f->port->ops->move_flow(f->q[0], &a), -ENOENT);
	assert_true(f->port->ops->idle(f->q[0]));
	close_ring(f, 0);
	close_ring(f, 1);
	expect_baseline(f->port);
}

/* ---- a flow with several receivers ---------------------------------------------------- */

#define SENDERS 1024
#define NOBODY RINGS_MAX

/* The ring that received the injected frame. */
static unsigned whose(struct fixture *f, unsigned rings)
{
	nsec_t end = clock_now() + DEADLINE;

	do {
		for (unsigned i = 0; i < rings; i++) {
			if (f->q[i] && next_number(f, i) == f->number)
				return i;
		}
	} while (clock_now() < end);
	return NOBODY;
}

/* Finds the ring of each sender; n: the number of senders per ring. */
static void ask_senders(struct fixture *f, uint8_t proto, unsigned rings, uint8_t to[SENDERS],
			unsigned n[RINGS_MAX + 1])
{
	memset(n, 0, (RINGS_MAX + 1) * sizeof(*n));
	for (unsigned i = 0; i < SENDERS; i++) {
		inject_of(f, proto, 7000, (uint16_t)(20000 + 7 * i));
		to[i] = (uint8_t)whose(f, rings);
		n[to[i]]++;
	}
	assert_int_equal(n[NOBODY], 0);
}

static void expect_even(const unsigned n[RINGS_MAX + 1], unsigned from, unsigned rings)
{
	unsigned part = SENDERS / (rings - from);

	for (unsigned i = from; i < rings; i++)
		assert_in_range(n[i], part / 2, part * 2);
}

static void test_a_shared_flow_is_spread_by_its_senders(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	struct flow_share part[4] = {0};
	uint8_t before[SENDERS], after[SENDERS];
	unsigned n[RINGS_MAX + 1];

	open_ring(f, 2);
	open_ring(f, 3);
	for (unsigned i = 0; i < 4; i++) {
		part[i].spread = true;
		assert_int_equal(ops->reuseport_join(f->q[i], &key, &part[i]), 0);
	}
	assert_int_equal(ops->add_flow(f->q[0], &key), -EEXIST);
	ask_senders(f, UDP, 4, before, n);
	expect_even(n, 0, 4);
	ask_senders(f, UDP, 4, after, n); /* a queue that joins again gets the same senders */
	assert_memory_equal(before, after, SENDERS);
	/* One member moves: its senders move, all others stay. */
	assert_int_equal(ops->reuseport_move(f->q[3], &key, &part[0]), 0);
	ask_senders(f, UDP, 4, after, n);
	for (unsigned i = 0; i < SENDERS; i++)
		assert_int_equal(after[i], before[i] ? before[i] : 3);
	assert_int_equal(ops->reuseport_move(f->q[0], &key, &part[0]), 0);
	/* One member leaves: the same. */
	ops->reuseport_leave(f->q[0], &key, &part[0]);
	ask_senders(f, UDP, 4, after, n);
	for (unsigned i = 0; i < SENDERS; i++)
		assert_true(before[i] ? after[i] == before[i] : after[i] != 0);
	expect_even(n, 1, 4);
	/* A ring that closes leaves. */
	close_ring(f, 1);
	ask_senders(f, UDP, 4, after, n);
	assert_int_equal(n[1], 0);
	for (unsigned i = 2; i < 4; i++)
		ops->reuseport_leave(f->q[i], &key, &part[i]);
	assert_int_equal(ops->add_flow(f->q[0], &key), 0);
	for (unsigned i = 0; i < 4; i++) {
		if (f->q[i])
			close_ring(f, i);
	}
	expect_baseline(f->port);
}

/* Frames of many senders, at most a window of them in transit, until the test stops it. */
struct stream {
	/* atomic: written by the sender, the receiver, the receiver */
	uint64_t injected, taken, stop;
};

static uint64_t look(const uint64_t *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static pid_t start_stream(struct fixture *f, struct stream *stream)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	while (!look(&stream->stop)) {
		if (look(&stream->injected) - look(&stream->taken) >= WINDOW) {
			sched_yield();
			continue;
		}
		inject(f, 7000, (uint16_t)(20000 + stream->injected * 7 % 10000));
		__atomic_fetch_add(&stream->injected, 1, __ATOMIC_RELEASE);
	}
	_exit(0);
}

static void take_all(struct fixture *f, struct stream *stream)
{
	for (unsigned ring = 0; ring < 2; ring++) {
		while (next_number(f, ring))
			__atomic_fetch_add(&stream->taken, 1, __ATOMIC_RELEASE);
	}
}

/* Its slots go to the remaining members, and never to the kernel. */
static void test_leaving_a_shared_flow_leaves_no_gap(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct stream *stream = mmap(NULL, sizeof(*stream), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	struct flow_share part[2] = {{.spread = true}, {.spread = true}};
	nsec_t end;
	pid_t pid;

	assert_int_equal(ops->reuseport_join(f->q[0], &key, &part[0]), 0);
	pid = start_stream(f, stream);
	for (unsigned i = 0; i < 20000; i++) {
		assert_int_equal(ops->reuseport_join(f->q[1], &key, &part[1]), 0);
		take_all(f, stream);
		ops->reuseport_leave(f->q[1], &key, &part[1]);
		take_all(f, stream);
	}
	__atomic_store_n(&stream->stop, 1, __ATOMIC_RELEASE);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (end = clock_now() + DEADLINE; stream->taken != stream->injected && clock_now() < end;)
		take_all(f, stream);
	assert_true(stream->injected > 1000);
	assert_int_equal(stream->taken, stream->injected);
	ops->reuseport_leave(f->q[0], &key, &part[0]);
}

static void test_the_more_specific_flow_gets_everything_and_then_the_latest(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	struct flow_share part[3] = {{0}, {.rank = 2}, {0}};
	static const unsigned expected[] = {1, 2, 0};
	uint8_t to[SENDERS];
	unsigned n[RINGS_MAX + 1];

	open_ring(f, 2);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ops->reuseport_join(f->q[i], &key, &part[i]), 0);
	for (unsigned i = 0; i < 3; i++) {
		ask_senders(f, UDP, 3, to, n);
		assert_int_equal(n[expected[i]], SENDERS);
		ops->reuseport_leave(f->q[expected[i]], &key, &part[expected[i]]);
	}
	for (unsigned i = 0; i < 3; i++)
		close_ring(f, i);
	expect_baseline(f->port);
}

static void test_an_unshared_flow_may_become_shared(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key key = key3(TCP, "10.77.0.1", 7000);
	struct flow_share part[2] = {{.spread = true}, {.spread = true}};
	uint8_t to[SENDERS];
	unsigned n[RINGS_MAX + 1];

	assert_int_equal(ops->add_flow(f->q[0], &key), 0);
	assert_int_equal(ops->reuseport_join(f->q[1], &key, &part[1]), -EEXIST);
	assert_int_equal(ops->reuseport_join(f->q[0], &key, &part[0]), 0);
	assert_int_equal(ops->reuseport_join(f->q[1], &key, &part[1]), 0);
	ask_senders(f, TCP, 2, to, n);
	expect_even(n, 0, 2);
	for (unsigned i = 0; i < 2; i++)
		close_ring(f, i);
	expect_baseline(f->port);
}

static void test_more_receivers_than_there_may_be_are_refused(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	struct flow_share part[REUSEPORT_MEMBERS + 1] = {0};

	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++)
		assert_int_equal(ops->reuseport_join(f->q[0], &key, &part[i]), 0);
	assert_int_equal(ops->reuseport_join(f->q[0], &key, &part[REUSEPORT_MEMBERS]), -ENOSPC);
	ops->reuseport_leave(f->q[0], &key, &part[7]);
	assert_int_equal(ops->reuseport_join(f->q[1], &key, &part[REUSEPORT_MEMBERS]), 0);
	close_ring(f, 0);
	inject(f, 7000, 1000);
	assert_int_equal(await_number(f, 1), f->number);
	/* And no further shared flows. */
	for (uint16_t i = 1; i < XDP_STEER_SHARES; i++) {
		key.local_port = htons((uint16_t)(7000 + i));
		assert_int_equal(ops->reuseport_join(f->q[1], &key, &part[0]), 0);
	}
	key.local_port = htons(80);
	assert_int_equal(ops->reuseport_join(f->q[1], &key, &part[0]), -ENOSPC);
	assert_int_equal(ops->add_flow(f->q[1], &key), 0);
	close_ring(f, 1);
	expect_baseline(f->port);
}

static void test_connections_need_no_entry_of_a_map(void **state)
{
	struct fixture *f = *state;
	const struct xdp_port *port = (const struct xdp_port *)f->port;
	struct flow_key a = key5(TCP, "10.77.0.1", 7000, "10.77.0.2", 4000);
	struct flow_key b = key5(TCP, "10.77.0.1", 7000, "10.77.0.2", 4001);

	assert_int_equal(f->port->ops->move_flow(f->q[0], &a), -ENOENT);
	assert_int_equal(f->port->ops->add_flow(f->q[0], &a), 0);
	assert_int_equal(f->port->ops->add_flow(f->q[1], &a), -EEXIST);
	assert_int_equal(count_conns(port), 1);
	assert_int_equal(map_entries(port->flows5_fd), 0);
	/* Its entry is used. */
	assert_int_equal(f->port->ops->add_flow(f->q[1], &b), 0);
	assert_int_equal(map_entries(port->flows5_fd), 1);
	inject_of(f, TCP, 7000, 4000);
	assert_int_equal(await_number(f, 0), f->number);
	inject_of(f, TCP, 7000, 4001);
	assert_int_equal(await_number(f, 1), f->number);
	assert_int_equal(f->port->ops->move_flow(f->q[1], &a), 0);
	inject_of(f, TCP, 7000, 4000);
	assert_int_equal(await_number(f, 1), f->number);
	assert_int_equal(f->port->ops->del_flow(f->q[1], &a), 0);
	assert_int_equal(f->port->ops->del_flow(f->q[1], &a), -ENOENT);
	assert_int_equal(count_conns(port), 0);
	inject_of(f, TCP, 7000, 4001);
	assert_int_equal(await_number(f, 1), f->number);
	assert_int_equal(f->port->ops->del_flow(f->q[1], &b), 0);
	/* A forgotten flow ends with the ring. */
	assert_int_equal(f->port->ops->add_flow(f->q[0], &a), 0);
	close_ring(f, 0);
	assert_int_equal(count_conns(port), 0);
	close_ring(f, 1);
	expect_baseline(f->port);
}

static void test_a_connection_is_changed_by_its_owner_alone(void **state)
{
	struct fixture *f = *state;
	const struct xdp_port *port = (const struct xdp_port *)f->port;
	struct flow_key a = key5(TCP, "10.77.0.1", 7000, "10.77.0.2", 4000);
	struct flow_key b = key5(TCP, "10.77.0.1", 7000, "10.77.0.2", 4001);

	assert_int_equal(f->port->ops->add_flow(f->q[0], &a), 0); /* its entry is used */
	assert_int_equal(f->port->ops->add_flow(f->q[1], &b), 0); /* it is in the map */
	assert_int_equal(f->port->ops->del_flow(f->q[1], &a), -ENOENT);
	inject_of(f, TCP, 7000, 4000);
	assert_int_equal(await_number(f, 0), f->number);
	inject_of(f, TCP, 7000, 4001);
	assert_int_equal(await_number(f, 1), f->number);
	/* The entry is free, but b is in the map. */
	assert_int_equal(f->port->ops->del_flow(f->q[0], &a), 0);
	assert_int_equal(f->port->ops->add_flow(f->q[0], &b), -EEXIST);
	assert_int_equal(count_conns(port), 0);
	inject_of(f, TCP, 7000, 4001);
	assert_int_equal(await_number(f, 1), f->number);
	assert_int_equal(f->port->ops->del_flow(f->q[1], &b), 0);
	assert_int_equal(map_entries(port->flows5_fd), 0);
	assert_int_equal(port->conf->flows5, 0);
	close_ring(f, 0);
	close_ring(f, 1);
	expect_baseline(f->port);
}

static void test_a_flow_moves_under_traffic_without_loss(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key5(UDP, "10.77.0.1", 7000, "10.77.0.2", 5000);
	uint64_t expect = 1;
	unsigned home = 0;

	assert_int_equal(f->port->ops->add_flow(f->q[0], &key), 0);
	for (int move = 0; move < 30; move++) {
		for (int burst = 0; burst < 20; burst++) {
			for (int i = 0; i < WINDOW; i++)
				inject(f, 7000, 5000);
			if (burst == 10) { /* frames are in the old ring */
				home = !home;
				assert_int_equal(f->port->ops->move_flow(f->q[home], &key), 0);
				f->port->ops->barrier(f->port);
				while (expect <= f->number)
					assert_int_equal(await_number(f, !home), expect++);
			}
			while (expect <= f->number)
				assert_int_equal(await_number(f, home), expect++);
			assert_int_equal(next_number(f, !home), 0);
		}
	}
}

static void test_one_ring_sends_what_another_receives(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	unsigned sent = 0, received = 0;
	nsec_t end = clock_now() + 2 * DEADLINE;

	assert_int_equal(f->port->ops->add_flow(f->q[1], &key), 0);
	for (int round = 0; round < 1000; round++) {
		for (int i = 0; i < WINDOW; i++) {
			inject(f, 7000, 5000);
			sent += send_one(f->q[0], f->number);
		}
		f->port->ops->tx_flush(f->q[0]);
		while (next_number(f, 1))
			received++;
	}
	for (unsigned at_peer = 0; at_peer < sent && clock_now() < end;)
		at_peer += drain_peer(f->inject_fd);
	assert_int_equal(sent, 1000 * WINDOW);
	assert_int_equal(received, 1000 * WINDOW);
	close_ring(f, 0);
	close_ring(f, 1);
	expect_baseline(f->port);
}

static void test_a_greedy_ring_does_not_starve_another(void **state)
{
	struct fixture *f = *state;
	struct flow_key a = key3(UDP, "10.77.0.1", 7000), b = key3(UDP, "10.77.0.1", 7001);
	struct pkt *held = NULL, *pkt;

	assert_int_equal(f->port->ops->add_flow(f->q[0], &a), 0);
	assert_int_equal(f->port->ops->add_flow(f->q[1], &b), 0);
	for (int i = 0; i < 20000; i++) {
		inject(f, 7000, 5000);
		while (f->port->ops->rx_burst(f->q[0], &pkt, 1)) {
			pkt->next = held;
			held = pkt;
		}
	}
	assert_false(f->port->ops->idle(f->q[0]));
	assert_true(f->q[0]->frames_free < f->q[0]->frames / 8); /* so sockets copy */
	for (int i = 0; i < 5000; i++) {
		inject(f, 7001, 5000);
		assert_int_equal(await_number(f, 1), f->number);
		assert_true(send_one(f->q[1], f->number));
		f->port->ops->tx_flush(f->q[1]);
	}
	while (held) {
		pkt = held;
		held = held->next;
		pkt_free(pkt);
	}
	assert_true(f->port->ops->idle(f->q[0]));
}

/* Number of frames of an idle ring, without those that it keeps for itself. */
static unsigned in_use(const struct fixture *f, unsigned ring)
{
	const struct xdp_queue *q = (const struct xdp_queue *)f->q[ring];

	return group_count_slot(q->group, q->slot) - q->group->ctl->slots[q->slot].spare;
}

/* Polls twice as often as an idle ring checks its deferred work. */
static void rest(struct fixture *f, unsigned ring)
{
	struct pkt *pkt;

	for (int i = 0; i < 512; i++)
		assert_int_equal(f->port->ops->rx_burst(f->q[ring], &pkt, 1), 0);
}

static void test_a_ring_at_rest_says_what_it_keeps_for_itself(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	nsec_t end = clock_now() + DEADLINE;
	struct pkt *held[100];
	unsigned n = 0;

	assert_int_equal(f->port->ops->add_flow(f->q[0], &key), 0);
	for (unsigned i = 0; i < 100; i++)
		inject(f, 7000, 5000);
	while (n < 100 && clock_now() < end)
		n += (unsigned)f->port->ops->rx_burst(f->q[0], held + n, (int)(100 - n));
	assert_int_equal(n, 100);
	for (unsigned i = 0; i < 50; i++)
		assert_true(send_one(f->q[0], ++f->number));
	f->port->ops->tx_flush(f->q[0]);
	rest(f, 0);
	assert_int_equal(in_use(f, 0), 100);
	while (n)
		pkt_free(held[--n]);
	rest(f, 0);
	assert_int_equal(in_use(f, 0), 0);
	assert_int_not_equal(((struct xdp_queue *)f->q[0])->free.n, 0);
	/* The next owner of the slot does not get its settings. */
	close_ring(f, 0);
	open_ring(f, 0);
	assert_int_equal(in_use(f, 0), 0);
}

static void test_many_rings_share_one_queue(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 2; i < RINGS_MAX; i++)
		open_ring(f, i);
	for (unsigned i = 0; i < RINGS_MAX; i++) {
		struct flow_key key = key3(UDP, "10.77.0.1", (uint16_t)(8000 + i));

		assert_int_equal(f->port->ops->add_flow(f->q[i], &key), 0);
	}
	for (int round = 0; round < 200; round++) {
		for (unsigned i = 0; i < RINGS_MAX; i++) {
			inject(f, (uint16_t)(8000 + i), 5000);
			assert_int_equal(await_number(f, i), f->number);
			assert_true(send_one(f->q[i], f->number));
			f->port->ops->tx_flush(f->q[i]);
		}
	}
	for (unsigned i = 0; i < RINGS_MAX; i++)
		close_ring(f, i);
	expect_baseline(f->port);
}

/* ---- members ---------------------------------------------------------------------------- */

/* Memory shared with the member. */
struct member {
	/* written by the member */
	uint64_t received, last, lost;
	uint64_t gap[2];	       /* the numbers before and behind the first gap */
	struct xdp_statistics dropped; /* what the kernel knows of it */
	uint64_t joined;	       /* it has added its flow */
	uint64_t refused;
	uint64_t sent;
	char why[PORT_WHY];
	/* written by the process that started it */
	uint64_t stop;
	/* used by the process that started it */
	pid_t pid;
	unsigned index, life;
	uint64_t id; /* index and incarnation: the first bytes of the numbers that it sends */
	uint64_t injected, seen_sent, out_of_order;
	nsec_t asked_at, progress_at;
	uint64_t progress;
};

static uint64_t get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void set(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void note_gap(struct member *m, const struct port_queue *q, uint64_t number)
{
	const struct xdp_queue *xq = (const struct xdp_queue *)q;
	socklen_t len = sizeof(m->dropped);

	if (!m->lost) {
		m->gap[0] = m->last;
		m->gap[1] = number;
		getsockopt(xq->socks[0].fd, SOL_XDP, XDP_STATISTICS, &m->dropped, &len);
	}
	set(&m->lost, m->lost + 1);
}

static void member_reads(struct member *m, struct port_queue *q)
{
	struct pkt *pkts[16];
	int n = q->ops->rx_burst(q, pkts, 16);

	for (int i = 0; i < n; i++) {
		uint64_t number = number_of(pkts[i]->frame, pkts[i]->frame_len);

		/* The first number of a new member may be any. */
		if (m->last && number != m->last + 1)
			note_gap(m, q, number);
		m->last = number;
		pkt_free(pkts[i]);
		if (send_one(q, m->id | (m->sent + 1)))
			m->sent++;
		set(&m->received, number);
	}
	if (n)
		q->ops->tx_flush(q);
}

static void member_main(struct member *m, int ifindex)
{
	struct flow_key key = key3(UDP, "10.77.0.1", (uint16_t)(7000 + m->index));
	struct flow_key five =
		key5(UDP, "10.77.0.1", (uint16_t)(7000 + m->index), "10.77.0.2", 5000);
	struct port_queue *q;
	struct port *port;
	nsec_t next = 0;
	int fds[PORT_FDS_MAX];

	int rc;

	rc = port_xdp_open(ifindex, &port, m->why);
	if (!rc)
		rc = port->ops->open_queue(port, &q, m->why);
	if (!rc)
		rc = port->ops->add_flow(q, &key);
	if (!rc)
		rc = port->ops->add_flow(q, &five);
	five.proto = TCP;
	if (!rc)
		rc = port->ops->add_flow(q, &five);
	if (rc) {
		set(&m->refused, (uint64_t)-rc);
		_exit(1);
	}
	set(&m->joined, 1);
	while (!get(&m->stop)) {
		member_reads(m, q);
		if (clock_now() < next)
			continue;
		next = clock_now() + 2 * NSEC_PER_MSEC;
		port->ops->service(port, fds);
		sched_yield();
	}
	port->ops->close_queue(q);
	port->ops->free_port(port);
	_exit(0);
}

static void start(struct member *m, unsigned index, int ifindex)
{
	uint64_t injected = m->injected;
	unsigned life = m->life + 1;
	pid_t pid;

	memset(m, 0, sizeof(*m));
	m->index = index;
	m->injected = injected;
	m->life = life;
	m->id = (uint64_t)index << 56 | (uint64_t)(life & 0xffff) << 40;
	pid = fork();
	if (!pid) {
		sys_fd_forget_all();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		member_main(m, ifindex);
	}
	m->pid = pid;
}

static struct member *make_members(void)
{
	return mmap(NULL, (MEMBERS + 32) * sizeof(struct member), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void await_joined(struct member *m, struct port *serviced)
{
	nsec_t end = clock_now() + DEADLINE;

	while (!get(&m->joined)) {
		if (get(&m->refused))
			fail_msg("refused, %s: %s", strerrordesc_np((int)m->refused), m->why);
		if (clock_now() > end)
			fail_msg("member %u does not come up", m->index);
		if (serviced)
			service(serviced);
		usleep(500);
	}
}

static void kill_member(struct member *m)
{
	kill(m->pid, SIGKILL);
	assert_int_equal(waitpid(m->pid, NULL, 0), m->pid);
	m->pid = 0;
}

static void stop_member(struct member *m)
{
	int status;

	set(&m->stop, 1);
	assert_int_equal(waitpid(m->pid, &status, 0), m->pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	m->pid = 0;
}

/*
 * May the member get a frame? One that has received none gets few: while it waits for a processor
 * they must not fill its socket.
 */
static bool may_feed(struct member *m)
{
	uint64_t received = get(&m->received);

	if (received)
		return m->injected - received < WINDOW;
	if (clock_now() - m->asked_at < ASK)
		return false;
	m->asked_at = clock_now();
	return true;
}

/* Keeps a window of frames in transit to each member that has joined. */
static void feed(struct fixture *f, struct member *m, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!m[i].pid || !get(&m[i].joined))
			continue;
		for (int burst = 0; burst < 8 && may_feed(&m[i]); burst++) {
			f->number = m[i].injected++;
			inject(f, (uint16_t)(7000 + m[i].index), 5000);
		}
	}
}

/* The frames of the members are complete and in order. */
static void read_peer(struct fixture *f, struct member *m, unsigned n)
{
	uint8_t frame[2048];
	ssize_t len;

	while ((len = recv(f->inject_fd, frame, sizeof(frame), MSG_DONTWAIT)) > 0) {
		uint64_t number = number_of(frame, (size_t)len), index = number >> 56;

		if (index >= n || (number & ~0xffffffffffull) != m[index].id)
			continue; /* from an earlier incarnation */
		number &= 0xffffffffff;
		if (number != m[index].seen_sent + 1)
			m[index].out_of_order++;
		m[index].seen_sent = number;
	}
}

static void expect_no_loss(struct member *m)
{
	nsec_t now = clock_now();

	if (get(&m->lost) || m->out_of_order) {
		/* Lost by the interface, by the kernel's AF_XDP, or by us? */
		shell("ip -s -s link show v0");
		fail_msg("member %u: %lu gaps received, the first one from %lu to %lu, %lu sent; "
			 "sockets: %llu dropped, %llu full, %llu without a frame",
			 m->index, (unsigned long)m->lost, (unsigned long)m->gap[0],
			 (unsigned long)m->gap[1], (unsigned long)m->out_of_order,
			 m->dropped.rx_dropped, m->dropped.rx_ring_full,
			 m->dropped.rx_fill_ring_empty_descs);
	}
	if (get(&m->received) != m->progress || !m->progress_at) {
		m->progress = m->received;
		m->progress_at = now;
	}
	/* All frames of the last window may be lost. */
	if (m->progress && now - m->progress_at > DEADLINE)
		fail_msg("member %u: nothing after frame %lu of %lu", m->index,
			 (unsigned long)m->received, (unsigned long)m->injected);
}

static void run_for(struct fixture *f, struct member *m, unsigned n, nsec_t wait)
{
	nsec_t end = clock_now() + wait;

	while (clock_now() < end) {
		feed(f, m, n);
		read_peer(f, m, n);
		for (unsigned i = 0; i < n; i++)
			if (m[i].pid)
				expect_no_loss(&m[i]);
		sched_yield();
	}
}

static void start_and_await(struct fixture *f, struct member *m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		start(&m[i], i, f->ifindex);
	for (unsigned i = 0; i < n; i++)
		await_joined(&m[i], NULL);
}

/* Until each of them has received two frames; a busy machine is slow. */
static void run_until_all_receive(struct fixture *f, struct member *m, unsigned n)
{
	nsec_t end = clock_now() + 3 * DEADLINE;

	for (unsigned i = 0; i < n; i++) {
		while (m[i].pid && get(&m[i].received) < 2) {
			run_for(f, m, n, 10 * NSEC_PER_MSEC);
			assert_true(clock_now() < end);
		}
	}
}

/* This process joins, the others leave: then everything is as at the beginning. */
static void leave_and_expect_baseline(struct fixture *f, struct member *m, unsigned n)
{
	open_port(f);
	for (unsigned i = 0; i < n; i++)
		if (m[i].pid)
			stop_member(&m[i]);
	expect_baseline(f->port);
	print_message("locks taken over %lu, frames reclaimed %lu, odd %lu\n",
		      (unsigned long)((struct xdp_port *)f->port)->group.ctl->stolen,
		      (unsigned long)((struct xdp_port *)f->port)->group.ctl->reclaimed,
		      (unsigned long)((struct xdp_port *)f->port)->group.ctl->odd);
}

static void test_two_processes_take_turns_in_everything(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();

	start_and_await(f, m, 2);
	run_for(f, m, 2, 200 * NSEC_PER_MSEC);
	/* The first member created the group; the second one continues without it. */
	stop_member(&m[0]);
	run_for(f, m, 2, 200 * NSEC_PER_MSEC);
	start(&m[0], 0, f->ifindex);
	await_joined(&m[0], NULL);
	run_for(f, m, 2, 200 * NSEC_PER_MSEC);
	kill_member(&m[1]);
	run_for(f, m, 2, 200 * NSEC_PER_MSEC);
	start(&m[1], 1, f->ifindex); /* the same flow, at once */
	await_joined(&m[1], NULL);
	run_until_all_receive(f, m, 2);
	run_for(f, m, 2, 200 * NSEC_PER_MSEC);
	leave_and_expect_baseline(f, m, 2);
}

static void test_thirty_two_processes_share_an_interface(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();

	start_and_await(f, m, 32);
	run_until_all_receive(f, m, 32);
	run_for(f, m, 32, 200 * NSEC_PER_MSEC);
	leave_and_expect_baseline(f, m, 32);
}

static void test_the_rest_loses_nothing_when_members_are_killed(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();
	const char *seconds = getenv("GROUP_SECONDS");
	nsec_t end = clock_now() + (seconds ? atoi(seconds) : 4) * NSEC_PER_SEC;
	unsigned seed = (unsigned)clock_now(), kills = 0;

	print_message("seed %u\n", seed);
	srand(seed);
	start_and_await(f, m, MEMBERS);
	while (clock_now() < end) {
		struct member *victim = &m[rand() % MEMBERS];

		run_for(f, m, MEMBERS, (100 + rand() % 10) * NSEC_PER_MSEC);
		kill_member(victim);
		start(victim, victim->index, f->ifindex);
		if (rand() % 4 == 0) { /* while it joins */
			usleep((useconds_t)(rand() % 5000));
			kill_member(victim);
			start(victim, victim->index, f->ifindex);
		}
		kills++;
	}
	run_for(f, m, MEMBERS, 500 * NSEC_PER_MSEC);
	for (unsigned i = 0; i < MEMBERS; i++)
		await_joined(&m[i], NULL);
	print_message("%u killed\n", kills);
	leave_and_expect_baseline(f, m, MEMBERS);
}

static void test_all_are_killed_at_once(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();

	for (int round = 0; round < 3; round++) {
		start_and_await(f, m, MEMBERS);
		run_for(f, m, MEMBERS, 50 * NSEC_PER_MSEC);
		for (unsigned i = 0; i < MEMBERS; i++)
			kill(m[i].pid, SIGKILL);
		for (unsigned i = 0; i < MEMBERS; i++)
			kill_member(&m[i]);
	}
	open_port(f);
	expect_baseline(f->port);
}

static void test_a_frame_for_a_dead_member_goes_to_the_kernel(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();
	int sniff = packet_socket("v0");
	struct pollfd pfd = {.fd = sniff, .events = POLLIN};
	uint8_t frame[2048];
	ssize_t len;

	start_and_await(f, m, 2);
	kill_member(&m[0]);
	f->number = 100;
	inject(f, 7000, 5000);
	assert_int_equal(poll(&pfd, 1, (int)(DEADLINE / NSEC_PER_MSEC)), 1);
	len = recv(sniff, frame, sizeof(frame), 0);
	assert_int_equal(number_of(frame, (size_t)len), 101);
	close(sniff);
	leave_and_expect_baseline(f, m, 2);
}

static void test_a_stopped_answering_process_is_named_and_harms_no_other(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();
	char text[32];
	nsec_t begin;

	start_and_await(f, m, 1);
	start(&m[1], 1, f->ifindex);
	await_joined(&m[1], NULL);
	kill(m[0].pid, SIGSTOP);
	begin = clock_now();
	assert_int_equal(port_xdp_open(f->ifindex, &f->port, f->why), -EBUSY);
	assert_in_range(clock_now() - begin, 0, DEADLINE);
	snprintf(text, sizeof(text), "process %d,", m[0].pid);
	assert_non_null(strstr(f->why, text));
	run_for(f, m + 1, 1, 100 * NSEC_PER_MSEC);
	kill(m[0].pid, SIGCONT);
	leave_and_expect_baseline(f, m, 2);
}

/* It gets no processor for longer than a newcomer waits for one that is stopped. */
static void test_a_starved_answering_process_is_awaited(void **state)
{
	struct fixture *f = *state;
	nsec_t usual = xdp_wait_max;
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		if (port_xdp_open(f->ifindex, &f->port, f->why) || write(ready[1], "", 1) != 1)
			_exit(1);
		usleep(500 * 1000);
		for (unsigned i = 0; i < 60000; i++, usleep(1000))
			service(f->port);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &(char){0}, 1), 1);
	xdp_wait_max = 100 * NSEC_PER_MSEC;
	open_port(f);
	xdp_wait_max = usual;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(ready[1]);
	expect_baseline(f->port);
}

static void test_another_user_is_refused(void **state)
{
	struct fixture *f = *state;
	uint32_t caps = 1u << CAP_NET_ADMIN | 1u << CAP_NET_RAW | 1u << CAP_IPC_LOCK;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = caps, .permitted = caps},
						 {.effective = 1u << (CAP_BPF - 32),
						  .permitted = 1u << (CAP_BPF - 32)}};
	struct port *port;
	int status;
	pid_t pid;

	open_port(f);
	pid = fork();
	if (!pid) {
		int rc;

		prctl(PR_SET_KEEPCAPS, 1);
		if (setresuid(65534, 65534, 65534) || syscall(SYS_capset, &header, data))
			_exit(9);
		rc = port_xdp_open(f->ifindex, &port, f->why);
		if (rc != -EBUSY || !strstr(f->why, "user 0"))
			fprintf(stderr, "%d: %s", rc, f->why);
		_exit(rc != -EBUSY || !strstr(f->why, "user 0"));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_a_forked_child_joins(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();
	struct flow_key key = key3(UDP, "10.77.0.1", 7900), conn;

	open_port(f);
	open_ring(f, 0);
	assert_int_equal(f->port->ops->add_flow(f->q[0], &key), 0);
	start(&m[0], 0, f->ifindex); /* it forks this process, and forgets its port */
	await_joined(&m[0], f->port);
	run_for(f, m, 1, 100 * NSEC_PER_MSEC);
	f->number = 1000;
	inject(f, 7900, 5000);
	assert_int_equal(await_number(f, 0), 1001);
	/* This process cannot have the same 5-tuple. */
	key = key5(UDP, "10.77.0.1", 7000, "10.77.0.2", 5000);
	conn = key5(TCP, "10.77.0.1", 7000, "10.77.0.2", 5000);
	assert_int_equal(f->port->ops->add_flow(f->q[0], &key), -EEXIST);
	assert_int_equal(f->port->ops->add_flow(f->q[0], &conn), -EEXIST);
	assert_true(f->port->ops->flow_is_foreign(f->port, &key));
	assert_true(f->port->ops->flow_is_foreign(f->port, &conn));
	assert_int_equal(f->port->ops->move_flow(f->q[0], &key), -ENOENT);
	assert_int_equal(f->port->ops->move_flow(f->q[0], &conn), -ENOENT);
	assert_int_equal(f->port->ops->del_flow(f->q[0], &conn), -ENOENT);
	kill_member(&m[0]);
	assert_false(f->port->ops->flow_is_foreign(f->port, &conn));
	/* A process that starts again does not wait for the sweep. */
	assert_int_equal(f->port->ops->add_flow(f->q[0], &key), 0);
	assert_int_equal(f->port->ops->add_flow(f->q[0], &conn), 0);
	assert_false(f->port->ops->flow_is_foreign(f->port, &conn));
	close_ring(f, 0);
	expect_baseline(f->port);
}

static unsigned entries_of(const struct xdp_port *port)
{
	return map_entries(port->flows3_fd) + map_entries(port->flows5_fd) + count_conns(port);
}

/*
 * A server that forks for each connection: the next child gets the resources of the previous
 * one, and nothing is steered to a process that has ended, because the kernel would get these
 * frames.
 */
static void test_an_exiting_member_leaves_its_frames_to_the_others(void **state)
{
	struct fixture *f = *state;
	struct flow_key five = key5(UDP, "10.77.0.1", 7000, "10.77.0.2", 5000),
			conn = key5(TCP, "10.77.0.1", 7000, "10.77.0.2", 5000);
	struct books before, after;
	uint64_t *done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned entries;
	pid_t pid;

	open_port(f);
	open_ring(f, 0);
	before = read_books((struct xdp_port *)f->port);
	entries = entries_of((struct xdp_port *)f->port);
	pid = fork();
	if (!pid) {
		struct port_queue *q;
		struct port *port;

		sys_fd_forget_all();
		if (port_xdp_open(f->ifindex, &port, f->why) ||
		    port->ops->open_queue(port, &q, f->why) || !send_one(q, 1) ||
		    q->ops->add_flow(q, &five) || q->ops->add_flow(q, &conn))
			_exit(1);
		q->ops->tx_flush(q);
		q->ops->at_exit(q, true);
		__atomic_store_n(done, 1, __ATOMIC_RELEASE);
		pause(); /* otherwise the sweep would find it dead, and do the same */
	}
	/* This process answers it as a new member. */
	while (!look(done) && waitpid(pid, NULL, WNOHANG) == 0)
		service(f->port);
	assert_true(look(done));
	after = read_books((struct xdp_port *)f->port);
	assert_int_equal(entries_of((struct xdp_port *)f->port), entries);
	assert_true(after.kinds[OWNER_HELD] <= before.kinds[OWNER_HELD] + 1);
	assert_true(after.kinds[OWNER_TX] <= before.kinds[OWNER_TX] + 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close_ring(f, 0);
	expect_baseline(f->port);
}

/*
 * The process that answers sees that a member has ended, while a child of the member still has
 * the descriptor open. The number is soon used again, for a descriptor that must not be read.
 */
static void test_a_number_used_again_is_not_taken_for_a_member(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();
	struct xdp_port *port;
	int pair[2], conn, inherited;
	char message[64];

	open_port(f);
	port = (struct xdp_port *)f->port;
	start(&m[0], 0, f->ifindex);
	await_joined(&m[0], f->port);
	assert_int_equal(port->n_conns, 1);
	conn = port->conns[0].fd;
	inherited = dup(conn);
	kill_member(&m[0]);
	while (port->n_conns)
		service(f->port);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(dup2(pair[0], conn), conn);
	assert_int_equal(send(pair[1], "message", 6, 0), 6);
	service(f->port);
	assert_int_equal(recv(conn, message, sizeof(message), 0), 6);
	close(conn);
	close(pair[0]);
	close(pair[1]);
	close(inherited);
	expect_baseline(f->port);
}

/* A close() past the library drops the record lock, and the others consider this process dead. */
static void test_a_member_considered_dead_returns_nothing(void **state)
{
	struct fixture *f = *state;
	struct member *m = make_members();
	struct flow_key key = key3(UDP, "10.77.0.1", 7900);
	nsec_t end = clock_now() + DEADLINE;
	struct xdp_port *port;
	int fds[PORT_FDS_MAX];

	open_port(f);
	open_ring(f, 0);
	port = (struct xdp_port *)f->port;
	assert_int_equal(f->port->ops->add_flow(f->q[0], &key), 0);
	start(&m[0], 0, f->ifindex);
	await_joined(&m[0], f->port);
	assert_false(f->port->lost);
	close(dup(port->group.ctl_fd));
	while (__atomic_load_n(&port->group.ctl->members[port->group.member].used,
			       __ATOMIC_ACQUIRE))
		assert_true(clock_now() < end);
	while (!f->port->lost) {
		f->port->ops->service(f->port, fds);
		assert_true(clock_now() < end);
	}
	assert_null(f->port->ops->tx_get(f->q[0]));
	/* By now its slot is free, or belongs to another member. */
	while (__atomic_load_n(&port->group.ctl->slots[((struct xdp_queue *)f->q[0])->slot].state,
			       __ATOMIC_ACQUIRE) != SLOT_FREE)
		assert_true(clock_now() < end);
	start(&m[1], 1, f->ifindex);
	await_joined(&m[1], NULL);
	close_ring(f, 0);
	f->port->ops->free_port(f->port);
	f->port = NULL;
	run_for(f, m, 2, 100 * NSEC_PER_MSEC);
	leave_and_expect_baseline(f, m, 2);
}

/* A process that shares the flow of port 7000: counts its frames. */
static void sharer_main(int ifindex, uint64_t *joined, uint64_t *received)
{
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	struct flow_share part = {.spread = true};
	char why[PORT_WHY];
	struct port_queue *q;
	struct port *port;
	struct pkt *pkt;
	int fds[PORT_FDS_MAX];

	if (port_xdp_open(ifindex, &port, why) || port->ops->open_queue(port, &q, why) ||
	    port->ops->reuseport_join(q, &key, &part))
		_exit(1);
	set(joined, 1);
	for (;;) {
		while (q->ops->rx_burst(q, &pkt, 1)) {
			pkt_free(pkt);
			set(received, get(received) + 1);
		}
		port->ops->service(port, fds);
	}
}

static pid_t start_sharer(int ifindex, uint64_t *joined, uint64_t *received)
{
	nsec_t end = clock_now() + DEADLINE;
	pid_t pid = fork();

	if (!pid) {
		sys_fd_forget_all();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sharer_main(ifindex, joined, received);
	}
	while (!get(joined) && clock_now() < end)
		usleep(500);
	assert_int_equal(get(joined), 1);
	return pid;
}

static void end_sharer(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* 256 frames; returns how many the two have received after that time at most. */
static unsigned inject_all(struct fixture *f, uint64_t *a, uint64_t *b, nsec_t patience)
{
	uint64_t before = get(a) + get(b);
	nsec_t end;

	for (uint16_t i = 0; i < 256; i++) {
		inject(f, 7000, (uint16_t)(20000 + i));
		usleep(100);
	}
	end = clock_now() + patience;
	while (get(a) + get(b) < before + 256 && clock_now() < end)
		usleep(500);
	return (unsigned)(get(a) + get(b) - before);
}

static void test_the_dead_leave_their_part_of_a_flow_to_the_others(void **state)
{
	struct fixture *f = *state;
	uint64_t *n = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t first = start_sharer(f->ifindex, &n[0], &n[2]);
	pid_t second = start_sharer(f->ifindex, &n[1], &n[3]);
	nsec_t end;

	assert_int_equal(inject_all(f, &n[2], &n[3], DEADLINE), 256);
	assert_in_range(get(&n[2]), 64, 192);
	end_sharer(first);
	end = clock_now() + DEADLINE;
	while (inject_all(f, &n[2], &n[3], 200 * NSEC_PER_MSEC) < 256)
		assert_true(clock_now() < end);
	/* A member that joins later does not hinder the cleanup of dead ones. */
	first = start_sharer(f->ifindex, &n[4], &n[2]);
	end_sharer(first);
	end_sharer(second);
	open_port(f);
	open_ring(f, 0);
	struct flow_share part = {.spread = true};
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);

	assert_int_equal(f->port->ops->reuseport_join(f->q[0], &key, &part), 0);
	inject(f, 7000, 1000);
	assert_int_equal(await_number(f, 0), f->number);
	close_ring(f, 0);
	expect_baseline(f->port);
}

/* ---- killed in the middle of joining and leaving ---------------------------------------- */

#define KILLS 60

static void fickle_main(int ifindex, uint64_t *rounds)
{
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	char why[PORT_WHY];
	struct port_queue *q;
	struct port *port;

	if (port_xdp_open(ifindex, &port, why) || port->ops->open_queue(port, &q, why)) {
		fprintf(stderr, "fickle: %s", why);
		_exit(1);
	}
	for (;;) {
		struct flow_share part[3];
		int rc[3];

		for (uint16_t i = 0; i < 3; i++) {
			part[i] = (struct flow_share){.spread = i != 1};
			key.local_port = htons((uint16_t)(7000 + i));
			rc[i] = q->ops->reuseport_join(q, &key, &part[i]);
		}
		for (uint16_t i = 0; i < 3; i++) {
			key.local_port = htons((uint16_t)(7000 + i));
			if (!rc[i])
				q->ops->reuseport_leave(q, &key, &part[i]);
		}
		set(rounds, get(rounds) + 1);
		/*
		 * It holds nothing now.  Else it loses a shared processor with the group's lock
		 * nearly always, and a newcomer does not get that for many seconds.
		 */
		sched_yield();
	}
}

static pid_t start_fickle(struct fixture *f, uint64_t *rounds)
{
	pid_t pid = fork();

	set(rounds, 0);
	if (!pid) {
		sys_fd_forget_all();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fickle_main(f->ifindex, rounds);
	}
	return pid;
}

static void await_rounds(struct fixture *f, pid_t pid, uint64_t *rounds)
{
	nsec_t end = clock_now() + DEADLINE;

	while (get(rounds) < 3) {
		service(f->port);
		if (waitpid(pid, NULL, WNOHANG))
			fail_msg("a process is refused, which should wait its turn");
		usleep(200);
		assert_true(clock_now() < end);
	}
}

/* Killed at any step, they lose no share and no part of one. */
static void test_sharers_are_killed_at_any_time(void **state)
{
	struct fixture *f = *state;
	uint64_t *rounds =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	struct flow_share part = {.spread = true};

	open_port(f);
	for (unsigned i = 0; i < FICKLE; i++)
		fickle[i] = start_fickle(f, &rounds[i]);
	for (unsigned k = 0; k < KILLS; k++) {
		unsigned i = k % FICKLE;

		await_rounds(f, fickle[i], &rounds[i]);
		usleep((unsigned)rand() % 300);
		end_sharer(fickle[i]);
		fickle[i] = start_fickle(f, &rounds[i]);
	}
	for (unsigned i = 0; i < FICKLE; i++)
		end_sharer(fickle[i]);
	open_ring(f, 0);
	for (uint16_t i = 0; i < 3; i++) {
		key.local_port = htons((uint16_t)(7000 + i));
		assert_int_equal(f->port->ops->reuseport_join(f->q[0], &key, &part), 0);
		inject(f, (uint16_t)(7000 + i), 1000);
		assert_int_equal(await_number(f, 0), f->number);
	}
	close_ring(f, 0);
	/* One that was killed while it counted leaves the number too high, which costs time only. */
	expect_settled(f->port, false);
}

#define TEST(test, prepare) cmocka_unit_test_setup_teardown(test, prepare, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_each_ring_gets_its_own_frames, setup_rings),
	TEST(test_each_ring_gets_its_own_frames, setup_rings_queues),
	TEST(test_each_ring_gets_its_own_frames, setup_rings_generic),
	TEST(test_a_shared_flow_is_spread_by_its_senders, setup_rings),
	TEST(test_a_shared_flow_is_spread_by_its_senders, setup_rings_queues),
	TEST(test_leaving_a_shared_flow_leaves_no_gap, setup_rings),
	TEST(test_the_more_specific_flow_gets_everything_and_then_the_latest, setup_rings),
	TEST(test_an_unshared_flow_may_become_shared, setup_rings),
	TEST(test_more_receivers_than_there_may_be_are_refused, setup_rings),
	TEST(test_connections_need_no_entry_of_a_map, setup_rings),
	TEST(test_connections_need_no_entry_of_a_map, setup_rings_queues),
	TEST(test_a_connection_is_changed_by_its_owner_alone, setup_rings),
	TEST(test_a_flow_moves_under_traffic_without_loss, setup_rings),
	TEST(test_each_ring_gets_its_own_frames, setup_rings6),
	TEST(test_a_shared_flow_is_spread_by_its_senders, setup_rings6),
	TEST(test_leaving_a_shared_flow_leaves_no_gap, setup_rings6),
	TEST(test_the_more_specific_flow_gets_everything_and_then_the_latest, setup_rings6),
	TEST(test_an_unshared_flow_may_become_shared, setup_rings6),
	TEST(test_more_receivers_than_there_may_be_are_refused, setup_rings6),
	TEST(test_connections_need_no_entry_of_a_map, setup_rings6),
	TEST(test_a_connection_is_changed_by_its_owner_alone, setup_rings6),
	TEST(test_a_flow_moves_under_traffic_without_loss, setup_rings6),
	TEST(test_an_exiting_member_leaves_its_frames_to_the_others, setup_alone6),
	TEST(test_the_dead_leave_their_part_of_a_flow_to_the_others, setup_alone6),
	TEST(test_sharers_are_killed_at_any_time, setup_alone6),
	TEST(test_two_processes_take_turns_in_everything, setup_alone6),
	TEST(test_a_frame_for_a_dead_member_goes_to_the_kernel, setup_alone6),
	TEST(test_a_flow_moves_under_traffic_without_loss, setup_rings_queues),
	TEST(test_one_ring_sends_what_another_receives, setup_rings),
	TEST(test_one_ring_sends_what_another_receives, setup_rings_generic),
	TEST(test_a_greedy_ring_does_not_starve_another, setup_rings),
	TEST(test_a_ring_at_rest_says_what_it_keeps_for_itself, setup_rings),
	TEST(test_a_ring_at_rest_says_what_it_keeps_for_itself, setup_rings_queues),
	TEST(test_a_ring_at_rest_says_what_it_keeps_for_itself, setup_rings_generic),
	TEST(test_many_rings_share_one_queue, setup_rings),
	TEST(test_many_rings_share_one_queue, setup_rings_queues),
	TEST(test_another_user_is_refused, setup_alone),
	TEST(test_a_forked_child_joins, setup_alone),
	TEST(test_an_exiting_member_leaves_its_frames_to_the_others, setup_alone),
	TEST(test_a_number_used_again_is_not_taken_for_a_member, setup_alone),
	TEST(test_a_member_considered_dead_returns_nothing, setup_alone),
	TEST(test_the_dead_leave_their_part_of_a_flow_to_the_others, setup_alone),
	TEST(test_sharers_are_killed_at_any_time, setup_alone),
	TEST(test_two_processes_take_turns_in_everything, setup_alone),
	TEST(test_a_frame_for_a_dead_member_goes_to_the_kernel, setup_alone),
	TEST(test_a_stopped_answering_process_is_named_and_harms_no_other, setup_alone),
	TEST(test_a_starved_answering_process_is_awaited, setup_alone),
	TEST(test_thirty_two_processes_share_an_interface, setup_alone),
	TEST(test_all_are_killed_at_once, setup_alone),
	TEST(test_the_rest_loses_nothing_when_members_are_killed, setup_alone),
};

VMA_TEST_MAIN("xdp_group", tests, make_topology, NULL)
