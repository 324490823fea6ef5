/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SYN cookies (D. J. Bernstein; RFC 4987 section 3.6).  A listener whose queue is full stores
 * nothing of a SYN.  It encodes what it needs later in its initial sequence number and, for
 * peers with timestamps, in the low bits of its first timestamp.
 *
 * Role		pure functions; the caller owns the secret.
 */
#ifndef NET_TCP_TCP_COOKIE_H
#define NET_TCP_TCP_COOKIE_H

#include "base/clock.h"
#include "net/addr.h"
#include "net/tcp/tcp_options.h"

/* The minimum lifetime of a cookie; the maximum is twice that. */
#define TCP_COOKIE_LIFE (64 * NSEC_PER_SEC)

/*
 * Returns the sequence number of the SYN-ACK for a SYN with sequence number irs and this MSS option
 * (0: none).
 */
uint32_t tcp_cookie_make(const uint8_t secret[16], const struct endpoint *local,
			 const struct endpoint *remote, uint32_t irs, uint16_t mss, nsec_t now);

/*
 * Returns the MSS if tcp_cookie_make() recently answered irs with iss: the largest of a few sizes
 * that does not exceed the peer's. Otherwise 0.
 */
uint16_t tcp_cookie_check(const uint8_t secret[16], const struct endpoint *local,
			  const struct endpoint *remote, uint32_t irs, uint32_t iss, nsec_t now);

/*
 * True if seq may be from a peer that was sent iss and whose first segment was lost. Also true for
 * one in a hundred of other segments.
 */
bool tcp_cookie_maybe(const uint8_t secret[16], const struct endpoint *local,
		      const struct endpoint *remote, uint32_t seq, uint32_t iss, nsec_t now);

/*
 * Returns a timestamp that encodes opt's window scale and SACK, and ECN; it is at most 64 before
 * clock and not after it.
 */
uint32_t tcp_cookie_timestamp(uint32_t clock, const struct tcp_options *opt, bool ecn);

/* Decodes an echoed timestamp into opt. Returns ECN. */
bool tcp_cookie_read_timestamp(uint32_t clock, struct tcp_options *opt);

#endif
