/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * setsockopt(SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC): the ring allocation logic of one socket, an
 * option of the library (ring/logic.h).
 *
 * Role		any.
 */
#ifndef SOCK_OPTIONS_RING_OPTION_H
#define SOCK_OPTIONS_RING_OPTION_H

#include <mellanox/vma_extra.h>
#include <stddef.h>

#include "ring/logic.h"

/*
 * Reads the option's value.  A direction is chosen when its flag and its bit of comp_mask are
 * set: then *set_rx (ingress) or *set_tx (engress) is true, and *rx or *tx is written.  A value
 * that chooses no direction is valid and changes nothing.
 *
 * On failure nothing is written.  -EINVAL: val is NULL or has another size, comp_mask has an unknown
 * bit, the logic is not in the list, RING_LOGIC_USER_ID has no user_id, or the profile is neither 0
 * nor a key of profile_add().  -EOPNOTSUPP: a direct ring to receive by; the user is told once.
 */
int ring_option_read(const void *val, size_t len, struct ring_alloc *rx, struct ring_alloc *tx,
		     bool *set_rx, bool *set_tx);

#endif
