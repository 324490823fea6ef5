/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which sockets of this host hear a datagram to a group: the kernel is asked, which knows those of all
 * programs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/in_route.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <string.h>

#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "sock/core/control.h"
#include "sock/local/local_group.h"

/* ---- does the kernel give this host a copy? ------------------------------------------------------ */

struct attribute {
	struct rtattr head;
	uint32_t value;
};

struct route_question {
	struct nlmsghdr head;
	struct rtmsg rtm;
	struct attribute dst, src, oif;
};

static struct attribute attribute(unsigned short type, uint32_t value)
{
	return (struct attribute){{sizeof(struct attribute), type}, value};
}

/* A socket for questions about this namespace, which does not block; -EXDEV: the thread is in another. */
static int open_netlink(int protocol)
{
	int fd = sys_fd_hide(
		sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));

	if (fd < 0 || netlink_is_of(fd))
		return fd;
	sys_close(fd);
	return -EXDEV;
}

/* The kernel's answer to a question of one datagram; its length, or -errno. */
static ssize_t ask(int protocol, const void *question, size_t len, char *answer, size_t room)
{
	int fd = open_netlink(protocol);
	ssize_t n = fd;

	if (fd >= 0)
		n = sys_write(fd, question, len);
	if (n >= 0)
		n = sys_read(fd, answer, room); /* it is there */
	sys_close_fd(&fd);
	return n;
}

/* The route for sending has a flag, as the kernel finds it for each datagram. */
int local_group_loops(const struct inaddr *group, const struct inaddr *from, int ifindex)
{
	struct route_question q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST},
		.rtm = {.rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_src_len = 32},
		.dst = attribute(RTA_DST, addr_v4_of(group)),
		.src = attribute(RTA_SRC, addr_v4_of(from)),
		.oif = attribute(RTA_OIF, (uint32_t)ifindex),
	};
	char answer[4096] __attribute__((aligned(8)));
	ssize_t n = ask(NETLINK_ROUTE, &q, sizeof(q), answer, sizeof(answer));
	struct nlmsghdr head;
	struct rtmsg rtm;

	control_assert_held();
	if (n < 0)
		return (int)n;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(rtm)))
		return -EPROTO;
	memcpy(&head, answer, sizeof(head));
	memcpy(&rtm, answer + NLMSG_HDRLEN, sizeof(rtm));
	return head.nlmsg_type == RTM_NEWROUTE ? !!(rtm.rtm_flags & RTCF_LOCAL) : -EPROTO;
}

/* ---- the sockets of a port ---------------------------------------------------------------------- */

struct hearers {
	const struct endpoint *from, *to;
	int ifindex;
	uint64_t *cookies;
	unsigned n, max;
};

static bool is_v6only(const char *at, size_t len)
{
	struct rtattr attr;

	while (len >= sizeof(attr)) {
		memcpy(&attr, at, sizeof(attr));
		if (attr.rta_len < sizeof(attr) || attr.rta_len > len)
			return false;
		if (attr.rta_type == INET_DIAG_SKV6ONLY && attr.rta_len > RTA_LENGTH(0))
			return at[RTA_LENGTH(0)] != 0;
		if (RTA_ALIGN(attr.rta_len) >= len)
			return false;
		at += RTA_ALIGN(attr.rta_len);
		len -= RTA_ALIGN(attr.rta_len);
	}
	return false;
}

static struct inaddr address(const struct inet_diag_msg *msg, const uint32_t *words)
{
	struct inaddr addr;

	if (msg->idiag_family == AF_INET)
		return addr_v4(words[0]);
	memcpy(&addr, words, sizeof(addr));
	return addr;
}

/*
 * As the kernel's rule for sockets of a port, but the membership, which only the socket's process knows.
 * An address of IPv6, but ::, is not that of a group of IPv4.
 */
static bool may_hear(const struct hearers *h, const struct inet_diag_msg *msg)
{
	struct inaddr at = address(msg, msg->id.idiag_src), peer = address(msg, msg->id.idiag_dst);

	if (msg->id.idiag_sport != h->to->port)
		return false;
	if (msg->id.idiag_if && (int)msg->id.idiag_if != h->ifindex)
		return false;
	if (!addr_is_any(&at) && !addr_eq(&at, &h->to->addr))
		return false;
	if (addr_is_v4(&peer) && !addr_is_any(&peer) && !addr_eq(&peer, &h->from->addr))
		return false;
	return !msg->id.idiag_dport || msg->id.idiag_dport == h->from->port;
}

/* Of the last message, which says how the dump went: a kernel without udp_diag ends it at once. */
static int result(const char *message, size_t len)
{
	int rc;

	if (len < NLMSG_LENGTH(sizeof(rc)))
		return -EPROTO;
	memcpy(&rc, message + NLMSG_HDRLEN, sizeof(rc));
	return rc <= 0 ? rc : -EPROTO;
}

/* Adds the sockets of one message.  1: more follow; 0: it was the last; -errno. */
static int add_sockets(struct hearers *h, const char *answer, size_t len)
{
	const size_t fixed = NLMSG_LENGTH(sizeof(struct inet_diag_msg));
	struct inet_diag_msg msg;
	struct nlmsghdr head;

	for (size_t at = 0; at + sizeof(head) <= len; at += NLMSG_ALIGN(head.nlmsg_len)) {
		memcpy(&head, answer + at, sizeof(head));
		if (head.nlmsg_flags & NLM_F_DUMP_INTR)
			return -EAGAIN;
		if (head.nlmsg_len > len - at)
			return -EPROTO;
		if (head.nlmsg_type == NLMSG_DONE)
			return result(answer + at, head.nlmsg_len);
		if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || head.nlmsg_len < fixed)
			return -EPROTO;
		memcpy(&msg, answer + at + NLMSG_HDRLEN, sizeof(msg));
		if (!may_hear(h, &msg) || is_v6only(answer + at + fixed, head.nlmsg_len - fixed))
			continue;
		if (h->n == h->max)
			return -E2BIG;
		h->cookies[h->n++] = msg.id.idiag_cookie[0] | (uint64_t)msg.id.idiag_cookie[1]
								      << 32;
	}
	return 1;
}

static int add_family(struct hearers *h, int fd, uint8_t family, uint8_t protocol)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.req = {.sdiag_family = family,
			.sdiag_protocol = protocol,
			.idiag_states = UINT32_MAX,
			.id = {.idiag_sport = h->to->port}},
	};
	char answer[16384] __attribute__((aligned(8)));
	ssize_t n = sys_write(fd, &q, sizeof(q));
	int rc = 1;

	while (n >= 0 && rc > 0) {
		n = sys_read(fd, answer, sizeof(answer)); /* it is there */
		rc = n > 0 ? add_sockets(h, answer, (size_t)n) : -EPROTO;
	}
	return n < 0 ? (int)n : rc;
}

int local_group_hearers(uint8_t protocol, const struct endpoint *from, const struct endpoint *to,
			int ifindex, uint64_t *cookies, unsigned max)
{
	struct hearers h = {from, to, ifindex, cookies, 0, max};
	int fd = open_netlink(NETLINK_SOCK_DIAG);
	int rc = fd;

	control_assert_held();
	if (fd >= 0)
		rc = add_family(&h, fd, AF_INET, protocol);
	if (!rc)
		rc = add_family(&h, fd, AF_INET6, protocol);
	sys_close_fd(&fd);
	return rc ? rc : (int)h.n;
}
