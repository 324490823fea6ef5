/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links between two processes, and of a process with itself: messages, notices, numbers, and the
 * end of either.  The internal thread runs; a child process is the peer.
 */
#include "sock/local/local_link.h"
#include "sock/local/local_link_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "ring/progress.h"
#include "ring/rings.h"
#include "sock/core/control.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_sock.h"
#include "vma_test.h"

#define PATIENCE (30 * NSEC_PER_SEC)
#define STOP 99u /* a message: the child leaves */

static char base[64];

struct test_end {
	struct local_end end;
	unsigned notices, deaths; /* any, atomic */
};

/* What the last message of the handler was; any, atomic: n. */
static struct {
	unsigned n;
	struct local_link *link;
	struct local_message message;
	int fd;
	struct test_end end;
} got;

static void on_notice(struct local_end *end)
{
	__atomic_fetch_add(&container_of(end, struct test_end, end)->notices, 1, __ATOMIC_RELEASE);
}

static void on_death(struct local_end *end)
{
	__atomic_fetch_add(&container_of(end, struct test_end, end)->deaths, 1, __ATOMIC_RELEASE);
}

static const struct local_end_ops ops = {.notice = on_notice, .died = on_death};

static bool begin_at(struct local_link *link, uint32_t number)
{
	int rc;

	assert_true(ring_hold_cold(local_ring()));
	if (got.end.end.link)
		local_end_leave(&got.end.end);
	got.end.end.ops = &ops;
	rc = local_end_begin_at(link, &got.end.end, number);
	if (!rc)
		local_end_post(&got.end.end);
	ring_release_cold(local_ring());
	return !rc;
}

static bool take(struct local_link *link, const struct local_message *message, int *fds, unsigned n)
{
	bool ok = message->size == STOP || begin_at(link, message->number);

	got.link = link;
	got.message = *message;
	got.fd = n ? fds[0] : -1;
	__atomic_fetch_add(&got.n, 1, __ATOMIC_RELEASE);
	return ok;
}

static local_handler *const handlers[LOCAL_KINDS] = {[LOCAL_CONNECT] = take};

static void await(const unsigned *word, unsigned least)
{
	nsec_t end = clock_now() + PATIENCE;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < least) {
		assert_true(clock_now() < end);
		sched_yield();
	}
}

static bool hook(void)
{
	local_links_run(clock_now());
	return false;
}

static void start(void)
{
	static const struct port_kind *const kinds[] = {&port_local_kind, NULL};

	memset(&got, 0, sizeof(got));
	ring_mode = HOLD_YIELD;
	rings_init(kinds);
	assert_int_equal(progress_start(), 0);
	progress_set_hook(hook);
	assert_true(control_lock());
	assert_int_equal(local_links_start(base, handlers), 0);
	assert_int_equal(local_links_start(base, handlers), 0);
	control_unlock();
}

static int setup(void **state)
{
	clock_init();
	strcpy(base, "/dev/shm/local-link-test-XXXXXX");
	assert_non_null(mkdtemp(base));
	return 0;
}

/* Links that exist at the end of a process are not freed; LeakSanitizer finds them here. */
static struct local_process kept[64];
static unsigned n_kept;

static void stop(void)
{
	assert_true(control_lock());
	local_links_stop();
	control_unlock();
	progress_stop();
	progress_set_hook(NULL);
	assert_true(n_kept < 64);
	kept[n_kept++] = local;
	local_links_forget();
	rings_close_all();
	/* Rings are permanent, but not in this test. */
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		flow_table_fini(&ring->flows);
		mem_free(ring);
	}
	rings_forget(false);
}

static int teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", base);
	return system(command);
}

/* ---- the peer, a child process ------------------------------------------------------------- */

struct peer {
	pid_t pid;
	uint64_t name;
	int to; /* closed: it ends */
};

static void serve(int from, int to)
{
	uint64_t name;
	char c;

	start();
	name = local_name();
	if (write(to, &name, sizeof(name)) != sizeof(name) || read(from, &c, 1) < 0)
		_exit(1);
	_exit(0);
}

