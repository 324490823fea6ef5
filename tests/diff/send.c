/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending: what a call accepts and refuses, what it waits for, and what arrives. */
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/diff/diff.h"

static volatile int minus_one = -1; /* the compiler would refuse it */

/* ---- the other side -------------------------------------------------------------------- */

/* Datagrams of port 0, until one says "end"; for senders whose datagrams are not joined. */
static void lists_datagrams(void)
{
	int fd = udp_bound(0);
	char buf[70000];
	long n;

	set_int(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20);
	meet();
	do {
		n = SAY(recv(fd, buf, sizeof(buf), 0));
		if (n > 0)
			say_bytes(buf, (size_t)n);
	} while (n >= 0 && !(n == 3 && !memcmp(buf, "end", 3)));
	close(fd);
}

/* The same for datagrams through different rings, which must not overtake each other. */
static void lists_in_turn(void)
{
	static char buf[70000];
	int fd = udp_bound(0);
	long n;

	set_int(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20);
	meet();
	do {
		n = SAY(recv(fd, buf, sizeof(buf), 0));
		if (n > 0)
			say_bytes(buf, (size_t)n);
		meet();
	} while (n >= 0 && !(n == 3 && !memcmp(buf, "end", 3)));
	close(fd);
}

#define IN_TURN(call)               \
	do {                        \
		if (SAY(call) >= 0) \
			meet();     \
	} while (0)

static void ends_in_turn(int fd)
{
	MUST(send(fd, "end", 3, 0));
	meet();
	close(fd);
}

