/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the library: a private jemalloc with an arena of its own, so that
 * the program keeps its malloc and ours works inside its malloc hooks.
 *
 * Role		any thread.  A signal handler that interrupts one of these gets no
 *		memory; see base/busy.h.
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

/* Is it the program's half? Where nothing is there, the access tells. */
static inline bool mem_is_users(const void *ptr)
{
	return !((uintptr_t)ptr >> 47);
}

/* Whole pages from the kernel, zeroed, not yet resident; size is rounded up. */
void *mem_map(size_t size);
void mem_unmap(void *ptr, size_t size);

#endif
