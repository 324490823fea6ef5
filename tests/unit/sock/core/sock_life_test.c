/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/sock_life.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "sock/core/inet_sock.h"
#include "tests/vma_test.h"

/* Written down independently of the table. */
static const struct {
	enum sock_life from, next;
	const char *by;
} edges[] = {
	{LIFE_FREE, LIFE_OPEN, "socket()"},
	{LIFE_CLOSED, LIFE_FREE, "the object is given back"},

	{LIFE_OPEN, LIFE_RECEIVING, "bind(), connect(), the first send of a datagram socket"},
	{LIFE_OPEN, LIFE_LISTENING, "listen()"},
	{LIFE_OPEN, LIFE_LINGERING, "left for the kernel, disconnected and with unread datagrams"},
	{LIFE_OPEN, LIFE_EXPORTED, "inherited, or received from another process"},
	{LIFE_OPEN, LIFE_HANDSHAKE, "a listener makes a child"},
	{LIFE_OPEN, LIFE_CONNECTING, "connect()"},
	{LIFE_OPEN, LIFE_CLOSED, "close(), or the kernel has it"},
	{LIFE_OPEN, LIFE_FREE, "it could not be made"},

	{LIFE_RECEIVING, LIFE_OPEN, "connect(AF_UNSPEC)"},
	{LIFE_RECEIVING, LIFE_LINGERING, "left for the kernel with unread datagrams"},
	{LIFE_RECEIVING, LIFE_EXPORTED, "fork(), or another process receives"},
	{LIFE_RECEIVING, LIFE_KEPT_RECEIVER, "close(), and others hold it"},
	{LIFE_RECEIVING, LIFE_CLOSED, "close(), or the kernel has it"},
	{LIFE_LISTENING, LIFE_OPEN, "the kernel refuses listen()"},
	{LIFE_LISTENING, LIFE_EXPORTED, "fork(), or another process receives"},
	{LIFE_LISTENING, LIFE_KEPT_RECEIVER, "close(), and others hold it"},
	{LIFE_LISTENING, LIFE_CLOSED, "close(), or the kernel has it"},
	{LIFE_LINGERING, LIFE_CLOSED, "all is read"},
	{LIFE_KEPT_RECEIVER, LIFE_CLOSED, "another process receives"},
	{LIFE_KEPT_RECEIVER, LIFE_KEPT_EXPORTED, "processes on both sides hold it"},

	{LIFE_EXPORTED, LIFE_RECEIVING, "it joins the receivers"},
	{LIFE_EXPORTED, LIFE_LISTENING, "it joins the receivers"},
	{LIFE_EXPORTED, LIFE_CONNECTING, "a connection that connect() has not reported arrives"},
	{LIFE_EXPORTED, LIFE_CONNECTED, "the connection arrives, or is lost"},
	{LIFE_EXPORTED, LIFE_KEPT_EXPORTED, "close(), and others hold it"},
	{LIFE_EXPORTED, LIFE_CLOSED, "close(), or the kernel has it"},
	{LIFE_EXPORTED, LIFE_FREE, "it could not be made"},
	{LIFE_KEPT_EXPORTED, LIFE_EXPORTED, "received once more"},
	{LIFE_KEPT_EXPORTED, LIFE_KEPT, "the connection arrives"},
	{LIFE_KEPT_EXPORTED, LIFE_CLOSED, "nobody behind this process holds it"},

	{LIFE_HANDSHAKE, LIFE_QUEUED, "established"},
	{LIFE_HANDSHAKE, LIFE_ORPHAN, "reset before that"},
	{LIFE_HANDSHAKE, LIFE_FREE, "it could not be made"},
	{LIFE_QUEUED, LIFE_CONNECTED, "accept()"},
	{LIFE_QUEUED, LIFE_EXPORTED, "another process is to accept it"},
	{LIFE_QUEUED, LIFE_ORPHAN, "the listener is closed"},

	{LIFE_CONNECTING, LIFE_CONNECTED, "connect() says that it is there"},
	{LIFE_CONNECTING, LIFE_OPEN, "connect() fails, or the kernel gets it"},
	{LIFE_CONNECTING, LIFE_EXPORTED, "another process needs it"},
	{LIFE_CONNECTING, LIFE_QUEUED, "it came to be accepted here"},
	{LIFE_CONNECTING, LIFE_KEPT, "close(), and others hold it"},
	{LIFE_CONNECTING, LIFE_ORPHAN, "close()"},
	{LIFE_OPEN, LIFE_LOCAL, "connect() to this host, or a listener accepts it"},
	{LIFE_LOCAL, LIFE_OPEN, "refused, or connect(AF_UNSPEC)"},
	{LIFE_LOCAL, LIFE_CLOSED, "close()"},
	{LIFE_LOCAL, LIFE_EXPORTED, "another process needs it"},
	{LIFE_LOCAL, LIFE_KEPT, "close(), and others hold it"},
	{LIFE_EXPORTED, LIFE_LOCAL, "a local connection arrives"},
	{LIFE_KEPT, LIFE_LOCAL, "a local connection is received once more"},
	{LIFE_CONNECTED, LIFE_OPEN, "connect(AF_UNSPEC), or the kernel gets it"},
	{LIFE_CONNECTED, LIFE_EXPORTED, "another process needs it"},
	{LIFE_CONNECTED, LIFE_KEPT, "close(), and others hold it"},
	{LIFE_CONNECTED, LIFE_ORPHAN, "close()"},

	{LIFE_KEPT, LIFE_KEPT_EXPORTED, "another process needs it"},
	{LIFE_KEPT, LIFE_CONNECTING, "received once more, in its handshake"},
	{LIFE_KEPT, LIFE_CONNECTED, "received once more"},
	{LIFE_KEPT, LIFE_ORPHAN, "nobody holds it any more"},
	{LIFE_KEPT, LIFE_CLOSED, "the kernel has it"},
	{LIFE_ORPHAN, LIFE_CLOSED, "all is said"},
};

