/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of IPv6 on a link. */
#ifndef TESTS_DIFF_IN6_H
#define TESTS_DIFF_IN6_H

#include <arpa/inet.h>
#include <net/if.h>

#include "tests/diff/diff.h"

#define SA(sin) ((struct sockaddr *)&(sin))

/* 0: link is NULL. */
static inline unsigned index_of(const char *link)
{
	return link ? if_nametoindex(link) : 0;
}

/* With port(i).  link NULL: without scope. */
static inline struct sockaddr_in6 at(const char *ip, unsigned i, const char *link)
{
	struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6,
				    .sin6_port = htons(port(i)),
				    .sin6_scope_id = index_of(link)};

	inet_pton(AF_INET6, ip, &sin6.sin6_addr);
	return sin6;
}

#endif
