/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/busy.h"

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

/* ---- one at a time in a thread --------------------------------------------------- */

/*
 * The allocator is not to be entered by a signal handler that interrupts it.  Who is
 * in it is busy, so handlers that use sockets are refused; one that comes here all
 * the same gets no memory, and what it frees is freed afterwards.
 */
static __thread struct {
	bool inside;
	void *freed; /* by signal handlers, linked by their first words */
} self __attribute__((tls_model("initial-exec")));

struct visit {
	int saved; /* the allocators may change errno on success, too */
	bool busy;
};

static inline bool enter(struct visit *visit)
{
	if (__builtin_expect(self.inside, 0))
		return false;
	visit->saved = errno;
	visit->busy = busy_begin();
	self.inside = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

static __attribute__((noinline, cold)) void free_later(void *ptr)
{
	void **link = ptr;

	*link = self.freed;
	while (!__atomic_compare_exchange_n(&self.freed, link, ptr, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

static __attribute__((noinline, cold)) void free_later_ones(void)
{
	void *ptr = __atomic_exchange_n(&self.freed, NULL, __ATOMIC_RELAXED), *next;

	for (; ptr; ptr = next) {
		next = *(void **)ptr;
		BACKEND(free)(ptr);
	}
}

static inline void leave(const struct visit *visit)
{
	if (__builtin_expect(self.freed != NULL, 0))
		free_later_ones();
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	self.inside = false;
	busy_end(visit->busy);
	errno = visit->saved;
}

void *mem_alloc(size_t size)
{
	struct visit visit;
	void *ptr;

	prepare();
	if (!enter(&visit))
		return NULL;
	ptr = BACKEND(malloc)(size);
	leave(&visit);
	return ptr;
}

void *mem_zalloc(size_t size)
{
	struct visit visit;
	void *ptr;

	prepare();
	if (!enter(&visit))
		return NULL;
	ptr = BACKEND(calloc)(1, size);
	leave(&visit);
	return ptr;
}

void *mem_realloc(void *old, size_t size)
{
	struct visit visit;
	void *ptr;

	prepare();
	if (!enter(&visit))
		return NULL;
	ptr = BACKEND(realloc)(old, size ? size : 1); /* size 0 would free */
	leave(&visit);
	return ptr;
}

void *mem_aligned(size_t align, size_t size)
{
	struct visit visit;
	void *ptr;

	prepare();
	if (!enter(&visit))
		return NULL;
	if (align < sizeof(void *))
		align = sizeof(void *);
	if (BACKEND(posix_memalign)(&ptr, align, size))
		ptr = NULL;
	leave(&visit);
	return ptr;
}

void mem_free(void *ptr)
{
	struct visit visit;

	if (!ptr)
		return;
	if (!enter(&visit)) {
		free_later(ptr);
		return;
	}
	BACKEND(free)(ptr);
	leave(&visit);
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
