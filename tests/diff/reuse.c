/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SO_REUSEPORT and SO_REUSEADDR: which sockets may share a port, and which of them gets a
 * packet. Which one the kernel chooses is not tested; that it always chooses the same one is.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define MANY 96 /* senders: almost certainly each of four sockets gets some */
#define SOCKETS 4

#define ADDR(sin) ((struct sockaddr *)&(sin)), sizeof(sin)

/* A socket of port(0), option 0: none. */
static int make(int type, int option)
{
	int fd = (int)MUST(socket(AF_INET, type, 0));

	if (option)
		set_int(fd, SOL_SOCKET, option, 1);
	return fd;
}

static int make_bound(int type, int option, struct sockaddr_in sin)
{
	int fd = make(type, option);

	MUST(bind(fd, ADDR(sin)));
	if (type == SOCK_STREAM)
		MUST(listen(fd, 128));
	set_nonblocking(fd, true);
	return fd;
}

static void make_all(int type, int option, int fds[], int n)
{
	for (int i = 0; i < n; i++)
		fds[i] = make_bound(type, option, server_addr(0));
}

static void close_all(const int fds[], int n)
{
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

/* Receives datagrams, or accepts connections, until the sockets have this many together. */
static void collect(const int fds[], int n, int total, int counts[])
{
	struct pollfd p[SOCKETS];
	int got = 0;

	memset(counts, 0, (size_t)n * sizeof(*counts));
	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	while (got < total && poll(p, (nfds_t)n, PATIENCE) > 0) {
		for (int i = 0; i < n; i++) {
			char buf[10];

			while (recv(fds[i], buf, sizeof(buf), 0) > 0) {
				counts[i]++;
				got++;
			}
		}
	}
	say("%d of %d came", got, total);
}

static void say_each(const int counts[], int n)
{
	for (int i = 0; i < n; i++)
		say("socket %d: %s", i, counts[i] ? "some" : "none");
}

static void say_counts(const int counts[], int n)
{
	for (int i = 0; i < n; i++)
		say("socket %d: %d", i, counts[i]);
}

/* How many sockets got any? */
static void say_how_many(const int counts[], int n)
{
	int some = 0;

	for (int i = 0; i < n; i++)
		some += counts[i] != 0;
	say("%d sockets got some", some);
}

/* ---- who may have it ------------------------------------------------------------------ */

/* The result of the second bind() to a port. */
static void try_pair(int type, int first, int second)
{
	struct sockaddr_in sin = server_addr(0);
	int a = make(type, first), b = make(type, second);

	say("%d, then %d", first, second);
	SAY(bind(a, ADDR(sin)));
	SAY(bind(b, ADDR(sin)));
	if (type == SOCK_STREAM) {
		SAY(listen(a, 5));
		SAY(listen(b, 5));
	}
	close(a);
	close(b);
}

static void try_pairs(int type)
{
	static const int options[] = {0, SO_REUSEADDR, SO_REUSEPORT};

	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 3; j++)
			try_pair(type, options[i], options[j]);
	}
}

static void pairs_udp(void)
{
	try_pairs(SOCK_DGRAM);
}

static void pairs_tcp(void)
{
	try_pairs(SOCK_STREAM);
}

static void pairs_any(void)
{
	struct sockaddr_in sin = server_addr(0), any = any_addr(0);

	for (int option = SO_REUSEADDR;; option = SO_REUSEPORT) {
		int a = make(SOCK_DGRAM, option), b = make(SOCK_DGRAM, option);
		int c = make(SOCK_DGRAM, 0);

		SAY(bind(a, ADDR(any)));
		SAY(bind(b, ADDR(sin)));
		SAY(bind(c, ADDR(sin)));
		close(a);
		close(b);
		close(c);
		if (option == SO_REUSEPORT)
			return;
	}
}

