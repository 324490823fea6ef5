/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that execute a program, and what it inherits: see exec.h.
 *
 * A child of vfork(), which is what posix_spawn() has, is a holder nobody has counted: its
 * program gets the kernel's sockets.
 */
#include "intercept/exec.h"

#include <alloca.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sys.h"
#include "intercept/wrap.h"
#include "sock/carry.h"

#define NAME "VMA_INHERITED="
#define PRELOAD "LD_PRELOAD="
#define TEXT_MAX (100 * 1024) /* the kernel takes 128 KiB */
#define ITEM_MAX 56

/* ---- the text ------------------------------------------------------------------------- */

static bool read_number(const char **text, uint64_t max, uint64_t *number)
{
	const char *p = *text;
	uint64_t n = 0;

	while (*p >= '0' && *p <= '9') {
		unsigned digit = (unsigned)(*p++ - '0');

		if (n > (max - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	if (p == *text)
		return false;
	*text = p;
	*number = n;
	return true;
}

static bool read_comma(const char **text)
{
	return *(*text)++ == ',';
}

bool exec_read_item(const char **text, struct exec_item *item)
{
	const char *p = *text;
	uint64_t fd;

	if (!read_number(&p, INT_MAX, &fd) || !read_comma(&p) ||
	    !read_number(&p, UINT64_MAX, &item->inode) || !read_comma(&p) ||
	    !read_number(&p, CARRY_ID_MAX, &item->number) || (*p && *p != ';'))
		return false;
	item->fd = (int)fd;
	*text = *p ? p + 1 : p;
	return true;
}

const char *exec_take_variable(char **env)
{
	const char *value = NULL;
	char **to = env;

	for (; env && *env; env++) {
		if (!strncmp(*env, NAME, strlen(NAME)))
			value = *env + strlen(NAME);
		else
			*to++ = *env;
	}
	if (value)
		*to = NULL;
	return value;
}

/* ---- what is inherited ---------------------------------------------------------------- */

/* Is it the socket that was meant? */
static bool is_same(const struct exec_item *item, int protocol)
{
	socklen_t len = sizeof(int);
	struct stat st;
	int found;

	return !sys_fd_is_hidden(item->fd) && !fstat(item->fd, &st) && S_ISSOCK(st.st_mode) &&
	       st.st_ino == item->inode &&
	       !libc.getsockopt(item->fd, SOL_SOCKET, SO_PROTOCOL, &found, &len) &&
	       found == protocol;
}

static bool is_channel(const struct exec_item *item)
{
	socklen_t len = sizeof(int);
	int domain, type;

	return is_same(item, 0) &&
	       !libc.getsockopt(item->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) &&
	       domain == AF_UNIX && !libc.getsockopt(item->fd, SOL_SOCKET, SO_TYPE, &type, &len) &&
	       type == SOCK_SEQPACKET;
}

static void inherit(const struct exec_item *item)
{
	struct sock_ref ref;

	bool udp = is_same(item, IPPROTO_UDP);

	if (fd_get(item->fd).sk || !(udp || is_same(item, IPPROTO_TCP)))
		return;
	ref = carry_add(item->fd, udp, item->number);
	if (!ref.sk)
		return;
	if (sock_twin(ref.sk) == item->fd)
		fd_install(item->fd, ref);
	else
		fd_install_dup(item->fd, sock_twin(ref.sk), ref);
}

void exec_inherit(const char *text)
{
	struct exec_item item;
	struct carry_channel ch;

	if (!text || !exec_read_item(&text, &item) || !is_channel(&item))
		return;
	ch = (struct carry_channel){.fd = item.fd, .last_id = item.number};
	if (!carry_open(&ch))
		return;
	while (exec_read_item(&text, &item))
		inherit(&item);
	carry_done();
}

/* ---- what is handed on ---------------------------------------------------------------- */

static bool is_preloaded(char *const *env)
{
	for (; env && *env; env++) {
		if (!strncmp(*env, PRELOAD, strlen(PRELOAD)))
			return (*env)[strlen(PRELOAD)];
	}
	return false;
}

static char *write_item(char *at, int fd, uint64_t number, char end)
{
	struct stat st;

	if (fstat(fd, &st))
		return at;
	return at + snprintf(at, ITEM_MAX, "%d,%llu,%llu%c", fd, (unsigned long long)st.st_ino,
			     (unsigned long long)number, end);
}

/* False: there is none. */
static bool write_sockets(char *at, const char *end)
{
	const char *begin = at;

	for (int fd = fd_next(0); fd >= 0 && end - at > ITEM_MAX; fd = fd_next(fd + 1)) {
		struct sock_ref ref = sock_get(fd);
		uint64_t id = ref.sk ? carry_id(ref) : 0;

		if (id && !(sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC))
			at = write_item(at, fd, id, ';');
	}
	if (at == begin)
		return false;
	at[-1] = 0;
	return true;
}

/* The environment of a program that inherits something. */
struct heritage {
	char *const *env;
	void *map; /* NULL: it inherits nothing, env is the caller's */
	size_t size;
};

static bool fill(struct heritage *h, char *const *env, size_t n)
{
	char **copy = h->map, *text = (char *)(copy + n + 2);
	struct carry_channel ch;
	char *at;

	if (!carry_begin(&ch))
		return false;
	memcpy(copy, env, n * sizeof(*env));
	(void)exec_take_variable(copy);
	at = write_item(stpcpy(text, NAME), ch.fd, ch.last_id, ';');
	if (!write_sockets(at, text + TEXT_MAX)) {
		carry_undo();
		return false;
	}
	while (*copy)
		copy++;
	*copy = text;
	h->env = h->map;
	return true;
}

static struct heritage prepare(char *const *env)
{
	struct heritage h = {.env = env};
	size_t n = 0;
	int saved = errno;

	if (fd_next(0) < 0 || fork_is_vfork_child() || !is_preloaded(env))
		return h;
	while (env[n])
		n++;
	h.size = (n + 2) * sizeof(*env) + TEXT_MAX;
	h.map = mem_map(h.size);
	if (h.map && !fill(&h, env, n)) {
		mem_unmap(h.map, h.size);
		h.map = NULL;
	}
	errno = saved;
	return h;
}

/* It was not executed. */
static int failed(const struct heritage *h)
{
	int saved = errno;

	if (h->map) {
		carry_undo();
		mem_unmap(h->map, h->size);
	}
	errno = saved;
	return -1;
}

/* ---- the calls ------------------------------------------------------------------------ */

EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	struct heritage h = prepare(env);

	libc.execve(path, argv, h.env);
	return failed(&h);
}

EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	struct heritage h = prepare(env);

	libc.execvpe(file, argv, h.env);
	return failed(&h);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	struct heritage h = prepare(env);

	libc.fexecve(fd, argv, h.env);
	return failed(&h);
}

EXPORT int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
	struct heritage h = prepare(env);

	libc.execveat(dir, path, argv, h.env, flags);
	return failed(&h);
}

