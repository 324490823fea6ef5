/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queue: packets in order, waiting to be read, and packets out of
 * order, waiting for what is missing.  Data stays in its frames until read.
 *
 * Role		whoever holds the connection.  One per struct tcp_conn, embedded.
 * Lifetime	zero-initialised is empty.  A packet given to a function that
 *		takes it belongs to the queue until it was read.
 * Memory	frames are charged with their whole room, not with their payload:
 *		a peer that sends bytes one by one must not pin a frame for
 *		each.  Above half of the limit, or where the owner says that memory
 *		is short (gather), small segments are copied together; at the limit
 *		packets out of order are dropped (they were not acknowledged).
 */
#ifndef NET_TCP_TCP_RECVQ_H
#define NET_TCP_TCP_RECVQ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/pkt.h"

/* Frames may pin so many times the receive buffer, and at least so much. */
#define TCP_RECVQ_ROOM_FACTOR 4u
#define TCP_RECVQ_ROOM_MIN (64u * 1024u)
/* More holes are not kept: it takes a peer that makes them for their own sake. */
#define TCP_RECVQ_RUNS_MAX 1024u
/* Bytes; see tcp_recvq_spare(). */
#define TCP_RECVQ_SPARE 2048u

struct tcp_recvq {
	struct pkt *head; /* in order, oldest first */
	struct pkt *tail;
	/*
	 * Out of order, by sequence number, no two overlap.  Packets without a hole between
	 * them are a run; its first one knows its last one (run_last), so that looking for a
	 * place costs by the holes, not by the packets.
	 */
	struct pkt *ooo;
	struct pkt *ooo_run; /* the first of the last run */
	uint16_t runs;
	bool gather;	/* small segments are copied together, as far as there is room */
	uint32_t bytes; /* readable: in head .. tail */
	uint32_t room;	/* bytes of frames pinned by both queues */
	uint32_t limit; /* bound of room */
};

void tcp_recvq_set_limit(struct tcp_recvq *q, uint32_t rcvbuf);

/*
 * Takes a packet that continues the stream.  False, and pkt is not taken, when
 * memory is at its limit even without what was out of order (which is dropped
 * then: *pruned).
 */
bool tcp_recvq_append(struct tcp_recvq *q, struct pkt *pkt, bool *pruned);

/*
 * For an owner that gathers.  Will pkt, if it is taken, stay in the queue?  Else its bytes
 * are copied behind those of the last packet.  If so: the room that it should have behind its
 * bytes for what follows, as much as is queued already, so that at most half of it is idle.
 */
bool tcp_recvq_keeps(const struct tcp_recvq *q, const struct pkt *pkt);
uint32_t tcp_recvq_spare(const struct tcp_recvq *q, const struct pkt *pkt);

/*
 * Takes packets first to last, linked by next, which continue the stream with bytes in
 * all.  False, and none is taken, when memory runs short: then one by one.
 */
bool tcp_recvq_append_chain(struct tcp_recvq *q, struct pkt *first, struct pkt *last,
			    uint32_t bytes);

/*
 * Files a packet that came too early; cuts off what is there already.  False,
 * and pkt is not taken, when nothing new is left of it, or memory or the
 * number of holes is at its limit.  On success *start and *end bound the bytes filed.
 */
bool tcp_recvq_insert(struct tcp_recvq *q, struct pkt *pkt, uint32_t *start, uint32_t *end);

/*
 * Moves what now continues the stream at rcv_nxt into the readable queue;
 * returns the new rcv_nxt.  Stops behind a packet with FIN (*fin is set, the FIN
 * is not counted) and drops whatever claims to come after it.
 */
uint32_t tcp_recvq_advance(struct tcp_recvq *q, uint32_t rcv_nxt, bool *fin);

/* Exchanges every packet for what fn gives for it: the same, or one with the same bytes. */
void tcp_recvq_exchange(struct tcp_recvq *q, struct pkt *(*fn)(struct pkt *pkt, void *arg),
			void *arg);

/*
 * Copies up to the size of iov out, and no more than most bytes; frees what was
 * read, or leaves everything and begins skip bytes behind the first.  iov may be
 * the program's memory: where it cannot be written, bytes before the packet that did not
 * fit were read, or -EFAULT.
 */
ssize_t tcp_recvq_read_some(struct tcp_recvq *q, const struct iovec *iov, int iovcnt,
			    uint32_t most);
ssize_t tcp_recvq_peek(const struct tcp_recvq *q, const struct iovec *iov, int iovcnt,
		       uint32_t skip, uint32_t most);

static inline ssize_t tcp_recvq_read(struct tcp_recvq *q, const struct iovec *iov, int iovcnt,
				     bool peek)
{
	if (peek)
		return tcp_recvq_peek(q, iov, iovcnt, 0, UINT32_MAX);
	return tcp_recvq_read_some(q, iov, iovcnt, UINT32_MAX);
}

/* Throws the first n bytes away, which are there. */
void tcp_recvq_discard(struct tcp_recvq *q, uint32_t n);

/* Frees everything out of order; everything. */
void tcp_recvq_prune(struct tcp_recvq *q);
void tcp_recvq_purge(struct tcp_recvq *q);

#endif
