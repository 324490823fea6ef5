/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of calls that the library only forwards, and of waiting for many sockets.
 *
 *	waits_bench steps IP PORT IDLE COUNT	for steps: read and write on a kernel
 *		descriptor, and epoll_wait with IDLE + 1 sockets in the set
 *	waits_bench time IP PORT		nanoseconds of the same, one number
 *		per line; read and write also through libc directly
 *
 * An echo server for datagrams is at IP and PORT.  One socket has an event when epoll_wait is
 * called, the others never have one.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/lib-names.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench/steps.h"

#define ARRIVAL 5 /* msec: by then the echo has arrived */
#define MOST 10000
#define FIRST_PORT 10000
#define TURNS 300
#define CALLS 1000 /* per turn: some of them are undisturbed */
#define SAMPLES 101
#define WARM 50 /* calls before the first that counts */

typedef ssize_t (*read_fn)(int, void *, size_t);
typedef ssize_t (*write_fn)(int, const void *, size_t);
typedef int (*epoll_wait_fn)(int, struct epoll_event *, int, int);

static struct sockaddr_in peer;
static int set, talker, null;
static char data[16] = "fifteen messages";

__attribute__((noreturn)) static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

/* The function that the program calls: the library's, when it is preloaded. */
static void *function(void *from, const char *name)
{
	void *fn = dlsym(from, name);

	if (!fn)
		die(name);
	return fn;
}

static double nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void nap_msec(int msec)
{
	struct timespec ts = {.tv_nsec = msec * 1000000L};

	nanosleep(&ts, NULL);
}

static void add(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
}

static int udp(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0)
		die("socket");
	return fd;
}

static void add_idle(unsigned from, unsigned to)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t len = sizeof(name);

	if (getsockname(talker, (struct sockaddr *)&name, &len))
		die("getsockname");
	for (unsigned i = from; i < to; i++) {
		int fd = udp();

		name.sin_port = htons((uint16_t)(FIRST_PORT + i));
		if (bind(fd, (struct sockaddr *)&name, sizeof(name)))
			die("bind");
		add(fd);
	}
}

static void begin(const char *ip, const char *port)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	peer.sin_family = AF_INET;
	peer.sin_port = htons((uint16_t)atoi(port));
	if (inet_pton(AF_INET, ip, &peer.sin_addr) != 1)
		exit(2);
	null = open("/dev/null", O_RDWR);
	set = epoll_create1(0);
	talker = udp();
	if (connect(talker, (struct sockaddr *)&peer, sizeof(peer)))
		die("connect");
	add(talker);
}

/* Waits for an echo, and lets periodic work run. */
static void hear(void)
{
	if (send(talker, data, sizeof(data), 0) != sizeof(data))
		die("send");
	nap_msec(ARRIVAL);
}

/*
 * False: the echo was late. took: NULL where steps are counted, because the clock might change
 * again and again while it is read.
 */
static bool wait_for_one(epoll_wait_fn do_wait, double *took)
{
	struct epoll_event events[4];
	double began = took ? nsec() : 0;
	int n = do_wait(set, events, 4, 0);
	bool in_time = n == 1;

	if (took)
		*took = nsec() - began;
	while (n == 0)
		n = epoll_wait(set, events, 4, 1000);
	if (n != 1 || events[0].data.fd != talker)
		die("epoll_wait");
	if (recv(talker, data, sizeof(data), MSG_DONTWAIT) != sizeof(data))
		die("recv");
	return in_time;
}

/* ---- steps ----------------------------------------------------------------------------- */

static void count_one_read(read_fn do_read, const char *name)
{
	do_read(null, data, sizeof(data));
	steps_count((void *)do_read, name);
	do_read(null, data, sizeof(data));
}

static void count_one_write(write_fn do_write, const char *name)
{
	do_write(null, data, sizeof(data));
	steps_count((void *)do_write, name);
	do_write(null, data, sizeof(data));
}

static void count_all(unsigned idle, int count)
{
	void *libc = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
	epoll_wait_fn do_wait = (epoll_wait_fn)function(RTLD_DEFAULT, "epoll_wait");

	add_idle(0, idle);
	for (int i = -WARM; i < count; i++) {
		hear();
		wait_for_one(do_wait, NULL); /* at full speed: this updates the clock */
		if (i < 0)
			continue;
		hear();
		steps_count((void *)do_wait, "epoll_wait");
		wait_for_one(do_wait, NULL);
	}
	for (int i = 0; i < count; i++) {
		count_one_read((read_fn)function(RTLD_DEFAULT, "read"), "read");
		count_one_read((read_fn)function(libc, "read"), "plain_read");
		count_one_write((write_fn)function(RTLD_DEFAULT, "write"), "write");
		count_one_write((write_fn)function(libc, "write"), "plain_write");
	}
}

/* ---- time ------------------------------------------------------------------------------ */

static double time_reads(read_fn do_read)
{
	double began = nsec();

	for (int i = 0; i < CALLS; i++)
		do_read(null, data, sizeof(data));
	return (nsec() - began) / CALLS;
}

static double time_writes(write_fn do_write)
{
	double began = nsec();

	for (int i = 0; i < CALLS; i++)
		do_write(null, data, sizeof(data));
	return (nsec() - began) / CALLS;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* In turns, so that other load of the machine affects both equally. */
static void time_passing(void)
{
	void *libc = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
	double ours[2] = {1e9, 1e9}, plain[2] = {1e9, 1e9};

	for (int i = 0; i < TURNS; i++) {
		ours[0] = least(ours[0], time_reads((read_fn)function(RTLD_DEFAULT, "read")));
		plain[0] = least(plain[0], time_reads((read_fn)function(libc, "read")));
		ours[1] = least(ours[1], time_writes((write_fn)function(RTLD_DEFAULT, "write")));
		plain[1] = least(plain[1], time_writes((write_fn)function(libc, "write")));
	}
	printf("read ns=%.1f plain=%.1f more=%.1f\n", ours[0], plain[0], ours[0] - plain[0]);
	printf("write ns=%.1f plain=%.1f more=%.1f\n", ours[1], plain[1], ours[1] - plain[1]);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void time_waits(void)
{
	static const unsigned idle[] = {0, 99, MOST - 1};
	epoll_wait_fn do_wait = (epoll_wait_fn)function(RTLD_DEFAULT, "epoll_wait");
	double took[SAMPLES];
	unsigned have = 0;

	for (unsigned i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
		add_idle(have, idle[i]);
		have = idle[i];
		for (int n = 0; n < SAMPLES;) {
			hear();
			n += wait_for_one(do_wait, &took[n]);
		}
		qsort(took, SAMPLES, sizeof(took[0]), by_value);
		printf("epoll_wait_%u ns=%.0f\n", have + 1, took[SAMPLES / 2]);
	}
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "steps")) {
		begin(argv[2], argv[3]);
		count_all((unsigned)atoi(argv[4]), atoi(argv[5]));
	} else if (argc == 4 && !strcmp(argv[1], "time")) {
		begin(argv[2], argv[3]);
		time_passing();
		time_waits();
	} else {
		return 2;
	}
	return 0;
}
