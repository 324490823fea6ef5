/* SPDX-License-Identifier: BSD-2-Clause */
/* The hot path: frames that arrive, frames to send, and the events before a thread sleeps. */
#include <errno.h>
#include <rdma/ib_user_verbs.h>

#include "base/clock.h"
#include "base/sys.h"
#include "ring/mlx5/mlx5_internal.h"

#define DRAIN_MAX (100 * NSEC_PER_MSEC)

/* ---- frames ----------------------------------------------------------------------------------- */

static inline uint8_t *frame_at(const struct mlx5_queue *q, uint32_t i)
{
	return q->frames + i * q->stride;
}

static inline void free_push(struct mlx5_queue *q, uint32_t frame)
{
	q->free[q->base.frames_free++] = frame;
}

void mlx5_pool_put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct mlx5_queue *q = container_of(pool, struct mlx5_queue, base.pool);

	if (port_give_back(&q->base, pkt))
		return;
	q->held--;
	free_push(q, (uint32_t)(pkt - q->pkts));
}

bool mlx5_idle(struct port_queue *base)
{
	return !mlx5_queue_of(base)->held;
}

/* ---- receive ---------------------------------------------------------------------------------- */

void mlx5_refill(struct mlx5_queue *q)
{
	struct mlx5_rq *rq = &q->rq;
	uint32_t room = rq->n - (rq->head - rq->tail);

	if (!room || q->base.frames_free <= MLX5_TX_RESERVE)
		return;
	if (room > q->base.frames_free - MLX5_TX_RESERVE)
		room = q->base.frames_free - MLX5_TX_RESERVE;
	while (room--) {
		uint32_t frame = q->free[--q->base.frames_free];

		q->posted[rq->head & (rq->n - 1)] = frame;
		mlx5_rq_put(rq, frame_at(q, frame));
	}
	mlx5_rq_publish(rq);
}

/* The last request completes.  0: what tx_put() returns then. */
static __attribute__((noinline)) int signal_last(struct mlx5_queue *q)
{
	q->signals[q->signal_head++ & (q->sq.n - 1)] =
		(struct mlx5_signal){q->sq.head, q->sent_head};
	q->until_signal = q->tx_batch;
	mlx5_sq_signal(&q->sq);
	return 0;
}

/* No frames arrived: what the busy path puts off. */
static __attribute__((noinline)) void rx_idle(struct mlx5_queue *q)
{
	if (q->until_signal != q->tx_batch && q->signal_head == q->signal_tail &&
	    mlx5_sq_room(&q->sq) && !q->failed) {
		/* The last frames complete with a request that does nothing. */
		mlx5_sq_put_nop(&q->sq);
		signal_last(q);
		mlx5_sq_ring(&q->sq);
	}
	if (q->signal_head != q->signal_tail)
		mlx5_tx_reap(q);
	if (q->rq.head - q->rq.tail < q->rq.n)
		mlx5_refill(q);
}

/* Makes a packet of a completion; stamps: with its ticks.  False: it tells of an error. */
static inline __attribute__((always_inline)) bool
receive(struct mlx5_queue *q, const struct mlx5_cqe64 *cqe, struct pkt **out, bool stamps)
{
	uint32_t frame, len = be32toh(cqe->byte_cnt);
	struct pkt *pkt;

	if (__builtin_expect(mlx5_cqe_opcode(cqe) != MLX5_CQE_RESP_SEND, 0) ||
	    __builtin_expect(len > q->room, 0))
		return false;
	frame = q->posted[q->rq.tail++ & (q->rq.n - 1)];
	pkt = &q->pkts[frame];
	pkt->frame = frame_at(q, frame);
	pkt->frame_len = len;
	pkt->room = (uint32_t)q->room;
	pkt->pool = &q->base.pool;
	pkt->stamp = 0;
	pkt->tag = mlx5_cqe_tag(cqe);
	pkt->flags = PKT_TAGGED | (mlx5_cqe_csum_ok(cqe) ? PKT_CSUM_OK : 0);
	if (stamps)
		pkt_arrival(pkt)->device = (nsec_t)be64toh(cqe->timestamp);
	__builtin_prefetch(pkt->frame);
	*out = pkt;
	return true;
}

