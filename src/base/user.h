/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to memory that the program named in a call.  As in the kernel, a bad pointer gives an
 * error and not a crash.
 *
 * Role		any thread, signal handlers included.
 * Cost		user_read(), user_write(): one system call each, except for memory on the
 *		caller's stack; use them in slow calls.  user_copy(), user_can_*():
 *		only the access.  They need the fault handler (guard.h), which is
 *		installed when the first socket of ours is created.
 * Errors	-EFAULT, or false.  Where a sandbox forbids the system call, the memory
 *		is accessed unchecked.
 */
#ifndef BASE_USER_H
#define BASE_USER_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/guard.h"

int user_read(void *to, const void *from, size_t n);
int user_write(void *to, const void *from, size_t n);

/* Returns an address as accept(2) does: cut to *len bytes; *len becomes the full length. */
int user_write_address(struct sockaddr *addr, socklen_t *len, const struct sockaddr *from,
		       socklen_t full);

/* As memcpy(); false after a fault, with an unknown part copied. */
bool user_copy(void *to, const void *from, size_t n);

/* The same; in place for 8 to 16 bytes, as short messages have: for the quickest calls. */
static inline __attribute__((always_inline)) GUARD_ANY_ADDRESS bool
user_copy_short(void *to, const void *from, size_t n)
{
	uint8_t *to_end = (uint8_t *)to + n;
	const uint8_t *from_end = (const uint8_t *)from + n;
	uint32_t bad = 0;
	guard_u64 word;

	if (__builtin_expect(n - 8 > 8, 0))
		return user_copy(to, from, n);
	GUARD_MOVE("movq", "=&r", word, guard_u64, to, from, "movl $1, %1", bad);
	GUARD_MOVE("movq", "=&r", word, guard_u64, to_end - 8, from_end - 8, "movl $1, %1", bad);
	return !bad;
}

#define USER_PAGE 4096

/*
 * True if all of it can be read. It may be unmapped before it is used, so check only small
 * objects.
 */
static inline bool user_can_read(const void *at, size_t n)
{
	uintptr_t byte = (uintptr_t)at;
	uint32_t bad = 0, value;

	if (!n)
		return true;
	for (; __builtin_expect(n > USER_PAGE, 0); n -= USER_PAGE, byte += USER_PAGE)
		GUARD_LOAD("movzbl", "=r", value, guard_u8, byte, "movl $1, %1", "+r", bad);
	GUARD_LOAD("movzbl", "=r", value, guard_u8, byte, "movl $1, %1", "+r", bad);
	GUARD_LOAD("movzbl", "=r", value, guard_u8, byte + n - 1, "movl $1, %1", "+r", bad);
	(void)value;
	return !bad;
}

static inline bool user_load32(uint32_t *value, const void *from)
{
	uint32_t bad = 0;

	GUARD_LOAD("movl", "=r", *value, guard_u32, from, "movl $1, %1", "+r", bad);
	return !bad;
}

static inline bool user_load64(uint64_t *value, const void *from)
{
	uint32_t bad = 0;

	GUARD_LOAD("movq", "=r", *value, guard_u64, from, "movl $1, %1", "+r", bad);
	return !bad;
}

static inline bool user_store32(void *to, uint32_t value)
{
	uint32_t bad = 0;

	GUARD_STORE("movl", value, guard_u32, to, "movl $1, %0", bad);
	return !bad;
}

static inline bool user_store64(void *to, uint64_t value)
{
	uint32_t bad = 0;

	GUARD_STORE("movq", value, guard_u64, to, "movl $1, %0", bad);
	return !bad;
}

/* Copies 16 bytes, the size of a struct sockaddr_in. */
static inline bool user_copy16(void *to, const void *from)
{
	uint32_t bad = 0;
	guard_v16 word;

	GUARD_MOVE("movups", "=&x", word, guard_v16, to, from, "movl $1, %1", bad);
	return !bad;
}

/*
 * True if the byte can be written. Rewrites its value, so the caller must be about to write it.
 */
static inline bool user_can_write(void *byte)
{
	uint32_t bad = 0;
	uint8_t value;

	GUARD_MOVE("movb", "=&q", value, guard_u8, byte, byte, "movl $1, %1", bad);
	return !bad;
}

#endif
