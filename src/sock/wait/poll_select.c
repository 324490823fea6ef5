/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * select(2), as a poll(2) of the descriptors whose bits are set, with the kernel's meaning.
 *
 * The sets are as long as n says: programs have descriptors beyond FD_SETSIZE.
 */
#include <errno.h>
#include <limits.h>

#include "base/mem.h"
#include "sock/wait/poll_internal.h"

#define FEW_FDS 32
#define WORD_BITS (8 * (unsigned)sizeof(unsigned long))

/* fs/select.c: POLLIN_SET, POLLOUT_SET, POLLEX_SET; poll.c handles errors. */
#define ASK_READ (POLLIN | POLLRDNORM | POLLRDBAND)
#define ASK_WRITE (POLLOUT | POLLWRNORM | POLLWRBAND)
#define ASK_EXCEPT POLLPRI
#define IS_READ (ASK_READ | POLLHUP | POLLERR)
#define IS_WRITE (ASK_WRITE | POLLERR)

struct sets {
	unsigned long *read, *write, *except; /* NULL: none */
	unsigned words;
	unsigned long last; /* valid bits of the last word */
};

static unsigned long word(const struct sets *sets, const unsigned long *set, unsigned w)
{
	unsigned long bits = set ? set[w] : 0;

	return w + 1 == sets->words ? bits & sets->last : bits;
}

static unsigned long any_word(const struct sets *sets, unsigned w)
{
	return word(sets, sets->read, w) | word(sets, sets->write, w) | word(sets, sets->except, w);
}

static bool has(const unsigned long *set, int fd)
{
	return set && (set[(unsigned)fd / WORD_BITS] >> ((unsigned)fd % WORD_BITS) & 1);
}

static nfds_t count(const struct sets *sets)
{
	nfds_t n = 0;

	for (unsigned w = 0; w < sets->words; w++)
		n += (nfds_t)__builtin_popcountl(any_word(sets, w));
	return n;
}

static void to_pollfds(const struct sets *sets, struct pollfd *fds)
{
	for (unsigned w = 0; w < sets->words; w++) {
		for (unsigned long bits = any_word(sets, w); bits; bits &= bits - 1) {
			int fd = (int)(w * WORD_BITS + (unsigned)__builtin_ctzl(bits));

			fds->fd = fd;
			fds->events = (short)((has(sets->read, fd) ? ASK_READ : 0) |
					      (has(sets->write, fd) ? ASK_WRITE : 0) |
					      (has(sets->except, fd) ? ASK_EXCEPT : 0));
			fds++;
		}
	}
}

static void clear(unsigned long *set, unsigned words)
{
	for (unsigned w = 0; set && w < words; w++)
		set[w] = 0;
}

static int mark(unsigned long *set, int fd)
{
	set[(unsigned)fd / WORD_BITS] |= 1ul << ((unsigned)fd % WORD_BITS);
	return 1;
}

/* Returns the number of bits set. */
static int from_pollfds(const struct sets *sets, const struct pollfd *fds, nfds_t n)
{
	int bits = 0;

	clear(sets->read, sets->words);
	clear(sets->write, sets->words);
	clear(sets->except, sets->words);
	for (nfds_t i = 0; i < n; i++) {
		short asked = fds[i].events, is = fds[i].revents;

		if ((asked & POLLIN) && (is & IS_READ))
			bits += mark(sets->read, fds[i].fd);
		if ((asked & POLLOUT) && (is & IS_WRITE))
			bits += mark(sets->write, fds[i].fd);
		if ((asked & POLLPRI) && (is & POLLPRI))
			bits += mark(sets->except, fds[i].fd);
	}
	return bits;
}

int select_sockets(int n, fd_set *r, fd_set *w, fd_set *e, nsec_t timeout, const sigset_t *mask,
		   fd_lookup_fn lookup)
{
	unsigned bits = (unsigned)n, rest = bits % WORD_BITS;
	struct sets sets = {
		.read = (unsigned long *)(void *)r,
		.write = (unsigned long *)(void *)w,
		.except = (unsigned long *)(void *)e,
		.words = bits / WORD_BITS + (rest != 0),
		.last = rest ? (1ul << rest) - 1 : ULONG_MAX,
	};
	struct pollfd few[FEW_FDS], *fds = few;
	struct call call;
	int rc;

	if (n < 0)
		return -EINVAL;
	call.n = count(&sets);
	if (call.n > FEW_FDS)
		fds = mem_alloc(call.n * sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	to_pollfds(&sets, fds);
	call.fds = fds;
	call.lookup = lookup;
	call.owned = fds != few ? fds : NULL;
	call.select = true;
	rc = poll_call(&call, timeout, mask);
	for (nfds_t i = 0; rc > 0 && i < call.n; i++) {
		if (fds[i].revents & POLLNVAL)
			rc = -EBADF;
	}
	if (rc >= 0)
		rc = from_pollfds(&sets, fds, call.n);
	mem_free(call.owned);
	return rc;
}
