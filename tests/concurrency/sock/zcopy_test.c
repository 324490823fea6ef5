/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recvfrom_zcopy() and free_packets() of datagram sockets: the bytes stay as they were for as long
 * as the program holds them, whatever happens to the socket, its ring and the thread; each packet
 * is freed once; what a program holds is limited. loop_net_finish() finds packets that are lost.
 */
#include "extra.h"
#include "freers.h"
#include "vma_test.h"

#include <pthread.h>
#include <string.h>

#include "ring/ring.h"
#include "ring/rings.h"

static uint64_t number_in(const struct got_packet *got)
{
	uint64_t number;

	NET_CHECK_EQ(got->iov.iov_len, DUO_MESSAGE);
	memcpy(&number, got->iov.iov_base, sizeof(number));
	return number;
}

static int give_back(struct tsock *ts, const struct got_packet *got)
{
	return sock_free_packet(got->packet_id, ts->ref);
}

/* Sends n datagrams; returns the number of the first. */
static uint64_t send_some(struct duo *duo, unsigned n)
{
	uint64_t first = duo->sent[0];

	duo_send(duo, 0, n);
	duo->got[0] += n; /* this test takes them itself */
	return first;
}

static uint32_t bytes_of(struct tsock *ts)
{
	struct ring *ring;
	uint32_t bytes;

	NET_CHECK_EQ(sock_hold_cold(ts->ref, &ring), 0);
	bytes = tsock_inet(ts)->udp.bytes;
	ring_release_cold(ring);
	return bytes;
}

/* ---- one thread -------------------------------------------------------------------------- */

static void errors(void *arg)
{
	struct got_packet got, other, third;
	struct duo duo;
	uint64_t first;
	uint32_t before;

	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	NET_CHECK_EQ(take_packet(&duo.end[1], &got, true), -EAGAIN);
	before = bytes_of(&duo.end[1]);
	first = send_some(&duo, 2);
	wait_packet(&duo.end[1], &got);
	NET_CHECK_EQ(number_in(&got), first);
	wait_packet(&duo.end[1], &other);
	NET_CHECK_EQ(number_in(&other), first + 1);
	NET_CHECK(got.packet_id != other.packet_id);
	NET_CHECK(NET_WAIT(held_count() == 2, NET_PATIENCE));
	NET_CHECK(bytes_of(&duo.end[1]) > before + 2 * DUO_MESSAGE);

	NET_CHECK_EQ(give_back(&duo.end[0], &got), -ENOENT); /* another socket's */
	NET_CHECK_EQ(sock_free_packet(NULL, duo.end[1].ref), -ENOENT);
	NET_CHECK_EQ(sock_free_packet(&got, duo.end[1].ref), -ENOENT);
	NET_CHECK_EQ(sock_free_packet((void *)UINTPTR_MAX, duo.end[1].ref), -ENOENT);
	NET_CHECK_EQ(sock_free_packet(got.iov.iov_base, duo.end[1].ref), -ENOENT);
	NET_CHECK_EQ(give_back(&duo.end[1], &got), 0);
	NET_CHECK_EQ(give_back(&duo.end[1], &got), -ENOENT); /* twice */
	NET_CHECK_EQ(number_in(&other), first + 1);
	NET_CHECK(NET_WAIT(held_count() == 1, NET_PATIENCE));
	/* A slot that is used again does not answer to the old number. */
	send_some(&duo, 1);
	wait_packet(&duo.end[1], &third);
	NET_CHECK(third.packet_id != got.packet_id);
	NET_CHECK_EQ(give_back(&duo.end[1], &got), -ENOENT);
	NET_CHECK(NET_WAIT(held_count() == 2, NET_PATIENCE));
	NET_CHECK_EQ(give_back(&duo.end[1], &third), 0);
	NET_CHECK_EQ(give_back(&duo.end[1], &other), 0);
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	NET_CHECK_EQ(bytes_of(&duo.end[1]), before);
	duo_close(&duo);
	duo_end(NULL);
}

