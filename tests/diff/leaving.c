/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that do not return: left by siglongjmp() from a signal handler, or cancelled. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/diff/diff.h"

static sigjmp_buf out;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void jump_in(int msec)
{
	struct sigaction act = {.sa_handler = jump};
	struct itimerval it = {.it_value = {0, msec * 1000}};

	MUST(sigaction(SIGALRM, &act, NULL));
	MUST(setitimer(ITIMER_REAL, &it, NULL));
}

/* Calls that wait for fd, which receives nothing. */
static long call_recv(int fd)
{
	char c;

	return recv(fd, &c, 1, 0);
}

static long call_read(int fd)
{
	char c;

	return read(fd, &c, 1);
}

static long call_recvmsg(int fd)
{
	char c;
	struct iovec iov = {&c, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return recvmsg(fd, &msg, MSG_WAITALL);
}

static long call_recvmmsg(int fd)
{
	char c;
	struct iovec iov = {&c, 1};
	struct mmsghdr msg = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

	return recvmmsg(fd, &msg, 1, 0, NULL);
}

static long call_accept(int fd)
{
	return accept(fd, NULL, NULL);
}

static long call_poll(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, -1);
}

static long call_select(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, NULL);
}

static long call_send(int fd)
{
	static char much[1 << 16];

	for (;;) {
		if (send(fd, much, sizeof(much), 0) < 0)
			return -1;
	}
}

static int watched; /* an epoll set that contains the descriptor */

static long call_epoll(int fd)
{
	struct epoll_event event;

	(void)fd;
	return epoll_wait(watched, &event, 1, -1);
}

static void watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	watched = (int)MUST(epoll_create1(0));
	MUST(epoll_ctl(watched, EPOLL_CTL_ADD, fd, &event));
}

/* ---- jumps ------------------------------------------------------------------------- */

/*
 * So late that a call that polls first sleeps by then: a handler that jumps out of the library
 * while it holds a ring would leave the ring held.
 */
static void leave_by_jump(int fd, long (*call)(int fd))
{
	for (volatile int i = 0; i < 2; i++) {
		if (sigsetjmp(out, 1)) {
			say("left");
			continue;
		}
		jump_in(300);
		say_result("the call", call(fd));
	}
}

/* The socket still works. */
static void jump_stream(long (*call)(int fd))
{
	int fd = tcp_pair();
	char buf[10];

	leave_by_jump(fd, call);
	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(close(fd));
	meet();
}

static void answers_later(void)
{
	int fd = tcp_pair();

	meet();
	await_other_blocked();
	MUST(send(fd, "hello", 5, 0));
	await_acked(fd);
	await_other_blocked();
	close(fd);
	meet();
}

static void jump_recv_client(void)
{
	jump_stream(call_recv);
}

static void jump_recvmsg_client(void)
{
	jump_stream(call_recvmsg);
}

static void jump_poll_client(void)
{
	jump_stream(call_poll);
}

static void jump_select_client(void)
{
	jump_stream(call_select);
}

static void jump_epoll_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	watch(fd);
	leave_by_jump(fd, call_epoll);
	meet();
	SAY(call_epoll(fd));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(watched);
	close(fd);
	meet();
}

static void jump_udp_server(void)
{
	int fd = udp_bound(0);
	char buf[10];

	leave_by_jump(fd, call_recv);
	leave_by_jump(fd, call_recvmmsg);
	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(fd);
}

static void one_datagram_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);

	meet();
	await_other_blocked();
	MUST(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
}

static void jump_accept_server(void)
{
	int fd = tcp_listening(0), child;

	leave_by_jump(fd, call_accept);
	meet();
	child = (int)MUST(accept(fd, NULL, NULL));
	meet();
	close(child);
	close(fd);
}

static void connects_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	meet();
	await_other_blocked();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

/* ---- cancellation ------------------------------------------------------------------ */

struct job {
	long (*call)(int fd);
	int fd;
	bool at_once; /* cancelled before the call */
	long result;
	int tid;
	sem_t ready, go;
};

static void *work(void *arg)
{
	struct job *job = arg;

	job->tid = gettid();
	if (job->at_once)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	sem_post(&job->ready);
	if (job->at_once) {
		sem_wait(&job->go);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	}
	job->result = job->call(job->fd);
	return NULL;
}

static void cancel(const char *what, int fd, long (*call)(int fd), bool at_once)
{
	struct job job = {.call = call, .fd = fd, .at_once = at_once, .result = -2};
	pthread_t thread;
	void *result;

	MUST(sem_init(&job.ready, 0, 0));
	MUST(sem_init(&job.go, 0, 0));
	MUST(-pthread_create(&thread, NULL, work, &job));
	while (sem_wait(&job.ready))
		;
	if (!at_once)
		await_blocked(job.tid);
	MUST(-pthread_cancel(thread));
	sem_post(&job.go);
	MUST(-pthread_join(thread, &result));
	say("%s: %s", what, result == PTHREAD_CANCELED ? "cancelled" : "returned");
	if (result != PTHREAD_CANCELED)
		say_result(what, job.result);
}

static void cancel_stream_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	watch(fd);
	cancel("recv", fd, call_recv, false);
	cancel("read", fd, call_read, false);
	cancel("recvmsg", fd, call_recvmsg, false);
	cancel("poll", fd, call_poll, false);
	cancel("select", fd, call_select, false);
	cancel("epoll_wait", fd, call_epoll, false);
	cancel("recv", fd, call_recv, true);
	cancel("poll", fd, call_poll, true);
	cancel("epoll_wait", fd, call_epoll, true);
	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(watched);
	close(fd);
	meet();
}

static void cancel_udp_server(void)
{
	int fd = udp_bound(0);
	char buf[10];

	cancel("recv", fd, call_recv, false);
	cancel("recvmmsg", fd, call_recvmmsg, false);
	cancel("recv", fd, call_recv, true);
	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(fd);
}

static void cancel_accept_server(void)
{
	int fd = tcp_listening(0), child;

	cancel("accept", fd, call_accept, false);
	cancel("accept", fd, call_accept, true);
	meet();
	child = (int)MUST(accept(fd, NULL, NULL));
	meet();
	close(child);
	close(fd);
}

static void cancel_send_client(void)
{
	int fd = tcp_pair();

	cancel("send", fd, call_send, false);
	cancel("send", fd, call_send, true);
	meet();
	close(fd);
}

static void reads_nothing(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
}

const struct behaviour leaving_behaviours[] = {
	{"jump_recv", answers_later, jump_recv_client, OURS},
	{"jump_recvmsg", answers_later, jump_recvmsg_client, OURS},
	{"jump_poll", answers_later, jump_poll_client, OURS},
	{"jump_select", answers_later, jump_select_client, OURS},
	{"jump_epoll", answers_later, jump_epoll_client, OURS},
	{"jump_udp", jump_udp_server, one_datagram_client, OURS},
	{"jump_accept", jump_accept_server, connects_client, OURS},
	{"cancel_stream", answers_later, cancel_stream_client, OURS},
	{"cancel_udp", cancel_udp_server, one_datagram_client, OURS},
	{"cancel_accept", cancel_accept_server, connects_client, OURS},
	{"cancel_send", reads_nothing, cancel_send_client, KERNEL},
	{0},
};
