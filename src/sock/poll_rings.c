/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/poll_rings.h"

#include "base/mem.h"
#include "ring/progress.h"
#include "ring/ring.h"

void ring_set_add(struct ring_set *set, struct ring *ring)
{
	for (unsigned i = 0; i < set->n; i++) {
		if (set->rings[i] == ring)
			return;
	}
	if (set->n < SOCK_RINGS_MAX)
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

void ring_set_sleep(const struct ring_set *set)
{
	ring_sleep_begin(set->rings, set->n);
}

void ring_set_woken(const struct ring_set *set)
{
	ring_sleep_end(set->rings, set->n);
}

bool sleep_fds_init(struct sleep_fds *sleep, unsigned n, const struct ring_set *set)
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

void sleep_fds_fini(struct sleep_fds *sleep)
{
	if (sleep->fds != sleep->few)
		mem_free(sleep->fds);
}

void sleep_fds_add(struct sleep_fds *sleep, int fd, short events)
{
	if (sleep->n < sleep->room)
		sleep->fds[sleep->n++] = (struct pollfd){.fd = fd, .events = events};
}

void sleep_fds_add_rings(struct sleep_fds *sleep, const struct ring_set *set)
{
	for (unsigned i = 0; i < set->n; i++) {
		int fds[PORT_FDS_MAX], n = ring_fds(set->rings[i], fds);

		for (int f = 0; f < n; f++)
			sleep_fds_add(sleep, fds[f], POLLIN);
	}
}
