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

#define LOOPBACK 1	      /* its ifindex, in every network namespace */
#define SYNS_ROOM (1 << 20)   /* bytes for SYNs: more than a thousand of them */
#define FRAME_MAX 256	      /* Ethernet, IP without options, TCP with all options */
#define ACCEPT_ALL UINT32_MAX /* result of a filter: accept the packet */

/* Offsets in a frame without VLAN tag and IP options, which is what the XDP program takes. */
#define AT_PROTOCOL 23
#define AT_FRAGMENT 20
#define AT_VERSION 14
#define AT_DESTINATION 30
#define AT_PORT 36
#define AT_FLAGS 47
#define AT_TCP_FLAGS 13 /* what the filter of a TCP socket sees begins with the TCP header */
#define FLAGS 0x17	/* FIN, SYN, RST and ACK */
#define SYN 0x02

static int to_close = -1; /* any, atomic */

static int set_filter(int fd, struct sock_filter *code, size_t len)
{
	struct sock_fprog program = {.len = (unsigned short)len, .filter = code};

	return sys_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* The twin receives SYNs from this host only, and those of IPv6.  It resets old connections. */
static int filter_twin(int twin)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 4),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_TCP_FLAGS),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LOOPBACK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, ACCEPT_ALL),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};

	return set_filter(twin, code, sizeof(code) / sizeof(*code));
}

static void unfilter_twin(int twin)
{
	int none = 0;

	sys_setsockopt(twin, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
}

/* Accepts SYNs for the listener. */
static int filter_syns(int fd, const struct inet_sock *so)
{
	uint32_t addr = ntohl(addr_v4_of(&so->local.addr));
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_VERSION),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 11),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_PROTOCOL),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 9),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_FRAGMENT),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 7, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_PORT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohs(so->local.port), 0, 5),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_FLAGS),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FLAGS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_DESTINATION),
		/* A wildcard listener gets those for all addresses. */
		BPF_JUMP(BPF_JMP | (addr ? BPF_JEQ : BPF_JGE) | BPF_K, addr, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, ACCEPT_ALL),
	};

	return set_filter(fd, code, sizeof(code) / sizeof(*code));
}

static int open_socket(const struct inet_sock *so)
{
	struct sockaddr_ll ip = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
	int room = SYNS_ROOM, rc;
	/* Protocol 0: it receives nothing before its filter is attached. */
	int fd = sys_fd_hide(sys_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return fd;
	sys_setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	rc = filter_syns(fd, so);
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
	__atomic_store_n(&to_close, -1, __ATOMIC_RELAXED);
}
