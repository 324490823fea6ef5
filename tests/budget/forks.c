/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that forks, and one that counts what that costs.
 *
 *	forks run HOW IP PORT [ROUNDS]	forks ROUNDS children, one after the other. HOW: exit; clone,
 *					which is the system call and exit; exec, which executes this
 *					program; many, which opens SOCKETS sockets before; true, which
 *					executes true(1); serve, which answers on a connection that this
 *					program has accepted from itself. PORT 0: without a socket, else
 *					with a listener. Prints page faults of the first thread, of the
 *					other ones and of the child, and microseconds.
 *	forks end			ends
 *	forks count COMMAND...		runs COMMAND, "forks run", and prints the system calls of
 *					its first thread in a round, and of a child; and how often
 *					threads of children, but for the first ones, have looked below
 *					/proc/thread-self
 *
 * Each is the least of all rounds: the first ones do more, and other threads disturb. Of the time
 * there is the median, too.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/budget/program.h"

#define ROUNDS 20
#define ROUNDS_MAX 10000
#define SOCKETS 50
#define MARK SYS_getppid /* first and last system call of a round */

/* ---- the program that forks --------------------------------------------------------- */

static char *path; /* this program */
static struct sockaddr_in at;
static int listener;

static void listen_at(const char *ip, uint16_t port)
{
	at = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (inet_pton(AF_INET, ip, &at.sin_addr) != 1 || listener < 0 ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
	    bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 10))
		die("listen");
}

static int client = -1, accepted = -1; /* of a child that serves */

/* The client has asked already. */
static void connect_to_itself(void)
{
	client = socket(AF_INET, SOCK_STREAM, 0);
	if (client < 0 || connect(client, (struct sockaddr *)&at, sizeof(at)) ||
	    send(client, "?", 1, 0) != 1)
		die("connect");
	accepted = accept(listener, NULL, NULL);
	if (accepted < 0)
		die("accept");
}

static void end_connection(void)
{
	char answer;

	if (recv(client, &answer, 1, 0) != 1 || answer != '!')
		die("answer");
	close(client);
}

static void serve(void)
{
	char question;

	close(client);
	if (recv(accepted, &question, 1, 0) != 1 || send(accepted, "!", 1, 0) != 1)
		die("serve");
	close(accepted);
}

static const struct way {
	const char *name, *program; /* NULL: this one, or none */
	bool raw, many, exec, serve;
} ways[] = {{"exit", NULL, false, false, false, false},
	    {"clone", NULL, true, false, false, false},
	    {"exec", NULL, false, false, true, false},
	    {"many", NULL, false, true, true, false},
	    {"true", "/bin/true", false, false, true, false},
	    {"serve", NULL, false, false, false, true}};

/* Page faults, or microseconds, of a round. */
enum { PARENT, OTHERS, CHILD, TIME, FIGURES };

static long faults(int who)
{
	struct rusage usage;

	if (getrusage(who, &usage))
		die("getrusage");
	return usage.ru_minflt;
}

static long now_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void open_many(void)
{
	for (int i = 0; i < SOCKETS; i++) {
		if (socket(AF_INET, SOCK_STREAM, 0) < 0)
			die("socket");
	}
}

static void run_child(const struct way *way)
{
	char end[] = "end", *args[] = {path, way->program ? NULL : end, NULL};

	if (way->many)
		open_many();
	if (way->serve)
		serve();
	if (way->exec)
		execv(way->program ? way->program : path, args);
	_exit(way->exec);
}

/* The page faults of the child. */
static long fork_once(const struct way *way)
{
	pid_t pid = way->raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	struct rusage usage;
	int status;

	if (pid == 0)
		run_child(way);
	if (way->serve)
		close(accepted);
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status)
		die("fork");
	return usage.ru_minflt;
}

static void run_round(const struct way *way, long figures[FIGURES])
{
	long thread, process, begin;

	if (way->serve)
		connect_to_itself();
	thread = faults(RUSAGE_THREAD);
	process = faults(RUSAGE_SELF);
	syscall(MARK);
	begin = now_usec();
	figures[CHILD] = fork_once(way);
	figures[TIME] = now_usec() - begin;
	syscall(MARK);
	figures[PARENT] = faults(RUSAGE_THREAD) - thread;
	figures[OTHERS] = faults(RUSAGE_SELF) - process - figures[PARENT];
	if (way->serve)
		end_connection();
}

