/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams with known bytes, over any number of connections at the same time.
 *
 *	bulk serve IP PORT
 *		BACKLOG=N in the environment: that of listen(), 1024 by default.
 *		Prints "ready"; at SIGTERM, the number of streams; status 1 if one of
 *		them was wrong.
 *	bulk go IP PORT up|down|both BYTES CONNECTIONS SECONDS
 *		PACE=N in the environment, of both commands: SO_MAX_PACING_RATE.
 *		BYTES on each of CONNECTIONS in the direction; fails when one of
 *		them breaks, is wrong, or none of them moves for SECONDS.  STAY in
 *		the environment: after the result, stays until SIGTERM, for segments
 *		that are still in transit.
 *
 * A byte follows from the seed of its stream and its position.  So bytes that are lost,
 * repeated, corrupted or from another connection are found at their place.  The client
 * begins with a header; each end sends its bytes, then its end; an end that finds an
 * error resets the connection, which tells the other end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536
#define MAGIC 0x6b6c7562u /* "bulk" */
#define EVENTS 256
#define DIAL_AT_ONCE 64 /* connections being opened */

struct header {
	uint32_t magic, seed;
	uint64_t up, down;
};

/* A connection; used by one thread. */
struct stream {
	struct stream *next, **at; /* list of all open streams */
	int fd;
	bool server, connecting, headed, sent_all, got_all;
	struct header header;
	size_t header_at;
	uint64_t tx, tx_total, rx, rx_total;
	uint32_t events;
};

static volatile sig_atomic_t stopped;
static int epfd;
static struct stream *streams;
static unsigned long good, bad, open_streams, dialing;
static uint64_t moved; /* bytes, in both directions */

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "bulk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_sec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- the bytes -------------------------------------------------------------------- */

