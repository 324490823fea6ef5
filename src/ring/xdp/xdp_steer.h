/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the XDP program and the xdp port share: keys of the steering maps and
 * the page of settings.
 *
 * Role		the members of the port group write, the program reads (in the
 *		kernel, any CPU).
 * Lifetime	of the maps: as long as the group has a member.
 * Ordering	flows5 and kernel are raised before an entry is added and lowered after
 *		it is gone, so that no entry is overlooked.  gone is set before an
 *		address is entered, and cleared when none is left.
 *
 * IPv4 so far.  Addresses and ports are in network byte order.
 */
#ifndef RING_XDP_XDP_STEER_H
#define RING_XDP_XDP_STEER_H

#include <linux/types.h>

#include "ring/reuseport_hash.h"

#define XDP_STEER_SLOTS 512 /* rings of one interface, of all processes */
#define XDP_STEER_QUEUES 64 /* RX queues of one interface */
#define XDP_STEER_PORTS 65536
/*
 * Entries come as they are needed, 16 bytes of each beforehand.  5-tuples: connections
 * that begin here, with those in TIME_WAIT.
 */
#define XDP_STEER_FLOWS3 65536
#define XDP_STEER_FLOWS5 262144
#define XDP_STEER_SHARES 512  /* flows with several receivers at once */
#define XDP_STEER_KERNEL 4096 /* listeners at whose port the kernel may have connections, too */
#define XDP_STEER_GONE 1024   /* addresses that the host has lost */
#define XDP_STEER_GRANTS 16384

/* Whoever sends to this address and port.  Multicast groups are addresses too. */
struct xdp_steer_key3 {
	__u32 local;
	__u16 local_port;
	__u8 proto;
	__u8 zero;
};

/*
 * The value of an entry is a slot; or, of a 3-tuple, this bit and the number of a share:
 * who sends what has a place in its table (reuseport_hash.h), and the member there a slot.
 */
#define XDP_STEER_SHARED (1u << 31)

struct xdp_steer_share {
	__u16 slot[REUSEPORT_MEMBERS]; /* and one; 0: nobody has it, the kernel does */
	__u8 bucket[REUSEPORT_BUCKETS];
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
 * A slot that is fenced gets nothing but what it was granted, whatever the other maps say:
 * its process has given up its privileges.  Who writes these two maps has them still.
 */
struct xdp_steer_grant {
	__u32 local;  /* 0: any address */
	__u32 remote; /* 0: whoever sends */
	__u16 local_port;
	__u16 remote_port;
	__u16 slot;
	__u8 proto;
	__u8 zero;
};

/*
 * A TCP connection, at the place of its local port as it is in the frame.  What is
 * there comes before both maps.  A second one of the port has an entry of the map of
 * 5-tuples.
 */
#define XDP_STEER_OWNER 0xffffu /* the bits of: slot and one */
#define XDP_STEER_READY (1u << 31)

struct xdp_steer_conn {
	__u32 owner; /* 0: none; without READY: being filled */
	__u32 local;
	__u32 remote;
	__u16 remote_port;
	__u16 zero;
};

/* Of a slot: its process lives, and who it is (deathmark.h). */
struct xdp_steer_life {
	__u32 word; /* 0: nobody has said that it lives */
	__u32 zero;
};
#define XDP_STEER_DIED 0x40000000u

struct xdp_steer_conf {
	__u32 flows5;	/* entries in the 5-tuple map: 0 saves the look-up */
	__u32 mac_lo;	/* first four bytes of the interface's address, as in memory */
	__u16 mac_hi;	/* the other two */
	__u16 vlan;	/* VLAN of the interface, host byte order; 0: untagged */
	__u32 seed;	/* of reuseport_bucket() */
	__u32 gone;	/* not 0: there are lost addresses, whose frames are dropped */
	__u32 kernel;	/* entries in the map of that name: 0 saves the look-up */
	__u32 queues;	/* RX queues with sockets, at most XDP_STEER_QUEUES */
	__u32 outgrown; /* written by the program: frames of flows came by another RX queue */
	__u64 hold; /* CLOCK_MONOTONIC in ns: until then TCP without an entry is dropped; 0: no */
};

#endif
