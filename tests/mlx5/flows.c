/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets whose rules a test looks at.  Each prints "ready" when its frames arrive, and echoes.
 *
 *	flows tcp ADDRESS PORT			all connections of a listener
 *	flows udp ADDRESS PORT PEER PORT	one socket, connected to the peer; SHARED in the
 *						environment: with SO_REUSEADDR
 *	flows bulk ADDRESS PORT			sends BULK bytes to each connection, and closes it
 *	flows groups ADDRESS PORT GROUP...	a socket for each group, at PORT, PORT + 1 ...
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKETS 40
#define BULK 1000000

static struct pollfd fds[SOCKETS];
static int n_fds;

static void must(bool good, const char *what)
{
	if (good)
		return;
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static struct sockaddr_in address(const char *ip, int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	must(inet_pton(AF_INET, ip, &at.sin_addr) == 1, ip);
	return at;
}

static int add(int fd)
{
	must(fd >= 0 && n_fds < SOCKETS, "a socket");
	fds[n_fds++] = (struct pollfd){.fd = fd, .events = POLLIN};
	return fd;
}

static void bind_to(int fd, const char *ip, int port)
{
	struct sockaddr_in at = address(ip, port);

	must(!bind(fd, (struct sockaddr *)&at, sizeof(at)), "bind");
}

static void open_udp(char **argv)
{
	struct sockaddr_in peer = address(argv[4], atoi(argv[5]));
	int fd = add(socket(AF_INET, SOCK_DGRAM, 0)), on = 1;

	if (getenv("SHARED"))
		must(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "reuseaddr");
	bind_to(fd, argv[2], atoi(argv[3]));
	must(!connect(fd, (struct sockaddr *)&peer, sizeof(peer)), "connect");
}

static void open_groups(int argc, char **argv)
{
	for (int i = 4; i < argc; i++) {
		struct ip_mreq mreq = {address(argv[i], 0).sin_addr, address(argv[2], 0).sin_addr};
		int fd = add(socket(AF_INET, SOCK_DGRAM, 0)), on = 1;

		must(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "reuseaddr");
		bind_to(fd, argv[i], atoi(argv[3]) + i - 4);
		must(!setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &mreq, sizeof(mreq)), "join");
	}
}

static void echo(struct pollfd *fd, bool accepts)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char data[2048];
	ssize_t n;

	if (accepts) {
		add(accept(fd->fd, NULL, NULL));
		return;
	}
	n = recvfrom(fd->fd, data, sizeof(data), 0, (struct sockaddr *)&from, &len);
	if (n <= 0) {
		close(fd->fd);
		*fd = fds[--n_fds];
		return;
	}
	must(sendto(fd->fd, data, (size_t)n, 0, len ? (struct sockaddr *)&from : NULL, len) == n,
	     "sendto");
}

static void send_bulk(int fd)
{
	static char data[BULK];

	for (int i = 0; i < BULK; i++)
		data[i] = (char)(i % 251);
	must(fd >= 0, "accept");
	for (ssize_t at = 0, n; at < BULK; at += n) {
		n = send(fd, data + at, (size_t)(BULK - at), 0);
		must(n > 0, "send");
	}
	close(fd);
}

int main(int argc, char **argv)
{
	bool bulk = argc > 3 && !strcmp(argv[1], "bulk");
	bool tcp = bulk || (argc > 3 && !strcmp(argv[1], "tcp"));

	if (argc < 4)
		return 2;
	if (tcp) {
		bind_to(add(socket(AF_INET, SOCK_STREAM, 0)), argv[2], atoi(argv[3]));
		must(!listen(fds[0].fd, 10), "listen");
	} else if (!strcmp(argv[1], "udp") && argc == 6) {
		open_udp(argv);
	} else {
		open_groups(argc, argv);
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		if (bulk) {
			send_bulk(accept(fds[0].fd, NULL, NULL));
			continue;
		}
		must(poll(fds, (nfds_t)n_fds, -1) > 0, "poll");
		for (int i = n_fds - 1; i >= 0; i--)
			if (fds[i].revents)
				echo(&fds[i], tcp && !i);
	}
}
