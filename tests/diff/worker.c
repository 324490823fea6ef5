/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One side: runs the behaviours of a suite one after the other; and the functions that they
 * call.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/worker.h"

#define CLIENT_IP "10.9.0.1"
#define SERVER_IP "10.9.0.2"
#define NOBODY_IP "10.9.0.9"
#define SETTLE_MS 10000
#define HIDDEN_MS 10000
#define FDS 256 /* of the program: the library uses higher numbers */

bool is_server;
bool with_lib;
static unsigned port_base;
static jmp_buf give_up;
static int worker_pid;

/* ---- the transcript ------------------------------------------------------------------- */

static void put_line(const char *line, size_t n)
{
	while (n && write(TRANSCRIPT_FD, line, n) < 0 && errno == EINTR)
		;
}

void say(const char *fmt, ...)
{
	int saved = errno, n;
	char line[2048];
	va_list args;

	va_start(args, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	for (int i = 0; i < n; i++) {
		if ((unsigned char)line[i] < ' ')
			line[i] = '?';
	}
	line[n++] = '\n';
	put_line(line, (size_t)n);
	errno = saved;
}

long say_result(const char *text, long value)
{
	int saved = errno;

	if (value == -1)
		say("%s = -1 %s", text, strerrorname_np(saved));
	else
		say("%s = %ld", text, value);
	errno = saved;
	return value;
}

void say_bytes(const void *data, size_t n)
{
	const unsigned char *p = data;
	char text[201];
	size_t len = 0;
	unsigned sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum = sum * 31 + p[i];
		if (n <= 50)
			len += (size_t)snprintf(text + len, sizeof(text) - len,
						p[i] >= ' ' && p[i] < 127 ? "%c" : "\\x%02x", p[i]);
	}
	if (n <= 50)
		say("bytes '%.*s'", (int)len, text);
	else
		say("%zu bytes, sum %08x", n, sum);
}

void say_addr(const char *what, const void *addr, socklen_t len)
{
	const struct sockaddr_in *sin = addr;
	char ip[INET_ADDRSTRLEN] = "?", name[16] = "*";
	unsigned p;

	if (len < sizeof(*sin) || sin->sin_family != AF_INET) {
		say("%s: family %d, length %u", what, len >= 2 ? sin->sin_family : -1, len);
		return;
	}
	p = ntohs(sin->sin_port);
	inet_ntop(AF_INET, &sin->sin_addr, ip, sizeof(ip));
	if (p >= port(0) && p < port(PORTS_EACH))
		snprintf(name, sizeof(name), "%u", p - port(0));
	else if (!p)
		snprintf(name, sizeof(name), "none");
	say("%s: %s:%s, length %u", what,
	    !strcmp(ip, SERVER_IP)   ? "server"
	    : !strcmp(ip, CLIENT_IP) ? "client"
				     : ip,
	    name, len);
}

void say_events(const char *what, uint32_t events)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {
		{EPOLLIN, "IN"},	 {EPOLLPRI, "PRI"},	  {EPOLLOUT, "OUT"},
		{EPOLLERR, "ERR"},	 {EPOLLHUP, "HUP"},	  {POLLNVAL, "NVAL"},
		{EPOLLRDNORM, "RDNORM"}, {EPOLLRDBAND, "RDBAND"}, {EPOLLWRNORM, "WRNORM"},
		{EPOLLWRBAND, "WRBAND"}, {EPOLLMSG, "MSG"},	  {EPOLLRDHUP, "RDHUP"},
	};
	char text[128] = "";

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!(events & names[i].bit))
			continue;
		if (*text)
			strcat(text, "|");
		strcat(text, names[i].name);
		events &= ~names[i].bit;
	}
	if (events)
		say("%s: %s and %#x", what, text, events);
	else
		say("%s: %s", what, *text ? text : "nothing");
}

long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void not_before(const char *what, long began, long lo)
{
	say("%s: %s", what, now_ms() - began < lo ? "too early" : "not too early");
}

/* ---- both sides ----------------------------------------------------------------------- */