/* How many arguments there are, with the NULL. */
static size_t count_args(const char *arg, va_list args)
{
	va_list copy;
	size_t n = 1;

	va_copy(copy, args);
	while (arg) {
		arg = va_arg(copy, const char *);
		n++;
	}
	va_end(copy);
	return n;
}

static void copy_args(char **argv, size_t n, const char *arg, va_list args)
{
	argv[0] = (char *)(uintptr_t)arg;
	for (size_t i = 1; i < n; i++)
		argv[i] = va_arg(args, char *);
}

EXPORT int execl(const char *path, const char *arg, ...)
{
	va_list args;
	char **argv;
	size_t n;

	va_start(args, arg);
	n = count_args(arg, args);
	argv = alloca(n * sizeof(*argv));
	copy_args(argv, n, arg, args);
	va_end(args);
	return execve(path, argv, environ);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	va_list args;
	char **argv;
	size_t n;

	va_start(args, arg);
	n = count_args(arg, args);
	argv = alloca(n * sizeof(*argv));
	copy_args(argv, n, arg, args);
	va_end(args);
	return execvpe(file, argv, environ);
}

/* The environment is behind the last argument. */
EXPORT int execle(const char *path, const char *arg, ...)
{
	char *const *env;
	va_list args;
	char **argv;
	size_t n;

	va_start(args, arg);
	n = count_args(arg, args);
	argv = alloca(n * sizeof(*argv));
	copy_args(argv, n, arg, args);
	env = va_arg(args, char *const *);
	va_end(args);
	return execve(path, argv, env);
}
