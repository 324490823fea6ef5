/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of IPv6 senders while it is written.  A reader gets the reverse path of the sender that
 * it asks for, or none, however often the entry goes to another sender with the same state meanwhile.
 */
#include <netinet/in.h>

#include "crew.h"

#include "ring/source6.h"

#define IFINDEX 7
#define BUCKETS 256 /* as in source6.c */
#define SENDERS 5   /* of one bucket, which has room for four: they displace each other */

static uint32_t senders[SENDERS];
static unsigned long found; /* reader */

static struct flow_key key_of(uint32_t number)
{
	return (struct flow_key){
		.remote.w = {htonl(0x20010db8), 0, 0, number},
		.local.w = {htonl(0x20010db8), 0, 0, htonl(1)},
		.proto = IPPROTO_TCP,
	};
}

/* All words of an entry say which sender it is of. */
static void enter(uint32_t number)
{
	struct flow_key key = key_of(number);
	struct source_entry e = {
		.generation = number,
		.state = SOURCE_ACCEPTED | SOURCE_PATH_KNOWN,
		.path = {.nexthop = key.remote,
			 .mtu = number,
			 .metrics = {.window = number, .hoplimit = (uint8_t)number}}};

	source6_enter(IFINDEX, &key, &e);
}

static void look_at(uint32_t number)
{
	struct flow_key key = key_of(number);
	struct source_entry e;

	if (!source6_look_up(IFINDEX, &key, &e))
		return; /* it is not in the table at this moment */
	TEST_CHECK(e.generation == number);
	TEST_CHECK(e.path.mtu == number && e.path.metrics.hoplimit == (uint8_t)number);
	TEST_CHECK(e.path.metrics.window == number);
	TEST_CHECK(addr_eq(&e.path.nexthop, &key.remote));
	found++;
}

static uint32_t bucket_of(uint32_t number)
{
	struct flow_key pair = key_of(number);

	pair.proto = 0;
	return flow_key_hash(&pair) % BUCKETS;
}

static void choose_senders(void)
{
	unsigned n = 0;

	for (uint32_t number = 1; n < SENDERS; number++) {
		if (bucket_of(number) == bucket_of(1))
			senders[n++] = number;
	}
}

static void work(struct worker *worker)
{
	do {
		for (unsigned i = 0; i < 100; i++) {
			if (worker->number == 0)
				enter(senders[i % SENDERS]);
			else
				look_at(senders[i % SENDERS]);
		}
	} while (crew_goes_on(worker->crew));
}

static void test_a_path_is_that_of_its_sender(void **state)
{
	(void)state;
	choose_senders();
	for (unsigned i = 0; i < SENDERS; i++)
		enter(senders[i]);
	crew_run(HOLD_SPIN, 2, work);
	assert_true(found > 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_path_is_that_of_its_sender),
};

VMA_TEST_MAIN("source6", tests, NULL, NULL)
