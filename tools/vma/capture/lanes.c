/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/capture/lanes.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int refuse(struct lanes *lanes, int rc, const char *text, char why[LANES_WHY])
{
	lanes_close(lanes);
	snprintf(why, LANES_WHY, "%s", text);
	return rc;
}

/* Checks what the process stores once, and copies it. */
static bool check_header(struct lanes *lanes, uint64_t size)
{
	const struct capture_header h = *(const volatile struct capture_header *)lanes->header;

	if (h.magic != CAPTURE_MAGIC || h.version != CAPTURE_VERSION ||
	    h.lanes_at != CAPTURE_LANES_AT || h.shift < CAPTURE_SHIFT_MIN ||
	    h.shift > CAPTURE_SHIFT_MAX || size < capture_size(h.shift) || !h.snap ||
	    h.snap > CAPTURE_SNAP_MAX)
		return false;
	lanes->size = 1ull << h.shift;
	lanes->snap = h.snap;
	return true;
}

int lanes_open(struct lanes *lanes, int fd, char why[LANES_WHY])
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	*lanes = (struct lanes){.fd = fd};
	/* Else the process could cut it off while we read: SIGBUS. */
	if (seals < 0 || (seals & SEALS) != SEALS)
		return refuse(lanes, -EBADMSG, "its memory is not sealed", why);
	if (fstat(fd, &st) || (uint64_t)st.st_size < CAPTURE_LANES_AT)
		return refuse(lanes, -EBADMSG, "its memory is too short", why);
	lanes->header =
		mmap(NULL, CAPTURE_LANES_AT, PROT_READ | PROT_WRITE, MAP_SHARED, lanes->fd, 0);
	if (lanes->header == MAP_FAILED) {
		lanes->header = NULL;
		return refuse(lanes, -errno, "its memory cannot be mapped", why);
	}
	if (!check_header(lanes, (uint64_t)st.st_size))
		return refuse(lanes, -EBADMSG, "its memory is not that of a capture", why);
	return 0;
}

void lanes_close(struct lanes *lanes)
{
	for (unsigned i = 0; i < lanes->n; i++)
		munmap((void *)(uintptr_t)lanes->lane[i].data, lanes->size);
	if (lanes->header)
		munmap(lanes->header, CAPTURE_LANES_AT);
	lanes->header = NULL;
	lanes->n = 0;
	close(lanes->fd);
}

static void copy_name(char to[CAPTURE_NAME], const char *from)
{
	unsigned i;

	for (i = 0; i + 1 < CAPTURE_NAME && from[i]; i++)
		to[i] = isgraph((unsigned char)from[i]) ? from[i] : '?';
	to[i] = '\0';
}

unsigned lanes_look(struct lanes *lanes)
{
	while (lanes->n < CAPTURE_LANES) {
		struct lane *lane = &lanes->lane[lanes->n];
		struct capture_lane shared;
		void *data;

		/* Acquire: pairs with the process, which stores it last. */
		if (!__atomic_load_n(&lanes->header->lanes[lanes->n].used, __ATOMIC_ACQUIRE))
			break;
		memcpy(&shared, &lanes->header->lanes[lanes->n], sizeof(shared));
		data = mmap(NULL, lanes->size, PROT_READ, MAP_SHARED, lanes->fd,
			    (off_t)(CAPTURE_LANES_AT + lanes->n * lanes->size));
		if (data == MAP_FAILED)
			break;
		*lane = (struct lane){.data = data, .ring = shared.ring};
		copy_name(lane->interface, shared.interface);
		lanes->n++;
	}
	return lanes->n;
}

/* ---- records -------------------------------------------------------------------------- */

/* At most `left` bytes until the end of the lane, of which `there` are written. */
static bool is_record(const struct capture_record *r, uint64_t left, uint64_t there)
{
	return r->size >= sizeof(*r) && !(r->size & 7) && r->size <= left && r->size <= there &&
	       r->kept <= r->size - sizeof(*r) && r->kept <= r->len && r->kept <= CAPTURE_SNAP_MAX;
}

/* Reads the record at tail into ->next; skips the end of the lane, where there is none. */
static void peek(const struct lanes *lanes, struct lane *lane, const uint64_t *shared_head)
{
	/* Acquire: pairs with capture_publish(). */
	uint64_t head = __atomic_load_n(shared_head, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < 2 && !lane->waits && !lane->broken; i++) {
		uint64_t there = head - lane->tail, at = lane->tail & (lanes->size - 1);
		uint64_t left = lanes->size - at;
		struct capture_record r = {.size = (uint32_t)left, .flags = CAPTURE_PAD};

		if (!there)
			return;
		if (there > lanes->size || there & 7) {
			lane->broken = true;
			return;
		}
		if (left >= sizeof(r))
			memcpy(&r, lane->data + at, sizeof(r));
		if (r.flags & CAPTURE_PAD) {
			lane->broken = r.size != left || left > there;
			lane->tail += left;
		} else {
			lane->broken = !is_record(&r, left, there);
			lane->waits = !lane->broken;
			lane->next = r;
		}
	}
}

static void take(struct lanes *lanes, unsigned i, struct lanes_frame *frame)
{
	static uint8_t data[CAPTURE_SNAP_MAX];
	struct lane *lane = &lanes->lane[i];
	const struct capture_record *r = &lane->next;

	memcpy(data, lane->data + (lane->tail & (lanes->size - 1)) + sizeof(*r), r->kept);
	*frame = (struct lanes_frame){.lane = i,
				      .sent = r->flags & CAPTURE_SENT,
				      .len = r->len,
				      .kept = r->kept,
				      .when = r->when,
				      .data = data};
	lane->tail += r->size;
	lane->waits = false;
	/* Release: pairs with has_room(): the process does not overwrite it before it is copied. */
	__atomic_store_n(&lanes->header->lanes[i].tail, lane->tail, __ATOMIC_RELEASE);
}

bool lanes_take(struct lanes *lanes, uint64_t until, struct lanes_frame *frame)
{
	const struct lane *oldest = NULL;

	for (unsigned i = 0; i < lanes->n; i++) {
		struct lane *lane = &lanes->lane[i];

		peek(lanes, lane, &lanes->header->lanes[i].head);
		if (lane->waits && (!oldest || lane->next.when < oldest->next.when))
			oldest = lane;
	}
	if (!oldest || (lanes->n > 1 && oldest->next.when > until))
		return false;
	take(lanes, (unsigned)(oldest - lanes->lane), frame);
	return true;
}

/* ---- counts --------------------------------------------------------------------------- */

void lanes_counts(const struct lanes *lanes, unsigned lane, uint64_t *frames, uint64_t *drops)
{
	*frames = __atomic_load_n(&lanes->header->lanes[lane].frames, __ATOMIC_RELAXED);
	*drops = __atomic_load_n(&lanes->header->lanes[lane].drops, __ATOMIC_RELAXED);
}

uint32_t lanes_without(const struct lanes *lanes)
{
	return __atomic_load_n(&lanes->header->without_lane, __ATOMIC_RELAXED);
}

bool lanes_are_broken(const struct lanes *lanes)
{
	for (unsigned i = 0; i < lanes->n; i++)
		if (lanes->lane[i].broken)
			return true;
	return false;
}
