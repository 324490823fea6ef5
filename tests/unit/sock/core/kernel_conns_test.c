/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/kernel_conns.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "net/tcp/tcp_wire.h"
#include "sock/core/access.h"
#include "sock/core/port/strangers.h"
#include "tests/unit/sock/core/loop_ring.h"
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

/* ---- a listener on a port that gives it the frames of all connections -------------------- */

static struct inet_sock listener;
static struct sock_match match;

static bool lo_up(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool up = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &lo);

	close(fd);
	return up;
}

/* In a process and a network of its own, which has no connections. */
static int on_a_card(int (*fn)(void))
{
	struct port *port;
	pid_t child = fork();
	int status;

	if (child) {
		assert_int_equal(waitpid(child, &status, 0), child);
		return status;
	}
	if ((unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET)) || !lo_up() ||
	    !control_lock())
		_exit(2);
	port = loop_ring_port();
	port->can.takes_conns = true;
	match.f.ring = loop_ring_open(port, 0);
	match.f.flow.key.local = addr_v4(htonl(INADDR_LOOPBACK));
	sock_list_init();
	listener.inet = INET_LISTEN;
	listener.local.port = htons(80);
	list_init(&listener.flows);
	list_push_back(&listener.flows, &match.link);
	sock_list_add(&listener);
	kernel_conns_begin(&listener);
	_exit(fn());
}

/* The internal thread looks, so much later. */
static bool passes_after(nsec_t time)
{
	nsec_t now = clock_now() + time;
	bool due = kernel_conns_due(now);

	control_unlock();
	if (due)
		kernel_conns_look(now);
	return control_lock() && listener.listen.kernel.pass == KERNEL_CONNS_PASS_ALL;
}

/* Of so many segments that belong to nothing, how many does the kernel get? */
static unsigned given(unsigned n)
{
	static const uint8_t mac[6] = {2};
	const struct inaddr here = match.f.flow.key.local;
	const struct frame_params params = {.src_mac = mac,
					    .dst_mac = mac,
					    .src = {.addr = here, .port = htons(1)},
					    .dst = {.addr = here, .port = listener.local.port},
					    .proto = IPPROTO_TCP,
					    .ttl = 64};
	const struct tcp_segment segment = {.flags = TCP_ACK};
	struct frame_template template;
	struct flow_key key;
	unsigned got = 0;

	assert_int_equal(frame_template_init(&template, &params), 0);
	for (unsigned i = 0; i < n; i++) {
		struct pkt *pkt = pkt_blank(256);

		assert_non_null(pkt);
		pkt->frame_len = (uint32_t)frame_build_tcp(&template, pkt->frame, &segment);
		assert_int_equal(frame_parse(pkt, 0, &key), DROP_NONE);
		if (kernel_conns_pass(&listener, match.f.ring, pkt))
			got++;
		else
			pkt_free(pkt);
	}
	return got;
}

static int ends(void)
{
	if (!passes_after(0) || given(1000) != 1000)
		return 3;
	return passes_after(NSEC_PER_SEC) ? 4 : 0;
}

static void test_it_gives_the_kernel_segments_as_long_as_that_has_connections(void **state)
{
	(void)state;
	assert_int_equal(on_a_card(ends), 0);
}

/* A handshake may have begun with a segment that only the kernel gets. */
static int some(void)
{
	unsigned n;

	if (passes_after(NSEC_PER_SEC))
		return 3;
	n = given(100000);
	return n >= STRANGERS_BURST && n < 100000 ? 0 : 4;
}

static void test_then_it_gives_the_kernel_some(void **state)
{
	(void)state;
	assert_int_equal(on_a_card(some), 0);
}

static int none(void)
{
	match.f.ring->q->port->can.takes_conns = false;
	listener.listen.kernel.pass = KERNEL_CONNS_PASS_NONE;
	kernel_conns_begin(&listener);
	return given(1) ? 3 : 0;
}

static void test_a_port_that_leaves_them_to_the_kernel_brings_none(void **state)
{
	(void)state;
	assert_int_equal(on_a_card(none), 0);
}

/* A connection of this port, which goes to another process. */
static void export_one(uint16_t port)
{
	struct inet_sock conn = {.inet = INET_TCP, .local.port = htons(port)};

	kernel_conns_expect(&conn);
}

static int lasts(void)
{
	export_one(81);
	if (passes_after(NSEC_PER_SEC))
		return 3;
	export_one(80);
	return passes_after(0) && passes_after(3600 * NSEC_PER_SEC) ? 0 : 4;
}

static void test_it_goes_on_once_another_process_has_a_connection(void **state)
{
	(void)state;
	assert_int_equal(on_a_card(lasts), 0);
}

static int joined(void)
{
	listener.joins = true;
	kernel_conns_begin(&listener);
	return passes_after(3600 * NSEC_PER_SEC) ? 0 : 3;
}

static void test_it_goes_on_if_another_process_accepts_some(void **state)
{
	(void)state;
	assert_int_equal(on_a_card(joined), 0);
}

/* What sock_fork_child() does.  Other files may get the numbers that the parent had hidden. */
static int opens_anew(void)
{
	int was = sys_fd_next_hidden(0);

	if (was < 0)
		return 3;
	sys_fd_close_hidden(-1);
	sys_fd_forget_all();
	kernel_conns_forget();
	strangers_forget();
	if (given(1))
		return 4;
	kernel_conns_begin(&listener);
	return sys_fd_next_hidden(0) < 0 ? 5 : 0;
}

static void test_a_forked_child_has_a_socket_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(on_a_card(opens_anew), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_ipv4),
	cmocka_unit_test(test_an_ipv4_peer_of_an_ipv6_socket),
	cmocka_unit_test(test_an_ipv6_peer),
	cmocka_unit_test(test_time_wait_does_not_count),
	cmocka_unit_test(test_another_namespace_is_not_asked),
	cmocka_unit_test(test_it_gives_the_kernel_segments_as_long_as_that_has_connections),
	cmocka_unit_test(test_then_it_gives_the_kernel_some),
	cmocka_unit_test(test_a_port_that_leaves_them_to_the_kernel_brings_none),
	cmocka_unit_test(test_it_goes_on_once_another_process_has_a_connection),
	cmocka_unit_test(test_it_goes_on_if_another_process_accepts_some),
	cmocka_unit_test(test_a_forked_child_has_a_socket_of_its_own),
};

VMA_TEST_MAIN("kernel_conns", tests, NULL, NULL)
