/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Record ring: datagrams for one socket, from any number of processes, in shared memory.
 *
 * The ring consists of cells of RECORD_CELL bytes.  A writer reserves the cells of a record by a
 * compare-and-swap of the tail, fills them, and commits.  Whoever reserves next first describes the
 * reservation before in the word of its first cell, because the tail has room for the
 * description of the last one only.  So the length and the writer of every reservation are known
 * from the instant at which it exists, and the reader can skip it when the writer has died.
 *
 *	tail	position after the last reservation, its number of cells, its writer
 *	word	of a cell: the lap in which a record began there, its state, cells, writer.
 *		The word of an earlier lap is a free one: no word is ever cleared.
 *
 * Role		writers: one thread of each process at a time (the holder of the ring that sends), to
 *		the end of its call: what it has reserved is committed when the next call begins.
 *		The reader's functions: one thread at a time (the holder of the socket's home).
 * Lifetime	a struct record_ring_shared is in a segment, zero before record_ring_init().
 *		The reader gives each writer (a process) a number, and takes it back after the
 *		process has gone.  What the writer had committed is delivered, what it
 *		had only reserved is skipped.
 * Ordering	a record whose write returned before the write of another began is delivered
 *		before it.  A record that is not committed yet delays no later one, unless
 *		there are RECORD_HOLES of them; but its cells, and those after it, are not
 *		used again before it is committed or its writer has gone.  Then the writer posts a
 *		notice (notice.h).
 * Progress	lock-free; one locked instruction per record.  A full ring drops and counts.
 *		The usual case is short and inline: record_quick.h.
 * Trust	any process that has the ring may write anything there.  Positions, lengths and
 *		numbers of writers are bounded when they are used; what cannot be makes this
 *		side broken (-EPROTO from then on).  A hostile writer can spoil the datagrams of
 *		this socket, and nothing else.
 */
#ifndef RING_LOCAL_RECORD_RING_H
#define RING_LOCAL_RECORD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define RECORD_CELL 64u
#define RECORD_MAX 65507u      /* bytes of a datagram */
#define RECORD_WRITERS 1023u   /* of one ring at a time; number 1023 is the reader's own */
#define RECORD_CELLS_MIN 2048u /* of a ring */
#define RECORD_CELLS_MAX (1u << 20)
#define RECORD_HOLES 16u

/* What is known of a datagram besides its bytes; addresses and ports in network order. */
struct record_header {
	uint64_t time;	   /* of sending, as the writer's clock has it */
	uint32_t from, to; /* addresses, or what the caller's flags say */
	uint16_t from_port;
	uint16_t to_port;
	uint16_t len; /* bytes; record_ring_write() sets it */
	uint8_t ttl, tos;
	uint32_t ifindex; /* of a group's datagram: the interface it leaves by; else 0 */
	uint32_t flags;	  /* the caller's */
};

struct record_ring_shared {
	/* any writer, atomic */
	uint64_t tail;
	/* reader, atomic */
	uint64_t head __attribute__((aligned(64))); /* what is before it can be used again */
	uint64_t limit;				    /* cells: full from here on, below that maybe */
	/* any writer, atomic */
	uint64_t dropped __attribute__((aligned(64))); /* records that found the ring full */
	uint64_t word[] __attribute__((aligned(64)));  /* and the cells */
};

struct record_ring_writer {
	/* set when opened */
	struct record_ring_shared *shared;
	uint8_t *data;
	uint32_t cells, shift;
	uint32_t number;
	uint64_t head, limit; /* the last valid ones */
	/* for record_ring_write_at_once(), which goes on where this writer has written last */
	uint64_t *words;
	uint64_t mask;	/* of positions */
	uint64_t tail;	/* as it was then */
	uint64_t end;	/* its position */
	uint64_t until; /* a record that ends here, or before, has room in this lap; 0: not known */
	uint64_t word;	/* of a record in this lap, without its number of cells */
};

/* A reservation that was passed over. */
struct record_hole {
	uint64_t position;
	uint32_t cells, writer;
};

/* The record that record_ring_peek() found. */
struct record_found {
	struct record_header header;
	uint64_t position;
	uint32_t cells;
	bool is_mark; /* no datagram: record_ring_mark(); or of record_fan.h, as the flags say */
};

struct record_ring_reader {
	struct record_ring_shared *shared;
	uint8_t *data;
	uint32_t cells, shift;
	bool broken;
	bool peeked; /* record is valid */
	bool any_dead;
	union {
		struct {
			uint32_t n_holes;
			uint32_t keeps; /* 1: kept is a position */
		};
		uint64_t behind; /* not 0: the head may be behind next */
	};
	uint64_t kept;	   /* record_ring_keep() */
	uint64_t head;	   /* as published */
	uint64_t next;	   /* the first position that was not looked at */
	uint64_t dead_end; /* the reservations of dead writers are before it */
	struct record_found record;
	/* for record_ring_look_at_once() */
	const uint64_t *words;
	uint64_t mask;	/* of positions */
	uint64_t pause; /* it does not go on from here, nor round the end; 0: not at all */
	uint64_t lap;	/* of next, and committed: the upper bits of a word before pause */
	uint64_t stop;	/* the position of record_ring_pause_at(), or UINT64_MAX: record_quick.h */
	int in_hole;	/* the index of the hole that record was, or -1 */
	struct record_hole holes[RECORD_HOLES];
	uint64_t used[RECORD_WRITERS / 64 + 1], dead[RECORD_WRITERS / 64 + 1];
};

