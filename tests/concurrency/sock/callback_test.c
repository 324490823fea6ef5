/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive callback of datagram sockets: it sees each datagram once, in order, one at a time, in
 * threads of the program only; what it says happens; it may call anything, and be left by a jump.
 * loop_net_finish() finds packets that are lost.
 */
#include "extra.h"
#include "vma_test.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "ring/rings.h"

#define LOG_MAX 20000

/* What the callback was called for. */
static struct {
	vma_recv_callback_retval_t verdict;
	struct tsock *ts;
	uint64_t numbers[LOG_MAX];
	unsigned n;	 /* atomic */
	unsigned inside; /* atomic: threads in the callback */
	bool internal;	 /* it was called in the internal thread */
	void *id;
	void *payload;
	void (*then)(void); /* the callback calls it */
} seen;

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	vma_recv_callback_retval_t verdict = __atomic_load_n(&seen.verdict, __ATOMIC_RELAXED);
	unsigned at = __atomic_load_n(&seen.n, __ATOMIC_RELAXED);

	NET_CHECK_EQ(__atomic_fetch_add(&seen.inside, 1, __ATOMIC_ACQ_REL), 0);
	NET_CHECK(context == &seen);
	NET_CHECK_EQ(fd, seen.ts->fd);
	NET_CHECK_EQ(n, 1);
	NET_CHECK_EQ(iov[0].iov_len, DUO_MESSAGE);
	NET_CHECK_EQ(info->struct_sz, sizeof(*info));
	NET_CHECK_EQ(info->payload_sz, DUO_MESSAGE);
	NET_CHECK_EQ(info->src->sin_addr.s_addr, fake_link_addr(0));
	NET_CHECK_EQ(info->dst->sin_addr.s_addr, fake_link_addr(1));
	NET_CHECK_EQ(info->hw_timestamp.tv_sec, 0);
	NET_CHECK(info->sw_timestamp.tv_sec > 1600000000);
	/* It may write there: the next call is told its own addresses all the same. */
	memset(info->src, 0xff, sizeof(*info->src));
	memset(info->dst, 0xff, sizeof(*info->dst));
	if (ring_thread.internal)
		seen.internal = true;
	NET_CHECK(at < LOG_MAX);
	memcpy(&seen.numbers[at], iov[0].iov_base, sizeof(uint64_t));
	seen.id = info->packet_id;
	seen.payload = iov[0].iov_base;
	__atomic_fetch_sub(&seen.inside, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&seen.n, at + 1, __ATOMIC_RELEASE);
	if (seen.then)
		seen.then();
	return verdict;
}

static unsigned n_seen(void)
{
	return __atomic_load_n(&seen.n, __ATOMIC_ACQUIRE);
}

/* Polls the socket's ring as a call of the program would. */
static bool sees(unsigned n)
{
	sock_poll_ring(tsock_home(seen.ts));
	return n_seen() >= n;
}

static bool is_readable(const struct tsock *ts)
{
	return sock_events(ts->ref.sk) & EPOLLIN;
}

static struct duo duo;

static void begin(vma_recv_callback_retval_t verdict)
{
	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	memset(&seen, 0, sizeof(seen));
	seen.ts = &duo.end[1];
	seen.verdict = verdict;
	NET_CHECK_EQ(sock_set_callback(duo.end[1].ref, duo.end[1].fd, callback, &seen), 0);
}

static void finish(void)
{
	NET_CHECK(!seen.internal);
	duo_close(&duo);
	duo_end(NULL);
}

static uint64_t send_some(unsigned n)
{
	uint64_t first = duo.sent[0];

	duo_send(&duo, 0, n);
	duo.got[0] += n;
	return first;
}

static void in_order(uint64_t first, unsigned from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		NET_CHECK_EQ(seen.numbers[from + i], first + i);
}

static ssize_t recv_number(uint64_t *number)
{
	char buf[DUO_MESSAGE];
	ssize_t n = tsock_recv(&duo.end[1], buf, sizeof(buf), MSG_DONTWAIT);

	memcpy(number, buf, sizeof(*number));
	return n;
}

static uint32_t bytes_queued(void)
{
	struct ring *ring;
	uint32_t bytes;

	NET_CHECK_EQ(sock_hold_cold(seen.ts->ref, &ring), 0);
	bytes = tsock_inet(seen.ts)->udp.bytes;
	ring_release_cold(ring);
	return bytes;
}

