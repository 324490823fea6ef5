/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/frame.h"

#include <arpa/inet.h>

#include "tests/vma_test.h"

#define SEED 20240608u
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static uint32_t random_word(void)
{
	static uint64_t x = SEED;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16);
}

/* The parameters of a frame; zero means an ordinary IPv4 frame. */
struct shape {
	const char *name;
	uint8_t proto;
	bool vlan, v6;
	uint8_t ip_opts;  /* bytes */
	uint8_t tcp_opts; /* bytes */
	uint8_t padding;  /* bytes after the IP datagram */
	uint16_t payload;
};

/* A frame, and the offsets of its parts. */
struct made {
	uint8_t bytes[2048];
	size_t len, l3, l4, off;
};

static const struct shape shapes[] = {
	{"udp", .proto = IPPROTO_UDP, .payload = 100},
	{"udp, odd", .proto = IPPROTO_UDP, .payload = 33},
	{"udp, empty, padded", .proto = IPPROTO_UDP, .padding = 18},
	{"udp, vlan", .proto = IPPROTO_UDP, .vlan = true, .payload = 5},
	{"udp, ip options", .proto = IPPROTO_UDP, .ip_opts = 40, .payload = 5},
	{"udp, large", .proto = IPPROTO_UDP, .payload = 1472},
	{"udp, ipv6", .proto = IPPROTO_UDP, .v6 = true, .payload = 7, .padding = 3},
	{"tcp", .proto = IPPROTO_TCP, .payload = 1448},
	{"tcp, empty, padded", .proto = IPPROTO_TCP, .padding = 6},
	{"tcp, options", .proto = IPPROTO_TCP, .tcp_opts = 12, .payload = 1},
	{"tcp, most options", .proto = IPPROTO_TCP, .vlan = true, .ip_opts = 40, .tcp_opts = 40,
	 .payload = 9},
	{"tcp, ipv6, vlan", .proto = IPPROTO_TCP, .v6 = true, .vlan = true, .payload = 200},
};

static const uint8_t v4_src[4] = {10, 0, 0, 2}, v4_dst[4] = {10, 0, 0, 1};
static const uint8_t v6_src[16] = {0x20, 1, 0xd, 0xb8, [15] = 2};
static const uint8_t v6_dst[16] = {0x20, 1, 0xd, 0xb8, [15] = 1};

static void put16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static uint32_t naive_sum(uint32_t sum, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	return sum;
}

static uint16_t naive_fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint32_t pseudo_sum(const struct made *m, uint8_t proto, size_t l4_len)
{
	const uint8_t *ip = m->bytes + m->l3;
	uint32_t sum = proto + (uint32_t)l4_len;

	return ip[0] >> 4 == 4 ? naive_sum(sum, ip + 12, 8) : naive_sum(sum, ip + 8, 32);
}

static void set_ip_csum(struct made *m)
{
	uint8_t *ip = m->bytes + m->l3;

	put16(ip + 10, 0);
	put16(ip + 10, (uint16_t)~naive_fold(naive_sum(0, ip, m->l4 - m->l3)));
}

static uint8_t *csum_field(struct made *m, uint8_t proto)
{
	return m->bytes + m->l4 + (proto == IPPROTO_UDP ? 6 : 16);
}

/* l4_len: number of bytes under the checksum. */
static void set_l4_csum(struct made *m, uint8_t proto, size_t l4_len)
{
	uint8_t *field = csum_field(m, proto);
	uint16_t csum;

	put16(field, 0);
	csum = (uint16_t)~naive_fold(
		naive_sum(pseudo_sum(m, proto, l4_len), m->bytes + m->l4, l4_len));
	put16(field, csum ? csum : 0xffff);
}

static void make(struct made *m, const struct shape *s)
{
	size_t l4_hdr = s->proto == IPPROTO_UDP ? UDP_HDR : TCP_HDR + (size_t)s->tcp_opts;
	size_t l4_len = l4_hdr + s->payload;
	uint8_t *ip, *l4;

	memset(m, 0, sizeof(*m));
	m->l3 = s->vlan ? 18 : 14;
	m->l4 = m->l3 + (s->v6 ? 40 : 20 + (size_t)s->ip_opts);
	m->off = m->l4 + l4_hdr;
	m->len = m->l4 + l4_len + s->padding;
	if (s->vlan) {
		put16(m->bytes + 12, 0x8100);
		put16(m->bytes + 14, 0x2007);
	}
	put16(m->bytes + m->l3 - 2, s->v6 ? 0x86dd : 0x0800);
	ip = m->bytes + m->l3;
	l4 = m->bytes + m->l4;
	if (s->v6) {
		ip[0] = 6 << 4;
		put16(ip + 4, l4_len);
		ip[6] = s->proto;
		ip[7] = 64;
		memcpy(ip + 8, v6_src, 16);
		memcpy(ip + 24, v6_dst, 16);
	} else {
		ip[0] = (uint8_t)(4 << 4 | (m->l4 - m->l3) / 4);
		put16(ip + 2, m->l4 - m->l3 + l4_len);
		put16(ip + 6, 0x4000);
		ip[8] = 64;
		ip[9] = s->proto;
		memcpy(ip + 12, v4_src, 4);
		memcpy(ip + 16, v4_dst, 4);
		memset(ip + 20, 1 /* option: no operation */, s->ip_opts);
		set_ip_csum(m);
	}
	put16(l4, 40000);
	put16(l4 + 2, 80);
	if (s->proto == IPPROTO_UDP) {
		put16(l4 + 4, l4_len);
	} else {
		put16(l4 + 4, 0x1234);
		put16(l4 + 6, 0x5678);
		l4[12] = (uint8_t)(l4_hdr / 4 << 4);
		l4[13] = 0x18;
		memset(l4 + 20, 1, s->tcp_opts);
	}
	for (size_t i = m->off; i < m->len; i++)
		m->bytes[i] = (uint8_t)(i * 7 + 1);
	set_l4_csum(m, s->proto, l4_len);
}

