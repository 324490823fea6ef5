/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll: what is reported, when, in which order; what epoll_ctl() refuses. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/look.h"

#define IN EPOLLIN
#define ET EPOLLET
#define ONCE EPOLLONESHOT

/* Arguments that compilers would warn about. */
static void *volatile nowhere;
static void *volatile bad_place = (void *)8;
static volatile int minus = -1, too_many = 1 << 30;

/* ---- the other side: does what it is told -------------------------------------------- */

/* Reads n > 0: sends n bytes; 0: ends. */
static void sender(void)
{
	int fd = tcp_pair();
	char buf[10];
	long n;

	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	while ((n = hear()) > 0)
		MUST(send(fd, "abcdefghijklmnopqrstuvwxyz", (size_t)n, 0));
	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	close(fd);
	meet();
}

/* Requests n more bytes, and waits until they have arrived. */
static void get(int fd, int n, int sum)
{
	tell(n);
	await_bytes(fd, sum);
}

static void end(int fd, int ep)
{
	tell(0);
	meet();
	close(fd);
	close(ep);
}

/* A datagram to port(1) for each number; the text names it. */
static void udp_sender(void)
{
	int fd = udp_bound(0);
	struct sockaddr_in to = client_addr(1);
	long n;

	while ((n = hear()) > 0) {
		to.sin_port = htons(port((unsigned)n));
		MUST(sendto(fd, "datagram", (size_t)n, 0, (struct sockaddr *)&to, sizeof(to)));
		meet();
	}
	close(fd);
}

static void datagram(int fd, unsigned i)
{
	tell(i);
	meet();
	await(fd, POLLIN);
}

/* ---- level, edge, once ----------------------------------------------------------------- */

