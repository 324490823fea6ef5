/* SPDX-License-Identifier: BSD-2-Clause */
/* One local connection: its rings, its events, its end. */
#include <errno.h>

#include "base/log.h"
#include "base/sys.h"
#include "ring/capture.h"
#include "ring/local/byte_quick.h"
#include "sock/core/async.h"
#include "sock/core/poll_events.h"
#include "sock/core/sock_options.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"
#include "sock/tcp/tcp_sock.h"

/* ---- events --------------------------------------------------------------------------------- */

/* The peer does not send any more: FIN, or the end of the connection. */
static bool is_finished(struct inet_sock *so)
{
	/* It looks at the ring in any case. */
	return (byte_ring_end(&so->shm.in) != BYTE_RING_OPEN) | so->shut_rd | so->shm.ended;
}

static bool is_writable(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;

	return so->shut_wr || shm->ended || shm->died || shm->out.closed || !shm->wants_space ||
	       byte_ring_space(&shm->out) >= shm->wants_space;
}

/* local_conn_readable(), as of the last look at the ring. */
static uint32_t seen_readable(const struct inet_sock *so)
{
	uint32_t there = byte_ring_seen(&so->shm.in);
	int64_t ahead;

	if (__builtin_expect(!so->shm.in.urgent, 1) || so->opt->oobinline ||
	    !byte_ring_urgent(&so->shm.in, &ahead) || ahead < 0)
		return there;
	if (ahead == 0) /* a read skips the urgent byte */
		return there - (there > 0);
	return there < ahead ? there : (uint32_t)ahead;
}

uint32_t local_conn_readable(struct inet_sock *so)
{
	byte_ring_readable(&so->shm.in);
	return seen_readable(so);
}

static uint32_t compute_events(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;
	bool fin;
	uint32_t events = 0;
	int64_t ahead;

	if (!shm->established)
		return 0;
	fin = is_finished(so);
	if (fin || seen_readable(so) >= so->rcvlowat)
		events |= EPOLLIN | EPOLLRDNORM;
	if (fin)
		events |= EPOLLRDHUP;
	if ((fin && so->shut_wr) || shm->ended)
		events |= EPOLLHUP;
	if (shm->error)
		events |= EPOLLERR;
	if (is_writable(so))
		events |= EPOLLOUT | EPOLLWRNORM;
	if (__builtin_expect(shm->in.urgent != 0, 0) && byte_ring_urgent(&shm->in, &ahead) &&
	    shm->in.urgent != shm->urgent_done && ahead >= 0)
		events |= EPOLLPRI;
	return events;
}

void local_conn_events(struct inet_sock *so, uint32_t happened)
{
	uint32_t before = sock_own_events(so), now = compute_events(so), notify;

	if (!so->shm.established && so->shm.error) /* refused */
		now = EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM | EPOLLHUP | EPOLLRDHUP |
		      EPOLLERR;
	if (__builtin_expect(so->rare != NULL, 0))
		now = error_queue_events(so->rare, now);
	notify = (now & ~before) | (now & happened);
	if (now != before) {
		notify |= poll_events_of_end(before, now);
		sock_set_events(so, now);
	}
	if (notify)
		ready_notify(&so->sk, notify);
}

int local_conn_take_error(struct inet_sock *so)
{
	int error = so->shm.error;

	so->shm.error = 0;
	local_conn_events(so, 0);
	return error;
}

/* ---- what the peer did ---------------------------------------------------------------------- */

static void end(struct inet_sock *so, int error)
{
	if (so->shm.ended)
		return;
	so->shm.ended = true;
	so->shm.error = (uint8_t)error;
}

/*
 * The peer has closed, and bytes that were written meanwhile are lost: as the kernel, their RST ends
 * the connection.
 */
static void end_by_lost_bytes(struct inet_sock *so)
{
	end(so, byte_ring_end(&so->shm.in) == BYTE_RING_FINISHED ? EPIPE : ECONNRESET);
}

/* The peer has reset the connection, or has died, or wrote what cannot be. */
static void look_for_the_end(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;
	enum byte_ring_end in = byte_ring_end(&shm->in);

	if (in == BYTE_RING_WAS_RESET || in == BYTE_RING_BROKEN)
		end(so, ECONNRESET);
	else if (shm->died && in != BYTE_RING_FINISHED)
		end(so, ECONNRESET);
}

void local_conn_fail(struct inet_sock *so, int error)
{
	end(so, error);
	if (so->shm.captured)
		local_capture_opened(so);
	local_conn_events(so, EPOLLERR | EPOLLHUP);
}

static void look_for_the_answer(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;
	uint64_t answer;

	/* The notice was for the connection that had the number before. */
	if (!shm->shared || local_is_refused(so))
		return;
	/* acquire: pairs with the responder, which has opened its end before it answered */
	answer = __atomic_load_n(&shm->shared->answer, __ATOMIC_ACQUIRE);
	if (!answer && !shm->died)
		return;
	if (answer == LOCAL_ACCEPTED) {
		shm->established = true;
		if (shm->captured)
			local_capture_opened(so);
		local_link_answered(shm->end.link);
		local_conn_events(so, EPOLLOUT | EPOLLWRNORM);
		return;
	}
	if (answer == LOCAL_TIMED_OUT)
		local_conn_fail(so, ETIMEDOUT);
	else
		local_connect_refused(so);
}

