/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stdio on sockets of ours.
 *
 * FILEs read, write and close their descriptors inside the C library, where no symbol
 * of ours comes in between, and any FILE may get a socket: by fdopen(), or because its
 * descriptor is overwritten (dup2(socket, 0), and then scanf()).  So the three
 * functions that all FILEs of files share, in the C library's table of them, are
 * replaced by ours.
 */
#ifndef INTERCEPT_STDIO_H
#define INTERCEPT_STDIO_H

/*
 * Any thread, when there is a socket of ours for the first time; later calls cost a
 * load.  A C library whose table looks different is left as it is, with a warning.
 */
void stdio_init(void);

#endif
