/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick calls on a local connection: what they do at once, and what they leave to the others.
 * The initiator's end is tested; the responder's rings are in the test's hands.
 */
#include "conn_fixture.h"
#include "sock/local/local_link_internal.h"
#include "tests/guard.h"

/* ---- the calls that the quick ones call ----------------------------------------------------- */

static unsigned recvs, sends;

static ssize_t other_recv(int fd, void *buf, size_t len, int flags)
{
	(void)buf;
	(void)len;
	(void)flags;
	assert_int_equal(fd, 7);
	recvs++;
	return -1;
}

static ssize_t other_send(int fd, const void *buf, size_t len, int flags)
{
	(void)buf;
	(void)len;
	(void)flags;
	assert_int_equal(fd, 7);
	sends++;
	return -1;
}

static ssize_t other_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
			      socklen_t *from_len)
{
	(void)from;
	(void)from_len;
	return other_recv(fd, buf, len, flags);
}

static ssize_t other_sendto(int fd, const void *buf, size_t len, int flags,
			    const struct sockaddr *to, socklen_t to_len)
{
	(void)to;
	(void)to_len;
	return other_send(fd, buf, len, flags);
}

/* ---- one end -------------------------------------------------------------------------------- */

static struct byte_ring_reader in;
static struct byte_ring_writer out;
static char text[LOCAL_RING_MIN];

static void begin_test(void)
{
	recvs = sends = 0;
	sock_hooks.recv = other_recv;
	sock_hooks.send = other_send;
	sock_hooks.recvfrom = other_recvfrom;
	sock_hooks.sendto = other_sendto;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	ring_release_cold(local_ring());
}

static void end_test(void)
{
	assert_true(ring_hold_cold(local_ring()));
	end();
	ring_release_cold(local_ring());
}

static const struct sock_ops *ops(void)
{
	return &local_kind.ops[ring_mode_now()];
}

static ssize_t quick_recv(size_t len, int flags)
{
	return ops()->quick_recv(7, text, len, flags, sock_ref_of(so));
}

static ssize_t quick_send(size_t len, int flags)
{
	return ops()->quick_send(7, text, len, flags, sock_ref_of(so));
}

static void peer_sends(const char *bytes, unsigned flags)
{
	struct iovec iov = {(void *)(uintptr_t)bytes, strlen(bytes)};

	assert_int_equal(byte_ring_write(&out, &iov, 1, flags), strlen(bytes));
}

static void recv_is_left(size_t len, int flags)
{
	unsigned before = recvs;

	assert_int_equal(quick_recv(len, flags), -1);
	assert_int_equal(recvs, before + 1);
}

static void send_is_left(size_t len, int flags)
{
	unsigned before = sends;

	assert_int_equal(quick_send(len, flags), -1);
	assert_int_equal(sends, before + 1);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_what_is_there_is_read_at_once(void **state)
{
	(void)state;
	begin_test();
	peer_sends("abcdef", 0);
	assert_int_equal(quick_recv(4, 0), 4);
	assert_memory_equal(text, "abcd", 4);
	assert_int_equal(quick_recv(sizeof(text), MSG_DONTWAIT), 2);
	assert_memory_equal(text, "ef", 2);
	assert_int_equal(so->shm.reads, 2);
	assert_int_equal(recvs, 0);
	recv_is_left(sizeof(text), 0);
	assert_int_equal(so->shm.reads, 2);
	end_test();
}

static void test_what_there_is_room_for_is_sent_at_once(void **state)
{
	struct iovec iov = {text + 100, 100};
	uint64_t posted;

	(void)state;
	begin_test();
	memcpy(text, "hello", 5);
	posted = so->shm.end.link->out.posted;
	assert_int_equal(quick_send(5, MSG_NOSIGNAL | MSG_DONTWAIT), 5);
	assert_int_equal(so->shm.end.link->out.posted, posted + 1);
	assert_int_equal(byte_ring_read(&in, &iov, 1, false), 5);
	assert_memory_equal(text + 100, "hello", 5);
	assert_int_equal(so->shm.sends, 1);
	assert_int_equal(sends, 0);
	end_test();
}

#define THIRD (LOCAL_RING_MIN / 2 / 3) /* of the send buffer */
#define MOST (LOCAL_RING_MIN - THIRD)

static void test_what_does_not_fit_is_left(void **state)
{
	(void)state;
	begin_test();
	assert_int_equal(quick_send(MOST, 0), MOST);
	send_is_left(1, 0); /* less than a third of the send buffer would be free */
	send_is_left(0, 0);
	assert_int_equal(byte_ring_discard(&in, MOST), MOST);
	byte_ring_space(&so->shm.out); /* looks */
	send_is_left(THIRD + 1, 0);    /* it goes round the end of the data */
	assert_int_equal(quick_send(THIRD, 0), THIRD);
	assert_int_equal(so->shm.out.tail, LOCAL_RING_MIN);
	end_test();
}

static uint64_t wanted(void)
{
	return __atomic_load_n(&shared()->to_responder.wanted, __ATOMIC_RELAXED);
}

static void look(void)
{
	assert_true(ring_hold_cold(local_ring()));
	notice();
	ring_release_cold(local_ring());
}

/* As of the kernel's connections.  The peer is asked for a notice only when a thread polls. */
static void test_less_than_a_third_is_not_writable(void **state)
{
	struct iovec iov = {text, MOST};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)state;
	begin_test();
	assert_int_equal(ops()->send(sock_ref_of(so), &msg, 0), MOST);
	assert_true(sock_own_events(so) & EPOLLOUT);
	iov.iov_len = 1;
	assert_int_equal(ops()->send(sock_ref_of(so), &msg, 0), 1);
	assert_false(sock_own_events(so) & EPOLLOUT);
	assert_int_equal(wanted(), 0);
	look();
	assert_int_equal(wanted(), 1);
	assert_int_equal(byte_ring_discard(&in, 1), 1);
	assert_true(byte_ring_is_wanted(&in));
	look();
	assert_true(sock_own_events(so) & EPOLLOUT);
	assert_int_equal(wanted(), 0);
	end_test();
}

