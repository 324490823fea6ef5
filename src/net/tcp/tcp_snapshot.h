/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serialises a connection, for its export to another process of this host.
 *
 * Role		pure.  tcp_snapshot_write() and _release(): whoever holds the
 *		connection; _read(): its future holder.
 * Lifetime	the caller owns the bytes.  They are valid for this version of the
 *		library on this machine, and are not stored.
 * Clock	each side passes its own now: times are stored relative to it.  The time
 *		of the transfer does not count.
 *
 * Data in flight is imported as if just retransmitted: no loss is known, and it gives no
 * round-trip sample.  The timer or the peer's SACK blocks find data that was lost during the
 * transfer.
 */
#ifndef NET_TCP_TCP_SNAPSHOT_H
#define NET_TCP_TCP_SNAPSHOT_H

#include "net/tcp/tcp.h"

/* The number of bytes that tcp_snapshot_write() would write now; below TCP_SNAPSHOT_MAX. */
size_t tcp_snapshot_size(const struct tcp_conn *c);
void tcp_snapshot_write(const struct tcp_conn *c, uint8_t *to, nsec_t now);

#define TCP_SNAPSHOT_MAX (4ull << 30)

/*
 * Releases a connection that was exported: becomes CLOSED without a callback or a segment, and
 * frees everything. The owner may free the memory.
 */
void tcp_snapshot_release(struct tcp_conn *c);

/*
 * Allocates a packet for received data: empty, with room for this many bytes; NULL without memory.
 */
typedef struct pkt *(*tcp_snapshot_pkt_fn)(uint32_t room);

/*
 * Imports a connection; calls no ops->established() and the like. c is memory without a connection.
 * 0; -EINVAL: these bytes are not from tcp_snapshot_write(), and may be hostile; -ENOMEM. On
 * failure c holds nothing to free. On success the owner calls tcp_flush(), and arms a timer for
 * tcp_deadline().
 */
int tcp_snapshot_read(struct tcp_conn *c, const struct tcp_ops *ops, const uint8_t *from,
		      size_t len, tcp_snapshot_pkt_fn make, nsec_t now);

/*
 * Call after import, when segments of c are received here: sends a probe to the peer. A reset that
 * was lost during the transfer would not be repeated otherwise.
 */
void tcp_snapshot_probe(struct tcp_conn *c, nsec_t now);

/* Makes c a connection that ended with this error; its data is lost. */
void tcp_snapshot_lost(struct tcp_conn *c, const struct tcp_ops *ops,
		       const struct tcp_config *config, int error);

#endif
