/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parameters, read from the VMA_* variables.  The list is param/param_list.h.
 *
 * Role		param_init(): once at start, before threads.  After that any thread
 *		reads params, and nothing writes it.
 */
#ifndef BASE_PARAM_H
#define BASE_PARAM_H

#include <stdbool.h>
#include <sched.h>

#include "base/log.h"

/* Processors; count 0 means any. */
struct param_cpus {
	int count;
	cpu_set_t set;
};

/* The parameters that act. */
struct params {
#define PARAM_INT(member, ...) int member;
#define PARAM_BOOL(member, ...) bool member;
#define PARAM_STR(member, ...) const char *member;
#define PARAM_LEVEL(member, ...) enum log_level member;
#define PARAM_ENUM(member, ...) int member;
#define PARAM_NAMED(member, ...) int member;
#define PARAM_RATIO(member, ...) int member;
#define PARAM_CPUS(member, ...) struct param_cpus member;
#define PARAM_SPEC(member, ...) int member;
#include "base/param/param_list.h"
};

/* Holds the defaults from the start, so unit tests need not call param_init(). */
extern struct params params;

/*
 * Reads every parameter with getenv_fn (getenv outside tests). The profile that VMA_SPEC names
 * replaces defaults; a variable replaces both. A malformed or out-of-range value changes nothing
 * and is remembered for param_warn(). Does not log, because the logger is configured by these
 * parameters.
 */
void param_init(const char *(*getenv_fn)(const char *name));

/*
 * Logs the warnings that param_init() remembered, once and one line each: malformed values, old
 * names, and values that ask for what the library does not do. Logs at level details which values
 * need a card. Also logs the boxed "high log level" warning, and a warning for each unknown VMA_*
 * variable of environ_vars, which may be NULL. Returns how many variables it warned of.
 */
unsigned param_warn(char *const *environ_vars);

/*
 * Logs the start-up banner: version, command line, then one line per parameter, `%-30s %-26s
 * [%s]`. A parameter at its default is shown at level details only.
 */
void param_banner(void);

/* ---- for programs that show the list --------------------------------------------------- */

enum param_class {
	PARAM_ACTS,
	PARAM_ALWAYS, /* the default is how the library always is */
	PARAM_CARD,   /* acts on ports of cards or fabrics that have it */
};

#define PARAM_TEXT 128 /* bytes of a value in words */

struct param_info {
	const char *variable;
	enum param_class class;
	const char *sentence;  /* what it does */
	const char *different; /* PARAM_ALWAYS: what holds instead of another value; else NULL */
	char range[PARAM_TEXT];
	char def[PARAM_TEXT];
	char now[PARAM_TEXT];
	bool changed; /* now is not def */
};

/* The number of parameters. */
unsigned param_count(void);
/* i: below param_count(). now is what param_init() has read, cut to PARAM_TEXT. */
void param_describe(unsigned i, struct param_info *info);

/* *name: of profile i, NULL beyond the last. Its number; -1: it has a name only. */
int param_profile(unsigned i, const char **name);
/* What profile sets as its i-th. False: no more. */
bool param_profile_setting(unsigned profile, unsigned i, const char **variable, const char **value);
/* The i-th earlier name of a parameter. False: no more. */
bool param_old_name(unsigned i, const char **old, const char **variable);

#endif
