/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit of locked memory (RLIMIT_MEMLOCK).  BPF maps count against it before Linux 5.11, and
 * packet buffers if the process lacks CAP_IPC_LOCK.  The kernel checks the limit only when they
 * are made, so a higher limit is needed for a moment only.
 *
 * The limit belongs to the process: other threads see the higher one for some 10 ms, and a program
 * that they execute in that time inherits it.  (No thread forks: the caller has the control lock.)
 * If a thread sets a limit meanwhile, that limit stays.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define PROBE_LARGE (1u << 20) /* entries of at least 50 bytes: more than all maps together */

static int prlimit_memlock(const struct rlimit *to, struct rlimit *old)
{
	return (int)sys_call(SYS_prlimit64, 0, RLIMIT_MEMLOCK, to, old, 0, 0);
}

bool xdp_memlock_raise(struct xdp_memlock *m)
{
	static const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit soft;

	m->raised = false;
	if (prlimit_memlock(NULL, &m->old) || m->old.rlim_cur == RLIM_INFINITY)
		return false;
	soft = (struct rlimit){m->old.rlim_max, m->old.rlim_max};
	if (!prlimit_memlock(&all, NULL)) /* CAP_SYS_RESOURCE */
		m->now = all;
	else if (m->old.rlim_cur != m->old.rlim_max && !prlimit_memlock(&soft, NULL))
		m->now = soft;
	else
		return false;
	m->raised = true;
	return true;
}

void xdp_memlock_restore(struct xdp_memlock *m)
{
	struct rlimit now;

	if (m->raised && !prlimit_memlock(NULL, &now) && now.rlim_cur == m->now.rlim_cur &&
	    now.rlim_max == m->now.rlim_max)
		prlimit_memlock(&m->old, NULL);
	m->raised = false;
}

/*
 * 0 or -errno: can a map of this size be made?  A map of this kind is empty at first, but is
 * charged as if it were full.
 */
static int probe(unsigned entries)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);
	int fd = bpf_map_create(BPF_MAP_TYPE_LPM_TRIE, "vma_probe", 8, 4, entries, &opts);

	if (fd < 0)
		return fd;
	sys_close(fd);
	return 0;
}

bool xdp_memlock_needed(void)
{
	return probe(PROBE_LARGE) == -EPERM;
}

bool xdp_memlock_decide(bool limited, int small, int large, bool old_kernel)
{
	if (!limited)
		return false;
	/* If the limit is too low even for the small map, the kernel's version decides. */
	return small ? small == -EPERM && old_kernel : large == -EPERM;
}

static bool is_old_kernel(void)
{
	struct utsname host;
	unsigned major, minor;

	if (sys_call(SYS_uname, &host, 0, 0, 0, 0, 0) ||
	    sscanf(host.release, "%u.%u", &major, &minor) != 2)
		return false;
	return major < 5 || (major == 5 && minor < 11);
}

bool xdp_memlock_is_cause(void)
{
	struct rlimit now;

	return !prlimit_memlock(NULL, &now) &&
	       xdp_memlock_decide(now.rlim_cur != RLIM_INFINITY, probe(1), probe(PROBE_LARGE),
				  is_old_kernel());
}
