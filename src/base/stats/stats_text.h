/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics as text: the block of a socket, which vma_stats shows in its view 3 and the library
 * appends to VMA_STATS_FILE, and the file that names a page.
 *
 * Role		any thread; pure.
 */
#ifndef BASE_STATS_STATS_TEXT_H
#define BASE_STATS_STATS_TEXT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/stats/stats_page.h"

#define STATS_TEXT_SIZE 4096

/* 54 equal signs. */
#define STATS_RULE "======================================================"

/* Parses the contents of vmastat.PID.  False: it is something else. */
bool stats_place_parse(const char *text, struct stats_place *place);

/* How stats_sock_text() shows a socket. */
#define STATS_TEXT_RATES 1u  /* the counters are rates, per second */
#define STATS_TEXT_GROUPS 2u /* with its multicast groups */

/*
 * The block of a socket, without rules; lines without a count are left out.  Returns the length,
 * at most STATS_TEXT_SIZE - 1.
 */
size_t stats_sock_text(const struct stats_sock *slot, unsigned how, char text[STATS_TEXT_SIZE]);

#define STATS_ENDPOINT 56
/* "a.b.c.d:port" or "[a::b]:port"; port: network byte order. */
void stats_endpoint_text(const struct stats_addr *addr, uint16_t port, char text[STATS_ENDPOINT]);

static inline bool stats_addr_is_ipv4(const struct stats_addr *addr)
{
	return !addr->w[0] && !addr->w[1] && addr->w[2] == htonl(0xffff);
}

/* 0.0.0.0 or :: */
static inline bool stats_addr_is_any(const struct stats_addr *addr)
{
	return !addr->w[0] && !addr->w[1] && !addr->w[3] &&
	       (!addr->w[2] || addr->w[2] == htonl(0xffff));
}

static inline bool stats_addr_eq(const struct stats_addr *a, const struct stats_addr *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* The share of hits in per cent; 0 if there were neither hits nor misses. */
double stats_share(uint64_t hits, uint64_t misses);

#endif
