/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receive callback that calls fork(): the child returns from the callback and from the call that it
 * ran in, uses the socket, and closes it; the parent goes on.
 *
 *	forks udp|tcp IP PORT N		of an echo server; N echoes, one by one
 *
 * Each third callback forks.  Prints how many children there were, and what was wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wait_in.h"

#define PATIENCE 5000 /* calls of 10 ms */

static struct vma_api_t *api;
static int sock, epfd;
static unsigned seen, children, bad, wanted;
static pid_t child = -1; /* 0: this is one */

static _Noreturn void die(const char *what)
{
	perror(what);
	_exit(1);
}

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	unsigned got;

	if (!child)
		_exit(3); /* a child has no callbacks */
	memcpy(&got, iov[0].iov_base, sizeof(got));
	if (got == ~0u)
		return VMA_PACKET_DROP; /* what a child has sent */
	if (fd != sock || n != 1 || context != &sock || got != seen)
		bad++;
	seen++;
	if (got % 3 == 0) {
		child = fork();
		if (child < 0)
			die("fork");
	}
	return got % 2 ? VMA_PACKET_RECV : VMA_PACKET_DROP;
}

/* In the child, behind the call.  Of a connection, it gets what the callback has passed. */
static _Noreturn void end_child(bool stream)
{
	struct pollfd p = {sock, POLLIN, 0};
	struct sockaddr_in name;
	socklen_t len = sizeof(name);
	unsigned number = ~0u;

	if (poll(&p, 1, 0) < 0)
		die("poll, child");
	if (getpeername(sock, (struct sockaddr *)&name, &len))
		die("getpeername, child");
	if (stream ? recv(sock, &number, sizeof(number), MSG_DONTWAIT) < 0 && errno != EAGAIN
		   : send(sock, &number, sizeof(number), 0) < 0)
		die("use, child");
	if (close(sock))
		die("close, child");
	_exit(0);
}

static void await_child(void)
{
	int status;

	children++;
	if (waitpid(child, &status, 0) != child || status) {
		printf("child %u: status %#x\n", children, status);
		bad++;
	}
	child = -1;
}

static void set_callback(void)
{
	if (api->register_recv_callback(sock, callback, &sock))
		die("register_recv_callback");
}

static void take(unsigned number, bool stream)
{
	unsigned got;

	for (int i = 0; seen <= number && i < PATIENCE; i++) {
		wait_in(sock, epfd, number / 3);
		if (!child)
			end_child(stream);
	}
	if (child > 0) {
		await_child();
		if (stream) /* the child had the connection */
			set_callback();
	}
	if (seen != number + 1)
		die("the callback was not called");
	/* What it has passed, unless recv() has got it. */
	while (recv(sock, &got, sizeof(got), MSG_DONTWAIT) > 0)
		;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct timeval tv = {0, 10000};
	struct epoll_event event = {.events = EPOLLIN};
	bool stream;

	if (argc != 5)
		return 2;
	stream = !strcmp(argv[1], "tcp");
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	wanted = (unsigned)atoi(argv[4]);
	api = vma_get_api();
	if (!api)
		return 3;
	sock = socket(AF_INET, stream ? SOCK_STREAM : SOCK_DGRAM, 0);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (sock < 0 || epfd < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)) ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ||
	    epoll_ctl(epfd, EPOLL_CTL_ADD, sock, &event))
		die("socket");
	set_callback();
	for (unsigned i = 0; i < wanted; i++) {
		if (send(sock, &i, sizeof(i), 0) != sizeof(i))
			die("send");
		take(i, stream);
	}
	printf("children %u\nbad %u\n", children, bad);
	return 0;
}
