/* SPDX-License-Identifier: BSD-2-Clause */
/* A local connection that comes as bytes which no process of this build has written. */
#include "sock/share/transfer.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "base/unix_socket.h"
#include "ring/progress.h"
#include "sock/core/control.h"
#include "sock/core/sock_options.h"
#include "sock/local/local.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"
#include "sock/share/exec_local.h"
#include "sock/share/pass_local.h"
#include "tests/lib/local_receiver.h"
#include "vma_test.h"

static struct inet_sock *so;

static int setup(void **state)
{
	static local_handler *const handlers[LOCAL_KINDS];

	(void)state;
	local_receiver_start(handlers);
	assert_true(control_lock());
	assert_true(sock_start());
	assert_true(local_available());
	control_unlock();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	progress_stop();
	assert_true(control_lock());
	local_links_stop();
	control_unlock();
	return 0;
}

/* An end in memory of its own, whose peer's process has ended.  Takes the control lock. */
static void begin(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	so = inet_of(sock_create(fd, AF_INET, SOCK_STREAM, 0, true).sk);
	assert_true(control_lock());
	so->local = (struct endpoint){.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = htons(1)};
	so->remote = (struct endpoint){.addr = addr_v4(htonl(INADDR_LOOPBACK)), .port = htons(2)};
	assert_true(ring_hold_cold(rings_nowhere()));
	sock_set_home(so, local_ring());
	ring_release_cold(rings_nowhere());
	assert_true(ring_hold_cold(local_ring()));
	local_conn_begin(so, true);
	assert_int_equal(segment_create(&so->shm.own, LOCAL_SEGMENT, LOCAL_SEGMENT_SIZE), 0);
	assert_int_equal(local_conn_open(so, local_slot(&so->shm.own, 0), LOCAL_RING_MIN), 0);
	so->shm.established = so->shm.died = true;
	local_move_begin(so, 0);
	ring_release_cold(local_ring());
}

static void end(void)
{
	struct sock_ref ref = sock_ref_of(so);
	int fd = sock_twin(&so->sk);

	sock_close_locked(ref);
	control_unlock();
	close(fd);
}

/* The snapshot with one byte changed. */
static int change(int from, size_t at, uint8_t by, size_t *size)
{
	static uint8_t bytes[4096];
	struct iovec iov = {bytes, sizeof(bytes)};
	int segment, fds[2];
	unsigned n;
	ssize_t len = unix_socket_receive(from, &iov, 1, MSG_PEEK, &segment, 1, &n);

	assert_true(len > 0 && n == 1);
	*size = iov.iov_len = (size_t)len;
	bytes[at] ^= by;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(unix_socket_send(fds[0], &iov, 1, &segment, 1), 0);
	sys_close(segment);
	close(fds[0]);
	return fds[1];
}

static void is_flag(const bool *flag)
{
	uint8_t byte;

	memcpy(&byte, flag, sizeof(byte));
	assert_in_range(byte, 0, 1);
}

static void check_socket(void)
{
	const bool *const flags[] = {
		&so->shut_rd,
		&so->shut_wr,
		&so->bound,
		&so->bound_addr,
		&so->shm.initiator,
		&so->shm.reported,
		&so->shm.ended,
		&so->shm.died,
		&so->opt->keepalive.on,
		&so->opt->oobinline,
		&so->opt->rcvbuf_set,
		&so->opt->sndbuf_set,
		&so->opt->linger_on,
		&so->opt->nodelay,
		&so->opt->mc_loop,
		&so->opt->dontroute,
		&so->opt->ttl_set,
		&so->opt->hops6_set,
		&so->opt->alloc_rx.direct,
	};

	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		is_flag(flags[i]);
	assert_true(options_are_sane(so->opt));
}

/* It is refused, and the socket goes on with what was exported; or it could have been exported so. */
static void test_each_byte_can_be_another(void **state)
{
	size_t size = 1;
	unsigned refused = 0;

	(void)state;
	begin();
	for (size_t at = 0; at < size; at++) {
		int fd, changed;

		assert_int_equal(transfer_export(so, 0, 0, &fd), 0);
		changed = change(fd, at, 0x82, &size);
		if (transfer_import(so, changed)) {
			refused++;
			assert_true(sock_is_exported(&so->sk));
			assert_int_equal(transfer_import(so, fd), 0);
		}
		assert_false(sock_is_exported(&so->sk));
		check_socket();
		sys_close(fd);
		close(changed);
	}
	assert_true(refused > size / 4 && refused < size);
	end();
}

/* Its owner ended before it came here: it is reset, and has the address that the kernel knows. */
static void test_a_connection_that_never_came_has_its_address(void **state)
{
	int fd = sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
			   known, name = {0};
	socklen_t len = sizeof(known);

	(void)state;
	assert_int_equal(sys_bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(sys_getsockname(fd, (struct sockaddr *)&known, &len), 0);
	assert_true(control_lock());
	so = transfer_create(fd);
	assert_non_null(so);
	sock_list_add(so);
	transfer_lost(so);
	control_unlock();
	len = sizeof(name);
	assert_int_equal(sock_ops_of(&so->sk)->getsockname(sock_ref_of(so),
							   (struct sockaddr *)&name, &len),
			 0);
	assert_memory_equal(&name, &known, sizeof(name));
	assert_true(control_lock());
	end();
}

/* What goes to a relay is not for the next image of this process, which another thread may execute. */
static void test_an_exec_that_fails_leaves_what_goes_to_a_relay(void **state)
{
	struct local_pass pass;

	(void)state;
	begin();
	so->verdict = VERDICT_LOCAL;
	control_unlock();
	assert_int_equal(pass_local_begin(sock_ref_of(so), &pass), 0);
	assert_int_equal(exec_local_pack(sock_ref_of(so)), -1);
	exec_local_undo();
	assert_true(sock_is_exported(&so->sk));
	pass_local_end(&pass, false);
	assert_false(sock_is_exported(&so->sk));
	sys_close(pass.packed);
	sys_close(pass.twin);
	assert_true(control_lock());
	end();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_connection_that_never_came_has_its_address),
	cmocka_unit_test(test_each_byte_can_be_another),
	cmocka_unit_test(test_an_exec_that_fails_leaves_what_goes_to_a_relay),
};

VMA_TEST_MAIN("transfer", tests, setup, teardown)
