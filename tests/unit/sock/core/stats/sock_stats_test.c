/* SPDX-License-Identifier: BSD-2-Clause */
/* The slots of sockets in the page of statistics, and what the internal thread does for readers. */
#include <pthread.h>
#include <sys/wait.h>

#include "base/log.h"
#include "sock/core/rules/rules.h"
#include "sock/core/stats/sock_stats.h"
#include "tests/unit/sock/world.h"

#define SLOTS 6

static char dir[] = "/tmp/sock-stats-XXXXXX", log_path[64], file_path[64], rules_path[64];

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static const char *read_file(const char *path)
{
	static char text[65536];
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	return text;
}

static unsigned times(const char *text, const char *part)
{
	unsigned n = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		n++;
	}
	return n;
}

static void left(struct sock *sk)
{
}

/* The page's descriptor and the files are there before the sockets whose descriptors are counted. */
static int start(void **state)
{
	loop_net_enter();
	assert_non_null(mkdtemp(dir));
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	snprintf(file_path, sizeof(file_path), "%s/stats", dir);
	snprintf(rules_path, sizeof(rules_path), "%s/rules", dir);
	write_file(rules_path, "application-id * *\nuse vma tcp_server *:*\n");
	params.config_file = rules_path;
	params.log_level = LOG_INFO;
	params.progress_interval = 1;
	params.thread_mode = HOLD_YIELD;
	params.stats_latency = true;
	stats_init(dir, file_path, SLOTS, true);
	assert_true(stats_open());
	loop_net_start();
	log_init(LOG_INFO, 0, false, log_path);
	sock_hooks.left = left;
	return 0;
}

static int finish(void **state)
{
	loop_net_finish();
	stats_close();
	unlink(log_path);
	unlink(file_path);
	unlink(rules_path);
	assert_int_equal(rmdir(dir), 0);
	return 0;
}

/* ---- a reader --------------------------------------------------------------------------- */

static uint64_t ask_for(enum stats_ask what, uint32_t argument)
{
	struct stats_page *page = stats_page();
	uint64_t before = __atomic_load_n(&page->ask[what], __ATOMIC_RELAXED);
	uint64_t ask = ((before >> 32) + 1) << 32 | argument;

	__atomic_store_n(&page->ask[what], ask, __ATOMIC_RELEASE);
	return ask;
}

static void ask(enum stats_ask what, uint32_t argument)
{
	uint64_t asked = ask_for(what, argument);

	assert_true(
		NET_WAIT(__atomic_load_n(&stats_page()->answer[what], __ATOMIC_ACQUIRE) == asked,
			 WORLD_WAIT));
}

static const struct stats_sock *slot_of(const struct tsock *ts)
{
	assert_true(tsock_inet(ts)->stats_slot);
	return stats_slot(tsock_inet(ts)->stats_slot);
}

static unsigned slots_of(enum stats_state state)
{
	unsigned n = 0;

	for (unsigned i = 1; i <= SLOTS; i++)
		n += stats_slot(i)->state == state;
	return n;
}

static int each_begins(void **state)
{
	assert_int_equal(slots_of(STATS_OURS), 0);
	write_file(log_path, "");
	write_file(file_path, "");
	return 0;
}

#define CASE(name) cmocka_unit_test_setup(name, each_begins)

/* ---- the life of a slot ------------------------------------------------------------------ */

static void test_a_socket_has_a_slot_from_its_decision_to_its_end(void **state)
{
	struct tsock ts = tsock_udp();
	const struct stats_sock *slot;

	assert_int_equal(tsock_inet(&ts)->stats_slot, 0);
	assert_null(sock_stats(tsock_inet(&ts)));
	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), world_port()), 0);
	slot = slot_of(&ts);
	assert_ptr_equal(sock_stats(tsock_inet(&ts)), slot);
	assert_ptr_equal(tsock_inet(&ts)->udp.stats, slot);
	assert_int_equal(slot->state, STATS_OURS);
	assert_int_equal(slot->fd, ts.fd);
	assert_int_equal(slot->type, STATS_UDP);
	assert_int_equal(slot->accelerated, 1);
	assert_string_equal(slot->verdict, "");
	tsock_close(&ts);
	assert_int_equal(slot->state, STATS_FREE);
}

