/* SPDX-License-Identifier: BSD-2-Clause */
/* A receiver of local datagrams for which the kernel has some, too: the order, and that none starves. */
#include "base/param.h"
#include "ring/local/record_quick.h"

#include "receiver_fixture.h"

#define RATIO 100

static int plain = -1; /* a socket of a program without the library */

static int begin_both(void **state)
{
	params.rx_udp_poll_os_ratio = RATIO;
	begin(state);
	plain = socket(AF_INET, SOCK_DGRAM, 0);
	assert_true(plain >= 0);
	open_writer();
	return 0;
}

static int finish_both(void **state)
{
	close(plain);
	return finish(state);
}

static void by_kernel(const char *text)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr.s_addr = HERE, .sin_port = so->local.port};

	assert_int_equal(sendto(plain, text, strlen(text), 0, (struct sockaddr *)&to, sizeof(to)),
			 strlen(text));
}

/* No notice: the receiver finds it when it looks. */
static void by_ring(const char *text)
{
	struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};
	struct record_header h = header();

	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, strlen(text)), 0);
}

static ssize_t receive(char *buf, size_t len, int flags)
{
	struct iovec iov = {buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return local_udp_ops[ring_mode_now()].recv(sock_ref_of(so), &msg, flags | MSG_DONTWAIT);
}

/* As a thread stores that has looked at the twin: it holds no ring. */
static void twin_is_empty(void)
{
	__atomic_store_n(&so->sk.twin_events, 0, __ATOMIC_RELAXED);
}

static ssize_t left(int fd, void *buf, size_t len, int flags)
{
	return receive(buf, len, flags);
}

static void expect_by(int flags, const char *text)
{
	char buf[100] = "";
	ssize_t n = receive(buf, sizeof(buf) - 1, flags);

	assert_int_equal(n, strlen(text));
	assert_string_equal(buf, text);
}

static void expect(const char *text)
{
	expect_by(0, text);
}

/* Receives until it gets the kernel's; there is always more in the ring.  How many that took. */
static unsigned receives_until(bool quick, unsigned most)
{
	const struct sock_ops *calls = &local_udp_ops[ring_mode_now()];
	unsigned n = 0;
	char byte = 0;

	sock_hooks.recv = left;
	by_ring("r");
	by_kernel("k");
	while (byte != 'k' && n < most) {
		by_ring("r");
		if (quick)
			assert_int_equal(calls->quick_recv(7, &byte, 1, 0, sock_ref_of(so)), 1);
		else
			assert_int_equal(receive(&byte, 1, 0), 1);
		n++;
	}
	return n;
}

static void test_the_kernels_waits_for_so_many_receives_at_most(void **state)
{
	assert_in_range(receives_until(false, 2 * RATIO), 1, RATIO + 3);
}

static void test_quick_receives_do_not_pass_it_by(void **state)
{
	assert_in_range(receives_until(true, 4 * RECORD_STRIDE), 2, RECORD_STRIDE + 4);
}

static void test_the_quick_way_goes_on_after_it(void **state)
{
	const struct sock_ops *calls = &local_udp_ops[ring_mode_now()];
	char byte = 0;

	(void)receives_until(true, 4 * RECORD_STRIDE);
	while (receive(&byte, 1, 0) == 1)
		;
	sock_hooks.recv = NULL; /* it would be called */
	for (unsigned i = 0; i < RECORD_STRIDE / 2; i++) {
		by_ring("q");
		assert_int_equal(calls->quick_recv(7, &byte, 1, 0, sock_ref_of(so)), 1);
		assert_int_equal(byte, 'q');
	}
}

static void test_it_is_not_asked_if_the_program_says_so(void **state)
{
	params.rx_udp_poll_os_ratio = 0;
	assert_int_equal(receives_until(false, 3 * RATIO), 3 * RATIO);
}

static void test_what_was_there_first_is_read_first(void **state)
{
	by_ring("1");
	by_ring("2");
	by_kernel("3");
	sock_look_at_twin(&so->sk);
	expect("1");
	by_ring("4"); /* after the twin was seen */
	expect("2");
	expect("3");
	expect("4");
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
}

/* Also what became a datagram of the queue before. */
static void test_the_queue_is_read_first(void **state)
{
	assert_int_equal(write_one(header(), 'a'), 1);
	assert_int_equal(write_one(header(), 'b'), 2);
	by_ring("c");
	by_kernel("d");
	sock_look_at_twin(&so->sk);
	expect("a");
	assert_int_equal(write_one(header(), 'e'), 2); /* "e" stays in the ring */
	expect("b");
	expect("c");
	expect("d");
	expect("e");
}

static void test_several_of_the_kernel(void **state)
{
	by_kernel("1");
	by_kernel("2");
	by_kernel("3");
	sock_look_at_twin(&so->sk);
	by_ring("r");
	expect("r");
	expect("1");
	by_ring("s");
	expect("s");
	expect("2");
	expect("3");
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
}

static void test_a_look_at_the_next_takes_nothing(void **state)
{
	by_ring("1");
	by_kernel("2");
	sock_look_at_twin(&so->sk);
	expect_by(MSG_PEEK, "1");
	by_ring("3");
	expect("1");
	expect_by(MSG_PEEK, "2");
	expect_by(MSG_PEEK, "2");
	expect("2");
	expect("3");
}

/* As if another thread, or another holder of the file, had read it. */
static void test_what_the_kernel_has_no_more_stops_nothing(void **state)
{
	char byte;

	by_ring("1");
	by_kernel("2");
	sock_look_at_twin(&so->sk);
	expect("1");
	assert_int_equal(recv(sock_twin(&so->sk), &byte, 1, MSG_DONTWAIT), 1);
	by_ring("3");
	expect("3");
	/* And by a notice, where no receive helps. */
	by_ring("4");
	by_kernel("5");
	sock_look_at_twin(&so->sk);
	expect("4");
	assert_int_equal(recv(sock_twin(&so->sk), &byte, 1, MSG_DONTWAIT), 1);
	twin_is_empty();
	assert_int_equal(write_one(header(), 'x'), 1);
	expect("x");
}

static void test_a_receiver_that_stops_while_the_kernels_waits(void **state)
{
	by_ring("1");
	by_kernel("3");
	sock_look_at_twin(&so->sk);
	expect("1");
	by_ring("2"); /* the sender of the third may be another one */
	assert_true(control_lock());
	local_receive_stop(so);
	control_unlock();
	assert_int_equal(so->udp.count, 1);
	expect("2");
	expect("3");
}

/* ---- senders that change from the kernel to the ring ------------------------------------------- */

static void by_mark(void)
{
	struct record_header h = header();

	assert_int_equal(record_ring_mark(&writer, &h), 0);
}

static void test_a_mark_waits_for_what_the_kernel_has(void **state)
{
	by_ring("1");
	by_kernel("2");
	by_kernel("3");
	by_kernel("4");
	by_mark();
	by_ring("5");
	expect("1"); /* nobody has looked at the twin so far */
	expect("2");
	expect("3");
	expect_by(MSG_PEEK, "4");
	expect("4");
	expect("5");
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
}

/* Also where a notice makes datagrams of the records. */
static void test_a_notice_does_not_pass_a_mark(void **state)
{
	assert_int_equal(write_one(header(), '1'), 1);
	by_kernel("2");
	by_kernel("3");
	by_mark();
	assert_int_equal(write_one(header(), '4'), 1);
	expect("1");
	expect("2");
	assert_int_equal(write_one(header(), '5'), 0);
	expect("3");
	expect("4");
	expect("5");
}

static void test_quick_receives_do_not_pass_a_mark(void **state)
{
	const struct sock_ops *calls = &local_udp_ops[ring_mode_now()];
	const char order[] = "1234";
	char byte;

	sock_hooks.recv = left;
	by_ring("1");
	by_kernel("2");
	by_kernel("3");
	by_mark();
	by_ring("4");
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(calls->quick_recv(7, &byte, 1, 0, sock_ref_of(so)), 1);
		assert_int_equal(byte, order[i]);
	}
}

