/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the functions of the extra API refuse, each by its error; and the options that the twin does not
 * have.
 */
#include "sock/core/extra/sock_extra.h"

#include <sys/mman.h>

#include "sock/core/extra/direct.h"
#include "tests/unit/sock/world.h"

#define PAGE 4096

static struct tsock ts;
static unsigned port;

static int bound(void **state)
{
	port = world_port();
	ts = world_udp(0, port);
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	return 0;
}

static int get(struct tsock *of, int name, void *val, socklen_t *len)
{
	return sock_ops_of(of->ref.sk)->getsockopt(of->ref, SOL_SOCKET, name, val, len);
}

static int set_tag(uint32_t tag)
{
	return tsock_set(&ts, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, sizeof(tag));
}

static int tx_ring(const struct sockaddr_in *to)
{
	return sock_tx_ring_number(ts.ref, (const struct sockaddr *)to, sizeof(*to));
}

/* ---- sockets that are not ready --------------------------------------------------------- */

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec *iov,
					   struct vma_info_t *info, void *context)
{
	return VMA_PACKET_RECV;
}

static void test_without_a_connection(void **state)
{
	struct tsock tcp = tsock_tcp(), listener = world_listener(0, world_port(), 1);
	struct sockaddr_in to = world_addr(1, 9);
	uint8_t header[SOCK_HEADERS_MAX];

	assert_int_equal(sock_headers(ts.ref, header), -ENOTCONN);
	assert_int_equal(sock_headers(tcp.ref, header), -ENOTCONN);
	assert_int_equal(sock_headers(listener.ref, header), -ENOTCONN);
	/* It is for a connection that is yet to come; a listener's is for nothing. */
	assert_int_equal(sock_set_callback(tcp.ref, tcp.fd, callback, NULL), 0);
	assert_int_equal(sock_set_callback(tcp.ref, tcp.fd, NULL, NULL), 0);
	assert_int_equal(sock_set_callback(listener.ref, listener.fd, callback, NULL), 0);
	assert_int_equal(sock_tx_ring_number(tcp.ref, (struct sockaddr *)&to, sizeof(to)), -ENOSYS);
	assert_int_equal(sock_tx_ring_number(listener.ref, (struct sockaddr *)&to, sizeof(to)),
			 -ENOSYS);
	tsock_close(&tcp);
	tsock_close(&listener);
}

static void test_the_ring_to_an_address(void **state)
{
	struct sockaddr_in to = world_addr(1, 9), here = to;

	assert_int_equal(tx_ring(&to), tsock_home(&ts)->id);
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(tx_ring(&here), -ENODATA);
	assert_int_equal(sock_tx_ring_number(ts.ref, (struct sockaddr *)&to, 3), -EINVAL);
	to.sin_family = AF_UNIX;
	assert_true(tx_ring(&to) < 0);
}

/* The twin is asked now and then. */
static ssize_t recv_zcopy(struct tsock *of, struct sock_zcopy *zcopy)
{
	ssize_t n = -EAGAIN;

	assert_true(NET_WAIT((n = sock_recv_zcopy(of->ref, zcopy, MSG_DONTWAIT)) != -EAGAIN,
			     WORLD_WAIT));
	return n;
}

/* What the kernel has received can only be copied. */
static void test_zcopy_by_force(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct tsock any = tsock_udp();
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char buf[128];
	struct iovec iov = {buf, sizeof(buf)};
	struct sock_zcopy zcopy = {.msg = {.msg_iov = &iov, .msg_iovlen = 1}, .force = true};

	assert_int_equal(tsock_bind(&any, INADDR_ANY, world_port()), 0);
	to.sin_port = tsock_name(&any).sin_port;
	assert_int_equal(sendto(fd, "hello", 5, 0, (struct sockaddr *)&to, sizeof(to)), 5);
	assert_int_equal(recv_zcopy(&any, &zcopy), -EIO);
	assert_int_equal(recv_zcopy(&any, &zcopy), -EIO); /* it stays */
	zcopy.force = false;
	assert_int_equal(recv_zcopy(&any, &zcopy), 5);
	assert_false(zcopy.done);
	assert_memory_equal(buf, "hello", 5);
	sys_close(fd);
	tsock_close(&any);
}

