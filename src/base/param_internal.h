/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses parameter values for param.c.
 *
 * Role		pure.  True, and *out is set; or false, and *out is unchanged.  errno is
 *		preserved.
 */
#ifndef BASE_PARAM_INTERNAL_H
#define BASE_PARAM_INTERNAL_H

#include "base/param.h"

bool param_parse_int(const char *text, int min, int max, int *out);
bool param_parse_bool(const char *text, bool *out);
bool param_parse_level(const char *text, enum log_level *out);
bool param_parse_cpus(const char *text, struct param_cpus *out);

/* In upper case, in a static buffer that the next call overwrites. Not thread-safe. */
const char *param_level_name(int level);

#endif
