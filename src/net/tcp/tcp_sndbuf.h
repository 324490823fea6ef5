/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send buffer: a ring of bytes that are queued and not yet acknowledged.  It starts small, doubles
 * as necessary, and is freed when idle.
 *
 * Role		whoever holds the connection.  One per struct tcp_conn, embedded.
 * Lifetime	zero-initialised is empty; tcp_sndbuf_fini() frees the memory, which
 *		comes from the owner's alloc and free.
 */
#ifndef NET_TCP_TCP_SNDBUF_H
#define NET_TCP_TCP_SNDBUF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/frame.h"

#define TCP_SNDBUF_FIRST 4096u /* initial size in bytes */

/* Packed, here and in struct tcp_cc: without padding at its end, a connection is smaller. */
struct tcp_sndbuf {
	uint8_t *data; /* NULL if size is 0 */
	uint32_t size; /* a power of two, or 0 */
	uint32_t head; /* offset of the oldest byte, below size */
	uint32_t len;  /* bytes held */
} __attribute__((packed, aligned(4)));

struct tcp_ops;

/*
 * Makes room for want more bytes, up to limit bytes in total. Returns how many fit now, perhaps
 * less than want if memory is short.
 */
uint32_t tcp_sndbuf_reserve(struct tcp_sndbuf *sb, const struct tcp_ops *ops, uint32_t want,
			    uint32_t limit);

/*
 * Appends len reserved bytes, gathered from iov, which may be memory of the program. False, and
 * nothing is appended, if part of it cannot be read.
 */
bool tcp_sndbuf_append(struct tcp_sndbuf *sb, const struct iovec *iov, int iovcnt, uint32_t len);

/* Points seg at the len bytes that begin offset bytes after the oldest. */
void tcp_sndbuf_parts(const struct tcp_sndbuf *sb, uint32_t offset, uint32_t len,
		      struct tcp_segment *seg);

/* Removes the oldest len bytes, which were acknowledged. */
static inline void tcp_sndbuf_consume(struct tcp_sndbuf *sb, uint32_t len)
{
	sb->head = (sb->head + len) & (sb->size - 1);
	sb->len -= len;
}

void tcp_sndbuf_fini(struct tcp_sndbuf *sb, const struct tcp_ops *ops);

#endif
