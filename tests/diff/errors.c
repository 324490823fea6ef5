/* SPDX-License-Identifier: BSD-2-Clause */
/* Errors: which one, on which call, how often; what is left after shutdown and reset. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/diff/diff.h"

static void say_poll(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};

	poll(&p, 1, 0);
	say_events("poll", (uint32_t)p.revents);
}

/* ---- resets ------------------------------------------------------------------------------ */

static void resets(void)
{
	int fd = tcp_pair();

	meet();
	close_with_reset(fd);
	meet();
}

static void reset_recv_client(void)
{
	int fd = tcp_pair();
	char c;

	meet();
	meet();
	await(fd, POLLERR);
	say_poll(fd);
	SAY(recv(fd, &c, 1, 0));
	SAY(recv(fd, &c, 1, 0));
	say_poll(fd);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	SAY(getpeername(fd, &(struct sockaddr){0}, &(socklen_t){sizeof(struct sockaddr)}));
	close(fd);
}

static void reset_send_client(void)
{
	int fd = tcp_pair();
	char c;

	meet();
	meet();
	await(fd, POLLERR);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(recv(fd, &c, 1, 0));
	SAY(shutdown(fd, SHUT_RDWR));
	close(fd);
}

static void reset_error_client(void)
{
	int fd = tcp_pair();
	char c;

	meet();
	meet();
	await(fd, POLLERR);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	say_poll(fd);
	SAY(recv(fd, &c, 1, 0));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
}

/* Data that had arrived is lost. */
static void data_then_reset(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "lost", 4, 0));
	meet();
	close_with_reset(fd);
	meet();
}

static void reset_data_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	await_bytes(fd, 4);
	meet();
	meet();
	await(fd, POLLERR);
	say_poll(fd);
	SAY(recv(fd, buf, sizeof(buf), MSG_PEEK));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(fd);
}

/* close() with unread data is a reset. */
static void unread_close_server(void)
{
	int fd = tcp_pair();

	await_bytes(fd, 4);
	meet();
	close(fd);
	meet();
}

static void unread_close_client(void)
{
	int fd = tcp_pair();
	char c;

	MUST(send(fd, "data", 4, 0));
	meet();
	meet();
	await(fd, POLLERR);
	SAY(recv(fd, &c, 1, 0));
	SAY(recv(fd, &c, 1, 0));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	close(fd);
}

/* A thread waits when it arrives. */
static void resets_late(void)
{
	int fd = tcp_pair();

	meet();
	await_other_blocked();
	close_with_reset(fd);
	meet();
}

static void reset_waiting_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	SAY(recv(fd, buf, sizeof(buf), MSG_WAITALL));
	SAY(recv(fd, buf, sizeof(buf), MSG_WAITALL));
	meet();
	close(fd);
}

static void reset_waitall_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	await_bytes(fd, 4);
	SAY(recv(fd, buf, sizeof(buf), MSG_WAITALL));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	meet();
	close(fd);
}

static void data_resets_late(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "data", 4, 0));
	meet();
	await_other_blocked();
	close_with_reset(fd);
	meet();
}

/* ---- shutdown, TCP ------------------------------------------------------------------------ */

static void shut_server(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	say_poll(fd);
	SAY(send(fd, "answer", 6, 0));
	meet();
	meet();
	SAY(shutdown(fd, SHUT_WR));
	meet();
	meet();
	await_state(fd, TCP_CLOSE);
	SAY(shutdown(fd, SHUT_WR));
	say_poll(fd);
	close(fd);
}

static void shut_wr_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	MUST(send(fd, "data", 4, 0));
	say_poll(fd);
	SAY(shutdown(fd, SHUT_WR));
	say_poll(fd);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(send(fd, "", 0, MSG_NOSIGNAL));
	meet();
	meet();
	await_bytes(fd, 6);
	say_poll(fd);
	SAY(recv(fd, buf, sizeof(buf), 0));
	meet();
	meet();
	await(fd, POLLHUP);
	meet();
	say_poll(fd);
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(shutdown(fd, SHUT_WR));
	SAY(shutdown(fd, 7));
	SAY(shutdown(fd, -1));
	close(fd);
}

