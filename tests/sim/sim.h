/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two TCP engines, a link between them, virtual time, a seed.
 *
 * Role		one test at a time.  Host A opens actively; host B listens, or
 *		opens too.  The engines exchange real frames: a checksum must
 *		detect what the link corrupts.
 * Clock	sim->now; sim_run() advances it from event to event.  It begins at
 *		an odd time, so that 0 never looks like "never".
 * Links	lose frames (single ones, bursts, only acknowledgements), corrupt,
 *		duplicate, delay and reorder them, have a limited rate, set ECN marks,
 *		and change their MTU with and without ICMP.  The trace shows why a
 *		frame is lost.  A peer can be hostile.
 * Family	SIM_FAMILY=6 in the environment: addresses of IPv6, and an MSS of 1440.
 * Replay	all random numbers come from the seed; SIM_TRACE=1 prints every
 *		segment, call and callback.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "net/tcp/tcp.h"
#include "net/tcp/tcp_internal.h"
#include "net/tcp/tcp_timewait.h"

enum { A, B };

#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC
#define SEC NSEC_PER_SEC

/* One direction of the link. Chances are per 1000. */
struct sim_link {
	nsec_t delay;
	nsec_t jitter;		/* random time added to delay: reorders */
	uint64_t bytes_per_sec; /* 0: no limit */
	uint32_t queue;		/* queue of a link with limited rate; 0: no limit */
	unsigned loss, duplicate, corrupt;
	unsigned ack_loss;	   /* chance of losing a segment without data */
	unsigned burst, burst_len; /* chance that a burst of losses begins; its maximum length */
	unsigned overtake;	   /* chance of an additional delay */
	unsigned mark;		   /* chance of ECN congestion experienced */
	uint32_t mtu;		   /* path MTU for IP packets from mtu_from on; 0: no limit */
	nsec_t mtu_from;	   /* since the start of the simulation */
	bool icmp;		   /* a router reports it */
	unsigned shrink;	   /* chance that the offered window is false, and too small */
	unsigned lie;		   /* chance that another field of a segment is false */
};

struct sim_params {
	uint64_t seed;
	struct tcp_config config[2];
	struct sim_link link[2];	  /* [A]: from A */
	unsigned send_fails, alloc_fails; /* chances per 1000 */
	unsigned backlog;
	nsec_t poll_delay; /* delay after which hosts check for arrivals; they then receive bursts */
	bool no_sack;
	bool again;	/* the listener accepts further connections */
	unsigned large; /* chance per 1000 that the port segments a train; the others it refuses */
	bool ip6;
	bool parts; /* the programs' buffers are always in two parts; else most are in one */
	bool wrap;  /* sequence numbers begin shortly before they wrap around */
};

/* Default parameters: an MTU of 1500, 64 KB buffers, timestamps, 5 ms in each direction. */
struct sim_params sim_defaults(void);
/* The MSS for an MTU, by the family of SIM_FAMILY. */
uint16_t sim_mss(uint32_t mtu);

/* A segment as its sender sent it. */
struct sim_segment {
	nsec_t at;
	uint8_t from;
	uint8_t flags;
	bool lost; /* not sent, or lost by the filter */
	uint16_t wnd;
	uint32_t seq; /* relative to the sender's ISS */
	uint32_t ack; /* relative to the receiver's ISS; 0 without ACK */
	uint32_t len;
	uint32_t sacks; /* number of SACK blocks */
};

struct sim;

struct sim_host {
	struct sim *sim;
	struct tcp_conn conn;
	struct tcp_listener listener;
	struct frame_template template;
	struct endpoint self;
	uint8_t secret[16]; /* used after its initial sequence numbers */
	bool listening;
	bool exists;		/* conn was initialised */
	struct tcp_timewait tw; /* replaces conn when it is small */
	bool small;
	bool killed;	  /* segments of the engine are discarded */
	int accept_fails; /* this number of accepts fails */

	/* the events that the engine reported */
	unsigned established, closed, readable, writable;
	int error; /* argument of closed */
	unsigned events[TCP_EVENTS];

	/* the program: a stream whose byte at n is sim_byte(host, n) */
	uint64_t sent, received;
	bool eof;

	nsec_t link_free; /* when the link has sent everything that it was given */
	unsigned burst_left;
	unsigned chains; /* number of bursts for tcp_input_chain() */
	nsec_t poll_at;	 /* next poll, requested by tcp_flush(); NSEC_NEVER */
	nsec_t icmp_at;	 /* when it gets the ICMP message about the path MTU; NSEC_NEVER */
	uint32_t icmp_seq;
	uint32_t edge; /* largest right edge that we offered to the peer */
	bool edge_known;
	uint32_t rcvbuf, limit; /* largest size and limit of its queue so far */
};

