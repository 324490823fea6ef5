/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals during calls that wait, and how long these wait. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/look.h"

#define SOON 30	  /* ms until the signal is sent */
#define AGAIN 500 /* ms until it is sent again, in case the first one came before the call */

static volatile sig_atomic_t handled;
static int handler_fd = -1;
static bool handler_tells;

static void on_alarm(int sig)
{
	handled++;
	/* The other side continues when the call was restarted. */
	if (handler_tells && handled == 2)
		tell(2);
	/* Ends a call that was restarted. */
	if (handler_fd >= 0 && handled >= 2)
		shutdown(handler_fd, SHUT_RDWR);
}

static void set_alarm(int msec, int again)
{
	struct itimerval in = {{0, again * 1000}, {0, msec * 1000}};

	setitimer(ITIMER_REAL, &in, NULL);
}

static void arm(int flags)
{
	struct sigaction act = {.sa_handler = on_alarm, .sa_flags = flags};

	handled = 0;
	MUST(sigaction(SIGALRM, &act, NULL));
	set_alarm(SOON, AGAIN);
}

static void disarm(void)
{
	set_alarm(0, 0);
	signal(SIGALRM, SIG_DFL);
	handler_fd = -1;
	handler_tells = false;
}

/* The result of the call, and whether the handler ran. */
#define INTERRUPTED(flags, call)      \
	do {                          \
		arm(flags);           \
		SAY(call);            \
		set_alarm(0, 0);      \
		SAY_IF(handled >= 1); \
		disarm();             \
	} while (0)

static void idle_peer(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
}

/* ---- calls that are never restarted ---------------------------------------------------- */

static void interrupted_waits(void)
{
	int fd = tcp_pair(), ep = ep_new();
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event event;
	struct timespec second = {30, 0};
	struct timeval tv = {30, 0};
	fd_set set;

	ep_add(ep, fd, EPOLLIN, 1);
	INTERRUPTED(SA_RESTART, poll(&p, 1, PATIENCE));
	INTERRUPTED(0, poll(&p, 1, -1));
	INTERRUPTED(SA_RESTART, ppoll(&p, 1, &second, NULL));
	INTERRUPTED(SA_RESTART, epoll_wait(ep, &event, 1, PATIENCE));
	INTERRUPTED(0, epoll_wait(ep, &event, 1, -1));
	INTERRUPTED(SA_RESTART, epoll_pwait(ep, &event, 1, PATIENCE, NULL));
	INTERRUPTED(SA_RESTART, epoll_pwait2(ep, &event, 1, &second, NULL));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	INTERRUPTED(SA_RESTART, select(fd + 1, &set, NULL, NULL, &tv));
	say("still set: %d", FD_ISSET(fd, &set) != 0);
	SAY_IF(tv.tv_sec < 30);
	INTERRUPTED(SA_RESTART, pselect(fd + 1, &set, NULL, NULL, &second, NULL));
	meet();
	close(ep);
	close(fd);
}

/* ---- calls that are, unless they have a timeout ----------------------------------------- */

static void interrupted_recv(void)
{
	int fd = tcp_pair();
	char c;

	INTERRUPTED(0, recv(fd, &c, 1, 0));
	INTERRUPTED(0, read(fd, &c, 1));
	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	INTERRUPTED(SA_RESTART, recv(fd, &c, 1, 0));
	INTERRUPTED(0, recv(fd, &c, 1, 0));
	set_timeout(fd, SO_RCVTIMEO, 0);
	set_alarm(0, 0);
	/* Restarted: the second signal ends it. */
	handler_fd = fd;
	arm(SA_RESTART);
	set_alarm(SOON, SOON);
	SAY(recv(fd, &c, 1, 0));
	SAY_IF(handled >= 2);
	disarm();
	meet();
	close(fd);
}

static void interrupted_udp(void)
{
	int fd = udp_bound(1);
	char c;

	INTERRUPTED(0, recv(fd, &c, 1, 0));
	INTERRUPTED(0, recvfrom(fd, &c, 1, 0, NULL, NULL));
	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	INTERRUPTED(SA_RESTART, recv(fd, &c, 1, 0));
	close(fd);
}

static void restarted_udp_server(void)
{
	int fd = udp_pair();

	hear();
	MUST(send(fd, "abc", 3, 0));
	meet();
	close(fd);
}

