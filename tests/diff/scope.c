/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Link-local addresses of IPv6 and their scopes.  The sides have two links with the same addresses
 * on each (diff_test.sh):
 *
 *	fe80::1 client  v0 ------------ v0  server fe80::2
 *	fe80::1         v1 ------------ v1         fe80::2
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/diff/in6.h"

#define SERVER "fe80::2"
#define CLIENT "fe80::1"
#define NOWHERE 99 /* no interface has this index */

static const char *const links[] = {"v0", "v1"};

static const char *link_text(unsigned index)
{
	static char name[IF_NAMESIZE];

	return !index ? "none" : if_indextoname(index, name) ? name : "?";
}

static void say_in6(const char *what, const struct sockaddr_in6 *sin6, socklen_t len)
{
	char ip[INET6_ADDRSTRLEN] = "?", name[16] = "*";
	unsigned p = ntohs(sin6->sin6_port);

	inet_ntop(AF_INET6, &sin6->sin6_addr, ip, sizeof(ip));
	if (p >= port(0) && p < port(10))
		snprintf(name, sizeof(name), "%u", p - port(0));
	else if (!p)
		snprintf(name, sizeof(name), "none");
	say("%s: [%s]:%s, scope %s, length %u", what, ip, name, link_text(sin6->sin6_scope_id),
	    len);
}

/* The addresses of the socket, and the device that it is bound to. */
static void say_own(const char *what, int fd)
{
	struct sockaddr_in6 name;
	socklen_t len = sizeof(name);

	if (SAY(getsockname(fd, SA(name), &len)) == 0)
		say_in6(what, &name, len);
	len = sizeof(name);
	if (SAY(getpeername(fd, SA(name), &len)) == 0)
		say_in6(what, &name, len);
	say("%s: device %s", what, link_text((unsigned)get_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX)));
}

static int new_socket(int type)
{
	int fd = (int)MUST(socket(AF_INET6, type, 0));

	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	return fd;
}

static int bound6(int type, const char *ip, unsigned i, const char *link)
{
	struct sockaddr_in6 sin6 = at(ip, i, link);
	int fd = new_socket(type);

	MUST(bind(fd, SA(sin6), sizeof(sin6)));
	return fd;
}

static void post(int fd, const struct sockaddr_in6 *to, const char *text)
{
	say_result(text,
		   sendto(fd, text, strlen(text), 0, (const struct sockaddr *)to, sizeof(*to)));
}

/* Reads a datagram, and says who sent it to which address and interface. */
static void receive(const char *what, int fd, struct sockaddr_in6 *from)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control;
	struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
	struct in6_pktinfo info;
	char buf[100], ip[INET6_ADDRSTRLEN];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_name = &sin6,
			     .msg_namelen = sizeof(sin6),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	long n;

	await(fd, POLLIN);
	n = say_result(what, recvmsg(fd, &msg, MSG_DONTWAIT));
	if (n < 0)
		return;
	say_bytes(buf, (size_t)n);
	say_in6("from", &sin6, msg.msg_namelen);
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		memcpy(&info, CMSG_DATA(c), sizeof(info));
		say("to %s of %s", inet_ntop(AF_INET6, &info.ipi6_addr, ip, sizeof(ip)),
		    link_text(info.ipi6_ifindex));
	}
	if (from)
		*from = sin6;
}

/* ---- datagrams ------------------------------------------------------------------------- */

/* A socket of all addresses answers each datagram by the link that it came by. */
static void udp_server(void)
{
	int fd = bound6(SOCK_DGRAM, "::", 0, NULL);
	struct sockaddr_in6 from;

	set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	meet();
	for (unsigned i = 0; i < 4; i++) {
		receive("received", fd, &from);
		post(fd, &from, "answer");
		meet();
	}
	close(fd);
}

static void udp_client(void)
{
	int fd = bound6(SOCK_DGRAM, "::", 1, NULL);

	set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	meet();
	for (unsigned i = 0; i < 4; i++) {
		struct sockaddr_in6 to = at(SERVER, 0, links[i % 2]);

		post(fd, &to, links[i % 2]);
		receive("answered", fd, NULL);
		meet();
	}
	say_own("client", fd);
	close(fd);
}

