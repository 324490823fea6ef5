/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/stdio.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
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

static jump_fn symbol(const char *name)
{
	/* POSIX: what dlsym() returns may be converted to a function. */
	return (jump_fn)dlsym(RTLD_NEXT, name);
}

static bool is_known(const jump_fn *jumps)
{
	return jumps[JUMP_READ] == symbol("_IO_file_read") &&
	       jumps[JUMP_WRITE] == symbol("_IO_file_write") &&
	       jumps[JUMP_CLOSE] == symbol("_IO_file_close");
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

static bool patch(const char *name)
{
	jump_fn *jumps = dlsym(RTLD_NEXT, name);

	if (!jumps || !is_known(jumps) || !protect(jumps, PROT_READ | PROT_WRITE))
		return false;
	write_plain = (ssize_t(*)(FILE *, const void *, ssize_t))jumps[JUMP_WRITE];
	replace_slot(jumps, JUMP_READ, (jump_fn)read_file);
	replace_slot(jumps, JUMP_WRITE, (jump_fn)write_file);
	replace_slot(jumps, JUMP_CLOSE, (jump_fn)close_file);
	protect(jumps, PROT_READ);
	return true;
}

static __attribute__((noinline, cold)) void patch_all(void)
{
	static int begun; /* atomic */

	if (__atomic_exchange_n(&begun, 1, __ATOMIC_RELAXED))
		return;
	/* For bytes, and for wide characters. */
	if (!patch("_IO_file_jumps") || !patch("_IO_wfile_jumps"))
		log_warn("the stdio of this C library is unknown: FILEs must not be used for "
			 "accelerated sockets");
}

void stdio_init(void)
{
	static int done; /* atomic */
	int saved = errno;

	if (__builtin_expect(__atomic_load_n(&done, __ATOMIC_RELAXED), 1))
		return;
	patch_all();
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
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
