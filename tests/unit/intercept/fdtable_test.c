/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/fdtable.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/vma_test.h"

static struct sock socks[4];

static struct sock_ref ref_of(int i, uint32_t gen, int twin)
{
	socks[i].twin = twin;
	return (struct sock_ref){&socks[i], gen};
}

static void assert_names(int fd, struct sock_ref ref)
{
	struct sock_ref found = fd_get(fd);

	assert_ptr_equal(found.sk, ref.sk);
	if (ref.sk)
		assert_int_equal(found.gen, ref.gen);
}

static const struct sock_ref nothing;

static int reset(void **state)
{
	fd_forget_all();
	return 0;
}

static void test_an_entry_is_found_until_it_is_taken(void **state)
{
	struct sock_ref ref = ref_of(0, 7, 5);
	struct fd_taken taken;

	assert_true(fd_install(5, ref));
	assert_names(5, ref);
	assert_names(4, nothing);
	assert_names(6, nothing);
	taken = fd_take(5);
	assert_ptr_equal(taken.ref.sk, ref.sk);
	assert_int_equal(taken.ref.gen, 7);
	assert_int_equal(taken.other, -1);
	assert_names(5, nothing);
	assert_null(fd_take(5).ref.sk);
}

static void test_any_descriptor_number_can_be_looked_up(void **state)
{
	static const int fds[] = {-1, INT_MIN, INT_MAX, 0, 65535, 65536, 1 << 20, 1 << 30};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		assert_names(fds[i], nothing);
		assert_null(fd_take(fds[i]).ref.sk);
	}
}

static long resident_pages(void)
{
	long size = 0, resident = -1;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &size, &resident), 2);
	fclose(f);
	return resident;
}

static void test_high_numbers_cost_a_page_each_not_more(void **state)
{
	static const int fds[] = {3, 70000, 1 << 20, (1 << 30) - 1, INT_MAX - 1};
	long before = resident_pages();

	for (int i = 0; i < 5; i++) {
		assert_true(fd_install(fds[i], ref_of(0, 1, 3)));
		assert_names(fds[i], ref_of(0, 1, 3));
	}
	/* Memory for page tables and for fscanf(), too. */
	assert_in_range(resident_pages() - before + 64, 0, 128);
	assert_int_equal(fd_next(4), 70000);
	for (int i = 0; i < 5; i++)
		assert_ptr_equal(fd_take(fds[i]).ref.sk, &socks[0]);
}

static void test_copies_name_one_socket_until_the_last_is_taken(void **state)
{
	struct sock_ref ref = ref_of(0, 3, 10), alone = ref_of(1, 5, 20);
	/*
	 * Takes three copies in every order: each take returns a remaining copy, the last one
	 * none.
	 */
	static const int orders[][3] = {{10, 11, 12}, {10, 12, 11}, {11, 10, 12},
					{11, 12, 10}, {12, 10, 11}, {12, 11, 10}};

	assert_true(fd_install(20, alone));
	for (int i = 0; i < 6; i++) {
		assert_true(fd_install(10, ref));
		assert_true(fd_install_dup(11, 10, ref));
		assert_true(fd_install_dup(12, i & 1 ? 10 : 11, ref));
		for (int n = 0; n < 3; n++) {
			struct fd_taken taken = fd_take(orders[i][n]);

			assert_ptr_equal(taken.ref.sk, ref.sk);
			if (n == 2)
				assert_int_equal(taken.other, -1);
			else
				assert_names(taken.other, ref);
		}
	}
	assert_names(20, alone);
}

static void test_a_copy_of_a_replaced_socket_is_refused(void **state)
{
	struct sock_ref ref = ref_of(0, 3, 10), newer = ref_of(0, 5, 10);

	assert_false(fd_install_dup(11, 10, ref));
	assert_true(fd_install(10, newer));
	assert_false(fd_install_dup(11, 10, ref));
	assert_names(11, nothing);
}

