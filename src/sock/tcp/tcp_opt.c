/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of TCP sockets. Values set are taken from the twin, which checks them; values of an
 * accelerated connection that the twin does not know are answered here.
 */
#include <linux/tcp.h>
#include <limits.h>
#include <mellanox/vma_extra.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "base/user.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"
#include "sock/options/opt_mirror.h"
#include "sock/options/sock_opt.h"
#include "sock/tcp/tcp_sock.h"

#define TIMESTAMPS_LEN 12 /* with padding */

#ifndef IP_PROTOCOL
#define IP_PROTOCOL 52 /* linux/in.h, since 6.4 */
#endif

union tcp_answer {
	int n;
	char name[16];
	struct tcp_info info;
	struct sock_addr peer;
	struct ip6_mtuinfo path;
	struct tcp_zerocopy_receive zerocopy;
};

/*
 * holder: an answer_*() returns the size of the answer, -errno, or this if only the twin knows
 * it.
 */
#define TWIN_KNOWS INT32_MIN

/* ---- the kernel's defaults ---------------------------------------------------------- */

#define SETTING "/proc/sys/net/ipv4/tcp_"

/* net.ipv4.tcp_NAME, from least to most; `otherwise` if this kernel does not have it. */
static int setting(const char *name, int otherwise, int least, int most)
{
	char path[64];
	int n;

	snprintf(path, sizeof(path), SETTING "%s", name);
	n = sys_read_number(path, otherwise);
	return n < least ? least : n > most ? most : n;
}

/* The third number of "minimum, initial, maximum". */
static uint32_t read_maximum(const char *path, int otherwise)
{
	int n = sys_read_nth_number(path, 2, otherwise);

	return (uint32_t)(n > 4096 ? n : 4096);
}

/* Those of the engine. */
static void read_settings(struct tcp_settings *s)
{
	s->orphan_retries = (uint8_t)setting("orphan_retries", 0, 0, UINT8_MAX);
	s->retries2 = (uint8_t)setting("retries2", s->retries2, 0, UINT8_MAX);
	s->syn_retries = (uint8_t)setting("syn_retries", s->syn_retries, 1, 127);
	s->syn_ack_retries = (uint8_t)setting("synack_retries", s->syn_ack_retries, 0, 127);
	s->syn_linear = (uint8_t)setting("syn_linear_timeouts", 0, 0, 127);
	s->sack = setting("sack", 1, 0, 1);
	s->window_scaling = setting("window_scaling", 1, 0, 1);
	s->restart_after_idle = setting("slow_start_after_idle", 1, 0, 1);
	s->min_rto = setting("rto_min_us", RTT_MIN_RTO / NSEC_PER_USEC,
			     RTT_LEAST_MIN_RTO / NSEC_PER_USEC, RTT_MAX_RTO / NSEC_PER_USEC) *
		     NSEC_PER_USEC;
}

/*
 * All at the first socket, by the thread that makes it: a file that another thread opens has a number
 * that the program could see.
 */
static void read_kernel(struct tcp_kernel *k)
{
	read_settings(&tcp_settings);
	k->rmem_max = read_maximum(SETTING "rmem", 6 << 20);
	k->wmem_max = read_maximum(SETTING "wmem", 4 << 20);
	k->timestamps = setting("timestamps", 1, 0, 1);
	k->ecn = (uint8_t)setting("ecn", TCP_ECN_ANSWER, TCP_ECN_NONE, TCP_ECN_ANSWER);
	k->notsent_lowat =
		(uint32_t)setting("notsent_lowat", 0, 0, INT_MAX); /* 2^32 - 1: no limit */
	k->timewaits_max = (uint32_t)setting("max_tw_buckets", 65536, 0, INT_MAX);
	k->fin_timeout = (int16_t)setting("fin_timeout", 60, 0, INT16_MAX);
	k->keepalive.idle = (uint16_t)setting("keepalive_time", 7200, 1, UINT16_MAX);
	k->keepalive.interval = (uint16_t)setting("keepalive_intvl", 75, 1, UINT16_MAX);
	k->keepalive.probes = (uint8_t)setting("keepalive_probes", 9, 0, UINT8_MAX);
	tcp_orphans_max = (unsigned)setting("max_orphans", 65536, 1, INT_MAX);
}

