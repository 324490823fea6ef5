/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/quick.h"

#include <ck_pr.h>

#include "base/clock.h"
#include "base/param.h"
#include "sock/wait/spin.h"

__thread bool quick_nothing __attribute__((tls_model("initial-exec")));

static unsigned most_looks(void)
{
	if (params.rx_poll_yield)
		return 0;
	return params.rx_poll < 0 || params.rx_poll > (int)QUICK_LOOKS ? QUICK_LOOKS
								       : (unsigned)params.rx_poll;
}

bool quick_looks(struct sock_ref ref, int flags, unsigned looks)
{
	const struct sock *sk = ref.sk;

	/* What another thread changes in the meantime is seen by the other way, some looks later. */
	if ((flags & MSG_DONTWAIT) || __atomic_load_n(&sk->nonblock, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&inet_of(ref.sk)->n_rings, __ATOMIC_RELAXED) > 1 ||
	    __atomic_load_n(&sk->twin_events, __ATOMIC_RELAXED) || looks >= most_looks() ||
	    (!looks && clock_now() < spin_shared_until))
		return false;
	if (looks)
		ck_pr_stall();
	return true;
}
