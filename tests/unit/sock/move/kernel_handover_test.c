/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel takes over sockets.  If it takes both ends of a connection, they go on over the
 * loopback interface, which has the addresses of the invented network: so its state is complete.
 */
#include "sock/move/kernel_handover.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/move/kernel_errors.h"
#include "tests/unit/sock/world.h"

#define LOTS 200000 /* bytes, more than a buffer of the kernel has by default */
#define MOST (8 << 20)

static struct tsock listener, client, child;
static unsigned port;
static char out[MOST], in[MOST];

/*
 * Segments for a connection that the kernel does not know yet find the listener's twin, which would
 * answer them with a reset.
 */
static void silence(int fd)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {.len = 1, .filter = &drop};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)),
			 0);
}

static int connected(void **state)
{
	port = world_port();
	listener = world_listener(0, port, 4);
	silence(listener.fd);
	world_pair(&listener, port, &client, &child);
	for (unsigned i = 0; i < MOST; i++)
		out[i] = (char)(i * 7 + i / 251);
	return 0;
}

static int end(void **state)
{
	loop_port_lose(NULL);
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
	return 0;
}

static int hand_over(struct tsock *ts)
{
	int rc;

	WORLD_LOCKED(rc = kernel_handover(tsock_inet(ts), VERDICT_FORKED));
	return rc;
}

