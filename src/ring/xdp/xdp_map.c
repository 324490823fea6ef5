/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings and options of AF_XDP sockets, for anchors and the sockets of a queue.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

/* After a process has ended, the kernel needs some time to free its queues: 1 s on a busy host. */
#define BUSY_RETRIES 1500 /* of 2 ms */

int xdp_map(struct xdp_map *map, size_t len, int fd, uint64_t offset)
{
	long addr = sys_call(SYS_mmap, NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	long rc;

	if (addr < 0 && addr > -4096)
		return (int)addr;
	/* MADV_DONTFORK: the mapping of a ring keeps the AF_XDP socket and its queue in use. */
	rc = sys_call(SYS_madvise, addr, len, MADV_DONTFORK, 0, 0, 0);
	if (rc) {
		sys_call(SYS_munmap, addr, len, 0, 0, 0, 0);
		return (int)rc;
	}
	*map = (struct xdp_map){.addr = (void *)addr, .len = len};
	return 0;
}

void xdp_unmap(struct xdp_map *map)
{
	if (map->addr)
		munmap(map->addr, map->len);
	*map = (struct xdp_map){0};
}

int xdp_ring_offsets(int fd, struct xdp_mmap_offsets *off)
{
	socklen_t len = sizeof(*off);
	int rc = sys_getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, off, &len);

	if (!rc && len != sizeof(*off)) /* before Linux 5.4: no flags */
		rc = -EOPNOTSUPP;
	return rc;
}

int xdp_set_option(int fd, int name, const void *val, socklen_t len)
{
	return sys_setsockopt(fd, SOL_XDP, name, val, len);
}

int xdp_bind(int fd, const struct sockaddr_xdp *addr)
{
	for (int i = 0;; i++) {
		int rc = sys_bind(fd, (const struct sockaddr *)addr, sizeof(*addr));

		if (rc != -EBUSY || i == BUSY_RETRIES)
			return rc;
		sys_sleep(2 * NSEC_PER_MSEC);
	}
}
