/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The xdp port on veth pairs:
 *
 *	+-------------- here ----------------+   +------ peer ------+
 *	|  port_xdp -- XDP                    |   |                  |
 *	|  sniffer  --  v0  10.77.0.1 --------+---+-- v1 -- injector |
 *	|              (MAC 02:..:01)         |   |                  |
 *	|               q0  4 RX queues ------+---+-- q1             |
 *	|               t0  4 RX, 2 TX -------+---+-- t1  the same   |
 *	|               g0  MTU 3500 ---------+---+-- g1  2 TX queues|
 *	|               j0  MTU 9000 ---------+---+-- j1             |
 *	|               h0  MTU 9000 ---------+---+-- h1  2 TX queues|
 *	+-------------------------------------+   +------------------+
 *
 * g0 and h0 have one RX queue, too few for native XDP with such a peer.
 *
 * A packet socket on the peer's end injects frames.  They arrive at the port or,
 * when the program passes them, at a packet socket on our end.  Each frame has
 * a number in its last eight bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/param.h"
#include "net/netlink/netlink.h"
#include "ring/xdp/xdp_internal.h"
#include "xdp_fixture.h"

#define FRAMES_SLACK 64 /* number of frames that a fill ring may lack between two batches */

/* ---- steering --------------------------------------------------------------- */

#define UDP IPPROTO_UDP
#define TCP IPPROTO_TCP

static const uint8_t other_mac[6] = {2, 0, 0, 0, 0, 9};
static const uint8_t group_mac[6] = {1, 0, 0x5e, 1, 2, 3};
static const uint8_t all_mac[6] = {255, 255, 255, 255, 255, 255};

static const struct spec plain = {"plain UDP", .vlan = -1, .proto = UDP, .dport = 7000};

static const struct spec steered[] = {
	{"UDP to the 3-tuple", .vlan = -1, .proto = UDP, .dport = 7000},
	{"UDP from somebody else", .vlan = -1, .proto = UDP, .dport = 7000, .saddr = "10.9.9.9"},
	{"TCP to the 3-tuple", .vlan = -1, .proto = TCP, .dport = 7001},
	{"TCP of the 5-tuple", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4000},
	{"do not fragment", .vlan = -1, .proto = UDP, .dport = 7000, .frag_off = 0x4000},
	{"priority tag, no VLAN", .vlan = 5 << 13, .proto = UDP, .dport = 7000},
	{"multicast", .vlan = -1, .dst = group_mac, .proto = UDP, .dport = 7003,
	 .daddr = "239.1.2.3"},
};

static const struct spec passed[] = {
	{"UDP to a port of TCP", .vlan = -1, .proto = UDP, .dport = 7001},
	{"unregistered port", .vlan = -1, .proto = UDP, .dport = 7009},
	{"another address", .vlan = -1, .proto = UDP, .dport = 7000, .daddr = "10.77.0.9"},
	{"5-tuple, another source port", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4001},
	{"5-tuple, another source", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4000,
	 .saddr = "10.77.0.3"},
	{"first fragment", .vlan = -1, .proto = UDP, .dport = 7000, .frag_off = 0x2000},
	{"last fragment", .vlan = -1, .proto = UDP, .dport = 7000, .frag_off = 0x0010},
	{"another VLAN", .vlan = 100, .proto = UDP, .dport = 7000},
	{"another station", .vlan = -1, .dst = other_mac, .proto = UDP, .dport = 7000},
	{"to all stations", .vlan = -1, .dst = all_mac, .proto = UDP, .dport = 7000},
	{"another group", .vlan = -1, .dst = group_mac, .proto = UDP, .dport = 7003,
	 .daddr = "239.1.2.4"},
	{"ICMP", .vlan = -1, .proto = IPPROTO_ICMP, .dport = 7000},
	{"ARP", .vlan = -1, .ethertype = ETH_P_ARP, .proto = UDP, .dport = 7000},
	{"IPv6", .vlan = -1, .ethertype = ETH_P_IPV6, .proto = UDP, .dport = 7000},
	{"IP options", .vlan = -1, .proto = UDP, .dport = 7000, .ihl = 6},
	{"most IP options", .vlan = -1, .proto = TCP, .dport = 7001, .ihl = 15},
	{"header length below the minimum", .vlan = -1, .proto = UDP, .dport = 7000, .ihl = 1},
};

static void test_registered_flows_are_steered_and_all_else_is_passed(void **state)
{
	struct fixture *f = *state;

	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	add_flow(f, key3(TCP, "10.77.0.1", 7001));
	add_flow(f, key5(TCP, "10.77.0.1", 7002, "10.77.0.2", 4000));
	add_flow(f, key3(UDP, "239.1.2.3", 7003));
	for (size_t i = 0; i < sizeof(steered) / sizeof(*steered); i++)
		expect_steered(f, &steered[i]);
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		expect_passed(f, &passed[i]);
}

static const uint8_t group6_mac[6] = {0x33, 0x33, 0, 0, 0, 5};

static const struct spec steered6[] = {
	{"UDP to the 3-tuple", .vlan = -1, .proto = UDP, .dport = 7000, .daddr = "fd77::1"},
	{"UDP from somebody else", .vlan = -1, .proto = UDP, .dport = 7000, .saddr = "fd99::9",
	 .daddr = "fd77::1"},
	{"TCP to the 3-tuple", .vlan = -1, .proto = TCP, .dport = 7001, .daddr = "fd77::1"},
	{"TCP of the place", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4000,
	 .daddr = "fd77::1"},
	{"TCP of the 5-tuple", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4001,
	 .daddr = "fd77::1"},
	{"of a link-local address", .vlan = -1, .proto = UDP, .dport = 7004, .saddr = "fe80::9",
	 .daddr = "fe80::1"},
	{"priority tag, no VLAN", .vlan = 5 << 13, .proto = UDP, .dport = 7000, .daddr = "fd77::1"},
	{"multicast", .vlan = -1, .dst = group6_mac, .proto = UDP, .dport = 7003,
	 .daddr = "ff15::5"},
};

