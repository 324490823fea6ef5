/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move/kernel_handover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "net/tcp/tcp_handover.h"
#include "sock/core/kernel_conns.h"
#include "sock/core/port/kernel_input.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"
#include "sock/move/move.h"
#include "sock/move/move_internal.h"
#include "sock/move/repair.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/udp/udp_sock.h"

/* ---- a connection ------------------------------------------------------------------- */

#define READ_CHUNK 16384u  /* the kernel allocates memory for each chunk at once */
#define SMALL_BUFFER 8192u /* fits into any buffer */
#define UNREAD_MAX 65536u  /* maximum number of datagrams sent to the twin at a time */

/* The twin of an accepted connection was never bound. */
static int twin_bind(const struct inet_sock *so, int fd)
{
	struct sock_addr name = {.len = sizeof(name.in6)};
	int rc = sys_getsockname(fd, &name.sa, &name.len);

	if (rc || name.in.sin_port) /* at the same place in both families */
		return rc;
	return sock_twin_bind(so, &so->local);
}

/*
 * Grows a buffer to hold that many bytes; for few bytes the kernel goes on choosing the size.
 * -ENOBUFS: the limits of the system forbid it, and this process may not exceed them
 * (SO_SNDBUFFORCE needs CAP_NET_ADMIN of the host, not of a user namespace).
 */
static int twin_grow_buffer(int fd, int name, int force, uint32_t bytes)
{
	int size = bytes < INT32_MAX / 4 ? (int)bytes * 2 : INT32_MAX / 2, has = 0;
	socklen_t len = sizeof(has);

	if (bytes <= SMALL_BUFFER)
		return 0;
	if (sys_setsockopt(fd, SOL_SOCKET, force, &size, sizeof(size)))
		sys_setsockopt(fd, SOL_SOCKET, name, &size, sizeof(size));
	/* The kernel charges a segment for more than its bytes, and doubles what it is told. */
	sys_getsockopt(fd, SOL_SOCKET, name, &has, &len);
	return has >= size ? 0 : -ENOBUFS;
}

/* Sends all of it: 0 or -errno. */
static int twin_send(int fd, const uint8_t *data, uint32_t len, uint32_t chunk)
{
	while (len) {
		ssize_t n = sys_sendto(fd, data, len < chunk ? len : chunk,
				       MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);

		if (n <= 0)
			return n ? (int)n : -EAGAIN;
		data += n;
		len -= (uint32_t)n;
	}
	return 0;
}

/* Makes the connection in the twin, which does not send yet. */
static int twin_connect(const struct inet_sock *so, int fd, const struct tcp_handover *h)
{
	int rc = twin_bind(so, fd);

	rc = rc ? rc : repair_set_sequence(fd, TCP_SEND_QUEUE, h->send_seq);
	rc = rc ? rc : repair_set_sequence(fd, TCP_RECV_QUEUE, h->read_seq);
	rc = rc ? rc : sock_twin_connect(so, &so->remote);
	rc = rc ? rc : repair_set_negotiated(fd, h);
	return rc ? rc : repair_set_clock(fd, h);
}

static int twin_fill(int fd, const struct tcp_handover *h, const uint8_t *to_send,
		     const uint8_t *to_read)
{
	int rc = twin_grow_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, h->to_send);

	rc = rc ? rc : twin_grow_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, h->to_read);
	rc = rc ? rc : repair_set(fd, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE);
	rc = rc ? rc : twin_send(fd, to_read, h->to_read, READ_CHUNK);
	rc = rc ? rc : repair_set(fd, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE);
	rc = rc ? rc : twin_send(fd, to_send, h->sent, UINT32_MAX);
	rc = rc ? rc : repair_set(fd, TCP_REPAIR_QUEUE, TCP_NO_QUEUE);
	return rc ? rc : repair_set_window(fd, h);
}

/* The twin is unconnected again; if it has left repair mode, the peer gets a reset. */
static void twin_reset(int fd)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	socklen_t len = sizeof(int);
	int error;

	sys_connect(fd, &none, sizeof(none));
	sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	repair_set(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
}

