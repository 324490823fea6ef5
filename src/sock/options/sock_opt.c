/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket options.  The twin takes every option first: its checks and errors are
 * the kernel's.  Then what acts on our frames is mirrored; what only the kernel
 * can serve sends the socket back to it before data flows (option_list.h).
 */
#include <linux/net_tstamp.h>
#include <linux/tcp.h>
#include <netinet/udp.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "base/user.h"
#include "sock/core/access.h"
#include "sock/options/opt_mirror.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/udp/mcast.h"

/* As option_list.h explains them. */
enum care {
	CARE_KERNEL, /* 0: what is not listed */
	CARE_DONE,
	CARE_GROUP,
	CARE_READ,
	CARE_REFUSED,
	CARE_TWIN,
} __attribute__((packed));

enum level { LEVEL_SOCKET, LEVEL_IP, LEVEL_TCP, LEVEL_UDP, LEVELS };
#define OPTION_NUMBERS 128

static const struct {
	enum care udp, tcp;
} cares[LEVELS][OPTION_NUMBERS] = {
#define OPTION(level, name, number, udp, tcp, remark) \
	[LEVEL_##level][number] = {CARE_##udp, CARE_##tcp},
#include "sock/options/option_list.h"
#undef OPTION
};

static enum level level_of(int level)
{
	switch (level) {
	case SOL_SOCKET:
		return LEVEL_SOCKET;
	case IPPROTO_IP:
		return LEVEL_IP;
	case IPPROTO_TCP:
		return LEVEL_TCP;
	case IPPROTO_UDP:
		return LEVEL_UDP;
	default:
		return LEVELS;
	}
}

static enum care care_of(const struct inet_sock *so, int level, int name)
{
	enum level l = level_of(level);
	enum care care;

	if (l == LEVELS || name < 0 || name >= OPTION_NUMBERS)
		return udp_lingers(so) ? CARE_TWIN : CARE_KERNEL;
	care = so->inet == INET_UDP ? cares[l][name].udp : cares[l][name].tcp;
	/* What can be read may need it; all the rest is the kernel's already. */
	return udp_lingers(so) && care != CARE_DONE ? CARE_TWIN : care;
}

/* As sock_options_apply(); quickack: TCP_QUICKACK was set, which acts each time. */
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

int sock_options_apply(struct sock_ref ref, const struct sock_options *values)
{
	control_assert_held();
	return apply(ref, values, false);
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
	const struct accept_options *accept_options = accept_options_look(sock_twin(&so->sk));
	int rc;

	control_assert_held();
	opt.accept_options = accept_options;
	rc = apply(sock_ref_of(so), &opt, false);
	accept_options_put(accept_options);
	return rc;
}

/* ---- setting (control lock) ----------------------------------------------------------------- */

/* After bind(2): who binds later may have a part. */
static void share_later(struct inet_sock *so, int name)
{
	if (so->inet != INET_UDP || !so->attached || so->verdict != VERDICT_ACCELERATED ||
	    !(name == SO_REUSEPORT ? so->opt->reuseport : so->opt->reuseaddr))
		return;
	sock_port_claim(so);
	sock_flows_share(so);
}

/* What the flows of a bound socket depend on. */
static void follow_option(struct inet_sock *so, int level, int name)
{
	if (udp_lingers(so))
		return;
	if (level == SOL_SOCKET && (name == SO_REUSEADDR || name == SO_REUSEPORT))
		share_later(so, name);
	else if (level == SOL_SOCKET && (name == SO_BINDTODEVICE || name == SO_BINDTOIFINDEX))
		sock_device_changed(so);
	else if (level == IPPROTO_IP && name == IP_MULTICAST_ALL)
		mcast_all_changed(so);
}

static int set_mirrored(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_options opt = *so->opt;
	int rc = sys_setsockopt(sock_twin(ref.sk), level, name, val, len);

	if (rc)
		return rc;
	if (level == SOL_SOCKET)
		opt_mirror_socket(so, name, &opt);
	else if (level == IPPROTO_IP)
		opt_mirror_ip(so, name, val, len, &opt);
	else if (level == IPPROTO_UDP)
		opt_mirror_udp(so, name, &opt);
	else
		tcp_mirror(so, name, val, &opt);
	rc = apply(ref, &opt, level == IPPROTO_TCP && name == TCP_QUICKACK);
	if (!rc)
		follow_option(so, level, name);
	return rc;
}

/* Is that what the twin has already?  Then nothing changes. */
static bool twin_has(const struct inet_sock *so, int level, int name, const void *val,
		     socklen_t len)
{
	int wanted, is;
	socklen_t size = sizeof(is);

	return len == sizeof(wanted) && !user_read(&wanted, val, sizeof(wanted)) &&
	       !sys_getsockopt(sock_twin(&so->sk), level, name, &is, &size) && size == sizeof(is) &&
	       is == wanted;
}

/* What the kernel says of the option on such a socket, which has nothing to lose. */
static int try_elsewhere(const struct inet_sock *so, int level, int name, const void *val,
			 socklen_t len)
{
	int fd = sys_socket(AF_INET, so->inet == INET_UDP ? SOCK_DGRAM : SOCK_STREAM, 0), rc;

	if (fd < 0)
		return fd;
	rc = sys_setsockopt(fd, level, name, val, len);
	sys_close(fd);
	return rc;
}

/* The kernel knows nothing of connections of ours, those that wait for accept() included. */
static bool may_leave(const struct inet_sock *so)
{
	if (so->inet == INET_LISTEN)
		return !__atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED);
	return so->inet == INET_UDP || !so->connected;
}