static void room_and_memory(void *arg)
{
	struct got_packet got;
	struct iovec iov = {&got, sizeof(got) - 1};
	struct sock_zcopy zcopy = {.msg = {.msg_iov = &iov, .msg_iovlen = 1}};
	struct duo duo;
	uint64_t first;

	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	first = send_some(&duo, 1);
	NET_CHECK(NET_WAIT(sock_poll_ring(tsock_home(&duo.end[1])) ||
				   sock_events(duo.end[1].ref.sk) & EPOLLIN,
			   NET_PATIENCE));
	/* Neither takes the datagram. */
	NET_CHECK_EQ(sock_recv_zcopy(duo.end[1].ref, &zcopy, MSG_DONTWAIT), -ENOBUFS);
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	wait_packet(&duo.end[1], &got);
	NET_CHECK_EQ(number_in(&got), first);
	NET_CHECK_EQ(give_back(&duo.end[1], &got), 0);
	duo_close(&duo);
	duo_end(NULL);
}

/* No byte is copied: the packet points into the frame that the ring's port received. */
static void addresses(void *arg)
{
	struct got_packet got;
	struct duo duo;
	struct ring *ring;
	const struct pkt *pkt;
	const void *payload;

	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	send_some(&duo, 1);
	NET_CHECK(NET_WAIT((sock_poll_ring(tsock_home(&duo.end[1])),
			    sock_events(duo.end[1].ref.sk) & EPOLLIN),
			   NET_PATIENCE));
	NET_CHECK_EQ(sock_hold_cold(duo.end[1].ref, &ring), 0);
	pkt = tsock_inet(&duo.end[1])->udp.head;
	payload = pkt_payload(pkt);
	ring_release_cold(ring);
	wait_packet(&duo.end[1], &got);
	NET_CHECK(got.iov.iov_base == payload);
	NET_CHECK_EQ(give_back(&duo.end[1], &got), 0);
	duo_close(&duo);
	duo_end(NULL);
}

/* ---- what a packet outlives ---------------------------------------------------------------- */

static void outlives_a_move(void *arg)
{
	struct got_packet got[2];
	struct duo duo;
	uint64_t first;
	uint32_t before;

	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	before = bytes_of(&duo.end[1]);
	first = send_some(&duo, 2);
	wait_packet(&duo.end[1], &got[0]);
	duo_move(&duo.end[1], 7);
	wait_packet(&duo.end[1], &got[1]);
	duo_move(&duo.end[1], 8);
	for (unsigned i = 0; i < 2; i++) {
		NET_CHECK_EQ(number_in(&got[i]), first + i);
		NET_CHECK_EQ(give_back(&duo.end[1], &got[i]), 0);
	}
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	NET_CHECK_EQ(bytes_of(&duo.end[1]), before);
	duo_talk(&duo, 3);
	duo_close(&duo);
	duo_end(NULL);
}

static void outlives_the_socket(void *arg)
{
	struct tsock none = TSOCK_NONE;
	struct got_packet got[2];
	struct duo duo;
	uint64_t first;

	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	first = send_some(&duo, 2);
	wait_packet(&duo.end[1], &got[0]);
	wait_packet(&duo.end[1], &got[1]);
	NET_CHECK_EQ(give_back(&none, &got[0]), -ENOENT); /* its socket is open */
	duo_close(&duo);
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK_EQ(number_in(&got[i]), first + i);
	NET_CHECK_EQ(give_back(&none, &got[0]), 0);
	NET_CHECK_EQ(give_back(&none, &got[0]), -ENOENT);
	duo_open(&duo, DUO_UDP, NULL); /* perhaps the same object, with a new generation */
	NET_CHECK_EQ(give_back(&duo.end[1], &got[1]), 0);
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	duo_talk(&duo, 3);
	duo_close(&duo);
	duo_end(NULL);
}

static void *receiver(void *arg)
{
	struct got_packet *got = malloc(sizeof(*got));

	wait_packet(arg, got);
	return got;
}

static void outlives_the_thread(void *arg)
{
	struct got_packet *got;
	struct duo duo;
	uint64_t first;
	pthread_t tid;
	void *result;

	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	first = send_some(&duo, 1);
	NET_CHECK_EQ(pthread_create(&tid, NULL, receiver, &duo.end[1]), 0);
	NET_CHECK_EQ(pthread_join(tid, &result), 0);
	got = result;
	NET_CHECK_EQ(number_in(got), first);
	NET_CHECK_EQ(give_back(&duo.end[1], got), 0);
	free(got);
	duo_close(&duo);
	duo_end(NULL);
}

/* ---- limits ------------------------------------------------------------------------------ */

#define LOTS 2000

static uint64_t drops_of(struct tsock *ts)
{
	struct ring *ring;
	uint64_t drops;

	NET_CHECK_EQ(sock_hold_cold(ts->ref, &ring), 0);
	drops = tsock_inet(ts)->udp.dropped;
	ring_release_cold(ring);
	return drops;
}