static void late(void)
{
	struct sockaddr_in sin = server_addr(0);
	int a = make(SOCK_DGRAM, 0), b = make(SOCK_DGRAM, SO_REUSEPORT);
	int c = make(SOCK_DGRAM, SO_REUSEPORT);

	SAY(bind(a, ADDR(sin)));
	SAY(bind(b, ADDR(sin)));
	set_int(a, SOL_SOCKET, SO_REUSEPORT, 1);
	SAY(bind(b, ADDR(sin)));
	set_int(a, SOL_SOCKET, SO_REUSEPORT, 0);
	SAY(bind(c, ADDR(sin)));
	close(b);
	SAY(bind(c, ADDR(sin)));
	close(a);
	SAY(bind(c, ADDR(sin)));
	close(c);
}

static int bind_as_other(void *arg)
{
	struct sockaddr_in sin = server_addr(0);
	int fd = make(SOCK_DGRAM, SO_REUSEPORT);

	if (seteuid(1))
		return 3;
	return bind(fd, ADDR(sin)) ? errno == EADDRINUSE ? 1 : 2 : 0;
}

static void other_user(void)
{
	int fd = make_bound(SOCK_DGRAM, SO_REUSEPORT, server_addr(0));

	join(spawn(bind_as_other, NULL));
	close(fd);
}

static void values(void)
{
	int fd = make(SOCK_STREAM, 0);

	SAY(get_int(fd, SOL_SOCKET, SO_REUSEPORT));
	SAY(get_int(fd, SOL_SOCKET, SO_REUSEADDR));
	set_int(fd, SOL_SOCKET, SO_REUSEPORT, 7);
	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 7);
	SAY(get_int(fd, SOL_SOCKET, SO_REUSEPORT));
	SAY(get_int(fd, SOL_SOCKET, SO_REUSEADDR));
	SAY(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, "", 1));
	close(fd);
}

/* ---- datagrams ------------------------------------------------------------------------- */

/* From this many ports, one datagram each; and from one port as many. */
static void send_many(void)
{
	struct sockaddr_in to = server_addr(0);

	for (int i = 0; i < MANY; i++) {
		int fd = make(SOCK_DGRAM, 0);

		MUST(sendto(fd, "x", 1, 0, ADDR(to)));
		close(fd);
	}
}

static void send_from(int fd, int n)
{
	struct sockaddr_in to = server_addr(0);

	for (int i = 0; i < n; i++)
		MUST(sendto(fd, "x", 1, 0, ADDR(to)));
}

static void many_client(void)
{
	meet();
	send_many();
	meet();
}

static void spread_server(void)
{
	int fds[SOCKETS], counts[SOCKETS];

	make_all(SOCK_DGRAM, SO_REUSEPORT, fds, SOCKETS);
	meet();
	collect(fds, SOCKETS, MANY, counts);
	say_each(counts, SOCKETS);
	meet();
	close_all(fds, SOCKETS);
}

/* Also one that had no other when it was bound, and one of each option. */
static void mixed_server(void)
{
	struct sockaddr_in sin = server_addr(0);
	int fds[3], counts[3];

	fds[0] = make_bound(SOCK_DGRAM, 0, sin);
	set_int(fds[0], SOL_SOCKET, SO_REUSEPORT, 1);
	fds[1] = make(SOCK_DGRAM, SO_REUSEPORT);
	set_int(fds[1], SOL_SOCKET, SO_REUSEADDR, 1);
	MUST(bind(fds[1], ADDR(sin)));
	set_nonblocking(fds[1], true);
	fds[2] = make_bound(SOCK_DGRAM, SO_REUSEPORT, server_addr(0));
	meet();
	collect(fds, 3, MANY, counts);
	say_each(counts, 3);
	meet();
	close_all(fds, 3);
}

static void sticky_server(void)
{
	int fds[SOCKETS], counts[SOCKETS];

	make_all(SOCK_DGRAM, SO_REUSEPORT, fds, SOCKETS);
	meet();
	collect(fds, SOCKETS, 50, counts);
	say_how_many(counts, SOCKETS);
	meet();
	close_all(fds, SOCKETS);
}

