/* SPDX-License-Identifier: BSD-2-Clause */
/* A socket sends by other rings from now on; see move.h. Control lock. */
#include "base/log.h"
#include "sock/move/move_internal.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/udp/udp_sock.h"

unsigned move_tx_rings(struct inet_sock *so, struct ring **rings)
{
	if (so->inet == INET_UDP)
		return udp_tx_rings(so, rings, MOVE_TX_RINGS_MAX);
	if (so->inet == INET_TCP && so->tcp.dst.ring) {
		rings[0] = so->tcp.dst.ring;
		return 1;
	}
	return 0;
}

void move_drain_tx(struct ring **rings, unsigned n)
{
	control_assert_held();
	for (unsigned i = 0; i < n; i++) {
		if (ring_hold_cold(rings[i]))
			ring_release_cold(rings[i]);
		ring_put(rings[i]);
	}
}

/*
 * The socket sends by the ring of another key from now on. sent_by: gets a reference to each ring
 * that it sent by before; returns their number.
 */
static unsigned retarget_tx(struct inet_sock *so, uint64_t key, const struct dst_found *found,
			    struct ring **sent_by)
{
	struct ring *home;
	unsigned n;

	if (sock_hold_cold(sock_ref_of(so), &home))
		return 0;
	n = move_tx_rings(so, sent_by);
	for (unsigned i = 0; i < n; i++)
		ring_get(sent_by[i]);
	move_set_key(so, true, key);
	sock_access_init(so);
	if (so->inet == INET_UDP)
		udp_retarget(so);
	else if (found->verdict == VERDICT_ACCELERATED)
		tcp_retarget(so, home, found);
	ring_release_cold(home);
	return n;
}

/* Opens the rings in advance, so that no send waits for it. */
static int open_tx_rings(struct inet_sock *so, uint64_t key, char why[PORT_WHY])
{
	struct ring *rings[MOVE_TX_RINGS_MAX], *home, *to;
	bool fresh;
	unsigned n;
	int rc = 0;

	if (so->opt->alloc_tx.logic == RING_LOGIC_IP || sock_hold_cold(sock_ref_of(so), &home))
		return 0;
	n = move_tx_rings(so, rings);
	ring_release_cold(home);
	for (unsigned i = 0; i < n && !rc; i++)
		rc = rings_get(rings[i]->ifindex, key, &to, why, &fresh);
	return rc;
}

void move_start_tx(const struct move_request *req)
{
	struct dst_found found = {.verdict = VERDICT_UNDECIDED};
	struct ring *sent_by[MOVE_TX_RINGS_MAX];
	struct inet_sock *so = req->so;
	struct dst_query query;
	char why[PORT_WHY] = "";
	unsigned n;

	control_assert_held();
	if (!move_is_possible(req) || so->inet == INET_LISTEN)
		return;
	move_count(&sock_moves_tx.started);
	if (open_tx_rings(so, req->key, why)) {
		move_put_off(so, true);
		move_count(&sock_moves_tx.abandoned);
		log_debug("fd %d: goes on sending by the same ring: %s", sock_twin(&so->sk), why);
		return;
	}
	if (so->inet == INET_TCP) {
		query = sock_query(so);
		query.key = req->key;
		dst_find(&query, &found);
	}
	n = retarget_tx(so, req->key, &found, sent_by);
	if (n)
		log_debug("fd %d: sends by key %#lx instead of ring %u: %s", sock_twin(&so->sk),
			  req->key, sent_by[0]->id,
			  req->asked ? "its allocation logic was changed"
				     : "another thread or processor sends");
	move_drain_tx(sent_by, n);
	sock_stats_moved(so, false, n ? sent_by[0]->id : RECORDER_NO_RING);
	move_count(&sock_moves_tx.finished);
}