/* One port and address on each link: two sockets, without SO_REUSEADDR. */
static void bound_server(void)
{
	int fds[2];
	struct sockaddr_in6 from;

	for (unsigned i = 0; i < 2; i++) {
		struct sockaddr_in6 here = at(SERVER, 0, links[i]);

		fds[i] = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));
		MUST(bind(fds[i], SA(here), sizeof(here)));
		set_int(fds[i], IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
		say_own(links[i], fds[i]);
	}
	meet();
	for (unsigned i = 0; i < 4; i++) {
		struct pollfd other = {.fd = fds[(i + 1) % 2], .events = POLLIN};

		receive(links[i % 2], fds[i % 2], &from);
		SAY(poll(&other, 1, 0));
		from.sin6_scope_id = i < 2 ? from.sin6_scope_id : 0; /* that of the device */
		post(fds[i % 2], &from, "answer");
		meet();
	}
	close(fds[0]);
	close(fds[1]);
}

static void bound_client(void)
{
	int fds[2];

	for (unsigned i = 0; i < 2; i++)
		fds[i] = bound6(SOCK_DGRAM, CLIENT, 1, links[i]);
	meet();
	for (unsigned i = 0; i < 4; i++) {
		struct sockaddr_in6 to = at(SERVER, 0, links[i % 2]);

		post(fds[i % 2], &to, links[i % 2]);
		receive("answered", fds[i % 2], NULL);
		meet();
	}
	close(fds[0]);
	close(fds[1]);
}

/* connect(2) of datagram sockets binds them to the scope, and AF_UNSPEC unbinds them. */
static void connected_client(void)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = bound6(SOCK_DGRAM, "::", 1, NULL);

	meet();
	for (unsigned i = 0; i < 4; i++) {
		struct sockaddr_in6 to = at(SERVER, 0, links[i % 2]);

		SAY(connect(fd, SA(to), sizeof(to)));
		say_own("connected", fd);
		SAY(send(fd, links[i % 2], 2, 0));
		receive("answered", fd, NULL);
		to.sin6_scope_id = index_of(links[(i + 1) % 2]);
		SAY(connect(fd, SA(to), sizeof(to)));
		say_own("contradicted", fd);
		SAY(connect(fd, &none, sizeof(none)));
		say_own("unconnected", fd);
		meet();
	}
	close(fd);
}

/* ---- who names the interface ------------------------------------------------------------ */

static void send_by(int fd, const struct sockaddr_in6 *to, const char *source, unsigned index)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(struct in6_pktinfo)),
			      .cmsg_level = IPPROTO_IPV6,
			      .cmsg_type = IPV6_PKTINFO}};
	struct in6_pktinfo info = {.ipi6_ifindex = index};
	struct iovec iov = {(char *)"pktinfo", 7};
	struct msghdr msg = {.msg_name = (void *)(uintptr_t)to,
			     .msg_namelen = sizeof(*to),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};

	inet_pton(AF_INET6, source, &info.ipi6_addr);
	memcpy(CMSG_DATA(&control.head), &info, sizeof(info));
	say("source %s, interface %s", source, link_text(index));
	SAY(sendmsg(fd, &msg, 0));
}

static void named_server(void)
{
	int fd = bound6(SOCK_DGRAM, "::", 0, NULL);
	set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	meet();
	for (unsigned i = 0; i < 7; i++) {
		receive("received", fd, NULL);
		meet();
	}
	close(fd);
}

static void named_client(void)
{
	struct sockaddr_in6 bare = at(SERVER, 0, NULL), v0 = at(SERVER, 0, "v0");
	int fd = bound6(SOCK_DGRAM, "::", 1, NULL), v1_first = (int)htonl(index_of("v1"));

	meet();
	set_int(fd, IPPROTO_IPV6, IPV6_UNICAST_IF, v1_first);
	SAY_IF(get_int(fd, IPPROTO_IPV6, IPV6_UNICAST_IF) == v1_first);
	post(fd, &bare, "IPV6_UNICAST_IF");
	meet();
	post(fd, &v0, "the scope counts more");
	meet();
	set_int(fd, IPPROTO_IPV6, IPV6_UNICAST_IF, 0);
	send_by(fd, &bare, "::", index_of("v1"));
	meet();
	send_by(fd, &bare, CLIENT, index_of("v1"));
	meet();
	send_by(fd, &v0, CLIENT, 0);
	meet();
	set_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)index_of("v1"));
	post(fd, &bare, "SO_BINDTOIFINDEX");
	meet();
	post(fd, &v0, "the scope counts more than the device");
	meet();
	close(fd);
}

