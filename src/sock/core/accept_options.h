/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What accepted connections inherit besides struct sock_options: the options that a
 * listener's twin has.  The twin of a connection of ours is a fresh socket; it is set up
 * the first time that somebody asks it.
 *
 * Role		accept_options_look(), accept_options_apply(): control lock, no ring held.
 *		accept_options_get(), accept_options_put(): any.
 * Lifetime	counted; it does not change.
 */
#ifndef SOCK_CORE_ACCEPT_OPTIONS_H
#define SOCK_CORE_ACCEPT_OPTIONS_H

struct accept_options;

/* What fd has that a fresh TCP socket has not; NULL: nothing, or no memory. */
const struct accept_options *accept_options_look(int fd);
/* NULL is harmless to all of these. */
const struct accept_options *accept_options_get(const struct accept_options *accept_options);
void accept_options_put(const struct accept_options *accept_options);
/* Sets it on fd; what the process may not set any more is left out. */
void accept_options_apply(const struct accept_options *accept_options, int fd);

#endif
