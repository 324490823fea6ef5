/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer process that breaks the rules of process sharing, by worker or at random: its channel
 * ends, and this process keeps its sockets and goes on.
 *
 * The hostile end is in the same process: a channel that was made for a child which was never
 * started (exec_inherit_lend()).
 */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/log.h"
#include "ring/progress.h"
#include "ring/rings.h"
#include "sock/share/exec_inherit.h"
#include "sock/share/pass.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "sock/tcp/tcp_sock.h"

#define CONNECTIONS 4
#define ROUNDS 40    /* repetitions of the random test, each with its own seed */
#define MESSAGES 500 /* in each round */

static void run(const char *name, void (*fn)(void *arg), void *arg)
{
	assert_int_equal(loop_net_run(name, fn, arg, 120), 0);
}

/* ---- the hostile end --------------------------------------------------------------- */

static struct channel *lend(void)
{
	struct exec_channel ch;
	struct channel *hostile;

	NET_CHECK(exec_inherit_lend(&ch));
	hostile = channel_create(ch.fd, ch.last_id);
	NET_CHECK(hostile);
	return hostile;
}

struct received {
	int rc; /* of channel_receive() */
	struct message message;
	int memfd;
};

static bool receives(struct channel *hostile, struct received *received)
{
	received->memfd = -1;
	received->rc = channel_receive(hostile, &received->message, &received->memfd);
	return received->rc != 0;
}

/* Receives the next message, which must be this one. Its descriptor, or -1. */
static int expect(struct channel *hostile, enum message_kind kind, uint64_t id)
{
	struct received received;

	NET_CHECK(NET_WAIT(receives(hostile, &received), NET_PATIENCE));
	NET_CHECK_EQ(received.rc, 1);
	NET_CHECK_EQ(received.message.kind, kind);
	NET_CHECK_EQ(received.message.id, id);
	return received.memfd;
}

/* Receives the next message, a request, with the twin of the process that sends it. */
static void expect_request(struct channel *hostile, uint64_t id)
{
	int twin = expect(hostile, MESSAGE_REQUEST, id), type = 0;
	socklen_t len = sizeof(type);

	NET_CHECK_EQ(sys_getsockopt(twin, SOL_SOCKET, SO_TYPE, &type, &len), 0);
	NET_CHECK_EQ(type, SOCK_STREAM);
	sys_close_fd(&twin);
}

/* Requests a connection and receives it: its bytes. */
static int request_export(struct channel *hostile, uint64_t id)
{
	channel_send(hostile, MESSAGE_REQUEST, id, 0, -1);
	return expect(hostile, MESSAGE_EXPORT, id);
}

/* Has the channel ended? Discards the messages before that. */
static bool channel_ended(struct channel *hostile)
{
	struct received received;

	while (receives(hostile, &received) && received.rc > 0)
		sys_close_fd(&received.memfd);
	return received.rc < 0;
}

/* The other end wants to receive for the listener, too, and may. */
static void request_join(struct channel *hostile, uint64_t id)
{
	channel_send(hostile, MESSAGE_REQUEST, id, 0, -1);
	expect(hostile, MESSAGE_JOIN, id);
}

/* It is sent a connection that nobody accepted. */
static void receive_pending(struct channel *hostile, uint64_t id)
{
	int memfd = expect(hostile, MESSAGE_PENDING, id);

	NET_CHECK(memfd >= 0);
	sys_close_fd(&memfd);
	channel_send(hostile, MESSAGE_RECEIVED, id, 0, -1);
}

static void expect_end(struct channel *hostile)
{
	NET_CHECK(NET_WAIT(channel_ended(hostile), NET_PATIENCE));
	channel_destroy(hostile);
}

static void left(struct sock *sk)
{
	(void)sk;
}

/* Sockets may fall back to the kernel, and warnings are not shown. */
static void begin_quietly(void)
{
	duo_begin();
	sock_hooks.left = left;
	log_level = LOG_ERROR;
}

static uint64_t id_of(const struct tsock *ts)
{
	return tsock_inet(ts)->id;
}

/* ---- by worker ----------------------------------------------------------------------- */

static void request_newer_socket(void *arg)
{
	struct tsock listener;
	struct duo early, late;
	struct channel *hostile;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&early, DUO_TCP, &listener);
	hostile = lend();
	duo_open(&late, DUO_TCP, &listener);
	channel_send(hostile, MESSAGE_REQUEST, id_of(&late.end[1]), 0, -1);
	expect_end(hostile);
	duo_talk(&early, 3);
	duo_talk(&late, 3);
	duo_close(&early);
	duo_close(&late);
	duo_end(&listener);
}

static void test_sockets_accepted_after_the_fork_are_not_exported(void **state)
{
	run("later", request_newer_socket, NULL);
}

static bool is_idle(void)
{
	return !__atomic_load_n(&share_process.busy, __ATOMIC_ACQUIRE);
}

static void export_what_was_exported(void *arg)
{
	struct tsock listener;
	struct channel *hostile;
	struct duo duo;
	int memfd;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, DUO_TCP, &listener);
	duo_send(&duo, 0, 5);
	hostile = lend();
	memfd = request_export(hostile, id_of(&duo.end[1]));
	channel_send(hostile, MESSAGE_EXPORT, id_of(&duo.end[1]), 0, memfd);
	expect_end(hostile);
	duo_talk(&duo, 3);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	duo_close(&duo);
	duo_end(&listener);
}

static void test_an_export_is_not_answered_by_an_export(void **state)
{
	run("export", export_what_was_exported, NULL);
}

static bool lose_all(const struct pkt *pkt)
{
	(void)pkt;
	return true;
}

static int memfd_of(const void *bytes, size_t len)
{
	int fd = sys_fd_hide(memfd_create("test", MFD_CLOEXEC));

	NET_CHECK(fd >= 0);
	NET_CHECK_EQ(pwrite(fd, bytes, len, 0), len);
	return fd;
}

