/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that nobody has accepted, when the process that accepts cannot receive their frames: the
 * kernel gets them, and that process their sockets.  The other process is a channel, as in
 * share_sink_test.
 */
#include <linux/capability.h>
#include <sys/syscall.h>

#include "sock/share/exec_inherit.h"
#include "sock/share/share_internal.h"
#include "sock/share/transfer.h"
#include "sock/tcp/tcp_handed.h"
#include "tests/unit/sock/world.h"

static unsigned port;
static struct tsock listener, client;
static struct channel *end, *channel; /* the other process's, and ours */
static uint64_t id;		      /* of the listener */
static size_t bufs;

static void lend(void)
{
	struct exec_channel ch;

	assert_true(exec_inherit_lend(&ch));
	end = channel_create(ch.fd, ch.last_id);
	assert_non_null(end);
	channel = container_of(share_process.channels.prev, struct channel, link);
}

static int begin(void **state)
{
	if (!bufs)
		bufs = pkt_bufs_left();
	port = world_port();
	listener = world_listener(0, port, 4);
	id = tsock_inet(&listener)->id;
	lend();
	client = tsock_tcp();
	return 0;
}

static bool channels_have_ended(void)
{
	bool ended;

	WORLD_LOCKED(ended = list_empty(&share_process.channels));
	return ended;
}

