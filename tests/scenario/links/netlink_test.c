/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Netlink: the library's tables equal those of the kernel.
 *
 *	our namespace				the peer's
 *	v0 10.9.0.1/24, fd09::1/64 ------------ v1 10.9.0.2/24
 *
 * Needs root; the test creates both namespaces, and they end with it.
 */
#include "net/netlink/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "net/tcp/recovery/tcp_cc.h"
#include "tests/vma_test.h"

#define DEADLINE (10 * NSEC_PER_SEC)

static pid_t peer;
static int v0;

/* ---- helpers ----------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static void sh(const char *fmt, ...)
{
	char cmd[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd) != 0)
		fail_msg("failed: %s", cmd);
}

static void set_sysctl(const char *path, const char *value)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(value, f) < 0 || fclose(f))
		fail_msg("%s: %s", path, strerror(errno));
}

static struct inaddr addr_of(const char *text)
{
	struct inaddr a;
	uint32_t v4;

	if (inet_pton(AF_INET, text, &v4) == 1)
		return addr_v4(v4);
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static int lookup(const char *dst, struct route *route)
{
	struct route_query q = {.dst = addr_of(dst)};

	memset(route, 0xee, sizeof(*route));
	return route_get(&q, route);
}

static void check_addr(const struct inaddr *got, const char *want)
{
	char buf[ENDPOINT_TEXT];

	assert_string_equal(addr_text(got, buf), want);
}

/* The last event of each kind, and a waiting condition. */
static struct {
	unsigned links, neighs;
	int ifindex;
	struct inaddr addr;
	enum neigh_state state;
	uint8_t mac[6];
} seen;

static void on_neigh(int ifindex, const struct inaddr *addr, enum neigh_state state,
		     const uint8_t mac[6])
{
	uint8_t again[6];

	neigh_get(ifindex, addr, again); /* possible, because the mutex is free */
	seen.neighs++;
	seen.ifindex = ifindex;
	seen.addr = *addr;
	seen.state = state;
	memcpy(seen.mac, mac, 6);
}

static void on_link(int ifindex)
{
	struct link link;

	link_get(ifindex, &link);
	seen.links++;
	seen.ifindex = ifindex;
}

/* What events report about addresses: how many came and went, and the last one. */
static struct {
	unsigned came, went;
	struct inaddr addr;
} told;

static void on_addr(const struct endpoint *addr, bool present)
{
	link_of_endpoint(addr); /* possible, because the mutex is free */
	told.came += present;
	told.went += !present;
	told.addr = addr->addr;
}

static const struct netlink_events events = {.neigh = on_neigh, .link = on_link, .addr = on_addr};

static void drain(void)
{
	struct pollfd pfd = {.fd = netlink_fd(), .events = POLLIN};

	while (poll(&pfd, 1, 0) > 0)
		netlink_process();
}

/* Processes events until cond() or the deadline. */
static void wait_for(bool (*cond)(const void *arg), const void *arg, const char *what)
{
	nsec_t end = clock_now() + DEADLINE;

	while (!cond(arg)) {
		struct pollfd pfd = {.fd = netlink_fd(), .events = POLLIN};
		nsec_t left = end - clock_now();

		if (left <= 0)
			fail_msg("waited in vain: %s", what);
		poll(&pfd, 1, (int)(left / NSEC_PER_MSEC) + 1);
		netlink_process();
	}
}

struct neigh_wait {
	const char *addr;
	enum neigh_state state;
};

static bool neigh_seen(const void *arg)
{
	const struct neigh_wait *w = arg;
	struct inaddr addr = addr_of(w->addr);

	return seen.neighs && addr_eq(&seen.addr, &addr) && seen.state == w->state;
}

static void wait_neigh(const char *addr, enum neigh_state state)
{
	wait_for(neigh_seen, &(struct neigh_wait){addr, state}, addr);
	assert_int_equal(seen.ifindex, v0);
}

static bool generation_moved(const void *arg)
{
	return netlink_generation() != *(const uint32_t *)arg;
}

/* ---- tests ------------------------------------------------------------------- */

