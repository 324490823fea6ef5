/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destinations: where a socket's frames go.  A destination is found once and used until the
 * network changes.
 *
 * Role		dst_find(): control lock, no ring held (it asks the kernel).
 *		dst_apply() and everything that reads a dst: the holder of the
 *		socket's home ring.
 * Lifetime	embedded in its socket; dst_fini() unlinks it from its neighbour and puts
 *		its ring.
 */
#ifndef SOCK_CORE_DST_H
#define SOCK_CORE_DST_H

#include "net/frame.h"
#include "net/netlink/netlink.h"
#include "ring/logic.h"
#include "ring/ring.h"
#include "sock/core/verdict.h"

/* A receiver in another process of this host, as this one sends to it; see local/local_udp.h. */
struct local_target;
struct local_target_ref {
	union {
		struct local_target *target;
		nsec_t at; /* VERDICT_LOOPBACK: when none was found; 0: none is looked for */
	};
	uint32_t gen;	 /* of the target: one life of the object */
	uint32_t looked; /* of the directory (local/local_dir.h), when it was looked for */
};

/*
 * Of a receiver on this host: the addresses as records have them.  Those of IPv6 have numbers, which the
 * receiver has given them.
 */
/* record_header.flags */
#define RECORD_IPV6 1u
#define RECORD_GROUP \
	2u /* alone: sent to a group; a mark (ring/local/record_fan.h) with this flag is a datagram */
struct record_addrs {
	uint32_t from, to, flags;
};

/* The result of dst_find(): values only. */
struct dst_found {
	enum verdict
		verdict; /* ACCELERATED, LOCAL (never by dst_find()), or why the kernel must send */
	struct local_target_ref local; /* VERDICT_LOCAL, VERDICT_LOOPBACK */
	struct record_addrs record;    /* VERDICT_LOCAL, or with fan */
	struct ring *ring;	       /* of the interface and the allocation key; no reference */
	struct inaddr src;
	struct inaddr nexthop;
	enum neigh_state neigh;
	uint8_t mac[6];
	uint32_t mtu;
	struct route_metrics metrics;
	uint32_t generation;
	bool by_host; /* as of struct dst */
	uint32_t host_epoch;
	/* VERDICT_LOOPBACK: of a group with members here; dst_apply() takes it, or the caller frees it */
	struct dst_fan *fan;
};

struct dst_query {
	struct endpoint to;
	struct inaddr src; /* any: the kernel chooses */
	int oif;	   /* 0: any */
	uint32_t mark;
	uint8_t tos;
	bool onlink;		 /* SO_DONTROUTE: not through a gateway */
	bool mc_loop;		 /* multicast must also reach listeners on this host */
	struct ring_alloc alloc; /* logic RING_LOGIC_IP: the local address selects the ring ... */
	uint64_t key;		 /* ... other logics: this key */
};

struct dst {
	struct adj_user user; /* of adj, while ring is the home ring */
	struct adj *adj;
	struct ring *ring; /* NULL: not resolved yet */
	union {
		struct inaddr nexthop;
		struct local_target_ref local; /* these verdicts; and see dst_local_header() */
		struct dst_fan *fan;	       /* fans */
	};
	struct frame_template tmpl;
	enum verdict verdict;
	bool mac_known : 1;  /* the neighbour was reachable when the destination was found */
	bool by_host : 1;    /* depends on sockets of this host that may come and go */
	bool unroutable : 1; /* see dst_set_unroutable() */
	bool unroutable_unacked : 1; /* for use by its owner */
	bool fans : 1;		     /* see struct dst_fan */
	uint16_t payload_max;	     /* of a datagram that is sent whole; 0: not known */
	uint32_t host_epoch;
	uint32_t generation; /* netlink_generation() under which it is known to hold; 0: none */
};

/*
 * A group with members on this host that shared memory reaches, all of them: datagrams go to them, and to
 * the wire.  The verdict of the destination is VERDICT_LOOPBACK, and it has no ring.
 */
struct dst_fan {
	struct dst wire;
	struct dst_found found; /* of wire */
	uint32_t looked;	/* as of struct local_target_ref */
	uint32_t ifindex;	/* of wire */
	unsigned n;
	struct local_target_ref to[];
};

/* holder: the ring that frames to it leave by; NULL: none. */
static inline struct ring *dst_wire_ring(const struct dst *dst)
{
	return dst->fans ? dst->fan->wire.ring : dst->ring;
}

/* holder: the MTU of the path, 65535 at most; 0: not known. */
static inline uint32_t dst_mtu(const struct dst *dst)
{
	return dst->payload_max ? dst->payload_max + frame_template_ip_hdr(&dst->tmpl) + UDP_HDR
				: 0;
}

/* Control lock, no ring held: fills in *found, see found->verdict.  May open a port. */
void dst_find(const struct dst_query *query, struct dst_found *found);

void dst_init(struct dst *dst);
void dst_fini(struct dst *dst); /* holder */

/*
 * A socket that moves to another ring calls dst_detach() holding the old home, then, holding
 * the new one, dst_apply(), or dst_rebind() to keep the destination with its link address.
 */
void dst_detach(struct dst *dst);
void dst_rebind(struct dst *dst, const struct ring *from, struct ring *to);

/*
 * holder of home: there is no route any more, and maybe no local address.  Until dst_apply()
 * frames are dropped, as if they were lost in the network.
 */
void dst_set_unroutable(struct dst *dst);

/* The number of unroutable destinations: any, atomic. */
extern unsigned dst_unroutable_count;

/* VERDICT_LOCAL, or fans: the header of all records to it is where the template would be. */
struct record_header;
static inline struct record_header *dst_local_header(struct dst *dst)
{
	return (struct record_header *)(void *)dst->tmpl.bytes;
}

