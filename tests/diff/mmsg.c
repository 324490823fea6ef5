/* SPDX-License-Identifier: BSD-2-Clause */
/* Several messages per call, files and pipes as the other end, calls that leave errno unchanged. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define N 5

struct batch {
	struct mmsghdr msgs[N];
	struct iovec iov[N];
	struct sockaddr_in name[N];
	char data[N][16];
};

static struct batch *batch(void)
{
	static struct batch b;

	memset(&b, 0, sizeof(b));
	for (int i = 0; i < N; i++) {
		b.iov[i] = (struct iovec){b.data[i], sizeof(b.data[i])};
		b.msgs[i].msg_hdr = (struct msghdr){.msg_iov = &b.iov[i], .msg_iovlen = 1};
		b.msgs[i].msg_len = 99;
	}
	return &b;
}

static void say_batch(const struct batch *b)
{
	for (int i = 0; i < N; i++)
		say("message %d: %u bytes, flags %#x", i, b->msgs[i].msg_len,
		    (unsigned)b->msgs[i].msg_hdr.msg_flags);
}

/* Three datagrams to port 0 of the server, two more on request. */
static void sends_three(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);

	meet();
	MUST(sendto(fd, "one", 3, 0, (struct sockaddr *)&to, sizeof(to)));
	MUST(sendto(fd, "", 0, 0, (struct sockaddr *)&to, sizeof(to)));
	MUST(sendto(fd, "three, and more of it", 21, 0, (struct sockaddr *)&to, sizeof(to)));
	arrive();
	meet();
	await_other_blocked();
	MUST(sendto(fd, "four", 4, 0, (struct sockaddr *)&to, sizeof(to)));
	meet();
	close(fd);
}

/* ---- recvmmsg ---------------------------------------------------------------------------- */

static void recv_nowait_server(void)
{
	int fd = udp_bound(0);
	struct batch *b = batch();

	meet();
	arrive();
	b->msgs[0].msg_hdr.msg_name = &b->name[0];
	b->msgs[0].msg_hdr.msg_namelen = sizeof(b->name[0]);
	SAY(recvmmsg(fd, b->msgs, 0, 0, NULL));
	SAY(recvmmsg(fd, b->msgs, N, MSG_DONTWAIT, NULL));
	say_batch(b);
	say_addr("first", &b->name[0], b->msgs[0].msg_hdr.msg_namelen);
	SAY(recvmmsg(fd, b->msgs, N, MSG_DONTWAIT, NULL));
	meet();
	meet();
	close(fd);
}

static void recv_forone_server(void)
{
	int fd = udp_bound(0);
	struct batch *b = batch();

	meet();
	arrive();
	SAY(recvmmsg(fd, b->msgs, N, MSG_WAITFORONE, NULL));
	meet();
	b = batch();
	SAY(recvmmsg(fd, b->msgs, N, MSG_WAITFORONE, NULL));
	say_batch(b);
	meet();
	close(fd);
}

static void recv_all_server(void)
{
	int fd = udp_bound(0);
	struct batch *b = batch();
	struct timeval tv = {0, 300000};

	meet();
	arrive();
	meet();
	SAY(recvmmsg(fd, b->msgs, 4, 0, NULL));
	say_batch(b);
	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	SAY(recvmmsg(fd, b->msgs, 4, 0, NULL));
	meet();
	close(fd);
}

static void recv_timeout_server(void)
{
	int fd = udp_bound(0);
	struct batch *b = batch();
	struct timespec ts = {0, 50000000}, bad = {0, 1000000000}, zero = {0, 0};

	meet();
	arrive();
	SAY(recvmmsg(fd, b->msgs, 2, 0, &bad));
	SAY(recvmmsg(fd, b->msgs, 2, 0, &ts));
	SAY_IF(ts.tv_sec == 0 && ts.tv_nsec > 0 && ts.tv_nsec < 50000000);
	SAY(recvmmsg(fd, b->msgs, 2, 0, &zero));
	meet();
	/* The timeout is checked only after a message. */
	ts = (struct timespec){0, 1000000};
	SAY(recvmmsg(fd, b->msgs, N, 0, &ts));
	say("%ld s, %ld ns left", (long)ts.tv_sec, ts.tv_nsec);
	meet();
	close(fd);
}

