/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A second thread makes a socket while the first one is in the middle of the library's
 * initialisation: the library must let it wait.
 *
 * The moments: functions that the initialisation calls are those of this program. In them the
 * second thread begins, and gets as far as it can.
 *
 *	MOMENT=start	the library is loaded
 *	MOMENT=stdio	the first socket changes the C library's table
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OURS __attribute__((visibility("default")))

struct other {
	pthread_t thread;
	int tid;       /* atomic */
	bool returned; /* atomic */
};

static bool in_main;
static struct other other;

static void *make_socket(void *arg)
{
	__atomic_store_n(&other.tid, gettid(), __ATOMIC_RELEASE);
	close(socket(AF_INET, SOCK_STREAM, 0));
	__atomic_store_n(&other.returned, true, __ATOMIC_RELEASE);
	return arg;
}

static bool is_asleep(void)
{
	char path[64], state = 'R';
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", other.tid);
	stat = fopen(path, "r");
	if (stat && fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
		state = 'R';
	if (stat)
		fclose(stat);
	return state == 'S';
}

static bool has_returned(void)
{
	return __atomic_load_n(&other.returned, __ATOMIC_ACQUIRE);
}

/* Until the thread has returned from the call or sleeps there. */
static void cut_in(const char *moment)
{
	const char *chosen = getenv("MOMENT");

	if (other.thread || !chosen || strcmp(chosen, moment) != 0)
		return;
	if (pthread_create(&other.thread, NULL, make_socket, NULL))
		abort();
	while (!__atomic_load_n(&other.tid, __ATOMIC_ACQUIRE))
		sched_yield();
	while (!has_returned() && !is_asleep())
		sched_yield();
	printf("%s: the other thread %s\n", moment, has_returned() ? "went on" : "waits");
}

/* Called for a variable of the library's own, before it starts. */
OURS char *secure_getenv(const char *name)
{
	if (strstr(name, "VMA_"))
		cut_in("start");
	return getenv(name);
}

/* Called when the first socket makes the library change the table of stdio. */
OURS long sysconf(int name)
{
	long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");

	if (in_main)
		cut_in("stdio");
	return real(name);
}

int main(void)
{
	in_main = true;
	close(socket(AF_INET, SOCK_STREAM, 0));
	if (!other.thread)
		puts("the moment did not come");
	else
		pthread_join(other.thread, NULL);
	return 0;
}
