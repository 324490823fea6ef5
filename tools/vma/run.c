/* SPDX-License-Identifier: BSD-2-Clause */
/* vma run: a program with the library. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "vma.h"

#define LIBRARY "libvma.so"
#define USAGE_ERROR 125 /* as env(1): the program was not run */

const char run_help[] =
	"usage: vma run [OPTION...] PROGRAM [ARGUMENT...]\n"
	"Runs PROGRAM with its sockets accelerated: sets LD_PRELOAD and executes it.\n"
	"  --library FILE   this libvma.so, instead of the one that was installed with vma\n"
	"  --quiet          do not say what was done\n"
	"Parameters are set as for any program: VMA_RX_POLL=-1 vma run PROGRAM.\n"
	"Exit status: that of PROGRAM; 125 wrong usage, 126 PROGRAM cannot be accelerated or\n"
	"executed, 127 there is no PROGRAM.\n";

__attribute__((format(printf, 2, 3))) static int fail(int status, const char *fmt, ...)
{
	va_list args;

	fputs("vma run: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	return status;
}

/* ---- the library ------------------------------------------------------------------------ */

/* Where it is, from the folder of this program: build, package, or /usr/local. */
static const char *const library_places[] = {
	"/" LIBRARY,
	"/../../" LIBRARY,
	"/../lib/x86_64-linux-gnu/" LIBRARY,
	"/../lib/" LIBRARY,
};

static bool find_library(char path[PATH_MAX])
{
	char self[PATH_MAX], candidate[PATH_MAX + 64];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (len < 0)
		return false;
	self[len] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	for (size_t i = 0; i < sizeof(library_places) / sizeof(*library_places); i++) {
		snprintf(candidate, sizeof(candidate), "%s%s", self, library_places[i]);
		if (realpath(candidate, path))
			return true;
	}
	return false;
}

/* The dynamic loader takes a path with one of these for several paths. */
static bool is_preloadable(const char *path)
{
	return !strpbrk(path, ": \t\n");
}

static int preload(const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	char *value = NULL;
	int rc;

	if (!before || !*before)
		return setenv("LD_PRELOAD", library, 1);
	if (asprintf(&value, "%s:%s", library, before) < 0)
		return -1;
	rc = setenv("LD_PRELOAD", value, 1);
	free(value);
	return rc;
}

/* ---- the program ------------------------------------------------------------------------ */

/* The file that execvp(3) would execute.  False: there is none. */
static bool find_program(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && !access(path, F_OK);
	for (dirs = dirs ? dirs : "/usr/bin:/bin"; *dirs;) {
		int len = (int)strcspn(dirs, ":");

		if (snprintf(path, PATH_MAX, "%.*s/%s", len, len ? dirs : ".", name) < PATH_MAX &&
		    !access(path, X_OK))
			return true;
		dirs += len;
		dirs += *dirs == ':';
	}
	return false;
}

static bool has_interpreter(int fd, const Elf64_Ehdr *elf)
{
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		Elf64_Phdr phdr;

		if (pread(fd, &phdr, sizeof(phdr),
			  (off_t)(elf->e_phoff + i * (Elf64_Off)elf->e_phentsize)) != sizeof(phdr))
			return false;
		if (phdr.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* Why the dynamic loader will not load the library into the program; NULL: it will. */
static const char *refusal(int fd)
{
	struct stat st;
	Elf64_Ehdr elf;

	if (fstat(fd, &st))
		return NULL;
	if (((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	    ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid()))
		return "it is set-user-id or set-group-id, so the dynamic loader ignores "
		       "LD_PRELOAD; run it as its owner";
	if (getuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "its file has capabilities, so the dynamic loader ignores LD_PRELOAD; remove "
		       "them (setcap -r) and give it ambient ones (setpriv --ambient-caps)";
	if (pread(fd, &elf, sizeof(elf), 0) != sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
		return NULL; /* a script: its interpreter is what counts */
	if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != EM_X86_64)
		return "it is not a 64-bit program for this processor, and the library is";
	if (!has_interpreter(fd, &elf))
		return "it is statically linked, so it has no dynamic loader; link it dynamically";
	return NULL;
}

static int check_program(const char *name)
{
	char path[PATH_MAX];
	const char *why;
	int fd;

	if (!find_program(name, path))
		return fail(127, "there is no program %s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return 0; /* it may be executable without being readable */
	why = refusal(fd);
	close(fd);
	return why ? fail(126, "%s cannot be accelerated: %s", path, why) : 0;
}

int cmd_run(int argc, char **argv)
{
	static const struct option options[] = {
		{"library", required_argument, NULL, 'l'},
		{"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *wanted = NULL;
	char library[PATH_MAX];
	bool quiet = false;
	int option, rc;

	while ((option = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		if (option == 'l')
			wanted = optarg;
		else if (option == 'q')
			quiet = true;
		else if (option == 'h')
			return fputs(run_help, stdout), 0;
		else
			return fputs(run_help, stderr), USAGE_ERROR;
	}
	argv += optind;
	if (!argv[0])
		return fputs(run_help, stderr), USAGE_ERROR;
	if (wanted ? !realpath(wanted, library) : !find_library(library))
		return fail(USAGE_ERROR, "%s was not found; name it with --library",
			    wanted ? wanted : LIBRARY);
	if (!is_preloadable(library))
		return fail(USAGE_ERROR, "%s: LD_PRELOAD takes no path with a space or a colon",
			    library);
	rc = check_program(argv[0]);
	if (rc)
		return rc;
	if (preload(library))
		return fail(USAGE_ERROR, "%s", strerror(errno));
	if (!quiet)
		fprintf(stderr, "vma run: %s with %s\n", argv[0], library);
	execvp(argv[0], argv);
	return fail(errno == ENOENT ? 127 : 126, "%s: %s", argv[0], strerror(errno));
}
