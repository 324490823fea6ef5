/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that the program has closed. What remains of them is small and limited in number,
 * hinders nothing, and does what TIME_WAIT is for.
 */
#include "sock/tcp/tcp_orphans.h"
#include "sock/tcp/timewait.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>

#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include "net/tcp/tcp_internal.h"
#include "net/tcp/tcp_timewait.h"
#include "net/tcp/tcp_wire.h"
#include "ring/logic.h"
#include "sock/wait/wait.h"

#define PORT 7000

static void run(const char *name, void (*fn)(void *arg))
{
	assert_int_equal(loop_net_run(name, fn, NULL, 30), 0);
}

/* ---- pairs ---------------------------------------------------------------------------- */

struct both {
	struct tsock client, server;
};

static void begin(void)
{
	params.log_level = LOG_WARNING;
	params.progress_interval = 1;
	loop_net_start();
}

static struct tsock listener_at(unsigned port)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(0), port), 0);
	NET_CHECK_EQ(tsock_listen(&ts, 128), 0);
	return ts;
}

static bool is_connected(const struct tsock *ts)
{
	return __atomic_load_n(&ts->ref.sk->events, __ATOMIC_ACQUIRE) & EPOLLOUT;
}

/* Opens a pair. client: bound or not, with any allocation logic. */
static struct both pair_of(struct tsock client, struct tsock *listener)
{
	struct both both = {.client = client};
	struct sockaddr_in to = tsock_name(listener);

	NET_CHECK_EQ(tsock_connect(&both.client, &to), -EINPROGRESS);
	NET_CHECK(NET_WAIT(tsock_accept(listener, &both.server, NULL) >= 0, NET_PATIENCE));
	NET_CHECK(NET_WAIT(is_connected(&both.client), NET_PATIENCE));
	return both;
}

static struct tsock bound_client(unsigned port)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK_EQ(tsock_set_int(&ts, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(1), port), 0);
	return ts;
}

static bool is_at_end(struct tsock *ts)
{
	char byte;

	return tsock_recv(ts, &byte, 1, 0) == 0;
}

static unsigned number(const unsigned *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Waits until what holders of rings are doing is done: they count more than one thing in a turn. */
static void await_holders(void)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		if (ring_hold_cold(rings_at(i)))
			ring_release_cold(rings_at(i));
	}
}

/* One end closes, then the other one, which keeps nothing. */
static void close_in_order(struct tsock *first, struct tsock *second)
{
	unsigned before = number(&timewait_stats.total);

	tsock_close(first);
	NET_CHECK(NET_WAIT(is_at_end(second), NET_PATIENCE));
	tsock_close(second);
	NET_CHECK(NET_WAIT(number(&timewait_stats.total) == before + 1 &&
				   !number(&tcp_orphans[TCP_ORPHAN_UNACKED]) &&
				   !number(&tcp_orphans[TCP_ORPHAN_HALF]),
			   NET_PATIENCE));
	await_holders();
}

/* ---- cases ----------------------------------------------------------------------------- */

static bool rings_unused(void)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		if (__atomic_load_n(&rings_at(i)->refs, __ATOMIC_ACQUIRE))
			return false;
	}
	return true;
}

/* The socket is freed, the port stays taken, the ring is closed. */
static void nothing_but_small(void *arg)
{
	struct tsock listener;
	struct both both;

	begin();
	listener = listener_at(PORT);
	both = pair_of(tsock_tcp(), &listener);
	close_in_order(&both.client, &both.server);
	tsock_close(&listener);
	NET_CHECK_EQ(number(&timewait_stats.now), 1);
	NET_CHECK_EQ(number(&port_keepers), 1);
	NET_CHECK(NET_WAIT(rings_unused(), NET_PATIENCE));
	loop_net_finish();
	NET_CHECK_EQ(number(&timewait_stats.now), 0); /* they ended with the last ring */
	NET_CHECK_EQ(number(&port_keepers), 0);
}

static void test_only_something_small_is_left(void **state)
{
	run("nothing but small", nothing_but_small);
}

