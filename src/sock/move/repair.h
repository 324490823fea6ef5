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

#endif
