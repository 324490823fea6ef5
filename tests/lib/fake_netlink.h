/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An invented network, as netlink*.c of src/net would report it; linked instead of these files.
 *
 * One interface that is up, with FAKE_LINK_ADDRS addresses (10.1.0.1 and on).  Every route
 * uses it, and every neighbour is reachable at its own link address.
 *
 * Role		fake_netlink_*(): any thread; netlink_process() reports changes to the
 *		internal thread.
 */
#ifndef TESTS_LIB_FAKE_NETLINK_H
#define TESTS_LIB_FAKE_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_LINK_INDEX 1 /* as lo of the kernel, where the twins join groups */
#define FAKE_LINK_ADDRS 4

/* Network byte order; i from 0. */
uint32_t fake_link_addr(unsigned i);

/* Before the first socket; the default is 1500. */
void fake_link_set_mtu(uint32_t mtu);

/* From now on the kernel drops what this address sends; 0: nothing. */
void fake_netlink_refuse(uint32_t addr);

/*
 * While it is shut, who asks whether a sender is accepted waits for the answer; senders that are
 * known already are not asked for.
 */
void fake_netlink_shut(bool shut);
/* Does a thread wait for such an answer? */
bool fake_netlink_waits(void);

/* Reports a change of a route, and with link, of the interface. */
void fake_netlink_change(int link);

/* A route changes that no address here is reached by. */
void fake_netlink_elsewhere(void);
/* How often it was asked for a route, or whether a sender is accepted. */
unsigned fake_netlink_asked(void);

/* The host loses or gets address i, or the interface. */
void fake_netlink_addr(unsigned i, bool present);
void fake_netlink_plug(bool present);

#endif
