/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving datagrams.  The code is written once and instantiated for each thread mode.
 */
#include <errno.h>
#include <sched.h>

#include "base/clock.h"
#include "base/param.h"
#include "base/sys.h"
#include "base/user.h"
#include "sock/core/access.h"
#include "sock/core/extra/held.h"
#include "sock/core/extra/message.h"
#include "sock/core/msg/cmsg.h"
#include "sock/core/msg/family.h"
#include "sock/core/msg/iov.h"
#include "sock/udp/udp_sock.h"
#include "sock/wait/wait.h"

#define TRAIN_MAX 64 /* datagrams at once, the kernel's limit */
#define ANSWER_PATIENCE (200 * NSEC_PER_USEC)

/* UDP_GRO: could the kernel have merged next into the datagrams that begin with first? */
static bool continues(const struct pkt *first, const struct pkt *next)
{
	const uint8_t *a = first->frame + first->l3, *b = next->frame + next->l3;
	struct endpoint from = frame_source(first), other = frame_source(next);

	if (!next->len || next->len > first->len || !endpoint_eq(&from, &other) ||
	    first->ifindex != next->ifindex)
		return false;
	if (a[0] >> 4 == 6) /* destination, traffic class, hop limit */
		return memcmp(a + 24, b + 24, 16) == 0 && a[0] == b[0] && a[1] >> 4 == b[1] >> 4 &&
		       a[7] == b[7];
	return memcmp(a + 16, b + 16, 4) == 0 && a[1] == b[1] && a[8] == b[8];
}

/* Copies to iov, which has room, and advances it.  False: the memory cannot be written. */
static bool give(struct iovec **iov, size_t *count, const uint8_t *data, size_t len)
{
	while (len) {
		size_t n = (*iov)->iov_len < len ? (*iov)->iov_len : len;

		if (!user_copy((*iov)->iov_base, data, n))
			return false;
		data += n;
		len -= n;
		iov_advance(iov, count, n);
	}
	return true;
}

/*
 * UDP_GRO, holder: after the first datagram, which was copied, takes (or shows: MSG_PEEK)
 * those queued behind it that have its sender and size; the last one may be shorter.  It
 * takes whole datagrams only, as many as fit into msg.  Bytes, or -EFAULT.
 */
static __attribute__((noinline)) ssize_t take_train(struct inet_sock *so, const struct msghdr *msg,
						    int flags)
{
	const struct pkt *first = so->udp.head;
	struct iovec stack[IOV_STACK], *copy = iov_copy(msg->msg_iov, msg->msg_iovlen, stack);
	struct iovec *at = copy;
	size_t count = msg->msg_iovlen, left = iov_total(msg->msg_iov, count), taken = 0;
	size_t last = first->len;
	bool good = true;
	struct pkt *next = first->next;

	if (!copy)
		return 0;
	left = left > last ? left - last : 0;
	if (left)
		iov_advance(&at, &count, last);
	for (int n = 1; good && n < TRAIN_MAX && next && next->len <= left && last == first->len;
	     n++) {
		if (!continues(first, next) || first->len + taken + next->len > UDP_PAYLOAD_MAX)
			break;
		last = next->len;
		left -= last;
		taken += last;
		good = give(&at, &count, pkt_payload(next), last);
		next = next->next;
		if (!(flags & MSG_PEEK)) {
			udp_count_in(so, 1, (uint32_t)last);
			udp_free_second(so);
		}
	}
	iov_copy_free(copy, stack);
	return good ? (ssize_t)taken : -EFAULT;
}

/* holder: before a datagram leaves the queue, which is then as long as it has been since the last. */
static inline void count_taken(struct inet_sock *so, size_t size)
{
	struct stats_sock *stats = so->udp.stats;

	if (__builtin_expect(!stats, 0))
		return;
	stats_add(&stats->rx_packets, 1);
	stats_add(&stats->rx_bytes, size);
	stats_raise(&stats->rx_most_bytes, so->udp.bytes);
	stats_raise(&stats->rx_most_packets, so->udp.count);
}