const struct tcp_kernel *tcp_kernel(void)
{
	static struct tcp_kernel kernel; /* any; written once under the mutex */
	static int ready;

	/* Pairs with the store below: the settings were read. */
	if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) {
		static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;

		mutex_lock(&once);
		if (!ready)
			read_kernel(&kernel);
		/* Pairs with the load above. */
		__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
		mutex_unlock(&once);
	}
	return &kernel;
}

/* ---- setting (control lock) --------------------------------------------------------- */

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

/* Values that the twin would accept, because it is not connected, and the kernel would refuse. */
static bool twin_would_accept(int name, const void *val, socklen_t len)
{
	int value;

	if (len < sizeof(value) || user_read(&value, val, sizeof(value)))
		return false; /* the twin reports the error */
	switch (name) {
	case TCP_WINDOW_CLAMP:
		return value == 0;
	case TCP_FASTOPEN:
		return true;
	case TCP_FASTOPEN_CONNECT:
		return value == 0 || value == 1;
	default:
		return false;
	}
}

static int check_set(struct sock_ref ref, int name, const void *val, socklen_t len)
{
	const struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc;

	control_assert_held();
	if (!twin_would_accept(name, val, len))
		return 0;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	if (sock_life_is(so, LIFE_LOCAL) || (sock_has_connection(so) && !sock_has_ended(so)))
		rc = -EINVAL;
	ring_release_cold(ring);
	return rc;
}

/* Number of SYN-ACKs, repeated at doubling intervals, that take that many seconds. */
static unsigned syn_acks_in(int seconds)
{
	unsigned n = 0;

	for (int interval = 1, passed = 0; passed < seconds && n < UINT8_MAX; n++) {
		passed += interval;
		interval = interval > 60 ? 120 : 2 * interval;
	}
	return n;
}

void tcp_mirror(struct inet_sock *so, int name, const void *val, struct sock_options *opt)
{
	control_assert_held();
	switch (name) {
	case TCP_NODELAY:
		opt->nodelay = sock_twin_int(so, IPPROTO_TCP, name, 0) != 0;
		break;
	case TCP_CORK:
		opt->cork = sock_twin_int(so, IPPROTO_TCP, name, 0) != 0;
		break;
	case TCP_INQ:
		opt_mirror_told(so, opt);
		break;
	case TCP_QUICKACK:
		opt->quickack = *(const int *)val != 0;
		break;
	case TCP_DEFER_ACCEPT:
		opt->defer_accept = syn_acks_in(sock_twin_int(so, IPPROTO_TCP, name, 0));
		break;
	case TCP_SYNCNT:
		opt->syncnt = (uint8_t)sock_twin_int(so, IPPROTO_TCP, name, 0);
		break;
	case TCP_USER_TIMEOUT:
		opt->user_timeout = sock_twin_int(so, IPPROTO_TCP, name, 0) * NSEC_PER_MSEC;
		break;
	case TCP_KEEPIDLE:
		opt->keepalive.idle = (uint16_t)sock_twin_int(so, IPPROTO_TCP, name, 7200);
		break;
	case TCP_KEEPINTVL:
		opt->keepalive.interval = (uint16_t)sock_twin_int(so, IPPROTO_TCP, name, 75);
		break;
	case TCP_LINGER2: /* for 0 the twin returns the system's default */
		opt->linger2 = (int16_t)sock_twin_int(so, IPPROTO_TCP, name, 60);
		break;
	case TCP_MAXSEG: /* a closed twin does not always return what was set */
		opt->maxseg = (uint16_t)min_int(*(const int *)val, UINT16_MAX);
		break;
	case TCP_NOTSENT_LOWAT:
		opt->notsent_lowat = (uint32_t)sock_twin_int(so, IPPROTO_TCP, name, 0);
		break;
	case TCP_WINDOW_CLAMP:
		opt->window_clamp = (uint32_t)sock_twin_int(so, IPPROTO_TCP, name, 0);
		break;
	case TCP_KEEPCNT:
		opt->keepalive.probes = (uint8_t)sock_twin_int(so, IPPROTO_TCP, name, 9);
		break;
	}
}

