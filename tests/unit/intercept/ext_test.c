/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * <vma/vma.h> as a program sees it: layout and numbers, discovery, and what each function does with
 * bad arguments and with what sockets return; over sockets that record how they are called.
 */
#include <errno.h>
#include <string.h>
#include <vma/vma.h>

#include "base/sys.h"
#include "api.h"
#include "fake_sock.h"
#include "intercept/fdtable.h"
#include "tests/vma_test.h"

/* ---- layout: programs were compiled with it ------------------------------------------------ */

#define AT(type, member, offset) \
	_Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)

AT(vma_message_t, data, 0);
AT(vma_message_t, size, 8);
AT(vma_message_t, addr, 16);
AT(vma_message_t, addr_len, 24);
AT(vma_message_t, flags, 28);
AT(vma_message_t, done, 32);
AT(vma_message_t, error, 40);
AT(vma_message_t, reserved, 44);
SIZE(vma_message_t, 48);

AT(vma_room_t, data, 0);
AT(vma_room_t, size, 8);
AT(vma_room_t, id, 16);
AT(vma_room_t, in_frame, 24);
AT(vma_room_t, reserved, 28);
SIZE(vma_room_t, 32);

AT(vma_verdict_t, served, 0);
AT(vma_verdict_t, ring, 4);
AT(vma_verdict_t, ifindex, 8);
AT(vma_verdict_t, reserved, 12);
AT(vma_verdict_t, reason, 16);
SIZE(vma_verdict_t, 192);

AT(vma_event_t, when, 0);
AT(vma_event_t, argument, 8);
AT(vma_event_t, reserved, 12);
AT(vma_event_t, name, 16);
AT(vma_event_t, text, 32);
SIZE(vma_event_t, 128);

AT(vma_ext_t, version, 0);
AT(vma_ext_t, size, 4);
AT(vma_ext_t, vma_recv_batch, 8);
AT(vma_ext_t, vma_send_batch, 16);
AT(vma_ext_t, vma_reserve, 24);
AT(vma_ext_t, vma_commit, 32);
AT(vma_ext_t, vma_abandon, 40);
AT(vma_ext_t, vma_get_verdict, 48);
AT(vma_ext_t, vma_get_events, 56);
SIZE(vma_ext_t, 64);

_Static_assert(SO_VMA_GET_EXT == 2850 && VMA_EXT_VERSION == 1, "numbers");
_Static_assert(VMA_SERVED_UNDECIDED == 0 && VMA_SERVED_ACCELERATED == 1 && VMA_SERVED_LOCAL == 2 &&
		       VMA_SERVED_KERNEL == 3,
	       "numbers");

/* ---- the process ----------------------------------------------------------------------- */

static const struct vma_ext_t *vma;

static int reset(void **state)
{
	fake_reset();
	fake.verdict = VERDICT_ACCELERATED;
	errno = ENOTNAM;
	vma = vma_get_ext();
	assert_non_null(vma);
	assert_int_equal(errno, ENOTNAM);
	return 0;
}

static int open_socket(int type)
{
	int fd = socket(AF_INET, type, 0);

	assert_true(fd >= 0 && fd_get(fd).sk);
	return fd;
}

/* The next operation of a socket returns rc. */
static void returns(ssize_t rc)
{
	fake.ops = 0;
	fake.rc_after = 0;
	fake.rc = rc;
}

static void test_discovery(void **state)
{
	const struct vma_ext_t *got;
	socklen_t len = sizeof(got);

	assert_ptr_equal(vma_get_ext(), vma);
	assert_int_equal(vma->size, sizeof(*vma));
	assert_int_equal(vma->version, VMA_EXT_VERSION);
	assert_true(VMA_EXT_HAS(vma, vma_get_events));
	assert_false(VMA_EXT_HAS((const struct vma_ext_t *)NULL, vma_get_events));
	FAILS(getsockopt(-1, SOL_IP, SO_VMA_GET_EXT, &got, &len), EBADF);
	FAILS(getsockopt(-2, SOL_SOCKET, SO_VMA_GET_EXT, &got, &len), EBADF);
	FAILS(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_EXT, bad_page(), &len), EFAULT);
	FAILS(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_EXT, &got, bad_page()), EFAULT);
	len = sizeof(got) - 1;
	FAILS(getsockopt(-1, SOL_SOCKET, SO_VMA_GET_EXT, &got, &len), EINVAL);
}

