/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/tcp/syn_catch.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/core/inet_sock.h"
#include "sock/core/msg/family.h"

#define LOOPBACK 1	      /* its ifindex, in every network namespace */
#define SYNS_ROOM (1 << 20)   /* bytes for SYNs: more than a thousand of them */
#define FRAME_MAX 256	      /* Ethernet, IP, TCP with all options */
#define ACCEPT_ALL UINT32_MAX /* result of a filter: accept the packet */

/*
 * Offsets in a frame without VLAN tag, IP options, and extension headers, which is what the XDP
 * program takes.
 */
#define AT_VERSION 14
#define AT_PROTOCOL 23
#define AT_FRAGMENT 20
#define AT_DESTINATION 30
#define AT_PORT 36
#define AT_FLAGS 47
/* of IPv6 */
#define AT_NEXT_HEADER 20
#define AT_DESTINATION6 38
#define AT_PORT6 56
#define AT_FLAGS6 67
#define AT_TCP_FLAGS 13 /* what the filter of a TCP socket sees begins with the TCP header */
#define FLAGS 0x17	/* FIN, SYN, RST and ACK */
#define SYN 0x02

static int to_close = -1; /* any, atomic */

static int set_filter(int fd, struct sock_filter *code, size_t len)
{
	struct sock_fprog program = {.len = (unsigned short)len, .filter = code};

	return sys_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* The twin receives SYNs from this host only.  It resets old connections. */
static int filter_twin(int twin)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_TCP_FLAGS),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LOOPBACK, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, ACCEPT_ALL),
	};

	return set_filter(twin, code, sizeof(code) / sizeof(*code));
}

static void unfilter_twin(int twin)
{
	int none = 0;

	sys_setsockopt(twin, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
}

/* What the listener may receive. */
struct traffic {
	bool ipv4, ipv6, any;
};

static struct traffic traffic_of(const struct inet_sock *so)
{
	const struct inaddr *local = &so->local.addr;
	bool any = addr_is_any(local);

	return (struct traffic){
		.ipv4 = addr_is_v4(local) || (any && sock_has_ipv4(so)),
		.ipv6 = !addr_is_v4(local),
		.any = any,
	};
}

/*
 * Accepts SYNs for the listener.  The instructions are numbered, because jumps are counted from the
 * next one: to V6, the first one for IPv6, or to one of the last two.
 */
#define V6 16
#define REJECT(i) (31 - 1 - (i))
#define ACCEPT(i) (32 - 1 - (i))
#define IS(any) (BPF_JMP | BPF_K | ((any) ? BPF_JGE : BPF_JEQ)) /* any: true for each word */

static int filter_syns(int fd, const struct inet_sock *so, struct traffic t)
{
	const uint32_t *local = so->local.addr.w;
	uint32_t w[4], port = ntohs(so->local.port);

	for (unsigned i = 0; i < 4; i++)
		w[i] = t.any ? 0 : ntohl(local[i]);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_VERSION),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
		/* 2 */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x60,
			 (uint8_t)(t.ipv6 ? V6 - 1 - 2 : REJECT(2)),
			 (uint8_t)(t.ipv4 ? 0 : REJECT(2))),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_VERSION),
		/* 4 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, REJECT(4)),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_PROTOCOL),
		/* 6 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, REJECT(6)),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_FRAGMENT),
		/* 8 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, REJECT(8), 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_PORT),
		/* 10 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, REJECT(10)),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_FLAGS),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FLAGS),
		/* 13 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, REJECT(13)),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DESTINATION),
		/* 15 */ BPF_JUMP(IS(t.any), w[3], ACCEPT(15), REJECT(15)),
		/* V6 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_NEXT_HEADER),
		/* 17 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, REJECT(17)),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_PORT6),
		/* 19 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, REJECT(19)),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_FLAGS6),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FLAGS),
		/* 22 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, REJECT(22)),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DESTINATION6),
		/* 24 */ BPF_JUMP(IS(t.any), w[0], 0, REJECT(24)),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DESTINATION6 + 4),
		/* 26 */ BPF_JUMP(IS(t.any), w[1], 0, REJECT(26)),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DESTINATION6 + 8),
		/* 28 */ BPF_JUMP(IS(t.any), w[2], 0, REJECT(28)),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DESTINATION6 + 12),
		/* 30 */ BPF_JUMP(IS(t.any), w[3], ACCEPT(30), REJECT(30)),
		/* 31 */ BPF_STMT(BPF_RET | BPF_K, 0),
		/* 32 */ BPF_STMT(BPF_RET | BPF_K, ACCEPT_ALL),
	};

	_Static_assert(sizeof(code) / sizeof(*code) == 33, "as numbered");
	return set_filter(fd, code, sizeof(code) / sizeof(*code));
}

