/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of UDP sockets. */
#ifndef SOCK_UDP_UDP_SOCK_H
#define SOCK_UDP_UDP_SOCK_H

#include "sock/core/access.h"
#include "sock/core/extra/filter.h"
#include "sock/core/kind.h"
#include "sock/core/stats/sock_stats.h"
#include "sock/wait/quick_list.h"

/* What a datagram counts against the socket's limit: an empty one is not free. */
static inline uint32_t udp_charge(const struct pkt *pkt)
{
	return pkt->frame_len + (uint32_t)sizeof(*pkt);
}

/* holder: the program has got n datagrams. */
static inline void udp_count_in(struct inet_sock *so, unsigned n, uint32_t bytes)
{
	struct stats_sock *stats = so->udp.stats;

	if (__builtin_expect(stats != NULL, 1)) {
		stats_add(&stats->rx_packets, n);
		stats_add(&stats->rx_bytes, bytes);
	}
}

/* holder: appends a datagram, which was charged to udp_state.bytes, to the queue. */
static inline void udp_queue(struct inet_sock *so, struct pkt *pkt)
{
	struct udp_state *udp = &so->udp;

	pkt_append(&udp->head, &udp->tail, pkt);
	udp->count++;
	sock_set_events(so, sock_own_events(so) | EPOLLIN | EPOLLRDNORM);
	ready_notify(&so->sk, EPOLLIN | EPOLLRDNORM);
}

/* The same for a run of n from first to last, linked by next. */
static inline void udp_queue_run(struct inet_sock *so, struct pkt *first, struct pkt *last,
				 unsigned n)
{
	struct udp_state *udp = &so->udp;

	pkt_append_run(&udp->head, &udp->tail, first, last);
	udp->count += n;
	sock_set_events(so, sock_own_events(so) | EPOLLIN | EPOLLRDNORM);
	ready_notify(&so->sk, EPOLLIN | EPOLLRDNORM);
}

/* holder, of a queued datagram. */
static inline int udp_ifindex(const struct inet_sock *so, const struct pkt *pkt)
{
	return pkt->ifindex ? pkt->ifindex : sock_home(so)->ifindex;
}

/* holder: who sent a queued datagram. */
static inline struct endpoint udp_source(const struct inet_sock *so, const struct pkt *pkt)
{
	struct endpoint from = frame_source(pkt);

	if (__builtin_expect(addr_needs_scope(&from.addr), 0))
		from.scope = (uint32_t)udp_ifindex(so, pkt);
	return from;
}

/* holder: removes the oldest datagram; there must be one. */
struct pkt *udp_pop(struct inet_sock *so);
/*
 * holder: frees the second datagram, which was read together with the oldest; there must
 * be one.
 */
void udp_free_second(struct inet_sock *so);

/*
 * holder: copies the oldest datagram to the program and removes it (MSG_PEEK: leaves it);
 * there must be one.  Returns what recvmsg() returns.
 */
ssize_t udp_take(struct inet_sock *so, struct msghdr *msg, int flags);

/* udp_state.special, why udp_special.c makes all sends: it builds datagrams, or they are paced. */
enum { UDP_BUILDS = 1, UDP_PACED = 2, UDP_STAMPED = 4 };

/* udp_special.c: state that few sockets need.  holder */
struct udp_rare {
	struct udp_dst *ways[UDP_DST_CACHE]; /* destinations of sends with control messages, by way */
	struct udp_way pending_way;	     /* the destination of pending, from its first piece */
	char *pending;			     /* a datagram that is being put together */
	uint32_t pending_len, pending_room;
	uint32_t pending_max; /* longer ones are refused */
	uint16_t pending_gso; /* its UDP_SEGMENT */
};

/* The entry of udp_state.cache that a destination may have. */
static inline unsigned udp_dst_place(const struct endpoint *to)
{
	_Static_assert(UDP_DST_CACHE == 256, "the top eight bits choose an entry");
	uint64_t hash = to->addr.q[0] ^ to->addr.q[1] ^ endpoint_word(to);

	return (unsigned)(hash * 0x9e3779b97f4a7c15ull >> 56);
}

