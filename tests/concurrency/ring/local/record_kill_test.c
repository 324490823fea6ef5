/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record ring with several processes that write, some of which are killed at any instant: what
 * the others send arrives in order, or is counted as dropped, and nothing of the ring is lost.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/record_read.h"
#include "pair.h"

#define CELLS RECORD_CELLS_MIN
#define STEADY 2u  /* writers that live until the end */
#define KILLED 2u  /* writers that are killed, and replaced by new ones */
#define ROUNDS 400 /* deaths */
#define LEN_MAX 700u
#define HEARD_MIN 1000u /* records of each steady writer, however busy the machine is */

static struct common {
	struct record_ring_shared *ring;
	bool stop; /* any, atomic */
	struct {
		uint64_t sent, dropped; /* a steady writer's; read when it has ended */
	} steady[STEADY];
} * c;

static struct record_ring_reader reader, *r = &reader;
static uint64_t heard[STEADY]; /* the next number of each, less those that it dropped */
static uint64_t last[STEADY];
static uint64_t from_killed, at_once;

/* The writer's number; its index among the steady ones, or STEADY. */
struct start {
	uint32_t number, index;
};

static void *write_records(void *arg)
{
	const struct start *start = arg;
	struct record_ring_writer w;
	static uint8_t bytes[LEN_MAX];
	unsigned seed = 4711 + start->number;
	uint64_t n = 1;

	TEST_CHECK(!record_ring_writer_open(&w, c->ring, CELLS, start->number));
	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		struct record_header header = {
			.time = n, .from = start->index, .ifindex = start->number};
		size_t len = (size_t)rand_r(&seed) % LEN_MAX;
		struct iovec iov = {.iov_base = bytes, .iov_len = len};
		int rc;

		memset(bytes, (uint8_t)(n + start->number), len);
		rc = record_ring_write(&w, &header, &iov, 1, len);
		TEST_CHECK(!rc || rc == -ENOBUFS);
		if (start->index < STEADY) {
			c->steady[start->index].sent++;
			c->steady[start->index].dropped += rc == -ENOBUFS;
		}
		n++;
		if (rc)
			sched_yield();
	}
	return NULL;
}

/* The bytes of a record are of one send. */
static void look_at(const struct record_header *h, const uint8_t *bytes, ssize_t n)
{
	assert_int_equal(n, h->len);
	for (ssize_t i = 0; i < n; i++)
		assert_int_equal(bytes[i], (uint8_t)(h->time + h->ifindex));
	if (h->from < STEADY) {
		assert_true(h->time > last[h->from]);
		last[h->from] = h->time;
		heard[h->from]++;
	} else {
		from_killed++;
	}
}

/* Takes in a record, at once if that is possible. */
static int take_in(void)
{
	static uint8_t bytes[LEN_MAX + 1];
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct record_header header;
	ssize_t n = record_ring_read_at_once(r, &header, bytes, sizeof(bytes));
	int rc;

	if (n != -EAGAIN) {
		look_at(&header, bytes, n);
		at_once++;
		return 0;
	}
	rc = record_ring_peek(r);
	if (rc)
		return rc;
	look_at(&r->record.header, bytes, record_ring_copy(r, 0, &iov, 1));
	record_ring_consume(r);
	return 0;
}

static unsigned drain(unsigned most)
{
	unsigned n = 0;
	int rc = 0;

	while (n < most && !(rc = take_in()))
		n++;
	assert_true(!rc || rc == -EAGAIN);
	return n;
}

static pid_t start_writer(uint32_t index, uint32_t *number)
{
	int given = record_ring_add_writer(r);
	struct start start;

	assert_true(given >= 0);
	*number = (uint32_t)given;
	start = (struct start){.number = *number, .index = index};
	return pair_fork(write_records, &start);
}

/* Takes in for a random time, so that the death comes at any instant. */
static void go_on(unsigned *seed)
{
	nsec_t end = clock_now() + (nsec_t)rand_r(seed) % (2 * NSEC_PER_MSEC);

	while (clock_now() < end)
		drain(10);
}

static bool all_are_heard(void)
{
	for (uint32_t i = 0; i < STEADY; i++) {
		if (heard[i] < HEARD_MIN)
			return false;
	}
	return true;
}

static void stop_writers(const pid_t *steady)
{
	int status;

	__atomic_store_n(&c->stop, true, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < STEADY; i++) {
		/* They send on until they see it, and drop what has no room. */
		assert_int_equal(waitpid(steady[i], &status, 0), steady[i]);
		assert_int_equal(status, 0);
	}
	while (drain(1000))
		;
}

static void test_writers_are_killed(void **state)
{
	pid_t steady[STEADY], killed[KILLED];
	uint32_t numbers[STEADY], dying[KILLED];
	unsigned seed = 4711, passed = 0;

	c = pair_memory(sizeof(*c));
	c->ring = pair_memory(record_ring_size(CELLS));
	assert_int_equal(record_ring_init(r, c->ring, CELLS, CELLS), 0);
	for (uint32_t i = 0; i < STEADY; i++)
		steady[i] = start_writer(i, &numbers[i]);
	for (uint32_t i = 0; i < KILLED; i++)
		killed[i] = start_writer(STEADY, &dying[i]);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t k = i % KILLED;

		go_on(&seed);
		kill(killed[k], SIGKILL);
		assert_int_equal(waitpid(killed[k], NULL, 0), killed[k]);
		/* What it had reserved is among this. */
		drain(CELLS);
		passed += r->n_holes;
		record_ring_writer_gone(r, dying[k]);
		killed[k] = start_writer(STEADY, &dying[k]);
	}
	while (!all_are_heard())
		drain(10);
	for (uint32_t i = 0; i < KILLED; i++) {
		kill(killed[i], SIGKILL);
		waitpid(killed[i], NULL, 0);
		record_ring_writer_gone(r, dying[i]);
	}
	stop_writers(steady);
	for (uint32_t i = 0; i < STEADY; i++) {
		assert_int_equal(heard[i], c->steady[i].sent - c->steady[i].dropped);
		record_ring_writer_gone(r, numbers[i]);
	}
	assert_int_equal(c->ring->head, r->next);
	assert_int_equal(r->n_holes, 0);
	/* Every number can be given again. */
	for (uint32_t i = 0; i < RECORD_WRITERS; i++)
		assert_int_equal(record_ring_add_writer(r), i);
	print_message("%lu and %lu records, %lu of those killed, %lu at once, %u passed over\n",
		      (unsigned long)heard[0], (unsigned long)heard[1], (unsigned long)from_killed,
		      (unsigned long)at_once, passed);
}

static int init(void **state)
{
	clock_init();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_writers_are_killed),
};

VMA_TEST_MAIN("record_kill", tests, init, NULL)
