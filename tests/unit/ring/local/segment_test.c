/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments: what two mappings share, what is refused, what is given back. */
#include "ring/local/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "vma_test.h"

#define KIND 7u
#define SIZE (64 * SEGMENT_PAGE)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct segment ours, theirs;

static int create(void **state)
{
	assert_int_equal(segment_create(&ours, KIND, SIZE - 100), 0);
	theirs = SEGMENT_NONE;
	return 0;
}

static int destroy(void **state)
{
	segment_close(&ours);
	segment_close(&theirs);
	assert_int_equal(ours.fd, -1);
	segment_close(&ours);
	return 0;
}

static int open_copy(int fd)
{
	return segment_open(&theirs, dup(fd), KIND, SEGMENT_PAGE, SIZE);
}

static void test_two_mappings_share_bytes(void **state)
{
	assert_int_equal(ours.size, SIZE);
	assert_int_equal(open_copy(ours.fd), 0);
	assert_int_equal(theirs.size, SIZE);
	strcpy(segment_at(&ours, 5000, 100, 8), "shared");
	assert_string_equal(segment_at(&theirs, 5000, 100, 8), "shared");
	assert_int_equal(*(char *)segment_at(&ours, SIZE - 1, 1, 1), 0);
}

static void test_places_outside_are_refused(void **state)
{
	assert_null(segment_at(&ours, 0, 1, 1)); /* the header */
	assert_null(segment_at(&ours, SEGMENT_HEADER - 1, 1, 1));
	assert_non_null(segment_at(&ours, SEGMENT_HEADER, SIZE - SEGMENT_HEADER, 64));
	assert_null(segment_at(&ours, SEGMENT_HEADER, SIZE - SEGMENT_HEADER + 1, 64));
	assert_null(segment_at(&ours, SIZE, 1, 1));
	assert_null(segment_at(&ours, SIZE + 1, 0, 1));
	assert_null(segment_at(&ours, 100, UINT64_MAX - 50, 1));
	assert_null(segment_at(&ours, UINT64_MAX - 50, 100, 1));
	assert_null(segment_at(&ours, 100, 8, 8));
	assert_non_null(segment_at(&ours, 104, 8, 8));
}

static void test_pages_come_with_use_and_go(void **state)
{
	struct stat before, used, after;

	assert_int_equal(fstat(ours.fd, &before), 0);
	assert_true(before.st_blocks * 512 <= SEGMENT_PAGE);
	memset(ours.base + 4096, 1, 10 * 4096);
	assert_int_equal(fstat(ours.fd, &used), 0);
	assert_true(used.st_blocks * 512 >= 11 * 4096);
	segment_release(ours.base + 4096 + 1, 10 * 4096 - 1);
	assert_int_equal(fstat(ours.fd, &after), 0);
	assert_int_equal(after.st_blocks * 512, before.st_blocks * 512 + 4096);
	assert_int_equal(ours.base[4096 + 4095], 1);
	assert_int_equal(ours.base[2 * 4096], 0);
	segment_release(ours.base + 4097, 4095); /* no whole page */
	assert_int_equal(ours.base[4096 + 4095], 1);
}

/* A memory file with a right header, of the given size and seals. */
static int make_file(size_t size, unsigned flags, int seals)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING | flags);
	char header[SEGMENT_HEADER];

	if (fd < 0)
		return fd;
	assert_int_equal(pread(ours.fd, header, sizeof(header), 0), sizeof(header));
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	if (!(flags & MFD_HUGETLB))
		assert_int_equal(pwrite(fd, header, sizeof(header), 0), sizeof(header));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void refuse(int fd, int rc)
{
	assert_true(fd >= 0);
	assert_int_equal(segment_open(&theirs, fd, KIND, SEGMENT_PAGE, SIZE), rc);
	assert_null(theirs.base);
	assert_int_equal(theirs.fd, -1);
}

