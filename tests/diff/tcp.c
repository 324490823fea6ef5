/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: how they begin, what they transfer, how they end. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/diff/diff.h"

/* ---- bytes ---------------------------------------------------------------------------- */

static void echo_server(void)
{
	int fd = tcp_pair();
	char buf[100];
	long n;

	await_bytes(fd, 5);
	n = SAY(recv(fd, buf, sizeof(buf), 0));
	say_bytes(buf, (size_t)n);
	SAY(send(fd, buf, (size_t)n, 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(fd);
}

static void echo_client(void)
{
	int fd = tcp_pair();
	char buf[100];
	long n;

	SAY(send(fd, "hello", 5, 0));
	await_bytes(fd, 5);
	n = SAY(recv(fd, buf, sizeof(buf), MSG_PEEK));
	say_bytes(buf, (size_t)n);
	SAY(recv(fd, buf, 2, 0));
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	SAY(shutdown(fd, SHUT_WR));
	SAY(recv(fd, buf, sizeof(buf), 0));
	signal(SIGPIPE, SIG_IGN);
	SAY(send(fd, "x", 1, 0));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	signal(SIGPIPE, SIG_DFL);
	close(fd);
}

/* ---- MSG_WAITALL ---------------------------------------------------------------------- */

static void waitall_server(void)
{
	int fd = tcp_pair();
	char buf[100];

	SAY(recv(fd, buf, 10, MSG_WAITALL));
	SAY(recv(fd, buf, 10, MSG_WAITALL));
	SAY(recv(fd, buf, 10, MSG_WAITALL));
	close(fd);
}

static void waitall_client(void)
{
	int fd = tcp_pair();

	for (int i = 0; i < 14; i++) {
		MUST(send(fd, "0123456789", 1, 0));
		await_acked(fd);
	}
	close(fd);
}

/* ---- refused, and again --------------------------------------------------------------- */

static void refused_client(void)
{
	struct sockaddr_in to = server_addr(9);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(poll(&p, 1, 0));
	say_events("after refusal", (uint32_t)p.revents);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	set_nonblocking(fd, true);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLOUT);
	SAY(poll(&p, 1, 0));
	say_events("after refusal", (uint32_t)p.revents);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	close(fd);
}

/* ---- SIGPIPE -------------------------------------------------------------------------- */

static volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	pipes++;
}

static void sigpipe_server(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
	meet();
}

static void sigpipe_client(void)
{
	int fd = tcp_pair();
	char c;

	meet();
	signal(SIGPIPE, on_pipe);
	SAY(recv(fd, &c, 1, 0));
	SAY(send(fd, "x", 1, 0));
	await(fd, POLLHUP);
	SAY(send(fd, "x", 1, 0));
	say("signals: %d", pipes);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	say("signals: %d", pipes);
	SAY(write(fd, "x", 1));
	say("signals: %d", pipes);
	signal(SIGPIPE, SIG_DFL);
	meet();
	close(fd);
}

const struct behaviour tcp_behaviours[] = {
	{"echo", echo_server, echo_client, OURS},
	{"waitall", waitall_server, waitall_client, OURS},
	{"refused", NULL, refused_client, KERNEL},
	{"sigpipe", sigpipe_server, sigpipe_client, OURS},
	{0},
};
