/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that several processes share: after fork(), in turns, at once, until the last one
 * closes.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/diff/diff.h"

/* ---- what both sides do in many of them -------------------------------------------- */

static void expect_quiet(const char *what, int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	say("%s: %s", what, poll(&p, 1, ms) ? "something came" : "quiet");
}

/* What a child gets: a socket, and pipes that make it continue. */
struct share {
	int fd, go[2], done[2];
};

static struct share *share_of(int fd)
{
	static struct share s;

	s.fd = fd;
	MUST(pipe(s.go));
	MUST(pipe(s.done));
	return &s;
}

static void step(int pipe_fd[2])
{
	if (write(pipe_fd[1], "x", 1) != 1)
		say("the pipe has no other end");
}

static void await_step(int pipe_fd[2])
{
	char c;

	if (read(pipe_fd[0], &c, 1) != 1)
		say("the pipe has no other end");
}

static void share_end(struct share *s)
{
	for (int i = 0; i < 2; i++) {
		close(s->go[i]);
		close(s->done[i]);
	}
}

/* ---- accept, fork, close ----------------------------------------------------------- */

static int echo_and_close(void *arg)
{
	struct share *s = arg;

	pong(s->fd);
	pong(s->fd);
	close(s->fd);
	return 0;
}

static void child_echoes_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(echo_and_close, s);
	close(fd);
	join(pid);
	share_end(s);
}

static void two_pings_client(void)
{
	int fd = tcp_pair();

	ping(fd, "hello");
	ping(fd, "and again");
	expect_end(fd);
	close(fd);
}

/* ---- close ------------------------------------------------------------------------- */

static int close_and_exit(void *arg)
{
	struct share *s = arg;

	close(s->fd);
	return 0;
}

static void child_closes_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);

	join(spawn(close_and_exit, s));
	pong(fd);
	pong(fd);
	close(fd);
	share_end(s);
}

static int wait_and_exit(void *arg)
{
	struct share *s = arg;

	await_step(s->go);
	return 0;
}

static void parent_closes_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(wait_and_exit, s);
	pong(fd);
	close(fd);
	meet();
	meet();
	step(s->go);
	join(pid);
	share_end(s);
}

static void parent_closes_client(void)
{
	int fd = tcp_pair();

	ping(fd, "hello");
	meet();
	expect_quiet("the child still has it", fd, 150);
	meet();
	expect_end(fd);
	close(fd);
}

static int use_when_told(void *arg)
{
	struct share *s = arg;

	await_step(s->go);
	pong(s->fd);
	close(s->fd);
	return 0;
}

static void used_after_the_parent_closed_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(use_when_told, s);
	pong(fd);
	close(fd);
	let_pass(100, "nothing comes of that close()");
	step(s->go);
	join(pid);
	share_end(s);
}

static void many_children_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);

	for (int i = 0; i < 5; i++)
		spawn(wait_and_exit, s);
	pong(fd);
	close(fd);
	meet();
	meet();
	for (int i = 0; i < 5; i++) {
		siginfo_t ended;

		step(s->go);
		MUST(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT));
		join(ended.si_pid);
	}
	share_end(s);
}

/* ---- in turns ---------------------------------------------------------------------- */

static int every_second(void *arg)
{
	struct share *s = arg;

	for (int i = 0; i < 10; i++) {
		await_step(s->go);
		pong(s->fd);
		step(s->done);
	}
	return 0;
}

static void turns_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(every_second, s);
	for (int i = 0; i < 10; i++) {
		pong(fd);
		step(s->go);
		await_step(s->done);
	}
	join(pid);
	close(fd);
	share_end(s);
}

static void turns_client(void)
{
	int fd = tcp_pair();

	for (int i = 0; i < 20; i++)
		ping(fd, i & 1 ? "for the child" : "for the parent");
	expect_end(fd);
	close(fd);
}

static void turns_of_the_client(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 5; i++) {
			await_step(s->go);
			ping(fd, "from the child");
			step(s->done);
		}
		close(fd);
		_exit(0);
	}
	for (int i = 0; i < 5; i++) {
		ping(fd, "from the parent");
		step(s->go);
		await_step(s->done);
	}
	join(pid);
	close(fd);
	share_end(s);
}

static void echo_ten_server(void)
{
	int fd = tcp_pair();

	for (int i = 0; i < 10; i++)
		pong(fd);
	expect_end(fd);
	close(fd);
}

/* Tells the peer when the byte has arrived. */
static int one_byte(void *arg)
{
	struct share *s = arg;
	char c;
	long n = recv(s->fd, &c, 1, 0);

	tell(n);
	return n == 1 ? 0 : 1;
}

/* Both processes wait for a byte at the same time: each gets one. */
static void both_wait_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(one_byte, s);
	await_blocked(pid);
	meet();
	say_result("the parent", one_byte(s));
	join(pid);
	close(fd);
	share_end(s);
}

