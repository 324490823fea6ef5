/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The small programs that scenario tests run in their namespaces, with or without
 * the library:
 *
 *	probe serve PROTO:PORT:WAY...	echoes forever; prints "ready" when bound.
 *					WAY to wait: recv, poll, select, epoll; leave (UDP): the
 *					thread ends after one echo, for the first service the
 *					first thread of the process; late: long after it came
 *	probe ask PROTO IP PORT [N]	N echoes, one after another (1)
 *	probe burst IP PORT N		N datagrams at once, their echoes in order
 *	probe flood IP PORT		requests in both protocols, forever
 *	probe hold IP PORT		an idle TCP connection
 *	probe errors PROTO IP PORT	the result of each call
 *	probe fork IP PORT		fork, exec, dup and loops that close all descriptors
 *	probe signals IP PORT		signals and close() during waiting calls
 *	probe pause			no socket at all
 *	probe startup N LIBRARY		the cost of preloading for /bin/true; the minimum of N
 *
 * PROTO is udp or tcp.  Every wait has a timeout, except those that the test ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define ANSWER_TIMEOUT 2 /* seconds */

__attribute__((noreturn)) static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void nap_msec(int msec)
{
	struct timespec ts = {.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * 1000000L};

	nanosleep(&ts, NULL);
}

static int proto_type(const char *proto)
{
	return strcmp(proto, "tcp") ? SOCK_DGRAM : SOCK_STREAM;
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(port)),
	};

	if (inet_pton(AF_INET, ip, &addr.sin_addr) != 1)
		die(ip);
	return addr;
}

/* ---- serve ------------------------------------------------------------------ */

enum way { WAY_RECV, WAY_POLL, WAY_SELECT, WAY_EPOLL, WAY_LEAVE, WAY_LATE };

#define LATE 60 /* msec: by then a kernel has acknowledged what it has got */

struct service {
	int type;
	int fd;
	enum way way;
};

static enum way parse_way(const char *name)
{
	static const char *const names[] = {"recv", "poll", "select", "epoll", "leave", "late"};

	for (int i = 0; i < 6; i++)
		if (!strcmp(name, names[i]))
			return (enum way)i;
	errno = EINVAL;
	die(name);
}

static void wait_by_epoll(int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ep = epoll_create1(0);

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event);
	epoll_wait(ep, &event, 1, -1);
	close(ep);
}

static void wait_readable(int fd, enum way way)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	fd_set set;

	switch (way) {
	case WAY_RECV:
	case WAY_LEAVE:
		break;
	case WAY_POLL:
		poll(&pfd, 1, -1);
		break;
	case WAY_SELECT:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		select(fd + 1, &set, NULL, NULL, NULL);
		break;
	case WAY_EPOLL:
		wait_by_epoll(fd);
		break;
	case WAY_LATE:
		poll(&pfd, 1, -1);
		nap_msec(LATE);
		break;
	}
}

static void serve_datagrams(const struct service *s)
{
	static _Thread_local char buf[65536];

	for (;;) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t n;

		wait_readable(s->fd, s->way);
		n = recvfrom(s->fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);
		if (n >= 0)
			sendto(s->fd, buf, (size_t)n, 0, (struct sockaddr *)&from, len);
		if (s->way == WAY_LEAVE)
			pthread_exit(NULL);
	}
}

static void *serve_connection(void *arg)
{
	const struct service *s = arg;
	char buf[65536];
	ssize_t n;

	do {
		wait_readable(s->fd, s->way);
		n = recv(s->fd, buf, sizeof(buf), 0);
	} while (n > 0 && send(s->fd, buf, (size_t)n, MSG_NOSIGNAL) == n);
	close(s->fd);
	free(arg);
	return NULL;
}

/* A thread for each connection. */
static void serve_connections(const struct service *s)
{
	for (;;) {
		struct service *connection;
		pthread_t thread;
		int fd;

		wait_readable(s->fd, s->way);
		fd = accept(s->fd, NULL, NULL);
		if (fd < 0)
			continue;
		connection = malloc(sizeof(*connection));
		if (!connection)
			die("malloc");
		*connection = (struct service){.type = s->type, .fd = fd, .way = s->way};
		if (pthread_create(&thread, NULL, serve_connection, connection))
			die("thread");
		pthread_detach(thread);
	}
}

static void *serve_thread(void *arg)
{
	const struct service *s = arg;

	if (s->type == SOCK_STREAM)
		serve_connections(s);
	serve_datagrams(s);
	return NULL;
}

