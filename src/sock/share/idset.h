/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of numbers of sockets (inet_sock.id), which only grows.
 *
 * Role		its owner's lock.
 * Lifetime	zero-initialised is empty; idset_fini() gives the memory back.
 */
#ifndef SOCK_SHARE_IDSET_H
#define SOCK_SHARE_IDSET_H

#include <stdbool.h>
#include <stdint.h>

struct idset {
	uint64_t *slots;  /* 0: empty */
	unsigned n, size; /* size: a power of two, or 0 */
};

/* id is not 0. False: no memory. */
bool idset_add(struct idset *set, uint64_t id);
bool idset_has(const struct idset *set, uint64_t id);
void idset_fini(struct idset *set);

#endif
