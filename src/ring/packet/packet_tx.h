/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending large segments by a packet socket with a virtio-net header: the device, or the kernel's
 * software, cuts them.  The kernel's protocols do not see them.
 *
 * Order	A segment leaves before packet_tx_send() returns, and after all frames that the
 *		kernel has taken from the TX rings of AF_XDP sockets of the interface: both
 *		wait for no queueing discipline, and the interface has one TX queue.  Without
 *		a queueing discipline ("noqueue": veth) the kernel hands the segment to the
 *		device at once, and can also cut it in software.  Otherwise the socket goes
 *		around the discipline, as AF_XDP does; the kernel then refuses what the device
 *		cannot cut.  packet_tx_check() sees one that was added, a second later.
 * Role		open, close: the control lock.  send: the holder of the ring.  check: the
 *		internal thread, between open and close.
 * Lifetime	embedded in its queue.
 * Errors	-errno.
 */
#ifndef RING_PACKET_PACKET_TX_H
#define RING_PACKET_PACKET_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "net/frame.h"

#define PACKET_TX_MAX 65535u /* bytes of the longest frame: GSO_LEGACY_MAX_SIZE - 1 */

struct packet_tx {
	/* set when opened */
	int fd; /* -1: there is none */
	int ifindex;
	/* holder */
	struct packet_tx_refusals {
		uint32_t skip; /* calls that fail without a try, because the kernel refused before */
		uint32_t penalty;
	} refusals[2]; /* of TCP; of UDP, which needs Linux 6.2 */
	bool used;     /* atomic: since the last check; written by check, too */
	/* check */
	bool bypass;
	nsec_t checked;
};

/* Can an interface with so many TX queues take large segments from a packet socket, in order? */
bool packet_tx_can(int ifindex, const char *name, unsigned tx_queues);

/*
 * Opens the socket; needs CAP_NET_RAW.  It receives nothing, whatever a process that has its
 * descriptor does with it: a filter that cannot be removed drops all frames.
 */
int packet_tx_open(struct packet_tx *tx, int ifindex);
void packet_tx_close(struct packet_tx *tx);

/* 0; -EAGAIN: too much is on its way; -EFAULT; or another error: nothing was sent. */
int packet_tx_send(struct packet_tx *tx, const struct frame_large *large);

/* If the socket was used: follows a change of the queueing discipline.  At most once a second. */
void packet_tx_check(struct packet_tx *tx, nsec_t now);

#endif
