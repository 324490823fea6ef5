/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/packet/packet_tx.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "net/netlink/netlink.h"

#define SEND_BUFFER (4 << 20) /* bytes: large segments on their way to a slow receiver */
#define SKIP_MAX 1023	      /* most large segments after a refusal that are not tried */
#define TCP_CSUM 16	      /* offset of the checksum in the TCP header */
#define UDP_CSUM 6	      /* and in that of UDP */
#define GSO_UDP_L4 5	      /* VIRTIO_NET_HDR_GSO_UDP_L4, Linux 6.2 */
#define CHECK_EVERY NSEC_PER_SEC
#define REPLY_ROOM 8192 /* bytes: what the kernel tells of one link, without statistics */

/* ---- what the interface does with a large segment ---------------------------------------- */

/* The kernel's answer about a link; its length, or -errno. */
static ssize_t ask_link(int ifindex, void *reply, size_t room)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg link;
		struct rtattr attr;
		uint32_t mask;
	} ask = {
		.head = {.nlmsg_len = sizeof(ask),
			 .nlmsg_type = RTM_GETLINK,
			 .nlmsg_flags = NLM_F_REQUEST},
		.link = {.ifi_index = ifindex},
		.attr = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = IFLA_EXT_MASK},
		.mask = RTEXT_FILTER_SKIP_STATS,
	};
	int fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = netlink_is_of(fd) ? sys_sendto(fd, &ask, sizeof(ask), 0, NULL, 0) : -EXDEV;
	if (n >= 0)
		n = sys_recvfrom(fd, reply, room, MSG_DONTWAIT, NULL, NULL);
	sys_close(fd);
	return n;
}

/* False also when it is not known. */
static bool has_no_discipline(int ifindex)
{
	_Alignas(struct nlmsghdr) char reply[REPLY_ROOM];
	struct nlmsghdr *head = (void *)reply;
	ssize_t n = ask_link(ifindex, reply, sizeof(reply));
	struct rtattr *attr;
	unsigned left;

	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct ifinfomsg)) || !NLMSG_OK(head, (size_t)n) ||
	    head->nlmsg_type != RTM_NEWLINK)
		return false;
	attr = IFLA_RTA(NLMSG_DATA(head));
	left = head->nlmsg_len - (unsigned)NLMSG_LENGTH(sizeof(struct ifinfomsg));
	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == IFLA_QDISC)
			return RTA_PAYLOAD(attr) == sizeof("noqueue") &&
			       !memcmp(RTA_DATA(attr), "noqueue", sizeof("noqueue"));
	return false;
}

static bool device_segments(const char *name)
{
	struct ethtool_value tso = {.cmd = ETHTOOL_GTSO};
	struct ifreq ifr = {.ifr_data = (void *)&tso};
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return false;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	rc = netlink_is_of(fd) ? sys_ioctl(fd, SIOCETHTOOL, &ifr) : -EXDEV;
	sys_close(fd);
	return !rc && tso.data;
}

bool packet_tx_can(int ifindex, const char *name, unsigned tx_queues)
{
	return tx_queues == 1 && (has_no_discipline(ifindex) || device_segments(name));
}

/* ---- the socket --------------------------------------------------------------------------- */

static int set(int fd, int level, int name, int value)
{
	return sys_setsockopt(fd, level, name, &value, sizeof(value));
}

