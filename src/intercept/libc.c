/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "base/image/sections.h"
#include "base/sys.h"

/*
 * dlsym() may allocate, and the program's allocator may start by reading a file: calls of
 * the thread that is looking functions up are made as system calls.
 */
static __thread bool resolving __attribute__((tls_model("initial-exec")));

static bool resolve_once(void)
{
	if (resolving)
		return false;
	libc_resolve();
	return true;
}

static long to_libc(long rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

static long raw_call(long nr, long a, long b, long c, long d, long e, long f)
{
	return to_libc(nr < 0 ? -ENOSYS : sys_call6(nr, a, b, c, d, e, f));
}

#define PAD(nr, a, b, c, d, e, f, ...) \
	raw_call(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define RAW(nr, ...) PAD(nr, __VA_ARGS__ __VA_OPT__(, ) 0, 0, 0, 0, 0, 0, 0)
#define UNPACK(...) __VA_ARGS__
#define RAW_TUPLE(nr, args) RAW(nr, UNPACK args)

/*
 * raw_NAME(): the system call. first_NAME(): looks the functions up, then calls the real
 * one.
 */
#define CALL(type, name, params, args, nr)        \
	static type raw_##name params             \
	{                                         \
		return (type)RAW_TUPLE(nr, args); \
	}                                         \
	static type first_##name params           \
	{                                         \
		if (!resolve_once())              \
			return raw_##name args;   \
		return libc.name args;            \
	}
#include "intercept/calls.h"
#undef CALL

struct libc_calls libc = {
#define CALL(type, name, ...) .name = first_##name,
#include "intercept/calls.h"
#undef CALL
};

static const struct {
	const char *name;
	size_t offset; /* in libc */
	void (*raw)(void);
} calls[] = {
#define CALL(type, name, ...) \
	{#name, offsetof(struct libc_calls, name), (void (*)(void))raw_##name},
#include "intercept/calls.h"
#undef CALL
};

EARLY_CODE void libc_resolve(void)
{
	int saved = errno;

	resolving = true;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void (**member)(void) = (void *)((char *)&libc + calls[i].offset);
		/* POSIX: what dlsym() returns may be converted to a function. */
		void (*real)(void) = (void (*)(void))dlsym(RTLD_NEXT, calls[i].name);

		__atomic_store_n(member, real ? real : calls[i].raw, __ATOMIC_RELAXED);
	}
	resolving = false;
	errno = saved;
}
