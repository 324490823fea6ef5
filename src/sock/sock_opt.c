/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket options.  The twin takes every option first: its checks and errors are
 * the kernel's.  Then what acts on our frames is mirrored; what only the kernel
 * can serve sends the socket back to it before data flows.
 */
#include <net/if.h>
#include <linux/tcp.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "sock/mcast.h"
#include "sock/move.h"
#include "sock/tcp_internal.h"

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51 /* linux/in.h, since 6.3 */
#endif

/* What an option needs. */
enum care {
	CARE_KERNEL, /* only the kernel can serve it: the socket leaves us */
	CARE_TWIN,   /* true when the twin has it: nothing of ours depends on it */
	CARE_MIRROR, /* the twin takes it and we act on it */
	CARE_GROUP,  /* multicast membership */
};

static enum care care_socket(int name)
{
	switch (name) {
	case SO_BROADCAST:
	case SO_BUSY_POLL:
	case SO_DEBUG:
	case SO_INCOMING_CPU:
	case SO_PREFER_BUSY_POLL:
	case SO_PRIORITY:
	case SO_SNDLOWAT:
		return CARE_TWIN;
	case SO_BINDTODEVICE:
	case SO_BINDTOIFINDEX:
	case SO_KEEPALIVE:
	case SO_LINGER:
	case SO_MARK:
	case SO_MAX_PACING_RATE:
	case SO_OOBINLINE:
	case SO_RCVBUF:
	case SO_RCVBUFFORCE:
	case SO_RCVLOWAT:
	case SO_RCVTIMEO:
	case SO_REUSEADDR:
	case SO_REUSEPORT:
	case SO_SNDBUF:
	case SO_SNDBUFFORCE:
	case SO_SNDTIMEO:
	case SO_TIMESTAMP:
	case SO_TIMESTAMPNS:
		return CARE_MIRROR;
	default:
		return CARE_KERNEL;
	}
}

static enum care care_ip(int name)
{
	switch (name) {
	case IP_BIND_ADDRESS_NO_PORT:
	case IP_FREEBIND:
	case IP_MULTICAST_ALL:
		return CARE_TWIN;
	case IP_LOCAL_PORT_RANGE:
	case IP_MTU_DISCOVER:
	case IP_MULTICAST_IF:
	case IP_MULTICAST_LOOP:
	case IP_MULTICAST_TTL:
	case IP_PKTINFO:
	case IP_TOS:
	case IP_TTL:
		return CARE_MIRROR;
	case IP_ADD_MEMBERSHIP:
	case IP_ADD_SOURCE_MEMBERSHIP:
	case IP_DROP_MEMBERSHIP:
	case IP_DROP_SOURCE_MEMBERSHIP:
		return CARE_GROUP;
	default:
		return CARE_KERNEL;
	}
}

static enum care care_tcp(int name)
{
	switch (name) {
	case TCP_CORK:
	case TCP_DEFER_ACCEPT:
	case TCP_KEEPCNT:
	case TCP_KEEPIDLE:
	case TCP_KEEPINTVL:
	case TCP_LINGER2:
	case TCP_MAXSEG:
	case TCP_NODELAY:
	case TCP_NOTSENT_LOWAT:
	case TCP_QUICKACK:
	case TCP_USER_TIMEOUT:
	case TCP_WINDOW_CLAMP:
		return CARE_MIRROR;
	default:
		return CARE_KERNEL;
	}
}

static enum care care_of(const struct inet_sock *so, int level, int name)
{
	switch (level) {
	case SOL_SOCKET:
		return care_socket(name);
	case IPPROTO_IP:
		return care_ip(name);
	case IPPROTO_TCP:
		return so->inet == INET_UDP ? CARE_TWIN /* refused by it */ : care_tcp(name);
	case IPPROTO_UDP:
	default:
		return CARE_KERNEL;
	}
}

/* ---- mirroring (control lock) ---------------------------------------------------------- */

