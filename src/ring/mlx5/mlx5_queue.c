/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing a queue: frames in one memory region, a raw packet queue pair with a
 * doorbell register of its own, two completion queues, and a channel for the events of receiving.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/mlx5/mlx5_internal.h"

#define RX_MAX 4096u
#define TX_MAX 2048u
#define WR_MIN 256u
#define FRAMES_MIN 1024u
#define MMIO_CQ (MLX5_CQ_DOORBELL / sizeof(uint64_t))

static int refuse(char why[PORT_WHY], const struct mlx5_queue *q, const char *what)
{
	int rc = errno ? -errno : -EIO;
	const char *hint = "";

	if (rc == -EPERM)
		hint = "  Raw packets need CAP_NET_RAW.";
	else if (rc == -ENOMEM)
		hint = "  The frames are locked in memory: ulimit -l, or CAP_IPC_LOCK.";
	snprintf(why, PORT_WHY, "%s (%s): no %s: %s.%s\n", q->port->base.name, q->port->name.device,
		 what, strerrordesc_np(-rc), hint);
	return rc;
}

static uint32_t power_below(uint32_t n)
{
	return 1u << (31 - (unsigned)__builtin_clz(n));
}

static uint32_t wanted(int64_t asked, uint32_t most, uint32_t device)
{
	uint32_t n = asked > most ? most : (uint32_t)asked;

	return power_below(n > device ? device : n);
}

/* ---- frames ----------------------------------------------------------------------------------- */

static int alloc_frames(struct mlx5_queue *q, uint32_t rx, uint32_t tx)
{
	uint32_t n = 2 * rx > FRAMES_MIN ? 2 * rx : FRAMES_MIN;
	int rc;

	q->stride = (MLX5_HEADROOM + q->port->base.can.frame_max + 63) / 64 * 64;
	if (q->stride < MLX5_FRAME_SIZE)
		q->stride = MLX5_FRAME_SIZE;
	q->room = q->stride - MLX5_HEADROOM;
	q->size = (n * q->stride + 4095) & ~(size_t)4095;
	rc = frame_mem_get(&q->mem, q->size);
	if (rc)
		return rc;
	q->memory = q->mem.addr;
	q->frames = q->memory + MLX5_HEADROOM;
	q->pkts = mem_aligned(sizeof(struct pkt), n * sizeof(*q->pkts));
	q->free = mem_alloc(n * sizeof(*q->free));
	q->posted = mem_alloc(rx * sizeof(*q->posted));
	q->sent = mem_alloc(tx * MLX5_BLOCK_DATA * sizeof(*q->sent));
	q->signals = mem_alloc(tx * sizeof(*q->signals));
	if (!q->pkts || !q->free || !q->posted || !q->sent || !q->signals)
		return -ENOMEM;
	q->base.frames = q->base.frames_free = n;
	for (uint32_t i = 0; i < n; i++)
		q->free[i] = n - 1 - i;
	return 0;
}

static void free_frames(struct mlx5_queue *q)
{
	frame_mem_put(&q->mem);
	mem_free(q->pkts);
	mem_free(q->free);
	mem_free(q->posted);
	mem_free(q->sent);
	mem_free(q->signals);
	mem_free(q);
}

/* ---- objects of the device -------------------------------------------------------------------- */

/* A register of the queue's own; without it libmlx5 may give one register to several queues. */
static void make_domain(struct mlx5_queue *q)
{
	struct ibv_td_init_attr td = {0};
	struct ibv_parent_domain_init_attr attr = {.pd = q->port->pd};

	q->domain = ibv_alloc_td(q->port->context, &td);
	if (!q->domain)
		return;
	attr.td = q->domain;
	q->pd = ibv_alloc_parent_domain(q->port->context, &attr);
	if (q->pd)
		return;
	ibv_dealloc_td(q->domain);
	q->domain = NULL;
}

static int make_cqs(struct mlx5_queue *q, uint32_t rx, uint32_t tx, char why[PORT_WHY])
{
	struct ibv_context *context = q->port->context;

	q->channel = mlx5_verbs.create_comp_channel(context);
	if (!q->channel)
		return refuse(why, q, "completion channel");
	/* libibverbs rounds up to a power of two above it. */
	q->recv_cq = mlx5_verbs.create_cq(context, (int)rx - 1, NULL, q->channel, 0);
	q->send_cq = mlx5_verbs.create_cq(context, (int)tx - 1, NULL, NULL, 0);
	if (!q->recv_cq || !q->send_cq)
		return refuse(why, q, "completion queue");
	/* Now that the device knows it by its old number. */
	q->channel->fd = sys_fd_hide(q->channel->fd);
	sys_fcntl(q->channel->fd, F_SETFL, sys_fcntl(q->channel->fd, F_GETFL, 0) | O_NONBLOCK);
	return 0;
}

