/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parameters, read from the VMA_* variables.  The list is param_list.h.
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

struct params {
#define PARAM_INT(member, ...) int member;
#define PARAM_BOOL(member, ...) bool member;
#define PARAM_STR(member, ...) const char *member;
#define PARAM_LEVEL(member, ...) enum log_level member;
#define PARAM_ENUM(member, ...) int member;
#define PARAM_NAMED(member, ...) int member;
#define PARAM_RATIO(member, ...) int member;
#define PARAM_CPUS(member, ...) struct param_cpus member;
#include "base/param_list.h"
#undef PARAM_INT
#undef PARAM_BOOL
#undef PARAM_STR
#undef PARAM_LEVEL
#undef PARAM_ENUM
#undef PARAM_NAMED
#undef PARAM_RATIO
#undef PARAM_CPUS
};

/* Holds the defaults from the start, so unit tests need not call param_init(). */
extern struct params params;

/*
 * Reads every parameter with getenv_fn (getenv outside tests). A malformed or out-of-range value
 * keeps the default and is remembered for param_warn(). Does not log, because the logger is
 * configured by these parameters.
 */
void param_init(const char *(*getenv_fn)(const char *name));

/*
 * Logs the warnings that param_init() remembered, once and one line each, with variable, value
 * and range. Also logs the boxed "high log level" warning, and a warning for each unknown VMA_*
 * variable of environ_vars, which may be NULL.
 */
void param_warn(char *const *environ_vars);

/*
 * Logs the start-up banner: version, command line, then one line per parameter, `%-30s %-26s
 * [%s]`. A parameter at its default is shown at level details only.
 */
void param_banner(void);

#endif
