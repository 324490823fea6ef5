/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that are opened and closed, beside an echo server for both protocols:
 *
 *	churn cycles IP PORT N		opens and closes N sockets of all kinds, and checks
 *					that memory and descriptors do not grow
 *	churn many IP PORT N		N open sockets at the same time, UDP and TCP, bound and
 *					not; exchanges messages on every hundredth
 *	churn closers IP PORT SECONDS	threads close and reopen sockets that others use
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define KEEPERS 8
#define GROWTH_KB 1024 /* so that no test reports it as growth */
#define SLOTS 12
#define CLOSERS 2
#define USERS 6

static struct sockaddr_in peer;

__attribute__((noreturn)) static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

/* ---- what the process has -------------------------------------------------------------- */

static long resident_kb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kb = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmRSS: %ld", &kb) == 1)
			break;
	}
	if (f)
		fclose(f);
	return kb;
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static void nap_msec(int msec)
{
	struct timespec ts = {.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * 1000000L};

	nanosleep(&ts, NULL);
}

/* ---- sockets ---------------------------------------------------------------------------- */

static int make(int type, bool named)
{
	struct linger reset = {.l_onoff = 1};
	struct timeval timeout = {.tv_usec = 20000};
	int fd = socket(AF_INET, type, 0);

	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	/* Closes with a reset, so that no connection remains. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (named && connect(fd, (struct sockaddr *)&peer, sizeof(peer))) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool talk(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char word[4] = "wor";

	for (int i = 0; i < 10; i++) {
		if (send(fd, word, sizeof(word), MSG_NOSIGNAL) != sizeof(word))
			return false;
		if (poll(&p, 1, 500) == 1)
			return recv(fd, word, sizeof(word), 0) == sizeof(word);
	}
	return false;
}

/* ---- cycles ------------------------------------------------------------------------------ */

static void cycle(unsigned i, int set)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct epoll_event event = {.events = EPOLLIN};
	int type = i % 4 == 3 ? SOCK_STREAM : SOCK_DGRAM, copy;
	int fd = make(type, i % 4 >= 2);

	if (fd < 0)
		die("socket");
	if (i % 4 == 1 && bind(fd, (struct sockaddr *)&any, sizeof(any)))
		die("bind");
	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
	copy = dup(fd);
	if (i % 512 >= 510 && !talk(copy) && type == SOCK_STREAM)
		die("talk");
	close(fd);
	close(copy);
	if (i % 64 == 0)
		close(epoll_create1(EPOLL_CLOEXEC));
}

/* After a tenth of the cycles, all permanent memory is allocated. */
static int cycles(unsigned n)
{
	int set = epoll_create1(EPOLL_CLOEXEC), files = 0, more;
	int anchor = make(SOCK_DGRAM, true); /* keeps the ring open */
	struct epoll_event events[8];
	long kb = 0, grew;

	for (unsigned i = 0; i < n; i++) {
		cycle(i, set);
		if (i == n / 10) {
			nap_msec(1500);
			kb = resident_kb();
			files = open_files();
		}
		if (i % 1000 == 0 && epoll_wait(set, events, 8, 0) < 0)
			die("epoll_wait");
	}
	nap_msec(1500);
	grew = resident_kb() - kb;
	more = open_files() - files;
	printf("%u cycles: %ld KB more, %d descriptors more\n", n - n / 10, grew, more);
	close(anchor);
	/* Where our FIN was the first one, a descriptor keeps the port for a minute. */
	return grew > GROWTH_KB || more > KEEPERS;
}

/* ---- many --------------------------------------------------------------------------------- */

