/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll(2): see poll_internal.h for the design.
 */
#include <errno.h>
#include <limits.h>

#include "base/busy.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/hold.h"
#include "sock/core/kind.h"
#include "sock/core/poll_events.h"
#include "sock/wait/poll_internal.h"
#include "sock/wait/poll_time.h"

#define POLL_PATIENCE (100 * NSEC_PER_MSEC) /* for an exported connection */
#define LOOK_DEFAULT 100		    /* rounds between two looks that must not be omitted */

static __thread unsigned calls __attribute__((tls_model("initial-exec")));

/* Events that may be returned for an entry.  select() treats errors differently. */
static short accepted(const struct call *call, nfds_t i)
{
	int events = call->fds[i].events;

	if (!call->select)
		return (short)(events | POLLERR | POLLHUP | POLLNVAL);
	events |= POLLNVAL;
	if (events & POLLIN)
		events |= POLLHUP | POLLERR;
	if (events & POLLOUT)
		events |= POLLERR;
	return (short)events;
}

/* ---- who is who -------------------------------------------------------------------- */

static void set_shadow(struct call *call, nfds_t i, int fd, short events)
{
	struct pollfd *shadow = &call->shadow[i];

	call->n_kernel -= shadow->fd >= 0;
	call->n_kernel += fd >= 0;
	*shadow = (struct pollfd){.fd = fd, .events = events};
}

static void shadow_of_member(struct call *call, const struct member *member)
{
	struct sock *sk = member->ref.sk;
	int wanted = poll_events_wanted((uint16_t)call->fds[member->at].events);
	int fd = -1;

	/* An error is reported to a writer, too. */
	if (member->set)
		fd = call->fds[member->at].fd;
	else if (((wanted & POLLIN) || sk->type == SOCK_TYPE_UDP) && sock_twin_matters(sk))
		fd = sock_twin(sk);
	set_shadow(call, member->at, fd, (short)(wanted & POLLIN));
}

/* Looks every descriptor up; done again when a socket ended or left. */
static void resolve(struct call *call)
{
	call->n_members = 0;
	call->n_sets = 0;
	for (nfds_t i = 0; i < call->n; i++) {
		int fd = call->fds[i].fd;
		struct sock_ref ref = {NULL, 0};

		if (fd >= 0 && call->n_members < call->room)
			ref = call->lookup(fd);
		if (ref.sk && __builtin_expect(sock_is_exported(ref.sk), 0))
			(void)sock_upcalls.fetch(ref, POLL_PATIENCE);
		if (ref.sk && sock_ref_valid(ref)) {
			struct member *member = &call->members[call->n_members++];

			member->ref = ref;
			member->set = ref.sk->type == SOCK_TYPE_EPOLL ? ref.sk->epoll : NULL;
			member->at = i;
			call->n_sets += member->set != NULL;
			shadow_of_member(call, member);
		} else {
			set_shadow(call, i, fd, call->fds[i].events);
		}
	}
}

void poll_follow_rings(struct call *call)
{
	call->gen = sock_rings_generation();
	call->rings.n = 0;
	for (nfds_t m = 0; m < call->n_members; m++) {
		struct member *member = &call->members[m];

		if (member->set)
			epoll_add_rings(member->set, &call->rings);
		else
			ring_set_add_sock(&call->rings, member->ref.sk);
		shadow_of_member(call, member);
	}
	call->spin.beside = params.select_poll >= 0 && ring_set_is_beside(&call->rings);
}

/* ---- looking -------------------------------------------------------------------------- */

bool poll_check_members(struct call *call, int *ready)
{
	bool valid = true;
	int ours = 0;

	for (nfds_t m = 0; m < call->n_members; m++) {
		struct member *member = &call->members[m];
		struct pollfd *pfd = &call->fds[member->at];
		uint32_t events;

		if (!sock_ref_valid(member->ref)) {
			valid = false;
			continue;
		}
		if (!member->set) {
			events = poll_events_now(member->ref.sk);
			if (__builtin_expect(events & SOCK_EXPORTED, 0))
				sock_upcalls.request(member->ref);
		} else if (epoll_readable(member->set, NULL))
			events = POLL_READABLE;
		else /* descriptors may have been added to the kernel's part of a set unnoticed */
			events = (uint32_t)call->shadow[member->at].revents & POLLIN ? POLL_READABLE
										     : 0;
		pfd->revents = (short)(events & (uint16_t)accepted(call, member->at));
		ours += pfd->revents != 0;
	}
	call->ours = ours;
	*ready += ours;
	return valid;
}

static void hear_twin(struct call *call, const struct member *member)
{
	struct pollfd *shadow = &call->shadow[member->at];

	if (member->set || shadow->fd < 0)
		return;
	__atomic_store_n(&member->ref.sk->twin_events,
			 poll_events_of_twin((uint32_t)shadow->revents), __ATOMIC_RELAXED);
}

/*
 * Asks the kernel without blocking: the number of its ready descriptors, or -errno.  Admits
 * a signal if the mask does.
 */
static int look(struct call *call, const sigset_t *mask)
{
	struct timespec zero = {0, 0};
	int ready = 0, rc;
	nfds_t next = 0;

	call->deaf = false;
	if (!call->n_kernel && !mask)
		return 0;
	rc = sys_ppoll(call->shadow, call->n, &zero, mask);
	if (rc < 0)
		return rc;
	for (nfds_t i = 0; i < call->n; i++) {
		if (next < call->n_members && call->members[next].at == i) {
			hear_twin(call, &call->members[next++]);
			continue;
		}
		call->fds[i].revents = call->shadow[i].revents & accepted(call, i);
		ready += call->fds[i].revents != 0;
		call->deaf |= call->shadow[i].revents && !call->fds[i].revents;
	}
	return ready;
}

