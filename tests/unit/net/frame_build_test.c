/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/frame.h"

#include <errno.h>

#include "net/tcp/tcp_wire.h"
#include "tests/cut_large.h"
#include "tests/vma_test.h"

#define SEED 20240609u

static const uint8_t src_mac[6] = {2, 0, 0, 0, 0, 1}, dst_mac[6] = {2, 0, 0, 0, 0, 2};
static const struct inaddr src6 = {.b = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
static const struct inaddr dst6 = {.b = {0x20, 0x01, 0x0d, 0xb8, [14] = 0xab, 0xcd}};

static bool v6; /* the family of the test that runs */
static size_t l4;

static int choose(bool is_v6)
{
	v6 = is_v6;
	l4 = ETH_HDR + (v6 ? IP6_HDR : IP4_HDR);
	return 0;
}

static int ip4(void **state)
{
	return choose(false);
}

static int ip6(void **state)
{
	return choose(true);
}

static uint32_t random_word(void)
{
	static uint64_t x = SEED;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16);
}

static struct frame_params params_of(uint8_t proto)
{
	struct frame_params params = {
		.src_mac = src_mac,
		.dst_mac = dst_mac,
		.src = {.addr = addr_v4(htonl(0x0a000001)), .port = htons(1000)},
		.dst = {.addr = addr_v4(htonl(0x0a000002)), .port = htons(2000)},
		.proto = proto,
		.ttl = 64,
	};

	if (v6) {
		params.src.addr = src6;
		params.dst.addr = dst6;
	}
	return params;
}

static struct frame_template template_of(uint8_t proto)
{
	struct frame_params params = params_of(proto);
	struct frame_template t;

	assert_int_equal(frame_template_init(&t, &params), 0);
	return t;
}

static struct pkt parsed(uint8_t *frame, size_t len)
{
	struct pkt pkt = {.frame = frame, .frame_len = (uint32_t)len};
	struct flow_key key;
	enum drop why = frame_parse(&pkt, 0, &key);

	if (why != DROP_NONE)
		fail_msg("%s", drop_text(why));
	assert_int_equal(pkt.frame_len, len);
	assert_int_equal(key.remote_port, htons(1000));
	assert_int_equal(key.local_port, htons(2000));
	return pkt;
}

/* Headers around the payload of this frame make the same frame. */
static void check_udp_around(const struct frame_template *t, const uint8_t *frame, size_t len)
{
	size_t room = l4 + UDP_HDR + len;
	uint8_t *around = malloc(room);

	memset(around, 0x5a, l4 + UDP_HDR);
	memcpy(around + l4 + UDP_HDR, frame + l4 + UDP_HDR, len);
	assert_int_equal(frame_build_udp_around(t, around, len), room);
	assert_memory_equal(around, frame, room);
	free(around);
}

static void check_tcp_around(const struct frame_template *t, const uint8_t *frame,
			     const struct tcp_segment *seg)
{
	size_t hdr = l4 + TCP_HDR + seg->opt_len;
	uint8_t *around = malloc(hdr + seg->len);

	memset(around, 0x5a, hdr);
	memcpy(around + hdr, frame + hdr, seg->len);
	assert_int_equal(frame_build_tcp_around(t, around, seg), hdr + seg->len);
	assert_memory_equal(around, frame, hdr + seg->len);
	free(around);
}

/* Checksums calculated by hand. */
static void test_udp_byte_for_byte(void **state)
{
	/* clang-format off */
	static const uint8_t want[] = {
		/* Ethernet */
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
		/* IP */
		0x45, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0xcc,
		10, 0, 0, 1, 10, 0, 0, 2,
		/* UDP */
		0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0b, 0x1b, 0xbb, 'a', 'b', 'c',
	};
	/* clang-format on */
	struct frame_template t = template_of(IPPROTO_UDP);
	uint8_t frame[64];
	char payload[] = "abc";
	struct iovec iov = {payload, 3};

	assert_int_equal(frame_build_udp(&t, frame, &iov, 1, 3), sizeof(want));
	assert_memory_equal(frame, want, sizeof(want));
}

