/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP connections through shared memory: what the files of their kind share.
 *
 * A connection has two ends, which are sockets of one or two processes.  Each direction is a byte
 * ring (ring/local/byte_ring.h).  Both are in one slot of the initiator's memory, whose number on
 * the link (local_link.h) is the connection's:
 *
 *	page 0		struct local_shared
 *	page 1...	the bytes from the initiator to the responder
 *	page n...	the bytes from the responder to the initiator
 *
 *	connect()				listen()
 *	finds the listener in the directory	registers there
 *	opens its end of a slot
 *	LOCAL_CONNECT ------------------------>	internal thread: opens the other end,
 *	sees the answer in the slot <----------	answers, queues the connection
 *						accept()
 *
 * A listener whose queue is full answers when accept() has made room, as a kernel that drops the
 * handshake answers a later one; or when the time is over that the message says, in milliseconds: those
 * after which a kernel would have sent its last SYN in vain.
 *
 * A process that has the listener no more refuses, or has ended.  Other processes may have it, so the kernel, which
 * knows, connects then (local_connect_refused()).
 *
 * Role		"holder" is the holder of local_ring(), the home of every local connection.
 * Lifetime	the socket's part begins with local_conn_open() and ends with
 *		local_conn_close(); the memory is the link's, and stays while the program has bytes in place
 *		(local_keep.h).  A connection needs no orphan: what
 *		was written stays readable for the peer, also after this process has ended.
 * Trust	see byte_ring.h; local_shared.answer is read once, and any value but those below
 *		is a refusal.
 */
#ifndef SOCK_LOCAL_LOCAL_SOCK_H
#define SOCK_LOCAL_LOCAL_SOCK_H

#include <arpa/inet.h>
#include <errno.h>

#include "base/sys.h"
#include "sock/core/kind.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_keep.h"
#include "sock/local/local_link.h"
#include "sock/wait/quick_list.h"

#define LOCAL_RING_MIN (16u << 10)  /* bytes of a ring */
#define LOCAL_RING_MAX (512u << 10) /* the size of its place in a slot, too */
#define LOCAL_SLOT (SEGMENT_PAGE + 2 * LOCAL_RING_MAX)

/* local_shared.answer: 0 until the responder has answered. */
enum local_answer { LOCAL_ACCEPTED = 1, LOCAL_REFUSED, LOCAL_TIMED_OUT };

struct local_shared {
	struct byte_ring_shared to_responder, to_initiator;
	/* responder, atomic */
	uint64_t answer __attribute__((aligned(64)));
	/* initiator, atomic: it has given up; an answer is not needed any more */
	uint64_t cancelled __attribute__((aligned(64)));
	/* [LOCAL_INITIATOR], [LOCAL_RESPONDER]; that end, atomic: see local_move.h */
	struct local_side {
		uint64_t process; /* where it is */
		uint64_t moves;	  /* how often it left a process for another one */
		uint64_t gone;	 /* it has moved at least once, and is closed: uses no memory now */
		uint64_t execs;	 /* its process executes a program that does not have it */
		uint64_t locked; /* value of moves: see local_transit_is_over() */
	} __attribute__((aligned(64))) side[2];
};

#define LOCAL_INITIATOR 0u
#define LOCAL_RESPONDER 1u

_Static_assert(sizeof(struct local_shared) <= SEGMENT_PAGE, "it has a page of its own");

/* LOCAL_CHUNK slots are in one segment, after a page. */
#define LOCAL_SEGMENT 2u /* its kind */
#define LOCAL_SEGMENT_SIZE (SEGMENT_PAGE + (size_t)LOCAL_CHUNK * LOCAL_SLOT)

_Static_assert(SEGMENT_HEADER <= SEGMENT_PAGE, "the slots begin after a page");

/* Maps a segment that another process has sent; consumes fd. As segment_open(). */
static inline int local_segment_open(struct segment *segment, int fd)
{
	return segment_open(segment, fd, LOCAL_SEGMENT, LOCAL_SEGMENT_SIZE,
			    LOCAL_SEGMENT_SIZE + SEGMENT_PAGE);
}

