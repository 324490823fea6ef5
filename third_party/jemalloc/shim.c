/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the private jemalloc calls instead of the C library, see symbols.txt.
 *
 * Configuration from outside belongs to the program's own jemalloc, the
 * constants below say that there is none.  The rest is reached only from the
 * heap profiler, which is compiled in and never switched on.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>

char *vma_je_secure_getenv(const char *name);
ssize_t vma_je_readlink(const char *path, char *buf, size_t len);
int vma_je_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int vma_je_open(const char *path, int flags, ...);
int vma_je_creat(const char *path, mode_t mode);
int vma_je_close(int fd);
double vma_je_exp(double x);
double vma_je_log(double x);
double vma_je_round(double x);
int vma_je_unwind_backtrace(void *trace, void *arg);
unsigned long vma_je_unwind_get_ip(void *context);

char *vma_je_secure_getenv(const char *name)
{
	return NULL;
}

ssize_t vma_je_readlink(const char *path, char *buf, size_t len)
{
	return -1;
}

/* src/base/mem.c does this, at load, so that it is the first to register. */
int vma_je_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	return 0;
}

int vma_je_open(const char *path, int flags, ...)
{
	errno = EACCES;
	return -1;
}

int vma_je_creat(const char *path, mode_t mode)
{
	errno = EACCES;
	return -1;
}

int vma_je_close(int fd)
{
	return 0;
}

double vma_je_exp(double x)
{
	abort();
}

double vma_je_log(double x)
{
	abort();
}

double vma_je_round(double x)
{
	abort();
}

int vma_je_unwind_backtrace(void *trace, void *arg)
{
	return 0;
}

unsigned long vma_je_unwind_get_ip(void *context)
{
	return 0;
}
