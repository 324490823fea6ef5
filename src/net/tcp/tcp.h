/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP, RFC 9293: one connection, and a listener.
 *
 * Role		pure: a function of (state, segment, now, sink).  No system
 *		call, no clock, no allocation of its own, no globals.  Called by
 *		the holder of the ring that owns the connection; in tests by a
 *		simulator.
 * Lifetime	struct tcp_conn is embedded in its owner.  From ops->closed()
 *		on the protocol is finished: send buffer and what was out of
 *		order are returned, no deadline is set, nothing is sent.  What
 *		is readable stays so, as on Linux, until tcp_close() or
 *		tcp_abort(), which free it; called on a finished connection they
 *		do only that.  One of the two is called in any case, for what
 *		few connections need is freed there; the owner may free the
 *		memory after it, and when the function that called
 *		ops->closed() has returned.
 * Clock	callers pass now.
 * Re-entry	callbacks must not call back into the engine for the same
 *		connection; they note what happened and act afterwards.
 * Errors	-errno.
 */
#ifndef NET_TCP_TCP_H
#define NET_TCP_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/list.h"
#include "net/drop.h"
#include "net/frame.h"
#include "net/pkt.h"

enum tcp_state {
	TCP_CLOSED,
	TCP_LISTEN,
	TCP_SYN_SENT,
	TCP_SYN_RECEIVED,
	TCP_ESTABLISHED,
	TCP_FIN_WAIT_1,
	TCP_FIN_WAIT_2,
	TCP_CLOSE_WAIT,
	TCP_CLOSING,
	TCP_LAST_ACK,
	TCP_TIME_WAIT,
};

struct tcp_conn;

/* What a connection needs from its owner and reports to it.  All required. */
struct tcp_ops {
	void *(*alloc)(size_t size); /* send buffers; NULL when exhausted */
	/*
	 * CLOSED was reached: error is 0 after an orderly close, else
	 * ECONNREFUSED, ECONNRESET, ETIMEDOUT...  Once, last of all.
	 */
	void (*closed)(struct tcp_conn *conn, int error);
	void (*established)(struct tcp_conn *conn); /* once */
	void (*free)(void *buffer);
	void (*readable)(struct tcp_conn *conn); /* new data in order, or the peer's FIN */
	/*
	 * Send a segment now: its payload is copied before return.  Not 0: it
	 * could not be sent (no buffer); the engine acts as if it got lost on
	 * the wire and stops its burst.
	 */
	int (*send)(struct tcp_conn *conn, const struct tcp_segment *seg);
	/*
	 * A segment of more than mss bytes: sends it in pieces of so many, the last
	 * one perhaps smaller; see frame_train_begin() and tcp_send_train().  How many
	 * bytes of it went out, perhaps fewer, in whole pieces.
	 */
	uint32_t (*send_train)(struct tcp_conn *conn, const struct tcp_segment *seg, uint32_t mss);
	/* The peer announced urgent data, or it came: see tcp_recv_urgent(). */
	void (*urgent)(struct tcp_conn *conn);
	void (*writable)(struct tcp_conn *conn); /* room in a send buffer that was full */
};

/* RFC 3168: as net.ipv4.tcp_ecn counts. */
enum tcp_ecn { TCP_ECN_NONE, TCP_ECN_ASK, TCP_ECN_ANSWER };

struct tcp_config {
	uint16_t mss;	     /* largest payload we can receive and send: MTU - 40 */
	uint32_t rcvbuf;     /* receive buffer, bytes, at first */
	uint32_t rcvbuf_max; /* so far it may grow by itself; less than rcvbuf: not at all */
	uint32_t sndbuf;     /* send buffer, likewise */
	uint32_t sndbuf_max;
	bool nodelay;
	bool timestamps;       /* offer RFC 7323 timestamps */
	bool quickack;	       /* acknowledge at every tcp_flush() */
	uint8_t ecn;	       /* enum tcp_ecn */
	uint8_t cc_algo;       /* congestion control: tcp_cc_by_number() */
	uint32_t window_clamp; /* largest window to offer; 0: as large as can be */
};

