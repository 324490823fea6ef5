/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AF_INET6 sockets that have traffic of both families: IPv4 with mapped addresses, and IPv6.  The
 * link has fd00:9::1 and fd00:9::2, too (diff_test.sh).  That AF_INET6 sockets behave like AF_INET
 * ones otherwise is tested by the other suites with -6.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define SERVER6 "fd00:9::2"
#define CLIENT6 "fd00:9::1"
#define SERVER_MAPPED "::ffff:10.9.0.2"
#define CLIENT_MAPPED "::ffff:10.9.0.1"

#define SA(sin) ((struct sockaddr *)&(sin))

static struct sockaddr_in6 at(const char *ip, unsigned i)
{
	struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6, .sin6_port = htons(port(i))};

	inet_pton(AF_INET6, ip, &sin6.sin6_addr);
	return sin6;
}

/* All fields, as they came. */
static void say_raw(const char *what, const void *addr, socklen_t len)
{
	const struct sockaddr_in6 *sin6 = addr;
	char ip[INET6_ADDRSTRLEN] = "?", name[16] = "*";
	unsigned p;

	if (len < sizeof(*sin6) || sin6->sin6_family != AF_INET6) {
		say_addr(what, addr, len);
		return;
	}
	p = ntohs(sin6->sin6_port);
	inet_ntop(AF_INET6, &sin6->sin6_addr, ip, sizeof(ip));
	if (p >= port(0) && p < port(10))
		snprintf(name, sizeof(name), "%u", p - port(0));
	else if (!p)
		snprintf(name, sizeof(name), "none");
	say("%s: [%s]:%s, flow %u, scope %u, length %u", what, ip, name, sin6->sin6_flowinfo,
	    sin6->sin6_scope_id, len);
}

static void say_own(const char *what, int fd)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);

	if (SAY(getsockname(fd, SA(name), &len)) == 0)
		say_raw(what, &name, len);
	len = sizeof(name);
	if (SAY(getpeername(fd, SA(name), &len)) == 0)
		say_raw(what, &name, len);
}

static int bound6(int type, const char *ip, unsigned i)
{
	struct sockaddr_in6 sin6 = at(ip, i);
	int fd = (int)MUST(socket(AF_INET6, type, 0));

	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	MUST(bind(fd, SA(sin6), sizeof(sin6)));
	return fd;
}

/* ---- connections ----------------------------------------------------------------------- */

static void accept_one(int listener)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	int fd;

	await(listener, POLLIN);
	fd = (int)MUST(accept(listener, SA(from), &len));
	say_raw("accepted", &from, len);
	say_own("connection", fd);
	SAY(get_int(fd, SOL_SOCKET, SO_DOMAIN));
	pong(fd);
	expect_end(fd);
	close(fd);
	meet();
}

static void tcp_server(void)
{
	int listener = bound6(SOCK_STREAM, "::", 0);

	MUST(listen(listener, 16));
	say_own("listener", listener);
	meet();
	for (int i = 0; i < 4; i++)
		accept_one(listener);
	close(listener);
}

static void visit(int family, const void *to, socklen_t len, const char *text)
{
	int fd = (int)MUST(socket(family, SOCK_STREAM, 0));

	MUST(connect(fd, to, len));
	say_own(text, fd);
	ping(fd, text);
	close(fd);
	meet();
}

static void tcp_client(void)
{
	struct sockaddr_in v4 = server_addr(0);
	struct sockaddr_in6 mapped = at(SERVER_MAPPED, 0), v6 = at(SERVER6, 0);

	meet();
	visit(AF_INET, &v4, sizeof(v4), "IPv4");
	visit(AF_INET6, &v6, sizeof(v6), "IPv6");
	visit(AF_INET6, &mapped, sizeof(mapped), "mapped");
	visit(AF_INET6, &mapped, 24, "without scope");
}

