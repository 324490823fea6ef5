/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The line for the user that says how an interface is accelerated, and what would make it faster.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define PROCESSORS_MAX 8192

__attribute__((format(printf, 2, 3))) static void add(char text[PORT_WHY], const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + len, PORT_WHY - len, fmt, args);
	va_end(args);
}

static void add_generic(char text[PORT_WHY], const struct xdp_device *dev)
{
	if (!strcmp(dev->kind, "vlan"))
		add(text, ": all that a VLAN device can do");
	else if (!strcmp(dev->kind, "veth"))
		add(text, ": native XDP needs as many RX queues as the other end has TX queues");
	else if (dev->mtu > XDP_MTU_MAX)
		add(text, ": its driver has no native XDP with an MTU above %u", XDP_MTU_MAX);
	else if (!strcmp(dev->driver, "virtio_net"))
		add(text, ": native XDP needs more queues from the hypervisor (twice as many as "
			  "processors)");
	else
		add(text,
		    ": driver %s has no native XDP in this kernel; a card whose driver has it is "
		    "faster",
		    dev->driver[0] ? dev->driver : "of an unknown name");
}

static void add_copy(char text[PORT_WHY], const struct xdp_device *dev)
{
	if (!params.xdp_zerocopy)
		add(text, ": as VMA_XDP_ZEROCOPY=0 asks for");
	else if (!strcmp(dev->kind, "veth"))
		add(text, ": all that veth can do");
	else if (dev->grew)
		add(text, ": zero-copy needs all of its queues in use: ethtool -L %s %s %u",
		    dev->name, dev->combined ? "combined" : "rx", dev->max_queues);
	else if (!strcmp(dev->driver, "virtio_net"))
		add(text, ": zero-copy needs Linux 6.13 and iommu_platform=on of the device");
	else if (!strcmp(dev->driver, "igb"))
		add(text, ": zero-copy needs Linux 6.14");
	else
		add(text, ": a card whose driver has AF_XDP zero-copy is faster");
}

void xdp_mode_describe(char text[PORT_WHY], const struct xdp_device *dev,
		       const struct xdp_mode *mode)
{
	unsigned want = mode->processors < XDP_STEER_QUEUES ? mode->processors : XDP_STEER_QUEUES;

	if (want > dev->max_queues)
		want = dev->max_queues;
	text[0] = '\0';
	add(text, "%s: accelerated with %s XDP, %s", dev->name, mode->native ? "native" : "generic",
	    mode->zerocopy ? "zero-copy" : "copies");
	if (!mode->native)
		add_generic(text, dev);
	else if (!mode->zerocopy)
		add_copy(text, dev);
	/* Suggest only what the interface supports. */
	if (mode->queues < want)
		add(text, "; %u RX queue%s for %u processors: ethtool -L %s %s %u", mode->queues,
		    mode->queues == 1 ? "" : "s", mode->processors, dev->name,
		    dev->combined ? "combined" : "rx", want);
}

/* The number of processors that this thread may use. */
static unsigned count_processors(void)
{
	unsigned long mask[PROCESSORS_MAX / 8 / sizeof(long)] = {0};
	long len = sys_call(SYS_sched_getaffinity, 0, sizeof(mask), mask, 0, 0, 0);
	unsigned n = 0;

	for (long i = 0; i < len / (long)sizeof(long); i++)
		n += (unsigned)__builtin_popcountl(mask[i]);
	return n;
}

void xdp_mode_of(char text[PORT_WHY], const struct xdp_port *port, const struct xdp_device *dev)
{
	struct xdp_mode mode = {.native = port->native,
				.zerocopy = port->group.zerocopy,
				.queues = port->group.queues,
				.processors = count_processors()};

	xdp_mode_describe(text, dev, &mode);
}

void xdp_mode_tell(const struct xdp_port *port, const struct xdp_device *dev)
{
	char text[PORT_WHY];

	if (log_level < LOG_INFO)
		return;
	xdp_mode_of(text, port, dev);
	log_info("%s", text);
}
