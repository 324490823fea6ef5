/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that are none of ours.  One of another user: tests/scenario/rules/file_test.sh. */
#include "base/conf/conf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "tests/vma_test.h"

static char dir[] = "/tmp/conf_file.XXXXXX", path[64];

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/file", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void write_file(const char *text, size_t len, mode_t mode)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

/* The result; what was read is in *text. */
static int read_file(const char *which, char **text, size_t *len, const char **why)
{
	*why = NULL;
	return conf_file_read(which, text, len, why);
}

static void check_refused(const char *which, int error, const char *reason)
{
	const char *why;
	char *text;
	size_t len;

	assert_int_equal(read_file(which, &text, &len, &why), error);
	assert_null(text);
	assert_non_null(strstr(why, reason));
}

static void test_all_bytes_are_read(void **state)
{
	const char *why;
	char *big = malloc(CONF_FILE_MAX + 1), *text;
	size_t len;

	(void)state;
	write_file("a\0b", 3, 0600);
	assert_int_equal(read_file(path, &text, &len, &why), 0);
	assert_int_equal(len, 3);
	assert_memory_equal(text, "a\0b", 3);
	mem_free(text);
	write_file("", 0, 0444);
	assert_int_equal(read_file(path, &text, &len, &why), 0);
	assert_int_equal(len, 0);
	mem_free(text);
	memset(big, 'x', CONF_FILE_MAX + 1);
	write_file(big, CONF_FILE_MAX, 0600);
	assert_int_equal(read_file(path, &text, &len, &why), 0);
	assert_int_equal(len, CONF_FILE_MAX);
	assert_memory_equal(text, big, len);
	mem_free(text);
	write_file(big, CONF_FILE_MAX + 1, 0600);
	check_refused(path, -EPERM, "more than 1 MiB");
	free(big);
}

static void test_a_file_that_any_user_can_write_is_refused(void **state)
{
	(void)state;
	write_file("x", 1, 0646);
	check_refused(path, -EPERM, "every user can write it");
}

/* Opening a FIFO, or a terminal, must not wait; a directory can be opened, but not read. */
static void test_what_is_no_file_is_refused(void **state)
{
	(void)state;
	unlink(path);
	check_refused(path, -ENOENT, "No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	check_refused(path, -EPERM, "not a regular file");
	unlink(path);
	check_refused(dir, -EPERM, "not a regular file");
	check_refused("/dev/zero", -EPERM, "not a regular file");
	assert_int_equal(symlink(path, path), 0);
	check_refused(path, -ELOOP, "symbolic links");
	unlink(path);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_all_bytes_are_read),
	cmocka_unit_test(test_a_file_that_any_user_can_write_is_refused),
	cmocka_unit_test(test_what_is_no_file_is_refused),
};

VMA_TEST_MAIN("conf_file", tests, set_up, tear_down)