static int finish(void **state)
{
	WORLD_LOCKED(channel = NULL); /* all reads of it come before its end */
	channel_destroy(end);
	assert_true(NET_WAIT(channels_have_ended(), WORLD_WAIT));
	assert_true(list_empty(&share_process.kept));
	if (client.fd >= 0)
		tsock_linger_none(&client);
	tsock_close(&client);
	tsock_close(&listener);
	assert_true(NET_WAIT(pkt_bufs_left() == bufs, WORLD_WAIT));
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

/* The other process sends it.  fd: consumed. */
static void act(enum message_kind kind, uint64_t flags, int fd)
{
	struct message message = {.kind = kind, .id = id, .flags = flags};
	bool goes_on;

	WORLD_LOCKED(goes_on = share_act(channel, &message, fd));
	assert_true(goes_on);
}

/* The next message to the other process.  Its descriptor, or -1. */
static int expect_with(enum message_kind kind)
{
	struct message message;
	int fd, rc;

	while ((rc = channel_receive(end, &message, &fd)) == 1 && message.kind == MESSAGE_LATE)
		sys_close_fd(&fd);
	assert_int_equal(rc, 1);
	assert_int_equal(message.kind, kind);
	assert_int_equal(message.id, id);
	return fd;
}

static void expect(enum message_kind kind)
{
	assert_int_equal(expect_with(kind), -1);
}

static void expect_nothing(void)
{
	struct message message;
	int fd, rc;

	while ((rc = channel_receive(end, &message, &fd)) == 1 && message.kind == MESSAGE_LATE)
		sys_close_fd(&fd);
	assert_int_equal(rc, 0);
}

static bool waits(unsigned n)
{
	world_settle();
	return __atomic_load_n(&tsock_inet(&listener)->listen.waiting, __ATOMIC_RELAXED) == n;
}

/* A client has sent a request, and nobody accepts it. */
static void call(void)
{
	assert_int_equal(tsock_bind(&client, fake_link_addr(1), 0), 0);
	world_connect(&client, 0, port);
	assert_true(NET_WAIT(sock_events(client.ref.sk) & EPOLLOUT, WORLD_WAIT));
	assert_int_equal(tsock_send(&client, "request", 7, 0), 7);
	assert_true(NET_WAIT(waits(1), WORLD_WAIT));
}

static bool is_exported(void)
{
	return sock_is_exported(listener.ref.sk);
}

/* The other process receives for the listener.  The connection that waits goes there: its bytes. */
static int withdraw(void)
{
	int bytes;

	WORLD_LOCKED({
		channel_note_request(channel, id, -1);
		(void)share_serve_requests(channel);
	});
	expect(MESSAGE_JOIN);
	act(MESSAGE_JOIN, 0, -1);
	expect(MESSAGE_OFFER);
	act(MESSAGE_JOIN, MESSAGE_FLAG_ANSWER, -1);
	bytes = expect_with(MESSAGE_PENDING);
	assert_true(bytes >= 0);
	assert_true(NET_WAIT(is_exported(), WORLD_WAIT));
	return bytes;
}

static bool client_is_reset(void)
{
	char c;

	return tsock_recv(&client, &c, 1, 0) == -ECONNRESET;
}

/* It comes back; what it was sent as is not kept any more. */
static void come_back(int bytes)
{
	act(MESSAGE_PENDING, MESSAGE_FLAG_BACK, bytes);
}

/*
 * The kernel's socket comes: it has the connection, and what nobody has read.  The kernel does not
 * reach the client, which may be noticed already.
 */
static int expect_socket(void)
{
	struct sockaddr_in name;
	socklen_t len = sizeof(name);
	char text[16];
	int fd = expect_with(MESSAGE_PENDING);

	assert_true(tcp_handed_is(fd));
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	assert_int_equal(name.sin_addr.s_addr, fake_link_addr(0));
	assert_int_equal(ntohs(name.sin_port), port);
	assert_int_equal(recv(fd, text, sizeof(text), MSG_PEEK | MSG_DONTWAIT), 7);
	assert_memory_equal(text, "request", 7);
	expect(MESSAGE_RECEIVED);
	expect_nothing();
	return fd;
}

/* ---- at the process that has received ----------------------------------------------------- */

static void test_what_cannot_be_received_goes_to_the_kernel(void **state)
{
	call();
	come_back(withdraw());
	sys_close_fd(&(int){expect_socket()});
	assert_int_equal(channel->pending, 2); /* the bytes, and the socket */
	act(MESSAGE_RECEIVED, 0, -1);
	act(MESSAGE_RECEIVED, 0, -1);
	assert_int_equal(channel->pending, 0);
	assert_true(is_exported()); /* it has not joined again */
}

static void test_also_if_the_program_has_closed_the_listener(void **state)
{
	int bytes;

	call();
	bytes = withdraw();
	tsock_close(&listener);
	expect(MESSAGE_CLOSED);
	come_back(bytes);
	sys_close_fd(&(int){expect_socket()});
}

static void set_capabilities(uint64_t value)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective = (uint32_t)value & data[0].permitted;
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void test_what_the_kernel_does_not_take_is_reset(void **state)
{
	call();
	set_capabilities(~(UINT64_C(1) << CAP_NET_ADMIN));
	come_back(withdraw());
	set_capabilities(~UINT64_C(0));
	expect(MESSAGE_RECEIVED);
	expect_nothing();
	assert_true(NET_WAIT(client_is_reset(), WORLD_WAIT));
}

/* The other process ends, and the program has closed the listener. */
static void test_what_nobody_will_accept_is_reset(void **state)
{
	call();
	sys_close_fd(&(int){withdraw()});
	tsock_close(&listener);
	channel_destroy(end);
	lend();
	assert_true(NET_WAIT(client_is_reset(), WORLD_WAIT));
}

/* The other process has closed the listener, too. */
static void test_what_nobody_knows_comes_to_an_end(void **state)
{
	struct message message = {.kind = MESSAGE_PENDING};
	int fd, hops = 0, rc;

	call();
	fd = withdraw();
	tsock_close(&listener);
	expect(MESSAGE_CLOSED);
	while (!tcp_handed_is(fd)) {
		bool back = message.flags == MESSAGE_HOPS_MAX;

		assert_true(hops++ <= MESSAGE_HOPS_MAX);
		act(MESSAGE_PENDING, back ? MESSAGE_FLAG_BACK : message.flags + 1, fd);
		do
			rc = channel_receive(end, &message, &fd);
		while (rc == 1 && message.kind != MESSAGE_PENDING);
		assert_int_equal(rc, 1);
	}
	sys_close_fd(&fd);
}

static void test_the_other_process_cannot_change_what_it_sends_back(void **state)
{
	int bytes;

	call();
	bytes = withdraw();
	assert_int_equal(write(bytes, "x", 1), -1);
	assert_int_equal(ftruncate(bytes, 1), -1);
	come_back(bytes);
	sys_close_fd(&(int){expect_socket()});
}

/* Bytes of a connection of its choice, though they look like those of a process. */
static void test_what_was_not_sent_does_not_come_back(void **state)
{
	char copy[64];
	int bytes, other = transfer_frames();

	call();
	bytes = withdraw();
	assert_int_equal(pread(bytes, copy, sizeof(copy), 0), sizeof(copy));
	assert_int_equal(write(other, copy, sizeof(copy)), sizeof(copy));
	come_back(other);
	expect(MESSAGE_RECEIVED);
	expect_nothing();
	act(MESSAGE_RECEIVED, 0, -1); /* nothing is sent there now */
	come_back(sys_fd_copy(bytes));
	expect(MESSAGE_RECEIVED);
	expect_nothing();
	sys_close_fd(&bytes);
}

/* ---- at the process that accepts ---------------------------------------------------------- */

/* It joins, and what it is sent goes back: the flags of that message. */
static uint64_t take_in_vain(int bytes)
{
	struct message message;
	int fd;

	act(MESSAGE_PENDING, 0, bytes);
	expect(MESSAGE_JOIN);
	assert_int_equal(channel_receive(end, &message, &fd), 1);
	assert_int_equal(message.kind, MESSAGE_PENDING);
	assert_true(fd >= 0);
	sys_close_fd(&fd);
	expect(MESSAGE_RECEIVED);
	expect_nothing();
	return message.flags;
}

static void test_a_process_that_may_not_receive_sends_back(void **state)
{
	int bytes;

	call();
	bytes = withdraw();
	act(MESSAGE_RECEIVED, 0, -1);
	loop_port_fail_takes(1);
	assert_int_equal(take_in_vain(bytes), MESSAGE_FLAG_BACK);
}

static void test_what_may_be_possible_later_is_forwarded(void **state)
{
	int bytes;

	call();
	bytes = withdraw();
	act(MESSAGE_RECEIVED, 0, -1);
	loop_port_fail_moves(1);
	assert_int_equal(take_in_vain(bytes), 1);
}

/* A connection that the kernel has accepted at the listener's port: its socket, and its peer. */
static int kernel_pair(int *peer)
{
	struct sockaddr_in to = world_addr(0, port);
	int fd = -1;

	*peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(*peer, (struct sockaddr *)&to, sizeof(to)), 0);
	NET_WAIT((fd = sys_accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0,
		 WORLD_WAIT);
	assert_true(fd >= 0);
	return sys_fd_hide(fd);
}

static bool has_events(uint32_t events)
{
	return (sock_events(listener.ref.sk) & (EPOLLIN | EPOLLRDNORM)) == events;
}

static void test_sockets_of_the_kernel_are_accepted_in_order(void **state)
{
	struct tsock child = TSOCK_NONE;
	struct sockaddr_in from, name;
	socklen_t len = sizeof(name);
	int peers[2], fd;

	for (unsigned i = 0; i < 2; i++) {
		act(MESSAGE_PENDING, 0, kernel_pair(&peers[i]));
		expect(MESSAGE_RECEIVED);
	}
	assert_true(has_events(EPOLLIN | EPOLLRDNORM));
	for (unsigned i = 0; i < 2; i++) {
		len = sizeof(from);
		fd = sock_ops_of(listener.ref.sk)
			     ->accept(listener.ref, (struct sockaddr *)&from, &len,
				      i ? SOCK_NONBLOCK | SOCK_CLOEXEC : 0, &child.ref);
		assert_true(fd >= 0 && fd < 512);
		assert_null(child.ref.sk); /* the kernel's alone */
		len = sizeof(name);
		assert_int_equal(getsockname(peers[i], (struct sockaddr *)&name, &len), 0);
		assert_memory_equal(&from, &name, sizeof(name));
		assert_int_equal(fcntl(fd, F_GETFD) == FD_CLOEXEC, i);
		assert_int_equal((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0, i);
		assert_int_equal(send(peers[i], "hello", 5, 0), 5);
		assert_true(world_readable(fd, WORLD_WAIT));
		close(fd);
		close(peers[i]);
	}
	assert_true(has_events(0));
	assert_int_equal(tsock_inet(&listener)->listen.waiting, 0);
	assert_int_equal(tsock_accept(&listener, &child, NULL), -EAGAIN);
}

static bool peer_is_reset(int peer)
{
	char c;

	return recv(peer, &c, 1, MSG_DONTWAIT) < 0 && errno == ECONNRESET;
}

static void test_those_of_a_listener_that_ends_are_reset(void **state)
{
	int peer;

	act(MESSAGE_PENDING, 0, kernel_pair(&peer));
	expect(MESSAGE_RECEIVED);
	tsock_close(&listener);
	listener = TSOCK_NONE;
	act(MESSAGE_CLOSED, 0, -1);
	assert_true(NET_WAIT(peer_is_reset(peer), WORLD_WAIT));
	close(peer);
}

static void test_a_member_that_withdraws_sends_sockets_on(void **state)
{
	int peer, fd;

	act(MESSAGE_PENDING, 0, kernel_pair(&peer));
	expect(MESSAGE_RECEIVED);
	fd = withdraw();
	assert_true(tcp_handed_is(fd));
	assert_int_equal(tsock_inet(&listener)->listen.waiting, 0);
	sys_close_fd(&fd);
	act(MESSAGE_RECEIVED, 0, -1);
	assert_int_equal(recv(peer, &(char){0}, 1, 0), 0); /* nobody has it any more */
	close(peer);
}

static void test_sockets_of_other_ports_are_refused(void **state)
{
	unsigned other_port = world_port();
	struct sockaddr_in to = world_addr(0, other_port);
	int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), peer, fd;

	assert_int_equal(bind(other, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(listen(other, 1), 0);
	peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(peer, (struct sockaddr *)&to, sizeof(to)), 0);
	fd = accept(other, NULL, NULL);
	assert_true(fd >= 0);
	act(MESSAGE_PENDING, 0, sys_fd_hide(fd));
	expect(MESSAGE_RECEIVED);
	act(MESSAGE_PENDING, 0, sys_fd_hide(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
	expect(MESSAGE_RECEIVED);
	expect_nothing();
	assert_true(has_events(0));
	close(peer);
	close(other);
}

static const struct CMUnitTest tests[] = {
	CASE(test_what_cannot_be_received_goes_to_the_kernel),
	CASE(test_also_if_the_program_has_closed_the_listener),
	CASE(test_what_the_kernel_does_not_take_is_reset),
	CASE(test_what_nobody_will_accept_is_reset),
	CASE(test_what_nobody_knows_comes_to_an_end),
	CASE(test_the_other_process_cannot_change_what_it_sends_back),
	CASE(test_what_was_not_sent_does_not_come_back),
	CASE(test_a_process_that_may_not_receive_sends_back),
	CASE(test_what_may_be_possible_later_is_forwarded),
	CASE(test_sockets_of_the_kernel_are_accepted_in_order),
	CASE(test_those_of_a_listener_that_ends_are_reset),
	CASE(test_a_member_that_withdraws_sends_sockets_on),
	CASE(test_sockets_of_other_ports_are_refused),
};

VMA_TEST_MAIN("sock/share/share_receivers", tests, world_start, world_finish)