/*
 * Only the kernel can do it: before data flows the socket goes there.  A value that the
 * kernel would not take, or that changes nothing, is no reason to.
 */
static int set_by_kernel(struct inet_sock *so, int level, int name, const void *val, socklen_t len)
{
	bool possible = may_leave(so);
	int rc;

	if (twin_has(so, level, name, val, len))
		return sys_setsockopt(sock_twin(&so->sk), level, name, val, len);
	rc = try_elsewhere(so, level, name, val, len);
	if (rc && !possible)
		return rc;
	if (!rc && !verdict_unsupported(sock_twin(&so->sk), possible, "option %d of level %d", name,
					level))
		return -ENOPROTOOPT;
	/* The twin may know better: it is bound, or has been set up. */
	rc = sys_setsockopt(sock_twin(&so->sk), level, name, val, len);
	if (rc)
		return rc;
	rc = sock_leave(so, VERDICT_OPTION);
	/* A program chooses among all sockets of the port: now, the others leave, too. */
	if (level == SOL_SOCKET &&
	    (name == SO_ATTACH_REUSEPORT_CBPF || name == SO_ATTACH_REUSEPORT_EBPF))
		sock_ports_follow();
	return rc;
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

	if ((int)len < 1)
		return -EINVAL;
	if (user_read(name, val, len < sizeof(name) ? len : sizeof(name) - 1))
		return -EFAULT;
	number = tcp_cc_number_of(name);
	if (number < 0)
		return set_by_kernel(inet_of(ref.sk), IPPROTO_TCP, TCP_CONGESTION, val, len);
	opt.cc_algo = (uint8_t)number;
	return apply(ref, &opt, false);
}

/* SO_TIMESTAMPING of what is sent, or by the card. */
static bool stamps_more(const void *val, socklen_t len)
{
	const unsigned ours = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
	unsigned flags;

	return len >= sizeof(flags) && !user_read(&flags, val, sizeof(flags)) && (flags & ~ours);
}

/* SO_PEEK_OFF of a connection; the twin has only the value to begin with. */
static int set_peek_offset(struct sock_ref ref, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	int rc = sys_setsockopt(sock_twin(ref.sk), SOL_SOCKET, SO_PEEK_OFF, val, len);
	struct ring *ring;

	if (!rc)
		rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	rc = tcp_set_peek_offset(&so->tcp.conn, sock_twin_int(so, SOL_SOCKET, SO_PEEK_OFF, -1));
	ring_release_cold(ring);
	return rc;
}

