/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the sockets that share a port (SO_REUSEADDR, SO_REUSEPORT) receives a datagram or a connection:
 * the kernel is asked, which knows all of them, those of other programs, too.  It has the order in which
 * they were bound, and the secret of its hash; only a BPF program that chooses is not asked.
 */
#include "sock/local/local_choice.h"

#include <netinet/in.h>

#include "net/netlink/sock_diag.h"
#include "sock/core/control.h"

#define LOOPBACK \
	1 /* ifindex, in every network namespace: what is sent to the own host comes by it */

enum local_sharing local_sharing(const struct local_entry *found, unsigned n)
{
	enum local_sharing is = LOCAL_UNSHARED;

	control_assert_held();
	for (unsigned i = 0; i < n; i++) {
		if (found[i].cookie == LOCAL_COOKIE_FILTER)
			return LOCAL_FILTERED;
		if (found[i].cookie)
			is = LOCAL_SHARED;
	}
	return is;
}

const struct local_entry *local_choice(enum local_proto proto, const struct endpoint *from,
				       const struct endpoint *to, const struct local_entry *found,
				       unsigned n)
{
	uint64_t cookie =
		diag_receiver(proto == LOCAL_TCP ? IPPROTO_TCP : IPPROTO_UDP, from, to, LOOPBACK);

	control_assert_held();
	for (unsigned i = 0; cookie && i < n; i++) {
		if (found[i].cookie == cookie)
			return &found[i];
	}
	return NULL;
}
