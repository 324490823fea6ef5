/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that killed processes left.  When a process is killed, the kernel resets the
 * connections that it knows, but not ours, and a peer that waits for an answer would wait for
 * ever.  So another process of the user resets them: one that shares an interface with the dead
 * one, or else the next one that starts.  It knows them from the flight recorder, which outlives
 * its process (base/stats/recorder.h).
 *
 * Nobody knows the sequence numbers, and a reset counts only with the right one (RFC 5961 section
 * 3).  So the peer gets two probes, bare ACKs with sequence numbers so far apart that one of them
 * is outside its window.  It answers that with an ACK (RFC 9293 section 3.10.7.4), and as no
 * socket of this host has the connection, this host answers with a reset.  A peer that has ended
 * or begun another connection is not disturbed.
 *
 * Role		the internal thread, holding no ring.
 * Errors	without CAP_NET_RAW nothing is sent; lost probes are repeated.
 */
#ifndef SOCK_TCP_TCP_LEFT_H
#define SOCK_TCP_TCP_LEFT_H

#include <stdbool.h>

#include "base/clock.h"

/* Looks for such connections once, and again when ports_deaths changes.  True: call it soon. */
bool tcp_left_run(nsec_t now);

/* In a forked child: its parent has looked already, if it accelerates anything. */
void tcp_left_forget(void);

#endif