static void sticky_client(void)
{
	int fd = udp_bound(1);

	meet();
	send_from(fd, 50);
	meet();
	close(fd);
}

/* One is closed: the others get its senders. */
static void one_closes_server(void)
{
	int fds[3], counts[3];

	make_all(SOCK_DGRAM, SO_REUSEPORT, fds, 3);
	meet();
	collect(fds, 3, MANY, counts);
	say_each(counts, 3);
	meet();
	close(fds[0]);
	meet();
	collect(fds + 1, 2, MANY, counts);
	say_each(counts, 2);
	meet();
	close_all(fds + 1, 2);
}

static void twice_client(void)
{
	meet();
	send_many();
	meet();
	meet();
	send_many();
	meet();
}

static void last_server(void)
{
	int fds[3], counts[3];

	make_all(SOCK_DGRAM, SO_REUSEADDR, fds, 3);
	meet();
	collect(fds, 3, MANY, counts);
	say_counts(counts, 3);
	meet();
	close(fds[2]);
	meet();
	collect(fds, 2, MANY, counts);
	say_counts(counts, 2);
	meet();
	close_all(fds, 2);
}

/*
 * A socket that is bound to the address goes before one that is bound to any address, in either
 * order.
 */
static void closer_server(void)
{
	for (int option = SO_REUSEADDR;; option = SO_REUSEPORT) {
		int fds[3], counts[3];

		fds[0] = make_bound(SOCK_DGRAM, option, any_addr(0));
		fds[1] = make_bound(SOCK_DGRAM, option, server_addr(0));
		fds[2] = make_bound(SOCK_DGRAM, option, any_addr(0));
		meet();
		collect(fds, 3, MANY, counts);
		say_counts(counts, 3);
		meet();
		close_all(fds, 3);
		if (option == SO_REUSEPORT)
			return;
	}
}

/* The socket that is connected to the sender gets it, and nothing from others. */
static void connected_server(void)
{
	struct sockaddr_in peer = client_addr(1), none = {.sin_family = AF_UNSPEC};
	int fds[3], counts[3];

	make_all(SOCK_DGRAM, SO_REUSEPORT, fds, 3);
	MUST(connect(fds[1], ADDR(peer)));
	meet();
	collect(fds, 3, 20, counts);
	say_counts(counts, 3);
	meet();
	collect(fds, 3, MANY, counts);
	say_each(counts, 3);
	MUST(connect(fds[1], ADDR(none)));
	meet();
	collect(fds, 3, MANY, counts);
	meet();
	close_all(fds, 3);
}

static void connected_client(void)
{
	int fd = udp_bound(1);

	meet();
	send_from(fd, 20);
	meet();
	send_many();
	meet();
	send_many();
	meet();
	close(fd);
}

static void ready_server(void)
{
	int fds[SOCKETS], ready = 0, ep = (int)MUST(epoll_create1(0));
	struct pollfd p[SOCKETS];
	struct epoll_event ev[SOCKETS] = {{.events = EPOLLIN}};

	make_all(SOCK_DGRAM, SO_REUSEPORT, fds, SOCKETS);
	for (int i = 0; i < SOCKETS; i++) {
		p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], ev));
	}
	meet();
	SAY(epoll_wait(ep, ev, SOCKETS, PATIENCE));
	SAY(poll(p, SOCKETS, 0));
	for (int i = 0; i < SOCKETS; i++)
		ready += p[i].revents == POLLIN;
	say("%d ready", ready);
	meet();
	close_all(fds, SOCKETS);
	close(ep);
}

static void ready_client(void)
{
	int fd = udp_bound(1);

	meet();
	send_from(fd, 1);
	meet();
	close(fd);
}

/* ---- for everybody --------------------------------------------------------------------- */