static void ends(int fd)
{
	struct sockaddr_in to = server_addr(0);

	MUST(sendto(fd, "end", 3, 0, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
}

static void takes_all(void)
{
	static char buf[1 << 16];
	int fd = tcp_pair();
	long sum = 0, n;

	while ((n = recv(fd, buf + sum, sizeof(buf) - (size_t)sum, 0)) > 0)
		sum += n;
	say_bytes(buf, (size_t)sum);
	say("then %ld", n);
	close(fd);
}

static void reads_nothing(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
}

/* So slow that a blocking call has to wait. */
static void reads_late(void)
{
	static char buf[1 << 16];
	int fd = tcp_pair();
	long sum = 0, n;

	meet();
	await_other_blocked();
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		sum += n;
	say("%ld bytes", sum);
	close(fd);
}

static int to_server(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);

	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	return fd;
}

/* ---- corks ------------------------------------------------------------------------------- */

static void more_udp_client(void)
{
	int fd = to_server();
	struct sockaddr_in to = server_addr(0);

	SAY(send(fd, "one ", 4, MSG_MORE));
	SAY(send(fd, "datagram", 8, 0));
	SAY(send(fd, "another", 7, MSG_MORE));
	SAY(sendto(fd, " one", 4, MSG_MORE, (struct sockaddr *)&to, sizeof(to)));
	SAY(write(fd, "!", 1));
	SAY(send(fd, "alone", 5, 0));
	SAY(send(fd, "", 0, MSG_MORE));
	SAY(send(fd, "", 0, 0));
	ends(fd);
}

static void cork_udp_client(void)
{
	int fd = to_server();

	SAY(send(fd, "before", 6, 0));
	set_int(fd, IPPROTO_UDP, UDP_CORK, 1);
	SAY(get_int(fd, IPPROTO_UDP, UDP_CORK));
	SAY(send(fd, "one ", 4, 0));
	SAY(send(fd, "datagram", 8, 0));
	set_int(fd, IPPROTO_UDP, UDP_CORK, 0);
	SAY(send(fd, "after", 5, 0));
	ends(fd);
}

static void more_tcp_client(void)
{
	int fd = tcp_pair();

	SAY(send(fd, "one ", 4, MSG_MORE));
	SAY(send(fd, "segment", 7, 0));
	await_acked(fd);
	set_int(fd, IPPROTO_TCP, TCP_CORK, 1);
	SAY(send(fd, "another ", 8, 0));
	SAY(send(fd, "segment", 7, 0));
	set_int(fd, IPPROTO_TCP, TCP_CORK, 0);
	await_acked(fd);
	/* But not forever. */
	SAY(send(fd, "waits", 5, MSG_MORE));
	await_acked(fd);
	close(fd);
}

/* ---- flags ---------------------------------------------------------------------------------- */

static void flags_tcp_client(void)
{
	int fd = tcp_pair();

	SAY(send(fd, "a", 1, MSG_DONTROUTE));
	await_acked(fd);
	SAY(send(fd, "b", 1, MSG_CONFIRM));
	await_acked(fd);
	SAY(send(fd, "c", 1, MSG_EOR));
	await_acked(fd);
	SAY(send(fd, "d", 1, MSG_TRUNC | MSG_PEEK | MSG_WAITALL));
	await_acked(fd);
	SAY(send(fd, "e", 1, MSG_ERRQUEUE));
	await_acked(fd);
	SAY(send(fd, "f", 1, MSG_FASTOPEN));
	await_acked(fd);
	SAY(send(fd, "g", 1, MSG_DONTWAIT));
	await_acked(fd);
	SAY(send(fd, "", 0, 0));
	SAY(send(fd, NULL, 0, 0));
	SAY(send(fd, "h", 1, 0x100000));
	close(fd);
}

static void flags_udp_client(void)
{
	int fd = to_server();

	SAY(send(fd, "a", 1, MSG_CONFIRM));
	SAY(send(fd, "b", 1, MSG_EOR));
	SAY(send(fd, "c", 1, MSG_TRUNC | MSG_PEEK | MSG_WAITALL));
	SAY(send(fd, "d", 1, MSG_ERRQUEUE));
	SAY(send(fd, "e", 1, MSG_DONTWAIT));
	SAY(send(fd, "f", 1, MSG_NOSIGNAL));
	SAY(send(fd, "g", 1, MSG_OOB));
	SAY(send(fd, "h", 1, MSG_FASTOPEN));
	SAY(send(fd, "i", 1, 0x100000));
	ends(fd);
}

static void dontroute_udp_client(void)
{
	int fd = to_server();

	SAY(send(fd, "a", 1, MSG_DONTROUTE));
	set_int(fd, SOL_SOCKET, SO_DONTROUTE, 1);
	SAY(send(fd, "b", 1, 0));
	ends(fd);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static void sizes_udp_client(void)
{
	static char big[70000];
	int fd = to_server();

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7 + (i >> 8));
	IN_TURN(send(fd, big, 0, 0));
	IN_TURN(send(fd, big, 1472, 0));
	IN_TURN(send(fd, big, 1473, 0));
	IN_TURN(send(fd, big, 9000, 0));
	IN_TURN(send(fd, big, 65507, 0));
	IN_TURN(send(fd, big, 65508, 0));
	IN_TURN(send(fd, big, 65535, 0));
	IN_TURN(send(fd, big, 65536, 0));
	IN_TURN(send(fd, big, 70000, 0));
	ends_in_turn(fd);
}

static void dont_fragment_client(void)
{
	static char big[3000];
	int fd = to_server();

	SAY(get_int(fd, IPPROTO_IP, IP_MTU));
	set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	IN_TURN(send(fd, big, 1472, 0));
	IN_TURN(send(fd, big, 1473, 0));
	set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	IN_TURN(send(fd, big, 1472, 0));
	IN_TURN(send(fd, big, 1473, 0));
	set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
	IN_TURN(send(fd, big, 1473, 0));
	ends_in_turn(fd);
}

static void no_check_client(void)
{
	int fd = to_server();

	set_int(fd, SOL_SOCKET, SO_NO_CHECK, 1);
	SAY(get_int(fd, SOL_SOCKET, SO_NO_CHECK));
	SAY(send(fd, "unchecked", 9, 0));
	set_int(fd, SOL_SOCKET, SO_NO_CHECK, 0);
	SAY(send(fd, "checked", 7, 0));
	ends(fd);
}

static void gso_option_client(void)
{
	static char big[70000];
	int fd = to_server(), n = 100;

	memset(big, 'x', sizeof(big));
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &n, sizeof(n)));
	SAY(get_int(fd, IPPROTO_UDP, UDP_SEGMENT));
	SAY(send(fd, big, 250, 0));
	SAY(send(fd, big, 100, 0));
	SAY(send(fd, big, 50, 0));
	SAY(send(fd, big, 0, 0));
	SAY(send(fd, big, 65507, 0));
	n = 70000;
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &n, sizeof(n)));
	n = 2000;
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &n, sizeof(n)));
	SAY(send(fd, big, 4000, 0));
	n = 0;
	SAY(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &n, sizeof(n)));
	SAY(send(fd, big, 250, 0));
	ends(fd);
}

/* ---- more than fits -------------------------------------------------------------------------- */

static char much[8 << 20];

static void blocking_client(void)
{
	int fd = tcp_pair();

	meet();
	SAY(send(fd, much, sizeof(much), 0));
	close(fd);
}

static void nonblocking_client(void)
{
	int fd = tcp_pair();
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	long n, sum = 0;

	SAY(poll(&p, 1, 0));
	while ((n = send(fd, much, sizeof(much), MSG_DONTWAIT)) > 0 && sum < 100 << 20)
		sum += n;
	/* The peer's buffer may grow meanwhile, and take more. */
	sum += fill_window(fd);
	SAY(send(fd, much, 1, MSG_DONTWAIT));
	SAY_IF(sum > 0 && sum < (long)sizeof(much));
	SAY(poll(&p, 1, 0));
	meet();
	close(fd);
}

