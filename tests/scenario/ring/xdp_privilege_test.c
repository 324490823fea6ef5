/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes get the descriptors of a port group: those of the user that opened the port,
 * if they could open it themselves. And other users cannot prevent that. (Topology: see
 * xdp_port_test.c.)
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/siphash.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"
#include "xdp_veth.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define NOBODY 65534u
#define REFUSED (-1)
#define DIRECTORY "/run/libvma"

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

/* ---- a joining process, by hand ----------------------------------------------------------- */

/* The address where the processes of the group meet: src/ring/xdp/xdp_group_name.c. */
static struct sockaddr_un name_of_group(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	unsigned long long cookie;
	socklen_t len = sizeof(cookie);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len), 0);
	close(fd);
	snprintf(addr.sun_path, sizeof(addr.sun_path), DIRECTORY "/xdp-%d-0-%llx", ifindex, cookie);
	return addr;
}

/* A connection to the process that answers for root, or -errno. */
static int call(void)
{
	struct sockaddr_un addr = name_of_group();
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), error;

	if (!connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	error = errno;
	close(fd);
	return -error;
}

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(128 * sizeof(int))];
};

struct hello {
	uint64_t magic;
	uint32_t version, kind;
};

/* False: the other end is gone. */
static bool say(int fd, const void *text, size_t size, const int *fds, unsigned n)
{
	struct iovec iov = {(void *)(uintptr_t)text, size};
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
	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static void ask(int fd, const int *fds, unsigned n)
{
	struct hello hello = {GROUP_MAGIC, GROUP_VERSION, 0};

	assert_true(say(fd, &hello, sizeof(hello), fds, n));
}

/* Number of descriptors in the answer; REFUSED: the connection was closed instead. */
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
	int fd = call(), got;

	assert_true(fd >= 0);
	ask(fd, fds, n);
	service(); /* accepts */
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

static void test_a_process_without_a_proof_gets_nothing(void **state)
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
		{{theirs, xsks}, 2}, /* any user has a namespace with all capabilities */
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

/* Descriptors in the request are closed. */
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

/* ---- any message ---------------------------------------------------------------------------- */

#define CALLERS 300
#define MESSAGES 10 /* of a caller, at most */

/* Sends something that is nearly a hello, or is none.  True: it is one, with a proof. */
static bool say_anything(int fd, const int proof[2], int other)
{
	struct {
		struct hello hello;
		char more[16];
	} text = {{GROUP_MAGIC, GROUP_VERSION, 0}, {0}};
	size_t size = rand() % 4 ? sizeof(text.hello) : (size_t)rand() % sizeof(text);
	unsigned what = (unsigned)rand() % 8, n = rand() % 2 ? 2 : (unsigned)rand() % 40;
	int fds[40];

	if (what == 0)
		text.hello.magic ^= 1ull << rand() % 64;
	else if (what == 1)
		text.hello.version ^= 1u << rand() % 32;
	else if (what == 2)
		text.hello.kind = (uint32_t)rand() % 6;
	else if (what == 3)
		text.hello.kind = (uint32_t)rand();
	for (unsigned i = 0; i < n; i++)
		fds[i] = rand() % 5 ? proof[i & 1] : other;
	return say(fd, &text, size, fds, n) && size == sizeof(text.hello) && !text.hello.kind &&
	       text.hello.magic == GROUP_MAGIC && text.hello.version == GROUP_VERSION && n == 2 &&
	       fds[0] == proof[0] && fds[1] == proof[1];
}

/* A caller sends and leaves as it likes: it gets descriptors for proofs only, others get theirs. */
static void test_any_message_does_no_harm(void **state)
{
	int proof[] = {xdp_socket_in(here_fd), bpf_map(BPF_MAP_TYPE_XSKMAP)};
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	unsigned before = hidden_descriptors();

	srand(1);
	for (int i = 0; i < CALLERS; i++) {
		int fd = call(), got;
		bool proved = false;

		assert_true(fd >= 0);
		for (int n = rand() % MESSAGES; n >= 0; n--) {
			proved |= say_anything(fd, proof, udp);
			if (rand() % 2)
				service();
		}
		if (rand() % 4)
			service();
		while ((got = answer_of(fd)) != REFUSED) {
			if (got > 0)
				assert_true(proved);
		}
		close(fd);
	}
	for (int i = 0; i < MESSAGES + 2; i++)
		service();
	assert_int_equal(hidden_descriptors(), before);
	assert_in_range(given_for(proof, 2), 12, 128);
	close(udp);
	close(proof[0]);
	close(proof[1]);
}

/* ---- many connections ---------------------------------------------------------------------- */

#define CROWD_CONNS (GROUP_MEMBERS + 10)

/* They have sent a hello of this kind; -1: nothing. */
static void connect_crowd(int fds[CROWD_CONNS], int kind)
{
	for (int i = 0; i < CROWD_CONNS; i++) {
		struct hello hello = {GROUP_MAGIC, GROUP_VERSION, (uint32_t)kind};

		fds[i] = call();
		assert_true(fds[i] >= 0);
		if (kind >= 0)
			assert_true(say(fds[i], &hello, sizeof(hello), NULL, 0));
		service(); /* accepts */
		service(); /* reads */
	}
}

static void disconnect_crowd(int fds[CROWD_CONNS])
{
	for (int i = 0; i < CROWD_CONNS; i++)
		close(fds[i]);
	while (((struct xdp_port *)port)->n_conns)
		service();
}

static bool is_connected(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

static void expect_room_beside(int kind)
{
	int proof[] = {xdp_socket_in(here_fd), bpf_map(BPF_MAP_TYPE_XSKMAP)};
	int fds[CROWD_CONNS], member = call();
	unsigned before = hidden_descriptors();

	ask(member, proof, 2);
	service();
	service();
	assert_in_range(answer_of(member), 12, 128);
	connect_crowd(fds, kind);
	assert_in_range(given_for(proof, 2), 12, 128);
	assert_true(is_connected(member)); /* it has proved itself */
	assert_false(is_connected(fds[0]));
	assert_true(is_connected(fds[CROWD_CONNS - 1]));
	close(member);
	disconnect_crowd(fds);
	assert_int_equal(hidden_descriptors(), before);
	close(proof[0]);
	close(proof[1]);
}

static void test_silent_connections_keep_no_process_out(void **state)
{
	expect_room_beside(-1);
}

static void test_connections_of_alleged_members_keep_no_process_out(void **state)
{
	expect_room_beside(1);
}

/* Those that come after it, before its question is read, do not displace it. */
static void test_a_question_is_read_before_its_connection_gives_way(void **state)
{
	int proof[] = {xdp_socket_in(here_fd), bpf_map(BPF_MAP_TYPE_XSKMAP)};
	int fds[CROWD_CONNS], asker, n = 0;

	for (; n < GROUP_MEMBERS - 1; n++) {
		fds[n] = call();
		assert_true(fds[n] >= 0);
		service();
	}
	asker = call();
	ask(asker, proof, 2);
	for (; n < CROWD_CONNS; n++)
		fds[n] = call();
	for (int i = 0; i < 2 * CROWD_CONNS; i++)
		service();
	assert_in_range(answer_of(asker), 12, 128);
	assert_true(is_connected(asker));
	close(asker);
	disconnect_crowd(fds);
	close(proof[0]);
	close(proof[1]);
}

/* ---- another user ------------------------------------------------------------------------- */

static void test_a_process_of_another_user_does_not_answer(void **state)
{
	int proof[] = {xdp_socket_in(here_fd), bpf_map(BPF_MAP_TYPE_XSKMAP)};
	int early = call(), member = call();

	assert_true(early >= 0 && member >= 0);
	service();
	/* Its request is sent before the change, and is read after it. */
	ask(early, proof, 2);
	assert_int_equal(seteuid(NOBODY), 0);
	service();
	assert_int_equal(answer_of(early), REFUSED);
	assert_int_equal(answer_of(member), REFUSED); /* is for another process */
	service();
	assert_int_equal(call(), -EACCES);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(call(), -ECONNREFUSED);
	service();
	assert_in_range(given_for(proof, 2), 12, 128);
	for (const int *fd = (const int[]){early, member, proof[0], proof[1], -1}; *fd >= 0; fd++)
		close(*fd);
}

/* ---- names -------------------------------------------------------------------------------- */

static void open_port(void)
{
	char why[PORT_WHY];

	if (port_xdp_open(ifindex, &port, why))
		fail_msg("%s", why);
}

static void close_port(void)
{
	port->ops->free_port(port);
}

/* What another user does with an address. */
enum squat { SQUAT_BOUND, SQUAT_LISTENS, SQUAT_ACCEPTS, SQUAT_FULL, SQUATS };

static void squat(const struct sockaddr_un *addr, socklen_t len, enum squat how)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0), n = 0;

	if (bind(fd, (const struct sockaddr *)addr, len) || how == SQUAT_BOUND)
		return;
	listen(fd, how == SQUAT_FULL ? 0 : 64);
	while (how == SQUAT_FULL && n++ < 100 &&
	       !connect(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0),
			(const struct sockaddr *)addr, len))
		;
	if (how == SQUAT_ACCEPTS && !fork()) {
		fcntl(fd, F_SETFL, 0);
		while (accept(fd, NULL, NULL) >= 0)
			;
		_exit(0);
	}
}

