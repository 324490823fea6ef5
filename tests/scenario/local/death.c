/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process is killed at many instructions of a call; its peer on the host reads what had arrived, and then the
 * end, soon; and it goes on with others.
 *
 *	death CALL POINTS		without the library; $LIB is preloaded into the others.  Prints "ok",
 *					and how long a survivor that waited was told nothing
 *	death victim CALL PORT		executes int3 before and after the call
 *	death survive CALL PORT FILE	on each line of its input, one round; prints what it saw
 *
 * The victim of send, recv, shutdown, close, connect: a client; of accept: the server; of sendto, recvfrom: a
 * datagram socket.  Memory and descriptors of the survivor do not grow.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define TEXT "0123456789abcd"
#define LENGTH 14
#define HERE INADDR_LOOPBACK
#define MSEC 1000000ull
#define STEPS_MAX 2000000ul
#define ENDS_AFTER (10 * MSEC) /* of half of the deaths: on a busy machine some take longer */

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 * MSEC + (uint64_t)ts.tv_nsec;
}

static bool is(const char *call, const char *name)
{
	return !strcmp(call, name);
}

static struct sockaddr_in at(int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(HERE)};
}

static int open_socket(int type, int port, bool bound)
{
	struct sockaddr_in addr = at(port);
	int fd = socket(AF_INET, type, 0), one = 1;

	TEST_CHECK(fd >= 0);
	TEST_CHECK(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
	if (bound)
		TEST_CHECK(!bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	return fd;
}

static int connect_to(int fd, int port)
{
	struct sockaddr_in addr = at(port);

	return connect(fd, (struct sockaddr *)&addr, sizeof(addr));
}

/* ---- the victim ------------------------------------------------------------------------------ */

static void mark(void)
{
	__asm__ volatile("int3" ::: "memory");
}

static void say(const char *what)
{
	TEST_CHECK(write(STDOUT_FILENO, what, strlen(what)) == (ssize_t)strlen(what));
}

static void victim_of_datagrams(const char *call, int port)
{
	bool reads = is(call, "recvfrom");
	int fd = open_socket(SOCK_DGRAM, port, reads);
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char text[100];

	if (!reads) {
		TEST_CHECK(!connect_to(fd, port) && send(fd, "r", 1, 0) == 1);
		mark();
		(void)!send(fd, TEXT, LENGTH, 0);
		mark();
		return;
	}
	say("ready\n");
	TEST_CHECK(poll(&pfd, 1, -1) == 1);
	mark();
	TEST_CHECK(recv(fd, text, sizeof(text), 0) > 0);
	mark();
}

static void victim_that_accepts(int port)
{
	int fd = open_socket(SOCK_STREAM, port, true);
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	TEST_CHECK(!listen(fd, 10));
	say("ready\n");
	TEST_CHECK(poll(&pfd, 1, -1) == 1);
	mark();
	fd = accept(fd, NULL, NULL);
	mark();
	TEST_CHECK(fd >= 0 && write(fd, TEXT, LENGTH) == LENGTH);
}

static void victim_that_connects(const char *call, int port)
{
	int fd = open_socket(SOCK_STREAM, port, false);
	bool connects = is(call, "connect");
	char text[100];

	if (connects) { /* the first one opens what the library needs */
		TEST_CHECK(!connect_to(fd, port) && !close(fd));
		fd = open_socket(SOCK_STREAM, port, false);
		mark();
	}
	TEST_CHECK(!connect_to(fd, port));
	if (connects)
		mark();
	TEST_CHECK(send(fd, "r", 1, 0) == 1);
	if (connects || is(call, "healthy"))
		return;
	TEST_CHECK(recv(fd, text, 1, MSG_PEEK) == 1);
	mark();
	if (is(call, "send"))
		(void)!send(fd, TEXT, LENGTH, 0);
	else if (is(call, "recv"))
		(void)!recv(fd, text, sizeof(text), 0);
	else if (is(call, "shutdown"))
		shutdown(fd, SHUT_WR);
	else
		close(fd);
	mark();
}

static void victim(const char *call, int port)
{
	if (is(call, "sendto") || is(call, "recvfrom"))
		victim_of_datagrams(call, port);
	else if (is(call, "accept"))
		victim_that_accepts(port);
	else
		victim_that_connects(call, port);
}

/* ---- the survivor ---------------------------------------------------------------------------- */

static volatile uint64_t *killed; /* when the victim was, by the driver; 0: not yet */

/* Reads to the end: "text reset" or "text end". */
static void read_all(int fd)
{
	char text[100];
	size_t n = 0;
	ssize_t rc;

	while ((rc = recv(fd, text + n, sizeof(text) - 1 - n, 0)) > 0)
		n += (size_t)rc;
	text[n] = 0;
	TEST_CHECK(!rc || errno == ECONNRESET);
	printf("%s %s", n ? text : "-", rc ? "reset" : "end");
}

static void serve(int listener)
{
	int fd = accept(listener, NULL, NULL);
	char r;

	TEST_CHECK(fd >= 0);
	TEST_CHECK(recv(fd, &r, 1, 0) == 1 && r == 'r');
	TEST_CHECK(send(fd, TEXT, LENGTH, MSG_NOSIGNAL) == LENGTH);
	read_all(fd);
	close(fd);
}

/* Until one that was not killed says "r". */
static void serve_those_who_connect(int listener)
{
	char text[2] = {0};

	while (text[0] != 'r') {
		int fd = accept(listener, NULL, NULL);

		TEST_CHECK(fd >= 0);
		(void)!recv(fd, text, 1, 0);
		close(fd);
	}
	printf("- served");
}

static void be_served(int port)
{
	int fd = open_socket(SOCK_STREAM, port, false);

	if (connect_to(fd, port))
		printf("- %s",
		       errno == ECONNREFUSED || errno == ECONNRESET ? "reset" : strerror(errno));
	else
		read_all(fd);
	close(fd);
}

/* What comes between two datagrams "r": that of the victim, or nothing. */
static void hear(int fd)
{
	char text[100], got[100] = "-";
	ssize_t n;

	TEST_CHECK(recv(fd, text, 1, 0) == 1 && text[0] == 'r');
	while ((n = recv(fd, text, sizeof(text) - 1, 0)) > 1) {
		text[n] = 0;
		strcpy(got, text);
	}
	TEST_CHECK(n == 1 && text[0] == 'r');
	n = recv(fd, text, sizeof(text), 0); /* of the one that was not killed */
	TEST_CHECK(n == LENGTH && !memcmp(text, TEXT, LENGTH));
	printf("%s heard", got);
}

static void send_until_refused(int port)
{
	int fd = open_socket(SOCK_DGRAM, port, false);
	struct timespec pause = {.tv_nsec = 100000};

	TEST_CHECK(!connect_to(fd, port));
	while (send(fd, TEXT, LENGTH, 0) == LENGTH)
		nanosleep(&pause, NULL);
	TEST_CHECK(errno == ECONNREFUSED);
	printf("- refused");
	close(fd);
}

static unsigned lines_of(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned n = 0;

	TEST_CHECK(file);
	for (int c; (c = fgetc(file)) != EOF;)
		n += c == '\n';
	fclose(file);
	return n;
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	TEST_CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void survive(const char *call, int port, const char *file)
{
	bool datagrams = is(call, "sendto"), serves = !is(call, "accept") && !is(call, "recvfrom");
	int map = open(file, O_RDONLY), fd = -1;
	char line[100];

	killed = mmap(NULL, sizeof(*killed), PROT_READ, MAP_SHARED, map, 0);
	TEST_CHECK(killed != MAP_FAILED);
	close(map);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (serves)
		fd = open_socket(datagrams ? SOCK_DGRAM : SOCK_STREAM, port, true);
	if (serves && !datagrams)
		TEST_CHECK(!listen(fd, 64));
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t end, death;

		if (datagrams)
			hear(fd);
		else if (is(call, "connect"))
			serve_those_who_connect(fd);
		else if (is(call, "accept"))
			be_served(port);
		else if (is(call, "recvfrom"))
			send_until_refused(port);
		else
			serve(fd);
		end = now();
		death = *killed; /* after the end, if that was no death */
		printf(" %lu %u %u\n", death && death < end ? (unsigned long)(end - death) : 0ul,
		       descriptors(), lines_of("/proc/self/maps"));
	}
}

/* ---- the driver ------------------------------------------------------------------------------- */

static const char *self, *lib;

struct child {
	pid_t pid;
	FILE *in, *out; /* its output, its input */
};

static struct child spawn(bool traced, char *const argv[])
{
	struct child child;
	int to[2], from[2];

	TEST_CHECK(!pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC));
	child.pid = fork();
	TEST_CHECK(child.pid >= 0);
	if (!child.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		setenv("LD_PRELOAD", lib, 1);
		if (traced)
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(self, argv);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	child.in = fdopen(from[0], "r");
	child.out = fdopen(to[1], "w");
	return child;
}

static void finish(struct child *child)
{
	fclose(child->in);
	fclose(child->out);
}

static void go_on(pid_t pid, int request, int signo, int *status)
{
	TEST_CHECK(!ptrace((enum __ptrace_request)request, pid, NULL, (void *)(intptr_t)signo));
	TEST_CHECK(waitpid(pid, status, __WALL) == pid);
}

static bool stopped_by(int status, int signo)
{
	return WIFSTOPPED(status) && WSTOPSIG(status) == signo;
}

static bool at_mark(pid_t pid)
{
	siginfo_t info;

	TEST_CHECK(!ptrace(PTRACE_GETSIGINFO, pid, NULL, &info));
	return info.si_code == SI_KERNEL; /* of int3; a step has TRAP_TRACE */
}

/* Goes on to the next mark; signals reach the program. */
static void run_to_mark(pid_t pid)
{
	int status, signo = 0;

	for (;;) {
		go_on(pid, PTRACE_CONT, signo, &status);
		TEST_CHECK(WIFSTOPPED(status));
		signo = WSTOPSIG(status);
		if (signo == SIGTRAP && at_mark(pid))
			return;
		signo = signo == SIGTRAP ? 0 : signo;
	}
}

/* Up to `steps` instructions of the call; their number.  Fewer: it is over. */
static unsigned long step(pid_t pid, unsigned long steps)
{
	int status, signo = 0;

	for (unsigned long n = 0; n < steps; n++) {
		go_on(pid, PTRACE_SINGLESTEP, signo, &status);
		TEST_CHECK(WIFSTOPPED(status));
		signo = stopped_by(status, SIGTRAP) ? 0 : WSTOPSIG(status);
		if (!signo && at_mark(pid))
			return n;
	}
	return steps;
}

static struct child start_victim(const char *call, const char *port, bool traced)
{
	struct child child = spawn(
		traced, (char *const[]){(char *)(uintptr_t)self, (char *)(uintptr_t) "victim",
					(char *)(uintptr_t)call, (char *)(uintptr_t)port, NULL});
	int status;

	if (traced) /* the exec */
		TEST_CHECK(waitpid(child.pid, &status, __WALL) == child.pid &&
			   stopped_by(status, SIGTRAP));
	return child;
}

static void run_healthy(const char *call, const char *port)
{
	struct child child =
		start_victim(is(call, "connect") ? "healthy" : call, port, !is(call, "connect"));
	int status;

	if (!is(call, "connect")) {
		run_to_mark(child.pid);
		run_to_mark(child.pid);
		go_on(child.pid, PTRACE_DETACH, 0, &status);
	} else {
		TEST_CHECK(waitpid(child.pid, &status, 0) == child.pid);
	}
	finish(&child);
}

struct drive {
	const char *call;
	char port[8];
	struct child survivor;
	volatile uint64_t *killed;
	unsigned long took[1000]; /* nsec from a death to what the survivor saw */
	unsigned n, fds, maps;
};

static void round_begins(struct drive *d)
{
	*d->killed = 0;
	fputs("go\n", d->survivor.out);
	fflush(d->survivor.out);
}

/* Did it see one of the ends that may be? */
static void round_ends(struct drive *d, bool was_killed)
{
	char text[100], end[100];
	unsigned fds, maps;
	unsigned long took;
	bool closes = is(d->call, "shutdown") || is(d->call, "close") || !was_killed;

	TEST_CHECK(fscanf(d->survivor.in, "%99s %99s %lu %u %u", text, end, &took, &fds, &maps) ==
		   5);
	if (is(d->call, "connect") || is(d->call, "sendto") || is(d->call, "recvfrom"))
		TEST_CHECK(strcmp(end, "end") != 0 && strcmp(end, "reset") != 0);
	else
		TEST_CHECK(is(end, "reset") || (closes && is(end, "end")));
	TEST_CHECK(is(text, "-") || is(text, TEXT));
	if (was_killed && took && d->n < 1000)
		d->took[d->n++] = took;
	d->fds = fds;
	d->maps = maps;
}

/* One death, after so many steps.  The number of steps that there were. */
static unsigned long one_death(struct drive *d, unsigned long steps)
{
	bool first = is(d->call, "accept") || is(d->call, "recvfrom");
	struct child child;
	unsigned long n;
	char line[16];
	int status;

	if (!first)
		round_begins(d);
	child = start_victim(d->call, d->port, true);
	if (first) { /* the survivor begins when the victim is ready */
		TEST_CHECK(!ptrace(PTRACE_CONT, child.pid, NULL, NULL));
		TEST_CHECK(fgets(line, sizeof(line), child.in));
		round_begins(d);
		TEST_CHECK(waitpid(child.pid, &status, __WALL) == child.pid &&
			   stopped_by(status, SIGTRAP));
	} else {
		run_to_mark(child.pid);
	}
	n = step(child.pid, steps);
	*d->killed = now();
	kill(child.pid, SIGKILL);
	TEST_CHECK(waitpid(child.pid, &status, __WALL) == child.pid && WIFSIGNALED(status));
	finish(&child);
	if (is(d->call, "connect") || is(d->call, "sendto"))
		run_healthy(d->call, d->port);
	round_ends(d, true);
	return n;
}

static int compare(const void *a, const void *b)
{
	unsigned long one = *(const unsigned long *)a, other = *(const unsigned long *)b;

	return one < other ? -1 : one > other;
}

static void drive(const char *call, unsigned points)
{
	static struct drive d, first;
	char path[] = "/tmp/death-XXXXXX", line[16];
	int fd = mkstemp(path);
	unsigned long steps;

	d.call = call;
	snprintf(d.port, sizeof(d.port), "%u", 7000u);
	TEST_CHECK(fd >= 0 && !ftruncate(fd, 4096));
	d.killed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TEST_CHECK(d.killed != MAP_FAILED);
	d.survivor =
		spawn(false, (char *const[]){(char *)(uintptr_t)self, (char *)(uintptr_t) "survive",
					     (char *)(uintptr_t)call, d.port, path, NULL});
	TEST_CHECK(fgets(line, sizeof(line), d.survivor.in));
	steps = one_death(&d, STEPS_MAX);
	TEST_CHECK(steps > 0 && steps < STEPS_MAX);
	first = d;
	for (unsigned i = 0; i <= points; i++)
		one_death(&d, steps * i / points);
	unlink(path);
	/* The last links may not be closed yet. */
	TEST_CHECK(d.fds < first.fds + points / 2 && d.maps < first.maps + points / 2);
	kill(d.survivor.pid, SIGKILL);
	waitpid(d.survivor.pid, NULL, 0);
	qsort(d.took, d.n, sizeof(d.took[0]), compare);
	printf("%s: %lu instructions, %u deaths", call, steps, points + 2);
	if (d.n && !is(call, "connect") && !is(call, "sendto")) {
		printf(", told after %lu us, at most %lu", d.took[d.n / 2] / 1000,
		       d.took[d.n - 1] / 1000);
		TEST_CHECK(d.took[d.n / 2] <= ENDS_AFTER);
	}
	printf(": ok\n");
}

int main(int argc, char **argv)
{
	if (argc == 4 && is(argv[1], "victim")) {
		victim(argv[2], atoi(argv[3]));
	} else if (argc == 5 && is(argv[1], "survive")) {
		survive(argv[2], atoi(argv[3]), argv[4]);
	} else if (argc == 3) {
		self = "/proc/self/exe";
		lib = getenv("LIB");
		TEST_CHECK(lib);
		drive(argv[1], (unsigned)atoi(argv[2]));
	} else {
		return 2;
	}
	return 0;
}
