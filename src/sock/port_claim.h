/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What processes tell each other of sockets whose port others may share: this one's
 * frames are taken by the library, so who takes such frames, too, does it no harm.  A
 * claim is an abstract Unix socket named after user and inode, so that it goes with its
 * process, however that ends.
 *
 * Role		control lock.
 * Lifetime	from before the twin is bound (or listens) until the kernel receives
 *		for it: whoever finds it in the kernel's table without a claim knows
 *		that the kernel has to.
 */
#ifndef SOCK_PORT_CLAIM_H
#define SOCK_PORT_CLAIM_H

#include <stdbool.h>

/* -errno, or a descriptor to close: then the claim is gone. */
int port_claim(unsigned long inode);

/* Has another process of this user claimed it?  Or we ourselves. */
bool port_is_claimed(unsigned long inode);

#endif
