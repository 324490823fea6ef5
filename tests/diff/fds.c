/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of sockets: copies, flags, ioctls, calls for files. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/io_uring.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/look.h"
#include "tests/diff/worker.h"

static void *volatile nowhere;
static volatile int closed_fd = 999;

/* Echoes what arrives until the end, then ends too. */
static void echo(void)
{
	int fd = tcp_pair();
	char buf[100];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		MUST(send(fd, buf, (size_t)n, MSG_NOSIGNAL));
	SAY((long)n);
	close(fd);
	meet();
}

static void try(const char *what, int fd)
{
	char buf[10] = "";

	say("%s: %ld", what, (long)send(fd, "abc", 3, 0));
	say("%s: %ld %s", what, (long)recv(fd, buf, 9, 0), buf);
}

static int nonblocking(int fd)
{
	return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

/* ---- copies ---------------------------------------------------------------------------- */

static void dups(void)
{
	int fd = tcp_pair(), a = (int)MUST(dup(fd)), b = (int)MUST(fcntl(fd, F_DUPFD, 50)), c;

	SAY_IF(b == 50);
	c = (int)MUST(fcntl(b, F_DUPFD_CLOEXEC, 60));
	SAY_IF(c == 60);
	say("flags %d %d %d", fcntl(a, F_GETFD), fcntl(b, F_GETFD), fcntl(c, F_GETFD));
	try("first", fd);
	try("dup", a);
	try("F_DUPFD", b);
	try("F_DUPFD_CLOEXEC", c);
	close(fd);
	try("dup, first closed", a);
	close(a);
	close(b);
	try("the last", c);
	close(c);
	meet();
}

static void dup_errors(void)
{
	int fd = udp_bound(1);

	SAY(dup(closed_fd));
	SAY(dup2(closed_fd, fd));
	SAY(dup2(fd, -1));
	SAY(dup2(fd, 1 << 30));
	SAY(dup2(fd, fd) == fd);
	SAY(dup3(fd, fd, 0));
	SAY(dup3(fd, fd, O_CLOEXEC));
	SAY(dup3(fd, 50, O_NONBLOCK));
	SAY(dup3(closed_fd, 50, O_CLOEXEC));
	SAY(fcntl(fd, F_DUPFD, -1));
	SAY(fcntl(fd, F_DUPFD, 1 << 30));
	SAY(fcntl(fd, 9999, 0));
	SAY(fcntl(closed_fd, F_GETFL));
	close(fd);
	SAY(dup2(closed_fd, closed_fd));
}

static void dup3_flags(void)
{
	int fd = tcp_pair();

	SAY(dup3(fd, 70, O_CLOEXEC));
	say("flags %d", fcntl(70, F_GETFD));
	SAY(dup2(fd, 71));
	say("flags %d", fcntl(71, F_GETFD));
	close(fd);
	try("70", 70);
	SAY(dup2(70, 71) == 71);
	close(70);
	try("71", 71);
	close(71);
	meet();
}

/* Another file replaces the last descriptor of a connection: it ends. */
static void dup2_over(void)
{
	int fd = tcp_pair(), other = udp_bound(1);

	SAY(dup2(other, fd) == fd);
	meet();
	SAY(send(fd, "x", 1, 0));
	close(fd);
	close(other);
}

static void shared_flags(void)
{
	int fd = tcp_pair(), copy = (int)MUST(dup(fd)), one = 1, zero = 0;
	char c;

	say("%d %d", nonblocking(fd), nonblocking(copy));
	set_nonblocking(copy, true);
	say("%d %d", nonblocking(fd), nonblocking(copy));
	SAY(recv(fd, &c, 1, 0));
	SAY(ioctl(fd, FIONBIO, &zero));
	say("%d %d", nonblocking(fd), nonblocking(copy));
	SAY(ioctl(copy, FIONBIO, &one));
	SAY(recv(fd, &c, 1, 0));
	SAY(ioctl(fd, FIONBIO, nowhere));
	say("access %d", fcntl(fd, F_GETFL) & O_ACCMODE);
	SAY(fcntl(fd, F_SETFL, O_RDWR | O_APPEND | O_NONBLOCK));
	say("append %d", (fcntl(copy, F_GETFL) & O_APPEND) != 0);
	SAY(fcntl(fd, F_SETFD, FD_CLOEXEC));
	say("flags %d %d", fcntl(fd, F_GETFD), fcntl(copy, F_GETFD));
	SAY(ioctl(copy, FIOCLEX));
	SAY(ioctl(fd, FIONCLEX));
	say("flags %d %d", fcntl(fd, F_GETFD), fcntl(copy, F_GETFD));
	close(fd);
	close(copy);
	meet();
}

static void low_numbers(void)
{
	int saved = (int)MUST(fcntl(0, F_DUPFD_CLOEXEC, 100)), fd;

	close(0);
	fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	say("the number is %d", fd);
	look("fresh", fd);
	close(fd);
	fd = tcp_pair();
	say("the number is %d", fd);
	try("connected", fd);
	close(fd);
	meet();
	MUST(dup2(saved, 0));
	close(saved);
}

/* ---- closing many ------------------------------------------------------------------------ */

static void close_ranges(void)
{
	int fd = tcp_pair(), a, b;

	a = (int)MUST(fcntl(fd, F_DUPFD, 100));
	b = (int)MUST(fcntl(fd, F_DUPFD, 110));
	SAY(close_range(10, 5, 0));
	SAY(close_range(100, 105, 9999));
	SAY(close_range(100, 105, CLOSE_RANGE_CLOEXEC));
	say("flags %d %d", fcntl(a, F_GETFD), fcntl(b, F_GETFD));
	try("marked", a);
	SAY(close_range(100, 105, 0));
	SAY(fcntl(a, F_GETFD));
	try("the other", b);
	SAY(close_range(105, 115, CLOSE_RANGE_UNSHARE));
	SAY(fcntl(b, F_GETFD));
	try("the first", fd);
	SAY(close_range((unsigned)fd, (unsigned)fd, 0));
	meet();
	SAY(send(fd, "x", 1, MSG_NOSIGNAL));
}

static int close_all_the_old_way(void *arg)
{
	int *fd = arg;

	for (int i = 3; i < 1024; i++)
		close(i);
	if (fcntl(*fd, F_GETFD) >= 0 || errno != EBADF)
		return 1;
	*fd = socket(AF_INET, SOCK_DGRAM, 0);
	return *fd < 0;
}

static void daemonised(void)
{
	int fd = udp_bound(1), pid = spawn(close_all_the_old_way, &fd);

	join(pid);
	look("the parent's", fd);
	close(fd);
}

/* A program that closes all descriptors that it can find, and continues with sockets. */
static void close_them_all(void)
{
	int fd;

	for (int i = 3; i < 1024; i++) {
		if (i != CONTROL_FD && i != TRANSCRIPT_FD)
			close(i);
	}
	fd = tcp_pair();
	try("afterwards", fd);
	close(fd);
	meet();
}

/* ---- fcntl, ioctl -------------------------------------------------------------------------- */

static void locks(void)
{
	int fd = udp_bound(1);
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

	SAY(fcntl(fd, F_GETLK, &lock));
	SAY(fcntl(fd, F_SETLK, &lock));
	SAY(fcntl(fd, F_OFD_SETLK, &lock));
	SAY(fcntl(fd, F_SETLK, nowhere));
	SAY(flock(fd, LOCK_EX | LOCK_NB));
	SAY(flock(fd, LOCK_UN));
	SAY(lockf(fd, F_TLOCK, 0));
	SAY(fcntl(fd, F_GETPIPE_SZ));
	SAY(fcntl(fd, F_GETLEASE));
	SAY(fcntl(fd, F_SETLEASE, F_RDLCK));
	SAY(fcntl(fd, F_GET_SEALS));
	close(fd);
}

static volatile sig_atomic_t signals, last_fd, last_code;

static void on_io(int sig, siginfo_t *info, void *context)
{
	signals++;
	last_fd = info->si_fd;
	last_code = info->si_code;
}

static void await_signal(const char *what)
{
	for (long until = now_ms() + PATIENCE; !signals && now_ms() < until;) {
		struct pollfd none = {.fd = -1};

		poll(&none, 1, 5);
	}
	say("%s: %s", what, signals ? "signalled" : "no signal");
	signals = 0;
}

static void two_bytes(void)
{
	int fd = tcp_pair();

	meet();
	MUST(send(fd, "x", 1, 0));
	meet();
	MUST(send(fd, "x", 1, 0));
	meet();
	close(fd);
}

static void owner(void)
{
	int fd = udp_bound(1), pid = getpid(), n = 0;
	struct f_owner_ex ex = {F_OWNER_TID, 0};

	SAY(fcntl(fd, F_GETOWN));
	SAY(fcntl(fd, F_SETOWN, pid));
	SAY_IF(fcntl(fd, F_GETOWN) == pid);
	SAY(fcntl(fd, F_GETSIG));
	SAY(fcntl(fd, F_SETSIG, SIGUSR1));
	SAY_IF(fcntl(fd, F_GETSIG) == SIGUSR1);
	SAY(fcntl(fd, F_SETSIG, 1000));
	SAY(fcntl(fd, F_GETOWN_EX, &ex));
	SAY_IF(ex.type == F_OWNER_PID && ex.pid == pid);
	SAY(ioctl(fd, FIOGETOWN, &n));
	SAY_IF(n == pid);
	SAY(ioctl(fd, SIOCGPGRP, &n));
	n = -getpgrp();
	SAY(ioctl(fd, FIOSETOWN, &n));
	SAY_IF(fcntl(fd, F_GETOWN_EX, &ex) == 0 && ex.type == F_OWNER_PGRP);
	n = 0;
	SAY(ioctl(fd, SIOCSPGRP, &n));
	SAY(fcntl(fd, F_GETOWN));
	close(fd);
}

/* SIGIO when data arrives. */
static void sigio(void)
{
	struct sigaction act = {.sa_sigaction = on_io, .sa_flags = SA_SIGINFO | SA_RESTART};
	int fd = tcp_pair(), one = 1;
	char c;

	signals = 0;
	MUST(sigaction(SIGIO, &act, NULL));
	MUST(sigaction(SIGUSR1, &act, NULL));
	SAY(fcntl(fd, F_SETOWN, getpid()));
	SAY(fcntl(fd, F_SETFL, O_RDWR | O_ASYNC));
	SAY_IF(fcntl(fd, F_GETFL) & O_ASYNC);
	meet();
	await_signal("data");
	await_bytes(fd, 1);
	SAY(recv(fd, &c, 1, 0));
	SAY(fcntl(fd, F_SETSIG, SIGUSR1));
	SAY(ioctl(fd, FIOASYNC, &one));
	signals = 0;
	meet();
	await_signal("data");
	SAY_IF(last_fd == fd);
	SAY_IF(last_code == POLL_IN);
	SAY(fcntl(fd, F_SETFL, O_RDWR));
	await_bytes(fd, 1);
	SAY(recv(fd, &c, 1, 0));
	signal(SIGIO, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
	meet();
	close(fd);
}

static void udp_two(void)
{
	int fd = udp_pair();

	meet();
	MUST(send(fd, "x", 1, 0));
	meet();
	close(fd);
}

static void sigio_udp(void)
{
	struct sigaction act = {.sa_sigaction = on_io, .sa_flags = SA_SIGINFO | SA_RESTART};
	int fd = udp_pair(), one = 1;
	char c;

	signals = 0;
	MUST(sigaction(SIGIO, &act, NULL));
	SAY(fcntl(fd, F_SETOWN, getpid()));
	SAY(ioctl(fd, FIOASYNC, &one));
	meet();
	await_signal("data");
	await(fd, POLLIN);
	SAY(recv(fd, &c, 1, 0));
	signal(SIGIO, SIG_DFL);
	meet();
	close(fd);
}

static void say_ioctl(const char *what, int fd, unsigned long cmd)
{
	int n = 77, rc = ioctl(fd, cmd, &n);

	if (rc)
		say_result(what, rc);
	else
		say("%s: %d", what, n);
}

static void tcp_counts(void)
{
	int fd = tcp_pair();
	char buf[10];

	say_ioctl("SIOCINQ", fd, SIOCINQ);
	say_ioctl("SIOCOUTQ", fd, SIOCOUTQ);
	say_ioctl("SIOCOUTQNSD", fd, SIOCOUTQNSD);
	say_ioctl("SIOCATMARK", fd, SIOCATMARK);
	MUST(send(fd, "abc", 3, 0));
	await_bytes(fd, 3);
	say_ioctl("FIONREAD", fd, FIONREAD);
	await_acked(fd);
	say_ioctl("SIOCOUTQ", fd, SIOCOUTQ);
	SAY(recv(fd, buf, 2, 0));
	say_ioctl("FIONREAD", fd, FIONREAD);
	SAY(ioctl(fd, FIONREAD, nowhere));
	SAY(recv(fd, buf, 2, 0));
	close(fd);
	meet();
}

static void fresh_counts(void)
{
	int tcp = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), udp = udp_bound(1);
	int listener = tcp_listening(1);

	say_ioctl("SIOCINQ", tcp, SIOCINQ);
	say_ioctl("SIOCOUTQ", tcp, SIOCOUTQ);
	say_ioctl("SIOCOUTQNSD", tcp, SIOCOUTQNSD);
	say_ioctl("SIOCINQ", listener, SIOCINQ);
	say_ioctl("SIOCOUTQ", listener, SIOCOUTQ);
	say_ioctl("SIOCOUTQNSD", listener, SIOCOUTQNSD);
	say_ioctl("SIOCATMARK", listener, SIOCATMARK);
	say_ioctl("FIONREAD", udp, FIONREAD);
	say_ioctl("SIOCOUTQ", udp, SIOCOUTQ);
	say_ioctl("SIOCATMARK", udp, SIOCATMARK);
	close(tcp);
	close(udp);
	close(listener);
}

static void other_ioctls(void)
{
	struct ifreq ifr = {.ifr_name = "v0"};
	struct ifreq list[8];
	struct ifconf conf = {.ifc_len = sizeof(list), .ifc_req = list};
	int fd = udp_bound(1), tcp = tcp_listening(1);
	struct timeval tv;

	SAY(ioctl(fd, SIOCGIFINDEX, &ifr) == 0 && ifr.ifr_ifindex > 0);
	SAY(ioctl(tcp, SIOCGIFADDR, &ifr));
	say_addr("address", &ifr.ifr_addr, sizeof(struct sockaddr_in));
	SAY(ioctl(fd, SIOCGIFCONF, &conf));
	say("%d interfaces", conf.ifc_len / (int)sizeof(list[0]));
	SAY(ioctl(fd, SIOCGSTAMP, &tv));
	SAY(ioctl(fd, TCGETS, list));
	SAY(ioctl(fd, 0x12345678, list));
	SAY(ioctl(tcp, 2, list)); /* FIGETBSZ */
	SAY(ioctl(closed_fd, FIONREAD, list));
	close(fd);
	close(tcp);
}

/* ---- calls for files ------------------------------------------------------------------------ */

static void file_calls(void)
{
	int fd = tcp_pair();
	struct iovec iov = {(char *)"ab", 2};
	struct stat st;
	char buf[100], name[40];
	ssize_t n;

	SAY(fstat(fd, &st));
	say("mode %o, size %ld", st.st_mode, (long)st.st_size);
	SAY(fstatat(fd, "", &st, AT_EMPTY_PATH));
	say("socket %d", S_ISSOCK(st.st_mode));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, buf, sizeof(buf) - 1);
	SAY_IF(n > 8 && !memcmp(buf, "socket:[", 8));
	SAY(open(name, O_RDWR));
	SAY(isatty(fd));
	SAY(lseek(fd, 0, SEEK_SET));
	SAY(pread(fd, buf, 1, 0));
	SAY(pwrite(fd, buf, 1, 0));
	SAY(preadv(fd, &iov, 1, 0));
	SAY(pwritev(fd, &iov, 1, 0));
	SAY(ftruncate(fd, 0));
	SAY(fsync(fd));
	SAY(fdatasync(fd));
	SAY(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL));
	SAY(fallocate(fd, 0, 0, 10));
	SAY(fchdir(fd));
	SAY(readahead(fd, 0, 10));
	SAY(pwritev2(fd, &iov, 1, -1, 0));
	await_bytes(fd, 2);
	iov.iov_base = buf;
	SAY(preadv2(fd, &iov, 1, -1, 0));
	try("still", fd);
	close(fd);
	meet();
}

