/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of TCP sockets: what the twin made of a value is mirrored; what it
 * cannot know of a connection that is ours is answered from here.
 */
#include <linux/tcp.h>

#include "base/sys.h"
#include "sock/tcp_internal.h"

/* ---- what the kernel does by default ------------------------------------------------------ */

/* The third of "least, at first, most". */
static uint32_t most_of(const char *path, int otherwise)
{
	int n = sys_read_nth_number(path, 2, otherwise);

	return (uint32_t)(n > 4096 ? n : 4096);
}

static void read_kernel(struct tcp_kernel *k)
{
	int ecn = sys_read_number("/proc/sys/net/ipv4/tcp_ecn", TCP_ECN_ANSWER);
	int lowat = sys_read_number("/proc/sys/net/ipv4/tcp_notsent_lowat", 0);
	int fin = sys_read_number("/proc/sys/net/ipv4/tcp_fin_timeout", 60);

	k->rmem_max = most_of("/proc/sys/net/ipv4/tcp_rmem", 6 << 20);
	k->wmem_max = most_of("/proc/sys/net/ipv4/tcp_wmem", 4 << 20);
	k->timestamps = sys_read_number("/proc/sys/net/ipv4/tcp_timestamps", 1) != 0;
	k->ecn = (uint8_t)(ecn < TCP_ECN_NONE || ecn > TCP_ECN_ANSWER ? TCP_ECN_ANSWER : ecn);
	k->notsent_lowat = lowat > 0 ? (uint32_t)lowat : 0; /* by default 2^32 - 1: any */
	k->fin_timeout = (int16_t)(fin < 0 ? 0 : fin > INT16_MAX ? INT16_MAX : fin);
}

const struct tcp_kernel *tcp_kernel(void)
{
	static struct tcp_kernel kernel; /* any; written once under the flag */
	static int ready;

	if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) {
		static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;

		pthread_mutex_lock(&once);
		if (!ready)
			read_kernel(&kernel);
		__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&once);
	}
	return &kernel;
}

/* ---- setting (control lock) ---------------------------------------------------------------- */

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

/* What the twin would take, because it is not connected itself. */
int tcp_may_set(struct sock_ref ref, int name, const void *val, socklen_t len)
{
	const struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc;

	if (name != TCP_WINDOW_CLAMP || !val || len < sizeof(int) || *(const int *)val != 0)
		return 0;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	if (so->inet == INET_TCP && so->connected && !so->tcp.dead)
		rc = -EINVAL;
	ring_release_cold(ring);
	return rc;
}

/* How many SYN-ACKs, repeated at doubling intervals, take so many seconds. */
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
	switch (name) {
	case TCP_NODELAY:
		opt->nodelay = sock_twin_int(so, IPPROTO_TCP, name, 0) != 0;
		break;
	case TCP_CORK:
		opt->cork = sock_twin_int(so, IPPROTO_TCP, name, 0) != 0;
		break;
	case TCP_QUICKACK:
		opt->quickack = *(const int *)val != 0;
		break;
	case TCP_DEFER_ACCEPT:
		opt->defer_accept = syn_acks_in(sock_twin_int(so, IPPROTO_TCP, name, 0));
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
	case TCP_LINGER2: /* what the twin says of 0 is the system's default */
		opt->linger2 = (int16_t)sock_twin_int(so, IPPROTO_TCP, name, 60);
		break;
	case TCP_MAXSEG: /* what it says of a closed socket is not always what was set */
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

/* ---- reading (holder) ---------------------------------------------------------------------- */

static int maxseg(const struct inet_sock *so)
{
	if (so->tcp.dead && so->opt->maxseg)
		return so->opt->maxseg;
	return (int)tcp_maxseg(&so->tcp.conn);
}

/* Options of a connection: the twin of one that was accepted knows nothing of them. */
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

bool tcp_may_know(int level, int name)
{
	switch (level) {
	case SOL_SOCKET:
		return name == SO_ERROR || name == SO_RCVBUF || name == SO_SNDBUF;
	case IPPROTO_IP:
		return name == IP_MTU;
	case IPPROTO_TCP:
		return name != TCP_NODELAY && name != TCP_CORK;
	default:
		return false;
	}
}

/* Buffers as they have grown: the kernel says twice what it was asked for. */
static bool answer_socket(const struct inet_sock *so, int name, int *n)
{
	const struct tcp_conn *conn = &so->tcp.conn;

	switch (name) {
	case SO_RCVBUF:
		*n = (int)(so->opt->rcvbuf_set ? so->opt->rcvbuf : 2 * conn->rcvbuf);
		return true;
	case SO_SNDBUF:
		*n = (int)(so->opt->sndbuf_set ? so->opt->sndbuf : 2 * conn->sndbuf);
		return true;
	default:
		return false;
	}
}

socklen_t tcp_answer(struct inet_sock *so, struct ring *ring, int level, int name,
		     union tcp_answer *answer)
{
	if (level == IPPROTO_TCP && name == TCP_CONGESTION) {
		strcpy(answer->name, tcp_cc_by_number(so->opt->cc_algo)->name);
		return sizeof(answer->name);
	}
	if (so->inet == INET_LISTEN && level == IPPROTO_TCP && name == TCP_INFO) {
		answer->info.tcpi_state = 10; /* LISTEN; how many wait, how many may */
		answer->info.tcpi_unacked = __atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED);
		answer->info.tcpi_sacked = so->listen.backlog;
		return sizeof(answer->info);
	}
	if (so->inet != INET_TCP)
		return 0; /* a listener */
	if (level == IPPROTO_TCP && name == TCP_INFO && so->connected) {
		tcp_get_info(&so->tcp.conn, &answer->info, clock_now());
		return sizeof(answer->info);
	}
	if (level == SOL_SOCKET && so->connected && answer_socket(so, name, &answer->n))
		return sizeof(answer->n);
	if (level == SOL_SOCKET && name == SO_ERROR) {
		ring_poll(ring);
		answer->n = sock_take_error(so);
	} else if (level == IPPROTO_TCP && so->connected && answer_tcp(so, name, &answer->n)) {
		return sizeof(answer->n);
	} else if (level == IPPROTO_IP && name == IP_MTU && so->connected) {
		answer->n = (int)so->tcp.dst.mtu;
	} else {
		return 0;
	}
	return sizeof(answer->n);
}