static void test_links_are_known(void **state)
{
	int lo = (int)if_nametoindex("lo");
	struct link link;
	struct ifreq ifr = {.ifr_name = "v0"};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(link_get(lo, &link), 0);
	assert_true(link.loopback && link.up && !link.ethernet);
	assert_string_equal(link.name, "lo");
	assert_int_equal(link_get(v0, &link), 0);
	assert_true(!link.loopback && link.up && link.ethernet);
	assert_string_equal(link.kind, "veth");
	assert_int_equal(link.mtu, 1500);
	assert_int_equal(link.master, 0);
	assert_int_equal(ioctl(fd, SIOCGIFHWADDR, &ifr), 0);
	assert_memory_equal(link.mac, ifr.ifr_hwaddr.sa_data, 6);
	close(fd);
	assert_int_equal(link_get(9999, &link), -ENODEV);
	assert_int_equal(link_get(0, &link), -ENODEV);
}

static void count_link(const struct link *link, void *arg)
{
	if (strcmp(link->name, "v0") == 0 || strcmp(link->name, "lo") == 0)
		++*(int *)arg;
}

static void test_each_link_is_visited(void **state)
{
	int n = 0;

	link_each(count_link, &n);
	assert_int_equal(n, 2);
	n = 0;
	assert_int_equal(link_each_now(count_link, &n), 0);
	assert_int_equal(n, 2);
}

static void keep_link(const struct link *link, void *arg)
{
	struct link *wanted = arg;

	if (strcmp(link->name, wanted->name) == 0)
		*wanted = *link;
}

static void test_what_stands_on_a_link_is_known_also_while_it_is_not_open(void **state)
{
	struct link bridge = {.name = "b7"}, port = {.name = "y7"}, upper = {.name = "m7"};

	sh("ip link add b7 type bridge && ip link add y7 type veth peer z7 &&"
	   "ip link set y7 master b7 && ip link add m7 link z7 type macvlan");
	netlink_close();
	assert_int_equal(link_each_now(keep_link, &bridge), 0);
	assert_int_equal(link_each_now(keep_link, &port), 0);
	assert_int_equal(link_each_now(keep_link, &upper), 0);
	assert_string_equal(bridge.kind, "bridge");
	assert_int_equal(bridge.lower, 0);
	assert_int_equal(port.master, bridge.ifindex);
	assert_int_equal(port.lower, if_nametoindex("z7")); /* its other end */
	assert_string_equal(upper.kind, "macvlan");
	assert_int_equal(upper.lower, if_nametoindex("z7"));
	assert_false(upper.lower_elsewhere);
	assert_int_equal(link_get(bridge.ifindex, &bridge), -ENODEV); /* it is closed again */
	assert_int_equal(netlink_open(&events), 0);
	sh("ip link del b7 && ip link del y7");
}

static void test_route_types(void **state)
{
	struct route r;

	assert_int_equal(lookup("10.9.0.2", &r), 0);
	assert_int_equal(r.type, ROUTE_UNICAST);
	assert_int_equal(r.ifindex, v0);
	check_addr(&r.src, "10.9.0.1");
	assert_true(addr_is_any(&r.gateway));
	assert_int_equal(r.mtu, 0);
	assert_int_equal(r.metrics.hoplimit, 0);

	assert_int_equal(lookup("10.9.0.1", &r), 0);
	assert_int_equal(r.type, ROUTE_LOCAL);
	check_addr(&r.src, "10.9.0.1");
	assert_int_equal(lookup("127.0.0.1", &r), 0);
	assert_int_equal(r.type, ROUTE_LOCAL);
	assert_int_equal(lookup("10.9.0.255", &r), 0);
	assert_int_equal(r.type, ROUTE_BROADCAST);
	assert_int_equal(lookup("fd09::2", &r), 0);
	assert_int_equal(r.type, ROUTE_UNICAST);
	check_addr(&r.src, "fd09::1");
}

static void test_errors_are_the_kernels(void **state)
{
	struct route r;
	int rc;

	drain();
	assert_int_equal(lookup("192.0.2.1", &r), -ENETUNREACH);
	sh("ip route add unreachable 192.0.2.1");
	assert_int_equal(lookup("192.0.2.1", &r), -EHOSTUNREACH);
	sh("ip route replace prohibit 192.0.2.1");
	assert_int_equal(lookup("192.0.2.1", &r), -EACCES);
	sh("ip route replace blackhole 192.0.2.1");
	assert_int_equal(lookup("192.0.2.1", &r), -EINVAL);
	sh("ip route del blackhole 192.0.2.1");
	drain();
	assert_int_equal(lookup("192.0.2.1", &r), -ENETUNREACH);
	/* a source that is not local: the answer depends on the kernel's version */
	rc = route_get(
		&(struct route_query){.dst = addr_of("10.9.0.2"), .src = addr_of("192.0.2.9")}, &r);
	assert_true(rc == -EINVAL || rc == -ENETUNREACH);
	assert_int_equal(route_get(&(struct route_query){.dst = addr_of("10.9.0.2"),
							 .src = addr_of("fd09::1")},
				   &r),
			 -EAFNOSUPPORT);
}

