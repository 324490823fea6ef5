/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words that the kernel marks when this process dies, however it dies.
 *
 * A process that is killed keeps its descriptors for tens of milliseconds, since the kernel
 * waits for RCU grace periods on its way to close them.  Until then an XDP program finds its
 * sockets open and gives them frames that nobody reads.  So each word of a robust list
 * (get_robust_list(2)) belongs to the internal thread: the first thing that the kernel does
 * when the thread ends is to set FUTEX_OWNER_DIED in it.
 *
 * Role		deathmarks_begin, deathmarks_end: the internal thread.  deathmark_set: any,
 *		after deathmarks_begin.  Everything else: any thread.
 * Lifetime	of a word: set until it is cleared.  The C library's list of robust mutexes is
 *		not used by the internal thread, which locks none.
 * Ordering	a mutex inside.  The kernel reads the list at any moment: an entry is linked
 *		by one store, after the word, and unlinked by one, before the word.
 * Errors	-errno.  Where the kernel refuses the list, no word is ever marked.
 */
#ifndef RING_DEATHMARK_H
#define RING_DEATHMARK_H

#include <stdbool.h>
#include <stdint.h>

#define DEATHMARK_BYTES 4096u /* mapped of a file */
#define DEATHMARKS (DEATHMARK_BYTES / 8)
#define DEATHMARK_DIED 0x40000000u /* FUTEX_OWNER_DIED */

/* One for each word, as the kernel walks them: at a fixed distance from it. */
struct deathmark_link {
	struct deathmark_link *next; /* NULL: the word is not set */
};

struct deathmark_word {
	uint32_t word; /* 0, the thread, or DEATHMARK_DIED */
	uint32_t zero;
};

/* Zero: not mapped. */
struct deathmarks {
	struct deathmark_link *links; /* this process's */
	struct deathmark_word *words; /* of the file, shared */
};

/* The words of a file.  A forked child has no part in them. */
int deathmarks_map(struct deathmarks *marks, int fd);
void deathmarks_unmap(struct deathmarks *marks);

/* From now on the calling thread's death is the process's; from now on not. */
void deathmarks_begin(void);
void deathmarks_end(void);
/* In a forked child: it has set none. */
void deathmarks_forget(void);

/* False: it cannot be, now. */
bool deathmark_set(const struct deathmarks *marks, unsigned i);
void deathmark_clear(const struct deathmarks *marks, unsigned i);

#endif
