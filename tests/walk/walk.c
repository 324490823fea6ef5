/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A random walk through the calls of a program with sockets: each call with its result, and what poll(2) and
 * FIONREAD say of all sockets after it.  walk.sh compares the walks of a seed with and without the library.
 *
 *	walk SEED COUNT STEPS [NAMESPACE NAMESPACE]
 *
 * COUNT walks, from SEED on.  With two namespaces, 10.9.0.1 and 10.9.0.2, each socket is in one of them, and the
 * library has those of the first; else all are on the loopback.  A listener, two connections and two datagram
 * sockets are there at the beginning.
 *
 * Left out is what the library does on purpose otherwise, or what depends on the moment: a listener that closes
 * keeps its port as long as connections of it last; the kernel's errors of a datagram socket come before data;
 * several sends to what answers with a reset, or an error; splice(2) to a datagram socket, which the kernel does;
 * FIONREAD of what is shut down.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 12
#define SETTLE 1000000 /* nsec */

struct slot {
	int fd;
	bool tcp, side, listens;
	bool conn;     /* it has had a connection */
	bool owns;     /* its port, by bind() */
	unsigned shut; /* 1: for reading, 2: for writing */
	uint16_t port;
};

static struct slot slots[SLOTS];
static uint64_t state;
static uint16_t next_port;
static int spaces[2] = {-1, -1}, ep = -1; /* namespaces */
static const char *addrs[2] = {"127.0.0.1", "127.0.0.1"};
static unsigned step_no;

static uint64_t rnd(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static unsigned roll(unsigned n)
{
	return (unsigned)(rnd() % n);
}

__attribute__((noreturn)) static void die(const char *what)
{
	perror(what);
	exit(2);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list ap;

	printf("%u ", step_no);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
}

static void result(long n)
{
	if (n < 0)
		printf(" = %s\n", strerrorname_np(errno));
	else
		printf(" = %ld\n", n);
}

static int pick(void)
{
	for (int i = 0; i < 20; i++) {
		int s = (int)roll(SLOTS);

		if (slots[s].fd >= 0)
			return s;
	}
	return -1;
}

static int pick_free(void)
{
	for (int s = 0; s < SLOTS; s++) {
		if (slots[s].fd < 0)
			return s;
	}
	return -1;
}

static void enter(bool side)
{
	if (spaces[0] >= 0 && setns(spaces[side], CLONE_NEWNET))
		die("setns");
}

static struct sockaddr_in name_of(bool side, uint16_t port)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, addrs[side], &name.sin_addr);
	return name;
}

static const char *text_of(const struct sockaddr_in *name, socklen_t len)
{
	static char text[4][64];
	static int at;
	char ip[32], *to = text[at++ % 4];
	uint16_t port = ntohs(name->sin_port);

	if (len < sizeof(*name)) {
		snprintf(to, 64, "len %u", len);
		return to;
	}
	inet_ntop(AF_INET, &name->sin_addr, ip, sizeof(ip));
	if (port >= 32768)
		snprintf(to, 64, "%s:eph", ip);
	else
		snprintf(to, 64, "%s:%u", ip, port);
	return to;
}

/* In a free slot, which there must be. */
static int new_socket(bool tcp, bool side, bool named)
{
	int s = pick_free(), type = tcp ? SOCK_STREAM : SOCK_DGRAM;
	struct sockaddr_in name;

	enter(side);
	slots[s] = (struct slot){
		.side = side, .tcp = tcp, .fd = socket(AF_INET, type | SOCK_NONBLOCK, 0)};
	enter(0);
	if (slots[s].fd < 0)
		die("socket");
	if (tcp && setsockopt(slots[s].fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)))
		die("nodelay");
	if (named) {
		slots[s].port = next_port++;
		name = name_of(side, slots[s].port);
		if (bind(slots[s].fd, (struct sockaddr *)&name, sizeof(name)))
			die("bind");
	}
	return s;
}

/* In a free slot: fd, which the listener has accepted. */
static int new_accepted(int fd, const struct slot *listener)
{
	int s = pick_free();

	slots[s] = (struct slot){.fd = fd,
				 .tcp = true,
				 .side = listener->side,
				 .port = listener->port,
				 .conn = true};
	return s;
}

/* A target: a port that some slot has, or none. */
static uint16_t some_port(void)
{
	int s = pick();

	if (s >= 0 && slots[s].port && roll(8))
		return slots[s].port;
	return (uint16_t)(19000 + roll(10));
}