static void group_server(void)
{
	struct ip_mreqn req = {.imr_multiaddr.s_addr = inet_addr("224.9.9.7"),
			       .imr_address = server_addr(0).sin_addr};
	int fds[3], counts[3];

	for (int i = 0; i < 3; i++) {
		fds[i] = make_bound(SOCK_DGRAM, SO_REUSEADDR, any_addr(0));
		MUST(setsockopt(fds[i], IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)));
	}
	meet();
	collect(fds, 3, 30, counts);
	say_counts(counts, 3);
	meet();
	close_all(fds, 3);
}

static void group_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = make(SOCK_DGRAM, 0);

	to.sin_addr.s_addr = inet_addr("224.9.9.7");
	meet();
	for (int i = 0; i < 10; i++)
		MUST(sendto(fd, "x", 1, 0, ADDR(to)));
	meet();
	close(fd);
}

static void broadcast_server(void)
{
	int fds[3], counts[3];

	for (int i = 0; i < 3; i++)
		fds[i] = make_bound(SOCK_DGRAM, SO_REUSEPORT, any_addr(0));
	meet();
	collect(fds, 3, 30, counts);
	say_counts(counts, 3);
	meet();
	close_all(fds, 3);
}

static void broadcast_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = make(SOCK_DGRAM, SO_BROADCAST);

	to.sin_addr.s_addr = inet_addr("10.9.0.255");
	meet();
	for (int i = 0; i < 10; i++)
		MUST(sendto(fd, "x", 1, 0, ADDR(to)));
	meet();
	close(fd);
}

/* ---- programs that choose --------------------------------------------------------------- */

static struct sock_filter to_second[] = {BPF_STMT(BPF_RET | BPF_K, 1)};
static struct sock_fprog program = {1, to_second};

static void program_server(void)
{
	int fds[3], counts[3];

	make_all(SOCK_DGRAM, SO_REUSEPORT, fds, 3);
	SAY(setsockopt(fds[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)));
	meet();
	collect(fds, 3, MANY, counts);
	say_counts(counts, 3);
	meet();
	close_all(fds, 3);
}

static void program_errors(void)
{
	int fd = make(SOCK_DGRAM, 0), zero = 0, one = 1;

	SAY(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)));
	SAY(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
	SAY(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, 3));
	SAY(setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &zero, sizeof(zero)));
	close(fd);
}

/* ---- connections ------------------------------------------------------------------------ */

#define CONNS 48

static void accept_all(const int fds[], int n, int total, int conns[], int counts[])
{
	struct pollfd p[SOCKETS];
	int got = 0;

	memset(counts, 0, (size_t)n * sizeof(*counts));
	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	while (got < total && poll(p, (nfds_t)n, PATIENCE) > 0) {
		for (int i = 0; i < n; i++) {
			int fd;

			while (got < total && (fd = accept(fds[i], NULL, NULL)) >= 0) {
				conns[got++] = fd;
				counts[i]++;
			}
		}
	}
	say("%d of %d accepted", got, total);
}

static void connect_all(int conns[], int n)
{
	struct sockaddr_in to = server_addr(0);

	for (int i = 0; i < n; i++) {
		conns[i] = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
		MUST(connect(conns[i], ADDR(to)));
	}
}

/* On each connection a byte is sent and returned. */
static void answer_all(const int conns[], int n)
{
	char byte;

	for (int i = 0; i < n; i++) {
		await(conns[i], POLLIN);
		MUST(recv(conns[i], &byte, 1, 0));
		MUST(send(conns[i], &byte, 1, 0));
	}
}

static void ask_all(const int conns[], int n)
{
	int answers = 0;
	char byte;

	for (int i = 0; i < n; i++)
		MUST(send(conns[i], "x", 1, 0));
	for (int i = 0; i < n; i++) {
		await(conns[i], POLLIN);
		answers += recv(conns[i], &byte, 1, MSG_DONTWAIT) == 1;
	}
	say("%d of %d answered", answers, n);
}

