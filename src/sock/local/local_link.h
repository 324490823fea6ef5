/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links: how two processes meet, and what they share.
 *
 * A process that takes part has a random name, an abstract Unix socket of that name, and entries
 * in the directory (local_dir.h).  Who wants to reach it connects to the socket and sends HELLO
 * with a segment that has two notice lanes, and the lanes' eventfds.  That is a link.  It serves
 * connections that its initiator begins; the initiator numbers them.  Messages go along the
 * socket, notices along the lanes.  When a process ends, in whatever way, the socket of each of its
 * links reports that to the other one at once.
 *
 *	initiator				responder
 *	connect(), HELLO ---- segment, fds ---> accepts, opens its sides of the lanes
 *	LOCAL_CONNECT ... -- number, fd ------> what the kind of message says
 *
 * Role		local_links_run() and the handlers: the internal thread.  Functions marked
 *		"lock": any thread that has local_lock(), which is taken after the control
 *		lock, and with no ring held.  Functions marked "holder": the holder of
 *		local_ring().
 * Lifetime	a link lives while both processes do, and until its last end has left it.
 *		An end is in the memory of what uses the number (a connection, a sender of
 *		datagrams); it is in the link from local_end_begin() to local_end_leave().
 * Ordering	messages of a process arrive in order.  Nothing orders messages and notices.
 * Trust	a peer is a process of the same user (SO_PEERCRED).  It may send anything, and
 *		write anything into what is shared: numbers and sizes are bounded where they
 *		arrive, and a message that cannot be ends the link.
 */
#ifndef SOCK_LOCAL_LOCAL_LINK_H
#define SOCK_LOCAL_LOCAL_LINK_H

#include "ring/local/port_local.h"
#include "ring/local/segment.h"
#include "sock/core/inet_sock.h"

/* What travels on a link.  HELLO comes first, once. */
enum local_message_kind {
	LOCAL_HELLO,
	LOCAL_CONNECT, /* TCP: local_connect.c */
	LOCAL_MOVE,    /* an end has moved to this process: local_move.h */
	LOCAL_MOVED,   /* the answer */
	LOCAL_ASK,     /* UDP: for the receiver's ring; local_udp.h */
	LOCAL_RECORDS, /* the answer */
	LOCAL_KINDS
};

#define LOCAL_FDS 4 /* most descriptors of a message */

/* Ports in network order. */
struct local_message {
	uint32_t kind;
	uint32_t number; /* of the connection; HELLO: the version of the protocol */
	uint32_t socket; /* the receiver's number in the directory */
	uint32_t size;	 /* as the kind says */
	struct inaddr from, to;
	uint16_t from_port, to_port;
	uint32_t value[5]; /* as the kind says; HELLO: the initiator's name */
};

_Static_assert(sizeof(struct local_message) == 72, "without padding");

struct local_link;

/* What uses a number of a link.  All are called by the holder of local_ring(). */
struct local_end_ops {
	/* The peer posted a notice, maybe without a cause. */
	void (*notice)(struct local_end *end);
	/* It wants (local_end_wants()), and is looked at.  NULL: as notice(). */
	void (*look)(struct local_end *end);
	/* The same, and the lock: the peer process has ended.  It wrote nothing after this. */
	void (*died)(struct local_end *end);
};

/*
 * lock, internal thread: a message of this kind has arrived; fds[n] came with it, and are the
 * handler's; hidden.  Takes the lock of no ring but local_ring() and rings of sockets, one at a
 * time.  False: the message cannot be, the link ends.
 */
typedef bool local_handler(struct local_link *link, const struct local_message *message, int *fds,
			   unsigned n);

/* ---- the process ------------------------------------------------------------------- */

/*
 * control lock, acceleration runs: opens the local ring, the socket and the directory, once.  base:
 * see local_dir_open(); "": none, nobody finds this process.  handlers[LOCAL_KINDS], constant; NULL: no
 * such messages.  0 or -errno.
 */
int local_links_start(const char *base, local_handler *const *handlers);
/* control lock: nobody finds this process any more; links that exist go on. */
void local_links_hide(void);
/* control lock, at exit: ends all links. */
void local_links_stop(void);
/* In a forked child: the links are the parent's. */
void local_links_forget(void);
bool local_links_started(void);

/* any, after local_links_start(): the home of local connections. */
struct ring *local_ring(void);
/* The name of this process, in entries of the directory. */
uint64_t local_name(void);
/* Has the process with this name ended?  It does not notice that it was asked for. */
bool local_is_dead(uint64_t process);

