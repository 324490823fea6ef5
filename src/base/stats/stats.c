/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/stats.h"

#include <ck_pr.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sealed.h"
#include "base/image/sections.h"
#include "base/stats/stats_text.h"
#include "base/sys.h"
#include "base/version.h"

#define SWEEP_MAX 1000 /* entries of the directory */

struct stats_page *stats_the_page;
struct stats_sock *stats_slots;
struct stats_latency *stats_latencies;

/* control lock, but for dir, file and max: set once at start */
static struct {
	const char *dir, *file;
	unsigned max;
	bool wanted, latency;
	bool tried; /* to make the page */
	int fd;
	pid_t pid;   /* of the process that made it: a vfork() child leaves it alone */
	pid_t swept; /* the process that has removed the files of ended ones; 0: none */
	uint64_t asked[STATS_ASKS];
} own EARLY_DATA = {.dir = "", .file = "", .fd = -1};
static char own_path[PATH_MAX]; /* of the file that names it; "": none */

EARLY_CODE void stats_init(const char *dir, const char *file, unsigned max, bool latency)
{
	own.dir = dir;
	own.file = file;
	own.max = max < STATS_SOCKS_MAX ? max : STATS_SOCKS_MAX;
	own.latency = latency;
	own.wanted = dir[0] || file[0];
}

bool stats_wanted(void)
{
	return own.wanted;
}

/* ---- making the page ---------------------------------------------------------------- */

/* The descriptor of sealed memory that is mapped at *page, or -errno. */
static int make_memory(size_t size, struct stats_page **page)
{
	int fd = sealed_create(STATS_MEMFD, size), saved = errno, rc;
	void *at;

	if (fd < 0)
		return fd;
	/* Resident from the start: to count causes no page fault. */
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	rc = at == MAP_FAILED ? -errno : fd;
	errno = saved;
	if (rc < 0) {
		sys_close(fd);
		return rc;
	}
	/* A child that counted here by mistake would count for its parent. */
	sys_call(SYS_madvise, at, size, MADV_DONTFORK, 0, 0, 0);
	*page = at;
	return fd;
}

/* False: it cannot be opened.  *place stays as it is if the file says nothing. */
static bool read_place(const char *path, struct stats_place *place)
{
	char text[STATS_PLACE_SIZE] = "";
	int fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	if (sys_read(fd, text, sizeof(text) - 1) > 0)
		(void)stats_place_parse(text, place);
	sys_close(fd);
	return true;
}

/* An earlier file of our process id is ours to remove, unless another namespace has that id, too. */
static void remove_earlier(const char *path, uint64_t namespace)
{
	struct stats_place place = {.namespace = namespace};

	if (read_place(path, &place) && place.namespace == namespace)
		sys_call(SYS_unlink, path, 0, 0, 0, 0, 0);
}

/* Removes the file `name` beside ours if its process was killed. */
static void remove_dead(const char *name, uint64_t namespace)
{
	int dir = (int)(strrchr(own_path, '/') - own_path) + 1;
	struct stats_place place = {0};
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%.*s%s", dir, own_path, name) >= (int)sizeof(path) ||
	    !read_place(path, &place) || place.namespace != namespace)
		return;
	if (sys_call(SYS_kill, place.pid, 0, 0, 0, 0, 0) == -ESRCH)
		sys_call(SYS_unlink, path, 0, 0, 0, 0, 0);
}

/* The same for all files there; not in a large directory, because that takes long. */
static void remove_all_dead(uint64_t namespace)
{
	char buf[4096] __attribute__((aligned(8))), dir_path[PATH_MAX];
	int dir, looked = 0;
	long n;

	snprintf(dir_path, sizeof(dir_path), "%s", own_path);
	*(strrchr(dir_path, '/') + 1) = '\0';
	dir = sys_open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir < 0)
		return;
	while (looked < SWEEP_MAX &&
	       (n = sys_call(SYS_getdents64, dir, buf, sizeof(buf), 0, 0, 0)) > 0) {
		for (long at = 0; at < n; looked++) {
			const struct dirent64 *entry = (const void *)(buf + at);

			at += entry->d_reclen;
			if (!strncmp(entry->d_name, STATS_FILE, strlen(STATS_FILE)))
				remove_dead(entry->d_name, namespace);
		}
	}
	sys_close(dir);
}

