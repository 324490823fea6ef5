/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of src/sock/share have in common; see share.h. */
#ifndef SOCK_SHARE_SHARE_INTERNAL_H
#define SOCK_SHARE_SHARE_INTERNAL_H

#include "sock/share/channel.h"
#include "sock/share/share.h"
#include "sock/share/share_machine.h"

/*
 * What this process knows about a socket that others hold. Control lock. Made when it is
 * first needed, because a forked child has thousands of sockets that it never uses.
 */
struct sharing {
	struct shared shared; /* first: the machine's */
	struct inet_sock *so;
	struct list asking;	      /* in share_process.asking: to be requested at ask_at */
	struct list member;	      /* in share_process.members */
	uint64_t cookie;	      /* SO_COOKIE of the twin; 0: not needed so far */
	uint32_t read_to, written_to; /* positions in the streams when it arrived */
	int memfd;		      /* in transit: the bytes that were exported; else -1 */
	struct sock_ref listener;     /* of a local connection that was exported; sk NULL: none */
	nsec_t exported_at;
	bool passed;	     /* packed for a relay, not for the next image */
	enum verdict reason; /* parting: falls back to the kernel for this reason */
};

/* Sharing state of this process. Control lock, except where a field says otherwise. */
struct share_process {
	struct list channels;
	struct list kept;      /* of inet_sock.link: closed here, held by others */
	struct list asking;    /* of sharing.asking: to be requested later */
	struct list members;   /* of sharing.member: we receive, and others may, too */
	struct channel *up;    /* to the parent; NULL: none, or it is gone */
	struct channel *fresh; /* of the fork() in progress */
	int fresh_fd;	       /* the other end of fresh */
	bool fresh_executes;   /* in the child, before share_fork_child(): it is to be inherited */
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

/* Control lock: does the parent hold so, too? */
static inline bool share_parent_holds(const struct inet_sock *so)
{
	control_assert_held();
	return share_process.up && channel_holds(share_process.up, so->id);
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
 * What the machine knows of so, up to date; made if there is none. NULL: no memory. Until
 * then, an exported socket has its owner at the parent.
 */
struct shared *share_of(struct inet_sock *so);
/* As share_of(), for an event that need not be remembered: *plain is used if there is none. */
struct shared *share_view(struct inet_sock *so, struct sharing *plain);
/* The direction of the owner; NULL: this process, or nobody knows any more. */
struct channel *share_toward(const struct inet_sock *so);
/* A channel to a process that holds so, other than but; NULL: there is none. */
struct channel *share_other_holder(const struct inet_sock *so, const struct channel *but);
/* Is so a connection that is here? */
bool share_may_export(const struct inet_sock *so);
/* Would so be exported in a child made now? */
bool share_is_known_to_children(const struct inet_sock *so);
/* The socket of this number, kept ones included; NULL: none. */
struct inet_sock *share_find(uint64_t id);
/* Wakes the calls that wait in share_fetch(). */
void share_wake_waiters(void);
/* If so is kept and nobody else holds it: drops it. */
void share_settle(struct inet_sock *so);
/* Its connection is in transit, and no answer has come. */
bool share_is_in_transit(const struct inet_sock *so);
/* so is exported and in no list yet: sets its owner's direction. False: no memory. */
bool share_begin_toward(struct inet_sock *so, struct channel *ch);
/* so is kept, and the program has it again, as fd. */
void share_revive(struct inet_sock *so, int fd);
/*
 * share_receive() reads all channels. share_serve() answers requests, sends what is due and
 * flushes; true: something is left to do soon.
 */
void share_receive(void);
bool share_serve(void);

/* Is it a listener or datagram socket, which has members instead of an owner? */
static inline bool share_is_member(const struct inet_sock *so)
{
	return !sock_has_owner(so);
}

/* ---- share_sink.c: what the machine does ------------------------------------------- */

/* The process as the machine sees it, up to date. */
struct share_sink *share_sink(void);
/*
 * The machine acts on a message. fd: what came with it, or -1; set to -1 if it was consumed.
 * s: NULL: unknown.
 */
void share_sink_receive(struct shared *s, struct channel *ch, const struct message *message,
			int *fd);
/* The machine answers a message that is not legal.  fd: as above.  False: the channel ends. */
bool share_sink_for_another(struct channel *ch, const struct message *message, int *fd);
/*
 * What came with a MESSAGE_PENDING by ch, or that came back (NULL), is accepted or
 * forwarded; *memfd: set to -1 if it was consumed. False: it is lost.
 */
bool share_sink_pending(uint64_t id, struct channel *ch, uint64_t hops, int *memfd);
/* Requests the connection, for the program or for another process, soon. */
void share_request_for(struct inet_sock *so);
/* Sends requests that are due. True: some are left for later. */
bool share_request_due(void);
/* Answers the requests of the other end that may be answered by now. False: some are left. */
bool share_serve_requests(struct channel *ch);

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

/* ---- share_receivers.c: what waits at a member is sent to another process ---------- */

/* Sends all unaccepted connections, or unread datagrams, to another process. */
void share_send_waiting(struct inet_sock *so, struct channel *to);
/* Sends what came with a MESSAGE_PENDING, or came back. Consumes memfd. */
void share_send_pending(struct channel *to, uint64_t id, uint64_t flags, int memfd);
/* Was a MESSAGE_PENDING for this listener sent there and not yet answered? */
bool share_is_pending_at(const struct channel *ch, uint64_t id);
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
/* The twin is the program's connection now: whoever receives it is not to look for a sender. */
void pass_mark_remove(int fd);

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
/* Does it receive, by flows or as a listener for local connections? */
bool member_receives(const struct inet_sock *so);
/* The part of transfer_begin_exported() that is specific to members. */
void member_begin_exported(struct inet_sock *so);
/*
 * so is exported: joins its receivers. 0; SOCK_KERNEL: the interface cannot be used here,
 * see so->verdict; -EAGAIN.
 */
int member_arrive(struct inet_sock *so);
/* Starts no new handshakes: new packets go to the other receivers. */
void member_stop(struct inet_sock *so);
/* Undoes member_stop(). False: not all flows could be started. */
bool member_start(struct inet_sock *so);
/* Is any handshake in progress here? */
bool member_has_handshakes(struct inet_sock *so);
/* No thread blocks on it, and no epoll set watches it. */
bool member_is_idle(struct inet_sock *so);
/* It gets nothing new: removes its flows, and queues the local connections that wait for room. */
void member_end_flows(struct inet_sock *so);
/* Stops receiving: so is exported. */
void member_leave(struct inet_sock *so);
/*
 * Exports an unaccepted connection, or all unread datagrams, for the channel of this
 * serial. False: there is none.
 */
bool member_take_off(struct inet_sock *so, uint64_t channel, int *memfd);
/*
 * Imports what member_take_off() exported; channel: serial of the one it came by, 0: it
 * came back. 0; SHARE_UNABLE: the frames of the connection cannot be received here; -errno.
 */
int member_take_pending(struct inet_sock *so, uint64_t channel, int memfd);

#endif
