/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moves, one at a time, each with an event in its middle: nothing is lost, repeated or out of
 * order, and every started move ends.
 */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include <string.h>

#include "base/delay.h"

/* Runs a case in a separate process. */
static void run(const char *name, void (*fn)(void *arg), void *arg)
{
	assert_int_equal(loop_net_run(name, fn, arg, 30), 0);
}

static enum duo_kind kind_of(const void *arg)
{
	return *(const enum duo_kind *)arg;
}

static void run_kinds(const char *name, void (*fn)(void *arg))
{
	static const char *const names[] = {"TCP", "UDP", "UDP unconnected"};
	char text[80];

	for (enum duo_kind kind = 0; kind < DUO_KINDS; kind++) {
		snprintf(text, sizeof(text), "%s, %s", name, names[kind]);
		run(text, fn, &kind);
	}
}

/* ---- frames on their way ------------------------------------------------------------------ */

static void back_and_forth(void *arg)
{
	struct tsock listener;
	struct duo duo;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, kind_of(arg), &listener);
	for (unsigned i = 0; i < 20; i++) {
		duo_send(&duo, 0, 3); /* in the queue of the socket, or in that of its ring */
		duo_send(&duo, 1, 3);
		duo_move(&duo.end[i % 2], 1 + i % 3);
		duo_drain(&duo, 0);
		duo_drain(&duo, 1);
		duo_talk(&duo, 5);
	}
	duo_expect_moves(duo_moves().finished, duo_moves().finished, 0);
	NET_CHECK(duo_moves().finished >= 14); /* a move to the present home is none */
	duo_close(&duo);
	duo_end(&listener);
}

static void test_queued_datagrams_move_with_the_socket(void **state)
{
	run_kinds("back and forth", back_and_forth);
}

/* Older frames are in the old queue, newer ones arrive at the new ring, until the end. */
static void parked(void *arg)
{
	struct tsock listener;
	struct duo duo;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, kind_of(arg), &listener);
	duo_send(&duo, 0, 10);
	duo_begin_move(&duo.end[1], 1);
	duo_send(&duo, 0, 10);
	duo_send(&duo, 1, 10); /* it sends as before the move */
	duo_drain(&duo, 1);
	NET_CHECK(duo_home(&duo.end[1]) != duo_key(1));
	loop_port_gate(false);
	duo_send(&duo, 0, 10);
	duo_drain(&duo, 0);
	NET_CHECK(duo_arrives(&duo.end[1], 1));
	duo_talk(&duo, 10);
	duo_expect_moves(1, 1, 0);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_what_comes_meanwhile_waits_for_its_turn(void **state)
{
	run_kinds("parked", parked);
}

/* ---- another move in the middle -------------------------------------------------------------- */

static void second_move(void *arg)
{
	struct tsock listener;
	struct duo duo;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, kind_of(arg), &listener);
	duo_move(&duo.end[1], 1);
	duo_send(&duo, 0, 5);
	duo_begin_move(&duo.end[1], 2);
	duo_send(&duo, 0, 5);
	duo_ask(&duo.end[1], 3);
	duo_ask(&duo.end[1], 1); /* the ring that is still its home */
	duo_ask(&duo.end[1], 4);
	duo_send(&duo, 0, 5);
	loop_port_gate(false);
	NET_CHECK(duo_arrives(&duo.end[1], 4));
	duo_drain(&duo, 0);
	duo_talk(&duo, 5);
	loop_net_settle();
	NET_CHECK_EQ(duo_home(&duo.end[1]), duo_key(4));
	NET_CHECK_EQ(duo_moves().abandoned, 0);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_a_second_move_waits_for_the_first(void **state)
{
	run_kinds("a second move", second_move);
}

/* ---- closed in the middle --------------------------------------------------------------------- */

/* The peer receives what was sent before, and then the end. */
static void close_in_order(void *arg)
{
	struct tsock listener;
	struct duo duo;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, DUO_TCP, &listener);
	NET_CHECK_EQ(duo_set_nodelay(&duo.end[0], *(const bool *)arg), 0);
	duo_send(&duo, 0, 100);
	duo_begin_move(&duo.end[0], 1);
	duo_send(&duo, 0, 100);
	tsock_close(&duo.end[0]);
	duo.end[0] = duo.end[1]; /* drain() also polls the ring of the sender */
	duo_take(&duo, 0);
	loop_port_gate(false);
	duo_drain(&duo, 0);
	duo.end[0] = TSOCK_NONE;
	NET_CHECK(NET_WAIT(duo_take(&duo, 0) == 0 && duo.ended[0], NET_PATIENCE));
	duo_close(&duo);
	duo_expect_moves(1, 1, 0);
	duo_end(&listener);
}

