/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The error queue of a stream socket, which has completions of sends with MSG_ZEROCOPY.
 *
 * With SO_ZEROCOPY each send that has this flag and takes bytes gets the next number of its socket, from 0.
 * Its completion says that the program may use the memory again.  The library has copied the bytes when
 * the call ends, so it tells the completion then, with SO_EE_CODE_ZEROCOPY_COPIED.  The kernel joins a
 * completion to the last one of the queue if their numbers follow each other; these always do, so a
 * queue is one range.
 *
 * Role		holder of home, unless said otherwise.
 * Lifetime	the counter is the socket's: it goes on after connect(2) with AF_UNSPEC, and in another
 *		process.
 */
#ifndef SOCK_CORE_MSG_ERROR_QUEUE_H
#define SOCK_CORE_MSG_ERROR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct inet_sock;
struct sock_rare;

/*
 * In sock->events: EPOLLERR is set because of completions alone.  No error ends the connection, so a
 * call that waits for data goes on waiting.
 */
#define SOCK_COMPLETED (1u << 25)

/* Numbers that are told and not read: more are refused.  Half of the numbers, so first is never ambiguous. */
#define ERROR_QUEUE_MAX (1u << 31)

struct error_queue {
	uint32_t first; /* the oldest one that is told and not read */
	uint32_t next;	/* the number of the next send; first: nothing is told */
};

static inline bool error_queue_empty(const struct error_queue *q)
{
	return q->first == q->next;
}

static inline bool error_queue_full(const struct error_queue *q)
{
	return q->next - q->first >= ERROR_QUEUE_MAX;
}

/* A send ended. */
static inline void error_queue_tell(struct error_queue *q)
{
	q->next++;
}

/* The range that the program reads, *lo to *hi; false: there is none. */
static inline bool error_queue_take(struct error_queue *q, uint32_t *lo, uint32_t *hi)
{
	if (error_queue_empty(q))
		return false;
	*lo = q->first;
	*hi = q->next - 1;
	q->first = q->next;
	return true;
}

/* The events of a connection, which has these without its completions. */
uint32_t error_queue_events(const struct sock_rare *rare, uint32_t events);

/*
 * Before a send with MSG_ZEROCOPY: will it be completed?  0: no, SO_ZEROCOPY is off; 1: yes, and
 * sock_error_queue_tell() cannot fail; -ENOBUFS: no memory, or too many are told.
 */
int sock_error_queue_begin(struct inet_sock *so);
/* That send took bytes, and is over. */
void sock_error_queue_tell(struct inet_sock *so);
/*
 * recvmsg(2) with MSG_ERRQUEUE: writes the oldest entry into msg as the kernel does.  0 or -EAGAIN:
 * there is none.
 */
int sock_error_queue_read(struct inet_sock *so, struct msghdr *msg);

/* The socket's numbers, for another process or the kernel: also of one that is exported. */
struct error_queue sock_error_queue(const struct inet_sock *so);
/* The socket goes on with these: the reverse.  0 or -ENOMEM. */
int sock_error_queue_set(struct inet_sock *so, struct error_queue completions);

#endif