static void shut_rd_server(void)
{
	int fd = tcp_pair();
	char c;

	MUST(send(fd, "before", 6, 0));
	meet();
	meet();
	SAY(send(fd, "after", 5, 0));
	await_acked(fd);
	meet();
	meet();
	await_bytes(fd, 1);
	SAY(recv(fd, &c, 1, 0));
	say_poll(fd);
	meet();
	close(fd);
}

static void shut_rd_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	await_bytes(fd, 6);
	meet();
	SAY(shutdown(fd, SHUT_RD));
	say_poll(fd);
	SAY(recv(fd, buf, 3, 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	say_poll(fd);
	meet();
	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(send(fd, "x", 1, 0));
	meet();
	meet();
	close(fd);
}

static void shut_rdwr_server(void)
{
	int fd = tcp_pair();
	char buf[10];

	meet();
	await(fd, POLLRDHUP);
	say_poll(fd);
	SAY(recv(fd, buf, sizeof(buf), 0));
	meet();
	close(fd);
}

static void shut_rdwr_client(void)
{
	int fd = tcp_pair();
	char buf[10];

	SAY(shutdown(fd, SHUT_RDWR));
	say_poll(fd);
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(shutdown(fd, SHUT_RDWR));
	meet();
	meet();
	await_state(fd, TCP_CLOSE);
	SAY(shutdown(fd, SHUT_RDWR));
	say_poll(fd);
	close(fd);
}

static void shut_unconnected_client(void)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), listener = tcp_listening(1);

	say_poll(fd);
	SAY(shutdown(fd, SHUT_RDWR));
	SAY(shutdown(fd, 7));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(send(fd, "", 0, MSG_NOSIGNAL));
	SAY(sendto(fd, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&(struct sockaddr_in){0}, 16));
	SAY(send(listener, "x", 1, MSG_NOSIGNAL));
	SAY(shutdown(listener, SHUT_WR));
	say_poll(listener);
	SAY(shutdown(listener, SHUT_RD));
	say_poll(listener);
	SAY(accept(listener, NULL, NULL));
	close(fd);
	close(listener);
}

/* ---- shutdown, UDP -------------------------------------------------------------------------- */