/* In a child it ends only the child; in the worker it ends the behaviour. */
static void __attribute__((noreturn)) stop(void)
{
	if (getpid() != worker_pid)
		_exit(99);
	longjmp(give_up, 1);
}

/* The other side has ended: this side ends, too. The driver reports it. */
static void control(char kind, long *value, bool send_it)
{
	struct {
		long kind, value;
	} msg = {kind, *value};
	ssize_t n;

	do {
		n = send_it ? send(CONTROL_FD, &msg, sizeof(msg), MSG_NOSIGNAL)
			    : recv(CONTROL_FD, &msg, sizeof(msg), 0);
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(msg))
		_exit(98);
	if (msg.kind != kind) {
		say("the sides are at different places: '%c', expected '%c'", (char)msg.kind, kind);
		_exit(97);
	}
	*value = msg.value;
}

static void barrier(char kind)
{
	long value = 0;

	control(kind, &value, true);
	control(kind, &value, false);
}

void meet(void)
{
	barrier('m');
}

void tell(long value)
{
	control('t', &value, true);
}

long hear(void)
{
	long value = 0;

	control('t', &value, false);
	return value;
}

static void introduce(void)
{
	long pid = worker_pid;

	control('p', &pid, true);
	control('p', &pid, false);
	other_pid = (int)pid;
}

uint16_t port(unsigned i)
{
	return (uint16_t)(port_base + i);
}

static struct sockaddr_in address(const char *ip, unsigned i)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port(i))};

	inet_pton(AF_INET, ip, &sin.sin_addr);
	return sin;
}

struct sockaddr_in server_addr(unsigned i)
{
	return address(SERVER_IP, i);
}

struct sockaddr_in client_addr(unsigned i)
{
	return address(CLIENT_IP, i);
}

struct sockaddr_in nobody_addr(void)
{
	return address(NOBODY_IP, 0);
}

struct sockaddr_in any_addr(unsigned i)
{
	return address("0.0.0.0", i);
}

/* ---- set-up --------------------------------------------------------------------------- */

long must_(const char *text, long value)
{
	if (value >= 0)
		return value;
	say("set-up: %s = -1 %s", text, strerrorname_np(errno));
	stop();
}

int bound(int type, unsigned i)
{
	struct sockaddr_in sin = is_server ? server_addr(i) : client_addr(i);
	int fd = (int)MUST(socket(AF_INET, type, 0));

	/* A datagram socket whose port others may share receives by the kernel. */
	if (type != SOCK_DGRAM || !getenv("DIFF_LOCAL"))
		set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	MUST(bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	return fd;
}

int udp_bound(unsigned i)
{
	return bound(SOCK_DGRAM, i);
}

int tcp_listening(unsigned i)
{
	int fd = bound(SOCK_STREAM, i);

	MUST(listen(fd, 16));
	return fd;
}

int tcp_pair(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd, listener;

	if (is_server) {
		listener = tcp_listening(0);
		meet();
		fd = (int)MUST(accept(listener, NULL, NULL));
		close(listener);
	} else {
		fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
		meet();
		MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	}
	meet();
	return fd;
}

int udp_pair_at(unsigned i)
{
	struct sockaddr_in to = is_server ? client_addr(i) : server_addr(i);
	int fd = udp_bound(i);

	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	return fd;
}

int udp_pair(void)
{
	return udp_pair_at(0);
}

void await(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	if (poll(&p, 1, PATIENCE) != 1)
		say("set-up: events %#x do not come", events);
}

void set_int(int fd, int level, int name, int value)
{
	MUST(setsockopt(fd, level, name, &value, sizeof(value)));
}

int get_int(int fd, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);

	MUST(getsockopt(fd, level, name, &value, &len));
	return value;
}

void close_with_reset(int fd)
{
	struct linger now = {.l_onoff = 1};

	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	close(fd);
}