/* Has nothing happened but that bytes may have come?  Sees them. */
static inline bool look_at_once(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;

	return shm->established &&
	       !(shm->ended | shm->died | so->shut_rd | shm->captured | shm->wants_space |
		 shm->in.urgent) &&
	       byte_ring_look_at_once(&shm->in) && !byte_ring_may_be_closed(&shm->out);
}

static inline void note_bytes(struct inet_sock *so)
{
	const uint32_t in = EPOLLIN | EPOLLRDNORM;
	struct shm_state *shm = &so->shm;
	uint32_t before = sock_own_events(so), now, there = byte_ring_seen(&shm->in);
	bool happened = there && shm->in.tail != shm->seen;

	shm->seen = shm->in.tail;
	now = there >= so->rcvlowat ? before | in : before & ~in;
	if (now != before)
		sock_set_events(so, now);
	if ((now & ~before) || (happened && (now & in)))
		ready_notify(&so->sk, in);
}

void local_conn_drained(struct inet_sock *so)
{
	const struct shm_state *shm = &so->shm;

	/* Then nothing else is readable.  What comes now, a notice tells. */
	if (byte_ring_was_open(&shm->in) && !(shm->ended | so->shut_rd) && !shm->in.urgent)
		sock_set_events(so, sock_own_events(so) & ~(EPOLLIN | EPOLLRDNORM));
	else
		local_conn_events(so, 0);
}

/* Has the program shut down both directions, and bytes came after that? */
static bool refuses_bytes(const struct inet_sock *so)
{
	return so->shut_rd && so->shut_wr && !so->shm.ended && so->shm.in.tail != so->shm.seen;
}

/* As the kernel: they are lost, and the connection is reset; the peer learns it as by a close. */
static void refuse_bytes(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;

	if (shm->seen == shm->in.head)
		byte_ring_refuse(&shm->in);
	else
		byte_ring_close(&shm->in); /* what had come before can be read */
	local_end_post(&shm->end);
	end(so, ECONNRESET);
}

static __attribute__((noinline)) void look(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;
	uint32_t happened = 0;
	uint64_t seen = shm->in.tail;

	if (!shm->established && !shm->ended)
		look_for_the_answer(so);
	if (!shm->established)
		return;
	if (__builtin_expect(shm->captured, 0))
		local_capture_arrived(so);
	if (byte_ring_readable(&shm->in) && shm->in.tail != shm->seen)
		happened |= EPOLLIN | EPOLLRDNORM;
	if (__builtin_expect(refuses_bytes(so), 0))
		refuse_bytes(so);
	shm->seen = shm->in.tail;
	if (shm->in.urgent > seen && shm->in.urgent != shm->urgent_done)
		async_urgent(&so->sk);
	look_for_the_end(so);
	if (byte_ring_reader_closed(&shm->out) && byte_ring_unread(&shm->out))
		end_by_lost_bytes(so);
	if (shm->wants_space && is_writable(so)) {
		shm->wants_space = 0;
		byte_ring_want_space(&shm->out, 0);
		local_end_wants(&shm->end, false);
		happened |= EPOLLOUT | EPOLLWRNORM;
	} else if (shm->wants_space) {
		byte_ring_want_space(&shm->out, shm->wants_space); /* who polls may sleep then */
	}
	local_conn_events(so, happened);
}

void local_conn_look(struct inet_sock *so)
{
	if (__builtin_expect(look_at_once(so), 1))
		note_bytes(so);
	else
		look(so);
}

static void on_notice(struct local_end *at)
{
	local_conn_look(local_sock_of(at));
}

void local_conn_lost(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;

	shm->died = true;
	if (shm->shared) {
		/* A close that leaves bytes unread is a reset. */
		if (local_move_is_closed(so) && !byte_ring_unread(&shm->out))
			byte_ring_finish_for_writer(&shm->in);
		byte_ring_writer_lost(&shm->out);
	}
	local_conn_look(so);
}

static void on_death(struct local_end *at)
{
	struct inet_sock *so = local_sock_of(at);

	if (!local_move_waits(so))
		local_conn_lost(so);
}

static const struct local_end_ops end_ops = {.notice = on_notice, .died = on_death};

/* With packets in place, or a receive callback. */
static void on_keeping_notice(struct local_end *at)
{
	struct inet_sock *so = local_sock_of(at);

	local_conn_look(so);
	if (so->shm.shared && byte_ring_may_be_stopped(&so->shm.in) &&
	    local_conn_is_stopped(so)) /* a call that waits for bytes is not to wait for ever */
		ready_notify(&so->sk, EPOLLIN | EPOLLRDNORM);
	if (so->shm.filter)
		local_filter_look(so);
}

static const struct local_end_ops keeping_ops = {.notice = on_keeping_notice, .died = on_death};

void local_conn_keeping(struct inet_sock *so)
{
	so->shm.end.ops = &keeping_ops;
}

