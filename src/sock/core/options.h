/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket options that the library implements.  Thousands of connections have the same
 * options, so equal options are one object.
 *
 * Role		options_share(): control lock.  options_get(): a thread that has a
 *		reference, or prevents that a reference is put.  options_put(): any.
 * Lifetime	counted.  An object is immutable.  A socket whose options change replaces
 *		its reference, holding its home and the control lock; so either of the
 *		two is enough to read them.
 * Ordering	a spinlock inside, the last one taken, held for some instructions.
 * Progress	options_share() compares a few objects with the same hash; if none of
 *		them is equal, the object is not shared.
 */
#ifndef SOCK_CORE_OPTIONS_H
#define SOCK_CORE_OPTIONS_H

#include "net/tcp/tcp.h"
#include "ring/logic.h"
#include "sock/core/accept_options.h"

/* Control messages that recvmsg(2) adds. */
enum {
	TOLD_STAMP = 1 << 0,	     /* SO_TIMESTAMP */
	TOLD_STAMP_NS = 1 << 1,	     /* SO_TIMESTAMPNS */
	TOLD_STAMP_NEW = 1 << 2,     /* SO_TIMESTAMP_NEW */
	TOLD_STAMPNS_NEW = 1 << 3,   /* SO_TIMESTAMPNS_NEW */
	TOLD_STAMPING = 1 << 4,	     /* SO_TIMESTAMPING: software stamps of arrival */
	TOLD_DROPS = 1 << 5,	     /* SO_RXQ_OVFL */
	TOLD_PKTINFO = 1 << 6,	     /* IP_PKTINFO */
	TOLD_TTL = 1 << 7,	     /* IP_RECVTTL */
	TOLD_TOS = 1 << 8,	     /* IP_RECVTOS */
	TOLD_OPTS = 1 << 9,	     /* IP_RECVOPTS */
	TOLD_ORIGDST = 1 << 10,	     /* IP_RECVORIGDSTADDR */
	TOLD_GRO = 1 << 11,	     /* UDP_GRO */
	TOLD_INQ = 1 << 12,	     /* TCP_INQ */
	TOLD_PKTINFO6 = 1 << 13,     /* IPV6_RECVPKTINFO */
	TOLD_HARDWARE = 1 << 14,     /* SO_TIMESTAMPING: the device's stamps of arrival */
	TOLD_STAMPING_NEW = 1 << 15, /* both by SO_TIMESTAMPING_NEW */
	TOLD_HOPLIMIT6 = 1 << 16,    /* IPV6_RECVHOPLIMIT */
	TOLD_TCLASS6 = 1 << 17,	     /* IPV6_RECVTCLASS */
	/* those whose value must be stored when the datagram arrives */
	TOLD_STAMPS = TOLD_STAMP | TOLD_STAMP_NS | TOLD_STAMP_NEW | TOLD_STAMPNS_NEW,
	TOLD_TIMES = TOLD_STAMPS | TOLD_STAMPING | TOLD_HARDWARE,
	TOLD_ARRIVAL = TOLD_TIMES | TOLD_DROPS,
};

