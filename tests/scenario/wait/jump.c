/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A signal handler leaves the first wait of a thread by siglongjmp(), after each of its system
 * calls: no descriptor remains open, and the thread can wait again.
 *
 *	jump ADDRESS PORT recv|poll|select|epoll
 *
 * Each time a separate process waits for a datagram that does not arrive.  Its parent traces
 * it (ptrace(2)), and sends the signal when system call N has returned, until the wait reaches
 * the call that blocks; there it sends the last signal.  Prints the number of places.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOW_FDS 256	 /* numbers that the program uses: the library's are higher */
#define PLACES_MAX 100	 /* a wait with more system calls is considered endless */
#define PATIENCE_MS 5000 /* for another thread that opens descriptors */

static sigjmp_buf out;

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- the process that waits ---------------------------------------------------------- */

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void wait_recv(int fd)
{
	char c;

	recv(fd, &c, 1, 0);
}

static void wait_poll(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	poll(&p, 1, -1);
}

static void wait_select(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	select(fd + 1, &set, NULL, NULL, NULL);
}

static int watched;

static void wait_epoll(int fd)
{
	struct epoll_event event;

	(void)fd;
	epoll_wait(watched, &event, 1, -1);
}

static const struct {
	const char *name;
	void (*wait)(int fd);
} waits[] = {
	{"recv", wait_recv},
	{"poll", wait_poll},
	{"select", wait_select},
	{"epoll", wait_epoll},
};

static void count(unsigned *low, unsigned *all)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	*low = *all = 0;
	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		++*all;
		*low += fd < LOW_FDS;
	}
	if (dir)
		closedir(dir);
}

static void arm(int msec)
{
	struct itimerval it = {.it_value = {0, msec * 1000}};

	if (setitimer(ITIMER_REAL, &it, NULL))
		die("setitimer");
}

/* A complete wait: afterwards everything that a thread needs for one exists. */
static void wait_again(void (*wait)(int fd), int fd)
{
	if (sigsetjmp(out, 1))
		return;
	arm(100);
	wait(fd);
	fputs("the wait has ended by itself\n", stderr);
	exit(1);
}

/* Another thread may be opening a descriptor. */
static bool await_count(unsigned low, unsigned all)
{
	unsigned is_low, is_all;

	for (int i = 0; i < PATIENCE_MS; i++) {
		count(&is_low, &is_all);
		if (is_low == low && is_all == all)
			return true;
		usleep(1000);
	}
	fprintf(stderr, "descriptors: %u low ones and %u in all, not %u and %u\n", is_low, is_all,
		low, all);
	return false;
}

static int open_socket(const char *address, const char *port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	struct epoll_event event = {.events = EPOLLIN};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char c;

	inet_pton(AF_INET, address, &to.sin_addr);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) || send(fd, "x", 1, 0) != 1)
		die("socket");
	/* Receives the answer, without waiting. */
	while (recv(fd, &c, 1, MSG_DONTWAIT) != 1)
		;
	watched = epoll_create1(0);
	if (watched < 0 || epoll_ctl(watched, EPOLL_CTL_ADD, fd, &event))
		die("epoll");
	return fd;
}

/* Counts until two counts are equal: no thread is opening a descriptor. */
static void count_settled(unsigned *low, unsigned *all)
{
	unsigned low_before, all_before;

	count(low, all);
	do {
		low_before = *low;
		all_before = *all;
		usleep(50000);
		count(low, all);
	} while (*low != low_before || *all != all_before);
}

/* Between the two SIGSTOPs there is an interrupted wait; a complete one follows. */
static int be_traced(void (*wait)(int fd), int fd, unsigned takes)
{
	unsigned low, all;

	if (signal(SIGALRM, jump) == SIG_ERR)
		die("signal");
	count_settled(&low, &all);
	if (!sigsetjmp(out, 1)) {
		raise(SIGSTOP);
		wait(fd);
	}
	raise(SIGSTOP);
	wait_again(wait, fd);
	return !await_count(low, all + takes);
}

/* Number of descriptors that a wait keeps. */
static int say_taken(void (*wait)(int fd), int fd)
{
	unsigned low, all, before;

	if (signal(SIGALRM, jump) == SIG_ERR)
		die("signal");
	count_settled(&low, &before);
	wait_again(wait, fd);
	count_settled(&low, &all);
	return (int)(all - before);
}