static void test_flags_are_left(void **state)
{
	static const int of_recv[] = {MSG_PEEK,	 MSG_OOB,      MSG_WAITALL,
				      MSG_TRUNC, MSG_ERRQUEUE, MSG_CMSG_CLOEXEC};
	static const int of_send[] = {MSG_OOB, MSG_MORE, MSG_FASTOPEN, MSG_ZEROCOPY, MSG_EOR};

	(void)state;
	begin_test();
	peer_sends("abc", 0);
	for (size_t i = 0; i < sizeof(of_recv) / sizeof(of_recv[0]); i++)
		recv_is_left(3, of_recv[i]);
	for (size_t i = 0; i < sizeof(of_send) / sizeof(of_send[0]); i++)
		assert_true(of_send[i] & ~SOCK_QUICK_SEND); /* the caller leaves them */
	assert_int_equal(so->shm.out.tail, 0);
	assert_int_equal(so->shm.in.head, 0);
	end_test();
}

static void test_an_urgent_byte_ahead_is_left(void **state)
{
	(void)state;
	begin_test();
	peer_sends("abc", BYTE_RING_URGENT);
	recv_is_left(3, 0);
	assert_int_equal(so->shm.in.head, 0);
	end_test();
}

static void test_conditions_of_the_socket_are_left(void **state)
{
	(void)state;
	begin_test();
	peer_sends("abc", 0);
	so->rcvlowat = 2;
	recv_is_left(3, 0);
	so->rcvlowat = 1;
	so->shm.peek_offset = 1;
	recv_is_left(3, 0);
	so->shm.peek_offset = 0;
	so->shm.kept_error = EPIPE;
	recv_is_left(3, 0);
	send_is_left(3, 0);
	so->shm.kept_error = 0;
	assert_int_equal(quick_recv(3, 0), 3);
	end_test();
}

static void test_an_end_is_left(void **state)
{
	(void)state;
	begin_test();
	peer_sends("abc", 0);
	byte_ring_finish(&out);
	recv_is_left(3, 0); /* bytes and the end: the others tell them apart */
	byte_ring_close(&in);
	assert_true(ring_hold_cold(local_ring()));
	notice();
	byte_ring_finish(&so->shm.out);
	ring_release_cold(local_ring());
	send_is_left(3, 0);
	end_test();
}

static void test_bad_memory_is_left(void **state)
{
	void *const kernel = (void *)(uintptr_t)0xffff800000000000ull;

	(void)state;
	begin_test();
	peer_sends("abc", 0);
	assert_int_equal(ops()->quick_recv(7, kernel, 3, 0, sock_ref_of(so)), -1);
	assert_int_equal(ops()->quick_send(7, kernel, 3, 0, sock_ref_of(so)), -1);
	assert_int_equal(recvs + sends, 2);
	end_test();
}

