/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors sent between processes: SCM_RIGHTS of unix(7).
 *
 * The receiver gets the kernel's socket.  So a socket of ours falls back to the kernel
 * before it is sent, or the receiver finds it by its twin (sock/share/pass.h), or it is
 * not sent.
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

/* Can it have control messages? Errors in msg are left to the kernel. */
static inline bool rights_possible(const struct msghdr *msg)
{
	return may_have_ours() && user_can_read(msg, sizeof(*msg)) && msg->msg_controllen;
}

/* Messages between rights_prepare() and rights_end(). */
struct rights {
	uint64_t ticket; /* ticket of the first message */
	unsigned n;
	bool pending; /* rights_end() must be called; else it may be */
};

/*
 * Before the kernel sends msg by unix_fd: prepares the sockets of ours that it names. 0;
 * -errno: one of them cannot be sent, and neither must the message.
 */
int rights_prepare(int unix_fd, const struct msghdr *msg, struct rights *rights);

/*
 * As rights_prepare(), for n messages. The number of messages, from the first, that may be
 * sent; -errno if none may.
 */
int rights_prepare_many(int unix_fd, const struct mmsghdr *msgs, unsigned n, struct rights *rights);

/* The kernel sent so many of the messages; less than 1: none. */
void rights_end(const struct rights *rights, long sent);

/*
 * The kernel received msg, whose descriptors are new: takes over those that are sockets of
 * ours.
 */
void rights_received(const struct msghdr *msg, int flags);

#endif