void set_nonblocking(int fd, bool on)
{
	int flags = (int)MUST(fcntl(fd, F_GETFL));

	MUST(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

void set_timeout(int fd, int name, int msec)
{
	struct timeval tv = {msec / 1000, msec % 1000 * 1000};

	MUST(setsockopt(fd, SOL_SOCKET, name, &tv, sizeof(tv)));
}

static void on_signal(int sig)
{
	(void)sig;
}

void alarm_in(int msec, int sa_flags)
{
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = sa_flags};
	struct itimerval it = {{0, 200000}, {msec / 1000, msec % 1000 * 1000}};

	MUST(sigaction(SIGALRM, &act, NULL));
	MUST(setitimer(ITIMER_REAL, &it, NULL));
}

void no_alarm(void)
{
	MUST(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL));
}

void ping(int fd, const char *text)
{
	char buf[100] = "";
	size_t n = strlen(text);

	SAY(send(fd, text, n, 0));
	SAY(recv(fd, buf, n, MSG_WAITALL));
	say_bytes(buf, n);
}

void pong(int fd)
{
	char buf[100];
	long n = recv(fd, buf, sizeof(buf), 0);

	say_result("recv", n);
	if (n > 0)
		say_result("send", send(fd, buf, (size_t)n, 0));
}

void expect_end(int fd)
{
	char buf[100];

	await(fd, POLLIN);
	SAY(recv(fd, buf, sizeof(buf), 0));
}

int spawn(int (*fn)(void *arg), void *arg)
{
	int pid = (int)MUST(fork());

	if (pid == 0)
		_exit(fn(arg));
	return pid;
}

void join(int pid)
{
	long until = now_ms() + PATIENCE;
	int status, rc;

	while ((rc = waitpid(pid, &status, WNOHANG)) == 0 && now_ms() < until)
		usleep(1000);
	if (rc == 0)
		say("a child does not end");
	else if (rc < 0)
		say("no child");
	else if (WIFSIGNALED(status))
		say("a child: signal %d", WTERMSIG(status));
	else
		say("a child: %d", WEXITSTATUS(status));
	if (rc == 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
}

/* ---- one after the other -------------------------------------------------------------- */

/*
 * Does a descriptor stay open?  Another thread of the library opens one and moves it to a high
 * number a moment later.
 */
static bool stays_open(int fd)
{
	long until = now_ms() + HIDDEN_MS;

	while (fcntl(fd, F_GETFD) >= 0) {
		if (now_ms() >= until)
			return true;
		usleep(1000);
	}
	return false;
}

/* Those that the program has left open. */
static void close_fds(void)
{
	for (int fd = 3; fd < FDS; fd++) {
		char path[32], what[128];
		ssize_t n;

		if (!stays_open(fd))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, what, sizeof(what) - 1);
		what[n > 0 ? n : 0] = 0;
		/* Inode numbers vary. */
		if (strncmp(what, "anon_inode:", 11) != 0)
			what[strcspn(what, ":")] = 0;
		say("descriptor %d left open: %s", fd, what);
		close(fd);
	}
}

/* Datagrams of IPv6 that the kernel of this namespace has handled. */
static unsigned long kernel_count6(void)
{
	FILE *f = getenv("DIFF_LOCAL") ? NULL : fopen("/proc/self/net/snmp6", "r");
	unsigned long sum = 0, value;
	char name[64];

	while (f && fscanf(f, "%63s %lu", name, &value) == 2) {
		if (!strcmp(name, "Udp6InDatagrams") || !strcmp(name, "Udp6OutDatagrams"))
			sum += value;
	}
	if (f)
		fclose(f);
	return sum;
}

/*
 * Datagrams and TCP segments that the kernel of this namespace has handled, without those that
 * arrive late for an ended connection, which it answers with a reset, for example.  Of datagrams on
 * one host (DIFF_LOCAL) the kernel handles all.
 */