static const struct spec passed6[] = {
	{"IPv4 to the same port", .vlan = -1, .proto = UDP, .dport = 7000},
	{"UDP to a port of TCP", .vlan = -1, .proto = UDP, .dport = 7001, .daddr = "fd77::1"},
	{"unregistered port", .vlan = -1, .proto = UDP, .dport = 7009, .daddr = "fd77::1"},
	{"another address", .vlan = -1, .proto = UDP, .dport = 7000, .daddr = "fd77::9"},
	{"another address, first half", .vlan = -1, .proto = UDP, .dport = 7000,
	 .daddr = "fd78::1"},
	{"5-tuple, another source port", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4002,
	 .daddr = "fd77::1"},
	{"place, another source", .vlan = -1, .proto = TCP, .dport = 7002, .sport = 4000,
	 .saddr = "fd77::3", .daddr = "fd77::1"},
	{"another VLAN", .vlan = 100, .proto = UDP, .dport = 7000, .daddr = "fd77::1"},
	{"another station", .vlan = -1, .dst = other_mac, .proto = UDP, .dport = 7000,
	 .daddr = "fd77::1"},
	{"unicast to a group's MAC address", .vlan = -1, .dst = group6_mac, .proto = UDP,
	 .dport = 7000, .daddr = "fd77::1"},
	{"another group", .vlan = -1, .dst = group6_mac, .proto = UDP, .dport = 7003,
	 .daddr = "ff15::6"},
	{"a group of this node", .vlan = -1, .dst = group6_mac, .proto = UDP, .dport = 7003,
	 .daddr = "ff11::5"},
	{"multicast sender", .vlan = -1, .proto = UDP, .dport = 7000, .saddr = "ff02::1",
	 .daddr = "fd77::1"},
	{"no sender", .vlan = -1, .proto = UDP, .dport = 7000, .saddr = "::", .daddr = "fd77::1"},
	{"loopback sender", .vlan = -1, .proto = UDP, .dport = 7000, .saddr = "::1",
	 .daddr = "fd77::1"},
	{"mapped sender", .vlan = -1, .proto = UDP, .dport = 7000, .saddr = "::ffff:10.77.0.2",
	 .daddr = "fd77::1"},
	{"mapped destination", .vlan = -1, .proto = UDP, .dport = 7005,
	 .daddr = "::ffff:10.77.0.1"},
	{"ICMPv6", .vlan = -1, .proto = IPPROTO_ICMPV6, .dport = 7000, .daddr = "fd77::1"},
	{"fragment", .vlan = -1, .proto = UDP, .dport = 7000, .daddr = "fd77::1", .ext = 44},
	{"hop-by-hop options", .vlan = -1, .proto = UDP, .dport = 7000, .daddr = "fd77::1",
	 .ext = -1},
	{"destination options", .vlan = -1, .proto = UDP, .dport = 7000, .daddr = "fd77::1",
	 .ext = 60},
	{"as IPv4", .vlan = -1, .ethertype = ETH_P_IP, .proto = UDP, .dport = 7000,
	 .daddr = "fd77::1"},
};

static void test_flows_of_ip6_are_steered_and_all_else_is_passed(void **state)
{
	struct fixture *f = *state;

	expect_passed(f, &steered6[0]);
	add_flow(f, key3(UDP, "fd77::1", 7000));
	add_flow(f, key3(TCP, "fd77::1", 7001));
	add_flow(f, key5(TCP, "fd77::1", 7002, "fd77::2", 4000));
	add_flow(f, key5(TCP, "fd77::1", 7002, "fd77::2", 4001));
	add_flow(f, key3(UDP, "ff15::5", 7003));
	add_flow(f, key3(UDP, "fe80::1", 7004));
	add_flow(f, key3(UDP, "10.77.0.1", 7005));
	add_flow(f, key3(UDP, "ff11::5", 7003)); /* the kernel drops its frames */
	for (size_t i = 0; i < sizeof(steered6) / sizeof(*steered6); i++)
		expect_steered(f, &steered6[i]);
	for (size_t i = 0; i < sizeof(passed6) / sizeof(*passed6); i++)
		expect_passed(f, &passed6[i]);
	del_flow(f, key5(TCP, "fd77::1", 7002, "fd77::2", 4000));
	expect_passed(f, &steered6[3]);
	expect_steered(f, &steered6[4]);
	del_flow(f, key5(TCP, "fd77::1", 7002, "fd77::2", 4001));
	expect_passed(f, &steered6[4]);
	del_flow(f, key3(UDP, "fd77::1", 7000));
	expect_passed(f, &steered6[0]);
}

/* Without the exact flow, which the addresses of another flow with the same alias do not have. */
static void test_an_alias_alone_steers_nothing(void **state)
{
	struct fixture *f = *state;
	struct xdp_port *port = (struct xdp_port *)f->port;
	struct flow_key keys[] = {key3(UDP, "fd77::1", 7000), key3(TCP, "fd77::1", 7001),
				  key5(TCP, "fd77::1", 7002, "fd77::2", 4000),
				  key5(TCP, "fd77::1", 7002, "fd77::2", 4001)};
	static const unsigned of[] = {0, 2, 3, 4};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		add_flow(f, keys[i]);
	add_flow(f, key3(UDP, "fe80::1", 7004)); /* so that the map is not empty */
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		struct xdp_steer_exact exact = xdp_exact_of(&keys[i]);

		expect_steered(f, &steered6[of[i]]);
		xdp_exact_drop(port, &exact, ((struct xdp_queue *)f->q)->slot);
		expect_passed(f, &steered6[of[i]]);
	}
}

