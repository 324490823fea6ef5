/* SPDX-License-Identifier: BSD-2-Clause */
/* Input of targets that read memory of another process: changes to that memory. */
#ifndef TESTS_FUZZ_CHANGES_H
#define TESTS_FUZZ_CHANGES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Changes in order: four bytes of offset (modulo the size), one of length, and so many bytes. */
static inline void changes_apply(void *memory, size_t memory_size, const uint8_t *data, size_t size)
{
	while (size >= 5) {
		uint32_t at;
		size_t n = data[4];

		memcpy(&at, data, sizeof(at));
		data += 5;
		size -= 5;
		if (n > size)
			n = size;
		at %= (uint32_t)memory_size;
		memcpy((char *)memory + at, data, n < memory_size - at ? n : memory_size - at);
		data += n;
		size -= n;
	}
}

#endif
