/* SPDX-License-Identifier: BSD-2-Clause */
/* The events in every state of a socket. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/look.h"

static int stream(void)
{
	return (int)MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
}

static int start_connect(unsigned i)
{
	struct sockaddr_in to = server_addr(i);
	int fd = stream();

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	return fd;
}

/* ---- before a connection -------------------------------------------------------------- */

static void fresh(void)
{
	int fd = stream();

	look("fresh", fd);
	SAY(shutdown(fd, SHUT_RDWR));
	look("after shutdown", fd);
	close(fd);
}

static void just_bound(void)
{
	int fd = bound(SOCK_STREAM, 0);

	look("bound", fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	look("bound", fd);
	close(fd);
}

static void listening_server(void)
{
	int listener = tcp_listening(0), fd;

	look("listening", listener);
	meet();
	await(listener, POLLIN);
	look("one waits", listener);
	fd = (int)MUST(accept(listener, NULL, NULL));
	look("none waits", listener);
	look("accepted", fd);
	close(fd);
	meet();
	SAY(shutdown(listener, SHUT_RD));
	look("listener after shutdown", listener);
	SAY(accept(listener, NULL, NULL));
	close(listener);
}

static void listening_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = stream();

	meet();
	(void)connect(fd, (struct sockaddr *)&to, sizeof(to));
	await(fd, POLLOUT);
	meet();
	close(fd);
}

static void connecting(void)
{
	struct sockaddr_in to = nobody_addr();
	int fd = stream();

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	look("connecting", fd);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, "x", 1, 0));
	SAY(recv(fd, &to, 1, 0));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	close(fd);
}

static void refused(void)
{
	int fd = start_connect(9);
	char c;

	await(fd, POLLHUP);
	look("refused", fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	look("error taken", fd);
	SAY(recv(fd, &c, 1, 0));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	look("tried", fd);
	close(fd);
}

static void refused_recv(void)
{
	int fd = start_connect(9);
	char c;

	await(fd, POLLHUP);
	SAY(recv(fd, &c, 1, 0));
	look("error taken by recv", fd);
	SAY(recv(fd, &c, 1, 0));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	close(fd);
}

static void fresh_in_set_server(void)
{
	int listener = tcp_listening(0), fd;

	meet();
	await(listener, POLLIN);
	fd = (int)MUST(accept(listener, NULL, NULL));
	meet();
	MUST(send(fd, "x", 1, 0));
	meet();
	close(fd);
	close(listener);
}

/* Added before it connects. */
static void fresh_in_set_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int ep = ep_new(), fd = stream();

	ep_add(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 1);
	ep_say("fresh", ep, 8, 0);
	ep_say("fresh again", ep, 8, 0);
	meet();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	ep_say("connected", ep, 8, PATIENCE);
	ep_say("connected, again", ep, 8, 0);
	meet();
	ep_say("data", ep, 8, PATIENCE);
	ep_say("data, again", ep, 8, 0);
	SAY(recv(fd, &to, 10, 0));
	meet();
	close(fd);
	close(ep);
}

/* ---- a connection ---------------------------------------------------------------------- */

static void data_server(void)
{
	int fd = tcp_pair();

	look("connected", fd);
	meet();
	MUST(send(fd, "hello", 5, 0));
	meet();
	close(fd);
}

static void data_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	look("connected", fd);
	meet();
	await_bytes(fd, 5);
	look("data", fd);
	SAY(recv(fd, buf, 2, 0));
	look("some", fd);
	SAY(recv(fd, buf, 10, MSG_PEEK));
	look("peeked", fd);
	SAY(recv(fd, buf, 10, 0));
	look("none", fd);
	meet();
	close(fd);
}

static void peer_shut_server(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "ab", 2, 0));
	SAY(shutdown(fd, SHUT_WR));
	look("shut", fd);
	meet();
	meet();
	await(fd, POLLRDHUP);
	look("both shut", fd);
	close(fd);
}

