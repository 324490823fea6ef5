/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/fdtable.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "base/image/sections.h"
#include "intercept/wrap.h"

#define LEAF_BYTES (FD_LEAF_SIZE * sizeof(struct fd_entry))

#define PAGE 4096

struct fd_entry *fd_root[FD_ROOT_SIZE] __attribute__((aligned(PAGE)));
struct fd_entry *fd_leaves[FD_ROOT_SIZE];

_Static_assert(sizeof(fd_root) % PAGE == 0, "nothing else is wiped");

static pthread_mutex_t table_lock EARLY_DATA = PTHREAD_MUTEX_INITIALIZER;
static int highest EARLY_DATA = -1; /* any, atomic: no descriptor above it has an entry */
/* table_lock: number of slots of fd_root up to the last leaf */
static int n_leaves EARLY_DATA;

static void lock_table(void)
{
	mutex_lock(&table_lock);
}

static void unlock_table(void)
{
	mutex_unlock(&table_lock);
}

/* Also in a forked process whose fd_root is wiped. */
static struct fd_entry *leaf_of(int fd)
{
	/* Acquire: pairs with entry_make(). */
	return __atomic_load_n(&fd_leaves[fd >> FD_LEAF_BITS], __ATOMIC_ACQUIRE);
}

/* NULL: there is no leaf. */
static struct fd_entry *entry_of(int fd)
{
	struct fd_entry *leaf = fd < 0 ? NULL : leaf_of(fd);

	return leaf ? &leaf[fd & (FD_LEAF_SIZE - 1)] : NULL;
}

static bool wiping EARLY_DATA; /* table_lock to write */

/* table_lock held. */
EARLY_CODE static void wipe_on_fork(void)
{
	static bool done EARLY_DATA;

	if (done)
		return;
	done = true;
	/*
	 * Without it, before Linux 4.14, a process made past libc uses the table as its
	 * parent does.
	 */
	wiping = !sys_call(SYS_madvise, fd_root, sizeof(fd_root), MADV_WIPEONFORK, 0, 0, 0);
}

/* table_lock held. wiped: only fd_leaves gets it. False: no memory. */
EARLY_CODE static bool leaf_make(int index, bool wiped)
{
	struct fd_entry *leaf = mem_map(LEAF_BYTES);

	if (!leaf)
		return false;
	wipe_on_fork();
	/*
	 * Each store pairs with fd_leaf(): the leaf is zero, and a thread that sees it in
	 * fd_leaves sees it in fd_root, too.
	 */
	if (!wiped)
		__atomic_store_n(&fd_root[index], leaf, __ATOMIC_RELEASE);
	__atomic_store_n(&fd_leaves[index], leaf, __ATOMIC_RELEASE);
	if (n_leaves <= index)
		n_leaves = index + 1;
	return true;
}

/* table_lock held. The entry of fd, whose leaf is made if there is none. NULL: no memory. */
static struct fd_entry *entry_make(int fd)
{
	if (!leaf_of(fd) && !leaf_make(fd >> FD_LEAF_BITS, false))
		return NULL;
	return entry_of(fd);
}

EARLY_CODE bool fd_wipe(void)
{
	bool done;

	lock_table();
	done = !fd_is_used() && leaf_make(0, true);
	unlock_table();
	return done;
}

