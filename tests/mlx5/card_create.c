/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mlx5/card_call.h"

#define CQE_SIZE 64

/* ---- completion queues -------------------------------------------------------------------- */

static uint32_t power_of_two(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

int call_create_cq(struct call *call)
{
	struct ib_uverbs_ex_create_cq arg;
	struct ib_uverbs_create_cq old;
	struct ib_uverbs_ex_create_cq_resp core = {.response_length = sizeof(core)};
	struct mlx5_ib_create_cq_resp driver = {0};
	struct mlx5_ib_create_cq where;
	struct channel *channel = NULL;
	struct cq *cq;

	if (call->extended) {
		CORE(call, arg);
	} else {
		call_split(call, sizeof(old));
		CORE(call, old);
		arg = (struct ib_uverbs_ex_create_cq){.user_handle = old.user_handle,
						      .cqe = old.cqe,
						      .comp_channel = old.comp_channel};
	}
	DRIVER(call, where);
	if (arg.comp_channel >= 0)
		channel = FIND(channel, call->context->channels, (uint32_t)arg.comp_channel);
	if ((arg.comp_channel >= 0 && !channel) || !arg.cqe || arg.cqe >= CQE_MAX ||
	    where.cqe_size != CQE_SIZE || where.cqe_comp_en)
		return -EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->channel = channel;
	if (channel)
		channel->object.users++;
	cq->user_handle = arg.user_handle;
	cq->buf = where.buf_addr;
	cq->record = where.db_addr;
	cq->n = power_of_two(arg.cqe + 1);
	cq->number = driver.cqn = call_next_number();
	object_add(&cq->object, call->context, &call->context->cqs);
	core.base.cq_handle = cq->object.handle;
	core.base.cqe = cq->n - 1;
	return call_answer(call, &core, call->extended ? sizeof(core) : sizeof(core.base), &driver,
			   sizeof(driver));
}

int call_modify_cq(struct call *call)
{
	struct ib_uverbs_ex_modify_cq arg;
	struct cq *cq;

	CORE(call, arg);
	cq = FIND(cq, call->context->cqs, arg.cq_handle);
	if (!cq || arg.attr_mask != IBV_CQ_ATTR_MODERATE)
		return -EINVAL;
	counters.moderated++;
	counters.frames = cq->frames = arg.attr.cq_count;
	counters.usec = cq->usec = arg.attr.cq_period;
	return 0;
}

/* ---- queue pairs -------------------------------------------------------------------------- */

/* A doorbell register of its own: the card sees only the last one of several writes. */
static int take_bfreg(struct context *context, const struct mlx5_ib_create_qp *where,
		      unsigned *bfreg)
{
	if (where->flags & MLX5_QP_FLAG_BFREG_INDEX) {
		*bfreg = BFREGS_STATIC + where->bfreg_index;
		if (*bfreg >= UAR_PAGES * BFREGS_PER_UAR || context->bfreg_used[*bfreg])
			return -EINVAL;
	} else {
		*bfreg = 1; /* the first register is no BlueFlame register */
		while (*bfreg < BFREGS_STATIC && context->bfreg_used[*bfreg])
			++*bfreg;
		if (*bfreg == BFREGS_STATIC)
			return -ENOMEM;
	}
	context->bfreg_used[*bfreg] = true;
	return 0;
}

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

int call_create_qp(struct call *call)
{
	struct ib_uverbs_create_qp arg;
	struct ib_uverbs_create_qp_resp core;
	struct mlx5_ib_create_qp_resp driver = {0};
	struct mlx5_ib_create_qp where;
	struct qp *qp, found;
	int rc;

	call_split(call, sizeof(arg));
	CORE(call, arg);
	DRIVER(call, where);
	if (arg.qp_type != IBV_QPT_RAW_PACKET || arg.is_srq || call->extended)
		return -EOPNOTSUPP;
	if (!call->context->raw)
		return -EPERM;
	memset(&found, 0, sizeof(found));
	found.pd = FIND(pd, call->context->pds, arg.pd_handle);
	found.send_cq = FIND(cq, call->context->cqs, arg.send_cq_handle);
	found.recv_cq = FIND(cq, call->context->cqs, arg.recv_cq_handle);
	/* Requests of receiving are noted: POSTED_MAX. */
	if (where.rq_wqe_count > POSTED_MAX)
		return -EINVAL;
	if (!found.pd || !found.send_cq || !found.recv_cq || !is_power_of_two(where.sq_wqe_count) ||
	    !is_power_of_two(where.rq_wqe_count) || where.rq_wqe_shift < 4 ||
	    where.rq_wqe_shift > 9 || !where.sq_buf_addr)
		return -EINVAL;
	rc = take_bfreg(call->context, &where, &found.bfreg);
	if (rc)
		return rc;
	qp = malloc(sizeof(*qp));
	found.notes = calloc(1, sizeof(*found.notes));
	if (!qp || !found.notes) {
		free(qp);
		free(found.notes);
		return -ENOMEM;
	}
	*qp = found;
	qp->signal_all = arg.sq_sig_all;
	qp->number = call_next_number();
	qp->uidx = where.uidx;
	qp->user_handle = arg.user_handle;
	qp->rq = where.buf_addr;
	qp->sq = where.sq_buf_addr;
	qp->record = where.db_addr;
	qp->sq_n = where.sq_wqe_count;
	qp->rq_n = where.rq_wqe_count;
	qp->rq_stride = 1u << where.rq_wqe_shift;
	counters.rq = qp->rq_n;
	counters.sq = qp->sq_n;
	qp->pd->object.users++;
	qp->send_cq->object.users++;
	qp->recv_cq->object.users++;
	object_add(&qp->object, call->context, &call->context->qps);
	core = (struct ib_uverbs_create_qp_resp){.qp_handle = qp->object.handle,
						 .qpn = qp->number,
						 .max_send_wr = arg.max_send_wr,
						 .max_recv_wr = arg.max_recv_wr,
						 .max_send_sge = arg.max_send_sge,
						 .max_recv_sge = arg.max_recv_sge,
						 .max_inline_data = arg.max_inline_data};
	driver.bfreg_index = qp->bfreg;
	return call_answer(call, &core, sizeof(core), &driver, sizeof(driver));
}

int call_modify_qp(struct call *call)
{
	static const enum qp_state states[] = {[IBV_QPS_RESET] = QP_RESET,
					       [IBV_QPS_INIT] = QP_INIT,
					       [IBV_QPS_RTR] = QP_RTR,
					       [IBV_QPS_RTS] = QP_RTS,
					       [IBV_QPS_ERR] = QP_ERROR};
	struct ib_uverbs_modify_qp arg;
	enum qp_state to;
	struct qp *qp;

	CORE(call, arg);
	qp = FIND(qp, call->context->qps, arg.qp_handle);
	if (!qp || !(arg.attr_mask & IBV_QP_STATE) || arg.qp_state > IBV_QPS_ERR ||
	    arg.qp_state == IBV_QPS_SQD || arg.qp_state == IBV_QPS_SQE)
		return -EINVAL;
	to = states[arg.qp_state];
	/* RESET and ERROR from everywhere; else one step at a time. */
	if (to != QP_RESET && to != QP_ERROR && to != qp->state + 1)
		return -EINVAL;
	if (to == QP_ERROR) {
		queue_fail(qp);
		return 0;
	}
	if (to == QP_RESET) {
		qp->sq_taken = qp->rq_taken = 0;
		memset(qp->notes, 0, sizeof(*qp->notes));
	}
	qp->state = to;
	return 0;
}

/* ---- rules -------------------------------------------------------------------------------- */

int call_create_flow(struct call *call)
{
	struct ib_uverbs_create_flow arg;
	struct ib_uverbs_create_flow_resp core = {0};
	struct rule *rule;
	struct qp *qp;

	if (refusing)
		return -EOPNOTSUPP;
	CORE(call, arg);
	qp = FIND(qp, call->context->qps, arg.qp_handle);
	if (!qp || arg.flow_attr.type != IBV_FLOW_ATTR_NORMAL || arg.flow_attr.port != 1 ||
	    call->core_len < sizeof(arg))
		return -EINVAL;
	rule = rule_parse(call->core + sizeof(arg), call->core_len - sizeof(arg),
			  arg.flow_attr.num_of_specs);
	if (!rule)
		return errno ? -errno : -ENOMEM;
	rule->priority = arg.flow_attr.priority;
	if (rule_conflicts(rule)) {
		free(rule);
		return -EEXIST;
	}
	rule->qp = qp;
	qp->object.users++;
	object_add(&rule->object, call->context, &call->context->flows);
	core.flow_handle = rule->object.handle;
	return call_answer(call, &core, sizeof(core), NULL, 0);
}