static void shut_udp_client(void)
{
	int fd = udp_bound(1), other = udp_bound(2);
	struct sockaddr_in to = server_addr(0);
	char buf[10];

	SAY(shutdown(fd, SHUT_RDWR));
	say_poll(fd);
	SAY(connect(other, (struct sockaddr *)&to, sizeof(to)));
	SAY(shutdown(other, SHUT_WR));
	say_poll(other);
	SAY(send(other, "x", 1, MSG_NOSIGNAL));
	SAY(recv(other, buf, sizeof(buf), MSG_DONTWAIT));
	SAY(shutdown(other, SHUT_RD));
	say_poll(other);
	SAY(recv(other, buf, sizeof(buf), 0));
	SAY(recv(other, buf, sizeof(buf), MSG_PEEK));
	SAY(sendto(other, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
	close(other);
}

static void shut_udp_data_server(void)
{
	int fd = udp_pair();
	char buf[10];

	meet();
	await(fd, POLLIN);
	SAY(shutdown(fd, SHUT_RD));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	meet();
	arrive();
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(send(fd, "x", 1, 0));
	close(fd);
}

static void shut_udp_data_client(void)
{
	int fd = udp_pair();

	SAY(send(fd, "before", 6, 0));
	meet();
	meet();
	SAY(send(fd, "after", 5, 0));
	arrive();
	close(fd);
}

/* ---- UDP errors ------------------------------------------------------------------------------- */

static void udp_no_address_client(void)
{
	int fd = udp_bound(1);
	struct iovec iov = {(char *)"x", 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	SAY(send(fd, "x", 1, 0));
	SAY(write(fd, "x", 1));
	SAY(writev(fd, &iov, 1));
	SAY(sendmsg(fd, &msg, 0));
	SAY(sendto(fd, "x", 1, 0, NULL, 0));
	SAY(send(fd, "", 0, 0));
	SAY(listen(fd, 1));
	SAY(accept(fd, NULL, NULL));
	close(fd);
}

static void udp_broadcast_client(void)
{
	int fd = udp_bound(1);
	struct sockaddr_in to = server_addr(0);

	inet_pton(AF_INET, "10.9.0.255", &to.sin_addr);
	SAY(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	set_int(fd, SOL_SOCKET, SO_BROADCAST, 1);
	meet();
	SAY(sendto(fd, "first", 5, 0, (struct sockaddr *)&to, sizeof(to)));
	to.sin_addr.s_addr = htonl(INADDR_BROADCAST);
	SAY(sendto(fd, "second", 6, 0, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

static void udp_broadcast_server(void)
{
	struct sockaddr_in sin = any_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));
	char buf[10];

	MUST(bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	meet();
	await(fd, POLLIN);
	SAY(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	close(fd);
}

static void unreachable_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int udp = udp_bound(1), tcp = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
	SAY(sendto(udp, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(udp, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(udp, "x", 1, 0));
	SAY(connect(tcp, (struct sockaddr *)&to, sizeof(to)));
	SAY(get_int(tcp, SOL_SOCKET, SO_ERROR));
	close(udp);
	close(tcp);
}

static void refused(int (*call)(int fd))
{
	int fd = udp_bound(1);
	struct sockaddr_in to = server_addr(9);

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	MUST(send(fd, "x", 1, 0));
	await(fd, POLLERR);
	say_poll(fd);
	say_result("the call", call(fd));
	say_result("the call", call(fd));
	say_poll(fd);
	close(fd);
}

static int call_recv(int fd)
{
	char c;

	return (int)recv(fd, &c, 1, MSG_DONTWAIT);
}

static int call_peek(int fd)
{
	char c;

	return (int)recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK);
}

static int call_error(int fd)
{
	return get_int(fd, SOL_SOCKET, SO_ERROR);
}

static int call_recvmmsg(int fd)
{
	struct mmsghdr m = {0};

	return recvmmsg(fd, &m, 1, MSG_DONTWAIT, NULL);
}

static int call_connect(int fd)
{
	struct sockaddr_in to = server_addr(8);

	return connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static void refused_recv_client(void)
{
	refused(call_recv);
}

static void refused_peek_client(void)
{
	refused(call_peek);
}

static void refused_error_client(void)
{
	refused(call_error);
}

static void refused_recvmmsg_client(void)
{
	refused(call_recvmmsg);
}

static void refused_connect_client(void)
{
	refused(call_connect);
}

static void refused_send_client(void)
{
	int fd = udp_bound(1);
	struct sockaddr_in to = server_addr(9);

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	MUST(send(fd, "x", 1, 0));
	await(fd, POLLERR);
	SAY(send(fd, "x", 1, 0));
	close(fd);
}

/* A program that does nothing but send. */
static void refused_sends_client(void)
{
	int fd = udp_bound(1);
	struct sockaddr_in to = server_addr(9);
	long until = now_ms() + PATIENCE;
	ssize_t n;

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	while ((n = send(fd, "x", 1, 0)) == 1 && now_ms() < until)
		let_pass(5, "only the next send tells, and the host sends few such messages");
	say_result("a send", n);
	close(fd);
}

/* A blocking call; the answer arrives meanwhile. */
static void refused_waiting_client(void)
{
	int fd = udp_bound(1);
	struct sockaddr_in to = server_addr(9);
	char c;

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	MUST(send(fd, "x", 1, 0));
	SAY(recv(fd, &c, 1, 0));
	close(fd);
}

/* A closed port is not reported to unconnected sockets. */
static void refused_unconnected_client(void)
{
	int fd = udp_bound(1), other = udp_bound(2);
	struct sockaddr_in to = server_addr(9);
	char c;

	SAY(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	/* A connected socket, which gets the report, after it. */
	MUST(connect(other, (struct sockaddr *)&to, sizeof(to)));
	MUST(send(other, "x", 1, 0));
	await(other, 0);
	close(other);
	say_poll(fd);
	SAY(recv(fd, &c, 1, MSG_DONTWAIT));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	close(fd);
}

/* ---- TCP, connected and not ---------------------------------------------------------------------- */

static void connected_client(void)
{
	int fd = tcp_pair();
	struct sockaddr_in to = server_addr(0), me = client_addr(3);

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(bind(fd, (struct sockaddr *)&me, sizeof(me)));
	SAY(listen(fd, 1));
	SAY(accept(fd, NULL, NULL));
	SAY(connect(fd, (struct sockaddr *)&to, 3));
	SAY(connect(fd, NULL, 16));
	meet();
	close(fd);
}

static void waits(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
}

static void unconnected_client(void)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	struct sockaddr_in to = server_addr(0);
	socklen_t len = sizeof(to);

	SAY(getpeername(fd, (struct sockaddr *)&to, &len));
	SAY(accept(fd, NULL, NULL));
	to = server_addr(0);
	SAY(connect(fd, (struct sockaddr *)&to, 3));
	to.sin_family = AF_INET6;
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	to.sin_family = AF_UNSPEC;
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	to = server_addr(0);
	inet_pton(AF_INET, "10.9.0.255", &to.sin_addr);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(write(fd, "", 0));
	signal(SIGPIPE, SIG_IGN);
	SAY(write(fd, "x", 1));
	signal(SIGPIPE, SIG_DFL);
	close(fd);
}

const struct behaviour errors_behaviours[] = {
	{"reset_recv", resets, reset_recv_client, OURS},
	{"reset_send", resets, reset_send_client, OURS},
	{"reset_error", resets, reset_error_client, OURS},
	{"reset_data", data_then_reset, reset_data_client, OURS},
	{"unread_close", unread_close_server, unread_close_client, OURS},
	{"reset_waiting", resets_late, reset_waiting_client, OURS},
	{"reset_waitall", data_resets_late, reset_waitall_client, OURS},
	{"shut_wr", shut_server, shut_wr_client, OURS},
	{"shut_rd", shut_rd_server, shut_rd_client, OURS},
	{"shut_rdwr", shut_rdwr_server, shut_rdwr_client, OURS},
	{"shut_unconnected", NULL, shut_unconnected_client, OURS},
	{"shut_udp", NULL, shut_udp_client, OURS},
	{"shut_udp_data", shut_udp_data_server, shut_udp_data_client, KERNEL},
	{"udp_no_address", NULL, udp_no_address_client, OURS},
	{"udp_broadcast", udp_broadcast_server, udp_broadcast_client, KERNEL},
	{"unreachable", NULL, unreachable_client, KERNEL},
	{"refused_recv", NULL, refused_recv_client, KERNEL},
	{"refused_peek", NULL, refused_peek_client, KERNEL},
	{"refused_error", NULL, refused_error_client, KERNEL},
	{"refused_recvmmsg", NULL, refused_recvmmsg_client, KERNEL},
	{"refused_connect", NULL, refused_connect_client, KERNEL},
	{"refused_send", NULL, refused_send_client, KERNEL},
	{"refused_sends", NULL, refused_sends_client, KERNEL},
	{"refused_waiting", NULL, refused_waiting_client, KERNEL},
	{"refused_unconnected", NULL, refused_unconnected_client, KERNEL},
	{"connected", waits, connected_client, OURS},
	{"unconnected", NULL, unconnected_client, OURS},
	{0},
};
