/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Relays: processes that go on with local connections for a program that cannot.
 *
 * A connection through shared memory is nothing that the kernel could serve, or a program without the
 * library, with VMA_LOCAL=0, or of another user than this process had.  When such a program is executed
 * with a descriptor of one, or receives one by SCM_RIGHTS, the descriptor becomes that of a connection of
 * the kernel, to a process that is forked for it: the relay.  It passes the bytes of both directions, and ends, or resets, one
 * connection as the other one ends.
 *
 *	peer <--- shared memory ---> relay <--- loopback ---> the program
 *
 * A relay is no child of the program, and has nothing of this process but these connections.  The
 * program sees the addresses that the connection had; only with CAP_NET_ADMIN also its ports
 * (sock/move/kernel_pair.h).
 *
 * Role		app, no lock held; not a child of vfork().
 */
#ifndef INTERCEPT_PROCESS_RELAY_H
#define INTERCEPT_PROCESS_RELAY_H

#include <fcntl.h>
#include <stdbool.h>

#include "base/sys.h"

/* ---- relay.c ------------------------------------------------------------------------- */

/* any: does exec close fd? */
static inline bool exec_closes(int fd)
{
	return sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC;
}

/*
 * This process is about to execute a program that cannot have local connections.  Starts a relay for
 * those that it has descriptors of, and that no other process holds; for those at descriptors 0 to 2,
 * which are surely meant for the program, also if the parent does.  Without memory, descriptors or processes
 * it leaves them as they are, to exec_local_leave().  If exec fails afterwards, the process goes on
 * with the kernel's connections, which are in no epoll set then.
 */
void relay_start(void);

/* ---- relay_pass.c ---------------------------------------------------------------------- */

/*
 * The program sends fd, a local connection, to a process that cannot have it.  Starts a relay, and the
 * kernel serves the connection from then on, here and in all processes that hold it.  0; -EREMOTE: it
 * is none, or there can be no relay for it; -errno.
 */
int relay_pass(int fd);

/*
 * This process is about to execute a program.  Starts relays for the local connections that not only the
 * program, or the parent, but also other processes hold, as children: the kernel serves them from then
 * on, in all of these.
 */
void relay_shared(void);

/*
 * Then: starts one for the local connections that wait for accept() at the program's listeners, which the
 * kernel serves from now on: they wait there.
 */
void relay_waiting(void);

/* ---- relay_run.c: in the relay --------------------------------------------------------- */

#define RELAY_START_MS 5000

struct relay_pair {
	int local, kernel; /* descriptors; -1: it has ended */
};

/* First: blocks signals, and leaves the session. */
void relay_begin(void);
/* Closes all descriptors but keep[n], which it sorts. */
void relay_close_others(int *keep, unsigned n);
/*
 * Passes bytes until all pairs have ended; writes a byte to ready, and closes it, when those that
 * had arrived are passed.  False: there is no memory, nothing was done.
 */
bool relay_run(struct relay_pair *pairs, unsigned n, int ready);
/*
 * In the process that starts it, which has the other end of ready.  -EPIPE: it has ended;
 * -ETIMEDOUT: it has not begun.
 */
int relay_await(int ready);

#endif
