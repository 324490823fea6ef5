/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the network says of segments that we sent: the path takes smaller ones, or
 * nobody is there.  Such messages come to the kernel; we have a copy by a raw socket.
 *
 * Role		the internal thread reads, holding no ring.
 */
#ifndef SOCK_CORE_ICMP_H
#define SOCK_CORE_ICMP_H

/*
 * Control lock, before the internal thread starts.  Without the privilege (CAP_NET_RAW)
 * connections find out by themselves, later.
 */
void sock_icmp_open(void);

/* In a forked child, or when the start fails after all: lets go of it. */
void sock_icmp_forget(void);

#endif
