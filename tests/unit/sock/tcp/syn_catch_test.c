/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SYNs that arrive before the rings do.  Here the kernel's clients are on this host, where the twin
 * answers them, too; the listener gets the same SYN when its rings are there.
 */
#include "sock/tcp/syn_catch.h"

#include <errno.h>
#include <dirent.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#include "net/tcp/tcp_wire.h"
#include "sock/tcp/tcp_sock.h"
#include "tests/unit/sock/world.h"

#define MANY 40

static struct tsock listener;
static struct syn_catch caught;
static unsigned port;
/* Clients' ports that the library sends a SYN-ACK to, and how many they are; any, atomic. */
static bool is_answered[65536];
static unsigned answers;

static bool look(const struct pkt *pkt)
{
	const uint8_t *tcp = pkt->frame + pkt->l4;

	/* The same comes again after a second. */
	if ((pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK) &&
	    !__atomic_exchange_n(&is_answered[tcp[2] << 8 | tcp[3]], true, __ATOMIC_RELAXED))
		__atomic_fetch_add(&answers, 1, __ATOMIC_RELEASE);
	return true; /* the clients are the kernel's: it would reset what it does not know */
}

/* As of a virtual interface: the kernel computes no checksums for this host. */
static void accept_partial_checksums(struct ring *ring)
{
	assert_true(ring_hold_cold(ring));
	ring->parse_flags = FRAME_PARTIAL_CSUM;
	ring_release_cold(ring);
}

static int begin_at(uint32_t addr)
{
	port = world_port();
	memset(is_answered, 0, sizeof(is_answered));
	answers = 0;
	loop_port_lose(look);
	listener = tsock_tcp();
	assert_int_equal(tsock_bind(&listener, addr, port), 0);
	assert_int_equal(tsock_listen(&listener, MANY), 0);
	accept_partial_checksums(tsock_home(&listener));
	WORLD_LOCKED(assert_int_equal(syn_catch_begin(&caught, tsock_inet(&listener)), 0));
	return 0;
}

static int begin(void **state)
{
	return begin_at(fake_link_addr(0));
}

static int begin_any(void **state)
{
	return begin_at(INADDR_ANY);
}

static void end_catch(void)
{
	WORLD_LOCKED(syn_catch_end(&caught, tsock_inet(&listener)));
}

static int end(void **state)
{
	tsock_close(&listener);
	loop_port_lose(NULL);
	world_settle(); /* no thread is in look() any more */
	return 0;
}

