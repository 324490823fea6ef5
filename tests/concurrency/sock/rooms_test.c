/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vma_reserve(), vma_commit() and vma_abandon(), and batches: what is written into a frame arrives,
 * in order and unchanged, whatever happens to the socket, its ring and the thread meanwhile; each
 * room ends once; frames in rooms are limited.  loop_net_finish() finds packets that are lost.
 */
#include "duo.h"
#include "freers.h"
#include "vma_test.h"

#include <errno.h>
#include <string.h>
#include <vma/vma.h>

#include "ring/ring.h"
#include "ring/rings.h"
#include "sock/core/extra/room.h"
#include "sock/core/extra/sock_extra.h"

static struct tsock listener;
static struct duo duo;

static void begin(enum duo_kind kind)
{
	duo_begin();
	if (kind == DUO_TCP)
		listener = duo_listener(7100);
	duo_open(&duo, kind, &listener);
	duo_talk(&duo, 3); /* the destination is known */
}

static void finish(void)
{
	NET_CHECK_EQ(room_count(), 0);
	duo_close(&duo);
	duo_end(duo.kind == DUO_TCP ? &listener : NULL);
}

/* The next message of end 0, as duo_send() makes it. */
static void write_next(uint8_t *data, unsigned ahead)
{
	uint64_t number = duo.sent[0] + (duo.kind == DUO_TCP ? ahead * DUO_MESSAGE : ahead);

	for (unsigned i = 0; i < DUO_MESSAGE; i++)
		data[i] = duo_byte(number + i);
	if (duo.kind != DUO_TCP) {
		memset(data, 0, DUO_MESSAGE);
		memcpy(data, &number, sizeof(number));
	}
}

static void count_sent(unsigned n)
{
	duo.sent[0] += duo.kind == DUO_TCP ? n * DUO_MESSAGE : n;
}

static struct vma_room_t reserve(struct tsock *ts)
{
	struct vma_room_t room;
	size_t max;

	NET_CHECK_EQ(room_reserve(ts->ref, DUO_MESSAGE, &room, &max), 0);
	NET_CHECK(room.size >= DUO_MESSAGE);
	return room;
}

static const struct sockaddr *destination(void)
{
	return duo.kind == DUO_UDP_UNCONNECTED ? (struct sockaddr *)&duo.name[1] : NULL;
}

/* As vma_commit(): in place, or a copy.  -ENOENT: no room. */
static ssize_t commit(struct tsock *ts, uint64_t id, bool *in_place)
{
	struct room *room = room_claim(id, ts->ref, false);
	struct iovec iov;
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (!room)
		return -ENOENT;
	n = room_commit(room, ts->ref, DUO_MESSAGE, destination(), sizeof(duo.name[1]));
	*in_place = n >= 0;
	if (n >= 0)
		return n;
	NET_CHECK_EQ(n, SOCK_KERNEL);
	iov = room_iov(room, DUO_MESSAGE);
	if (destination()) {
		msg.msg_name = &duo.name[1];
		msg.msg_namelen = sizeof(duo.name[1]);
	}
	n = sock_ops_of(ts->ref.sk)->send(ts->ref, &msg, MSG_DONTWAIT);
	if (n == DUO_MESSAGE)
		room_done(room, DUO_MESSAGE, DUO_MESSAGE);
	else
		room_keep(room);
	return n;
}

static int abandon(struct tsock *ts, uint64_t id)
{
	struct room *room = room_claim(id, ts->ref, true);

	if (!room)
		return -ENOENT;
	room_free(room);
	return 0;
}

/* The committed message is the next one that the other end receives. */
static void expect_sent(uint64_t id, bool in_place)
{
	bool was;

	NET_CHECK_EQ(commit(&duo.end[0], id, &was), DUO_MESSAGE);
	NET_CHECK_EQ(was, in_place);
	count_sent(1);
	duo_drain(&duo, 0);
}