/* An older library's table ends before a member. */
static void test_older_tables(void **state)
{
	struct vma_ext_t old = *vma;

	old.size = offsetof(struct vma_ext_t, vma_get_events);
	assert_true(VMA_EXT_HAS(&old, vma_get_verdict));
	assert_false(VMA_EXT_HAS(&old, vma_get_events));
}

/* ---- batches ---------------------------------------------------------------------------- */

static char bytes[100][8];

static void fill(struct vma_message_t *m, unsigned n)
{
	memset(m, 0, n * sizeof(*m));
	for (unsigned i = 0; i < n; i++) {
		m[i].data = bytes[i];
		m[i].size = sizeof(bytes[i]);
		m[i].error = -1;
	}
}

static void test_datagrams_in(void **state)
{
	struct vma_message_t m[100];
	int fd = open_socket(SOCK_DGRAM);

	fill(m, 100);
	fake.batch_done = 3;
	errno = ENOTNAM;
	assert_int_equal(vma->vma_recv_batch(fd, m, 100, MSG_DONTWAIT), 3);
	assert_int_equal(errno, ENOTNAM);
	assert_string_equal(fake.op, "recv_batch");
	assert_int_equal(fake.flags, MSG_DONTWAIT);
	assert_int_equal(m[2].done, 7);
	assert_int_equal(m[2].error, 0);
	assert_int_equal(m[3].error, -1); /* not touched */
	/* All are there: several visits, of which only the first may wait. */
	fill(m, 100);
	fake.batch_done = 1000;
	fake.ops = 0;
	assert_int_equal(vma->vma_recv_batch(fd, m, 100, 0), 100);
	assert_int_equal(fake.ops, 4);
	assert_int_equal(fake.arg, 4);
	assert_int_equal(fake.flags, MSG_DONTWAIT);
	assert_int_equal(m[99].done, 7);
	/* An error behind the first message is for the next call. */
	fake.batch_done = 2;
	returns(-ECONNREFUSED);
	assert_int_equal(vma->vma_recv_batch(fd, m, 9, 0), 2);
	fake.batch_done = 0;
	returns(-ECONNREFUSED);
	FAILS(vma->vma_recv_batch(fd, m, 9, 0), ECONNREFUSED);
	close(fd);
}

static void test_a_stream_in(void **state)
{
	struct vma_message_t m[3];
	int fd = open_socket(SOCK_STREAM);

	fill(m, 3);
	returns(20);
	assert_int_equal(vma->vma_recv_batch(fd, m, 3, 0), 3);
	assert_int_equal(m[1].done, 8);
	assert_int_equal(m[2].done, 4);
	returns(16);
	assert_int_equal(vma->vma_recv_batch(fd, m, 3, 0), 2);
	returns(0);
	assert_int_equal(vma->vma_recv_batch(fd, m, 3, 0), 0); /* the end */
	returns(-ECONNRESET);
	FAILS(vma->vma_recv_batch(fd, m, 3, 0), ECONNRESET);
	close(fd);
}

static void test_datagrams_out(void **state)
{
	struct vma_message_t m[100];
	int fd = open_socket(SOCK_DGRAM);

	fill(m, 100);
	fake.batch_done = 1000;
	assert_int_equal(vma->vma_send_batch(fd, m, 100, MSG_NOSIGNAL), 100);
	assert_int_equal(fake.ops, 4);
	assert_int_equal(fake.flags, 0);
	assert_int_equal(m[99].done, 8);
	/* The second visit sends two, and the next one fails. */
	fill(m, 40);
	fake.batch_done = 2;
	returns(-ENETUNREACH);
	assert_int_equal(vma->vma_send_batch(fd, m, 40, 0), 2);
	assert_int_equal(m[1].error, 0);
	assert_int_equal(m[2].error, ENETUNREACH);
	assert_int_equal(m[3].error, -1);
	fake.batch_done = 0;
	returns(-ENETUNREACH);
	FAILS(vma->vma_send_batch(fd, m, 40, 0), ENETUNREACH);
	assert_int_equal(m[0].error, ENETUNREACH);
	/* An address that cannot be read, or is too long. */
	fill(m, 3);
	fake_reset();
	fake.batch_done = 1000;
	m[2].addr = bad_page();
	m[2].addr_len = 16;
	assert_int_equal(vma->vma_send_batch(fd, m, 3, 0), 2);
	assert_int_equal(m[2].error, EFAULT);
	m[0].addr = (struct sockaddr *)bytes;
	m[0].addr_len = 1000;
	FAILS(vma->vma_send_batch(fd, m, 3, 0), EINVAL);
}

