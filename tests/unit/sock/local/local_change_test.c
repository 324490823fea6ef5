/* SPDX-License-Identifier: BSD-2-Clause */
/* A sender whose destination the kernel serves until a receiver is there; it is the receiver's socket. */
#include "receiver_fixture.h"

#include <pthread.h>
#include <sys/resource.h>

static struct local_target target;
static struct dst_found found;
static struct endpoint there;
static int plain = -1; /* what the kernel delivers to */

static int begin_change(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = HERE};
	socklen_t len = sizeof(at);

	begin(state);
	open_writer();
	/* It would take the records that has_mark() looks for. */
	progress_stop();
	plain = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(plain, (struct sockaddr *)&at, len), 0);
	assert_int_equal(getsockname(plain, (struct sockaddr *)&at, &len), 0);
	there = (struct endpoint){.addr = addr_v4(HERE), .port = at.sin_port};
	target = (struct local_target){.gen = 7, .writer = writer, .end = end};
	found = (struct dst_found){
		.src = addr_v4(HERE),
		.local = {.target = &target, .gen = 7, .looked = local_dir_generation()}};
	return 0;
}

static int finish_change(void **state)
{
	close(plain);
	assert_int_equal(progress_start(), 0);
	return finish(state);
}

static struct dst the_kernels(nsec_t age, uint32_t looked)
{
	return (struct dst){.verdict = VERDICT_LOOPBACK,
			    .local = {.at = clock_now() - age, .looked = looked}};
}

static int by_kernel(const struct dst *dst)
{
	int rc;

	assert_true(ring_hold_cold(local_ring()));
	rc = local_by_kernel(so, dst);
	ring_release_cold(local_ring());
	return rc;
}

static void by_twin(int phase)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr.s_addr = HERE, .sin_port = there.port};
	char byte = 'k';
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {
		.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &iov, .msg_iovlen = 1};

	assert_int_equal(local_by_twin(sock_ref_of(so), &msg, 0, phase), 1);
	assert_int_equal(recv(plain, &byte, 1, 0), 1);
}

static int change(void)
{
	int rc;

	assert_true(control_lock());
	rc = local_change(so, &there, &found);
	control_unlock();
	return rc;
}

static bool is_kernels(const struct inet_sock *sender, const struct endpoint *to, uint32_t looked)
{
	bool is;

	assert_true(control_lock());
	is = local_is_kernels(sender->udp.local, to, looked);
	control_unlock();
	return is;
}

static void leave_to_kernel(void)
{
	assert_true(control_lock());
	local_note_kernels(so->udp.local, &there, found.local.looked);
	assert_true(local_is_kernels(so->udp.local, &there, found.local.looked));
	control_unlock();
}

/* Is a mark next in the ring? */
static bool has_mark(void)
{
	struct record_ring_reader *r = &so->udp.local->reader;
	bool mark;

	if (record_ring_peek(r))
		return false;
	mark = r->record.is_mark;
	record_ring_consume(r);
	return mark;
}

static void test_the_first_datagram_follows_no_other(void **state)
{
	assert_int_equal(change(), 0);
	assert_false(has_mark());
}

static void test_what_the_kernel_has_got_comes_first(void **state)
{
	leave_to_kernel();
	assert_int_equal(change(), 0);
	assert_true(has_mark());
	assert_false(is_kernels(so, &there, found.local.looked));
	assert_int_equal(change(), 0);
	assert_false(has_mark());
}

static void test_a_change_waits_for_calls_under_way(void **state)
{
	struct dst dst = the_kernels(0, local_dir_generation());
	uint32_t looked = found.local.looked;
	int phase = by_kernel(&dst), next;

	assert_in_range(phase, 0, 1);
	leave_to_kernel();
	assert_int_equal(change(), -EAGAIN);
	assert_false(has_mark());
	assert_int_not_equal(found.local.looked, looked); /* it is tried again */
	/* Also for those that have begun since. */
	next = by_kernel(&dst);
	assert_int_not_equal(next, phase);
	by_twin(phase);
	assert_int_equal(change(), -EAGAIN);
	by_twin(next);
	assert_int_equal(change(), 0);
	assert_true(has_mark());
}

