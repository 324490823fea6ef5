/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the sockets that share a port (SO_REUSEADDR, SO_REUSEPORT) receives a datagram: the kernel is
 * asked, which knows all of them, those of other programs, too.  It has the order in which they were bound,
 * and the secret of its hash; only a BPF program that chooses is not asked.
 */
#include "net/netlink/sock_diag.h"
#include "sock/local/local_udp.h"

#define LOOPBACK \
	1 /* ifindex, in every network namespace: what is sent to the own host comes by it */

const struct local_entry *local_choice(const struct endpoint *from, const struct endpoint *to,
				       const struct local_entry *found, unsigned n)
{
	uint64_t cookie = diag_receiver(from, to, LOOPBACK);

	for (unsigned i = 0; cookie && i < n; i++) {
		if (found[i].cookie == cookie)
			return &found[i];
	}
	return NULL;
}