static inline uint8_t *local_slot(const struct segment *chunk, uint32_t number)
{
	return segment_at(chunk, SEGMENT_PAGE + (uint64_t)(number % LOCAL_CHUNK) * LOCAL_SLOT,
			  LOCAL_SLOT, SEGMENT_PAGE);
}

/* Is it a capacity that a ring of a connection may have? */
static inline bool local_is_capacity(uint32_t size)
{
	return size >= LOCAL_RING_MIN && size <= LOCAL_RING_MAX && !(size & (size - 1));
}

/*
 * A low port stands for a privilege, so a peer believes it only of a user that may have it without one:
 * root, or where the network namespace says so (ip_unprivileged_port_start).
 */
#define LOCAL_LOW_PORTS 1024u

static inline bool local_is_low(uint16_t port)
{
	return ntohs(port) < LOCAL_LOW_PORTS;
}

bool local_may_be_low(uint16_t port); /* local.c */

static inline bool local_may_come_from(uint16_t port)
{
	return !local_is_low(port) || local_may_be_low(port);
}

#define X(name, mode)                                                                  \
	QUICK_DECLARE(local_quick, name)                                               \
	QUICK_LOOK_DECLARE(local_quick, name)                                          \
	ssize_t local_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags); \
	ssize_t local_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags);
SOCK_MODES(X)
#undef X

/* ---- local_zcopy.c: members of struct sock_kind, and what the program has in place (holder) ---- */

ssize_t local_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags);
bool local_xtreme_take(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
		       const struct xtreme_name *name);
/*
 * A packet with the bytes that lie in one piece `skip` behind the head, as of the last look at the ring; they are
 * kept from now on, and not consumed.  -EAGAIN: there are none.  -ENOBUFS: the program has too many.  -EOPNOTSUPP:
 * another process that had this end has some.  -ENOMEM.
 */
int local_conn_keep(struct inet_sock *so, uint32_t skip, struct pkt **pkt);
/* It has a keeper from now on.  False: no memory. */
bool local_conn_may_keep(struct inet_sock *so);
/* Has the program bytes of it whose room the peer waits for? */
bool local_conn_is_stopped(const struct inet_sock *so);
/* Has the program bytes of it?  It has a keeper. */
bool local_conn_keeps(struct inet_sock *so);
/* The connection leaves its link for another one, and its memory for another mapping of it. */
void local_conn_keep_mapping(struct inet_sock *so);
/*
 * The connection ends, or leaves this process: it has no callback any more, and what the program's bytes
 * need is the keeper's.
 */
void local_conn_keep_all(struct inet_sock *so);

extern const struct sock_kind local_kind;

static inline struct inet_sock *local_sock_of(struct local_end *end)
{
	return container_of(end, struct inet_sock, shm.end);
}

static inline unsigned local_side_of(const struct inet_sock *so)
{
	return so->shm.initiator ? LOCAL_INITIATOR : LOCAL_RESPONDER;
}

/* The message value of two words. */
static inline uint64_t local_value(const uint32_t value[2])
{
	return value[0] | (uint64_t)value[1] << 32;
}

/* holder: is it a local connection, connecting or connected? */
static inline bool local_is_one(const struct inet_sock *so)
{
	return sock_life_is(so, LIFE_LOCAL);
}

/* holder: the result of a call on what is no local connection now; otherwise: if it was one. */
static inline ssize_t local_not_here(const struct inet_sock *so, ssize_t otherwise)
{
	if (sock_is_exported(&so->sk))
		return SOCK_FETCH;
	return sock_has_connection(so) ? -ECONNRESET : otherwise; /* it was lost meanwhile */
}

/* ---- local_conn.c: one connection (holder) ---------------------------------------------- */

/* Makes an unconnected TCP socket, or a new object, a local one; its options and addresses are
 * set. */
void local_conn_begin(struct inet_sock *so, bool initiator);
/*
 * Opens this end of the rings in its slot, with this capacity of each ring.  0 or -errno.  The
 * initiator has cleared the slot.
 */
