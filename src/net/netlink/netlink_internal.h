/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of netlink: requests to the kernel (netlink.c), the tables of links and
 * addresses (netlink_cache.c) and of neighbours (netlink_neigh.c), route queries (netlink_route.c),
 * and what changed lately (netlink_changes.c).
 *
 * Role		any thread.  Call everything but netlink_lock() under that mutex.
 */
#ifndef NET_NETLINK_NETLINK_INTERNAL_H
#define NET_NETLINK_NETLINK_INTERNAL_H

#include <linux/netlink.h>

#include "net/netlink/netlink.h"

/* ---- netlink.c: the mutex ------------------------------------------------------ */

void netlink_lock(void);
void netlink_unlock(void);

/* ---- netlink.c: one request -------------------------------------------------- */

struct netlink_request {
	union {
		struct nlmsghdr hdr;
		uint8_t bytes[256];
	};
};

/* head: the struct after the netlink header (struct rtmsg ...). */
void netlink_request_init(struct netlink_request *rq, uint16_t type, uint16_t flags,
			  const void *head, size_t len);
void netlink_request_attr(struct netlink_request *rq, uint16_t type, const void *data, size_t len);
static inline void netlink_request_u32(struct netlink_request *rq, uint16_t type, uint32_t value)
{
	netlink_request_attr(rq, type, &value, sizeof(value));
}
/* Adds 4 bytes for IPv4, 16 for IPv6. */
void netlink_request_addr(struct netlink_request *rq, uint16_t type, const struct inaddr *addr);

typedef void (*netlink_reply_fn)(struct nlmsghdr *msg, void *arg);

/* Sends the request and calls fn for each message of the answer. 0 or -errno. */
int netlink_ask(struct netlink_request *rq, netlink_reply_fn fn, void *arg);
/*
 * netlink_ask() for a whole table: type is RTM_GETLINK ..., head_len the length of its struct.
 * -EINTR if the table changed during each try.
 */
int netlink_dump(uint16_t type, size_t head_len, netlink_reply_fn fn, void *arg);
/* As netlink_dump(), and works also while netlink is not open. */
int netlink_dump_alone(uint16_t type, size_t head_len, netlink_reply_fn fn, void *arg);

/* True if events are pending; the tables may then be out of date. */
bool netlink_pending(void);

static inline int addr_family(const struct inaddr *addr)
{
	return addr_is_v4(addr) ? AF_INET : AF_INET6;
}

/* False unless the attribute has the length of an address of family. */
bool netlink_attr_addr(const struct nlattr *attr, int family, struct inaddr *addr);

/* ---- netlink_changes.c: what changed ----------------------------------------- */

/* The destinations of a route. */
struct route_prefix {
	struct inaddr addr;
	uint32_t bits; /* of addr: 96 more than IPv4 counts */
};

/*
 * The change that leads to this generation, before it becomes the current one: a route with this
 * prefix; NULL: anything.
 */
void changes_note(uint32_t generation, const struct route_prefix *prefix);

/* ---- netlink_cache.c: tables --------------------------------------------------- */

/* An event that netlink_process() reports after it unlocks the mutex. */
struct cache_event {
	int ifindex;
	enum { CACHE_NEIGH, CACHE_LINK, CACHE_ADDR } kind;
	bool present; /* CACHE_ADDR: a link has it; if it needs a scope: this link */
	enum neigh_state state;
	uint8_t mac[6];
	struct inaddr addr;
};

void cache_init(void);
/*
 * Frees the entries. abandon: does not touch them, because after fork another thread may have been
 * changing them.
 */
void cache_fini(bool abandon);

/* Applies a message to the tables. True if it may change the route of packets. */
bool cache_apply(struct nlmsghdr *msg);

/* Between these two calls the tables are read again; the second removes entries that were not. */
void cache_sweep_begin(void);
void cache_sweep_end(void);

/*
 * Takes the events since the last call; the caller frees them with mem_free(). Returns their
 * number.
 */
size_t cache_take_events(struct cache_event **events);

bool cache_link_running(int ifindex);
/* Has the interface a link-local IPv6 address that may be used? */
bool cache_has_link_local(int ifindex);

/* NULL without memory; the event is then lost. */
struct cache_event *cache_add_event(int ifindex);
/* As mem_zalloc(), and logs a warning on failure. */
void *cache_new_entry(size_t size);

/* ---- netlink_bond.c: bonds --------------------------------------------------------- */

/* Reads what IFLA_LINKINFO says of a bond, or of a slave of one. */
void bond_parse(struct nlattr *const info[], struct link *link);

/* ---- netlink_neigh.c: its part of the tables ----------------------------------- */

void neigh_table_init(void);
void neigh_apply(struct nlmsghdr *msg, uint32_t epoch);
/* Removes the entries that were not seen in epoch. */
void neigh_sweep(uint32_t epoch);

/* ---- netlink_route.c ------------------------------------------------------------- */

/* See route_get(). generation: the current one. */
int route_lookup(const struct route_query *query, uint32_t generation, struct route *route);
/* False: the message does not concern a route, or not only one that can be told. */
bool route_parse_prefix(struct nlmsghdr *msg, struct route_prefix *prefix);
/* See route_accepts(). */
int route_ask_input(int ifindex, const struct inaddr *local, const struct inaddr *remote);
void route_cache_fini(bool abandon);

#endif