/* The case name_of of this kind of sockets. */
#define OF_KIND(name, of, kind)            \
	static void name##_##of(void *arg) \
	{                                  \
		name(kind);                \
	}

/* ---- one thread -------------------------------------------------------------------------- */

static void in_the_frame(enum duo_kind kind)
{
	struct vma_room_t room;

	begin(kind);
	for (unsigned i = 0; i < 20; i++) {
		room = reserve(&duo.end[0]);
		NET_CHECK(room.in_frame);
		write_next(room.data, 0);
		expect_sent(room.id, true);
		NET_CHECK_EQ(abandon(&duo.end[0], room.id), -ENOENT);
		duo_talk(&duo, 2);
	}
	finish();
}

OF_KIND(in_the_frame, udp, DUO_UDP)
OF_KIND(in_the_frame, unconnected, DUO_UDP_UNCONNECTED)
OF_KIND(in_the_frame, tcp, DUO_TCP)

/* What cannot leave at once is copied, and comes behind what was sent before. */
static void behind_unsent_data(void *arg)
{
	struct vma_room_t room;
	bool in_place;

	begin(DUO_TCP);
	NET_CHECK_EQ(duo_set_nodelay(&duo.end[0], false), 0);
	for (unsigned i = 0; i < 10; i++) {
		room = reserve(&duo.end[0]);
		duo_send(&duo, 0, 2);
		write_next(room.data, 0);
		NET_CHECK_EQ(commit(&duo.end[0], room.id, &in_place), DUO_MESSAGE);
		count_sent(1);
		duo_drain(&duo, 0);
	}
	finish();
}

/* A full segment leaves, but it begins with the bytes that waited: it is not the frame of the room. */
static void full_behind_unsent_data(void *arg)
{
	static uint8_t before[DUO_MESSAGE];
	struct vma_room_t room;
	struct room *claimed;
	size_t max, len;

	begin(DUO_TCP);
	len = tsock_inet(&duo.end[0])->tcp.conn.mss;
	for (unsigned i = 0; i < 10; i++) {
		NET_CHECK_EQ(room_reserve(duo.end[0].ref, len, &room, &max), 0);
		NET_CHECK(room.in_frame);
		write_next(before, 0);
		for (unsigned k = 0; k < len; k++)
			((uint8_t *)room.data)[k] = duo_byte(duo.sent[0] + DUO_MESSAGE + k);
		NET_CHECK_EQ(tsock_send(&duo.end[0], before, DUO_MESSAGE, MSG_MORE), DUO_MESSAGE);
		claimed = room_claim(room.id, duo.end[0].ref, false);
		NET_CHECK_EQ(room_commit(claimed, duo.end[0].ref, len, NULL, 0), len);
		duo.sent[0] += DUO_MESSAGE + len;
		duo_drain(&duo, 0);
	}
	finish();
}

/* The first segment with data of end 1, each time that it is sent. */
static struct {
	bool known;
	uint8_t seq[4];
} lost;

static bool lose_one(const struct pkt *pkt)
{
	const uint8_t *tcp = pkt->frame + ETH_HDR + IP4_HDR;

	if (memcmp(tcp, &duo.name[1].sin_port, 2) != 0 ||
	    pkt->frame_len < ETH_HDR + IP4_HDR + TCP_HDR + DUO_MESSAGE)
		return false;
	if (!lost.known)
		memcpy(lost.seq, tcp + 4, sizeof(lost.seq));
	lost.known = true;
	return !memcmp(tcp + 4, lost.seq, sizeof(lost.seq));
}

static bool has_gap(struct tsock *ts)
{
	struct ring *ring;
	bool has;

	NET_CHECK_EQ(sock_hold_cold(ts->ref, &ring), 0);
	ring_poll(ring);
	has = tsock_inet(ts)->tcp.conn.rcv.ooo;
	ring_release_cold(ring);
	return has;
}