int local_conn_open(struct inet_sock *so, uint8_t *slot, uint32_t capacity);
/* The same for an end that was open in another process. */
int local_conn_resume(struct inet_sock *so, uint8_t *slot, uint32_t capacity);
/* The connection whose end it is; NULL: it is none, or of something else that uses a number. */
struct inet_sock *local_conn_at(struct local_end *end);
/* It has a keeper from now on. */
void local_conn_keeping(struct inet_sock *so);
/* Its peer will not come back: what had arrived can be read. */
void local_conn_lost(struct inet_sock *so);
/*
 * The connection ends here, orderly or (reset) not; the peer is told.  Afterwards the socket is an
 * unconnected TCP socket without operations of its own.
 */
void local_conn_close(struct inet_sock *so, bool reset);
/* any: counts the memory of rings of this capacity for it; it can be used by others. */
void local_memory_get(struct inet_sock *so, uint32_t capacity);
void local_memory_put(struct inet_sock *so);
/* any: the same for the record ring of a socket.  False: there is no room. */
bool local_memory_take(uint64_t bytes);
void local_memory_give(uint64_t bytes);
/* In a forked child: nothing is used. */
void local_memory_forget(void);
/* The peer may have done something: stores the events, notifies watches of new ones. */
void local_conn_look(struct inet_sock *so);
/* holder: it was refused, or nobody has answered. */
void local_conn_fail(struct inet_sock *so, int error);
/* Stores the events that are true now; notifies of new ones, and of those in `happened`. */
void local_conn_events(struct inet_sock *so, uint32_t happened);
/* Fewer bytes than make it readable are left, as of the last look: stores the events that end with that. */
void local_conn_drained(struct inet_sock *so);
/*
 * Bytes were consumed: tells a writer that waits for space, and stores the events that end with
 * them.
 */
static inline void local_conn_consumed(struct inet_sock *so)
{
	if (__builtin_expect(byte_ring_is_wanted(&so->shm.in), 0))
		local_end_post(&so->shm.end);
	if ((sock_own_events(so) & EPOLLIN) && so->shm.in.tail - so->shm.in.head < so->rcvlowat)
		local_conn_drained(so);
}
/* Bytes that a read would get: none after the urgent byte, unless SO_OOBINLINE is set. */
uint32_t local_conn_readable(struct inet_sock *so);
/* Takes the pending error, a positive errno; 0: none.  It is reported once. */
int local_conn_take_error(struct inet_sock *so);
/*
 * A send has left less than a third of the send buffer free: the connection is not writable until a third is, as of
 * the kernel.  Nobody is told of that unless a thread polls for it: no notice is asked for before.
 */
void local_conn_short(struct inet_sock *so);
/* The ring of its peer has no room for a send, or has again: asks for a notice. */
void local_conn_want_space(struct inet_sock *so);
/* Sizes set by the program count memory, of which about half holds data. */
static inline uint32_t local_limit_of(uint32_t set, uint32_t size, uint32_t capacity)
{
	return set ? (size / 2 < capacity ? size / 2 : capacity) : capacity / 2;
}
/* Bytes of its receive buffer. */
static inline uint32_t local_conn_receive_limit(const struct inet_sock *so)
{
	return local_limit_of(so->opt->rcvbuf_set, so->opt->rcvbuf, so->shm.in.capacity);
}
/* Buffer sizes were set: applies so->opt. */
void local_conn_options(struct inet_sock *so, bool quickack);
/* The result of a read or write that the byte ring refused with rc. */
int local_conn_failed(struct inet_sock *so, int rc, bool sending);

/* ---- local_filter.c: the receive callback (holder) ------------------------------------------- */

extern const struct filter_kind local_filter_kind;
/* Has the callback to see what is there, before calls do? */
bool local_filter_hides(struct inet_sock *so);
/* There may be something for it. */
void local_filter_look(struct inet_sock *so);
/* Bytes were consumed: the next ones are for it, if these were the last. */
void local_filter_read(struct inet_sock *so);
/* The connection ends. */
void local_filter_end(struct inet_sock *so);
/* In a forked child: it has none. */
void local_filter_fork_child(struct inet_sock *so);

/* ---- local_recv.c (holder) ------------------------------------------------------------------ */

static inline bool local_is_ready(const struct inet_sock *so)
{
	return local_is_one(so) && so->shm.established;
}

/* Is urgent data ahead, as of the last look at the ring? */
static inline bool local_has_mark(const struct inet_sock *so)
{
	return so->shm.in.urgent > so->shm.in.head;
}

