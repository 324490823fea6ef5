/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of very many idle TCP connections.
 *
 *	crowd serve ADDRESS PORT CONTROL
 *	crowd open ADDRESS PORT CONTROL COUNT ROUNDS LOCAL-ADDRESS...
 *	crowd churn ...		as open, without pauses, and one more connection stays open
 *
 * Both also connect through the Unix socket CONTROL: open tells serve how many connections
 * there are and when to close them, and prints what both of them use, one line per phase:
 *
 *	round 1 open 1000 ms 350 client_kb 1200 client_fds 1003 server_kb ...
 *
 * kb: anonymous memory.  On some of the connections it sends and receives one byte.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define WINDOW 64     /* connects in progress */
#define TRY_EVERY 997 /* one in this many connections */
#define PATIENCE 20000
#define SOME_FDS 100 /* used without connections, and a reserve */

static int *fds; /* one per connection */
static unsigned n_fds, max_fds;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long msec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- what it uses --------------------------------------------------------------------- */

static long anonymous_kb(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kb = -1;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "Anonymous: %ld", &kb);
	if (f)
		fclose(f);
	return kb;
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 3; /* "." and "..", and the directory itself */
}

/* Touches the same memory in every phase, so that it does not change the measurement. */
static void make_room(unsigned n)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	max_fds = n;
	fds = malloc(n * sizeof(*fds));
	if (!fds)
		die("malloc");
	memset(fds, 0xff, n * sizeof(*fds));
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, ip, &sin.sin_addr) != 1)
		die(ip);
	return sin;
}

static struct sockaddr_un control_name(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	return sun;
}

static void close_all(void)
{
	while (n_fds)
		close(fds[--n_fds]);
}

/* ---- server ---------------------------------------------------------------------------- */

static void accept_up_to(int listener, unsigned n)
{
	while (n_fds < n) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			die("accept");
		fds[n_fds++] = fd;
	}
}

/* Each tested connection has one byte. poll(2) for so many would need memory. */
static void echo(unsigned n)
{
	long until = msec() + PATIENCE;
	char byte;

	while (n) {
		if (msec() > until)
			die("nobody tries");
		for (unsigned i = 0; i < n_fds && n; i++) {
			if (recv(fds[i], &byte, 1, MSG_DONTWAIT) != 1)
				continue;
			if (send(fds[i], &byte, 1, 0) != 1)
				die("echo");
			n--;
		}
	}
}

static int serve(char **argv)
{
	struct sockaddr_in sin = address(argv[0], argv[1]);
	struct sockaddr_un sun = control_name(argv[2]);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	int meeting = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), control;
	char line[128];
	unsigned n;
	ssize_t len;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&sin, sizeof(sin)) || listen(listener, 4096))
		die("listen");
	if (bind(meeting, (struct sockaddr *)&sun, sizeof(sun)) || listen(meeting, 1))
		die(argv[2]);
	puts("ready");
	fflush(stdout);
	control = accept(meeting, NULL, NULL);
	if (control < 0)
		die("accept");
	while ((len = recv(control, line, sizeof(line) - 1, 0)) > 0) {
		line[len] = 0;
		if (sscanf(line, "room %u", &n) == 1)
			make_room(n);
		else if (sscanf(line, "accept %u", &n) == 1)
			accept_up_to(listener, n);
		else if (sscanf(line, "echo %u", &n) == 1)
			echo(n);
		else if (!strcmp(line, "close"))
			close_all();
		if (strcmp(line, "report") != 0)
			continue;
		len = snprintf(line, sizeof(line), "%ld %u", anonymous_kb(), count_fds());
		if (send(control, line, (size_t)len, 0) != len)
			die("control");
	}
	return 0;
}

/* ---- client ---------------------------------------------------------------------------- */

static void tell(int control, const char *what, unsigned n)
{
	char line[128];
	int len = n ? snprintf(line, sizeof(line), "%s %u", what, n)
		    : snprintf(line, sizeof(line), "%s", what);

	if (send(control, line, (size_t)len, 0) != len)
		die("control");
}

static void report(int control, unsigned round, const char *phase, long began)
{
	long took = msec() - began, kb;
	unsigned there;
	char line[128];
	ssize_t len;

	tell(control, "report", 0);
	len = recv(control, line, sizeof(line) - 1, 0);
	if (len <= 0)
		die("control");
	line[len] = 0;
	if (sscanf(line, "%ld %u", &kb, &there) != 2)
		die(line);
	printf("round %u %s %u ms %ld client_kb %ld client_fds %u server_kb %ld server_fds %u\n",
	       round, phase, n_fds, took, anonymous_kb(), count_fds(), kb, there);
	fflush(stdout);
}

