/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verdicts: whether a socket is accelerated, or why the kernel serves it.  Each socket has
 * one; logs show its sentence.
 */
#ifndef SOCK_CORE_VERDICT_H
#define SOCK_CORE_VERDICT_H

#include <stdbool.h>

#define VERDICT_LIST(X)                                                               \
	X(UNDECIDED, "not decided yet")                                               \
	X(ACCELERATED, "accelerated")                                                 \
	X(LOCAL, "accelerated, local")                                                \
	X(DISABLED, "VMA_OFFLOADED_SOCKETS is 0")                                     \
	X(FAMILY, "the address family is not accelerated")                            \
	X(LOOPBACK, "the address is on this host")                                    \
	X(NO_ROUTE, "there is no route")                                              \
	X(BROADCAST, "broadcast")                                                     \
	X(INTERFACE, "the interface cannot be accelerated")                           \
	X(PORT_FAILED, "the interface could not be taken")                            \
	X(NO_RESOURCES, "out of memory or descriptors")                               \
	X(SHARED_PORT, "other programs listen on the same address and port")          \
	X(FLOW, "the frames could not be steered to us")                              \
	X(OPTION, "an option is set that only the kernel serves")                     \
	X(ROUTE, "the route has a metric that only the kernel serves")                \
	X(CALL, "a call was made that only the kernel serves")                        \
	X(FORKED, "the socket was inherited by a forked process")                     \
	X(PASSED, "the socket was passed to another process")                         \
	X(EXECUTED, "the process executed another program")                           \
	X(NAMESPACE, "the socket is of another network namespace")                    \
	X(SHARED, "a process that has it, too, cannot use it but through the kernel") \
	X(RULE, "a rule in libvma.conf says os")                                      \
	X(DENIED, "a rule in libvma.conf denies the interface")                       \
	X(STOPPED, "it does not listen any more")

enum verdict {
#define X(name, text) VERDICT_##name,
	VERDICT_LIST(X)
#undef X
		VERDICT_COUNT
} __attribute__((packed)); /* a byte of each socket */

const char *verdict_text(enum verdict verdict);

/*
 * Does the kernel serve something that should have been accelerated?  Not if a rule or a
 * parameter wants it, if the address is on this host, if there is no route at all, if it was
 * never used, or if another program or process has it now.
 */
bool verdict_is_fallback(enum verdict verdict);

/*
 * The number of sockets with each verdict.  A socket is counted once, when it is closed or
 * falls back to the kernel.  any, relaxed: for statistics.
 */
extern unsigned verdict_counts[VERDICT_COUNT];
void verdict_count(enum verdict verdict);
/*
 * A debug line for each count that is not 0; an info line if there are fallbacks, with their
 * numbers by reason.
 */
void verdict_log_counts(void);

/*
 * any, no ring held: the program asks an accelerated socket for something that only the kernel
 * can do.  possible: the socket can still fall back to the kernel.  fmt: what was asked for.
 * True: it shall fall back; false: the call fails.  Logs, or ends the program, as
 * VMA_EXCEPTION_HANDLING says.
 */
bool verdict_unsupported(int fd, bool possible, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Acceleration cannot start: ends the program if VMA_EXCEPTION_HANDLING says so. */
void verdict_start_failed(void);

#endif
