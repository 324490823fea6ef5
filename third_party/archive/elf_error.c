/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libelf's error number, in place of its elf_error.o: that one has a
 * thread-local variable that only an executable can have.  Messages are
 * numbers here; libbpf prints them when an object file cannot be read, and
 * ours is built in.
 *
 * Role		any thread, the number is per thread.
 */
#include <libelf.h>
#include <stddef.h>

void __libelf_seterrno(int error);

static __thread int last_error;

void __libelf_seterrno(int error)
{
	last_error = error;
}

int elf_errno(void)
{
	int error = last_error;

	last_error = 0;
	return error;
}

/* 0 asks for the last error or NULL, -1 for the last error or "no error". */
const char *elf_errmsg(int error)
{
	if (error == 0 && last_error == 0)
		return NULL;
	if (error == -1 && last_error == 0)
		return "no error";
	return "libelf failed";
}
