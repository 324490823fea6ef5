/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A byte ring between two threads, and between two processes: the stream arrives whole, and no
 * side sleeps while there is something for it.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "ring/local/byte_ring.h"
#include "ring/local/notice.h"
#include "pair.h"

#define CAPACITY 1024u
#define LIMIT_MS 30000 /* a side that sleeps so long was not woken */
#define TIME (400 * NSEC_PER_MSEC)
#define PATIENCE (60 * NSEC_PER_SEC) /* longer than that, until each side has done something */
#define PIECE 300u

static struct stream {
	struct byte_ring_shared ring;
	uint8_t data[CAPACITY];
	struct notice_lane lane[2]; /* to the reader, to the writer */
	/* set before the sides start */
	int wake[2];
	bool fenced;
	nsec_t end;
	/* any, atomic: of the reader and of the writer; of the reader */
	uint64_t sleeps[2];
	uint64_t bytes, heard;
} * s;

/* One side: sleeps until the other posts, or there is something. */
struct side {
	struct notice_reader in;
	struct notice_writer out;
	int wake;
	uint64_t *sleeps;
	uint32_t heard;
};

static void hear(void *arg, uint32_t conn)
{
	struct side *side = arg;

	TEST_CHECK(conn < 8); /* a late reader hears of the whole group */
	side->heard++;
}

static void open_side(struct side *side, int which)
{
	*side = (struct side){.wake = s->wake[which], .sleeps = &s->sleeps[which]};
	TEST_CHECK(!notice_reader_open(&side->in, &s->lane[which], 8));
	TEST_CHECK(!notice_writer_open(&side->out, &s->lane[1 - which], 8, s->wake[1 - which]));
	if (s->fenced)
		side->out.fenced = true;
}

/* ready: says whether there is something that needs no notice. */
static void sleep_side(struct side *side, bool (*ready)(void *), void *arg)
{
	struct pollfd pfd = {.fd = side->wake, .events = POLLIN};
	uint64_t n;

	notice_arm(&side->in);
	TEST_CHECK(notice_barrier());
	if (!ready(arg) && !notice_is_posted(&side->in)) {
		__atomic_fetch_add(side->sleeps, 1, __ATOMIC_RELAXED);
		TEST_CHECK(poll(&pfd, 1, LIMIT_MS) == 1);
	}
	notice_disarm(&side->in);
	(void)!read(side->wake, &n, sizeof(n));
	notice_take(&side->in, hear, side);
}

static bool has_bytes(void *arg)
{
	return byte_ring_readable(arg) || byte_ring_end(arg) != BYTE_RING_OPEN;
}

static bool has_space(void *arg)
{
	return byte_ring_space(arg);
}

static uint8_t byte_at(uint64_t position)
{
	return (uint8_t)(position * 31 + (position >> 8));
}

static uint64_t number(const uint64_t *of)
{
	return __atomic_load_n(of, __ATOMIC_RELAXED);
}

static bool is_enough(void)
{
	return number(&s->bytes) > 10000 && number(&s->heard) > 10 && number(&s->sleeps[0]) &&
	       number(&s->sleeps[1]);
}

static bool goes_on(void)
{
	nsec_t now = clock_now();

	return now < s->end || (!is_enough() && now < s->end + PATIENCE);
}

static void *write_all(void *arg)
{
	struct byte_ring_writer w;
	struct side side;
	unsigned seed = 4711;
	uint64_t at = 0;

	open_side(&side, 1);
	TEST_CHECK(!byte_ring_writer_open(&w, &s->ring, s->data, CAPACITY, 100));
	while (goes_on()) {
		uint8_t bytes[PIECE];
		size_t n = (size_t)rand_r(&seed) % PIECE;
		struct iovec iov = {.iov_base = bytes, .iov_len = n};
		ssize_t rc;

		for (size_t i = 0; i < n; i++)
			bytes[i] = byte_at(at + i);
		rc = byte_ring_write(&w, &iov, 1, 0);
		if (rc == -EAGAIN) {
			byte_ring_want_space(&w, (uint32_t)rand_r(&seed) % 100 + 1);
			sleep_side(&side, has_space, &w);
			byte_ring_want_space(&w, 0);
			continue;
		}
		TEST_CHECK(rc >= 0);
		at += (uint64_t)rc;
		if (rc)
			notice_post(&side.out, 3);
		pair_pause(&seed);
	}
	byte_ring_finish(&w);
	notice_post(&side.out, 3);
	return NULL;
}

static void *read_all(void *arg)
{
	struct byte_ring_reader r;
	struct side side;
	unsigned seed = 4712;
	uint64_t at = 0;

	open_side(&side, 0);
	TEST_CHECK(!byte_ring_reader_open(&r, &s->ring, s->data, CAPACITY));
	for (;;) {
		uint8_t bytes[PIECE];
		struct iovec iov = {.iov_base = bytes,
				    .iov_len = (size_t)rand_r(&seed) % PIECE + 1};
		ssize_t n = byte_ring_read(&r, &iov, 1, false);

		if (n == 0)
			break;
		if (n == -EAGAIN) {
			sleep_side(&side, has_bytes, &r);
			continue;
		}
		TEST_CHECK(n > 0);
		for (ssize_t i = 0; i < n; i++)
			TEST_CHECK(bytes[i] == byte_at(at + (uint64_t)i));
		at += (uint64_t)n;
		__atomic_store_n(&s->bytes, at, __ATOMIC_RELAXED);
		__atomic_store_n(&s->heard, side.heard, __ATOMIC_RELAXED);
		if (byte_ring_is_wanted(&r))
			notice_post(&side.out, 3);
		pair_pause(&seed);
	}
	return NULL;
}

static void run(bool child, bool fenced)
{
	struct side side;

	s = pair_memory(sizeof(*s));
	s->fenced = fenced;
	for (int i = 0; i < 2; i++)
		s->wake[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	/* A writer finds lanes that a reader has opened. */
	for (int i = 0; i < 2; i++)
		TEST_CHECK(!notice_reader_open(&side.in, &s->lane[i], 8));
	byte_ring_init(&s->ring, CAPACITY / 2);
	s->end = clock_now() + TIME;
	pair_run(read_all, write_all, NULL, child);
	print_message("slept: reader %lu, writer %lu\n", (unsigned long)s->sleeps[0],
		      (unsigned long)s->sleeps[1]);
	assert_true(is_enough());
	close(s->wake[0]);
	close(s->wake[1]);
}

static void test_between_threads(void **state)
{
	run(false, false);
}

static void test_between_processes(void **state)
{
	run(true, false);
}

static void test_with_fences(void **state)
{
	run(true, true);
}

static int init(void **state)
{
	clock_init();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_between_threads),
	cmocka_unit_test(test_between_processes),
	cmocka_unit_test(test_with_fences),
};

VMA_TEST_MAIN("stream", tests, init, NULL)
