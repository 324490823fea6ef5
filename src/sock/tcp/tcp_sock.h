/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of TCP sockets share. */
#ifndef SOCK_TCP_TCP_SOCK_H
#define SOCK_TCP_TCP_SOCK_H

#include <linux/tcp.h>

#include "sock/core/inet_sock.h"

#define TCP_MODES(X)           \
	X(single, HOLD_SINGLE) \
	X(spin, HOLD_SPIN)     \
	X(mutex, HOLD_MUTEX)   \
	X(yield, HOLD_YIELD)

#define X(name, mode)                                                                \
	ssize_t tcp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags); \
	ssize_t tcp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags);
TCP_MODES(X)
#undef X

/* A listener's part on one ring: the handshakes that arrive there. */
struct tcp_shard {
	struct tcp_listener l;
	/* set at creation */
	struct ring *ring;
	struct inet_sock *so;
	uint32_t gen;
	const struct flow *flow; /* what brings its frames */
	bool mute;		 /* holder: the host has lost its address */
	/* holder of ring */
	struct timer timer;
	const struct sock_options *opt; /* inherited by children */
};

extern const struct tcp_ops tcp_sock_engine_ops;

/* ---- tcp_sock.c (holder of home) ------------------------------------------------- */

/* The fields of a connection, zeroed, for a socket that has none yet. */
void tcp_part_init(struct inet_sock *so);
struct tcp_config tcp_config_for(const struct sock_options *opt, uint32_t mtu);
void tcp_update_events(struct inet_sock *so, uint32_t happened);
/* After calls into the engine: the timer runs in time; what ended is reaped. */
void tcp_after(struct inet_sock *so, struct ring *ring);
/*
 * A new SYN ended a TIME_WAIT of this key (RFC 6191), whose flow is gone: it belongs to
 * the listener, whose wider one that hid.
 */
enum drop tcp_deliver_to_listener(struct ring *ring, const struct flow_key *key, struct pkt *pkt,
				  nsec_t now);
int sock_take_error(struct inet_sock *so);
/* Something happened to a connection its program closed. */
void tcp_count_orphan(struct inet_sock *so);
void tcp_options_changed(struct inet_sock *so, bool quickack);
void tcp_wire_options(struct inet_sock *so, nsec_t now);
/* The socket moves: holder of its old home, then of the new one. */
void tcp_leave(struct inet_sock *so, struct ring *ring);
void tcp_arrive(struct inet_sock *so, struct ring *ring, const struct ring *from,
		const struct dst_found *found);
/* holder: where its segments go, found anew.  0 or -errno, and it is as it was. */
int tcp_retarget(struct inet_sock *so, struct ring *home, const struct dst_found *found);
/* holder: there is no way to the peer; what is sent is lost until one is found. */
void tcp_mute(struct inet_sock *so);
/* No ring held: such a way.  0 or -errno, as of tcp_resolve_locked(). */
int tcp_go_by(struct sock_ref ref, const struct dst_found *found);
/*
 * No ring held: the connection, whose interface is gone or has lost its address to another
 * one, lives on another ring from now on, where found leads.  0 or -errno.
 */
int tcp_transplant(struct sock_ref ref, const struct dst_found *found);
/* holder of home: what is unread keeps no frame of the ring's queue. */
void tcp_take_along(struct inet_sock *so, struct ring *ring);
/* The headers of our segments. */
struct dst_headers tcp_headers(const struct inet_sock *so);
/* Routes changed: finds out anew where segments go.  App, no ring held. */
int tcp_resolve(struct sock_ref ref);
/* The same under the control lock. */
int tcp_resolve_locked(struct sock_ref ref);

/* How long a call waits for a connection that is with another process. */
#define TCP_PATIENCE(dontwait) ((dontwait) ? SHARE_FETCH_MAX : 0)

/* ---- tcp_send.c -------------------------------------------------------------------------- */

/* holder: of a call on a socket that is not connected: its error, 0 for the end, SOCK_FETCH. */
int tcp_not_connected(struct inet_sock *so, bool sending);

/* The result of a call that moved some bytes: an error that ended it is told by the next one. */
ssize_t tcp_partial(struct inet_sock *so, size_t done, int rc);

/* holder: such an error, once; 0: none. */
static inline int tcp_kept_error(struct inet_sock *so)
{
	int error = __atomic_load_n(&so->tcp.kept_error, __ATOMIC_RELAXED);

	if (__builtin_expect(error, 0))
		__atomic_store_n(&so->tcp.kept_error, 0, __ATOMIC_RELAXED);
	return error;
}

/* ---- tcp_opt.c ----------------------------------------------------------------------- */

/* net.ipv4.tcp_*, read once; any thread. */
struct tcp_kernel {
	bool timestamps;
	uint8_t ecn;		     /* enum tcp_ecn */
	int16_t fin_timeout;	     /* seconds */
	uint32_t notsent_lowat;	     /* 0: any */
	uint32_t rmem_max, wmem_max; /* so far a buffer grows, as SO_RCVBUF counts */
};

const struct tcp_kernel *tcp_kernel(void);

/* Control lock, an option of IPPROTO_TCP: 0, or why the kernel would not take it. */
int tcp_may_set(struct sock_ref ref, int name, const void *val, socklen_t len);
/* Control lock: the twin took it. */
void tcp_mirror(struct inet_sock *so, int name, const void *val, struct sock_options *opt);

union tcp_answer {
	int n;
	char name[16];
	struct tcp_info info;
	struct sockaddr_in peer;
	struct tcp_zerocopy_receive zerocopy;
};

/* Any: may tcp_answer() know it? */
bool tcp_may_know(int level, int name);
/* holder: the size of what we know better than the twin, or that, or -errno. */
#define TCP_TWIN_KNOWS INT32_MIN
int tcp_answer(struct inet_sock *so, struct ring *ring, int level, int name,
	       union tcp_answer *answer);

/* ---- tcp_listen.c ------------------------------------------------------------------- */

/* Control lock: children made from now on inherit the options. */
void tcp_listen_options_changed(struct inet_sock *so);
int tcp_sock_listen(struct sock_ref ref, int backlog);
int tcp_sock_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
		    struct sock_ref *child);
/* holder of the child's ring: the handshake is complete, on to the listener. */
void tcp_child_established(struct inet_sock *child);

/* ---- tcp_connect.c ------------------------------------------------------------------ */

int tcp_sock_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
/* holder: as connect(2) with AF_UNSPEC; the peer is told by RST, the program by an error. */
void tcp_dissolve(struct inet_sock *so, struct ring *ring);
int tcp_sock_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
/* The flow of a connection with this peer. */
struct flow_key tcp_pair_key(const struct inet_sock *so, const struct endpoint *to);

#endif
