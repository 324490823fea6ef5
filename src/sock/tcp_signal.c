/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGURG, socket(7): the kernel never sees our urgent data, so we send the signal
 * to whom the program chose with F_SETOWN, which the twin knows.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "base/sys.h"
#include "sock/tcp_internal.h"

/*
 * Whom this thread will signal.  Not while it holds a ring: the handler may well run
 * on this thread, and wants to read the byte.
 */
#define OWNERS 8
static __thread struct {
	unsigned n;
	struct f_owner_ex to[OWNERS];
} due __attribute__((tls_model("initial-exec")));

static void signal_owner(const struct f_owner_ex *owner)
{
	if (owner->type == F_OWNER_TID)
		sys_call(SYS_tkill, owner->pid, SIGURG, 0, 0, 0, 0);
	else
		sys_call(SYS_kill, owner->type == F_OWNER_PGRP ? -owner->pid : owner->pid, SIGURG,
			 0, 0, 0, 0);
}

static void signal_all(void)
{
	/* A copy: the first handler may run, and note others, before the second is sent. */
	struct f_owner_ex to[OWNERS];
	unsigned n = due.n;

	memcpy(to, due.to, n * sizeof(*to));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	due.n = 0;
	for (unsigned i = 0; i < n; i++)
		signal_owner(&to[i]);
}

void tcp_signals_forget(void)
{
	due.n = 0;
}

void tcp_signal_urgent(struct inet_sock *so)
{
	struct f_owner_ex owner = {F_OWNER_PID, 0};
	int twin = sock_twin(&so->sk);

	if (twin < 0 || sys_call(SYS_fcntl, twin, F_GETOWN_EX, &owner, 0, 0, 0) || owner.pid == 0)
		return;
	if (due.n == OWNERS)
		return; /* in one burst: enough was announced */
	due.to[due.n++] = owner;
	ring_run_afterwards(signal_all);
}