/* splitmix64 of the position of the eight bytes. */
static uint64_t word_at(uint64_t seed, uint64_t at)
{
	uint64_t z = seed * 0xd1342543de82ef95ull + at * 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void make(uint8_t *bytes, size_t n, uint64_t seed, uint64_t at)
{
	while (n) {
		uint64_t word = word_at(seed, at / 8);
		size_t skip = at % 8, part = 8 - skip < n ? 8 - skip : n;

		memcpy(bytes, (uint8_t *)&word + skip, part);
		bytes += part;
		at += part;
		n -= part;
	}
}

static uint64_t seed_of(const struct stream *s, bool up)
{
	return (uint64_t)s->header.seed << 1 | up;
}

/* ---- a stream ------------------------------------------------------------------------ */

static void end(struct stream *s, const char *fault)
{
	if (fault) {
		struct linger reset = {1, 0};

		fprintf(stderr, "bulk: stream %u: %s; sent %lu of %lu, got %lu of %lu\n",
			s->header.seed, fault, (unsigned long)s->tx, (unsigned long)s->tx_total,
			(unsigned long)s->rx, (unsigned long)s->rx_total);
		setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		bad++;
	} else {
		good++;
	}
	close(s->fd);
	*s->at = s->next;
	if (s->next)
		s->next->at = s->at;
	free(s);
	open_streams--;
}

static const char *receive(struct stream *s)
{
	static uint8_t got[CHUNK], want[CHUNK];

	for (int round = 0; round < 16; round++) {
		ssize_t n = recv(s->fd, got, CHUNK, MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN ? NULL : strerror(errno);
		if (n == 0) {
			s->got_all = true;
			return s->rx == s->rx_total ? NULL : "a short stream";
		}
		if ((uint64_t)n > s->rx_total - s->rx)
			return "a long stream";
		make(want, (size_t)n, seed_of(s, s->server), s->rx);
		if (memcmp(got, want, (size_t)n) != 0)
			return "a wrong byte";
		s->rx += (uint64_t)n;
		moved += (uint64_t)n;
	}
	return NULL;
}

static const char *transmit(struct stream *s)
{
	static uint8_t bytes[CHUNK];

	for (int round = 0; round < 16 && s->tx < s->tx_total; round++) {
		size_t want = s->tx_total - s->tx < CHUNK ? s->tx_total - s->tx : CHUNK;
		ssize_t n;

		make(bytes, want, seed_of(s, !s->server), s->tx);
		n = send(s->fd, bytes, want, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN ? NULL : strerror(errno);
		s->tx += (uint64_t)n;
		moved += (uint64_t)n;
	}
	/*
	 * The end of the server's stream says that all bytes of the client arrived and were
	 * right.
	 */
	if (s->tx == s->tx_total && (!s->server || s->got_all)) {
		s->sent_all = true;
		if (shutdown(s->fd, SHUT_WR))
			return strerror(errno);
	}
	return NULL;
}

/* Server: reads the header; client: sends it. */
static const char *introduce(struct stream *s)
{
	uint8_t *at = (uint8_t *)&s->header + s->header_at;
	size_t left = sizeof(s->header) - s->header_at;
	ssize_t n = s->server ? recv(s->fd, at, left, MSG_DONTWAIT)
			      : send(s->fd, at, left, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN ? NULL : strerror(errno);
	if (n == 0)
		return "no header";
	s->header_at += (size_t)n;
	if (s->header_at < sizeof(s->header))
		return NULL;
	if (s->header.magic != MAGIC)
		return "a wrong header";
	s->headed = true;
	s->tx_total = s->server ? s->header.down : s->header.up;
	s->rx_total = s->server ? s->header.up : s->header.down;
	return NULL;
}

static void await_events(struct stream *s)
{
	struct epoll_event event = {.data.ptr = s};

	if (!s->got_all && (s->headed || s->server))
		event.events |= EPOLLIN;
	if (s->connecting || (s->headed ? s->tx < s->tx_total : !s->server))
		event.events |= EPOLLOUT;
	if (event.events == s->events)
		return;
	if (epoll_ctl(epfd, s->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, s->fd, &event))
		die("epoll_ctl");
	s->events = event.events;
}

static void serve(struct stream *s, uint32_t events)
{
	const char *fault = NULL;

	if (s->connecting) {
		int error = 0;
		socklen_t len = sizeof(error);

		getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len);
		s->connecting = false;
		dialing--;
		if (error) {
			end(s, strerror(error));
			return;
		}
	}
	if (!s->headed)
		fault = introduce(s);
	if (!fault && s->headed && !s->got_all && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		fault = receive(s);
	if (!fault && s->headed && !s->sent_all)
		fault = transmit(s);
	if (fault || (s->sent_all && s->got_all))
		end(s, fault);
	else
		await_events(s);
}

static struct stream *new_stream(int fd)
{
	struct stream *s = calloc(1, sizeof(*s));
	const char *pace = getenv("PACE");
	unsigned rate = pace ? (unsigned)atoi(pace) : 0;

	if (!s)
		die("memory");
	if (pace && setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)))
		die("SO_MAX_PACING_RATE");
	s->fd = fd;
	s->next = streams;
	s->at = &streams;
	if (streams)
		streams->at = &s->next;
	streams = s;
	open_streams++;
	return s;
}

/* Serves ready connections. */
static void turn(int listener, int msec)
{
	struct epoll_event events[EVENTS];
	sigset_t none;
	int n;

	sigemptyset(&none);
	n = epoll_pwait(epfd, events, EVENTS, msec, &none);

	for (int i = 0; i < n; i++) {
		int fd;

		if (events[i].data.ptr) {
			serve(events[i].data.ptr, events[i].events);
			continue;
		}
		while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
			struct stream *s = new_stream(fd);

			s->server = true;
			await_events(s);
		}
	}
}

/* Serves until bytes were moved, or a stream ended; false: neither happened for this time. */
static bool move_on(double patience)
{
	uint64_t before = moved;
	unsigned long ended = good + bad;
	double until = now_sec() + patience;

	while (moved == before && good + bad == ended) {
		if (now_sec() > until)
			return false;
		turn(-1, 100);
	}
	return true;
}

/* Prints the state of open streams. */
static void show_open(void)
{
	unsigned n = 0;

	for (const struct stream *s = streams; s && n < 8; s = s->next, n++) {
		struct tcp_info info = {0};
		socklen_t len = sizeof(info);

		getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len);
		printf("stream %u: sent %lu of %lu, got %lu of %lu; state %u, %u unacked, %u lost, "
		       "%u retransmits, backoff %u, rto %u us, sent %u ms ago, acked %u ms ago\n",
		       s->header.seed, (unsigned long)s->tx, (unsigned long)s->tx_total,
		       (unsigned long)s->rx, (unsigned long)s->rx_total, info.tcpi_state,
		       info.tcpi_unacked, info.tcpi_lost, info.tcpi_retransmits, info.tcpi_backoff,
		       info.tcpi_rto, info.tcpi_last_data_sent, info.tcpi_last_ack_recv);
	}
}

