/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A loop-back port for tests and benchmarks: a frame put into one queue of the port arrives in
 * the queues that have a matching flow.  It needs no privilege and no interface.
 */
#ifndef RING_LOOP_PORT_LOOP_H
#define RING_LOOP_PORT_LOOP_H

#include "ring/ports.h"

/* 0 or -errno.  mtu: of IP packets. */
int port_loop_open(uint32_t mtu, struct port **port);

/* Serves every interface, with an MTU of 1500 bytes; each port is a network of its own. */
extern const struct port_kind port_loop_kind;

#endif