/* A frame as most are: no tag, IPv4 without options. */
static bool is_plain(const struct pkt *parsed, const struct flow_key *key)
{
	return addr_is_v4(&key->local) && parsed->l3 == 14 && parsed->l4 == 34;
}

/*
 * Header prediction takes the plain frames of its key that frame_parse() takes, as frame_parse() does,
 * and leaves all others as they are.
 */
static void check_prediction(const struct flow_key *of, const struct pkt *before, unsigned flags,
			     enum drop why, const struct pkt *parsed, const struct flow_key *key)
{
	struct frame_prediction prediction;
	struct pkt pkt = *before;
	bool want = why == DROP_NONE && is_plain(parsed, key) && flow_key_eq(of, key);

	if (!frame_predict(&prediction, of)) {
		assert_false(addr_is_v4(&of->local));
		return;
	}
	assert_int_equal(frame_is_predicted(&pkt, flags, &prediction), want);
	if (want && key->proto == IPPROTO_UDP) { /* not the packet's */
		assert_int_equal(parsed->seq, before->seq);
		assert_int_equal(parsed->tcp_flags, before->tcp_flags);
	}
	assert_memory_equal(&pkt, want ? parsed : before, sizeof(pkt));
}

/*
 * Parses a copy of exactly len bytes, so that AddressSanitizer sees an overrun; checks that a
 * refused packet is unchanged.
 */
static enum drop parse_flags(const uint8_t *bytes, size_t len, uint8_t pkt_flags, unsigned flags,
			     struct pkt *out, struct flow_key *key)
{
	uint8_t *frame = malloc(len ? len : 1);
	struct pkt pkt = {.frame = frame,
			  .frame_len = (uint32_t)len,
			  .flags = pkt_flags,
			  .seq = 99,
			  .l3 = 98,
			  .l4 = 97,
			  .off = 96,
			  .len = 95,
			  .tcp_flags = 94};
	struct pkt before = pkt;
	static struct flow_key last; /* of the last frame that was taken */
	static bool any;
	enum drop why;

	memcpy(frame, bytes, len);
	memset(key, 0xff, sizeof(*key));
	why = frame_parse(&pkt, flags, key);
	if (why != DROP_NONE)
		assert_memory_equal(&pkt, &before, sizeof(pkt));
	if (any)
		check_prediction(&last, &before, flags, why, &pkt, key);
	if (why == DROP_NONE) {
		last = *key;
		any = true;
		check_prediction(&last, &before, flags, why, &pkt, key);
	}
	assert_memory_equal(frame, bytes, len);
	free(frame);
	*out = pkt;
	out->frame = NULL;
	return why;
}

static enum drop parse(const struct made *m)
{
	struct flow_key key;
	struct pkt pkt;

	return parse_flags(m->bytes, m->len, 0, 0, &pkt, &key);
}

static void check_drop(enum drop got, enum drop want)
{
	if (got != want)
		fail_msg("\"%s\" instead of \"%s\"", drop_text(got), drop_text(want));
}