static void test_without_a_free_slot_a_socket_counts_nowhere(void **state)
{
	uint32_t without = stats_page()->without_slot;
	struct tsock all[SLOTS], more;

	for (unsigned i = 0; i < SLOTS; i++) {
		all[i] = world_udp(0, world_port());
		slot_of(&all[i]);
	}
	more = world_udp(0, world_port());
	assert_int_equal(tsock_inet(&more)->stats_slot, 0);
	assert_null(tsock_inet(&more)->udp.stats);
	assert_int_equal(stats_page()->without_slot, without + 1);
	sock_stats_twin_recv(tsock_inet(&more), 1);
	sock_stats_twin_send(tsock_inet(&more), 1);
	sock_stats_latency(tsock_inet(&more), 1);
	WORLD_LOCKED(sock_stats_end(tsock_inet(&more)));
	tsock_close(&all[0]);
	WORLD_LOCKED(sock_stats_begin(tsock_inet(&more), false)); /* a later chance */
	slot_of(&more);
	tsock_close(&more);
	for (unsigned i = 1; i < SLOTS; i++)
		tsock_close(&all[i]);
}

static void test_the_last_counts_are_stored_when_a_socket_ends(void **state)
{
	struct tsock ts, peer;
	struct sockaddr_in to = world_udp_pair(&ts, &peer);
	unsigned number = tsock_inet(&ts)->stats_slot;
	char line[64];

	WORLD_LOCKED(sock_stats_end(tsock_inet(&ts)));
	assert_int_equal(tsock_inet(&ts)->stats_slot, 0);
	assert_null(tsock_inet(&ts)->udp.stats);
	assert_int_equal(stats_slot(number)->state, STATS_FREE);
	assert_int_equal(stats_slot(number)->remote_port, to.sin_port);
	assert_int_equal(stats_slot(number)->tx_packets, 1);
	WORLD_LOCKED(sock_stats_end(tsock_inet(&ts))); /* nothing more */
	snprintf(line, sizeof(line), "[%s:%u]", inet_ntoa(to.sin_addr), ntohs(to.sin_port));
	assert_int_equal(times(read_file(file_path), line), 1);
	tsock_close(&ts);
	tsock_close(&peer);
}

static void test_a_socket_that_leaves_says_why(void **state)
{
	struct tsock ts = world_udp(0, world_port());
	const struct stats_sock *slot = slot_of(&ts);
	char text[RULES_TEXT];

	assert_int_equal(sock_to_kernel(ts.ref, VERDICT_FORKED), 0);
	assert_int_equal(slot->state, STATS_LEFT);
	assert_int_equal(slot->accelerated, 0);
	assert_int_equal(slot->fd, ts.fd);
	WORLD_LOCKED(rules_verdict_text(VERDICT_FORKED, (struct rules_decision){0}, text));
	assert_string_equal(slot->verdict, text);
	close(ts.fd);
	/* It stays for readers until another socket needs it. */
	ts = world_udp(0, world_port());
	assert_ptr_equal(slot_of(&ts), slot);
	assert_int_equal(slot->state, STATS_OURS);
	tsock_close(&ts);
}

/* One that had no slot gets one, so that readers can ask. */
static void test_a_socket_that_never_was_ours_says_why(void **state)
{
	struct tsock ts = tsock_udp();
	unsigned left = slots_of(STATS_LEFT);

	assert_int_equal(tsock_inet(&ts)->stats_slot, 0);
	assert_int_equal(sock_to_kernel(ts.ref, VERDICT_CALL), 0);
	assert_int_equal(slots_of(STATS_LEFT), left + 1);
	close(ts.fd);
}

