/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connect(2) of local connections, to a listener of this process whose answers are in the test's hands;
 * this thread is the internal one, too.  Calls to route_get() are the test's own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/param.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "net/netlink/netlink.h"
#include "sock/core/host_state.h"
#include "sock/core/sock_options.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_sock.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/wait.h"
#include "links_fixture.h"

#define LISTENER 7 /* its number in the directory */

int __wrap_route_get(const struct route_query *query, struct route *route);

static struct route the_route;
static struct route_query asked_for;
static int route_rc;

int __wrap_route_get(const struct route_query *query, struct route *route)
{
	asked_for = *query;
	*route = the_route;
	return route_rc;
}

static struct local_message asked;
static unsigned n_asked, n_fds;

static bool take_connect(struct local_link *link, const struct local_message *m, int *fds,
			 unsigned n)
{
	asked = *m;
	n_asked++;
	n_fds += n;
	unix_socket_close_fds(fds, n);
	return true;
}

static void left(struct sock *sk)
{
}

static int setup(void **state)
{
	static local_handler *const handlers[LOCAL_KINDS] = {[LOCAL_CONNECT] = take_connect};

	start_links(handlers);
	sock_hooks.left = left;
	assert_true(control_lock());
	assert_int_equal(host_state_open(), 0); /* of the choice of ports */
	control_unlock();
	return 0;
}

static int teardown(void **state)
{
	end_links();
	return 0;
}

static struct inet_sock *so;
static struct endpoint to;
static struct local_place listening;

static struct inet_sock *new_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sock_ref ref = sock_create(fd, AF_INET, SOCK_STREAM, 0, true);

	assert_non_null(ref.sk);
	return inet_of(ref.sk);
}

static void close_socket(struct inet_sock *sock)
{
	int fd = sock_twin(&sock->sk);

	sock_close(sock_ref_of(sock));
	close(fd);
}

static void list(uint64_t process, bool is)
{
	struct local_entry entry = {.process = process, .socket = LISTENER};

	assert_true(control_lock());
	if (is)
		assert_int_equal(local_dir_add(&listening, &entry), 0);
	else
		local_dir_remove(&listening, &entry);
	control_unlock();
}

static int begin(void **state)
{
	static uint16_t port = 20000;

	to = (struct endpoint){.addr = addr_v4(HERE), .port = htons(port++)};
	listening = (struct local_place){.proto = LOCAL_TCP, .at = to};
	the_route = (struct route){.type = ROUTE_LOCAL, .src = addr_v4(HERE)};
	route_rc = 0;
	n_asked = n_fds = 0;
	list(local_name(), true);
	so = new_socket();
	return 0;
}