static void closed_calls(void)
{
	int fd = tcp_pair();
	struct stat st;
	char c;

	close(fd);
	meet();
	SAY(close(fd));
	SAY(read(fd, &c, 1));
	SAY(write(fd, "x", 1));
	SAY(send(fd, "x", 1, 0));
	SAY(recv(fd, &c, 1, 0));
	SAY(fcntl(fd, F_GETFL));
	SAY(ioctl(fd, FIONREAD, &st));
	SAY(shutdown(fd, SHUT_WR));
	SAY(listen(fd, 1));
	SAY(accept(fd, NULL, NULL));
	SAY(dup(fd));
	SAY(fstat(fd, &st));
}

/* ---- system calls by number ------------------------------------------------------------------ */

static void by_number(void)
{
	int fd = tcp_pair(), copy;
	struct iovec iov;
	char buf[10] = "";
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 5};
	int ep = (int)MUST(syscall(SYS_epoll_create1, EPOLL_CLOEXEC));

	SAY(syscall(SYS_write, fd, "abc", 3L));
	SAY(syscall(SYS_poll, &p, 1L, 2000L));
	await_bytes(fd, 3);
	SAY(syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, fd, &event));
	SAY(syscall(SYS_epoll_wait, ep, &event, 1L, 1000L));
	SAY(syscall(SYS_read, fd, buf, 9L));
	say_bytes(buf, 3);
	SAY(syscall(SYS_sendto, fd, "defg", 4L, 0L, NULL, 0L));
	await_bytes(fd, 4);
	iov = (struct iovec){buf, 2};
	SAY(syscall(SYS_readv, fd, &iov, 1L));
	SAY(syscall(SYS_recvfrom, fd, buf, 9L, MSG_DONTWAIT, NULL, NULL));
	SAY(syscall(SYS_recvfrom, fd, buf, 9L, MSG_DONTWAIT, NULL, NULL));
	copy = (int)MUST(syscall(SYS_dup, fd));
	SAY(syscall(SYS_fcntl, fd, F_SETFL, O_RDWR | O_NONBLOCK));
	SAY(syscall(SYS_read, copy, buf, 9L));
	SAY(syscall(SYS_close, fd));
	SAY(syscall(SYS_fcntl, copy, F_SETFL, O_RDWR));
	try("copy", copy);
	SAY(syscall(SYS_shutdown, copy, SHUT_WR));
	SAY(syscall(SYS_read, copy, buf, 9L));
	SAY(syscall(SYS_close, copy));
	SAY(syscall(SYS_close, copy));
	SAY(syscall(-1L));
	SAY_IF(syscall(SYS_getpid) == getpid());
	close(ep);
	meet();
}

