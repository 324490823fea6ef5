/* SPDX-License-Identifier: BSD-2-Clause */
/* The wrappers, over sockets that record how they are called: see fake_sock.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/param.h"
#include "base/sys.h"
#include "fake_sock.h"
#include "intercept/fdtable.h"
#include "tests/vma_test.h"

ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);
int close_range(unsigned first, unsigned last, int flags);
void closefrom(int first);

static int sigpipes;

static void on_sigpipe(int sig)
{
	sigpipes++;
	errno = EXDEV;
}

static int reset(void **state)
{
	fake_reset();
	sigpipes = 0;
	signal(SIGPIPE, on_sigpipe);
	return 0;
}

static int tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0 && fd_get(fd).sk);
	return fd;
}

static int udp(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0 && fd_get(fd).sk);
	return fd;
}

static bool is_open(int fd)
{
	return sys_fcntl(fd, F_GETFD, 0) >= 0;
}

/* Runs fn in a child; returns its result. */
static int in_child(int (*fn)(int fd), int fd)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(fn(fd));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- results ----------------------------------------------------------------------- */

static struct sockaddr_in address = {.sin_family = AF_INET};
static socklen_t address_len = sizeof(address);
static struct iovec iov[2];
static struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
static char buf[4096];

static long do_accept(int fd)
{
	int child = accept(fd, NULL, NULL);

	return child > 0 ? close(child) : child;
}

static long do_accept4(int fd)
{
	int child = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	return child > 0 ? close(child) : child;
}

static long do_bind(int fd)
{
	return bind(fd, (struct sockaddr *)&address, sizeof(address));
}

