/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of sock share: the whole socket object, the control lock,
 * flows, homes.
 */
#ifndef SOCK_CORE_INET_SOCK_H
#define SOCK_CORE_INET_SOCK_H

#include <errno.h>
#include <pthread.h>

#include "net/tcp/tcp.h"
#include "ring/progress.h"
#include "ring/ring.h"
#include "ring/rings.h"
#include "sock/core/control.h"
#include "sock/core/dst.h"
#include "sock/core/kernel_conns.h"
#include "sock/core/options.h"
#include "sock/core/ready.h"
#include "sock/core/sock.h"
#include "sock/core/sock_life.h"

struct inet_sock;
struct sharing;
struct move;
struct sock_kind;

/* A match of one socket on one ring. */
struct sock_flow {
	union {
		struct flow flow; /* first */
		struct shared_flow shared;
	};
	struct inet_sock *so;
	struct ring *ring;
	struct tcp_shard *shard; /* a listener's part on this ring, or NULL */
	uint32_t gen;
	bool multicast;
};

/* Whose datagrams of a group are wanted: these alone, or all but these.  Does not change. */
struct mcast_sources {
	bool exclude;
	unsigned n;
	uint32_t addr[]; /* network byte order */
};

/* As it is listed; a connection has its only flow in itself. */
struct sock_match {
	struct sock_flow f;		     /* first */
	struct list link;		     /* of inet_sock->flows; control lock */
	const struct mcast_sources *sources; /* multicast, its membership's; NULL: everybody */
};

static inline struct sock_flow *sock_flow_of(struct list *link)
{
	return &container_of(link, struct sock_match, link)->f;
}

static inline struct sock_match *sock_match_of(struct sock_flow *flow)
{
	return container_of(flow, struct sock_match, f);
}

#define UDP_DST_CACHE 256

/* Where a datagram goes, and what its headers say. */
struct udp_way {
	struct endpoint to;
	struct inaddr src; /* any: the route has one */
	int oif;	   /* 0: as the options and the route say */
	uint8_t tos, ttl;
	bool plain; /* all but to is as the options say */
};

/* Where an unconnected socket sends to. */
struct udp_dst {
	struct dst dst; /* first */
	union {
		struct endpoint to; /* of udp_state.cache */
		struct udp_way way; /* of udp_rare.ways */
	};
};

/* Where a datagram waits that was begun with MSG_MORE or UDP_CORK. */
enum udp_pending { UDP_PENDING_NOT, UDP_PENDING_HERE, UDP_PENDING_TWIN } __attribute__((packed));

struct udp_rare;

struct udp_state {
	/* holder */
	struct pkt *head, *tail;
	uint32_t bytes, count;
	uint32_t limit;		/* bytes that may wait */
	int os_countdown;	/* polls until the twin is looked at */
	struct dst dst;		/* connected to */
	struct udp_dst **cache; /* unconnected: by destination; NULL until needed */
	uint64_t dropped;
	struct list groups;	  /* control lock: multicast memberships, mcast.c */
	int claim;		  /* control lock: of its port, see port_claim.h; -1: none */
	struct udp_rare *rare;	  /* holder: what few sends need; NULL: none did */
	bool special;		  /* holder; any to read: udp_special.c sends, whatever it is */
	enum udp_pending pending; /* holder */
	bool connected;		  /* holder; control lock to write: it has a peer */
	bool forked;		  /* control lock: a child may have its twin; connected */
};

/* A connection waiting for accept(), and the connection itself. */
struct tcp_state_part {
	/* holder */
	struct tcp_conn conn;
	struct timer timer;	/* runs at tcp_deadline() or before */
	struct ring_work flush; /* tcp_flush() at the end of the burst */
	struct dst dst;
	struct flow flow;	    /* its only one; on the ring that is home */
	struct inet_sock *listener; /* of a child until it is accepted */
	uint32_t listener_gen;
	uint8_t error;	    /* what it died of; reported once */
	uint8_t kept_error; /* any, atomic: ended a call that moved bytes; for the next one */
	uint8_t orphan_as;  /* enum tcp_orphan: where it is counted */
};

struct listen_state {
	/* holder */
	struct list queue; /* of inet_sock.accept_link */
	unsigned backlog;
	int os_countdown;	    /* polls until the twin is looked at */
	int claim;		    /* control lock: as udp_state.claim */
	struct kernel_conns kernel; /* control lock */
	/* holder to write, any to read */
	unsigned waiting; /* children in the queue */
	/* any, atomic */
	int twin_taken; /* somebody accepts from the twin, which may block */
};

#define SOCK_NO_KEY UINT64_MAX /* nobody has needed a ring yet */