static void test_another_destination_of_the_socket_keeps_nobody_waiting(void **state)
{
	struct dst dst = the_kernels(0, local_dir_generation());
	int phase;

	for (int i = 0; i < 5; i++) {
		phase = by_kernel(&dst);
		by_twin(phase);
		leave_to_kernel();
		assert_int_equal(change(), 0);
		assert_true(has_mark());
		assert_int_not_equal(by_kernel(&dst), phase);
		by_twin(!phase);
	}
}

static void test_a_ring_without_room_leaves_it_to_the_kernel(void **state)
{
	leave_to_kernel();
	record_ring_set_limit(&so->udp.local->reader, 0);
	assert_int_equal(record_ring_writer_open(&target.writer, writer.shared, writer.cells,
						 writer.number),
			 0);
	assert_int_equal(change(), -ENOBUFS);
	target.gen++; /* it has ended */
	assert_int_equal(change(), -ESTALE);
	assert_false(has_mark());
}

/* ---- to a group ---------------------------------------------------------------------------------- */

static int change_group(void)
{
	int rc;

	assert_true(control_lock());
	rc = local_change_group(so, &there, &found, &found.local, 1);
	control_unlock();
	return rc;
}

static bool over; /* any, atomic: the member has read what it had to */

/* Reads all marks, as a member does whose twin has nothing. */
static void *read_marks(void *arg)
{
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		assert_true(ring_hold_cold(local_ring()));
		while (has_mark())
			continue;
		ring_release_cold(local_ring());
	}
	return NULL;
}

static void begin_writing(void)
{
	assert_int_equal(record_ring_writer_open(&target.writer, writer.shared, writer.cells,
						 writer.number),
			 0);
}

static void test_members_of_a_group_have_read_what_the_kernel_had(void **state)
{
	pthread_t thread;
	int rc = -EAGAIN;

	begin_writing();
	leave_to_kernel();
	__atomic_store_n(&over, false, __ATOMIC_RELAXED);
	assert_int_equal(pthread_create(&thread, NULL, read_marks, NULL), 0);
	for (nsec_t until = clock_now() + PATIENCE; rc == -EAGAIN && clock_now() < until;)
		rc = change_group();
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
	assert_false(is_kernels(so, &there, found.local.looked));
	assert_int_equal(change_group(), 0); /* the kernel has got nothing since */
	assert_false(has_mark());
}

/* With RECORD_GROUP they would be datagrams. */
static void test_marks_for_members_are_no_datagrams(void **state)
{
	begin_writing();
	leave_to_kernel();
	found.record.flags = RECORD_GROUP;
	assert_int_equal(change_group(), -EAGAIN);
	assert_int_equal(record_ring_peek(&so->udp.local->reader), 0);
	assert_true(so->udp.local->reader.record.is_mark);
	assert_int_equal(so->udp.local->reader.record.header.flags, 0);
}

static void test_a_member_that_does_not_read_leaves_it_to_the_kernel(void **state)
{
	begin_writing();
	leave_to_kernel();
	for (int i = 0; i < 3; i++)
		assert_int_equal(change_group(), -EAGAIN);
	assert_true(is_kernels(so, &there, found.local.looked));
	/* Two marks, and no more however often it is tried: they would fill the ring. */
	assert_true(has_mark());
	assert_int_equal(change_group(), -EAGAIN); /* it has read one */
	assert_true(has_mark());
	assert_false(has_mark());
	assert_int_equal(change_group(), -EAGAIN); /* two others */
	assert_true(has_mark());
	assert_true(has_mark());
	record_ring_close(&so->udp.local->reader);
	assert_int_equal(change_group(), -EPIPE);
	target.gen++;
	assert_int_equal(change_group(), -ESTALE);
}

static void test_a_change_of_the_directory_is_a_reason_to_look_again(void **state)
{
	struct dst dst = the_kernels(0, local_dir_generation() - 1);

	assert_in_range(by_kernel(&dst), 0,
			1); /* not at once: others may come and go all the time */
	dst.local.at -= NSEC_PER_SEC;
	assert_int_equal(by_kernel(&dst), -ESTALE);
	dst.local.looked = local_dir_generation();
	assert_in_range(by_kernel(&dst), 0, 1);
	dst.local.at = 0; /* nobody looks */
	assert_int_equal(by_kernel(&dst), SOCK_KERNEL);
	dst = the_kernels(NSEC_PER_SEC, local_dir_generation() - 1);
	so->udp.local->kernel_only = true;
	assert_int_equal(by_kernel(&dst), SOCK_KERNEL);
}

