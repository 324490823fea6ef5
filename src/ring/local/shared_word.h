/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words in memory that another process writes, too: each access is one load or store, so that a
 * value that was checked is the one that is used.
 *
 * Role		any.
 * Ordering	none; what orders says so beside the access.
 */
#ifndef RING_LOCAL_SHARED_WORD_H
#define RING_LOCAL_SHARED_WORD_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline bool unlikely(bool what)
{
	return __builtin_expect(what, 0);
}

#endif
