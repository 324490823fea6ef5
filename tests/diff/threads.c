/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait at one socket or one epoll set: an event wakes one of them, and the right
 * one.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/look.h"

#define THREADS 4
#define ROUNDS 40
#define SOCKETS 6

/* Shared by the threads of a behaviour. The counters are sums. */
static struct {
	int fd[SOCKETS], ep[THREADS];
	unsigned events, taken, empty, left;
	bool stop;
} our;

static unsigned count(unsigned *counter)
{
	return __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
}

static bool stopped(void)
{
	return __atomic_load_n(&our.stop, __ATOMIC_SEQ_CST);
}

/* ---- one thread ends what another one waits for ------------------------------------------ */

/* A descriptor that stays ready: it tells all waiting threads to end. */
static int end_threads(const int sets[], int n)
{
	int pipes[2];

	__atomic_store_n(&our.stop, true, __ATOMIC_SEQ_CST);
	MUST(pipe(pipes));
	MUST(write(pipes[1], "x", 1));
	close(pipes[1]);
	for (int i = 0; i < n; i++)
		ep_add(sets[i], pipes[0], EPOLLIN, 99);
	return pipes[0];
}

static void run_threads(pthread_t thread[], void *(*fn)(void *ep), const int sets[], int n_sets)
{
	for (int i = 0; i < THREADS; i++)
		MUST(-pthread_create(&thread[i], NULL, fn, (void *)&sets[i % n_sets]));
}

static void join_threads(const pthread_t thread[], const int sets[], int n_sets)
{
	int end = end_threads(sets, n_sets);

	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	close(end);
	for (int i = 0; i < n_sets; i++)
		close(sets[i]);
}

static void prepare(int n_sets)
{
	memset(&our, 0, sizeof(our));
	for (int i = 0; i < n_sets; i++)
		our.ep[i] = ep_new();
}

/* ---- EPOLLEXCLUSIVE: at least one wakes, and nothing is left behind ------------------------ */

static void accept_all(int listener)
{
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		count(&our.taken);
		if (send(fd, "y", 1, MSG_NOSIGNAL) != 1)
			count(&our.left);
		close(fd);
	}
}

static void *accepting(void *set)
{
	struct epoll_event event;

	while (!stopped() && epoll_wait(*(int *)set, &event, 1, 2 * PATIENCE) == 1) {
		if (event.data.u32 == 1)
			accept_all(our.fd[0]);
	}
	return NULL;
}

/* Level-triggered (0) or edge-triggered, a set for each thread. */
static void serve_exclusive(uint32_t how)
{
	pthread_t thread[THREADS];

	prepare(THREADS);
	our.fd[0] = tcp_listening(0);
	set_nonblocking(our.fd[0], true);
	for (int i = 0; i < THREADS; i++)
		ep_add(our.ep[i], our.fd[0], EPOLLIN | EPOLLEXCLUSIVE | how, 1);
	run_threads(thread, accepting, our.ep, THREADS);
	meet();
	meet();
	join_threads(thread, our.ep, THREADS);
	say("%u connections, %u not answered", our.taken, our.left);
	close(our.fd[0]);
}

static void exclusive_server(void)
{
	serve_exclusive(0);
}

static void exclusive_edge_server(void)
{
	serve_exclusive(EPOLLET);
}

/* One connection after the other; the next one follows the answer. */
static void connecting_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int answered = 0;
	char c;

	meet();
	for (int i = 0; i < ROUNDS; i++) {
		int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

		set_timeout(fd, SO_RCVTIMEO, PATIENCE);
		MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
		answered += recv(fd, &c, 1, 0) == 1;
		close(fd);
	}
	say("%d answered", answered);
	meet();
}

/* ---- one set, several threads ---------------------------------------------------------------- */

/* Answers all data that was there at the event, and none that came later. */
static void answer(int fd)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[16];
	ssize_t n = recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &len);

	if (n < 0) {
		count(&our.empty);
		return;
	}
	count(&our.taken);
	sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&from, len);
}

