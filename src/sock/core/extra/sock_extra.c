/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/sock_extra.h"

#include <errno.h>

#include "sock/core/extra/direct.h"
#include "sock/core/extra/filter.h"
#include "sock/core/extra/held.h"
#include "sock/core/kind.h"
#include "sock/core/rules/rules.h"

_Static_assert(SOCK_HEADERS_MAX >= FRAME_HDR_MAX, "all headers fit");
_Static_assert(SOCK_RING_NUMBERS == RINGS_MAX, "numbers are those of rings_at()");

int sock_set_callback(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context)
{
	return filter_register(ref, fd, callback, context);
}

static bool is_of(const struct sock_ops *ops, const struct sock_ops *table, unsigned n)
{
	return table && ops >= table && ops < table + n;
}

/* Are the calls of the socket those of its kind?  An exported or a lingering one has others. */
static bool has_own_calls(struct sock_ref ref)
{
	const struct sock_ops *ops = sock_ops_of(ref.sk);

	return is_of(ops, sock_kind_made(ref.sk)->ops, HOLD_MODES) ||
	       is_of(ops, sock_upcalls.local_udp_ops, LOCAL_UDP_OPS);
}

ssize_t sock_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags)
{
	const struct sock_kind *kind = sock_kind_made(ref.sk), *local = sock_kinds[INET_LOCAL];

	if (local && is_of(sock_ops_of(ref.sk), local->ops, HOLD_MODES))
		return local->recv_zcopy(ref, zcopy, flags);
	/* recv() fetches an exported socket, and reads one that lingers. */
	return kind->recv_zcopy && has_own_calls(ref) ? kind->recv_zcopy(ref, zcopy, flags)
						      : SOCK_KERNEL;
}

int sock_recv_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		    unsigned *done)
{
	const struct sock_kind *kind = sock_kind_made(ref.sk);

	*done = 0;
	return kind->recv_batch && has_own_calls(ref)
		       ? kind->recv_batch(ref, messages, count, flags, done)
		       : SOCK_KERNEL;
}

int sock_send_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		    unsigned *done)
{
	const struct sock_kind *kind = sock_kind_made(ref.sk);

	*done = 0;
	return kind->send_batch && has_own_calls(ref)
		       ? kind->send_batch(ref, messages, count, flags, done)
		       : SOCK_KERNEL;
}

int sock_free_packet(void *id, struct sock_ref ref)
{
	return held_free(id, ref);
}

int sock_add_rule(const char *line)
{
	int rc;

	if (!control_lock())
		return -EAGAIN;
	rc = rules_add(line);
	control_unlock();
	return rc;
}

int sock_dump(int fd, int level)
{
	return sock_stats_dump_now(fd, level);
}

int sock_headers(struct sock_ref ref, uint8_t header[SOCK_HEADERS_MAX])
{
	return sock_kind_made(ref.sk)->headers(ref, header);
}

unsigned sock_ring_numbers(const struct sock *sk, unsigned *numbers, unsigned max)
{
	struct ring *rings[SOCK_RINGS_MAX];
	unsigned n = sock_rings(sk, rings, SOCK_RINGS_MAX), open = 0;

	for (unsigned i = 0; i < n && open < max; i++) {
		if (ring_queue(rings[i]))
			numbers[open++] = rings[i]->id;
	}
	return open;
}

int sock_tx_ring_number(struct sock_ref ref, const struct sockaddr *to, socklen_t len)
{
	const struct sock_kind *kind = sock_kind_made(ref.sk);
	struct ring *ring;
	int rc = -EBADF;

	if (!kind->tx_ring)
		return -ENOSYS;
	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref))
		rc = kind->tx_ring(inet_of(ref.sk), to, len, &ring);
	if (!rc)
		rc = inet_of(ref.sk)->opt->alloc_tx.direct ? direct_get(inet_of(ref.sk), ring)
							   : (int)ring->id;
	control_unlock();
	return rc;
}