static void test_valid_frames(void **state)
{
	for (size_t i = 0; i < LENGTH(shapes); i++) {
		const struct shape *s = &shapes[i];
		struct flow_key key, want;
		struct endpoint src, dst;
		struct made m;
		struct pkt pkt;

		print_message("%s\n", s->name);
		make(&m, s);
		check_drop(parse_flags(m.bytes, m.len, 0, 0, &pkt, &key), DROP_NONE);
		assert_int_equal(pkt.l3, m.l3);
		assert_int_equal(pkt.l4, m.l4);
		assert_int_equal(pkt.off, m.off);
		assert_int_equal(pkt.len, s->payload);
		assert_int_equal(pkt.frame_len, m.len - s->padding);
		if (s->proto == IPPROTO_TCP) {
			assert_int_equal(pkt.seq, 0x12345678);
			assert_int_equal(pkt.tcp_flags, 0x18);
		}

		memset(&want, 0, sizeof(want));
		if (s->v6) {
			memcpy(&want.local, v6_dst, 16);
			memcpy(&want.remote, v6_src, 16);
		} else {
			want.local = addr_v4(htonl(0x0a000001));
			want.remote = addr_v4(htonl(0x0a000002));
		}
		want.local_port = htons(80);
		want.remote_port = htons(40000);
		want.proto = s->proto;
		assert_memory_equal(&key, &want, sizeof(key)); /* including its padding */

		pkt.frame = m.bytes;
		src = frame_source(&pkt);
		dst = frame_destination(&pkt);
		assert_true(addr_eq(&src.addr, &want.remote) && src.port == want.remote_port);
		assert_true(addr_eq(&dst.addr, &want.local) && dst.port == want.local_port);
	}
}

/* Whatever part of the key differs, the frame is not taken for that of the prediction. */
static void test_a_prediction_is_of_one_key(void **state)
{
	static const struct shape udp = {.proto = IPPROTO_UDP, .payload = 30},
				  tcp = {.proto = IPPROTO_TCP, .payload = 30};

	for (int of_tcp = 0; of_tcp < 2; of_tcp++) {
		struct made m;

		make(&m, of_tcp ? &tcp : &udp);
		for (size_t bit = 0; bit < 8 * sizeof(struct flow_key); bit++) {
			struct frame_prediction prediction;
			struct pkt pkt = {.frame = m.bytes, .frame_len = (uint32_t)m.len};
			struct flow_key key;

			assert_int_equal(frame_parse(&pkt, 0, &key), DROP_NONE);
			pkt = (struct pkt){.frame = m.bytes, .frame_len = (uint32_t)m.len};
			assert_true(frame_predict(&prediction, &key));
			assert_true(frame_is_predicted(&pkt, 0, &prediction));
			((uint8_t *)&key)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (bit / 8 >= offsetof(struct flow_key, pad))
				continue;
			pkt = (struct pkt){.frame = m.bytes, .frame_len = (uint32_t)m.len};
			if (frame_predict(&prediction, &key))
				assert_false(frame_is_predicted(&pkt, 0, &prediction));
			else
				assert_false(addr_is_v4(&key.local) && addr_is_v4(&key.remote));
		}
	}
}

static void test_no_frame_survives_truncation(void **state)
{
	for (size_t i = 0; i < LENGTH(shapes); i++) {
		const struct shape *s = &shapes[i];
		struct flow_key key;
		struct made m;
		struct pkt pkt;

		make(&m, s);
		for (size_t len = 0; len < m.len - s->padding; len++) {
			enum drop why = parse_flags(m.bytes, len, PKT_CSUM_OK, 0, &pkt, &key);

			if (why != DROP_SHORT && why != DROP_IP_LENGTH)
				fail_msg("%s cut to %zu: %s", s->name, len, drop_text(why));
		}
		for (size_t len = m.len - s->padding; len <= m.len; len++)
			check_drop(parse_flags(m.bytes, len, 0, 0, &pkt, &key), DROP_NONE);
	}
}

/*
 * Flips each bit under a checksum: no frame is accepted, unless the bit makes it a frame for
 * others.
 */
static void test_no_flipped_bit_goes_unnoticed(void **state)
{
	for (size_t i = 0; i < LENGTH(shapes); i++) {
		const struct shape *s = &shapes[i];
		struct made m;

		make(&m, s);
		for (size_t at = m.l3; at < m.len - s->padding; at++) {
			/*
			 * IPv6 has no checksum over its header; only version and payload length
			 * are checked
			 */
			if (s->v6 && at < m.l3 + 8)
				continue;
			for (int bit = 0; bit < 8; bit++) {
				m.bytes[at] ^= (uint8_t)(1 << bit);
				if (parse(&m) == DROP_NONE)
					fail_msg("%s: byte %zu bit %d", s->name, at, bit);
				m.bytes[at] ^= (uint8_t)(1 << bit);
			}
		}
	}
}

/* As Linux. ::ffff:a.b.c.d is an IPv4 address for programs only, not in frames. */
static void test_addresses_that_no_frame_may_have(void **state)
{
	static const struct {
		const char *text;
		bool from, to; /* allowed as source, as destination */
	} rows[] = {
		{"2001:db8::7", true, true}, {"fe80::7", true, true},
		{"::", true, true},	     {"::7", true, true},
		{"::1", false, false},	     {"::ffff:10.0.0.1", false, false},
		{"ff02::5", false, true},    {"ff0e::5", false, true},
		{"ff10::5", false, false},   {"ff11::5", false, false},
	};
	struct shape s = {.proto = IPPROTO_UDP, .v6 = true, .payload = 100};

	for (size_t i = 0; i < LENGTH(rows); i++) {
		for (int to = 0; to < 2; to++) {
			bool ok = to ? rows[i].to : rows[i].from;
			struct made m;

			print_message("%s %s\n", to ? "to" : "from", rows[i].text);
			make(&m, &s);
			inet_pton(AF_INET6, rows[i].text, m.bytes + m.l3 + (to ? 24 : 8));
			set_l4_csum(&m, s.proto, m.len - m.l4);
			check_drop(parse(&m), ok ? DROP_NONE : DROP_SOURCE);
		}
	}
}

