/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The whole object of a TCP or UDP socket, and what the files of sock do with it: its state,
 * home ring, flows and options.  "holder" is the holder of the socket's home ring.
 */
#ifndef SOCK_CORE_INET_SOCK_H
#define SOCK_CORE_INET_SOCK_H

#include <errno.h>

#include "net/tcp/tcp.h"
#include "ring/progress.h"
#include "ring/ring.h"
#include "ring/rings.h"
#include "sock/core/control.h"
#include "sock/core/dst.h"
#include "sock/core/kernel_conns.h"
#include "sock/core/msg/error_queue.h"
#include "sock/core/msg/mcast_part.h"
#include "sock/core/options.h"
#include "sock/core/port/port_share.h"
#include "sock/core/ready.h"
#include "sock/core/shm_state.h"
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

/* A flow in inet_sock.flows.  (A connection embeds its only flow: tcp_state_part.flow.) */
struct sock_match {
	struct sock_flow f;	/* first */
	struct list link;	/* of inet_sock->flows; control lock */
	struct mcast_part part; /* of the multicast membership */
};

static inline struct sock_flow *sock_flow_of(struct list *link)
{
	return &container_of(link, struct sock_match, link)->f;
}

static inline struct sock_match *sock_match_of(struct sock_flow *flow)
{
	return container_of(flow, struct sock_match, f);
}

/* Which socket has the unfinished datagram of MSG_MORE or UDP_CORK: none, this one, the twin. */
enum udp_pending { UDP_PENDING_NOT, UDP_PENDING_HERE, UDP_PENDING_TWIN } __attribute__((packed));

struct udp_state {
	/* holder */
	struct pkt *head, *tail;
	uint32_t bytes, count;
	uint32_t limit;			 /* of bytes; 0: SO_VMA_SHUTDOWN_RX */
	int twin_left, key_left, counts; /* of receives: sock_access_slow() */
	struct dst dst;			 /* of a connected socket */
	struct udp_dst **cache;	  /* of an unconnected one, by destination; NULL until needed */
	struct stats_sock *stats; /* the slot of inet_sock.stats_slot, or NULL */
	uint64_t dropped;
	struct list groups;	 /* control lock: multicast memberships, mcast.c */
	int claim;		 /* control lock: on its port, see port_claim.h; -1: none */
	struct udp_rare *rare;	 /* holder: state that few sends need; NULL until one does */
	struct udp_pace *pace;	 /* holder: NULL until a paced send */
	struct filter *filter;	 /* holder; any, atomic, to compare with NULL: extra/filter.h */
	struct local_udp *local; /* holder, control lock to write: local/local_udp.h; or NULL */
	struct xtreme *xtreme;	 /* holder; of socketxtreme, or NULL: extra/xtreme.h */
	uint8_t special; /* UDP_*; holder to write, any to read: udp_special.c makes all sends */
	enum udp_pending pending; /* holder */
	bool connected;		  /* it has a peer; holder, with the control lock to write */
	bool forked;		  /* control lock: connected, and a child may have its twin */
	enum verdict wire;	  /* control lock; see sock_set_local() */
	bool in_place;		  /* holder: recvfrom_zcopy() was called */
	bool by_local; /* holder: local senders reach it, or no frames do: receives ask local_turn() */
};

/* Its receive callback: none; recv() has to read first; it has to see what is there first. */
enum tcp_filter { TCP_FILTER_NONE, TCP_FILTER_WAITS, TCP_FILTER_HIDES };

/* A connection, accepted or not. */
struct tcp_state_part {
	/* holder */
	struct inet_sock *listener; /* of a child until it is accepted; first, as in shm_state */
	uint32_t listener_gen;
	uint8_t error;	    /* errno that ended the connection; reported once */
	uint8_t kept_error; /* any, atomic: met by a call that moved bytes; for the next one */
	uint8_t sends_as;   /* any, atomic: TCP_SENDS_QUEUED; enum tcp_orphan, of an orphan */
	uint8_t filter;	    /* enum tcp_filter: its receive callback, tcp_filter.c */
	struct tcp_conn conn;
	struct timer timer;	/* runs at tcp_deadline() or before */
	struct ring_work flush; /* tcp_flush() at the end of the burst */
	struct dst dst;
	struct flow flow; /* its only one, on the home ring */
};

