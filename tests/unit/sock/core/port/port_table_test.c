/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/port_table.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sock/core/control.h"
#include "tests/vma_test.h"

static int set_up(void **state)
{
	return !control_lock();
}

static int tear_down(void **state)
{
	control_unlock();
	return 0;
}

static unsigned long inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* A socket bound to this address (of either family) and any port. */
static int bound(const char *text, int type, bool v6only)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	bool v4 = inet_pton(AF_INET, text, &in.sin_addr) == 1;
	int fd = socket(v4 ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0), only = v6only;

	assert_true(fd >= 0);
	if (!v4) {
		assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)), 0);
	}
	assert_int_equal(v4 ? bind(fd, (struct sockaddr *)&in, sizeof(in))
			    : bind(fd, (struct sockaddr *)&in6, sizeof(in6)),
			 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 1), 0);
	return fd;
}

struct search {
	unsigned long inode;
	struct port_row row;
	unsigned found;
};

static void look(const struct port_row *row, void *arg)
{
	struct search *s = arg;

	if (row->inode != s->inode)
		return;
	s->row = *row;
	s->found++;
}

static void test_sockets_are_listed(void **state)
{
	static const struct {
		const char *address;
		bool v6only;
		const char *listed; /* the address, mapped if it is of IPv4 */
		bool ipv4;
	} rows[] = {
		{"0.0.0.0", false, "::ffff:0.0.0.0", true},
		{"127.0.0.1", false, "::ffff:127.0.0.1", true},
		{"::ffff:127.0.0.1", false, "::ffff:127.0.0.1", true},
		{"::ffff:0.0.0.0", false, "::ffff:0.0.0.0", true},
		{"::", false, "::", true},
		{"::", true, "::", false},
		{"::1", false, "::1", false},
	};
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};

	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		int type = types[i & 1], fd = bound(rows[i / 2].address, type, rows[i / 2].v6only);
		bool udp = type == SOCK_DGRAM;
		struct search s = {.inode = inode_of(fd)};
		struct sockaddr_in6 name;
		struct in6_addr addr;
		socklen_t len = sizeof(name);

		assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
		port_table_each(udp, look, &s);
		if (s.found != 1)
			fail_msg("row %u: listed %u times", i / 2, s.found);
		assert_int_equal(inet_pton(AF_INET6, rows[i / 2].listed, &addr), 1);
		assert_memory_equal(&s.row.addr, &addr, sizeof(addr));
		assert_int_equal(s.row.port, ntohs(name.sin6_port));
		if (port_row_has_ipv4(udp, &s.row) != rows[i / 2].ipv4)
			fail_msg("row %u, udp %d: IPv4", i / 2, udp);
		port_table_each(!udp, look, &s);
		assert_int_equal(s.found, 1); /* not in the other protocol's */
		close(fd);
	}
}

static void test_a_socket_that_is_gone_counts(void **state)
{
	struct port_row row = {.port = 9, .inode = 1}; /* at :: */

	assert_true(port_row_has_ipv4(true, &row));
	assert_true(port_row_has_ipv4(false, &row));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_sockets_are_listed),
	cmocka_unit_test(test_a_socket_that_is_gone_counts),
};

VMA_TEST_MAIN("port_table", tests, set_up, tear_down)