/* Nothing is left: no number of the link, and no memory. */
static int finish(void **state)
{
	list(local_name(), false);
	close_socket(so);
	settle();
	list_for_each(at, &local.links)
		assert_int_equal(container_of(at, struct local_link, link)->used, 0);
	assert_true(local_memory_take((uint64_t)params.local_mem << 20));
	local_memory_give((uint64_t)params.local_mem << 20);
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

static int connect_to(struct inet_sock *sock, struct endpoint there)
{
	int rc;

	assert_true(control_lock());
	rc = local_connect(sock, &there);
	control_unlock();
	settle();
	return rc;
}

static void expect_unconnected(void)
{
	assert_int_equal(so->inet, INET_TCP);
	assert_true(sock_life_is(so, LIFE_OPEN));
	assert_int_equal(so->shm.memory * (so->inet == INET_LOCAL), 0);
	assert_int_equal(n_asked, 0);
}

/* The responder's answer. */
static void answer(uint64_t with)
{
	struct local_shared *shared;

	assert_true(ring_hold_cold(local_ring()));
	shared = (void *)local_slot(so->shm.end.link->chunks[so->shm.end.number / LOCAL_CHUNK],
				    so->shm.end.number);
	/* release: as the responder stores it */
	__atomic_store_n(&shared->answer, with, __ATOMIC_RELEASE);
	so->shm.end.ops->notice(&so->shm.end);
	ring_release_cold(local_ring());
}

static int wait_for_it(int dontwait)
{
	struct sock_ref ref = sock_ref_of(so);
	struct sock_call call = SOCK_CALL(ref, 0, EPOLLOUT);

	call.dontwait = dontwait;
	return local_connect_wait(ref, &call);
}

/* ---- the usual way ------------------------------------------------------------------------ */

static void test_a_listener_is_asked(void **state)
{
	assert_int_equal(connect_to(so, to), 0);
	assert_int_equal(so->inet, INET_LOCAL);
	assert_int_equal(so->verdict, VERDICT_LOCAL);
	assert_ptr_equal(sock_home(so), local_ring());
	assert_true(local_is_one(so));
	assert_int_equal(n_asked, 1);
	assert_int_equal(asked.socket, LISTENER);
	assert_int_equal(asked.size, LOCAL_RING_MAX);
	assert_int_equal(addr_v4_of(&asked.from), HERE);
	assert_int_equal(addr_v4_of(&asked.to), HERE);
	assert_int_equal(asked.from_port, so->local.port);
	assert_int_equal(asked.to_port, to.port);
	assert_true(local_value(asked.value) == so->shm.token && so->shm.token);
	assert_int_equal(asked.number, so->shm.end.number);
	assert_true(so->local.port);
	assert_int_equal(so->shm.memory, 2 * LOCAL_RING_MAX);
	assert_int_equal(wait_for_it(SOCK_NONBLOCKING), -EINPROGRESS);
	answer(LOCAL_ACCEPTED);
	assert_false(so->shm.reported);
	assert_int_equal(wait_for_it(0), 0);
	assert_true(so->shm.reported);
}

static void test_the_memory_is_sent_once(void **state)
{
	struct inet_sock *other = new_socket();
	unsigned before;

	assert_int_equal(connect_to(so, to), 0);
	before = n_fds; /* an earlier case may have sent it */
	assert_int_equal(connect_to(other, to), 0);
	assert_int_equal(n_asked, 2);
	assert_int_equal(n_fds, before);
	close_socket(other);
}

static void test_a_bound_address_is_the_source(void **state)
{
	assert_true(control_lock());
	so->bound = so->bound_addr = true;
	so->local = (struct endpoint){.addr = addr_v4(htonl(INADDR_LOOPBACK + 1))};
	control_unlock();
	assert_int_equal(connect_to(so, to), 0);
	assert_int_equal(addr_v4_of(&asked_for.src), htonl(INADDR_LOOPBACK + 1));
	assert_int_equal(addr_v4_of(&asked.from), htonl(INADDR_LOOPBACK + 1));
}

/* ---- refusals ----------------------------------------------------------------------------- */

static void test_a_socket_that_nobody_answers_can_connect_again(void **state)
{
	assert_int_equal(connect_to(so, to), 0);
	answer(LOCAL_TIMED_OUT);
	assert_int_equal(wait_for_it(0), -ETIMEDOUT);
	n_asked = 0;
	expect_unconnected();
	assert_true(addr_is_any(&so->local.addr));
	assert_int_equal(connect_to(so, to), 0);
	assert_int_equal(n_asked, 1);
	answer(LOCAL_ACCEPTED);
	assert_int_equal(wait_for_it(0), 0);
}

/* A listener of the kernel, at a port that is free in the host; that of the directory is there, too. */
static int listen_there(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = HERE};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	list(local_name(), false);
	to.port = listening.at.port = at.sin_port;
	list(local_name(), true);
	return fd;
}

/* Another process may have the listener of one that has ended, or has closed its own descriptor. */
static void test_the_kernel_connects_a_refused_socket(void **state)
{
	struct sock_ref ref = sock_ref_of(so);
	int fd = sock_twin(&so->sk), listener = listen_there(), other, error = -1;
	struct sock_call call = SOCK_CALL(ref, 0, EPOLLOUT);
	struct sockaddr_in from;
	socklen_t len = sizeof(error);
	uint16_t port;

	assert_int_equal(connect_to(so, to), 0);
	port = so->local.port;
	answer(LOCAL_REFUSED);
	assert_int_equal(sock_own_events(so), 0);
	assert_false(local_connects_run());
	assert_false(sock_ref_valid(ref));
	call.dontwait = 0;
	assert_int_equal(local_connect_wait(ref, &call), SOCK_KERNEL);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	assert_int_equal(error, 0);
	len = sizeof(from);
	other = accept(listener, (struct sockaddr *)&from, &len);
	assert_true(other >= 0);
	assert_int_equal(from.sin_port, port);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	close(other);
	close(listener);
	close(fd);
	so = new_socket();
}

static void test_an_error_of_the_kernel_is_that_of_the_connection(void **state)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(connect_to(so, to), 0);
	assert_int_equal(dup2(fd, sock_twin(&so->sk)), sock_twin(&so->sk));
	answer(LOCAL_REFUSED);
	assert_false(local_connects_run());
	assert_int_equal(wait_for_it(0), -ENOTSOCK);
	close(fd);
}

static void test_a_socket_that_is_no_local_one_any_more_is_aborted(void **state)
{
	assert_int_equal(connect_to(so, to), 0);
	assert_true(control_lock());
	assert_true(ring_hold_cold(local_ring()));
	local_disconnect(so, true);
	assert_int_equal(so->tcp.error, ECONNRESET);
	ring_release_cold(local_ring());
	control_unlock();
	assert_int_equal(wait_for_it(0), -ECONNABORTED);
	n_asked = 0;
	expect_unconnected();
}