/* What the kernel refuses; those calls are its own. */
static void errors_client(void)
{
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};

	for (unsigned t = 0; t < 2; t++) {
		struct sockaddr_in6 bare = at(CLIENT, 3, NULL), wrong = at(CLIENT, 3, NULL),
				    v0 = at(CLIENT, 3, "v0"), foreign = at("fe80::77", 3, "v0"),
				    to = at(SERVER, 3, NULL), to_v0 = at(SERVER, 3, "v0");
		int fd = new_socket(types[t]);

		say("type %d", types[t]);
		wrong.sin6_scope_id = NOWHERE;
		SAY(bind(fd, SA(bare), sizeof(bare)));
		SAY(bind(fd, SA(wrong), sizeof(wrong)));
		SAY(bind(fd, SA(foreign), sizeof(foreign)));
		SAY(bind(fd, SA(v0), 24));
		SAY(connect(fd, SA(to), sizeof(to)));
		SAY(connect(fd, SA(to_v0), 24));
		say_own("still", fd);
		set_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)index_of("v1"));
		SAY(connect(fd, SA(to_v0), sizeof(to_v0)));
		SAY(bind(fd, SA(v0), sizeof(v0)));
		say_own("bound", fd);
		close(fd);
	}
}

static void send_errors_client(void)
{
	struct sockaddr_in6 bare = at(SERVER, 3, NULL), v0 = at(SERVER, 3, "v0"), nowhere = bare;
	int fd = bound6(SOCK_DGRAM, "::", 1, NULL);

	nowhere.sin6_scope_id = NOWHERE;
	post(fd, &nowhere, "an interface that does not exist");
	send_by(fd, &bare, CLIENT, 0);
	send_by(fd, &v0, "fe80::77", 0);
	send_by(fd, &bare, "::", NOWHERE);
	send_by(fd, &v0, "::", index_of("v1"));
	set_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)index_of("v1"));
	send_by(fd, &bare, "::", index_of("v0"));
	send_by(fd, &v0, "::", index_of("v0"));
	close(fd);
}

/* ---- connections ------------------------------------------------------------------------ */

static void accept_one(int listener)
{
	struct sockaddr_in6 from;
	socklen_t len = sizeof(from);
	int fd;

	await(listener, POLLIN);
	fd = (int)MUST(accept(listener, SA(from), &len));
	say_in6("accepted", &from, len);
	say_own("connection", fd);
	pong(fd);
	expect_end(fd);
	close(fd);
	meet();
}

static void tcp_server(void)
{
	int listener = bound6(SOCK_STREAM, "::", 0, NULL);

	MUST(listen(listener, 16));
	meet();
	for (unsigned i = 0; i < 4; i++)
		accept_one(listener);
	close(listener);
}

static void visit(int fd, unsigned i, const char *link)
{
	struct sockaddr_in6 to = at(SERVER, i, link), peer;
	socklen_t len = sizeof(peer);

	MUST(connect(fd, SA(to), sizeof(to)));
	say_own("connected", fd);
	if (SAY(getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &peer, &len)) == 0)
		say_in6("SO_PEERNAME", &peer, len);
	ping(fd, link ? link : "device");
	close(fd);
	meet();
}

static void tcp_client(void)
{
	int fd;

	meet();
	visit(new_socket(SOCK_STREAM), 0, "v0");
	visit(new_socket(SOCK_STREAM), 0, "v1");
	visit(bound6(SOCK_STREAM, CLIENT, 1, "v1"), 0, "v1");
	fd = new_socket(SOCK_STREAM);
	set_int(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)index_of("v1"));
	visit(fd, 0, NULL);
}

