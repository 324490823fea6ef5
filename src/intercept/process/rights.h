/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that travel between processes, SCM_RIGHTS of unix(7).
 *
 * The receiver gets the kernel's socket: what is ours becomes the kernel's before it is
 * sent, or is found by its twin where it is received (sock/share/pass.h), or is not sent.
 *
 * Role		any thread, no lock held.
 */
#ifndef INTERCEPT_PROCESS_RIGHTS_H
#define INTERCEPT_PROCESS_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/user.h"
#include "intercept/wrap.h"

/* Has it control messages at all?  Anything bad is the kernel's to tell. */
static inline bool rights_possible(const struct msghdr *msg)
{
	return may_have_ours() && user_can_read(msg, sizeof(*msg)) && msg->msg_controllen;
}

/* Messages between rights_prepare() and rights_end(). */
struct rights {
	uint64_t ticket; /* of the first */
	unsigned n;
	bool pending; /* rights_end() has to follow; else it may */
};

/*
 * Before the kernel sends it by the socket way: sockets of ours that it names are made ready.
 * 0, or -errno: one of them cannot be, and the message must not be sent.
 */
int rights_prepare(int unix_fd, const struct msghdr *msg, struct rights *rights);

/* As above; how many messages from the first one on may be sent, or -errno if none. */
int rights_prepare_many(int unix_fd, const struct mmsghdr *msgs, unsigned n, struct rights *rights);

/* So many of them were sent; less than 1: none. */
void rights_end(const struct rights *rights, long sent);

/* The kernel received it: the numbers in it are fresh. */
void rights_received(const struct msghdr *msg, int flags);

#endif