/*
 * Collects this number of bytes of late frames with their lengths, from messages; returns a
 * descriptor with all of them.
 */
static int collect_late(struct channel *hostile, uint64_t id, size_t size)
{
	uint8_t bytes[4096];
	size_t got = 0;

	while (got < size) {
		int memfd = expect(hostile, MESSAGE_LATE, id);
		ssize_t n = pread(memfd, bytes + got, sizeof(bytes) - got, 0);

		NET_CHECK(n > 0);
		got += (size_t)n;
		sys_close_fd(&memfd);
	}
	NET_CHECK_EQ(got, size);
	return memfd_of(bytes, got);
}

#define LATE 3					    /* messages */
#define LATE_FRAME (8 + 14 + 20 + 32 + DUO_MESSAGE) /* its head, Ethernet, IP, TCP, bytes */

/* Frames that arrive while the connection is in transit are neither lost nor sent again. */
static void send_late_frames(void *arg)
{
	struct tsock listener;
	struct duo duo, other;
	struct channel *hostile;
	int memfd, late;
	uint64_t id;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, DUO_TCP, &listener);
	duo_open(&other, DUO_TCP, &listener);
	id = id_of(&duo.end[1]);
	hostile = lend();
	memfd = request_export(hostile, id);
	duo_send(&duo, 0, LATE);
	late = collect_late(hostile, id, LATE * LATE_FRAME);
	loop_port_lose(lose_all);
	channel_send(hostile, MESSAGE_ACK, id, 0, -1);
	NET_CHECK_EQ(duo_take(&duo, 0), 0);
	expect_request(hostile, id);
	channel_send(hostile, MESSAGE_EXPORT, id, 0, memfd);
	NET_CHECK_EQ(expect(hostile, MESSAGE_ACK, id), -1);
	/* Frames of a connection that the message is not about are dropped. */
	channel_send(hostile, MESSAGE_LATE, id_of(&other.end[1]), 0, sys_fd_copy(late));
	channel_send(hostile, MESSAGE_LATE, id, 0, late);
	NET_CHECK(NET_WAIT(duo_take(&duo, 0) || duo.got[0] == duo.sent[0], NET_PATIENCE));
	duo_drain(&duo, 0);
	loop_port_lose(NULL);
	duo_talk(&other, 3);
	channel_destroy(hostile);
	duo_close(&duo);
	duo_close(&other);
	duo_end(&listener);
}

static void test_late_frames_follow_a_connection(void **state)
{
	run("follow", send_late_frames, NULL);
}

/*
 * A connection in transit to a hostile end, and a socket without a connection that it
 * knows, too.
 */
struct transit {
	struct tsock listener, probe;
	struct channel *hostile;
	struct duo duo;
	uint64_t id;
};

static void export_begin(struct transit *transit)
{
	duo_begin();
	transit->listener = duo_listener(7000);
	duo_open(&transit->duo, DUO_TCP, &transit->listener);
	transit->id = id_of(&transit->duo.end[1]);
	transit->probe = tsock_tcp();
	transit->hostile = lend();
	sys_close_fd(&(int){request_export(transit->hostile, transit->id)});
}

/* The import is refused: the connection continues here, unchanged. */
static void export_refused(struct transit *transit)
{
	channel_send(transit->hostile, MESSAGE_NACK, transit->id, 0, -1);
	duo_talk(&transit->duo, 3);
	channel_destroy(transit->hostile);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	duo_close(&transit->duo);
	tsock_close(&transit->probe);
	duo_end(&transit->listener);
}

/* The connection was exported while a call was about to look up the route. */
static void resolve_while_exported(void *arg)
{
	struct transit transit;

	export_begin(&transit);
	NET_CHECK_EQ(tcp_resolve(transit.duo.end[1].ref), 0);
	NET_CHECK_EQ(tcp_resolve(transit.duo.end[1].ref), 0);
	NET_CHECK_EQ(rings_nowhere()->wheel.armed, 0);
	export_refused(&transit);
}

static void test_an_exported_connection_has_no_route(void **state)
{
	run("late", resolve_while_exported, NULL);
}

/*
 * The hostile end closes a connection in transit to it, and reports it as lost. It belongs to
 * this process until the hostile end acknowledges it.
 */
static void lose_before_import(void *arg)
{
	struct transit transit;
	char byte;

	export_begin(&transit);
	channel_send(transit.hostile, MESSAGE_CLOSED, transit.id, 0, -1);
	channel_send(transit.hostile, MESSAGE_LOST, transit.id, 0, -1);
	/* The answer comes after everything sent before it. */
	channel_send(transit.hostile, MESSAGE_REQUEST, id_of(&transit.probe), 0, -1);
	NET_CHECK_EQ(expect(transit.hostile, MESSAGE_LOST, id_of(&transit.probe)), -1);
	NET_CHECK_EQ(tsock_recv(&transit.duo.end[1], &byte, 1, MSG_DONTWAIT), -EAGAIN);
	export_refused(&transit);
}

static void test_an_export_is_ours_until_acknowledged(void **state)
{
	run("lost", lose_before_import, NULL);
}

static unsigned flows(void)
{
	unsigned n = 0;

	NET_CHECK(control_lock());
	for (unsigned i = 0; i < rings_count(); i++) {
		NET_CHECK(ring_hold_cold(rings_at(i)));
		n += rings_at(i)->flows.count;
		ring_release_cold(rings_at(i));
	}
	control_unlock();
	return n;
}

/*
 * A child makes a listener fall back to the kernel, and is told when this process has done
 * the same.
 */
static void fall_back_to_kernel(void *arg)
{
	struct tsock listener;
	struct channel *hostile;
	uint64_t id;

	begin_quietly();
	listener = duo_listener(7000);
	id = id_of(&listener);
	hostile = lend();
	NET_CHECK(flows());
	channel_send(hostile, MESSAGE_TO_KERNEL, id, 0, -1);
	expect(hostile, MESSAGE_TO_KERNEL, id);
	NET_CHECK_EQ(flows(), 0);
	/* A second message is answered, too. */
	channel_send(hostile, MESSAGE_TO_KERNEL, id, 0, -1);
	expect(hostile, MESSAGE_CLOSED, id);
	channel_destroy(hostile);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	duo_end(&listener);
}

