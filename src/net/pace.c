/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/pace.h"

#include "base/wheel.h"

static nsec_t cost(const struct pace *pace, uint32_t len)
{
	return (nsec_t)(len * (uint64_t)NSEC_PER_SEC / pace->rate);
}

/* How long a full bucket lasts, and how much of that is before a packet's time. */
static nsec_t depth(const struct pace *pace)
{
	return pace->burst ? cost(pace, pace->burst) : PACE_EARLY + PACE_LATE;
}

static nsec_t early(const struct pace *pace)
{
	nsec_t all = depth(pace);

	return all < PACE_EARLY ? all : PACE_EARLY;
}

static nsec_t late(const struct pace *pace)
{
	return depth(pace) - early(pace);
}

uint32_t pace_burst(uint64_t rate, uint32_t max_burst, uint32_t packet)
{
	uint64_t tick = rate / (NSEC_PER_SEC / WHEEL_TICK);
	uint64_t least = tick > packet ? tick : packet;

	if (!max_burst)
		return 0;
	if (least > UINT32_MAX)
		return UINT32_MAX;
	return max_burst > least ? max_burst : (uint32_t)least;
}

nsec_t pace_when(const struct pace *pace, uint32_t len)
{
	nsec_t full, enough;

	if (!pace->rate)
		return -NSEC_NEVER;
	if (!pace->burst)
		return pace->at - PACE_EARLY;
	full = pace->at + late(pace);
	enough = pace->at + cost(pace, len) - early(pace);
	return enough < full ? enough : full;
}

void pace_sent(struct pace *pace, uint32_t len, nsec_t now)
{
	nsec_t from;

	if (!pace->rate)
		return;
	from = now - late(pace);
	pace->at = (pace->at > from ? pace->at : from) + cost(pace, len);
}