/* Fields are the engine's; upper layers use the functions below. */
#include "net/tcp/tcp_conn.h"

/* ---- a connection ---------------------------------------------------------- */

/* In CLOSED; config is copied. */
void tcp_init(struct tcp_conn *conn, const struct tcp_ops *ops, const struct tcp_config *config);

/* What a connection begins with; see tcp_start_of(). */
struct tcp_start {
	uint32_t iss;	    /* initial sequence number */
	uint32_t ts_offset; /* what is added to the clock of our timestamps */
};

/* Active open: sends SYN. */
int tcp_connect(struct tcp_conn *conn, struct tcp_start start, nsec_t now);

/*
 * One segment for this connection, parsed (pkt->seq, tcp_flags, off, len).
 * Consumes it unless a reason is returned: then the caller frees and counts.
 * RFC 9293 section 3.10.7.  DROP_NO_FLOW: TIME_WAIT has just ended because of
 * this SYN, which begins a new connection; it may be given to a listener.
 */
enum drop tcp_input(struct tcp_conn *conn, struct pkt *pkt, nsec_t now);

/*
 * Segments of one burst, linked by next as they came (receive offload).  True: they
 * were what a stream is made of, and are consumed, at the cost of about one.  False:
 * nothing changed; give them to tcp_input(), one by one.
 */
bool tcp_input_chain(struct tcp_conn *conn, struct pkt *first, nsec_t now);

/*
 * End of a burst of tcp_input() calls, or of tcp_recv() calls: sends what is
 * due now (data, acknowledgements, window updates).  Cheap when nothing is.
 * True: an acknowledgement waits for more segments of a stream.  Call it again as
 * soon as it was looked for them, whether any came or not; or tcp_acknowledge(), if
 * nobody is going to look.
 */
bool tcp_flush(struct tcp_conn *conn, nsec_t now);
/* Sends an acknowledgement that is owed, whatever could be gained by waiting. */
void tcp_acknowledge(struct tcp_conn *conn, nsec_t now);

#define TCP_SEND_OOB 2u	 /* MSG_OOB: the last byte is urgent */
#define TCP_SEND_MORE 1u /* MSG_MORE: more will follow, hold back a partial segment */

/*
 * Queues and sends what Nagle, congestion and the peer's window let through.
 * Bytes queued (may be fewer than given), or -EAGAIN (buffer full or not yet
 * connected), -EPIPE (shut down), -ENOTCONN, or the error the connection died of (reported once).
 */
ssize_t tcp_send(struct tcp_conn *conn, const struct iovec *iov, int iovcnt, unsigned flags,
		 nsec_t now);

/*
 * Copies in-order data out and frees what was read, or leaves it with peek.
 * Bytes; 0 at the end of the stream; -EAGAIN when there is nothing yet; -ENOTCONN; or the error the
 * connection died of (reported once, after the data).  May send a window update.
 */
ssize_t tcp_recv(struct tcp_conn *conn, const struct iovec *iov, int iovcnt, bool peek, nsec_t now);

/*
 * SO_PEEK_OFF: the next tcp_peek() begins so many bytes behind what was read, each further
 * one behind the one before; negative: that is over.  0 or -ENOMEM.
 */
int tcp_set_peek_offset(struct tcp_conn *conn, int offset);
/* -1: there is none. */
int tcp_peek_offset(const struct tcp_conn *conn);
/*
 * As tcp_recv() with peek, where there is an offset; at most most bytes.  iov NULL: they
 * are not copied.
 */
ssize_t tcp_peek(struct tcp_conn *conn, const struct iovec *iov, int iovcnt, uint32_t most);

/*
 * Urgent data as Linux has it: one byte, out of band, unless SO_OOBINLINE.  1, or
 * -EINVAL (none, read already, or in line), -EAGAIN (announced, not here), 0 (nor
 * will it come).  tcp_recv() stops in front of it and goes on behind it.
 */