static int begin_connect(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		die("socket");
	if (bind(fd, (const struct sockaddr *)from, sizeof(*from)))
		die("bind");
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) && errno != EINPROGRESS)
		die("connect");
	return fd;
}

static void await_connected(struct pollfd *p, unsigned n)
{
	for (unsigned left = n; left;) {
		if (poll(p, n, PATIENCE) <= 0)
			die("a connection does not come about");
		for (unsigned i = 0; i < n; i++) {
			int error = 0;
			socklen_t len = sizeof(error);

			if (p[i].fd < 0 || !p[i].revents)
				continue;
			getsockopt(p[i].fd, SOL_SOCKET, SO_ERROR, &error, &len);
			if (error) {
				errno = error;
				die("connect");
			}
			p[i].fd = -1;
			left--;
		}
	}
}

static void open_all(unsigned count, const struct sockaddr_in *to, char **locals, int n_locals)
{
	struct pollfd p[WINDOW];

	while (n_fds < count) {
		unsigned n = 0;

		for (; n < WINDOW && n_fds < count; n++) {
			struct sockaddr_in from = address(locals[n_fds % (unsigned)n_locals], "0");

			fds[n_fds] = begin_connect(&from, to);
			p[n] = (struct pollfd){.fd = fds[n_fds++], .events = POLLOUT};
		}
		await_connected(p, n);
	}
}

/* One byte in each direction, on connections that were idle. */
static void try_some(int control)
{
	unsigned n = 0;
	char byte = 'x';

	for (unsigned i = 0; i < n_fds; i += TRY_EVERY, n++) {
		if (send(fds[i], &byte, 1, 0) != 1)
			die("send");
	}
	tell(control, "echo", n);
	for (unsigned i = 0; i < n_fds; i += TRY_EVERY) {
		struct pollfd p = {.fd = fds[i], .events = POLLIN};

		if (poll(&p, 1, PATIENCE) != 1 || recv(fds[i], &byte, 1, 0) != 1 || byte != 'x')
			die("a connection that was idle does not work");
	}
}

/* Closed connections keep their ports while they exchange segments, and would get in the way. */
static void settle(unsigned pause)
{
	long until = msec() + PATIENCE;
	struct rlimit limit;

	sleep(pause);
	getrlimit(RLIMIT_NOFILE, &limit);
	while (pause && count_fds() > limit.rlim_cur / 8 + SOME_FDS && msec() < until)
		usleep(100000);
}

static void run_round(int control, unsigned round, unsigned count, const struct sockaddr_in *to,
		      char **locals, int n_locals, unsigned pause)
{
	long began = msec();

	tell(control, "accept", count);
	open_all(count, to, locals, n_locals);
	report(control, round, "opened", began);
	try_some(control);
	sleep(pause); /* the memory kept for senders is returned */
	report(control, round, "open", began);
	began = msec();
	close_all();
	tell(control, "close", 0);
	report(control, round, "closed", began);
	settle(pause);
}

/* The server forgets this connection. */
static void keep_one(int control, const struct sockaddr_in *to, char **locals)
{
	tell(control, "accept", 1);
	open_all(1, to, locals, 1);
	n_fds = 0;
	tell(control, "close", 0);
}

static int open_them(int argc, char **argv, bool churn)
{
	struct sockaddr_in to = address(argv[0], argv[1]);
	struct sockaddr_un sun = control_name(argv[2]);
	unsigned count = (unsigned)atoi(argv[3]), rounds = (unsigned)atoi(argv[4]);
	int control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (connect(control, (struct sockaddr *)&sun, sizeof(sun)))
		die(argv[2]);
	make_room(count);
	tell(control, "room", count);
	/* What the first connection allocates does not count. */
	tell(control, "accept", WINDOW);
	open_all(WINDOW, &to, argv + 5, argc - 5);
	close_all();
	tell(control, "close", 0);
	if (churn)
		keep_one(control, &to, argv + 5);
	sleep(2);
	report(control, 0, "before", msec());
	for (unsigned round = 1; round <= rounds; round++) {
		run_round(control, round, count, &to, argv + 5, argc - 5, churn ? 0 : 2);
		report(control, round, "after", msec());
	}
	sleep(1); /* segments in transit arrive */
	report(control, rounds, "end", msec());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "serve"))
		return serve(argv + 2);
	if (argc >= 8 && !strcmp(argv[1], "open"))
		return open_them(argc - 2, argv + 2, false);
	if (argc >= 8 && !strcmp(argv[1], "churn"))
		return open_them(argc - 2, argv + 2, true);
	fputs("see the head of crowd.c\n", stderr);
	return 2;
}
