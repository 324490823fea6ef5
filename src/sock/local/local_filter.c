/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive callback of local connections.
 *
 * Unseen bytes stay in the ring, so the peer waits when nobody takes them.  As of connections on a wire, all that is
 * there is unseen (TCP_FILTER_HIDES), or for recv() (TCP_FILTER_WAITS), until the program has read all.  The thread
 * that runs the callback has packets in place that are not consumed: what the callback has dropped, or holds, is
 * consumed afterwards, and what it has passed, or not seen, stays where it is.
 */
#include "ring/local/byte_quick.h"
#include "sock/core/extra/filter.h"
#include "sock/core/sock_options.h"
#include "sock/local/local_sock.h"

static struct inet_sock *sock_of(const struct filter *f)
{
	return inet_of(f->ref.sk);
}

static struct filter *get(const struct inet_sock *so)
{
	return so->inet == INET_LOCAL ? so->shm.filter : NULL;
}

static void set_state(struct inet_sock *so, enum tcp_filter state)
{
	if (so->shm.filter_state == (uint32_t)state)
		return;
	__atomic_store_n(&so->shm.filter_state, state, __ATOMIC_RELAXED);
	sock_options_note(so);
}

/* ---- for the other files of local connections (holder) ------------------------------------- */

bool local_filter_hides(struct inet_sock *so)
{
	return so->shm.filter_state == TCP_FILTER_HIDES &&
	       (byte_ring_readable_now(&so->shm.in) || so->shm.filter->out);
}

void local_filter_look(struct inet_sock *so)
{
	if (so->shm.filter)
		filter_look(so->shm.filter, sock_home(so));
}

void local_filter_read(struct inet_sock *so)
{
	if (so->shm.filter_state == TCP_FILTER_WAITS && so->shm.in.tail == so->shm.in.head)
		set_state(so, TCP_FILTER_HIDES);
}

void local_filter_end(struct inet_sock *so)
{
	filter_end(so->shm.filter);
}

void local_filter_fork_child(struct inet_sock *so)
{
	so->shm.filter = NULL; /* the parent's */
	set_state(so, TCP_FILTER_NONE);
}

/* ---- members of struct filter_kind --------------------------------------------------------- */

static int check(const struct inet_sock *so)
{
	if (so->inet != INET_LOCAL) /* it has become another one just now */
		return sock_is_exported(&so->sk) ? SOCK_FETCH : -ENOTCONN;
	return local_is_one(so) && so->shm.shared && !so->shm.ended ? 0 : -ENOTCONN;
}

static bool set(struct inet_sock *so, struct filter *f)
{
	if (f && !local_conn_may_keep(so)) /* close() looks for the keeper only */
		return false;
	so->shm.filter = f;
	if (f) {
		filter_set_endpoint(&f->batch.alike_src, &so->remote);
		filter_set_endpoint(&f->batch.alike_dst, &so->local);
	}
	set_state(so, !f				    ? TCP_FILTER_NONE
		      : byte_ring_readable_now(&so->shm.in) ? TCP_FILTER_WAITS
							    : TCP_FILTER_HIDES);
	return true;
}

static bool waits(const struct filter *f)
{
	struct inet_sock *so = sock_of(f);
	const struct shm_state *shm = &so->shm;

	/* If the program holds too much, it has to give packets back first. */
	return shm->filter_state == TCP_FILTER_HIDES && byte_ring_readable_now(&so->shm.in) &&
	       (!shm->keeper || local_kept_bytes(shm->keeper) < local_conn_receive_limit(so));
}

/* What cannot be shown is for recv(): urgent data, whose reading has rules of its own; where memory is short. */
static void leave_to_recv(struct inet_sock *so)
{
	set_state(so, TCP_FILTER_WAITS);
	local_conn_events(so, EPOLLIN | EPOLLRDNORM);
}

static void take(struct filter *f, struct filter_batch *b)
{
	struct inet_sock *so = sock_of(f);
	struct ring *home = sock_home(so);
	struct pkt *pkt;
	uint32_t n = 0;

	byte_ring_readable_now(&so->shm.in);
	while (f->out < FILTER_BATCH && n < byte_ring_seen(&so->shm.in) && !local_has_mark(so) &&
	       !local_conn_keep(so, n, &pkt)) {
		pkt->stamp = filter_arrived(f, home, pkt);
		pkt->flags |= PKT_APART;
		pkt_append(&b->first, &b->last, pkt);
		n += pkt->len;
		f->out++;
	}
	so->shm.filter_to = so->shm.in.head + n;
	if (!f->out)
		leave_to_recv(so);
	b->info.socket_ready_queue_pkt_count = 0;
	b->info.socket_ready_queue_byte_count = 0;
}

/* The program does not need the bytes before this position where they are in the stream. */
static void consume_to(struct inet_sock *so, uint64_t position)
{
	struct byte_ring_reader *in = &so->shm.in;
	uint64_t n = position - in->head;

	if (!n || n > in->capacity || in->broken)
		return;
	byte_ring_pass(in, (uint32_t)n);
	so->shm.reads++;
	local_after_read(so, (ssize_t)n);
}

static void obey(struct filter *f, struct filter_batch *b, struct ring *ring)
{
	struct inet_sock *so = sock_of(f);
	bool ours = get(so) == f, passes = b->passed != NULL;
	struct pkt *dropped = filter_dropped(b), *next = passes ? b->passed : b->first;
	uint64_t to = next ? local_kept_of(next)->position : ours ? so->shm.filter_to : 0;

	(void)ring;
	pkt_free_list(dropped);
	pkt_free_list(b->first);
	if (passes)
		pkt_free(b->passed);
	b->first = b->passed = NULL;
	b->held = b->held_bytes = 0;
	if (!ours || !f->out)
		return;
	f->out = 0;
	consume_to(so, to);
	if (passes)
		leave_to_recv(so);
}

static void pass(struct filter *f)
{
	struct inet_sock *so = sock_of(f);

	set_state(so, TCP_FILTER_WAITS);
	local_conn_events(so, byte_ring_readable_now(&so->shm.in) ? EPOLLIN | EPOLLRDNORM : 0);
}

static void discard(struct filter *f)
{
	(void)f; /* they stay in the ring */
}

/* The keeper counts. */
static uint32_t charge(const struct pkt *pkt)
{
	(void)pkt;
	return 0;
}

const struct filter_kind local_filter_kind = {
	.check = check,
	.get = get,
	.set = set,
	.waits = waits,
	.take = take,
	.takes_at_once = true,
	.obey = obey,
	.pass = pass,
	.discard = discard,
	.describe = filter_describe_alike,
	.charge = charge,
};
