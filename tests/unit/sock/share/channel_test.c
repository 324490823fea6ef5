/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/channel.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "sock/core/control.h"
#include "tests/vma_test.h"

#define LAST 100u

/* The two ends, as a process and its child have them. */
static struct channel *ends[2];

static void make_channels(uint64_t only0, uint64_t only1)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	ends[0] = only0 ? channel_create_only(fds[0], only0) : channel_create(fds[0], LAST);
	ends[1] = only1 ? channel_create_only(fds[1], only1) : channel_create(fds[1], LAST);
	assert_non_null(ends[0]);
	assert_non_null(ends[1]);
}

static void drop_end(unsigned i)
{
	channel_destroy(ends[i]);
	ends[i] = NULL;
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int memfd_of(const char *text)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

/* Checks the next message at that end. Returns its descriptor, or -1. */
static int expect(unsigned i, enum message_kind kind, uint64_t id, uint64_t flags)
{
	struct message message;
	int memfd = -2;

	assert_int_equal(channel_receive(ends[i], &message, &memfd), 1);
	assert_int_equal(message.kind, kind);
	assert_int_equal(message.id, id);
	assert_int_equal(message.flags, flags);
	return memfd;
}

static void expect_none(unsigned i)
{
	struct message message;
	int memfd;

	assert_int_equal(channel_receive(ends[i], &message, &memfd), 0);
}

static void expect_closed(unsigned i)
{
	struct message message;
	int memfd;

	assert_int_equal(channel_receive(ends[i], &message, &memfd), -1);
}

static void test_messages_arrive_in_order(void **state)
{
	make_channels(0, 0);
	expect_none(1);
	for (uint64_t id = 1; id <= 50; id++)
		channel_send(ends[0], MESSAGE_REQUEST, id, id * 2, -1);
	channel_send(ends[1], MESSAGE_CLOSED, 3, 0, -1);
	for (uint64_t id = 1; id <= 50; id++)
		assert_int_equal(expect(1, MESSAGE_REQUEST, id, id * 2), -1);
	expect_none(1);
	assert_int_equal(expect(0, MESSAGE_CLOSED, 3, 0), -1);
	expect_none(0);
	drop_end(0);
	drop_end(1);
}

static void test_a_descriptor_is_sent_and_closed_here(void **state)
{
	unsigned before = open_descriptors();
	char text[8] = "";
	int memfd;

	make_channels(0, 0);
	channel_send(ends[0], MESSAGE_EXPORT, 5, MESSAGE_FLAG_UNABLE, memfd_of("snap"));
	assert_int_equal(open_descriptors(), before + 2);
	memfd = expect(1, MESSAGE_EXPORT, 5, MESSAGE_FLAG_UNABLE);
	assert_true(memfd >= 0);
	assert_int_equal(fcntl(memfd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(pread(memfd, text, sizeof(text), 0), 4);
	assert_string_equal(text, "snap");
	close(memfd);
	drop_end(0);
	drop_end(1);
	assert_int_equal(open_descriptors(), before);
}

/* Messages that find no room are queued with their descriptors, and nothing overtakes them. */
static void test_messages_wait_for_room(void **state)
{
	unsigned before = open_descriptors();
	uint64_t sent = 0, got = 0;

	make_channels(0, 0);
	while (!ends[0]->n_unsent)
		channel_send(ends[0], MESSAGE_REQUEST, ++sent, 0, -1);
	channel_send(ends[0], MESSAGE_EXPORT, ++sent, 0, memfd_of("x"));
	channel_send(ends[0], MESSAGE_REQUEST, ++sent, 0, -1);
	assert_int_equal(ends[0]->n_unsent, 3);
	assert_false(channel_flush(ends[0]));
	for (; got < sent; got++) {
		bool is_export = got + 1 == sent - 1;
		int memfd;

		if (got == sent - 3)
			assert_true(channel_flush(ends[0]));
		memfd = expect(1, is_export ? MESSAGE_EXPORT : MESSAGE_REQUEST, got + 1, 0);
		assert_int_equal(memfd >= 0, is_export);
		if (is_export)
			close(memfd);
	}
	expect_none(1);
	assert_int_equal(ends[0]->n_unsent, 0);
	drop_end(0);
	drop_end(1);
	assert_int_equal(open_descriptors(), before);
}

/* If an end reads nothing, the other end does not queue without limit. */
static void test_an_end_that_does_not_read_breaks_the_channel(void **state)
{
	unsigned before = open_descriptors(), n = 0;

	make_channels(0, 0);
	for (; !ends[0]->broken && n < 1000000; n++)
		channel_send(ends[0], MESSAGE_EXPORT, 1, 0, n % 100 ? -1 : memfd_of("x"));
	assert_true(ends[0]->broken);
	assert_in_range(ends[0]->n_unsent, 16384, 16384 + 8 * LAST);
	n = ends[0]->n_unsent;
	channel_send(ends[0], MESSAGE_EXPORT, 1, 0, memfd_of("late"));
	assert_int_equal(ends[0]->n_unsent, n);
	drop_end(0);
	drop_end(1);
	assert_int_equal(open_descriptors(), before);
}

static void test_other_bytes_are_ignored(void **state)
{
	unsigned before = open_descriptors();
	struct message message, bad;
	int memfd;

	make_channels(0, 0);
	channel_send(ends[1], MESSAGE_REQUEST, 1, 0, -1);
	assert_int_equal(channel_receive(ends[0], &message, &memfd), 1);
	for (size_t n = 1; n < sizeof(message); n++)
		assert_int_equal(send(ends[0]->fd, &message, n, 0), n);
	bad = message;
	bad.magic++;
	assert_int_equal(send(ends[0]->fd, &bad, sizeof(bad), 0), sizeof(bad));
	bad = message;
	bad.id = 0;
	assert_int_equal(send(ends[0]->fd, &bad, sizeof(bad), 0), sizeof(bad));
	expect_none(1);
	channel_send(ends[0], MESSAGE_LOST, 9, 0, -1);
	expect(1, MESSAGE_LOST, 9, 0);
	drop_end(0);
	drop_end(1);
	assert_int_equal(open_descriptors(), before);
}

/* Of several descriptors the first is taken, and the others are closed. */
static void test_surplus_descriptors_are_closed(void **state)
{
	unsigned before = open_descriptors();
	char control[CMSG_SPACE(3 * sizeof(int))] __attribute__((aligned(8))) = {0};
	int fds[3] = {memfd_of("a"), memfd_of("b"), memfd_of("c")}, memfd;
	struct message message;
	struct iovec iov = {&message, sizeof(message)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	char c = 0;

	make_channels(0, 0);
	channel_send(ends[1], MESSAGE_EXPORT, 4, 0, -1);
	assert_int_equal(channel_receive(ends[0], &message, &memfd), 1);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(head), fds, sizeof(fds));
	assert_int_equal(sendmsg(ends[0]->fd, &msg, 0), sizeof(message));
	message.magic = 0;
	assert_int_equal(sendmsg(ends[0]->fd, &msg, 0), sizeof(message));
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	memfd = expect(1, MESSAGE_EXPORT, 4, 0);
	assert_int_equal(pread(memfd, &c, 1, 0), 1);
	assert_int_equal(c, 'a');
	close(memfd);
	expect_none(1);
	drop_end(0);
	drop_end(1);
	assert_int_equal(open_descriptors(), before);
}

static void test_the_end_is_told_after_the_last_message(void **state)
{
	make_channels(0, 0);
	channel_send(ends[0], MESSAGE_CLOSED, 2, 0, -1);
	drop_end(0);
	expect(1, MESSAGE_CLOSED, 2, 0);
	expect_closed(1);
	/* Sending to an end that is gone is no error, and nothing is queued. */
	channel_send(ends[1], MESSAGE_REQUEST, 2, 0, -1);
	assert_int_equal(ends[1]->n_unsent, 0);
	drop_end(1);
}

/* A single socket has a different number at each end. */
static void test_a_single_socket_has_a_number_at_each_end(void **state)
{
	make_channels(7, 900);
	channel_send(ends[0], MESSAGE_REQUEST, 7, 0, -1);
	expect(1, MESSAGE_REQUEST, 900, 0);
	channel_send(ends[1], MESSAGE_LOST, 900, 0, -1);
	expect(0, MESSAGE_LOST, 7, 0);
	assert_true(channel_holds(ends[0], 7));
	assert_false(channel_holds(ends[0], 6));
	assert_false(channel_holds(ends[0], 900));
	drop_end(0);
	drop_end(1);
}

static void test_the_other_end_holds_what_it_has_not_closed(void **state)
{
	make_channels(0, 0);
	assert_true(channel_holds(ends[0], 1));
	assert_true(channel_holds(ends[0], LAST));
	assert_false(channel_holds(ends[0], LAST + 1));
	assert_true(idset_add(&ends[0]->closed, 5));
	assert_false(channel_holds(ends[0], 5));
	assert_true(channel_holds(ends[0], 4));
	drop_end(0);
	drop_end(1);
}

static void test_serials_are_not_used_again(void **state)
{
	uint64_t serial;

	make_channels(0, 0);
	serial = ends[1]->serial;
	assert_true(ends[0]->serial && ends[0]->serial != serial);
	drop_end(0);
	drop_end(1);
	make_channels(0, 0);
	assert_true(ends[0]->serial > serial && ends[1]->serial > serial);
	drop_end(0);
	drop_end(1);
}

static void test_a_request_is_noted_once(void **state)
{
	unsigned n = 0;

	make_channels(0, 0);
	for (int i = 0; i < 3; i++) {
		channel_note_request(ends[0], 8, -1);
		channel_note_request(ends[0], 2, -1);
	}
	list_for_each(link, &ends[0]->wants)
		assert_int_equal(container_of(link, struct want, link)->id, n++ ? 2 : 8);
	assert_int_equal(n, 2);
	assert_null(channel_want(ends[0], 7));
	channel_want_end(channel_want(ends[0], 8));
	assert_null(channel_want(ends[0], 8));
	assert_int_equal(channel_want(ends[0], 2)->id, 2);
	drop_end(0);
	drop_end(1);
}

/* A process between two others forwards everything except answers, which are for itself. */
static void test_messages_are_relayed(void **state)
{
	struct channel *first[2];
	int memfd;

	make_channels(0, 0);
	first[0] = ends[0];
	first[1] = ends[1];
	make_channels(0, 0);
	channel_send(first[0], MESSAGE_REQUEST, 1, 0, -1);
	channel_send(first[0], MESSAGE_ACK, 1, 0, -1);
	channel_send(first[0], MESSAGE_NACK, 1, MESSAGE_FLAG_UNABLE, memfd_of("twin"));
	channel_send(first[0], MESSAGE_RECEIVED, 1, 0, -1);
	channel_send(first[0], MESSAGE_STAYS, 1, 0, -1);
	channel_send(first[0], MESSAGE_PENDING, 2, 3, memfd_of("y"));
	assert_true(channel_relay(first[1], ends[0]));
	assert_int_equal(expect(1, MESSAGE_REQUEST, 1, 0), -1);
	memfd = expect(1, MESSAGE_PENDING, 2, 3);
	assert_true(memfd >= 0);
	close(memfd);
	expect_none(1);
	channel_destroy(first[0]);
	assert_false(channel_relay(first[1], ends[0]));
	channel_destroy(first[1]);
	drop_end(0);
	drop_end(1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_messages_arrive_in_order),
	cmocka_unit_test(test_a_descriptor_is_sent_and_closed_here),
	cmocka_unit_test(test_messages_wait_for_room),
	cmocka_unit_test(test_an_end_that_does_not_read_breaks_the_channel),
	cmocka_unit_test(test_other_bytes_are_ignored),
	cmocka_unit_test(test_surplus_descriptors_are_closed),
	cmocka_unit_test(test_the_end_is_told_after_the_last_message),
	cmocka_unit_test(test_a_single_socket_has_a_number_at_each_end),
	cmocka_unit_test(test_the_other_end_holds_what_it_has_not_closed),
	cmocka_unit_test(test_serials_are_not_used_again),
	cmocka_unit_test(test_a_request_is_noted_once),
	cmocka_unit_test(test_messages_are_relayed),
};

static int take_control(void **state)
{
	return !control_lock();
}

VMA_TEST_MAIN("channel", tests, take_control, NULL)