/* Reads so much from the kernel's socket and compares. */
static void read_all(int fd, size_t offset, size_t len)
{
	size_t n = 0;

	while (n < len) {
		ssize_t one;

		assert_true(world_readable(fd, WORLD_WAIT));
		one = recv(fd, in + n, len - n, MSG_DONTWAIT);
		if (one <= 0)
			fail_msg("%zu of %zu bytes: %s", n, len, one ? strerror(errno) : "the end");
		n += (size_t)one;
	}
	assert_memory_equal(in, out + offset, len);
	assert_int_equal(recv(fd, in, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static bool lose_all(const struct pkt *pkt)
{
	return true;
}

/* ---- connections ----------------------------------------------------------------------- */

static void test_both_ends_go_on_in_the_kernel(void **state)
{
	int a = client.fd, b = child.fd;

	assert_int_equal(hand_over(&client), 0);
	assert_int_equal(hand_over(&child), 0);
	assert_int_equal(send(a, out, 1000, 0), 1000);
	read_all(b, 0, 1000);
	assert_int_equal(send(b, out, 500, 0), 500);
	read_all(a, 0, 500);
	assert_int_equal(shutdown(a, SHUT_WR), 0);
	assert_true(world_readable(b, WORLD_WAIT));
	assert_int_equal(recv(b, in, 1, 0), 0);
}

/* Unread bytes are in the one twin, and those that were never acknowledged in the other. */
static void test_what_is_unread_or_unacknowledged_goes_along(void **state)
{
	int a = client.fd, b = child.fd;

	assert_int_equal(tsock_send(&client, out, 1000, 0), 1000);
	assert_true(NET_WAIT(sock_events(child.ref.sk) & EPOLLIN, WORLD_WAIT));
	world_settle();
	loop_port_lose(lose_all);
	assert_int_equal(tsock_send(&client, out + 1000, 500, 0), 500); /* lost on the way */
	assert_int_equal(hand_over(&client), 0);
	assert_int_equal(hand_over(&child), 0);
	read_all(b, 0, 1500);
	assert_int_equal(send(a, out + 1500, 10, 0), 10);
	read_all(b, 1500, 10);
}

/* The kernel goes on with the numbers of MSG_ZEROCOPY, behind the completions that nobody has read. */
static void test_completions_go_along(void **state)
{
	struct msghdr msg = {0};
	int a = client.fd, b = child.fd;

	assert_int_equal(tsock_set_int(&client, SOL_SOCKET, SO_ZEROCOPY, 1), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(tsock_send(&client, out + i, 1, MSG_ZEROCOPY), 1);
	assert_int_equal(sock_ops_of(client.ref.sk)->recv(client.ref, &msg, MSG_ERRQUEUE), 0);
	for (unsigned i = 3; i < 5; i++)
		assert_int_equal(tsock_send(&client, out + i, 1, MSG_ZEROCOPY), 1);
	assert_int_equal(hand_over(&client), 0);
	assert_int_equal(hand_over(&child), 0);
	read_all(b, 0, 5);
	kernel_errors_have(a, 3, 4);
	kernel_errors_are_read(a);
	assert_int_equal(send(a, out + 5, 1, MSG_ZEROCOPY), 1);
	read_all(b, 5, 1);
	kernel_errors_have(a, 5, 5);
	assert_int_equal(send(b, out, 10, 0), 10);
	read_all(a, 0, 10);
}

/* More than the kernel's buffers have by default, in both directions. */
static void test_a_lot_goes_along(void **state)
{
	int b = child.fd;
	size_t sent = 0;
	ssize_t n;

	assert_int_equal(tsock_set_int(&child, SOL_SOCKET, SO_RCVBUF, 2 * LOTS), 0);
	assert_int_equal(tsock_set_int(&client, SOL_SOCKET, SO_SNDBUF, 2 * LOTS), 0);
	while (sent < LOTS && (n = tsock_send(&client, out + sent, LOTS - sent, 0)) > 0) {
		sent += (size_t)n;
		world_settle();
	}
	assert_true(sent > LOTS / 2);
	assert_int_equal(hand_over(&client), 0);
	assert_int_equal(hand_over(&child), 0);
	read_all(b, 0, sent);
}

/*
 * What a connection takes by default, of which the peer gets nothing, as long as frames are lost. Returns the number
 * of bytes.
 */
static size_t fill(void)
{
	size_t sent = 0;
	ssize_t n;

	loop_port_lose(lose_all);
	while (sent < MOST && (n = tsock_send(&client, out + sent, MOST - sent, 0)) > 0)
		sent += (size_t)n;
	return sent;
}

static size_t largest_buffer(void)
{
	FILE *f = fopen("/proc/sys/net/core/wmem_max", "re");
	size_t most = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%zu", &most), 1);
	fclose(f);
	return most;
}

/*
 * The kernel's buffer grows, as far as a process may let it that has no privilege on the host.
 * If that is not enough the connection goes on here.  No byte is lost.
 */
static void test_all_that_was_not_sent_goes_along_or_stays(void **state)
{
	size_t sent = fill(), n = 0;
	int b = child.fd;

	assert_in_range(sent, LOTS, MOST - 1);
	/* Frames stay lost: the port resets an acknowledgement for a connection that has left it. */
	if (sent <= largest_buffer()) {
		assert_int_equal(hand_over(&client), 0);
		assert_int_equal(hand_over(&child), 0);
		read_all(b, 0, sent);
		return;
	}
	assert_int_equal(hand_over(&client), -ENOBUFS);
	loop_port_lose(NULL);
	while (n < sent) {
		ssize_t one = world_recv(&child, in + n, sent - n);

		assert_true(one > 0);
		n += (size_t)one;
	}
	assert_memory_equal(in, out, sent);
}

static void test_an_end_that_was_sent_or_read_stays(void **state)
{
	int a = client.fd, b = child.fd;

	assert_int_equal(tsock_send(&child, out, 10, 0), 10);
	assert_int_equal(tsock_shutdown(&child, SHUT_WR), 0);
	assert_true(NET_WAIT(sock_events(client.ref.sk) & EPOLLRDHUP, WORLD_WAIT));
	assert_int_equal(hand_over(&client), 0);
	assert_int_equal(hand_over(&child), 0);
	assert_int_equal(recv(a, in, LOTS, MSG_DONTWAIT), 10);
	assert_int_equal(recv(a, in, LOTS, MSG_DONTWAIT), 0);
	assert_int_equal(send(b, out, 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(send(a, out, 20, 0), 20);
	read_all(b, 0, 20);
}

/* Its handshake is not complete: the kernel begins anew. */
static void test_a_connection_that_is_being_made_begins_anew(void **state)
{
	struct tsock early = tsock_tcp();
	int fd = early.fd;

	loop_port_lose(lose_all);
	world_connect(&early, 2, port); /* no listener is there */
	assert_int_equal(hand_over(&early), 0);
	assert_true(
		NET_WAIT(recv(fd, in, 1, MSG_DONTWAIT) < 0 && errno == ECONNREFUSED, WORLD_WAIT));
	tsock_close(&early);
}

static void test_a_connection_that_has_ended_leaves_an_unconnected_socket(void **state)
{
	int fd = client.fd;

	tsock_linger_none(&child);
	tsock_close(&child);
	assert_true(NET_WAIT(tsock_recv(&client, in, 1, 0) == -ECONNRESET, WORLD_WAIT));
	assert_int_equal(hand_over(&client), 0);
	assert_int_equal(send(fd, out, 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
}

/* Without CAP_NET_ADMIN: -EPERM, and the connection goes on here as before. */
static void test_a_connection_that_cannot_be_taken_is_unchanged(void **state)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3],
		none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	assert_int_equal(tsock_send(&client, "before", 6, 0), 6);
	assert_int_equal(syscall(SYS_capget, &header, has), 0);
	none[0].permitted = has[0].permitted;
	none[1].permitted = has[1].permitted;
	assert_int_equal(syscall(SYS_capset, &header, none), 0);
	assert_int_equal(hand_over(&client), -EPERM);
	assert_int_equal(syscall(SYS_capset, &header, has), 0);
	assert_true(sock_ref_valid(client.ref));
	assert_int_equal(tsock_send(&client, " after", 6, 0), 6);
	assert_true(NET_WAIT(tsock_recv(&child, in, 12, MSG_PEEK) == 12, WORLD_WAIT));
	world_expect(&child, "before after");
}

/* ---- datagrams --------------------------------------------------------------------------- */

static struct tsock udp, from;
static unsigned theirs;

static int datagrams(void **state)
{
	port = world_port();
	theirs = world_port();
	udp = world_udp(0, port);
	from = world_udp(1, theirs);
	world_connect(&udp, 1, theirs);
	return 0;
}

static int end_datagrams(void **state)
{
	tsock_close(&udp);
	tsock_close(&from);
	return 0;
}

static bool queued(unsigned n)
{
	struct ring *ring;
	bool all;

	if (!sock_hold(udp.ref, &ring))
		return false;
	all = tsock_inet(&udp)->udp.count == n;
	sock_release(ring);
	return all;
}

static bool unread_to_kernel(void)
{
	bool taken;

	WORLD_LOCKED(taken = kernel_handover_unread(tsock_inet(&udp)));
	return taken;
}

/* In their order, from their sender, before what the kernel receives then. */
static void test_unread_datagrams_are_in_the_twin(void **state)
{
	struct sockaddr_in sender;
	socklen_t len = sizeof(sender);
	char text[16];
	int fd = udp.fd;

	for (unsigned i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "%03u", i);
		world_send(&from, 0, port, text);
	}
	assert_true(NET_WAIT(queued(100), WORLD_WAIT));
	assert_true(unread_to_kernel());
	for (unsigned i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "%03u", i);
		assert_true(world_readable(fd, WORLD_WAIT));
		assert_int_equal(recvfrom(fd, in, LOTS, 0, (struct sockaddr *)&sender, &len), 3);
		assert_memory_equal(in, text, 3);
		assert_int_equal(sender.sin_addr.s_addr, fake_link_addr(1));
		assert_int_equal(sender.sin_port, htons((uint16_t)theirs));
	}
	assert_false(world_readable(fd, 0));
}

/* Frames that the port steered to the ring before it stopped to, and that are not there yet. */
static void test_datagrams_on_their_way_are_in_the_twin(void **state)
{
	int fd = udp.fd;

	world_send(&from, 0, port, "one");
	assert_true(NET_WAIT(queued(1), WORLD_WAIT));
	loop_port_late();
	world_send(&from, 0, port, "two");
	assert_true(unread_to_kernel());
	assert_true(world_readable(fd, WORLD_WAIT));
	assert_int_equal(recv(fd, in, LOTS, 0), 3);
	assert_memory_equal(in, "one", 3);
	assert_true(world_readable(fd, WORLD_WAIT));
	assert_int_equal(recv(fd, in, LOTS, 0), 3);
	assert_memory_equal(in, "two", 3);
}

/* One barrier for all of them. */
static void test_several_sockets_wait_once(void **state)
{
	struct rings_barrier barrier = {.n = 0};
	unsigned other = world_port(), barriers = loop_port_barriers();
	struct tsock second = world_udp(0, other);

	world_connect(&second, 1, theirs);
	world_send(&from, 0, port, "one");
	world_send(&from, 0, other, "two");
	assert_true(NET_WAIT(queued(1), WORLD_WAIT));
	loop_port_late();
	WORLD_LOCKED({
		assert_true(kernel_handover_begin_unread(tsock_inet(&udp), &barrier));
		kernel_handover_begin(tsock_inet(&second), &barrier);
		rings_barrier_wait(&barrier);
		assert_int_equal(kernel_handover(tsock_inet(&udp), VERDICT_FORKED), 0);
		assert_int_equal(kernel_handover(tsock_inet(&second), VERDICT_FORKED), 0);
	});
	assert_int_equal(loop_port_barriers() - barriers, barrier.n);
	assert_true(world_readable(udp.fd, WORLD_WAIT) && world_readable(second.fd, WORLD_WAIT));
	tsock_close(&second);
}

static void test_nothing_unread_changes_nothing(void **state)
{
	struct sockaddr unspec = {.sa_family = AF_UNSPEC};

	assert_false(unread_to_kernel());
	assert_true(sock_ref_valid(udp.ref));
	world_send(&from, 0, port, "one");
	assert_true(NET_WAIT(queued(1), WORLD_WAIT));
	/* Not connected: each process receives a part of its own. */
	assert_int_equal(sock_ops_of(udp.ref.sk)->connect(udp.ref, &unspec, sizeof(unspec)), 0);
	assert_false(unread_to_kernel());
	world_expect(&udp, "one");
}

/* No raw socket: this process can still read them. */
static void test_datagrams_that_cannot_be_given_stay(void **state)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3],
		none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	world_send(&from, 0, port, "kept");
	assert_true(NET_WAIT(queued(1), WORLD_WAIT));
	assert_int_equal(syscall(SYS_capget, &header, has), 0);
	none[0].permitted = has[0].permitted;
	none[1].permitted = has[1].permitted;
	assert_int_equal(syscall(SYS_capset, &header, none), 0);
	assert_false(unread_to_kernel());
	assert_int_equal(syscall(SYS_capset, &header, has), 0);
	world_expect(&udp, "kept");
}

#define TCP_CASE(name) cmocka_unit_test_setup_teardown(name, connected, end)
#define UDP_CASE(name) cmocka_unit_test_setup_teardown(name, datagrams, end_datagrams)

static const struct CMUnitTest tests[] = {
	TCP_CASE(test_both_ends_go_on_in_the_kernel),
	TCP_CASE(test_what_is_unread_or_unacknowledged_goes_along),
	TCP_CASE(test_completions_go_along),
	TCP_CASE(test_a_lot_goes_along),
	TCP_CASE(test_all_that_was_not_sent_goes_along_or_stays),
	TCP_CASE(test_an_end_that_was_sent_or_read_stays),
	TCP_CASE(test_a_connection_that_is_being_made_begins_anew),
	TCP_CASE(test_a_connection_that_has_ended_leaves_an_unconnected_socket),
	TCP_CASE(test_a_connection_that_cannot_be_taken_is_unchanged),
	UDP_CASE(test_unread_datagrams_are_in_the_twin),
	UDP_CASE(test_datagrams_on_their_way_are_in_the_twin),
	UDP_CASE(test_several_sockets_wait_once),
	UDP_CASE(test_nothing_unread_changes_nothing),
	UDP_CASE(test_datagrams_that_cannot_be_given_stay),
};

VMA_TEST_MAIN("sock/move/kernel_handover", tests, world_start, world_finish)
