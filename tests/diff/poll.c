/* SPDX-License-Identifier: BSD-2-Clause */
/* poll, ppoll, select and pselect: arguments, results, timeouts. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/look.h"

/* Arguments that compilers would warn about. */
static void *volatile nowhere;
static void *volatile bad_place = (void *)8;
static volatile int many = 100000000;

static void sender(void)
{
	int fd = tcp_pair();
	long n;

	while ((n = hear()) > 0)
		MUST(send(fd, "abcdefghijklmnopqrstuvwxyz", (size_t)n, 0));
	meet();
	close(fd);
}

static void end(int fd)
{
	char buf[10];

	tell(0);
	meet();
	recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	close(fd);
}

static void get(int fd, int n)
{
	tell(n);
	await_bytes(fd, n);
}

static int udp(void)
{
	return udp_bound(1);
}

static void say_poll(const char *what, struct pollfd *p, nfds_t n, int msec)
{
	char text[64];

	say("%s: %d", what, poll(p, n, msec));
	for (nfds_t i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%s: %u", what, (unsigned)i);
		say_events(text, (uint16_t)p[i].revents);
	}
}

/* ---- poll ------------------------------------------------------------------------------ */

static void not_open(void)
{
	int fd = udp(), null = open("/dev/null", O_RDWR);
	struct pollfd p[5] = {
		{.fd = -1, .events = POLLIN, .revents = 77},
		{.fd = 999, .events = POLLIN},
		{.fd = fd, .events = POLLIN},
		{.fd = null, .events = POLLIN},
		{.fd = -fd, .events = POLLOUT, .revents = 77},
	};

	say_poll("all", p, 5, 1000);
	close(fd);
	say_poll("closed", p, 5, 1000);
	close(null);
	say_poll("both closed", p, 5, 1000);
}

/* An accelerated socket and a kernel descriptor that are ready at the same time. */
static void both_ready(void)
{
	int fd = udp(), null = open("/dev/null", O_RDWR);
	struct pollfd p[2] = {{.fd = fd, .events = POLLOUT}, {.fd = null, .events = POLLIN}};

	say_poll("both", p, 2, 1000);
	close(fd);
	close(null);
}

static void nothing_to_poll(void)
{
	struct pollfd p = {.fd = -1, .events = POLLIN};

	SAY_TIMEOUT(30000, poll(nowhere, 0, 30));
	SAY_TIMEOUT(30000, poll(&p, 1, 30));
	SAY(ppoll(nowhere, 0, &(struct timespec){0, 1000}, NULL));
}

static void bad_arguments(void)
{
	struct timespec bad = {0, 1000000000}, negative = {-1, 0}, zero = {0, 0};
	int fd = udp();
	struct pollfd p = {.fd = fd, .events = POLLIN};

	SAY(poll(nowhere, 1, 0));
	SAY(poll(bad_place, 1, 0));
	SAY(poll(&p, (nfds_t)many, 0));
	SAY(ppoll(&p, 1, &bad, NULL));
	SAY(ppoll(&p, 1, &negative, NULL));
	SAY(ppoll(&p, 1, &zero, NULL));
	SAY(ppoll(bad_place, 1, &zero, NULL));
	close(fd);
}

static void twice(void)
{
	int fd = udp(), copy = (int)MUST(dup(fd));
	struct pollfd p[3] = {{.fd = fd, .events = POLLOUT},
			      {.fd = fd, .events = POLLIN},
			      {.fd = copy, .events = POLLOUT | POLLIN}};

	say_poll("three", p, 3, 0);
	p[0].events = 0;
	say_poll("no events", p, 3, 0);
	p[0].events = POLLWRNORM | POLLRDNORM | POLLWRBAND | POLLRDBAND | POLLMSG;
	say_poll("others", p, 3, 0);
	close(fd);
	close(copy);
}