/* The options of the socket have it already; a connection may have had another one from its route. */
static int switch_congestion(struct sock_ref ref, int number)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	if (sock_has_connection(so))
		tcp_set_congestion(&so->tcp.conn, number);
	ring_release_cold(ring);
	return 0;
}

/* 0; -EPERM: the route of the connection has chosen the algorithm, and says "lock". */
static int may_set_congestion(struct sock_ref ref)
{
	const struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	if (sock_has_connection(so) && tcp_congestion_is_locked(&so->tcp.conn))
		rc = -EPERM;
	ring_release_cold(ring);
	return rc;
}

/* TCP_CONGESTION: the twin's algorithm has no effect on the connection. */
static int set_congestion(struct sock_ref ref, const void *val, socklen_t len)
{
	struct sock_options opt = *inet_of(ref.sk)->opt;
	char name[16] = "";
	int number, rc;

	if ((int)len < 1)
		return -EINVAL;
	if (user_read(name, val, len < sizeof(name) ? len : sizeof(name) - 1))
		return -EFAULT;
	rc = may_set_congestion(ref);
	if (rc)
		return rc;
	number = tcp_cc_number_of(name);
	if (number < 0)
		return sock_option_to_kernel(inet_of(ref.sk), IPPROTO_TCP, TCP_CONGESTION, val,
					     len);
	opt.cc_algo = (uint8_t)number;
	rc = sock_options_apply(ref, &opt, false);
	return rc ? rc : switch_congestion(ref, number);
}

/* SO_PEEK_OFF of a connection. The twin only has the initial value. */
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

int tcp_set_option(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	const struct inet_sock *so = inet_of(ref.sk);
	int rc = 0, value;

	control_assert_held();
	if (level == IPPROTO_TCP && name == TCP_CONGESTION)
		return set_congestion(ref, val, len);
	if (level == SOL_SOCKET && name == SO_VMA_SHUTDOWN_RX) {
		/* Nothing could be sent without acknowledgements. */
		log_warn_once("SO_VMA_SHUTDOWN_RX is for datagram sockets; it fails with "
			      "EOPNOTSUPP");
		return -EOPNOTSUPP;
	}
	if (level == SOL_SOCKET && name == SO_PEEK_OFF && sock_has_connection(so))
		return set_peek_offset(ref, val, len);
	if (level == IPPROTO_TCP)
		rc = check_set(ref, name, val, len);
	if (so->family == AF_INET6 && level == IPPROTO_IPV6 && name == IPV6_V6ONLY &&
	    sock_is_connection(so) && (!val || !user_read(&value, val, sizeof(value))))
		rc = -EINVAL; /* as for a socket that has a port, which the twin may not */
	return rc ? rc : SOCK_KERNEL;
}

uint32_t tcp_buffer_size(const struct inet_sock *so, bool receive)
{
	struct tcp_config config = tcp_config_for(so->opt, dst_mtu(&so->tcp.dst), &so->remote.addr);
	const struct tcp_conn *conn = &so->tcp.conn;

	if (!sock_has_connection(so))
		return 2 * (receive ? config.rcvbuf : config.sndbuf);
	return 2 * __atomic_load_n(receive ? &conn->rcvbuf : &conn->sndbuf, __ATOMIC_RELAXED);
}

/* ---- reading (holder) --------------------------------------------------------------- */

/* Until the peer has sent its MSS, the size that every host accepts counts. */
static int maxseg_at_first(const struct inet_sock *so)
{
	struct tcp_config config = tcp_config_for(so->opt, dst_mtu(&so->tcp.dst), &so->remote.addr);

	int least = config.ip6 ? TCP_MSS_DEFAULT_V6 : TCP_MSS_DEFAULT_V4; /* RFC 9293 3.7.1 */

	return min_int(config.mss, least) - (config.timestamps ? TIMESTAMPS_LEN : 0);
}

static int maxseg(const struct inet_sock *so)
{
	if (sock_is_connecting(so))
		return maxseg_at_first(so);
	if (sock_has_ended(so) && so->opt->maxseg)
		return so->opt->maxseg;
	return (int)tcp_maxseg(&so->tcp.conn);
}