static void test_a_flow_is_steered_while_it_is_registered(void **state)
{
	struct fixture *f = *state;
	struct flow_key three = key3(UDP, "10.77.0.1", 7000);
	struct flow_key five = key5(UDP, "10.77.0.1", 7000, "10.77.0.2", 5000);

	expect_passed(f, &plain);
	add_flow(f, three);
	expect_steered(f, &plain);
	add_flow(f, five);
	del_flow(f, three);
	expect_steered(f, &plain);
	del_flow(f, five);
	expect_passed(f, &plain);
}

/* The port gets neither: a frame for the flow that has its address shows that it was passed. */
static void expect_dropped(struct fixture *f, const struct spec *s)
{
	inject(f, s);
	expect_steered(f, &plain);
}

static void no_neigh(int ifindex, const struct inaddr *addr, enum neigh_state state,
		     const uint8_t mac[6])
{
}

static void no_link(int ifindex)
{
}

/* The kernel makes an IPv6 address usable a little later, also without detection of duplicates. */
static void await_addr(const struct inaddr *addr, bool present)
{
	nsec_t end = clock_now() + DEADLINE;

	while ((link_of_addr(addr) != 0) != present) {
		struct pollfd pfd = {.fd = netlink_fd(), .events = POLLIN};

		assert_true(clock_now() < end);
		poll(&pfd, 1, 100);
		netlink_process();
	}
	netlink_process();
}

/* Text that is an address of lo for a while; peer: a sender of its family. */
static void address_goes_and_comes_back(struct fixture *f, const char *text, const char *peer)
{
	const struct spec of_map = {"the address that goes", .vlan = -1, .proto = UDP,
				    .dport = 7000, .daddr = text};
	const struct spec of_place = {"its connection", .vlan = -1,    .proto = TCP,
				      .dport = 7002,	.sport = 4000, .daddr = text};
	const struct spec nobodys = {"a port without a flow", .vlan = -1, .proto = UDP,
				     .dport = 7009, .daddr = text};
	struct inaddr addr = addr_of(text);

	add_flow(f, key3(UDP, text, 7000));
	add_flow(f, key5(TCP, text, 7002, peer, 4000));
	f->port->ops->addrs_gone(f->port, NULL, 0);
	expect_steered(f, &of_map);
	for (int i = 0; i < 2; i++) { /* as for two members of the group */
		f->port->ops->addrs_gone(f->port, &addr, 1);
		expect_dropped(f, &of_map);
		expect_dropped(f, &of_place);
		expect_passed(f, &nobodys);
	}
	/* from another port, which does not know the address */
	f->port->ops->addrs_gone(f->port, NULL, 0);
	expect_dropped(f, &of_map);
	shell("ip addr add %s/%d dev lo%s", text, is_v6(text) ? 128 : 32,
	      is_v6(text) ? " nodad" : "");
	await_addr(&addr, true);
	f->port->ops->addrs_gone(f->port, NULL, 0);
	expect_steered(f, &of_map);
	expect_steered(f, &of_place);
	shell("ip addr del %s/%d dev lo", text, is_v6(text) ? 128 : 32);
	await_addr(&addr, false);
}

static void test_an_address_that_is_gone_gets_nothing_until_it_is_back(void **state)
{
	static const struct netlink_events events = {.neigh = no_neigh, .link = no_link};
	struct fixture *f = *state;

	assert_int_equal(netlink_open(&events), 0);
	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	address_goes_and_comes_back(f, "10.77.0.7", "10.77.0.2");
	address_goes_and_comes_back(f, "fd77::7", "fd77::2");
	netlink_close();
}

static void test_adding_twice_and_deleting_nothing_are_errors(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key5(UDP, "10.77.0.1", 7000, "10.77.0.2", 5000);
	struct flow_key keys[] = {key, key5(UDP, "fd77::1", 7000, "fd77::2", 5000),
				  key5(TCP, "fd77::1", 7000, "fd77::2", 5000),
				  key3(TCP, "fd77::1", 7000)};
	const struct xdp_port *port = (const struct xdp_port *)f->port;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		assert_int_equal(f->port->ops->del_flow(f->q, &keys[i]), -ENOENT);
		add_flow(f, keys[i]);
		assert_int_equal(f->port->ops->add_flow(f->q, &keys[i]), -EEXIST);
		assert_int_equal(port->conf->flows6, addr_is_v4(&keys[i].local) ? 0 : 1);
		del_flow(f, keys[i]);
		assert_int_equal(f->port->ops->del_flow(f->q, &keys[i]), -ENOENT);
		assert_int_equal(port->conf->flows6, 0);
	}
	expect_passed(f, &plain);
}

static void test_flows_of_a_closed_queue_go_to_the_kernel(void **state)
{
	struct fixture *f = *state;

	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	expect_steered(f, &plain);
	f->port->ops->close_queue(f->q);
	f->q = NULL;
	inject(f, &plain);
	assert_int_equal(next_sniffed(f->sniff_fd, DEADLINE), f->number);
	assert_int_equal(f->port->ops->open_queue(f->port, &f->q, f->why), 0);
	expect_passed(f, &plain);
}

/* ---- bursts ----------------------------------------------------------------- */