struct inet_sock *local_conn_at(struct local_end *end)
{
	return end && (end->ops == &end_ops || end->ops == &keeping_ops) ? local_sock_of(end)
									 : NULL;
}

/* ---- buffers -------------------------------------------------------------------------------- */

void local_conn_options(struct inet_sock *so, bool quickack)
{
	struct shm_state *shm = &so->shm;
	uint32_t capacity = shm->in.capacity;

	(void)quickack;
	if (!shm->shared)
		return;
	byte_ring_set_receive_limit(&shm->in, local_conn_receive_limit(so));
	byte_ring_set_send_limit(&shm->out,
				 local_limit_of(so->opt->sndbuf_set, so->opt->sndbuf, capacity));
	local_end_post(&shm->end); /* there may be space for the peer */
	local_conn_look(so);
}

/* As the kernel: it is writable when a third of its send buffer is free. */
static void begin_to_want(struct inet_sock *so)
{
	uint32_t third = so->shm.out.send_limit / 3;

	so->shm.wants_space = third ? third : 1;
	local_end_wants(&so->shm.end, true);
}

void local_conn_short(struct inet_sock *so)
{
	begin_to_want(so);
	local_conn_events(so, 0);
}

void local_conn_want_space(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;

	begin_to_want(so);
	byte_ring_want_space(&shm->out, shm->wants_space);
	if (shm->out.kept) /* its program may wait for bytes, and have what takes their room */
		local_end_post(&shm->end);
	local_conn_events(so, 0);
}

/* ---- begin and end -------------------------------------------------------------------------- */

void local_conn_begin(struct inet_sock *so, bool initiator)
{
	so->inet = INET_LOCAL;
	so->shm = (struct shm_state){
		.initiator = initiator, .end.ops = &end_ops, .own = SEGMENT_NONE};
	list_init(&so->shm.known);
	list_init(&so->shm.limbo);
	sock_life_set(so, sock_is_kept(so) ? LIFE_KEPT : LIFE_LOCAL);
	sock_set_events(so, 0); /* those of a new socket */
	/* Pairs with sock_ops_of(): the fields above. */
	__atomic_store_n(&so->sk.ops, &sock_kinds[INET_LOCAL]->ops[ring_mode_now()],
			 __ATOMIC_RELEASE);
}

int local_conn_open(struct inet_sock *so, uint8_t *slot, uint32_t capacity)
{
	struct local_shared *shared = (void *)slot;

	if (so->shm.initiator) {
		byte_ring_init(&shared->to_responder, capacity / 2);
		byte_ring_init(&shared->to_initiator, capacity / 2);
	}
	return local_conn_resume(so, slot, capacity);
}

int local_conn_resume(struct inet_sock *so, uint8_t *slot, uint32_t capacity)
{
	struct shm_state *shm = &so->shm;
	struct local_shared *shared = (void *)slot;
	uint8_t *forth = slot + SEGMENT_PAGE, *back = forth + LOCAL_RING_MAX;
	bool first = shm->initiator;
	uint32_t send = local_limit_of(so->opt->sndbuf_set, so->opt->sndbuf, capacity);
	int rc;

	rc = byte_ring_reader_open(&shm->in, first ? &shared->to_initiator : &shared->to_responder,
				   first ? back : forth, capacity);
	if (!rc)
		rc = byte_ring_writer_open(&shm->out,
					   first ? &shared->to_responder : &shared->to_initiator,
					   first ? forth : back, capacity, send);
	if (rc)
		return rc;
	shm->shared = shared;
	byte_ring_set_receive_limit(&shm->in, local_conn_receive_limit(so));
	local_capture_conn(so, ring_capture_runs());
	return 0;
}

void local_conn_close(struct inet_sock *so, bool reset)
{
	struct shm_state *shm = &so->shm;

	if (!shm->end.link && !shm->shared)
		return;
	if (shm->shared) {
		if (!shm->established && shm->initiator)
			/* orders nothing: the responder only saves work by it */
			__atomic_store_n(&shm->shared->cancelled, 1, __ATOMIC_RELAXED);
		reset = reset || byte_ring_readable(&shm->in);
		if (shm->captured)
			local_capture_ended(so, reset);
		if (reset)
			byte_ring_reset(&shm->out);
		else
			byte_ring_finish(&shm->out);
		byte_ring_close(&shm->in);
		local_end_post(&shm->end);
	}
	local_end_wants(&shm->end, false);
	local_move_end(so);
	if (__builtin_expect(shm->keeper != NULL, 0))
		local_conn_keep_all(so);
	local_memory_put(so);
	local_end_leave(&shm->end);
	shm->shared = NULL;
	segment_close(&shm->own);
}

int local_conn_failed(struct inet_sock *so, int rc, bool sending)
{
	struct shm_state *shm = &so->shm;

	look_for_the_end(so);
	if (sending && (rc == -ECONNRESET || rc == -EPROTO) && !shm->ended) {
		end_by_lost_bytes(so);
		local_conn_events(so, 0);
		return 0;
	}
	local_conn_events(so, 0);
	if (shm->error)
		return -local_conn_take_error(so);
	return sending ? -EPIPE : 0;
}
