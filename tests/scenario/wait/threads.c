/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unusual behaviour of threads, against an echo server for both protocols:
 *
 *	threads talk IP PORT	signal handlers send and receive while their threads
 *				sleep or run in other calls
 *	threads cancel IP PORT	threads are cancelled while they wait at a ring where
 *				others sleep
 *	threads exit IP PORT N	N threads, one after another, leave their sockets to the
 *				first, which closes them all, and sleeps until SIGTERM
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 5 /* seconds */

static struct sockaddr_in peer;

static void nap_usec(long usec)
{
	struct timespec ts = {usec / 1000000, usec % 1000000 * 1000};

	nanosleep(&ts, NULL);
}

static bool fail(const char *what)
{
	printf("     %s: %s\n", what, strerrorname_np(errno));
	return false;
}

static int open_client(int type)
{
	struct timeval timeout = {.tv_sec = PATIENCE};
	struct linger reset = {.l_onoff = 1};
	int fd = socket(AF_INET, type, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	/* No connection shall remain after close(): its ring would stay, too. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (connect(fd, (struct sockaddr *)&peer, sizeof(peer))) {
		fail("connect");
		exit(1);
	}
	return fd;
}

static bool echo(int fd)
{
	uint32_t number = 4711, answer = 0;

	return send(fd, &number, sizeof(number), MSG_NOSIGNAL) == sizeof(number) &&
	       recv(fd, &answer, sizeof(answer), 0) == sizeof(answer) && answer == number;
}

/* ---- handlers ---------------------------------------------------------------------- */

static int handlers_fd = -1;
static unsigned talked, refused, broken; /* atomic */

/* EAGAIN if the signal interrupted the library; then nothing can be received either. */
static void talk(int sig)
{
	int saved = errno;
	uint32_t number = 815, answer = 0;
	ssize_t n = send(handlers_fd, &number, sizeof(number), MSG_NOSIGNAL);
	unsigned *count = &broken;

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		count = &refused;
	} else if (n == sizeof(number)) {
		n = recv(handlers_fd, &answer, sizeof(answer), 0);
		if (n == sizeof(answer) && answer == number)
			count = &talked;
	}
	if (count == &broken)
		fail("in the handler");
	__atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
	errno = saved;
}

struct sleeper {
	pthread_t thread;
	int fd;
	bool over; /* atomic */
	unsigned got;
};

static void *receive(void *arg)
{
	struct sleeper *s = arg;
	uint32_t number;

	while (!__atomic_load_n(&s->over, __ATOMIC_SEQ_CST)) {
		ssize_t n = recv(s->fd, &number, sizeof(number), 0);

		if (n == sizeof(number))
			__atomic_fetch_add(&s->got, 1, __ATOMIC_SEQ_CST);
		else if (n >= 0 || errno != EINTR)
			break;
	}
	return NULL;
}

static unsigned handled(void)
{
	return __atomic_load_n(&talked, __ATOMIC_SEQ_CST) +
	       __atomic_load_n(&refused, __ATOMIC_SEQ_CST) +
	       __atomic_load_n(&broken, __ATOMIC_SEQ_CST);
}

static bool wait_for(const unsigned *count, unsigned enough)
{
	for (int i = 0; i < PATIENCE * 10000; i++) {
		if (__atomic_load_n(count, __ATOMIC_SEQ_CST) >= enough)
			return true;
		nap_usec(100);
	}
	return false;
}

/* Every second time it also receives, at about the same time. */
static bool talk_to(struct sleeper *s, int rounds)
{
	uint32_t number = 1;
	unsigned sent = 0;

	for (int i = 0; i < rounds; i++) {
		unsigned before = handled();

		nap_usec(i % 7 * 300);
		if (i % 2 && send(s->fd, &number, sizeof(number), MSG_NOSIGNAL) == sizeof(number))
			sent++;
		pthread_kill(s->thread, SIGUSR1);
		for (int n = 0; handled() == before && n < PATIENCE * 10000; n++)
			nap_usec(100);
		if (handled() == before)
			return fail("a handler did not return");
	}
	return wait_for(&s->got, sent) || fail("a message was slept through");
}

static bool handlers_talk(int type, int handlers_type)
{
	struct sigaction action = {.sa_handler = talk, .sa_flags = SA_RESTART};
	struct sleeper s = {.fd = open_client(type)};
	uint32_t number = 1;
	bool ok;

	handlers_fd = open_client(handlers_type);
	talked = refused = broken = 0;
	sigaction(SIGUSR1, &action, NULL);
	if (!echo(s.fd) || pthread_create(&s.thread, NULL, receive, &s))
		return fail("start");
	ok = talk_to(&s, 200);
	__atomic_store_n(&s.over, true, __ATOMIC_SEQ_CST);
	send(s.fd, &number, sizeof(number), MSG_NOSIGNAL);
	pthread_join(s.thread, NULL);
	printf("     %u talked, %u were refused, %u went wrong\n", talked, refused, broken);
	ok = ok && !broken && talked > 0;
	close(s.fd);
	close(handlers_fd);
	return ok;
}

static int cmd_talk(int argc, char **argv)
{
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};
	int failed = 0;

	for (int i = 0; i < 4; i++) {
		bool ok = handlers_talk(types[i % 2], types[i / 2]);

		failed += !ok;
		printf("%s a thread sleeps in %s, its handler talks by %s\n", ok ? "ok  " : "FAIL",
		       i % 2 ? "tcp" : "udp", i / 2 ? "tcp" : "udp");
	}
	return failed != 0;
}

