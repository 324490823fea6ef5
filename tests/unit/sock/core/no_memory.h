/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocations of the library that fail when a test wants it. The linker replaces the functions
 * of base/mem.h by these (--wrap). What tests abandon, as a child of fork() does, is no leak: the
 * pieces of pools stay known here.
 */
#ifndef TESTS_UNIT_SOCK_CORE_NO_MEMORY_H
#define TESTS_UNIT_SOCK_CORE_NO_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

#define MEMORY_PIECES 64

static int memory_left = -1; /* so many allocations succeed; -1: all */
static void *memory_pieces[MEMORY_PIECES];
static unsigned memory_n_pieces;

static inline bool memory_is_left(void)
{
	if (memory_left > 0)
		memory_left--;
	else if (!memory_left)
		return false;
	return true;
}

void *__real_mem_alloc(size_t size);
void *__wrap_mem_alloc(size_t size);
void *__real_mem_zalloc(size_t size);
void *__wrap_mem_zalloc(size_t size);
void *__real_mem_aligned(size_t align, size_t size);
void *__wrap_mem_aligned(size_t align, size_t size);

void *__wrap_mem_alloc(size_t size)
{
	return memory_is_left() ? __real_mem_alloc(size) : NULL;
}

void *__wrap_mem_zalloc(size_t size)
{
	return memory_is_left() ? __real_mem_zalloc(size) : NULL;
}

void *__wrap_mem_aligned(size_t align, size_t size)
{
	void *piece = memory_is_left() ? __real_mem_aligned(align, size) : NULL;

	if (piece && memory_n_pieces < MEMORY_PIECES)
		memory_pieces[memory_n_pieces++] = piece;
	return piece;
}

#endif