/* What the sixth argument of pselect6 points to. */
struct pselect_mask {
	const void *mask;
	size_t size;
};

static void say_masks(int fd, size_t size)
{
	struct timespec zero = {0, 0}, *bad = (struct timespec *)1;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	struct epoll_event event;
	uint64_t mask[2] = {0, 0};
	struct pselect_mask some = {mask, size}, none = {NULL, size},
			    unreadable = {(void *)1, size};
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), n = fd + 1;
	fd_set w;

	event = (struct epoll_event){.events = EPOLLOUT};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	say("masks of %zu bytes", size);
	SAY(syscall(SYS_ppoll, &p, 1L, &zero, mask, size));
	SAY(syscall(SYS_ppoll, &p, 1L, bad, mask, size));
	SAY(syscall(SYS_ppoll, &p, 1L, &zero, NULL, size));
	SAY(syscall(SYS_ppoll, &p, 1L, &zero, 1L, size));
	SAY(syscall(SYS_epoll_pwait, ep, &event, 1L, 0L, mask, size));
	SAY(syscall(SYS_epoll_pwait, ep, &event, 1L, 0L, NULL, size));
	SAY(syscall(SYS_epoll_pwait2, ep, &event, 1L, 1L, mask, size));
	SAY(syscall(SYS_epoll_pwait2, ep, &event, 1L, &zero, mask, size));
	FD_ZERO(&w);
	FD_SET(fd, &w);
	SAY(syscall(SYS_pselect6, (long)n, NULL, &w, NULL, &zero, &some));
	SAY(syscall(SYS_pselect6, (long)n, NULL, &w, NULL, bad, &some));
	SAY(syscall(SYS_pselect6, (long)n, NULL, &w, NULL, &zero, &unreadable));
	SAY(syscall(SYS_pselect6, (long)n, NULL, &w, NULL, &zero, &none));
	SAY(syscall(SYS_pselect6, (long)n, NULL, &w, NULL, &zero, NULL));
	SAY(syscall(SYS_pselect6, (long)n, NULL, &w, NULL, &zero, 1L));
	SAY(syscall(SYS_select, (long)n, NULL, &w, NULL, bad));
	close(ep);
}