static void test_a_verdict_is_told_with_what_it_is_about(void **state)
{
	struct tsock ts = world_udp(0, world_port()), unbound = tsock_udp();
	struct inet_sock *so = tsock_inet(&ts), *open = tsock_inet(&unbound);
	const struct stats_sock *slot = slot_of(&ts);

	so->verdict = VERDICT_CALL;
	WORLD_LOCKED(sock_stats_verdict(so));
	assert_int_equal(slot->state, STATS_OURS);
	assert_int_equal(slot->accelerated, 0);
	assert_ptr_equal(strstr(slot->verdict, "what it receives, "), slot->verdict);
	assert_non_null(strstr(slot->verdict, verdict_text(VERDICT_CALL)));
	so->verdict = VERDICT_ACCELERATED;
	WORLD_LOCKED(sock_stats_verdict(so));
	assert_int_equal(slot->accelerated, 1);
	assert_string_equal(slot->verdict, "");
	/* Without a slot: it gets one if it has something to say. */
	open->verdict = VERDICT_ACCELERATED;
	WORLD_LOCKED(sock_stats_verdict(open));
	assert_int_equal(open->stats_slot, 0);
	open->verdict = VERDICT_CALL;
	WORLD_LOCKED(sock_stats_verdict(open));
	assert_ptr_equal(strstr(slot_of(&unbound)->verdict, "what it sends, "),
			 slot_of(&unbound)->verdict);
	open->verdict = VERDICT_UNDECIDED;
	tsock_close(&ts);
	tsock_close(&unbound);
}

static void test_the_rule_of_a_listener_is_that_of_its_connections(void **state)
{
	unsigned port = world_port();
	struct tsock listener = world_listener(0, port, 4), client, child, other;

	world_pair(&listener, port, &client, &child);
	assert_int_equal(slot_of(&listener)->type, STATS_TCP_LISTENER);
	assert_non_null(strstr(slot_of(&listener)->verdict, "2"));
	assert_int_equal(slot_of(&child)->type, STATS_TCP);
	assert_string_equal(slot_of(&child)->verdict, slot_of(&listener)->verdict);
	assert_string_equal(slot_of(&client)->verdict, "");
	/* Whoever has no slot has no rule to give or to get. */
	other = tsock_udp();
	WORLD_LOCKED(sock_stats_accepted(tsock_inet(&client), tsock_inet(&other)));
	WORLD_LOCKED(sock_stats_accepted(tsock_inet(&other), tsock_inet(&listener)));
	assert_string_equal(slot_of(&client)->verdict, "");
	tsock_close(&other);
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
}

/* ---- counting ---------------------------------------------------------------------------- */

static void test_calls_of_the_twin_are_counted_by_their_results(void **state)
{
	struct tsock ts = world_udp(0, world_port());
	const struct stats_sock *slot = slot_of(&ts);

	sock_stats_twin_recv(tsock_inet(&ts), 100);
	sock_stats_twin_recv(tsock_inet(&ts), 0); /* an empty datagram */
	sock_stats_twin_recv(tsock_inet(&ts), -EAGAIN);
	sock_stats_twin_recv(tsock_inet(&ts), -ECONNREFUSED);
	sock_stats_twin_send(tsock_inet(&ts), 7);
	assert_int_equal(slot->os_rx_packets, 2);
	assert_int_equal(slot->os_rx_bytes, 100);
	assert_int_equal(slot->os_rx_errors, 1);
	assert_int_equal(slot->os_tx_packets, 1);
	assert_int_equal(slot->os_tx_bytes, 7);
	tsock_close(&ts);
}

static void test_a_latency_is_the_time_since_arrival(void **state)
{
	struct tsock ts = world_udp(0, world_port());
	const struct stats_latency *latency = stats_latency(tsock_inet(&ts)->stats_slot);
	nsec_t now = clock_real();

	sock_stats_latency(tsock_inet(&ts), 0); /* unknown */
	assert_int_equal(latency->count, 0);
	sock_stats_latency(tsock_inet(&ts), now - NSEC_PER_SEC);
	assert_int_equal(latency->count, 1);
	assert_true(latency->most >= NSEC_PER_SEC && latency->most < 100 * NSEC_PER_SEC);
	/* The clock was set back. */
	sock_stats_latency(tsock_inet(&ts), now + 1000 * NSEC_PER_SEC);
	assert_int_equal(latency->count, 2);
	assert_int_equal(latency->buckets[0], 1);
	tsock_close(&ts);
}

