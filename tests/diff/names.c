/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls with other names, and functions of libc that make calls internally. */
#include <aio.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

#include "tests/diff/diff.h"

int bindresvport(int fd, struct sockaddr_in *addr);
int __close(int fd);
int __connect(int fd, const struct sockaddr *addr, socklen_t len);
int __dup2(int fd, int to);
int __fcntl(int fd, int cmd, ...);
int __poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __read(int fd, void *buf, size_t len);
int __select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout);
ssize_t __send(int fd, const void *buf, size_t len, int flags);
ssize_t __write(int fd, const void *buf, size_t len);

static void echo_server(void)
{
	int listener = tcp_listening(0), fd;
	char buf[100];
	ssize_t n;

	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		MUST(send(fd, buf, (size_t)n, 0));
	SAY(n);
	close(fd);
	close(listener);
}

static void underscores(void)
{
	struct sockaddr_in to = server_addr(0);
	struct pollfd pfd = {.events = POLLIN};
	char buf[100];
	fd_set set;
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), other;

	meet();
	SAY(__connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(__write(fd, "one", 3));
	pfd.fd = fd;
	SAY(__poll(&pfd, 1, PATIENCE));
	say_bytes(buf, (size_t)MUST(__read(fd, buf, sizeof(buf))));
	SAY(__send(fd, "two", 3, 0));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	SAY(__select(fd + 1, &set, NULL, NULL, NULL));
	other = (int)MUST(dup(0));
	SAY_IF(__dup2(fd, other) == other);
	SAY(__close(fd));
	SAY(__fcntl(other, F_SETFL, O_NONBLOCK));
	say_bytes(buf, (size_t)MUST(__read(other, buf, sizeof(buf))));
	SAY(__read(other, buf, sizeof(buf)));
	SAY(__close(other));
}

static void at_mark_server(void)
{
	int fd = tcp_pair();

	SAY(send(fd, "ab", 2, 0));
	SAY(send(fd, "!", 1, MSG_OOB));
	SAY(send(fd, "cd", 2, 0));
	meet();
	close(fd);
}

static void at_mark_client(void)
{
	int fd = tcp_pair();
	char buf[100];

	meet();
	await_bytes(fd, 2);
	SAY(sockatmark(fd));
	say_bytes(buf, (size_t)MUST(recv(fd, buf, sizeof(buf), 0)));
	SAY(sockatmark(fd));
	SAY(sockatmark(0x7ffffff));
	close(fd);
}

static void reserved_port(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	socklen_t len = sizeof(sin);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	SAY(bindresvport(fd, &sin));
	SAY(listen(fd, 5));
	SAY(getsockname(fd, (struct sockaddr *)&sin, &len));
	SAY_IF(ntohs(sin.sin_port) < 1024 && ntohs(sin.sin_port) >= 512);
	close(fd);
}

static void asynchronous_server(void)
{
	int fd = udp_bound(0);
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[10];

	meet();
	SAY(recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len));
	SAY(sendto(fd, buf, 3, 0, (struct sockaddr *)&from, len));
	close(fd);
}

/* After it has finished. */
static long end_of(struct aiocb *request)
{
	const struct aiocb *list[] = {request};

	MUST(aio_suspend(list, 1, NULL));
	return aio_error(request) ? -aio_error(request) : aio_return(request);
}

static void asynchronous_client(void)
{
	struct sockaddr_in to = server_addr(0);
	char buf[10];
	struct aiocb out = {.aio_buf = (void *)(uintptr_t) "one", .aio_nbytes = 3},
		     in = {.aio_buf = buf};
	int fd = udp_bound(0);

	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	out.aio_fildes = in.aio_fildes = fd;
	in.aio_nbytes = sizeof(buf);
	SAY(aio_write(&out));
	SAY(end_of(&out));
	SAY(aio_read(&in));
	SAY(end_of(&in));
	close(fd);
}

static volatile sig_atomic_t caught;

