/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/random.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "base/sys.h"

#define CALL_MAX 256 /* getrandom(2) never returns less than asked for up to this size */

static bool ask_kernel(uint8_t *buf, size_t len)
{
	while (len) {
		size_t n = len < CALL_MAX ? len : CALL_MAX;

		if (sys_call(SYS_getrandom, buf, n, 0, 0, 0, 0) != (long)n)
			return false;
		buf += n;
		len -= n;
	}
	return true;
}

/*
 * No two draws hash the same input: the counter differs within a process; the counter, the times
 * and the process id differ between forked processes, which share the key.
 */
static bool draw_from_auxv(uint8_t *buf, size_t len)
{
	const uint8_t *key = (const uint8_t *)getauxval(AT_RANDOM);
	static uint64_t drawn; /* any, atomic */
	struct {
		uint64_t number;
		nsec_t monotonic, real;
		int64_t pid;
	} draw;

	if (!key)
		return false;
	draw.monotonic = clock_now();
	draw.real = clock_real();
	draw.pid = sys_getpid();
	while (len) {
		size_t n = len < sizeof(uint64_t) ? len : sizeof(uint64_t);
		uint64_t word;

		draw.number = __atomic_fetch_add(&drawn, 1, __ATOMIC_RELAXED);
		word = siphash(key, &draw, sizeof(draw));
		memcpy(buf, &word, n);
		buf += n;
		len -= n;
	}
	return true;
}

bool random_bytes(void *buf, size_t len)
{
	return ask_kernel(buf, len) || draw_from_auxv(buf, len);
}
