/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two TCP engines, a link between them, virtual time, a seed.
 *
 * Role		one test at a time.  Host A opens actively; host B listens, or
 *		opens too.  Real frames travel: what the link corrupts, the
 *		checksum has to find.
 * Clock	sim->now, moved by sim_run() from event to event.  It begins at
 *		an odd time, so that nobody takes 0 for "never".
 * Links	lose (one by one, in bursts, acknowledgements only), damage,
 *		duplicate, delay, reorder, are narrow, mark, change their MTU
 *		with and without telling; what is lost says so in the trace.
 *		Peers lie.
 * Replay	everything random comes from the seed; SIM_TRACE=1 prints every
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

/* One direction of the link.  Chances are of 1000. */
struct sim_link {
	nsec_t delay;
	nsec_t jitter;		/* added to delay, at random: reorders */
	uint64_t bytes_per_sec; /* 0: no limit */
	uint32_t queue;		/* bytes that wait for a limited link; 0: no limit */
	unsigned loss, duplicate, corrupt;
	unsigned ack_loss;	   /* of segments without data */
	unsigned burst, burst_len; /* chance that one begins; at most so many are lost in it */
	unsigned overtake;	   /* chance to be late by as much as the delay */
	unsigned mark;		   /* chance of congestion experienced, with ECN */
	uint32_t mtu;		   /* of the path, IP packets, from mtu_from on; 0: no limit */
	nsec_t mtu_from;	   /* since the beginning */
	bool icmp;		   /* a router tells of it */
	unsigned shrink; /* chance that the window that is offered is a lie, and too small */
	unsigned lie;	 /* chance that something else of a segment is */
};

struct sim_params {
	uint64_t seed;
	struct tcp_config config[2];
	struct sim_link link[2];	  /* [A]: what A sends */
	unsigned send_fails, alloc_fails; /* chances of 1000 */
	unsigned backlog;
	nsec_t nap; /* hosts look so late for what came; they take it in in bursts then */
	bool no_sack;
	bool again; /* a listener has one connection after the other */
	bool wrap;  /* sequence numbers begin shortly before they wrap around */
};

/* Sensible defaults: MSS 1460, 64 KB buffers, timestamps, 5 ms one way. */
struct sim_params sim_defaults(void);

/* What was sent, in the sender's own words. */
struct sim_segment {
	nsec_t at;
	uint8_t from;
	uint8_t flags;
	bool lost; /* did not leave, or the filter took it */
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
	uint8_t secret[16]; /* behind its initial sequence numbers */
	bool listening;
	bool exists;		/* conn was initialised */
	struct tcp_timewait tw; /* what became of conn, when small */
	bool small;
	bool killed;	  /* what the engine sends goes nowhere */
	int accept_fails; /* so many accepts are refused */

	/* what the engine reported */
	unsigned established, closed, readable, writable;
	int error; /* of closed */

	/* the program: a stream whose byte at n is sim_byte(host, n) */
	uint64_t sent, received;
	bool eof;

	nsec_t link_free; /* when the link has carried all it was given */
	unsigned burst_left;
	unsigned chains; /* bursts that tcp_input_chain() took */
	nsec_t poll_at;	 /* when it looks again, because tcp_flush() asked for it; NSEC_NEVER */
	nsec_t icmp_at;	 /* when it hears of the path's MTU; NSEC_NEVER */
	uint32_t icmp_seq;
	uint32_t edge; /* largest right edge the peer was offered by us */
	bool edge_known;
	uint32_t rcvbuf, limit; /* of its queue, largest so far */
};

#define SIM_LOG 4096

struct sim {
	struct sim_params params;
	uint64_t random;
	nsec_t now;
	struct sim_host host[2];
	bool trace;

	/* Takes a segment off the wire when it returns true. */
	bool (*filter)(struct sim *sim, const struct sim_segment *seg);
	int filter_arg; /* for it to keep account */

	struct sim_flight *flight; /* a heap by time of arrival */
	unsigned in_flight, flight_max;
	uint64_t order;

	unsigned packets, buffers; /* not yet given back */
	struct pkt_pool pool;
	unsigned drops[DROP_COUNT];
	struct sim_segment log[SIM_LOG]; /* the first so many */
	unsigned logged;
	uint64_t segments; /* all that were sent */
};

/* Called by tests with the file and line of the complaint. */
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
/* The connection goes on in other memory, made of its bytes. */
void sim_transplant(struct sim *sim, int host);
/* Its process ends, and tells nobody: the host is as in the beginning, but for its secret. */
void sim_kill(struct sim *sim, int host);
/* Runs for so long; until nothing will happen any more. */
void sim_run(struct sim *sim, nsec_t time);
/* When the next thing happens; NSEC_NEVER. */
nsec_t sim_next(const struct sim *sim);
/* Everything that happens at the next moment; false when nothing will. */
bool sim_step(struct sim *sim);
/* As if the peer had sent it to host: relative numbers, raw flags. */
void sim_inject(struct sim *sim, int host, const struct tcp_segment *seg);
/* A segment the peer could send now: its next sequence number, its last ACK. */
struct tcp_segment sim_forge(struct sim *sim, int to, uint8_t flags);

/* ---- the programs ---- */

/* The next n bytes of the stream; returns what tcp_send() said. */
ssize_t sim_send(struct sim *sim, int host, uint32_t n, unsigned flags);
/* Reads at most n and compares; returns what tcp_recv() said. */
ssize_t sim_recv(struct sim *sim, int host, uint32_t n);
/* Reads all there is; bytes. */
uint64_t sim_drain(struct sim *sim, int host);
/* Bytes that arrive at B while A writes as much as it can and B reads at once. */
uint64_t sim_pump(struct sim *sim, nsec_t time);
void sim_shutdown(struct sim *sim, int host);
void sim_close(struct sim *sim, int host);
/* Closes both (drained), waits until both are CLOSED, destroys. */
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
/* Segments of a host with data; with all of flags and none of but; sent so far. */
unsigned sim_count_data(const struct sim *sim, int from);
unsigned sim_count(const struct sim *sim, int from, uint8_t flags);
unsigned sim_count_pure_acks(const struct sim *sim, int from);
/* The last one a host sent; NULL. */
const struct sim_segment *sim_last(const struct sim *sim, int from);

#endif
