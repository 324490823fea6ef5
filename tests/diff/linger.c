/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram sockets that fall back to the kernel with unread data: the program reads that first,
 * and then what the kernel received.
 */
#include <errno.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/diff/diff.h"

/* ---- the client: three datagrams before, and two after ---------------------------------- */

static void send_numbers(int fd, int from, int to)
{
	struct sockaddr_in server = server_addr(0);

	for (int i = from; i < to; i++) {
		char text[16] = "";
		int n = snprintf(text, sizeof(text), "number %d", i);

		MUST(sendto(fd, text, (size_t)n + (size_t)i, 0, (struct sockaddr *)&server,
			    sizeof(server)));
	}
}

static void five_client(void)
{
	int fd = udp_bound(1);

	set_int(fd, IPPROTO_IP, IP_TTL, 33);
	meet();
	send_numbers(fd, 0, 3);
	arrive();
	meet();
	send_numbers(fd, 3, 5);
	arrive();
	meet();
	close(fd);
}

/* ---- the server ------------------------------------------------------------------------- */

/* All three have arrived; only the kernel has IP_RETOPTS. */
static int left(void)
{
	int fd = udp_bound(0);

	meet();
	arrive();
	SAY(setsockopt(fd, IPPROTO_IP, IP_RETOPTS, &(int){1}, sizeof(int)));
	return fd;
}

/* And the other two. */
static void all_sent(void)
{
	meet();
	arrive();
}

static void say_unread(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	int n = -1;

	SAY(ioctl(fd, FIONREAD, &n));
	say("%d unread", n);
	SAY(poll(&p, 1, 0));
	say_events("poll", (uint32_t)p.revents);
}

static void read_one(int fd, int flags)
{
	struct sockaddr_in from = {0};
	socklen_t len = sizeof(from);
	char buf[100];
	long n = recvfrom(fd, buf, sizeof(buf), flags | MSG_DONTWAIT, (struct sockaddr *)&from,
			  &len);

	say_result("recvfrom", n);
	if (n < 0)
		return;
	say_bytes(buf, (size_t)n);
	say_addr("from", &from, len);
}

static void order_server(void)
{
	int fd = left();

	say_unread(fd);
	all_sent();
	for (int i = 0; i < 6; i++) {
		read_one(fd, MSG_PEEK);
		read_one(fd, 0);
		say_unread(fd);
	}
	meet();
	close(fd);
}

static void cut_server(void)
{
	int fd = left();
	char buf[4];

	SAY(recv(fd, buf, sizeof(buf), MSG_TRUNC | MSG_PEEK));
	SAY(recv(fd, buf, sizeof(buf), MSG_TRUNC));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, NULL, 0, MSG_TRUNC));
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	all_sent();
	SAY(read(fd, buf, sizeof(buf)));
	SAY(read(fd, buf, sizeof(buf)));
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	meet();
	close(fd);
}

/* An option that is set after the fallback applies to datagrams from before. */
static void ttl_server(void)
{
	int fd = left();
	char buf[100], control[100];
	struct iovec iov = {buf, sizeof(buf)};

	SAY(setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &(int){1}, sizeof(int)));
	SAY(get_int(fd, IPPROTO_IP, IP_RECVTTL));
	all_sent();
	for (int i = 0; i < 5; i++) {
		struct msghdr msg = {.msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = control,
				     .msg_controllen = sizeof(control)};
		struct cmsghdr *c;

		SAY(recvmsg(fd, &msg, 0));
		c = CMSG_FIRSTHDR(&msg);
		say("level %d type %d value %d", c ? c->cmsg_level : 0, c ? c->cmsg_type : 0,
		    c ? *CMSG_DATA(c) : 0);
	}
	meet();
	close(fd);
}