static void test_a_connection_closed_during_its_move_sends_everything(void **state)
{
	bool nodelay[] = {false, true};

	for (unsigned i = 0; i < 2; i++)
		run("closed on its way", close_in_order, &nodelay[i]);
}

static void close_at_once(void *arg)
{
	struct tsock listener;
	struct duo duo;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, kind_of(arg), &listener);
	duo_send(&duo, 0, 10);
	duo_begin_move(&duo.end[1], 1);
	duo_send(&duo, 0, 10); /* parked, for a socket that has ended */
	if (duo.kind == DUO_TCP)
		tsock_linger_none(&duo.end[1]);
	tsock_close(&duo.end[1]);
	loop_port_gate(false);
	loop_net_settle();
	NET_CHECK_EQ(duo_moves().started, 1);
	NET_CHECK_EQ(duo_moves().finished, 0);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_what_was_parked_for_a_closed_socket_is_freed(void **state)
{
	run_kinds("closed with frames parked", close_at_once);
}

/* ---- cancelled in the middle ---------------------------------------------------------------------- */

static void *blocked(void *arg)
{
	struct tsock *ts = arg;
	char buf[DUO_MESSAGE];

	tsock_recv(ts, buf, sizeof(buf), 0);
	NET_CHECK(!"it is cancelled");
	return NULL;
}

/* A thread that waits on a moving socket is cancelled: the other threads continue. */
static void cancelled(void *arg)
{
	struct tsock listener;
	pthread_t thread;
	struct duo duo;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, kind_of(arg), &listener);
	tsock_block(&duo.end[1], true);
	params.rx_poll = 1; /* asleep, because only there it can be cancelled */
	duo_begin_move(&duo.end[1], 1);
	NET_CHECK_EQ(pthread_create(&thread, NULL, blocked, &duo.end[1]), 0);
	NET_CHECK(NET_WAIT(__atomic_load_n(&duo.end[1].ref.sk->waiters, __ATOMIC_SEQ_CST),
			   NET_PATIENCE));
	duo_send(&duo, 0, 10);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	NET_CHECK_EQ(__atomic_load_n(&duo.end[1].ref.sk->waiters, __ATOMIC_SEQ_CST), 0);
	loop_port_gate(false);
	duo_drain(&duo, 0);
	NET_CHECK(duo_arrives(&duo.end[1], 1));
	duo_talk(&duo, 5);
	duo_expect_moves(1, 1, 0);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_a_thread_is_cancelled_while_its_socket_moves(void **state)
{
	run_kinds("cancelled", cancelled);
}

/* A thread that sleeps on the descriptors of the old ring is woken by a frame at the new ring. */
static void *wait_for_one(void *arg)
{
	struct tsock *ts = arg;
	char buf[DUO_MESSAGE];

	NET_CHECK(tsock_recv(ts, buf, sizeof(buf), 0) > 0);
	return NULL;
}

static void sleeping(void *arg)
{
	struct tsock listener;
	pthread_t thread;
	struct duo duo;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, kind_of(arg), &listener);
	tsock_block(&duo.end[1], true);
	params.rx_poll = 1;
	NET_CHECK_EQ(pthread_create(&thread, NULL, wait_for_one, &duo.end[1]), 0);
	NET_CHECK(NET_WAIT(__atomic_load_n(&duo.end[1].ref.sk->waiters, __ATOMIC_SEQ_CST),
			   NET_PATIENCE));
	duo_move(&duo.end[1], 1);
	duo_send(&duo, 0, 1);
	pthread_join(thread, NULL);
	duo.got[0] = duo.sent[0]; /* received by the thread */
	duo_talk(&duo, 5);
	duo_expect_moves(1, 1, 0);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_a_sleeping_thread_finds_the_new_ring(void **state)
{
	run_kinds("asleep", sleeping);
}

/* ---- that cannot be made ---------------------------------------------------------------------- */