#define FRAME (14 + 20 + 8 + DUO_MESSAGE) /* Ethernet, IPv4, UDP */

/* Each is charged with its frame and its struct pkt. */
static uint32_t datagrams_queued(void)
{
	return bytes_queued() / (FRAME + (uint32_t)sizeof(struct pkt));
}

/* ---- verdicts ---------------------------------------------------------------------------- */

static void drop(void *arg)
{
	uint64_t number, first;

	begin(VMA_PACKET_DROP);
	first = send_some(50);
	NET_CHECK(NET_WAIT(sees(50), NET_PATIENCE));
	in_order(first, 0, 50);
	NET_CHECK(!is_readable(&duo.end[1]));
	NET_CHECK_EQ(recv_number(&number), -EAGAIN);
	NET_CHECK_EQ(bytes_queued(), 0);
	finish();
}

static void pass(void *arg)
{
	uint64_t number, first;

	begin(VMA_PACKET_RECV);
	first = send_some(50);
	NET_CHECK(NET_WAIT(sees(50), NET_PATIENCE));
	in_order(first, 0, 50);
	for (unsigned i = 0; i < 50; i++) {
		NET_CHECK(is_readable(&duo.end[1]));
		NET_CHECK_EQ(recv_number(&number), DUO_MESSAGE);
		NET_CHECK_EQ(number, first + i);
	}
	NET_CHECK_EQ(recv_number(&number), -EAGAIN);
	NET_CHECK_EQ(bytes_queued(), 0);
	finish();
}

static void hold(void *arg)
{
	uint64_t number, first;

	begin(VMA_PACKET_HOLD);
	first = send_some(1);
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	NET_CHECK_EQ(recv_number(&number), -EAGAIN);
	NET_CHECK(NET_WAIT(held_count() == 1, NET_PATIENCE));
	memcpy(&number, seen.payload, sizeof(number));
	NET_CHECK_EQ(number, first);
	NET_CHECK(bytes_queued() > 0);
	NET_CHECK_EQ(sock_free_packet(seen.id, duo.end[0].ref), -ENOENT);
	NET_CHECK_EQ(sock_free_packet(seen.id, duo.end[1].ref), 0);
	NET_CHECK_EQ(sock_free_packet(seen.id, duo.end[1].ref), -ENOENT);
	NET_CHECK_EQ(bytes_queued(), 0);
	finish();
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
}

/* Numbers of packets that are not held name nothing, also inside the callback. */
static void free_inside(void)
{
	NET_CHECK_EQ(sock_free_packet(seen.id, duo.end[1].ref), -ENOENT);
}

static void not_held(void *arg)
{
	begin(VMA_PACKET_DROP);
	seen.then = free_inside;
	send_some(2);
	NET_CHECK(NET_WAIT(sees(2), NET_PATIENCE));
	free_inside();
	seen.then = NULL;
	finish();
}

/* ---- threads ----------------------------------------------------------------------------- */

/* What the internal thread receives waits for the program. */
static void not_in_the_internal_thread(void *arg)
{
	uint64_t first;

	begin(VMA_PACKET_DROP);
	first = send_some(10);
	NET_CHECK(NET_WAIT(datagrams_queued() >= 10, NET_PATIENCE));
	NET_CHECK(NET_WAIT(sees(10), NET_PATIENCE));
	in_order(first, 0, 10);
	finish();
}

/* A thread that sleeps in recv() runs the callback, and wakes when it passes something. */
static void wakes_a_sleeper(void *arg)
{
	pthread_t tid;
	struct receipt r = {.ts = &duo.end[1]};

	params.rx_poll = 0;
	begin(VMA_PACKET_DROP);
	tsock_block(&duo.end[1], true);
	NET_CHECK_EQ(pthread_create(&tid, NULL, receive_message, &r), 0);
	send_some(1);
	NET_CHECK(NET_WAIT(n_seen() == 1, NET_PATIENCE));
	__atomic_store_n(&seen.verdict, VMA_PACKET_RECV, __ATOMIC_RELAXED);
	send_some(1);
	NET_CHECK_EQ(pthread_join(tid, NULL), 0);
	NET_CHECK_EQ(r.got, DUO_MESSAGE);
	NET_CHECK_EQ(n_seen(), 2);
	finish();
}

#define MANY 3000

