/* SPDX-License-Identifier: BSD-2-Clause */
/* socket, bind, connect, listen, accept and names, in unusual orders. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/diff/diff.h"

static int fresh(int type)
{
	return (int)MUST(socket(AF_INET, type, 0));
}

static struct sockaddr_in addr_of(const char *ip, uint16_t number)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(number)};

	inet_pton(AF_INET, ip, &sin.sin_addr);
	return sin;
}

/* The result of the call, without the address. */
static int do_bind(const char *what, int fd, struct sockaddr_in to)
{
	int rc = bind(fd, (struct sockaddr *)&to, sizeof(to));

	say_result(what, rc);
	return rc;
}

static int do_connect(const char *what, int fd, struct sockaddr_in to)
{
	int rc = connect(fd, (struct sockaddr *)&to, sizeof(to));

	say_result(what, rc);
	return rc;
}

static void say_names(const char *what, int fd)
{
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);
	char text[100];
	int rc;

	rc = getsockname(fd, (struct sockaddr *)&sin, &len);
	snprintf(text, sizeof(text), "%s, its name", what);
	if (rc)
		say_result(text, rc);
	else
		say_addr(text, &sin, len);
	len = sizeof(sin);
	rc = getpeername(fd, (struct sockaddr *)&sin, &len);
	snprintf(text, sizeof(text), "%s, its peer", what);
	if (rc)
		say_result(text, rc);
	else
		say_addr(text, &sin, len);
}

static void say_ready(const char *what, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};

	SAY(poll(&p, 1, 0));
	say_events(what, (uint32_t)p.revents);
}

/* Both sides: the server has a listener while the client calls. */
static void listening_server(void)
{
	int fd = tcp_listening(0);

	meet();
	meet();
	close(fd);
}

/* ---- socket() ------------------------------------------------------------------------- */

static void odd_sockets(void)
{
	static const int types[] = {0,	      SOCK_STREAM,    SOCK_DGRAM,  SOCK_RAW,
				    SOCK_RDM, SOCK_SEQPACKET, SOCK_PACKET, 99};
	static const int protocols[] = {
		0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE, 255, 256, -1};
	char text[64];
	int fd;

	for (unsigned t = 0; t < sizeof(types) / sizeof(*types); t++) {
		for (unsigned p = 0; p < sizeof(protocols) / sizeof(*protocols); p++) {
			fd = socket(AF_INET, types[t], protocols[p]);
			snprintf(text, sizeof(text), "type %d, protocol %d", types[t],
				 protocols[p]);
			say_result(text, fd < 0 ? -1 : 0);
			if (fd >= 0)
				close(fd);
		}
	}
	SAY(socket(-1, SOCK_STREAM, 0));
	SAY(socket(AF_INET, SOCK_STREAM | 0x100000, 0));
	SAY(socket(AF_UNSPEC, SOCK_STREAM, 0));
}

static void socket_flags(void)
{
	int fd = fresh(SOCK_STREAM | SOCK_NONBLOCK), other = fresh(SOCK_DGRAM | SOCK_CLOEXEC);

	SAY(fcntl(fd, F_GETFL));
	SAY(fcntl(fd, F_GETFD));
	SAY(fcntl(other, F_GETFL));
	SAY(fcntl(other, F_GETFD));
	SAY_IF(other == fd + 1);
	close(fd);
	SAY_IF(fresh(SOCK_STREAM) == fd);
	close(fd);
	close(other);
}

/* ---- bind() --------------------------------------------------------------------------- */

static void bind_twice_of(int type)
{
	int fd = fresh(type);

	do_bind("bind", fd, client_addr(1));
	do_bind("again", fd, client_addr(1));
	do_bind("elsewhere", fd, client_addr(2));
	say_names("bound", fd);
	close(fd);
}

static void bind_twice(void)
{
	bind_twice_of(SOCK_STREAM);
	bind_twice_of(SOCK_DGRAM);
}

