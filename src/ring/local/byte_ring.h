/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte ring: one direction of a local connection, a stream of bytes in shared memory.
 *
 * Role		one writer, one reader, usually in two processes; each side is used by one
 *		thread at a time (the holder of its ring).
 * Lifetime	struct byte_ring_shared and the data are in a segment that both have
 *		mapped, zero before byte_ring_init().  Each side has a private struct.
 * Ordering	what was written before the tail was published is visible to a reader that
 *		saw the tail; the space that the reader released is not read any more when
 *		the writer sees the head.  Whether the other side sleeps is not this
 *		module's concern: after it published something, a side posts a notice
 *		(notice.h).
 * Progress	wait-free, without a locked instruction.
 * Trust	the other process may write any of the shared memory at any time.  Each
 *		word is read once per use and compared with private copies.  What cannot be
 *		makes this side broken: from then on its calls return -EPROTO and do not
 *		look at the shared memory again.
 *
 * Positions count bytes from the beginning of the stream; 62 bits do not wrap.
 *
 * Kept bytes: a reader may consume bytes that it goes on using where they lie.  From the first one on
 * (byte_ring_shared.kept) the writer does not use the room again, until the reader says so.
 */
#ifndef RING_LOCAL_BYTE_RING_H
#define RING_LOCAL_BYTE_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/user.h"

#define BYTE_RING_FLAG_1 (1ull << 63)
#define BYTE_RING_FLAG_2 (1ull << 62)
#define BYTE_RING_POSITION (BYTE_RING_FLAG_2 - 1)

/* In the word of the tail. */
#define BYTE_RING_FIN BYTE_RING_FLAG_1 /* nothing follows */
#define BYTE_RING_RST BYTE_RING_FLAG_2 /* the writer has reset the connection */
/* In the word of the head. */
#define BYTE_RING_CLOSED BYTE_RING_FLAG_1 /* the reader does not read any more */
#define BYTE_RING_KEEPS BYTE_RING_FLAG_2  /* byte_ring_shared.kept counts, from now on */

#define BYTE_RING_CAPACITY_MIN 64u
#define BYTE_RING_CAPACITY_MAX (1u << 30)

struct byte_ring_shared {
	/* writer, atomic */
	uint64_t tail;	 /* bytes published, and flags */
	uint64_t urgent; /* the position after the urgent byte; 0: none was sent */
	uint64_t wanted; /* the writer waits until the head is here or further; 0: it does not */
	/* reader, atomic */
	uint64_t head __attribute__((aligned(64))); /* bytes consumed, and a flag */
	uint64_t limit;				    /* bytes of its receive buffer */
	/* with BYTE_RING_KEEPS, a process that reads, or did: bytes from here to the head are used */
	uint64_t kept;
} __attribute__((aligned(64)));

/* The reader's side. */
struct byte_ring_reader {
	struct byte_ring_shared *shared;
	const uint8_t *data;
	uint32_t capacity;
	bool broken;
	uint64_t head; /* as published */
	uint64_t tail; /* the last valid one, without its flags */
	uint64_t word; /* the last valid word of the tail */
	uint64_t urgent;
	uint64_t flag; /* BYTE_RING_CLOSED, BYTE_RING_KEEPS */
};

/* The writer's side. */
struct byte_ring_writer {
	struct byte_ring_shared *shared;
	uint8_t *data;
	uint32_t capacity;
	uint32_t send_limit; /* bytes of its send buffer */
	bool broken;
	bool closed;	    /* the reader does not read any more */
	uint32_t kept;	    /* bytes before the head whose room the reader keeps */
	uint64_t tail;	    /* as published, without flags */
	uint64_t flags;	    /* BYTE_RING_FIN, BYTE_RING_RST */
	uint64_t head;	    /* the last valid one, without its flag */
	uint64_t space_to;  /* the position that the tail may reach, by what is known */
	uint64_t plenty_to; /* up to here a third of the send buffer stays free */
};

/* ---- both sides --------------------------------------------------------------------- */

/* Before any side is opened: an empty ring, whose reader has a receive buffer of limit bytes. */
void byte_ring_init(struct byte_ring_shared *shared, uint32_t limit);

/*
 * Open a side: at the beginning of a stream, or where another process of this side stopped.
 * capacity: of data, a power of two within the limits above.  -EINVAL: it is not; -EPROTO: the
 * shared words cannot be.
 */
int byte_ring_reader_open(struct byte_ring_reader *reader, struct byte_ring_shared *shared,
			  const void *data, uint32_t capacity);
int byte_ring_writer_open(struct byte_ring_writer *writer, struct byte_ring_shared *shared,
			  void *data, uint32_t capacity, uint32_t send_limit);

/* ---- writer ------------------------------------------------------------------------- */

enum byte_ring_write_flags {
	BYTE_RING_URGENT = 1, /* the last byte that is written is urgent (MSG_OOB) */
};