/* The headers have selective acknowledgements, for which there is no place. */
static void behind_a_gap(void *arg)
{
	struct vma_room_t room;
	bool in_place;

	begin(DUO_TCP);
	room = reserve(&duo.end[0]);
	write_next(room.data, 0);
	loop_port_lose(lose_one);
	duo_send(&duo, 1, 1);
	duo_send(&duo, 1, 1);
	NET_CHECK(NET_WAIT(has_gap(&duo.end[0]), NET_PATIENCE));
	NET_CHECK_EQ(commit(&duo.end[0], room.id, &in_place), DUO_MESSAGE);
	loop_port_lose(NULL);
	count_sent(1);
	duo_drain(&duo, 0);
	duo_drain(&duo, 1);
	finish();
}

/* The rest of a message that was sent in part. */
static void in_parts(void *arg)
{
	const size_t part = 10, rest = DUO_MESSAGE - part;
	struct vma_room_t room;
	struct room *claimed;
	struct iovec iov;

	begin(DUO_TCP);
	room = reserve(&duo.end[0]);
	write_next(room.data, 0);
	claimed = room_claim(room.id, duo.end[0].ref, false);
	NET_CHECK_EQ(tsock_send(&duo.end[0], room.data, part, 0), part);
	room_done(claimed, part, DUO_MESSAGE);
	claimed = room_claim(room.id, duo.end[0].ref, false);
	NET_CHECK(claimed != NULL);
	NET_CHECK_EQ(claimed->size, room.size - part);
	iov = room_iov(claimed, rest);
	NET_CHECK(iov.iov_base == (uint8_t *)room.data + part);
	NET_CHECK_EQ(tsock_send(&duo.end[0], iov.iov_base, rest, 0), rest);
	room_done(claimed, rest, rest);
	NET_CHECK_EQ(abandon(&duo.end[0], room.id), -ENOENT);
	count_sent(1);
	duo_drain(&duo, 0);
	finish();
}

/* Datagrams whose frame cannot be sent as it is. */
static void not_as_it_is(void *arg)
{
	struct sock *sk;
	struct vma_room_t room;
	struct room *claimed;

	begin(DUO_UDP);
	sk = duo.end[0].ref.sk;
	room = reserve(&duo.end[0]);
	write_next(room.data, 0);
	__atomic_fetch_or(&sk->twin_events, EPOLLERR, __ATOMIC_RELAXED); /* an error to report */
	expect_sent(room.id, false);
	__atomic_store_n(&sk->twin_events, 0, __ATOMIC_RELAXED);

	/* The headers have another length by now. */
	room = reserve(&duo.end[0]);
	claimed = room_claim(room.id, duo.end[0].ref, false);
	claimed->at += 4;
	room_keep(claimed);
	write_next((uint8_t *)room.data + 4, 0);
	expect_sent(room.id, false);

	room = reserve(&duo.end[0]);
	write_next(room.data, 0);
	expect_sent(room.id, true);
	NET_CHECK_EQ(tsock_set_int(&duo.end[0], SOL_SOCKET, SO_MAX_PACING_RATE, 1 << 30), 0);
	for (unsigned i = 0; i < 2; i++) { /* the first one finds the destination anew */
		room = reserve(&duo.end[0]);
		write_next(room.data, 0);
		expect_sent(room.id, false);
	}
	finish();
}

static void survives_moves(enum duo_kind kind)
{
	struct vma_room_t room[2];

	begin(kind);
	room[0] = reserve(&duo.end[0]);
	duo_move(&duo.end[0], 7);
	duo_talk(&duo, 2);
	room[1] = reserve(&duo.end[0]);
	write_next(room[0].data, 0);
	expect_sent(room[0].id, false); /* the other ring's frame */
	write_next(room[1].data, 0);
	expect_sent(room[1].id, true);
	room[0] = reserve(&duo.end[0]);
	duo_move(&duo.end[0], 8);
	NET_CHECK_EQ(abandon(&duo.end[0], room[0].id), 0);
	finish();
}