static void test_falling_back_is_confirmed_by_the_owner(void **state)
{
	run("to kernel", fall_back_to_kernel, NULL);
}

static bool is_exported(struct tsock *ts)
{
	return sock_is_exported(ts->ref.sk);
}

/*
 * The exiting process has said that it does not hold the listener any more. Then the listener
 * is offered to it: it sends nothing else.
 */
static void exit_while_offered(void *arg)
{
	struct tsock listener;
	struct channel *hostile;
	struct received received;
	uint64_t id;

	begin_quietly();
	listener = duo_listener(7000);
	id = id_of(&listener);
	hostile = lend();
	request_join(hostile, id);
	/* The hostile end is a member now; this process withdraws when it is idle, and the other one stays. */
	do {
		channel_send(hostile, MESSAGE_JOIN, id, 0, -1);
		NET_CHECK(NET_WAIT(receives(hostile, &received), NET_PATIENCE));
		NET_CHECK_EQ(received.rc, 1);
		if (received.message.kind == MESSAGE_OFFER)
			channel_send(hostile, MESSAGE_JOIN, id, MESSAGE_FLAG_ANSWER, -1);
	} while (!NET_WAIT(is_exported(&listener), 100));
	NET_CHECK(control_lock());
	channel_send(hostile, MESSAGE_OFFER, id, 0, -1);
	share_exit();
	control_unlock();
	expect(hostile, MESSAGE_CLOSED, id);
	while (receives(hostile, &received) && received.rc > 0)
		NET_CHECK_EQ(received.message.kind, MESSAGE_CLOSED);
	channel_destroy(hostile);
	duo_end(&listener);
}

static void test_an_exiting_process_accepts_no_offer(void **state)
{
	run("exit", exit_while_offered, NULL);
}

static struct tsock connect_to(struct sockaddr_in *to)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(1), 0), 0);
	NET_CHECK_EQ(tsock_connect(&ts, to), -EINPROGRESS);
	NET_CHECK(NET_WAIT(sock_events(ts.ref.sk) & EPOLLOUT, NET_PATIENCE));
	return ts;
}

static void close_clients(struct tsock *clients, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		tsock_linger_none(&clients[i]);
		tsock_close(&clients[i]);
	}
}

/*
 * Connections wait unaccepted: this process offers the place to other holders, and continues to
 * receive until one of them joins.
 */
static void stop_accepting(void *arg)
{
	struct tsock listener, client[2];
	struct sockaddr_in to;
	struct channel *hostile;
	uint64_t id;

	begin_quietly();
	listener = duo_listener(7000);
	to = tsock_name(&listener);
	id = id_of(&listener);
	hostile = lend();
	request_join(hostile, id);
	for (unsigned i = 0; i < 2; i++) {
		client[i] = connect_to(&to);
		expect(hostile, MESSAGE_OFFER, id); /* once, and again after a while */
		NET_CHECK(!sock_is_exported(listener.ref.sk));
	}
	channel_send(hostile, MESSAGE_JOIN, id, MESSAGE_FLAG_ANSWER, -1);
	for (unsigned i = 0; i < 2; i++) {
		receive_pending(hostile, id);
	}
	/* The listener waits for late SYNs that were steered to this process. */
	NET_CHECK(NET_WAIT(sock_is_exported(listener.ref.sk), NET_PATIENCE));
	channel_destroy(hostile);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	close_clients(client, 2);
	duo_end(&listener);
}

static void test_a_member_that_does_not_accept_stays_until_another_joins(void **state)
{
	run("not accepting", stop_accepting, NULL);
}

static unsigned looks;

/* The third look finds that another process has taken the flow. */
static bool is_parted(struct port_queue *q, const struct flow_key *key, bool over)
{
	NET_CHECK(!over);
	return looks++ == 2;
}

/* The listener's rings: their port brings the frames here until another process takes the flow. */
static void rings_part_late(void)
{
	static struct port_ops ops;

	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		if (!ring->q || !ring_hold_cold(ring))
			continue;
		if (!ops.part_flow) { /* once: others read it from then on */
			ops = *ring->ops;
			ops.part_flow = is_parted;
		}
		ring->ops = &ops;
		ring_release_cold(ring);
	}
}

/*
 * The process that received the connection may have sent it on: this one keeps its rings until the
 * frames go elsewhere.
 */
static void exit_before_it_is_taken(void *arg)
{
	struct tsock listener, client;
	struct sockaddr_in to;
	struct channel *hostile;
	uint64_t id;

	begin_quietly();
	listener = duo_listener(7000);
	to = tsock_name(&listener);
	id = id_of(&listener);
	hostile = lend();
	request_join(hostile, id);
	client = connect_to(&to);
	expect(hostile, MESSAGE_OFFER, id);
	NET_CHECK(control_lock());
	rings_part_late();
	channel_send(hostile, MESSAGE_JOIN, id, MESSAGE_FLAG_ANSWER, -1);
	control_unlock();
	receive_pending(hostile, id);
	NET_CHECK(control_lock());
	share_exit();
	for (unsigned i = 0; i < rings_count(); i++)
		NET_CHECK_EQ(rings_at(i)->parting, 0);
	control_unlock();
	NET_CHECK_EQ(looks, 3);
	channel_destroy(hostile);
	close_clients(&client, 1);
	duo_end(&listener);
}

static void test_an_exiting_process_keeps_its_rings_until_connections_are_taken(void **state)
{
	run("taken", exit_before_it_is_taken, NULL);
}

#if !defined(__SANITIZE_THREAD__) /* it ends children of several threads that start a thread */
/*
 * The process in the middle never used the listener that it inherited, and has closed it or not;
 * a child of its own wants to join. The first process, which receives, has to know that.
 */
