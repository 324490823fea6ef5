/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive callback of connections: it sees the bytes once, in order, in threads of the program
 * only; what it says happens, and no call reads past it; it may call anything, and be left by a
 * jump.  loop_net_finish() finds packets that are lost.
 */
#include "extra.h"
#include "vma_test.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "net/tcp/tcp_rare.h"
#include "ring/rings.h"

#define HELD 8192

/* What the callback was called for. */
static struct {
	vma_recv_callback_retval_t verdict; /* atomic */
	uint64_t at;			    /* of the next byte that it sees */
	uint64_t bytes;			    /* that it has seen; atomic */
	unsigned calls;			    /* atomic */
	unsigned inside;		    /* atomic: threads in the callback */
	bool internal;			    /* it was called in the internal thread */
	void *ids[HELD];
	const uint8_t *payload; /* of the latest packet */
	size_t len;
	void (*then)(void); /* the callback calls it */
} seen;

static struct tsock listener;
static struct duo duo;

static void check_bytes(const uint8_t *bytes, size_t len, uint64_t pos)
{
	for (size_t i = 0; i < len; i++)
		NET_CHECK_EQ(bytes[i], duo_byte(pos + i));
}

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	vma_recv_callback_retval_t verdict = __atomic_load_n(&seen.verdict, __ATOMIC_RELAXED);
	unsigned calls = __atomic_load_n(&seen.calls, __ATOMIC_RELAXED);

	NET_CHECK_EQ(__atomic_fetch_add(&seen.inside, 1, __ATOMIC_ACQ_REL), 0);
	NET_CHECK(context == &seen);
	NET_CHECK_EQ(fd, duo.end[1].fd);
	NET_CHECK_EQ(n, 1);
	NET_CHECK_EQ(info->struct_sz, sizeof(*info));
	NET_CHECK_EQ(info->payload_sz, iov[0].iov_len);
	NET_CHECK_EQ(info->src->sin_addr.s_addr, duo.name[0].sin_addr.s_addr);
	NET_CHECK_EQ(info->src->sin_port, duo.name[0].sin_port);
	NET_CHECK_EQ(info->dst->sin_addr.s_addr, duo.name[1].sin_addr.s_addr);
	NET_CHECK_EQ(info->dst->sin_port, duo.name[1].sin_port);
	NET_CHECK(info->sw_timestamp.tv_sec > 1600000000);
	NET_CHECK(iov[0].iov_len > 0);
	/* It may write there: the next call is told its own addresses all the same. */
	memset(info->src, 0xff, sizeof(*info->src));
	memset(info->dst, 0xff, sizeof(*info->dst));
	if (ring_thread.internal)
		seen.internal = true;
	check_bytes(iov[0].iov_base, iov[0].iov_len, seen.at);
	seen.at += iov[0].iov_len;
	seen.payload = iov[0].iov_base;
	seen.len = iov[0].iov_len;
	seen.ids[calls % HELD] = info->packet_id;
	__atomic_fetch_sub(&seen.inside, 1, __ATOMIC_ACQ_REL);
	__atomic_fetch_add(&seen.bytes, iov[0].iov_len, __ATOMIC_RELEASE);
	__atomic_store_n(&seen.calls, calls + 1, __ATOMIC_RELEASE);
	if (seen.then)
		seen.then();
	return verdict;
}

static uint64_t n_seen(void)
{
	return __atomic_load_n(&seen.bytes, __ATOMIC_ACQUIRE);
}

/* Polls the socket's ring as a call of the program would. */
static bool sees(uint64_t bytes)
{
	sock_poll_ring(tsock_home(&duo.end[1]));
	return n_seen() >= bytes;
}

static bool is_readable(void)
{
	return sock_events(duo.end[1].ref.sk) & EPOLLIN;
}

static int set_callback(vma_recv_callback_t fn)
{
	return sock_set_callback(duo.end[1].ref, duo.end[1].fd, fn, &seen);
}

/* A connection without a callback so far. */
static void open_plain(vma_recv_callback_retval_t verdict)
{
	duo_begin();
	listener = duo_listener(7100);
	duo_open(&duo, DUO_TCP, &listener);
	memset(&seen, 0, sizeof(seen));
	seen.verdict = verdict;
	seen.at = duo.sent[0];
}