/* The same without IPv6: all of it is accelerated. */
static void mapped_server(void)
{
	int listener = bound6(SOCK_STREAM, "::", 0);

	MUST(listen(listener, 16));
	meet();
	accept_one(listener);
	accept_one(listener);
	close(listener);
	listener = bound6(SOCK_STREAM, SERVER_MAPPED, 1);
	MUST(listen(listener, 16));
	say_own("listener", listener);
	meet();
	accept_one(listener);
	close(listener);
}

static void mapped_client(void)
{
	struct sockaddr_in v4 = server_addr(0);
	struct sockaddr_in6 mapped = at(SERVER_MAPPED, 0);

	meet();
	visit(AF_INET, &v4, sizeof(v4), "IPv4");
	visit(AF_INET6, &mapped, sizeof(mapped), "mapped");
	mapped = at(SERVER_MAPPED, 1);
	meet();
	visit(AF_INET6, &mapped, sizeof(mapped), "bound");
}

/* ---- datagrams ------------------------------------------------------------------------- */

static void receive(int fd)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	char buf[100];
	long n;

	await(fd, POLLIN);
	n = SAY(recvfrom(fd, buf, sizeof(buf), 0, SA(from), &len));
	if (n < 0)
		return;
	say_bytes(buf, (size_t)n);
	say_raw("from", &from, len);
	SAY(sendto(fd, buf, (size_t)n, 0, SA(from), len));
}

static void udp_server(void)
{
	int fd = bound6(SOCK_DGRAM, "::", 0);

	say_own("bound", fd);
	meet();
	for (int i = 0; i < 6; i++) {
		receive(fd);
		meet();
	}
	close(fd);
}

static void ask(int fd, const void *to, socklen_t len, const char *text)
{
	struct sockaddr_storage from;
	char buf[100];
	long n;

	say("%s", text);
	SAY(sendto(fd, text, strlen(text), 0, to, len));
	len = sizeof(from);
	await(fd, POLLIN);
	n = SAY(recvfrom(fd, buf, sizeof(buf), 0, SA(from), &len));
	if (n > 0) {
		say_bytes(buf, (size_t)n);
		say_raw("from", &from, len);
	}
	meet();
}

static void udp_client(void)
{
	struct sockaddr_in v4 = server_addr(0);
	struct sockaddr_in6 mapped = at(SERVER_MAPPED, 0), v6 = at(SERVER6, 0);
	int four = udp_bound(1), six = bound6(SOCK_DGRAM, "::", 2);

	meet();
	ask(four, &v4, sizeof(v4), "IPv4");
	ask(six, &v6, sizeof(v6), "IPv6");
	ask(six, &mapped, sizeof(mapped), "mapped");
	ask(six, &v4, sizeof(v4), "an AF_INET address");
	ask(six, &v6, sizeof(v6), "IPv6 again");
	ask(six, &mapped, 24, "mapped, without scope");
	say_own("client", six);
	close(four);
	close(six);
}

/* Connected to IPv4, to IPv6, to none. */
static void connect_server(void)
{
	int fd = bound6(SOCK_DGRAM, "::", 0);

	meet();
	for (int i = 0; i < 3; i++) {
		receive(fd);
		meet();
	}
	close(fd);
}

static void ask_connected(int fd, const char *text)
{
	say_own(text, fd);
	ping(fd, text);
	meet();
}

static void connect_client(void)
{
	struct sockaddr_in v4 = server_addr(0);
	struct sockaddr_in6 mapped = at(SERVER_MAPPED, 0), v6 = at(SERVER6, 0);
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));

	meet();
	SAY(connect(fd, SA(mapped), sizeof(mapped)));
	ask_connected(fd, "mapped");
	SAY(connect(fd, &none, sizeof(none)));
	say_own("unconnected", fd);
	SAY(connect(fd, SA(v4), sizeof(v4)));
	ask_connected(fd, "an AF_INET address");
	SAY(sendto(fd, "x", 1, 0, SA(v6), sizeof(v6)));
	close(fd);
	fd = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	SAY(connect(fd, SA(v6), sizeof(v6)));
	ask_connected(fd, "IPv6");
	close(fd);
}

/* ---- addresses ------------------------------------------------------------------------- */

