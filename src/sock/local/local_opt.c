/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of local connections whose values the twin does not know. */
#include <errno.h>
#include <linux/tcp.h>
#include <string.h>

#include "base/sys.h"
#include "base/user.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"
#include "sock/local/local_sock.h"
#include "sock/options/sock_opt.h"
#include "sock/tcp/tcp_sock.h"

#define LOOPBACK_MTU 65535  /* as IP_MTU has it */
#define LOOPBACK_MTU6 65536 /* as IPV6_MTU has it */
#define LOOPBACK_MSS 65483  /* as the kernel's, with timestamps */
#define LOOPBACK_MSS6 65464
#define WINDOW_INITIAL 10   /* segments */
#define ROUND_TRIP 20	    /* microseconds: of the kernel's loopback */
#define STATE_ESTABLISHED 1 /* as the kernel numbers them */
#define STATE_SYN_SENT 2
#define STATE_FIN_WAIT2 5
#define STATE_CLOSE 7
#define STATE_CLOSE_WAIT 8

union answer {
	int n;
	struct tcp_info info;
	struct sockaddr_in6 peer;
	struct ip6_mtuinfo path;
};

/* What a connection of the kernel over the loopback interface has. */
static int mtu_of(const struct inet_sock *so)
{
	return addr_is_v4(&so->remote.addr) ? LOOPBACK_MTU : LOOPBACK_MTU6;
}

static uint32_t mss_of(const struct inet_sock *so)
{
	return addr_is_v4(&so->remote.addr) ? LOOPBACK_MSS : LOOPBACK_MSS6;
}

static uint8_t state_of(struct inet_sock *so)
{
	bool finished = byte_ring_end(&so->shm.in) == BYTE_RING_FINISHED;

	if (!so->shm.established)
		return so->shm.ended ? STATE_CLOSE : STATE_SYN_SENT;
	if (so->shm.ended || (finished && so->shut_wr))
		return STATE_CLOSE;
	if (finished)
		return STATE_CLOSE_WAIT;
	return so->shut_wr ? STATE_FIN_WAIT2 : STATE_ESTABLISHED;
}

static void fill_info(struct inet_sock *so, struct tcp_info *info)
{
	struct shm_state *shm = &so->shm;

	info->tcpi_state = state_of(so);
	info->tcpi_options = TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK | TCPI_OPT_WSCALE;
	info->tcpi_snd_wscale = info->tcpi_rcv_wscale = 7;
	info->tcpi_rto = 200000;
	info->tcpi_ato = 40000;
	info->tcpi_snd_mss = info->tcpi_advmss = mss_of(so);
	info->tcpi_rcv_mss = 536;
	info->tcpi_pmtu = (uint32_t)mtu_of(so);
	info->tcpi_rtt = ROUND_TRIP;
	info->tcpi_rttvar = ROUND_TRIP / 2;
	info->tcpi_min_rtt = ROUND_TRIP;
	info->tcpi_snd_cwnd = WINDOW_INITIAL;
	info->tcpi_snd_ssthresh = INT32_MAX;
	info->tcpi_rcv_space = shm->in.capacity;
	info->tcpi_bytes_acked = info->tcpi_bytes_sent = shm->out.tail;
	info->tcpi_bytes_received = shm->in.tail;
	info->tcpi_notsent_bytes = byte_ring_unsent(&shm->out);
}

uint32_t local_buffer_size(const struct inet_sock *so, bool receive)
{
	uint32_t capacity = so->shm.in.capacity;

	if (receive && so->opt->rcvbuf_set)
		return so->opt->rcvbuf;
	if (!receive && so->opt->sndbuf_set)
		return so->opt->sndbuf;
	return capacity; /* twice the half that is one side's */
}

/* holder: the size of the answer; 0: the twin knows. */
static socklen_t answer_socket(struct inet_sock *so, int name, union answer *answer)
{
	socklen_t len = sizeof(answer->peer);

	switch (name) {
	case SO_ERROR:
		answer->n = local_conn_take_error(so);
		return sizeof(answer->n);
	case SO_PEERNAME:
		sock_addr_write(so, &so->remote, (struct sockaddr *)&answer->peer, &len);
		return len;
	case SO_RCVBUF:
	case SO_SNDBUF:
		answer->n = (int)local_buffer_size(so, name == SO_RCVBUF);
		return sizeof(answer->n);
	case SO_PEEK_OFF:
		if (!so->shm.peek_offset)
			return 0;
		answer->n = so->shm.peek_offset - 1;
		return sizeof(answer->n);
	default:
		return 0;
	}
}