struct handed;

struct listen_state {
	/* holder */
	struct list queue; /* of inet_sock.accept_link */
	unsigned backlog;
	int os_countdown;	      /* polls until the twin is polled */
	int claim;		      /* control lock: as udp_state.claim */
	struct kernel_conns kernel;   /* control lock */
	struct local_listener *local; /* control lock: for local connections, or NULL */
	enum verdict wire;	      /* as of struct udp_state */
	/* holder with the control lock to write, any, atomic, to read */
	struct handed *handed; /* connections that the kernel has: tcp_handed.h */
	/* holder to write, any to read */
	unsigned waiting; /* children in the queue, and those */
	/* any, atomic */
	int twin_taken;	 /* a thread is in accept(2) on the twin, which may block */
	unsigned coming; /* local connections on their way to the queue */
	bool held_back;	 /* a local connection waits until accept() makes room */
	nsec_t syn_at;	 /* VMA_TCP_MAX_SYN_RATE: tcp_syn_in_rate(), by the holders of the shards */
};

#define SOCK_NO_KEY UINT64_MAX /* no ring was needed yet */

enum inet_kind { INET_UDP, INET_TCP, INET_LISTEN, INET_LOCAL, INET_KINDS } __attribute__((packed));

#define INET_RINGS 8
#define SOCK_HIDDEN UINT32_MAX /* inet_sock.rcvlowat: no call reads, because nothing is readable */

/*
 * Fields are ordered by size, not grouped by writer: an idle connection has no other memory,
 * and 100,000 may be idle at once.
 */
struct inet_sock {
	struct sock sk; /* first */

	/* Like sk, valid for as long as the memory exists: a call with a stale reference reads them. */
	uint64_t id; /* any, atomic; never reused */
	/* any, atomic; control lock to write */
	uint32_t rcvtimeo, sndtimeo; /* msec, 0: no timeout; read before a call blocks */
	bool close_pending;	     /* the program closed it; the last waiter completes that */
	uint8_t n_rings; /* entries of rings[]; more than INET_RINGS: any ring may have flows */
	uint16_t rings[INET_RINGS]; /* with flows of ours, home may be among them: for rings_at() */

	/* any, atomic; control lock, holder to write: see stats/sock_stats.h; 0: no slot */
	uint16_t stats_slot;
	/* holder; control lock to write: see port_keeper.h: the twin of a closed socket that lives on; -1 */
	int spare;

	/* control lock */
	struct list link; /* of all sockets */
	union {
		struct list flows; /* UDP, listener: of struct sock_match */
		/* an unaccepted child, which has no listed flows */
		struct list accept_link; /* of listen_state.queue; holder of the listener's home */
		struct inbox_item item;	 /* posted to the listener's home, or to be aborted */
	};
	struct move *move;	 /* in progress, or NULL */
	struct sharing *sharing; /* state of process sharing, share.c; NULL: none needed so far */

	/* any, atomic; control lock to write: of the rings it was placed on, or SOCK_NO_KEY */
	uint64_t rx_key, tx_key;

	/* holder */
	struct sock_rare *rare; /* access.h; NULL: nothing of it was needed so far */
	int rx_left, tx_left;	/* accesses until something is due: access.h */

	/* holder; control lock to write */
	const struct sock_options *opt; /* shared; NULL: SOCK_TYPE_EPOLL */
	struct endpoint local, remote;
	uint32_t rcvlowat; /* copy of opt->rcvlowat; SOCK_HIDDEN with TCP_FILTER_HIDES */
	bool noted;	   /* opt->told has a bit of TOLD_ARRIVAL, a callback, or latencies */
	bool told;	   /* opt->told has any bit, latencies, or a connection's callback */
	enum inet_kind inet;
	bool bound;	 /* the twin has a local port; false for accepted connections */
	bool bound_addr; /* the program chose the address */
	bool shut_rd, shut_wr;
	uint8_t family; /* AF_INET, AF_INET6: see msg/family.h; set when made, read by all */

