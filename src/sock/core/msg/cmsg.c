/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/msg/cmsg.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <netinet/udp.h>
#include <time.h>

#include "base/user.h"
#include "sock/core/msg/family.h"

#define SENT_MAX 1024 /* longer control data is left for the kernel to judge */

struct writer {
	struct msghdr *msg;
	char *at;
	size_t left;
};

/* Cuts what does not fit, as the kernel does. */
static void put(struct writer *w, int level, int type, const void *data, size_t len)
{
	struct cmsghdr head = {.cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type};
	size_t space = CMSG_SPACE(len);

	if (w->left < sizeof(head)) {
		w->msg->msg_flags |= MSG_CTRUNC;
		return;
	}
	if (w->left < head.cmsg_len) {
		w->msg->msg_flags |= MSG_CTRUNC;
		head.cmsg_len = w->left;
	}
	/* As the kernel: leaves out a message for which there is no room. */
	if (!user_copy(w->at, &head, sizeof(head)) ||
	    !user_copy(w->at + sizeof(head), data, head.cmsg_len - sizeof(head)))
		return;
	if (space > w->left)
		space = w->left;
	w->at += space;
	w->left -= space;
}

static void put_stamp(struct writer *w, unsigned told, nsec_t stamp)
{
	struct timespec ts = {stamp / NSEC_PER_SEC, stamp % NSEC_PER_SEC};
	struct timeval tv = {ts.tv_sec, ts.tv_nsec / NSEC_PER_USEC};

	/*
	 * Both clocks have 64 bits: the new options differ from the old ones only by their
	 * number.
	 */
	if (told & TOLD_STAMP)
		put(w, SOL_SOCKET, SO_TIMESTAMP, &tv, sizeof(tv));
	else if (told & TOLD_STAMP_NS)
		put(w, SOL_SOCKET, SO_TIMESTAMPNS, &ts, sizeof(ts));
	else if (told & TOLD_STAMPNS_NEW) /* SO_TIMESTAMP reads as set, too */
		put(w, SOL_SOCKET, SO_TIMESTAMPNS_NEW, &ts, sizeof(ts));
	else if (told & TOLD_STAMP_NEW)
		put(w, SOL_SOCKET, SO_TIMESTAMP_NEW, &tv, sizeof(tv));
}

static struct timespec spec_of(nsec_t stamp)
{
	return (struct timespec){stamp / NSEC_PER_SEC, stamp % NSEC_PER_SEC};
}

/* The software's time stamp; a deprecated one; the device's.  0: it has none. */
static void put_stamping(struct writer *w, unsigned told, nsec_t stamp, nsec_t device)
{
	struct timespec ts[3] = {{0}};

	if (told & TOLD_STAMPING)
		ts[0] = spec_of(stamp);
	if (told & TOLD_HARDWARE)
		ts[2] = spec_of(device);
	if (((told & TOLD_STAMPING) && stamp) || ((told & TOLD_HARDWARE) && device))
		put(w, SOL_SOCKET, told & TOLD_STAMPING_NEW ? SO_TIMESTAMPING_NEW : SO_TIMESTAMPING,
		    ts, sizeof(ts));
}