/* This setting decides whether a sender is accepted. */
static void test_a_change_of_rp_filter_counts(void **state)
{
	uint32_t before;

	sh("echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter");
	drain();
	before = netlink_generation();
	sh("echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter");
	wait_for(generation_moved, &before, "rp_filter is strict");
	before = netlink_generation();
	sh("echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter");
	wait_for(generation_moved, &before, "rp_filter is off");
}

static void test_a_new_default_route_counts_at_once(void **state)
{
	struct route r;
	uint32_t before;

	drain();
	assert_int_equal(lookup("192.0.2.1", &r), -ENETUNREACH);
	before = netlink_generation();
	sh("ip route add default via 10.9.0.2 mtu 1400 hoplimit 9");
	for (int i = 0; i < 2; i++) { /* with its events unread, and then read */
		assert_int_equal(lookup("192.0.2.1", &r), 0);
		assert_int_equal(r.type, ROUTE_UNICAST);
		assert_int_equal(r.ifindex, v0);
		check_addr(&r.src, "10.9.0.1");
		check_addr(&r.gateway, "10.9.0.2");
		assert_int_equal(r.mtu, 1400);
		assert_int_equal(r.metrics.hoplimit, 9);
		wait_for(generation_moved, &before, "a route came");
	}
	assert_int_equal(lookup("224.1.2.3", &r), 0);
	assert_int_equal(r.type, ROUTE_MULTICAST);

	before = netlink_generation();
	sh("ip route del default");
	assert_int_equal(lookup("192.0.2.1", &r), -ENETUNREACH);
	wait_for(generation_moved, &before, "a route went");
	assert_int_equal(lookup("192.0.2.1", &r), -ENETUNREACH);
}

/* What was looked up for a destination holds until a route to it changes. */
static void test_what_a_route_says(void **state)
{
	struct route r;

	sh("ip route add 10.7.0.0/24 via 10.9.0.2 mtu 1300 initcwnd 20 rto_min 50ms quickack 1 hoplimit 33");
	drain();
	assert_int_equal(lookup("10.7.0.1", &r), 0);
	assert_int_equal(r.mtu, 1300);
	assert_int_equal(r.metrics.initcwnd, 20);
	assert_int_equal(r.metrics.rto_min, 50);
	assert_true(r.metrics.quickack);
	assert_int_equal(r.metrics.hoplimit, 33);
	sh("ip route change 10.7.0.0/24 via 10.9.0.2 initcwnd 100000");
	drain();
	assert_int_equal(lookup("10.7.0.1", &r), 0);
	assert_int_equal(r.metrics.initcwnd, UINT16_MAX);
	assert_int_equal(r.metrics.rto_min, 0);
	assert_false(r.metrics.quickack);
	assert_int_equal(r.metrics.hoplimit, 0);
	sh("ip route change 10.7.0.0/24 via 10.9.0.2 advmss 1000 window 50000 initrwnd 12 features ecn "
	   "congctl lock reno");
	drain();
	assert_int_equal(lookup("10.7.0.1", &r), 0);
	assert_int_equal(r.metrics.advmss, 1000);
	assert_int_equal(r.metrics.window, 50000);
	assert_int_equal(r.metrics.initrwnd, 12);
	assert_true(r.metrics.ecn && r.metrics.cc_locked);
	assert_int_equal(r.metrics.cc, ROUTE_CC_FIRST + (unsigned)tcp_cc_number_of("reno"));
	sh("ip route change 10.7.0.0/24 via 10.9.0.2 initrwnd 100000 congctl cubic");
	drain();
	assert_int_equal(lookup("10.7.0.1", &r), 0);
	assert_int_equal(r.metrics.initrwnd, UINT16_MAX);
	assert_int_equal(r.metrics.advmss, 0);
	assert_int_equal(r.metrics.window, 0);
	assert_false(r.metrics.ecn || r.metrics.cc_locked);
	assert_int_equal(r.metrics.cc, ROUTE_CC_FIRST + (unsigned)tcp_cc_number_of("cubic"));
	sh("ip route del 10.7.0.0/24");
	drain();
}

