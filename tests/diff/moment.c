/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waits for the right moment: another thread is blocked, sent data has arrived, a time has
 * passed.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tests/diff/diff.h"
#include "tests/diff/worker.h"

#define WORK_MS 1000
#define LOOKS 10	/* one millisecond apart */
#define TRIES 50	/* of a timeout */
#define LATE_USEC 20000 /* two jiffies of 100 Hz */
#define LATE_MAX 3	/* returns that are late although there was a processor */

int other_pid;

static void sleep_ms(int msec)
{
	struct timespec ts = {msec / 1000, msec % 1000 * 1000000L};

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

void let_pass(int msec, const char *why)
{
	(void)why;
	sleep_ms(msec);
}

/* ---- a thread that is blocked ---------------------------------------------------------- */

struct look {
	char state;	   /* as in proc(5) */
	unsigned long ran; /* how often it yielded or was preempted */
};

/* False: the thread has ended. */
static bool look_at(int tid, struct look *look)
{
	char name[32], line[128];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/status", tid);
	f = fopen(name, "re");
	*look = (struct look){0};
	while (f && fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "State: %c", &look->state);
		(void)sscanf(line, "voluntary_ctxt_switches: %lu", &look->ran);
	}
	if (f)
		fclose(f);
	return look->state && look->state != 'Z' && look->state != 'X';
}

/*
 * Does no thread of the process that tid belongs to run, or wait for a processor? Apart from this
 * thread.
 */
static bool sleeps(int tid)
{
	char name[32];
	struct dirent *entry;
	struct look look;
	bool sleep = true;
	DIR *dir;

	snprintf(name, sizeof(name), "/proc/%d/task", tid);
	dir = opendir(name);
	while (dir && sleep && (entry = readdir(dir))) {
		int one = atoi(entry->d_name);

		sleep = one <= 0 || one == gettid() || !look_at(one, &look) || look.state != 'R';
	}
	if (dir)
		closedir(dir);
	return sleep;
}

static bool is_card(int pid)
{
	char name[32], comm[16] = "";
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/comm", pid);
	f = fopen(name, "re");
	if (f && !fgets(comm, sizeof(comm), f))
		*comm = 0;
	if (f)
		fclose(f);
	return !strcmp(comm, "card\n");
}

/* Emulated cards (diff_test.sh -c) are processes, too: frames may wait in one for its processor. */
static bool cards_sleep(void)
{
	DIR *dir = getenv("NETNS_CARD") ? opendir("/proc") : NULL;
	struct dirent *entry;
	bool sleep = true;

	while (dir && sleep && (entry = readdir(dir))) {
		int pid = atoi(entry->d_name);

		sleep = pid <= 0 || !is_card(pid) || sleeps(pid);
	}
	if (dir)
		closedir(dir);
	return sleep;
}

/*
 * The library's threads, of that process and of this one, may have work for the call that blocks. A
 * thread that computes or polls has to be ready some time, too.
 */
static void await_work(int tid)
{
	long until = now_ms() + WORK_MS;

	while (!(sleeps(tid) && sleeps(getpid())) && now_ms() < until)
		sleep_ms(1);
}

void await_blocked(int tid)
{
	long until = now_ms() + PATIENCE;
	struct look before = {0}, now;

	for (int same = 0; same < LOOKS && now_ms() < until; sleep_ms(1)) {
		if (!look_at(tid, &now)) {
			say("set-up: a thread has ended, and is not blocked");
			return;
		}
		same = now.state == 'S' && now.ran == before.ran ? same + 1 : 0;
		before = now;
		if (same == LOOKS) {
			await_work(tid);
			return;
		}
	}
	say("set-up: a thread is not blocked, but '%c'", before.state);
}

void await_zombie(int pid)
{
	long until = now_ms() + PATIENCE;
	struct look look = {0};

	while (look.state != 'Z' && now_ms() < until) {
		(void)look_at(pid, &look);
		if (look.state != 'Z')
			sleep_ms(1);
	}
	if (look.state != 'Z')
		say("set-up: a process has not ended, but is '%c'", look.state);
}

bool arrives(int fd, int msec)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	long until = now_ms() + PATIENCE;
	bool waited;

	do {
		if (poll(&p, 1, msec) == 1)
			return true;
		waited = !(sleeps(getpid()) && cards_sleep());
	} while (waited && now_ms() < until);
	return false;
}

