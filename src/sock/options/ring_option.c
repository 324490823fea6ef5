/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/options/ring_option.h"

#include <errno.h>
#include <string.h>

#define KNOWN_MASK                                                                 \
	(VMA_RING_ALLOC_MASK_RING_PROFILE_KEY | VMA_RING_ALLOC_MASK_RING_USER_ID | \
	 VMA_RING_ALLOC_MASK_RING_INGRESS | VMA_RING_ALLOC_MASK_RING_ENGRESS)

int ring_option_read(const void *val, size_t len, struct ring_alloc *rx, struct ring_alloc *tx,
		     bool *set_rx, bool *set_tx)
{
	struct vma_ring_alloc_logic_attr attr;
	struct ring_alloc alloc = {0};

	if (!val || len != sizeof(attr))
		return -EINVAL;
	memcpy(&attr, val, sizeof(attr)); /* it need not be aligned */
	if (attr.comp_mask & ~(uint32_t)KNOWN_MASK)
		return -EINVAL;
	if (attr.ring_alloc_logic > UINT8_MAX || !ring_logic_valid((int)attr.ring_alloc_logic))
		return -EINVAL;
	if (attr.comp_mask & VMA_RING_ALLOC_MASK_RING_PROFILE_KEY && attr.ring_profile_key)
		return -EINVAL;
	alloc.logic = (int)attr.ring_alloc_logic;
	if (attr.comp_mask & VMA_RING_ALLOC_MASK_RING_USER_ID)
		alloc.user_id = attr.user_id;
	else if (alloc.logic == RING_LOGIC_USER_ID)
		return -EINVAL;
	*set_rx = attr.comp_mask & VMA_RING_ALLOC_MASK_RING_INGRESS && attr.ingress;
	*set_tx = attr.comp_mask & VMA_RING_ALLOC_MASK_RING_ENGRESS && attr.engress;
	if (*set_rx)
		*rx = alloc;
	if (*set_tx)
		*tx = alloc;
	return 0;
}
