/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/control.h"

#include "base/mutex.h"
#include "base/image/sections.h"

static pthread_mutex_t control EARLY_DATA = PTHREAD_MUTEX_INITIALIZER;
static __thread bool mine __attribute__((tls_model("initial-exec")));

bool control_lock(void)
{
	if (hold_current)
		return false;
	mutex_lock(&control);
	mine = true;
	return true;
}

bool control_trylock(void)
{
	if (hold_current || !mutex_trylock(&control))
		return false;
	mine = true;
	return true;
}

void control_unlock(void)
{
	mine = false;
	mutex_unlock(&control);
}

EARLY_CODE void control_fork_prepare(void)
{
	mutex_lock_blocked(&control); /* intercept has blocked signals */
	mine = true;
}

void control_fork_child(void)
{
	pthread_mutex_init(&control, NULL);
	mutex_lock_blocked(&control);
	mine = true; /* the parent's thread had not taken it, if it called clone(2) itself */
}

EARLY_CODE void control_fork_done(void)
{
	mine = false;
	mutex_unlock_blocked(&control);
}

bool control_is_held(void)
{
	return mine;
}