/* "@..." is an abstract address. */
static void squat_at(const char *name, enum squat how)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = strlen(name);

	memcpy(addr.sun_path, name, len);
	if (*name == '@')
		addr.sun_path[0] = 0;
	else
		(void)!unlink(name);
	squat(&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len), how);
}

/* All addresses of the library in /proc/net/unix. */
static unsigned squat_what_is_seen(char names[][108], unsigned max)
{
	FILE *list = fopen("/proc/self/net/unix", "re");
	char line[256];
	unsigned n = 0;

	while (n < max && fgets(line, sizeof(line), list)) {
		char *name = strchr(line, '@');

		name = name ? name : strchr(line, '/');
		if (name && strstr(name, "libvma"))
			snprintf(names[n++], sizeof(names[0]), "%.*s", (int)strcspn(name, "\n"),
				 name);
	}
	fclose(list);
	return n;
}

static void be_nobody(void)
{
	assert_int_equal(setgid(NOBODY) | setuid(NOBODY), 0);
}

struct other_user {
	pid_t pid;
	int looks[2], acts[2]; /* pipes: it continues at a byte, and reports when it is done */
};

static void wait_for(const int pipe_[2])
{
	char c;

	assert_int_equal(read(pipe_[0], &c, 1), 1);
}

static void go_on(const int pipe_[2])
{
	assert_int_equal(write(pipe_[1], "", 1), 1);
}

