/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: how much a call returns, how long it waits, what ends it. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/diff/diff.h"

static volatile int minus_one = -1; /* the compiler would refuse it */

/* ---- the other side -------------------------------------------------------------------- */

/* Sends what the other side requests, then ends. */
static void sends_10(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "0123456789", 10, 0));
	meet();
	close(fd);
}

static void keeps_silent(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
}

static void in_steps(void (*awaited)(void))
{
	int fd = tcp_pair();

	MUST(send(fd, "012", 3, 0));
	meet();
	awaited();
	MUST(send(fd, "34567", 5, 0));
	meet();
	awaited();
	close(fd);
	meet();
}

/* Three bytes, five more when the other side waits for them, then the end. */
static void sends_3_5_fin(void)
{
	in_steps(await_other_blocked);
}

static void look_again(void)
{
	let_pass(100, "with the library who peeks at too little looks again each millisecond");
}

static void sends_3_5_fin_to_peeker(void)
{
	in_steps(look_again);
}

static void sends_3_and_5(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "012", 3, 0));
	meet();
	MUST(send(fd, "34567", 5, 0));
	await_acked(fd);
	meet();
	meet();
	close(fd);
}

/* ---- MSG_PEEK, MSG_TRUNC ---------------------------------------------------------------- */

static void peek_client(void)
{
	int fd = tcp_pair();
	char a[4] = "", b[20] = "";
	struct iovec iov[] = {{a, 3}, {NULL, 0}, {b, sizeof(b)}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 3};

	await_bytes(fd, 10);
	SAY(recv(fd, b, 4, MSG_PEEK));
	say_bytes(b, 4);
	SAY(recvmsg(fd, &msg, MSG_PEEK));
	say_bytes(a, 3);
	say_bytes(b, 7);
	SAY(recv(fd, b, 0, MSG_PEEK));
	SAY(recv(fd, b, 4, 0));
	SAY(recv(fd, b, sizeof(b), MSG_PEEK));
	say_bytes(b, 6);
	SAY(recv(fd, b, sizeof(b), 0));
	SAY(recv(fd, b, sizeof(b), MSG_PEEK | MSG_DONTWAIT));
	meet();
	close(fd);
}

static void peek_waitall_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	await_bytes(fd, 3);
	meet();
	SAY(recv(fd, buf, 5, MSG_PEEK | MSG_WAITALL));
	say_bytes(buf, 5);
	meet();
	SAY(recv(fd, buf, 9, MSG_PEEK | MSG_WAITALL));
	SAY(recv(fd, buf, 9, 0));
	meet();
	close(fd);
}

static void trunc_tcp_client(void)
{
	int fd = tcp_pair();
	char buf[20] = "abcdefgh";

	await_bytes(fd, 10);
	SAY(recv(fd, buf, 4, MSG_TRUNC | MSG_PEEK));
	say_bytes(buf, 4);
	SAY(recv(fd, buf, 3, MSG_TRUNC));
	say_bytes(buf, 4);
	SAY(recv(fd, NULL, 2, MSG_TRUNC));
	SAY(recv(fd, buf, sizeof(buf), 0));
	say_bytes(buf, 5);
	SAY(recv(fd, buf, sizeof(buf), MSG_TRUNC | MSG_DONTWAIT));
	meet();
	close(fd);
}

static void trunc_waitall_client(void)
{
	int fd = tcp_pair();
	char buf[20] = "abcdefgh";

	await_bytes(fd, 3);
	meet();
	SAY(recv(fd, buf, 5, MSG_TRUNC | MSG_WAITALL));
	say_bytes(buf, 5);
	meet();
	SAY(recv(fd, buf, 5, MSG_TRUNC | MSG_WAITALL));
	meet();
	close(fd);
}

/* ---- MSG_WAITALL ------------------------------------------------------------------------ */

static void waitall_signal_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	await_bytes(fd, 10);
	alarm_in(50, 0);
	SAY(recv(fd, buf, 20, MSG_WAITALL));
	alarm_in(50, 0);
	SAY(recv(fd, buf, 20, MSG_WAITALL));
	no_alarm();
	meet();
	close(fd);
}