struct dst_headers {
	struct endpoint src;
	uint8_t proto;
	uint8_t ttl;
	bool ttl_set;	  /* the program chose it: a route does not say otherwise */
	uint8_t hoplimit; /* of the route; 0: none. dst_apply() knows it */
	uint8_t tos;
	bool no_csum;
	bool no_label; /* IPv6: the flow label is 0 */
};

/*
 * holder of ring, or control lock: builds the headers of all frames to mac that leave by ring.
 * 0 or -EAFNOSUPPORT.
 */
int dst_template(struct frame_template *tmpl, const struct ring *ring, const uint8_t *mac,
		 const struct endpoint *to, const struct dst_headers *headers);

/*
 * holder of home: the destination is *found from now on.  0: release the ring, then call
 * dst_resolve_neighbour(); -ENOMEM, -EAFNOSUPPORT: the destination is unchanged.
 */
int dst_apply(struct dst *dst, struct ring *home, const struct endpoint *to,
	      const struct dst_found *found, const struct dst_headers *headers);

/*
 * No ring held: if the neighbour is not known, makes the kernel resolve it; the ring gets the
 * answer, even an immediate one.
 */
void dst_resolve_neighbour(const struct dst_found *found);

/*
 * Destinations with by_host are found again when this changes: a sender with
 * IP_MULTICAST_LOOP sends through the kernel while a socket of this host is a member of the
 * group; and the kernel chooses among the sockets that share a port (local/local_choice.c).
 * any, atomic.
 */
extern uint32_t dst_host_epoch;
/* any: it matters from now on. */
void dst_watch_host(void);
/* The internal thread, periodically: changes the epoch once a second while it matters. */
void dst_check_host(nsec_t now);

/* holder of home: dst_fresh() is false from now on. */
static inline void dst_expire(struct dst *dst)
{
	dst->generation = 0;
}

/* holder of home: the network has changed since; true: but not the way to this destination. */
bool dst_still(struct dst *dst);

/* holder of home: has the host's part in the way to the destination changed? */
static inline bool dst_host_changed(const struct dst *dst)
{
	/* Pairs with dst_check_host(). */
	return __builtin_expect(dst->by_host, 0) &&
	       dst->host_epoch != __atomic_load_n(&dst_host_epoch, __ATOMIC_ACQUIRE);
}

/* holder of home: may the destination be used without another dst_find()? */
static inline bool dst_fresh(struct dst *dst)
{
	return !dst_host_changed(dst) &&
	       (__builtin_expect(dst->generation == netlink_generation(), 1) || dst_still(dst)) &&
	       (!dst->adj || dst->adj->state != NEIGH_FAILED);
}

/*
 * holder of home: dst_fresh(), without a look at what has changed, and frames to it leave by this
 * ring at once: dst_send_ready().
 */
static inline bool dst_is_ready(const struct dst *dst, const struct ring *home)
{
	return dst->ring == home && dst->adj && dst->adj->state == NEIGH_REACHABLE &&
	       dst->generation == netlink_generation() && !dst_host_changed(dst);
}

/* The least number of segments in a large one; less are cheaper as frames. */
#define DST_LARGE_MIN 5

/*
 * holder of home: can large segments leave at once, by this ring?  The adjacency says that the port
 * is that of this ring, and that the link address is known.
 */
static inline bool dst_takes_large(const struct dst *dst, const struct ring *home)
{
	return dst->ring == home && dst->adj && dst->adj->state == NEIGH_REACHABLE &&
	       home->q->port->can.segment_max;
}

static inline void dst_send_ready(struct dst *dst, struct ring *home, struct pkt *pkt)
{
	dst->adj->used = true;
	ring_tx_put(home, pkt);
}

/* dst_send() of a destination that is on another ring, or unroutable. */
int dst_send_elsewhere(struct dst *dst, struct ring *home, struct pkt *pkt);

/*
 * holder of home: sends a complete frame to this destination; consumes it.  If the
 * destination is on another ring, a copy is posted to that ring.  0 or -errno.
 */
static inline int dst_send(struct dst *dst, struct ring *home, struct pkt *pkt)
{
	if (__builtin_expect(dst->ring == home && dst->adj, 1))
		return ring_tx_to(home, dst->adj, pkt);
	return dst_send_elsewhere(dst, home, pkt);
}

/* Where a frame goes that was built for a destination and leaves later; refers to its ring. */
struct dst_hop {
	struct ring *ring;
	struct inaddr nexthop;
	bool mac_known; /* the frame contains the link address */
};

/* holder of home; the destination has a ring. */
void dst_hop_get(const struct dst *dst, struct dst_hop *hop);
void dst_hop_put(struct dst_hop *hop);
/*
 * holder of home: sends a copy, by home if that is on the hop's interface.  False: there is no
 * frame or no memory now; the caller may try again.
 */
bool dst_hop_send(const struct dst_hop *hop, struct ring *home, const uint8_t *frame, uint32_t len);

/* ---- UDP: where a datagram goes, and what an unconnected socket remembers of it ------------- */

#define UDP_DST_CACHE 256

/* Where a datagram goes, and what its headers say. */
struct udp_way {
	struct endpoint to;
	struct inaddr src; /* any: that of the route */
	int oif;	   /* 0: that of the options, or of the route */
	uint8_t tos, ttl;
	bool ttl_set; /* as of struct dst_headers */
	bool plain;   /* all fields except to follow from the options */
};

/* A destination of an unconnected socket. */
struct udp_dst {
	struct dst dst; /* first */
	union {
		struct endpoint to; /* of udp_state.cache */
		struct udp_way way; /* of udp_rare.ways */
	};
};

#endif