static void test_what_the_kernel_alone_can_do_is_left_to_it(void **state)
{
	struct endpoint any = {.addr = addr_v4_any(), .port = to.port}, other = to;

	assert_int_equal(connect_to(so, any), SOCK_KERNEL);
	other.port ^= htons(0x100);
	assert_int_equal(connect_to(so, other), SOCK_KERNEL); /* nobody listens there */
	the_route.type = ROUTE_UNICAST;
	assert_int_equal(connect_to(so, to), SOCK_KERNEL);
	the_route.type = ROUTE_LOCAL;
	the_route.src = addr_v4_any();
	assert_int_equal(connect_to(so, to), SOCK_KERNEL);
	the_route.src = addr_v4(HERE);
	route_rc = -ENETUNREACH;
	assert_int_equal(connect_to(so, to), SOCK_KERNEL);
	route_rc = 0;
	expect_unconnected();
	assert_int_equal(so->local.port, 0); /* no port was taken for that */
	so->bound = so->bound_addr = true;
	so->local = to; /* to itself */
	assert_int_equal(connect_to(so, to), SOCK_KERNEL);
	expect_unconnected();
}

static void test_a_second_connection_between_two_endpoints_is_refused(void **state)
{
	struct inet_sock *other = new_socket();

	assert_int_equal(connect_to(so, to), 0);
	other->bound = other->bound_addr = true;
	other->local = so->local;
	assert_int_equal(connect_to(other, to), -EADDRNOTAVAIL);
	assert_int_equal(other->inet, INET_TCP);
	other->local.port ^= htons(1);
	assert_int_equal(connect_to(other, to), 0);
	close_socket(other);
}

static void test_a_process_that_has_ended_leaves_the_directory(void **state)
{
	struct local_entry found[LOCAL_MEMBERS];
	struct local_place at;
	unsigned n;

	list(local_name(), false);
	list(local_name() ^ 1, true);
	assert_int_equal(connect_to(so, to), SOCK_KERNEL);
	assert_true(control_lock());
	n = local_dir_find(&listening, &at, found);
	control_unlock();
	assert_int_equal(n, 0);
	assert_int_equal(so->inet, INET_TCP);
	/* Another one that has the same listener is asked. */
	list(local_name() ^ 1, true);
	list(local_name(), true);
	assert_int_equal(connect_to(so, to), 0);
	list(local_name() ^ 1, false);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void test_rings_are_smaller_where_memory_runs_low(void **state)
{
	static const struct {
		uint64_t left;
		uint32_t capacity; /* 0: the kernel connects */
	} rows[] = {
		{128ull * LOCAL_RING_MAX, LOCAL_RING_MAX},
		{128ull * LOCAL_RING_MAX - 1, LOCAL_RING_MAX / 2},
		{128ull * LOCAL_RING_MIN, LOCAL_RING_MIN},
		{2ull * LOCAL_RING_MIN, LOCAL_RING_MIN},
		{2ull * LOCAL_RING_MIN - 1, 0},
		{0, 0},
	};
	uint64_t limit = (uint64_t)params.local_mem << 20;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct inet_sock *other = new_socket();

		assert_true(local_memory_take(limit - rows[i].left));
		assert_int_equal(connect_to(other, to), rows[i].capacity ? 0 : SOCK_KERNEL);
		if (rows[i].capacity) {
			assert_int_equal(asked.size, rows[i].capacity);
			assert_true(local_memory_take(rows[i].left - 2 * rows[i].capacity));
			assert_false(local_memory_take(1));
			local_memory_give(rows[i].left - 2 * rows[i].capacity);
		}
		close_socket(other);
		local_memory_give(limit - rows[i].left);
	}
}

static const struct CMUnitTest tests[] = {
	CASE(test_a_listener_is_asked),
	CASE(test_the_memory_is_sent_once),
	CASE(test_a_bound_address_is_the_source),
	CASE(test_a_socket_that_nobody_answers_can_connect_again),
	CASE(test_an_error_of_the_kernel_is_that_of_the_connection),
	CASE(test_the_kernel_connects_a_refused_socket),
	CASE(test_a_socket_that_is_no_local_one_any_more_is_aborted),
	CASE(test_what_the_kernel_alone_can_do_is_left_to_it),
	CASE(test_a_second_connection_between_two_endpoints_is_refused),
	CASE(test_a_process_that_has_ended_leaves_the_directory),
	CASE(test_rings_are_smaller_where_memory_runs_low),
};

VMA_TEST_MAIN("sock/local/local_connect", tests, setup, teardown)
