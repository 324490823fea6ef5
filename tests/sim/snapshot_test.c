/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net/tcp/tcp_snapshot.h: a connection in any state continues in other memory. Bytes that are
 * no snapshot are refused, or give a connection that does no harm. (random_test also moves
 * connections in random states.)
 */
#include <errno.h>
#include <string.h>

#include "net/tcp/tcp_snapshot.h"
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

/* Moves both sides, in any state. */
static void move_both(struct sim *sim)
{
	sim_restore(sim, A);
	sim_restore(sim, B);
}

static void exchange(struct sim *sim, uint32_t bytes)
{
	for (int h = A; h <= B; h++)
		assert_int_equal(sim_send(sim, h, bytes, 0), bytes);
	move_both(sim);
	sim_run(sim, SEC);
	move_both(sim);
	assert_int_equal(sim_drain(sim, A), bytes);
	assert_int_equal(sim_drain(sim, B), bytes);
}

static void test_it_continues_in_every_state(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_listen(sim, B);
	sim_open(sim, A);
	move_both(sim); /* SYN_SENT */
	while (!sim->host[B].exists || !sim->host[A].established) {
		assert_true(sim_step(sim));
		move_both(sim);
	}
	sim_run(sim, SEC);
	exchange(sim, 20000);
	sim_shutdown(sim, A); /* FIN_WAIT_1 */
	move_both(sim);
	sim_run(sim, SEC);
	assert_int_equal(sim_state(sim, A), TCP_FIN_WAIT_2);
	assert_int_equal(sim_state(sim, B), TCP_CLOSE_WAIT);
	move_both(sim);
	assert_int_equal(sim_recv(sim, B, 1), 0);
	assert_int_equal(sim_send(sim, B, 1000, 0), 1000);
	sim_shutdown(sim, B); /* LAST_ACK */
	move_both(sim);
	sim_run(sim, SEC);
	move_both(sim); /* TIME_WAIT and CLOSED */
	assert_int_equal(sim_drain(sim, A), 1000);
	sim_end(sim);
}

static bool lose_first_data(struct sim *sim, const struct sim_segment *seg)
{
	if (seg->from != A || !seg->len || sim->filter_arg)
		return false;
	sim->filter_arg = 1;
	return true;
}

static void test_early_and_lost_data_moves_with_it(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim->filter = lose_first_data;
	assert_int_equal(sim_send(sim, A, 10000, 0), 10000);
	sim_run(sim, 6 * MSEC);
	assert_non_null(sim->host[B].conn.rcv.ooo);
	move_both(sim);
	assert_non_null(sim->host[B].conn.rcv.ooo);
	sim_run(sim, 5 * SEC);
	assert_int_equal(sim_drain(sim, B), 10000);
	/* The first segment is sent again, and little more. */
	assert_true(sim->host[A].conn.retransmits <= 8);
	sim_end(sim);
}

static void test_a_closed_window_opens_after_the_move(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;
	uint64_t got = 0;

	params.config[B].rcvbuf = 4096;
	sim = sim_create(&params);
	sim_establish(sim);
	while (sim_send(sim, A, 8000, 0) > 0)
		sim_run(sim, 100 * MSEC);
	sim_run(sim, 3 * SEC);
	move_both(sim);
	for (int i = 0; i < 100 && got < sim->host[A].sent; i++) {
		got += sim_drain(sim, B);
		move_both(sim);
		sim_run(sim, SEC);
	}
	assert_int_equal(got, sim->host[A].sent);
	sim_end(sim);
}

/* ---- other bytes --------------------------------------------------------------------------- */

static unsigned buffers, packets;
static bool closed;

static void *counted_alloc(size_t size)
{
	buffers++;
	return malloc(size);
}

static void counted_free(void *p)
{
	buffers--;
	free(p);
}

static void note_closed(struct tcp_conn *c, int error)
{
	closed = true;
}

static void ignore(struct tcp_conn *c)
{
}

static int swallow(struct tcp_conn *c, const struct tcp_segment *seg)
{
	volatile uint8_t sum = 0;

	for (int part = 0; part < 2; part++) {
		for (uint32_t i = 0; i < seg->part[part].len; i++)
			sum = (uint8_t)(sum + seg->part[part].data[i]);
	}
	return 0;
}

