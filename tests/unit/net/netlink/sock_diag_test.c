/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says of sockets of the test. */
#include "net/netlink/sock_diag.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/wait.h>

#include "net/netlink/netlink.h"
#include "vma_test.h"

#define LO 1		/* ifindex */
#define NO_PROTOCOL 253 /* RFC 3692 */
#define MANY 200	/* sockets, whose messages need several datagrams */

static struct diag_query query; /* of the sockets at the test's port */

static int bound(int family, int type)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr *at = family == AF_INET ? (void *)&in : (void *)&in6;
	socklen_t len = family == AF_INET ? sizeof(in) : sizeof(in6);
	int fd = socket(family, type | SOCK_CLOEXEC, 0), one = 1;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	in.sin_port = in6.sin6_port = query.port;
	assert_int_equal(bind(fd, at, len), 0);
	assert_int_equal(getsockname(fd, at, &len), 0);
	query = (struct diag_query){.family = (uint8_t)family,
				    .protocol = type == SOCK_DGRAM ? IPPROTO_UDP : IPPROTO_TCP,
				    .states = UINT32_MAX,
				    .port = family == AF_INET ? in.sin_port : in6.sin6_port};
	return fd;
}

static uint64_t cookie(int fd)
{
	uint64_t value;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &value, &len), 0);
	return value;
}

struct seen {
	unsigned n;
	struct diag_socket last;
};

static int see(const struct diag_socket *socket, void *arg)
{
	struct seen *seen = arg;

	seen->n++;
	seen->last = *socket;
	return 0;
}

static int setup(void **state)
{
	query.port = 0;
	return 0;
}

static void test_a_socket_is_described(void **state)
{
	struct inaddr here = addr_v4(htonl(INADDR_LOOPBACK));
	struct sockaddr_in peer = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				   .sin_port = htons(77)};
	struct seen seen = {.n = 0};
	int fd = bound(AF_INET, SOCK_DGRAM);

	assert_int_equal(connect(fd, (struct sockaddr *)&peer, sizeof(peer)), 0);
	assert_int_equal(diag_each(&query, see, &seen), 0);
	assert_int_equal(seen.n, 1);
	assert_true(addr_eq(&seen.last.addr, &here) && addr_eq(&seen.last.peer_addr, &here));
	assert_int_equal(seen.last.port, query.port);
	assert_int_equal(seen.last.peer_port, htons(77));
	assert_int_equal(seen.last.ifindex, 0);
	assert_true(seen.last.cookie == cookie(fd));
	assert_false(seen.last.v6only);
	close(fd);
	assert_int_equal(diag_each(&query, see, &seen), 0);
	assert_int_equal(seen.n, 1);
}

static void test_ipv6_only_is_told(void **state)
{
	for (int only = 0; only <= 1; only++) {
		struct seen seen = {.n = 0};
		int fd;

		query.port = 0;
		fd = bound(AF_INET6, SOCK_DGRAM);
		close(fd);
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)), 0);
		assert_int_equal(bind(fd,
				      (struct sockaddr *)&(struct sockaddr_in6){
					      .sin6_family = AF_INET6, .sin6_port = query.port},
				      sizeof(struct sockaddr_in6)),
				 0);
		assert_int_equal(diag_each(&query, see, &seen), 0);
		assert_int_equal(seen.n, 1);
		assert_int_equal(seen.last.v6only, only);
		assert_true(addr_is_any(&seen.last.addr) && !addr_is_v4(&seen.last.addr));
		close(fd);
	}
}

static void test_states_select(void **state)
{
	struct seen seen = {.n = 0};
	int fd = bound(AF_INET, SOCK_STREAM);

	assert_int_equal(listen(fd, 1), 0);
	query.states = 1u << TCP_ESTABLISHED;
	assert_int_equal(diag_each(&query, see, &seen), 0);
	assert_int_equal(seen.n, 0);
	query.states = 1u << TCP_LISTEN;
	assert_int_equal(diag_each(&query, see, &seen), 0);
	assert_int_equal(seen.n, 1);
	close(fd);
}

static int see_three(const struct diag_socket *socket, void *arg)
{
	unsigned *n = arg;

	return ++*n == 3 ? 33 : 0;
}

static void test_all_of_many_are_told_or_as_many_as_are_asked_for(void **state)
{
	struct seen seen = {.n = 0};
	unsigned n = 0;
	int fds[MANY];

	for (int i = 0; i < MANY; i++)
		fds[i] = bound(AF_INET, SOCK_DGRAM);
	assert_int_equal(diag_each(&query, see, &seen), 0);
	assert_int_equal(seen.n, MANY);
	assert_int_equal(diag_each(&query, see_three, &n), 33);
	assert_int_equal(n, 3);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
}