ssize_t udp_take(struct inet_sock *so, struct msghdr *msg, int flags)
{
	struct pkt *pkt = so->udp.head;
	const uint8_t *data = pkt_payload(pkt);
	size_t left = pkt->len, size = pkt->len, copied = 0;
	ssize_t rc;

	for (size_t i = 0; i < msg->msg_iovlen && left; i++) {
		size_t n = msg->msg_iov[i].iov_len < left ? msg->msg_iov[i].iov_len : left;

		if (__builtin_expect(!user_copy(msg->msg_iov[i].iov_base, data, n), 0)) {
			rc = -EFAULT;
			goto pop;
		}
		data += n;
		left -= n;
		copied += n;
	}
	msg->msg_flags = left ? MSG_TRUNC : 0;
	if (msg->msg_name) {
		struct endpoint from = udp_source(so, pkt);

		sock_addr_write(so, &from, msg->msg_name, &msg->msg_namelen);
	}
	if (msg->msg_controllen || __builtin_expect(so->told, 0)) {
		ssize_t more = 0;

		if (!(flags & MSG_PEEK))
			sock_stats_latency(so, pkt->stamp);
		if ((so->opt->told & TOLD_GRO) && pkt->next)
			more = take_train(so, msg, flags);
		if (more < 0) {
			rc = more;
			goto pop;
		}
		cmsg_fill(so->opt, pkt, msg, sock_home(so), udp_ifindex(so, pkt),
			  more ? (int)size : 0);
		size += (size_t)more;
		copied += (size_t)more;
	}
	rc = (ssize_t)(flags & MSG_TRUNC ? size : copied);
pop:
	if (!(flags & MSG_PEEK)) {
		count_taken(so, size);
		pkt_free(udp_pop(so));
	}
	return rc;
}

/* Asks the twin without blocking; -EAGAIN: it has nothing. */
static ssize_t recv_twin(struct sock *sk, struct msghdr *msg, int flags)
{
	ssize_t n = sys_recvmsg(sock_twin(sk), msg, flags | MSG_DONTWAIT);

	if (n < 0 && __atomic_load_n(&sk->twin_events, __ATOMIC_RELAXED))
		__atomic_store_n(&sk->twin_events, 0, __ATOMIC_RELAXED);
	/* The error is reported now, but its cause may still be in the error queue. */
	if (n < 0 && n != -EAGAIN)
		__atomic_store_n(&sk->twin_events, EPOLLERR, __ATOMIC_RELAXED);
	sock_stats_twin_recv(inet_of(sk), n);
	return n;
}

/*
 * holder: the queue is empty.  Is it time to ask the twin, for which the kernel may have received
 * something?
 */
static bool twin_due(struct inet_sock *so, struct sock_wait *wait)
{
	if (__atomic_load_n(&so->sk.twin_events, __ATOMIC_RELAXED) || !ring_is_open(sock_home(so)))
		return true;
	return __builtin_expect(spin_was_late(&wait->spin), 0) && params.rx_udp_poll_os_ratio;
}

/* After SHUT_RD a call does not block, although datagrams that arrive can be read. */
static ssize_t no_more(struct msghdr *msg)
{
	msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = 0;
	return 0;
}

/*
 * The first datagram of a new sender waits until the kernel was asked about it
 * (ring/source.h).  A nonblocking call would miss it, although it has arrived.  False: that
 * takes too long.
 */
static __attribute__((noinline)) bool await_answer(nsec_t *until)
{
	nsec_t now = clock_now();

	if (!*until)
		*until = now + ANSWER_PATIENCE;
	else
		sched_yield(); /* another thread asks */
	return now < *until;
}

/* Beside what local_turn() is told: */
enum {
	RECV_FIRST = 0x20,   /* the twin is asked, or looked at, before the queue */
	RECV_ASKED = 0x40,   /* it had nothing: the queue is next, even if each receive asks it */
	RECV_LAST = 0x80,    /* nothing else is there: if the twin has nothing, the call waits */
	RECV_LOOK = 0x100,   /* it is time to ask the twin, and nothing else is there */
	RECV_CLOSED = 0x200, /* SHUT_RD, likewise */
	RECV_WAITS = 0x400,  /* a new sender's datagram may wait on this ring, likewise */
};

struct recv {
	struct inet_sock *so;
	struct msghdr *msg;
	int flags;
	uint32_t turn; /* for sock_upcalls.local_turn(); and RECV_* */
	nsec_t *until; /* until when to wait for that of a new sender; 0: not begun */
	enum hold_mode mode;
};

/*
 * holder: sock_access_rx() says so, or local senders reach the socket and nothing is there.  0: go on, with
 * the queue.  Otherwise recv.turn: the twin is first; the queue may have something.
 */
