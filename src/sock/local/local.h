/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local connections: whether this process takes part, and how that begins and ends.
 *
 * Role		as each function says.
 */
#ifndef SOCK_LOCAL_LOCAL_H
#define SOCK_LOCAL_LOCAL_H

#include <stdbool.h>

#include "sock/local/local_link.h"

/* Once, before any other thread runs: who handles messages, [LOCAL_KINDS], constant. */
void local_init(local_handler *const *of_messages);

/*
 * control lock, after sock_start(): may this process exchange data through shared memory now?  The
 * first call opens what it needs (local_links_start()).  False: VMA_LOCAL is 0; the program runs
 * with the rights of its file (AT_SECURE); the process has changed its user, or is about to; or
 * there is no place for the directory.
 */
bool local_available(void);

/* control lock: the process is about to change its user: it begins nothing local any more. */
void local_unprivileged(void);

/* control lock: has this process taken part, and does not any more? */
bool local_is_over(void);

/*
 * control lock, in a child of such a process, forked to go on with its connections: takes part as far as
 * this way, and others, lead.  Consumes the descriptor.  False: no memory.
 */
bool local_take_way(const struct local_way *way);

/*
 * app, no ring held: the program closes its last descriptor of a socket.  Is it a local connection with
 * SO_LINGER and a time?  Then local_linger() waits as the kernel: until the peer's receive buffer has what was
 * written, the time is over, or a signal handler has run.
 */
bool local_lingers(struct sock_ref ref);
void local_linger(struct sock_ref ref);

/* In a forked child, before its rings are forgotten. */
void local_fork_child(void);

#endif
