/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/poll_rings.h"

#include "base/mem.h"
#include "ring/ring.h"

void ring_set_add(struct ring_set *set, struct ring *ring)
{
	for (unsigned i = 0; i < set->n; i++) {
		if (set->rings[i] == ring)
			return;
	}
	if (set->n == SOCK_RINGS_MAX)
		return;
	set->beside = ring_set_is_beside(set) || ring_is_beside(ring);
	set->rings[set->n++] = ring;
}

void ring_set_add_sock(struct ring_set *set, const struct sock *sk)
{
	struct ring *rings[SOCK_RINGS_MAX];
	unsigned n = sock_rings(sk, rings, SOCK_RINGS_MAX);

	for (unsigned i = 0; i < n; i++)
		ring_set_add(set, rings[i]);
}

int ring_set_poll(const struct ring_set *set)
{
	int frames = 0;

	for (unsigned i = 0; i < set->n; i++) {
		int n = sock_poll_ring(set->rings[i]);

		frames += n > 0 ? n : 0;
	}
	return frames;
}

/* ---- sleeping ---------------------------------------------------------------------- */

static bool init_fds(struct sleep_fds *sleep, unsigned n, const struct ring_set *set)
{
	unsigned room = 1 + n;
	int fds[PORT_FDS_MAX];

	for (unsigned i = 0; i < set->n; i++)
		room += (unsigned)ring_fds(set->rings[i], fds);
	sleep->fds = sleep->few;
	if (room > SLEEP_FEW)
		sleep->fds = mem_alloc(room * sizeof(*sleep->fds));
	sleep->room = room;
	sleep->n = 1;
	return sleep->fds != NULL;
}

bool sleep_fds_add(struct sleep_fds *sleep, int fd, short events)
{
	if (sleep->n == sleep->room)
		return false;
	sleep->fds[sleep->n++] = (struct pollfd){.fd = fd, .events = events};
	return true;
}

bool rest_begin(struct rest *rest, struct waiter *waiter, const struct ring_set *set, unsigned n)
{
	if (!init_fds(&rest->fds, n, set))
		return false;
	rest->set = set;
	sleep_begin(&rest->sleep);
	sleep_enter(&rest->sleep, &rest->own, &waiter->sleepers, false);
	for (unsigned i = 0; i < set->n; i++)
		sleep_enter(&rest->sleep, &rest->at[i], &set->rings[i]->sleepers, false);
	return true;
}

/*
 * Adds the rings whose leader this thread is.  False: a ring was closed and opened again, or had
 * frames and was polled; the thread must not block.
 */
static bool add_rings(struct rest *rest)
{
	for (unsigned i = 0; i < rest->set->n; i++) {
		int fds[PORT_FDS_MAX], n = 0;

		if (rest->at[i].watch) {
			if (!ring_arm_fds(rest->set->rings[i])) {
				sock_poll_ring(rest->set->rings[i]);
				return false;
			}
			n = ring_fds(rest->set->rings[i], fds);
		}
		rest->n_fds[i] = (uint8_t)n;
		for (int f = 0; f < n; f++) {
			if (!sleep_fds_add(&rest->fds, fds[f], POLLIN))
				return false;
		}
	}
	return true;
}

static int ready_among(const struct pollfd *fds, unsigned n)
{
	int ready = 0;

	for (unsigned i = 0; i < n; i++)
		ready += fds[i].revents != 0;
	return ready;
}

static void poll_ready(const struct rest *rest, const struct pollfd *fds)
{
	for (unsigned i = 0; i < rest->set->n; fds += rest->n_fds[i++]) {
		if (ready_among(fds, rest->n_fds[i]))
			sock_poll_ring(rest->set->rings[i]);
	}
}

/* Sends what these rings have put off: they may not be polled again for long. */
static void settle(const struct ring_set *set)
{
	for (unsigned i = 0; i < set->n; i++) {
		struct ring *ring = set->rings[i];

		if (ring_settled(ring) || !ring_hold_cold(ring))
			continue;
		ring_settle(ring);
		ring_release_cold(ring);
	}
}

int rest_now(struct rest *rest, nsec_t deadline, const sigset_t *mask)
{
	struct sleep_fds *fds = &rest->fds;
	unsigned own = fds->n;
	int rc = 0;

	settle(rest->set);
	if (add_rings(rest))
		rc = sleep_now(&rest->sleep, fds->fds, fds->n, deadline, mask);
	fds->n = own;
	if (rc > 0) {
		int ready = ready_among(fds->fds + 1, own - 1);

		/*
		 * Polls before the call ends: frames may be for other threads, and the
		 * next leader is not there yet.
		 */
		poll_ready(rest, fds->fds + own);
		rc = ready;
	}
	if (rc == 0 && deadline != NSEC_NEVER && clock_now() >= deadline)
		return REST_EXPIRED;
	return rc;
}

void rest_end(struct rest *rest)
{
	sleep_end(&rest->sleep);
	if (rest->fds.fds != rest->fds.few)
		mem_free(rest->fds.fds);
	rest->fds.fds = rest->fds.few;
}
