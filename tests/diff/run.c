/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The driver: runs a suite in all four modes and compares the transcripts.
 *
 *	diff run [-v] LIB INTENDED SUITE [BEHAVIOUR...]
 *
 * The modes run at the same time, mode N in the network namespaces "cN" and "sN", which have a
 * link (diff_test.sh).  If $VMA_LOCAL is 1, both are one namespace with both addresses, and the
 * suite runs in two modes: plain (0), and through shared memory (3, local).
 *
 * A side that dies, or prints nothing for too long, ends the behaviour for both; the suite
 * continues with the next behaviour in new processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/intended.h"
#include "tests/diff/worker.h"

#define LIMIT_MS (4 * PATIENCE) /* for one behaviour */
#define MAX_BEHAVIOURS 256
#define FIRST_PORT 2000
#define PORTS_MODE (MAX_BEHAVIOURS * (int)PORTS_EACH)

enum { SERVER, CLIENT, SIDES };
enum { PLAIN, WITH_SERVER, WITH_CLIENT, BOTH, MODES };
static const char *const side_names[] = {"server", "client"};
static const char *mode_names[] = {"plain", "server", "client", "both"};

static struct {
	char *text; /* NULL: it did not run */
	size_t len;
	unsigned long by_kernel;
} said[MODES][MAX_BEHAVIOURS][SIDES];

struct side {
	int pid, fd;
	int at; /* index of the present behaviour, or -1 */
	char line[4096];
	size_t n;
};

static const char *lib, *intended;
static const struct suite *suite;
static char **wanted;
static int n_wanted;
static bool verbose, local;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static bool has_lib(int mode, int side)
{
	return mode == BOTH || mode == (side == SERVER ? WITH_SERVER : WITH_CLIENT);
}

static long msec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- running -------------------------------------------------------------------------- */

static void append(int mode, int index, int side, const char *line)
{
	size_t n = strlen(line);
	char **text = &said[mode][index][side].text;

	*text = realloc(*text, said[mode][index][side].len + n + 2);
	if (!*text)
		die("realloc");
	memcpy(*text + said[mode][index][side].len, line, n);
	memcpy(*text + said[mode][index][side].len + n, "\n", 2);
	said[mode][index][side].len += n + 1;
}

/* $SAN_RUNTIME: the library that a sanitized build needs preloaded first. */
static void preload(void)
{
	const char *runtime = getenv("SAN_RUNTIME");
	char both[PATH_MAX * 2];

	snprintf(both, sizeof(both), "%s%s%s", runtime ? runtime : "", runtime ? ":" : "", lib);
	setenv("LD_PRELOAD", both, 1);
}

static void become_worker(int mode, int side, int first, int control, int transcript)
{
	char ns[32], index[16], base[16], *argv[64];
	int fd, n = 0;

	snprintf(ns, sizeof(ns), "/run/netns/%c%d", *side_names[side], mode);
	fd = open(ns, O_RDONLY | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(ns);
	if (dup2(control, CONTROL_FD) < 0 || dup2(transcript, TRANSCRIPT_FD) < 0)
		die("dup2");
	close_range(3, CONTROL_FD - 1, 0);
	if (has_lib(mode, side) && *lib) {
		preload();
		setenv("VMA_TRACELEVEL", "warn", 0);
	}
	snprintf(index, sizeof(index), "%d", first);
	snprintf(base, sizeof(base), "%d", FIRST_PORT + mode * PORTS_MODE);
	argv[n++] = (char *)"diff";
	argv[n++] = (char *)"worker";
	argv[n++] = (char *)side_names[side];
	argv[n++] = (char *)suite->name;
	argv[n++] = index;
	argv[n++] = base;
	argv[n++] = (char *)(has_lib(mode, side) ? "1" : "0");
	for (int i = 0; i < n_wanted && n < 63; i++)
		argv[n++] = wanted[i];
	argv[n] = NULL;
	execv("/proc/self/exe", argv);
	die("exec");
}

static void start(struct side *sides, int mode, int first)
{
	int control[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control))
		die("socketpair");
	for (int i = 0; i < SIDES; i++) {
		int transcript[2];

		if (pipe2(transcript, O_CLOEXEC))
			die("pipe");
		sides[i] = (struct side){.fd = transcript[0], .at = -1, .pid = fork()};
		if (sides[i].pid < 0)
			die("fork");
		if (sides[i].pid == 0)
			become_worker(mode, i, first, control[i], transcript[1]);
		close(transcript[1]);
	}
	close(control[0]);
	close(control[1]);
}

