/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What parameters will be in a program that is yet to be executed.
 *
 * Role		any thread.
 */
#ifndef BASE_PARAM_PARAM_ENV_H
#define BASE_PARAM_PARAM_ENV_H

#include <stdbool.h>

/*
 * The value of a switch that no profile sets, in a program with this environment (NULL: an empty one).
 * variable: VMA_...; as in param_init(), the default counts if it is missing or malformed.
 */
bool param_switch_in(const char *variable, char *const *env);

#endif