static void timeout_client(void)
{
	int fd = tcp_pair();
	long n, began;

	set_timeout(fd, SO_SNDTIMEO, 200);
	began = now_ms();
	n = send(fd, much, sizeof(much), 0);
	not_before("a part", began, 190);
	SAY_IF(n > 0 && n < (long)sizeof(much));
	/* The buffers may have accepted more meanwhile. */
	while ((n = send(fd, much, sizeof(much), 0)) > 0)
		;
	while ((n = send(fd, much, 1, 0)) > 0)
		;
	say_result("send", n);
	meet();
	close(fd);
}

static void signal_client(void)
{
	int fd = tcp_pair();
	long n;

	alarm_in(200, 0);
	n = send(fd, much, sizeof(much), 0);
	SAY_IF(n > 0 && n < (long)sizeof(much));
	while (send(fd, much, sizeof(much), MSG_DONTWAIT) > 0)
		;
	/* The peer's buffer may grow, and take a part of what comes. */
	alarm_in(100, 0);
	while ((n = send(fd, much, sizeof(much), 0)) > 0)
		;
	say_result("send", n);
	alarm_in(100, 0);
	while ((n = write(fd, much, 1)) > 0)
		;
	say_result("write", n);
	no_alarm();
	meet();
	close(fd);
}

/* If a vector is split in the middle of an entry, the next call continues there. */
static void vector_client(void)
{
	struct iovec iov[40];
	int fd = tcp_pair();

	for (int i = 0; i < 40; i++)
		iov[i] = (struct iovec){much + i, (size_t)(i % 3 ? 100001 : 0)};
	meet();
	SAY(writev(fd, iov, 40));
	close(fd);
}

/* ---- vectors ---------------------------------------------------------------------------------- */

static void bad_vectors_client(void)
{
	static struct iovec many[IOV_MAX + 1];
	int fd = tcp_pair();
	struct iovec iov[] = {{(char *)"ab", 2}, {NULL, 0}, {(char *)"cd", 2}};
	struct iovec negative[] = {{(char *)"ab", 2}, {(char *)"cd", (size_t)-1}};
	struct msghdr msg = {.msg_iov = many, .msg_iovlen = IOV_MAX + 1};

	SAY(writev(fd, iov, minus_one));
	SAY(writev(fd, iov, 0));
	SAY(writev(fd, many, IOV_MAX + 1));
	SAY(sendmsg(fd, &msg, 0));
	SAY(writev(fd, negative, 2));
	msg.msg_iov = negative;
	msg.msg_iovlen = 2;
	SAY(sendmsg(fd, &msg, 0));
	msg.msg_iovlen = 0;
	SAY(sendmsg(fd, &msg, 0));
	SAY(writev(fd, iov, 3));
	SAY(write(fd, "x", 0));
	close(fd);
}

static void bad_vectors_udp_client(void)
{
	int fd = to_server();
	struct iovec iov[] = {{(char *)"ab", 2}, {NULL, 0}, {(char *)"cd", 2}};
	struct iovec negative[] = {{(char *)"ab", 2}, {(char *)"cd", (size_t)-1}};
	struct msghdr msg = {.msg_iov = negative, .msg_iovlen = 2};

	SAY(writev(fd, iov, minus_one));
	SAY(writev(fd, negative, 2));
	SAY(sendmsg(fd, &msg, 0));
	SAY(writev(fd, iov, 0));
	SAY(writev(fd, iov + 1, 1));
	SAY(write(fd, "x", 0));
	msg.msg_iovlen = 0;
	SAY(sendmsg(fd, &msg, 0));
	SAY(writev(fd, iov, 3));
	ends(fd);
}

/* ---- MSG_ZEROCOPY ------------------------------------------------------------------------------ */

static void zerocopy_client(void)
{
	int fd = tcp_pair();

	/* Without the option the flag has no effect. */
	SAY(send(fd, "copied", 6, MSG_ZEROCOPY));
	close(fd);
}

static void zerocopy_udp_client(void)
{
	int fd = to_server();

	SAY(send(fd, "copied", 6, MSG_ZEROCOPY));
	ends(fd);
}

/* ---- MSG_FASTOPEN ------------------------------------------------------------------------------- */

static void fastopen_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	meet();
	SAY(send(fd, "x", 1, MSG_FASTOPEN));
	SAY(sendto(fd, "hello", 5, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(fd, "again", 5, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, " you", 4, 0));
	meet();
	close(fd);
}

