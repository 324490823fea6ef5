/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEM_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEM_SANITIZED 1
#endif
#endif

#ifdef MEM_SANITIZED
/* The sanitizer's allocator, so that it sees leaks and use after free. */
#define BACKEND(name) name

static inline void prepare(void)
{
}

#else
#include "third_party/jemalloc/vma_je.h"

#define BACKEND(name) vma_je_##name

/*
 * One arena: the allocator is private, so its first arena is ours alone, and
 * what a thread needs often comes from its cache.  Few and small cached
 * objects, and unused pages go back after a second: the program's memory is
 * what the machine is for.
 */
const char *vma_je_malloc_conf = "narenas:1,background_thread:false,abort_conf:false,"
				 "dirty_decay_ms:1000,muzzy_decay_ms:0,oversize_threshold:0,"
				 "tcache_max:4096,lg_tcache_nslots_mul:-1,"
				 "tcache_nslots_small_max:32,dss:disabled,thp:default";

/*
 * Held while jemalloc initialises itself and across fork(2).  Recursive:
 * initialising calls the C library, which may call the program's malloc, whose
 * hooks may call us.
 */
static pthread_mutex_t start_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int started; /* atomic; written once, under start_lock */

/*
 * fork(2) copies one thread: take all locks of the allocator before it.  If
 * nothing was allocated yet there are none, and start_lock keeps it so.
 */
static void before_fork(void)
{
	pthread_mutex_lock(&start_lock);
	if (started)
		vma_je_prefork();
}

static void after_fork_in_parent(void)
{
	if (started)
		vma_je_postfork_parent();
	pthread_mutex_unlock(&start_lock);
}

static void after_fork_in_child(void)
{
	if (started)
		vma_je_postfork_child();
	/* Its owner has another thread id here: it cannot be unlocked. */
	start_lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

/*
 * At load rather than at the first allocation: handlers registered later run
 * before ours when forking and after ours when done, so they may allocate.
 * 101: before the constructors of this library that register theirs.
 */
__attribute__((constructor(101))) static void register_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static __attribute__((noinline, cold)) void start(void)
{
	pthread_mutex_lock(&start_lock);
	vma_je_free(vma_je_malloc(1));
	__atomic_store_n(&started, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&start_lock);
}

static inline void prepare(void)
{
	if (__builtin_expect(!__atomic_load_n(&started, __ATOMIC_ACQUIRE), 0))
		start();
}
#endif

/* The allocators may change errno on success too: each function restores it. */

void *mem_alloc(size_t size)
{
	int saved = errno;
	void *ptr;

	prepare();
	ptr = BACKEND(malloc)(size);
	errno = saved;
	return ptr;
}

void *mem_zalloc(size_t size)
{
	int saved = errno;
	void *ptr;

	prepare();
	ptr = BACKEND(calloc)(1, size);
	errno = saved;
	return ptr;
}

void *mem_realloc(void *old, size_t size)
{
	int saved = errno;
	void *ptr;

	prepare();
	ptr = BACKEND(realloc)(old, size ? size : 1); /* size 0 would free */
	errno = saved;
	return ptr;
}

void *mem_aligned(size_t align, size_t size)
{
	int saved = errno;
	void *ptr;

	prepare();
	if (align < sizeof(void *))
		align = sizeof(void *);
	if (BACKEND(posix_memalign)(&ptr, align, size))
		ptr = NULL;
	errno = saved;
	return ptr;
}

void mem_free(void *ptr)
{
	int saved = errno;

	if (!ptr)
		return;
	BACKEND(free)(ptr);
	errno = saved;
}

char *mem_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = mem_alloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

void *mem_map(size_t size)
{
	int saved = errno;
	void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	return ptr == MAP_FAILED ? NULL : ptr;
}

void mem_unmap(void *ptr, size_t size)
{
	int saved = errno;

	munmap(ptr, size);
	errno = saved;
}