static void test_a_kernel_that_does_not_tell_is_an_error(void **state)
{
	struct seen seen = {.n = 0};

	query = (struct diag_query){
		.family = AF_INET, .protocol = NO_PROTOCOL, .states = UINT32_MAX};
	assert_int_equal(diag_each(&query, see, &seen), -ENOENT);
	assert_int_equal(seen.n, 0);
}

static void test_the_receiver_of_a_datagram_is_told(void **state)
{
	struct endpoint here = {.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = htons(77)},
			to = here;
	int fd = bound(AF_INET, SOCK_DGRAM);

	to.port = query.port;
	assert_true(diag_receiver(IPPROTO_UDP, &here, &to, LO) == cookie(fd));
	assert_true(diag_receiver(IPPROTO_TCP, &here, &to, LO) == 0);
	close(fd);
	assert_true(diag_receiver(IPPROTO_UDP, &here, &to, LO) == 0);
	query.port = 0;
	fd = bound(AF_INET6, SOCK_DGRAM);
	to.port = query.port;
	assert_true(diag_receiver(IPPROTO_UDP, &here, &to, LO) == cookie(fd));
	here.addr = to.addr = (struct inaddr){.w = {0, 0, 0, htonl(1)}};
	assert_true(diag_receiver(IPPROTO_UDP, &here, &to, LO) == cookie(fd));
	close(fd);
}

/* Of a new connection it is the listener, of an old one its socket. */
static void receiver_of_a_connection(int family, const struct inaddr *addr)
{
	struct endpoint from = {.addr = *addr, .port = htons(77)}, to = {.addr = *addr};
	int fd = bound(family, SOCK_STREAM), client, accepted;
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);

	to.port = query.port;
	assert_true(diag_receiver(IPPROTO_TCP, &from, &to, LO) == 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_true(diag_receiver(IPPROTO_TCP, &from, &to, LO) == cookie(fd));
	client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&at, len), 0);
	accepted = accept4(fd, (struct sockaddr *)&at, &len, SOCK_CLOEXEC);
	assert_true(accepted >= 0);
	from.port = ((struct sockaddr_in *)&at)->sin_port; /* at the same place in sockaddr_in6 */
	assert_true(diag_receiver(IPPROTO_TCP, &from, &to, LO) == cookie(accepted));
	assert_true(diag_receiver(IPPROTO_TCP, &to, &from, LO) == cookie(client));
	close(client);
	close(accepted);
	close(fd);
	query.port = 0;
}

static void test_the_receiver_of_a_connection_is_told(void **state)
{
	struct inaddr lo4 = addr_v4(htonl(INADDR_LOOPBACK)), lo6 = {.w = {0, 0, 0, htonl(1)}};

	receiver_of_a_connection(AF_INET, &lo4);
	receiver_of_a_connection(AF_INET6, &lo6);
}

/* What a thread asks in another namespace than the library's, which has the socket. */
static int asks_elsewhere(int fd)
{
	struct endpoint here = {.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = htons(77)},
			to = here;
	static const struct netlink_events none;
	struct seen seen = {.n = 0};

	to.port = query.port;
	if (netlink_open(&none))
		return 2;
	if (diag_each(&query, see, &seen) || seen.n != 1 ||
	    diag_receiver(IPPROTO_UDP, &here, &to, LO) != cookie(fd))
		return 3;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET))
		return 4;
	fd = bound(AF_INET6, SOCK_DGRAM);
	query.family = AF_INET6;
	return diag_each(&query, see, &seen) == -EXDEV && seen.n == 1 &&
			       !diag_receiver(IPPROTO_UDP, &here, &to, LO)
		       ? 0
		       : 5;
}

static void test_another_namespace_is_not_asked(void **state)
{
	int fd = bound(AF_INET, SOCK_DGRAM), status;
	pid_t child = fork();

	if (!child)
		_exit(asks_elsewhere(fd));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(fd);
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

static const struct CMUnitTest tests[] = {
	CASE(test_a_socket_is_described),
	CASE(test_ipv6_only_is_told),
	CASE(test_states_select),
	CASE(test_all_of_many_are_told_or_as_many_as_are_asked_for),
	CASE(test_a_kernel_that_does_not_tell_is_an_error),
	CASE(test_the_receiver_of_a_datagram_is_told),
	CASE(test_the_receiver_of_a_connection_is_told),
	CASE(test_another_namespace_is_not_asked),
};

VMA_TEST_MAIN("sock_diag", tests, NULL, NULL)