static __attribute__((noinline)) uint32_t recv_turn(struct inet_sock *so, int flags, uint32_t turn)
{
	bool due = sock_twin_is_due(so);

	if (!so->udp.by_local)
		return due && !(turn & RECV_ASKED) ? RECV_FIRST : 0;
	switch (sock_upcalls.local_turn(so, turn | (due ? LOCAL_TURN_DUE : 0) |
						    (flags & MSG_PEEK ? LOCAL_TURN_PEEKS : 0))) {
	case LOCAL_TURN_LOOK:
		return RECV_FIRST | LOCAL_TURN_LOOKED;
	case LOCAL_TURN_TWIN:
		return RECV_FIRST | LOCAL_TURN_NOTHING;
	case LOCAL_TURN_OURS:
		break;
	}
	return 0;
}

/* holder: as sock_access_rx(), and recv_turn().  True: the try is over. */
static inline __attribute__((always_inline)) bool recv_begin(struct recv *r, ssize_t *n)
{
	uint32_t said = r->turn;

	if (__builtin_expect(!sock_access_rx(r->so), 1))
		return false;
	r->turn = recv_turn(r->so, r->flags, said | LOCAL_TURN_EARLY);
	*n = SOCK_TRY_ASIDE;
	if (r->turn)
		return true;
	/* One look a try: for recv_nothing(). */
	r->turn = said & (LOCAL_TURN_LOOKED | LOCAL_TURN_NOTHING) ? LOCAL_TURN_LOOKED : 0;
	return false;
}

/* holder: the queue is empty, and local senders reach the socket.  As recv_turn(). */
static uint32_t turn_at_end(struct inet_sock *so, int flags, uint32_t turn)
{
	turn = recv_turn(so, flags, turn);
	return turn & LOCAL_TURN_LOOKED ? turn | RECV_LAST : turn;
}

/* holder: the queue is empty. */
static inline __attribute__((always_inline)) bool recv_nothing(struct recv *r, struct ring *ring,
							       struct sock_wait *wait, ssize_t *n)
{
	struct inet_sock *so = r->so;

	if (__builtin_expect(so->udp.by_local, 0))
		r->turn = turn_at_end(so, r->flags, r->turn);
	else
		r->turn = twin_due(so, wait) ? RECV_LOOK : 0;
	*n = SOCK_TRY_AGAIN;
	if (__builtin_expect(!r->turn && so->udp.head, 0))
		return false;
	*n = SOCK_TRY_ASIDE;
	r->turn |= (so->shut_rd ? RECV_CLOSED : 0) | (ring->n_questions ? RECV_WAITS : 0);
	if (__builtin_expect(!r->turn, 1))
		sock_wait_count(so, wait);
	return false;
}

static inline __attribute__((always_inline)) bool recv_try(void *arg, struct ring *ring,
							   struct sock_wait *wait, ssize_t *n)
{
	struct recv *r = arg;
	struct inet_sock *so = r->so;

	if (recv_begin(r, n))
		return false;
	if (!so->udp.head)
		ring_poll(ring);
	if (so->udp.head) {
		*n = udp_take(so, r->msg, r->flags);
		return true;
	}
	return recv_nothing(r, ring, wait, n);
}

/* recv_try() left it to us to count a call that returns -EAGAIN. */
static __attribute__((noinline)) void count_aside(struct inet_sock *so,
						  const struct sock_wait *wait)
{
	struct ring *ring;

	if (!wait->dontwait || !__atomic_load_n(&so->stats_slot, __ATOMIC_RELAXED) ||
	    sock_hold_cold(sock_ref_of(so), &ring))
		return;
	sock_wait_count(so, wait);
	ring_release_cold(ring);
}

/*
 * The twin is asked, or looked at, now.  The result of the call; SOCK_TRY_AGAIN; or -EAGAIN: it has nothing, and
 * nothing else is there.
 */
static __attribute__((noinline)) ssize_t ask_twin(struct inet_sock *so, struct msghdr *msg,
						  int flags, uint32_t turn)
{
	ssize_t n = -EAGAIN;

	if (turn & LOCAL_TURN_LOOKED)
		sock_look_at_twin(&so->sk);
	else
		n = recv_twin(&so->sk, msg, flags);
	if (n != -EAGAIN)
		return n;
	return turn & RECV_LAST && !__atomic_load_n(&so->sk.twin_events, __ATOMIC_RELAXED)
		       ? -EAGAIN
		       : SOCK_TRY_AGAIN;
}