	/* holder to write, by sock_life_set() only; any, atomic, to read */
	enum sock_life life;

	/* control lock */
	enum verdict verdict;
	bool wildcard : 1;	 /* bound to 0.0.0.0: its flows follow the host's addresses */
	bool joins : 1;		 /* other processes receive by its flows: sock_flows_inherited() */
	bool must : 1;		 /* a rule of libvma.conf says so, for one use or more: strict.h */
	bool unbound_v6only : 1; /* the library has bound the twin, which is IPV6_V6ONLY since */
	bool raw_twin; /* accepted, and no options were set on the twin yet; any to read */

	/* The memory of an object ends with its kind's member: sock_alloc(). */
	union {
		struct udp_state udp;
		struct tcp_state_part tcp;
		struct listen_state listen;
		struct shm_state shm;
	};
};

_Static_assert(sizeof(struct inet_sock) <= 960, "with its places in tables 1 KB at most");

static inline struct inet_sock *inet_of(struct sock *sk)
{
	return (struct inet_sock *)(void *)sk;
}

/* ---- what it is now -------------------------------------------------------------------- */

/* any; does not change while the caller holds home. */
static inline enum sock_life sock_life(const struct inet_sock *so)
{
	return __atomic_load_n(&so->life, __ATOMIC_RELAXED);
}

/*
 * The only writer of ->life.  holder, unless no other thread can reach the socket.  What a call of
 * the program or another process causes needs the control lock, too; what a connection does by
 * itself does not: to HANDSHAKE, QUEUED and ORPHAN, and from CONNECTING to CONNECTED or OPEN.
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

/* Is its state one of lives, an OR of LIFE()? */
static inline bool sock_life_in(const struct inet_sock *so, unsigned lives)
{
	return lives & 1u << sock_life(so);
}

/* Is it a connection whose state is in this process?  It may be connecting, or have ended. */
static inline bool sock_has_connection(const struct inet_sock *so)
{
	return sock_life(so) >= LIFE_HANDSHAKE;
}

/*
 * Is it a connection that the kernel does not know?  One of the engine, or a local one, which
 * sock_has_connection() does not count.
 */
static inline bool sock_is_connection(const struct inet_sock *so)
{
	return sock_life(so) >= LIFE_LOCAL;
}

/* Is it a connection that no process holds, and that lives on until it ends? */
static inline bool sock_is_orphan(const struct inet_sock *so)
{
	return sock_life_is(so, LIFE_ORPHAN);
}

/* Did the program close it, while other processes hold it? */
static inline bool sock_is_kept(const struct inet_sock *so)
{
	return sock_life_in(so, LIFE(KEPT) | LIFE(KEPT_EXPORTED) | LIFE(KEPT_RECEIVER));
}

/*
 * Is no reference to it valid any more?  KEPT_RECEIVER is not among these states: connections
 * that it is about to get refer to its generation.
 */
static inline bool sock_is_gone(const struct inet_sock *so)
{
	return sock_life_in(so, LIFE(FREE) | LIFE(CLOSED) | LIFE(KEPT) | LIFE(KEPT_EXPORTED) |
					LIFE(ORPHAN));
}

/* holder, of a connection: is the handshake incomplete? */
static inline bool sock_is_connecting(const struct inet_sock *so)
{
	return so->tcp.conn.state == TCP_SYN_SENT || so->tcp.conn.state == TCP_SYN_RECEIVED;
}

/* holder, of a connection: has the TCP engine closed it? */
static inline bool sock_has_ended(const struct inet_sock *so)
{
	return so->tcp.conn.state == TCP_CLOSED;
}

/* ---- the process ------------------------------------------------------------------ */

/* The argument of sock_init(). */
extern struct sock_hooks sock_hooks;

/* Control lock: starts netlink and the internal thread, once.  False: failed, the user was told. */
bool sock_start(void);
/*
 * Control lock: calls sock_start(), and checks that so is in the network namespace of our
 * netlink sockets, which routes and interfaces are read from.  VERDICT_ACCELERATED, or the
 * reason why the kernel serves so.  The check is made only
 * if a thread may have changed its namespace (setns(2), unshare(2)); for a socket that comes
 * from another process the caller makes it in any case.
 */
