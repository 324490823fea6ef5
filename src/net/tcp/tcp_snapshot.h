/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection in bytes: how it travels to another process of this host.
 *
 * Role		pure.  tcp_snapshot_write() and _release(): whoever holds the
 *		connection; _read(): who will hold it.
 * Lifetime	of the bytes: the caller's.  They are of this version of the
 *		library and of this machine, and are not kept.
 * Clock	each side passes its own now: times travel as distances from it.
 *		What passes in between does not count.
 *
 * What was sent and is not acknowledged goes as sent once more, a moment ago: no loss is
 * known of it, and no round trip is measured by it.  Whatever the path lost while the
 * connection was on its way, the timer or the peer's SACK blocks find.
 */
#ifndef NET_TCP_TCP_SNAPSHOT_H
#define NET_TCP_TCP_SNAPSHOT_H

#include "net/tcp/tcp.h"

/* Bytes that tcp_snapshot_write() will write now; below TCP_SNAPSHOT_MAX. */
size_t tcp_snapshot_size(const struct tcp_conn *c);
void tcp_snapshot_write(const struct tcp_conn *c, uint8_t *to, nsec_t now);

#define TCP_SNAPSHOT_MAX (4ull << 30)

/*
 * It lives on elsewhere: CLOSED without a report or a segment, everything given back;
 * the owner may free the memory.
 */
void tcp_snapshot_release(struct tcp_conn *c);

/*
 * How the reader gets memory for what was received: an empty packet with room for so
 * many bytes; NULL: there is none.
 */
typedef struct pkt *(*tcp_snapshot_pkt_fn)(uint32_t room);

/*
 * The inverse; ops->established() and the like are not called.  c is memory that holds
 * no connection.  0; -EINVAL: these are no bytes of tcp_snapshot_write(), whoever made
 * them; -ENOMEM.  On failure nothing is left in c.  What is due is noted: the owner calls
 * tcp_flush(), and arms a timer for tcp_deadline().
 */
int tcp_snapshot_read(struct tcp_conn *c, const struct tcp_ops *ops, const uint8_t *from,
		      size_t len, tcp_snapshot_pkt_fn make, nsec_t now);

/*
 * c has arrived, and can be heard: the peer is asked whether it is still there.  A reset
 * that came while nobody listened does not come again by itself.
 */
void tcp_snapshot_probe(struct tcp_conn *c, nsec_t now);

/* c becomes a connection that ended with this error: its bytes are lost. */
void tcp_snapshot_lost(struct tcp_conn *c, const struct tcp_ops *ops,
		       const struct tcp_config *config, int error);

#endif