static void test_a_move_is_counted_for_its_direction(void **state)
{
	struct tsock ts = world_udp(0, world_port());
	const struct stats_sock *slot = slot_of(&ts);

	sock_stats_moved(tsock_inet(&ts), true, 1);
	sock_stats_moved(tsock_inet(&ts), true, 1);
	sock_stats_moved(tsock_inet(&ts), false, 1);
	assert_int_equal(slot->rx_migrations, 2);
	assert_int_equal(slot->tx_migrations, 1);
	tsock_close(&ts);
}

/* What the connection did in the other process was counted there. */
static void test_what_was_before_an_import_does_not_count(void **state)
{
	unsigned port = world_port();
	struct tsock listener = world_listener(0, port, 4), client, child;

	world_pair(&listener, port, &client, &child);
	assert_int_equal(tsock_send(&client, "12345", 5, 0), 5);
	world_expect(&child, "12345");
	ask(STATS_REFRESH, 0);
	assert_int_equal(slot_of(&child)->rx_bytes, 5);
	ask(STATS_REFRESH, 0); /* once, not at each ask */
	assert_int_equal(slot_of(&child)->rx_bytes, 5);
	WORLD_LOCKED(sock_stats_end(tsock_inet(&child)));
	WORLD_LOCKED(sock_stats_begin(tsock_inet(&child), true));
	ask(STATS_REFRESH, 0);
	assert_int_equal(slot_of(&child)->rx_bytes, 0);
	assert_int_equal(tsock_send(&client, "678", 3, 0), 3);
	world_expect(&child, "678");
	ask(STATS_REFRESH, 0);
	assert_int_equal(slot_of(&child)->rx_bytes, 3);
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
}

/* ---- what readers ask for ------------------------------------------------------------------ */

static void test_a_refresh_stores_what_the_socket_knows(void **state)
{
	struct tsock ts, peer;
	struct sockaddr_in to = world_udp_pair(&ts, &peer), name = tsock_name(&ts);
	const struct stats_sock *slot = slot_of(&ts);
	const struct stats_ring *ring = NULL;

	ask(STATS_REFRESH, 0);
	assert_int_equal(slot->local_addr.w[3], name.sin_addr.s_addr);
	assert_int_equal(slot->local_port, name.sin_port);
	assert_int_equal(slot->remote_addr.w[3], to.sin_addr.s_addr);
	assert_int_equal(slot->remote_port, to.sin_port);
	assert_int_equal(slot->flags & (STATS_NONBLOCK | STATS_EXPORTED | STATS_INET6),
			 STATS_NONBLOCK);
	assert_int_equal(slot->ring, tsock_home(&ts)->id);
	assert_string_equal(slot->interface, tsock_home(&ts)->q->port->name);
	assert_true(slot->inode);
	for (unsigned i = 0; i < stats_page()->n_rings; i++) {
		if (stats_page()->rings[i].open && stats_page()->rings[i].id == slot->ring)
			ring = &stats_page()->rings[i];
	}
	assert_non_null(ring);
	assert_true(ring->tx_packets >= 1 && ring->sockets >= 1 && ring->frames_free > 0);
	assert_string_equal(ring->interface, slot->interface);
	assert_int_equal(stats_page()->log_level, LOG_INFO);
	assert_int_equal(stats_page()->pools[STATS_POOL_RX].size, pkt_bufs_left());
	tsock_block(&ts, true);
	ask(STATS_REFRESH, 0);
	assert_int_equal(slot->flags & STATS_NONBLOCK, 0);
	tsock_close(&ts);
	tsock_close(&peer);
}

