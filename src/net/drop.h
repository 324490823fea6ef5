/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reasons to drop a packet. Input functions return one of these; one place (the ring) frees the
 * packet and counts the reason.
 */
#ifndef NET_DROP_H
#define NET_DROP_H

#define DROP_LIST(X)                                             \
	X(NONE, "not dropped")                                   \
	X(SHORT, "frame shorter than its headers")               \
	X(ETHERTYPE, "neither IPv4 nor IPv6")                    \
	X(IP_VERSION, "IP version or header length is wrong")    \
	X(IP_LENGTH, "IP total length exceeds the frame")        \
	X(IP_CSUM, "IPv4 header checksum is wrong")              \
	X(IP_FRAGMENT, "IP fragment")                            \
	X(IP_OPTION, "IP route or option that is not followed")  \
	X(IP_PROTO, "neither UDP nor TCP")                       \
	X(UDP_LENGTH, "UDP length is wrong")                     \
	X(UDP_CSUM, "UDP checksum is wrong")                     \
	X(TCP_OFFSET, "TCP data offset is wrong")                \
	X(TCP_CSUM, "TCP checksum is wrong")                     \
	X(NO_FLOW, "no socket for it")                           \
	X(SOURCE, "the kernel accepts no such sender here")      \
	X(NO_WAY_BACK, "answers would not leave by the ring")    \
	X(SOURCE_FULL, "too much waits for a check of senders")  \
	X(NO_MEMORY, "no memory to keep it")                     \
	X(SOCK_FULL, "receive buffer of the socket is full")     \
	X(SOCK_CLOSED, "socket does not receive any more")       \
	X(SOCK_FILTER, "not from the connected peer or source")  \
	X(SOCK_EXPORTED, "the connection went to another process")   \
	X(TCP_STATE, "segment makes no sense in this state")     \
	X(TCP_SEQ, "segment outside the window")                 \
	X(TCP_ACK, "acknowledges what was not sent")             \
	X(TCP_OPTION, "malformed TCP option")                    \
	X(TCP_PAWS, "timestamp too old")                         \
	X(TCP_DUPLICATE, "nothing new in it")                    \
	X(TCP_WINDOW, "beyond the receive buffer")               \
	X(TCP_BACKLOG, "backlog of the listener is full")        \
	X(TCP_SYN_RATE, "more SYNs than VMA_TCP_MAX_SYN_RATE")   \
	X(NEIGH_FULL, "too many packets wait for the neighbour") \
	X(NEIGH_FAILED, "the neighbour does not answer")         \
	X(NO_ROUTE, "there is no route, or no local address")    \
	X(BOND_BACKUP, "by a slave that its bond does not hear")

enum drop {
#define X(name, text) DROP_##name,
	DROP_LIST(X)
#undef X
		DROP_COUNT
};

/* The text of a reason, and its name in the list above. */
const char *drop_text(enum drop reason);
const char *drop_name(enum drop reason);

#endif
