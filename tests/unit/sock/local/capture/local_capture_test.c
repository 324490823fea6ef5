/* SPDX-License-Identifier: BSD-2-Clause */
/* The frames that a capture gets of the initiator's end of a local connection. */
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_move.h"

#include "tests/unit/sock/local/conn_fixture.h"

#include <sys/mman.h>

#include "base/stats/capture.h"
#include "net/frame.h"
#include "net/tcp/tcp_wire.h"
#include "ring/capture.h"

#define SHIFT CAPTURE_SHIFT_MIN

static struct byte_ring_reader in;
static struct byte_ring_writer out;
static char text[LOCAL_RING_MIN];
static const uint8_t *lane; /* what the tool reads; NULL: no capture */
static size_t at;	    /* of the next frame there */
static unsigned left;	    /* calls that were not done at once */

static ssize_t leave_send(int fd, const void *buf, size_t len, int flags)
{
	left++;
	return -1;
}

static ssize_t leave_recv(int fd, void *buf, size_t len, int flags)
{
	left++;
	return -1;
}

static void start(void)
{
	int fd = ring_capture_start(CAPTURE_SNAP_MAX, SHIFT);
	uint8_t *memory;

	assert_true(fd >= 0);
	memory = mmap(NULL, capture_size(SHIFT), PROT_READ, MAP_SHARED, fd, 0);
	assert_true(memory != MAP_FAILED);
	lane = memory + capture_lane_at(0, SHIFT);
	at = 0;
	local_capture();
}

static void stop(void)
{
	ring_capture_stop();
	local_capture();
	munmap((uint8_t *)(uintptr_t)lane - capture_lane_at(0, SHIFT), capture_size(SHIFT));
	lane = NULL;
}

/* As begin_established(), with addresses, and this answer. */
static void begin_answered(enum local_answer answer)
{
	sock_hooks.send = leave_send;
	sock_hooks.recv = leave_recv;
	left = 0;
	assert_true(ring_hold_cold(local_ring()));
	begin();
	so->local = (struct endpoint){.addr = addr_v4(htonl(0x7f000001)), .port = htons(5000)};
	so->remote = (struct endpoint){.addr = addr_v4(htonl(0x7f000002)), .port = htons(7000)};
	so->shm.token = 1;
	assert_int_equal(local_conn_open(so, slot, LOCAL_RING_MIN), 0);
	local_move_begin(so, 0);
	assert_int_equal(byte_ring_reader_open(&in, &shared()->to_responder, slot + SEGMENT_PAGE,
					       LOCAL_RING_MIN),
			 0);
	assert_int_equal(byte_ring_writer_open(&out, &shared()->to_initiator,
					       slot + SEGMENT_PAGE + LOCAL_RING_MAX, LOCAL_RING_MIN,
					       LOCAL_RING_MIN),
			 0);
	/* release: as the responder stores it */
	__atomic_store_n(&shared()->answer, answer, __ATOMIC_RELEASE);
	notice();
	ring_release_cold(local_ring());
}

static void begin_test(void)
{
	begin_answered(LOCAL_ACCEPTED);
}

static void end_test(void)
{
	assert_true(ring_hold_cold(local_ring()));
	end();
	ring_release_cold(local_ring());
	if (lane)
		stop();
}

static const struct sock_ops *ops(void)
{
	return &local_kind.ops[ring_mode_now()];
}

static ssize_t send_text(size_t len)
{
	struct iovec iov = {text, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return ops()->send(sock_ref_of(so), &msg, 0);
}

static ssize_t recv_text(size_t len)
{
	struct iovec iov = {text, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return ops()->recv(sock_ref_of(so), &msg, MSG_DONTWAIT);
}

static void peer_sends(const char *bytes, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)bytes, len};

	assert_int_equal(byte_ring_write(&out, &iov, 1, 0), len);
}

static void look(void)
{
	assert_true(ring_hold_cold(local_ring()));
	notice();
	ring_release_cold(local_ring());
}

/* The next frame is a segment with this sequence number, right checksums, and these bytes. */
static void is_next(bool sent, uint8_t flags, uint32_t seq, const char *bytes, uint32_t len)
{
	struct capture_record r;
	struct flow_key key;
	struct pkt *pkt;

	memcpy(&r, lane + at, sizeof(r));
	assert_int_equal(r.flags, sent ? CAPTURE_SENT : 0);
	assert_int_equal(r.len, r.kept);
	pkt = pkt_blank(r.len);
	assert_non_null(pkt);
	memcpy(pkt->frame, lane + at + sizeof(r), r.len);
	pkt->frame_len = r.len;
	assert_int_equal(frame_parse(pkt, 0, &key), DROP_NONE);
	assert_int_equal(key.remote_port, sent ? so->local.port : so->remote.port);
	assert_true(addr_eq(&key.remote, sent ? &so->local.addr : &so->remote.addr));
	assert_int_equal(key.local_port, sent ? so->remote.port : so->local.port);
	assert_int_equal(pkt->frame[pkt->l4 + 13], flags);
	assert_int_equal(load_be32(tcp_wire_header(pkt) + 4), seq);
	assert_int_equal(pkt->len, len);
	assert_memory_equal(pkt->frame + pkt->off, bytes, len);
	pkt_free(pkt);
	at += r.size;
}