/* FIN_WAIT_2 is small, too; the connection still counts as an orphan. */
static void half(void *arg)
{
	struct tsock listener;
	struct both both;

	begin();
	listener = listener_at(PORT);
	both = pair_of(tsock_tcp(), &listener);
	tsock_close(&both.client);
	NET_CHECK(NET_WAIT(number(&timewait_stats.now) == 1, NET_PATIENCE));
	await_holders(); /* until the socket is freed, it counts, too */
	NET_CHECK_EQ(number(&tcp_orphans[TCP_ORPHAN_HALF]), 1);
	NET_CHECK(NET_WAIT(is_at_end(&both.server), NET_PATIENCE));
	/* No program reads what is sent now. */
	NET_CHECK_EQ(tsock_send(&both.server, "x", 1, 0), 1);
	NET_CHECK(NET_WAIT(number(&timewait_stats.now) == 0, NET_PATIENCE));
	NET_CHECK_EQ(number(&tcp_orphans[TCP_ORPHAN_HALF]), 0);
	NET_CHECK_EQ(number(&port_keepers), 0);
	tsock_close(&both.server);
	tsock_close(&listener);
	loop_net_finish();
}

static void test_half_a_connection_is_small_and_counts(void **state)
{
	run("half", half);
}

/* The first members of what sock/tcp/timewait.c keeps. */
struct kept {
	struct flow flow;
	struct list link;
	struct tcp_timewait tw;
};

static enum drop (*deliver_kept)(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now);

/* TIME_WAIT begins at exactly the time at which FIN_WAIT_2 would have ended. */
static enum drop deliver_in_time(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct kept *kept = container_of(flow, struct kept, flow);

	(void)now;
	flow->deliver = deliver_kept;
	return deliver_kept(ring, flow, pkt, kept->tw.until - TCP_TIME_WAIT_LEN);
}

static struct flow_key key_of(const struct sockaddr_in *local, const struct sockaddr_in *remote)
{
	struct flow_key key;

	memset(&key, 0, sizeof(key));
	key.local = addr_v4(local->sin_addr.s_addr);
	key.local_port = local->sin_port;
	key.remote = addr_v4(remote->sin_addr.s_addr);
	key.remote_port = remote->sin_port;
	key.proto = IPPROTO_TCP;
	return key;
}

static void same_end(void *arg)
{
	struct tsock listener;
	struct flow_key key;
	struct sockaddr_in local, remote;
	struct flow *flow;
	struct both both;
	struct ring *ring;

	begin();
	listener = listener_at(PORT);
	both = pair_of(tsock_tcp(), &listener);
	local = tsock_name(&both.client);
	remote = tsock_name(&listener);
	key = key_of(&local, &remote);
	ring = tsock_home(&both.client);
	tsock_close(&both.client);
	NET_CHECK(NET_WAIT(number(&timewait_stats.now) == 1, NET_PATIENCE));
	NET_CHECK(ring_hold_cold(ring));
	flow = flow_lookup(&ring->flows, &key);
	NET_CHECK(flow);
	deliver_kept = flow->deliver;
	flow->deliver = deliver_in_time;
	ring_release_cold(ring);
	tsock_close(&both.server);
	NET_CHECK(NET_WAIT(!number(&tcp_orphans[TCP_ORPHAN_HALF]), NET_PATIENCE));
	NET_CHECK_EQ(number(&timewait_stats.now), 1);
	tsock_close(&listener);
	loop_net_finish();
	NET_CHECK_EQ(number(&timewait_stats.now), 0);
}

static void test_time_wait_may_end_when_the_first_half_would_have(void **state)
{
	run("same end", same_end);
}

