/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/idset.h"

#include "base/mem.h"

#define FIRST 16u

/* Where id is, or the empty slot where it would be. */
static uint64_t *find(const struct idset *set, uint64_t id)
{
	unsigned at = (unsigned)((id * 0x9e3779b97f4a7c15u) >> 32);

	for (;; at++) {
		uint64_t *slot = &set->slots[at & (set->size - 1)];

		if (!*slot || *slot == id)
			return slot;
	}
}

static bool grow(struct idset *set)
{
	struct idset larger = {.n = set->n, .size = set->size ? 2 * set->size : FIRST};

	larger.slots = mem_zalloc(larger.size * sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (unsigned i = 0; i < set->size; i++) {
		if (set->slots[i])
			*find(&larger, set->slots[i]) = set->slots[i];
	}
	mem_free(set->slots);
	*set = larger;
	return true;
}

bool idset_add(struct idset *set, uint64_t id)
{
	uint64_t *slot;

	if (2 * (set->n + 1) > set->size && !grow(set))
		return false;
	slot = find(set, id);
	set->n += *slot == 0;
	*slot = id;
	return true;
}

bool idset_has(const struct idset *set, uint64_t id)
{
	return set->n && *find(set, id) == id;
}

void idset_fini(struct idset *set)
{
	mem_free(set->slots);
	*set = (struct idset){.slots = NULL};
}
