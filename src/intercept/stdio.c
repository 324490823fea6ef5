/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/stdio.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/once.h"
#include "base/sys.h"
#include "intercept/wrap.h"

/*
 * Slots of the table that the C library exports as _IO_file_jumps: two words, and these
 * functions.
 */
enum { JUMP_READ = 14, JUMP_WRITE = 15, JUMP_CLOSE = 17, JUMPS = 21 };

typedef void (*jump_fn)(void);

static ssize_t read_file(FILE *file, void *buf, ssize_t len)
{
	return read(fileno_unlocked(file), buf, (size_t)len);
}

/* The C library's function, for descriptors that are not ours: it also keeps the position. */
static ssize_t (*write_plain)(FILE *file, const void *data, ssize_t len);

/* Writes all of it, unless there is an error. */
static ssize_t write_file(FILE *file, const void *data, ssize_t len)
{
	int fd = fileno_unlocked(file);
	ssize_t done = 0;

	if (!fd_get(fd).sk)
		return write_plain(file, data, len);
	while (done < len) {
		ssize_t n = write(fd, (const char *)data + done, (size_t)(len - done));

		if (n < 0) {
			file->_flags |= _IO_ERR_SEEN;
			break;
		}
		done += n;
	}
	return done;
}

static int close_file(FILE *file)
{
	return close(fileno_unlocked(file));
}

/* The tables for bytes and for wide characters, and the functions that they have at first. */
struct tables {
	jump_fn *jumps[2];
	jump_fn read, write, close;
};

static jump_fn symbol(const char *name)
{
	/* POSIX: what dlsym() returns may be converted to a function. */
	return (jump_fn)dlsym(RTLD_NEXT, name);
}

static struct tables find_tables(void)
{
	return (struct tables){
		.jumps = {dlsym(RTLD_NEXT, "_IO_file_jumps"), dlsym(RTLD_NEXT, "_IO_wfile_jumps")},
		.read = symbol("_IO_file_read"),
		.write = symbol("_IO_file_write"),
		.close = symbol("_IO_file_close"),
	};
}

static bool is_known(const struct tables *known, const jump_fn *jumps)
{
	return jumps[JUMP_READ] == known->read && jumps[JUMP_WRITE] == known->write &&
	       jumps[JUMP_CLOSE] == known->close;
}

/* Changes the protection of the table, which is read-only after start-up. */
static bool protect(jump_fn *jumps, int prot)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)jumps & ~(page - 1);
	uintptr_t end = ((uintptr_t)(jumps + JUMPS) + page - 1) & ~(page - 1);

	return sys_call(SYS_mprotect, first, end - first, prot, 0, 0, 0) == 0;
}

/* Pairs with the load of the slot in the C library: any value of the slot does the call. */
static void replace_slot(jump_fn *jumps, unsigned slot, jump_fn fn)
{
	__atomic_store_n(&jumps[slot], fn, __ATOMIC_RELEASE);
}

static bool patch(const struct tables *known, jump_fn *jumps)
{
	if (!jumps || !is_known(known, jumps) || !protect(jumps, PROT_READ | PROT_WRITE))
		return false;
	write_plain = (ssize_t(*)(FILE *, const void *, ssize_t))jumps[JUMP_WRITE];
	replace_slot(jumps, JUMP_READ, (jump_fn)read_file);
	replace_slot(jumps, JUMP_WRITE, (jump_fn)write_file);
	replace_slot(jumps, JUMP_CLOSE, (jump_fn)close_file);
	protect(jumps, PROT_READ);
	return true;
}

static void patch_all(void *arg)
{
	const struct tables *known = arg;

	if (!patch(known, known->jumps[0]) || !patch(known, known->jumps[1]))
		log_warn("the stdio of this C library is unknown: FILEs must not be used for "
			 "accelerated sockets");
}

static __attribute__((noinline, cold)) void init(struct once *once)
{
	/* Not inside: it takes a lock of the dynamic loader. */
	struct tables tables = find_tables();

	once_run(once, patch_all, &tables);
}

void stdio_init(void)
{
	static struct once once;
	int saved = errno;

	if (once_is_done(&once))
		return;
	init(&once);
	errno = saved;
}

/*
 * A FILE that maps its file to read it ("m") begins with another table, until the first
 * read finds that it is no file. A socket's FILE begins with the usual table.
 */
EXPORT FILE *fdopen(int fd, const char *mode)
{
	char plain[8];
	size_t n = 0;

	if (!fd_get(fd).sk || !strchr(mode, 'm'))
		return libc.fdopen(fd, mode);
	for (const char *c = mode; *c && n < sizeof(plain) - 1; c++) {
		if (*c != 'm')
			plain[n++] = *c;
	}
	plain[n] = 0;
	return libc.fdopen(fd, plain);
}

/*
 * The C library is about to copy another descriptor over the FILE's, which closes the
 * socket unseen.
 */
static void about_to_reopen(FILE *file)
{
	int fd = file ? fileno(file) : -1, saved = errno;

	if (fd_get(fd).sk && !fork_is_vfork_child()) {
		fflush(file);
		fd_drop(fd);
	}
	errno = saved;
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *file)
{
	about_to_reopen(file);
	return libc.freopen(path, mode, file);
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *file)
{
	about_to_reopen(file);
	return libc.freopen64(path, mode, file);
}
