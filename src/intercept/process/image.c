/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/image.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/image/sections.h"
#include "base/sys.h"
#include "intercept/wrap.h"

#define PRELOAD "LD_PRELOAD="
#define BEGINNING 512
#define SEGMENTS_MAX 64
#define INTERPRETERS_MAX 4 /* nested interpreters, the kernel's limit */
#define DEFAULT_PATH "/bin:/usr/bin"

#define OWN_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

/* The image of this library, by the linker. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/* File name without directory. Any, atomic; each thread that starts writes the same. */
static const char *own_name = "";

/* At start, because in a forked child the loader's lock may be taken. */
EARLY_CODE void image_init(void)
{
	Dl_info self;
	const char *slash;

	if (!dladdr(&__ehdr_start, &self))
		return;
	slash = strrchr(self.dli_fname, '/');
	__atomic_store_n(&own_name, slash ? slash + 1 : self.dli_fname, __ATOMIC_RELAXED);
}

/* Does LD_PRELOAD in env name this library? */
EARLY_CODE static bool is_preloaded(char *const *env)
{
	for (; env && *env; env++) {
		if (!strncmp(*env, PRELOAD, strlen(PRELOAD)))
			return strstr(*env + strlen(PRELOAD),
				      __atomic_load_n(&own_name, __ATOMIC_RELAXED));
	}
	return false;
}

/* Does the program gain privileges? Then the loader ignores LD_PRELOAD. */
EARLY_CODE static bool gets_rights(int fd)
{
	struct stat st;

	if (getuid() != geteuid() || getgid() != getegid() || fstat(fd, &st))
		return true;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return true;
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
		return true;
	return getuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

EARLY_CODE static bool has_loader(int fd, const ElfW(Ehdr) * elf)
{
	ElfW(Phdr) segments[SEGMENTS_MAX];
	size_t n = elf->e_phnum < SEGMENTS_MAX ? elf->e_phnum : SEGMENTS_MAX;
	ssize_t len;

	if (elf->e_ident[EI_CLASS] != OWN_CLASS || elf->e_machine != __ehdr_start.e_machine)
		return false;
	len = pread(fd, segments, n * sizeof(*segments), (off_t)elf->e_phoff);
	for (size_t i = 0; len > 0 && i < (size_t)len / sizeof(*segments); i++) {
		if (segments[i].p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* The interpreter of a line "#! /bin/sh -e": "/bin/sh", in place; NULL: none. */
EARLY_CODE static const char *interpreter(char *line)
{
	line += 2;
	line += strspn(line, " \t");
	line[strcspn(line, " \t\n")] = 0;
	return *line ? line : NULL;
}

/* Closes fd. */
EARLY_CODE static enum image look_at_file(int fd, int depth)
{
	char text[BEGINNING + 1] = "";
	const char *next = NULL;
	enum image image = IMAGE_OURS; /* execvp() runs it with the shell */
	ElfW(Ehdr) elf;
	ssize_t len = pread(fd, text, BEGINNING, 0);

	if (len >= (ssize_t)sizeof(elf) && !memcmp(text, ELFMAG, SELFMAG)) {
		memcpy(&elf, text, sizeof(elf));
		image = has_loader(fd, &elf) && !gets_rights(fd) ? IMAGE_OURS : IMAGE_PLAIN;
	} else if (len > 2 && !memcmp(text, "#!", 2)) {
		next = interpreter(text);
	}
	sys_close(fd);
	if (!next || depth == INTERPRETERS_MAX)
		return image;
	fd = sys_open(next, O_RDONLY | O_CLOEXEC, 0);
	return fd < 0 ? IMAGE_OURS : look_at_file(fd, depth + 1);
}

EARLY_CODE static enum image image_of(int dir, const char *path, int flags)
{
	bool fd_itself = (flags & AT_EMPTY_PATH) && path && !*path;
	struct stat st;
	int fd;

	if (!path || fstatat(dir, path, &st, flags & AT_EMPTY_PATH) || !S_ISREG(st.st_mode) ||
	    !(st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) ||
	    (!fd_itself && faccessat(dir, path, X_OK, AT_EACCESS)))
		return IMAGE_NONE;
	fd = fd_itself ? sys_fcntl(dir, F_DUPFD_CLOEXEC, 0)
		       : (int)sys_call(SYS_openat, dir, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	return fd < 0 ? IMAGE_OURS : look_at_file(fd, 0);
}

EARLY_CODE static enum image as_seen_by(enum image image, char *const *env)
{
	return image == IMAGE_OURS && !is_preloaded(env) ? IMAGE_PLAIN : image;
}

EARLY_CODE enum image image_at(int dir, const char *path, int flags, char *const *env)
{
	return as_seen_by(image_of(dir, path, flags), env);
}

enum image image_search(const char *file, char *const *env)
{
	const char *at = getenv("PATH");
	enum image image = IMAGE_NONE;
	char path[PATH_MAX];

	if (!file || !*file || strchr(file, '/'))
		return image_at(AT_FDCWD, file, 0, env);
	for (at = at ? at : DEFAULT_PATH; image == IMAGE_NONE; at++) {
		size_t dir = strcspn(at, ":");

		if (dir + strlen(file) + 2 <= sizeof(path)) {
			memcpy(path, at, dir);
			path[dir] = '/';
			strcpy(path + dir + (dir != 0),
			       file); /* an empty entry of PATH is the current directory */
			image = image_of(AT_FDCWD, path, 0);
		}
		at += dir;
		if (!*at)
			break;
	}
	return as_seen_by(image, env);
}