static int set_option(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	int rc;

	if (level == SOL_SOCKET && name == SO_VMA_RING_ALLOC_LOGIC)
		return set_ring_alloc(so, val, len);
	if (level == IPPROTO_TCP && name == TCP_CONGESTION && so->inet != INET_UDP)
		return set_congestion(ref, val, len);
	if (level == SOL_SOCKET && name == SO_PEEK_OFF && so->inet == INET_TCP && so->connected)
		return set_peek_offset(ref, val, len);
	if (level == SOL_SOCKET && name == SO_TIMESTAMPING && stamps_more(val, len))
		return set_by_kernel(so, level, name, val, len);
	rc = level == IPPROTO_TCP ? tcp_may_set(ref, name, val, len) : 0;
	if (rc)
		return rc;
	switch (care_of(so, level, name)) {
	case CARE_DONE:
		return set_mirrored(ref, level, name, val, len);
	case CARE_GROUP:
		return mcast_setsockopt(so, name, val, len);
	case CARE_READ:
	case CARE_REFUSED:
	case CARE_TWIN:
		return sys_setsockopt(sock_twin(ref.sk), level, name, val, len);
	case CARE_KERNEL:
	default:
		return set_by_kernel(so, level, name, val, len);
	}
}

int sock_setsockopt(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	int rc = -EBADF;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref)) {
		sock_twin_prepare(so);
		rc = set_option(ref, level, name, val, len);
		if (!rc && so->inet == INET_LISTEN && sock_ref_valid(ref))
			rc = sock_options_for_children(so);
	}
	control_unlock();
	if (!rc && level == IPPROTO_UDP && name == UDP_CORK)
		udp_uncork(ref);
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
	opt.mc_all = true;
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
	socklen_t n;

	if (user_read(&n, len, sizeof(n)))
		return -EFAULT;
	if ((int)n < 0)
		return -EINVAL;
	if (n > size)
		n = size;
	if (user_write(val, from, n) || user_write(len, &n, sizeof(n)))
		return -EFAULT;
	return 0;
}

static void prepare_twin(struct sock_ref ref)
{
	if (!control_lock())
		return;
	if (sock_ref_valid(ref))
		sock_twin_prepare(inet_of(ref.sk));
	control_unlock();
}

/* Lengths that the kernel does not take, beside negative ones. */
static bool bad_length(int level, int name, socklen_t *len)
{
	socklen_t n;

	if (user_read(&n, len, sizeof(n)) || (int)n < 0)
		return false; /* give() will tell */
	if (level == SOL_SOCKET && name == SO_PEERNAME)
		return n > sizeof(struct sockaddr_in);
	return level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE &&
	       n < offsetof(struct tcp_zerocopy_receive, recv_skip_hint);
}

static int get_tcp(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	union tcp_answer answer;
	struct ring *ring;
	int size, rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	memset(&answer, 0, sizeof(answer));
	size = tcp_answer(inet_of(ref.sk), ring, level, name, &answer);
	ring_release_cold(ring);
	if (size == TCP_TWIN_KNOWS)
		return SOCK_KERNEL;
	if (bad_length(level, name, len))
		return -EINVAL;
	rc = give(val, len, &answer, size < 0 ? sizeof(answer) : (socklen_t)size);
	return rc || size >= 0 ? rc : size;
}

int sock_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	int rc = SOCK_KERNEL;

	if (ref.sk->kind != SOCK_KIND_TCP)
		return SOCK_KERNEL;
	if (tcp_may_know(level, name))
		rc = get_tcp(ref, level, name, val, len);
	if (rc == SOCK_KERNEL && __atomic_load_n(&inet_of(ref.sk)->raw_twin, __ATOMIC_RELAXED))
		prepare_twin(ref);
	return rc;
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
	/* An address that connect() chose goes with the connection, but the twin keeps it. */
	ours = (so->inet == INET_TCP && (so->connected || (so->bound && !so->bound_addr))) ||
	       sock_is_exported(ref.sk);
	local = so->local;
	ring_release_cold(ring);
	if (!ours)
		return SOCK_KERNEL;
	endpoint_to_sockaddr(&local, AF_INET, addr, len);
	return 0;
}
