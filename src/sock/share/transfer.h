/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfer of a connection: exported from this process as bytes in a memfd, imported on a
 * ring of another one.
 *
 * Role		control lock, no ring held, except where a function says otherwise.
 * Lifetime	the bytes live as long as the descriptor, which belongs to the caller.  The
 *		exporter keeps it until it knows that the connection was imported, or
 *		imports it again itself: in between no process has the connection.
 * Ordering	from transfer_export() on, frames of the connection that arrive here meet a
 *		quarantine flow, for a while also after another process has taken the
 *		connection's flow.  Otherwise the kernel, or a listener of ours, would
 *		answer them with a reset.  They are sent after the connection, or
 *		dropped, and then the peer sends them again.
 *
 * A socket whose connection is in another process is exported: sock_is_exported().  Its
 * home is rings_nowhere(), SOCK_EXPORTED is its only event, and its calls are those of
 * share_calls.c.
 */
#ifndef SOCK_SHARE_TRANSFER_H
#define SOCK_SHARE_TRANSFER_H

#include "sock/core/inet_sock.h"

/*
 * Exports the connection to the channel of this serial, where id names it: its own number,
 * or that of the listener that has not accepted it. Late frames follow (share_late()). 0:
 * the socket is exported, and *memfd is the caller's; -EBUSY: it is being moved to another
 * ring, try again later; -errno: it failed and nothing has changed.
 */
int transfer_export(struct inet_sock *so, uint64_t channel, uint64_t id, int *memfd);

/* any: a new memfd for frames, hidden, or -errno. */
int transfer_frames(void);
/* any: appends a frame. A frame that does not fit is lost, as on the wire. */
void transfer_put_frame(int memfd, const struct pkt *pkt);
/*
 * any: reads the frame at *at and advances *at. Its checksums count as verified. NULL:
 * there is none, or no memory.
 */
struct pkt *transfer_next_frame(int memfd, off_t *at);

/* Opens the rings that an import will need, while the owner still serves the connection. */
void transfer_prepare(struct inet_sock *so);

/*
 * so is exported: imports the connection. 0; -EINVAL: the bytes were not written by
 * transfer_export(), or are those of another connection as far as its addresses are known
 * here; -errno: so stays exported.
 */
int transfer_import(struct inet_sock *so, int memfd);

/*
 * any: the family of a connection of the TCP engine, in bytes that are as transfer_export() has written
 * them: no process can have changed them.  0: these are none.  Any descriptor may be asked for.
 */
int transfer_family(int memfd);

/* so begins as exported: in a forked child, whose parent has it. */
void transfer_begin_exported(struct inet_sock *so);

/* so is new and known to no other thread: makes it an exported connection. */
void transfer_blank(struct inet_sock *so);

/* A new exported connection of this twin, known to no other thread.  NULL: no memory. */
struct inet_sock *transfer_create(int fd);

/* Is fd what transfer_export() has made of a local connection?  Any descriptor may be asked for. */
bool transfer_is_local(int fd);

/* The owner died: so, which is exported, is here from now on and reset. */
void transfer_lost(struct inet_sock *so);

#endif
