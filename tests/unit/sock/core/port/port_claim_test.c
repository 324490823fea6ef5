/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/port_claim.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sock/core/control.h"
#include "tests/vma_test.h"

/* Of a socket of this test: others of this test run at the same time, in the same namespace. */
static unsigned long inode;
static int owner;

static int set_up(void **state)
{
	struct stat st;

	owner = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (owner < 0 || fstat(owner, &st))
		return -1;
	inode = st.st_ino;
	return !control_lock();
}

static int tear_down(void **state)
{
	control_unlock();
	close(owner);
	return 0;
}

/* A process that claims the port, or does not, until the test ends it. */
static pid_t start_claimant(void)
{
	int ready[2], fd = -1;
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		fd = port_claim(inode);
		if (fd < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_a_claim_lasts_as_long_as_its_descriptor(void **state)
{
	int fd;

	assert_false(port_is_claimed(inode));
	fd = port_claim(inode);
	assert_true(fd >= 0);
	assert_true(port_is_claimed(inode));
	assert_false(port_is_claimed(inode + 1));
	assert_false(port_is_claimed(inode - 1));
	close(fd);
	assert_false(port_is_claimed(inode));
}

static void test_a_claim_ends_with_its_process(void **state)
{
	pid_t pid = start_claimant();

	assert_true(port_is_claimed(inode));
	end(pid);
	assert_false(port_is_claimed(inode));
}

/* A forked process that has the socket claims the port, too. */
static void test_the_last_claim_counts(void **state)
{
	pid_t pids[] = {start_claimant(), start_claimant()};

	end(pids[0]);
	assert_true(port_is_claimed(inode));
	end(pids[1]);
	assert_false(port_is_claimed(inode));
}

/* What any user can do: create names whose meaning is known. */
static void test_a_name_is_no_claim_and_no_obstacle(void **state)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int len = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "libvma-port-%u-%lu",
			   geteuid(), inode);
	int squatter = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), fd;

	assert_int_equal(
		bind(squatter, (struct sockaddr *)&addr,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)len),
		0);
	assert_false(port_is_claimed(inode));
	fd = port_claim(inode);
	assert_true(fd >= 0);
	assert_true(port_is_claimed(inode));
	close(fd);
	close(squatter);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	CASE(test_a_claim_lasts_as_long_as_its_descriptor),
	CASE(test_a_claim_ends_with_its_process),
	CASE(test_the_last_claim_counts),
	CASE(test_a_name_is_no_claim_and_no_obstacle),
};

VMA_TEST_MAIN("sock/port_claim", tests, NULL, NULL)