/* holder: a datagram of len bytes has left. */
static inline void udp_count_sent(struct inet_sock *so, size_t len)
{
	struct stats_sock *stats = so->udp.stats;

	if (__builtin_expect(!stats, 0))
		return;
	stats_add(&stats->tx_packets, 1);
	stats_add(&stats->tx_bytes, len);
}

/* Used by udp_send_special() and udp_resolve(). */
struct udp_way udp_plain_way(const struct inet_sock *so, const struct endpoint *to);
/* holder: the destination of a plain send; NULL: it was not resolved yet. */
static inline struct dst *udp_find_plain(struct inet_sock *so, const struct endpoint *to)
{
	struct udp_dst *entry;

	if (so->udp.connected && endpoint_eq(&so->remote, to))
		return &so->udp.dst;
	entry = so->udp.cache ? so->udp.cache[udp_dst_place(to)] : NULL;
	return entry && endpoint_eq(&entry->to, to) ? &entry->dst : NULL;
}

/*
 * holder: sends a datagram in one buffer to a destination for which dst_is_ready() is true; the caller
 * flushes the ring.  False: nothing was done, because it needs more than a free frame.
 */
static inline __attribute__((always_inline)) bool udp_send_ready(struct inet_sock *so,
								 struct ring *ring, struct dst *dst,
								 const void *buf, size_t len)
{
	struct pkt *pkt;

	if (__builtin_expect(len > dst->payload_max, 0))
		return false;
	pkt = ring_tx_get(ring);
	if (__builtin_expect(!pkt, 0))
		return false;
	pkt->frame_len = (uint32_t)frame_build_udp_of(&dst->tmpl, pkt->frame, buf, len);
	if (__builtin_expect(!pkt->frame_len, 0)) {
		pkt_free(pkt); /* it cannot be read */
		return false;
	}
	dst_send_ready(dst, ring, pkt);
	udp_count_sent(so, len);
	sock_access_tx(so);
	return true;
}

/* holder of home: as quick_send_fn, to this destination or NULL. */
static inline __attribute__((always_inline)) ssize_t
udp_send_at_once(struct inet_sock *so, struct dst *dst, const void *buf, size_t len)
{
	struct ring *ring = sock_home(so);

	if (__builtin_expect(!dst || so->shut_wr || !dst_is_ready(dst, ring), 0) ||
	    !udp_send_ready(so, ring, dst, buf, len))
		return -EAGAIN;
	ring_tx_flush(ring);
	return (ssize_t)len;
}

/* holder: the destination of sendto(2) to an address of IPv4, if it is known; else NULL. */
static inline struct dst *udp_find_plain4(struct inet_sock *so, const struct sockaddr_in *to)
{
	struct endpoint ep = {.addr = addr_v4(to->sin_addr.s_addr), .port = to->sin_port};

	return to->sin_family == AF_INET ? udp_find_plain(so, &ep) : NULL;
}

/* any: is a send without flags an ordinary one? */
static inline bool udp_sends_plainly(const struct inet_sock *so)
{
	return !__atomic_load_n(&so->udp.special, __ATOMIC_RELAXED) &&
	       !(__atomic_load_n(&so->sk.twin_events, __ATOMIC_RELAXED) & EPOLLERR);
}
/* holder: the place for a way, cleared if another way was there; NULL: no memory. */
struct dst *udp_way_slot(struct inet_sock *so, const struct udp_way *way);
/*
 * No ring held: finds the route of a way.  0; SOCK_KERNEL; or an error that ends the call,
 * because a second attempt would fail, too.
 */
int udp_resolve(struct sock_ref ref, const struct udp_way *way);
/* sock_kind.headers */
int udp_read_headers(struct sock_ref ref, uint8_t *header);
/* any: if not, the kernel refuses the address of a message before it looks at the socket's error. */
bool udp_may_reach(const struct inet_sock *so, const struct msghdr *msg);
/* any: returns the twin's error once; 0: there is none. */
int udp_twin_error(struct inet_sock *so);
/*
 * holder: sends a datagram that does not fit into one frame.  Bytes; -ENOBUFS: too few free
 * frames; SOCK_KERNEL: the datagram must not be fragmented; -EFAULT.
 */
