/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Differential tests: what a program can see of its sockets, with and without libvma.
 *
 * A behaviour is two functions, one for each side of a link (or one side and NULL). They
 * say what they see (SAY, say); what they say is the transcript. The driver (run.c) runs
 * each behaviour four times: through the kernel on both sides, with the library under the
 * server, under the client, and under both. All four transcripts of a side must be equal,
 * or the difference stands in intended.txt with its reason.
 *
 *	10.9.0.1 client  v0 ------------ v0  server 10.9.0.2
 *
 * The behaviours of a suite (a file) run one after the other in one process a side, which
 * has no threads but those that a behaviour makes and joins. They may fork; children leave
 * with _exit(). After each one, its descriptors are closed (say if some are left) and both
 * sides meet.
 *
 * What is said must not depend on chance: no times (in_time), no ephemeral ports
 * (say_addr leaves them out), no counts of segments.
 *
 * bazel test //tests/diff:SUITE_diff_test, or by hand, from the root of the tree:
 *	LIB=bazel-bin/libvma.so tests/diff/diff_test.sh SUITE [BEHAVIOUR...]
 * With -v before SUITE, the transcripts are shown.
 */
#ifndef DIFF_H
#define DIFF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

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

/* "text = 5" or "text = -1 EAGAIN"; the value. errno is preserved. */
long say_result(const char *text, long value);

/* The call as it stands in the source, and what it returned: SAY(recv(fd, buf, 9, 0)). */
#define SAY(call) say_result(#call, (long)(call))

/* "text = true" if it is: for what varies, SAY_IF(n > 0 && n < 100). */
#define SAY_IF(condition) say("%s: %s", #condition, (condition) ? "yes" : "no")

/* Bytes, as text if they are; long ones as their number and a sum. */
void say_bytes(const void *data, size_t n);

/* "what server:0", "what client:*": the port relative to port(0), * for others. */
void say_addr(const char *what, const void *addr, socklen_t len);

/* EPOLLIN|EPOLLOUT...; poll's are the same bits. */
void say_events(const char *what, uint32_t events);

/* Milliseconds of a monotonic clock. */
long now_ms(void);

/* Whether [lo, hi] ms have passed since began: "in time", or how long it was. */
void in_time(const char *what, long began, long lo, long hi);
/* Where only that is certain, as it ran once. */
void not_before(const char *what, long began, long lo);

/*
 * A call with a timeout of that many microseconds: what it returned, and "in time". It may never
 * end before them. After them a busy machine may keep it, but not each time: it is called again,
 * up to ten times, until it took less than 20 ms more.
 */
#define SAY_TIMEOUT(usec, call)                                                              \
	for (struct timing t_ = {.text = #call, .least_usec = (usec)}; timing_goes_on(&t_);) \
	timing_result(&t_, (long)(call))

struct timing {
	const char *text;
	long least_usec, began, value;
	int tries, error;
};
bool timing_goes_on(struct timing *t);
void timing_result(struct timing *t, long value);

/* ---- both sides ----------------------------------------------------------------------- */

/* Both are here. */
void meet(void);

/* A number for the other side, and from it: each tell has its hear. */
void tell(long value);
long hear(void);

extern bool is_server;
extern int other_pid; /* the other side */
extern bool with_lib; /* for set-up only, never for what is said */

/* A port of this behaviour alone, the same on both sides: i of 0..9. */
uint16_t port(unsigned i);

struct sockaddr_in server_addr(unsigned i); /* 10.9.0.2, port(i) */
struct sockaddr_in client_addr(unsigned i); /* 10.9.0.1, port(i) */
struct sockaddr_in any_addr(unsigned i);    /* 0.0.0.0, port(i) */
/*
 * On the link, and nobody's: of this behaviour and run alone, so that nobody has looked for
 * it a moment ago (a search that fails in the middle of another one ends that, too).
 */
struct sockaddr_in nobody_addr(void);

/* ---- set-up: what fails ends the behaviour with a line -------------------------------- */

/* value, unless that is negative. */
long must_(const char *text, long value);
#define MUST(call) must_(#call, (long)(call))

/* SOCK_STREAM or SOCK_DGRAM, bound to its side's port(i), with SO_REUSEADDR. */
int bound(int type, unsigned i);
int udp_bound(unsigned i);
int tcp_listening(unsigned i); /* backlog 16 */

/* Called by both sides: a connection (server's end was accepted), port(0). */
int tcp_pair(void);
/* Called by both sides: each end is bound to port(0) and connected to the other. */
int udp_pair(void);

/* Waits until fd has the events (poll), 5 s at most; says so if it has not. */
void await(int fd, short events);

void set_int(int fd, int level, int name, int value);
int get_int(int fd, int level, int name);
void set_nonblocking(int fd, bool on);
/* SO_RCVTIMEO or SO_SNDTIMEO. */
void set_timeout(int fd, int name, int msec);
/*
 * SIGALRM in msec, whose handler does nothing, and again until no_alarm(): a process that
 * was preempted may get the first one before the call that it is to interrupt.
 */
void alarm_in(int msec, int sa_flags);
void no_alarm(void);

/* Sends text to a peer that sends it back, and receives that. */
void ping(int fd, const char *text);
/* That peer, which says what it does. */
void pong(int fd);
/* Waits for the end of the stream. */
void expect_end(int fd);

/*
 * ---- the right moment -------------------------------------------------------------------
 *
 * All of them wait 5 s at most, and say so when that was not enough. Nothing else sleeps
 * (tests/lint/sleeps_test.sh).
 */

/* Until FIONREAD (TCP: exactly that many unread bytes; UDP: a datagram) says n. */
void await_bytes(int fd, int n);
/* Until the peer has acknowledged all that was sent, and a FIN. */
void await_acked(int fd);
/* Until a connection is in that state of <netinet/tcp.h>. */
void await_state(int fd, int state);
/* Called by both sides: then each has what the other sent before, UDP and resets included. */
void arrive(void);

/*
 * Until a thread is blocked in a call: it sleeps, and has not run for 10 ms. With the library
 * it polls before that, and sleeps in another call than the one that it made.
 */
void await_blocked(int tid);
/* The thread of the other side that runs behaviours. What woke it before counts as run. */
void await_other_blocked(void);

/* Time that is the very thing, or that no event tells of: why? */
void let_pass(int msec, const char *why);

/*
 * Sends until nothing more goes, to the last byte: what is left of the window, and less than
 * a segment, is sent when the timer for that runs out, some 200 ms and more later. How much?
 */
long fill_window(int fd);

/* Forks; the child calls fn(arg) and leaves with what it returns. join: says how it ended. */
int spawn(int (*fn)(void *arg), void *arg);
void join(int pid);

#endif