static void refused(void *arg)
{
	struct tsock listener;
	struct duo duo;
	uint64_t home;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, kind_of(arg), &listener);
	home = duo_home(&duo.end[1]);
	loop_port_fail_moves(1);
	duo_send(&duo, 0, 5);
	duo_ask(&duo.end[1], 1);
	NET_CHECK(NET_WAIT(duo_moves().finished + duo_moves().abandoned, NET_PATIENCE));
	loop_net_settle();
	/* Datagrams are forwarded from the ring where they arrive. */
	if (duo.kind == DUO_TCP) {
		NET_CHECK_EQ(duo_moves().abandoned, 1);
		NET_CHECK_EQ(duo_home(&duo.end[1]), home);
	}
	duo_drain(&duo, 0);
	duo_talk(&duo, 10);
	duo_move(&duo.end[1], 2);
	duo_talk(&duo, 10);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_a_flow_that_cannot_be_steered_stays(void **state)
{
	run_kinds("refused", refused);
}

/* A program uses the socket from another thread, until it has moved. */
static void *use(void *arg)
{
	static const struct ring_alloc alloc = {.logic = RING_LOGIC_THREAD};
	struct duo *duo = arg;
	uint64_t own = ring_key(&alloc, NULL, 0);
	nsec_t until = clock_now() + NET_PATIENCE * NSEC_PER_MSEC * NET_SLOW;

	while (duo_home(&duo->end[1]) != own) {
		NET_CHECK(clock_now() < until);
		duo_talk(duo, 3);
	}
	duo_talk(duo, 3);
	return NULL;
}

static void begin_by_thread(struct duo *duo, enum duo_kind kind, struct tsock *listener)
{
	duo_params(HOLD_SPIN);
	params.ring_logic_rx = params.ring_logic_tx = RING_LOGIC_THREAD;
	loop_net_start();
	*listener = duo_listener(7000);
	duo_open(duo, kind, listener);
}

