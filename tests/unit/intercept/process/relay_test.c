/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/relay.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sock/move/kernel_pair.h"
#include "tests/vma_test.h"

#define PAIRS 3
#define LOTS (4u << 20)

/* Of each pair: this test <-> left, relay, right <-> this test. */
static int left[PAIRS], right[PAIRS];
static struct relay_pair pairs[PAIRS];
static pthread_t relay;
static int ready[2];

static void *run(void *n)
{
	assert_true(relay_run(pairs, (unsigned)(uintptr_t)n, ready[1]));
	return NULL;
}

static struct sock_addr loopback(uint16_t port)
{
	return (struct sock_addr){.in = {.sin_family = AF_INET,
					 .sin_port = htons(port),
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
				  .len = sizeof(struct sockaddr_in)};
}

static void connect_pair(int *ours, int *theirs)
{
	const struct timeval limit = {.tv_sec = 60};
	struct sock_addr any = loopback(0);
	int fds[2];

	/* Without a port there is nothing to repair: they are connected by a listener. */
	assert_int_equal(kernel_pair(&any, &any, fds), 0);
	*ours = fds[0];
	*theirs = fds[1];
	setsockopt(*ours, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(*ours, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static void connect_pairs(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		connect_pair(&left[i], &pairs[i].local);
		connect_pair(&right[i], &pairs[i].kernel);
	}
}

static void run_relay(unsigned n)
{
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pthread_create(&relay, NULL, run, (void *)(uintptr_t)n), 0);
	assert_int_equal(relay_await(ready[0]), 0);
	close(ready[0]);
}

static void start(unsigned n)
{
	connect_pairs(n);
	run_relay(n);
}

static void finish(unsigned n)
{
	assert_int_equal(pthread_join(relay, NULL), 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(pairs[i].local, -1);
		assert_int_equal(pairs[i].kernel, -1);
		close(left[i]);
		close(right[i]);
	}
}

static uint8_t byte_at(uint32_t i)
{
	return (uint8_t)(i * 2654435761u >> 24);
}

static void *send_lots(void *fd)
{
	uint8_t bytes[10000];

	for (uint32_t sent = 0; sent < LOTS;) {
		uint32_t n = LOTS - sent < sizeof(bytes) ? LOTS - sent : sizeof(bytes);

		for (uint32_t i = 0; i < n; i++)
			bytes[i] = byte_at(sent + i);
		assert_int_equal(send(*(int *)fd, bytes, n, MSG_NOSIGNAL), n);
		sent += n;
	}
	assert_int_equal(shutdown(*(int *)fd, SHUT_WR), 0);
	return NULL;
}

static void receive_lots(int fd)
{
	uint8_t bytes[10000];
	uint32_t had = 0;
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(bytes[i], byte_at(had++));
	}
	assert_int_equal(n, 0);
	assert_int_equal(had, LOTS);
}

/* More than the buffers hold, in both directions; each half ends on its own. */
static void bytes_of_both_directions(void **state)
{
	pthread_t senders[2 * PAIRS];

	start(PAIRS);
	for (unsigned i = 0; i < PAIRS; i++) {
		pthread_create(&senders[2 * i], NULL, send_lots, &left[i]);
		pthread_create(&senders[2 * i + 1], NULL, send_lots, &right[i]);
	}
	for (unsigned i = 0; i < PAIRS; i++) {
		receive_lots(right[i]);
		receive_lots(left[i]);
	}
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		pthread_join(senders[i], NULL);
	finish(PAIRS);
}

static void what_had_arrived_is_there_when_it_is_ready(void **state)
{
	uint8_t bytes[1000] = {0};
	int there = 0;

	connect_pairs(1);
	assert_int_equal(send(left[0], bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
	run_relay(1);
	assert_int_equal(ioctl(right[0], FIONREAD, &there), 0);
	assert_int_equal(there, sizeof(bytes));
	shutdown(left[0], SHUT_WR);
	shutdown(right[0], SHUT_WR);
	finish(1);
}

static void half_that_ended(void **state)
{
	char c;

	start(1);
	assert_int_equal(shutdown(left[0], SHUT_WR), 0);
	assert_int_equal(recv(right[0], &c, 1, 0), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(send(right[0], "x", 1, MSG_NOSIGNAL), 1);
		assert_int_equal(recv(left[0], &c, 1, 0), 1);
	}
	assert_int_equal(shutdown(right[0], SHUT_WR), 0);
	assert_int_equal(recv(left[0], &c, 1, 0), 0);
	finish(1);
}

static void reset(int *fd)
{
	const struct linger at_once = {.l_onoff = 1};

	setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(*fd);
	*fd = -1;
}

static void fails_with_reset(int fd)
{
	char c;

	assert_int_equal(recv(fd, &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
}

static void resets(void **state)
{
	start(2);
	reset(&left[0]);
	fails_with_reset(right[0]);
	reset(&right[1]);
	fails_with_reset(left[1]);
	finish(2);
}

/* One that is reset when nothing more is read from it, and nothing is to be written. */
static void reset_after_the_end(void **state)
{
	struct pollfd fd;
	char c;

	start(1);
	assert_int_equal(shutdown(left[0], SHUT_WR), 0);
	assert_int_equal(recv(right[0], &c, 1, 0), 0);
	reset(&left[0]);
	fd = (struct pollfd){.fd = right[0]};
	assert_int_equal(poll(&fd, 1, 60000), 1);
	assert_true(fd.revents & POLLERR);
	finish(1);
}

/* The other side does not read: the relay waits, and uses no processor time. */
static void full(void **state)
{
	struct pollfd fd;
	struct timespec before, after;
	clockid_t cpu;
	uint8_t bytes[65536] = {0};
	ssize_t n;

	start(1);
	fd = (struct pollfd){.fd = left[0], .events = POLLOUT};
	pthread_getcpuclockid(relay, &cpu);
	while (poll(&fd, 1, 300) == 1)
		assert_true(send(left[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0);
	clock_gettime(cpu, &before);
	assert_int_equal(poll(&fd, 1, 500), 0);
	clock_gettime(cpu, &after);
	assert_true((after.tv_sec - before.tv_sec) * 1000 +
			    (after.tv_nsec - before.tv_nsec) / 1000000 <
		    100);
	assert_int_equal(shutdown(left[0], SHUT_WR), 0);
	while ((n = recv(right[0], bytes, sizeof(bytes), 0)) > 0)
		;
	assert_int_equal(n, 0);
	assert_int_equal(shutdown(right[0], SHUT_WR), 0);
	finish(1);
}

/* Then its process number may be that of another process. */
static void one_that_ends_is_not_one_that_does_not_begin(void **state)
{
	assert_int_equal(pipe(ready), 0);
	close(ready[1]);
	assert_int_equal(relay_await(ready[0]), -EPIPE);
	close(ready[0]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(bytes_of_both_directions),
	cmocka_unit_test(what_had_arrived_is_there_when_it_is_ready),
	cmocka_unit_test(half_that_ended),
	cmocka_unit_test(resets),
	cmocka_unit_test(reset_after_the_end),
	cmocka_unit_test(full),
	cmocka_unit_test(one_that_ends_is_not_one_that_does_not_begin),
};
VMA_TEST_MAIN("relay", tests, NULL, NULL)
