/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that a program which is executed finds open: see sock/share/exec_inherit.h.
 *
 * They are told in its environment, where the library runs there, too:
 *
 *	VMA_INHERITED=CHANNEL,INODE,LAST;FD,INODE,ID;FD,INODE,ID...
 *
 * FD is INHERITED_ANYWHERE where nobody knows: the child of posix_spawn() moves descriptors
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

#define INHERITED_NAME "VMA_INHERITED"
#define INHERITED_ANYWHERE INT_MAX

struct inherited_item {
	int fd;
	uint64_t inode;
	uint64_t number; /* ID, LAST */
};

/* The item at *text, which then is at the next one. False: there is none, or no sense. */
bool inherited_read_item(const char **text, struct inherited_item *item);

/* Takes the variable out of the environment: its value, or NULL. */
const char *inherited_take_variable(char **env);

/* At start, once sock is there. NULL: nothing. */
void inherited_take(const char *text);

/* The environment of a program that inherits something. */
struct inherited {
	char *const *env; /* for it; the caller's, if it inherits nothing */
	char *text;	  /* the variable */
	void *map;	  /* NULL: it inherits nothing */
	size_t size;
	int channel; /* lent: its end of the channel */
};

/* Is there anything to inherit, or to be brought to an end before? */
bool inherited_any(void);

/* This process is about to execute a program; when that fails: errno stays, -1. */
struct inherited inherited_leave(enum image image, char *const *env);
int inherited_keep(const struct inherited *h);

/*
 * A child of this process is about to be made that executes a program at once; then, and if it
 * could not be made.  No two threads are between the two: no other child has the channel.
 */
struct inherited inherited_lend(enum image image, char *const *env);
void inherited_lent(struct inherited *h);

/* In a forked child. */
void inherited_fork_child(void);

#endif
