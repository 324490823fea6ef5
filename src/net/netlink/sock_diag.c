/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/netlink/sock_diag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>

#include "base/sys.h"
#include "net/netlink/netlink_ask.h"

#define FIXED \
	NLMSG_LENGTH(sizeof(struct inet_diag_msg)) /* bytes of a message before its attributes */

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 req;
};

struct each {
	int (*fn)(const struct diag_socket *socket, void *arg);
	void *arg;
};

/* ---- a message of the kernel ------------------------------------------------------------------- */

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

static uint64_t cookie_of(const struct inet_diag_msg *msg)
{
	return msg->id.idiag_cookie[0] | (uint64_t)msg->id.idiag_cookie[1] << 32;
}

/* message: of len bytes, FIXED or more. */
static struct diag_socket socket_of(const char *message, size_t len)
{
	struct inet_diag_msg msg;

	memcpy(&msg, message + NLMSG_HDRLEN, sizeof(msg));
	return (struct diag_socket){.addr = address(&msg, msg.id.idiag_src),
				    .peer_addr = address(&msg, msg.id.idiag_dst),
				    .port = msg.id.idiag_sport,
				    .peer_port = msg.id.idiag_dport,
				    .ifindex = (int)msg.id.idiag_if,
				    .inode = msg.idiag_inode,
				    .cookie = cookie_of(&msg),
				    .v6only = is_v6only(message + FIXED, len - FIXED)};
}

/* ---- all sockets ------------------------------------------------------------------------------ */

/* Of the last message, which says how the dump went: a kernel without the protocol ends it at once. */
static int result(const char *message, size_t len)
{
	int rc;

	if (len < NLMSG_LENGTH(sizeof(rc)))
		return -EPROTO;
	memcpy(&rc, message + NLMSG_HDRLEN, sizeof(rc));
	return rc <= 0 ? rc : -EPROTO;
}

/* The sockets of one datagram.  *more: another one follows.  0, -errno, or what fn returned. */
static int each_in(const struct each *each, const char *answer, size_t len, bool *more)
{
	struct nlmsghdr head;
	int rc = 0;

	*more = false;
	for (size_t at = 0; !rc && at + sizeof(head) <= len; at += NLMSG_ALIGN(head.nlmsg_len)) {
		struct diag_socket found;

		memcpy(&head, answer + at, sizeof(head));
		if (head.nlmsg_flags & NLM_F_DUMP_INTR)
			return -EAGAIN;
		if (head.nlmsg_len > len - at)
			return -EPROTO;
		if (head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR)
			return result(answer + at, head.nlmsg_len);
		if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || head.nlmsg_len < FIXED)
			return -EPROTO;
		found = socket_of(answer + at, head.nlmsg_len);
		rc = each->fn(&found, each->arg);
	}
	*more = !rc;
	return rc;
}

static int dump(int fd, const struct question *q, const struct each *each)
{
	char answer[16384] __attribute__((aligned(8)));
	ssize_t n = sys_write(fd, q, sizeof(*q));
	bool more = true;
	int rc = 0;

	while (n >= 0 && more) {
		n = sys_read(fd, answer, sizeof(answer)); /* it is there */
		more = false;
		if (n >= 0)
			rc = n ? each_in(each, answer, (size_t)n, &more) : -EPROTO;
	}
	return n < 0 ? (int)n : rc;
}

int diag_each(const struct diag_query *query,
	      int (*fn)(const struct diag_socket *socket, void *arg), void *arg)
{
	struct question q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.req = {.sdiag_family = query->family,
			.sdiag_protocol = query->protocol,
			.idiag_states = query->states,
			.id = {.idiag_sport = query->port}},
	};
	struct each each = {fn, arg};
	int fd = netlink_ask_open(NETLINK_SOCK_DIAG), rc;

	if (fd < 0)
		return fd;
	rc = dump(fd, &q, &each);
	sys_close(fd);
	return rc;
}

/* ---- one ---------------------------------------------------------------------------------------- */

static void put_addr(uint32_t *to, const struct inaddr *addr)
{
	bool ipv4 = addr_is_v4(addr);

	memcpy(to, ipv4 ? &addr->w[3] : addr->w, ipv4 ? 4 : 16);
}

uint64_t diag_receiver(uint8_t protocol, const struct endpoint *from, const struct endpoint *to,
		       int ifindex)
{
	/* The socket's own end is the source; for historical reasons, of UDP it is the destination. */
	const struct endpoint *src = protocol == IPPROTO_UDP ? from : to;
	const struct endpoint *dst = protocol == IPPROTO_UDP ? to : from;
	struct question q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.req = {.sdiag_family = addr_is_v4(&to->addr) ? AF_INET : AF_INET6,
			.sdiag_protocol = protocol,
			.idiag_states = UINT32_MAX,
			.id = {.idiag_sport = src->port,
			       .idiag_dport = dst->port,
			       .idiag_if = (uint32_t)ifindex,
			       .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};
	char answer[4096] __attribute__((aligned(8)));
	struct nlmsghdr head;
	ssize_t n;

	put_addr(q.req.id.idiag_src, &src->addr);
	put_addr(q.req.id.idiag_dst, &dst->addr);
	n = netlink_ask_once(NETLINK_SOCK_DIAG, &q, sizeof(q), answer, sizeof(answer));
	if (n < (ssize_t)FIXED)
		return 0;
	memcpy(&head, answer, sizeof(head));
	return head.nlmsg_type == SOCK_DIAG_BY_FAMILY ? socket_of(answer, (size_t)n).cookie : 0;
}
