/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors in messages (SCM_RIGHTS), as the wrappers see them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/sys.h"
#include "tests/unit/intercept/fake_sock.h"
#include "intercept/fdtable.h"
#include "tests/vma_test.h"

static int tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0 && fd_get(fd).sk);
	return fd;
}

static int udp(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0 && fd_get(fd).sk);
	return fd;
}

static bool is_open(int fd)
{
	return sys_fcntl(fd, F_GETFD, 0) >= 0;
}

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static struct msghdr rights_message(union control *control, int fd)
{
	static char byte = 'x';
	static struct iovec one = {&byte, 1};

	memset(control, 0, sizeof(*control));
	control->head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(&control->head), &fd, sizeof(fd));
	return (struct msghdr){.msg_iov = &one,
			       .msg_iovlen = 1,
			       .msg_control = control,
			       .msg_controllen = sizeof(*control)};
}

static int received(const union control *control)
{
	int fd;

	memcpy(&fd, CMSG_DATA(&control->head), sizeof(fd));
	return fd;
}

static void test_the_kernel_serves_what_is_sent(void **state)
{
	int way[2], fd = udp(), copy = dup(fd);
	struct msghdr msg;
	union control control;
	char c;

	socketpair(AF_UNIX, SOCK_STREAM, 0, way);
	msg = rights_message(&control, fd);
	errno = EXDEV;
	assert_int_equal(sendmsg(way[0], &msg, 0), 1);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(fake.passed, 1);
	assert_null(fd_get(fd).sk);
	assert_null(fd_get(copy).sk);
	/* Messages without control messages, or with other kinds of them, are not examined. */
	close(fd);
	fd = udp();
	msg = rights_message(&control, fd);
	control.head.cmsg_type = 77;
	assert_int_equal(sendmsg(way[0], &msg, 0), -1);
	msg.msg_controllen = 0;
	assert_int_equal(sendmsg(way[0], &msg, 0), 1);
	assert_int_equal(fake.passed, 1);
	assert_int_equal(recv(way[1], &c, 1, 0), 1);
	close(fd);
	close(copy);
	close(way[0]);
	close(way[1]);
}