static int make_qp(struct mlx5_queue *q, uint32_t rx, uint32_t tx, char why[PORT_WHY])
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.send_cq = q->send_cq,
		.recv_cq = q->recv_cq,
		.cap = {.max_send_wr = tx, .max_recv_wr = rx, .max_send_sge = 1, .max_recv_sge = 1}};

	q->qp = mlx5_verbs.create_qp(q->pd ? q->pd : q->port->pd, &init);
	return q->qp ? 0 : refuse(why, q, "raw packet queue pair");
}

/* Is a doorbell register that others write to, without a lock between them? */
static bool shares_register(struct mlx5_queue *q)
{
	bool shared = false;

	mutex_lock(&q->port->lock);
	list_for_each(link, &q->port->queues)
		shared |= container_of(link, struct mlx5_queue, link)->sq.reg == q->sq.reg;
	mutex_unlock(&q->port->lock);
	return shared;
}

static void look_at_cq(struct mlx5_cq *cq, const struct mlx5dv_cq *dv)
{
	*cq = (struct mlx5_cq){.cqe = dv->buf, .record = dv->dbrec, .n = dv->cqe_cnt};
}

/* Where the queues lie in memory. */
static int look(struct mlx5_queue *q, char why[PORT_WHY])
{
	struct mlx5dv_qp qp = {0};
	struct mlx5dv_cq recv = {0}, send = {0};
	struct mlx5dv_obj qp_obj = {.qp = {q->qp, &qp}, .cq = {q->recv_cq, &recv}};
	struct mlx5dv_obj send_obj = {.cq = {q->send_cq, &send}};

	errno = 0;
	if (mlx5_verbs.init_obj(&qp_obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ) ||
	    mlx5_verbs.init_obj(&send_obj, MLX5DV_OBJ_CQ))
		return refuse(why, q, "view of the queues");
	errno = EOPNOTSUPP;
	if (recv.cqe_size != sizeof(struct mlx5_cqe64) || send.cqe_size != recv.cqe_size)
		return refuse(why, q, "completions of 64 bytes (MLX5_CQE_SIZE)");
	if (qp.sq.stride != MLX5_BLOCK || qp.rq.stride != sizeof(struct mlx5_wqe_data_seg) ||
	    (qp.sq.wqe_cnt & (qp.sq.wqe_cnt - 1)) || (qp.rq.wqe_cnt & (qp.rq.wqe_cnt - 1)) ||
	    !qp.sq.wqe_cnt || !qp.rq.wqe_cnt)
		return refuse(why, q, "queues of the usual form");
	look_at_cq(&q->rcq, &recv);
	look_at_cq(&q->scq, &send);
	q->cqn = recv.cqn;
	q->arm_reg = (volatile uint64_t *)recv.cq_uar + MMIO_CQ;
	q->rq = (struct mlx5_rq){
		.wqe = qp.rq.buf, .record = &qp.dbrec[MLX5_RCV_DBR], .n = qp.rq.wqe_cnt};
	q->sq = (struct mlx5_sq){.buf = qp.sq.buf,
				 .n = qp.sq.wqe_cnt,
				 .qpn = q->qp->qp_num,
				 .record = &qp.dbrec[MLX5_SND_DBR],
				 .reg = qp.bf.reg,
				 .bf_size = qp.bf.size,
				 .blue_flame = params.blue_flame && qp.bf.size};
	if (shares_register(q))
		return refuse(why, q, "doorbell register of its own");
	return 0;
}

/* libmlx5 stores its own, empty, doorbell record on the way to RTR: ours comes after that. */
static int start(struct mlx5_queue *q, char why[PORT_WHY])
{
	int rc = mlx5_verbs_start(q->qp, q->port->name.port);

	if (rc)
		return refuse(why, q, "state in which it works");
	mlx5_sq_prepare(&q->sq, q->lkey);
	mlx5_rq_prepare(&q->rq, (uint32_t)q->room, q->lkey);
	mlx5_refill(q);
	return 0;
}

/* True: nothing of the device refers to the frames any more. */
static bool destroy(struct mlx5_queue *q)
{
	bool ended = true;

	if (q->qp)
		ended = !mlx5_verbs.destroy_qp(q->qp);
	if (q->channel)
		sys_fd_unhide(q->channel->fd);
	if (ended && q->recv_cq) {
		mlx5_verbs.ack_cq_events(q->recv_cq, q->events);
		ended &= !mlx5_verbs.destroy_cq(q->recv_cq);
	}
	if (ended && q->send_cq)
		ended &= !mlx5_verbs.destroy_cq(q->send_cq);
	if (ended && q->channel)
		ended &= !mlx5_verbs.destroy_comp_channel(q->channel);
	if (ended && q->pd)
		ended &= !mlx5_verbs.dealloc_pd(q->pd);
	if (ended && q->domain)
		ended &= !ibv_dealloc_td(q->domain);
	if (ended && q->mr)
		ended &= !mlx5_verbs.dereg_mr(q->mr);
	return ended;
}

