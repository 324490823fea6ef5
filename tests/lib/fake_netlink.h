/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's view of the network, made up: takes the place of netlink*.c of
 * src/net where a test is linked with it.
 *
 * One interface that is up, FAKE_LINK_ADDRS addresses on it (10.1.0.1 and on),
 * every route goes there, every neighbour is reachable at its own link address.
 *
 * Role		fake_netlink_change(): any thread; the internal thread hears of it by
 *		netlink_process().
 */
#ifndef TESTS_LIB_FAKE_NETLINK_H
#define TESTS_LIB_FAKE_NETLINK_H

#include <stdint.h>

#define FAKE_LINK_INDEX 1 /* as the kernel has lo, where the twins join groups */
#define FAKE_LINK_ADDRS 4

/* Network byte order; i from 0. */
uint32_t fake_link_addr(unsigned i);

/* Before the first socket; the default is 1500. */
void fake_link_set_mtu(uint32_t mtu);

/* From now on the kernel drops what this address sends; 0: nothing. */
void fake_netlink_refuse(uint32_t addr);

/* As if a route had changed, and with link, as if the interface had. */
void fake_netlink_change(int link);

#endif
