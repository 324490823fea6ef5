/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets: what intercept calls.
 *
 * Each socket lives on one ring, its home, and only the holder of that ring touches its
 * state.  A new socket lives on rings_nowhere().  The descriptor that the program has is that
 * of a kernel socket, the twin: it reserves the port, receives what the kernel still gets,
 * takes the options, and serves the program after a fall back to the kernel.
 *
 * Role		any thread.  Slow calls (bind, connect, listen, close, options) take the control
 *		lock (control.h) inside, so their callers hold no ring.
 * Lifetime	type-stable: the memory of a struct sock is only ever reused for another socket
 *		of its type, with a new generation.  A struct sock_ref names a socket for the
 *		length of a call.  The call holds the ring, then compares generations, so
 *		references need no counting.
 * Errors	0 or a count, -errno, or SOCK_KERNEL: the caller makes the same call of the
 *		kernel and returns its result.
 */
#ifndef SOCK_CORE_SOCK_H
#define SOCK_CORE_SOCK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/list.h"
#include "sock/core/verdict.h"

#define SOCK_KERNEL (-4096)

/* accept: a connection that is in the queue now; -EAGAIN: there is none. */
#define SOCK_ACCEPT_QUEUED 1

/* In sock->events, beside EPOLL*: the socket is LIFE_EXPORTED or LIFE_KEPT_EXPORTED. */
#define SOCK_EXPORTED (1u << 27)
#define SOCK_ASKED (1u << 26) /* exported, and a thread waits for it */

struct epoll;
struct ring;
struct sock;

struct sock_ref {
	struct sock *sk; /* NULL: the kernel serves the descriptor */
	uint32_t gen;
};

#define SOCK_QUICK_SEND (MSG_DONTWAIT | MSG_NOSIGNAL)