static void test_a_socket_that_falls_back_loses_all_descriptors(void **state)
{
	struct sock_ref ref = ref_of(0, 3, 10), other = ref_of(1, 3, 30);

	assert_true(fd_install(10, ref));
	assert_true(fd_install_dup(11, 10, ref));
	assert_true(fd_install_dup(70000, 11, ref));
	assert_true(fd_install(30, other));
	fd_left(ref.sk);
	assert_names(10, nothing);
	assert_names(11, nothing);
	assert_names(70000, nothing);
	assert_names(30, other);
	fd_left(ref.sk);
	socks[0].twin = -1;
	fd_left(ref.sk);
	assert_names(30, other);
}

static void test_entries_are_enumerated_in_order(void **state)
{
	struct sock_ref ref = ref_of(0, 1, 2);

	assert_int_equal(fd_next(0), -1);
	fd_install(200000, ref);
	fd_install(2, ref);
	fd_install(65535, ref);
	assert_int_equal(fd_next(-5), 2);
	assert_int_equal(fd_next(3), 65535);
	assert_int_equal(fd_next(65536), 200000);
	assert_int_equal(fd_next(200001), -1);
	fd_forget_all();
	assert_int_equal(fd_next(0), -1);
}

/*
 * Readers run beside a writer that uses two sockets in turns at one descriptor. Socket 0 has
 * the generations 1, 5, 9..., socket 1 has 3, 7, 11..., so a mixed entry is recognised.
 */
static int stop;

static void *reader(void *arg)
{
	uint32_t newest = 0;
	long found = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct sock_ref ref = fd_get(10);

		if (!ref.sk)
			continue;
		found++;
		if ((ref.gen & 3) != (ref.sk == &socks[0] ? 1 : 3))
			return (void *)-1;
		/* A delayed reader may see generations that are about one round old. */
		if (ref.gen + 64 < newest)
			newest = ref.gen;
		else if (ref.gen > newest)
			newest = ref.gen;
	}
	return (void *)found;
}

static void test_readers_never_see_a_mixture(void **state)
{
	pthread_t threads[3];

	stop = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, NULL), 0);
	for (uint32_t gen = 1; gen < 200000; gen += 2) {
		fd_install(10, ref_of(gen & 2 ? 1 : 0, gen, 10));
		fd_take(10);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++) {
		void *rc;

		pthread_join(threads[i], &rc);
		assert_true((long)rc >= 0);
	}
}

static void *taker(void *arg)
{
	long won = 0;

	for (int fd = 0; fd < 5000; fd++)
		won += fd_take(fd).ref.sk != NULL;
	return (void *)won;
}

static void test_one_of_several_racing_takers_wins(void **state)
{
	pthread_t threads[4];
	long won = 0;

	for (int fd = 0; fd < 5000; fd++)
		fd_install(fd, ref_of(0, 1, 0));
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, taker, NULL), 0);
	for (int i = 0; i < 4; i++) {
		void *n;

		pthread_join(threads[i], &n);
		won += (long)n;
	}
	assert_int_equal(won, 5000);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_an_entry_is_found_until_it_is_taken, reset),
	cmocka_unit_test_setup(test_any_descriptor_number_can_be_looked_up, reset),
	cmocka_unit_test_setup(test_high_numbers_cost_a_page_each_not_more, reset),
	cmocka_unit_test_setup(test_copies_name_one_socket_until_the_last_is_taken, reset),
	cmocka_unit_test_setup(test_a_copy_of_a_replaced_socket_is_refused, reset),
	cmocka_unit_test_setup(test_a_socket_that_falls_back_loses_all_descriptors, reset),
	cmocka_unit_test_setup(test_entries_are_enumerated_in_order, reset),
	cmocka_unit_test_setup(test_readers_never_see_a_mixture, reset),
	cmocka_unit_test_setup(test_one_of_several_racing_takers_wins, reset),
};

VMA_TEST_MAIN("fdtable", tests, NULL, NULL)