static long do_connect(int fd)
{
	return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

static long do_listen(int fd)
{
	return listen(fd, 5);
}

static long do_shutdown(int fd)
{
	return shutdown(fd, SHUT_WR);
}

static long do_getsockname(int fd)
{
	return getsockname(fd, (struct sockaddr *)&address, &address_len);
}

static long do_getpeername(int fd)
{
	return getpeername(fd, (struct sockaddr *)&address, &address_len);
}

static long do_getsockopt(int fd)
{
	return getsockopt(fd, SOL_SOCKET, 9999, buf, &address_len);
}

static long do_setsockopt(int fd)
{
	return setsockopt(fd, SOL_SOCKET, 9999, buf, 4);
}

static long do_ioctl(int fd)
{
	return ioctl(fd, FIONREAD, buf);
}

static long do_read(int fd)
{
	return read(fd, buf, 10);
}

static long do_readv(int fd)
{
	return readv(fd, iov, 2);
}

static long do_recv(int fd)
{
	return recv(fd, buf, 10, MSG_DONTWAIT);
}

static long do_recvfrom(int fd)
{
	return recvfrom(fd, buf, 10, MSG_DONTWAIT, (struct sockaddr *)&address, &address_len);
}

static long do_recvmsg(int fd)
{
	return recvmsg(fd, &message, MSG_DONTWAIT);
}

static long do_write(int fd)
{
	return write(fd, buf, 10);
}

static long do_writev(int fd)
{
	return writev(fd, iov, 2);
}

static long do_send(int fd)
{
	return send(fd, buf, 10, MSG_NOSIGNAL);
}

static long do_sendto(int fd)
{
	return sendto(fd, buf, 10, MSG_NOSIGNAL, (struct sockaddr *)&address, sizeof(address));
}

static long do_sendmsg(int fd)
{
	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static const struct {
	const char *op;
	long (*call)(int fd);
	long good;
	int in_kernel; /* errno of the call on a new TCP socket of the kernel; 0: success */
} rows[] = {
	{"accept", do_accept, 0, EINVAL},
	{"accept", do_accept4, 0, EINVAL},
	{"bind", do_bind, 0, 0},
	{"connect", do_connect, 0, ECONNREFUSED},
	{"getpeername", do_getpeername, 0, ENOTCONN},
	{"getsockname", do_getsockname, 0, 0},
	{"getsockopt", do_getsockopt, 0, ENOPROTOOPT},
	{"ioctl", do_ioctl, 0, 0},
	{"listen", do_listen, 0, 0},
	{"recv", do_read, 10, ENOTCONN},
	{"recv", do_readv, 300, ENOTCONN},
	{"recv", do_recv, 10, ENOTCONN},
	{"recv", do_recvfrom, 10, ENOTCONN},
	{"recv", do_recvmsg, 300, ENOTCONN},
	{"send", do_write, 10, EPIPE},
	{"send", do_writev, 300, EPIPE},
	{"send", do_send, 10, EPIPE},
	{"send", do_sendto, 10, EPIPE},
	{"send", do_sendmsg, 300, EPIPE},
	{"setsockopt", do_setsockopt, 0, ENOPROTOOPT},
	{"shutdown", do_shutdown, 0, ENOTCONN},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void prepare_row(void)
{
	fake_reset();
	iov[0] = (struct iovec){buf, 100};
	iov[1] = (struct iovec){buf + 100, 200};
	address_len = sizeof(address);
	address.sin_family = AF_INET;
	address.sin_port = 0;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	errno = 77;
}

static void test_success_is_passed_and_errno_left_alone(void **state)
{
	for (size_t i = 0; i < ROWS; i++) {
		int fd = tcp();

		prepare_row();
		assert_int_equal(rows[i].call(fd), rows[i].good);
		assert_string_equal(fake.op, rows[i].op);
		assert_int_equal(fake.ops, 1);
		assert_int_equal(errno, 77);
		close(fd);
	}
}

static void test_an_error_is_minus_one_and_errno(void **state)
{
	for (size_t i = 0; i < ROWS; i++) {
		int fd = tcp();

		prepare_row();
		fake.rc_after = 0;
		fake.rc = -ETIMEDOUT;
		assert_int_equal(rows[i].call(fd), -1);
		assert_int_equal(errno, ETIMEDOUT);
		close(fd);
	}
}

static void test_the_kernel_serves_what_is_not_ours(void **state)
{
	/* First the operation refuses; then the socket is a kernel socket. */
	for (size_t i = 0; i < 2 * ROWS; i++) {
		bool plain = i & 1;
		int fd, expect = rows[i / 2].in_kernel;

		fake.refuse = plain;
		fd = socket(AF_INET, SOCK_STREAM, 0);
		prepare_row();
		fake.rc_after = 0;
		fake.rc = SOCK_KERNEL;
		assert_int_equal(rows[i / 2].call(fd), expect ? -1 : 0);
		assert_int_equal(fake.ops, plain ? 0 : 1);
		if (expect)
			assert_int_equal(errno, expect);
		close(fd);
	}
}

/* ---- arguments --------------------------------------------------------------------- */

static void test_reads_and_writes_pass_what_the_kernel_would_check(void **state)
{
	struct iovec bad = {buf, (size_t)-1}, many[IOV_MAX + 1] = {{buf, 0}};
	struct msghdr long_message = {.msg_iov = many, .msg_iovlen = IOV_MAX + 1};
	volatile int minus_one = -1; /* gcc would warn */
	int fd = tcp();

	assert_int_equal(read(fd, NULL, 0), 0);
	assert_int_equal(readv(fd, many, 3), 0);
	assert_int_equal(writev(fd, many, 3), 0);
	assert_int_equal(fake.ops, 0);
	assert_int_equal(readv(fd, iov, minus_one), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(writev(fd, many, IOV_MAX + 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(writev(fd, &bad, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(sendmsg(fd, &long_message, 0), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_int_equal(recvmsg(fd, &long_message, 0), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_int_equal(fake.ops, 0);
	close(fd);
	fd = udp();
	assert_int_equal(write(fd, buf, 0), 0); /* an empty datagram */
	assert_int_equal(fake.ops, 1);
	close(fd);
}

static void test_addresses_go_both_ways(void **state)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from) + 20;
	int fd = udp();

	assert_int_equal(sendto(fd, "abc", 3, MSG_DONTWAIT, (struct sockaddr *)&address,
				sizeof(address)),
			 3);
	assert_ptr_equal(fake.name, &address);
	assert_int_equal(fake.namelen, sizeof(address));
	assert_int_equal(fake.flags, MSG_DONTWAIT);
	assert_memory_equal(fake.data, "abc", 3);
	assert_int_equal(recvfrom(fd, buf, 3, MSG_PEEK, (struct sockaddr *)&from, &len), 3);
	assert_int_equal(len, 16);
	assert_int_equal(fake.flags, MSG_PEEK);
	assert_int_equal(recvfrom(fd, buf, 3, 0, NULL, NULL), 3);
	assert_null(fake.name);
	assert_int_equal(recvfrom(fd, buf, 3, 0, (struct sockaddr *)&from, NULL), -1);
	assert_int_equal(errno, EFAULT);
	close(fd);
}

static int overflow_read(int fd)
{
	return (int)__read_chk(fd, buf, 11, 10);
}

static int overflow_recv(int fd)
{
	return (int)__recv_chk(fd, buf, 11, 10, 0);
}

static int overflow_poll(int fd)
{
	struct pollfd pfd = {.fd = fd};

	return __poll_chk(&pfd, 2, 0, sizeof(pfd));
}

static void test_checked_variants_check(void **state)
{
	int fd = tcp(), null = open("/dev/null", O_WRONLY), err = dup(2);

	assert_int_equal(__read_chk(fd, buf, 10, 10), 10);
	dup2(null, 2); /* "buffer overflow detected" */
	assert_int_equal(in_child(overflow_read, fd), -SIGABRT);
	assert_int_equal(in_child(overflow_recv, fd), -SIGABRT);
	assert_int_equal(in_child(overflow_poll, fd), -SIGABRT);
	dup2(err, 2);
	close(err);
	close(null);
	close(fd);
}

static void test_a_broken_stream_raises_sigpipe(void **state)
{
	int stream = tcp(), datagrams = udp();

	fake.rc_after = 0;
	fake.rc = -EPIPE;
	assert_int_equal(write(stream, buf, 1), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(sigpipes, 1);
	assert_int_equal(writev(stream, iov, 2), -1);
	assert_int_equal(send(stream, buf, 1, 0), -1);
	assert_int_equal(sendmsg(stream, &message, 0), -1);
	assert_int_equal(sigpipes, 4);
	assert_int_equal(send(stream, buf, 1, MSG_NOSIGNAL), -1);
	assert_int_equal(write(datagrams, buf, 1), -1);
	assert_int_equal(sigpipes, 4);
	close(stream);
	close(datagrams);
}

/* ---- several messages, files ------------------------------------------------------- */

static void test_mmsg_counts_what_was_done_before_an_error(void **state)
{
	struct iovec one = {buf, 10};
	struct mmsghdr msgs[4];
	int fd = udp();

	for (int i = 0; i < 4; i++)
		msgs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &one, .msg_iovlen = 1}};
	assert_int_equal(sendmmsg(fd, msgs, 4, 0), 4);
	assert_int_equal(msgs[3].msg_len, 10);
	fake_reset();
	fake.rc_after = 2;
	fake.rc = -EAGAIN;
	assert_int_equal(sendmmsg(fd, msgs, 4, 0), 2);
	assert_int_equal(sendmmsg(fd, msgs, 4, 0), -1);
	assert_int_equal(errno, EAGAIN);
	fake_reset();
	fake.rc_after = 3;
	fake.rc = -EAGAIN;
	assert_int_equal(recvmmsg(fd, msgs, 4, 0, NULL), 3);
	assert_int_equal(recvmmsg(fd, msgs, 4, 0, NULL), -1);
	assert_int_equal(recvmmsg(fd, msgs, 0, 0, NULL), 0);
	close(fd);
}

static void test_recvmmsg_flags_and_timeout(void **state)
{
	struct timespec timeout = {0, 0}, bad = {0, 1000000000}, later = {5, 0};
	struct iovec one = {buf, 10};
	struct mmsghdr msgs[3];
	int fd = udp();

	for (int i = 0; i < 3; i++)
		msgs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &one, .msg_iovlen = 1}};
	fake.flags = -1;
	assert_int_equal(recvmmsg(fd, msgs, 1, MSG_WAITFORONE, NULL), 1);
	assert_int_equal(fake.flags, 0);
	assert_int_equal(recvmmsg(fd, msgs, 3, MSG_WAITFORONE, NULL), 3);
	assert_int_equal(fake.flags, MSG_DONTWAIT);
	assert_int_equal(recvmmsg(fd, msgs, 3, 0, &timeout), 1);
	assert_int_equal(recvmmsg(fd, msgs, 3, 0, &bad), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(recvmmsg(fd, msgs, 3, 0, &later), 3);
	assert_int_equal(later.tv_sec, 4);
	close(fd);
}

static void test_sendfile_moves_the_offset_it_is_told_to(void **state)
{
	char text[20000];
	off_t offset = 100;
	int fd = tcp(), file = memfd_create("file", 0), pipes[2];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7);
	assert_int_equal(write(file, text, sizeof(text)), sizeof(text));
	assert_int_equal(sendfile(fd, file, &offset, 50), 50);
	assert_int_equal(offset, 150);
	assert_memory_equal(fake.data, text + 100, 50);
	assert_int_equal(lseek(file, 0, SEEK_CUR), sizeof(text));

	lseek(file, 10, SEEK_SET);
	assert_int_equal(sendfile(fd, file, NULL, 1000000), sizeof(text) - 10);
	assert_int_equal(lseek(file, 0, SEEK_CUR), sizeof(text));
	assert_int_equal(sendfile(fd, file, NULL, 10), 0);

	fake_reset();
	fake.rc_after = 1;
	fake.rc = 5; /* the second piece goes in part */
	offset = 0;
	assert_int_equal(sendfile(fd, file, &offset, sizeof(text)), 16384 + 5);
	assert_int_equal(offset, 16384 + 5);

	fake_reset();
	offset = -1;
	assert_int_equal(sendfile(fd, file, &offset, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(sendfile(fd, 9999, NULL, 1), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(sendfile(fd, pipes[0], NULL, 1), -1);
	assert_int_equal(errno, EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	close(file);
	close(fd);
}

/* ---- descriptors ------------------------------------------------------------------- */

static void test_only_inet_sockets_are_offered(void **state)
{
	int unix_fd = socket(AF_UNIX, SOCK_STREAM, 0), v6 = socket(AF_INET6, SOCK_STREAM, 0),
	    raw = socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6), pair[2];

	assert_null(fd_get(unix_fd).sk);
	assert_non_null(fd_get(v6).sk);
	assert_null(fd_get(raw).sk);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_null(fd_get(pair[0]).sk);
	close(unix_fd);
	close(v6);
	close(raw);
	close(pair[0]);
	close(pair[1]);
	params.offloaded_sockets = false;
	v6 = socket(AF_INET, SOCK_STREAM, 0);
	unix_fd = epoll_create1(0);
	params.offloaded_sockets = true;
	assert_null(fd_get(v6).sk);
	assert_null(fd_get(unix_fd).sk);
	close(v6);
	close(unix_fd);
}

static void test_close_ends_the_socket_and_the_descriptor(void **state)
{
	int fd = tcp();
	struct sock_ref ref = fd_get(fd);

	errno = 77;
	assert_int_equal(close(fd), 0);
	assert_int_equal(errno, 77);
	assert_false(fake_is_open(ref));
	assert_int_equal(fake.n_closed, 1);
	assert_false(is_open(fd));
	assert_int_equal(close(fd), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(fake.n_closed, 1);
}

static void test_a_socket_lives_as_long_as_one_of_its_copies(void **state)
{
	int fd = tcp(), copy = dup(fd), third = fcntl(fd, F_DUPFD_CLOEXEC, 100), fourth;
	struct sock_ref ref = fd_get(fd);

	fourth = dup3(copy, 90, O_CLOEXEC);
	assert_true(third >= 100 && fourth == 90);
	assert_ptr_equal(fd_get(copy).sk, ref.sk);
	assert_ptr_equal(fd_get(third).sk, ref.sk);
	assert_ptr_equal(fd_get(fourth).sk, ref.sk);
	close(fd);
	assert_true(fake_is_open(ref));
	assert_true(is_open(ref.sk->twin) && ref.sk->twin != fd);
	assert_int_equal(send(copy, buf, 3, 0), 3);
	close(third);
	close(copy);
	assert_true(fake_is_open(ref));
	assert_int_equal(ref.sk->twin, fourth);
	close(fourth);
	assert_false(fake_is_open(ref));
}

static void test_dup2_replaces_a_socket(void **state)
{
	int one = tcp(), two = udp();
	struct sock_ref first = fd_get(one), second = fd_get(two);

	assert_int_equal(dup2(one, one), one);
	assert_int_equal(dup2(9999, two), -1);
	assert_int_equal(errno, EBADF);
	assert_true(fake_is_open(second));
	assert_int_equal(dup3(one, one, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(dup2(one, two), two);
	assert_false(fake_is_open(second));
	assert_ptr_equal(fd_get(two).sk, first.sk);
	assert_int_equal(dup2(one, two), two); /* dup2() onto a copy of the same socket */
	assert_ptr_equal(fd_get(two).sk, first.sk);
	close(one);
	assert_true(fake_is_open(first));
	close(two);
	assert_false(fake_is_open(first));
}

static void test_a_number_closed_unseen_is_not_mistaken(void **state)
{
	int fd = tcp(), again;
	struct sock_ref ref = fd_get(fd);

	sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
	again = dup(0);
	assert_int_equal(again, fd);
	assert_null(fd_get(again).sk);
	assert_false(fake_is_open(ref));
	assert_int_equal(ref.sk->twin, -1); /* the object has released the descriptor */
	close(again);
	fd = tcp();
	ref = fd_get(fd);
	sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
	fake.refuse = true;
	assert_int_equal(socket(AF_INET, SOCK_STREAM, 0), fd);
	assert_null(fd_get(fd).sk);
	close(fd);
}

static void test_a_socket_that_falls_back_is_plain(void **state)
{
	int fd = tcp(), copy = dup(fd);

	fake_leave(fd_get(fd).sk);
	assert_int_equal(listen(copy, 1), 0);
	assert_int_equal(fake.ops, 0);
	close(fd);
	close(copy);
	assert_int_equal(fake.n_closed, 0);
}

static void test_accepted_sockets_may_be_ours(void **state)
{
	int fd = tcp(), child;

	child = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
	assert_true(child >= 0);
	assert_int_equal(fake.flags, SOCK_NONBLOCK);
	assert_null(fd_get(child).sk);
	close(child);
	fake.on_accept = true;
	child = accept(fd, NULL, NULL);
	assert_non_null(fd_get(child).sk);
	close(child);
	assert_int_equal(fake.n_closed, 1);
	assert_int_equal(accept4(fd, NULL, NULL, 1), -1);
	assert_int_equal(errno, EINVAL);
	close(fd);
}

static void test_nonblock_is_seen_by_both_and_by_the_program(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, off = 0;
	struct sock *sk = fd_get(fd).sk;

	assert_true(sk->nonblock);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_false(sk->nonblock);
	assert_false(sys_fcntl(fd, F_GETFL, 0) & O_NONBLOCK);
	assert_int_equal(ioctl(fd, FIONBIO, &on), 0);
	assert_true(sk->nonblock);
	assert_true(sys_fcntl(fd, F_GETFL, 0) & O_NONBLOCK);
	assert_int_equal(ioctl(fd, FIONBIO, &off), 0);
	assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
	/* Another process that shares the file does the same. */
	assert_int_equal(sys_fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(sk->nonblock);
	assert_int_equal(fake.ops, 0);
	close(fd);
}

static void test_hidden_descriptors_look_closed(void **state)
{
	int hidden = sys_fd_hide(sys_eventfd(0, 0)), low = open("/dev/null", O_RDONLY);

	assert_int_equal(close(hidden), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(dup2(low, hidden), -1);
	assert_int_equal(errno, EBUSY);
	assert_true(is_open(hidden));
	for (int fd = low; fd < 1024; fd++)
		close(fd);
	assert_false(is_open(low));
	assert_true(is_open(hidden));
	sys_close(hidden);
	assert_false(is_open(hidden));
}

static int closes_everything(int low)
{
	int high = fcntl(low, F_DUPFD, 900);
	int hidden = sys_fd_hide(sys_fcntl(low, F_DUPFD_CLOEXEC, 800));

	closefrom(3);
	return is_open(hidden) && !is_open(low) && !is_open(high) ? 0 : 1;
}

static void test_everything_but_hidden_descriptors_is_closed(void **state)
{
	int fd = tcp(), copy = dup(fd), other, hidden = sys_fd_hide(sys_eventfd(0, 0));
	struct sock_ref ref = fd_get(fd);

	other = fcntl(0, F_DUPFD, 700);
	assert_int_equal(close_range(5000, 4000, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(close_range((unsigned)fd, ~0u, 1 << 2 /* CLOSE_RANGE_CLOEXEC */), 0);
	assert_true(fake_is_open(ref) && is_open(fd));
	assert_int_equal(close_range((unsigned)fd, (unsigned)fd, 0), 0);
	assert_true(fake_is_open(ref) && !is_open(fd));
	assert_int_equal(close_range((unsigned)fd, ~0u, 0), 0);
	assert_false(fake_is_open(ref));
	assert_false(is_open(copy));
	assert_false(is_open(other));
	assert_true(is_open(hidden));
	assert_int_equal(close_range((unsigned)hidden, (unsigned)hidden, 0), 0);
	assert_true(is_open(hidden));
	assert_int_equal(in_child(closes_everything, dup(0)), 0);
	sys_close(hidden);
}

/* ---- fork, clone, vfork -------------------------------------------------------------- */

static int is_plain_in_child(int fd)
{
	if (fd_get(fd).sk || fake.forked != 1 || listen(fd, 1) || fake.ops || close(fd))
		return 1;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd_get(fd).sk ? 0 : 2; /* the library accelerates new sockets of the child */
}

static void test_a_forked_child_has_plain_descriptors(void **state)
{
	int fd = tcp(), hidden = sys_fd_hide(sys_eventfd(0, 0));
	struct sock_ref ref = fd_get(fd);

	assert_int_equal(in_child(is_plain_in_child, fd), 0);
	assert_ptr_equal(fd_get(fd).sk, ref.sk);
	assert_true(fake_is_open(ref));
	assert_int_equal(close(fd), 0);
	sys_close(hidden);
}

/* fake.forked counts how often it began. */
static int begins_at_a_call(int fd)
{
	if (fake.forked)
		return 1;
	return close(dup(fd)) || fake.forked != 1 || close(dup(fd)) || fake.forked != 1;
}

static void test_a_forked_child_begins_at_its_first_call(void **state)
{
	int fd = tcp(), low = open("/dev/null", O_RDONLY);

	assert_int_equal(in_child(begins_at_a_call, fd), 0);
	assert_int_equal(in_child(begins_at_a_call, low), 0);
	close(fd);
	close(low);
}

static int a_child_of_it_begins(int fd)
{
	int bad = in_child(begins_at_a_call, fd); /* it inherits fake.forked == 1 */

	return fake.forked != 1 || bad != 1;
}

static void test_a_child_that_forks_begins_before(void **state)
{
	int fd = tcp();

	assert_int_equal(in_child(a_child_of_it_begins, fd), 0);
	close(fd);
}

#define CALLERS 4
static int called_fd;

/* True if this thread sees what the thread that begins has done. */
static void *first_call(void *barrier)
{
	pthread_barrier_wait(barrier);
	return (void *)(uintptr_t)(!fd_get(called_fd).sk && fake.forked == 1);
}

static int threads_see_the_same(int fd)
{
	pthread_barrier_t barrier;
	pthread_t threads[CALLERS];
	void *good;
	int bad = 0;

	called_fd = fd;
	fake.slow_fork = 1000;
	pthread_barrier_init(&barrier, NULL, CALLERS);
	for (int i = 0; i < CALLERS; i++)
		bad |= pthread_create(&threads[i], NULL, first_call, &barrier);
	for (int i = 0; i < CALLERS; i++)
		bad |= pthread_join(threads[i], &good) || !good;
	return bad;
}

static void test_threads_of_a_forked_child_wait_for_the_one_that_begins(void **state)
{
	int fd = tcp();

	assert_int_equal(in_child(threads_see_the_same, fd), 0);
	close(fd);
}

static int set_is_known_in_child(int epfd)
{
	return fd_get(epfd).sk ? 0 : 1;
}

static void test_a_forked_child_keeps_epoll_sets(void **state)
{
	int epfd = epoll_create1(0);

	assert_int_equal(in_child(set_is_known_in_child, epfd), 0);
	close(epfd);
}

static void test_a_child_of_Fork_has_plain_descriptors(void **state)
{
	int fd = tcp(), status;
	pid_t pid = _Fork();

	if (!pid)
		_exit(is_plain_in_child(fd));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_non_null(fd_get(fd).sk);
	close(fd);
}

static long raw_clone(void)
{
	return sys_call(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
}

static long raw_clone3(void)
{
	struct clone_args args = {.exit_signal = SIGCHLD};

	return sys_call(SYS_clone3, &args, sizeof(args), 0, 0, 0, 0);
}

/* The first call of the child uses an inherited socket, or creates one. */
static int data_is_the_kernels(int fd)
{
	char byte;

	if (recv(fd, &byte, 1, MSG_DONTWAIT) != -1 || fake.ops)
		return 3;
	return is_plain_in_child(fd);
}

static int a_new_one_is_ours(int fd)
{
	int own = socket(AF_INET, SOCK_STREAM, 0);

	return fd_get(own).sk && fake.forked == 1 && !fd_get(fd).sk ? 0 : 4;
}

static void test_a_child_of_clone_has_plain_descriptors(void **state)
{
	static const struct {
		long (*make)(void);
		int (*first_call)(int fd);
	} ways[] = {{raw_clone, data_is_the_kernels},
		    {raw_clone, a_new_one_is_ours},
		    {raw_clone3, data_is_the_kernels},
		    {raw_clone3, a_new_one_is_ours}};
	int fd = tcp(), hidden = sys_fd_hide(sys_eventfd(0, 0)), status;
	struct sock_ref ref = fd_get(fd);

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		long pid = ways[i].make();

		if (!pid) {
			int bad = ways[i].first_call(fd);

			_exit(bad ? bad : sys_fcntl(hidden, F_GETFD, 0) != -EBADF);
		}
		assert_int_equal(waitpid((pid_t)pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_ptr_equal(fd_get(fd).sk, ref.sk);
		assert_int_equal(fake.forked, 0);
		assert_int_equal(sys_fcntl(hidden, F_GETFD, 0), FD_CLOEXEC);
	}
	assert_true(fake_is_open(ref));
	close(fd);
	sys_close(hidden);
}

static void test_a_vfork_child_does_not_change_its_parent(void **state)
{
	int fd = tcp(), second = udp(), low = open("/dev/null", O_RDONLY), status;
	struct sock_ref ref = fd_get(fd), other = fd_get(second);
	pid_t pid = vfork();

	if (!pid) {
		int bad = 0;

		bad |= dup2(fd, 100) != 100;
		bad |= dup2(low, second) != second;
		bad |= close(fd) != 0;
		bad |= close_range(3, ~0u, 0) != 0;
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_ptr_equal(fd_get(fd).sk, ref.sk);
	assert_ptr_equal(fd_get(second).sk, other.sk);
	assert_null(fd_get(100).sk);
	assert_true(fake_is_open(ref) && fake_is_open(other));
	assert_true(is_open(fd) && is_open(second));
	assert_int_equal(fake.n_closed, 0);
	close(fd);
	close(second);
	close(low);
}

/* ---- waiting ----------------------------------------------------------------------- */

static void test_poll_and_select_are_ours_if_one_descriptor_is(void **state)
{
	struct timespec ts = {1, 5}, bad = {-1, 0};
	struct timeval tv = {2, 3000000};
	int fd = udp(), pipes[2];
	struct pollfd fds[2];
	fd_set set;

	assert_int_equal(pipe(pipes), 0);
	fds[0] = (struct pollfd){.fd = pipes[0], .events = POLLIN};
	fds[1] = (struct pollfd){.fd = -1};
	assert_int_equal(poll(fds, 2, 0), 0);
	assert_int_equal(fake.ops, 0);
	fds[1].fd = fd;
	assert_int_equal(poll(fds, 2, -1), 2);
	assert_true(fake.timeout == NSEC_NEVER);
	assert_int_equal(poll(fds, 2, 7), 2);
	assert_true(fake.timeout == 7 * NSEC_PER_MSEC);
	assert_int_equal(ppoll(fds, 2, &ts, NULL), 2);
	assert_true(fake.timeout == NSEC_PER_SEC + 5);
	assert_int_equal(ppoll(fds, 2, &bad, NULL), -1);
	assert_int_equal(errno, EINVAL);

	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	FD_SET(fd, &set);
	fake_reset();
	assert_int_equal(select(fd + 1, NULL, &set, NULL, &tv), fd + 1);
	assert_true(fake.timeout == 5 * NSEC_PER_SEC);
	assert_int_equal(tv.tv_sec, 4);
	assert_int_equal(pselect(fd + 1, &set, NULL, NULL, NULL, NULL), fd + 1);
	assert_true(fake.timeout == NSEC_NEVER);
	assert_int_equal(fake.ops, 2);
	/* select() ignores the bit beyond n. */
	tv = (struct timeval){0, 0};
	assert_true(fd < pipes[0]);
	FD_CLR(fd, &set);
	FD_SET(pipes[1], &set);
	assert_int_equal(select(pipes[0] + 1, &set, NULL, NULL, &tv), 0);
	assert_int_equal(fake.ops, 2);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

static void test_epoll_ctl_goes_to_the_kernel_with_the_socket(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = udp(), epfd = epoll_create1(EPOLL_CLOEXEC);

	fake.rc = SOCK_KERNEL;
	fake.rc_after = fake.ops;
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), 0);
	assert_string_equal(fake.op, "epoll_ctl");
	assert_int_equal(fake.kernel_fds, 1);
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &event), 0);
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL), 0);
	assert_int_equal(fake.kernel_fds, 0);
	close(epfd);
	close(fd);
}

static void test_epoll_sets_are_ours_once_they_have_a_socket(void **state)
{
	struct epoll_event event = {.events = EPOLLIN}, out[4];
	struct timespec ts = {3, 0};
	struct pollfd pfd;
	int fd = udp(), epfd = epoll_create1(EPOLL_CLOEXEC), pipes[2];

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, pipes[0], &event), 0);
	assert_int_equal(epoll_wait(epfd, out, 4, 0), 0);
	assert_int_equal(fake.ops, 0);
	assert_int_equal(fake.kernel_fds, 1);
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, pipes[0], &event), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_MOD, pipes[0], &event), 0);
	assert_int_equal(fake.kernel_fds, 1);
	/*
	 * Adding the first socket wakes a waiting thread, so that it does not stay in the
	 * kernel's call.
	 */
	assert_int_equal(epoll_wait(epfd, out, 4, 1), 1);
	assert_string_equal(fake.op, "epoll_wait");
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), 0);
	assert_string_equal(fake.op, "epoll_ctl");
	assert_int_equal(epoll_wait(epfd, out, 4, 12), 1);
	assert_true(fake.timeout == 12 * NSEC_PER_MSEC);
	assert_int_equal(epoll_pwait(epfd, out, 4, -1, NULL), 1);
	assert_true(fake.timeout == NSEC_NEVER);
	assert_int_equal(epoll_pwait2(epfd, out, 4, &ts, NULL), 1);
	assert_true(fake.timeout == 3 * NSEC_PER_SEC);
	pfd = (struct pollfd){.fd = epfd, .events = POLLIN};
	assert_int_equal(poll(&pfd, 1, 0), 1);
	assert_string_equal(fake.op, "poll");
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL), 0);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	assert_int_equal(poll(&pfd, 1, 1), 1);
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_DEL, pipes[0], NULL), 0);
	assert_int_equal(fake.kernel_fds, 0);
	close(pipes[0]);
	close(pipes[1]);
	close(epfd);
	assert_int_equal(fake.n_closed, 1);
	close(fd);
}

static void test_an_epoll_set_is_no_socket(void **state)
{
	int epfd = epoll_create(1), fd = tcp();
	struct epoll_event event = {.events = EPOLLIN};

	assert_int_equal(read(epfd, buf, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(listen(epfd, 1), -1);
	assert_int_equal(errno, ENOTSOCK);
	assert_int_equal(epoll_wait(fd, &event, 1, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(fake.ops, 0);
	/* A set without an object of the library gets the kernel socket. */
	params.offloaded_sockets = false;
	close(epfd);
	epfd = epoll_create1(0);
	params.offloaded_sockets = true;
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), 0);
	assert_int_equal(fake.to_kernel, 1);
	assert_null(fd_get(fd).sk);
	close(epfd);
	close(fd);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_success_is_passed_and_errno_left_alone, reset),
	cmocka_unit_test_setup(test_an_error_is_minus_one_and_errno, reset),
	cmocka_unit_test_setup(test_the_kernel_serves_what_is_not_ours, reset),
	cmocka_unit_test_setup(test_reads_and_writes_pass_what_the_kernel_would_check, reset),
	cmocka_unit_test_setup(test_addresses_go_both_ways, reset),
	cmocka_unit_test_setup(test_checked_variants_check, reset),
	cmocka_unit_test_setup(test_a_broken_stream_raises_sigpipe, reset),
	cmocka_unit_test_setup(test_mmsg_counts_what_was_done_before_an_error, reset),
	cmocka_unit_test_setup(test_recvmmsg_flags_and_timeout, reset),
	cmocka_unit_test_setup(test_sendfile_moves_the_offset_it_is_told_to, reset),
	cmocka_unit_test_setup(test_only_inet_sockets_are_offered, reset),
	cmocka_unit_test_setup(test_close_ends_the_socket_and_the_descriptor, reset),
	cmocka_unit_test_setup(test_a_socket_lives_as_long_as_one_of_its_copies, reset),
	cmocka_unit_test_setup(test_dup2_replaces_a_socket, reset),
	cmocka_unit_test_setup(test_a_number_closed_unseen_is_not_mistaken, reset),
	cmocka_unit_test_setup(test_a_socket_that_falls_back_is_plain, reset),
	cmocka_unit_test_setup(test_accepted_sockets_may_be_ours, reset),
	cmocka_unit_test_setup(test_nonblock_is_seen_by_both_and_by_the_program, reset),
	cmocka_unit_test_setup(test_hidden_descriptors_look_closed, reset),
	cmocka_unit_test_setup(test_everything_but_hidden_descriptors_is_closed, reset),
	cmocka_unit_test_setup(test_a_forked_child_has_plain_descriptors, reset),
	cmocka_unit_test_setup(test_a_forked_child_begins_at_its_first_call, reset),
	cmocka_unit_test_setup(test_a_child_that_forks_begins_before, reset),
	cmocka_unit_test_setup(test_threads_of_a_forked_child_wait_for_the_one_that_begins, reset),
	cmocka_unit_test_setup(test_a_forked_child_keeps_epoll_sets, reset),
	cmocka_unit_test_setup(test_a_child_of_Fork_has_plain_descriptors, reset),
	cmocka_unit_test_setup(test_a_child_of_clone_has_plain_descriptors, reset),
	cmocka_unit_test_setup(test_a_vfork_child_does_not_change_its_parent, reset),
	cmocka_unit_test_setup(test_poll_and_select_are_ours_if_one_descriptor_is, reset),
	cmocka_unit_test_setup(test_epoll_ctl_goes_to_the_kernel_with_the_socket, reset),
	cmocka_unit_test_setup(test_epoll_sets_are_ours_once_they_have_a_socket, reset),
	cmocka_unit_test_setup(test_an_epoll_set_is_no_socket, reset),
};

VMA_TEST_MAIN("calls", tests, NULL, NULL)
