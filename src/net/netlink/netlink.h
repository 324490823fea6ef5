/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel knows of the network: links, addresses, routes, neighbours.
 * The only module of src/net that talks to the kernel.
 *
 * Role		netlink_open(), netlink_process(): the internal thread or the
 *		thread that starts the library.  Everything else: any thread;
 *		a mutex inside, so never while holding a ring, except where
 *		a function says "lock-free".
 * Lifetime	one per process.  After fork the child calls netlink_close().
 * Errors	-errno, the kernel's own where the kernel was asked; -ENOTCONN
 *		while it is not open.
 */
#ifndef NET_NETLINK_NETLINK_H
#define NET_NETLINK_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"

enum route_type {
	ROUTE_UNICAST,
	ROUTE_LOCAL, /* an address of this host */
	ROUTE_BROADCAST,
	ROUTE_MULTICAST,
	ROUTE_OTHER, /* the kernel's business */
};

struct route_query {
	struct inaddr dst;
	struct inaddr src; /* any: the kernel chooses */
	int oif;	   /* 0: any */
	uint32_t mark;
	uint8_t tos;
};

struct route {
	enum route_type type;
	int ifindex;
	struct inaddr src;     /* preferred source */
	struct inaddr gateway; /* any when on link */
	uint32_t mtu;	       /* 0: that of the link */
	uint8_t hoplimit;      /* 0: the default */
};

struct link {
	int ifindex;
	char name[16];
	char kind[16]; /* "veth", "bond", "" ... */
	uint8_t mac[6];
	uint32_t mtu;
	bool up;      /* administratively */
	bool running; /* and has a carrier; the kernel tells a second late */
	bool loopback;
	bool ethernet;
	int master; /* ifindex of the bond or bridge it belongs to, 0 */
	/* The device beneath (of a VLAN), or the other end (of a veth); its number counts in this
	 * network namespace unless lower_elsewhere.  0: none. */
	int lower;
	bool lower_elsewhere;
};

enum neigh_state {
	NEIGH_UNKNOWN,	 /* nothing known, or being resolved */
	NEIGH_REACHABLE, /* mac is valid */
	NEIGH_FAILED,
};

struct netlink_events {
	/*
	 * A neighbour became known, changed its address, failed, or is not
	 * known any more (NEIGH_UNKNOWN).  Each neigh_use() that does not make
	 * it known is followed by NEIGH_FAILED.
	 */
	void (*neigh)(int ifindex, const struct inaddr *addr, enum neigh_state state,
		      const uint8_t mac[6]);
	/* A link or an address came, went or changed. */
	void (*link)(int ifindex);
	/*
	 * The host got an address, or lost it: no link has it any more.  As of now: what
	 * it says may be later than the event.  May be NULL.
	 */
	void (*addr)(const struct inaddr *addr, bool present);
};

/*
 * Opens the sockets, reads links, addresses and neighbours; subscribes.  What
 * is there at this time is not reported.  -EALREADY.
 */
int netlink_open(const struct netlink_events *events);
/* In a child after fork, the tables are left alone: another thread may have been at them. */
void netlink_close(void);

/*
 * Is this socket of the network namespace that the tables are of, which is the one of the
 * thread that called netlink_open()?  Any thread.  Where the kernel does not tell (before 5.14),
 * and of what is no socket: yes.
 */
bool netlink_is_of(int fd);

/* To wait for readability or an error (events were lost); -1 when closed. */
int netlink_fd(void);
/* Reads what is pending, updates caches, calls events without the mutex. */
void netlink_process(void);

/*
 * Changes whenever a route, rule, link or address did; lock-free.  What was
 * looked up under an older value must be looked up again.
 */
uint32_t netlink_generation(void);
/*
 * From now on it is another one: the process has changed itself what the kernel says of senders,
 * which no event tells.
 */
void netlink_expire(void);

/*
 * As the kernel would route it (RTM_GETROUTE), cached.  -ENETUNREACH...  Costs
 * one system call when cached: if events are waiting, the kernel is asked.
 */
int route_get(const struct route_query *query, struct route *route);

/*
 * Would the kernel deliver to this host what remote sends to local, and comes by the
 * interface?  1; 0: it drops it (its own address, rp_filter ...); -errno: it was not asked.
 */
int route_accepts(int ifindex, const struct inaddr *local, const struct inaddr *remote);

int link_get(int ifindex, struct link *link); /* -ENODEV */
/* Which link has this local address?  0 when none has. */
int link_of_addr(const struct inaddr *addr);
/* Addresses of a link, IPv4 first; returns how many there are (may exceed max). */
int link_addrs(int ifindex, struct inaddr *addrs, int max);
/* Calls fn for each link, under the mutex: fn must not call in here. */
void link_each(void (*fn)(const struct link *link, void *arg), void *arg);
/*
 * The same, as the kernel has them now: it is asked for all of them.  Works without
 * netlink_open(), too.
 */
int link_each_now(void (*fn)(const struct link *link, void *arg), void *arg);

/*
 * The kernel's entry for a neighbour.  mac is set with NEIGH_REACHABLE (which
 * includes stale entries).  Asks the kernel if the cache has none.
 */
enum neigh_state neigh_get(int ifindex, const struct inaddr *addr, uint8_t mac[6]);

/*
 * Has the kernel resolve or confirm it (NTF_USE: it sends ARP or ND itself, and
 * events->neigh() follows).  Call it also now and then for entries in use, so
 * that the kernel, which does not see our traffic, keeps them.  Without CAP_NET_ADMIN it is
 * sent an empty datagram where it is not known, and those that are known: -EPERM.
 */
int neigh_use(int ifindex, const struct inaddr *addr);

#endif
