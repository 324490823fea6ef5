/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that waits for the rings of its sockets.
 *
 *	rings udp|tcp IP PORT N		N echoes of an echo server, in each way of waiting
 *
 * Prints what was wrong.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define PATIENCE 30000 /* ms */

static struct vma_api_t *api;
static struct sockaddr_in to = {.sin_family = AF_INET};
static int sock, ring, ends[2];
static bool tcp;

/* ---- ways of waiting: for the ring and a pipe.  True: the ring, not the pipe --------------- */

static bool by_poll(int ms)
{
	struct pollfd p[2] = {{.fd = ends[0], .events = POLLIN}, {.fd = ring, .events = POLLIN}};

	if (poll(p, 2, ms) < 0)
		die("poll");
	return !p[0].revents && p[1].revents == POLLIN;
}

static bool by_select(int ms)
{
	struct timeval timeout = {.tv_sec = ms / 1000};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	FD_SET(ring, &set);
	if (select((ring > ends[0] ? ring : ends[0]) + 1, &set, NULL, NULL, &timeout) < 0)
		die("select");
	return !FD_ISSET(ends[0], &set) && FD_ISSET(ring, &set);
}

static bool by_epoll(int ms)
{
	struct epoll_event events[2] = {{.events = EPOLLIN, .data.fd = ring},
					{.events = EPOLLIN, .data.fd = ends[0]}};
	int epfd = epoll_create1(0), n;

	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, ring, &events[0]) ||
	    epoll_ctl(epfd, EPOLL_CTL_ADD, ends[0], &events[1]))
		die("epoll");
	n = epoll_wait(epfd, events, 2, ms);
	close(epfd);
	return n == 1 && events[0].data.fd == ring && events[0].events == EPOLLIN;
}

/* ---- echoes ------------------------------------------------------------------------------ */

static void *sender(void *arg)
{
	if (send(sock, arg, sizeof(unsigned), 0) != sizeof(unsigned))
		die("send");
	return NULL;
}

static void take(unsigned number)
{
	unsigned got;

	if (recv(sock, &got, sizeof(got), MSG_DONTWAIT) != sizeof(got))
		die("recv");
	expect(got == number, "the message");
}

static void echo(unsigned number, bool (*way)(int ms))
{
	pthread_t tid;

	expect(!way(0), "it is readable before");
	if (pthread_create(&tid, NULL, sender, &number))
		die("pthread_create");
	expect(way(PATIENCE), "it is not readable");
	expect(way(0), "it is not readable any more");
	pthread_join(tid, NULL);
	take(number);
	expect(!way(0), "it is readable after");
}

/* The other descriptor still ends the wait. */
static void pipe_too(bool (*way)(int ms))
{
	char byte = 0;

	if (write(ends[1], &byte, 1) != 1)
		die("write");
	expect(!way(PATIENCE), "the pipe");
	if (read(ends[0], &byte, 1) != 1)
		die("read");
}

/* ---- rings --------------------------------------------------------------------------------- */

static int get_ring(int fd)
{
	int fds[8] = {-1};

	expect(api->get_socket_rings_num(fd) == 1, "the number of rings");
	if (api->get_socket_rings_fds(fd, fds, 8) != 1)
		die("get_socket_rings_fds");
	return fds[0];
}

static void tx_ring(void)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
	int fd = api->get_socket_tx_ring_fd(sock, (struct sockaddr *)&to, sizeof(to));

	here.sin_port = to.sin_port;
	if (tcp) {
		expect(fd == -1 && errno == ENOSYS, "a connection has a ring to send by");
		return;
	}
	expect(fd == ring, "another ring sends");
	fd = api->get_socket_tx_ring_fd(sock, (struct sockaddr *)&here, sizeof(here));
	expect(fd == -1 && errno == ENODATA, "a ring sends to this host");
	fd = api->get_socket_tx_ring_fd(sock, (struct sockaddr *)&here, 3);
	expect(fd == -1 && errno == EINVAL, "half an address");
}

/* What a child does with the descriptors that it inherits harms nobody. */
static void fork_away(void)
{
	pid_t pid = fork();
	struct pollfd p = {.fd = ring, .events = POLLIN};
	int status;

	if (!pid)
		_exit(poll(&p, 1, 0) < 0 || close(ring) || api->get_socket_rings_num(-1) != 0);
	expect(waitpid(pid, &status, 0) == pid && status == 0, "the child");
}

/* Threads ask for the ring while others close its descriptor. */
static void *asks_and_closes(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		int fd = -1, n = api->get_socket_rings_fds(sock, &fd, 1);

		if (n == -1 && errno == EBADF)
			continue;
		expect(n == 1 && fd >= 0, "rings of several threads");
		if (i % 3 == 0)
			close(fd);
	}
	return NULL;
}

static void race(void)
{
	pthread_t tids[3];

	for (int i = 0; i < 3; i++) {
		if (pthread_create(&tids[i], NULL, asks_and_closes, NULL))
			die("pthread_create");
	}
	for (int i = 0; i < 3; i++)
		pthread_join(tids[i], NULL);
}

static int open_socket(void)
{
	int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);

	if (fd < 0)
		die("socket");
	expect(!api || api->get_socket_rings_num(fd) == 0, "a new socket has rings");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	return fd;
}

int main(int argc, char **argv)
{
	bool (*const ways[])(int ms) = {by_poll, by_select, by_epoll};
	int other, old;

	if (argc != 5)
		return 2;
	tcp = !strcmp(argv[1], "tcp");
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	api = vma_get_api();
	printf("api %s\n", api ? "here" : "none");
	if (pipe2(ends, O_CLOEXEC))
		die("pipe");
	sock = open_socket();
	other = open_socket();
	ring = api ? get_ring(sock) : sock;
	if (api) {
		expect(get_ring(other) == ring, "two sockets of one interface have two rings");
		tx_ring();
	}
	for (unsigned i = 0; i < (unsigned)atoi(argv[4]); i++) {
		echo(i, ways[i % 3]);
		pipe_too(ways[i % 3]);
	}
	if (api) {
		fork_away();
		close(ring);
		old = ring;
		close(other);
		race();
		expect(api->get_socket_rings_fds(old, &ring, 1) == 0, "a closed descriptor");
		ring = get_ring(sock);
		echo(1000, by_poll);
	}
	printf("bad %u\n", bad);
	return 0;
}
