/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection whose program makes no calls: it sleeps or computes.
 *
 *	away serve PORT		serves one peer: sends to it for 1.5 seconds, and each piece
 *				must be acknowledged; receives nothing for a second, in which
 *				M must be lost; nevertheless gets M; sends for another
 *				1.5 seconds; then only checks by keep-alive, twice.
 *				Prints what it does
 *	away spin IP PORT	sleeps until SIGUSR1, sends M, computes until SIGUSR2,
 *				and then reads what has arrived
 *	away bare COMMAND...	runs the command without membarrier(2)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_SEC 200 /* unless a signal ends it */
#define PATIENCE 50  /* seconds */
#define ROUNDS 15
#define ROUND_MSEC 100
#define PIECE 1000

__attribute__((noreturn)) static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static int64_t now_msec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	inet_pton(AF_INET, ip, &addr.sin_addr);
	return addr;
}

static void set_tcp(int fd, int name, int value)
{
	if (setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value)))
		die("setsockopt");
}

/* The connection ends if the peer does not acknowledge in time. */
static int accept_one(const char *port)
{
	struct sockaddr_in addr = address("0.0.0.0", port);
	int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 1))
		die("listen");
	printf("ready\n");
	fd = accept(fd, NULL, NULL);
	if (fd < 0)
		die("accept");
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	set_tcp(fd, TCP_NODELAY, 1);
	set_tcp(fd, TCP_KEEPIDLE, 1);
	set_tcp(fd, TCP_KEEPINTVL, 1);
	set_tcp(fd, TCP_USER_TIMEOUT, PATIENCE * 1000);
	return fd;
}

/* Time until all data was acknowledged. */
static int64_t send_piece(int fd)
{
	static const char piece[PIECE];
	int64_t began = now_msec();
	int unsent = 1;

	if (send(fd, piece, PIECE, MSG_NOSIGNAL) != PIECE)
		die("send");
	while (unsent) {
		usleep(1000);
		if (ioctl(fd, SIOCOUTQ, &unsent))
			die("SIOCOUTQ");
		if (now_msec() - began > PATIENCE * 1000)
			die("no acknowledgement");
	}
	return now_msec() - began;
}

static void send_pieces(int fd)
{
	int64_t longest = 0;

	for (int i = 0; i < ROUNDS; i++) {
		int64_t took = send_piece(fd), round = now_msec() + ROUND_MSEC;

		longest = took > longest ? took : longest;
		while (now_msec() < round)
			usleep(1000);
	}
	printf("acknowledged within %ld ms\n", (long)longest);
}

/* For a second, every segment of the peer is lost. */
static void be_deaf(int fd)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = {.len = 1, .filter = &nothing};
	int bytes = 0;

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		die("SO_ATTACH_FILTER");
	printf("deaf\n");
	sleep(1);
	if (ioctl(fd, FIONREAD, &bytes) || bytes)
		die("not deaf");
	setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &bytes, sizeof(bytes));
}

/* Two, a second apart. */
static void keep_alive(int fd)
{
	unsigned idle = 0;

	for (int answers = 0; answers < 2; usleep(1000)) {
		struct tcp_info info;
		socklen_t len = sizeof(info);

		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
			die("TCP_INFO");
		answers += info.tcpi_last_ack_recv < idle;
		idle = info.tcpi_last_ack_recv;
		if (idle > PATIENCE * 1000)
			die("no answer");
	}
	printf("answered\n");
}

static int serve(char **argv)
{
	int fd = accept_one(argv[0]);
	char c = 0;

	send_pieces(fd);
	be_deaf(fd);
	if (recv(fd, &c, 1, 0) != 1 || c != 'M')
		die("M");
	printf("got M\n");
	send_pieces(fd);
	keep_alive(fd);
	if (recv(fd, &c, 1, 0) != 1 || c != 'E')
		die("E");
	if (send(fd, &c, 1, MSG_NOSIGNAL) != 1)
		die("send");
	if (recv(fd, &c, 1, 0) != 0)
		die("end");
	printf("peer left\n");
	return 0;
}

static volatile sig_atomic_t enough;

static void on_enough(int sig)
{
	enough = sig;
}

/* Neither sleeps nor calls a function that the library could see. */
static void compute(void)
{
	int64_t end = now_msec() + SPIN_SEC * 1000;

	while (!enough && now_msec() < end)
		;
}

static int spin(char **argv)
{
	struct sockaddr_in addr = address(argv[0], argv[1]);
	int fd = socket(AF_INET, SOCK_STREAM, 0), sig;
	struct timeval timeout = {.tv_sec = PATIENCE};
	size_t got = 0;
	sigset_t set;
	char buf[4096];

	signal(SIGUSR2, on_enough);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		die("connect");
	printf("ready\n");
	sigwait(&set, &sig);
	if (send(fd, "M", 1, 0) != 1)
		die("send");
	compute();
	printf("computed\n");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (send(fd, "E", 1, 0) != 1)
		die("send after all");
	while (got < 2 * ROUNDS * PIECE + 1) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		if (n <= 0)
			die("recv after all");
		got += (size_t)n;
	}
	printf("got everything\n");
	return 0;
}

static int bare(char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		die("seccomp");
	execvp(argv[0], argv);
	die(argv[0]);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv + 2);
	if (argc == 4 && !strcmp(argv[1], "spin"))
		return spin(argv + 2);
	if (argc > 2 && !strcmp(argv[1], "bare"))
		return bare(argv + 2);
	fprintf(stderr, "see the head of %s\n", __FILE__);
	return 2;
}
