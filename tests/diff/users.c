/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Servers that run as root, and whose forked workers become another user: the kernel serves
 * what a worker may not receive from an interface.
 */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define NOBODY 65534
#define CALLS 3

/* How a worker waits for its listener; it checks once before a client connects. */
enum how { BY_ACCEPT, BY_EPOLL, BY_EPOLL_EDGE, BY_POLL, BY_SELECT };

struct crew {
	int fd, ready[2];
	enum how how;
};

static void become_nobody(void)
{
	if (geteuid() == NOBODY)
		return;
	MUST(setgroups(0, NULL));
	MUST(setgid(NOBODY));
	MUST(setuid(NOBODY));
}

static struct crew *crew_of(int fd, enum how how)
{
	static struct crew crew;

	crew.fd = fd;
	crew.how = how;
	MUST(pipe(crew.ready));
	return &crew;
}

static void crew_end(struct crew *crew)
{
	close(crew->ready[0]);
	close(crew->ready[1]);
}

static void ready(struct crew *crew)
{
	if (write(crew->ready[1], "x", 1) != 1)
		say("the pipe has no other end");
}

static void await_ready(struct crew *crew)
{
	char c;

	if (read(crew->ready[0], &c, 1) != 1)
		say("the pipe has no other end");
}

/* ---- listeners --------------------------------------------------------------------------- */

static int look_by_select(int fd, int msec)
{
	struct timeval tv = {msec / 1000, msec % 1000 * 1000};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &tv);
}

/* Is there a connection? Waits for it, PATIENCE at most, unless it is the first check. */
static void look(const struct crew *crew, int epfd, bool first)
{
	struct pollfd pfd = {.fd = crew->fd, .events = POLLIN};
	struct epoll_event ev;
	int msec = first ? 0 : PATIENCE;

	switch (crew->how) {
	case BY_ACCEPT:
		set_nonblocking(crew->fd, first);
		if (first)
			SAY(accept(crew->fd, NULL, NULL));
		return;
	case BY_EPOLL:
	case BY_EPOLL_EDGE:
		SAY(epoll_wait(epfd, &ev, 1, msec));
		return;
	case BY_POLL:
		SAY(poll(&pfd, 1, msec));
		return;
	case BY_SELECT:
		SAY(look_by_select(crew->fd, msec));
		return;
	}
}

static int work(void *arg)
{
	struct crew *crew = arg;
	struct epoll_event ev = {.events = EPOLLIN};
	int epfd = (int)MUST(epoll_create1(0));

	become_nobody();
	if (crew->how == BY_EPOLL_EDGE)
		ev.events |= EPOLLET;
	if (crew->how == BY_EPOLL || crew->how == BY_EPOLL_EDGE)
		SAY(epoll_ctl(epfd, EPOLL_CTL_ADD, crew->fd, &ev));
	look(crew, epfd, true);
	ready(crew);
	for (int i = 0; i < CALLS; i++) {
		int fd;

		look(crew, epfd, false);
		fd = accept(crew->fd, NULL, NULL);
		say("accept: %s", fd < 0 ? "failed" : "a connection");
		pong(fd);
		close(fd);
	}
	return 0;
}

/* Two workers, one after the other, as in a reload; the master only watches. */
static void serve_by(enum how how)
{
	int listener = tcp_listening(1);
	struct crew *crew = crew_of(listener, how);

	for (int i = 0; i < 2; i++) {
		int pid = spawn(work, crew);

		await_ready(crew);
		meet();
		join(pid);
	}
	close(listener);
	crew_end(crew);
}

static void accept_server(void)
{
	serve_by(BY_ACCEPT);
}

static void epoll_server(void)
{
	serve_by(BY_EPOLL);
}

static void epoll_edge_server(void)
{
	serve_by(BY_EPOLL_EDGE);
}

static void poll_server(void)
{
	serve_by(BY_POLL);
}

static void select_server(void)
{
	serve_by(BY_SELECT);
}

/* The master closes what it opened for its worker. */
static void closed_server(void)
{
	int listener = tcp_listening(1), pid;
	struct crew *crew = crew_of(listener, BY_EPOLL);

	pid = spawn(work, crew);
	close(listener);
	await_ready(crew);
	meet();
	join(pid);
	crew_end(crew);
}

static void call(void)
{
	struct sockaddr_in to = server_addr(1);

	for (int i = 0; i < CALLS; i++) {
		int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

		SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
		ping(fd, "hello");
		expect_end(fd);
		close(fd);
	}
}

