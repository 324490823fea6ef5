/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of a socket as a whole: defaults, changes, and the accept options of listeners. */
#include "sock/core/sock_options.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>

#include "base/param.h"
#include "base/sys.h"
#include "ring/capture.h"
#include "ring/stamps.h"
#include "sock/core/access.h"
#include "sock/core/extra/filter.h"
#include "sock/core/kind.h"

int sock_twin_int(const struct inet_sock *so, int level, int name, int otherwise)
{
	int val = otherwise;
	socklen_t len = sizeof(val);

	control_assert_held();
	return sys_getsockopt(sock_twin(&so->sk), level, name, &val, &len) ? otherwise : val;
}

int sock_twin_device(const struct inet_sock *so)
{
	control_assert_held();
	return sock_twin_int(so, SOL_SOCKET, SO_BINDTOIFINDEX, 0);
}

void sock_options_use(struct inet_sock *so, const struct sock_options *opt)
{
	options_put(so->opt);
	so->opt = opt;
	sock_options_note(so);
}

void sock_options_note(struct inet_sock *so)
{
	const struct sock_options *opt = so->opt;
	bool stream = so->inet == INET_TCP, hides = sock_filter_state(so) == TCP_FILTER_HIDES;
	bool filtered = stream ? so->tcp.filter != TCP_FILTER_NONE
			       : so->inet == INET_UDP && so->udp.filter;

	/* Calls read these with and without the ring held. */
	__atomic_store_n(&so->rcvlowat, hides ? SOCK_HIDDEN : opt->rcvlowat, __ATOMIC_RELAXED);
	__atomic_store_n(&so->told, opt->told || params.stats_latency || (stream && filtered),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&so->noted,
			 filtered || (opt->told & TOLD_ARRIVAL) || params.stats_latency ||
				 (so->inet == INET_UDP && ring_capture_runs()),
			 __ATOMIC_RELAXED);
}

/*
 * Control lock: net.ipv4.ip_default_ttl and net.ipv6.conf.all.hop_limit, read from a new twin at
 * most once a second, because they hardly ever change.
 */
struct ttls {
	uint8_t ipv4, ipv6; /* ipv6: of AF_INET6 sockets */
	bool no_label;	    /* net.ipv6.auto_flowlabels */
	bool ipv4_set, ipv6_set;
};

static struct ttls twin_ttls(const struct inet_sock *so)
{
	struct ttls ttls = {.ipv4 = (uint8_t)sock_twin_int(so, IPPROTO_IP, IP_TTL, IPDEFTTL)};

	if (so->family == AF_INET6) {
		ttls.ipv6 = (uint8_t)sock_twin_int(so, IPPROTO_IPV6, IPV6_UNICAST_HOPS, IPDEFTTL);
		ttls.no_label = !sock_twin_int(so, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 1);
	}
	return ttls;
}

static struct ttls default_ttls(const struct inet_sock *so)
{
	static struct ttls ttls; /* control lock */
	static nsec_t looked;	 /* control lock */
	nsec_t now = clock_now();
	bool known = so->family == AF_INET6 ? ttls.ipv6 : ttls.ipv4;

	if (!known || now - looked > NSEC_PER_SEC) {
		ttls = twin_ttls(so);
		looked = now;
	}
	return ttls;
}

static bool init(struct inet_sock *so, const struct sock_kind *kind, struct ttls ttls)
{
	struct sock_options opt;
	const struct sock_options *shared;

	memset(&opt, 0, sizeof(opt));
	opt.ttl = ttls.ipv4;
	opt.hops6 = ttls.ipv6;
	opt.ttl_set = ttls.ipv4_set;
	opt.hops6_set = ttls.ipv6_set;
	opt.no_label6 = ttls.no_label;
	opt.mc_ttl = opt.mc_hops6 = 1;
	opt.pmtudisc = IP_PMTUDISC_WANT;
	opt.pmtudisc6 = IPV6_PMTUDISC_WANT;
	opt.mc_loop = params.tx_mc_loopback;
	opt.mc_all = so->family == AF_INET; /* as new sockets of the kernel have it */
	opt.mc_all6 = true;
	opt.alloc_rx.logic = (uint16_t)params.ring_logic_rx;
	opt.alloc_tx.logic = (uint16_t)params.ring_logic_tx;
	opt.mc_addr = addr_v4_any();
	opt.rcvlowat = 1;
	opt.cc_algo = (uint8_t)params.tcp_cc_algo;
	kind->default_options(so, &opt);
	shared = options_share(&opt);
	if (!shared)
		return false;
	sock_options_use(so, shared);
	sock_access_init(so);
	return true;
}

bool sock_options_init_new(struct inet_sock *so, const struct sock_kind *kind)
{
	control_assert_held();
	return init(so, kind, default_ttls(so));
}

/* A twin that somebody else made does not tell whether its TTL was set: what differs was. */
static struct ttls used_ttls(const struct inet_sock *so)
{
	struct ttls ttls = twin_ttls(so);

	ttls.ipv4_set = ttls.ipv4 != IPDEFTTL &&
			ttls.ipv4 != sys_read_number("/proc/sys/net/ipv4/ip_default_ttl", IPDEFTTL);
	ttls.ipv6_set = ttls.ipv6 && ttls.ipv6 != IPDEFTTL;
	return ttls;
}

bool sock_options_init(struct inet_sock *so, const struct sock_kind *kind)
{
	control_assert_held();
	return init(so, kind, used_ttls(so));
}

int sock_options_hold(struct sock_ref ref, const struct sock_options *values, struct ring **ring)
{
	const struct sock_options *opt = options_share(values);
	int rc;

	control_assert_held();
	if (!opt)
		return -ENOMEM;
	if (opt->told & TOLD_TIMES)
		rings_stamp();
	rc = sock_hold_cold(ref, ring);
	if (rc) {
		options_put(opt);
		return rc;
	}
	sock_options_use(inet_of(ref.sk), opt);
	return 0;
}

int sock_options_apply(struct sock_ref ref, const struct sock_options *values, bool quickack)
{
	struct inet_sock *so = inet_of(ref.sk);
	const struct sock_kind *kind = sock_kind_of(so);
	struct ring *ring;
	int rc = sock_options_hold(ref, values, &ring);

	control_assert_held();
	if (rc)
		return rc;
	if (kind->options_changed)
		kind->options_changed(so, quickack);
	ring_release_cold(ring);
	if (kind->options_applied)
		kind->options_applied(so);
	return 0;
}

/* ---- what accepted connections inherit ---------------------------------------------------- */

void sock_twin_prepare(struct inet_sock *so)
{
	control_assert_held();
	if (!so->raw_twin)
		return;
	accept_options_apply(so->opt->accept_options, sock_twin(&so->sk));
	__atomic_store_n(&so->raw_twin, false, __ATOMIC_RELAXED);
}

int sock_options_for_children(struct inet_sock *so)
{
	struct sock_options opt = *so->opt;
	const struct accept_options *accept_options =
		accept_options_look(sock_twin(&so->sk), so->family);
	int rc;

	control_assert_held();
	opt.accept_options = accept_options;
	rc = sock_options_apply(sock_ref_of(so), &opt, false);
	accept_options_put(accept_options);
	return rc;
}