static void recv_tcp_server(void)
{
	int fd = tcp_pair();
	struct batch *b = batch();

	await_bytes(fd, 20);
	for (int i = 0; i < N; i++)
		b->iov[i].iov_len = 6;
	SAY(recvmmsg(fd, b->msgs, N, MSG_WAITFORONE, NULL));
	say_batch(b);
	SAY(recvmmsg(fd, b->msgs, N, MSG_DONTWAIT, NULL));
	meet();
	await(fd, POLLRDHUP);
	/* The end of the stream is a message without bytes, each time. */
	SAY(recvmmsg(fd, b->msgs, N, MSG_DONTWAIT, NULL));
	close(fd);
}

static void tcp_sends_20(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "01234567890123456789", 20, 0));
	meet();
	close(fd);
}

static void recv_bad_server(void)
{
	int fd = udp_bound(0);
	struct batch *b = batch();

	meet();
	arrive();
	b->msgs[1].msg_hdr.msg_iovlen = 2000;
	SAY(recvmmsg(fd, b->msgs, N, MSG_DONTWAIT, NULL));
	SAY(recvmmsg(fd, b->msgs + 1, 1, MSG_DONTWAIT, NULL));
	SAY(recvmmsg(fd, b->msgs, 1, MSG_DONTWAIT, NULL));
	meet();
	meet();
	close(fd);
}

/* An error after the first message is reported by the next call. */
static void recv_error_client(void)
{
	int fd = tcp_pair();
	struct batch *b = batch();
	struct linger now = {1, 0};

	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	MUST(send(fd, "x", 1, 0));
	meet();
	close(fd);
	(void)b;
}

static void recv_error_server(void)
{
	int fd = tcp_pair();
	struct batch *b = batch();

	await_bytes(fd, 1);
	meet();
	await(fd, POLLHUP);
	SAY(recvmmsg(fd, b->msgs, N, 0, NULL));
	SAY(recvmmsg(fd, b->msgs, 2, 0, NULL));
	close(fd);
}

/* ---- sendmmsg ---------------------------------------------------------------------------- */

static void send_many_client(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = udp_bound(1);
	struct batch *b = batch();

	meet();
	for (int i = 0; i < N; i++) {
		b->msgs[i].msg_hdr.msg_name = &to;
		b->msgs[i].msg_hdr.msg_namelen = sizeof(to);
		b->iov[i].iov_len = (size_t)i;
	}
	SAY(sendmmsg(fd, b->msgs, 0, 0));
	SAY(sendmmsg(fd, b->msgs, N, 0));
	say_batch(b);
	b->msgs[2].msg_hdr.msg_namelen = 3;
	SAY(sendmmsg(fd, b->msgs, N, 0));
	SAY(sendmmsg(fd, b->msgs + 2, N - 2, 0));
	b->msgs[1].msg_hdr.msg_iovlen = 2000;
	SAY(sendmmsg(fd, b->msgs, N, 0));
	SAY(sendmmsg(fd, b->msgs + 1, 1, 0));
	arrive();
	close(fd);
}

static void counts_server(void)
{
	int fd = udp_bound(0), n = 0;
	char buf[100];

	meet();
	arrive();
	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) >= 0)
		n++;
	say("%d datagrams", n);
	close(fd);
}

static void send_tcp_client(void)
{
	int fd = tcp_pair();
	struct batch *b = batch();

	SAY(sendmmsg(fd, b->msgs, N, 0));
	say_batch(b);
	set_nonblocking(fd, true);
	shutdown(fd, SHUT_WR);
	SAY(sendmmsg(fd, b->msgs, N, MSG_NOSIGNAL));
	meet();
	close(fd);
}

