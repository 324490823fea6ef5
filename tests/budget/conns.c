/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that opens and closes connections; steps counts its instructions.
 *
 *	conns connect IP PORT COUNT	opens one connection after the other; on each it sends
 *					a message and receives one, and closes first
 *	conns accept IP PORT COUNT	prints "ready"; accepts and closes connections
 *
 * The names are socket, connect, close, accept, and close_child.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/budget/program.h"
#include "tools/bench/steps.h"

#define PATIENCE 5000 /* msec */

typedef int (*socket_fn)(int, int, int);
typedef int (*connect_fn)(int, const struct sockaddr *, socklen_t);
typedef int (*accept4_fn)(int, struct sockaddr *, socklen_t *, int);
typedef int (*close_fn)(int);

/* Resolved before they are counted. */
static socket_fn do_socket;
static connect_fn do_connect;
static accept4_fn do_accept4;
static close_fn do_close;

static void await(int fd, short events)
{
	struct pollfd pfd = {.fd = fd, .events = events};

	if (poll(&pfd, 1, PATIENCE) != 1 || !(pfd.revents & events))
		die("poll");
}

static void converse(int fd)
{
	char word[] = "word", heard[sizeof(word)];

	if (send(fd, word, sizeof(word), 0) != sizeof(word))
		die("send");
	await(fd, POLLIN);
	if (recv(fd, heard, sizeof(heard), 0) != sizeof(word))
		die("recv");
}

/* Checks that run once a second shall not run in the counted calls. */
static void connect_one(const struct sockaddr_in *to, bool count)
{
	int fd;

	if (count)
		steps_count((void *)do_socket, "socket");
	fd = do_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	if (count)
		steps_count((void *)do_connect, "connect");
	if (!do_connect(fd, (const struct sockaddr *)to, sizeof(*to)) || errno != EINPROGRESS)
		die("connect");
	await(fd, POLLOUT);
	converse(fd);
	if (count)
		steps_count((void *)do_close, "close");
	if (do_close(fd))
		die("close");
}

static int listen_at(const struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)at, sizeof(*at)) || listen(fd, 128))
		die("listen");
	printf("ready\n");
	fflush(stdout);
	return fd;
}

static void accept_one(int listener)
{
	int fd;

	await(listener, POLLIN);
	steps_count((void *)do_accept4, "accept");
	fd = do_accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		die("accept");
	steps_count((void *)do_close, "close_child");
	if (do_close(fd))
		die("close");
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	int count, listener = -1;

	if (argc != 5 || inet_pton(AF_INET, argv[2], &sin.sin_addr) != 1)
		return 2;
	sin.sin_port = htons((uint16_t)atoi(argv[3]));
	count = atoi(argv[4]);
	do_socket = (socket_fn)function("socket");
	do_connect = (connect_fn)function("connect");
	do_accept4 = (accept4_fn)function("accept4");
	do_close = (close_fn)function("close");
	if (!strcmp(argv[1], "accept"))
		listener = listen_at(&sin);
	for (int i = 0; i < count; i++) {
		if (listener >= 0) {
			accept_one(listener);
			continue;
		}
		connect_one(&sin, false);
		connect_one(&sin, true);
	}
	return 0;
}