/* A thread that looked or read before the datagrams came stores, or says so, after the mark was read. */
static void test_who_saw_nothing_before_a_mark_ends_no_wait(void **state)
{
	struct ring *ring;

	by_ring("1");
	by_kernel("2");
	by_kernel("3");
	by_mark();
	assert_int_equal(write_one(header(), '4'), 1);
	twin_is_empty();
	expect("1");
	twin_is_empty();
	expect("2");
	twin_is_empty();
	ring = sock_home(so);
	assert_true(ring_hold_cold(ring));
	assert_int_equal(local_turn(so, LOCAL_TURN_NOTHING), LOCAL_TURN_TWIN);
	ring_release_cold(ring);
	expect("3");
	expect("4");
}

static void test_marks_with_nothing_to_wait_for(void **state)
{
	for (int i = 0; i < 100; i++)
		by_mark();
	by_ring("1");
	by_mark();
	by_ring("2");
	expect("1");
	expect("2");
	by_kernel("3");
	expect("3");
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
}

/* What others send by the kernel meanwhile does not keep the ring from its turn. */
static void test_a_mark_does_not_wait_for_ever(void **state)
{
	unsigned n = 0;
	char byte = 0;

	by_kernel("k");
	by_mark();
	by_ring("r");
	while (byte != 'r' && n++ < 1000) {
		by_kernel("k");
		assert_int_equal(receive(&byte, 1, 0), 1);
	}
	assert_in_range(n, 2, 30);
}