static void bind_errors_of(int type)
{
	struct sockaddr_in sin = client_addr(1);
	int fd = fresh(type), other = fresh(type);

	do_bind("foreign", fd, server_addr(1));
	do_bind("broadcast", fd, addr_of("10.9.0.255", port(1)));
	close(fd);
	fd = fresh(type);
	do_bind("multicast", fd, addr_of("239.1.1.1", port(1)));
	close(fd);
	fd = fresh(type);
	SAY(bind(fd, (struct sockaddr *)&sin, 0));
	SAY(bind(fd, (struct sockaddr *)&sin, 15));
	SAY(bind(fd, (struct sockaddr *)&sin, (socklen_t)-1));
	SAY(bind(fd, NULL, sizeof(sin)));
	SAY(bind(fd, (struct sockaddr *)8, sizeof(sin)));
	sin.sin_family = AF_INET6;
	SAY(bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	sin.sin_family = AF_UNIX;
	SAY(bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	sin.sin_family = AF_UNSPEC;
	SAY(bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	do_bind("in the end", fd, client_addr(1));
	do_bind("port in use", other, client_addr(1));
	do_bind("port in use, any address", other, any_addr(1));
	do_bind("another port", other, any_addr(2));
	say_names("bound", other);
	close(fd);
	close(other);
}

static void bind_errors(void)
{
	bind_errors_of(SOCK_STREAM);
	bind_errors_of(SOCK_DGRAM);
}

static void bind_longer(void)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in sin = client_addr(1);
	int fd = fresh(SOCK_DGRAM);

	memcpy(&ss, &sin, sizeof(sin));
	SAY(bind(fd, (struct sockaddr *)&ss, sizeof(ss)));
	say_names("bound", fd);
	close(fd);
	/* Some programs rely on it: any address may have no family. */
	memset(&sin, 0, sizeof(sin));
	fd = fresh(SOCK_STREAM);
	SAY(bind(fd, (struct sockaddr *)&sin, sizeof(sin)));
	close(fd);
}

static void bind_port_zero(void)
{
	struct sockaddr_in sin = client_addr(0);
	int fd = fresh(SOCK_STREAM), udp = fresh(SOCK_DGRAM);

	sin.sin_port = 0;
	do_bind("tcp", fd, sin);
	say_names("tcp", fd);
	do_bind("udp", udp, sin);
	say_names("udp", udp);
	close(fd);
	close(udp);
}

static int as_nobody(void *arg)
{
	int fd = (int)socket(AF_INET, SOCK_STREAM, 0);

	(void)arg;
	if (setuid(65534))
		return 1;
	do_bind("privileged", fd, addr_of("10.9.0.1", 999));
	do_bind("not", fd, client_addr(1));
	return 0;
}

static void bind_privileged(void)
{
	join(spawn(as_nobody, NULL));
}

/* ---- listen() ------------------------------------------------------------------------- */

static void listen_odd(void)
{
	int fd = fresh(SOCK_STREAM), udp = fresh(SOCK_DGRAM);

	SAY(listen(fd, 0));
	SAY(listen(fd, 5));
	SAY(listen(fd, -1));
	SAY(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN));
	do_bind("listening", fd, client_addr(1));
	meet();
	do_connect("listening", fd, server_addr(0));
	meet();
	say_names("listening", fd);
	say_ready("listening", fd);
	SAY(listen(udp, 5));
	do_bind("udp", udp, client_addr(1));
	SAY(listen(udp, 5));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(recv(fd, &udp, 1, 0));
	SAY(shutdown(fd, SHUT_WR));
	close(fd);
	close(udp);
}

static void listen_connected(void)
{
	int fd = tcp_pair();

	SAY(listen(fd, 5));
	SAY(accept(fd, NULL, NULL));
	do_bind("connected", fd, client_addr(3));
	do_bind("connected", fd, is_server ? server_addr(4) : client_addr(4));
	do_connect("connected", fd, server_addr(0));
	SAY(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN));
	say_names("connected", fd);
	meet();
	close(fd);
}

static void listen_in_use(void)
{
	int a = bound(SOCK_STREAM, 1), b = bound(SOCK_STREAM, 1);

	SAY(listen(a, 5));
	SAY(listen(b, 5));
	close(a);
	SAY(listen(b, 5));
	close(b);
}

static void listen_shut_down(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd, c;

	if (is_server) {
		fd = tcp_listening(0);
		SAY(shutdown(fd, SHUT_RDWR));
		say_ready("shut down", fd);
		SAY(accept(fd, NULL, NULL));
		SAY(shutdown(fd, SHUT_RDWR));
		meet();
		meet();
		SAY(listen(fd, 5));
		meet();
		c = accept(fd, NULL, NULL);
		SAY_IF(c >= 0);
		close(c);
		close(fd);
		return;
	}
	meet();
	fd = fresh(SOCK_STREAM);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	meet();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
}

/* ---- accept() ------------------------------------------------------------------------- */

