/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capture: whatever a process writes to the memory of a capture, the reader ends and reads nothing
 * beside it, and the file is well-formed pcapng.
 *
 * Input	changes (changes.h) to the header and the beginning of two lanes, as one memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sealed.h"
#include "tests/fuzz/changes.h"
#include "tools/vma/capture/lanes.h"
#include "tools/vma/capture/pcapng.h"
#include "tools/vma/capture/whose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SHIFT CAPTURE_SHIFT_MIN
#define SIZE (1ull << SHIFT)
#define PART 4096u /* of a lane: where changes go */
#define LANES 2u
#define FRAMES_MAX 4096u

#define CHECK(what)              \
	do {                     \
		if (!(what))     \
			abort(); \
	} while (0)

static int fd;
static struct capture_header *header;
static struct snapshot sockets;

static uint8_t *lane_data(unsigned i)
{
	return (uint8_t *)header + capture_lane_at(i, SHIFT);
}

static void make_memory(void)
{
	static struct stats_sock socks[2];

	fd = sealed_create(CAPTURE_MEMFD, capture_size(SHIFT));
	CHECK(fd >= 0);
	header = mmap(NULL, capture_size(SHIFT), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(header != MAP_FAILED);
	socks[0] = (struct stats_sock){.accelerated = 1, .type = STATS_UDP, .local_port = 1};
	socks[1] = (struct stats_sock){.accelerated = 1, .type = STATS_TCP, .remote_port = 1};
	sockets.socks = socks;
	sockets.n_socks = 2;
}

/* As a process that behaves. */
static void fill(void)
{
	static const uint8_t frame[200] = {[12] = 8, [14] = 0x45, [23] = 17};

	memset(header, 0, sizeof(*header));
	header->magic = CAPTURE_MAGIC;
	header->version = CAPTURE_VERSION;
	header->shift = SHIFT;
	header->snap = 150;
	header->lanes_at = CAPTURE_LANES_AT;
	for (unsigned i = 0; i < LANES; i++) {
		struct capture_writer writer;

		header->lanes[i].interface[0] = 'v';
		capture_writer_init(&writer, &header->lanes[i], lane_data(i), SIZE, header->snap);
		for (uint64_t n = 0; n < 8; n++)
			capture_put(&writer, frame, (uint32_t)(20 * n), (uint32_t)n & 1, 2 * n + i);
		capture_publish(&writer);
		header->lanes[i].used = 1;
	}
}

/* Applies the changes to what a process and its holders can write. */
static void change(const uint8_t *data, size_t size)
{
	static uint8_t whole[sizeof(struct capture_header) + LANES * PART];
	uint8_t *at = whole + sizeof(*header);

	memcpy(whole, header, sizeof(*header));
	for (unsigned i = 0; i < LANES; i++)
		memcpy(at + i * PART, lane_data(i), PART);
	changes_apply(whole, sizeof(whole), data, size);
	memcpy(header, whole, sizeof(*header));
	for (unsigned i = 0; i < LANES; i++)
		memcpy(lane_data(i), at + i * PART, PART);
}

/* Blocks, each with its length at both ends; options end within. */
static void check_file(const char *bytes, size_t size)
{
	while (size) {
		uint32_t total, again;

		CHECK(size >= 12);
		memcpy(&total, bytes + 4, sizeof(total));
		CHECK(total >= 12 && total % 4 == 0 && total <= size);
		memcpy(&again, bytes + total - 4, sizeof(again));
		CHECK(total == again);
		bytes += total;
		size -= total;
	}
}

static void write_frame(FILE *out, const struct lanes *lanes, const struct lanes_frame *frame)
{
	const struct lane *lane = &lanes->lane[frame->lane];
	const struct stats_sock *sock = NULL;
	char comment[WHOSE_TEXT];
	struct whose_key key;
	bool exact, known = whose_key_of(frame->data, frame->kept, frame->sent, &key);

	if (known)
		sock = whose_find(&sockets, &key, &exact);
	whose_text(lane->interface, lane->ring, known ? &key : NULL, sock, comment);
	pcapng_packet(out, &(struct pcapng_packet){.interface = frame->lane,
						   .sent = frame->sent,
						   .when = frame->when,
						   .data = frame->data,
						   .kept = frame->kept,
						   .len = frame->len,
						   .comment = comment});
}

static void write_file(FILE *out, struct lanes *lanes)
{
	struct lanes_frame frame;

	pcapng_begin(out, "fuzz");
	for (unsigned i = 0; i < lanes_look(lanes); i++)
		pcapng_interface(out, lanes->lane[i].interface, "", lanes->snap, "udp");
	for (unsigned n = 0; n < FRAMES_MAX && lanes_take(lanes, UINT64_MAX, &frame); n++)
		write_frame(out, lanes, &frame);
	for (unsigned i = 0; i < lanes->n; i++) {
		struct pcapng_counts counts = {.interface = i};

		lanes_counts(lanes, i, &counts.received, &counts.dropped);
		pcapng_statistics(out, &counts);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = NULL, why[LANES_WHY];
	struct lanes lanes;
	size_t n = 0;
	FILE *out;

	if (!header)
		make_memory();
	fill();
	change(data, size);
	if (lanes_open(&lanes, dup(fd), why))
		return 0;
	out = open_memstream(&bytes, &n);
	CHECK(out);
	write_file(out, &lanes);
	CHECK(!fclose(out));
	check_file(bytes, n);
	free(bytes);
	lanes_close(&lanes);
	return 0;
}
