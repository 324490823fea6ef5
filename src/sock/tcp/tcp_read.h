/* SPDX-License-Identifier: BSD-2-Clause */
/* What all calls that read a connection do before and after it: tcp_recv.c and tcp_extra.c. */
#ifndef SOCK_TCP_TCP_READ_H
#define SOCK_TCP_TCP_READ_H

#include "sock/tcp/tcp_sock.h"

/* holder: completes a read that returned n. The result of the call; -EAGAIN: nothing is there. */
static inline __attribute__((always_inline)) ssize_t tcp_read_result(struct inet_sock *so,
								     struct ring *ring, ssize_t n)
{
	if (__builtin_expect(n == -EFAULT, 0))
		return n;
	if (n < 0 && n != -EAGAIN && n != -ENOTCONN) {
		so->tcp.error = 0; /* reported */
		sock_count(so, rx_errors, 1);
	}
	if (n != -EAGAIN) {
		tcp_update_unread(so, 0);
		tcp_after(so, ring);
	} else {
		if (__builtin_expect(sock_own_events(so) & EPOLLPRI, 0))
			tcp_update_events(so, 0); /* the urgent byte may have been passed */
		if (so->shut_rd)
			n = 0;
	}
	if (n == -ENOTCONN && sock_is_connecting(so))
		return -EAGAIN; /* as the kernel: wait for the handshake */
	if (n == -ENOTCONN && sock_has_ended(so))
		return 0; /* the error was reported: end of the stream */
	return n;
}

/* holder: does the call return without reading? *n: -errno, 0 at the end, or SOCK_FETCH. */
static inline bool tcp_read_refused(struct inet_sock *so, ssize_t *n)
{
	if (__builtin_expect(!sock_has_connection(so), 0)) {
		*n = tcp_not_connected(so, false);
		return true;
	}
	*n = -tcp_take_kept_error(so);
	return *n != 0;
}

#endif
