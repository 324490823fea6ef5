/* SPDX-License-Identifier: BSD-2-Clause */
/* Control messages of a received datagram: recvmsg(2), ip(7), socket(7). */
#ifndef SOCK_UDP_CMSG_H
#define SOCK_UDP_CMSG_H

#include <sys/socket.h>

#include "sock/core/inet_sock.h"

/*
 * holder: writes what the options ask for into msg->msg_control, sets
 * msg_controllen to what was used, and MSG_CTRUNC when it did not fit.  gso_size: pkt is
 * the first of several that are read as one (UDP_GRO), of so many bytes each; 0: it is not.
 */
void cmsg_fill(const struct sock_options *opt, const struct pkt *pkt, struct msghdr *msg,
	       const struct ring *ring, int gso_size);

/*
 * holder: likewise, of a stream's bytes that came at stamp; 0: that was not noted.  left:
 * what is there behind them, TCP_INQ.
 */
void cmsg_fill_stream(const struct sock_options *opt, nsec_t stamp, int left, struct msghdr *msg);

/* What the control messages of a datagram that is sent ask for. */
struct cmsg_sent {
	bool pktinfo;
	bool segmented;	   /* UDP_SEGMENT is there */
	uint16_t gso_size; /* and says */
	int oif;	   /* IP_PKTINFO; 0: any */
	struct inaddr src; /* IP_PKTINFO; any: the route has one */
	int tos;	   /* -1: not said */
	uint8_t ttl;	   /* 0: not said */
};

/* False: there is something in them that is for the kernel to do, or to refuse. */
bool cmsg_read_sent(const struct msghdr *msg, struct cmsg_sent *sent);

/*
 * Of a send, on a socket that does nothing with control messages: 0, or -EINVAL where
 * the kernel says that they are wrong.
 */
int cmsg_check(const struct msghdr *msg);

#endif
