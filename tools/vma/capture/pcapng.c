/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/capture/pcapng.h"

#include <string.h>

/* Types of blocks, section 4. */
#define BLOCK_SECTION 0x0a0d0d0au
#define BLOCK_INTERFACE 1u
#define BLOCK_STATISTICS 5u
#define BLOCK_PACKET 6u

#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINKTYPE_ETHERNET 1u
#define RESOLUTION_NSEC 9u /* if_tsresol: 10^-9 */
#define FLAG_INBOUND 1u	   /* epb_flags */
#define FLAG_OUTBOUND 2u

/* Codes of options. */
enum { OPT_END = 0, OPT_COMMENT = 1 };
enum { SHB_APPLICATION = 4 };
enum { IF_NAME = 2, IF_DESCRIPTION = 3, IF_RESOLUTION = 9, IF_FILTER = 11 };
enum { EPB_FLAGS = 2 };
enum { ISB_START = 2, ISB_END, ISB_RECEIVED, ISB_DROPPED, ISB_ACCEPTED, ISB_DELIVERED = 8 };

#define OPTIONS_MAX 2048

/* Options of one block; those that do not fit are left out. */
struct options {
	uint32_t len;
	uint8_t bytes[OPTIONS_MAX];
};

static uint32_t padded(uint32_t len)
{
	return (len + 3) & ~3u;
}

static void add(struct options *o, uint16_t code, const void *value, uint32_t len)
{
	const uint16_t head[2] = {code, (uint16_t)len};

	if (padded(len) + 2 * sizeof(head) > OPTIONS_MAX - o->len) /* room for the end, too */
		return;
	memcpy(o->bytes + o->len, head, sizeof(head));
	memset(o->bytes + o->len + sizeof(head), 0, padded(len));
	memcpy(o->bytes + o->len + sizeof(head), value, len);
	o->len += (uint32_t)sizeof(head) + padded(len);
}

static void add_text(struct options *o, uint16_t code, const char *text)
{
	if (text[0])
		add(o, code, text, (uint32_t)strnlen(text, PCAPNG_COMMENT));
}

/* Times in options and blocks: the upper half first. */
static void split(uint64_t when, uint32_t halves[2])
{
	halves[0] = (uint32_t)(when >> 32);
	halves[1] = (uint32_t)when;
}

static void add_time(struct options *o, uint16_t code, uint64_t when)
{
	uint32_t halves[2];

	split(when, halves);
	add(o, code, halves, sizeof(halves));
}

/* A block: its type, its fixed part, data that is padded, options. */
static void put_block(FILE *out, uint32_t type, const void *fixed, uint32_t fixed_len,
		      const void *data, uint32_t data_len, struct options *o)
{
	const uint32_t zero = 0;
	uint32_t total = 12 + fixed_len + padded(data_len);

	if (o->len) {
		memset(o->bytes + o->len, 0, 4); /* OPT_END */
		o->len += 4;
	}
	total += o->len;
	fwrite(&type, sizeof(type), 1, out);
	fwrite(&total, sizeof(total), 1, out);
	fwrite(fixed, 1, fixed_len, out);
	fwrite(data, 1, data_len, out);
	fwrite(&zero, 1, padded(data_len) - data_len, out);
	fwrite(o->bytes, 1, o->len, out);
	fwrite(&total, sizeof(total), 1, out);
}

void pcapng_begin(FILE *out, const char *application)
{
	const struct {
		uint32_t magic;
		uint16_t major, minor;
		uint64_t length; /* all ones: not known */
	} __attribute__((packed)) fixed = {BYTE_ORDER_MAGIC, 1, 0, UINT64_MAX};
	struct options o = {0};

	add_text(&o, SHB_APPLICATION, application);
	put_block(out, BLOCK_SECTION, &fixed, sizeof(fixed), "", 0, &o);
}

void pcapng_interface(FILE *out, const char *name, const char *description, uint32_t snap,
		      const char *filter)
{
	const struct {
		uint16_t type, reserved;
		uint32_t snap;
	} fixed = {LINKTYPE_ETHERNET, 0, snap};
	const uint8_t resolution = RESOLUTION_NSEC;
	struct options o = {0};
	char text[PCAPNG_COMMENT];

	add_text(&o, IF_NAME, name);
	add_text(&o, IF_DESCRIPTION, description);
	add(&o, IF_RESOLUTION, &resolution, sizeof(resolution));
	text[0] = '\0'; /* what follows is text in the language of libpcap */
	if (filter[0]) {
		snprintf(text + 1, sizeof(text) - 1, "%s", filter);
		add(&o, IF_FILTER, text, 1 + (uint32_t)strlen(text + 1));
	}
	put_block(out, BLOCK_INTERFACE, &fixed, sizeof(fixed), "", 0, &o);
}

void pcapng_packet(FILE *out, const struct pcapng_packet *packet)
{
	struct {
		uint32_t interface, when[2], kept, len;
	} fixed = {.interface = packet->interface, .kept = packet->kept, .len = packet->len};
	const uint32_t flags = packet->sent ? FLAG_OUTBOUND : FLAG_INBOUND;
	struct options o; /* not cleared: it is large */

	o.len = 0;
	split(packet->when, fixed.when);
	add_text(&o, OPT_COMMENT, packet->comment);
	add(&o, EPB_FLAGS, &flags, sizeof(flags));
	put_block(out, BLOCK_PACKET, &fixed, sizeof(fixed), packet->data, packet->kept, &o);
}

void pcapng_statistics(FILE *out, const struct pcapng_counts *counts)
{
	struct {
		uint32_t interface, when[2];
	} fixed = {.interface = counts->interface};
	struct options o = {0};

	split(counts->to, fixed.when);
	add_time(&o, ISB_START, counts->from);
	add_time(&o, ISB_END, counts->to);
	add(&o, ISB_RECEIVED, &counts->received, sizeof(counts->received));
	add(&o, ISB_DROPPED, &counts->dropped, sizeof(counts->dropped));
	add(&o, ISB_ACCEPTED, &counts->accepted, sizeof(counts->accepted));
	add(&o, ISB_DELIVERED, &counts->delivered, sizeof(counts->delivered));
	put_block(out, BLOCK_STATISTICS, &fixed, sizeof(fixed), "", 0, &o);
}