static void both_wait_client(void)
{
	int fd = tcp_pair();

	meet();
	await_other_blocked();
	SAY(send(fd, "1", 1, 0));
	SAY(hear());
	SAY(send(fd, "2", 1, 0));
	SAY(hear());
	expect_end(fd);
	close(fd);
}

/* ---- unread and unsent bytes ------------------------------------------------------- */

#define MUCH 100000

static uint8_t much[MUCH];

static void fill_much(void)
{
	for (int i = 0; i < MUCH; i++)
		much[i] = (uint8_t)(i * 31 >> 3);
}

static int read_much(void *arg)
{
	struct share *s = arg;
	static uint8_t got[MUCH];
	size_t n = 0;
	ssize_t rc;

	while (n < MUCH && (rc = recv(s->fd, got + n, MUCH - n, 0)) > 0)
		n += (size_t)rc;
	say_bytes(got, n);
	close(s->fd);
	return 0;
}

static void unread_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);
	char first[10];

	meet();
	SAY(recv(fd, first, 10, MSG_WAITALL));
	pid = spawn(read_much, s);
	close(fd);
	join(pid);
	share_end(s);
}

static void unread_client(void)
{
	int fd = tcp_pair();

	fill_much();
	SAY(send(fd, "0123456789", 10, 0));
	SAY(send(fd, much, 50000, 0));
	meet();
	SAY(send(fd, much + 50000, MUCH - 50000, 0));
	expect_end(fd);
	close(fd);
}

static int send_rest(void *arg)
{
	struct share *s = arg;

	SAY(send(s->fd, much + 60000, MUCH - 60000, 0));
	close(s->fd);
	return 0;
}

static void unsent_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	fill_much();
	SAY(send(fd, much, 60000, 0));
	pid = spawn(send_rest, s);
	join(pid);
	meet();
	close(fd);
	share_end(s);
}

static void unsent_client(void)
{
	int fd = tcp_pair();
	struct share s = {.fd = fd};

	meet();
	read_much(&s);
}

static int send_nothing(void *arg)
{
	struct share *s = arg;
	char c;

	/* The reader gets what had arrived when the other process read last. */
	SAY(recv(s->fd, &c, 1, MSG_PEEK));
	SAY(recv(s->fd, &c, 1, 0));
	say("%c", c);
	return 0;
}

static void peek_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);
	char c;

	await_bytes(fd, 3);
	SAY(recv(fd, &c, 1, 0));
	say("%c", c);
	join(spawn(send_nothing, s));
	SAY(recv(fd, &c, 1, 0));
	say("%c", c);
	close(fd);
	share_end(s);
}

static void abc_client(void)
{
	int fd = tcp_pair();

	SAY(send(fd, "abc", 3, 0));
	expect_end(fd);
	close(fd);
}

/* ---- shutdown, options, names ------------------------------------------------------ */

static int shut_writing(void *arg)
{
	struct share *s = arg;

	SAY(shutdown(s->fd, SHUT_WR));
	return 0;
}

static void shutdown_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);

	join(spawn(shut_writing, s));
	meet();
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	pong(fd);
	close(fd);
	share_end(s);
}

static void shutdown_client(void)
{
	int fd = tcp_pair();

	expect_end(fd);
	meet();
	SAY(send(fd, "still open this way", 19, 0));
	close(fd);
}

static int look_at_options(void *arg)
{
	struct share *s = arg;

	say("nodelay %d", get_int(s->fd, IPPROTO_TCP, TCP_NODELAY) != 0);
	say("rcvlowat %d", get_int(s->fd, SOL_SOCKET, SO_RCVLOWAT));
	say("keepalive %d", get_int(s->fd, SOL_SOCKET, SO_KEEPALIVE));
	say("keepidle %d", get_int(s->fd, IPPROTO_TCP, TCP_KEEPIDLE));
	set_int(s->fd, IPPROTO_TCP, TCP_KEEPIDLE, 77);
	set_int(s->fd, SOL_SOCKET, SO_RCVLOWAT, 4);
	return 0;
}

static void options_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 3);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 55);
	join(spawn(look_at_options, s));
	say("keepidle %d", get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE));
	say("rcvlowat %d", get_int(fd, SOL_SOCKET, SO_RCVLOWAT));
	say("nodelay %d", get_int(fd, IPPROTO_TCP, TCP_NODELAY) != 0);
	close(fd);
	share_end(s);
}

static void silent_client(void)
{
	int fd = tcp_pair();

	expect_end(fd);
	close(fd);
}

