/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads options back from the twin, which may have adjusted the value that the program set. */
#include "sock/options/opt_mirror.h"

#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/udp.h>

#include "base/sys.h"
#include "base/user.h"
#include "sock/core/kind.h"
#include "sock/core/msg/stamps.h"
#include "sock/core/sock_options.h"

/* linux/socket.h */
#ifndef SOCK_SNDBUF_LOCK
#define SOCK_SNDBUF_LOCK 1
#define SOCK_RCVBUF_LOCK 2
#endif

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51 /* linux/in.h, since 6.3 */
#endif

/* Milliseconds, rounded up as the kernel rounds up to its ticks; at most 49 days. */
static void set_timeout(struct inet_sock *so, uint32_t *timeo, int name)
{
	uint64_t msec;
	struct timeval tv = {0, 0};
	socklen_t len = sizeof(tv);

	if (sys_getsockopt(sock_twin(&so->sk), SOL_SOCKET, name, &tv, &len))
		tv = (struct timeval){0, 0};
	msec = (uint64_t)tv.tv_sec * 1000 + ((uint64_t)tv.tv_usec + 999) / 1000;
	__atomic_store_n(timeo, msec > UINT32_MAX ? UINT32_MAX : (uint32_t)msec, __ATOMIC_RELAXED);
}

/* Bytes per second; 0: no limit, for which the kernel has ~0. */
static uint64_t twin_pacing(struct inet_sock *so)
{
	uint64_t rate = UINT64_MAX;
	socklen_t len = sizeof(rate);

	sys_getsockopt(sock_twin(&so->sk), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len);
	return rate == UINT64_MAX ? 0 : rate;
}

static void mirror_lock(struct inet_sock *so, struct sock_options *opt)
{
	int locks = sock_twin_int(so, SOL_SOCKET, SO_BUF_LOCK, 0);
	bool snd = locks & SOCK_SNDBUF_LOCK, rcv = locks & SOCK_RCVBUF_LOCK;
	const struct sock_kind *kind = sock_kind_of(so);

	if (!kind->buffer_size)
		return;
	/* A buffer that is locked keeps its present size. */
	if (snd && !opt->sndbuf_set)
		opt->sndbuf = kind->buffer_size(so, false);
	if (rcv && !opt->rcvbuf_set)
		opt->rcvbuf = kind->buffer_size(so, true);
	opt->sndbuf_set = snd;
	opt->rcvbuf_set = rcv;
}

/* As __sock_recv_timestamp(): which stamps of a packet that has both are told. */
static void mirror_stamping(const struct inet_sock *so, struct sock_options *opt)
{
	const int software = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
	int flags = sock_twin_int(so, SOL_SOCKET, SO_TIMESTAMPING, 0);
	bool filter = flags & STAMPING_RX_FILTER;

	if ((flags & software) == software)
		opt->told |= TOLD_STAMPING;
	if ((flags & SOF_TIMESTAMPING_RAW_HARDWARE) &&
	    (!filter || (flags & SOF_TIMESTAMPING_RX_HARDWARE)))
		opt->told |= TOLD_HARDWARE;
	opt->tx_stamps = so->inet == INET_UDP && (flags & SOF_TIMESTAMPING_TX_RECORD_MASK);
	if (flags && sock_twin_int(so, SOL_SOCKET, SO_TIMESTAMPING_NEW, 0))
		opt->told |= TOLD_STAMPING_NEW;
}

void opt_mirror_told(struct inet_sock *so, struct sock_options *opt)
{
	static const struct {
		int level, name;
		unsigned told;
	} options[] = {
		{SOL_SOCKET, SO_TIMESTAMP, TOLD_STAMP},
		{SOL_SOCKET, SO_TIMESTAMPNS, TOLD_STAMP_NS},
		{SOL_SOCKET, SO_TIMESTAMP_NEW, TOLD_STAMP_NEW},
		{SOL_SOCKET, SO_TIMESTAMPNS_NEW, TOLD_STAMPNS_NEW},
		{SOL_SOCKET, SO_RXQ_OVFL, TOLD_DROPS},
		{IPPROTO_IPV6, IPV6_RECVPKTINFO, TOLD_PKTINFO6},
		{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, TOLD_HOPLIMIT6},
		{IPPROTO_IPV6, IPV6_RECVTCLASS, TOLD_TCLASS6},
		{IPPROTO_IP, IP_PKTINFO, TOLD_PKTINFO},
		{IPPROTO_IP, IP_RECVTTL, TOLD_TTL},
		{IPPROTO_IP, IP_RECVTOS, TOLD_TOS},
		{IPPROTO_IP, IP_RECVOPTS, TOLD_OPTS},
		{IPPROTO_IP, IP_RECVORIGDSTADDR, TOLD_ORIGDST},
		{IPPROTO_UDP, UDP_GRO, TOLD_GRO},
		{IPPROTO_TCP, TCP_INQ, TOLD_INQ},
	};

	control_assert_held();
	opt->told = 0;
	for (unsigned i = 0; i < sizeof(options) / sizeof(*options); i++) {
		if (options[i].level == IPPROTO_IPV6 && so->family != AF_INET6)
			continue;
		if (sock_twin_int(so, options[i].level, options[i].name, 0))
			opt->told |= options[i].told;
	}
	if (so->inet != INET_UDP) /* TCP has time stamps and TCP_INQ only */
		opt->told &= TOLD_STAMPS | TOLD_INQ;
	mirror_stamping(so, opt);
}