static void expect_numbers(struct fixture *f, uint64_t first, int count)
{
	nsec_t deadline = clock_now() + DEADLINE;
	struct pkt *pkts[16];
	int got = 0;

	while (got < count) {
		int n = f->port->ops->rx_burst(f->q, pkts, 16);

		for (int i = 0; i < n; i++) {
			assert_int_equal(number_of(pkts[i]->frame, pkts[i]->frame_len),
					 first + (uint64_t)got++);
			pkt_free(pkts[i]);
		}
		if (!n && clock_now() > deadline)
			fail_msg("%d of %d frames came", got, count);
	}
}

static void expect_frames_back(struct fixture *f, unsigned baseline)
{
	assert_in_range(f->q->frames_free, baseline, baseline + FRAMES_SLACK);
}

static void test_thousands_of_frames_wait_in_order_without_loss(void **state)
{
	struct fixture *f = *state;
	unsigned baseline = f->q->frames_free;

	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	for (int round = 0; round < 8; round++) {
		uint64_t first = f->number + 1;

		for (int i = 0; i < 4000; i++)
			inject(f, &plain);
		assert_false(f->port->ops->arm(f->q));
		expect_numbers(f, first, 4000);
		assert_true(f->port->ops->arm(f->q));
		expect_frames_back(f, baseline);
	}
}

static void test_held_frames_do_not_stop_the_others_for_good(void **state)
{
	struct fixture *f = *state;
	unsigned baseline = f->q->frames_free;
	struct pkt *held = NULL, *pkt;
	int count = 0;

	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	/* No frame is returned, until no more arrive. */
	while (count <= (int)f->q->frames) {
		inject(f, &plain);
		if (!f->port->ops->rx_burst(f->q, &pkt, 1))
			break;
		pkt->next = held;
		held = pkt;
		count++;
	}
	assert_true(count > 4096);
	/* Sending has its own frames. */
	pkt = f->port->ops->tx_get(f->q);
	assert_non_null(pkt);
	pkt_free(pkt);
	while (held) {
		pkt = held;
		held = held->next;
		pkt_free(pkt);
	}
	while (next_steered(f, 0))
		;
	inject(f, &plain);
	assert_int_equal(next_steered(f, DEADLINE), f->number);
	expect_frames_back(f, baseline);
}

static void test_bursts_leave_complete_and_in_order(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	unsigned baseline = f->q->frames_free;
	struct spec s = {.vlan = -1, .proto = UDP, .dport = 9, .dst = their_mac};
	nsec_t deadline;
	uint64_t number = 0;
	struct pkt *pkt;

	for (int burst = 1; burst <= 2000; burst += 37) {
		for (int i = 0; i < burst; i++) {
			pkt = ops->tx_get(f->q);
			assert_non_null(pkt);
			assert_true(pkt->room >= f->port->mtu + 18);
			pkt->frame_len = (uint32_t)make_frame(pkt->frame, &s, ++number);
			assert_int_equal(ops->tx_put(f->q, pkt), 0);
		}
		ops->tx_flush(f->q);
		ops->tx_flush(f->q); /* there is no more to do */
		for (uint64_t n = number - (uint64_t)burst + 1; n <= number; n++)
			assert_int_equal(next_sniffed(f->inject_fd, DEADLINE), n);
	}
	deadline = clock_now() + DEADLINE;
	while (f->q->frames_free < baseline && clock_now() < deadline)
		assert_int_equal(ops->rx_burst(f->q, &pkt, 1), 0);
	expect_frames_back(f, baseline);
}

static void test_more_than_the_ring_holds_is_sent_in_passing(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	struct spec s = {.vlan = -1, .proto = UDP, .dport = 9, .dst = their_mac};

	for (uint64_t n = 1; n <= 3000; n++) {
		struct pkt *pkt = ops->tx_get(f->q);

		assert_non_null(pkt);
		pkt->frame_len = (uint32_t)make_frame(pkt->frame, &s, n);
		assert_int_equal(ops->tx_put(f->q, pkt), 0);
	}
	ops->tx_flush(f->q);
	for (uint64_t n = 1; n <= 3000; n++)
		assert_int_equal(next_sniffed(f->inject_fd, DEADLINE), n);
}

