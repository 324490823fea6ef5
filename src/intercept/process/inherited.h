/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inherited sockets: how an executed program learns which of its descriptors are sockets of
 * ours; see sock/share/exec_inherit.h.
 *
 * If the library is in the program, too, a variable in its environment lists them:
 *
 *	VMA_INHERITED=CHANNEL,INODE,LAST;FD,INODE,ID;FD,INODE,ID...
 *
 * Another one lists local connections, each with a descriptor that says where the former image left
 * it (sock/share/exec_local.h):
 *
 *	VMA_INHERITED_LOCAL=FD,INODE,PACKED;FD,INODE,PACKED...
 *
 * FD is INHERITED_ANYWHERE for a child of posix_spawn(), whose file actions may move
 * descriptors; it searches its own descriptors by INODE.  The variables are not trusted:
 * anybody can have set them, and programs without the library may have been executed in
 * between.  An item whose descriptor is not the same file any more is ignored.
 *
 * Role		app, no lock held.
 */
#ifndef INTERCEPT_PROCESS_INHERITED_H
#define INTERCEPT_PROCESS_INHERITED_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intercept/process/image.h"

#define INHERITED_NAME "VMA_INHERITED"
#define INHERITED_LOCAL_NAME "VMA_INHERITED_LOCAL"
#define INHERITED_ANYWHERE INT_MAX

struct inherited_item {
	int fd;
	uint64_t inode;
	uint64_t number; /* ID, LAST, PACKED */
};

/*
 * Reads the item at *text, and advances *text to the next one. False: there is none, or it
 * is malformed.
 */
bool inherited_read_item(const char **text, struct inherited_item *item);

/* Removes the variable of this name from the environment. Its value, or NULL. */
const char *inherited_take_variable(char **env, const char *name);

/*
 * At start, after sock_init(): text lists the sockets, local the local connections; NULL: none.
 * They are taken over at the first call that could be for one of them, or at once.
 */
void inherited_start(const char *text, const char *local);
/* Are they still to be taken over? fork_adopt() does it, by inherited_begin(). */
bool inherited_waits(void);
void inherited_begin(void);
/* Takes them over. */
void inherited_take(const char *text);
/* Takes the local connections over. */
void inherited_take_local(const char *text);

/* The environment of a program that inherits sockets. */
struct inherited {
	char *const *env; /* of the program; the caller's, if it inherits nothing */
	char **end;	  /* of the copy in map, where variables are added */
	char *text;	  /* the variables, in map */
	void *map;	  /* memory of env; NULL: it inherits nothing */
	size_t size;
	int channel;  /* inherited_lend(): the child's end of the channel */
	bool refused; /* inherited_lend(): fail with EAGAIN */
	bool shares;  /* the channel to the parent becomes the program's */
	bool left;    /* inherited_leave() prepared what exec closes, too */
};

/* Is there any socket to inherit, or anything to shut down before exec? */
bool inherited_any(void);

/*
 * inherited_leave(): this process is about to execute a program, with the environment that
 * is returned. Sockets that are not inherited fall back to the kernel. inherited_keep():
 * exec failed; leaves errno unchanged and returns -1.
 */
struct inherited inherited_leave(enum image image, char *const *env);
int inherited_keep(const struct inherited *h);

/*
 * Around the making of a child that executes a program at once: inherited_lend() before,
 * inherited_lent() after, even if it failed or was left by a jump; it may be called twice. Both with
 * signals blocked. A lock is held between the two, so that no other child gets the channel. A handler of
 * the program that interrupts a thread between the two is refused.
 */
void inherited_lend(struct inherited *h, enum image image, char *const *env);
void inherited_lent(struct inherited *h);

/* In a forked child. */
void inherited_fork_child(void);

#endif