/* A source route, or an option that is malformed, is no business of a program. */
static void test_source_routes_and_malformed_options_are_dropped(void **state)
{
	static const struct {
		const char *name;
		uint8_t options[8];
		enum drop why;
	} rows[] = {
		{"no-operations", {1, 1, 1, 1, 1, 1, 1, 1}, DROP_NONE},
		{"record route", {7, 7, 4, 0, 0, 0, 0, 0}, DROP_NONE},
		{"router alert", {148, 4, 0, 0, 148, 4, 0, 0}, DROP_NONE},
		{"unknown", {94, 8, 1, 2, 3, 4, 5, 6}, DROP_NONE},
		{"end, then anything", {1, 0, 131, 0, 137, 255, 7, 1}, DROP_NONE},
		{"loose source route", {131, 7, 4, 10, 9, 0, 1, 0}, DROP_IP_OPTION},
		{"loose source route, at its end", {131, 7, 8, 10, 9, 0, 1, 0}, DROP_IP_OPTION},
		{"strict source route", {137, 7, 4, 10, 9, 0, 1, 0}, DROP_IP_OPTION},
		{"source route behind others", {1, 148, 4, 0, 0, 137, 3, 4}, DROP_IP_OPTION},
		{"of length 0", {7, 0, 0, 0, 0, 0, 0, 0}, DROP_IP_OPTION},
		{"of length 1", {7, 1, 0, 0, 0, 0, 0, 0}, DROP_IP_OPTION},
		{"beyond the header", {7, 9, 4, 0, 0, 0, 0, 0}, DROP_IP_OPTION},
		{"without a length", {1, 1, 1, 1, 1, 1, 1, 7}, DROP_IP_OPTION},
	};
	struct shape s = {.proto = IPPROTO_UDP, .ip_opts = sizeof(rows[0].options), .payload = 30};

	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct made m;

		print_message("%s\n", rows[i].name);
		make(&m, &s);
		memcpy(m.bytes + m.l3 + 20, rows[i].options, sizeof(rows[i].options));
		set_ip_csum(&m);
		check_drop(parse(&m), rows[i].why);
	}
}

/* A partial checksum is not sent again: IPv4 gets none, IPv6 a complete one. */
static void test_a_datagram_is_sent_again(void **state)
{
	for (int v6 = 0; v6 < 2; v6++) {
		struct shape s = {.proto = IPPROTO_UDP, .v6 = v6, .payload = 101};
		struct flow_key key;
		struct pkt pkt;
		struct made m;
		size_t len;

		make(&m, &s);
		pkt = (struct pkt){.frame = m.bytes, .frame_len = (uint32_t)m.len};
		assert_int_equal(frame_parse(&pkt, 0, &key), DROP_NONE);
		m.bytes[m.l4 + 6] ^= 0x55;
		assert_ptr_equal(frame_udp_again(&pkt, &len), m.bytes + m.l3);
		assert_int_equal(len, m.len - m.l3);
		assert_int_equal(m.bytes[m.l4 + 6] | m.bytes[m.l4 + 7] ? 1 : 0, v6);
		pkt = (struct pkt){.frame = m.bytes, .frame_len = (uint32_t)m.len};
		assert_int_equal(frame_parse(&pkt, 0, &key), DROP_NONE);
	}
}

