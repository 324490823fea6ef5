/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of links share; see local_link.h. */
#ifndef SOCK_LOCAL_LOCAL_LINK_INTERNAL_H
#define SOCK_LOCAL_LOCAL_LINK_INTERNAL_H

#include "sock/local/local_link.h"

#define LOCAL_PROTOCOL 4u
#define LOCAL_HELLO_FDS 3u /* the segment, the eventfds of initiator and responder */

/* The memory of a link. */
#define LOCAL_LINK_SEGMENT 1u /* its kind */
struct link_shared {
	struct notice_lane to_initiator, to_responder;
	/* responder, atomic: how often it has left each number */
	uint32_t left[NOTICE_CONNS];
};
#define LINK_SIZE (SEGMENT_HEADER + sizeof(struct link_shared))

struct local_link {
	/* lock */
	struct list link;
	uint64_t process; /* the peer's name; that of an initiator is what it says */
	int sock;	  /* -1: it has ended */
	struct local_way way[LOCAL_WAYS]; /* of local_links_keep_ways() */
	struct segment *chunks[LOCAL_CHUNKS];
	bool sent[LOCAL_CHUNKS]; /* initiator: the responder has the chunk */
	/* set when made; the responder's: by HELLO */
	bool initiator;
	bool open; /* lanes and segment are there */
	struct segment segment;
	struct link_shared *shared;
	int wake_fd, peer_fd; /* eventfds: ours, the peer's */
	/* holder */
	struct port_local_lane lane;
	struct notice_writer out;
	struct list wanting; /* of local_end.wants */
	bool dead;
	bool answered;
	struct local_end **ends; /* [n_ends] */
	uint32_t n_ends;
	uint32_t used; /* ends in the link */
	/* holder, initiator */
	/* [n_ends]: how often each number was given to an end, and whether that end moved away */
	uint32_t *begun;
	uint32_t *left;	    /* [n_ends]: a queue of the numbers that ends have left */
	uint32_t left_head; /* its first entry, modulo n_ends, and their number */
	uint32_t n_left;
	uint32_t next; /* no number from here on was given out */
};

struct local_process {
	/* lock; control lock to write */
	bool started;
	uint64_t name;
	int listen_fd, epoll_fd;
	struct ring *ring;
	local_handler *const *handlers;
	/* lock */
	struct list links;
	/* control lock: those of local_links_use_way(), without those that are in use */
	struct local_way *ways;
	unsigned n_ways;
	/* any, atomic */
	nsec_t rests_until; /* no descriptor was left for a newcomer: the socket is not watched; 0: it is */
	bool to_do;	    /* for local_links_run() */
};
extern struct local_process local;

/* progress_watch(): messages, newcomers, the directory. */
void local_links_readable(void);

/* ---- local_wire.c: Unix sockets ------------------------------------------------------------ */

/* Closes those of a link. */
void local_ways_close(struct local_link *link);
/* lock, control lock: the way to this process, the caller's; its fd is -1 if there is none. */
struct local_way local_way_take(uint64_t process);

/* A socket that listens by the name of the process, which it chooses.  A descriptor or -errno. */
int local_wire_listen(uint64_t *name);
/* Connects to a process.  A descriptor or -errno, as of local_link_to(). */
int local_wire_connect(uint64_t process);
/* 0; -EPIPE: the other end is closed; -errno. */
int local_wire_send(int sock, const struct local_message *message, const int *fds, unsigned n);
/*
 * 1: a message; 0: the socket has ended, or the message cannot be; -EAGAIN: none is there.  *n: as
 * of unix_socket_receive().
 */
int local_wire_receive(int sock, struct local_message *message, int fds[LOCAL_FDS], unsigned *n);

#endif