static void accept_errors(void)
{
	int fd = fresh(SOCK_STREAM), udp = udp_bound(1), listener = tcp_listening(2);
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);

	SAY(accept(fd, NULL, NULL));
	SAY(accept(udp, NULL, NULL));
	SAY(accept(-1, NULL, NULL));
	SAY(accept(0x7fffffff, NULL, NULL));
	SAY(accept4(listener, NULL, NULL, 0x40));
	set_nonblocking(listener, true);
	SAY(accept(listener, NULL, NULL));
	SAY(accept4(listener, (struct sockaddr *)&sin, &len, SOCK_CLOEXEC));
	SAY(accept(listener, (struct sockaddr *)8, (socklen_t *)8));
	close(fd);
	close(udp);
	close(listener);
}

static void accept_flags_server(void)
{
	int listener = tcp_listening(0), fd;
	struct sockaddr_in sin;
	socklen_t len;

	meet();
	for (int flags = 0; flags < 4; flags++) {
		await(listener, POLLIN);
		len = flags == 3 ? 8 : sizeof(sin);
		memset(&sin, 0, sizeof(sin));
		fd = accept4(listener, (struct sockaddr *)&sin, &len,
			     (flags & 1 ? SOCK_NONBLOCK : 0) | (flags & 2 ? SOCK_CLOEXEC : 0));
		SAY_IF(fd >= 0);
		SAY(fcntl(fd, F_GETFL));
		SAY(fcntl(fd, F_GETFD));
		say("length %u, family %d", len, sin.sin_family);
		say_names("accepted", fd);
		close(fd);
	}
	set_nonblocking(listener, true);
	await(listener, POLLIN);
	fd = accept(listener, NULL, NULL);
	SAY(fcntl(fd, F_GETFL));
	SAY(accept(listener, NULL, NULL));
	close(fd);
	close(listener);
	meet();
}

static void connect_n(int n)
{
	struct sockaddr_in to = server_addr(0);
	int fds[16];

	meet();
	for (int i = 0; i < n; i++) {
		fds[i] = fresh(SOCK_STREAM);
		SAY(connect(fds[i], (struct sockaddr *)&to, sizeof(to)));
	}
	meet();
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

static void accept_flags_client(void)
{
	connect_n(5);
}

static void accept_bad_pointers_server(void)
{
	int listener = tcp_listening(0), fd;
	struct sockaddr_in sin;
	socklen_t len = (socklen_t)-1;

	meet();
	await(listener, POLLIN);
	SAY_IF(accept(listener, (struct sockaddr *)&sin, NULL) >= 0);
	await(listener, POLLIN);
	SAY_IF(accept(listener, (struct sockaddr *)&sin, &len) >= 0);
	len = sizeof(sin);
	await(listener, POLLIN);
	fd = accept(listener, (struct sockaddr *)8, &len);
	say_result("bad address", fd);
	await(listener, POLLIN);
	fd = accept(listener, (struct sockaddr *)&sin, (socklen_t *)8);
	say_result("bad length", fd);
	set_nonblocking(listener, true);
	SAY(accept(listener, NULL, NULL));
	close(listener);
	meet();
}

static void accept_bad_pointers_client(void)
{
	connect_n(4);
}

static void accept_emfile_server(void)
{
	int listener = tcp_listening(0), fd, next;
	struct rlimit old, limit;

	meet();
	meet();
	await(listener, POLLIN);
	next = dup(listener);
	close(next);
	MUST(getrlimit(RLIMIT_NOFILE, &old));
	limit = old;
	limit.rlim_cur = (rlim_t)next;
	MUST(setrlimit(RLIMIT_NOFILE, &limit));
	SAY(accept(listener, NULL, NULL));
	say_ready("nothing lost", listener);
	SAY(accept(listener, NULL, NULL));
	MUST(setrlimit(RLIMIT_NOFILE, &old));
	for (int i = 0; i < 2; i++) {
		fd = accept(listener, NULL, NULL);
		SAY_IF(fd >= 0);
		close(fd);
	}
	close(listener);
}

static void accept_emfile_client(void)
{
	connect_n(2);
}

static void accept_peer_gone_server(void)
{
	int listener = tcp_listening(0), fd;
	char c;

	meet();
	arrive();
	await(listener, POLLIN);
	fd = accept(listener, NULL, NULL);
	SAY_IF(fd >= 0);
	say_names("reset", fd);
	SAY(recv(fd, &c, 1, 0));
	SAY(recv(fd, &c, 1, 0));
	close(fd);
	close(listener);
}

static void accept_peer_gone_client(void)
{
	struct sockaddr_in to = server_addr(0);
	struct linger linger = {1, 0};
	int fd = fresh(SOCK_STREAM);

	meet();
	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
	arrive();
}

/*
 * The backlog and one more are established; further clients wait for their SYN-ACK. They
 * connect one at a time: a SYN that arrives before the previous acknowledgement still finds
 * room.
 */
static void backlog_server(void)
{
	int listener = bound(SOCK_STREAM, 0), n = 0;
	struct pollfd p = {.fd = listener, .events = POLLIN};

	MUST(listen(listener, 1));
	meet();
	for (int i = 0; i < 4; i++) {
		arrive();
		poll(&p, 1, 0);
		meet();
	}
	meet();
	set_nonblocking(listener, true);
	while (n < 4) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			break;
		close(fd);
		n++;
	}
	say("%d were established", n);
	meet();
	close(listener);
}

