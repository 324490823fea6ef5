/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recvfrom_zcopy() and free_packets() of connections: several packets in a call, no byte copied,
 * lost or changed, whatever happens to the connection, its ring and the thread; what a program
 * holds is limited, and then only its connection stops.  loop_net_finish() finds packets that are
 * lost.
 */
#include "extra.h"
#include "vma_test.h"

#include <pthread.h>
#include <string.h>

#include "net/tcp/tcp_rare.h"
#include "ring/ring.h"
#include "ring/rings.h"

#define PACKETS 16

struct got_packets {
	size_t n_packet_num;
	struct held_piece packet[PACKETS];
};

static struct tsock listener;
static struct duo duo;

static void begin(void)
{
	duo_begin();
	listener = duo_listener(7100);
	duo_open(&duo, DUO_TCP, &listener);
}

static void finish(void)
{
	duo_close(&duo);
	duo_end(&listener);
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
}

/* As recvfrom_zcopy() with a buffer of room bytes. */
static ssize_t take(struct tsock *ts, void *to, size_t room, bool *done)
{
	struct iovec iov = {to, room};
	struct sock_zcopy zcopy = {.msg = {.msg_iov = &iov, .msg_iovlen = 1}};
	ssize_t n = sock_recv_zcopy(ts->ref, &zcopy, MSG_DONTWAIT);

	*done = zcopy.done;
	return n;
}

/* The next packets; negative: -errno. */
static ssize_t take_some(struct got_packets *got)
{
	bool done;
	ssize_t n = take(&duo.end[1], got, sizeof(*got), &done);

	NET_CHECK_EQ(done, n > 0);
	return n;
}

static void check_bytes(const struct held_piece *p, uint64_t pos)
{
	const uint8_t *bytes = p->iov.iov_base;

	NET_CHECK_EQ(p->sz_iov, 1);
	for (size_t i = 0; i < p->iov.iov_len; i++)
		NET_CHECK_EQ(bytes[i], duo_byte(pos + i));
}

/* Checks that these are the next bytes of the stream. */
static void check_packets(const struct got_packets *got, ssize_t n)
{
	size_t sum = 0;

	NET_CHECK(got->n_packet_num >= 1 && got->n_packet_num <= PACKETS);
	for (size_t i = 0; i < got->n_packet_num; i++) {
		check_bytes(&got->packet[i], duo.got[0] + sum);
		sum += got->packet[i].iov.iov_len;
	}
	NET_CHECK_EQ(sum, n);
	duo.got[0] += sum;
}

static int give_back(struct tsock *ts, const struct held_piece *p)
{
	return sock_free_packet(p->packet_id, ts->ref);
}

static void give_all_back(struct tsock *ts, const struct got_packets *got)
{
	for (size_t i = 0; i < got->n_packet_num; i++)
		NET_CHECK_EQ(give_back(ts, &got->packet[i]), 0);
}

static uint32_t charged(void)
{
	const struct tcp_rare *rare;
	struct ring *ring;
	uint32_t bytes;

	NET_CHECK_EQ(sock_hold_cold(duo.end[1].ref, &ring), 0);
	rare = tsock_inet(&duo.end[1])->tcp.conn.rare;
	bytes = rare ? rare->taken : 0;
	ring_release_cold(ring);
	return bytes;
}

static uint32_t unread(void)
{
	struct ring *ring;
	uint32_t bytes;

	sock_poll_ring(tsock_home(&duo.end[1]));
	NET_CHECK_EQ(sock_hold_cold(duo.end[1].ref, &ring), 0);
	bytes = tcp_readable_bytes(&tsock_inet(&duo.end[1])->tcp.conn);
	ring_release_cold(ring);
	return bytes;
}

static void send_and_wait(unsigned n)
{
	duo_send(&duo, 0, n);
	NET_CHECK(NET_WAIT(unread() == duo.sent[0] - duo.got[0], NET_PATIENCE));
}

/* ---- one thread -------------------------------------------------------------------------- */

static void several(void *arg)
{
	struct got_packets got, again;
	struct ring *ring;
	const void *payload;

	begin();
	NET_CHECK_EQ(take_some(&got), -EAGAIN);
	send_and_wait(5);
	NET_CHECK_EQ(sock_hold_cold(duo.end[1].ref, &ring), 0);
	payload = pkt_payload(tsock_inet(&duo.end[1])->tcp.conn.rcv.head);
	ring_release_cold(ring);
	check_packets(&got, take_some(&got));
	NET_CHECK(got.packet[0].iov.iov_base == payload); /* where the port put it */
	NET_CHECK_EQ(got.n_packet_num, 5);
	NET_CHECK(NET_WAIT(held_count() == 5, NET_PATIENCE));
	NET_CHECK(charged() >= 5 * DUO_MESSAGE);
	NET_CHECK_EQ(unread(), 0);
	NET_CHECK(!(sock_events(duo.end[1].ref.sk) & EPOLLIN));

	NET_CHECK_EQ(give_back(&duo.end[0], &got.packet[0]), -ENOENT); /* another socket's */
	NET_CHECK_EQ(sock_free_packet(&got, duo.end[1].ref), -ENOENT);
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[2]), 0);
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[2]), -ENOENT); /* twice */
	send_and_wait(1);
	check_packets(&again, take_some(&again));
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[2]), -ENOENT); /* its slot is used again */
	check_bytes(&got.packet[4], duo.got[0] - 2 * DUO_MESSAGE);
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[0]), 0);
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[1]), 0);
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[3]), 0);
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[4]), 0);
	give_all_back(&duo.end[1], &again);
	NET_CHECK_EQ(charged(), 0);
	duo_talk(&duo, 3);
	finish();
}