/*
 * A process of another user. It lists the addresses when told to, and takes them when told
 * again. guess: it takes the predictable addresses at once.
 */
static void start_other_user(struct other_user *s, enum squat how, bool guess)
{
	static char names[32][108];
	unsigned n;

	assert_int_equal(pipe(s->looks) | pipe(s->acts), 0);
	s->pid = fork();
	if (s->pid)
		return;
	setpgid(0, 0);
	be_nobody();
	if (guess) {
		struct sockaddr_un path = name_of_group();

		snprintf(names[0], sizeof(names[0]), "@libvma-xdp-%d-0", ifindex);
		squat_at(names[0], how);
		squat_at(path.sun_path, how);
	} else {
		wait_for(s->looks);
		n = squat_what_is_seen(names, 32);
		go_on(s->acts);
		wait_for(s->looks);
		for (unsigned i = 0; i < n; i++)
			squat_at(names[i], how);
	}
	go_on(s->acts);
	pause();
	_exit(0);
}

static void end_other_user(const struct other_user *s)
{
	kill(-s->pid, SIGKILL);
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(s->looks[i]);
		close(s->acts[i]);
	}
}

/* Another process of our user opens the port, too, and shares it. */
static void another_joins(void)
{
	pid_t pid = fork();
	int status = 1;

	assert_true(pid >= 0);
	if (!pid) {
		char why[PORT_WHY];
		int rc = port_xdp_open(ifindex, &port, why);

		if (rc)
			fprintf(stderr, "%s", why);
		_exit(rc != 0);
	}
	for (nsec_t until = clock_now() + DEADLINE;
	     clock_now() < until && !waitpid(pid, &status, WNOHANG); usleep(1000))
		service();
	assert_int_equal(status, 0);
}

