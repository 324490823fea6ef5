/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Differences that are meant, line by line: intended.txt.  An entry is a head and an edit of
 * what is said on the kernel:
 *
 *	SUITE BEHAVIOUR SIDE MODE[,MODE...] reason
 *	 a line that stays, and marks the place
 *	-a line that the library does not say
 *	+a line that it says here instead
 *
 * All else must be as on the kernel, and the difference must be there.
 */
#ifndef TESTS_DIFF_INTENDED_H
#define TESTS_DIFF_INTENDED_H

struct intended_at {
	const char *suite, *behaviour, *side, *mode;
};

/*
 * What is said on the kernel, edited as the file has it for this place: for the caller to
 * free().  *reason: why, likewise; NULL: there is no entry, the text is a copy.  NULL: the
 * entry does not fit this text, or there is no memory.
 */
char *intended_edit(const char *file, const struct intended_at *at, const char *text,
		    char **reason);

#endif
