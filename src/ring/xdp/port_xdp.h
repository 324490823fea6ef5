/* SPDX-License-Identifier: BSD-2-Clause */
/* The port for AF_XDP. */
#ifndef RING_XDP_PORT_XDP_H
#define RING_XDP_PORT_XDP_H

#include "ring/ports.h"

/*
 * Opens an interface.  -EBUSY: another program uses the interface or the queue.  -EPERM:
 * privileges are missing.  -EOPNOTSUPP: the interface does not support it.  -PORT_UNTRIED: this
 * kind of device was never tested, or it is part of another device.
 */
int port_xdp_open(int ifindex, struct port **port, char why[PORT_WHY]);

/* The same for a device that belongs to `master`. */
int port_xdp_open_slave(int ifindex, int master, struct port **port, char why[PORT_WHY]);

/* Do devices of this kind take frames of the device under them (macvlan, ipvlan)? */
bool port_xdp_is_sharing(const char *kind);

/* Serves Ethernet interfaces that belong to no other device. */
extern const struct port_kind port_xdp_kind;

#endif
