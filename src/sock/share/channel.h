/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel between two processes that have sockets in common: short messages, some of
 * them with a descriptor.
 *
 * Role		control lock.
 * Lifetime	from channel_create() to channel_destroy(). Messages that find no room on
 *		the way wait here; channel_flush() tries again.
 * Ordering	messages arrive in the order in which they were sent.
 *
 * The other end is a process of ours, and still not trusted: what is no message is
 * ignored, and which messages are legal is checked where they are acted on.  Who does not
 * read what he causes us to write is cut off.
 */
#ifndef SOCK_SHARE_CHANNEL_H
#define SOCK_SHARE_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sock/share/idset.h"

enum message_kind {
	MESSAGE_REQUEST = 1, /* the connection is asked for */
	MESSAGE_EXPORT,	     /* here it is, in a memfd */
	MESSAGE_ACK,	     /* it has arrived */
	MESSAGE_NACK, /* it could not be taken: it is the sender's again; see MESSAGE_FLAG_UNABLE */
	MESSAGE_CLOSED,	   /* nobody here holds it any more */
	MESSAGE_OFFER,	   /* who holds it had better ask now: we exit */
	MESSAGE_LOST,	   /* there is no such connection */
	MESSAGE_JOIN,	   /* of a listener or datagram socket: whoever likes may receive, too */
	MESSAGE_PENDING,   /* a connection of this listener that was not accepted, in a memfd */
	MESSAGE_RECEIVED,  /* it is in the queue */
	MESSAGE_REROUTE,   /* we exit: here is our channel to the others, in place of this one */
	MESSAGE_INVENTORY, /* we were executed, and have this one still ... */
	MESSAGE_INVENTORY_END, /* ... and what was named so far is all */
	MESSAGE_CLAIM,	       /* first of a channel of one socket: its descriptor was received */
	MESSAGE_TO_KERNEL,     /* it is the kernel's now */
	MESSAGE_STAYS,	       /* MESSAGE_FLAG_UNABLE cannot be helped: it stays where it is */
	MESSAGE_LATE,	       /* frames of a connection that was given, in a memfd: share_late.c */
};

#define MESSAGE_FLAG_LAST 1u /* of GIVE: and nobody here holds it any more */
/*
 * Of REFUSED: nor will it be possible, which is why the connection is to be the kernel's. The
 * sender's twin comes along, for an owner whose program closed its own.
 */
#define MESSAGE_FLAG_UNABLE 1u
#define MESSAGE_FLAG_ANSWER 1u /* of JOIN: an answer to one */
#define MESSAGE_FLAG_PEEK 1u   /* of CLAIM: and it will be received once more */
#define MESSAGE_FLAG_HAVE 2u   /* of CLAIM: and is known there, as another one's */

struct message {
	uint32_t magic;
	uint32_t kind; /* enum message_kind */
	uint64_t id;   /* of the socket, at both ends; of the only one: 1 */
	uint64_t flags;
};

struct channel {
	struct list link; /* of its owner */
	uint64_t serial;  /* of no other channel of the process, before or after; not 0 */
	int fd;		  /* hidden */
	uint64_t last_id; /* what is newer the other end does not know */
	uint64_t only; /* nor any other than this, which has another number there; 0: see last_id */
	bool expects_claim;  /* somebody called us: MESSAGE_CLAIM has to come first */
	bool claimed;	     /* it came */
	bool rerouted;	     /* MESSAGE_REROUTE: messages for its former other end may come */
	bool broken;	     /* too many messages wait: to be hung up */
	bool done;	     /* there is nothing left that it is for */
	struct idset closed; /* what the other end holds no more */
	struct idset held;   /* until MESSAGE_INVENTORY_END: what the other end named */
	struct list wants;   /* of struct want: what it has asked for, oldest first */
	unsigned toward;     /* how many sockets have their owner there */
	struct list unsent;
	unsigned n_unsent;
	unsigned pending; /* on their way there: see share_receivers.c */
};

struct want {
	struct list link;
	uint64_t id;
};

/* fd is the channel's from now on, and on failure, too. NULL: no memory. */
struct channel *channel_create(int fd, uint64_t last_id);
/* As above, of one socket, which may have another number at the other end. */
struct channel *channel_create_only(int fd, uint64_t id);
void channel_destroy(struct channel *ch);

/* memfd: sent along and closed here when it was; -1: none. */
void channel_send(struct channel *ch, enum message_kind kind, uint64_t id, uint64_t flags,
		  int memfd);
/* False: messages still wait. */
bool channel_flush(struct channel *ch);

/*
 * The next message: 1; 0: there is none now; -1: the other end is gone. *memfd is the
 * caller's, or -1.
 */
int channel_receive(struct channel *ch, struct message *message, int *memfd);

/*
 * What comes from one channel goes out by the other, as it is, but for answers, which are for
 * us. False: from has ended.
 */
bool channel_relay(struct channel *from, struct channel *to);

/* Does the other end hold it? */
static inline bool channel_holds(const struct channel *ch, uint64_t id)
{
	return (ch->only ? id == ch->only : id <= ch->last_id) && !idset_has(&ch->closed, id);
}

void channel_note_request(struct channel *ch, uint64_t id);

#endif
