/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of senders while it is written: who reads a sender's way gets that sender's, or
 * none, however often its place goes to another sender with the same state meanwhile.
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

/* The way of each is its own address. */
static void enter_all(void)
{
	for (unsigned i = 0; i < SENDERS; i++) {
		struct flow_key key = key_of(senders[i]);
		struct source_entry e = {.generation = netlink_generation(),
					 .state = SOURCE_ACCEPTED | SOURCE_WAY_KNOWN,
					 .way = {.nexthop = addr_v4(senders[i]),
						 .mtu = senders[i]}};

		source_enter(IFINDEX, source_pair(&key), &e);
	}
}

static void look_at(uint32_t remote)
{
	static struct ring ring = {.ifindex = IFINDEX}; /* one reader; aligned */
	struct flow_key key = key_of(remote);
	struct source_way way = {.here = true};
	enum drop reason;

	CREW_CHECK(source_check(&ring, &key, NULL, &way, &reason) == SOURCE_PASS);
	if (!way.mtu)
		return; /* it has no place at this moment */
	CREW_CHECK(way.mtu == remote);
	CREW_CHECK(addr_v4_of(&way.nexthop) == remote);
	found++;
}

static void work(struct hand *hand)
{
	while (crew_goes_on(hand->crew)) {
		for (unsigned i = 0; i < 100; i++) {
			if (hand->number == 0)
				enter_all();
			else
				look_at(senders[i % SENDERS]);
		}
	}
}

static void test_a_way_is_the_sender_s_own(void **state)
{
	(void)state;
	choose_senders();
	enter_all();
	crew_run(HOLD_SPIN, 2, work);
	assert_true(found > 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_way_is_the_sender_s_own),
};

VMA_TEST_MAIN("source", tests, NULL, NULL)