static struct peer start_peer(void)
{
	int there[2], back[2];
	struct peer peer;

	assert_int_equal(pipe(there), 0);
	assert_int_equal(pipe(back), 0);
	peer.pid = fork();
	if (!peer.pid) {
		close(there[1]);
		serve(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	assert_int_equal(read(back[0], &peer.name, sizeof(peer.name)), sizeof(peer.name));
	close(back[0]);
	peer.to = there[1];
	return peer;
}

static void end_peer(const struct peer *peer, int signo)
{
	if (signo)
		kill(peer->pid, signo);
	close(peer->to);
	assert_int_equal(waitpid(peer->pid, NULL, 0), peer->pid);
}

/* ---- cases --------------------------------------------------------------------------------- */

static struct local_link *link_to(uint64_t process)
{
	struct local_link *link;
	int rc;

	assert_true(control_lock());
	local_lock();
	rc = local_link_to(process, &link);
	local_unlock();
	control_unlock();
	assert_int_equal(rc, 0);
	return link;
}

static int begin(struct local_link *link, struct test_end *end)
{
	int rc;

	*end = (struct test_end){.end.ops = &ops};
	assert_true(ring_hold_cold(local_ring()));
	rc = local_end_begin(link, &end->end);
	ring_release_cold(local_ring());
	return rc;
}

static void leave(struct test_end *end)
{
	assert_true(ring_hold_cold(local_ring()));
	local_end_leave(&end->end);
	ring_release_cold(local_ring());
}

static int send_connect(struct local_link *link, uint32_t number, uint32_t size, int fd)
{
	struct local_message message = {.kind = LOCAL_CONNECT, .number = number, .size = size};
	int rc;

	local_lock();
	rc = local_link_send(link, &message, fd);
	local_unlock();
	return rc;
}

static void test_messages_and_notices_reach_the_peer(void **state)
{
	struct peer peer = start_peer();
	struct test_end a, b;
	struct local_link *link;

	start();
	link = link_to(peer.name);
	assert_ptr_equal(link_to(peer.name), link);
	assert_int_equal(begin(link, &a), 0);
	assert_int_equal(begin(link, &b), 0);
	assert_int_equal(a.end.number, 0);
	assert_int_equal(b.end.number, 1);
	assert_int_equal(send_connect(link, b.end.number, 1, -1), 0);
	await(&b.notices, 1); /* the internal thread slept */
	assert_int_equal(a.notices, 0);
	leave(&a);
	leave(&b);
	end_peer(&peer, 0);
	stop();
}

static void test_a_process_links_to_itself(void **state)
{
	struct local_link *link;
	struct test_end end;
	char path[64];

	start();
	link = link_to(local_name());
	assert_int_equal(begin(link, &end), 0);
	assert_int_equal(send_connect(link, end.end.number, 1, STDIN_FILENO), 0);
	await(&got.n, 1);
	assert_ptr_not_equal(got.link, link);
	assert_int_equal(got.message.number, end.end.number);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", got.fd);
	assert_int_equal(access(path, F_OK), 0);
	assert_true(sys_fd_is_hidden(got.fd));
	sys_close(got.fd);
	await(&end.notices, 1);
	assert_true(ring_hold_cold(local_ring()));
	local_link_answered(link);
	local_end_post(&end.end);
	ring_release_cold(local_ring());
	await(&got.end.notices, 1);
	leave(&end);
	leave(&got.end);
	stop();
}

static void test_a_number_is_free_when_both_have_left(void **state)
{
	struct test_end end, other, again;
	struct local_link *link;

	start();
	link = link_to(local_name());
	assert_int_equal(begin(link, &end), 0);
	assert_int_equal(send_connect(link, end.end.number, 1, -1), 0);
	await(&end.notices, 1);
	leave(&end);
	assert_int_equal(begin(link, &other), 0);
	assert_int_equal(other.end.number, 1); /* 0: the responder's end is still there */
	leave(&other); /* the responder has not heard of it: it stays in use */
	assert_int_equal(begin(link, &other), 0);
	assert_int_equal(other.end.number, 2);
	leave(&got.end);
	assert_int_equal(begin(link, &again), 0);
	assert_int_equal(again.end.number, 0);
	leave(&again);
	leave(&other);
	stop();
}

static void say_gone(struct local_link *link, uint32_t number, unsigned side)
{
	struct local_shared *shared = (void *)local_slot(local_link_chunk(link, number), number);

	/* release: as local_move_end() */
	__atomic_store_n(&shared->side[side].gone, 1, __ATOMIC_RELEASE);
}

static bool gets_number_0(struct local_link *link)
{
	struct test_end end;
	bool is;

	assert_int_equal(begin(link, &end), 0);
	is = !end.end.number;
	if (!is)
		leave(&end);
	return is;
}

/* Each end goes on with memory of its own; the slot is used until both are gone. */
static void test_a_number_whose_ends_moved_away(void **state)
{
	struct local_link *link;
	struct test_end end;

	start();
	link = link_to(local_name());
	assert_int_equal(begin(link, &end), 0);
	assert_int_equal(send_connect(link, end.end.number, 1, -1), 0);
	await(&end.notices, 1);
	assert_int_equal(
		segment_create(local_link_chunk(link, 0), LOCAL_SEGMENT, LOCAL_SEGMENT_SIZE), 0);
	assert_true(ring_hold_cold(local_ring()));
	local_end_move_away(&end.end);
	local_end_move_away(&got.end.end);
	ring_release_cold(local_ring());
	assert_false(gets_number_0(link));
	say_gone(link, 0, LOCAL_RESPONDER);
	assert_false(gets_number_0(link));
	say_gone(link, 0, LOCAL_INITIATOR);
	assert_true(gets_number_0(link));
	stop();
}

static void test_numbers_end(void **state)
{
	static struct test_end ends[NOTICE_CONNS], one_more;
	struct local_link *link;

	start();
	link = link_to(local_name());
	for (unsigned i = 0; i < NOTICE_CONNS; i++)
		assert_int_equal(begin(link, &ends[i]), 0);
	assert_int_equal(begin(link, &one_more), -EUSERS);
	for (unsigned i = 0; i < NOTICE_CONNS; i++)
		leave(&ends[i]);
	stop();
}

static void test_a_killed_peer_is_noticed(void **state)
{
	struct peer peer = start_peer();
	struct local_link *link;
	struct test_end end;
	int rc;

	start();
	link = link_to(peer.name);
	assert_int_equal(begin(link, &end), 0);
	assert_int_equal(send_connect(link, end.end.number, 1, -1), 0);
	await(&end.notices, 1);
	end_peer(&peer, SIGKILL);
	await(&end.deaths, 1);
	assert_true(ring_hold_cold(local_ring()));
	assert_true(local_link_is_dead(link));
	ring_release_cold(local_ring());
	assert_int_equal(send_connect(link, 5, 1, -1), -EPIPE);
	leave(&end); /* the link may be gone now */
	assert_true(control_lock());
	local_lock();
	rc = local_link_to(peer.name, &link);
	local_unlock();
	control_unlock();
	assert_int_equal(rc, -ECONNREFUSED);
	assert_true(local_is_dead(peer.name));
	assert_false(local_is_dead(local_name()));
	stop();
}

/* As the initiator of a hostile peer: raw messages to the socket of this process. */
static int raw_socket(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	int len = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "libvma-local-%016llx",
			   (unsigned long long)local_name());

	assert_int_equal(connect(fd, (struct sockaddr *)&un,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)),
			 0);
	return fd;
}

