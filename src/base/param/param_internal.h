/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of parameters, made from param_list.h, for the files param*.c.
 *
 * Role		param_init() writes param_states, once at start, before threads;
 *		param_warn() clears what it has logged.
 */
#ifndef BASE_PARAM_PARAM_INTERNAL_H
#define BASE_PARAM_PARAM_INTERNAL_H

#include <limits.h>

#include "base/param.h"

#define PARAM_SHOWN 64	     /* bytes of a value that a warning shows */
#define PARAM_STR_MAX 4095   /* longest text that a parameter may have */
#define PARAM_OTHERS INT_MAX /* in a list of names: every number that has no other name */

enum param_kind {
	KIND_INT,
	KIND_BOOL,
	KIND_STR,
	KIND_LEVEL,
	KIND_ENUM,
	KIND_RATIO,
	KIND_CPUS,
	KIND_SPEC,
};

struct param_name {
	int value;
	const char *text;
};

/* One entry of param_list.h. */
struct param {
	enum param_kind kind;
	enum param_class class;
	void *value; /* member of params, or of param_states if it does not act */
	const char *variable;
	const char *label; /* "": in the banner only if it is set */
	const char *sentence;
	const char *different;		/* PARAM_ALWAYS */
	int def, min, max;		/* int, bool, level, enum, ratio, spec */
	const char *def_text;		/* string, CPUs */
	const struct param_name *names; /* of an enum, or of an int with named values */
	int n_names;
};

enum param_source { PARAM_FROM_DEFAULT, PARAM_FROM_SPEC, PARAM_FROM_VARIABLE };

/* What param_init() found for one parameter. */
struct param_state {
	union {
		int number;
		bool flag;
		const char *string;
	} own;			  /* value of a parameter that does not act */
	char *text;		  /* copy of the string or list; NULL: the default */
	enum param_source source; /* of the value */
	const char *old_name;	  /* a warning is pending: the variable that was used */
	bool malformed;		  /* a warning is pending ... */
	char shown[PARAM_SHOWN];  /* ... for this value; also the value that has no effect */
};

/* An earlier name of a parameter. */
struct param_old_name {
	const char *old, *variable;
};

extern const struct param param_table[];
extern struct param_state param_states[]; /* of each entry of param_table */
extern const struct param_old_name param_old_names[];
extern const unsigned param_n_old_names;

static inline struct param_state *param_state_of(const struct param *param)
{
	return &param_states[param - param_table];
}

/* Copies text for a log line: cut, and what is not printable ASCII becomes '?'. */
void param_show(char *shown, size_t size, const char *text, size_t len);

/* ---- parsers: true and *out is set, or false and *out is unchanged; errno is preserved ---- */

bool param_parse_int(const char *text, int min, int max, int *out);
bool param_parse_bool(const char *text, bool *out);
bool param_parse_level(const char *text, enum log_level *out);
bool param_parse_cpus(const char *text, struct param_cpus *out);

/* ---- values in words (param_text.c) ------------------------------------------------------ */

/* The number as the parameter names it, or NULL. */
const char *param_name_of(const struct param *param, int value);
/* In upper case, in a static buffer that the next call overwrites. Not thread-safe. */
const char *param_level_name(int level);
void param_banner_text(const struct param *param, char *out, size_t size);
void param_value_text(const struct param *param, char *out, size_t size);
void param_default_text(const struct param *param, char *out, size_t size);
/* What values it takes: "a number in 0..3". */
void param_range_text(const struct param *param, char *out, size_t size);
bool param_is_default(const struct param *param);

/* ---- profiles (param_spec.c) --------------------------------------------------------------- */

/* The profile that a value of VMA_SPEC names, or -1. 0 is the profile that changes nothing. */
int param_spec_find(const char *text);
const char *param_spec_name(int spec);
/* What the profile sets the variable to, or NULL. */
const char *param_spec_value(int spec, const char *variable);

#endif