static void test_descriptors_are_readable_while_frames_wait(void **state)
{
	struct fixture *f = *state;
	struct pollfd pfd = {.events = POLLIN};
	int fds[PORT_FDS_MAX];

	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	assert_int_equal(f->port->ops->fds(f->q, fds), 1);
	pfd.fd = fds[0];
	assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	assert_true(fds[0] >= 512); /* numbers that the program does not use */
	assert_int_equal(poll(&pfd, 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		inject(f, &plain);
		assert_int_equal(poll(&pfd, 1, 30000), 1);
		assert_int_equal(next_steered(f, 0), f->number);
		assert_true(f->port->ops->arm(f->q));
		assert_int_equal(poll(&pfd, 1, 0), 0);
	}
}

static void test_every_rx_queue_is_served(void **state)
{
	struct fixture *f = *state;
	int fds[PORT_FDS_MAX];
	struct pollfd pfd = {.events = POLLIN};
	uint8_t seen[65] = {0};

	/* One descriptor, for any number of queues. */
	assert_int_equal(f->port->ops->fds(f->q, fds), 1);
	pfd.fd = fds[0];
	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	for (int i = 0; i < 64; i++) {
		struct spec s = plain;

		s.sport = (uint16_t)(1000 + i);
		inject(f, &s);
	}
	assert_int_equal(poll(&pfd, 1, 30000), 1);
	for (int i = 0; i < 64; i++) {
		uint64_t number = next_steered(f, DEADLINE);

		assert_in_range(number, 1, 64);
		assert_false(seen[number]);
		seen[number] = 1;
	}
	assert_int_equal(next_sniffed(f->sniff_fd, 0), 0);
	assert_true(f->port->ops->arm(f->q));
	assert_int_equal(poll(&pfd, 1, 0), 0);
}

/* As with virtio_net and an XDP program. */
static void test_all_flows_leave_where_fewer_queues_send_than_receive(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->port->ops;
	uint8_t seen[65] = {0};

	for (uint64_t n = 1; n <= 64; n++) {
		struct spec s = plain;
		struct pkt *pkt = ops->tx_get(f->q);

		assert_non_null(pkt);
		s.sport = (uint16_t)(1000 + n);
		pkt->frame_len = (uint32_t)make_frame(pkt->frame, &s, n);
		assert_int_equal(ops->tx_put(f->q, pkt), 0);
	}
	ops->tx_flush(f->q);
	for (int i = 0; i < 64; i++) {
		uint64_t number = next_sniffed(f->inject_fd, DEADLINE);

		assert_in_range(number, 1, 64);
		assert_false(seen[number]);
		seen[number] = 1;
	}
}

static struct pkt *next_packet(struct fixture *f)
{
	nsec_t deadline = clock_now() + DEADLINE;
	struct pkt *pkt;

	while (!f->port->ops->rx_burst(f->q, &pkt, 1))
		assert_true(clock_now() < deadline);
	return pkt;
}

static void test_generic_mode_serves_what_native_cannot(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[4096] = {0};
	size_t len = make_frame(frame, &plain, 0);
	struct pkt *pkt;

	assert_int_equal(f->port->mtu, 3500);
	assert_true(f->port->can.partial_csum);
	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	expect_steered(f, &plain);
	memset(frame + len, 'x', 3514 - len);
	assert_int_equal(send(f->inject_fd, frame, 3514, 0), 3514);
	pkt = next_packet(f);
	assert_int_equal(pkt->frame_len, 3514);
	assert_memory_equal(pkt->frame, frame, 3514);
	pkt_free(pkt);
}

/* ---- jumbo frames ------------------------------------------------------------- */

/* Below, at and above what one, two and three pieces hold, received and sent. */
static const size_t jumbos[] = {60,   1514, 3839, 3840, 3841, 4095, 4096, 4097,
				7680, 7681, 8191, 8192, 8193, 9013, 9014};
#define JUMBOS (sizeof(jumbos) / sizeof(*jumbos))

static void make_jumbo(struct fixture *f, uint8_t *frame, size_t len)
{
	size_t n = make_frame(frame, &plain, 0);

	f->number++;
	for (size_t i = n; i < len; i++)
		frame[i] = (uint8_t)(i * 7 + f->number);
	memcpy(frame + len - 8, &f->number, 8);
}

/* All frames are free again, but for those that wait in fill rings. */
static void await_free(struct fixture *f, unsigned frames)
{
	nsec_t deadline = clock_now() + DEADLINE;
	struct pkt *pkt;

	while (f->q->frames_free + FRAMES_SLACK < frames) {
		assert_int_equal(f->port->ops->rx_burst(f->q, &pkt, 1), 0);
		assert_true(clock_now() < deadline);
	}
	assert_true(f->port->ops->idle(f->q));
}

static void test_jumbo_frames_arrive_whole(void **state)
{
	struct fixture *f = *state;
	unsigned frames = f->q->frames_free;
	uint8_t frame[16384];
	struct pkt *pkt;

	assert_int_equal(f->port->mtu, 9000);
	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	for (int round = 0; round < 1000; round++) {
		size_t len = jumbos[(size_t)round % JUMBOS];

		make_jumbo(f, frame, len);
		assert_int_equal(send(f->inject_fd, frame, len, 0), len);
		pkt = next_packet(f);
		assert_int_equal(pkt->frame_len, len);
		assert_true(pkt->room >= len);
		assert_memory_equal(pkt->frame, frame, len);
		pkt_free(pkt);
	}
	await_free(f, frames);
	assert_false(next_sniffed(f->sniff_fd, 0));
}

/* Their times are those of the XDP program, as of other frames: before, and in order. */
static void test_jumbo_frames_have_times(void **state)
{
	struct fixture *f = *state;
	nsec_t last = clock_real();
	uint8_t frame[16384];
	struct pkt *pkts[4];

	f->port->ops->stamp(f->q);
	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	for (size_t i = 0; i < 4; i++) {
		size_t len = i % 2 ? 9014 : 1514;

		make_jumbo(f, frame, len);
		assert_int_equal(send(f->inject_fd, frame, len, 0), len);
	}
	for (int i = 0, n = 0; i < 4; i += n) {
		nsec_t deadline = clock_now() + DEADLINE;

		while (!(n = f->q->ops->rx_burst(f->q, pkts + i, 4 - i)))
			assert_true(clock_now() < deadline);
	}
	for (int i = 0; i < 4; i++) {
		assert_true(pkts[i]->flags & PKT_ARRIVAL);
		assert_true(pkt_arrival(pkts[i])->real >= last - NSEC_PER_MSEC);
		assert_int_equal(pkt_arrival(pkts[i])->device, 0);
		last = pkt_arrival(pkts[i])->real;
		pkt_free(pkts[i]);
	}
	assert_true(last <= clock_real());
}

static void test_jumbo_frames_leave_whole_and_in_order(void **state)
{
	const struct port_ops *ops = ((struct fixture *)*state)->port->ops;
	struct fixture *f = *state;
	unsigned frames = f->q->frames_free;
	static uint8_t sent[JUMBOS][16384];
	uint8_t got[16384];

	for (int round = 0; round < 100; round++) {
		for (size_t i = 0; i < JUMBOS; i++) {
			struct pkt *pkt = ops->tx_get(f->q);

			assert_non_null(pkt);
			assert_true(pkt->room >= 9000 + FRAME_HDR_MAX);
			make_jumbo(f, sent[i], jumbos[i]);
			memcpy(pkt->frame, sent[i], jumbos[i]);
			pkt->frame_len = (uint32_t)jumbos[i];
			assert_int_equal(ops->tx_put(f->q, pkt), 0);
		}
		ops->tx_flush(f->q);
		for (size_t i = 0; i < JUMBOS; i++) {
			struct pollfd pfd = {.fd = f->inject_fd, .events = POLLIN};

			assert_int_equal(poll(&pfd, 1, (int)(DEADLINE / NSEC_PER_MSEC)), 1);
			assert_int_equal(recv(f->inject_fd, got, sizeof(got), 0), jumbos[i]);
			assert_memory_equal(got, sent[i], jumbos[i]);
		}
	}
	await_free(f, frames);
}

static void test_jumbo_packets_that_are_not_sent_give_all_back(void **state)
{
	const struct port_ops *ops = ((struct fixture *)*state)->port->ops;
	struct fixture *f = *state;
	unsigned frames = f->q->frames_free, n;
	static struct pkt *pkts[4096];

	for (int round = 0; round < 3; round++) {
		for (n = 0; n < 4096 && (pkts[n] = ops->tx_get(f->q)); n++)
			;
		assert_in_range(n, 100, 4095); /* so many, and no more */
		assert_false(ops->idle(f->q));
		for (unsigned i = 0; i < n; i++)
			pkt_free(pkts[i]);
		await_free(f, frames);
	}
}

/* Who keeps jumbo frames loses those that come then, and nothing else. */
static void test_jumbo_packets_that_are_kept_are_bounded(void **state)
{
	struct fixture *f = *state;
	unsigned frames = f->q->frames_free, n = 0;
	static struct pkt *pkts[4096];
	uint8_t frame[16384];

	params.rx_bufs = 4000;
	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	for (;;) {
		make_jumbo(f, frame, 9014);
		assert_int_equal(send(f->inject_fd, frame, 9014, 0), 9014);
		inject(f, &plain); /* a small one, behind it */
		pkts[n] = next_packet(f);
		if (pkts[n]->frame_len != 9014)
			break;
		assert_int_equal(next_steered(f, DEADLINE), f->number);
		assert_in_range(n, 0, 4094);
		n++;
	}
	assert_int_equal(number_of(pkts[n]->frame, pkts[n]->frame_len), f->number);
	assert_in_range(n, 512, 8000 * 1024 / 9014);
	for (unsigned i = 0; i <= n; i++)
		pkt_free(pkts[i]);
	await_free(f, frames);
	assert_int_equal(send(f->inject_fd, frame, 9014, 0), 9014);
	pkts[0] = next_packet(f);
	assert_int_equal(pkts[0]->frame_len, 9014);
	pkt_free(pkts[0]);
}

/* Sends a TCP segment of len bytes as a kernel peer does: the device should split it. */
static void inject_unsplit(struct fixture *f, uint8_t *frame, size_t len)
{
	static const struct spec s = {.vlan = -1, .proto = TCP, .dport = 7001};
	struct virtio_net_hdr hdr = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
		.hdr_len = 54,
		.gso_size = 1460,
		.csum_start = 34,
		.csum_offset = 16,
	};
	struct iovec iov[2] = {{&hdr, sizeof(hdr)}, {frame, len}};
	int yes = 1, no = 0;

	for (size_t i = make_frame(frame, &s, 0) - 8; i < len; i++)
		frame[i] = (uint8_t)(i * i >> 7);
	put16(frame + 16, (unsigned)(len - 14));
	frame[46] = 5 << 4; /* TCP data offset */
	assert_int_equal(setsockopt(f->inject_fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof(yes)),
			 0);
	assert_int_equal(writev(f->inject_fd, iov, 2), sizeof(hdr) + len);
	assert_int_equal(setsockopt(f->inject_fd, SOL_PACKET, PACKET_VNET_HDR, &no, sizeof(no)), 0);
}

