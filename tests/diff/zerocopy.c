/* SPDX-License-Identifier: BSD-2-Clause */
/* SO_ZEROCOPY on streams: which sends get a number, and how their completions are told. */
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h> /* needs <time.h> */

#include "tests/diff/diff.h"

/* ---- the other side ---------------------------------------------------------------------------- */

/* Reads all, and then closes, too. */
static void takes_all(void)
{
	static char buf[1 << 16];
	int fd = tcp_pair();

	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
}

/* ---- completions ------------------------------------------------------------------------------- */

/* Not the code: whether the kernel had to copy depends on the receiver's driver. */
static void say_completion(const struct cmsghdr *c)
{
	struct sock_extended_err e;
	const unsigned char *rest = CMSG_DATA(c) + sizeof(e);
	unsigned sum = 0;

	memcpy(&e, CMSG_DATA(c), sizeof(e));
	for (const unsigned char *at = rest; at < (const unsigned char *)c + c->cmsg_len; at++)
		sum += *at;
	say("errno %u origin %u type %u code %s pad %u, then %s", e.ee_errno, e.ee_origin,
	    e.ee_type, e.ee_code > SO_EE_CODE_ZEROCOPY_COPIED ? "unknown" : "known", e.ee_pad,
	    sum ? "an address" : "zeros");
}

/* One entry of the error queue; false: there is none. */
static bool read_entry(int fd, uint32_t *lo, uint32_t *hi, bool tells)
{
	char control[256] __attribute__((aligned(8))), byte = 'b';
	struct sockaddr_in name;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_name = &name,
			     .msg_namelen = sizeof(name),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct sock_extended_err e;
	ssize_t n = recvmsg(fd, &msg, MSG_ERRQUEUE);

	if (n < 0)
		return false;
	if (tells)
		say("%zd bytes, flags %x, name %u, control %zu, %c", n, (unsigned)msg.msg_flags,
		    msg.msg_namelen, msg.msg_controllen, byte);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (tells)
			say("level %d type %d length %zu", c->cmsg_level, c->cmsg_type,
			    c->cmsg_len);
		if (c->cmsg_level == SOL_SOCKET)
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		*lo = e.ee_info;
		*hi = e.ee_data;
		if (tells)
			say_completion(c);
	}
	return true;
}

/* Reads until all numbers up to `last` are told, in as many entries as there are: those from `first`. */
static void read_to(int fd, uint32_t first, uint32_t last)
{
	uint32_t lo, hi, next = first;

	while (next != last + 1) {
		await(fd, POLLERR);
		if (!read_entry(fd, &lo, &hi, false) || lo != next || hi < lo || hi > last) {
			say("not %u", next);
			return;
		}
		next = hi + 1;
	}
	say("completed: %u to %u", first, last);
}

static void nothing_more(int fd)
{
	char c;

	SAY(recv(fd, &c, 1, MSG_ERRQUEUE));
}

/* All sends before are told with this one. */
static void send_last(int fd, uint32_t first, uint32_t last)
{
	MUST(send(fd, "last", 4, MSG_ZEROCOPY));
	read_to(fd, first, last);
	nothing_more(fd);
}

static int zerocopy_pair(void)
{
	int fd = tcp_pair();

	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	return fd;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

static void one_client(void)
{
	int fd = tcp_pair();
	uint32_t lo = 99, hi = 99;

	nothing_more(fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ZEROCOPY));
	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	SAY(get_int(fd, SOL_SOCKET, SO_ZEROCOPY));
	nothing_more(fd);
	SAY(send(fd, "hello", 5, MSG_ZEROCOPY));
	await(fd, POLLERR);
	read_entry(fd, &lo, &hi, true);
	say("%u to %u", lo, hi);
	nothing_more(fd);
	close(fd);
}

