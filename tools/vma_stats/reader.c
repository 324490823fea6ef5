/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma_stats/reader.h"

#include <ck_pr.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats/stats_text.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define ANSWER_MAX (4 * NSEC_PER_SEC) /* a round of the internal thread takes a second at most */
#define ANSWER_LOOK (2 * NSEC_PER_MSEC)
#define SEQ_TRIES 100

static int refuse(char why[READER_WHY], int rc, const char *text)
{
	snprintf(why, READER_WHY, "%s", text);
	return rc;
}

bool reader_is_alive(const struct process *process)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/fd", process->pid);
	return !access(path, F_OK);
}

/* ---- the file that names the page --------------------------------------------------- */

/* Reads dir/vmastat.PID. */
static int read_place(const char *dir, uint32_t pid, struct stats_place *place,
		      char why[READER_WHY])
{
	char path[PATH_MAX], text[STATS_PLACE_SIZE] = "";
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/" STATS_FILE "%u", dir, pid);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		n = errno;
		return refuse(why, (int)-n,
			      n == EACCES ? "it belongs to another user" : strerror((int)n));
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (st.st_uid != geteuid() && geteuid())) {
		close(fd);
		return refuse(why, -EACCES, "the file belongs to another user, or is no file");
	}
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0 || !stats_place_parse(text, place) || place->pid != pid)
		return refuse(why, -EBADMSG, "the file does not name a page of statistics");
	return 0;
}

static bool same_namespace(const struct stats_place *place)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == place->namespace;
}

int reader_open_memory(uint32_t pid, uint32_t number, const char *name, bool *writable,
		       char why[READER_WHY])
{
	char path[64], target[64] = "", wanted[64];
	int fd;

	snprintf(wanted, sizeof(wanted), "/memfd:%s ", name);
	snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, number);
	if (readlink(path, target, sizeof(target) - 1) < 0) {
		if (errno == EACCES || errno == EPERM)
			return refuse(why, -EACCES, "the process belongs to another user");
		return refuse(why, -ESRCH, "the process has ended");
	}
	/* Opening something else may block, or have an effect. */
	if (strncmp(target, wanted, strlen(wanted)) != 0)
		return refuse(why, -ESRCH, "the process has no statistics any more");
	fd = open(path, O_RDWR | O_CLOEXEC);
	*writable = fd >= 0;
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refuse(why, -errno, "the page cannot be opened");
	return fd;
}

int reader_check(const struct stats_page *page, size_t size, char why[READER_WHY])
{
	uint32_t n;

	if (size < sizeof(*page))
		return refuse(why, -EBADMSG, "the page is too short");
	/* Acquire: pairs with the process, which stores it last. */
	if (__atomic_load_n(&page->magic, __ATOMIC_ACQUIRE) != STATS_MAGIC)
		return refuse(why, -EBADMSG, "it is not a page of statistics");
	if (page->version != STATS_VERSION) {
		snprintf(why, READER_WHY,
			 "it has a page of version %u, and this vma_stats reads version %u: use "
			 "the one of its library",
			 page->version, STATS_VERSION);
		return -EPROTO;
	}
	n = page->n_socks;
	if (page->sock_size != sizeof(struct stats_sock) ||
	    page->ring_size != sizeof(struct stats_ring) || page->socks_at != sizeof(*page) ||
	    n > STATS_SOCKS_MAX || size < stats_latency_at(n) ||
	    (page->latency_at &&
	     (page->latency_at != stats_latency_at(n) || size < stats_page_size(n, true))))
		return refuse(why, -EBADMSG, "the page contradicts itself");
	return 0;
}

static int map_page(int fd, struct process *process, char why[READER_WHY])
{
	int seals = fcntl(fd, F_GET_SEALS), prot = PROT_READ, rc;
	struct stat st;

	/* Else the process could cut it off while we read: SIGBUS. */
	if (seals < 0 || (seals & SEALS) != SEALS)
		return refuse(why, -EBADMSG, "the page is not sealed");
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(struct stats_page) ||
	    st.st_size > (off_t)stats_page_size(STATS_SOCKS_MAX, true))
		return refuse(why, -EBADMSG, "the page has an impossible size");
	if (process->writable)
		prot |= PROT_WRITE;
	process->size = (size_t)st.st_size;
	process->page = mmap(NULL, process->size, prot, MAP_SHARED, fd, 0);
	if (process->page == MAP_FAILED)
		return refuse(why, -errno, "the page cannot be mapped");
	rc = reader_check(process->page, process->size, why);
	if (rc)
		munmap(process->page, process->size);
	return rc;
}