static void restarted_udp(void)
{
	int fd = udp_pair();
	char buf[10];

	handler_tells = true;
	arm(SA_RESTART);
	set_alarm(SOON, SOON);
	SAY(recv(fd, buf, 10, 0));
	SAY_IF(handled >= 2);
	disarm();
	meet();
	close(fd);
}

static void interrupted_accept(void)
{
	int fd = tcp_listening(1);

	INTERRUPTED(0, accept(fd, NULL, NULL));
	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	INTERRUPTED(SA_RESTART, accept(fd, NULL, NULL));
	close(fd);
}

static void restarted_accept_server(void)
{
	int fd = tcp_listening(0), conn;

	meet();
	handler_tells = true;
	arm(SA_RESTART);
	set_alarm(SOON, SOON);
	SAY((conn = accept(fd, NULL, NULL)) >= 0);
	SAY_IF(handled >= 2);
	disarm();
	meet();
	close(conn);
	close(fd);
}

static void restarted_accept_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	meet();
	hear();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

static void interrupted_connect(void)
{
	struct sockaddr_in to = nobody_addr();
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	INTERRUPTED(0, connect(fd, (struct sockaddr *)&to, sizeof(to)));
	set_nonblocking(fd, true);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
	fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	set_timeout(fd, SO_SNDTIMEO, 50);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
}

static void interrupted_send(void)
{
	int fd = tcp_pair();

	fill_window(fd);
	INTERRUPTED(0, send(fd, "x", 1, 0));
	set_timeout(fd, SO_SNDTIMEO, 50);
	SAY_TIMEOUT(49000, send(fd, "x", 1, 0));
	set_timeout(fd, SO_SNDTIMEO, PATIENCE);
	INTERRUPTED(SA_RESTART, send(fd, "x", 1, 0));
	meet();
	close(fd);
}

/* ---- masks ------------------------------------------------------------------------------ */

