/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of senders while it is written.  A reader gets the reverse path of the sender that it
 * asks for, or none, however often the entry goes to another sender with the same state meanwhile.
 */
#include <netinet/in.h>

#include "crew.h"

#include "net/netlink/netlink.h"
#include "ring/source.h"

#define IFINDEX 7
#define SENDERS (SOURCE_WAYS + 1) /* of one bucket: they displace each other */
#define LOCAL 0x0100000au

static uint32_t senders[SENDERS]; /* remote addresses */
static unsigned long found;	  /* reader */

static struct flow_key key_of(uint32_t remote)
{
	struct flow_key key;

	memset(&key, 0, sizeof(key));
	key.local = addr_v4(LOCAL);
	key.remote = addr_v4(remote);
	key.proto = IPPROTO_TCP;
	return key;
}

static void choose_senders(void)
{
	struct flow_key first = key_of(1);
	const struct source_bucket *bucket = source_bucket(source_pair(&first));
	unsigned n = 0;

	for (uint32_t remote = 1; n < SENDERS; remote++) {
		struct flow_key key = key_of(remote);

		if (source_bucket(source_pair(&key)) == bucket)
			senders[n++] = remote;
	}
}

/* The next hop of each sender is its own address. */
static void enter_all(void)
{
	for (unsigned i = 0; i < SENDERS; i++) {
		struct flow_key key = key_of(senders[i]);
		struct source_entry e = {.generation = netlink_generation(),
					 .state = SOURCE_ACCEPTED | SOURCE_PATH_KNOWN,
					 .path = {.nexthop = addr_v4(senders[i]),
						  .mtu = senders[i],
						  .metrics = {.hoplimit = (uint8_t)senders[i],
							      .window = senders[i]}}};

		source_enter(IFINDEX, source_pair(&key), &e);
	}
}

static void look_at(uint32_t remote)
{
	static struct ring ring = {.ifindex = IFINDEX}; /* a single reader; aligned */
	struct flow_key key = key_of(remote);
	struct source_path path = {.here = true};
	enum drop reason;

	TEST_CHECK(source_check(&ring, &key, NULL, &path, &reason) == SOURCE_PASS);
	if (!path.mtu)
		return; /* the entry is not in the table at this moment */
	TEST_CHECK(path.mtu == remote && path.metrics.hoplimit == (uint8_t)remote);
	TEST_CHECK(path.metrics.window == remote);
	TEST_CHECK(addr_v4_of(&path.nexthop) == remote);
	found++;
}

static void work(struct worker *worker)
{
	do {
		for (unsigned i = 0; i < 100; i++) {
			if (worker->number == 0)
				enter_all();
			else
				look_at(senders[i % SENDERS]);
		}
	} while (crew_goes_on(worker->crew));
}

static void test_a_path_is_that_of_its_sender(void **state)
{
	(void)state;
	choose_senders();
	enter_all();
	crew_run(HOLD_SPIN, 2, work);
	assert_true(found > 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_path_is_that_of_its_sender),
};

VMA_TEST_MAIN("source", tests, NULL, NULL)
