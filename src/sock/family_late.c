/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames that came after a connection had left for another process, and before its frames
 * were steered there.  The peer would send them again, of a lone segment after 200 ms; they
 * follow the connection instead, as they are, several to a memfd, each behind its length.
 */
#include <sys/mman.h>

#include "base/mem.h"
#include "base/sys.h"
#include "net/frame.h"
#include "ring/inbox.h"
#include "sock/family_internal.h"
#include "sock/tcp_internal.h"
#include "sock/travel.h"

/* Frames wait at the giver, and letters on the way. */
#define LATE_MAX (2 * TRAVEL_FADE)

struct late {
	struct inbox_item item; /* first */
	uint64_t channel, id;
	struct pkt *pkt;
};

/* Posted by holders of rings, taken under the control lock. */
static struct inbox late_frames;

bool family_late(uint64_t channel, uint64_t id, const struct pkt *pkt)
{
	struct late *late = mem_alloc(sizeof(*late));
	struct pkt *copy = late ? pkt_copy(pkt) : NULL;

	if (!copy) {
		mem_free(late);
		return false;
	}
	*late = (struct late){.channel = channel, .id = id, .pkt = copy};
	inbox_post(&late_frames, &late->item);
	family_busy();
	return true;
}

static struct channel *find_channel(uint64_t serial)
{
	list_for_each(link, &family.channels) {
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

/* All of the connection that late is of, as far as they follow each other; frees them. */
static struct late *write_frames(struct late *late, int memfd)
{
	uint64_t channel = late->channel, id = late->id;

	do {
		struct late *next = next_of(late);

		travel_put_frame(memfd, late->pkt);
		pkt_free(late->pkt);
		mem_free(late);
		late = next;
	} while (late && late->channel == channel && late->id == id);
	return late;
}

void family_send_late(void)
{
	struct late *late = (struct late *)(void *)inbox_take(&late_frames);

	control_assert_held();
	control_assert_no_ring();
	while (late) {
		struct channel *ch = find_channel(late->channel);
		uint64_t id = late->id;
		int memfd = travel_frames();

		late = write_frames(late, memfd);
		if (ch && memfd >= 0)
			channel_send(ch, LETTER_LATE, id, 0, memfd);
		else
			sys_close_fd(&memfd);
	}
}

void family_forget_late(void)
{
	inbox_init(&late_frames);
}

/* Of this connection, and no other. */
static void take_in(struct inet_sock *so, struct pkt *pkt)
{
	enum drop reason = DROP_SOCK_AWAY;
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

void family_on_late(struct channel *ch, const struct letter *letter, int memfd)
{
	struct inet_sock *so = family_find(letter->id);
	unsigned most = TRAVEL_LATE_MAX;
	struct pkt *pkt;
	off_t at = 0;

	if (!so || family_is_member(so) || sock_is_away(&so->sk) || !so->kin ||
	    so->kin->from != ch->serial || clock_now() - so->kin->arrived > LATE_MAX)
		return;
	while (most-- && (pkt = travel_next_frame(memfd, &at)))
		take_in(so, pkt);
}
