/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims: how a process tells others that the library receives for a socket whose port may be
 * shared.  Then other sockets of the port may be accelerated without harm to this one.
 *
 * A claim is a lock on one byte, at the offset of the socket's inode number, of a file that
 * only the user can open (base/host_dir.h).  So it ends with its process in any case, and no
 * other user can make one.  Without such a file there are no claims, and the kernel receives
 * for all sockets of the port.
 *
 * Role		control lock.
 * Lifetime	from before the twin is bound (or listens) until the kernel receives for the
 *		socket.  If the kernel's table has a socket without a claim, the kernel must
 *		receive for it.
 */
#ifndef SOCK_CORE_PORT_PORT_CLAIM_H
#define SOCK_CORE_PORT_PORT_CLAIM_H

#include <stdbool.h>

/* -errno, or a descriptor; closing it ends the claim.  An inode may have several claims. */
int port_claim(unsigned long inode);

/* Has a process of this user, this one included, claimed the inode? */
bool port_is_claimed(unsigned long inode);

#endif