/* Writes the file that names the page: 0 or -errno. */
static int tell_place(const char *path)
{
	struct stats_place place = {.pid = (uint32_t)sys_getpid(),
				    .namespace = sys_inode_of(-1, "/proc/self/ns/pid"),
				    .fd = (uint32_t)own.fd};
	char text[STATS_PLACE_SIZE];
	int len = snprintf(text, sizeof(text), STATS_PLACE_FORMAT, place.pid, place.namespace,
			   place.fd),
	    fd, rc;

	remove_earlier(path, place.namespace);
	/* A forked process leaves it to its parent: many may be forked, and many files may be there. */
	if (sys_is_first(&own.swept))
		remove_all_dead(place.namespace);
	fd = sys_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	rc = (int)sys_call(SYS_fchmod, fd, 0600, 0, 0, 0, 0); /* umask(2) may have cleared bits */
	if (!rc)
		rc = sys_write(fd, text, (size_t)len) == len ? 0 : -ENOSPC;
	sys_close(fd);
	if (rc)
		sys_call(SYS_unlink, path, 0, 0, 0, 0, 0);
	return rc;
}

/* The program may change its directory later.  False: too long, or no directory is wanted. */
static bool make_path(void)
{
	char cwd[PATH_MAX] = "";
	int n;

	own_path[0] = '\0';
	if (!own.dir[0])
		return false;
	if (own.dir[0] != '/' && sys_call(SYS_getcwd, cwd, sizeof(cwd) - 1, 0, 0, 0, 0) <= 0)
		return false;
	n = snprintf(own_path, sizeof(own_path), "%s%s%s/" STATS_FILE "%d", cwd, cwd[0] ? "/" : "",
		     own.dir, sys_getpid());
	if (n < (int)sizeof(own_path))
		return true;
	own_path[0] = '\0';
	return false;
}

static void fill_header(struct stats_page *page, uint32_t size)
{
	char comm[2 * STATS_NAME];

	page->version = STATS_VERSION;
	page->page_size = size;
	page->sock_size = sizeof(struct stats_sock);
	page->ring_size = sizeof(struct stats_ring);
	page->socks_at = sizeof(struct stats_page);
	page->n_socks = own.max;
	page->latency_at = own.latency ? stats_latency_at(own.max) : 0;
	page->pid = (uint32_t)sys_getpid();
	page->made_at = (uint64_t)clock_now();
	page->zeroed_at = page->made_at;
	if (sys_read_text("/proc/self/comm", comm, sizeof(comm)) > 0)
		memcpy(page->name, comm, strnlen(comm, sizeof(page->name) - 1));
	page->name[strcspn(page->name, "\n")] = '\0';
	snprintf(page->version_text, sizeof(page->version_text), "%s", VMA_VERSION);
	page->log_level = log_level;
	page->log_details = log_details_level();
	/* Release: pairs with a reader in another process, which then finds the rest. */
	__atomic_store_n(&page->magic, STATS_MAGIC, __ATOMIC_RELEASE);
}

bool stats_open(void)
{
	uint32_t size = stats_page_size(own.max, own.latency);
	struct stats_page *page = NULL;
	int rc;

	if (stats_the_page || own.tried || !own.wanted)
		return stats_the_page;
	own.tried = true;
	own.pid = sys_getpid();
	own.fd = make_memory(size, &page);
	if (own.fd < 0) {
		log_details("there are no statistics of this process: %s", strerror(-own.fd));
		return false;
	}
	fill_header(page, size);
	memset(own.asked, 0, sizeof(own.asked));
	stats_slots = (struct stats_sock *)(void *)((char *)page + page->socks_at) - 1;
	if (own.latency)
		stats_latencies =
			(struct stats_latency *)(void *)((char *)page + page->latency_at) - 1;
	/* Pairs with stats_page(). */
	__atomic_store_n(&stats_the_page, page, __ATOMIC_RELEASE);
	rc = make_path() ? tell_place(own_path) : 0;
	if (rc) {
		log_details("vma_stats does not see this process: %s: %s", own_path, strerror(-rc));
		own_path[0] = '\0';
	}
	return true;
}

void stats_close(void)
{
	if (own_path[0] && own.pid == sys_getpid())
		sys_call(SYS_unlink, own_path, 0, 0, 0, 0, 0);
	own_path[0] = '\0';
}

void stats_fork_child(void)
{
	sys_close_fd(&own.fd);
	own_path[0] = '\0';
	own.tried = false;
	stats_slots = NULL;
	stats_latencies = NULL;
	/* Relaxed: there is no other thread. */
	__atomic_store_n(&stats_the_page, NULL, __ATOMIC_RELAXED);
}

/* ---- slots -------------------------------------------------------------------------- */

/* A reader that sees an even and unchanged seq has read what was stored between. */
static void slot_change(struct stats_sock *slot)
{
	__atomic_store_n(&slot->seq, slot->seq + 1, __ATOMIC_RELAXED);
	/* Orders the odd seq before the change; pairs with the reader's loads. */
	ck_pr_fence_store();
}

static void slot_changed(struct stats_sock *slot)
{
	/* Pairs with the reader's first load of seq. */
	__atomic_store_n(&slot->seq, slot->seq + 1, __ATOMIC_RELEASE);
}