void await_other_blocked(void)
{
	await_blocked(other_pid);
}

/* ---- what was sent ---------------------------------------------------------------------- */

void await_bytes(int fd, int n)
{
	long until = now_ms() + PATIENCE;
	int have = -1;

	while (ioctl(fd, FIONREAD, &have) == 0 && have != n && now_ms() < until)
		sleep_ms(1);
	if (have != n)
		say("set-up: %d bytes instead of %d", have, n);
}

void await_acked(int fd)
{
	long until = now_ms() + PATIENCE;
	int left = -1;

	while (ioctl(fd, SIOCOUTQ, &left) == 0 && left && now_ms() < until)
		sleep_ms(1);
	if (left)
		say("set-up: %d bytes are not acknowledged", left);
}

static int state_of(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	return info.tcpi_state;
}

void await_state(int fd, int state)
{
	long until = now_ms() + PATIENCE;

	while (state_of(fd) != state && now_ms() < until)
		sleep_ms(1);
	if (state_of(fd) != state)
		say("set-up: state %d instead of %d", state_of(fd), state);
}

void arrive(void)
{
	struct sockaddr_in to = is_server ? client_addr(ARRIVE_PORT) : server_addr(ARRIVE_PORT);
	int fd = udp_bound(ARRIVE_PORT);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	meet();
	MUST(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)));
	if (poll(&p, 1, PATIENCE) != 1)
		say("set-up: nothing arrives");
	meet();
	close(fd);
}

/* A segment that its receiver has dropped is sent again, later each time, and may make room then. */
static bool is_under_way(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	return info.tcpi_unacked != 0;
}

long fill_window(int fd)
{
	static char junk[65536];
	size_t piece = sizeof(junk);
	long sum = 0;

	for (int quiet = 0; quiet < 50 || (is_under_way(fd) && quiet < 400);) {
		ssize_t n = send(fd, junk, piece, MSG_DONTWAIT);

		if (n > 0) {
			sum += n;
			quiet = 0;
			continue;
		}
		piece = 1;
		quiet++;
		/*
		 * There is no event for "no more will be sent"; a second is longer than the
		 * timer.
		 */
		sleep_ms(20);
	}
	return sum;
}

/* ---- times ------------------------------------------------------------------------------ */

static long now_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/*
 * How long this thread has waited for a processor so far, and all processors for the machine below
 * them. 0 if the kernel does not tell.
 */
static long waited_usec(void)
{
	unsigned long ran, waited = 0, stolen = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "re");

	if (f && fscanf(f, "%lu %lu", &ran, &waited) != 2)
		waited = 0;
	if (f)
		fclose(f);
	f = fopen("/proc/stat", "re");
	if (f && fscanf(f, "cpu %*u %*u %*u %*u %*u %*u %*u %lu", &stolen) != 1)
		stolen = 0;
	if (f)
		fclose(f);
	return (long)(waited / 1000 + stolen * 1000000 / (unsigned long)sysconf(_SC_CLK_TCK));
}

/* It was late by more than it has waited for a processor. */
static void note_late(struct timing *t, long took)
{
	long waited = waited_usec() - t->waited;

	t->late += took - waited >= t->least_usec + LATE_USEC;
}

bool timing_goes_on(struct timing *t)
{
	long now = now_usec(), took = now - t->began;

	if (t->tries) {
		if (took < t->least_usec) {
			say("%s: after %ld us, too early", t->text, took);
			return false;
		}
		if (took < t->least_usec + LATE_USEC) {
			say("%s: in time", t->text);
			return false;
		}
		note_late(t, took);
	}
	if (t->tries == TRIES || t->late == LATE_MAX) {
		say("%s: too late, at last after %ld us", t->text, took);
		return false;
	}
	t->tries++;
	t->waited = waited_usec();
	t->began = now_usec();
	return true;
}

void timing_result(struct timing *t, long value)
{
	int saved = errno;

	if (t->tries == 1 || value != t->value || (value == -1 && saved != t->error)) {
		errno = saved;
		say_result(t->text, value);
	}
	t->value = value;
	t->error = saved;
}
