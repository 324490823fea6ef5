/* SPDX-License-Identifier: BSD-2-Clause */
/* What udp.c, udp_send.c and udp_recv.c share. */
#ifndef SOCK_UDP_UDP_SOCK_H
#define SOCK_UDP_UDP_SOCK_H

#include "sock/core/kind.h"

/* holder: the oldest datagram; there is one. */
struct pkt *udp_pop(struct inet_sock *so);
/* holder: the one behind it, which there is, was read with it. */
void udp_free_second(struct inet_sock *so);

/*
 * holder: gives the oldest datagram to the program, or shows it (MSG_PEEK); there is one.
 * What recvmsg() returns.
 */
ssize_t udp_take(struct inet_sock *so, struct msghdr *msg, int flags);

/* udp_special.c: what few sockets ever need.  holder */
struct udp_rare {
	struct udp_dst *ways[UDP_DST_CACHE]; /* of sends with control messages; by way */
	struct udp_way pending_way;	     /* where pending goes, as its first piece said */
	char *pending;			     /* a datagram in the making */
	uint32_t pending_len, pending_room;
	uint32_t pending_max; /* longer ones are refused */
	uint16_t pending_gso; /* UDP_SEGMENT of it */
};

/* What udp_send_special() and udp_resolve() say to each other. */
struct udp_way udp_plain_way(const struct inet_sock *so, const struct endpoint *to);
/* holder: where a plain one leads; NULL: it was not looked for yet. */
struct dst *udp_find_plain(struct inet_sock *so, const struct endpoint *to);
/* holder: the place for it, emptied unless it is there; NULL: no memory. */
struct dst *udp_way_slot(struct inet_sock *so, const struct udp_way *way);
/*
 * No ring held: finds out where a way leads.  0, SOCK_KERNEL, or an error of the call that
 * is not worth trying again.
 */
int udp_resolve(struct sock_ref ref, const struct udp_way *way);
/* The twin's error is told once: 0 if it has none. */
int udp_twin_error(struct inet_sock *so);
/*
 * holder: a datagram that does not fit into one frame.  Bytes, or -ENOBUFS when there are
 * not frames enough, or SOCK_KERNEL when it must not be fragmented, or -EFAULT.
 */
ssize_t udp_send_fragments(struct inet_sock *so, struct ring *ring, struct dst *dst,
			   const struct iovec *iov, size_t len);
#define UDP_RESOLVE_TRIES 8   /* the network may change meanwhile */
#define UDP_PAYLOAD_MAX 65507 /* 65535 less the headers */

/*
 * app: as sock_ops.send, of a socket that is special or a call with MSG_MORE or control
 * messages.
 */
ssize_t udp_send_special(struct sock_ref ref, const struct msghdr *msg, int flags);
/* holder: so->udp.special follows the options and what is pending. */
void udp_note_special(struct inet_sock *so);
/* Control lock: what is pending here goes to the twin, which goes on with it. */
void udp_pending_to_twin(struct inet_sock *so);
/* holder, on close. */
void udp_rare_free(struct inet_sock *so);

/* sock_ops.ioctl and .shutdown, of all that have a queue. */
int udp_ioctl(struct sock_ref ref, unsigned long cmd, void *arg);
int udp_shutdown(struct sock_ref ref, int how);

extern const struct sock_kind udp_kind;

/* holder of home: queues a datagram; consumes it unless a reason is returned. */
enum drop udp_input(struct inet_sock *so, struct ring *ring, struct pkt *pkt, bool multicast);

/* Control lock: a fresh socket, or one that is fresh again. */
void udp_init(struct inet_sock *so);
/* holder of home: the queue is freed, destinations are forgotten.  Returns false. */
bool udp_close(struct inet_sock *so, struct ring *ring);
/* holder of its old home: it goes to another ring, with what is unread and nothing else. */
void udp_leave(struct inet_sock *so, struct ring *ring);
/*
 * Control lock: the socket leaves for the kernel, which receives for it from now on.  True:
 * there is something to read, which comes before what the kernel has; the socket leaves
 * when that was read.  Until then it lingers: the kernel does all the rest.
 */
bool udp_linger(struct inet_sock *so);
/* control lock, no ring held: the kernel gets what comes next; what came before it is queued. */
void udp_drain_flows(struct inet_sock *so);
/* No lock, no ring held: UDP_CORK was set; what waits goes, if it does not wait any more. */
void udp_uncork(struct sock_ref ref);

/* Control lock: a port from the kernel, and the frames for it.  0 or -errno. */
int udp_autobind(struct inet_sock *so);

/* Where its destinations are; at most max.  holder */
unsigned udp_tx_rings(struct inet_sock *so, struct ring **rings, unsigned max);
/* holder: destinations are found anew before they are used again. */
void udp_retarget(struct inet_sock *so);

/* One instance per thread mode of each hot call. */
#define UDP_MODES(X)           \
	X(single, HOLD_SINGLE) \
	X(spin, HOLD_SPIN)     \
	X(mutex, HOLD_MUTEX)   \
	X(yield, HOLD_YIELD)

#define X(name, mode)                                                                \
	ssize_t udp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags); \
	ssize_t udp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags);
UDP_MODES(X)
#undef X

#endif
