/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one TCP connection knows: the transmission control block of RFC 9293
 * section 3.3.1.
 *
 * Role		the engine, called by the holder of the ring.  Upper layers
 *		embed it and touch nothing in it.
 * Lifetime	tcp_init() or tcp_init_passive() until ops->closed().
 *
 * Included by net/tcp/tcp.h, after the types it needs.
 */
#ifndef NET_TCP_TCP_CONN_H
#define NET_TCP_TCP_CONN_H

#include "net/tcp/recovery/rtt.h"
#include "net/tcp/recovery/tcp_cc.h"
#include "net/tcp/tcp_options.h"
#include "net/tcp/tcp_recvq.h"
#include "net/tcp/tcp_sndbuf.h"

struct tcp_flight;
struct tcp_rare;

/* What the sender believes of the path; tcp_loss.c writes it. */
enum tcp_recovery {
	TCP_RECOVERY_NONE,
	TCP_RECOVERY_FAST,    /* RFC 6582 and RFC 8985 */
	TCP_RECOVERY_TIMEOUT, /* RFC 5681 section 3.1: all in flight is lost */
};

/* What happens when rto_at comes, with something in flight. */
enum tcp_timer {
	TCP_TIMER_RTO,	   /* RFC 6298 */
	TCP_TIMER_TLP,	   /* RFC 8985 section 7 */
	TCP_TIMER_REORDER, /* RFC 8985 section 6.3 */
};

struct tcp_keepalive {
	bool on;
	uint8_t probes;
	uint16_t idle, interval; /* seconds */
};

struct tcp_conn {
	/* every segment */
	const struct tcp_ops *ops;
	uint8_t state;	  /* enum tcp_state; written by tcp_set_state() only */
	uint8_t recovery; /* enum tcp_recovery */
	uint8_t dupacks;  /* in a row; saturates */
	uint8_t retries;  /* timeouts since the last progress */
	uint32_t flags;	  /* CONN_* of tcp_sock.h */
	uint32_t snd_una;
	uint32_t snd_nxt; /* highest sent; never goes back */
	uint32_t snd_wnd; /* in bytes */
	uint32_t snd_wl1;
	uint32_t snd_wl2;
	uint32_t snd_wnd_max; /* largest window the peer ever offered */
	uint32_t rcv_nxt;
	uint32_t rcv_edge;  /* right edge of the window we offered */
	uint32_t rcv_acked; /* rcv_nxt in the last acknowledgement sent */
	uint16_t mss;	    /* largest payload of a full segment, options deducted */
	uint16_t rcv_mss;   /* estimate of the peer's full segment */
	uint8_t snd_wscale;
	uint8_t rcv_wscale;
	uint8_t quickacks; /* acknowledgements not to be delayed */
	uint8_t sacks;	   /* used of rare->sack[] */
	uint32_t recover;  /* snd_nxt when recovery began */
	struct tcp_sndbuf snd;
	struct tcp_recvq rcv;
	struct tcp_flight *flight; /* NULL: no data is queued or in flight */
	struct tcp_rare *rare;	   /* NULL: nothing of it was needed so far */
	uint32_t ts_recent;	   /* RFC 7323 section 4.3 */
	uint32_t ts_offset;	   /* our clock is shifted by so much */
	nsec_t ts_recent_at;

	/* timers: NSEC_NEVER when not set */
	nsec_t rto_at;	/* what c->timer says, or a probe when nothing is in flight */
	nsec_t ack_at;	/* delayed acknowledgement */
	nsec_t life_at; /* keepalive, FIN_WAIT_2, TIME_WAIT: by state */
	nsec_t trim_at; /* an idle send buffer is given back; or pace_at comes */

	/* when things happened last */
	nsec_t rx_at;	    /* a segment arrived */
	nsec_t data_rx_at;  /* data arrived */
	nsec_t tx_at;	    /* data was sent */
	nsec_t progress_at; /* snd_una moved, or the first byte in flight was sent */

	/* round trips and congestion */
	struct rtt rtt;
	bool trouble;	      /* something is lost, SACKed, duplicated: see tcp_loss.c */
	uint8_t timer;	      /* enum tcp_timer: what rto_at is */
	uint8_t probe_credit; /* probes of a lone segment that may be in vain: tcp_rack.c */
	uint8_t way;	      /* WAY_PACED: rare->pace_rate is set; WAY_HOLE: hole_mss is */
	int error;	      /* what the connection died of, until reported */
	struct tcp_cc cc;

	/* for TCP_INFO; what is not here follows from the rest */
	uint32_t segs_in, segs_out, data_segs_in, data_segs_out;
	nsec_t busy;		 /* how long data was queued; less when it began, while some is */
	uint32_t rate;		 /* delivered lately, in units of TCP_RATE_UNIT bytes a second */
	uint16_t una_hi, nxt_hi; /* how often snd_una passed iss, rcv_nxt irs */

	/* rarely */
	uint32_t iss;
	uint32_t irs;
	uint32_t rcvbuf, rcvbuf_max; /* it may grow so far */
	uint32_t sndbuf, sndbuf_max;
	uint32_t tune_seq;     /* what the program had read */
	uint32_t tune_at;      /* ... when, usec */
	uint32_t rcv_space;    /* what it read in a round trip, before that */
	uint32_t rcv_rtt;      /* round trip as the peer's data tells, usec; 0: unknown */
	uint32_t window_clamp; /* largest window to offer; UINT32_MAX: any */
	uint32_t notsent_lowat; /* the program may queue until so much was not sent; UINT32_MAX: any */
	uint16_t path_mss;	/* largest payload and options together, both sides */
	uint16_t config_mss;	/* largest we can receive, announced in our SYN */
	uint32_t user_timeout; /* msec; 0: none */
	uint32_t retransmits;  /* segments, for tcp_info */
	struct tcp_keepalive keepalive;
	uint16_t agreed_mss; /* path_mss as of the handshake */
	uint16_t route_mss;  /* what the route carries */
	uint16_t hole_mss;   /* path_mss before segments vanished in a black hole; 0: none did */
	int16_t linger2;     /* seconds in FIN_WAIT_2 without a program; -1: none */
	uint16_t undone;     /* recoveries from what was no loss; wraps */
	uint8_t urgent;	     /* what is known of it: tcp_urgent.c */
	uint8_t limit;	     /* enum tcp_limit: what holds us up */
	uint8_t probes;	     /* unanswered, keepalive or window */
	uint8_t syn_retries; /* of a SYN at most; 0: TCP_SYN_RETRIES */
};

_Static_assert(sizeof(struct tcp_conn) <= 440, "RFC 9293 TCB: many of them are idle");

#endif
