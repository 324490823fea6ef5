/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/host_state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/host_dir.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sys.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_LEN 36
#define NAME_MAX_LEN 64

/* Written once, with the control lock; then read by all. */
static struct host_state *state;
static uint8_t secret[HOST_SECRET]; /* a copy of state->secret: the file may be truncated */

/* ---- the file -------------------------------------------------------------------------- */

/* The boot id is part of the name, because the state of another boot had another clock. */
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

/* Writes a new state to the file.  0 or -errno. */
static int write_fresh(int fd)
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
	return (int)sys_call(SYS_fchmod, fd, 0600, 0, 0, 0, 0); /* independent of umask(2) */
}

/*
 * Makes the file; it appears under its name when it is complete.  -EEXIST: another process
 * was faster, and its file is the one to use.
 */
static int create_file(int dir, const char *name)
{
	char temporary[NAME_MAX_LEN];
	uint64_t unique;
	int fd, rc;

	if (!random_bytes(&unique, sizeof(unique)))
		return -ENODATA;
	snprintf(temporary, sizeof(temporary), "new-%016llx", (unsigned long long)unique);
	fd = host_dir_open_at(dir, temporary, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		return fd;
	rc = write_fresh(fd);
	sys_close(fd);
	if (!rc)
		rc = (int)sys_call(SYS_linkat, dir, temporary, dir, name, 0, 0);
	sys_call(SYS_unlinkat, dir, temporary, 0, 0, 0, 0);
	return rc;
}

static int open_file(int dir, const char *name)
{
	int rc, fd = host_dir_open_at(dir, name, O_RDWR);

	if (fd == -ENOENT) {
		rc = create_file(dir, name);
		if (rc && rc != -EEXIST)
			return rc;
		fd = host_dir_open_at(dir, name, O_RDWR);
	}
	return fd;
}

/* NULL: *why is -errno. */
static struct host_state *map_file(int fd, int *why)
{
	struct stat st;
	void *page;

	*why = host_dir_check(fd, S_IFREG | 0600);
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

/* False for a file that was truncated and extended again: it contains zeros. */
static bool has_secret(const struct host_state *kept)
{
	static const uint8_t none[HOST_SECRET];

	return memcmp(kept->secret, none, sizeof(none)) != 0;
}

struct host_state *host_state_keep(const char *path, int *why)
{
	struct host_state *kept = NULL;
	char name[NAME_MAX_LEN];
	int dir = host_dir_open(path), fd;

	*why = dir < 0 ? dir : file_name(name);
	if (!*why) {
		fd = open_file(dir, name);
		*why = fd < 0 ? fd : 0;
		if (fd >= 0) {
			kept = map_file(fd, why);
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

/* The state that is kept in the first suitable directory; NULL: there is none. */
static struct host_state *keep_somewhere(void)
{
	struct host_state *kept;
	char dir[HOST_DIR_PATH];
	int why;

	for (unsigned i = 0; i < HOST_DIRS; i++) {
		host_dir_path(i, dir);
		kept = host_state_keep(dir, &why);
		if (kept)
			return kept;
		log_debug("%s: no secrets can be kept there: %s", dir, strerror(-why));
	}
	log_debug("initial sequence numbers and ports do not go on where another process left off");
	return NULL;
}

/* A state of this process; shared memory, so that forked processes do not try the same ports. */
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
