/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the processes of a user on this host have in common, one after the other too, for as
 * long as the host is up: the secret behind initial sequence numbers, timestamps and the
 * choice of ports, and how far that choice has come.  Of one secret and one clock, a port
 * that is used again begins above what its peer remembers of it in TIME_WAIT (RFC 6528
 * section 3), whichever process used it before; and two processes do not try the same ports.
 *
 * Role		host_state_open(): control lock.  host_secret(): any thread, after it.
 *		host_port_next(): any thread of any process, atomic.
 * Lifetime	kept in a file that nobody but its owner can read (mode 0600, in the
 *		directory of base/host_dir.h), whose name has the boot's id in it.  A
 *		forked process goes on with what its parent has, whoever it becomes.
 *		Where nothing can be kept (no such directory, or what is there is
 *		another user's, or may be read by others), the process and those that
 *		it forks have a secret of their own.
 */
#ifndef SOCK_CORE_HOST_STATE_H
#define SOCK_CORE_HOST_STATE_H

#include <stdint.h>

#define HOST_SECRET 16
#define HOST_PORTS 1020 /* destinations that are counted apart, as a rule */

struct host_state {
	uint8_t secret[HOST_SECRET]; /* set when made, read by all */
	uint32_t ports[HOST_PORTS];  /* any process, atomic: ports that were tried */
};

_Static_assert(sizeof(struct host_state) == 4096, "the size of the file, and a page");

/* Once, later calls do nothing.  0; -ENODATA: nothing is random here, see base/random.h. */
int host_state_open(void);

const uint8_t *host_secret(void);

/* How many ports were tried for a destination of this hash, by whomever; one more is now. */
uint32_t host_port_next(uint32_t hash);

/*
 * The state that is kept in a directory, which is made at need, and begun there if there is
 * none.  NULL, and why: -errno; -EPERM: others have, or could have, a hand in it.
 */
struct host_state *host_state_keep(const char *dir, int *why);

#endif
