/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a socket is told of the time at which its data arrived:
 *
 *	stamps udp|tcp|callback ADDRESS PORT OPTION FLAGS
 *
 * OPTION: a number of SOL_SOCKET (SO_TIMESTAMPING: 37), FLAGS: its value.  tcp: by a listener, which has
 * the option.  callback: what the extra API tells.  Prints the time, "ready", and a line for each message:
 * its control messages, and the time when it was read.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

static bool called; /* the callback says what arrives */

__attribute__((noreturn)) static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static void say_time(const char *what, struct timespec ts)
{
	printf("%s %lld.%09ld ", what, (long long)ts.tv_sec, ts.tv_nsec);
}

static void say_now(const char *what)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	say_time(what, now);
	printf("\n");
	fflush(stdout);
}

static void say(const struct cmsghdr *c)
{
	struct timespec ts[3] = {{0}};
	size_t len = c->cmsg_len - CMSG_LEN(0);

	memcpy(ts, CMSG_DATA(c), len < sizeof(ts) ? len : sizeof(ts));
	printf("type %d ", c->cmsg_type);
	say_time("software", ts[0]);
	if (len == sizeof(ts))
		say_time("hardware", ts[2]);
}

static void receive(int fd)
{
	char bytes[2048], control[512];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &msg, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0)
		die("recvmsg");
	if (!n)
		exit(0);
	printf("message ");
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		say(c);
	say_now("read");
}

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec *iov,
					   struct vma_info_t *info, void *context)
{
	(void)fd;
	(void)n;
	(void)iov;
	(void)context;
	printf("message ");
	say_time("software", info->sw_timestamp);
	say_time("hardware", info->hw_timestamp);
	say_now("read");
	return VMA_PACKET_DROP;
}

static void register_callback(int fd)
{
	struct vma_api_t *api = NULL;
	socklen_t len = sizeof(api);

	if (getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &api, &len) || !api)
		die("no extra API");
	if (api->register_recv_callback(fd, callback, NULL))
		die("register_recv_callback");
	called = true;
}

static int accept_one(int fd)
{
	int conn;

	if (listen(fd, 8))
		die("listen");
	say_now("ready");
	conn = accept(fd, NULL, NULL);
	if (conn < 0)
		die("accept");
	return conn;
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	bool tcp = argc > 1 && !strcmp(argv[1], "tcp");
	int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0), value, one = 1;

	if (argc != 6 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((uint16_t)atoi(argv[3]));
	value = atoi(argv[5]);
	say_now("begin");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (setsockopt(fd, SOL_SOCKET, atoi(argv[4]), &value, sizeof(value)))
		die("setsockopt");
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die("bind");
	if (!strcmp(argv[1], "callback"))
		register_callback(fd);
	if (tcp)
		fd = accept_one(fd);
	else
		say_now("ready");
	for (;;) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};

		if (called) {
			char byte;

			recv(fd, &byte, 1, 0); /* the callback drops what arrives */
			continue;
		}
		if (poll(&pfd, 1, -1) < 0)
			die("poll");
		receive(fd);
	}
}