/* Options of a connection. The twin of an accepted one does not have their values. */
static bool answer_tcp(const struct inet_sock *so, int name, int *n)
{
	const struct sock_options *opt = so->opt;

	switch (name) {
	case TCP_KEEPCNT:
		*n = opt->keepalive.probes;
		return true;
	case TCP_KEEPIDLE:
		*n = opt->keepalive.idle;
		return true;
	case TCP_KEEPINTVL:
		*n = opt->keepalive.interval;
		return true;
	case TCP_LINGER2:
		*n = opt->linger2;
		return true;
	case TCP_MAXSEG:
		*n = maxseg(so);
		return true;
	case TCP_NOTSENT_LOWAT:
		*n = (int)opt->notsent_lowat;
		return true;
	case TCP_USER_TIMEOUT:
		*n = (int)(opt->user_timeout / NSEC_PER_MSEC);
		return true;
	case TCP_WINDOW_CLAMP:
		*n = (int)(opt->window_clamp ? opt->window_clamp : tcp_window_max(&so->tcp.conn));
		return true;
	default:
		return false;
	}
}

static bool may_answer(int level, int name)
{
	switch (level) {
	case SOL_SOCKET:
		return name == SO_ERROR || name == SO_PEERNAME || name == SO_RCVBUF ||
		       name == SO_SNDBUF || name == SO_PEEK_OFF;
	case IPPROTO_IP:
		return name == IP_MTU || name == IP_PROTOCOL;
	case IPPROTO_IPV6:
		return name == IPV6_MTU || name == IPV6_PATHMTU || name == IPV6_ADDRFORM ||
		       name == IPV6_V6ONLY;
	case IPPROTO_TCP:
		return name != TCP_NODELAY && name != TCP_CORK;
	default:
		return false;
	}
}

/* Current buffer sizes: like the kernel, twice the bytes of data. */
static int answer_socket(struct inet_sock *so, int name, union tcp_answer *answer)
{
	const struct tcp_conn *conn = &so->tcp.conn;
	struct endpoint peer;

	switch (name) {
	case SO_PEEK_OFF:
		answer->n = tcp_peek_offset(conn);
		return answer->n < 0 ? TWIN_KNOWS : (int)sizeof(answer->n);
	case SO_PEERNAME:
		peer = sock_addr_shown(so, &so->remote);
		answer->peer = sock_addr_of(so, &peer);
		return (int)answer->peer.len;
	case SO_RCVBUF:
		answer->n = (int)(so->opt->rcvbuf_set ? so->opt->rcvbuf : 2 * conn->rcvbuf);
		return sizeof(answer->n);
	case SO_SNDBUF:
		answer->n = (int)(so->opt->sndbuf_set ? so->opt->sndbuf : 2 * conn->sndbuf);
		return sizeof(answer->n);
	default:
		return TWIN_KNOWS;
	}
}

static int answer_ip(const struct inet_sock *so, int name, union tcp_answer *answer)
{
	if (name == IP_MTU)
		answer->n = (int)dst_mtu(&so->tcp.dst);
	else if (name == IP_PROTOCOL) /* the kernel returns the port */
		answer->n = ntohs(so->local.port);
	else
		return TWIN_KNOWS;
	return sizeof(answer->n);
}

static int answer_ipv6(const struct inet_sock *so, int name, union tcp_answer *answer)
{
	if (so->family != AF_INET6)
		return TWIN_KNOWS;
	if (name == IPV6_V6ONLY && !so->unbound_v6only)
		return TWIN_KNOWS;
	if (name == IPV6_V6ONLY) {
		answer->n = 0;
		return sizeof(answer->n);
	}
	if (name == IPV6_ADDRFORM && so->tcp.conn.state != TCP_ESTABLISHED)
		return TWIN_KNOWS;
	if (name == IPV6_ADDRFORM) {
		answer->n = so->family;
		return sizeof(answer->n);
	}
	if (name == IPV6_MTU) {
		answer->n = (int)dst_mtu(&so->tcp.dst);
		return sizeof(answer->n);
	}
	answer->path.ip6m_mtu = dst_mtu(&so->tcp.dst);
	return sizeof(answer->path);
}

