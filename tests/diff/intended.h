/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intended differences, line by line: intended.txt.  An entry is a head, and an edit of the
 * kernel's transcript:
 *
 *	SUITE BEHAVIOUR SIDE MODE[,MODE...] reason
 *	 a line that stays, and marks the place
 *	-a line that the library does not print
 *	+a line that it prints here instead
 *	6+a line of any of these kinds, with AF_INET6 sockets only (diff_test.sh -6, -n)
 *	m+with mapped addresses only (-6); n+with addresses of IPv6 only (-n)
 *	4+with AF_INET sockets only
 *	~ the kernel sees segments or datagrams here, too
 *	? it may see some: that depends on which of several processes is first
 *
 * An entry for card:SUITE holds on emulated cards (diff_test.sh -c) only; the others hold there, too.
 * All other lines must be those of the kernel, and the difference must exist.
 */
#ifndef TESTS_DIFF_INTENDED_H
#define TESTS_DIFF_INTENDED_H

#include <stdbool.h>

struct intended_at {
	const char *suite, *behaviour, *side, *mode;
	char family; /* '4', '6': AF_INET6 and mapped addresses, 'n': those of IPv6 */
	bool card;
};

/* Does the kernel's network see what a side with the library sends and receives? */
enum intended_frames { FRAMES_OURS, FRAMES_KERNELS, FRAMES_EITHER };

/*
 * The kernel's text, edited as the file says for this place: the caller frees it. *reason: the
 * reason, which the caller frees, too; NULL: there is no entry, or none with a line for this
 * family, and the text is a copy. *frames: there is a line with ~ or ?, or none. NULL: the entry does not fit
 * this text, or there is no memory.
 */
char *intended_edit(const char *file, const struct intended_at *at, const char *text, char **reason,
		    enum intended_frames *frames);

#endif