static void fill_entry(struct fd_entry *entry, int fd, struct sock_ref ref, int next)
{
	int seen = __atomic_load_n(&highest, __ATOMIC_RELAXED);

	entry->next = next;
	/*
	 * Pairs with fd_get(): a reader that sees this gen sees that the entry was empty
	 * before.
	 */
	__atomic_store_n(&entry->gen, ref.gen, __ATOMIC_RELEASE);
	/* Pairs with entry_sock() and fd_get(): the entry is complete. */
	__atomic_store_n(&entry->sk, ref.sk, __ATOMIC_RELEASE);
	while (seen < fd && !__atomic_compare_exchange_n(&highest, &seen, fd, true,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Acquire: pairs with fill_entry(), for the rest of the entry. */
static struct sock *entry_sock(const struct fd_entry *entry)
{
	return __atomic_load_n(&entry->sk, __ATOMIC_ACQUIRE);
}

static void empty_entry(struct fd_entry *entry)
{
	/* Pairs with entry_sock() and fd_get(). */
	__atomic_store_n(&entry->sk, NULL, __ATOMIC_RELEASE);
}

struct fd_entry *fd_missed(int fd)
{
	fork_adopt();
	return leaf_of(fd);
}

EARLY_CODE struct sock_ref fd_get_wiped(int fd)
{
	struct fd_entry *entry = entry_of(fd);

	return entry ? fd_entry_get(entry) : (struct sock_ref){NULL, 0};
}

struct sock_ref fd_lookup(int fd)
{
	return fd_get(fd);
}

/* fd's entry is empty and in no circular list: no other thread looks at more than its sk. */
bool fd_install(int fd, struct sock_ref ref)
{
	struct fd_entry *entry = entry_of(fd);

	if (!entry) {
		lock_table();
		entry = entry_make(fd);
		unlock_table();
	}
	if (entry)
		fill_entry(entry, fd, ref, fd);
	return entry != NULL;
}

bool fd_install_dup(int fd, int of, struct sock_ref ref)
{
	struct fd_entry *source, *entry = NULL;

	lock_table();
	source = entry_of(of);
	if (source && entry_sock(source) == ref.sk && source->gen == ref.gen)
		entry = entry_make(fd);
	if (entry) {
		fill_entry(entry, fd, ref, source->next);
		source->next = fd;
	}
	unlock_table();
	return entry != NULL;
}

/*
 * table_lock held. Takes fd out of its circular list; returns another member, -1: there
 * is none. A child of _Fork() may find a circular list that its parent was about to put fd in.
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
	taken.ref.sk = entry_sock(entry);
	if (taken.ref.sk) {
		taken.ref.gen = entry->gen;
		taken.other = unlink_name(entry, fd);
		empty_entry(entry);
	}
	unlock_table();
	return taken;
}

void fd_left(struct sock *sk)
{
	struct fd_entry *entry;

	lock_table();
	entry = entry_of(sock_twin(sk));
	/* Along the circular list. As soon as an entry is empty, fd_install() may use it. */
	while (entry && entry_sock(entry) == sk) {
		int next = entry->next;

		empty_entry(entry);
		entry = entry_of(next);
	}
	unlock_table();
}

EARLY_CODE int fd_next(int from)
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
		empty_entry(entry_of(fd));
	__atomic_store_n(&highest, -1, __ATOMIC_RELAXED);
	unlock_table();
}

void fd_forget_sockets(void)
{
	lock_table();

	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct fd_entry *entry = entry_of(fd);

		if (entry->sk->type != SOCK_TYPE_EPOLL && !sock_is_exported(entry->sk))
			empty_entry(entry);
	}
	unlock_table();
}

EARLY_CODE void fd_fork_prepare(void)
{
	mutex_lock_blocked(&table_lock);
}

EARLY_CODE void fd_fork_parent(void)
{
	mutex_unlock_blocked(&table_lock);
}

void fd_fork_child(void)
{
	pthread_mutex_init(&table_lock, NULL);
}

void fd_fork_child_done(void)
{
	for (int i = 0; i < n_leaves; i++) {
		/* Pairs with fd_leaf(): whoever sees the leaf sees its entries. */
		if (fd_leaves[i])
			__atomic_store_n(&fd_root[i], fd_leaves[i], __ATOMIC_RELEASE);
	}
}

EARLY_CODE bool fd_is_used(void)
{
	return n_leaves > 0;
}

EARLY_CODE bool fd_is_wiping(void)
{
	return wiping;
}

EARLY_CODE bool fd_is_wiped(void)
{
	for (int i = 0; i < n_leaves; i++) {
		/* Acquire: pairs with fd_fork_child_done() in another thread. */
		if (fd_leaves[i])
			return !__atomic_load_n(&fd_root[i], __ATOMIC_ACQUIRE);
	}
	return false;
}
