/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the port of a socket after the program closed its descriptor: a duplicate of the twin,
 * with a number that is hidden from the program, keeps the port reserved.
 *
 * Role		any.
 */
#ifndef SOCK_CORE_PORT_PORT_KEEPER_H
#define SOCK_CORE_PORT_PORT_KEEPER_H

#define PORT_KEEPER_NONE (-1)

/* The number of such descriptors; any, atomic. */
extern unsigned port_keepers;

/* Returns the descriptor, or -errno. */
int port_keeper_open(int twin);
/* Does nothing if fd is negative. */
void port_keeper_close(int fd);

#endif
