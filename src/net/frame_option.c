/* SPDX-License-Identifier: BSD-2-Clause */
/* IP options of received frames. */
#include <netinet/ip.h>

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
