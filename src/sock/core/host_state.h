/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State that all processes of a user on this host share, also one after the other, while the
 * host is up: the secret behind initial sequence numbers, timestamps and the choice of ports,
 * and how many ports were tried so far.  With one secret and one clock, a port that is used
 * again, by whichever process, begins above the sequence numbers that its peer remembers in
 * TIME_WAIT (RFC 6528 section 3).  And two processes do not try the same ports.
 *
 * Role		host_state_open(): control lock.  host_secret(): any thread, after it.
 *		host_port_next(): any thread of any process, atomic.
 * Lifetime	kept in a file that only its owner can read (mode 0600, in a directory of
 *		base/host_dir.h), whose name contains the boot id.  A forked process goes on
 *		with the state of its parent, even if its user changes.  If nothing can be
 *		kept (there is no such directory, or the file belongs to another user, or
 *		others may read it), the process and those that it forks have a state of
 *		their own.
 */
#ifndef SOCK_CORE_HOST_STATE_H
#define SOCK_CORE_HOST_STATE_H

#include <stdint.h>

#define HOST_SECRET 16
#define HOST_PORTS 1020 /* counters; destinations whose hashes collide share one */

struct host_state {
	uint8_t secret[HOST_SECRET]; /* set when made, read by all */
	uint32_t ports[HOST_PORTS];  /* any process, atomic: numbers of ports that were tried */
};

_Static_assert(sizeof(struct host_state) == 4096, "the size of the file, and a page");

/* Later calls do nothing.  0; -ENODATA: no random numbers are available, see base/random.h. */
int host_state_open(void);

/* HOST_SECRET bytes. */
const uint8_t *host_secret(void);

/* The number of ports that any process tried for destinations of this hash; adds one to it. */
uint32_t host_port_next(uint32_t hash);

/*
 * Maps the state kept in a directory; makes the directory and the state if they do not exist.
 * NULL: *why is -errno; -EPERM: another user changed the file, or could have.
 */
struct host_state *host_state_keep(const char *dir, int *why);

#endif
