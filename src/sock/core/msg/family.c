/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/msg/family.h"

#include "base/sys.h"
#include "sock/core/sock_options.h"

struct sock_addr sock_addr_of(const struct inet_sock *so, const struct endpoint *ep)
{
	struct sock_addr addr = {.len = sizeof(addr.in6)};

	sock_addr_write(so, ep, &addr.sa, &addr.len);
	return addr;
}

void sock_family_init(struct inet_sock *so, int twin)
{
	int domain = AF_INET;
	socklen_t len = sizeof(domain);

	sys_getsockopt(twin, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	so->family = domain == AF_INET6 ? AF_INET6 : AF_INET;
}

int sock_twin_bind(const struct inet_sock *so, const struct endpoint *ep)
{
	struct sock_addr addr = sock_addr_of(so, ep);

	return sys_bind(sock_twin(&so->sk), &addr.sa, addr.len);
}

int sock_twin_bind_any(const struct inet_sock *so)
{
	struct endpoint any = {.addr = sock_addr_any(so)};

	return sock_twin_bind(so, &any);
}

int sock_twin_connect(const struct inet_sock *so, const struct endpoint *ep)
{
	struct sock_addr addr = sock_addr_of(so, ep);

	return sys_connect(sock_twin(&so->sk), &addr.sa, addr.len);
}

bool sock_has_ipv4(const struct inet_sock *so)
{
	control_assert_held();
	return so->family == AF_INET || !sock_twin_int(so, IPPROTO_IPV6, IPV6_V6ONLY, 0);
}

bool sock_may_reach(const struct inet_sock *so, const struct endpoint *to, int oif)
{
	bool ipv4 = addr_is_v4(&to->addr);

	control_assert_held();
	if (so->family == AF_INET)
		return ipv4;
	if (addr_needs_scope(&to->addr) && !to->scope && !oif && !so->opt->bind_ifindex)
		return false;
	if (so->bound && !addr_is_any(&so->local.addr))
		return addr_is_v4(&so->local.addr) == ipv4;
	return !ipv4 || sock_has_ipv4(so);
}

static int set_device(struct inet_sock *so, int ifindex)
{
	struct sock_options opt = *so->opt;

	if (opt.bind_ifindex == ifindex)
		return 0;
	opt.bind_ifindex = ifindex;
	return sock_options_apply(sock_ref_of(so), &opt, false);
}

int sock_follow_device(struct inet_sock *so)
{
	control_assert_held();
	return set_device(so, sock_twin_device(so));
}

int sock_bind_to_scope(struct inet_sock *so, struct endpoint *to)
{
	int device = so->opt->bind_ifindex, scope = (int)to->scope, rc;

	control_assert_held();
	if (!addr_is_link_local6(&to->addr))
		return 0;
	if (scope ? device && device != scope : !device)
		return -EINVAL;
	to->scope = (uint32_t)(scope ? scope : device);
	if (device)
		return 0;
	rc = sys_setsockopt(sock_twin(&so->sk), SOL_SOCKET, SO_BINDTOIFINDEX, &scope,
			    sizeof(scope));
	return rc ? rc : set_device(so, scope);
}

void sock_follow_scope(struct inet_sock *so)
{
	struct ring *ring;

	control_assert_held();
	if ((!addr_needs_scope(&so->local.addr) && !addr_needs_scope(&so->remote.addr)) ||
	    sock_hold_cold(sock_ref_of(so), &ring))
		return;
	so->local = sock_addr_shown(so, &so->local);
	so->remote = sock_addr_shown(so, &so->remote);
	ring_release_cold(ring);
}
