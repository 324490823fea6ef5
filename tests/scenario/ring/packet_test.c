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

static struct frame_large large_of(bool v6, uint8_t proto)
{
	static struct iovec iov[] = {
		{payload, 1}, {payload + 1, 9998}, {payload + 9999, LEN - 9999}};
	struct frame_params params = {
		.src_mac = our_mac, .dst_mac = their_mac, .proto = proto, .ttl = 64};
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
	if (proto == IPPROTO_TCP)
		frame_build_large(&large, &t, &seg, MSS);
	else
		frame_build_large_udp(&large, &t, iov, 3, LEN, MSS);
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

static int receiver(const char *addr, uint16_t port)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	bool v6 = strchr(addr, ':') != NULL;
	int fd;

	inet_pton(AF_INET6, addr, &to.sin6_addr);
	inet_pton(AF_INET, addr, &to4.sin_addr);
	setns(peer_fd, CLONE_NEWNET);
	fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setns(here_fd, CLONE_NEWNET);
	assert_int_equal(bind(fd, v6 ? (void *)&to : (void *)&to4, v6 ? sizeof(to) : sizeof(to4)),
			 0);
	return fd;
}

static ssize_t receive_one(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&pfd, 1, (int)(DEADLINE / NSEC_PER_MSEC)), 1);
	return recv(fd, frame, sizeof(frame), 0);
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
		struct frame_large large = large_of(v6, IPPROTO_TCP);

		assert_int_equal(packet_tx_send(&tx, &large), 0);
		receive(fd, v6);
	}
	packet_tx_close(&tx);
	close(fd);
}

/* The kernel's receiver gets the datagrams, with good checksums. */
static void test_datagrams_in_one_large_segment_arrive_one_by_one(void **state)
{
	static const char *const to[] = {"10.77.0.2", "fd77::2"};
	struct packet_tx tx;

	setns(peer_fd, CLONE_NEWNET);
	shell("ip addr add 10.77.0.2/24 dev v1; sysctl -qw net.ipv6.conf.v1.disable_ipv6=0;"
	      " ip -6 addr add fd77::2/64 dev v1 nodad; ethtool -K v1 rx off > /dev/null");
	/* The kernel makes the address usable a little later. */
	shell("timeout 60 sh -c 'until ip -6 route get fd77::2 | grep -q ^local; do :; done'");
	setns(here_fd, CLONE_NEWNET);
	assert_int_equal(packet_tx_open(&tx, (int)if_nametoindex("v0")), 0);
	for (int v6 = 0; v6 < 2; v6++) {
		struct frame_large large = large_of(v6, IPPROTO_UDP);
		int fd = receiver(to[v6], 2000);

		assert_int_equal(packet_tx_send(&tx, &large), 0);
		for (uint32_t at = 0; at < LEN; at += MSS) {
			uint32_t want = LEN - at < MSS ? LEN - at : MSS;

			assert_int_equal(receive_one(fd), want);
			assert_memory_equal(frame, payload + at, want);
		}
		close(fd);
	}
	packet_tx_close(&tx);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_large_segment_arrives),
	cmocka_unit_test(test_datagrams_in_one_large_segment_arrive_one_by_one),
};

VMA_TEST_MAIN("packet", tests, make_topology, NULL)
