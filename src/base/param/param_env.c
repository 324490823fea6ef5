/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/param/param_env.h"

#include <assert.h>
#include <string.h>

#include "base/image/sections.h"
#include "base/param/param_internal.h"

EARLY_CODE static const struct param *find(const char *variable)
{
	const struct param *param = param_table;

	while (strcmp(param->variable, variable) != 0)
		param++;
	assert(param->kind == KIND_BOOL);
	return param;
}

EARLY_CODE bool param_switch_in(const char *variable, char *const *env)
{
	bool value = find(variable)->def;
	size_t len = strlen(variable);

	for (; env && *env; env++) {
		if (!strncmp(*env, variable, len) && (*env)[len] == '=') {
			(void)param_parse_bool(*env + len + 1, &value);
			break;
		}
	}
	return value;
}