static void test_unsplit_segments_arrive_whole(void **state)
{
	static uint8_t frame[65536];
	struct fixture *f = *state;
	unsigned baseline = f->q->frames_free;
	struct pkt *held = NULL, *pkt;

	add_flow(f, key3(UDP, "10.77.0.1", 7000));
	add_flow(f, key3(TCP, "10.77.0.1", 7001));
	for (size_t len = 4000; len < 65536; len += 1771) {
		inject_unsplit(f, frame, len);
		pkt = next_packet(f);
		assert_int_equal(pkt->frame_len, len);
		assert_true(pkt->room >= len);
		assert_memory_equal(pkt->frame, frame, len);
		pkt_free(pkt);
		expect_steered(f, &plain);
		expect_frames_back(f, baseline);
	}
	/* Packets that are never returned are limited, and do not affect others. */
	for (int i = 0; i < 200; i++) {
		inject_unsplit(f, frame, 20000);
		while (f->port->ops->rx_burst(f->q, &pkt, 1)) {
			pkt->next = held;
			held = pkt;
		}
		expect_steered(f, &plain);
	}
	while (held) {
		pkt = held;
		held = held->next;
		pkt_free(pkt);
	}
	inject_unsplit(f, frame, 20000);
	assert_int_equal(next_packet(f)->frame_len, 20000); /* freed with the queue */
	expect_frames_back(f, baseline);
}

/* ---- coming and going ------------------------------------------------------- */