static void level(void)
{
	int fd = tcp_pair(), ep = ep_new();
	char buf[10];

	ep_add(ep, fd, IN, 1);
	ep_say("nothing", ep, 8, 0);
	get(fd, 4, 4);
	ep_say("4 bytes", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	SAY(read(fd, buf, 2));
	ep_say("2 left", ep, 8, 0);
	SAY(read(fd, buf, 10));
	ep_say("none left", ep, 8, 0);
	end(fd, ep);
}

static void edge(void)
{
	int fd = tcp_pair(), ep = ep_new();
	char buf[10];

	ep_add(ep, fd, IN | ET, 1);
	get(fd, 4, 4);
	ep_say("4 bytes", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	SAY(read(fd, buf, 2));
	ep_say("partly read", ep, 8, 0);
	get(fd, 3, 5);
	ep_say("3 more", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	SAY(read(fd, buf, 10));
	ep_say("all read", ep, 8, 0);
	get(fd, 1, 1);
	ep_say("1 more", ep, 8, 0);
	ep_mod(ep, fd, IN | ET, 1);
	ep_say("modified", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	end(fd, ep);
}

/* The room that a read creates is no event with the library. */
static void edge_inout(void)
{
	int fd = tcp_pair(), ep = ep_new();
	char buf[10];

	ep_add(ep, fd, IN | EPOLLOUT | ET, 1);
	ep_say("connected", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	get(fd, 4, 4);
	ep_say("4 bytes", ep, 8, 0);
	SAY(read(fd, buf, 10));
	ep_say("read", ep, 8, 0);
	SAY(send(fd, "x", 1, 0));
	await_acked(fd);
	ep_say("sent", ep, 8, 0);
	get(fd, 1, 1);
	ep_say("1 byte", ep, 8, 0);
	end(fd, ep);
}

static void edge_hup(void)
{
	int fd = tcp_pair(), ep = ep_new();
	char buf[10];

	ep_add(ep, fd, IN | EPOLLRDHUP | ET, 1);
	tell(0);
	meet();
	await(fd, POLLRDHUP);
	ep_say("closed", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	SAY(read(fd, buf, 10));
	ep_say("read", ep, 8, 0);
	SAY(shutdown(fd, SHUT_WR));
	ep_say("shut", ep, 8, 0);
	close(fd);
	close(ep);
}

static void oneshot(void)
{
	int fd = tcp_pair(), ep = ep_new();
	char buf[10];

	ep_add(ep, fd, IN | ONCE, 1);
	get(fd, 4, 4);
	ep_say("4 bytes", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	get(fd, 1, 5);
	ep_say("1 more", ep, 8, 0);
	ep_mod(ep, fd, IN | ONCE, 2);
	ep_say("modified", ep, 8, 0);
	SAY(read(fd, buf, 10));
	ep_mod(ep, fd, IN | ONCE, 3);
	ep_say("nothing to read", ep, 8, 0);
	get(fd, 1, 1);
	ep_say("1 byte", ep, 8, 0);
	end(fd, ep);
}

static void oneshot_edge(void)
{
	int fd = tcp_pair(), ep = ep_new();

	ep_add(ep, fd, IN | ONCE | ET, 1);
	get(fd, 4, 4);
	ep_say("4 bytes", ep, 8, 0);
	get(fd, 1, 5);
	ep_say("1 more", ep, 8, 0);
	ep_mod(ep, fd, IN | ONCE | ET, 2);
	ep_say("modified", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	end(fd, ep);
}

/* A disabled entry does not report errors either. */
static void oneshot_hup(void)
{
	int fd = tcp_pair(), ep = ep_new();

	ep_add(ep, fd, EPOLLOUT | ONCE, 1);
	ep_say("writable", ep, 8, 0);
	SAY(shutdown(fd, SHUT_WR));
	tell(0);
	meet();
	await(fd, POLLHUP);
	ep_say("hung up", ep, 8, 0);
	ep_mod(ep, fd, 0, 2);
	ep_say("modified to nothing", ep, 8, 0);
	close(fd);
	close(ep);
}

static void rdhup_only(void)
{
	int fd = tcp_pair(), ep = ep_new();

	ep_add(ep, fd, EPOLLRDHUP, 1);
	get(fd, 4, 4);
	ep_say("data", ep, 8, 0);
	tell(0);
	meet();
	ep_say("closed", ep, 8, PATIENCE);
	close(fd);
	close(ep);
}

static void no_events(void)
{
	int fd = tcp_pair(), ep = ep_new();

	ep_add(ep, fd, 0, 1);
	get(fd, 4, 4);
	ep_say("data", ep, 8, 0);
	ep_mod(ep, fd, EPOLLRDNORM, 1);
	ep_say("RDNORM", ep, 8, 0);
	ep_mod(ep, fd, EPOLLWRNORM | EPOLLWAKEUP, 1);
	ep_say("WRNORM", ep, 8, 0);
	ep_mod(ep, fd, EPOLLRDBAND | EPOLLPRI | EPOLLMSG, 1);
	ep_say("RDBAND, PRI, MSG", ep, 8, 0);
	end(fd, ep);
}

static void udp_edge(void)
{
	int fd = udp_bound(1), ep = ep_new();
	char buf[10];

	ep_add(ep, fd, IN | ET, 1);
	datagram(fd, 1);
	ep_say("one", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	SAY(recv(fd, buf, 10, MSG_PEEK));
	ep_say("peeked", ep, 8, 0);
	datagram(fd, 1);
	ep_say("two", ep, 8, 0);
	SAY(recv(fd, buf, 10, 0));
	ep_say("one read", ep, 8, 0);
	SAY(recv(fd, buf, 10, 0));
	datagram(fd, 1);
	ep_say("one", ep, 8, 0);
	tell(0);
	close(fd);
	close(ep);
}

/* The kernel also checks for writers whether there is room. */
static void udp_edge_out(void)
{
	int fd = udp_bound(1), ep = ep_new();

	ep_add(ep, fd, IN | EPOLLOUT | ET, 1);
	ep_say("writable", ep, 8, 0);
	ep_say("again", ep, 8, 0);
	datagram(fd, 1);
	ep_say("one", ep, 8, 0);
	ep_mod(ep, fd, EPOLLOUT, 1);
	ep_say("writers only", ep, 8, 0);
	tell(0);
	close(fd);
	close(ep);
}

/* ---- what is refused -------------------------------------------------------------------- */

static void control_errors(void)
{
	struct epoll_event event = {.events = IN};
	int ep = ep_new(), fd = udp_bound(1), pipes[2];

	MUST(pipe(pipes));
	SAY(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, NULL));
	SAY(epoll_ctl(ep, EPOLL_CTL_MOD, fd, NULL));
	SAY(epoll_ctl(ep, 77, fd, &event));
	SAY(epoll_ctl(ep, 77, fd, NULL));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, bad_place));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, 999, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, -1, &event));
	SAY(epoll_ctl(999, EPOLL_CTL_ADD, fd, &event));
	SAY(epoll_ctl(-1, EPOLL_CTL_ADD, fd, &event));
	SAY(epoll_ctl(fd, EPOLL_CTL_ADD, fd, &event));
	SAY(epoll_ctl(fd, EPOLL_CTL_ADD, ep, &event));
	SAY(epoll_ctl(pipes[0], EPOLL_CTL_ADD, fd, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, ep, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	SAY(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	close(fd);
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	close(ep);
	close(pipes[0]);
	close(pipes[1]);
}

static void control_files(void)
{
	struct epoll_event event = {.events = IN};
	int ep = ep_new(), fd = udp_bound(1), file = open("/dev/null", O_RDONLY);
	int dir = open("/", O_RDONLY), plain = open("/etc/passwd", O_RDONLY);

	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, file, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, dir, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, plain, &event));
	close(file);
	close(dir);
	close(plain);
	close(fd);
	close(ep);
}

static void exclusive_errors(void)
{
	int ep = ep_new(), inner = ep_new(), fd = udp_bound(1);

	SAY(ep_ctl(ep, EPOLL_CTL_ADD, fd, IN | EPOLLEXCLUSIVE | ONCE, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, fd, IN | EPOLLEXCLUSIVE | EPOLLRDHUP, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, fd, IN | EPOLLEXCLUSIVE | EPOLLPRI, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, inner, IN | EPOLLEXCLUSIVE, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, fd, IN | EPOLLEXCLUSIVE | ET | EPOLLWAKEUP, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_MOD, fd, IN, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_MOD, fd, IN | EPOLLEXCLUSIVE, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_DEL, fd, 0, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, fd, IN, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_MOD, fd, IN | EPOLLEXCLUSIVE, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_MOD, fd, IN | EPOLLEXCLUSIVE | ONCE, 1));
	close(fd);
	close(ep);
	close(inner);
}

static void wait_errors(void)
{
	struct timespec bad = {0, 1000000000}, negative = {-1, 0}, none = {0, 0};
	struct epoll_event events[4];
	int ep = ep_new(), fd = udp_bound(1);

	ep_add(ep, fd, EPOLLOUT, 1);
	SAY(epoll_wait(ep, events, 0, 0));
	SAY(epoll_wait(ep, events, minus, 0));
	SAY(epoll_wait(ep, events, too_many, 0));
	SAY(epoll_wait(ep, nowhere, 4, 0));
	SAY(epoll_wait(ep, bad_place, 4, 0));
	SAY(epoll_wait(fd, events, 4, 0));
	SAY(epoll_wait(999, events, 4, 0));
	SAY(epoll_wait(-1, events, 4, 0));
	SAY(epoll_wait(-1, events, 0, 0));
	SAY(epoll_pwait(ep, events, 4, 0, NULL));
	SAY(epoll_pwait(fd, events, 4, 0, NULL));
	SAY(epoll_pwait2(ep, events, 4, &bad, NULL));
	SAY(epoll_pwait2(ep, events, 4, &negative, NULL));
	SAY(epoll_pwait2(ep, events, 4, &none, NULL));
	SAY(epoll_pwait2(ep, events, 4, NULL, NULL));
	SAY(epoll_pwait2(ep, events, 0, &none, NULL));
	SAY(epoll_pwait2(-1, events, 4, &none, NULL));
	SAY(epoll_pwait2(-1, events, 4, &bad, NULL));
	close(fd);
	close(ep);
}

static void create_errors(void)
{
	int fd;

	SAY(epoll_create(0));
	SAY(epoll_create(-1));
	SAY(epoll_create1(1));
	fd = (int)MUST(epoll_create(1));
	say("flags %d", fcntl(fd, F_GETFD));
	close(fd);
	fd = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	say("flags %d", fcntl(fd, F_GETFD));
	SAY(read(fd, &fd, 4));
	SAY(write(fd, &fd, 4));
	SAY(lseek(fd, 0, SEEK_SET));
	SAY(send(fd, "x", 1, 0));
	close(fd);
}

static void loops(void)
{
	int a = ep_new(), b = ep_new(), fd = udp_bound(1), chain[8];

	ep_add(a, fd, IN, 1);
	SAY(ep_ctl(a, EPOLL_CTL_ADD, b, IN, 1));
	SAY(ep_ctl(b, EPOLL_CTL_ADD, a, IN, 1));
	SAY(ep_ctl(a, EPOLL_CTL_DEL, b, 0, 1));
	SAY(ep_ctl(b, EPOLL_CTL_ADD, a, IN, 1));
	for (int i = 0; i < 8; i++)
		chain[i] = ep_new();
	for (int i = 0; i < 7; i++)
		say("deep %d: %d", i, ep_ctl(chain[i + 1], EPOLL_CTL_ADD, chain[i], IN, 1));
	for (int i = 0; i < 8; i++)
		close(chain[i]);
	close(a);
	close(b);
	close(fd);
}

/* ---- order ------------------------------------------------------------------------------ */

static void order(void)
{
	int ep = ep_new(), fds[4];
	char buf[10];

	for (unsigned i = 0; i < 4; i++) {
		fds[i] = udp_bound(i + 1);
		ep_add(ep, fds[i], IN, i + 1);
	}
	datagram(fds[2], 3);
	datagram(fds[0], 1);
	datagram(fds[3], 4);
	ep_say("three", ep, 8, 0);
	datagram(fds[1], 2);
	for (int i = 0; i < 6; i++)
		ep_say("one at a time", ep, 1, 0);
	ep_say("three at a time", ep, 3, 0);
	ep_say("three at a time", ep, 3, 0);
	SAY(recv(fds[2], buf, 10, 0));
	ep_say("the rest", ep, 8, 0);
	ep_say("the rest", ep, 2, 0);
	ep_say("the rest", ep, 2, 0);
	tell(0);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	close(ep);
}

static void order_edge(void)
{
	int ep = ep_new(), fds[4];

	for (unsigned i = 0; i < 4; i++) {
		fds[i] = udp_bound(i + 1);
		ep_add(ep, fds[i], IN | ET, i + 1);
	}
	datagram(fds[3], 4);
	datagram(fds[1], 2);
	datagram(fds[0], 1);
	ep_say("two", ep, 2, 0);
	datagram(fds[2], 3);
	ep_say("two", ep, 2, 0);
	ep_say("none", ep, 2, 0);
	tell(0);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	close(ep);
}

/* Ready descriptors were added in some order. */
static void order_added(void)
{
	int ep = ep_new(), fds[4];
	static const unsigned turn[] = {2, 0, 3, 1};

	for (unsigned i = 0; i < 4; i++)
		fds[i] = udp_bound(i + 1);
	for (unsigned i = 0; i < 4; i++)
		ep_add(ep, fds[turn[i]], EPOLLOUT, turn[i] + 1);
	ep_say("all", ep, 8, 0);
	ep_say("two", ep, 2, 0);
	ep_say("two", ep, 2, 0);
	ep_mod(ep, fds[3], 0, 4);
	ep_say("not the fourth", ep, 8, 0);
	ep_mod(ep, fds[3], EPOLLOUT, 4);
	ep_say("all", ep, 8, 0);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	close(ep);
}

/* ---- several sets, sets in sets --------------------------------------------------------- */

static void two_sets(void)
{
	int fd = tcp_pair(), a = ep_new(), b = ep_new();
	char buf[10];

	ep_add(a, fd, IN | ET, 1);
	ep_add(b, fd, IN, 2);
	get(fd, 3, 3);
	ep_say("a", a, 8, 0);
	ep_say("b", b, 8, 0);
	ep_say("a again", a, 8, 0);
	ep_say("b again", b, 8, 0);
	SAY(ep_ctl(b, EPOLL_CTL_DEL, fd, 0, 2));
	ep_say("b without", b, 8, 0);
	get(fd, 3, 6);
	ep_say("a", a, 8, 0);
	SAY(recv(fd, buf, 10, 0));
	ep_say("a, read", a, 8, 0);
	close(b);
	end(fd, a);
}

static void nested(void)
{
	int fd = tcp_pair(), inner = ep_new(), outer = ep_new();
	char buf[10];

	ep_add(inner, fd, IN, 1);
	ep_add(outer, inner, IN, 2);
	ep_say("outer, nothing", outer, 8, 0);
	look("inner, nothing", inner);
	get(fd, 3, 3);
	look("inner", inner);
	ep_say("outer", outer, 8, 0);
	ep_say("outer again", outer, 8, 0);
	ep_say("inner", inner, 8, 0);
	ep_say("outer", outer, 8, 0);
	SAY(recv(fd, buf, 10, 0));
	ep_say("outer, read", outer, 8, 0);
	look("inner, read", inner);
	close(inner);
	end(fd, outer);
}

static void nested_edge(void)
{
	int fd = tcp_pair(), inner = ep_new(), outer = ep_new();
	char buf[10];

	ep_add(inner, fd, IN, 1);
	ep_add(outer, inner, IN | ET, 2);
	ep_say("nothing", outer, 8, 0);
	get(fd, 3, 3);
	ep_say("data", outer, 8, 0);
	ep_say("again", outer, 8, 0);
	get(fd, 3, 6);
	ep_say("more data", outer, 8, 0);
	ep_say("inner", inner, 8, 0);
	SAY(recv(fd, buf, 10, 0));
	ep_say("read", outer, 8, 0);
	get(fd, 1, 1);
	ep_say("and more", outer, 8, 0);
	close(inner);
	end(fd, outer);
}

/* The inner set contains no accelerated socket. */
static void nested_kernel(void)
{
	int fd = udp_bound(1), event = eventfd(0, 0), inner = ep_new(), outer = ep_new();
	uint64_t one = 1;

	ep_add(inner, event, IN, 1);
	ep_add(outer, inner, IN, 2);
	ep_add(outer, fd, IN, 3);
	ep_say("nothing", outer, 8, 0);
	MUST(write(event, &one, 8));
	ep_say("event", outer, 8, PATIENCE);
	look("inner", inner);
	look("outer", outer);
	ep_say("inner", inner, 8, 0);
	MUST(read(event, &one, 8));
	ep_say("read", outer, 8, 0);
	ep_add(inner, fd, EPOLLOUT, 4);
	ep_say("a socket in the inner set", outer, 8, 0);
	ep_mod(inner, fd, IN, 4);
	MUST(write(event, &one, 8));
	ep_say("inner", inner, 8, 0);
	close(inner);
	ep_say("inner closed", outer, 8, 0);
	close(event);
	close(outer);
	close(fd);
}

static void nested_kernel_edge(void)
{
	int fd = udp_bound(1), event = eventfd(0, 0), inner = ep_new(), outer = ep_new();
	uint64_t one = 1;

	ep_add(inner, event, IN, 1);
	ep_add(outer, inner, IN | ET, 2);
	ep_add(outer, fd, IN, 3);
	MUST(write(event, &one, 8));
	ep_say("event", outer, 8, 0);
	ep_say("again", outer, 8, 0);
	MUST(write(event, &one, 8));
	ep_say("one more", outer, 8, 0);
	ep_mod(outer, inner, IN | ONCE, 5);
	ep_say("once", outer, 8, 0);
	ep_say("again", outer, 8, 0);
	close(inner);
	close(event);
	close(outer);
	close(fd);
}

/* Waits at the outer set; no thread polls the inner one. */
static void nested_sleep(void)
{
	int fd = tcp_pair(), inner = ep_new(), middle = ep_new(), outer = ep_new();
	struct pollfd p = {.fd = outer, .events = POLLIN};
	struct epoll_event event;

	ep_add(inner, fd, IN, 1);
	ep_add(middle, inner, IN, 2);
	ep_add(outer, middle, IN, 3);
	SAY_TIMEOUT(50000, epoll_wait(outer, &event, 1, 50));
	tell(3);
	ep_say("data", outer, 8, PATIENCE);
	SAY(poll(&p, 1, 0));
	say_events("outer", (uint16_t)p.revents);
	p.fd = middle;
	SAY(poll(&p, 1, 0));
	close(inner);
	ep_say("the inner one closed", outer, 8, 0);
	close(middle);
	end(fd, outer);
}

/* ---- descriptors that go ------------------------------------------------------------------ */

static void closed(void)
{
	int fd = tcp_pair(), ep = ep_new(), copy;

	ep_add(ep, fd, IN, 1);
	get(fd, 3, 3);
	copy = (int)MUST(dup(fd));
	ep_say("data", ep, 8, 0);
	close(fd);
	ep_say("one descriptor closed", ep, 8, 0);
	SAY(ep_ctl(ep, EPOLL_CTL_MOD, fd, IN, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_DEL, copy, 0, 1));
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, copy, IN, 2));
	ep_say("the other one in the set", ep, 8, 0);
	tell(0);
	meet();
	close(copy);
	ep_say("both closed", ep, 8, 0);
	close(ep);
}

static void closed_reused(void)
{
	int fd = tcp_pair(), ep = ep_new(), other;

	ep_add(ep, fd, IN, 1);
	get(fd, 3, 3);
	tell(0);
	meet();
	close(fd);
	other = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));
	say("same number: %d", other == fd);
	ep_say("closed", ep, 8, 0);
	SAY(ep_ctl(ep, EPOLL_CTL_MOD, other, EPOLLOUT, 2));
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, other, EPOLLOUT, 2));
	ep_say("another one", ep, 8, 0);
	close(other);
	other = (int)MUST(eventfd(1, 0));
	say("same number: %d", other == fd);
	ep_say("nothing", ep, 8, 0);
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, other, IN, 3));
	ep_say("an eventfd", ep, 8, 0);
	close(other);
	close(ep);
}

