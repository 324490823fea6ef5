/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit of locked memory (RLIMIT_MEMLOCK), which BPF maps count against before Linux 5.11,
 * and packet buffers without CAP_IPC_LOCK.  Both are charged when they are made and never
 * looked at again, so a higher limit is needed for a moment only.
 *
 * The limit is the process's: other threads see the higher one for some 10 ms, as would a
 * program that they execute just then.  (Nobody forks: the caller holds the control lock.)
 * Where one of them sets a limit meanwhile, that one stays.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define PROBE_LARGE (1u << 20) /* entries, of 50 bytes at least: more than all maps together */

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
 * Can a map be made that counts for so many entries?  This kind is empty at first, and
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
	/* With a limit of nothing the small one tells nothing. */
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
