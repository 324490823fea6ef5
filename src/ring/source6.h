/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Senders of IPv6: the part of source.h for them.  The kernel accepts them from any interface, so
 * only the reverse path to the senders of connections is kept.
 *
 * Role		source6_enter(): the one thread that answers.  source6_look_up(): any.
 * Lifetime	one table per process, of fixed size.
 * Ordering	as of the table in source.h: the words of a bucket belong together if its
 *		version is the same, and even, before and after they are read.
 * Progress	lock-free.
 */
#ifndef RING_SOURCE6_H
#define RING_SOURCE6_H

#include "ring/source.h"

/* Writes the answer about the sender of key into the table. */
void source6_enter(int ifindex, const struct flow_key *key, const struct source_entry *e);

/* False: the table has no entry for the sender. */
bool source6_look_up(int ifindex, const struct flow_key *key, struct source_entry *e);

#endif
