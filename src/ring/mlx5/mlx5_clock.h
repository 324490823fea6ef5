/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Times of what arrives: the card's counter, which completions carry, as times.
 *
 * A *line* gives each tick of the counter a time of the system's clock.  It is corrected from time to
 * time: it bends, so that later ticks always have later times, unless the system's clock was set.
 *
 * Role		mlx5_line_*: pure functions.  mlx5_clock_init(), _fini(): while the port is
 *		opened or freed.  mlx5_clock_run(), _serve(): the port's lock.
 *		mlx5_clock_stamp(): holder of any queue of the port.
 * Lifetime	embedded in struct mlx5_port.
 * Ordering	the times are copied to `words` between two stores of `sequence`, which is odd
 *		meanwhile; a reader repeats what it read then.
 * Progress	a reader repeats only while a writer copies some words.
 */
#ifndef RING_MLX5_MLX5_CLOCK_H
#define RING_MLX5_MLX5_CLOCK_H

#include <infiniband/mlx5dv.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "net/pkt.h"

#define MLX5_SLOPE_BITS 32

/* For some seconds around `ticks`; correct for ticks up to 2^63 before or after it. */
struct mlx5_line {
	uint64_t ticks;		/* where it bends */
	nsec_t real;		/* the time there, CLOCK_REALTIME */
	nsec_t error;		/* what is missing in it: the clock was ahead by so much */
	uint64_t before, after; /* nanoseconds per tick, times 2^MLX5_SLOPE_BITS */
};

/* The counter and the clock said so at the same moment; khz: the counter's frequency. */
void mlx5_line_begin(struct mlx5_line *line, uint64_t ticks, nsec_t real, uint32_t khz);
/*
 * And now this.  Bends at ticks, so that the error is gone a second later; if it is longer than a
 * millisecond, begins anew, as the clock was set.  False: the counter has hardly moved since.
 */
bool mlx5_line_bend(struct mlx5_line *line, uint64_t ticks, nsec_t real, uint32_t khz);

static inline nsec_t mlx5_line_at(const struct mlx5_line *line, uint64_t ticks)
{
	int64_t passed = (int64_t)(ticks - line->ticks);
	uint64_t slope = passed < 0 ? line->before : line->after;

	return line->real + (nsec_t)((__int128)passed * slope >> MLX5_SLOPE_BITS);
}

/* The counter as a time since it was 0. */
static inline nsec_t mlx5_ticks_to_nsec(uint64_t ticks, uint32_t khz)
{
	return (nsec_t)((unsigned __int128)ticks * NSEC_PER_MSEC / khz);
}

/* What a device's stamp becomes: VMA_HW_TS_CONVERSION, as far as the device can do it. */
enum mlx5_conversion { MLX5_CONVERT_NONE, MLX5_CONVERT_RAW, MLX5_CONVERT_SYNC, MLX5_CONVERT_PTP };

struct mlx5_times {
	struct mlx5_line line;
	struct mlx5dv_clock_info ptp;
};

#define MLX5_TIMES_WORDS (sizeof(struct mlx5_times) / sizeof(uint64_t))

struct mlx5_clock {
	/* set when opened */
	struct ibv_context *context;
	enum mlx5_conversion conversion;
	bool reads;   /* the counter can be read, so there is a line */
	uint32_t khz; /* of the counter; 0: the device does not say */
	int timer;    /* readable when the times are to be corrected; -1: not needed */
	/* the port's lock */
	bool runs;
	struct mlx5_times times;
	/* any, atomic: a copy for readers */
	uint32_t sequence; /* odd: being written */
	uint64_t words[MLX5_TIMES_WORDS];
};

/* What the device can do, and what VMA_HW_TS_CONVERSION wants. */
void mlx5_clock_init(struct mlx5_clock *clock, struct ibv_context *context);
void mlx5_clock_fini(struct mlx5_clock *clock);
/* lock: the first call reads the clocks, and starts the timer. */
void mlx5_clock_run(struct mlx5_clock *clock);
/* lock: the timer's descriptor may be readable.  Returns it, or -1. */
int mlx5_clock_serve(struct mlx5_clock *clock);
/*
 * holder: n packets, with the counter in pkt_arrival()->device.  Both times are known afterwards, and
 * PKT_ARRIVAL is set.
 */
void mlx5_clock_stamp(const struct mlx5_clock *clock, struct pkt **pkts, int n);

#endif