static void test_a_zero_begins_all_counts_again(void **state)
{
	struct tsock ts, peer;
	struct stats_page *page = stats_page();
	const struct stats_sock *slot;
	uint64_t zeroed_at = page->zeroed_at;

	world_udp_pair(&ts, &peer);
	slot = slot_of(&ts);
	sock_stats_twin_recv(tsock_inet(&ts), 100);
	sock_stats_latency(tsock_inet(&ts), 1);
	stats_add_any(&page->poll.now.hits, 3);
	stats_add_any(&page->epolls[1].now.hits, 4);
	assert_int_equal(slot->tx_packets, 1);
	ask(STATS_ZERO, 0);
	for (const uint64_t *c = &slot->rx_packets; c <= &slot->retransmits; c++)
		assert_int_equal(*c, 0);
	assert_int_equal(stats_latency(tsock_inet(&ts)->stats_slot)->count, 0);
	assert_int_equal(page->poll.zero.hits, page->poll.now.hits);
	assert_int_equal(page->epolls[1].zero.hits, 4);
	assert_true(page->zeroed_at > zeroed_at);
	for (unsigned i = 0; i < page->n_rings; i++)
		assert_int_equal(page->rings[i].tx_packets, 0);
	/* A refresh zeroes nothing. */
	assert_int_equal(tsock_send(&ts, "more", 4, 0), 4);
	world_expect(&peer, "more");
	ask(STATS_REFRESH, 0);
	assert_int_equal(slot->tx_packets, 1);
	tsock_close(&ts);
	tsock_close(&peer);
}

static void test_levels_of_the_log_are_set(void **state)
{
	ask(STATS_LEVEL, LOG_WARNING + 1);
	assert_int_equal(log_level, LOG_WARNING);
	assert_int_equal(stats_page()->log_level, LOG_WARNING);
	ask(STATS_LEVEL, LOG_NONE + 1);
	assert_int_equal(log_level, LOG_NONE);
	ask(STATS_LEVEL, 0x100 | (LOG_INFO + 1)); /* the rest of the argument means nothing */
	assert_int_equal(log_level, LOG_INFO);
	ask(STATS_DETAILS, 2);
	assert_int_equal(log_details_level(), 2);
	ask(STATS_DETAILS, 0);
	assert_int_equal(stats_page()->log_details, 0);
}

#define SECTION "SOCKET FD ="

static void test_a_dump_is_of_one_socket_or_of_all(void **state)
{
	struct tsock ts, peer;
	char line[64];

	world_udp_pair(&ts, &peer);
	snprintf(line, sizeof(line), "%-20s: %d\n", "Fd number", ts.fd);
	ask(STATS_DUMP, (uint32_t)ts.fd << 4 | (LOG_INFO + 1));
	assert_int_equal(times(read_file(log_path), SECTION), 1);
	assert_int_equal(times(read_file(log_path), line), 1);
	write_file(log_path, "");
	ask(STATS_DUMP, LOG_INFO + 1);
	assert_int_equal(times(read_file(log_path), SECTION), 2);
	assert_int_equal(times(read_file(log_path), line), 1);
	write_file(log_path, "");
	ask(STATS_DUMP, LOG_DEBUG + 1); /* is not logged */
	ask(STATS_DUMP, 1000u << 4 | (LOG_INFO + 1));
	assert_int_equal(times(read_file(log_path), SECTION), 0);
	tsock_close(&ts);
	tsock_close(&peer);
}

/* With what the sockets know at this moment. */
static void test_the_program_gets_its_dump_at_once(void **state)
{
	struct tsock ts, peer;
	struct sockaddr_in to = world_udp_pair(&ts, &peer);
	char line[128];
	struct ring *ring;

	snprintf(line, sizeof(line), "%-20s: %s:%u\n", "Connection info", inet_ntoa(to.sin_addr),
		 ntohs(to.sin_port));
	assert_int_equal(sock_stats_dump_now(ts.fd, LOG_INFO), 0);
	assert_int_equal(times(read_file(log_path), SECTION), 1);
	assert_int_equal(times(read_file(log_path), line), 1);
	write_file(log_path, "");
	assert_int_equal(sock_stats_dump_now(0, LOG_INFO), 0);
	assert_int_equal(times(read_file(log_path), SECTION), 2);
	write_file(log_path, "");
	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	assert_int_equal(sock_stats_dump_now(0, LOG_INFO), -EAGAIN);
	sock_release(ring);
	assert_string_equal(read_file(log_path), "");
	tsock_close(&ts);
	tsock_close(&peer);
}

