/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/wheel.h"

#include <string.h>

#include "tests/vma_test.h"

#define TICK WHEEL_TICK
#define MODEL_TIMERS 600

/* A timer that records what happened to it. */
struct probe {
	struct timer timer;
	unsigned fired;
	nsec_t fired_at;
	struct wheel *wheel;
	struct probe *other;
	nsec_t again; /* the function arms the timer for this time */
};

static void note(struct timer *timer, nsec_t now)
{
	struct probe *probe = container_of(timer, struct probe, timer);

	assert_false(timer_armed(timer));
	probe->fired++;
	probe->fired_at = now;
}

static void note_and_cancel_other(struct timer *timer, nsec_t now)
{
	struct probe *probe = container_of(timer, struct probe, timer);

	note(timer, now);
	wheel_cancel(probe->wheel, &probe->other->timer);
}

static void note_and_arm_again(struct timer *timer, nsec_t now)
{
	struct probe *probe = container_of(timer, struct probe, timer);

	note(timer, now);
	wheel_arm(probe->wheel, timer, probe->again);
}

static void note_and_free(struct timer *timer, nsec_t now)
{
	struct probe *probe = container_of(timer, struct probe, timer);

	probe->other->fired++;
	free(probe);
}

static void probe_init(struct probe *probe, struct wheel *wheel, timer_fn fn)
{
	memset(probe, 0, sizeof(*probe));
	timer_init(&probe->timer, fn);
	probe->wheel = wheel;
}

static void check_empty(const struct wheel *wheel)
{
	assert_int_equal(wheel->armed, 0);
	assert_true(wheel_next(wheel) == NSEC_NEVER);
	for (int level = 0; level < WHEEL_LEVELS; level++)
		assert_true(wheel->occupied[level] == 0);
}

static void test_fires_at_its_tick_and_not_before(void **state)
{
	struct wheel wheel;
	struct probe probe;

	wheel_init(&wheel, 0);
	probe_init(&probe, &wheel, note);
	wheel_arm(&wheel, &probe.timer, 10 * TICK + 1);
	assert_true(timer_armed(&probe.timer));
	assert_true(wheel_next(&wheel) == 11 * TICK);
	wheel_run(&wheel, 10 * TICK + 1);
	wheel_run_expired(&wheel, 11 * TICK - 1);
	assert_int_equal(probe.fired, 0);
	wheel_run(&wheel, 11 * TICK);
	assert_int_equal(probe.fired, 1);
	assert_true(probe.fired_at == 11 * TICK);
	check_empty(&wheel);
}

/* Distances on both sides of every level's boundary, from start times near boundaries. */
static void test_every_level_is_exact_at_its_boundaries(void **state)
{
	static const uint64_t starts[] = {
		0, 1, 63, 64, 65, 4095, 4096, 262143, 262145, (1 << 24) - 1, (1 << 24) + 77};

	for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
		for (int level = 0; level <= WHEEL_LEVELS; level++) {
			for (int off = -2; off <= 2; off++) {
				nsec_t start = (nsec_t)starts[s] * TICK;
				int64_t ticks = ((int64_t)1 << (WHEEL_BITS * level)) + off;
				nsec_t due = start + ticks * TICK;
				struct wheel wheel;
				struct probe probe;

				if (ticks < 0)
					continue;
				wheel_init(&wheel, start);
				probe_init(&probe, &wheel, note);
				wheel_arm(&wheel, &probe.timer, due);
				wheel_run_expired(&wheel, due - 1);
				assert_int_equal(probe.fired, 0);
				assert_true(wheel_next(&wheel) <= due);
				wheel_run(&wheel, due);
				assert_int_equal(probe.fired, 1);
				check_empty(&wheel);
			}
		}
	}
}

static void test_past_fires_at_the_next_run(void **state)
{
	struct wheel wheel;
	struct probe probe;

	wheel_init(&wheel, 1000 * TICK);
	wheel_run_expired(&wheel, 1000 * TICK + 1);
	probe_init(&probe, &wheel, note);
	wheel_arm(&wheel, &probe.timer, 3 * TICK);
	wheel_run(&wheel, 1000 * TICK + 2);
	assert_int_equal(probe.fired, 1);
	wheel_arm(&wheel, &probe.timer, -5);
	wheel_cancel(&wheel, &probe.timer);
	check_empty(&wheel);
	wheel_arm(&wheel, &probe.timer, 0);
	wheel_run(&wheel, 1000 * TICK + 3);
	assert_int_equal(probe.fired, 2);
	check_empty(&wheel);
}

