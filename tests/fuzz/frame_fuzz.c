/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frame parser: for any bytes, all reported offsets are inside the frame, and header prediction says
 * the same.
 *
 * Input	one byte of flags (1: checksums verified, 2: partial checksums are
 *	accepted), then the frame.
 */
#include <stdlib.h>
#include <string.h>

#include "net/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(x)               \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static void check(const struct pkt *pkt, size_t len, const struct flow_key *key)
{
	struct endpoint src = frame_source(pkt), dst = frame_destination(pkt);

	REQUIRE(pkt->frame_len <= len);
	REQUIRE(pkt->l3 < pkt->l4 && pkt->l4 < pkt->off);
	REQUIRE((size_t)pkt->off + pkt->len <= pkt->frame_len);
	REQUIRE(addr_eq(&src.addr, &key->remote) && src.port == key->remote_port);
	REQUIRE(addr_eq(&dst.addr, &key->local) && dst.port == key->local_port);
	REQUIRE(key->proto == IPPROTO_UDP || key->proto == IPPROTO_TCP);
	REQUIRE(key->pad[0] == 0 && key->pad[1] == 0 && key->pad[2] == 0);
}

/* The key that a frame without tag and options would have. */
static bool plain_key(const struct pkt *pkt, struct flow_key *key)
{
	uint32_t addr;

	if (pkt->frame_len < 38)
		return false;
	memset(key, 0, sizeof(*key));
	memcpy(&addr, pkt->frame + 26, 4);
	key->remote = addr_v4(addr);
	memcpy(&addr, pkt->frame + 30, 4);
	key->local = addr_v4(addr);
	memcpy(&key->remote_port, pkt->frame + 34, 2);
	memcpy(&key->local_port, pkt->frame + 36, 2);
	key->proto = pkt->frame[23];
	return key->proto == IPPROTO_UDP || key->proto == IPPROTO_TCP;
}

/* Header prediction takes such frames, if frame_parse() takes them, and no others. */
static void check_prediction(struct pkt pkt, unsigned flags, enum drop why,
			     const struct pkt *parsed, const struct flow_key *parsed_key)
{
	struct frame_prediction prediction;
	struct pkt again = pkt, *one = &again;
	const struct pkt before = pkt;
	struct flow_key key;
	bool want;

	if (!plain_key(&pkt, &key))
		return;
	want = why == DROP_NONE && parsed->l3 == 14 && parsed->l4 == 34 &&
	       flow_key_eq(&key, parsed_key);
	REQUIRE(frame_predict(&prediction, &key));
	REQUIRE(frame_is_predicted(&pkt, flags, &prediction) == want);
	REQUIRE(!memcmp(&pkt, want ? parsed : &before, sizeof(pkt)));
	REQUIRE(frame_run_predicted(&one, 1, flags, &prediction).n == want);
	REQUIRE(!memcmp(&again, want ? parsed : &before, sizeof(pkt)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pkt pkt = {0}, before;
	struct flow_key key;
	unsigned flags;
	enum drop why;
	uint8_t *frame;

	if (size == 0)
		return 0;
	if (data[0] & 1)
		pkt.flags = PKT_CSUM_OK;
	flags = data[0] & 2 ? FRAME_PARTIAL_CSUM : 0;
	frame = malloc(size - 1); /* exact size, so that an overrun is detected */
	REQUIRE(frame);
	memcpy(frame, data + 1, size - 1);
	pkt.frame = frame;
	pkt.frame_len = (uint32_t)(size - 1);
	before = pkt;
	memset(&key, 0xff, sizeof(key));
	why = frame_parse(&pkt, flags, &key);
	REQUIRE(why < DROP_COUNT);
	if (why == DROP_NONE)
		check(&pkt, size - 1, &key);
	check_prediction(before, flags, why, &pkt, &key);
	free(frame);
	return 0;
}
