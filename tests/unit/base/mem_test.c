/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/busy.h"
#include "tests/vma_test.h"

#define THREADS 4
#define LIVE 200

static void test_sizes_and_alignments(void **state)
{
	for (size_t align = 1; align <= 1 << 21; align *= 2) {
		char *ptr = mem_aligned(align, 100);

		assert_non_null(ptr);
		assert_int_equal((uintptr_t)ptr % align, 0);
		memset(ptr, 1, 100);
		mem_free(ptr);
	}
	mem_free(NULL);
	mem_free(mem_alloc(0));
}

static void test_zalloc_zeroes_what_was_used_before(void **state)
{
	for (int i = 0; i < 100; i++) {
		char *ptr = mem_alloc(777);

		memset(ptr, 0xff, 777);
		mem_free(ptr);
		ptr = mem_zalloc(777);
		for (int b = 0; b < 777; b++)
			assert_int_equal(ptr[b], 0);
		mem_free(ptr);
	}
}

static void test_realloc_keeps_the_contents(void **state)
{
	char *ptr = mem_realloc(NULL, 10);

	strcpy(ptr, "123456789");
	for (size_t size = 10; size < 10000000; size *= 3) {
		ptr = mem_realloc(ptr, size);
		assert_string_equal(ptr, "123456789");
	}
	ptr = mem_realloc(ptr, 0);
	assert_non_null(ptr);
	mem_free(ptr);
	ptr = mem_strdup("text");
	assert_string_equal(ptr, "text");
	mem_free(ptr);
}

static void test_mapped_pages_are_zero_and_aligned(void **state)
{
	unsigned char *ptr = mem_map(5000);

	assert_non_null(ptr);
	assert_int_equal((uintptr_t)ptr % 4096, 0);
	for (int i = 0; i < 8192; i++)
		assert_int_equal(ptr[i], 0);
	memset(ptr, 1, 8192);
	mem_unmap(ptr, 5000);
	assert_null(mem_map((size_t)1 << 62));
}

static void test_errno_is_left_alone(void **state)
{
	errno = 77;
	mem_free(mem_alloc(1 << 24));
	mem_free(mem_aligned(4096, 1 << 24));
	assert_null(mem_map((size_t)1 << 62));
	assert_int_equal(errno, 77);
}

/* Allocates, checks and frees; one thread frees what another one allocated. */
static void *churn(void *arg)
{
	static void *exchange[LIVE];
	unsigned random = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		unsigned *ptr;
		unsigned size;

		random = random * 1664525 + 1013904223;
		size = 2 + (random >> 16) % (i % 100 ? 100 : 20000);
		ptr = mem_alloc(size * sizeof(*ptr));
		ptr[0] = size;
		ptr[size - 1] = size;
		ptr = __atomic_exchange_n(&exchange[random % LIVE], ptr, __ATOMIC_ACQ_REL);
		if (ptr && ptr[0] != ptr[ptr[0] - 1])
			return arg;
		mem_free(ptr);
	}
	for (int i = 0; i < LIVE; i++)
		mem_free(__atomic_exchange_n(&exchange[i], NULL, __ATOMIC_ACQ_REL));
	return NULL;
}

static void test_threads_share_memory(void **state)
{
	pthread_t threads[THREADS];
	void *failed;

	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
}

/*
 * The sanitizers' allocator does not guarantee what the next two tests check, and does not allow
 * handlers to allocate.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
static int stop_forking;

static void *churn_until_told(void *arg)
{
	while (!__atomic_load_n(&stop_forking, __ATOMIC_RELAXED))
		churn(arg);
	return NULL;
}

/* A child that is forked while other threads allocate can allocate: no lock stays locked. */
static void test_child_of_a_busy_process_can_allocate(void **state)
{
	pthread_t threads[2];

	for (size_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, churn_until_told, (void *)(i + 1));
	for (int i = 0; i < 50; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			alarm(20);
			for (size_t size = 1; size < 10000000; size *= 2)
				mem_free(mem_zalloc(size));
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	__atomic_store_n(&stop_forking, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* ---- signals ----------------------------------------------------------------- */

static unsigned handlers, hungry; /* atomic */
static void *kept;		  /* by a handler, for the next one to free */

static void use_memory(int sig)
{
	char *ptr = mem_alloc(100 + handlers % 1000);

	if (ptr)
		memset(ptr, 1, 100);
	else
		__atomic_fetch_add(&hungry, 1, __ATOMIC_SEQ_CST);
	mem_free(kept);
	kept = ptr;
	__atomic_fetch_add(&handlers, 1, __ATOMIC_SEQ_CST);
}

static int interrupt_over; /* atomic */

static void *interrupt(void *thread)
{
	while (!__atomic_load_n(&interrupt_over, __ATOMIC_SEQ_CST)) {
		unsigned before = __atomic_load_n(&handlers, __ATOMIC_SEQ_CST);

		pthread_kill(*(pthread_t *)thread, SIGUSR1);
		while (__atomic_load_n(&handlers, __ATOMIC_SEQ_CST) == before)
			sched_yield();
	}
	return NULL;
}

/* What a handler frees while it interrupts the allocator is freed afterwards. */
static void test_signal_handlers_do_not_enter_the_allocator_twice(void **state)
{
	struct sigaction action = {.sa_handler = use_memory};
	pthread_t self = pthread_self(), thread;
	void *ptrs[64] = {NULL};

	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(pthread_create(&thread, NULL, interrupt, &self), 0);
	for (unsigned i = 0; __atomic_load_n(&hungry, __ATOMIC_SEQ_CST) < 20 && i < 3000000; i++) {
		size_t size = 1 + i * 2654435761u % 5000;

		mem_free(ptrs[i % 64]);
		ptrs[i % 64] = mem_alloc(size);
		assert_non_null(ptrs[i % 64]);
		memset(ptrs[i % 64], 2, size);
	}
	__atomic_store_n(&interrupt_over, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	for (int i = 0; i < 64; i++)
		mem_free(ptrs[i]);
	mem_free(kept);
	assert_null(hold_current);
}
#endif

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_sizes_and_alignments),
	cmocka_unit_test(test_zalloc_zeroes_what_was_used_before),
	cmocka_unit_test(test_realloc_keeps_the_contents),
	cmocka_unit_test(test_mapped_pages_are_zero_and_aligned),
	cmocka_unit_test(test_errno_is_left_alone),
	cmocka_unit_test(test_threads_share_memory),
#ifndef SANITIZED
	cmocka_unit_test(test_child_of_a_busy_process_can_allocate),
	cmocka_unit_test(test_signal_handlers_do_not_enter_the_allocator_twice),
#endif
};

VMA_TEST_MAIN("mem", tests, NULL, NULL)
