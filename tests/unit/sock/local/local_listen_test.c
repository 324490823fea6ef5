/* SPDX-License-Identifier: BSD-2-Clause */
/* What a listener has of clients that ask for connections: bounded by them, and by what it accepts. */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/un.h>

#include "base/sys.h"
#include "base/unix_socket.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_sock.h"
#include "links_fixture.h"

static struct inet_sock *listener;
static struct segment memory;
static int client;	  /* its end of a link */
static uint32_t patience; /* of the next client, in milliseconds */

/* This thread is the internal one, too. */
static int setup(void **state)
{
	static local_handler *const handlers[LOCAL_KINDS] = {[LOCAL_CONNECT] = local_take_connect};

	(void)state;
	start_links(handlers);
	return segment_create(&memory, LOCAL_SEGMENT, LOCAL_SEGMENT_SIZE);
}

static int teardown(void **state)
{
	(void)state;
	segment_close(&memory);
	end_links();
	return 0;
}

static int open_all(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	listener = local_listener_open(fd, (struct sockaddr *)&at, sizeof(at), 0);
	assert_non_null(listener);
	return 0;
}

static int close_all(void **state)
{
	int fd = sock_twin(&listener->sk);

	(void)state;
	sock_close(sock_ref_of(listener));
	close(fd);
	local_links_readable();
	local_links_run(clock_now());
	assert_true(list_empty(&local.links));
	return 0;
}

static void send_to_us(struct local_message *message, const int *fds, unsigned n)
{
	struct iovec iov = {message, sizeof(*message)};

	assert_int_equal(unix_socket_send(client, &iov, 1, fds, n), 0);
	local_links_readable();
}

static void say_hello(void)
{
	struct local_message hello = {.kind = LOCAL_HELLO, .number = LOCAL_PROTOCOL, .value = {7}};
	int wakes = eventfd(0, EFD_NONBLOCK), fds[] = {-1, wakes, wakes};
	struct segment lanes;
	struct sockaddr_un un;
	socklen_t len =
		unix_socket_name(&un, "libvma-local-%016llx", (unsigned long long)local_name());

	assert_int_equal(segment_create(&lanes, LOCAL_LINK_SEGMENT,
					SEGMENT_HEADER + sizeof(struct link_shared)),
			 0);
	fds[0] = lanes.fd;
	client = unix_socket_connect(&un, len);
	assert_true(client >= 0);
	send_to_us(&hello, fds, LOCAL_HELLO_FDS);
	segment_close(&lanes);
	close(wakes);
}

/* The number of the listener in the directory. */
static uint32_t number_of_listener(void)
{
	struct local_place place = {.proto = LOCAL_TCP, .at = listener->local}, at;
	struct local_entry found[LOCAL_MEMBERS];
	unsigned n;

	assert_true(control_lock());
	n = local_dir_find(&place, &at, found);
	control_unlock();
	assert_int_equal(n, 1);
	return found[0].socket;
}

static void ask_for(uint32_t number)
{
	struct local_message message = {.kind = LOCAL_CONNECT,
					.number = number,
					.socket = number_of_listener(),
					.size = LOCAL_RING_MIN,
					.from = addr_v4(htonl(INADDR_LOOPBACK)),
					.to = addr_v4(htonl(INADDR_LOOPBACK)),
					.from_port = htons((uint16_t)(5000 + number)),
					.to_port = listener->local.port,
					.value = {0, 0, patience}};

	send_to_us(&message, &memory.fd, number == 0);
}

static uint64_t answer_to(uint32_t number)
{
	const struct local_shared *shared = (const void *)local_slot(&memory, number);

	return __atomic_load_n(&shared->answer, __ATOMIC_ACQUIRE);
}

static struct local_link *the_link(void)
{
	assert_false(list_empty(&local.links));
	return container_of(local.links.next, struct local_link, link);
}

/* The queue has room for one: the program has it, whether the client lives or not. */
static void test_those_that_wait_end_with_their_client(void **state)
{
	(void)state;
	say_hello();
	patience = 0;
	for (uint32_t i = 0; i < 4; i++)
		ask_for(i);
	assert_int_equal(listener->listen.waiting, 1);
	assert_int_equal(the_link()->used, 4);
	close(client);
	local_links_readable();
	assert_true(the_link()->dead);
	assert_int_equal(the_link()->used, 1);
	assert_int_equal(listener->listen.waiting, 1);
}