ssize_t udp_send_fragments(struct inet_sock *so, struct ring *ring, struct dst *dst,
			   const struct iovec *iov, size_t len);
#define UDP_SEGMENTS_MAX 64 /* newer kernels allow more, all allow this many */
/*
 * udp_segments.c, UDP_SEGMENT, holder.  fit: false: the kernel would refuse it, or supports more than
 * this library; gso 0: it is not cut.  send: gso < len, and it fits: sends all datagrams, or none.
 * Bytes; -ENOBUFS: too few free frames; -EFAULT.
 */
bool udp_segments_fit(const struct inet_sock *so, const struct dst *dst, size_t len, size_t gso);
ssize_t udp_send_segments(struct inet_sock *so, struct ring *ring, struct dst *dst,
			  const struct iovec *iov, size_t iovcnt, size_t len, size_t gso);
/* holder: sends a complete frame to a destination with a ring, paced or not; consumes it. */
void udp_put(struct inet_sock *so, struct ring *ring, struct dst *dst, struct pkt *pkt);
/* holder: may a datagram for dst, which has a ring, not be sent in fragments? */
static inline bool udp_never_fragments(const struct inet_sock *so, const struct dst *dst)
{
	struct inaddr to = frame_template_dst(&dst->tmpl);

	return options_never_fragment(so->opt, &to);
}

#define UDP_RESOLVE_TRIES 8   /* the network may change meanwhile */
#define UDP_PAYLOAD_MAX 65507 /* 65535 minus the headers */

/*
 * app: sock_ops.send of a socket that is special, or of a call with MSG_MORE or control
 * messages.
 */
ssize_t udp_send_special(struct sock_ref ref, const struct msghdr *msg, int flags);
/* holder: updates so->udp.special after the options or the pending datagram have changed. */
void udp_note_special(struct inet_sock *so);
/* Control lock: moves the pending datagram to the twin, which continues it. */
void udp_pending_to_twin(struct inet_sock *so);
/* holder, on close. */
void udp_rare_free(struct inet_sock *so);

/* sock_ops.ioctl and .shutdown, for every socket with a queue. */
int udp_ioctl(struct sock_ref ref, unsigned long cmd, void *arg);
int udp_shutdown(struct sock_ref ref, int how);
/* Other members of struct sock_ops. */
int udp_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
	       struct sock_ref *child);
int udp_listen(struct sock_ref ref, int backlog);
int udp_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len);

extern const struct sock_kind udp_kind;

/* holder of home: queues a datagram; consumes it unless a reason is returned. */
enum drop udp_input(struct inet_sock *so, struct ring *ring, struct pkt *pkt, bool multicast);

/*
 * holder of home: what is left of a run, linked by next, after its first datagrams were delivered to the
 * socket; consumes all.
 */
void udp_input_rest(struct inet_sock *so, struct ring *ring, struct pkt *pkt);
/*
 * holder of home: the socket receives a list of datagrams, linked by next and NULL at its end, which no frame of the
 * ring has, and which have room.  All are of IPv4 and alike (filter_kind.take).  Without a callback, the socket records
 * no time.
 */
void udp_input_apart(struct inet_sock *so, struct ring *ring, struct pkt *first, struct pkt *last,
		     const struct filter_sum *sum);

/* Control lock: initialises a new socket, or one that is used again. */
void udp_init(struct inet_sock *so);
/* holder of home: frees the queue and forgets the destinations.  Returns false. */
bool udp_close(struct inet_sock *so, struct ring *ring);
/* holder of the old home: the socket moves to another ring, with its unread datagrams only. */
void udp_leave(struct inet_sock *so, struct ring *ring);
/* holder of the new home, after udp_leave(). */
void udp_arrive(struct inet_sock *so, struct ring *ring);
/*
 * Control lock: the socket falls back to the kernel, which receives for it from now on.
 * True: unread datagrams have to be read before those that the kernel has, and the socket
 * leaves when they were read.  Until then it lingers: the kernel does everything else.
 */
bool udp_linger(struct inet_sock *so);
/*
 * Control lock, no ring held: the kernel gets what comes next (udp_cease_flows()); after the
 * barriers of these ports, what came before is queued (udp_drain_flows()).
 */