static void take_line(struct side *s, int mode, int side, const char *line)
{
	unsigned index;
	unsigned long count;

	if (*line == MARK_BEGIN && sscanf(line + 1, "%u", &index) == 1 && index < MAX_BEHAVIOURS) {
		s->at = (int)index;
		said[mode][s->at][side].len = 0;
		append(mode, s->at, side, suite->list[s->at].name);
	} else if (*line == MARK_END && sscanf(line + 1, "%u %lu", &index, &count) == 2) {
		said[mode][index][side].by_kernel = has_lib(mode, side) ? count : 0;
		s->at = -1;
	} else if (s->at >= 0) {
		append(mode, s->at, side, line);
	}
}

/* False: the end of the transcript. */
static bool take(struct side *s, int mode, int side)
{
	ssize_t n = read(s->fd, s->line + s->n, sizeof(s->line) - 1 - s->n);
	char *line = s->line, *end;

	if (n <= 0)
		return false;
	s->n += (size_t)n;
	s->line[s->n] = 0;
	while ((end = strchr(line, '\n'))) {
		*end = 0;
		take_line(s, mode, side, line);
		line = end + 1;
	}
	s->n = strlen(line);
	memmove(s->line, line, s->n);
	return true;
}

/* The index of its last behaviour, or -1. */
static int finish(struct side *s, int mode, int side, bool late)
{
	int status, at = s->at;
	char line[64];

	if (late)
		kill(s->pid, SIGKILL);
	waitpid(s->pid, &status, 0);
	close(s->fd);
	if (at < 0)
		return -1;
	if (late)
		snprintf(line, sizeof(line), "and does not go on");
	else if (WIFSIGNALED(status))
		snprintf(line, sizeof(line), "dies of signal %d", WTERMSIG(status));
	else
		snprintf(line, sizeof(line), "exits with %d", WEXITSTATUS(status));
	append(mode, at, side, line);
	return at;
}

/* Runs workers from behaviour first on; returns the index to continue with, or -1. */
static int run_from(int mode, int first)
{
	struct side sides[SIDES];
	bool open[SIDES] = {true, true}, late = false;
	long limit = msec() + LIMIT_MS;
	int stopped = -1;

	start(sides, mode, first);
	while (open[SERVER] || open[CLIENT]) {
		struct pollfd p[SIDES];
		int before[SIDES] = {sides[SERVER].at, sides[CLIENT].at};

		for (int i = 0; i < SIDES; i++)
			p[i] = (struct pollfd){.fd = open[i] ? sides[i].fd : -1, .events = POLLIN};
		if (msec() > limit || poll(p, SIDES, 100) < 0) {
			late = true;
			break;
		}
		for (int i = 0; i < SIDES; i++) {
			if (p[i].revents)
				open[i] = take(&sides[i], mode, i);
			if (sides[i].at != before[i])
				limit = msec() + LIMIT_MS;
		}
		/* When one side died, the other one ends, too: wait a moment for its reason. */
		if (open[SERVER] != open[CLIENT] && limit > msec() + PATIENCE)
			limit = msec() + PATIENCE;
	}
	for (int i = 0; i < SIDES; i++) {
		int at = finish(&sides[i], mode, i, late);

		stopped = at > stopped ? at : stopped;
	}
	return stopped < 0 ? -1 : stopped + 1;
}

static void *run_mode(void *arg)
{
	int mode = *(const int *)arg;

	for (int first = 0; first >= 0 && suite->list[first].name;)
		first = run_from(mode, first);
	return NULL;
}

/* They wait most of the time, so together they take little longer than one. */
static void run_modes(void)
{
	pthread_t threads[MODES];
	int modes[MODES], n = 0;

	for (int mode = 0; mode < MODES; mode++) {
		if (local && mode != PLAIN && mode != BOTH)
			continue;
		modes[n] = mode;
		errno = pthread_create(&threads[n], NULL, run_mode, &modes[n]);
		if (errno)
			die("thread");
		n++;
	}
	while (n)
		pthread_join(threads[--n], NULL);
}

/* ---- judging -------------------------------------------------------------------------- */

static const char *text_of(int mode, int index, int side)
{
	const char *text = said[mode][index][side].text;

	return text ? text : "(nothing)\n";
}

static void show(const char *text, size_t len, char sign)
{
	for (size_t n; len; text += n, len -= n) {
		n = strcspn(text, "\n") + 1;
		n = n < len ? n : len;
		printf("      %c %.*s\n", sign, (int)n - 1, text);
	}
}

