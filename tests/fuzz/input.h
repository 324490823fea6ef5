/* SPDX-License-Identifier: BSD-2-Clause */
/* Input of targets that read it in order. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *data;
	size_t size;
};

/* Zeros after the end. */
static inline void take(struct input *in, void *to, size_t n)
{
	size_t has = n < in->size ? n : in->size;

	memset(to, 0, n);
	memcpy(to, in->data, has);
	in->data += has;
	in->size -= has;
}

static inline uint8_t take8(struct input *in)
{
	uint8_t value;

	take(in, &value, sizeof(value));
	return value;
}

static inline uint16_t take16(struct input *in)
{
	uint16_t value;

	take(in, &value, sizeof(value));
	return value;
}

static inline uint32_t take32(struct input *in)
{
	uint32_t value;

	take(in, &value, sizeof(value));
	return value;
}

#endif