static void mmsg_server(void)
{
	int fd = left();
	char buf[8][20];
	struct iovec iov[8];
	struct mmsghdr msgs[8];
	int sum = 0;

	all_sent();
	memset(msgs, 0, sizeof(msgs));
	for (int i = 0; i < 8; i++) {
		iov[i] = (struct iovec){buf[i], sizeof(buf[i])};
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	while (sum < 5) {
		int n = recvmmsg(fd, msgs + sum, (unsigned)(8 - sum), MSG_WAITFORONE, NULL);

		if (n <= 0)
			break;
		sum += n;
	}
	for (int i = 0; i < sum; i++)
		say_bytes(buf[i], msgs[i].msg_len);
	meet();
	close(fd);
}

/* ---- readiness --------------------------------------------------------------------------- */

static void say_ready(int set)
{
	struct epoll_event event = {0};

	SAY(epoll_wait(set, &event, 1, 0));
	say_events("epoll", event.events);
}

static void watched_server(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int level = MUST(epoll_create1(0)), edge = MUST(epoll_create1(0)), fd = udp_bound(0);

	MUST(epoll_ctl(level, EPOLL_CTL_ADD, fd, &event));
	event.events |= EPOLLET;
	MUST(epoll_ctl(edge, EPOLL_CTL_ADD, fd, &event));
	meet();
	arrive();
	say_ready(edge);
	SAY(setsockopt(fd, IPPROTO_IP, IP_RETOPTS, &(int){1}, sizeof(int)));
	say_ready(level);
	for (int i = 0; i < 3; i++)
		read_one(fd, 0);
	say_ready(level);
	all_sent();
	say_ready(level);
	say_ready(edge);
	say_ready(edge);
	SAY(epoll_ctl(level, EPOLL_CTL_DEL, fd, NULL));
	SAY(epoll_ctl(edge, EPOLL_CTL_DEL, fd, NULL));
	read_one(fd, 0);
	read_one(fd, 0);
	read_one(fd, 0);
	meet();
	close(level);
	close(edge);
	close(fd);
}

/* ---- other ways to leave ------------------------------------------------------------------ */

/* Datagrams from before connect() are still there. */
static void connected_server(void)
{
	struct sockaddr_in here = {
		.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(9)};
	int fd = udp_bound(0);

	meet();
	arrive();
	SAY(connect(fd, (struct sockaddr *)&here, sizeof(here)));
	all_sent(); /* not to this socket */
	for (int i = 0; i < 4; i++)
		read_one(fd, 0);
	meet();
	close(fd);
}

static void shut_server(void)
{
	struct pollfd p = {.events = POLLIN | POLLRDHUP};
	int fd = left();

	SAY(shutdown(fd, SHUT_RD));
	p.fd = fd;
	SAY(poll(&p, 1, 0));
	say_events("poll", (uint32_t)p.revents);
	for (int i = 0; i < 4; i++)
		read_one(fd, 0);
	all_sent();
	meet();
	close(fd);
}

/* It sends meanwhile, and can be closed or copied with unread data. */
static void unread_server(void)
{
	struct sockaddr_in client = client_addr(1);
	int fd = left(), copy = MUST(dup(fd));

	SAY(sendto(fd, "answer", 6, 0, (struct sockaddr *)&client, sizeof(client)));
	read_one(fd, 0);
	SAY(close(fd));
	read_one(copy, 0);
	SAY(setsockopt(copy, IPPROTO_IP, IP_RETOPTS, &(int){0}, sizeof(int)));
	SAY(close(copy));
	all_sent();
	meet();
}

const struct behaviour linger_behaviours[] = {
	{"order", order_server, five_client, KERNEL},
	{"cut", cut_server, five_client, KERNEL},
	{"ttl", ttl_server, five_client, KERNEL},
	{"mmsg", mmsg_server, five_client, KERNEL},
	{"watched", watched_server, five_client, KERNEL},
	{"connected", connected_server, five_client, KERNEL},
	{"shut", shut_server, five_client, KERNEL},
	{"unread", unread_server, five_client, KERNEL},
	{0},
};