/* Beyond the last level the timer is filed again, several times. */
static void test_far_timer_waits_its_time(void **state)
{
	nsec_t horizon = ((nsec_t)1 << (WHEEL_BITS * WHEEL_LEVELS)) * TICK;
	nsec_t due = 3 * horizon + 12345 * TICK, now = 0;
	struct wheel wheel;
	struct probe probe, never;
	int wakeups = 0;

	wheel_init(&wheel, 0);
	probe_init(&probe, &wheel, note);
	probe_init(&never, &wheel, note);
	wheel_arm(&wheel, &probe.timer, due);
	wheel_arm(&wheel, &never.timer, NSEC_NEVER - 1);
	wheel_run_expired(&wheel, 0);
	while (!probe.fired) {
		assert_true(wheel_next(&wheel) > now && wheel_next(&wheel) <= due);
		now = wheel_next(&wheel);
		wheel_run(&wheel, now);
		assert_true(++wakeups < 1000);
	}
	assert_true(now == due);
	assert_int_equal(never.fired, 0);
	wheel_cancel(&wheel, &never.timer);
	check_empty(&wheel);
}

static void test_arming_again_moves_and_never_cancels(void **state)
{
	struct wheel wheel;
	struct probe probe;

	wheel_init(&wheel, 0);
	probe_init(&probe, &wheel, note);
	wheel_arm(&wheel, &probe.timer, 5 * TICK);
	wheel_arm(&wheel, &probe.timer, 5000 * TICK);
	assert_int_equal(wheel.armed, 1);
	wheel_run(&wheel, 4999 * TICK);
	assert_int_equal(probe.fired, 0);
	wheel_arm(&wheel, &probe.timer, NSEC_NEVER);
	wheel_arm(&wheel, &probe.timer, NSEC_NEVER);
	check_empty(&wheel);
	wheel_cancel(&wheel, &probe.timer);
	wheel_run_expired(&wheel, 6000 * TICK);
	assert_int_equal(probe.fired, 0);
	check_empty(&wheel);
}

static void test_function_may_cancel_one_due_in_the_same_run(void **state)
{
	struct wheel wheel;
	struct probe first, second;

	/* In the same tick, then in a later tick of the same run. */
	for (int later = 0; later < 2; later++) {
		wheel_init(&wheel, 0);
		probe_init(&first, &wheel, note_and_cancel_other);
		probe_init(&second, &wheel, note);
		first.other = &second;
		wheel_arm(&wheel, &first.timer, 7 * TICK);
		wheel_arm(&wheel, &second.timer, (7 + 90 * later) * TICK);
		wheel_run(&wheel, 200 * TICK);
		assert_int_equal(first.fired, 1);
		assert_int_equal(second.fired, 0);
		check_empty(&wheel);
	}
}

static void test_function_arming_the_past_does_not_make_a_run_endless(void **state)
{
	struct wheel wheel;
	struct probe probe;

	wheel_init(&wheel, 0);
	probe_init(&probe, &wheel, note_and_arm_again);
	probe.again = 50 * TICK; /* after its own tick, before the end of the run */
	wheel_arm(&wheel, &probe.timer, 7 * TICK);
	wheel_run(&wheel, 100 * TICK);
	assert_int_equal(probe.fired, 1);
	assert_true(wheel_next(&wheel) <= 100 * TICK);
	wheel_run(&wheel, 100 * TICK);
	assert_int_equal(probe.fired, 2);
	wheel_cancel(&wheel, &probe.timer);
	check_empty(&wheel);
}

static void test_function_may_free_its_object(void **state)
{
	struct wheel wheel;
	struct probe witness, *probe;

	wheel_init(&wheel, 0);
	probe_init(&witness, &wheel, note);
	for (int i = 0; i < 10; i++) {
		probe = malloc(sizeof(*probe));
		probe_init(probe, &wheel, note_and_free);
		probe->other = &witness;
		wheel_arm(&wheel, &probe->timer, (1 + i / 3) * TICK);
	}
	wheel_run(&wheel, 100 * TICK);
	assert_int_equal(witness.fired, 10);
	check_empty(&wheel);
}

/* --- against a model: an array of due ticks ------------------------------ */

struct model {
	struct wheel wheel;
	struct probe probes[MODEL_TIMERS];
	uint64_t due[MODEL_TIMERS]; /* UINT64_MAX: not armed */
	bool touched[MODEL_TIMERS]; /* fired, armed or cancelled in this run */
	uint64_t tick;		    /* the next tick to be processed */
	uint64_t last;		    /* due time of the timer that fired last in this run */
	uint64_t random;
	unsigned fired;
};

