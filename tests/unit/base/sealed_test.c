/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/sys.h"
#include "tests/vma_test.h"

#define SIZE (1u << 20)

static void test_no_process_can_change_its_size(void **state)
{
	char path[64], target[64] = "";
	int fd = sealed_create("sealed-test", 8192);
	struct stat st;

	assert_true(fd >= 0);
	assert_true(sys_fd_is_hidden(fd));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 8192);
	assert_int_equal(sealed_size(fd), 8192);
	assert_false(sealed_is_huge(fd));
	assert_int_equal(ftruncate(fd, 4096), -1);
	assert_int_equal(ftruncate(fd, 16384), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_true(readlink(path, target, sizeof(target) - 1) > 0);
	assert_int_equal(strncmp(target, "/memfd:sealed-test ", 19), 0);
	sys_close(fd);
}

/* Else the kernel ends the program (SIGXFSZ). */
static void test_the_limit_of_file_sizes_is_an_error(void **state)
{
	struct rlimit old, limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = (struct rlimit){4096, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(sealed_create("sealed-test", 8192), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

static void test_memory_that_can_shrink_is_not_sealed(void **state)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(sealed_size(fd), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
	assert_int_equal(sealed_size(fd), 0);
	assert_int_equal(sealed_size(-1), 0);
	close(fd);
}

/* The policy of the file, as a process sees it that maps it later. */
static int policy_of(int fd, unsigned long *nodes)
{
	int mode = -1;
	void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	*nodes = 0;
	assert_int_equal(syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof(*nodes) + 1, at,
				 MPOL_F_ADDR),
			 0);
	*(volatile uint8_t *)at = 1;
	munmap(at, SIZE);
	return mode;
}

static void test_its_pages_come_from_the_node(void **state)
{
	unsigned long nodes;
	int fd = sealed_create_pages("sealed-test", SIZE, false, 0);

	assert_true(fd >= 0);
	assert_int_equal(policy_of(fd, &nodes), MPOL_PREFERRED);
	assert_int_equal(nodes, 1);
	close(fd);
}

static void test_a_node_that_does_not_exist_is_ignored(void **state)
{
	static const int rows[] = {SEALED_ANY_NODE, -2, 63, 64, 1 << 30};
	unsigned long nodes;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int fd = sealed_create_pages("sealed-test", SIZE, false, rows[i]);

		assert_true(fd >= 0);
		assert_int_equal(policy_of(fd, &nodes), MPOL_DEFAULT);
		assert_int_equal(nodes, 0);
		close(fd);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_no_process_can_change_its_size),
	cmocka_unit_test(test_the_limit_of_file_sizes_is_an_error),
	cmocka_unit_test(test_memory_that_can_shrink_is_not_sealed),
	cmocka_unit_test(test_its_pages_come_from_the_node),
	cmocka_unit_test(test_a_node_that_does_not_exist_is_ignored),
};

VMA_TEST_MAIN("sealed", tests, NULL, NULL)
