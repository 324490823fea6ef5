/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals that a socket sends, socket(7): SIGURG, and SIGIO if it has O_ASYNC.
 *
 * The kernel sees no data of accelerated sockets, so the library sends the signals, to the
 * owner set by F_SETOWN and in the way set by F_SETSIG; the twin knows both.  O_ASYNC is a
 * watch in the list of the socket's watches, so a socket without it has no cost.
 *
 * Role		holder of the socket's home, unless a function says otherwise.  The signals
 *		are sent after the thread has released the ring, because a handler may run on
 *		this thread and read from the socket.
 */
#ifndef SOCK_CORE_ASYNC_H
#define SOCK_CORE_ASYNC_H

#include "sock/core/sock.h"

/* The peer announced urgent data: sends SIGURG. */
void async_urgent(struct sock *sk);

/* In a forked child: forgets the signals that the parent is about to send. */
void async_fork_child(void);

#endif
