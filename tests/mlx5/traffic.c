/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams of all lengths, several at a time:
 *
 *	traffic serve ADDRESS PORT		echoes, as many with one call as wait; "ready" when bound
 *	traffic ask ADDRESS PORT ROUNDS [BURST [LENGTH]]
 *						rounds of BURST (8); all must come back as they were
 *	traffic ring ADDRESS PORT ROUNDS [BURST [LENGTH]]
 *						as ask, with a datagram to PORT + 1 after each burst, and
 *						one when all is answered
 *	traffic obey ADDRESS PORT		rings there whenever a datagram from ADDRESS to PORT
 *						asks for it: "PORT ROUNDS BURST LENGTH"
 *	traffic blast ADDRESS PORT COUNT	sends, and waits for nothing
 *	traffic knock ADDRESS PORT COUNT	the same, and then one to PORT + 1
 *	traffic spoil ADDRESS PORT COUNT	with wrong checksums; none of them may come back
 *
 * TRAFFIC_WAIT in the environment: seconds to wait for each answer (30).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BURST 8	     /* that are echoed with one call; of a round, by default */
#define BURST_MAX 31 /* bits of an unsigned */
#define LONGEST 1472 /* bytes that a frame has room for */
#define SHORTEST 8
#define WAIT_SEC 30

__attribute__((noreturn)) static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static uint32_t burst;
static size_t fixed; /* the length of all; 0: they differ */

/* Number n: its length and its bytes follow from it. */
static size_t make(uint8_t *bytes, uint32_t n)
{
	size_t len = fixed ? fixed : SHORTEST + (n * 97) % (LONGEST - SHORTEST + 1);

	memcpy(bytes, &n, sizeof(n));
	for (size_t i = sizeof(n); i < len; i++)
		bytes[i] = (uint8_t)(n + i * 7);
	return len;
}

static bool is_right(const uint8_t *bytes, size_t len, uint32_t *n)
{
	uint8_t right[LONGEST];

	if (len < SHORTEST)
		return false;
	memcpy(n, bytes, sizeof(*n));
	return make(right, *n) == len && !memcmp(right, bytes, len);
}

/* ---- the server --------------------------------------------------------------------------- */

static int serve(int fd)
{
	static uint8_t bytes[BURST][LONGEST];
	struct sockaddr_in from[BURST];
	struct iovec iov[BURST];
	struct mmsghdr msgs[BURST];
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	int n;

	for (;;) {
		for (int i = 0; i < BURST; i++) {
			iov[i] = (struct iovec){bytes[i], LONGEST};
			msgs[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
							  .msg_namelen = sizeof(from[i]),
							  .msg_iov = &iov[i],
							  .msg_iovlen = 1};
		}
		if (poll(&pfd, 1, -1) < 0)
			die("poll");
		n = recvmmsg(fd, msgs, BURST, MSG_DONTWAIT, NULL);
		for (int i = 0; i < n; i++)
			iov[i].iov_len = msgs[i].msg_len;
		if (n > 0)
			sendmmsg(fd, msgs, (unsigned)n, MSG_DONTWAIT);
	}
}

/* ---- the client --------------------------------------------------------------------------- */

static bool answer_comes(int fd)
{
	const char *sec = getenv("TRAFFIC_WAIT");
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, (sec ? atoi(sec) : WAIT_SEC) * 1000) == 1;
}

/* What is sent by one processor is not overtaken. */
static void stay(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here))
		die("sched_setaffinity");
}

static void send_one(int fd, uint32_t n)
{
	uint8_t bytes[LONGEST];

	if (send(fd, bytes, make(bytes, n), 0) < 0)
		die("send");
}

static int connect_to(const struct sockaddr_in *addr, int next)
{
	struct sockaddr_in to = *addr;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	to.sin_port = htons((uint16_t)(ntohs(addr->sin_port) + next));
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		die("connect");
	return fd;
}

static void ring_bell(int bell)
{
	while (send(bell, "", 1, 0) != 1) {
		if (errno != ECONNREFUSED) /* an earlier one arrived before there was a port */
			die("send");
	}
}

/* bell: a socket, or -1. */
static int ask(int fd, uint32_t rounds, int bell)
{
	uint8_t bytes[LONGEST + 1];

	if (bell >= 0)
		stay(); /* the bell tells that the burst has arrived */
	for (uint32_t first = 0; first < rounds * burst; first += burst) {
		unsigned seen = 0; /* bits */

		for (uint32_t i = 0; i < burst; i++)
			send_one(fd, first + i);
		if (bell >= 0)
			ring_bell(bell);
		while (seen != (1u << burst) - 1) {
			uint32_t n;
			ssize_t len;

			if (!answer_comes(fd)) {
				printf("lost: of %u to %u came %#x\n", first, first + burst - 1,
				       seen);
				return 1;
			}
			len = recv(fd, bytes, sizeof(bytes), 0);
			if (len < 0 || !is_right(bytes, (size_t)len, &n) || n - first >= burst ||
			    (seen & 1u << (n - first))) {
				printf("a wrong answer, or one twice, after %u\n", first);
				return 1;
			}
			seen |= 1u << (n - first);
		}
	}
	if (bell >= 0)
		ring_bell(bell);
	printf("%u answers\n", rounds * burst);
	return 0;
}