static uint64_t next_random(struct model *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

/* All magnitudes up to beyond the horizon are equally likely. */
static nsec_t random_nsec(struct model *m)
{
	return (nsec_t)(next_random(m) >> (12 + next_random(m) % 50));
}

static void model_arm(struct model *m, size_t i, nsec_t when)
{
	uint64_t due = when <= 0 ? 0 : ((uint64_t)when + TICK - 1) / TICK;

	m->due[i] = due < m->tick ? m->tick - 1 : due;
	m->touched[i] = true;
	wheel_arm(&m->wheel, &m->probes[i].timer, when);
}

static void model_cancel(struct model *m, size_t i)
{
	m->due[i] = UINT64_MAX;
	m->touched[i] = true;
	wheel_cancel(&m->wheel, &m->probes[i].timer);
}

static void model_fire(struct timer *timer, nsec_t now)
{
	struct probe *probe = container_of(timer, struct probe, timer);
	struct model *m = container_of(probe->wheel, struct model, wheel);
	size_t i = (size_t)(probe - m->probes), other = next_random(m) % MODEL_TIMERS;

	assert_true(m->due[i] != UINT64_MAX);
	assert_true(m->due[i] <= (uint64_t)(now / TICK));
	assert_true(m->due[i] >= m->last);
	m->last = m->due[i];
	m->due[i] = UINT64_MAX;
	m->touched[i] = true;
	m->fired++;
	switch (next_random(m) % 8) {
	case 0:
		model_cancel(m, other);
		break;
	case 1:
		model_arm(m, i, now + random_nsec(m));
		break;
	case 2:
		model_arm(m, other, now + random_nsec(m) / 1000);
		break;
	case 3:
		/* A due time in the past: fires in the next run. */
		model_arm(m, i, now - random_nsec(m));
		break;
	}
}

static void model_run(struct model *m, nsec_t now)
{
	uint64_t past[MODEL_TIMERS];

	m->tick = (uint64_t)(now / TICK) + 1;
	m->last = 0;
	memcpy(past, m->due, sizeof(past));
	memset(m->touched, 0, sizeof(m->touched));
	wheel_run(&m->wheel, now);
	for (size_t i = 0; i < MODEL_TIMERS; i++) {
		/* Every due timer fired, unless another function changed it first. */
		assert_true(past[i] >= m->tick || m->touched[i]);
		assert_int_equal(timer_armed(&m->probes[i].timer), m->due[i] != UINT64_MAX);
	}
}

static void model_check(const struct model *m, nsec_t now)
{
	uint64_t first = UINT64_MAX;
	unsigned armed = 0;

	for (size_t i = 0; i < MODEL_TIMERS; i++) {
		armed += m->due[i] != UINT64_MAX;
		if (m->due[i] < first)
			first = m->due[i];
	}
	assert_int_equal(m->wheel.armed, armed);
	if (!armed)
		assert_true(wheel_next(&m->wheel) == NSEC_NEVER);
	else
		assert_true(wheel_next(&m->wheel) <= (nsec_t)first * TICK);
}

static void run_model(uint64_t seed)
{
	static struct model m;
	nsec_t now;

	memset(&m, 0, sizeof(m));
	m.random = seed;
	now = random_nsec(&m);
	m.tick = ((uint64_t)now + TICK - 1) / TICK;
	wheel_init(&m.wheel, now);
	for (size_t i = 0; i < MODEL_TIMERS; i++) {
		probe_init(&m.probes[i], &m.wheel, model_fire);
		m.due[i] = UINT64_MAX;
	}
	for (int step = 0; step < 3000; step++) {
		size_t i = next_random(&m) % MODEL_TIMERS;

		switch (next_random(&m) % 8) {
		case 0:
			model_cancel(&m, i);
			break;
		case 1:
			now += random_nsec(&m) / 100;
			model_run(&m, now);
			break;
		case 2:
			if (wheel_next(&m.wheel) != NSEC_NEVER && wheel_next(&m.wheel) > now)
				now = wheel_next(&m.wheel);
			model_run(&m, now);
			break;
		default:
			model_arm(&m, i, now + random_nsec(&m));
			break;
		}
		model_check(&m, now);
	}
	assert_true(m.fired > 100);
}

static void test_thousands_of_random_timers_agree_with_a_model(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		print_message("seed %llu\n", (unsigned long long)seed);
		run_model(seed * 0x9e3779b97f4a7c15);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_fires_at_its_tick_and_not_before),
	cmocka_unit_test(test_every_level_is_exact_at_its_boundaries),
	cmocka_unit_test(test_past_fires_at_the_next_run),
	cmocka_unit_test(test_far_timer_waits_its_time),
	cmocka_unit_test(test_arming_again_moves_and_never_cancels),
	cmocka_unit_test(test_function_may_cancel_one_due_in_the_same_run),
	cmocka_unit_test(test_function_arming_the_past_does_not_make_a_run_endless),
	cmocka_unit_test(test_function_may_free_its_object),
	cmocka_unit_test(test_thousands_of_random_timers_agree_with_a_model),
};

VMA_TEST_MAIN("wheel", tests, NULL, NULL)