static void nothing_follows(void)
{
	struct capture_record r;

	memcpy(&r, lane + at, sizeof(r));
	assert_int_equal(r.size, 0);
}

static void test_what_is_sent_and_received(void **state)
{
	(void)state;
	begin_test();
	start();
	memcpy(text, "hello", 5);
	assert_int_equal(send_text(5), 5);
	is_next(true, TCP_ACK | TCP_PSH, 1, "hello", 5);
	peer_sends("abcdef", 6);
	assert_int_equal(recv_text(4), 4);
	is_next(false, TCP_ACK | TCP_PSH, 1, "abcdef", 6);
	assert_int_equal(recv_text(4), 2);
	peer_sends("gh", 2);
	look();
	is_next(false, TCP_ACK | TCP_PSH, 7, "gh", 2);
	assert_int_equal(recv_text(4), 2);
	nothing_follows();
	end_test();
}

static void test_nothing_is_done_at_once_meanwhile(void **state)
{
	struct sock_ref ref;

	(void)state;
	begin_test();
	ref = sock_ref_of(so);
	start();
	peer_sends("ab", 2);
	assert_int_equal(ops()->quick_send(7, text, 1, 0, ref), -1);
	assert_int_equal(ops()->quick_recv(7, text, 1, 0, ref), -1);
	assert_int_equal(left, 2);
	stop();
	assert_int_equal(ops()->quick_send(7, text, 1, 0, ref), 1);
	assert_int_equal(ops()->quick_recv(7, text, 1, 0, ref), 1);
	assert_int_equal(left, 2);
	end_test();
}

/* Bytes that were there before are not captured, and those that go round the end of the ring are two frames. */
static void test_a_capture_that_begins_in_the_middle(void **state)
{
	const uint32_t most = LOCAL_RING_MIN / 2;

	(void)state;
	begin_test();
	assert_int_equal(send_text(most), most);
	assert_int_equal(byte_ring_discard(&in, most), most);
	assert_int_equal(send_text(most - 10), most - 10);
	peer_sends("before", 6);
	start();
	memcpy(text, "0123456789abcdef", 16);
	assert_int_equal(send_text(16), 16);
	is_next(true, TCP_ACK, 1 + LOCAL_RING_MIN - 10, "0123456789", 10);
	is_next(true, TCP_ACK | TCP_PSH, 1 + LOCAL_RING_MIN, "abcdef", 6);
	peer_sends("after", 5);
	assert_int_equal(recv_text(100), 11);
	is_next(false, TCP_ACK | TCP_PSH, 7, "after", 5);
	nothing_follows();
	end_test();
}

static void test_the_handshake(void **state)
{
	(void)state;
	start();
	begin_test();
	is_next(true, TCP_SYN, 0, "", 0);
	is_next(false, TCP_SYN | TCP_ACK, 0, "", 0);
	is_next(true, TCP_ACK, 1, "", 0);
	nothing_follows();
	end_test();
}

static void test_a_listener_that_refuses(void **state)
{
	(void)state;
	start();
	begin_answered(LOCAL_REFUSED);
	assert_true(ring_hold_cold(local_ring()));
	local_conn_fail(so, ECONNREFUSED); /* the kernel knows nobody, either */
	ring_release_cold(local_ring());
	is_next(true, TCP_SYN, 0, "", 0);
	is_next(false, TCP_RST | TCP_ACK, 1, "", 0);
	nothing_follows();
	end_test();
}

static void test_both_ends(void **state)
{
	(void)state;
	begin_test();
	start();
	assert_int_equal(ops()->shutdown(sock_ref_of(so), SHUT_WR), 0);
	is_next(true, TCP_ACK | TCP_FIN, 1, "", 0);
	peer_sends("last", 4);
	byte_ring_finish(&out);
	look();
	is_next(false, TCP_ACK | TCP_PSH, 1, "last", 4);
	is_next(false, TCP_ACK | TCP_FIN, 5, "", 0);
	look();
	nothing_follows();
	end_test();
}

static void test_a_reset_by_the_peer(void **state)
{
	(void)state;
	begin_test();
	start();
	byte_ring_reset(&out);
	look();
	is_next(false, TCP_ACK | TCP_RST, 1, "", 0);
	nothing_follows();
	end_test();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_sent_and_received),
	cmocka_unit_test(test_nothing_is_done_at_once_meanwhile),
	cmocka_unit_test(test_a_capture_that_begins_in_the_middle),
	cmocka_unit_test(test_the_handshake),
	cmocka_unit_test(test_a_listener_that_refuses),
	cmocka_unit_test(test_both_ends),
	cmocka_unit_test(test_a_reset_by_the_peer),
};

static int setup_with_list(void **state)
{
	sock_list_init();
	return setup(state);
}

VMA_TEST_MAIN("local_capture", tests, setup_with_list, teardown)