static int open_socket(const struct inet_sock *so)
{
	struct traffic t = traffic_of(so);
	uint16_t protocol = t.ipv4 && t.ipv6 ? ETH_P_ALL : t.ipv6 ? ETH_P_IPV6 : ETH_P_IP;
	struct sockaddr_ll ip = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol)};
	int room = SYNS_ROOM, rc;
	/* Protocol 0: it receives nothing before its filter is attached. */
	int fd = sys_fd_hide(sys_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return fd;
	sys_setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	rc = filter_syns(fd, so, t);
	if (!rc)
		rc = sys_bind(fd, (const struct sockaddr *)&ip, sizeof(ip));
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

int syn_catch_begin(struct syn_catch *c, const struct inet_sock *so)
{
	int rc;

	control_assert_no_ring();
	control_assert_held();
	*c = (struct syn_catch){.fd = open_socket(so), .twin = sock_twin(&so->sk)};
	if (c->fd < 0)
		return c->fd;
	rc = filter_twin(c->twin);
	if (rc)
		sys_close_fd(&c->fd);
	return rc;
}

/* ---- delivering the SYNs ------------------------------------------------------------ */

static void deliver_syn(struct inet_sock *so, int ifindex, const struct pkt *syn)
{
	list_for_each(link, &so->flows) {
		struct ring *ring = sock_flow_of(link)->ring;
		struct pkt *copy;

		if (ring->ifindex != ifindex || !ring_hold_cold(ring))
			continue;
		copy = pkt_copy(syn);
		if (copy)
			ring_receive(ring, copy);
		ring_release_cold(ring);
		return;
	}
}

static void deliver_syns(int fd, struct inet_sock *so)
{
	uint8_t frame[FRAME_MAX];
	struct pkt syn = {.frame = frame, .room = sizeof(frame)};
	struct sockaddr_ll from;
	unsigned n = 0;

	for (;;) {
		socklen_t len = sizeof(from);
		long size = sys_call(SYS_recvfrom, fd, frame, sizeof(frame), 0, &from, &len);

		if (size <= 0)
			break;
		syn.frame_len = (uint32_t)size;
		if (from.sll_pkttype == PACKET_HOST)
			deliver_syn(so, from.sll_ifindex, &syn);
		n++;
	}
	log_debug("fd %d: %u SYNs arrived while its interface was opened", sock_twin(&so->sk), n);
}

void syn_catch_end(struct syn_catch *c, struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	if (c->fd < 0)
		return;
	if (so->inet == INET_LISTEN && so->verdict == VERDICT_ACCELERATED)
		deliver_syns(c->fd, so);
	unfilter_twin(c->twin);
	/* Pairs with syn_catch_close(): each descriptor is closed once, after its last use. */
	c->fd = __atomic_exchange_n(&to_close, c->fd, __ATOMIC_ACQ_REL);
	sys_close_fd(&c->fd); /* of an earlier listener, if it is still open */
	progress_wake();
}

void syn_catch_close(void)
{
	int fd;

	if (__atomic_load_n(&to_close, __ATOMIC_RELAXED) < 0)
		return;
	/* Pairs with syn_catch_end(). */
	fd = __atomic_exchange_n(&to_close, -1, __ATOMIC_ACQ_REL);
	sys_close_fd(&fd);
}

void syn_catch_forget(void)
{
	control_assert_held();
	control_assert_no_ring();
	__atomic_store_n(&to_close, -1, __ATOMIC_RELAXED);
}
