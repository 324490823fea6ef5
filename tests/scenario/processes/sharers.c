/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that share an address and port, and a peer that finds out which one gets a packet.
 *
 *	sharers serve PROTO IP PORT OPTION SOCKETS THREADS [GROUP]
 *		SOCKETS sockets in each of THREADS threads, bound with OPTION: reuseport,
 *		reuseaddr.  A request, or a connection, is answered with the name of the
 *		socket: PROCESS.THREAD.SOCKET.  UDP sockets join GROUP.
 *	sharers ask PROTO IP PORT SENDERS SECONDS
 *		sends two requests from each of SENDERS ports; an answer that does not come
 *		within SECONDS is missing. Prints "NAME COUNT" for each
 *		socket that answered first, "missing COUNT", and "other COUNT" for second
 *		answers by other sockets.
 *	sharers hear IP PORT COUNT SOCKETS SECONDS
 *		sends COUNT datagrams to IP, which may be a group or broadcast; each after
 *		SOCKETS answers to the one before, or SECONDS, and then no more. Prints
 *		all sockets that answered.
 *
 * Every wait has a timeout.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS_MAX 64
#define NAMES_MAX 256
#define PATIENCE 30000 /* milliseconds */
#define FIRST_PORT 20000

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "sharers: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in address(const char *ip, int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	if (inet_pton(AF_INET, ip, &sin.sin_addr) != 1)
		die(ip);
	return sin;
}

static bool readable(int fd, int msec)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, msec) == 1;
}

/* ---- serving ------------------------------------------------------------------------ */

static struct {
	const char *ip, *group;
	int port, option, sockets, threads;
	bool tcp;
} conf;

static pthread_barrier_t all_bound;

static int open_server(void)
{
	struct sockaddr_in sin = address(conf.ip, conf.port);
	int fd = socket(AF_INET, conf.tcp ? SOCK_STREAM : SOCK_DGRAM, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, conf.option, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&sin, sizeof(sin)))
		die("bind");
	if (conf.tcp && listen(fd, 64))
		die("listen");
	if (conf.group) {
		struct ip_mreqn req = {.imr_multiaddr = address(conf.group, 0).sin_addr,
				       .imr_address = address(conf.ip, 0).sin_addr};

		if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)))
			die("IP_ADD_MEMBERSHIP");
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void answer_datagram(int fd, const char *name)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char question[64];

	if (recvfrom(fd, question, sizeof(question), 0, (struct sockaddr *)&from, &len) >= 0)
		sendto(fd, name, strlen(name), 0, (struct sockaddr *)&from, len);
}

/* The peer closes first. */
static void answer_connection(int fd, const char *name)
{
	char byte;
	int conn = accept(fd, NULL, NULL);

	if (conn < 0)
		return;
	if (readable(conn, PATIENCE) && recv(conn, &byte, 1, 0) == 1)
		send(conn, name, strlen(name), MSG_NOSIGNAL);
	if (readable(conn, PATIENCE))
		recv(conn, &byte, 1, 0);
	close(conn);
}

static void *serve_thread(void *arg)
{
	struct pollfd pfd[SOCKETS_MAX];
	int thread = *(int *)arg;

	for (int i = 0; i < conf.sockets; i++)
		pfd[i] = (struct pollfd){.fd = open_server(), .events = POLLIN};
	pthread_barrier_wait(&all_bound);
	while (poll(pfd, (nfds_t)conf.sockets, -1) > 0) {
		for (int i = 0; i < conf.sockets; i++) {
			char name[64];

			if (!(pfd[i].revents & POLLIN))
				continue;
			snprintf(name, sizeof(name), "%d.%d.%d", getpid(), thread, i);
			if (conf.tcp)
				answer_connection(pfd[i].fd, name);
			else
				answer_datagram(pfd[i].fd, name);
		}
	}
	return NULL;
}