/* Reads back what the kernel made of the value. */
int sock_twin_int(const struct inet_sock *so, int level, int name, int otherwise)
{
	int val = otherwise;
	socklen_t len = sizeof(val);

	return sys_getsockopt(sock_twin(&so->sk), level, name, &val, &len) ? otherwise : val;
}

/* Rounded up, as the kernel rounds to its ticks; more than 49 days are 49 days. */
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

static int twin_device(const struct inet_sock *so)
{
	return sock_twin_int(so, SOL_SOCKET, SO_BINDTOIFINDEX, 0);
}

/* 0: any number of bytes a second, which the kernel calls -1. */
static uint64_t twin_pacing(struct inet_sock *so)
{
	uint64_t rate = UINT64_MAX;
	socklen_t len = sizeof(rate);

	sys_getsockopt(sock_twin(&so->sk), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len);
	return rate == UINT64_MAX ? 0 : rate;
}

static void mirror_socket(struct inet_sock *so, int name, struct sock_options *opt)
{
	struct linger linger = {0, 0};
	socklen_t len = sizeof(linger);

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
	case SO_RCVTIMEO:
		set_timeout(so, &so->rcvtimeo, SO_RCVTIMEO);
		break;
	case SO_SNDTIMEO:
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
	case SO_KEEPALIVE:
		opt->keepalive.on = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		break;
	case SO_MAX_PACING_RATE:
		opt->pacing = twin_pacing(so);
		break;
	case SO_OOBINLINE:
		opt->oobinline = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		break;
	case SO_MARK:
		opt->mark = (uint32_t)sock_twin_int(so, SOL_SOCKET, name, 0);
		break;
	case SO_BINDTODEVICE:
	case SO_BINDTOIFINDEX:
		opt->bind_ifindex = twin_device(so);
		break;
	case SO_REUSEADDR:
		opt->reuseaddr = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		sock_ports_may_be_shared = true;
		break;
	case SO_REUSEPORT:
		opt->reuseport = sock_twin_int(so, SOL_SOCKET, name, 0) != 0;
		sock_ports_may_be_shared = true;
		break;
	case SO_TIMESTAMP:
	case SO_TIMESTAMPNS:
		opt->timestamp = sock_twin_int(so, SOL_SOCKET, SO_TIMESTAMP, 0) != 0;
		opt->timestamp_ns = sock_twin_int(so, SOL_SOCKET, SO_TIMESTAMPNS, 0) != 0;
		break;
	}
}

/* IP_MULTICAST_IF cannot be read back in full: the program's value is looked at. */
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

static void mirror_ip(struct inet_sock *so, int name, const void *val, socklen_t len,
		      struct sock_options *opt)
{
	switch (name) {
	case IP_TOS:
		opt->tos = (uint8_t)sock_twin_int(so, IPPROTO_IP, name, 0);
		break;
	case IP_TTL:
		opt->ttl = (uint8_t)sock_twin_int(so, IPPROTO_IP, name, 64);
		break;
	case IP_MULTICAST_TTL:
		opt->mc_ttl = (uint8_t)sock_twin_int(so, IPPROTO_IP, name, 1);
		break;
	case IP_MULTICAST_LOOP:
		opt->mc_loop = sock_twin_int(so, IPPROTO_IP, name, 1) != 0;
		break;
	case IP_MULTICAST_IF:
		mirror_multicast_if(opt, val, len);
		break;
	case IP_MTU_DISCOVER:
		opt->pmtudisc = (uint8_t)sock_twin_int(so, IPPROTO_IP, name, IP_PMTUDISC_WANT);
		break;
	case IP_LOCAL_PORT_RANGE:
		opt->port_range = (uint32_t)sock_twin_int(so, IPPROTO_IP, name, 0);
		break;
	case IP_PKTINFO:
		opt->pktinfo = sock_twin_int(so, IPPROTO_IP, name, 0) != 0;
		break;
	}
}

void sock_options_use(struct inet_sock *so, const struct sock_options *opt)
{
	options_put(so->opt);
	so->opt = opt;
	so->rcvlowat = opt->rcvlowat;
	so->stamped = opt->timestamp || opt->timestamp_ns;
}

