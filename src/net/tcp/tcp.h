/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP, RFC 9293: a connection, and a listener.
 *
 * Role		pure: a function of (state, segment, now, sink).  No system call, no
 *		clock, no allocation of its own, no globals but tcp_settings.  Called by the holder
 *		of the ring that owns the connection; in tests by a simulator.
 * Lifetime	struct tcp_conn is embedded in its owner.  When ops->closed() is
 *		called the protocol is finished: the send buffer and out-of-order
 *		data are freed, no timer is set, nothing is sent.  Received data
 *		stays readable, as on Linux, until tcp_close() or tcp_abort(), which
 *		free it and do nothing else then.  One of the two must be called in
 *		any case, because it frees struct tcp_rare.  After that, and after
 *		the function that called ops->closed() has returned, the owner may
 *		free the memory.
 * Clock	callers pass now.
 * Re-entry	callbacks must not call the engine for the same connection; they record
 *		what happened and act afterwards.
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
#include "net/route_metrics.h"

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

/* What happens to a connection, for a record that its owner keeps. */
enum tcp_event {
	TCP_EVENT_STATE,      /* argument: former state << 8 | new state */
	TCP_EVENT_RETRANSMIT, /* bytes; one event for each segment that tcpi_total_retrans counts */
	TCP_EVENT_TIMEOUT,    /* the next retransmission timeout, msec */
	TCP_EVENT_TAIL_PROBE, /* RFC 8985 section 7 */
	TCP_EVENT_RECOVERY,   /* fast recovery begins: bytes in flight */
	TCP_EVENT_RECOVERED,  /* all that was in flight at its begin is acknowledged */
	TCP_EVENT_SPURIOUS,   /* a recovery was needless and is undone */
	TCP_EVENT_WINDOW_CLOSED, /* data waits for the peer's window, which is 0 */
	TCP_EVENT_WINDOW_OPEN,	 /* the window, bytes */
	TCP_EVENT_PROBE,	 /* of a closed window, or keepalive: how many were not answered */
	TCP_EVENT_RESET,	 /* RST sent */
	TCP_EVENTS
};

/* The functions that a connection calls in its owner. All are required. */
struct tcp_ops {
	void *(*alloc)(size_t size); /* send buffers; NULL without memory */
	/*
	 * The connection is CLOSED: error is 0 after an orderly close, else ECONNREFUSED,
	 * ECONNRESET, ETIMEDOUT... Called once, as the last callback.
	 */
	void (*closed)(struct tcp_conn *conn, int error);
	void (*established)(struct tcp_conn *conn); /* once */
	/* For a record only: must not change anything.  Rare; not called for plain segments. */
	void (*event)(struct tcp_conn *conn, enum tcp_event event, uint32_t argument);
	void (*free)(void *buffer);
	void (*readable)(struct tcp_conn *conn); /* new data in order, or the peer's FIN */
	/*
	 * Sends a segment now; copies the payload before it returns. Non-zero if it could not be
	 * sent (no buffer): the engine then treats it as lost on the wire and ends the burst.
	 */
	int (*send)(struct tcp_conn *conn, const struct tcp_segment *seg);
	/*
	 * Sends a segment of more than mss bytes in segments of mss bytes, of which the last may be
	 * smaller; see frame_train_begin() and tcp_send_train(). Returns the number of bytes sent,
	 * perhaps fewer, in whole segments.
	 */
	uint32_t (*send_train)(struct tcp_conn *conn, const struct tcp_segment *seg, uint32_t mss);
	/* The peer announced urgent data, or it arrived: see tcp_recv_urgent(). */
	void (*urgent)(struct tcp_conn *conn);
	void (*writable)(struct tcp_conn *conn); /* a full send buffer has room again */
};

/* RFC 3168; values of net.ipv4.tcp_ecn. */
enum tcp_ecn { TCP_ECN_NONE, TCP_ECN_ASK, TCP_ECN_ANSWER };

struct tcp_config {
	uint16_t mss;	     /* largest payload we can receive and send: MTU - 40; ip6: - 60 */
	uint16_t advmss;     /* what we announce instead; 0: mss */
	uint16_t route_mss;  /* largest payload on the first route, see tcp_path_mtu(); 0: mss */
	uint32_t rcvbuf;     /* initial receive buffer, bytes */
	uint32_t rcvbuf_max; /* limit of autotuning; less than rcvbuf: none */
	uint32_t sndbuf;     /* initial send buffer, bytes */
	uint32_t sndbuf_max;
	bool nodelay;
	bool timestamps;       /* offer RFC 7323 timestamps */
	bool quickack;	       /* acknowledge at every tcp_flush() */
	uint8_t ecn;	       /* enum tcp_ecn */
	uint8_t cc_algo;       /* congestion control: tcp_cc_by_number() */
	bool ip6;	       /* the connection is over IPv6 */
	uint32_t window_clamp; /* largest window to offer; 0: that of the route */
	/* Of the first route; the owner applies advmss, cc, and ecn. */
	struct route_metrics route;
};