static void mixed(void)
{
	int fd = tcp_pair(), event = eventfd(0, 0), pipes[2];
	struct pollfd p[3];
	uint64_t one = 1;
	char buf[10];

	MUST(pipe(pipes));
	p[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	p[1] = (struct pollfd){.fd = event, .events = POLLIN};
	p[2] = (struct pollfd){.fd = pipes[0], .events = POLLIN};
	say_poll("nothing", p, 3, 10);
	MUST(write(event, &one, 8));
	say_poll("eventfd", p, 3, PATIENCE);
	MUST(read(event, &one, 8));
	tell(3);
	say_poll("socket", p, 3, PATIENCE);
	MUST(write(pipes[1], "x", 1));
	MUST(read(fd, buf, 10));
	say_poll("pipe", p, 3, PATIENCE);
	close(pipes[1]);
	MUST(read(pipes[0], buf, 1));
	say_poll("closed pipe", p, 3, PATIENCE);
	p[2].fd = -1;
	say_poll("without it", p, 3, 0);
	close(pipes[0]);
	close(event);
	end(fd);
}

static void times(void)
{
	int fd = udp();
	struct pollfd p = {.fd = fd, .events = POLLIN};

	SAY_TIMEOUT(0, poll(&p, 1, 0));
	SAY_TIMEOUT(1000, poll(&p, 1, 1));
	SAY_TIMEOUT(50000, poll(&p, 1, 50));
	SAY_TIMEOUT(20500, ppoll(&p, 1, &(struct timespec){0, 20500000}, NULL));
	close(fd);
}

static void for_ever(void)
{
	int fd = tcp_pair();
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec huge = {LONG_MAX, 999999999};
	char buf[10];

	tell(3);
	SAY(poll(&p, 1, -1));
	MUST(read(fd, buf, 10));
	tell(3);
	SAY(poll(&p, 1, -77));
	MUST(read(fd, buf, 10));
	tell(3);
	SAY(poll(&p, 1, INT_MAX));
	MUST(read(fd, buf, 10));
	tell(3);
	SAY(ppoll(&p, 1, &huge, NULL));
	MUST(read(fd, buf, 10));
	tell(3);
	SAY(ppoll(&p, 1, NULL, NULL));
	MUST(read(fd, buf, 10));
	end(fd);
}

static void large(void)
{
	int fd = udp();
	struct pollfd p[300];

	for (int i = 0; i < 300; i++)
		p[i] = (struct pollfd){.fd = i % 3 ? fd : -1, .events = i % 2 ? POLLOUT : POLLIN};
	SAY(poll(p, 300, 0));
	close(fd);
	SAY(poll(p, 300, 0));
}

/* ---- select ---------------------------------------------------------------------------- */

static void say_set(const char *what, const fd_set *set, int a, int b, int c)
{
	say("%s:%s%s%s", what, FD_ISSET(a, set) ? " a" : "", FD_ISSET(b, set) ? " b" : "",
	    FD_ISSET(c, set) ? " c" : "");
}

static void counts(void)
{
	int a = tcp_pair(), b = udp(), pipes[2], c, top;
	fd_set r, w, e;
	struct timeval zero = {0, 0};

	MUST(pipe(pipes));
	c = pipes[0];
	top = (a > b ? a : b) > c ? (a > b ? a : b) : c;
	for (int round = 0; round < 2; round++) {
		FD_ZERO(&r);
		FD_ZERO(&w);
		FD_ZERO(&e);
		FD_SET(a, &r);
		FD_SET(b, &r);
		FD_SET(a, &w);
		FD_SET(c, &r);
		FD_SET(b, &w);
		FD_SET(b, &e);
		SAY(select(top + 1, &r, &w, &e, &zero));
		say_set("read", &r, a, b, c);
		say_set("write", &w, a, b, c);
		say_set("except", &e, a, b, c);
		if (round == 0)
			get(a, 3);
	}
	FD_ZERO(&w);
	FD_SET(a, &w);
	SAY(select(a, NULL, &w, NULL, &zero));
	say("beyond n: %d", FD_ISSET(a, &w) != 0);
	close(b);
	close(c);
	close(pipes[1]);
	end(a);
}

/* Only for fd; the timeout is unchanged. */
static int select_for(int fd, fd_set *set, const struct timeval *timeout)
{
	struct timeval tv = *timeout;

	FD_ZERO(set);
	if (fd >= 0)
		FD_SET(fd, set);
	return select(fd + 1, set, NULL, NULL, &tv);
}

static void select_arguments(void)
{
	struct timeval zero = {0, 0}, negative = {-1, 0}, odd = {0, -1}, long_usec = {0, 1100000};
	struct timespec bad = {0, 1000000000};
	int fd = udp();
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	SAY(select(-1, &set, NULL, NULL, &zero));
	SAY(select(fd + 1, &set, NULL, NULL, &negative));
	SAY(select(fd + 1, &set, NULL, NULL, &odd));
	SAY(pselect(fd + 1, &set, NULL, NULL, &bad, NULL));
	say("still set: %d", FD_ISSET(fd, &set) != 0);
	SAY_TIMEOUT(1100000, select_for(fd, &set, &long_usec));
	SAY(select(fd + 1, bad_place, NULL, NULL, &zero));
	SAY(select(fd + 1, NULL, NULL, bad_place, &zero));
	FD_SET(fd, &set);
	FD_SET(200, &set);
	SAY(select(201, &set, NULL, NULL, &zero));
	say("still set: %d", FD_ISSET(200, &set) != 0);
	SAY(select(200, &set, NULL, NULL, &zero));
	close(fd);
	FD_SET(fd, &set);
	SAY(select(fd + 1, &set, NULL, NULL, &zero));
}

static void select_sleeps(void)
{
	const struct timeval some = {0, 30000};
	struct timeval tv = some;
	int fd = udp(); /* the first socket of an interface takes longer */
	fd_set set;

	SAY(select(0, NULL, NULL, NULL, &tv));
	say("left: %ld.%06ld", (long)tv.tv_sec, (long)tv.tv_usec);
	tv = (struct timeval){0, 30000};
	SAY(select(fd + 1, NULL, NULL, NULL, &tv));
	FD_ZERO(&set);
	tv = (struct timeval){0, 30000};
	SAY(select(fd + 1, &set, NULL, NULL, &tv));
	say("left: %ld.%06ld", (long)tv.tv_sec, (long)tv.tv_usec);
	FD_SET(fd, &set);
	tv = some;
	SAY(select(fd + 1, &set, NULL, NULL, &tv));
	SAY_TIMEOUT(30000, select_for(-1, &set, &some));
	SAY_TIMEOUT(30000, select_for(fd, &set, &some));
	say("left: %ld.%06ld, set %d", (long)tv.tv_sec, (long)tv.tv_usec, FD_ISSET(fd, &set) != 0);
	FD_SET(fd, &set);
	tv = (struct timeval){5, 0};
	SAY(select(fd + 1, NULL, &set, NULL, &tv));
	SAY_IF(tv.tv_sec == 4 && tv.tv_usec > 900000);
	close(fd);
}

static int pselect_for(int fd, fd_set *set, const struct timespec *ts)
{
	FD_ZERO(set);
	FD_SET(fd, set);
	return pselect(fd + 1, set, NULL, NULL, ts, NULL);
}

/* In the system call, the mask is behind another pointer. */
static void pselect6_bad_mask(void)
{
	struct timespec ts = {0, 0};
	int fd = udp();
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	SAY(syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &ts, (void *)1));
	SAY(syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &ts, NULL));
	close(fd);
}