static void test_a_stream_out(void **state)
{
	struct vma_message_t m[3];
	int fd = open_socket(SOCK_STREAM);

	fill(m, 3);
	assert_int_equal(vma->vma_send_batch(fd, m, 3, MSG_MORE), 3);
	assert_int_equal(fake.bytes, 24);
	assert_int_equal(fake.flags, MSG_MORE);
	returns(12);
	assert_int_equal(vma->vma_send_batch(fd, m, 3, MSG_DONTWAIT), 1);
	assert_int_equal(m[1].done, 4);
	assert_int_equal(m[1].error, EAGAIN);
	returns(-EPIPE);
	FAILS(vma->vma_send_batch(fd, m, 3, MSG_NOSIGNAL), EPIPE);
	m[1].addr = (struct sockaddr *)bytes;
	fake_reset();
	assert_int_equal(vma->vma_send_batch(fd, m, 3, 0), 1);
	assert_int_equal(fake.bytes, 8);
	assert_int_equal(m[1].error, EISCONN);
	close(fd);
}

/* More follows only behind the last message of all; of datagrams, each call is one of its own. */
static void test_more_follows(void **state)
{
	struct vma_message_t m[40];
	int tcp = open_socket(SOCK_STREAM), udp = open_socket(SOCK_DGRAM);

	fill(m, 40);
	returns(100); /* the first visit sends so much */
	assert_int_equal(vma->vma_send_batch(tcp, m, 40, MSG_MORE | MSG_NOSIGNAL), 12);
	assert_int_equal(fake.flags, MSG_NOSIGNAL);
	fake_reset();
	assert_int_equal(vma->vma_send_batch(tcp, m, 40, MSG_MORE), 40);
	assert_int_equal(fake.ops, 2);
	assert_int_equal(fake.flags, MSG_MORE);
	fake_reset();
	fake.batch_done = 1000;
	assert_int_equal(vma->vma_send_batch(udp, m, 3, MSG_MORE), 3);
	assert_string_equal(fake.op, "send");
	assert_int_equal(fake.ops, 3);
	assert_int_equal(fake.flags, MSG_MORE);
	close(tcp);
	close(udp);
}

/* By one call each: only the first one waits. */
static void test_datagrams_of_the_kernel(void **state)
{
	struct vma_message_t m[3];
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	assert_int_equal(write(pair[0], "hello", 5), 5);
	fill(m, 3);
	alarm(20); /* for a call that waits */
	assert_int_equal(vma->vma_recv_batch(pair[1], m, 3, 0), 1);
	alarm(0);
	assert_int_equal(m[0].done, 5);
	assert_int_equal(m[1].error, -1);
	close(pair[0]);
	close(pair[1]);
}

/* A message that is not full is the last one, also if more is there: the kernel stops at descriptors. */
static void test_a_stream_of_the_kernel(void **state)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct cmsghdr head = {.cmsg_len = CMSG_LEN(sizeof(int)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS};
	char text[] = "1234";
	struct iovec iov = {text, 4};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct vma_message_t m[3];
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	memcpy(control, &head, sizeof(head));
	memcpy(control + CMSG_LEN(0), &pair[0], sizeof(int));
	assert_int_equal(sendmsg(pair[0], &msg, 0), 4);
	assert_int_equal(write(pair[0], "567890abcdef", 12), 12);
	fill(m, 3);
	assert_int_equal(vma->vma_recv_batch(pair[1], m, 3, 0), 1);
	assert_int_equal(m[0].done, 4);
	assert_int_equal(vma->vma_recv_batch(pair[1], m, 3, 0), 2);
	assert_int_equal(m[0].done, 8);
	assert_int_equal(m[1].done, 4);
	close(pair[0]);
	close(pair[1]);
}

