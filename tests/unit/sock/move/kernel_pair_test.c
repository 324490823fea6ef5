/* SPDX-License-Identifier: BSD-2-Clause */
/* A socket that exists becomes one end of a connection of the kernel. */
#include "sock/move/kernel_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>

#include "base/sys.h"
#include "sock/move/repair.h"
#include "tests/vma_test.h"

static struct sock_addr at(uint32_t addr, uint16_t port)
{
	return (struct sock_addr){.in = {.sin_family = AF_INET,
					 .sin_port = htons(port),
					 .sin_addr.s_addr = htonl(addr)},
				  .len = sizeof(struct sockaddr_in)};
}

static int new_socket(int flags)
{
	int fd = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	assert_true(fd >= 0);
	return fd;
}

static struct sock_addr name_of(int fd)
{
	struct sock_addr name = {.len = sizeof(name.in6)};

	assert_int_equal(sys_getsockname(fd, &name.sa, &name.len), 0);
	return name;
}

static int reuse_of(int fd)
{
	int reuse = -1;
	socklen_t len = sizeof(reuse);

	assert_int_equal(sys_getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &len), 0);
	return reuse;
}

static void assert_connected(int fd, int other)
{
	char c;

	assert_int_equal(sys_sendto(fd, "x", 1, MSG_NOSIGNAL, NULL, 0), 1);
	assert_int_equal(sys_recvfrom(other, &c, 1, 0, NULL, NULL), 1);
	assert_int_equal(sys_sendto(other, "y", 1, MSG_NOSIGNAL, NULL, 0), 1);
	assert_int_equal(sys_recvfrom(fd, &c, 1, 0, NULL, NULL), 1);
	assert_int_equal(c, 'y');
}

/* flags: of the socket; port 0: by a listener, because there is nothing to repair. */
static void join(int flags, int reuse, uint16_t port)
{
	struct sock_addr name = at(INADDR_LOOPBACK, port), peer = at(INADDR_LOOPBACK + 1, port);
	int fd = new_socket(flags), other;

	sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
	other = kernel_pair_join(fd, &name, &peer);
	assert_true(other >= 0);
	sys_fcntl(fd, F_SETFL, 0);
	assert_connected(fd, other);
	assert_int_equal(reuse_of(fd), reuse);
	assert_int_equal(name_of(fd).in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(name_of(other).in.sin_addr.s_addr, htonl(INADDR_LOOPBACK + 1));
	sys_close(fd);
	sys_close(other);
}

static void test_either_way_and_its_options_stay(void **state)
{
	for (int i = 0; i < 8; i++)
		join(i & 1 ? SOCK_NONBLOCK : 0, i >> 1 & 1, i & 4 ? 0 : (uint16_t)(20100 + i));
}

static void test_a_bound_socket_keeps_its_port(void **state)
{
	for (uint16_t port = 0; port <= 20200; port += 20200) {
		struct sock_addr any = at(INADDR_ANY, 0), name, peer = at(INADDR_LOOPBACK, port);
		int fd = new_socket(0), other;
		uint16_t bound;

		assert_int_equal(sys_bind(fd, &any.sa, any.len), 0);
		bound = name_of(fd).in.sin_port;
		name = at(INADDR_LOOPBACK, ntohs(bound));
		other = kernel_pair_join(fd, &name, &peer);
		assert_true(other >= 0);
		assert_connected(fd, other);
		assert_int_equal(name_of(fd).in.sin_port, bound);
		sys_close(fd);
		sys_close(other);
	}
}

/* No address of this host: no end can be made there. */
static void test_a_failure_leaves_the_socket_unconnected(void **state)
{
	struct sock_addr name = at(INADDR_LOOPBACK, 20300), nowhere = at(0xc0000201, 20301);
	struct sock_addr peer = at(INADDR_LOOPBACK, 20302);
	int fd = new_socket(0), other;

	assert_int_equal(kernel_pair_join(fd, &name, &nowhere), -EADDRNOTAVAIL);
	other = kernel_pair_join(fd, &name, &peer);
	assert_true(other >= 0);
	assert_connected(fd, other);
	sys_close(fd);
	sys_close(other);
}

/* The port is one that another socket has. */
static void test_a_connection_to_a_listener(void **state)
{
	struct sock_addr any = at(INADDR_LOOPBACK, 0), from, to;
	int holder = new_socket(0), listener = new_socket(0), fd, other;

	assert_int_equal(sys_bind(holder, &any.sa, any.len), 0);
	assert_int_equal(sys_bind(listener, &any.sa, any.len), 0);
	from = name_of(holder);
	to = name_of(listener);
	assert_int_equal(kernel_pair_connect(&from, &to), -ECONNREFUSED);
	assert_int_equal(sys_listen(listener, 0), 0);
	fd = kernel_pair_connect(&from, &to);
	assert_true(fd >= 0);
	other = sys_accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	sys_fcntl(fd, F_SETFL, 0);
	assert_connected(fd, other);
	assert_int_equal(name_of(fd).in.sin_addr.s_addr, from.in.sin_addr.s_addr);
	/* In repair mode; without the privilege it is one that the kernel chooses. */
	if (!repair_set(holder, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP))
		assert_int_equal(name_of(fd).in.sin_port, from.in.sin_port);
	sys_close(other);
	sys_close(fd);
	sys_close(holder);
	sys_close(listener);
}

static void test_a_full_queue_is_an_error(void **state)
{
	struct sock_addr any = at(INADDR_LOOPBACK, 0), to;
	int listener = new_socket(0), fds[8], n = 0;

	assert_int_equal(sys_bind(listener, &any.sa, any.len), 0);
	assert_int_equal(sys_listen(listener, 0), 0);
	to = name_of(listener);
	while (n < 8 && (fds[n] = kernel_pair_connect(&any, &to)) >= 0)
		n++;
	assert_in_range(n, 1, 7);
	assert_int_equal(fds[n], -ETIMEDOUT);
	while (n)
		sys_close(fds[--n]);
	sys_close(listener);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_either_way_and_its_options_stay),
	cmocka_unit_test(test_a_bound_socket_keeps_its_port),
	cmocka_unit_test(test_a_failure_leaves_the_socket_unconnected),
	cmocka_unit_test(test_a_connection_to_a_listener),
	cmocka_unit_test(test_a_full_queue_is_an_error),
};
VMA_TEST_MAIN("kernel_pair", tests, NULL, NULL)
