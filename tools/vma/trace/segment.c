/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/trace/segment.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>
#include <unistd.h>

#include "tools/vma_stats/reader.h"

#ifndef SHM_STAT_ANY
#define SHM_STAT_ANY 15 /* Linux 4.17: also of segments that we may not read */
#endif

static int refuse(char why[SEGMENT_WHY], int rc, const char *text)
{
	snprintf(why, SEGMENT_WHY, "%s", text);
	return rc;
}

int segment_check(const struct recorder *recorder, size_t size, char why[SEGMENT_WHY])
{
	if (size < offsetof(struct recorder, size) + sizeof(recorder->size))
		return refuse(why, -EBADMSG, "what it left is too short");
	/* Acquire: pairs with the process, which stores it last. */
	if (__atomic_load_n(&recorder->magic, __ATOMIC_ACQUIRE) != RECORDER_MAGIC)
		return refuse(why, -EBADMSG, "it has no flight recorder");
	if (recorder->version != RECORDER_VERSION) {
		snprintf(why, SEGMENT_WHY,
			 "it has a recorder of version %u, and this vma reads version %u: use the "
			 "one of its library",
			 recorder->version, RECORDER_VERSION);
		return -EPROTO;
	}
	if (recorder->size != sizeof(*recorder) || size < sizeof(*recorder))
		return refuse(why, -EBADMSG, "its recorder contradicts itself");
	return 0;
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

static int map(int id, uint32_t pid, size_t size, struct segment *segment, char why[SEGMENT_WHY])
{
	void *at = shmat(id, NULL, SHM_RDONLY);
	int rc;

	if (at == (void *)-1)
		return errno == EACCES ? refuse(why, -EACCES, "the process belongs to another user")
				       : refuse(why, -errno, "its recorder cannot be mapped");
	*segment = (struct segment){.id = id, .pid = pid, .recorder = at};
	rc = segment_check(at, size, why);
	if (rc) {
		segment_close(segment);
		return rc;
	}
	copy_text(segment->name, segment->recorder->name, sizeof(segment->name));
	copy_text(segment->version, segment->recorder->version_text, sizeof(segment->version));
	return 0;
}

void segment_close(struct segment *segment)
{
	if (segment->recorder)
		shmdt(segment->recorder);
	segment->recorder = NULL;
}

/* The segment at a place of the kernel's table.  Its id; negative: there is none. */
static int stat_at(int place, struct shmid_ds *ds)
{
	int id = shmctl(place, SHM_STAT_ANY, ds);

	return id < 0 && errno == EINVAL ? shmctl(place, SHM_STAT, ds) : id;
}

static int last_place(void)
{
	struct shm_info info;

	return shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info);
}

static bool is_better(const struct shmid_ds *ds, const struct shmid_ds *than)
{
	if (!ds->shm_nattch != !than->shm_nattch)
		return ds->shm_nattch;
	return ds->shm_ctime >= than->shm_ctime;
}

int segment_open(uint32_t pid, struct segment *segment, char why[SEGMENT_WHY])
{
	struct segment found;
	struct shmid_ds ds, best = {0};
	char path[64], reason[SEGMENT_WHY];
	int rc = -ESRCH, last = last_place();

	*segment = (struct segment){0};
	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (access(path, F_OK))
		refuse(why, -ESRCH, "there is no such process, and it left nothing behind");
	else
		refuse(why, -ESRCH, "it has no flight recorder: no accelerated socket so far");
	for (int i = 0; i <= last; i++) {
		int id = stat_at(i, &ds), got;

		if (id < 0 || (uint32_t)ds.shm_cpid != pid)
			continue;
		got = map(id, pid, ds.shm_segsz, &found, reason);
		if (got && got != -EBADMSG && !segment->recorder) {
			rc = got;
			memcpy(why, reason, sizeof(reason));
		}
		if (got)
			continue; /* a program may have segments of its own */
		if (segment->recorder && !is_better(&ds, &best)) {
			segment_close(&found);
			continue;
		}
		segment_close(segment);
		*segment = found;
		best = ds;
		rc = 0;
	}
	return rc;
}

enum segment_state segment_state(const struct segment *segment)
{
	char state = reader_state_of(segment->pid);
	struct shmid_ds ds;

	/* Ours is one of the mappings.  A process that ended in order removes it. */
	if (!state || state == 'Z' || state == 'X' || shmctl(segment->id, IPC_STAT, &ds) ||
	    ds.shm_nattch < 2)
		return SEGMENT_ENDED;
	return state == 'T' || state == 't' ? SEGMENT_STOPPED : SEGMENT_RUNS;
}

unsigned segment_each(void (*fn)(const struct segment *segment, enum segment_state state))
{
	char why[SEGMENT_WHY];
	struct segment found;
	struct shmid_ds ds;
	unsigned n = 0;

	for (int i = 0, last = last_place(); i <= last; i++) {
		int id = stat_at(i, &ds);

		if (id < 0 || ds.shm_segsz < sizeof(struct recorder) ||
		    map(id, (uint32_t)ds.shm_cpid, ds.shm_segsz, &found, why))
			continue;
		fn(&found, segment_state(&found));
		segment_close(&found);
		n++;
	}
	return n;
}