enum verdict sock_start_for(const struct inet_sock *so);
/* Did the start fail, or does the process end?  Then no further socket is accelerated. */
bool sock_start_failed(void);
/* any: does acceleration run? */
bool sock_started(void);
/* Control lock: acceleration does not run any more; for_good: it must not start again. */
void sock_stopped(bool for_good);

/* ---- homes, events (holder) -------------------------------------------------------- */

/* holder of ring home: does the socket live on it, and is the reference valid? */
static inline bool sock_at_home(struct sock_ref ref, const struct ring *home)
{
	/* Pairs with a move: ARRIVE was posted before home was changed, see ring_catch_up(). */
	return __atomic_load_n(&ref.sk->home, __ATOMIC_ACQUIRE) == home &&
	       __atomic_load_n(&ref.sk->gen, __ATOMIC_RELAXED) == ref.gen;
}

/* holder, or control lock.  Atomic: LEAVE of a finished move compares it once more (move.c). */
static inline struct ring *sock_home(const struct inet_sock *so)
{
	return __atomic_load_n(&so->sk.home, __ATOMIC_RELAXED);
}

/*
 * Why a reference is not valid any more.  SOCK_KERNEL: the kernel serves the socket; -EBADF:
 * the socket was closed.  While a socket falls back to the kernel, the reference is still
 * valid and this is SOCK_KERNEL already.
 */
static inline int sock_gone(struct sock_ref ref)
{
	return __atomic_load_n(&ref.sk->left_gen, __ATOMIC_RELAXED) == ref.gen ? SOCK_KERNEL
									       : -EBADF;
}

/*
 * any: holds the home ring of ref.  0: *ring is held; SOCK_KERNEL: the kernel serves the
 * socket; -EBADF: the socket is gone; -EAGAIN: this thread holds a ring already (it runs a
 * signal handler that interrupted the holder).
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
			/* Not earlier: the socket may have moved away and back meanwhile. */
			ring_catch_up(home);
			*ring = home;
			return 0;
		}
		ring_release(home, mode);
		if (!sock_ref_valid(ref))
			return sock_gone(ref);
	}
}

/* As sock_hold_mode(), out of line, in the thread mode of the process. */
int sock_hold_cold(struct sock_ref ref, struct ring **ring);
/*
 * app, no ring held: as sock_hold_cold(), of a socket that is not exported; fetches it if it is, for as
 * long as another process takes it in between.  Also an error of the fetch.
 */
int sock_hold_here(struct sock_ref ref, struct ring **ring);

/* Control lock: stores the local address and port of the twin in so->local.  0 or -errno. */
int sock_read_local(struct inet_sock *so);

/* Control lock (unless no other thread knows so), holder of the old home: so moves to ring. */
void sock_set_home(struct inet_sock *so, struct ring *ring);

/* msec: rcvtimeo or sndtimeo of a socket.  0: calls block without a timeout. */
static inline nsec_t sock_timeout(const uint32_t *msec)
{
	return __atomic_load_n(msec, __ATOMIC_RELAXED) * NSEC_PER_MSEC;
}

/* holder: events without those of the twin.  Other threads may set SOCK_ASKED at any time. */
static inline uint32_t sock_own_events(const struct inet_sock *so)
{
	return __atomic_load_n(&so->sk.events, __ATOMIC_RELAXED);
}

/* holder, of a connection: has an error or the end of the stream come? */
static inline bool sock_is_over(const struct inet_sock *so)
{
	uint32_t events = sock_own_events(so), over = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

	return events & (events & SOCK_COMPLETED ? over & ~EPOLLERR : over);
}

static inline void sock_set_events(struct inet_sock *so, uint32_t events)
{
	/* Pairs with sock_events(): a thread that sees a bit sees what the bit reports. */
	__atomic_store_n(&so->sk.events, events, __ATOMIC_RELEASE);
}

/* ---- objects ------------------------------------------------------------------------ */

