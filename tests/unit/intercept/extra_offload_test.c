/* SPDX-License-Identifier: BSD-2-Clause */
/* thread_offload() without memory: nothing has changed. */
#include <mellanox/vma_extra.h>
#include <string.h>

#include "base/mem.h"
#include "fake_sock.h"
#include "intercept/fdtable.h"
#include "tests/vma_test.h"

static bool no_memory;

void *__real_mem_zalloc(size_t size);
void *__wrap_mem_zalloc(size_t size);

void *__wrap_mem_zalloc(size_t size)
{
	return no_memory ? NULL : __real_mem_zalloc(size);
}

static pthread_barrier_t barrier;

static void *other_thread(void *arg)
{
	int fd;

	pthread_barrier_wait(&barrier);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	*(bool *)arg = fd_get(fd).sk != NULL;
	close(fd);
	return NULL;
}

/* Whether another thread's socket is ours, if memory ends before the second order. */
static bool offloads(int first, int second)
{
	struct vma_api_t *api = vma_get_api();
	bool ours = false;
	pthread_t tid;

	assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
	assert_int_equal(pthread_create(&tid, NULL, other_thread, &ours), 0);
	if (first >= 0)
		assert_int_equal(api->thread_offload(first, tid), 0);
	no_memory = true;
	errno = 0;
	/* An order for the thread waits already: it needs no more memory. */
	assert_int_equal(api->thread_offload(second, tid), first >= 0 ? 0 : ENOMEM);
	assert_int_equal(errno, first >= 0 ? 0 : ENOMEM);
	assert_int_equal(api->thread_offload(1, pthread_self()), 0);
	no_memory = false;
	pthread_barrier_wait(&barrier);
	assert_int_equal(pthread_join(tid, NULL), 0);
	return ours;
}

static void test_there_is_no_memory(void **state)
{
	fake_reset();
	assert_true(offloads(-1, 0));
	assert_false(offloads(1, 0));
	assert_true(offloads(0, 1));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_there_is_no_memory),
};

VMA_TEST_MAIN("extra_offload", tests, NULL, NULL)
