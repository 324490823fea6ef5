/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/param.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/param/param_internal.h"
#include "base/image/sections.h"
#include "base/sys.h"

#define DEBUG_DETAILS 2 /* a debug log needs thread ids */

/* The place of each parameter that does not act in param_states. */
enum place {
#define PARAM_INT(m, var, ...) AT_##var,
#define PARAM_BOOL(m, var, ...) AT_##var,
#define PARAM_STR(m, var, ...) AT_##var,
#define PARAM_LEVEL(m, var, ...) AT_##var,
#define PARAM_ENUM(m, var, ...) AT_##var,
#define PARAM_NAMED(m, var, ...) AT_##var,
#define PARAM_RATIO(m, var, ...) AT_##var,
#define PARAM_CPUS(m, var, ...) AT_##var,
#define PARAM_SPEC(m, var, ...) AT_##var,
#define ALWAYS_INT(var, ...) AT_##var,
#define ALWAYS_BOOL(var, ...) AT_##var,
#define ALWAYS_STR(var, ...) AT_##var,
#define ALWAYS_ENUM(var, ...) AT_##var,
#define ALWAYS_NAMED(var, ...) AT_##var,
#define CARD_INT(var, ...) AT_##var,
#define CARD_BOOL(var, ...) AT_##var,
#define CARD_NAMED(var, ...) AT_##var,
#include "base/param/param_list.h"
	COUNT
};

/*
 * As param_init() leaves them without variables, so that it need not touch them then. The strings of
 * those that do not act are in param_table.
 */
struct param_state param_states[COUNT] = {
#define ALWAYS_INT(var, d, ...) [AT_##var].own.number = d,
#define ALWAYS_BOOL(var, d, ...) [AT_##var].own.flag = d,
#define ALWAYS_ENUM(var, d, ...) [AT_##var].own.number = d,
#define ALWAYS_NAMED(var, d, ...) [AT_##var].own.number = d,
#define CARD_INT(var, d, ...) [AT_##var].own.number = d,
#define CARD_BOOL(var, d, ...) [AT_##var].own.flag = d,
#define CARD_NAMED(var, d, ...) [AT_##var].own.number = d,
#include "base/param/param_list.h"
};

#define NAMES(...)                                         \
	.names = (const struct param_name[]){__VA_ARGS__}, \
	.n_names = sizeof((const struct param_name[]){__VA_ARGS__}) / sizeof(struct param_name)
#define ENTRY(k, where, var, lbl, text) \
	.kind = k, .value = where, .variable = #var, .label = lbl, .sentence = text
