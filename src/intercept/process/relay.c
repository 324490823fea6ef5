/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/relay.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/signals.h"
#include "base/sys.h"
#include "intercept/wrap.h"
#include "sock/move/kernel_pair.h"
#include "sock/share/exec_local.h"

#define START_MAX_MS 5000

/* A connection, by the first of its descriptors. */
struct relayed {
	struct sock_ref ref;
	int theirs; /* the program's end of the kernel's connection */
	struct relay_pair pair;
};

/* ---- which connections --------------------------------------------------------------- */

/* The connection at fd, if the program gets it, and it is to be relayed. */
static struct sock_ref wanted_at(int fd)
{
	struct sock_ref none = {NULL, 0}, ref = sock_get(fd);

	if (!ref.sk || sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC ||
	    !exec_local_needs_relay(ref, fd <= STDERR_FILENO))
		return none;
	return ref;
}

static struct relayed *find(struct relayed *all, unsigned n, struct sock_ref ref)
{
	for (unsigned i = 0; i < n; i++) {
		if (all[i].ref.sk == ref.sk)
			return &all[i];
	}
	return NULL;
}

/* The kernel's connection, in place of the one at fd. */
static bool connect_kernel(struct relayed *r, int fd)
{
	struct sock_addr name = {.len = sizeof(name.in6)}, peer = {.len = sizeof(peer.in6)};
	int fds[2];

	if (getsockname(fd, &name.sa, &name.len) || getpeername(fd, &peer.sa, &peer.len) ||
	    kernel_pair(&name, &peer, fds))
		return false;
	r->theirs = fd_fresh(fds[0]);
	r->pair = (struct relay_pair){.local = fd, .kernel = fd_fresh(fds[1])};
	exec_local_copy_options(r->ref, r->theirs);
	sys_fcntl(r->theirs, F_SETFL, fcntl(fd, F_GETFL));
	return true;
}

/* Those that are to be relayed, each once; room for max. */
static unsigned collect(struct relayed *all, unsigned max)
{
	unsigned n = 0;

	for (int fd = fd_next(0); fd >= 0 && n < max; fd = fd_next(fd + 1)) {
		struct sock_ref ref = wanted_at(fd);

		all[n].ref = ref;
		if (ref.sk && !find(all, n, ref) && connect_kernel(&all[n], fd))
			n++;
	}
	return n;
}

static unsigned count(void)
{
	unsigned n = 0;

	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1))
		n += wanted_at(fd).sk != NULL;
	return n;
}

/* ---- the relay ------------------------------------------------------------------------- */

static int lowest_kept(const struct relay_pair *pairs, unsigned n, int ready, int from)
{
	int lowest = ready >= from ? ready : INT_MAX;

	for (unsigned i = 0; i < n; i++) {
		if (pairs[i].local >= from && pairs[i].local < lowest)
			lowest = pairs[i].local;
		if (pairs[i].kernel >= from && pairs[i].kernel < lowest)
			lowest = pairs[i].kernel;
	}
	return lowest;
}

/* Whoever waits for the end of what this process had open is not to wait for the relay. */
static void close_others(const struct relay_pair *pairs, unsigned n, int ready)
{
	int from = 0, kept;

	do {
		kept = lowest_kept(pairs, n, ready, from);
		if (kept > from)
			close_range((unsigned)from, kept == INT_MAX ? UINT_MAX : (unsigned)kept - 1,
				    0);
		from = kept + 1;
	} while (kept != INT_MAX);
	do
		kept = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (kept >= 0 && kept < STDERR_FILENO);
	if (kept > STDERR_FILENO)
		close(kept);
}

/* Does this process have the connections now? */
static bool fetch(const struct relay_pair *pairs, unsigned n)
{
	int unread;

	for (unsigned i = 0; i < n; i++) {
		if (ioctl(pairs[i].local, FIONREAD, &unread))
			return false;
	}
	return true;
}

/* Signals are meant for the program. */
static void block_signals(void)
{
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

static __attribute__((noreturn)) void be_relay(struct relay_pair *pairs, unsigned n, int ready)
{
	block_signals();
	setsid();
	prctl(PR_SET_NAME, "vma-relay");
	close_others(pairs, n, ready);
	params.select_poll = 0; /* it leaves the processors to others */
	if (fetch(pairs, n) && write(ready, "", 1) == 1) {
		close(ready);
		relay_run(pairs, n);
	}
	_exit(0);
}

/* ---- its start ------------------------------------------------------------------------- */

/* A byte, if it is ready; the end of the file, if it has ended. */
static bool await_relay(int ready)
{
	struct pollfd fd = {.fd = ready, .events = POLLIN};
	char byte;

	return libc.poll(&fd, 1, START_MAX_MS) == 1 && read(ready, &byte, 1) == 1;
}

/*
 * Forked by a child that ends at once, so that the program that is executed has no child that it does
 * not know. That child has the connections until the relay has them. Signals are blocked in all three
 * processes: the program's handlers would run in each.
 */
static bool fork_relay(struct relay_pair *pairs, unsigned n)
{
	struct pollfd fd = {.events = POLLIN};
	int ready[2];
	bool good;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return false;
	pid = fork();
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			be_relay(pairs, n, ready[1]);
		close(ready[1]);
		fd.fd = ready[0];
		if (pid > 0)
			libc.poll(&fd, 1, START_MAX_MS);
		_exit(0);
	}
	close(ready[1]);
	good = pid > 0 && await_relay(ready[0]);
	close(ready[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return good;
}

/* Each descriptor of a connection becomes one of the kernel's. */
static void replace(struct relayed *all, unsigned n)
{
	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct sock_ref ref = sock_get(fd);
		const struct relayed *r = ref.sk ? find(all, n, ref) : NULL;
		int flags = sys_fcntl(fd, F_GETFD, 0);

		if (r)
			dup3(r->theirs, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	}
}

static bool start_for(struct relayed *all, struct relay_pair *pairs, unsigned n)
{
	bool good;

	for (unsigned i = 0; i < n; i++)
		pairs[i] = all[i].pair;
	good = fork_relay(pairs, n);
	if (good)
		replace(all, n);
	for (unsigned i = 0; i < n; i++) {
		close(all[i].theirs);
		close(all[i].pair.kernel);
	}
	return good;
}

void relay_start(void)
{
	unsigned max = count(), n = 0;
	struct relayed *all = max ? mem_zalloc(max * sizeof(*all)) : NULL;
	struct relay_pair *pairs = max ? mem_zalloc(max * sizeof(*pairs)) : NULL;

	signals_block(); /* no call is interrupted */
	if (all && pairs)
		n = collect(all, max);
	if (n && !start_for(all, pairs, n))
		n = 0;
	signals_unblock();
	if (n)
		log_info("The program that is executed cannot use %u connections through shared "
			 "memory (VMA_LOCAL): another process relays them",
			 n);
	mem_free(pairs);
	mem_free(all);
}
