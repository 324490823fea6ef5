/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving without a copy and by callback, for tests over the loop-back port. */
#ifndef TESTS_CONCURRENCY_SOCK_EXTRA_H
#define TESTS_CONCURRENCY_SOCK_EXTRA_H

#include <errno.h>

#include "duo.h"
#include "sock/core/extra/held.h"
#include "sock/core/extra/sock_extra.h"

/* A struct vma_packets_t with one packet of one piece. */
struct __attribute__((packed)) got_packet {
	size_t n_packet_num;
	void *packet_id;
	size_t sz_iov;
	struct iovec iov;
};

/* As recvfrom_zcopy(); negative: -errno. */
static inline ssize_t take_packet(struct tsock *ts, struct got_packet *got, bool force)
{
	struct iovec iov = {got, sizeof(*got)};
	struct sock_zcopy zcopy = {.msg = {.msg_iov = &iov, .msg_iovlen = 1}, .force = force};
	ssize_t n = sock_recv_zcopy(ts->ref, &zcopy, MSG_DONTWAIT);

	if (n >= 0) {
		NET_CHECK(zcopy.done);
		NET_CHECK_EQ(got->n_packet_num, 1);
		NET_CHECK_EQ(got->sz_iov, 1);
		NET_CHECK_EQ(got->iov.iov_len, n);
	}
	return n;
}

/* Waits for one, too. */
static inline void wait_packet(struct tsock *ts, struct got_packet *got)
{
	NET_CHECK(NET_WAIT(take_packet(ts, got, false) >= 0, NET_PATIENCE));
}

/* A thread that receives one message by a call that may block. */
struct receipt {
	struct tsock *ts;
	ssize_t got;
};

static inline void *receive_message(void *arg)
{
	struct receipt *r = arg;
	char buf[DUO_MESSAGE];

	r->got = tsock_recv(r->ts, buf, sizeof(buf), 0);
	return NULL;
}

#endif