/* The same, with a peek offset, or a receive callback. */
void local_read_aside(struct inet_sock *so, ssize_t n);

/* n bytes were consumed. */
static inline void local_after_read(struct inet_sock *so, ssize_t n)
{
	struct shm_state *shm = &so->shm;

	if (__builtin_expect(shm->aside != 0, 0))
		local_read_aside(so, n);
	local_conn_consumed(so);
	if (sock_own_events(so) & EPOLLPRI)
		local_conn_events(so, 0);
}

/* The result of a read for which the ring has nothing; -EAGAIN: wait. */
ssize_t local_nothing_read(struct inet_sock *so, ssize_t rc);

/* ---- local_connect.c ------------------------------------------------------------------------ */

/* Members of struct sock_upcalls; see there. */
/* Control lock: the address that the kernel would send from.  False: it would not send, or not here. */
bool local_find_source(const struct inet_sock *so, const struct endpoint *to, struct inaddr *src);
int local_connect(struct inet_sock *so, const struct endpoint *to);
/* No lock. */
int local_connect_wait(struct sock_ref ref, const struct sock_call *call);
/*
 * holder: the process that was asked has no such listener any more, or has ended.  Others may have it: nothing has
 * been reported, and the kernel, which knows, connects.
 */
void local_connect_refused(struct inet_sock *so);
static inline bool local_is_refused(const struct inet_sock *so)
{
	return __atomic_load_n(&so->shm.refused, __ATOMIC_RELAXED);
}
/* internal thread, between rounds: the kernel connects those that were refused.  True: there is more to do soon. */
bool local_connects_run(void);
/*
 * Control lock, no ring held: the kernel connects instead, and has the socket from then on; it leaves for this reason,
 * anyway: also if the kernel cannot connect.  0; otherwise why it cannot, and nothing has happened.
 */
int local_connect_by_kernel(struct inet_sock *so, enum verdict reason, bool anyway);
/*
 * holder: it is an unconnected TCP socket again, as connect(2) with AF_UNSPEC.  One that other threads
 * know needs the control lock as well.
 */
void local_disconnect(struct inet_sock *so, bool reset);

/* ---- local_listen.c ------------------------------------------------------------------------- */

/* Members of struct sock_upcalls; see there. */
bool local_may_listen(const struct inet_sock *so);
bool local_listen(struct inet_sock *so);
void local_unlisten(struct inet_sock *so);
void local_accepted(struct inet_sock *so);
/* control lock: new clients do not find it; those that did are queued.  Undone by local_listen(). */
void local_listen_stop(struct inet_sock *so);
/*
 * control lock: another process has served a connection of this listener, which may be gone, for so long.  A
 * forked process needs milliseconds before it has a local connection, and a client that polls takes a processor
 * meanwhile.  So where many in a row end soon, the listener rests: the kernel serves its new clients for a while.
 */
void local_listen_served(struct sock_ref listener, nsec_t lived);
/* control lock: as local_unlisten(), but those that wait for room are queued, not refused. */
void local_listen_finish(struct inet_sock *so);
/* In a forked child: the listeners are the parent's. */
void local_listen_forget(void);
/* internal thread, between rounds: clients that have waited for room for too long are told so. */
void local_listeners_run(nsec_t now);
/* The handler of LOCAL_CONNECT. */
bool local_take_connect(struct local_link *link, const struct local_message *message, int *fds,
			unsigned n);

/* Control lock: where a bound socket is found. */
struct local_place local_place_of(const struct inet_sock *so, enum local_proto proto);
/*
 * A peer of the same user may claim what it likes, but not to be another host.  A message does not
 * tell the scope of an address, so those that have one are none.  No ring held.
 */
bool local_is_address(const struct inaddr *addr);
/* Can a receiver that is registered there get what the message asks for?  No ring held. */
bool local_is_for(const struct local_place *place, const struct local_message *m);

/* ---- local_opt.c ---------------------------------------------------------------------------- */

int local_set_option(struct sock_ref ref, int level, int name, const void *val, socklen_t len);
int local_get_option(struct sock_ref ref, int level, int name, void *val, socklen_t *len);
uint32_t local_buffer_size(const struct inet_sock *so, bool receive);

#endif