static void ranges_client(void)
{
	int fd = zerocopy_pair();

	for (unsigned i = 0; i < 3; i++)
		SAY(send(fd, "abc", 3, MSG_ZEROCOPY));
	read_to(fd, 0, 2);
	nothing_more(fd);
	SAY(send(fd, "d", 1, MSG_ZEROCOPY | MSG_DONTWAIT));
	read_to(fd, 3, 3);
	nothing_more(fd);
	close(fd);
}

/* What gets a number: also urgent data, and what waits for more. */
static void flags_client(void)
{
	char text[] = "xyz";
	struct iovec iov[2] = {{text, 1}, {text + 1, 2}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	struct mmsghdr msgs[3] = {{.msg_hdr = msg}, {.msg_hdr = msg}, {.msg_hdr = msg}};
	int fd = zerocopy_pair();

	SAY(send(fd, "m", 1, MSG_ZEROCOPY | MSG_MORE));
	SAY(send(fd, "e", 1, MSG_ZEROCOPY | MSG_EOR));
	SAY(send(fd, "u", 1, MSG_ZEROCOPY | MSG_OOB));
	SAY(sendmsg(fd, &msg, MSG_ZEROCOPY));
	SAY(sendmmsg(fd, msgs, 3, MSG_ZEROCOPY));
	SAY(sendto(fd, "t", 1, MSG_ZEROCOPY, NULL, 0));
	send_last(fd, 0, 8);
	close(fd);
}

static void unnumbered_client(void)
{
	struct iovec bad = {(void *)(uintptr_t)8, 1};
	struct msghdr msg = {.msg_iov = &bad, .msg_iovlen = 1};
	int fd = tcp_pair();

	SAY(send(fd, "off", 3, MSG_ZEROCOPY));
	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	SAY(send(fd, "usual", 5, 0));
	SAY(send(fd, "", 0, MSG_ZEROCOPY));
	SAY(sendmsg(fd, &msg, MSG_ZEROCOPY));
	send_last(fd, 0, 0);
	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 0);
	SAY(send(fd, "off", 3, MSG_ZEROCOPY));
	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	send_last(fd, 1, 1);
	SAY(shutdown(fd, SHUT_WR));
	SAY(send(fd, "x", 1, MSG_ZEROCOPY | MSG_NOSIGNAL));
	nothing_more(fd);
	close(fd);
}

static void values_client(void)
{
	static const int values[] = {-1, 0, 1, 2, 1 << 30};
	int fd = tcp_pair();

	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		SAY(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &values[i], sizeof(values[i])));
		SAY(get_int(fd, SOL_SOCKET, SO_ZEROCOPY));
	}
	close(fd);
}

static void other_takes_later(void)
{
	static char buf[1 << 16];
	int fd = tcp_pair();

	meet();
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
}

/* A call that takes a part counts, one that takes nothing does not. */
static void partial_client(void)
{
	static char big[32 << 20];
	int fd = zerocopy_pair();
	uint32_t calls = 0;
	long n, first;

	first = send(fd, big, sizeof(big), MSG_ZEROCOPY | MSG_DONTWAIT);
	SAY_IF(first > 0 && first < (long)sizeof(big));
	for (n = first; n > 0; calls++)
		n = send(fd, big, sizeof(big), MSG_ZEROCOPY | MSG_DONTWAIT);
	say_result("in the end", n);
	fill_window(fd); /* acknowledgements make room */
	SAY(send(fd, "x", 1, MSG_ZEROCOPY | MSG_DONTWAIT));
	meet();
	MUST(send(fd, "last", 4, MSG_ZEROCOPY));
	for (uint32_t told = 0, lo, hi; told <= calls; told = hi + 1) {
		await(fd, POLLERR);
		if (!read_entry(fd, &lo, &hi, false) || lo != told || hi > calls) {
			say("not %s", told == calls ? "the last" : "the next");
			break;
		}
	}
	nothing_more(fd);
	close(fd);
}

