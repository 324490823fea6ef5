/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP errors about frames that we sent: the path takes only smaller ones, or the peer cannot
 * be reached.  The kernel receives these messages; a raw socket gives us a copy.
 *
 * Role		the internal thread reads them, holding no ring.
 */
#ifndef SOCK_CORE_ICMP_H
#define SOCK_CORE_ICMP_H

/*
 * Control lock, before the internal thread starts.  Without CAP_NET_RAW nothing is read, and
 * connections learn the same later, by their timers.
 */
void sock_icmp_open(void);

/* In a forked child, or after a failed start: closes the raw socket. */
void sock_icmp_forget(void);

#endif