/* Nobody waits for an answer that does not come: that would take a minute, and a slow machine does not. */
static void opens_at_once(void)
{
	nsec_t begun = clock_now(), usual = xdp_wait_max;

	xdp_wait_max = 60 * NSEC_PER_SEC;
	open_port();
	another_joins();
	assert_true(clock_now() - begun < 30 * NSEC_PER_SEC);
	close_port();
	xdp_wait_max = usual;
}

static void test_guessed_addresses_keep_no_process_out(void **state)
{
	for (enum squat how = 0; how < SQUATS; how++) {
		struct other_user other;

		start_other_user(&other, how, true);
		wait_for(other.acts);
		opens_at_once();
		end_other_user(&other);
	}
}

/* The addresses are free for a moment, between two processes that have the port. */
static void test_observed_addresses_keep_no_process_out(void **state)
{
	for (enum squat how = 0; how < SQUATS; how++) {
		struct other_user other;

		start_other_user(&other, how, false);
		open_port();
		go_on(other.looks);
		wait_for(other.acts);
		close_port();
		go_on(other.looks);
		wait_for(other.acts);
		opens_at_once();
		end_other_user(&other);
	}
}

/* A member notices that no process answers, and does it itself. */
static void test_observed_addresses_do_not_answer_for_dead_processes(void **state)
{
	for (enum squat how = 0; how < SQUATS; how++) {
		struct other_user other;
		int ready[2];
		char why[PORT_WHY];
		pid_t pid;

		start_other_user(&other, how, false);
		assert_int_equal(pipe(ready), 0);
		pid = fork();
		if (!pid) { /* has the address */
			int rc = port_xdp_open(ifindex, &port, why);

			go_on(ready);
			if (rc)
				_exit(1);
			for (;;) {
				service();
				usleep(1000);
			}
		}
		wait_for(ready);
		open_port();
		go_on(other.looks);
		wait_for(other.acts);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		go_on(other.looks);
		wait_for(other.acts);
		another_joins();
		close_port();
		end_other_user(&other);
		close(ready[0]);
		close(ready[1]);
	}
}

/* Then the address can be guessed; a process of another user that takes it gets nothing. */
static void test_without_a_directory_it_is_shared_or_not(void **state)
{
	shell("mount -o remount,ro /run && mount -o remount,ro /dev/shm");
	open_port();
	another_joins();
	close_port();
	for (enum squat how = 0; how < SQUATS; how++) {
		struct other_user other;

		start_other_user(&other, how, true);
		wait_for(other.acts);
		open_port();
		close_port();
		end_other_user(&other);
	}
	shell("mount -o remount,rw /run && mount -o remount,rw /dev/shm");
}

static void test_another_user_cannot_call(void **state)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		be_nobody();
		_exit(-call());
	}
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), EACCES);
}

/* ---- who died ----------------------------------------------------------------------------- */

static unsigned names_left(void)
{
	DIR *dir = opendir(DIRECTORY);
	struct dirent *entry;
	unsigned n = 0;

	while (dir && (entry = readdir(dir)))
		n += !strncmp(entry->d_name, "xdp-", 4);
	if (dir)
		closedir(dir);
	return n;
}

static void leave_name(const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), DIRECTORY "/%s", name);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
}

static void test_names_of_the_dead_do_not_add_up(void **state)
{
	for (int i = 0; i < 5; i++) {
		char why[PORT_WHY];
		pid_t pid = fork();

		if (!pid) {
			if (port_xdp_open(ifindex, &port, why))
				_exit(1);
			kill(getpid(), SIGKILL);
		}
		waitpid(pid, NULL, 0);
		leave_name("xdp-99-0-1");
		leave_name("xdp-98-0-7777");
		open_port();
		assert_int_equal(names_left(), 1);
		close_port();
	}
}