/* Copies a string that may have no end, or contain anything. */
static void copy_text(char *to, const char *from, size_t size)
{
	size_t i;

	for (i = 0; i + 1 < size && from[i]; i++)
		to[i] = isprint((unsigned char)from[i]) && from[i] != '"' && from[i] != '\\'
				? from[i]
				: '?';
	to[i] = '\0';
}

int reader_open(const char *dir, uint32_t pid, struct process *process, char why[READER_WHY])
{
	struct stats_place place;
	int rc = read_place(dir, pid, &place, why), fd;

	*process = (struct process){.pid = pid};
	if (rc)
		return rc;
	if (!same_namespace(&place))
		return refuse(why, -EXDEV, "the process is of another PID namespace");
	fd = reader_open_memory(pid, place.fd, STATS_MEMFD, &process->writable, why);
	if (fd < 0)
		return fd;
	rc = map_page(fd, process, why);
	if (rc) {
		close(fd);
		return rc;
	}
	process->fd = fd;
	copy_text(process->name, process->page->name, sizeof(process->name));
	return 0;
}

void reader_close(struct process *process)
{
	if (!process->page)
		return;
	munmap(process->page, process->size);
	process->page = NULL;
	close(process->fd);
}

int reader_list(const char *dir, uint32_t pids[READER_PROCESSES])
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	int n = 0;

	if (!d)
		return -errno;
	while ((entry = readdir(d)) && n < READER_PROCESSES) {
		const char *digits = entry->d_name + strlen(STATS_FILE);
		unsigned long pid;
		char *end;

		if (strncmp(entry->d_name, STATS_FILE, strlen(STATS_FILE)) != 0 ||
		    !isdigit((unsigned char)*digits))
			continue;
		pid = strtoul(digits, &end, 10);
		if (!*end && pid && pid <= INT_MAX)
			pids[n++] = (uint32_t)pid;
	}
	closedir(d);
	return n;
}

void reader_clean(const char *dir, uint32_t pid)
{
	struct stats_place place;
	char path[PATH_MAX], why[READER_WHY];

	if (read_place(dir, pid, &place, why) || !same_namespace(&place))
		return;
	snprintf(path, sizeof(path), "%s/" STATS_FILE "%u", dir, pid);
	unlink(path);
}

/* ---- asks --------------------------------------------------------------------------- */

uint64_t reader_begin_ask(struct process *process, enum stats_ask what, uint32_t argument)
{
	uint64_t last = __atomic_load_n(&process->page->answer[what], __ATOMIC_RELAXED);
	uint64_t ask = ((last >> 32) + 1) << 32 | argument;

	__atomic_store_n(&process->page->ask[what], ask, __ATOMIC_RELAXED);
	return ask;
}

bool reader_is_answered(const struct process *process, enum stats_ask what, uint64_t ask)
{
	/* Acquire: pairs with stats_answer(). */
	uint64_t answer = __atomic_load_n(&process->page->answer[what], __ATOMIC_ACQUIRE);

	return (uint32_t)((answer >> 32) - (ask >> 32)) < 1u << 31;
}

