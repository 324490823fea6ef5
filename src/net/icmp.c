/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/icmp.h"

#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "net/tcp/tcp_options.h"

#define ICMP_HDR 8u
#define QUOTED 8u   /* bytes of the transport header: RFC 792; RFC 4443 quotes more */
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

/* l4: QUOTED bytes or more. */
static void quoted_l4(const uint8_t *l4, uint8_t proto, struct icmp_error *error)
{
	memcpy(&error->key.local_port, l4, 2);
	memcpy(&error->key.remote_port, l4 + 2, 2);
	error->key.proto = proto;
	error->seq = proto == IPPROTO_TCP ? load_be32(l4 + 4) : 0;
}

bool icmp_parse_error(const uint8_t *packet, size_t len, struct icmp_error *error)
{
	size_t outer, inner;
	const uint8_t *icmp, *quoted;
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
	memset(&error->key, 0, sizeof(error->key));
	memcpy(&addr, quoted + 12, 4);
	error->key.local = addr_v4(addr);
	memcpy(&addr, quoted + 16, 4);
	error->key.remote = addr_v4(addr);
	quoted_l4(quoted + inner, quoted[9], error);
	return true;
}

bool icmp_is_genuine(const uint8_t *packet, size_t len)
{
	size_t outer = len < IP4_HDR ? 0 : ip_header(packet, len);
	const uint8_t *icmp = packet + outer;

	if (!outer || len - outer < ICMP_HDR + IP4_HDR)
		return false;
	return !memcmp(packet + 16, icmp + ICMP_HDR + 12, 4) &&
	       csum_fold(csum_add(0, icmp, len - outer)) == 0xffff;
}

/* ---- ICMPv6 ---------------------------------------------------------------------------- */

/* Destination unreachable: errno by code, as in Linux. */
static const int unreachable6[] = {
	[ICMP6_DST_UNREACH_NOROUTE] = ENETUNREACH,
	[ICMP6_DST_UNREACH_ADMIN] = EACCES,
	[ICMP6_DST_UNREACH_BEYONDSCOPE] = EHOSTUNREACH,
	[ICMP6_DST_UNREACH_ADDR] = EHOSTUNREACH,
	[ICMP6_DST_UNREACH_NOPORT] = ECONNREFUSED,
	[5] = EACCES, /* the source address failed a policy */
	[6] = EACCES, /* a route that rejects */
};
#define CODES6 (sizeof(unreachable6) / sizeof(unreachable6[0]))

static bool what_happened6(const uint8_t *icmp, struct icmp_error *error)
{
	uint32_t mtu = load_be32(icmp + 4);

	error->mtu = 0;
	switch (icmp[0]) {
	case ICMP6_DST_UNREACH:
		error->error = icmp[1] < CODES6 ? unreachable6[icmp[1]] : EPROTO;
		return true;
	case ICMP6_PACKET_TOO_BIG:
		error->error = EMSGSIZE;
		error->mtu = mtu;
		return mtu >= IP6_MTU_MIN; /* RFC 8201 section 4: discard it */
	case ICMP6_TIME_EXCEEDED:
		error->error = EHOSTUNREACH;
		return true;
	default: /* parameter problem, and errors that are not known: RFC 4443 section 2.4 (a) */
		error->error = EPROTO;
		return !(icmp[0] & ICMP6_INFOMSG_MASK);
	}
}

bool icmp6_parse_error(const uint8_t *message, size_t len, struct icmp_error *error)
{
	const uint8_t *quoted = message + ICMP_HDR, *l4 = quoted + IP6_HDR;
	uint8_t proto;

	if (len < ICMP_HDR + IP6_HDR + QUOTED || quoted[0] >> 4 != 6)
		return false;
	len -= ICMP_HDR + IP6_HDR;
	proto = quoted[6];
	/* The only extension header that we send; of the first fragment. */
	if (proto == IPPROTO_FRAGMENT) {
		if (load_be16(l4 + 2) & 0xfff8)
			return false;
		proto = l4[0];
		l4 += IP6_FRAGMENT_HDR;
		len -= IP6_FRAGMENT_HDR;
	}
	if (len < QUOTED || !has_ports(proto))
		return false;
	memset(&error->key, 0, sizeof(error->key));
	memcpy(&error->key.local, quoted + 8, 16);
	memcpy(&error->key.remote, quoted + 24, 16);
	if (addr_is_v4(&error->key.local) || addr_is_v4(&error->key.remote))
		return false; /* no IPv4 connection is quoted here */
	if (!what_happened6(message, error))
		return false;
	quoted_l4(l4, proto, error);
	return true;
}
