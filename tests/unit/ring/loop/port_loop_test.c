/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/loop/port_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "vma_test.h"

#define MTU 1500
#define DEADLINE (10 * NSEC_PER_SEC)

struct fixture {
	struct port *port;
	struct port_queue *a, *b;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char why[PORT_WHY];

	clock_init();
	assert_int_equal(port_loop_open(MTU, &f->port), 0);
	assert_int_equal(f->port->ops->open_queue(f->port, &f->a, why), 0);
	assert_int_equal(f->port->ops->open_queue(f->port, &f->b, why), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	f->port->ops->close_queue(f->a);
	f->port->ops->close_queue(f->b);
	f->port->ops->free_port(f->port);
	free(f);
	return 0;
}

static struct flow_key key3(const char *local, uint16_t port)
{
	struct flow_key key = {
		.local = addr_v4(inet_addr(local)),
		.remote = addr_v4_any(),
		.local_port = htons(port),
		.proto = IPPROTO_UDP,
	};

	return key;
}

static struct flow_key key5(const char *local, uint16_t port, const char *remote, uint16_t from)
{
	struct flow_key key = key3(local, port);

	key.remote = addr_v4(inet_addr(remote));
	key.remote_port = htons(from);
	return key;
}

static uint16_t sender = 99; /* port */

/* Queues a datagram of 8 bytes, a number; false when no frame is free. */
static bool put(struct port_queue *q, const char *to, uint16_t port, uint64_t number)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct frame_params params = {
		.src_mac = mac,
		.dst_mac = mac,
		.src = {.addr = addr_v4(inet_addr("10.0.0.9")), .port = htons(sender)},
		.dst = {.addr = addr_v4(inet_addr(to)), .port = htons(port)},
		.proto = IPPROTO_UDP,
		.ttl = 64,
	};
	struct iovec iov = {&number, sizeof(number)};
	struct frame_template t;
	struct pkt *pkt = q->ops->tx_get(q);

	if (!pkt)
		return false;
	assert_true(pkt->room >= MTU + ETH_HDR);
	assert_int_equal(frame_template_init(&t, &params), 0);
	pkt->frame_len = (uint32_t)frame_build_udp(&t, pkt->frame, &iov, 1, sizeof(number));
	assert_int_equal(q->ops->tx_put(q, pkt), 0);
	return true;
}

static void send_one(struct port_queue *q, const char *to, uint16_t port, uint64_t number)
{
	assert_true(put(q, to, port, number));
	q->ops->tx_flush(q);
}

static uint64_t number_of(struct pkt *pkt)
{
	struct flow_key key;
	uint64_t number;

	assert_int_equal(frame_parse(pkt, 0, &key), DROP_NONE);
	assert_int_equal(pkt->len, sizeof(number));
	memcpy(&number, pkt_payload(pkt), sizeof(number));
	return number;
}

/* 0: nothing arrived. */
static uint64_t receive_one(struct port_queue *q)
{
	struct pkt *pkt;
	uint64_t number;

	if (!q->ops->rx_burst(q, &pkt, 1))
		return 0;
	assert_ptr_equal(pkt->pool, &q->pool);
	number = number_of(pkt);
	pkt_free(pkt);
	return number;
}

static void test_frames_come_out_where_the_flow_is(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key at_a = key3("10.0.0.1", 7), at_b = key3("10.0.0.2", 7);

	assert_int_equal(ops->add_flow(f->a, &at_a), 0);
	assert_int_equal(ops->add_flow(f->b, &at_b), 0);
	send_one(f->a, "10.0.0.2", 7, 1);
	send_one(f->b, "10.0.0.1", 7, 2);
	send_one(f->a, "10.0.0.1", 7, 3); /* to itself */
	send_one(f->a, "10.0.0.2", 8, 4); /* to no queue */
	assert_int_equal(receive_one(f->b), 1);
	assert_int_equal(receive_one(f->b), 0);
	assert_int_equal(receive_one(f->a), 2);
	assert_int_equal(receive_one(f->a), 3);
	assert_int_equal(receive_one(f->a), 0);
	assert_int_equal(ops->del_flow(f->b, &at_b), 0);
	assert_int_equal(ops->del_flow(f->b, &at_b), -ENOENT);
	send_one(f->a, "10.0.0.2", 7, 5);
	assert_int_equal(receive_one(f->b), 0);
	assert_int_equal(f->a->frames_free, f->a->frames);
	assert_int_equal(f->b->frames_free, f->b->frames);
}

