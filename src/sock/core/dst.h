/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destinations: where a socket's frames go, decided once and used until the
 * network changes.
 *
 * Role		dst_find(): any, holding no ring (it asks the kernel).
 *		dst_apply() and everything that reads a dst: the holder of the
 *		socket's home ring.
 * Lifetime	embedded in its socket; dst_fini() unlinks it from its neighbour.
 */
#ifndef SOCK_CORE_DST_H
#define SOCK_CORE_DST_H

#include "net/frame.h"
#include "net/netlink/netlink.h"
#include "ring/logic.h"
#include "ring/ring.h"
#include "sock/core/verdict.h"

/* What dst_find() found out: values only. */
struct dst_found {
	enum verdict verdict; /* ACCELERATED, or why the kernel must do it */
	struct ring *ring;    /* the ring of the interface and the allocation key */
	struct inaddr src;
	struct inaddr nexthop;
	enum neigh_state neigh;
	uint8_t mac[6];
	uint32_t mtu;
	uint32_t generation;
	bool mcast_looped;
	uint32_t mcast_epoch;
};

struct dst_query {
	struct endpoint to;
	struct inaddr src; /* any: the kernel chooses */
	int oif;	   /* 0: any */
	uint32_t mark;
	uint8_t tos;
	bool onlink;		 /* SO_DONTROUTE: by no gateway */
	bool mc_loop;		 /* multicast must also reach listeners on this host */
	struct ring_alloc alloc; /* how the ring is chosen; by address: from that alone */
	uint64_t key;		 /* otherwise */
};

struct dst {
	struct adj_user user; /* of adj, while ring is the home ring */
	struct adj *adj;
	struct ring *ring; /* NULL: not resolved yet */
	struct inaddr nexthop;
	struct frame_template tmpl;
	enum verdict verdict;
	bool mac_known : 1;    /* when it was found */
	bool mcast_looped : 1; /* it depends on who listens on this host */
	bool mute : 1;	       /* see dst_mute() */
	bool mute_sent : 1;    /* its owner's */
	uint32_t mcast_epoch;
	uint32_t generation; /* netlink_generation() it was found under */
	uint32_t mtu;
};

/* Under the control lock (it may open a port).  Always succeeds: see verdict. */
void dst_find(const struct dst_query *query, struct dst_found *found);

void dst_init(struct dst *dst);
void dst_fini(struct dst *dst); /* holder */

/*
 * The socket moves to another ring: holder of the old home, then of the new one
 * (dst_apply(), or dst_rebind() to go on as before, with the address it has).
 */
void dst_detach(struct dst *dst);
void dst_rebind(struct dst *dst, const struct ring *from, struct ring *to);

/*
 * holder of home: there is no way any more, and maybe no local address.  What is sent is
 * lost, as if on the wire, until dst_apply().
 */
void dst_mute(struct dst *dst);

/* How many there are: any, atomic. */
extern unsigned dst_mutes;

struct dst_headers {
	struct endpoint src;
	uint8_t proto;
	uint8_t ttl;
	uint8_t tos;
	bool no_csum;
};

/*
 * What every frame to mac by way of ring begins with; holder of ring, or control lock.
 * 0 or -EAFNOSUPPORT.
 */
int dst_template(struct frame_template *tmpl, const struct ring *ring, const uint8_t *mac,
		 const struct endpoint *to, const struct dst_headers *headers);

/*
 * holder of home: takes the finding over.  True: the neighbour must be resolved
 * (dst_resolve_neighbour() after the ring is released).  -ENOMEM...
 */
int dst_apply(struct dst *dst, struct ring *home, const struct endpoint *to,
	      const struct dst_found *found, const struct dst_headers *headers);

/* No ring held: has the kernel resolve the neighbour, misses no answer. */
void dst_resolve_neighbour(const struct dst_found *found);

/*
 * Counts changes of multicast membership on this host, as far as they are looked
 * at: a sender with IP_MULTICAST_LOOP goes through the kernel while somebody here
 * listens.  Any, atomic.
 */
extern uint32_t dst_mcast_epoch;
/* The internal thread, now and then. */
void dst_check_mcast(nsec_t now);

/* holder of home: it must be found anew before it is used again. */
static inline void dst_expire(struct dst *dst)
{
	dst->generation = netlink_generation() - 1;
}

/* May it be used as it is? */
static inline bool dst_fresh(const struct dst *dst)
{
	/* Pairs with dst_check_mcast(). */
	if (__builtin_expect(dst->mcast_looped, 0) &&
	    dst->mcast_epoch != __atomic_load_n(&dst_mcast_epoch, __ATOMIC_ACQUIRE))
		return false;
	return dst->generation == netlink_generation() &&
	       (!dst->adj || dst->adj->state != NEIGH_FAILED);
}

/*
 * holder of home: sends a built frame of this destination; consumes it.  A
 * destination of another ring gets it through that ring's inbox.
 */
int dst_send(struct dst *dst, struct ring *home, struct pkt *pkt);

#endif
