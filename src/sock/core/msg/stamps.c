/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/msg/stamps.h"

static bool lost_at(const struct ring *ring)
{
	const struct port_queue *q = ring_queue(ring);

	return q && q->port->can.kernel_stamps && !q->port->can.timestamps;
}

bool sock_stamps_by_kernel(const struct inet_sock *so, const struct ring *ring)
{
	return (so->opt->told & TOLD_HARDWARE) && lost_at(ring);
}

bool sock_stamps_lost(const struct inet_sock *so)
{
	control_assert_held();
	list_for_each(link, &so->flows)
		if (lost_at(sock_flow_of(link)->ring))
			return true;
	return lost_at(sock_home(so));
}