static void join_through_the_middle(void *arg)
{
	const bool *closes = arg;
	struct tsock listener;
	struct channel *hostile;
	int pid, status;
	uint64_t id;

	begin_quietly();
	loop_net_follow_forks();
	listener = duo_listener(7000);
	id = id_of(&listener);
	pid = fork();
	NET_CHECK(pid >= 0);
	if (!pid) {
		hostile = lend();
		if (*closes)
			tsock_close(&listener);
		request_join(hostile, id);
		_exit(0);
	}
	NET_CHECK_EQ(waitpid(pid, &status, 0), pid);
	NET_CHECK_EQ(status, 0);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	duo_end(&listener);
}

static void test_a_process_joins_through_one_that_does_not_use_the_listener(void **state)
{
	for (int closes = 0; closes <= 1; closes++) {
		bool is = closes;

		run("in the middle", join_through_the_middle, &is);
	}
}
#endif

/* 0: unknown here; 1: known; 2: and exported. */
static int is_known(uint64_t id)
{
	const struct inet_sock *so;
	int known;

	NET_CHECK(control_lock());
	so = share_find(id);
	known = so ? 1 + sock_is_exported(&so->sk) : 0;
	control_unlock();
	return known;
}

#define LATE_TEXT "a frame that is for the process at the other side"

static void send_late(struct channel *side, uint64_t id, uint64_t hops)
{
	struct pkt *pkt = pkt_blank(sizeof(LATE_TEXT));
	int memfd = transfer_frames();

	NET_CHECK(pkt && memfd >= 0);
	pkt->frame_len = sizeof(LATE_TEXT);
	memcpy(pkt->frame, LATE_TEXT, sizeof(LATE_TEXT));
	transfer_put_frame(memfd, pkt);
	pkt_free(pkt);
	channel_send(side, MESSAGE_LATE, id, hops, memfd);
}

static void expect_late(struct channel *side, uint64_t id)
{
	int memfd = expect(side, MESSAGE_LATE, id);
	struct pkt *pkt;
	off_t at = 0;

	NET_CHECK(memfd >= 0);
	pkt = transfer_next_frame(memfd, &at);
	NET_CHECK(pkt && pkt->frame_len == sizeof(LATE_TEXT));
	NET_CHECK(!memcmp(pkt->frame, LATE_TEXT, sizeof(LATE_TEXT)));
	pkt_free(pkt);
	sys_close_fd(&memfd);
}

/*
 * The process in the middle receives, and closes the listener: one side joins, and what the other
 * one sends goes there.
 */
static void close_in_the_middle(void *arg)
{
	struct channel *sides[2];
	struct tsock listener;
	uint64_t id;
	int memfd;

	begin_quietly();
	listener = duo_listener(7000);
	id = id_of(&listener);
	for (unsigned i = 0; i < 2; i++)
		sides[i] = lend();
	tsock_close(&listener);
	expect(sides[0], MESSAGE_OFFER, id);
	channel_send(sides[0], MESSAGE_JOIN, id, MESSAGE_FLAG_ANSWER, -1);
	expect(sides[1], MESSAGE_JOIN, id);
	NET_CHECK(NET_WAIT(is_known(id) == 2, NET_PATIENCE));
	memfd = memfd_create("datagrams", MFD_CLOEXEC);
	NET_CHECK(memfd >= 0);
	channel_send(sides[1], MESSAGE_PENDING, id, 0, memfd);
	receive_pending(sides[0], id);
	expect(sides[1], MESSAGE_RECEIVED, id);
	send_late(sides[1], id, 0);
	expect_late(sides[0], id);
	send_late(sides[1], id, MESSAGE_HOPS_MAX); /* goes in a circle */
	channel_send(sides[1], MESSAGE_CLOSED, id, 0, -1);
	expect(sides[0], MESSAGE_CLOSED, id);
	NET_CHECK_EQ(is_known(id), 0);
	for (unsigned i = 0; i < 2; i++)
		channel_destroy(sides[i]);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	loop_net_finish();
}

static void test_a_listener_closed_in_the_middle_connects_both_sides(void **state)
{
	run("closed in the middle", close_in_the_middle, NULL);
}

/* ACKs without data to port 7000; holder of the only ring. */
static bool lose_acks(const struct pkt *pkt)
{
	const uint8_t *ip = pkt->frame + 14, *tcp = ip + 20;

	return (tcp[2] << 8 | tcp[3]) == 7000 && tcp[13] == 0x10 &&
	       (ip[2] << 8 | ip[3]) == 20 + (tcp[12] >> 4) * 4;
}

/*
 * One of two other processes joins, and gets everything, including the connection whose
 * handshake ends later. The other one may be withdrawing, and would return it.
 */
static void withdraw_for_one(void *arg)
{
	uintptr_t which = (uintptr_t)arg;
	struct tsock listener, client[2];
	struct channel *others[2];
	struct sockaddr_in to;
	uint64_t id;
	int memfd;

	begin_quietly();
	listener = duo_listener(7000);
	to = tsock_name(&listener);
	id = id_of(&listener);
	for (unsigned i = 0; i < 2; i++) {
		others[i] = lend();
		request_join(others[i], id);
	}
	client[0] = connect_to(&to);
	for (unsigned i = 0; i < 2; i++)
		expect(others[i], MESSAGE_OFFER, id);
	loop_port_lose(lose_acks);
	client[1] = connect_to(&to);
	channel_send(others[which], MESSAGE_JOIN, id, MESSAGE_FLAG_ANSWER, -1);
	memfd = expect(others[which], MESSAGE_PENDING, id);
	sys_close_fd(&memfd);
	channel_send(others[which], MESSAGE_RECEIVED, id, 0, -1);
	NET_CHECK_EQ(tsock_send(&client[1], "x", 1, 0), 1);
	memfd = expect(others[which], MESSAGE_PENDING, id);
	NET_CHECK(memfd >= 0);
	sys_close_fd(&memfd);
	channel_send(others[which], MESSAGE_RECEIVED, id, 0, -1);
	loop_port_lose(NULL);
	NET_CHECK(NET_WAIT(sock_is_exported(listener.ref.sk), NET_PATIENCE));
	for (unsigned i = 0; i < 2; i++)
		channel_destroy(others[i]);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	close_clients(client, 2);
	duo_end(&listener);
}