void opt_mirror_socket(struct inet_sock *so, int name, struct sock_options *opt)
{
	struct linger linger = {0, 0};
	socklen_t len = sizeof(linger);

	control_assert_held();
	switch (name) {
	case SO_RCVBUF:
	case SO_RCVBUFFORCE:
		opt->rcvbuf = (uint32_t)sock_twin_int(so, SOL_SOCKET, SO_RCVBUF, (int)opt->rcvbuf);
		opt->rcvbuf_set = true;
		break;
	case SO_SNDBUF:
	case SO_SNDBUFFORCE:
		opt->sndbuf = (uint32_t)sock_twin_int(so, SOL_SOCKET, SO_SNDBUF, (int)opt->sndbuf);
		opt->sndbuf_set = true;
		break;
	case SO_BUF_LOCK:
		mirror_lock(so, opt);
		break;
	case SO_RCVTIMEO:
	case SO_RCVTIMEO_NEW:
		set_timeout(so, &so->rcvtimeo, SO_RCVTIMEO);
		break;
	case SO_SNDTIMEO:
	case SO_SNDTIMEO_NEW:
		set_timeout(so, &so->sndtimeo, SO_SNDTIMEO);
		break;
	case SO_RCVLOWAT:
		opt->rcvlowat = (uint32_t)sock_twin_int(so, SOL_SOCKET, name, 1);
		break;
	case SO_LINGER:
		sys_getsockopt(sock_twin(&so->sk), SOL_SOCKET, name, &linger, &len);
		opt->linger_on = linger.l_onoff != 0;
		opt->linger_seconds = linger.l_linger;
		break;
	case SO_DONTROUTE:
		opt->dontroute = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		break;
	case SO_KEEPALIVE:
		opt->keepalive.on = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		break;
	case SO_MAX_PACING_RATE:
		opt->pacing = twin_pacing(so);
		opt->pacing_burst = opt->pacing_max = opt->pacing_packet = 0;
		break;
	case SO_OOBINLINE:
		opt->oobinline = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		break;
	case SO_ZEROCOPY:
		opt->zerocopy = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		break;
	case SO_NO_CHECK:
		opt->no_check = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		break;
	case SO_MARK:
		opt->mark = (uint32_t)sock_twin_int(so, SOL_SOCKET, name, 0);
		break;
	case SO_BINDTODEVICE:
	case SO_BINDTOIFINDEX:
		opt->bind_ifindex = sock_twin_device(so);
		break;
	case SO_REUSEADDR:
		opt->reuseaddr = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		sock_ports_may_be_shared = true;
		break;
	case SO_REUSEPORT:
		opt->reuseport = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		sock_ports_may_be_shared = true;
		break;
	default:
		opt_mirror_told(so, opt);
		break;
	}
}

/* IP_MULTICAST_IF cannot be read back completely, so the program's value is used. */
static void mirror_multicast_if(struct sock_options *opt, const void *val, socklen_t len)
{
	struct ip_mreqn req;

	memset(&req, 0, sizeof(req));
	if (len >= sizeof(struct ip_mreq))
		memcpy(&req, val, len < sizeof(req) ? len : sizeof(req));
	else if (len >= sizeof(req.imr_address))
		memcpy(&req.imr_address, val, sizeof(req.imr_address));
	opt->mc_addr = addr_v4(req.imr_address.s_addr);
	opt->mc_ifindex = req.imr_ifindex;
	if (!opt->mc_ifindex && !addr_is_any(&opt->mc_addr))
		opt->mc_ifindex = link_of_addr(&opt->mc_addr);
}