/*
 * The host's settings: net.ipv4.tcp_* (ip-sysctl.rst of the kernel). At first they are the kernel's
 * defaults. Global to the process; written before the first connection, by one thread.
 */
struct tcp_settings {
	uint8_t orphan_retries; /* of data, FIN or window probe after close(); 0: TCP_ORPHAN_RETRIES */
	uint8_t retries2;	/* of data; probes of a closed window */
	uint8_t syn_retries;	/* without TCP_SYNCNT */
	uint8_t syn_ack_retries;
	uint8_t syn_linear; /* as many SYNs more are sent at first, without backoff */
	bool sack, window_scaling;
	bool restart_after_idle; /* tcp_slow_start_after_idle */
	nsec_t min_rto;		 /* without that of a route; RTT_LEAST_MIN_RTO at least */
};
extern struct tcp_settings tcp_settings;

/* The fields are private to the engine; upper layers use the functions below. */
#include "net/tcp/tcp_conn.h"

/* ---- a connection ---------------------------------------------------------- */

/* The connection starts in CLOSED. config is copied. */
void tcp_init(struct tcp_conn *conn, const struct tcp_ops *ops, const struct tcp_config *config);

/* The initial numbers of a connection; see tcp_start_of(). */
struct tcp_start {
	uint32_t iss;	    /* initial sequence number */
	uint32_t ts_offset; /* offset of our timestamp clock */
};

/* Active open: sends SYN. */
int tcp_connect(struct tcp_conn *conn, struct tcp_start start, nsec_t now);

/*
 * Processes a parsed segment of this connection (pkt->seq, tcp_flags, off, len) as RFC 9293 section
 * 3.10.7 says. Consumes it unless it returns a drop reason; then the caller frees and counts it.
 * DROP_NO_FLOW: this SYN ended TIME_WAIT and begins a new connection; pass it to a listener.
 */
enum drop tcp_input(struct tcp_conn *conn, struct pkt *pkt, nsec_t now);

/*
 * Processes the segments of one burst, linked by next in order of arrival (receive offload). True:
 * they were plain in-sequence data and are consumed, at about the cost of one. False: nothing
 * changed; pass them to tcp_input() one by one.
 */
bool tcp_input_chain(struct tcp_conn *conn, struct pkt *first, nsec_t now);

/*
 * Call after a burst of tcp_input() or tcp_recv() calls: sends what is due now (data,
 * acknowledgements, window updates). Cheap if nothing is due. True: an acknowledgement is delayed
 * in the hope of more segments. Then poll the ring once and call tcp_flush() again, whether
 * segments arrived or not; or call tcp_acknowledge() if no thread will poll.
 */
bool tcp_flush(struct tcp_conn *conn, nsec_t now);
/*
 * False: tcp_flush() would do nothing and return false. In most states it says true, whatever is due.
 * The answer after the last segment of a burst is that for the burst.
 */
bool tcp_is_due(const struct tcp_conn *conn);
/* Sends an owed acknowledgement without further delay. */
void tcp_acknowledge(struct tcp_conn *conn, nsec_t now);

/* The values of the socket API. */
#define TCP_SEND_OOB 1u	      /* MSG_OOB: the last byte is urgent data */
#define TCP_SEND_EOR 0x80u    /* MSG_EOR: the last byte ends its segment, as far as TCP_EORS goes */
#define TCP_SEND_MORE 0x8000u /* MSG_MORE: more data follows, hold back a partial segment */

/*
 * Queues data and sends what Nagle, congestion control and the peer's window allow. Returns the
 * bytes queued (perhaps fewer than given), or -EAGAIN (buffer full or not yet connected), -EPIPE
 * (shut down), -ENOTCONN, or the error that ended the connection (reported once).
 */
ssize_t tcp_send(struct tcp_conn *conn, const struct iovec *iov, int iovcnt, unsigned flags,
		 nsec_t now);