static void waitall_timeout_client(void)
{
	int fd = tcp_pair();
	char buf[20];
	long began;

	set_timeout(fd, SO_RCVTIMEO, 100);
	await_bytes(fd, 10);
	began = now_ms();
	SAY(recv(fd, buf, 20, MSG_WAITALL));
	not_before("the ten bytes", began, 95);
	SAY_TIMEOUT(95000, recv(fd, buf, 20, MSG_WAITALL));
	meet();
	close(fd);
}

static void waitall_fin_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	meet();
	meet();
	SAY(recv(fd, buf, 20, MSG_WAITALL));
	SAY(recv(fd, buf, 20, MSG_WAITALL));
	meet();
	close(fd);
}

static void waitall_nonblock_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	await_bytes(fd, 10);
	SAY(recv(fd, buf, 20, MSG_WAITALL | MSG_DONTWAIT));
	SAY(recv(fd, buf, 20, MSG_WAITALL | MSG_DONTWAIT));
	meet();
	close(fd);
}

/* ---- SO_RCVLOWAT ------------------------------------------------------------------------ */

static void lowat_client(void)
{
	int fd = tcp_pair();
	char buf[20];
	struct pollfd p = {.fd = fd, .events = POLLIN};

	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 5);
	SAY(get_int(fd, SOL_SOCKET, SO_RCVLOWAT));
	await_bytes(fd, 3);
	SAY(poll(&p, 1, 0));
	meet();
	SAY(recv(fd, buf, 20, 0));
	meet();
	SAY(recv(fd, buf, 20, 0));
	meet();
	close(fd);
}

static void lowat_poll_client(void)
{
	int fd = tcp_pair();
	char buf[20];
	struct pollfd p = {.fd = fd, .events = POLLIN};

	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 5);
	await_bytes(fd, 3);
	SAY(poll(&p, 1, 0));
	SAY(recv(fd, buf, 2, MSG_DONTWAIT));
	SAY(recv(fd, buf, 20, MSG_DONTWAIT));
	SAY(recv(fd, buf, 20, MSG_DONTWAIT));
	meet();
	meet();
	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 2);
	SAY(poll(&p, 1, 0));
	say_events("after lowering it", (uint32_t)p.revents);
	SAY(recv(fd, buf, 20, 0));
	meet();
	close(fd);
}

static void lowat_timeout_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 15);
	set_timeout(fd, SO_RCVTIMEO, 100);
	await_bytes(fd, 10);
	SAY(recv(fd, buf, 20, 0));
	SAY(recv(fd, buf, 20, 0));
	meet();
	close(fd);
}

/* The length of the call counts, if it is smaller. */
static void lowat_short_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 15);
	await_bytes(fd, 10);
	SAY(recv(fd, buf, 4, 0));
	SAY(recv(fd, buf, 6, 0));
	meet();
	close(fd);
}

/* ---- timeouts and signals ---------------------------------------------------------------- */

static void timeout_tcp_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	set_timeout(fd, SO_RCVTIMEO, 100);
	SAY_TIMEOUT(95000, recv(fd, buf, 20, 0));
	SAY_TIMEOUT(95000, read(fd, buf, 20));
	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	alarm_in(50, SA_RESTART);
	SAY(recv(fd, buf, 20, 0));
	no_alarm();
	meet();
	close(fd);
}

static void timeout_udp_client(void)
{
	int fd = udp_bound(0);
	char buf[20];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	set_timeout(fd, SO_RCVTIMEO, 100);
	SAY_TIMEOUT(95000, recv(fd, buf, 20, 0));
	SAY_TIMEOUT(95000, recvmsg(fd, &msg, 0));
	set_timeout(fd, SO_RCVTIMEO, PATIENCE);
	alarm_in(50, SA_RESTART);
	SAY(recv(fd, buf, 20, 0));
	no_alarm();
	close(fd);
}

static void signal_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	alarm_in(50, 0);
	SAY(recv(fd, buf, 20, 0));
	alarm_in(50, 0);
	SAY(read(fd, buf, 20));
	alarm_in(50, SA_RESTART);
	no_alarm();
	meet();
	SAY(recv(fd, buf, 20, 0));
	close(fd);
}

