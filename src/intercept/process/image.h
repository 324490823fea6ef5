/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inspects a program before it is executed: will this library be loaded into it?
 *
 * Role		app, forked children included; image_init(): any thread.
 *
 * The loader brings the library in because of LD_PRELOAD, but not into a program without a
 * loader, of another machine, or that gains privileges by being executed.  A script is what
 * its interpreter is.
 */
#ifndef INTERCEPT_PROCESS_IMAGE_H
#define INTERCEPT_PROCESS_IMAGE_H

enum image {
	IMAGE_NONE,  /* it cannot be executed, as far as we can tell */
	IMAGE_PLAIN, /* without the library */
	IMAGE_OURS,  /* with the library, or the file cannot be read */
};

/* At start; each call does the same. */
void image_init(void);

/* Inspects the program that execveat() would execute. */
enum image image_at(int dir, const char *path, int flags, char *const *env);

/* Inspects the program that execvp() would find. */
enum image image_search(const char *file, char *const *env);

#endif