static void test_udp_of_every_length_parses(void **state)
{
	struct frame_template t = template_of(IPPROTO_UDP);
	uint8_t payload[1472];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)random_word();
	for (size_t len = 0; len <= sizeof(payload); len++) {
		struct iovec iov = {payload, len};
		size_t room = l4 + UDP_HDR + len;
		uint8_t *frame = malloc(room); /* exact size, for AddressSanitizer */
		struct pkt pkt;

		assert_int_equal(frame_build_udp(&t, frame, &iov, 1, len), room);
		pkt = parsed(frame, room);
		assert_int_equal(pkt.len, len);
		assert_memory_equal(pkt_payload(&pkt), payload, len);
		check_udp_around(&t, frame, len);
		free(frame);
	}
}

static void test_udp_in_pieces_is_the_same_frame(void **state)
{
	struct frame_template t = template_of(IPPROTO_UDP);
	uint8_t payload[600], whole[700], pieces[700];
	struct iovec iov[8];

	for (int round = 0; round < 5000; round++) {
		size_t len = random_word() % sizeof(payload), at = 0;

		for (size_t i = 0; i < len; i++)
			payload[i] = (uint8_t)random_word();
		for (int i = 0; i < 8; i++) {
			size_t n = i == 7 ? len - at : random_word() % (len - at + 1);

			iov[i] = (struct iovec){payload + at, n};
			at += n;
		}
		assert_int_equal(frame_build_udp(&t, pieces, iov, 8, len),
				 frame_build_udp(&t, whole, &(struct iovec){payload, len}, 1, len));
		assert_memory_equal(pieces, whole, l4 + UDP_HDR + len);
	}
	assert_int_equal(frame_build_udp(&t, pieces, NULL, 0, 0), l4 + UDP_HDR);
	parsed(pieces, l4 + UDP_HDR);
}

/* RFC 768, RFC 8200 8.1: a checksum of zero is sent as all ones. */
static void test_udp_never_sends_a_checksum_of_zero(void **state)
{
	struct frame_template t = template_of(IPPROTO_UDP);
	uint8_t frame[80];
	int zeros = 0;

	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t payload = (uint16_t)i, csum;
		struct iovec iov = {&payload, 2};

		frame_build_udp(&t, frame, &iov, 1, 2);
		check_udp_around(&t, frame, 2);
		memcpy(&csum, frame + l4 + 6, 2);
		assert_int_not_equal(csum, 0);
		zeros += csum == 0xffff;
		parsed(frame, l4 + UDP_HDR + 2);
	}
	assert_int_equal(zeros, 1);
}

/* RFC 768: except when the program disables checksums; IPv6 needs them. */
static void test_udp_without_a_checksum(void **state)
{
	struct frame_params params = params_of(IPPROTO_UDP);
	struct iovec iov = {(char *)"abc", 3};
	struct frame_template t;
	uint8_t frame[128];
	size_t len;

	params.no_csum = true;
	assert_int_equal(frame_template_init(&t, &params), 0);
	len = frame_build_udp(&t, frame, &iov, 1, 3);
	check_udp_around(&t, frame, 3);
	assert_int_equal(frame[l4 + 6] << 8 | frame[l4 + 7], v6 ? 0x287d : 0);
	assert_int_equal(parsed(frame, len).len, 3);
}

/* Checksums calculated by hand. */
static void test_udp6_byte_for_byte(void **state)
{
	/* clang-format off */
	static const uint8_t want[] = {
		/* Ethernet */
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd,
		/* IP: version 6, traffic class 0xb9, flow label 0x12345, length, UDP, hop limit */
		0x6b, 0x91, 0x23, 0x45, 0x00, 0x0b, 0x11, 0x03,
		0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
		0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd,
		/* UDP */
		0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0b, 0x28, 0x7d, 'a', 'b', 'c',
	};
	/* clang-format on */
	struct frame_params params = params_of(IPPROTO_UDP);
	struct iovec iov = {(char *)"abc", 3};
	struct frame_template t;
	uint8_t frame[80];

	params.tos = 0xb9;
	params.ttl = 3;
	params.label = 0xf12345; /* 20 bits of it */
	assert_int_equal(frame_template_init(&t, &params), 0);
	assert_int_equal(frame_build_udp(&t, frame, &iov, 1, 3), sizeof(want));
	assert_memory_equal(frame, want, sizeof(want));
}