/* Sets one field of the first shape of a protocol to a wrong value, and corrects the checksums. */
static void test_bad_fields(void **state)
{
	enum { ETH, IP, L4 };
	static const struct {
		const char *name;
		enum drop why;
		uint8_t proto;
		bool v6;
		int part;
		uint8_t at, width;
		uint16_t value;
	} rows[] = {
		{"arp", DROP_ETHERTYPE, IPPROTO_UDP, false, ETH, 12, 2, 0x0806},
		{"802.3 length", DROP_ETHERTYPE, IPPROTO_UDP, false, ETH, 12, 2, 100},
		{"service tag", DROP_ETHERTYPE, IPPROTO_UDP, false, ETH, 12, 2, 0x88a8},
		{"ip4 as ip6", DROP_IP_VERSION, IPPROTO_UDP, false, ETH, 12, 2, 0x86dd},
		{"ip6 as ip4", DROP_IP_VERSION, IPPROTO_UDP, true, ETH, 12, 2, 0x0800},
		{"version 5", DROP_IP_VERSION, IPPROTO_UDP, false, IP, 0, 1, 0x55},
		{"header of 0", DROP_IP_VERSION, IPPROTO_UDP, false, IP, 0, 1, 0x40},
		{"header of 16", DROP_IP_VERSION, IPPROTO_UDP, false, IP, 0, 1, 0x44},
		{"total below header", DROP_IP_LENGTH, IPPROTO_UDP, false, IP, 2, 2, 19},
		{"total of 0", DROP_IP_LENGTH, IPPROTO_UDP, false, IP, 2, 2, 0},
		{"total beyond frame", DROP_IP_LENGTH, IPPROTO_UDP, false, IP, 2, 2, 129},
		{"total of 65535", DROP_IP_LENGTH, IPPROTO_UDP, false, IP, 2, 2, 65535},
		{"total without udp", DROP_UDP_LENGTH, IPPROTO_UDP, false, IP, 2, 2, 27},
		{"total without tcp", DROP_TCP_OFFSET, IPPROTO_TCP, false, IP, 2, 2, 39},
		{"more fragments", DROP_IP_FRAGMENT, IPPROTO_UDP, false, IP, 6, 2, 0x2000},
		{"last fragment", DROP_IP_FRAGMENT, IPPROTO_TCP, false, IP, 6, 2, 0x0001},
		{"far fragment", DROP_IP_FRAGMENT, IPPROTO_TCP, false, IP, 6, 2, 0x1fff},
		{"icmp", DROP_IP_PROTO, IPPROTO_UDP, false, IP, 9, 1, IPPROTO_ICMP},
		{"protocol 0", DROP_IP_PROTO, IPPROTO_UDP, false, IP, 9, 1, 0},
		{"evil bit", DROP_NONE, IPPROTO_UDP, false, IP, 6, 2, 0x8000},
		{"ip6 version 7", DROP_IP_VERSION, IPPROTO_UDP, true, IP, 0, 1, 0x70},
		{"ip6 beyond frame", DROP_IP_LENGTH, IPPROTO_UDP, true, IP, 4, 2, 109},
		{"ip6 without udp", DROP_UDP_LENGTH, IPPROTO_UDP, true, IP, 4, 2, 7},
		{"ip6 empty", DROP_TCP_OFFSET, IPPROTO_TCP, true, IP, 4, 2, 0},
		{"ip6 fragment", DROP_IP_FRAGMENT, IPPROTO_UDP, true, IP, 6, 1, 44},
		{"ip6 encrypted", DROP_IP_PROTO, IPPROTO_UDP, true, IP, 6, 1, 50},
		{"ip6 hop by hop", DROP_IP_LENGTH, IPPROTO_UDP, true, IP, 6, 1, 0},
		{"udp length of 0", DROP_UDP_LENGTH, IPPROTO_UDP, false, L4, 4, 2, 0},
		{"udp length of 7", DROP_UDP_LENGTH, IPPROTO_UDP, false, L4, 4, 2, 7},
		{"udp beyond ip", DROP_UDP_LENGTH, IPPROTO_UDP, false, L4, 4, 2, 109},
		{"udp of 65535", DROP_UDP_LENGTH, IPPROTO_UDP, true, L4, 4, 2, 65535},
		{"tcp offset of 0", DROP_TCP_OFFSET, IPPROTO_TCP, false, L4, 12, 1, 0x00},
		{"tcp offset of 16", DROP_TCP_OFFSET, IPPROTO_TCP, false, L4, 12, 1, 0x40},
	};

	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct shape s = {.proto = rows[i].proto, .v6 = rows[i].v6, .payload = 100};
		struct made m;
		size_t l4_len;
		uint8_t *p;

		print_message("%s\n", rows[i].name);
		make(&m, &s);
		l4_len = m.len - m.l4;
		p = m.bytes +
		    (rows[i].part == IP	  ? m.l3
		     : rows[i].part == L4 ? m.l4
					  : 0) +
		    rows[i].at;
		if (rows[i].width == 2)
			put16(p, rows[i].value);
		else
			*p = (uint8_t)rows[i].value;
		if (!s.v6)
			set_ip_csum(&m);
		if (rows[i].part == L4)
			set_l4_csum(&m, s.proto, l4_len);
		check_drop(parse(&m), rows[i].why);
	}
}

/* Puts size bytes of extension headers, which ends with the protocol, behind the header of IPv6. */
static void insert_headers(struct made *m, uint8_t first, const uint8_t *headers, size_t size)
{
	uint8_t *ip = m->bytes + m->l3;

	memmove(m->bytes + m->l4 + size, m->bytes + m->l4, m->len - m->l4);
	memcpy(m->bytes + m->l4, headers, size);
	ip[6] = first;
	put16(ip + 4, m->len - m->l4 + size);
	m->l4 += size;
	m->off += size;
	m->len += size;
}

