/* SPDX-License-Identifier: BSD-2-Clause */
/* Who stamps what arrives with the clock of the device: SO_TIMESTAMPING. */
#ifndef SOCK_CORE_MSG_STAMPS_H
#define SOCK_CORE_MSG_STAMPS_H

#include <linux/net_tstamp.h>

#include "sock/core/inet_sock.h"

#define STAMPING_RX_FILTER (1u << 17)	 /* SOF_TIMESTAMPING_OPT_RX_FILTER, Linux 6.12 */
#define STAMPING_KNOWN ((1u << 18) - 1u) /* flags of SO_TIMESTAMPING whose meaning is known */

/*
 * control lock, or holder of home: the socket wants the device's stamps, and only the kernel can
 * read its clock: the port of the ring does not.
 */
bool sock_stamps_by_kernel(const struct inet_sock *so, const struct ring *ring);
/* control lock: if the socket wanted these, would one of its rings not have what the kernel has? */
bool sock_stamps_lost(const struct inet_sock *so);

#endif