static int pick_tcp_listener(void)
{
	for (int i = 0; i < 30; i++) {
		int s = (int)roll(SLOTS);

		if (slots[s].fd >= 0 && slots[s].listens)
			return s;
	}
	return -1;
}

static void fill(char *buf, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (char)('a' + roll(26));
}

static unsigned hash(const char *buf, size_t n)
{
	unsigned h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)buf[i]) * 16777619u;
	return h & 0xffff;
}

/* ---- operations ---------------------------------------------------------------------- */

static void op_socket(void)
{
	bool side = spaces[0] >= 0 && roll(2), tcp = roll(3) != 0;
	int s;

	if (pick_free() < 0)
		return;
	s = new_socket(tcp, side, false);
	say("socket(%d, %s, side %d)\n", s, tcp ? "tcp" : "udp", side);
}

static void op_bind(void)
{
	int s = pick(), other, rc;
	struct sockaddr_in name;
	uint16_t port;

	if (s < 0 || slots[s].conn)
		return;
	other = pick();
	port = roll(5)					    ? next_port++
	       : other >= 0 && slots[other].owns && roll(3) ? slots[other].port
							    : 0;
	name = name_of(slots[s].side, port);
	if (roll(2))
		name.sin_addr.s_addr = 0;
	say("bind(%d, %s)", s, text_of(&name, sizeof(name)));
	rc = bind(slots[s].fd, (struct sockaddr *)&name, sizeof(name));
	if (!rc) {
		slots[s].port = port;
		slots[s].owns = true;
	}
	result(rc);
}

static void op_listen(void)
{
	int s = pick(), backlog = roll(4) ? 8 : (int)roll(3);
	int rc;

	if (s < 0 || (!slots[s].port && roll(4)))
		return;
	say("listen(%d, %d)", s, backlog);
	rc = listen(slots[s].fd, backlog);
	if (!rc)
		slots[s].listens = true;
	result(rc);
}

static void op_connect(void)
{
	int s = pick(), to;
	struct sockaddr_in name;
	int rc;

	if (s < 0 || (slots[s].tcp && slots[s].shut))
		return;
	to = slots[s].tcp && roll(6) ? pick_tcp_listener() : pick();
	if (to < 0 || (!roll(8)))
		name = name_of(!slots[s].side && spaces[0] >= 0, some_port());
	else
		name = name_of(slots[to].side, slots[to].port);
	if (spaces[0] >= 0 && name.sin_addr.s_addr == name_of(slots[s].side, 0).sin_addr.s_addr)
		return;
	if (!slots[s].tcp && !roll(6))
		name.sin_family = AF_UNSPEC;
	if (!name.sin_port)
		return;
	say("connect(%d, %s%s)", s, text_of(&name, sizeof(name)), name.sin_family ? "" : " unspec");
	rc = connect(slots[s].fd, (struct sockaddr *)&name, sizeof(name));
	if (slots[s].tcp && (!rc || errno == EINPROGRESS))
		slots[s].conn = true;
	result(rc);
	if (slots[s].conn) /* a handshake takes its time */
		poll(&(struct pollfd){slots[s].fd, POLLOUT, 0}, 1, 1000);
}

static void op_accept(void)
{
	int s = roll(8) ? pick_tcp_listener() : pick();
	struct sockaddr_in name = {0};
	socklen_t len = sizeof(name);
	int fd;

	if (s < 0 || pick_free() < 0)
		return;
	say("accept(%d)", s);
	fd = accept4(slots[s].fd, (struct sockaddr *)&name, &len, SOCK_NONBLOCK);
	if (fd < 0) {
		result(fd);
		return;
	}
	printf(" = slot %d from %s\n", new_accepted(fd, &slots[s]), text_of(&name, len));
}

static int send_flags(char *text)
{
	int flags = MSG_NOSIGNAL;

	text[0] = 0;
	if (!roll(10)) {
		flags |= MSG_OOB;
		strcat(text, " OOB");
	}
	if (!roll(8)) {
		flags |= MSG_DONTWAIT;
		strcat(text, " DONTWAIT");
	}
	if (!roll(20)) {
		flags |= MSG_EOR;
		strcat(text, " EOR");
	}
	return flags;
}

static const unsigned sizes[] = {0, 1, 2, 14, 100, 1000, 1400, 2000, 4000};

/* Over the wire without fragments, which the kernel receives. */
static unsigned roll_size(int s)
{
	return sizes[roll(!slots[s].tcp && spaces[0] >= 0 ? 7 : 9)];
}