static void test_asks_at_the_same_time_are_all_answered(void **state)
{
	static const enum stats_ask asks[] = {STATS_REFRESH, STATS_ZERO, STATS_DUMP, STATS_LEVEL,
					      STATS_DETAILS};
	static const uint32_t arguments[] = {0, 0, LOG_DEBUG + 1, LOG_INFO + 1, 0};
	struct tsock ts = world_udp(0, world_port());
	uint64_t asked[5];

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 5; i++)
			asked[i] = ask_for(asks[i], arguments[i]);
		for (unsigned i = 0; i < 5; i++)
			assert_true(NET_WAIT(__atomic_load_n(&stats_page()->answer[asks[i]],
							     __ATOMIC_ACQUIRE) == asked[i],
					     WORLD_WAIT));
	}
	tsock_close(&ts);
}

/* ---- other threads and processes ------------------------------------------------------------ */

#define LIVES 300

static void *live(void *arg)
{
	int *over = arg;

	for (unsigned i = 0; i < LIVES; i++) {
		struct tsock ts = tsock_udp();

		tsock_bind(&ts, fake_link_addr(i % 2), 0);
		tsock_close(&ts);
	}
	__atomic_fetch_add(over, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* A socket that ends while the rings store what is asked for is stored no more. */
static void test_sockets_come_and_go_while_readers_ask(void **state)
{
	pthread_t threads[2];
	int over = 0;

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, live, &over), 0);
	while (__atomic_load_n(&over, __ATOMIC_ACQUIRE) < 2) {
		ask(STATS_REFRESH, 0);
		ask(STATS_ZERO, 0);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(slots_of(STATS_OURS), 0);
}

static void test_a_forked_child_has_none_of_it(void **state)
{
	struct tsock ts = world_udp(0, world_port());
	struct inet_sock *so = tsock_inet(&ts);
	const struct stats_sock *slot = slot_of(&ts);
	int status;
	pid_t pid = fork();

	if (!pid) {
		sock_stats_forget();
		sock_stats_twin_recv(so, 1); /* by a slot of the parent */
		sock_stats_fork_child(so);
		assert_int_equal(so->stats_slot, 0);
		assert_null(so->udp.stats);
		assert_null(stats_page());
		assert_false(sock_stats_run(clock_now()));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(slot->os_rx_packets, 0);
	assert_ptr_equal(slot_of(&ts), slot);
	ask(STATS_REFRESH, 0);
	tsock_close(&ts);
}

static const struct CMUnitTest tests[] = {
	CASE(test_a_socket_has_a_slot_from_its_decision_to_its_end),
	CASE(test_without_a_free_slot_a_socket_counts_nowhere),
	CASE(test_the_last_counts_are_stored_when_a_socket_ends),
	CASE(test_a_socket_that_leaves_says_why),
	CASE(test_a_socket_that_never_was_ours_says_why),
	CASE(test_a_verdict_is_told_with_what_it_is_about),
	CASE(test_the_rule_of_a_listener_is_that_of_its_connections),
	CASE(test_calls_of_the_twin_are_counted_by_their_results),
	CASE(test_a_latency_is_the_time_since_arrival),
	CASE(test_a_move_is_counted_for_its_direction),
	CASE(test_what_was_before_an_import_does_not_count),
	CASE(test_a_refresh_stores_what_the_socket_knows),
	CASE(test_a_zero_begins_all_counts_again),
	CASE(test_levels_of_the_log_are_set),
	CASE(test_a_dump_is_of_one_socket_or_of_all),
	CASE(test_the_program_gets_its_dump_at_once),
	CASE(test_asks_at_the_same_time_are_all_answered),
	CASE(test_sockets_come_and_go_while_readers_ask),
	CASE(test_a_forked_child_has_none_of_it),
};

VMA_TEST_MAIN("sock/core/stats/sock_stats", tests, start, finish)
