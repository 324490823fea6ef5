/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/quarantine.h"

#include "base/mem.h"
#include "ring/progress.h"

struct quarantine {
	struct flow flow;
	struct timer timer;
	struct ring *ring;
	quarantine_fn forward; /* NULL: late frames are dropped */
	uint64_t channel, id;
	unsigned forwarded;
	bool steered; /* the port still brings all frames here: see ring_flow_part() */
	nsec_t until, pause;
	nsec_t last; /* ends then, even if nobody has taken the connection */
};

#define FIRST_LOOK NSEC_PER_MSEC /* whether another process has the flow; doubles each time */

static void look_who_has_it(struct quarantine *quarantine, bool over)
{
	if (quarantine->steered)
		quarantine->steered = !ring_flow_parted(quarantine->ring, &quarantine->flow, over);
}

static enum drop quarantine_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt,
				    nsec_t now)
{
	struct quarantine *quarantine = container_of(flow, struct quarantine, flow);

	(void)ring;
	(void)now;
	if (!quarantine->forward || quarantine->forwarded == QUARANTINE_LATE_MAX ||
	    !quarantine->forward(quarantine->channel, quarantine->id, pkt))
		return DROP_SOCK_EXPORTED;
	quarantine->forwarded++;
	pkt_free(pkt);
	look_who_has_it(quarantine, false);
	return DROP_NONE;
}

static void arm(struct quarantine *quarantine, nsec_t now)
{
	nsec_t look = now + quarantine->pause;

	quarantine->pause *= 2;
	ring_arm(quarantine->ring, &quarantine->timer,
		 quarantine->steered && look < quarantine->until ? look : quarantine->until);
}

static void begin_time(struct quarantine *quarantine, nsec_t time)
{
	nsec_t now = clock_now();

	quarantine->until = now + time;
	quarantine->last = now + QUARANTINE_MAX;
	arm(quarantine, now);
}

/* Is it too early to end it?  Not for what no process has taken until now: it may have no processor. */
static bool goes_on(struct quarantine *quarantine, nsec_t now)
{
	if (now < quarantine->until)
		return true;
	if (!quarantine->forward || !quarantine->steered || now >= quarantine->last)
		return false;
	quarantine->until += QUARANTINE_TIME;
	return true;
}

static void quarantine_timer(struct timer *timer, nsec_t now)
{
	struct quarantine *quarantine = container_of(timer, struct quarantine, timer);
	struct ring *ring = quarantine->ring;
	bool more;

	look_who_has_it(quarantine, false);
	more = goes_on(quarantine, now);
	if (more) {
		arm(quarantine, now);
		return;
	}
	look_who_has_it(quarantine, true);
	ring_flow_del(ring, &quarantine->flow);
	mem_free(quarantine);
	ring_put(ring);
}

struct quarantine *quarantine_create(struct ring *ring)
{
	struct quarantine *quarantine = mem_zalloc(sizeof(*quarantine));

	if (!quarantine)
		return NULL;
	quarantine->ring = ring;
	quarantine->flow.deliver = quarantine_deliver;
	quarantine->pause = FIRST_LOOK;
	timer_init(&quarantine->timer, quarantine_timer);
	return quarantine;
}

void quarantine_free(struct quarantine *quarantine)
{
	mem_free(quarantine);
}

void quarantine_forward(struct quarantine *quarantine, quarantine_fn forward, uint64_t channel,
			uint64_t id)
{
	quarantine->forward = forward;
	quarantine->channel = channel;
	quarantine->id = id;
}

void quarantine_begin(struct quarantine *quarantine, struct flow *flow)
{
	ring_get(quarantine->ring);
	quarantine->steered = ring_flow_part(quarantine->ring, flow, &quarantine->flow);
	look_who_has_it(quarantine, false);
	begin_time(quarantine, QUARANTINE_TIME);
}

bool quarantine_replace(struct ring *ring, struct flow *flow, nsec_t time)
{
	struct quarantine *quarantine = quarantine_create(ring);

	if (!quarantine)
		return false;
	ring_get(ring);
	ring_flow_replace(ring, flow, &quarantine->flow);
	begin_time(quarantine, time);
	return true;
}
