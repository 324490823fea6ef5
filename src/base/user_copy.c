/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * user_copy(). If the size is not a multiple of the word, the last words overlap bytes that were
 * copied before. Short copies clear a flag after a fault. Loops subtract a large number from the
 * remaining bytes, fewer than any valid copy leaves, and therefore end.
 */
#include "base/cpu.h"
#include "base/guard.h"
#include "base/user.h"

#define MOVE(insn, class, type, to, from)                                            \
	do {                                                                         \
		type word;                                                           \
		GUARD_MOVE(insn, class, word, type, to, from, "movb $0, %b1", good); \
	} while (0)
#define MOVE_8(to, from) MOVE("movb", "=&q", guard_u8, to, from)
#define MOVE_16(to, from) MOVE("movw", "=&r", guard_u16, to, from)
#define MOVE_32(to, from) MOVE("movl", "=&r", guard_u32, to, from)
#define MOVE_64(to, from) MOVE("movq", "=&r", guard_u64, to, from)
#define MOVE_V16(to, from) MOVE("movups", "=&x", guard_v16, to, from)
#define MOVE_V32(to, from) MOVE("vmovdqu", "=&x", guard_v32, to, from)

#define FAULTED (-4096) /* remaining bytes after a fault; loops may subtract more */
#define STEP(insn, type, to, from)                                                      \
	do {                                                                            \
		type word;                                                              \
		GUARD_MOVE(insn, "=&x", word, type, to, from, "movq $-4096, %1", left); \
	} while (0)

/* Less than 16 bytes. */
static inline GUARD_ANY_ADDRESS bool copy_short(uint8_t *to, const uint8_t *from, size_t n)
{
	bool good = true;

	if (n >= 8) {
		MOVE_64(to, from);
		MOVE_64(to + n - 8, from + n - 8);
		return good;
	}
	if (n >= 4) {
		MOVE_32(to, from);
		MOVE_32(to + n - 4, from + n - 4);
		return good;
	}
	if (n & 2)
		MOVE_16(to, from);
	if (n & 1)
		MOVE_8(to + n - 1, from + n - 1);
	return good;
}

/* 16 to 64 bytes. */
static inline GUARD_ANY_ADDRESS bool copy_some(uint8_t *to, const uint8_t *from, size_t n)
{
	bool good = true;

	if (n > 32) {
		MOVE_V16(to + 16, from + 16);
		MOVE_V16(to + n - 32, from + n - 32);
	}
	MOVE_V16(to, from);
	MOVE_V16(to + n - 16, from + n - 16);
	return good;
}

/* 32 bytes and more. */
static GUARD_ANY_ADDRESS bool copy_words(uint8_t *to, const uint8_t *from, size_t n)
{
	int64_t left = (int64_t)n - 32;

	for (; left > 0; left -= 32, to += 32, from += 32) {
		STEP("movups", guard_v16, to, from);
		STEP("movups", guard_v16, to + 16, from + 16);
	}
	if (left <= FAULTED)
		return false;
	to += left;
	from += left;
	STEP("movups", guard_v16, to, from);
	STEP("movups", guard_v16, to + 16, from + 16);
	return left > FAULTED;
}

/* 64 to 128 bytes. */
static inline __attribute__((target("avx2"), always_inline)) GUARD_ANY_ADDRESS bool
copy_four(uint8_t *to, const uint8_t *from, size_t n)
{
	bool good = true;

	MOVE_V32(to, from);
	MOVE_V32(to + 32, from + 32);
	MOVE_V32(to + n - 64, from + n - 64);
	MOVE_V32(to + n - 32, from + n - 32);
	return good;
}

/* 64 bytes and more. */
static __attribute__((target("avx2"), noinline)) GUARD_ANY_ADDRESS bool
copy_vector(uint8_t *to, const uint8_t *from, size_t n)
{
	int64_t left = (int64_t)n - 64;

	if (n <= 128)
		return copy_four(to, from, n);
	for (; left > 0; left -= 64, to += 64, from += 64) {
		STEP("vmovdqu", guard_v32, to, from);
		STEP("vmovdqu", guard_v32, to + 32, from + 32);
	}
	if (left <= FAULTED)
		return false;
	to += left;
	from += left;
	STEP("vmovdqu", guard_v32, to, from);
	STEP("vmovdqu", guard_v32, to + 32, from + 32);
	return left > FAULTED;
}

bool user_copy(void *to, const void *from, size_t n)
{
	if (n < 16)
		return copy_short(to, from, n);
	if (n <= 64)
		return copy_some(to, from, n);
	if (cpu_has_avx2)
		return copy_vector(to, from, n);
	return copy_words(to, from, n);
}
