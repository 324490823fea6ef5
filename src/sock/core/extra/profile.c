/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/profile.h"

#include <errno.h>

#include "base/log.h"
#include "ring/logic.h"

#define TYPES (VMA_RING_EXTERNAL_MEM + 1)

_Static_assert(TYPES <= RING_PROFILES_MAX, "keys of rings have room for it");

static bool added[TYPES]; /* any, atomic; grows only */

int profile_add(const struct vma_ring_type_attr *attr)
{
	unsigned type = attr->ring_type;

	if (type >= TYPES) {
		log_warn_once(
			"vma_add_ring_profile(): there are no rings of type %u (rings with cyclic "
			"buffers are of older versions of VMA); EINVAL",
			type);
		return -EINVAL;
	}
	/* Both descriptions have it in the same place. */
	if (attr->ring_pktq.comp_mask) {
		log_warn_once(
			"vma_add_ring_profile(): comp_mask is %#x, and has no bit that means "
			"something (a profile of cyclic buffers, of older versions of VMA?); EINVAL",
			attr->ring_pktq.comp_mask);
		return -EINVAL;
	}
	__atomic_store_n(&added[type], true, __ATOMIC_RELAXED);
	return (int)type + 1;
}

int profile_type(uint32_t key)
{
	if (!key || key > TYPES || !__atomic_load_n(&added[key - 1], __ATOMIC_RELAXED))
		return -EINVAL;
	return (int)key - 1;
}