static void test_late_handshakes_follow_to_the_new_member(void **state)
{
	for (uintptr_t i = 0; i < 2; i++)
		run("withdraw", withdraw_for_one, (void *)i);
}

static bool has_bytes(struct tsock *ts, const char *text)
{
	char buf[8] = "";

	return tsock_recv(ts, buf, sizeof(buf) - 1, MSG_DONTWAIT) > 0 && !strcmp(buf, text);
}

#define ABC_FRAME (8 + 14 + 20 + 32 + 3)

/* Late frames of an unaccepted connection follow it, too. */
static void send_late_to_pending(void *arg)
{
	struct tsock listener, client, server;
	struct channel *hostile, *other;
	struct sockaddr_in to;
	int memfd, late;
	uint64_t id;

	begin_quietly();
	listener = duo_listener(7000);
	to = tsock_name(&listener);
	id = id_of(&listener);
	hostile = lend();
	request_join(hostile, id);
	client = connect_to(&to);
	expect(hostile, MESSAGE_OFFER, id);
	channel_send(hostile, MESSAGE_JOIN, id, MESSAGE_FLAG_ANSWER, -1);
	memfd = expect(hostile, MESSAGE_PENDING, id);
	NET_CHECK_EQ(tsock_send(&client, "abc", 3, 0), 3);
	late = collect_late(hostile, id, ABC_FRAME);
	loop_port_lose(lose_all); /* retransmissions of the peer are lost */
	channel_send(hostile, MESSAGE_RECEIVED, id, 0, -1);
	NET_CHECK(NET_WAIT(sock_is_exported(listener.ref.sk), NET_PATIENCE));
	/*
	 * The connection returns. Late frames are accepted only from the channel that it came
	 * through.
	 */
	channel_send(hostile, MESSAGE_PENDING, id, 0, memfd);
	NET_CHECK(NET_WAIT(tsock_accept(&listener, &server, NULL) >= 0, NET_PATIENCE));
	other = lend();
	channel_send(other, MESSAGE_LATE, id, 0, sys_fd_copy(late));
	channel_send(other, MESSAGE_REQUEST, id, 0, -1);
	NET_CHECK_EQ(expect(other, MESSAGE_JOIN, id), -1); /* MESSAGE_LATE was read before this */
	NET_CHECK(!has_bytes(&server, "abc"));
	channel_send(hostile, MESSAGE_LATE, id, 0, late);
	NET_CHECK(NET_WAIT(has_bytes(&server, "abc"), NET_PATIENCE));
	loop_port_lose(NULL);
	channel_destroy(hostile);
	channel_destroy(other);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	close_clients(&client, 1);
	close_clients(&server, 1);
	duo_end(&listener);
}

static void test_late_frames_follow_an_unaccepted_connection(void **state)
{
	run("unaccepted", send_late_to_pending, NULL);
}

static bool has_ended(struct duo *duo)
{
	char c;

	return tsock_recv(&duo->end[0], &c, 1, 0) != -EAGAIN;
}

static void lose_while_in_transit(void *arg)
{
	struct tsock listener;
	struct channel *hostile;
	struct duo duo;
	uint64_t id;
	int memfd;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, DUO_TCP, &listener);
	id = id_of(&duo.end[1]);
	hostile = lend();
	tsock_close(&duo.end[1]); /* still exported for the hostile end */
	memfd = request_export(hostile, id);
	channel_send(hostile, MESSAGE_LOST, id, 0, -1);
	channel_send(hostile, MESSAGE_ACK, id, 0, -1);
	sys_close_fd(&memfd);
	expect_end(hostile);
	NET_CHECK(NET_WAIT(has_ended(&duo), NET_PATIENCE));
	tsock_close(&duo.end[0]);
	duo_end(&listener);
}

static void test_a_kept_connection_in_transit_ends_once(void **state)
{
	run("lost", lose_while_in_transit, NULL);
}

/* The hostile end answers a request with another connection, whose frames must not move. */
static void export_another(void *arg)
{
	struct tsock listener;
	struct channel *hostile;
	struct duo duo, other;
	int memfd, theirs;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, DUO_TCP, &listener);
	duo_open(&other, DUO_TCP, &listener);
	hostile = lend();
	memfd = request_export(hostile, id_of(&duo.end[1]));
	channel_send(hostile, MESSAGE_ACK, id_of(&duo.end[1]), 0, -1);
	theirs = request_export(hostile, id_of(&other.end[1]));
	channel_send(hostile, MESSAGE_NACK, id_of(&other.end[1]), 0, -1);
	share_request(duo.end[1].ref);
	expect_request(hostile, id_of(&duo.end[1]));
	channel_send(hostile, MESSAGE_EXPORT, id_of(&duo.end[1]), 0, theirs);
	NET_CHECK_EQ(expect(hostile, MESSAGE_NACK, id_of(&duo.end[1])), -1);
	duo_talk(&other, 3);
	sys_close_fd(&memfd);
	channel_destroy(hostile);
	tsock_linger_none(&duo.end[0]);
	tsock_close(&duo.end[0]);
	tsock_close(&duo.end[1]);
	duo_close(&other);
	duo_end(&listener);
}

static void test_an_import_of_another_connection_is_refused(void **state)
{
	run("another", export_another, NULL);
}

static void close_hard(struct tsock *ts)
{
	tsock_linger_none(ts);
	tsock_close(ts);
}

/* ---- where receivers of SCM_RIGHTS connect ----------------------------------------- */

