/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Relays of connections that other processes hold, too, or that are sent by SCM_RIGHTS; see
 * sock/share/pass_local.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "base/sys.h"
#include "intercept/process/relay.h"
#include "intercept/wrap.h"
#include "sock/move/kernel_pair.h"
#include "sock/share/exec_local.h"
#include "sock/share/pass_local.h"

/* What both processes have. */
struct start {
	struct local_pass pass;
	int kernel;   /* the relay's end of the kernel's connection */
	int ready[2]; /* a pipe */
	sa_family_t family;
};

static void be_relay(void *arg)
{
	struct start *s = arg;
	int keep[] = {s->pass.packed, s->kernel, s->ready[1]};
	struct relay_pair pair = {.kernel = s->kernel};
	struct sock_ref ref;

	relay_begin();
	relay_close_others(keep, 3);
	pair.local = sys_socket(s->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (pair.local < 0)
		return;
	ref = pass_local_take(pair.local, s->pass.packed);
	if (ref.sk && fd_install(pair.local, ref))
		relay_run(&pair, 1, s->ready[1]);
}

/* The relay has the connection; or there is none. */
static bool start_relay(struct start *s)
{
	int rc = -EAGAIN;
	pid_t pid;

	if (pipe2(s->ready, O_CLOEXEC))
		return false;
	pid = fork_detached(be_relay, s);
	close(s->ready[1]);
	if (pid > 0)
		rc = relay_await(s->ready[0]);
	/* Not one that has ended: its number may be another process's by now. */
	if (rc == -ETIMEDOUT)
		kill(pid, SIGKILL);
	close(s->ready[0]);
	return !rc;
}

static bool relay(struct start *s)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	bool good;

	s->family = s->pass.name.sa.sa_family;
	s->kernel = kernel_pair_join(s->pass.twin, &s->pass.name, &s->pass.peer);
	if (s->kernel < 0) {
		log_debug("no connection of the kernel to a relay: %s",
			  strerrordesc_np(-s->kernel));
		return false;
	}
	fd_fresh(s->kernel);
	if (s->pass.how >= 0)
		sys_shutdown(s->pass.twin, s->pass.how);
	good = start_relay(s);
	close(s->kernel);
	if (!good)
		sys_connect(s->pass.twin, &nobody, sizeof(nobody));
	return good;
}

static int pass(struct sock_ref ref)
{
	struct start s;
	int rc = pass_local_begin(ref, &s.pass);
	bool good;

	if (rc)
		return rc;
	fd_fresh(s.pass.packed);
	fd_fresh(s.pass.twin);
	good = relay(&s);
	pass_local_end(&s.pass, good);
	close(s.pass.packed);
	close(s.pass.twin);
	return good ? 0 : -EREMOTE;
}

int relay_pass(int fd)
{
	struct sock_ref ref = sock_get(fd);
	int rc, cancel;

	if (!ref.sk || !exec_local_is_one(ref))
		return -EREMOTE;
	signals_block(); /* the program's handlers would run in the relay, too */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the connection is in transit */
	rc = pass(ref);
	pthread_setcancelstate(cancel, NULL);
	signals_unblock();
	if (!rc)
		log_info("Descriptor %d, a connection through shared memory (VMA_LOCAL), is for "
			 "processes of which not all can use it: another process relays it",
			 fd);
	return rc;
}

void relay_shared(void)
{
	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct sock_ref ref = sock_get(fd);

		if (ref.sk && exec_local_is_shared(ref, !(sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC)))
			(void)relay_pass(fd);
	}
}