/*
 * Datagrams with this socket's port and a wrong checksum, and then a right one: the first answer is
 * the answer to that.
 */
static int spoil(int fd, const struct sockaddr_in *to, int count)
{
	struct {
		struct udphdr udp;
		char bytes[32];
	} datagram = {
		.udp = {.dest = to->sin_port, .len = htons(sizeof(datagram)), .check = 0xdead}};
	uint8_t bytes[LONGEST + 1];
	struct sockaddr_in self;
	socklen_t len = sizeof(self);
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
	ssize_t answer;
	uint32_t n;

	if (raw < 0 || getsockname(fd, (struct sockaddr *)&self, &len))
		die("raw");
	datagram.udp.source = self.sin_port;
	stay();
	for (int i = 0; i < count; i++) {
		datagram.bytes[0] = (char)i;
		if (sendto(raw, &datagram, sizeof(datagram), 0, (const struct sockaddr *)to,
			   sizeof(*to)) < 0)
			die("sendto");
	}
	send_one(fd, (uint32_t)count);
	if (!answer_comes(fd)) {
		printf("lost: a datagram with a right checksum\n");
		return 1;
	}
	answer = recv(fd, bytes, sizeof(bytes), 0);
	if (answer >= 0 && is_right(bytes, (size_t)answer, &n) && n == (uint32_t)count)
		return 0;
	printf("a datagram with a wrong checksum came back\n");
	return 1;
}

static bool take_shape(int wanted_burst, int wanted_length)
{
	if (wanted_burst < 1 || wanted_burst > BURST_MAX)
		return false;
	if (wanted_length && (wanted_length < SHORTEST || wanted_length > LONGEST))
		return false;
	burst = (uint32_t)wanted_burst;
	fixed = (size_t)wanted_length;
	return true;
}

static int ask_at(const struct sockaddr_in *addr, uint32_t rounds, bool rings)
{
	int fd = connect_to(addr, 0), bell = rings ? connect_to(addr, 1) : -1;
	int rc = ask(fd, rounds, bell);

	close(fd);
	if (rings)
		close(bell);
	fflush(stdout);
	return rc;
}

static int obey(int fd, struct sockaddr_in master)
{
	for (;;) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		char text[64];
		ssize_t n = recvfrom(fd, text, sizeof(text) - 1, 0, (struct sockaddr *)&from, &len);
		int port, rounds, wanted_burst, wanted_length;

		if (n < 0)
			die("recvfrom");
		text[n] = 0;
		if (from.sin_addr.s_addr != master.sin_addr.s_addr ||
		    sscanf(text, "%d %d %d %d", &port, &rounds, &wanted_burst, &wanted_length) !=
			    4 ||
		    port < 1 || port > 0xfffe || rounds < 1 ||
		    !take_shape(wanted_burst, wanted_length))
			continue;
		master.sin_port = htons((uint16_t)port);
		(void)ask_at(&master, (uint32_t)rounds, true);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	bool serves, obeys;
	int fd;

	if (argc < 4 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((uint16_t)atoi(argv[3]));
	serves = !strcmp(argv[1], "serve");
	obeys = !strcmp(argv[1], "obey");
	if (serves || obeys) {
		struct sockaddr_in at = addr;

		if (obeys)
			at.sin_addr.s_addr = INADDR_ANY;
		fd = socket(AF_INET, SOCK_DGRAM, 0);
		if (argc != 4 || bind(fd, (struct sockaddr *)&at, sizeof(at)))
			die("bind");
		puts("ready");
		fflush(stdout);
		return serves ? serve(fd) : obey(fd, addr);
	}
	if (argc < 5 || !take_shape(argc > 5 ? atoi(argv[5]) : BURST, argc > 6 ? atoi(argv[6]) : 0))
		return 2;
	if (!strcmp(argv[1], "ask") || !strcmp(argv[1], "ring"))
		return ask_at(&addr, (uint32_t)atoi(argv[4]), argv[1][0] == 'r');
	fd = connect_to(&addr, 0);
	if (!strcmp(argv[1], "spoil"))
		return spoil(fd, &addr, atoi(argv[4]));
	stay();
	for (int i = atoi(argv[4]); i > 0; i--)
		send_one(fd, (uint32_t)i);
	if (!strcmp(argv[1], "knock"))
		ring_bell(connect_to(&addr, 1));
	return 0;
}
