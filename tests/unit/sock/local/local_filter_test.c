/* SPDX-License-Identifier: BSD-2-Clause */
/* The receive callback of a local connection: what it sees, where, and what is left for recv(). */
#include "conn_fixture.h"

#include "sock/core/extra/held.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/local/local_link_internal.h"

#define CAPACITY LOCAL_RING_MIN
#define LIMIT (CAPACITY / 2) /* of its receive buffer */
#define FD 77

static struct byte_ring_reader in;
static struct byte_ring_writer out;
static struct sock_ref ref;
static char buf[CAPACITY];

/* What the callback was told; what it says. */
static struct {
	char bytes[CAPACITY];
	size_t n;
	unsigned calls;
	const uint8_t *last;
	void *held[16];
	unsigned n_held;
	vma_recv_callback_retval_t verdict;
	unsigned passes; /* the call with this number, from 1, says VMA_PACKET_RECV */
	bool ends;	 /* it takes the callback back */
} seen;

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	assert_int_equal(fd, FD);
	assert_int_equal(n, 1);
	assert_int_equal(info->payload_sz, iov->iov_len);
	assert_ptr_equal(context, &seen);
	/* It may write there. */
	assert_int_equal(info->src->sin_port, so->remote.port);
	assert_int_equal(info->dst->sin_port, so->local.port);
	info->src->sin_port = info->dst->sin_port = 0;
	memcpy(seen.bytes + seen.n, iov->iov_base, iov->iov_len);
	seen.n += iov->iov_len;
	seen.last = iov->iov_base;
	seen.calls++;
	if (seen.ends)
		assert_int_equal(sock_set_callback(ref, FD, NULL, NULL), 0);
	if (seen.calls == seen.passes)
		return VMA_PACKET_RECV;
	if (seen.verdict == VMA_PACKET_HOLD)
		seen.held[seen.n_held++] = info->packet_id;
	return seen.verdict;
}

static int open_conn(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	ring_release_cold(local_ring());
	so->local = (struct endpoint){.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = htons(1)};
	so->remote = (struct endpoint){.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = htons(2)};
	ref = sock_ref_of(so);
	control_unlock(); /* with it, no callback runs */
	return 0;
}

static int close_conn(void **state)
{
	(void)state;
	assert_true(control_lock());
	end_without_rest();
	return 0;
}

static void begin_callback(void)
{
	assert_int_equal(sock_set_callback(ref, FD, callback, &seen), 0);
}

/* The peer writes, and posts a notice. */
static void arrive(const char *text)
{
	struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};

	assert_int_equal(byte_ring_write(&out, &iov, 1, 0), strlen(text));
	assert_true(ring_hold_cold(local_ring()));
	notice();
	ring_release_cold(local_ring());
}

static void check_seen(const char *text)
{
	assert_int_equal(seen.n, strlen(text));
	assert_memory_equal(seen.bytes, text, seen.n);
}