/* The kernel's masks have eight bytes; the C library's type is larger. */
static void masks_by_number(void)
{
	int fd = tcp_pair();

	say_masks(fd, 8);
	say_masks(fd, 7);
	say_masks(fd, sizeof(sigset_t));
	say_masks(fd, 0);
	close(fd);
	meet();
}

static void udp_by_number(void)
{
	int fd = (int)MUST(syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0L));
	struct sockaddr_in self = client_addr(1), to = server_addr(1);
	socklen_t len = sizeof(self);
	char buf[10];

	SAY(syscall(SYS_bind, fd, &self, (long)sizeof(self)));
	SAY(syscall(SYS_connect, fd, &to, (long)sizeof(to)));
	SAY(syscall(SYS_getsockname, fd, &self, &len));
	say_addr("name", &self, len);
	meet();
	SAY(syscall(SYS_write, fd, "abc", 3L));
	SAY(syscall(SYS_recvfrom, fd, buf, 9L, 0L, NULL, NULL));
	SAY(syscall(SYS_close, fd));
}

static void udp_answer(void)
{
	int fd = udp_bound(1);
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[10];
	ssize_t n;

	meet();
	n = SAY(recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len));
	MUST(sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&from, len));
	close(fd);
}

/* ---- io_uring --------------------------------------------------------------------------------- */

