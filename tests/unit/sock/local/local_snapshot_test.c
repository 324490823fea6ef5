/* SPDX-License-Identifier: BSD-2-Clause */
/* A local connection as bytes and a segment in a socket: what is read is what was written. */
#include "sock/local/local_move.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "ring/local/segment.h"
#include "sock/local/local_sock.h"
#include "vma_test.h"

static const char head[] = "what any connection has";
static struct segment segment;

static int setup(void **state)
{
	(void)state;
	return segment_create(&segment, LOCAL_SEGMENT, SEGMENT_PAGE);
}

static int teardown(void **state)
{
	(void)state;
	segment_close(&segment);
	return 0;
}

static struct local_snapshot sample(void)
{
	struct local_snapshot s;

	memset(&s, 0, sizeof(s));
	s.slot = 5;
	s.capacity = LOCAL_RING_MIN;
	s.token = 0x1234567890;
	s.seen = 77;
	s.urgent_done = 76;
	s.moves_seen = 3;
	s.wants_space = 100;
	s.peek_offset = 4;
	s.initiator = s.reported = s.ended = s.died = true;
	s.error = ECONNRESET;
	s.kept_error = EPIPE;
	s.fd = segment.fd;
	return s;
}

/* What is read of the sample after a change of it. */
static int change(void (*fn)(struct local_snapshot *s))
{
	struct local_snapshot s = sample();
	char back[sizeof(head)];
	int fd, rc;

	fn(&s);
	fd = local_snapshot_write(head, sizeof(head), &s);
	assert_true(fd >= 0);
	rc = local_snapshot_read(fd, back, sizeof(back), &s);
	if (!rc)
		sys_close_fd(&s.fd);
	sys_close(fd);
	return rc;
}

static void test_it_can_be_read_more_than_once(void **state)
{
	struct local_snapshot s = sample(), back;
	int fd = local_snapshot_write(head, sizeof(head), &s);
	char text[sizeof(head)];

	(void)state;
	assert_true(fd >= 0);
	assert_true(local_snapshot_is(fd));
	for (int i = 0; i < 2; i++) {
		struct segment again;

		memset(text, 0, sizeof(text));
		assert_int_equal(local_snapshot_read(fd, text, sizeof(text), &back), 0);
		assert_string_equal(text, head);
		assert_int_equal(back.slot, s.slot);
		assert_int_equal(back.capacity, s.capacity);
		assert_int_equal(back.token, s.token);
		assert_int_equal(back.seen, s.seen);
		assert_int_equal(back.urgent_done, s.urgent_done);
		assert_int_equal(back.moves_seen, s.moves_seen);
		assert_int_equal(back.wants_space, s.wants_space);
		assert_int_equal(back.peek_offset, s.peek_offset);
		assert_true(back.initiator && back.reported && back.ended && back.died);
		assert_int_equal(back.error, s.error);
		assert_int_equal(back.kept_error, s.kept_error);
		/* Consumes the descriptor. */
		assert_int_equal(segment_open(&again, back.fd, LOCAL_SEGMENT, 1, 1 << 20), 0);
		segment_close(&again);
	}
	sys_close(fd);
}

static void test_a_memfd_is_none(void **state)
{
	(void)state;
	assert_false(local_snapshot_is(segment.fd));
}

static void nothing(struct local_snapshot *s)
{
}

static void bad_slot(struct local_snapshot *s)
{
	s->slot = LOCAL_CHUNK;
}

static void bad_capacity(struct local_snapshot *s)
{
	s->capacity = LOCAL_RING_MAX * 2;
}

static void odd_capacity(struct local_snapshot *s)
{
	s->capacity = LOCAL_RING_MIN + 1;
}

static void bad_wish(struct local_snapshot *s)
{
	s->wants_space = s->capacity + 1;
}

static void bad_offset(struct local_snapshot *s)
{
	s->peek_offset = -1;
}

static void bad_flag(struct local_snapshot *s)
{
	s->initiator = 2;
}

