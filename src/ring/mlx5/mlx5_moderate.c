/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moderation of events.  A queue that is polled needs none, so all of it happens when a queue is
 * opened, and when a thread is about to sleep.
 */
#include "ring/mlx5/mlx5_moderate.h"

#include <errno.h>

#include "base/log.h"
#include "base/param.h"
#include "ring/mlx5/mlx5_internal.h"

#define USEC_PER_SEC (NSEC_PER_SEC / NSEC_PER_USEC)

/* The card's fields have 16 bits. */
static uint16_t bounded(uint64_t value, int limit)
{
	if (value > (uint64_t)limit)
		value = (uint64_t)limit;
	return value > UINT16_MAX ? UINT16_MAX : (uint16_t)value;
}

/* One of them alone means nothing. */
static struct mlx5_moderation both(uint16_t frames, uint16_t usec)
{
	if (!frames || !usec)
		return (struct mlx5_moderation){0, 0};
	return (struct mlx5_moderation){frames, usec};
}

struct mlx5_moderation mlx5_moderation_for(uint32_t frames, nsec_t time)
{
	uint64_t aim = (uint64_t)params.cq_aim_rate;
	uint64_t rate = (uint64_t)frames * NSEC_PER_SEC / (uint64_t)(time > 0 ? time : 1);

	if (rate <= aim)
		return both(0, 0);
	return both(bounded(aim ? rate / aim : UINT64_MAX, params.cq_aim_max_frames),
		    bounded(aim ? USEC_PER_SEC / aim : UINT64_MAX, params.cq_aim_max_usec));
}

/* libibverbs writes errno; a call of the program that sleeps must not. */
static int set(struct mlx5_queue *q, struct mlx5_moderation to)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {to.frames, to.usec}};
	int saved = errno, rc;

	if (mlx5_moderation_eq(to, q->moderation))
		return 0;
	rc = ibv_modify_cq(q->recv_cq, &attr);
	rc = rc > 0 ? -rc : rc;
	if (rc) {
		log_debug("%s: the card does not moderate its events: %s", q->port->base.name,
			  strerrordesc_np(-rc));
		q->adapt_after = 0;
	} else {
		q->moderation = to;
	}
	errno = saved;
	return rc;
}

int mlx5_moderate(struct port_queue *base, uint16_t frames, uint16_t usec)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	int rc = set(q, both(frames, usec));

	if (!rc)
		q->adapt_after = 0;
	return rc;
}

void mlx5_moderate_begin(struct mlx5_queue *q)
{
	if (!params.cq_moderation)
		return;
	q->adapt_after = params.cq_aim_interval * NSEC_PER_MSEC;
	q->adapted = clock_now();
	set(q, both(bounded(UINT64_MAX, params.cq_moderation_frames),
		    bounded(UINT64_MAX, params.cq_moderation_usec)));
}

void mlx5_moderate_adapt(struct mlx5_queue *q)
{
	nsec_t now = clock_now();

	if (now - q->adapted < q->adapt_after)
		return;
	set(q, mlx5_moderation_for(q->rq.tail - q->adapted_tail, now - q->adapted));
	q->adapted = now;
	q->adapted_tail = q->rq.tail;
}