/* ---- its parent ------------------------------------------------------------------------ */

static int resume(int pid, enum __ptrace_request how, int sig)
{
	int status;

	if (ptrace(how, pid, NULL, (void *)(long)sig) || waitpid(pid, &status, 0) != pid)
		die("ptrace");
	return status;
}

static bool is_stop(int status, int sig)
{
	return WIFSTOPPED(status) && WSTOPSIG(status) == sig;
}

/* Is there a timeout in the memory of the process? None, or more than zero. */
static bool is_time(int pid, unsigned long at)
{
	struct timespec ts;
	struct iovec to = {&ts, sizeof(ts)}, from = {(void *)at, sizeof(ts)};

	if (!at)
		return true;
	if (process_vm_readv(pid, &to, 1, &from, 1, 0) != sizeof(ts))
		die("timeout");
	return ts.tv_sec || ts.tv_nsec;
}

/* Will the next system call block? */
static bool blocks(int pid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs))
		die("registers");
	switch (regs.orig_rax) {
	case SYS_poll:
		return (int)regs.rdx != 0;
	case SYS_ppoll:
		return is_time(pid, regs.rdx);
	case SYS_select: /* struct timeval has the same size */
	case SYS_pselect6:
		return is_time(pid, regs.r8);
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int)regs.r10 != 0;
	case SYS_epoll_pwait2:
		return is_time(pid, regs.r10);
	case SYS_recvfrom:
		return !(regs.r10 & MSG_DONTWAIT);
	default:
		return false;
	}
}

/*
 * Sends the signal after `place` system calls of the wait, or before it blocks. True: that was
 * the last place.
 */
static bool interrupt_at(int pid, int place)
{
	int status = resume(pid, PTRACE_CONT, 0);
	bool last = false;

	if (!is_stop(status, SIGSTOP)) /* the wait begins */
		die("no wait");
	for (int i = 0; i < place && !last; i++) {
		if (!is_stop(resume(pid, PTRACE_SYSCALL, 0), SIGTRAP | 0x80))
			die("no system call");
		last = blocks(pid);
		if (!last && !is_stop(resume(pid, PTRACE_SYSCALL, 0), SIGTRAP | 0x80))
			die("no return");
	}
	if (syscall(SYS_tgkill, pid, pid, SIGALRM))
		die("tgkill");
	status = resume(pid, PTRACE_CONT, 0);
	while (is_stop(status, SIGALRM))
		status = resume(pid, PTRACE_CONT, SIGALRM);
	if (!is_stop(status, SIGSTOP)) /* the wait was left */
		die("not left");
	return last;
}

/* The exit status of the waiting process. */
static int run(int argc, char **argv, void (*wait)(int fd), int place, int takes, bool *last)
{
	int pid = fork(), status;

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		int fd = open_socket(argv[1], argv[2]);

		if (place < 0)
			_exit(say_taken(wait, fd));
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			die("traceme");
		raise(SIGSTOP);
		_exit(be_traced(wait, fd, (unsigned)takes));
	}
	if (place >= 0) {
		if (waitpid(pid, &status, 0) != pid || !is_stop(status, SIGSTOP) ||
		    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD))
			die("trace");
		*last = interrupt_at(pid, place);
		if (ptrace(PTRACE_DETACH, pid, NULL, NULL))
			die("detach");
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		die("a process that does not end well");
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	void (*wait)(int fd) = NULL;
	bool last = false;
	int takes, bad = 0, place;

	for (size_t i = 0; argc == 4 && i < sizeof(waits) / sizeof(*waits); i++) {
		if (!strcmp(argv[3], waits[i].name))
			wait = waits[i].wait;
	}
	if (!wait) {
		fputs("usage: jump ADDRESS PORT recv|poll|select|epoll\n", stderr);
		return 2;
	}
	takes = run(argc, argv, wait, -1, 0, &last);
	for (place = 0; !last && place < PLACES_MAX; place++) {
		if (run(argc, argv, wait, place, takes, &last)) {
			fprintf(stderr, "left at system call %d of %s\n", place, argv[3]);
			bad++;
		}
	}
	printf("%d places, %d bad, a wait takes %d descriptors\n", place, bad, takes);
	return bad || !last;
}