static void catch (int sig)
{
	caught++;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* sigset() is what this is about */

/* A handler that was set this way interrupts a call, as sigaction() without SA_RESTART does. */
static void old_handlers(void)
{
	int fd = udp_bound(0);
	struct itimerspec soon = {.it_value = {.tv_nsec = 50000000},
				  .it_interval = {.tv_nsec = 50000000}};
	timer_t timer;
	char buf[10];

	SAY_IF(sigset(SIGUSR1, catch) == SIG_DFL);
	SAY_IF(sigset(SIGUSR1, SIG_HOLD) == catch);
	raise(SIGUSR1);
	SAY(caught);
	SAY_IF(sigset(SIGUSR1, catch) == SIG_HOLD);
	SAY(caught);
	SAY_IF(sigset(0, catch) == SIG_ERR);
	SAY_IF(sigset(SIGALRM, catch) == SIG_DFL);
	MUST(timer_create(CLOCK_MONOTONIC, NULL, &timer));
	MUST(timer_settime(timer, 0, &soon, NULL));
	SAY(recv(fd, buf, sizeof(buf), 0));
	timer_delete(timer);
	signal(SIGALRM, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
	caught = 0;
	close(fd);
}

static int become_cat(void *arg)
{
	char *const argv[] = {(char *)"cat", NULL}, *const env[] = {NULL};
	int fd = *(int *)arg;

	MUST(dup2(fd, 0));
	MUST(dup2(fd, 1));
	close(fd);
	syscall(SYS_execve, "/bin/cat", argv, env);
	return 1;
}

static void execute_server(void)
{
	int fd = tcp_pair(), pid = spawn(become_cat, &fd);

	meet();
	join(pid);
	close(fd);
}

static void execute_client(void)
{
	int fd = tcp_pair();

	meet();
	ping(fd, "meow");
	MUST(shutdown(fd, SHUT_WR));
	expect_end(fd);
	close(fd);
}

/* ---- messages of the C library, where standard error is a socket ------------------------ */

static void messages_server(void)
{
	int fd = tcp_pair(), lines = 0;
	char buf[4096];
	size_t have = 0;
	ssize_t n;
	char *frames;

	while ((n = recv(fd, buf + have, sizeof(buf) - 1 - have, 0)) > 0)
		have += (size_t)n;
	buf[have] = 0;
	frames = strstr(buf, "unavailable\n");
	say_bytes(buf, frames ? (size_t)(frames - buf) : have);
	for (char *c = frames; c && *c; c++)
		lines += *c == '\n';
	SAY(lines);
	SAY_IF(frames && strstr(frames, "diff(") && strstr(frames, "libc.so.6("));
	close(fd);
	meet();
}

static int complain(void *arg)
{
	void *frames[] = {(void *)(uintptr_t)messages_server, (void *)(uintptr_t)getpid};
	int fd = *(int *)arg;

	MUST(dup2(fd, 2));
	close(fd);
	errno = ENOENT;
	perror("opened");
	errno = EINTR;
	perror(NULL);
	SAY_IF(errno == EINTR);
	h_errno = HOST_NOT_FOUND;
	herror("asked");
	h_errno = TRY_AGAIN;
	herror("");
	fprintf(stderr, "%s\n", "printed");
	errno = EAGAIN;
	perror("oriented");
	backtrace_symbols_fd(frames, 2, 2);
	return 0;
}

static void messages_client(void)
{
	int fd = tcp_pair(), pid = spawn(complain, &fd);

	close(fd);
	join(pid);
	meet();
}

/* ---- descriptors that the C library replaces -------------------------------------------- */

static void until_end_server(void)
{
	int fd = tcp_pair();

	pong(fd);
	expect_end(fd);
	close(fd);
	tell(1);
	meet();
}

/*
 * The end of its parent must neither end the connection, nor keep the parent's standard input
 * open.
 */
static int turn_daemon(void *arg)
{
	int *fds = arg;
	char c;

	MUST(dup2(fds[0], 0));
	close(fds[0]);
	ping(0, "before");
	MUST(daemon(1, 0));
	MUST(read(fds[1], &c, 1));
	SAY(read(0, &c, 1));
	SAY(write(0, "x", 1));
	return 0;
}

static void daemon_client(void)
{
	int gate[2], fds[2] = {tcp_pair()}, pid;
	char c;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, gate));
	fds[1] = gate[0];
	pid = spawn(turn_daemon, fds);
	close(fds[0]);
	close(gate[0]);
	join(pid);
	hear();
	MUST(write(gate[1], "x", 1));
	SAY(read(gate[1], &c, 1));
	close(gate[1]);
	meet();
}