static const socklen_t rooms[] = {0, 1, 2, 8, 16, 24, 27, 28, 40};
#define ROOMS (sizeof(rooms) / sizeof(*rooms))

static void say_cut(const char *what, const unsigned char *got, socklen_t room, socklen_t len)
{
	char text[3 * 64] = "";
	size_t n = 0;

	for (socklen_t i = 0; i < room && i < 28; i++) /* the port may vary */
		n += (size_t)snprintf(text + n, sizeof(text) - n, i == 2 || i == 3 ? ".." : "%02x",
				      got[i]);
	say("%s, room %u: length %u, %s%s", what, room, len, text,
	    got[room] == 0xee ? "" : ", written beyond");
}

static void cut_server(void)
{
	int listener = bound6(SOCK_STREAM, "::", 0), udp = bound6(SOCK_DGRAM, "::", 1);
	unsigned char got[64], buf[4];

	MUST(listen(listener, 16));
	meet();
	for (unsigned i = 0; i < ROOMS; i++) {
		socklen_t len = rooms[i];
		struct iovec iov = {buf, sizeof(buf)};
		struct msghdr msg = {
			.msg_name = got, .msg_namelen = rooms[i], .msg_iov = &iov, .msg_iovlen = 1};
		int fd;

		memset(got, 0xee, sizeof(got));
		fd = (int)MUST(accept(listener, SA(got), &len));
		say_cut("accept", got, rooms[i], len);
		memset(got, 0xee, sizeof(got));
		len = rooms[i];
		SAY(getsockname(fd, SA(got), &len));
		say_cut("getsockname", got, rooms[i], len);
		memset(got, 0xee, sizeof(got));
		len = rooms[i];
		SAY(getpeername(fd, SA(got), &len));
		say_cut("getpeername", got, rooms[i], len);
		memset(got, 0xee, sizeof(got));
		len = rooms[i];
		SAY(getsockopt(fd, SOL_SOCKET, SO_PEERNAME, got, &len));
		say_cut("SO_PEERNAME", got, rooms[i], len);
		memset(got, 0xee, sizeof(got));
		len = rooms[i];
		await(udp, POLLIN);
		SAY(recvfrom(udp, buf, sizeof(buf), 0, SA(got), &len));
		say_cut("recvfrom", got, rooms[i], len);
		memset(got, 0xee, sizeof(got));
		await(udp, POLLIN);
		SAY(recvmsg(udp, &msg, 0));
		say_cut("recvmsg", got, rooms[i], msg.msg_namelen);
		close(fd);
	}
	close(listener);
	close(udp);
}

static void cut_client(void)
{
	struct sockaddr_in6 to = at(SERVER_MAPPED, 0);
	int fds[ROOMS], udp = bound6(SOCK_DGRAM, "::", 1);

	meet();
	for (unsigned i = 0; i < ROOMS; i++) {
		fds[i] = (int)MUST(socket(AF_INET6, SOCK_STREAM, 0));
		MUST(connect(fds[i], SA(to), sizeof(to)));
	}
	to = at(SERVER_MAPPED, 1);
	for (unsigned i = 0; i < 2 * ROOMS; i++)
		MUST(sendto(udp, "x", 1, 0, SA(to), sizeof(to)));
	for (unsigned i = 0; i < ROOMS; i++) {
		expect_end(fds[i]);
		close(fds[i]);
	}
	close(udp);
}

/* What the kernel says to addresses that are too short, or of another family. */
static void try_address(int type, const char *what, const struct sockaddr *sa, socklen_t len)
{
	int fd = (int)MUST(socket(AF_INET6, type | SOCK_NONBLOCK, 0));
	char text[100];

	snprintf(text, sizeof(text), "%s, type %d, length %u: bind", what, type, len);
	say_result(text, bind(fd, sa, len));
	close(fd);
	fd = (int)MUST(socket(AF_INET6, type | SOCK_NONBLOCK, 0));
	snprintf(text, sizeof(text), "%s, type %d, length %u: connect", what, type, len);
	say_result(text, connect(fd, sa, len));
	close(fd);
	fd = (int)MUST(socket(AF_INET6, type | SOCK_NONBLOCK, 0));
	snprintf(text, sizeof(text), "%s, type %d, length %u: sendto", what, type, len);
	say_result(text, sendto(fd, "x", 1, MSG_NOSIGNAL, sa, len));
	close(fd);
}

