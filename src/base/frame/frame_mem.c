/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/frame/frame_mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/signals.h"
#include "base/user.h"

#define PAGE ((size_t)4096)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool taken;		       /* lock: the choice holds */
static frame_mem_alloc_fn *user_alloc; /* lock to write; does not change once taken */
static frame_mem_free_fn *user_free;   /* likewise */

int frame_mem_set_user(frame_mem_alloc_fn *alloc, frame_mem_free_fn *give_back)
{
	int rc = -EINVAL;

	mutex_lock(&lock);
	if (!taken && alloc && give_back) {
		user_alloc = alloc;
		user_free = give_back;
		rc = 0;
	}
	mutex_unlock(&lock);
	return rc;
}

bool frame_mem_is_users(void)
{
	bool is;

	mutex_lock(&lock);
	taken = true;
	is = user_alloc != NULL;
	mutex_unlock(&lock);
	return is;
}

/* Can each page be written?  Then all of them are there. */
static bool is_usable(uint8_t *addr, size_t len)
{
	static const uint8_t zero;

	for (size_t at = 0; at < len; at += PAGE) {
		if (user_write(addr + at, &zero, 1))
			return false;
	}
	return !user_write(addr + len - 1, &zero, 1);
}

/*
 * A forked child does not have the frames: it could write to those in shared memory, and of others fork()
 * would copy all, because a device uses them.  madvise(2) fails if parts of huge pages are not frames; the
 * child has them then.
 */
static void keep_from_children(const struct frame_mem *mem, bool keep)
{
	int saved = errno;

	if (madvise(mem->addr, mem->len, keep ? MADV_DONTFORK : MADV_DOFORK))
		log_debug("%zu bytes of frames at %p: %s", mem->len, mem->addr,
			  strerrordesc_np(errno));
	errno = saved;
}

static int get_users(struct frame_mem *mem, size_t len)
{
	uintptr_t from, end;
	int saved = errno;

	signals_block();
	mem->given = user_alloc(len + PAGE);
	signals_unblock();
	errno = saved;
	if (!mem->given) {
		log_warn_once("the program's allocator has no memory of %zu bytes for frames",
			      len + PAGE);
		return -ENOMEM;
	}
	from = ((uintptr_t)mem->given + PAGE - 1) & ~(PAGE - 1);
	mem->give_back = user_free;
	mem->addr = (void *)from;
	mem->len = len;
	if (!__builtin_add_overflow(from, len, &end) && from >= (uintptr_t)mem->given &&
	    is_usable(mem->addr, len)) {
		keep_from_children(mem, true);
		return 0;
	}
	log_warn_once("the program's allocator returned %p for %zu bytes of frames: not all of it "
		      "is mapped, and can be written",
		      mem->given, len + PAGE);
	frame_mem_put(mem);
	return -EFAULT;
}

int frame_mem_get(struct frame_mem *mem, size_t len)
{
	*mem = (struct frame_mem){0};
	if (frame_mem_is_users())
		return get_users(mem, len);
	mem->addr = mem_map(len);
	mem->len = len;
	if (!mem->addr)
		return -ENOMEM;
	keep_from_children(mem, true);
	return 0;
}

void frame_mem_put(struct frame_mem *mem)
{
	int saved = errno;

	if (mem->given) {
		keep_from_children(mem, false);
		signals_block();
		mem->give_back(mem->given);
		signals_unblock();
		errno = saved;
	} else if (mem->addr) {
		mem_unmap(mem->addr, mem->len);
	}
	*mem = (struct frame_mem){0};
}