/*
 * tcp_send() in two parts, for an owner that sends the segment itself, and wants to have sent it before
 * the rest is recorded: a few bytes without flags, while nothing is queued. True: *seg has them, until
 * tcp_quick_sent(), which is due as soon as it was sent: no other function may be called before. False,
 * or if it is not sent: nothing has changed, tcp_send() does it.
 */
bool tcp_quick_begin(struct tcp_conn *conn, const void *buf, size_t len, struct tcp_segment *seg,
		     nsec_t now);
void tcp_quick_sent(struct tcp_conn *conn, uint32_t len, nsec_t now);

/*
 * As tcp_send(), and then everything is as before. ops: instead of the owner's; alloc and free must
 * be the owner's, the others must not do anything that cannot be undone: send() builds a frame and
 * frees it. Also: -EMSGSIZE: more than one segment; -EAGAIN: data is queued or in flight.
 */
ssize_t tcp_send_dummy(struct tcp_conn *conn, const struct tcp_ops *ops, const struct iovec *iov,
		       int iovcnt, nsec_t now);

/* Bytes of the header of the next segment, with the options that each has. */
uint32_t tcp_header_len(const struct tcp_conn *conn);

/*
 * Copies in-order data to iov and consumes it, or with peek leaves it. Returns the bytes copied; 0
 * at the end of the stream; -EAGAIN if nothing has arrived; -ENOTCONN; or the error that ended the
 * connection (reported once, after the data). May send a window update.
 */
ssize_t tcp_recv(struct tcp_conn *conn, const struct iovec *iov, int iovcnt, bool peek, nsec_t now);

/*
 * Reading without a copy. tcp_recv_first(): *pkt is the packet with the next bytes (pkt_payload(),
 * len), which stays where it is; returns their number, or as tcp_recv(), and what fails is not
 * reported by the next call; -ENOBUFS: no memory, or the packets that were taken and not returned
 * occupy as much as the receive buffer allows for unread ones; -EOPNOTSUPP: there is urgent data,
 * call tcp_recv(). If it returned a packet, tcp_recv_take() removes it: it is the caller's, who
 * calls tcp_recv_returned() with the result before or after freeing it, unless the connection has
 * ended meanwhile. tcp_recv_take() may send a window update.
 */
ssize_t tcp_recv_first(struct tcp_conn *conn, struct pkt **pkt);
uint32_t tcp_recv_take(struct tcp_conn *conn, nsec_t now);
void tcp_recv_returned(struct tcp_conn *conn, uint32_t size);
/*
 * The same for a caller that does not know yet whether it keeps the packets: tcp_recv_borrow() as
 * tcp_recv_take(), but they do not count as read.  tcp_recv_put_back(): the packet is the first one
 * of the queue again; the last one that was borrowed is put back first.  Then
 * tcp_recv_borrowed_done(): the others count as read; may send a window update.
 */
void tcp_recv_borrow(struct tcp_conn *conn);
void tcp_recv_put_back(struct tcp_conn *conn, struct pkt *pkt);
void tcp_recv_borrowed_done(struct tcp_conn *conn, nsec_t now);

/*
 * SO_PEEK_OFF: the next tcp_peek() begins offset bytes after the last byte read, and each further
 * one where the previous one ended. Negative: turns this off. 0 or -ENOMEM.
 */
int tcp_set_peek_offset(struct tcp_conn *conn, int offset);
/* The current peek offset, or -1. */
int tcp_peek_offset(const struct tcp_conn *conn);
/*
 * As tcp_recv() with peek, from the peek offset if there is one; at most most bytes. iov NULL:
 * copies nothing.
 */
ssize_t tcp_peek(struct tcp_conn *conn, const struct iovec *iov, int iovcnt, uint32_t most);

/*
 * Reads urgent data as Linux does: one byte, out of band unless SO_OOBINLINE is set. Returns 1;
 * -EINVAL (none, already read, or inline); -EAGAIN (announced, not received); 0 (it will not
 * arrive). tcp_recv() stops before this byte and continues after it.
 */
int tcp_recv_urgent(struct tcp_conn *conn, uint8_t *byte, bool peek);
bool tcp_urgent_here(const struct tcp_conn *conn); /* POLLPRI */
bool tcp_at_mark(const struct tcp_conn *conn);	   /* SIOCATMARK */
void tcp_set_oobinline(struct tcp_conn *conn, bool on);