/* ---- cancellation ------------------------------------------------------------------- */

enum way { WAY_RECV, WAY_POLL, WAYS };

struct victim {
	pthread_t thread;
	enum way way;
	int fd;
};

static void *wait_for_ever(void *arg)
{
	struct victim *v = arg;
	struct pollfd pfd = {.fd = v->fd, .events = POLLIN};
	char c;

	for (;;) {
		if (v->way == WAY_RECV)
			recv(v->fd, &c, 1, 0);
		else
			poll(&pfd, 1, -1);
	}
	return NULL;
}

static bool cancelled_ones_harm_nobody(int type)
{
	struct sleeper s = {.fd = open_client(type)};
	uint32_t number = 1;
	bool ok = true;

	if (!echo(s.fd) || pthread_create(&s.thread, NULL, receive, &s))
		return fail("start");
	for (unsigned i = 0; i < 100 && ok; i++) {
		struct victim v = {.way = (enum way)(i % WAYS), .fd = open_client(type)};
		void *result = NULL;

		pthread_create(&v.thread, NULL, wait_for_ever, &v);
		nap_usec(i % 10 * 200);
		pthread_cancel(v.thread);
		send(s.fd, &number, sizeof(number), MSG_NOSIGNAL);
		ok = wait_for(&s.got, i + 1) || fail("a message was slept through");
		pthread_join(v.thread, &result);
		ok = ok && (result == PTHREAD_CANCELED || fail("not cancelled"));
		ok = ok && (echo(v.fd) || fail("its socket does not work any more"));
		close(v.fd);
	}
	__atomic_store_n(&s.over, true, __ATOMIC_SEQ_CST);
	send(s.fd, &number, sizeof(number), MSG_NOSIGNAL);
	pthread_join(s.thread, NULL);
	close(s.fd);
	return ok;
}

static int cmd_cancel(int argc, char **argv)
{
	int failed = 0;

	for (int i = 0; i < 2; i++) {
		bool ok = cancelled_ones_harm_nobody(i ? SOCK_STREAM : SOCK_DGRAM);

		failed += !ok;
		printf("%s %s: threads are cancelled where others sleep\n", ok ? "ok  " : "FAIL",
		       i ? "tcp" : "udp");
	}
	return failed != 0;
}

/* ---- exit ------------------------------------------------------------------------------ */

static void *open_and_exit(void *arg)
{
	int *fds = arg;

	fds[0] = open_client(SOCK_DGRAM);
	fds[1] = open_client(SOCK_STREAM);
	if (!echo(fds[0]) || !echo(fds[1]))
		fail("echo");
	return NULL;
}

static int cmd_exit(int argc, char **argv)
{
	int n = atoi(argv[2]), failed = 0;

	for (int i = 0; i < n; i++) {
		pthread_t thread;
		int fds[2];

		if (pthread_create(&thread, NULL, open_and_exit, fds))
			return 1;
		pthread_join(thread, NULL);
		for (int k = 0; k < 2; k++) {
			for (int times = 0; times < 10; times++)
				failed += !echo(fds[k]);
			close(fds[k]);
		}
	}
	printf("%d echoes failed\nready\n", failed);
	pause();
	return 1;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 3) {
		peer = (struct sockaddr_in){.sin_family = AF_INET,
					    .sin_port = htons((uint16_t)atoi(argv[3]))};
		inet_pton(AF_INET, argv[2], &peer.sin_addr);
		if (!strcmp(argv[1], "talk"))
			return cmd_talk(argc - 2, argv + 2);
		if (!strcmp(argv[1], "cancel"))
			return cmd_cancel(argc - 2, argv + 2);
		if (!strcmp(argv[1], "exit") && argc > 4)
			return cmd_exit(argc - 2, argv + 2);
	}
	fprintf(stderr, "see the head of %s\n", __FILE__);
	return 2;
}
