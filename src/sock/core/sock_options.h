/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of a socket as a whole: its first ones, a change of them, and what the twin has.
 * One option at a time: options/sock_opt.h.
 */
#ifndef SOCK_CORE_SOCK_OPTIONS_H
#define SOCK_CORE_SOCK_OPTIONS_H

#include "sock/core/inet_sock.h"

/* Control lock: an int option of the twin, or otherwise if it cannot be read. */
int sock_twin_int(const struct inet_sock *so, int level, int name, int otherwise);
/* Control lock: the interface that the twin is bound to, or 0. */
int sock_twin_device(const struct inet_sock *so);
/* holder, or no other thread knows so yet: replaces so->opt.  Takes the reference to opt over. */
void sock_options_use(struct inet_sock *so, const struct sock_options *opt);
/*
 * Control lock: gives so the default options of its kind.  False: no memory.  _new: no process
 * has set options of the twin yet, so it has the defaults of the system.  Else the twin was
 * inherited or received.
 */
bool sock_options_init_new(struct inet_sock *so, const struct sock_kind *kind);
bool sock_options_init(struct inet_sock *so, const struct sock_kind *kind);
/*
 * Control lock: replaces the options and leaves the home ring held, for what depends on them.
 * 0, and *ring is to be released; or -errno.
 */
int sock_options_hold(struct sock_ref ref, const struct sock_options *values, struct ring **ring);
/*
 * Control lock: replaces the options.  quickack: TCP_QUICKACK was set, which acts even if its
 * value is the same.  0 or -errno.
 */
int sock_options_apply(struct sock_ref ref, const struct sock_options *values, bool quickack);
/* Control lock: sets on the twin what the connection inherited, unless that was done. */
void sock_twin_prepare(struct inet_sock *so);
/* Control lock: children inherit the present options of the listener.  0 or -errno. */
int sock_options_for_children(struct inet_sock *so);

/* holder: whether so->noted must be set has changed. */
void sock_options_note(struct inet_sock *so);

#endif
