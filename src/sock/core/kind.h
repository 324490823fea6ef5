/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What kinds of sockets do differently.
 *
 * A room of sock calls only rooms that stand before it.  What core and options need from
 * the rooms above them goes through two tables: struct sock_kind, one for each kind, and
 * struct sock_upcalls, one for the process.  lifecycle.c, which stands above all rooms,
 * fills both; they do not change.
 *
 * Role		as each member says.  "control lock" includes that no ring is held, unless
 *		the member says "holder".  A member that may be NULL says so: then the kind
 *		has nothing to do there.
 */
#ifndef SOCK_CORE_KIND_H
#define SOCK_CORE_KIND_H

#include "net/icmp.h"
#include "sock/core/inet_sock.h"

struct sock_kind {
	const char *name;
	uint8_t protocol; /* IPPROTO_UDP, IPPROTO_TCP */
	/* [HOLD_MODES], of a fresh socket; NULL: a socket is never made as this kind */
	const struct sock_ops *ops;
	flow_fn deliver; /* of its flows */

	/* Control lock: a fresh object, with its options, becomes one of this kind. */
	void (*init)(struct inet_sock *so);
	/* Control lock: the kind's own defaults in opt; the twin is given the same. */
	void (*default_options)(struct inet_sock *so, struct sock_options *opt);

	/* ---- flows: control lock, or holder of the flow's ring ---- */

	/* Before the flow is listed on its ring.  False: no memory.  NULL: nothing to do. */
	bool (*flow_begin)(struct inet_sock *so, struct sock_flow *flow);
	/* holder: the flow has come to have several receivers.  NULL, likewise the next two. */
	void (*flow_shared)(struct sock_flow *flow);
	/* holder: the flow was taken off its ring. */
	void (*flow_end)(struct sock_flow *flow);
	/* Control lock: what flow_begin() made is freed. */
	void (*flow_free)(struct sock_flow *flow);
	/* Control lock: the socket's flows go, and come back as addresses and options are now. */
	void (*attach_anew)(struct inet_sock *so); /* NULL: sock_attach() is all there is to it */
	/* Control lock: its flows go, and attach_anew() is going to follow.  NULL. */
	void (*detach)(struct inet_sock *so);
	/* Control lock: sock_flows_del() has removed all flows; they may come back.  NULL. */
	void (*detached)(struct inet_sock *so);
	/* holder of its home: what is unread goes with the socket to another ring.  NULL. */
	void (*leave_home)(struct inet_sock *so, struct ring *ring);
	/* Control lock: SO_BINDTODEVICE was set.  NULL. */
	void (*device_changed)(struct inet_sock *so);
	/* Control lock: the kernel receives for its multicast groups from now on.  NULL. */
	void (*groups_to_kernel)(struct inet_sock *so);
	/* Control lock: where it keeps the claim of its port (port_claim.h).  NULL: it has none. */
	int *(*claim)(struct inet_sock *so);
	/* holder: an ICMP error quotes a packet of this flow.  NULL. */
	void (*icmp_error)(struct ring *ring, struct flow *flow, const struct icmp_error *error);

	/* ---- its end ---- */

	/*
	 * Control lock: the socket leaves for the kernel, which receives for it from now on.
	 * True: it has something unread, and leaves when that was read.  NULL: false.
	 */
	bool (*linger)(struct inet_sock *so);
	/* Control lock: it is leaving for the kernel, its flows are still there.  NULL. */
	void (*leaving)(struct inet_sock *so);
	/*
	 * holder of home: the program closed it, or the kernel has it.  True: it lives on, and
	 * frees itself.
	 */
	bool (*close)(struct inet_sock *so, struct ring *ring);
	/* Control lock: it ends, its flows are gone.  NULL. */
	void (*ended)(struct inet_sock *so);

	/* ---- options: control lock, unless said otherwise ---- */

