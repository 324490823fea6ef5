/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of a test: a real kernel socket and the library's object, joined as in intercept.
 * Calls return what the library returns: a count, 0 or -errno, or SOCK_KERNEL where intercept
 * would make the kernel's call.  These functions do not make it.
 *
 * Role		any thread.
 */
#ifndef TESTS_LIB_TSOCK_H
#define TESTS_LIB_TSOCK_H

#include <fcntl.h>
#include <netinet/in.h>

#include "base/sys.h"
#include "sock/move/move.h"

struct tsock {
	int fd; /* -1: none */
	struct sock_ref ref;
};

#define TSOCK_NONE ((struct tsock){.fd = -1})

struct tsock tsock_make(int type, bool nonblock);
static inline struct tsock tsock_udp(void)
{
	return tsock_make(SOCK_DGRAM, true);
}
static inline struct tsock tsock_tcp(void)
{
	return tsock_make(SOCK_STREAM, true);
}

static inline struct inet_sock *tsock_inet(const struct tsock *ts)
{
	return (struct inet_sock *)(void *)ts->ref.sk;
}

void tsock_block(struct tsock *ts, bool block);

/* addr: network byte order; port: host byte order, 0 any. */
int tsock_bind(struct tsock *ts, uint32_t addr, unsigned port);
struct sockaddr_in tsock_name(const struct tsock *ts);
int tsock_connect(struct tsock *ts, const struct sockaddr_in *to);
int tsock_listen(struct tsock *ts, int backlog);
/* The child is non-blocking. */
int tsock_accept(struct tsock *ts, struct tsock *child, struct sockaddr_in *from);

ssize_t tsock_send(struct tsock *ts, const void *data, size_t len, int flags);
ssize_t tsock_sendto(struct tsock *ts, const void *data, size_t len, const struct sockaddr_in *to);
ssize_t tsock_recv(struct tsock *ts, void *data, size_t len, int flags);
ssize_t tsock_recvfrom(struct tsock *ts, void *data, size_t len, struct sockaddr_in *from);
int tsock_shutdown(struct tsock *ts, int how);

int tsock_set(struct tsock *ts, int level, int name, const void *val, socklen_t len);
int tsock_set_int(struct tsock *ts, int level, int name, int val);
/* SO_VMA_RING_ALLOC_LOGIC; one side or both. */
int tsock_set_logic(struct tsock *ts, int logic, unsigned user_id, bool rx, bool tx);
int tsock_set_timeout(struct tsock *ts, int name, unsigned msec);
/* From now on close(2) sends a reset. */
int tsock_linger_none(struct tsock *ts);

void tsock_close(struct tsock *ts);

/* Its home, which may be outdated if another thread moves it. */
static inline struct ring *tsock_home(const struct tsock *ts)
{
	return __atomic_load_n(&ts->ref.sk->home, __ATOMIC_ACQUIRE);
}

#endif
