/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads give packets of a local connection back, in another order than they came, while the peer writes and the
 * program takes more, and after it has closed the connection: no byte is written over while a packet has it, none is
 * lost, and in the end all the room is back.
 */
#include <pthread.h>

#include "conn_fixture.h"
#include "sock/core/extra/held.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/local/local_link_internal.h"

/* In any thread: cmocka's assertions jump to the first one. */
#define MUST(what)                                                    \
	do {                                                          \
		if (!(what)) {                                        \
			fprintf(stderr, "%d: %s\n", __LINE__, #what); \
			abort();                                      \
		}                                                     \
	} while (0)

#define ROUNDS 10
#define BYTES (20u * LOCAL_RING_MIN) /* of a round */
#define FREERS 2
#define WAITING 32 /* packets for a freer */

struct parcel {
	struct held_piece piece;
	uint64_t from; /* position of its first byte */
};

static struct sock_ref ref;
static struct byte_ring_reader in;
static struct byte_ring_writer out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct parcel parcels[WAITING]; /* lock; the oldest first */
static unsigned n_parcels;	       /* lock */
static bool over;		       /* lock: no more come */
static unsigned pause_at; /* lock: so many, the newest ones, stay until over: after close() */

static uint8_t byte_at(uint64_t position)
{
	return (uint8_t)(position * 7 + (position >> 8));
}

static void *write_all(void *arg)
{
	uint64_t done = 0;

	(void)arg;
	while (done < BYTES) {
		uint8_t bytes[700];
		struct iovec iov = {bytes, 1 + done % sizeof(bytes)};
		ssize_t n;

		if (iov.iov_len > BYTES - done)
			iov.iov_len = BYTES - done;
		for (size_t i = 0; i < iov.iov_len; i++)
			bytes[i] = byte_at(done + i);
		n = byte_ring_write(&out, &iov, 1, 0);
		if (n == -EAGAIN || n == 0) {
			sched_yield();
			continue;
		}
		MUST(n > 0);
		done += (uint64_t)n;
	}
	return NULL;
}

/* Any of those that wait. */
static bool next_parcel(struct parcel *parcel, unsigned *seed)
{
	bool got = false;

	pthread_mutex_lock(&lock);
	if (n_parcels > (over ? 0 : pause_at)) {
		unsigned i = (unsigned)rand_r(seed) % (n_parcels - (over ? 0 : pause_at));

		*parcel = parcels[i];
		n_parcels--;
		memmove(&parcels[i], &parcels[i + 1], (n_parcels - i) * sizeof(*parcel));
		got = true;
	}
	pthread_mutex_unlock(&lock);
	return got;
}

static bool is_over(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = over && !n_parcels;
	pthread_mutex_unlock(&lock);
	return is;
}

static void *free_all(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct parcel parcel;

	while (!is_over()) {
		const uint8_t *bytes;

		if (!next_parcel(&parcel, &seed)) {
			sched_yield();
			continue;
		}
		bytes = parcel.piece.iov.iov_base;
		for (size_t i = 0; i < parcel.piece.iov.iov_len; i++)
			MUST(bytes[i] == byte_at(parcel.from + i));
		MUST(!sock_free_packet(parcel.piece.packet_id, ref));
	}
	return NULL;
}

/* A freer gets it, when there is room. */
static void give(const struct held_piece *piece, uint64_t from)
{
	bool given = false;

	while (!given) {
		pthread_mutex_lock(&lock);
		if (n_parcels < WAITING) {
			parcels[n_parcels++] = (struct parcel){*piece, from};
			given = true;
		}
		pthread_mutex_unlock(&lock);
		if (!given)
			sched_yield();
	}
}

/* The one that comes next stays. */
static void keep_last(void)
{
	pthread_mutex_lock(&lock);
	pause_at = 1;
	pthread_mutex_unlock(&lock);
}

/* What the program does: takes all packets. */
static void take_all(void)
{
	uint64_t at = 0;

	while (at < BYTES) {
		struct held_record got;
		struct iovec iov = {&got, sizeof(got)};
		struct sock_zcopy zcopy = {.msg = {.msg_iov = &iov, .msg_iovlen = 1}};
		ssize_t n = sock_recv_zcopy(ref, &zcopy, MSG_DONTWAIT);

		if (n == -EAGAIN || n == -ENOBUFS) {
			sched_yield();
			continue;
		}
		MUST(n > 0 && zcopy.done);
		if (at + (uint64_t)n == BYTES)
			keep_last();
		give(&got.packet, at);
		at += (uint64_t)n;
	}
}

static void open_conn(void)
{
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	ring_release_cold(local_ring());
	ref = sock_ref_of(so);
	n_parcels = 0;
	over = false;
	pause_at = 0;
}

static void close_conn(void)
{
	assert_true(ring_hold_cold(local_ring()));
	end();
	ring_release_cold(local_ring());
}

static void test_all_bytes_stay_while_they_are_needed(void **state)
{
	pthread_t threads[1 + FREERS];

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		open_conn();
		pthread_create(&threads[0], NULL, write_all, NULL);
		for (uintptr_t i = 1; i <= FREERS; i++)
			pthread_create(&threads[i], NULL, free_all, (void *)(i + round));
		take_all();
		pthread_join(threads[0], NULL);
		close_conn();
		pthread_mutex_lock(&lock);
		over = true;
		pthread_mutex_unlock(&lock);
		for (unsigned i = 1; i <= FREERS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(held_count(), 0);
		assert_int_equal(link_to_us->used, 0);
		assert_int_equal(byte_ring_unread(&out), 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_all_bytes_stay_while_they_are_needed),
};

VMA_TEST_MAIN("local_zcopy_race", tests, setup, teardown)