	/*
	 * setsockopt(2), before the twin is asked: 0, -errno of the call, or SOCK_KERNEL: go on
	 * as for any socket.  NULL: so for all options.
	 */
	int (*set_option)(struct sock_ref ref, int level, int name, const void *val, socklen_t len);
	/* The twin took an option of the kind's own level: opt says what we make of it. */
	void (*mirror)(struct inet_sock *so, int name, const void *val, struct sock_options *opt);
	/* setsockopt(2) of a multicast membership: 0 or -errno.  NULL: it has none. */
	int (*set_group)(struct inet_sock *so, int name, const void *val, socklen_t len);
	/* holder: so->opt changed; quickack: TCP_QUICKACK was set.  NULL. */
	void (*options_changed)(struct inet_sock *so, bool quickack);
	/* so->opt changed; what depends on it on other rings follows.  NULL. */
	void (*options_applied)(struct inet_sock *so);
	/* An option was set that flows may depend on.  NULL. */
	void (*option_followed)(struct inet_sock *so, int level, int name);
	/* No lock, no ring held: setsockopt(2) succeeded, and returns.  NULL. */
	void (*option_set)(struct sock_ref ref, int level, int name);
	/* No lock, no ring held: getsockopt(2), or SOCK_KERNEL: the twin knows it.  NULL. */
	int (*get_option)(struct sock_ref ref, int level, int name, void *val, socklen_t *len);
	/* A buffer as it is now, as the kernel counts.  NULL: buffers do not grow. */
	uint32_t (*buffer_size)(const struct inet_sock *so, bool receive);
};

/* By enum inet_kind. */
extern const struct sock_kind *const sock_kinds[INET_KINDS];

static inline const struct sock_kind *sock_kind_of(const struct inet_sock *so)
{
	return sock_kinds[so->inet];
}

/* Any: the kind it was made as, which is TCP's for a listener. */
static inline const struct sock_kind *sock_kind_made(const struct sock *sk)
{
	return sock_kinds[sk->type == SOCK_TYPE_TCP ? INET_TCP : INET_UDP];
}

/* -EAGAIN of a call that found the socket exported: it is fetched, and the call tries again. */
#define SOCK_FETCH (-4097)
/* The longest that a call which must not block waits for that. */
#define SHARE_FETCH_MAX NSEC_PER_SEC

/* What core needs from rooms above it, whatever the kind. */
struct sock_upcalls {
	/* Control lock: opens netlink and starts the internal thread.  0 or -errno. */
	int (*start)(void);
	/* sock_exit() */
	void (*exit)(void);

	/* ---- wait ---- */

	/* The set's descriptor got another number. */
	void (*epoll_set_fd)(struct epoll *epoll, int fd);
	void (*epoll_destroy)(struct epoll *epoll);
	/* holder: the socket is in no epoll set any more. */
	void (*epoll_sock_closed)(struct sock *sk);
	/* Control lock: its entries move to the kernel's set. */
	void (*epoll_sock_left)(struct sock *sk);

	/* ---- move: control lock ---- */

	/* A move that is under way is brought to its end; called off; see move/move.h. */
	void (*move_settle)(struct inet_sock *so);
	void (*move_cancel)(struct inet_sock *so);
	/* holder of home: the program closed it. */
	void (*move_closed)(struct inet_sock *so);
	/* Of a datagram socket: what is unread goes to the twin.  True: the kernel has it. */
	bool (*unread_to_kernel)(struct inet_sock *so);
	/* A port was opened that knows nothing of addresses which the host has lost. */
	void (*port_opened)(void);
	/* Any: has the host lost this address so shortly ago that flows wait for it? */
	bool (*addr_expected)(const struct inaddr *addr);

	/* ---- share ---- */

	/* By enum inet_kind: the calls of a socket that another process has. */
	const struct sock_ops *exported_ops[INET_KINDS];
	/*
	 * App, no ring held: has a connection that another process has brought here.  patience
	 * 0: for ever.  0: it is here, or was just now; -EAGAIN: not within patience; -EINTR;
	 * -EBADF; another error: it cannot come here.
	 */
	int (*fetch)(struct sock_ref ref, nsec_t patience);
	/* Any: as above, and does not wait; the socket's events will tell. */
	void (*request)(struct sock_ref ref);
	/* App: O_NONBLOCK of the file, which another process may have changed. */
	bool (*nonblock_now)(struct inet_sock *so);

	/* Control lock: the program closed it.  True: other processes hold it, and share did the rest. */
	bool (*share_close)(struct inet_sock *so);
	/* Control lock: it goes to the kernel here, and so in all processes. */
	void (*share_leave)(struct inet_sock *so, enum verdict reason);
};

extern const struct sock_upcalls sock_upcalls;

#endif
