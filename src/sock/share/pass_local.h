/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local connections that the program sends by SCM_RIGHTS to a process that cannot have them.
 *
 * Such a connection falls back to the kernel: its twin, which the receiver gets, becomes one end of a
 * connection of the kernel to a relay (intercept/process/relay.h), which goes on with the local one.
 * Other processes that hold the connection have the same twin, and follow.
 *
 *	this process				the relay
 *	pass_local_begin()
 *	kernel_pair_join(twin) ...
 *	------------------- fork -------------> pass_local_take(packed)
 *						passes what has arrived
 *	pass_local_end()
 *
 * In between the connection is in transit (share_machine.h), and calls of other threads wait.
 *
 * Role		app, no ring held, no lock.
 */
#ifndef SOCK_SHARE_PASS_LOCAL_H
#define SOCK_SHARE_PASS_LOCAL_H

#include "sock/core/msg/error_queue.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock.h"

struct local_pass {
	uint64_t id;
	int packed; /* for pass_local_take() */
	int twin;   /* a copy; it has the connection's options */
	int how;    /* what the program has shut down: of shutdown(2); -1: nothing */
	struct sock_addr name, peer;
	struct error_queue completions;
};

/*
 * Takes the connection from this process.  The descriptors are ordinary ones, and the caller's. 0;
 * -EREMOTE: it is no local connection that a process forked now can have; -errno: it cannot be
 * taken now.
 */
int pass_local_begin(struct sock_ref ref, struct local_pass *pass);
/* relayed: the kernel serves it from now on.  Else it is here again. */
void pass_local_end(const struct local_pass *pass, bool relayed);

/*
 * In the relay: the connection, with fd, a socket of the kernel that is not connected, as its twin.
 * Consumes packed.  ref.sk NULL: it is lost.
 */
struct sock_ref pass_local_take(int fd, int packed);

#endif
