/* SPDX-License-Identifier: BSD-2-Clause */
/* The two kinds of TCP sockets: connections, including sockets not connected yet, and listeners. */
#include <linux/tcp.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/tcp/timewait.h"

static void tcp_default_options(struct inet_sock *so, struct sock_options *opt)
{
	int one = 1;

	/* Until the program sets buffer sizes, the library chooses them. */
	opt->linger2 = tcp_kernel()->fin_timeout;
	opt->nodelay = params.tcp_nodelay;
	if (opt->nodelay)
		sys_setsockopt(sock_twin(&so->sk), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void tcp_icmp_error(struct ring *ring, struct flow *flow, const struct icmp_error *error)
{
	struct inet_sock *so = container_of(flow, struct inet_sock, tcp.flow);
	struct tcp_conn *conn = &so->tcp.conn;

	if (sock_has_ended(so) || !tcp_icmp_is_ours(conn, error->seq))
		return;
	log_debug("fd %d: ICMP: %s%s", sock_twin(&so->sk), strerror(error->error),
		  error->mtu ? ", smaller segments from now on" : "");
	if (error->mtu)
		tcp_path_mtu(conn, error->mtu, clock_now());
	else
		tcp_unreachable(conn, error->error, clock_now());
	ring_work_add(ring, &so->tcp.flush);
}

const struct sock_kind tcp_kind = {
	.protocol = IPPROTO_TCP,
	.ops = tcp_sock_ops,
	.deliver = tcp_deliver,
	.init = tcp_sock_init,
	.default_options = tcp_default_options,
	.icmp_error = tcp_icmp_error,
	.close = tcp_sock_close,
	.set_option = tcp_set_option,
	.mirror = tcp_mirror,
	.options_changed = tcp_options_changed,
	.get_option = tcp_get_option,
	.buffer_size = tcp_buffer_size,
};

static void tcp_listen_attach_anew(struct inet_sock *so)
{
	sock_flows_del(so);
	so->verdict = sock_attach(so);
	if (so->verdict == VERDICT_ACCELERATED)
		sock_port_claim(so);
}

static int *tcp_listen_claim(struct inet_sock *so)
{
	return &so->listen.claim;
}

const struct sock_kind tcp_listen_kind = {
	.protocol = IPPROTO_TCP,
	.deliver = tcp_listen_deliver,
	.flow_begin = tcp_listen_flow_begin,
	.flow_shared = tcp_listen_flow_shared,
	.flow_end = tcp_listen_flow_end,
	.flow_free = tcp_listen_flow_free,
	.attach_anew = tcp_listen_attach_anew,
	.device_changed = tcp_listen_device_changed,
	.claim = tcp_listen_claim,
	.leaving = timewait_listener_stops,
	.close = tcp_listen_close,
	.set_option = tcp_set_option,
	.mirror = tcp_mirror,
	.options_applied = tcp_listen_options_applied,
	.get_option = tcp_get_option,
	.buffer_size = tcp_buffer_size,
};
