/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kinds of sockets (UDP, TCP, listener, local connection) do differently.
 *
 * The directories of sock have an order (tests/lint/rooms_test.sh), and each calls only those
 * below it.  What core and options need from higher ones goes through two constant tables:
 * struct sock_kind, one for each kind, and struct sock_upcalls, one for the process.
 * lifecycle.c, which is above all directories, fills both.
 *
 * Role		as each member says.  "control lock" includes that no ring is held, unless
 *		the member says "holder", too.  A member whose comment ends with "NULL" may be
 *		NULL: the kind has nothing to do then.
 */
#ifndef SOCK_CORE_KIND_H
#define SOCK_CORE_KIND_H

#include "base/param.h"
#include "net/icmp.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/core/inet_sock.h"
#include "sock/core/stats/sock_stats.h"

/* X(NAME, MODE): a hot call is instantiated once for each thread mode, as call_NAME(). */
#define SOCK_MODES(X)          \
	X(single, HOLD_SINGLE) \
	X(spin, HOLD_SPIN)     \
	X(mutex, HOLD_MUTEX)   \
	X(yield, HOLD_YIELD)

struct filter_kind;
struct vma_message_t;
struct xtreme_batch;
struct xtreme_name;

struct sock_kind {
	uint8_t protocol; /* IPPROTO_UDP, IPPROTO_TCP */
	/* [HOLD_MODES], of a new socket; NULL: sockets become this kind later (a listener) */
	const struct sock_ops *ops;
	flow_fn deliver;	/* of its flows */
	flow_fn deliver_xtreme; /* the same with VMA_SOCKETXTREME.  NULL: deliver */

	/* control lock: initialises the kind's part of a new object, which has its options. */
	void (*init)(struct inet_sock *so);
	/* control lock: sets the kind's own defaults, in opt and in the twin. */
	void (*default_options)(struct inet_sock *so, struct sock_options *opt);

	/* ---- flows: control lock, or holder of the flow's ring ---- */

	/* control lock: before the flow is listed on its ring.  False: no memory.  NULL. */
	bool (*flow_begin)(struct inet_sock *so, struct sock_flow *flow);
	/* holder: the flow is shared by several receivers from now on.  NULL. */
	void (*flow_shared)(struct sock_flow *flow);
	/* holder: the flow was taken off its ring.  NULL. */
	void (*flow_end)(struct sock_flow *flow);
	/* control lock: frees what flow_begin() made.  NULL. */
	void (*flow_free)(struct sock_flow *flow);
	/*
	 * control lock: removes the socket's flows, and adds those that follow from the present
	 * addresses and options.  NULL: a connection, which has none.
	 */
	void (*attach_anew)(struct inet_sock *so);
	/* control lock: removes the socket's flows; attach_anew() (not NULL) follows.  NULL. */
	void (*detach)(struct inet_sock *so);
	/* control lock: sock_flows_del() has removed all flows; some may be added later.  NULL. */
	void (*detached)(struct inet_sock *so);
	/* holder of home, ring: so leaves it and takes its unread data along.  NULL. */
	void (*leave_home)(struct inet_sock *so, struct ring *ring);
	/* control lock: SO_BINDTODEVICE was set.  NULL. */
	void (*device_changed)(struct inet_sock *so);
	/* control lock: the kernel receives for its multicast groups from now on.  NULL. */
	void (*groups_to_kernel)(struct inet_sock *so);
	/* control lock: where it stores the claim on its port (port_claim.h).  NULL. */
	int *(*claim)(struct inet_sock *so);
	/* holder: an ICMP error quotes a packet of this flow.  NULL. */
	void (*icmp_error)(struct ring *ring, struct flow *flow, const struct icmp_error *error);

	/* ---- its end ---- */