static void fastopen_server(void)
{
	int listener = tcp_listening(0), fd;
	char buf[20];

	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	await_bytes(fd, 9);
	SAY(recv(fd, buf, sizeof(buf), 0));
	meet();
	close(fd);
	close(listener);
}

/* ---- destinations ------------------------------------------------------------------------------ */

static void to_tcp_client(void)
{
	int fd = tcp_pair();
	struct sockaddr_in to = server_addr(5);

	SAY(sendto(fd, "a", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(fd, "b", 1, 0, (struct sockaddr *)&to, 3));
	SAY(sendto(fd, "c", 1, 0, (struct sockaddr *)&to, (socklen_t)-1));
	SAY(sendto(fd, "d", 1, 0, NULL, 16));
	close(fd);
}

static void to_udp_client(void)
{
	int fd = to_server();
	struct sockaddr_in to = server_addr(0), other;

	SAY(sendto(fd, "a", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(sendto(fd, "b", 1, 0, (struct sockaddr *)&to, sizeof(to) - 1));
	SAY(sendto(fd, "c", 1, 0, (struct sockaddr *)&to, 200));
	SAY(sendto(fd, "d", 1, 0, (struct sockaddr *)&to, (socklen_t)-1));
	SAY(sendto(fd, "e", 1, 0, NULL, 16));
	other = to;
	other.sin_family = AF_UNSPEC;
	SAY(sendto(fd, "f", 1, 0, (struct sockaddr *)&other, sizeof(other)));
	other.sin_family = AF_INET6;
	SAY(sendto(fd, "g", 1, 0, (struct sockaddr *)&other, sizeof(other)));
	other = to;
	other.sin_port = 0;
	SAY(sendto(fd, "h", 1, 0, (struct sockaddr *)&other, sizeof(other)));
	other = to;
	other.sin_addr.s_addr = htonl(INADDR_BROADCAST);
	SAY(sendto(fd, "i", 1, 0, (struct sockaddr *)&other, sizeof(other)));
	ends(fd);
}

/* ---- places that are none -------------------------------------------------------------- */

static void say_nowhere(int fd)
{
	void *volatile nowhere = NULL;
	struct iovec iov = {nowhere, 5};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	SAY(send(fd, nowhere, 5, 0));
	SAY(write(fd, nowhere, 5));
	SAY(sendto(fd, nowhere, 5, 0, NULL, 0));
	SAY(writev(fd, &iov, 1));
	SAY(writev(fd, nowhere, 1));
	SAY(sendmsg(fd, &msg, 0));
	msg.msg_iov = nowhere;
	SAY(sendmsg(fd, &msg, 0));
	SAY(sendmsg(fd, nowhere, 0));
}

static void nowhere_client(void)
{
	int fd = tcp_pair();

	say_nowhere(fd);
	SAY(send(fd, "hello", 5, 0));
	close(fd);
}

static void nowhere_udp_client(void)
{
	int fd = to_server();

	say_nowhere(fd);
	ends(fd);
}

const struct behaviour send_behaviours[] = {
	{"more_udp", lists_datagrams, more_udp_client, OURS},
	{"cork_udp", lists_datagrams, cork_udp_client, OURS},
	{"more_tcp", takes_all, more_tcp_client, OURS},
	{"flags_tcp", takes_all, flags_tcp_client, OURS},
	{"flags_udp", lists_datagrams, flags_udp_client, KERNEL},
	{"dontroute_udp", lists_datagrams, dontroute_udp_client, KERNEL},
	{"sizes_udp", lists_in_turn, sizes_udp_client, KERNEL},
	{"dont_fragment", lists_in_turn, dont_fragment_client, KERNEL},
	{"no_check", lists_datagrams, no_check_client, KERNEL},
	{"gso_option", lists_datagrams, gso_option_client, KERNEL},
	{"blocking", reads_late, blocking_client, OURS},
	{"nonblocking", reads_nothing, nonblocking_client, OURS},
	{"timeout", reads_nothing, timeout_client, OURS},
	{"signal", reads_nothing, signal_client, OURS},
	{"vector", reads_late, vector_client, OURS},
	{"bad_vectors", takes_all, bad_vectors_client, OURS},
	{"bad_vectors_udp", lists_datagrams, bad_vectors_udp_client, OURS},
	{"zerocopy", takes_all, zerocopy_client, OURS},
	{"zerocopy_udp", lists_datagrams, zerocopy_udp_client, OURS},
	{"fastopen", fastopen_server, fastopen_client, OURS},
	{"to_tcp", takes_all, to_tcp_client, OURS},
	{"to_udp", lists_datagrams, to_udp_client, KERNEL},
	{"nowhere", takes_all, nowhere_client, OURS},
	{"nowhere_udp", lists_datagrams, nowhere_udp_client, OURS},
	{0},
};
