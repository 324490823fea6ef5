/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is in flight: which bytes were sent when, which of them the peer has,
 * which are lost.  Runs of bytes of one fate, in order, without gaps; what was
 * sent in one burst is one run.
 *
 * Role		whoever holds the connection.  One per struct tcp_conn.
 * Lifetime	made with the first data to send, from the owner's memory; grows
 *		while there are many runs; given back when the connection is
 *		idle or closed.  Without one nothing but a SYN or a FIN is out.
 * Clock	usec, modulo 2^32: what is older than half an hour is not told
 *		from what is new, and the retransmission timer has long fired.
 */
#ifndef NET_TCP_TCP_FLIGHT_H
#define NET_TCP_TCP_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "net/tcp/recovery/tcp_cc.h"
#include "net/tcp/tcp_options.h"

#define RUN_SACKED 1u
#define RUN_LOST 2u /* and not yet sent again */
#define RUN_RTX 4u  /* was sent more than once */

struct tcp_run {
	uint32_t end;	/* it begins where the one before ends */
	uint32_t first; /* when its first segment was sent, for the last time */
	uint32_t last;	/* ... its last segment */
	uint32_t what;	/* RUN_* */
};

/* A tail loss probe that is out: RFC 8985 section 7. */
enum tcp_tlp { TLP_NONE, TLP_NEW, TLP_RTX };

/* Forward RTO recovery: RFC 5682. */
enum tcp_frto {
	FRTO_OFF,
	FRTO_FIRST,  /* the timer fired; the first ACK will tell */
	FRTO_SECOND, /* new data was sent; so will the second */
};

#define TCP_FLIGHT_RUNS 12	 /* at first */
#define TCP_FLIGHT_RUNS_MAX 3072 /* that, times four, again and again */

struct tcp_flight {
	uint16_t n, max;    /* runs */
	uint32_t start;	    /* where the first run begins: snd_una */
	uint32_t sacked;    /* bytes */
	uint32_t lost;	    /* bytes, not yet sent again */
	uint32_t dup_bytes; /* that duplicate ACKs say have arrived, without SACK */
	/* RACK, RFC 8985 section 5.3 */
	uint32_t rack_at; /* the one sent last of all that were delivered: when, its end */
	uint32_t rack_end;
	uint32_t rack_rtt; /* 0: nothing was delivered yet */
	uint32_t fack;	   /* end of what was delivered */
	uint32_t dsack_round;
	uint32_t reo_wait; /* so long until the next may be lost; 0: it will not be by itself */
	uint8_t reo_mult;
	uint8_t reo_persist;
	bool rack_rtx, reordered, in_dsack_round;
	uint8_t tlp;	/* enum tcp_tlp */
	bool tlp_alone; /* nothing else was in flight */
	uint32_t tlp_end;
	uint32_t tlp_ts; /* the timestamp of the probe */
	/* proportional rate reduction, RFC 6937 */
	uint32_t prr_delivered, prr_out, prr_flight;
	/* what would be restored if nothing was lost */
	bool can_undo, resent;
	uint8_t frto;	   /* enum tcp_frto */
	uint32_t undo_una; /* snd_una when it began */
	uint32_t undo_rtx; /* segments sent again since, that D-SACK did not report */
	uint32_t undo_end; /* what is acknowledged behind it, after recovery, proves nothing */
	uint32_t echo;	   /* the timestamp of the first of them */
	struct tcp_cc before;
	/* rate of delivery: since when and where it is measured, usec until the next; 0: anew */
	uint32_t rate_at, rate_seq, rate_len;
	struct tcp_run r[];
};

/* What one acknowledgement says; begins with what news_of() fills in. */
struct tcp_news {
	uint32_t usec;	    /* now */
	uint32_t min_rtt;   /* usec */
	uint32_t tsecr;	    /* the timestamp it echoes */
	uint32_t echo_age;  /* usec since that was sent; 0: it echoes none */
	uint32_t fack;	    /* before it */
	uint32_t delivered; /* bytes that we did not know the peer has */
	uint32_t sent;	    /* when the latest of them was that was sent once only */
	bool sampled;	    /* is there one? */
	bool advanced;	    /* snd_una moved */
	bool clean;	    /* some were sent once only, before the recovery under way */
	bool reordered;	    /* some had been overtaken */
	bool dsack;	    /* something arrived twice (RFC 2883) */
	bool tlp_dsack;	    /* the end of the tail loss probe did */
	uint32_t recover;
};

struct tcp_conn;

/* False without memory. */
bool tcp_flight_create(struct tcp_conn *c);
void tcp_flight_destroy(struct tcp_conn *c);

/* Makes room for so many more runs, if need be by joining some; false when there is none. */
bool tcp_flight_reserve(struct tcp_conn *c, unsigned more);

/* Everything up to una has arrived; [start, end) has. */
void tcp_flight_acked(struct tcp_flight *f, uint32_t una, struct tcp_news *news);
void tcp_flight_sacked(struct tcp_conn *c, uint32_t start, uint32_t end, struct tcp_news *news);

/* Every run is lost, or that of number i, or what lies below end. */
void tcp_flight_lose(struct tcp_flight *f, unsigned i);
void tcp_flight_lose_all(struct tcp_flight *f);
void tcp_flight_lose_below(struct tcp_conn *c, uint32_t end);
/* Nothing is; nothing was SACKed. */
void tcp_flight_find(struct tcp_flight *f);
void tcp_flight_forget_sacks(struct tcp_flight *f);

/* The first bytes that are lost, and how many; 0: none are. */
uint32_t tcp_flight_next_lost(const struct tcp_flight *f, uint32_t *start);

/* [start, end), where start came from next_lost(), was sent again. */
void tcp_flight_resent(struct tcp_conn *c, uint32_t start, uint32_t end, uint32_t usec);
/* Everything from start on was: a probe. */
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
 * New data up to end; what was sent within grain usec becomes one run.  Room for
 * a run has been reserved: tcp_flight_reserve().
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
