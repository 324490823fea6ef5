/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that sends and receives one message at a time; steps counts its instructions.
 *
 *	calls IP PORT COUNT
 *
 * An echo server is at IP and PORT, over UDP and TCP.  The names are udp_send, udp_sendto,
 * tcp_recv...; each is counted COUNT times.  A received message has arrived at the port before
 * the call.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/budget/program.h"
#include "tools/bench/steps.h"

#define SIZE 14
#define ARRIVAL 5      /* msec: by then the echo has arrived */
#define WARM_UP 1.2    /* sec: the library's clock is calibrated once a second from then on */
#define WARM_UP_MIN 50 /* echoes */

typedef ssize_t (*send_fn)(int, const void *, size_t, int);
typedef ssize_t (*recv_fn)(int, void *, size_t, int);
typedef ssize_t (*sendto_fn)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
typedef ssize_t (*recvfrom_fn)(int, void *, size_t, int, struct sockaddr *, socklen_t *);

static char message[SIZE] = "thirteen char";

static void nap_msec(int msec)
{
	struct timespec ts = {.tv_nsec = msec * 1000000L};

	nanosleep(&ts, NULL);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct conversation {
	int fd;
	const struct sockaddr_in *to; /* destination, if not connected; else NULL */
	const char *send_name, *recv_name;
};

static void send_one(const struct conversation *c, bool count)
{
	send_fn do_send = (send_fn)function("send");
	sendto_fn do_sendto = (sendto_fn)function("sendto");
	ssize_t n;

	if (count)
		steps_count(c->to ? (void *)do_sendto : (void *)do_send, c->send_name);
	if (c->to)
		n = do_sendto(c->fd, message, SIZE, 0, (const struct sockaddr *)c->to,
			      sizeof(*c->to));
	else
		n = do_send(c->fd, message, SIZE, 0);
	if (n != SIZE)
		die(c->send_name);
}

static void receive_one(const struct conversation *c, bool count)
{
	recv_fn do_recv = (recv_fn)function("recv");
	recvfrom_fn do_recvfrom = (recvfrom_fn)function("recvfrom");
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[SIZE + 1];
	ssize_t n;

	if (count)
		steps_count(c->to ? (void *)do_recvfrom : (void *)do_recv, c->recv_name);
	if (c->to)
		n = do_recvfrom(c->fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);
	else
		n = do_recv(c->fd, buf, sizeof(buf), 0);
	if (n != SIZE)
		die(c->recv_name);
}

static void converse(const struct conversation *c, int count)
{
	static double warm;

	if (!warm)
		warm = seconds() + WARM_UP;
	for (int i = 0; i < WARM_UP_MIN || seconds() < warm; i++) {
		send_one(c, false);
		receive_one(c, false);
	}
	for (int i = 0; i < count; i++) {
		/* The clock is calibrated here, if it is due, and not in the counted call. */
		send_one(c, false);
		receive_one(c, false);
		send_one(c, true);
		nap_msec(ARRIVAL);
		receive_one(c, true);
	}
}

static int connected(int type, const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, type, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		die("connect");
	return fd;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct conversation c = {0};
	int count;

	if (argc != 4 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 2;
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	count = atoi(argv[3]);

	c = (struct conversation){socket(AF_INET, SOCK_DGRAM, 0), &to, "udp_sendto",
				  "udp_recvfrom"};
	converse(&c, count);
	close(c.fd);
	c = (struct conversation){connected(SOCK_DGRAM, &to), NULL, "udp_send", "udp_recv"};
	converse(&c, count);
	close(c.fd);
	c = (struct conversation){connected(SOCK_STREAM, &to), NULL, "tcp_send", "tcp_recv"};
	converse(&c, count);
	close(c.fd);
	return 0;
}