static void test_a_route_concerns_its_destinations_only(void **state)
{
	struct inaddr near = addr_of("10.9.0.2"), far = addr_of("192.0.2.1");
	uint32_t before;

	drain();
	before = netlink_generation();
	sh("ip route add 198.51.100.0/24 via 10.9.0.2");
	sh("ip route del 198.51.100.0/24");
	sh("ip -6 route add 2001:db8::/32 via fd09::2 dev v0");
	sh("ip -6 route del 2001:db8::/32");
	drain();
	assert_int_not_equal(netlink_generation(), before);
	assert_int_equal(netlink_still(before, &near), netlink_generation());
	assert_int_equal(netlink_still(before, &far), netlink_generation());

	before = netlink_generation();
	sh("ip route add 192.0.2.0/24 via 10.9.0.2");
	wait_for(generation_moved, &before, "a route came");
	assert_int_equal(netlink_still(before, &near), netlink_generation());
	assert_int_equal(netlink_still(before, &far), 0);

	before = netlink_generation();
	sh("ip route del 192.0.2.0/24");
	wait_for(generation_moved, &before, "a route went");
	assert_int_equal(netlink_still(before, &near), netlink_generation());
	assert_int_equal(netlink_still(before, &far), 0);

	before = netlink_generation();
	sh("ip route add default via 10.9.0.2");
	wait_for(generation_moved, &before, "a default route came");
	assert_int_equal(netlink_still(before, &far), 0);
	before = netlink_generation();
	sh("ip route del default");
	wait_for(generation_moved, &before, "a default route went");
	before = netlink_generation();
	sh("ip addr add 10.77.0.1/24 dev v0");
	wait_for(generation_moved, &before, "an address came");
	assert_int_equal(netlink_still(before, &far), 0);
	sh("ip addr del 10.77.0.1/24 dev v0");
	drain();
}

static void test_a_gateway_of_the_other_family(void **state)
{
	struct route r;

	sh("ip route add 192.0.2.0/24 via inet6 fd09::2 dev v0");
	assert_int_equal(lookup("192.0.2.1", &r), 0);
	assert_int_equal(r.type, ROUTE_UNICAST);
	check_addr(&r.gateway, "fd09::2");
	sh("ip route del 192.0.2.0/24");
	drain();
}

static void test_rules_of_the_kernel_apply(void **state)
{
	struct route_query marked = {.dst = addr_of("192.0.2.1"), .mark = 7}, plain = marked;
	struct route r;
	uint32_t before;

	plain.mark = 0;
	sh("ip route add 192.0.2.0/24 via 10.9.0.3 table 100");
	drain();
	before = netlink_generation();
	sh("ip rule add fwmark 7 lookup 100");
	wait_for(generation_moved, &before, "a rule came");
	assert_int_equal(route_get(&marked, &r), 0);
	check_addr(&r.gateway, "10.9.0.3");
	assert_int_equal(route_get(&plain, &r), -ENETUNREACH);
	sh("ip rule del fwmark 7");
	sh("ip route flush table 100");
	drain();
	assert_int_equal(route_get(&marked, &r), -ENETUNREACH);
}

static void test_the_cache_answers_as_the_kernel_does(void **state)
{
	struct route first, again;

	drain();
	for (int i = 0; i < 10000; i++) { /* more than there are slots */
		struct route_query q = {.dst = addr_v4(htonl(0x0a090002 + (uint32_t)i % 250)),
					.oif = i % 3 ? v0 : 0,
					.tos = (uint8_t)(i / 250 % 40 * 4)};
		int rc = route_get(&q, &first);

		assert_int_equal(route_get(&q, &again), rc);
		assert_int_equal(rc, 0);
		assert_int_equal(first.ifindex, again.ifindex);
		assert_true(addr_eq(&first.src, &again.src));
		assert_int_equal(first.type, again.type);
	}
}

static void test_addresses_come_and_go(void **state)
{
	struct inaddr addr = addr_of("10.9.1.1"), addrs[8];
	uint32_t before;
	struct route r;
	int n;

	drain();
	assert_int_equal(link_of_addr(&addr), 0);
	n = link_addrs(v0, addrs, 8);
	seen.links = 0;
	memset(&told, 0, sizeof(told));
	before = netlink_generation();
	sh("ip addr add 10.9.1.1/24 dev v0");
	assert_int_equal(link_of_addr(&addr), v0); /* its event was not read */
	assert_int_equal(lookup("10.9.1.1", &r), 0);
	assert_int_equal(r.type, ROUTE_LOCAL);
	wait_for(generation_moved, &before, "an address came");
	drain();
	assert_true(seen.links > 0);
	assert_int_equal(seen.ifindex, v0);
	assert_int_equal(link_of_addr(&addr), v0);
	assert_int_equal(link_addrs(v0, addrs, 8), n + 1);
	assert_int_equal(link_addrs(v0, addrs, 0), n + 1);
	assert_int_equal(told.came, 1);
	check_addr(&told.addr, "10.9.1.1");

	/* twice, with two prefixes: it stays until both are removed */
	sh("ip addr add 10.9.1.1/32 dev v0");
	drain();
	sh("ip addr del 10.9.1.1/24 dev v0");
	drain();
	assert_int_equal(link_of_addr(&addr), v0);
	assert_int_equal(told.went, 0);
	sh("ip addr del 10.9.1.1/32 dev v0");
	drain();
	assert_int_equal(told.went, 1);
	assert_int_equal(link_of_addr(&addr), 0);
	assert_int_equal(link_addrs(v0, addrs, 8), n);
}

