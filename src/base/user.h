/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory the program names in a call, as the kernel takes it: a bad pointer is an error,
 * not a crash.
 *
 * Role		any thread, signal handlers included.
 * Cost		user_read(), user_write(): a system call each, but for what is on the
 *		caller's stack: for calls that are slow anyway.  user_copy(), user_can_*():
 *		that of the access.  They need the handler of faults (guard.h), which is
 *		there as soon as there is a socket of ours.
 * Errors	-EFAULT, or false.  Where the system call is forbidden, memory is trusted.
 */
#ifndef BASE_USER_H
#define BASE_USER_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/guard.h"

int user_read(void *to, const void *from, size_t n);
int user_write(void *to, const void *from, size_t n);

/* An address as functions like accept(2) give it: cut to *len, which becomes its length. */
int user_write_address(struct sockaddr *addr, socklen_t *len, const struct sockaddr *from,
		       socklen_t full);

/* memcpy(), or false: what was copied then is unknown. */
bool user_copy(void *to, const void *from, size_t n);

#define USER_PAGE 4096

/* Is all of it there?  What is there now may be gone when it is used: for what is small. */
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

/* 16 bytes, as an address of IPv4 has. */
static inline bool user_copy16(void *to, const void *from)
{
	uint32_t bad = 0;
	guard_v16 word;

	GUARD_MOVE("movups", "=&x", word, guard_v16, to, from, "movl $1, %1", bad);
	return !bad;
}

/* Can it be written, which the caller will do anyway? */
static inline bool user_can_write(void *byte)
{
	uint32_t bad = 0;
	uint8_t value;

	GUARD_MOVE("movb", "=&q", value, guard_u8, byte, byte, "movl $1, %1", bad);
	return !bad;
}

#endif