static inline __attribute__((always_inline)) int rx(struct port_queue *base, struct pkt **pkts,
						    int max, bool stamps)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	const struct mlx5_cqe64 *cqe;
	int n = 0;

	if (__builtin_expect(q->failed, 0))
		return 0;
	while (n < max && (cqe = mlx5_cq_next(&q->rcq))) {
		if (__builtin_expect(!receive(q, cqe, &pkts[n], stamps), 0)) {
			mlx5_queue_fail(q, "receiving",
					((const struct mlx5_err_cqe *)(const void *)cqe)->syndrome);
			break;
		}
		q->rcq.at++;
		n++;
	}
	if (!n) {
		rx_idle(q);
		return 0;
	}
	q->held += (unsigned)n;
	mlx5_cq_publish(&q->rcq);
	if (q->rq.n - (q->rq.head - q->rq.tail) >= q->rx_batch)
		mlx5_refill(q);
	if (stamps)
		mlx5_clock_stamp(&q->port->clock, pkts, n);
	return n;
}

int mlx5_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	return rx(base, pkts, max, false);
}

int mlx5_rx_burst_stamped(struct port_queue *base, struct pkt **pkts, int max)
{
	return rx(base, pkts, max, true);
}

/* ---- events ----------------------------------------------------------------------------------- */

/* Reads the events; they are acknowledged when the queue is closed. */
static void read_events(struct mlx5_queue *q)
{
	struct ib_uverbs_comp_event_desc event;

	while (sys_read(q->channel->fd, &event, sizeof(event)) == sizeof(event)) {
		q->events++;
		q->arm_sn++;
	}
}

bool mlx5_arm(struct port_queue *base)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	uint32_t word;

	if (q->failed)
		return true; /* the internal thread looks for another port */
	if (mlx5_cq_next(&q->rcq))
		return false;
	if (q->adapt_after)
		mlx5_moderate_adapt(q);
	read_events(q);
	word = mlx5_cq_arm_word(&q->rcq, q->arm_sn);
	/* PRM 8.20: the record, and then the register, which repeats it and names the queue. */
	q->rcq.record[MLX5_ARM_RECORD] = htobe32(word);
	mlx5_register_fence();
	*q->arm_reg = htobe64((uint64_t)word << 32 | q->cqn);
	mlx5_register_fence();
	/* What came before the card saw the register makes an event, too. */
	return !mlx5_cq_next(&q->rcq);
}

/* ---- transmit --------------------------------------------------------------------------------- */

/* The card has read a request that completes, and all before it. */
static void free_sent(struct mlx5_queue *q)
{
	const struct mlx5_signal *signal = &q->signals[q->signal_tail++ & (q->sq.n - 1)];
	const uint32_t *sent = q->sent;
	uint32_t at = q->sent_tail, end = signal->sent, mask = q->sent_mask;
	uint32_t *to = &q->free[q->base.frames_free];

	q->sq.tail = signal->head;
	while (at != end)
		*to++ = sent[at++ & mask];
	q->sent_tail = at;
	q->base.frames_free = (unsigned)(to - q->free);
}

/* Frees what the card has sent, up to this one of the completions that are due. */
static inline void reap_until(struct mlx5_queue *q, uint32_t end)
{
	const struct mlx5_cqe64 *cqe;
	bool some = false;

	while (q->signal_tail != end && (cqe = mlx5_cq_next(&q->scq))) {
		if (mlx5_cqe_opcode(cqe) != MLX5_CQE_REQ) {
			mlx5_queue_fail(q, "sending",
					((const struct mlx5_err_cqe *)(const void *)cqe)->syndrome);
			return;
		}
		free_sent(q);
		q->scq.at++;
		some = true;
	}
	if (some)
		mlx5_cq_publish(&q->scq);
}

void mlx5_tx_reap(struct mlx5_queue *q)
{
	reap_until(q, q->signal_head);
	if ((int32_t)(q->signal_tail - q->signal_rung) > 0)
		q->signal_rung = q->signal_tail;
}

struct pkt *mlx5_tx_get(struct port_queue *base)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct pkt *pkt;
	uint32_t frame;

	if (__builtin_expect(!base->frames_free, 0)) {
		mlx5_tx_reap(q);
		if (!base->frames_free)
			return NULL;
	}
	frame = q->free[--base->frames_free];
	pkt = &q->pkts[frame];
	*pkt = (struct pkt){
		.frame = frame_at(q, frame), .pool = &base->pool, .room = (uint32_t)q->room};
	q->held++;
	return pkt;
}

/* The frame is too short, the queue full, or it has failed. */
static __attribute__((noinline)) int refuse(struct pkt *pkt)
{
	pkt_free(pkt);
	return -ENOBUFS;
}

/* One block more is kept for rx_idle(), and for what mlx5_copy_units() writes. */
static inline bool may_send(const struct mlx5_queue *q, uint32_t len, uint32_t blocks)
{
	return __builtin_expect(mlx5_sq_room(&q->sq) > blocks, 1) &&
	       __builtin_expect(len > MLX5_HEADERS, 1) && __builtin_expect(!q->failed, 1);
}

