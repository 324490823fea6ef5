/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Variables of the environment: whatever they are set to, each parameter has a value of its range or its
 * default, which is shown in one line of text, and what it shows is what it has read.
 *
 * Input	a variable in each line: NAME=VALUE, with \0 for a line feed in the value.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/param.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VARIABLES_MAX 64

#define REQUIRE(x)               \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static char *variables[VARIABLES_MAX + 1];

static const char *value_of(const char *name)
{
	size_t n = strlen(name);

	for (char **at = variables; *at; at++)
		if (!strncmp(*at, name, n) && (*at)[n] == '=')
			return *at + n + 1;
	return NULL;
}

static const char *nothing_is_set(const char *name)
{
	return NULL;
}

static void split(char *text, size_t size)
{
	unsigned n = 0;

	for (char *at = text, *end; at < text + size && n < VARIABLES_MAX; at = end + 1) {
		end = memchr(at, '\n', (size_t)(text + size - at));
		if (!end)
			end = text + size;
		for (char *c = at; c < end; c++)
			if (!*c)
				*c = '\n';
		*end = '\0';
		variables[n++] = at;
	}
	variables[n] = NULL;
}

static void require_text(const char *text)
{
	size_t n = strnlen(text, PARAM_TEXT);

	REQUIRE(n < PARAM_TEXT);
	for (size_t i = 0; i < n; i++)
		REQUIRE((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static void look_at_all(void)
{
	struct param_info info;

	for (unsigned i = 0; i < param_count(); i++) {
		param_describe(i, &info);
		require_text(info.now);
		require_text(info.def);
		require_text(info.range);
		REQUIRE(info.changed || !strcmp(info.now, info.def));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	REQUIRE(text);
	memcpy(text, data, size);
	split(text, size);
	param_init(value_of);
	look_at_all();
	param_init(nothing_is_set); /* nothing is left of it */
	for (unsigned i = 0; i < param_count(); i++) {
		struct param_info info;

		param_describe(i, &info);
		REQUIRE(!info.changed);
	}
	free(text);
	return 0;
}
