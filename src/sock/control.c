/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>

#include "base/signals.h"
#include "sock/sock_internal.h"

static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;

bool control_lock(void)
{
	if (hold_current)
		return false;
	signals_block();
	pthread_mutex_lock(&control);
	return true;
}

bool control_trylock(void)
{
	if (hold_current)
		return false;
	signals_block();
	if (!pthread_mutex_trylock(&control))
		return true;
	signals_unblock();
	return false;
}

void control_unlock(void)
{
	pthread_mutex_unlock(&control);
	signals_unblock();
}

void control_fork_prepare(void)
{
	pthread_mutex_lock(&control); /* intercept has the signals blocked */
}

void control_fork_parent(void)
{
	pthread_mutex_unlock(&control);
}

void control_fork_child(void)
{
	pthread_mutex_init(&control, NULL);
}
