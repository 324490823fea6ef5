/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's view of the network: links, addresses, routes, neighbours.  The only module of
 * src/net that talks to the kernel.
 *
 * Role		netlink_open(), netlink_process(): the internal thread or the
 *		thread that starts the library.  Everything else: any thread.
 *		Functions lock a mutex, so never call them while holding a ring,
 *		unless their comment says "lock-free".
 * Lifetime	one per process.  After fork the child calls netlink_close().
 * Errors	-errno, the kernel's own where the kernel was asked; -ENOTCONN
 *		while it is not open.
 */
#ifndef NET_NETLINK_NETLINK_H
#define NET_NETLINK_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"
#include "net/route_metrics.h"

enum route_type {
	ROUTE_UNICAST,
	ROUTE_LOCAL, /* an address of this host */
	ROUTE_BROADCAST,
	ROUTE_MULTICAST,
	ROUTE_OTHER, /* only the kernel can serve it */
};

struct route_query {
	struct inaddr dst;
	struct inaddr src; /* any: the kernel selects it */
	int oif;	   /* 0: any */
	uint32_t mark;
	uint8_t tos;
};

struct route {
	enum route_type type;
	int ifindex;
	struct inaddr src;     /* preferred source address */
	struct inaddr gateway; /* any if the destination is on link */
	uint32_t mtu;	       /* 0: the MTU of the link */
	struct route_metrics metrics;
};

/* The modes of a bond, and fail_over_mac, as the kernel numbers them: BOND_MODE_* of if_bonding.h. */
struct link_bond {
	uint8_t mode;
	uint8_t hash; /* xmit_hash_policy: BOND_XMIT_POLICY_* */
	uint8_t fail_over_mac;
	bool all_slaves_active; /* slaves in state "backup" receive, too */
	bool uncoupled;		/* 802.3ad: a port may receive before it sends */
	int active;		/* active-backup: ifindex of the slave that sends; 0: none */
};

/* A slave of a bond. */
struct link_slave {
	bool of_bond;
	bool active; /* not in the state "backup" */
	bool up;     /* the bond has seen its link up */
};

struct link {
	int ifindex;
	char name[16];
	char kind[16]; /* "veth", "bond", "" ... */
	uint8_t mac[6];
	uint32_t mtu;
	bool up;      /* administratively */
	bool running; /* up and has a carrier; the kernel reports this up to a second late */
	bool loopback;
	bool ethernet;
	int master; /* ifindex of the bond or bridge it belongs to, 0 */
	/*
	 * The device below (of a VLAN), or the peer (of a veth); an ifindex of this network
	 * namespace unless lower_elsewhere. 0: none.
	 */
	int lower;
	bool lower_elsewhere;
	struct link_bond bond;	 /* of a bond */
	struct link_slave slave; /* of a device with a master */
};

enum neigh_state {
	NEIGH_UNKNOWN,	 /* unknown, or being resolved */
	NEIGH_REACHABLE, /* mac is valid */
	NEIGH_FAILED,
};

struct netlink_events {
	/*
	 * A neighbour became reachable, changed its address, failed, or was removed
	 * (NEIGH_UNKNOWN). After each neigh_use() that does not resolve it, NEIGH_FAILED is
	 * reported.
	 */
	void (*neigh)(int ifindex, const struct inaddr *addr, enum neigh_state state,
		      const uint8_t mac[6]);
	/* A link or an address was added, removed or changed. */
	void (*link)(int ifindex);
	/*
	 * The host gained an address, or lost it: no link has it any more, or, if it needs a scope,
	 * this link has not. The state is that of the call and may be newer than the event. May be
	 * NULL.
	 */
	void (*addr)(const struct endpoint *addr, bool present);
};

/*
 * Opens the sockets, subscribes to events, and reads links, addresses and neighbours. What exists
 * at this time is not reported as events. -EALREADY if it is open.
 */
int netlink_open(const struct netlink_events *events);
/*
 * Closes the sockets and frees the tables. In a child after fork the tables are abandoned, because
 * another thread may have been changing them.
 */
