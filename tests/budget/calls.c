/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that sends and receives one message at a time; steps counts its instructions.
 *
 *	calls IP PORT COUNT [local]
 *
 * An echo server is at IP and PORT, over UDP and TCP.  local: it is on this host, of TCP only, and
 * the datagrams go from one socket of this program to another.  The names are udp_send, udp_sendto,
 * tcp_recv...; each is counted COUNT times.  A received message has arrived at the port before
 * the call.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/budget/program.h"
#include "tools/bench/steps.h"

#define SIZE 14
#define WARM_UP 1.2    /* sec: the library's clock is calibrated once a second from then on */
#define WARM_UP_MIN 50 /* echoes */
#define SETTLE 3       /* echoes after a pause */

typedef ssize_t (*send_fn)(int, const void *, size_t, int);
typedef ssize_t (*recv_fn)(int, void *, size_t, int);
typedef ssize_t (*sendto_fn)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
typedef ssize_t (*recvfrom_fn)(int, void *, size_t, int, struct sockaddr *, socklen_t *);

static char message[SIZE] = "thirteen char";

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
	bool local;
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

/* sent: when the message that it answers was, if it is counted. */
static void receive_one(const struct conversation *c, bool count, uint64_t sent)
{
	recv_fn do_recv = (recv_fn)function("recv");
	recvfrom_fn do_recvfrom = (recvfrom_fn)function("recvfrom");
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[SIZE + 1];
	ssize_t n;

	if (count)
		steps_count_at(c->to ? (void *)do_recvfrom : (void *)do_recv, c->recv_name, sent);
	if (c->to)
		n = do_recvfrom(c->fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);
	else
		n = do_recv(c->fd, buf, sizeof(buf), 0);
	if (n != SIZE)
		die(c->recv_name);
}

/* As await_received(), of a connection that no link sees. */
static void await_local(int fd)
{
	int there = 0;

	for (int i = 0; i < 10000 && !ioctl(fd, FIONREAD, &there) && there < SIZE; i++)
		nap_msec(1);
}

/* A send and its answer, for which the receive has not waited, as far as it knows. */
static void converse_once(const struct conversation *c, bool count_send, bool count_recv)
{
	unsigned long before;
	uint64_t sent;

	/* The clock is calibrated here, if it is due, and not in the counted call. */
	for (int i = 0; i < SETTLE; i++) {
		send_one(c, false);
		receive_one(c, false, 0);
	}
	before = received_bytes();
	send_one(c, count_send);
	sent = steps_time();
	if (c->local)
		await_local(c->fd);
	else
		await_received(before, SIZE);
	receive_one(c, count_recv, sent);
}

static void converse(const struct conversation *c, int count)
{
	static double warm;

	if (!warm)
		warm = seconds() + WARM_UP;
	for (int i = 0; i < WARM_UP_MIN || seconds() < warm; i++) {
		send_one(c, false);
		receive_one(c, false, 0);
	}
	for (int i = 0; i < count; i++)
		converse_once(c, true, false);
	for (int i = 0; i < count; i++)
		converse_once(c, false, true);
}

static int connected(int type, const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, type, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		die("connect");
	return fd;
}

static void call_udp(const struct sockaddr_in *to, int count)
{
	struct conversation c = {socket(AF_INET, SOCK_DGRAM, 0), to, "udp_sendto", "udp_recvfrom",
				 false};

	converse(&c, count);
	close(c.fd);
	c = (struct conversation){connected(SOCK_DGRAM, to), NULL, "udp_send", "udp_recv", false};
	converse(&c, count);
	close(c.fd);
}

/* A message that was sent is there. */
static void call_udp_local(const struct sockaddr_in *to, int count)
{
	struct sockaddr_in at = *to, from;
	struct conversation in = {socket(AF_INET, SOCK_DGRAM, 0), NULL, NULL, "udp_recv", true},
			    out = {-1, NULL, "udp_send", NULL, true};
	struct conversation in_from = {in.fd, &from, NULL, "udp_recvfrom", true},
			    out_to = {socket(AF_INET, SOCK_DGRAM, 0), &at, "udp_sendto", NULL,
				      true};
	socklen_t len = sizeof(at);

	at.sin_port = 0;
	if (bind(in.fd, (struct sockaddr *)&at, len) ||
	    getsockname(in.fd, (struct sockaddr *)&at, &len))
		die("bind");
	for (int i = -WARM_UP_MIN; i < count; i++) {
		send_one(&out_to, i >= 0);
		receive_one(&in_from, i >= 0, 0);
	}
	close(out_to.fd);
	out.fd = connected(SOCK_DGRAM, &at);
	if (getsockname(out.fd, (struct sockaddr *)&from, &len) ||
	    connect(in.fd, (struct sockaddr *)&from, len))
		die("connect back");
	for (int i = -WARM_UP_MIN; i < count; i++) {
		send_one(&out, i >= 0);
		receive_one(&in, i >= 0, 0);
	}
	close(in.fd);
	close(out.fd);
}

static void call_tcp(const struct sockaddr_in *to, int count, bool local)
{
	struct conversation c = {connected(SOCK_STREAM, to), NULL, "tcp_send", "tcp_recv", local};

	converse(&c, count);
	close(c.fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	int count;

	if (argc < 4 || argc > 5 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 2;
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	count = atoi(argv[3]);
	if (argc == 4)
		call_udp(&to, count);
	else
		call_udp_local(&to, count);
	call_tcp(&to, count, argc == 5);
	return 0;
}
