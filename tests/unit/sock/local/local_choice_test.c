/* SPDX-License-Identifier: BSD-2-Clause */
/* Of sockets that share a port, the one is chosen that the kernel would give the datagram. */
#include "sock/local/local_choice.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include "net/netlink/netlink.h"
#include "sock/core/control.h"
#include "vma_test.h"

#define SOCKETS 4
#define SENDERS 16

static enum local_proto proto;
static struct endpoint to;
static int fds[SOCKETS];
static struct local_entry entries[SOCKETS];

/* Where it is on the loopback interface. */
static struct endpoint endpoint_of(int fd)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	return (struct endpoint){.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = at.sin_port};
}

/* At any address: in a new namespace the loopback interface has none yet. */
static int bound(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = port};
	int type = proto == LOCAL_TCP ? SOCK_STREAM : SOCK_DGRAM, one = 1;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Sockets that share a port, and an entry of each. */
static void share(void)
{
	socklen_t len = sizeof(entries[0].cookie);

	to.port = 0;
	for (uint32_t i = 0; i < SOCKETS; i++) {
		fds[i] = bound(to.port);
		to = endpoint_of(fds[i]);
		if (proto == LOCAL_TCP)
			assert_int_equal(listen(fds[i], SENDERS), 0);
		entries[i] = (struct local_entry){.process = 1, .socket = i};
		assert_int_equal(
			getsockopt(fds[i], SOL_SOCKET, SO_COOKIE, &entries[i].cookie, &len), 0);
	}
}

static void end_share(void)
{
	for (uint32_t i = 0; i < SOCKETS; i++)
		close(fds[i]);
}

static void test_the_choice_is_that_of_the_kernel(void **state)
{
	share();
	for (int i = 0; i < SENDERS; i++) {
		struct sockaddr_in at = {.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
					 .sin_port = to.port};
		int sender = bound(0);
		struct endpoint from = endpoint_of(sender);
		const struct local_entry *one = local_choice(proto, &from, &to, entries, SOCKETS);
		char byte = 'c';

		assert_non_null(one);
		assert_int_equal(sendto(sender, &byte, 1, 0, (struct sockaddr *)&at, sizeof(at)),
				 1);
		assert_int_equal(recv(fds[one->socket], &byte, 1, 0), 1);
		close(sender);
	}
	end_share();
}

static void test_a_socket_without_an_entry_is_no_choice(void **state)
{
	struct endpoint from = {.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = htons(77)};

	share();
	for (uint32_t i = 0; i < SOCKETS; i++)
		entries[i].cookie = 1;
	assert_null(local_choice(proto, &from, &to, entries, SOCKETS));
	end_share();
}

/* In the other namespace are sockets of the same port, and the choice would fall on one of them. */
static int chooses_elsewhere(void)
{
	struct endpoint from = {.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = htons(77)};
	static const struct netlink_events none;

	share();
	if (netlink_open(&none) || !local_choice(proto, &from, &to, entries, SOCKETS))
		return 2;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET))
		return 3;
	share();
	return local_choice(proto, &from, &to, entries, SOCKETS) ? 4 : 0;
}

static void test_another_namespace_is_not_asked(void **state)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(chooses_elsewhere());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/*
 * The socket that gets a connection from there is that of the entry.  The client closes first: TIME-WAIT
 * of the other end would get the next connection from its port.
 */
static void connection_comes(int from, const struct local_entry *entry)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = to.port};
	int flags = fcntl(from, F_GETFL), conn;

	assert_int_equal(fcntl(from, F_SETFL, flags & ~O_NONBLOCK), 0);
	assert_int_equal(connect(from, (struct sockaddr *)&at, sizeof(at)), 0);
	conn = accept(fds[entry->socket], NULL, NULL);
	assert_true(conn >= 0);
	close(from);
	close(conn);
}

static void test_the_choice_of_a_listener_is_that_of_the_kernel(void **state)
{
	share();
	for (int i = 0; i < SENDERS; i++) {
		int client = bound(0);
		struct endpoint from = endpoint_of(client);
		const struct local_entry *one = local_choice(proto, &from, &to, entries, SOCKETS);

		assert_non_null(one);
		connection_comes(client, one);
	}
	end_share();
}

static void test_entries_that_share_are_told_apart(void **state)
{
	struct local_entry some[] = {{.process = 1}, {.process = 2}, {.process = 3}};

	assert_int_equal(local_sharing(some, 0), LOCAL_UNSHARED);
	assert_int_equal(local_sharing(some, 3), LOCAL_UNSHARED);
	some[2].cookie = 7;
	assert_int_equal(local_sharing(some, 3), LOCAL_SHARED);
	some[1].cookie = LOCAL_COOKIE_FILTER;
	assert_int_equal(local_sharing(some, 3), LOCAL_FILTERED);
}

static int of_udp(void **state)
{
	proto = LOCAL_UDP;
	return 0;
}

static int of_tcp(void **state)
{
	proto = LOCAL_TCP;
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_the_choice_is_that_of_the_kernel, of_udp),
	cmocka_unit_test_setup(test_the_choice_of_a_listener_is_that_of_the_kernel, of_tcp),
	cmocka_unit_test_setup(test_a_socket_without_an_entry_is_no_choice, of_udp),
	cmocka_unit_test_setup(test_another_namespace_is_not_asked, of_udp),
	cmocka_unit_test(test_entries_that_share_are_told_apart),
};

static int take_control(void **state)
{
	return !control_lock();
}

VMA_TEST_MAIN("local_choice", tests, take_control, NULL)