static void test_ipv4_addresses_come_first(void **state)
{
	struct inaddr addrs[8];
	int n = link_addrs(v0, addrs, 8);

	assert_true(n >= 2);
	check_addr(&addrs[0], "10.9.0.1");
	assert_false(addr_is_v4(&addrs[n - 1]));
}

static bool no_link(const void *arg)
{
	struct link link;

	return link_get(*(const int *)arg, &link) == -ENODEV;
}

static void test_links_come_and_go(void **state)
{
	struct inaddr addr = addr_of("10.9.2.1");
	struct link link;
	int v2;

	drain();
	sh("ip link add v2 type veth peer name v3");
	v2 = (int)if_nametoindex("v2");
	assert_int_equal(link_get(v2, &link), 0); /* its event was not read */
	assert_string_equal(link.kind, "veth");
	assert_false(link.up);
	seen.links = 0;
	drain();
	assert_true(seen.links > 0);
	assert_int_equal(link_get(v2, &link), 0);
	assert_false(link.up);

	sh("ip link set v2 up");
	drain();
	assert_int_equal(link_get(v2, &link), 0);
	assert_true(link.up && !link.running); /* the other end is down */
	sh("ip link set v3 up; ip link set v2 mtu 9000;"
	   "ip addr add 10.9.2.1/24 dev v2");
	drain();
	assert_int_equal(link_get(v2, &link), 0);
	assert_int_equal(link.mtu, 9000);
	assert_int_equal(link_of_addr(&addr), v2);

	seen.links = 0;
	sh("ip link del v2");
	wait_for(no_link, &v2, "v2 went");
	drain();
	assert_true(seen.links > 0);
	assert_int_equal(link_of_addr(&addr), 0);
}

static bool v0_up(const void *arg)
{
	struct link link;

	return link_get(v0, &link) == 0 && link.up == *(const bool *)arg;
}

static void test_no_route_through_a_link_that_is_down(void **state)
{
	struct route r;

	drain();
	assert_int_equal(lookup("10.9.0.2", &r), 0);
	sh("ip link set v0 down");
	assert_int_equal(lookup("10.9.0.2", &r), -ENETUNREACH);
	wait_for(v0_up, &(bool){false}, "v0 is down");
	drain();
	assert_int_equal(lookup("10.9.0.2", &r), -ENETUNREACH);
	sh("ip link set v0 up");
	wait_for(v0_up, &(bool){true}, "v0 is up");
	drain();
	assert_int_equal(lookup("10.9.0.2", &r), 0);
	sh("ip addr add fd09::1/64 dev v0 nodad"); /* the event that was lost */
	drain();
}

static void test_a_neighbour_is_resolved(void **state)
{
	struct inaddr addr = addr_of("10.9.0.2");
	uint8_t mac[6], want[6] = {2, 0, 0, 0, 9, 2};

	sh("ip neigh flush dev v0");
	drain();
	assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_UNKNOWN);
	seen.neighs = 0;
	assert_int_equal(neigh_use(v0, &addr), 0);
	wait_neigh("10.9.0.2", NEIGH_REACHABLE);
	assert_memory_equal(seen.mac, want, 6);
	assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
	assert_memory_equal(mac, want, 6);

	/* again: it is known, and no event is reported */
	drain();
	seen.neighs = 0;
	assert_int_equal(neigh_use(v0, &addr), 0);
	drain();
	assert_int_equal(seen.neighs, 0);
}