/* Another descriptor gets the number while the socket exists under another one. */
static void number_reused(void)
{
	int fd = tcp_pair(), ep = ep_new(), copy, other;

	ep_add(ep, fd, IN, 1);
	copy = (int)MUST(dup(fd));
	close(fd);
	other = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));
	say("same number: %d", other == fd);
	get(copy, 3, 3);
	SAY(ep_ctl(ep, EPOLL_CTL_ADD, other, EPOLLOUT, 2));
	ep_say("both", ep, 8, 0);
	SAY(ep_ctl(ep, EPOLL_CTL_DEL, other, 0, 2));
	ep_say("the old one", ep, 8, 0);
	tell(0);
	meet();
	close(copy);
	ep_say("none", ep, 8, 0);
	close(other);
	close(ep);
}

static void dups(void)
{
	int fd = tcp_pair(), ep = ep_new(), copy = (int)MUST(dup(fd));
	char buf[10];

	ep_add(ep, fd, IN, 1);
	ep_add(ep, copy, IN, 2);
	get(fd, 3, 3);
	ep_say("two names", ep, 8, 0);
	ep_say("one at a time", ep, 1, 0);
	ep_say("one at a time", ep, 1, 0);
	ep_mod(ep, fd, 0, 1);
	ep_say("the first is quiet", ep, 8, 0);
	SAY(recv(fd, buf, 10, 0));
	ep_say("read", ep, 8, 0);
	close(copy);
	end(fd, ep);
}