static void open_service(struct service *s, char *spec)
{
	const char *proto = strtok(spec, ":"), *port = strtok(NULL, ":"), *way = strtok(NULL, ":");
	struct sockaddr_in addr;
	int one = 1;

	if (!way) {
		errno = EINVAL;
		die("PROTO:PORT:WAY");
	}
	addr = address("0.0.0.0", port);
	s->type = proto_type(proto);
	s->way = parse_way(way);
	s->fd = socket(AF_INET, s->type, 0);
	if (s->fd < 0)
		die("socket");
	setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)))
		die("bind");
	if (s->type == SOCK_STREAM && listen(s->fd, 64))
		die("listen");
}

static int cmd_serve(int argc, char **argv)
{
	static struct service services[16];

	for (int i = 0; i < argc && i < 16; i++)
		open_service(&services[i], argv[i]);
	for (int i = 1; i < argc && i < 16; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, serve_thread, &services[i]))
			die("thread");
	}
	puts("ready");
	serve_thread(&services[0]);
	return 1;
}

/* ---- clients ---------------------------------------------------------------- */

static int open_client(int type, const struct sockaddr_in *to)
{
	struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT};
	int fd = socket(AF_INET, type, 0), one = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to))) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

/* Sends and receives one number; a late answer to an earlier number does not count. */
static bool echo(int fd, uint32_t number)
{
	uint32_t answer;
	ssize_t n;

	if (send(fd, &number, sizeof(number), MSG_NOSIGNAL) != sizeof(number))
		return false;
	do {
		n = recv(fd, &answer, sizeof(answer), 0);
		if (n == 0)
			errno = ECONNRESET;
	} while (n == sizeof(answer) && answer != number);
	return n == sizeof(answer);
}

static int cmd_ask(int argc, char **argv)
{
	uint32_t count = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
	struct sockaddr_in to = address(argv[1], argv[2]);
	int fd = open_client(proto_type(argv[0]), &to);

	if (fd < 0)
		die("connect");
	for (uint32_t i = 0; i < count; i++)
		if (!echo(fd, i))
			die("echo");
	printf("%u answers\n", count);
	close(fd);
	return 0;
}

static int cmd_burst(int argc, char **argv)
{
	uint32_t count = (uint32_t)atoi(argv[2]), answer;
	struct sockaddr_in to = address(argv[0], argv[1]);
	int fd = open_client(SOCK_DGRAM, &to);

	if (fd < 0)
		die("connect");
	for (uint32_t i = 0; i < count; i++)
		if (send(fd, &i, sizeof(i), 0) != sizeof(i))
			die("send");
	for (uint32_t i = 0; i < count; i++) {
		if (recv(fd, &answer, sizeof(answer), 0) != sizeof(answer))
			die("recv");
		if (answer != i) {
			printf("answer %u where %u should be\n", answer, i);
			return 1;
		}
	}
	printf("%u answers in order\n", count);
	return 0;
}

static int cmd_flood(int argc, char **argv)
{
	struct sockaddr_in to = address(argv[0], argv[1]);

	/* Runs until the test ends it. */
	for (int round = 0; round < 1000000; round++) {
		int udp = open_client(SOCK_DGRAM, &to), tcp = open_client(SOCK_STREAM, &to);

		for (uint32_t i = 0; i < 1000; i++) {
			send(udp, &i, sizeof(i), MSG_DONTWAIT);
			if (tcp < 0 || !echo(tcp, i))
				break;
		}
		close(udp);
		if (tcp >= 0)
			close(tcp);
		else
			nap_msec(1);
	}
	return 0;
}

static int cmd_hold(int argc, char **argv)
{
	struct sockaddr_in to = address(argv[0], argv[1]);

	if (open_client(SOCK_STREAM, &to) < 0)
		die("connect");
	puts("ready");
	while (pause() < 0)
		continue;
	return 0;
}

/* ---- errors ----------------------------------------------------------------- */

static void report(const char *call, long rc)
{
	if (rc < 0)
		printf("%s %s\n", call, strerrorname_np(errno));
	else
		printf("%s %ld\n", call, rc);
}

static void errors_of_datagrams(const struct sockaddr_in *to)
{
	struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT};
	int connected = socket(AF_INET, SOCK_DGRAM, 0),
	    unconnected = socket(AF_INET, SOCK_DGRAM, 0);
	char c = 0;

	setsockopt(connected, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	report("sendto", sendto(unconnected, "x", 1, 0, (const struct sockaddr *)to, sizeof(*to)));
	report("connect", connect(connected, (const struct sockaddr *)to, sizeof(*to)));
	report("send", send(connected, "x", 1, 0));
	report("recv", recv(connected, &c, 1, 0));
	report("recv again", recv(connected, &c, 1, MSG_DONTWAIT));
	close(connected);
	close(unconnected);
}

