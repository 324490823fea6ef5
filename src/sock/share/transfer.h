/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection travels: off this process as bytes in a memfd, onto a ring of another one.
 *
 * Role		control lock, no ring held.
 * Lifetime	of the bytes: the descriptor's, which is the caller's.  Who wrote them
 *		keeps them until he knows that they were read, or reads them again
 *		himself: between the two the connection is nobody's.
 * Ordering	from transfer_export() on the frames of the connection meet a stand-in here,
 *		for a while also after somebody else has taken its flow: what the
 *		kernel or a listener of ours got they would answer with a reset.  They
 *		are sent after the connection, or dropped: then the peer sends them
 *		again.
 *
 * A socket whose connection is elsewhere is away: sock_is_exported().  It lives on
 * rings_nowhere() and has no other event than that; its calls are those of share.c.
 */
#ifndef SOCK_SHARE_TRANSFER_H
#define SOCK_SHARE_TRANSFER_H

#include "sock/core/inet_sock.h"

/*
 * To the other end of the channel of this number, where id names it: its own, or of the
 * listener that it was not accepted at.  What comes late follows (share_late()).  0, and the socket is away; -EBUSY: it is on the move to another ring, later
 * it works; -errno: it could not be done and nothing has changed.
 */
int transfer_export(struct inet_sock *so, uint64_t channel, uint64_t id, int *memfd);

/* Frames in a memfd, one behind the other.  Any: an empty one, hidden, or -errno. */
int transfer_frames(void);
/* Any: one more; what does not fit is lost, as on the wire. */
void transfer_put_frame(int memfd, const struct pkt *pkt);
/*
 * Any: the frame at *at, which goes on to the next one; its checksums count as verified.  NULL:
 * there is none, or no memory.
 */
struct pkt *transfer_next_frame(int memfd, off_t *at);

/* Rings are opened ahead, while the connection can still be reached where it is. */
void transfer_prepare(struct inet_sock *so);

/*
 * so is away.  0, and it is here; -EINVAL: nobody wrote these bytes with transfer_export(), or of
 * another connection, as far as its addresses are known;
 * -errno: it stays away.
 */
int transfer_import(struct inet_sock *so, int memfd);

/* The socket is away from the beginning: in a forked child, whose parent has it. */
void transfer_begin_exported(struct inet_sock *so);

/* so is new, and nobody knows it: a connection that is elsewhere. */
void transfer_blank(struct inet_sock *so);

/* The process that had the connection died: so, which is away, is here and reset. */
void transfer_lost(struct inet_sock *so);

#endif