static void test_a_receiver_that_stops_while_a_mark_waits(void **state)
{
	by_ring("1");
	by_kernel("2");
	by_kernel("3");
	by_mark();
	by_ring("4");
	expect("1");
	expect("2");
	by_ring("5");
	assert_true(control_lock());
	local_receive_stop(so);
	control_unlock();
	expect("3");
	expect("4");
	expect("5");
}

static void test_a_receiver_that_stops_before_it_reads_a_mark(void **state)
{
	by_ring("1");
	by_kernel("2");
	by_kernel("3");
	by_mark();
	by_ring("4");
	assert_true(control_lock());
	local_receive_stop(so);
	control_unlock();
	expect("1");
	expect("2");
	expect("3");
	expect("4");
}

static void test_what_was_sent_to_this_host_has_arrived(void **state)
{
	char byte;

	assert_true(control_lock());
	for (int i = 0; i < 100; i++) {
		by_kernel("1");
		assert_true(local_have_arrived(clock_now()));
		assert_int_equal(recv(sock_twin(&so->sk), &byte, 1, MSG_DONTWAIT), 1);
	}
	control_unlock();
}

static void test_a_twin_that_is_shut_has_its_turn_once(void **state)
{
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	by_ring("1");
	by_kernel("2");
	assert_int_equal(udp_shutdown(sock_ref_of(so), SHUT_RD), -ENOTCONN);
	expect("1");
	expect("2");
	assert_int_equal(receive(&byte, 1, 0), -EAGAIN);
	assert_int_equal(local_udp_ops[ring_mode_now()].recv(sock_ref_of(so), &msg, 0), 0);
}

/* ---- datagrams of other hosts come, too ------------------------------------------------------ */

static void by_wire(char byte)
{
	struct pkt *pkt = pkt_blank(1);
	struct ring *ring;

	assert_non_null(pkt);
	pkt->frame[0] = (uint8_t)byte;
	pkt->frame_len = pkt->len = 1;
	assert_int_equal(sock_hold_cold(sock_ref_of(so), &ring), 0);
	assert_int_equal(udp_input(so, ring, pkt, false), DROP_NONE);
	ring_release_cold(ring);
}

/* Nothing came by local senders for so long. */
static void hear_others(unsigned n)
{
	while (n--) {
		by_wire('w');
		expect("w");
	}
}

static bool has_quick_calls(void)
{
	return sock_ops_of(&so->sk) == &local_udp_ops[ring_mode_now()];
}

