/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signal handlers that leave the interrupted call by siglongjmp(), thousands of times and at
 * any point; and the information that is delivered with a signal. The sockets continue to work.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define JUMPS 500
#define JUMP_EVERY 150 /* us */

static sigjmp_buf back;
static volatile int jumps;

static void jump(int sig)
{
	(void)sig;
	jumps++;
	siglongjmp(back, 1);
}

/* Calls fn(fd) repeatedly while signal handlers jump out of it. */
static void call_and_jump(void (*fn)(int fd), int fd)
{
	struct itimerval often = {{0, JUMP_EVERY}, {0, JUMP_EVERY}}, never = {{0, 0}, {0, 0}};
	struct sigaction act = {.sa_handler = jump};

	jumps = 0;
	MUST(sigaction(SIGALRM, &act, NULL));
	sigsetjmp(back, 1);
	if (jumps < JUMPS) {
		MUST(setitimer(ITIMER_REAL, &often, NULL));
		for (;;)
			fn(fd);
	}
	MUST(setitimer(ITIMER_REAL, &never, NULL));
	SAY(signal(SIGALRM, SIG_IGN) == SIG_ERR);
}

static void udp_calls(int fd)
{
	char buf[100];

	(void)send(fd, "hello", 5, 0);
	for (int i = 0; i < 3; i++)
		(void)recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
}

static void udp_waits(int fd)
{
	char buf[100];

	(void)send(fd, "hello", 5, 0);
	(void)recv(fd, buf, sizeof(buf), 0);
}

static void udp_polls(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char buf[100];

	(void)send(fd, "hello", 5, 0);
	(void)poll(&p, 1, 1);
	(void)recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
}

static int epoll_set;

static void udp_sets(int fd)
{
	struct epoll_event event;
	char buf[100];

	(void)send(fd, "hello", 5, 0);
	(void)epoll_wait(epoll_set, &event, 1, 1);
	(void)recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
}

/* Echoes every datagram, until the last one. */
static void udp_server(void)
{
	int fd = udp_pair();
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char buf[100];
	ssize_t n = 0;

	meet();
	while (poll(&p, 1, PATIENCE) == 1) {
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0 && buf[0] == 'q')
			break;
		if (n > 0)
			(void)send(fd, buf, (size_t)n, 0);
	}
	say("the last one: %c", n > 0 ? buf[0] : '-');
	meet();
	close(fd);
}

/*
 * Datagrams that remain unread after jumps may fill the queue, and then others are lost: so it
 * repeats the request.
 */
static void say_echo(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char buf[100] = "";

	for (long until = now_ms() + PATIENCE; buf[0] != 'a' && now_ms() < until;) {
		(void)send(fd, "again", 5, 0);
		while (buf[0] != 'a' && poll(&p, 1, 200) == 1)
			(void)recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	}
	say_bytes(buf, 5);
}

static void udp_client(void)
{
	int fd = udp_pair();
	struct epoll_event event = {.events = EPOLLIN};

	meet();
	call_and_jump(udp_calls, fd);
	say_echo(fd);
	call_and_jump(udp_waits, fd);
	say_echo(fd);
	call_and_jump(udp_polls, fd);
	say_echo(fd);
	epoll_set = (int)MUST(epoll_create1(0));
	MUST(epoll_ctl(epoll_set, EPOLL_CTL_ADD, fd, &event));
	call_and_jump(udp_sets, fd);
	say_echo(fd);
	close(epoll_set);
	SAY(send(fd, "quit", 4, 0));
	meet();
	close(fd);
}

static void tcp_calls(int fd)
{
	static const char bytes[3000] = {'a'};
	char buf[3000];

	(void)send(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	(void)recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
}

/* Echoes as many bytes as there is room for, until the last ones. */
static void tcp_server(void)
{
	int fd = tcp_pair();
	char buf[3000];
	ssize_t n;

	meet();
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		(void)send(fd, buf, (size_t)n, MSG_DONTWAIT);
	say("the end: %zd", n);
	SAY(send(fd, "goodbye", 7, 0));
	SAY(shutdown(fd, SHUT_WR));
	meet();
	close(fd);
}

static void tcp_client(void)
{
	int fd = tcp_pair();
	char buf[3000], last[8] = "";
	ssize_t n;

	meet();
	call_and_jump(tcp_calls, fd);
	SAY(shutdown(fd, SHUT_WR));
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (n >= 7)
			memcpy(last, buf + n - 7, 7);
	}
	say("the end: %zd", n);
	SAY_IF(memcmp(last, "goodbye", 7) == 0);
	meet();
	close(fd);
}

/* ---- information of a signal ------------------------------------------------------- */

#define VALUES 200

static volatile int n_signals, n_in_order, n_right;

static void on_value(int sig, siginfo_t *info, void *context)
{
	(void)context;
	n_in_order += info->si_value.sival_int == n_signals;
	n_right += sig == SIGRTMIN && info->si_code == SI_QUEUE;
	n_signals++;
}

/* Another process sends the signals at random times. */
static int sends_values(void *arg)
{
	pid_t to = *(pid_t *)arg;

	for (int i = 0; i < VALUES; i++) {
		union sigval value = {.sival_int = i};

		while (sigqueue(to, SIGRTMIN, value) && errno == EAGAIN)
			let_pass(1, "the queue of signals is full");
		let_pass(1, "in the middle of anything: what comes at once comes in one place");
	}
	return 0;
}

static void values_client(void)
{
	int fd = udp_pair();
	pid_t self = getpid(), child;
	struct sigaction act = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO | SA_RESTART};

	meet();
	n_signals = n_in_order = n_right = 0;
	MUST(sigaction(SIGRTMIN, &act, NULL));
	child = spawn(sends_values, &self);
	for (long began = now_ms(); n_signals < VALUES && now_ms() - began < PATIENCE;)
		udp_calls(fd);
	join(child);
	say("%d received, %d in order, %d right", n_signals, n_in_order, n_right);
	say_echo(fd);
	SAY(send(fd, "quit", 4, 0));
	meet();
	close(fd);
}

static void reset_client(void)
{
	int fd = udp_pair();
	struct itimerval soon = {{0, 0}, {0, 100}};
	struct sigaction act = {.sa_sigaction = on_value,
				.sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
	int good = 0;

	meet();
	for (int i = 0; i < 500; i++) {
		struct sigaction now;

		n_signals = 0;
		MUST(sigaction(SIGALRM, &act, NULL));
		MUST(setitimer(ITIMER_REAL, &soon, NULL));
		while (!n_signals)
			udp_calls(fd);
		MUST(sigaction(SIGALRM, NULL, &now));
		good += now.sa_handler == SIG_DFL && n_signals == 1;
	}
	say("%d good", good);
	say_echo(fd);
	SAY(send(fd, "quit", 4, 0));
	meet();
	close(fd);
}

const struct behaviour jumps_behaviours[] = {
	{"udp", udp_server, udp_client, OURS},
	{"tcp", tcp_server, tcp_client, OURS},
	{"values", udp_server, values_client, OURS},
	{"reset", udp_server, reset_client, OURS},
	{0},
};
