/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bad pointers: unmapped parts of the program's address space, read-only pages. And what a
 * program sees of SIGSEGV otherwise.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define PAGE 4096

/* Two pages, the second one read-only; then two that nobody may read. */
static char *volatile page;
static char *volatile fixed;
static char *volatile hole;
static char *volatile nowhere; /* NULL, hidden from the compiler */

static void map(void)
{
	if (page)
		return;
	page = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fixed = page + PAGE;
	hole = page + 2 * PAGE;
	mprotect(fixed, PAGE, PROT_READ);
	mprotect(hole, 2 * PAGE, PROT_NONE); /* nothing else is mapped there */
}

/* ---- TCP ------------------------------------------------------------------------------- */

static const size_t lengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100, 300, 1000, 4096};
#define N_LENGTHS (sizeof(lengths) / sizeof(*lengths))

static void tcp_send_client(void)
{
	int fd = tcp_pair();
	struct iovec iov[] = {{(char *)"ab", 2}, {NULL, 5}, {(char *)"cd", 2}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 3};

	map();
	for (size_t i = 0; i < N_LENGTHS; i++) {
		SAY(send(fd, hole, lengths[i], 0));
		SAY(send(fd, hole - 1, lengths[i] + 1, 0));
	}
	SAY(write(fd, nowhere, 5));
	SAY(send(fd, (void *)-100, 5, 0));
	iov[1].iov_base = hole;
	SAY(writev(fd, iov, 3));
	SAY(sendmsg(fd, &msg, 0));
	SAY(sendmsg(fd, (struct msghdr *)hole, 0));
	SAY(sendmsg(fd, (struct msghdr *)(hole - 16), 0));
	SAY(writev(fd, (struct iovec *)hole, 2));
	SAY(writev(fd, (struct iovec *)(hole - 16), 2));
	msg.msg_iov = (struct iovec *)hole;
	SAY(sendmsg(fd, &msg, 0));
	iov[1].iov_base = (char *)"12345";
	msg.msg_iov = iov;
	msg.msg_name = hole;
	msg.msg_namelen = 16;
	SAY(sendmsg(fd, &msg, 0));
	msg.msg_name = NULL;
	msg.msg_control = hole;
	msg.msg_controllen = 32;
	SAY(sendmsg(fd, &msg, 0));
	msg.msg_controllen = 0;
	SAY(sendmsg(fd, &msg, 0));
	SAY(send(fd, "good", 4, 0));
	meet();
	close(fd);
}

static void tcp_send_server(void)
{
	int fd = tcp_pair();
	char buf[100] = "";
	ssize_t n;

	meet();
	n = recv(fd, buf, 13, MSG_WAITALL);
	say_bytes(buf, n > 0 ? (size_t)n : 0);
	close(fd);
}

static void sends_10(void)
{
	int fd = tcp_pair();

	MUST(send(fd, "0123456789", 10, 0));
	meet();
	meet();
	close(fd);
}

