/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections on one host, of which one is active; and a pair that is idle.
 *
 *	local_bench serve IP PORT		echoes what it gets, on all connections
 *	local_bench many IP PORT N SERVER	one way of an echo of 14 bytes with one connection and
 *		with N, in nanoseconds, and the memory of an idle connection in bytes, both ends
 *	local_bench idle IP PORT SERVER		processor time of both processes in a second of
 *		silence, in clock ticks
 *
 * SERVER: the process of the server.  Prints KEY=VALUE.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE 14
#define WARM 2000
#define ROUNDS 20000
#define EVENTS 64
#define SETTLE_MS 1500 /* by then, threads that poll for a while sleep */

__attribute__((noreturn)) static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static struct sockaddr_in address(char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_port = htons((uint16_t)atoi(argv[1]))};

	if (inet_pton(AF_INET, argv[0], &addr.sin_addr) != 1)
		die(argv[0]);
	return addr;
}

/* One for each connection, of both ends. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		die("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("setrlimit");
}

/* ---- server --------------------------------------------------------------------------------- */

static void watch(int set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
}

static void echo(int fd)
{
	char buf[4096];
	ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n > 0 && send(fd, buf, (size_t)n, MSG_NOSIGNAL) != n)
		n = -1;
	if (n == 0 || (n < 0 && errno != EAGAIN))
		close(fd);
}

static void serve(char **argv)
{
	struct sockaddr_in addr = address(argv);
	struct epoll_event events[EVENTS];
	int fd = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0), one = 1;

	if (fd < 0 || set < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 1024))
		die("listen");
	watch(set, fd);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(set, events, EVENTS, -1);

		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			int from = events[i].data.fd;

			if (from != fd)
				echo(from);
			else if ((from = accept(fd, NULL, NULL)) >= 0)
				watch(set, from);
			else
				die("accept");
		}
	}
}

/* ---- client --------------------------------------------------------------------------------- */

static int connect_to(const struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (fd < 0 || connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("connect");
	return fd;
}

static void ping(int fd)
{
	char buf[MESSAGE] = "fourteen bytes";

	if (send(fd, buf, MESSAGE, 0) != MESSAGE || recv(fd, buf, MESSAGE, MSG_WAITALL) != MESSAGE)
		die("echo");
}

static long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

/* The median of half a round trip. */
static long one_way(int fd)
{
	static long samples[ROUNDS];

	for (int i = 0; i < WARM; i++)
		ping(fd);
	for (int i = 0; i < ROUNDS; i++) {
		long begin = now_ns();

		ping(fd);
		samples[i] = now_ns() - begin;
	}
	qsort(samples, ROUNDS, sizeof(samples[0]), compare);
	return samples[ROUNDS / 2] / 2;
}

/* Bytes of both processes; what they share counts once. */
static long memory(const char *pid)
{
	char path[64], line[256];
	long kb = 0, sum = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/smaps_rollup", pid);
	f = fopen(path, "re");
	if (!f)
		die(path);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %ld kB", &kb) == 1)
			sum += kb * 1024;
	fclose(f);
	return sum;
}

static long memory_of_both(const char *server)
{
	return memory("self") + memory(server);
}

static void many(char **argv)
{
	struct sockaddr_in addr = address(argv);
	int n = atoi(argv[2]), first = connect_to(&addr), last = first;
	long one = one_way(first), before = memory_of_both(argv[3]);

	for (int i = 1; i < n; i++)
		last = connect_to(&addr);
	/* The server has accepted all of them. */
	ping(last);
	printf("one_ns=%ld bytes=%ld many_ns=%ld\n", one,
	       (memory_of_both(argv[3]) - before) / (n - 1), one_way(first));
}

static long ticks(const char *pid)
{
	char path[64], line[1024];
	long user, system;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f) ||
	    sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld",
		   &user, &system) != 2)
		die(path);
	fclose(f);
	return user + system;
}

static void idle(char **argv)
{
	struct sockaddr_in addr = address(argv);
	int fd = connect_to(&addr);
	long before;

	for (int i = 0; i < WARM; i++)
		ping(fd);
	usleep(SETTLE_MS * 1000);
	before = ticks("self") + ticks(argv[2]);
	sleep(1);
	printf("ticks=%ld\n", ticks("self") + ticks(argv[2]) - before);
}

int main(int argc, char **argv)
{
	allow_descriptors();
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(argv + 2);
	else if (argc == 6 && !strcmp(argv[1], "many"))
		many(argv + 2);
	else if (argc == 5 && !strcmp(argv[1], "idle"))
		idle(argv + 2);
	else
		return 2;
	return 0;
}