OF_KIND(survives_moves, udp, DUO_UDP)
OF_KIND(survives_moves, tcp, DUO_TCP)

static void outlives_the_socket(enum duo_kind kind)
{
	struct tsock none = TSOCK_NONE;
	struct vma_room_t room[2];
	bool in_place;

	begin(kind);
	room[0] = reserve(&duo.end[0]);
	room[1] = reserve(&duo.end[0]);
	NET_CHECK_EQ(abandon(&none, room[0].id), -ENOENT); /* its socket is open */
	NET_CHECK_EQ(abandon(&duo.end[1], room[0].id), -ENOENT);
	duo_close(&duo);
	memset(room[0].data, 1, DUO_MESSAGE);
	NET_CHECK_EQ(commit(&duo.end[0], room[0].id, &in_place), -ENOENT);
	NET_CHECK_EQ(abandon(&none, room[0].id), 0);
	NET_CHECK_EQ(abandon(&none, room[0].id), -ENOENT);
	duo_open(&duo, kind, &listener); /* perhaps the same object, with a new generation */
	NET_CHECK_EQ(commit(&duo.end[0], room[1].id, &in_place), -ENOENT);
	NET_CHECK_EQ(abandon(&duo.end[0], room[1].id), 0);
	duo_talk(&duo, 3);
	finish();
}

OF_KIND(outlives_the_socket, udp, DUO_UDP)
OF_KIND(outlives_the_socket, tcp, DUO_TCP)

/* No frame of the ring is missing to others, however many rooms there are. */
static void limited(void *arg)
{
	static struct vma_room_t room[VMA_ROOM_MAX];
	struct vma_room_t more;
	struct ring *ring;
	unsigned frames, in_frames = 0;
	size_t max;

	begin(DUO_UDP);
	NET_CHECK_EQ(room_reserve(duo.end[0].ref, 1 << 20, &more, &max), -EMSGSIZE);
	NET_CHECK(max >= 1000 && max < 10000);
	NET_CHECK_EQ(sock_hold_cold(duo.end[0].ref, &ring), 0);
	frames = ring->q->frames;
	ring_release_cold(ring);
	for (unsigned i = 0; i < VMA_ROOM_MAX; i++) {
		room[i] = reserve(&duo.end[0]);
		in_frames += (unsigned)room[i].in_frame;
		memset(room[i].data, (int)i, room[i].size);
	}
	NET_CHECK(in_frames > 0 && in_frames <= frames / 8);
	NET_CHECK_EQ(room_count(), VMA_ROOM_MAX);
	NET_CHECK_EQ(room_reserve(duo.end[0].ref, 1, &more, &max), -ENOBUFS);
	NET_CHECK_EQ(room_reserve(duo.end[1].ref, 1, &more, &max), -ENOBUFS);
	duo_talk(&duo, 10);
	for (unsigned i = 0; i < VMA_ROOM_MAX; i++) {
		NET_CHECK_EQ(((uint8_t *)room[i].data)[DUO_MESSAGE - 1], (uint8_t)i);
		NET_CHECK_EQ(abandon(&duo.end[0], room[i].id), 0);
	}
	more = reserve(&duo.end[0]);
	NET_CHECK(more.in_frame); /* they are back */
	NET_CHECK_EQ(abandon(&duo.end[0], more.id), 0);
	finish();
}

