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
#include "base/mem.h"
#include "base/signals.h"
#include "base/sys.h"
#include "intercept/process/relay.h"
#include "intercept/wrap.h"
#include "sock/move/kernel_pair.h"
#include "sock/move/repair.h"
#include "sock/share/exec_local.h"
#include "sock/share/pass_local.h"

/* A connection that the relay is to have. */
struct passed {
	int packed; /* for pass_local_take() */
	int kernel; /* the relay's end of the kernel's connection */
	sa_family_t family;
};

/* What both processes have. */
struct start {
	struct passed *all;
	unsigned n;
	int ready[2]; /* a pipe */
};

static bool close_others(const struct start *s)
{
	int *keep = mem_alloc((2 * s->n + 1) * sizeof(*keep));

	if (!keep)
		return false;
	for (unsigned i = 0; i < s->n; i++) {
		keep[2 * i] = s->all[i].packed;
		keep[2 * i + 1] = s->all[i].kernel;
	}
	keep[2 * s->n] = s->ready[1];
	relay_close_others(keep, 2 * s->n + 1);
	mem_free(keep);
	return true;
}

/* Consumes its descriptors.  False: the connection is lost. */
static bool take(const struct passed *r, struct relay_pair *pair)
{
	struct sock_ref ref = {NULL, 0};
	int fd = sys_socket(r->family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		ref = pass_local_take(fd, r->packed);
	else
		close(r->packed);
	*pair = (struct relay_pair){.local = fd, .kernel = r->kernel};
	if (ref.sk && fd_install(fd, ref))
		return true;
	sys_close_fd(&fd);
	close(r->kernel);
	return false;
}

static void be_relay(void *arg)
{
	struct start *s = arg;
	struct relay_pair *pairs = mem_alloc(s->n * sizeof(*pairs));
	unsigned n = 0;

	relay_begin();
	if (!pairs || !close_others(s))
		return;
	for (unsigned i = 0; i < s->n; i++)
		n += take(&s->all[i], &pairs[n]);
	if (n)
		relay_run(pairs, n, s->ready[1]);
}

/* The relay has the connections; or there is none. */
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

static bool relay(const struct local_pass *p)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	struct passed one = {.packed = p->packed, .family = p->name.sa.sa_family};
	struct start s = {.all = &one, .n = 1};
	bool good;

	one.kernel = kernel_pair_join(p->twin, &p->name, &p->peer);
	if (one.kernel < 0) {
		log_debug("no connection of the kernel to a relay: %s",
			  strerrordesc_np(-one.kernel));
		return false;
	}
	fd_fresh(one.kernel);
	repair_completions(p->twin, p->completions);
	if (p->how >= 0)
		sys_shutdown(p->twin, p->how);
	good = start_relay(&s);
	close(one.kernel);
	if (!good)
		sys_connect(p->twin, &nobody, sizeof(nobody));
	return good;
}

static int pass(struct sock_ref ref)
{
	struct local_pass p;
	int rc = pass_local_begin(ref, &p);
	bool good;

	if (rc)
		return rc;
	fd_fresh(p.packed);
	fd_fresh(p.twin);
	good = relay(&p);
	pass_local_end(&p, good);
	close(p.packed);
	close(p.twin);
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

		if (ref.sk && exec_local_is_shared(ref, !exec_closes(fd)))
			(void)relay_pass(fd);
	}
}

/* ---- connections that wait for accept() -------------------------------------------------------- */

/* A connection that cannot go on is reset. */
static void add_waiting(struct start *s, const struct local_waiting *w)
{
	struct passed *more = mem_realloc(s->all, (s->n + 1) * sizeof(*more));
	int kernel = more ? kernel_pair_connect(&w->peer, &w->name) : -ENOMEM;

	fd_fresh(w->packed);
	if (more)
		s->all = more;
	if (kernel < 0) {
		log_debug("a connection that nobody accepted is lost: %s",
			  strerrordesc_np(-kernel));
		close(w->packed);
		return;
	}
	s->all[s->n++] = (struct passed){w->packed, fd_fresh(kernel), w->name.sa.sa_family};
}

void relay_waiting(void)
{
	struct start s = {.all = NULL};
	struct local_waiting w;
	bool good;

	signals_block();
	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct sock_ref ref = sock_get(fd);

		if (!ref.sk || exec_closes(fd))
			continue;
		while (exec_local_take_waiting(ref, &w))
			add_waiting(&s, &w);
	}
	good = s.n && start_relay(&s);
	signals_unblock();
	for (unsigned i = 0; i < s.n; i++) {
		close(s.all[i].packed);
		close(s.all[i].kernel);
	}
	if (good)
		log_info(
			"%u connections through shared memory (VMA_LOCAL) that nobody has accepted "
			"wait for the program that is executed: another process relays them",
			s.n);
	mem_free(s.all);
}