static void test_bad_batches(void **state)
{
	struct vma_message_t m[2];
	int fd = open_socket(SOCK_DGRAM);

	fill(m, 2);
	fake.batch_done = 2;
	FAILS(vma->vma_recv_batch(fd, m, 0, 0), EINVAL);
	FAILS(vma->vma_recv_batch(fd, m, 1025, 0), EINVAL);
	FAILS(vma->vma_recv_batch(fd, m, 2, MSG_PEEK), EINVAL);
	FAILS(vma->vma_recv_batch(fd, bad_page(), 2, 0), EFAULT);
	FAILS(vma->vma_send_batch(fd, m, 0, 0), EINVAL);
	FAILS(vma->vma_send_batch(fd, m, 1025, 0), EINVAL);
	FAILS(vma->vma_send_batch(fd, m, 2, MSG_OOB), EINVAL);
	FAILS(vma->vma_send_batch(fd, bad_page(), 2, 0), EFAULT);
	assert_int_equal(fake.ops, 0);
	m[1].data = (void *)UINTPTR_MAX;
	FAILS(vma->vma_recv_batch(fd, m, 2, 0), EFAULT);
	FAILS(vma->vma_send_batch(fd, m, 2, 0), EFAULT);
	assert_int_equal(fake.ops, 0);
	close(fd);
	fill(m, 2);
	FAILS(vma->vma_recv_batch(-1, m, 2, 0), EBADF);
	FAILS(vma->vma_send_batch(-1, m, 2, 0), EBADF);
}

/* ---- rooms -------------------------------------------------------------------------------- */

static void test_reserve(void **state)
{
	struct vma_room_t room;
	int fd = open_socket(SOCK_DGRAM), other = sys_socket(AF_INET, SOCK_DGRAM, 0);
	size_t max = 0;

	errno = ENOTNAM;
	assert_int_equal(vma->vma_reserve(fd, 10, &room, &max), 0);
	assert_int_equal(errno, ENOTNAM);
	assert_int_equal(fake.bytes, 10);
	assert_int_equal(room.id, 77);
	assert_int_equal(max, 100);
	assert_int_equal(vma->vma_reserve(fd, 10, &room, NULL), 0);
	assert_int_equal(fake.n_freed, 0);
	/* What the program cannot be told of is given back. */
	FAILS(vma->vma_reserve(fd, 10, bad_page(), NULL), EFAULT);
	assert_int_equal(fake.n_freed, 1);
	FAILS(vma->vma_reserve(fd, 10, &room, bad_page()), EFAULT);
	assert_int_equal(fake.n_freed, 2);
	returns(-EMSGSIZE);
	max = 0;
	FAILS(vma->vma_reserve(fd, 101, &room, &max), EMSGSIZE);
	assert_int_equal(max, 100);
	FAILS(vma->vma_reserve(fd, 101, &room, NULL), EMSGSIZE);
	returns(-ENOBUFS);
	FAILS(vma->vma_reserve(fd, 10, &room, NULL), ENOBUFS);
	returns(SOCK_KERNEL);
	FAILS(vma->vma_reserve(fd, 10, &room, NULL), EOPNOTSUPP);
	assert_int_equal(fake.n_freed, 2);
	fake.verdict = VERDICT_RULE;
	FAILS(vma->vma_reserve(fd, 10, &room, NULL), EOPNOTSUPP);
	FAILS(vma->vma_reserve(other, 10, &room, NULL), EOPNOTSUPP);
	FAILS(vma->vma_reserve(-1, 10, &room, NULL), EOPNOTSUPP);
	close(fd);
	close(other);
}

static void test_commit(void **state)
{
	int fd = open_socket(SOCK_DGRAM), tcp = open_socket(SOCK_STREAM);
	struct sockaddr to = {.sa_family = AF_INET};

	errno = ENOTNAM;
	assert_int_equal(vma->vma_commit(fd, 77, 10, 0, &to, sizeof(to)), 10);
	assert_int_equal(errno, ENOTNAM);
	assert_string_equal(fake.op, "room_commit");
	assert_int_equal(fake.namelen, sizeof(to));
	assert_int_equal(fake.kept, 0);
	fake.room_copies = true;
	assert_int_equal(vma->vma_commit(fd, 77, 10, 0, &to, sizeof(to)), 10);
	assert_string_equal(fake.op, "send");
	assert_int_equal(fake.flags, MSG_DONTWAIT | MSG_NOSIGNAL);
	assert_int_equal(fake.namelen, sizeof(to));
	assert_int_equal(fake.kept, 0);
	/* After an error the program has the room. */
	returns(-EAGAIN);
	FAILS(vma->vma_commit(tcp, 77, 10, 0, NULL, 0), EAGAIN);
	assert_int_equal(fake.kept, 1);
	FAILS(vma->vma_commit(fd, 77, 101, 0, NULL, 0), EINVAL);
	assert_int_equal(fake.kept, 2);
	FAILS(vma->vma_commit(tcp, 77, 10, 0, &to, sizeof(to)), EINVAL);
	assert_int_equal(fake.kept, 3);
	/* A part of a stream. */
	returns(4);
	assert_int_equal(vma->vma_commit(tcp, 77, 10, 0, NULL, 0), 4);
	assert_int_equal(fake.bytes, 4);
	assert_int_equal(fake.kept, 3);
	fake.ops = 0;
	FAILS(vma->vma_commit(fd, 78, 10, 0, NULL, 0), ENOENT);
	FAILS(vma->vma_commit(-1, 77, 10, 0, NULL, 0), ENOENT);
	FAILS(vma->vma_commit(fd, 77, 10, MSG_MORE, NULL, 0), EINVAL);
	FAILS(vma->vma_commit(fd, 77, 10, 0, &to, 1000), EINVAL);
	FAILS(vma->vma_commit(fd, 77, 10, 0, bad_page(), sizeof(to)), EFAULT);
	assert_int_equal(fake.ops, 0);
	assert_int_equal(fake.n_freed, 0);
	close(fd);
	close(tcp);
}

