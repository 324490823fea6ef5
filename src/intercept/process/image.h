/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program is, before it is executed: will this library be in it?
 *
 * Role		app, forked children included; image_init(): the one that starts.
 *
 * The loader brings it, for LD_PRELOAD: not into what has no loader, is of another machine, or
 * gets rights by being executed. A script is what its interpreter is.
 */
#ifndef INTERCEPT_PROCESS_IMAGE_H
#define INTERCEPT_PROCESS_IMAGE_H

enum image {
	IMAGE_NONE,  /* it cannot be executed, as far as can be seen */
	IMAGE_PLAIN, /* without the library */
	IMAGE_OURS,  /* with it; also what cannot be read */
};

/* At start. */
void image_init(void);

/* As execveat() names it. */
enum image image_at(int dir, const char *path, int flags, char *const *env);

/* As execvp() finds it. */
enum image image_search(const char *file, char *const *env);

#endif
