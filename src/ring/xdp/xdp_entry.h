/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to BPF maps with values of 32 bits.  Each function is one bpf(2) call; 0 or -errno.
 *
 * Role		any.
 */
#ifndef RING_XDP_XDP_ENTRY_H
#define RING_XDP_XDP_ENTRY_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sys.h"

static inline int map_update(int map, const void *key, uint32_t value, uint64_t flags)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map,
		.key = (uintptr_t)key,
		.value = (uintptr_t)&value,
		.flags = flags,
	};

	return sys_bpf(BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr));
}

static inline int map_lookup(int map, const void *key, uint32_t *value)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map,
		.key = (uintptr_t)key,
		.value = (uintptr_t)value,
	};

	return sys_bpf(BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr));
}

static inline int map_delete(int map, const void *key)
{
	union bpf_attr attr = {.map_fd = (uint32_t)map, .key = (uintptr_t)key};

	return sys_bpf(BPF_MAP_DELETE_ELEM, &attr, sizeof(attr));
}

/* Gets the key after `at`; NULL: the first one.  False: there is none. */
static inline bool map_next(int map, const void *at, void *next)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map,
		.key = (uintptr_t)at,
		.next_key = (uintptr_t)next,
	};

	return !sys_bpf(BPF_MAP_GET_NEXT_KEY, &attr, sizeof(attr));
}

#endif
