/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "ring/xdp/xdp_internal.h"

#define SETTLE_PAUSE (5 * NSEC_PER_MSEC)

/* Drivers without hardware, whose frames may carry partial checksums. */
static const char *const virtual_drivers[] = {
	"veth",	      "tun",   "bridge", "bonding", "macvlan", "802.1Q VLAN Support",
	"virtio_net", "dummy", "netkit", "ipvlan",  "team",
};

static bool driver_is_virtual(const char *driver)
{
	for (size_t i = 0; i < sizeof(virtual_drivers) / sizeof(*virtual_drivers); i++)
		if (!strcmp(driver, virtual_drivers[i]))
			return true;
	return false;
}

static bool has_hardware(const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
	fd = sys_open(path, O_PATH | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	sys_close(fd);
	return true;
}

static int ethtool(int fd, struct ifreq *ifr, void *cmd)
{
	ifr->ifr_data = cmd;
	return sys_ioctl(fd, SIOCETHTOOL, ifr);
}

/* Asks the driver: IFF_RUNNING follows up to a second later.  True also when not known. */
static bool has_carrier(int fd, struct ifreq *ifr)
{
	struct ethtool_value link = {.cmd = ETHTOOL_GLINK, .data = 1};

	return ethtool(fd, ifr, &link) || link.data;
}

static void query_queues(struct xdp_device *dev, int fd, struct ifreq *ifr)
{
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};

	if (ethtool(fd, ifr, &channels))
		return;
	dev->rx_queues = channels.rx_count + channels.combined_count;
	dev->tx_queues = channels.tx_count + channels.combined_count;
	dev->max_queues = channels.max_rx + channels.max_combined;
	dev->combined = channels.max_combined != 0;
}

static void query_ethtool(struct xdp_device *dev, int fd, struct ifreq *ifr)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ethtool_ts_info stamps = {.cmd = ETHTOOL_GET_TS_INFO};

	dev->carrier = has_carrier(fd, ifr);
	if (!ethtool(fd, ifr, &info))
		snprintf(dev->driver, sizeof(dev->driver), "%.31s", info.driver);
	query_queues(dev, fd, ifr);
	dev->stamps = !ethtool(fd, ifr, &stamps) &&
		      (stamps.so_timestamping & SOF_TIMESTAMPING_RX_HARDWARE);
}

static int query(struct xdp_device *dev, int fd)
{
	struct ifreq ifr = {.ifr_ifindex = dev->ifindex};
	int rc;

	rc = sys_ioctl(fd, SIOCGIFNAME, &ifr);
	if (rc < 0)
		return rc;
	memcpy(dev->name, ifr.ifr_name, sizeof(dev->name));
	rc = sys_ioctl(fd, SIOCGIFFLAGS, &ifr);
	if (rc < 0)
		return rc;
	dev->flags = (unsigned short)ifr.ifr_flags;
	rc = sys_ioctl(fd, SIOCGIFMTU, &ifr);
	if (rc < 0)
		return rc;
	dev->mtu = (uint32_t)ifr.ifr_mtu;
	rc = sys_ioctl(fd, SIOCGIFHWADDR, &ifr);
	if (rc < 0)
		return rc;
	dev->hw_type = ifr.ifr_hwaddr.sa_family;
	memcpy(dev->mac, ifr.ifr_hwaddr.sa_data, sizeof(dev->mac));
	query_ethtool(dev, fd, &ifr);
	/* sysfs is used only if the driver does not give its name, because sysfs shows the
	 * network namespace that it was mounted in. */
	dev->is_virtual = dev->driver[0] ? driver_is_virtual(dev->driver)
					 : !has_hardware(dev->name);
	return 0;
}

int xdp_device_query(struct xdp_device *dev, int ifindex)
{
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return fd;
	*dev = (struct xdp_device){.ifindex = ifindex};
	rc = netlink_is_of(fd) ? query(dev, fd) : -EXDEV;
	sys_close(fd);
	return rc;
}

int xdp_device_recount(struct xdp_device *dev)
{
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned before = dev->rx_queues;
	struct ifreq ifr = {0};

	if (fd < 0)
		return fd;
	memcpy(ifr.ifr_name, dev->name, sizeof(ifr.ifr_name));
	query_queues(dev, fd, &ifr);
	sys_close(fd);
	dev->grew = dev->rx_queues > before;
	return 0;
}

int xdp_device_check_queues(const struct xdp_device *dev, char why[PORT_WHY])
{
	if (dev->rx_queues <= XDP_STEER_QUEUES)
		return 0;
	return xdp_why(why, -EOPNOTSUPP,
		       "Interface %s is not accelerated: it has %u RX queues, at most %u are\n"
		       "served.  Use fewer: ethtool -L %s %s %u\n",
		       dev->name, dev->rx_queues, XDP_STEER_QUEUES, dev->name,
		       dev->combined ? "combined" : "rx", XDP_STEER_QUEUES);
}

int xdp_socket(void)
{
	int fd = sys_fd_hide(sys_socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));

	if (fd < 0 || netlink_is_of(fd))
		return fd;
	sys_close(fd);
	return -EXDEV;
}

bool xdp_settle(struct port *base)
{
	const struct xdp_port *port = (const struct xdp_port *)base;
	nsec_t until = port->group.ctl->settle_until, most = group_now() + GROUP_SETTLE_MAX;
	struct ifreq ifr = {0};
	bool carries = true;
	int fd;

	if (group_now() >= until)
		return true;
	if (until > most)
		until = most;
	fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(ifr.ifr_name, base->name, sizeof(ifr.ifr_name));
	while (fd >= 0 && !(carries = has_carrier(fd, &ifr)) && group_now() < until)
		sys_sleep(SETTLE_PAUSE);
	sys_close(fd);
	return carries;
}