int tcp_recv_urgent(struct tcp_conn *conn, uint8_t *byte, bool peek);
bool tcp_urgent_here(const struct tcp_conn *conn); /* POLLPRI */
bool tcp_at_mark(const struct tcp_conn *conn);	   /* SIOCATMARK */
void tcp_set_oobinline(struct tcp_conn *conn, bool on);

/* Bytes that tcp_recv() would give. */
uint32_t tcp_readable_bytes(const struct tcp_conn *conn);
/* TCP_INQ: what came and was not read; the end of the stream counts as one. */
uint32_t tcp_unread(const struct tcp_conn *conn);
/* Bytes that tcp_send() would take. */
uint32_t tcp_writable_bytes(const struct tcp_conn *conn);
/* tcp_send() left so little room that ops->writable() will tell when there is more. */
bool tcp_is_full(const struct tcp_conn *conn);
/* POLLOUT, as Linux has it: much room, and little that was not sent yet. */
bool tcp_is_writable(const struct tcp_conn *conn);
/* Bytes sent or queued and not acknowledged (SIOCOUTQ). */
uint32_t tcp_unacked_bytes(const struct tcp_conn *conn);

/*
 * No more data will be sent: FIN behind what is queued.  -ENOTCONN.  In SYN_SENT
 * it gives up: ops->closed(ECONNRESET).
 */
int tcp_shutdown(struct tcp_conn *conn, nsec_t now);

/*
 * SHUT_RD, as Linux has it: a read that finds nothing says it is the end, what arrives
 * can be read all the same.  Only when our side has said FIN, too, it is refused (RST).
 */
void tcp_shutdown_read(struct tcp_conn *conn);

/*
 * The program closed the socket: FIN, or RST when data was left unread (RFC
 * 2525 2.17).  The connection lives on until ops->closed().
 */
void tcp_close(struct tcp_conn *conn, nsec_t now);

/* RST at once, then ops->closed(error). */
void tcp_abort(struct tcp_conn *conn, int error, nsec_t now);

/*
 * The process ends, and nobody will be there for the answer to its SYN: in SYN_SENT the
 * peer is reset now, in case it has answered.  Nothing in other states.
 */
void tcp_reset_syn(struct tcp_conn *conn, nsec_t now);

/* The network says it cannot be reached: fatal only while connecting. */
void tcp_unreachable(struct tcp_conn *conn, int error, nsec_t now);

/*
 * The path carries IP packets of so many bytes at most.  As an ICMP message says:
 * then ask tcp_icmp_is_ours() first, with the sequence number it quotes (RFC 5927
 * section 4.1).  Or as a new route says, which may raise it.
 */
void tcp_path_mtu(struct tcp_conn *conn, uint32_t mtu, nsec_t now);
/*
 * There is a way to the peer again, after a time in which what was sent went nowhere: it
 * is sent now, not when the next timeout is due.
 */
void tcp_way_found(struct tcp_conn *conn, nsec_t now);
bool tcp_icmp_is_ours(const struct tcp_conn *conn, uint32_t seq);

/*
 * The error the connection died of, which tcp_send() or tcp_recv() would report;
 * 0 when there is none or it was reported.  Counts as reported.
 */
int tcp_take_error(struct tcp_conn *conn);

/* When tcp_timer() must be called at the latest; NSEC_NEVER. */
nsec_t tcp_deadline(const struct tcp_conn *conn);
/* Acts on every timer that is due; harmless when early. */
void tcp_timer(struct tcp_conn *conn, nsec_t now);

/* Options.  now: an effect at once, such as data that Nagle held back. */
void tcp_set_nodelay(struct tcp_conn *conn, bool on, nsec_t now);
void tcp_set_cork(struct tcp_conn *conn, bool on, nsec_t now);
void tcp_set_quickack(struct tcp_conn *conn, bool on, nsec_t now);
/* The program chose a size: it does not change by itself any more. */
void tcp_set_rcvbuf(struct tcp_conn *conn, uint32_t bytes);
void tcp_set_sndbuf(struct tcp_conn *conn, uint32_t bytes);
void tcp_set_keepalive(struct tcp_conn *conn, const struct tcp_keepalive *keepalive, nsec_t now);
void tcp_set_user_timeout(struct tcp_conn *conn, nsec_t timeout); /* 0: none */
/*
 * How often data, a FIN or a window probe is repeated for a program that has left
 * (net.ipv4.tcp_orphan_retries); 0: TCP_ORPHAN_RETRIES.  Of the process, written before it has
 * connections.
 */
