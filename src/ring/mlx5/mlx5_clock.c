/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/mlx5/mlx5_clock.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/mlx5/mlx5_verbs.h"

#define TICKS_MIN 10
#define STEP NSEC_PER_MSEC /* a longer error: the system's clock was set */
#define BEND_MAX 1000	   /* a slope is within 1/BEND_MAX of that of the frequency */
#define SAMPLES 10
#define CORRECT_EVERY NSEC_PER_SEC
#define PTP_EVERY (100 * NSEC_PER_MSEC)

/* ---- lines ------------------------------------------------------------------------------------ */

static uint64_t slope_of(uint32_t khz)
{
	return (UINT64_C(1000000) << MLX5_SLOPE_BITS) / khz;
}

void mlx5_line_begin(struct mlx5_line *line, uint64_t ticks, nsec_t real, uint32_t khz)
{
	uint64_t slope = slope_of(khz);

	*line = (struct mlx5_line){.ticks = ticks, .real = real, .before = slope, .after = slope};
}

/* Nanoseconds per tick. */
static __int128 slope_between(nsec_t nsec, uint64_t ticks)
{
	return (__int128)nsec * ((__int128)1 << MLX5_SLOPE_BITS) / (__int128)ticks;
}

static __int128 bounded(__int128 value, __int128 least, __int128 most)
{
	if (value < least)
		return least;
	return value > most ? most : value;
}

bool mlx5_line_bend(struct mlx5_line *line, uint64_t ticks, nsec_t real, uint32_t khz)
{
	int64_t passed = (int64_t)(ticks - line->ticks);
	uint64_t slope = slope_of(khz);
	uint64_t second = (uint64_t)khz * 1000;
	nsec_t told = mlx5_line_at(line, ticks), error = real - told;
	__int128 rate;

	if (passed < TICKS_MIN)
		return false;
	if (error > STEP || error < -STEP) {
		mlx5_line_begin(line, ticks, real, khz);
		return true;
	}
	rate = slope_between(real - (line->real + line->error), (uint64_t)passed);
	rate = bounded(rate, slope - slope / BEND_MAX / 2, slope + slope / BEND_MAX / 2);
	rate += slope_between(error, second);
	line->before = line->after;
	line->after = (uint64_t)bounded(rate, slope - slope / BEND_MAX, slope + slope / BEND_MAX);
	line->ticks = ticks;
	line->real = told;
	line->error = error;
	return true;
}

/* ---- the device ------------------------------------------------------------------------------- */