struct uring {
	int fd;
	struct io_uring_params p;
	char *sq, *cq;
	struct io_uring_sqe *sqes;
};

static bool uring_open(struct uring *u)
{
	memset(u, 0, sizeof(*u));
	u->fd = (int)syscall(SYS_io_uring_setup, 4L, &u->p);
	if (u->fd < 0)
		return false;
	u->sq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, IORING_OFF_SQ_RING);
	u->cq = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, IORING_OFF_CQ_RING);
	u->sqes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, IORING_OFF_SQES);
	return u->sq != MAP_FAILED && u->cq != MAP_FAILED && (void *)u->sqes != MAP_FAILED;
}

/* One call, and its result. */
static int uring_recv(struct uring *u, int fd, void *buf, unsigned len)
{
	unsigned *tail = (unsigned *)(void *)(u->sq + u->p.sq_off.tail);
	unsigned mask = *(unsigned *)(void *)(u->sq + u->p.sq_off.ring_mask), at = *tail & mask;
	unsigned *head = (unsigned *)(void *)(u->cq + u->p.cq_off.head);
	unsigned cq_mask = *(unsigned *)(void *)(u->cq + u->p.cq_off.ring_mask);
	struct io_uring_cqe *cqes = (struct io_uring_cqe *)(void *)(u->cq + u->p.cq_off.cqes);

	u->sqes[at] = (struct io_uring_sqe){
		.opcode = IORING_OP_RECV, .fd = fd, .addr = (uintptr_t)buf, .len = len};
	((unsigned *)(void *)(u->sq + u->p.sq_off.array))[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, u->fd, 1L, 1L, IORING_ENTER_GETEVENTS, NULL, 0L) != 1)
		return -1000;
	at = *head & cq_mask;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return cqes[at].res;
}