static void begin(vma_recv_callback_retval_t verdict)
{
	open_plain(verdict);
	NET_CHECK_EQ(set_callback(callback), 0);
}

static void finish(void)
{
	NET_CHECK(!seen.internal);
	duo_close(&duo);
	duo_end(&listener);
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
}

/* Sends n messages; all bytes that were sent are taken by the callback, or read by the case. */
static uint64_t send_some(unsigned n)
{
	uint64_t first = duo.sent[0];

	duo_send(&duo, 0, n);
	duo.got[0] = duo.sent[0];
	return first;
}

/* Bytes in the engine's queue, and memory of packets that the program has. */
static void look(uint32_t *unread, uint32_t *taken)
{
	const struct tcp_conn *conn = &tsock_inet(&duo.end[1])->tcp.conn;
	struct ring *ring;

	NET_CHECK_EQ(sock_hold_cold(duo.end[1].ref, &ring), 0);
	*unread = conn->rcv.bytes;
	*taken = conn->rare ? conn->rare->taken : 0;
	ring_release_cold(ring);
}

static bool arrived(uint32_t bytes)
{
	uint32_t unread, taken;

	look(&unread, &taken);
	return unread >= bytes;
}

static uint32_t charged(void)
{
	uint32_t unread, taken;

	look(&unread, &taken);
	return taken;
}

static ssize_t recv_some(void *buf, size_t len)
{
	return tsock_recv(&duo.end[1], buf, len, MSG_DONTWAIT);
}

/* The program reads exactly these bytes of the stream, and finds nothing else. */
static void reads(uint64_t from, uint64_t to)
{
	uint8_t buf[100];

	while (from < to) {
		ssize_t n = -1;

		NET_CHECK(NET_WAIT((n = recv_some(buf, sizeof(buf))) != -EAGAIN, NET_PATIENCE));
		NET_CHECK(n > 0 && from + (uint64_t)n <= to);
		check_bytes(buf, (size_t)n, from);
		from += (uint64_t)n;
	}
	NET_CHECK_EQ(recv_some(buf, sizeof(buf)), -EAGAIN);
}

/* ---- verdicts ---------------------------------------------------------------------------- */

#define LOTS 2000 /* messages; more than the receive window at first */