/*
 * What could not be destroyed stays, and so do the frames: the card may still write to them.  On a
 * device that is gone libmlx5 frees what it can and reports success.
 */
static void end(struct mlx5_queue *q)
{
	int saved = errno;

	if (destroy(q))
		free_frames(q);
	else
		log_debug("%s: a queue of the device cannot be destroyed", q->port->base.name);
	errno = saved;
}

static int make(struct mlx5_queue *q, char why[PORT_WHY])
{
	const struct mlx5_port *port = q->port;
	uint32_t rx = wanted(params.rx_wre, RX_MAX, port->max_wr);
	uint32_t tx = wanted(params.tx_wre, TX_MAX, port->max_wr);
	int rc;

	rc = rx < WR_MIN || tx < WR_MIN ? -ENOMEM : alloc_frames(q, rx, tx);
	errno = -rc;
	if (rc)
		return refuse(why, q, "memory for frames");
	errno = 0;
	q->mr = mlx5_verbs.reg_mr(port->pd, q->memory, q->size, IBV_ACCESS_LOCAL_WRITE);
	if (!q->mr)
		return refuse(why, q, "memory region");
	q->lkey = q->mr->lkey;
	make_domain(q);
	rc = make_cqs(q, rx, tx, why);
	if (!rc)
		rc = make_qp(q, rx, tx, why);
	if (!rc)
		rc = look(q, why);
	if (rc)
		return rc;
	q->sent_mask = q->sq.n * MLX5_BLOCK_DATA - 1;
	/* libmlx5 may have made them larger. */
	errno = EOPNOTSUPP;
	if (q->rq.n > rx || q->sq.n > tx || q->rcq.n < rx)
		return refuse(why, q, "queues of the size that was asked for");
	return start(q, why);
}

/* Buffers, and completions, come back before a queue is empty, or full. */
static void limit_batches(struct mlx5_queue *q)
{
	uint32_t longest = q->inline_max > MLX5_HEADERS ? mlx5_inline_blocks(q->inline_max) : 1;

	if (q->rx_batch > q->rq.n / 2)
		q->rx_batch = q->rq.n / 2;
	if (q->tx_batch > q->sq.n / 4 / longest)
		q->tx_batch = q->sq.n / 4 / longest;
	q->until_signal = q->tx_batch;
}

int mlx5_open_queue(struct port *base, struct port_queue **out, char why[PORT_WHY])
{
	struct mlx5_port *port = mlx5_port_of(base);
	struct mlx5_queue *q = mem_aligned(64, sizeof(*q));
	int saved = errno, rc;

	if (port->fenced || !q) {
		mem_free(q);
		snprintf(why, PORT_WHY, "%s: %s.\n", base->name,
			 q ? "the process has given its privileges up" : "no memory for a queue");
		return q ? -EPERM : -ENOMEM;
	}
	memset(q, 0, sizeof(*q));
	q->port = port;
	q->base.port = base;
	q->base.ops = base->ops;
	q->base.pool.put = mlx5_pool_put;
	q->inline_max = (unsigned)params.tx_max_inline;
	if (q->inline_max > MLX5_INLINE_MAX)
		q->inline_max = MLX5_INLINE_MAX;
	q->rx_batch = (unsigned)params.rx_wre_batching;
	q->tx_batch = (unsigned)params.tx_wre_batching;
	rc = make(q, why);
	if (rc) {
		end(q);
	} else {
		limit_batches(q);
		mlx5_moderate_begin(q);
		mutex_lock(&port->lock);
		list_push_back(&port->queues, &q->link);
		mutex_unlock(&port->lock);
		*out = &q->base;
	}
	errno = saved;
	return rc;
}

void mlx5_close_queue(struct port_queue *base)
{
	struct mlx5_queue *q = mlx5_queue_of(base);

	mlx5_shares_end(q);
	mlx5_flows_end(q);
	mlx5_tx_drain(q);
	mutex_lock(&q->port->lock);
	list_remove(&q->link);
	mutex_unlock(&q->port->lock);
	end(q);
}

void mlx5_queue_fail(struct mlx5_queue *q, const char *what, unsigned syndrome)
{
	uint64_t one = 1;

	if (q->failed)
		return;
	log_warn("%s: the card reports an error of %s (syndrome %#x); its port is given up",
		 q->port->base.name, what, syndrome);
	/* Pairs with the load in mlx5_service(), which the event wakes. */
	__atomic_store_n(&q->failed, true, __ATOMIC_RELEASE);
	sys_write(q->port->event_fd, &one, sizeof(one));
}