/* The kernel sends a SYN and waits for nothing. */
static int kernel_client(unsigned i, unsigned to_port)
{
	struct sockaddr_in to = world_addr(i, to_port), own = world_addr(3, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_true(!connect(fd, (struct sockaddr *)&to, sizeof(to)) || errno == EINPROGRESS);
	return fd;
}

static bool answered(unsigned n)
{
	world_settle();
	return __atomic_load_n(&answers, __ATOMIC_ACQUIRE) == n;
}

static void expect_answers(unsigned n)
{
	assert_true(NET_WAIT(answered(n), WORLD_WAIT));
	assert_false(NET_WAIT(!answered(n), 20)); /* and no more */
}

static void test_the_listener_gets_the_syns_that_came_meanwhile(void **state)
{
	int fds[MANY];

	for (unsigned i = 0; i < MANY; i++)
		fds[i] = kernel_client(0, port);
	assert_true(answered(0));
	end_catch();
	expect_answers(MANY);
	for (unsigned i = 0; i < MANY; i++)
		close(fds[i]);
}

static void test_a_wildcard_listener_gets_those_of_all_addresses(void **state)
{
	int fds[FAKE_LINK_ADDRS];

	for (unsigned i = 0; i < FAKE_LINK_ADDRS; i++)
		fds[i] = kernel_client(i, port);
	end_catch();
	expect_answers(FAKE_LINK_ADDRS);
	for (unsigned i = 0; i < FAKE_LINK_ADDRS; i++)
		close(fds[i]);
}

/* Other addresses and ports, and segments that are no SYN: a flood of them costs nothing. */
static void test_nothing_else_is_kept(void **state)
{
	int other[2] = {kernel_client(1, port), kernel_client(0, port + 1)}, fd;
	struct pollfd pfd = {.fd = -1, .events = POLLIN};

	pfd.fd = caught.fd;
	assert_int_equal(poll(&pfd, 1, 0), 0);
	fd = kernel_client(0, port);
	assert_int_equal(poll(&pfd, 1, WORLD_WAIT), 1);
	end_catch();
	expect_answers(1);
	close(other[0]);
	close(other[1]);
	close(fd);
}

/* The interface could not be opened: the SYNs are lost, and the twin serves everybody again. */
static void test_a_listener_that_is_not_accelerated_gets_nothing(void **state)
{
	int fd = kernel_client(0, port);

	WORLD_LOCKED(tsock_inet(&listener)->verdict = VERDICT_PORT_FAILED);
	end_catch();
	expect_answers(0);
	WORLD_LOCKED(tsock_inet(&listener)->verdict = VERDICT_ACCELERATED);
	close(fd);
}

/* The twin's filter: how long its program is; 0: there is none. */
static int twin_filter(void)
{
	socklen_t len = 0;

	return getsockopt(listener.fd, SOL_SOCKET, SO_GET_FILTER, NULL, &len) ? -errno : (int)len;
}

static void test_the_twin_is_filtered_meanwhile_and_not_longer(void **state)
{
	assert_true(twin_filter() > 0);
	end_catch();
	assert_int_equal(twin_filter(), 0);
}

static int packet_sockets(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir))) {
		int domain = 0;
		socklen_t len = sizeof(domain);

		if (!getsockopt(atoi(entry->d_name), SOL_SOCKET, SO_DOMAIN, &domain, &len))
			n += domain == AF_PACKET;
	}
	closedir(dir);
	return n;
}

/* The internal thread closes it, since that waits for a grace period. */
static void test_the_packet_socket_is_closed_later_and_once(void **state)
{
	assert_true(NET_WAIT(packet_sockets() == 1, WORLD_WAIT)); /* that of listen() is closed */
	end_catch();
	assert_true(NET_WAIT(packet_sockets() == 0, WORLD_WAIT));
	syn_catch_close();
	end_catch(); /* of one that keeps nothing */
	assert_int_equal(packet_sockets(), 0);
}

/* A process that may not open packet sockets: nothing is kept, and the twin is as it was. */
static void refused(void *arg)
{
	struct syn_catch c;
	struct tsock one;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	params.log_level = LOG_WARNING;
	loop_net_start();
	one = world_listener(0, 4000, 1);
	NET_CHECK_EQ(syscall(SYS_capset, &header, none), 0); /* of this thread */
	NET_CHECK(control_lock());
	NET_CHECK_EQ(syn_catch_begin(&c, tsock_inet(&one)), -EPERM);
	NET_CHECK_EQ(c.fd, -1);
	syn_catch_end(&c, tsock_inet(&one));
	control_unlock();
	listener.fd = one.fd;
	NET_CHECK_EQ(twin_filter(), 0);
	_exit(0);
}

static void test_without_the_privilege_nothing_changes(void **state)
{
	assert_int_equal(loop_net_run("refused", refused, NULL, 30), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_without_the_privilege_nothing_changes), /* first: no thread yet */
	CASE(test_the_listener_gets_the_syns_that_came_meanwhile),
	cmocka_unit_test_setup_teardown(test_a_wildcard_listener_gets_those_of_all_addresses,
					begin_any, end),
	CASE(test_nothing_else_is_kept),
	CASE(test_a_listener_that_is_not_accelerated_gets_nothing),
	CASE(test_the_twin_is_filtered_meanwhile_and_not_longer),
	CASE(test_the_packet_socket_is_closed_later_and_once),
};

VMA_TEST_MAIN("sock/tcp/syn_catch", tests, world_start, world_finish)
