/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socketxtreme: each packet is reported once and in order, wherever its socket lives; its buffer is
 * freed once, by any thread, whatever happens to the socket and its ring; what a program holds is
 * limited.  loop_net_finish() finds packets that are lost.
 */
#include "duo.h"
#include "freers.h"
#include "vma_test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "net/tcp/tcp_rare.h"
#include "ring/rings.h"
#include "sock/core/extra/xtreme.h"
#include "sock/core/ready.h"

static struct tsock listener;
static struct duo duo;

static void open_duo(enum duo_kind kind)
{
	duo_open(&duo, kind, &listener);
	NET_CHECK_EQ(xtreme_begin(duo.end[1].ref, duo.end[1].fd), 0);
}

static void begin(enum duo_kind kind)
{
	params.socketxtreme = true;
	duo_begin();
	listener = kind == DUO_TCP ? duo_listener(7100) : TSOCK_NONE;
	open_duo(kind);
}

static void finish(void)
{
	duo_close(&duo);
	xtreme_run();
	duo_end(listener.fd >= 0 ? &listener : NULL);
}

/* The completions of this thread's last poll. */
static __thread struct vma_completion_t completions[XTREME_BATCH];

static void poll_number(unsigned ring, struct xtreme_batch *b, unsigned max)
{
	b->max = max;
	b->completions = completions;
	xtreme_poll(ring, b);
}

/* One poll of the ring where the socket lives, for up to max completions. */
static unsigned poll_ring(struct xtreme_batch *b, unsigned max)
{
	poll_number(tsock_home(&duo.end[1])->id, b, max);
	NET_CHECK(b->n <= max);
	return b->n;
}

/* One packet; other completions are passed over. */
static struct vma_buff_t *take_one(void)
{
	struct xtreme_batch b;

	NET_CHECK(NET_WAIT(poll_ring(&b, 1) && completions[0].packet.buff_lst, NET_PATIENCE));
	NET_CHECK_EQ(completions[0].events, VMA_SOCKETXTREME_PACKET);
	NET_CHECK_EQ(completions[0].user_data, duo.end[1].fd);
	return completions[0].packet.buff_lst;
}

static void expect_none(void)
{
	struct xtreme_batch b;

	NET_CHECK_EQ(poll_ring(&b, XTREME_BATCH), 0);
}

static uint64_t number_in(const struct vma_buff_t *buff)
{
	uint64_t number;

	NET_CHECK_EQ(buff->len, DUO_MESSAGE);
	memcpy(&number, buff->payload, sizeof(number));
	return number;
}

/* Sends n datagrams; returns the number of the first. */
static uint64_t send_some(unsigned n)
{
	uint64_t first = duo.sent[0];

	duo_send(&duo, 0, n);
	duo.got[0] += n; /* this test takes them itself */
	return first;
}

/* Returned buffers go back now; what is charged to the socket then. */
static uint32_t charged(void)
{
	struct ring *ring;
	uint32_t bytes;

	for (int i = 0; i < 3; i++) { /* from the store to the socket's home, and back */
		xtreme_run();
		NET_CHECK_EQ(sock_hold_cold(duo.end[1].ref, &ring), 0);
		ring_release_cold(ring);
	}
	NET_CHECK_EQ(sock_hold_cold(duo.end[1].ref, &ring), 0);
	if (duo.kind != DUO_TCP)
		bytes = tsock_inet(&duo.end[1])->udp.bytes;
	else
		bytes = tsock_inet(&duo.end[1])->tcp.conn.rare
				? tsock_inet(&duo.end[1])->tcp.conn.rare->taken
				: 0;
	ring_release_cold(ring);
	return bytes;
}

static bool is_queued(void)
{
	sock_poll_ring(tsock_home(&duo.end[1]));
	return sock_events(duo.end[1].ref.sk) & EPOLLIN;
}

/* ---- one thread -------------------------------------------------------------------------- */

