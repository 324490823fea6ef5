/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Late frames: those that arrived after a connection, accepted or not, was exported, and
 * before its frames were steered to the other process. The peer would repeat them, a lone
 * segment only after 200 ms; instead they are sent after the connection, unchanged, several
 * to a memfd, each behind its length.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/sys.h"
#include "net/frame.h"
#include "ring/inbox.h"
#include "sock/core/quarantine.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "sock/tcp/tcp_sock.h"

/*
 * The longest delay of a late frame: frames wait at the exporter, and messages in the
 * channel.
 */
#define LATE_MAX (2 * QUARANTINE_TIME)

struct late {
	struct inbox_item item; /* first */
	uint64_t channel, id;
	struct pkt *pkt;
};

/* Posted by holders of rings, taken under the control lock. */
static struct inbox late_frames;

bool share_late(uint64_t channel, uint64_t id, const struct pkt *pkt)
{
	struct late *late = mem_alloc(sizeof(*late));
	struct pkt *copy = late ? pkt_copy(pkt) : NULL;

	if (!copy) {
		mem_free(late);
		return false;
	}
	*late = (struct late){.channel = channel, .id = id, .pkt = copy};
	inbox_post(&late_frames, &late->item);
	share_busy();
	return true;
}

static struct channel *find_channel(uint64_t serial)
{
	list_for_each(link, &share_process.channels) {
		struct channel *ch = container_of(link, struct channel, link);

		if (ch->serial == serial)
			return ch;
	}
	return NULL;
}

static struct late *next_of(const struct late *late)
{
	return (struct late *)(void *)late->item.link.next;
}

/* Writes all frames of late's connection that follow each other, and frees them. The rest. */
static struct late *write_frames(struct late *late, int memfd)
{
	uint64_t channel = late->channel, id = late->id;

	do {
		struct late *next = next_of(late);

		transfer_put_frame(memfd, late->pkt);
		pkt_free(late->pkt);
		mem_free(late);
		late = next;
	} while (late && late->channel == channel && late->id == id);
	return late;
}

void share_send_late(void)
{
	struct late *late = (struct late *)(void *)inbox_take(&late_frames);

	control_assert_held();
	control_assert_no_ring();
	while (late) {
		struct channel *ch = find_channel(late->channel);
		uint64_t id = late->id;
		int memfd = transfer_frames();

		late = write_frames(late, memfd);
		if (ch && memfd >= 0)
			channel_send(ch, MESSAGE_LATE, id, 0, memfd);
		else
			sys_close_fd(&memfd);
	}
}

/* ---- late frames that arrive ------------------------------------------------------- */

/* Delivers pkt if it belongs to this connection. */
static void take_in(struct inet_sock *so, struct pkt *pkt)
{
	enum drop reason = DROP_SOCK_EXPORTED;
	struct flow_key key;
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring)) {
		pkt_free(pkt);
		return;
	}
	if (so->tcp.flow.listed && frame_parse(pkt, FRAME_PARTIAL_CSUM, &key) == DROP_NONE &&
	    flow_key_eq(&key, &so->tcp.flow.key))
		reason = tcp_deliver(ring, &so->tcp.flow, pkt, clock_now());
	if (reason != DROP_NONE) {
		ring_drop(ring, reason);
		pkt_free(pkt);
	}
	ring_release_cold(ring);
}

/* The latest connections that were imported before the program accepted them. Control lock. */
static struct arrival {
	struct flow_key key;
	struct sock_ref ref;
	uint64_t channel;
	nsec_t at;
} arrivals[256];
static unsigned last_arrival;

void share_note_arrival(uint64_t channel, struct inet_sock *so)
{
	control_assert_held();
	last_arrival = (last_arrival + 1) % (sizeof(arrivals) / sizeof(*arrivals));
	arrivals[last_arrival] = (struct arrival){.key = so->tcp.flow.key,
						  .ref = sock_ref_of(so),
						  .channel = channel,
						  .at = clock_now()};
}

/* A process that sent a connection may send its late frames, and no others. */
static struct arrival *find_arrival(uint64_t channel, const struct flow_key *key)
{
	for (unsigned i = 0; i < sizeof(arrivals) / sizeof(*arrivals); i++) {
		struct arrival *a = &arrivals[i];

		if (a->channel == channel && flow_key_eq(&a->key, key) &&
		    clock_now() - a->at <= LATE_MAX)
			return a;
	}
	return NULL;
}

/*
 * The connection was exported from here as well: delivers pkt to its quarantine flow, so
 * that it is sent on.
 */
static void forward(const struct flow_key *key, struct pkt *pkt)
{
	enum drop reason = DROP_NO_FLOW;

	for (unsigned i = 0; i < rings_count() && reason == DROP_NO_FLOW; i++) {
		struct ring *ring = rings_at(i);
		struct flow *flow;

		if (!ring_hold_cold(ring))
			continue;
		flow = flow_lookup(&ring->flows, key);
		if (flow)
			reason = flow->deliver(ring, flow, pkt, clock_now());
		ring_release_cold(ring);
	}
	if (reason != DROP_NONE)
		pkt_free(pkt);
}

/* False: the connection of this frame has not been here. */
static bool take_in_pending(uint64_t channel, struct pkt *pkt)
{
	struct arrival *a = NULL;
	struct flow_key key;

	if (frame_parse(pkt, FRAME_PARTIAL_CSUM, &key) == DROP_NONE)
		a = find_arrival(channel, &key);
	if (!a)
		pkt_free(pkt);
	else if (sock_ref_valid(a->ref) && !sock_is_exported(a->ref.sk))
		take_in(inet_of(a->ref.sk), pkt);
	else
		forward(&key, pkt);
	return a != NULL;
}

/* Listeners and datagram sockets. */
static void take_in_members(const struct inet_sock *so, struct channel *ch,
			    const struct message *message, int memfd)
{
	unsigned most = QUARANTINE_LATE_MAX;
	struct channel *to = NULL;
	bool known = false;
	struct pkt *pkt;
	off_t at = 0;

	while (most-- && (pkt = transfer_next_frame(memfd, &at)))
		known |= take_in_pending(ch->serial, pkt);
	/* What nobody accepted was sent on, as the listener is not used here: so are its frames. */
	if (!known && so && sock_is_exported(&so->sk) && message->flags < MESSAGE_HOPS_MAX)
		to = share_other_holder(so, ch);
	if (to)
		channel_send(to, MESSAGE_LATE, so->id, message->flags + 1, sys_fd_copy(memfd));
}

void share_on_late(struct channel *ch, const struct message *message, int memfd)
{
	struct inet_sock *so = share_find(message->id);
	unsigned most = QUARANTINE_LATE_MAX;
	struct pkt *pkt;
	off_t at = 0;

	if (!so || share_is_member(so)) {
		take_in_members(so, ch, message, memfd);
		return;
	}
	if (sock_is_exported(&so->sk) || !so->sharing || so->sharing->shared.from != ch->serial ||
	    clock_now() - so->sharing->shared.arrived > LATE_MAX)
		return;
	while (most-- && (pkt = transfer_next_frame(memfd, &at)))
		take_in(so, pkt);
}

void share_forget_late(void)
{
	inbox_init(&late_frames);
	memset(arrivals, 0, sizeof(arrivals));
}