static int serve(char **argv)
{
	static int number[SOCKETS_MAX];
	pthread_t thread;

	conf.tcp = !strcmp(argv[0], "tcp");
	conf.ip = argv[1];
	conf.port = atoi(argv[2]);
	conf.option = strcmp(argv[3], "reuseport") ? SO_REUSEADDR : SO_REUSEPORT;
	conf.sockets = atoi(argv[4]);
	conf.threads = atoi(argv[5]);
	conf.group = argv[6];
	pthread_barrier_init(&all_bound, NULL, (unsigned)conf.threads + 1);
	for (int i = 0; i < conf.threads; i++) {
		number[i] = i;
		pthread_create(&thread, NULL, serve_thread, &number[i]);
	}
	pthread_barrier_wait(&all_bound);
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}

/* ---- asking -------------------------------------------------------------------------- */

static struct {
	char name[64];
	int count;
} names[NAMES_MAX];

static void count_name(const char *name)
{
	for (int i = 0; i < NAMES_MAX; i++) {
		if (!names[i].count)
			snprintf(names[i].name, sizeof(names[i].name), "%s", name);
		if (!strcmp(names[i].name, name)) {
			names[i].count++;
			return;
		}
	}
}

static void print_names(void)
{
	for (int i = 0; i < NAMES_MAX && names[i].count; i++)
		printf("%s %d\n", names[i].name, names[i].count);
}

/* From this port, in both protocols; the kernel keeps no TIME_WAIT for it. */
static int open_client(const char *proto, const char *ip, int to, int from)
{
	struct sockaddr_in sin = address(ip, to), own = address("0.0.0.0", from);
	struct linger reset = {.l_onoff = 1};
	bool tcp = !strcmp(proto, "tcp");
	int fd = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof(own)))
		die("bind");
	if (tcp)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (connect(fd, (struct sockaddr *)&sin, sizeof(sin))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* False: no answer. */
static bool ask_once(char **argv, int from, char name[64])
{
	int fd = open_client(argv[0], argv[1], atoi(argv[2]), from);
	ssize_t n = -1;

	if (fd < 0)
		return false;
	if (send(fd, "?", 1, MSG_NOSIGNAL) == 1 && readable(fd, atoi(argv[4]) * 1000))
		n = recv(fd, name, 63, 0);
	close(fd);
	if (n > 0)
		name[n] = '\0';
	return n > 0;
}

static int ask(char **argv)
{
	int senders = atoi(argv[3]), missing = 0, other = 0;

	for (int i = 0; i < senders; i++) {
		char first[64], second[64];

		if (!ask_once(argv, FIRST_PORT + i, first) ||
		    !ask_once(argv, FIRST_PORT + i, second)) {
			missing++;
			continue;
		}
		other += strcmp(first, second) != 0;
		count_name(first);
	}
	print_names();
	printf("missing %d\nother %d\n", missing, other);
	return 0;
}

/* False: no answer. */
static bool hear_one(int fd, int msec)
{
	char name[64];
	ssize_t n = readable(fd, msec) ? recv(fd, name, 63, 0) : -1;

	if (n <= 0)
		return false;
	name[n] = '\0';
	count_name(name);
	return true;
}

static int hear(char **argv)
{
	struct sockaddr_in sin = address(argv[0], atoi(argv[1]));
	int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
	int sockets = atoi(argv[3]), msec = atoi(argv[4]) * 1000, left = 0;

	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one));
	for (int i = 0; i < atoi(argv[2]) && left <= 0; i++) {
		if (sendto(fd, "?", 1, 0, (struct sockaddr *)&sin, sizeof(sin)) != 1)
			die("sendto");
		for (left = sockets; left > 0 && hear_one(fd, msec); left--)
			;
	}
	while (hear_one(fd, 100)) /* more than there should be */
		;
	print_names();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 8 && !strcmp(argv[1], "serve"))
		return serve(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "ask"))
		return ask(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "hear"))
		return hear(argv + 2);
	fprintf(stderr, "usage: see the top of tests/scenario/processes/sharers.c\n");
	return 2;
}