/* Leaves repair mode: the kernel probes the peer, and sends what was not sent yet. */
static void twin_start(int fd, const struct tcp_handover *h, const uint8_t *to_send, int reuseaddr)
{
	repair_set(fd, TCP_REPAIR, TCP_REPAIR_OFF);
	/* Repair mode clears it, and without it no listener could bind the port again. */
	sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuseaddr, sizeof(reuseaddr));
	if (twin_send(fd, to_send + h->sent, h->to_send - h->sent, UINT32_MAX)) {
		log_warn("fd %d: not all that was to be sent could be given to the kernel: the "
			 "connection is reset",
			 fd);
		twin_reset(fd); /* rather than a stream with a gap */
		return;
	}
	if (h->no_more_to_read)
		sys_shutdown(fd, SHUT_RD);
	if (h->no_more_to_send)
		sys_shutdown(fd, SHUT_WR);
}

/* holder of home; bytes: room for unsent and unread data. */
static int handover_to_twin(struct inet_sock *so, struct ring *ring, const struct tcp_handover *h,
			    uint8_t *bytes)
{
	int fd = sock_twin(&so->sk), rc = repair_set(fd, TCP_REPAIR, TCP_REPAIR_ON);

	if (rc)
		return rc;
	tcp_handover_copy_to_send(&so->tcp.conn, bytes);
	tcp_handover_copy_to_read(&so->tcp.conn, bytes + h->to_send);
	rc = twin_connect(so, fd, h);
	rc = rc ? rc : twin_fill(fd, h, bytes, bytes + h->to_send);
	if (rc) {
		twin_reset(fd);
		return rc;
	}
	repair_completions(fd, sock_error_queue(so));
	tcp_detach(so, ring);
	twin_start(fd, h, bytes, so->opt->reuseaddr);
	return 0;
}

/* holder of home: hands over a socket whose connection is not established yet, or has ended. */
static int handover_unconnected(struct inet_sock *so, struct ring *ring)
{
	bool connecting = sock_is_connecting(so);
	int fd = sock_twin(&so->sk), flags;
	struct endpoint to = so->remote;

	tcp_detach(so, ring);
	if (!connecting)
		return 0;
	flags = sys_fcntl(fd, F_GETFL, 0);
	sys_fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	sock_twin_connect(so, &to);
	sys_fcntl(fd, F_SETFL, flags);
	return 0;
}

static int kernel_handover_connection(struct inet_sock *so)
{
	struct tcp_handover h;
	struct ring *ring;
	uint8_t *bytes;
	int rc;

	sock_move_settle(so);
	sock_twin_prepare(so);
	kernel_conns_add(so);
	rc = sock_hold_cold(sock_ref_of(so), &ring);
	if (rc)
		return rc;
	ring_drain(ring);
	if (tcp_filter_is_out(so)) {
		rc = -EBUSY;
	} else if (tcp_handover_describe(&so->tcp.conn, clock_now(), &h)) {
		bytes = mem_map((size_t)h.to_send + h.to_read + 1);
		rc = bytes ? handover_to_twin(so, ring, &h, bytes) : -ENOMEM;
		if (bytes)
			mem_unmap(bytes, (size_t)h.to_send + h.to_read + 1);
	} else {
		rc = handover_unconnected(so, ring);
	}
	if (!rc)
		sock_life_set(so, sock_is_kept(so) ? LIFE_CLOSED : LIFE_OPEN);
	ring_release_cold(ring);
	return rc;
}

/* ---- datagrams ---------------------------------------------------------------------- */

/* Takes the oldest unread datagram from the ring, as a copy; NULL: there is none. */
static struct pkt *take_datagram(struct inet_sock *so)
{
	struct ring *ring;
	struct pkt *pkt = NULL, *copy = NULL;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return NULL;
	ring_poll(ring);
	if (so->udp.head)
		pkt = udp_pop(so);
	if (pkt)
		copy = pkt_blank(pkt->frame_len);
	if (copy) {
		memcpy(copy->frame, pkt->frame, pkt->frame_len);
		copy->frame_len = pkt->frame_len;
		copy->l3 = pkt->l3;
		copy->l4 = pkt->l4;
		copy->ifindex = udp_ifindex(so, pkt);
	}
	if (pkt)
		pkt_free(pkt);
	ring_release_cold(ring);
	return copy;
}

