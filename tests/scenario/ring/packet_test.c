/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A large segment by the packet socket, on the pair v0 -- v1 of xdp_veth.h: the kernel takes it for
 * what it is, in both families.
 */
#include "ring/packet/packet_tx.h"

#include <poll.h>

#include "xdp_veth.h"

#define LEN 20000u
#define MSS 1400u

static uint8_t payload[LEN], frame[65536];

static struct frame_large large_of(bool v6)
{
	struct frame_params params = {
		.src_mac = our_mac, .dst_mac = their_mac, .proto = IPPROTO_TCP, .ttl = 64};
	struct tcp_segment seg = {.seq = 1, .wnd = 1000, .flags = 0x18, .len = LEN};
	struct frame_template t;
	struct frame_large large;

	over6 = v6;
	params.src = (struct endpoint){.addr = addr_of("10.77.0.1"), .port = htons(1000)};
	params.dst = (struct endpoint){.addr = addr_of("10.77.0.2"), .port = htons(2000)};
	over6 = false;
	for (uint32_t i = 0; i < LEN; i++)
		payload[i] = (uint8_t)(i * 7 + (i >> 8));
	seg.part[0] = (struct tcp_part){payload, 9999};
	seg.part[1] = (struct tcp_part){payload + 9999, LEN - 9999};
	assert_int_equal(frame_template_init(&t, &params), 0);
	frame_build_large(&large, &t, &seg, MSS);
	return large;
}

/* The peer's kernel gets it as one frame, or in segments. */
static void receive(int fd, bool v6)
{
	uint32_t got = 0;

	while (got < LEN) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		struct pkt pkt = {.frame = frame};
		struct flow_key key;
		ssize_t len;

		assert_int_equal(poll(&pfd, 1, (int)(DEADLINE / NSEC_PER_MSEC)), 1);
		len = recv(fd, frame, sizeof(frame), 0);
		assert_true(len > 0);
		pkt.frame_len = (uint32_t)len;
		assert_int_equal(frame_parse(&pkt, FRAME_PARTIAL_CSUM, &key), DROP_NONE);
		assert_int_equal(addr_is_v4(&key.local), !v6);
		assert_int_equal(pkt.seq, 1 + got);
		assert_true(pkt.len <= LEN - got);
		assert_memory_equal(pkt_payload(&pkt), payload + got, pkt.len);
		got += pkt.len;
	}
}

static void test_a_large_segment_arrives(void **state)
{
	struct packet_tx tx;
	int fd;

	setns(peer_fd, CLONE_NEWNET);
	fd = packet_socket("v1");
	setns(here_fd, CLONE_NEWNET);
	assert_int_equal(packet_tx_open(&tx, (int)if_nametoindex("v0")), 0);
	for (int v6 = 0; v6 < 2; v6++) {
		struct frame_large large = large_of(v6);

		assert_int_equal(packet_tx_send(&tx, &large), 0);
		receive(fd, v6);
	}
	packet_tx_close(&tx);
	close(fd);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_large_segment_arrives),
};

VMA_TEST_MAIN("packet", tests, make_topology, NULL)