/* The number of bytes that tcp_recv() would return. */
uint32_t tcp_readable_bytes(const struct tcp_conn *conn);
/* TCP_INQ: bytes received and not read; the end of the stream counts as one. */
uint32_t tcp_unread(const struct tcp_conn *conn);
/* The number of bytes that tcp_send() would accept. */
uint32_t tcp_writable_bytes(const struct tcp_conn *conn);
/* True if the send buffer is so full that ops->writable() will report room. */
bool tcp_is_full(const struct tcp_conn *conn);
/* POLLOUT as on Linux: enough room, and not too much unsent data. */
bool tcp_is_writable(const struct tcp_conn *conn);
/* Bytes sent or queued and not acknowledged (SIOCOUTQ). */
uint32_t tcp_unacked_bytes(const struct tcp_conn *conn);

/*
 * Sends FIN after the queued data. 0 or -ENOTCONN. In SYN_SENT it aborts the connection:
 * ops->closed(ECONNRESET).
 */
int tcp_shutdown(struct tcp_conn *conn, nsec_t now);

/*
 * The program is likely to close the connection right after it sends its first data. Data that fits
 * into one segment then waits for the FIN, so that one segment has both and our side closes first;
 * at the latest until the next tcp_timer(), which is due at once, or the next tcp_send().
 */
void tcp_expect_fin(struct tcp_conn *conn);
/* Data waits for the FIN. */
bool tcp_awaits_fin(const struct tcp_conn *conn);
/* If the connection is closed now, would data have had to wait?  now: of the last tcp_send(). */
bool tcp_fin_follows(const struct tcp_conn *conn, nsec_t now);

/*
 * SHUT_RD as on Linux: a read without data returns the end of the stream, and data that arrives can
 * still be read. Data is refused with RST only after our side has also sent FIN.
 */
void tcp_shutdown_read(struct tcp_conn *conn);

/*
 * The program closed the socket: sends FIN, or RST if data was left unread (RFC 2525 2.17). The
 * connection exists until ops->closed().
 */
void tcp_close(struct tcp_conn *conn, nsec_t now);

/* Sends RST, then calls ops->closed(error). */
void tcp_abort(struct tcp_conn *conn, int error, nsec_t now);

/*
 * The process exits and cannot process the answer to its SYN. In SYN_SENT sends RST in case the
 * peer has answered; does nothing in other states.
 */
void tcp_reset_syn(struct tcp_conn *conn, nsec_t now);

/* The network reports the peer unreachable; fatal only during connection setup. */
void tcp_unreachable(struct tcp_conn *conn, int error, nsec_t now);

/*
 * Sets the path MTU, the largest IP packet in bytes. For a value from an ICMP message first ask
 * tcp_icmp_is_ours() with the sequence number that it quotes (RFC 5927 section 4.1). A value from a
 * new route may also raise the MTU.
 */
void tcp_path_mtu(struct tcp_conn *conn, uint32_t mtu, nsec_t now);
/*
 * There is another route to the peer. What struct route_metrics has for the beginning of a connection
 * stays as it was. Before the connection has sent data, it begins with the route's initcwnd. -ENOMEM:
 * what held before holds.
 */
int tcp_set_route(struct tcp_conn *conn, const struct route_metrics *metrics);
/*
 * The peer has a route again after a time in which all segments were lost: retransmits now and not
 * at the next timeout.
 */
void tcp_route_found(struct tcp_conn *conn, nsec_t now);
bool tcp_icmp_is_ours(const struct tcp_conn *conn, uint32_t seq);

/*
 * The error that ended the connection, which tcp_send() or tcp_recv() would report; 0 if there is
 * none or it was reported. This call counts as the report.
 */
int tcp_take_error(struct tcp_conn *conn);

/* The time at which tcp_timer() must be called at the latest, or NSEC_NEVER. */
static inline nsec_t tcp_deadline(const struct tcp_conn *conn)
{
	nsec_t a = conn->rto_at < conn->ack_at ? conn->rto_at : conn->ack_at;
	nsec_t b = conn->life_at < conn->trim_at ? conn->life_at : conn->trim_at;

	return a < b ? a : b;
}
/* Runs every timer that is due; does nothing when called early. */
void tcp_timer(struct tcp_conn *conn, nsec_t now);