/* any, holding a ring or not: a zeroed object with a new generation.  NULL: no memory. */
struct inet_sock *sock_alloc(enum sock_type kind);
/* holder: no pointer to so is left. */
void sock_free(struct inet_sock *so);
/* holder: so->rare is not NULL afterwards.  False: no memory. */
bool sock_rare_make(struct inet_sock *so);

/* sock_alloc_init(): once at start.  The others: around fork; the child abandons the objects. */
void sock_alloc_init(void);
void sock_alloc_fork_prepare(void);
void sock_alloc_fork_parent(void);
void sock_alloc_fork_child(void);

/* Control lock: if HOLD_SINGLE has ended, so gets the calls of the new mode: they are quicker. */
void sock_ops_renew(struct inet_sock *so);

/* Control lock: calls fn for each listed socket; fn may remove it from the list. */
void sock_each(void (*fn)(struct inet_sock *so, void *arg), void *arg);
/* any: before the library has threads. */
void sock_list_init(void);
/* Control lock: a new socket, or one that is used again. */
void sock_list_add(struct inet_sock *so);
/* The list itself, of inet_sock.link.  Sockets that the program closed are not in it. */
const struct list *sock_list(void);
/* any: a number for a socket, given once; the last number that was given. */
uint64_t sock_new_id(void);
uint64_t sock_last_id(void);
/* Before the first socket is made: its number will be greater than last. */
void sock_skip_ids(uint64_t last);
/* Other processes may hold, or have held, sockets up to this number.  any, atomic. */
extern uint64_t sock_shared_id;

/* Control lock: as sock_close(), for TCP and UDP sockets. */
void sock_close_locked(struct sock_ref ref);

/*
 * Control lock: the program closed so, and it lives on for other processes.  Afterwards it is
 * in no list, and no reference to it is valid (but see sock_is_gone()).
 */
void sock_keep(struct inet_sock *so);
/* Control lock: so is a kept connection in no list; the program has it again, as fd. */
void sock_unkeep(struct inet_sock *so, int fd);
/* Control lock: ends so, kept or not, as if the program closed it now and it were not shared. */
void sock_end(struct inet_sock *so);

/* A query for the route by the socket's options, and by a scope first; src any: the kernel chooses. */
static inline struct dst_query sock_way_query(const struct inet_sock *so, const struct endpoint *to,
					      struct inaddr src)
{
	struct dst_query query = {.to = *to,
				  .src = src,
				  .oif = to->scope ? (int)to->scope : so->opt->bind_ifindex,
				  .mark = so->opt->mark,
				  .tos = options_tos(so->opt, &to->addr),
				  .onlink = so->opt->dontroute};

	if (so->inet == INET_UDP && !query.oif && !addr_is_multicast(&to->addr))
		query.oif = addr_is_v4(&to->addr) ? so->opt->uc_ifindex : so->opt->uc_ifindex6;
	return query;
}

/* Control lock, or holder of its home, or it has just been made: a reference to a live socket. */
static inline struct sock_ref sock_ref_of(struct inet_sock *so)
{
	struct sock_ref ref = {&so->sk, so->sk.gen};

	return ref;
}

/*
 * Control lock: the socket falls back to the kernel, and its flows are removed.  A datagram
 * socket with unread data stays here until that was read: udp_linger().  0; -EBUSY: it is a
 * connection, which the kernel does not know.
 */
int sock_leave(struct inet_sock *so, enum verdict reason);
/*
 * The same for a connection that is exported, and that the twin now has.  It stays exported to the end:
 * calls of other threads wait, and do not take it for a socket that was never connected.
 */
int sock_leave_exported(struct inet_sock *so, enum verdict reason);
/*
 * holder of home, or known to no other thread: another process has the socket from now on, and
 * its calls fetch it.
 */
void sock_become_exported(struct inet_sock *so);

/* ---- flows (control lock, no ring held) ------------------------------------------------ */

/*
 * Adds a match on a ring; the kind of socket determines the delivery function.  flow: NULL,
 * or set to the new flow.  0 or -errno.
 */
int sock_flow_add(struct inet_sock *so, struct ring *ring, const struct flow_key *key,
		  struct sock_flow **flow);
