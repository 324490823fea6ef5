/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The standard streams, as Debian's static libraries find them after
 * third_party/pkg_config.bzl renamed their references.  Those libraries reach
 * a stream at a fixed distance from their code; in a shared object only a
 * variable of its own is at one.
 *
 * Role		set once while libvma.so is loaded, read by all.
 */
#include <stdio.h>

extern FILE *libvma_stdin, *libvma_stdout, *libvma_stderr;
FILE *libvma_stdin, *libvma_stdout, *libvma_stderr;

/* 101: before the constructors of the libraries themselves. */
__attribute__((constructor(101))) static void take_streams(void)
{
	libvma_stdin = stdin;
	libvma_stdout = stdout;
	libvma_stderr = stderr;
}
