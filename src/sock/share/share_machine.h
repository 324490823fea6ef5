/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of process sharing, as functions of (state of a shared socket, message or local
 * event, now, sink): who owns it, who is asked for it, when it is given up, when it ends.
 *
 * Role		pure: no system call, no clock, no socket object.  In the library the holder
 *		of the control lock is the one user, and the sink is share_sink.c;
 *		tests/sim/share_test runs many processes in one.
 * Lifetime	struct shared is its user's.  share_sink_ops.drop() ends it: a function that
 *		may do so says it, and touches nothing of it afterwards.
 * Ordering	messages of one channel arrive in their order; between channels there is none
 *		to rely on.
 *
 * A connection has one owner, the process where it is SHARED_HERE; or it is in transit: in
 * the bytes of an export that was not answered.  In all other processes it is exported, and
 * toward is the direction of the owner; in transit to the next image of this process, it is NULL.  A member is SHARED_HERE in each process that
 * receives for it, and exported in those that do not use it.  A process that closes one keeps it
 * while it receives, and while processes behind two of its channels hold it: their messages go
 * through this process.
 *
 * Of a channel the machine reads only, last_id, closed, pending, rerouted and serial, adds to
 * closed and all_closed, and counts in toward; everything else of it is its user's.
 */
#ifndef SOCK_SHARE_SHARE_MACHINE_H
#define SOCK_SHARE_SHARE_MACHINE_H

#include "base/clock.h"
#include "sock/share/channel.h"

#define SHARED_STAY_MIN NSEC_PER_MSEC	      /* the shortest time that a connection stays */
#define SHARED_PAUSE_MAX (64 * NSEC_PER_MSEC) /* the longest pause between two requests */

enum shared_state {
	SHARED_KERNEL,	    /* the kernel serves it, or it is no connection yet */
	SHARED_HERE,	    /* the connection is here; a member receives here */
	SHARED_WITHDRAWING, /* a member that receives until the last handshake is over */
	SHARED_EXPORTED,    /* the owner is behind toward; a member does not receive here */
	SHARED_REQUESTED,   /* ... and it was requested there; a member: asked to join */
	SHARED_IN_TRANSIT,  /* exported to toward, which has not answered yet */
	SHARED_PARTING,	    /* a member that falls back to the kernel when toward has left it */
	SHARED_STATES,
};

/* What a process knows about a socket that others hold. */
struct shared {
	uint64_t id;
	enum shared_state state;
	bool member, listens;	/* a listener or datagram socket; a listener */
	bool closed;		/* the program closed it: kept for others */
	bool offered;		/* MESSAGE_OFFER was sent; a member: the next to join replaces it */
	struct channel *toward; /* of an exported one: direction of the owner; NULL: it is gone */
	nsec_t arrived;
	nsec_t ask_at, pause;
	int failed; /* errno: import and kernel handover failed; the user reports it once */
	/* a connection */
	uint64_t from; /* serial of the channel it arrived by */
	/* a member */
	bool joins;	    /* its receivers share: it may join by itself */
	bool relays;	    /* requested on behalf of other processes only */
	nsec_t stale;	    /* since when connections wait unaccepted; 0: none do */
	nsec_t offered_at;  /* when it was offered, because nobody accepts here */
	nsec_t withdrawing; /* for how long it has been, as far as this process has looked ... */
	nsec_t looked_at;   /* ... the last time now */
	uint64_t receiver;  /* serial of the channel to the process that joined */
	uint64_t yields_to; /* ... to the one that it was offered to, because it is idle here; or 0 */
};

struct share_sink;

/*
 * What the machine has done.  s: the socket that the event is about.  hand_over() and leave()
 * call shared_left(), the others call nothing of the machine.
 */
struct share_sink_ops {
	/* Sends a message; EXPORT, REQUEST, and NACK with UNABLE get their descriptor here. */
	void (*send)(struct share_sink *sink, struct channel *ch, enum message_kind kind,
		     uint64_t id, uint64_t flags);
	/* A holder that is not in sink->channels: a message of unix(7) in transit.  NULL: none. */
	struct channel *(*passed)(struct share_sink *sink, uint64_t id);
	/* Calls shared_request() once shared_may_request(). */
	void (*ask_later)(struct share_sink *sink, struct shared *s);
	/* It is here, or that has failed: whoever waits for it looks; ask_later() is over. */
	void (*arrived)(struct share_sink *sink, struct shared *s);
	/* The kernel serves it: it falls back here, too. Who waits for it looks. The end of s. */
	void (*leave)(struct share_sink *sink, struct shared *s);
	/* The program has closed it: kept from now on. */
	void (*keep)(struct share_sink *sink, struct shared *s);
	/* Closed in all processes, or its owner is gone: the end of s.  HERE: closes it. */
	void (*drop)(struct share_sink *sink, struct shared *s);