static void bad_addresses(void)
{
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
	static const int families[] = {AF_UNSPEC, AF_UNIX, AF_NETLINK, 12345};

	for (unsigned t = 0; t < 2; t++) {
		struct sockaddr_in6 six = at(CLIENT_MAPPED, 3), foreign = at("::ffff:10.9.0.77", 3);
		struct sockaddr_in four = client_addr(3);

		for (socklen_t len = 0; len < sizeof(six); len++)
			if (len < 24)
				try_address(types[t], "short", SA(six), len);
		for (socklen_t len = 0; len <= sizeof(four); len += 4)
			try_address(types[t], "AF_INET", SA(four), len);
		for (unsigned i = 0; i < sizeof(families) / sizeof(*families); i++) {
			six.sin6_family = (sa_family_t)families[i];
			try_address(types[t], "another family", SA(six), sizeof(six));
		}
		SAY(bind((int)MUST(socket(AF_INET6, types[t], 0)), SA(foreign), sizeof(foreign)));
		foreign = at("fe80::1", 3);
		SAY(bind((int)MUST(socket(AF_INET6, types[t], 0)), SA(foreign), sizeof(foreign)));
		SAY(connect((int)MUST(socket(AF_INET6, types[t], 0)), SA(foreign),
			    sizeof(foreign)));
		for (int fd = 3; fd < 20; fd++)
			close(fd);
	}
}

/* An AF_INET socket and a mapped address. */
static void foreign_addresses(void)
{
	struct sockaddr_in6 to = at(SERVER_MAPPED, 3);
	int udp = udp_bound(1), tcp = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	SAY(sendto(udp, "x", 1, 0, SA(to), sizeof(to)));
	SAY(connect(udp, SA(to), sizeof(to)));
	SAY(connect(tcp, SA(to), sizeof(to)));
	close(udp);
	close(tcp);
}

/* ---- ports ----------------------------------------------------------------------------- */

static void conflict(const char *what, const char *first, const char *second, int v6only, int reuse)
{
	static const char *const texts[] = {"alone", "SO_REUSEADDR", "SO_REUSEPORT"};
	const char *names[] = {first, second};
	char text[100];

	for (unsigned t = 0; t < 2; t++) {
		int fds[2], type = t ? SOCK_DGRAM : SOCK_STREAM;

		for (unsigned i = 0; i < 2; i++) {
			struct sockaddr_in6 six = at(names[i], 4);
			struct sockaddr_in four = {.sin_family = AF_INET,
						   .sin_port = six.sin6_port};
			bool v4 = inet_pton(AF_INET, names[i], &four.sin_addr) == 1;
			int rc;

			fds[i] = (int)MUST(socket(v4 ? AF_INET : AF_INET6, type, 0));
			if (!v4)
				set_int(fds[i], IPPROTO_IPV6, IPV6_V6ONLY, v6only);
			if (reuse)
				set_int(fds[i], SOL_SOCKET,
					reuse == 1 ? SO_REUSEADDR : SO_REUSEPORT, 1);
			rc = v4 ? bind(fds[i], SA(four), sizeof(four))
				: bind(fds[i], SA(six), sizeof(six));
			snprintf(text, sizeof(text), "%s, type %d, v6only %d, %s: bind %s", what,
				 type, v6only, texts[reuse], names[i]);
			say_result(text, rc);
			if (type == SOCK_STREAM && !rc)
				SAY(listen(fds[i], 5));
		}
		close(fds[0]);
		close(fds[1]);
	}
}

