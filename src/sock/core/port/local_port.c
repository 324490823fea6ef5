/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/local_port.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/siphash.h"
#include "base/sys.h"
#include "sock/core/host_state.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"

#define LOOK_INTERVAL NSEC_PER_SEC /* between two reads of the settings */
#define TRIES 64		   /* proposals before the kernel searches all ports */
#define PORTS 65536u
#define LIST_MAX 8192 /* bytes of ip_local_reserved_ports */

/* Control lock. */
static struct {
	nsec_t looked;	    /* when the settings were read; 0: never */
	bool known;	    /* they could be read */
	uint16_t low, high; /* both included */
	uint64_t reserved[PORTS / 64];
} ports;

/* ---- net.ipv4.ip_local_port_range, ip_local_reserved_ports ------------------------------- */

static bool read_range(void)
{
	char text[64], *end;
	unsigned long low, high;

	if (sys_read_text("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof(text)) < 0)
		return false;
	low = strtoul(text, &end, 10);
	high = strtoul(end, NULL, 10);
	if (!low || high < low || high >= PORTS)
		return false;
	ports.low = (uint16_t)low;
	ports.high = (uint16_t)high;
	return true;
}

/* The file looks like "8080,9148-9150". */
static bool read_reserved(void)
{
	char text[LIST_MAX], *at = text;

	memset(ports.reserved, 0, sizeof(ports.reserved));
	if (sys_read_text("/proc/sys/net/ipv4/ip_local_reserved_ports", text, sizeof(text)) < 0)
		return false;
	while (*at >= '0' && *at <= '9') {
		unsigned long first = strtoul(at, &at, 10), last = first;

		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (; first <= last && first < PORTS; first++)
			ports.reserved[first / 64] |= UINT64_C(1) << first % 64;
		at += *at == ',';
	}
	return true;
}

static bool look_at_settings(void)
{
	nsec_t now = clock_now();

	if (!ports.looked || now - ports.looked > LOOK_INTERVAL) {
		ports.looked = now;
		ports.known = read_range() && read_reserved();
	}
	return ports.known;
}

/* The range of ports: each end of IP_LOCAL_PORT_RANGE counts if it is within the system's range. */
static void range_of(const struct inet_sock *so, unsigned *low, unsigned *high)
{
	unsigned from = so->opt->port_range & 0xffff, to = so->opt->port_range >> 16;

	*low = ports.low;
	*high = ports.high;
	if (from >= ports.low && from <= ports.high)
		*low = from;
	if (to >= ports.low && to <= ports.high)
		*high = to;
}

/* ---- proposals ------------------------------------------------------------------------------- */

static bool is_reserved(unsigned port)
{
	return ports.reserved[port / 64] >> port % 64 & 1;
}

/* The flow key of the connection without the local port. */
static struct flow_key key_of(const struct inaddr *src, const struct endpoint *to)
{
	struct flow_key key;

	memset(&key, 0, sizeof(key));
	key.local = *src;
	key.remote = to->addr;
	key.remote_port = to->port;
	key.proto = IPPROTO_TCP;
	return key;
}

/* RFC 6056, algorithm 4: one half selects the first port, the other one the counter. */
static uint64_t hash_destination(const struct flow_key *key)
{
	uint8_t bytes[16 + 16 + 2];

	memcpy(bytes, &key->local, 16);
	memcpy(bytes + 16, &key->remote, 16);
	memcpy(bytes + 32, &key->remote_port, 2);
	return siphash(host_secret(), bytes, sizeof(bytes));
}

/*
 * The port to try: the n-th for this destination, the i-th of this call.  Like connect(2) it
 * begins with every other port, because bind(2) prefers those in between.
 */
static unsigned propose(unsigned low, unsigned high, uint32_t start, uint32_t n, unsigned i)
{
	unsigned half = (high - low + 1) / 2; /* at least one */
	bool between = i >= half || i >= TRIES / 2;

	assert(half);
	return low + 2 * (((uint64_t)start + n) % half) + between;
}

static int bind_to(struct inet_sock *so, const struct ring *ring, const struct inaddr *src,
		   unsigned port)
{
	struct endpoint local = {
		.addr = *src, .port = htons((uint16_t)port), .scope = ring_scope(ring, src)};
	int rc = sock_twin_bind(so, &local);

	if (!rc)
		so->local = local;
	return rc;
}

/* 0: the twin is bound, and so->local is set.  -EADDRINUSE: no proposal was free. */
static int try_proposals(struct inet_sock *so, const struct ring *ring, const struct inaddr *src,
			 const struct endpoint *to)
{
	struct flow_key key = key_of(src, to);
	uint64_t hash = hash_destination(&key);
	unsigned low, high;
	int rc = -EADDRINUSE;

	range_of(so, &low, &high);
	if (high <= low)
		return rc;
	for (unsigned i = 0; i < TRIES && rc == -EADDRINUSE; i++) {
		uint32_t n = host_port_next((uint32_t)(hash >> 32));
		unsigned port = propose(low, high, (uint32_t)hash, n, i);

		key.local_port = htons((uint16_t)port);
		if (is_reserved(port) || ring_flow_is_foreign(ring, &key))
			continue;
		rc = bind_to(so, ring, src, port);
	}
	return rc;
}

/*
 * The kernel chooses the port.  IP_BIND_ADDRESS_NO_PORT is off meanwhile, or the kernel would
 * choose only at connect(2).
 */
static int bind_to_any(struct inet_sock *so, const struct ring *ring, const struct inaddr *src)
{
	static const int off = 0, on = 1;
	int twin = sock_twin(&so->sk), rc;
	bool waits = sock_twin_int(so, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 0) != 0;

	if (waits)
		sys_setsockopt(twin, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &off, sizeof(off));
	rc = bind_to(so, ring, src, 0);
	if (waits)
		sys_setsockopt(twin, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	return rc ? rc : sock_read_local(so);
}

int local_port_reserve(struct inet_sock *so, const struct ring *ring, const struct inaddr *src,
		       const struct endpoint *to)
{
	control_assert_held();
	/* With one of these options the kernel would accept a port that another socket has. */
	bool refuses = !so->opt->reuseaddr && !so->opt->reuseport;

	/* bind(2) to an address of IPv6 sets it, connect(2) does not. */
	so->unbound_v6only = !addr_is_v4(src) && !sock_twin_int(so, IPPROTO_IPV6, IPV6_V6ONLY, 0);

	if (refuses && look_at_settings() && !try_proposals(so, ring, src, to))
		return 0;
	return bind_to_any(so, ring, src);
}