	/* Was the connection read or written since the last call with note? */
	bool (*used)(struct share_sink *sink, struct shared *s, bool note);
	/*
	 * Makes the bytes that are sent to ch (NULL: to the next image) and kept; 0: the connection
	 * is gone from here.
	 */
	int (*export)(struct share_sink *sink, struct shared *s, struct channel *ch);
	/* Imports the bytes that came with the message.  0: the connection is here; -errno. */
	int (*import)(struct share_sink *sink, struct shared *s);
	/* The bytes kept by export() are not needed any more; back: imports them, as import(). */
	int (*transit_over)(struct share_sink *sink, struct shared *s, bool back);
	/* It is about to be requested: opens what its import needs. */
	void (*prepare)(struct share_sink *sink, struct shared *s);
	/* The owner is gone: the connection is here and reset. */
	void (*reset)(struct share_sink *sink, struct shared *s);
	/*
	 * The owner hands it over to the kernel, because another process can use it only there
	 * (its twin came with the message). 0: the end of s, unless it is closed; -errno: it stays.
	 */
	int (*hand_over)(struct share_sink *sink, struct shared *s);

	/* Receives for the member. 0; SHARE_UNABLE: impossible here; -errno: not now. */
	int (*join)(struct share_sink *sink, struct shared *s);
	/* Its receivers share from now on. 0; -EAGAIN: not now; -errno: others cannot receive. */
	int (*spread)(struct share_sink *sink, struct shared *s);
	/* New packets go to other receivers. */
	void (*stop)(struct share_sink *sink, struct shared *s);
	/* Undoes stop().  False: it cannot. */
	bool (*start)(struct share_sink *sink, struct shared *s);
	/* Does not receive any more: sends ch what waits.  stays: it is exported; else it ends. */
	void (*withdraw)(struct share_sink *sink, struct shared *s, struct channel *ch, bool stays);
	/* Sends ch the connections that wait unaccepted, or datagrams unread. */
	void (*send_waiting)(struct share_sink *sink, struct shared *s, struct channel *ch);
	/* Cannot join, and waits in PARTING. */
	void (*part)(struct share_sink *sink, struct shared *s);
	/* Is any handshake in progress?  Is there no thread that looks?  Does any connection wait? */
	bool (*has_handshakes)(struct share_sink *sink, struct shared *s);
	bool (*is_idle)(struct share_sink *sink, struct shared *s);
	bool (*has_waiting)(struct share_sink *sink, struct shared *s);
	/* Calls shared_look() now and then; or not any more. */
	void (*look)(struct share_sink *sink, struct shared *s, bool at_it);
	/*
	 * What came with MESSAGE_PENDING is accepted for s, from ch (NULL: it came back); 0;
	 * SHARE_UNABLE: impossible here; -errno: not now, or -EINVAL: never.
	 */
	int (*take_pending)(struct share_sink *sink, struct shared *s, struct channel *ch);
	/* ... is sent on, or back (MESSAGE_FLAG_BACK). */
	void (*forward)(struct share_sink *sink, uint64_t id, struct channel *to, uint64_t flags);
};

#define SHARE_UNABLE 1

/* A process. The user fills it before each event. */
struct share_sink {
	const struct share_sink_ops *ops;
	const struct list *channels; /* of struct channel */
	nsec_t now;
	bool exiting;
};

/*
 * Of withdrawing members: for SYNs steered to it before, and for handshakes to end.  Time counts in
 * looks: a process that had no processor for half a second has answered nobody meanwhile.
 */
#define SHARED_LATE (20 * NSEC_PER_MSEC)
#define SHARED_HANDSHAKES_MAX (NSEC_PER_SEC / 2)
#define SHARED_LOOK_MAX (2 * NSEC_PER_MSEC) /* more time counts as so much */
#define SHARED_PENDING_MAX 1024		    /* forwarded to one channel and not yet received */

/* A channel to a process that holds the socket, other than but; NULL: there is none. */
struct channel *shared_other_holder(struct share_sink *sink, uint64_t id,
				    const struct channel *but);

/*
 * What the user knows better, before each event: whether it is exported, whether it is a
 * connection or member at all (known), whether it is closed.
 */
void shared_observe(struct shared *s, bool exported, bool known, bool closed);
/*
 * The only other function that writes the state of a socket that is shared; traps at an edge that is
 * not legal.
 */