static void test_a_socket_that_cannot_be_sent_is_refused(void **state)
{
	int way[2], fd = tcp();
	struct mmsghdr msgs[2] = {0};
	union control control[2];
	char c[9];

	socketpair(AF_UNIX, SOCK_DGRAM, 0, way);
	fake.sock_pass_fails = true;
	msgs[0].msg_hdr = rights_message(&control[0], way[0]);
	msgs[1].msg_hdr = rights_message(&control[1], fd);
	assert_int_equal(sendmsg(way[0], &msgs[1].msg_hdr, 0), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(sendmmsg(way[0], msgs, 2, 0), 1);
	assert_int_equal(recv(way[1], c, sizeof(c), MSG_DONTWAIT), 1);
	assert_int_equal(recv(way[1], c, sizeof(c), MSG_DONTWAIT), -1);
	assert_int_equal(sendmmsg(way[0], msgs + 1, 1, 0), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_non_null(fd_get(fd).sk);
	assert_int_equal(fake.passed, 0);
	close(fd);
	close(way[0]);
	close(way[1]);
}

/* The kernel reuses a number after the library missed a close(). */
static void test_a_received_descriptor_is_new(void **state)
{
	int way[2], fd;
	struct mmsghdr many = {0};
	struct msghdr msg;
	union control control;

	socketpair(AF_UNIX, SOCK_STREAM, 0, way);
	for (int i = 0; i < 2; i++) {
		msg = rights_message(&control, way[0]);
		assert_int_equal(sendmsg(way[0], &msg, 0), 1);
		msg.msg_iov = &(struct iovec){&fd, 1};
		many.msg_hdr = msg;
		fd = tcp();
		sys_close(fd);
		if (i)
			assert_int_equal(recvmmsg(way[1], &many, 1, 0, NULL), 1);
		else
			assert_int_equal(recvmsg(way[1], &msg, 0), 1);
		fd = received(&control);
		assert_null(fd_get(fd).sk);
		assert_true(is_open(fd));
		assert_int_equal(fake.n_closed, i + 1);
		close(fd);
	}
	close(way[0]);
	close(way[1]);
}

/* ---- sockets in transit ------------------------------------------------------------ */

static void test_a_socket_in_transit_is_told_whether_it_was_sent(void **state)
{
	int way[2], fd = tcp();
	union control control;
	struct msghdr msg = rights_message(&control, fd);

	socketpair(AF_UNIX, SOCK_STREAM, 0, way);
	fake.in_transit = true;
	assert_int_equal(sendmsg(way[0], &msg, 0), 1);
	assert_int_equal(fake.way, way[0]);
	assert_int_equal(fake.n_sent, 1);
	assert_int_equal(fake.n_unsent, 0);
	close(way[1]);
	assert_int_equal(sendmsg(way[0], &msg, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(fake.n_sent, 1);
	assert_int_equal(fake.n_unsent, 1);
	assert_non_null(fd_get(fd).sk);
	/* The socket is sent to an address: the receiver is unknown. */
	msg.msg_name = msg.msg_control;
	msg.msg_namelen = 1;
	assert_int_equal(sendmsg(way[0], &msg, MSG_NOSIGNAL), -1);
	assert_int_equal(fake.way, -1);
	close(fd);
	close(way[0]);
}

static void test_each_of_many_messages_is_told(void **state)
{
	int way[2], fd = tcp();
	union control control[3];
	struct mmsghdr msgs[3] = {0};

	socketpair(AF_UNIX, SOCK_DGRAM, 0, way);
	fake.in_transit = true;
	for (int i = 0; i < 3; i++)
		msgs[i].msg_hdr = rights_message(&control[i], fd);
	msgs[2].msg_hdr.msg_iov = (struct iovec *)16; /* EFAULT */
	assert_int_equal(sendmmsg(way[0], msgs, 3, 0), 2);
	assert_int_equal(fake.n_sent, 2);
	assert_int_equal(fake.n_unsent, 1);
	assert_int_equal(fake.sent, fake.tickets - 1);
	assert_int_equal(fake.unsent, fake.tickets);
	close(fd);
	close(way[0]);
	close(way[1]);
}

/*
 * If one of two sockets cannot be sent, the message is not sent, and the other socket stays,
 * too.
 */
static void test_one_refusal_stops_the_message(void **state)
{
	int way[2], fds[2] = {tcp(), tcp()};
	char bytes[CMSG_SPACE(sizeof(fds))] = {0};
	struct cmsghdr head = {CMSG_LEN(sizeof(fds)), SOL_SOCKET, SCM_RIGHTS};
	union control control;
	struct msghdr msg = rights_message(&control, -1);

	socketpair(AF_UNIX, SOCK_STREAM, 0, way);
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + CMSG_LEN(0), fds, sizeof(fds));
	msg.msg_control = bytes;
	msg.msg_controllen = sizeof(bytes);
	fake.in_transit = true;
	fake.sock_pass_fails_after = 1;
	assert_int_equal(sendmsg(way[0], &msg, 0), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(fake.n_sent, 0);
	assert_int_equal(fake.n_unsent, 1);
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	close(way[0]);
	close(way[1]);
}

static void test_a_received_socket_is_ours(void **state)
{
	int way[2], fd = tcp(), one, other;
	union control control;
	struct msghdr msg = rights_message(&control, fd);
	struct sock_ref ref = fd_get(fd);

	socketpair(AF_UNIX, SOCK_STREAM, 0, way);
	fake.in_transit = true;
	fake.arrives = ref;
	assert_int_equal(sendmsg(way[0], &msg, 0), 1);
	assert_int_equal(recvmsg(way[1], &msg, MSG_PEEK), 1);
	assert_true(fake.peek);
	one = received(&control);
	assert_int_equal(recvmsg(way[1], &msg, 0), 1);
	assert_false(fake.peek);
	other = received(&control);
	/* Three descriptors of one socket, which ends with the last descriptor. */
	assert_ptr_equal(fd_get(one).sk, ref.sk);
	assert_ptr_equal(fd_get(other).sk, ref.sk);
	close(fd);
	close(one);
	assert_int_equal(fake.n_closed, 0);
	close(other);
	assert_int_equal(fake.n_closed, 1);
	close(way[0]);
	close(way[1]);
}

static unsigned count_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += is_open(fd);
	return n;
}

static void *send_cancelled(void *msg)
{
	pthread_cancel(pthread_self());
	(void)sendmsg(-1, msg, 0);
	return NULL;
}

/* Whatever becomes of the thread, the connection is not in transit for ever. */
static void test_a_cancelled_thread_takes_its_connection_back(void **state)
{
	int fd = tcp();
	unsigned before = count_open();
	union control control;
	struct msghdr msg = rights_message(&control, fd);
	pthread_t thread;

	fake.is_local = true; /* and the relay finds none */
	assert_int_equal(pthread_create(&thread, NULL, send_cancelled, &msg), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(fake.n_back, 1);
	assert_int_equal(count_open(), before);
	close(fd);
}

/* Its process gets the memory as it is then. */
static void test_a_relay_is_forked_when_no_thread_is_in_a_slow_call(void **state)
{
	int fd = tcp();
	union control control;
	struct msghdr msg = rights_message(&control, fd);

	fake.is_local = true;
	assert_int_equal(sendmsg(-1, &msg, 0), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(fake.detached, 1);
	assert_false(fake.preparing);
	close(fd);
}

static int reset(void **state)
{
	fake_reset();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_the_kernel_serves_what_is_sent, reset),
	cmocka_unit_test_setup(test_a_socket_that_cannot_be_sent_is_refused, reset),
	cmocka_unit_test_setup(test_a_received_descriptor_is_new, reset),
	cmocka_unit_test_setup(test_a_socket_in_transit_is_told_whether_it_was_sent, reset),
	cmocka_unit_test_setup(test_each_of_many_messages_is_told, reset),
	cmocka_unit_test_setup(test_one_refusal_stops_the_message, reset),
	cmocka_unit_test_setup(test_a_received_socket_is_ours, reset),
	cmocka_unit_test_setup(test_a_cancelled_thread_takes_its_connection_back, reset),
	cmocka_unit_test_setup(test_a_relay_is_forked_when_no_thread_is_in_a_slow_call, reset),
};

VMA_TEST_MAIN("rights", tests, NULL, NULL)