static void *poller(void *arg)
{
	while (n_seen() < MANY) {
		uint64_t number;

		sock_poll_ring(tsock_home(&duo.end[1]));
		recv_number(&number);
	}
	return NULL;
}

/* Two threads poll, the socket moves: in order, one at a time, all of them. */
static void two_threads_and_moves(void *arg)
{
	pthread_t tids[2];
	uint64_t first;

	begin(VMA_PACKET_DROP);
	first = duo.sent[0];
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK_EQ(pthread_create(&tids[i], NULL, poller, NULL), 0);
	for (unsigned i = 0; i < MANY / 50; i++) {
		send_some(50);
		if (i % 8 == 0)
			duo_ask(&duo.end[1], 100 + i);
		NET_CHECK(NET_WAIT(n_seen() == (i + 1) * 50, NET_PATIENCE));
	}
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK_EQ(pthread_join(tids[i], NULL), 0);
	in_order(first, 0, MANY);
	loop_net_settle();
	finish();
}

/* ---- registering ------------------------------------------------------------------------- */

static void queued_first(void *arg)
{
	uint64_t number, first;

	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	memset(&seen, 0, sizeof(seen));
	seen.ts = &duo.end[1];
	seen.verdict = VMA_PACKET_RECV;
	first = send_some(2);
	NET_CHECK(NET_WAIT(datagrams_queued() >= 2, NET_PATIENCE));
	NET_CHECK_EQ(sock_set_callback(seen.ts->ref, seen.ts->fd, callback, &seen), 0);
	send_some(1);
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	NET_CHECK_EQ(seen.numbers[0], first + 2);
	for (unsigned i = 0; i < 3; i++) {
		NET_CHECK_EQ(recv_number(&number), DUO_MESSAGE);
		NET_CHECK_EQ(number, first + i);
	}
	NET_CHECK_EQ(sock_set_callback(seen.ts->ref, seen.ts->fd, NULL, NULL), 0);
	NET_CHECK_EQ(sock_set_callback(seen.ts->ref, seen.ts->fd, NULL, NULL), 0);
	send_some(1);
	NET_CHECK(NET_WAIT(recv_number(&number) == DUO_MESSAGE, NET_PATIENCE));
	NET_CHECK_EQ(n_seen(), 1);
	finish();
}

