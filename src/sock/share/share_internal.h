/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of processes that have connections in common share: see share.h. */
#ifndef SOCK_SHARE_SHARE_INTERNAL_H
#define SOCK_SHARE_SHARE_INTERNAL_H

#include "sock/share/channel.h"
#include "sock/share/share.h"

/* What is under way between us and sharing.toward; nothing of a connection that is here. */
enum sharing_state {
	SHARING_IDLE,
	SHARING_REQUESTED,  /* it was asked for there */
	SHARING_IN_TRANSIT, /* it was given there, and is not known to have arrived */
};

/*
 * What other processes have to do with a socket; control lock.  Made when it is first
 * needed: a forked child has thousands of sockets that it never uses.
 */
struct sharing {
	struct inet_sock *so;
	struct list asking;	/* it is to be asked for at ask_at */
	struct list member;	/* of those that others receive for, too */
	nsec_t stale;		/* since when nobody accepts what waits; 0: somebody does */
	struct channel *toward; /* there its owner is; NULL: it is here */
	nsec_t arrived;
	uint64_t from; /* ... by this channel: its number */
	nsec_t ask_at, pause;
	uint64_t cookie;	      /* the kernel's number of the twin; 0: not needed so far */
	uint32_t read_to, written_to; /* of the streams, when it arrived */
	int failed;		      /* it cannot come, nor be the kernel's; told once */
	enum sharing_state state;     /* written by sharing_set_state() */
	bool kept;		      /* the program closed it */
	bool offered;		      /* who joins takes our place ... */
	nsec_t offered_at;	      /* ... since then, where nobody accepts */
	bool withdrawing;	      /* it leaves when the last handshake is over ... */
	nsec_t withdraw_until;	      /* ... or then */
	struct channel *receiver;     /* to the process that joined; may be gone: receiver_of() */
	bool passing;		      /* it was asked for on behalf of others only */
	bool parting;		      /* to the kernel, when toward says that it has left it, too */
	enum verdict reason;	      /* ... and why */
};

/* Control lock, but for what says otherwise. */
struct share_process {
	struct list channels;
	struct list kept;      /* of inet_sock.link: closed here, held by others */
	struct list asking;    /* of sharing.asking: to be asked for, at sharing.ask_at */
	struct list exports;   /* on their way to others */
	struct list members;   /* of sharing.member: here, and received for by others, too */
	struct channel *up;    /* to our parent */
	struct channel *fresh; /* of the fork() under way */
	int fresh_fd;	       /* its other end */
	int epoll_fd;	       /* of all channels; hidden; -1: there never was one */
	bool exiting;
	bool executing;	     /* nothing comes or goes: the next image reads the messages */
	struct list pending; /* connections nobody has accepted, handed on and not yet received */
	/* internal thread */
	bool readable;
	/* any, atomic */
	uint32_t turns; /* counts arrivals and the like: what calls wait for */
	int busy;	/* there is something to do for share_run() */
	int looking;	/* members may not be empty */
	int look;	/* some socket has SOCK_ASKED */
};

extern struct share_process share_process;

void sharing_set_state(struct sharing *sharing, enum sharing_state next);

static inline bool sharing_is(const struct inet_sock *so, enum sharing_state state)
{
	return (so->sharing ? so->sharing->state : SHARING_IDLE) == state;
}

/* ---- share.c --------------------------------------------------------------------------- */

/* The lists are there. */
void share_init(void);
/* There is something to do for the internal thread. */
void share_busy(void);
/* Is there anything that a child could use? */
bool share_has_sockets(void);
/*
 * To a child that is going to be made: what it holds is what there is. Its end is hidden, and
 * the caller's. NULL: there is nothing to hold, or no memory.
 */