/* How well the slot suits: 0 not at all. */
static int suits(const struct stats_sock *slot, int fd, enum stats_state state)
{
	if (slot->state == STATS_LEFT && slot->fd == fd)
		return 4; /* the descriptor is another socket now */
	if (slot->state == STATS_FREE)
		return 3;
	if (slot->state == STATS_LEFT && sys_inode_of(slot->fd, NULL) != slot->inode)
		return 2;
	return slot->state == STATS_LEFT && state == STATS_OURS ? 1 : 0;
}

unsigned stats_slot_take(int fd, enum stats_state state)
{
	unsigned best = 0;
	int best_suits = 0;
	struct stats_sock *slot;

	for (unsigned i = 1; stats_the_page && i <= own.max && best_suits < 4; i++) {
		int how = suits(stats_slot(i), fd, state);

		if (how > best_suits) {
			best = i;
			best_suits = how;
		}
	}
	if (!best)
		return 0;
	slot = stats_slot(best);
	slot_change(slot);
	memset(slot, 0, offsetof(struct stats_sock, seq));
	if (stats_latency(best))
		memset(stats_latency(best), 0, sizeof(struct stats_latency));
	slot->fd = fd;
	slot->inode = state == STATS_LEFT ? sys_inode_of(fd, NULL) : 0;
	slot->state = state;
	slot->accelerated = state == STATS_OURS;
	slot->verdict[0] = '\0';
	slot_changed(slot);
	return best;
}

void stats_slots_identify(void)
{
	for (unsigned i = 1; stats_the_page && i <= own.max; i++) {
		struct stats_sock *slot = stats_slot(i);

		if (slot->state == STATS_OURS && !slot->inode)
			stats_set(&slot->inode, sys_inode_of(slot->fd, NULL));
	}
}

void stats_slot_put(unsigned number)
{
	struct stats_sock *slot = stats_slot(number);

	slot_change(slot);
	slot->state = STATS_FREE;
	slot_changed(slot);
}

void stats_slot_tell(unsigned number, enum stats_state state, bool accelerated, const char *verdict)
{
	struct stats_sock *slot = stats_slot(number);

	slot_change(slot);
	if (state == STATS_LEFT && !slot->inode)
		slot->inode = sys_inode_of(slot->fd, NULL);
	slot->state = state;
	slot->accelerated = accelerated;
	snprintf(slot->verdict, sizeof(slot->verdict), "%s", verdict);
	slot_changed(slot);
}

void stats_log_sock(unsigned number)
{
	char text[STATS_TEXT_SIZE + 2 * sizeof(STATS_RULE)];
	size_t len;
	int fd;

	if (!own.file[0])
		return;
	len = (size_t)snprintf(text, sizeof(text), STATS_RULE "\n");
	len += stats_sock_text(stats_slot(number), 0, text + len);
	len += (size_t)snprintf(text + len, sizeof(text) - len, STATS_RULE "\n");
	fd = sys_open(own.file, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
		      0644);
	if (fd < 0 || sys_write(fd, text, len) != (ssize_t)len)
		log_warn("cannot append to %s (VMA_STATS_FILE)", own.file);
	if (fd >= 0)
		sys_close(fd);
}

/* ---- epoll sets --------------------------------------------------------------------- */

struct stats_iomux *stats_epoll_take(int fd)
{
	struct stats_page *page = stats_page();

	for (unsigned i = 0; page && i < STATS_EPOLLS; i++) {
		struct stats_iomux *entry = &page->epolls[i];

		if (__atomic_exchange_n(&entry->taken, 1, __ATOMIC_RELAXED))
			continue;
		memset(&entry->now, 0, sizeof(entry->now));
		memset(&entry->zero, 0, sizeof(entry->zero));
		__atomic_store_n(&entry->fd, fd, __ATOMIC_RELAXED);
		return entry;
	}
	return NULL;
}

void stats_epoll_put(struct stats_iomux *entry)
{
	if (entry)
		__atomic_store_n(&entry->taken, 0, __ATOMIC_RELAXED);
}

/* ---- asks --------------------------------------------------------------------------- */

bool stats_asked(enum stats_ask what, uint32_t *argument)
{
	const struct stats_page *page = stats_page();

	if (!page)
		return false;
	own.asked[what] = __atomic_load_n(&page->ask[what], __ATOMIC_RELAXED);
	*argument = (uint32_t)own.asked[what];
	return own.asked[what] != page->answer[what];
}

void stats_answer(enum stats_ask what)
{
	struct stats_page *page = stats_page();

	/* Release: pairs with the reader, which then sees what it asked for. */
	if (page)
		__atomic_store_n(&page->answer[what], own.asked[what], __ATOMIC_RELEASE);
}

bool stats_is_locked(int at)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	return own.fd >= 0 && !sys_fcntl(own.fd, F_OFD_GETLK, (long)&lock) &&
	       lock.l_type != F_UNLCK;
}
