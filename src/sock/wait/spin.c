/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/spin.h"

#include <pthread.h>

#include "base/sys.h"

__thread nsec_t spin_shared_until __attribute__((tls_model("initial-exec")));
__thread nsec_t spin_own_until __attribute__((tls_model("initial-exec")));
static __thread long switches_seen __attribute__((tls_model("initial-exec")));

long (*spin_switches)(void) = sys_switches;
int (*spin_give)(void) = sys_sched_yield;

/* Did another thread have the core since the last call? Yes, if the kernel does not say. */
static bool was_switched(void)
{
	long now = spin_switches(), seen = switches_seen;

	switches_seen = now;
	return now < 0 || now != seen;
}

void spin_gap(struct spin *spin, nsec_t now)
{
	spin->late = true;
	if (!was_switched())
		return;
	spin_shared_until = now + SPIN_SHARED;
	spin->lost += now - spin->last;
}

/*
 * While the core is known to be shared, a long yield is believed; the kernel is asked again before
 * that knowledge ends.
 */
void spin_yield(struct spin *spin)
{
	nsec_t before = clock_now(), now;
	bool shared = before < spin_shared_until;

	if (before < spin_own_until && !params.rx_poll_yield)
		return;
	spin_give();
	now = clock_now();
	if (now - before > SPIN_TURN) {
		if (now + SPIN_SHARED / 2 > spin_shared_until) {
			shared = was_switched();
			if (shared)
				spin_shared_until = now + SPIN_SHARED;
		}
		if (shared)
			spin->lost += now - before;
	}
	if (now - before > SPIN_GAP) {
		spin->late = true;
		spin_own_until = now + SPIN_OWN;
	}
	/* The time of other threads is not a gap. */
	spin->last = spin->given = now;
}

void spin_cancellable(void)
{
	pthread_testcancel();
}