static void ignore_event(struct tcp_conn *conn, enum tcp_event event, uint32_t argument)
{
}

static const struct tcp_ops dumb_ops = {
	.alloc = counted_alloc,
	.closed = note_closed,
	.established = ignore,
	.event = ignore_event,
	.free = counted_free,
	.readable = ignore,
	.send = swallow,
	.send_train = tcp_send_train,
	.urgent = ignore,
	.writable = ignore,
};

static void put(struct pkt_pool *pool, struct pkt *pkt)
{
	packets--;
	free(pkt);
}

static struct pkt_pool pool = {.put = put};

static struct pkt *make(uint32_t room)
{
	struct pkt *pkt = calloc(1, sizeof(*pkt) + room);

	packets++;
	pkt->pool = &pool;
	pkt->frame = (uint8_t *)(pkt + 1);
	pkt->room = room;
	return pkt;
}

/* A connection with data in both queues, out of order, and in flight. */
static uint8_t *interesting(size_t *size)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	uint8_t *bytes;

	sim_establish(sim);
	sim_send(sim, A, 3000, 0);
	sim_run(sim, SEC);
	sim->filter = lose_first_data;
	sim_send(sim, A, 6000, TCP_SEND_OOB);
	sim_run(sim, 6 * MSEC);
	sim_send(sim, B, 5000, 0);
	*size = tcp_snapshot_size(&sim->host[B].conn);
	bytes = malloc(*size);
	tcp_snapshot_write(&sim->host[B].conn, bytes, sim->now);
	sim->filter = NULL;
	sim_run(sim, 5 * SEC);
	sim_drain(sim, A);
	sim_drain(sim, B);
	sim_end(sim);
	return bytes;
}

/* Calls and timers, as from a program. */
static void live(struct tcp_conn *c, nsec_t now)
{
	static char data[3000];
	struct iovec iov = {data, sizeof(data)};

	closed = false;
	tcp_flush(c, now);
	tcp_send(c, &iov, 1, 0, now);
	for (int i = 0; i < 20; i++) {
		nsec_t at = tcp_deadline(c);

		tcp_recv(c, &iov, 1, i == 0, now);
		if (at == NSEC_NEVER || c->state == TCP_CLOSED)
			break;
		now = at > now ? at : now;
		tcp_timer(c, now);
		tcp_flush(c, now);
	}
	tcp_abort(c, 0, now);
	tcp_abort(c, 0, now);
}

static void test_other_bytes_are_refused_or_do_no_harm(void **state)
{
	size_t size;
	uint8_t *good = interesting(&size), *bytes = malloc(size);
	uint64_t random = 1;
	unsigned taken = 0;
	struct tcp_conn c;

	for (size_t len = 0; len < size; len += len < 1500 ? 1 : 97) {
		uint8_t *cut = malloc(len + !len); /* exact size, so that ASan detects an overrun */

		memcpy(cut, good, len);
		assert_int_equal(tcp_snapshot_read(&c, &dumb_ops, cut, len, make, SEC), -EINVAL);
		free(cut);
	}
	for (int i = 0; i < 30000; i++) {
		memcpy(bytes, good, size);
		for (uint64_t n = 1 + (random >> 60) % 3; n; n--) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			bytes[(random >> 33) % (random & 1 ? 1100 : size)] =
				(uint8_t)(random & 2 ? random >> 20 : 255);
		}
		if (tcp_snapshot_read(&c, &dumb_ops, bytes, size, make, SEC) == 0) {
			taken++;
			live(&c, SEC);
		}
		assert_int_equal(buffers, 0);
		assert_int_equal(packets, 0);
	}
	assert_true(taken > 1000 && taken < 30000);
	free(bytes);
	free(good);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_continues_in_every_state),
	cmocka_unit_test(test_early_and_lost_data_moves_with_it),
	cmocka_unit_test(test_a_closed_window_opens_after_the_move),
	cmocka_unit_test(test_other_bytes_are_refused_or_do_no_harm),
};

VMA_TEST_MAIN("snapshot", tests, NULL, NULL)