static void test_what_cannot_be_is_refused(void **state)
{
	(void)state;
	assert_int_equal(change(nothing), 0);
	assert_int_equal(change(bad_slot), -EINVAL);
	assert_int_equal(change(bad_capacity), -EINVAL);
	assert_int_equal(change(odd_capacity), -EINVAL);
	assert_int_equal(change(bad_wish), -EINVAL);
	assert_int_equal(change(bad_offset), -EINVAL);
	assert_int_equal(change(bad_flag), -EINVAL);
}

static void test_of_another_build(void **state)
{
	struct local_snapshot s = sample();
	int fd = local_snapshot_write(head, sizeof(head), &s);
	char text[sizeof(head) + 8];

	(void)state;
	assert_int_equal(local_snapshot_read(fd, text, sizeof(text), &s), -EINVAL);
	assert_int_equal(local_snapshot_read(fd, text, sizeof(head) - 8, &s), -EINVAL);
	sys_close(fd);
}

/* Anybody can put any message into a socket. */
static void test_without_a_descriptor(void **state)
{
	char bytes[sizeof(struct local_snapshot) + sizeof(head)] = "", text[sizeof(head)];
	struct local_snapshot s;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	assert_int_equal(local_snapshot_read(fds[1], text, sizeof(text), &s), -EINVAL);
	assert_int_equal(send(fds[0], bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_int_equal(local_snapshot_read(fds[1], text, sizeof(text), &s), -EINVAL);
	close(fds[0]);
	close(fds[1]);
}

/* ---- the lock ---------------------------------------------------------------------------------- */

static bool is_over(uint32_t slot, unsigned side)
{
	return local_transit_is_over(segment.fd, slot, side);
}

static void test_a_transit_is_over_when_nobody_has_the_file(void **state)
{
	int fd = local_transit_begin(segment.fd, 5, LOCAL_RESPONDER), copy;

	(void)state;
	assert_true(fd >= 0);
	copy = sys_fd_copy(fd);
	assert_false(is_over(5, LOCAL_RESPONDER));
	assert_true(is_over(5, LOCAL_INITIATOR));
	assert_true(is_over(4, LOCAL_RESPONDER));
	sys_close(fd);
	assert_false(is_over(5, LOCAL_RESPONDER));
	sys_close(copy);
	assert_true(is_over(5, LOCAL_RESPONDER));
}

static void test_a_transit_begins_before_the_former_one_ends(void **state)
{
	int first = local_transit_begin(segment.fd, 5, LOCAL_RESPONDER);
	int second = local_transit_begin(first, 5, LOCAL_RESPONDER);

	(void)state;
	assert_true(first >= 0 && second >= 0);
	local_transit_end(first, 5, LOCAL_RESPONDER);
	assert_false(is_over(5, LOCAL_RESPONDER));
	local_transit_end(second, 5, LOCAL_RESPONDER);
	assert_true(is_over(5, LOCAL_RESPONDER));
	sys_close(first);
	sys_close(second);
}

/* What is sent by a message that nobody reads is in transit. */
static void test_a_snapshot_is_in_transit_while_it_can_be_read(void **state)
{
	struct local_snapshot s = sample();
	int fd;

	(void)state;
	s.fd = local_transit_begin(segment.fd, 5, LOCAL_INITIATOR);
	fd = local_snapshot_write(head, sizeof(head), &s);
	assert_true(s.fd >= 0 && fd >= 0);
	sys_close(s.fd);
	assert_false(is_over(5, LOCAL_INITIATOR));
	sys_close(fd);
	assert_true(is_over(5, LOCAL_INITIATOR));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_can_be_read_more_than_once),
	cmocka_unit_test(test_a_memfd_is_none),
	cmocka_unit_test(test_what_cannot_be_is_refused),
	cmocka_unit_test(test_of_another_build),
	cmocka_unit_test(test_without_a_descriptor),
	cmocka_unit_test(test_a_transit_is_over_when_nobody_has_the_file),
	cmocka_unit_test(test_a_transit_begins_before_the_former_one_ends),
	cmocka_unit_test(test_a_snapshot_is_in_transit_while_it_can_be_read),
};

VMA_TEST_MAIN("local_snapshot", tests, setup, teardown)