	/*
	 * control lock: the socket falls back to the kernel, which receives for it from now on.
	 * True: it has unread data, and leaves when that was read.  NULL: false.
	 */
	bool (*linger)(struct inet_sock *so);
	/* control lock: it falls back to the kernel, its flows are still there.  NULL. */
	void (*leaving)(const struct inet_sock *so);
	/*
	 * holder of home: the program closed it, or the kernel serves it now.  True: the object
	 * lives on and frees itself; it may be gone as soon as the ring is released.
	 */
	bool (*close)(struct inet_sock *so, struct ring *ring);
	/* control lock: it ends, its flows are removed.  NULL. */
	void (*ended)(struct inet_sock *so);
	/* holder of home: nobody will accept it: resets and frees it.  NULL: it is no child. */
	void (*abandon)(struct inet_sock *so, struct ring *ring);

	/* ---- the extra API ---- */

	/*
	 * app: as recv(2), without a copy if possible; see struct sock_zcopy.  flags has
	 * MSG_DONTWAIT at most.  NULL: data can only be copied.
	 */
	ssize_t (*recv_zcopy)(struct sock_ref ref, struct sock_zcopy *zcopy, int flags);
	/* What its receive callback needs. NULL: it has none. */
	const struct filter_kind *filter;
	/*
	 * app: the headers of what a connected socket sends, without payload, in header, which
	 * has FRAME_HDR_MAX bytes.  Their length; -ENOTCONN; SOCK_KERNEL.
	 */
	int (*headers)(struct sock_ref ref, uint8_t *header);
	/*
	 * Control lock, no ring held: the ring by which the socket sends to an address.  0;
	 * -ENODATA: none does; -EINVAL: no address.  NULL: it has one destination.
	 */
	int (*tx_ring)(struct inet_sock *so, const struct sockaddr *to, socklen_t len,
		       struct ring **ring);
	/*
	 * holder: the program gave back a packet that held_fill() was called for with charge; the
	 * socket may have become another kind meanwhile.  NULL.
	 */
	void (*held_freed)(struct inet_sock *so, uint32_t charge);

	/*
	 * holder: adds the packets that it has to b, as far as there is room.  True: some are
	 * left, for the next poll.  NULL: it has none.
	 */
	bool (*xtreme_take)(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
			    const struct xtreme_name *name);

	/* ---- batches, and messages that the program writes into frames (vma.h) ---- */

	/*
	 * app: vma_recv_batch(), vma_send_batch() of messages whose pointers were checked; flags
	 * has MSG_DONTWAIT at most.  *done: how many; what is returned is about the next one:
	 * 0: all that is possible was done; SOCK_KERNEL: it needs recv or send of struct sock_ops;
	 * -errno.  NULL: they do it.
	 */
	int (*recv_batch)(struct sock_ref ref, struct vma_message_t *messages, unsigned count,
			  int flags, unsigned *done);
	int (*send_batch)(struct sock_ref ref, struct vma_message_t *messages, unsigned count,
			  int flags, unsigned *done);
	/*
	 * holder: how long the headers of the next message will be, and how long that may be.  0;
	 * -ENOTCONN; SOCK_FETCH.  NULL: no message can be written into a frame.
	 */
	int (*room)(const struct inet_sock *so, uint32_t *header, size_t *most);
	/*
	 * holder of home: sends len bytes that are at `at` in pkt, a frame of home; to: NULL: the
	 * connected peer.  len: the port has pkt.  SOCK_KERNEL: they have to be copied; -errno: the
	 * caller still has pkt.  Not NULL if room is not.
	 */
	ssize_t (*commit)(struct inet_sock *so, struct ring *ring, struct pkt *pkt, uint32_t at,
			  size_t len, const struct endpoint *to);

	/* ---- options: control lock, unless said otherwise ---- */