/* Bytes of memory for a ring. */
static inline size_t record_ring_size(uint32_t cells)
{
	return sizeof(struct record_ring_shared) + (size_t)cells * (RECORD_CELL + sizeof(uint64_t));
}

/* Cells that a datagram of len bytes takes. */
static inline uint32_t record_ring_cells(size_t len)
{
	return (uint32_t)((len + sizeof(struct record_header) + RECORD_CELL - 1) / RECORD_CELL);
}

/* ---- reader ------------------------------------------------------------------------- */

/*
 * Makes an empty ring and opens the reader's side.  cells: a power of two within the limits above;
 * limit: a datagram is dropped if so many cells are taken (SO_RCVBUF).  -EINVAL.
 */
int record_ring_init(struct record_ring_reader *reader, struct record_ring_shared *shared,
		     uint32_t cells, uint32_t limit);
void record_ring_set_limit(struct record_ring_reader *reader, uint32_t limit);

/* A number for a new writer, or -EUSERS. */
int record_ring_add_writer(struct record_ring_reader *reader);
/*
 * The writer has closed its side, or its process has died; it is known not to run any more.  What
 * it had committed can be read.  Its number is given out again when what it had reserved is gone.
 */
void record_ring_writer_gone(struct record_ring_reader *reader, uint32_t number);

/*
 * The next record: 0, -EAGAIN: there is none, or -EPROTO.  The same one until it is consumed;
 * reader->record is valid after 0, and its length is within the cells it has.
 */
int record_ring_peek(struct record_ring_reader *reader);
/*
 * Copies bytes of the record that was peeked: as many as there are and fit, from `skip` on.
 * Returns their number or -EFAULT.
 */
ssize_t record_ring_copy(const struct record_ring_reader *reader, size_t skip,
			 const struct iovec *iov, int iovcnt);
/* Consumes the record that was peeked. */
void record_ring_consume(struct record_ring_reader *reader);

/*
 * Where the bytes of the record that was peeked are, behind its header, whose place is the reader's as
 * well; NULL: they go round the end of the ring.
 */
uint8_t *record_ring_bytes(const struct record_ring_reader *reader);
/*
 * The cells from this position on, which is that of a record, are not used again, although the records
 * are consumed.  UINT64_MAX: there are none.  Meanwhile nothing is read at once.
 */
void record_ring_keep(struct record_ring_reader *reader, uint64_t position);

/*
 * Nobody writes a record from now on: a write fails with -EPIPE.  Those that have a reservation
 * may still commit: what was written can be read until record_ring_is_drained().
 */
void record_ring_close(struct record_ring_reader *reader);
/* After record_ring_peek() returned -EAGAIN: has every reservation been committed, or is gone? */
bool record_ring_is_drained(const struct record_ring_reader *reader);

/* Datagrams that writers dropped (SO_RXQ_OVFL); whatever they say. */
uint32_t record_ring_dropped(const struct record_ring_reader *reader);

/* ---- writer ------------------------------------------------------------------------- */

/* Opens the side of writer `number` of a ring with so many cells.  -EINVAL, -EPROTO. */
int record_ring_writer_open(struct record_ring_writer *writer, struct record_ring_shared *shared,
			    uint32_t cells, uint32_t number);

/*
 * Writes a record: 0, -ENOBUFS: full, it was dropped and counted; -EMSGSIZE; -EFAULT; -EPIPE: the
 * reader has closed the ring; or -EPROTO.  len: the size of iov, not more.
 */
int record_ring_write(struct record_ring_writer *writer, const struct record_header *header,
		      const struct iovec *iov, int iovcnt, size_t len);

/*
 * Writes a mark, which the reader finds in its place between the records; it has a header and no bytes,
 * and the quick way stops before it.  0, -ENOBUFS: full, nothing was counted; -EPIPE; -EPROTO.
 */
int record_ring_mark(struct record_ring_writer *writer, const struct record_header *header);

/* The position after all that was written before this call. */
uint64_t record_ring_written(struct record_ring_writer *writer);
/* Has the reader consumed what was written before that position? */
bool record_ring_has_read(struct record_ring_writer *writer, uint64_t position);

/* Has the reader closed the ring? */
bool record_ring_is_closed(const struct record_ring_writer *writer);

/* Would a record of len bytes find room now? */
bool record_ring_has_room(struct record_ring_writer *writer, size_t len);

/* Called where a writer may die: a test ends it there. */
#ifdef RECORD_RING_STEPS
extern void (*record_ring_step)(void);
#endif

#endif