/* Nothing is alive after the calls at the ends of these: they save no registers. */
static inline int put_in_place(struct mlx5_queue *q, struct pkt *pkt)
{
	q->held--;
	free_push(q, (uint32_t)(pkt - q->pkts));
	mlx5_sq_put_inline(&q->sq, pkt->frame, pkt->frame_len);
	return __builtin_expect(--q->until_signal, 1) ? 0 : signal_last(q);
}

static inline int put_by_address(struct mlx5_queue *q, struct pkt *pkt)
{
	q->held--;
	q->sent[q->sent_head++ & q->sent_mask] = (uint32_t)(pkt - q->pkts);
	mlx5_sq_put(&q->sq, pkt->frame, pkt->frame_len);
	return __builtin_expect(--q->until_signal, 1) ? 0 : signal_last(q);
}

static __attribute__((noinline)) int put_slowly(struct mlx5_queue *q, struct pkt *pkt)
{
	uint32_t len = pkt->frame_len;
	bool in_place = len <= q->inline_max;

	mlx5_tx_reap(q);
	if (!may_send(q, len, in_place ? mlx5_inline_blocks(len) : 1))
		return refuse(pkt);
	return in_place ? put_in_place(q, pkt) : put_by_address(q, pkt);
}

int mlx5_tx_put(struct port_queue *base, struct pkt *pkt)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	uint32_t len = pkt->frame_len;
	bool in_place = len <= q->inline_max;

	if (!may_send(q, len, in_place ? mlx5_inline_blocks(len) : 1))
		return put_slowly(q, pkt);
	return in_place ? put_in_place(q, pkt) : put_by_address(q, pkt);
}

/* ---- large segments --------------------------------------------------------------------------- */

/* Copies the next bytes of the payload, at most len; returns how many. */
static uint32_t take_payload(struct tcp_part part[2], uint8_t *to, uint32_t len)
{
	uint32_t taken = 0;

	for (unsigned i = 0; i < 2; i++) {
		uint32_t n = part[i].len < len - taken ? part[i].len : len - taken;

		if (!n)
			continue;
		memcpy(to + taken, part[i].data, n);
		part[i].data += n;
		part[i].len -= n;
		taken += n;
	}
	return taken;
}

static bool has_room(const struct mlx5_queue *q, uint32_t blocks, uint32_t frames)
{
	return mlx5_sq_room(&q->sq) > blocks && q->base.frames_free >= frames && !q->failed;
}

/* It completes by itself: its frames are many. */
int mlx5_tx_large(struct port_queue *base, const struct frame_large *large)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	uint32_t at = mlx5_large_head(large->hdr);
	uint32_t n = (uint32_t)((large->len + q->room - 1) / q->room), ds = at + n;
	uint8_t wqe[(MLX5_DS_MAX + 1) * MLX5_DS] __attribute__((aligned(16)));
	struct tcp_part part[2] = {large->part[0], large->part[1]};

	if (ds > MLX5_DS_MAX)
		return -EMSGSIZE;
	if (!has_room(q, (ds * MLX5_DS + MLX5_BLOCK - 1) / MLX5_BLOCK, n)) {
		mlx5_tx_reap(q);
		if (!has_room(q, (ds * MLX5_DS + MLX5_BLOCK - 1) / MLX5_BLOCK, n))
			return -ENOBUFS;
	}
	mlx5_wqe_large(wqe, large->head, large->hdr, large->mss);
	while (n--) {
		uint32_t frame = q->free[--base->frames_free];
		uint8_t *to = frame_at(q, frame);

		q->sent[q->sent_head++ & q->sent_mask] = frame;
		mlx5_wqe_data(&q->sq, wqe, at++, to, take_payload(part, to, (uint32_t)q->room));
	}
	mlx5_sq_put_large(&q->sq, wqe, ds);
	signal_last(q);
	mlx5_tx_flush(base);
	return 0;
}

void mlx5_tx_flush(struct port_queue *base)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	uint32_t before = q->signal_rung;

	if (q->sq.head == q->sq.rung || q->failed)
		return;
	q->signal_rung = q->signal_head;
	mlx5_sq_ring(&q->sq);
	/* Not what was rung for just now: the card has hardly sent it yet. */
	reap_until(q, before);
}

void mlx5_tx_drain(struct mlx5_queue *q)
{
	nsec_t until = clock_now() + DRAIN_MAX;

	mlx5_tx_flush(&q->base);
	while (q->sq.tail != q->sq.head && !q->failed && clock_now() < until) {
		rx_idle(q);
		sys_sched_yield();
	}
}