/*
 * Appends as many bytes as there is space for, and publishes them.  Returns their number, or
 * -EAGAIN: no space; -EPIPE: after byte_ring_finish() or byte_ring_reset(); -ECONNRESET: the
 * reader does not read any more; -EFAULT; -EPROTO.
 */
ssize_t byte_ring_write(struct byte_ring_writer *writer, const struct iovec *iov, int iovcnt,
			unsigned flags);

/*
 * The usual write: n bytes that fit without going round the end of the data, and leave a third of the
 * send buffer free.  Returns n; or 0: nothing was written, byte_ring_write() says why or does more.
 */
static inline size_t byte_ring_write_at_once(struct byte_ring_writer *w, const void *from, size_t n)
{
	uint32_t at = (uint32_t)w->tail & (w->capacity - 1);

	/* A side that is broken, finished or closed has no plenty_to. */
	if (__builtin_expect(n - 1 >= w->capacity - at || w->tail + n > w->plenty_to, 0) ||
	    __builtin_expect(!user_copy_short(w->data + at, from, n), 0))
		return 0;
	w->tail += n;
	/* release: pairs with see_tail() and byte_ring_read_at_once(): the bytes are there */
	__atomic_store_n(&w->shared->tail, w->tail, __ATOMIC_RELEASE);
	return n;
}

/* Is a third of the send buffer free, as of the last look at the head?  Else a program is told not to write. */
static inline bool byte_ring_has_plenty(const struct byte_ring_writer *writer)
{
	return writer->tail <= writer->plenty_to;
}

/* Half-close: the reader gets end of file after what was written.  May be repeated. */
void byte_ring_finish(struct byte_ring_writer *writer);
/* The reader gets -ECONNRESET after what was written.  May be repeated. */
void byte_ring_reset(struct byte_ring_writer *writer);

/* Bytes that can be written now; 0 also when broken or finished. */
uint32_t byte_ring_space(struct byte_ring_writer *writer);
/* Bytes that the reader has not consumed (unsent and unread). */
uint32_t byte_ring_unread(struct byte_ring_writer *writer);
/* Of these, those beyond the reader's receive buffer: what the kernel would have in flight. */
uint32_t byte_ring_unsent(struct byte_ring_writer *writer);
/* The reader's process has died: writes return -EPROTO from now on. */
void byte_ring_writer_lost(struct byte_ring_writer *writer);
/* Has the reader closed its side? */
bool byte_ring_reader_closed(struct byte_ring_writer *writer);

/* SO_SNDBUF.  The ring takes up to both buffers together, and never more than its capacity. */
void byte_ring_set_send_limit(struct byte_ring_writer *writer, uint32_t limit);

/*
 * The bytes from `position` on, of those that this side has written and not written over, that lie in one piece: where
 * they are, and how many up to `most`.  The reader's process may change them.
 */
uint32_t byte_ring_written(const struct byte_ring_writer *writer, uint64_t position, uint32_t most,
			   const uint8_t **at);

/*
 * Asks for a notice when `space` bytes or more can be written: byte_ring_is_wanted() of the reader
 * becomes true.  There is no barrier in it: until notice_barrier() was called the reader may
 * consume without seeing it, so look at byte_ring_space() in each round of a poll, and after the
 * barrier before sleeping.  space 0: none is asked for any more.
 */
void byte_ring_want_space(struct byte_ring_writer *writer, uint32_t space);

/* ---- reader ------------------------------------------------------------------------- */

/*
 * Copies and consumes up to the size of iov; peek: does not consume.  Returns the number of bytes,
 * 0 at end of file (or if iov is empty), or -EAGAIN: nothing there; -ECONNRESET: the writer reset
 * the connection and all bytes are read; -EFAULT; -EPROTO.
 */
ssize_t byte_ring_read(struct byte_ring_reader *reader, const struct iovec *iov, int iovcnt,
		       bool peek);

/*
 * The usual read: consumes up to size bytes, if they do not go round the end of the data, and no
 * urgent byte is ahead.  Returns their number; or 0: byte_ring_read() says why or does more.
 */
static inline size_t byte_ring_read_at_once(struct byte_ring_reader *r, void *to, size_t size)
{
	struct byte_ring_shared *shared = r->shared;
	/* acquire: pairs with the stores of the tail: the bytes before it can be copied */
	uint64_t word = __atomic_load_n(&shared->tail, __ATOMIC_ACQUIRE), head = r->head;
	uint64_t urgent = __atomic_load_n(&shared->urgent, __ATOMIC_RELAXED);
	uint32_t at = (uint32_t)head & (r->capacity - 1);
	size_t n = word - head;

	/* A flag in a word is a large number, so what is behind the last word is no tail. */
	if (__builtin_expect(n > r->capacity || word < r->word || r->broken, 0) ||
	    __builtin_expect(urgent > head || urgent != r->urgent, 0))
		return 0;
	if (n > size)
		n = size;
	if (__builtin_expect(n - 1 >= r->capacity - at, 0) ||
	    __builtin_expect(!user_copy(to, r->data + at, n), 0))
		return 0;
	r->tail = r->word = word;
	head = r->head += n;
	/* release: pairs with see_head(): what is before it is not read any more */
	__atomic_store_n(&r->shared->head, head | r->flag, __ATOMIC_RELEASE);
	return n;
}

