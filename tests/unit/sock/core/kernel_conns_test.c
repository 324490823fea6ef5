/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/kernel_conns.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "net/netlink/netlink.h"
#include "tests/vma_test.h"

static uint64_t ports[KERNEL_PORTS_WORDS];

static int tcp(int family, struct sockaddr_storage *at)
{
	struct sockaddr_in *in = (struct sockaddr_in *)at;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)at;
	socklen_t len = family == AF_INET ? sizeof(*in) : sizeof(*in6);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	memset(at, 0, sizeof(*at));
	at->ss_family = (sa_family_t)family;
	if (family == AF_INET)
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)at, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

static bool kernel_has(uint16_t port)
{
	assert_int_equal(kernel_ports_read(ports), 0);
	return kernel_ports_has(ports, port);
}

/* Connects an IPv4 client to a listener of this family, and follows its port in the kernel. */
static void connection_comes_and_goes(int family)
{
	struct sockaddr_storage at;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct linger reset = {.l_onoff = 1};
	int server = tcp(family, &at), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int accepted;

	to.sin_port = ((struct sockaddr_in *)&at)->sin_port; /* sin6_port lies at its place */
	assert_false(kernel_has(to.sin_port));		     /* a listener is no connection */
	assert_int_equal(connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	accepted = accept(server, NULL, NULL);
	assert_true(accepted >= 0);
	assert_true(kernel_has(to.sin_port));
	/* A closed listener leaves its connections behind: those matter for a restart. */
	close(server);
	assert_true(kernel_has(to.sin_port));
	assert_int_equal(setsockopt(accepted, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	close(accepted);
	assert_false(kernel_has(to.sin_port));
	close(client);
}

static void test_ipv4(void **state)
{
	(void)state;
	connection_comes_and_goes(AF_INET);
}

static void test_an_ipv4_peer_of_an_ipv6_socket(void **state)
{
	(void)state;
	connection_comes_and_goes(AF_INET6);
}

static void test_an_ipv6_peer(void **state)
{
	struct sockaddr_storage at;
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int server = tcp(AF_INET6, &at), client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int accepted;

	(void)state;
	to.sin6_port = ((struct sockaddr_in6 *)&at)->sin6_port;
	assert_int_equal(connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
	accepted = accept(server, NULL, NULL);
	assert_true(accepted >= 0);
	assert_true(kernel_has(to.sin6_port));
	close(accepted);
	close(client);
	close(server);
}

/* A connection in TIME-WAIT gets no data that a program would read. */
static void test_time_wait_does_not_count(void **state)
{
	struct sockaddr_storage at;
	int server = tcp(AF_INET, &at), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint16_t port = ((struct sockaddr_in *)&at)->sin_port;
	int accepted;
	char c;

	(void)state;
	assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
	accepted = accept(server, NULL, NULL);
	assert_int_equal(shutdown(accepted, SHUT_WR), 0);
	assert_int_equal(read(client, &c, 1), 0);
	assert_true(kernel_has(port));
	close(client);
	assert_int_equal(read(accepted, &c, 1), 0); /* both have sent a FIN */
	close(accepted);
	assert_false(kernel_has(port));
	close(server);
}

/* Its connections are of other listeners. */
static int asks_elsewhere(void)
{
	static const struct netlink_events none;

	if (netlink_open(&none) || kernel_ports_read(ports))
		return 2;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET))
		return 3;
	return kernel_ports_read(ports) == -EXDEV ? 0 : 4;
}

static void test_another_namespace_is_not_asked(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (!child)
		_exit(asks_elsewhere());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_ipv4),
	cmocka_unit_test(test_an_ipv4_peer_of_an_ipv6_socket),
	cmocka_unit_test(test_an_ipv6_peer),
	cmocka_unit_test(test_time_wait_does_not_count),
	cmocka_unit_test(test_another_namespace_is_not_asked),
};

VMA_TEST_MAIN("kernel_conns", tests, NULL, NULL)
