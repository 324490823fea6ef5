/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that the kernel has at the port of an accelerated listener.
 *
 * They are older than the listener's flows: they belong to a server that used the port before,
 * or to this one from the time when the kernel served it.  Or they have gone to the kernel since.
 * Without further measures they would be reset.  So the port passes their frames to the kernel
 * (port_ops.add_flow); where it cannot (can.takes_conns), the listener gives the kernel each segment
 * that belongs to nothing here.  This costs time for each frame, and stops when the kernel has no
 * connections at the port any more.  It does not stop once connections of the port have gone to other
 * processes: these may give them to the kernel at any time.
 *
 * A listener that has stopped gives the kernel as many of these segments as strangers.h allows, and answers
 * the rest with resets: a handshake may begin with a segment that only the kernel gets, one with IPv6 extension
 * headers.
 *
 * Role		control lock, except where a function says otherwise.
 * Lifetime	struct kernel_conns is embedded in a listener.
 */
#ifndef SOCK_CORE_KERNEL_CONNS_H
#define SOCK_CORE_KERNEL_CONNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct inet_sock;
struct pkt;
struct ring;

/* Which segments that belong to nothing here the kernel gets. */
enum kernel_conns_pass { KERNEL_CONNS_PASS_NONE, KERNEL_CONNS_PASS_SOME, KERNEL_CONNS_PASS_ALL };

struct kernel_conns {
	nsec_t since; /* 0: the kernel has none */
	nsec_t look;  /* when to ask the kernel again */
	bool lasts;   /* it goes on: other processes have connections of it, or may accept some */
	uint8_t pass; /* any, atomic: enum kernel_conns_pass */
};

/* A flow was added to the listener: the library receives its frames from now on. */
void kernel_conns_begin(struct inet_sock *so);
/* The kernel is about to get the connection so: listeners at its port give it its segments. */
void kernel_conns_add(struct inet_sock *so);
/* The connection so goes to another process, which may give it to the kernel later. */
void kernel_conns_expect(struct inet_sock *so);
/* In a forked child. */
void kernel_conns_forget(void);
/*
 * holder of a ring where the listener receives: a segment that belongs to nothing here.  True: the
 * kernel has got it, and answers it; pkt is freed.
 */
bool kernel_conns_pass(const struct inet_sock *listener, const struct ring *ring, struct pkt *pkt);
/* Control lock: is it time to call kernel_conns_look()? */
bool kernel_conns_due(nsec_t now);
/* The internal thread, without the control lock: asks the kernel about listeners that are due. */
void kernel_conns_look(nsec_t now);

/* One bit for each local port, indexed in network byte order: the kernel has connections there. */
#define KERNEL_PORTS_WORDS (65536 / 64)
/* any: fills in all ports; 0 or -errno. */
int kernel_ports_read(uint64_t ports[KERNEL_PORTS_WORDS]);
/* pure: is the bit of the port set? */
static inline bool kernel_ports_has(const uint64_t ports[KERNEL_PORTS_WORDS], uint16_t port)
{
	return ports[port / 64] >> (port % 64) & 1;
}

#endif