static int receive_nothing(int fd)
{
	struct sock_filter none = {.code = BPF_RET | BPF_K, .k = 0};
	struct sock_fprog program = {.len = 1, .filter = &none};
	int rc = sys_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));

	return rc ? rc : set(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

int packet_tx_open(struct packet_tx *tx, int ifindex)
{
	/* Protocol 0: not bound to any, so it receives nothing. */
	int fd = sys_fd_hide(sys_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
	int rc;

	*tx = (struct packet_tx){.fd = -1, .ifindex = ifindex};
	if (fd < 0)
		return fd;
	tx->bypass = !has_no_discipline(ifindex);
	rc = netlink_is_of(fd) ? receive_nothing(fd) : -EXDEV;
	if (!rc)
		rc = set(fd, SOL_PACKET, PACKET_VNET_HDR, 1);
	if (!rc)
		rc = set(fd, SOL_PACKET, PACKET_QDISC_BYPASS, tx->bypass);
	if (rc) {
		sys_close(fd);
		return rc;
	}
	if (set(fd, SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER))
		set(fd, SOL_SOCKET, SO_SNDBUF, SEND_BUFFER);
	tx->fd = fd;
	return 0;
}

void packet_tx_close(struct packet_tx *tx)
{
	sys_close_fd(&tx->fd);
}

/* Returns the number of elements. */
static size_t payload_of(const struct frame_large *large, struct iovec iov[FRAME_LARGE_IOV])
{
	if (frame_large_is_udp(large)) {
		memcpy(iov, large->iov, large->iovcnt * sizeof(*iov));
		return large->iovcnt;
	}
	for (size_t i = 0; i < 2; i++)
		iov[i] = (struct iovec){(void *)(uintptr_t)large->part[i].data, large->part[i].len};
	return 2;
}

static uint8_t type_of(bool udp, bool v4)
{
	if (udp)
		return GSO_UDP_L4;
	return v4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6;
}

static int send_now(const struct packet_tx *tx, const struct frame_large *large)
{
	bool udp = frame_large_is_udp(large), v4 = large->head[ETH_HDR] >> 4 == 4;
	struct virtio_net_hdr virtio = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = type_of(udp, v4),
		.hdr_len = (uint16_t)large->hdr,
		.gso_size = (uint16_t)large->mss,
		.csum_start = large->l4,
		.csum_offset = udp ? UDP_CSUM : TCP_CSUM,
	};
	struct iovec iov[2 + FRAME_LARGE_IOV];
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(v4 ? ETH_P_IP : ETH_P_IPV6),
				 .sll_ifindex = tx->ifindex,
				 .sll_halen = ETH_ALEN};
	struct msghdr msg = {.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = iov};
	ssize_t n;

	iov[0] = (struct iovec){&virtio, sizeof(virtio)};
	iov[1] = (struct iovec){(void *)(uintptr_t)large->head, large->hdr};
	msg.msg_iovlen = 2 + payload_of(large, iov + 2);
	n = sys_sendmsg(tx->fd, &msg, MSG_DONTWAIT);
	return n < 0 ? (int)n : 0;
}

int packet_tx_send(struct packet_tx *tx, const struct frame_large *large)
{
	struct packet_tx_refusals *r = &tx->refusals[frame_large_is_udp(large)];
	int rc;

	if (r->skip) {
		r->skip--;
		return -ENOBUFS;
	}
	rc = tx->fd < 0 ? -EOPNOTSUPP : send_now(tx, large);
	if (rc && rc != -EAGAIN && rc != -EFAULT)
		r->skip = r->penalty = r->penalty >= SKIP_MAX / 2 ? SKIP_MAX : 2 * r->penalty + 1;
	else
		r->penalty = 0;
	/* Pairs with packet_tx_check(): nothing depends on when it sees it. */
	__atomic_store_n(&tx->used, true, __ATOMIC_RELAXED);
	return rc;
}

void packet_tx_check(struct packet_tx *tx, nsec_t now)
{
	bool bypass;

	/* Pairs with packet_tx_send(). */
	if (tx->fd < 0 || now - tx->checked < CHECK_EVERY ||
	    !__atomic_load_n(&tx->used, __ATOMIC_RELAXED))
		return;
	/* Pairs with packet_tx_send(). */
	__atomic_store_n(&tx->used, false, __ATOMIC_RELAXED);
	tx->checked = now;
	bypass = !has_no_discipline(tx->ifindex);
	if (bypass != tx->bypass && !set(tx->fd, SOL_PACKET, PACKET_QDISC_BYPASS, bypass))
		tx->bypass = bypass;
}