static void test_a_closed_socket(void **state)
{
	struct sockaddr_in to = world_addr(1, 9);
	struct sock_ref old = ts.ref;
	uint8_t header[SOCK_HEADERS_MAX];
	uint32_t tag = 5;
	socklen_t len = sizeof(tag);

	tsock_close(&ts);
	assert_int_equal(sock_set_callback(old, 3, callback, NULL), -EBADF);
	assert_int_equal(sock_headers(old, header), -EBADF);
	assert_int_equal(sock_tx_ring_number(old, (struct sockaddr *)&to, sizeof(to)), -EBADF);
	assert_int_equal(old.sk->ops->setsockopt(old, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, len),
			 -EBADF);
	assert_int_equal(old.sk->ops->getsockopt(old, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, &len),
			 -EBADF);
	ts = world_udp(0, port);
}

/* ---- rules ------------------------------------------------------------------------------- */

static void test_lines_that_are_no_rule(void **state)
{
	static const char *const lines[] = {
		"",
		"# a comment",
		"use os",
		"use nothing udp_sender *:*",
		"application-id * *",
		"interface eth0 deny",
		"interface deny eth0",
		"use os udp_sender *:* and more",
	};
	char long_line[8192], *last;

	/* The signals of a fault are blocked, as everywhere under the control lock. */
	last = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(last, MAP_FAILED);
	assert_int_equal(mprotect(last + PAGE, PAGE, PROT_NONE), 0);
	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (sock_add_rule(lines[i]) != -EINVAL)
			fail_msg("\"%s\" is taken", lines[i]);
	}
	memset(long_line, ' ', sizeof(long_line));
	assert_int_equal(sock_add_rule(long_line), -EINVAL);
	assert_int_equal(sock_add_rule(NULL), -EFAULT);
	assert_int_equal(sock_add_rule(WORLD_BAD), -EFAULT);
	assert_int_equal(sock_add_rule("use vma udp_sender *:9"), 0);
	/* A line at the end of its page. */
	strcpy(last + PAGE - 10, "log x yyy");
	assert_int_equal(sock_add_rule(last + PAGE - 10), -EINVAL);
	memcpy(last + PAGE - 22, "use vma udp_sender *:9", 22);
	assert_int_equal(sock_add_rule(last + PAGE - 22), -EFAULT); /* it has no end */
	memcpy(last + PAGE - 23, "use vma udp_sender *:9\n", 23);
	assert_int_equal(sock_add_rule(last + PAGE - 23), 0);
	munmap(last, 2 * PAGE);
}

/* ---- in a signal handler that interrupted a holder ----------------------------------------- */

static void test_no_lock_is_taken_while_a_ring_is_held(void **state)
{
	struct sockaddr_in to = world_addr(1, 9);
	struct vma_modify_ring_attr attr = {.comp_bit_mask = VMA_MODIFY_RING_CQ_ARM};
	struct direct_id id = {.number = SOCK_RING_NUMBERS, .life = 1};
	struct vma_mlx_hw_device_data data;
	struct vma_rate_limit_t limit;
	uint32_t tag = 5;
	socklen_t len = sizeof(tag), limit_len = sizeof(limit);
	struct ring *ring;

	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	assert_int_equal(sock_add_rule("use os udp_sender *:*"), -EAGAIN);
	assert_int_equal(sock_dump(0, LOG_NONE), -EAGAIN);
	assert_int_equal(tx_ring(&to), -EAGAIN);
	assert_int_equal(set_tag(tag), -EAGAIN);
	assert_int_equal(get(&ts, SO_VMA_FLOW_TAG, &tag, &len), -EAGAIN);
	assert_int_equal(get(&ts, SO_MAX_PACING_RATE, &limit, &limit_len), -EAGAIN);
	assert_int_equal(direct_fd(id), -EAGAIN);
	assert_int_equal(direct_describe(id, &data), -EAGAIN);
	assert_int_equal(direct_register(id, &tag, sizeof(tag), &tag), -EAGAIN);
	assert_int_equal(direct_deregister(id, &tag, sizeof(tag)), -EAGAIN);
	assert_int_equal(direct_modify(id, &attr), -EAGAIN);
	ring_release_cold(ring);
	assert_int_equal(sock_dump(0, LOG_NONE), 0);
}

