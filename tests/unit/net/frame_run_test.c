/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs of predicted packets: they are those that frame_is_predicted() takes, and as it leaves them. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "net/frame.h"
#include "tests/vma_test.h"

#define SEED 20260117u
#define ROUNDS 20000
#define BURST 8
#define ROOM 70000
#define HDRS (ETH_HDR + IP4_HDR + UDP_HDR)

static uint32_t random_word(void)
{
	static uint64_t x = SEED;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16);
}

static struct flow_key key;
static struct frame_prediction prediction;

static void put16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put_raw16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

enum summed { COMPLETE, PARTIAL, NONE, WRONG };

/* A datagram with so many payload bytes of the key; returns the length of the frame. */
static size_t make(uint8_t *frame, size_t payload, enum summed summed)
{
	uint64_t pseudo = prediction.pseudo + htons((uint16_t)(UDP_HDR + payload));
	uint8_t *ip = frame + ETH_HDR, *udp = ip + IP4_HDR;
	uint32_t from = addr_v4_of(&key.remote), to = addr_v4_of(&key.local);

	memset(frame, 0, HDRS);
	put16(frame + 12, 0x0800);
	ip[0] = 0x45;
	put16(ip + 2, IP4_HDR + UDP_HDR + payload);
	put16(ip + 4, random_word());
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, &from, 4);
	memcpy(ip + 16, &to, 4);
	put_raw16(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, IP4_HDR)));
	memcpy(udp, &key.remote_port, 2);
	memcpy(udp + 2, &key.local_port, 2);
	put16(udp + 4, UDP_HDR + payload);
	for (size_t i = 0; i < payload; i++)
		udp[UDP_HDR + i] = (uint8_t)random_word();
	if (summed == PARTIAL)
		put_raw16(udp + 6, csum_fold(pseudo));
	else if (summed == COMPLETE)
		put_raw16(udp + 6, (uint16_t)~csum_fold(csum_add(pseudo, udp, UDP_HDR + payload)));
	else if (summed == WRONG)
		put_raw16(udp + 6, (uint16_t)(csum_fold(pseudo) ^ 0x55));
	return HDRS + payload;
}

static struct pkt pkt_of(uint8_t *frame, size_t len, bool verified)
{
	return (struct pkt){
		.frame = frame,
		.frame_len = (uint32_t)len,
		.seq = random_word(),
		.tcp_flags = 7,
		.flags = verified ? PKT_CSUM_OK : 0,
	};
}

/* The packets one by one tell what the run must be. */
static void check_run(struct pkt *pkts, unsigned n, unsigned flags)
{
	struct pkt alone[BURST], *list[BURST];
	struct frame_run run;
	uint64_t bytes = 0;
	unsigned want = 0;

	for (unsigned i = 0; i < n; i++) {
		alone[i] = pkts[i];
		list[i] = &pkts[i];
	}
	while (want < n && frame_is_predicted(&alone[want], flags, &prediction)) {
		bytes += pkts[want].frame_len;
		alone[want].next = want + 1 < n ? &pkts[want + 1] : NULL;
		want++;
	}
	if (want)
		alone[want - 1].next = NULL;
	run = frame_run_predicted(list, n, flags, &prediction);
	assert_int_equal(run.n, want);
	assert_int_equal(run.bytes, bytes);
	assert_memory_equal(pkts, alone, n * sizeof(*pkts));
}

static int setup(void **state)
{
	key = (struct flow_key){
		.local = addr_v4(inet_addr("10.0.0.1")),
		.remote = addr_v4(inet_addr("10.0.0.2")),
		.local_port = htons(7),
		.remote_port = htons(1007),
		.proto = IPPROTO_UDP,
	};
	assert_true(frame_predict(&prediction, &key));
	return 0;
}

