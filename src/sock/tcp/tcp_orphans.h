/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that the program closed and that still wait for their peers. */
#ifndef SOCK_TCP_TCP_ORPHANS_H
#define SOCK_TCP_TCP_ORPHANS_H

/* What an orphan waits for. */
enum tcp_orphan {
	TCP_ORPHAN_NOT,
	TCP_ORPHAN_UNACKED, /* the peer's acknowledgement of data or FIN */
	TCP_ORPHAN_HALF,    /* the peer's FIN */
	TCP_ORPHAN_KINDS,
};

/* Number of orphans of each kind; any, atomic. */
extern unsigned tcp_orphans[TCP_ORPHAN_KINDS];

/*
 * Maximum number of TCP_ORPHAN_UNACKED, from net.ipv4.tcp_max_orphans.  While there are that many,
 * a connection that the program closes is reset.  any; written by the first tcp_kernel().
 */
extern unsigned tcp_orphans_max;

#endif
