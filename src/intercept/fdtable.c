/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/fdtable.h"

#include <pthread.h>
#include <signal.h>

#include "base/mem.h"
#include "base/sys.h"

#define LEAF_BYTES (FD_LEAF_SIZE * sizeof(struct fd_entry))

struct fd_entry *fd_root[FD_ROOT_SIZE];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int highest = -1; /* lock to write, atomic: no entry is above it */

/* The kernel's set of signals. */
typedef uint64_t sigbits;

static sigbits lock_table(void)
{
	sigbits all = ~(sigbits)0, old = 0;

	sys_call(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(all), 0, 0);
	pthread_mutex_lock(&lock);
	return old;
}

static void unlock_table(sigbits old)
{
	pthread_mutex_unlock(&lock);
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old), 0, 0);
}

static struct fd_entry *leaf_of(int fd)
{
	return __atomic_load_n(&fd_root[fd >> FD_LEAF_BITS], __ATOMIC_ACQUIRE);
}

/* NULL: no leaf. */
static struct fd_entry *entry_of(int fd)
{
	struct fd_entry *leaf = fd < 0 ? NULL : leaf_of(fd);

	return leaf ? &leaf[fd & (FD_LEAF_SIZE - 1)] : NULL;
}

/* Lock.  Makes the leaf; NULL: no memory. */
static struct fd_entry *entry_make(int fd)
{
	if (!leaf_of(fd)) {
		struct fd_entry *leaf = mem_map(LEAF_BYTES);

		if (!leaf)
			return NULL;
		/* Pairs with fd_get(): the leaf is zero. */
		__atomic_store_n(&fd_root[fd >> FD_LEAF_BITS], leaf, __ATOMIC_RELEASE);
	}
	return entry_of(fd);
}

static void fill(struct fd_entry *entry, int fd, struct sock_ref ref, int next)
{
	entry->next = next;
	/* Release: who sees this gen sees that the entry was empty before. */
	__atomic_store_n(&entry->gen, ref.gen, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->sk, ref.sk, __ATOMIC_RELEASE);
	if (fd > highest)
		__atomic_store_n(&highest, fd, __ATOMIC_RELAXED);
}

static void empty(struct fd_entry *entry)
{
	__atomic_store_n(&entry->sk, NULL, __ATOMIC_RELEASE);
}

struct sock_ref fd_lookup(int fd)
{
	return fd_get(fd);
}

bool fd_install(int fd, struct sock_ref ref)
{
	sigbits old = lock_table();
	struct fd_entry *entry = entry_make(fd);

	if (entry)
		fill(entry, fd, ref, fd);
	unlock_table(old);
	return entry != NULL;
}

bool fd_install_dup(int fd, int of, struct sock_ref ref)
{
	sigbits old = lock_table();
	struct fd_entry *source = entry_of(of), *entry = NULL;

	if (source && source->sk == ref.sk && source->gen == ref.gen)
		entry = entry_make(fd);
	if (entry) {
		fill(entry, fd, ref, source->next);
		source->next = fd;
	}
	unlock_table(old);
	return entry != NULL;
}

/*
 * Lock.  Takes fd out of its ring; returns another member, -1: there is none.
 * A child of _Fork() may find a ring that its parent was about to put fd in.
 */
static int unlink_name(struct fd_entry *entry, int fd)
{
	int first = entry->next, before = first;

	if (first == fd)
		return -1;
	do {
		struct fd_entry *candidate = entry_of(before);

		if (candidate->next == fd) {
			candidate->next = entry->next;
			return before;
		}
		before = candidate->next;
	} while (before != first);
	return first;
}

struct fd_taken fd_take(int fd)
{
	struct fd_taken taken = {{NULL, 0}, -1};
	struct fd_entry *entry;
	sigbits old;

	if (!fd_get(fd).sk)
		return taken;
	old = lock_table();
	entry = entry_of(fd);
	if (entry->sk) {
		taken.ref = (struct sock_ref){entry->sk, entry->gen};
		taken.other = unlink_name(entry, fd);
		empty(entry);
	}
	unlock_table(old);
	return taken;
}

void fd_left(struct sock *sk)
{
	sigbits old = lock_table();
	int fd = sock_twin(sk);
	struct fd_entry *entry = entry_of(fd);

	/* Round the ring: an entry's next is still there when it is empty. */
	while (entry && entry->sk == sk) {
		empty(entry);
		entry = entry_of(entry->next);
	}
	unlock_table(old);
}

int fd_next(int from)
{
	int last = __atomic_load_n(&highest, __ATOMIC_RELAXED);

	for (int fd = from < 0 ? 0 : from; fd <= last; fd++) {
		if (!leaf_of(fd)) {
			fd |= FD_LEAF_SIZE - 1;
			if (fd == INT_MAX)
				break;
		} else if (__atomic_load_n(&entry_of(fd)->sk, __ATOMIC_RELAXED)) {
			return fd;
		}
	}
	return -1;
}

void fd_forget_all(void)
{
	sigbits old = lock_table();

	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd))
		empty(entry_of(fd));
	__atomic_store_n(&highest, -1, __ATOMIC_RELAXED);
	unlock_table(old);
}

void fd_forget_sockets(void)
{
	sigbits old = lock_table();

	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct fd_entry *entry = entry_of(fd);

		if (entry->sk->kind != SOCK_KIND_EPOLL)
			empty(entry);
	}
	unlock_table(old);
}

void fd_fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

void fd_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

void fd_fork_child(void)
{
	pthread_mutex_init(&lock, NULL);
}
