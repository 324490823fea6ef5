/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which devices are accelerated: those of kinds and drivers that were tested.  The kernel serves
 * all others.  A device with others on top of it, or below it, may accept an XDP program that then
 * gets no frames, or frames of the other devices.  Of a bond, programs are attached to the slaves:
 * see ring/bond.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/param.h"
#include "net/netlink/netlink.h"
#include "ring/xdp/port_xdp.h"
#include "ring/xdp/xdp_internal.h"

#define DEPTH_MAX 2 /* most VLAN devices on top of each other */

static const char *const tried_kinds[] = {"veth"};
static const char *const tried_drivers[] = {"e1000e", "igb", "virtio_net", "vmxnet3"};

/* Kinds that are on top of other devices, or have others on top, even if there are none now. */
static const char *const stacked[] = {
	"bond",	   "bridge",  "hsr",	      "hv_netvsc",   "ipvlan", "ipvtap",
	"macvlan", "macvtap", "net_failover", "openvswitch", "team",   "vrf",
};

/* Kinds that take frames of the device under them. */
static const char *const sharing[] = {"ipvlan", "ipvtap", "macvlan", "macvtap"};

#define is_one_of(name, list) find(name, list, sizeof(list) / sizeof(*(list)))

static bool find(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, list[i]))
			return true;
	return false;
}

/* Is name one of the names, which are separated by commas? */
static bool is_named(const char *names, const char *name)
{
	size_t len = strlen(name);

	while (*names) {
		size_t one;

		names += strspn(names, ", ");
		one = strcspn(names, ", ");
		if (one && one == len && !memcmp(names, name, len))
			return true;
		names += one;
	}
	return false;
}

/* ---- the decision ----------------------------------------------------------------------- */

static int refuse(char why[PORT_WHY], const struct xdp_kind *dev, const char *reason)
{
	char kind[48] = "";

	if (dev->kind[0])
		snprintf(kind, sizeof(kind), " (kind %s)", dev->kind);
	else if (dev->driver[0])
		snprintf(kind, sizeof(kind), " (driver %s)", dev->driver);
	return xdp_why(why, -PORT_UNTRIED, "%s%s is left to the kernel: %s\n", dev->name, kind,
		       reason);
}

static int refuse_relation(char why[PORT_WHY], const struct xdp_kind *dev)
{
	char reason[200];

	if (dev->master[0])
		snprintf(reason, sizeof(reason),
			 "it belongs to %s; take it out (ip link set %s nomaster), or use another "
			 "interface",
			 dev->master, dev->name);
	else if (dev->slave[0])
		snprintf(reason, sizeof(reason),
			 "%s belongs to it; use an interface that no other one belongs to",
			 dev->slave);
	else
		snprintf(reason, sizeof(reason),
			 "%s (%s) shares it; remove that, or use another interface", dev->sharer,
			 dev->sharer_kind);
	return refuse(why, dev, reason);
}

static int refuse_untried(char why[PORT_WHY], const struct xdp_kind *dev)
{
	const char *name = dev->kind[0] ? dev->kind : dev->driver;
	char reason[200];

	if (!name[0])
		return refuse(why, dev, "it does not name its driver; use another interface");
	snprintf(reason, sizeof(reason),
		 "this %s was not tried; VMA_XDP_DEVICES=%s accelerates it all the same",
		 dev->kind[0] ? "kind" : "driver", name);
	return refuse(why, dev, reason);
}

static int decide_vlan(const struct xdp_kind *dev, const char *also, char why[PORT_WHY])
{
	char reason[PORT_WHY], *text;

	if (!dev->lower)
		return refuse(why, dev,
			      "the device beneath is in another network namespace, or a VLAN of a "
			      "VLAN; use one whose lower device is here");
	if (!xdp_kind_decide(dev->lower, also, reason))
		return 0;
	reason[strcspn(reason, "\n")] = '\0';
	text = strstr(reason, ": ");
	snprintf(why, PORT_WHY, "%s (kind vlan on %s%s%s) is left to the kernel%.300s\n", dev->name,
		 dev->lower->name, dev->lower->kind[0] ? ", kind " : "", dev->lower->kind, text);
	return -PORT_UNTRIED;
}