static void test_what_others_send_hides_no_local_datagram(void **state)
{
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
	hear_others(RATIO / 2);
	assert_true(local_is_quiet(&so->udp.local->quiet));
	by_wire('v');
	by_ring("r");
	expect("v");
	expect("r");
	hear_others(3 * RATIO);
	by_ring("s");
	expect("s");
}

static void test_what_others_send_hides_not_what_the_kernel_has(void **state)
{
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
	hear_others(RATIO / 2);
	by_kernel("k");
	sock_look_at_twin(&so->sk);
	by_wire('1');
	expect("1");
	by_wire('2');
	expect("k");
	expect("2");
	hear_others(RATIO / 2);
	by_kernel("k"); /* nobody looks */
	for (char byte = 'w', n = 0; byte == 'w'; n++) {
		assert_in_range(n, 0, RATIO + 3);
		by_wire('w');
		assert_int_equal(receive(&byte, 1, 0), 1);
	}
}

/* Quick receives would be in vain. */
static void test_a_socket_that_hears_others_has_no_quick_receives(void **state)
{
	assert_true(has_quick_calls());
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
	hear_others(2 * RATIO);
	assert_ptr_equal(sock_ops_of(&so->sk), &local_udp_ops[HOLD_MODES + ring_mode_now()]);
	assert_null(sock_ops_of(&so->sk)->quick_recv);
	by_ring("r");
	expect("r");
	assert_true(has_quick_calls());
	hear_others(10);
	assert_true(has_quick_calls());
}

/* Nothing comes at all. */
static void test_a_socket_that_waits_keeps_its_quick_receives(void **state)
{
	for (unsigned i = 0; i < 3 * RATIO; i++)
		assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
	assert_true(has_quick_calls());
}

/* Its ring is not there any more: nothing looks at it. */
static void test_a_receiver_that_stops_hears_others(void **state)
{
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
	assert_true(local_is_quiet(&so->udp.local->quiet));
	assert_true(control_lock());
	local_receive_stop(so);
	control_unlock();
	hear_others(2 * RATIO);
	assert_int_equal(receive((char[1]){0}, 1, 0), -EAGAIN);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_both, finish_both)

static const struct CMUnitTest tests[] = {
	TEST(test_the_kernels_waits_for_so_many_receives_at_most),
	TEST(test_quick_receives_do_not_pass_it_by),
	TEST(test_the_quick_way_goes_on_after_it),
	TEST(test_it_is_not_asked_if_the_program_says_so),
	TEST(test_what_was_there_first_is_read_first),
	TEST(test_the_queue_is_read_first),
	TEST(test_several_of_the_kernel),
	TEST(test_a_look_at_the_next_takes_nothing),
	TEST(test_what_the_kernel_has_no_more_stops_nothing),
	TEST(test_a_receiver_that_stops_while_the_kernels_waits),
	TEST(test_a_twin_that_is_shut_has_its_turn_once),
	TEST(test_a_mark_waits_for_what_the_kernel_has),
	TEST(test_a_notice_does_not_pass_a_mark),
	TEST(test_quick_receives_do_not_pass_a_mark),
	TEST(test_who_saw_nothing_before_a_mark_ends_no_wait),
	TEST(test_marks_with_nothing_to_wait_for),
	TEST(test_a_mark_does_not_wait_for_ever),
	TEST(test_a_receiver_that_stops_while_a_mark_waits),
	TEST(test_a_receiver_that_stops_before_it_reads_a_mark),
	TEST(test_what_was_sent_to_this_host_has_arrived),
	TEST(test_what_others_send_hides_no_local_datagram),
	TEST(test_what_others_send_hides_not_what_the_kernel_has),
	TEST(test_a_socket_that_hears_others_has_no_quick_receives),
	TEST(test_a_socket_that_waits_keeps_its_quick_receives),
	TEST(test_a_receiver_that_stops_hears_others),
};

VMA_TEST_MAIN("local_turn", tests, setup, teardown)