static void test_tcp6_byte_for_byte(void **state)
{
	/* clang-format off */
	static const uint8_t want[] = {
		/* Ethernet */
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd,
		/* IP: traffic class 2, ECT(0), which the segment adds */
		0x60, 0x20, 0x00, 0x00, 0x00, 0x1b, 0x06, 0x40,
		0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
		0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd,
		/* TCP */
		0x03, 0xe8, 0x07, 0xd0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
		0x60, 0x18, 0x12, 0x34, 0xa4, 0x21, 0x00, 0x00, 1, 1, 1, 0, 'a', 'b', 'c',
	};
	/* clang-format on */
	struct frame_params params = params_of(IPPROTO_TCP);
	struct tcp_segment seg = {.seq = 0x01020304,
				  .ack = 0x05060708,
				  .wnd = 0x1234,
				  .flags = TCP_ACK | TCP_PSH,
				  .opt_len = 4,
				  .opts = {1, 1, 1},
				  .ecn = ECN_ECT0,
				  .len = 3,
				  .part = {{(const uint8_t *)"a", 1}, {(const uint8_t *)"bc", 2}}};
	struct frame_template t;
	uint8_t frame[96];

	params.label = FRAME_LABEL_NONE;
	assert_int_equal(frame_template_init(&t, &params), 0);
	assert_int_equal(frame_build_tcp(&t, frame, &seg), sizeof(want));
	assert_memory_equal(frame, want, sizeof(want));
}

static uint32_t label_of(const struct frame_params *params)
{
	struct frame_template t;

	assert_int_equal(frame_template_init(&t, params), 0);
	return (t.bytes[15] & 15u) << 16 | t.bytes[16] << 8 | t.bytes[17];
}

/* As Linux's: of the upper half of the range, the same for each frame of a flow. */
static void test_a_flow_label_is_of_the_flow(void **state)
{
	struct frame_params params = params_of(IPPROTO_TCP);
	uint32_t labels[64], same = 0;

	for (unsigned i = 0; i < 64; i++) {
		params.src.port = htons((uint16_t)(1000 + i));
		labels[i] = label_of(&params);
		assert_int_equal(label_of(&params), labels[i]);
		assert_in_range(labels[i], 0x80000, 0xfffff);
		for (unsigned k = 0; k < i; k++)
			same += labels[k] == labels[i];
	}
	assert_true(same < 4);
}

static void test_ip4_fields_come_from_the_parameters(void **state)
{
	struct frame_params params = params_of(IPPROTO_UDP);
	struct frame_template t;
	uint8_t frame[64];

	params.tos = 0xb9;
	params.ttl = 3;
	assert_int_equal(frame_template_init(&t, &params), 0);
	frame_build_udp(&t, frame, NULL, 0, 0);
	parsed(frame, 42);
	assert_int_equal(frame[15], 0xb9);
	assert_int_equal(frame[18] << 8 | frame[19], 0);
	assert_int_equal(frame[20] << 8 | frame[21], 0x4000); /* DF */
	assert_int_equal(frame[22], 3);
}

static void test_a_new_mac_changes_nothing_else(void **state)
{
	struct frame_template t = template_of(IPPROTO_UDP), before = t;
	static const uint8_t mac[6] = {2, 9, 9, 9, 9, 9};

	frame_template_set_mac(&t, mac);
	assert_memory_equal(t.bytes, mac, 6);
	memcpy(before.bytes, mac, 6);
	assert_memory_equal(&t, &before, sizeof(t));
}

static void test_source_and_destination_are_of_one_family(void **state)
{
	struct frame_params params = params_of(IPPROTO_UDP);
	struct frame_template t;

	params.dst.addr = v6 ? addr_v4(htonl(0x0a000002)) : dst6;
	assert_int_equal(frame_template_init(&t, &params), -EAFNOSUPPORT);
}

static void test_a_template_knows_its_destination(void **state)
{
	struct frame_params params = params_of(IPPROTO_TCP);
	struct frame_template t = template_of(IPPROTO_TCP);
	struct inaddr dst = frame_template_dst(&t);

	assert_true(addr_eq(&dst, &params.dst.addr));
	assert_int_equal(frame_template_ip_hdr(&t), v6 ? IP6_HDR : IP4_HDR);
}

