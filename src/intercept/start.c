/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Start of the library; exit.c ends it.
 *
 * Other libraries' constructors run before ours and may open sockets: start() is also
 * called when the first socket is made.
 */
#include <link.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/once.h"
#include "base/param.h"
#include "base/stats/stats.h"
#include "base/sys.h"
#include "intercept/backtrace.h"
#include "intercept/io.h"
#include "intercept/process/inherited.h"
#include "intercept/wrap.h"

/*
 * A program that gains privileges by being executed (set-user-id, file capabilities) has an
 * environment made with fewer privileges: none of it is used.
 */
static const char *get_variable(const char *name)
{
	return secure_getenv(name);
}

/*
 * Removed from the environment in any case, because it describes descriptors of this
 * process.
 */
static const char *get_inherited(void)
{
	const char *text = inherited_take_variable(environ);

	return getauxval(AT_SECURE) ? NULL : text;
}

/* Set by the first process with the library, for its descendants. */
#define DESCENDANT "LIBVMA_DESCENDANT"

/* Only the first process shows the banner: a program may read its children's output. */
static void descend(void)
{
	if (get_variable(DESCENDANT))
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

static void start_once(void *arg)
{
	const char *inherited;

	param_init(get_variable);
	log_init(params.log_level, params.log_details, params.log_colors, params.log_file);
	descend();
	inherited = get_inherited();
	param_warn(environ);
	param_banner();
	/* Files of a program with privileges are nothing for those who started it. */
	if (!getauxval(AT_SECURE))
		stats_init(params.stats_shmem_dir, params.stats_file, (unsigned)params.stats_fd_num,
			   params.stats_latency);
	if (params.handle_sigsegv)
		signal_watch_faults();
	sock_init(&hooks);
	inherited_start(inherited);
}

void start(void)
{
	static struct once once;
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

/* The image of this library, by the linker. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/*
 * Start-up touches code and tables all over the image, and the kernel maps 16 pages around
 * each one touched. A program that opens no socket needs none of them again: unmaps them.
 * They stay in the page cache, and what is used later comes back with a minor fault.
 */
static void give_image_back(void)
{
	uintptr_t base = (uintptr_t)&__ehdr_start;
	const ElfW(Ehdr) * image;
	const ElfW(Phdr) * phdr;

	/* The compiler must not assume that the image is as large as its first header. */
	__asm__("" : "+r"(base));
	image = (const ElfW(Ehdr) *)base;
	phdr = (const ElfW(Phdr) *)(base + image->e_phoff);
	for (int i = 0; i < image->e_phnum; i++) {
		if (phdr[i].p_type == PT_LOAD && !(phdr[i].p_flags & PF_W))
			sys_call(SYS_madvise, base + phdr[i].p_vaddr, phdr[i].p_memsz,
				 MADV_DONTNEED, 0, 0, 0);
	}
}

/* Runs after mem.c's constructor, so that its fork handlers are registered before ours. */
__attribute__((constructor)) static void load(void)
{
	int saved = errno;

	start();
	fork_init();
	exit_init();
	give_image_back();
	errno = saved;
}
