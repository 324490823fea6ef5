/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of TCP sockets share. */
#ifndef SOCK_TCP_TCP_SOCK_H
#define SOCK_TCP_TCP_SOCK_H

#include <linux/tcp.h>

#include "sock/core/kind.h"
#include "sock/tcp/tcp_orphans.h"

#define X(name, mode)                                                                      \
	ssize_t tcp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags);       \
	ssize_t tcp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags); \
	ssize_t tcp_quick_send_##name(int fd, const void *buf, size_t len, int flags,      \
				      struct sock_ref ref); /* tcp_quick.c */
SOCK_MODES(X)
#undef X

/* tcp_quick.c: a send found data queued, and no later one found none: the quick way is not tried. */
#define TCP_SENDS_QUEUED 0x80

/* The part of a listener on one ring: the handshakes that arrive there. */
struct tcp_shard {
	struct tcp_listener l;
	/* set at creation */
	struct ring *ring;
	struct inet_sock *so;
	uint32_t gen;
	const struct flow *flow; /* delivers its segments */
	bool address_gone;	 /* holder: the host has lost the address, send nothing */
	/* holder of ring */
	struct timer timer;
	const struct sock_options *opt; /* its children start with them */
};

/* tcp_frames.c: see ops.send and ops.send_train. */
int tcp_send_segment(struct tcp_conn *conn, const struct tcp_segment *seg);
uint32_t tcp_send_segments(struct tcp_conn *conn, const struct tcp_segment *seg, uint32_t mss);

extern const struct tcp_ops tcp_sock_engine_ops;
extern const struct sock_ops tcp_sock_ops[HOLD_MODES];

extern const struct sock_kind tcp_kind, tcp_listen_kind;

/* ---- tcp_sock.c (holder of home) ---------------------------------------------------- */

/* flow_fn of the flow of a connection. */
enum drop tcp_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now);
/*
 * holder: removes the connection from its ring and discards its state. Sends nothing and reports
 * nothing; afterwards the socket is like one that was never connected.
 */
void tcp_detach(struct inet_sock *so, struct ring *ring);
/* Members of struct sock_kind. */
void tcp_sock_init(struct inet_sock *so);
bool tcp_sock_close(struct inet_sock *so, struct ring *ring);
/* holder: the program ends its side of an accepted connection; called before the engine knows. */
void tcp_learn_habit(const struct inet_sock *so, const struct ring *ring);
void tcp_options_changed(struct inet_sock *so, bool quickack);
/* Initialises the fields of a connection, for a socket that has none yet. */
void tcp_part_init(struct inet_sock *so);
/*
 * The engine's configuration for these options on a path with this MTU. addr: of either end, for its
 * family.
 */
struct tcp_config tcp_config_for(const struct sock_options *opt, uint32_t mtu,
				 const struct inaddr *addr);
/* The same for a route from this ring; mtu: that of the route. */
struct tcp_config tcp_config_for_route(const struct sock_options *opt, const struct ring *ring,
				       uint32_t mtu, const struct route_metrics *metrics,
				       const struct inaddr *addr);
/*
 * holder: stores the events that the connection has now, and notifies its watches of new ones and
 * of those in `happened`.
 */
void tcp_update_events(struct inet_sock *so, uint32_t happened);
/* holder: as tcp_update_events(), if only the number of unread bytes has changed, or the state. */
static inline void tcp_update_unread(struct inet_sock *so, uint32_t happened)
{
	uint32_t before = sock_own_events(so), in = EPOLLIN | EPOLLRDNORM, now, notify;
	const struct tcp_conn *conn = &so->tcp.conn;

	if (__builtin_expect(conn->state != TCP_ESTABLISHED || conn->urgent || so->shut_rd ||
				     (before & EPOLLPRI),
			     0)) {
		tcp_update_events(so, happened);
		return;
	}
	now = conn->rcv.bytes >= so->rcvlowat ? before | in : before & ~in;
	notify = (now & ~before) | (now & happened);
	if (now != before)
		sock_set_events(so, now);
	if (notify)
		ready_notify(&so->sk, notify);
}

/* holder: changes the timer only if the connection needs it earlier than planned. */
static inline void tcp_arm(struct inet_sock *so, struct ring *ring)
{
	nsec_t deadline = tcp_deadline(&so->tcp.conn);

	if (__builtin_expect(deadline < so->tcp.timer.when, 0))
		ring_arm(ring, &so->tcp.timer, deadline);
}

void tcp_after_orphan(struct inet_sock *so, struct ring *ring);

