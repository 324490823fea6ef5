/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Death marks: words in shared memory that the kernel marks when this process dies, however it
 * dies.
 *
 * A killed process keeps its descriptors for tens of milliseconds, because the kernel waits for
 * RCU grace periods before it closes them.  Until then the XDP program finds the AF_XDP sockets
 * open and redirects frames to them that nobody reads.  So the words are in a robust list
 * (get_robust_list(2)) and name the internal thread as their owner.  When a thread ends, the
 * kernel sets FUTEX_OWNER_DIED in its words before it does anything else.
 *
 * Role		deathmarks_begin, deathmarks_end: the internal thread.  deathmark_set: any,
 *		after deathmarks_begin.  Everything else: any thread.
 * Lifetime	of a word: from deathmark_set() to deathmark_clear().  The list replaces the C
 *		library's list of robust mutexes of the internal thread, which locks none.
 * Ordering	a mutex inside.  The kernel may read the list at any moment: an entry is linked
 *		by one store, after its word is set, and unlinked by one store, before its word
 *		is cleared.
 * Errors	-errno.  Where the kernel refuses the list, no word is ever marked.
 */
#ifndef RING_XDP_DEATHMARK_H
#define RING_XDP_DEATHMARK_H

#include <stdbool.h>
#include <stdint.h>

#define DEATHMARK_BYTES 4096u /* of the file with the words */
#define DEATHMARKS (DEATHMARK_BYTES / 8)
#define DEATHMARK_DIED 0x40000000u /* FUTEX_OWNER_DIED */

/* An entry of the list.  Each word has one, at a fixed distance, as the kernel requires. */
struct deathmark_link {
	struct deathmark_link *next; /* NULL: the word is not set */
};

struct deathmark_word {
	uint32_t word; /* atomic: 0, the thread's number, or (by the kernel) DEATHMARK_DIED */
	uint32_t zero;
};

/* All zero: not mapped. */
struct deathmarks {
	struct deathmark_link *links; /* private memory of this process */
	struct deathmark_word *words; /* shared memory: the file */
};

/* Maps the words of a file.  A forked child does not inherit the mapping of the words. */
int deathmarks_map(struct deathmarks *marks, int fd);
/* Clears this process's words and unmaps them. */
void deathmarks_unmap(struct deathmarks *marks);

/* The calling thread becomes the owner of all words that are set or will be. */
void deathmarks_begin(void);
/* It is not their owner any more; words that are set stay set, and are not marked. */
void deathmarks_end(void);
/* In a forked child, which has set no words. */
void deathmarks_forget(void);

/* Sets word i.  False: there is no owner now. */
bool deathmark_set(const struct deathmarks *marks, unsigned i);
/* Clears word i, whoever set it. */
void deathmark_clear(const struct deathmarks *marks, unsigned i);

#endif
