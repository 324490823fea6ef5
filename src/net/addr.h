/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internet addresses of both families in one 128-bit form: IPv4 is an IPv4-mapped IPv6
 * address (RFC 4291 2.5.5.2), so keys, tables and comparisons handle one kind only.
 *
 * Role		pure values.  Ports are in network byte order everywhere.
 */
#ifndef NET_ADDR_H
#define NET_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct inaddr {
	union {
		uint8_t b[16];
		uint32_t w[4];
		uint64_t q[2];
	};
};

/*
 * scope: the interface that an address is valid on, if addr_needs_scope() (RFC 4007); 0: not named,
 * so that something else must tell it; of other addresses 0.
 */
struct endpoint {
	struct inaddr addr;
	uint16_t port; /* network byte order */
	uint16_t zero; /* so that port and scope are compared as one word */
	uint32_t scope;
};

_Static_assert(sizeof(struct endpoint) == 24, "without padding");

#define ADDR_V4_PREFIX htonl(0x0000ffffu)

static inline struct inaddr addr_v4(uint32_t be)
{
	struct inaddr a = {.w = {0, 0, ADDR_V4_PREFIX, be}};

	return a;
}

/* The IPv4 wildcard, 0.0.0.0. */
static inline struct inaddr addr_v4_any(void)
{
	return addr_v4(0);
}

static inline bool addr_is_v4(const struct inaddr *a)
{
	return a->q[0] == 0 && a->w[2] == ADDR_V4_PREFIX;
}

/* The IPv4 address, network byte order. Only if addr_is_v4(). */
static inline uint32_t addr_v4_of(const struct inaddr *a)
{
	return a->w[3];
}

static inline bool addr_eq(const struct inaddr *a, const struct inaddr *b)
{
	return a->q[0] == b->q[0] && a->q[1] == b->q[1];
}

/* Port and scope. */
static inline uint64_t endpoint_word(const struct endpoint *ep)
{
	uint64_t word;

	memcpy(&word, &ep->port, sizeof(word));
	return word;
}

static inline bool endpoint_eq(const struct endpoint *a, const struct endpoint *b)
{
	return addr_eq(&a->addr, &b->addr) && endpoint_word(a) == endpoint_word(b);
}

/* 0.0.0.0 or :: */
static inline bool addr_is_any(const struct inaddr *a)
{
	return a->q[0] == 0 && (a->q[1] == 0 || (addr_is_v4(a) && a->w[3] == 0));
}

static inline bool addr_is_multicast(const struct inaddr *a)
{
	return addr_is_v4(a) ? (ntohl(a->w[3]) >> 28) == 0xe : a->b[0] == 0xff;
}

/* 127.0.0.0/8 or ::1 */
static inline bool addr_is_loopback(const struct inaddr *a)
{
	if (addr_is_v4(a))
		return a->b[12] == 127;
	return a->q[0] == 0 && a->w[2] == 0 && a->w[3] == htonl(1);
}

/* fe80::/10: valid on one link. */
static inline bool addr_is_link_local6(const struct inaddr *a)
{
	return a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

/* Is it valid on one link only?  Link-local addresses, and groups of interface and link (RFC 4291 2.7). */
static inline bool addr_needs_scope(const struct inaddr *a)
{
	uint8_t group = a->b[1] & 0xf;

	return a->b[0] == 0xff ? group == 1 || group == 2 : addr_is_link_local6(a);
}

/* 255.255.255.255 only; the route tells whether an address is a subnet broadcast. */
static inline bool addr_is_broadcast(const struct inaddr *a)
{
	return addr_is_v4(a) && a->w[3] == 0xffffffffu;
}

/* The link address of a multicast group: RFC 1112 section 6.4, RFC 2464 section 7. */
void addr_multicast_mac(const struct inaddr *group, uint8_t mac[6]);

/*
 * False unless sa, of len bytes, is a complete address of AF_INET, or of AF_INET6.  As the kernel
 * does, takes sin6_scope_id of an address that needs a scope, and ignores it otherwise.
 */
bool endpoint_from_sin(struct endpoint *ep, const struct sockaddr *sa, socklen_t len);
bool endpoint_from_sin6(struct endpoint *ep, const struct sockaddr *sa, socklen_t len);

/*
 * Writes ep as a socket address of family (AF_INET: ep must be IPv4; AF_INET6: IPv4 is mapped). As
 * the kernel does, copies at most *len bytes and sets *len to the full size. Does nothing if sa is
 * NULL.
 */
void endpoint_to_sockaddr(const struct endpoint *ep, int family, struct sockaddr *sa,
			  socklen_t *len);

#define ENDPOINT_TEXT 64
/* "10.0.0.1:80" or "[2001:db8::1]:80"; returns buf. */
const char *endpoint_text(const struct endpoint *ep, char buf[ENDPOINT_TEXT]);
const char *addr_text(const struct inaddr *a, char buf[ENDPOINT_TEXT]);

#endif
