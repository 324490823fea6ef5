/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that the program holds: those of recvfrom_zcopy() and of callbacks that returned
 * VMA_PACKET_HOLD.  The program names them by numbers, which are checked and never followed.
 *
 * Role		held_new(), held_fill(), held_free(): any.  A packet is filled in by its owner.
 * Lifetime	a slot is in use from held_new() until its packet is back, or until
 *		held_cancel(); its memory is used for slots only.  A packet may outlive its
 *		socket, the socket's home and the thread that received it: its frame goes back to
 *		the ring that it came from.
 * Ordering	a slot's generation is odd while it is in use.  Of several threads that free one
 *		packet, the one that makes it even does so; the others find nothing.
 * Progress	lock-free.
 */
#ifndef SOCK_CORE_EXTRA_HELD_H
#define SOCK_CORE_EXTRA_HELD_H

#include <mellanox/vma_extra.h>

#include "sock/core/inet_sock.h"

#define HELD_MAX 65536u /* packets in the process */

struct held;

/* A free slot; NULL: HELD_MAX packets are held, or no memory. */
struct held *held_new(void);
/* Gives back a slot that held_fill() was not called for. */
void held_cancel(struct held *held);
/*
 * The program has pkt, which the socket ref received, from now on.  charge: what
 * sock_kind.held_freed() gets when it is back.  Before this, the number of held names nothing.
 */
void held_fill(struct held *held, struct sock_ref ref, struct pkt *pkt, uint32_t charge);
/* What the program calls it. */
void *held_id(const struct held *held);

/* A struct vma_packet_t of one piece. */
struct __attribute__((packed)) held_piece {
	void *packet_id;
	size_t sz_iov;
	struct iovec iov;
};

/* What recvfrom_zcopy() stores for one packet: a struct vma_packets_t. */
struct __attribute__((packed)) held_record {
	size_t n_packet_num;
	struct held_piece packet;
};

_Static_assert(offsetof(struct held_piece, iov) == offsetof(struct vma_packet_t, iov) &&
		       offsetof(struct held_record, packet) == offsetof(struct vma_packets_t, pkts),
	       "as in vma_extra.h");

/* What the program is told about pkt before held_fill(). */
static inline struct held_piece held_piece(const struct held *held, const struct pkt *pkt)
{
	struct held_piece piece = {
		.packet_id = held_id(held),
		.sz_iov = 1,
		.iov = {pkt_payload(pkt), pkt->len},
	};

	return piece;
}

/*
 * Stores packet number n, from 0, and how many there are now, in the program's struct vma_packets_t, which
 * has room.
 */
bool held_store(uint8_t *to, size_t n, struct held_piece piece);

/*
 * any: the program gives the packet back.  ref: the socket that it names; sk NULL: none, and only
 * packets of sockets that have ended are freed.  0, or -ENOENT: id names no packet of this socket.
 */
int held_free(void *id, struct sock_ref ref);

/* How many packets of the process are held. */
unsigned held_count(void);

/* In a forked child: what the parent holds is the parent's. */
void held_fork_child(void);

#endif