static void tcp_recv_server(void)
{
	int fd = tcp_pair();
	struct iovec iov[] = {{NULL, 2}, {NULL, 5}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	char buf[100] = "";

	map();
	meet();
	await_bytes(fd, 10);
	SAY(recv(fd, hole, 10, 0));
	SAY(recv(fd, fixed, 10, 0));
	SAY(recv(fd, fixed - 4, 10, 0));
	SAY(recv(fd, hole, 10, MSG_PEEK));
	SAY(recv(fd, hole, 10, MSG_DONTWAIT));
	SAY(recv(fd, (void *)-100, 10, 0));
	SAY(recv(fd, nowhere, 10, 0));
	SAY(read(fd, hole, 1));
	iov[0].iov_base = buf;
	iov[1].iov_base = hole;
	SAY(readv(fd, iov, 2));
	SAY(recvmsg(fd, &msg, 0));
	SAY(recvmsg(fd, (struct msghdr *)hole, 0));
	SAY(recvmsg(fd, (struct msghdr *)(hole - 16), 0));
	msg.msg_iov = (struct iovec *)hole;
	SAY(recvmsg(fd, &msg, 0));
	SAY(readv(fd, (struct iovec *)(hole - 16), 2));
	SAY(ioctl(fd, FIONREAD, hole));
	SAY(recv(fd, hole, 3, MSG_TRUNC));
	SAY(recv(fd, buf, 4, 0));
	SAY(recv(fd, hole, 10, MSG_WAITALL));
	SAY(recvfrom(fd, buf, 1, 0, (struct sockaddr *)hole, (socklen_t *)hole));
	SAY(recv(fd, buf + 4, 96, 0));
	say_bytes(buf, 6);
	SAY(recv(fd, hole, 10, MSG_DONTWAIT));
	meet();
	SAY(recv(fd, hole, 10, 0));
	close(fd);
}

/* ---- UDP ------------------------------------------------------------------------------- */

static void udp_send_client(void)
{
	int fd = udp_pair();
	struct sockaddr_in to = server_addr(0);
	struct iovec iov[] = {{(char *)"abc", 3}, {NULL, 5}, {(char *)"cd", 2}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 3};
	struct mmsghdr *many = (struct mmsghdr *)(hole - sizeof(*many));

	map();
	for (size_t i = 0; i < N_LENGTHS; i++) {
		SAY(send(fd, hole, lengths[i], 0));
		SAY(send(fd, hole - 1, lengths[i] + 1, 0));
	}
	SAY(send(fd, nowhere, 5, 0));
	SAY(send(fd, hole - 3000, 6000, 0));
	SAY(send(fd, hole - 1, 60000, 0));
	SAY(send(fd, (void *)-100, 5, 0));
	iov[1].iov_base = hole;
	SAY(writev(fd, iov, 3));
	SAY(sendmsg(fd, &msg, 0));
	iov[1].iov_base = (char *)"12345";
	SAY(sendto(fd, "x", 1, 0, (struct sockaddr *)hole, sizeof(to)));
	SAY(sendto(fd, "x", 1, 0, (struct sockaddr *)(hole - 2), sizeof(to)));
	SAY(sendto(fd, "x", 1, 0, NULL, 0));
	msg.msg_name = hole;
	msg.msg_namelen = 16;
	SAY(sendmsg(fd, &msg, 0));
	msg.msg_name = NULL;
	msg.msg_control = hole;
	msg.msg_controllen = 32;
	SAY(sendmsg(fd, &msg, 0));
	msg.msg_controllen = 0;
	SAY(sendmsg(fd, &msg, 0));
	many = (struct mmsghdr *)hole;
	SAY(sendmmsg(fd, many, 2, 0));
	many = (struct mmsghdr *)page;
	many->msg_hdr = msg;
	msg.msg_iov = (struct iovec *)hole;
	many[1].msg_hdr = msg;
	SAY(sendmmsg(fd, many, 2, 0));
	SAY(send(fd, "last", 4, 0));
	meet();
	close(fd);
}

/* Datagrams from several calls, and several datagrams from one call. */
static void udp_pieces_client(void)
{
	int fd = udp_pair();
	char *text;

	map();
	text = page + PAGE - 100;
	memset(text, 'x', 100);
	SAY(send(fd, "ab", 2, MSG_MORE));
	SAY(send(fd, hole, 2, MSG_MORE));
	SAY(send(fd, "cd", 2, 0));
	SAY(send(fd, "ab", 2, MSG_MORE));
	SAY(send(fd, hole, 2, 0));
	SAY(send(fd, "ef", 2, 0));
	set_int(fd, IPPROTO_UDP, UDP_SEGMENT, 40);
	SAY(send(fd, hole - 90, 100, 0));
	SAY(send(fd, hole - 10, 100, 0));
	SAY(send(fd, text, 100, 0));
	set_int(fd, IPPROTO_UDP, UDP_SEGMENT, 0);
	SAY(send(fd, "last", 4, 0));
	meet();
	close(fd);
}

static void udp_send_server(void)
{
	int fd = udp_pair();
	char buf[100];
	ssize_t n;

	meet();
	do {
		n = recv(fd, buf, sizeof(buf), 0);
		say_bytes(buf, n > 0 ? (size_t)n : 0);
	} while (n > 0 && memcmp(buf, "last", 4) != 0);
	close(fd);
}

#define N_DATAGRAMS 12

static void sends_datagrams(void)
{
	int fd = udp_pair();
	char text[16] = "0_datagram";

	for (int i = 0; i < N_DATAGRAMS; i++) {
		text[0] = (char)('a' + i);
		MUST(send(fd, text, 10, 0));
	}
	arrive();
	meet();
	close(fd);
}

static void next_one(int fd)
{
	char buf[100];
	ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

	say_bytes(buf, n > 0 ? (size_t)n : 0);
}

/* Which of them are lost? */
static void udp_recv_server(void)
{
	int fd = udp_pair(), udp = fd;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char buf[100];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	map();
	arrive();
	SAY(recv(udp, hole, 10, MSG_PEEK));
	SAY(recv(udp, hole, 10, 0));
	next_one(fd);
	SAY(recv(udp, fixed - 4, 10, 0));
	next_one(fd);
	SAY(recvfrom(udp, buf, 100, 0, (struct sockaddr *)hole, &len));
	next_one(fd);
	SAY(recvfrom(udp, buf, 100, 0, (struct sockaddr *)&from, (socklen_t *)hole));
	SAY(recvfrom(udp, buf, 100, 0, (struct sockaddr *)&from, NULL));
	len = (socklen_t)-1;
	SAY(recvfrom(udp, buf, 100, 0, (struct sockaddr *)&from, &len));
	next_one(fd);
	SAY(recvmsg(udp, (struct msghdr *)hole, 0));
	memcpy(page, &msg, sizeof(msg));
	msg.msg_name = hole;
	msg.msg_namelen = 16;
	SAY(recvmsg(udp, &msg, 0));
	msg.msg_name = NULL;
	set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
	msg.msg_control = hole;
	msg.msg_controllen = 100;
	SAY(recvmsg(udp, &msg, 0));
	say("control %zu", msg.msg_controllen);
	next_one(fd);
	SAY(recv(udp, hole, 10, MSG_DONTWAIT));
	meet();
	close(fd);
}

/* ---- readiness -------------------------------------------------------------------------- */

static void ready_server(void)
{
	int fd = tcp_pair(), ep = MUST(epoll_create1(0));
	struct epoll_event event = {.events = EPOLLOUT};
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	struct timeval now = {0, 0};
	fd_set set;

	map();
	memcpy(page, &p, sizeof(p));
	SAY(epoll_wait(ep, (struct epoll_event *)hole, 4, 0));
	SAY(epoll_ctl(ep, EPOLL_CTL_ADD, fd, (struct epoll_event *)hole));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	SAY(epoll_ctl(ep, EPOLL_CTL_MOD, fd, (struct epoll_event *)hole));
	SAY(epoll_wait(ep, (struct epoll_event *)hole, 4, 100));
	SAY(epoll_wait(ep, (struct epoll_event *)(hole - 2), 4, 0));
	SAY(epoll_wait(ep, (struct epoll_event *)page, 4, 0));
	SAY(poll((struct pollfd *)hole, 1, 0));
	SAY(poll((struct pollfd *)(hole - 8), 2, 0));
	SAY(poll((struct pollfd *)fixed, 1, 0));
	SAY(select(fd + 1, (fd_set *)fixed, NULL, NULL, &now));
	SAY(select(fd + 1, (fd_set *)hole, NULL, NULL, &now));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	SAY(select(fd + 1, NULL, &set, (fd_set *)hole, &now));
	SAY(select(fd + 1, NULL, &set, NULL, &now));
	close(ep);
	meet();
	close(fd);
}

static void waits_client(void)
{
	int fd = tcp_pair();

	meet();
	close(fd);
}

/* ---- of the kernel's sockets --------------------------------------------------------------- */

static void kernels(void)
{
	int fds[2], fd = tcp_pair();

	map();
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	SAY(sendmsg(fds[0], (struct msghdr *)hole, 0));
	SAY(sendmsg(fds[0], (struct msghdr *)(hole - 8), 0));
	SAY(recvmsg(fds[0], (struct msghdr *)hole, 0));
	SAY(sendmmsg(fds[0], (struct mmsghdr *)hole, 2, 0));
	SAY(send(fds[0], hole, 2, 0));
	SAY(poll((struct pollfd *)hole, 1, 0));
	close(fds[0]);
	close(fds[1]);
	meet();
	close(fd);
}

/* ---- SIGSEGV ---------------------------------------------------------------------------- */

static sigjmp_buf back;
static volatile int times;
static void *volatile where;

static void on_segv(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	times++;
	where = info->si_addr;
	siglongjmp(back, 1);
}

static void touch(const volatile char *at)
{
	if (!sigsetjmp(back, 1))
		(void)*at;
	say("%d times, %s", times, where == at ? "there" : "elsewhere");
}

static void say_action(int sig)
{
	struct sigaction act = {0};

	SAY(sigaction(sig, NULL, &act));
	say("%s, flags %#x",
	    act.sa_handler == SIG_DFL	  ? "default"
	    : act.sa_handler == SIG_IGN	  ? "ignored"
	    : act.sa_sigaction == on_segv ? "ours"
					  : "another",
	    (unsigned)act.sa_flags);
}

/* The program's handler gets its own faults, and no others. */
static void handlers_client(void)
{
	int fd = tcp_pair();
	struct sigaction act = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO}, old;

	map();
	say_action(SIGSEGV);
	say_action(SIGBUS);
	SAY(sigaction(SIGSEGV, &act, &old));
	say_action(SIGSEGV);
	SAY(send(fd, hole, 5, 0));
	touch(hole);
	SAY(send(fd, hole, 5, 0));
	act.sa_flags = SA_SIGINFO | (int)SA_RESETHAND | SA_NODEFER | SA_RESTART;
	SAY(sigaction(SIGSEGV, &act, NULL));
	SAY(send(fd, hole, 5, 0));
	say_action(SIGSEGV);
	SAY(send(fd, hole, 5, 0));
	touch(hole + 1);
	say_action(SIGSEGV);
	SAY(send(fd, hole, 5, 0));
	SAY_IF(signal(SIGSEGV, (void (*)(int))(void (*)(void))on_segv) == SIG_DFL);
	SAY(send(fd, hole, 5, 0));
	say_action(SIGSEGV);
	SAY_IF(signal(SIGSEGV, SIG_DFL) == (void (*)(int))(void (*)(void))on_segv);
	SAY(send(fd, hole, 5, 0));
	say_action(SIGSEGV);
	meet();
	close(fd);
}