/* As long as each client says; one that does not say it waits. */
static void test_those_that_wait_are_told_when_it_is_too_long(void **state)
{
	nsec_t begin = clock_now();

	(void)state;
	say_hello();
	for (uint32_t i = 0; i < 4; i++) {
		patience = i == 3 ? 0 : 1000 * i;
		ask_for(i);
	}
	local_listeners_run(begin + NSEC_PER_SEC - 1);
	assert_int_equal(the_link()->used, 4);
	local_listeners_run(clock_now() + NSEC_PER_SEC);
	assert_int_equal(the_link()->used, 3);
	assert_int_equal(answer_to(0), LOCAL_ACCEPTED);
	assert_int_equal(answer_to(1), LOCAL_TIMED_OUT);
	assert_int_equal(answer_to(2), 0);
	local_listeners_run(clock_now() + 2 * NSEC_PER_SEC);
	assert_int_equal(answer_to(2), LOCAL_TIMED_OUT);
	local_listeners_run(clock_now() + 1000 * NSEC_PER_SEC);
	assert_int_equal(the_link()->used, 2);
	assert_int_equal(answer_to(3), 0);
	close(client);
}

static void test_a_number_that_cannot_be(void **state)
{
	struct local_message message = {
		.kind = LOCAL_CONNECT, .number = NOTICE_CONNS, .size = LOCAL_RING_MIN};
	int fds[LOCAL_FDS];

	(void)state;
	say_hello();
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		fds[i] = sys_fd_hide(fcntl(memory.fd, F_DUPFD_CLOEXEC, 0));
	local_lock();
	assert_false(local_take_connect(the_link(), &message, fds, LOCAL_FDS));
	local_unlock();
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		assert_int_equal(fds[i], -1); /* closed */
	close(client);
}

/* ---- rests ------------------------------------------------------------------------------- */

#define BRIEF_MAX 8
#define BRIEF_AGAIN 2

static bool is_registered(void)
{
	struct local_place at, place = {.proto = LOCAL_TCP, .at = listener->local};
	struct local_entry found[LOCAL_MEMBERS];
	bool is;

	assert_true(control_lock());
	is = local_dir_find(&place, &at, found) > 0;
	control_unlock();
	return is;
}

static void served(struct sock_ref ref, int n, nsec_t lived)
{
	assert_true(control_lock());
	while (n--)
		local_listen_served(ref, lived);
	control_unlock();
}

static void test_a_listener_whose_connections_end_soon_elsewhere_rests(void **state)
{
	struct sock_ref ref = sock_ref_of(listener);

	(void)state;
	served(ref, BRIEF_MAX - 1, 0);
	assert_true(is_registered());
	served(ref, 1, 0);
	assert_false(is_registered());
	local_listeners_run(clock_now());
	assert_false(is_registered());
	local_listeners_run(clock_now() + NSEC_PER_SEC);
	assert_true(is_registered());
	/* The next time it takes less, and it rests for longer. */
	served(ref, BRIEF_AGAIN - 1, 0);
	assert_true(is_registered());
	served(ref, 1, 0);
	local_listeners_run(clock_now() + NSEC_PER_SEC + NSEC_PER_MSEC);
	assert_false(is_registered());
	local_listeners_run(clock_now() + 2 * NSEC_PER_SEC);
	assert_true(is_registered());
}

static void test_a_listener_whose_connections_last_does_not_rest(void **state)
{
	struct sock_ref ref = sock_ref_of(listener), gone = ref;

	(void)state;
	gone.gen--;
	served(ref, 10 * BRIEF_MAX, NSEC_PER_SEC);
	served(gone, 10 * BRIEF_MAX, 0);
	assert_true(is_registered());
}

/* Who stops it meanwhile decides: it is not found after the rest. */
static void test_a_listener_that_stops_during_its_rest(void **state)
{
	(void)state;
	served(sock_ref_of(listener), BRIEF_MAX, 0);
	assert_true(control_lock());
	local_listen_stop(listener);
	control_unlock();
	local_listeners_run(clock_now() + NSEC_PER_SEC);
	assert_false(is_registered());
	assert_true(control_lock());
	assert_true(local_listen(listener));
	control_unlock();
	assert_true(is_registered());
}

static void test_a_listener_that_starts_again_during_its_rest(void **state)
{
	(void)state;
	served(sock_ref_of(listener), BRIEF_MAX, 0);
	assert_true(control_lock());
	local_listen_stop(listener);
	assert_true(local_listen(listener));
	control_unlock();
	assert_false(is_registered());
	local_listeners_run(clock_now() + NSEC_PER_SEC);
	assert_true(is_registered());
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

static const struct CMUnitTest tests[] = {
	CASE(test_those_that_wait_end_with_their_client),
	CASE(test_those_that_wait_are_told_when_it_is_too_long),
	CASE(test_a_number_that_cannot_be),
	CASE(test_a_listener_whose_connections_end_soon_elsewhere_rests),
	CASE(test_a_listener_whose_connections_last_does_not_rest),
	CASE(test_a_listener_that_stops_during_its_rest),
	CASE(test_a_listener_that_starts_again_during_its_rest),
};

VMA_TEST_MAIN("local_listen", tests, setup, teardown)
