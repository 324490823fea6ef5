/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From text to values, for param.c.
 *
 * Role		pure.  True and *out written, or false and *out as it was; errno
 *		stays.
 */
#ifndef BASE_PARAM_INTERNAL_H
#define BASE_PARAM_INTERNAL_H

#include "base/param.h"

bool param_parse_int(const char *text, int min, int max, int *out);
bool param_parse_bool(const char *text, bool *out);
bool param_parse_level(const char *text, enum log_level *out);
bool param_parse_cpus(const char *text, struct param_cpus *out);

/* In capitals, in a static buffer: for one thread, until the next call. */
const char *param_level_name(int level);

#endif
