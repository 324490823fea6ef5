/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of src/sock/share have in common; see share.h. */
#ifndef SOCK_SHARE_SHARE_INTERNAL_H
#define SOCK_SHARE_SHARE_INTERNAL_H

#include "sock/share/channel.h"
#include "sock/share/share.h"

/* State of an exported socket towards sharing.toward; SHARING_IDLE if it is not exported. */
enum sharing_state {
	SHARING_IDLE,
	SHARING_REQUESTED,  /* requested there */
	SHARING_IN_TRANSIT, /* exported there, no answer yet */
};

/*
 * What this process knows about a socket that others hold. Control lock. Made when it is
 * first needed, because a forked child has thousands of sockets that it never uses.
 */
struct sharing {
	struct inet_sock *so;
	struct list asking;	/* in share_process.asking: request it at ask_at */
	struct list member;	/* in share_process.members */
	nsec_t stale;		/* since when connections wait unaccepted; 0: none do */
	struct channel *toward; /* direction of the owner; NULL: this process */
	nsec_t arrived;
	uint64_t from; /* serial of the channel it arrived by */
	nsec_t ask_at, pause;
	uint64_t cookie;	      /* SO_COOKIE of the twin; 0: not needed so far */
	uint32_t read_to, written_to; /* positions in the streams when it arrived */
	int failed;		      /* errno: import and kernel handover failed; reported once */
	enum sharing_state state;     /* written by sharing_set_state() only */
	bool offered;		      /* MESSAGE_OFFER was sent: the next to join replaces us */
	nsec_t offered_at;	      /* when it was sent, because nobody accepts here */
	bool withdrawing;	      /* withdraws when the last handshake is over ... */
	nsec_t withdraw_until;	      /* ... or at this time */
	struct channel *receiver; /* to the process that joined; dangling if closed: receiver_of() */
	bool passing;		  /* requested on behalf of other processes only */
	bool parting;		  /* falls back to the kernel when toward has left it, too ... */
	enum verdict reason;	  /* ... for this reason */
};

/* Sharing state of this process. Control lock, except where a field says otherwise. */
struct share_process {
	struct list channels;
	struct list kept;      /* of inet_sock.link: closed here, held by others */
	struct list asking;    /* of sharing.asking: to be requested at sharing.ask_at */
	struct list exports;   /* of struct export: sent, not yet acknowledged */
	struct list members;   /* of sharing.member: we receive, and others may, too */
	struct channel *up;    /* to the parent; NULL: none, or it is gone */
	struct channel *fresh; /* of the fork() in progress */
	int fresh_fd;	       /* the other end of fresh */
	int epoll_fd;	       /* of all channels; hidden; -1: not yet made */
	bool exiting;
	bool executing;	     /* exec in progress: channels are left to the next image */
	struct list pending; /* of struct pending: sent, not yet received */
	/* internal thread */
	bool readable;
	/* any, atomic */
	uint32_t turns; /* futex: counts changes that blocked calls wait for */
	int busy;	/* share_run() has something to do */
	int looking;	/* members may not be empty: share_run() looks at them */
	int look;	/* some socket has SOCK_ASKED */
};

extern struct share_process share_process;

void sharing_set_state(struct sharing *sharing, enum sharing_state next);

static inline bool sharing_is(const struct inet_sock *so, enum sharing_state state)
{
	return (so->sharing ? so->sharing->state : SHARING_IDLE) == state;
}

/* ---- share.c ----------------------------------------------------------------------- */

/* Initialises the lists of share_process, once. */
void share_init(void);
/* Empties them, without freeing what they list. */
void share_init_lists(void);
/* any: makes the internal thread call share_run() soon. */
void share_busy(void);
/* Is there any socket that a child could use? */
bool share_has_sockets(void);
/*
 * A channel to a child that is about to be made; it records what the child will hold. *end:
 * the child's end, hidden; the caller owns it. NULL: there is nothing to share, or no
 * memory.
 */
struct channel *share_new_channel(int *end);
/* Adds the channel to share_process.channels and reads its messages from now on. */
void share_listen_to(struct channel *ch);
/* Acts on all messages received so far; ch may be destroyed then. */
void share_read(struct channel *ch);
/*
 * The internal thread calls share_serve() when fd becomes readable. False: that is
 * impossible.
 */
bool share_watch(int fd);
/*
 * Before the channel's descriptor is closed. A child may still have it open, and epoll
 * would report its end for as long.
 */
void share_unwatch(const struct channel *ch);
/* Other processes may hold sockets up to this number from now on. */
void share_note_held(uint64_t id);
/*
 * so->sharing, made if there is none. NULL: no memory. Until then, an exported socket has
 * its owner at the parent.
 */
