/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for an RCU grace period of the kernel: when grace_wait() returns, every
 * XDP program that was running when it was called has ended, and what it redirected
 * is in its ring (an XDP program and the flush after it run in one softirq, which
 * counts as one read section).
 *
 * Linux has two ways for a program.  membarrier(MEMBARRIER_CMD_GLOBAL) is
 * synchronize_rcu(); kernels with nohz_full refuse it, seccomp filters may.  The
 * expedited commands of membarrier(2) are no substitute: they send interrupts to
 * the threads of processes, and wait for no softirq.  The other one: bpf(2) waits
 * for a grace period before an update of a map of maps returns, so that who made
 * it knows that no program uses the map that was there before (since Linux 4.20,
 * maybe_wait_bpf_programs()).
 *
 * Role		any; grace_init() and grace_fini(): whose it is.
 * Progress	grace_wait() sleeps, for some 10 ms.
 */
#ifndef RING_GRACE_H
#define RING_GRACE_H

struct grace {
	int outer, inner; /* a map of maps, and the one in it; -1: membarrier(2) does it */
};

/* -errno: there is no way here (see bpf(2)), and nothing to undo. */
int grace_init(struct grace *grace);
void grace_fini(struct grace *grace);

/* -errno: it was not waited. */
int grace_wait(const struct grace *grace);

#endif