static void backlog_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fds[4], ready = 0;
	struct pollfd p;

	meet();
	for (int i = 0; i < 4; i++) {
		fds[i] = fresh(SOCK_STREAM | SOCK_NONBLOCK);
		p = (struct pollfd){.fd = fds[i], .events = POLLOUT};
		(void)connect(fds[i], (struct sockaddr *)&to, sizeof(to));
		/* Those that have no room stay out after a SYN more, too. */
		ready += poll(&p, 1, i < 2 ? PATIENCE : 1500) == 1 && p.revents == POLLOUT;
		arrive();
		meet();
	}
	say("%d are connected", ready);
	meet();
	meet();
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}

/* ---- connect(), TCP ------------------------------------------------------------------- */

static void connect_errors(void)
{
	struct sockaddr_in to = server_addr(0);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port(0))};
	struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
	int fd = fresh(SOCK_STREAM);

	SAY(connect(fd, (struct sockaddr *)&to, 0));
	SAY(connect(fd, (struct sockaddr *)&to, 1));
	SAY(connect(fd, (struct sockaddr *)&to, 2));
	SAY(connect(fd, (struct sockaddr *)&to, 15));
	SAY(connect(fd, (struct sockaddr *)&to, 200));
	SAY(connect(fd, (struct sockaddr *)&to, (socklen_t)-1));
	SAY(connect(fd, NULL, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)8, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&six, sizeof(six)));
	SAY(connect(fd, (struct sockaddr *)&local, sizeof(local)));
	say_names("fresh", fd);
	say_ready("fresh", fd);
	meet();
	do_connect("in the end", fd, to);
	say_names("connected", fd);
	meet();
	close(fd);
}

static void connect_nowhere(const char *what, const char *ip, unsigned number)
{
	int fd = fresh(SOCK_STREAM);

	do_connect(what, fd, addr_of(ip, (uint16_t)number));
	say_ready(what, fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	say_names(what, fd);
	close(fd);
}

static void connect_odd_places(void)
{
	connect_nowhere("any address", "0.0.0.0", port(0));
	connect_nowhere("loopback", "127.0.0.1", port(0));
	connect_nowhere("own address", "10.9.0.1", port(0));
	connect_nowhere("broadcast", "255.255.255.255", port(0));
	connect_nowhere("net broadcast", "10.9.0.255", port(0));
	connect_nowhere("multicast", "239.1.1.1", port(0));
	connect_nowhere("no route", "192.0.2.1", port(0));
	connect_nowhere("port 0", "10.9.0.2", 0);
	connect_nowhere("refused", "10.9.0.2", port(9));
}

/* Each socket is one end of a connection to itself. */
static void connect_self(void)
{
	int fd = bound(SOCK_STREAM, 1);
	char c = 0;

	do_connect("itself", fd, client_addr(1));
	say_names("itself", fd);
	SAY(send(fd, "x", 1, 0));
	SAY(recv(fd, &c, 1, 0));
	say_ready("itself", fd);
	close(fd);
}

static void connect_nonblocking(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = fresh(SOCK_STREAM | SOCK_NONBLOCK);

	meet();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLOUT);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	say_ready("connected", fd);
	meet();
	close(fd);
	fd = fresh(SOCK_STREAM | SOCK_NONBLOCK);
	to = nobody_addr();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	say_ready("connecting", fd);
	say_names("connecting", fd);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(recv(fd, &to, 1, 0));
	SAY(listen(fd, 5));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	SAY(shutdown(fd, SHUT_WR));
	close(fd);
}

