/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's tables of sockets with a local port: /proc/net/udp, tcp, udp6 and tcp6.
 *
 * Role		control lock.
 */
#ifndef SOCK_CORE_PORT_PORT_TABLE_H
#define SOCK_CORE_PORT_PORT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/* A socket that may have IPv4 traffic: datagrams, or a listener. */
struct port_row {
	uint32_t addr; /* network byte order; 0: any */
	unsigned port; /* host byte order */
	unsigned long inode;
	bool dual; /* bound to ::, see port_row_has_ipv4() */
};

/* Calls fn for each socket of UDP, or for each listener of TCP. */
void port_table_each(bool udp, void (*fn)(const struct port_row *row, void *arg), void *arg);

/*
 * Has the socket IPv4 traffic?  No if it is bound to :: and IPV6_V6ONLY, which the kernel is
 * asked about.  Yes if it does not answer.
 */
bool port_row_has_ipv4(bool udp, const struct port_row *row);

#endif
