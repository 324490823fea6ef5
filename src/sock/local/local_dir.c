/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/local/local_dir.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/host_dir.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "sock/core/control.h"

#define LOOK_INTERVAL (10 * NSEC_PER_MSEC) /* the generation changes so often without inotify */
#define TRIES 8				   /* another process may remove a directory meanwhile */
#define LOCK_TRIES 1000			   /* a millisecond apart */
#define NAME_MAX_OURS 64
#define OF_NAMESPACE "local3-" /* and the number of the namespace */
#define SWEPT "swept-"	       /* nobody uses it, and it goes */

static int dir = -1, watch = -1; /* control lock */
static pid_t sweeper;		 /* control lock: the process that has swept; 0: none */
static uint32_t generation;	 /* any, atomic */
static unsigned changing;	 /* any, atomic: calls of local_dir_changed() under way */
static nsec_t looked;		 /* any, atomic: without inotify */

/* As struct linux_dirent64 of the kernel. */
struct dirent_kernel {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* ---- files and directories --------------------------------------------------------------- */

/* umask(2) may have cleared bits of what was just made; the owner can set them. */
static int check(int fd, mode_t type, mode_t mode)
{
	int rc = host_dir_check(fd, type | mode);

	if (rc != -EPERM || sys_call(SYS_fchmod, fd, mode, 0, 0, 0, 0))
		return rc;
	return host_dir_check(fd, type | mode);
}

/* Opens the directory `name` in `in`.  A descriptor or -errno. */
static int open_below(int in, const char *name, bool make)
{
	int fd, rc = make ? (int)sys_call(SYS_mkdirat, in, name, 0700, 0, 0, 0) : -EEXIST;
	bool made = !rc;

	if (rc && rc != -EEXIST)
		return rc;
	fd = host_dir_open_at(in, name, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	rc = made ? check(fd, S_IFDIR, 0700) : host_dir_check(fd, S_IFDIR | 0700);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

/* Is it an empty file of the user that nobody else can open? */
static bool is_entry_file(int in, const char *name)
{
	struct stat st;

	return !sys_call(SYS_newfstatat, in, name, &st, AT_SYMLINK_NOFOLLOW, 0, 0) &&
	       S_ISREG(st.st_mode) && !(st.st_mode & 0177) && st.st_uid == sys_geteuid();
}

/* Calls fn for each name in the directory; fn returns false to stop. */
static void each_name(int fd, bool (*fn)(int fd, const char *name, void *arg), void *arg)
{
	_Alignas(struct dirent_kernel) char buf[4096];

	for (;;) {
		long n = sys_call(SYS_getdents64, fd, buf, sizeof(buf), 0, 0, 0);

		if (n <= 0)
			return;
		for (long at = 0; at < n;) {
			const struct dirent_kernel *d = (const void *)(buf + at);

			at += d->len;
			if (d->name[0] != '.' && !fn(fd, d->name, arg))
				return;
		}
	}
}

/* ---- names --------------------------------------------------------------------------------- */

static void place_name(const struct local_place *place, char name[NAME_MAX_OURS])
{
	const struct inaddr *at = &place->at.addr;
	char proto = "tum"[place->proto];
	unsigned port = ntohs(place->at.port);

	if (addr_is_v4(at))
		snprintf(name, NAME_MAX_OURS, "%c%08x-%04x", proto, ntohl(addr_v4_of(at)), port);
	else
		snprintf(name, NAME_MAX_OURS, "%c%08x%08x%08x%08x-%04x", proto, ntohl(at->w[0]),
			 ntohl(at->w[1]), ntohl(at->w[2]), ntohl(at->w[3]), port);
}

static void entry_name(const struct local_entry *entry, char name[NAME_MAX_OURS])
{
	int n = snprintf(name, NAME_MAX_OURS, "%016llx-%08x", (unsigned long long)entry->process,
			 entry->socket);

	if (entry->cookie)
		snprintf(name + n, NAME_MAX_OURS - (size_t)n, "-%llx",
			 (unsigned long long)entry->cookie);
}

/* Only a name that entry_name() makes is one. */
static bool parse_entry(const char *name, struct local_entry *entry)
{
	char again[NAME_MAX_OURS], *end;

	entry->process = strtoull(name, &end, 16);
	if (*end != '-')
		return false;
	entry->socket = (uint32_t)strtoul(end + 1, &end, 16);
	entry->cookie = *end == '-' ? strtoull(end + 1, NULL, 16) : 0;
	entry_name(entry, again);
	return entry->process && !strcmp(name, again);
}

/* ---- the sweep ----------------------------------------------------------------------------- */

struct sweep {
	bool (*dead)(uint64_t process);
	uint64_t last; /* the last process that was asked for, and the answer */
	bool last_dead;
};

static bool sweep_entry(int fd, const char *name, void *arg)
{
	struct sweep *s = arg;
	struct local_entry entry;

	if (!parse_entry(name, &entry))
		return true;
	if (entry.process != s->last) {
		s->last = entry.process;
		s->last_dead = s->dead(entry.process);
	}
	if (s->last_dead)
		sys_call(SYS_unlinkat, fd, name, 0, 0, 0, 0);
	return true;
}

static bool sweep_place(int fd, const char *name, void *arg)
{
	int place = open_below(fd, name, false);

	if (place < 0)
		return true;
	each_name(place, sweep_entry, arg);
	sys_close(place);
	sys_call(SYS_unlinkat, fd, name, AT_REMOVEDIR, 0, 0, 0); /* if it is empty */
	return true;
}

/* ---- directories that nobody uses ------------------------------------------------------------ */

/* Has the directory still the name by which it was opened? */
static bool has_name(int parent, const char *name, int fd)
{
	struct stat st, named;

	return !sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0) &&
	       !sys_call(SYS_newfstatat, parent, name, &named, AT_SYMLINK_NOFOLLOW, 0, 0) &&
	       st.st_ino == named.st_ino;
}

/*
 * A process has a shared lock on its directory (flock(2)), so who gets an exclusive one knows that
 * nobody uses it: not even a process whose names this namespace does not see.  It counts if the directory
 * still has its name: another process may have swept it after it was opened, and a third one have made
 * another of that name.  A name whose directory is locked stays.
 */
static bool lock_named(int parent, const char *name, int fd, int how)
{
	return !sys_call(SYS_flock, fd, how | LOCK_NB, 0, 0, 0, 0) && has_name(parent, name, fd);
}

static bool is_dead_anyway(uint64_t process)
{
	(void)process;
	return true;
}

/* What is no entry stays, and then so do the directories that it is in. */
static void remove_directory(int parent, const char *name, int fd)
{
	struct sweep all = {.dead = is_dead_anyway, .last_dead = true};

	each_name(fd, sweep_place, &all);
	sys_call(SYS_unlinkat, parent, name, AT_REMOVEDIR, 0, 0, 0);
}

/*
 * Renames it first: who starts meanwhile makes another one, and who has opened this one already finds
 * that it has not got the name any more.
 */
static void remove_unused(int parent, const char *name, int fd)
{
	char swept[NAME_MAX_OURS];

	snprintf(swept, sizeof(swept), SWEPT "%s", name + strlen(OF_NAMESPACE));
	if (lock_named(parent, name, fd, LOCK_EX) &&
	    !sys_call(SYS_renameat, parent, name, parent, swept, 0, 0))
		remove_directory(parent, swept, fd);
}

/* own: the name of ours.  Each process leaves one in each namespace. */
static bool sweep_namespace(int parent, const char *name, void *own)
{
	bool swept = !strncmp(name, SWEPT, strlen(SWEPT));
	int fd;

	if ((!swept && strncmp(name, OF_NAMESPACE, strlen(OF_NAMESPACE)) != 0) ||
	    !strcmp(name, own) || strlen(name) >= NAME_MAX_OURS)
		return true;
	fd = open_below(parent, name, false);
	if (fd < 0)
		return true;
	if (swept) /* who began to has ended */
		remove_directory(parent, name, fd);
	else
		remove_unused(parent, name, fd);
	sys_close(fd);
	return true;
}

/* ---- open and close ------------------------------------------------------------------------ */

/*
 * Another process may find it unused until it is locked, and then has the lock for some instructions, or
 * until it runs again.
 */
static int open_locked(int parent, const char *name)
{
	int fd = -EAGAIN;

	for (unsigned i = 0; i < LOCK_TRIES && fd == -EAGAIN; i++) {
		fd = open_below(parent, name, true);
		if (fd >= 0 && !lock_named(parent, name, fd, LOCK_SH)) {
			sys_close_fd(&fd);
			sys_sleep(NSEC_PER_MSEC);
			fd = -EAGAIN;
		}
		if (fd == -ENOENT) /* renamed before it was opened */
			fd = -EAGAIN;
	}
	return fd;
}

/* Each network namespace has a directory of its own. */
static int open_for_namespace(const char *base)
{
	char name[NAME_MAX_OURS];
	uint64_t inode = netlink_namespace()
				 ?: sys_network_namespace(); /* not open yet: the caller's */
	int parent, fd;

	if (!inode)
		return -ENOENT;
	parent = host_dir_open(base);
	if (parent < 0)
		return parent;
	snprintf(name, sizeof(name), OF_NAMESPACE "%llu", (unsigned long long)inode);
	fd = open_locked(parent, name);
	if (fd >= 0 && sys_is_first(&sweeper))
		each_name(parent, sweep_namespace, name);
	sys_close(parent);
	return fd < 0 ? fd : sys_fd_hide(fd);
}

static int open_in_host_dir(void)
{
	char path[HOST_DIR_PATH];
	int rc = -ENOENT;

	for (unsigned i = 0; i < HOST_DIRS && rc < 0; i++) {
		host_dir_path(i, path);
		rc = open_for_namespace(path);
	}
	return rc;
}

/* Without it (too many instances), the generation changes from time to time. */
static void begin_watch(void)
{
	char path[32];
	int rc;

	watch = sys_fd_hide(
		(int)sys_call(SYS_inotify_init1, IN_CLOEXEC | IN_NONBLOCK, 0, 0, 0, 0, 0));
	if (watch < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	rc = (int)sys_call(SYS_inotify_add_watch, watch, path,
			   IN_CREATE | IN_DELETE | IN_ATTRIB | IN_ONLYDIR, 0, 0, 0);
	if (rc < 0)
		sys_close_fd(&watch);
}

int local_dir_open(const char *base, bool (*dead)(uint64_t process))
{
	struct sweep sweep = {.dead = dead};
	int rc = base ? open_for_namespace(base) : open_in_host_dir();

	control_assert_held();
	if (rc < 0)
		return rc;
	dir = rc;
	begin_watch();
	if (sys_is_first(&sweeper)) /* a forked process leaves it to its parent */
		each_name(dir, sweep_place, &sweep);
	return 0;
}

void local_dir_close(void)
{
	control_assert_held();
	sys_close_fd(&watch);
	sys_close_fd(&dir);
}

void local_dir_forget(void)
{
	dir = watch = -1;
	__atomic_store_n(&changing, 0, __ATOMIC_RELAXED); /* those threads are not here */
}

bool local_dir_is_open(void)
{
	control_assert_held();
	return dir >= 0;
}

/* ---- entries ------------------------------------------------------------------------------- */

/* Those who watch the directory see no change below its own entries: touches it. */
static void tell(void)
{
	sys_call(SYS_utimensat, dir, NULL, NULL, 0, 0, 0);
}

static int add(const struct local_place *place, const struct local_entry *entry)
{
	char at[NAME_MAX_OURS], name[NAME_MAX_OURS];
	int fd = -ENOENT, file;

	place_name(place, at);
	entry_name(entry, name);
	for (unsigned i = 0; i < TRIES && fd == -ENOENT; i++) {
		int below = open_below(dir, at, true);

		if (below < 0) {
			fd = below;
			continue;
		}
		/* Removed by the last receiver meanwhile: -ENOENT. */
		file = host_dir_open_at(below, name, O_WRONLY | O_CREAT);
		fd = file;
		if (file >= 0) {
			fd = check(file, S_IFREG, 0600);
			sys_close(file);
		}
		sys_close(below);
	}
	return fd < 0 ? fd : 0;
}

static void remove_at(const struct local_place *place, const struct local_entry *entry)
{
	char at[NAME_MAX_OURS], name[NAME_MAX_OURS];
	int below;

	place_name(place, at);
	entry_name(entry, name);
	below = open_below(dir, at, false);
	if (below < 0)
		return;
	sys_call(SYS_unlinkat, below, name, 0, 0, 0, 0);
	sys_close(below);
	sys_call(SYS_unlinkat, dir, at, AT_REMOVEDIR, 0, 0, 0); /* if it is empty */
}

/* The place of the second entry. */
static struct local_place ipv4_of(const struct local_place *place)
{
	return (struct local_place){.proto = place->proto,
				    .at = {.addr = addr_v4_any(), .port = place->at.port}};
}

int local_dir_add(const struct local_place *place, const struct local_entry *entry)
{
	struct local_place second = ipv4_of(place);
	int rc;

	control_assert_held();
	if (dir < 0)
		return -ENOENT;
	rc = add(place, entry);
	if (!rc && place->ipv4)
		rc = add(&second, entry);
	if (rc)
		remove_at(place, entry);
	else
		tell();
	return rc;
}

void local_dir_remove(const struct local_place *place, const struct local_entry *entry)
{
	struct local_place second = ipv4_of(place);

	control_assert_held();
	if (dir < 0)
		return;
	remove_at(place, entry);
	if (place->ipv4)
		remove_at(&second, entry);
	tell();
}

/* ---- looking up ---------------------------------------------------------------------------- */

struct search {
	struct local_entry *found;
	unsigned n;
};

static bool is_before(const struct local_entry *a, const struct local_entry *b)
{
	return a->process < b->process || (a->process == b->process && a->socket < b->socket);
}

/* Keeps the lowest LOCAL_MEMBERS entries, in order. */
static bool collect(int fd, const char *name, void *arg)
{
	struct search *s = arg;
	struct local_entry entry;
	unsigned at;

	if (!parse_entry(name, &entry) || !is_entry_file(fd, name))
		return true;
	if (s->n == LOCAL_MEMBERS) {
		if (is_before(&s->found[s->n - 1], &entry))
			return true;
		s->n--;
	}
	for (at = s->n; at > 0 && is_before(&entry, &s->found[at - 1]); at--)
		s->found[at] = s->found[at - 1];
	s->found[at] = entry;
	s->n++;
	return true;
}

static unsigned find_at(const struct local_place *at, struct local_entry found[LOCAL_MEMBERS])
{
	struct search search = {.found = found};
	char name[NAME_MAX_OURS];
	int below;

	place_name(at, name);
	below = open_below(dir, name, false);
	if (below < 0)
		return 0;
	each_name(below, collect, &search);
	sys_close(below);
	return search.n;
}

unsigned local_dir_find(const struct local_place *to, struct local_place *at,
			struct local_entry found[LOCAL_MEMBERS])
{
	unsigned n;

	control_assert_held();
	if (dir < 0)
		return 0;
	*at = *to;
	at->ipv4 = false;
	n = find_at(at, found);
	if (n)
		return n;
	at->at.addr = addr_is_v4(&to->at.addr) ? addr_v4_any() : (struct inaddr){.q = {0, 0}};
	return find_at(at, found);
}

/* ---- generation ---------------------------------------------------------------------------- */

uint32_t local_dir_generation(void)
{
	nsec_t now;

	if (__builtin_expect(watch < 0, 0)) {
		now = clock_now();
		if (now - __atomic_load_n(&looked, __ATOMIC_RELAXED) > LOOK_INTERVAL) {
			__atomic_store_n(&looked, now, __ATOMIC_RELAXED);
			local_dir_changed();
		}
	}
	/* acquire: pairs with local_dir_changed(): a look that follows sees the change */
	return __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
}

int local_dir_fd(void)
{
	control_assert_held();
	return watch;
}

void local_dir_changed(void)
{
	char events[4096];

	/*
	 * Before events are taken away: pairs with local_dir_is_still(), which does not find them any
	 * more then, but this.  Calls may overlap: one may take away what another was called for.
	 */
	__atomic_fetch_add(&changing, 1, __ATOMIC_SEQ_CST);
	while (watch >= 0 && sys_read(watch, events, sizeof(events)) > 0)
		continue;
	/* release: pairs with local_dir_generation() */
	__atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
	/* release: pairs with local_dir_is_still(), which then finds the generation that follows */
	__atomic_fetch_sub(&changing, 1, __ATOMIC_RELEASE);
}

/* Has something happened that local_dir_changed() was not called for? */
static bool has_events(void)
{
	int bytes = 1;

	return sys_ioctl(watch, FIONREAD, &bytes) || bytes;
}

bool local_dir_is_still(uint32_t before)
{
	if (watch < 0 || has_events())
		return false;
	/*
	 * In this order: pairs with local_dir_changed(), which has taken the events, and has not counted
	 * them, or has done both.
	 */
	if (__atomic_load_n(&changing, __ATOMIC_SEQ_CST))
		return false;
	return __atomic_load_n(&generation, __ATOMIC_SEQ_CST) == before;
}

bool local_dir_catch_up(void)
{
	control_assert_held();
	if (watch >= 0 && has_events())
		local_dir_changed();
	return watch >= 0;
}