/* A server that becomes a daemon after its first connection. */
static void pong_server(void)
{
	int fd = tcp_pair();

	pong(fd);
	pong(fd);
	expect_end(fd);
	close(fd);
	meet();
}

static int keep_in_background(void *arg)
{
	int *fds = arg;
	char c;

	ping(fds[0], "before");
	MUST(daemon(1, 1));
	MUST(read(fds[1], &c, 1));
	ping(fds[0], "after");
	close(fds[0]);
	return 0;
}

static void background_client(void)
{
	int gate[2], fds[2] = {tcp_pair()}, pid;

	MUST(pipe(gate));
	fds[1] = gate[0];
	pid = spawn(keep_in_background, fds);
	close(fds[0]);
	close(gate[0]);
	join(pid);
	MUST(write(gate[1], "x", 1));
	close(gate[1]);
	meet();
}

/* A terminal may give a line in pieces: it writes "\r\n" after the text. */
static void say_line(int master)
{
	char buf[100];
	size_t n = 0;

	do
		n += (size_t)MUST(read(master, buf + n, sizeof(buf) - n));
	while (buf[n - 1] != '\n' && n < sizeof(buf));
	say_bytes(buf, n);
}

static int log_in(void *arg)
{
	int *fds = arg;
	char c;

	MUST(dup2(fds[0], 0));
	close(fds[0]);
	ping(0, "before");
	SAY(login_tty(fds[1]));
	SAY(isatty(0));
	MUST(write(0, "welcome\n", 8));
	SAY(read(0, &c, 1));
	return 0;
}

static void log_in_client(void)
{
	int master, fds[2] = {tcp_pair()}, pid;

	MUST(openpty(&master, &fds[1], NULL, NULL, NULL));
	pid = spawn(log_in, fds);
	close(fds[0]);
	say_line(master);
	hear();
	MUST(write(master, "\n", 1));
	join(pid);
	close(fds[1]);
	close(master);
	meet();
}

static int fork_on_terminal(void *arg)
{
	int fd = *(int *)arg, master, pid;

	MUST(dup2(fd, 0));
	close(fd);
	ping(0, "before");
	pid = (int)MUST(forkpty(&master, NULL, NULL, NULL));
	if (pid == 0) {
		MUST(write(0, "welcome\n", 8));
		_exit(0);
	}
	say_line(master);
	join(pid);
	close(master);
	ping(0, "after");
	return 0;
}

static void terminal_client(void)
{
	int fd = tcp_pair(), pid = spawn(fork_on_terminal, &fd);

	close(fd);
	join(pid);
	meet();
}

const struct behaviour names_behaviours[] = {
	{"underscores", echo_server, underscores, OURS},
	{"at_mark", at_mark_server, at_mark_client, OURS},
	{"reserved_port", reserved_port, NULL, KERNEL},
	{"asynchronous", asynchronous_server, asynchronous_client, KERNEL},
	{"old_handlers", old_handlers, NULL, OURS},
	{"messages", messages_server, messages_client, OURS},
	{"daemon", until_end_server, daemon_client, OURS},
	{"background", pong_server, background_client, OURS},
	{"log_in", until_end_server, log_in_client, OURS},
	{"terminal", pong_server, terminal_client, OURS},
	{"execute", execute_server, execute_client, KERNEL},
	{0},
};