static int dies(void *arg)
{
	int fd = *(int *)arg;

	(void)send(fd, hole, 5, 0);
	return *hole;
}

static int dies_of_sent(void *arg)
{
	(void)arg;
	kill(getpid(), SIGSEGV);
	return 0;
}

static int dies_of_raised(void *arg)
{
	(void)arg;
	raise(SIGBUS);
	return 0;
}

static int dies_after_handler(void *arg)
{
	struct sigaction act = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &act, NULL);
	signal(SIGSEGV, SIG_DFL);
	return dies(arg);
}

/* Without a handler the program is killed, as always. */
static void deaths_client(void)
{
	int fd = tcp_pair();

	map();
	join(spawn(dies, &fd));
	join(spawn(dies_of_sent, NULL));
	join(spawn(dies_of_raised, NULL));
	join(spawn(dies_after_handler, &fd));
	meet();
	close(fd);
}

const struct behaviour fault_behaviours[] = {
	{"tcp_send", tcp_send_server, tcp_send_client, OURS},
	{"tcp_recv", tcp_recv_server, sends_10, OURS},
	{"udp_send", udp_send_server, udp_send_client, OURS},
	{"udp_pieces", udp_send_server, udp_pieces_client, OURS},
	{"udp_recv", udp_recv_server, sends_datagrams, OURS},
	{"ready", ready_server, waits_client, OURS},
	{"kernels", kernels, kernels, OURS},
	{"handlers", waits_client, handlers_client, OURS},
	{"deaths", waits_client, deaths_client, OURS},
	{0},
};