static void check_place(const struct made *m)
{
	struct flow_key key;
	struct pkt pkt;

	check_drop(parse_flags(m->bytes, m->len, 0, 0, &pkt, &key), DROP_NONE);
	assert_int_equal(pkt.l3, m->l3);
	assert_int_equal(pkt.l4, m->l4);
	assert_int_equal(pkt.off, m->off);
	assert_int_equal(pkt.len, m->len - m->off);
	assert_int_equal(pkt.frame_len, m->len);
	assert_int_equal(key.proto, IPPROTO_TCP);
	assert_int_equal(key.local_port, htons(80));
}

/* Those that the kernel takes, in front of a segment; others are dropped. */
static void test_extension_headers(void **state)
{
	enum { HOP = 0, TCP = 6, ROUTE = 43, FRAG = 44, DEST = 60 };
	static const struct {
		const char *name;
		enum drop why;
		uint8_t first, size;
		uint8_t bytes[24];
	} rows[] = {
		{"padding", DROP_NONE, HOP, 8, {TCP, 0, 1, 4}},
		{"single bytes of padding", DROP_NONE, DEST, 8, {TCP}},
		{"an option to skip", DROP_NONE, DEST, 8, {TCP, 0, 0x1e, 4}},
		{"an option that ends the header", DROP_NONE, DEST, 8, {TCP, 0, 0, 0, 0, 0, 5, 0}},
		{"to discard", DROP_IP_OPTION, DEST, 8, {TCP, 0, 0x5e, 4}},
		{"to report", DROP_IP_OPTION, HOP, 8, {TCP, 0, 0x9e, 4}},
		{"to report but for groups", DROP_IP_OPTION, HOP, 8, {TCP, 0, 0, 0, 0, 0, 0xde, 0}},
		{"an option beyond", DROP_IP_OPTION, DEST, 8, {TCP, 0, 1, 5}},
		{"an option without length", DROP_IP_OPTION, DEST, 8, {TCP, 0, 1, 3, 0, 0, 0, 1}},
		{"of 16 bytes", DROP_NONE, DEST, 16, {TCP, 1, 0x1e, 12}},
		{"padding of 8 bytes",
		 DROP_IP_OPTION,
		 DEST,
		 16,
		 {TCP, 1, 0x1e, 4, 0, 0, 0, 0, 1, 6}},
		{"padding of 8 bytes in two", DROP_IP_OPTION, DEST, 16, {TCP, 1, 1, 2, 0, 0, 1, 2}},
		{"padding of twice 7 bytes", DROP_NONE, DEST, 24, {TCP, 2,    0, 1, 4,	  0, 0, 0,
								   0,	0x1e, 2, 0, 0,	  1, 5, 0,
								   0,	0,    0, 0, 0x1e, 2}},
		{"padding that is used", DROP_IP_OPTION, DEST, 8, {TCP, 0, 1, 4, 0, 0, 0, 1}},
		{"longer than the packet", DROP_IP_LENGTH, DEST, 8, {TCP, 16, 1, 4}},
		{"a route that has ended", DROP_NONE, ROUTE, 8, {TCP, 0, 0, 0}},
		{"a home route that has ended", DROP_IP_OPTION, ROUTE, 8, {TCP, 0, 2, 0}},
		{"a segment route that has ended", DROP_IP_OPTION, ROUTE, 8, {TCP, 0, 4, 0}},
		{"a route", DROP_IP_OPTION, ROUTE, 8, {TCP, 0, 0, 1}},
		{"a whole fragment", DROP_NONE, FRAG, 8, {TCP, 0, 0, 0, 1, 2, 3, 4}},
		{"a whole fragment, its length is reserved", DROP_NONE, FRAG, 8, {TCP, 255, 0, 6}},
		{"the first of more fragments", DROP_IP_FRAGMENT, FRAG, 8, {TCP, 0, 0, 1}},
		{"the last fragment", DROP_IP_FRAGMENT, FRAG, 8, {TCP, 0, 0, 8}},
		{"two", DROP_NONE, HOP, 16, {DEST, 0, 1, 4, 0, 0, 0, 0, TCP, 0, 1, 4}},
		{"two in the wrong order", DROP_IP_PROTO, DEST, 16, {HOP, 0, 1, 4, 0, 0, 0, 0, TCP}},
		{"hop by hop twice", DROP_IP_PROTO, HOP, 16, {HOP, 0, 1, 4, 0, 0, 0, 0, TCP}},
		{"three",
		 DROP_NONE,
		 HOP,
		 24,
		 {ROUTE, 0, 0, 0, 0, 0, 0, 0, FRAG, 0, 0, 0, 0, 0, 0, 0, TCP}},
		{"before another protocol", DROP_IP_PROTO, HOP, 8, {58, 0, 1, 4}},
		{"before nothing", DROP_IP_PROTO, HOP, 8, {59, 0, 1, 4}},
	};

	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct shape s = {.proto = IPPROTO_TCP, .v6 = true, .payload = 30};
		struct made m;

		print_message("%s\n", rows[i].name);
		make(&m, &s);
		insert_headers(&m, rows[i].first, rows[i].bytes, rows[i].size);
		check_drop(parse(&m), rows[i].why);
		if (rows[i].why == DROP_NONE)
			check_place(&m);
	}
}