/* As Linux without tcp_tw_reuse. A TIME_WAIT without a taken port ends. */
static void same_pair(void *arg)
{
	struct rlimit few = {64, 64};
	struct tsock listener, again;
	struct sockaddr_in to;
	struct both both, other;

	begin();
	listener = listener_at(PORT);
	to = tsock_name(&listener);
	both = pair_of(bound_client(9000), &listener);
	close_in_order(&both.client, &both.server);
	again = bound_client(9000);
	NET_CHECK_EQ(tsock_connect(&again, &to), -EADDRNOTAVAIL);
	tsock_close(&again);
	/* So few descriptors that each new TIME_WAIT takes the port of the oldest. */
	NET_CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	usleep(1100000); /* the limit is checked once a second */
	for (unsigned i = 0; i < 8; i++) {
		other = pair_of(tsock_tcp(), &listener);
		close_in_order(&other.client, &other.server);
	}
	NET_CHECK_EQ(number(&port_keepers), 8);
	NET_CHECK_EQ(number(&timewait_stats.now), 8);
	NET_CHECK_EQ(number(&timewait_stats.early), 1);
	both = pair_of(bound_client(9000), &listener);
	NET_CHECK_EQ(tsock_send(&both.client, "x", 1, 0), 1);
	close_in_order(&both.client, &both.server);
	tsock_close(&listener);
	loop_net_finish();
}

static void test_a_connection_of_ours_does_not_reuse_the_pair(void **state)
{
	run("same pair", same_pair);
}

/* A living connection needs its port more than a TIME_WAIT does. */
static void descriptors_run_out(void *arg)
{
	struct rlimit few = {64, 64};
	struct both first, second;
	struct tsock listener;
	int files[64], n = 0;

	begin();
	NET_CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	listener = listener_at(PORT);
	first = pair_of(tsock_tcp(), &listener);
	close_in_order(&first.client, &first.server);
	NET_CHECK_EQ(number(&port_keepers), 1);
	second = pair_of(tsock_tcp(), &listener);
	progress_stop(); /* it would have files open now and then */
	while ((files[n] = dup(STDERR_FILENO)) >= 0)
		n++;
	tsock_close(&second.client);
	NET_CHECK_EQ(number(&timewait_stats.early), 1);
	NET_CHECK_EQ(number(&port_keepers), 1);
	while (n)
		close(files[--n]);
	NET_CHECK_EQ(progress_start(), 0);
	NET_CHECK(NET_WAIT(is_at_end(&second.server), NET_PATIENCE));
	tsock_close(&second.server);
	tsock_close(&listener);
	NET_CHECK(NET_WAIT(!number(&tcp_orphans[TCP_ORPHAN_UNACKED]) &&
				   !number(&tcp_orphans[TCP_ORPHAN_HALF]),
			   NET_PATIENCE));
	NET_CHECK_EQ(number(&timewait_stats.now), 1);
	loop_net_finish();
}

static void test_a_living_connection_takes_the_place_of_a_time_wait(void **state)
{
	run("descriptors run out", descriptors_run_out);
}

/* Two living connections cannot have the same pair of endpoints either. */
static void taken_pair(void *arg)
{
	struct tsock listener, again;
	struct sockaddr_in to;
	struct both both;

	begin();
	listener = listener_at(PORT);
	to = tsock_name(&listener);
	both = pair_of(bound_client(9000), &listener);
	again = bound_client(9000);
	NET_CHECK_EQ(tsock_connect(&again, &to), -EADDRNOTAVAIL);
	tsock_close(&again);
	close_in_order(&both.client, &both.server);
	tsock_close(&listener);
	loop_net_finish();
}

static void test_a_pair_is_one_connection(void **state)
{
	run("taken pair", taken_pair);
}

static bool has_9000(const struct flow_key *key)
{
	return key->local_port == htons(9000);
}

/* The same holds for two processes: the port of the interface reports it. */
static void foreign_pair(void *arg)
{
	struct tsock listener, again;
	struct sockaddr_in to;
	struct both both;

	begin();
	listener = listener_at(PORT);
	to = tsock_name(&listener);
	loop_port_share(has_9000);
	again = bound_client(9000);
	NET_CHECK_EQ(tsock_connect(&again, &to), -EADDRNOTAVAIL);
	/* The other one has ended: the socket can connect. */
	loop_port_share(NULL);
	both = pair_of(again, &listener);
	close_in_order(&both.client, &both.server);
	tsock_close(&listener);
	loop_net_finish();
}

static void test_a_pair_of_another_process_is_not_available(void **state)
{
	run("foreign pair", foreign_pair);
}

