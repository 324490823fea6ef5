/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals that a socket sends, socket(7): SIGURG, and SIGIO when it has O_ASYNC.
 *
 * The kernel sees nothing of our sockets' data, so we send them, to whom the program
 * chose with F_SETOWN and as it chose with F_SETSIG, both of which the twin knows.
 * O_ASYNC is a watch in the list of the socket's watches: a socket without it pays
 * nothing.
 *
 * Role		holder of the socket's ring, unless it says otherwise.  The signals are
 *		sent when the thread has let go of it: the handler may well run on this
 *		thread, and wants to read.
 */
#ifndef SOCK_CORE_ASYNC_H
#define SOCK_CORE_ASYNC_H

#include "sock/core/sock.h"

struct watch;

/* Urgent data was announced. */
void async_urgent(struct sock *sk);

/* From ready_notify(): events happened. */
void async_notify(struct watch *watch, uint32_t events);

/* The socket ends: frees the watch, which is out of the list. */
void async_free(struct watch *watch);

/* In a child that was forked: whom the parent would have signalled. */
void async_fork_child(void);

#endif
