/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How processes end, and what their peers see; and that the program does not see how the
 * library notices the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/early/early.h"

/* <assert.h> declares it only in debug builds. */
void __assert_fail(const char *what, const char *file, unsigned line, const char *function)
	__attribute__((noreturn));

#define LEFT 300000 /* more than the peer's window: a part stays unsent */

/* The peer: reads until the end. */
static void until_end(void)
{
	int listener = tcp_listening(0), fd;
	static char buf[65536];
	long n, sum = 0;

	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	meet();
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		sum += n;
	say("%ld bytes, then %ld %s", sum, n, n < 0 ? strerrorname_np(errno) : "");
	close(fd);
	close(listener);
}

/* A child connects, sends, and ends in one of many ways. */
static int connected_child(void)
{
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	static char buf[LEFT];

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(fd, buf, sizeof(buf), 0));
	return fd;
}

static int by_exit(void *arg)
{
	connected_child();
	exit(7);
}

static int by__exit(void *arg)
{
	connected_child();
	_exit(7);
}

static int by_quick_exit(void *arg)
{
	connected_child();
	quick_exit(7);
}

static int by_abort(void *arg)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	connected_child();
	abort();
}

/* The destructor of a library sends data. */
static int by_destructor(void *arg)
{
	late_fd = connected_child();
	exit(7);
}

static void *exit_thread(void *arg)
{
	exit(9);
	return NULL;
}

static int by_thread(void *arg)
{
	pthread_t thread;

	connected_child();
	pthread_create(&thread, NULL, exit_thread, NULL);
	pause();
	return 1;
}

static void *short_thread(void *arg)
{
	return NULL;
}

/* The end of the last thread ends the process. */
static int by_last_thread(void *arg)
{
	pthread_t thread;

	connected_child();
	pthread_create(&thread, NULL, short_thread, NULL);
	pthread_exit(NULL);
	return 1;
}

static int by_thrd_exit(void *arg)
{
	pthread_t thread;

	connected_child();
	pthread_create(&thread, NULL, short_thread, NULL);
	thrd_exit(0);
}

static pthread_t first;

static void *cancel_first(void *arg)
{
	void *value;

	pthread_cancel(first);
	pthread_join(first, &value);
	SAY_IF(value == PTHREAD_CANCELED);
	return arg;
}

static int by_cancel(void *arg)
{
	pthread_t thread;

	first = pthread_self();
	connected_child();
	pthread_create(&thread, NULL, cancel_first, NULL);
	pause();
	return 1;
}

static int by_cancel_in_recv(void *arg)
{
	pthread_t thread;
	char c;
	int fd;

	first = pthread_self();
	fd = connected_child();
	pthread_create(&thread, NULL, cancel_first, NULL);
	recv(fd, &c, 1, 0);
	return 1;
}

static void *cancel_first_and_connect(void *arg)
{
	cancel_first(arg);
	connected_child();
	return arg;
}

/* The first thread ends before there is an accelerated socket. */
static int by_early_cancel(void *arg)
{
	pthread_t thread;

	first = pthread_self();
	pthread_create(&thread, NULL, cancel_first_and_connect, NULL);
	pause();
	return 1;
}

/* As a failing assertion does: not through a call that the library can replace. */
static int by_assertion(void *arg)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	connected_child();
	dup2(open("/dev/null", O_WRONLY), 2);
	__assert_fail("false", __FILE__, __LINE__, __func__);
}

static int by_kill(void *arg)
{
	connected_child();
	kill(getpid(), (int)(intptr_t)arg);
	pause();
	return 1;
}

/* During a call. */
static int by_kill_in_recv(void *arg)
{
	int fd = connected_child();
	char c;

	alarm(1);
	recv(fd, &c, 1, 0);
	return 1;
}

static int by_sigpipe(void *arg)
{
	int fd = connected_child(), other[2];

	MUST(pipe(other));
	close(other[0]);
	write(other[1], "x", 1);
	close(fd);
	return 1;
}

static void on_term(int sig)
{
	_exit(11);
}

static int by_handler(void *arg)
{
	signal(SIGTERM, on_term);
	return by_kill((void *)(intptr_t)SIGTERM);
}

static void end(int (*how)(void *arg), void *arg)
{
	int pid;

	meet();
	pid = spawn(how, arg);
	meet();
	join(pid);
}

#define ENDS(name, how, arg)                       \
	static void ends_##name(void)              \
	{                                          \
		end(how, (void *)(intptr_t)(arg)); \
	}

