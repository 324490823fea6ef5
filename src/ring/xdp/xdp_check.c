/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/xdp/xdp_check.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <string.h>

#include "ring/xdp/port_xdp.h"
#include "ring/xdp/xdp_internal.h"

static int check(struct xdp_device *dev, char why[PORT_WHY])
{
	int rc;

	if (dev->flags & IFF_LOOPBACK)
		return xdp_why(why, -EOPNOTSUPP,
			       "Interface %s is the loopback: AF_XDP does not serve it.\n",
			       dev->name);
	if (dev->hw_type != ARPHRD_ETHER)
		return xdp_why(
			why, -EOPNOTSUPP,
			"Interface %s is not accelerated: it is not an Ethernet interface.\n",
			dev->name);
	rc = xdp_kind_check(dev, why);
	if (rc)
		return rc;
	if (dev->mtu > XDP_JUMBO_MTU_MAX)
		return xdp_why(
			why, -EOPNOTSUPP,
			"Interface %s is not accelerated: its MTU of %u does not fit a buffer.\n"
			"Lower it: ip link set %s mtu %u\n",
			dev->name, dev->mtu, dev->name, XDP_JUMBO_MTU_MAX);
	rc = xdp_device_check_queues(dev, why);
	if (rc)
		return rc;
	if (!(dev->flags & IFF_UP))
		return xdp_why(why, -ENETDOWN,
			       "Interface %s is not accelerated: it is down.\n"
			       "Bring it up before the program starts: ip link set %s up\n",
			       dev->name, dev->name);
	return 0;
}

int xdp_check_device(struct xdp_device *dev, int ifindex, int master, char why[PORT_WHY])
{
	int rc = xdp_device_query(dev, ifindex);

	dev->master = master;
	if (rc)
		return xdp_why(why, rc, "Interface number %d: %s.\n", ifindex,
			       rc == -EXDEV ? "it is of another network namespace than this thread"
					    : strerrordesc_np(-rc));
	return check(dev, why);
}

int xdp_check(int ifindex, int master, struct xdp_facts *facts, char why[PORT_WHY])
{
	struct xdp_device dev = {0};
	int rc = xdp_check_device(&dev, ifindex, master, why);

	memcpy(facts->name, dev.name, sizeof(facts->name));
	facts->rx_queues = dev.rx_queues;
	facts->max_queues = dev.max_queues;
	facts->combined = dev.combined;
	facts->carrier = dev.carrier;
	if (rc || !xdp_is_attached(ifindex))
		return rc;
	rc = xdp_why_taken(why, &dev);
	/* Most likely a process of this user, which this one would join. */
	return rc == -EAGAIN ? 0 : rc;
}

int xdp_try(int ifindex, int master, char text[PORT_WHY])
{
	struct xdp_device dev;
	struct port *port;
	int rc;

	rc = port_xdp_open_slave(ifindex, master, &port, text);
	if (rc)
		return rc;
	rc = xdp_check_device(&dev, ifindex, master, text);
	if (!rc)
		xdp_mode_of(text, (const struct xdp_port *)port, &dev);
	port->ops->free_port(port);
	return rc;
}