static void op_send(void)
{
	int s = pick(), how = (int)roll(4);
	static char buf[8192];
	char text[64];
	unsigned n;
	struct iovec iov[3];
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 3};
	int flags;
	ssize_t rc;

	if (s < 0)
		return;
	n = roll_size(s);
	flags = send_flags(text);
	fill(buf, n);
	switch (how) {
	case 0:
		say("send(%d, %u,%s)", s, n, text);
		rc = send(slots[s].fd, buf, n, flags);
		break;
	case 1:
		say("write(%d, %u)", s, n);
		rc = write(slots[s].fd, buf, n);
		break;
	default:
		iov[0] = (struct iovec){buf, n / 3};
		iov[1] = (struct iovec){buf + n / 3, n / 2 - n / 3};
		iov[2] = (struct iovec){buf + n / 2, n - n / 2};
		if (how == 2) {
			say("sendmsg(%d, %u,%s)", s, n, text);
			rc = sendmsg(slots[s].fd, &msg, flags);
		} else {
			say("writev(%d, %u)", s, n);
			rc = writev(slots[s].fd, iov, 3);
		}
	}
	result(rc);
}

static void op_sendto(void)
{
	int s = pick(), to = pick();
	static char buf[8192];
	unsigned n;
	struct sockaddr_in name;
	char text[64];
	int flags;

	if (s < 0 || to < 0 || (slots[s].tcp && roll(6)))
		return;
	name = name_of(slots[to].side, slots[to].port);
	if (spaces[0] >= 0 && slots[to].side == slots[s].side)
		return;
	n = roll_size(s);
	fill(buf, n);
	flags = send_flags(text);
	say("sendto(%d, %s, %u,%s)", s, text_of(&name, sizeof(name)), n, text);
	result(sendto(slots[s].fd, buf, n, flags, (struct sockaddr *)&name, sizeof(name)));
}

static void say_pending(int s)
{
	int error = 0;
	socklen_t len = sizeof(error);

	getsockopt(slots[s].fd, SOL_SOCKET, SO_ERROR, &error, &len);
	say("pending(%d): %d\n", s, error);
}

