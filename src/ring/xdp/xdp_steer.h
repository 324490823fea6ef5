/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface of the XDP program and the xdp port: keys and values of the steering maps, and
 * the page of settings (struct xdp_steer_conf).
 *
 * Role		the members of the port group write, the program reads (in the
 *		kernel, on any CPU).
 * Lifetime	of the maps: as long as the group has a member.
 * Ordering	conf.flows5, conf.flows6 and conf.kernel are raised before an entry is added and
 *		lowered after it is removed, so that the program misses no entry.
 *		conf.gone is set before an address is entered, and cleared when none
 *		is left.
 *
 * Addresses and ports are in network byte order.  An IPv6 address stands in keys as its alias, a
 * hash of 32 bits.  A frame of IPv6 belongs to a flow only if the map of exact flows has it, too,
 * so that no other address is taken for it.
 */
#ifndef RING_XDP_XDP_STEER_H
#define RING_XDP_XDP_STEER_H

#include <linux/types.h>

#include "ring/reuseport_hash.h"

#define XDP_STEER_SLOTS 512 /* rings of one interface, of all processes */
#define XDP_STEER_QUEUES 64 /* RX queues of one interface */
#define XDP_STEER_PORTS 65536
/*
 * Maximum numbers of entries.  Memory for an entry is allocated when it is made, except 16 bytes
 * of each.  The 5-tuples are connections that this host opens, and those in TIME_WAIT.
 */
#define XDP_STEER_FLOWS3 65536
#define XDP_STEER_FLOWS5 262144
#define XDP_STEER_SHARES 512  /* flows with several receivers */
#define XDP_STEER_KERNEL 4096 /* 3-tuples at which the kernel may have TCP connections, too */
#define XDP_STEER_GONE 1024   /* addresses that the host has lost */
#define XDP_STEER_GRANTS 16384
#define XDP_STEER_EXACT 131072 /* flows of IPv6 */

/* Frames from any sender to this address and port.  A multicast group is an address, too. */
struct xdp_steer_key3 {
	__u32 local;
	__u16 local_port;
	__u8 proto;
	__u8 zero;
};

/*
 * The value of an entry is a slot.  For a 3-tuple with several receivers it is this bit and the
 * number of a share: a hash of the sender (reuseport_hash.h) chooses a bucket of the share, the
 * bucket names a member, and the member has a slot.
 */
#define XDP_STEER_SHARED (1u << 31)

/* Atomic: the holder of the group's lock writes; a process also the slots of its members. */
struct xdp_steer_share {
	__u16 slot[REUSEPORT_MEMBERS];	/* slot plus one; 0: the frames go to the kernel */
	__u8 bucket[REUSEPORT_BUCKETS]; /* number of a member */
};

struct xdp_steer_key5 {
	__u32 local;
	__u32 remote;
	__u16 local_port;
	__u16 remote_port;
	__u8 proto;
	__u8 zero[3];
};

/*
 * A flow of IPv6, with whole addresses.  remote and remote_port are 0 for any sender.  The value is
 * that of its entry in the maps; for connections in the table of local ports the slot.
 */
struct xdp_steer_exact {
	__u32 local[4];
	__u32 remote[4];
	__u16 local_port;
	__u16 remote_port;
	__u8 proto;
	__u8 zero[3];
};

/*
 * The alias of an IPv6 address.  It begins with a byte from 240 on, so it is no address that a flow
 * of IPv4 has.
 */
static inline __attribute__((always_inline)) __u32 xdp_steer_alias(const __u32 addr[4], __u32 seed)
{
	__u64 h = addr[0] | (__u64)addr[1] << 32;

	h = (h ^ seed) * 0xd6e8feb86659fd93ull;
	h ^= h >> 32;
	h ^= addr[2] | (__u64)addr[3] << 32;
	h = (h ^ seed) * 0xa0761d6478bd642full;
	return (__u32)(h >> 32 ^ h) | 0xf0u;
}

/*
 * A fenced slot gets only frames that it was granted, whatever the other maps say: its process
 * has given up its privileges.  Only processes with privileges can write the maps of fences and
 * grants.
 */
struct xdp_steer_grant {
	__u32 local;  /* 0, or the alias of ::, is any address of this family */
	__u32 remote; /* 0: any sender */
	__u16 local_port;
	__u16 remote_port;
	__u16 slot;
	__u8 proto;
	__u8 zero;
};

/*
 * A TCP connection in the table of local ports; the index is its local port as it is in the
 * frame.  The program looks here before it looks at the maps.  A second connection of the port
 * has an entry in the map of 5-tuples.
 */
#define XDP_STEER_OWNER 0xffffu /* the bits of `slot plus one` */
#define XDP_STEER_READY (1u << 31)

struct xdp_steer_conn {
	__u32 owner; /* atomic: members write; 0: free; without READY: being filled */
	/* atomic: the member whose slot is in owner writes them before READY */
	__u32 local;
	__u32 remote;
	__u16 remote_port;
	__u16 zero;
};

/* A slot's death mark (deathmark.h): the kernel sets DIED when the slot's process dies. */
struct xdp_steer_life {
	__u32 word; /* 0: not set */
	__u32 zero;
};
#define XDP_STEER_DIED 0x40000000u

/*
 * The settings.  flows5, flows6, gone, kernel and hold: atomic, any member writes.  outgrown and
 * unstamped: the program writes, too.  The others are set while a port is opened.
 */
struct xdp_steer_conf {
	__u32 flows5;	 /* entries in the map of 5-tuples; 0: the program skips it */
	__u32 mac_lo;	 /* first four bytes of the interface's MAC address, as in memory */
	__u16 mac_hi;	 /* the other two */
	__u16 vlan;	 /* VLAN of the interface, host byte order; 0: untagged */
	__u32 seed;	 /* of reuseport_bucket() */
	__u32 gone;	 /* not 0: frames to addresses in the map `gone` are dropped */
	__u32 kernel;	 /* entries in the map `kernel`; 0: the program skips it */
	__u32 queues;	 /* RX queues with AF_XDP sockets, at most XDP_STEER_QUEUES */
	__u32 outgrown;	 /* written by the program: frames of flows came by another RX queue */
	__u32 unstamped; /* frames have no time: zero-copy, or no room in front of frames */
	__u32 flows6;	 /* entries in the map of exact flows; 0: the program passes IPv6 */
	__u64 hold; /* CLOCK_MONOTONIC in ns: until then TCP without an entry is dropped; 0: no */
	__u32 stamped; /* any member writes, atomic: frames have their time with one RX queue, too */
	__u32 udp_max; /* bytes of the longest IP packet that is one datagram: the MTU */
};

#endif