static void connect_unspec(void)
{
	struct sockaddr_in none = {.sin_family = AF_UNSPEC}, to = server_addr(0);
	int fd = fresh(SOCK_STREAM | SOCK_NONBLOCK);

	SAY(connect(fd, (struct sockaddr *)&none, sizeof(none)));
	to = nobody_addr();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&none, sizeof(none)));
	say_ready("dissolved", fd);
	say_names("dissolved", fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	set_nonblocking(fd, false);
	meet();
	do_connect("another", fd, server_addr(0));
	say_names("connected", fd);
	SAY(connect(fd, (struct sockaddr *)&none, 2));
	say_names("dissolved", fd);
	say_ready("dissolved", fd);
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	do_connect("again", fd, server_addr(0));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	meet();
	close(fd);
	fd = tcp_listening(1);
	SAY(connect(fd, (struct sockaddr *)&none, sizeof(none)));
	SAY(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN));
	say_names("was listening", fd);
	SAY(accept(fd, NULL, NULL));
	SAY(listen(fd, 5));
	close(fd);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	alarms++;
}

static void connect_interrupted(void)
{
	struct sockaddr_in to = nobody_addr();
	struct itimerval soon = {{1, 0}, {0, 50000}}, never = {0};
	struct sigaction act = {.sa_handler = on_alarm}, old;
	int fd = fresh(SOCK_STREAM);

	alarms = 0;
	MUST(sigaction(SIGALRM, &act, &old));
	MUST(setitimer(ITIMER_REAL, &soon, NULL));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	MUST(setitimer(ITIMER_REAL, &never, NULL));
	say("after %d signals", alarms);
	say_ready("interrupted", fd);
	set_nonblocking(fd, true);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
	MUST(sigaction(SIGALRM, &old, NULL));
}

static void connect_timeout(void)
{
	struct sockaddr_in to = nobody_addr();
	struct timeval tv = {0, 50000};
	int fd = fresh(SOCK_STREAM);
	long began;

	MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	began = now_ms();
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	not_before("connect", began, 45);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	close(fd);
}

/* To a neighbour whose address is known, but which does not exist. */
static void syn_count(void)
{
	int fd = fresh(SOCK_STREAM);
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	long began;

	set_int(fd, IPPROTO_TCP, TCP_SYNCNT, 1);
	began = now_ms();
	do_connect("nobody there", fd, nobody_addr());
	/* after 1 s; the kernel gives up after 2 more */
	not_before("no answer", began, 2900);
	MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	say("SYNs sent again: %u", info.tcpi_total_retrans);
	close(fd);
}

/* The result of connect() after a failure that was or was not reported. */
static void after_failure(void)
{
	struct sockaddr_in to = server_addr(9);
	int fd = fresh(SOCK_STREAM | SOCK_NONBLOCK);
	char c;

	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLHUP);
	say_names("refused", fd);
	SAY(recv(fd, &c, 1, 0));
	SAY(recv(fd, &c, 1, 0));
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLHUP);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	await(fd, POLLHUP);
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	set_nonblocking(fd, false);
	meet();
	do_connect("in the end", fd, server_addr(0));
	say_names("connected", fd);
	meet();
	close(fd);
}

static void reset_server(void)
{
	int fd = tcp_pair();

	close_with_reset(fd);
	meet();
	fd = tcp_listening(1);
	meet();
	meet();
	close(fd);
}

/* An established connection that was reset. */
static void reset_client(void)
{
	int fd = tcp_pair();

	meet();
	await(fd, POLLHUP);
	say_names("reset", fd);
	do_connect("reset", fd, server_addr(1));
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	do_connect("reset, told", fd, server_addr(1));
	SAY(listen(fd, 5));
	SAY(shutdown(fd, SHUT_RDWR));
	meet();
	do_connect("again", fd, server_addr(1));
	meet();
	close(fd);
}

static void connect_bound(void)
{
	struct sockaddr_in any = any_addr(2);
	int fd = bound(SOCK_STREAM, 1), other = bound(SOCK_STREAM, 1), third = fresh(SOCK_STREAM);

	meet();
	do_connect("bound", fd, server_addr(0));
	say_names("bound", fd);
	do_connect("the same port and peer", other, server_addr(0));
	do_bind("any address", third, any);
	do_connect("any address", third, server_addr(0));
	say_names("any address", third);
	meet();
	close(fd);
	close(other);
	close(third);
}

/* ---- connect(), UDP ------------------------------------------------------------------- */