static int answer_listener(const struct inet_sock *so, int level, int name,
			   union tcp_answer *answer)
{
	if (level != IPPROTO_TCP || name != TCP_INFO)
		return TWIN_KNOWS;
	answer->info.tcpi_state = 10; /* LISTEN; queue length, backlog */
	answer->info.tcpi_unacked = __atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED);
	answer->info.tcpi_sacked = so->listen.backlog;
	return sizeof(answer->info);
}

/* Maps nothing: all data must be read, as the kernel answers for less than a page. */
static int answer_zerocopy(const struct inet_sock *so, struct tcp_zerocopy_receive *zc)
{
	size_t n = tcp_filter_readable(so);

	if (!n && (sock_own_events(so) & EPOLLRDHUP))
		return -EIO;
	zc->recv_skip_hint = zc->inq = (uint32_t)n;
	return sizeof(*zc);
}

static int answer_connection(struct inet_sock *so, int level, int name, union tcp_answer *answer)
{
	switch (level) {
	case SOL_SOCKET:
		return answer_socket(so, name, answer);
	case IPPROTO_IP:
		return answer_ip(so, name, answer);
	case IPPROTO_IPV6:
		return answer_ipv6(so, name, answer);
	default:
		break;
	}
	if (name == TCP_INFO) {
		tcp_get_info(&so->tcp.conn, &answer->info, clock_now());
		return sizeof(answer->info);
	}
	if (name == TCP_ZEROCOPY_RECEIVE)
		return answer_zerocopy(so, &answer->zerocopy);
	if (name == TCP_CC_INFO) /* reno and cubic have none */
		return 0;
	return answer_tcp(so, name, &answer->n) ? (int)sizeof(answer->n) : TWIN_KNOWS;
}

static int answer_any(struct inet_sock *so, struct ring *ring, int level, int name,
		      union tcp_answer *answer)
{
	if (level == IPPROTO_TCP && name == TCP_CONGESTION) {
		strcpy(answer->name, sock_has_connection(so)
					     ? tcp_congestion(&so->tcp.conn)
					     : tcp_cc_by_number(so->opt->cc_algo)->name);
		return sizeof(answer->name);
	}
	if (so->inet == INET_LOCAL)
		return TWIN_KNOWS;
	if (so->inet != INET_TCP)
		return answer_listener(so, level, name, answer);
	if (level == SOL_SOCKET && name == SO_ERROR) {
		ring_poll(ring);
		answer->n = sock_take_error(so);
		return sizeof(answer->n);
	}
	return sock_has_connection(so) ? answer_connection(so, level, name, answer) : TWIN_KNOWS;
}

static int store_answer(int level, void *val, socklen_t *len, const void *from, socklen_t size)
{
	socklen_t n;

	if (user_read(&n, len, sizeof(n)))
		return -EFAULT;
	if ((int)n < 0 && level != IPPROTO_IPV6) /* where it is unsigned */
		return -EINVAL;
	if (n > size)
		n = size;
	if (user_write(val, from, n) || user_write(len, &n, sizeof(n)))
		return -EFAULT;
	return 0;
}

/* Positive lengths that the kernel refuses. */
static bool bad_length(int level, int name, socklen_t *len, socklen_t size)
{
	socklen_t n;

	if (user_read(&n, len, sizeof(n)))
		return false;
	if ((int)n < 0 && level != IPPROTO_IPV6)
		return false; /* store_answer() reports it */
	if (level == SOL_SOCKET && name == SO_PEERNAME)
		return n > size;
	if (level == IPPROTO_IPV6 && name == IPV6_PATHMTU)
		return n < size;
	return level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE &&
	       n < offsetof(struct tcp_zerocopy_receive, recv_skip_hint);
}

int tcp_get_option(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	union tcp_answer answer;
	struct ring *ring;
	int size, rc;

	if (!may_answer(level, name))
		return SOCK_KERNEL;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	memset(&answer, 0, sizeof(answer));
	size = answer_any(inet_of(ref.sk), ring, level, name, &answer);
	ring_release_cold(ring);
	if (size == TWIN_KNOWS)
		return SOCK_KERNEL;
	if (bad_length(level, name, len, size < 0 ? 0 : (socklen_t)size))
		return -EINVAL;
	rc = store_answer(level, val, len, &answer, size < 0 ? sizeof(answer) : (socklen_t)size);
	return rc || size >= 0 ? rc : size;
}