static void test_a_known_neighbour_is_found_before_its_event_is_read(void **state)
{
	struct inaddr addr = addr_of("10.9.0.50");
	uint8_t mac[6], want[6] = {2, 0, 0, 0, 0, 50};

	drain();
	seen.neighs = 0;
	sh("ip neigh add 10.9.0.50 lladdr 02:00:00:00:00:32 dev v0");
	assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
	assert_memory_equal(mac, want, 6);
	wait_neigh("10.9.0.50", NEIGH_REACHABLE); /* a thread that waits is told nevertheless */
	assert_memory_equal(seen.mac, want, 6);
}

static void test_a_neighbour_changes_and_goes(void **state)
{
	uint8_t mac[6], want[6] = {2, 0, 0, 0, 0, 0x33};
	struct inaddr addr = addr_of("10.9.0.50");

	drain();
	seen.neighs = 0;
	sh("ip neigh replace 10.9.0.50 lladdr 02:00:00:00:00:33 dev v0 nud reachable");
	wait_neigh("10.9.0.50", NEIGH_REACHABLE);
	assert_memory_equal(seen.mac, want, 6);
	drain();
	seen.neighs = 0;
	sh("ip neigh replace 10.9.0.50 lladdr 02:00:00:00:00:33 dev v0 nud stale");
	drain();
	assert_int_equal(seen.neighs, 0); /* a stale entry is usable */
	assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
	sh("ip neigh del 10.9.0.50 dev v0");
	drain();
	assert_int_not_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
	assert_int_not_equal(seen.state, NEIGH_REACHABLE);
}

/* An administrator has set it: it is not made one that is resolved. */
static void test_a_neighbour_that_is_set_stays_so(void **state)
{
	static const char *const kinds[] = {"permanent", "noarp"};
	struct inaddr addr = addr_of("10.9.0.51");
	uint8_t mac[6];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		sh("ip neigh replace 10.9.0.51 lladdr 02:00:00:00:00:34 dev v0 nud %s", kinds[i]);
		drain();
		seen.neighs = 0;
		assert_int_equal(neigh_use(v0, &addr), 0);
		sh("ip neigh show nud %s dev v0 | grep -q '^10.9.0.51 '", kinds[i]);
		drain();
		assert_int_equal(seen.neighs, 0);
		assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
		/* ... and before its event is read */
		sh("ip neigh del 10.9.0.51 dev v0");
		drain();
		sh("ip neigh add 10.9.0.51 lladdr 02:00:00:00:00:34 dev v0 nud %s", kinds[i]);
		assert_int_equal(neigh_use(v0, &addr), 0);
		sh("ip neigh show nud %s dev v0 | grep -q '^10.9.0.51 '", kinds[i]);
	}
	sh("ip neigh del 10.9.0.51 dev v0");
	drain();
}

static void test_a_neighbour_that_does_not_answer_fails_each_time(void **state)
{
	struct inaddr addr = addr_of("10.9.0.77");
	uint8_t mac[6];

	drain();
	for (int i = 0; i < 3; i++) {
		seen.neighs = 0;
		assert_int_equal(neigh_use(v0, &addr), 0);
		wait_neigh("10.9.0.77", NEIGH_FAILED);
		assert_int_not_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
	}
}

/* Its event is pending while it is requested again, and does not answer the new request. */
static void test_a_failure_of_before_is_none(void **state)
{
	struct inaddr addr = addr_of("10.9.0.78");

	drain();
	assert_int_equal(neigh_use(v0, &addr), 0);
	sh("for i in $(seq 1 100); do ip neigh show 10.9.0.78 dev v0 | grep -q FAILED && break; sleep 0.1; done");
	seen.neighs = 0;
	assert_int_equal(neigh_use(v0, &addr), 0);
	drain();
	assert_int_equal(seen.neighs, 0);
	wait_neigh("10.9.0.78", NEIGH_FAILED);
}

static void test_neighbours_of_ipv6(void **state)
{
	struct inaddr addr = addr_of("fd09::2");
	uint8_t mac[6], want[6] = {2, 0, 0, 0, 9, 2};

	drain();
	seen.neighs = 0;
	assert_int_equal(neigh_use(v0, &addr), 0);
	wait_neigh("fd09::2", NEIGH_REACHABLE);
	assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
	assert_memory_equal(mac, want, 6);
}