int xdp_kind_decide(const struct xdp_kind *dev, const char *also, char why[PORT_WHY])
{
	const char *name = dev->kind[0] ? dev->kind : dev->driver;

	if (is_one_of(name, stacked))
		return refuse(why, dev,
			      "a device of this kind is not supported; give the address to an "
			      "interface by itself to accelerate it");
	if (dev->master[0] || dev->slave[0] || dev->sharer[0])
		return refuse_relation(why, dev);
	if (!strcmp(dev->kind, "vlan"))
		return decide_vlan(dev, also, why);
	if (dev->kind[0] ? is_one_of(name, tried_kinds) : is_one_of(name, tried_drivers))
		return 0;
	if (name[0] && is_named(also, name))
		return 0;
	return refuse_untried(why, dev);
}

bool port_xdp_is_sharing(const char *kind)
{
	return is_one_of(kind, sharing);
}

/* ---- queries ---------------------------------------------------------------------------- */

struct gathering {
	struct xdp_kind *dev;
	int ifindex, master, lower;
};

static void gather(const struct link *link, void *arg)
{
	struct gathering *g = arg;
	struct xdp_kind *dev = g->dev;

	if (link->ifindex == g->ifindex) {
		memcpy(dev->kind, link->kind, sizeof(dev->kind));
		g->master = link->master;
		g->lower = link->lower_elsewhere ? 0 : link->lower;
	} else if (link->master == g->ifindex) {
		memcpy(dev->slave, link->name, sizeof(dev->slave));
	} else if (link->lower == g->ifindex && !link->lower_elsewhere &&
		   is_one_of(link->kind, sharing)) {
		memcpy(dev->sharer, link->name, sizeof(dev->sharer));
		memcpy(dev->sharer_kind, link->kind, sizeof(dev->sharer_kind));
	}
}

/* Fills in dev for the device, and the `left` elements after it for the devices under it. */
static int query(const struct xdp_device *device, struct xdp_kind *dev, unsigned left)
{
	struct gathering g = {.dev = dev, .ifindex = device->ifindex};
	struct xdp_device other;
	int rc;

	memset(dev, 0, sizeof(*dev));
	memcpy(dev->name, device->name, sizeof(dev->name));
	memcpy(dev->driver, device->driver, sizeof(dev->driver));
	rc = link_each_now(gather, &g);
	if (!rc && g.master && g.master != device->master) {
		rc = xdp_device_query(&other, g.master);
		memcpy(dev->master, other.name, sizeof(dev->master));
	}
	if (rc || strcmp(dev->kind, "vlan") != 0 || !g.lower || !left)
		return rc;
	rc = xdp_device_query(&other, g.lower);
	dev->lower = dev + 1;
	return rc ? rc : query(&other, dev + 1, left - 1);
}

int xdp_kind_check(struct xdp_device *dev, char why[PORT_WHY])
{
	struct xdp_kind kinds[DEPTH_MAX + 1];
	int rc = query(dev, kinds, DEPTH_MAX);

	if (rc)
		return xdp_why(why, rc,
			       "Interface %s is not accelerated: the kernel does not tell of what "
			       "kind it is (%s).\n",
			       dev->name, strerrordesc_np(-rc));
	memcpy(dev->kind, kinds[0].kind, sizeof(dev->kind));
	return xdp_kind_decide(kinds, params.xdp_devices, why);
}

bool xdp_takes(const struct link *link, char why[PORT_WHY])
{
	struct link master;

	if (link->ethernet && !link->master)
		return true;
	if (!link->ethernet)
		snprintf(why, PORT_WHY,
			 "%s (kind %s) is left to the kernel: it is not an Ethernet interface; use "
			 "another one",
			 link->name, link->kind[0] ? link->kind : "unknown");
	else
		snprintf(why, PORT_WHY,
			 "%s is left to the kernel: it belongs to %s (kind %s); take it out "
			 "(ip link set %s nomaster), or use another interface",
			 link->name, link_get(link->master, &master) ? "another one" : master.name,
			 master.kind, link->name);
	return false;
}
