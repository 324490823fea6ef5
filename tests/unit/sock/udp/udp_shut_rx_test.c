/* SPDX-License-Identifier: BSD-2-Clause */
/* SO_VMA_SHUTDOWN_RX: what has arrived can be read, and nothing more arrives, by any way. */
#include "mellanox/vma_extra.h"
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

static struct tsock ts, peer;
static unsigned ours;

static int begin(void **state)
{
	ours = world_port();
	ts = world_udp(0, ours);
	peer = world_udp(1, world_port());
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	tsock_close(&peer);
	return 0;
}

/* The answer about a new sender may come by the internal thread, which then delivers or drops. */
static uint64_t drops(void)
{
	struct ring *ring;
	uint64_t n;

	assert_true(sock_hold(ts.ref, &ring));
	ring_poll(ring);
	n = tsock_inet(&ts)->udp.dropped;
	sock_release(ring);
	return n;
}

static void shut_rx(void)
{
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0), 0);
}

static void expect_nothing(void)
{
	char byte;

	world_settle();
	assert_int_equal(tsock_recv(&ts, &byte, 1, 0), -EAGAIN);
}

static void test_what_has_arrived_stays(void **state)
{
	uint64_t dropped;

	world_send(&peer, 0, ours, "before");
	assert_true(NET_WAIT((world_settle(), sock_events(ts.ref.sk) & EPOLLIN), WORLD_WAIT));
	shut_rx();
	dropped = drops();
	world_send(&peer, 0, ours, "after");
	assert_true(NET_WAIT(drops() > dropped, WORLD_WAIT));
	world_expect(&ts, "before");
	expect_nothing();
}

/* Its size is that of the option no more. */
static void test_a_larger_buffer_changes_nothing(void **state)
{
	uint64_t dropped = drops();

	shut_rx();
	assert_int_equal(tsock_set_int(&ts, SOL_SOCKET, SO_RCVBUF, 1 << 20), 0);
	world_send(&peer, 0, ours, "after");
	assert_true(NET_WAIT(drops() > dropped, WORLD_WAIT));
	expect_nothing();
}

/* What the kernel receives: here by the loop-back interface. */
static void test_the_kernel_drops(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct tsock any = tsock_udp();
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char byte;

	assert_int_equal(tsock_bind(&any, INADDR_ANY, world_port()), 0);
	to.sin_port = tsock_name(&any).sin_port;
	assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	assert_true(NET_WAIT(tsock_recv(&any, &byte, 1, 0) == 1, WORLD_WAIT));
	assert_int_equal(tsock_set(&any, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0), 0);
	assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	/* The kernel has delivered, or dropped, it when sendto() returns. */
	assert_int_equal(sys_recvfrom(any.fd, &byte, 1, MSG_DONTWAIT, NULL, NULL), -EAGAIN);
	sys_close(fd);
	tsock_close(&any);
}

/* It still sends. */
static void test_sending_goes_on(void **state)
{
	unsigned theirs = ntohs(tsock_name(&peer).sin_port);

	shut_rx();
	world_send(&ts, 1, theirs, "hello");
	world_expect(&peer, "hello");
}

/* Of a connection, acknowledgements arrive, too. */
static void test_connections_refuse(void **state)
{
	struct tsock tcp = tsock_tcp();

	assert_int_equal(tsock_set(&tcp, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0), -EOPNOTSUPP);
	tsock_close(&tcp);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_what_has_arrived_stays, begin, end),
	cmocka_unit_test_setup_teardown(test_a_larger_buffer_changes_nothing, begin, end),
	cmocka_unit_test_setup_teardown(test_the_kernel_drops, begin, end),
	cmocka_unit_test_setup_teardown(test_sending_goes_on, begin, end),
	cmocka_unit_test_setup_teardown(test_connections_refuse, begin, end),
};

VMA_TEST_MAIN("udp_shut_rx", tests, world_start, world_finish)
