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
	opt->keepalive = tcp_kernel()->keepalive;
	opt->nodelay = params.tcp_nodelay;
	opt->quickack = params.tcp_quickack;
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

static void add_since(uint64_t *counter, uint32_t now, uint32_t *seen)
{
	stats_add(counter, (uint32_t)(now - *seen));
	*seen = now;
}

static void publish_counts(struct stats_sock *slot, const struct tcp_info *info,
			   struct sock_stats_seen *seen)
{
	uint64_t sent = info->tcpi_bytes_sent - info->tcpi_bytes_retrans;

	add_since(&slot->rx_packets, info->tcpi_data_segs_in, &seen->rx_packets);
	add_since(&slot->tx_packets, info->tcpi_data_segs_out, &seen->tx_packets);
	add_since(&slot->retransmits, info->tcpi_total_retrans, &seen->retransmits);
	stats_add(&slot->rx_bytes, info->tcpi_bytes_received - seen->rx_bytes);
	stats_add(&slot->tx_bytes, sent - seen->tx_bytes);
	seen->rx_bytes = info->tcpi_bytes_received;
	seen->tx_bytes = sent;
}

static void tcp_publish(const struct inet_sock *so, struct stats_sock *slot,
			struct sock_stats_seen *seen)
{
	const struct tcp_conn *conn = &so->tcp.conn;
	struct tcp_info info;

	slot->tcp_state = STATS_TCP_CLOSE;
	if (!sock_has_connection(so))
		return;
	tcp_get_info(conn, &info, clock_now());
	publish_counts(slot, &info, seen);
	slot->tcp_state = info.tcpi_state;
	slot->rx_queued_bytes = tcp_unread(conn);
	slot->rx_queued_packets = 0;
	stats_raise(&slot->rx_most_bytes, slot->rx_queued_bytes);
	slot->tx_queued_bytes = tcp_unacked_bytes(conn);
	slot->rx_limit = tcp_window_max(conn);
	slot->tcp = (struct stats_tcp){
		.mss = info.tcpi_snd_mss,
		.advmss = info.tcpi_advmss,
		.rto = info.tcpi_rto,
		.rtt = info.tcpi_rtt,
		.rttvar = info.tcpi_rttvar,
		.cwnd = info.tcpi_snd_cwnd,
		.ssthresh = info.tcpi_snd_ssthresh,
		.unacked = info.tcpi_unacked,
		.notsent = info.tcpi_notsent_bytes,
		.snd_wnd = info.tcpi_snd_wnd,
		.rcv_wnd = tcp_window_max(conn),
		.snd_wscale = info.tcpi_snd_wscale,
		.rcv_wscale = info.tcpi_rcv_wscale,
		.options = info.tcpi_options,
	};
}

const struct sock_kind tcp_kind = {
	.protocol = IPPROTO_TCP,
	.ops = tcp_sock_ops,
	.deliver = tcp_deliver,
	.init = tcp_sock_init,
	.default_options = tcp_default_options,
	.icmp_error = tcp_icmp_error,
	.close = tcp_sock_close,
	.abandon = tcp_abandon,
	.set_option = tcp_set_option,
	.mirror = tcp_mirror,
	.options_changed = tcp_options_changed,
	.get_option = tcp_get_option,
	.buffer_size = tcp_buffer_size,
	.recv_zcopy = tcp_recv_zcopy,
	.headers = tcp_read_headers,
	.filter = &tcp_filter_kind,
	.held_freed = tcp_held_freed,
	.xtreme_take = tcp_xtreme_take,
	.room = tcp_room,
	.commit = tcp_commit,
	.publish = tcp_publish,
};

static void tcp_listen_publish(const struct inet_sock *so, struct stats_sock *slot,
			       struct sock_stats_seen *seen)
{
	(void)seen;
	slot->tcp_state = STATS_TCP_LISTEN;
	slot->rx_queued_packets = so->listen.waiting;
	slot->rx_limit = so->listen.backlog;
}

static void tcp_listen_attach_anew(struct inet_sock *so)
{
	sock_flows_del(so);
	tcp_listen_attach(so);
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
	.ended = tcp_listen_ended,
	.set_option = tcp_set_option,
	.mirror = tcp_mirror,
	.options_applied = tcp_listen_options_applied,
	.get_option = tcp_get_option,
	.buffer_size = tcp_buffer_size,
	.publish = tcp_listen_publish,
	.room = tcp_room, /* -ENOTCONN */
	.commit = tcp_commit,
};