struct channel *share_new_channel(int *end);
/* Its messages are read from now on. */
void share_listen_to(struct channel *ch);
/* It acts on what has come so far; ch may be gone then. */
void share_read(struct channel *ch);
/* What can be read of fd wakes the internal thread, for share_serve(). */
bool share_watch(int fd);
/* A child may have it open for longer, and its end would be told for so long. */
void share_unwatch(const struct channel *ch);
/* Others may hold this one from now on. */
void share_note_held(uint64_t id);
/* NULL: no memory. */
struct sharing *share_of(struct inet_sock *so);
/* In which direction its owner is; NULL: here, or nobody knows any more. */
struct channel *share_toward(const struct inet_sock *so);
void share_set_toward(struct inet_sock *so, struct channel *ch);
/* A channel to processes that hold it, but not that one; NULL: there is none. */
struct channel *share_other_holder(const struct inet_sock *so, const struct channel *but);
bool share_may_export(const struct inet_sock *so);
/* Would a child made now have it away? */
bool share_is_known_to_children(const struct inet_sock *so);
bool share_is_kept(const struct inet_sock *so);
/* It went to the kernel: who holds it learns that. */
void share_tell_to_kernel(uint64_t id);
struct inet_sock *share_find(uint64_t id);
/* Calls that wait look again. */
void share_wake_waiters(void);
/* Kept, and for nobody: the object goes, and what it has here ends. */
void share_drop(struct inet_sock *so);
/* The process that had it died: it is here, and reset. */
void share_lose(struct inet_sock *so);
/*
 * A member that is away becomes the kernel's.  Not before its owner has left it: who calls
 * meanwhile is answered there, and nobody would accept him.
 */
void share_member_to_kernel(struct inet_sock *so, enum verdict reason);
/* Kept, and perhaps for nobody. */
void share_settle(struct inet_sock *so);
/* away, and known to nobody: its owner is there. False: no memory. */
bool share_begin_toward(struct inet_sock *so, struct channel *ch);
/* Kept, and the program has it again, as fd. */
void share_revive(struct inet_sock *so, int fd);
/* The kernel's number of a twin; 0: it is gone. */
uint64_t share_cookie(int fd);
/* Reads messages; does what is due. True: something is left for soon. */
void share_receive(void);
bool share_serve(void);

/* A listener or datagram socket: it has members instead of an owner. */
static inline bool share_is_member(const struct inet_sock *so)
{
	return so->inet != INET_TCP;
}

/* ---- share_export.c: connections on their way --------------------------------------------- */

/* For the program, or for somebody who asked us: not before it is polite. */
void share_request_for(struct inet_sock *so);
/* Asks for what is due. True: something is left for later. */
bool share_request_due(void);
/* Serves what was asked for there, as far as it is time. False: something is left. */
bool share_serve_requests(struct channel *ch);
/* It was given there, and has not arrived. */
bool share_is_in_transit(const struct channel *ch, uint64_t id);
/* What did not arrive there is ours again. */
void share_exports_back(const struct channel *ch);
void share_on_export(struct channel *ch, const struct message *message, int memfd);
void share_on_ack(struct channel *ch, uint64_t id);
/* *twin: of the sender, or -1; it is consumed where it is needed. */
void share_on_nack(struct channel *ch, const struct message *message, int *twin);
void share_on_stays(struct channel *ch, uint64_t id);

/* ---- share_late.c: frames that came after a connection had left -------------------------- */

/*
 * holder of the ring where it came: a copy of pkt follows connection id to the other end of the
 * channel of this number.  False: no memory.
 */
bool share_late(uint64_t channel, uint64_t id, const struct pkt *pkt);
/* What has come so far goes out. */
void share_send_late(void);
/* From whoever gave us the connection, for as long as such frames may come. */
void share_on_late(struct channel *ch, const struct message *message, int memfd);
/* Connection so has come by that channel before anybody had accepted it: so may its frames. */
void share_note_arrival(uint64_t channel, struct inet_sock *so);
/* In a forked child: nothing of that is ours. */
void share_forget_late(void);

/* ---- share_message.c ----------------------------------------------------------------------- */

/*
 * What a message asks for is done, if it is legal; memfd is consumed. False: it is not, which
 * ends the channel.
 */