void netlink_close(void);

/*
 * True if this socket is in the network namespace of the tables, which is that of the thread that
 * called netlink_open(). Any thread; lock-free. Also true if the kernel cannot tell (before 5.14)
 * or fd is not a socket.
 */
bool netlink_is_of(int fd);
/*
 * The number of that namespace: the inode of /proc/PID/ns/net; 0: unknown, or netlink_open() was not
 * called yet. Any thread; lock-free.
 */
uint64_t netlink_namespace(void);

/*
 * The descriptor to poll for readability or an error (events were lost); -1 if closed. Any thread;
 * lock-free.
 */
int netlink_fd(void);
/* Reads pending events, updates the tables, and calls the event functions without the mutex. */
void netlink_process(void);

extern uint32_t netlink_generation_now; /* atomic; with the mutex to write */
/*
 * Changes whenever a route, rule, link or address changes; never 0; lock-free. Results that were looked up
 * under another value must be looked up again.
 */
static inline uint32_t netlink_generation(void)
{
	/* Pairs with next_generation(). */
	return __atomic_load_n(&netlink_generation_now, __ATOMIC_ACQUIRE);
}
/*
 * What was looked up for this destination under `generation` holds still: only routes to other
 * destinations have changed. Returns the generation up to which that is so, the latest; 0: look it
 * up again, also if too much has changed since to remember. Any thread; lock-free.
 */
uint32_t netlink_still(uint32_t generation, const struct inaddr *to);
/* netlink_still() remembers half as many changes. */
#define NETLINK_CHANGES 512

/*
 * Changes the generation. Call it when the process itself has changed which senders the kernel
 * accepts, because no event reports that.
 */
void netlink_expire(void);

/*
 * Asks the kernel for the route (RTM_GETROUTE), cached. 0 or -errno such as -ENETUNREACH. A cached
 * route costs one system call, which checks for pending events; if there are any, the kernel is
 * asked.
 */
int route_get(const struct route_query *query, struct route *route);

/*
 * Whether the kernel would deliver to this host a packet from remote to local that arrives on the
 * interface. 1: yes; 0: it would drop it (own address, rp_filter ...); -errno: the kernel could not
 * be asked.
 */
int route_accepts(int ifindex, const struct inaddr *local, const struct inaddr *remote);

int link_get(int ifindex, struct link *link); /* -ENODEV */
/*
 * The ifindex of the link that has this local address, or 0.  Several may have one that needs a scope;
 * link_of_endpoint(): the link of the endpoint's scope, if that is named.
 */
int link_of_addr(const struct inaddr *addr);
int link_of_endpoint(const struct endpoint *ep);
/*
 * Addresses of a link, IPv4 first. Stores at most max and returns their number, which may exceed
 * max.
 */
int link_addrs(int ifindex, struct inaddr *addrs, int max);
/* Calls fn for each link, under the mutex: fn must not call this module. */
void link_each(void (*fn)(const struct link *link, void *arg), void *arg);
/*
 * As link_each(), but asks the kernel for the current links. Also works without netlink_open(). 0
 * or -errno.
 */
int link_each_now(void (*fn)(const struct link *link, void *arg), void *arg);

/*
 * The state of a neighbour. mac is set for NEIGH_REACHABLE (which includes stale entries). Asks the
 * kernel if the table has no entry.
 */
enum neigh_state neigh_get(int ifindex, const struct inaddr *addr, uint8_t mac[6]);

/*
 * Makes the kernel resolve or confirm the neighbour (NTF_USE: it sends ARP or ND, and
 * events->neigh() follows). Call it also from time to time for entries in use: the kernel does not
 * see our traffic and would drop them. Without CAP_NET_ADMIN an unresolved neighbour is sent an
 * empty datagram instead, and for a resolved one -EPERM is returned. 0 or -errno.
 */
int neigh_use(int ifindex, const struct inaddr *addr);

#endif