ENDS(exit, by_exit, 0)
ENDS(_exit, by__exit, 0)
ENDS(quick_exit, by_quick_exit, 0)
ENDS(destructor, by_destructor, 0)
ENDS(abort, by_abort, 0)
ENDS(assertion, by_assertion, 0)
ENDS(sigabrt, by_kill, SIGABRT)
ENDS(thread, by_thread, 0)
ENDS(last_thread, by_last_thread, 0)
ENDS(thrd_exit, by_thrd_exit, 0)
ENDS(cancel, by_cancel, 0)
ENDS(cancel_in_recv, by_cancel_in_recv, 0)
ENDS(early_cancel, by_early_cancel, 0)
ENDS(sigterm, by_kill, SIGTERM)
ENDS(sigint, by_kill, SIGINT)
ENDS(sighup, by_kill, SIGHUP)
ENDS(alarm, by_kill_in_recv, 0)
ENDS(sigpipe, by_sigpipe, 0)
ENDS(handler, by_handler, 0)

/* ---- what the program sees of it --------------------------------------------------- */

static void say_handler(const char *what, sighandler_t is)
{
	say("%s: %s", what,
	    is == SIG_DFL   ? "SIG_DFL"
	    : is == SIG_IGN ? "SIG_IGN"
	    : is == SIG_ERR ? "SIG_ERR"
	    : is == on_term ? "on_term"
			    : "another one");
}