static void test_tcp_round_trip(void **state)
{
	struct frame_template t = template_of(IPPROTO_TCP);
	uint8_t payload[1448];

	for (int round = 0; round < 20000; round++) {
		struct tcp_segment seg = {
			.seq = random_word(),
			.ack = random_word(),
			.wnd = (uint16_t)random_word(),
			.flags = (uint8_t)random_word(),
			.urg = (uint16_t)random_word(),
			.opt_len = (uint8_t)(random_word() % 11 * 4),
			.len = random_word() % (random_word() % 2 ? 8 : sizeof(payload) + 1),
		};
		size_t room = l4 + TCP_HDR + seg.opt_len + seg.len;
		uint8_t *frame = malloc(room);
		const uint8_t *tcp = frame + l4;
		struct pkt pkt;
		uint32_t ack;

		for (uint32_t i = 0; i < seg.len; i++)
			payload[i] = (uint8_t)random_word();
		for (size_t i = 0; i < seg.opt_len; i++)
			seg.opts[i] = (uint8_t)random_word();
		seg.part[0].len = random_word() % (seg.len + 1);
		seg.part[0].data = payload;
		seg.part[1].len = seg.len - seg.part[0].len;
		seg.part[1].data = payload + seg.part[0].len;

		assert_int_equal(frame_build_tcp(&t, frame, &seg), room);
		pkt = parsed(frame, room);
		assert_int_equal(pkt.seq, seg.seq);
		assert_int_equal(pkt.tcp_flags, seg.flags);
		assert_int_equal(pkt.len, seg.len);
		assert_memory_equal(pkt_payload(&pkt), payload, seg.len);
		assert_memory_equal(tcp + 20, seg.opts, seg.opt_len);
		memcpy(&ack, tcp + 8, 4);
		assert_int_equal(ntohl(ack), seg.ack);
		assert_int_equal(tcp[12], (20 + seg.opt_len) / 4 << 4);
		assert_int_equal(tcp[14] << 8 | tcp[15], seg.wnd);
		assert_int_equal(tcp[18] << 8 | tcp[19], seg.urg);
		check_tcp_around(&t, frame, &seg);
		free(frame);
	}
}

/* Splits the payload of a segment at every byte. */
static struct tcp_segment long_segment(const uint8_t *payload, uint32_t len)
{
	uint32_t first = random_word() % (len + 1);
	struct tcp_segment seg = {
		.seq = random_word(),
		.ack = random_word(),
		.wnd = (uint16_t)random_word(),
		.flags = TCP_ACK | (random_word() % 2 ? TCP_PSH : 0),
		.opt_len = (uint8_t)(random_word() % 4 * 4),
		.len = len,
		.part = {{payload, first}, {payload + first, len - first}},
	};

	for (int i = 0; i < seg.opt_len; i++)
		seg.opts[i] = 1;
	return seg;
}

static void test_a_train_is_the_frames_of_its_pieces(void **state)
{
	struct frame_template t = template_of(IPPROTO_TCP);
	static uint8_t payload[70000], frame[2048], want[2048];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)random_word();
	for (int round = 0; round < 2000; round++) {
		uint32_t mss = 1 + random_word() % 1460, len = 1 + random_word() % 20000, n = 0;
		struct tcp_segment seg = long_segment(payload, len), rest = seg, piece;
		struct frame_train train;
		size_t size;

		frame_train_begin(&train, &t, &seg, mss);
		while ((size = frame_train_next(&train, frame))) {
			assert_true(rest.len > 0);
			tcp_segment_cut(&rest, rest.len < mss ? rest.len : mss, &piece);
			assert_int_equal(piece.seq, seg.seq + n);
			assert_int_equal(piece.flags & TCP_PSH, rest.len ? 0 : seg.flags & TCP_PSH);
			n += piece.len;
			assert_int_equal(size, frame_build_tcp(&t, want, &piece));
			assert_memory_equal(frame, want, size);
		}
		assert_int_equal(n, len);
		assert_int_equal(rest.len, 0);
	}
}

