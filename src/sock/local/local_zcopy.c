/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extra API on local connections: the program gets the bytes where the peer has put them.
 *
 * A packet is what lies in one piece, so what goes round the end of the ring is two.  The writer does not use the
 * room of packets that the program has, nor what is behind the first of them: the ring runs full, and the peer waits.
 * The program may have as many bytes as fit into the receive buffer; beyond this the calls fail.
 */
#include "ring/local/byte_quick.h"
#include "sock/core/extra/filter.h"
#include "sock/core/extra/held.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/core/extra/xtreme.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_sock.h"
#include "sock/wait/stream_zcopy.h"

#define PIECE UINT16_MAX /* bytes of a packet, at most */

/* ---- bytes in place (holder) ---------------------------------------------------------------- */

static void first_kept(struct local_keeper *keeper, uint64_t position)
{
	byte_ring_keep(keeper->ring, position == LOCAL_NOT_KEPT ? BYTE_RING_POSITION : position);
}

static void some_returned(struct inet_sock *so)
{
	if (!local_is_one(so))
		return;
	if (byte_ring_is_wanted(&so->shm.in))
		local_end_post(&so->shm.end);
	if (so->shm.filter)
		local_filter_look(so);
}

static const struct local_keeper_ops keeper_ops = {.first = first_kept, .returned = some_returned};

bool local_conn_may_keep(struct inet_sock *so)
{
	if (so->shm.keeper)
		return true;
	so->shm.keeper = local_keeper_new(&keeper_ops, &so->sk);
	if (so->shm.keeper)
		local_conn_keeping(so);
	return so->shm.keeper != NULL;
}

bool local_conn_is_stopped(const struct inet_sock *so)
{
	const struct shm_state *shm = &so->shm;

	return shm->keeper && byte_ring_is_stopped(&shm->in, shm->keeper->first);
}

/* May the program have more bytes of it, and how many? */
static inline int check_more(struct inet_sock *so, uint32_t *more)
{
	struct shm_state *shm = &so->shm;
	uint32_t limit = local_conn_receive_limit(so), kept;

	if (__builtin_expect(!shm->keeper, 0) && !local_conn_may_keep(so))
		return -ENOMEM;
	shm->keeper->ring = shm->in.shared;
	if (list_empty(&shm->keeper->kept) && byte_ring_keeps_others(&shm->in))
		return -EOPNOTSUPP;
	kept = local_kept_bytes(shm->keeper);
	*more = limit - kept;
	return kept >= limit ? -ENOBUFS : 0;
}

static inline int keep(struct inet_sock *so, uint32_t skip, struct pkt **pkt)
{
	struct byte_ring_reader *in = &so->shm.in;
	const uint8_t *at;
	uint32_t n, more;
	int rc;

	if (__builtin_expect(so->shm.captured, 0))
		local_capture_arrived(so);
	if (__builtin_expect(byte_ring_seen(in) <= skip, 0))
		return -EAGAIN;
	n = byte_ring_piece_now(in, skip, &at);
	rc = check_more(so, &more);
	if (__builtin_expect(rc, 0))
		return rc;
	n = n < PIECE ? n : PIECE;
	n = n < more ? n : more;
	*pkt = local_keep(so->shm.keeper, in->head + skip, (uint8_t *)(uintptr_t)at, n);
	return *pkt ? 0 : -ENOMEM;
}

int local_conn_keep(struct inet_sock *so, uint32_t skip, struct pkt **pkt)
{
	return keep(so, skip, pkt);
}

bool local_conn_keeps(struct inet_sock *so)
{
	local_keeper_take(so->shm.keeper);
	return !list_empty(&so->shm.keeper->kept);
}

void local_conn_keep_mapping(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;

	if (!shm->end.link || !local_conn_keeps(so))
		return;
	local_end_wants(&shm->end, false);
	local_end_leave_to(&shm->end, &shm->keeper->end);
	shm->keeper->moved_away = true;
}

void local_conn_keep_all(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;
	struct local_keeper *keeper = shm->keeper;

	local_filter_end(so);
	shm->keeper = NULL;
	if (shm->end.link && !shm->own.base) /* the link has the memory */
		local_end_leave_to(&shm->end, &keeper->end);
	keeper->segment = shm->own;
	keeper->memory = shm->memory;
	shm->own = SEGMENT_NONE;
	shm->memory = 0;
	local_keeper_leave(keeper);
}

/* ---- recvfrom_zcopy() ----------------------------------------------------------------------- */

/*
 * holder: the program has the next bytes from now on; n: packets of the call so far.  Bytes, or as
 * nothing_there().
 */
