/* SPDX-License-Identifier: BSD-2-Clause */
/* Rare calls, and calls in states that are rare: found by tests/walk/walk.c. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/look.h"

/* ---- splice(2) ----------------------------------------------------------------------------- */

static void make_pipe(int p[2])
{
	MUST(pipe2(p, O_NONBLOCK));
}

static void say_pipe(int p[2])
{
	char buf[100];
	ssize_t n = read(p[0], buf, sizeof(buf));

	say_bytes(buf, n > 0 ? (size_t)n : 0);
}

static void datagrams_server(void)
{
	int fd = udp_pair();

	MUST(send(fd, "one datagram", 12, 0));
	MUST(send(fd, "another one", 11, 0));
	MUST(send(fd, "", 0, 0));
	arrive();
	meet();
	close(fd);
}

/* One at a time; what the call has no room for is lost. */
static void datagrams_client(void)
{
	int fd = udp_pair(), p[2];

	make_pipe(p);
	arrive();
	SAY(splice(fd, NULL, p[1], NULL, 100, 0));
	say_pipe(p);
	SAY(splice(fd, NULL, p[1], NULL, 5, 0));
	say_pipe(p);
	SAY(splice(fd, NULL, p[1], NULL, 5, 0));
	set_nonblocking(fd, true);
	SAY(splice(fd, NULL, p[1], NULL, 5, 0));
	meet();
	close(p[0]);
	close(p[1]);
	close(fd);
}

static void resets_server(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "abc", 3, 0));
	await_acked(fd);
	close_with_reset(fd);
	meet();
}

/* The error is for the call that gets no bytes. */
static void splice_error_client(void)
{
	int fd = tcp_pair(), p[2];

	make_pipe(p);
	await(fd, POLLERR);
	SAY(splice(fd, NULL, p[1], NULL, 100, 0));
	say_pipe(p);
	look("after it", fd);
	SAY(splice(fd, NULL, p[1], NULL, 100, 0));
	SAY(splice(fd, NULL, p[1], NULL, 100, 0));
	meet();
	close(p[0]);
	close(p[1]);
	close(fd);
}

static void ends_server(void)
{
	int fd = tcp_pair();

	close(fd);
	meet();
}

/* The peer, which is gone, resets it. */
static void splice_late_client(void)
{
	int fd = tcp_pair(), p[2];

	make_pipe(p);
	set_nonblocking(fd, true);
	await(fd, POLLRDHUP);
	MUST(write(p[1], "bytes", 5));
	SAY(splice(p[0], NULL, fd, NULL, 5, 0));
	await(fd, POLLERR);
	look("after it", fd);
	meet();
	close(p[0]);
	close(p[1]);
	close(fd);
}

/* ---- the end of a connection ------------------------------------------------------------- */

static void resets_first_server(void)
{
	int listener = tcp_listening(0), fd;

	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	close_with_reset(fd);
	fd = (int)MUST(accept(listener, NULL, NULL));
	meet();
	close(fd);
	close(listener);
}

/* connect(2) has not been called again, and tells what has become of the connection. */
static void connect_told_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));

	meet();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLERR);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLOUT);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

static void refuses_server(void)
{
	int fd = tcp_pair();
	char buf[10];

	SAY(shutdown(fd, SHUT_RDWR));
	meet();
	arrive();
	look("after it", fd);
	SAY(recv(fd, buf, 10, 0));
	SAY(recv(fd, buf, 10, 0));
	meet();
	close(fd);
}

/* Bytes for a peer that has shut down both directions. */
static void refused_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	await(fd, POLLRDHUP);
	SAY(send(fd, "late", 4, MSG_NOSIGNAL));
	arrive();
	await(fd, POLLERR);
	look("after it", fd);
	SAY(send(fd, "later", 5, MSG_NOSIGNAL));
	SAY(recv(fd, buf, 10, 0));
	meet();
	close(fd);
}

static void fin_server(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "a", 1, 0));
	meet();
	meet();
	SAY(shutdown(fd, SHUT_WR));
	meet();
	close(fd);
}

static void say_edge(int ep)
{
	struct epoll_event event = {.events = 0};

	SAY(epoll_wait(ep, &event, 1, PATIENCE));
	say_events("edge", event.events);
}

