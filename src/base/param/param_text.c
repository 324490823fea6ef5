/* SPDX-License-Identifier: BSD-2-Clause */
/* Values, defaults and ranges of parameters in words. */
#include <stdio.h>
#include <string.h>

#include "base/param/param_internal.h"

const char *param_name_of(const struct param *param, int value)
{
	for (int i = 0; i < param->n_names; i++) {
		if (param->names[i].value == value || param->names[i].value == PARAM_OTHERS)
			return param->names[i].text;
	}
	return NULL;
}

static void number_text(const struct param *param, int value, bool banner, char *out, size_t size)
{
	const char *name = param_name_of(param, value);
	bool instead = name && name[0] == '=';

	if (!name)
		snprintf(out, size, "%d", value);
	else if (instead && banner)
		snprintf(out, size, "%s", name + 1);
	else
		snprintf(out, size, "%d (%s)", value, name + instead);
}

static void text_of(const struct param *param, int value, const char *text, bool banner, char *out,
		    size_t size)
{
	switch (param->kind) {
	case KIND_INT:
	case KIND_ENUM:
	case KIND_RATIO:
		number_text(param, value, banner, out, size);
		return;
	case KIND_BOOL:
		if (banner)
			text = value ? "Enabled" : "Disabled";
		else
			text = value ? "1" : "0";
		break;
	case KIND_LEVEL:
		text = param_level_name(value);
		break;
	case KIND_SPEC:
		text = param_spec_name(value);
		break;
	case KIND_STR:
	case KIND_CPUS:
		param_show(out, size, text, strlen(text));
		return;
	}
	snprintf(out, size, "%s", text);
}

static int number_of(const struct param *param)
{
	switch (param->kind) {
	case KIND_BOOL:
		return *(bool *)param->value;
	case KIND_LEVEL:
		return (int)*(enum log_level *)param->value;
	case KIND_INT:
	case KIND_ENUM:
	case KIND_RATIO:
	case KIND_SPEC:
		return *(int *)param->value;
	case KIND_STR:
	case KIND_CPUS:
		break;
	}
	return 0;
}

static const char *string_of(const struct param *param)
{
	const char *text = param_state_of(param)->text;

	return text ? text : param->def_text;
}

void param_value_text(const struct param *param, char *out, size_t size)
{
	text_of(param, number_of(param), string_of(param), false, out, size);
}

void param_banner_text(const struct param *param, char *out, size_t size)
{
	text_of(param, number_of(param), string_of(param), true, out, size);
}

void param_default_text(const struct param *param, char *out, size_t size)
{
	text_of(param, param->def, param->def_text, false, out, size);
}

bool param_is_default(const struct param *param)
{
	if (param->kind == KIND_STR || param->kind == KIND_CPUS)
		return !strcmp(string_of(param), param->def_text);
	return number_of(param) == param->def;
}

/* "a number in 0..3" or "one of 0, 1, 10". */
static void choices_text(const struct param *param, char *out, size_t size)
{
	int first = param->names[0].value, last = param->names[param->n_names - 1].value;
	size_t len;

	if (last - first == param->n_names - 1) {
		snprintf(out, size, "a number in %d..%d", first, last);
		return;
	}
	len = (size_t)snprintf(out, size, "one of %d", first);
	for (int i = 1; i < param->n_names && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, ", %d", param->names[i].value);
}

void param_range_text(const struct param *param, char *out, size_t size)
{
	switch (param->kind) {
	case KIND_INT:
		snprintf(out, size, "a number in %d..%d", param->min, param->max);
		break;
	case KIND_ENUM:
		choices_text(param, out, size);
		break;
	case KIND_RATIO:
		snprintf(out, size, "-1 or a number in 1..%d", param->max);
		break;
	case KIND_BOOL:
		snprintf(out, size, "0 or 1");
		break;
	case KIND_LEVEL:
		snprintf(out, size,
			 "a log level (none, panic, error, warn, info, details, debug, "
			 "fine, finer, all, or 0 to 6)");
		break;
	case KIND_CPUS:
		snprintf(out, size, "-1, a mask 0x3 or a list 1,3-5");
		break;
	case KIND_SPEC:
		snprintf(out, size, "a profile");
		for (int i = 0; param_spec_name(i); i++) {
			size_t len = strlen(out);

			snprintf(out + len, size - len, "%s%s", i ? ", " : ": ",
				 param_spec_name(i));
		}
		break;
	case KIND_STR:
		snprintf(out, size, "a text of at most %d characters", PARAM_STR_MAX);
		break;
	}
}

void param_show(char *shown, size_t size, const char *text, size_t len)
{
	size_t n = len < size - 1 ? len : size - 1;

	for (size_t i = 0; i < n; i++)
		shown[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	shown[n] = '\0';
	if (len > n && n > 3)
		memcpy(shown + n - 3, "...", 3);
}
