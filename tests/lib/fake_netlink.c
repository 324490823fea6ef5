/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/fake_netlink.h"

#include <errno.h>
#include <stdio.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/sys.h"
#include "net/netlink/netlink.h"

static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1}; /* address of the loop-back port */
static uint32_t mtu = 1500;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
uint32_t netlink_generation_now = 1; /* any, atomic; written with changing */
static uint32_t concerning = 1;	     /* likewise: the last generation that may concern all */
static unsigned asked;		     /* any, atomic: questions about routes and senders */
static uint32_t refused; /* any, atomic: the kernel accepts nothing from this sender; 0: none */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool shut;
	unsigned waiting;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};
static uint32_t lost_addrs; /* any, atomic: a bit for each address that the host has lost */
static uint32_t told_addrs; /* netlink_process(): as reported */
static bool unplugged;	    /* any, atomic: there is no interface */
static const struct netlink_events *listeners;
static int changes_fd = -1; /* an eventfd: link changes that were not reported yet */

uint32_t fake_link_addr(unsigned i)
{
	return htonl(0x0a010001 + i);
}

void fake_link_set_mtu(uint32_t bytes)
{
	mtu = bytes;
}

void fake_netlink_change(int link)
{
	int fd = __atomic_load_n(&changes_fd, __ATOMIC_ACQUIRE);

	netlink_expire();
	if (link && fd >= 0)
		eventfd_write(fd, 1);
}

void fake_netlink_addr(unsigned i, bool present)
{
	if (present)
		__atomic_fetch_and(&lost_addrs, ~(1u << i), __ATOMIC_ACQ_REL);
	else
		__atomic_fetch_or(&lost_addrs, 1u << i, __ATOMIC_ACQ_REL);
	fake_netlink_change(1);
}

void fake_netlink_plug(bool present)
{
	__atomic_store_n(&unplugged, !present, __ATOMIC_RELEASE);
	fake_netlink_change(1);
}

static bool is_plugged(void)
{
	return !__atomic_load_n(&unplugged, __ATOMIC_ACQUIRE);
}

static bool has_addr(unsigned i)
{
	return is_plugged() && !(__atomic_load_n(&lost_addrs, __ATOMIC_ACQUIRE) & 1u << i);
}

static bool is_ours(const struct inaddr *addr)
{
	for (unsigned i = 0; i < FAKE_LINK_ADDRS; i++) {
		struct inaddr one = addr_v4(fake_link_addr(i));

		if (addr_eq(&one, addr))
			return has_addr(i);
	}
	return false;
}

static void fill(struct link *link)
{
	memset(link, 0, sizeof(*link));
	link->ifindex = FAKE_LINK_INDEX;
	snprintf(link->name, sizeof(link->name), "loop0");
	memcpy(link->mac, mac, sizeof(mac));
	link->mtu = mtu;
	link->up = true;
	link->ethernet = true;
}

/* ---- net/netlink/netlink.h ------------------------------------------------------------- */

int netlink_open(const struct netlink_events *events)
{
	int fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

	if (fd < 0)
		return fd;
	listeners = events;
	__atomic_store_n(&changes_fd, fd, __ATOMIC_RELEASE);
	return 0;
}

void netlink_close(void)
{
	int fd = __atomic_exchange_n(&changes_fd, -1, __ATOMIC_ACQ_REL);

	if (fd >= 0)
		sys_close(fd);
	listeners = NULL;
}

bool netlink_is_of(int fd)
{
	(void)fd;
	return true;
}

uint64_t netlink_namespace(void)
{
	return 0;
}

int netlink_fd(void)
{
	return __atomic_load_n(&changes_fd, __ATOMIC_ACQUIRE);
}

void netlink_process(void)
{
	eventfd_t changes;
	uint32_t lost = 0;

	if (eventfd_read(netlink_fd(), &changes))
		return;
	for (unsigned i = 0; i < FAKE_LINK_ADDRS; i++) {
		struct endpoint addr = {.addr = addr_v4(fake_link_addr(i))};

		lost |= has_addr(i) ? 0 : 1u << i;
		if ((lost ^ told_addrs) & 1u << i)
			listeners->addr(&addr, has_addr(i));
	}
	told_addrs = lost;
	listeners->link(FAKE_LINK_INDEX);
}

