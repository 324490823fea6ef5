/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Differential tests: what a program can see of its sockets, with and without libvma.
 *
 * A behaviour is two functions, one for each side of a link (or one side and NULL). They
 * print what they see (SAY, say); this is the transcript. The driver (run.c) runs each
 * behaviour four times: through the kernel on both sides, with the library on the server's
 * side, on the client's side, and on both. All four transcripts of a side must be equal, unless
 * intended.txt lists the difference with its reason.
 *
 *	10.9.0.1 client  v0 ------------ v0  server 10.9.0.2
 *
 * The behaviours of a suite (a file) run one after the other in one process per side, which
 * has only the threads that a behaviour creates and joins. They may fork; children exit
 * with _exit(). After each behaviour, its descriptors are closed (it says so if some are left)
 * and both sides meet.
 *
 * A transcript must not depend on chance: no times (not_before), no ephemeral ports
 * (say_addr omits them), no numbers of segments.
 *
 * bazel test //tests/diff:SUITE_diff_test, or by hand, from the root of the tree:
 *	LIB=bazel-bin/libvma.so tests/diff/diff_test.sh SUITE [BEHAVIOUR...]
 * With -v before SUITE, it prints the transcripts; with -6 first, the sockets are AF_INET6, and
 * their addresses IPv4-mapped (mapped.c).
 */
#ifndef DIFF_H
#define DIFF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Milliseconds after which a wait for an event has failed: a slow machine needs less. */
#define PATIENCE 30000

struct behaviour {
	const char *name; /* in its suite; NULL ends the list */
	void (*server)(void);
	void (*client)(void);
	/*
	 * KERNEL: with the library, too, frames pass through the kernel's TCP or UDP (on
	 * purpose, or because it answers for closed ports). Without it, a side with the
	 * library fails when the kernel's counters of its namespace moved.
	 */
	enum { OURS, KERNEL } by;
};

struct suite {
	const char *name;
	const struct behaviour *list;
};
extern const struct suite suites[]; /* suites.c; a NULL name ends it */

/* ---- the transcript ------------------------------------------------------------------- */

/* A line. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "text = 5" or "text = -1 EAGAIN"; returns the value, preserves errno. */
long say_result(const char *text, long value);

/* The call as in the source, and what it returned: SAY(recv(fd, buf, 9, 0)). */
#define SAY(call) say_result(#call, (long)(call))

/* "text = true" if it is; for values that vary: SAY_IF(n > 0 && n < 100). */
#define SAY_IF(condition) say("%s: %s", #condition, (condition) ? "yes" : "no")

/* Bytes as text, if they are text; many bytes as their number and a sum. */
void say_bytes(const void *data, size_t n);

/* "what server:0", "what client:*": the port relative to port(0), * for others. */
void say_addr(const char *what, const void *addr, socklen_t len);

/* EPOLLIN, EPOLLOUT...; poll() has the same bits. */
void say_events(const char *what, uint32_t events);

/* Milliseconds of the monotonic clock. */
long now_ms(void);

/*
 * "too early" if fewer than lo ms have passed since began, for a call that runs only once. How much
 * later depends on the machine.
 */
void not_before(const char *what, long began, long lo);

/*
 * A call with a timeout of that many microseconds: what it returned, and "in time". It must not
 * return earlier, nor more than 20 ms later. If it does, because the thread got no processor, the call is
 * repeated, up to fifty times; three that were late by themselves are too many.
 */
