/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parser of ICMP and ICMPv6 errors: whatever a message has, the error is one of a packet of ours,
 * and no byte behind the message counts.
 *
 * Input	one byte: odd, an ICMPv6 message follows, else an IPv4 packet.
 */
#include <stdlib.h>
#include <string.h>

#include "net/icmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(x)               \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static void check(const struct icmp_error *error, bool ip6)
{
	const struct flow_key *key = &error->key;

	REQUIRE(key->proto == IPPROTO_UDP || key->proto == IPPROTO_TCP);
	REQUIRE(error->error > 0);
	REQUIRE(key->proto == IPPROTO_TCP || error->seq == 0);
	REQUIRE(key->pad[0] == 0 && key->pad[1] == 0 && key->pad[2] == 0);
	REQUIRE(!error->mtu || error->mtu >= (ip6 ? IP6_MTU_MIN : 68u)); /* RFC 8201, RFC 791 */
	REQUIRE(addr_is_v4(&key->local) == !ip6 && addr_is_v4(&key->remote) == !ip6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct icmp_error error;
	uint8_t *message;
	bool ip6;

	if (size == 0)
		return 0;
	ip6 = data[0] & 1;
	message = malloc(size - 1 ? size - 1 : 1); /* exact, so that an overrun is detected */
	REQUIRE(message);
	memcpy(message, data + 1, size - 1);
	memset(&error, 0xff, sizeof(error));
	if (ip6 ? icmp6_parse_error(message, size - 1, &error)
		: icmp_parse_error(message, size - 1, &error))
		check(&error, ip6);
	free(message);
	return 0;
}