static int compare_long(const void *a, const void *b)
{
	const long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int run(const char *how, int rounds)
{
	static long figures[FIGURES][ROUNDS_MAX];
	size_t n = 0;

	while (n < sizeof(ways) / sizeof(*ways) && strcmp(ways[n].name, how) != 0)
		n++;
	if (n == sizeof(ways) / sizeof(*ways) || rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	for (int i = 0; i < rounds; i++) {
		long round[FIGURES];

		run_round(&ways[n], round);
		for (int j = 0; j < FIGURES; j++)
			figures[j][i] = round[j];
	}
	for (int j = 0; j < FIGURES; j++)
		qsort(figures[j], (size_t)rounds, sizeof(long), compare_long);
	printf("parent_faults=%ld others_faults=%ld child_faults=%ld least_us=%ld median_us=%ld\n",
	       figures[PARENT][0], figures[OTHERS][0], figures[CHILD][0], figures[TIME][0],
	       figures[TIME][rounds / 2]);
	return 0;
}

/* ---- the program that counts -------------------------------------------------------- */

static pid_t first; /* the first thread of "forks run" */
static bool in_round;
static long calls[2]; /* in this round: of the first thread, of children */
static long fewest[2] = {LONG_MAX, LONG_MAX};
static long thread_looks;

static bool is_of_first(pid_t tid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d", first, tid);
	return !access(name, F_OK);
}

static void mark(void)
{
	for (int i = 0; in_round && i < 2; i++)
		fewest[i] = calls[i] < fewest[i] ? calls[i] : fewest[i];
	calls[0] = calls[1] = 0;
	in_round = !in_round;
}

/* Is it the first thread of a process? */
static bool is_leader(pid_t tid)
{
	return !syscall(SYS_tgkill, tid, tid, 0);
}

/* Does the call name a file below /proc/thread-self? */
static bool is_thread_look(pid_t tid, const struct __ptrace_syscall_info *info)
{
	static const char below[] = "/proc/thread-self";
	char name[sizeof(below)] = "";
	bool with_dir = info->entry.nr == SYS_openat || info->entry.nr == SYS_newfstatat;
	struct iovec to = {name, sizeof(name) - 1},
		     from = {(void *)(uintptr_t)info->entry.args[with_dir], sizeof(name) - 1};

	if (!with_dir && info->entry.nr != SYS_open && info->entry.nr != SYS_stat)
		return false;
	return process_vm_readv(tid, &to, 1, &from, 1, 0) > 0 && !strcmp(name, below);
}

static void count(pid_t tid)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) < 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	if (tid == first && info.entry.nr == MARK)
		mark();
	else if (tid == first)
		calls[0]++;
	else if (!is_of_first(tid))
		calls[1]++;
	if (!is_of_first(tid) && !is_leader(tid) && is_thread_look(tid, &info))
		thread_looks++;
}

/* A tracee has stopped: goes on, with the signal that it stopped for. */
static void go_on(pid_t tid, int status)
{
	int sig = WSTOPSIG(status);

	if (sig == (SIGTRAP | 0x80)) {
		count(tid);
		sig = 0;
	} else if (status >> 16) { /* an event of ptrace(2) */
		sig = 0;
	}
	ptrace(PTRACE_SYSCALL, tid, 0, sig);
}

static int trace(char **command)
{
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE |
		       PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	int status, result = 1;
	pid_t tid;

	first = fork();
	if (first == 0) {
		raise(SIGSTOP);
		execvp(command[0], command);
		die(command[0]);
	}
	if (first < 0 || waitpid(first, &status, WUNTRACED) != first ||
	    ptrace(PTRACE_SEIZE, first, 0, options) || kill(first, SIGCONT))
		die("ptrace");
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFSTOPPED(status))
			go_on(tid, status);
		else if (tid == first)
			result = !WIFEXITED(status) || WEXITSTATUS(status);
	}
	printf("parent_calls=%ld child_calls=%ld thread_looks=%ld\n", fewest[0], fewest[1],
	       thread_looks);
	return result;
}

int main(int argc, char **argv)
{
	path = argv[0];
	if (argc == 2 && !strcmp(argv[1], "end"))
		return 0;
	if (argc > 2 && !strcmp(argv[1], "count"))
		return trace(argv + 2);
	if (argc < 5 || argc > 6 || strcmp(argv[1], "run") != 0)
		return 2;
	if (atoi(argv[4]))
		listen_at(argv[3], (uint16_t)atoi(argv[4]));
	return run(argv[2], argc == 6 ? atoi(argv[5]) : ROUNDS);
}
