/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/rights.h"

#include <limits.h>
#include <string.h>

#include "base/log.h"
#include "base/user.h"
#include "intercept/process/relay.h"
#include "intercept/wrap.h"
#include "sock/share/pass.h"

#define FDS_MAX 253    /* the kernel's limit for one message */
#define SCM_PIDFD 0x04 /* carries a descriptor, too; not in older headers */

#define TRIES 3
#define ENTRY_MIN sizeof(struct cmsghdr)

static void warn_once(int fd, const char *why)
{
	static int warned; /* any, atomic */

	if (__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
		return;
	log_box(LOG_WARNING,
		"Descriptor %d is not sent to another process (SCM_RIGHTS).\n"
		"The kernel does not know what is in this process: %s.\n"
		"The receiver could not use the socket: sendmsg() fails with EOPNOTSUPP.\n"
		"A child that is forked now can use it; otherwise run the program\n"
		"with VMA_OFFLOADED_SOCKETS=0, or without the library.",
		fd, why);
}

/*
 * Prepares one descriptor. 0 or -errno. EOPNOTSUPP, because this is permanent and the
 * socket that sends works: programs would repeat the call for EAGAIN, EPERM and EINVAL are
 * about credentials and malformed messages, and EBADF is about errors of the program.
 */
static int prepare_fd(int fd, int unix_fd, struct rights *rights)
{
	struct sock_ref ref = sock_get(fd);
	int rc;

	if (!ref.sk)
		return 0;
	rc = fork_is_vfork_child() ? -EBUSY : sock_pass(ref, unix_fd, rights->ticket);
	if (rc == -EREMOTE)
		rc = relay_pass(fd);
	if (rc == -EREMOTE)
		warn_once(
			fd,
			"a connection; and a process that could\n"
			"receive it is without this library, of another user, or on another network");
	else if (rc == -EBUSY)
		warn_once(fd, "unread datagrams,\n"
			      "or a socket that other processes hold since a fork()");
	else if (rc > 0)
		rights->pending = true;
	if (rc == -EREMOTE || rc == -EBUSY)
		return -EOPNOTSUPP;
	return rc < 0 ? rc : 0;
}

static int prepare_fds(const char *data, size_t bytes, int unix_fd, struct rights *rights)
{
	size_t n = bytes / sizeof(int);
	int fds[FDS_MAX], rc = 0;

	if (n > FDS_MAX || user_read(fds, data, n * sizeof(int)))
		return 0; /* the kernel will refuse it */
	for (size_t i = 0; i < n && !rc; i++)
		rc = prepare_fd(fds[i], unix_fd, rights);
	return rc;
}

/*
 * Prepares all descriptors of a message. If the kernel refuses the message then, sockets
 * may have fallen back to the kernel for nothing.
 */
static __attribute__((noinline, cold)) int prepare(int unix_fd, const struct msghdr *msg,
						   struct rights *rights)
{
	const char *at = msg->msg_control;
	size_t left = msg->msg_controllen;
	int saved = errno, rc = 0;

	if (msg->msg_name && msg->msg_namelen)
		unix_fd = -1; /* sent to an address: the receiver is unknown */
	while (!rc && left >= ENTRY_MIN && left <= INT_MAX) {
		struct cmsghdr entry;
		size_t step;

		if (user_read(&entry, at, sizeof(entry)) || entry.cmsg_len < ENTRY_MIN ||
		    entry.cmsg_len > left)
			break;
		if (entry.cmsg_level == SOL_SOCKET && entry.cmsg_type == SCM_RIGHTS)
			rc = prepare_fds(at + CMSG_LEN(0), entry.cmsg_len - CMSG_LEN(0), unix_fd,
					 rights);
		step = CMSG_ALIGN(entry.cmsg_len);
		if (step >= left)
			break;
		at += step;
		left -= step;
	}
	if (rc && rights->pending)
		pass_done(rights->ticket, false);
	errno = saved;
	return rc;
}

static int prepare_one(int unix_fd, const struct msghdr *msg, struct rights *rights)
{
	return rights_possible(msg) && msg->msg_control ? prepare(unix_fd, msg, rights) : 0;
}

int rights_prepare(int unix_fd, const struct msghdr *msg, struct rights *rights)
{
	*rights = (struct rights){.ticket = pass_ticket(1), .n = 1};
	return prepare_one(unix_fd, msg, rights);
}

int rights_prepare_many(int unix_fd, const struct mmsghdr *msgs, unsigned n, struct rights *rights)
{
	bool pending = false;
	uint64_t first = pass_ticket(n);
	unsigned i;
	int rc = 0;

	for (i = 0; i < n && !rc; i++) {
		*rights = (struct rights){.ticket = first + i};
		rc = prepare_one(unix_fd, &msgs[i].msg_hdr, rights);
		pending |= rights->pending;
	}
	if (rc)
		i--;
	*rights = (struct rights){.ticket = first, .n = i, .pending = pending};
	return i || !rc ? (int)i : rc;
}

void rights_end(const struct rights *rights, long sent)
{
	int saved = errno;

	for (unsigned i = 0; i < rights->n; i++)
		pass_done(rights->ticket + i, (long)i < sent);
	errno = saved;
}

/* Takes a received descriptor over, if it is a socket of ours. */
static void take_fd(int fd, bool peek)
{
	struct sock_ref ref;

	fd_fresh(fd);
	for (int i = 0; i < TRIES && !fork_is_vfork_child(); i++) {
		int twin;

		ref = pass_take(fd, peek);
		if (!ref.sk)
			return;
		twin = sock_twin(ref.sk);
		/*
		 * The twin may have been closed meanwhile: then another try finds the
		 * socket otherwise.
		 */
		if (twin == fd ? fd_install(fd, ref) : fd_install_dup(fd, twin, ref))
			return;
	}
}

void rights_received(const struct msghdr *msg, int flags)
{
	int saved = errno;

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
			take_fd(fd, flags & MSG_PEEK);
		}
	}
	errno = saved;
}