static rlim_t limit_files(rlim_t to)
{
	struct rlimit limit;
	rlim_t was;

	NET_CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	was = limit.rlim_cur;
	limit.rlim_cur = to;
	NET_CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return was;
}

/* The limit that leaves no descriptor free. */
static rlim_t first_free(void)
{
	int fd = 0;

	while (fcntl(fd, F_GETFD) >= 0)
		fd++;
	return (rlim_t)fd;
}

/* As sendmsg() does: puts the connection in transit to the receiver at way[1]. */
static struct pass_mark pass_end(struct duo *duo, int way[2])
{
	struct inet_sock *so = tsock_inet(&duo->end[1]);
	uint64_t ticket = pass_ticket(1);
	struct pass_mark mark;

	NET_CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way), 0);
	NET_CHECK_EQ(write(way[0], "x", 1), 1);
	NET_CHECK(control_lock());
	share_init();
	NET_CHECK(share_of(so));
	so->sharing->cookie = sys_socket_cookie(duo->end[1].fd);
	NET_CHECK_EQ(pass_send(so, way[0], ticket), 0);
	control_unlock();
	pass_done(ticket, true);
	NET_CHECK(pass_mark_get(duo->end[1].fd, &mark));
	return mark;
}

static nsec_t cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* The address of the only sender. */
static socklen_t name_of_sender(struct sockaddr_un *addr)
{
	FILE *list = fopen("/proc/self/net/unix", "re");
	char line[256], *name = NULL;

	while (!name && fgets(line, sizeof(line), list))
		name = strstr(line, "@libvma-pass-");
	NET_CHECK(name);
	fclose(list);
	name[strcspn(name, "\n")] = 0;
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(addr->sun_path + 1, name + 1, strlen(name + 1));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
}