static void uring_server(void)
{
	struct sockaddr_in to = client_addr(1);
	int fd = udp_bound(0), conn;

	meet();
	MUST(sendto(fd, "abc", 3, 0, (struct sockaddr *)&to, sizeof(to)));
	conn = tcp_pair();
	MUST(send(conn, "defg", 4, 0));
	meet();
	close(conn);
	close(fd);
}

/* The last behaviour of the suite: from here on the kernel serves all sockets of this process. */
static void uring(void)
{
	int fd = udp_bound(1), conn;
	struct uring u;
	char buf[10];

	if (!uring_open(&u)) {
		say("no io_uring here");
		meet();
		conn = tcp_pair();
		meet();
	} else {
		meet();
		SAY(uring_recv(&u, fd, buf, 10));
		conn = tcp_pair();
		SAY(uring_recv(&u, conn, buf, 10));
		meet();
		munmap(u.sq, 4096);
		munmap(u.cq, 4096);
		munmap(u.sqes, 4096);
		close(u.fd);
	}
	close(conn);
	close(fd);
}

const struct behaviour fds_behaviours[] = {
	{"dups", echo, dups, OURS},
	{"dup_errors", NULL, dup_errors, OURS},
	{"dup3_flags", echo, dup3_flags, OURS},
	{"dup2_over", echo, dup2_over, OURS},
	{"shared_flags", echo, shared_flags, OURS},
	{"low_numbers", echo, low_numbers, OURS},
	{"close_ranges", echo, close_ranges, OURS},
	{"daemonised", NULL, daemonised, OURS},
	{"close_them_all", echo, close_them_all, OURS},
	{"locks", NULL, locks, OURS},
	{"owner", NULL, owner, OURS},
	{"sigio", two_bytes, sigio, OURS},
	{"sigio_udp", udp_two, sigio_udp, OURS},
	{"tcp_counts", echo, tcp_counts, OURS},
	{"fresh_counts", NULL, fresh_counts, OURS},
	{"other_ioctls", NULL, other_ioctls, OURS},
	{"file_calls", echo, file_calls, OURS},
	{"closed_calls", echo, closed_calls, OURS},
	{"by_number", echo, by_number, OURS},
	{"masks_by_number", echo, masks_by_number, OURS},
	{"udp_by_number", udp_answer, udp_by_number, OURS},
	{"uring", uring_server, uring, KERNEL},
	{0},
};