	/*
	 * setsockopt(2), called before the twin's: 0 or -errno is the result of the call;
	 * SOCK_KERNEL: treat the option as for any socket.  NULL: SOCK_KERNEL.
	 */
	int (*set_option)(struct sock_ref ref, int level, int name, const void *val, socklen_t len);
	/* The twin accepted an option of the kind's own level: stores its meaning in opt. */
	void (*mirror)(struct inet_sock *so, int name, const void *val, struct sock_options *opt);
	/* setsockopt(2) of a multicast membership: 0 or -errno.  NULL: it has none. */
	int (*set_group)(struct inet_sock *so, int level, int name, const void *val, socklen_t len);
	/* holder: so->opt changed; quickack: TCP_QUICKACK was set.  NULL. */
	void (*options_changed)(struct inet_sock *so, bool quickack);
	/* so->opt changed: adapts what depends on it on other rings.  NULL. */
	void (*options_applied)(struct inet_sock *so);
	/* An option was set: adapts flows that depend on it.  NULL. */
	void (*option_followed)(struct inet_sock *so, int level, int name);
	/* No lock, no ring held: setsockopt(2) succeeded and is about to return.  NULL. */
	void (*option_set)(struct sock_ref ref, int level, int name);
	/* No lock, no ring held: getsockopt(2); SOCK_KERNEL: ask the twin.  NULL: SOCK_KERNEL. */
	int (*get_option)(struct sock_ref ref, int level, int name, void *val, socklen_t *len);
	/* The present size of a buffer, as the kernel counts it.  NULL: buffers do not grow. */
	uint32_t (*buffer_size)(const struct inet_sock *so, bool receive);

	/* ---- statistics ---- */

	/* holder: stores in the slot what only a reader's ask stores; of this kind alone. */
	void (*publish)(const struct inet_sock *so, struct stats_sock *slot,
			struct sock_stats_seen *seen);
};

/* Indexed by enum inet_kind. */
struct sock_call;

extern const struct sock_kind *const sock_kinds[INET_KINDS];

static inline const struct sock_kind *sock_kind_of(const struct inet_sock *so)
{
	return sock_kinds[so->inet];
}

/* The function of its flows in this process. */
static inline flow_fn sock_deliver_fn(const struct sock_kind *kind)
{
	return params.socketxtreme && kind->deliver_xtreme ? kind->deliver_xtreme : kind->deliver;
}

/* any: the kind that the socket was made as: that of TCP for a listener. */
static inline const struct sock_kind *sock_kind_made(const struct sock *sk)
{
	return sock_kinds[sk->type == SOCK_TYPE_TCP ? INET_TCP : INET_UDP];
}

/* Of sockets that processes share: has it one owner, not members?  A stream socket, but no listener. */
static inline bool sock_has_owner(const struct inet_sock *so)
{
	return so->inet == INET_TCP || so->inet == INET_LOCAL;
}

/* Result of a call that found the socket exported: its caller fetches it and calls again. */
#define SOCK_FETCH (-4097)
/* The longest time that a non-blocking call waits for that. */
#define SHARE_FETCH_MAX NSEC_PER_SEC

/* What a receive of a datagram socket that local senders reach takes next. */
enum local_turn {
	LOCAL_TURN_OURS, /* the oldest datagram of the queue, if there is one */
	LOCAL_TURN_LOOK, /* call sock_look_at_twin(), holding no ring, and ask again */
	LOCAL_TURN_TWIN, /* what the twin has; if it has nothing, ask again */
};
/* What the receive says. */
enum {
	LOCAL_TURN_DUE = 1,	/* by the count of receives it is time to look at the twin */
	LOCAL_TURN_PEEKS = 2,	/* it takes nothing away */
	LOCAL_TURN_LOOKED = 4,	/* it was told to look, and has */
	LOCAL_TURN_NOTHING = 8, /* it was told that it is the twin's turn, which had nothing */
	LOCAL_TURN_EARLY = 16,	/* home was not polled yet: another datagram may be there */
};

#define LOCAL_UDP_OPS (2 * HOLD_MODES)

/* What core needs from higher directories, for sockets of all kinds. */
struct sock_upcalls {
	/* control lock: opens netlink and starts the internal thread.  0 or -errno. */
	int (*start)(void);
	/* sock_exit() */
	void (*exit)(void);

	/* ---- wait ---- */

