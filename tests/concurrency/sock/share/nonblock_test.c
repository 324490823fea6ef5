/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread asks for O_NONBLOCK of a socket that another thread closes. The object is used again at
 * once: the next socket has its own flag, never that of the former one.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include "base/sys.h"
#include "ring/rings.h"
#include "sock/core/inet_sock.h"
#include "sock/share/share.h"
#include "vma_test.h"

#define SOCKETS 20000

/* What the thread asks for; any, atomic. The object is always the same one. */
static struct sock *object;
static uint32_t generation;
static bool stop;
static unsigned answers;

static void *ask(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct sock_ref ref = {__atomic_load_n(&object, __ATOMIC_ACQUIRE),
				       __atomic_load_n(&generation, __ATOMIC_ACQUIRE)};

		if (ref.sk && share_nonblock_ask(ref) >= 0)
			__atomic_fetch_add(&answers, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int setup(void **state)
{
	clock_init();
	ring_mode = HOLD_YIELD;
	rings_init(NULL);
	sock_alloc_init();
	sock_list_init();
	return 0;
}

static void test_a_flag_is_never_of_the_former_socket(void **state)
{
	pthread_t thread;
	unsigned before;

	assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
	for (unsigned i = 0; i < SOCKETS; i++) {
		bool nonblock = i & 1;
		int fd = sys_socket(AF_INET,
				    SOCK_STREAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0), 0);
		struct sock_ref ref = sock_create(fd, AF_INET, SOCK_STREAM, 0, nonblock);

		assert_true(fd >= 0 && ref.sk && (!object || object == ref.sk));
		__atomic_store_n(&generation, ref.gen, __ATOMIC_RELEASE);
		__atomic_store_n(&object, ref.sk, __ATOMIC_RELEASE);
		before = __atomic_load_n(&answers, __ATOMIC_RELAXED);
		/* The next answer may have begun before this socket did. */
		while (__atomic_load_n(&answers, __ATOMIC_RELAXED) == before)
			sched_yield();
		assert_int_equal(__atomic_load_n(&ref.sk->nonblock, __ATOMIC_RELAXED), nonblock);
		sock_close(ref);
		sys_close(fd);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_flag_is_never_of_the_former_socket),
};

VMA_TEST_MAIN("nonblock", tests, setup, NULL)
