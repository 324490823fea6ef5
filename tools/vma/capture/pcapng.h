/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes pcapng (draft-ietf-opsawg-pcapng): one section, Ethernet interfaces, times in
 * nanoseconds.
 *
 * Errors are those of the stream: the caller looks at ferror().
 */
#ifndef TOOLS_VMA_CAPTURE_PCAPNG_H
#define TOOLS_VMA_CAPTURE_PCAPNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PCAPNG_COMMENT 512 /* bytes of a comment, at most */

/* The beginning of the file.  application: what wrote it. */
void pcapng_begin(FILE *out, const char *application);

/* The next interface: the first one has number 0.  filter: "" if there is none. */
void pcapng_interface(FILE *out, const char *name, const char *description, uint32_t snap,
		      const char *filter);

struct pcapng_packet {
	uint32_t interface;
	bool sent;     /* else received */
	uint64_t when; /* nsec since 1970 */
	const uint8_t *data;
	uint32_t kept, len; /* bytes at data, bytes that the frame had */
	const char *comment;
};
void pcapng_packet(FILE *out, const struct pcapng_packet *packet);

/* The counts of an interface; from and to: nsec since 1970. */
struct pcapng_counts {
	uint32_t interface;
	uint64_t from, to;
	uint64_t received; /* on the interface, with those that were dropped */
	uint64_t dropped;
	uint64_t accepted;  /* by the filter */
	uint64_t delivered; /* written to the file */
};
void pcapng_statistics(FILE *out, const struct pcapng_counts *counts);

#endif
