/* SPDX-License-Identifier: BSD-2-Clause */
/* Control messages of what was received: recvmsg(2), ip(7), socket(7), tcp(7). */
#ifndef SOCK_CORE_MSG_CMSG_H
#define SOCK_CORE_MSG_CMSG_H

#include <sys/socket.h>

#include "sock/core/inet_sock.h"

/*
 * holder: writes what the options ask for into msg->msg_control, sets msg_controllen to
 * the bytes used, and sets MSG_CTRUNC when it did not fit.  ring: the socket's home; ifindex: where
 * pkt arrived.  gso_size: pkt is the first of several datagrams of this size that are read as one
 * (UDP_GRO); 0: it is the only one.
 */
void cmsg_fill(const struct sock_options *opt, const struct pkt *pkt, struct msghdr *msg,
	       const struct ring *ring, int ifindex, int gso_size);

/*
 * holder: the same, for bytes of a stream.  arrival: when they came; real is 0: not recorded, and
 * device says nothing then.  left: the bytes that can still be read, for TCP_INQ.
 */
void cmsg_fill_stream(const struct sock_options *opt, const struct pkt_arrival *arrival, int left,
		      struct msghdr *msg);

/*
 * holder: the same, for completions lo to hi (error_queue.h) of a socket of this family, which come
 * behind the time stamp that the options ask for.
 */
void cmsg_fill_completion(const struct sock_options *opt, uint8_t family, uint32_t lo, uint32_t hi,
			  struct msghdr *msg);

/* What the control messages of a sent datagram ask for. */
struct cmsg_sent {
	bool pktinfo;	   /* IP_PKTINFO or IPV6_PKTINFO */
	bool segmented;	   /* UDP_SEGMENT is there */
	uint16_t gso_size; /* and its value */
	int oif;	   /* of pktinfo; 0: any */
	struct inaddr src; /* of pktinfo; any: the route's */
	int tos;	   /* -1: not given */
	uint8_t ttl;	   /* 0: not given */
};

/*
 * The socket, and where the datagram goes.  As in the kernel, messages of IPPROTO_IPV6 count for
 * AF_INET6 sockets, and those of IPPROTO_IP for IPv4; an AF_INET6 socket may choose an IPv4 source
 * by IPV6_PKTINFO.
 */
enum cmsg_to { CMSG_INET, CMSG_INET6_TO_IPV4, CMSG_INET6 };

/* False: the messages contain something that the kernel has to do, or to refuse. */
bool cmsg_read_sent(const struct msghdr *msg, enum cmsg_to to, struct cmsg_sent *sent);

/*
 * Of a send on a socket that ignores control messages: 0, or -EINVAL where the kernel
 * refuses them.
 */
int cmsg_check(const struct msghdr *msg);

#endif
