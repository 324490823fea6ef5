/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What accepted connections inherit besides struct sock_options: the options that a
 * listener's twin has.  The twin of a connection of ours is a fresh socket; it is set up
 * the first time that somebody asks it.
 *
 * Role		inherit_look(), inherit_apply(): control lock, no ring held.
 *		inherit_get(), inherit_put(): any.
 * Lifetime	counted; it does not change.
 */
#ifndef SOCK_CORE_ACCEPT_OPTIONS_H
#define SOCK_CORE_ACCEPT_OPTIONS_H

struct inherit;

/* What fd has that a fresh TCP socket has not; NULL: nothing, or no memory. */
const struct inherit *inherit_look(int fd);
/* NULL is harmless to all of these. */
const struct inherit *inherit_get(const struct inherit *inherit);
void inherit_put(const struct inherit *inherit);
/* Sets it on fd; what the process may not set any more is left out. */
void inherit_apply(const struct inherit *inherit, int fd);

#endif
