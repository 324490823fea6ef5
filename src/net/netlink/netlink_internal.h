/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of netlink share: asking the kernel (netlink.c), what it said
 * of links and addresses (netlink_cache.c) and of neighbours (netlink_neigh.c),
 * how it would route (netlink_route.c).
 *
 * Role		any thread.  Everything but netlink_lock() is called under that mutex.
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

/* head: what follows the netlink header (struct rtmsg ...). */
void netlink_request_init(struct netlink_request *rq, uint16_t type, uint16_t flags,
			  const void *head, size_t len);
void netlink_request_attr(struct netlink_request *rq, uint16_t type, const void *data, size_t len);
static inline void netlink_request_u32(struct netlink_request *rq, uint16_t type, uint32_t value)
{
	netlink_request_attr(rq, type, &value, sizeof(value));
}
/* Four bytes of IPv4, sixteen of IPv6. */
void netlink_request_addr(struct netlink_request *rq, uint16_t type, const struct inaddr *addr);

typedef void (*netlink_reply_fn)(struct nlmsghdr *msg, void *arg);

/* Sends it and hands each message of the answer to fn. */
int netlink_ask(struct netlink_request *rq, netlink_reply_fn fn, void *arg);
/*
 * netlink_ask() for a whole table: type is RTM_GETLINK ..., head_len the length of
 * its struct.  -EINTR: it changed each time it was read.
 */
int netlink_dump(uint16_t type, size_t head_len, netlink_reply_fn fn, void *arg);
/* The same, also while netlink is not open. */
int netlink_dump_alone(uint16_t type, size_t head_len, netlink_reply_fn fn, void *arg);

/* Is there an event that nobody has read?  Then the tables may be old. */
bool netlink_pending(void);

static inline int addr_family(const struct inaddr *addr)
{
	return addr_is_v4(addr) ? AF_INET : AF_INET6;
}

/* False unless it has the length of an address of family. */
bool netlink_attr_addr(const struct nlattr *attr, int family, struct inaddr *addr);

/* ---- netlink_cache.c: tables --------------------------------------------------- */

/* What netlink_process() is to report once the mutex is free. */
struct cache_event {
	int ifindex;
	enum { CACHE_NEIGH, CACHE_LINK, CACHE_ADDR } kind;
	bool present; /* CACHE_ADDR: some link has it */
	enum neigh_state state;
	uint8_t mac[6];
	struct inaddr addr;
};

void cache_init(void);
/* Frees the entries; abandon: leaves them, after fork another thread may have been at them. */
void cache_fini(bool abandon);

/* Enters a message; true when the way of packets may have changed. */
bool cache_apply(struct nlmsghdr *msg);

/* Between the two, what was not applied again is gone from the kernel. */
void cache_sweep_begin(void);
void cache_sweep_end(void);

/* Events since the last call, for mem_free(); returns how many. */
size_t cache_take_events(struct cache_event **events);

bool cache_link_running(int ifindex);

/* NULL without memory: then the report is lost. */
struct cache_event *cache_add_event(int ifindex);
/* As mem_zalloc(), with a warning. */
void *cache_new_entry(size_t size);

/* ---- netlink_neigh.c: its part of the tables ----------------------------------- */

void neigh_table_init(void);
void neigh_apply(struct nlmsghdr *msg, uint32_t epoch);
/* Removes what was not applied in epoch. */
void neigh_sweep(uint32_t epoch);

/* ---- netlink_route.c ------------------------------------------------------------- */

/* Under the mutex; generation: that of now. */
int route_lookup(const struct route_query *query, uint32_t generation, struct route *route);
/* Under the mutex: see route_accepts(). */
int route_ask_input(int ifindex, const struct inaddr *local, const struct inaddr *remote);
void route_cache_fini(bool abandon);

#endif