/* A program that holds all it gets does not get more; another socket of the ring does. */
static void holds_everything(void *arg)
{
	static struct got_packet got[LOTS];
	struct tsock other, sender;
	struct sockaddr_in to;
	struct duo duo;
	uint64_t drops;
	unsigned n = 0;
	char buf[8];

	duo_begin();
	duo_open(&duo, DUO_UDP, NULL);
	NET_CHECK_EQ(tsock_set_int(&duo.end[1], SOL_SOCKET, SO_RCVBUF, 1), 0);
	drops = drops_of(&duo.end[1]);
	for (unsigned i = 0; i < LOTS && drops_of(&duo.end[1]) == drops; i++) {
		send_some(&duo, 1);
		NET_CHECK(NET_WAIT((n < LOTS && take_packet(&duo.end[1], &got[n], false) >= 0 &&
				    ++n) || drops_of(&duo.end[1]) > drops,
				   NET_PATIENCE));
	}
	NET_CHECK(drops_of(&duo.end[1]) > drops);
	NET_CHECK(NET_WAIT(held_count() == n, NET_PATIENCE));
	NET_CHECK(n > 10);

	other = tsock_udp();
	sender = tsock_udp();
	NET_CHECK_EQ(tsock_bind(&other, fake_link_addr(1), 0), 0);
	to = tsock_name(&other);
	NET_CHECK_EQ(tsock_sendto(&sender, "hello", 6, &to), 6);
	NET_CHECK(NET_WAIT(tsock_recv(&other, buf, sizeof(buf), 0) == 6, NET_PATIENCE));

	for (unsigned i = 0; i < n; i++)
		NET_CHECK_EQ(give_back(&duo.end[1], &got[i]), 0);
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	send_some(&duo, 1);
	wait_packet(&duo.end[1], &got[0]); /* it gets more now */
	NET_CHECK_EQ(give_back(&duo.end[1], &got[0]), 0);
	tsock_close(&other);
	tsock_close(&sender);
	duo_close(&duo);
	duo_end(NULL);
}

/* ---- two threads free, while a third receives and the socket moves ---------------------------- */

static struct duo freed_duo;
static struct got_packet freed_got[FREERS_BATCH];

static int free_one(unsigned i)
{
	return give_back(&freed_duo.end[1], &freed_got[i]);
}

static void two_threads_free(void *arg)
{
	struct freers freers = {.free_one = free_one, .twice = -ENOENT};
	struct duo *duo = &freed_duo;
	uint32_t before;

	duo_begin();
	duo_open(duo, DUO_UDP, NULL);
	before = bytes_of(&duo->end[1]);
	freers_start(&freers);
	for (unsigned round = 0; round < FREERS_ROUNDS; round++) {
		uint64_t first = send_some(duo, FREERS_BATCH);

		for (unsigned i = 0; i < FREERS_BATCH; i++) {
			wait_packet(&duo->end[1], &freed_got[i]);
			NET_CHECK_EQ(number_in(&freed_got[i]), first + i);
		}
		if (round % 16 == 0)
			duo_ask(&duo->end[1], 100 + round);
		freers_free(&freers, round);
	}
	freers_stop(&freers);
	loop_net_settle();
	NET_CHECK(NET_WAIT(held_count() == 0, NET_PATIENCE));
	NET_CHECK_EQ(bytes_of(&duo->end[1]), before);
	duo_close(duo);
	duo_end(NULL);
}

LOOP_NET_TEST(errors)
LOOP_NET_TEST(room_and_memory)
LOOP_NET_TEST(addresses)
LOOP_NET_TEST(outlives_a_move)
LOOP_NET_TEST(outlives_the_socket)
LOOP_NET_TEST(outlives_the_thread)
LOOP_NET_TEST(holds_everything)
LOOP_NET_TEST(two_threads_free)

static const struct CMUnitTest tests[] = {
	LOOP_NET_ENTRY(errors) LOOP_NET_ENTRY(room_and_memory) LOOP_NET_ENTRY(addresses)
		LOOP_NET_ENTRY(outlives_a_move) LOOP_NET_ENTRY(outlives_the_socket)
			LOOP_NET_ENTRY(outlives_the_thread) LOOP_NET_ENTRY(holds_everything)
				LOOP_NET_ENTRY(two_threads_free)};

VMA_TEST_MAIN("zcopy", tests, loop_net_enter_group, NULL)