/* The server's TIME_WAIT ends when the peer begins a new connection: RFC 6191. */
static void peer_again(void *arg)
{
	struct tsock listener;
	struct both both;
	char byte;

	begin();
	listener = listener_at(PORT);
	both = pair_of(bound_client(9000), &listener);
	close_in_order(&both.server, &both.client);
	NET_CHECK_EQ(number(&timewait_stats.now), 1);
	NET_CHECK_EQ(number(&port_keepers), 0); /* the listener has the port */
	usleep(2000);				/* so that timestamps increase */
	both = pair_of(bound_client(9000), &listener);
	NET_CHECK_EQ(number(&timewait_stats.now), 0);
	NET_CHECK_EQ(tsock_send(&both.client, "x", 1, 0), 1);
	NET_CHECK(NET_WAIT(tsock_recv(&both.server, &byte, 1, 0) == 1, NET_PATIENCE));
	NET_CHECK_EQ(byte, 'x');
	close_in_order(&both.client, &both.server);
	tsock_close(&listener);
	loop_net_finish();
}

static void test_a_peer_begins_anew(void **state)
{
	run("peer again", peer_again);
}

/* Bare ACKs of the server; holder of the only ring. */
static unsigned server_acks;

static bool count_acks(const struct pkt *pkt)
{
	const uint8_t *tcp = pkt->frame + ETH_HDR + IP4_HDR;

	if ((tcp[0] << 8 | tcp[1]) == PORT &&
	    (tcp[13] & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) == TCP_ACK)
		__atomic_add_fetch(&server_acks, 1, __ATOMIC_RELAXED);
	return false;
}

/*
 * No listener is here any more; perhaps the kernel or another process has one. What a peer in
 * SYN-SENT does with the ACK is tested elsewhere: it repeats its SYN at once.
 */
static void nobody_listens(void *arg)
{
	struct tsock listener;
	struct sockaddr_in to;
	struct both both;

	begin();
	listener = listener_at(PORT);
	to = tsock_name(&listener);
	both = pair_of(bound_client(9000), &listener);
	close_in_order(&both.server, &both.client);
	tsock_close(&listener);
	NET_CHECK_EQ(number(&timewait_stats.now), 1);
	usleep(2000); /* so that timestamps increase */
	loop_port_lose(count_acks);
	both.client = bound_client(9000);
	NET_CHECK_EQ(tsock_connect(&both.client, &to), -EINPROGRESS);
	NET_CHECK(NET_WAIT(number(&server_acks) == 1, NET_PATIENCE));
	await_holders();
	NET_CHECK_EQ(number(&timewait_stats.now), 0);
	loop_port_lose(NULL);
	tsock_close(&both.client);
	loop_net_finish();
}

static void test_a_new_syn_of_a_peer_is_answered_without_a_listener(void **state)
{
	run("nobody listens", nobody_listens);
}

static void left(struct sock *sk)
{
	(void)sk; /* loop_net would report it as an error */
}

/*
 * The kernel serves the listener from now on, as when it was sent to another process, or
 * inherited by a program without the library.
 */
static void leave(struct tsock *listener)
{
	NET_CHECK(control_lock());
	NET_CHECK_EQ(sock_leave(tsock_inet(listener), VERDICT_PASSED), 0);
	control_unlock();
	listener->ref.sk = NULL;
}

#define GONE 1100 /* more than can end in one hold of the ring */

/* Nothing remains of its connections that could take a SYN from the present listener. */
static void listener_left(void *arg)
{
	struct tsock listener, other;
	struct both both;

	begin();
	sock_hooks.left = left;
	listener = listener_at(PORT);
	other = listener_at(PORT + 1);
	for (unsigned i = 0; i < GONE; i++) {
		both = pair_of(tsock_tcp(), &listener);
		close_in_order(&both.server, &both.client);
	}
	both = pair_of(tsock_tcp(), &other);
	close_in_order(&both.server, &both.client);
	both = pair_of(tsock_tcp(), &listener);
	/* the TIME_WAIT has the port, not the listener */
	close_in_order(&both.client, &both.server);
	NET_CHECK_EQ(number(&timewait_stats.now), GONE + 2);
	leave(&listener);
	NET_CHECK_EQ(number(&timewait_stats.now), 2);
	leave(&other);
	NET_CHECK_EQ(number(&timewait_stats.now), 1);
	tsock_close(&listener);
	tsock_close(&other);
	loop_net_finish();
}

