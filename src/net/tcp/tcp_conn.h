/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of a TCP connection: the transmission control block of RFC 9293 section 3.3.1.
 *
 * Role		the engine, called by the holder of the ring.  Upper layers embed it
 *		and access no field.
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

/* The loss recovery state; written by tcp_loss.c. */
enum tcp_recovery {
	TCP_RECOVERY_NONE,
	TCP_RECOVERY_FAST,    /* RFC 6582 and RFC 8985 */
	TCP_RECOVERY_TIMEOUT, /* RFC 5681 section 3.1: all data in flight is lost */
};

/* What expires at rto_at while data is in flight. */
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
	uint8_t dupacks;  /* consecutive; saturates */
	uint8_t retries;  /* timeouts since the last progress */
	uint32_t flags;	  /* CONN_* of tcp_internal.h */
	uint32_t snd_una;
	uint32_t snd_nxt; /* highest sent; never decreases */
	uint32_t snd_wnd; /* in bytes */
	uint32_t snd_wl1;
	uint32_t snd_sml;     /* snd_nxt after the last segment that was sent and was not full */
	uint32_t snd_wnd_max; /* largest window the peer ever offered */
	uint32_t rcv_nxt;
	uint32_t rcv_edge;  /* right edge of the window we offered */
	uint32_t rcv_acked; /* rcv_nxt in the last acknowledgement sent */
	uint16_t mss;	    /* largest payload of a segment, after options */
	uint16_t rcv_mss;   /* estimate of the peer's full segment */
	uint8_t snd_wscale;
	uint8_t rcv_wscale;
	uint8_t quickacks; /* the next ACKs that are not delayed */
	uint8_t sacks;	   /* entries used in rare->sack[] */
	uint32_t recover;  /* snd_nxt when recovery began */
	struct tcp_sndbuf snd;
	int error; /* that ended it, until reported */
	struct tcp_recvq rcv;
	struct tcp_flight *flight; /* NULL: no data is queued or in flight */
	struct tcp_rare *rare;	   /* NULL: not needed so far */
	uint32_t ts_recent;	   /* RFC 7323 section 4.3 */
	uint32_t ts_offset;	   /* offset of our timestamp clock */
	nsec_t ts_recent_at;

	/* timers: NSEC_NEVER when not set */
	nsec_t rto_at;	/* the timer c->timer, or a window probe if nothing is in flight */
	nsec_t ack_at;	/* delayed acknowledgement */
	nsec_t life_at; /* keepalive, FIN_WAIT_2 or TIME_WAIT, by state */
	nsec_t trim_at; /* frees an idle send buffer; or data waits until then */

	/* times of the last events */
	nsec_t rx_at;	    /* a segment arrived */
	nsec_t data_rx_at;  /* data arrived */
	nsec_t tx_at;	    /* data was sent */
	nsec_t progress_at; /* snd_una moved, or the first byte in flight was sent */

	/* round trips and congestion */
	struct rtt rtt;
	bool trouble;	      /* data is lost, SACKed or duplicated: see tcp_loss.c */
	uint8_t timer;	      /* enum tcp_timer: the meaning of rto_at */
	uint8_t probe_credit; /* needless probes of a single segment allowed: tcp_rack.c */
	uint8_t way;	      /* WAY_* of tcp_internal.h */
	struct tcp_cc cc;

	/* for TCP_INFO; the other values are computed */
	uint32_t segs_in, segs_out, data_segs_in, data_segs_out;
	nsec_t busy;		 /* time with queued data; minus its start while some is */
	uint32_t rate;		 /* recent delivery rate, in units of TCP_RATE_UNIT bytes/s */
	uint16_t una_hi, nxt_hi; /* wraps of snd_una past iss, of rcv_nxt past irs */

	/* rarely used */
	uint32_t iss;
	uint32_t irs;
	uint32_t rcvbuf, rcvbuf_max; /* rcvbuf_max: limit of autotuning */
	uint32_t sndbuf, sndbuf_max;
	uint32_t tune_seq;	/* bytes that the program had read */
	uint32_t tune_at;	/* ... when, usec */
	uint32_t rcv_space;	/* bytes read in the round trip before */
	uint32_t rcv_rtt;	/* round trip estimated from received data, usec; 0: unknown */
	uint32_t window_clamp;	/* largest window to offer now; UINT32_MAX: any */
	uint32_t notsent_lowat; /* limit of unsent bytes for POLLOUT; UINT32_MAX: none */
	uint16_t path_mss;	/* largest payload plus options, both directions */
	uint16_t config_mss;	/* announced in our SYN */
	uint32_t user_timeout;	/* msec; 0: none */
	uint32_t retransmits;	/* segments, for tcp_info */
	struct tcp_keepalive keepalive;
	uint16_t agreed_mss;	 /* path_mss as of the handshake; before it, of the configuration */
	uint16_t route_mss;	 /* limit of the route */
	uint16_t hole_mss;	 /* path_mss before a black hole was detected; 0: none */
	int16_t linger2;	 /* seconds in FIN_WAIT_2 after close; -1: none */
	uint16_t undone;	 /* spurious recoveries undone; wraps */
	uint8_t urgent;		 /* state of urgent data: tcp_urgent.c */
	uint8_t limit;		 /* enum tcp_limit: what limits the sender */
	uint8_t probes;		 /* unanswered keepalive or window probes */
	uint8_t syn_retries : 7; /* limit of SYN retransmissions; 0: TCP_SYN_RETRIES */
	uint8_t ip6 : 1;
};

_Static_assert(sizeof(struct tcp_conn) <= 432, "RFC 9293 TCB: many of them are idle");

#endif