/* To be called after each call into the engine: arms the timer, frees an orphan that has ended. */
static inline void tcp_after(struct inet_sock *so, struct ring *ring)
{
	if (__builtin_expect(sock_is_orphan(so), 0))
		tcp_after_orphan(so, ring);
	else
		tcp_arm(so, ring);
}
/*
 * holder: delivers a packet to the listener at key's local address and port, after the flow of
 * key, which has priority, was removed: a SYN ended a TIME_WAIT (RFC 6191) or found a connection
 * that has ended. DROP_NO_FLOW: this ring has no such listener.
 */
enum drop tcp_deliver_to_listener(struct ring *ring, const struct flow_key *key, struct pkt *pkt,
				  nsec_t now);
/* holder: takes the pending error, a positive errno; 0: none.  It is reported once. */
int sock_take_error(struct inet_sock *so);
/* holder: the state of a connection may have changed; updates tcp_orphans if it is an orphan. */
void tcp_count_orphan(struct inet_sock *so);
/* holder: applies the options of the socket that struct tcp_config does not contain. */
void tcp_apply_options(struct inet_sock *so, nsec_t now);
/*
 * The socket moves to another ring: tcp_leave(): holder of its old home, tcp_arrive(): of the new
 * one. found: the route from the new ring; NULL: the old route stays in use.
 */
void tcp_leave(struct inet_sock *so, struct ring *ring);
void tcp_arrive(struct inet_sock *so, struct ring *ring, const struct ring *from,
		const struct dst_found *found);
/* holder: segments use the route `found` from now on.  0, or -errno and nothing has changed. */
int tcp_retarget(struct inet_sock *so, struct ring *home, const struct dst_found *found);
/* holder: the connection has no route to its peer. What it sends is lost until a route is found. */
void tcp_lose_route(struct inet_sock *so);
/*
 * No ring held: applies the result of dst_find() to the connection.  VERDICT_NO_ROUTE:
 * tcp_lose_route(); any other result that cannot be used leaves the old route in use.  A
 * connection without a route whose new one needs another ring waits for tcp_rehome().  0 or
 * -errno, as of tcp_resolve_locked().
 */
int tcp_use_route(struct sock_ref ref, const struct dst_found *found);
/*
 * No ring held: moves the connection to a ring of the interface that `found` leads by, because its
 * interface is gone or its address has moved to another interface.  0 or -errno.
 */
int tcp_rehome(struct sock_ref ref, const struct dst_found *found);
/* holder of home: detaches unread data from the frames of the ring's queue, see ring_detach(). */
void tcp_detach_unread(struct inet_sock *so, struct ring *ring);
/* What the headers of its segments contain, for dst_apply(); and of those between two addresses. */
struct dst_headers tcp_headers(const struct inet_sock *so);
struct dst_headers tcp_headers_of(const struct sock_options *opt, const struct endpoint *local,
				  const struct inaddr *remote);
/*
 * App, no ring held: routes have changed; finds the route to the peer again. 0; -EAGAIN: the
 * control lock cannot be taken; another error: as of tcp_resolve_locked().
 */
int tcp_resolve(struct sock_ref ref);
/*
 * The same under the control lock.  -EBADF, SOCK_KERNEL: the socket is gone; another error: the
 * route is as it was.
 */
int tcp_resolve_locked(struct sock_ref ref);

/* ---- tcp_send.c --------------------------------------------------------------------- */

/*
 * holder: the result of a call on a socket that is not connected: its pending error, 0 at the end
 * of the stream, SOCK_FETCH if another process owns the connection, else -EPIPE or -ENOTCONN.
 */
int tcp_not_connected(struct inet_sock *so, bool sending);

/*
 * The result of a call that moved `done` bytes before rc ended it.  An error of the connection
 * is kept for the next call.
 */
ssize_t tcp_partial(struct inet_sock *so, size_t done, int rc);

/* holder: takes the error that tcp_partial() kept; 0: none. */
static inline int tcp_take_kept_error(struct inet_sock *so)
{
	int error = __atomic_load_n(&so->tcp.kept_error, __ATOMIC_RELAXED);

	if (__builtin_expect(error, 0))
		__atomic_store_n(&so->tcp.kept_error, 0, __ATOMIC_RELAXED);
	return error;
}

/* ---- tcp_opt.c ---------------------------------------------------------------------- */

/* any: settings of net.ipv4.tcp_*, read once. */
struct tcp_kernel {
	bool timestamps;
	uint8_t ecn;			/* enum tcp_ecn */
	int16_t fin_timeout;		/* seconds */
	uint32_t notsent_lowat;		/* bytes; 0: no limit */
	uint32_t rmem_max, wmem_max;	/* maximum that a buffer grows to, in units of SO_RCVBUF */
	uint32_t timewaits_max;		/* sockets in TIME_WAIT */
	struct tcp_keepalive keepalive; /* off; what SO_KEEPALIVE switches on */
};

const struct tcp_kernel *tcp_kernel(void);