static ssize_t take_one(struct inet_sock *so, uint8_t *to, size_t n)
{
	struct held *held;
	struct pkt *pkt;
	int rc = local_conn_keep(so, 0, &pkt);

	if (rc)
		return rc;
	held = held_new();
	rc = held ? 0 : -ENOBUFS;
	if (!rc && !held_store(to, n, held_piece(held, pkt))) {
		held_cancel(held);
		rc = -EFAULT;
	}
	if (rc) {
		pkt_free(pkt);
		return rc;
	}
	n = pkt->len; /* another thread may give it back at once */
	byte_ring_pass(&so->shm.in, (uint32_t)n);
	held_fill(held, sock_ref_of(so), pkt, 0);
	return (ssize_t)n;
}

/* holder: there is nothing to read, and the stream was seen to have this end: why, or -EAGAIN. */
static ssize_t nothing_there(struct inet_sock *so, enum byte_ring_end end)
{
	static const int results[] = {
		[BYTE_RING_OPEN] = -EAGAIN,
		[BYTE_RING_FINISHED] = 0,
		[BYTE_RING_WAS_RESET] = -ECONNRESET,
		[BYTE_RING_BROKEN] = -EPROTO,
	};
	if (local_conn_is_stopped(so))
		return -ENOBUFS; /* what the program has is what the peer waits for */
	return local_nothing_read(so, results[end]);
}

/* holder: takes as many packets as there are and fit. */
static ssize_t take(struct inet_sock *so, const struct iovec *iov)
{
	const size_t room = (iov->iov_len - sizeof(size_t)) / sizeof(struct held_piece);
	/* It looks at the ring; what comes after this is for the next call. */
	enum byte_ring_end end = byte_ring_end(&so->shm.in);
	ssize_t done = 0, len = 0;

	for (size_t n = 0; n < room && done <= INT32_MAX - PIECE; n++) {
		len = take_one(so, iov->iov_base, n);
		if (len <= 0)
			break;
		done += len;
	}
	if (!done)
		return len == -EAGAIN ? nothing_there(so, end) : len;
	so->shm.reads++;
	local_after_read(so, done);
	return done;
}

static bool zcopy_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct stream_zcopy *z = arg;
	struct inet_sock *so = z->so;

	if (!local_is_ready(so) || !byte_ring_readable(&so->shm.in))
		ring_poll(ring);
	if (__atomic_load_n(&so->shm.kept_error, __ATOMIC_RELAXED) ||
	    (local_is_ready(so) && local_has_mark(so))) {
		*n = SOCK_KERNEL; /* recv() reports it, or copies it */
		return true;
	}
	if (local_is_ready(so) && local_filter_hides(so))
		*n = so->shut_rd ? 0 : -EAGAIN;
	else
		*n = local_is_ready(so) ? take(so, z->zcopy->msg.msg_iov)
					: local_nothing_read(so, -EAGAIN);
	z->zcopy->done = *n > 0;
	if (*n == -EOPNOTSUPP)
		*n = SOCK_KERNEL;
	if (*n != -EAGAIN)
		return *n != SOCK_FETCH;
	sock_wait_count(so, wait);
	*n = SOCK_TRY_WAIT;
	return false;
}

ssize_t local_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags)
{
	return stream_zcopy(ref, zcopy, flags, zcopy_try);
}

/* ---- socketxtreme --------------------------------------------------------------------------- */

/* holder: the program has the next bytes.  False: no buffer, or it has too many. */
static bool hand_out(struct inet_sock *so, struct xtreme_batch *b, const struct xtreme_name *name)
{
	struct vma_completion_t *c;
	struct pkt *pkt;

	if (keep(so, 0, &pkt))
		return false;
	c = xtreme_add(b, sock_ref_of(so), name, pkt, 0);
	if (!c) {
		pkt_free(pkt);
		return false;
	}
	if (__builtin_expect(addr_is_v4(&so->remote.addr), 1))
		filter_set_address(&c->src, &so->remote.addr.w[3], &so->remote.port);
	else
		xtreme_set_peer(c, so);
	byte_ring_pass(&so->shm.in, pkt->len);
	local_after_read(so, pkt->len);
	return true;
}

bool local_xtreme_take(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
		       const struct xtreme_name *name)
{
	(void)ring;
	if (!local_is_ready(so) || (so->shm.filter && local_filter_hides(so)))
		return false;
	while (byte_ring_readable_now(&so->shm.in)) {
		if (local_has_mark(so)) /* reading up to urgent data is for recv() */
			return false;
		if (!xtreme_has_room(b))
			return true;
		if (!hand_out(so, b, name))
			return byte_ring_end(&so->shm.in) == BYTE_RING_OPEN;
	}
	return false;
}