static void test_other_files_are_refused(void **state)
{
	int fds[2], huge;

	/* What follows differs from one that is good in one thing. */
	assert_int_equal(segment_open(&theirs, make_file(SIZE, 0, SEALS), KIND, 1, SIZE), 0);
	segment_close(&theirs);
	refuse(make_file(SIZE, 0, F_SEAL_SHRINK | F_SEAL_SEAL), -EBADMSG);
	refuse(make_file(SIZE, 0, F_SEAL_GROW | F_SEAL_SEAL), -EBADMSG);
	refuse(make_file(SIZE, 0, F_SEAL_SHRINK | F_SEAL_GROW), -EBADMSG);
	refuse(make_file(SIZE, 0, SEALS | F_SEAL_WRITE), -EACCES);
	refuse(make_file(SIZE / 2, 0, SEALS), -EBADMSG); /* not what its header says */
	refuse(make_file(2 * SIZE, 0, SEALS), -EBADMSG);
	refuse(make_file(100, 0, SEALS), -EBADMSG);
	refuse(open("/proc/self/exe", O_RDONLY), -EBADMSG);
	refuse(open("/dev/zero", O_RDWR), -EBADMSG);
	assert_int_equal(pipe(fds), 0);
	refuse(fds[0], -EBADMSG);
	close(fds[1]);
	huge = make_file(2 << 20, MFD_HUGETLB, SEALS);
	if (huge >= 0) {
		assert_int_equal(segment_open(&theirs, huge, KIND, SEGMENT_PAGE, 4 << 20),
				 -EBADMSG);
		assert_null(theirs.base);
	}
	assert_int_equal(segment_open(&theirs, -1, KIND, 1, SIZE), -EBADF);
}

static void test_another_header_is_refused(void **state)
{
	static const unsigned at[] = {0, 8, 12, 16};

	assert_int_equal(segment_open(&theirs, dup(ours.fd), KIND + 1, 1, SIZE), -EBADMSG);
	assert_int_equal(segment_open(&theirs, dup(ours.fd), KIND, SIZE + 1, 2 * SIZE), -EBADMSG);
	for (unsigned i = 0; i < 4; i++) {
		ours.base[at[i]] ^= 1;
		assert_int_equal(open_copy(ours.fd), -EBADMSG);
		ours.base[at[i]] ^= 1;
	}
	assert_int_equal(open_copy(ours.fd), 0);
}

static void test_a_file_of_another_user_is_refused(void **state)
{
	int fd = make_file(SIZE, 0, SEALS), rc = -EACCES;
	pid_t child;

	assert_int_equal(geteuid(), 0); /* only root can become another user */
	/* In a child, because the C library changes the user of all threads. */
	child = fork();
	if (!child) {
		if (!setresuid(65534, 65534, 65534))
			rc = segment_open(&theirs, fd, KIND, 1, SIZE);
		_exit(rc == -EACCES && !theirs.base ? 0 : 1);
	}
	close(fd);
	assert_int_equal(waitpid(child, &rc, 0), child);
	assert_int_equal(rc, 0);
}

static void test_a_child_has_no_mapping(void **state)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(msync(ours.base, SEGMENT_PAGE, MS_ASYNC) && errno == ENOMEM ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_two_mappings_share_bytes, create, destroy),
	cmocka_unit_test_setup_teardown(test_places_outside_are_refused, create, destroy),
	cmocka_unit_test_setup_teardown(test_pages_come_with_use_and_go, create, destroy),
	cmocka_unit_test_setup_teardown(test_other_files_are_refused, create, destroy),
	cmocka_unit_test_setup_teardown(test_another_header_is_refused, create, destroy),
	cmocka_unit_test_setup_teardown(test_a_file_of_another_user_is_refused, create, destroy),
	cmocka_unit_test_setup_teardown(test_a_child_has_no_mapping, create, destroy),
};

VMA_TEST_MAIN("segment", tests, NULL, NULL)