static void conflicts(void)
{
	for (int reuse = 0; reuse < 3; reuse++) {
		for (int v6only = 0; v6only < 2; v6only++) {
			conflict("wildcards", "0.0.0.0", "::", v6only, reuse);
			conflict("the other order", "::", "0.0.0.0", v6only, reuse);
			conflict("an address", "10.9.0.1", "::", v6only, reuse);
		}
		conflict("mapped", "10.9.0.1", CLIENT_MAPPED, 0, reuse);
		conflict("mapped wildcard", "::ffff:0.0.0.0", "::", 0, reuse);
	}
}

/* At a shared port IPv4 datagrams and connections are those of the AF_INET socket. */
static void shared_server(void)
{
	struct sockaddr_in any = any_addr(0);
	struct sockaddr_in6 any6 = at("::", 0);
	int types[] = {SOCK_STREAM, SOCK_DGRAM}, fds[2][2];

	for (unsigned t = 0; t < 2; t++) {
		fds[t][0] = (int)MUST(socket(AF_INET, types[t], 0));
		fds[t][1] = (int)MUST(socket(AF_INET6, types[t], 0));
		for (unsigned i = 0; i < 2; i++)
			set_int(fds[t][i], SOL_SOCKET, SO_REUSEPORT, 1);
		MUST(bind(fds[t][0], SA(any), sizeof(any)));
		MUST(bind(fds[t][1], SA(any6), sizeof(any6)));
	}
	MUST(listen(fds[0][0], 16));
	MUST(listen(fds[0][1], 16));
	meet();
	for (unsigned n = 0; n < 8; n++) {
		await(fds[0][0], POLLIN);
		close((int)MUST(accept(fds[0][0], NULL, NULL)));
		await_bytes(fds[1][0], 1);
		MUST(recv(fds[1][0], &(char){0}, 1, 0));
	}
	for (unsigned t = 0; t < 2; t++) {
		struct pollfd p = {.fd = fds[t][1], .events = POLLIN};

		SAY(poll(&p, 1, 0));
		close(fds[t][0]);
		close(fds[t][1]);
	}
	meet();
}

static void shared_client(void)
{
	struct sockaddr_in to = server_addr(0);

	meet();
	for (unsigned n = 0; n < 8; n++) {
		int tcp = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), udp = udp_bound(1);

		MUST(connect(tcp, SA(to), sizeof(to)));
		MUST(sendto(udp, "x", 1, 0, SA(to), sizeof(to)));
		expect_end(tcp);
		close(tcp);
		close(udp);
	}
	meet();
}

/* ---- IPV6_V6ONLY, IPV6_ADDRFORM -------------------------------------------------------- */

static void only_server(void)
{
	int listener = (int)MUST(socket(AF_INET6, SOCK_STREAM, 0)),
	    udp = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	struct sockaddr_in6 any = at("::", 0);

	set_int(listener, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	set_int(udp, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	MUST(bind(listener, SA(any), sizeof(any)));
	MUST(listen(listener, 16));
	MUST(bind(udp, SA(any), sizeof(any)));
	meet();
	accept_one(listener);
	receive(udp);
	meet();
	close(listener);
	close(udp);
}

static void only_client(void)
{
	struct sockaddr_in v4 = server_addr(0);
	struct sockaddr_in6 mapped = at(SERVER_MAPPED, 0), v6 = at(SERVER6, 0);
	int fd = (int)MUST(socket(AF_INET6, SOCK_STREAM, 0)),
	    udp = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0)),
	    other = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	meet();
	set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	set_int(udp, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	SAY(connect(other, SA(v4), sizeof(v4)));
	SAY(connect(fd, SA(mapped), sizeof(mapped)));
	SAY(sendto(udp, "x", 1, 0, SA(mapped), sizeof(mapped)));
	SAY(sendto(udp, "x", 1, 0, SA(v4), sizeof(v4)));
	SAY(connect(udp, SA(mapped), sizeof(mapped)));
	SAY(setsockopt(udp, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int)));
	visit(AF_INET6, &v6, sizeof(v6), "IPv6");
	ask(udp, &v6, sizeof(v6), "datagram");
	close(fd);
	close(udp);
	close(other);
}