static void conns_server(void)
{
	int fds[3], counts[3], conns[CONNS];

	make_all(SOCK_STREAM, SO_REUSEPORT, fds, 3);
	meet();
	meet();
	accept_all(fds, 3, CONNS, conns, counts);
	say_each(counts, 3);
	SAY(get_int(conns[0], SOL_SOCKET, SO_REUSEPORT));
	answer_all(conns, CONNS);
	meet();
	close_all(conns, CONNS);
	close_all(fds, 3);
}

static void conns_client(void)
{
	int conns[CONNS];

	meet();
	connect_all(conns, CONNS);
	meet();
	ask_all(conns, CONNS);
	meet();
	close_all(conns, CONNS);
}

/* Listeners open and close: connections stay where they are. */
static void change_server(void)
{
	int fds[SOCKETS], counts[SOCKETS], conns[CONNS];

	make_all(SOCK_STREAM, SO_REUSEPORT, fds, 2);
	meet();
	meet();
	accept_all(fds, 2, CONNS, conns, counts);
	make_all(SOCK_STREAM, SO_REUSEPORT, fds + 2, 2);
	meet();
	answer_all(conns, CONNS);
	close_all(fds, 2);
	meet();
	answer_all(conns, CONNS);
	close_all(fds + 2, 2);
	meet();
	answer_all(conns, CONNS);
	meet();
	close_all(conns, CONNS);
}

static void change_client(void)
{
	int conns[CONNS];

	meet();
	connect_all(conns, CONNS);
	meet();
	for (int i = 0; i < 3; i++) {
		meet();
		ask_all(conns, CONNS);
	}
	meet();
	close_all(conns, CONNS);
}

/* Handshakes in progress stay where they are when other listeners open. */
static void deferred_server(void)
{
	int fds[SOCKETS], counts[SOCKETS], conns[CONNS];

	make_all(SOCK_STREAM, SO_REUSEPORT, fds, 2);
	set_int(fds[0], IPPROTO_TCP, TCP_DEFER_ACCEPT, 10);
	set_int(fds[1], IPPROTO_TCP, TCP_DEFER_ACCEPT, 10);
	meet();
	meet();
	make_all(SOCK_STREAM, SO_REUSEPORT, fds + 2, 2);
	meet();
	accept_all(fds, SOCKETS, CONNS, conns, counts);
	say_each(counts, SOCKETS);
	answer_all(conns, CONNS);
	meet();
	close_all(conns, CONNS);
	close_all(fds, SOCKETS);
}

static void deferred_client(void)
{
	int conns[CONNS];

	meet();
	connect_all(conns, CONNS);
	meet();
	meet();
	ask_all(conns, CONNS);
	meet();
	close_all(conns, CONNS);
}

/* Unaccepted connections end with their listener, others do not. */
static void pending_server(void)
{
	int fds[2], conns[CONNS + 1], n = 0;
	long reset;

	make_all(SOCK_STREAM, SO_REUSEPORT, fds, 2);
	meet();
	arrive(); /* the last segments of all handshakes, too */
	close(fds[0]);
	arrive();
	reset = hear();
	say("some were reset: %s", reset > 0 && reset < CONNS ? "yes" : "no");
	for (; (conns[n] = accept(fds[1], NULL, NULL)) >= 0; n++)
		;
	say("the others are there: %s", n == CONNS - reset ? "yes" : "no");
	close_all(conns, n);
	close(fds[1]);
	meet();
}

