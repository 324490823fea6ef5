/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes that nobody else can guess.
 *
 * Role		any thread.
 * Sources	getrandom(2).  Where that is refused (a seccomp filter, an old
 *		kernel): the 16 bytes that the kernel gave the program at its
 *		start (AT_RANDOM, getauxval(3)), as the key of a hash, so that
 *		nobody learns them from what is drawn.  There is no third.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>

/* False: there is no source, and buf is as it was: do without what needs a secret. */
bool random_bytes(void *buf, size_t len) __attribute__((warn_unused_result));

#endif