static int look_at_names(void *arg)
{
	struct share *s = arg;
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);

	SAY(getsockname(s->fd, (struct sockaddr *)&sin, &len));
	say_addr("local", &sin, len);
	SAY(getpeername(s->fd, (struct sockaddr *)&sin, &len));
	say_addr("peer", &sin, len);
	say("type %d, error %d", get_int(s->fd, SOL_SOCKET, SO_TYPE),
	    get_int(s->fd, SOL_SOCKET, SO_ERROR));
	return 0;
}

static void names_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);

	join(spawn(look_at_names, s));
	look_at_names(s);
	close(fd);
	share_end(s);
}

/* ---- connect(2) of a connection that came from another process ----------------------- */

static int connect_again(void *arg)
{
	struct share *s = arg;
	struct sockaddr_in to = server_addr(1);

	SAY(connect(s->fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(s->fd, (struct sockaddr *)&to, sizeof(to)));
	return 0;
}

static void connected_server(void)
{
	struct share *s = share_of(tcp_pair());

	join(spawn(connect_again, s));
	connect_again(s);
	close(s->fd);
	share_end(s);
}

/* No call has reported that the connection is established: the child's does. */
static void unreported_client(void)
{
	struct sockaddr_in to = server_addr(0);
	struct share *s = share_of((int)MUST(socket(AF_INET, SOCK_STREAM, 0)));

	meet();
	set_nonblocking(s->fd, true);
	SAY(connect(s->fd, (struct sockaddr *)&to, sizeof(to)));
	await(s->fd, POLLOUT);
	join(spawn(connect_again, s));
	connect_again(s);
	close(s->fd);
	share_end(s);
}

static void unreported_server(void)
{
	int listener = tcp_listening(0), fd;

	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	expect_end(fd);
	close(fd);
	close(listener);
}

static int make_nonblocking(void *arg)
{
	struct share *s = arg;

	set_nonblocking(s->fd, true);
	return 0;
}

static void nonblocking_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);
	char c;

	join(spawn(make_nonblocking, s));
	SAY((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
	SAY(recv(fd, &c, 1, 0));
	close(fd);
	share_end(s);
}

/*
 * O_NONBLOCK belongs to the file: set by one process, it holds for all that share the
 * socket.
 */
static void nonblocking_listener_server(void)
{
	struct share *s = share_of(tcp_listening(1));

	join(spawn(make_nonblocking, s));
	SAY(accept(s->fd, NULL, NULL));
	close(s->fd);
	share_end(s);
}

static void nonblocking_datagrams_server(void)
{
	struct share *s = share_of(udp_bound(1));
	char c;

	join(spawn(make_nonblocking, s));
	SAY(recv(s->fd, &c, 1, 0));
	close(s->fd);
	share_end(s);
}

static int make_blocking(void *arg)
{
	struct share *s = arg;

	set_nonblocking(s->fd, false);
	return 0;
}

/* Cleared by another process, it does not hold any more: the call waits. */
static void blocking_again(struct share *s)
{
	char c;

	set_nonblocking(s->fd, true);
	SAY(recv(s->fd, &c, 1, 0));
	SAY(recv(s->fd, &c, 1, 0));
	join(spawn(make_blocking, s));
	meet();
	SAY(recv(s->fd, &c, 1, 0));
	SAY(recv(s->fd, &c, 1, MSG_DONTWAIT));
	meet();
	close(s->fd);
	share_end(s);
}

static void blocking_again_server(void)
{
	blocking_again(share_of(tcp_pair()));
}

static void blocking_datagrams_again_server(void)
{
	blocking_again(share_of(udp_pair()));
}

static void send_to_who_waits(int fd)
{
	meet();
	await_other_blocked();
	SAY(send(fd, "x", 1, 0));
	meet();
	close(fd);
}

static void blocking_again_client(void)
{
	send_to_who_waits(tcp_pair());
}

static void blocking_datagrams_again_client(void)
{
	send_to_who_waits(udp_pair());
}

static void nothing_client(void)
{
}

/* ---- readiness --------------------------------------------------------------------- */

static int poll_in_child(void *arg)
{
	struct share *s = arg;
	struct pollfd p = {.fd = s->fd, .events = POLLIN | POLLOUT};

	SAY(poll(&p, 1, PATIENCE));
	say_events("poll", (uint32_t)p.revents);
	step(s->done);
	p.events = POLLIN;
	SAY(poll(&p, 1, PATIENCE));
	say_events("poll", (uint32_t)p.revents);
	pong(s->fd);
	return 0;
}

static void poll_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(poll_in_child, s);
	await_step(s->done);
	meet();
	join(pid);
	close(fd);
	share_end(s);
}

static void ping_after_meeting_client(void)
{
	int fd = tcp_pair();

	meet();
	ping(fd, "now");
	expect_end(fd);
	close(fd);
}