static void dup_set(void)
{
	int fd = tcp_pair(), ep = ep_new(), copy;

	ep_add(ep, fd, IN, 1);
	copy = (int)MUST(dup(ep));
	get(fd, 3, 3);
	ep_say("by the copy", copy, 8, 0);
	close(ep);
	ep_say("the first closed", copy, 8, 0);
	SAY(ep_ctl(copy, EPOLL_CTL_MOD, fd, EPOLLOUT, 2));
	ep_say("by the copy", copy, 8, 0);
	SAY(ep_ctl(copy, EPOLL_CTL_DEL, fd, 0, 2));
	ep_say("empty", copy, 8, 0);
	end(fd, copy);
}

static void dup2_over(void)
{
	int fd = tcp_pair(), ep = ep_new(), null = open("/dev/null", O_RDWR);

	ep_add(ep, fd, IN, 1);
	get(fd, 3, 3);
	tell(0);
	meet();
	SAY(dup2(null, fd) == fd);
	ep_say("replaced", ep, 8, 0);
	SAY(ep_ctl(ep, EPOLL_CTL_DEL, fd, 0, 1));
	close(null);
	close(fd);
	close(ep);
}

/* ---- with the kernel's descriptors --------------------------------------------------------- */

static void mixed(void)
{
	int fd = tcp_pair(), ep = ep_new(), event = eventfd(0, EFD_NONBLOCK), pipes[2], timer, sigs;
	struct itimerspec soon = {{0, 0}, {0, 20000000}};
	uint64_t one = 1;
	sigset_t set, old;
	char buf[200];

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &old);
	sigs = (int)MUST(signalfd(-1, &set, SFD_NONBLOCK));
	timer = (int)MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
	MUST(pipe(pipes));
	ep_add(ep, fd, IN, 1);
	ep_add(ep, event, IN, 2);
	ep_add(ep, pipes[0], IN, 3);
	ep_add(ep, timer, IN, 4);
	ep_add(ep, sigs, IN, 5);
	ep_say("nothing", ep, 8, 10);
	MUST(write(event, &one, 8));
	ep_say("eventfd", ep, 8, PATIENCE);
	MUST(read(event, &one, 8));
	MUST(timerfd_settime(timer, 0, &soon, NULL));
	ep_say("timerfd", ep, 8, PATIENCE);
	MUST(read(timer, &one, 8));
	raise(SIGUSR1);
	ep_say("signalfd", ep, 8, PATIENCE);
	MUST(read(sigs, buf, sizeof(buf)));
	MUST(write(pipes[1], "x", 1));
	ep_say("pipe", ep, 8, PATIENCE);
	MUST(read(pipes[0], buf, 1));
	get(fd, 3, 3);
	ep_say("socket", ep, 8, PATIENCE);
	close(pipes[1]);
	MUST(read(fd, buf, 10));
	ep_say("pipe closed", ep, 8, PATIENCE);
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(pipes[0]);
	close(timer);
	close(sigs);
	close(event);
	end(fd, ep);
}

