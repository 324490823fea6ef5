/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/spin.h"

#include <pthread.h>

#include "base/sys.h"

__thread nsec_t spin_shared_until __attribute__((tls_model("initial-exec")));

void spin_yield(struct spin *spin)
{
	nsec_t before = clock_now(), now;

	sys_sched_yield();
	now = clock_now();
	if (now - before > SPIN_TURN) {
		spin_shared_until = now + SPIN_SHARED;
		spin->lost += now - before;
	}
	if (now - before > SPIN_GAP)
		spin->late = true;
	/* The time of other threads is not a gap. */
	spin->last = now;
}

void spin_cancellable(void)
{
	pthread_testcancel();
}
