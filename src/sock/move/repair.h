/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connection of the kernel is made of, set in its repair mode: TCP_REPAIR (CAP_NET_ADMIN of the
 * user namespace that the network namespace belongs to).
 *
 * Role		any thread; fd is the caller's, a TCP socket.
 * Errors	-errno, as of setsockopt(2).
 */
#ifndef SOCK_MOVE_REPAIR_H
#define SOCK_MOVE_REPAIR_H

#include "net/tcp/tcp_handover.h"
#include "sock/core/msg/error_queue.h"

/* An option of IPPROTO_TCP. */
int repair_set(int fd, int name, int value);
/* Before the socket is connected: the sequence number of a queue's next byte. */
int repair_set_sequence(int fd, int queue, uint32_t seq);
/* After it is connected: the options that both ends agreed to. */
int repair_set_negotiated(int fd, const struct tcp_handover *h);
/* ... the clock of its timestamps, if it has any. */
int repair_set_clock(int fd, const struct tcp_handover *h);
/* ... and, in the end, its windows. */
int repair_set_window(int fd, const struct tcp_handover *h);

/*
 * A connected socket, in repair mode or not, goes on with these completions: its next send with MSG_ZEROCOPY
 * gets the number completions.next, and its error queue has what is told and not read.  It takes a system call
 * for each number.  If there are more than REPAIR_COMPLETIONS_MAX, or this process may not use repair mode,
 * SO_ZEROCOPY is off afterwards, and the user is told: wrong numbers would make a program use memory again
 * that is still in use.
 */
#define REPAIR_COMPLETIONS_MAX (1u << 16)
void repair_completions(int fd, struct error_queue completions);

#endif