/* ---- a datagram to ourselves that does not arrive ------------------------------------------------- */

static bool arrives(nsec_t now)
{
	bool is;

	assert_true(control_lock());
	is = local_have_arrived(now);
	control_unlock();
	return is;
}

/* Without descriptors it cannot be sent. */
static void let_arrive(bool may)
{
	static struct rlimit before;
	struct rlimit none;

	if (!may)
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, may ? &before : &none), 0);
}

/* The pause after so many failures in turn, the last one at *now; a success follows, and is later. */
static nsec_t pause_after(unsigned failures, nsec_t *now)
{
	const nsec_t grain = 100 * NSEC_PER_MSEC;
	nsec_t pause = 0;

	let_arrive(false);
	for (unsigned i = 0; i < failures; i++) {
		assert_false(arrives(*now));
		if (i + 1 < failures)
			*now += 100 * NSEC_PER_SEC;
	}
	let_arrive(true);
	while (!arrives(*now + pause)) {
		pause += grain;
		assert_true(pause < 100 * NSEC_PER_SEC);
	}
	*now += pause;
	return pause;
}

static void test_one_that_was_late_is_no_verdict(void **state)
{
	nsec_t now = clock_now();

	assert_true(arrives(now));
	assert_int_equal(pause_after(1, &now) / NSEC_PER_SEC, 1);
	assert_int_equal(pause_after(2, &now) / NSEC_PER_SEC, 2);
	assert_int_equal(pause_after(3, &now) / NSEC_PER_SEC, 4);
	assert_int_equal(pause_after(12, &now) / NSEC_PER_SEC, 64);
	assert_int_equal(pause_after(1, &now) / NSEC_PER_SEC, 1); /* forgotten */
}

static void test_a_sender_looks_again_when_a_datagram_was_late(void **state)
{
	nsec_t now = clock_now(), next;
	struct dst dst = the_kernels(0, 0);
	uint32_t looked = found.local.looked;

	leave_to_kernel();
	let_arrive(false);
	assert_false(arrives(now));
	let_arrive(true);
	assert_int_equal(change(), -EAGAIN);
	assert_true(control_lock());
	local_leave_to_kernel(so->udp.local, &there, &found);
	control_unlock();
	dst.local = found.local;
	assert_int_not_equal(dst.local.looked, looked); /* the directory stays as it is */
	next = dst.local.at;
	assert_in_range(next, now + NSEC_PER_SEC / 2, now + NSEC_PER_SEC);
	by_twin(by_kernel(&dst)); /* not before */
	dst.local.at = clock_now() - NSEC_PER_SEC;
	assert_int_equal(by_kernel(&dst), -ESTALE);
	assert_true(arrives(next));
	found.local = (struct local_target_ref){.target = &target, .gen = 7, .looked = looked};
	assert_int_equal(change(), 0);
	assert_true(has_mark());
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_change, finish_change)

static const struct CMUnitTest tests[] = {
	TEST(test_the_first_datagram_follows_no_other),
	TEST(test_what_the_kernel_has_got_comes_first),
	TEST(test_a_change_waits_for_calls_under_way),
	TEST(test_another_destination_of_the_socket_keeps_nobody_waiting),
	TEST(test_a_ring_without_room_leaves_it_to_the_kernel),
	TEST(test_members_of_a_group_have_read_what_the_kernel_had),
	TEST(test_marks_for_members_are_no_datagrams),
	TEST(test_a_member_that_does_not_read_leaves_it_to_the_kernel),
	TEST(test_a_change_of_the_directory_is_a_reason_to_look_again),
	TEST(test_one_that_was_late_is_no_verdict),
	TEST(test_a_sender_looks_again_when_a_datagram_was_late),
};

VMA_TEST_MAIN("local_change", tests, setup, teardown)