extern uint8_t tcp_orphan_retries;
void tcp_set_syn_retries(struct tcp_conn *conn, uint8_t retries); /* 0: the default */
/* TCP_LINGER2: seconds in FIN_WAIT_2 once the program has left; -1: none at all, reset. */
void tcp_set_linger2(struct tcp_conn *conn, int seconds);
/* TCP_NOTSENT_LOWAT: bytes not sent yet that are enough; 0: any number. */
void tcp_set_notsent_lowat(struct tcp_conn *conn, uint32_t bytes);
/* TCP_WINDOW_CLAMP; 0: none.  What was offered stays so. */
void tcp_set_window_clamp(struct tcp_conn *conn, uint32_t bytes);
/* The largest window it can have, now or when it grew. */
uint32_t tcp_window_max(const struct tcp_conn *conn);
/* TCP_MAXSEG: of a full segment, as of now. */
uint32_t tcp_maxseg(const struct tcp_conn *conn);
/* SO_MAX_PACING_RATE; 0: as fast as can be. */
void tcp_set_pacing(struct tcp_conn *conn, uint64_t bytes_per_sec, nsec_t now);
void tcp_set_congestion(struct tcp_conn *conn, int number); /* tcp_cc_by_number() */

/*
 * struct tcp_info of <linux/tcp.h>.  Segments in flight are bytes divided by their
 * size; tcpi_delivery_rate is that of the last round trip that carried ten segments
 * or more.  Not known, and 0: fackets, last_ack_sent, TCPI_OPT_ECN_SEEN, whether the
 * program limited the rate; reordering is what RACK begins with.
 */
struct tcp_info;
void tcp_get_info(const struct tcp_conn *conn, struct tcp_info *info, nsec_t now);

/* ---- a listener ------------------------------------------------------------- */

struct tcp_listener;
struct tcp_synreq;

struct tcp_listener_ops {
	/*
	 * A handshake is complete.  The owner makes a connection with
	 * tcp_init_passive(conn, ops, config, req) and then passes pkt (the ACK,
	 * perhaps with data) to tcp_input(); the listener forgets req on return.
	 * Consumes pkt when it returns 0; otherwise (no memory, accept queue full) the
	 * peer is left to retransmit.
	 */
	int (*accept)(struct tcp_listener *l, const struct tcp_synreq *req, struct pkt *pkt,
		      nsec_t now);
	void *(*alloc)(size_t size);
	/* A handshake begins; its SYN-ACK was not sent yet.  NULL: the owner needs not know. */
	void (*began)(struct tcp_listener *l, struct tcp_synreq *req);
	/* It is over, one way or another; req is freed next.  NULL likewise. */
	void (*ended)(struct tcp_listener *l, struct tcp_synreq *req);
	void (*free)(void *ptr);
	/* Has the accept queue room?  A SYN is dropped otherwise.  NULL: always. */
	bool (*has_room)(struct tcp_listener *l);
	/* A segment to the peer of pkt or (timer) of req; addresses as seen locally. */
	int (*send)(struct tcp_listener *l, const struct endpoint *local,
		    const struct endpoint *remote, const struct tcp_segment *seg);
	/* What a connection of this pair begins with: tcp_start_of(). */
	struct tcp_start (*start)(struct tcp_listener *l, const struct endpoint *local,
				  const struct endpoint *remote, nsec_t now);
};

/*
 * A handshake not yet complete: all that is spent on a SYN.  About 128 bytes.
 * Kept in a hash table of the listener, by the pair of endpoints.
 */
