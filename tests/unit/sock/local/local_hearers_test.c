/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says of the sockets that hear a group: here it has them on the loopback interface. */
#include "sock/local/local_group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "net/netlink/netlink.h"
#include "sock/core/control.h"
#include "vma_test.h"

#define LO 1 /* ifindex */
#define ROOM 8
#define FDS 4
#define NO_PROTOCOL 253 /* RFC 3692 */

static struct endpoint group, from;
static int fds[FDS];

static int setup(void **state)
{
	for (int i = 0; i < FDS; i++)
		fds[i] = -1;
	group = (struct endpoint){.addr = addr_v4(inet_addr("239.255.7.7"))};
	from = (struct endpoint){.addr = addr_v4(inet_addr("127.0.0.1")), .port = htons(77)};
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return 0;
}

static struct sockaddr_in at(const char *addr, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(addr), .sin_port = port};
}

/* A socket of the group's port, which the first one chooses. */
static int bind_at(int i, const char *addr)
{
	struct sockaddr_in to = at(addr, group.port);
	socklen_t len = sizeof(to);
	int one = 1;

	fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fds[i], (struct sockaddr *)&to, len), 0);
	assert_int_equal(getsockname(fds[i], (struct sockaddr *)&to, &len), 0);
	group.port = to.sin_port;
	return fds[i];
}

static uint64_t cookie(int fd)
{
	uint64_t value;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &value, &len), 0);
	return value;
}

static int ask(uint64_t *cookies, unsigned max)
{
	int n;

	assert_true(control_lock());
	n = local_group_hearers(IPPROTO_UDP, &from, &group, LO, cookies, max);
	control_unlock();
	return n;
}

static bool hears(int fd)
{
	uint64_t cookies[ROOM], one = cookie(fd);
	int n = ask(cookies, ROOM);

	assert_in_range(n, 0, ROOM);
	for (int i = 0; i < n; i++) {
		if (cookies[i] == one)
			return true;
	}
	return false;
}

static void test_sockets_at_any_address_and_at_the_group_hear_it(void **state)
{
	int any = bind_at(0, "0.0.0.0"), here = bind_at(1, "239.255.7.7");

	assert_true(hears(any));
	assert_true(hears(here));
	assert_false(hears(bind_at(2, "127.0.0.1")));
	assert_false(hears(bind_at(3, "239.255.7.8")));
}

static void test_a_connected_one_hears_its_peer_only(void **state)
{
	struct sockaddr_in right = at("127.0.0.1", htons(77)), port = at("127.0.0.1", htons(78)),
			   addr = at("127.0.0.2", htons(77));
	int fd = bind_at(0, "0.0.0.0");

	/* Then it would be bound to an address of the peer's network. */
	fd = bind_at(1, "239.255.7.7");
	assert_int_equal(connect(fd, (struct sockaddr *)&right, sizeof(right)), 0);
	assert_true(hears(fd));
	assert_int_equal(connect(fd, (struct sockaddr *)&port, sizeof(port)), 0);
	assert_false(hears(fd));
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_false(hears(fd));
}

static void test_of_ipv6_those_hear_it_that_have_ipv4(void **state)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	socklen_t len = sizeof(any);
	int only = 1;

	fds[0] = socket(AF_INET6, SOCK_DGRAM, 0);
	fds[1] = socket(AF_INET6, SOCK_DGRAM, 0);
	assert_int_equal(bind(fds[0], (struct sockaddr *)&any, len), 0);
	assert_int_equal(getsockname(fds[0], (struct sockaddr *)&any, &len), 0);
	group.port = any.sin6_port;
	assert_true(hears(fds[0]));
	any.sin6_port = 0;
	assert_int_equal(setsockopt(fds[1], IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)), 0);
	assert_int_equal(bind(fds[1], (struct sockaddr *)&any, len), 0);
	assert_int_equal(getsockname(fds[1], (struct sockaddr *)&any, &len), 0);
	group.port = any.sin6_port;
	assert_false(hears(fds[1]));
}

static void test_more_than_there_is_room_for_is_an_error(void **state)
{
	uint64_t cookies[1];

	bind_at(0, "0.0.0.0");
	assert_int_equal(ask(cookies, 1), 1);
	bind_at(1, "0.0.0.0");
	assert_int_equal(ask(cookies, 1), -E2BIG);
}

/* Then nobody knows whether there are any. */
static void test_a_kernel_that_does_not_tell_is_an_error(void **state)
{
	uint64_t cookies[ROOM];
	int n;

	assert_true(control_lock());
	n = local_group_hearers(NO_PROTOCOL, &from, &group, LO, cookies, ROOM);
	control_unlock();
	assert_int_equal(n, -ENOENT);
}

/* What a thread asks in another namespace than the library's. */
static int asks_elsewhere(void)
{
	static const struct netlink_events none;
	uint64_t cookies[ROOM];

	if (netlink_open(&none))
		return 2;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET))
		return 3;
	if (ask(cookies, ROOM) != -EXDEV || !control_lock())
		return 4;
	return local_group_loops(&group.addr, &from.addr, LO) == -EXDEV ? 0 : 5;
}

static void test_another_namespace_is_not_asked(void **state)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(asks_elsewhere());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static int loops(void)
{
	int rc;

	assert_true(control_lock());
	rc = local_group_loops(&group.addr, &from.addr, LO);
	control_unlock();
	return rc;
}

static void test_a_group_loops_while_a_member_wants_the_sender(void **state)
{
	struct ip_mreq_source block = {.imr_multiaddr.s_addr = inet_addr("239.255.7.7"),
				       .imr_interface.s_addr = inet_addr("127.0.0.1"),
				       .imr_sourceaddr.s_addr = inet_addr("127.0.0.1")};
	struct ip_mreqn join = {.imr_multiaddr.s_addr = inet_addr("239.255.7.7"),
				.imr_ifindex = LO};
	int fd = bind_at(0, "0.0.0.0");

	assert_int_equal(loops(), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof(join)), 0);
	assert_int_equal(loops(), 1);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_BLOCK_SOURCE, &block, sizeof(block)), 0);
	assert_int_equal(loops(), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_UNBLOCK_SOURCE, &block, sizeof(block)), 0);
	assert_int_equal(loops(), 1);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &join, sizeof(join)), 0);
	assert_int_equal(loops(), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(test_sockets_at_any_address_and_at_the_group_hear_it),
	CASE(test_a_connected_one_hears_its_peer_only),
	CASE(test_of_ipv6_those_hear_it_that_have_ipv4),
	CASE(test_more_than_there_is_room_for_is_an_error),
	CASE(test_a_kernel_that_does_not_tell_is_an_error),
	CASE(test_another_namespace_is_not_asked),
	CASE(test_a_group_loops_while_a_member_wants_the_sender),
};

VMA_TEST_MAIN("local_hearers", tests, NULL, NULL)