struct sharing *share_of(struct inet_sock *so);
/* The direction of the owner; NULL: this process, or nobody knows any more. */
struct channel *share_toward(const struct inet_sock *so);
/* so->sharing exists: sets the direction of the owner, NULL: this process. */
void share_set_toward(struct inet_sock *so, struct channel *ch);
/* A channel to a process that holds so, other than but; NULL: there is none. */
struct channel *share_other_holder(const struct inet_sock *so, const struct channel *but);
/* Is so a connection that is here? */
bool share_may_export(const struct inet_sock *so);
/* Would so be exported in a child made now? */
bool share_is_known_to_children(const struct inet_sock *so);
/* Sends MESSAGE_TO_KERNEL to everyone who holds the socket. */
void share_tell_to_kernel(uint64_t id);
/* The socket of this number, kept ones included; NULL: none. */
struct inet_sock *share_find(uint64_t id);
/* Wakes the calls that wait in share_fetch(). */
void share_wake_waiters(void);
/*
 * so is kept, and nobody holds it any more: ends the connection, if it is here, and the
 * object.
 */
void share_drop(struct inet_sock *so);
/*
 * The owner is gone: so is here and reset. A kept socket is dropped, a member joins, and a
 * socket that is leaving for the kernel leaves now.
 */
void share_lose(struct inet_sock *so);
/*
 * An exported member falls back to the kernel, but only after its owner has: until then the
 * owner answers new connections, and nobody would accept them.
 */
void share_member_to_kernel(struct inet_sock *so, enum verdict reason);
/* If so is kept and nobody else holds it: drops it. */
void share_settle(struct inet_sock *so);
/* so is exported and in no list yet: sets its owner's direction. False: no memory. */
bool share_begin_toward(struct inet_sock *so, struct channel *ch);
/* so is kept, and the program has it again, as fd. */
void share_revive(struct inet_sock *so, int fd);
/* SO_COOKIE of a twin; 0: it is closed. */
uint64_t share_cookie(int fd);
/*
 * share_receive() reads all channels. share_serve() answers requests, sends what is due and
 * flushes; true: something is left to do soon.
 */
void share_receive(void);
bool share_serve(void);

/* Is it a listener or datagram socket, which has members instead of an owner? */
static inline bool share_is_member(const struct inet_sock *so)
{
	return so->inet != INET_TCP;
}

/* ---- share_export.c: connections in transit ---------------------------------------- */

/*
 * Requests the connection, for the program or for another process, at sharing.ask_at at the
 * earliest.
 */
void share_request_for(struct inet_sock *so);
/* Sends requests that are due. True: some are left for later. */
bool share_request_due(void);
/* Answers the requests of the other end that may be answered by now. False: some are left. */
bool share_serve_requests(struct channel *ch);
/* Was it exported there, and is there no answer yet? */
bool share_is_in_transit(const struct channel *ch, uint64_t id);
/* Takes back all exports to ch that were not acknowledged. */
void share_exports_back(const struct channel *ch);
/* The share_on_ functions act on legal messages.  memfd stays the caller's. */
void share_on_export(struct channel *ch, const struct message *message, int memfd);
void share_on_ack(struct channel *ch, uint64_t id);
/* *twin: the sender's, or -1; set to -1 if it was consumed. */
void share_on_nack(struct channel *ch, const struct message *message, int *twin);
void share_on_stays(struct channel *ch, uint64_t id);

/* ---- share_late.c: frames that came after a connection was exported ---------------- */

/*
 * holder of the ring where pkt arrived: sends a copy of it after connection id, by the
 * channel of this number. False: no memory.
 */
bool share_late(uint64_t channel, uint64_t id, const struct pkt *pkt);
/* Sends all frames posted so far. */
void share_send_late(void);
/*
 * Delivers late frames, if they come by the channel the connection came by, and soon after
 * it.
 */
void share_on_late(struct channel *ch, const struct message *message, int memfd);
/* so, not yet accepted by the program, came by that channel; its late frames may follow. */
void share_note_arrival(uint64_t channel, struct inet_sock *so);
/* In a forked child: forgets frames and arrivals of the parent. */
void share_forget_late(void);

/* ---- share_message.c --------------------------------------------------------------- */

/*
 * Acts on a message, if it is legal. Consumes memfd. False: it is illegal, and the caller
 * ends the channel.
 */
bool share_act(struct channel *ch, const struct message *message, int memfd);

/* ---- share_receivers.c ------------------------------------------------------------- */

