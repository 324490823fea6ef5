/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program has local datagrams where their sender has put them: where they are, how long they stay, and what they
 * hold up.
 */
#include "receiver_fixture.h"

#include "sock/core/extra/held.h"
#include "sock/core/extra/sock_extra.h"

static struct held_record taken;
static struct sockaddr_in from;

/* Writes a datagram of n bytes.  False: the ring is full. */
static bool write_some(char byte, size_t n)
{
	static char bytes[RECORD_MAX];
	struct record_header h = header();
	struct iovec iov = {bytes, n};
	int rc;

	memset(bytes, byte, n);
	rc = record_ring_write(&writer, &h, &iov, 1, n);
	assert_true(rc == 0 || rc == -ENOBUFS);
	return !rc;
}

static ssize_t take(void)
{
	struct iovec iov = {&taken, sizeof(taken)};
	struct sock_zcopy zcopy = {.msg = {.msg_iov = &iov,
					   .msg_iovlen = 1,
					   .msg_name = &from,
					   .msg_namelen = sizeof(from)},
				   .force = true};
	ssize_t n = sock_recv_zcopy(sock_ref_of(so), &zcopy, MSG_DONTWAIT);

	assert_int_equal(zcopy.done, n > 0);
	return n;
}

/* The kernel may have to be looked at first. */
static ssize_t take_one(void)
{
	nsec_t until = clock_now() + PATIENCE;
	ssize_t n;

	while ((n = take()) == -EAGAIN)
		assert_true(clock_now() < until);
	return n;
}

static const char *bytes_of(const struct held_record *record)
{
	assert_int_equal(record->n_packet_num, 1);
	assert_int_equal(record->packet.sz_iov, 1);
	return record->packet.iov.iov_base;
}

static bool is_in_ring(const char *at)
{
	const struct segment *s = &so->udp.local->segment;

	return (const uint8_t *)at >= s->base && (const uint8_t *)at < s->base + s->size;
}

static int give_back(const struct held_record *record)
{
	return sock_free_packet(record->packet.packet_id, sock_ref_of(so));
}

static void test_datagrams_are_in_the_ring(void **state)
{
	(void)state;
	open_writer();
	assert_int_equal(take(), -EAGAIN);
	assert_true(write_some('a', 100));
	assert_int_equal(take_one(), 100);
	assert_true(is_in_ring(bytes_of(&taken)));
	assert_int_equal(bytes_of(&taken)[0], 'a');
	assert_int_equal(bytes_of(&taken)[99], 'a');
	assert_int_equal(from.sin_addr.s_addr, HERE);
	assert_int_equal(from.sin_port, htons(5000));
	assert_int_equal(give_back(&taken), 0);
	assert_int_equal(give_back(&taken), -ENOENT);
	assert_int_equal(so->udp.bytes, 0);
	/* Other receives find what a notice has taken. */
	assert_int_equal(write_one(header(), 'b'), 1);
	assert_true(is_in_ring((char *)pkt_payload(so->udp.head)));
	assert_int_equal(take_one(), 1);
	assert_int_equal(bytes_of(&taken)[0], 'b');
	assert_int_equal(give_back(&taken), 0);
}

/* Without a call of the extra API the ring is read as ever. */
static void test_others_are_copied(void **state)
{
	(void)state;
	open_writer();
	assert_int_equal(write_one(header(), 'a'), 1);
	assert_false(is_in_ring((char *)pkt_payload(so->udp.head)));
	assert_null(so->udp.local->keeper);
}

static void test_room_is_used_again_in_its_order(void **state)
{
	struct held_record records[3];
	uint64_t head;

	(void)state;
	open_writer();
	assert_int_equal(take(), -EAGAIN);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(write_some((char)('a' + i), 100));
		assert_int_equal(take_one(), 100);
		records[i] = taken;
	}
	head = so->udp.local->reader.shared->head;
	assert_int_equal(give_back(&records[1]), 0);
	assert_int_equal(so->udp.local->reader.shared->head, head);
	assert_int_equal(bytes_of(&records[0])[99], 'a');
	assert_int_equal(give_back(&records[0]), 0);
	assert_int_equal(so->udp.local->reader.shared->head, head + 2 * record_ring_cells(100));
	assert_int_equal(bytes_of(&records[2])[99], 'c');
	assert_int_equal(give_back(&records[2]), 0);
	assert_int_equal(so->udp.local->reader.shared->head, head + 3 * record_ring_cells(100));
}

/* The ring runs full behind a datagram that the program has, and nothing is written over it. */
static void test_one_old_datagram_fills_the_ring(void **state)
{
	struct held_record old;
	unsigned n = 0;

	(void)state;
	open_writer();
	assert_int_equal(take(), -EAGAIN);
	assert_true(write_some('o', 1000));
	assert_int_equal(take_one(), 1000);
	old = taken;
	while (write_some('n', 1000)) {
		assert_int_equal(take_one(), 1000);
		assert_int_equal(bytes_of(&taken)[0], 'n');
		assert_int_equal(give_back(&taken), 0);
		n++;
	}
	assert_true(n > 10);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(bytes_of(&old)[i], 'o');
	assert_int_equal(give_back(&old), 0);
	assert_int_equal(so->udp.bytes, 0);
	for (unsigned i = 0; i < 3 * n;
	     i++) { /* several times round the end, where some are copied */
		assert_true(write_some('m', 1000));
		assert_int_equal(take_one(), 1000);
		assert_int_equal(bytes_of(&taken)[999], 'm');
		assert_int_equal(give_back(&taken), 0);
	}
}