static void test_abandon(void **state)
{
	int fd = open_socket(SOCK_DGRAM);

	assert_int_equal(vma->vma_abandon(fd, 77), 0);
	assert_int_equal(fake.n_freed, 1);
	assert_int_equal(vma->vma_abandon(-1, 77), 0); /* of a closed socket */
	FAILS(vma->vma_abandon(fd, 78), ENOENT);
	assert_int_equal(fake.n_freed, 2);
	close(fd);
}

/* ---- what became of a socket ------------------------------------------------------------ */

static void test_verdict(void **state)
{
	struct vma_verdict_t v = {.reserved = 5};
	int fd = open_socket(SOCK_DGRAM), pipes[2];

	errno = ENOTNAM;
	assert_int_equal(vma->vma_get_verdict(fd, &v, sizeof(v)), 0);
	assert_int_equal(errno, ENOTNAM);
	assert_int_equal(v.ring, fd);
	assert_string_equal(v.reason, "because");
	v.ring = 0;
	v.ifindex = 4;
	assert_int_equal(vma->vma_get_verdict(fd, &v, 8), 0); /* an older program */
	assert_int_equal(v.ring, fd);
	assert_int_equal(v.ifindex, 4);
	FAILS(vma->vma_get_verdict(fd, bad_page(), sizeof(v)), EFAULT);
	FAILS(vma->vma_get_verdict(-1, &v, sizeof(v)), EBADF);
	assert_int_equal(pipe(pipes), 0);
	FAILS(vma->vma_get_verdict(pipes[0], &v, sizeof(v)), ENOTSOCK);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

static void test_events(void **state)
{
	struct vma_event_t e;
	int fd = open_socket(SOCK_DGRAM);

	errno = ENOTNAM;
	assert_int_equal(vma->vma_get_events(fd, &e, 3, sizeof(e)), 1);
	assert_int_equal(errno, ENOTNAM);
	assert_int_equal(e.argument, 3);
	FAILS(vma->vma_get_events(fd, bad_page(), 3, sizeof(e)), EFAULT);
	FAILS(vma->vma_get_events(fd, &e, 3, sizeof(e) + 1), EINVAL);
	FAILS(vma->vma_get_events(-1, &e, 3, sizeof(e)), EBADF);
	returns(-ENOMEM);
	FAILS(vma->vma_get_events(fd, &e, 3, sizeof(e)), ENOMEM);
	close(fd);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_discovery, reset),
	cmocka_unit_test_setup(test_older_tables, reset),
	cmocka_unit_test_setup(test_datagrams_in, reset),
	cmocka_unit_test_setup(test_a_stream_in, reset),
	cmocka_unit_test_setup(test_datagrams_out, reset),
	cmocka_unit_test_setup(test_a_stream_out, reset),
	cmocka_unit_test_setup(test_more_follows, reset),
	cmocka_unit_test_setup(test_datagrams_of_the_kernel, reset),
	cmocka_unit_test_setup(test_a_stream_of_the_kernel, reset),
	cmocka_unit_test_setup(test_bad_batches, reset),
	cmocka_unit_test_setup(test_reserve, reset),
	cmocka_unit_test_setup(test_commit, reset),
	cmocka_unit_test_setup(test_abandon, reset),
	cmocka_unit_test_setup(test_verdict, reset),
	cmocka_unit_test_setup(test_events, reset),
};

VMA_TEST_MAIN("ext", tests, NULL, NULL)