static void test_a_run_is_what_one_by_one_is(void **state)
{
	static uint8_t frames[BURST][512];
	struct pkt pkts[BURST];

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned n = random_word() % (BURST + 1), flags = random_word() % 2;
		size_t usual = random_word() % 300;

		for (unsigned i = 0; i < n; i++) {
			/* most are of one kind, as in a burst */
			bool odd = random_word() % 16 == 0;
			enum summed summed = odd	 ? random_word() % 4
					     : round % 2 ? PARTIAL
							 : COMPLETE;
			size_t len = make(frames[i], odd ? random_word() % 300 : usual, summed);

			len += odd ? random_word() % 8 : 0; /* padding */
			if (random_word() % 16 == 0)
				frames[i][random_word() % HDRS] ^=
					(uint8_t)(1 << random_word() % 8);
			if (random_word() % 32 == 0)
				len = random_word() % (len + 1);
			pkts[i] = pkt_of(frames[i], len, (round % 3 == 0) != (odd && i % 2));
		}
		check_run(pkts, n, flags);
	}
}

/* The sums of headers and lengths that overflow 16 bits. */
static void test_lengths_do_not_wrap(void **state)
{
	uint8_t *frame = calloc(1, ROOM);
	struct pkt pkt;

	for (size_t length = 65500; length < 65536; length++) {
		make(frame, 0, NONE);
		put16(frame + ETH_HDR + 2, (length + IP4_HDR) & 0xffff);
		put16(frame + ETH_HDR + IP4_HDR + 4, length);
		pkt = pkt_of(frame, ROOM, true);
		check_run(&pkt, 1, 0);
		pkt = pkt_of(frame, 65535 + ETH_HDR, true);
		check_run(&pkt, 1, 0);
	}
	for (size_t length = 0; length < UDP_HDR; length++) {
		make(frame, 0, NONE);
		put16(frame + ETH_HDR + 2, length + IP4_HDR);
		put16(frame + ETH_HDR + IP4_HDR + 4, length);
		pkt = pkt_of(frame, 100, true);
		check_run(&pkt, 1, 0);
		assert_int_equal(pkt.l4, 0); /* refused */
	}
	free(frame);
}

/* Behind a good one: all values of identification and checksum of IP, whose sums wrap. */
static void test_the_next_header_is_summed(void **state)
{
	uint8_t frames[2][HDRS + 10];
	struct pkt pkts[2];

	for (unsigned round = 0; round < 4 * 65536; round++) {
		size_t len = make(frames[0], 10, PARTIAL);
		unsigned off = random_word() % 4; /* 0: it is good */
		uint16_t id = (uint16_t)round, sum;

		memcpy(frames[1], frames[0], sizeof(frames[1]));
		put_raw16(frames[1] + ETH_HDR + 4, id);
		put_raw16(frames[1] + ETH_HDR + 10, 0);
		sum = (uint16_t)~csum_fold(csum_add(0, frames[1] + ETH_HDR, IP4_HDR));
		put_raw16(frames[1] + ETH_HDR + 10, (uint16_t)(sum + off));
		for (unsigned i = 0; i < 2; i++)
			pkts[i] = pkt_of(frames[i], len, false);
		check_run(pkts, 2, FRAME_PARTIAL_CSUM);
		assert_int_equal(pkts[1].l4 != 0, off == 0);
	}
}

/* All values of a partial checksum, of which one is good, and only where it may be partial. */
static void test_a_partial_checksum_is_exact(void **state)
{
	uint8_t frame[HDRS + 10];
	unsigned good = 0;
	struct pkt pkt;

	for (unsigned field = 1; field < 65536; field++) {
		size_t len = make(frame, 10, PARTIAL);

		memset(frame + HDRS, 0, 10);
		put_raw16(frame + ETH_HDR + IP4_HDR + 6, (uint16_t)field);
		pkt = pkt_of(frame, len, false);
		check_run(&pkt, 1, FRAME_PARTIAL_CSUM);
		good += pkt.l4 != 0;
		pkt = pkt_of(frame, len, false);
		check_run(&pkt, 1, 0);
	}
	assert_int_equal(good, 2); /* the complete one, too */
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_run_is_what_one_by_one_is),
	cmocka_unit_test(test_lengths_do_not_wrap),
	cmocka_unit_test(test_the_next_header_is_summed),
	cmocka_unit_test(test_a_partial_checksum_is_exact),
};

VMA_TEST_MAIN("frame_run", tests, setup, NULL)