static void tried_again(void *arg)
{
	struct tsock listener;
	pthread_t thread;
	struct duo duo;

	begin_by_thread(&duo, DUO_TCP, &listener);
	loop_port_fail_moves(*(const int *)arg);
	NET_CHECK_EQ(pthread_create(&thread, NULL, use, &duo), 0);
	pthread_join(thread, NULL);
	loop_net_settle();
	NET_CHECK(duo_moves().finished >= 1);
	NET_CHECK_EQ(duo_moves().abandoned, *(const int *)arg);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_a_move_that_failed_is_tried_again(void **state)
{
	int failures[] = {1, 5};

	for (unsigned i = 0; i < 2; i++)
		run("tried again", tried_again, &failures[i]);
}

static void *use_without_result(void *arg)
{
	struct duo *duo = arg;
	uint64_t home = duo_home(&duo->end[1]);
	nsec_t until = clock_now() + NET_PATIENCE * NSEC_PER_MSEC * NET_SLOW;

	/* Checked again once a second. */
	while (duo_moves().abandoned < 3) {
		NET_CHECK(clock_now() < until);
		duo_talk(duo, 3);
		NET_CHECK_EQ(duo_home(&duo->end[1]), home);
	}
	return NULL;
}

static void no_ring(void *arg)
{
	struct tsock listener;
	pthread_t thread;
	struct duo duo;

	begin_by_thread(&duo, kind_of(arg), &listener);
	loop_port_fail_opens(1);
	params.log_level = LOG_ERROR; /* the library warns once */
	NET_CHECK_EQ(pthread_create(&thread, NULL, use_without_result, &duo), 0);
	pthread_join(thread, NULL);
	loop_net_settle();
	NET_CHECK_EQ(duo_moves().finished, 0);
	duo_talk(&duo, 3);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_without_another_ring_all_goes_on(void **state)
{
	run_kinds("no ring", no_ring);
}

/* ---- sending by another ring --------------------------------------------------------------------- */

static void send_elsewhere(void *arg)
{
	struct tsock listener;
	struct duo duo;
	uint64_t home;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, kind_of(arg), &listener);
	home = duo_home(&duo.end[0]);
	for (unsigned i = 0; i < 20; i++) {
		duo_send(&duo, 0, 5);
		NET_CHECK_EQ(tsock_set_logic(&duo.end[0], RING_LOGIC_USER_ID, 1 + i % 4, false,
					     true),
			     0);
		duo_send(&duo, 0, 5);
		NET_CHECK(NET_WAIT(__atomic_load_n(&sock_moves_tx.finished, __ATOMIC_RELAXED) ==
					   i + 1,
				   NET_PATIENCE));
		duo_send(&duo, 0, 5);
		duo_drain(&duo, 0);
		NET_CHECK_EQ(duo_home(&duo.end[0]), home);
	}
	duo_expect_moves(0, 0, 0);
	NET_CHECK_EQ(__atomic_load_n(&sock_moves_tx.finished, __ATOMIC_RELAXED), 20);
	NET_CHECK_EQ(__atomic_load_n(&sock_moves_tx.started, __ATOMIC_RELAXED), 20);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_sending_moves_alone(void **state)
{
	run_kinds("sending", send_elsewhere);
}

/* ---- what may come in between, at one point ---------------------------------------------------------- */

#ifdef VMA_TEST_DELAYS

static struct {
	struct tsock *ts;
	struct ring *from;
	int arriving, seen; /* any, atomic */
} meeting;

/* LEAVE has posted ARRIVE, and waits until a thread has run it on the new ring. */
static void meet(enum delay_point at)
{
	struct ring *from = meeting.from;
	uint64_t before;

	if (at == DELAY_MOVE_ARRIVE)
		__atomic_store_n(&meeting.arriving, 1, __ATOMIC_SEQ_CST);
	if (at != DELAY_MOVE_POSTED)
		return;
	before = from->stats.tx_frames;
	NET_CHECK(NET_WAIT(__atomic_load_n(&meeting.arriving, __ATOMIC_SEQ_CST) &&
				   tsock_home(meeting.ts) != from,
			   NET_PATIENCE));
	usleep(20000); /* the internal thread delivers, and answers */
	NET_CHECK_EQ(from->stats.tx_frames, before);
	__atomic_store_n(&meeting.seen, 1, __ATOMIC_SEQ_CST);
}

static void arrive_first(void *arg)
{
	struct tsock listener, other;
	struct duo duo, guide;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, DUO_TCP, &listener);
	duo_open(&guide, DUO_UDP, NULL);
	duo_move(&guide.end[1], 1);
	other = guide.end[1]; /* the home of this socket is the target of the other one */
	meeting.ts = &duo.end[1];
	meeting.from = tsock_home(&duo.end[1]);
	duo_begin_move(&duo.end[1], 1);
	duo_send(&duo, 0, 10); /* parked: acknowledged on arrival */
	delay_set_hook(meet);
	loop_port_gate(false);
	while (!__atomic_load_n(&meeting.arriving, __ATOMIC_SEQ_CST))
		sock_poll_ring(tsock_home(&other));
	duo_drain(&duo, 0);
	loop_net_settle();
	delay_set_hook(NULL);
	NET_CHECK(__atomic_load_n(&meeting.seen, __ATOMIC_SEQ_CST));
	NET_CHECK_EQ(duo_home(&duo.end[1]), duo_key(1));
	duo_talk(&duo, 10);
	duo_close(&guide);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_arrive_runs_before_leave_has_released(void **state)
{
	run("ARRIVE first", arrive_first, NULL);
}

#endif

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_queued_datagrams_move_with_the_socket),
	cmocka_unit_test(test_what_comes_meanwhile_waits_for_its_turn),
	cmocka_unit_test(test_a_second_move_waits_for_the_first),
	cmocka_unit_test(test_a_connection_closed_during_its_move_sends_everything),
	cmocka_unit_test(test_what_was_parked_for_a_closed_socket_is_freed),
	cmocka_unit_test(test_a_thread_is_cancelled_while_its_socket_moves),
	cmocka_unit_test(test_a_sleeping_thread_finds_the_new_ring),
	cmocka_unit_test(test_a_flow_that_cannot_be_steered_stays),
	cmocka_unit_test(test_a_move_that_failed_is_tried_again),
	cmocka_unit_test(test_without_another_ring_all_goes_on),
	cmocka_unit_test(test_sending_moves_alone),
#ifdef VMA_TEST_DELAYS
	cmocka_unit_test(test_arrive_runs_before_leave_has_released),
#endif
};

VMA_TEST_MAIN("move", tests, enter, NULL)
