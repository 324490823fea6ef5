/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets: what intercept calls.
 *
 * A socket has a home ring; all its state belongs to the holder of that ring.
 * Before it has one its home is rings_nowhere().  The descriptor the program
 * holds is a real kernel socket, the twin: it reserves the port, receives what
 * the kernel still gets, takes the options, and is what we fall back to.
 *
 * Role		any thread.  Slow calls (bind, connect, listen, close, options)
 *		are serialised by the control lock inside; nobody takes it
 *		while holding a ring.
 * Lifetime	type-stable: the memory of a struct sock is only ever reused for
 *		another one of its kind, with a new generation.  A struct sock_ref names a
 *		socket for the length of a call; the call holds the ring, then
 *		compares generations, so a reference needs no counting.
 * Errors	0 or a count, -errno, or SOCK_KERNEL: make the kernel's call with
 *		the same arguments, its result is the result.
 */
#ifndef SOCK_CORE_SOCK_H
#define SOCK_CORE_SOCK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/list.h"
#include "sock/core/verdict.h"

#define SOCK_KERNEL (-4096)

/* In sock->events, beside EPOLL*: LIFE_EXPORTED or LIFE_KEPT_EXPORTED, for who polls. */
#define SOCK_EXPORTED (1u << 27)
#define SOCK_ASKED (1u << 26) /* and somebody waits for it */

struct epoll;
struct ring;
struct sock;

struct sock_ref {
	struct sock *sk; /* NULL: not ours */
	uint32_t gen;
};