static void test_an_address_that_is_gone_gets_nothing(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key at_a = key3("10.0.0.1", 7), at_b = key3("10.0.0.2", 7);

	assert_int_equal(ops->add_flow(f->a, &at_a), 0);
	assert_int_equal(ops->add_flow(f->b, &at_b), 0);
	ops->addrs_gone(f->port, &at_a.local, 1);
	send_one(f->b, "10.0.0.1", 7, 1);
	send_one(f->a, "10.0.0.2", 7, 2);
	assert_int_equal(receive_one(f->a), 0);
	assert_int_equal(receive_one(f->b), 2);
	ops->addrs_gone(f->port, NULL, 0);
	send_one(f->b, "10.0.0.1", 7, 3);
	assert_int_equal(receive_one(f->a), 3);
}

static void test_the_5_tuple_goes_before_the_3_tuple(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key three = key3("10.0.0.1", 7);
	struct flow_key five = key5("10.0.0.1", 7, "10.0.0.9", 99);

	assert_int_equal(ops->add_flow(f->a, &three), 0);
	assert_int_equal(ops->add_flow(f->b, &three), -EEXIST);
	assert_int_equal(ops->add_flow(f->b, &five), 0);
	send_one(f->a, "10.0.0.1", 7, 1);
	assert_int_equal(receive_one(f->b), 1);
	assert_int_equal(receive_one(f->a), 0);
	assert_int_equal(ops->del_flow(f->b, &five), 0);
	send_one(f->a, "10.0.0.1", 7, 2);
	assert_int_equal(receive_one(f->a), 2);
}

static void test_a_group_is_received_by_all_its_members(void **state)
{
	struct fixture *f = *state;
	struct flow_key group = key3("239.1.1.1", 7);

	assert_int_equal(f->port->ops->add_flow(f->a, &group), 0);
	assert_int_equal(f->port->ops->add_flow(f->b, &group), 0);
	assert_int_equal(f->port->ops->add_flow(f->b, &group), -EEXIST);
	send_one(f->a, "239.1.1.1", 7, 1);
	assert_int_equal(receive_one(f->a), 1);
	assert_int_equal(receive_one(f->b), 1);
}

/*
 * Tells which queue gets the frames of each sender: bit i is set if b does. Returns how many go
 * to a.
 */
static unsigned ask_senders(struct fixture *f, uint64_t to[4])
{
	unsigned n = 0;

	memset(to, 0, 4 * sizeof(*to));
	for (unsigned i = 0; i < 256; i++) {
		unsigned a, b;

		sender = (uint16_t)(1000 + i);
		send_one(f->a, "10.0.0.1", 7, i + 1);
		a = receive_one(f->a) == i + 1;
		b = receive_one(f->b) == i + 1;
		assert_int_equal(a + b, 1);
		to[i / 64] |= (uint64_t)b << i % 64;
		n += a;
	}
	sender = 99;
	return n;
}

static void test_a_shared_flow_is_spread_by_its_senders(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key key = key3("10.0.0.1", 7);
	struct flow_share a = {.spread = true}, b = {.spread = true}, c = {.spread = true};
	uint64_t first[4], then[4];

	assert_int_equal(ops->add_flow(f->a, &key), 0);
	assert_int_equal(ops->reuseport_join(f->b, &key, &b), -EEXIST);
	assert_int_equal(ops->reuseport_join(f->a, &key, &a), 0); /* a keeps its own flows */
	assert_int_equal(ops->reuseport_join(f->b, &key, &b), 0);
	assert_int_equal(ops->add_flow(f->b, &key), -EEXIST);
	assert_in_range(ask_senders(f, first), 64, 192);
	ask_senders(f, then);
	assert_memory_equal(first, then, sizeof(first));
	assert_int_equal(ops->reuseport_join(f->b, &key, &c), 0);
	assert_in_range(ask_senders(f, then), 43, 128);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(then[i] & first[i], first[i]); /* b keeps its flows */
	assert_int_equal(ops->reuseport_move(f->a, &key, &b), 0);
	assert_int_equal(ops->reuseport_move(f->a, &key, &c), 0);
	assert_int_equal(ask_senders(f, then), 256);
	ops->reuseport_leave(f->a, &key, &a);
	ops->reuseport_leave(f->a, &key, &b);
	ops->reuseport_leave(f->a, &key, &c);
	assert_int_equal(ops->add_flow(f->b, &key), 0);
	assert_int_equal(ops->del_flow(f->b, &key), 0);
	assert_int_equal(ops->reuseport_join(f->b, &key, &b), 0); /* the flow ends with its queue */
}

