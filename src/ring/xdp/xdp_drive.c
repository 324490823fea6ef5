/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Busy polling of zero-copy queues.
 *
 * A call (recvfrom(2)) on the anchor of a queue runs the queue's NAPI instance once, in this
 * thread.  Only the anchor prefers busy polling (SO_PREFER_BUSY_POLL): on a socket that sends, the
 * option suppresses the wake-up of the driver, and a driver that sends from another NAPI instance
 * would never see the frames.  So nothing depends on these calls: frames that they do not send are
 * sent by waking the driver, and frames that they do not bring arrive by interrupts.
 *
 * Calls may not work, or take longer than they save.  So their results and their time are
 * measured per queue, and calls that are of no use stop for a while.  With VMA_XDP_BUSY_POLL=1
 * slow calls go on.
 */
#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define BUSY_POLL_USEC 1
#define BUSY_POLL_BUDGET 64 /* most frames of one call */

#define TRIAL 32		      /* bursts of a trial */
#define TRIAL_HITS 4		      /* of these, calls must bring at least so many */
#define CALL_MAX (20 * NSEC_PER_USEC) /* a call that takes longer costs more than an interrupt */
#define CALLS_MIN 16		      /* calls before their time is judged */
#define TRIAL_AGAIN (1u << 20)	      /* idle rounds before the next trial; doubles each time */
#define TRIALS_MAX 10		      /* times that it doubles */
#define SEND_MISSES 8		      /* after so many calls in a row that did not send: no more */
#define STUCK_MAX NSEC_PER_SEC	      /* a TX ring that did not move for so long is stuck */

void xdp_drive_allow(int anchor)
{
	int prefer = 1, usec = BUSY_POLL_USEC, budget = BUSY_POLL_BUDGET;

	sys_setsockopt(anchor, SOL_SOCKET, SO_PREFER_BUSY_POLL, &prefer, sizeof(prefer));
	sys_setsockopt(anchor, SOL_SOCKET, SO_BUSY_POLL, &usec, sizeof(usec));
	sys_setsockopt(anchor, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget, sizeof(budget));
}

/* Tells the user once per interface and process. */
static void tell(struct xdp_queue *q, const struct xdp_sock *s, const char *what)
{
	struct xdp_port *port = (struct xdp_port *)q->base.port;

	if (!__atomic_exchange_n(&port->told_drive, true, __ATOMIC_RELAXED))
		log_info("%s: queue %u: %s; the driver is woken instead", port->base.name,
			 (unsigned)(s - q->socks), what);
}

#define XDP_BUSY_POLL_AUTO 2

static inline bool is_driven(const struct xdp_drive *d)
{
	return !d->useless && d->quiet < XDP_DRIVE_QUIET;
}

/* No more calls for a while, which is longer each time. */
static void give_up(struct xdp_drive *d)
{
	d->useless = true;
	d->quiet = 0;
	d->hits = d->misses = 0;
	if (d->trials < TRIALS_MAX)
		d->trials++;
}

static bool is_slow(const struct xdp_drive *d)
{
	return params.xdp_busy_poll == XDP_BUSY_POLL_AUTO && d->calls >= CALLS_MIN &&
	       d->cost > CALL_MAX;
}

/* Runs the NAPI instance.  True: it brought frames. */
static bool call(struct xdp_sock *s)
{
	uint32_t before = __atomic_load_n(s->rx.producer, __ATOMIC_RELAXED);
	nsec_t start = clock_now();

	sys_recvfrom(s->driver_fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
	s->drive.cost += (clock_now() - start - s->drive.cost) / 8;
	__atomic_store_n(&s->drive.calls, s->drive.calls + 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(s->rx.producer, __ATOMIC_RELAXED) == before)
		return false;
	s->drive.brought = true;
	return true;
}

bool xdp_drive_idle(struct xdp_queue *q)
{
	bool got = false;

	for (unsigned i = 0; i < q->nsocks; i++) {
		struct xdp_drive *d = &q->socks[i].drive;

		if (d->useless && params.xdp_busy_poll && ++d->quiet == TRIAL_AGAIN << d->trials) {
			d->useless = false;
			d->quiet = XDP_DRIVE_QUIET; /* the next frame begins the trial */
		}
		if (!is_driven(d))
			continue;
		if (is_slow(d)) {
			give_up(d);
			continue;
		}
		d->quiet++;
		got |= call(&q->socks[i]);
	}
	return got;
}

void xdp_drive_arrived(struct xdp_sock *s)
{
	struct xdp_drive *d = &s->drive;

	if (d->useless)
		return;
	if (d->brought) {
		d->hits++;
		d->bursts++;
	} else if (d->quiet && d->quiet < XDP_DRIVE_QUIET) {
		d->misses++;
		d->between++;
	}
	d->brought = false;
	d->quiet = 0;
	if (d->hits + d->misses < TRIAL)
		return;
	/* Interrupts that are not masked often come first, so a few hits show that calls work. */
	if (d->hits < TRIAL_HITS)
		give_up(d);
	d->hits = d->misses = 0;
}

bool xdp_drive_send(struct xdp_queue *q, struct xdp_sock *s)
{
	struct xdp_drive *d = &s->drive;

	if (!is_driven(d) || d->tx_misses == SEND_MISSES || is_slow(d))
		return false;
	call(s);
	if (xdp_tx_consumed(s)) {
		d->tx_misses = 0;
		return true;
	}
	if (++d->tx_misses == SEND_MISSES)
		tell(q, s, "busy polling does not send");
	return false;
}

void xdp_drive_stuck(struct xdp_queue *q, struct xdp_sock *s)
{
	struct xdp_drive *d = &s->drive;
	nsec_t now = clock_now();

	if (!d->stuck_since)
		d->stuck_since = now;
	if (now - d->stuck_since < STUCK_MAX || d->useless)
		return;
	give_up(d);
	d->tx_misses = SEND_MISSES;
	tell(q, s, "the TX ring stands still, no more busy polling");
}

void xdp_drive_log(const struct xdp_queue *q)
{
	for (unsigned i = 0; i < q->nsocks; i++) {
		const struct xdp_drive *d = &q->socks[i].drive;

		if (d->calls)
			log_debug(
				"%s: ring %u, queue %u: %u busy polls of %ld ns brought %u bursts, %u "
				"came between them",
				q->base.port->name, q->slot, i, d->calls, (long)d->cost, d->bursts,
				d->between);
	}
}
