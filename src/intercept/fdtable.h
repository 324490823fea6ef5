/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptor table: which descriptors of the program are sockets of ours.
 *
 * Role		fd_get(), fd_install(): any thread, lock-free.  All others: any thread,
 *		under the table's lock, with signals blocked, because a signal handler
 *		may call close().  No sock function is called under the lock.
 * Lifetime	a leaf is never freed.  The table does not keep a socket alive; whoever
 *		takes out its last descriptor closes it.
 * Ordering	an entry changes from empty to a socket and back to empty only.  Filling
 *		writes gen, then sk; emptying writes sk.  A reader loads sk, gen, sk, gen,
 *		until it has read each twice with the same value: the second gen reveals
 *		a socket that came and went between the two loads of sk.  Generations of
 *		a socket are never reused, so a reader that races with close() gets at
 *		worst a reference to a socket that ended, which every call recognises.
 *		An empty entry belongs to the thread that got the descriptor from the
 *		kernel; it writes sk last, and from then on the lock protects the entry.
 * Progress	a look-up never waits.
 * fork		a forked process has a copy of our memory, in which rings and descriptors
 *		belong to its parent.  The kernel wipes fd_root in every forked process
 *		(MADV_WIPEONFORK), so the first look-up there finds no leaf and calls
 *		fork_adopt().  fd_leaves keeps the values that fd_root had.
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
	int next;	 /* lock, or entry empty: next descriptor of the same socket, circular */
};

/* A leaf is mapped when it is first used, its pages when they are written. */
extern struct fd_entry *fd_root[FD_ROOT_SIZE];
extern struct fd_entry *fd_leaves[FD_ROOT_SIZE]; /* written after fd_root */

/* fd_root lacks a leaf that fd_leaves has: calls fork_adopt() and returns the leaf of fd. */
struct fd_entry *fd_missed(int fd);

/* The leaf of a descriptor >= 0; NULL: none. */
static inline struct fd_entry *fd_leaf(int fd)
{
	/* Acquire, twice: pairs with entry_make() and fd_fork_child_done(). */
	struct fd_entry *leaf = __atomic_load_n(&fd_root[fd >> FD_LEAF_BITS], __ATOMIC_ACQUIRE);

	if (leaf ||
	    __builtin_expect(!__atomic_load_n(&fd_leaves[fd >> FD_LEAF_BITS], __ATOMIC_ACQUIRE), 1))
		return leaf;
	return fd_missed(fd);
}

/* The socket of an entry; ref.sk NULL: it is empty. */
static inline __attribute__((always_inline)) struct sock_ref fd_entry_get(struct fd_entry *entry)
{
	struct sock_ref ref = {NULL, 0};

	do {
		/* Acquire: pairs with fill_entry(), and orders gen after sk. */
		ref.sk = __atomic_load_n(&entry->sk, __ATOMIC_ACQUIRE);
		if (!ref.sk)
			return ref;
		/*
		 * Acquire, as the next one: orders the second loads after this one; pairs
		 * with fill_entry().
		 */
		ref.gen = __atomic_load_n(&entry->gen, __ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&entry->sk, __ATOMIC_ACQUIRE) != ref.sk ||
		 __atomic_load_n(&entry->gen, __ATOMIC_RELAXED) != ref.gen);
	return ref;
}

static inline struct sock_ref fd_get(int fd)
{
	struct sock_ref none = {NULL, 0};
	struct fd_entry *leaf;

	if (fd < 0)
		return none;
	leaf = fd_leaf(fd);
	if (!leaf)
		return none;
	return fd_entry_get(&leaf[fd & (FD_LEAF_SIZE - 1)]);
}

/* As fd_get(), but calls no function.  False: fd_get() would call fd_missed(). */
static inline bool fd_peek(int fd, struct sock_ref *ref)
{
	struct fd_entry *leaf;

	*ref = (struct sock_ref){NULL, 0};
	if (fd < 0)
		return true;
	/* Acquire, twice: pairs with entry_make() and fd_fork_child_done(), as in fd_leaf(). */
	leaf = __atomic_load_n(&fd_root[fd >> FD_LEAF_BITS], __ATOMIC_ACQUIRE);
	if (__builtin_expect(!leaf, 0))
		return !__atomic_load_n(&fd_leaves[fd >> FD_LEAF_BITS], __ATOMIC_ACQUIRE);
	*ref = fd_entry_get(&leaf[fd & (FD_LEAF_SIZE - 1)]);
	return true;
}

/* fd_get() as a function, for sock. */
struct sock_ref fd_lookup(int fd);

/* fd, which has no entry, names ref from now on. False: no memory. */
bool fd_install(int fd, struct sock_ref ref);

/*
 * fd, which has no entry, names what `of` names. False: `of` does not name ref any more, or
 * no memory.
 */
bool fd_install_dup(int fd, int of, struct sock_ref ref);

struct fd_taken {
	struct sock_ref ref; /* sk NULL: there was no entry */
	int other;	     /* another descriptor of the same socket; -1: it was the last */
};

/* Empties an entry. Of several concurrent callers only one gets the socket. */
struct fd_taken fd_take(int fd);

/* sock_hooks.left: removes all descriptors of sk, of which sk->twin was one. */
void fd_left(struct sock *sk);

/* The lowest descriptor >= from with an entry; -1: there is none. */
int fd_next(int from);

/* Empties the table, for tests. */
void fd_forget_all(void);

/*
 * In a forked child: forgets all but exported sockets and epoll sets, which fall back to
 * the kernel by themselves.
 */
void fd_forget_sockets(void);

/*
 * Was this process forked, without a call of fd_fork_child_done() so far? False in the
 * process that owns the table, and where the table has no leaf.
 */
bool fd_is_wiped(void);
/* Does the kernel wipe fd_root in every forked process? True or false where the table has no leaf. */
bool fd_is_wiping(void);
/* Has the table a leaf? */
bool fd_is_used(void);
/*
 * From now on fd_is_wiped() is true, as after a fork, until fd_fork_child_done(). False: the
 * table is in use, or there is no memory.
 */
bool fd_wipe(void);
/* As fd_get(), also in a process whose table is wiped: there it does not call fork_adopt(). */
struct sock_ref fd_get_wiped(int fd);

/* Around fork: the child gets a consistent table. A child that waits calls fd_fork_parent(), too. */
void fd_fork_prepare(void);
void fd_fork_parent(void);
/*
 * In the child: fd_fork_child() before its first use of the table, fd_fork_child_done() when
 * its other threads may look sockets up.
 */
void fd_fork_child(void);
void fd_fork_child_done(void);

#endif
