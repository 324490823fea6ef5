/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "base/sys.h"
#include "intercept/wrap.h"
#include "sock/move/kernel_pair.h"
#include "sock/share/exec_local.h"

/* A connection, by the first of its descriptors. */
struct relayed {
	struct sock_ref ref;
	int theirs; /* the program's end of the kernel's connection */
	struct local_way way[LOCAL_WAYS];
	struct relay_pair pair;
};

/* ---- which connections --------------------------------------------------------------- */

/* The connection at fd, if the program gets it, and it is to be relayed. */
static struct sock_ref wanted_at(int fd)
{
	struct sock_ref none = {NULL, 0}, ref = sock_get(fd);

	if (!ref.sk || exec_closes(fd) || !exec_local_needs_relay(ref, fd <= STDERR_FILENO))
		return none;
	return ref;
}

/* The connections, each once, with a table of their sockets: no look at all of them for each descriptor. */
struct table {
	struct relayed *all;
	unsigned n, max;
	unsigned *slots, mask; /* [mask + 1]: 0, or an index of all[] and 1; half of them are 0 */
};

static bool table_init(struct table *t, unsigned max)
{
	unsigned size = 2;

	while (size < 2 * max)
		size *= 2;
	*t = (struct table){.max = max, .mask = size - 1};
	t->all = mem_zalloc(max * sizeof(*t->all));
	t->slots = mem_zalloc(size * sizeof(*t->slots));
	return t->all && t->slots;
}

static void table_fini(struct table *t)
{
	mem_free(t->slots);
	mem_free(t->all);
}

/* The slot of a socket, or the free one where it belongs. */
static unsigned *slot_of(const struct table *t, struct sock_ref ref)
{
	unsigned i = (unsigned)((uintptr_t)ref.sk * 0x9e3779b97f4a7c15ull >> 32) & t->mask;

	while (t->slots[i] && t->all[t->slots[i] - 1].ref.sk != ref.sk)
		i = (i + 1) & t->mask;
	return &t->slots[i];
}

static const struct relayed *find(const struct table *t, struct sock_ref ref)
{
	unsigned slot = *slot_of(t, ref);

	return slot ? &t->all[slot - 1] : NULL;
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
	for (unsigned i = 0; i < LOCAL_WAYS; i++) {
		r->way[i] = exec_local_way(r->ref, i);
		if (r->way[i].fd >= 0) {
			fd_fresh(r->way[i].fd);
			fd_fresh(r->way[i].memory);
		}
	}
	exec_local_copy_options(r->ref, r->theirs);
	sys_fcntl(r->theirs, F_SETFL, fcntl(fd, F_GETFL));
	return true;
}

/* Those that are to be relayed. */
static void collect(struct table *t)
{
	for (int fd = fd_next(0); fd >= 0 && t->n < t->max; fd = fd_next(fd + 1)) {
		struct sock_ref ref = wanted_at(fd);
		struct relayed *next = &t->all[t->n];

		if (!ref.sk || find(t, ref))
			continue;
		next->ref = ref;
		if (connect_kernel(next, fd))
			*slot_of(t, ref) = ++t->n;
	}
}

static unsigned count(void)
{
	unsigned n = 0;

	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1))
		n += wanted_at(fd).sk != NULL;
	return n;
}

/* ---- the relay ------------------------------------------------------------------------- */

/* Whoever waits for the end of what this process had open is not to wait for the relay. */
static bool close_others(const struct relay_pair *pairs, unsigned n, int ready)
{
	int *keep = mem_alloc((2 * n + 1) * sizeof(*keep));

	if (!keep)
		return false;
	for (unsigned i = 0; i < n; i++) {
		keep[2 * i] = pairs[i].local;
		keep[2 * i + 1] = pairs[i].kernel;
	}
	keep[2 * n] = ready;
	relay_close_others(keep, 2 * n + 1);
	mem_free(keep);
	return true;
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

/* In a forked process. */
static void take_ways(const struct table *t, unsigned which)
{
	fork_adopt();
	for (unsigned i = 0; i < t->n; i++)
		exec_local_take_way(&t->all[i].way[which]);
}

static __attribute__((noreturn)) void be_relay(const struct table *t, struct relay_pair *pairs,
					       int ready)
{
	relay_begin();
	take_ways(t, 1);
	if (close_others(pairs, t->n, ready) && fetch(pairs, t->n))
		relay_run(pairs, t->n, ready);
	_exit(0);
}

/* ---- its start ------------------------------------------------------------------------- */

/*
 * Forked by a child that ends at once, so that the program that is executed has no child that it does
 * not know. That child has the connections until the relay has them. Signals are blocked in all three
 * processes: the program's handlers would run in each.
 */
static bool fork_relay(const struct table *t, struct relay_pair *pairs)
{
	struct pollfd fd = {.events = POLLIN};
	int ready[2];
	bool good;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return false;
	pid = fork();
	if (pid == 0) {
		take_ways(t, 0);
		pid = fork();
		if (pid == 0)
			be_relay(t, pairs, ready[1]);
		close(ready[1]);
		fd.fd = ready[0];
		if (pid > 0)
			libc.poll(&fd, 1, RELAY_START_MS);
		_exit(0);
	}
	close(ready[1]);
	good = pid > 0 && !relay_await(ready[0]);
	close(ready[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return good;
}

/* Each descriptor of a connection becomes one of the kernel's. */
static void replace(const struct table *t)
{
	for (int fd = fd_next(0); fd >= 0; fd = fd_next(fd + 1)) {
		struct sock_ref ref = sock_get(fd);
		const struct relayed *r = ref.sk ? find(t, ref) : NULL;
		int flags = sys_fcntl(fd, F_GETFD, 0);

		if (r)
			dup3(r->theirs, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	}
}

static bool start_for(const struct table *t)
{
	struct relay_pair *pairs = mem_alloc(t->n * sizeof(*pairs));
	bool good = pairs;

	for (unsigned i = 0; good && i < t->n; i++)
		pairs[i] = t->all[i].pair;
	good = good && fork_relay(t, pairs);
	if (good)
		replace(t);
	for (unsigned i = 0; i < t->n; i++) {
		for (unsigned j = 0; j < LOCAL_WAYS; j++)
			local_way_close(&t->all[i].way[j]);
		close(t->all[i].theirs);
		close(t->all[i].pair.kernel);
	}
	mem_free(pairs);
	return good;
}

void relay_start(void)
{
	unsigned max = count();
	struct table t;
	bool good;

	if (!max)
		return;
	signals_block(); /* no call is interrupted */
	good = table_init(&t, max);
	if (good)
		collect(&t);
	good = t.n && start_for(&t);
	exec_local_close_ways();
	signals_unblock();
	if (good)
		log_info("The program that is executed cannot use %u connections through shared "
			 "memory (VMA_LOCAL): another process relays them",
			 t.n);
	table_fini(&t);
}