int reader_ask(struct process *process, enum stats_ask what, uint32_t argument)
{
	const struct timespec pause = {.tv_nsec = ANSWER_LOOK};
	nsec_t deadline = clock_now() + ANSWER_MAX;
	uint64_t ask;

	if (!process->writable)
		return -EACCES;
	ask = reader_begin_ask(process, what, argument);
	while (!reader_is_answered(process, what, ask)) {
		if (!reader_is_alive(process))
			return -ESRCH;
		if (clock_now() > deadline)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

char reader_state_of(uint32_t pid)
{
	char path[64], text[512] = "", *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	at = strrchr(text, ')');
	return at && at[1] == ' ' ? at[2] : 0;
}

void reader_why_not(const struct process *process, int rc, char why[READER_WHY])
{
	char state = rc == -ETIMEDOUT ? reader_state_of(process->pid) : 0;

	if (rc == -EACCES)
		snprintf(why, READER_WHY, "process %u belongs to another user", process->pid);
	else if (rc == -ESRCH)
		snprintf(why, READER_WHY, "process %u has ended", process->pid);
	else if (state == 'T' || state == 't')
		snprintf(why, READER_WHY, "process %u is stopped: what follows may be out of date",
			 process->pid);
	else
		snprintf(why, READER_WHY,
			 "process %u does not answer: what follows may be out of date",
			 process->pid);
}

/* ---- copies ------------------------------------------------------------------------- */

/* A consistent copy of a slot that is in use. */
static bool copy_slot(struct stats_sock *to, const struct stats_sock *from)
{
	for (int i = 0; i < SEQ_TRIES; i++) {
		/* Acquire: pairs with slot_changed(). */
		uint32_t seq = __atomic_load_n(&from->seq, __ATOMIC_ACQUIRE);

		memcpy(to, from, sizeof(*to));
		/* Orders the copy before the second load; pairs with slot_change(). */
		ck_pr_fence_load();
		if (!(seq & 1) && __atomic_load_n(&from->seq, __ATOMIC_RELAXED) == seq)
			return to->state == STATS_OURS || to->state == STATS_LEFT;
	}
	return false;
}

/* Is the descriptor still the socket that the kernel serves? */
static bool is_open(uint32_t pid, const struct stats_sock *slot)
{
	char path[64], target[64] = "", wanted[64];

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, slot->fd);
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", slot->inode);
	return readlink(path, target, sizeof(target) - 1) > 0 && !strcmp(target, wanted);
}

static void tidy_slot(struct stats_sock *slot)
{
	char text[STATS_VERDICT];

	copy_text(text, slot->verdict, STATS_VERDICT);
	memcpy(slot->verdict, text, STATS_VERDICT);
	copy_text(text, slot->interface, STATS_NAME);
	memcpy(slot->interface, text, STATS_NAME);
	if (slot->n_groups > STATS_GROUPS)
		slot->n_groups = STATS_GROUPS;
	if (slot->type >= STATS_TYPES)
		slot->type = STATS_UDP;
}

static void tidy_page(struct stats_page *page)
{
	char text[64];

	copy_text(text, page->name, sizeof(page->name));
	memcpy(page->name, text, sizeof(page->name));
	copy_text(text, page->version_text, sizeof(page->version_text));
	memcpy(page->version_text, text, sizeof(page->version_text));
	if (page->n_rings > STATS_RINGS)
		page->n_rings = STATS_RINGS;
	for (unsigned i = 0; i < STATS_RINGS; i++) {
		copy_text(text, page->rings[i].interface, STATS_NAME);
		memcpy(page->rings[i].interface, text, STATS_NAME);
	}
	for (unsigned i = 0; i < STATS_DROPS; i++) {
		copy_text(text, page->drop_names[i], STATS_NAME);
		memcpy(page->drop_names[i], text, STATS_NAME);
	}
}

static int by_fd(const void *a, const void *b)
{
	const struct stats_sock *x = a, *y = b;

	return (x->fd > y->fd) - (x->fd < y->fd);
}

/* Copies the histograms of n slots; NULL: there are none, or no memory. */
static struct stats_latency *copy_latencies(const struct process *process, uint32_t n)
{
	/* The page may change after it was checked. */
	size_t at = stats_latency_at(n), size = n * sizeof(struct stats_latency);
	struct stats_latency *copy;

	if (!n || !process->page->latency_at || process->size < at + size)
		return NULL;
	copy = aligned_alloc(_Alignof(struct stats_latency), size);
	if (copy)
		memcpy(copy, (const char *)process->page + at, size);
	return copy;
}

const struct stats_latency *reader_latency(const struct snapshot *snapshot,
					   const struct stats_sock *slot)
{
	return snapshot->latencies && slot->state == STATS_OURS ? &snapshot->latencies[slot->place]
								: NULL;
}

bool reader_snapshot(const struct process *process, uint64_t nsec, struct snapshot *snapshot)
{
	const struct stats_sock *slots =
		(const struct stats_sock *)(const void *)(process->page + 1);
	/* The page may change after it was checked. */
	size_t room = (process->size - sizeof(struct stats_page)) / sizeof(*slots);
	uint32_t n = process->page->n_socks;

	if (n > room)
		n = (uint32_t)room;
	memcpy(&snapshot->page, process->page, sizeof(snapshot->page));
	tidy_page(&snapshot->page);
	snapshot->n_socks = 0;
	snapshot->at = nsec;
	snapshot->socks = aligned_alloc(64, (n + 1) * sizeof(*slots));
	if (!snapshot->socks)
		return false;
	snapshot->latencies = copy_latencies(process, n);
	snapshot->n_places = n;
	for (uint32_t i = 0; i < n; i++) {
		struct stats_sock *to = &snapshot->socks[snapshot->n_socks];

		if (!copy_slot(to, &slots[i]) ||
		    (to->state == STATS_LEFT && !is_open(process->pid, to)))
			continue;
		tidy_slot(to);
		to->place = i;
		snapshot->n_socks++;
	}
	qsort(snapshot->socks, snapshot->n_socks, sizeof(*slots), by_fd);
	return true;
}

void reader_free(struct snapshot *snapshot)
{
	free(snapshot->socks);
	free(snapshot->latencies);
	snapshot->socks = NULL;
	snapshot->latencies = NULL;
}