	/* The set's descriptor has another number from now on. */
	void (*epoll_set_fd)(struct epoll *epoll, int fd);
	void (*epoll_destroy)(struct epoll *epoll);
	/* holder: removes the socket from all epoll sets. */
	void (*epoll_sock_closed)(struct sock *sk);
	/* control lock: moves its entries to the sets of the kernel. */
	void (*epoll_sock_left)(struct sock *sk);

	/* ---- move: control lock ---- */

	/* Finishes, or cancels, a move in progress; see move/move.h. */
	void (*move_settle)(struct inet_sock *so);
	void (*move_cancel)(struct inet_sock *so);
	/* holder of home: the program closed it. */
	void (*move_closed)(struct inet_sock *so);
	/*
	 * A datagram socket: sends its unread datagrams to the twin.  True: the kernel serves
	 * the socket now.
	 */
	bool (*unread_to_kernel)(struct inet_sock *so);
	/* A port was opened: the internal thread tells it which addresses the host has lost. */
	void (*port_opened)(void);
	/* internal thread: did the host lose this address so recently that its flows are kept? */
	bool (*addr_expected)(const struct endpoint *addr);

	/* ---- share ---- */

	/* Indexed by enum inet_kind: the calls of an exported socket. */
	const struct sock_ops *exported_ops[INET_KINDS];
	/*
	 * app, no ring held: requests an exported connection and waits for it.  patience: nsec,
	 * 0: no limit.  0: the connection is here, or was a moment ago; -EAGAIN: not within
	 * patience; -EINTR; -EBADF; another error: it cannot be imported here.
	 */
	int (*fetch)(struct sock_ref ref, nsec_t patience);
	/* any: as fetch(), without waiting; the socket's events tell when it has arrived. */
	void (*request)(struct sock_ref ref);
	/*
	 * app, no ring held: O_NONBLOCK of the open file, which another process may have changed: 0 or
	 * 1, or the error of sock_hold_cold().
	 */
	int (*nonblock_ask)(struct sock_ref ref);

	/*
	 * control lock: the program closed it.  True: other processes hold it, and the caller
	 * has nothing more to do.
	 */
	bool (*share_close)(struct inet_sock *so);
	/* control lock: it falls back to the kernel here, and therefore in all processes. */
	void (*share_leave)(struct inet_sock *so, enum verdict reason);

	/* ---- local: control lock, no ring held; NULL (all): there are no local connections ---- */

	/*
	 * An unconnected TCP socket connects to an address of this host: begins a local
	 * connection if an accelerated process listens there.  0: it is under way, call
	 * local_connect_wait(); SOCK_KERNEL: the kernel connects; -errno.
	 */
	int (*local_connect)(struct inet_sock *so, const struct endpoint *to);
	/* No lock: waits for its end, as connect(2); call: of that. */
	int (*local_connect_wait)(struct sock_ref ref, const struct sock_call *call);
	/* Can a listener get local connections?  It has an address. */
	bool (*local_may_listen)(const struct inet_sock *so);
	/* It gets them from now on, or after SO_REUSEPORT was set.  False: it cannot. */
	bool (*local_listen)(struct inet_sock *so);
	/* It gets no more of them.  Does nothing if it does not. */
	void (*local_unlisten)(struct inet_sock *so);
	/* Its queue has room for those that were held back. */
	void (*local_accepted)(struct inet_sock *so);

	/* ---- datagrams through shared memory: as above; the rules are in local/local_udp.h ---- */

