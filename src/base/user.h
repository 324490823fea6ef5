/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory the program names in a call, as the kernel takes it: a bad pointer is an error,
 * not a crash.
 *
 * Role		any thread, signal handlers included.  A system call each, but for what
 *		is on the caller's stack: for calls that are slow anyway.
 * Errors	-EFAULT.  Where the system call is forbidden, memory is trusted.
 */
#ifndef BASE_USER_H
#define BASE_USER_H

#include <stddef.h>
#include <sys/socket.h>

int user_read(void *to, const void *from, size_t n);
int user_write(void *to, const void *from, size_t n);

/* An address as functions like accept(2) give it: cut to *len, which becomes its length. */
int user_write_address(struct sockaddr *addr, socklen_t *len, const struct sockaddr *from,
		       socklen_t full);

#endif