/* Who else uses the socket than where it lives, rx and tx: move.c. */
struct migration_candidate {
	uint64_t candidate;
	nsec_t not_before; /* there was no ring for it: no use to look sooner */
	uint8_t confirmed; /* in a row, by the candidate; 0: there is none */
};

enum inet_kind { INET_UDP, INET_TCP, INET_LISTEN, INET_KINDS } __attribute__((packed));

#define INET_RINGS 8

/*
 * Ordered by size, not by who writes what: of an idle connection this is all there is,
 * and 100,000 may be idle at once.
 */
struct inet_sock {
	struct sock sk; /* first */

	/* control lock */
	struct list link; /* of all sockets */
	union {
		struct list flows; /* UDP, listener: of struct sock_match */
		/*
		 * A child that waits for accept(), and has no such flows: holder of its
		 * listener's home, or on its way there, or to be aborted.
		 */
		struct list accept_link;
		struct inbox_item item;
	};
	struct move *move;	 /* under way to another ring, or NULL */
	struct sharing *sharing; /* what other processes have to do with it, share.c; NULL: nothing */

	/* control lock to write, any to read: rings with flows of ours, beside home */
	uint16_t rings[INET_RINGS]; /* rings_at() */

	/* any, atomic; control lock to write: of the rings it was placed on, or SOCK_NO_KEY */
	uint64_t rx_key, tx_key;

	/* set when made, read by all */
	uint64_t id; /* never used again */

	/* holder */
	struct migration_candidate *candidates; /* [2], rx and tx; NULL: nobody else so far */
	int rx_left, tx_left;			/* accesses until it is looked at who they are by */

	/* any, atomic; control lock to write: read before a call waits, msec, 0: none */
	uint32_t rcvtimeo, sndtimeo;

	/* holder; control lock to write */
	const struct sock_options *opt; /* shared; NULL: SOCK_TYPE_EPOLL */
	struct endpoint local, remote;
	uint32_t rcvlowat; /* what every packet asks for, of opt */
	int spare;	   /* the twin of a closed socket that still talks; -1 */
	bool noted;	   /* of opt, likewise: TOLD_ARRIVAL */
	bool told;	   /* of opt, likewise: any TOLD_* */
	enum inet_kind inet;
	bool bound;	 /* the twin has a local port; not of a connection that was accepted */
	bool bound_addr; /* the program chose the address */
	bool shut_rd, shut_wr;

	/* holder to write, by sock_life_set(); any, atomic, to read */
	enum sock_life life;

	/* control lock */
	enum verdict verdict;
	bool wildcard; /* bound to 0.0.0.0: follows addresses that come and go */
	bool raw_twin; /* of an accepted connection: it has no options yet; also any to read */
	bool joins;    /* its flows have, or may get, other receivers: sock_flows_inherited() */

	/* control lock to write, any to read */
	uint8_t n_rings; /* of rings[]; more than INET_RINGS: any ring may have some */

	/* any, atomic */
	bool close_pending; /* the program closed it; the last waiter does it */

	/* Memory of a kind ends with the kind's own: sock_alloc(). */
	union {
		struct udp_state udp;
		struct tcp_state_part tcp;
		struct listen_state listen;
	};
};

_Static_assert(sizeof(struct inet_sock) <= 960, "with its places in tables 1 KB at most");

static inline struct inet_sock *inet_of(struct sock *sk)
{
	return (struct inet_sock *)(void *)sk;
}

/* ---- what it is now -------------------------------------------------------------------- */

/* Any; it stays so while home is held. */
static inline enum sock_life sock_life(const struct inet_sock *so)
{
	return __atomic_load_n(&so->life, __ATOMIC_RELAXED);
}

/*
 * The only function that writes it.  Holder of home, or the socket is not yet, or not any
 * more, known to anybody.  The program's calls and other processes have the control lock,
 * too, except where a connection changes alone: HANDSHAKE, QUEUED, ORPHAN, and from
 * CONNECTING to CONNECTED or OPEN.
 */
static inline void sock_life_set(struct inet_sock *so, enum sock_life next)
{
	enum sock_life from = so->life;

	if (__builtin_expect(!sock_life_may(from, next), 0))
		sock_life_refused(from, next);
	if (__builtin_expect(sock_life_trace != NULL, 0))
		sock_life_trace(so, from, next);
	__atomic_store_n(&so->life, next, __ATOMIC_RELAXED);
}

static inline bool sock_life_is(const struct inet_sock *so, enum sock_life life)
{
	return sock_life(so) == life;
}