/* They answer while they live, and are disturbed by few of those that start elsewhere. */
static void test_few_of_many_names_are_looked_at(void **state)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	unsigned looks = 0;
	int fds[20];

	for (int i = 0; i < 20; i++) {
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		snprintf(addr.sun_path, sizeof(addr.sun_path), DIRECTORY "/xdp-99-0-%x", i);
		assert_int_equal(bind(fds[i], (struct sockaddr *)&addr, sizeof(addr)), 0);
		assert_int_equal(listen(fds[i], 1), 0);
	}
	open_port();
	close_port();
	for (int i = 0; i < 20; i++) {
		int fd = accept(fds[i], NULL, NULL);

		looks += fd >= 0;
		if (fd >= 0)
			close(fd);
		close(fds[i]);
	}
	assert_int_equal(looks, 2);
	/* Ten times two: they are gone by then. */
	for (int i = 0; i < 10; i++) {
		assert_int_equal(names_left(), 1 + 20 - 2 * i);
		open_port();
		close_port();
	}
	assert_int_equal(names_left(), 1);
}

static void lock_names(int fd, off_t from, off_t len)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = len};

	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
}

/* All locks are taken but its own, which src/base/host_dir.c computes like this. */
static void test_no_group_waits_for_another_one(void **state)
{
	int fd = open(DIRECTORY "/names", O_RDWR | O_CLOEXEC);
	struct sockaddr_un addr = name_of_group();
	uint64_t hash =
		siphash((const uint8_t *)"of every process", addr.sun_path, strlen(addr.sun_path));
	off_t own = (off_t)(hash >> 2);

	assert_true(fd >= 0);
	lock_names(fd, 0, own);
	lock_names(fd, own + 1, 0);
	open_port();
	assert_int_equal(names_left(), 1);
	close_port();
	close(fd);
}

/* With any umask(2). */
static void test_no_other_user_can_read_the_directory(void **state)
{
	mode_t old = umask(0);
	struct sockaddr_un addr = name_of_group();
	struct stat st;

	open_port();
	assert_int_equal(stat(DIRECTORY, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(stat(addr.sun_path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	close_port();
	umask(old);
}

#define CROWD 6

/* All start at the same time, in a new group, or after a member has died. */
static void test_processes_that_start_together_share_it(void **state)
{
	for (int round = 0; round < 5; round++) {
		int start[2], ready[2];
		pid_t pids[CROWD];
		char c;

		assert_int_equal(pipe(start) | pipe(ready), 0);
		for (int i = 0; i < CROWD; i++) {
			pids[i] = fork();
			if (!pids[i]) {
				char why[PORT_WHY];

				close(start[1]);
				if (read(start[0], &c, 1) || port_xdp_open(ifindex, &port, why)) {
					fprintf(stderr, "%s", why);
					abort();
				}
				go_on(ready);
				for (;;) {
					service();
					usleep(1000);
				}
			}
		}
		close(start[0]);
		close(start[1]);
		close(ready[1]);
		for (int i = 0; i < CROWD; i++)
			assert_int_equal(read(ready[0], &c, 1), 1);
		for (int i = 0; i < CROWD; i++) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
		close(ready[0]);
	}
}

static int find_interface(void **state)
{
	ifindex = (int)if_nametoindex("v0");
	return 0;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define NAMES(fn) cmocka_unit_test_setup(fn, find_interface)

static const struct CMUnitTest tests[] = {
	TEST(test_a_process_without_a_proof_gets_nothing),
	TEST(test_questions_do_not_add_up),
	TEST(test_any_message_does_no_harm),
	TEST(test_silent_connections_keep_no_process_out),
	TEST(test_connections_of_alleged_members_keep_no_process_out),
	TEST(test_a_question_is_read_before_its_connection_gives_way),
	TEST(test_a_process_of_another_user_does_not_answer),
	TEST(test_another_user_cannot_call),
	NAMES(test_guessed_addresses_keep_no_process_out),
	NAMES(test_observed_addresses_keep_no_process_out),
	NAMES(test_observed_addresses_do_not_answer_for_dead_processes),
	NAMES(test_without_a_directory_it_is_shared_or_not),
	NAMES(test_names_of_the_dead_do_not_add_up),
	NAMES(test_few_of_many_names_are_looked_at),
	NAMES(test_no_group_waits_for_another_one),
	NAMES(test_no_other_user_can_read_the_directory),
	NAMES(test_processes_that_start_together_share_it),
};

VMA_TEST_MAIN("xdp_privilege", tests, make_topology, NULL)
