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

static inline void ensure_started(void)
{
}

#else
#include "third_party/jemalloc/vma_je.h"

#define BACKEND(name) vma_je_##name

/*
 * One arena: the allocator is private, so its first arena belongs to the library, and most requests
 * of a thread are served from its cache. The caches hold few and small objects, and unused pages
 * return to the kernel after a second, to leave the memory to the program.
 */
const char *vma_je_malloc_conf = "narenas:1,background_thread:false,abort_conf:false,"
				 "dirty_decay_ms:1000,muzzy_decay_ms:0,oversize_threshold:0,"
				 "tcache_max:4096,lg_tcache_nslots_mul:-1,"
				 "tcache_nslots_small_max:32,dss:disabled,thp:default";

/*
 * Held while jemalloc initialises itself and across fork(2).  Recursive, because initialisation
 * calls the C library, which may call the program's malloc, whose hooks may call us.
 */
static pthread_mutex_t start_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int allocator_started; /* atomic, written once under start_lock */

/*
 * fork(2) copies one thread only, so all locks of the allocator are taken before it. Before the
 * first allocation there are none, and start_lock prevents it.
 */
static void before_fork(void)
{
	pthread_mutex_lock(&start_lock);
	if (allocator_started)
		vma_je_prefork();
}

static void after_fork_in_parent(void)
{
	if (allocator_started)
		vma_je_postfork_parent();
	pthread_mutex_unlock(&start_lock);
}

static void after_fork_in_child(void)
{
	if (allocator_started)
		vma_je_postfork_child();
	/* In the child the owner has another thread id and cannot unlock it. */
	start_lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

/*
 * Runs at load rather than at the first allocation. Handlers registered later run before ours at
 * fork and after ours when it is done, so they may allocate. Priority 101 comes before the
 * constructors of this library that register such handlers.
 */
__attribute__((constructor(101))) static void register_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static __attribute__((noinline, cold)) void start_allocator(void)
{
	pthread_mutex_lock(&start_lock);
	vma_je_free(vma_je_malloc(1));
	/* Pairs with ensure_started(). */
	__atomic_store_n(&allocator_started, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&start_lock);
}

static inline void ensure_started(void)
{
	/* Pairs with start_allocator(). */
	if (__builtin_expect(!__atomic_load_n(&allocator_started, __ATOMIC_ACQUIRE), 0))
		start_allocator();
}
#endif

/*
 * A signal handler must not enter the allocator that it interrupted. A thread inside the allocator
 * is busy (busy.h), so handlers that use sockets are refused. If a handler allocates all the same,
 * it gets no memory, and what it frees is released later.
 */
static __thread struct {
	bool inside;
	void *freed; /* freed by signal handlers, linked by their first words */
} thread_state __attribute__((tls_model("initial-exec")));

struct visit {
	int saved; /* the allocator may change errno even on success */
	bool busy;
};

static inline bool enter_allocator(struct visit *visit)
{
	if (__builtin_expect(thread_state.inside, 0))
		return false;
	visit->saved = errno;
	visit->busy = busy_begin();
	thread_state.inside = true;
	/* Orders the store before the allocator, for signal handlers of this thread. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

static __attribute__((noinline, cold)) void defer_free(void *ptr)
{
	void **link = ptr;

	*link = thread_state.freed;
	while (!__atomic_compare_exchange_n(&thread_state.freed, link, ptr, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

static __attribute__((noinline, cold)) void free_deferred(void)
{
	void *ptr = __atomic_exchange_n(&thread_state.freed, NULL, __ATOMIC_RELAXED), *next;

	for (; ptr; ptr = next) {
		next = *(void **)ptr;
		BACKEND(free)(ptr);
	}
}

static inline void leave_allocator(const struct visit *visit)
{
	if (__builtin_expect(thread_state.freed != NULL, 0))
		free_deferred();
	/* Orders the allocator before the store, for signal handlers of this thread. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	thread_state.inside = false;
	busy_end(visit->busy);
	errno = visit->saved;
}

void *mem_alloc(size_t size)
{
	struct visit visit;
	void *ptr;

	ensure_started();
	if (!enter_allocator(&visit))
		return NULL;
	ptr = BACKEND(malloc)(size);
	leave_allocator(&visit);
	return ptr;
}

void *mem_zalloc(size_t size)
{
	struct visit visit;
	void *ptr;

	ensure_started();
	if (!enter_allocator(&visit))
		return NULL;
	ptr = BACKEND(calloc)(1, size);
	leave_allocator(&visit);
	return ptr;
}

void *mem_realloc(void *old, size_t size)
{
	struct visit visit;
	void *ptr;

	ensure_started();
	if (!enter_allocator(&visit))
		return NULL;
	ptr = BACKEND(realloc)(old, size ? size : 1); /* size 0 would free */
	leave_allocator(&visit);
	return ptr;
}

void *mem_aligned(size_t align, size_t size)
{
	struct visit visit;
	void *ptr;

	ensure_started();
	if (!enter_allocator(&visit))
		return NULL;
	if (align < sizeof(void *))
		align = sizeof(void *);
	if (BACKEND(posix_memalign)(&ptr, align, size))
		ptr = NULL;
	leave_allocator(&visit);
	return ptr;
}

void mem_free(void *ptr)
{
	struct visit visit;

	if (!ptr)
		return;
	if (!enter_allocator(&visit)) {
		defer_free(ptr);
		return;
	}
	BACKEND(free)(ptr);
	leave_allocator(&visit);
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
