/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/icmp.h"

#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "net/icmp.h"
#include "ring/progress.h"
#include "ring/rings.h"
#include "sock/core/kind.h"

#define BATCH 64	 /* messages of a round; in a flood the socket's buffer overflows */
#define ICMP_FILTER 1	 /* <linux/icmp.h>, at SOL_RAW */
#define MESSAGE_MAX 9216 /* the longest packet of an interface that we accept */

static int icmp_fd = -1, icmp6_fd = -1;

/* holder: passes the error to the kind of socket that the flow belongs to. */
static void report_error(struct ring *ring, struct flow *flow, const struct icmp_error *error)
{
	for (unsigned i = 0; i < INET_KINDS; i++) {
		if (sock_kinds[i]->icmp_error && flow->deliver == sock_deliver_fn(sock_kinds[i]))
			sock_kinds[i]->icmp_error(ring, flow, error);
	}
}

/* Is the error about a link-local address of another interface than the ring's? */
static bool is_elsewhere(const struct ring *ring, const struct icmp_error *error, int ifindex)
{
	return ifindex != ring->ifindex &&
	       (addr_needs_scope(&error->key.local) || addr_needs_scope(&error->key.remote));
}

/* Finds the flow that the error quotes, on any ring; ifindex: where an error of IPv6 arrived. */
static void find_and_report(const struct icmp_error *error, int ifindex)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);
		struct flow *flow = NULL;

		if (!ring_queue(ring) || !ring_hold_cold(ring))
			continue;
		if (ring_is_open(ring) && !is_elsewhere(ring, error, ifindex))
			flow = flow_lookup(&ring->flows, &error->key);
		if (flow)
			report_error(ring, flow, error);
		ring_release_cold(ring);
		if (flow)
			return;
	}
}

/* 0: it is not told, of IPv4. */
static int interface_of(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct in6_pktinfo info = {.ipi6_ifindex = 0};

	if (c && c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO)
		memcpy(&info, CMSG_DATA(c), sizeof(info));
	return (int)info.ipi6_ifindex;
}

/* The internal thread: acts on the messages that have arrived. */
static void read_from(int fd,
		      bool (*parse)(const uint8_t *packet, size_t len, struct icmp_error *error))
{
	uint8_t packet[MESSAGE_MAX];
	struct iovec iov = {packet, sizeof(packet)};

	for (unsigned i = 0; i < BATCH; i++) {
		union {
			struct cmsghdr head;
			char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
		} control;
		struct msghdr msg = {.msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = &control,
				     .msg_controllen = sizeof(control)};
		struct icmp_error error;
		ssize_t n = sys_recvmsg(fd, &msg, MSG_DONTWAIT);

		if (n < 0)
			return;
		if (parse(packet, (size_t)n, &error))
			find_and_report(&error, interface_of(&msg));
	}
}

static bool parse_genuine(const uint8_t *packet, size_t len, struct icmp_error *error)
{
	return icmp_is_genuine(packet, len) && icmp_parse_error(packet, len, error);
}

static void read_messages(void)
{
	read_from(icmp_fd, parse_genuine);
}

static void read_messages6(void)
{
	read_from(icmp6_fd, icmp6_parse_error);
}

/* Lets errors pass only, so that no ping wakes the internal thread. */
static int set_filter(int fd)
{
	uint32_t refused =
		~(1u << ICMP_DEST_UNREACH | 1u << ICMP_TIME_EXCEEDED | 1u << ICMP_PARAMETERPROB);

	return sys_setsockopt(fd, SOL_RAW, ICMP_FILTER, &refused, sizeof(refused));
}

/* It also tells the interface of each message. */
static int set_filter6(int fd)
{
	static const int on = 1;
	struct icmp6_filter filter;

	sys_setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
	ICMP6_FILTER_SETBLOCKALL(&filter);
	for (unsigned type = 0; type < ICMP6_INFOMSG_MASK; type++)
		ICMP6_FILTER_SETPASS(type, &filter);
	return sys_setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof(filter));
}

/* The socket, or -1: the log tells why. */
static int open_socket(int family, int protocol, int (*filter)(int fd))
{
	int fd = sys_socket(family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

	if (fd >= 0)
		fd = sys_fd_hide(fd);
	if (fd < 0) {
		log_debug("no raw socket (%s): ICMP errors of IPv%d do not reach accelerated "
			  "connections",
			  strerror(-fd), family == AF_INET ? 4 : 6);
		return -1;
	}
	if (filter(fd))
		sys_close_fd(&fd);
	return fd;
}

void sock_icmp_open(void)
{
	control_assert_held();
	icmp_fd = open_socket(AF_INET, IPPROTO_ICMP, set_filter);
	if (icmp_fd >= 0)
		progress_watch(icmp_fd, read_messages);
	icmp6_fd = open_socket(AF_INET6, IPPROTO_ICMPV6, set_filter6);
	if (icmp6_fd >= 0)
		progress_watch(icmp6_fd, read_messages6);
}

void sock_icmp_forget(void)
{
	progress_watch(-1, read_messages);
	progress_watch(-1, read_messages6);
	sys_close_fd(&icmp_fd);
	sys_close_fd(&icmp6_fd);
}