static void test_virtual_devices_have_partial_checksums(void **state)
{
	struct fixture *f = *state;

	assert_true(f->port->can.partial_csum);
	assert_string_equal(f->port->name, "v0");
	assert_memory_equal(f->port->mac, our_mac, 6);
	assert_int_equal(f->port->mtu, 1500);
}

static void set_peer(const char *to)
{
	setns(peer_fd, CLONE_NEWNET);
	shell("ip link set v1 %s", to);
	setns(here_fd, CLONE_NEWNET);
}

/* As where the driver resets its link; the port has just been opened. */
static void test_the_process_that_attaches_waits_for_the_carrier(void **state)
{
	struct fixture *f = *state;

	assert_true(f->port->ops->settle(f->port));
	set_peer("down");
	shell("nsenter --net=/proc/self/fd/%d ip link set v1 up &", peer_fd);
	assert_true(f->port->ops->settle(f->port));
	shell("ethtool v0 | grep -q 'Link detected: yes'");
}

static void test_the_wait_for_the_carrier_has_an_end(void **state)
{
	struct fixture *f = *state;

	set_peer("down");
	assert_false(f->port->ops->settle(f->port));
	/* That was all: a later ring does not wait. */
	assert_true(f->port->ops->settle(f->port));
	set_peer("up");
}

/* Hidden ones, too. */
static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 2048; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_open_and_close_leave_no_descriptor(void **state)
{
	struct fixture *f = *state;
	unsigned before;

	close_port(f);
	before = open_descriptors();
	for (int i = 0; i < 20; i++) {
		assert_int_equal(port_xdp_open(f->ifindex, &f->port, f->why), 0);
		if (f->port->ops->open_queue(f->port, &f->q, f->why))
			fail_msg("%s", f->why);
		close_port(f);
		assert_int_equal(open_descriptors(), before);
	}
}

/* What the program reads of the interface, and what nobody on the wire may know. */
static void test_the_program_knows_its_interface(void **state)
{
	const struct fixture *f = *state;
	const struct xdp_port *port = container_of(f->port, struct xdp_port, base);
	uint8_t mac[6];

	memcpy(mac, &port->conf->mac_lo, 4);
	memcpy(mac + 4, &port->conf->mac_hi, 2);
	assert_memory_equal(mac, f->port->mac, 6);
	assert_int_equal(port->conf->udp_max, f->port->mtu);
	assert_true(port->conf->seed);
}

static void test_this_process_has_it_already(void **state)
{
	struct fixture *f = *state;
	struct port *second;

	assert_int_equal(port_xdp_open(f->ifindex, &second, f->why), -EBUSY);
	assert_non_null(strstr(f->why, "v0"));
	assert_non_null(strstr(f->why, "this process"));
}

/* A process that has the interface and one flow; it answers no other process. */
static pid_t fork_owner(struct fixture *f)
{
	struct flow_key key = key3(UDP, "10.77.0.1", 7000);
	struct port *port;
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		bool ok = !port_xdp_open(f->ifindex, &port, f->why) &&
			  !port->ops->open_queue(port, &f->q, f->why) &&
			  !port->ops->add_flow(f->q, &key);

		if (ok && write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_a_process_that_does_not_answer_is_named(void **state)
{
	struct fixture *f = *state;
	nsec_t start;
	char text[32];
	pid_t pid;

	close_port(f);
	pid = fork_owner(f);
	start = clock_now();
	assert_int_equal(port_xdp_open(f->ifindex, &f->port, f->why), -EBUSY);
	assert_in_range(clock_now() - start, 0, DEADLINE);
	snprintf(text, sizeof(text), "process %d,", pid);
	assert_non_null(strstr(f->why, text));
	end(pid);
	f->port = NULL;
}

static void test_a_killed_process_gives_the_interface_back_at_once(void **state)
{
	struct fixture *f = *state;

	close_port(f);
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork_owner(f);

		end(pid);
		inject(f, &plain);
		assert_int_equal(next_sniffed(f->sniff_fd, DEADLINE), f->number);
		assert_int_equal(port_xdp_open(f->ifindex, &f->port, f->why), 0);
		if (f->port->ops->open_queue(f->port, &f->q, f->why))
			fail_msg("%s", f->why);
		expect_passed(f, &plain);
		close_port(f);
	}
}

/* Runs body in a child that has only these capabilities. */
static void run_with_caps(uint64_t caps, int (*body)(int ifindex), int ifindex)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = (uint32_t)caps, .permitted = (uint32_t)caps},
		{.effective = (uint32_t)(caps >> 32), .permitted = (uint32_t)(caps >> 32)},
	};
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(syscall(SYS_capset, &header, data) ? 99 : body(ifindex));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define CAP(name) (1ull << CAP_##name)
#define XDP_CAPS (CAP(NET_ADMIN) | CAP(NET_RAW) | CAP(BPF))

static bool says(const char *why, const char *word)
{
	if (strstr(why, word))
		return true;
	fprintf(stderr, "no \"%s\" in: %s", word, why);
	return false;
}

static int open_without_any(int ifindex)
{
	struct port *port;
	char why[PORT_WHY];

	return port_xdp_open(ifindex, &port, why) == -EPERM && says(why, "CAP_NET_ADMIN") &&
			       says(why, "CAP_NET_RAW") && says(why, "CAP_BPF") &&
			       says(why, "as root")
		       ? 0
		       : 1;
}

static int open_with_enough(int ifindex)
{
	struct port_queue *q;
	struct port *port;
	char why[PORT_WHY] = "";

	if (port_xdp_open(ifindex, &port, why) || port->ops->open_queue(port, &q, why)) {
		fprintf(stderr, "%s", why);
		return 1;
	}
	port->ops->close_queue(q);
	port->ops->free_port(port);
	return 0;
}

static int open_with_little_memory(int ifindex)
{
	struct rlimit small = {1 << 20, 1 << 20};
	struct port *port;
	char why[PORT_WHY] = "";

	setrlimit(RLIMIT_MEMLOCK, &small);
	return port_xdp_open(ifindex, &port, why) == -ENOBUFS && says(why, "ulimit -l") ? 0 : 1;
}

static int open_in_user_namespace(int ifindex)
{
	struct port *port;
	char why[PORT_WHY] = "";

	if (unshare(CLONE_NEWUSER)) /* grants every capability, but only inside that namespace */
		return 0;
	return port_xdp_open(ifindex, &port, why) == -EPERM && says(why, "user namespace") ? 0 : 1;
}

static void test_privileges_decide_and_are_named(void **state)
{
	struct fixture *f = *state;

	close_port(f);
	run_with_caps(0, open_without_any, f->ifindex);
	run_with_caps(XDP_CAPS | CAP(IPC_LOCK), open_with_enough, f->ifindex);
	run_with_caps(XDP_CAPS, open_with_little_memory, f->ifindex);
	run_with_caps(CAP(SYS_ADMIN), open_in_user_namespace, f->ifindex);
}

static void test_interfaces_that_cannot_are_refused_with_a_reason(void **state)
{
	static const struct {
		const char *make, *name;
		int rc;
		const char *word;
	} cases[] = {
		{"true", "lo", -EOPNOTSUPP, "loopback"},
		{"ip link add down0 type veth", "down0", -ENETDOWN, "set down0 up"},
		{"ip link add big0 mtu 9217 type veth && ip link set big0 up", "big0", -EOPNOTSUPP,
		 "MTU"},
		{"ip tuntap add tun7 mode tun && ip link set tun7 up", "tun7", -EOPNOTSUPP,
		 "Ethernet"},
		{"ip tuntap add tap7 mode tap && ip link set tap7 up", "tap7", -PORT_UNTRIED,
		 "VMA_XDP_DEVICES=tun"},
		{"ip link add br7 type bridge && ip link set br7 up", "br7", -PORT_UNTRIED,
		 "kind bridge"},
		{"ip link add s7 type veth && ip link set s7 master br7 up", "s7", -PORT_UNTRIED,
		 "belongs to br7"},
	};
	char why[PORT_WHY];
	struct port *port;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		shell("%s", cases[i].make);
		assert_int_equal(port_xdp_open((int)if_nametoindex(cases[i].name), &port, why),
				 cases[i].rc);
		assert_true(says(why, cases[i].word));
		assert_int_equal(why[strlen(why) - 1], '\n');
	}
	assert_int_equal(port_xdp_open(9999, &port, why), -ENODEV);
}

