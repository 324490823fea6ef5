/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last packet of a keeper comes back from another thread while the part of a socket whose home is not local_ring()
 * lets the keeper go: it ends once, and its memory is freed once.
 */
#include <pthread.h>

#include "conn_fixture.h"
#include "sock/local/local_keep.h"

#define ROUNDS 20000u

static uint8_t bytes[16];
static struct pkt *pkt;
static pthread_barrier_t both;

static void ignore_first(struct local_keeper *keeper, uint64_t position)
{
	(void)keeper;
	(void)position;
}

static void ignore_returned(struct inet_sock *of)
{
	(void)of;
}

static const struct local_keeper_ops ops = {.first = ignore_first, .returned = ignore_returned};

static void *give_back(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&both);
		pkt_free(pkt);
		pthread_barrier_wait(&both);
	}
	return NULL;
}

static struct local_side side;

/* holder of home */
static struct local_keeper *keeper_with_packet(struct ring *home)
{
	struct local_keeper *keeper;

	assert_true(ring_hold_cold(home));
	keeper = local_keeper_new(&ops, &so->sk);
	assert_non_null(keeper);
	keeper->side = &side;
	pkt = local_keep(keeper, 1, bytes, sizeof(bytes));
	assert_non_null(pkt);
	return keeper;
}

static void test_it_ends_once(void **state)
{
	pthread_t freer;

	(void)state;
	so = sock_alloc(SOCK_TYPE_UDP);
	assert_non_null(so);
	sock_set_home(so, rings_nowhere());
	pthread_barrier_init(&both, NULL, 2);
	assert_int_equal(pthread_create(&freer, NULL, give_back, NULL), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct local_keeper *keeper = keeper_with_packet(rings_nowhere());

		side.gone = 0;
		pthread_barrier_wait(&both);
		local_keeper_leave(keeper);
		ring_release_cold(rings_nowhere());
		pthread_barrier_wait(&both);
		ring_try_posted(); /* items that were sent on */
		assert_int_equal(side.gone, 1);
	}
	pthread_join(freer, NULL);
	pthread_barrier_destroy(&both);
	sock_free(so);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_ends_once),
};

VMA_TEST_MAIN("local_keep_race", tests, setup, teardown)