/* A call that blocks has one number. */
static void blocking_client(void)
{
	static char big[8 << 20];
	int fd = zerocopy_pair();

	meet();
	SAY(send(fd, big, sizeof(big), MSG_ZEROCOPY));
	send_last(fd, 0, 1);
	close(fd);
}

/* ---- what recvmsg() tells ----------------------------------------------------------------------- */

static void read_with(int fd, size_t room, int flags)
{
	char control[256] __attribute__((aligned(8)));
	struct msghdr msg = {.msg_control = room ? control : NULL, .msg_controllen = room};
	struct cmsghdr c = {0};

	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	memset(control, 'c', sizeof(control));
	SAY(recvmsg(fd, &msg, MSG_ERRQUEUE | flags));
	if (msg.msg_controllen >= sizeof(c))
		memcpy(&c, control, sizeof(c));
	say("room %zu: flags %x, control %zu, length %zu, behind it %c", room,
	    (unsigned)msg.msg_flags, msg.msg_controllen, (size_t)c.cmsg_len, control[room]);
	nothing_more(fd);
}

static void control_client(void)
{
	static const size_t rooms[] = {0, 8, 15, 16, 20, 32, 47, 48, 59, 60, 64, 100};
	int fd = zerocopy_pair();

	for (unsigned i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
		read_with(fd, rooms[i], 0);
	read_with(fd, 100, MSG_PEEK);
	read_with(fd, 100, MSG_OOB);
	read_with(fd, 100, MSG_WAITALL);
	close(fd);
}

static void other_reads_client(void)
{
	struct mmsghdr msgs[3];
	char buf[8] = "before";
	int fd = zerocopy_pair();

	memset(msgs, 0, sizeof(msgs));
	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	SAY(recv(fd, buf, sizeof(buf), MSG_ERRQUEUE));
	say("%s", buf);
	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	SAY(recvfrom(fd, buf, 0, MSG_ERRQUEUE, NULL, NULL));
	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	SAY(recvmmsg(fd, msgs, 3, MSG_ERRQUEUE, NULL));
	say("%u bytes, flags %x", msgs[0].msg_len, (unsigned)msgs[0].msg_hdr.msg_flags);
	close(fd);
}

static void stamped_client(void)
{
	int fd = zerocopy_pair();
	uint32_t lo, hi;

	set_int(fd, SOL_SOCKET, SO_TIMESTAMP, 1);
	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	read_entry(fd, &lo, &hi, true);
	set_int(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	read_entry(fd, &lo, &hi, true);
	close(fd);
}

/* ---- events ------------------------------------------------------------------------------------- */

static void say_poll(const char *what, int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	poll(&p, 1, 0);
	say_events(what, (uint32_t)p.revents);
}

static void say_select(int fd)
{
	fd_set in, out, except;
	struct timeval at_once = {0};
	int n;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	FD_SET(fd, &except);
	n = select(fd + 1, &in, &out, &except, &at_once);
	say("select %d:%s%s%s", n, FD_ISSET(fd, &in) ? " in" : "", FD_ISSET(fd, &out) ? " out" : "",
	    FD_ISSET(fd, &except) ? " except" : "");
}

static void poll_client(void)
{
	int fd = zerocopy_pair();

	say_poll("before", fd, POLLIN | POLLOUT | POLLPRI);
	say_select(fd);
	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	say_poll("told", fd, POLLIN | POLLOUT | POLLPRI);
	say_poll("told, for nothing", fd, 0);
	say_select(fd);
	SAY(get_int(fd, SOL_SOCKET, SO_ERROR));
	say_poll("still", fd, POLLIN);
	SAY(send(fd, "usual", 5, 0));
	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 0);
	say_poll("still", fd, POLLIN);
	read_to(fd, 0, 0);
	say_poll("read", fd, POLLIN | POLLOUT | POLLPRI);
	say_select(fd);
	close(fd);
}

static void say_epoll(const char *what, int ep, int msec)
{
	struct epoll_event event = {0};
	int n = epoll_wait(ep, &event, 1, msec);

	say("%s: %d", what, n);
	if (n > 0)
		say_events(what, event.events);
}

static void epoll_client(void)
{
	int fd = zerocopy_pair(), level = (int)MUST(epoll_create1(0)),
	    edge = (int)MUST(epoll_create1(0));
	struct epoll_event event = {.events = EPOLLIN};

	MUST(epoll_ctl(level, EPOLL_CTL_ADD, fd, &event));
	event.events = EPOLLIN | EPOLLET;
	MUST(epoll_ctl(edge, EPOLL_CTL_ADD, fd, &event));
	say_epoll("level", level, 0);
	say_epoll("edge", edge, 0);
	for (unsigned i = 0; i < 2; i++) {
		MUST(send(fd, "x", 1, MSG_ZEROCOPY));
		say_epoll("edge told", edge, PATIENCE);
		say_epoll("edge again", edge, 0);
		say_epoll("level told", level, PATIENCE);
		say_epoll("level again", level, 0);
	}
	read_to(fd, 0, 1);
	say_epoll("level read", level, 0);
	say_epoll("edge read", edge, 0);
	close(level);
	close(edge);
	close(fd);
}

/* ---- calls that wait ---------------------------------------------------------------------------- */

static void wakes_server(void)
{
	int fd = tcp_pair();
	char buf[8];

	MUST(recv(fd, buf, 1, MSG_WAITALL));
	meet();
	await_other_blocked();
	MUST(send(fd, "one", 3, 0));
	meet();
	await_other_blocked();
	MUST(send(fd, "two", 3, 0));
	meet();
	await_other_blocked();
	MUST(send(fd, "!", 1, 0));
	expect_end(fd);
	close(fd);
}

/* A completion ends no call that waits for data. */
static void waits_client(void)
{
	int fd = zerocopy_pair();
	char buf[8];

	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	meet();
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 3);
	SAY(recv(fd, buf, sizeof(buf), 0));
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
	meet();
	SAY(recv(fd, buf, 1, 0));
	read_to(fd, 0, 0);
	close(fd);
}

