/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/xdp/deathmark.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "vma_test.h"

#define DIED DEATHMARK_DIED

static struct deathmarks marks;
static int fd;

static int setup(void **state)
{
	marks = (struct deathmarks){0};
	fd = memfd_create("marks", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, DEATHMARK_BYTES), 0);
	return deathmarks_map(&marks, fd);
}

static int teardown(void **state)
{
	deathmarks_unmap(&marks);
	deathmarks_forget();
	return close(fd);
}

static void run(void *(*fn)(void *))
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
	pthread_join(thread, NULL);
}

static void *mark_and_die(void *arg)
{
	deathmarks_begin();
	for (unsigned i = 0; i < 4; i++)
		assert_true(deathmark_set(&marks, i));
	assert_true(deathmark_set(&marks, DEATHMARKS - 1));
	deathmark_clear(&marks, 1);
	deathmark_clear(&marks, 3);
	deathmark_clear(&marks, 7); /* which the test did not set */
	assert_false(marks.words[0].word & DIED);
	return arg;
}

static void test_words_are_marked_when_the_thread_dies(void **state)
{
	run(mark_and_die);
	assert_true(marks.words[0].word & DIED);
	assert_int_equal(marks.words[1].word, 0);
	assert_true(marks.words[2].word & DIED);
	assert_int_equal(marks.words[3].word, 0);
	assert_int_equal(marks.words[7].word, 0);
	assert_true(marks.words[DEATHMARKS - 1].word & DIED);
}

static void *mark_and_end(void *arg)
{
	deathmarks_begin();
	deathmark_set(&marks, 5);
	deathmarks_end();
	return arg;
}

static void test_a_thread_that_ends_in_order_leaves_no_mark(void **state)
{
	run(mark_and_end);
	assert_int_not_equal(marks.words[5].word, 0);
	assert_false(marks.words[5].word & DIED);
	assert_false(deathmark_set(&marks, 6));
	assert_int_equal(marks.words[6].word, 0);
}

static void *begin_and_die(void *arg)
{
	deathmarks_begin();
	return arg;
}

static void test_the_next_thread_has_what_the_last_one_had(void **state)
{
	run(mark_and_end);
	run(begin_and_die);
	assert_true(marks.words[5].word & DIED);
}

static void test_a_process_that_is_killed_leaves_its_marks(void **state)
{
	struct deathmarks own = {0};
	int ready[2], status;
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		deathmarks_forget();
		if (deathmarks_map(&own, fd))
			_exit(1);
		deathmarks_begin();
		deathmark_set(&own, 9);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(marks.words[9].word, pid);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_int_equal(marks.words[9].word, DIED);
	close(ready[0]);
	close(ready[1]);
}

static void test_what_is_unmapped_is_not_marked(void **state)
{
	struct deathmarks other = {0};

	assert_int_equal(deathmarks_map(&other, fd), 0);
	run(mark_and_end);
	deathmarks_unmap(&marks);
	run(begin_and_die);
	assert_int_equal(other.words[5].word, 0);
	deathmarks_unmap(&other);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_words_are_marked_when_the_thread_dies, setup,
					teardown),
	cmocka_unit_test_setup_teardown(test_a_thread_that_ends_in_order_leaves_no_mark, setup,
					teardown),
	cmocka_unit_test_setup_teardown(test_the_next_thread_has_what_the_last_one_had, setup,
					teardown),
	cmocka_unit_test_setup_teardown(test_a_process_that_is_killed_leaves_its_marks, setup,
					teardown),
	cmocka_unit_test_setup_teardown(test_what_is_unmapped_is_not_marked, setup, teardown),
};

VMA_TEST_MAIN("deathmark", tests, NULL, NULL)
