/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a configuration file whose path may come from anywhere.
 *
 * Role		any thread.  Does not wait for FIFOs and devices.
 */
#ifndef BASE_CONF_CONF_FILE_H
#define BASE_CONF_CONF_FILE_H

#include <stddef.h>

#define CONF_FILE_MAX (1 << 20) /* bytes */

/*
 * The whole file in *text (mem_free() it) and *len.  It must be a regular file of root or of the
 * effective user that not every user can write, with CONF_FILE_MAX bytes at most.  0; or -errno,
 * and *why says in words what is wrong.
 */
int conf_file_read(const char *path, char **text, size_t *len, const char **why);

#endif