#define AFTER(test, prepare) cmocka_unit_test_setup_teardown(test, prepare, teardown)

static const struct CMUnitTest tests[] = {
	AFTER(test_registered_flows_are_steered_and_all_else_is_passed, setup),
	AFTER(test_flows_of_ip6_are_steered_and_all_else_is_passed, setup),
	AFTER(test_an_alias_alone_steers_nothing, setup),
	AFTER(test_a_flow_is_steered_while_it_is_registered, setup),
	AFTER(test_an_address_that_is_gone_gets_nothing_until_it_is_back, setup),
	AFTER(test_adding_twice_and_deleting_nothing_are_errors, setup),
	AFTER(test_flows_of_a_closed_queue_go_to_the_kernel, setup),
	AFTER(test_thousands_of_frames_wait_in_order_without_loss, setup),
	AFTER(test_held_frames_do_not_stop_the_others_for_good, setup),
	AFTER(test_bursts_leave_complete_and_in_order, setup),
	AFTER(test_more_than_the_ring_holds_is_sent_in_passing, setup),
	AFTER(test_descriptors_are_readable_while_frames_wait, setup),
	AFTER(test_every_rx_queue_is_served, setup_queues),
	AFTER(test_all_flows_leave_where_fewer_queues_send_than_receive, setup_few_tx),
	AFTER(test_generic_mode_serves_what_native_cannot, setup_generic),
	AFTER(test_jumbo_frames_arrive_whole, setup_jumbo),
	AFTER(test_jumbo_frames_arrive_whole, setup_jumbo_generic),
	AFTER(test_jumbo_frames_have_times, setup_jumbo),
	AFTER(test_jumbo_frames_leave_whole_and_in_order, setup_jumbo),
	AFTER(test_jumbo_frames_leave_whole_and_in_order, setup_jumbo_generic),
	AFTER(test_jumbo_packets_that_are_not_sent_give_all_back, setup_jumbo),
	AFTER(test_jumbo_packets_that_are_kept_are_bounded, setup_jumbo),
	AFTER(test_unsplit_segments_arrive_whole, setup_generic),
	AFTER(test_virtual_devices_have_partial_checksums, setup),
	AFTER(test_the_process_that_attaches_waits_for_the_carrier, setup),
	AFTER(test_the_wait_for_the_carrier_has_an_end, setup),
	AFTER(test_open_and_close_leave_no_descriptor, setup),
	AFTER(test_the_program_knows_its_interface, setup),
	AFTER(test_this_process_has_it_already, setup),
	AFTER(test_a_process_that_does_not_answer_is_named, setup),
	AFTER(test_a_killed_process_gives_the_interface_back_at_once, setup),
	AFTER(test_privileges_decide_and_are_named, setup),
	cmocka_unit_test(test_interfaces_that_cannot_are_refused_with_a_reason),
};

VMA_TEST_MAIN("xdp_port", tests, make_topology, NULL)