/* Options. Those with now may send at once, such as data that Nagle held back. */
void tcp_set_nodelay(struct tcp_conn *conn, bool on, nsec_t now);
void tcp_set_cork(struct tcp_conn *conn, bool on, nsec_t now);
void tcp_set_quickack(struct tcp_conn *conn, bool on, nsec_t now);
/* The program sets the size, which turns autotuning off. */
void tcp_set_rcvbuf(struct tcp_conn *conn, uint32_t bytes);
void tcp_set_sndbuf(struct tcp_conn *conn, uint32_t bytes);
void tcp_set_keepalive(struct tcp_conn *conn, const struct tcp_keepalive *keepalive, nsec_t now);
void tcp_set_user_timeout(struct tcp_conn *conn, nsec_t timeout); /* 0: none */
void tcp_set_syn_retries(struct tcp_conn *conn, uint8_t retries); /* 0: the default */
/* TCP_LINGER2: seconds in FIN_WAIT_2 after the program closed the socket; -1: no wait, reset. */
void tcp_set_linger2(struct tcp_conn *conn, int seconds);
/* TCP_NOTSENT_LOWAT: limit of unsent bytes; 0: no limit. */
void tcp_set_notsent_lowat(struct tcp_conn *conn, uint32_t bytes);
/* TCP_WINDOW_CLAMP; 0: that of the route. Does not shrink the window already offered. */
void tcp_set_window_clamp(struct tcp_conn *conn, uint32_t bytes);
/* The largest window that can be offered, now or after autotuning. */
uint32_t tcp_window_max(const struct tcp_conn *conn);
/* TCP_MAXSEG: the current payload size of a full segment. */
uint32_t tcp_maxseg(const struct tcp_conn *conn);
/* SO_MAX_PACING_RATE: bytes per second, 0: no pacing; burst as in net/pace.h. */
void tcp_set_pacing(struct tcp_conn *conn, uint64_t rate, uint32_t burst, nsec_t now);
void tcp_set_congestion(struct tcp_conn *conn, int number); /* tcp_cc_by_number() */
const char *tcp_congestion(const struct tcp_conn *conn);    /* its name */
/* The route forbids another one. */
bool tcp_congestion_is_locked(const struct tcp_conn *conn);

/*
 * Fills struct tcp_info of <linux/tcp.h>. Segments in flight are bytes divided by the segment size;
 * tcpi_delivery_rate is that of the last round trip with ten segments or more. These are unknown
 * and 0: fackets, last_ack_sent, TCPI_OPT_ECN_SEEN, whether the rate was limited by the program;
 * reordering is RACK's initial value.
 */
struct tcp_info;
void tcp_get_info(const struct tcp_conn *conn, struct tcp_info *info, nsec_t now);

/* ---- a listener ------------------------------------------------------------- */

struct tcp_listener;
struct tcp_synreq;

struct tcp_listener_ops {
	/*
	 * A handshake is complete. The owner creates a connection with tcp_init_passive(conn, ops,
	 * config, req) and then passes pkt (the ACK, perhaps with data) to tcp_input(); the
	 * listener frees req after this returns. Consumes pkt if it returns 0; otherwise (no
	 * memory, accept queue full) the peer must retransmit.
	 */
	int (*accept)(struct tcp_listener *l, const struct tcp_synreq *req, struct pkt *pkt,
		      nsec_t now);
	void *(*alloc)(size_t size);
	/* A handshake begins; its SYN-ACK is not sent yet. May be NULL. */
	void (*began)(struct tcp_listener *l, struct tcp_synreq *req);
	/*
	 * *config is that of the listener; changes it to that of connections between these
	 * endpoints. May be NULL.
	 */
	void (*configure)(struct tcp_listener *l, const struct endpoint *local,
			  const struct endpoint *remote, struct tcp_config *config);
	/* A handshake ends, with or without success; req is freed next. May be NULL. */
	void (*ended)(struct tcp_listener *l, struct tcp_synreq *req);
	void (*free)(void *ptr);
	/* True if the accept queue has room; otherwise SYNs are dropped. NULL: always. */
	bool (*has_room)(struct tcp_listener *l);
	/* True if another handshake may begin, by tcp_syn_in_rate(). NULL: always. */
	bool (*in_rate)(struct tcp_listener *l, nsec_t now);
	/*
	 * A segment other than SYN that belongs to no handshake.  True: somebody else has got it and
	 * answers it; pkt is theirs.  NULL: never.
	 */
	bool (*pass)(struct tcp_listener *l, struct pkt *pkt);
	/* Sends a segment to the remote endpoint; addresses as seen locally. */
	int (*send)(struct tcp_listener *l, const struct endpoint *local,
		    const struct endpoint *remote, const struct tcp_segment *seg);
	/* The initial numbers for this pair of endpoints: tcp_start_of(). */
	struct tcp_start (*start)(struct tcp_listener *l, const struct endpoint *local,
				  const struct endpoint *remote, nsec_t now);
};

