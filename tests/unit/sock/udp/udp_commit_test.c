/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that the program has written into frames (vma_commit()) count as others do. */
#include <vma/vma.h>

#include "sock/core/extra/room.h"
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

static struct tsock ts, peer;
static struct sockaddr_in there;
static struct inet_sock *so;
/* Not on the stack, which the address sanitizer does not align as its type demands. */
static struct stats_sock stats, *kept;

/* The socket counts here from now on; NULL: no more. */
static void count_in(struct stats_sock *to)
{
	struct ring *ring;

	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	so->udp.stats = to;
	ring_release_cold(ring);
}

static int begin(void **state)
{
	there = world_udp_pair(&ts, &peer);
	so = tsock_inet(&ts);
	memset(&stats, 0, sizeof(stats));
	kept = so->udp.stats;
	count_in(&stats);
	return 0;
}

static int end(void **state)
{
	count_in(kept);
	tsock_close(&ts);
	tsock_close(&peer);
	return 0;
}

/* A message in its frame leaves in it. */
static void commit(const char *text, const struct sockaddr_in *to)
{
	struct vma_room_t room;
	struct room *claimed;
	size_t max, len = strlen(text);

	assert_int_equal(room_reserve(ts.ref, len, &room, &max), 0);
	assert_int_equal(room.in_frame, 1);
	memcpy(room.data, text, len);
	claimed = room_claim(room.id, ts.ref, false);
	assert_non_null(claimed);
	assert_int_equal(room_commit(claimed, ts.ref, len, (const struct sockaddr *)to,
				     to ? sizeof(*to) : 0),
			 len);
	world_expect(&peer, text);
}

static void test_it_is_counted(void **state)
{
	commit("abc", NULL);
	assert_int_equal(stats.tx_packets, 1);
	assert_int_equal(stats.tx_bytes, 3);
	commit("seven..", NULL);
	assert_int_equal(stats.tx_packets, 2);
	assert_int_equal(stats.tx_bytes, 10);
}

static void test_to_an_address_as_well(void **state)
{
	struct sockaddr_in none = {.sin_family = AF_UNSPEC};

	assert_int_equal(tsock_connect(&ts, &none), 0);
	assert_int_equal(tsock_sendto(&ts, "found", 5, &there), 5);
	world_expect(&peer, "found");
	memset(&stats, 0, sizeof(stats));
	commit("to", &there);
	assert_int_equal(stats.tx_packets, 1);
	assert_int_equal(stats.tx_bytes, 2);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_it_is_counted, begin, end),
	cmocka_unit_test_setup_teardown(test_to_an_address_as_well, begin, end),
};

VMA_TEST_MAIN("udp_commit", tests, world_start, world_finish)