/* First what the new generation means: see netlink_still(). */
void netlink_expire(void)
{
	uint32_t next;

	pthread_mutex_lock(&changing);
	next = netlink_generation_now + 1;
	__atomic_store_n(&concerning, next, __ATOMIC_RELEASE);
	__atomic_store_n(&netlink_generation_now, next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&changing);
}

void fake_netlink_elsewhere(void)
{
	pthread_mutex_lock(&changing);
	__atomic_store_n(&netlink_generation_now, netlink_generation_now + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&changing);
}

unsigned fake_netlink_asked(void)
{
	return __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
}

uint32_t netlink_still(uint32_t since, const struct inaddr *to)
{
	uint32_t latest = netlink_generation();

	return since && since >= __atomic_load_n(&concerning, __ATOMIC_ACQUIRE) ? latest : 0;
}

int route_get(const struct route_query *query, struct route *route)
{
	__atomic_fetch_add(&asked, 1, __ATOMIC_ACQ_REL);
	if (!is_plugged() || (!addr_is_any(&query->src) && !is_ours(&query->src)))
		return -ENETUNREACH;
	memset(route, 0, sizeof(*route));
	route->type = addr_is_multicast(&query->dst) ? ROUTE_MULTICAST : ROUTE_UNICAST;
	route->ifindex = FAKE_LINK_INDEX;
	route->src = addr_is_any(&query->src) ? addr_v4(fake_link_addr(0)) : query->src;
	return 0;
}

void fake_netlink_refuse(uint32_t addr)
{
	__atomic_store_n(&refused, addr, __ATOMIC_RELEASE);
}

void fake_netlink_shut(bool shut)
{
	pthread_mutex_lock(&gate.lock);
	gate.shut = shut;
	pthread_cond_broadcast(&gate.opened);
	pthread_mutex_unlock(&gate.lock);
}

bool fake_netlink_waits(void)
{
	bool waits;

	pthread_mutex_lock(&gate.lock);
	waits = gate.waiting > 0;
	pthread_mutex_unlock(&gate.lock);
	return waits;
}

static void pass_gate(void)
{
	pthread_mutex_lock(&gate.lock);
	gate.waiting++;
	while (gate.shut)
		pthread_cond_wait(&gate.opened, &gate.lock);
	gate.waiting--;
	pthread_mutex_unlock(&gate.lock);
}

int route_accepts(int ifindex, const struct inaddr *local, const struct inaddr *remote)
{
	__atomic_fetch_add(&asked, 1, __ATOMIC_ACQ_REL);
	pass_gate();
	return addr_v4_of(remote) != __atomic_load_n(&refused, __ATOMIC_ACQUIRE);
}

int link_get(int ifindex, struct link *link)
{
	if (ifindex != FAKE_LINK_INDEX || !is_plugged())
		return -ENODEV;
	fill(link);
	return 0;
}

int link_of_addr(const struct inaddr *addr)
{
	return is_ours(addr) ? FAKE_LINK_INDEX : 0;
}

int link_of_endpoint(const struct endpoint *ep)
{
	return link_of_addr(&ep->addr);
}

int link_addrs(int ifindex, struct inaddr *addrs, int max)
{
	int n = 0;

	if (ifindex != FAKE_LINK_INDEX)
		return 0;
	for (unsigned i = 0; i < FAKE_LINK_ADDRS && n < max; i++) {
		if (has_addr(i))
			addrs[n++] = addr_v4(fake_link_addr(i));
	}
	return n;
}

void link_each(void (*fn)(const struct link *link, void *arg), void *arg)
{
	struct link link;

	if (!is_plugged())
		return;
	fill(&link);
	fn(&link, arg);
}

int link_each_now(void (*fn)(const struct link *link, void *arg), void *arg)
{
	link_each(fn, arg);
	return 0;
}

enum neigh_state neigh_get(int ifindex, const struct inaddr *addr, uint8_t out[6])
{
	memcpy(out, mac, sizeof(mac));
	return NEIGH_REACHABLE;
}

int neigh_use(int ifindex, const struct inaddr *addr)
{
	return 0;
}
