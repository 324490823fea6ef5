/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Start of the library; exit.c ends it.
 *
 * Other libraries' constructors run before ours and may open sockets: start() is also
 * called when the first socket is made.
 */
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/once.h"
#include "base/param.h"
#include "base/image/sections.h"
#include "base/stats/stats.h"
#include "base/sys.h"
#include "intercept/backtrace.h"
#include "intercept/io.h"
#include "intercept/process/inherited.h"
#include "intercept/wrap.h"

#define OURS "VMA_" /* all names of parameters begin so */

/* Those that are set: there are few, and more than a hundred names are looked up. */
#define VARIABLES_MAX 16
static char *variables[VARIABLES_MAX] EARLY_DATA; /* "VMA_...=..." */
static unsigned n_variables EARLY_DATA;		  /* more than VARIABLES_MAX: not all are there */

/*
 * A program that gains privileges by being executed (set-user-id, file capabilities) has an
 * environment made with fewer privileges: none of it is used.
 */
EARLY_CODE static void find_variables(void)
{
	char **env = getauxval(AT_SECURE) ? NULL : environ;

	n_variables = 0;
	for (; env && *env; env++) {
		if (strncmp(*env, OURS, strlen(OURS)) != 0)
			continue;
		if (n_variables < VARIABLES_MAX)
			variables[n_variables] = *env;
		n_variables++;
	}
}

/* name begins with OURS. */
EARLY_CODE static const char *get_variable(const char *name)
{
	size_t len = strlen(name);

	if (n_variables > VARIABLES_MAX)
		return secure_getenv(name);
	for (unsigned i = 0; i < n_variables; i++) {
		if (!strncmp(variables[i], name, len) && variables[i][len] == '=')
			return variables[i] + len + 1;
	}
	return NULL;
}

/*
 * Removed from the environment in any case, because it describes descriptors of this
 * process.
 */
EARLY_CODE static const char *get_inherited(const char *name)
{
	const char *text = inherited_take_variable(environ, name);

	return getauxval(AT_SECURE) ? NULL : text;
}

/* Set by the first process with the library, for its descendants. */
#define DESCENDANT "LIBVMA_DESCENDANT"

/* Only the first process shows the banner: a program may read its children's output. */
EARLY_CODE static void descend(void)
{
	if (secure_getenv(DESCENDANT))
		log_descend();
	else
		setenv(DESCENDANT, "1", 1);
}

static const struct sock_hooks hooks = {.recv = io_recv,
					.recvfrom = io_recvfrom,
					.sendto = io_sendto,
					.send = io_send,
					.left = fd_left,
					.started = exit_arm};

EARLY_CODE static void start_once(void *arg)
{
	const char *inherited, *local;

	find_variables();
	param_init(get_variable);
	log_init(params.log_level, params.log_details, params.log_colors, params.log_file);
	descend();
	inherited = get_inherited(INHERITED_NAME);
	local = get_inherited(INHERITED_LOCAL_NAME);
	param_warn(environ);
	param_banner();
	/* Files of a program with privileges are nothing for those who started it. */
	if (!getauxval(AT_SECURE))
		stats_init(params.stats_shmem_dir, params.stats_file, (unsigned)params.stats_fd_num,
			   params.stats_latency);
	if (params.handle_sigsegv)
		signal_watch_faults();
	sock_init(&hooks);
	inherited_start(inherited, local);
}

EARLY_CODE void start(void)
{
	static struct once once EARLY_DATA;
	int saved = errno;

	if (once_is_done(&once))
		return;
	/* Not inside: they take a lock of the dynamic loader. Each thread may call them. */
	libc_resolve();
	image_init();
	once_run(&once, start_once, NULL);
	backtrace_init(); /* likewise */
	errno = saved;
}

#define FAULT_AROUND 65536 /* bytes that the kernel maps at a fault, at a multiple of it */

/* The image of this library, by the linker. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/*
 * Start-up touches tables all over the image, and the kernel maps 16 pages around each one
 * touched. A program that opens no socket needs none of them again: unmaps them, but not the
 * first ones with EARLY_CODE, which a fork or an exit uses. They stay in the page cache, and
 * what is used later comes back with a minor fault.
 */
EARLY_CODE static void give_image_back(void)
{
	uintptr_t base = (uintptr_t)&__ehdr_start;
	uintptr_t kept = ((uintptr_t)give_image_back | (FAULT_AROUND - 1)) + 1;
	const ElfW(Ehdr) * image;
	const ElfW(Phdr) * phdr;

	/* The compiler must not assume that the image is as large as its first header. */
	__asm__("" : "+r"(base));
	image = (const ElfW(Ehdr) *)base;
	phdr = (const ElfW(Phdr) *)(base + image->e_phoff);
	for (int i = 0; i < image->e_phnum; i++) {
		uintptr_t first = base + phdr[i].p_vaddr, end = first + phdr[i].p_memsz;

		if (phdr[i].p_type != PT_LOAD || phdr[i].p_flags & PF_W)
			continue;
		if (first <= kept && kept < end)
			first = kept;
		sys_call(SYS_madvise, first, end - first, MADV_DONTNEED, 0, 0, 0);
	}
}

/* Runs after mem.c's constructor, so that its fork handlers are registered before ours. */
EARLY_CODE __attribute__((constructor)) static void load(void)
{
	int saved = errno;

	start();
	fork_init();
	exit_init();
	give_image_back();
	errno = saved;
}
