/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder: what happened lately to the sockets and rings of this process, as records
 * of 16 bytes.  Always on; for `vma trace`, and for the log when something fails.
 *
 * It is memory of its own beside the page of statistics: a System V segment, which outlives the
 * process.  So the last events of a process that was killed can be read, and nobody can cut it
 * off while it is in use.  Nothing names it but its creator's process id (shm_cpid), its size and
 * its magic.  A process removes its segment when it ends in order; the next one of the same user
 * removes all but the last RECORDER_KEPT of those that were left behind and are done with.
 *
 * It also knows which TCP connections the process has, because the peers of a process that was
 * killed must be told: recorder_left().
 *
 * Role		each function says who calls it.  "holder" is the holder of the ring that an area
 *		belongs to, "any" a thread of the process.
 * Lifetime	recorder_open() makes it; it stays mapped until the process ends.  A forked child
 *		has none until it calls recorder_open().
 * Ordering	magic is stored last.  An area's head is stored after the record that it counts.
 * Progress	wait-free: a record is two stores, and one for the head.
 * Trust	the process reads nothing here but its own heads; a reader believes nothing.
 */
#ifndef BASE_STATS_RECORDER_H
#define BASE_STATS_RECORDER_H

#include <ck_pr.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/stats/stats_page.h"

#define RECORDER_MAGIC 0x4543415254414d56ull /* "VMATRACE" */
#define RECORDER_VERSION 4u		     /* changes with the layout */
#define RECORDER_RECORDS 4096u		     /* of an area; a power of two */
#define RECORDER_RINGS 64u
#define RECORDER_CALLS RECORDER_RINGS	      /* area of threads that hold no ring */
#define RECORDER_SLEEPS (RECORDER_RINGS + 1u) /* area of threads that sleep */
#define RECORDER_AREAS (RECORDER_RINGS + 2u)
#define RECORDER_SOCKS 4096u /* a power of two */
#define RECORDER_TEXTS 48u
#define RECORDER_TEXT 80u
#define RECORDER_NAME 16u
#define RECORDER_KEPT 8u /* segments of processes that were killed, of one user */

/* X(name, text, meaning of the argument) */
#define RECORD_LIST(X)                                                 \
	X(NONE, "", NONE)                                              \
	X(LIFE, "socket", LIFE)                                        \
	X(STATE, "TCP", STATE)                                         \
	X(RETRANSMIT, "retransmission", BYTES)                         \
	X(TIMEOUT, "retransmission timeout, the next one after", MSEC) \
	X(TAIL_PROBE, "tail loss probe", NONE)                         \
	X(RECOVERY, "fast recovery begins, in flight", BYTES)          \
	X(RECOVERED, "recovery ends", NONE)                            \
	X(SPURIOUS, "recovery was needless and is undone", NONE)       \
	X(WINDOW_CLOSED, "the peer closes its window", NONE)           \
	X(WINDOW_OPEN, "the peer opens its window", BYTES)             \
	X(PROBE, "probe of the peer, unanswered so far", NUMBER)       \
	X(RESET, "reset sent", NONE)                                   \
	X(ENDED, "connection ends", ERRNO)                             \
	X(TIME_WAIT, "goes on as a record of 128 bytes", NONE)         \
	X(DROP, "dropped", DROP)                                       \
	X(MOVED_RX, "receives by another ring, formerly", RING)        \
	X(MOVED_TX, "sends by another ring, formerly", RING)           \
	X(KERNEL, "falls back to the kernel", VERDICT)                 \
	X(SLEEP, "a thread sleeps at", RING)                           \
	X(WAKE, "a thread wakes up at", RING)                          \
	X(RING_OPEN, "ring opened", NONE)                              \
	X(RING_CLOSE, "ring closed", NONE)                             \
	X(RING_RETIRED, "ring without its interface", NONE)