static void pending_client(void)
{
	int conns[CONNS], reset = 0;
	char byte;

	meet();
	connect_all(conns, CONNS);
	arrive();
	arrive();
	for (int i = 0; i < CONNS; i++)
		reset += recv(conns[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == ECONNRESET;
	tell(reset);
	meet();
	close_all(conns, CONNS);
}

/* Then all new connections reach the others. */
static void remaining_server(void)
{
	int fds[3], counts[3], conns[CONNS];

	make_all(SOCK_STREAM, SO_REUSEPORT, fds, 3);
	close(fds[1]);
	fds[1] = fds[2];
	meet();
	meet();
	accept_all(fds, 2, CONNS, conns, counts);
	say_each(counts, 2);
	answer_all(conns, CONNS);
	meet();
	close_all(conns, CONNS);
	close_all(fds, 2);
}

static void closer_conns_server(void)
{
	int fds[3], counts[3], conns[CONNS];

	fds[0] = make_bound(SOCK_STREAM, SO_REUSEPORT, any_addr(0));
	fds[1] = make_bound(SOCK_STREAM, SO_REUSEPORT, server_addr(0));
	fds[2] = make_bound(SOCK_STREAM, SO_REUSEPORT, any_addr(0));
	meet();
	meet();
	accept_all(fds, 3, CONNS, conns, counts);
	say_counts(counts, 3);
	answer_all(conns, CONNS);
	meet();
	close_all(conns, CONNS);
	close_all(fds, 3);
}

/* ---- the same pair again ---------------------------------------------------------------- */

/* The old connection was reset, and the server has not closed it yet. */
static void serve_pair(void (*between)(int listener))
{
	int listener = tcp_listening(0), old, fd;
	char byte;

	meet();
	old = (int)MUST(accept(listener, NULL, NULL));
	await(old, POLLHUP);
	if (between)
		between(listener);
	meet();
	await(listener, POLLIN);
	fd = (int)MUST(accept(listener, NULL, NULL));
	SAY(recv(old, &byte, 1, 0));
	meet();
	await(fd, POLLHUP);
	close(old);
	close(fd);
	close(listener);
}

static void pair_server(void)
{
	serve_pair(NULL);
}

/* Now the kernel serves the listener. */
static void filter_all(int listener)
{
	static struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, 0xffffffff)};
	struct sock_fprog filter = {1, all};

	SAY(setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)));
}

static void pair_elsewhere_server(void)
{
	serve_pair(filter_all);
}

static int connect_from(void)
{
	struct sockaddr_in own = client_addr(1), to = server_addr(0);
	struct linger reset = {.l_onoff = 1};
	int fd = make(SOCK_STREAM, SO_REUSEADDR);

	MUST(bind(fd, ADDR(own)));
	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)));
	SAY(connect(fd, ADDR(to)));
	return fd;
}

static void pair_client(void)
{
	int fd;

	meet();
	close(connect_from());
	meet();
	fd = connect_from();
	meet();
	close(fd);
}

const struct behaviour reuse_behaviours[] = {
	{"pairs_udp", pairs_udp, NULL, OURS},
	{"pairs_tcp", pairs_tcp, NULL, OURS},
	{"pairs_any", pairs_any, NULL, OURS},
	{"late", late, NULL, OURS},
	{"other_user", other_user, NULL, OURS},
	{"values", values, NULL, OURS},
	{"spread", spread_server, many_client, OURS},
	{"mixed", mixed_server, many_client, OURS},
	{"sticky", sticky_server, sticky_client, OURS},
	{"one_closes", one_closes_server, twice_client, OURS},
	{"last", last_server, twice_client, OURS},
	{"closer", closer_server, twice_client, OURS},
	{"connected", connected_server, connected_client, OURS},
	{"ready", ready_server, ready_client, OURS},
	{"group", group_server, group_client, OURS},
	{"broadcast", broadcast_server, broadcast_client, KERNEL},
	{"program", program_server, many_client, KERNEL},
	{"program_errors", program_errors, NULL, OURS},
	{"conns", conns_server, conns_client, OURS},
	{"change", change_server, change_client, OURS},
	{"deferred", deferred_server, deferred_client, OURS},
	{"pending", pending_server, pending_client, OURS},
	{"remaining", remaining_server, conns_client, OURS},
	{"closer_conns", closer_conns_server, conns_client, OURS},
	{"pair", pair_server, pair_client, OURS},
	{"pair_elsewhere", pair_elsewhere_server, pair_client, KERNEL},
	{0},
};
