/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/sys.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define PAGE 4096 /* the smallest page size */
#define NODES 64  /* nodes from this one on are ignored */

/* A file that grows past the limit is a signal that ends the program (SIGXFSZ). */
static bool is_allowed(size_t size)
{
	struct rlimit limit;

	return sys_call(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit, 0, 0) ||
	       size <= limit.rlim_cur;
}

/*
 * The policy of a range of a shared mapping belongs to the file, so it outlives this mapping and
 * holds for all processes (mbind(2)).  A kernel without NUMA refuses: then there is one node.
 */
static void prefer_node(int fd, size_t size, int node)
{
	unsigned long nodes;
	long at;

	if (node < 0 || node >= NODES)
		return;
	nodes = 1ul << node;
	at = sys_call(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		      0);
	if (at < 0 && at >= -4095)
		return;
	/* The kernel reads one bit less than it is told. */
	sys_call(SYS_mbind, at, size, MPOL_PREFERRED, &nodes, NODES + 1, 0);
	sys_call(SYS_munmap, at, size, 0, 0, 0, 0);
}

int sealed_create_pages(const char *name, size_t size, bool huge, int node)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0);
	long rc;
	int fd;

	if (!is_allowed(size))
		return -EFBIG;
	fd = sys_fd_hide((int)sys_call(SYS_memfd_create, name, flags, 0, 0, 0, 0));
	if (fd < 0)
		return fd;
	rc = sys_call(SYS_ftruncate, fd, size, 0, 0, 0, 0);
	if (!rc)
		prefer_node(fd, size, node);
	if (!rc && huge)
		rc = sys_call(SYS_fallocate, fd, 0, 0, size, 0, 0);
	if (!rc)
		rc = sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (!rc)
		return fd;
	sys_close(fd);
	return (int)rc;
}

int sealed_create(const char *name, size_t size)
{
	return sealed_create_pages(name, size, false, SEALED_ANY_NODE);
}

size_t sealed_size(int fd)
{
	struct stat st;

	if (sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0) ||
	    (sys_fcntl(fd, F_GET_SEALS, 0) & SEALS) != SEALS)
		return 0;
	return (size_t)st.st_size;
}

bool sealed_is_huge(int fd)
{
	struct stat st;

	return !sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0) && st.st_blksize > PAGE;
}