/* Both are always ready: each is reported about as often as the other. */
static void no_starving(void)
{
	int fd = udp_bound(1), ep = ep_new(), event = eventfd(1, 0), ours = 0, kernels = 0;

	ep_add(ep, fd, EPOLLOUT, 1);
	ep_add(ep, event, IN, 2);
	for (int i = 0; i < 4000; i++) {
		struct epoll_event got;

		if (epoll_wait(ep, &got, 1, 100) == 1)
			(got.data.u32 == 1 ? &ours : &kernels)[0]++;
	}
	SAY_IF(ours > 100);
	SAY_IF(kernels > 5);
	close(fd);
	close(event);
	close(ep);
}

/* A listener gets connections through the kernel and from the other side. */
static void listener_server(void)
{
	struct sockaddr_in sin = any_addr(0), lo = any_addr(0);
	int listener = (int)MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)), ep = ep_new(),
	    fd, local;

	set_int(listener, SOL_SOCKET, SO_REUSEADDR, 1);
	MUST(bind(listener, (struct sockaddr *)&sin, sizeof(sin)));
	MUST(listen(listener, 5));
	ep_add(ep, listener, IN | ET, 1);
	ep_say("nothing", ep, 8, 0);
	meet();
	ep_say("a connection", ep, 8, PATIENCE);
	fd = (int)SAY(accept(listener, NULL, NULL) >= 0);
	ep_say("taken", ep, 8, 0);
	lo.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	local = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(connect(local, (struct sockaddr *)&lo, sizeof(lo)));
	ep_say("a local one", ep, 8, PATIENCE);
	ep_say("again", ep, 8, 0);
	look("listener", listener);
	SAY((fd = accept(listener, NULL, NULL)) >= 0);
	look("listener", listener);
	SAY(accept(listener, NULL, NULL));
	meet();
	close(fd);
	close(local);
	close(listener);
	close(ep);
	for (int i = 3; i < 20; i++)
		close(i);
}