static void udp_echo_server(void)
{
	int a = udp_bound(0), b = udp_bound(1);
	struct pollfd p[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
	struct sockaddr_in from;
	socklen_t len;
	char c;

	meet();
	for (;;) {
		MUST(poll(p, 2, PATIENCE) > 0 ? 0 : -1);
		for (int i = 0; i < 2; i++) {
			len = sizeof(from);
			if (!(p[i].revents & POLLIN) ||
			    recvfrom(p[i].fd, &c, 1, 0, (struct sockaddr *)&from, &len) != 1)
				continue;
			if (c == 'q')
				goto out;
			sendto(p[i].fd, i ? "b" : "a", 1, 0, (struct sockaddr *)&from, len);
		}
	}
out:
	close(a);
	close(b);
}

static void exchange(const char *what, int fd, const struct sockaddr_in *to)
{
	char c = '-';
	long n = to ? sendto(fd, "x", 1, 0, (const struct sockaddr *)to, sizeof(*to))
		    : send(fd, "x", 1, 0);

	say_result(what, n);
	if (n == 1) {
		await(fd, POLLIN);
		n = recv(fd, &c, 1, MSG_DONTWAIT);
		say("%s: %ld '%c'", what, n, c);
	}
}

static void udp_reconnect(void)
{
	struct sockaddr_in a = server_addr(0), b = server_addr(1), none = {.sin_family = AF_UNSPEC};
	int fd = fresh(SOCK_DGRAM);

	meet();
	exchange("not connected", fd, NULL);
	do_connect("a", fd, a);
	say_names("a", fd);
	exchange("to a", fd, NULL);
	exchange("to b, connected to a", fd, &a);
	do_connect("b", fd, b);
	say_names("b", fd);
	exchange("to b", fd, NULL);
	SAY(connect(fd, (struct sockaddr *)&none, sizeof(none)));
	say_names("dissolved", fd);
	exchange("dissolved", fd, NULL);
	exchange("to a", fd, &a);
	do_connect("a", fd, a);
	exchange("to a", fd, NULL);
	SAY(connect(fd, (struct sockaddr *)&none, 2));
	SAY(connect(fd, (struct sockaddr *)&none, 1));
	say_names("dissolved", fd);
	sendto(fd, "q", 1, 0, (struct sockaddr *)&a, sizeof(a));
	close(fd);
}

static void udp_reconnect_bound(void)
{
	struct sockaddr_in a = server_addr(0), b = server_addr(1), none = {.sin_family = AF_UNSPEC};
	int fd = udp_bound(3);

	meet();
	exchange("to a", fd, &a);
	do_connect("a", fd, a);
	exchange("to a", fd, NULL);
	do_bind("connected", fd, client_addr(4));
	SAY(connect(fd, (struct sockaddr *)&none, sizeof(none)));
	say_names("dissolved", fd);
	exchange("to b", fd, &b);
	do_connect("b", fd, b);
	exchange("to b", fd, NULL);
	sendto(fd, "q", 1, 0, (struct sockaddr *)&a, sizeof(a));
	close(fd);
}

/* A connected socket receives nothing from other peers. */
static void udp_connected_filter(void)
{
	int fd, other;
	char c = 0;
	struct sockaddr_in to = server_addr(2);

	if (is_server) {
		fd = udp_bound(2);
		do_connect("peer", fd, client_addr(2));
		meet();
		arrive();
		meet();
		await(fd, POLLIN);
		SAY(recv(fd, &c, 1, MSG_DONTWAIT));
		say("'%c'", c);
		SAY(recv(fd, &c, 1, MSG_DONTWAIT));
		close(fd);
		return;
	}
	fd = udp_bound(2);
	other = udp_bound(3);
	meet();
	SAY(sendto(other, "n", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	arrive();
	SAY(sendto(fd, "y", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
	close(other);
}

static void udp_connect_errors(void)
{
	struct sockaddr_in to = server_addr(0);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port(0))};
	int fd = fresh(SOCK_DGRAM), one = 1;

	SAY(connect(fd, (struct sockaddr *)&to, 15));
	SAY(connect(fd, (struct sockaddr *)&to, 1));
	SAY(connect(fd, NULL, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)8, sizeof(to)));
	SAY(connect(fd, (struct sockaddr *)&six, sizeof(six)));
	do_connect("no route", fd, addr_of("192.0.2.1", port(0)));
	do_connect("broadcast", fd, addr_of("10.9.0.255", port(0)));
	say_names("none yet", fd);
	SAY(setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)));
	do_connect("broadcast", fd, addr_of("10.9.0.255", port(0)));
	say_names("broadcast", fd);
	do_connect("multicast", fd, addr_of("239.1.1.1", port(0)));
	say_names("multicast", fd);
	do_connect("any", fd, addr_of("0.0.0.0", port(0)));
	say_names("any", fd);
	do_connect("port 0", fd, addr_of("10.9.0.2", 0));
	say_names("port 0", fd);
	SAY(send(fd, "x", 1, 0));
	do_connect("server", fd, to);
	say_names("server", fd);
	close(fd);
}

