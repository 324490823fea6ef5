/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * setsockopt(SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC): the ring allocation logic of one socket, an
 * option of the library (ring/logic.h).
 *
 * Role		any, pure.
 */
#ifndef SOCK_OPTIONS_RING_OPTION_H
#define SOCK_OPTIONS_RING_OPTION_H

#include <stddef.h>

#include "ring/logic.h"

#define SO_VMA_RING_ALLOC_LOGIC 2810

/* Bits of comp_mask: which members are set; the others are not read. */
enum {
	VMA_RING_ALLOC_MASK_RING_PROFILE_KEY = 1 << 0,
	VMA_RING_ALLOC_MASK_RING_USER_ID = 1 << 1,
	VMA_RING_ALLOC_MASK_RING_INGRESS = 1 << 2,
	VMA_RING_ALLOC_MASK_RING_ENGRESS = 1 << 3,
};

/* Programs are compiled with this layout and spelling. */
struct vma_ring_alloc_logic_attr {
	uint32_t comp_mask;
	uint32_t ring_alloc_logic; /* enum ring_logic; always read */
	uint32_t ring_profile_key;
	uint32_t user_id;
	uint32_t ingress : 1;
	uint32_t engress : 1;
	uint32_t reserved : 30;
};

_Static_assert(sizeof(struct vma_ring_alloc_logic_attr) == 20, "programs are compiled with it");

/*
 * Reads the option's value.  A direction is chosen when its flag and its bit of comp_mask are
 * set: then *set_rx (ingress) or *set_tx (engress) is true, and *rx or *tx is written.  A value
 * that chooses no direction is valid and changes nothing.
 *
 * -EINVAL, and nothing is written: val is NULL or has another size, comp_mask has an unknown
 * bit, the logic is not in the list, RING_LOGIC_USER_ID has no user_id, or the profile is not 0
 * (there are no profiles).
 */
int ring_option_read(const void *val, size_t len, struct ring_alloc *rx, struct ring_alloc *tx,
		     bool *set_rx, bool *set_tx);

#endif