static int epoll_in_child(void *arg)
{
	struct share *s = arg;
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = (int)MUST(epoll_create1(0));

	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &ev));
	SAY(epoll_wait(ep, &ev, 1, 0));
	step(s->done);
	SAY(epoll_wait(ep, &ev, 1, PATIENCE));
	say_events("epoll", ev.events);
	pong(s->fd);
	SAY(epoll_wait(ep, &ev, 1, 0));
	close(ep);
	return 0;
}

static void epoll_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(epoll_in_child, s);
	await_step(s->done);
	meet();
	join(pid);
	close(fd);
	share_end(s);
}

static int poll_forever(void *arg)
{
	struct share *s = arg;

	step(s->done);
	return poll(&(struct pollfd){.fd = s->fd, .events = POLLIN}, 1, PATIENCE) == 1 ? 0 : 1;
}

/* The child waits in poll() while the parent uses the connection: both see what arrives. */
static void poll_while_used_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);
	char c;

	pid = spawn(poll_forever, s);
	await_step(s->done);
	await_blocked(pid);
	SAY(send(fd, "x", 1, 0));
	join(pid);
	SAY(recv(fd, &c, 1, 0));
	close(fd);
	share_end(s);
}

static void answer_once_client(void)
{
	int fd = tcp_pair();
	char c;

	SAY(recv(fd, &c, 1, 0));
	SAY(send(fd, "y", 1, 0));
	expect_end(fd);
	close(fd);
}

/* ---- children of children ---------------------------------------------------------- */

static int fork_and_wait(void *arg)
{
	join(spawn(echo_and_close, arg));
	return 0;
}

static void grandchild_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(fork_and_wait, s);
	close(fd);
	join(pid);
	share_end(s);
}

static int fork_and_exit(void *arg)
{
	struct share *s = arg;

	if (fork() == 0) {
		await_step(s->go); /* its parent has ended */
		echo_and_close(s);
		step(s->done);
		_exit(0);
	}
	return 0;
}

/* As a daemon: the process between the two has ended. */
static void twice_forked_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);

	join(spawn(fork_and_exit, s));
	step(s->go);
	close(fd);
	await_step(s->done);
	share_end(s);
}

/* It owns the connection, and its child inherits it. */
static int use_fork_and_exit(void *arg)
{
	struct share *s = arg;

	pong(s->fd);
	if (fork() == 0) {
		await_step(s->go);
		pong(s->fd);
		close(s->fd);
		step(s->done);
		_exit(0);
	}
	return 0;
}

static void owner_exits_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(use_fork_and_exit, s);
	close(fd);
	join(pid);
	step(s->go);
	await_step(s->done);
	share_end(s);
}

/* ---- unexpected ends --------------------------------------------------------------- */

static int use_and_wait(void *arg)
{
	struct share *s = arg;

	pong(s->fd);
	step(s->done);
	await_step(s->go);
	return 0;
}

static void idle_child_killed_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(wait_and_exit, s);
	kill(pid, SIGKILL);
	join(pid);
	pong(fd);
	pong(fd);
	close(fd);
	share_end(s);
}

static void used_and_exited_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(use_and_wait, s);
	await_step(s->done);
	pong(fd);
	step(s->go);
	join(pid);
	close(fd);
	share_end(s);
}

static int aborting(void *arg)
{
	struct share *s = arg;

	close_with_reset(s->fd);
	return 0;
}

static void linger_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);

	join(spawn(aborting, s));
	pong(fd);
	meet();
	close(fd);
	share_end(s);
}

static void linger_client(void)
{
	int fd = tcp_pair();
	char c;

	ping(fd, "still here");
	meet();
	await(fd, POLLIN);
	SAY(recv(fd, &c, 1, 0));
	close(fd);
}

/* Every process that reads sees the peer's FIN. */
static int read_end(void *arg)
{
	struct share *s = arg;

	expect_end(s->fd);
	return 0;
}

static void both_see_the_end_server(void)
{
	int fd = tcp_pair();
	struct share *s = share_of(fd);

	join(spawn(read_end, s));
	expect_end(fd);
	join(spawn(read_end, s));
	close(fd);
	share_end(s);
}

static void leave_client(void)
{
	close(tcp_pair());
}

static void reset_client(void)
{
	int fd = tcp_pair();

	meet();
	close_with_reset(fd);
}

static int read_reset(void *arg)
{
	struct share *s = arg;
	char c;

	SAY(recv(s->fd, &c, 1, 0));
	SAY(recv(s->fd, &c, 1, 0));
	SAY(send(s->fd, "x", 1, MSG_NOSIGNAL));
	return 0;
}

static void reset_server(void)
{
	int fd = tcp_pair(), pid;
	struct share *s = share_of(fd);

	pid = spawn(read_reset, s);
	await_blocked(pid);
	meet();
	join(pid);
	SAY(recv(fd, much, 1, 0));
	close(fd);
	share_end(s);
}

/* ---- many -------------------------------------------------------------------------- */

#define SOME 20

