/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/cmsg.h"

#include <errno.h>
#include <time.h>

struct writer {
	struct msghdr *msg;
	char *at;
	size_t left;
};

static void put(struct writer *w, int level, int type, const void *data, size_t len)
{
	struct cmsghdr head = {.cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type};
	size_t space = CMSG_SPACE(len);

	if (w->left < CMSG_LEN(len)) {
		w->msg->msg_flags |= MSG_CTRUNC;
		return;
	}
	memcpy(w->at, &head, sizeof(head));
	memcpy(w->at + CMSG_LEN(0), data, len);
	if (space > w->left)
		space = w->left;
	w->at += space;
	w->left -= space;
}

static void put_stamp(struct writer *w, const struct sock_options *opt, nsec_t stamp)
{
	if (opt->timestamp_ns) {
		struct timespec ts = {stamp / NSEC_PER_SEC, stamp % NSEC_PER_SEC};

		put(w, SOL_SOCKET, SO_TIMESTAMPNS, &ts, sizeof(ts));
	} else {
		struct timeval tv = {stamp / NSEC_PER_SEC, stamp % NSEC_PER_SEC / NSEC_PER_USEC};

		put(w, SOL_SOCKET, SO_TIMESTAMP, &tv, sizeof(tv));
	}
}

static void put_pktinfo(struct writer *w, const struct pkt *pkt, const struct ring *ring)
{
	struct endpoint to = frame_destination(pkt);
	struct in_pktinfo info = {.ipi_addr.s_addr = addr_v4_of(&to.addr),
				  .ipi_spec_dst.s_addr = addr_v4_of(&to.addr)};

	if (ring->q)
		info.ipi_ifindex = ring->q->port->ifindex;
	if (addr_is_multicast(&to.addr))
		info.ipi_spec_dst.s_addr = addr_v4_of(&ring->addr);
	put(w, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
}

void cmsg_fill(const struct sock_options *opt, const struct pkt *pkt, struct msghdr *msg,
	       const struct ring *ring)
{
	struct writer w = {msg, msg->msg_control, msg->msg_controllen};

	if (opt->timestamp || opt->timestamp_ns)
		put_stamp(&w, opt, pkt->stamp ? pkt->stamp : clock_real());
	if (opt->pktinfo)
		put_pktinfo(&w, pkt, ring);
	msg->msg_controllen = (size_t)(w.at - (char *)msg->msg_control);
}

/* What socket(7) has for sends, and what the kernel steps over. */
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
