/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that the kernel has at the port of an accelerated listener.
 *
 * They are older: of a server that let go of the port, or of this one when it went through the
 * kernel.  The port passes their frames to the kernel (port_ops.add_flow), which would be reset
 * otherwise.  That costs time for each frame, so it ends when the kernel has no connections at
 * the port any more.
 *
 * Role		the control lock; kernel_conns_look: the internal thread.
 * Lifetime	struct kernel_conns is part of a listener.
 */
#ifndef SOCK_CORE_KERNEL_CONNS_H
#define SOCK_CORE_KERNEL_CONNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct inet_sock;

struct kernel_conns {
	nsec_t since; /* 0: the kernel has none */
	nsec_t look;  /* when it is asked again */
};

/* Frames of the listener come to us from now on. */
void kernel_conns_begin(struct inet_sock *so);
/* Control lock: is it time to ask the kernel? */
bool kernel_conns_due(nsec_t now);
/* The internal thread, without the control lock: asks it about those that are due. */
void kernel_conns_look(nsec_t now);

/* A bit for each local port with TCP connections of the kernel, in network byte order. */
#define KERNEL_PORTS_WORDS (65536 / 64)
/* -errno. */
int kernel_ports_read(uint64_t ports[KERNEL_PORTS_WORDS]);
static inline bool kernel_ports_has(const uint64_t ports[KERNEL_PORTS_WORDS], uint16_t port)
{
	return ports[port / 64] >> (port % 64) & 1;
}

#endif