/* ---- options ------------------------------------------------------------------------------- */

static void test_the_flow_tag(void **state)
{
	uint32_t got = 1;
	socklen_t len = sizeof(got);
	struct tsock listener, child, client;

	test_guard();
	assert_int_equal(get(&ts, SO_VMA_FLOW_TAG, &got, &len), 0);
	assert_int_equal(got, 0);
	assert_int_equal(set_tag(0), -EINVAL);
	assert_int_equal(set_tag(0xfffff), -EINVAL);
	assert_int_equal(set_tag(UINT32_MAX), 0);
	assert_int_equal(get(&ts, SO_VMA_FLOW_TAG, &got, &len), 0);
	assert_int_equal(got, UINT32_MAX);
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_VMA_FLOW_TAG, &got, 8), -EINVAL);
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_VMA_FLOW_TAG, WORLD_BAD, 4), -EFAULT);
	assert_int_equal(get(&ts, SO_VMA_FLOW_TAG, WORLD_BAD, &len), -EFAULT);
	assert_int_equal(get(&ts, SO_VMA_FLOW_TAG, &got, WORLD_BAD), -EFAULT);
	len = 3;
	assert_int_equal(get(&ts, SO_VMA_FLOW_TAG, &got, &len), -EINVAL);
	/* Connections have that of their listener. */
	listener = world_listener(0, port, 1);
	got = 7;
	len = sizeof(got);
	assert_int_equal(tsock_set(&listener, SOL_SOCKET, SO_VMA_FLOW_TAG, &got, len), 0);
	world_pair(&listener, port, &client, &child);
	assert_int_equal(get(&child, SO_VMA_FLOW_TAG, &got, &len), 0);
	assert_int_equal(got, 7);
	assert_int_equal(get(&client, SO_VMA_FLOW_TAG, &got, &len), 0);
	assert_int_equal(got, 0);
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
}

/* As it was set; the kernel's forms of the option are its own. */
static void test_the_rate_limit(void **state)
{
	struct vma_rate_limit_t limit = {8000, 3000, 1500}, got;
	socklen_t len = sizeof(got);
	uint32_t bytes = 0;

	test_guard();
	assert_int_equal(get(&ts, SO_MAX_PACING_RATE, &got, &len), 0);
	assert_int_equal(got.rate, 0);
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_MAX_PACING_RATE, WORLD_BAD, len), -EFAULT);
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_MAX_PACING_RATE, &limit, len), 0);
	assert_int_equal(get(&ts, SO_MAX_PACING_RATE, &got, &len), 0);
	assert_int_equal(len, sizeof(got));
	assert_int_equal(got.rate, 8000);
	assert_int_equal(got.max_burst_sz, 3000);
	assert_int_equal(got.typical_pkt_sz, 1500);
	assert_int_equal(get(&ts, SO_MAX_PACING_RATE, WORLD_BAD, &len), -EFAULT);
	assert_int_equal(get(&ts, SO_MAX_PACING_RATE, &got, WORLD_BAD), -EFAULT);
	len = sizeof(bytes);
	assert_int_equal(get(&ts, SO_MAX_PACING_RATE, &bytes, &len), SOCK_KERNEL);
	assert_int_equal(sys_getsockopt(ts.fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes, &len), 0);
	assert_int_equal(bytes, 1000000);
	bytes = 2500;
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes, 4), 0);
	len = sizeof(got);
	assert_int_equal(get(&ts, SO_MAX_PACING_RATE, &got, &len), 0);
	assert_int_equal(got.rate, 20);
	assert_int_equal(got.max_burst_sz, 0);
	assert_int_equal(got.typical_pkt_sz, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, bound, end)

static const struct CMUnitTest tests[] = {
	CASE(test_without_a_connection),   CASE(test_the_ring_to_an_address),
	CASE(test_zcopy_by_force),	   CASE(test_a_closed_socket),
	CASE(test_lines_that_are_no_rule), CASE(test_no_lock_is_taken_while_a_ring_is_held),
	CASE(test_the_flow_tag),	   CASE(test_the_rate_limit),
};

VMA_TEST_MAIN("sock_extra", tests, world_start, world_finish)