static bool read_counter(const struct mlx5_clock *clock, uint64_t *ticks)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	if (ibv_query_rt_values_ex(clock->context, &values) ||
	    !(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return false;
	*ticks = (uint64_t)values.raw_clock.tv_nsec; /* it stands there as it is */
	return true;
}

/* Both clocks at one moment: of several tries, the one that took least. */
static bool sample(const struct mlx5_clock *clock, uint64_t *ticks, nsec_t *real)
{
	nsec_t least = NSEC_NEVER;

	for (int i = 0; i < SAMPLES; i++) {
		nsec_t before = clock_real(), after;
		uint64_t now;

		if (!read_counter(clock, &now))
			return false;
		after = clock_real();
		if (after - before < 0 || after - before >= least)
			continue; /* it was set meanwhile, or another try was better */
		least = after - before;
		*ticks = now;
		*real = before + least / 2;
	}
	return least != NSEC_NEVER;
}

static enum mlx5_conversion wanted(const struct mlx5_clock *clock)
{
	struct mlx5dv_clock_info info;

	if (!clock->khz)
		return MLX5_CONVERT_NONE;
	switch (params.hw_ts_conversion) {
	case 1:
		return MLX5_CONVERT_RAW;
	case 2:
		return clock->reads ? MLX5_CONVERT_SYNC : MLX5_CONVERT_RAW;
	case 3:
		return clock->reads ? MLX5_CONVERT_SYNC : MLX5_CONVERT_NONE;
	case 4:
		return mlx5_verbs.get_clock_info(clock->context, &info) ? MLX5_CONVERT_NONE
									: MLX5_CONVERT_PTP;
	default:
		return MLX5_CONVERT_NONE;
	}
}

void mlx5_clock_init(struct mlx5_clock *clock, struct ibv_context *context)
{
	struct verbs_context *verbs = verbs_get_ctx_op(context, query_device_ex);
	struct ibv_device_attr_ex attr = {0};
	uint64_t ticks;

	memset(clock, 0, sizeof(*clock));
	clock->context = context;
	clock->timer = -1;
	if (verbs && !verbs->query_device_ex(context, NULL, &attr, sizeof(attr)) &&
	    attr.hca_core_clock <= UINT32_MAX && attr.completion_timestamp_mask)
		clock->khz = (uint32_t)attr.hca_core_clock;
	clock->reads = params.hw_ts_conversion && clock->khz && read_counter(clock, &ticks);
	clock->conversion = wanted(clock);
}

void mlx5_clock_fini(struct mlx5_clock *clock)
{
	sys_close_fd(&clock->timer);
}

/* ---- corrections (the port's lock) ------------------------------------------------------------ */

static void publish(struct mlx5_clock *clock)
{
	uint64_t words[MLX5_TIMES_WORDS];

	memcpy(words, &clock->times, sizeof(words));
	__atomic_store_n(&clock->sequence, clock->sequence + 1, __ATOMIC_RELAXED);
	/* release: orders each word after the odd number; pairs with take_times(). */
	for (unsigned i = 0; i < MLX5_TIMES_WORDS; i++)
		__atomic_store_n(&clock->words[i], words[i], __ATOMIC_RELEASE);
	/* release: orders it after the words; pairs with take_times(). */
	__atomic_store_n(&clock->sequence, clock->sequence + 1, __ATOMIC_RELEASE);
}

static void correct(struct mlx5_clock *clock)
{
	uint64_t ticks;
	nsec_t real;

	if (clock->reads && sample(clock, &ticks, &real)) {
		if (!clock->runs)
			mlx5_line_begin(&clock->times.line, ticks, real, clock->khz);
		else
			mlx5_line_bend(&clock->times.line, ticks, real, clock->khz);
	}
	if (clock->conversion == MLX5_CONVERT_PTP)
		mlx5_verbs.get_clock_info(clock->context, &clock->times.ptp);
	publish(clock);
}

static void start_timer(struct mlx5_clock *clock)
{
	nsec_t every = clock->conversion == MLX5_CONVERT_PTP ? PTP_EVERY : CORRECT_EVERY;
	struct timespec period = {every / NSEC_PER_SEC, every % NSEC_PER_SEC};
	struct itimerspec timer = {period, period};

	clock->timer = sys_fd_hide((int)sys_call(SYS_timerfd_create, CLOCK_MONOTONIC,
						 TFD_CLOEXEC | TFD_NONBLOCK, 0, 0, 0, 0));
	if (clock->timer < 0) {
		log_warn("time stamps of the card are not corrected: %s",
			 strerrordesc_np(-clock->timer));
		clock->timer = -1;
		return;
	}
	sys_call(SYS_timerfd_settime, clock->timer, 0, &timer, NULL, 0, 0);
}

void mlx5_clock_run(struct mlx5_clock *clock)
{
	if (clock->runs || (!clock->reads && clock->conversion != MLX5_CONVERT_PTP))
		return;
	correct(clock);
	start_timer(clock);
	clock->runs = true;
}

int mlx5_clock_serve(struct mlx5_clock *clock)
{
	uint64_t ticks;

	if (clock->timer >= 0 && sys_read(clock->timer, &ticks, sizeof(ticks)) == sizeof(ticks))
		correct(clock);
	return clock->timer;
}

/* ---- frames (holder) -------------------------------------------------------------------------- */

static void take_times(const struct mlx5_clock *clock, struct mlx5_times *times)
{
	uint64_t words[MLX5_TIMES_WORDS];
	uint32_t sequence;

	do {
		/* acquire: orders the words after it; pairs with publish(). */
		sequence = __atomic_load_n(&clock->sequence, __ATOMIC_ACQUIRE);
		/* acquire: orders the number below after each word; pairs with publish(). */
		for (unsigned i = 0; i < MLX5_TIMES_WORDS; i++)
			words[i] = __atomic_load_n(&clock->words[i], __ATOMIC_ACQUIRE);
	} while ((sequence & 1) || sequence != __atomic_load_n(&clock->sequence, __ATOMIC_RELAXED));
	memcpy(times, words, sizeof(*times));
}

static nsec_t convert(const struct mlx5_clock *clock, struct mlx5_times *times, uint64_t ticks)
{
	switch (clock->conversion) {
	case MLX5_CONVERT_RAW:
		return mlx5_ticks_to_nsec(ticks, clock->khz);
	case MLX5_CONVERT_SYNC:
		return mlx5_line_at(&times->line, ticks);
	case MLX5_CONVERT_PTP:
		return (nsec_t)mlx5dv_ts_to_ns(&times->ptp, ticks);
	default:
		return 0;
	}
}

void mlx5_clock_stamp(const struct mlx5_clock *clock, struct pkt **pkts, int n)
{
	nsec_t now = clock->reads ? 0 : clock_real();
	struct mlx5_times times;

	take_times(clock, &times);
	for (int i = 0; i < n; i++) {
		struct pkt_arrival *arrival = pkt_arrival(pkts[i]);
		uint64_t ticks = (uint64_t)arrival->device;

		arrival->real = clock->reads ? mlx5_line_at(&times.line, ticks) : now;
		arrival->device = convert(clock, &times, ticks);
		pkts[i]->flags |= PKT_ARRIVAL;
	}
}