static void numbers(void *arg)
{
	struct vma_room_t room, again;

	begin(DUO_UDP);
	room = reserve(&duo.end[0]);
	NET_CHECK_EQ(abandon(&duo.end[0], 0), -ENOENT);
	NET_CHECK_EQ(abandon(&duo.end[0], UINT64_MAX), -ENOENT);
	NET_CHECK_EQ(abandon(&duo.end[0], room.id + 1), -ENOENT);
	NET_CHECK_EQ(abandon(&duo.end[0], room.id + (1ull << 32)), -ENOENT);
	NET_CHECK_EQ(abandon(&duo.end[0], room.id + (2ull << 32)), -ENOENT);
	NET_CHECK_EQ(abandon(&duo.end[0], room.id), 0);
	again = reserve(&duo.end[0]); /* a slot that is used again does not answer to the old one */
	NET_CHECK(again.id != room.id);
	NET_CHECK_EQ(abandon(&duo.end[0], room.id), -ENOENT);
	NET_CHECK_EQ(abandon(&duo.end[0], again.id), 0);
	finish();
}

/* ---- two threads end the same rooms, while the socket moves ----------------------------------- */

static struct vma_room_t ended[FREERS_BATCH];

/* Room 0, 2 ... by a commit, the others by giving them back. */
static int end_one(unsigned i)
{
	bool in_place;
	ssize_t n;

	if (i % 2)
		return abandon(&duo.end[0], ended[i].id);
	n = commit(&duo.end[0], ended[i].id, &in_place);
	return n == DUO_MESSAGE ? 0 : (int)n;
}

static void two_threads_end(enum duo_kind kind)
{
	struct freers freers = {.free_one = end_one, .twice = -ENOENT};

	begin(kind);
	freers_start(&freers);
	for (unsigned round = 0; round < FREERS_ROUNDS; round++) {
		for (unsigned i = 0; i < FREERS_BATCH; i++) {
			ended[i] = reserve(&duo.end[0]);
			/* Any order is right, so all datagrams are the same; bytes are counted. */
			memset(ended[i].data, 0x11, DUO_MESSAGE);
		}
		if (round % 16 == 0)
			duo_ask(&duo.end[0], 100 + round);
		freers_free(&freers, round);
		for (unsigned got = 0; got < FREERS_BATCH / 2 * DUO_MESSAGE;) {
			char buf[DUO_MESSAGE];
			ssize_t n = -1;

			NET_CHECK(NET_WAIT(
				(n = tsock_recv(&duo.end[1], buf, sizeof(buf), MSG_DONTWAIT)) > 0,
				NET_PATIENCE));
			for (ssize_t i = 0; i < n; i++)
				NET_CHECK_EQ(buf[i], 0x11);
			got += (unsigned)n;
		}
	}
	freers_stop(&freers);
	loop_net_settle();
	NET_CHECK_EQ(room_count(), 0);
	duo_close(&duo);
	duo_end(kind == DUO_TCP ? &listener : NULL);
}

OF_KIND(two_threads_end, udp, DUO_UDP)
OF_KIND(two_threads_end, tcp, DUO_TCP)

/* ---- a thread reserves and commits while another one closes the socket ------------------------- */

#define CLOSE_ROUNDS 100

static void *writer(void *arg)
{
	struct tsock *ts = arg;
	bool in_place;

	for (;;) {
		struct vma_room_t room;
		size_t max;
		ssize_t n;
		int rc = room_reserve(ts->ref, DUO_MESSAGE, &room, &max);

		if (rc) {
			NET_CHECK_EQ(rc, -EBADF);
			return NULL;
		}
		memset(room.data, 0x22, DUO_MESSAGE);
		n = commit(ts, room.id, &in_place);
		if (n == DUO_MESSAGE)
			continue;
		NET_CHECK(n == -EBADF || n == -EAGAIN || n == -ECONNREFUSED || n == -ENOENT);
		NET_CHECK_EQ(abandon(ts, room.id), 0);
	}
}