static void test_a_listener_that_leaves_keeps_none(void **state)
{
	run("listener left", listener_left);
}

/* An accepted connection is closed while a thread is in a call on it. */
static void closed_late(void *arg)
{
	struct tsock listener;
	struct sock_ref ref;
	struct both both;

	begin();
	listener = listener_at(PORT);
	both = pair_of(tsock_tcp(), &listener);
	ref = both.server.ref;
	__atomic_add_fetch(&ref.sk->waiters, 1, __ATOMIC_SEQ_CST);
	tsock_close(&both.server);
	sock_wait_leave(ref);
	NET_CHECK(NET_WAIT(is_at_end(&both.client), NET_PATIENCE));
	tsock_close(&both.client);
	NET_CHECK(NET_WAIT(number(&timewait_stats.total) == 1 &&
				   !number(&tcp_orphans[TCP_ORPHAN_UNACKED]) &&
				   !number(&tcp_orphans[TCP_ORPHAN_HALF]),
			   NET_PATIENCE));
	NET_CHECK_EQ(number(&timewait_stats.now), 1);
	NET_CHECK(NET_WAIT(!number(&port_keepers), NET_PATIENCE));
	tsock_close(&listener);
	loop_net_finish();
}

static void test_an_accepted_one_keeps_no_port(void **state)
{
	run("closed late", closed_late);
}

/* About a tenth of all descriptors, for any number of connections. */
static void many(void *arg)
{
	struct rlimit limit = {1024, 1024};
	struct tsock listener;

	begin();
	NET_CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	listener = listener_at(PORT);
	for (unsigned i = 0; i < 300; i++) {
		struct both both = pair_of(tsock_tcp(), &listener);

		close_in_order(&both.client, &both.server);
		NET_CHECK(number(&port_keepers) <= 128);
	}
	NET_CHECK_EQ(number(&port_keepers), 128);
	NET_CHECK_EQ(number(&timewait_stats.now), 128);
	tsock_close(&listener);
	loop_net_finish();
}

static void test_ports_do_not_cost_all_descriptors(void **state)
{
	run("many", many);
}

/* Its ring closes; another ring of the interface takes it over. */
static void taken_over(void *arg)
{
	struct tsock listener, client, again;
	struct sockaddr_in to;
	struct both both;
	struct ring *old;

	begin();
	listener = listener_at(PORT);
	to = tsock_name(&listener);
	client = bound_client(9000);
	NET_CHECK_EQ(tsock_set_logic(&client, RING_LOGIC_USER_ID, 5, true, true), 0);
	both = pair_of(client, &listener);
	old = tsock_home(&both.client);
	NET_CHECK(old != tsock_home(&both.server));
	close_in_order(&both.client, &both.server);
	NET_CHECK(NET_WAIT(!ring_queue(old), NET_PATIENCE));
	NET_CHECK_EQ(number(&timewait_stats.now), 1);
	again = bound_client(9000);
	NET_CHECK_EQ(tsock_connect(&again, &to), -EADDRNOTAVAIL);
	tsock_close(&again);
	tsock_close(&listener);
	loop_net_finish();
	NET_CHECK_EQ(number(&timewait_stats.now), 0);
}

static void test_another_ring_goes_on_for_it(void **state)
{
	run("taken over", taken_over);
}

/* Leaves some connections in TIME_WAIT on their own ring. */
static struct ring *leave_some(struct tsock *listener, unsigned n)
{
	struct ring *ring = NULL;

	for (unsigned i = 0; i < n; i++) {
		struct tsock client = bound_client(9000 + i);
		struct both both;

		NET_CHECK_EQ(tsock_set_logic(&client, RING_LOGIC_USER_ID, 5, true, true), 0);
		both = pair_of(client, listener);
		ring = tsock_home(&both.client);
		NET_CHECK(ring != tsock_home(&both.server));
		close_in_order(&both.client, &both.server);
	}
	NET_CHECK_EQ(number(&timewait_stats.now), n);
	return ring;
}

