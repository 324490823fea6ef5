/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads take turns in the use of sockets, and a peer checks every byte.
 *
 *	relay serve PROTO IP PORT SOCKETS THREADS TURN
 *		echoes on SOCKETS sockets (UDP: ports PORT.., TCP: connections to
 *		PORT).  A thread takes a socket that another thread had last, the one
 *		that waited longest; it echoes TURN messages and puts the socket back.
 *		Ends when all peers have ended.
 *	relay drive PROTO IP PORT SOCKETS MESSAGES
 *		sends MESSAGES stamped messages on each of SOCKETS sockets, a
 *		window of them at a time, and expects each once.  The server checks
 *		the order: datagrams from two threads overtake each other in the
 *		queues that the kernel has for each processor.
 *	relay join IP GROUP PORT
 *		joins the group on the interface of IP; after the last datagram it prints
 *		the number of datagrams, which must arrive once and in order.
 *	relay shout IP GROUP PORT FIRST COUNT
 *		sends COUNT datagrams to the group; COUNT 0: the last datagram.
 *
 * Every wait has a timeout.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS_MAX 64
#define WINDOW 16
#define SIZE 200      /* bytes of a message */
#define PATIENCE 5000 /* milliseconds without any answer */
#define TIMEOUT_USEC 50000
#define LAST UINT32_MAX /* the number of the last datagram */

struct message {
	uint32_t sock, number;
	uint8_t fill[SIZE - 8];
};

_Static_assert(sizeof(struct message) == SIZE, "no padding");

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in address(const char *ip, int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	if (inet_pton(AF_INET, ip, &sin.sin_addr) != 1)
		die(ip);
	return sin;
}

static void fill(struct message *m, uint32_t sock, uint32_t number)
{
	m->sock = sock;
	m->number = number;
	for (size_t i = 0; i < sizeof(m->fill); i++)
		m->fill[i] = (uint8_t)(number * 31 + sock * 7 + i);
}

static bool is_whole(const struct message *m)
{
	struct message want;

	fill(&want, m->sock, m->number);
	return memcmp(m, &want, sizeof(want)) == 0;
}

/* ---- the threads that pass sockets on ------------------------------------------------- */

struct hop {
	int fd;
	bool udp;
	int last;      /* thread that had it last; -1: none */
	uint32_t next; /* next message */
	size_t have;   /* received bytes of a message */
	struct message partial;
};

static struct {
	pthread_mutex_t lock;
	struct hop *queue[SOCKETS_MAX]; /* the one that waited longest comes first */
	int n, alive;
	int threads, turn;
} crew = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Takes a socket that another thread had, because otherwise a running thread keeps the same one. */
static struct hop *take(int thread)
{
	struct hop *hop = NULL;
	int i = 0;

	pthread_mutex_lock(&crew.lock);
	while (i < crew.n && crew.threads > 1 && crew.queue[i]->last == thread)
		i++;
	if (i < crew.n) {
		hop = crew.queue[i];
		hop->last = thread;
		memmove(crew.queue + i, crew.queue + i + 1, (size_t)(--crew.n - i) * sizeof(hop));
	}
	pthread_mutex_unlock(&crew.lock);
	return hop;
}

static void put(struct hop *hop, bool over)
{
	pthread_mutex_lock(&crew.lock);
	if (over) {
		close(hop->fd);
		crew.alive--;
	} else {
		crew.queue[crew.n++] = hop;
	}
	pthread_mutex_unlock(&crew.lock);
}

static int alive(void)
{
	int n;

	pthread_mutex_lock(&crew.lock);
	n = crew.alive;
	pthread_mutex_unlock(&crew.lock);
	return n;
}

static void check_order(struct hop *hop, const struct message *m)
{
	if (m->number != LAST && (m->number != hop->next || !is_whole(m))) {
		fprintf(stderr, "relay: socket %u received message %u instead of %u\n", m->sock,
			m->number, hop->next);
		exit(1);
	}
	hop->next++;
}

/* True: the peer has finished. */
static bool echo_datagram(struct hop *hop)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct message m;
	ssize_t n = recvfrom(hop->fd, &m, sizeof(m), 0, (struct sockaddr *)&from, &len);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n != sizeof(m))
		die("recvfrom");
	check_order(hop, &m);
	if (sendto(hop->fd, &m, sizeof(m), 0, (struct sockaddr *)&from, len) != sizeof(m))
		die("sendto");
	return m.number == LAST;
}

