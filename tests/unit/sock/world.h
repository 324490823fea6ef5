/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process with accelerated sockets and no network, for tests of modules that hold state: loop_net
 * with an internal thread that looks around each millisecond, and calls that most of them need.
 */
#ifndef TESTS_UNIT_SOCK_WORLD_H
#define TESTS_UNIT_SOCK_WORLD_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "sock/core/control.h"
#include "tests/guard.h"
#include "tests/lib/loop_net.h"
#include "tests/vma_test.h"

#define WORLD_WAIT 5000 /* msec */

#define WORLD_BAD \
	((void *)(uintptr_t)8) /* a pointer of a program that is wrong: see test_guard() */

/* Set-up of a group: once per process. */
static inline int world_start(void **state)
{
	loop_net_enter();
	params.log_level = LOG_WARNING;
	params.progress_interval = 1;
	params.thread_mode = HOLD_YIELD;
	loop_net_start();
	return 0;
}

/* Its end: all sockets are closed; no packet and no descriptor is left. */
static inline int world_finish(void **state)
{
	loop_net_finish();
	return 0;
}

/* i: of fake_link_addr(). */
static inline struct sockaddr_in world_addr(unsigned i, unsigned port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_addr.s_addr = fake_link_addr(i),
				    .sin_port = htons((uint16_t)port)};
}

/* The kernel knows none of the sockets' traffic: each case has ports of its own. */
static inline unsigned world_port(void)
{
	static unsigned port = 5000;

	return port++;
}

static inline struct tsock world_udp(unsigned i, unsigned port)
{
	struct tsock ts = tsock_udp();

	assert_true(ts.fd >= 0);
	assert_int_equal(tsock_bind(&ts, fake_link_addr(i), port), 0);
	return ts;
}

static inline void world_connect(struct tsock *ts, unsigned i, unsigned port)
{
	struct sockaddr_in to = world_addr(i, port);
	int rc = tsock_connect(ts, &to);

	assert_true(rc == 0 || rc == -EINPROGRESS);
}

/* Waits for a datagram or bytes; the result of the receive call. */
static inline ssize_t world_recv(struct tsock *ts, void *buf, size_t len)
{
	ssize_t n = -1;

	return NET_WAIT((n = tsock_recv(ts, buf, len, 0)) != -EAGAIN, WORLD_WAIT) ? n : -EAGAIN;
}

/* Waits for exactly this text. */
#define world_expect(ts, text)                                   \
	do {                                                     \
		char buf_[256];                                  \
		ssize_t n_ = world_recv(ts, buf_, sizeof(buf_)); \
		assert_int_equal(n_, strlen(text));              \
		assert_memory_equal(buf_, text, strlen(text));   \
	} while (0)

/*
 * *ts, at 0, is connected to *peer, at 1; a first datagram has found the destination.  The name of the
 * peer.
 */
static inline struct sockaddr_in world_udp_pair(struct tsock *ts, struct tsock *peer)
{
	unsigned port = world_port();

	*ts = world_udp(0, world_port());
	*peer = world_udp(1, port);
	world_connect(ts, 1, port);
	assert_int_equal(tsock_send(ts, "first", 5, 0), 5);
	world_expect(peer, "first");
	return world_addr(1, port);
}

static inline void world_send(struct tsock *ts, unsigned i, unsigned port, const char *text)
{
	struct sockaddr_in to = world_addr(i, port);

	assert_int_equal(tsock_sendto(ts, text, strlen(text), &to), strlen(text));
}

/* Has so much arrived that nothing more is on its way?  One thread polls all rings. */
static inline void world_settle(void)
{
	for (unsigned i = 0; i < rings_count(); i++)
		while (sock_poll_ring(rings_at(i)) > 0)
			;
}

/* Has the socket n datagrams, when its ring has no frame any more? */
static inline bool world_queued(const struct tsock *ts, unsigned n)
{
	struct ring *ring;
	bool all;

	if (!sock_hold(ts->ref, &ring))
		return false;
	ring_poll(ring);
	all = tsock_inet(ts)->udp.count == n;
	sock_release(ring);
	return all;
}

static inline struct tsock world_listener(unsigned i, unsigned port, int backlog)
{
	struct tsock ts = tsock_tcp();

	assert_int_equal(tsock_bind(&ts, fake_link_addr(i), port), 0);
	assert_int_equal(tsock_listen(&ts, backlog), 0);
	return ts;
}

static inline struct tsock world_accept(struct tsock *listener)
{
	struct tsock child = TSOCK_NONE;

	assert_true(NET_WAIT(tsock_accept(listener, &child, NULL) >= 0, WORLD_WAIT));
	return child;
}

/* A connection from address 1 to the listener, which is at address 0. */
static inline void world_pair(struct tsock *listener, unsigned port, struct tsock *client,
			      struct tsock *child)
{
	*client = tsock_tcp();
	assert_int_equal(tsock_bind(client, fake_link_addr(1), 0), 0);
	world_connect(client, 0, port);
	*child = world_accept(listener);
	assert_true(NET_WAIT(sock_events(client->ref.sk) & EPOLLOUT, WORLD_WAIT));
}

/* A socket that the kernel alone knows. */
static inline int world_kernel_udp(unsigned i, unsigned port)
{
	struct sockaddr_in sin = world_addr(i, port);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return fd;
}

static inline bool world_readable(int fd, int msec)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, msec) == 1;
}

/* Runs what needs the control lock. */
#define WORLD_LOCKED(what)                   \
	do {                                 \
		assert_true(control_lock()); \
		what;                        \
		control_unlock();            \
	} while (0)

#endif