static void op_recv(void)
{
	int s = pick(), flags = 0;
	static char buf[8192];
	unsigned n = sizes[roll(9)];
	struct sockaddr_in name = {0};
	struct iovec iov[2] = {{buf, n / 2}, {buf + n / 2, n - n / 2}};
	char control[256];
	struct msghdr msg = {.msg_name = &name,
			     .msg_namelen = sizeof(name),
			     .msg_iov = iov,
			     .msg_iovlen = 2,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	char text[64] = "";
	ssize_t rc;
	int how = (int)roll(4);

	if (s < 0)
		return;
	if (!roll(4)) {
		flags |= MSG_PEEK;
		strcat(text, " PEEK");
	}
	if (!roll(6)) {
		flags |= MSG_TRUNC;
		strcat(text, " TRUNC");
	}
	if (!roll(10)) {
		flags |= MSG_OOB;
		strcat(text, " OOB");
	}
	if (!roll(10) && !slots[s].tcp) {
		flags |= MSG_WAITALL;
		strcat(text, " WAITALL");
	}
	if (!roll(16) && !slots[s].tcp) {
		flags |= MSG_ERRQUEUE;
		strcat(text, " ERRQUEUE");
	}
	memset(buf, 0, sizeof(buf));
	if (!slots[s].tcp)
		say_pending(s);
	switch (how) {
	case 0:
		say("recv(%d, %u,%s)", s, n, text);
		rc = recv(slots[s].fd, buf, n, flags);
		break;
	case 1:
		say("read(%d, %u)", s, n);
		rc = read(slots[s].fd, buf, n);
		break;
	default:
		say("recvmsg(%d, %u,%s)", s, n, text);
		rc = recvmsg(slots[s].fd, &msg, flags);
		if (rc >= 0)
			printf(" from %s flags %x control %zu",
			       slots[s].tcp ? "-" : text_of(&name, msg.msg_namelen), msg.msg_flags,
			       msg.msg_controllen);
	}
	if (rc > 0)
		printf(" data %x", hash(buf, (size_t)rc < n ? (size_t)rc : n));
	result(rc);
}

static void op_shutdown(void)
{
	int s = pick(), how = (int)roll(3);

	if (s < 0 || roll(3) || (slots[s].tcp && !slots[s].conn))
		return;
	say("shutdown(%d, %d)", s, how);
	slots[s].shut |= how == 0 ? 1 : how == 1 ? 2 : 3;
	result(shutdown(slots[s].fd, how));
}

static void op_close(void)
{
	int s = pick();

	if (s < 0)
		return;
	say("close(%d)", s);
	result(close(slots[s].fd));
	slots[s].fd = -1;
}

static void op_dup(void)
{
	int s = pick(), to = pick_free();

	if (s < 0 || to < 0)
		return;
	say("dup(%d) = %d\n", s, to);
	slots[to] = slots[s];
	slots[to].fd = dup(slots[s].fd);
}

static void op_names(void)
{
	int s = pick();
	struct sockaddr_in name = {0};
	socklen_t len = sizeof(name);
	int rc;

	if (s < 0)
		return;
	rc = getsockname(slots[s].fd, (struct sockaddr *)&name, &len);
	say("getsockname(%d): %s", s, text_of(&name, len));
	result(rc);
	memset(&name, 0, sizeof(name));
	len = sizeof(name);
	rc = getpeername(slots[s].fd, (struct sockaddr *)&name, &len);
	say("getpeername(%d): %s", s, rc ? "" : text_of(&name, len));
	result(rc);
}

static const struct option {
	const char *name;
	int level, opt, value;
} options[] = {
	{"SO_ERROR", SOL_SOCKET, SO_ERROR, -1},
	{"SO_TYPE", SOL_SOCKET, SO_TYPE, -1},
	{"SO_ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN, -1},
	{"SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1},
	{"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1},
	{"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 50},
	{"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1},
	{"SO_BROADCAST", SOL_SOCKET, SO_BROADCAST, 1},
	{"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 3},
	{"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1},
	{"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 100},
	{"IP_TTL", IPPROTO_IP, IP_TTL, 33},
	{"IP_TOS", IPPROTO_IP, IP_TOS, 16},
	{"IP_RECVERR", IPPROTO_IP, IP_RECVERR, 1},
	{"IP_PKTINFO", IPPROTO_IP, IP_PKTINFO, 1},
	{"IP_RECVTTL", IPPROTO_IP, IP_RECVTTL, 1},
};

static void op_option(void)
{
	int s = pick(), value = 0, rc;
	const struct option *o = &options[roll(sizeof(options) / sizeof(*options))];
	socklen_t len = sizeof(value);

	if (s < 0 || (o->opt == IP_RECVERR && o->level == IPPROTO_IP && slots[s].tcp))
		return;
	if (o->value >= 0 && roll(2)) {
		value = roll(3) ? o->value : 0;
		say("setsockopt(%d, %s, %d)", s, o->name, value);
		result(setsockopt(slots[s].fd, o->level, o->opt, &value, sizeof(value)));
		return;
	}
	rc = getsockopt(slots[s].fd, o->level, o->opt, &value, &len);
	say("getsockopt(%d, %s): %d", s, o->name, rc ? 0 : value);
	result(rc);
}

static void op_linger(void)
{
	int s = pick();
	struct linger l = {.l_onoff = (int)roll(2), .l_linger = 0};

	if (s < 0)
		return;
	say("linger(%d, %d)", s, l.l_onoff);
	result(setsockopt(slots[s].fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
}

static void op_ioctl(void)
{
	int s = pick(), n = -1, rc;
	static const struct {
		const char *name;
		unsigned long request;
	} list[] = {{"FIONREAD", FIONREAD}, {"SIOCATMARK", SIOCATMARK}, {"SIOCOUTQ", SIOCOUTQ}};
	unsigned i = roll(3);

	if (s < 0 || (i == 2 && slots[s].tcp))
		return;
	rc = ioctl(slots[s].fd, list[i].request, &n);
	say("ioctl(%d, %s): %d", s, list[i].name, rc ? 0 : n);
	result(rc);
}

static const uint32_t masks[] = {EPOLLIN, EPOLLOUT, EPOLLIN | EPOLLOUT, EPOLLIN | EPOLLRDHUP,
				 EPOLLPRI | EPOLLIN};

static void op_epoll_ctl(void)
{
	int s = pick(), op = (int)roll(3) + 1;
	uint32_t how = masks[roll(5)] | (roll(3) ? 0 : EPOLLET) | (roll(6) ? 0 : EPOLLONESHOT);
	struct epoll_event event = {.events = how, .data.u32 = (uint32_t)s};

	if (s < 0)
		return;
	/* The kernel makes an edge of each datagram that has left, and of an end also for a writer. */
	if (!slots[s].tcp || !(how & EPOLLIN))
		event.events = how &= ~(uint32_t)EPOLLET;
	say("epoll_ctl(%s, %d, %x)", op == 1 ? "ADD" : op == 2 ? "DEL" : "MOD", s, how);
	result(epoll_ctl(ep, op, slots[s].fd, &event));
}

static int by_data(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;

	return (int)x->data.u32 - (int)y->data.u32;
}

static void op_epoll_wait(void)
{
	struct epoll_event events[32];
	int n = epoll_wait(ep, events, 32, 0);

	say("epoll_wait:");
	if (n > 0)
		qsort(events, (size_t)n, sizeof(events[0]), by_data);
	for (int i = 0; i < n; i++)
		printf(" %u:%x", events[i].data.u32, events[i].events);
	result(n);
}

static void op_select(void)
{
	fd_set sets[3];
	int max = -1, n;
	struct timeval none = {0};

	for (int i = 0; i < 3; i++)
		FD_ZERO(&sets[i]);
	for (int s = 0; s < SLOTS; s++) {
		if (slots[s].fd < 0)
			continue;
		max = slots[s].fd > max ? slots[s].fd : max;
		for (int i = 0; i < 3; i++)
			FD_SET(slots[s].fd, &sets[i]);
	}
	n = select(max + 1, &sets[0], &sets[1], &sets[2], &none);
	say("select:");
	for (int s = 0; s < SLOTS && n > 0; s++) {
		if (slots[s].fd >= 0)
			printf(" %d:%d%d%d", s, FD_ISSET(slots[s].fd, &sets[0]) != 0,
			       FD_ISSET(slots[s].fd, &sets[1]) != 0,
			       FD_ISSET(slots[s].fd, &sets[2]) != 0);
	}
	result(n);
}

static void op_mmsg(void)
{
	int s = pick(), n = 1 + (int)roll(4), rc;
	static char buf[4][2000];
	struct mmsghdr msgs[4] = {0};
	struct iovec iov[4];
	bool sends = roll(2);

	if (s < 0)
		return;
	for (int i = 0; i < 4; i++) {
		iov[i] = (struct iovec){buf[i], sizes[roll(7)]};
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
		if (sends)
			fill(buf[i], iov[i].iov_len);
	}
	if (slots[s].tcp || spaces[0] >= 0)
		n = 1;
	if (!slots[s].tcp && !sends)
		say_pending(s);
	say("%smmsg(%d, %d)", sends ? "send" : "recv", s, n);
	rc = sends ? sendmmsg(slots[s].fd, msgs, (unsigned)n, MSG_NOSIGNAL)
		   : recvmmsg(slots[s].fd, msgs, (unsigned)n, roll(2) ? MSG_WAITFORONE : 0, NULL);
	for (int i = 0; i < rc; i++)
		printf(" %u", msgs[i].msg_len);
	result(rc);
}

static void op_pipe(void)
{
	int s = pick(), p[2];
	char buf[4096];
	ssize_t rc;

	if (s < 0 || pipe2(p, O_NONBLOCK))
		return;
	if (!slots[s].tcp)
		say_pending(s);
	if (slots[s].tcp && roll(2)) {
		unsigned n = 1 + roll(2000);

		fill(buf, n);
		if (write(p[1], buf, n) != (ssize_t)n)
			die("pipe");
		say("splice(pipe, %d, %u)", s, n);
		result(splice(p[0], NULL, slots[s].fd, NULL, n, SPLICE_F_NONBLOCK));
	} else {
		say("splice(%d, pipe)", s);
		rc = splice(slots[s].fd, NULL, p[1], NULL, 3000, SPLICE_F_NONBLOCK);
		if (rc > 0 && read(p[0], buf, sizeof(buf)) == rc)
			printf(" data %x", hash(buf, (size_t)rc));
		result(rc);
	}
	close(p[0]);
	close(p[1]);
}

/* ---- what can be seen -------------------------------------------------------------------- */

static void look(char *to, size_t size)
{
	size_t at = 0;

	to[0] = 0;
	for (int s = 0; s < SLOTS; s++) {
		struct pollfd pfd = {.fd = slots[s].fd,
				     .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP};
		int n = -1;

		if (slots[s].fd < 0)
			continue;
		poll(&pfd, 1, 0);
		if (slots[s].listens || slots[s].shut == 3 || ioctl(slots[s].fd, FIONREAD, &n))
			n = -1;
		at += (size_t)snprintf(to + at, size - at, " %d:%x/%d", s, pfd.revents, n);
	}
}

static void settle(void)
{
	char now[512], before[512] = "";
	struct timespec ts = {0, SETTLE};

	for (int same = 0, rounds = 0; same < 2 && rounds < 50; rounds++) {
		nanosleep(&ts, NULL);
		look(now, sizeof(now));
		same = strcmp(now, before) ? 0 : same + 1;
		strcpy(before, now);
	}
	say("   %s\n", now);
}

static void (*const ops[])(void) = {
	op_socket,  op_socket,	  op_bind,	op_bind,       op_listen,     op_listen,
	op_connect, op_connect,	  op_connect,	op_accept,     op_accept,     op_accept,
	op_send,    op_send,	  op_send,	op_send,       op_sendto,     op_sendto,
	op_recv,    op_recv,	  op_recv,	op_recv,       op_recv,	      op_shutdown,
	op_close,   op_dup,	  op_names,	op_option,     op_option,     op_linger,
	op_ioctl,   op_epoll_ctl, op_epoll_ctl, op_epoll_wait, op_epoll_wait, op_select,
	op_mmsg,    op_mmsg,	  op_pipe,
};

/* A listener, some connections, two datagram sockets. */
static void begin(void)
{
	bool other = spaces[0] >= 0;
	int l, u, v;
	struct sockaddr_in name;

	for (int s = 0; s < SLOTS; s++)
		slots[s].fd = -1;
	ep = epoll_create1(0);
	l = new_socket(true, other && roll(2), true);
	if (listen(slots[l].fd, 8))
		die("listen");
	slots[l].listens = true;
	for (int i = 0; i < 2; i++) {
		int c = new_socket(true, other && !slots[l].side, false), fd;

		name = name_of(slots[l].side, slots[l].port);
		if (connect(slots[c].fd, (struct sockaddr *)&name, sizeof(name)) &&
		    errno != EINPROGRESS)
			die("connect");
		slots[c].conn = true;
		poll(&(struct pollfd){slots[l].fd, POLLIN, 0}, 1, 1000);
		fd = accept4(slots[l].fd, NULL, NULL, SOCK_NONBLOCK);
		if (fd < 0)
			die("accept");
		new_accepted(fd, &slots[l]);
	}
	u = new_socket(false, false, true);
	v = new_socket(false, other, true);
	if (roll(2)) {
		name = name_of(slots[v].side, slots[v].port);
		if (connect(slots[u].fd, (struct sockaddr *)&name, sizeof(name)))
			die("connect");
	}
	if (roll(2)) {
		name = name_of(slots[u].side, slots[u].port);
		if (connect(slots[v].fd, (struct sockaddr *)&name, sizeof(name)))
			die("connect");
	}
	say("sides:");
	for (int s = 0; s < SLOTS; s++)
		if (slots[s].fd >= 0)
			printf(" %d:%s%d", s,
			       slots[s].listens ? "L"
			       : slots[s].tcp	? "T"
						: "U",
			       slots[s].side);
	printf("\n");
}

static void walk(uint64_t seed, unsigned steps)
{
	state = seed * 7919 + 1;
	step_no = 0;
	next_port = (uint16_t)(10000 + seed % 560 * 40);
	printf("seed %lu\n", (unsigned long)seed);
	begin();
	for (step_no = 1; step_no <= steps; step_no++) {
		ops[roll(sizeof(ops) / sizeof(*ops))]();
		settle();
	}
	for (int s = 0; s < SLOTS; s++) {
		if (slots[s].fd >= 0)
			close(slots[s].fd);
	}
	close(ep);
}

int main(int argc, char **argv)
{
	uint64_t from, count;

	if (argc < 4)
		return 2;
	from = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	if (argc > 5) {
		char path[64];

		for (int i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "/run/netns/%s", argv[4 + i]);
			spaces[i] = open(path, O_RDONLY | O_CLOEXEC);
			if (spaces[i] < 0)
				die(path);
		}
		addrs[0] = "10.9.0.1";
		addrs[1] = "10.9.0.2";
	}
	signal(SIGPIPE, SIG_IGN);
	for (uint64_t i = 0; i < count; i++) {
		walk(from + i, (unsigned)atoi(argv[3]));
		fflush(stdout);
	}
	return 0;
}