void shared_set_state(struct shared *s, enum shared_state next);
void shared_set_toward(struct shared *s, struct channel *ch);

static inline bool shared_is_away(const struct shared *s)
{
	return s->state >= SHARED_EXPORTED; /* in the order of the states */
}

static inline bool shared_may_request(const struct share_sink *sink, const struct shared *s)
{
	return s->state != SHARED_IN_TRANSIT && sink->now >= s->ask_at;
}

/* ---- local events ---------------------------------------------------------------------- */

/*
 * The program, or a process behind a channel, wants the connection: requests it, at ask_at
 * at the earliest.  May drop s, if its owner is gone.
 */
void shared_request(struct share_sink *sink, struct shared *s);
/* Answers a request that came by ch.  s NULL: unknown here.  False: later. */
bool shared_serve(struct share_sink *sink, struct shared *s, struct channel *ch, uint64_t id);
/* Tells all who hold it that the kernel serves it. */
void shared_tell_to_kernel(struct share_sink *sink, uint64_t id);
/* The kernel serves it from now on.  tells: and so in all other processes. */
void shared_left(struct share_sink *sink, struct shared *s, bool tells);
/* The program closed it, and others hold it or own it.  May drop s. */
void shared_close(struct share_sink *sink, struct shared *s);
/* Offers it to ch, once.  True: it is still here. */
bool shared_offer(struct share_sink *sink, struct shared *s, struct channel *ch);
/* The process exits: offers it, or requests it first.  True: it is still to be given away. */
bool shared_exit(struct share_sink *sink, struct shared *s, bool requests);
/* ch, not in sink->channels any more, has ended.  May drop s. */
void shared_channel_ended(struct share_sink *sink, struct shared *s, struct channel *ch);
/* The end of s, whoever holds it. */
void shared_drop(struct share_sink *sink, struct shared *s);
/* If it is closed, and nobody else holds it: drops it.  True: it did. */
bool shared_settle(struct share_sink *sink, struct shared *s);
/* The owner is gone: it is here and reset.  May drop s. */
void shared_lose(struct share_sink *sink, struct shared *s);

/* ---- exec: a connection goes on in the next image of this process ---- */

/* Exports it to nobody: it is in transit until shared_unpack().  0 or -errno. */
int shared_pack(struct share_sink *sink, struct shared *s);
/* s is new and exported: its former image has packed it. */
void shared_begin_packed(struct shared *s);
bool shared_is_packed(const struct shared *s);
/* It is here again, in this image or the next one; or lost.  May drop s. */
void shared_unpack(struct share_sink *sink, struct shared *s);

/* ---- members ---- */

/*
 * The program closed a member.  True: it is kept, and receives until another process does: in
 * between the kernel would; or it is kept for the processes on both sides of this one; or it was
 * dropped, because all others have closed it, too.
 */
bool shared_close_member(struct share_sink *sink, struct shared *s);
/*
 * Goes on with a member that withdraws, and offers the place of one where connections wait
 * unaccepted.  True: look again soon.  May drop s.
 */
bool shared_look(struct share_sink *sink, struct shared *s);
/*
 * MESSAGE_PENDING, from ch (NULL: it came back), forwarded so often: accepts what came with
 * it, or forwards it.  s NULL: unknown.  False: it is lost.
 */
bool shared_pending(struct share_sink *sink, struct shared *s, uint64_t id, struct channel *ch,
		    uint64_t hops);

/* ---- messages -------------------------------------------------------------------------- */

/* Where s is, seen from ch; NULL: unknown. */
enum message_place shared_place(const struct shared *s, const struct channel *ch);
/*
 * May the other end of ch send this about s?  MESSAGE_RECEIVED has to follow a
 * MESSAGE_PENDING as well, which the caller knows.
 */
bool shared_is_legal(const struct shared *s, const struct channel *ch,
		     const struct message *message);
/*
 * Acts on a legal message: EXPORT, ACK, NACK, CLOSED, OFFER, LOST, TO_KERNEL, STAYS, JOIN.
 * s NULL: unknown.  May drop s.
 */
void shared_receive(struct share_sink *sink, struct shared *s, struct channel *ch,
		    const struct message *message);
/*
 * A message that is not legal.  True: the channel goes on, because it was rerouted, and messages
 * meant for the process between may come; those that somebody waits for are answered, and what
 * came with a MESSAGE_PENDING goes back.  Its user sends MESSAGE_RECEIVED.
 */
bool shared_for_another(struct share_sink *sink, struct channel *ch, const struct message *message);
/* The other end executed a program and did not name this socket.  May drop s. */
void shared_unnamed(struct share_sink *sink, struct shared *s, struct channel *ch);

#endif