#define MEMBER(k, m, var, lbl, text) ENTRY(k, &params.m, var, lbl, text), .class = PARAM_ACTS
#define FIXED(k, var, lbl, text, diff)                                                \
	ENTRY(k, &param_states[AT_##var].own, var, lbl, text), .class = PARAM_ALWAYS, \
							       .different = diff
#define CARD(k, var, lbl, text) \
	ENTRY(k, &param_states[AT_##var].own, var, lbl, text), .class = PARAM_CARD
#define BOUNDS(d, lo, hi) .def = d, .min = lo, .max = hi

const struct param param_table[COUNT] = {
#define PARAM_INT(m, var, d, lo, hi, lbl, text) \
	{MEMBER(KIND_INT, m, var, lbl, text), BOUNDS(d, lo, hi)},
#define PARAM_BOOL(m, var, d, lbl, text) {MEMBER(KIND_BOOL, m, var, lbl, text), .def = d},
#define PARAM_STR(m, var, d, lbl, text) {MEMBER(KIND_STR, m, var, lbl, text), .def_text = d},
#define PARAM_LEVEL(m, var, d, lbl, text) {MEMBER(KIND_LEVEL, m, var, lbl, text), .def = d},
#define PARAM_ENUM(m, var, d, n, lbl, text) \
	{MEMBER(KIND_ENUM, m, var, lbl, text), .def = d, NAMES n},
#define PARAM_NAMED(m, var, d, lo, hi, n, lbl, text) \
	{MEMBER(KIND_INT, m, var, lbl, text), BOUNDS(d, lo, hi), NAMES n},
#define PARAM_RATIO(m, var, d, hi, lbl, text) \
	{MEMBER(KIND_RATIO, m, var, lbl, text), BOUNDS(d, -1, hi)},
#define PARAM_CPUS(m, var, d, lbl, text) {MEMBER(KIND_CPUS, m, var, lbl, text), .def_text = d},
#define PARAM_SPEC(m, var, d, lbl, text) {MEMBER(KIND_SPEC, m, var, lbl, text), .def = d},
#define ALWAYS_INT(var, d, lo, hi, lbl, text, diff) \
	{FIXED(KIND_INT, var, lbl, text, diff), BOUNDS(d, lo, hi)},
#define ALWAYS_BOOL(var, d, lbl, text, diff) {FIXED(KIND_BOOL, var, lbl, text, diff), .def = d},
#define ALWAYS_STR(var, d, lbl, text, diff) {FIXED(KIND_STR, var, lbl, text, diff), .def_text = d},
#define ALWAYS_ENUM(var, d, n, lbl, text, diff) \
	{FIXED(KIND_ENUM, var, lbl, text, diff), .def = d, NAMES n},
#define ALWAYS_NAMED(var, d, lo, hi, n, lbl, text, diff) \
	{FIXED(KIND_INT, var, lbl, text, diff), BOUNDS(d, lo, hi), NAMES n},
#define CARD_INT(var, d, lo, hi, lbl, text) {CARD(KIND_INT, var, lbl, text), BOUNDS(d, lo, hi)},
#define CARD_BOOL(var, d, lbl, text) {CARD(KIND_BOOL, var, lbl, text), .def = d},
#define CARD_NAMED(var, d, lo, hi, n, lbl, text) \
	{CARD(KIND_INT, var, lbl, text), BOUNDS(d, lo, hi), NAMES n},
#include "base/param/param_list.h"
};

const struct param_old_name param_old_names[] = {
#define OLD_NAME(name, var) {#name, #var},
#include "base/param/param_list.h"
};

const unsigned param_n_old_names = sizeof(param_old_names) / sizeof(param_old_names[0]);

struct params params EARLY_DATA = {
#define PARAM_INT(m, var, d, ...) .m = d,
#define PARAM_BOOL(m, var, d, ...) .m = d,
#define PARAM_STR(m, var, d, ...) .m = d,
#define PARAM_LEVEL(m, var, d, ...) .m = d,
#define PARAM_ENUM(m, var, d, ...) .m = d,
#define PARAM_NAMED(m, var, d, ...) .m = d,
#define PARAM_RATIO(m, var, d, ...) .m = d,
#define PARAM_CPUS(m, var, d, ...) .m = {.count = 0}, /* "-1": param_test looks */
#define PARAM_SPEC(m, var, d, ...) .m = d,
#include "base/param/param_list.h"
};

/* Copies text and replaces the first %d by the process id; NULL without memory. */
static char *expand_pid(const char *text)
{
	const char *place = strstr(text, "%d");
	size_t size = strlen(text) + 16;
	char *copy;

	if (!place)
		return mem_strdup(text);
	copy = mem_alloc(size);
	if (copy)
		snprintf(copy, size, "%.*s%d%s", (int)(place - text), text, sys_getpid(),
			 place + 2);
	return copy;
}

static bool is_named(const struct param *param, int value)
{
	for (int i = 0; i < param->n_names; i++) {
		if (param->names[i].value == value)
			return true;
	}
	return false;
}

static bool parse_value(const struct param *param, const char *text)
{
	int n = param->def;

	switch (param->kind) {
	case KIND_INT:
		return param_parse_int(text, param->min, param->max, param->value);
	case KIND_BOOL:
		return param_parse_bool(text, param->value);
	case KIND_LEVEL:
		return param_parse_level(text, param->value);
	case KIND_ENUM:
		if (!param_parse_int(text, INT_MIN, INT_MAX, &n) || !is_named(param, n))
			return false;
		break;
	case KIND_RATIO:
		if (!param_parse_int(text, param->min, param->max, &n) || n == 0)
			return false;
		break;
	case KIND_SPEC:
		n = param_spec_find(text);
		if (n < 0)
			return false;
		break;
	case KIND_CPUS:
		return param_parse_cpus(text, param->value);
	case KIND_STR:
		return strnlen(text, PARAM_STR_MAX + 1) <= PARAM_STR_MAX;
	}
	*(int *)param->value = n;
	return true;
}

static void set_default(const struct param *param)
{
	switch (param->kind) {
	case KIND_INT:
	case KIND_ENUM:
	case KIND_RATIO:
	case KIND_SPEC:
		*(int *)param->value = param->def;
		break;
	case KIND_BOOL:
		*(bool *)param->value = param->def;
		break;
	case KIND_LEVEL:
		*(enum log_level *)param->value = (enum log_level)param->def;
		break;
	case KIND_CPUS:
		param_parse_cpus(param->def_text, param->value);
		break;
	case KIND_STR:
		*(const char **)param->value = param->def_text;
		break;
	}
}

/* Takes a value that a profile or a variable has.  False: malformed, nothing is changed. */
EARLY_CODE static bool take(const struct param *param, const char *text, enum param_source source)
{
	struct param_state *state = param_state_of(param);

	if (!parse_value(param, text))
		return false;
	state->source = source;
	if (param->kind != KIND_STR && param->kind != KIND_CPUS)
		return true;
	mem_free(state->text);
	state->text = expand_pid(text);
	if (param->kind == KIND_STR && state->text)
		*(const char **)param->value = state->text;
	return true;
}

/* The value of an earlier name, which *name is set to; NULL: none is set. */
EARLY_CODE static const char *
old_value(const struct param *param, const char *(*getenv_fn)(const char *name), const char **name)
{
	for (unsigned i = 0; i < param_n_old_names; i++) {
		const char *text;

		if (strcmp(param_old_names[i].variable, param->variable) != 0)
			continue;
		text = getenv_fn(param_old_names[i].old);
		if (text) {
			*name = param_old_names[i].old;
			return text;
		}
	}
	return NULL;
}

static void reset(const struct param *param)
{
	struct param_state *state = param_state_of(param);

	mem_free(state->text);
	state->text = NULL;
	state->malformed = false;
	state->old_name = NULL;
	state->source = PARAM_FROM_DEFAULT;
	set_default(param);
}

/* again: not the first time, when all is as it is without a variable. */
EARLY_CODE static void read_one(const struct param *param,
				const char *(*getenv_fn)(const char *name), bool again)
{
	const char *text = getenv_fn(param->variable), *profile;
	struct param_state *state = param_state_of(param);

	if (again)
		reset(param);
	profile = params.spec ? param_spec_value(params.spec, param->variable) : NULL;
	if (profile)
		take(param, profile, PARAM_FROM_SPEC);
	if (!text)
		text = old_value(param, getenv_fn, &state->old_name);
	if (!text)
		return;
	state->malformed = !take(param, text, PARAM_FROM_VARIABLE);
	param_show(state->shown, sizeof(state->shown), text, strnlen(text, PARAM_SHOWN));
}

/* Sets what another parameter implies, if it is not set itself. */
static void imply(enum place at, const char *text)
{
	if (param_states[at].source != PARAM_FROM_VARIABLE)
		take(&param_table[at], text, PARAM_FROM_SPEC);
}

EARLY_CODE void param_init(const char *(*getenv_fn)(const char *name))
{
	static bool ran EARLY_DATA;

	/* VMA_SPEC is the first: the others' defaults depend on it. */
	if (params.spec)
		params.spec = 0;
	for (unsigned i = 0; i < COUNT; i++)
		read_one(&param_table[i], getenv_fn, ran);
	ran = true;
	if (params.select_poll_os_force) {
		imply(AT_VMA_SELECT_POLL_OS_RATIO, "1");
		imply(AT_VMA_SELECT_SKIP_OS, "1");
	}
	if (params.log_level >= LOG_DEBUG && params.log_details < DEBUG_DETAILS)
		params.log_details = DEBUG_DETAILS;
}

unsigned param_count(void)
{
	return COUNT;
}

void param_describe(unsigned i, struct param_info *info)
{
	const struct param *param = &param_table[i];

	info->variable = param->variable;
	info->class = param->class;
	info->sentence = param->sentence;
	info->different = param->different;
	param_range_text(param, info->range, sizeof(info->range));
	param_default_text(param, info->def, sizeof(info->def));
	param_value_text(param, info->now, sizeof(info->now));
	info->changed = !param_is_default(param);
}

bool param_old_name(unsigned i, const char **old, const char **variable)
{
	if (i >= param_n_old_names)
		return false;
	*old = param_old_names[i].old;
	*variable = param_old_names[i].variable;
	return true;
}