/* As sock_flow_add(), for a multicast group. */
int sock_flow_add_group(struct inet_sock *so, struct ring *ring, const struct flow_key *key,
			const struct mcast_part *part, struct sock_flow **flow);
void sock_flow_del(struct sock_flow *flow);
/*
 * Receivers that share an address and port.  The flows of a datagram socket with SO_REUSEADDR
 * or SO_REUSEPORT, and of a listener with SO_REUSEPORT, are shared from the start:
 * sock_attach() joins the receivers that there are, sock_flows_del() withdraws.
 *
 * sock_flows_share(): options of a bound socket were changed, so its flows, which had no
 * other receivers, are shared from now on.
 *
 * sock_flows_inherited(): other processes hold the twin, too (fork, SCM_RIGHTS), with objects
 * of their own for it.  Call it for each of these objects before its sock_attach(), which
 * then joins with an equal part of the senders, for datagrams and connections alike.  Call it
 * first for the object that is attached already: only its process can change its flow, and
 * until then the others end with VERDICT_FLOW.
 *
 * 0, or -errno of one or more flows, which are unchanged.
 */
int sock_flows_share(struct inet_sock *so);
int sock_flows_inherited(struct inet_sock *so);

/* The socket lives on ring from now on if it has no home yet. */
void sock_adopt_home(struct inet_sock *so, struct ring *ring);
/* Removes all flows.  A move in progress is finished first, or cancelled if so has ended. */
void sock_flows_del(struct inet_sock *so);

/* The ring of an interface and key, opened at need.  NULL: failed; the user is told once. */
struct ring *sock_ring_for(int ifindex, uint64_t key);
/* The ring where so receives frames for local, one of its addresses.  NULL: failed. */
struct ring *sock_rx_ring(struct inet_sock *so, int ifindex, const struct inaddr *local);
/* The same on the interface of tx, a ring that so sends by; tx if that fails. */
struct ring *sock_rx_ring_beside(struct inet_sock *so, struct ring *tx);
/* Flows of so are on other rings than before: threads that poll or sleep look again. */
void sock_rings_changed(struct inet_sock *so);
/* any: the same for a connection, whose only flow is on its home ring. */
void sock_tell_pollers(void);
/*
 * Can sockets on this interface be accelerated?  VERDICT_ACCELERATED, or why not: _INTERFACE, or
 * _DENIED by a rule.  Tells the user once if it is left alone.
 */
enum verdict sock_link_verdict(const struct link *link);

static inline bool sock_link_usable(const struct link *link)
{
	control_assert_held();
	control_assert_no_ring();
	return sock_link_verdict(link) == VERDICT_ACCELERATED;
}

/*
 * Adds matches for every local address that the socket is bound to (a wildcard: those of all
 * interfaces); a connected socket receives from its peer only.  Sets the home if there is
 * none yet.  VERDICT_ACCELERATED, or the reason why the kernel serves the socket.
 */
enum verdict sock_attach(struct inet_sock *so);
/* Control lock: local peers reach the receiver, and no frames, for the reason that its verdict was so far. */
void sock_set_local(struct inet_sock *so);
/*
 * Control lock: its verdict for users, and for those who insist on acceleration: that for frames, if some
 * were expected.
 */
enum verdict sock_told_verdict(const struct inet_sock *so);

/*
 * Before the process gives up its privileges: keeps the rings that sock_attach() would use
 * open for the life of the process, and gets the permission to receive by them for so.
 */
void sock_reserve(struct inet_sock *so);

/* SO_BINDTODEVICE was set: adapts the matches of a bound socket. */
void sock_device_changed(struct inet_sock *so);
/* Interfaces or addresses changed: adapts the matches of a bound socket. */
void sock_reattach(struct inet_sock *so);
/* The interface is gone: removes the matches on it.  A home on it is left, with unread data. */
void sock_detach_from(struct inet_sock *so, int ifindex);

/* ---- UDP ------------------------------------------------------------------------------ */

static inline bool udp_lingers(const struct inet_sock *so)
{
	return sock_life_is(so, LIFE_LINGERING);
}

#endif