static void many_connections_server(void)
{
	int listener = tcp_listening(1), fds[SOME], pid;
	struct share *s = share_of(-1);

	meet();
	for (int i = 0; i < SOME; i++)
		fds[i] = (int)MUST(accept(listener, NULL, NULL));
	pid = spawn(wait_and_exit, s);
	for (int i = 0; i < SOME; i++)
		pong(fds[i]);
	meet();
	step(s->go);
	join(pid);
	for (int i = 0; i < SOME; i++)
		close(fds[i]);
	close(listener);
	share_end(s);
}

static void many_connections_client(void)
{
	struct sockaddr_in to = server_addr(1);
	int fds[SOME];

	meet();
	for (int i = 0; i < SOME; i++) {
		fds[i] = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
		MUST(connect(fds[i], (struct sockaddr *)&to, sizeof(to)));
	}
	for (int i = 0; i < SOME; i++)
		ping(fds[i], "one of many");
	meet();
	for (int i = 0; i < SOME; i++) {
		expect_end(fds[i]);
		close(fds[i]);
	}
}

static void one_child_each_server(void)
{
	int listener = tcp_listening(1), pids[SOME];
	struct share *s = share_of(-1);

	meet();
	for (int i = 0; i < SOME; i++) {
		s->fd = (int)MUST(accept(listener, NULL, NULL));
		pids[i] = spawn(echo_and_close, s);
		close(s->fd);
		join(pids[i]);
	}
	close(listener);
	share_end(s);
}

static void one_child_each_client(void)
{
	struct sockaddr_in to = server_addr(1);

	meet();
	for (int i = 0; i < SOME; i++) {
		int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

		MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
		ping(fd, "hello");
		ping(fd, "child");
		expect_end(fd);
		close(fd);
	}
}

/* ---- listeners --------------------------------------------------------------------- */

static int accept_and_echo(int listener)
{
	int fd = (int)MUST(accept(listener, NULL, NULL));
	char buf[100];
	long n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		if (send(fd, buf, (size_t)n, 0) != n)
			break;
	return close(fd);
}

static int accept_one(void *arg)
{
	struct share *s = arg;

	return accept_and_echo(s->fd);
}

static int accept_forever(void *arg)
{
	struct share *s = arg;

	while (accept_and_echo(s->fd) == 0)
		;
	return 1;
}

static void connect_once(unsigned i)
{
	struct sockaddr_in to = server_addr(i);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	ping(fd, "anybody?");
	close(fd);
}

static void prefork_server(void)
{
	struct share *s = share_of(tcp_listening(1));
	int pids[3];

	for (int i = 0; i < 3; i++)
		pids[i] = spawn(accept_forever, s);
	for (int i = 0; i < 3; i++)
		await_blocked(pids[i]);
	meet();
	meet();
	for (int i = 0; i < 3; i++) {
		kill(pids[i], SIGTERM);
		join(pids[i]);
	}
	close(s->fd);
	share_end(s);
}

static void twenty_connections_client(void)
{
	meet();
	for (int i = 0; i < 20; i++)
		connect_once(1);
	meet();
}

static void accept_in_turns_server(void)
{
	struct share *s = share_of(tcp_listening(1));

	for (int i = 0; i < 3; i++) {
		meet();
		accept_one(s);
		meet();
		join(spawn(accept_one, s));
	}
	close(s->fd);
	share_end(s);
}

static void accept_in_turns_client(void)
{
	for (int i = 0; i < 6; i++) {
		meet();
		connect_once(1);
	}
}

static void listener_closed_by_parent_server(void)
{
	struct share *s = share_of(tcp_listening(1));
	int pid = spawn(accept_one, s);

	close(s->fd);
	await_blocked(pid);
	meet();
	join(pid);
	share_end(s);
}

static void one_connection_client(void)
{
	meet();
	connect_once(1);
}

/* The parent only listens; a client has connected before the fork. */
static void connected_before_the_fork_server(void)
{
	struct share *s = share_of(tcp_listening(1));
	int pid;

	meet();
	await(s->fd, POLLIN);
	pid = spawn(accept_one, s);
	close(s->fd);
	join(pid);
	share_end(s);
}

static int accept_later(void *arg)
{
	struct share *s = arg;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};

	SAY(poll(&p, 1, 0));
	step(s->done);
	await_step(s->go);
	return 0;
}

/* A worker exits with connections that it did not accept: another process accepts them. */
static void worker_exits_server(void)
{
	struct share *s = share_of(tcp_listening(1));
	int pid = spawn(accept_later, s);

	await_step(s->done);
	meet();
	await_other_blocked(); /* connected, it waits for an answer */
	step(s->go);
	join(pid);
	accept_one(s);
	close(s->fd);
	share_end(s);
}

