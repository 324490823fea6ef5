/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/icmp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "net/tcp/tcp_options.h"

#define ICMP_HDR 8u
#define QUOTED 8u   /* bytes of the transport header: RFC 792 */
#define MTU_MIN 68u /* RFC 791 */

/* RFC 1191 section 7.1: the plateaus, for routers that do not report their MTU. */
static const uint16_t plateaus[] = {32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, MTU_MIN};

/* Destination unreachable: errno by code, as in Linux. */
static const int unreachable[] = {
	[ICMP_NET_UNREACH] = ENETUNREACH,     [ICMP_HOST_UNREACH] = EHOSTUNREACH,
	[ICMP_PROT_UNREACH] = ENOPROTOOPT,    [ICMP_PORT_UNREACH] = ECONNREFUSED,
	[ICMP_FRAG_NEEDED] = EMSGSIZE,	      [ICMP_SR_FAILED] = EOPNOTSUPP,
	[ICMP_NET_UNKNOWN] = ENETUNREACH,     [ICMP_HOST_UNKNOWN] = EHOSTDOWN,
	[ICMP_HOST_ISOLATED] = ENONET,	      [ICMP_NET_ANO] = ENETUNREACH,
	[ICMP_HOST_ANO] = EHOSTUNREACH,	      [ICMP_NET_UNR_TOS] = ENETUNREACH,
	[ICMP_HOST_UNR_TOS] = EHOSTUNREACH,   [ICMP_PKT_FILTERED] = EHOSTUNREACH,
	[ICMP_PREC_VIOLATION] = EHOSTUNREACH, [ICMP_PREC_CUTOFF] = EHOSTUNREACH,
};
#define CODES (sizeof(unreachable) / sizeof(unreachable[0]))

/* The length of an IPv4 header; 0 if it is not one. */
static size_t ip_header(const uint8_t *p, size_t len)
{
	size_t header = (p[0] & 15u) * 4u;

	return len >= IP4_HDR && p[0] >> 4 == 4 && header >= IP4_HDR && header <= len ? header : 0;
}

static uint32_t next_plateau(uint32_t len)
{
	for (size_t i = 0; i < sizeof(plateaus) / sizeof(plateaus[0]); i++) {
		if (plateaus[i] < len)
			return plateaus[i];
	}
	return MTU_MIN;
}

static bool what_happened(const uint8_t *icmp, const uint8_t *quoted, struct icmp_error *error)
{
	uint8_t type = icmp[0], code = icmp[1];
	uint32_t mtu = load_be16(icmp + 6);

	error->mtu = 0;
	switch (type) {
	case ICMP_DEST_UNREACH:
		if (code >= CODES)
			return false;
		error->error = unreachable[code];
		if (code == ICMP_FRAG_NEEDED)
			error->mtu = mtu >= MTU_MIN ? mtu : next_plateau(load_be16(quoted + 2));
		return true;
	case ICMP_TIME_EXCEEDED:
		error->error = EHOSTUNREACH;
		return true;
	case ICMP_PARAMETERPROB:
		error->error = EPROTO;
		return true;
	default:
		return false;
	}
}

static bool has_ports(uint8_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

bool icmp_parse_error(const uint8_t *packet, size_t len, struct icmp_error *error)
{
	size_t outer, inner;
	const uint8_t *icmp, *quoted, *l4;
	uint32_t addr;

	if (len < IP4_HDR || !(outer = ip_header(packet, len)) || packet[9] != IPPROTO_ICMP)
		return false;
	icmp = packet + outer;
	if (len - outer < ICMP_HDR + IP4_HDR)
		return false;
	quoted = icmp + ICMP_HDR;
	len -= outer + ICMP_HDR;
	inner = ip_header(quoted, len);
	/* The first fragment if fragmented. */
	if (!inner || len - inner < QUOTED || !has_ports(quoted[9]) ||
	    (load_be16(quoted + 6) & 0x1fff))
		return false;
	if (!what_happened(icmp, quoted, error))
		return false;
	l4 = quoted + inner;
	memset(&error->key, 0, sizeof(error->key));
	memcpy(&addr, quoted + 12, 4);
	error->key.local = addr_v4(addr);
	memcpy(&addr, quoted + 16, 4);
	error->key.remote = addr_v4(addr);
	memcpy(&error->key.local_port, l4, 2);
	memcpy(&error->key.remote_port, l4 + 2, 2);
	error->key.proto = quoted[9];
	error->seq = quoted[9] == IPPROTO_TCP ? load_be32(l4 + 4) : 0;
	return true;
}