static void takes_all(void)
{
	int fd = tcp_pair();
	char buf[200];
	long sum = 0, n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		sum += n;
	say("%ld bytes, then %ld", sum, n);
	meet();
	close(fd);
}

/* ---- sendfile ----------------------------------------------------------------------------- */

static int file_of(size_t size)
{
	int fd = (int)MUST(memfd_create("file", 0));
	char line[17];

	for (size_t at = 0; at < size; at += 16) {
		snprintf(line, sizeof(line), "%015u\n", (unsigned)at);
		MUST(write(fd, line, 16));
	}
	MUST(ftruncate(fd, (off_t)size));
	MUST(lseek(fd, 0, SEEK_SET));
	return fd;
}

static void sums_all(void)
{
	static char buf[300000];
	int fd = tcp_pair();
	size_t sum = 0;
	long n;

	while ((n = recv(fd, buf + sum, sizeof(buf) - sum, 0)) > 0)
		sum += (size_t)n;
	say_bytes(buf, sum);
	close(fd);
}

static void sendfile_client(void)
{
	int fd = tcp_pair(), file = file_of(100000);
	off_t at = 50000, bad = -1;

	SAY(sendfile(fd, file, NULL, 0));
	SAY(sendfile(fd, file, NULL, 1000));
	SAY(lseek(file, 0, SEEK_CUR));
	SAY(sendfile(fd, file, &at, 60000));
	say("offset %ld", (long)at);
	SAY(lseek(file, 0, SEEK_CUR));
	SAY(sendfile(fd, file, &at, 10));
	SAY(sendfile(fd, file, &bad, 10));
	SAY(sendfile(fd, -1, NULL, 10));
	SAY(sendfile(fd, file, NULL, 1000000));
	SAY(sendfile(fd, file, NULL, 10));
	close(file);
	close(fd);
}

static void sendfile_odd_client(void)
{
	int fd = tcp_pair(), pipes[2], dir = open("/", O_RDONLY), file = file_of(10);
	int null = open("/dev/zero", O_RDONLY), wronly = open("/dev/null", O_WRONLY);
	off_t at = 0;

	MUST(pipe(pipes));
	MUST(write(pipes[1], "from a pipe", 11));
	SAY(sendfile(fd, pipes[0], NULL, 11));
	SAY(sendfile(fd, pipes[0], &at, 11));
	SAY(sendfile(fd, dir, NULL, 10));
	SAY(sendfile(fd, null, NULL, 10));
	SAY(sendfile(fd, wronly, NULL, 10));
	SAY(sendfile(fd, fd, NULL, 10));
	SAY(sendfile(file, fd, NULL, 10));
	shutdown(fd, SHUT_WR);
	signal(SIGPIPE, SIG_IGN);
	SAY(sendfile(fd, file, NULL, 10));
	SAY(lseek(file, 0, SEEK_CUR));
	signal(SIGPIPE, SIG_DFL);
	close(pipes[0]);
	close(pipes[1]);
	close(dir);
	close(null);
	close(wronly);
	close(file);
	close(fd);
}

/* The peer does not read: how much is sent varies, but all of it counts. */
static void sendfile_nonblock_client(void)
{
	int fd = tcp_pair(), file = file_of(100000);
	off_t at = 0;
	long n, sum = 0;

	set_nonblocking(fd, true);
	for (int i = 0; i < 1000; i++) {
		at = 0;
		n = sendfile(fd, file, &at, 100000);
		if (n < 0)
			break;
		sum += n;
		if (n != at)
			say("%ld bytes, offset %ld", n, (long)at);
	}
	/* What is acknowledged meanwhile makes room. */
	sum += fill_window(fd);
	SAY(sendfile(fd, file, &at, 100000));
	SAY_IF(sum > 10000);
	meet();
	close(file);
	close(fd);
}

static void reads_nothing(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
}