static void *answering(void *set)
{
	struct epoll_event event;

	while (!stopped() && epoll_wait(*(int *)set, &event, 1, 2 * PATIENCE) == 1) {
		if (event.data.u32 > SOCKETS)
			continue;
		count(&our.events);
		answer(our.fd[event.data.u32 - 1]);
	}
	return NULL;
}

static void *answering_once(void *set)
{
	struct epoll_event event;
	int ep = *(int *)set;

	while (!stopped() && epoll_wait(ep, &event, 1, 2 * PATIENCE) == 1) {
		int fd;

		if (event.data.u32 > SOCKETS)
			continue;
		count(&our.events);
		fd = our.fd[event.data.u32 - 1];
		answer(fd);
		ep_ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, event.data.u32);
	}
	return NULL;
}

/* Each datagram wakes one thread, which receives it. */
static void serve_shared(uint32_t how, void *(*fn)(void *set))
{
	pthread_t thread[THREADS];

	prepare(1);
	for (unsigned i = 0; i < SOCKETS; i++) {
		our.fd[i] = udp_bound(i);
		ep_add(our.ep[0], our.fd[i], EPOLLIN | how, i + 1);
	}
	run_threads(thread, fn, our.ep, 1);
	meet();
	meet();
	join_threads(thread, our.ep, 1);
	say("%u events, %u datagrams, %u times nothing", our.events, our.taken, our.empty);
	for (int i = 0; i < SOCKETS; i++)
		close(our.fd[i]);
}

static void shared_edge_server(void)
{
	serve_shared(EPOLLET, answering);
}

static void shared_oneshot_server(void)
{
	serve_shared(EPOLLONESHOT, answering_once);
}

static void asking_client(void)
{
	int fd = udp_bound(0), answered = 0;
	char buf[16];

	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	meet();
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct sockaddr_in to = server_addr(i % SOCKETS);

		MUST(sendto(fd, &i, sizeof(i), 0, (struct sockaddr *)&to, sizeof(to)));
		answered += recv(fd, buf, sizeof(buf), 0) == sizeof(i);
	}
	say("%d answered", answered);
	meet();
	close(fd);
}

/* All sockets at the same time: as many events as there are sockets. */
static void burst_client(void)
{
	int fd = udp_bound(0), answered = 0;
	char buf[16];

	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	meet();
	for (int i = 0; i < ROUNDS / 4; i++) {
		for (unsigned k = 0; k < SOCKETS; k++) {
			struct sockaddr_in to = server_addr(k);

			MUST(sendto(fd, &k, sizeof(k), 0, (struct sockaddr *)&to, sizeof(to)));
		}
		for (int k = 0; k < SOCKETS; k++)
			answered += recv(fd, buf, sizeof(buf), 0) == sizeof(k);
	}
	say("%d answered", answered);
	meet();
	close(fd);
}

/* ---- closed, and its number used again, while another thread waits --------------------------- */

static atomic_int waiting_tid;

static void *waiting(void *set)
{
	struct epoll_event event = {0};

	waiting_tid = gettid();
	if (epoll_wait(*(int *)set, &event, 1, 2 * PATIENCE) == 1)
		our.events = event.data.u32;
	return NULL;
}

static void reused_server(void)
{
	struct sockaddr_in to = client_addr(0);
	pthread_t thread;
	int old, number;

	prepare(1);
	old = udp_bound(1);
	ep_add(our.ep[0], old, EPOLLIN, 1);
	waiting_tid = 0;
	MUST(-pthread_create(&thread, NULL, waiting, &our.ep[0]));
	while (!waiting_tid)
		sched_yield();
	await_blocked(waiting_tid);
	number = old;
	close(old);
	our.fd[0] = udp_bound(2);
	SAY(our.fd[0] == number);
	SAY(ep_ctl(our.ep[0], EPOLL_CTL_MOD, our.fd[0], EPOLLIN, 2));
	ep_add(our.ep[0], our.fd[0], EPOLLIN, 2);
	MUST(sendto(our.fd[0], "go", 2, 0, (struct sockaddr *)&to, sizeof(to)));
	pthread_join(thread, NULL);
	say("the event of %u", our.events);
	ep_say("and still", our.ep[0], 8, 0);
	meet();
	close(our.fd[0]);
	close(our.ep[0]);
}

