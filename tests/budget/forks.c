/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that forks, and one that counts what that costs.
 *
 *	forks run HOW IP PORT		forks ROUNDS children, one after the other. HOW: exit;
 *					exec, which executes this program; many, which opens
 *					SOCKETS sockets before. PORT 0: without a socket, else
 *					with a listener. Prints page faults.
 *	forks end			ends
 *	forks count COMMAND...		runs COMMAND, "forks run", and prints the system calls of
 *					its first thread in a round, and of a child
 *
 * Each is the least of all rounds: the first ones do more, and other threads disturb.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/budget/program.h"

#define ROUNDS 20
#define SOCKETS 50
#define MARK SYS_getppid /* first and last system call of a round */

/* ---- the program that forks --------------------------------------------------------- */

static char *path; /* this program */

static void listen_at(const char *ip, uint16_t port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (inet_pton(AF_INET, ip, &sin.sin_addr) != 1 || fd < 0 ||
	    bind(fd, (struct sockaddr *)&sin, sizeof(sin)) || listen(fd, 10))
		die("listen");
}

static long faults_of_thread(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		die("getrusage");
	return usage.ru_minflt;
}

static void open_many(void)
{
	for (int i = 0; i < SOCKETS; i++) {
		if (socket(AF_INET, SOCK_STREAM, 0) < 0)
			die("socket");
	}
}

/* The page faults of the child. */
static long fork_once(bool many, bool exec)
{
	char end[] = "end", *args[] = {path, end, NULL};
	struct rusage usage;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (many)
			open_many();
		if (exec)
			execv(path, args);
		_exit(exec);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status)
		die("fork");
	return usage.ru_minflt;
}

static int run(bool many, bool exec)
{
	long least[2] = {LONG_MAX, LONG_MAX};

	for (int i = 0; i < ROUNDS; i++) {
		long before = faults_of_thread(), child, parent;

		syscall(MARK);
		child = fork_once(many, exec);
		syscall(MARK);
		parent = faults_of_thread() - before;
		least[0] = parent < least[0] ? parent : least[0];
		least[1] = child < least[1] ? child : least[1];
	}
	printf("parent_faults=%ld child_faults=%ld\n", least[0], least[1]);
	return 0;
}

/* ---- the program that counts -------------------------------------------------------- */

static pid_t first; /* the first thread of "forks run" */
static bool in_round;
static long calls[2]; /* in this round: of the first thread, of children */
static long fewest[2] = {LONG_MAX, LONG_MAX};

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
	printf("parent_calls=%ld child_calls=%ld\n", fewest[0], fewest[1]);
	return result;
}

int main(int argc, char **argv)
{
	path = argv[0];
	if (argc == 2 && !strcmp(argv[1], "end"))
		return 0;
	if (argc > 2 && !strcmp(argv[1], "count"))
		return trace(argv + 2);
	if (argc != 5 || strcmp(argv[1], "run") != 0)
		return 2;
	if (atoi(argv[4]))
		listen_at(argv[3], (uint16_t)atoi(argv[4]));
	return run(!strcmp(argv[2], "many"), strcmp(argv[2], "exit") != 0);
}
