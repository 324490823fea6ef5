/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mark of a twin that was sent: a socket filter that does nothing, since a twin
 * receives no segment. Its constants tell at which address the senders listen. Only a
 * process that got the twin from the kernel can read them.
 */
#include <linux/filter.h>
#include <string.h>

#include "base/sys.h"
#include "sock/share/share_internal.h"

#define MAGIC 0x766d6170u
#define MARK_LEN 5

static void write_mark(struct sock_filter to[MARK_LEN], const struct pass_mark *mark)
{
	const struct sock_filter filter[MARK_LEN] = {
		BPF_STMT(BPF_LD | BPF_IMM, MAGIC),
		BPF_STMT(BPF_LD | BPF_IMM, (uint32_t)(mark->key >> 32)),
		BPF_STMT(BPF_LD | BPF_IMM, (uint32_t)mark->key),
		BPF_STMT(BPF_LD | BPF_IMM, mark->first),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};

	memcpy(to, filter, sizeof(filter));
}

bool pass_mark_get(int fd, struct pass_mark *mark)
{
	struct sock_filter found[MARK_LEN], same[MARK_LEN];
	socklen_t len = MARK_LEN;

	if (sys_getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, found, &len) || len != MARK_LEN)
		return false;
	mark->key = (uint64_t)found[1].k << 32 | found[2].k;
	mark->first = found[3].k;
	write_mark(same, mark);
	return !memcmp(found, same, sizeof(same));
}

bool pass_mark_set(int fd, const struct pass_mark *mark)
{
	struct sock_filter filter[MARK_LEN];
	struct sock_fprog prog = {.len = MARK_LEN, .filter = filter};

	write_mark(filter, mark);
	return !sys_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

void pass_mark_remove(int fd)
{
	const int none = 0;
	struct pass_mark mark;

	if (pass_mark_get(fd, &mark))
		sys_setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
}
