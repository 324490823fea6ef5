/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the sockets that share a port (SO_REUSEADDR, SO_REUSEPORT) receives a datagram: the kernel is
 * asked, which knows all of them, those of other programs, too.  It has the order in which they were bound,
 * and the secret of its hash; only a BPF program that chooses is not asked.
 */
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>

#include "base/sys.h"
#include "sock/local/local_udp.h"

#define LOOPBACK \
	1 /* ifindex, in every network namespace: what is sent to the own host comes by it */

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 req;
};

/* For historical reasons, its source is that of the datagram. */
static struct question question_of(const struct endpoint *from, const struct endpoint *to)
{
	bool ipv4 = addr_is_v4(&to->addr);
	struct question q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.req = {.sdiag_family = ipv4 ? AF_INET : AF_INET6,
			.sdiag_protocol = IPPROTO_UDP,
			.idiag_states = UINT32_MAX,
			.id = {.idiag_sport = from->port,
			       .idiag_dport = to->port,
			       .idiag_if = LOOPBACK,
			       .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};

	memcpy(q.req.id.idiag_src, ipv4 ? &from->addr.w[3] : from->addr.w, ipv4 ? 4 : 16);
	memcpy(q.req.id.idiag_dst, ipv4 ? &to->addr.w[3] : to->addr.w, ipv4 ? 4 : 16);
	return q;
}

/* The cookie of the socket; 0: there is none, or the kernel does not say. */
static uint64_t ask(int fd, const struct question *q)
{
	char answer[4096] __attribute__((aligned(8)));
	struct inet_diag_msg msg;
	struct nlmsghdr head;
	ssize_t n = sys_write(fd, q, sizeof(*q));

	if (n == sizeof(*q))
		n = sys_read(fd, answer, sizeof(answer)); /* does not block */
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(msg)))
		return 0;
	memcpy(&head, answer, sizeof(head));
	memcpy(&msg, answer + NLMSG_HDRLEN, sizeof(msg));
	if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return 0;
	return msg.id.idiag_cookie[0] | (uint64_t)msg.id.idiag_cookie[1] << 32;
}

const struct local_entry *local_choice(const struct endpoint *from, const struct endpoint *to,
				       const struct local_entry *found, unsigned n)
{
	struct question q = question_of(from, to);
	uint64_t cookie = 0;
	int fd = sys_fd_hide(sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));

	if (fd >= 0)
		cookie = ask(fd, &q);
	sys_close_fd(&fd);
	for (unsigned i = 0; cookie && i < n; i++) {
		if (found[i].cookie == cookie)
			return &found[i];
	}
	return NULL;
}
