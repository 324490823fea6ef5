/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random bytes that no one else can guess.
 *
 * Role		any thread.
 * Sources	getrandom(2).  If that is refused (a seccomp filter, an old kernel): a
 *		keyed hash.  Its key is the 16 bytes that the kernel gave the program at
 *		its start (AT_RANDOM, getauxval(3)), so the output does not reveal them.
 *		There is no third source.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * False if there is no source; buf is then unchanged, and the caller must do without a secret.
 */
bool random_bytes(void *buf, size_t len) __attribute__((warn_unused_result));

#endif
