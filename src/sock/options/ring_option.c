/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/options/ring_option.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "sock/core/extra/profile.h"

#define KNOWN_MASK                                                                 \
	(VMA_RING_ALLOC_MASK_RING_PROFILE_KEY | VMA_RING_ALLOC_MASK_RING_USER_ID | \
	 VMA_RING_ALLOC_MASK_RING_INGRESS | VMA_RING_ALLOC_MASK_RING_ENGRESS)

/* A direct ring is one to send by: no frame is steered to it. */
static int set_profile(struct ring_alloc *alloc, uint32_t key, bool receives)
{
	int type = key ? profile_type(key) : VMA_RING_PACKET;

	if (type < 0)
		return type;
	if (type == VMA_RING_EXTERNAL_MEM && receives) {
		log_warn_once(
			"SO_VMA_RING_ALLOC_LOGIC: nothing can be received by a ring with a profile "
			"of VMA_RING_EXTERNAL_MEM; EOPNOTSUPP");
		return -EOPNOTSUPP;
	}
	if (type == VMA_RING_EXTERNAL_MEM)
		alloc->direct = true;
	else
		alloc->profile = (uint8_t)key;
	return 0;
}

int ring_option_read(const void *val, size_t len, struct ring_alloc *rx, struct ring_alloc *tx,
		     bool *set_rx, bool *set_tx)
{
	struct vma_ring_alloc_logic_attr attr;
	struct ring_alloc alloc = {0};
	bool rx_too;
	int rc = 0;

	if (!val || len != sizeof(attr))
		return -EINVAL;
	memcpy(&attr, val, sizeof(attr)); /* it need not be aligned */
	if (attr.comp_mask & ~(uint32_t)KNOWN_MASK)
		return -EINVAL;
	if (attr.ring_alloc_logic > UINT8_MAX || !ring_logic_valid((int)attr.ring_alloc_logic))
		return -EINVAL;
	alloc.logic = (uint16_t)attr.ring_alloc_logic;
	if (attr.comp_mask & VMA_RING_ALLOC_MASK_RING_USER_ID)
		alloc.user_id = attr.user_id;
	else if (alloc.logic == RING_LOGIC_USER_ID)
		return -EINVAL;
	rx_too = attr.comp_mask & VMA_RING_ALLOC_MASK_RING_INGRESS && attr.ingress;
	if (attr.comp_mask & VMA_RING_ALLOC_MASK_RING_PROFILE_KEY)
		rc = set_profile(&alloc, attr.ring_profile_key, rx_too);
	if (rc)
		return rc;
	*set_rx = rx_too;
	*set_tx = attr.comp_mask & VMA_RING_ALLOC_MASK_RING_ENGRESS && attr.engress;
	if (*set_rx)
		*rx = alloc;
	if (*set_tx)
		*tx = alloc;
	return 0;
}
