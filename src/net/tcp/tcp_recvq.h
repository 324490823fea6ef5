/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queue: packets in order that wait to be read, and packets out of order that wait for
 * missing data.  Data stays in its frames until it is read.
 *
 * Role		whoever holds the connection.  One per struct tcp_conn, embedded.
 * Lifetime	zero-initialised is empty.  A packet that a function takes belongs to
 *		the queue until it is read.
 * Memory	frames are charged with their full size, not with their payload: a peer
 *		that sends single bytes must not pin a frame for each.  Above half
 *		of the limit, or if the owner reports low memory (gather), small
 *		segments are copied together; at the limit packets out of order are
 *		dropped (they were not acknowledged).
 */
#ifndef NET_TCP_TCP_RECVQ_H
#define NET_TCP_TCP_RECVQ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/pkt.h"

/* Frames may pin this multiple of the receive buffer, and at least this many bytes. */
#define TCP_RECVQ_ROOM_FACTOR 4u
#define TCP_RECVQ_ROOM_MIN (64u * 1024u)
/* Limit of holes: only an attacker creates more. */
#define TCP_RECVQ_RUNS_MAX 1024u
/* In bytes; see tcp_recvq_spare(). */
#define TCP_RECVQ_SPARE 2048u

struct tcp_recvq {
	struct pkt *head; /* in order, oldest first */
	struct pkt *tail;
	/*
	 * Out of order, by sequence number, without overlap. Packets without a hole between them
	 * form a run; its first packet points to its last one (run_last), so the cost of an
	 * insertion depends on the number of holes, not of packets.
	 */
	struct pkt *ooo;
	struct pkt *ooo_run; /* first packet of the last run */
	uint16_t runs;
	bool gather;	/* copy small segments together, as far as there is room */
	uint32_t bytes; /* readable bytes: in head .. tail */
	uint32_t room;	/* bytes that both queues pin in frames */
	uint32_t limit; /* limit of room */
};

void tcp_recvq_set_limit(struct tcp_recvq *q, uint32_t rcvbuf);

/*
 * Takes a packet that continues the stream. False, and pkt is not taken, if memory is at its limit
 * even after all out-of-order data was dropped (then *pruned is set).
 */
bool tcp_recvq_append(struct tcp_recvq *q, struct pkt *pkt, bool *pruned);

/*
 * For an owner that gathers. tcp_recvq_keeps(): true if pkt, when taken, stays in the queue;
 * otherwise its bytes are copied after those of the last packet. tcp_recvq_spare(): for a packet
 * that stays, the free room to provide after its bytes for following data: as much as is queued
 * already, so that at most half of it is unused.
 */
bool tcp_recvq_keeps(const struct tcp_recvq *q, const struct pkt *pkt);
uint32_t tcp_recvq_spare(const struct tcp_recvq *q, const struct pkt *pkt);

/*
 * Takes the packets first to last, linked by next, which continue the stream with this many bytes
 * in total. False, and none is taken, if memory is low; then append them one by one.
 */
bool tcp_recvq_append_chain(struct tcp_recvq *q, struct pkt *first, struct pkt *last,
			    uint32_t bytes);

/*
 * Inserts an out-of-order packet and trims bytes that are already queued. False, and pkt is not
 * taken, if it has no new bytes, or if memory or the number of holes is at its limit. On success
 * *start and *end are the bounds of the inserted bytes.
 */
bool tcp_recvq_insert(struct tcp_recvq *q, struct pkt *pkt, uint32_t *start, uint32_t *end);

/*
 * Moves data that continues the stream at rcv_nxt to the readable queue; returns the new rcv_nxt.
 * Stops after a packet with FIN (sets *fin and does not count the FIN) and drops all data after it.
 */
uint32_t tcp_recvq_advance(struct tcp_recvq *q, uint32_t rcv_nxt, bool *fin);

/* Replaces every packet by the result of fn: the same packet, or one with the same bytes. */
void tcp_recvq_exchange(struct tcp_recvq *q, struct pkt *(*fn)(struct pkt *pkt, void *arg),
			void *arg);

/*
 * Copy at most most bytes to iov. read_some frees what was read; peek leaves everything and begins
 * skip bytes after the first. iov may be memory of the program: if it cannot be written, the bytes
 * of the packets before the failing one count as read, or -EFAULT is returned.
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

/* Removes the first packet, which must be there: it is the caller's from now on. */
struct pkt *tcp_recvq_take(struct tcp_recvq *q);
/* Undoes the last tcp_recvq_take(): takes the packet, which is the first one again. */
void tcp_recvq_put_back(struct tcp_recvq *q, struct pkt *pkt);

/* Discards the first n bytes, which must be present. */
void tcp_recvq_discard(struct tcp_recvq *q, uint32_t n);

/* Free all out-of-order packets; free all packets. */
void tcp_recvq_prune(struct tcp_recvq *q);
void tcp_recvq_purge(struct tcp_recvq *q);

#endif