static void addrform(void)
{
	struct sockaddr_in6 to = at(is_server ? CLIENT_MAPPED : SERVER_MAPPED, 0);
	int fd = bound6(SOCK_DGRAM, is_server ? SERVER_MAPPED : CLIENT_MAPPED, 0), four = AF_INET;
	char c = 0;

	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &four, sizeof(four)));
	meet();
	MUST(connect(fd, SA(to), sizeof(to)));
	meet();
	SAY(get_int(fd, IPPROTO_IPV6, IPV6_ADDRFORM));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &four, sizeof(four)));
	SAY(get_int(fd, SOL_SOCKET, SO_DOMAIN));
	say_own("as AF_INET", fd);
	meet();
	MUST(send(fd, "x", 1, 0));
	await(fd, POLLIN);
	SAY(recv(fd, &c, 1, 0));
	meet();
	close(fd);
}

/* ---- control messages ------------------------------------------------------------------ */

static void say_control(struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		struct in6_pktinfo info;
		char ip[INET6_ADDRSTRLEN];

		say("  message %d/%d of %zu bytes", c->cmsg_level, c->cmsg_type, c->cmsg_len);
		if (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_PKTINFO ||
		    c->cmsg_len < CMSG_LEN(sizeof(info)))
			continue;
		memcpy(&info, CMSG_DATA(c), sizeof(info));
		say("  to %s, of the link: %s",
		    inet_ntop(AF_INET6, &info.ipi6_addr, ip, sizeof(ip)),
		    info.ipi6_ifindex == if_nametoindex("v0") ? "yes" : "no");
	}
}

static void receive_control(int fd, size_t room)
{
	union {
		struct cmsghdr head;
		char bytes[300];
	} control;
	char buf[10];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = room};

	await(fd, POLLIN);
	SAY(recvmsg(fd, &msg, 0));
	say("room %zu: %zu bytes, flags %#x", room, msg.msg_controllen, msg.msg_flags);
	say_control(&msg);
}

static void control_server(void)
{
	int fd = bound6(SOCK_DGRAM, "::", 0);

	set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	set_int(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	meet();
	receive_control(fd, 300);
	set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
	set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
	set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
	set_int(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
	meet();
	receive_control(fd, 300);
	receive_control(fd, 50);
	receive_control(fd, 10);
	set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 0);
	meet();
	receive_control(fd, 300);
	meet();
	close(fd);
}

static void control_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);

	meet();
	MUST(sendto(fd, "x", 1, 0, SA(to), sizeof(to)));
	meet();
	for (int i = 0; i < 3; i++)
		MUST(sendto(fd, "x", 1, 0, SA(to), sizeof(to)));
	meet();
	MUST(sendto(fd, "x", 1, 0, SA(to), sizeof(to)));
	meet();
	close(fd);
}

static void send_from(int fd, const void *to, socklen_t len, const char *source, size_t size)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = {.head = {.cmsg_len = CMSG_LEN(size),
			      .cmsg_level = IPPROTO_IPV6,
			      .cmsg_type = IPV6_PKTINFO}};
	struct in6_pktinfo info = {.ipi6_ifindex = 0};
	struct iovec iov = {(char *)"x", 1};
	struct msghdr msg = {.msg_name = (void *)(uintptr_t)to,
			     .msg_namelen = len,
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = CMSG_SPACE(size)};

	inet_pton(AF_INET6, source, &info.ipi6_addr);
	memcpy(CMSG_DATA(&control.head), &info, sizeof(info));
	say("source %s, %zu bytes", source, size);
	SAY(sendmsg(fd, &msg, 0));
}

static void source_server(void)
{
	int fd = bound6(SOCK_DGRAM, "::", 0);

	meet();
	for (int i = 0; i < 2; i++)
		receive(fd);
	meet();
	close(fd);
}