/* What no callback has seen is queued when there is none any more. */
static void taken_back(void *arg)
{
	uint64_t number, first;

	begin(VMA_PACKET_DROP);
	first = send_some(3);
	NET_CHECK(NET_WAIT(datagrams_queued() >= 3, NET_PATIENCE)); /* the internal thread */
	NET_CHECK_EQ(sock_set_callback(seen.ts->ref, seen.ts->fd, NULL, NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		NET_CHECK_EQ(recv_number(&number), DUO_MESSAGE);
		NET_CHECK_EQ(number, first + i);
	}
	NET_CHECK_EQ(n_seen(), 0);
	finish();
}

static void unregister(void)
{
	NET_CHECK_EQ(sock_set_callback(seen.ts->ref, seen.ts->fd, NULL, NULL), 0);
}

static void taken_back_inside(void *arg)
{
	uint64_t number, first;

	begin(VMA_PACKET_RECV);
	seen.then = unregister;
	first = send_some(3);
	NET_CHECK(NET_WAIT(datagrams_queued() >= 3, NET_PATIENCE));
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	for (unsigned i = 0; i < 3; i++) {
		NET_CHECK_EQ(recv_number(&number), DUO_MESSAGE);
		NET_CHECK_EQ(number, first + i);
	}
	NET_CHECK_EQ(n_seen(), 1);
	finish();
}

/* ---- calls inside ------------------------------------------------------------------------ */

static void call_everything(void)
{
	static bool deep; /* no callback inside a callback */
	uint64_t number;
	char buf[DUO_MESSAGE];

	NET_CHECK(!deep);
	deep = true;
	/* The same socket: it blocks otherwise, but nothing can arrive before we return. */
	NET_CHECK_EQ(tsock_recv(&duo.end[1], buf, sizeof(buf), 0), -EAGAIN);
	duo_send(&duo, 0, 1); /* another one arrives for it */
	sock_poll_ring(tsock_home(&duo.end[1]));
	NET_CHECK_EQ(recv_number(&number), -EAGAIN);
	/* Another socket, which blocks until it has its datagram. */
	duo_send(&duo, 1, 1);
	tsock_block(&duo.end[0], true);
	NET_CHECK_EQ(tsock_recv(&duo.end[0], buf, sizeof(buf), 0), DUO_MESSAGE);
	tsock_block(&duo.end[0], false);
	duo.got[1]++;
	seen.then = NULL;
	deep = false;
}

static void calls_inside(void *arg)
{
	uint64_t first;

	params.rx_poll = 0; /* a blocking call sleeps at once */
	begin(VMA_PACKET_DROP);
	tsock_block(&duo.end[1], true);
	seen.then = call_everything;
	first = send_some(1);
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	duo.got[0]++;
	NET_CHECK(NET_WAIT(sees(2), NET_PATIENCE)); /* what call_everything() sent */
	in_order(first, 0, 2);
	finish();
}

static void close_inside(void)
{
	tsock_close(&duo.end[1]);
	seen.then = NULL;
}

static void closed_inside(void *arg)
{
	begin(*(vma_recv_callback_retval_t *)arg);
	seen.then = close_inside;
	send_some(3);
	NET_CHECK(NET_WAIT(datagrams_queued() >= 3, NET_PATIENCE));
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	NET_CHECK_EQ(n_seen(), 1);
	finish();
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
}

static void test_closed_inside(void **state)
{
	vma_recv_callback_retval_t verdicts[] = {VMA_PACKET_DROP, VMA_PACKET_RECV, VMA_PACKET_HOLD};

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(loop_net_run("closed_inside", closed_inside, &verdicts[i], 60), 0);
}

/* ---- left otherwise ------------------------------------------------------------------------ */

static jmp_buf out;

static void jump(void)
{
	seen.then = NULL;
	longjmp(out, 1);
}

/* Nothing is held: the thread goes on, the datagram is dropped, the next ones are seen. */
static void jumps_out(void *arg)
{
	uint64_t number, first;
	volatile unsigned jumps = 0;

	begin(VMA_PACKET_RECV);
	first = send_some(3);
	NET_CHECK(NET_WAIT(datagrams_queued() >= 3, NET_PATIENCE));
	seen.then = jump;
	if (!setjmp(out))
		NET_CHECK(!NET_WAIT(sees(3), NET_PATIENCE));
	else
		jumps++;
	NET_CHECK_EQ(jumps, 1);
	NET_CHECK(!hold_current);
	NET_CHECK_EQ(n_seen(), 1);
	NET_CHECK(NET_WAIT(sees(3), NET_PATIENCE));
	in_order(first, 0, 3);
	NET_CHECK_EQ(recv_number(&number), DUO_MESSAGE);
	NET_CHECK_EQ(number, first + 1); /* the first one is gone */
	NET_CHECK_EQ(recv_number(&number), DUO_MESSAGE);
	NET_CHECK_EQ(recv_number(&number), -EAGAIN);
	NET_CHECK_EQ(bytes_queued(), 0);
	duo_talk(&duo, 2);
	finish();
}

static void cancel(void)
{
	seen.then = NULL;
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

static void *cancelled(void *arg)
{
	NET_CHECK(!NET_WAIT(sees(3), NET_PATIENCE));
	return NULL;
}

static void cancelled_inside(void *arg)
{
	pthread_t tid;
	void *result;
	uint64_t first;

	begin(VMA_PACKET_DROP);
	seen.then = cancel;
	first = send_some(3);
	NET_CHECK_EQ(pthread_create(&tid, NULL, cancelled, NULL), 0);
	NET_CHECK_EQ(pthread_join(tid, &result), 0);
	NET_CHECK(result == PTHREAD_CANCELED);
	NET_CHECK(NET_WAIT(sees(3), NET_PATIENCE)); /* another thread goes on */
	in_order(first, 0, 3);
	finish();
}

#define CASES(X)                      \
	X(drop)                       \
	X(pass)                       \
	X(hold)                       \
	X(not_held)                   \
	X(not_in_the_internal_thread) \
	X(wakes_a_sleeper)            \
	X(two_threads_and_moves)      \
	X(queued_first)               \
	X(taken_back)                 \
	X(taken_back_inside)          \
	X(calls_inside)               \
	X(jumps_out)                  \
	X(cancelled_inside)
CASES(LOOP_NET_TEST)

static const struct CMUnitTest tests[] = {
	CASES(LOOP_NET_ENTRY) cmocka_unit_test(test_closed_inside),
};

VMA_TEST_MAIN("callback", tests, loop_net_enter_group, NULL)