/* A call takes what fits, and leaves the rest. */
static void room(void *arg)
{
	struct got_packets got;
	char some[10];
	bool done;

	begin();
	send_and_wait(4);
	NET_CHECK_EQ(take(&duo.end[1], &got, sizeof(struct held_record) - 1, &done), -ENOBUFS);
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	NET_CHECK_EQ(unread(), 4 * DUO_MESSAGE);
	/* recv() reads the first bytes of a packet, and the rest is taken. */
	NET_CHECK_EQ(tsock_recv(&duo.end[1], some, sizeof(some), 0), sizeof(some));
	duo.got[0] += sizeof(some);
	check_packets(&got, take(&duo.end[1], &got, sizeof(struct held_record) + 1, &done));
	NET_CHECK_EQ(got.n_packet_num, 1);
	NET_CHECK_EQ(got.packet[0].iov.iov_len, DUO_MESSAGE - sizeof(some));
	give_all_back(&duo.end[1], &got);
	duo_drain(&duo, 0);
	NET_CHECK_EQ(charged(), 0);
	finish();
}

/* The end of the stream, a reset, and urgent data, which can only be copied. */
static void ends(void *arg)
{
	struct got_packets got;

	begin();
	send_and_wait(1);
	NET_CHECK_EQ(tsock_shutdown(&duo.end[0], SHUT_WR), 0);
	check_packets(&got, take_some(&got));
	NET_CHECK(NET_WAIT(take_some(&got) == 0, NET_PATIENCE));
	NET_CHECK_EQ(got.n_packet_num, 1); /* the buffer is unchanged */
	give_all_back(&duo.end[1], &got);
	duo_close(&duo);

	duo_open(&duo, DUO_TCP, &listener);
	NET_CHECK_EQ(tsock_send(&duo.end[0], "ab", 2, MSG_OOB), 2);
	NET_CHECK(NET_WAIT(unread() > 0, NET_PATIENCE));
	NET_CHECK_EQ(take_some(&got), SOCK_KERNEL);
	tsock_linger_none(&duo.end[0]);
	tsock_close(&duo.end[0]);
	duo_close(&duo);

	duo_open(&duo, DUO_TCP, &listener);
	tsock_linger_none(&duo.end[0]);
	tsock_close(&duo.end[0]);
	NET_CHECK(NET_WAIT(take_some(&got) == -ECONNRESET, NET_PATIENCE));
	NET_CHECK_EQ(take_some(&got), 0); /* it was reported */
	finish();
}

/* ---- what a packet outlives ---------------------------------------------------------------- */

static void outlives_a_move(void *arg)
{
	struct got_packets got, after;

	begin();
	send_and_wait(3);
	check_packets(&got, take_some(&got));
	send_and_wait(2);
	duo_move(&duo.end[1], 7);
	check_packets(&after, take_some(&after));
	duo_move(&duo.end[1], 8);
	check_bytes(&got.packet[2], duo.got[0] - 3 * DUO_MESSAGE);
	give_all_back(&duo.end[1], &got);
	give_all_back(&duo.end[1], &after);
	NET_CHECK_EQ(charged(), 0);
	duo_talk(&duo, 3);
	finish();
}

static void outlives_the_socket(void *arg)
{
	struct tsock none = TSOCK_NONE;
	struct got_packets got;
	uint64_t pos;

	begin();
	pos = duo.got[0];
	send_and_wait(2);
	check_packets(&got, take_some(&got));
	NET_CHECK_EQ(give_back(&none, &got.packet[0]), -ENOENT); /* its socket is open */
	duo_close(&duo);
	check_bytes(&got.packet[0], pos);
	check_bytes(&got.packet[1], pos + DUO_MESSAGE);
	NET_CHECK_EQ(give_back(&none, &got.packet[0]), 0);
	NET_CHECK_EQ(give_back(&none, &got.packet[0]), -ENOENT);
	duo_open(&duo, DUO_TCP, &listener); /* perhaps the same object, with a new generation */
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[1]), 0);
	NET_CHECK_EQ(charged(), 0);
	duo_talk(&duo, 3);
	finish();
}

/* The socket disconnects, and is a listener when the packet comes back. */
static void outlives_the_connection(void *arg)
{
	struct sockaddr_in unspec = {.sin_family = AF_UNSPEC};
	struct got_packets got;

	begin();
	send_and_wait(1);
	check_packets(&got, take_some(&got));
	NET_CHECK_EQ(tsock_connect(&duo.end[1], &unspec), 0);
	NET_CHECK_EQ(tsock_listen(&duo.end[1], 5), 0);
	NET_CHECK_EQ(give_back(&duo.end[1], &got.packet[0]), 0);
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	finish();
}