/* Sorted. */
struct sock_ops {
	/* child: the new socket, with child.sk NULL if the kernel accepted it; fd or -errno. */
	int (*accept)(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
		      struct sock_ref *child);
	int (*bind)(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
	int (*connect)(struct sock_ref ref, const struct sockaddr *addr, socklen_t len);
	int (*getpeername)(struct sock_ref ref, struct sockaddr *addr, socklen_t *len);
	int (*getsockname)(struct sock_ref ref, struct sockaddr *addr, socklen_t *len);
	int (*getsockopt)(struct sock_ref ref, int level, int name, void *val, socklen_t *len);
	/* cmd is FIONREAD, SIOCOUTQ...; others: SOCK_KERNEL */
	int (*ioctl)(struct sock_ref ref, unsigned long cmd, void *arg);
	int (*listen)(struct sock_ref ref, int backlog);
	/* Fills msg_name, msg_namelen, msg_controllen, msg_flags as recvmsg(2). */
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

/* What every socket has; the rest is in inet_sock.h. */
struct sock {
	/* of this memory for good, read by all: a late call reads them, too */
	const struct sock_ops *ops; /* of the thread mode, or share_ops; SOCK_TYPE_EPOLL: NULL */
	enum sock_type type;

	/* any, atomic */
	bool nonblock;	      /* O_NONBLOCK as the program sees it */
	uint16_t twin_events; /* EPOLLIN, EPOLLERR: the kernel has something for us, too */
	uint32_t events;      /* EPOLL* bits true now; written by the holder */
	struct ring *home;
	uint32_t gen;	   /* odd while in use; changed when the program closes it and at its end */
	uint32_t left_gen; /* the last generation that leaves or left for the kernel */
	unsigned waiters;  /* threads in a blocking call; goes on counting when it is reused */
	int twin;	   /* descriptor of the kernel socket */

	/* set when the socket is made, read by all */
	struct epoll *epoll; /* SOCK_TYPE_EPOLL: see epoll.h */

	/* holder */
	struct list watches;
};

_Static_assert(sizeof(struct sock) == 64, "what everybody reads is in one cache line");

/* Called by intercept: what sock needs from above. */
struct sock_hooks {
	/*
	 * The socket left us for the kernel: its descriptors are plain from now
	 * on.  Called under the control lock.
	 */
	void (*left)(struct sock *sk);
	/* The first one is about to be accelerated.  Under the control lock. */
	void (*started)(void);
};

/*
 * Once at start, cheap: no thread, no descriptor, no memory to speak of.  The
 * rest starts with the first socket that is accelerated.
 */
void sock_init(const struct sock_hooks *hooks);

/*
 * At exit: says goodbye to peers (bounded in time), gives interfaces back.  Any thread; who
 * comes second, or is in the middle of a call, does nothing.
 */
void sock_exit(void);
/* Is there anything that it would do? Any; may be out of date at once. */
bool sock_is_active(void);

/*
 * Any thread, signal handlers included, whatever they interrupted: the internal thread is
 * to call then(arg) soon, with no lock held and nothing of the sockets changed, and do
 * nothing else any more.  False: there is nothing to say goodbye for.
 */
bool sock_exit_by(int arg, void (*then)(int arg));

/*
 * The process is about to give up its privileges for good, any thread.  What it has in common
 * with the process that it was forked from it takes care to be able to use afterwards.
 */
void sock_unprivileged(void);
/*
 * The process of root is about to have another root directory, any thread.  What it inherited
 * it takes care to be able to use afterwards: the names by which it finds the processes that
 * share an interface are not below the new one, nor is /proc.
 */
void sock_changes_root(void);
/* Has it given up its privileges?  Any. */
bool sock_is_unprivileged(void);

/* In a forked child, before anything else: every inherited socket is the kernel's. */
void sock_fork_child(void);
/* Around fork in the parent: nobody is in the middle of a slow call. */
void sock_fork_prepare(void);
void sock_fork_parent(void);

/*
 * Takes charge of a fresh kernel socket of the program: AF_INET, SOCK_STREAM or
 * SOCK_DGRAM (type without flags).  ref.sk NULL: left to the kernel.
 */
struct sock_ref sock_create(int fd, int domain, int type, int protocol, bool nonblock);

/*
 * App, no ring held: a call that waits on the socket, and counted itself in sock.waiters, has
 * ended.  The last one closes a socket that the program closed meanwhile.
 */
void sock_wait_leave(struct sock_ref ref);

/* An object of SOCK_TYPE_EPOLL for the fd table; epoll.h fills it. */
struct sock_ref sock_create_epoll(int fd, struct epoll *epoll);

/*
 * The program closed its last descriptor.  The twin, unless it is the
 * program's own descriptor number being closed right now (caller closes that),
 * is closed here.
 */
void sock_close(struct sock_ref ref);

/* The descriptor we use for the twin goes away while others remain: uses fd instead. */
void sock_set_twin(struct sock_ref ref, int fd);

void sock_set_nonblock(struct sock_ref ref, bool nonblock);

/* O_ASYNC, by the program's descriptor fd: signals are sent.  0 or -errno. */
int sock_set_async(struct sock_ref ref, int fd, bool on);

/* A thread changes its network namespace, now or later.  Any thread. */
void sock_namespaces_differ(void);

/* The kernel must serve it from now on: dup tricks, unknown calls.  0 or -errno. */
int sock_to_kernel(struct sock_ref ref, enum verdict reason);

enum verdict sock_verdict(const struct sock *sk);

/* Events true now, of ours and of the twin as far as it was looked at. */
static inline uint32_t sock_events(const struct sock *sk)
{
	/* Pairs with sock_set_events(). */
	return __atomic_load_n(&sk->events, __ATOMIC_ACQUIRE) |
	       __atomic_load_n(&sk->twin_events, __ATOMIC_RELAXED);
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
 * Must the kernel be asked, too, whether this socket is ready?  (UDP: what the
 * kernel still receives; listeners: connections it accepts.)  Then poll its twin.
 */
bool sock_twin_matters(const struct sock *sk);

/* Its descriptor at this moment: the program may close its own meanwhile. */
static inline int sock_twin(const struct sock *sk)
{
	/* Pairs with sock_set_twin() and with what closes the old descriptor after it. */
	return __atomic_load_n(&sk->twin, __ATOMIC_ACQUIRE);
}

/* A call that had some success met an error (or SOCK_KERNEL): the next call tells it. */
void sock_keep_error(struct sock_ref ref, int error);

/* Bytes a send on a connection takes without waiting; 0: none, or no connection. */
size_t sock_room(struct sock_ref ref);

/* Looks at the twin now (poll(2) without waiting) and updates twin_events. */
void sock_look_at_twin(struct sock *sk);

/* ---- polling rings on behalf of sockets, for poll, select and epoll ---------- */

#define SOCK_RINGS_MAX 64

/* The rings whose frames may concern this socket; returns how many (at most max). */
unsigned sock_rings(const struct sock *sk, struct ring **rings, unsigned max);

/* Changes whenever sock_rings() of any socket may have changed; lock-free. */
uint32_t sock_rings_generation(void);

/* One round on a ring: holds, polls, releases.  Number of frames. */
int sock_poll_ring(struct ring *ring);

/* One round on the rings of a socket beside its home. */
void sock_poll_others(const struct sock *sk);

/* Holds the socket's home ring; false: the socket is gone, or re-entered. */
bool sock_hold(struct sock_ref ref, struct ring **ring);
void sock_release(struct ring *ring);

/* ---- signals ------------------------------------------------------------------ */

/*
 * Signal handlers of the program that ran on this thread; written by
 * intercept's trampoline.  A call that spins compares before and after, to
 * return -EINTR as the kernel does.  restart: how many of them had SA_RESTART.
 */
struct sock_signals {
	unsigned handled;
	unsigned restart;
};
extern __thread struct sock_signals sock_signals __attribute__((tls_model("initial-exec")));

/*
 * Has a call that began at before to end with -EINTR?  signal(7): SA_RESTART restarts a call,
 * unless it has a timeout.
 */
static inline bool sock_signals_interrupt(const struct sock_signals *before, bool timeout)
{
	unsigned handled = sock_signals.handled - before->handled;

	return handled && (timeout || sock_signals.restart - before->restart != handled);
}

/* The trampoline, of a signal with SI_SIGIO: what the kernel would have said. */
void sock_signal_fix(siginfo_t *info);

/* In a handler whose signal was put off (base/busy.h): rings let them in, too. */
void sock_signals_wait(void);

/* First thing of the trampoline: whom the handler interrupted is not asleep meanwhile. */
void sock_signal_enters(void);

#endif