/* Like diff(1), if all differences are in one place: the common lines after it are left out. */
static void show_difference(const char *expected, const char *is)
{
	size_t head = 0, n = strlen(expected), m = strlen(is), tail = 0;

	for (size_t i = 0; expected[i] && expected[i] == is[i]; i++) {
		if (expected[i] == '\n')
			head = i + 1;
	}
	for (size_t i = 1; i <= n - head && i <= m - head && expected[n - i] == is[m - i]; i++) {
		if (i == n - head || expected[n - i - 1] == '\n')
			tail = i;
	}
	show(expected, head, ' ');
	show(expected + head, n - head - tail, '-');
	show(is + head, m - head - tail, '+');
}

/* False: it differs from the kernel, and not as intended.txt says. */
static bool judge_side(int index, int mode, int side)
{
	const struct intended_at at = {suite->name,
				       suite->list[index].name,
				       side_names[side],
				       mode_names[mode],
				       is_native()	       ? 'n'
				       : getenv("DIFF_FAMILY") ? '6'
							       : '4',
				       getenv("NETNS_CARD") != NULL};
	const char *is = text_of(mode, index, side);
	enum intended_frames may = FRAMES_OURS;
	char *reason, *expected = intended_edit(intended, &at, text_of(PLAIN, index, side), &reason,
						&may);
	unsigned long by_kernel = said[mode][index][side].by_kernel;
	bool as_meant = by_kernel ? may != FRAMES_OURS : may != FRAMES_KERNELS;
	bool good = expected && !strcmp(expected, is) && as_meant;

	if (!good || reason)
		printf("     %s, %s, with the library under %s: %s\n", at.behaviour, at.side,
		       at.mode, good ? reason : "");
	if (!good && !as_meant)
		printf("       the kernel saw %lu segments or datagrams\n", by_kernel);
	if (!expected)
		printf("       the entry in %s does not fit what the kernel does\n", intended);
	else if (strcmp(expected, is) != 0)
		show_difference(expected, is);
	free(expected);
	free(reason);
	return good;
}

static bool judge(int index)
{
	int bad = 0;

	for (int side = 0; side < SIDES && !verbose; side++) {
		const char *text = text_of(PLAIN, index, side);

		/*
		 * The kernel's result is the reference, but a behaviour that fails there tests
		 * nothing.
		 */
		if (strstr(text, "\nset-up: ") || strstr(text, "\ndies of ") ||
		    strstr(text, "\nand does not go on") || strstr(text, "\nexits with ")) {
			printf("     %s, %s, plain:\n", suite->list[index].name, side_names[side]);
			show(text, strlen(text), ' ');
			bad++;
		}
	}
	if (verbose) {
		for (int side = 0; side < SIDES; side++) {
			printf("     %s, plain:\n", side_names[side]);
			show(text_of(PLAIN, index, side), said[PLAIN][index][side].len, ' ');
		}
	}
	for (int mode = local ? BOTH : PLAIN + 1; mode < MODES; mode++) {
		for (int side = 0; side < SIDES; side++)
			bad += !judge_side(index, mode, side);
	}
	printf("%s %s\n", bad ? "FAIL" : "ok  ", suite->list[index].name);
	return !bad;
}

static int run_main(int argc, char **argv)
{
	const char *value;
	int good = 0, bad = 0;

	if (argc && !strcmp(*argv, "-v")) {
		verbose = true;
		argc--;
		argv++;
	}
	if (argc < 3)
		return 2;
	lib = argv[0];
	intended = argv[1];
	for (suite = suites; suite->name && strcmp(suite->name, argv[2]) != 0; suite++)
		;
	wanted = argv + 3;
	n_wanted = argc - 3;
	if (!suite->name) {
		fprintf(stderr, "no suite %s\n", argv[2]);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	value = getenv("VMA_LOCAL");
	local = value && !strcmp(value, "1");
	if (local)
		mode_names[BOTH] = "local";
	run_modes();
	for (int i = 0; suite->list[i].name; i++) {
		if (!said[PLAIN][i][SERVER].text)
			continue;
		if (judge(i))
			good++;
		else
			bad++;
	}
	printf("%d behaviours alike, %d not\n", good, bad);
	return bad || !good;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strcmp(argv[1], "worker"))
		return worker_main(argc - 2, argv + 2);
	if (argc > 2 && !strcmp(argv[1], "executed"))
		return executed_main(argv[2]);
	if (argc > 1 && !strcmp(argv[1], "run"))
		return run_main(argc - 2, argv + 2);
	fputs("see the head of run.c\n", stderr);
	return 2;
}
