/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes in flight: when they were sent, which of them the peer has, and which are lost.  A
 * list of runs in order, without gaps.  The bytes of a run share one state; those sent in one
 * burst form one run.
 *
 * Role		whoever holds the connection.  One per struct tcp_conn.
 * Lifetime	created with the first data to send, from the owner's memory; grows
 *		with the number of runs; freed when the connection is idle or
 *		closed.  Without it only a SYN or a FIN may be in flight.
 * Clock	usec, modulo 2^32.  Ages above half an hour are ambiguous, but the
 *		retransmission timer expires long before that.
 */
#ifndef NET_TCP_TCP_FLIGHT_H
#define NET_TCP_TCP_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "net/tcp/recovery/tcp_cc.h"
#include "net/tcp/tcp_options.h"

#define RUN_SACKED 1u
#define RUN_LOST 2u /* lost and not yet retransmitted */
#define RUN_RTX 4u  /* was retransmitted */

struct tcp_run {
	uint32_t end;	/* starts at the end of the previous run */
	uint32_t first; /* latest send time of its first segment */
	uint32_t last;	/* latest send time of its last segment */
	uint32_t what;	/* RUN_* */
};

/* The tail loss probe in flight: RFC 8985 section 7. */
enum tcp_tlp { TLP_NONE, TLP_NEW, TLP_RTX };

/* Forward RTO recovery: RFC 5682. */
enum tcp_frto {
	FRTO_OFF,
	FRTO_FIRST,  /* the timer expired; the first ACK decides */
	FRTO_SECOND, /* new data was sent; the second ACK decides */
};

#define TCP_FLIGHT_RUNS 12	 /* initial */
#define TCP_FLIGHT_RUNS_MAX 3072 /* TCP_FLIGHT_RUNS times a power of four */

struct tcp_flight {
	uint16_t n, max;    /* runs */
	uint32_t start;	    /* start of the first run */
	uint32_t sacked;    /* bytes */
	uint32_t lost;	    /* bytes lost and not yet retransmitted */
	uint32_t dup_bytes; /* bytes that duplicate ACKs report as received, without SACK */
	/* RACK, RFC 8985 section 5.3 */
	uint32_t rack_at; /* the delivered segment that was sent last: send time, end */
	uint32_t rack_end;
	uint32_t rack_rtt; /* 0: nothing delivered yet */
	uint32_t fack;	   /* end of the highest data delivered */
	uint32_t dsack_round;
	uint32_t reo_wait; /* time until the next run may be lost; 0: no timer */
	uint8_t reo_mult;
	uint8_t reo_persist;
	bool rack_rtx, reordered, in_dsack_round;
	uint8_t tlp;	/* enum tcp_tlp */
	bool tlp_alone; /* the probed segment was the only one in flight */
	uint32_t tlp_end;
	uint32_t tlp_ts; /* the timestamp of the probe */
	/* proportional rate reduction, RFC 6937 */
	uint32_t prr_delivered, prr_out, prr_flight;
	/* restored if the recovery was spurious */
	bool can_undo, resent;
	uint8_t frto;	   /* enum tcp_frto */
	uint32_t undo_una; /* snd_una when the recovery began */
	uint32_t undo_rtx; /* segments retransmitted since, without those D-SACK reported */
	uint32_t undo_end; /* after recovery, acknowledgements beyond it prove nothing */
	uint32_t echo;	   /* timestamp of the first retransmission */
	struct tcp_cc before;
	/* delivery rate: start time, start sequence, duration in usec; 0: start anew */
	uint32_t rate_at, rate_seq, rate_len;
	struct tcp_run r[];
};

/* The information in one acknowledgement; news_of() fills in the first fields. */
struct tcp_news {
	uint32_t usec;	    /* now */
	uint32_t min_rtt;   /* usec */
	uint32_t tsecr;	    /* the echoed timestamp */
	uint32_t echo_age;  /* usec since it was sent; 0: none echoed */
	uint32_t fack;	    /* the forward acknowledgement before this ACK */
	uint32_t delivered; /* bytes newly known to be delivered */
	uint32_t sent;	    /* latest send time of these, never retransmitted */
	bool sampled;	    /* `sent` is valid */
	bool advanced;	    /* snd_una moved */
	bool clean;	    /* some bytes were sent only once, before the current recovery */
	bool reordered;	    /* some bytes arrived out of order */
	bool dsack;	    /* the peer received duplicates (RFC 2883) */
	bool tlp_dsack;	    /* the tail loss probe was a duplicate */
	uint32_t recover;
};

struct tcp_conn;

/* False without memory. */
bool tcp_flight_create(struct tcp_conn *c);
void tcp_flight_destroy(struct tcp_conn *c);

/* Makes room for this many more runs, and joins runs if necessary; false if there is no room. */
bool tcp_flight_reserve(struct tcp_conn *c, unsigned more);

/* The peer has everything up to una, or [start, end). */
void tcp_flight_acked(struct tcp_flight *f, uint32_t una, struct tcp_news *news);
void tcp_flight_sacked(struct tcp_conn *c, uint32_t start, uint32_t end, struct tcp_news *news);

/* Mark as lost: run number i, all runs, or the bytes below end. */
void tcp_flight_lose(struct tcp_flight *f, unsigned i);
void tcp_flight_lose_all(struct tcp_flight *f);
void tcp_flight_lose_below(struct tcp_conn *c, uint32_t end);
/* Clear the lost marks; clear the SACKed marks. */
void tcp_flight_find(struct tcp_flight *f);
void tcp_flight_forget_sacks(struct tcp_flight *f);

/* The start and number of the first lost bytes; 0 if there are none. */
uint32_t tcp_flight_next_lost(const struct tcp_flight *f, uint32_t *start);

/* [start, end) was retransmitted; start comes from tcp_flight_next_lost(). */
void tcp_flight_resent(struct tcp_conn *c, uint32_t start, uint32_t end, uint32_t usec);
/* The bytes from start on were retransmitted as a probe. */
void tcp_flight_resent_tail(struct tcp_conn *c, uint32_t start, uint32_t usec);

static inline uint32_t tcp_run_start(const struct tcp_flight *f, unsigned i)
{
	return i ? f->r[i - 1].end : f->start;
}

static inline uint32_t tcp_run_size(const struct tcp_flight *f, unsigned i)
{
	return f->r[i].end - tcp_run_start(f, i);
}

/*
 * New data up to end was sent. Data sent within grain usec becomes one run. tcp_flight_reserve()
 * has reserved room for a run.
 */
static inline void tcp_flight_sent(struct tcp_flight *f, uint32_t end, uint32_t usec,
				   uint32_t grain)
{
	struct tcp_run *r = &f->r[f->n];

	if (f->n && r[-1].what == 0 && usec - r[-1].first <= grain) {
		r[-1].end = end;
		r[-1].last = usec;
		return;
	}
	*r = (struct tcp_run){.end = end, .first = usec, .last = usec};
	f->n++;
}

#endif