/* The internal thread may have used a lower number when fd was made. */
static int lowest(int fd)
{
	int copy;

	while ((copy = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < fd) {
		NET_CHECK(copy >= 0);
		close(fd);
		fd = copy;
	}
	close(copy);
	return fd;
}

/* A receiver connects while no descriptor is free, and exits. */
static int connect_and_leave(void)
{
	struct sockaddr_un addr;
	socklen_t len = name_of_sender(&addr);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	NET_CHECK(fd >= 0);
	fd = lowest(fd);
	limit_files(first_free());
	NET_CHECK_EQ(connect(fd, (struct sockaddr *)&addr, len), 0);
	NET_CHECK_EQ(dup2(0, fd), fd); /* closes it, and keeps its number in use */
	return fd;
}

static void connect_without_descriptors(void *arg)
{
	struct tsock listener;
	struct channel *receiver;
	struct duo duo;
	struct pass_mark mark;
	rlim_t limit;
	nsec_t spent, begun;
	int way[2], taken, fd;

	duo_begin();
	listener = duo_listener(7000);
	duo_open(&duo, DUO_TCP, &listener);
	mark = pass_end(&duo, way);
	limit = limit_files(1024);
	taken = connect_and_leave();
	usleep(100000); /* time for its first calls */
	begun = clock_now();
	spent = cpu_time();
	usleep(500000);
	spent = cpu_time() - spent;
	NET_CHECK(spent < (clock_now() - begun) / 4);
	limit_files(limit);
	fd = pass_connect(&mark);
	NET_CHECK(fd >= 0);
	receiver = channel_create_only(fd, 1);
	channel_send(receiver, MESSAGE_CLAIM, 1, 0, -1);
	channel_send(receiver, MESSAGE_REQUEST, 1, 0, -1);
	sys_close_fd(&(int){expect(receiver, MESSAGE_EXPORT, 1)});
	channel_destroy(receiver);
	close_hard(&duo.end[0]);
	close_hard(&duo.end[1]);
	close(way[0]);
	close(way[1]);
	close(taken);
	duo_end(&listener);
}

static void test_receivers_without_descriptors_cost_no_time(void **state)
{
	run("no descriptors", connect_without_descriptors, NULL);
}

/* ---- every message, in every place ------------------------------------------------- */

enum place { P_LATER, P_CLOSED, P_UNKNOWN, P_HERE, P_GIVEN, P_THERE, P_ASKED, P_MEMBER, PLACES };

/*
 * For each message, the places where it is legal, in the order of enum place; in the others
 * it ends the channel.
 */
static const char *const rules[] = {
	[MESSAGE_REQUEST] = "..UHGTAM",	      [MESSAGE_EXPORT] = "..U..TA.",
	[MESSAGE_ACK] = "....G...",	      [MESSAGE_NACK] = "....G...",
	[MESSAGE_CLOSED] = ".CUHG..M",	      [MESSAGE_OFFER] = "..U..TAM",
	[MESSAGE_LOST] = ".CUH.TAM",	      [MESSAGE_JOIN] = "..U....M",
	[MESSAGE_PENDING] = ".CU....M",	      [MESSAGE_RECEIVED] = "........",
	[MESSAGE_REROUTE] = "LCUHGTAM",	      [MESSAGE_INVENTORY] = "..UHGTAM",
	[MESSAGE_INVENTORY_END] = "LCUHGTAM", [MESSAGE_CLAIM] = "........",
	[MESSAGE_TO_KERNEL] = "..U..TAM",     [MESSAGE_STAYS] = "..U..TA.",
	[MESSAGE_LATE] = ".CUHGTAM",
};
#define KINDS (sizeof(rules) / sizeof(*rules))
#define FIRST_PORT 7100

struct world {
	struct tsock listener, plain, probe, late;
	struct duo duo;
	struct channel *hostile;
	uint64_t id;
};

static void request_it(struct world *w)
{
	int memfd;

	channel_send(w->hostile, MESSAGE_REQUEST, w->id, 0, -1);
	memfd = expect(w->hostile, MESSAGE_EXPORT, w->id);
	sys_close_fd(&memfd);
}

static void bring_to(struct world *w, enum place place)
{
	w->id = id_of(&w->duo.end[1]);
	switch (place) {
	case P_LATER:
		w->id = id_of(&w->late);
		break;
	case P_CLOSED:
		channel_send(w->hostile, MESSAGE_CLOSED, w->id, 0, -1);
		break;
	case P_UNKNOWN:
		w->id = id_of(&w->plain);
		break;
	case P_HERE:
		break;
	case P_GIVEN:
		request_it(w);
		break;
	case P_THERE:
	case P_ASKED:
		request_it(w);
		channel_send(w->hostile, MESSAGE_ACK, w->id, 0, -1);
		if (place == P_THERE)
			break;
		share_request(w->duo.end[1].ref);
		expect_request(w->hostile, w->id);
		break;
	case P_MEMBER:
		w->id = id_of(&w->listener);
		break;
	case PLACES:
		break;
	}
}

/* Was the request answered, or did the channel end? Discards other messages. */
static bool is_answered(struct channel *hostile, uint64_t id, bool *cut)
{
	struct received received;

	while (receives(hostile, &received)) {
		sys_close_fd(&received.memfd);
		*cut = received.rc < 0;
		if (*cut || (received.message.kind == MESSAGE_LOST && received.message.id == id))
			return true;
	}
	return false;
}

/* Is the message legal? Then a request after it is answered; else the channel ends. */
static bool is_legal_for(struct world *w, enum message_kind kind)
{
	bool cut = false;

	if (kind == MESSAGE_INVENTORY_END)
		channel_send(w->hostile, MESSAGE_INVENTORY, id_of(&w->probe), 0, -1);
	channel_send(w->hostile, kind, w->id, 0, -1);
	channel_send(w->hostile, MESSAGE_REQUEST, id_of(&w->probe), 0, -1);
	NET_CHECK(NET_WAIT(is_answered(w->hostile, id_of(&w->probe), &cut), NET_PATIENCE));
	return !cut;
}

/*
 * Each world has its own port: the kernel may reuse one that the hostile end still seems to
 * hold.
 */
static void open_world(struct world *w, unsigned port)
{
	w->listener = duo_listener(port);
	duo_open(&w->duo, DUO_TCP, &w->listener);
	w->plain = tsock_tcp();
	w->probe = tsock_tcp();
	w->hostile = lend();
	w->late = tsock_tcp();
}

static void close_world(struct world *w)
{
	channel_destroy(w->hostile);
	close_hard(&w->duo.end[0]);
	close_hard(&w->duo.end[1]);
	tsock_close(&w->listener);
	tsock_close(&w->plain);
	tsock_close(&w->probe);
	tsock_close(&w->late);
}

static void send_every_message(void *arg)
{
	unsigned wrong = 0;

	begin_quietly();
	for (unsigned kind = 1; kind <= KINDS; kind++) {
		for (enum place place = 0; place < PLACES; place++) {
			bool wanted = kind < KINDS && rules[kind][place] != '.', received;
			struct world w;

			open_world(&w, FIRST_PORT + kind * PLACES + place);
			bring_to(&w, place);
			received = is_legal_for(&w, (enum message_kind)kind);
			if (received != wanted)
				fprintf(stderr, "message %u in place %u: %s\n", kind, place,
					received ? "accepted" : "channel ended");
			wrong += received != wanted;
			close_world(&w);
		}
	}
	NET_CHECK_EQ(wrong, 0);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	duo_end(NULL);
}

static void test_a_message_is_accepted_where_it_is_legal(void **state)
{
	run("rules", send_every_message, NULL);
}

/* ---- at random --------------------------------------------------------------------- */

#define FDS 8

struct chaos {
	uint64_t random;
	struct tsock listener, udp;
	struct duo duo[CONNECTIONS];
	/*
	 * Numbers of the sockets when they were made: objects that fell back to the kernel
	 * may be reused.
	 */
	uint64_t listener_id, udp_id, ids[CONNECTIONS][2];
	struct channel *hostile;
	int fds[FDS]; /* received ones, and made-up ones */
};

static unsigned any(struct chaos *c, unsigned n)
{
	c->random = c->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(c->random >> 33) % n;
}

static void keep_fd(struct chaos *c, int fd)
{
	int *place = &c->fds[any(c, FDS)];

	sys_close_fd(place);
	*place = fd;
}

static int make_garbage(struct chaos *c)
{
	uint64_t bytes[64];

	for (unsigned i = 0; i < 64; i++)
		bytes[i] = any(c, 2) ? c->random : 0;
	return memfd_of(bytes, 8 + any(c, sizeof(bytes) - 8));
}

/* A descriptor to send; -1: none. */
static int some_fd(struct chaos *c)
{
	switch (any(c, 6)) {
	case 0:
		return make_garbage(c);
	case 1:
		return sys_fd_copy(c->duo[any(c, CONNECTIONS)].end[any(c, 2)].fd);
	case 2:
		return -1;
	default:
		return sys_fd_copy(c->fds[any(c, FDS)]);
	}
}

static uint64_t some_id(struct chaos *c)
{
	switch (any(c, 12)) {
	case 0:
		return c->listener_id;
	case 1:
		return c->udp_id;
	case 2:
		return 1 + any(c, 100);
	case 3:
		return c->random;
	default:
		return c->ids[any(c, CONNECTIONS)][any(c, 2)];
	}
}

/* Tells the other end to use a new socket pair, and uses its other end from now on. */
static void send_reroute(struct chaos *c)
{
	int fds[2];

	NET_CHECK_EQ(sys_call(SYS_socketpair, AF_UNIX,
			      SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds, 0, 0),
		     0);
	channel_send(c->hostile, MESSAGE_REROUTE, 1, 0, sys_fd_hide(fds[0]));
	sys_close_fd(&c->hostile->fd);
	c->hostile->fd = sys_fd_hide(fds[1]);
}

/* Sends legal messages now and then, or the channel would soon end. */
static void send_something(struct chaos *c)
{
	static const enum message_kind usual[] = {MESSAGE_REQUEST, MESSAGE_REQUEST,
						  MESSAGE_ACK,	   MESSAGE_NACK,
						  MESSAGE_JOIN,	   MESSAGE_PENDING};
	enum message_kind kind = (enum message_kind)any(c, KINDS + 1);

	if (any(c, 4))
		kind = usual[any(c, 6)];
	if (kind == MESSAGE_REROUTE && any(c, 2))
		send_reroute(c);
	else
		channel_send(c->hostile, kind, some_id(c), any(c, 4) ? any(c, 4) : c->random,
			     some_fd(c));
}

static void lend_again(struct chaos *c)
{
	if (c->hostile)
		channel_destroy(c->hostile);
	if (!exec_inherit_any()) { /* the kernel serves all sockets */
		tsock_close(&c->listener);
		c->listener = duo_listener(0);
	}
	c->hostile = lend();
}

/* Answers correctly most of the time. */
static void listen_to(struct chaos *c)
{
	struct received received;

	while (receives(c->hostile, &received)) {
		if (received.rc < 0) {
			lend_again(c);
			return;
		}
		if (received.message.kind == MESSAGE_EXPORT && any(c, 3))
			channel_send(c->hostile, MESSAGE_ACK, received.message.id, 0, -1);
		if (received.memfd >= 0)
			keep_fd(c, received.memfd);
	}
}

static void open_duo(struct chaos *c, unsigned i)
{
	duo_open(&c->duo[i], DUO_TCP, &c->listener);
	tsock_linger_none(&c->duo[i].end[0]);
	tsock_linger_none(&c->duo[i].end[1]);
	for (unsigned end = 0; end < 2; end++)
		c->ids[i][end] = id_of(&c->duo[i].end[end]);
}

/* Meanwhile the program uses its sockets, without waiting for the hostile end. */
static void act(struct chaos *c)
{
	unsigned i = any(c, CONNECTIONS), end = any(c, 2);
	struct tsock *ts = &c->duo[i].end[end];
	char text[8] = "hello";

	switch (any(c, 8)) {
	case 0:
		tsock_close(ts);
		*ts = tsock_tcp();
		c->ids[i][end] = id_of(ts);
		return;
	case 1:
		share_request(ts->ref);
		return;
	default:
		if (sock_ref_valid(ts->ref) && !sock_is_exported(ts->ref.sk))
			tsock_send(ts, text, sizeof(text), MSG_DONTWAIT);
		return;
	}
}

static void close_all(struct chaos *c)
{
	channel_destroy(c->hostile);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		tsock_close(&c->duo[i].end[0]);
		tsock_close(&c->duo[i].end[1]);
	}
	tsock_close(&c->udp);
	tsock_close(&c->listener);
	for (unsigned i = 0; i < FDS; i++)
		sys_close_fd(&c->fds[i]);
}

