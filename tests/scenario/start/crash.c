/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with a connection that crashes, or that is interrupted; crash_test.sh.
 *
 *	crash peer ADDRESS PORT		echoes; says how each connection ends: "end" or an errno
 *	crash CASE ADDRESS PORT		one of cases[]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define BAD ((char *)8)

static struct sockaddr_in at = {.sin_family = AF_INET};
static int conn = -1;
static sigjmp_buf back;
static char *volatile where = BAD; /* hidden from the compiler */

__attribute__((noreturn)) static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

/* ---- the peer ----------------------------------------------------------------------------- */

static void serve_one(int fd)
{
	char buf[100];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		send(fd, buf, (size_t)n, 0);
	say(n ? strerrorname_np(errno) : "end");
	exit(0);
}

static void serve(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 10))
		die("listen");
	signal(SIGCHLD, SIG_IGN);
	say("ready");
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		/* A program that crashes does not end its connection. */
		if (!fork())
			serve_one(fd);
		close(fd);
	}
}

/* ---- a connection that works -------------------------------------------------------------- */

static void echo(void)
{
	char c = 0;

	if (send(conn, "x", 1, 0) != 1 || recv(conn, &c, 1, 0) != 1 || c != 'x')
		die("echo");
}

/* The name is in the backtrace. */
__attribute__((noinline, visibility("default"))) void crash_here(void);
void crash_here(void)
{
	*where = 1;
}

static void handle(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = {.sa_sigaction = fn, .sa_flags = SA_SIGINFO | flags};

	if (sigaction(sig, &act, NULL))
		die("sigaction");
}

/* send() with a bad pointer: EFAULT, which the program would have from the kernel. */
static void send_bad(void)
{
	char text[64];
	ssize_t n = send(conn, where, 10, 0);

	snprintf(text, sizeof(text), "send %zd %s", n, n < 0 ? strerrorname_np(errno) : "");
	say(text);
}

/* ---- cases -------------------------------------------------------------------------------- */

static void on_segv(int sig, siginfo_t *info, void *context)
{
	char text[64];

	snprintf(text, sizeof(text), "handler %d %p", sig, info->si_addr);
	say(text);
}

static void on_segv_jump(int sig, siginfo_t *info, void *context)
{
	on_segv(sig, info, context);
	siglongjmp(back, 1);
}

static void on_segv_exit(int sig, siginfo_t *info, void *context)
{
	on_segv(sig, info, context);
	exit(7);
}

static void plain(void)
{
	crash_here();
}

static void handler(void)
{
	handle(SIGSEGV, on_segv_exit, 0);
	crash_here();
}

static void jumps(void)
{
	handle(SIGSEGV, on_segv_jump, 0);
	for (volatile int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1))
			crash_here();
	echo();
	say("alive");
}

/* Its handler returns once; the second time the default action is there. */
static void once(void)
{
	handle(SIGSEGV, on_segv, (int)SA_RESETHAND);
	crash_here();
}

static void guarded(void)
{
	send_bad();
	echo();
	crash_here();
}

static void guarded_handler(void)
{
	handle(SIGSEGV, on_segv_exit, 0);
	send_bad();
	echo();
	crash_here();
}

static void ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	crash_here();
}

/* The default comes back: so does the backtrace. */
static void restored(void)
{
	handle(SIGSEGV, on_segv, 0);
	signal(SIGSEGV, SIG_DFL);
	crash_here();
}

static void *crash_thread(void *arg)
{
	crash_here();
	return NULL;
}

static void thread(void)
{
	pthread_t id;

	pthread_create(&id, NULL, crash_thread, NULL);
	pthread_join(id, NULL);
}

static volatile int depth = 1 << 30; /* far more than there is room for */

static int deeper(volatile char *above)
{
	volatile char room[4096];

	room[0] = above ? above[0] : 0;
	return depth-- ? deeper(room) + room[0] : 0;
}

static void overflow(void)
{
	deeper(NULL);
}

static void overflow_stack(void)
{
	static char room[65536];
	stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)};

	if (sigaltstack(&stack, NULL))
		die("sigaltstack");
	deeper(NULL);
}

static void sent(void)
{
	kill(getpid(), SIGSEGV);
	pause();
}

/* A receive that polls forever, where VMA_RX_POLL is -1. */
static void receive(void)
{
	char c;
	ssize_t n;
	int error;
	sigset_t set;

	say("ready");
	n = recv(conn, &c, 1, 0);
	error = errno;
	/* It is sent until the script sees the next line: the rest is not to be interrupted. */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	printf("recv %zd %s\n", n, n < 0 ? strerrorname_np(error) : "");
	echo();
	say("alive");
}

static void on_int(int sig, siginfo_t *info, void *context)
{
	say("handler");
}

static void interrupted(void)
{
	handle(SIGINT, on_int, 0);
	receive();
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"plain", plain},
	{"handler", handler},
	{"jumps", jumps},
	{"once", once},
	{"guarded", guarded},
	{"guarded_handler", guarded_handler},
	{"ignored", ignored},
	{"restored", restored},
	{"thread", thread},
	{"overflow", overflow},
	{"overflow_stack", overflow_stack},
	{"sent", sent},
	{"receive", receive},
	{"interrupted", interrupted},
};

int main(int argc, char **argv)
{
	struct rlimit none = {0, 0};

	if (argc != 4 || inet_pton(AF_INET, argv[2], &at.sin_addr) != 1)
		return 2;
	at.sin_port = htons((uint16_t)atoi(argv[3]));
	if (!strcmp(argv[1], "peer"))
		serve();
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	conn = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(conn, (struct sockaddr *)&at, sizeof(at)))
		die("connect");
	echo();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1]))
			cases[i].run();
	return 0;
}