#define SIM_LOG 4096

struct sim {
	struct sim_params params;
	uint64_t random;
	nsec_t now;
	struct sim_host host[2];
	bool trace;

	/* Loses a segment if it returns true. */
	bool (*filter)(struct sim *sim, const struct sim_segment *seg);
	int filter_arg; /* for use by the filter */

	struct sim_flight *flight; /* a heap, ordered by time of arrival */
	unsigned in_flight, flight_max;
	uint64_t order;

	unsigned packets, buffers; /* not yet returned */
	struct pkt_pool pool;
	unsigned drops[DROP_COUNT];
	struct sim_segment log[SIM_LOG]; /* the first segments */
	unsigned logged;
	uint64_t segments; /* number of all sent segments */
	uint64_t large;	   /* number of trains that the port segmented */
};

/* Called by tests with the file and line of the failure. */
void sim_fail(const struct sim *sim, const char *text, const char *file, int line)
	__attribute__((noreturn));
#define SIM_CHECK(sim, condition)                                        \
	do {                                                             \
		if (!(condition))                                        \
			sim_fail((sim), #condition, __FILE__, __LINE__); \
	} while (0)

struct sim *sim_create(const struct sim_params *params);
/* Checks that all packets and buffers were returned, and frees sim. */
void sim_destroy(struct sim *sim);

uint32_t sim_random(struct sim *sim, uint32_t below);
bool sim_chance(struct sim *sim, unsigned per_mille);
uint8_t sim_byte(int host, uint64_t n);

/* ---- the world ---- */

void sim_listen(struct sim *sim, int host);
void sim_open(struct sim *sim, int host); /* tcp_connect() */
/* B listens, A connects, both established; the log is empty afterwards. */
void sim_establish(struct sim *sim);
/* The connection continues in other memory, as a copy of its bytes. */
void sim_restore(struct sim *sim, int host);
/* Its process ends without a segment: the host is as at the start, except for its secret. */
void sim_kill(struct sim *sim, int host);
/* Run for this time; run until no event remains. */
void sim_run(struct sim *sim, nsec_t time);
/* Time of the next event; NSEC_NEVER. */
nsec_t sim_next(const struct sim *sim);
/* Runs all events of the next time; false when there is none. */
bool sim_step(struct sim *sim);
/* Delivers a segment to host as from the peer: relative numbers, raw flags. */
void sim_inject(struct sim *sim, int host, const struct tcp_segment *seg);
/* A segment that the peer could send now: its next sequence number, its last ACK. */
struct tcp_segment sim_forge(struct sim *sim, int to, uint8_t flags);

/* ---- the programs ---- */

/* Sends the next n bytes of the stream; the result of tcp_send(). */
ssize_t sim_send(struct sim *sim, int host, uint32_t n, unsigned flags);
/* Reads at most n bytes and compares them; the result of tcp_recv(). */
ssize_t sim_recv(struct sim *sim, int host, uint32_t n);
/* Reads everything; returns the number of bytes. */
uint64_t sim_drain(struct sim *sim, int host);
/* Number of bytes that arrive at B while A writes as much as possible and B reads at once. */
uint64_t sim_pump(struct sim *sim, nsec_t time);
void sim_shutdown(struct sim *sim, int host);
void sim_close(struct sim *sim, int host);
/* Closes both sides after reading, waits until both are CLOSED, destroys. */
void sim_end(struct sim *sim);

static inline enum tcp_state sim_state(const struct sim *sim, int host)
{
	const struct sim_host *h = &sim->host[host];

	if (h->small)
		return tcp_timewait_half(&h->tw) ? TCP_FIN_WAIT_2 : TCP_TIME_WAIT;
	return (enum tcp_state)h->conn.state;
}

/* ---- the log ---- */

void sim_log_clear(struct sim *sim);
/* Number of segments that a host has sent: with data; with all of flags and none of but. */
unsigned sim_count_data(const struct sim *sim, int from);
unsigned sim_count(const struct sim *sim, int from, uint8_t flags);
unsigned sim_count_pure_acks(const struct sim *sim, int from);
/* The last segment of a host; NULL: none. */
const struct sim_segment *sim_last(const struct sim *sim, int from);

#endif