static void peer_shut_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	await(fd, POLLRDHUP);
	look("the peer has shut", fd);
	meet();
	SAY(recv(fd, buf, 10, 0));
	look("read", fd);
	SAY(recv(fd, buf, 10, 0));
	look("the end seen", fd);
	SAY(shutdown(fd, SHUT_WR));
	look("both shut", fd);
	meet();
	close(fd);
}

static void shut_read_server(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "ab", 2, 0));
	meet();
	MUST(send(fd, "cd", 2, 0));
	meet();
	close(fd);
}

static void shut_read_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	await_bytes(fd, 2);
	SAY(shutdown(fd, SHUT_RD));
	look("shut", fd);
	SAY(recv(fd, buf, 10, 0));
	SAY(recv(fd, buf, 10, 0));
	meet();
	await_bytes(fd, 2);
	look("data after that", fd);
	SAY(recv(fd, buf, 10, 0));
	look("none", fd);
	SAY(shutdown(fd, SHUT_WR));
	look("both", fd);
	meet();
	close(fd);
}

static void shut_write_server(void)
{
	int fd = tcp_pair();
	char c;

	SAY(recv(fd, &c, 1, 0));
	meet();
	MUST(send(fd, "x", 1, 0));
	meet();
	close(fd);
}

static void shut_write_client(void)
{
	int fd = tcp_pair();
	char c;

	SAY(shutdown(fd, SHUT_WR));
	look("shut", fd);
	SAY(shutdown(fd, SHUT_WR));
	meet();
	await_bytes(fd, 1);
	look("data", fd);
	SAY(recv(fd, &c, 1, 0));
	look("none", fd);
	SAY(shutdown(fd, 7));
	meet();
	close(fd);
}

static void peer_closed_server(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "ab", 2, 0));
	close(fd);
	meet();
	meet();
}

static void peer_closed_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	await(fd, POLLRDHUP);
	look("closed", fd);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	await(fd, POLLHUP);
	look("answered by a reset", fd);
	SAY(recv(fd, buf, 10, 0));
	look("read", fd);
	SAY(recv(fd, buf, 10, 0));
	look("read again", fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	look("asked", fd);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
	meet();
}

static void reset_server(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "ab", 2, 0));
	meet();
	close_with_reset(fd);
	meet();
}

static void reset_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	await_bytes(fd, 2);
	meet();
	await(fd, POLLHUP);
	look("reset", fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	look("error taken", fd);
	SAY(recv(fd, buf, 10, 0));
	look("read", fd);
	SAY(recv(fd, buf, 10, 0));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(shutdown(fd, SHUT_WR));
	meet();
	close(fd);
}

/* recv() returns the error, without data before it. */
static void reset_recv_server(void)
{
	int fd = tcp_pair();

	meet();
	close_with_reset(fd);
	meet();
}

static void reset_recv_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	await(fd, POLLHUP);
	SAY(recv(fd, buf, 10, 0));
	look("error taken", fd);
	SAY(recv(fd, buf, 10, 0));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	meet();
	close(fd);
}

static void reset_send_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	await(fd, POLLHUP);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	look("error taken", fd);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(recv(fd, buf, 10, 0));
	meet();
	close(fd);
}

/* The side that closes has unread data: this sends a RST, too. */
static void unread_server(void)
{
	int fd = tcp_pair();

	await_bytes(fd, 3);
	close(fd);
	meet();
}

static void unread_client(void)
{
	int fd = tcp_pair();
	char c;

	MUST(send(fd, "abc", 3, 0));
	meet();
	await(fd, POLLHUP);
	look("closed with data unread", fd);
	SAY(recv(fd, &c, 1, 0));
	close(fd);
}

/* ---- space ------------------------------------------------------------------------------ */

static void drain(int fd, long total)
{
	static char junk[65536];

	while (total > 0) {
		ssize_t n = recv(fd, junk, sizeof(junk), 0);

		if (n <= 0)
			break;
		total -= n;
	}
	say("left to read: %ld", total);
}

static void full_server(void)
{
	int fd = tcp_pair();

	drain(fd, hear());
	meet();
	close(fd);
}

