/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that a program which is executed finds open: see sock/carry.h.
 *
 * They are told in its environment, where the library runs there, too:
 *
 *	VMA_INHERITED=CHANNEL,INODE,LAST;FD,INODE,ID;FD,INODE,ID...
 *
 * Anybody can have put that there, and programs without the library may have stood in
 * between: what is no longer the same file is passed over.
 */
#ifndef INTERCEPT_EXEC_H
#define INTERCEPT_EXEC_H

#include <stdbool.h>
#include <stdint.h>

struct exec_item {
	int fd;
	uint64_t inode;
	uint64_t number; /* ID, LAST */
};

/* The item at *text, which then is at the next one. False: there is none, or no sense. */
bool exec_read_item(const char **text, struct exec_item *item);

/* Takes the variable out of the environment: its value, or NULL. */
const char *exec_take_variable(char **env);

/* At start, once sock is there. NULL: nothing. */
void exec_inherit(const char *text);

#endif
