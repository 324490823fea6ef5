/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/light.h"

#include <linux/futex.h>
#include <stddef.h>

#include "base/sys.h"

/* Takes it when it is free. */
void light_wait(struct light_mutex *mutex)
{
	/* acquire: pairs with light_unlock() */
	while (__atomic_exchange_n(&mutex->state, LIGHT_WANTED, __ATOMIC_ACQUIRE) != LIGHT_FREE)
		sys_call(SYS_futex, &mutex->state, FUTEX_WAIT_PRIVATE, LIGHT_WANTED, NULL, 0, 0);
}

void light_wake(struct light_mutex *mutex)
{
	sys_call(SYS_futex, &mutex->state, FUTEX_WAKE_PRIVATE, 1, NULL, 0, 0);
}
