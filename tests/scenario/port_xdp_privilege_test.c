/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is given the descriptors of a port group: a process of the user that opened the
 * port, which could open it itself (topology: see port_xdp_test.c).
 */
#include <errno.h>
#include <linux/bpf.h>
#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sys.h"
#include "ring/port_xdp_internal.h"
#include "xdp_veth.h"

#define NOBODY 65534u
#define REFUSED (-1)

static struct port *port;
static int ifindex;

static int setup(void **state)
{
	char why[PORT_WHY];

	ifindex = (int)if_nametoindex("v0");
	if (port_xdp_open(ifindex, &port, why))
		fail_msg("%s", why);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(seteuid(0), 0);
	port->ops->free_port(port);
	return 0;
}

static void service(void)
{
	int fds[PORT_FDS_MAX];

	assert_int_equal(port->ops->service(port, fds), 1);
}

/* ---- a newcomer, by hand ---------------------------------------------------------------- */

static socklen_t name_of(unsigned uid, struct sockaddr_un *addr)
{
	int len;

	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(addr->sun_path + 1, sizeof(addr->sun_path) - 1, "libvma-xdp-%d-%u", ifindex,
		       uid);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

/* A connection to whoever answers for the user, or -errno. */
static int call(unsigned uid)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(uid, &addr);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (!connect(fd, (struct sockaddr *)&addr, len))
		return fd;
	close(fd);
	return -errno;
}

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(128 * sizeof(int))];
};

static void ask(int fd, const int *fds, unsigned n)
{
	struct {
		uint64_t magic;
		uint32_t version, kind;
	} hello = {GROUP_MAGIC, GROUP_VERSION, 0};
	struct iovec iov = {&hello, sizeof(hello)};
	union control control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &msg, 0), sizeof(hello));
}

/* How many descriptors came back; REFUSED: the connection was closed instead. */
static int answer_of(int fd)
{
	char text[64];
	struct iovec iov = {text, sizeof(text)};
	union control control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int n = 0, one;

	if (len <= 0)
		return REFUSED;
	if (c)
		n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	for (int i = 0; i < n; i++) {
		memcpy(&one, CMSG_DATA(c) + (size_t)i * sizeof(int), sizeof(int));
		close(one);
	}
	return n;
}

static int given_for(const int *fds, unsigned n)
{
	int fd = call(0), got;

	assert_true(fd >= 0);
	ask(fd, fds, n);
	service(); /* accepts, */
	service(); /* reads */
	got = answer_of(fd);
	close(fd);
	service();
	return got;
}

/* ---- what proves something ---------------------------------------------------------------- */

static int bpf_map(unsigned type)
{
	union bpf_attr attr = {.map_type = type, .key_size = 4, .value_size = 4, .max_entries = 1};
	int fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));

	assert_true(fd >= 0);
	return fd;
}

static int xdp_socket_in(int netns)
{
	int fd;

	assert_int_equal(setns(netns, CLONE_NEWNET), 0);
	fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	assert_int_equal(setns(here_fd, CLONE_NEWNET), 0);
	assert_true(fd >= 0);
	return fd;
}

static void test_a_newcomer_without_a_proof_gets_nothing(void **state)
{
	int ours = xdp_socket_in(here_fd), theirs = xdp_socket_in(peer_fd);
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	int xsks = bpf_map(BPF_MAP_TYPE_XSKMAP), array = bpf_map(BPF_MAP_TYPE_ARRAY);
	const struct {
		int fds[3];
		unsigned n;
	} rows[] = {
		{{0}, 0},
		{{ours}, 1},
		{{xsks}, 1},
		{{ours, array}, 2},
		{{ours, udp}, 2},
		{{udp, xsks}, 2},
		{{xsks, ours}, 2},
		{{theirs, xsks}, 2}, /* anybody has a namespace with all capabilities */
		{{ours, xsks, xsks}, 3},
	};
	const int proof[] = {ours, xsks};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (given_for(rows[i].fds, rows[i].n) != REFUSED)
			fail_msg("row %zu is taken for a proof", i);
	}
	assert_in_range(given_for(proof, 2), 12, 128);
	for (const int *fd = (const int[]){ours, theirs, udp, xsks, array, -1}; *fd >= 0; fd++)
		close(*fd);
}

static unsigned hidden_descriptors(void)
{
	unsigned n = 0;

	for (int fd = sys_fd_next_hidden(0); fd >= 0; fd = sys_fd_next_hidden(fd + 1))
		n++;
	return n;
}

/* What came with them is not kept. */
static void test_questions_do_not_add_up(void **state)
{
	int proof[] = {xdp_socket_in(here_fd), bpf_map(BPF_MAP_TYPE_XSKMAP)};
	unsigned before = hidden_descriptors();

	for (int i = 0; i < 10; i++) {
		given_for(proof, 2);
		given_for(proof, 1);
	}
	assert_int_equal(hidden_descriptors(), before);
	close(proof[0]);
	close(proof[1]);
}

/* ---- another user ------------------------------------------------------------------------- */

static void test_who_became_another_user_answers_nobody(void **state)
{
	int proof[] = {xdp_socket_in(here_fd), bpf_map(BPF_MAP_TYPE_XSKMAP)};
	int early = call(0), member = call(0);

	assert_true(early >= 0 && member >= 0);
	service();
	/* Its question comes before the change, and is read after it. */
	ask(early, proof, 2);
	assert_int_equal(seteuid(NOBODY), 0);
	service();
	assert_int_equal(answer_of(early), REFUSED);
	assert_int_equal(answer_of(member), REFUSED); /* looks for somebody else */
	assert_int_equal(call(0), -ECONNREFUSED);
	assert_int_equal(call(NOBODY), -ECONNREFUSED);
	service();
	assert_int_equal(call(0), -ECONNREFUSED);
	assert_int_equal(seteuid(0), 0);
	service();
	assert_in_range(given_for(proof, 2), 12, 128);
	for (const int *fd = (const int[]){early, member, proof[0], proof[1], -1}; *fd >= 0; fd++)
		close(*fd);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_a_newcomer_without_a_proof_gets_nothing),
	TEST(test_questions_do_not_add_up),
	TEST(test_who_became_another_user_answers_nobody),
};

VMA_TEST_MAIN("port_xdp_privilege", tests, make_topology, NULL)
