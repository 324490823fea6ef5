/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stdio on sockets of ours.
 *
 * FILEs read, write and close their descriptors inside the C library, where no symbol of
 * ours is called, and any FILE may get a socket: by fdopen(), or because its descriptor is
 * overwritten (dup2(socket, 0), and then scanf()).  So our functions replace the three
 * functions in the C library's table that all FILEs of files share.
 */
#ifndef INTERCEPT_STDIO_H
#define INTERCEPT_STDIO_H

/*
 * any, when a socket is made; calls after the first cost a load. A C library whose table
 * looks different is left unchanged, with a warning.
 */
void stdio_init(void);

#endif
