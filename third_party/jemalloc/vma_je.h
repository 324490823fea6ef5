/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private jemalloc: the functions of it that src/base/mem.c calls.
 *
 * They are jemalloc's functions of these names, jemalloc(3).  Nothing runs
 * before the first of them is called.  The three for fork(2) may be called only
 * after an allocation, and always prefork and one of the others.
 */
#ifndef THIRD_PARTY_JEMALLOC_VMA_JE_H
#define THIRD_PARTY_JEMALLOC_VMA_JE_H

#include <stddef.h>

/* Options, read at the first call; defined by the user. */
extern const char *vma_je_malloc_conf;

void *vma_je_malloc(size_t size);
void *vma_je_calloc(size_t n, size_t size);
void *vma_je_realloc(void *old, size_t size);
int vma_je_posix_memalign(void **out, size_t align, size_t size);
void vma_je_free(void *ptr);

int vma_je_mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);

void vma_je_prefork(void);
void vma_je_postfork_parent(void);
void vma_je_postfork_child(void);

#endif