static bool echo_stream(struct hop *hop)
{
	char *to = (char *)&hop->partial + hop->have;
	ssize_t n = recv(hop->fd, to, sizeof(hop->partial) - hop->have, 0);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		if (n < 0)
			die("recv");
		return true;
	}
	hop->have += (size_t)n;
	if (hop->have < sizeof(hop->partial))
		return false;
	hop->have = 0;
	check_order(hop, &hop->partial);
	if (send(hop->fd, &hop->partial, sizeof(hop->partial), MSG_NOSIGNAL) !=
	    sizeof(hop->partial))
		die("send");
	return false;
}

static void *work(void *arg)
{
	while (alive()) {
		struct hop *hop = take((int)(intptr_t)arg);
		bool over = false;

		if (!hop) {
			usleep(100);
			continue;
		}
		for (int i = 0; i < crew.turn && !over; i++)
			over = hop->udp ? echo_datagram(hop) : echo_stream(hop);
		put(hop, over);
	}
	return arg;
}

static void add(int fd, bool udp)
{
	struct timeval tv = {.tv_usec = TIMEOUT_USEC};
	struct hop *hop = calloc(1, sizeof(*hop));

	if (fd < 0 || !hop)
		die("no socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	hop->fd = fd;
	hop->udp = udp;
	hop->last = -1;
	crew.queue[crew.n++] = hop;
}

static int bound(const char *ip, int port, int type)
{
	struct sockaddr_in sin = address(ip, port);
	int fd = socket(AF_INET, type, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, type == SOCK_STREAM ? &one : &(int){0},
		   sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)))
		die("bind");
	return fd;
}

static int serve(bool udp, const char *ip, int port, int sockets, int threads, int turn)
{
	pthread_t ids[SOCKETS_MAX];
	int listener = -1;

	crew.threads = threads;
	crew.turn = turn;
	for (int i = 0; udp && i < sockets; i++)
		add(bound(ip, port + i, SOCK_DGRAM), true);
	if (!udp) {
		listener = bound(ip, port, SOCK_STREAM);
		if (listen(listener, sockets))
			die("listen");
	}
	puts("ready");
	fflush(stdout);
	for (int i = 0; !udp && i < sockets; i++)
		add(accept(listener, NULL, NULL), false);
	crew.alive = sockets;
	for (int i = 0; i < threads; i++) {
		if (pthread_create(&ids[i], NULL, work, (void *)(intptr_t)i))
			die("pthread_create");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	return 0;
}

/* ---- the peer ---------------------------------------------------------------------------- */

struct stream {
	int fd;
	uint32_t sent, got; /* numbers of messages */
	bool *seen;
	size_t have;
	struct message partial;
};

static void send_window(struct stream *s, uint32_t sock, uint32_t messages)
{
	struct message m;

	while (s->sent < messages && s->sent - s->got < WINDOW) {
		fill(&m, sock, s->sent);
		if (send(s->fd, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
			die("send");
		s->sent++;
	}
}

static void receive(struct stream *s, uint32_t sock, bool udp)
{
	char *to = (char *)&s->partial + s->have;
	ssize_t n = recv(s->fd, to, sizeof(s->partial) - s->have, 0);

	if (n <= 0)
		die("recv");
	s->have += (size_t)n;
	if (s->have < sizeof(s->partial))
		return;
	s->have = 0;
	if (s->partial.sock != sock || !is_whole(&s->partial)) {
		fprintf(stderr, "relay: socket %u: message %u is damaged\n", sock, s->got);
		exit(1);
	}
	if (udp ? s->partial.number >= s->sent || s->seen[s->partial.number]
		: s->partial.number != s->got) {
		fprintf(stderr, "relay: socket %u: message %u, after %u of %u sent\n", sock,
			s->partial.number, s->got, s->sent);
		exit(1);
	}
	s->seen[s->partial.number] = true;
	s->got++;
}

static void finish(const struct stream *s, uint32_t sock, bool udp)
{
	struct message m;

	fill(&m, sock, LAST);
	if (udp && send(s->fd, &m, sizeof(m), 0) != sizeof(m))
		die("send");
	close(s->fd);
}

static int drive(bool udp, const char *ip, int port, int sockets, uint32_t messages)
{
	static struct stream streams[SOCKETS_MAX];
	struct pollfd fds[SOCKETS_MAX];
	int open = sockets;

	for (int i = 0; i < sockets; i++) {
		struct sockaddr_in sin = address(ip, udp ? port + i : port);

		streams[i].fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);
		streams[i].seen = calloc(messages, sizeof(bool));
		if (streams[i].fd < 0 || !streams[i].seen ||
		    connect(streams[i].fd, (struct sockaddr *)&sin, sizeof(sin)))
			die("connect");
		fds[i] = (struct pollfd){.fd = streams[i].fd, .events = POLLIN};
	}
	if (sockets < 1 || sockets > SOCKETS_MAX)
		die("how many sockets?");
	while (open) {
		for (int i = 0; i < sockets; i++) {
			if (fds[i].fd >= 0)
				send_window(&streams[i], (uint32_t)i, messages);
		}
		if (poll(fds, (unsigned)sockets, PATIENCE) <= 0) {
			for (int i = 0; i < sockets; i++)
				fprintf(stderr, "relay: socket %d: sent %u, got %u\n", i,
					streams[i].sent, streams[i].got);
			die("no answer");
		}
		for (int i = 0; i < sockets; i++) {
			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			receive(&streams[i], (uint32_t)i, udp);
			if (streams[i].got < messages)
				continue;
			finish(&streams[i], (uint32_t)i, udp);
			fds[i].fd = -1;
			open--;
		}
	}
	return 0;
}

/* ---- groups ------------------------------------------------------------------------------ */

static int join(const char *ip, const char *group, int port)
{
	struct sockaddr_in sin = address(group, port);
	struct ip_mreq req = {.imr_multiaddr = sin.sin_addr,
			      .imr_interface = address(ip, 0).sin_addr};
	struct pollfd pfd = {.events = POLLIN};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
	uint32_t got = 0, next = 0;
	struct message m;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&sin, sizeof(sin)) ||
	    setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)))
		die("join");
	puts("ready");
	fflush(stdout);
	pfd.fd = fd;
	while (poll(&pfd, 1, 4 * PATIENCE) == 1 && recv(fd, &m, sizeof(m), 0) == sizeof(m)) {
		if (m.number == LAST) {
			printf("received %u\n", got);
			return 0;
		}
		if (!is_whole(&m) || m.number < next) {
			printf("datagram %u is damaged, or came after %u\n", m.number, next);
			return 1;
		}
		next = m.number + 1;
		got++;
	}
	printf("received %u, and no goodbye\n", got);
	return 1;
}

