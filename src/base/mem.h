/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the library: a private jemalloc with an arena of its own.  The program keeps its
 * malloc, and the library can allocate inside the program's malloc hooks.
 *
 * Role		any thread.  A signal handler that interrupts one of these functions
 *		gets no memory; see base/busy.h.
 * Lifetime	initialised at first use; nothing is mapped before that.
 * Errors	NULL when memory is exhausted; callers turn it into -ENOMEM.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size);
void *mem_zalloc(size_t size);		      /* zeroed */
void *mem_realloc(void *old, size_t size);    /* old may be NULL */
void *mem_aligned(size_t align, size_t size); /* align: a power of two */
void mem_free(void *ptr);		      /* NULL is harmless */
char *mem_strdup(const char *text);

/*
 * True if ptr is in the user half of the address space. Whether memory is mapped there shows
 * only when it is accessed.
 */
static inline bool mem_is_users(const void *ptr)
{
	return !((uintptr_t)ptr >> 47);
}

/* Whole pages from the kernel, zeroed, not yet resident; size is rounded up. */
void *mem_map(size_t size);
void mem_unmap(void *ptr, size_t size);

#endif
