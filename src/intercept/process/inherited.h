/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that a program which is executed finds open: see sock/share/exec_inherit.h.
 *
 * They are told in its environment, where the library runs there, too:
 *
 *	VMA_INHERITED=CHANNEL,INODE,LAST;FD,INODE,ID;FD,INODE,ID...
 *
 * FD is HERITAGE_ANYWHERE where nobody knows: the child of posix_spawn() moves descriptors
 * about, and looks for what it has.  Anybody can have put the variable there, and programs
 * without the library may have stood in between: what is no longer the same file is passed over.
 */
#ifndef INTERCEPT_PROCESS_INHERITED_H
#define INTERCEPT_PROCESS_INHERITED_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intercept/process/image.h"

#define HERITAGE_NAME "VMA_INHERITED"
#define HERITAGE_ANYWHERE INT_MAX

struct heritage_item {
	int fd;
	uint64_t inode;
	uint64_t number; /* ID, LAST */
};

/* The item at *text, which then is at the next one. False: there is none, or no sense. */
bool heritage_read_item(const char **text, struct heritage_item *item);

/* Takes the variable out of the environment: its value, or NULL. */
const char *heritage_take_variable(char **env);

/* At start, once sock is there. NULL: nothing. */
void heritage_take(const char *text);

/* The environment of a program that inherits something. */
struct heritage {
	char *const *env; /* for it; the caller's, if it inherits nothing */
	char *text;	  /* the variable */
	void *map;	  /* NULL: it inherits nothing */
	size_t size;
	int channel; /* lent: its end of the channel */
};

/* Is there anything to inherit, or to be brought to an end before? */
bool heritage_any(void);

/* This process is about to execute a program; when that fails: errno stays, -1. */
struct heritage heritage_leave(enum image image, char *const *env);
int heritage_keep(const struct heritage *h);

/*
 * A child of this process is about to be made that executes a program at once; then, and if it
 * could not be made.  No two threads are between the two: no other child has the channel.
 */
struct heritage heritage_lend(enum image image, char *const *env);
void heritage_lent(struct heritage *h);

/* In a forked child. */
void heritage_fork_child(void);

#endif