/* Is it one of these?  Of LIFE(). */
static inline bool sock_life_in(const struct inet_sock *so, unsigned lives)
{
	return lives & 1u << sock_life(so);
}

/* Is it a connection, whose state is here?  It may be connecting, or have ended. */
static inline bool sock_has_connection(const struct inet_sock *so)
{
	return sock_life(so) >= LIFE_HANDSHAKE;
}

/* It lives on without a program. */
static inline bool sock_is_orphan(const struct inet_sock *so)
{
	return sock_life_is(so, LIFE_ORPHAN);
}

/* The program closed it, other processes hold it. */
static inline bool sock_is_kept(const struct inet_sock *so)
{
	return sock_life_in(so, LIFE(KEPT) | LIFE(KEPT_EXPORTED) | LIFE(KEPT_RECEIVER));
}

/*
 * No reference is valid any more.  One of a KEPT_RECEIVER is, to the connections that it is
 * going to get.
 */
static inline bool sock_is_gone(const struct inet_sock *so)
{
	return sock_life_in(so, LIFE(FREE) | LIFE(CLOSED) | LIFE(KEPT) | LIFE(KEPT_EXPORTED) |
					LIFE(ORPHAN));
}

/* Holder, of a connection: the handshake is not over. */
static inline bool sock_is_connecting(const struct inet_sock *so)
{
	return so->tcp.conn.state == TCP_SYN_SENT || so->tcp.conn.state == TCP_SYN_RECEIVED;
}

/* Holder, of a connection: the engine has said closed. */
static inline bool sock_has_ended(const struct inet_sock *so)
{
	return so->tcp.conn.state == TCP_CLOSED;
}

/* ---- the process ------------------------------------------------------------------ */

/* What intercept gave sock_init(). */
extern struct sock_hooks sock_hooks;

/*
 * Starts what acceleration needs (netlink, the internal thread).  Control lock.
 * False: it cannot run; the user was told.
 */
bool sock_start(void);
/*
 * For this socket: VERDICT_ACCELERATED, or why it is the kernel's.  A thread may have changed
 * its network namespace (setns(2), unshare(2)): what we know of routes and interfaces is about
 * one of them.  A socket that comes from another process is looked at whether or not a thread
 * of ours did.  Control lock.
 */
enum verdict sock_start_for(const struct inet_sock *so);
/* It could not, or the process is at its end: nothing begins any more. */
bool sock_start_failed(void);
/* Control lock: it runs. */
bool sock_started(void);
/* Control lock: it does not run any more; ended: nor does it start again. */
void sock_start_over(bool ended);

/* ---- homes, events (holder) -------------------------------------------------------- */

/* holder of home: is it the socket's, and the socket the one that was meant? */
static inline bool sock_at_home(struct sock_ref ref, const struct ring *home)
{
	/* Pairs with a move: ARRIVE was posted before home was changed, see ring_catch_up(). */
	return __atomic_load_n(&ref.sk->home, __ATOMIC_ACQUIRE) == home &&
	       __atomic_load_n(&ref.sk->gen, __ATOMIC_RELAXED) == ref.gen;
}

/*
 * holder of home, or control lock: the ring it lives on.  Atomic, because LEAVE of a
 * move that is over compares it once more (move.c).
 */
static inline struct ring *sock_home(const struct inet_sock *so)
{
	return __atomic_load_n(&so->sk.home, __ATOMIC_RELAXED);
}

/*
 * Why a reference is not valid any more: the kernel has the socket, or it was closed.  While
 * it is on its way to the kernel the reference is still valid, and this SOCK_KERNEL.
 */
static inline int sock_gone(struct sock_ref ref)
{
	return __atomic_load_n(&ref.sk->left_gen, __ATOMIC_RELAXED) == ref.gen ? SOCK_KERNEL
									       : -EBADF;
}

/*
 * Holds the home ring of ref.  0; SOCK_KERNEL: the socket left us; -EBADF: the socket is gone; -EAGAIN: this
 * thread holds a ring already (a signal handler came in between).
 */
static inline __attribute__((always_inline)) int
sock_hold_mode(struct sock_ref ref, struct ring **ring, enum hold_mode mode)
{
	struct ring *home;

	for (;;) {
		/* Pairs with sock_set_home() and with the ARRIVE of a move. */
		home = __atomic_load_n(&ref.sk->home, __ATOMIC_ACQUIRE);
		if (__builtin_expect(!hold_acquire(&home->hold, mode), 0))
			return -EAGAIN;
		if (__builtin_expect(sock_at_home(ref, home), 1)) {
			/* Not before: it may have gone, and come back just now. */
			ring_catch_up(home);
			*ring = home;
			return 0;
		}
		ring_release(home, mode);
		if (!sock_ref_valid(ref))
			return sock_gone(ref);
	}
}