static void reused_client(void)
{
	int fd = udp_bound(0);
	struct sockaddr_in from, gone = server_addr(1);
	socklen_t len = sizeof(from);
	char buf[4];

	await(fd, POLLIN);
	MUST(recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len));
	MUST(sendto(fd, "old", 3, 0, (struct sockaddr *)&gone, sizeof(gone)));
	MUST(sendto(fd, "new", 3, 0, (struct sockaddr *)&from, len));
	meet();
	close(fd);
}

/* ---- no starvation ----------------------------------------------------------------------------- */

static void *flooding(void *fd)
{
	while (!stopped())
		send(*(int *)fd, "x", 1, MSG_DONTWAIT);
	return NULL;
}

/* There is always a datagram: waits for one event at a time until name is among them. */
static bool is_seen(int ep, unsigned name)
{
	struct epoll_event event;

	for (int i = 0; i < 500; i++) {
		if (epoll_wait(ep, &event, 1, 2 * PATIENCE) == 1 && event.data.u32 == name)
			return true;
	}
	return false;
}

static void pipe_server(void)
{
	int fd = udp_bound(1), pipes[2];
	char c;

	prepare(1);
	MUST(pipe(pipes));
	ep_add(our.ep[0], fd, EPOLLIN, 1);
	ep_add(our.ep[0], pipes[0], EPOLLIN, 2);
	meet();
	await(fd, POLLIN);
	for (int i = 0; i < 5; i++) {
		MUST(write(pipes[1], "x", 1));
		SAY(is_seen(our.ep[0], 2));
		MUST(read(pipes[0], &c, 1));
		SAY(is_seen(our.ep[0], 1));
		recv(fd, &c, 1, 0);
	}
	meet();
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	close(our.ep[0]);
}

static void flood_client(void)
{
	struct sockaddr_in to = server_addr(1);
	int fd = udp_bound(0);
	pthread_t thread;

	memset(&our, 0, sizeof(our));
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	MUST(-pthread_create(&thread, NULL, flooding, &fd));
	meet();
	__atomic_store_n(&our.stop, true, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	close(fd);
}

/* The pipe is always readable; nevertheless the events of the socket are reported. */
static void busy_pipe_server(void)
{
	int fd = udp_bound(1), pipes[2];
	char c;

	prepare(1);
	MUST(pipe(pipes));
	MUST(write(pipes[1], "x", 1));
	ep_add(our.ep[0], pipes[0], EPOLLIN, 2);
	ep_add(our.ep[0], fd, EPOLLIN, 1);
	meet();
	for (int i = 0; i < 5; i++) {
		tell(1);
		await(fd, POLLIN);
		SAY(is_seen(our.ep[0], 1));
		SAY(is_seen(our.ep[0], 2));
		MUST(recv(fd, &c, 1, 0));
	}
	meet();
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	close(our.ep[0]);
}

static void five_datagrams_client(void)
{
	struct sockaddr_in to = server_addr(1);
	int fd = udp_bound(0);

	meet();
	for (int i = 0; i < 5; i++) {
		hear();
		MUST(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	}
	meet();
	close(fd);
}

const struct behaviour threads_behaviours[] = {
	{"exclusive", exclusive_server, connecting_client, OURS},
	{"exclusive_edge", exclusive_edge_server, connecting_client, OURS},
	{"shared_edge", shared_edge_server, asking_client, OURS},
	{"shared_edge_burst", shared_edge_server, burst_client, OURS},
	{"shared_oneshot", shared_oneshot_server, asking_client, OURS},
	{"shared_oneshot_burst", shared_oneshot_server, burst_client, OURS},
	{"number_reused", reused_server, reused_client, KERNEL},
	{"busy_socket", pipe_server, flood_client, OURS},
	{"busy_pipe", busy_pipe_server, five_datagrams_client, OURS},
	{0},
};
