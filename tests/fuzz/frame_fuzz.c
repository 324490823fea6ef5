/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frame parser: for any bytes, all reported offsets are inside the frame.
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pkt pkt = {0};
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
	memset(&key, 0xff, sizeof(key));
	why = frame_parse(&pkt, flags, &key);
	REQUIRE(why < DROP_COUNT);
	if (why == DROP_NONE)
		check(&pkt, size - 1, &key);
	free(frame);
	return 0;
}