#define LOOK_ROUNDS 8 /* of the loop, which the looks of one round take as long as */

/* Between two rounds of a call that waits.  A signal is the loop's. */
static __attribute__((noinline)) ssize_t recv_look(struct recv *r, struct sock_wait *wait)
{
	ssize_t n;

	if (r->mode == SOCK_WAIT_COLD || !r->so->udp.by_local || !wait->polls || wait->dontwait)
		return SOCK_TRY_WAIT;
	if (wait->polls > 0)
		wait->polls -= wait->polls < LOOK_ROUNDS ? wait->polls : LOOK_ROUNDS;
	n = sock_upcalls.local_look(wait->ref, r->msg, r->flags, r->mode);
	return n >= 0 ? n : SOCK_TRY_WAIT;
}

static inline __attribute__((always_inline)) ssize_t recv_aside(void *arg, struct sock_wait *wait)
{
	struct recv *r = arg;
	uint32_t turn = r->turn;
	ssize_t n;

	r->turn = turn & RECV_CLOSED;
	if (__builtin_expect(turn & RECV_FIRST, 0)) {
		n = ask_twin(r->so, r->msg, r->flags, turn);
		if (n != -EAGAIN) {
			r->turn |= (turn & (LOCAL_TURN_LOOKED | LOCAL_TURN_NOTHING)) | RECV_ASKED;
			return n;
		}
	}
	if (__builtin_expect((turn & RECV_WAITS) && wait->dontwait, 0) && await_answer(r->until))
		return SOCK_TRY_AGAIN;
	/* Where local senders reach the socket, recv_turn() has decided. */
	if (__builtin_expect(turn & (RECV_LOOK | RECV_CLOSED), 0) && !r->so->udp.by_local) {
		n = recv_twin(&r->so->sk, r->msg, r->flags);
		if (n != -EAGAIN)
			return n;
	}
	if (__builtin_expect(turn & RECV_CLOSED, 0) && (!wait->dontwait || sock_wait_is_over(wait)))
		return no_more(r->msg);
	if (__builtin_expect(turn, 0))
		count_aside(r->so, wait);
	else if (__builtin_expect(wait->ref.sk != NULL, 0))
		return recv_look(r, wait);
	return SOCK_TRY_WAIT;
}

static inline __attribute__((always_inline)) ssize_t
recv_mode(struct sock_ref ref, struct msghdr *msg, int flags, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLIN);
	nsec_t until = 0;
	struct recv r = {.so = so, .msg = msg, .flags = flags, .until = &until, .mode = mode};

	if (__builtin_expect(flags & MSG_ERRQUEUE, 0))
		return SOCK_KERNEL;
	return sock_wait_loop(call, mode, recv_try, recv_aside, &r);
}

#define X(name, mode)                                                               \
	ssize_t udp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags) \
	{                                                                           \
		return recv_mode(ref, msg, flags, mode);                            \
	}
SOCK_MODES(X)
#undef X

/* ---- without a copy (vma_extra.h) ------------------------------------------------------- */

struct zcopy_recv {
	struct recv r; /* first */
	struct sock_zcopy *zcopy;
};

/* holder: the program has the oldest datagram from now on; there must be one. */
static ssize_t zcopy_take(struct inet_sock *so, struct sock_zcopy *zcopy)
{
	struct msghdr *msg = &zcopy->msg;
	struct held *held = held_new();
	struct pkt *pkt = so->udp.head;
	struct held_record out;

	if (!held)
		return -ENOBUFS;
	out.n_packet_num = 1;
	out.packet = held_piece(held, pkt);
	if (!user_copy(msg->msg_iov->iov_base, &out, sizeof(out))) {
		held_cancel(held);
		return -EFAULT;
	}
	if (msg->msg_name) {
		struct endpoint from = udp_source(so, pkt);

		sock_addr_write(so, &from, msg->msg_name, &msg->msg_namelen);
	}
	count_taken(so, pkt->len);
	udp_pop(so);
	so->udp.bytes += udp_charge(pkt); /* until held_freed() */
	held_fill(held, sock_ref_of(so), pkt, udp_charge(pkt));
	zcopy->done = true;
	return pkt->len;
}