int sock_hold_cold(struct sock_ref ref, struct ring **ring);

/* Control lock: so->local becomes the address the kernel gave the twin.  0 or -errno. */
int sock_read_local(struct inet_sock *so);

/* Control lock: what the twin has, or otherwise. */
int sock_twin_int(const struct inet_sock *so, int level, int name, int otherwise);
/* holder, or not yet known to anybody: takes the reference. */
void sock_options_use(struct inet_sock *so, const struct sock_options *opt);

/* Control lock, or not yet known to anybody; holding home: it lives on ring from now on. */
void sock_set_home(struct inet_sock *so, struct ring *ring);

/* A timeout of its calls that wait. */
static inline nsec_t sock_timeout(const uint32_t *msec)
{
	return __atomic_load_n(msec, __ATOMIC_RELAXED) * NSEC_PER_MSEC;
}

/* holder; others may set SOCK_ASKED at any time. */
static inline uint32_t sock_own_events(const struct inet_sock *so)
{
	return __atomic_load_n(&so->sk.events, __ATOMIC_RELAXED);
}

static inline void sock_set_events(struct inet_sock *so, uint32_t events)
{
	/* Pairs with sock_events(): who sees a bit sees what it tells of. */
	__atomic_store_n(&so->sk.events, events, __ATOMIC_RELEASE);
}

/* ---- objects ------------------------------------------------------------------------ */

/* Any, also a holder: a zeroed object with a new generation; NULL: no memory. */
struct inet_sock *sock_alloc(enum sock_type kind);
/* holder: nothing refers to it by pointer any more. */
void sock_free(struct inet_sock *so);

/* Once at start; around fork: the child leaves the objects of its parent where they are. */
void sock_alloc_init(void);
void sock_alloc_fork_prepare(void);
void sock_alloc_fork_parent(void);
void sock_alloc_fork_child(void);

/* Control lock: calls fn for each socket there is. */
void sock_each(void (*fn)(struct inet_sock *so, void *arg), void *arg);
void sock_list_init(void);
void sock_list_add(struct inet_sock *so);
/* The same, of inet_sock.link; sockets that the program closed are not there. */
const struct list *sock_list(void);
/* Any, atomic: numbers of sockets, each used once.  The last one there was. */
uint64_t sock_new_id(void);
uint64_t sock_last_id(void);
/* Before there is one: the next one comes after this. */
void sock_skip_ids(uint64_t last);
/* Sockets up to this number may have been in other processes, too; any, atomic. */
extern uint64_t sock_shared_id;

/* Control lock: sock_close(). */
void sock_close_locked(struct sock_ref ref);

/*
 * Control lock: the program closed it, and it lives on for other processes: no reference
 * is valid any more, it is on no list.  sock_end(): so does the rest, as if it were
 * closed now.
 */
void sock_keep(struct inet_sock *so);
/* A connection that was kept, and no list has: the program has it again, as fd. */
void sock_unkeep(struct inet_sock *so, int fd);
void sock_end(struct inet_sock *so);

/* What the socket's options ask of the way to an endpoint; src any: the kernel chooses. */
static inline struct dst_query sock_way_query(const struct inet_sock *so, const struct endpoint *to,
					      struct inaddr src)
{
	struct dst_query query = {.to = *to,
				  .src = src,
				  .oif = so->opt->bind_ifindex,
				  .mark = so->opt->mark,
				  .tos = so->opt->tos,
				  .onlink = so->opt->dontroute};

	if (so->inet == INET_UDP && !query.oif && !addr_is_multicast(&to->addr))
		query.oif = so->opt->uc_ifindex;
	return query;
}

/* Control lock; the reference of a live socket. */
static inline struct sock_ref sock_ref_of(struct inet_sock *so)
{
	struct sock_ref ref = {&so->sk, so->sk.gen};

	return ref;
}

/*
 * Control lock: gives the socket to the kernel; its flows go.  A datagram socket with
 * something to read stays ours until that is read: udp_linger().
 */
int sock_leave(struct inet_sock *so, enum verdict reason);

/* ---- flows (control lock, no ring held) ------------------------------------------------ */

/*
 * Adds a match on a ring; how it is delivered follows from the kind of socket.
 * 0 or -errno.
 */
int sock_flow_add(struct inet_sock *so, struct ring *ring, const struct flow_key *key,
		  struct sock_flow **flow);
/* As above for a multicast group; sources NULL: from everybody. */
int sock_flow_add_group(struct inet_sock *so, struct ring *ring, const struct flow_key *key,
			const struct mcast_sources *sources, struct sock_flow **flow);