static void send_at_random(void *arg)
{
	struct chaos c = {.random = *(const unsigned *)arg};
	struct tsock listener;
	struct duo after;

	fprintf(stderr, "seed %u\n", *(const unsigned *)arg);
	begin_quietly();
	memset(c.fds, -1, sizeof(c.fds));
	c.listener = duo_listener(7000);
	c.udp = tsock_udp();
	NET_CHECK_EQ(tsock_bind(&c.udp, fake_link_addr(0), 7001), 0);
	c.listener_id = id_of(&c.listener);
	c.udp_id = id_of(&c.udp);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		open_duo(&c, i);
	lend_again(&c);
	for (unsigned i = 0; i < MESSAGES; i++) {
		send_something(&c);
		if (!any(&c, 4))
			act(&c);
		if (!any(&c, 3))
			usleep(any(&c, 300));
		listen_to(&c);
	}
	close_all(&c);
	NET_CHECK(NET_WAIT(is_idle(), NET_PATIENCE));
	listener = duo_listener(7002);
	duo_open(&after, DUO_TCP, &listener);
	duo_talk(&after, 3);
	duo_close(&after);
	duo_end(&listener);
}

static void test_random_messages_do_no_harm(void **state)
{
	const char *chosen = getenv("VMA_SHARE_SEED");
	unsigned first = chosen ? (unsigned)atoi(chosen) : 1;

	for (unsigned seed = first; seed < first + (chosen ? 1 : ROUNDS); seed++)
		run("anything", send_at_random, &seed);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_sockets_accepted_after_the_fork_are_not_exported),
	cmocka_unit_test(test_an_export_is_not_answered_by_an_export),
	cmocka_unit_test(test_late_frames_follow_a_connection),
	cmocka_unit_test(test_an_exported_connection_has_no_route),
	cmocka_unit_test(test_an_export_is_ours_until_acknowledged),
	cmocka_unit_test(test_an_exiting_process_accepts_no_offer),
	cmocka_unit_test(test_falling_back_is_confirmed_by_the_owner),
	cmocka_unit_test(test_a_member_that_does_not_accept_stays_until_another_joins),
	cmocka_unit_test(test_an_exiting_process_keeps_its_rings_until_connections_are_taken),
#if !defined(__SANITIZE_THREAD__)
	cmocka_unit_test(test_a_process_joins_through_one_that_does_not_use_the_listener),
#endif
	cmocka_unit_test(test_a_listener_closed_in_the_middle_connects_both_sides),
	cmocka_unit_test(test_late_handshakes_follow_to_the_new_member),
	cmocka_unit_test(test_late_frames_follow_an_unaccepted_connection),
	cmocka_unit_test(test_a_kept_connection_in_transit_ends_once),
	cmocka_unit_test(test_an_import_of_another_connection_is_refused),
	cmocka_unit_test(test_receivers_without_descriptors_cost_no_time),
	cmocka_unit_test(test_a_message_is_accepted_where_it_is_legal),
	cmocka_unit_test(test_random_messages_do_no_harm),
};

VMA_TEST_MAIN("share messages", tests, enter, NULL)
