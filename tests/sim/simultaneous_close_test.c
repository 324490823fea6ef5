/* SPDX-License-Identifier: BSD-2-Clause */
/* Both sides close at once: RFC 9293 section 3.6, figure 13. */
#include <errno.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static void test_both_fins_cross(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_run(sim, SEC);
	sim_close(sim, A);
	sim_close(sim, B);
	assert_int_equal(sim_state(sim, A), TCP_FIN_WAIT_1);
	sim_run(sim, 6 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_CLOSING);
	assert_int_equal(sim_state(sim, B), TCP_CLOSING);
	sim_run(sim, 10 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_TIME_WAIT);
	assert_int_equal(sim_state(sim, B), TCP_TIME_WAIT);
	sim_run(sim, 61 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, 0);
	assert_int_equal(sim->host[B].error, 0);
	sim_end(sim);
}

static bool lose_some(struct sim *sim, const struct sim_segment *seg)
{
	return sim->filter_arg > 0 && sim->filter_arg-- > 0;
}

static void test_crossing_fins_survive_losses(void **state)
{
	for (int lost = 1; lost <= 6; lost++) {
		struct sim_params params = sim_defaults();
		struct sim *sim = sim_create(&params);

		sim_establish(sim);
		sim->filter = lose_some;
		sim->filter_arg = lost;
		sim_send(sim, A, 2000, 0);
		sim_send(sim, B, 10, 0);
		sim_shutdown(sim, A);
		sim_shutdown(sim, B);
		sim_run(sim, 10 * SEC);
		assert_int_equal(sim_drain(sim, A), 10);
		assert_int_equal(sim_drain(sim, B), 2000);
		assert_int_equal(sim->host[A].eof && sim->host[B].eof, true);
		sim_end(sim);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_both_fins_cross),
	cmocka_unit_test(test_crossing_fins_survive_losses),
};

VMA_TEST_MAIN("simultaneous_close", tests, NULL, NULL)