static void full_client(void)
{
	int fd = tcp_pair(), ep = ep_new();
	long total = fill_window(fd);

	look("full", fd);
	ep_add(ep, fd, EPOLLOUT | EPOLLET, 1);
	ep_say("full", ep, 8, 0);
	tell(total);
	ep_say("space", ep, 8, PATIENCE);
	look("space", fd);
	meet();
	close(fd);
	close(ep);
}

static void full_shut_client(void)
{
	int fd = tcp_pair();
	long total = fill_window(fd);

	SAY(shutdown(fd, SHUT_WR));
	look("full, then shut", fd);
	tell(total);
	meet();
	close(fd);
}

/* ---- urgent data, SO_RCVLOWAT ----------------------------------------------------------- */

static void urgent_server(void)
{
	int fd = tcp_pair();

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	meet();
	MUST(send(fd, "abc", 3, 0));
	MUST(send(fd, "U", 1, MSG_OOB));
	MUST(send(fd, "def", 3, 0));
	await_acked(fd);
	meet();
	meet();
	close(fd);
}

static void urgent_client(void)
{
	int fd = tcp_pair(), mark = -1;
	char buf[10];

	meet();
	meet();
	await_bytes(fd, 3); /* up to the urgent mark */
	look("urgent", fd);
	SAY(ioctl(fd, SIOCATMARK, &mark));
	say("mark: %d", mark);
	SAY(recv(fd, buf, 10, 0));
	look("at the mark", fd);
	SAY(ioctl(fd, SIOCATMARK, &mark));
	say("mark: %d", mark);
	SAY(recv(fd, buf, 1, MSG_OOB));
	look("urgent byte read", fd);
	SAY(recv(fd, buf, 1, MSG_OOB));
	SAY(recv(fd, buf, 10, 0));
	look("all read", fd);
	SAY(ioctl(fd, SIOCATMARK, &mark));
	say("mark: %d", mark);
	meet();
	close(fd);
}

static void inline_client(void)
{
	int fd = tcp_pair(), mark = -1;
	char buf[10];

	set_int(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	meet();
	meet();
	look("urgent", fd);
	SAY(recv(fd, buf, 10, 0));
	SAY(ioctl(fd, SIOCATMARK, &mark));
	say("mark: %d", mark);
	look("at the mark", fd);
	SAY(recv(fd, buf, 1, MSG_OOB));
	SAY(recv(fd, buf, 1, 0));
	look("past it", fd);
	SAY(recv(fd, buf, 10, 0));
	meet();
	close(fd);
}

static void lowat_server(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "01234", 5, 0));
	meet();
	MUST(send(fd, "56789", 5, 0));
	meet();
	MUST(send(fd, "x", 1, 0));
	close(fd);
	meet();
}

static void lowat_client(void)
{
	int fd = tcp_pair(), ep = ep_new();
	char buf[20];

	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 10);
	ep_add(ep, fd, EPOLLIN, 1);
	await_bytes(fd, 5);
	look("5 of 10", fd);
	ep_say("5 of 10", ep, 8, 20);
	meet();
	await_bytes(fd, 10);
	look("10 of 10", fd);
	ep_say("10 of 10", ep, 8, PATIENCE);
	SAY(recv(fd, buf, 3, 0));
	look("7 of 10", fd);
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 7);
	look("7 of 7", fd);
	ep_say("7 of 7", ep, 8, PATIENCE);
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 100);
	look("7 of 100", fd);
	meet();
	await(fd, POLLRDHUP);
	look("and the end", fd);
	SAY(recv(fd, buf, 20, 0));
	meet();
	close(fd);
	close(ep);
}

/* ---- datagrams --------------------------------------------------------------------------- */

static void udp_fresh(void)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	look("fresh", fd);
	close(fd);
	fd = udp_bound(0);
	look("bound", fd);
	SAY(shutdown(fd, SHUT_RDWR));
	look("shut", fd);
	close(fd);
}

static void udp_data_server(void)
{
	int fd = udp_pair();

	meet();
	MUST(send(fd, "abc", 3, 0));
	MUST(send(fd, "", 0, 0));
	meet();
	close(fd);
}

