/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel between two processes that share sockets: short messages over a socket pair,
 * some of them with a descriptor.
 *
 * Role		who owns the channel, one thread at a time; channel_create(), channel_create_only(): any.
 *		Those of share_process belong to the control lock.
 * Lifetime	from channel_create() to channel_destroy().  A message that does not fit
 *		into the socket's buffer is queued here; channel_flush() tries again.
 * Ordering	messages arrive in the order in which they were sent.
 *
 * The other end is a process of the same user that runs this library, and is still not
 * trusted: channel_receive() ignores whatever is not a message, and share_act() checks
 * that a message is legal before it acts on it.  A process that does not read what it
 * makes us send is cut off.
 */
#ifndef SOCK_SHARE_CHANNEL_H
#define SOCK_SHARE_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sock/share/idset.h"
#include "sock/share/message.h"

/* The machine (share_machine.h) touches no more than it says there. */
struct channel {
	struct list link;   /* in share_process.channels */
	uint64_t serial;    /* never 0, never reused in this process */
	int fd;		    /* hidden from the program */
	uint64_t last_id;   /* the other end knows no socket with a higher number */
	uint64_t only;	    /* 0, or the only socket of the channel, by its number here */
	bool expects_claim; /* the other end connected to us: MESSAGE_CLAIM has to come first */
	bool claimed;	    /* MESSAGE_CLAIM was received */
	bool rerouted; /* after MESSAGE_REROUTE: messages meant for the former other end may come */
	bool broken;   /* too many messages are queued: to be closed */
	bool done;     /* its only socket is closed: to be closed when idle */
	struct idset closed;	 /* sockets that the other end does not hold any more */
	struct idset all_closed; /* ... and those that all behind it have closed; some may receive */
	struct idset held;	 /* sockets named by MESSAGE_INVENTORY so far */
	struct list wants;	 /* of struct want: requests of the other end, oldest first */
	unsigned toward;	 /* number of sockets whose owner is behind this channel */
	struct list unsent;
	unsigned n_unsent;
	unsigned pending; /* MESSAGE_PENDING sent and not yet answered: see share_receivers.c */
};

struct want {
	struct list link;
	uint64_t id;
	int twin; /* of the other end's socket; -1: none came */
};

/*
 * Takes fd over, on failure, too. last_id: the other end knows no newer socket. NULL: no
 * memory.
 */
struct channel *channel_create(int fd, uint64_t last_id);
/* As channel_create(), for socket id only, which may have another number at the other end. */
struct channel *channel_create_only(int fd, uint64_t id);
void channel_destroy(struct channel *ch);

/*
 * Sends a message, or queues it. Consumes memfd; -1: no descriptor is sent. A message is
 * dropped without notice if there is no memory, if the queue is too long (the channel is
 * broken then), or if the other end is gone.
 */
void channel_send(struct channel *ch, enum message_kind kind, uint64_t id, uint64_t flags,
		  int memfd);
/* Sends what is queued. False: some messages are still queued. */
bool channel_flush(struct channel *ch);

/*
 * Reads the next message. 1: *message is filled, and *memfd is the caller's, or -1; 0:
 * there is none now; -1: the other end is gone.
 */
int channel_receive(struct channel *ch, struct message *message, int *memfd);

/*
 * Forwards all messages that can be read from one channel to the other, unchanged. Answers
 * are discarded, because they are meant for this process. False: from has ended.
 */
bool channel_relay(struct channel *from, struct channel *to);

/* pure: does the other end hold socket id? */
static inline bool channel_holds(const struct channel *ch, uint64_t id)
{
	return (ch->only ? id == ch->only : id <= ch->last_id) && !idset_has(&ch->closed, id);
}

/*
 * Adds id to ch->wants, once.  Consumes twin, what came with the request, or -1.  Without memory
 * the request is lost.
 */
void channel_note_request(struct channel *ch, uint64_t id, int twin);
/* The request of the other end for id; NULL: there is none. */
struct want *channel_want(const struct channel *ch, uint64_t id);
/* The request is answered: the end of want. */
void channel_want_end(struct want *want);

#endif
