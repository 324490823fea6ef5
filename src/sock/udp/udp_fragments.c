/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that do not fit into one frame. */
#include <errno.h>

#include "sock/udp/udp_pace.h"
#include "sock/udp/udp_sock.h"

ssize_t udp_send_fragments(struct inet_sock *so, struct ring *ring, struct dst *dst,
			   const struct iovec *iov, size_t len)
{
	struct pkt *pkts[FRAGMENTS_MAX];
	struct frame_fragmenter f;
	ssize_t rc = -ENOBUFS;
	size_t n = 0;

	/* The kernel reports EMSGSIZE; an MTU below 576 is not supported (RFC 791). */
	if (len > UDP_PAYLOAD_MAX || dst_mtu(dst) < 576 || udp_never_fragments(so, dst))
		return SOCK_KERNEL;
	frame_fragmenter_init(&f, &dst->tmpl, iov, len, dst_mtu(dst), ++ring->ip_id);
	for (;;) {
		struct pkt *pkt = ring_tx_get(ring);

		if (!pkt || n == FRAGMENTS_MAX)
			goto unsent;
		pkt->frame_len = (uint32_t)frame_fragment_next(&f, pkt->frame);
		if (pkt->frame_len == 0) {
			pkt_free(pkt);
			break;
		}
		pkts[n++] = pkt;
	}
	if (f.faulted) {
		rc = -EFAULT;
		goto unsent;
	}
	frame_fragment_finish(&f, pkts[0]->frame);
	for (size_t i = 0; i < n; i++)
		udp_put(so, ring, dst, pkts[i]);
	udp_count_sent(so, len);
	return (ssize_t)len;

unsent:
	while (n)
		pkt_free(pkts[--n]);
	return rc;
}

void udp_put(struct inet_sock *so, struct ring *ring, struct dst *dst, struct pkt *pkt)
{
	if (udp_is_paced(so))
		udp_pace_put(so, ring, dst, pkt);
	else
		dst_send(dst, ring, pkt);
}