static void drop(void *arg)
{
	uint8_t byte;

	begin(VMA_PACKET_DROP);
	for (unsigned i = 1; i <= LOTS / 50; i++) {
		send_some(50);
		NET_CHECK(NET_WAIT(sees(i * 50 * DUO_MESSAGE), NET_PATIENCE));
	}
	NET_CHECK(!is_readable());
	NET_CHECK_EQ(recv_some(&byte, 1), -EAGAIN);
	NET_CHECK_EQ(n_seen(), LOTS * DUO_MESSAGE);
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* What it lets pass is read, and what comes before that was read joins it. */
static void pass(void *arg)
{
	uint64_t first, calls;

	begin(VMA_PACKET_RECV);
	first = send_some(20);
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	NET_CHECK(NET_WAIT(is_readable(), NET_PATIENCE));
	calls = seen.calls;
	NET_CHECK_EQ(calls, 1);
	NET_CHECK(NET_WAIT((sees(0), arrived(20 * DUO_MESSAGE)), NET_PATIENCE));
	reads(first, duo.sent[0]);
	NET_CHECK_EQ(seen.calls, 1);
	NET_CHECK(!is_readable());
	NET_CHECK_EQ(charged(), 0);
	seen.at = first = send_some(1); /* all was read */
	NET_CHECK(NET_WAIT(seen.calls == 2 || (sees(0), seen.calls == 2), NET_PATIENCE));
	reads(first, duo.sent[0]);
	finish();
}

static void hold(void *arg)
{
	uint64_t first;
	uint8_t byte;

	begin(VMA_PACKET_HOLD);
	first = send_some(1);
	NET_CHECK(NET_WAIT(sees(DUO_MESSAGE), NET_PATIENCE));
	NET_CHECK_EQ(seen.calls, 1);
	NET_CHECK_EQ(recv_some(&byte, 1), -EAGAIN);
	NET_CHECK(NET_WAIT(held_count() == 1, NET_PATIENCE));
	check_bytes(seen.payload, seen.len, first);
	NET_CHECK(charged() > 0);
	NET_CHECK_EQ(sock_free_packet(seen.ids[0], duo.end[0].ref), -ENOENT);
	NET_CHECK_EQ(sock_free_packet(seen.ids[0], duo.end[1].ref), 0);
	NET_CHECK_EQ(sock_free_packet(seen.ids[0], duo.end[1].ref), -ENOENT);
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* A program that holds all: the rest waits, the window closes; it goes on when packets are back. */
static void holds_everything(void *arg)
{
	uint32_t unread = 0, taken;
	uint64_t calls;

	begin(VMA_PACKET_HOLD);
	NET_CHECK_EQ(tsock_set_int(&duo.end[1], SOL_SOCKET, SO_RCVBUF, 1), 0);
	for (unsigned i = 0; i < HELD / 2 && !unread; i++) {
		send_some(1);
		NET_CHECK(NET_WAIT(sees(duo.sent[0] - duo.sent[1]) || arrived(1), NET_PATIENCE));
		sees(0);
		look(&unread, &taken);
	}
	NET_CHECK(unread > 0);
	NET_CHECK(taken <= TCP_RECVQ_ROOM_MIN + 4096);
	calls = seen.calls;
	NET_CHECK(NET_WAIT(held_count() == calls, NET_PATIENCE));
	sees(0);
	NET_CHECK_EQ(seen.calls, calls);
	__atomic_store_n(&seen.verdict, VMA_PACKET_DROP, __ATOMIC_RELAXED);
	for (uint64_t i = 0; i < calls; i++)
		NET_CHECK_EQ(sock_free_packet(seen.ids[i], duo.end[1].ref), 0);
	NET_CHECK(NET_WAIT((sees(0), seen.at == duo.sent[0]), NET_PATIENCE));
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* ---- threads ----------------------------------------------------------------------------- */

/* What the internal thread receives waits for the program, and no call reads it before. */
static void not_in_the_internal_thread(void *arg)
{
	uint8_t byte;

	begin(VMA_PACKET_DROP);
	send_some(10);
	NET_CHECK(NET_WAIT(arrived(10 * DUO_MESSAGE) || seen.calls, NET_PATIENCE));
	NET_CHECK(!is_readable());
	NET_CHECK_EQ(recv_some(&byte, 1), -EAGAIN);
	NET_CHECK(NET_WAIT(sees(10 * DUO_MESSAGE), NET_PATIENCE));
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
	NET_CHECK(NET_WAIT(n_seen() == DUO_MESSAGE, NET_PATIENCE));
	__atomic_store_n(&seen.verdict, VMA_PACKET_RECV, __ATOMIC_RELAXED);
	send_some(1);
	NET_CHECK_EQ(pthread_join(tid, NULL), 0);
	NET_CHECK_EQ(r.got, DUO_MESSAGE);
	finish();
}

/* A thread that slept in recv() before there was a callback reads nothing past it, either. */
static void registered_meanwhile(void *arg)
{
	pthread_t tid;
	struct receipt r = {.ts = &duo.end[1]};

	params.rx_poll = -1; /* it polls */
	open_plain(VMA_PACKET_DROP);
	tsock_block(&duo.end[1], true);
	NET_CHECK_EQ(pthread_create(&tid, NULL, receive_message, &r), 0);
	NET_CHECK_EQ(set_callback(callback), 0);
	send_some(1);
	NET_CHECK(NET_WAIT(n_seen() == DUO_MESSAGE, NET_PATIENCE));
	__atomic_store_n(&seen.verdict, VMA_PACKET_RECV, __ATOMIC_RELAXED);
	send_some(1);
	NET_CHECK_EQ(pthread_join(tid, NULL), 0);
	NET_CHECK_EQ(r.got, DUO_MESSAGE);
	finish();
}

#define MANY 3000

static void *poller(void *arg)
{
	while (n_seen() < MANY * DUO_MESSAGE) {
		uint8_t byte;

		sock_poll_ring(tsock_home(&duo.end[1]));
		NET_CHECK_EQ(recv_some(&byte, 1), -EAGAIN);
	}
	return NULL;
}

/* Two threads poll, the socket moves: in order, one at a time, all bytes. */
static void two_threads_and_moves(void *arg)
{
	pthread_t tids[2];

	begin(VMA_PACKET_DROP);
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK_EQ(pthread_create(&tids[i], NULL, poller, NULL), 0);
	for (unsigned i = 0; i < MANY / 50; i++) {
		send_some(50);
		if (i % 8 == 0)
			duo_ask(&duo.end[1], 100 + i);
		NET_CHECK(NET_WAIT(n_seen() == (i + 1) * 50 * DUO_MESSAGE, NET_PATIENCE));
	}
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK_EQ(pthread_join(tids[i], NULL), 0);
	loop_net_settle();
	finish();
}

/* ---- registering ------------------------------------------------------------------------- */

static void queued_first(void *arg)
{
	uint64_t first;

	open_plain(VMA_PACKET_DROP);
	first = send_some(2);
	NET_CHECK(NET_WAIT(arrived(2 * DUO_MESSAGE), NET_PATIENCE));
	NET_CHECK_EQ(set_callback(callback), 0);
	send_some(1);
	NET_CHECK(NET_WAIT((sees(0), arrived(3 * DUO_MESSAGE)), NET_PATIENCE));
	NET_CHECK_EQ(seen.calls, 0);
	NET_CHECK(is_readable());
	reads(first, duo.sent[0]);
	seen.at = send_some(1);
	NET_CHECK(NET_WAIT(sees(DUO_MESSAGE), NET_PATIENCE));
	NET_CHECK_EQ(set_callback(NULL), 0);
	NET_CHECK_EQ(set_callback(NULL), 0);
	first = send_some(1);
	reads(first, duo.sent[0]);
	NET_CHECK_EQ(n_seen(), DUO_MESSAGE);
	finish();
}

/* What no callback has seen is queued when there is none any more. */
static void taken_back(void *arg)
{
	uint64_t first;

	begin(VMA_PACKET_DROP);
	first = send_some(3);
	NET_CHECK(NET_WAIT(arrived(3 * DUO_MESSAGE), NET_PATIENCE)); /* the internal thread */
	NET_CHECK(!is_readable());
	NET_CHECK_EQ(set_callback(NULL), 0);
	NET_CHECK(is_readable());
	reads(first, duo.sent[0]);
	NET_CHECK_EQ(n_seen(), 0);
	finish();
}

static void unregister(void)
{
	NET_CHECK_EQ(set_callback(NULL), 0);
	seen.then = NULL;
}

/* The latest packet passes, and those behind it, in the order of the stream. */
static void taken_back_inside(void *arg)
{
	uint64_t first;

	begin(VMA_PACKET_RECV);
	first = send_some(3);
	NET_CHECK(NET_WAIT(arrived(3 * DUO_MESSAGE), NET_PATIENCE));
	seen.then = unregister;
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	reads(first, duo.sent[0]);
	NET_CHECK_EQ(seen.calls, 1);
	NET_CHECK_EQ(charged(), 0);
	finish();
}

static void refused(void *arg)
{
	open_plain(VMA_PACKET_DROP);
	tsock_linger_none(&duo.end[0]);
	tsock_close(&duo.end[0]);
	NET_CHECK(NET_WAIT(sock_events(duo.end[1].ref.sk) & EPOLLHUP,
			   NET_PATIENCE)); /* it has ended */
	NET_CHECK_EQ(set_callback(callback), -ENOTCONN);
	NET_CHECK_EQ(set_callback(NULL), 0);
	finish();
}

/* ---- the stream -------------------------------------------------------------------------- */

/* The end of the stream comes after all bytes were seen. */
static void ends(void *arg)
{
	uint8_t byte;
	ssize_t n = -1;

	begin(VMA_PACKET_DROP);
	send_some(3);
	NET_CHECK_EQ(tsock_shutdown(&duo.end[0], SHUT_WR), 0);
	NET_CHECK(NET_WAIT((n = recv_some(&byte, 1)) != -EAGAIN, NET_PATIENCE));
	NET_CHECK_EQ(n, 0);
	NET_CHECK_EQ(n_seen(), 3 * DUO_MESSAGE);
	finish();
}

/* Urgent data is read, as without a callback. */
static void urgent(void *arg)
{
	char buf[4];

	begin(VMA_PACKET_DROP);
	NET_CHECK_EQ(tsock_send(&duo.end[0], "ab", 2, MSG_OOB), 2);
	NET_CHECK(NET_WAIT(recv_some(buf, sizeof(buf)) == 1, NET_PATIENCE));
	NET_CHECK_EQ(buf[0], 'a');
	NET_CHECK_EQ(seen.calls, 0);
	tsock_linger_none(&duo.end[0]);
	tsock_close(&duo.end[0]);
	finish();
}

/* ---- calls inside ------------------------------------------------------------------------ */

static void call_everything(void)
{
	static bool deep; /* no callback inside a callback */
	char buf[DUO_MESSAGE];

	NET_CHECK(!deep);
	deep = true;
	/* The same socket: it blocks otherwise, but nothing can arrive before we return. */
	NET_CHECK_EQ(tsock_recv(&duo.end[1], buf, sizeof(buf), 0), -EAGAIN);
	sock_poll_ring(tsock_home(&duo.end[1]));
	/* Another socket, which blocks until it has its bytes. */
	duo_send(&duo, 1, 1);
	tsock_block(&duo.end[0], true);
	NET_CHECK_EQ(tsock_recv(&duo.end[0], buf, sizeof(buf), 0), DUO_MESSAGE);
	tsock_block(&duo.end[0], false);
	duo.got[1] = duo.sent[1];
	seen.then = NULL;
	deep = false;
}

static void calls_inside(void *arg)
{
	params.rx_poll = 0; /* a blocking call sleeps at once */
	begin(VMA_PACKET_DROP);
	tsock_block(&duo.end[1], true);
	seen.then = call_everything;
	send_some(1);
	NET_CHECK(NET_WAIT(sees(DUO_MESSAGE), NET_PATIENCE));
	NET_CHECK(!seen.then);
	send_some(1);
	NET_CHECK(NET_WAIT(sees(2 * DUO_MESSAGE), NET_PATIENCE));
	finish();
}

static void close_inside(void)
{
	tsock_close(&duo.end[1]);
	seen.then = NULL;
}

static void disconnect_inside(void)
{
	struct sockaddr_in unspec = {.sin_family = AF_UNSPEC};

	NET_CHECK_EQ(tsock_connect(&duo.end[1], &unspec), 0);
	seen.then = NULL;
}

static struct ended_case {
	vma_recv_callback_retval_t verdict;
	void (*then)(void);
} ended_cases[] = {
	{VMA_PACKET_DROP, close_inside},      {VMA_PACKET_RECV, close_inside},
	{VMA_PACKET_HOLD, close_inside},      {VMA_PACKET_DROP, disconnect_inside},
	{VMA_PACKET_RECV, disconnect_inside},
};

static void ended_inside(void *arg)
{
	const struct ended_case *c = arg;

	begin(c->verdict);
	send_some(3);
	NET_CHECK(NET_WAIT(arrived(3 * DUO_MESSAGE), NET_PATIENCE));
	seen.then = c->then;
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	NET_CHECK_EQ(seen.calls, 1);
	finish();
}

static void test_ended_inside(void **state)
{
	for (unsigned i = 0; i < sizeof(ended_cases) / sizeof(ended_cases[0]); i++)
		assert_int_equal(loop_net_run("ended_inside", ended_inside, &ended_cases[i], 60),
				 0);
}

/* As close() when another process still has the connection. */
static void keep_inside(void)
{
	struct inet_sock *so = tsock_inet(&duo.end[1]);

	NET_CHECK(control_lock());
	sock_keep(so);
	control_unlock();
	seen.then = NULL;
}

/* This process gets it again, as the other one would: it reads all that the callback has not seen. */
static void unkeep(void)
{
	struct inet_sock *so = tsock_inet(&duo.end[1]);

	NET_CHECK(control_lock());
	sock_unkeep(so, duo.end[1].fd);
	duo.end[1].ref = sock_ref_of(so);
	control_unlock();
}

static struct ended_case kept_cases[] = {
	{VMA_PACKET_DROP, keep_inside},
	{VMA_PACKET_RECV, keep_inside},
	{VMA_PACKET_HOLD, keep_inside},
};

static void kept_inside(void *arg)
{
	const struct ended_case *c = arg;
	uint64_t first;

	begin(c->verdict);
	first = send_some(3);
	NET_CHECK(NET_WAIT(arrived(3 * DUO_MESSAGE), NET_PATIENCE));
	seen.then = c->then;
	NET_CHECK(NET_WAIT(sees(1), NET_PATIENCE));
	NET_CHECK_EQ(seen.calls, 1);
	NET_CHECK(
		NET_WAIT(held_count() == 0, NET_PATIENCE)); /* nobody could give the packet back */
	unkeep();
	reads(c->verdict == VMA_PACKET_RECV ? first : seen.at, duo.sent[0]);
	first = send_some(1);
	reads(first, duo.sent[0]);
	NET_CHECK_EQ(seen.calls, 1);
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* It is closed while packets wait for the callback, which is not called any more. */
static void kept_before(void *arg)
{
	uint64_t first;

	begin(VMA_PACKET_DROP);
	first = send_some(3);
	NET_CHECK(NET_WAIT(arrived(3 * DUO_MESSAGE), NET_PATIENCE));
	keep_inside();
	sees(0);
	unkeep();
	reads(first, duo.sent[0]);
	NET_CHECK_EQ(seen.calls, 0);
	finish();
}

static void test_kept_inside(void **state)
{
	for (unsigned i = 0; i < sizeof(kept_cases) / sizeof(kept_cases[0]); i++)
		assert_int_equal(loop_net_run("kept_inside", kept_inside, &kept_cases[i], 60), 0);
}

/* ---- left otherwise ------------------------------------------------------------------------ */

static jmp_buf out;

static void jump(void)
{
	seen.then = NULL;
	longjmp(out, 1);
}

/* Nothing is held: the thread goes on, the packet is dropped, the next ones are seen. */
static void jumps_out(void *arg)
{
	volatile unsigned jumps = 0;

	begin(VMA_PACKET_DROP);
	send_some(3);
	NET_CHECK(NET_WAIT(arrived(3 * DUO_MESSAGE), NET_PATIENCE));
	seen.then = jump;
	if (!setjmp(out))
		NET_CHECK(!NET_WAIT(sees(3 * DUO_MESSAGE), NET_PATIENCE));
	else
		jumps++;
	NET_CHECK_EQ(jumps, 1);
	NET_CHECK(!hold_current);
	NET_CHECK_EQ(seen.calls, 1);
	NET_CHECK(NET_WAIT(sees(3 * DUO_MESSAGE), NET_PATIENCE));
	NET_CHECK_EQ(charged(), 0);
	finish();
}

#define CASES(X)                      \
	X(drop)                       \
	X(pass)                       \
	X(hold)                       \
	X(holds_everything)           \
	X(not_in_the_internal_thread) \
	X(wakes_a_sleeper)            \
	X(registered_meanwhile)       \
	X(two_threads_and_moves)      \
	X(queued_first)               \
	X(taken_back)                 \
	X(taken_back_inside)          \
	X(refused)                    \
	X(ends)                       \
	X(urgent)                     \
	X(calls_inside)               \
	X(kept_before)                \
	X(jumps_out)

CASES(LOOP_NET_TEST)

static const struct CMUnitTest tests[] = {
	CASES(LOOP_NET_ENTRY) cmocka_unit_test(test_ended_inside),
	cmocka_unit_test(test_kept_inside),
};

VMA_TEST_MAIN("callback_tcp", tests, loop_net_enter_group, NULL)
