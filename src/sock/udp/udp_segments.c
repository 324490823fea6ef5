/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP_SEGMENT: sends that are cut into datagrams, by the kernel or the device if the port takes large
 * segments, else here.
 */
#include <errno.h>

#include "sock/core/msg/iov.h"
#include "sock/udp/udp_pace.h"
#include "sock/udp/udp_sock.h"

bool udp_segments_fit(const struct inet_sock *so, const struct dst *dst, size_t len, size_t gso)
{
	size_t first = len < gso ? len : gso;

	if (!gso)
		return true;
	return first <= dst->payload_max && len <= gso * UDP_SEGMENTS_MAX &&
	       len <= UDP_PAYLOAD_MAX && !so->opt->no_check;
}

/*
 * Builds a frame from the first len bytes of iov, which it changes meanwhile.  False: they
 * cannot be read.
 */
static bool build(struct pkt *pkt, const struct dst *dst, struct iovec *iov, size_t len)
{
	size_t n = 0, left = len, whole;

	while (left > iov[n].iov_len)
		left -= iov[n++].iov_len;
	whole = iov[n].iov_len;
	iov[n].iov_len = left;
	pkt->frame_len = (uint32_t)frame_build_udp(&dst->tmpl, pkt->frame, iov, (int)n + 1, len);
	iov[n].iov_len = whole;
	return pkt->frame_len;
}

/* 0, -ENOBUFS, or -EFAULT.  iov may be changed. */
static int send_frames(struct inet_sock *so, struct ring *ring, struct dst *dst, struct iovec *iov,
		       size_t iovcnt, size_t len, size_t gso)
{
	struct pkt *pkts[UDP_SEGMENTS_MAX];
	size_t n = 0, wanted = (len + gso - 1) / gso;
	int rc = -ENOBUFS;

	while (n < wanted && (pkts[n] = ring_tx_get(ring)))
		n++;
	if (n < wanted)
		goto unsent;
	for (size_t i = 0; i < n; i++) {
		size_t piece = len < gso ? len : gso;

		rc = -EFAULT;
		if (!build(pkts[i], dst, iov, piece))
			goto unsent;
		iov_advance(&iov, &iovcnt, piece);
		len -= piece;
	}
	for (size_t i = 0; i < n; i++)
		udp_put(so, ring, dst, pkts[i]);
	return 0;

unsent:
	while (n)
		pkt_free(pkts[--n]);
	return rc;
}

/*
 * What fits into one frame of the interface is not worth it, and a receiver by generic XDP could not
 * tell it from one datagram.
 */
static bool sends_large(const struct inet_sock *so, const struct ring *ring, const struct dst *dst,
			size_t iovcnt, size_t len, size_t gso)
{
	const struct port_abilities *can = &ring->q->port->can;

	return len > gso * (DST_LARGE_MIN - 1) && dst->tmpl.l4 + UDP_HDR + len > can->frame_max &&
	       iovcnt <= FRAME_LARGE_IOV && dst_takes_large(dst, ring) && can->large_udp &&
	       dst->tmpl.l4 + UDP_HDR + len <= can->segment_max && !udp_is_paced(so);
}

static int send_large(struct ring *ring, struct dst *dst, const struct iovec *iov, size_t iovcnt,
		      size_t len, size_t gso)
{
	struct frame_large large;

	dst->adj->used = true;
	frame_build_large_udp(&large, &dst->tmpl, iov, (uint32_t)iovcnt, (uint32_t)len,
			      (uint32_t)gso);
	return ring_tx_large(ring, &large);
}

ssize_t udp_send_segments(struct inet_sock *so, struct ring *ring, struct dst *dst,
			  const struct iovec *iov, size_t iovcnt, size_t len, size_t gso)
{
	struct iovec stack[IOV_STACK], *copy = iov_copy(iov, iovcnt, stack);
	int rc = -ENOBUFS;

	if (!copy)
		return rc;
	if (sends_large(so, ring, dst, iovcnt, len, gso))
		rc = send_large(ring, dst, copy, iovcnt, len, gso);
	if (rc)
		rc = send_frames(so, ring, dst, copy, iovcnt, len, gso);
	iov_copy_free(copy, stack);
	if (rc)
		return rc;
	sock_count(so, tx_packets, (len + gso - 1) / gso);
	sock_count(so, tx_bytes, len);
	return (ssize_t)len;
}