static void put_pktinfo(struct writer *w, const struct pkt *pkt, const struct ring *ring,
			int ifindex)
{
	struct endpoint to = frame_destination(pkt);
	struct in_pktinfo info = {.ipi_addr.s_addr = addr_v4_of(&to.addr),
				  .ipi_spec_dst.s_addr = addr_v4_of(&to.addr)};

	info.ipi_ifindex = ifindex;
	if (addr_is_multicast(&to.addr)) {
		struct endpoint from = frame_source(pkt);
		bool looped = pkt->flags & PKT_LOOPED;

		info.ipi_spec_dst.s_addr = addr_v4_of(looped ? &from.addr : &ring->addr);
	}
	put(w, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
}

static void put_pktinfo6(struct writer *w, const struct pkt *pkt, int ifindex)
{
	struct endpoint to = frame_destination(pkt);
	struct in6_pktinfo info = {.ipi6_ifindex = (unsigned)ifindex};

	memcpy(&info.ipi6_addr, &to.addr, sizeof(info.ipi6_addr));
	put(w, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
}

static void put_origdst(struct writer *w, const struct pkt *pkt)
{
	struct endpoint to = frame_destination(pkt);
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);

	endpoint_to_sockaddr(&to, AF_INET, (struct sockaddr *)&sin, &len);
	put(w, IPPROTO_IP, IP_ORIGDSTADDR, &sin, sizeof(sin));
}

/* From the header, RFC 8200 3. */
static void put_header6(struct writer *w, unsigned told, const uint8_t *ip)
{
	int hoplimit = ip[7], tclass = (ip[0] & 0xf) << 4 | ip[1] >> 4;

	if (told & TOLD_HOPLIMIT6)
		put(w, IPPROTO_IPV6, IPV6_HOPLIMIT, &hoplimit, sizeof(hoplimit));
	if (told & TOLD_TCLASS6)
		put(w, IPPROTO_IPV6, IPV6_TCLASS, &tclass, sizeof(tclass));
}

/* From the header, RFC 791 3.1. */
static void put_header(struct writer *w, unsigned told, const struct pkt *pkt)
{
	const uint8_t *ip = pkt->frame + pkt->l3;
	int ttl = ip[8];

	if (told & TOLD_TTL)
		put(w, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	if (told & TOLD_TOS)
		put(w, IPPROTO_IP, IP_TOS, &ip[1], 1);
	if ((told & TOLD_OPTS) && pkt->l4 > pkt->l3 + IP4_HDR)
		put(w, IPPROTO_IP, IP_RECVOPTS, ip + IP4_HDR, pkt->l4 - pkt->l3 - IP4_HDR);
}

static void put_told(struct writer *w, unsigned told, const struct pkt *pkt,
		     const struct ring *ring, int ifindex, int gso_size)
{
	if (told & TOLD_STAMPS)
		put_stamp(w, told, pkt->stamp ? pkt->stamp : clock_real());
	if (told & (TOLD_STAMPING | TOLD_HARDWARE))
		put_stamping(w, told, pkt->stamp, pkt_device_stamp(pkt));
	if ((told & TOLD_DROPS) && pkt->stamp && pkt->drops)
		put(w, SOL_SOCKET, SO_RXQ_OVFL, &pkt->drops, sizeof(pkt->drops));
	if (gso_size)
		put(w, IPPROTO_UDP, UDP_GRO, &gso_size, sizeof(gso_size));
	if (told & TOLD_PKTINFO6)
		put_pktinfo6(w, pkt, ifindex);
	if (pkt->frame[pkt->l3] >> 4 == 6) {
		put_header6(w, told, pkt->frame + pkt->l3);
		return;
	}
	if (told & TOLD_PKTINFO)
		put_pktinfo(w, pkt, ring, ifindex);
	put_header(w, told, pkt);
	if (told & TOLD_ORIGDST)
		put_origdst(w, pkt);
}

void cmsg_fill_stream(const struct sock_options *opt, const struct pkt_arrival *arrival, int left,
		      struct msghdr *msg)
{
	struct writer w = {msg, msg->msg_control, msg->msg_control ? msg->msg_controllen : 0};

	if (arrival->real) {
		put_stamp(&w, opt->told, arrival->real);
		put_stamping(&w, opt->told, arrival->real, arrival->device);
	}
	if (opt->told & TOLD_INQ)
		put(&w, IPPROTO_TCP, TCP_CM_INQ, &left, sizeof(left));
	msg->msg_controllen = (size_t)(w.at - (char *)msg->msg_control);
}

/* As the kernel: the error is followed by the address of who reported it, here nobody's. */
void cmsg_fill_completion(const struct sock_options *opt, uint8_t family, uint32_t lo, uint32_t hi,
			  struct msghdr *msg)
{
	struct writer w = {msg, msg->msg_control, msg->msg_control ? msg->msg_controllen : 0};
	struct {
		struct sock_extended_err error;
		struct sockaddr_in6 reporter;
	} told;
	bool v6 = family == AF_INET6;
	size_t reporter = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	memset(&told, 0, sizeof(told));
	told.error.ee_origin = SO_EE_ORIGIN_ZEROCOPY;
	told.error.ee_code = SO_EE_CODE_ZEROCOPY_COPIED;
	told.error.ee_info = lo;
	told.error.ee_data = hi;
	if (opt->told & TOLD_STAMPS)
		put_stamp(&w, opt->told, clock_real());
	put(&w, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, &told,
	    sizeof(told.error) + reporter);
	msg->msg_controllen = (size_t)(w.at - (char *)msg->msg_control);
}

void cmsg_fill(const struct sock_options *opt, const struct pkt *pkt, struct msghdr *msg,
	       const struct ring *ring, int ifindex, int gso_size)
{
	struct writer w = {msg, msg->msg_control, msg->msg_control ? msg->msg_controllen : 0};

	put_told(&w, opt->told, pkt, ring, ifindex, gso_size);
	msg->msg_controllen = (size_t)(w.at - (char *)msg->msg_control);
}

/* What socket(7) defines for sends, and what the kernel skips. */
static bool is_known(const struct cmsghdr *c)
{
	switch (c->cmsg_type) {
	case SCM_RIGHTS:
	case SCM_CREDENTIALS:
		return true;
	case SO_MARK:
	case SO_PRIORITY:
	case SO_TIMESTAMPING:
		return c->cmsg_len == CMSG_LEN(sizeof(uint32_t));
	default:
		return false;
	}
}

int cmsg_check(const struct msghdr *msg)
{
	const char *at = msg->msg_control;
	size_t left = msg->msg_controllen;
	struct cmsghdr c;

	for (size_t step; left >= sizeof(c); at += step, left -= step) {
		memcpy(&c, at, sizeof(c));
		if (c.cmsg_len < sizeof(c) || c.cmsg_len > left)
			return -EINVAL;
		if (c.cmsg_level == SOL_SOCKET && !is_known(&c))
			return -EINVAL;
		step = CMSG_ALIGN(c.cmsg_len);
		if (step > left)
			break;
	}
	return 0;
}

static bool read_pktinfo(const void *data, size_t len, struct cmsg_sent *sent)
{
	struct in_pktinfo info;

	if (len != sizeof(info))
		return false;
	memcpy(&info, data, sizeof(info));
	sent->pktinfo = true;
	sent->oif = info.ipi_ifindex;
	sent->src = addr_v4(info.ipi_spec_dst.s_addr);
	return true;
}

/* As IP_PKTINFO; but what names nothing leaves what an earlier message named. */
static bool read_pktinfo6(const void *data, size_t len, bool ipv4, struct cmsg_sent *sent)
{
	struct in6_pktinfo info;
	struct inaddr src;

	if (len < sizeof(info))
		return false;
	memcpy(&info, data, sizeof(info));
	memcpy(&src, &info.ipi6_addr, sizeof(src));
	if (addr_is_v4(&src) != ipv4 || addr_is_multicast(&src))
		return false;
	sent->pktinfo = true;
	if (info.ipi6_ifindex)
		sent->oif = (int)info.ipi6_ifindex;
	sent->src = src;
	return true;
}

/* -1: what the options say; a hop limit of 0 is left to the kernel. */
static bool read_ipv6(int type, const void *data, size_t len, struct cmsg_sent *sent)
{
	int value;

	if (type == IPV6_PKTINFO)
		return read_pktinfo6(data, len, false, sent);
	if ((type != IPV6_HOPLIMIT && type != IPV6_TCLASS) || len != sizeof(value))
		return false;
	memcpy(&value, data, sizeof(value));
	if (value < -1 || value > UINT8_MAX || (type == IPV6_HOPLIMIT && value == 0))
		return false;
	if (type == IPV6_TCLASS)
		sent->tos = value;
	else
		sent->ttl = value < 0 ? 0 : (uint8_t)value;
	return true;
}

static bool read_ip(int type, const void *data, size_t len, struct cmsg_sent *sent)
{
	int value = 0;

	if (type == IP_PKTINFO)
		return read_pktinfo(data, len, sent);
	if (type == IP_TOS && len == 1) {
		sent->tos = *(const uint8_t *)data;
		return true;
	}
	if (len != sizeof(value))
		return false;
	memcpy(&value, data, sizeof(value));
	if (type == IP_TOS)
		sent->tos = value;
	else if (type == IP_TTL)
		sent->ttl = (uint8_t)value;
	else
		return false;
	return value >= (type == IP_TTL) && value <= UINT8_MAX;
}

static bool read_one(const struct cmsghdr *c, const void *data, enum cmsg_to to,
		     struct cmsg_sent *sent)
{
	size_t len = c->cmsg_len - sizeof(*c);

	switch (c->cmsg_level) {
	case SOL_SOCKET: /* for local sockets only; the others are rare */
		return c->cmsg_type == SCM_RIGHTS || c->cmsg_type == SCM_CREDENTIALS;
	case IPPROTO_IP:
		return to == CMSG_INET6 || read_ip(c->cmsg_type, data, len, sent);
	case IPPROTO_IPV6: /* for IPv4 the kernel looks at one type */
		if (to == CMSG_INET6)
			return read_ipv6(c->cmsg_type, data, len, sent);
		return to == CMSG_INET || c->cmsg_type != IPV6_PKTINFO ||
		       read_pktinfo6(data, len, true, sent);
	case IPPROTO_UDP:
		if (c->cmsg_type != UDP_SEGMENT || len != sizeof(sent->gso_size))
			return false;
		memcpy(&sent->gso_size, data, sizeof(sent->gso_size));
		sent->segmented = true;
		return true;
	default:
		return true; /* the kernel skips it, too */
	}
}

bool cmsg_read_sent(const struct msghdr *msg, enum cmsg_to to, struct cmsg_sent *sent)
{
	const char *at = msg->msg_control;
	size_t left = msg->msg_controllen;
	struct cmsghdr c;

	*sent = (struct cmsg_sent){.tos = -1, .src = addr_v4_any()};
	if (left > SENT_MAX)
		return false;
	for (size_t step; left >= sizeof(c); at += step, left -= step) {
		memcpy(&c, at, sizeof(c));
		if (c.cmsg_len < sizeof(c) || c.cmsg_len > left ||
		    !read_one(&c, at + sizeof(c), to, sent))
			return false;
		step = CMSG_ALIGN(c.cmsg_len);
		if (step > left)
			break;
	}
	return true;
}