/* Sorted. */
struct sock_ops {
	/*
	 * Returns fd or -errno.  child: the new socket; child->sk NULL: the kernel accepted it.
	 * flags: as of accept4(2), or SOCK_ACCEPT_QUEUED.
	 */
	int (*accept)(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
		      struct sock_ref *child);
	int (*bind)(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
	int (*connect)(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
	int (*getpeername)(struct sock_ref ref, struct sockaddr *addr, socklen_t *len);
	int (*getsockname)(struct sock_ref ref, struct sockaddr *addr, socklen_t *len);
	int (*getsockopt)(struct sock_ref ref, int level, int name, void *val, socklen_t *len);
	/* SOCK_KERNEL for every cmd but FIONREAD, SIOCOUTQ and the like. */
	int (*ioctl)(struct sock_ref ref, unsigned long cmd, void *arg);
	int (*listen)(struct sock_ref ref, int backlog);
	/*
	 * recv(2) and send(2) on fd, whose socket it is, as the program calls them.  If all that
	 * they need is there they act at once; otherwise they call sock_hooks.recv or .send as if
	 * they had not been called.  NULL: there is no quick way.  The flags of a send are of
	 * SOCK_QUICK_SEND.
	 */
	ssize_t (*quick_recv)(int fd, void *buf, size_t len, int flags, struct sock_ref ref);
	ssize_t (*quick_send)(int fd, const void *buf, size_t len, int flags, struct sock_ref ref);
	/* Likewise recvfrom(2) and sendto(2), with an address. */
	ssize_t (*quick_recvfrom)(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
				  socklen_t *from_len, struct sock_ref ref);
	ssize_t (*quick_sendto)(int fd, const void *buf, size_t len, int flags,
				const struct sockaddr *to, socklen_t to_len, struct sock_ref ref);
	/* Sets msg_name, msg_namelen, msg_controllen and msg_flags as recvmsg(2). */
	ssize_t (*recv)(struct sock_ref ref, struct msghdr *msg, int flags);
	ssize_t (*send)(struct sock_ref ref, const struct msghdr *msg, int flags);
	int (*setsockopt)(struct sock_ref ref, int level, int name, const void *val, socklen_t len);
	int (*shutdown)(struct sock_ref ref, int how);
};

enum sock_type {
	SOCK_TYPE_UDP,
	SOCK_TYPE_TCP,
	SOCK_TYPE_EPOLL,
	SOCK_TYPES
} __attribute__((packed)); /* a byte of each socket */

/* What sockets of all types have; the rest is in inet_sock.h. */
struct sock {
	/* valid for as long as the memory exists: a call with a stale reference reads them */
	const struct sock_ops *ops; /* atomic; of the thread mode, or of share; an epoll set: NULL */
	enum sock_type type;

	/* any, atomic */
	bool nonblock;	     /* O_NONBLOCK as the program sees it */
	uint8_t twin_events; /* EPOLLIN, EPOLLERR of the twin when it was last polled */
	uint32_t events;     /* EPOLL* bits true now; written by the holder */
	struct ring *home;
	uint32_t gen;	   /* odd while in use; changed when the program closes it and at its end */
	uint32_t left_gen; /* the last generation that fell back to the kernel, or does now */
	unsigned waiters;  /* threads in a blocking call; not reset when the memory is reused */
	int twin;	   /* descriptor of the kernel socket */

	/* set when the socket is made, read by all */
	struct epoll *epoll; /* SOCK_TYPE_EPOLL: see epoll.h */

	/* holder */
	struct list watches;
};

_Static_assert(sizeof(struct sock) == 64, "what everybody reads is in one cache line");

/* Functions of intercept that sock calls; left and started: under the control lock. */
struct sock_hooks {
	/*
	 * app, holding no ring: recv(2), recvfrom(2), send(2) and sendto(2) through recv and send of
	 * the socket's ops.
	 */
	ssize_t (*recv)(int fd, void *buf, size_t len, int flags);
	ssize_t (*recvfrom)(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
			    socklen_t *from_len);
	ssize_t (*send)(int fd, const void *buf, size_t len, int flags);
	ssize_t (*sendto)(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
			  socklen_t to_len);
	/* The kernel serves the socket from now on: its descriptors are ordinary ones. */
	void (*left)(struct sock *sk);
	/* The first socket is about to be accelerated. */
	void (*started)(void);
};

/*
 * Once at start: makes no thread and no descriptor, and takes hardly any memory.  Everything
 * else starts with the first socket that is accelerated.
 */
void sock_init(const struct sock_hooks *hooks);

/*
 * any, at exit: closes connections in order (bounded in time) and gives the interfaces back.
 * Does nothing when called again, or by a thread that is in the middle of a call, or if another
 * thread keeps the control lock for a second.
 */
void sock_exit(void);
/* any: has sock_exit() anything to do?  May be out of date at once. */
bool sock_is_active(void);

/*
 * any, also in a signal handler, whatever it interrupted: makes the internal thread call
 * then(arg) soon, which must not return.  The internal thread has no lock then, and is not in
 * the middle of a change to any socket.  False: sock_exit() has nothing to do, and then() is
 * not called.
 */
bool sock_exit_by(int arg, void (*then)(int arg));

/*
 * any: the process is about to give up its privileges for good.  Prepares what it shares with
 * the process that it was forked from, so that it can use that afterwards.
 */
void sock_unprivileged(void);
/*
 * any: a process of root is about to change its root directory.  Prepares what it inherited,
 * so that it can use that afterwards: below the new root there are neither /proc nor the names
 * by which it finds the other processes that share an interface.
 */
void sock_changes_root(void);
/* any: has sock_unprivileged() been called? */
bool sock_is_unprivileged(void);

/*
 * In a forked child: false if it has a connection. Its parent may end at any time, and leaves the connection
 * to whoever answers then. Also false if it returns from a receive callback into a call.
 */
bool sock_fork_child_may_wait(void);
/* In a forked child that waits: at once. */
void sock_fork_child_waits(void);
/*
 * In a forked child, before any other function of sock: inherited sockets begin as exported, or the
 * kernel serves them.
 */
void sock_fork_child(void);
/*
 * Around fork() in the parent: no thread is in a slow call meanwhile. detached: the child gets no socket,
 * so they stay as they are.
 */
void sock_fork_prepare(bool detached);
void sock_fork_parent(bool detached);

/* Is an Internet socket of this type (without flags) and protocol TCP or UDP? */
static inline bool sock_is_ours(int type, int protocol)
{
	return (type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP)) ||
	       (type == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP));
}

/*
 * Makes the socket object for fd, a new kernel socket of the program (type: without
 * SOCK_CLOEXEC and SOCK_NONBLOCK).  ref.sk NULL: the kernel serves it; so for all but AF_INET
 * and AF_INET6 with SOCK_STREAM or SOCK_DGRAM.
 */
struct sock_ref sock_create(int fd, int domain, int type, int protocol, bool nonblock);

/*
 * app, no ring held: ends a blocking call, which counted itself in sock.waiters.  The last
 * one closes the socket if the program closed it meanwhile.  ref may be stale.
 */
void sock_wait_leave(struct sock_ref ref);

/* An object of SOCK_TYPE_EPOLL for the descriptor table; see epoll.h.  ref.sk NULL: no memory. */
struct sock_ref sock_create_epoll(int fd, struct epoll *epoll);

/*
 * The program closes its last descriptor of the socket.  The caller closes that descriptor;
 * any other one of the twin is closed here.
 */
void sock_close(struct sock_ref ref);

/* sock->twin is about to be closed while the program has other descriptors: uses fd instead. */
void sock_set_twin(struct sock_ref ref, int fd);

void sock_set_nonblock(struct sock_ref ref, bool nonblock);