#define N(a) (sizeof(a) / sizeof((a)[0]))

static void test_the_table_has_these_edges_and_no_others(void **state)
{
	uint16_t expected[LIFE_COUNT] = {0};

	(void)state;
	for (unsigned i = 0; i < N(edges); i++) {
		assert_false(expected[edges[i].from] & 1u << edges[i].next);
		expected[edges[i].from] |= (uint16_t)(1u << edges[i].next);
	}
	for (unsigned from = 0; from < LIFE_COUNT; from++) {
		for (unsigned next = 0; next < LIFE_COUNT; next++) {
			bool may = sock_life_may((enum sock_life)from, (enum sock_life)next);

			if (may != !!(expected[from] & 1u << next))
				fail_msg("%s to %s", sock_life_name((enum sock_life)from),
					 sock_life_name((enum sock_life)next));
		}
	}
}

/* The states that can be reached in any number of steps, as bits. */
static unsigned reach(unsigned lives)
{
	unsigned before = 0;

	while (lives != before) {
		before = lives;
		for (unsigned from = 0; from < LIFE_COUNT; from++) {
			if (lives & 1u << from)
				lives |= sock_life_edges[from];
		}
	}
	return lives;
}

static void test_every_state_is_reached_and_left_for_good(void **state)
{
	(void)state;
	assert_int_equal(reach(LIFE(FREE)), (1u << LIFE_COUNT) - 1);
	for (unsigned from = 0; from < LIFE_COUNT; from++)
		assert_true(reach(1u << from) & LIFE(FREE));
	/* The program cannot reach it any more. */
	assert_int_equal(sock_life_edges[LIFE_CLOSED], LIFE(FREE));
	assert_int_equal(sock_life_edges[LIFE_ORPHAN], LIFE(CLOSED));
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(sock_life_name(LIFE_FREE), "FREE");
	assert_string_equal(sock_life_name(LIFE_KEPT_EXPORTED), "KEPT_EXPORTED");
	assert_string_equal(sock_life_name(LIFE_ORPHAN), "ORPHAN");
	assert_string_equal(sock_life_name(LIFE_COUNT), "?");
}

/* ---- predicates ------------------------------------------------------------------------ */

static struct inet_sock so;

