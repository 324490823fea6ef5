/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Questions to the kernel on a netlink(7) socket of their own: whoever asks need not wait for the mutex
 * of netlink.h.
 *
 * Role		any thread; no lock.
 * Errors	-errno.  -EXDEV: the thread is in another network namespace than the tables of
 *		netlink.h, so the kernel would tell of another network.
 */
#ifndef NET_NETLINK_NETLINK_ASK_H
#define NET_NETLINK_NETLINK_ASK_H

#include <sys/types.h>

/* A socket of this protocol, which does not block: hidden, the caller's. */
int netlink_ask_open(int protocol);
/* The answer to a question of one datagram, in which it fits.  Its length. */
ssize_t netlink_ask_once(int protocol, const void *question, size_t len, void *answer, size_t room);

#endif
