/* SPDX-License-Identifier: BSD-2-Clause */
/* IP options and IPv6 extension headers of received frames. */
#include <netinet/ip.h>
#include <netinet/ip6.h>

#include "net/frame_internal.h"

enum drop frame_check_ip4_options(const uint8_t *h, size_t frame_len)
{
	size_t hdr = (size_t)(h[0] & 0x0f) * 4, at = IP4_HDR;

	if (h[0] >> 4 != 4 || hdr < IP4_HDR)
		return DROP_IP_VERSION;
	if (frame_len < hdr)
		return DROP_IP_LENGTH;
	while (at < hdr && h[at] != IPOPT_END) {
		if (h[at] == IPOPT_NOOP) {
			at++;
			continue;
		}
		if (at + 1 == hdr || h[at + 1] < 2 || h[at + 1] > hdr - at)
			return DROP_IP_OPTION;
		if (h[at] == IPOPT_LSRR || h[at] == IPOPT_SSRR)
			return DROP_IP_OPTION;
		at += h[at + 1];
	}
	return DROP_NONE;
}

#define UNIT 8		     /* bytes: extension headers are a multiple of it */
#define OPTION_ACTION 0xc0   /* RFC 8200 4.2: what to do if it is unknown; 0: nothing */
#define FRAGMENT_PART 0xfff9 /* offset, and more fragments */

static bool is_zero(const uint8_t *p, size_t size)
{
	while (size && !*p) {
		p++;
		size--;
	}
	return !size;
}

/*
 * The options of a header of this size are such as may be skipped. As the kernel, which follows RFC 4942
 * section 2.1.9.5: padding is zero, and less than a unit in a row.
 */
static bool options_are_skipped(const uint8_t *h, size_t size)
{
	size_t pad = 0, len;

	for (size_t at = 2; at < size; at += len) {
		len = 1;
		if (h[at] != IP6OPT_PAD1) {
			if ((h[at] & OPTION_ACTION) || at + 1 == size || h[at + 1] > size - at - 2)
				return false;
			len += 1u + h[at + 1];
		}
		pad = h[at] > IP6OPT_PADN ? 0 : pad + len;
		if (pad >= UNIT || (h[at] == IP6OPT_PADN && !is_zero(h + at + 2, len - 2)))
			return false;
	}
	return true;
}

/* Linux takes such a route only where sysctls say so, even if it has ended (RFC 6275, 6554, 8754). */
static bool is_special_route(uint8_t type)
{
	return type >= 2 && type <= 4;
}

/* A header of this kind, of size bytes. */
static enum drop check_header(uint8_t kind, const uint8_t *h, size_t size)
{
	switch (kind) {
	case IPPROTO_FRAGMENT: /* whole: RFC 6946 */
		return (h[2] << 8 | h[3]) & FRAGMENT_PART ? DROP_IP_FRAGMENT : DROP_NONE;
	case IPPROTO_ROUTING:
		return h[3] /* segments left */ || is_special_route(h[2]) ? DROP_IP_OPTION
									  : DROP_NONE;
	default:
		return options_are_skipped(h, size) ? DROP_NONE : DROP_IP_OPTION;
	}
}

enum drop frame_skip_ip6_headers(const uint8_t *h, size_t len, uint8_t *proto, size_t *skipped)
{
	size_t at = 0, size;
	enum drop why;

	while (*proto != IPPROTO_TCP && *proto != IPPROTO_UDP) {
		if (*proto != IPPROTO_FRAGMENT && *proto != IPPROTO_ROUTING &&
		    *proto != IPPROTO_DSTOPTS && (*proto != IPPROTO_HOPOPTS || at))
			return DROP_IP_PROTO;
		if (len - at < UNIT)
			return DROP_IP_LENGTH;
		size = *proto == IPPROTO_FRAGMENT ? UNIT : UNIT + UNIT * (size_t)h[at + 1];
		if (len - at < size)
			return DROP_IP_LENGTH;
		why = check_header(*proto, h + at, size);
		if (why != DROP_NONE)
			return why;
		*proto = h[at];
		at += size;
	}
	*skipped = at;
	return DROP_NONE;
}