enum record_event {
#define X(name, text, argument) RECORD_##name,
	RECORD_LIST(X)
#undef X
		RECORD_COUNT
};

/* What the argument of an event is.  LIFE, STATE: two numbers, former << 8 | new. */
enum record_argument {
	RECORD_ARG_NONE,
	RECORD_ARG_BYTES,
	RECORD_ARG_MSEC,
	RECORD_ARG_NUMBER,
	RECORD_ARG_ERRNO, /* 0: in order */
	RECORD_ARG_RING,  /* RECORDER_NO_RING: several, or none */
	RECORD_ARG_DROP,  /* see record_drop */
	/* numbers of texts in the recorder */
	RECORD_ARG_LIFE,
	RECORD_ARG_STATE,
	RECORD_ARG_VERDICT,
};

#define RECORDER_NO_RING UINT32_MAX

/* The texts that a recorder brings along, because readers do not know the upper layers. */
enum recorder_text {
	RECORDER_LIFE,
	RECORDER_STATE,
	RECORDER_DROP,
	RECORDER_VERDICT,
	RECORDER_KINDS
};

/*
 * when: nsec of CLOCK_MONOTONIC << 8 | enum record_event; it wraps after two years.
 * what: argument << 32 | number of the socket, 0: none.  Of RECORD_DROP:
 * number of packets << 40 | reason << 32 | remote port << 16 | local port, in host byte order.
 */
struct record {
	uint64_t when, what;
};

/* any, atomic: who a socket is.  The number of the socket, modulo RECORDER_SOCKS, is the place. */
struct recorder_sock {
	uint64_t id; /* number << 32 | descriptor; 0: free */
	/*
	 * Address, as struct stats_addr, and port << 16 | protocol; a port is in network byte
	 * order.
	 */
	uint64_t local_addr[2], remote_addr[2];
	uint64_t local, remote;
	uint64_t open; /* 1: a TCP connection that this process has */
};

/* Of a ring: its holder writes.  RECORDER_CALLS, RECORDER_SLEEPS: any, atomic. */
struct recorder_area {
	uint64_t head; /* records that were ever written */
	uint32_t used;
	uint32_t unused;
	char interface[RECORDER_NAME];
	uint64_t unused2[4];
	struct record records[RECORDER_RECORDS];
} __attribute__((aligned(64)));

struct recorder {
	/* set when made */
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	uint32_t pid;
	uint32_t netns; /* inode number of the network namespace; 0: unknown */
	uint32_t told;	/* any process, atomic: 1: recorder_left_done() */
	uint32_t unused;
	uint64_t made_at, made_at_real; /* nsec, CLOCK_MONOTONIC and CLOCK_REALTIME */
	uint64_t left_at; /* any process, atomic: when its process was killed: seconds, CLOCK_REALTIME */
	char name[RECORDER_NAME];
	char version_text[32];
	char texts[RECORDER_KINDS][RECORDER_TEXTS][RECORDER_TEXT];

	struct recorder_sock socks[RECORDER_SOCKS] __attribute__((aligned(64)));
	struct recorder_area areas[RECORDER_AREAS];
};

/* ---- its life (control lock) --------------------------------------------------------- */

/* Before recorder_open(): the inode of the process's network namespace; 0, or without it: the caller's. */
void recorder_in_namespace(uint64_t inode);
/*
 * Makes the recorder if there is none, and removes old ones of processes that were killed.  False: there is none,
 * the reason is logged.
 */
bool recorder_open(void);
/* Stores a text; before recorder_ready(). */
void recorder_set_text(enum recorder_text kind, unsigned i, const char *text);
/* Readers find it from now on. */
void recorder_ready(void);
/* At exit: it ends with the process, and readers do not find it any more. */
void recorder_close(void);
/* In a forked child: forgets the recorder, which is the parent's. */
void recorder_fork_child(void);

/* The area of a ring, resident from now on; NULL: there is none. */
struct recorder_area *recorder_area(unsigned ring, const char *interface);