static void listener_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

const struct behaviour epoll_behaviours[] = {
	{"level", sender, level, OURS},
	{"edge", sender, edge, OURS},
	{"edge_inout", sender, edge_inout, OURS},
	{"edge_hup", sender, edge_hup, OURS},
	{"oneshot", sender, oneshot, OURS},
	{"oneshot_edge", sender, oneshot_edge, OURS},
	{"oneshot_hup", sender, oneshot_hup, OURS},
	{"rdhup_only", sender, rdhup_only, OURS},
	{"no_events", sender, no_events, OURS},
	{"udp_edge", udp_sender, udp_edge, OURS},
	{"udp_edge_out", udp_sender, udp_edge_out, OURS},
	{"control_errors", NULL, control_errors, OURS},
	{"control_files", NULL, control_files, OURS},
	{"exclusive_errors", NULL, exclusive_errors, OURS},
	{"wait_errors", NULL, wait_errors, OURS},
	{"create_errors", NULL, create_errors, OURS},
	{"loops", NULL, loops, OURS},
	{"order", udp_sender, order, OURS},
	{"order_edge", udp_sender, order_edge, OURS},
	{"order_added", NULL, order_added, OURS},
	{"two_sets", sender, two_sets, OURS},
	{"nested", sender, nested, OURS},
	{"nested_edge", sender, nested_edge, OURS},
	{"nested_kernel", NULL, nested_kernel, OURS},
	{"nested_kernel_edge", NULL, nested_kernel_edge, OURS},
	{"nested_sleep", sender, nested_sleep, OURS},
	{"closed", sender, closed, OURS},
	{"closed_reused", sender, closed_reused, OURS},
	{"number_reused", sender, number_reused, OURS},
	{"dups", sender, dups, OURS},
	{"dup_set", sender, dup_set, OURS},
	{"dup2_over", sender, dup2_over, OURS},
	{"mixed", sender, mixed, OURS},
	{"no_starving", NULL, no_starving, OURS},
	{"listener", listener_server, listener_client, KERNEL},
	{0},
};