	/*
	 * A datagram socket with a port: local senders can reach it from now on, or after its
	 * addresses or options have changed.  False: they cannot.
	 */
	bool (*local_receive)(struct inet_sock *so);
	/* Its memberships, or IP_MULTICAST_ALL, have changed, or may have.  udp.local is not NULL. */
	void (*local_groups)(struct inet_sock *so);
	/* They cannot any more; what they have sent is in its queue.  Does nothing if they could not. */
	void (*local_receive_stop)(struct inet_sock *so);
	/*
	 * The destination is on this host.  0: found->verdict is VERDICT_LOCAL, or it is unchanged:
	 * the kernel sends.  -EINPROGRESS: found->local was asked: call local_await().
	 */
	int (*local_find)(struct inet_sock *so, const struct udp_way *way, struct dst_found *found);
	/*
	 * To a group; *found: the kernel sends, as dst_find() has it; wire: where frames to it leave,
	 * if its verdict is VERDICT_ACCELERATED; the socket has a port then.  0: found->fan is set; or
	 * *found is *wire, because no member on this host wants what the socket sends; or it is
	 * unchanged.  It waits for no member to answer, but up to 14 ms until members have read what the
	 * kernel has sent (local_change_group()).  A sender whose group has no member on this host looks
	 * again once a second (dst_host_epoch), also for accelerated ones.
	 */
	int (*local_find_group)(struct inet_sock *so, const struct udp_way *way,
				const struct dst_found *wire, struct dst_found *found);
	/* No lock: waits for the answer; then call local_find() again. */
	void (*local_await)(struct sock_ref ref, const struct endpoint *to,
			    const struct local_target_ref *target);
	/* Could it connect to this address of the host, and reach a receiver there, now or later? */
	bool (*local_may_connect)(struct inet_sock *so, const struct endpoint *to);
	/* Is an accelerated receiver there? */
	bool (*local_is_there)(const struct endpoint *to);
	/*
	 * holder of home: sends by a destination of VERDICT_LOCAL, or one that fans.  Bytes; -EFAULT;
	 * SOCK_KERNEL: the kernel sends, or knows the error; -ESTALE: the destination has to be found
	 * again; -ENOBUFS: no frame is free, nobody has got anything; lossy: the members on this host
	 * get it then, and the wire's copy is dropped; -ENOMEM.  May let the ring go and hold it again.
	 */
	ssize_t (*local_send)(struct inet_sock *so, struct dst *dst, const struct msghdr *msg,
			      size_t len, bool lossy);
	/*
	 * holder of home: the kernel sends by a destination of this host.  SOCK_KERNEL: as any
	 * other; -ESTALE: it has to be found again, there may be a receiver; else, holding no ring,
	 * the call is local_by_twin() with this result.
	 */
	int (*local_by_kernel)(struct inet_sock *so, const struct dst *dst);
	/* app, no ring held: sendmsg(2) by the twin. */
	ssize_t (*local_by_twin)(struct sock_ref ref, const struct msghdr *msg, int flags,
				 int phase);
	/*
	 * holder of home, of a socket with udp.by_local: before a receive for which sock_access_rx() says so, and
	 * when nothing is there; says: LOCAL_TURN_*.
	 */
	enum local_turn (*local_turn)(struct inet_sock *so, unsigned says);
	/*
	 * app, no ring held: a receive that waits, of a datagram socket with udp.by_local, looks for a moment at what
	 * local senders write.  Bytes; -EINTR; else (also if it is not such a socket) nothing was done.
	 */
	ssize_t (*local_look)(struct sock_ref ref, struct msghdr *msg, int flags,
			      enum hold_mode mode);
	/* holder of home: the kernel sends all its datagrams from now on. */
	void (*local_send_stop)(struct inet_sock *so);
	/* control lock, acceleration runs: may this process exchange data through shared memory? */
	bool (*local_available)(void);
	/* A BPF program chooses among the sockets of its port: local peers leave it to the kernel. */
	void (*local_filtered)(const struct inet_sock *so);
	/* A capture of frames (ring/capture.h) has begun, or ended. */
	void (*local_capture)(void);
	/* The ring besides home that its datagrams come by; NULL: none. */
	struct ring *(*local_udp_ring)(const struct inet_sock *so);
	/* No reference to the socket is left, or the kernel serves it.  NULL before local_receive(). */
	void (*local_udp_end)(struct inet_sock *so);
	/* [LOCAL_UDP_OPS]: calls of a datagram socket with udp.by_local, twice for each thread mode. */
	const struct sock_ops *local_udp_ops;
};

extern const struct sock_upcalls sock_upcalls;

#endif