/*
 * byte_ring_read_at_once() has found no bytes.  True: it will, as soon as some are written; false: the other
 * functions may find something.
 */
static inline bool byte_ring_is_quiet(const struct byte_ring_reader *r)
{
	/* relaxed: bytes that are seen here are read by the next look */
	return __atomic_load_n(&r->shared->tail, __ATOMIC_RELAXED) == r->head && !r->broken;
}

/* Copies from `skip` bytes after the head, without consuming; else as byte_ring_read(). */
ssize_t byte_ring_peek_at(struct byte_ring_reader *reader, uint32_t skip, const struct iovec *iov,
			  int iovcnt);

/* Consumes up to n bytes unread (MSG_TRUNC); returns their number or -EPROTO. */
ssize_t byte_ring_discard(struct byte_ring_reader *reader, uint32_t n);

/*
 * The bytes from `skip` after the head on that lie in one piece, as of the last byte_ring_readable() or read: where
 * they are, and how many.  The writer may change them: whoever looks twice may see two things.
 */
uint32_t byte_ring_piece(const struct byte_ring_reader *reader, uint32_t skip, const uint8_t **at);
/*
 * Consumes n bytes, which are there.  What is at byte_ring_shared.kept or behind it stays as it is: the first time,
 * byte_ring_keep() comes before.
 */
static inline void byte_ring_pass(struct byte_ring_reader *reader, uint32_t n)
{
	reader->flag |= BYTE_RING_KEEPS;
	reader->head += n;
	/* release: pairs with see_head(): what is before it is not read any more */
	__atomic_store_n(&reader->shared->head, reader->head | reader->flag, __ATOMIC_RELEASE);
}
/*
 * any, one thread at a time: bytes from this position on are kept, none before it.  BYTE_RING_POSITION: none is.  It
 * needs the shared words only: the reader may be closed, or in another process.
 */
void byte_ring_keep(struct byte_ring_shared *shared, uint64_t position);
/* Does another reader keep bytes that it has consumed: the end was in another process, or had another owner here? */
bool byte_ring_keeps_others(const struct byte_ring_reader *reader);
/* Does the writer wait for room that kept bytes, the first at `position`, take? */
bool byte_ring_is_stopped(const struct byte_ring_reader *reader, uint64_t position);

/* Bytes to read (FIONREAD); 0 also when broken. */
uint32_t byte_ring_readable(struct byte_ring_reader *reader);
/* The same, as of the last look. */
static inline uint32_t byte_ring_seen(const struct byte_ring_reader *reader)
{
	return reader->broken ? 0 : (uint32_t)(reader->tail - reader->head);
}

/* What follows the readable bytes. */
enum byte_ring_end {
	BYTE_RING_OPEN,
	BYTE_RING_FINISHED,
	BYTE_RING_WAS_RESET,
	BYTE_RING_BROKEN,
};
enum byte_ring_end byte_ring_end(struct byte_ring_reader *reader);

/*
 * True if the writer sent urgent data: *ahead is the number of bytes before the last urgent byte,
 * negative after that byte was consumed.  As of the last byte_ring_readable() or read.
 */
bool byte_ring_urgent(const struct byte_ring_reader *reader, int64_t *ahead);

/* SO_RCVBUF. */
void byte_ring_set_receive_limit(struct byte_ring_reader *reader, uint32_t limit);

bool byte_ring_reached_wanted(const struct byte_ring_reader *reader);
/* After consuming: does the writer wait for a notice, and has the head come far enough? */
static inline bool byte_ring_is_wanted(const struct byte_ring_reader *reader)
{
	/* Orders nothing: see byte_ring_want_space(). */
	return __builtin_expect(__atomic_load_n(&reader->shared->wanted, __ATOMIC_RELAXED) != 0,
				0) &&
	       byte_ring_reached_wanted(reader);
}

/*
 * The writer's process has ended, and its end counts as byte_ring_finish() by it; unless it had
 * another end before.
 */
void byte_ring_finish_for_writer(struct byte_ring_reader *reader);

/* The reader does not read any more (close, SHUT_RD with unread data): writes fail. */
void byte_ring_close(struct byte_ring_reader *reader);
/* As byte_ring_close(); and what is unread is lost: reads fail with -EPROTO. */
void byte_ring_refuse(struct byte_ring_reader *reader);

#endif
