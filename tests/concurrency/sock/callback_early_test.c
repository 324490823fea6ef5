/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receive callback that is registered before its socket has a connection: it sees all bytes of each
 * connection that the socket begins; that of a listener sees nothing.
 */
#include "extra.h"
#include "vma_test.h"

#include <string.h>

#define HELLO "hello"

static struct {
	char bytes[64];
	size_t n;
} seen;

static struct tsock listener, client, server;

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	NET_CHECK_EQ(n, 1);
	NET_CHECK(context == &seen);
	NET_CHECK_EQ(fd, client.fd);
	NET_CHECK(seen.n + iov[0].iov_len <= sizeof(seen.bytes));
	memcpy(seen.bytes + seen.n, iov[0].iov_base, iov[0].iov_len);
	seen.n += iov[0].iov_len;
	return VMA_PACKET_DROP;
}

static vma_recv_callback_retval_t wrong(int fd, size_t n, struct iovec iov[],
					struct vma_info_t *info, void *context)
{
	NET_CHECK(!"this one was called");
	return VMA_PACKET_DROP;
}

static int set_callback(struct tsock *ts, vma_recv_callback_t fn)
{
	return sock_set_callback(ts->ref, ts->fd, fn, fn ? &seen : NULL);
}

static void begin(void)
{
	memset(&seen, 0, sizeof(seen));
	duo_begin();
	listener = duo_listener(7100);
	client = tsock_tcp();
	NET_CHECK_EQ(tsock_bind(&client, fake_link_addr(1), 0), 0);
}

static void close_both(void)
{
	tsock_linger_none(&client);
	tsock_close(&client);
	tsock_close(&server);
}

static void finish(void)
{
	close_both();
	duo_end(&listener);
}

static bool connected(void)
{
	sock_poll_ring(tsock_home(&client));
	return sock_events(client.ref.sk) & EPOLLOUT;
}

static void connect_to(struct tsock *to)
{
	struct sockaddr_in name = tsock_name(to);

	NET_CHECK_EQ(tsock_connect(&client, &name), -EINPROGRESS);
}

/* The server speaks first. */
static void hello(struct tsock *to)
{
	server = duo_accept(to, NULL);
	NET_CHECK_EQ(tsock_send(&server, HELLO, strlen(HELLO), 0), strlen(HELLO));
}

static bool sees_hello(void)
{
	sock_poll_ring(tsock_home(&client));
	return seen.n >= strlen(HELLO);
}

static ssize_t reads(struct tsock *ts, char *buf, size_t len)
{
	return tsock_recv(ts, buf, len, MSG_DONTWAIT);
}

static void check_seen(void)
{
	char buf[64];

	NET_CHECK(NET_WAIT(sees_hello(), NET_PATIENCE));
	NET_CHECK_EQ(seen.n, strlen(HELLO));
	NET_CHECK(!memcmp(seen.bytes, HELLO, seen.n));
	NET_CHECK_EQ(reads(&client, buf, sizeof(buf)), -EAGAIN);
	seen.n = 0;
}

static void check_read(struct tsock *ts)
{
	char buf[64];
	ssize_t n = 0;

	NET_CHECK(NET_WAIT((n = reads(ts, buf, sizeof(buf))) != -EAGAIN, NET_PATIENCE));
	NET_CHECK_EQ(n, strlen(HELLO));
	NET_CHECK_EQ(seen.n, 0);
}

static void before_connect(void *arg)
{
	begin();
	NET_CHECK_EQ(set_callback(&client, wrong), 0);
	NET_CHECK_EQ(set_callback(&client, callback), 0); /* the later one counts */
	connect_to(&listener);
	hello(&listener);
	check_seen();
	finish();
}

static void while_connecting(void *arg)
{
	begin();
	connect_to(&listener);
	NET_CHECK_EQ(set_callback(&client, callback), 0);
	hello(&listener);
	check_seen();
	finish();
}

static void taken_back_before(void *arg)
{
	begin();
	NET_CHECK_EQ(set_callback(&client, wrong), 0);
	NET_CHECK_EQ(set_callback(&client, NULL), 0);
	connect_to(&listener);
	hello(&listener);
	check_read(&client);
	finish();
}

/* As connect(2) with AF_UNSPEC. */
static void disconnect(void)
{
	struct sockaddr_in nobody = {.sin_family = AF_UNSPEC};

	NET_CHECK_EQ(tsock_connect(&client, &nobody), 0);
	tsock_close(&server);
}

static void for_each_connection(void *arg)
{
	struct tsock other;

	begin();
	other = duo_listener(7101);
	NET_CHECK_EQ(set_callback(&client, callback), 0);
	connect_to(&listener);
	hello(&listener);
	check_seen();
	disconnect();
	connect_to(&other);
	hello(&other);
	check_seen();
	NET_CHECK_EQ(set_callback(&client, NULL), 0); /* for good */
	disconnect();
	connect_to(&listener);
	hello(&listener);
	check_read(&client);
	tsock_close(&other);
	finish();
}

/* Accepted sockets do not inherit it. */
static void of_a_listener(void *arg)
{
	begin();
	NET_CHECK_EQ(set_callback(&listener, wrong), 0);
	connect_to(&listener);
	server = duo_accept(&listener, NULL);
	NET_CHECK(NET_WAIT(connected(), NET_PATIENCE));
	NET_CHECK_EQ(tsock_send(&client, HELLO, strlen(HELLO), 0), strlen(HELLO));
	check_read(&server);
	NET_CHECK_EQ(set_callback(&listener, NULL), 0);
	finish();
}

/* The next socket may be the same object. */
static void closed(void *arg)
{
	begin();
	NET_CHECK_EQ(set_callback(&client, wrong), 0);
	tsock_close(&client);
	client = tsock_tcp();
	NET_CHECK_EQ(tsock_bind(&client, fake_link_addr(1), 0), 0);
	connect_to(&listener);
	hello(&listener);
	check_read(&client);
	finish();
}

#define CASES(X)               \
	X(before_connect)      \
	X(while_connecting)    \
	X(taken_back_before)   \
	X(for_each_connection) \
	X(of_a_listener)       \
	X(closed)

CASES(LOOP_NET_TEST)

static const struct CMUnitTest tests[] = {CASES(LOOP_NET_ENTRY)};

VMA_TEST_MAIN("callback_early", tests, loop_net_enter_group, NULL)
