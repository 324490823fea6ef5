/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/pass_local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/core/sock_options.h"
#include "sock/local/local.h"
#include "sock/local/local_sock.h"
#include "sock/share/exec_local.h"
#include "sock/share/share_internal.h"

#define TRIES 10 /* another process may fetch it again before it is packed */
#define FETCH_MAX NSEC_PER_SEC

/* ---- in the process that sends it -------------------------------------------------------- */

static int shut_of(const struct inet_sock *so)
{
	if (so->shut_rd)
		return so->shut_wr ? SHUT_RDWR : SHUT_RD;
	return so->shut_wr ? SHUT_WR : -1;
}

/* Control lock */
static int pack(struct inet_sock *so, struct local_pass *pass)
{
	struct shared *s;
	int rc;

	control_assert_held();
	share_init();
	if (!local_available() || so->verdict != VERDICT_LOCAL)
		return -EREMOTE;
	if (sock_is_exported(&so->sk))
		return -EAGAIN;
	if (!share_may_export(so))
		return -EREMOTE; /* it is not established */
	sock_twin_prepare(so);
	s = share_of(so);
	rc = s ? shared_pack(share_sink(), s) : -ENOMEM;
	if (rc)
		return rc;
	*pass = (struct local_pass){
		.id = so->id,
		.packed = sys_fcntl(so->sharing->memfd, F_DUPFD_CLOEXEC, 0),
		.twin = sys_fcntl(sock_twin(&so->sk), F_DUPFD_CLOEXEC, 0),
		.how = shut_of(so),
		.name = sock_addr_of(so, &so->local),
		.peer = sock_addr_of(so, &so->remote),
		.completions = sock_error_queue(so),
	};
	so->sharing->passed = pass->packed >= 0 && pass->twin >= 0;
	if (so->sharing->passed)
		return 0;
	sys_close_fd(&pass->packed);
	sys_close_fd(&pass->twin);
	shared_unpack(share_sink(), s);
	return -EMFILE;
}

int pass_local_begin(struct sock_ref ref, struct local_pass *pass)
{
	int rc = -EAGAIN;

	for (unsigned i = 0; rc == -EAGAIN && i < TRIES; i++) {
		rc = share_fetch(ref, FETCH_MAX);
		if (rc)
			return rc;
		if (!control_lock())
			return -EAGAIN;
		rc = sock_ref_valid(ref) ? pack(inet_of(ref.sk), pass) : -EREMOTE;
		control_unlock();
	}
	return rc;
}

/* Control lock: as for those that another process has left to the kernel. */
static void leave(struct inet_sock *so)
{
	struct shared *s = share_of(so);

	control_assert_held();
	sys_close_fd(&so->sharing->memfd);
	if (s->closed) {
		shared_left(share_sink(), s, true);
		shared_drop(share_sink(), s);
	} else {
		(void)sock_leave_exported(so, VERDICT_PASSED);
	}
	share_wake_waiters();
}

void pass_local_end(const struct local_pass *pass, bool relayed)
{
	struct inet_sock *so;

	if (!control_lock())
		return;
	so = share_find(pass->id);
	if (so && so->sharing && so->sharing->passed && shared_is_packed(&so->sharing->shared)) {
		so->sharing->passed = false;
		if (relayed) {
			pass_mark_remove(pass->twin);
			leave(so);
		} else {
			shared_unpack(share_sink(), &so->sharing->shared);
		}
	}
	control_unlock();
}

/* ---- in the relay -------------------------------------------------------------------------- */

struct sock_ref pass_local_take(int fd, int packed)
{
	struct sock_ref none = {NULL, 0}, ref = exec_local_add(fd, packed);

	if (!ref.sk) {
		sys_close(packed);
		return none;
	}
	exec_local_done();
	return exec_local_is_one(ref) ? ref : none;
}