/* Interrupts the call of the other side, which is restarted; then ends. */
static void ends_later(void)
{
	int fd = tcp_pair();

	meet();
	await_other_blocked();
	MUST(kill(other_pid, SIGALRM));
	await_other_blocked();
	close(fd);
}

static void signal_udp_client(void)
{
	int fd = udp_bound(0);
	char buf[20];

	alarm_in(50, 0);
	SAY(recv(fd, buf, 20, 0));
	alarm_in(50, 0);
	SAY(recvfrom(fd, buf, 20, 0, NULL, NULL));
	no_alarm();
	close(fd);
}

/* ---- nothing to read, nothing wanted ------------------------------------------------------ */

static void zero_client(void)
{
	int fd = tcp_pair();
	char buf[20];
	struct iovec iov[2] = {{buf, 0}, {buf, 0}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	SAY(read(fd, buf, 0));
	SAY(readv(fd, iov, 2));
	SAY(readv(fd, iov, 0));
	SAY(recv(fd, buf, 0, MSG_DONTWAIT));
	SAY(recvmsg(fd, &msg, MSG_DONTWAIT));
	set_timeout(fd, SO_RCVTIMEO, 50);
	SAY(recv(fd, buf, 0, 0));
	meet();
	await(fd, POLLRDHUP);
	SAY(recv(fd, buf, 0, 0));
	close(fd);
}

static void zero_data_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	await_bytes(fd, 10);
	SAY(recv(fd, buf, 0, 0));
	SAY(recv(fd, buf, 20, 0));
	meet();
	close(fd);
}

/* ---- vectors ------------------------------------------------------------------------------ */

static void vectors_client(void)
{
	static struct iovec many[IOV_MAX + 1];
	int fd = tcp_pair();
	char a[4] = "", b[20] = "";
	struct iovec iov[] = {{a, 3}, {NULL, 0}, {b, sizeof(b)}};
	struct iovec negative[] = {{a, 3}, {b, (size_t)-1}};
	struct iovec huge[] = {{a, 3}, {b, SSIZE_MAX - 1}, {b, SSIZE_MAX - 1}};
	struct msghdr msg = {.msg_iov = many, .msg_iovlen = IOV_MAX + 1};

	await_bytes(fd, 10);
	SAY(readv(fd, iov, minus_one));
	SAY(readv(fd, many, IOV_MAX + 1));
	SAY(recvmsg(fd, &msg, MSG_DONTWAIT));
	SAY(readv(fd, negative, 2));
	msg.msg_iov = negative;
	msg.msg_iovlen = 2;
	SAY(recvmsg(fd, &msg, MSG_DONTWAIT));
	for (int i = 0; i < IOV_MAX; i++)
		many[i] = (struct iovec){b, i == IOV_MAX - 1};
	SAY(readv(fd, many, IOV_MAX));
	SAY(readv(fd, huge, 1));
	SAY(readv(fd, iov, 3));
	say_bytes(a, 3);
	say_bytes(b, 3);
	meet();
	close(fd);
}

/* ---- what comes back beside the bytes ------------------------------------------------------- */

static void header_tcp_client(void)
{
	int fd = tcp_pair();
	char buf[20], control[64];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct iovec iov = {buf, 5};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_name = &from,
			     .msg_namelen = sizeof(from),
			     .msg_control = control,
			     .msg_controllen = sizeof(control),
			     .msg_flags = -1};

	await_bytes(fd, 10);
	SAY(recvmsg(fd, &msg, 0));
	say("namelen %u, controllen %zu, flags %#x", msg.msg_namelen, msg.msg_controllen,
	    (unsigned)msg.msg_flags);
	SAY(recvfrom(fd, buf, 2, 0, (struct sockaddr *)&from, &len));
	say("length %u", len);
	len = sizeof(from);
	SAY(recvfrom(fd, buf, 20, MSG_TRUNC, (struct sockaddr *)&from, &len));
	msg.msg_flags = -1;
	msg.msg_namelen = sizeof(from);
	msg.msg_controllen = sizeof(control);
	SAY(recvmsg(fd, &msg, MSG_DONTWAIT));
	say("namelen %u, controllen %zu, flags %#x", msg.msg_namelen, msg.msg_controllen,
	    (unsigned)msg.msg_flags);
	SAY(recv(fd, buf, 20, MSG_ERRQUEUE));
	SAY(recv(fd, buf, 20, MSG_OOB));
	meet();
	close(fd);
}