/* As recvfrom(2) and sendto(2) of a connection: no address is told, and none is looked at. */
static void test_addresses_of_a_connection(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = 1}, same = addr;
	struct sockaddr *sa = (struct sockaddr *)&addr;
	struct iovec iov = {text + 100, 100};
	socklen_t len = sizeof(addr);

	(void)state;
	begin_test();
	peer_sends("abc", 0);
	assert_int_equal(ops()->quick_recvfrom(7, text, 9, 0, sa, &len, sock_ref_of(so)), 3);
	assert_int_equal(len, 0);
	assert_memory_equal(&addr, &same, sizeof(addr));
	assert_int_equal(ops()->quick_sendto(7, text, 3, 0, sa, sizeof(addr), sock_ref_of(so)), 3);
	assert_int_equal(byte_ring_read(&in, &iov, 1, false), 3);
	assert_int_equal(recvs + sends, 0);
	end_test();
}

static void test_addresses_that_cannot_be_are_left(void **state)
{
	void *const kernel = (void *)(uintptr_t)0xffff800000000000ull;
	struct sockaddr_in addr = {.sin_family = AF_INET};
	struct sockaddr *sa = (struct sockaddr *)&addr;
	struct sock_ref ref;
	socklen_t len = (socklen_t)-1;

	(void)state;
	test_guard();
	begin_test();
	ref = sock_ref_of(so);
	peer_sends("abc", 0);
	assert_int_equal(ops()->quick_recvfrom(7, text, 9, 0, sa, &len, ref), -1);
	assert_int_equal(ops()->quick_recvfrom(7, text, 9, 0, sa, kernel, ref), -1);
	assert_int_equal(recvs, 2);
	assert_int_equal(so->shm.in.head, 0);
	assert_int_equal(ops()->quick_sendto(7, text, 3, 0, kernel, sizeof(addr), ref), -1);
	assert_int_equal(ops()->quick_sendto(7, text, 3, 0, sa, sizeof(addr) - 1, ref), -1);
	assert_int_equal(sends, 2);
	assert_int_equal(so->shm.out.tail, 0);
	end_test();
}

/* A signal handler that interrupted the holder. */
static void test_a_thread_that_holds_the_ring_is_refused(void **state)
{
	(void)state;
	begin_test();
	peer_sends("abc", 0);
	assert_true(ring_hold_cold(local_ring()));
	recv_is_left(3, 0);
	send_is_left(3, 0);
	ring_release_cold(local_ring());
	end_test();
}

static void test_a_socket_that_is_gone_is_left(void **state)
{
	struct sock_ref ref;

	(void)state;
	begin_test();
	peer_sends("abc", 0);
	ref = sock_ref_of(so);
	ref.gen += 2;
	assert_int_equal(ops()->quick_recv(7, text, 3, 0, ref), -1);
	assert_int_equal(ops()->quick_send(7, text, 3, 0, ref), -1);
	assert_int_equal(recvs + sends, 2);
	end_test();
}

/* A writer that waits for space is told, and an event that is over ends. */
static void test_what_a_read_owes_the_others(void **state)
{
	uint64_t posted;

	(void)state;
	begin_test();
	peer_sends("abc", 0);
	assert_true(ring_hold_cold(local_ring()));
	notice();
	ring_release_cold(local_ring());
	assert_true(sock_own_events(so) & EPOLLIN);
	posted = so->shm.end.link->out.posted;
	byte_ring_want_space(&out, 1);
	assert_int_equal(quick_recv(3, 0), 3);
	assert_false(sock_own_events(so) & EPOLLIN);
	assert_int_equal(so->shm.end.link->out.posted, posted + 1);
	end_test();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_there_is_read_at_once),
	cmocka_unit_test(test_what_there_is_room_for_is_sent_at_once),
	cmocka_unit_test(test_what_does_not_fit_is_left),
	cmocka_unit_test(test_less_than_a_third_is_not_writable),
	cmocka_unit_test(test_flags_are_left),
	cmocka_unit_test(test_an_urgent_byte_ahead_is_left),
	cmocka_unit_test(test_conditions_of_the_socket_are_left),
	cmocka_unit_test(test_an_end_is_left),
	cmocka_unit_test(test_bad_memory_is_left),
	cmocka_unit_test(test_addresses_of_a_connection),
	cmocka_unit_test(test_addresses_that_cannot_be_are_left),
	cmocka_unit_test(test_a_thread_that_holds_the_ring_is_refused),
	cmocka_unit_test(test_a_socket_that_is_gone_is_left),
	cmocka_unit_test(test_what_a_read_owes_the_others),
};

VMA_TEST_MAIN("local_quick", tests, setup, teardown)