static void check_refused(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char c;

	assert_int_equal(poll(&pfd, 1, 10000), 1);
	assert_true(read(fd, &c, 1) <= 0);
	close(fd);
}

/* What it had not read yet makes the kernel report a reset first. */
static void test_a_process_that_ends_with_unread_messages_has_ended(void **state)
{
	struct local_message message = {.kind = LOCAL_CONNECT};
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(local_wire_send(fds[0], &message, NULL, 0), 0);
	sys_close(fds[1]);
	assert_int_equal(local_wire_send(fds[0], &message, NULL, 0), -EPIPE);
	sys_close(fds[0]);
}

static void test_messages_that_cannot_be_end_the_link(void **state)
{
	struct local_message message = {.kind = LOCAL_CONNECT};
	struct local_link *link;
	struct test_end end;
	int fd;

	start();
	fd = raw_socket();
	assert_int_equal(write(fd, &message, sizeof(message)), sizeof(message)); /* no HELLO */
	check_refused(fd);
	fd = raw_socket();
	message = (struct local_message){.kind = LOCAL_HELLO, .number = 2};
	assert_int_equal(write(fd, &message, sizeof(message)), sizeof(message)); /* without fds */
	check_refused(fd);
	fd = raw_socket();
	assert_int_equal(write(fd, &message, 10), 10);
	check_refused(fd);
	link = link_to(local_name());
	assert_int_equal(begin(link, &end), 0);
	assert_int_equal(send_connect(link, NOTICE_CONNS, 1, -1), 0);
	await(&end.deaths, 1);
	leave(&end);
	link = link_to(local_name()); /* another one */
	assert_int_equal(begin(link, &end), 0);
	message.kind = LOCAL_KINDS;
	local_lock();
	assert_int_equal(local_link_send(link, &message, -1), 0);
	local_unlock();
	await(&end.deaths, 1);
	leave(&end);
	stop();
}

