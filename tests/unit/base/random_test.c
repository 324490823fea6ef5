/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each case runs in a child. There, seccomp may forbid getrandom(2), as services do, and the
 * getauxval() below may hide AT_RANDOM.
 */
#include "base/random.h"

#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/vma_test.h"

#define LEN 43 /* not a multiple of a word */

static bool no_auxv;

unsigned long __getauxval(unsigned long type);

unsigned long getauxval(unsigned long type)
{
	return no_auxv && type == AT_RANDOM ? 0 : __getauxval(type);
}

static bool refuse_getrandom(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(*code), .filter = code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) &&
	       syscall(SYS_getrandom, &code, 1, 0) < 0;
}

static int status_of(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* In 64 draws no byte has the same value in all, and no two draws are equal. */
static bool draws_are_random(void)
{
	static uint8_t draw[64][LEN];

	for (unsigned i = 0; i < 64; i++) {
		if (!random_bytes(draw[i], LEN))
			return false;
		for (unsigned j = 0; j < i; j++) {
			if (!memcmp(draw[i], draw[j], LEN))
				return false;
		}
	}
	for (unsigned at = 0; at < LEN; at++) {
		unsigned same = 0;

		for (unsigned i = 0; i < 64; i++)
			same += draw[i][at] == draw[0][at];
		if (same == 64)
			return false;
	}
	return true;
}

static void test_draws_are_random(void **state)
{
	assert_true(draws_are_random());
}

static void test_without_getrandom_they_are_too(void **state)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(!refuse_getrandom() ? 2 : !draws_are_random());
	assert_int_equal(status_of(pid), 0);
}

/* Forked processes have the same AT_RANDOM. */
static void test_without_getrandom_related_processes_draw_others(void **state)
{
	uint8_t draw[2][LEN];

	for (unsigned i = 0; i < 2; i++) {
		int fds[2];
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (!pid) {
			uint8_t mine[LEN];

			_exit(!refuse_getrandom() || !random_bytes(mine, LEN) ||
			      write(fds[1], mine, LEN) != LEN);
		}
		assert_int_equal(status_of(pid), 0);
		assert_int_equal(read(fds[0], draw[i], LEN), LEN);
		close(fds[0]);
		close(fds[1]);
	}
	assert_memory_not_equal(draw[0], draw[1], LEN);
}

static void test_without_any_source_it_says_so_and_writes_nothing(void **state)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		uint8_t buf[LEN], before[LEN];

		memset(buf, 0x5a, LEN);
		memcpy(before, buf, LEN);
		no_auxv = true;
		_exit(!refuse_getrandom() || random_bytes(buf, LEN) ||
		      memcmp(buf, before, LEN) != 0);
	}
	assert_int_equal(status_of(pid), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_draws_are_random),
	cmocka_unit_test(test_without_getrandom_they_are_too),
	cmocka_unit_test(test_without_getrandom_related_processes_draw_others),
	cmocka_unit_test(test_without_any_source_it_says_so_and_writes_nothing),
};

VMA_TEST_MAIN("random", tests, NULL, NULL)