/* The same pair of addresses and ports on both links: two connections, which live side by side. */
static void twins_server(void)
{
	int listeners[2], fds[2];

	for (unsigned i = 0; i < 2; i++) {
		listeners[i] = bound6(SOCK_STREAM, SERVER, 0, links[i]);
		MUST(listen(listeners[i], 16));
		say_own("listener", listeners[i]);
	}
	meet();
	for (unsigned i = 0; i < 2; i++) {
		await(listeners[i], POLLIN);
		fds[i] = (int)MUST(accept(listeners[i], NULL, NULL));
		say_own("connection", fds[i]);
		meet();
	}
	for (unsigned i = 0; i < 2; i++)
		pong(fds[i]);
	for (unsigned i = 0; i < 2; i++) {
		expect_end(fds[i]);
		close(fds[i]);
		close(listeners[i]);
	}
	meet();
}

static void twins_client(void)
{
	int fds[2];

	meet();
	for (unsigned i = 0; i < 2; i++) {
		struct sockaddr_in6 to = at(SERVER, 0, links[i]);

		fds[i] = bound6(SOCK_STREAM, CLIENT, 1, links[i]);
		MUST(connect(fds[i], SA(to), sizeof(to)));
		say_own("connected", fds[i]);
		meet();
	}
	for (unsigned i = 0; i < 2; i++)
		ping(fds[i], links[i]);
	for (unsigned i = 0; i < 2; i++)
		close(fds[i]);
	meet();
}

/* A child takes both over: the connection and the datagrams. */
struct inherited {
	int tcp, udp;
};

static int child_of_server(void *arg)
{
	const struct inherited *in = arg;
	struct sockaddr_in6 from;

	say_own("inherited", in->tcp);
	pong(in->tcp);
	receive("inherited", in->udp, &from);
	post(in->udp, &from, "answer");
	return 0;
}

static void fork_server(void)
{
	int listener = bound6(SOCK_STREAM, "::", 0, NULL), udp = bound6(SOCK_DGRAM, "::", 0, NULL);
	struct inherited in = {.udp = udp};

	set_int(udp, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	MUST(listen(listener, 16));
	meet();
	await(listener, POLLIN);
	in.tcp = (int)MUST(accept(listener, NULL, NULL));
	join(spawn(child_of_server, &in));
	meet();
	say_own("after the child", in.tcp);
	close(in.tcp);
	close(listener);
	close(udp);
}

static void fork_client(void)
{
	struct sockaddr_in6 to = at(SERVER, 0, "v1");
	int tcp = new_socket(SOCK_STREAM), udp = bound6(SOCK_DGRAM, CLIENT, 1, "v1");

	meet();
	MUST(connect(tcp, SA(to), sizeof(to)));
	ping(tcp, "to the child");
	post(udp, &to, "to the child");
	receive("answered", udp, NULL);
	meet();
	expect_end(tcp);
	close(tcp);
	close(udp);
}

/* An address of this host, which is the kernel's; and a port without listener. */
static void own_client(void)
{
	int listener = bound6(SOCK_STREAM, "::", 2, NULL), udp = bound6(SOCK_DGRAM, "::", 2, NULL);
	struct sockaddr_in6 own = at(CLIENT, 2, "v1"), closed = at(SERVER, 9, "v1");
	int fd = new_socket(SOCK_STREAM), child;

	MUST(listen(listener, 16));
	MUST(connect(fd, SA(own), sizeof(own)));
	child = (int)MUST(accept(listener, NULL, NULL));
	say_own("to itself", child);
	say_own("from itself", fd);
	close(child);
	close(fd);
	post(udp, &own, "to itself");
	receive("received", udp, NULL);
	fd = new_socket(SOCK_STREAM);
	SAY(connect(fd, SA(closed), sizeof(closed)));
	close(fd);
	fd = new_socket(SOCK_DGRAM);
	MUST(connect(fd, SA(closed), sizeof(closed)));
	SAY(send(fd, "x", 1, 0));
	await(fd, POLLERR);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	close(fd);
	close(listener);
	close(udp);
}

const struct behaviour scope_behaviours[] = {
	{"udp", udp_server, udp_client, OURS},
	{"bound", bound_server, bound_client, OURS},
	{"connected", udp_server, connected_client, OURS},
	{"named", named_server, named_client, OURS},
	{"errors", NULL, errors_client, OURS},
	{"send_errors", NULL, send_errors_client, KERNEL},
	{"tcp", tcp_server, tcp_client, OURS},
	{"twins", twins_server, twins_client, OURS},
	{"fork", fork_server, fork_client, OURS},
	{"own", NULL, own_client, KERNEL},
	{0},
};