/* HELLO with these eventfds, of the initiator and the responder. */
static int say_hello(int initiators, int responders)
{
	struct local_message message = {.kind = LOCAL_HELLO, .number = LOCAL_PROTOCOL};
	struct iovec iov = {&message, sizeof(message)};
	struct segment segment;
	int fds[LOCAL_HELLO_FDS] = {-1, initiators, responders}, fd = raw_socket();

	/* Both ends are in this process.  Tsan sees the order of the lock, not that of messages. */
	local_lock();
	assert_int_equal(segment_create(&segment, LOCAL_LINK_SEGMENT,
					SEGMENT_HEADER + sizeof(struct link_shared)),
			 0);
	local_unlock();
	fds[0] = segment.fd;
	assert_int_equal(unix_socket_send(fd, &iov, 1, fds, LOCAL_HELLO_FDS), 0);
	segment_close(&segment);
	return fd;
}

/* A write to a pipe blocks, or is a SIGPIPE, and so may one to an eventfd that blocks. */
static void test_only_eventfds_that_do_not_block_wake(void **state)
{
	struct local_message message = {.kind = LOCAL_CONNECT, .size = STOP};
	int good = eventfd(0, EFD_NONBLOCK), blocks = eventfd(0, 0), pipes[2], fd;

	start();
	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	check_refused(say_hello(blocks, good));
	check_refused(say_hello(good, blocks));
	check_refused(say_hello(pipes[1], good));
	check_refused(say_hello(good, pipes[0]));
	assert_int_equal(got.n, 0);
	fd = say_hello(good, good);
	assert_int_equal(write(fd, &message, sizeof(message)), sizeof(message));
	await(&got.n, 1); /* the link is open */
	close(fd);
	close(good);
	close(blocks);
	close(pipes[0]);
	close(pipes[1]);
	stop();
}

static void test_a_hidden_process_is_not_found(void **state)
{
	struct local_link *link;
	int rc;

	start();
	assert_true(control_lock());
	local_links_hide();
	local_lock();
	rc = local_link_to(local_name(), &link);
	local_unlock();
	control_unlock();
	assert_int_equal(rc, -ECONNREFUSED);
	stop();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(test_messages_and_notices_reach_the_peer),
	CASE(test_a_process_links_to_itself),
	CASE(test_a_number_is_free_when_both_have_left),
	CASE(test_a_number_whose_ends_moved_away),
	CASE(test_numbers_end),
	CASE(test_a_killed_peer_is_noticed),
	CASE(test_a_process_that_ends_with_unread_messages_has_ended),
	CASE(test_messages_that_cannot_be_end_the_link),
	CASE(test_only_eventfds_that_do_not_block_wake),
	CASE(test_a_hidden_process_is_not_found),
};

VMA_TEST_MAIN("local_link", tests, NULL, NULL)
