/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SYNs that arrive while the interface of a listener is being opened.
 *
 * Opening an interface takes some 10 ms, and longer on a busy host.  Without this module a
 * server that restarts would refuse connections during that time, and connections that the
 * kernel accepted for it would never be accelerated.  Therefore the twin listens but a socket
 * filter drops the SYNs for it, and a packet socket keeps them.  Other segments are of connections
 * that an earlier process had, and the twin resets these.  When the rings receive
 * the listener's frames, it gets these SYNs as if they had arrived then.  The twin still accepts
 * connections from this host (loopback).
 *
 * Role		control lock, no ring held; syn_catch_close(): the internal thread.
 * Lifetime	from before sock_attach() of one listener until after it.
 * Errors		-errno: no SYNs are kept, and the twin is unchanged.
 */
#ifndef SOCK_TCP_SYN_CATCH_H
#define SOCK_TCP_SYN_CATCH_H

#include <stdbool.h>

struct inet_sock;

struct syn_catch {
	int fd;	  /* packet socket; -1: no SYNs are kept */
	int twin; /* has the filter while SYNs are kept */
};

/* The listener is bound.  Filters its twin, which the caller may put into listening state now. */
int syn_catch_begin(struct syn_catch *c, const struct inet_sock *so);
/*
 * The rings receive the listener's frames and it gets the SYNs; or they never will, and the SYNs
 * are lost.
 */
void syn_catch_end(struct syn_catch *c, struct inet_sock *so);
/* Closes the socket that syn_catch_end() left open, because closing waits for a grace period. */
void syn_catch_close(void);
/* In a forked child: forgets that socket, which is closed with all other descriptors. */
void syn_catch_forget(void);

#endif