/* Members of struct sock_kind. */
int tcp_set_option(struct sock_ref ref, int level, int name, const void *val, socklen_t len);
void tcp_mirror(struct inet_sock *so, int name, const void *val, struct sock_options *opt);
int tcp_get_option(struct sock_ref ref, int level, int name, void *val, socklen_t *len);
uint32_t tcp_buffer_size(const struct inet_sock *so, bool receive);

/* ---- tcp_calls.c -------------------------------------------------------------------- */

/* sock_kind.headers */
int tcp_read_headers(struct sock_ref ref, uint8_t *header);

/* ---- tcp_extra.c --------------------------------------------------------------------- */

/*
 * No ring held: may a dummy send be tried? 0; -ENOTCONN; -EAGAIN: an error of the connection waits to
 * be reported; -EINVAL: flags that change what a send does.
 */
int tcp_dummy_check(struct sock_ref ref, int flags);
/* holder: a dummy send. As tcp_send_dummy(). */
ssize_t tcp_dummy_try(struct inet_sock *so, struct ring *ring, const struct iovec *iov,
		      size_t count);
/* Members of struct sock_kind. */
ssize_t tcp_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags);
void tcp_held_freed(struct inet_sock *so, uint32_t charge);
int tcp_room(const struct inet_sock *so, uint32_t *header, size_t *most); /* tcp_commit.c */
ssize_t tcp_commit(struct inet_sock *so, struct ring *ring, struct pkt *pkt, uint32_t at,
		   size_t len, const struct endpoint *to);
bool tcp_xtreme_take(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
		     const struct xtreme_name *name); /* tcp_xtreme.c */

/* ---- tcp_filter.c: the receive callback (holder of home) ------------------------------- */

extern const struct filter_kind tcp_filter_kind;

/* The engine is about to get a packet. */
void tcp_filter_arrives(struct inet_sock *so);
/* The engine has got a packet, or the program gave one back: the callback may see the next ones. */
void tcp_filter_look(struct inet_sock *so, struct ring *ring);
/* Must no call read now, because the callback has to see what is there first? */
bool tcp_filter_hides(const struct inet_sock *so);
/* Bytes that a call can read. */
uint32_t tcp_filter_readable(const struct inet_sock *so);
/* Does a thread that runs the callback have packets of the connection? */
bool tcp_filter_is_out(const struct inet_sock *so);
/* The connection has no callback any more; its packets stay in the queue, for its end. */
void tcp_filter_end(struct inet_sock *so);
/* The socket leaves the ring. */
void tcp_filter_leave(struct inet_sock *so, struct ring *ring);
/* In a forked child: the connection has no callback. */
void tcp_filter_fork_child(struct inet_sock *so);

/* ---- tcp_listen.c ------------------------------------------------------------------- */

/* flow_fn of the flows of a listener. */
enum drop tcp_listen_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now);
/* Members of struct sock_kind. */
bool tcp_listen_flow_begin(struct inet_sock *so, struct sock_flow *flow);
void tcp_listen_flow_shared(struct sock_flow *flow);
void tcp_listen_flow_end(struct sock_flow *flow);
void tcp_listen_flow_free(struct sock_flow *flow);
/* Control lock: attaches what has no flows, unless the kernel must receive for it; sets the verdict. */
void tcp_listen_attach(struct inet_sock *so);
void tcp_listen_device_changed(struct inet_sock *so);
void tcp_listen_options_applied(struct inet_sock *so);
bool tcp_listen_close(struct inet_sock *so, struct ring *ring);
/* A shard moves: tcp_shard_leave(): holder of its ring, tcp_shard_arrive(): of the new one. */
void tcp_shard_leave(struct tcp_shard *shard);
void tcp_shard_arrive(struct tcp_shard *shard, struct ring *ring);

/* App, no ring held: members of struct sock_ops. */
int tcp_sock_listen(struct sock_ref ref, int backlog);
int tcp_sock_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
		    struct sock_ref *child);
/* holder of the child's ring: the handshake is complete; queues the child at its listener. */
void tcp_child_established(struct inet_sock *child);
/*
 * any, no ring held: queues a child that has no more handshake, whose listener is set, there.
 * The caller has no access to it afterwards.
 */
void tcp_child_queue(struct inet_sock *child);
/* Members of struct sock_kind. */
void tcp_abandon(struct inet_sock *so, struct ring *ring);
void tcp_listen_ended(struct inet_sock *so);

/* ---- tcp_connect.c ------------------------------------------------------------------ */

int tcp_sock_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
/*
 * holder: disconnects, as connect(2) with AF_UNSPEC does. The peer gets an RST; the next call on
 * the socket gets the error.
 */
void tcp_disconnect(struct inet_sock *so, struct ring *ring);
int tcp_sock_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
/* The key of a connection between the socket's local address and this peer. */
struct flow_key tcp_pair_key(const struct inet_sock *so, const struct endpoint *to);

#endif