static void test_tcp_options_beyond_the_segment(void **state)
{
	struct shape s = {.proto = IPPROTO_TCP, .payload = 3};
	struct made m;

	make(&m, &s);
	m.bytes[m.l4 + 12] = 6 << 4; /* 24 bytes of header in 23 bytes */
	set_l4_csum(&m, IPPROTO_TCP, m.len - m.l4);
	check_drop(parse(&m), DROP_TCP_OFFSET);
}

static void test_udp_shorter_than_ip_is_cut(void **state)
{
	struct shape s = {.proto = IPPROTO_UDP, .payload = 100};
	struct flow_key key;
	struct made m;
	struct pkt pkt;

	make(&m, &s);
	put16(m.bytes + m.l4 + 4, 8 + 31);
	set_l4_csum(&m, IPPROTO_UDP, 8 + 31);
	check_drop(parse_flags(m.bytes, m.len, 0, 0, &pkt, &key), DROP_NONE);
	assert_int_equal(pkt.len, 31);
}

static void test_a_udp_checksum_of_zero_means_none_in_ipv4_only(void **state)
{
	struct shape s = {.proto = IPPROTO_UDP, .payload = 10};
	struct flow_key key;
	struct made m;
	struct pkt pkt;

	make(&m, &s);
	put16(csum_field(&m, IPPROTO_UDP), 0);
	m.bytes[m.off] ^= 0xff;
	check_drop(parse(&m), DROP_NONE);

	s.v6 = true;
	make(&m, &s);
	put16(csum_field(&m, IPPROTO_UDP), 0);
	check_drop(parse(&m), DROP_UDP_CSUM);
	/* ... also if the card takes it for a checksum that need not be there. */
	check_drop(parse_flags(m.bytes, m.len, PKT_CSUM_OK, 0, &pkt, &key), DROP_UDP_CSUM);
}

/* A card may take the length of the IP packet for that of the datagram. */
static void test_a_short_datagram_is_summed_although_the_port_did(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct shape s = {.v6 = v6, .proto = IPPROTO_UDP, .payload = 40};
		struct frame_prediction prediction;
		struct flow_key key;
		struct made m;
		struct pkt pkt;

		make(&m, &s);
		check_drop(parse_flags(m.bytes, m.len, 0, 0, &pkt, &key), DROP_NONE);
		put16(m.bytes + m.l4 + 4, 8 + 31);
		check_drop(parse_flags(m.bytes, m.len, PKT_CSUM_OK, 0, &pkt, &key), DROP_UDP_CSUM);
		if (frame_predict(&prediction, &key)) {
			pkt = (struct pkt){.frame = m.bytes,
					   .frame_len = (uint32_t)m.len,
					   .flags = PKT_CSUM_OK};
			assert_false(frame_is_predicted(&pkt, 0, &prediction));
		}
		set_l4_csum(&m, IPPROTO_UDP, 8 + 31);
		check_drop(parse_flags(m.bytes, m.len, PKT_CSUM_OK, 0, &pkt, &key), DROP_NONE);
		assert_int_equal(pkt.len, 31);
	}
}

/* In TCP a checksum field of zero is an ordinary value. */
static void test_a_tcp_checksum_of_zero_is_checked(void **state)
{
	struct shape s = {.proto = IPPROTO_TCP, .payload = 10};
	struct made m;

	make(&m, &s);
	put16(csum_field(&m, IPPROTO_TCP), 0);
	check_drop(parse(&m), DROP_TCP_CSUM);
}

static void test_checksums_the_port_verified_are_not_looked_at(void **state)
{
	for (size_t i = 0; i < LENGTH(shapes); i++) {
		struct flow_key key;
		struct made m;
		struct pkt pkt;

		make(&m, &shapes[i]);
		csum_field(&m, shapes[i].proto)[0] ^= 0x55;
		if (!shapes[i].v6)
			m.bytes[m.l3 + 10] ^= 0x55;
		assert_int_not_equal(parse(&m), DROP_NONE);
		check_drop(parse_flags(m.bytes, m.len, PKT_CSUM_OK, 0, &pkt, &key), DROP_NONE);
	}
}