/*
 * An incomplete handshake: all the memory that a SYN costs. About 128 bytes. In a hash table of the
 * listener, by the pair of endpoints.
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
	uint8_t wscale;	    /* ours, as offered */
	uint16_t wnd;	    /* ours, as offered */
	uint16_t mss;	    /* ours, as announced */
	uint8_t retries;
	bool timestamps : 1;
	bool sack : 1;
	bool ecn : 1;
	bool acked : 1;	   /* complete, but waiting for data (TCP_DEFER_ACCEPT) */
	bool expected : 1; /* for the owner, initially false: its frames are steered separately */
	uint32_t ts_recent;
	uint32_t ts_offset;
	nsec_t created; /* NSEC_NEVER: unknown, made from a cookie */
	nsec_t deadline;
};

_Static_assert(sizeof(struct tcp_synreq) <= 128, "all that is spent on a SYN");

#define TCP_SYN_BUCKETS 64

struct tcp_listener {
	const struct tcp_listener_ops *ops;
	struct tcp_config config;
	unsigned backlog; /* limit of pending handshakes */
	/* The owner may set these at any time after tcp_listener_init(). */
	const uint8_t
		*cookie_secret;	 /* 16 bytes: send cookies when the backlog is full; NULL: never */
	uint8_t syn_ack_retries; /* 0: the default */
	unsigned defer;		 /* TCP_DEFER_ACCEPT: wait for data for this many SYN-ACKs */

	unsigned pending;
	nsec_t cookies_until; /* a cookie may be valid until then */
	struct list buckets[TCP_SYN_BUCKETS];
	struct list ages;
	nsec_t next; /* no handshake has an earlier deadline */
};

/*
 * Limits new handshakes to `rate` per second. *syn_at is the caller's, 0 at first: the earliest time
 * of the next one at an even rate. True, and *syn_at has advanced, if one may begin now: a steady
 * flow at the rate may, and a short burst.
 */
bool tcp_syn_in_rate(nsec_t *syn_at, uint32_t rate, nsec_t now);

void tcp_listener_init(struct tcp_listener *l, const struct tcp_listener_ops *ops,
		       const struct tcp_config *config, unsigned backlog);
/* True if pkt belongs to a handshake of this listener. */
bool tcp_listener_knows(struct tcp_listener *l, const struct pkt *pkt);
/* Calls fn for each incomplete handshake. */
void tcp_listener_each(struct tcp_listener *l,
		       void (*fn)(struct tcp_listener *l, struct tcp_synreq *req));
/* Ends every handshake and resets the peers. */
void tcp_listener_fini(struct tcp_listener *l);

/*
 * Processes a segment for the listener's address that belongs to no connection: a SYN, the ACK of a
 * handshake, or a stray segment. Consumes pkt if it returns DROP_NONE. Stray segments are answered
 * with RST as RFC 9293 3.10.7.2 says.
 */
enum drop tcp_listener_input(struct tcp_listener *l, struct pkt *pkt, nsec_t now);
nsec_t tcp_listener_deadline(const struct tcp_listener *l);
/* Retransmits SYN-ACKs and expires old handshakes. */
void tcp_listener_timer(struct tcp_listener *l, nsec_t now);

/* Creates a connection in SYN_RECEIVED from a completed handshake. */
void tcp_init_passive(struct tcp_conn *conn, const struct tcp_ops *ops,
		      const struct tcp_config *config, const struct tcp_synreq *req, nsec_t now);

/* A default for ops->send_train(): calls ops->send() for each segment. */
uint32_t tcp_send_train(struct tcp_conn *conn, const struct tcp_segment *seg, uint32_t mss);

/* True if this segment asks for a new connection. */
bool tcp_opens(const struct pkt *pkt);

/* Builds the RST for a segment without a connection (RFC 9293 3.10.7.1); false if none is due. */
bool tcp_reset_for(const struct pkt *pkt, struct tcp_segment *rst);

/*
 * Initial numbers as in RFC 6528 and RFC 7323 section 5.4. With the same secret, and with now from
 * the host's monotonic clock, a later connection of the same pair starts above an earlier one, in
 * any process. A peer in TIME_WAIT therefore does not take it for an old duplicate.
 */
struct tcp_start tcp_start_of(const uint8_t secret[16], const struct endpoint *local,
			      const struct endpoint *remote, nsec_t now);

#endif