/* ---- SO_DONTROUTE --------------------------------------------------------------------- */

/* The server is the gateway to 192.0.2.0/24. */
static void dont_route(void)
{
	int fd = fresh(SOCK_DGRAM), tcp = fresh(SOCK_STREAM), one = 1;
	struct sockaddr_in far = addr_of("192.0.2.1", port(0)), near = server_addr(0);

	MUST(system("ip route add 192.0.2.0/24 via 10.9.0.2"));
	SAY(sendto(fd, "x", 1, 0, (struct sockaddr *)&far, sizeof(far)));
	SAY(setsockopt(fd, SOL_SOCKET, SO_DONTROUTE, &one, sizeof(one)));
	SAY(sendto(fd, "x", 1, 0, (struct sockaddr *)&far, sizeof(far)));
	SAY(sendto(fd, "x", 1, 0, (struct sockaddr *)&near, sizeof(near)));
	SAY(connect(fd, (struct sockaddr *)&far, sizeof(far)));
	SAY(connect(fd, (struct sockaddr *)&near, sizeof(near)));
	SAY(setsockopt(tcp, SOL_SOCKET, SO_DONTROUTE, &one, sizeof(one)));
	SAY(connect(tcp, (struct sockaddr *)&far, sizeof(far)));
	meet();
	SAY(connect(tcp, (struct sockaddr *)&near, sizeof(near)));
	meet();
	MUST(system("ip route del 192.0.2.0/24"));
	close(fd);
	close(tcp);
}

/* ---- names ---------------------------------------------------------------------------- */

static void names_bad_pointers(void)
{
	int fd = tcp_pair(), udp = udp_bound(1);
	struct sockaddr_storage sin;
	socklen_t len;

	for (int i = 0; i < 2; i++, fd = udp) {
		len = (socklen_t)-1;
		SAY(getsockname(fd, (struct sockaddr *)&sin, &len));
		SAY(getsockname(fd, (struct sockaddr *)&sin, NULL));
		SAY(getsockname(fd, (struct sockaddr *)&sin, (socklen_t *)8));
		len = sizeof(struct sockaddr_in);
		SAY(getsockname(fd, NULL, &len));
		SAY(getsockname(fd, (struct sockaddr *)8, &len));
		len = 0;
		SAY(getsockname(fd, NULL, &len));
		say("length %u", len);
		len = 3;
		SAY(getsockname(fd, (struct sockaddr *)&sin, &len));
		say("length %u", len);
		len = (socklen_t)-1;
		SAY(getpeername(fd, (struct sockaddr *)&sin, &len));
		SAY(getpeername(fd, (struct sockaddr *)&sin, NULL));
		len = sizeof(struct sockaddr_in);
		SAY(getpeername(fd, (struct sockaddr *)8, &len));
		len = 200;
		SAY(getpeername(fd, (struct sockaddr *)&sin, &len));
		say("length %u", len);
		meet();
		close(fd);
	}
}

static void names_of_a_life_server(void)
{
	int fd = tcp_pair();

	meet();
	await(fd, POLLIN);
	close(fd);
	meet();
}