#define SAY_TIMEOUT(usec, call)                                                              \
	for (struct timing t_ = {.text = #call, .least_usec = (usec)}; timing_goes_on(&t_);) \
	timing_result(&t_, (long)(call))

struct timing {
	const char *text;
	long least_usec, began, waited, value;
	int tries, late, error;
};
bool timing_goes_on(struct timing *t);
void timing_result(struct timing *t, long value);

/* ---- both sides ----------------------------------------------------------------------- */

/* Waits until both sides are here. */
void meet(void);

/* Send a number to the other side, and receive one: each tell has its hear. */
void tell(long value);
long hear(void);

extern bool is_server;
extern int other_pid; /* of the other side */
extern bool with_lib; /* for set-up only, never for the transcript */

/* A port of this behaviour, the same on both sides: i is 0..9. */
uint16_t port(unsigned i);

/* Do sockets have addresses of IPv6? See mapped.c. */
bool is_native(void);
struct sockaddr_in server_addr(unsigned i); /* 10.9.0.2, port(i) */
struct sockaddr_in client_addr(unsigned i); /* 10.9.0.1, port(i) */
struct sockaddr_in any_addr(unsigned i);    /* 0.0.0.0, port(i) */
/*
 * An address on the link that no host has. It is a known neighbour (diff_test.sh): nothing answers,
 * for however long.
 */
struct sockaddr_in nobody_addr(void);

/* ---- set-up: what fails ends the behaviour with a line -------------------------------- */

/* value, unless it is negative: then the behaviour ends. */
long must_(const char *text, long value);
#define MUST(call) must_(#call, (long)(call))

/* SOCK_STREAM or SOCK_DGRAM, bound to port(i) of its side, with SO_REUSEADDR. */
int bound(int type, unsigned i);
int udp_bound(unsigned i);
int tcp_listening(unsigned i); /* backlog 16 */

/* Called by both sides: a connection (the server's end is accepted), port(0). */
int tcp_pair(void);
/* Called by both sides: each end is bound to port(i), or port(0), and connected to the other end. */
int udp_pair_at(unsigned i);
int udp_pair(void);

/* Waits until fd has the events (poll), PATIENCE at most; says so if it does not. */
void await(int fd, short events);

void set_int(int fd, int level, int name, int value);
int get_int(int fd, int level, int name);
void set_nonblocking(int fd, bool on);
/* SO_RCVTIMEO or SO_SNDTIMEO. */
void set_timeout(int fd, int name, int msec);
/*
 * SIGALRM after msec, with a handler that does nothing; it repeats until no_alarm(), because
 * the first one may come before the call that it shall interrupt.
 */
void alarm_in(int msec, int sa_flags);
void no_alarm(void);

/* Sends text to a peer that returns it, and receives it. */
void ping(int fd, const char *text);
/* That peer; it says what it does. */
void pong(int fd);
/* Waits for the end of the stream. */
void expect_end(int fd);
/* close(2) of a connection, which resets it (SO_LINGER). */
void close_with_reset(int fd);

/*
 * ---- the right moment -------------------------------------------------------------------
 *
 * All of them wait PATIENCE at most, and say so when that was not enough. Nothing else sleeps
 * (tests/lint/sleeps_test.sh).
 */

/* Waits until FIONREAD (TCP: exactly this many unread bytes; UDP: a datagram) says n. */
void await_bytes(int fd, int n);
/* Waits until the peer has acknowledged all sent data, and a FIN. */
void await_acked(int fd);
/* Waits until a connection is in that state of <netinet/tcp.h>. */
void await_state(int fd, int state);
/*
 * Called by both sides: then each has received what the other sent before, including UDP and
 * resets.
 */
void arrive(void);

/*
 * Waits until a thread is blocked in a call: it sleeps, and has not run for 10 ms. With the
 * library it polls before that, and sleeps in another call than the one that it made; the library's
 * threads have nothing to do then.
 */
void await_blocked(int tid);
/* Waits until a process has ended, and nobody has waited for it. */
void await_zombie(int pid);
/*
 * Is there something to read, or does it arrive within msec?  The time begins anew as long as
 * another thread of this process (the library's), or an emulated card, has work, for which a busy
 * machine may not yet have given it a processor.
 */
bool arrives(int fd, int msec);
/*
 * The thread of the other side that runs behaviours. Running because of an earlier wake-up
 * counts.
 */
void await_other_blocked(void);

/* Lets time pass, where time itself is tested, or no event exists: says why. */
void let_pass(int msec, const char *why);

/*
 * Sends until the last byte of the window is used. Less than a segment is sent when its timer
 * expires, after some 200 ms or more. Returns the number of bytes.
 */
long fill_window(int fd);

/* Forks; the child calls fn(arg) and exits with its result. join: says how it ended. */
int spawn(int (*fn)(void *arg), void *arg);
void join(int pid);

#endif