static void test_an_armed_descriptor_reports_the_next_frame(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key key = key3("10.0.0.1", 7);
	int fds[PORT_FDS_MAX];
	struct pollfd pfd = {.events = POLLIN};

	assert_true(f->port->can.must_arm);
	assert_int_equal(ops->add_flow(f->a, &key), 0);
	assert_int_equal(ops->fds(f->a, fds), 1);
	pfd.fd = fds[0];
	send_one(f->b, "10.0.0.1", 7, 1); /* not armed: nobody sleeps */
	assert_int_equal(poll(&pfd, 1, 0), 0);
	assert_false(ops->arm(f->a)); /* and must not begin to */
	assert_int_equal(receive_one(f->a), 1);
	for (uint64_t n = 2; n < 100; n += 2) {
		assert_true(ops->arm(f->a)); /* this also makes it unreadable */
		assert_int_equal(poll(&pfd, 1, 0), 0);
		send_one(f->b, "10.0.0.1", 7, n);
		assert_int_equal(poll(&pfd, 1, 0), 1);
		send_one(f->b, "10.0.0.1", 7, n + 1);
		assert_int_equal(receive_one(f->a), n);
		assert_false(ops->arm(f->a));
		assert_int_equal(receive_one(f->a), n + 1);
	}
}

static void test_a_full_wire_drops_and_keeps_order(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7);
	uint64_t n, last;

	assert_int_equal(f->port->ops->add_flow(f->a, &key), 0);
	for (n = 1; n <= 3 * 4096; n++)
		send_one(f->b, "10.0.0.1", 7, n);
	for (last = 0; (n = receive_one(f->a)); last = n)
		assert_int_equal(n, last + 1);
	assert_int_equal(last, 4096);
	assert_int_equal(f->b->frames_free, f->b->frames);
	send_one(f->b, "10.0.0.1", 7, 99999);
	assert_int_equal(receive_one(f->a), 99999);
}

static void test_held_frames_leave_some_to_send(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7);
	struct pkt *pkts[8192], *pkt;
	int n = 0, more = 1;

	assert_int_equal(f->port->ops->add_flow(f->a, &key), 0);
	for (int i = 0; more; i++) {
		send_one(f->b, "10.0.0.1", 7, 1);
		more = f->port->ops->rx_burst(f->a, pkts + n, 1);
		n += more;
	}
	assert_true(f->port->ops->arm(f->a)); /* polling would bring nothing */
	pkt = f->port->ops->tx_get(f->a);
	assert_non_null(pkt);
	pkt_free(pkt);
	while (n)
		pkt_free(pkts[--n]);
	assert_int_equal(receive_one(f->a), 1);
	assert_int_equal(f->a->frames_free, f->a->frames);
}

/* ---- threads ---------------------------------------------------------------- */

struct peer {
	struct port_queue *q;
	const char *to;
	bool sleeps;
	uint64_t count;
};

/* Waits for a frame as rings do: polls, or sleeps on the descriptor. */
static uint64_t await(const struct peer *p, struct pollfd *pfd)
{
	nsec_t deadline = clock_now() + DEADLINE;
	uint64_t number;

	while (!(number = receive_one(p->q))) {
		assert_true(clock_now() < deadline);
		if (!p->sleeps)
			sched_yield();
		else if (p->q->ops->arm(p->q))
			assert_true(poll(pfd, 1, 5000) == 1);
	}
	return number;
}

static void *bounce(void *arg)
{
	const struct peer *p = arg;
	struct pollfd pfd = {.events = POLLIN};
	int fds[PORT_FDS_MAX];

	if (p->sleeps) {
		p->q->ops->fds(p->q, fds);
		pfd.fd = fds[0];
	}
	for (uint64_t n = 1; n <= p->count; n++) {
		assert_int_equal(await(p, &pfd), n);
		send_one(p->q, p->to, 7, n);
	}
	return NULL;
}

static void ping_pong(struct fixture *f, bool sleeps, uint64_t count)
{
	struct flow_key at_a = key3("10.0.0.1", 7), at_b = key3("10.0.0.2", 7);
	struct peer a = {f->a, "10.0.0.2", sleeps, count}, b = {f->b, "10.0.0.1", sleeps, count};
	struct pollfd pfd = {.events = POLLIN};
	int fds[PORT_FDS_MAX];
	pthread_t thread;

	assert_int_equal(f->port->ops->add_flow(f->a, &at_a), 0);
	assert_int_equal(f->port->ops->add_flow(f->b, &at_b), 0);
	if (sleeps) {
		f->port->ops->fds(f->a, fds);
		pfd.fd = fds[0];
	}
	assert_int_equal(pthread_create(&thread, NULL, bounce, &b), 0);
	for (uint64_t n = 1; n <= count; n++) {
		send_one(f->a, a.to, 7, n);
		assert_int_equal(await(&a, &pfd), n);
	}
	pthread_join(thread, NULL);
	assert_int_equal(f->a->frames_free, f->a->frames);
	assert_int_equal(f->b->frames_free, f->b->frames);
}