static void names_of_a_life_client(void)
{
	int fd = tcp_pair();

	say_names("connected", fd);
	SAY(shutdown(fd, SHUT_WR));
	say_names("shut down", fd);
	meet();
	meet();
	await(fd, POLLHUP);
	say_names("closed by both", fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	do_connect("closed by both", fd, server_addr(9));
	close(fd);
}

/* ---- shutdown() ----------------------------------------------------------------------- */

static void shutdown_odd(void)
{
	int fd = fresh(SOCK_STREAM), udp = fresh(SOCK_DGRAM);

	SAY(shutdown(fd, SHUT_RD));
	SAY(shutdown(fd, 3));
	SAY(shutdown(fd, -1));
	SAY(shutdown(udp, SHUT_RD));
	SAY(shutdown(udp, 3));
	SAY(shutdown(udp, -1));
	close(fd);
	close(udp);
	fd = tcp_pair();
	SAY(shutdown(fd, 3));
	SAY(shutdown(fd, -1));
	if (is_server) {
		SAY(shutdown(fd, SHUT_WR));
		SAY(shutdown(fd, SHUT_WR));
	}
	meet();
	if (!is_server) {
		await(fd, POLLIN);
		SAY(shutdown(fd, SHUT_WR));
	}
	await(fd, POLLHUP);
	if (!is_server)
		await_state(fd, TCP_CLOSE);
	meet();
	SAY(shutdown(fd, SHUT_WR));
	meet();
	close(fd);
}

/* Calls on descriptors that are not, or no longer, sockets. */
static void not_a_socket(void)
{
	struct sockaddr_in sin = client_addr(1);
	socklen_t len = sizeof(sin);
	int fds[2], fd;

	MUST(pipe(fds));
	fd = fds[0];
	for (int i = 0; i < 2; i++, fd = 200) {
		SAY(bind(fd, (struct sockaddr *)&sin, len));
		SAY(connect(fd, (struct sockaddr *)&sin, len));
		SAY(listen(fd, 5));
		SAY(accept(fd, NULL, NULL));
		SAY(getsockname(fd, (struct sockaddr *)&sin, &len));
		SAY(getpeername(fd, (struct sockaddr *)&sin, &len));
		SAY(shutdown(fd, SHUT_RD));
		SAY(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &fd, sizeof(fd)));
		SAY(send(fd, "x", 1, 0));
		SAY(recv(fd, &sin, 1, 0));
	}
	close(fds[0]);
	close(fds[1]);
}

/* KERNEL also where late segments of a listener or filter may reach the kernel. */
const struct behaviour calls_behaviours[] = {
	{"odd_sockets", NULL, odd_sockets, KERNEL},
	{"socket_flags", NULL, socket_flags, OURS},
	{"bind_twice", NULL, bind_twice, OURS},
	{"bind_errors", NULL, bind_errors, OURS},
	{"bind_longer", NULL, bind_longer, OURS},
	{"bind_port_zero", NULL, bind_port_zero, OURS},
	{"bind_privileged", NULL, bind_privileged, OURS},
	{"listen_odd", listening_server, listen_odd, KERNEL},
	{"listen_connected", listen_connected, listen_connected, OURS},
	{"listen_in_use", NULL, listen_in_use, OURS},
	{"listen_shut_down", listen_shut_down, listen_shut_down, KERNEL},
	{"accept_errors", NULL, accept_errors, OURS},
	{"accept_flags", accept_flags_server, accept_flags_client, OURS},
	{"accept_bad_pointers", accept_bad_pointers_server, accept_bad_pointers_client, OURS},
	{"accept_emfile", accept_emfile_server, accept_emfile_client, OURS},
	{"accept_peer_gone", accept_peer_gone_server, accept_peer_gone_client, OURS},
	{"backlog", backlog_server, backlog_client, OURS},
	{"connect_errors", listening_server, connect_errors, KERNEL},
	{"connect_odd_places", NULL, connect_odd_places, KERNEL},
	{"connect_self", NULL, connect_self, KERNEL},
	{"connect_nonblocking", listening_server, connect_nonblocking, KERNEL},
	{"connect_unspec", listening_server, connect_unspec, KERNEL},
	{"connect_interrupted", NULL, connect_interrupted, KERNEL},
	{"connect_timeout", NULL, connect_timeout, KERNEL},
	{"syn_count", NULL, syn_count, OURS},
	{"after_failure", listening_server, after_failure, KERNEL},
	{"reset", reset_server, reset_client, OURS},
	{"connect_bound", listening_server, connect_bound, KERNEL},
	{"udp_reconnect", udp_echo_server, udp_reconnect, OURS},
	{"udp_reconnect_bound", udp_echo_server, udp_reconnect_bound, KERNEL},
	{"udp_connected_filter", udp_connected_filter, udp_connected_filter, KERNEL},
	{"udp_connect_errors", NULL, udp_connect_errors, KERNEL},
	{"dont_route", listening_server, dont_route, KERNEL},
	{"names_bad_pointers", names_bad_pointers, names_bad_pointers, OURS},
	{"names_of_a_life", names_of_a_life_server, names_of_a_life_client, OURS},
	{"shutdown_odd", shutdown_odd, shutdown_odd, OURS},
	{"not_a_socket", NULL, not_a_socket, OURS},
	{0},
};
