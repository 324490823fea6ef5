/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection attempts that arrive while the interface of a listener is being opened.
 *
 * That takes some 10 ms, and more on a busy host.  A server that was restarted would refuse
 * whoever comes meanwhile, and what the kernel accepted for it would never be accelerated.  So
 * the twin listens, but drops what comes (a socket filter), and a packet socket keeps the
 * SYNs.  They are given to the listener when its frames come to us, as if they had arrived then.
 * What comes from this host (loopback) is accepted by the twin as ever.
 *
 * Role		the control lock, no ring held; syn_catch_close: the internal thread.
 * Lifetime	from before sock_attach() of one listener to after it.
 * Errors	-errno: nothing is caught, and the twin is as it was.
 */
#ifndef SOCK_TCP_SYN_CATCH_H
#define SOCK_TCP_SYN_CATCH_H

#include <stdbool.h>

struct inet_sock;

struct syn_catch {
	int fd;	  /* packet socket; -1: nothing is caught */
	int twin; /* has the filter */
};

/* The listener is bound.  Its twin may listen from now on. */
int syn_catch_begin(struct syn_catch *c, const struct inet_sock *so);
/* Its frames come to us, or never will (then what was caught is lost). */
void syn_catch_end(struct syn_catch *c, struct inet_sock *so);
/* What syn_catch_end() left to be closed, which takes a grace period. */
void syn_catch_close(void);
/* In a forked child, where it is closed with all others. */
void syn_catch_forget(void);

#endif
