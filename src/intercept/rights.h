/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that travel between processes, SCM_RIGHTS of unix(7).
 *
 * The receiver gets the kernel's socket only: what is ours becomes the kernel's before it
 * is sent, and what cannot is not sent.
 *
 * Role		any thread, no lock held.
 */
#ifndef INTERCEPT_RIGHTS_H
#define INTERCEPT_RIGHTS_H

#include <sys/socket.h>

#include "base/mem.h"

/* Has it control messages at all?  Anything bad is the kernel's to tell. */
static inline bool rights_possible(const struct msghdr *msg)
{
	return mem_is_place(msg) && msg->msg_controllen;
}

/*
 * Before the kernel sends it: sockets of ours that it names are left to the kernel.
 * 0, or -errno: one of them cannot be, and the message must not be sent.
 */
int rights_prepare(const struct msghdr *msg);

/* As above; how many messages from the first one on may be sent, or -errno if none. */
int rights_prepare_many(const struct mmsghdr *msgs, unsigned n);

/* The kernel received it: the numbers in it are fresh. */
void rights_received(const struct msghdr *msg);

#endif
