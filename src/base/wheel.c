/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Level l has slots of 64^l ticks.  A timer is filed in the level that its distance fits.  When
 * the first tick of a slot in a higher level is reached, its timers move down.  Nothing
 * happens between such ticks and the occupied slots of level 0, so a run uses the bitmaps to
 * skip from one event to the next.
 */
#include "base/wheel.h"

#include "base/image/sections.h"

#define WHEEL_MASK (WHEEL_SLOTS - 1)
#define HORIZON ((uint64_t)1 << (WHEEL_BITS * WHEEL_LEVELS)) /* ticks */
#define TICK_NEVER UINT64_MAX

static struct timer *timer_of(struct list *link)
{
	return container_of(link, struct timer, link);
}

/* The first tick at or after a point in time. */
static uint64_t tick_of(nsec_t when)
{
	if (when <= 0)
		return 0;
	return (uint64_t)(when / WHEEL_TICK) + (when % WHEEL_TICK != 0);
}

static nsec_t time_of(uint64_t tick)
{
	if (tick > (uint64_t)(NSEC_NEVER / WHEEL_TICK))
		return NSEC_NEVER;
	return (nsec_t)tick * WHEEL_TICK;
}

static uint64_t rotate_right(uint64_t bits, unsigned n)
{
	return bits >> n | bits << (-n & 63);
}

/* Files a timer by its distance from wheel->tick. */
static void file_timer(struct wheel *wheel, struct timer *timer)
{
	uint64_t due = tick_of(timer->when);
	unsigned level, slot;

	if (due < wheel->tick) {
		list_push_back(&wheel->overdue, &timer->link);
		return;
	}
	if (due - wheel->tick >= HORIZON)
		due = wheel->tick + HORIZON - 1; /* filed again when this tick is reached */
	for (level = 0; (due - wheel->tick) >> (WHEEL_BITS * (level + 1)); level++)
		;
	slot = (due >> (WHEEL_BITS * level)) & WHEEL_MASK;
	list_push_back(&wheel->slots[level][slot], &timer->link);
	wheel->occupied[level] |= (uint64_t)1 << slot;
}

/* Unlinks a timer and updates the bitmaps. */
static void unfile_timer(struct wheel *wheel, struct timer *timer)
{
	struct list *rest = timer->link.next;
	size_t offset = (uintptr_t)rest - (uintptr_t)&wheel->slots[0][0];

	list_remove(&timer->link);
	/* The timer was alone in its slot if its neighbour is the slot's head. */
	if (list_empty(rest) && offset < sizeof(wheel->slots)) {
		size_t slot = offset / sizeof(struct list);

		wheel->occupied[slot / WHEEL_SLOTS] &= ~((uint64_t)1 << slot % WHEEL_SLOTS);
	}
}

static void take_slot(struct wheel *wheel, unsigned level, unsigned slot, struct list *to)
{
	struct list *link;

	wheel->occupied[level] &= ~((uint64_t)1 << slot);
	while ((link = list_pop_front(&wheel->slots[level][slot])))
		list_push_back(to, link);
}

/*
 * The first tick, at or after wheel->tick, at which a slot is due. A slot of a higher level is
 * due at its first tick. If the current slot began earlier, it holds only timers that are a
 * whole turn away.
 */
static uint64_t next_event(const struct wheel *wheel)
{
	uint64_t first = TICK_NEVER;

	for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
		unsigned shift = WHEEL_BITS * level;
		uint64_t from = (wheel->tick + ((uint64_t)1 << shift) - 1) >> shift, bits, tick;

		if (!wheel->occupied[level])
			continue;
		bits = rotate_right(wheel->occupied[level], from & WHEEL_MASK);
		tick = (from + (unsigned)__builtin_ctzll(bits)) << shift;
		if (tick < first)
			first = tick;
	}
	return first;
}

/* At the first tick of a slot of a higher level: moves its timers down. */
static void cascade(struct wheel *wheel)
{
	struct list moving;
	struct list *link;

	list_init(&moving);
	for (unsigned level = 1; level < WHEEL_LEVELS; level++) {
		unsigned shift = WHEEL_BITS * level;

		if (wheel->tick & (((uint64_t)1 << shift) - 1))
			break;
		take_slot(wheel, level, (wheel->tick >> shift) & WHEEL_MASK, &moving);
	}
	while ((link = list_pop_front(&moving)))
		file_timer(wheel, timer_of(link));
}

/* Moves due timers to a list in order of ticks, and advances the wheel past now. */
static void collect(struct wheel *wheel, nsec_t now, struct list *expired)
{
	uint64_t end = now < 0 ? 0 : (uint64_t)(now / WHEEL_TICK) + 1, tick;
	struct list *link;

	while ((link = list_pop_front(&wheel->overdue)))
		list_push_back(expired, link);
	while ((tick = next_event(wheel)) < end) {
		wheel->tick = tick;
		cascade(wheel);
		take_slot(wheel, 0, tick & WHEEL_MASK, expired);
		wheel->tick = tick + 1;
	}
	if (wheel->tick < end)
		wheel->tick = end;
}

EARLY_CODE void wheel_init(struct wheel *wheel, nsec_t now)
{
	wheel->tick = tick_of(now);
	wheel->next = NSEC_NEVER;
	wheel->armed = 0;
	list_init(&wheel->overdue);
	for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
		wheel->occupied[level] = 0;
		for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++)
			list_init(&wheel->slots[level][slot]);
	}
}

void timer_init(struct timer *timer, timer_fn fire)
{
	list_init(&timer->link);
	timer->when = NSEC_NEVER;
	timer->fire = fire;
}

void wheel_arm(struct wheel *wheel, struct timer *timer, nsec_t when)
{
	nsec_t due = time_of(tick_of(when));

	if (when == NSEC_NEVER) {
		wheel_cancel(wheel, timer);
		return;
	}
	if (timer_armed(timer))
		unfile_timer(wheel, timer);
	else
		wheel->armed++;
	timer->when = when;
	file_timer(wheel, timer);
	if (due < wheel->next)
		wheel->next = due;
}

void wheel_cancel(struct wheel *wheel, struct timer *timer)
{
	if (!timer_armed(timer))
		return;
	unfile_timer(wheel, timer);
	timer->when = NSEC_NEVER;
	if (!--wheel->armed)
		wheel->next = NSEC_NEVER;
}

void wheel_run_expired(struct wheel *wheel, nsec_t now)
{
	struct list expired, *link;

	list_init(&expired);
	collect(wheel, now, &expired);
	/* Before the functions run, because they may arm timers. */
	wheel->next = time_of(next_event(wheel));

	while ((link = list_pop_front(&expired))) {
		struct timer *timer = timer_of(link);

		timer->when = NSEC_NEVER;
		wheel->armed--;
		timer->fire(timer, now);
	}
}