static inline __attribute__((always_inline)) bool zcopy_try(void *arg, struct ring *ring,
							    struct sock_wait *wait, ssize_t *n)
{
	struct zcopy_recv *z = arg;
	struct inet_sock *so = z->r.so;

	so->udp.in_place = true;
	if (recv_begin(&z->r, n))
		return false;
	if (!so->udp.head)
		ring_poll(ring);
	if (so->udp.head) {
		*n = zcopy_take(so, z->zcopy);
		return true;
	}
	return recv_nothing(&z->r, ring, wait, n);
}

static inline __attribute__((always_inline)) ssize_t zcopy_aside(void *arg, struct sock_wait *wait)
{
	struct zcopy_recv *z = arg;
	char byte;

	/* What the twin has stays there: it can only be copied. */
	if (z->zcopy->force && (z->r.turn & (RECV_FIRST | RECV_LOOK | RECV_CLOSED)) &&
	    !(z->r.turn & LOCAL_TURN_LOOKED) &&
	    sys_recvfrom(sock_twin(&z->r.so->sk), &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL) >=
		    0)
		return -EIO;
	return recv_aside(&z->r, wait);
}

ssize_t udp_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags)
{
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLIN);
	nsec_t until = 0;
	struct zcopy_recv z = {
		.r = {.so = inet_of(ref.sk),
		      .msg = &zcopy->msg,
		      .flags = flags,
		      .until = &until,
		      .mode = SOCK_WAIT_COLD},
		.zcopy = zcopy,
	};

	if (zcopy->msg.msg_iov->iov_len < sizeof(struct held_record))
		return -ENOBUFS;
	return sock_wait_loop(call, SOCK_WAIT_COLD, zcopy_try, zcopy_aside, &z);
}

/* ---- batches (vma.h) ---------------------------------------------------------------------- */

struct batch_recv {
	struct recv r; /* first */
	struct vma_message_t *messages;
	unsigned count, done;
};

/* It got len bytes, or -errno. */
static void complete(struct vma_message_t *m, const struct msghdr *msg, ssize_t len)
{
	m->error = len < 0 ? (int)-len : 0;
	m->done = len < 0 ? 0 : (size_t)len;
	m->flags = len < 0 ? 0 : msg->msg_flags & MSG_TRUNC;
	m->addr_len = msg->msg_namelen;
}

/* holder: as many datagrams as there are and are wanted.  False: one was lost. */
static bool take_batch(struct inet_sock *so, struct batch_recv *b)
{
	while (so->udp.head && b->done < b->count) {
		struct vma_message_t *m = &b->messages[b->done++];
		struct iovec iov;
		struct msghdr msg = message_header(m, &iov);
		ssize_t len = udp_take(so, &msg, 0);

		complete(m, &msg, len);
		if (len < 0)
			return false;
	}
	return true;
}

static inline __attribute__((always_inline)) bool batch_try(void *arg, struct ring *ring,
							    struct sock_wait *wait, ssize_t *n)
{
	struct batch_recv *b = arg;
	struct inet_sock *so = b->r.so;
	bool good;

	if (recv_begin(&b->r, n))
		return false;
	good = take_batch(so, b);
	if (good && b->done < b->count) {
		ring_poll(ring);
		take_batch(so, b);
	}
	*n = 0;
	return b->done || recv_nothing(&b->r, ring, wait, n);
}

static inline __attribute__((always_inline)) ssize_t batch_aside(void *arg, struct sock_wait *wait)
{
	return recv_aside(&((struct batch_recv *)arg)->r, wait);
}

int udp_recv_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		   unsigned *done)
{
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLIN);
	struct iovec iov;
	struct msghdr msg = message_header(messages, &iov); /* for what the twin has */
	nsec_t until = 0;
	struct batch_recv b = {
		.r = {.so = inet_of(ref.sk),
		      .msg = &msg,
		      .flags = 0,
		      .until = &until,
		      .mode = SOCK_WAIT_COLD},
		.messages = messages,
		.count = count,
	};
	ssize_t n;

	n = sock_wait_loop(call, SOCK_WAIT_COLD, batch_try, batch_aside, &b);
	if (!b.done && n >= 0 && !(n == 0 && (b.r.turn & RECV_CLOSED))) {
		complete(messages, &msg, n);
		b.done = 1;
	}
	*done = b.done;
	return n < 0 ? (int)n : 0;
}