#define IS_EXACTLY(predicate, lives)                                               \
	do {                                                                       \
		for (unsigned life_ = 0; life_ < LIFE_COUNT; life_++) {            \
			so.life = (enum sock_life)life_;                           \
			assert_int_equal(predicate(&so), !!((lives)&1u << life_)); \
		}                                                                  \
	} while (0)

static void test_each_predicate_is_true_of_its_states(void **state)
{
	(void)state;
	IS_EXACTLY(sock_has_connection, LIFE(HANDSHAKE) | LIFE(QUEUED) | LIFE(CONNECTING) |
						LIFE(CONNECTED) | LIFE(KEPT) | LIFE(ORPHAN));
	IS_EXACTLY(sock_is_orphan, LIFE(ORPHAN));
	IS_EXACTLY(sock_is_kept, LIFE(KEPT) | LIFE(KEPT_EXPORTED) | LIFE(KEPT_RECEIVER));
	IS_EXACTLY(sock_is_gone,
		   LIFE(FREE) | LIFE(CLOSED) | LIFE(KEPT) | LIFE(KEPT_EXPORTED) | LIFE(ORPHAN));
	IS_EXACTLY(udp_lingers, LIFE(LINGERING));
}

static void test_the_engine_knows_how_far_a_connection_is(void **state)
{
	(void)state;
	so.life = LIFE_CONNECTING;
	for (unsigned tcp = TCP_CLOSED; tcp <= TCP_TIME_WAIT; tcp++) {
		so.tcp.conn.state = (uint8_t)tcp;
		assert_int_equal(sock_is_connecting(&so),
				 tcp == TCP_SYN_SENT || tcp == TCP_SYN_RECEIVED);
		assert_int_equal(sock_has_ended(&so), tcp == TCP_CLOSED);
	}
	so.tcp.conn.state = TCP_CLOSED;
}

/* ---- the setter ------------------------------------------------------------------------ */

static unsigned traced;

static void note(const struct inet_sock *of, enum sock_life from, enum sock_life next)
{
	assert_ptr_equal(of, &so);
	assert_int_equal(sock_life(of), from); /* not yet taken */
	assert_int_equal(from, edges[traced].from);
	assert_int_equal(next, edges[traced].next);
	traced++;
}

static void test_each_edge_can_be_taken_and_is_traced(void **state)
{
	(void)state;
	traced = 0;
	sock_life_trace = note;
	for (unsigned i = 0; i < N(edges); i++) {
		so.life = edges[i].from;
		sock_life_set(&so, edges[i].next);
		assert_true(sock_life_is(&so, edges[i].next));
	}
	sock_life_trace = NULL;
	assert_int_equal(traced, N(edges));
	so.life = LIFE_FREE;
	sock_life_set(&so, LIFE_OPEN); /* no thread waits */
	assert_int_equal(traced, N(edges));
}

/* Runs a child that takes illegal edges.  Returns its exit status, and in text what it wrote. */
static int take_illegal(char *text, size_t size)
{
	struct rlimit none = {0, 0};
	int fds[2], status;
	ssize_t n, len = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		dup2(fds[1], 2);
		so.life = LIFE_LISTENING;
		sock_life_set(&so, LIFE_CONNECTED);
		_exit(so.life == LIFE_CONNECTED ? 7 : 8);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + len, size - 1 - (size_t)len)) > 0)
		len += n;
	text[len] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_an_illegal_edge_is_told_and_ends_a_process_with_assertions(void **state)
{
	char text[1024];
	int status = take_illegal(text, sizeof(text));

	(void)state;
	assert_non_null(strstr(text, "LISTENING to CONNECTED"));
#ifdef NDEBUG
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7); /* the process continues */
#else
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#endif
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_table_has_these_edges_and_no_others),
	cmocka_unit_test(test_every_state_is_reached_and_left_for_good),
	cmocka_unit_test(test_names),
	cmocka_unit_test(test_each_predicate_is_true_of_its_states),
	cmocka_unit_test(test_the_engine_knows_how_far_a_connection_is),
	cmocka_unit_test(test_each_edge_can_be_taken_and_is_traced),
	cmocka_unit_test(test_an_illegal_edge_is_told_and_ends_a_process_with_assertions),
};

VMA_TEST_MAIN("sock_life", tests, NULL, NULL)