static void all_server(void)
{
	int fd = tcp_pair();
	char c;

	MUST(recv(fd, &c, 1, 0));
	MUST(send(fd, "abc", 3, 0));
	meet();
	await_other_blocked();
	MUST(send(fd, "def", 3, 0));
	expect_end(fd);
	close(fd);
}

/* Nor one that has a part of it. */
static void waits_for_all_client(void)
{
	int fd = zerocopy_pair();
	char buf[8];

	MUST(send(fd, "x", 1, MSG_ZEROCOPY));
	await(fd, POLLERR);
	await_bytes(fd, 3);
	meet();
	SAY(recv(fd, buf, 6, MSG_WAITALL));
	read_to(fd, 0, 0);
	close(fd);
}

/* ---- the socket's life --------------------------------------------------------------------------- */

static void inherits_server(void)
{
	int listener, fd;

	listener = tcp_listening(0);
	set_int(listener, SOL_SOCKET, SO_ZEROCOPY, 1);
	nothing_more(listener);
	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	SAY(get_int(fd, SOL_SOCKET, SO_ZEROCOPY));
	send_last(fd, 0, 0);
	close(fd);
	set_int(listener, SOL_SOCKET, SO_ZEROCOPY, 0);
	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	SAY(get_int(fd, SOL_SOCKET, SO_ZEROCOPY));
	SAY(send(fd, "x", 1, MSG_ZEROCOPY));
	await_acked(fd);
	nothing_more(fd);
	close(fd);
	close(listener);
}

static void inherits_client(void)
{
	struct sockaddr_in to = server_addr(0);
	char buf[8];

	for (unsigned i = 0; i < 2; i++) {
		int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

		meet();
		MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
		while (recv(fd, buf, sizeof(buf), 0) > 0)
			;
		close(fd);
	}
}

