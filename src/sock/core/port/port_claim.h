/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What processes tell each other of sockets whose port others may share: this one's
 * frames are taken by the library, so who takes such frames, too, does it no harm.  A
 * claim is a lock on the byte of the inode's number in a file that only the user can open
 * (base/host_dir.h), so that it goes with its process, however that ends, and nobody else
 * can make one.  Where there is no such file, nothing is claimed, and the kernel receives
 * for all.
 *
 * Role		control lock.
 * Lifetime	from before the twin is bound (or listens) until the kernel receives
 *		for it: whoever finds it in the kernel's table without a claim knows
 *		that the kernel has to.
 */
#ifndef SOCK_CORE_PORT_PORT_CLAIM_H
#define SOCK_CORE_PORT_PORT_CLAIM_H

#include <stdbool.h>

/* -errno, or a descriptor to close: then the claim is gone.  Several may claim one inode. */
int port_claim(unsigned long inode);

/* Has another process of this user claimed it?  Or we ourselves. */
bool port_is_claimed(unsigned long inode);

#endif