void sock_flow_del(struct sock_flow *flow);
/*
 * The receivers of an address and port.  The flows of a datagram socket with SO_REUSEADDR
 * or SO_REUSEPORT, and of a listener with SO_REUSEPORT, are shared when they are added:
 * sock_attach() joins those who have them already, sock_flows_del() leaves.
 *
 * sock_flows_share(): so are, from now on, those of a bound socket that had them alone
 * until its options were changed.
 *
 * sock_flows_inherited(): the twin is in other processes, too (fork, SCM_RIGHTS), where
 * objects of their own stand for it.  Each of them is told so before its sock_attach(),
 * and joins there with an equal part of the senders, datagrams and connections alike; the
 * one that is attached already has to be told before them, or theirs end with
 * VERDICT_FLOW (in its process: nobody else can change its flow).
 *
 * -errno: of one flow or more, which are as they were.
 */
int sock_flows_share(struct inet_sock *so);
int sock_flows_inherited(struct inet_sock *so);

/* The socket lives on ring from now on if it has no home yet. */
void sock_adopt_home(struct inet_sock *so, struct ring *ring);
void sock_flows_del(struct inet_sock *so);

/* The ring of an interface and key; the user is told once when it fails. */
struct ring *sock_ring_for(int ifindex, uint64_t key);
/* Where the socket receives frames for one of its addresses. */
struct ring *sock_rx_ring(struct inet_sock *so, int ifindex, const struct inaddr *local);
/* The same beside a ring it sends by; that one when there is no other. */
struct ring *sock_rx_ring_beside(struct inet_sock *so, struct ring *tx);
/* Flows are on other rings than before: pollers and sleepers have to look anew. */
void sock_rings_changed(struct inet_sock *so);
/* Of a connection, whose flow is its home's. */
void sock_tell_pollers(void);
/* Can frames of this interface be ours at all? */
bool sock_link_usable(const struct link *link);

/*
 * Matches for every local address the socket is bound to (all interfaces for a
 * wildcard), from remote only if it is connected.  Sets the home if there is
 * none yet.  0, or the reason why there is nothing to accelerate.
 */
enum verdict sock_attach(struct inet_sock *so);

/*
 * The rings that sock_attach() would want, for as long as the process lives, and leave to
 * receive for this socket by them when it has no privileges any more.
 */
void sock_reserve(struct inet_sock *so);

/* SO_BINDTODEVICE was set: matches of a bound socket follow. */
void sock_device_changed(struct inet_sock *so);
/* Interfaces or addresses changed: matches of a bound socket follow. */
void sock_reattach(struct inet_sock *so);
/* Their interface is gone: matches go, and so does a home on it, with what is unread. */
void sock_detach_from(struct inet_sock *so, int ifindex);

/*
 * Control lock: do others on this host have the address and port who receive by the
 * kernel, so that taking its frames would take theirs?
 */
bool sock_port_shared(struct inet_sock *so);

/*
 * Control lock: others may see that its frames are taken, if its port may be shared;
 * before the kernel shows that it has the port.  Harmless when it is done.
 */
void sock_port_claim(struct inet_sock *so);
/* The kernel receives for it, or nobody does. */
void sock_port_unclaim(struct inet_sock *so);

/*
 * Control lock, now and then: a socket of somebody else that came later shares a port
 * with one of ours (a second reader of a feed): from now on the kernel receives for
 * both.
 */
bool sock_ports_look(void); /* true: somebody was seen for the first time: again, soon */
/* Control lock: a socket has just left to the kernel; those who share its port follow. */
void sock_ports_follow(void);
extern bool sock_ports_may_be_shared; /* control lock: SO_REUSE* was ever set */

/* ---- UDP ------------------------------------------------------------------------------ */

static inline bool udp_lingers(const struct inet_sock *so)
{
	return sock_life_is(so, LIFE_LINGERING);
}

/* ---- options as a whole ------------------------------------------------------------------ */

/* Control lock: the defaults of the kind, as the twin has them.  False: no memory. */
bool sock_options_init(struct inet_sock *so, const struct sock_kind *kind);
/*
 * Control lock: the new options act from now on.  quickack: TCP_QUICKACK was set, which acts
 * each time.  0 or -errno.
 */
int sock_options_apply(struct sock_ref ref, const struct sock_options *values, bool quickack);
/* Control lock: the twin has what the connection inherited. */
void sock_twin_prepare(struct inet_sock *so);
/* Control lock: connections that are accepted inherit what the listener has now. */
int sock_options_for_children(struct inet_sock *so);

#endif
