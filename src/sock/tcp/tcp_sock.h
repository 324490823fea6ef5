/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of TCP sockets share. */
#ifndef SOCK_TCP_TCP_SOCK_H
#define SOCK_TCP_TCP_SOCK_H

#include <linux/tcp.h>

#include "sock/core/kind.h"
#include "sock/tcp/tcp_orphans.h"

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
extern const struct sock_ops tcp_sock_ops[HOLD_MODES];

extern const struct sock_kind tcp_kind, tcp_listen_kind;

/* ---- tcp_sock.c (holder of home) ------------------------------------------------- */

enum drop tcp_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now);
/*
 * holder: the connection is taken off its ring and forgotten, and nobody is told; the socket is
 * as one that was never connected.
 */
void tcp_detach(struct inet_sock *so, struct ring *ring);
/* Of struct sock_kind. */
void tcp_sock_init(struct inet_sock *so);
bool tcp_sock_close(struct inet_sock *so, struct ring *ring);
void tcp_options_changed(struct inet_sock *so, bool quickack);
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

/* Of struct sock_kind. */
int tcp_set_option(struct sock_ref ref, int level, int name, const void *val, socklen_t len);
void tcp_mirror(struct inet_sock *so, int name, const void *val, struct sock_options *opt);
int tcp_get_option(struct sock_ref ref, int level, int name, void *val, socklen_t *len);
uint32_t tcp_buffer_size(const struct inet_sock *so, bool receive);

/* ---- tcp_listen.c ------------------------------------------------------------------- */

enum drop tcp_listen_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now);
/* Of struct sock_kind. */
bool tcp_listen_flow_begin(struct inet_sock *so, struct sock_flow *flow);
void tcp_listen_flow_shared(struct sock_flow *flow);
void tcp_listen_flow_end(struct sock_flow *flow);
void tcp_listen_flow_free(struct sock_flow *flow);
void tcp_listen_device_changed(struct inet_sock *so);
void tcp_listen_options_applied(struct inet_sock *so);
bool tcp_listen_close(struct inet_sock *so, struct ring *ring);
/* A shard moves: holder of its ring, then of the new one. */
void tcp_shard_leave(struct tcp_shard *shard);
void tcp_shard_arrive(struct tcp_shard *shard, struct ring *ring);

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