/* ---- urgent data ------------------------------------------------------------------------------ */

static void urgent_server(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "abc", 3, 0));
	SAY(send(fd, "d!", 2, MSG_OOB));
	MUST(send(fd, "ef", 2, 0));
	meet();
	meet();
	close(fd);
}

static void urgent_client(void)
{
	int fd = tcp_pair(), at;
	char buf[20];
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLPRI};

	meet();
	await_bytes(fd, 4);
	await(fd, POLLPRI);
	SAY(poll(&p, 1, 0));
	say_events("urgent", (uint32_t)p.revents);
	SAY(ioctl(fd, SIOCATMARK, &at));
	say("at mark: %d", at);
	SAY(recv(fd, buf, 20, 0));
	SAY(ioctl(fd, SIOCATMARK, &at));
	say("at mark: %d", at);
	SAY(recv(fd, buf, 1, MSG_OOB | MSG_PEEK));
	SAY(recv(fd, buf, 1, MSG_OOB));
	say_bytes(buf, 1);
	SAY(recv(fd, buf, 1, MSG_OOB));
	SAY(recv(fd, buf, 20, 0));
	SAY(poll(&p, 1, 0));
	meet();
	close(fd);
}

static void urgent_inline_client(void)
{
	int fd = tcp_pair(), at;
	char buf[20];

	set_int(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	meet();
	await_bytes(fd, 7);
	SAY(recv(fd, buf, 1, MSG_OOB));
	SAY(recv(fd, buf, 20, 0));
	say_bytes(buf, 4);
	SAY(ioctl(fd, SIOCATMARK, &at));
	say("at mark: %d", at);
	SAY(recv(fd, buf, 20, 0));
	say_bytes(buf, 3);
	meet();
	close(fd);
}

/* ---- without a connection ---------------------------------------------------------------------- */

static void unconnected_client(void)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), listener = tcp_listening(1);
	char buf[20];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	SAY(recv(fd, buf, 1, 0));
	SAY(recv(fd, buf, 0, 0));
	SAY(read(fd, buf, 1));
	SAY(read(fd, buf, 0));
	SAY(readv(fd, &iov, 1));
	SAY(recvmsg(fd, &msg, 0));
	SAY(recv(fd, buf, 1, MSG_PEEK));
	SAY(recv(fd, buf, 1, MSG_OOB));
	SAY(recv(fd, buf, 1, MSG_ERRQUEUE));
	SAY(recv(listener, buf, 1, 0));
	SAY(recv(listener, buf, 0, MSG_DONTWAIT));
	SAY(read(listener, buf, 1));
	close(fd);
	close(listener);
	SAY(recv(fd, buf, 1, 0));
	SAY(read(-1, buf, 0));
}

/* ---- places that are none -------------------------------------------------------------- */

static void nowhere_client(void)
{
	void *volatile nowhere = NULL;
	int fd = tcp_pair();
	char buf[20];
	struct iovec iov[] = {{nowhere, 5}, {buf, 5}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1};

	await_bytes(fd, 10);
	SAY(recv(fd, nowhere, 5, 0));
	SAY(read(fd, nowhere, 5));
	SAY(recvfrom(fd, nowhere, 5, 0, NULL, NULL));
	SAY(recvfrom(fd, buf, 5, MSG_PEEK, (struct sockaddr *)buf, nowhere));
	SAY(readv(fd, iov, 1));
	SAY(readv(fd, nowhere, 1));
	SAY(recvmsg(fd, &msg, 0));
	msg.msg_iov = nowhere;
	SAY(recvmsg(fd, &msg, 0));
	SAY(recvmsg(fd, nowhere, 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	meet();
	close(fd);
}

/* ---- SO_PEEK_OFF ---------------------------------------------------------------------- */

static void say_offset(int fd)
{
	say("offset %d", get_int(fd, SOL_SOCKET, SO_PEEK_OFF));
}

static void sends_10_when_told(void)
{
	int fd = tcp_pair();

	meet();
	MUST(send(fd, "0123456789", 10, 0));
	meet();
	close(fd);
}

static void say_peek(int fd, size_t n, int flags)
{
	char buf[20] = "";
	long got = recv(fd, buf, n, MSG_PEEK | MSG_DONTWAIT | flags);

	say_result("peek", got);
	if (got > 0 && !(flags & MSG_TRUNC))
		say_bytes(buf, (size_t)got);
	say_offset(fd);
}

static char *volatile nowhere = (char *)4096;

static void set_peek(int fd, int offset)
{
	SAY(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)));
	say_offset(fd);
}