static void closed_meanwhile(void *arg)
{
	duo_begin();
	for (unsigned round = 0; round < CLOSE_ROUNDS; round++) {
		struct sockaddr_in to;
		struct tsock from = tsock_udp(), at = tsock_udp();
		pthread_t tids[2];
		char buf[DUO_MESSAGE];

		NET_CHECK_EQ(tsock_bind(&at, fake_link_addr(1), 0), 0);
		to = tsock_name(&at);
		NET_CHECK_EQ(tsock_connect(&from, &to), 0);
		duo.kind = DUO_UDP;
		for (unsigned i = 0; i < 2; i++)
			NET_CHECK_EQ(pthread_create(&tids[i], NULL, writer, &from), 0);
		NET_CHECK(NET_WAIT(tsock_recv(&at, buf, sizeof(buf), MSG_DONTWAIT) > 0,
				   NET_PATIENCE));
		sock_close(from.ref);
		for (unsigned i = 0; i < 2; i++)
			pthread_join(tids[i], NULL);
		sys_close(from.fd);
		tsock_close(&at);
		NET_CHECK_EQ(room_count(), 0);
	}
	duo_end(NULL);
}

/* ---- batches ---------------------------------------------------------------------------- */

#define BATCH 16

static void batches(void *arg)
{
	static uint8_t data[BATCH][DUO_MESSAGE], got[BATCH][DUO_MESSAGE];
	struct vma_message_t out[BATCH], in[BATCH];

	begin(DUO_UDP);
	for (unsigned round = 0; round < 200; round++) {
		unsigned n = round % BATCH + 1, done, have = 0;
		uint64_t first = duo.sent[0];

		memset(out, 0, sizeof(out));
		memset(in, 0, sizeof(in));
		for (unsigned i = 0; i < n; i++) {
			write_next(data[i], i);
			out[i].data = data[i];
			in[i].data = got[i];
			out[i].size = in[i].size = DUO_MESSAGE;
		}
		if (round % 16 == 15) {
			duo_ask(&duo.end[0], 100 + round);
			duo_ask(&duo.end[1], 300 + round);
		}
		NET_CHECK_EQ(sock_send_batch(duo.end[0].ref, out, n, 0, &done), 0);
		NET_CHECK_EQ(done, n);
		while (have < n) {
			/* What is under way to the new ring arrives there a moment later. */
			NET_CHECK(NET_WAIT(sock_recv_batch(duo.end[1].ref, in + have, n - have,
							   MSG_DONTWAIT, &done) == 0,
					   NET_PATIENCE));
			NET_CHECK(done > 0);
			have += done;
		}
		for (unsigned i = 0; i < n; i++) {
			uint64_t number;

			memcpy(&number, got[i], sizeof(number));
			NET_CHECK_EQ(number, first + i);
			NET_CHECK_EQ(in[i].done, DUO_MESSAGE);
			NET_CHECK_EQ(out[i].done, DUO_MESSAGE);
		}
		NET_CHECK_EQ(sock_recv_batch(duo.end[1].ref, in, n, MSG_DONTWAIT, &done), -EAGAIN);
		NET_CHECK_EQ(done, 0);
		duo.sent[0] += n;
		duo.got[0] += n;
	}
	finish();
}

#define CASES(X)                    \
	X(in_the_frame_udp)         \
	X(in_the_frame_unconnected) \
	X(in_the_frame_tcp)         \
	X(behind_unsent_data)       \
	X(full_behind_unsent_data)  \
	X(behind_a_gap)             \
	X(in_parts)                 \
	X(not_as_it_is)             \
	X(survives_moves_udp)       \
	X(survives_moves_tcp)       \
	X(outlives_the_socket_udp)  \
	X(outlives_the_socket_tcp)  \
	X(limited)                  \
	X(numbers)                  \
	X(two_threads_end_udp)      \
	X(two_threads_end_tcp)      \
	X(closed_meanwhile)         \
	X(batches)

CASES(LOOP_NET_TEST)

static const struct CMUnitTest tests[] = {CASES(LOOP_NET_ENTRY)};

VMA_TEST_MAIN("rooms", tests, loop_net_enter_group, NULL)