/* The new options act from now on; quickack: TCP_QUICKACK was set, which acts each time. */
static int apply(struct sock_ref ref, const struct sock_options *values, bool quickack)
{
	const struct sock_options *opt = options_share(values);
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc;

	if (!opt)
		return -ENOMEM;
	rc = sock_hold_cold(ref, &ring);
	if (rc) {
		options_put(opt);
		return rc;
	}
	sock_options_use(so, opt);
	if (so->inet == INET_UDP)
		udp_options_changed(so);
	else if (so->inet == INET_TCP)
		tcp_options_changed(so, quickack);
	ring_release_cold(ring);
	if (so->inet == INET_LISTEN)
		tcp_listen_options_changed(so);
	return 0;
}

static int set_mirrored(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_options opt = *so->opt;
	int rc = 0;

	if (level == IPPROTO_TCP)
		rc = tcp_may_set(ref, name, val, len);
	if (!rc)
		rc = sys_setsockopt(sock_twin(ref.sk), level, name, val, len);
	if (rc)
		return rc;
	if (level == SOL_SOCKET)
		mirror_socket(so, name, &opt);
	else if (level == IPPROTO_IP)
		mirror_ip(so, name, val, len, &opt);
	else
		tcp_mirror(so, name, val, &opt);
	return apply(ref, &opt, level == IPPROTO_TCP && name == TCP_QUICKACK);
}

/* Only the kernel can do it: before data flows the socket goes there. */
static int set_by_kernel(struct inet_sock *so, int level, int name)
{
	if (so->inet == INET_TCP && so->connected) {
		log_debug(
			"fd %d: option %d of level %d is not supported on an accelerated connection",
			sock_twin(&so->sk), name, level);
		return -ENOPROTOOPT;
	}
	sock_leave(so, VERDICT_OPTION);
	return SOCK_KERNEL;
}

/* SO_VMA_RING_ALLOC_LOGIC: ours alone, the twin knows nothing of it. */
static int set_ring_alloc(struct inet_sock *so, const void *val, socklen_t len)
{
	struct sock_options values = *so->opt;
	const struct sock_options *opt;
	bool set_rx, set_tx;
	struct ring *ring;
	int rc = ring_alloc_from_attr(val, len, &values.alloc_rx, &values.alloc_tx, &set_rx,
				      &set_tx);

	if (rc)
		return rc;
	opt = options_share(&values);
	if (!opt)
		return -ENOMEM;
	rc = sock_hold_cold(sock_ref_of(so), &ring);
	if (rc) {
		options_put(opt);
		return rc;
	}
	sock_options_use(so, opt);
	sock_alloc_changed(so, set_rx, set_tx);
	ring_release_cold(ring);
	if (so->inet == INET_LISTEN)
		tcp_listen_options_changed(so);
	return 0;
}

/* TCP_CONGESTION: what the twin would do says nothing of what we do. */
static int set_congestion(struct sock_ref ref, const void *val, socklen_t len)
{
	struct sock_options opt = *inet_of(ref.sk)->opt;
	char name[16] = "";
	int number;

	if (!val || len < 1)
		return -EINVAL;
	memcpy(name, val, len < sizeof(name) ? len : sizeof(name) - 1);
	number = tcp_cc_number_of(name);
	if (number < 0)
		return set_by_kernel(inet_of(ref.sk), IPPROTO_TCP, TCP_CONGESTION);
	opt.cc_algo = (uint8_t)number;
	return apply(ref, &opt, false);
}

