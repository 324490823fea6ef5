/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/fdtable.h"

#include <pthread.h>

#include "base/mem.h"
#include "base/signals.h"

#define LEAF_BYTES (FD_LEAF_SIZE * sizeof(struct fd_entry))

struct fd_entry *fd_root[FD_ROOT_SIZE];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int highest = -1; /* any, atomic: no entry is above it */

static void lock_table(void)
{
	signals_block();
	pthread_mutex_lock(&lock);
}

static void unlock_table(void)
{
	pthread_mutex_unlock(&lock);
	signals_unblock();
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
	int seen = __atomic_load_n(&highest, __ATOMIC_RELAXED);

	entry->next = next;
	/* Release: who sees this gen sees that the entry was empty before. */
	__atomic_store_n(&entry->gen, ref.gen, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->sk, ref.sk, __ATOMIC_RELEASE);
	while (seen < fd && !__atomic_compare_exchange_n(&highest, &seen, fd, true,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Acquire: pairs with fill(), for the rest of the entry. */
static struct sock *named_by(const struct fd_entry *entry)
{
	return __atomic_load_n(&entry->sk, __ATOMIC_ACQUIRE);
}

static void empty(struct fd_entry *entry)
{
	__atomic_store_n(&entry->sk, NULL, __ATOMIC_RELEASE);
}

struct sock_ref fd_lookup(int fd)
{
	return fd_get(fd);
}

/* Its entry is empty, and in no ring: nobody but us looks at more of it than that. */
bool fd_install(int fd, struct sock_ref ref)
{
	struct fd_entry *entry = entry_of(fd);

	if (!entry) {
		lock_table();
		entry = entry_make(fd);
		unlock_table();
	}
	if (entry)
		fill(entry, fd, ref, fd);
	return entry != NULL;
}

bool fd_install_dup(int fd, int of, struct sock_ref ref)
{
	struct fd_entry *source, *entry = NULL;

	lock_table();
	source = entry_of(of);
	if (source && named_by(source) == ref.sk && source->gen == ref.gen)
		entry = entry_make(fd);
	if (entry) {
		fill(entry, fd, ref, source->next);
		source->next = fd;
	}
	unlock_table();
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

	if (!fd_get(fd).sk)
		return taken;
	lock_table();
	entry = entry_of(fd);
	taken.ref.sk = named_by(entry);
	if (taken.ref.sk) {
		taken.ref.gen = entry->gen;
		taken.other = unlink_name(entry, fd);
		empty(entry);
	}
	unlock_table();
	return taken;
}

void fd_left(struct sock *sk)
{
	struct fd_entry *entry;

	lock_table();
	entry = entry_of(sock_twin(sk));
	/* Round the ring.  As soon as an entry is empty, fd_install() may have it. */
	while (entry && named_by(entry) == sk) {
		int next = entry->next;

		empty(entry);
		entry = entry_of(next);
	}
	unlock_table();
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
	lock_table();

	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd))
		empty(entry_of(fd));
	__atomic_store_n(&highest, -1, __ATOMIC_RELAXED);
	unlock_table();
}

void fd_forget_sockets(void)
{
	lock_table();

	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct fd_entry *entry = entry_of(fd);

		if (entry->sk->kind != SOCK_KIND_EPOLL && !sock_is_away(entry->sk))
			empty(entry);
	}
	unlock_table();
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