/* The datagram arrives again for the twin; its checksum was checked. */
static void send_to_twin(struct kernel_input *in, struct pkt *pkt)
{
	size_t len;
	const void *packet = frame_udp_again(pkt, &len);
	struct endpoint twin = frame_destination(pkt);

	if (kernel_input_open(in, addr_is_v4(&twin.addr)))
		(void)kernel_input_send(in, pkt, packet, len);
	pkt_free(pkt);
}

/* Limited, because more may arrive meanwhile. */
static void deliver_unread(struct inet_sock *so, struct kernel_input *in)
{
	unsigned most = UNREAD_MAX;
	struct pkt *pkt;

	while (most-- && (pkt = take_datagram(so)))
		send_to_twin(in, pkt);
}

/*
 * The twin gets the unread datagrams before the kernel receives new ones; only frames that were on
 * their way to the ring when it lost the flow may change places with new ones.
 */
static void begin_datagrams(struct inet_sock *so, struct kernel_input *in,
			    struct rings_barrier *barrier)
{
	deliver_unread(so, in);
	udp_cease_flows(so, barrier);
	deliver_unread(so, in);
}

void kernel_handover_last(struct inet_sock *so)
{
	struct rings_barrier barrier = {.n = 0};
	struct kernel_input in = KERNEL_INPUT_CLOSED;

	control_assert_held();
	control_assert_no_ring();
	begin_datagrams(so, &in, &barrier);
	rings_barrier_wait(&barrier);
	udp_drain_flows(so);
	deliver_unread(so, &in);
	kernel_input_close(&in);
}

static int kernel_handover_datagrams(struct inet_sock *so, enum verdict reason)
{
	kernel_handover_last(so);
	return sock_leave(so, reason);
}

static bool has_unread(struct inet_sock *so)
{
	struct ring *ring;
	bool some;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return false;
	ring_poll(ring);
	some = so->udp.head != NULL;
	ring_release_cold(ring);
	return some;
}

bool kernel_handover_begin_unread(struct inet_sock *so, struct rings_barrier *barrier)
{
	struct kernel_input in = KERNEL_INPUT_CLOSED;

	control_assert_held();
	control_assert_no_ring();
	if (!sock_life_is(so, LIFE_RECEIVING) || !so->udp.connected || !has_unread(so))
		return false;
	if (!kernel_input_open(&in, addr_is_v4(&so->remote.addr)))
		return false; /* this process can still read them */
	begin_datagrams(so, &in, barrier);
	kernel_input_close(&in);
	return true;
}

bool kernel_handover_unread(struct inet_sock *so)
{
	struct rings_barrier barrier = {.n = 0};

	control_assert_held();
	control_assert_no_ring();
	if (!kernel_handover_begin_unread(so, &barrier))
		return false;
	rings_barrier_wait(&barrier);
	return !kernel_handover_datagrams(so, VERDICT_FORKED);
}

/* ---- any socket --------------------------------------------------------------------- */

void kernel_handover_begin(struct inet_sock *so, struct rings_barrier *barrier)
{
	struct kernel_input in = KERNEL_INPUT_CLOSED;

	control_assert_held();
	control_assert_no_ring();
	if (so->inet != INET_UDP)
		return;
	begin_datagrams(so, &in, barrier);
	kernel_input_close(&in);
}

int kernel_handover_unaccepted(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	return kernel_handover_connection(so);
}

int kernel_handover(struct inet_sock *so, enum verdict reason)
{
	int rc = 0;

	control_assert_held();
	control_assert_no_ring();
	if (so->inet == INET_UDP)
		return kernel_handover_datagrams(so, reason);
	if (so->inet == INET_LISTEN && so->listen.waiting)
		log_warn("fd %d: %u connections that nobody accepted are reset", sock_twin(&so->sk),
			 so->listen.waiting);
	if (sock_has_connection(so))
		rc = kernel_handover_connection(so);
	return rc ? rc : sock_leave(so, reason);
}
