/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/rights.h"

#include <limits.h>
#include <string.h>

#include "base/log.h"
#include "base/user.h"
#include "intercept/wrap.h"

#define FDS_MAX 253    /* the kernel refuses more in one message */
#define SCM_PIDFD 0x04 /* a descriptor, too; not in older headers */

#define ENTRY_MIN sizeof(struct cmsghdr)

static void warn(int fd)
{
	static int warned; /* any, atomic */

	if (__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
		return;
	log_box(LOG_WARNING,
		"Descriptor %d is not sent to another process (SCM_RIGHTS).\n"
		"What it has is in this process and unknown to the kernel: a connection, or what\n"
		"waits to be accepted or received, or other processes have it since a fork().\n"
		"The receiver would find a dead socket: sendmsg() fails with EOPNOTSUPP.\n"
		"A child that is forked once it exists can use it; else run the program\n"
		"with VMA_OFFLOADED_SOCKETS=0, or without the library.",
		fd);
}

/*
 * EOPNOTSUPP: it stays like that, and the way to the receiver is as good as ever. EAGAIN
 * would be tried again for ever, EPERM and EINVAL are said of credentials and of malformed
 * messages, and EBADF of programs that are wrong.
 */
static int prepare_fd(int fd)
{
	struct sock_ref ref = sock_get(fd);
	int rc;

	if (!ref.sk)
		return 0;
	rc = fork_is_vfork_child() ? -EBUSY : sock_pass(ref);
	if (rc != -EBUSY)
		return rc;
	warn(fd);
	return -EOPNOTSUPP;
}

static int prepare_fds(const char *data, size_t bytes)
{
	size_t n = bytes / sizeof(int);
	int fds[FDS_MAX], rc = 0;

	if (n > FDS_MAX || user_read(fds, data, n * sizeof(int)))
		return 0; /* so the kernel does not send it */
	for (size_t i = 0; i < n && !rc; i++)
		rc = prepare_fd(fds[i]);
	return rc;
}

/* What the kernel refuses may leave sockets to it that were not sent after all. */
static __attribute__((noinline, cold)) int prepare(const struct msghdr *msg)
{
	const char *at = msg->msg_control;
	size_t left = msg->msg_controllen;
	int saved = errno, rc = 0;

	while (!rc && left >= ENTRY_MIN && left <= INT_MAX) {
		struct cmsghdr entry;
		size_t step;

		if (user_read(&entry, at, sizeof(entry)) || entry.cmsg_len < ENTRY_MIN ||
		    entry.cmsg_len > left)
			break;
		if (entry.cmsg_level == SOL_SOCKET && entry.cmsg_type == SCM_RIGHTS)
			rc = prepare_fds(at + CMSG_LEN(0), entry.cmsg_len - CMSG_LEN(0));
		step = CMSG_ALIGN(entry.cmsg_len);
		if (step >= left)
			break;
		at += step;
		left -= step;
	}
	errno = saved;
	return rc;
}

int rights_prepare(const struct msghdr *msg)
{
	return mem_is_place(msg->msg_control) ? prepare(msg) : 0;
}

int rights_prepare_many(const struct mmsghdr *msgs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int rc = rights_possible(&msgs[i].msg_hdr) ? rights_prepare(&msgs[i].msg_hdr) : 0;

		if (rc)
			return i ? (int)i : rc;
	}
	return (int)n;
}

void rights_received(const struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)msg, c)) {
		const unsigned char *data = CMSG_DATA(c);
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fd;

		if (c->cmsg_level != SOL_SOCKET ||
		    (c->cmsg_type != SCM_RIGHTS && c->cmsg_type != SCM_PIDFD))
			continue;
		for (size_t i = 0; i < n; i++) {
			memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
			fd_fresh(fd);
		}
	}
}