static void signals_client(void)
{
	int fd = tcp_pair();
	struct sigaction act;

	for (int sig = 1; sig < 32; sig++) {
		if (sigaction(sig, NULL, &act) || act.sa_handler != SIG_DFL || act.sa_flags)
			say("signal %d: %s", sig,
			    act.sa_handler == SIG_DFL ? "flags" : "a handler");
	}
	say_handler("was", signal(SIGTERM, on_term));
	say_handler("was", signal(SIGTERM, SIG_IGN));
	say_handler("was", signal(SIGTERM, SIG_DFL));
	say_handler("was", signal(SIGTERM, SIG_DFL));
	memset(&act, 0, sizeof(act));
	act.sa_handler = on_term;
	act.sa_flags = SA_RESETHAND;
	SAY(sigaction(SIGUSR1, &act, NULL));
	act.sa_handler = SIG_DFL;
	act.sa_flags = SA_RESTART;
	SAY(sigaction(SIGUSR2, &act, NULL));
	SAY(sigaction(SIGUSR2, NULL, &act));
	say_handler("now", act.sa_handler);
	say("flags %#x", (unsigned)act.sa_flags & ~0x04000000u);
	signal(SIGUSR1, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	close(fd);
}

static void signals_server(void)
{
	close(tcp_pair());
}

/* A child executes a program that has default actions, and is ended by a signal. */
static int executed(void *arg)
{
	execl("/bin/sh", "sh", "-c", "kill -TERM $$; exit 3", NULL);
	return 99;
}

static void exec_client(void)
{
	int fd = tcp_pair();

	join(spawn(executed, NULL));
	close(fd);
}

/* ---- in the middle of calls -------------------------------------------------------- */

#define BUSY_ENDS 12

struct busy {
	int fd;
	int began,
		seen; /* any, atomic; number of calls, and the errno that none of them may return */
};

static struct busy *busy_page(void)
{
	void *page = mmap(NULL, sizeof(struct busy), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return page == MAP_FAILED ? NULL : page;
}

static void *look_for_ever(void *arg)
{
	struct busy *b = arg;
	char c;

	for (;;) {
		if (recv(b->fd, &c, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN)
			__atomic_store_n(&b->seen, errno, __ATOMIC_RELAXED);
		__atomic_add_fetch(&b->began, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void connect_busy(struct busy *b)
{
	struct sockaddr_in to = server_addr(0);

	b->fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(connect(b->fd, (struct sockaddr *)&to, sizeof(to)));
}

static int busy_alone(void *arg)
{
	connect_busy(arg);
	look_for_ever(arg);
	return 1;
}

/* Another thread makes calls while this thread ends the process. */
static int busy_beside(void *arg)
{
	struct busy *b = arg;
	pthread_t thread;

	connect_busy(b);
	pthread_create(&thread, NULL, look_for_ever, b);
	while (__atomic_load_n(&b->began, __ATOMIC_RELAXED) < 1000)
		sched_yield();
	exit(7);
}

/* No call of an ending process returns an error because of that. */
static void end_busily(int (*how)(void *arg), int sig)
{
	for (int i = 0; i < BUSY_ENDS; i++) {
		struct busy *b = busy_page();
		int pid;

		meet();
		pid = spawn(how, b);
		while (sig && __atomic_load_n(&b->began, __ATOMIC_RELAXED) < 1000 + 100 * i)
			sched_yield();
		if (sig)
			kill(pid, sig);
		join(pid);
		if (b->seen)
			say("a call gave %s", strerrorname_np(b->seen));
		munmap(b, sizeof(*b));
	}
}

static void busy_killed(void)
{
	end_busily(busy_alone, SIGTERM);
}

static void busy_exit(void)
{
	end_busily(busy_beside, 0);
}

static void busy_server(void)
{
	int listener = tcp_listening(0);
	char c;

	for (int i = 0; i < BUSY_ENDS; i++) {
		int fd;

		meet();
		fd = (int)MUST(accept(listener, NULL, NULL));
		SAY(recv(fd, &c, 1, 0));
		close(fd);
	}
	close(listener);
}

/* ---- a process starts while another one exits -------------------------------------- */

struct leaver {
	int told[2];
};

/* Exits with much data that its peer does not read yet, and therefore exits later. */
static int leave_slowly(void *arg)
{
	const struct leaver *leaver = arg;
	struct sockaddr_in to = server_addr(0);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	static char buf[LEFT];

	MUST(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	set_nonblocking(fd, true);
	while (send(fd, buf, sizeof(buf), 0) > 0)
		;
	close(leaver->told[1]);
	exit(0);
}

static void newcomer(void)
{
	struct sockaddr_in to = server_addr(1);
	struct leaver leaver;
	int pid, fd;
	char c;

	MUST(pipe(leaver.told));
	meet();
	pid = spawn(leave_slowly, &leaver);
	close(leaver.told[1]);
	MUST(read(leaver.told[0], &c, 1));
	let_pass(200, "it is leaving, in its exit handlers, and could tell only before them");
	fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	SAY(connect(fd, (struct sockaddr *)&to, sizeof(to)));
	ping(fd, "hello");
	meet();
	join(pid);
	close(fd);
	close(leaver.told[0]);
}

static void newcomer_server(void)
{
	int slow = tcp_listening(0), listener = tcp_listening(1), left, fd;
	static char buf[65536];
	long n;

	meet();
	left = (int)MUST(accept(slow, NULL, NULL));
	fd = (int)MUST(accept(listener, NULL, NULL));
	n = MUST(recv(fd, buf, sizeof(buf), 0));
	MUST(send(fd, buf, (size_t)n, 0));
	meet();
	while ((n = recv(left, buf, sizeof(buf), 0)) > 0)
		;
	say_result("the end of the one that left", n);
	close(left);
	close(fd);
	close(slow);
	close(listener);
}

/* ---- before the beginning ---------------------------------------------------------- */

static void constructor_client(void)
{
	struct sockaddr_in to = server_addr(0);
	char buf[10];

	meet();
	SAY(connect(early_fd, (struct sockaddr *)&to, sizeof(to)));
	SAY(send(early_fd, "early", 5, 0));
	SAY(recv(early_fd, buf, sizeof(buf), 0));
	SAY(close(early_fd));
}

static void constructor_server(void)
{
	int listener = tcp_listening(0), fd;
	char buf[10];

	meet();
	fd = (int)MUST(accept(listener, NULL, NULL));
	SAY(recv(fd, buf, sizeof(buf), 0));
	SAY(send(fd, "yes", 3, 0));
	SAY(recv(fd, buf, sizeof(buf), 0));
	close(fd);
	close(listener);
}

const struct behaviour exits_behaviours[] = {
	{"exit", until_end, ends_exit, OURS},
	{"_exit", until_end, ends__exit, OURS},
	{"quick_exit", until_end, ends_quick_exit, OURS},
	{"destructor", until_end, ends_destructor, OURS},
	{"abort", until_end, ends_abort, OURS},
	{"assertion", until_end, ends_assertion, OURS},
	{"sigabrt", until_end, ends_sigabrt, OURS},
	{"thread", until_end, ends_thread, OURS},
	{"last_thread", until_end, ends_last_thread, OURS},
	{"thrd_exit", until_end, ends_thrd_exit, OURS},
	{"cancel", until_end, ends_cancel, OURS},
	{"cancel_in_recv", until_end, ends_cancel_in_recv, OURS},
	{"early_cancel", until_end, ends_early_cancel, OURS},
	{"sigterm", until_end, ends_sigterm, OURS},
	{"sigint", until_end, ends_sigint, OURS},
	{"sighup", until_end, ends_sighup, OURS},
	{"alarm", until_end, ends_alarm, OURS},
	{"sigpipe", until_end, ends_sigpipe, OURS},
	{"handler", until_end, ends_handler, OURS},
	{"signals", signals_server, signals_client, OURS},
	{"constructor", constructor_server, constructor_client, OURS},
	{"exec", signals_server, exec_client, OURS},
	{"busy_killed", busy_server, busy_killed, OURS},
	{"busy_exit", busy_server, busy_exit, OURS},
	{"newcomer", newcomer_server, newcomer, OURS},
	{0},
};
