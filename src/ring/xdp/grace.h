/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for an RCU grace period of the kernel.  When grace_wait() returns, every XDP program
 * that was running at the call has ended, and the frames it redirected are in their rings (an
 * XDP program and the flush after it run in one softirq, which is one read-side section).
 *
 * A process can wait in two ways.  membarrier(MEMBARRIER_CMD_GLOBAL) calls synchronize_rcu();
 * kernels with nohz_full refuse it, and seccomp filters may.  (The expedited commands of
 * membarrier(2) do not help: they interrupt the threads of processes and wait for no softirq.)
 * The other way is an update of a map of maps: bpf(2) waits for a grace period before it
 * returns, so that no program still uses the inner map that was replaced (since Linux 4.20,
 * maybe_wait_bpf_programs()).
 *
 * Role		grace_wait(): any.  grace_init(), grace_fini(): the owner.
 * Progress	grace_wait() blocks for about 10 ms.
 */
#ifndef RING_XDP_GRACE_H
#define RING_XDP_GRACE_H

struct grace {
	int outer, inner; /* descriptors of a map of maps and its inner map; -1: membarrier(2) */
};

/* -errno of bpf(2): neither way works here, and there is nothing to undo. */
int grace_init(struct grace *grace);
void grace_fini(struct grace *grace);

/* -errno: it has not waited. */
int grace_wait(const struct grace *grace);

#endif
