/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's tables of sockets with a local port: /proc/net/udp, tcp, udp6 and tcp6.
 *
 * Role		control lock.
 */
#ifndef SOCK_CORE_PORT_PORT_TABLE_H
#define SOCK_CORE_PORT_PORT_TABLE_H

#include <stdbool.h>

#include "net/addr.h"

/* A socket: datagrams, or a listener. */
struct port_row {
	struct inaddr addr; /* bound to :: it may have IPv4 traffic, too: port_row_has_ipv4() */
	unsigned port;	    /* host byte order */
	unsigned long inode;
};

/* Calls fn for each socket of UDP, or for each listener of TCP. */
void port_table_each(bool udp, void (*fn)(const struct port_row *row, void *arg), void *arg);

/*
 * Has the socket IPv4 traffic?  No if it has an IPv6 address, or is bound to :: and IPV6_V6ONLY,
 * which the kernel is asked about.  Yes if it does not answer.
 */
bool port_row_has_ipv4(bool udp, const struct port_row *row);

#endif
