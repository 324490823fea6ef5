/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that outlive their socket's descriptor: a duplicate of the twin, under a number that
 * the program does not use, keeps the kernel from giving the port to anybody else.
 *
 * Role		any.
 */
#ifndef SOCK_CORE_PORT_PORT_KEEPER_H
#define SOCK_CORE_PORT_PORT_KEEPER_H

#define PORT_KEEPER_NONE (-1)

/* How many there are; any, atomic. */
extern unsigned port_keepers;

/* The descriptor, or -errno. */
int port_keeper_open(int twin);
/* Harmless for what is negative. */
void port_keeper_close(int fd);

#endif