static void call_once_client(void)
{
	meet();
	call();
}

static void call_twice_client(void)
{
	for (int i = 0; i < 2; i++)
		call_once_client();
}

/* ---- datagrams ------------------------------------------------------------------------------ */

static int receive(void *arg)
{
	struct crew *crew = arg;
	char text[32];

	become_nobody();
	SAY(recv(crew->fd, text, sizeof(text), MSG_DONTWAIT));
	ready(crew);
	for (int i = 0; i < CALLS; i++) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t n =
			recvfrom(crew->fd, text, sizeof(text), 0, (struct sockaddr *)&from, &len);

		say_bytes(text, n > 0 ? (size_t)n : 0);
		SAY(sendto(crew->fd, text, 2, 0, (struct sockaddr *)&from, len));
	}
	return 0;
}

static void datagrams_server(void)
{
	int fd = udp_bound(1), pid;
	struct crew *crew = crew_of(fd, BY_ACCEPT);

	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	pid = spawn(receive, crew);
	await_ready(crew);
	meet();
	join(pid);
	close(fd);
	crew_end(crew);
}

static void datagrams_client(void)
{
	struct sockaddr_in to = server_addr(1);
	int fd = udp_bound(1);

	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	for (int i = 0; i < CALLS; i++)
		ping(fd, "hi");
	close(fd);
}

/* ---- connections ---------------------------------------------------------------------------- */

static int talk(void *arg)
{
	struct crew *crew = arg;

	become_nobody();
	pong(crew->fd);
	pong(crew->fd);
	close(crew->fd);
	return 0;
}

/* Unread and unsent data moves with the connection. */
static void connection_server(void)
{
	int fd = tcp_pair(), pid;
	struct crew *crew = crew_of(fd, BY_ACCEPT);

	pong(fd);
	meet();
	await_bytes(fd, 5);
	pid = spawn(talk, crew);
	close(fd);
	join(pid);
	crew_end(crew);
}

static int talk_by_epoll(void *arg)
{
	struct crew *crew = arg;
	struct epoll_event ev = {.events = EPOLLIN};
	int epfd = (int)MUST(epoll_create1(0));

	become_nobody();
	SAY(epoll_ctl(epfd, EPOLL_CTL_ADD, crew->fd, &ev));
	for (int i = 0; i < 2; i++) {
		SAY(epoll_wait(epfd, &ev, 1, PATIENCE));
		pong(crew->fd);
	}
	SAY(epoll_ctl(epfd, EPOLL_CTL_DEL, crew->fd, NULL));
	return 0;
}

/* The master always has it open, and continues to use it. */
static void shared_server(void)
{
	int fd = tcp_pair(), pid;
	struct crew *crew = crew_of(fd, BY_EPOLL);

	pong(fd);
	meet();
	pid = spawn(talk_by_epoll, crew);
	join(pid);
	pong(fd);
	close(fd);
	crew_end(crew);
}

/* Through a process in between, which is also user nobody. */
static int pass_on(void *arg)
{
	become_nobody();
	join(spawn(talk_by_epoll, arg));
	return 0;
}

static void grandchild_server(void)
{
	int fd = tcp_pair(), pid;
	struct crew *crew = crew_of(fd, BY_EPOLL);

	pong(fd);
	meet();
	pid = spawn(pass_on, crew);
	join(pid);
	pong(fd);
	close(fd);
	crew_end(crew);
}

static void talk_client(int pings)
{
	int fd = tcp_pair();

	ping(fd, "first");
	meet();
	for (int i = 0; i < pings; i++)
		ping(fd, "again");
	expect_end(fd);
	close(fd);
}

static void two_pings_client(void)
{
	talk_client(2);
}

static void three_pings_client(void)
{
	talk_client(3);
}

const struct behaviour users_behaviours[] = {
	{"accept", accept_server, call_twice_client, KERNEL},
	{"epoll", epoll_server, call_twice_client, KERNEL},
	{"epoll_edge", epoll_edge_server, call_twice_client, KERNEL},
	{"poll", poll_server, call_twice_client, KERNEL},
	{"select", select_server, call_twice_client, KERNEL},
	{"closed", closed_server, call_once_client, KERNEL},
	{"datagrams", datagrams_server, datagrams_client, KERNEL},
	{"connection", connection_server, two_pings_client, KERNEL},
	{"shared", shared_server, three_pings_client, KERNEL},
	{"grandchild", grandchild_server, three_pings_client, KERNEL},
	{NULL, NULL, NULL, OURS},
};
