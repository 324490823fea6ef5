/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ring profiles (vma_extra.h): what vma_add_ring_profile() describes.  Equal descriptions are one
 * profile, so there are as many as kinds of rings.
 *
 * Role		any thread.
 * Lifetime	a profile stays while the process lives, also in a forked child.
 * Ordering	none: a thread that has a key added it, or got it from one that did.
 */
#ifndef SOCK_CORE_EXTRA_PROFILE_H
#define SOCK_CORE_EXTRA_PROFILE_H

#include <mellanox/vma_extra.h>

/*
 * The key of a profile.  -EINVAL: a kind of ring that does not exist, or comp_mask is not 0.  The user
 * is told of each reason once.
 */
int profile_add(const struct vma_ring_type_attr *attr);
/* The vma_ring_type of a key; -EINVAL: it was not added. */
int profile_type(uint32_t key);

#endif