void udp_cease_flows(struct inet_sock *so, struct rings_barrier *barrier);
void udp_drain_flows(struct inet_sock *so);
/* No lock, no ring held: UDP_CORK has changed; sends the pending datagram if it is off. */
void udp_uncork(struct sock_ref ref);

/* holder of ring: replaces the packets of a list by such that may leave the ring. */
void udp_detach_list(struct ring *ring, struct pkt **head, struct pkt **tail);

/* ---- udp_filter.c: the receive callback ----------------------------------------------- */

/* sock_kind.filter */
extern const struct filter_kind udp_filter_kind;
/* holder of home: udp_input() of a socket with a callback. */
enum drop udp_filter_input(struct inet_sock *so, struct ring *ring, struct pkt *pkt);
/* holder of home: the same of a run, linked by next, as far as it may be added as it is; returns the rest. */
struct pkt *udp_filter_run(struct inet_sock *so, struct ring *ring, struct pkt *first);
/* holder of home: adds a run, linked by next, from first to last, whose ifindex and drops are set. */
void udp_filter_append(struct inet_sock *so, struct ring *ring, struct pkt *first, struct pkt *last,
		       const struct filter_sum *sum);
/* holder of the old home, as udp_leave(). */
void udp_filter_leave(struct inet_sock *so, struct ring *ring);
/* In a forked child: the socket has no callback. */
void udp_filter_fork_child(struct inet_sock *so);

/* ---- udp_xtreme.c: members of struct sock_kind -------------------------------------------- */

enum drop udp_xtreme_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now);
/* holder of home: a poll under way gets the first datagrams of a run; returns the rest. */
struct pkt *udp_xtreme_run(struct inet_sock *so, const struct ring *ring, struct pkt *first);
bool udp_xtreme_take(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
		     const struct xtreme_name *name);

/* Members of struct sock_kind: udp_extra.c, udp_recv.c, udp_send.c */
int udp_room(const struct inet_sock *so, uint32_t *header, size_t *most);
ssize_t udp_commit(struct inet_sock *so, struct ring *ring, struct pkt *pkt, uint32_t at,
		   size_t len, const struct endpoint *to);
int udp_recv_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		   unsigned *done);
int udp_send_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		   unsigned *done);

/* sock_kind.tx_ring, udp_resolve.c */
int udp_tx_ring(struct inet_sock *so, const struct sockaddr *to, socklen_t len, struct ring **ring);
/* sock_kind.recv_zcopy, udp_recv.c */
ssize_t udp_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags);

/* ---- udp_bind.c ---------------------------------------------------------------------- */

/* sock_ops.bind and .connect */
int udp_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
int udp_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
/* Of struct sock_kind. */
void udp_detach(struct inet_sock *so);
void udp_attach_anew(struct inet_sock *so);
void udp_reattach(struct inet_sock *so);
/* Control lock: gets a port from the kernel and attaches the socket.  0 or -errno. */
int udp_autobind(struct inet_sock *so);
/* The same for a socket that sends to a local receiver: it gets no flows. */
int udp_begin_local(struct inet_sock *so);

/* holder: the rings of its destinations; at most max. */
unsigned udp_tx_rings(struct inet_sock *so, struct ring **rings, unsigned max);
/* holder: destinations are resolved again before their next use. */
void udp_retarget(struct inet_sock *so);

/* One instance of each hot call for each thread mode. */

#define X(name, mode)                                                                \
	ssize_t udp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags); \
	ssize_t udp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags);
SOCK_MODES(X)
#undef X

/* udp_quick.c */
#define X(name, mode) QUICK_SENDS_DECLARE(udp_quick, name)
SOCK_MODES(X)
#undef X

/* The calls of a datagram socket in a thread mode, without those of a quick way. */
#define UDP_OPS(mode, receive)                                                            \
	.accept = udp_accept, .bind = udp_bind, .connect = udp_connect,                   \
	.getpeername = udp_getpeername, .getsockname = sock_getsockname,                  \
	.getsockopt = sock_getsockopt, .ioctl = udp_ioctl, .listen = udp_listen,          \
	.recv = receive##_##mode, .send = udp_send_##mode, .setsockopt = sock_setsockopt, \
	.shutdown = udp_shutdown

#endif
