/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of the xdp port: veth pairs between two namespaces (see xdp_port_test.c),
 * frames with a number in their last eight bytes, keys.
 */
#ifndef TESTS_SCENARIO_RING_XDP_VETH_H
#define TESTS_SCENARIO_RING_XDP_VETH_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "ring/xdp/port_xdp.h"
#include "vma_test.h"

#define DEADLINE (60 * NSEC_PER_SEC)

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1};
static const uint8_t their_mac[6] = {2, 0, 0, 0, 0, 2};

static int here_fd, peer_fd; /* network namespaces */

/* ---- topology --------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static inline void shell(const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (system(line))
		fail_msg("failed: %s", line);
}

/* Brings it up, without any traffic of its own. */
static inline void bring_up(const char *name)
{
	shell("sysctl -qw net.ipv6.conf.%s.disable_ipv6=1; ip link set %s arp off up", name, name);
}

static inline void make_pair_of(const char *ours, const char *our_options, const char *theirs,
				const char *their_options)
{
	shell("ip link add %s %s type veth peer name %s address 02:00:00:00:00:02 %s"
	      " netns /proc/%d/fd/%d",
	      ours, our_options, theirs, their_options, getpid(), peer_fd);
	bring_up(ours);
	setns(peer_fd, CLONE_NEWNET);
	bring_up(theirs);
	setns(here_fd, CLONE_NEWNET);
}

static inline void make_pair(const char *ours, const char *theirs, const char *options)
{
	make_pair_of(ours, options, theirs, options);
}

static inline int make_topology(void **state)
{
	clock_init();
	if (geteuid() != 0 || unshare(CLONE_NEWNET | CLONE_NEWNS)) {
		fprintf(stderr, "SKIPPED: network namespaces need root\n");
		exit(77);
	}
	/* The directories where processes meet are private to this test. */
	shell("mount --make-rprivate / && mount -t tmpfs -o mode=755 none /run &&"
	      " mount -t tmpfs -o mode=1777 none /dev/shm");
	here_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	unshare(CLONE_NEWNET);
	peer_fd = open("/proc/self/ns/net", O_RDONLY);
	setns(here_fd, CLONE_NEWNET);
	make_pair("v0", "v1", "");
	make_pair("q0", "q1", "numrxqueues 4 numtxqueues 4");
	make_pair("t0", "t1", "numrxqueues 4 numtxqueues 2");
	/* Native XDP needs as many RX queues as the peer has TX queues. */
	make_pair_of("g0", "mtu 3500 numrxqueues 1 numtxqueues 1", "g1",
		     "mtu 3500 numrxqueues 2 numtxqueues 2");
	make_pair("j0", "j1", "mtu 9000");
	make_pair_of("h0", "mtu 9000 numrxqueues 1 numtxqueues 1", "h1",
		     "mtu 9000 numrxqueues 2 numtxqueues 2");
	for (const char **name = (const char *[]){"v0", "q0", "t0", "g0", "j0", "h0", NULL}; *name;
	     name++)
		shell("ip link set %s address 02:00:00:00:00:01", *name);
	shell("ip addr add 10.77.0.1/24 dev v0");
	return 0;
}

/* ---- frames ----------------------------------------------------------------- */

struct spec {
	const char *what;
	const uint8_t *dst; /* NULL: our_mac */
	int vlan;	    /* tag control information; -1: no tag */
	uint16_t ethertype;
	uint8_t proto;
	uint8_t ihl;	   /* 0: 5 */
	uint16_t frag_off; /* host byte order */
	const char *saddr, *daddr;
	uint16_t sport, dport; /* host byte order */
	int ext; /* IPv6: an extension header of this type; -1: hop-by-hop, which is 0 */
};

static inline uint8_t *put16(uint8_t *to, unsigned value)
{
	*to++ = (uint8_t)(value >> 8);
	*to++ = (uint8_t)value;
	return to;
}