/* A listener in an epoll set is not idle. */
static int watch_and_exit(void *arg)
{
	struct share *s = arg;
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = (int)MUST(epoll_create1(0));

	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &ev));
	step(s->done);
	await_step(s->go);
	return 0;
}

/*
 * The worker that exits has an unaccepted connection, and another one that waits for its
 * first byte: for the listener its handshake is not over.
 */
static void exits_in_a_handshake_server(void)
{
	struct share *s = share_of(tcp_listening(1));
	int pid;

	set_int(s->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5);
	pid = spawn(watch_and_exit, s);
	await_step(s->done);
	meet();
	meet();
	step(s->go);
	join(pid);
	accept_one(s);
	meet();
	close(s->fd);
	share_end(s);
}

static void exits_in_a_handshake_client(void)
{
	struct sockaddr_in to = server_addr(1);
	char buf[100];
	int silent = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	meet();
	SAY(connect(silent, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, "anybody?", 8, 0));
	await_acked(fd);
	meet();
	await(fd, POLLIN);
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(fd);
	meet();
	close(silent);
}

static int poll_and_accept(void *arg)
{
	struct share *s = arg;
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = (int)MUST(epoll_create1(0));

	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &ev));
	step(s->done);
	SAY(epoll_wait(ep, &ev, 1, PATIENCE));
	accept_one(s);
	close(ep);
	return 0;
}

static void epoll_of_a_listener_server(void)
{
	struct share *s = share_of(tcp_listening(1));
	int pid = spawn(poll_and_accept, s);

	await_step(s->done);
	meet();
	join(pid);
	close(s->fd);
	share_end(s);
}

static int daemonize(void *arg)
{
	struct share *s = arg;

	if (fork() == 0) {
		await_step(s->go); /* its parent has ended */
		accept_one(s);
		step(s->done);
		_exit(0);
	}
	return 0;
}

static void daemon_server(void)
{
	struct share *s = share_of(tcp_listening(1));

	join(spawn(daemonize, s));
	step(s->go);
	close(s->fd);
	meet();
	await_step(s->done);
	share_end(s);
}

/* ---- datagrams --------------------------------------------------------------------- */

static int answer_datagram(void *arg)
{
	struct share *s = arg;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[100];
	long n = recvfrom(s->fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);

	if (n < 0)
		return 1;
	return sendto(s->fd, buf, (size_t)n, 0, (struct sockaddr *)&from, len) == n ? 0 : 1;
}

static int answer_when_ready(void *arg)
{
	struct share *s = arg;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};

	SAY(poll(&p, 1, 0));
	step(s->done);
	SAY(poll(&p, 1, PATIENCE));
	return answer_datagram(s);
}

static void datagrams_of_a_child_server(void)
{
	struct share *s = share_of(udp_bound(1));
	int pid = spawn(answer_when_ready, s);

	await_step(s->done);
	meet();
	join(pid);
	close(s->fd);
	share_end(s);
}

