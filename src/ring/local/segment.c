/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/local/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/sealed.h"
#include "base/sys.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define MAGIC 0x6c6f63616c616d76ull

struct header {
	uint64_t magic;
	uint32_t version;
	uint32_t kind;
	uint64_t size;
};

static int map(struct segment *segment, int fd, size_t size)
{
	/* The kernel accounts for a page when it becomes resident. */
	long at = sys_call(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			   fd, 0);

	if (at < 0 && at >= -4095)
		return (int)at;
	*segment = (struct segment){.base = (uint8_t *)at, .size = size, .fd = fd};
	/* A child that used it by mistake would act for its parent. */
	sys_call(SYS_madvise, at, size, MADV_DONTFORK, 0, 0, 0);
	return 0;
}

int segment_create(struct segment *segment, uint32_t kind, size_t size)
{
	int fd, rc;

	*segment = SEGMENT_NONE;
	if (size < SEGMENT_HEADER)
		size = SEGMENT_HEADER;
	size = (size + SEGMENT_PAGE - 1) & ~(size_t)(SEGMENT_PAGE - 1);
	fd = sealed_create("vma-local", size);
	if (fd < 0)
		return fd;
	rc = map(segment, fd, size);
	if (rc) {
		sys_close(fd);
		return rc;
	}
	*(struct header *)(void *)segment->base = (struct header){
		.magic = MAGIC, .version = SEGMENT_VERSION, .kind = kind, .size = size};
	return 0;
}

static uid_t former = (uid_t)-1; /* before any other thread opens a segment */

void segment_accept_of(uid_t user)
{
	former = user;
}

/*
 * The size of a memfd of this user that no process can shrink or grow, else -errno.  Not of huge
 * pages: one that the kernel lacks when it is first touched is a SIGBUS.
 */
static int64_t check_file(int fd)
{
	struct stat st;
	struct statfs fs;
	int seals = sys_fcntl(fd, F_GET_SEALS, 0);

	if (sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0) || sys_call(SYS_fstatfs, fd, &fs, 0, 0, 0, 0))
		return -EBADMSG;
	if (st.st_uid != (former == (uid_t)-1 ? sys_geteuid() : former))
		return -EACCES;
	if (seals < 0 || (seals & SEALS) != SEALS || !S_ISREG(st.st_mode) ||
	    fs.f_type != TMPFS_MAGIC)
		return -EBADMSG;
	return st.st_size;
}

static bool is_header(const struct header *shared, uint32_t kind, size_t size)
{
	const struct header h = *(const volatile struct header *)shared;

	return h.magic == MAGIC && h.version == SEGMENT_VERSION && h.kind == kind && h.size == size;
}

int segment_open(struct segment *segment, int fd, uint32_t kind, size_t min, size_t max)
{
	int64_t size;
	int rc = 0;

	*segment = SEGMENT_NONE;
	fd = sys_fd_hide(fd);
	if (fd < 0)
		return -EBADF;
	size = check_file(fd);
	if (size < 0)
		rc = (int)size;
	else if ((uint64_t)size < min || (uint64_t)size > max || size < SEGMENT_PAGE ||
		 size & (SEGMENT_PAGE - 1))
		rc = -EBADMSG;
	if (!rc)
		rc = map(segment, fd, (size_t)size);
	if (rc) {
		sys_close(fd);
		/* A seal or the descriptor forbids to write. */
		return rc == -EPERM ? -EACCES : rc;
	}
	if (!is_header((const void *)segment->base, kind, (size_t)size)) {
		segment_close(segment);
		return -EBADMSG;
	}
	return 0;
}

void segment_close(struct segment *segment)
{
	if (segment->base)
		sys_call(SYS_munmap, segment->base, segment->size, 0, 0, 0, 0);
	sys_close_fd(&segment->fd);
	*segment = SEGMENT_NONE;
}

void segment_release(void *at, size_t size)
{
	uintptr_t from = ((uintptr_t)at + SEGMENT_PAGE - 1) & ~(uintptr_t)(SEGMENT_PAGE - 1);
	uintptr_t to = ((uintptr_t)at + size) & ~(uintptr_t)(SEGMENT_PAGE - 1);

	if (from < to)
		sys_call(SYS_madvise, from, to - from, MADV_REMOVE, 0, 0, 0);
}
