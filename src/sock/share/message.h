/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages between processes that share sockets, and the rules for each.
 *
 * Role		pure: constants.  share_machine.h applies the rules, channel.h transports.
 */
#ifndef SOCK_SHARE_MESSAGE_H
#define SOCK_SHARE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

enum message_kind {
	MESSAGE_REQUEST = 1, /* send me the connection; a member: may I join? */
	MESSAGE_EXPORT,	     /* the connection, in a memfd */
	MESSAGE_ACK,	     /* the exported connection was imported */
	MESSAGE_NACK,	     /* import failed, it is yours again; MESSAGE_FLAG_UNABLE */
	MESSAGE_CLOSED,	     /* no process on the sender's side holds it any more */
	MESSAGE_OFFER,	     /* the sender exits or withdraws: request or join now */
	MESSAGE_LOST,	     /* the sender does not know such a connection */
	MESSAGE_JOIN,	     /* listener or datagram socket: the receiver may join, too */
	MESSAGE_PENDING,     /* an unaccepted connection, or unread datagrams, in a memfd; */
			     /* or an unaccepted connection as a socket of the kernel */
	MESSAGE_RECEIVED,    /* answer to MESSAGE_PENDING: received */
	MESSAGE_REROUTE,     /* the sender exits: use this descriptor in place of the channel's; */
			     /* without one: somebody else gets the channel's other end */
	MESSAGE_INVENTORY,   /* after exec: the sender still holds this socket ... */
	MESSAGE_INVENTORY_END, /* ... and no others than those named */
	MESSAGE_CLAIM,	       /* first message on a channel of one socket: its twin was received */
	MESSAGE_TO_KERNEL,     /* the kernel serves the socket now */
	MESSAGE_STAYS,	       /* answer to MESSAGE_FLAG_UNABLE: kernel handover failed too */
	MESSAGE_LATE,	       /* late frames of an exported connection, in a memfd: share_late.c */
	MESSAGE_KINDS,
};

/*
 * MESSAGE_NACK: a later import would fail, too, so the owner is to hand the connection over
 * to the kernel. The sender's twin comes with the message, for an owner whose program
 * closed its own; and with MESSAGE_REQUEST, for a process between that has closed its own.
 */
#define MESSAGE_FLAG_UNABLE 1u
#define MESSAGE_FLAG_LAST 1u /* MESSAGE_OFFER: the sender closed it, as all behind it did */
#define MESSAGE_FLAG_ANSWER \
	1u /* MESSAGE_JOIN: an answer to it or to MESSAGE_OFFER: the sender stays */
#define MESSAGE_FLAG_PEEK 1u /* MESSAGE_CLAIM: received by MSG_PEEK, so it will be received again */
#define MESSAGE_FLAG_HAVE 2u /* MESSAGE_CLAIM: the receiver already held it, from another process */
#define MESSAGE_HOPS_MAX \
	8 /* MESSAGE_PENDING, MESSAGE_LATE: the flags are the times that it was forwarded */
/*
 * MESSAGE_PENDING, instead of the times: it goes back to its sender, because the process cannot
 * receive the connection's frames.  Its sender gives it to the kernel, and sends the kernel's
 * socket in a MESSAGE_PENDING.
 */
#define MESSAGE_FLAG_BACK 256u

struct message {
	uint32_t magic;
	uint32_t kind; /* enum message_kind */
	uint64_t id; /* number of the socket, the same at both ends; 1 on a channel of one socket */
	uint64_t flags;
};

/* Where a socket is, as one end of a channel sees it; a set of places is an OR. */
enum message_place {
	PLACE_UNKNOWN = 1 << 0,	   /* unknown here, or no longer, or served by the kernel */
	PLACE_HERE = 1 << 1,	   /* a connection that is here */
	PLACE_ELSEWHERE = 1 << 2,  /* exported, its owner is behind another channel */
	PLACE_THERE = 1 << 3,	   /* exported, its owner is behind this channel */
	PLACE_REQUESTED = 1 << 4,  /* ... and it was requested there */
	PLACE_IN_TRANSIT = 1 << 5, /* exported to this channel, not yet acknowledged */
	PLACE_MEMBER = 1 << 6,	   /* a listener or datagram socket */
	PLACE_ANY = (1 << 7) - 1,
};

/*
 * The rules for one kind of message. A socket that we closed meanwhile is PLACE_UNKNOWN. A
 * program that was executed may receive answers to requests of its predecessor.
 */
struct message_rule {
	const char *name;
	uint8_t senders;   /* where the socket is when its process sends the message */
	uint8_t receivers; /* where the socket may be when it arrives; else it is illegal */
	uint8_t closed;	   /* ... of a socket that the sender has closed: it crossed one of ours */
	bool of_channel;   /* it is about the channel: its number means nothing */
	uint32_t answers; /* kinds that the receiver may send back while it acts, an OR of 1 << kind */
};

/* By kind; an entry without a name is no kind. */
extern const struct message_rule message_rules[MESSAGE_KINDS];

#endif