/* Without padding: objects are compared as bytes. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
struct sock_options {
	const struct accept_options *accept_options; /* for a listener's children; a reference */
	nsec_t user_timeout;
	uint64_t pacing; /* bytes per second; 0: no limit */
	struct inaddr mc_addr;
	struct ring_alloc alloc_rx, alloc_tx; /* SO_VMA_RING_ALLOC_LOGIC */
	int linger_seconds;
	uint32_t window_clamp;	 /* TCP_WINDOW_CLAMP; 0: none */
	uint32_t notsent_lowat;	 /* TCP_NOTSENT_LOWAT; 0: the system's */
	unsigned defer_accept;	 /* number of SYN-ACKs, as the kernel stores TCP_DEFER_ACCEPT */
	uint32_t rcvbuf, sndbuf; /* as the kernel counts them; TCP: if set */
	uint32_t rcvlowat;	 /* INT_MAX at most */
	uint32_t mark;
	uint32_t told;		/* TOLD_*: the control messages that recvmsg(2) adds */
	uint32_t pacing_burst;	/* net/pace.h; 0: none was set */
	uint32_t pacing_max;	/* max_burst_sz of struct vma_rate_limit_t, for getsockopt(2) */
	uint32_t port_range;	/* IP_LOCAL_PORT_RANGE: last port << 16 | first port; 0: not set */
	uint32_t flow_tag;	/* SO_VMA_FLOW_TAG; 0: none */
	int bind_ifindex;	/* SO_BINDTODEVICE */
	int mc_ifindex;		/* IP_MULTICAST_IF; 0: that of the route */
	int uc_ifindex;		/* IP_UNICAST_IF; 0: that of the route */
	int uc_ifindex6;	/* IPV6_UNICAST_IF */
	int mc_ifindex6;	/* IPV6_MULTICAST_IF */
	uint16_t maxseg;	/* TCP_MAXSEG; 0: none */
	int16_t linger2;	/* TCP_LINGER2, seconds; -1: do not linger */
	uint16_t gso_size;	/* UDP_SEGMENT; 0: datagrams are not segmented */
	uint16_t pacing_packet; /* typical_pkt_sz, likewise */
	uint8_t hops6;		/* IPV6_UNICAST_HOPS, as the kernel reports it */
	uint8_t tclass6;	/* IPV6_TCLASS */
	struct tcp_keepalive keepalive;
	uint8_t tos, ttl; /* of IPv4 */
	uint8_t mc_ttl;
	uint8_t mc_hops6;  /* IPV6_MULTICAST_HOPS, as the kernel reports it */
	uint8_t pmtudisc;  /* IP_PMTUDISC_* */
	uint8_t pmtudisc6; /* IPV6_PMTUDISC_*, which have the same values */
	uint8_t cc_algo;   /* tcp_cc_by_number() */
	bool mc_loop, mc_all;
	bool mc_all6;  /* IPV6_MULTICAST_ALL */
	bool no_check; /* SO_NO_CHECK */
	bool reuseaddr, reuseport;
	bool nodelay, cork, quickack, oobinline; /* cork: TCP_CORK, UDP_CORK */
	bool linger_on;
	bool rcvbuf_set, sndbuf_set; /* the program chose the size */
	bool dontroute;
	uint8_t syncnt;		 /* TCP_SYNCNT; 0: the default */
	bool tx_stamps;		 /* SO_TIMESTAMPING: stamps of sent datagrams */
	bool no_label6;		 /* IPV6_AUTOFLOWLABEL is off */
	bool ttl_set, hops6_set; /* by the program */
	bool zerocopy;		 /* SO_ZEROCOPY of a stream socket: error_queue.h */
	uint8_t unused[5];
};
#pragma GCC diagnostic pop

/* What the IP header of a datagram to this group says. */
static inline uint8_t options_mc_ttl(const struct sock_options *opt, const struct inaddr *to)
{
	return addr_is_v4(to) ? opt->mc_ttl : opt->mc_hops6;
}

/* What the IP header of a unicast packet to this address says. */
static inline uint8_t options_ttl(const struct sock_options *opt, const struct inaddr *to)
{
	return __builtin_expect(addr_is_v4(to), 1) ? opt->ttl : opt->hops6;
}

/* The program chose it. */
static inline bool options_ttl_set(const struct sock_options *opt, const struct inaddr *to)
{
	return addr_is_v4(to) ? opt->ttl_set : opt->hops6_set;
}

static inline uint8_t options_tos(const struct sock_options *opt, const struct inaddr *to)
{
	return __builtin_expect(addr_is_v4(to), 1) ? opt->tos : opt->tclass6;
}

/* True: a datagram to this address that is larger than the MTU is refused. */
static inline bool options_never_fragment(const struct sock_options *opt, const struct inaddr *to)
{
	return (addr_is_v4(to) ? opt->pmtudisc : opt->pmtudisc6) >= IP_PMTUDISC_DO;
}

/*
 * Could setsockopt(2) have made these options?  They come from another process: what flags, indexes and
 * ranges say is not trusted.  Any other number is as good as another one.
 */
bool options_are_sane(const struct sock_options *opt);

/*
 * An object that equals *opt; the caller gets a reference to it.  A new object takes a
 * reference of its own to accept_options.  NULL: no memory.
 */
const struct sock_options *options_share(const struct sock_options *opt);
const struct sock_options *options_get(const struct sock_options *opt);
void options_put(const struct sock_options *opt); /* may be NULL */

/* In a forked child: abandons the objects of the parent. */
void options_fork_child(void);

#endif