static void test_a_receiver_that_stops_keeps_its_memory_until_all_are_back(void **state)
{
	struct held_record first;
	const char *at;

	(void)state;
	open_writer();
	assert_int_equal(take(), -EAGAIN);
	assert_true(write_some('a', 100));
	assert_int_equal(take_one(), 100);
	first = taken;
	assert_true(write_some('b', 100));
	assert_int_equal(write_one(header(), 'c'), 2); /* in the queue */
	assert_true(control_lock());
	local_receive_stop(so);
	control_unlock();
	assert_null(so->udp.local->segment.base);
	assert_null(so->udp.local->keeper);
	at = bytes_of(&first);
	assert_int_equal(at[0], 'a');
	assert_int_equal(take_one(), 100);
	assert_int_equal(bytes_of(&taken)[99], 'b');
	assert_int_equal(give_back(&taken), 0);
	assert_int_equal(take_one(), 1);
	assert_int_equal(bytes_of(&taken)[0], 'c');
	assert_int_equal(give_back(&taken), 0);
	assert_int_equal(at[99], 'a');
	assert_int_equal(give_back(&first), 0);
	assert_int_equal(so->udp.bytes, 0);
}

/* holder: the oldest datagram of the queue, from this port; it is given back. */
static void pop_one(uint16_t port, char byte, size_t n)
{
	struct pkt *pkt = so->udp.head;
	struct endpoint source, to;

	assert_non_null(pkt);
	source = frame_source(pkt);
	to = frame_destination(pkt);
	assert_true(is_in_ring((char *)pkt_payload(pkt)));
	assert_int_equal(pkt->len, n);
	assert_int_equal(pkt_payload(pkt)[0], byte);
	assert_int_equal(pkt_payload(pkt)[n - 1], byte);
	assert_int_equal(addr_v4_of(&source.addr), HERE);
	assert_int_equal(source.port, htons(port));
	assert_int_equal(addr_v4_of(&to.addr), HERE);
	assert_int_equal(to.port, so->local.port);
	pkt_free(udp_pop(so));
}

/* A notice takes all that are there, whoever has sent them; the holder gives room back at once. */
static void test_a_burst_stays_in_its_order(void **state)
{
	static const uint16_t ports[] = {5000, 5000, 5001, 5001, 5000};
	const struct record_ring_shared *ring;
	uint64_t head;

	(void)state;
	open_writer();
	assert_int_equal(take(), -EAGAIN);
	ring = so->udp.local->reader.shared;
	head = ring->head;
	for (unsigned i = 0; i < 5; i++) {
		struct record_header h = header();
		char bytes[300];
		struct iovec iov = {bytes, 100 + 50 * i};

		memset(bytes, 'a' + (int)i, sizeof(bytes));
		h.from_port = htons(ports[i]);
		h.ttl = i ? 61 : 60; /* what differs is no run */
		assert_int_equal(record_ring_write(&writer, &h, &iov, 1, iov.iov_len), 0);
		if (i == 2) { /* nobody hears it */
			h.to_port ^= 1;
			assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), 0);
		}
	}
	assert_int_equal(write_one(header(), 'z'), 6);
	assert_int_equal(local_kept_bytes(so->udp.local->keeper),
			 100 + 150 + 200 + 250 + 300 + 1 + 6 * (IP4_HDR + UDP_HDR));
	assert_true(ring_hold_cold(local_ring()));
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(so->udp.head->frame[8], i ? 61 : 60);
		assert_int_equal(so->udp.head->frame[3], (28 + 100 + 50 * i) % 256);
		pop_one(ports[i], (char)('a' + (int)i), 100 + 50 * i);
		assert_true(ring->head > head);
		head = ring->head;
	}
	pop_one(5000, 'z', 1);
	assert_int_equal(ring->head, so->udp.local->reader.next);
	assert_int_equal(local_kept_bytes(so->udp.local->keeper), 0);
	assert_int_equal(so->udp.bytes, 0);
	ring_release_cold(local_ring());
}

/* A run ends where the receive buffer is full, and the rest stays in the ring. */
static void test_a_burst_fills_the_receive_buffer(void **state)
{
	uint32_t n, all = 0;

	(void)state;
	open_writer();
	assert_int_equal(take(), -EAGAIN);
	so->udp.limit = 3000;
	for (unsigned i = 0; i < 20; i++)
		assert_true(write_some('a', 400));
	n = write_one(header(), 'z');
	assert_int_equal(n, 7); /* the last one has 28 and 64 bytes besides, as all have */
	for (; all < 21; all++) {
		assert_int_equal(take(), all < 20 ? 400 : 1);
		assert_int_equal(give_back(&taken), 0);
	}
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(so->udp.bytes, 0);
}

static const struct CMUnitTest tests[] = {
	TEST(test_datagrams_are_in_the_ring),
	TEST(test_others_are_copied),
	TEST(test_room_is_used_again_in_its_order),
	TEST(test_a_burst_stays_in_its_order),
	TEST(test_a_burst_fills_the_receive_buffer),
	TEST(test_one_old_datagram_fills_the_ring),
	TEST(test_a_receiver_that_stops_keeps_its_memory_until_all_are_back),
};

VMA_TEST_MAIN("local_udp_keep", tests, setup, teardown)