static void udp_data_client(void)
{
	int fd = udp_pair();
	char buf[10];

	look("connected", fd);
	meet();
	meet();
	await(fd, POLLIN);
	look("two", fd);
	SAY(recv(fd, buf, 10, MSG_PEEK));
	SAY(recv(fd, buf, 1, 0));
	await(fd, POLLIN);
	look("an empty one", fd);
	SAY(recv(fd, buf, 10, 0));
	look("none", fd);
	close(fd);
}

static void udp_refused(void)
{
	struct sockaddr_in to = server_addr(9);
	int fd = udp_bound(0);
	char c;

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	MUST(send(fd, "x", 1, 0));
	await(fd, POLLERR);
	look("refused", fd);
	SAY(recv(fd, &c, 1, MSG_DONTWAIT));
	look("told", fd);
	MUST(send(fd, "x", 1, 0));
	await(fd, POLLERR);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	look("asked", fd);
	SAY(recv(fd, &c, 1, MSG_DONTWAIT));
	close(fd);
}

static void udp_errqueue(void)
{
	struct sockaddr_in to = server_addr(9);
	int fd = udp_bound(0);
	char c;

	set_int(fd, IPPROTO_IP, IP_RECVERR, 1);
	if (is_native())
		set_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
	MUST(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLERR);
	look("an error in the queue", fd);
	SAY(recv(fd, &c, 1, MSG_DONTWAIT));
	look("error taken", fd);
	SAY(recv(fd, &c, 1, MSG_ERRQUEUE | MSG_DONTWAIT));
	look("queue read", fd);
	SAY(recv(fd, &c, 1, MSG_ERRQUEUE | MSG_DONTWAIT));
	close(fd);
}

static void udp_shut_server(void)
{
	int fd = udp_pair();

	meet();
	MUST(send(fd, "ab", 2, 0));
	meet();
	close(fd);
}

static void udp_shut_client(void)
{
	int fd = udp_pair();
	char buf[10];

	SAY(shutdown(fd, SHUT_RD));
	look("read side shut", fd);
	SAY(recv(fd, buf, 10, 0));
	meet();
	await_bytes(fd, 2);
	SAY(recv(fd, buf, 10, 0));
	SAY(recv(fd, buf, 10, 0));
	SAY(shutdown(fd, SHUT_WR));
	look("both", fd);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	meet();
	close(fd);
}

const struct behaviour states_behaviours[] = {
	{"fresh", fresh, fresh, OURS},
	{"bound", just_bound, just_bound, OURS},
	{"listening", listening_server, listening_client, OURS},
	{"connecting", NULL, connecting, OURS},
	{"refused", NULL, refused, KERNEL},
	{"refused_recv", NULL, refused_recv, KERNEL},
	{"fresh_in_set", fresh_in_set_server, fresh_in_set_client, OURS},
	{"data", data_server, data_client, OURS},
	{"peer_shut", peer_shut_server, peer_shut_client, OURS},
	{"shut_read", shut_read_server, shut_read_client, OURS},
	{"shut_write", shut_write_server, shut_write_client, OURS},
	{"peer_closed", peer_closed_server, peer_closed_client, OURS},
	{"reset", reset_server, reset_client, OURS},
	{"reset_recv", reset_recv_server, reset_recv_client, OURS},
	{"reset_send", reset_recv_server, reset_send_client, OURS},
	{"unread", unread_server, unread_client, OURS},
	{"full", full_server, full_client, OURS},
	{"full_shut", full_server, full_shut_client, OURS},
	{"urgent", urgent_server, urgent_client, OURS},
	{"inline", urgent_server, inline_client, OURS},
	{"lowat", lowat_server, lowat_client, OURS},
	{"udp_fresh", udp_fresh, udp_fresh, OURS},
	{"udp_data", udp_data_server, udp_data_client, OURS},
	{"udp_refused", NULL, udp_refused, KERNEL},
	{"udp_errqueue", NULL, udp_errqueue, KERNEL},
	{"udp_shut", udp_shut_server, udp_shut_client, OURS},
	{0},
};
