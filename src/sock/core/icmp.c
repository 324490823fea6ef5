/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/icmp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "net/icmp.h"
#include "ring/progress.h"
#include "ring/rings.h"
#include "sock/core/kind.h"

#define BATCH 64      /* messages of a round; in a flood the socket's buffer overflows */
#define ICMP_FILTER 1 /* <linux/icmp.h>, at SOL_RAW */

static int icmp_fd = -1;

/* holder: passes the error to the kind of socket that the flow belongs to. */
static void report_error(struct ring *ring, struct flow *flow, const struct icmp_error *error)
{
	for (unsigned i = 0; i < INET_KINDS; i++) {
		if (sock_kinds[i]->icmp_error && flow->deliver == sock_kinds[i]->deliver)
			sock_kinds[i]->icmp_error(ring, flow, error);
	}
}

/* Finds the flow that the error quotes, on any ring. */
static void find_and_report(const struct icmp_error *error)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);
		struct flow *flow = NULL;

		if (!ring_queue(ring) || !ring_hold_cold(ring))
			continue;
		if (ring_is_open(ring))
			flow = flow_lookup(&ring->flows, &error->key);
		if (flow)
			report_error(ring, flow, error);
		ring_release_cold(ring);
		if (flow)
			return;
	}
}

/* The internal thread: acts on the messages that have arrived. */
static void read_messages(void)
{
	uint8_t packet[256]; /* headers, and the quoted part of our frame */

	for (unsigned i = 0; i < BATCH; i++) {
		struct icmp_error error;
		ssize_t n = sys_recvfrom(icmp_fd, packet, sizeof(packet), MSG_DONTWAIT, NULL, NULL);

		if (n < 0)
			return;
		if (icmp_parse_error(packet, (size_t)n, &error))
			find_and_report(&error);
	}
}

/* Lets errors pass only, so that no ping wakes the internal thread. */
static int set_filter(int fd)
{
	uint32_t refused =
		~(1u << ICMP_DEST_UNREACH | 1u << ICMP_TIME_EXCEEDED | 1u << ICMP_PARAMETERPROB);

	return sys_setsockopt(fd, SOL_RAW, ICMP_FILTER, &refused, sizeof(refused));
}

void sock_icmp_open(void)
{
	int fd = sys_socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMP), rc;

	control_assert_held();
	if (fd >= 0)
		fd = sys_fd_hide(fd);
	if (fd < 0) {
		log_debug("no raw socket (%s): ICMP errors do not reach accelerated connections",
			  strerror(-fd));
		return;
	}
	rc = set_filter(fd);
	if (rc) {
		sys_close(fd);
		return;
	}
	icmp_fd = fd;
	progress_watch(fd, read_messages);
}

void sock_icmp_forget(void)
{
	progress_watch(-1, read_messages);
	sys_close_fd(&icmp_fd);
}