/* Tests of IPv4 run once more over IPv6: 10.77.0.N stands for fd77::N then, 0.0.0.0 for ::. */
static bool over6;

static inline bool is_v6(const char *addr)
{
	return addr && strchr(addr, ':');
}

static inline struct inaddr addr_of(const char *text)
{
	struct inaddr a = addr_v4(inet_addr(text));

	if (is_v6(text))
		assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	else if (over6)
		a = addr_is_any(&a) ? (struct inaddr){.q = {0, 0}}
				    : (struct inaddr){.b = {0xfd, 0x77, [15] = a.b[15]}};
	return a;
}

/* The IPv6 header, and an extension header. */
static inline uint8_t *put_ip6(uint8_t *p, const struct spec *s)
{
	uint8_t proto = s->ext ? (uint8_t)(s->ext < 0 ? 0 : s->ext) : s->proto;
	struct inaddr src, dst;

	memset(p, 0, 40 + 8 + 20);
	p[0] = 0x60;
	put16(p + 4, (s->ext ? 8u : 0) + 20 + 8);
	p[6] = proto;
	p[7] = 64;
	src = addr_of(s->saddr ? s->saddr : over6 ? "10.77.0.2" : "fd77::2");
	dst = addr_of(s->daddr ? s->daddr : "10.77.0.1");
	memcpy(p + 8, &src, 16);
	memcpy(p + 24, &dst, 16);
	if (!s->ext)
		return p + 40;
	p[40] = s->proto;
	return p + 48;
}

/* Without checksums: steering does not check them. daddr tells the family. */
static inline size_t make_frame(uint8_t *frame, const struct spec *s, uint64_t number)
{
	unsigned ihl = s->ihl ? s->ihl : 5;
	bool v6 = over6 || is_v6(s->daddr);
	uint8_t *p = frame;

	memcpy(p, s->dst ? s->dst : our_mac, 6);
	memcpy(p + 6, their_mac, 6);
	p += 12;
	if (s->vlan >= 0)
		p = put16(put16(p, ETH_P_8021Q), (unsigned)s->vlan);
	p = put16(p, s->ethertype ? s->ethertype : v6 ? ETH_P_IPV6 : ETH_P_IP);
	if (v6) {
		p = put_ip6(p, s);
		goto ports;
	}
	memset(p, 0, ihl * 4 + 20);
	p[0] = (uint8_t)(0x40 | ihl);
	put16(p + 2, ihl * 4 + 20 + 8);
	put16(p + 6, s->frag_off);
	p[8] = 64;
	p[9] = s->proto;
	inet_pton(AF_INET, s->saddr ? s->saddr : "10.77.0.2", p + 12);
	inet_pton(AF_INET, s->daddr ? s->daddr : "10.77.0.1", p + 16);
	p += ihl * 4;
ports:
	put16(put16(p, s->sport ? s->sport : 5000), s->dport);
	p += 20;
	memcpy(p, &number, 8);
	return (size_t)(p + 8 - frame);
}

static inline uint64_t number_of(const uint8_t *frame, size_t len)
{
	uint64_t number = 0;

	if (len >= 8)
		memcpy(&number, frame + len - 8, 8);
	return number;
}

static inline struct flow_key key3(uint8_t proto, const char *local, uint16_t port)
{
	struct flow_key key = {
		.local = addr_of(local),
		.remote = addr_of("0.0.0.0"),
		.local_port = htons(port),
		.proto = proto,
	};

	return key;
}

static inline struct flow_key key5(uint8_t proto, const char *local, uint16_t port,
				   const char *remote, uint16_t remote_port)
{
	struct flow_key key = key3(proto, local, port);

	key.remote = addr_of(remote);
	key.remote_port = htons(remote_port);
	return key;
}

static inline int packet_socket(const char *ifname)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(ifname),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	int size = 64 << 20, yes = 1;

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	assert_int_equal(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes)), 0);
	return fd;
}

#endif
