/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/host_state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/random.h"
#include "base/sys.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_LEN 36
#define NAME_MAX_LEN 64

/* Control lock to write, once; then read by all.  A copy: files may be truncated. */
static struct host_state *state;
static uint8_t secret[HOST_SECRET];

/* ---- the file -------------------------------------------------------------------------- */

static int open_at(int dir, const char *name, int flags)
{
	return (int)sys_call(SYS_openat, dir, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600, 0, 0);
}

/* Is it ours alone? */
static int check(int fd, mode_t type_and_mode)
{
	struct stat st;
	int rc = (int)sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0);

	if (rc)
		return rc;
	return st.st_mode == type_and_mode && st.st_uid == sys_geteuid() ? 0 : -EPERM;
}

/* Links are not followed: whoever can make one here need not be us. */
static int open_dir(const char *path)
{
	int made = (int)sys_call(SYS_mkdir, path, 0700, 0, 0, 0, 0), fd, rc;

	if (made && made != -EEXIST)
		return made;
	fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	rc = check(fd, S_IFDIR | 0700);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

/* A state of another boot is not ours: its clock was another one. */
static int file_name(char name[NAME_MAX_LEN])
{
	char id[64];
	ssize_t n = sys_read_text(BOOT_ID, id, sizeof(id));

	if (n < 0)
		return (int)n;
	if (strspn(id, "0123456789abcdef-") != BOOT_ID_LEN)
		return -EINVAL;
	snprintf(name, NAME_MAX_LEN, "state-1-%.*s", BOOT_ID_LEN, id);
	return 0;
}

static int fill(int fd)
{
	struct host_state fresh = {0};
	ssize_t n;

	if (!random_bytes(fresh.secret, sizeof(fresh.secret)))
		return -ENODATA;
	n = sys_write(fd, &fresh, sizeof(fresh));
	if (n < 0)
		return (int)n;
	if (n != sizeof(fresh))
		return -ENOSPC;
	return (int)sys_call(SYS_fchmod, fd, 0600, 0, 0, 0, 0); /* whatever umask(2) says */
}

/*
 * Appears whole, under its name, or not at all.  -EEXIST: somebody else was first, and has
 * what all will have.
 */
static int create(int dir, const char *name)
{
	char temporary[NAME_MAX_LEN];
	uint64_t unique;
	int fd, rc;

	if (!random_bytes(&unique, sizeof(unique)))
		return -ENODATA;
	snprintf(temporary, sizeof(temporary), "new-%016llx", (unsigned long long)unique);
	fd = open_at(dir, temporary, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		return fd;
	rc = fill(fd);
	sys_close(fd);
	if (!rc)
		rc = (int)sys_call(SYS_linkat, dir, temporary, dir, name, 0, 0);
	sys_call(SYS_unlinkat, dir, temporary, 0, 0, 0, 0);
	return rc;
}

static int open_file(int dir, const char *name)
{
	int rc, fd = open_at(dir, name, O_RDWR);

	if (fd == -ENOENT) {
		rc = create(dir, name);
		if (rc && rc != -EEXIST)
			return rc;
		fd = open_at(dir, name, O_RDWR);
	}
	return fd;
}

static struct host_state *map(int fd, int *why)
{
	struct stat st;
	void *page;

	*why = check(fd, S_IFREG | 0600);
	if (!*why)
		*why = (int)sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0);
	if (!*why && st.st_size != sizeof(struct host_state))
		*why = -EINVAL;
	if (*why)
		return NULL;
	page = mmap(NULL, sizeof(struct host_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*why = page == MAP_FAILED ? -ENOMEM : 0;
	return *why ? NULL : page;
}

/* Whoever emptied the file, and filled it up again, did not make a secret. */
static bool has_secret(const struct host_state *kept)
{
	static const uint8_t none[HOST_SECRET];

	return memcmp(kept->secret, none, sizeof(none)) != 0;
}

struct host_state *host_state_keep(const char *path, int *why)
{
	struct host_state *kept = NULL;
	char name[NAME_MAX_LEN];
	int dir = open_dir(path), fd;

	*why = dir < 0 ? dir : file_name(name);
	if (!*why) {
		fd = open_file(dir, name);
		*why = fd < 0 ? fd : 0;
		if (fd >= 0) {
			kept = map(fd, why);
			sys_close(fd);
		}
		if (kept && !has_secret(kept)) {
			munmap(kept, sizeof(*kept));
			kept = NULL;
			*why = -EINVAL;
		}
	}
	if (dir >= 0)
		sys_close(dir);
	return kept;
}

/* ---- the process ------------------------------------------------------------------------ */

static struct host_state *keep_somewhere(void)
{
	unsigned uid = sys_geteuid();
	struct host_state *kept;
	char dir[2][48];
	int why;

	if (uid)
		snprintf(dir[0], sizeof(dir[0]), "/run/user/%u/libvma", uid);
	else
		snprintf(dir[0], sizeof(dir[0]), "/run/libvma");
	snprintf(dir[1], sizeof(dir[1]), "/dev/shm/libvma-%u", uid);
	for (unsigned i = 0; i < 2; i++) {
		kept = host_state_keep(dir[i], &why);
		if (kept)
			return kept;
		log_debug("%s: no secrets can be kept there: %s", dir[i], strerror(-why));
	}
	log_debug("initial sequence numbers and ports do not go on where another process left off");
	return NULL;
}

/* Shared: processes that are forked do not try the same ports. */
static struct host_state *make_own(void)
{
	struct host_state *own =
		mmap(NULL, sizeof(*own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (own == MAP_FAILED)
		return NULL;
	if (random_bytes(own->secret, sizeof(own->secret)))
		return own;
	munmap(own, sizeof(*own));
	return NULL;
}

int host_state_open(void)
{
	if (state)
		return 0;
	state = keep_somewhere();
	if (!state)
		state = make_own();
	if (!state)
		return -ENODATA;
	memcpy(secret, state->secret, sizeof(secret));
	return 0;
}

const uint8_t *host_secret(void)
{
	assert(state);
	return secret;
}

uint32_t host_port_next(uint32_t hash)
{
	return __atomic_fetch_add(&state->ports[hash % HOST_PORTS], 1, __ATOMIC_RELAXED);
}