static ssize_t read_some(size_t size)
{
	struct iovec iov = {buf, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	memset(buf, 0, sizeof(buf));
	return so->sk.ops->recv(ref, &msg, MSG_DONTWAIT);
}

static void check_read(size_t size, const char *text)
{
	assert_int_equal(read_some(size), strlen(text));
	assert_string_equal(buf, text);
}

static void test_it_sees_bytes_where_they_are(void **state)
{
	(void)state;
	begin_callback();
	arrive("one");
	check_seen("one");
	assert_ptr_equal(seen.last, so->shm.in.data);
	assert_int_equal(byte_ring_space(&out), CAPACITY);
	assert_int_equal(read_some(10), -EAGAIN);
	assert_false(sock_own_events(so) & EPOLLIN);
	arrive("two");
	check_seen("onetwo");
	assert_ptr_equal(seen.last, so->shm.in.data + 3);
}

static void test_what_is_queued_is_read_first(void **state)
{
	(void)state;
	arrive("old");
	begin_callback();
	arrive("new");
	assert_int_equal(seen.calls, 0);
	assert_true(sock_own_events(so) & EPOLLIN);
	check_read(2, "ol");
	check_read(10, "dnew"); /* they have joined */
	arrive("next");
	check_seen("next");
	assert_int_equal(read_some(10), -EAGAIN);
}

/* Bytes that came after the last ones were read are not for recv(), even if no notice was taken yet. */
static void test_recv_does_not_take_what_the_callback_has_to_see(void **state)
{
	struct iovec iov = {(void *)(uintptr_t) "new", 3};

	(void)state;
	arrive("old");
	begin_callback();
	assert_true(so->shm.aside); /* so the quick way does not read */
	check_read(10, "old");
	assert_int_equal(byte_ring_write(&out, &iov, 1, 0), 3);
	assert_int_equal(read_some(10), -EAGAIN);
	assert_int_equal(so->rcvlowat, SOCK_HIDDEN); /* nor does the quick way */
	arrive("er");
	check_seen("newer");
}

static void test_it_passes_one(void **state)
{
	(void)state;
	begin_callback();
	arrive("a");
	seen.passes = 2;
	arrive("bc");
	check_seen("abc");
	assert_true(sock_own_events(so) & EPOLLIN);
	arrive("d");
	check_seen("abc"); /* it joins what waits for recv() */
	check_read(10, "bcd");
	assert_false(sock_own_events(so) & EPOLLIN);
	arrive("e");
	check_seen("abce");
}

static void test_it_holds_packets(void **state)
{
	struct byte_ring_writer *w = &out;
	const uint8_t *first;

	(void)state;
	seen.verdict = VMA_PACKET_HOLD;
	begin_callback();
	arrive("first");
	first = seen.last;
	arrive("second");
	check_seen("firstsecond");
	assert_int_equal(held_count(), 2);
	assert_int_equal(byte_ring_space(w), CAPACITY - 11);
	seen.verdict = VMA_PACKET_DROP;
	arrive("third");
	assert_int_equal(byte_ring_space(w), CAPACITY - 16); /* behind what is held */
	assert_int_equal(sock_free_packet(seen.held[1], ref), 0);
	assert_int_equal(byte_ring_space(w), CAPACITY - 16);
	assert_memory_equal(first, "first", 5);
	assert_int_equal(sock_free_packet(seen.held[0], ref), 0);
	assert_int_equal(byte_ring_space(w), CAPACITY);
	assert_int_equal(sock_free_packet(seen.held[0], ref), -ENOENT);
}

/* When it holds too much, what arrives waits until it has given something back. */
static void test_it_holds_no_more_than_the_receive_buffer(void **state)
{
	char text[LIMIT + 1];

	(void)state;
	memset(text, 'x', LIMIT);
	text[LIMIT] = 0;
	seen.verdict = VMA_PACKET_HOLD;
	begin_callback();
	arrive(text);
	assert_int_equal(seen.calls, 1);
	arrive("more");
	assert_int_equal(seen.calls, 1);
	assert_int_equal(read_some(10), -EAGAIN);
	seen.verdict = VMA_PACKET_DROP;
	assert_int_equal(sock_free_packet(seen.held[0], ref), 0);
	assert_int_equal(seen.calls, 2);
	assert_int_equal(seen.n, LIMIT + 4);
}

static void test_bytes_round_the_end_are_two_packets(void **state)
{
	char text[CAPACITY];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[CAPACITY - 2] = 0;
	begin_callback();
	arrive(text);
	seen.n = seen.calls = 0;
	arrive("abcd");
	assert_int_equal(seen.calls, 2);
	check_seen("abcd");
	assert_ptr_equal(seen.last, so->shm.in.data);
}

static void test_it_is_taken_back(void **state)
{
	(void)state;
	seen.ends = true;
	begin_callback();
	arrive("a");
	check_seen("a");
	arrive("b");
	check_seen("a");
	check_read(10, "b");
	assert_true(so->rcvlowat == 1);
	assert_null(so->shm.filter);
}

static void test_it_is_left_to_recv(void **state)
{
	struct iovec iov = {(void *)(uintptr_t) "u", 1};

	(void)state;
	begin_callback();
	assert_int_equal(byte_ring_write(&out, &iov, 1, BYTE_RING_URGENT), 1);
	arrive("after");
	assert_int_equal(seen.calls, 0);
	check_read(10, "after");
	arrive("next");
	check_seen("next");
}

/* The end of the stream is for recv(), after all was seen. */
static void test_the_end(void **state)
{
	(void)state;
	begin_callback();
	byte_ring_finish(&out);
	assert_true(ring_hold_cold(local_ring()));
	notice();
	ring_release_cold(local_ring());
	assert_true(sock_own_events(so) & EPOLLRDHUP);
	assert_int_equal(read_some(10), 0);
	assert_int_equal(seen.calls, 0);
}

static void test_the_socket_is_closed_with_a_held_packet(void **state)
{
	(void)state;
	seen.verdict = VMA_PACKET_HOLD;
	begin_callback();
	arrive("kept");
	assert_true(control_lock());
	assert_true(ring_hold_cold(local_ring()));
	end();
	ring_release_cold(local_ring());
	so = NULL;
	control_unlock();
	assert_int_equal(link_to_us->used, 1);
	assert_memory_equal(seen.last, "kept", 4);
	assert_int_equal(sock_free_packet(seen.held[0], ref), 0);
	assert_int_equal(link_to_us->used, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_conn, close_conn)

static const struct CMUnitTest tests[] = {
	TEST(test_it_sees_bytes_where_they_are),
	TEST(test_what_is_queued_is_read_first),
	TEST(test_recv_does_not_take_what_the_callback_has_to_see),
	TEST(test_it_passes_one),
	TEST(test_it_holds_packets),
	TEST(test_it_holds_no_more_than_the_receive_buffer),
	TEST(test_bytes_round_the_end_are_two_packets),
	TEST(test_it_is_taken_back),
	TEST(test_it_is_left_to_recv),
	TEST(test_the_end),
	TEST(test_the_socket_is_closed_with_a_held_packet),
};

VMA_TEST_MAIN("local_filter", tests, setup, teardown)