/* -1: the program leaves it to the route and the host. */
static bool is_default(const void *val, socklen_t len)
{
	int value;

	/* For IPv6 the kernel takes NULL as 0. */
	return len >= sizeof(value) && !user_read(&value, val, sizeof(value)) && value == -1;
}

void opt_mirror_ip(struct inet_sock *so, int name, const void *val, socklen_t len,
		   struct sock_options *opt)
{
	control_assert_held();
	switch (name) {
	case IP_TOS:
		opt->tos = (uint8_t)sock_twin_int(so, IPPROTO_IP, name, 0);
		break;
	case IP_TTL:
		opt->ttl = (uint8_t)sock_twin_int(so, IPPROTO_IP, name, 64);
		opt->ttl_set = !is_default(val, len);
		break;
	case IP_MULTICAST_TTL:
		opt->mc_ttl = (uint8_t)sock_twin_int(so, IPPROTO_IP, name, 1);
		break;
	case IP_MULTICAST_LOOP:
		if (so->family == AF_INET) /* else IPV6_MULTICAST_LOOP counts */
			opt->mc_loop = sock_twin_int(so, IPPROTO_IP, name, 1) != 0;
		break;
	case IP_MULTICAST_ALL:
		opt->mc_all = sock_twin_int(so, IPPROTO_IP, name, 1) != 0;
		break;
	case IP_MULTICAST_IF:
		mirror_multicast_if(opt, val, len);
		break;
	case IP_UNICAST_IF:
		opt->uc_ifindex = (int)ntohl((uint32_t)sock_twin_int(so, IPPROTO_IP, name, 0));
		break;
	case IP_MTU_DISCOVER:
		opt->pmtudisc = (uint8_t)sock_twin_int(so, IPPROTO_IP, name, IP_PMTUDISC_WANT);
		break;
	case IP_LOCAL_PORT_RANGE:
		opt->port_range = (uint32_t)sock_twin_int(so, IPPROTO_IP, name, 0);
		break;
	default:
		opt_mirror_told(so, opt);
		break;
	}
}

void opt_mirror_ipv6(struct inet_sock *so, int name, const void *val, socklen_t len,
		     struct sock_options *opt)
{
	control_assert_held();
	switch (name) {
	case IPV6_UNICAST_HOPS:
		opt->hops6 = (uint8_t)sock_twin_int(so, IPPROTO_IPV6, name, 64);
		opt->hops6_set = !is_default(val, len);
		break;
	case IPV6_TCLASS:
		opt->tclass6 = (uint8_t)sock_twin_int(so, IPPROTO_IPV6, name, 0);
		break;
	case IPV6_MTU_DISCOVER:
		opt->pmtudisc6 = (uint8_t)sock_twin_int(so, IPPROTO_IPV6, name, IPV6_PMTUDISC_WANT);
		break;
	case IPV6_MULTICAST_IF:
		opt->mc_ifindex6 = sock_twin_int(so, IPPROTO_IPV6, name, 0);
		break;
	case IPV6_MULTICAST_HOPS:
		opt->mc_hops6 = (uint8_t)sock_twin_int(so, IPPROTO_IPV6, name, 1);
		break;
	case IPV6_MULTICAST_ALL:
		opt->mc_all6 = sock_twin_int(so, IPPROTO_IPV6, name, 1) != 0;
		break;
	case IPV6_UNICAST_IF:
		opt->uc_ifindex6 = (int)ntohl((uint32_t)sock_twin_int(so, IPPROTO_IPV6, name, 0));
		break;
	case IPV6_AUTOFLOWLABEL:
		opt->no_label6 = !sock_twin_int(so, IPPROTO_IPV6, name, 1);
		break;
	case IPV6_MULTICAST_LOOP:
		opt->mc_loop = sock_twin_int(so, IPPROTO_IPV6, name, 1) != 0;
		break;
	default:
		opt_mirror_told(so, opt);
		break;
	}
}

void opt_mirror_udp(struct inet_sock *so, int name, struct sock_options *opt)
{
	control_assert_held();
	switch (name) {
	case UDP_CORK:
		opt->cork = sock_twin_int(so, IPPROTO_UDP, name, 0) != 0;
		break;
	case UDP_SEGMENT:
		opt->gso_size = (uint16_t)sock_twin_int(so, IPPROTO_UDP, name, 0);
		break;
	default:
		opt_mirror_told(so, opt);
		break;
	}
}
