/* SPDX-License-Identifier: BSD-2-Clause */
/* Control messages of a received datagram: recvmsg(2), ip(7), socket(7). */
#ifndef SOCK_CMSG_H
#define SOCK_CMSG_H

#include <sys/socket.h>

#include "sock/sock_internal.h"

/*
 * holder: writes what the options ask for into msg->msg_control, sets
 * msg_controllen to what was used, and MSG_CTRUNC when it did not fit.
 */
void cmsg_fill(const struct sock_options *opt, const struct pkt *pkt, struct msghdr *msg,
	       const struct ring *ring);

/* holder: likewise, of a stream's bytes that came at stamp; 0: that was not noted. */
void cmsg_fill_stream(const struct sock_options *opt, nsec_t stamp, struct msghdr *msg);

/*
 * Of a send, on a socket that does nothing with control messages: 0, or -EINVAL where
 * the kernel says that they are wrong.
 */
int cmsg_check(const struct msghdr *msg);

#endif