/* The partial checksum that Linux leaves for the card to complete (CHECKSUM_PARTIAL). */
static void test_partial_checksums_only_where_allowed(void **state)
{
	for (size_t i = 0; i < LENGTH(shapes); i++) {
		const struct shape *s = &shapes[i];
		struct flow_key key;
		struct made m;
		struct pkt pkt;
		enum drop bad = s->proto == IPPROTO_UDP ? DROP_UDP_CSUM : DROP_TCP_CSUM;
		uint16_t partial;
		uint8_t *src;

		print_message("%s\n", s->name);
		make(&m, s);
		/* a complete checksum is also accepted */
		check_drop(parse_flags(m.bytes, m.len, 0, FRAME_PARTIAL_CSUM, &pkt, &key),
			   DROP_NONE);
		partial = naive_fold(pseudo_sum(&m, s->proto, m.len - s->padding - m.l4));
		put16(csum_field(&m, s->proto), partial);
		check_drop(parse(&m), bad);
		check_drop(parse_flags(m.bytes, m.len, 0, FRAME_PARTIAL_CSUM, &pkt, &key),
			   DROP_NONE);
		put16(csum_field(&m, s->proto), (uint16_t)~partial);
		check_drop(parse_flags(m.bytes, m.len, 0, FRAME_PARTIAL_CSUM, &pkt, &key), bad);
		if (s->v6 || s->proto == IPPROTO_UDP)
			continue;
		/* In ones' complement 0 is 0xffff, but a field of 0 is no sum. */
		src = m.bytes + m.l3 + 14; /* the part of the address that makes it all ones */
		put16(src, naive_fold(naive_sum(0xffffu - partial, src, 2)));
		set_ip_csum(&m);
		put16(csum_field(&m, s->proto), 0xffff);
		check_drop(parse_flags(m.bytes, m.len, 0, FRAME_PARTIAL_CSUM, &pkt, &key),
			   DROP_NONE);
		put16(csum_field(&m, s->proto), 0);
		check_drop(parse_flags(m.bytes, m.len, 0, FRAME_PARTIAL_CSUM, &pkt, &key), bad);
	}
}

static void test_the_largest_datagram(void **state)
{
	static uint8_t frame[18 + 65535 + 100];
	struct pkt pkt = {.frame = frame, .frame_len = sizeof(frame)};
	struct flow_key key;
	struct made m;

	make(&m, &(struct shape){.proto = IPPROTO_UDP, .vlan = true});
	memcpy(frame, m.bytes, m.len);
	put16(frame + 18 + 2, 65535);
	put16(frame + 38 + 4, 65515);
	pkt.flags = PKT_CSUM_OK;
	check_drop(frame_parse(&pkt, 0, &key), DROP_NONE);
	assert_int_equal(pkt.len, 65507);
	assert_int_equal(pkt.frame_len, 18 + 65535);
	assert_int_equal(pkt.off, 46);
}

/* For any bytes: all reported offsets are inside the frame. */
static void test_random_bytes(void **state)
{
	for (int round = 0; round < 300000; round++) {
		const struct shape *s = &shapes[random_word() % LENGTH(shapes)];
		struct flow_key key;
		struct made m;
		struct pkt pkt;
		size_t len;
		enum drop why;

		make(&m, s);
		for (uint32_t n = random_word() % 6; n > 0; n--)
			m.bytes[random_word() % (m.off + 4)] = (uint8_t)random_word();
		len = random_word() % 4 ? m.len : random_word() % (m.len + 1);
		why = parse_flags(m.bytes, len, random_word() % 2 ? PKT_CSUM_OK : 0,
				  random_word() % 2 ? FRAME_PARTIAL_CSUM : 0, &pkt, &key);
		assert_in_range(why, 0, DROP_COUNT - 1);
		if (why == DROP_NONE) {
			assert_true(pkt.frame_len <= len);
			assert_true(pkt.l3 < pkt.l4 && pkt.l4 < pkt.off);
			assert_true((size_t)pkt.off + pkt.len <= pkt.frame_len);
		}
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_valid_frames),
	cmocka_unit_test(test_a_prediction_is_of_one_key),
	cmocka_unit_test(test_no_frame_survives_truncation),
	cmocka_unit_test(test_no_flipped_bit_goes_unnoticed),
	cmocka_unit_test(test_bad_fields),
	cmocka_unit_test(test_addresses_that_no_frame_may_have),
	cmocka_unit_test(test_source_routes_and_malformed_options_are_dropped),
	cmocka_unit_test(test_a_datagram_is_sent_again),
	cmocka_unit_test(test_extension_headers),
	cmocka_unit_test(test_tcp_options_beyond_the_segment),
	cmocka_unit_test(test_udp_shorter_than_ip_is_cut),
	cmocka_unit_test(test_a_udp_checksum_of_zero_means_none_in_ipv4_only),
	cmocka_unit_test(test_a_short_datagram_is_summed_although_the_port_did),
	cmocka_unit_test(test_a_tcp_checksum_of_zero_is_checked),
	cmocka_unit_test(test_checksums_the_port_verified_are_not_looked_at),
	cmocka_unit_test(test_partial_checksums_only_where_allowed),
	cmocka_unit_test(test_the_largest_datagram),
	cmocka_unit_test(test_random_bytes),
};

VMA_TEST_MAIN("frame", tests, NULL, NULL)
