/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/xdp/grace.h"

#include <linux/bpf.h>
#include <linux/membarrier.h>
#include <stdint.h>

#include "base/sys.h"

/* inner: descriptor of the model of the inner maps, for a map of maps; else 0. */
static int make_map(enum bpf_map_type type, int inner)
{
	union bpf_attr attr = {
		.map_type = type,
		.key_size = sizeof(uint32_t),
		.value_size = sizeof(uint32_t),
		.max_entries = 1,
		.inner_map_fd = (uint32_t)inner,
	};

	return sys_fd_hide(sys_bpf(BPF_MAP_CREATE, &attr, sizeof(attr)));
}

static int update(const struct grace *grace)
{
	uint32_t key = 0, value = (uint32_t)grace->inner;
	union bpf_attr attr = {
		.map_fd = (uint32_t)grace->outer,
		.key = (uintptr_t)&key,
		.value = (uintptr_t)&value,
	};

	return sys_bpf(BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr));
}

int grace_init(struct grace *grace)
{
	int commands = sys_membarrier(MEMBARRIER_CMD_QUERY), rc;

	grace->outer = grace->inner = -1;
	/* The barrier of grace_wait() pairs with the end of each run of the XDP program. */
	if (commands > 0 && commands & MEMBARRIER_CMD_GLOBAL)
		return 0;
	grace->inner = make_map(BPF_MAP_TYPE_ARRAY, 0);
	if (grace->inner < 0)
		return grace->inner;
	grace->outer = make_map(BPF_MAP_TYPE_ARRAY_OF_MAPS, grace->inner);
	rc = grace->outer < 0 ? grace->outer : update(grace);
	if (rc)
		grace_fini(grace);
	return rc;
}

void grace_fini(struct grace *grace)
{
	sys_close_fd(&grace->outer);
	sys_close_fd(&grace->inner);
}

int grace_wait(const struct grace *grace)
{
	/* Pairs with the end of each run of the XDP program. */
	if (grace->outer < 0)
		return sys_membarrier(MEMBARRIER_CMD_GLOBAL);
	return update(grace);
}