static void *receiver(void *arg)
{
	check_packets(arg, take_some(arg));
	return NULL;
}

static void outlives_the_thread(void *arg)
{
	struct got_packets got;
	pthread_t tid;

	begin();
	send_and_wait(1);
	NET_CHECK_EQ(pthread_create(&tid, NULL, receiver, &got), 0);
	NET_CHECK_EQ(pthread_join(tid, NULL), 0);
	check_bytes(&got.packet[0], duo.got[0] - DUO_MESSAGE);
	give_all_back(&duo.end[1], &got);
	finish();
}

/* ---- limits ------------------------------------------------------------------------------ */

#define LOTS 4000

/* A program that holds all it gets does not get more; another connection of the ring does. */
static void holds_everything(void *arg)
{
	static struct got_packets got[LOTS];
	struct got_packets more;
	struct duo other;
	unsigned n = 0;
	ssize_t rc = 0;
	bool done;

	begin();
	duo_open(&other, DUO_TCP, &listener);
	NET_CHECK_EQ(tsock_set_int(&duo.end[1], SOL_SOCKET, SO_RCVBUF, 1), 0);
	while (n < LOTS && rc != -ENOBUFS) {
		send_and_wait(1);
		rc = take(&duo.end[1], &got[n], sizeof(struct held_record), &done);
		if (rc > 0)
			check_packets(&got[n++], rc);
		else
			NET_CHECK_EQ(rc, -ENOBUFS);
	}
	NET_CHECK_EQ(rc, -ENOBUFS);
	NET_CHECK(n > 10);
	NET_CHECK(NET_WAIT(held_count() == n, NET_PATIENCE));
	NET_CHECK(charged() <= TCP_RECVQ_ROOM_MIN + 4096);
	NET_CHECK_EQ(unread(), DUO_MESSAGE); /* not lost */
	duo_talk(&other, 20);
	duo_drain(&duo, 0); /* it still copies */

	give_all_back(&duo.end[1], &got[0]);
	send_and_wait(1);
	check_packets(&more, take_some(&more));
	give_all_back(&duo.end[1], &more);
	for (unsigned i = 1; i < n; i++)
		give_all_back(&duo.end[1], &got[i]);
	NET_CHECK_EQ(charged(), 0);
	duo_talk(&duo, 3);
	duo_close(&other);
	finish();
}

/* ---- two threads free, while a third receives and the connection moves ----------------------- */

#define ROUNDS 300
#define BATCH 8

static struct {
	struct got_packets got;
	unsigned freed; /* atomic */
	bool ends;	/* written between the barriers */
	pthread_barrier_t begin, end;
} shared;

static void *freer(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&shared.begin);
		if (shared.ends)
			return NULL;
		for (unsigned i = 0; i < shared.got.n_packet_num; i++) {
			int rc = give_back(&duo.end[1], &shared.got.packet[i]);

			NET_CHECK(rc == 0 || rc == -ENOENT);
			if (!rc)
				__atomic_fetch_add(&shared.freed, 1, __ATOMIC_RELAXED);
		}
		pthread_barrier_wait(&shared.end);
	}
}

static void two_threads_free(void *arg)
{
	pthread_t tids[2];
	unsigned taken = 0;

	begin();
	pthread_barrier_init(&shared.begin, NULL, 3);
	pthread_barrier_init(&shared.end, NULL, 3);
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK_EQ(pthread_create(&tids[i], NULL, freer, NULL), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		duo_send(&duo, 0, BATCH);
		while (duo.got[0] < duo.sent[0]) {
			ssize_t n;

			NET_CHECK(NET_WAIT((sock_poll_ring(tsock_home(&duo.end[0])),
					    n = take_some(&shared.got)) > 0,
					   NET_PATIENCE));
			check_packets(&shared.got, n);
			taken += (unsigned)shared.got.n_packet_num;
			pthread_barrier_wait(&shared.begin);
			pthread_barrier_wait(&shared.end);
			NET_CHECK_EQ(shared.freed, taken); /* each once */
		}
		if (round % 16 == 0)
			duo_ask(&duo.end[1], 100 + round);
	}
	shared.ends = true;
	pthread_barrier_wait(&shared.begin);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(tids[i], NULL);
	loop_net_settle();
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	NET_CHECK_EQ(charged(), 0);
	finish();
}

#define CASES(X)                   \
	X(several)                 \
	X(room)                    \
	X(ends)                    \
	X(outlives_a_move)         \
	X(outlives_the_socket)     \
	X(outlives_the_connection) \
	X(outlives_the_thread)     \
	X(holds_everything)        \
	X(two_threads_free)

CASES(LOOP_NET_TEST)

static const struct CMUnitTest tests[] = {CASES(LOOP_NET_ENTRY)};

VMA_TEST_MAIN("zcopy_tcp", tests, loop_net_enter_group, NULL)