static void errors_of_connections(const struct sockaddr_in *to)
{
	int blocking = socket(AF_INET, SOCK_STREAM, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(error);

	report("connect", connect(blocking, (const struct sockaddr *)to, sizeof(*to)));
	report("send", send(blocking, "x", 1, MSG_NOSIGNAL));
	report("connect at once", connect(fd, (const struct sockaddr *)to, sizeof(*to)));
	report("poll", poll(&pfd, 1, ANSWER_TIMEOUT * 5000));
	/* The kernel tells the error a moment before it ends the connection. */
	for (time_t end = time(NULL) + ANSWER_TIMEOUT;
	     !(pfd.revents & POLLHUP) && time(NULL) <= end; poll(&pfd, 1, 0))
		sched_yield();
	printf("revents%s%s%s%s\n", pfd.revents & POLLIN ? " IN" : "",
	       pfd.revents & POLLOUT ? " OUT" : "", pfd.revents & POLLERR ? " ERR" : "",
	       pfd.revents & POLLHUP ? " HUP" : "");
	report("getsockopt", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
	printf("SO_ERROR %s\n", error ? strerrorname_np(error) : "0");
	close(blocking);
	close(fd);
}

static int cmd_errors(int argc, char **argv)
{
	struct sockaddr_in to = address(argv[1], argv[2]);

	if (proto_type(argv[0]) == SOCK_STREAM)
		errors_of_connections(&to);
	else
		errors_of_datagrams(&to);
	return 0;
}

/* ---- fork ------------------------------------------------------------------- */

static struct sockaddr_in peer;
static char *peer_args[2];

static bool child_ok(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

static bool survives_child_that_exits(int type)
{
	int fd = open_client(type, &peer);
	bool ok = fd >= 0 && echo(fd, 1);
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	ok = child_ok(pid) && ok && echo(fd, 2);
	close(fd);
	return ok;
}

/* A child that used none of its sockets has nothing to end before it dies. */
static bool child_dies_of_a_signal_at_once(int type)
{
	int fd = open_client(type, &peer);
	bool ok = fd >= 0 && echo(fd, 1);
	uint64_t start = now_nsec();
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		pause();
		_exit(0);
	}
	ok = pid > 0 && !kill(pid, SIGTERM) && waitpid(pid, &status, 0) == pid && ok;
	ok = ok && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
	ok = ok && now_nsec() - start < 2000000000 && echo(fd, 2);
	close(fd);
	return ok;
}

static bool survives_child_that_closes(int type)
{
	int fd = open_client(type, &peer);
	bool ok = fd >= 0 && echo(fd, 1);
	pid_t pid = fork();

	if (pid == 0) {
		close(fd);
		exit(0);
	}
	ok = child_ok(pid) && ok && echo(fd, 2);
	close(fd);
	return ok;
}

static bool child_opens_its_own(int type)
{
	int fd = open_client(type, &peer);
	bool ok = fd >= 0 && echo(fd, 1);
	pid_t pid = fork();

	if (pid == 0) {
		int own = open_client(type, &peer);

		_exit(!(own >= 0 && echo(own, 3)));
	}
	ok = child_ok(pid) && ok && echo(fd, 2);
	close(fd);
	return ok;
}

static bool survives_exec_in_child(int type)
{
	char proto[4], ask[] = "ask", self[] = "/proc/self/exe";
	char *args[] = {self, ask, proto, peer_args[0], peer_args[1], NULL};
	int fd = open_client(type, &peer);
	bool ok = fd >= 0 && echo(fd, 1);
	pid_t pid;

	strcpy(proto, type == SOCK_STREAM ? "tcp" : "udp");
	pid = fork();
	if (pid == 0) {
		execv(self, args);
		_exit(1);
	}
	ok = child_ok(pid) && ok && echo(fd, 2);
	ok = system("true") == 0 && ok && echo(fd, 3);
	close(fd);
	return ok;
}

static bool duplicate_outlives_original(int type)
{
	int fd = open_client(type, &peer), copy = dup(fd), other = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	bool ok = fd >= 0 && echo(copy, 1);

	close(fd);
	ok = echo(copy, 2) && echo(other, 3) && ok;
	/* dup2() onto the number of another socket. */
	fd = open_client(type, &peer);
	ok = dup2(other, fd) == fd && ok && echo(fd, 4);
	close(copy);
	close(other);
	ok = echo(fd, 5) && ok;
	close(fd);
	return ok;
}

/* As a daemon does at its start, but while the library is running. */
static bool survives_close_of_everything(int type)
{
	int fd = open_client(type, &peer);
	bool ok = fd >= 0 && echo(fd, 1);

	for (int i = 3; i < 1024; i++)
		close(i);
	errno = 0;
	ok = send(fd, "x", 1, MSG_NOSIGNAL) < 0 && errno == EBADF && ok;
	fd = open_client(type, &peer);
	ok = fd == 3 && echo(fd, 2) && ok;
	closefrom(3);
	fd = open_client(type, &peer);
	ok = fd == 3 && echo(fd, 3) && ok;
	close_range(3, ~0U, 0);
	fd = open_client(type, &peer);
	ok = fd == 3 && echo(fd, 4) && ok;
	close(fd);
	return ok;
}

static bool daemon_works(int type)
{
	pid_t pid = fork();
	int fd;

	if (pid == 0) {
		fd = open_client(type, &peer);
		if (fd < 0 || !echo(fd, 1))
			_exit(1);
		pid = fork();
		if (pid != 0)
			_exit(!child_ok(pid));
		setsid();
		closefrom(3);
		fd = open_client(type, &peer);
		_exit(!(fd >= 0 && echo(fd, 2)));
	}
	return child_ok(pid);
}

static int cmd_fork(int argc, char **argv)
{
	static const struct {
		const char *name;
		bool (*run)(int type);
	} cases[] = {
		{"survives a child that exits", survives_child_that_exits},
		{"a child dies of a signal at once", child_dies_of_a_signal_at_once},
		{"survives a child that closes", survives_child_that_closes},
		{"a child opens its own", child_opens_its_own},
		{"survives exec in a child", survives_exec_in_child},
		{"a duplicate outlives the original", duplicate_outlives_original},
		{"survives close of everything", survives_close_of_everything},
		{"a daemon works", daemon_works},
	};
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};
	int failed = 0;

	peer = address(argv[0], argv[1]);
	peer_args[0] = argv[0];
	peer_args[1] = argv[1];
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		int type = types[i % 2];
		bool ok = cases[i / 2].run(type);

		failed += !ok;
		printf("%s %s: %s\n", ok ? "ok  " : "FAIL", type == SOCK_STREAM ? "tcp" : "udp",
		       cases[i / 2].name);
		fflush(stdout);
	}
	return failed != 0;
}

