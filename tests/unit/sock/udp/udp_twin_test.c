/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel has for a datagram socket, while frames keep arriving: VMA_RX_UDP_POLL_OS_RATIO. */
#include <vma/vma.h>

#include "base/param.h"
#include "sock/core/access.h"
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

#define RATIO 50

static struct tsock ts;

static int begin(void **state)
{
	params.rx_udp_poll_os_ratio = RATIO;
	ts = tsock_udp();
	assert_int_equal(tsock_bind(&ts, INADDR_ANY, world_port()), 0);
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	return 0;
}

static void by_kernel(char byte)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = tsock_name(&ts).sin_port};
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(sendto(fd, &byte, 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	sys_close(fd);
}

/* As udp_input(): the queue has one more. */
static void by_frame(void)
{
	struct ring *ring;
	struct pkt *pkt = pkt_blank(ETH_HDR + IP4_HDR + UDP_HDR + 1);

	assert_non_null(pkt);
	memset(pkt->frame, 0, ETH_HDR + IP4_HDR + UDP_HDR + 1);
	pkt->frame_len = ETH_HDR + IP4_HDR + UDP_HDR + 1;
	pkt->l3 = ETH_HDR;
	pkt->l4 = ETH_HDR + IP4_HDR;
	pkt->off = ETH_HDR + IP4_HDR + UDP_HDR;
	pkt->len = 1;
	pkt->frame[pkt->off] = 'f';
	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	assert_int_equal(udp_input(tsock_inet(&ts), ring, pkt, false), DROP_NONE);
	ring_release_cold(ring);
}

/* The queue is never empty.  The number of the receive that got the kernel's. */
static unsigned receives_until(unsigned most)
{
	char byte = 0;
	unsigned n = 0;

	by_frame();
	while (byte != 'k' && n < most) {
		by_frame();
		assert_int_equal(tsock_recv(&ts, &byte, 1, 0), 1);
		n++;
	}
	return n;
}

static void test_the_kernels_is_read_although_the_queue_is_never_empty(void **state)
{
	by_kernel('k');
	assert_in_range(receives_until(4 * RATIO), 1, RATIO);
	by_kernel('k');
	assert_int_equal(receives_until(4 * RATIO), RATIO);
}

/* vma_recv_batch() of one message: its turns are those of recv(). */
static void test_batches_read_it_too(void **state)
{
	char byte = 0;
	struct vma_message_t m;
	unsigned done, n = 0;

	by_kernel('k');
	while (byte != 'k' && n < 4 * RATIO) {
		by_frame();
		m = (struct vma_message_t){.data = &byte, .size = 1};
		assert_int_equal(udp_recv_batch(ts.ref, &m, 1, MSG_DONTWAIT, &done), 0);
		assert_int_equal(done, 1);
		assert_int_equal(m.done, 1);
		n++;
	}
	assert_in_range(n, 1, RATIO);
}

static void test_nothing_of_the_queue_is_lost(void **state)
{
	char byte = 0;

	for (unsigned i = 0; i < 3 * RATIO; i++)
		by_frame();
	for (unsigned i = 0; i < 3 * RATIO; i++) {
		assert_int_equal(tsock_recv(&ts, &byte, 1, 0), 1);
		assert_int_equal(byte, 'f');
	}
	assert_int_equal(tsock_recv(&ts, &byte, 1, 0), -EAGAIN);
}

/* Each receive asks the twin, and then looks at the queue. */
static void test_ratio_1(void **state)
{
	char byte = 0;

	params.rx_udp_poll_os_ratio = 1;
	sock_access_init(tsock_inet(&ts));
	for (int i = 0; i < 3; i++) {
		by_frame();
		assert_int_equal(tsock_recv(&ts, &byte, 1, MSG_DONTWAIT), 1);
		assert_int_equal(byte, 'f');
		assert_int_equal(tsock_recv(&ts, &byte, 1, MSG_DONTWAIT), -EAGAIN);
		by_frame();
		by_kernel('k');
		assert_int_equal(tsock_recv(&ts, &byte, 1, MSG_DONTWAIT), 1);
		assert_int_equal(byte, 'k');
		assert_int_equal(tsock_recv(&ts, &byte, 1, MSG_DONTWAIT), 1);
		assert_int_equal(byte, 'f');
	}
}

static void test_ratio_0(void **state)
{
	params.rx_udp_poll_os_ratio = 0;
	assert_int_equal(tsock_set_int(&ts, SOL_SOCKET, SO_REUSEADDR, 0), 0);
	by_kernel('k');
	/* It was bound with another ratio, which counts once more. */
	(void)receives_until(RATIO);
	assert_int_equal(receives_until(6 * RATIO), 6 * RATIO);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_the_kernels_is_read_although_the_queue_is_never_empty,
					begin, end),
	cmocka_unit_test_setup_teardown(test_batches_read_it_too, begin, end),
	cmocka_unit_test_setup_teardown(test_nothing_of_the_queue_is_lost, begin, end),
	cmocka_unit_test_setup_teardown(test_ratio_1, begin, end),
	cmocka_unit_test_setup_teardown(test_ratio_0, begin, end),
};

VMA_TEST_MAIN("udp_twin", tests, world_start, world_finish)