/* Looks at the kernel's descriptors and at our sockets. */
static int look_at_all(struct call *call)
{
	int ready = 0;

	/* Ready descriptors precede a signal, which stays pending, as in the kernel. */
	poll_check_members(call, &ready);
	ready = look(call, ready ? NULL : call->signals.mask);
	if (ready >= 0)
		poll_check_members(call, &ready);
	return ready;
}

static bool is_look_due(struct call *call, unsigned round)
{
	int ratio = params.select_poll_os_ratio;

	if (!call->n_kernel && !call->signals.mask)
		return false;
	if (ratio == 0 && call->signals.mask)
		ratio = LOOK_DEFAULT;
	return ratio && (round % (unsigned)ratio == 0 || spin_was_late(&call->spin));
}

/* ---- the call ------------------------------------------------------------------------------ */

static int wait_loop(struct call *call)
{
	nsec_t start = clock_now(), now = start, spin_until = poll_spin_end(start);
	unsigned round = 0;
	int ready;

	if (params.select_skip_os && ++calls % (unsigned)params.select_skip_os == 0 &&
	    call->n_kernel) {
		ring_set_poll(&call->rings);
		ready = look_at_all(call);
		if (ready)
			return ready;
	}
	for (;; now = clock_now()) {
		bool expired = now >= call->deadline,
		     rest = poll_spin_ended(now, spin_until, &call->spin);

		ring_set_poll(&call->rings);
		ready = 0;
		if (!poll_check_members(call, &ready)) {
			resolve(call);
			poll_follow_rings(call);
			continue;
		}
		if (!ready && (expired || rest || is_look_due(call, ++round)))
			ready = look_at_all(call);
		if (ready)
			return ready;
		if (expired)
			return 0;
		if (poll_signals_interrupted(&call->signals))
			return -EINTR;
		poll_signals_block(&call->signals);
		if (rest) {
			spin_until = 0; /* do not poll again after the sleep */
			iomux_sleeps(&call->iomux);
			ready = poll_sleep(call);
			iomux_wakes(&call->iomux);
			if (ready)
				return ready;
		} else {
			spin_round(&call->spin, now);
			if (sock_rings_generation() != call->gen)
				poll_follow_rings(call);
		}
	}
}

void poll_end(struct call *call)
{
	poll_signals_end(&call->signals);
	if (call->n > POLL_FEW_FDS)
		mem_free(call->shadow);
	if (call->room > POLL_FEW_MEMBERS)
		mem_free(call->members);
}

void poll_cancelled(void *arg)
{
	struct call *call = arg;

	mem_free(call->owned);
	poll_end(call);
}

static void count(struct call *call, int rc)
{
	struct stats_page *page = stats_page();
	struct stats_iomux *stats;

	if (!page || !call->n_members)
		return;
	stats = call->select ? &page->select : &page->poll;
	call->iomux.os = rc > call->ours ? rc - call->ours : 0;
	/* A second thread that comes just now may lose this count: it is a statistic. */
	iomux_count(&call->iomux, rc, &stats->now, ring_mode_now() == HOLD_SINGLE);
}

static int run(struct call *call, nsec_t timeout, const sigset_t *mask)
{
	nsec_t now = clock_now();
	int rc;

	iomux_begin(&call->iomux, now);
	call->deadline = poll_deadline(now, timeout);
	call->deaf = false;
	call->n_kernel = 0;
	poll_signals_begin(&call->signals, mask);
	spin_start(&call->spin);
	cleanup_push(&call->undo, poll_cancelled, call);
	for (nfds_t i = 0; i < call->n; i++) {
		call->fds[i].revents = 0;
		call->shadow[i] = (struct pollfd){.fd = -1};
	}
	resolve(call);
	poll_follow_rings(call);
	rc = wait_loop(call);
	count(call, rc);
	cleanup_pop(&call->undo);
	poll_end(call);
	return rc;
}

static nfds_t count_members(const struct call *call)
{
	nfds_t n = 0;

	for (nfds_t i = 0; i < call->n; i++)
		n += call->fds[i].fd >= 0 && call->lookup(call->fds[i].fd).sk != NULL;
	return n;
}

int poll_call(struct call *call, nsec_t timeout, const sigset_t *mask)
{
	if (busy_locks || hold_current)
		return -EINTR; /* in a signal handler that interrupted the library */
	call->room = count_members(call);
	call->shadow = call->few_shadow;
	call->members = call->few_members;
	if (call->n > POLL_FEW_FDS)
		call->shadow = mem_alloc(call->n * sizeof(*call->shadow));
	if (call->room > POLL_FEW_MEMBERS)
		call->members = mem_alloc(call->room * sizeof(*call->members));
	if (!call->shadow || !call->members) {
		if (call->n > POLL_FEW_FDS)
			mem_free(call->shadow);
		return -ENOMEM;
	}
	return run(call, timeout, mask);
}

int poll_sockets(struct pollfd *fds, nfds_t n, nsec_t timeout, const sigset_t *mask,
		 fd_lookup_fn lookup)
{
	struct call call;

	if (n > INT_MAX / sizeof(*fds))
		return -EINVAL;
	call.fds = fds;
	call.n = n;
	call.lookup = lookup;
	call.owned = NULL;
	call.select = false;
	return poll_call(&call, timeout, mask);
}
