/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An end of a local connection goes on in another process: after fork(), exec, SCM_RIGHTS.
 *
 * The memory stays where it is.  The process that has the end exports it: the private state of
 * the end, and the segment with the slot, as one message in a socket whose descriptor goes to
 * the other process (share/transfer.h).  That one imports it: opens the rings where they were
 * left, makes a link to the process of the peer's end, and tells it by LOCAL_MOVE to use that.
 *
 *	A (has it)		B (gets it)			P (the peer's end)
 *	side.moves + 1
 *	local_export() ------->	local_import()
 *				side.process = B
 *				LOCAL_MOVE: token, moves ----->	looks for the token,
 *				the segment			leaves A's link for B's
 *				... <------------------------- LOCAL_MOVED
 *
 * Until P has heard of it, its notices go to A's link and are lost: after each change of the link
 * either end looks, and makes the other one look.  An end whose peer's link ends while the peer's
 * end is between two processes (side.moves is ahead of what LOCAL_MOVE told) is in limbo: it waits
 * for LOCAL_MOVE, LIMBO at most.  From the export until the peer's end has the new link the memory has
 * a lock, which the kernel ends with the last process that could go on with the end: then limbo ends,
 * too.
 *
 * Both ends may move at one time.  Each stores its new process in the slot and then reads the
 * peer's, so at least one of them finds the other.  A process that does not have the end (any
 * more) says so in LOCAL_MOVED; then the end waits, in limbo.  If each has told the other, the
 * initiator's link is used.
 *
 * Role		local_export(), local_import(): control lock, no ring held.  local_take_move(),
 *		local_take_moved(): handlers (local_link.h).  local_moves_run(): the internal
 *		thread, between rounds.  The others: holder of local_ring().
 * Lifetime	since its first move a connection has a mapping of its own at both ends.  The
 *		slot is used again when both ends are gone (local_end.c).
 * Trust	see byte_ring.h.  The token is known to the processes that have, or had, an end:
 *		no other one can move it.  What is imported comes from a process of the same
 *		user that had the socket; sizes and numbers are checked all the same.
 */
#ifndef SOCK_LOCAL_LOCAL_MOVE_H
#define SOCK_LOCAL_LOCAL_MOVE_H

#include "sock/local/local_link.h"

/* What another process needs to have of an end, beside what it has of any connection. */
struct local_snapshot {
	uint32_t magic;
	uint32_t size;	   /* of this struct, and of the head that precedes it: of this build */
	uint32_t slot;	   /* in the segment */
	uint32_t capacity; /* of each ring */
	uint64_t token;
	uint64_t seen, urgent_done;
	uint32_t moves_seen, wants_space;
	int32_t peek_offset;
	uint8_t initiator, reported, ended, died, error, kept_error;
	/* in this process */
	int fd; /* of the segment; hidden */
};

/* ---- local_snapshot.c: any thread ------------------------------------------------------------ */

/* holder: of a connection that is here; without a descriptor. */
struct local_snapshot local_snapshot_of(const struct inet_sock *so);
/*
 * A descriptor, hidden, that holds the bytes of head, the snapshot, and its segment; it can be read
 * more than once.  -errno.
 */
int local_snapshot_write(const void *head, size_t size, const struct local_snapshot *snapshot);
/* Is fd one that may be read?  It is no memfd. */
bool local_snapshot_is(int fd);
/*
 * Reads it; snapshot->fd is the caller's.  -EINVAL: it is none of this build, or what it says cannot
 * be; -errno.
 */
int local_snapshot_read(int fd, void *head, size_t size, struct local_snapshot *snapshot);

/*
 * A new open file of the segment fd, hidden and the caller's, with the lock of this end, which ends with
 * the last descriptor of that file; -errno.
 */
int local_transit_begin(int fd, uint32_t slot, unsigned side);
/* Ends the lock.  fd: the same open file, or one without a lock. */
void local_transit_end(int fd, uint32_t slot, unsigned side);
/* Does no other open file of the segment have the lock? */
bool local_transit_is_over(int fd, uint32_t slot, unsigned side);

/* ---- local_move.c --------------------------------------------------------------------------- */

/*
 * The connection leaves this process: so is an exported socket afterwards.  head: what the process
 * that imports it gets, too.  A descriptor of local_snapshot_write(), the caller's; or -errno, and
 * it is here as before.  -EBUSY: the program has bytes of it in place.
 */
int local_export(struct inet_sock *so, const void *head, size_t size);
/*
 * so, an exported socket that has its addresses and options, is the end of the snapshot from now
 * on.  Consumes snapshot->fd.  0, or -errno and so is as before.
 */
int local_import(struct inet_sock *so, struct local_snapshot *snapshot);

/* The rings of so are open; slot: its place in the segment; so->shm.token is set. */
void local_move_begin(struct inet_sock *so, uint32_t slot);
/* so is about to give its rings up. */
void local_move_end(struct inet_sock *so);
/* All connections that have begun and are here, also those that nobody has accepted. */
void local_conns_each(void (*fn)(struct inet_sock *so, bool arg), bool arg);
/* The process of the peer's end has ended.  True: the end is elsewhere, and so waits for it. */
bool local_move_waits(struct inet_sock *so);
/*
 * This process is about to execute a program that does not have so; or (false) that failed.  If the
 * process ends meanwhile, so has been closed, for its peer: exec closes it.
 */
void local_move_execs(struct inet_sock *so, bool execs);
/* Has the process of the peer's end, which has ended, said that? */
bool local_move_is_closed(const struct inet_sock *so);

bool local_take_move(struct local_link *link, const struct local_message *message, int *fds,
		     unsigned n);
bool local_take_moved(struct local_link *link, const struct local_message *message, int *fds,
		      unsigned n);
/* True: again soon. */
bool local_moves_run(void);
/* In a forked child: the ends are the parent's. */
void local_moves_forget(void);

#endif
