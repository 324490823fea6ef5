/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SYN cookies (D. J. Bernstein; RFC 4987 section 3.6): a listener whose queue is full
 * keeps nothing of a SYN and puts what it must know later into its initial sequence
 * number and, towards peers with timestamps, into the low bits of the first one.
 *
 * Role		pure functions; the secret is the caller's.
 */
#ifndef NET_TCP_TCP_COOKIE_H
#define NET_TCP_TCP_COOKIE_H

#include "base/clock.h"
#include "net/addr.h"
#include "net/tcp/tcp_options.h"

/* How long after it was made a cookie is good, at least; at most twice that. */
#define TCP_COOKIE_LIFE (64 * NSEC_PER_SEC)

/*
 * The sequence number of our SYN-ACK: answers a SYN with sequence number irs that
 * offered mss (0: no option).
 */
uint32_t tcp_cookie_make(const uint8_t secret[16], const struct endpoint *local,
			 const struct endpoint *remote, uint32_t irs, uint16_t mss, nsec_t now);

/*
 * Is iss what tcp_cookie_make() answered to irs not long ago?  The largest of a few
 * sizes that is no larger than the peer's was; 0: it is not.
 */
uint16_t tcp_cookie_check(const uint8_t secret[16], const struct endpoint *local,
			  const struct endpoint *remote, uint32_t irs, uint32_t iss, nsec_t now);

/*
 * May a segment with sequence number seq come from a peer that was sent iss, and its
 * first segment be missing?  True for those, and for one in a hundred of others.
 */
bool tcp_cookie_maybe(const uint8_t secret[16], const struct endpoint *local,
		      const struct endpoint *remote, uint32_t seq, uint32_t iss, nsec_t now);

/*
 * A timestamp, no later than clock and 64 before it at most, that says opt's scale and
 * SACK, and ECN.
 */
uint32_t tcp_cookie_timestamp(uint32_t clock, const struct tcp_options *opt, bool ecn);

/* What it said; clock as echoed.  True: ECN. */
bool tcp_cookie_read_timestamp(uint32_t clock, struct tcp_options *opt);

#endif