/* The kernel asks by a link-local address only when that is known to be nobody else's. */
static void test_a_neighbour_of_ipv6_while_the_link_local_address_is_tentative(void **state)
{
	struct inaddr addr = addr_of("fd09::2");
	uint8_t mac[6];

	set_sysctl("/proc/sys/net/ipv6/conf/v0/accept_dad", "1");
	set_sysctl("/proc/sys/net/ipv6/conf/v0/dad_transmits", "10000"); /* one a second */
	sh("ip addr del $(ip -o -6 addr show dev v0 scope link | awk '{ print $4 }') dev v0");
	sh("ip addr add fe80::77/64 dev v0");
	sh("ip neigh del fd09::2 dev v0 2> /dev/null || true");
	drain();
	seen.neighs = 0;
	assert_int_equal(neigh_use(v0, &addr), 0);
	wait_neigh("fd09::2", NEIGH_REACHABLE);
	assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
	sh("ip -o -6 addr show dev v0 scope link | grep -q 'fe80::77.*tentative'");
	sh("ip addr del fe80::77/64 dev v0");
	sh("ip addr add fe80::78/64 dev v0 nodad");
	set_sysctl("/proc/sys/net/ipv6/conf/v0/dad_transmits", "1");
}

/* Without CAP_NET_ADMIN a datagram makes the kernel resolve it. */
static void test_a_neighbour_is_resolved_without_privileges(void **state)
{
	static const char *const texts[] = {"10.9.0.2", "fd09::2"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct inaddr addr = addr_of(texts[i]);
		uint8_t mac[6];
		int rc;

		sh("ip neigh del %s dev v0 2> /dev/null || true", texts[i]);
		drain();
		seen.neighs = 0;
		assert_int_equal(seteuid(65534), 0);
		rc = neigh_use(v0, &addr);
		assert_int_equal(seteuid(0), 0);
		assert_int_equal(rc, 0);
		wait_neigh(texts[i], NEIGH_REACHABLE);
		assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_REACHABLE);
	}
}

static void test_no_neighbour_on_a_link_that_is_not_there(void **state)
{
	struct inaddr addr = addr_of("10.9.0.2");
	uint8_t mac[6];

	assert_int_equal(neigh_use(9999, &addr), -ENODEV);
	assert_int_equal(neigh_get(9999, &addr, mac), NEIGH_UNKNOWN);
}

static void change_many(const char *verb)
{
	sh("for i in $(seq 1 200); do echo addr %s 10.10.0.$i/32 dev v0; done | ip -batch -", verb);
}

