/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extra API for datagram sockets: datagrams that stay in shared memory, headers (vma_extra.h), and
 * datagrams that the program has written into frames (vma_reserve() of <vma/vma.h>).
 */
#include <errno.h>

#include "sock/core/access.h"
#include "sock/udp/udp_sock.h"

/* ---- datagrams in shared memory (holder) -------------------------------------------------- */

void udp_input_apart(struct inet_sock *so, struct ring *ring, struct pkt *first, struct pkt *last,
		     const struct filter_sum *sum)
{
	unsigned n = sum->n;
	struct pkt *pkt;

	if (so->udp.filter) {
		first->drops = (uint32_t)so->udp.dropped;
		udp_filter_append(so, ring, first, last, sum);
		return;
	}
	pkt = so->udp.xtreme ? udp_xtreme_run(so, ring, first) : first;
	if (!pkt)
		return;
	for (; first != pkt; first = first->next)
		n--;
	for (; pkt; pkt = pkt->next)
		so->udp.bytes += udp_charge(pkt);
	udp_queue_run(so, first, last, n);
}

/* ---- the headers of what is sent ------------------------------------------------------- */

int udp_read_headers(struct sock_ref ref, uint8_t *header)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct udp_way way = {.ttl = 0};
	struct ring *ring;
	int rc;

	for (int tries = 0; tries < UDP_RESOLVE_TRIES; tries++) {
		struct dst *dst = &so->udp.dst;
		bool found;

		rc = sock_hold_cold(ref, &ring);
		if (rc)
			return rc;
		rc = so->udp.connected ? 0 : -ENOTCONN;
		found = !rc && dst_fresh(dst);
		if (found)
			rc = dst->verdict == VERDICT_ACCELERATED
				     ? (int)frame_build_udp(&dst->tmpl, header, NULL, 0, 0)
				     : SOCK_KERNEL;
		else if (!rc)
			way = udp_plain_way(so, &so->remote);
		ring_release_cold(ring);
		if (!rc)
			rc = udp_resolve(ref, &way);
		if (rc)
			return rc;
	}
	return -EAGAIN;
}

/* ---- datagrams in frames ---------------------------------------------------------------- */

int udp_room(const struct inet_sock *so, uint32_t *header, size_t *most)
{
	*header = ETH_HDR + (so->family == AF_INET ? IP4_HDR : IP6_HDR) + UDP_HDR;
	if (so->udp.connected && so->udp.dst.ring)
		*header = so->udp.dst.tmpl.l4 + UDP_HDR;
	*most = UDP_PAYLOAD_MAX;
	return 0;
}

ssize_t udp_commit(struct inet_sock *so, struct ring *ring, struct pkt *pkt, uint32_t at,
		   size_t len, const struct endpoint *to)
{
	struct dst *dst = so->udp.connected ? &so->udp.dst : NULL;

	if (to)
		dst = udp_find_plain(so, to);
	if (!dst || so->shut_wr || !udp_sends_plainly(so))
		return SOCK_KERNEL;
	if (!dst_fresh(dst) || !dst->ring || len > dst->payload_max ||
	    (uint32_t)dst->tmpl.l4 + UDP_HDR != at)
		return SOCK_KERNEL;
	pkt->frame_len = (uint32_t)frame_build_udp_around(&dst->tmpl, pkt->frame, len);
	dst_send(dst, ring, pkt);
	udp_count_sent(so, len);
	sock_access_tx(so);
	return (ssize_t)len;
}
