/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that execute a program; inherited.h says what the program inherits. A child of the
 * kernel's vfork() inherits none of it: see fork.c.
 */
#include <alloca.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "intercept/process/inherited.h"
#include "base/image/sections.h"
#include "intercept/wrap.h"

EARLY_CODE EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	struct inherited h;

	if (!inherited_any())
		return libc.execve(path, argv, env);
	h = inherited_leave(image_at(AT_FDCWD, path, 0, env), env);
	libc.execve(path, argv, h.env);
	return inherited_keep(&h);
}

EARLY_CODE EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	struct inherited h;

	if (!inherited_any())
		return libc.execvpe(file, argv, env);
	h = inherited_leave(image_search(file, env), env);
	libc.execvpe(file, argv, h.env);
	return inherited_keep(&h);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	struct inherited h;

	if (!inherited_any())
		return libc.fexecve(fd, argv, env);
	h = inherited_leave(image_at(fd, "", AT_EMPTY_PATH, env), env);
	libc.fexecve(fd, argv, h.env);
	return inherited_keep(&h);
}

EXPORT int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
	struct inherited h;

	if (!inherited_any())
		return libc.execveat(dir, path, argv, env, flags);
	h = inherited_leave(image_at(dir, path, flags, env), env);
	libc.execveat(dir, path, argv, h.env, flags);
	return inherited_keep(&h);
}

/* ---- arguments one by one ---------------------------------------------------------- */

/* The number of arguments, with the NULL. */
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

typedef int (*exec_fn)(const char *name, char *const argv[], char *const env[]);

/* env_follows: the environment follows the last argument; else it is the process's. */
static int exec_list(exec_fn fn, const char *name, const char *arg, va_list args, bool env_follows)
{
	size_t n = count_args(arg, args);
	char **argv = alloca(n * sizeof(*argv));

	argv[0] = (char *)(uintptr_t)arg;
	for (size_t i = 1; i < n; i++)
		argv[i] = va_arg(args, char *);
	return fn(name, argv, env_follows ? va_arg(args, char *const *) : environ);
}

#define EXEC_LIST(fn, name, arg, env_follows)                     \
	({                                                        \
		va_list args;                                     \
		int rc;                                           \
                                                                  \
		va_start(args, arg);                              \
		rc = exec_list(fn, name, arg, args, env_follows); \
		va_end(args);                                     \
		rc;                                               \
	})

EXPORT int execl(const char *path, const char *arg, ...)
{
	return EXEC_LIST(execve, path, arg, false);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	return EXEC_LIST(execvpe, file, arg, false);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	return EXEC_LIST(execve, path, arg, true);
}