static void packets(void *arg)
{
	struct vma_buff_t *volatile none = NULL; /* the compiler does not know */
	struct vma_buff_t *buff[3];
	uint64_t first;

	begin(DUO_UDP);
	expect_none();
	first = send_some(3);
	for (unsigned i = 0; i < 3; i++) {
		buff[i] = take_one();
		NET_CHECK_EQ(number_in(buff[i]), first + i);
	}
	expect_none();
	NET_CHECK(charged() > 3 * DUO_MESSAGE);
	NET_CHECK_EQ(buff_get(buff[0]), 2);
	NET_CHECK_EQ(buff_put(buff[0]), 1);
	NET_CHECK_EQ(buff_put(buff[0]), 0);
	NET_CHECK_EQ(buff_put(buff[0]), -EINVAL);
	NET_CHECK_EQ(buff_get(buff[0]), -EINVAL);
	NET_CHECK_EQ(buff_put(none), -EINVAL);
	NET_CHECK_EQ(buff_put((void *)((char *)buff[1] + 8)), -EINVAL);
	NET_CHECK_EQ(buff_put((void *)((char *)buff[1] + BUFF_MAX * sizeof(struct buff))), -EINVAL);
	NET_CHECK_EQ(buff_put(buff[1]), 0);
	NET_CHECK_EQ(number_in(buff[2]), first + 2);
	NET_CHECK_EQ(buff_put(buff[2]), 0);
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* What a poll does not receive itself is queued, and stays where the port put it. */
static void queued(void *arg)
{
	struct vma_buff_t *buff;
	const void *payload;
	struct ring *ring;
	uint64_t first;
	char byte[DUO_MESSAGE];

	begin(DUO_UDP);
	first = send_some(3);
	NET_CHECK(NET_WAIT(is_queued(), NET_PATIENCE));
	NET_CHECK_EQ(sock_hold_cold(duo.end[1].ref, &ring), 0);
	payload = pkt_payload(tsock_inet(&duo.end[1])->udp.head);
	ring_release_cold(ring);
	buff = take_one();
	NET_CHECK(buff->payload == payload);
	NET_CHECK_EQ(number_in(buff), first);
	NET_CHECK_EQ(buff_put(buff), 0);
	NET_CHECK_EQ(tsock_recv(&duo.end[1], byte, sizeof(byte), 0), DUO_MESSAGE);
	buff = take_one();
	NET_CHECK_EQ(number_in(buff), first + 2);
	NET_CHECK_EQ(buff_put(buff), 0);
	expect_none();
	NET_CHECK(!(sock_events(duo.end[1].ref.sk) & EPOLLIN));
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* Unread datagrams move along, and the old ring has nothing more. */
static void moves(void *arg)
{
	struct vma_buff_t *buff[3];
	struct xtreme_batch b;
	struct ring *old;
	uint64_t first;

	begin(DUO_UDP);
	first = send_some(3);
	NET_CHECK(NET_WAIT(is_queued(), NET_PATIENCE));
	buff[0] = take_one();
	old = tsock_home(&duo.end[1]);
	duo_move(&duo.end[1], 7);
	loop_net_settle();
	poll_number(old->id, &b, XTREME_BATCH);
	NET_CHECK_EQ(b.n, 0);
	for (unsigned i = 1; i < 3; i++)
		buff[i] = take_one();
	for (unsigned i = 0; i < 3; i++) {
		NET_CHECK_EQ(number_in(buff[i]), first + i);
		NET_CHECK_EQ(buff_put(buff[i]), 0);
	}
	NET_CHECK_EQ(charged(), 0);
	finish();
}

static void outlives_the_socket(void *arg)
{
	struct vma_buff_t *buff[2];
	uint64_t first;

	begin(DUO_UDP);
	first = send_some(4); /* two of them are not taken */
	NET_CHECK(NET_WAIT(is_queued(), NET_PATIENCE));
	buff[0] = take_one();
	buff[1] = take_one();
	duo_close(&duo);
	for (unsigned i = 0; i < 2; i++) {
		NET_CHECK_EQ(number_in(buff[i]), first + i);
		NET_CHECK_EQ(buff_put(buff[i]), 0);
	}
	open_duo(DUO_UDP); /* perhaps the same object, with a new generation */
	expect_none();
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* ---- connections --------------------------------------------------------------------------- */

static void check_bytes(const struct vma_buff_t *buff)
{
	const uint8_t *bytes = buff->payload;

	for (size_t i = 0; i < buff->len; i++)
		NET_CHECK_EQ(bytes[i], duo_byte(duo.got[0] + i));
	duo.got[0] += buff->len;
}

static void stream(void *arg)
{
	struct xtreme_batch b;

	begin(DUO_TCP);
	for (unsigned round = 0; round < 20; round++) {
		duo_send(&duo, 0, 5);
		while (duo.got[0] < duo.sent[0]) {
			struct vma_buff_t *buff = take_one();

			check_bytes(buff);
			NET_CHECK(charged());
			NET_CHECK_EQ(buff_put(buff), 0);
		}
		if (round % 5 == 0)
			duo_move(&duo.end[1], 10 + round);
	}
	NET_CHECK_EQ(charged(), 0);
	/* What the peer sent last comes before the end. */
	duo_send(&duo, 0, 1);
	NET_CHECK_EQ(tsock_shutdown(&duo.end[0], SHUT_WR), 0);
	NET_CHECK(
		NET_WAIT(is_queued() && sock_events(duo.end[1].ref.sk) & EPOLLRDHUP, NET_PATIENCE));
	check_bytes(take_one()); /* its buffer is never freed: the process ends with it */
	NET_CHECK_EQ(poll_ring(&b, XTREME_BATCH), 1);
	NET_CHECK_EQ(completions[0].events, EPOLLIN | EPOLLRDHUP);
	NET_CHECK(!completions[0].packet.buff_lst);
	expect_none(); /* once */
	duo_close(&duo);
}

/* A reset is reported, and the error is there for SO_ERROR. */
static void reset(void *arg)
{
	struct xtreme_batch b;

	begin(DUO_TCP);
	NET_CHECK_EQ(tsock_linger_none(&duo.end[0]), 0);
	tsock_close(&duo.end[0]);
	duo.end[0] = TSOCK_NONE;
	NET_CHECK(NET_WAIT(poll_ring(&b, XTREME_BATCH), NET_PATIENCE));
	NET_CHECK_EQ(b.n, 1);
	NET_CHECK_EQ(completions[0].events & (EPOLLERR | EPOLLHUP | EPOLLIN),
		     EPOLLERR | EPOLLHUP | EPOLLIN);
	expect_none();
	finish();
}

/* A program that holds all it gets does not get more until it frees some; the window closes. */
static void holds_everything(void *arg)
{
	static struct vma_buff_t *buff[4096];
	unsigned n = 0, before;
	struct xtreme_batch b;

	begin(DUO_TCP);
	NET_CHECK_EQ(tsock_set_int(&duo.end[1], SOL_SOCKET, SO_RCVBUF, 4096), 0);
	for (unsigned i = 0; i < 2000; i++) {
		char byte = (char)duo_byte(duo.sent[0]);

		if (tsock_send(&duo.end[0], &byte, 1, 0) == 1)
			duo.sent[0]++;
		if (poll_ring(&b, 1)) {
			check_bytes(completions[0].packet.buff_lst);
			buff[n++] = completions[0].packet.buff_lst;
		}
	}
	NET_CHECK(n > 2 && duo.got[0] < duo.sent[0]);
	before = charged();
	NET_CHECK(NET_WAIT(is_queued(), NET_PATIENCE));
	expect_none();
	NET_CHECK_EQ(charged(), before);
	while (duo.got[0] < duo.sent[0]) {
		while (n)
			NET_CHECK_EQ(buff_put(buff[--n]), 0);
		buff[n++] = take_one();
		check_bytes(buff[n - 1]);
	}
	NET_CHECK_EQ(buff_put(buff[0]), 0);
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* ---- threads ------------------------------------------------------------------------------- */

static struct vma_buff_t *freed_buff[FREERS_BATCH];

static int free_one(unsigned i)
{
	return buff_put(freed_buff[i]);
}

/* Two threads free the same buffers, while a third polls and the socket moves. */
static void two_threads_free(void *arg)
{
	struct freers freers = {.free_one = free_one, .twice = -EINVAL};

	begin(DUO_UDP);
	freers_start(&freers);
	for (unsigned round = 0; round < FREERS_ROUNDS; round++) {
		uint64_t first = send_some(FREERS_BATCH);

		for (unsigned i = 0; i < FREERS_BATCH; i++) {
			freed_buff[i] = take_one();
			NET_CHECK_EQ(number_in(freed_buff[i]), first + i);
		}
		if (round % 16 == 0)
			duo_ask(&duo.end[1], 100 + round);
		freers_free(&freers, round);
	}
	freers_stop(&freers);
	loop_net_settle();
	NET_CHECK_EQ(charged(), 0);
	finish();
}

struct poller {
	unsigned ring;
	bool stop;     /* atomic */
	unsigned seen; /* atomic, its own to write */
};

static void *polls(void *arg)
{
	struct poller *p = arg;

	while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED)) {
		struct xtreme_batch b;

		poll_number(p->ring, &b, XTREME_BATCH);
		__atomic_store_n(&p->seen, p->seen + b.n, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < b.n; i++) {
			if (completions[i].packet.buff_lst)
				buff_put(completions[i].packet.buff_lst);
		}
		sched_yield();
	}
	return NULL;
}

static unsigned seen_by(const struct poller p[2])
{
	return __atomic_load_n(&p[0].seen, __ATOMIC_RELAXED) +
	       __atomic_load_n(&p[1].seen, __ATOMIC_RELAXED);
}

/* Sockets are made, get datagrams, move, and end, while two threads poll their ring. */
static void closes_while_polled(void *arg)
{
	struct poller p[2] = {{.stop = false}, {.stop = false}};
	struct sockaddr_in to;
	struct tsock first;
	pthread_t tids[2];

	begin(DUO_UDP);
	first = tsock_udp();
	duo_ask(&first, 50);
	NET_CHECK_EQ(tsock_bind(&first, fake_link_addr(1), 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		p[i].ring = tsock_home(&first)->id; /* of the others, too */
		NET_CHECK_EQ(pthread_create(&tids[i], NULL, polls, &p[i]), 0);
	}
	for (unsigned round = 0; round < 200; round++) {
		struct tsock ts = tsock_udp();
		unsigned before = seen_by(p);

		duo_ask(&ts, 50);
		NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(1), 0), 0);
		NET_CHECK_EQ(xtreme_begin(ts.ref, ts.fd), 0);
		to = tsock_name(&ts);
		for (unsigned i = 0; i < 5; i++)
			NET_CHECK_EQ(tsock_sendto(&duo.end[0], "hello", 6, &to), 6);
		if (round % 3 == 0)
			NET_CHECK(NET_WAIT(seen_by(p) > before, NET_PATIENCE));
		if (round % 4 == 0)
			duo_ask(&ts, 200 + round % 8);
		tsock_close(&ts);
	}
	for (unsigned i = 0; i < 2; i++) {
		__atomic_store_n(&p[i].stop, true, __ATOMIC_RELAXED);
		pthread_join(tids[i], NULL);
	}
	tsock_close(&first);
	finish();
}

LOOP_NET_TEST(packets)
LOOP_NET_TEST(queued)
LOOP_NET_TEST(moves)
LOOP_NET_TEST(outlives_the_socket)
LOOP_NET_TEST(stream)
LOOP_NET_TEST(reset)
LOOP_NET_TEST(holds_everything)
LOOP_NET_TEST(two_threads_free)
LOOP_NET_TEST(closes_while_polled)

static const struct CMUnitTest tests[] = {
	LOOP_NET_ENTRY(packets) LOOP_NET_ENTRY(queued) LOOP_NET_ENTRY(moves)
		LOOP_NET_ENTRY(outlives_the_socket) LOOP_NET_ENTRY(stream) LOOP_NET_ENTRY(reset)
			LOOP_NET_ENTRY(holds_everything) LOOP_NET_ENTRY(two_threads_free)
				LOOP_NET_ENTRY(closes_while_polled)};

VMA_TEST_MAIN("completions", tests, loop_net_enter_group, NULL)