/* More events than the socket holds: afterwards the tables are correct again. */
static void test_lost_events_are_made_up_for(void **state)
{
	static struct inaddr addrs[1024];
	struct inaddr neigh = addr_of("10.9.0.60");
	int bytes = 4096, n, v2;
	uint32_t before;
	uint8_t mac[6];

	sh("ip neigh add 10.9.0.60 lladdr 02:00:00:00:00:3c dev v0");
	sh("ip link add v2 type veth peer name v3");
	v2 = (int)if_nametoindex("v2");
	drain();
	n = link_addrs(v0, addrs, 0);
	assert_int_equal(setsockopt(netlink_fd(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	change_many("add");
	before = netlink_generation();
	drain();
	assert_int_not_equal(netlink_generation(), before);
	assert_int_equal(link_addrs(v0, addrs, 1024), n + 200);

	/* The last events are lost. */
	change_many("del");
	sh("ip neigh del 10.9.0.60 dev v0; ip link del v2");
	seen.neighs = seen.links = 0;
	told.went = 0;
	drain();
	assert_int_equal(told.went, 200);
	assert_int_equal(link_addrs(v0, addrs, 1024), n);
	assert_true(no_link(&v2));
	assert_int_equal(neigh_get(v0, &neigh, mac), NEIGH_UNKNOWN);
	assert_int_equal(seen.neighs, 1);
	assert_true(addr_eq(&seen.addr, &neigh) && seen.state == NEIGH_UNKNOWN);
	assert_true(seen.links > 200);
}

static void test_a_child_closes_and_opens_its_own(void **state)
{
	int fd = netlink_fd(), status;
	struct route r;
	pid_t pid = fork();

	if (pid == 0) {
		int ok;

		netlink_close();
		ok = netlink_fd() == -1 && lookup("10.9.0.2", &r) == -ENOTCONN &&
		     netlink_open(&events) == 0 && lookup("10.9.0.2", &r) == 0;
		netlink_close();
		_exit(!ok);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(netlink_fd(), fd);
	assert_int_equal(lookup("10.9.0.2", &r), 0);
}

static void test_closed_it_knows_nothing(void **state)
{
	struct inaddr addr = addr_of("10.9.0.1");
	uint32_t generation = netlink_generation();
	struct link link;
	struct route r;
	uint8_t mac[6];

	assert_int_equal(netlink_open(&events), -EALREADY);
	netlink_close();
	netlink_close();
	netlink_process();
	assert_int_equal(netlink_fd(), -1);
	assert_int_not_equal(netlink_generation(), generation);
	assert_int_equal(lookup("10.9.0.2", &r), -ENOTCONN);
	assert_int_equal(link_get(v0, &link), -ENODEV);
	assert_int_equal(link_of_addr(&addr), 0);
	assert_int_equal(link_addrs(v0, &addr, 1), 0);
	assert_int_equal(neigh_get(v0, &addr, mac), NEIGH_UNKNOWN);
	assert_int_equal(neigh_use(v0, &addr), -ENOTCONN);
	assert_int_equal(netlink_open(&events), 0);
	assert_int_equal(link_get(v0, &link), 0);
}

/* ---- the two namespaces ----------------------------------------------------------- */

static int make_network(void **state)
{
	struct inaddr addr = addr_of("10.9.0.1");
	struct link link;
	uint8_t mac[6];
	int ready[2];
	char c = 0;

	/* Before it was opened. */
	assert_int_equal(link_get(1, &link), -ENODEV);
	assert_int_equal(neigh_get(1, &addr, mac), NEIGH_UNKNOWN);
	netlink_close();

	clock_init();
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	assert_int_equal(pipe(ready), 0);
	peer = fork();
	assert_true(peer >= 0);
	if (peer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNET) || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	sh("ip link set lo up");
	sh("ip link add v0 type veth peer name v1 address 02:00:00:00:09:02 netns %d", peer);
	sh("nsenter --net=/proc/%d/ns/net sh -ec 'ip link set v1 up;"
	   "ip addr add 10.9.0.2/24 dev v1; ip addr add fd09::2/64 dev v1 nodad'",
	   peer);
	/* Else its own address comes some second later, in the middle of a test. */
	set_sysctl("/proc/sys/net/ipv6/conf/v0/accept_dad", "0");
	sh("ip link set v0 up; ip addr add 10.9.0.1/24 dev v0;"
	   "ip addr add fd09::1/64 dev v0 nodad");
	set_sysctl("/proc/sys/net/ipv4/neigh/v0/retrans_time_ms", "50");
	v0 = (int)if_nametoindex("v0");
	assert_int_equal(netlink_open(&events), 0);
	wait_for(v0_up, &(bool){true}, "v0 is up");
	return 0;
}

static int end_network(void **state)
{
	netlink_close();
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_links_are_known),
	cmocka_unit_test(test_each_link_is_visited),
	cmocka_unit_test(test_what_stands_on_a_link_is_known_also_while_it_is_not_open),
	cmocka_unit_test(test_route_types),
	cmocka_unit_test(test_errors_are_the_kernels),
	cmocka_unit_test(test_a_change_of_rp_filter_counts),
	cmocka_unit_test(test_a_new_default_route_counts_at_once),
	cmocka_unit_test(test_what_a_route_says),
	cmocka_unit_test(test_a_route_concerns_its_destinations_only),
	cmocka_unit_test(test_a_gateway_of_the_other_family),
	cmocka_unit_test(test_rules_of_the_kernel_apply),
	cmocka_unit_test(test_the_cache_answers_as_the_kernel_does),
	cmocka_unit_test(test_addresses_come_and_go),
	cmocka_unit_test(test_ipv4_addresses_come_first),
	cmocka_unit_test(test_links_come_and_go),
	cmocka_unit_test(test_a_neighbour_is_resolved),
	cmocka_unit_test(test_a_known_neighbour_is_found_before_its_event_is_read),
	cmocka_unit_test(test_a_neighbour_changes_and_goes),
	cmocka_unit_test(test_a_neighbour_that_is_set_stays_so),
	cmocka_unit_test(test_a_neighbour_that_does_not_answer_fails_each_time),
	cmocka_unit_test(test_a_failure_of_before_is_none),
	cmocka_unit_test(test_neighbours_of_ipv6),
	cmocka_unit_test(test_a_neighbour_of_ipv6_while_the_link_local_address_is_tentative),
	cmocka_unit_test(test_a_neighbour_is_resolved_without_privileges),
	cmocka_unit_test(test_no_neighbour_on_a_link_that_is_not_there),
	cmocka_unit_test(test_lost_events_are_made_up_for),
	cmocka_unit_test(test_no_route_through_a_link_that_is_down),
	cmocka_unit_test(test_a_child_closes_and_opens_its_own),
	cmocka_unit_test(test_closed_it_knows_nothing),
};

VMA_TEST_MAIN("netlink", tests, make_network, end_network)