bool share_act(struct channel *ch, const struct message *message, int memfd);

/* ---- share_receivers.c --------------------------------------------------------------------- */

void share_join(struct inet_sock *so, nsec_t used);
/* True: it is kept, until one of the others receives. */
bool share_close_member(struct inet_sock *so);
/* Others want to receive, too. False: not now. */
bool share_admit(struct inet_sock *so, struct channel *ch);
#define PENDING_HOPS_MAX 8 /* of what nobody is there to accept */
/* It was sent there, and has not been received. */
bool share_is_pending_at(const struct channel *ch, uint64_t id);
void share_on_join(struct channel *ch, const struct message *message);
/* Another process asks this one to receive: if it was about to leave the members, it stays. */
void share_member_stays(struct inet_sock *so, struct channel *ch);
void share_on_pending(struct channel *ch, const struct message *message, int *memfd);
void share_on_received(struct channel *ch, uint64_t id);
/* True: look again soon. */
bool share_look_at_members(void);
void share_pending_back(struct channel *ch);

/* ---- pass_mark.c: what the twin of a connection that was sent tells its receivers ---------- */

struct pass_mark {
	uint64_t key;	/* the senders' names are made of it; the same for all of them */
	uint32_t first; /* the first name that may be one of ours: strangers have those before it */
};

/* False: it was not sent. */
bool pass_mark_get(int fd, struct pass_mark *mark);
bool pass_mark_set(int fd, const struct pass_mark *mark);

/* ---- pass_transit.c: what was sent by SCM_RIGHTS and not yet received ------------------------ */

/* True: look again soon. */
bool pass_serve(void);
/* Somebody calls, and there is no descriptor for him: it is to be tried now and then. */
bool pass_is_paused(void);
/* It is on its way to somebody; he stands for those who hold it. NULL: it is not. */
struct channel *pass_holder(uint64_t id);
bool pass_any(void);
/* Somebody received it. */
void pass_on_claim(struct channel *ch, const struct message *message);
void pass_received(uint64_t id);
/* Those who receive it now will find it here. 0; -EBUSY: the twin cannot be marked; -errno. */
int pass_send(struct inet_sock *so, int unix_fd, uint64_t ticket);
/*
 * An end for a channel to whoever sent the twin with this mark; -errno.  Any thread, without
 * the control lock: it may wait for a second.
 */
int pass_connect(const struct pass_mark *mark);
void pass_fork_child(void);

/* ---- share_member.c: listeners and datagram sockets ------------------------------------ */

/* Can several processes receive for it, or could they if it were here? */
bool member_is(const struct inet_sock *so);
/* As transfer_begin_exported(), of the part that is of the kind. */
void member_begin_exported(struct inet_sock *so);
/* It is away: joins those who receive. 0, SOCK_KERNEL: not here, see so->verdict; -EAGAIN. */
int member_arrive(struct inet_sock *so);
/* After member_stop(): a SYN that was steered here may still come; what has begun may take to end. */
#define MEMBER_LATE (20 * NSEC_PER_MSEC)
#define MEMBER_HANDSHAKES_MAX (NSEC_PER_SEC / 2)
/* No new ones begin here. */
void member_stop(struct inet_sock *so);
/* They do again.  False: not all of them can. */
bool member_start(struct inet_sock *so);
/* Has a handshake begun here that is not over? */
bool member_has_handshakes(struct inet_sock *so);
/* Nobody here waits for it, and nothing waits in it. */
bool member_is_idle(struct inet_sock *so);
/* Receives no more and is away. */
void member_leave(struct inet_sock *so);
/* A connection that was not accepted, off its ring, for that channel; false: there is none. */
bool member_take_off(struct inet_sock *so, uint64_t channel, int *memfd);
/* One of them comes by a channel, or comes back (0). 0 or -errno. */
int member_take_pending(struct inet_sock *so, uint64_t channel, int memfd);

#endif