/* ---- signals ---------------------------------------------------------------- */

#define SIGNAL_ROUNDS 50

struct waiter {
	pthread_t thread;
	enum way way;
	int fd;
	bool in_call;  /* atomic */
	bool returned; /* atomic */
	long rc;
	int error;
};

static void on_signal(int number)
{
}

static long wait_once(const struct waiter *w)
{
	struct pollfd pfd = {.fd = w->fd, .events = POLLIN};
	struct epoll_event event = {.events = EPOLLIN};
	fd_set set;
	char c;
	long rc;
	int ep;

	switch (w->way) {
	case WAY_RECV:
	case WAY_LEAVE:
	case WAY_LATE:
		return recv(w->fd, &c, 1, 0);
	case WAY_POLL:
		return poll(&pfd, 1, -1);
	case WAY_SELECT:
		FD_ZERO(&set);
		FD_SET(w->fd, &set);
		return select(w->fd + 1, &set, NULL, NULL, NULL);
	case WAY_EPOLL:
		ep = epoll_create1(EPOLL_CLOEXEC);
		epoll_ctl(ep, EPOLL_CTL_ADD, w->fd, &event);
		rc = epoll_wait(ep, &event, 1, -1);
		close(ep);
		return rc;
	}
	return 0;
}

static void *waiter_thread(void *arg)
{
	struct waiter *w = arg;

	errno = 0;
	__atomic_store_n(&w->in_call, true, __ATOMIC_RELEASE);
	w->rc = wait_once(w);
	w->error = errno;
	__atomic_store_n(&w->returned, true, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * A signal ends a wait: EINTR, whether the thread polls or sleeps. The signal may come before
 * the call, so it is sent until the call returns.
 */
static bool is_interrupted(int type, enum way way)
{
	bool ok = true;

	for (int i = 0; i < SIGNAL_ROUNDS && ok; i++) {
		struct waiter w = {.way = way, .fd = open_client(type, &peer)};

		if (w.fd < 0 || pthread_create(&w.thread, NULL, waiter_thread, &w))
			return false;
		while (!__atomic_load_n(&w.in_call, __ATOMIC_ACQUIRE))
			nap_msec(0);
		nap_msec(i % 10 * 2);
		while (!__atomic_load_n(&w.returned, __ATOMIC_ACQUIRE)) {
			pthread_kill(w.thread, SIGUSR1);
			nap_msec(1);
		}
		pthread_join(w.thread, NULL);
		ok = w.rc == -1 && w.error == EINTR && echo(w.fd, 1);
		if (!ok)
			printf("     round %d: returned %ld %s\n", i, w.rc,
			       w.error ? strerrorname_np(w.error) : "0");
		close(w.fd);
	}
	return ok;
}

/*
 * Another thread closes the socket: the wait continues, as a receive does in the kernel, until
 * a signal ends it.
 */
static bool close_does_not_end(int type, enum way way)
{
	struct waiter w = {.way = way, .fd = open_client(type, &peer)};
	bool ok = w.fd >= 0 && !pthread_create(&w.thread, NULL, waiter_thread, &w);

	if (!ok)
		return false;
	while (!__atomic_load_n(&w.in_call, __ATOMIC_ACQUIRE))
		nap_msec(0);
	nap_msec(20);
	close(w.fd);
	nap_msec(20);
	ok = !__atomic_load_n(&w.returned, __ATOMIC_ACQUIRE);
	if (!ok)
		printf("     returned %ld %s\n", w.rc, w.error ? strerrorname_np(w.error) : "0");
	while (!__atomic_load_n(&w.returned, __ATOMIC_ACQUIRE)) {
		pthread_kill(w.thread, SIGUSR1);
		nap_msec(1);
	}
	pthread_join(w.thread, NULL);
	if (w.rc != -1 || w.error != EINTR)
		printf("     then returned %ld %s\n", w.rc,
		       w.error ? strerrorname_np(w.error) : "0");
	return ok && w.rc == -1 && w.error == EINTR;
}

static int cmd_signals(int argc, char **argv)
{
	static const char *const names[] = {"recv", "poll", "select", "epoll_wait"};
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};
	struct sigaction action = {.sa_handler = on_signal};
	int failed = 0;

	peer = address(argv[0], argv[1]);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 8; i++) {
		bool ok = is_interrupted(types[i % 2], (enum way)(i / 2));

		failed += !ok;
		printf("%s %s: %s is interrupted\n", ok ? "ok  " : "FAIL", i % 2 ? "tcp" : "udp",
		       names[i / 2]);
	}
	for (int i = 0; i < 2; i++) {
		bool ok = close_does_not_end(types[i], WAY_RECV);

		failed += !ok;
		printf("%s %s: close does not end recv\n", ok ? "ok  " : "FAIL",
		       i % 2 ? "tcp" : "udp");
	}
	return failed != 0;
}