struct tcp_synreq {
	struct list link; /* hash chain */
	struct list age;  /* oldest first */
	struct endpoint local;
	struct endpoint remote;
	uint32_t irs;
	uint32_t iss;
	uint16_t peer_mss;
	uint16_t peer_wnd;
	int8_t peer_wscale; /* -1: none offered */
	bool timestamps;
	bool sack;
	uint32_t ts_recent;
	uint8_t retries;
	bool ecn;
	bool acked;	/* it is complete, but data is waited for */
	bool expected;	/* the owner's, false at first: its frames have a way of their own */
	uint8_t wscale; /* ours, as offered */
	uint16_t wnd;	/* ours, as offered */
	uint32_t ts_offset;
	nsec_t created; /* NSEC_NEVER: by a cookie, nobody knows */
	nsec_t deadline;
};

_Static_assert(sizeof(struct tcp_synreq) <= 128, "all that is spent on a SYN");

#define TCP_SYN_BUCKETS 64

struct tcp_listener {
	const struct tcp_listener_ops *ops;
	struct tcp_config config;
	unsigned backlog; /* bound of pending handshakes */
	/* The owner sets them after tcp_listener_init(), whenever he likes. */
	const uint8_t *cookie_secret; /* 16 bytes: cookies when the backlog is full; NULL: none */
	uint32_t syn_rate;	      /* most new handshakes a second; 0: any number */
	uint8_t syn_ack_retries;      /* 0: the default */
	unsigned defer; /* TCP_DEFER_ACCEPT: data is waited for, so many SYN-ACKs long */

	unsigned pending;
	nsec_t cookies_until; /* one may be out until then */
	nsec_t syn_at;	      /* the next SYN would come then if they came evenly */
	struct list buckets[TCP_SYN_BUCKETS];
	struct list ages;
	nsec_t next; /* no deadline of a handshake is before it */
};

void tcp_listener_init(struct tcp_listener *l, const struct tcp_listener_ops *ops,
		       const struct tcp_config *config, unsigned backlog);
/* Is it of a handshake of this listener? */
bool tcp_listener_knows(struct tcp_listener *l, const struct pkt *pkt);
/* Calls fn for each handshake that is not complete. */
void tcp_listener_each(struct tcp_listener *l,
		       void (*fn)(struct tcp_listener *l, struct tcp_synreq *req));
/* Ends every handshake; their peers are reset. */
void tcp_listener_fini(struct tcp_listener *l);

/*
 * A segment for the listener's address that belongs to no connection: SYN, the
 * ACK of a handshake, or stray.  Consumes pkt when it returns DROP_NONE.
 * Stray segments are answered with RST as RFC 9293 3.10.7.2 says.
 */
enum drop tcp_listener_input(struct tcp_listener *l, struct pkt *pkt, nsec_t now);
nsec_t tcp_listener_deadline(const struct tcp_listener *l);
/* Retransmits SYN-ACK, expires old handshakes. */
void tcp_listener_timer(struct tcp_listener *l, nsec_t now);

/* Turns a completed handshake into a connection in SYN_RECEIVED. */
void tcp_init_passive(struct tcp_conn *conn, const struct tcp_ops *ops,
		      const struct tcp_config *config, const struct tcp_synreq *req, nsec_t now);

/* As ops->send_train(), for an owner who knows no better: piece by piece by ops->send(). */
uint32_t tcp_send_train(struct tcp_conn *conn, const struct tcp_segment *seg, uint32_t mss);

/* Does this segment ask for a new connection? */
bool tcp_opens(const struct pkt *pkt);

/* The RST that answers a segment nobody wants (RFC 9293 3.10.7.1); false: none due. */
bool tcp_reset_for(const struct pkt *pkt, struct tcp_segment *rst);

/*
 * RFC 6528 and RFC 7323 section 5.4.  Of one secret, and with now of the host's monotonic
 * clock, a later connection of the pair begins above an earlier one, whichever process had
 * that: it is not taken for an old duplicate by a peer in TIME_WAIT.
 */
struct tcp_start tcp_start_of(const uint8_t secret[16], const struct endpoint *local,
			      const struct endpoint *remote, nsec_t now);

#endif