/* The device needs nothing but the frame: it makes the frames that a train has. */
static void test_a_large_segment_is_cut_into_the_frames_of_a_train(void **state)
{
	struct frame_template t = template_of(IPPROTO_TCP);
	static uint8_t payload[70000], frame[2048], want[2048];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)random_word();
	for (int round = 0; round < 2000; round++) {
		uint32_t mss = 1 + random_word() % 1460, len = 1 + random_word() % 20000, i = 0;
		struct tcp_segment seg = long_segment(payload, len);
		struct frame_train train;
		struct frame_large large;
		size_t size;

		seg.ecn = random_word() % 2 ? ECN_ECT0 : ECN_NONE;
		frame_build_large(&large, &t, &seg, mss);
		frame_train_begin(&train, &t, &seg, mss);
		while ((size = frame_train_next(&train, want))) {
			assert_int_equal(cut_large(&large, i++, frame), size);
			assert_memory_equal(frame, want, size);
			parsed(frame, size);
		}
		assert_int_equal(i, frame_large_segments(&large));
	}
}

/* The device needs nothing but the frame: it makes the frames of the single datagrams. */
static void test_large_datagrams_are_cut_into_the_frames_of_each(void **state)
{
	struct frame_template t = template_of(IPPROTO_UDP);
	static uint8_t payload[70000], frame[2048], want[2048];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)random_word();
	for (int round = 0; round < 2000; round++) {
		uint32_t mss = 1 + random_word() % 1460, len = 1 + random_word() % 20000;
		uint32_t first = random_word() % len, second = random_word() % (len - first);
		struct iovec iov[] = {{payload, first},
				      {payload + first, second},
				      {payload + first + second, len - first - second}};
		struct frame_large large;

		frame_build_large_udp(&large, &t, iov, 3, len, mss);
		assert_true(frame_large_is_udp(&large));
		for (uint32_t i = 0; i < frame_large_segments(&large); i++) {
			uint32_t at = i * mss, n = len - at < mss ? len - at : mss;
			size_t size = frame_build_udp_of(&t, want, payload + at, n);

			assert_int_equal(cut_large(&large, i, frame), size);
			assert_memory_equal(frame, want, size);
			parsed(frame, size);
		}
	}
}

static void test_the_largest_segment_fits_an_ip_packet(void **state)
{
	struct frame_template t = template_of(IPPROTO_TCP);
	static uint8_t payload[70000];
	struct tcp_segment seg = long_segment(payload, 1);
	struct frame_large large;
	uint32_t len = 65535 - (v6 ? 0 : IP4_HDR) - TCP_HDR - seg.opt_len, at = v6 ? 4 : 2;

	seg.len = len;
	seg.part[0] = (struct tcp_part){payload, len};
	seg.part[1] = (struct tcp_part){NULL, 0};
	frame_build_large(&large, &t, &seg, 1448);
	assert_int_equal(large.head[ETH_HDR + at] << 8 | large.head[ETH_HDR + at + 1], 65535);
	assert_int_equal(large.len, len);
}

#define IP4(f)                                   \
	{                                        \
#f " (IPv4)", f, ip4, NULL, NULL \
	}
#define IP6(f)                                   \
	{                                        \
#f " (IPv6)", f, ip6, NULL, NULL \
	}
#define BOTH(f) IP4(f), IP6(f)

static const struct CMUnitTest tests[] = {
	IP4(test_udp_byte_for_byte),
	IP6(test_udp6_byte_for_byte),
	IP6(test_tcp6_byte_for_byte),
	BOTH(test_udp_of_every_length_parses),
	BOTH(test_udp_in_pieces_is_the_same_frame),
	BOTH(test_udp_never_sends_a_checksum_of_zero),
	BOTH(test_udp_without_a_checksum),
	IP4(test_ip4_fields_come_from_the_parameters),
	IP6(test_a_flow_label_is_of_the_flow),
	BOTH(test_a_new_mac_changes_nothing_else),
	BOTH(test_source_and_destination_are_of_one_family),
	BOTH(test_a_template_knows_its_destination),
	BOTH(test_tcp_round_trip),
	BOTH(test_a_train_is_the_frames_of_its_pieces),
	BOTH(test_a_large_segment_is_cut_into_the_frames_of_a_train),
	BOTH(test_large_datagrams_are_cut_into_the_frames_of_each),
	BOTH(test_the_largest_segment_fits_an_ip_packet),
};

VMA_TEST_MAIN("frame_build", tests, NULL, NULL)