/* ---- costs ------------------------------------------------------------------ */

static int cmd_pause(int argc, char **argv)
{
	puts("ready");
	while (pause() < 0)
		continue;
	return 0;
}

static uint64_t time_true(char **env)
{
	char name[] = "/bin/true";
	char *args[] = {name, NULL};
	uint64_t start = now_nsec();
	int status = -1;
	pid_t pid;

	errno = posix_spawn(&pid, name, NULL, NULL, args, env);
	if (errno || waitpid(pid, &status, 0) != pid || status)
		die(name);
	return now_nsec() - start;
}

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int cmd_startup(int argc, char **argv)
{
	uint64_t fastest[2] = {UINT64_MAX, UINT64_MAX};
	char preload[4096];
	char *plain[] = {NULL}, *with[] = {preload, NULL};

	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[1]);
	for (int i = atoi(argv[0]); i > 0; i--) {
		fastest[0] = min(fastest[0], time_true(plain));
		fastest[1] = min(fastest[1], time_true(with));
	}
	printf("plain_us=%lu preloaded_us=%lu\n", fastest[0] / 1000, fastest[1] / 1000);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int min_args;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{"serve", 1, cmd_serve},     {"ask", 3, cmd_ask},	  {"burst", 3, cmd_burst},
		{"flood", 2, cmd_flood},     {"hold", 2, cmd_hold},	  {"errors", 3, cmd_errors},
		{"fork", 2, cmd_fork},	     {"signals", 2, cmd_signals}, {"pause", 0, cmd_pause},
		{"startup", 2, cmd_startup},
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(argv[1], commands[i].name) && argc - 2 >= commands[i].min_args)
			return commands[i].run(argc - 2, argv + 2);
	fprintf(stderr, "see the head of %s\n", __FILE__);
	return 2;
}
