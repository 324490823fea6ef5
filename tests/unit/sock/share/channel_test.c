/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/channel.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/vma_test.h"

#define LAST 100u

/* Two ends, as of a process and its child. */
static struct channel *end[2];

static void make(uint64_t only0, uint64_t only1)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	end[0] = only0 ? channel_create_only(fds[0], only0) : channel_create(fds[0], LAST);
	end[1] = only1 ? channel_create_only(fds[1], only1) : channel_create(fds[1], LAST);
	assert_non_null(end[0]);
	assert_non_null(end[1]);
}

static void drop(unsigned i)
{
	channel_destroy(end[i]);
	end[i] = NULL;
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

/* The next message at that end is this one; its descriptor. */
static int expect(unsigned i, enum message_kind kind, uint64_t id, uint64_t flags)
{
	struct message message;
	int memfd = -2;

	assert_int_equal(channel_receive(end[i], &message, &memfd), 1);
	assert_int_equal(message.kind, kind);
	assert_int_equal(message.id, id);
	assert_int_equal(message.flags, flags);
	return memfd;
}

static void expect_none(unsigned i)
{
	struct message message;
	int memfd;

	assert_int_equal(channel_receive(end[i], &message, &memfd), 0);
}

static void expect_end(unsigned i)
{
	struct message message;
	int memfd;

	assert_int_equal(channel_receive(end[i], &message, &memfd), -1);
}

static void test_messages_arrive_in_their_order(void **state)
{
	make(0, 0);
	expect_none(1);
	for (uint64_t id = 1; id <= 50; id++)
		channel_send(end[0], MESSAGE_REQUEST, id, id * 2, -1);
	channel_send(end[1], MESSAGE_CLOSED, 3, 0, -1);
	for (uint64_t id = 1; id <= 50; id++)
		assert_int_equal(expect(1, MESSAGE_REQUEST, id, id * 2), -1);
	expect_none(1);
	assert_int_equal(expect(0, MESSAGE_CLOSED, 3, 0), -1);
	expect_none(0);
	drop(0);
	drop(1);
}

static void test_a_descriptor_travels_and_is_closed_here(void **state)
{
	unsigned before = open_descriptors();
	char text[8] = "";
	int memfd;

	make(0, 0);
	channel_send(end[0], MESSAGE_EXPORT, 5, MESSAGE_FLAG_LAST, memfd_of("snap"));
	assert_int_equal(open_descriptors(), before + 2);
	memfd = expect(1, MESSAGE_EXPORT, 5, MESSAGE_FLAG_LAST);
	assert_true(memfd >= 0);
	assert_int_equal(fcntl(memfd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(pread(memfd, text, sizeof(text), 0), 4);
	assert_string_equal(text, "snap");
	close(memfd);
	drop(0);
	drop(1);
	assert_int_equal(open_descriptors(), before);
}

/* What finds no room waits, its descriptor with it, and nothing overtakes it. */
static void test_messages_wait_for_room(void **state)
{
	unsigned before = open_descriptors();
	uint64_t sent = 0, got = 0;

	make(0, 0);
	while (!end[0]->n_unsent)
		channel_send(end[0], MESSAGE_REQUEST, ++sent, 0, -1);
	channel_send(end[0], MESSAGE_EXPORT, ++sent, 0, memfd_of("x"));
	channel_send(end[0], MESSAGE_REQUEST, ++sent, 0, -1);
	assert_int_equal(end[0]->n_unsent, 3);
	assert_false(channel_flush(end[0]));
	for (; got < sent; got++) {
		bool is_give = got + 1 == sent - 1;
		int memfd;

		if (got == sent - 3)
			assert_true(channel_flush(end[0]));
		memfd = expect(1, is_give ? MESSAGE_EXPORT : MESSAGE_REQUEST, got + 1, 0);
		assert_int_equal(memfd >= 0, is_give);
		if (is_give)
			close(memfd);
	}
	expect_none(1);
	assert_int_equal(end[0]->n_unsent, 0);
	drop(0);
	drop(1);
	assert_int_equal(open_descriptors(), before);
}

/* An end that reads nothing does not make us write for ever. */
static void test_who_does_not_read_is_cut_off(void **state)
{
	unsigned before = open_descriptors(), n = 0;

	make(0, 0);
	for (; !end[0]->broken && n < 1000000; n++)
		channel_send(end[0], MESSAGE_EXPORT, 1, 0, n % 100 ? -1 : memfd_of("x"));
	assert_true(end[0]->broken);
	assert_in_range(end[0]->n_unsent, 16384, 16384 + 8 * LAST);
	n = end[0]->n_unsent;
	channel_send(end[0], MESSAGE_EXPORT, 1, 0, memfd_of("late"));
	assert_int_equal(end[0]->n_unsent, n);
	drop(0);
	drop(1);
	assert_int_equal(open_descriptors(), before);
}

static void test_what_is_no_message_is_ignored(void **state)
{
	unsigned before = open_descriptors();
	struct message message, bad;
	int memfd;

	make(0, 0);
	channel_send(end[1], MESSAGE_REQUEST, 1, 0, -1);
	assert_int_equal(channel_receive(end[0], &message, &memfd), 1);
	for (size_t n = 1; n < sizeof(message); n++)
		assert_int_equal(send(end[0]->fd, &message, n, 0), n);
	bad = message;
	bad.magic++;
	assert_int_equal(send(end[0]->fd, &bad, sizeof(bad), 0), sizeof(bad));
	bad = message;
	bad.id = 0;
	assert_int_equal(send(end[0]->fd, &bad, sizeof(bad), 0), sizeof(bad));
	expect_none(1);
	channel_send(end[0], MESSAGE_LOST, 9, 0, -1);
	expect(1, MESSAGE_LOST, 9, 0);
	drop(0);
	drop(1);
	assert_int_equal(open_descriptors(), before);
}

/* Of more descriptors than one the first is taken, and none is left open. */
static void test_descriptors_that_nobody_wants_are_closed(void **state)
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

	make(0, 0);
	channel_send(end[1], MESSAGE_EXPORT, 4, 0, -1);
	assert_int_equal(channel_receive(end[0], &message, &memfd), 1);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(head), fds, sizeof(fds));
	assert_int_equal(sendmsg(end[0]->fd, &msg, 0), sizeof(message));
	message.magic = 0;
	assert_int_equal(sendmsg(end[0]->fd, &msg, 0), sizeof(message));
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	memfd = expect(1, MESSAGE_EXPORT, 4, 0);
	assert_int_equal(pread(memfd, &c, 1, 0), 1);
	assert_int_equal(c, 'a');
	close(memfd);
	expect_none(1);
	drop(0);
	drop(1);
	assert_int_equal(open_descriptors(), before);
}

static void test_the_end_is_told_after_the_last_message(void **state)
{
	make(0, 0);
	channel_send(end[0], MESSAGE_CLOSED, 2, 0, -1);
	drop(0);
	expect(1, MESSAGE_CLOSED, 2, 0);
	expect_end(1);
	/* Sending to nobody is no error, and nothing waits for ever. */
	channel_send(end[1], MESSAGE_REQUEST, 2, 0, -1);
	assert_int_equal(end[1]->n_unsent, 0);
	drop(1);
}

/* One socket, with another number at each end. */
static void test_of_one_socket_each_end_has_its_number(void **state)
{
	make(7, 900);
	channel_send(end[0], MESSAGE_REQUEST, 7, 0, -1);
	expect(1, MESSAGE_REQUEST, 900, 0);
	channel_send(end[1], MESSAGE_LOST, 900, 0, -1);
	expect(0, MESSAGE_LOST, 7, 0);
	assert_true(channel_holds(end[0], 7));
	assert_false(channel_holds(end[0], 6));
	assert_false(channel_holds(end[0], 900));
	drop(0);
	drop(1);
}

static void test_the_other_end_holds_what_it_knows_and_has_not_closed(void **state)
{
	make(0, 0);
	assert_true(channel_holds(end[0], 1));
	assert_true(channel_holds(end[0], LAST));
	assert_false(channel_holds(end[0], LAST + 1));
	assert_true(idset_add(&end[0]->closed, 5));
	assert_false(channel_holds(end[0], 5));
	assert_true(channel_holds(end[0], 4));
	drop(0);
	drop(1);
}

static void test_serials_are_not_used_again(void **state)
{
	uint64_t serial;

	make(0, 0);
	serial = end[1]->serial;
	assert_true(end[0]->serial && end[0]->serial != serial);
	drop(0);
	drop(1);
	make(0, 0);
	assert_true(end[0]->serial > serial && end[1]->serial > serial);
	drop(0);
	drop(1);
}

static void test_a_want_is_noted_once(void **state)
{
	unsigned n = 0;

	make(0, 0);
	for (int i = 0; i < 3; i++) {
		channel_note_request(end[0], 8);
		channel_note_request(end[0], 2);
	}
	list_for_each(link, &end[0]->wants)
		assert_int_equal(container_of(link, struct want, link)->id, n++ ? 2 : 8);
	assert_int_equal(n, 2);
	drop(0);
	drop(1);
}

/* Who stands between two hands on everything but answers, which are for him. */
static void test_messages_are_relayed(void **state)
{
	struct channel *first[2];
	int memfd;

	make(0, 0);
	first[0] = end[0];
	first[1] = end[1];
	make(0, 0);
	channel_send(first[0], MESSAGE_REQUEST, 1, 0, -1);
	channel_send(first[0], MESSAGE_ACK, 1, 0, -1);
	channel_send(first[0], MESSAGE_NACK, 1, MESSAGE_FLAG_UNABLE, memfd_of("twin"));
	channel_send(first[0], MESSAGE_RECEIVED, 1, 0, -1);
	channel_send(first[0], MESSAGE_STAYS, 1, 0, -1);
	channel_send(first[0], MESSAGE_PENDING, 2, 3, memfd_of("y"));
	assert_true(channel_relay(first[1], end[0]));
	assert_int_equal(expect(1, MESSAGE_REQUEST, 1, 0), -1);
	memfd = expect(1, MESSAGE_PENDING, 2, 3);
	assert_true(memfd >= 0);
	close(memfd);
	expect_none(1);
	channel_destroy(first[0]);
	assert_false(channel_relay(first[1], end[0]));
	channel_destroy(first[1]);
	drop(0);
	drop(1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_messages_arrive_in_their_order),
	cmocka_unit_test(test_a_descriptor_travels_and_is_closed_here),
	cmocka_unit_test(test_messages_wait_for_room),
	cmocka_unit_test(test_who_does_not_read_is_cut_off),
	cmocka_unit_test(test_what_is_no_message_is_ignored),
	cmocka_unit_test(test_descriptors_that_nobody_wants_are_closed),
	cmocka_unit_test(test_the_end_is_told_after_the_last_message),
	cmocka_unit_test(test_of_one_socket_each_end_has_its_number),
	cmocka_unit_test(test_the_other_end_holds_what_it_knows_and_has_not_closed),
	cmocka_unit_test(test_serials_are_not_used_again),
	cmocka_unit_test(test_a_want_is_noted_once),
	cmocka_unit_test(test_messages_are_relayed),
};

VMA_TEST_MAIN("channel", tests, NULL, NULL)
