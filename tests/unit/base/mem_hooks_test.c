/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program whose malloc() and free() call the library, from the first allocation of each
 * thread on.
 */
#include "base/mem.h"

#include <pthread.h>
#include <string.h>

#include "tests/vma_test.h"

#define NESTED 5
#define KEYS 100 /* more keys than pthread_setspecific() stores without allocating */
#define THREADS 4

static unsigned long calls;

static __thread int depth;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void __libc_free(void *ptr);

static void use_ours(size_t size)
{
	char *ptr;

	if (depth == NESTED)
		return;
	depth++;
	ptr = mem_alloc(size);
	memset(ptr, 1, size);
	mem_free(ptr);
	depth--;
	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
	use_ours(size % 5000);
	return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
	use_ours(n * size % 5000);
	return __libc_calloc(n, size);
}

__attribute__((visibility("default"))) void free(void *ptr)
{
	use_ours(10);
	__libc_free(ptr);
}

static void *allocate(void *arg)
{
	for (size_t size = 1; size < 2000; size++) {
		void *volatile ptr = malloc(size);

		free(ptr);
	}
	return arg;
}

static void test_hooks_of_the_program_may_allocate_from_us(void **state)
{
	pthread_t threads[THREADS];
	pthread_key_t key;

	assert_true(calls > 0); /* since before main() */
	for (int i = 0; i < KEYS; i++)
		pthread_key_create(&key, NULL);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, allocate, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(__atomic_load_n(&calls, __ATOMIC_RELAXED) >= THREADS * 2000);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_hooks_of_the_program_may_allocate_from_us),
};

VMA_TEST_MAIN("mem_hooks", tests, NULL, NULL)