static socklen_t answer_tcp(struct inet_sock *so, int name, union answer *answer)
{
	const struct sock_options *opt = so->opt;

	switch (name) {
	case TCP_INFO:
		fill_info(so, &answer->info);
		return sizeof(answer->info);
	case TCP_MAXSEG:
		answer->n = opt->maxseg ? opt->maxseg : (int)mss_of(so);
		break;
	case TCP_KEEPCNT:
		answer->n = opt->keepalive.probes;
		break;
	case TCP_KEEPIDLE:
		answer->n = opt->keepalive.idle;
		break;
	case TCP_KEEPINTVL:
		answer->n = opt->keepalive.interval;
		break;
	case TCP_LINGER2:
		answer->n = opt->linger2;
		break;
	case TCP_NOTSENT_LOWAT:
		answer->n = (int)opt->notsent_lowat;
		break;
	case TCP_USER_TIMEOUT:
		answer->n = (int)(opt->user_timeout / NSEC_PER_MSEC);
		break;
	default:
		return 0;
	}
	return sizeof(answer->n);
}

static socklen_t answer_ip(const struct inet_sock *so, int name, union answer *answer)
{
	if (name != IP_MTU)
		return 0;
	answer->n = mtu_of(so);
	return sizeof(answer->n);
}

static socklen_t answer_ipv6(struct inet_sock *so, int name, union answer *answer)
{
	if (so->family != AF_INET6)
		return 0;
	if (name == IPV6_PATHMTU) {
		answer->path.ip6m_mtu = (uint32_t)mtu_of(so);
		return sizeof(answer->path);
	}
	if (name == IPV6_MTU)
		answer->n = mtu_of(so);
	else if (name == IPV6_ADDRFORM && state_of(so) == STATE_ESTABLISHED)
		answer->n = so->family;
	else if (name == IPV6_V6ONLY && so->unbound_v6only) /* the library has set it */
		answer->n = 0;
	else
		return 0;
	return sizeof(answer->n);
}

static socklen_t answer_any(struct inet_sock *so, struct ring *ring, int level, int name,
			    union answer *answer)
{
	if (!local_is_one(so))
		return 0;
	ring_poll(ring);
	if (level == SOL_SOCKET)
		return answer_socket(so, name, answer);
	if (level == IPPROTO_IP)
		return answer_ip(so, name, answer);
	if (!so->shm.shared)
		return 0;
	if (level == IPPROTO_IPV6)
		return answer_ipv6(so, name, answer);
	return level == IPPROTO_TCP ? answer_tcp(so, name, answer) : 0;
}

/* Does the kernel refuse so short a buffer? */
static bool is_too_short(int level, int name, socklen_t len, socklen_t size)
{
	return level == IPPROTO_IPV6 && name == IPV6_PATHMTU && len < size;
}

int local_get_option(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	struct inet_sock *so = inet_of(ref.sk);
	union answer answer;
	struct ring *ring;
	socklen_t size, n;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	memset(&answer, 0, sizeof(answer));
	size = answer_any(so, ring, level, name, &answer);
	ring_release_cold(ring);
	if (!size)
		return sock_getsockopt(ref, level, name, val, len);
	if (user_read(&n, len, sizeof(n)))
		return -EFAULT;
	if (((int)n < 0 && level != IPPROTO_IPV6) ||
	    (name == SO_PEERNAME && level == SOL_SOCKET && n > size) ||
	    is_too_short(level, name, n, size))
		return -EINVAL;
	n = n > size ? size : n;
	return user_write(val, &answer, n) || user_write(len, &n, sizeof(n)) ? -EFAULT : 0;
}

/* SO_PEEK_OFF: the twin checks it and has the initial value. */
static int set_peek_offset(struct sock_ref ref, const void *val, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	int rc = sys_setsockopt(sock_twin(ref.sk), SOL_SOCKET, SO_PEEK_OFF, val, len);
	struct ring *ring;

	if (!rc)
		rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	if (local_is_one(so))
		so->shm.peek_offset = sock_twin_int(so, SOL_SOCKET, SO_PEEK_OFF, -1) + 1;
	ring_release_cold(ring);
	return 0;
}

int local_set_option(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	control_assert_held();
	if (level == SOL_SOCKET && name == SO_PEEK_OFF)
		return set_peek_offset(ref, val, len);
	return tcp_set_option(ref, level, name, val, len);
}