static void ask_question(int fd)
{
	struct sockaddr_in to = server_addr(1);
	char buf[100] = "";

	SAY(sendto(fd, "question", 8, 0, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLIN);
	SAY(recv(fd, buf, sizeof(buf), 0));
	say_bytes(buf, 8);
}

static void one_question_client(void)
{
	int fd = udp_bound(2);

	meet();
	ask_question(fd);
	close(fd);
}

/* One goes through the kernel, the other one does not: on a host, or by different queues of a card. */
static bool overtake(void)
{
	return getenv("DIFF_LOCAL") || getenv("NETNS_CARD");
}

static void sending_from_a_child_server(void)
{
	struct share *s = share_of(udp_bound(1));
	struct sockaddr_in to = client_addr(2);
	int pid;

	meet();
	pid = fork();
	if (pid == 0) {
		SAY(sendto(s->fd, "from the child", 14, 0, (struct sockaddr *)&to, sizeof(to)));
		_exit(0);
	}
	join(pid);
	if (overtake())
		meet();
	SAY(sendto(s->fd, "from the parent", 15, 0, (struct sockaddr *)&to, sizeof(to)));
	answer_datagram(s);
	close(s->fd);
	share_end(s);
}

static void sending_from_a_child_client(void)
{
	int fd = udp_bound(2);
	char buf[100];

	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	if (overtake())
		meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	ask_question(fd);
	close(fd);
}

static int daemonize_datagrams(void *arg)
{
	struct share *s = arg;

	if (fork() == 0) {
		await_step(s->go); /* its parent has ended */
		answer_datagram(s);
		step(s->done);
		_exit(0);
	}
	return 0;
}

static void datagram_daemon_server(void)
{
	struct share *s = share_of(udp_bound(1));

	join(spawn(daemonize_datagrams, s));
	step(s->go);
	close(s->fd);
	meet();
	await_step(s->done);
	share_end(s);
}

/* ---- a connected datagram socket --------------------------------------------------- */

static void read_text(int fd)
{
	char text[16];
	ssize_t n = recv(fd, text, sizeof(text), 0);

	say_bytes(text, n > 0 ? (size_t)n : 0);
}

/* n: datagrams that the child reads; the parent reads the rest. */
struct unread {
	int fd, n;
};

static int read_unread(void *arg)
{
	const struct unread *unread = arg;

	for (int i = 0; i < unread->n; i++)
		read_text(unread->fd);
	return 0;
}

#define DATAGRAMS 3

static void read_by_both(int childs)
{
	struct unread unread = {udp_pair(), childs};

	set_timeout(unread.fd, SO_RCVTIMEO, PATIENCE);
	arrive();
	await_bytes(unread.fd, 3);
	join(spawn(read_unread, &unread));
	for (int i = childs; i < DATAGRAMS; i++)
		read_text(unread.fd);
	close(unread.fd);
}

static void unread_by_child_server(void)
{
	read_by_both(DATAGRAMS);
}

static void unread_by_both_server(void)
{
	read_by_both(1);
}

/* Datagrams arrive after the child was made, and before the parent closes its copy. */
static int wait_and_read(void *arg)
{
	struct share *s = arg;
	struct unread unread = {s->fd, DATAGRAMS};

	await_step(s->go);
	return read_unread(&unread);
}

static void closed_with_unread_server(void)
{
	int fd = udp_pair(), pid;
	struct share *s = share_of(fd);

	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	pid = spawn(wait_and_read, s);
	arrive();
	await_bytes(fd, 3);
	close(fd);
	step(s->go);
	join(pid);
	share_end(s);
}

static void three_datagrams_client(void)
{
	int fd = udp_pair();

	SAY(send(fd, "one", 3, 0));
	SAY(send(fd, "two", 3, 0));
	SAY(send(fd, "six", 3, 0));
	arrive();
	close(fd);
}

/*
 * The last process with unread datagrams closes its copy in the middle of a stream: those that
 * came before go ahead of those that come meanwhile.
 *
 * Nobody reads the end of a stream, which may be under way for long on a busy machine, and fill the
 * link's queue.  So what comes next waits until the link has brought or dropped it, and each stream
 * has a port() of its own, whose sockets get nothing of another.
 */
enum { EARLIER = 100, NUMBERS = 10000, STREAMS = 10 };

/*
 * Called by both sides: a handshake takes place behind what was sent; TCP repeats what is dropped.
 * The neighbours are known then: in the kernel, what waits for them may be overtaken.
 */
static void settle_link(void)
{
	close(tcp_pair());
}

static int read_in_order(void *arg)
{
	struct share *s = arg;
	int number;

	await_step(s->go);
	for (int n = 0; n < EARLIER; n++) {
		ssize_t size = recv(s->fd, &number, sizeof(number), 0);

		if (size != sizeof(number)) {
			say_result("recv", size);
			return 1;
		}
		if (number != n) {
			say("datagram %d instead of %d", number, n);
			return 1;
		}
	}
	say("%d datagrams in order", EARLIER);
	return 0;
}

static void close_in_a_stream(unsigned stream)
{
	int fd = udp_pair_at(stream), pid;
	struct share *s = share_of(fd);

	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	pid = spawn(read_in_order, s);
	meet(); /* what arrives during fork() may change places: kernel_handover_datagrams() */
	arrive();
	await_bytes(fd, sizeof(int));
	meet();
	close(fd);
	step(s->go);
	join(pid);
	settle_link();
	share_end(s);
}

static void closed_in_a_stream_server(void)
{
	settle_link();
	for (unsigned i = 0; i < STREAMS; i++)
		close_in_a_stream(i);
}

static void send_stream(unsigned stream)
{
	int fd = udp_pair_at(stream), number;

	meet();
	for (number = 0; number < EARLIER; number++)
		MUST(send(fd, &number, sizeof(number), 0));
	arrive();
	meet();
	/* Many times as long as the server needs; nobody reads the end of them. */
	for (; number < NUMBERS; number++)
		(void)send(fd, &number, sizeof(number), 0);
	settle_link();
	close(fd);
}

static void closed_in_a_stream_client(void)
{
	settle_link();
	for (unsigned i = 0; i < STREAMS; i++)
		send_stream(i);
}

/*
 * A process with unread datagrams forks in the middle of a stream. What arrives meanwhile may
 * change places (docs/differences.md), but comes, and once.
 */
enum { MEANWHILE = 150, FORKS = 20 };

static void read_each_once(int fd)
{
	unsigned char seen[MEANWHILE] = {0};
	int number, n = 0, twice = 0;

	while (n < MEANWHILE && recv(fd, &number, sizeof(number), 0) == sizeof(number)) {
		twice += number < 0 || number >= MEANWHILE || seen[number]++;
		n++;
	}
	say("%d datagrams, %d twice", n, twice);
}

static void fork_in_a_stream(void)
{
	int fd = udp_pair(), pid;
	struct share *s = share_of(fd);

	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	meet();
	await_bytes(fd, sizeof(int));
	pid = spawn(wait_and_exit, s);
	arrive();
	read_each_once(fd);
	step(s->go);
	join(pid);
	close(fd);
	share_end(s);
}

static void forked_in_a_stream_server(void)
{
	for (int i = 0; i < FORKS; i++)
		fork_in_a_stream();
}

static void forked_in_a_stream_client(void)
{
	for (int i = 0; i < FORKS; i++) {
		int fd = udp_pair();

		meet();
		for (int number = 0; number < MEANWHILE; number++)
			MUST(send(fd, &number, sizeof(number), 0));
		arrive();
		close(fd);
	}
}

const struct behaviour share_behaviours[] = {
	{"child_echoes", child_echoes_server, two_pings_client, OURS},
	{"child_closes", child_closes_server, two_pings_client, OURS},
	{"parent_closes", parent_closes_server, parent_closes_client, OURS},
	{"used_after_the_parent_closed", used_after_the_parent_closed_server, two_pings_client,
	 OURS},
	{"many_children", many_children_server, parent_closes_client, OURS},
	{"turns", turns_server, turns_client, OURS},
	{"turns_of_the_client", echo_ten_server, turns_of_the_client, OURS},
	{"both_wait", both_wait_server, both_wait_client, OURS},
	{"unread", unread_server, unread_client, OURS},
	{"unsent", unsent_server, unsent_client, OURS},
	{"peek", peek_server, abc_client, OURS},
	{"shutdown", shutdown_server, shutdown_client, OURS},
	{"options", options_server, silent_client, OURS},
	{"names", names_server, silent_client, OURS},
	{"connected", connected_server, silent_client, OURS},
	{"unreported", unreported_server, unreported_client, OURS},
	{"nonblocking", nonblocking_server, silent_client, OURS},
	{"nonblocking_listener", nonblocking_listener_server, nothing_client, OURS},
	{"nonblocking_datagrams", nonblocking_datagrams_server, nothing_client, OURS},
	{"blocking_again", blocking_again_server, blocking_again_client, OURS},
	{"blocking_datagrams_again", blocking_datagrams_again_server,
	 blocking_datagrams_again_client, OURS},
	{"poll", poll_server, ping_after_meeting_client, OURS},
	{"epoll", epoll_server, ping_after_meeting_client, OURS},
	{"poll_while_used", poll_while_used_server, answer_once_client, OURS},
	{"grandchild", grandchild_server, two_pings_client, OURS},
	{"twice_forked", twice_forked_server, two_pings_client, OURS},
	{"owner_exits", owner_exits_server, two_pings_client, OURS},
	{"idle_child_killed", idle_child_killed_server, two_pings_client, OURS},
	{"used_and_exited", used_and_exited_server, two_pings_client, OURS},
	{"linger", linger_server, linger_client, OURS},
	{"both_see_the_end", both_see_the_end_server, leave_client, OURS},
	{"reset", reset_server, reset_client, OURS},
	{"many_connections", many_connections_server, many_connections_client, OURS},
	{"one_child_each", one_child_each_server, one_child_each_client, OURS},
	{"prefork", prefork_server, twenty_connections_client, OURS},
	{"accept_in_turns", accept_in_turns_server, accept_in_turns_client, OURS},
	{"listener_closed_by_parent", listener_closed_by_parent_server, one_connection_client,
	 OURS},
	{"connected_before_the_fork", connected_before_the_fork_server, one_connection_client,
	 OURS},
	{"worker_exits", worker_exits_server, one_connection_client, OURS},
	{"exits_in_a_handshake", exits_in_a_handshake_server, exits_in_a_handshake_client, OURS},
	{"epoll_of_a_listener", epoll_of_a_listener_server, one_connection_client, OURS},
	{"daemon", daemon_server, one_connection_client, KERNEL},
	{"datagrams_of_a_child", datagrams_of_a_child_server, one_question_client, KERNEL},
	{"sending_from_a_child", sending_from_a_child_server, sending_from_a_child_client, KERNEL},
	{"datagram_daemon", datagram_daemon_server, one_question_client, KERNEL},
	{"unread_by_child", unread_by_child_server, three_datagrams_client, KERNEL},
	{"unread_by_both", unread_by_both_server, three_datagrams_client, KERNEL},
	{"forked_in_a_stream", forked_in_a_stream_server, forked_in_a_stream_client, KERNEL},
	{"closed_in_a_stream", closed_in_a_stream_server, closed_in_a_stream_client, KERNEL},
	{"closed_with_unread", closed_with_unread_server, three_datagrams_client, KERNEL},
	{NULL, NULL, NULL, OURS},
};