static void sendfile_udp_client(void)
{
	int fd = udp_pair(), file = file_of(1000);
	off_t at = 100;

	SAY(sendfile(fd, file, NULL, 100));
	SAY(sendfile(fd, file, &at, 100));
	meet();
	close(file);
	close(fd);
}

static void two_datagrams_server(void)
{
	int fd = udp_pair();
	char buf[2000];

	meet();
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	say_bytes(buf, 100);
	close(fd);
}

/* ---- splice ------------------------------------------------------------------------------- */

static void splice_out_client(void)
{
	int fd = tcp_pair(), pipes[2];
	loff_t at = 0;

	MUST(pipe(pipes));
	MUST(write(pipes[1], "through a pipe", 14));
	SAY(splice(pipes[0], NULL, fd, &at, 14, 0));
	SAY(splice(pipes[0], NULL, fd, NULL, 0, 0));
	SAY(splice(pipes[0], NULL, fd, NULL, 7, SPLICE_F_MOVE));
	SAY(splice(pipes[0], NULL, fd, NULL, 100, SPLICE_F_MORE));
	SAY(splice(pipes[0], NULL, fd, NULL, 100, SPLICE_F_NONBLOCK));
	MUST(write(pipes[1], "x", 1));
	SAY(splice(fd, NULL, fd, NULL, 10, 0));
	close(pipes[1]);
	SAY(splice(pipes[0], NULL, fd, NULL, 100, 0));
	SAY(splice(pipes[0], NULL, fd, NULL, 100, 0));
	close(pipes[0]);
	close(fd);
}

