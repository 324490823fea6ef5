/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of a socket change while another thread makes some: as an export and a fetch do it. */
#include <netinet/in.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "intercept/fdtable.h"
#include "tests/unit/intercept/fake_sock.h"
#include "tests/vma_test.h"

#define ROUNDS 2000

static int stop; /* any, atomic */
static unsigned changes;

static void *change_ops(void *arg)
{
	struct sock *sk = arg;
	const struct sock_ops *local = sk->ops;
	struct sock_ops exported = *local;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		__atomic_store_n(&sk->ops, &exported, __ATOMIC_RELEASE);
		changes++;
		__atomic_store_n(&sk->ops, local, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void make_calls(int fd)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	socklen_t len = sizeof(sin);
	struct msghdr msg = {0};
	int value = 0;
	char c = 'x';

	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	len = sizeof(sin);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&sin, &len), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value)), 0);
	len = sizeof(value);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, &len), 0);
	assert_int_equal(ioctl(fd, FIONREAD, &value), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_int_equal(send(fd, &c, 1, 0), 1);
	assert_int_equal(write(fd, &c, 1), 1);
	assert_int_equal(sendmsg(fd, &msg, 0), 0);
	assert_int_equal(recv(fd, &c, 1, 0), 1);
	assert_int_equal(read(fd, &c, 1), 1);
	assert_int_equal(recvmsg(fd, &msg, 0), 0);
	value = accept(fd, NULL, NULL);
	assert_true(value >= 0);
	close(value);
}

static void test_calls_while_the_socket_is_exported_and_fetched(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t other;

	(void)state;
	fake_reset();
	assert_non_null(fd_get(fd).sk);
	assert_int_equal(pthread_create(&other, NULL, change_ops, fd_get(fd).sk), 0);
	for (unsigned i = 0; i < ROUNDS; i++)
		make_calls(fd);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(other, NULL);
	print_message("%u changes\n", changes);
	assert_int_equal(fake.ops, 16 * ROUNDS);
	close(fd);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_calls_while_the_socket_is_exported_and_fetched),
};

VMA_TEST_MAIN("ops", tests, NULL, NULL)