int sock_setsockopt(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	int rc = -EBADF;

	if (!control_lock())
		return -EAGAIN;
	if (!sock_ref_valid(ref))
		goto unlock;
	if (level == SOL_SOCKET && name == SO_VMA_RING_ALLOC_LOGIC) {
		rc = set_ring_alloc(so, val, len);
		goto unlock;
	}
	if (level == IPPROTO_TCP && name == TCP_CONGESTION && so->inet != INET_UDP) {
		rc = set_congestion(ref, val, len);
		goto unlock;
	}
	switch (care_of(so, level, name)) {
	case CARE_TWIN:
		rc = SOCK_KERNEL;
		break;
	case CARE_MIRROR:
		rc = set_mirrored(ref, level, name, val, len);
		break;
	case CARE_GROUP:
		rc = so->inet == INET_UDP ? mcast_setsockopt(so, name, val, len) : SOCK_KERNEL;
		break;
	case CARE_KERNEL:
	default:
		rc = set_by_kernel(so, level, name);
		break;
	}
unlock:
	control_unlock();
	return rc;
}

/*
 * net.ipv4.ip_default_ttl, as a fresh twin has it.  It hardly ever changes: it is
 * followed within a second.
 */
static uint8_t default_ttl(const struct inet_sock *so)
{
	static uint8_t ttl; /* control lock, as what follows */
	static nsec_t looked;
	nsec_t now = clock_now();

	if (!ttl || now - looked > NSEC_PER_SEC) {
		ttl = (uint8_t)sock_twin_int(so, IPPROTO_IP, IP_TTL, 64);
		looked = now;
	}
	return ttl;
}

bool sock_options_init(struct inet_sock *so, bool tcp)
{
	struct sock_options opt;
	const struct sock_options *shared;
	int zero = 0, one = 1;

	memset(&opt, 0, sizeof(opt));
	/* TCP has sizes of its own until the program sets some. */
	if (!tcp) {
		opt.rcvbuf = (uint32_t)sock_twin_int(so, SOL_SOCKET, SO_RCVBUF, 212992);
		opt.sndbuf = (uint32_t)sock_twin_int(so, SOL_SOCKET, SO_SNDBUF, 212992);
	}
	opt.ttl = default_ttl(so);
	opt.mc_ttl = 1;
	opt.pmtudisc = IP_PMTUDISC_WANT;
	opt.mc_loop = params.tx_mc_loopback;
	opt.alloc_rx.logic = params.ring_logic_rx;
	opt.alloc_tx.logic = params.ring_logic_tx;
	opt.mc_addr = addr_v4_any();
	opt.rcvlowat = 1;
	opt.cc_algo = (uint8_t)params.tcp_cc_algo;
	opt.keepalive.idle = 7200;
	opt.keepalive.interval = 75;
	opt.keepalive.probes = 9;
	opt.linger2 = tcp ? tcp_kernel()->fin_timeout : 0;
	opt.nodelay = tcp && params.tcp_nodelay;
	shared = options_share(&opt);
	if (!shared)
		return false;
	sock_options_use(so, shared);
	sock_access_init(so);
	if (!tcp && !opt.mc_loop)
		sys_setsockopt(sock_twin(&so->sk), IPPROTO_IP, IP_MULTICAST_LOOP, &zero,
			       sizeof(zero));
	if (opt.nodelay)
		sys_setsockopt(sock_twin(&so->sk), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return true;
}

/* ---- reading ------------------------------------------------------------------------------ */

static int give(void *val, socklen_t *len, const void *from, socklen_t size)
{
	if (*len > size)
		*len = size;
	memcpy(val, from, *len);
	return 0;
}

static int get_tcp(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	union tcp_answer answer;
	struct ring *ring;
	socklen_t size;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	memset(&answer, 0, sizeof(answer));
	size = tcp_answer(inet_of(ref.sk), ring, level, name, &answer);
	ring_release_cold(ring);
	return size ? give(val, len, &answer, size) : SOCK_KERNEL;
}

int sock_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	if (!tcp_may_know(level, name) || !val || !len || ref.sk->kind != SOCK_KIND_TCP)
		return SOCK_KERNEL;
	return get_tcp(ref, level, name, val, len);
}

int sock_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct endpoint local;
	struct ring *ring;
	bool ours;
	int rc;

	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	ours = so->inet == INET_TCP && so->connected;
	local = so->local;
	ring_release_cold(ring);
	if (!ours)
		return SOCK_KERNEL;
	endpoint_to_sockaddr(&local, AF_INET, addr, len);
	return 0;
}
