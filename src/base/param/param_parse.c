/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsers for the parameter types. */
#include "base/param/param_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *name;
	enum log_level level;
} level_names[] = {
	/* The first name of a level is the one that is shown. The digits are not enum log_level. */
	{"none", LOG_NONE},    {"panic", LOG_PANIC},	 {"0", LOG_PANIC},
	{"error", LOG_ERROR},  {"1", LOG_ERROR},	 {"warning", LOG_WARNING},
	{"warn", LOG_WARNING}, {"2", LOG_WARNING},	 {"info", LOG_INFO},
	{"3", LOG_INFO},       {"details", LOG_DETAILS}, {"debug", LOG_DEBUG},
	{"4", LOG_DEBUG},      {"fine", LOG_FINE},	 {"func", LOG_FINE},
	{"5", LOG_FINE},       {"finer", LOG_FINER},	 {"func_all", LOG_FINER},
	{"6", LOG_FINER},      {"all", LOG_ALL},
};

#define LEVEL_NAMES (sizeof(level_names) / sizeof(level_names[0]))

bool param_parse_int(const char *text, int min, int max, int *out)
{
	int saved = errno;
	bool ok;
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	ok = !errno && end != text && !*end && !isspace((unsigned char)*text);
	errno = saved;
	if (!ok || n < min || n > max)
		return false;
	*out = (int)n;
	return true;
}

bool param_parse_bool(const char *text, bool *out)
{
	static const char *const words[][5] = {
		{"0", "disable", "disabled", "false", "off"},
		{"1", "enable", "enabled", "true", "on"},
	};

	for (int value = 0; value < 2; value++) {
		for (int i = 0; i < 5; i++) {
			if (!strcasecmp(text, words[value][i])) {
				*out = value;
				return true;
			}
		}
	}
	return false;
}

bool param_parse_level(const char *text, enum log_level *out)
{
	for (size_t i = 0; i < LEVEL_NAMES; i++) {
		if (!strcasecmp(text, level_names[i].name)) {
			*out = level_names[i].level;
			return true;
		}
	}
	return false;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses the digits of 0xMASK; the last digit is for processors 0 to 3. */
static bool parse_mask(const char *digits, cpu_set_t *set)
{
	size_t len = strlen(digits);

	for (size_t i = 0; i < len; i++) {
		int digit = hex_digit(digits[len - 1 - i]);

		if (digit < 0)
			return false;
		for (int bit = 0; bit < 4; bit++) {
			if (!(digit >> bit & 1))
				continue;
			if (4 * i + bit >= CPU_SETSIZE)
				return false;
			CPU_SET(4 * i + bit, set);
		}
	}
	return true;
}

/* Parses one processor number; returns the text after it, or NULL if there is none. */
static const char *parse_cpu(const char *text, unsigned *out)
{
	unsigned n = 0;

	if (!isdigit((unsigned char)*text))
		return NULL;
	for (; isdigit((unsigned char)*text); text++) {
		n = n * 10 + (unsigned)(*text - '0');
		if (n >= CPU_SETSIZE)
			return NULL;
	}
	*out = n;
	return text;
}

static bool parse_cpu_list(const char *text, cpu_set_t *set)
{
	for (;;) {
		unsigned first, last;

		text = parse_cpu(text, &first);
		if (!text)
			return false;
		last = first;
		if (*text == '-')
			text = parse_cpu(text + 1, &last);
		if (!text || last < first)
			return false;
		for (unsigned cpu = first; cpu <= last; cpu++)
			CPU_SET(cpu, set);
		if (!*text)
			return true;
		if (*text++ != ',')
			return false;
	}
}

bool param_parse_cpus(const char *text, struct param_cpus *out)
{
	struct param_cpus cpus = {0};
	bool ok;

	if (!strcmp(text, "-1")) {
		*out = cpus;
		return true;
	}
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		ok = parse_mask(text + 2, &cpus.set);
	else
		ok = parse_cpu_list(text, &cpus.set);
	cpus.count = CPU_COUNT(&cpus.set);
	if (!ok || !cpus.count)
		return false;
	*out = cpus;
	return true;
}

const char *param_level_name(int level)
{
	static char name[16];
	size_t i, len;

	for (i = 0; i < LEVEL_NAMES - 1 && (int)level_names[i].level != level; i++)
		;
	for (len = 0; level_names[i].name[len]; len++)
		name[len] = (char)toupper((unsigned char)level_names[i].name[len]);
	name[len] = '\0';
	return name;
}
