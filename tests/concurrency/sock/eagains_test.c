/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMA_TX_NONBLOCKED_EAGAINS: a non-blocking UDP send that finds no free frame.
 */
#include <errno.h>

#include "duo.h"
#include "vma_test.h"

#include "ring/ring.h"

#define FRAMES_MAX 100000

/* Takes every free frame of the ring and returns how many. */
static unsigned take_frames(struct ring *ring, struct pkt **frames)
{
	unsigned n = 0;

	NET_CHECK(ring_hold(ring, ring_mode));
	while (n < FRAMES_MAX && (frames[n] = ring_tx_get(ring)))
		n++;
	ring_release(ring, ring_mode);
	return n;
}

static void give_back(struct ring *ring, struct pkt **frames, unsigned n)
{
	NET_CHECK(ring_hold(ring, ring_mode));
	while (n > 0)
		pkt_free(frames[--n]);
	ring_release(ring, ring_mode);
}

static void case_of(bool eagains)
{
	static struct pkt *frames[FRAMES_MAX];
	struct duo duo;
	struct ring *ring;
	unsigned n;

	duo_begin();
	params.tx_nonblocked_eagains = eagains;
	duo_open(&duo, DUO_UDP, NULL);
	duo_talk(&duo, 3);
	ring = tsock_home(&duo.end[0]);
	n = take_frames(ring, frames);
	NET_CHECK(n > 0 && n < FRAMES_MAX);
	NET_CHECK_EQ(tsock_send(&duo.end[0], "x", 1, MSG_DONTWAIT), eagains ? -EAGAIN : 1);
	give_back(ring, frames, n);
	duo_talk(&duo, 3); /* the datagram itself was dropped */
	duo_close(&duo);
	duo_end(NULL);
}

static void without(void *arg)
{
	case_of(false);
}

static void with(void *arg)
{
	case_of(true);
}

static void test_without_it_the_send_succeeds(void **state)
{
	assert_int_equal(loop_net_run("without", without, NULL, 30), 0);
}

static void test_with_it_the_send_fails(void **state)
{
	assert_int_equal(loop_net_run("with", with, NULL, 30), 0);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_without_it_the_send_succeeds),
	cmocka_unit_test(test_with_it_the_send_fails),
};

VMA_TEST_MAIN("eagains", tests, enter, NULL)
