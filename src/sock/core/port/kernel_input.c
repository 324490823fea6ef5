/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/kernel_input.h"

#include <netinet/in.h>

#include "base/sys.h"
#include "net/frame.h"
#include "sock/core/msg/family.h"

static int *fd_for(struct kernel_input *in, bool ipv4)
{
	return ipv4 ? &in->ipv4 : &in->ipv6;
}

bool kernel_input_open(struct kernel_input *in, bool ipv4)
{
	int *fd = fd_for(in, ipv4);

	if (*fd < 0)
		__atomic_store_n(fd,
				 sys_fd_hide(sys_socket(ipv4 ? AF_INET : AF_INET6,
							SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)),
				 __ATOMIC_RELAXED);
	return *fd >= 0;
}

void kernel_input_close(struct kernel_input *in)
{
	sys_close_fd(&in->ipv4);
	sys_close_fd(&in->ipv6);
}

/* The packets of these sockets contain the IP header. */
bool kernel_input_send(const struct kernel_input *in, const struct pkt *pkt, const void *packet,
		       size_t len)
{
	struct endpoint host = frame_destination(pkt);
	bool ipv4 = addr_is_v4(&host.addr);
	struct sockaddr_storage to;
	socklen_t tolen = sizeof(to);

	host.port = 0;
	if (addr_needs_scope(&host.addr))
		host.scope = (uint32_t)pkt->ifindex;
	endpoint_to_sockaddr(&host, ipv4 ? AF_INET : AF_INET6, (struct sockaddr *)&to, &tolen);
	/* Relaxed: a descriptor is all that a holder needs. */
	return sys_sendto(__atomic_load_n(ipv4 ? &in->ipv4 : &in->ipv6, __ATOMIC_RELAXED), packet,
			  len, MSG_DONTWAIT, (struct sockaddr *)&to, tolen) >= 0;
}