/* Closes the ring now, instead of a second after its last socket. */
static void vacate(struct ring *ring, struct ring *successor)
{
	loop_net_settle();
	NET_CHECK(control_lock());
	timewait_leave_ring(ring, successor);
	control_unlock();
}

/* If it cannot be steered to another ring, it ends, and its frames go to the kernel. */
static void no_other_ring(void *arg)
{
	struct tsock listener, again;
	struct ring *old;
	struct both both;

	begin();
	listener = listener_at(PORT);
	old = leave_some(&listener, 1);
	loop_port_fail_moves(1);
	vacate(old, tsock_home(&listener));
	NET_CHECK_EQ(number(&timewait_stats.now), 0);
	again = bound_client(9000);
	both = pair_of(again, &listener);
	close_in_order(&both.client, &both.server);
	tsock_close(&listener);
	loop_net_finish();
}

static void test_connections_without_another_ring_leave_nothing(void **state)
{
	run("no other ring", no_other_ring);
}

/* The port operations of the new ring, which count; for its holder. */
static struct port_ops counting;
static const struct port_ops *counted;
static struct ring *counting_ring;
static unsigned moved, moved_in_hold, moved_most;

static int count_move(struct port_queue *q, const struct flow_key *key)
{
	counting_ring->tx_dirty = true; /* set, so that a release flushes it */
	moved++;
	if (++moved_in_hold > moved_most)
		moved_most = moved_in_hold;
	return counted->move_flow(q, key);
}

static void count_release(struct port_queue *q)
{
	moved_in_hold = 0;
	counted->tx_flush(q);
}

static void set_ops(struct ring *ring, const struct port_ops *ops)
{
	NET_CHECK(ring_hold_cold(ring));
	ring->ops = ops;
	ring_release_cold(ring);
}

static void a_few_at_a_time(void *arg)
{
	struct tsock listener;
	struct ring *old, *successor;

	begin();
	listener = listener_at(PORT);
	successor = tsock_home(&listener);
	old = leave_some(&listener, 200);
	counting_ring = successor;
	counted = successor->ops;
	counting = *counted;
	counting.move_flow = count_move;
	counting.tx_flush = count_release;
	set_ops(successor, &counting);
	vacate(old, successor);
	set_ops(successor, counted);
	NET_CHECK_EQ(moved, 200);
	NET_CHECK(moved_most <= 64);
	NET_CHECK_EQ(number(&timewait_stats.now), 200);
	tsock_close(&listener);
	loop_net_finish();
	NET_CHECK_EQ(number(&timewait_stats.now), 0);
}

static void test_another_ring_is_held_for_some_at_a_time(void **state)
{
	run("a few at a time", a_few_at_a_time);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_only_something_small_is_left),
	cmocka_unit_test(test_half_a_connection_is_small_and_counts),
	cmocka_unit_test(test_time_wait_may_end_when_the_first_half_would_have),
	cmocka_unit_test(test_a_connection_of_ours_does_not_reuse_the_pair),
	cmocka_unit_test(test_a_living_connection_takes_the_place_of_a_time_wait),
	cmocka_unit_test(test_a_pair_is_one_connection),
	cmocka_unit_test(test_a_pair_of_another_process_is_not_available),
	cmocka_unit_test(test_a_peer_begins_anew),
	cmocka_unit_test(test_a_new_syn_of_a_peer_is_answered_without_a_listener),
	cmocka_unit_test(test_a_listener_that_leaves_keeps_none),
	cmocka_unit_test(test_an_accepted_one_keeps_no_port),
	cmocka_unit_test(test_ports_do_not_cost_all_descriptors),
	cmocka_unit_test(test_another_ring_goes_on_for_it),
	cmocka_unit_test(test_connections_without_another_ring_leave_nothing),
	cmocka_unit_test(test_another_ring_is_held_for_some_at_a_time),
};

VMA_TEST_MAIN("timewait", tests, enter, NULL)