static int shout(const char *ip, const char *group, int port, uint32_t first, uint32_t count)
{
	struct sockaddr_in sin = address(group, port);
	struct in_addr from = address(ip, 0).sin_addr;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct message m;

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof(from)))
		die("shout");
	for (uint32_t i = 0; i < (count ? count : 1); i++) {
		fill(&m, 0, count ? first + i : LAST);
		if (sendto(fd, &m, sizeof(m), 0, (struct sockaddr *)&sin, sizeof(sin)) != sizeof(m))
			die("sendto");
		usleep(200);
	}
	return 0;
}

int main(int argc, char **argv)
{
	bool udp = argc > 2 && strcmp(argv[2], "udp") == 0;

	alarm(120);
	if (argc == 8 && strcmp(argv[1], "serve") == 0 && atoi(argv[5]) <= SOCKETS_MAX &&
	    atoi(argv[6]) <= SOCKETS_MAX)
		return serve(udp, argv[3], atoi(argv[4]), atoi(argv[5]), atoi(argv[6]),
			     atoi(argv[7]));
	if (argc == 7 && strcmp(argv[1], "drive") == 0 && atoi(argv[5]) <= SOCKETS_MAX)
		return drive(udp, argv[3], atoi(argv[4]), atoi(argv[5]), (uint32_t)atoi(argv[6]));
	if (argc == 5 && strcmp(argv[1], "join") == 0)
		return join(argv[2], argv[3], atoi(argv[4]));
	if (argc == 7 && strcmp(argv[1], "shout") == 0)
		return shout(argv[2], argv[3], atoi(argv[4]), (uint32_t)atoi(argv[5]),
			     (uint32_t)atoi(argv[6]));
	fprintf(stderr, "usage: see the source\n");
	return 2;
}