/* An edge for whoever waits for anything, also if it has not been read before. */
static void fin_edge_client(void)
{
	int fd = tcp_pair(), ep = (int)MUST(epoll_create1(0));
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};

	meet();
	await(fd, POLLIN);
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	say_edge(ep);
	SAY(epoll_wait(ep, &event, 1, 0));
	meet();
	await(fd, POLLRDHUP);
	say_edge(ep);
	SAY(epoll_wait(ep, &event, 1, 0));
	meet();
	close(ep);
	close(fd);
}

/* ---- urgent data --------------------------------------------------------------------------- */

static void urgent_server(void)
{
	int fd = tcp_pair();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	MUST(send(fd, "U", 1, MSG_OOB));
	await_acked(fd);
	meet();
	meet();
	MUST(send(fd, "ab", 2, 0));
	await_acked(fd);
	meet();
	meet();
	close(fd);
}

static void say_unread(int fd)
{
	int n = -1, mark = -1;

	SAY(ioctl(fd, FIONREAD, &n));
	SAY(ioctl(fd, SIOCATMARK, &mark));
	say("%d bytes, mark %d", n, mark);
}

/* A peek leaves the byte, and those behind it do not count yet. */
static void peek_urgent_client(void)
{
	int fd = tcp_pair();
	char buf[10] = "";
	long n;

	meet();
	await(fd, POLLPRI);
	say_unread(fd);
	SAY(recv(fd, buf, 10, MSG_PEEK | MSG_DONTWAIT));
	look("peeked", fd);
	meet();
	meet();
	await(fd, POLLIN);
	say_unread(fd);
	n = SAY(recv(fd, buf, 10, MSG_PEEK));
	say_bytes(buf, n > 0 ? (size_t)n : 0);
	look("peeked", fd);
	say_unread(fd);
	memset(buf, 'z', sizeof(buf));
	SAY(recv(fd, buf, 10, MSG_OOB | MSG_TRUNC));
	say_bytes(buf, 1);
	look("urgent byte read", fd);
	n = SAY(recv(fd, buf, 10, 0));
	say_bytes(buf, n > 0 ? (size_t)n : 0);
	say_unread(fd);
	meet();
	close(fd);
}

/* A read of nothing else discards it. */
static void pass_urgent_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	await(fd, POLLPRI);
	SAY(recv(fd, buf, 10, MSG_DONTWAIT));
	look("passed", fd);
	SAY(recv(fd, buf, 10, MSG_OOB));
	say_unread(fd);
	meet();
	meet();
	await(fd, POLLIN);
	say_unread(fd);
	SAY(recv(fd, buf, 10, 0));
	meet();
	close(fd);
}

static void urgent_listener_server(void)
{
	int fd = tcp_listening(0);
	char buf[10];

	SAY(recv(fd, buf, 10, MSG_OOB));
	SAY(recv(fd, buf, 10, MSG_OOB | MSG_PEEK));
	SAY(recv(fd, buf, 10, 0));
	close(fd);
}

/* ---- which error ------------------------------------------------------------------------------ */

/* Nobody has port 9 of the server. */
static void refused_udp_client(void)
{
	struct sockaddr_in to = server_addr(9), nowhere = to;
	int fd = udp_bound(0);

	nowhere.sin_port = 0;
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	MUST(send(fd, "a", 1, 0));
	await(fd, POLLERR);
	SAY(sendto(fd, "a", 1, 0, (struct sockaddr *)&nowhere, sizeof(nowhere)));
	SAY(send(fd, "a", 1, MSG_OOB));
	SAY(send(fd, "a", 1, 0));
	close(fd);
}

const struct behaviour edges_behaviours[] = {
	{"splice_datagrams", datagrams_server, datagrams_client, OURS},
	{"splice_error", resets_server, splice_error_client, OURS},
	{"splice_late", ends_server, splice_late_client, OURS},
	{"connect_told", resets_first_server, connect_told_client, OURS},
	{"refused_bytes", refuses_server, refused_client, OURS},
	{"fin_edge", fin_server, fin_edge_client, OURS},
	{"peek_urgent", urgent_server, peek_urgent_client, OURS},
	{"pass_urgent", urgent_server, pass_urgent_client, OURS},
	{"urgent_listener", urgent_listener_server, NULL, OURS},
	{"refused_udp", NULL, refused_udp_client, KERNEL},
	{0},
};
