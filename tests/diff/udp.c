/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams: what arrives, how much of it, from which address, and what a socket reports about
 * itself.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/diff/diff.h"

/* ---- senders and sizes ---------------------------------------------------------------- */

static void sender(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);

	meet();
	SAY(sendto(fd, "hello", 5, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(fd, "", 0, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(fd, "0123456789", 10, 0, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

static void from_server(void)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int fd = udp_bound(0);
	char buf[100];
	long n;

	meet();
	meet();
	n = SAY(recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len));
	say_bytes(buf, (size_t)n);
	say_addr("from", &from, len);
	len = 3;
	memset(&from, 0x5a, sizeof(from));
	SAY(recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len));
	say("length %u, fourth byte %#x", len, ((unsigned char *)&from)[3]);
	SAY(recvfrom(fd, buf, 4, 0, NULL, NULL));
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	close(fd);
}

/* ---- MSG_PEEK, MSG_TRUNC -------------------------------------------------------------- */

static void peek_server(void)
{
	int fd = udp_bound(0), n;
	char buf[100];

	meet();
	meet();
	SAY(recv(fd, buf, sizeof(buf), MSG_PEEK));
	SAY(recv(fd, buf, 2, MSG_PEEK));
	SAY(recv(fd, buf, 2, MSG_PEEK | MSG_TRUNC));
	SAY(ioctl(fd, FIONREAD, &n));
	say("readable: %d", n);
	SAY(recv(fd, buf, 2, MSG_TRUNC));
	SAY(ioctl(fd, FIONREAD, &n));
	say("readable: %d", n);
	SAY(recv(fd, buf, sizeof(buf), MSG_TRUNC));
	SAY(recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC));
	SAY(recv(fd, NULL, 0, 0));
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_PEEK));
	close(fd);
}

/* ---- MSG_OOB ---------------------------------------------------------------------------- */

/* There are no urgent datagrams: a receive does not look at the flag. */
static void oob_server(void)
{
	int fd = udp_bound(0);
	char buf[100];
	long n;

	meet();
	meet();
	SAY(recv(fd, buf, sizeof(buf), MSG_OOB | MSG_PEEK));
	n = SAY(recv(fd, buf, sizeof(buf), MSG_OOB));
	say_bytes(buf, (size_t)n);
	/* Through an emulated card the next one may come a moment later. */
	poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE);
	SAY(recv(fd, buf, sizeof(buf), MSG_OOB | MSG_DONTWAIT));
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(fd);
}

/* Of IPv4 a send fails; of IPv6 it does not look at the flag either. */
static void oob_send_client(void)
{
	struct sockaddr_in to = server_addr(9);
	int fd = udp_bound(0);

	SAY(sendto(fd, "x", 1, MSG_OOB, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
}

/* ---- addresses ------------------------------------------------------------------------ */

static void names_client(void)
{
	struct sockaddr_in sin, to = server_addr(0);
	socklen_t len = sizeof(sin);
	int fd = (int)SAY(socket(AF_INET, SOCK_DGRAM, 0));

	SAY(getsockname(fd, (struct sockaddr *)&sin, &len));
	say_addr("name", &sin, len);
	SAY(getpeername(fd, (struct sockaddr *)&sin, &len));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	len = sizeof(sin);
	SAY(getsockname(fd, (struct sockaddr *)&sin, &len));
	say_addr("name", &sin, len);
	len = sizeof(sin);
	SAY(getpeername(fd, (struct sockaddr *)&sin, &len));
	say_addr("peer", &sin, len);
	sin.sin_family = AF_UNSPEC;
	SAY(connect(fd, (struct sockaddr *)&sin, sizeof(sin)));
	len = sizeof(sin);
	SAY(getpeername(fd, (struct sockaddr *)&sin, &len));
	SAY(send(fd, "x", 1, 0));
	SAY(getsockname(fd, (struct sockaddr *)&sin, &len));
	say_addr("name", &sin, len);
	close(fd);
}

/* ---- a closed port -------------------------------------------------------------------- */

static void refused_client(void)
{
	int fd = udp_bound(1);
	struct sockaddr_in to = server_addr(9);
	char buf[10];

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, "x", 1, 0));
	await(fd, 0);
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	SAY(send(fd, "x", 1, 0));
	await(fd, 0);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	close(fd);
}

/* ---- a receiver that comes after the first datagram -------------------------------------------- */

#define NUMBERS 2000
#define AT_ONCE 20

static void late_client(void)
{
	int fd = udp_bound(1);
	struct sockaddr_in to = server_addr(0);
	char buf[10];

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, "early", 5, 0));
	await(fd, 0);
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	meet();
	meet();
	for (int i = 0; i < NUMBERS; i++) {
		MUST(send(fd, &i, sizeof(i), 0));
		if (i % AT_ONCE == AT_ONCE - 1)
			MUST(recv(fd, buf, sizeof(buf), 0));
	}
	meet();
	close(fd);
}

static void late_server(void)
{
	struct sockaddr_in from;
	int fd, number, wrong = 0;
	socklen_t len = sizeof(from);

	meet();
	fd = udp_bound(0);
	meet();
	for (int i = 0; i < NUMBERS; i++) {
		MUST(recvfrom(fd, &number, sizeof(number), 0, (struct sockaddr *)&from, &len));
		wrong += number != i;
		if (i % AT_ONCE == AT_ONCE - 1)
			MUST(sendto(fd, "go", 2, 0, (struct sockaddr *)&from, len));
	}
	say("%d out of order", wrong);
	SAY(recv(fd, &number, sizeof(number), MSG_DONTWAIT));
	meet();
	close(fd);
}

/* ---- what the kernel alone carries ---------------------------------------------------- */

/* The kernel binds a socket that sends to this host; the answers reach the socket. */
static void own_host_client(void)
{
	struct sockaddr_in here = {.sin_family = AF_INET}, from;
	int there = MUST(socket(AF_INET, SOCK_DGRAM, 0)), fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	struct timeval limit = {.tv_sec = 2};
	socklen_t len = sizeof(here);
	char buf[10];

	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(bind(there, (struct sockaddr *)&here, len));
	MUST(getsockname(there, (struct sockaddr *)&here, &len));
	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	for (int i = 0; i < 2; i++) {
		SAY(sendto(fd, "ask", 3, 0, (struct sockaddr *)&here, sizeof(here)));
		SAY(recvfrom(there, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len));
		SAY(sendto(there, "answer", 6, 0, (struct sockaddr *)&from, len));
		if (i) /* the second time, poll() reports it */
			await(fd, POLLIN);
		SAY(recv(fd, buf, sizeof(buf), 0));
	}
	close(there);
	close(fd);
}

const struct behaviour udp_behaviours[] = {
	{"from", from_server, sender, OURS},
	{"peek", peek_server, sender, OURS},
	{"oob", oob_server, sender, OURS},
	{"names", NULL, names_client, OURS},
	{"oob_send", NULL, oob_send_client, KERNEL},
	{"late", late_server, late_client, OURS},
	{"own_host", NULL, own_host_client, KERNEL},
	{"refused", NULL, refused_client, KERNEL},
	{0},
};
