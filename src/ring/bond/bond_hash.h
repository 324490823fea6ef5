/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which slave of a bond in mode 802.3ad sends a frame: the formulas of the kernel's
 * Documentation/networking/bonding.rst, xmit_hash_policy.
 *
 * Role		pure.
 */
#ifndef RING_BOND_BOND_HASH_H
#define RING_BOND_BOND_HASH_H

#include <stdint.h>

/* frame: Ethernet, perhaps a tag, IPv4 or IPv6, TCP or UDP.  policy: BOND_XMIT_POLICY_*. */
uint32_t bond_hash(const uint8_t *frame, unsigned policy);

#endif
