/* SPDX-License-Identifier: BSD-2-Clause */
/* What there is to say about the VMA_* variables of the environment. */
#include <string.h>

#include "base/param/param_internal.h"

#include "base/image/sections.h"

#define NAME_MAX_LEN 63 /* compared and shown of an unknown variable */
#define UNKNOWN_MAX 8	/* unknown variables that are named; the others are counted */

static void warn_malformed(const struct param *param)
{
	const struct param_state *state = param_state_of(param);
	const char *variable = state->old_name ? state->old_name : param->variable;
	char range[PARAM_TEXT], value[PARAM_TEXT];

	param_range_text(param, range, sizeof(range));
	param_value_text(param, value, sizeof(value));
	log_warn("%s=%s is not %s; using the %s%s%s", variable, state->shown, range,
		 state->source == PARAM_FROM_DEFAULT ? "default" : "profile's", value[0] ? " " : "",
		 value);
}

/* A value that has no effect here. True: a warning. */
static bool tell_no_effect(const struct param *param)
{
	struct param_state *state = param_state_of(param);
	bool set = state->source == PARAM_FROM_VARIABLE;
	char value[PARAM_TEXT];

	if (param->class == PARAM_ACTS || state->source == PARAM_FROM_DEFAULT ||
	    param_is_default(param))
		return false;
	param_value_text(param, value, sizeof(value));
	if (param->class == PARAM_CARD) {
		log_details("%s=%s acts on cards that have it; AF_XDP does not", param->variable,
			    set ? state->shown : value);
		return false;
	}
	log_at(set ? LOG_WARNING : LOG_DETAILS, "%s=%s has no effect: %s", param->variable,
	       set ? state->shown : value, param->different);
	return set;
}

/* What was told, is told once. */
static void forget(const struct param *param)
{
	struct param_state *state = param_state_of(param);

	state->malformed = false;
	state->old_name = NULL;
	if (param->class != PARAM_ACTS)
		state->source = PARAM_FROM_DEFAULT;
}

/* True: a warning. */
EARLY_CODE static bool tell_one(const struct param *param)
{
	struct param_state *state = param_state_of(param);
	bool warned = state->old_name || state->malformed;

	if (state->old_name)
		log_warn("%s is an old name of %s, which it sets", state->old_name,
			 param->variable);
	if (state->malformed)
		warn_malformed(param);
	else
		warned |= tell_no_effect(param);
	if (state->malformed || state->old_name || state->source != PARAM_FROM_DEFAULT)
		forget(param);
	return warned;
}

/* ---- unknown variables ---------------------------------------------------------------- */

static bool is_same(const char *known, const char *variable, size_t len)
{
	return strlen(known) == len && !memcmp(known, variable, len);
}

EARLY_CODE static bool is_known(const char *variable, size_t len)
{
	for (unsigned i = 0; i < param_count(); i++) {
		if (is_same(param_table[i].variable, variable, len))
			return true;
	}
	for (unsigned i = 0; i < param_n_old_names; i++) {
		if (is_same(param_old_names[i].old, variable, len))
			return true;
	}
	return false;
}

/* Edit distance: characters to insert, remove or replace (Levenshtein). len: NAME_MAX_LEN at most. */
static unsigned distance(const char *known, const char *variable, size_t len)
{
	unsigned row[NAME_MAX_LEN + 1];

	for (unsigned j = 0; j <= len; j++)
		row[j] = j;
	for (unsigned i = 0; known[i]; i++) {
		unsigned corner = row[0]++;

		for (size_t j = 0; j < len; j++) {
			unsigned best = corner + (known[i] != variable[j]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j + 1] + 1 < best)
				best = row[j + 1] + 1;
			corner = row[j + 1];
			row[j + 1] = best;
		}
	}
	return row[len];
}

static const char *nearest(const char *variable, size_t len)
{
	const char *best = param_table[0].variable;
	unsigned least = distance(best, variable, len);

	for (unsigned i = 1; i < param_count(); i++) {
		unsigned d = distance(param_table[i].variable, variable, len);

		if (d < least) {
			least = d;
			best = param_table[i].variable;
		}
	}
	return best;
}

static void warn_unknown(const char *variable, size_t len)
{
	char shown[NAME_MAX_LEN + 1];

	param_show(shown, sizeof(shown), variable, len);
	log_warn("%s is not a parameter and has no effect; the nearest name is %s", shown,
		 nearest(variable, len < NAME_MAX_LEN ? len : NAME_MAX_LEN));
}

EARLY_CODE unsigned param_warn(char *const *environ_vars)
{
	unsigned unknown = 0, warned = 0;

	for (unsigned i = 0; i < param_count(); i++)
		warned += tell_one(&param_table[i]);
	for (; environ_vars && *environ_vars; environ_vars++) {
		size_t len = strcspn(*environ_vars, "=");

		if (!strncmp(*environ_vars, "VMA_", 4) && !is_known(*environ_vars, len) &&
		    unknown++ < UNKNOWN_MAX)
			warn_unknown(*environ_vars, len);
	}
	if (unknown > UNKNOWN_MAX)
		log_warn("%u more VMA_* variables are not parameters", unknown - UNKNOWN_MAX);
	if (params.log_level >= LOG_DEBUG)
		log_box(LOG_WARNING, "VMA is currently configured with high log level\n"
				     "Application performance will decrease in this log level!\n"
				     "This log level is recommended for debugging purposes only");
	return warned + unknown;
}