static void splice_in_client(void)
{
	int fd = tcp_pair(), pipes[2];
	char buf[100];
	loff_t at = 0;
	long n;

	MUST(pipe(pipes));
	await_bytes(fd, 20);
	SAY(splice(fd, &at, pipes[1], NULL, 7, 0));
	SAY(splice(fd, NULL, pipes[1], NULL, 0, 0));
	SAY(splice(fd, NULL, pipes[1], NULL, 7, 0));
	SAY(splice(fd, NULL, pipes[1], NULL, 100, SPLICE_F_MOVE));
	n = SAY(read(pipes[0], buf, sizeof(buf)));
	say_bytes(buf, (size_t)n);
	SAY(splice(fd, NULL, pipes[1], NULL, 100, 8192));
	meet();
	SAY(splice(fd, NULL, pipes[1], NULL, 100, 0));
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

static void splice_odd_client(void)
{
	int fd = tcp_pair(), file = file_of(100), pipes[2];

	MUST(pipe(pipes));
	SAY(tee(fd, pipes[1], 10, 0));
	SAY(tee(pipes[0], fd, 10, 0));
	SAY(copy_file_range(file, NULL, fd, NULL, 10, 0));
	SAY(copy_file_range(fd, NULL, file, NULL, 10, 0));
	SAY(splice(file, NULL, fd, NULL, 10, 0));
	SAY(pread(fd, pipes, 1, 0));
	SAY(pwrite(fd, pipes, 1, 0));
	SAY(lseek(fd, 0, SEEK_CUR));
	close(pipes[0]);
	close(pipes[1]);
	close(file);
	meet();
	close(fd);
}

/* ---- errno -------------------------------------------------------------------------------- */

#define KEEPS_ERRNO(call)                                        \
	do {                                                     \
		errno = 77;                                      \
		MUST(call);                                      \
		if (errno != 77)                                 \
			say("%s leaves errno %d", #call, errno); \
	} while (0)

static void errno_client(void)
{
	struct sockaddr_in sin = client_addr(1), to = server_addr(0);
	socklen_t len = sizeof(sin);
	struct pollfd p;
	struct timespec ts = {0, 0};
	char buf[100];
	struct iovec iov = {buf, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int fd, n, udp;

	meet();
	KEEPS_ERRNO(udp = socket(AF_INET, SOCK_DGRAM, 0));
	KEEPS_ERRNO(bind(udp, (struct sockaddr *)&sin, sizeof(sin)));
	KEEPS_ERRNO(sendto(udp, "x", 1, 0, (struct sockaddr *)&sin, sizeof(sin)));
	KEEPS_ERRNO(connect(udp, (struct sockaddr *)&to, sizeof(to)));
	KEEPS_ERRNO(send(udp, "x", 1, 0));
	KEEPS_ERRNO(fd = socket(AF_INET, SOCK_STREAM, 0));
	KEEPS_ERRNO(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int)));
	KEEPS_ERRNO(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	KEEPS_ERRNO(getsockname(fd, (struct sockaddr *)&sin, &len));
	KEEPS_ERRNO(getpeername(fd, (struct sockaddr *)&sin, &len));
	KEEPS_ERRNO(getsockopt(fd, SOL_SOCKET, SO_ERROR, &n, &len));
	KEEPS_ERRNO(send(fd, "x", 1, 0));
	KEEPS_ERRNO(write(fd, "x", 1));
	KEEPS_ERRNO(writev(fd, &iov, 1));
	KEEPS_ERRNO(sendmsg(fd, &msg, 0));
	await_bytes(fd, 20);
	KEEPS_ERRNO(recv(fd, buf, 1, 0));
	KEEPS_ERRNO(read(fd, buf, 1));
	KEEPS_ERRNO(readv(fd, &iov, 1));
	KEEPS_ERRNO(recvmsg(fd, &msg, 0));
	KEEPS_ERRNO(recvfrom(fd, buf, 1, 0, NULL, NULL));
	KEEPS_ERRNO(ioctl(fd, FIONREAD, &n));
	KEEPS_ERRNO(fcntl(fd, F_SETFL, O_NONBLOCK));
	p = (struct pollfd){.fd = fd, .events = POLLOUT};
	KEEPS_ERRNO(poll(&p, 1, 0));
	p.events = POLLPRI;
	KEEPS_ERRNO(poll(&p, 1, 10));
	KEEPS_ERRNO(ppoll(&p, 1, &ts, NULL));
	KEEPS_ERRNO(n = dup(fd));
	KEEPS_ERRNO(close(n));
	KEEPS_ERRNO(shutdown(fd, SHUT_RDWR));
	KEEPS_ERRNO(close(fd));
	KEEPS_ERRNO(close(udp));
	say("done");
}

static void errno_server(void)
{
	int listener = tcp_listening(0), fd;

	meet();
	errno = 77;
	fd = (int)MUST(accept(listener, NULL, NULL));
	say("errno %d", errno);
	MUST(send(fd, "01234567890123456789", 20, 0));
	await(fd, POLLRDHUP);
	close(listener);
	close(fd);
}

const struct behaviour mmsg_behaviours[] = {
	{"recv_nowait", recv_nowait_server, sends_three, OURS},
	{"recv_forone", recv_forone_server, sends_three, OURS},
	{"recv_all", recv_all_server, sends_three, OURS},
	{"recv_timeout", recv_timeout_server, sends_three, OURS},
	{"recv_tcp", recv_tcp_server, tcp_sends_20, OURS},
	{"recv_bad", recv_bad_server, sends_three, OURS},
	{"recv_error", recv_error_server, recv_error_client, OURS},
	{"send_many", counts_server, send_many_client, OURS},
	{"send_tcp", takes_all, send_tcp_client, OURS},
	{"sendfile", sums_all, sendfile_client, OURS},
	{"sendfile_odd", sums_all, sendfile_odd_client, OURS},
	{"sendfile_nonblock", reads_nothing, sendfile_nonblock_client, OURS},
	{"sendfile_udp", two_datagrams_server, sendfile_udp_client, KERNEL},
	{"splice_out", sums_all, splice_out_client, OURS},
	{"splice_in", tcp_sends_20, splice_in_client, OURS},
	{"splice_odd", reads_nothing, splice_odd_client, OURS},
	{"errno", errno_server, errno_client, KERNEL},
	{0},
};