static void source_client(void)
{
	struct sockaddr_in v4 = server_addr(0);
	struct sockaddr_in6 to = at(SERVER_MAPPED, 0);
	int fd = bound6(SOCK_DGRAM, "::", 1), four = udp_bound(2);

	meet();
	send_from(fd, &to, sizeof(to), CLIENT_MAPPED, sizeof(struct in6_pktinfo));
	send_from(fd, &to, sizeof(to), "::ffff:10.9.0.77", sizeof(struct in6_pktinfo));
	send_from(fd, &to, sizeof(to), CLIENT6, sizeof(struct in6_pktinfo));
	send_from(fd, &to, sizeof(to), "::", sizeof(struct in6_pktinfo));
	send_from(fd, &to, sizeof(to), CLIENT_MAPPED, 4);
	send_from(four, &v4, sizeof(v4), CLIENT6, sizeof(struct in6_pktinfo));
	meet();
	close(fd);
	close(four);
}

/* An ICMP error for a mapped destination. */
static void error_client(void)
{
	struct sockaddr_in6 to = at(SERVER_MAPPED, 9);
	static const int names[][2] = {{IPPROTO_IP, IP_RECVERR}, {IPPROTO_IPV6, IPV6_RECVERR}};

	for (unsigned i = 0; i < 2; i++) {
		int fd = bound6(SOCK_DGRAM, "::", 1);
		union {
			struct cmsghdr head;
			char bytes[300];
		} control;
		struct sockaddr_storage from;
		char buf[10];
		struct iovec iov = {buf, sizeof(buf)};
		struct msghdr msg = {.msg_name = &from,
				     .msg_namelen = sizeof(from),
				     .msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = &control,
				     .msg_controllen = sizeof(control)};

		set_int(fd, names[i][0], names[i][1], 1);
		MUST(connect(fd, SA(to), sizeof(to)));
		MUST(send(fd, "x", 1, 0));
		await(fd, POLLERR);
		if (SAY(recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT)) >= 0) {
			say_raw("destination", &from, msg.msg_namelen);
			say("flags %#x", msg.msg_flags);
			say_control(&msg);
		}
		SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
		close(fd);
	}
}

/* ipv6(7): IPv4 groups are joined by options of IPPROTO_IP only. */
static void groups(void)
{
	int fd = bound6(SOCK_DGRAM, "::", 5);
	struct ipv6_mreq mreq = {.ipv6mr_interface = if_nametoindex("v0")};
	struct group_req req = {.gr_interface = if_nametoindex("v0")};
	struct sockaddr_in6 group = at("::ffff:239.1.2.3", 0);
	struct sockaddr_in group4 = {.sin_family = AF_INET};

	inet_pton(AF_INET, "239.1.2.3", &group4.sin_addr);
	mreq.ipv6mr_multiaddr = group.sin6_addr;
	memcpy(&req.gr_group, &group, sizeof(group));
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &mreq, sizeof(mreq)));
	SAY(setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &req, sizeof(req)));
	SAY(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &req, sizeof(req)));
	memcpy(&req.gr_group, &group4, sizeof(group4));
	SAY(setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &req, sizeof(req)));
	SAY(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &req, sizeof(req)));
	SAY(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &req, sizeof(req)));
	inet_pton(AF_INET6, "ff05::9", &mreq.ipv6mr_multiaddr);
	SAY(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &mreq, sizeof(mreq)));
	close(fd);
}

const struct behaviour dual_behaviours[] = {
	{"tcp", tcp_server, tcp_client, KERNEL},
	{"mapped", mapped_server, mapped_client, OURS},
	{"udp", udp_server, udp_client, KERNEL},
	{"connect", connect_server, connect_client, KERNEL},
	{"cut", cut_server, cut_client, OURS},
	{"bad_addresses", NULL, bad_addresses, KERNEL},
	{"foreign_addresses", NULL, foreign_addresses, OURS},
	{"conflicts", NULL, conflicts, OURS},
	{"shared", shared_server, shared_client, OURS},
	{"v6only", only_server, only_client, KERNEL},
	{"addrform", addrform, addrform, KERNEL},
	{"control", control_server, control_client, OURS},
	{"source", source_server, source_client, KERNEL},
	{"error", NULL, error_client, KERNEL},
	{"groups", NULL, groups, OURS},
	{0},
};
