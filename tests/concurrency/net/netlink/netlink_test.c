/* SPDX-License-Identifier: BSD-2-Clause */
/* Lock-free readers while the descriptors of netlink are opened and closed. */
#include "net/netlink/netlink.h"

#include <pthread.h>

#include "vma_test.h"

#define ROUNDS 200
#define READERS 2

static const struct netlink_events no_events;
static int stop; /* any, atomic */
static unsigned open_seen[READERS], closed_seen[READERS];

static void *read_fd(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (netlink_fd() >= 0)
			open_seen[i]++;
		else
			closed_seen[i]++;
	}
	return NULL;
}

static void test_the_descriptor_is_read_while_it_changes(void **state)
{
	pthread_t readers[READERS];

	(void)state;
	for (uintptr_t i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, read_fd, (void *)i), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		assert_int_equal(netlink_fd(), -1);
		assert_int_equal(netlink_open(&no_events), 0);
		assert_true(netlink_fd() >= 0);
		netlink_close();
	}
	assert_int_equal(netlink_fd(), -1);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(readers[i], NULL);
		print_message("reader %u: open %u times, closed %u times\n", i, open_seen[i],
			      closed_seen[i]);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_descriptor_is_read_while_it_changes),
};

VMA_TEST_MAIN("netlink", tests, NULL, NULL)
