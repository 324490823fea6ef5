/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The proof that a newcomer sends to join a port group: an AF_XDP socket of this network
 * namespace, which needs CAP_NET_RAW in it, and a map of AF_XDP sockets, which needs
 * CAP_NET_ADMIN of the host (any process can have that in a user namespace of its own).  A process
 * that could not open the port itself, whatever its user, cannot make both.
 */
#include <linux/bpf.h>

#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14; processes share an interface from 6.4 on */
#endif

int xdp_group_prove(int fds[XDP_PROOFS])
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_XSKMAP,
		.key_size = sizeof(uint32_t),
		.value_size = sizeof(uint32_t),
		.max_entries = 1,
	};

	fds[0] = sys_fd_hide(sys_socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
	fds[1] = sys_fd_hide(sys_bpf(BPF_MAP_CREATE, &attr, sizeof(attr)));
	return fds[0] < 0 ? fds[0] : fds[1] < 0 ? fds[1] : 0;
}

static uint64_t namespace_of(int sock)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return sys_getsockopt(sock, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? 0 : cookie;
}

static bool is_xdp_socket(const struct xdp_port *port, int fd)
{
	int domain = 0;
	socklen_t len = sizeof(domain);
	uint64_t here = namespace_of(port->anchors[0]);

	return !sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_XDP &&
	       here && namespace_of(fd) == here;
}

static bool is_xsk_map(int fd)
{
	struct bpf_map_info info = {0};
	union bpf_attr attr = {.info = {.bpf_fd = (uint32_t)fd,
					.info_len = sizeof(info),
					.info = (uintptr_t)&info}};

	return !sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)) &&
	       info.type == BPF_MAP_TYPE_XSKMAP;
}

bool xdp_group_is_proof(const struct xdp_port *port, const int *fds, unsigned n)
{
	return n == XDP_PROOFS && is_xdp_socket(port, fds[0]) && is_xsk_map(fds[1]);
}
