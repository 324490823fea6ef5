/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that use io_uring, which operates on descriptors without calls that we see: the
 * kernel serves their sockets. Recognised by io_uring_setup(2) made with syscall(), or by
 * liburing, which makes it without the C library, if it is loaded when the first socket is
 * made.
 */
#ifndef INTERCEPT_URING_H
#define INTERCEPT_URING_H

#include <stdbool.h>

/*
 * any: the program has an io_uring. Sockets that are not connected fall back to the kernel,
 * and so do new ones. One warning says so, and a second one tells of connections that
 * cannot.
 */
void uring_used(void);

/* any: does the kernel serve new sockets? */
bool uring_is_used(void);

#endif
