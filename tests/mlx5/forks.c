/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forks while another thread gives the card commands; each child opens the card.  Fails when a child
 * does not end.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mlx5/stock.h"

#define CHILDREN 100
#define PATIENCE 20 /* seconds */

static struct ibv_device *device;

static void *command(void *arg)
{
	struct ibv_port_attr port;

	for (;;)
		stock_check(!ibv_query_port(arg, 1, &port), "query_port");
	return NULL;
}

static int child(void)
{
	struct ibv_context *context;

	alarm(PATIENCE);
	context = ibv_open_device(device);
	return !context || ibv_close_device(context);
}

int main(void)
{
	struct ibv_context *context;
	pthread_t thread;
	int status;

	device = ibv_get_device_list(NULL)[0];
	context = device ? ibv_open_device(device) : NULL;
	stock_check(context, "open_device");
	stock_check(!pthread_create(&thread, NULL, command, context), "thread");
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(child());
		stock_check(pid > 0 && waitpid(pid, &status, 0) == pid, "fork");
		if (status) {
			printf("child %d: status %#x\n", i, (unsigned)status);
			return 1;
		}
	}
	return 0;
}