static void peek_off_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	say_offset(fd);
	set_peek(fd, 0);
	set_peek(fd, -3);
	SAY(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, buf, 3));
	set_peek(fd, 0);
	say_peek(fd, 3, 0);
	meet();
	await_bytes(fd, 10);
	say_peek(fd, 3, 0);
	SAY(recv(fd, nowhere, 3, MSG_PEEK));
	say_offset(fd);
	say_peek(fd, 2, 0);
	SAY(recv(fd, buf, 4, 0)); /* the offset advances */
	say_offset(fd);
	say_peek(fd, 2, MSG_TRUNC);
	say_peek(fd, 20, 0);
	say_peek(fd, 20, 0);
	set_peek(fd, 2);
	say_peek(fd, 20, 0);
	set_peek(fd, 1);
	SAY(recv(fd, buf, 4, 0)); /* the offset is beyond the unread bytes */
	say_offset(fd);
	say_peek(fd, 1, 0);
	set_peek(fd, 100);
	say_peek(fd, 1, 0);
	set_peek(fd, -1);
	say_peek(fd, 20, 0);
	say_peek(fd, 20, 0);
	meet();
	close(fd);
}

/* It waits for bytes beyond the offset, and gets the end. */
static void peek_off_waits_client(void)
{
	int fd = tcp_pair();
	char buf[20];

	set_peek(fd, 0);
	meet();
	SAY(recv(fd, buf, sizeof(buf), MSG_PEEK));
	meet();
	SAY(recv(fd, buf, sizeof(buf), MSG_PEEK));
	meet();
	SAY(recv(fd, buf, sizeof(buf), MSG_PEEK));
	say_offset(fd);
	SAY(recv(fd, buf, sizeof(buf), 0));
	say_offset(fd);
	SAY(recv(fd, buf, sizeof(buf), MSG_PEEK));
	close(fd);
}

const struct behaviour recv_behaviours[] = {
	{"peek", sends_10, peek_client, OURS},
	{"peek_off", sends_10_when_told, peek_off_client, OURS},
	{"peek_off_waits", sends_3_5_fin, peek_off_waits_client, OURS},
	{"peek_waitall", sends_3_5_fin_to_peeker, peek_waitall_client, OURS},
	{"trunc_tcp", sends_10, trunc_tcp_client, OURS},
	{"trunc_waitall", sends_3_5_fin, trunc_waitall_client, OURS},
	{"waitall_signal", sends_10, waitall_signal_client, OURS},
	{"waitall_timeout", sends_10, waitall_timeout_client, OURS},
	{"waitall_fin", sends_3_5_fin, waitall_fin_client, OURS},
	{"waitall_nonblock", sends_10, waitall_nonblock_client, OURS},
	{"lowat", sends_3_5_fin, lowat_client, OURS},
	{"lowat_poll", sends_3_and_5, lowat_poll_client, OURS},
	{"lowat_timeout", sends_10, lowat_timeout_client, OURS},
	{"lowat_short", sends_10, lowat_short_client, OURS},
	{"timeout_tcp", keeps_silent, timeout_tcp_client, OURS},
	{"timeout_udp", NULL, timeout_udp_client, OURS},
	{"signal", ends_later, signal_client, OURS},
	{"signal_udp", NULL, signal_udp_client, OURS},
	{"zero", keeps_silent, zero_client, OURS},
	{"zero_data", sends_10, zero_data_client, OURS},
	{"vectors", sends_10, vectors_client, OURS},
	{"header_tcp", sends_10, header_tcp_client, OURS},
	{"urgent", urgent_server, urgent_client, OURS},
	{"urgent_inline", urgent_server, urgent_inline_client, OURS},
	{"unconnected", NULL, unconnected_client, OURS},
	{"nowhere", sends_10, nowhere_client, OURS},
	{0},
};