/* Sets or clears O_ASYNC; fd: the program's descriptor, for si_fd.  0 or -errno. */
int sock_set_async(struct sock_ref ref, int fd, bool on);

/* any: a thread changes its network namespace, now or later. */
void sock_namespaces_differ(void);

/* The socket falls back to the kernel, because of a call that only the kernel serves.  -errno. */
int sock_to_kernel(struct sock_ref ref, enum verdict reason);

enum verdict sock_verdict(const struct sock *sk);

/* Events that are true now; those of the twin as of the last time that it was polled. */
static inline uint32_t sock_events(const struct sock *sk)
{
	/* Pairs with sock_set_events(). */
	return __atomic_load_n(&sk->events, __ATOMIC_ACQUIRE) |
	       __atomic_load_n(&sk->twin_events, __ATOMIC_RELAXED);
}

/* The calls of the socket now.  Another thread may export or fetch the socket meanwhile. */
static inline const struct sock_ops *sock_ops_of(const struct sock *sk)
{
	/* Pairs with the stores of ops: what the calls of that table need is set up. */
	return __atomic_load_n(&sk->ops, __ATOMIC_ACQUIRE);
}

static inline bool sock_is_exported(const struct sock *sk)
{
	return __atomic_load_n(&sk->events, __ATOMIC_RELAXED) & SOCK_EXPORTED;
}

static inline bool sock_ref_valid(struct sock_ref ref)
{
	/* Pairs with sock_alloc() and with the end of the references in sock.c. */
	return __atomic_load_n(&ref.sk->gen, __ATOMIC_ACQUIRE) == ref.gen;
}

/*
 * Can the twin make this socket ready, so that it must be polled, too?  (UDP: datagrams that
 * the kernel still receives; listeners: connections that it accepts.)
 */
bool sock_twin_matters(const struct sock *sk);

/* The twin's descriptor at this moment; the program may close it meanwhile. */
static inline int sock_twin(const struct sock *sk)
{
	/* Pairs with sock_set_twin() and with what closes the old descriptor after it. */
	return __atomic_load_n(&sk->twin, __ATOMIC_ACQUIRE);
}

/* A call that moved some bytes met this error (or SOCK_KERNEL): the next call reports it. */
void sock_keep_error(struct sock_ref ref, int error);

/* The number of bytes that a send on a connection takes without blocking; 0 for other sockets. */
size_t sock_room(struct sock_ref ref);

/*
 * Polls the twin (without blocking), updates twin_events, and returns what it has seen: another thread that
 * looked before may store later.
 */
uint32_t sock_look_at_twin(struct sock *sk);

/* ---- polling rings on behalf of sockets, for poll, select and epoll ---------- */

#define SOCK_RINGS_MAX 64

/* The rings that may receive frames for this socket; returns their number, at most max. */
unsigned sock_rings(const struct sock *sk, struct ring **rings, unsigned max);

/* Changes whenever sock_rings() of any socket may have changed; lock-free. */
uint32_t sock_rings_generation(void);

/* Holds the ring, polls it once, releases it.  Returns the number of frames. */
int sock_poll_ring(struct ring *ring);

/* Polls once each ring of the socket except its home. */
void sock_poll_others(const struct sock *sk);

/* Holds the socket's home ring.  False: the socket is gone, or this thread holds a ring. */
bool sock_hold(struct sock_ref ref, struct ring **ring);
void sock_release(struct ring *ring);

/* ---- signals ------------------------------------------------------------------ */

/*
 * Counts the program's signal handlers that ran on this thread; written by the trampoline of
 * intercept.  A call that spins compares the counts, to return -EINTR as the kernel does.
 * restart: handlers with SA_RESTART.
 */
struct sock_signals {
	unsigned handled;
	unsigned restart;
};
extern __thread struct sock_signals sock_signals __attribute__((tls_model("initial-exec")));

/*
 * Must a call that read the counts into *before when it began return -EINTR?  signal(7):
 * SA_RESTART restarts a call, unless it has a timeout.
 */
static inline bool sock_signals_interrupt(const struct sock_signals *before, bool timeout)
{
	unsigned handled = sock_signals.handled - before->handled;

	return handled && (timeout || sock_signals.restart - before->restart != handled);
}

/* The trampoline, for a signal with SI_SIGIO: sets si_code to what the kernel would send. */
void sock_signal_fix(siginfo_t *info);

/* The thread is in a receive callback of the program (vma_extra.h). */
extern __thread bool sock_in_callback __attribute__((tls_model("initial-exec")));

/* In a signal handler that was deferred (base/busy.h): releasing a ring lets it run. */
void sock_signals_wait(void);

/*
 * Called before a handler or callback of the program: the sleep that it interrupts leaves all
 * places.
 */
void sock_signal_enters(void);

#endif
