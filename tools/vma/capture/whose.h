/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose is a frame: which socket of the process sent or gets it, as the page of statistics says.
 *
 * Frames and pages are those of another process: anything may be in them.
 */
#ifndef TOOLS_VMA_CAPTURE_WHOSE_H
#define TOOLS_VMA_CAPTURE_WHOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/vma_stats/reader.h"

/* From the process's point of view; addresses and ports in network byte order. */
struct whose_key {
	uint8_t proto; /* IPPROTO_UDP or IPPROTO_TCP */
	struct stats_addr local_addr, remote_addr;
	uint16_t local_port, remote_port;
};

/* False: it is not UDP or TCP over IP, or its ports are not in these bytes. */
bool whose_key_of(const uint8_t *frame, size_t len, bool sent, struct whose_key *key);

/*
 * The accelerated socket that the frame belongs to: a connected one, else one that listens or is
 * bound there.  NULL: none that the snapshot has.  exact: a connected one.
 */
const struct stats_sock *whose_find(const struct snapshot *s, const struct whose_key *key,
				    bool *exact);

#define WHOSE_TEXT 256

/*
 * The verdict of a frame in one line: what it went over, its addresses, and the descriptor of its
 * socket.  key, sock: NULL if unknown.
 */
void whose_text(const char *interface, uint32_t ring, const struct whose_key *key,
		const struct stats_sock *sock, char text[WHOSE_TEXT]);

#endif