static unsigned long kernel_count(void)
{
	char names[1024], values[1024], *name, *value, *n_rest, *v_rest;
	FILE *f = fopen("/proc/self/net/snmp", "r");
	unsigned long sum = kernel_count6();

	while (f && fgets(names, sizeof(names), f) && fgets(values, sizeof(values), f)) {
		if (strncmp(names, "Tcp:", 4) != 0 &&
		    (strncmp(names, "Udp:", 4) != 0 || getenv("DIFF_LOCAL")))
			continue;
		name = strtok_r(names, " \n", &n_rest);
		value = strtok_r(values, " \n", &v_rest);
		while (name && value) {
			if (!strcmp(name, "OutSegs") || !strcmp(name, "InDatagrams") ||
			    !strcmp(name, "OutDatagrams"))
				sum += strtoul(value, NULL, 10);
			else if (!strcmp(name, "OutRsts")) /* part of OutSegs */
				sum -= strtoul(value, NULL, 10);
			name = strtok_r(NULL, " \n", &n_rest);
			value = strtok_r(NULL, " \n", &v_rest);
		}
	}
	if (f)
		fclose(f);
	return sum;
}

static void mark(char kind, unsigned index, unsigned long count)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%c%u %lu\n", kind, index, count);

	put_line(line, (size_t)n);
}

/*
 * Does a connection of this side's kernel still have something to send? settled: it has had
 * enough time, and is remembered and not checked again.
 */
static bool is_busy_in(const char *table, bool settled)
{
	static unsigned long stuck[16]; /* local port and remote port */
	static unsigned n_stuck;
	const unsigned quiet = 1u << TCP_TIME_WAIT | 1u << TCP_CLOSE | 1u << TCP_LISTEN;
	FILE *f = fopen(table, "r");
	bool busy = false;
	unsigned local, remote, state;
	char line[512];

	while (f && !busy && fgets(line, sizeof(line), f)) {
		unsigned long pair;
		unsigned i = 0;

		if (sscanf(line, " %*d: %*x:%x %*x:%x %x", &local, &remote, &state) != 3 ||
		    (quiet >> state & 1))
			continue;
		pair = (unsigned long)local << 16 | remote;
		while (i < n_stuck && stuck[i] != pair)
			i++;
		if (i < n_stuck)
			continue;
		if (settled && n_stuck < sizeof(stuck) / sizeof(*stuck))
			stuck[n_stuck++] = pair;
		else
			busy = true;
	}
	if (f)
		fclose(f);
	return busy;
}

static bool kernel_is_busy(bool settled)
{
	bool busy = is_busy_in("/proc/self/net/tcp", settled);

	return is_busy_in("/proc/self/net/tcp6", settled) || busy;
}

/*
 * The kernels may still work for the previous behaviour, or for the last one of the previous
 * mode, and these packets would be counted: waits on both sides, because one side answers the
 * other.
 */
static void let_settle(void)
{
	long until = now_ms() + SETTLE_MS;

	while (kernel_is_busy(false) && now_ms() < until)
		usleep(1000);
	if (now_ms() >= until)
		(void)kernel_is_busy(true);
	barrier('s');
}

static void run(const struct behaviour *b, unsigned index)
{
	void (*fn)(void) = is_server ? b->server : b->client;
	unsigned long before;

	mark(MARK_BEGIN, index, 0);
	if (b->by == OURS)
		let_settle();
	before = kernel_count();
	barrier('b');
	if (!setjmp(give_up) && fn)
		fn();
	close_fds();
	barrier('e');
	mark(MARK_END, index, b->by == OURS ? kernel_count() - before : 0);
}

/* Names, or names that begin with - and are left out. */
static bool is_wanted(const struct behaviour *b, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!strcmp(argv[i] + (*argv[i] == '-'), b->name))
			return *argv[i] != '-';
	}
	return argc == 0 || *argv[0] == '-';
}

int worker_main(int argc, char **argv)
{
	const struct suite *suite = suites;
	unsigned first, base;

	if (argc < 5)
		return 2;
	is_server = !strcmp(argv[0], "server");
	first = (unsigned)atoi(argv[2]);
	base = (unsigned)atoi(argv[3]);
	with_lib = atoi(argv[4]);
	worker_pid = getpid();
	while (suite->name && strcmp(suite->name, argv[1]) != 0)
		suite++;
	if (!suite->name)
		return 2;
	introduce();
	for (unsigned i = first; suite->list[i].name; i++) {
		if (!is_wanted(&suite->list[i], argc - 5, argv + 5))
			continue;
		port_base = base + i * PORTS_EACH;
		run(&suite->list[i], i);
	}
	return 0;
}