extern struct recorder *the_recorder; /* control lock to write, any to read, atomic */

/* any: the recorder, or NULL. */
static inline struct recorder *recorder(void)
{
	/* Pairs with recorder_ready(). */
	return __atomic_load_n(&the_recorder, __ATOMIC_ACQUIRE);
}

/* ---- recording ------------------------------------------------------------------------ */

/* holder: the record is two stores. */
static inline void recorder_put(struct recorder_area *area, uint64_t when, uint64_t what)
{
	struct record *r = &area->records[area->head % RECORDER_RECORDS];

	/*
	 * Keeps the store of head before those of the next record; else a reader that sees the
	 * latter takes it for the record which it replaces.  Pairs with recorder_read().
	 */
	ck_pr_fence_store();
	__atomic_store_n(&r->when, when, __ATOMIC_RELAXED);
	__atomic_store_n(&r->what, what, __ATOMIC_RELAXED);
	/* Release: pairs with recorder_read(), which then sees the record. */
	__atomic_store_n(&area->head, area->head + 1, __ATOMIC_RELEASE);
}

static inline uint64_t record_when(nsec_t now, enum record_event event)
{
	return (uint64_t)now << 8 | event;
}

static inline uint64_t record_what(uint32_t sock, uint32_t argument)
{
	return (uint64_t)argument << 32 | sock;
}

/* holder; area may be NULL. */
static inline void recorder_write(struct recorder_area *area, nsec_t now, enum record_event event,
				  uint32_t sock, uint32_t argument)
{
	if (area)
		recorder_put(area, record_when(now, event), record_what(sock, argument));
}

/*
 * holder; area may be NULL: a packet is dropped.  One record for a series of equal drops, so that
 * a flood of them does not replace all others.  Ports: host byte order, 0: unknown.
 */
void recorder_drop(struct recorder_area *area, nsec_t now, uint8_t reason, uint16_t local_port,
		   uint16_t remote_port);

/* any, holding no ring: in area RECORDER_CALLS or RECORDER_SLEEPS. */
void recorder_write_any(unsigned area, enum record_event event, uint32_t sock, uint32_t argument);

/* The ends of a socket, or of a TCP connection; ports in network byte order. */
struct recorder_conn {
	struct stats_addr local_addr, remote_addr;
	uint16_t local_port, remote_port;
};

/*
 * any: who the socket is; sock: its number, not 0.  open: it is a TCP connection, whose peer must
 * be told if this process is killed.
 */
void recorder_name(uint32_t sock, int fd, uint8_t protocol, const struct recorder_conn *conn,
		   bool open);
/* any: the socket keeps its name, but has no connection any more. */
void recorder_name_closed(uint32_t sock);

/* ---- what killed processes left ----------------------------------------------------------- */

/*
 * any: of one process of this user and network namespace that ended and did not close its
 * connections.  *from: where to begin, 0 at first; set to where to go on.  Returns the number of
 * connections and sets *id, or -1: there is no such process.  Of sockets whose numbers are equal
 * modulo RECORDER_SOCKS it has the last one.
 */
int recorder_left(int *from, struct recorder_conn conns[RECORDER_SOCKS], int *id);
/* any: the peers of these connections were told: recorder_left() does not return them again. */
void recorder_left_done(int id);

/* ---- reading -------------------------------------------------------------------------- */

/*
 * any, also another process: copies the records of an area from number *from on to records, which
 * has room for RECORDER_RECORDS.  Returns how many, and sets *from to the number of the first;
 * what was overwritten is left out, or has when 0.
 */
unsigned recorder_read(const struct recorder_area *area, uint64_t *from, struct record *records);

/* any: the last n records of the area go to the log, oldest first, at this level. */
void recorder_log(unsigned area, unsigned n, int level);
/* any: as above, for all areas. */
void recorder_log_all(unsigned n, int level);

#endif