/* so is exported: joins its receivers.  used: when the program asked for it; 0: it did not. */
void share_join(struct inet_sock *so, nsec_t used);
/* The program closed so. True: it is kept and goes on receiving until another process joins. */
bool share_close_member(struct inet_sock *so);
/* Lets ch's side join the receivers of so. False: not now, try again. */
bool share_admit(struct inet_sock *so, struct channel *ch);
#define PENDING_HOPS_MAX 8 /* times that a pending connection is forwarded */
/* Was a MESSAGE_PENDING for this listener sent there and not yet answered? */
bool share_is_pending_at(const struct channel *ch, uint64_t id);
void share_on_join(struct channel *ch, const struct message *message);
/* Another process offers its place: if so is withdrawing, it stays. */
void share_member_stays(struct inet_sock *so, struct channel *ch);
/* *memfd: set to -1 if it was consumed. */
void share_on_pending(struct channel *ch, const struct message *message, int *memfd);
void share_on_received(struct channel *ch, uint64_t id);
/*
 * Goes on with members that withdraw, and offers the place of members where connections
 * wait unaccepted. True: look again soon.
 */
bool share_look_at_members(void);
/* Takes back all that was sent to ch and not received. */
void share_pending_back(struct channel *ch);

/* ---- pass_mark.c: what the twin of a passed connection tells its receivers --------- */

struct pass_mark {
	uint64_t key;	/* senders' addresses are made of it; the same for all senders */
	uint32_t first; /* the first name that may be a sender's: strangers have those before it */
};

/* False: fd has no mark: it was not passed. */
bool pass_mark_get(int fd, struct pass_mark *mark);
bool pass_mark_set(int fd, const struct pass_mark *mark);

/* ---- pass_transit.c: connections sent by SCM_RIGHTS and not yet received ----------- */

/* Accepts receivers that connect, and ends messages that are over. True: look again soon. */
bool pass_serve(void);
/*
 * A receiver is waiting to connect, and there is no descriptor for it: call pass_serve()
 * now and then.
 */
bool pass_is_paused(void);
/*
 * The channel that stands for the receivers of a connection in transit; it is never read.
 * NULL: the connection is not in transit.
 */
struct channel *pass_holder(uint64_t id);
/* Is any connection in transit? */
bool pass_any(void);
/* A receiver sent MESSAGE_CLAIM. */
void pass_on_claim(struct channel *ch, const struct message *message);
/* A receiver of the connection is known: one message less is in transit. */
void pass_received(uint64_t id);
/*
 * so is about to be sent by unix_fd, in message ticket: marks its twin and listens for
 * receivers. 0; -EBUSY: the twin cannot be marked; -errno.
 */
int pass_send(struct inet_sock *so, int unix_fd, uint64_t ticket);
/*
 * Connects to a process that sent the twin with this mark. A descriptor for a channel, the
 * caller's; -errno. Any thread, without the control lock: it may block for a second.
 */
int pass_connect(const struct pass_mark *mark);
void pass_fork_child(void);

/* ---- share_member.c: listeners and datagram sockets -------------------------------- */

/*
 * Is so a listener or datagram socket for which several processes receive, or could if it
 * were not exported?
 */
bool member_is(const struct inet_sock *so);
/* The part of transfer_begin_exported() that is specific to members. */
void member_begin_exported(struct inet_sock *so);
/*
 * so is exported: joins its receivers. 0; SOCK_KERNEL: the interface cannot be used here,
 * see so->verdict; -EAGAIN.
 */
int member_arrive(struct inet_sock *so);
/* nsec after member_stop(): for SYNs steered here before, and for handshakes to end. */
#define MEMBER_LATE (20 * NSEC_PER_MSEC)
#define MEMBER_HANDSHAKES_MAX (NSEC_PER_SEC / 2)
/* Starts no new handshakes: new packets go to the other receivers. */
void member_stop(struct inet_sock *so);
/* Undoes member_stop(). False: not all flows could be started. */
bool member_start(struct inet_sock *so);
/* Is any handshake in progress here? */
bool member_has_handshakes(struct inet_sock *so);
/* No thread blocks on it, and no epoll set watches it. */
bool member_is_idle(struct inet_sock *so);
/* Stops receiving: so is exported. */
void member_leave(struct inet_sock *so);
/*
 * Exports an unaccepted connection, or all unread datagrams, for the channel of this
 * serial. False: there is none.
 */
bool member_take_off(struct inet_sock *so, uint64_t channel, int *memfd);
/*
 * Imports what member_take_off() exported; channel: serial of the one it came by, 0: it
 * came back. 0 or -errno.
 */
int member_take_pending(struct inet_sock *so, uint64_t channel, int memfd);

#endif