static void pselect_keeps(void)
{
	struct timespec ts = {0, 30000000};
	int fd = udp();
	fd_set set;

	SAY_TIMEOUT(30000, pselect_for(fd, &set, &ts));
	say("timeout: %ld.%09ld", (long)ts.tv_sec, ts.tv_nsec);
	FD_SET(fd, &set);
	SAY(pselect(fd + 1, NULL, &set, NULL, NULL, NULL));
	close(fd);
}

static void select_for_ever(void)
{
	int fd = tcp_pair();
	struct timeval huge = {LONG_MAX, 999999};
	fd_set set;
	char buf[10];

	FD_ZERO(&set);
	FD_SET(fd, &set);
	tell(3);
	SAY(select(fd + 1, &set, NULL, NULL, NULL));
	MUST(read(fd, buf, 10));
	tell(3);
	SAY(select(fd + 1, &set, NULL, NULL, &huge));
	MUST(read(fd, buf, 10));
	end(fd);
}

/* n is the limit of descriptors; the memory after the set is unmapped. */
static void limit_for_n(void)
{
	struct rlimit limit, more;
	struct timeval zero = {0, 0};
	char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd_set *set = (fd_set *)(void *)(map + 4096 - sizeof(fd_set));
	int fd = udp();

	MUST(mprotect(map + 4096, 4096, PROT_NONE));
	getrlimit(RLIMIT_NOFILE, &limit);
	more = limit;
	more.rlim_cur = limit.rlim_max;
	MUST(setrlimit(RLIMIT_NOFILE, &more));
	FD_SET(fd, set);
	SAY(select((int)more.rlim_cur, NULL, set, NULL, &zero));
	say("set: %d", FD_ISSET(fd, set) != 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	munmap(map, 8192);
	close(fd);
}

/* Sets longer than fd_set, for descriptors beyond FD_SETSIZE. */
static void large_sets(void)
{
	struct rlimit limit, more = {4096, 4096};
	struct timeval zero = {0, 0};
	fd_set *set = calloc(4, sizeof(*set));
	int fd = udp(), high;
	unsigned long *words = (unsigned long *)(void *)set;

	getrlimit(RLIMIT_NOFILE, &limit);
	more.rlim_max = limit.rlim_max;
	if (limit.rlim_cur < 4096)
		MUST(setrlimit(RLIMIT_NOFILE, &more));
	high = fcntl(fd, F_DUPFD, 2000);
	SAY_IF(high >= 2000);
	words[high / 64] |= 1ul << (high % 64);
	SAY(select(high + 1, NULL, set, NULL, &zero));
	say("set: %d", (int)(words[high / 64] >> (high % 64) & 1));
	SAY(select(high + 1, set, NULL, NULL, &zero));
	say("set: %d", (int)(words[high / 64] >> (high % 64) & 1));
	close(high);
	close(fd);
	setrlimit(RLIMIT_NOFILE, &limit);
	free(set);
}

static void select_closed_peer(void)
{
	int fd = tcp_pair();
	fd_set r, w;

	tell(0);
	meet();
	await(fd, POLLRDHUP);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(fd, &r);
	SAY(select(fd + 1, &r, NULL, NULL, NULL));
	SAY(shutdown(fd, SHUT_WR));
	FD_SET(fd, &w);
	SAY(select(fd + 1, &r, &w, NULL, NULL));
	close(fd);
}

static void reads_when_told(void)
{
	static char buf[65536];
	int fd = tcp_pair();

	hear();
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	meet();
	close(fd);
}

/* Where a socket is writable, a call that blocks, of some thousand bytes, does not: proxies rely on it. */
static void writable_has_room(void)
{
	static const char block[10007];
	struct timeval limit = {.tv_sec = 2};
	int fd = tcp_pair();
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	bool whole = true;

	MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	while (whole && poll(&p, 1, 0) == 1)
		whole = send(fd, block, sizeof(block), 0) == sizeof(block);
	say("none waited: %d", whole);
	tell(0);
	await(fd, POLLOUT);
	SAY(send(fd, block, sizeof(block), 0));
	SAY(shutdown(fd, SHUT_WR));
	meet();
	close(fd);
}

const struct behaviour poll_behaviours[] = {
	{"not_open", not_open, not_open, OURS},
	{"both_ready", NULL, both_ready, OURS},
	{"nothing", nothing_to_poll, nothing_to_poll, OURS},
	{"bad_arguments", NULL, bad_arguments, OURS},
	{"twice", NULL, twice, OURS},
	{"mixed", sender, mixed, OURS},
	{"times", NULL, times, OURS},
	{"for_ever", sender, for_ever, OURS},
	{"large", NULL, large, OURS},
	{"counts", sender, counts, OURS},
	{"select_arguments", NULL, select_arguments, OURS},
	{"select_sleeps", NULL, select_sleeps, OURS},
	{"pselect_keeps", NULL, pselect_keeps, OURS},
	{"pselect6_bad_mask", NULL, pselect6_bad_mask, OURS},
	{"select_for_ever", sender, select_for_ever, OURS},
	{"limit_for_n", NULL, limit_for_n, OURS},
	{"large_sets", NULL, large_sets, OURS},
	{"select_closed_peer", sender, select_closed_peer, OURS},
	{"writable_has_room", reads_when_told, writable_has_room, OURS},
	{0},
};
