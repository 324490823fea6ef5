/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accept options: what accepted connections inherit besides struct sock_options, namely the
 * options of their listener's twin.  The twin of an accepted connection is a new kernel
 * socket; the options are set on it when they are first needed.
 *
 * Role		accept_options_look(), accept_options_apply(): control lock, no ring held.
 *		accept_options_get(), accept_options_put(): any.
 * Lifetime	counted; immutable.
 */
#ifndef SOCK_CORE_ACCEPT_OPTIONS_H
#define SOCK_CORE_ACCEPT_OPTIONS_H

struct accept_options;

/* The options in which fd differs from a new TCP socket of the family; NULL: none, or no memory. */
const struct accept_options *accept_options_look(int fd, int family);
/* The argument of these may be NULL. */
const struct accept_options *accept_options_get(const struct accept_options *accept_options);
void accept_options_put(const struct accept_options *accept_options);
/* Sets the options on fd, except those that the process is no longer permitted to set. */
void accept_options_apply(const struct accept_options *accept_options, int fd);

#endif
