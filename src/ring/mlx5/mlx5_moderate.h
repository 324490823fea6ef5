/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long the card holds the events of receiving back: until so many frames have arrived, or so
 * many microseconds have passed since the first of them.
 *
 * Role		a pure function of the parameters VMA_CQ_AIM_*.
 */
#ifndef RING_MLX5_MLX5_MODERATE_H
#define RING_MLX5_MLX5_MODERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Both are 0: each frame makes an event. */
struct mlx5_moderation {
	uint16_t frames, usec;
};

/*
 * What suits a queue that received so many frames in this time.  Up to the rate of events that is
 * aimed at, a frame is told at once; beyond it, as many frames share an event as makes this rate.
 */
struct mlx5_moderation mlx5_moderation_for(uint32_t frames, nsec_t time);

static inline bool mlx5_moderation_eq(struct mlx5_moderation a, struct mlx5_moderation b)
{
	return a.frames == b.frames && a.usec == b.usec;
}

#endif
