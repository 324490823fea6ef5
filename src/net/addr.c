/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/addr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stddef.h>
#include <stdio.h>

/* The kernel also accepts an IPv6 address without its scope (RFC 2133). */
#define SIN6_LEN_MIN offsetof(struct sockaddr_in6, sin6_scope_id)

void addr_multicast_mac(const struct inaddr *group, uint8_t mac[6])
{
	static const uint8_t v4[3] = {0x01, 0x00, 0x5e}, v6[2] = {0x33, 0x33};

	memcpy(mac, v4, sizeof(v4));
	memcpy(mac + 3, group->b + 13, 3);
	mac[3] &= 0x7f; /* 23 bits of the group */
	if (addr_is_v4(group))
		return;
	memcpy(mac, v6, sizeof(v6));
	memcpy(mac + 2, group->b + 12, 4);
}

bool endpoint_from_sin(struct endpoint *ep, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_in in;

	if (!sa || len < sizeof(in))
		return false;
	memcpy(&in, sa, sizeof(in)); /* programs pass unaligned addresses */
	if (in.sin_family != AF_INET)
		return false;
	*ep = (struct endpoint){.addr = addr_v4(in.sin_addr.s_addr), .port = in.sin_port};
	return true;
}

bool endpoint_from_sin6(struct endpoint *ep, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_in6 in6 = {0};

	if (!sa || len < SIN6_LEN_MIN)
		return false;
	memcpy(&in6, sa, len < sizeof(in6) ? SIN6_LEN_MIN : sizeof(in6));
	if (in6.sin6_family != AF_INET6)
		return false;
	*ep = (struct endpoint){.port = in6.sin6_port};
	memcpy(&ep->addr, &in6.sin6_addr, sizeof(ep->addr));
	if (len >= sizeof(in6) && addr_needs_scope(&ep->addr))
		ep->scope = in6.sin6_scope_id;
	return true;
}

void endpoint_to_sockaddr(const struct endpoint *ep, int family, struct sockaddr *sa,
			  socklen_t *len)
{
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} u;
	socklen_t full;

	if (!sa)
		return;
	memset(&u, 0, sizeof(u));
	if (family == AF_INET) {
		assert(addr_is_v4(&ep->addr));
		full = sizeof(u.in);
		u.in.sin_family = AF_INET;
		u.in.sin_port = ep->port;
		u.in.sin_addr.s_addr = addr_v4_of(&ep->addr);
	} else {
		assert(family == AF_INET6);
		full = sizeof(u.in6);
		u.in6.sin6_family = AF_INET6;
		u.in6.sin6_port = ep->port;
		u.in6.sin6_scope_id = ep->scope;
		memcpy(&u.in6.sin6_addr, &ep->addr, sizeof(ep->addr));
	}
	memcpy(sa, &u, *len < full ? *len : full);
	*len = full;
}

const char *addr_text(const struct inaddr *a, char buf[ENDPOINT_TEXT])
{
	if (addr_is_v4(a))
		inet_ntop(AF_INET, &a->w[3], buf, ENDPOINT_TEXT);
	else
		inet_ntop(AF_INET6, a, buf, ENDPOINT_TEXT);
	return buf;
}

const char *endpoint_text(const struct endpoint *ep, char buf[ENDPOINT_TEXT])
{
	char addr[ENDPOINT_TEXT];

	addr_text(&ep->addr, addr);
	snprintf(buf, ENDPOINT_TEXT, addr_is_v4(&ep->addr) ? "%.46s:%u" : "[%.46s]:%u", addr,
		 ntohs(ep->port));
	return buf;
}