static void twice_server(void)
{
	int listener = tcp_listening(0);
	char buf[8];

	for (unsigned i = 0; i < 2; i++) {
		int fd;

		meet();
		fd = (int)MUST(accept(listener, NULL, NULL));
		while (recv(fd, buf, sizeof(buf), 0) > 0)
			;
		close(fd);
	}
	close(listener);
}

/* The numbers are the socket's, and so is what was not read. */
static void twice_client(void)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	SAY(send(fd, "x", 1, MSG_ZEROCOPY | MSG_NOSIGNAL));
	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, "one", 3, MSG_ZEROCOPY));
	SAY(send(fd, "two", 3, MSG_ZEROCOPY));
	await(fd, POLLERR);
	await_acked(fd);
	SAY(connect(fd, &nobody, sizeof(nobody)));
	say_poll("disconnected", fd, POLLIN | POLLOUT);
	read_to(fd, 0, 1);
	say_poll("read", fd, POLLIN | POLLOUT);
	meet();
	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(get_int(fd, SOL_SOCKET, SO_ZEROCOPY));
	send_last(fd, 2, 2);
	close(fd);
}

static void fastopen_server(void)
{
	int listener = tcp_listening(0), fd;
	char buf[8];

	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
	close(listener);
}

static void fastopen_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	meet();
	SAY(sendto(fd, "hello", 5, MSG_FASTOPEN | MSG_ZEROCOPY, (struct sockaddr *)&to,
		   sizeof(to)));
	send_last(fd, 0, 1);
	close(fd);
}

/* Processes that have one connection have one error queue. */
static int child_sends(void *arg)
{
	int fd = *(const int *)arg;

	if (send(fd, "child", 5, MSG_ZEROCOPY) != 5)
		return 1;
	return 0;
}

static int child_reads(void *arg)
{
	int fd = *(const int *)arg;
	struct pollfd p = {.fd = fd};
	uint32_t lo = 9, hi = 9;

	if (poll(&p, 1, PATIENCE) != 1 || p.revents != POLLERR)
		return 1;
	return !read_entry(fd, &lo, &hi, false) || lo != 3 || hi != 3;
}

static void forked_client(void)
{
	int fd = zerocopy_pair();

	SAY(send(fd, "parent", 6, MSG_ZEROCOPY));
	join(spawn(child_sends, &fd));
	SAY(send(fd, "parent", 6, MSG_ZEROCOPY));
	read_to(fd, 0, 2);
	SAY(send(fd, "parent", 6, MSG_ZEROCOPY));
	await_acked(fd);
	join(spawn(child_reads, &fd));
	nothing_more(fd);
	send_last(fd, 4, 4);
	close(fd);
}

const struct behaviour zerocopy_behaviours[] = {
	{"one", takes_all, one_client, OURS},
	{"ranges", takes_all, ranges_client, OURS},
	{"flags", takes_all, flags_client, OURS},
	{"unnumbered", takes_all, unnumbered_client, OURS},
	{"values", takes_all, values_client, OURS},
	{"partial", other_takes_later, partial_client, OURS},
	{"blocking", other_takes_later, blocking_client, OURS},
	{"control", takes_all, control_client, OURS},
	{"other_reads", takes_all, other_reads_client, OURS},
	{"stamped", takes_all, stamped_client, OURS},
	{"poll", takes_all, poll_client, OURS},
	{"epoll", takes_all, epoll_client, OURS},
	{"waits", wakes_server, waits_client, OURS},
	{"waits_for_all", all_server, waits_for_all_client, OURS},
	{"inherits", inherits_server, inherits_client, OURS},
	{"twice", twice_server, twice_client, OURS},
	{"fastopen", fastopen_server, fastopen_client, OURS},
	{"forked", takes_all, forked_client, OURS},
	{0},
};