static void test_two_threads_bounce_a_frame_polling(void **state)
{
	ping_pong(*state, false, 5000);
}

static void test_two_threads_bounce_a_frame_sleeping(void **state)
{
	ping_pong(*state, true, 5000);
}

/* ---- threads that send at the same time --------------------------------------- */

#define SENT 20000

struct sender {
	struct port_queue *q;
	const char *to;
	uint64_t first; /* of the numbers that it sends */
	uint64_t sent;	/* atomic */
	uint64_t seen;	/* atomic: received numbers; the sender is less than a wire ahead */
};

static void *send_numbers(void *arg)
{
	struct sender *s = arg;

	for (uint64_t n = 0; n < SENT; n++) {
		while (n - __atomic_load_n(&s->seen, __ATOMIC_ACQUIRE) > 1000)
			sched_yield();
		send_one(s->q, s->to, 7, s->first + n);
		__atomic_store_n(&s->sent, n + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void test_two_senders_to_one_receiver_keep_their_order(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key key = key3("10.0.0.1", 7);
	struct port_queue *c;
	char why[PORT_WHY];
	pthread_t threads[2];

	assert_int_equal(ops->open_queue(f->port, &c, why), 0);
	assert_int_equal(ops->add_flow(c, &key), 0);
	struct sender senders[2] = {{.q = f->a, .to = "10.0.0.1", .first = 1},
				    {.q = f->b, .to = "10.0.0.1", .first = 1 + SENT}};

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, send_numbers, &senders[i]);
	for (int got = 0; got < 2 * SENT; got++) {
		struct peer p = {.q = c};
		uint64_t n = await(&p, NULL);
		struct sender *s = &senders[n > SENT];

		assert_int_equal(n, s->first + s->seen);
		__atomic_store_n(&s->seen, s->seen + 1, __ATOMIC_RELEASE);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(receive_one(c), 0);
	ops->close_queue(c);
}

/* Takes what has arrived; the numbers continue where they were. */
static void take_all(struct port_queue *q, struct sender *s)
{
	uint64_t n;

	while ((n = receive_one(q))) {
		assert_int_equal(n, s->first + s->seen);
		__atomic_store_n(&s->seen, s->seen + 1, __ATOMIC_RELEASE);
	}
}

static void test_a_flow_moves_under_load_and_loses_nothing(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct flow_key key = key3("10.0.0.1", 7), other = key3("10.0.0.1", 8);
	struct port_queue *c, *from = f->a, *to = f->b;
	char why[PORT_WHY];
	pthread_t thread;
	unsigned moves = 0;

	assert_int_equal(ops->open_queue(f->port, &c, why), 0);
	assert_int_equal(ops->move_flow(to, &key), -ENOENT);
	assert_int_equal(ops->add_flow(from, &key), 0);
	struct sender s = {.q = c, .to = "10.0.0.1", .first = 1};

	pthread_create(&thread, NULL, send_numbers, &s);
	while (__atomic_load_n(&s.sent, __ATOMIC_ACQUIRE) < SENT) {
		struct port_queue *old = from;

		take_all(from, &s);
		assert_int_equal(ops->add_flow(from, &other), 0);
		assert_int_equal(ops->move_flow(to, &key), 0);
		ops->barrier(f->port);
		take_all(from, &s); /* the last frames before the move */
		take_all(to, &s);
		assert_int_equal(ops->del_flow(from, &other), 0);
		assert_true(ops->arm(from));
		from = to;
		to = old;
		moves++;
	}
	pthread_join(thread, NULL);
	take_all(from, &s);
	assert_int_equal(s.seen, SENT);
	assert_true(moves > 0);
	ops->close_queue(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_frames_come_out_where_the_flow_is),
	TEST(test_an_address_that_is_gone_gets_nothing),
	TEST(test_the_5_tuple_goes_before_the_3_tuple),
	TEST(test_a_shared_flow_is_spread_by_its_senders),
	TEST(test_a_group_is_received_by_all_its_members),
	TEST(test_an_armed_descriptor_reports_the_next_frame),
	TEST(test_a_full_wire_drops_and_keeps_order),
	TEST(test_held_frames_leave_some_to_send),
	TEST(test_two_threads_bounce_a_frame_polling),
	TEST(test_two_threads_bounce_a_frame_sleeping),
	TEST(test_two_senders_to_one_receiver_keep_their_order),
	TEST(test_a_flow_moves_under_load_and_loses_nothing),
};

VMA_TEST_MAIN("port_loop", tests, NULL, NULL)