void local_lock(void);
void local_unlock(void);

/* internal thread, between rounds: frees links that have ended, and ends a rest of the accepting socket. */
void local_links_run(nsec_t now);

/* ---- ways: local_way.c -------------------------------------------------------------- */

/*
 * A process that has changed its user reaches no peer any more, nor do those that it forks.  So it
 * connects to the peers' sockets before, and makes what the links will share: the peers know both as of
 * their user.  A process that is forked to go on with its connections (intercept/process/relay.h) begins
 * its links so, and one between the two, because connections pass from process to process.
 */
#define LOCAL_WAYS 2u /* to each peer */
struct local_way {
	uint64_t process;
	int fd;	    /* -1: there is none */
	int memory; /* of the segment */
};

/* Closes both descriptors. */
void local_way_close(struct local_way *way);
/* Of descriptors that are ordinary ones, and close-on-exec.  fd is -1 on failure. */
struct local_way local_way_copy(const struct local_way *way);

/* control lock: the process is about to change its user.  Makes the ways to each peer that it can. */
void local_links_keep_ways(void);
/* control lock: another process uses them, or nobody will. */
void local_links_close_ways(void);
/* lock: a way to the process of this link, which < LOCAL_WAYS; it stays the link's. */
struct local_way local_link_way(const struct local_link *link, unsigned which);
/* control lock, in the other process: local_link_to() uses it.  Consumes it.  False: no memory. */
bool local_links_use_way(const struct local_way *way);

/* ---- a link ------------------------------------------------------------------------ */

/*
 * lock, control lock: a link to this process (its name; maybe this process itself), on which this
 * process may begin something; made if there is none.  -ECONNREFUSED: the process has ended;
 * -EACCES: it is another user's; -EAGAIN: it is too busy; -errno.
 */
int local_link_to(uint64_t process, struct local_link **link);
/* lock: 0; -EAGAIN: the peer does not read its messages; -EPIPE: it has ended.  fd: -1: none. */
int local_link_send(struct local_link *link, const struct local_message *message, int fd);

/*
 * holder: gives the end a free number of a link that this process initiated.  0, -EPIPE: the peer
 * has ended; -EUSERS: all numbers are in use; -ENOMEM.
 */
int local_end_begin(struct local_link *link, struct local_end *end);
/*
 * holder: the same for the number that the initiator gave.  -EPROTO: it cannot be; -ENOMEM.
 */
int local_end_begin_at(struct local_link *link, struct local_end *end, uint32_t number);
/*
 * holder: the end does not use its number any more, and nothing that it shares with the peer.  The
 * number is free when the peer's end has left, too.
 */
void local_end_leave(struct local_end *end);
/*
 * holder: as local_end_leave(), but the end goes on in another process, or with other memory: the
 * number is not free before the ends that share the slot have said there that they are gone.
 */
void local_end_move_away(struct local_end *end);
/* holder: `to` gets the number of `from`, which is in no link any more. */
void local_end_leave_to(struct local_end *from, struct local_end *to);
/*
 * holder: while it wants, its function notice() is called at each poll, and once more before a
 * thread blocks, after the barrier (notice_barrier()).
 */
void local_end_wants(struct local_end *end, bool wants);
/* holder: tells the peer's end to look. */
void local_end_post(struct local_end *end);
/* lock: the peer's name, as it says. */
uint64_t local_link_process(const struct local_link *link);
/* holder: the end with this number, of a link that this process initiated; NULL: none. */
struct local_end *local_end_at(const struct local_link *link, uint32_t number);
/* holder: has the peer's process ended? */
bool local_link_is_dead(const struct local_link *link);
/*
 * holder of the initiator: the peer is known to have opened its sides of the lanes (it answered).
 * From now on posting costs no fence if the kernel has a barrier for it.
 */
void local_link_answered(struct local_link *link);

/*
 * lock: the segment with the memory of connection `number`, and of LOCAL_CHUNK - 1 others; not open
 * at first.  Whoever opens it, the link closes it.  NULL: no memory.
 */
#define LOCAL_CHUNK 64u
#define LOCAL_CHUNKS (NOTICE_CONNS / LOCAL_CHUNK)
struct segment *local_link_chunk(struct local_link *link, uint32_t number);
/* lock: its descriptor, if the peer does not have it yet; else -1.  Then: the peer has it. */
int local_link_chunk_to_send(struct local_link *link, uint32_t number);
void local_link_chunk_sent(struct local_link *link, uint32_t number);

#endif