static void block_alarm(bool on)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(on ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void pend(void)
{
	struct sigaction act = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

	handled = 0;
	MUST(sigaction(SIGALRM, &act, NULL));
	block_alarm(true);
	raise(SIGALRM);
}

#define PENDING(call)                         \
	do {                                  \
		pend();                       \
		SAY(call);                    \
		say("handlers: %d", handled); \
		block_alarm(false);           \
		say("in all: %d", handled);   \
		disarm();                     \
	} while (0)

static void pending_signals(void)
{
	int fd = udp_bound(1), ep = ep_new();
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec second = {1, 0}, zero = {0, 0};
	struct epoll_event event;
	sigset_t none;
	fd_set set;

	sigemptyset(&none);
	ep_add(ep, fd, EPOLLIN, 1);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	PENDING(ppoll(&p, 1, &second, &none));
	PENDING(ppoll(&p, 1, &zero, &none));
	PENDING(ppoll(&p, 1, &zero, NULL));
	PENDING(pselect(fd + 1, &set, NULL, NULL, &second, &none));
	PENDING(epoll_pwait(ep, &event, 1, 1000, &none));
	PENDING(epoll_pwait(ep, &event, 1, 0, &none));
	PENDING(epoll_pwait2(ep, &event, 1, &second, &none));
	PENDING(epoll_pwait(ep, &event, 1, 20, NULL));
	close(fd);
	close(ep);
}

/* Something is ready as well: that is returned first, and the signal stays pending. */
static void pending_and_ready(void)
{
	int fd = udp_bound(1), ep = ep_new();
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	struct timespec second = {1, 0};
	struct epoll_event event;
	sigset_t none;
	fd_set set;

	sigemptyset(&none);
	ep_add(ep, fd, EPOLLOUT, 1);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	/* More calls than VMA_SELECT_SKIP_OS: checking the kernel first makes no difference. */
	for (int i = 0; i < 5; i++) {
		PENDING(ppoll(&p, 1, &second, &none));
		PENDING(pselect(fd + 1, NULL, &set, NULL, &second, &none));
		PENDING(epoll_pwait(ep, &event, 1, 1000, &none));
		PENDING(epoll_pwait2(ep, &event, 1, &second, &none));
	}
	close(fd);
	close(ep);
}

static void mask_blocks(void)
{
	int fd = udp_bound(1), ep = ep_new();
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec some = {0, 80000000};
	struct epoll_event event;
	sigset_t all, now;

	sigfillset(&all);
	ep_add(ep, fd, EPOLLIN, 1);
	INTERRUPTED(0, ppoll(&p, 1, &some, &all));
	INTERRUPTED(0, epoll_pwait(ep, &event, 1, 80, &all));
	sigprocmask(SIG_BLOCK, NULL, &now);
	say("blocked afterwards: %d", sigismember(&now, SIGALRM));
	close(fd);
	close(ep);
}

static int ends_while_it_waits(void *arg)
{
	(void)arg;
	await_blocked(getppid());
	return 0;
}

/* Of the process that waits, which is still blocked when its other child has ended. */
static int wakes_later(void *arg)
{
	const int *child_and_pipe = arg;

	await_zombie(child_and_pipe[0]);
	await_blocked(getppid());
	return write(child_and_pipe[1], "x", 1) == 1 ? 0 : 1;
}

static void ignored(void)
{
	int fd = udp_bound(1), pid, waker, pipes[2];
	struct pollfd p = {.fd = fd, .events = POLLIN}, both[2] = {p};
	char c;

	signal(SIGALRM, SIG_IGN);
	set_alarm(20, 20);
	SAY(poll(&p, 1, 100));
	set_timeout(fd, SO_RCVTIMEO, 100);
	SAY(recv(fd, &c, 1, 0));
	set_alarm(0, 0);
	signal(SIGALRM, SIG_DFL);
	MUST(pipe(pipes));
	both[1] = (struct pollfd){.fd = pipes[0], .events = POLLIN};
	pid = spawn(ends_while_it_waits, NULL);
	waker = spawn(wakes_later, (int[]){pid, pipes[1]});
	SAY(poll(both, 2, PATIENCE)); /* with a SIGCHLD, for which there is no handler */
	SAY(read(pipes[0], &c, 1));
	join(pid);
	join(waker);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

/* ---- times ------------------------------------------------------------------------------- */

static void times(void)
{
	int fd = udp_bound(1), ep = ep_new(), listener = tcp_listening(1);
	struct timespec some = {0, 20500000};
	struct epoll_event event;
	char c;

	ep_add(ep, fd, EPOLLIN, 1);
	SAY_TIMEOUT(0, epoll_wait(ep, &event, 1, 0));
	SAY_TIMEOUT(1000, epoll_wait(ep, &event, 1, 1));
	SAY_TIMEOUT(50000, epoll_wait(ep, &event, 1, 50));
	SAY_TIMEOUT(20500, epoll_pwait2(ep, &event, 1, &some, NULL));
	set_timeout(fd, SO_RCVTIMEO, 50);
	SAY_TIMEOUT(49000, recv(fd, &c, 1, 0));
	set_timeout(listener, SO_RCVTIMEO, 50);
	SAY_TIMEOUT(49000, accept(listener, NULL, NULL));
	close(fd);
	close(ep);
	close(listener);
}

/* The handler receives, too, and then has the byte sent that the call waits for. */
static int taker_fd;

static void take(int sig)
{
	char c;

	handled++;
	SAY(recv(taker_fd, &c, 1, MSG_DONTWAIT));
	tell(handled);
}

static void receiving_handler(void)
{
	struct sigaction act = {.sa_handler = take, .sa_flags = SA_RESTART};
	int fd = tcp_pair();
	char c;

	taker_fd = fd;
	handled = 0;
	MUST(sigaction(SIGALRM, &act, NULL));
	meet();
	set_alarm(SOON, 0);
	SAY(recv(fd, &c, 1, 0));
	say("handlers: %d", handled);
	disarm();
	meet();
	close(fd);
}

static void byte_for_handler(void)
{
	int fd = tcp_pair();

	meet();
	hear();
	MUST(send(fd, "x", 1, 0));
	meet();
	close(fd);
}

const struct behaviour wait_behaviours[] = {
	{"interrupted_waits", idle_peer, interrupted_waits, OURS},
	{"interrupted_recv", idle_peer, interrupted_recv, OURS},
	{"interrupted_udp", NULL, interrupted_udp, OURS},
	{"restarted_udp", restarted_udp_server, restarted_udp, OURS},
	{"interrupted_accept", NULL, interrupted_accept, OURS},
	{"restarted_accept", restarted_accept_server, restarted_accept_client, OURS},
	{"interrupted_connect", NULL, interrupted_connect, OURS},
	{"interrupted_send", idle_peer, interrupted_send, OURS},
	{"pending_signals", NULL, pending_signals, OURS},
	{"pending_and_ready", NULL, pending_and_ready, OURS},
	{"mask_blocks", NULL, mask_blocks, OURS},
	{"ignored", NULL, ignored, OURS},
	{"times", NULL, times, OURS},
	{"receiving_handler", byte_for_handler, receiving_handler, OURS},
	{0},
};
