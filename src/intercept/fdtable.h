/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which descriptors of the program are sockets of ours.
 *
 * Role		fd_get(), fd_install(): any thread, lock-free.  Everything else:
 *		any thread, under a lock inside, with signals blocked: close()
 *		may be called by a signal handler.  No sock function is called
 *		under the lock.
 * Lifetime	a leaf, once there, stays.  The table does not keep a socket
 *		alive; whoever takes out its last descriptor closes it.
 * Ordering	an entry goes from empty to a socket and back to empty only.
 *		Filling writes gen, then sk; emptying writes sk.  A reader loads
 *		sk, gen, sk, gen, until it has each twice: a socket that came and
 *		went between the two sk, and left its gen there, shows in the
 *		second gen.  A socket's generations do not come back, so the worst
 *		that a reader who raced with close() gets is a reference to a
 *		socket that ended, which every call recognises.  An empty entry
 *		belongs to whoever has the descriptor from the kernel: sk comes
 *		last, and with it the entry is the lock's.
 * Progress	lookup never waits.
 * fork		a process made past libc (a raw clone(2), clone3(2)) has our memory, and
 *		nobody tells it that rings and descriptors are its parent's.  The kernel
 *		wipes fd_root in every forked process (MADV_WIPEONFORK), so that the first
 *		look-up there finds nothing and calls fork_adopt().  fd_leaves keeps what
 *		fd_root was.
 */
#ifndef INTERCEPT_FDTABLE_H
#define INTERCEPT_FDTABLE_H

#include <limits.h>

#include "sock/core/sock.h"

#define FD_LEAF_BITS 16
#define FD_LEAF_SIZE (1 << FD_LEAF_BITS)
#define FD_ROOT_SIZE ((INT_MAX >> FD_LEAF_BITS) + 1)

struct fd_entry {
	struct sock *sk; /* any, atomic; NULL: not ours */
	uint32_t gen;	 /* any, atomic */
	int next;	 /* lock, or empty: another descriptor of the same socket; a ring */
};

/* Leaves are mapped when used, and their pages when written. */
extern struct fd_entry *fd_root[FD_ROOT_SIZE];
extern struct fd_entry *fd_leaves[FD_ROOT_SIZE]; /* written after fd_root */

/* A leaf that fd_root lacks and fd_leaves has: that of fd, when it is known why. */
struct fd_entry *fd_missed(int fd);

/* Of a descriptor that is not negative; NULL: none. */
static inline struct fd_entry *fd_leaf(int fd)
{
	struct fd_entry *leaf = __atomic_load_n(&fd_root[fd >> FD_LEAF_BITS], __ATOMIC_ACQUIRE);

	/* Acquire: pairs with entry_make(). */
	if (leaf ||
	    __builtin_expect(!__atomic_load_n(&fd_leaves[fd >> FD_LEAF_BITS], __ATOMIC_ACQUIRE), 1))
		return leaf;
	return fd_missed(fd);
}

static inline struct sock_ref fd_get(int fd)
{
	struct sock_ref ref = {NULL, 0};
	struct fd_entry *leaf, *entry;

	if (fd < 0)
		return ref;
	leaf = fd_leaf(fd);
	if (!leaf)
		return ref;
	entry = &leaf[fd & (FD_LEAF_SIZE - 1)];
	do {
		ref.sk = __atomic_load_n(&entry->sk, __ATOMIC_ACQUIRE);
		if (!ref.sk)
			return ref;
		/* Acquire, as the next: the second look at both stays behind this one. */
		ref.gen = __atomic_load_n(&entry->gen, __ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&entry->sk, __ATOMIC_ACQUIRE) != ref.sk ||
		 __atomic_load_n(&entry->gen, __ATOMIC_RELAXED) != ref.gen);
	return ref;
}

/* fd_get() as a function, for sock. */
struct sock_ref fd_lookup(int fd);

/* fd, which has no entry, names ref from now on.  false: no memory. */
bool fd_install(int fd, struct sock_ref ref);

/*
 * fd, which has no entry, names what of names.  false: of does not name ref
 * any more, or no memory.
 */
bool fd_install_dup(int fd, int of, struct sock_ref ref);

struct fd_taken {
	struct sock_ref ref; /* sk NULL: there was no entry */
	int other;	     /* another descriptor of the same socket, -1: it was the last */
};

/* Empties an entry; of several callers at once one gets it. */
struct fd_taken fd_take(int fd);

/* sock_hooks.left: no descriptor names sk any more.  sk->twin is one that did. */
void fd_left(struct sock *sk);

/* The lowest descriptor with an entry, from `from` on; -1: there is none. */
int fd_next(int from);

/* Empties the table: for tests, which begin anew. */
void fd_forget_all(void);

/* In a forked child: only epoll sets are left, they get to the kernel by themselves. */
void fd_forget_sockets(void);

/*
 * True: this process was forked, and fd_fork_child() has not been called in it.  Of a
 * process that is the owner of the table it says nothing.
 */
bool fd_is_wiped(void);

/* Around fork: the child gets the table in a sound state. */
void fd_fork_prepare(void);
void fd_fork_parent(void);
void fd_fork_child(void);

#endif