static int many(unsigned n)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct rlimit limit;
	unsigned opened = 0, talked = 0;
	long before = resident_kb();
	int fd;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (; opened < n; opened++) {
		bool connected = opened % 100 == 99;

		fd = make(opened % 3 && !connected ? SOCK_STREAM : SOCK_DGRAM, connected);
		if (fd < 0)
			die("socket");
		/* There are fewer ports than sockets: a fifth of the datagram sockets gets one. */
		if (opened % 15 == 0 && !connected &&
		    bind(fd, (struct sockaddr *)&any, sizeof(any)))
			die("bind");
		if (connected)
			talked += talk(fd);
	}
	printf("%u sockets are open, %ld bytes each\n", opened,
	       n ? (resident_kb() - before) * 1024 / (long)n : 0);
	printf("%u of %u talk\n", talked, n / 100);
	return talked < n / 100;
}

/* ---- closers ------------------------------------------------------------------------------ */

static int slots[SLOTS]; /* any, atomic */
static bool stop;	 /* any, atomic */
static unsigned long calls, closes;

static unsigned next_random(unsigned *seed)
{
	return *seed = *seed * 1103515245u + 12345;
}

static bool running(void)
{
	return !__atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static int slot(unsigned i)
{
	return __atomic_load_n(&slots[i % SLOTS], __ATOMIC_RELAXED);
}

static void *close_them(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	while (running()) {
		unsigned i = next_random(&seed) >> 8;
		int fd = make(i % 2 ? SOCK_STREAM : SOCK_DGRAM, true);

		if (fd >= 0)
			fd = __atomic_exchange_n(&slots[i % SLOTS], fd, __ATOMIC_RELAXED);
		if (fd >= 0)
			close(fd);
		__atomic_fetch_add(&closes, 1, __ATOMIC_RELAXED);
		if (i % 8 == 0)
			nap_msec(1);
	}
	return NULL;
}

static void use(unsigned how, int fd, int other, int set)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = other, .events = POLLIN}};
	struct epoll_event event = {.events = EPOLLIN};
	char buf[64];
	int error;
	socklen_t len = sizeof(error);

	switch (how % 8) {
	case 0:
	case 1:
		send(fd, "words", 5, MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	case 2:
	case 3:
		recv(fd, buf, sizeof(buf), 0);
		break;
	case 4:
		poll(p, 2, 10);
		break;
	case 5:
		epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
		epoll_wait(set, &event, 1, 10);
		break;
	case 6:
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
		shutdown(fd, SHUT_WR);
		break;
	case 7:
		fd = dup(fd);
		if (fd >= 0)
			close(fd);
		break;
	}
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

static void *use_them(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	int set = epoll_create1(EPOLL_CLOEXEC);

	while (running()) {
		unsigned i = next_random(&seed) >> 8;

		use(i >> 8, slot(i), slot(i + 1), set);
	}
	close(set);
	return NULL;
}

static int closers(int seconds)
{
	pthread_t threads[CLOSERS + USERS];
	int files, more, anchor = make(SOCK_DGRAM, true); /* keeps the ring open */

	nap_msec(200);
	files = open_files();
	for (int i = 0; i < SLOTS; i++)
		slots[i] = -1;
	for (uintptr_t i = 0; i < CLOSERS + USERS; i++)
		pthread_create(&threads[i], NULL, i < CLOSERS ? close_them : use_them,
			       (void *)(i + 1));
	nap_msec(seconds * 1000);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < CLOSERS + USERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < SLOTS; i++) {
		if (slots[i] >= 0)
			close(slots[i]);
	}
	nap_msec(2500);
	more = open_files() - files;
	printf("%lu calls, %lu closes; %d descriptors more\n", calls, closes, more);
	close(anchor);
	return more > 0 || !calls || !closes;
}

int main(int argc, char **argv)
{
	if (argc != 5 || inet_pton(AF_INET, argv[2], &peer.sin_addr) != 1)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	peer.sin_family = AF_INET;
	peer.sin_port = htons((uint16_t)atoi(argv[3]));
	if (!strcmp(argv[1], "cycles"))
		return cycles((unsigned)atoi(argv[4]));
	if (!strcmp(argv[1], "many"))
		return many((unsigned)atoi(argv[4]));
	if (!strcmp(argv[1], "closers"))
		return closers(atoi(argv[4]));
	return 2;
}