/* ---- the two programs ------------------------------------------------------------------- */

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, ip, &sin.sin_addr) != 1)
		die(ip);
	return sin;
}

static int serve_all(char **argv)
{
	struct sockaddr_in sin = address(argv[0], argv[1]);
	struct epoll_event event = {.events = EPOLLIN};
	const char *backlog = getenv("BACKLOG");
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)) ||
	    listen(fd, backlog ? atoi(backlog) : 1024))
		die("listen");
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
	printf("ready\n");
	fflush(stdout);
	while (!stopped)
		turn(fd, -1);
	show_open();
	printf("%lu streams, %lu bad, %lu open\n", good, bad, open_streams);
	return bad || open_streams ? 1 : 0;
}

static void dial(const struct sockaddr_in *sin, struct header header)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct stream *s;

	if (fd < 0)
		die("socket");
	s = new_stream(fd);
	s->header = header;
	s->connecting = true;
	dialing++;
	if (connect(fd, (const struct sockaddr *)sin, sizeof(*sin)) && errno != EINPROGRESS) {
		dialing--;
		end(s, strerror(errno));
		return;
	}
	await_events(s);
}

static int go(char **argv)
{
	struct sockaddr_in sin = address(argv[0], argv[1]);
	bool up = strcmp(argv[2], "down") != 0, down = strcmp(argv[2], "up") != 0;
	uint64_t bytes = strtoull(argv[3], NULL, 0);
	unsigned n = (unsigned)atoi(argv[4]), dialed = 0;
	double patience = atof(argv[5]), start = now_sec(), seconds;

	while (dialed < n || open_streams) {
		while (dialed < n && dialing < DIAL_AT_ONCE) {
			struct header header = {MAGIC, ++dialed, up ? bytes : 0, down ? bytes : 0};

			dial(&sin, header);
		}
		if (open_streams && !move_on(patience)) {
			fprintf(stderr, "bulk: %lu streams stand still for %s s, %lu bytes moved\n",
				open_streams, argv[5], (unsigned long)moved);
			show_open();
			return 1;
		}
	}
	seconds = now_sec() - start;
	printf("%lu streams, %lu bad, %.3f s, %.2f Mbit/s\n", good, bad, seconds,
	       (double)moved * 8 / 1e6 / seconds);
	fflush(stdout);
	while (getenv("STAY") && !stopped)
		turn(-1, -1);
	return bad ? 1 : 0;
}

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = on_signal};
	struct rlimit files = {65536, 65536};
	sigset_t ends;

	/* The signal is delivered only while it waits, never between a check and a wait. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	sigaction(SIGTERM, &act, NULL);
	setrlimit(RLIMIT_NOFILE, &files);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (epfd < 0)
		die("epoll_create1");
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve_all(argv + 2);
	if (argc == 8 && strcmp(argv[1], "go") == 0)
		return go(argv + 2);
	fprintf(stderr, "usage: see %s\n", __FILE__);
	return 2;
}
