/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that the library received, given to the kernel as if they arrived again.
 *
 * Role		the owner of the struct, or who holds the ring of the packet while it is open.
 * Lifetime	the owner's; open until kernel_input_close().
 */
#ifndef SOCK_CORE_PORT_KERNEL_INPUT_H
#define SOCK_CORE_PORT_KERNEL_INPUT_H

#include <stdbool.h>
#include <stddef.h>

struct pkt;

/* Raw sockets of both families; -1: not open.  The owner writes; who holds a ring reads them, atomic. */
struct kernel_input {
	int ipv4, ipv6;
};

#define KERNEL_INPUT_CLOSED ((struct kernel_input){-1, -1})

/* The owner: opens what packets of a family need, if it is not.  False: without CAP_NET_RAW. */
bool kernel_input_open(struct kernel_input *in, bool ipv4);
void kernel_input_close(struct kernel_input *in);
/*
 * packet: the IP packet in pkt, with its checksums.  False: what it needs is not open, or the kernel
 * has no room.
 */
bool kernel_input_send(const struct kernel_input *in, const struct pkt *pkt, const void *packet,
		       size_t len);

#endif
