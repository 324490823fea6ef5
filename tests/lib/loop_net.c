/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/loop_net.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"
#include "sock/core/control.h"
#include "sock/move/move_internal.h"
#include "sock/tcp/tcp_orphans.h"
#include "sock/tcp/timewait.h"

#define SLOW_MACHINE 4 /* times the limit of a case: it only ends what hangs */

/* ---- the namespace -------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		perror(path);
	if (fd >= 0)
		close(fd);
}

/* Only a process with one thread can enter a user namespace, and a sanitizer may have a thread. */
static void enter_user_namespace(void)
{
	char uid[32], gid[32];
	int pid, status;

	snprintf(uid, sizeof(uid), "0 %d 1", (int)getuid());
	snprintf(gid, sizeof(gid), "0 %d 1", (int)getgid());
	NET_CHECK(!getenv("LOOP_NET_ENTERED"));
	pid = fork();
	NET_CHECK(pid >= 0);
	if (!pid) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
			perror("unshare");
			_exit(1);
		}
		write_file("/proc/self/setgroups", "deny");
		write_file("/proc/self/uid_map", uid);
		write_file("/proc/self/gid_map", gid);
		setenv("LOOP_NET_ENTERED", "1", 1);
		execl("/proc/self/exe", "test", NULL);
		_exit(1);
	}
	NET_CHECK(waitpid(pid, &status, 0) == pid);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void set_address(int fd, unsigned i)
{
	struct ifreq ifr = {0};
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = fake_link_addr(i)};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "lo:%u", i + 1);
	memcpy(&ifr.ifr_addr, &sin, sizeof(sin));
	NET_CHECK(ioctl(fd, SIOCSIFADDR, &ifr) == 0);
	sin.sin_addr.s_addr = INADDR_NONE;
	memcpy(&ifr.ifr_netmask, &sin, sizeof(sin));
	NET_CHECK(ioctl(fd, SIOCSIFNETMASK, &ifr) == 0);
}

unsigned loop_net_number(const char *name, unsigned otherwise)
{
	const char *value = getenv(name);

	return value ? (unsigned)strtoul(value, NULL, 0) : otherwise;
}

void loop_net_enter(void)
{
	struct ifreq ifr = {.ifr_name = "lo"};
	int fd;

	if (unshare(CLONE_NEWNET))
		enter_user_namespace();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	NET_CHECK(fd >= 0);
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	NET_CHECK(ioctl(fd, SIOCSIFFLAGS, &ifr) == 0);
	for (unsigned i = 0; i < FAKE_LINK_ADDRS; i++)
		set_address(fd, i);
	close(fd);
}

/* ---- start and end --------------------------------------------------------------------- */

static int fds_before;

static void show_fd(int dir, const char *name)
{
	char what[128];
	ssize_t n = readlinkat(dir, name, what, sizeof(what));

	fprintf(stderr, "descriptor %s: %.*s\n", name, n > 0 ? (int)n : 0, what);
}

/* Descriptors of the library have high numbers: they are counted separately. */
static int count_fds(bool show)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0;

	NET_CHECK(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || sys_fd_is_hidden(atoi(entry->d_name)))
			continue;
		if (show)
			show_fd(dirfd(dir), entry->d_name);
		n++;
	}
	closedir(dir);
	return n;
}

static void left(struct sock *sk)
{
	if (sock_verdict(sk) == VERDICT_FORKED)
		return;
	fprintf(stderr, "a socket was left to the kernel: %s\n", verdict_text(sock_verdict(sk)));
	abort();
}

void loop_net_start(void)
{
	static const struct sock_hooks hooks = {.left = left};
	static const struct port_kind *const kinds[] = {&loop_port_kind, NULL};

	params.local = false; /* tests/unit/sock/local has the fixture for that */
	clock_init();
	log_init(params.log_level, params.log_details, false, "");
	fake_link_set_mtu(loop_port_mtu);
	sock_init(&hooks);
	rings_init(kinds);
	fds_before = count_fds(false);
}

/* What intercept does. */
static void before_fork(void)
{
	signals_block();
	sock_fork_prepare(false);
}

static void in_parent(void)
{
	sock_fork_parent(false);
	signals_unblock();
}

static void in_child(void)
{
	sock_fork_child();
	signals_unblock();
	loop_port_forget();
	fds_before = count_fds(false);
}

void loop_net_follow_forks(void)
{
	NET_CHECK_EQ(pthread_atfork(before_fork, in_parent, in_child), 0);
}

/* A reference to any socket of this process, or none. */
static struct sock_ref some_socket(void)
{
	struct sock_ref ref = {NULL, 0};

	NET_CHECK(control_lock());
	if (!list_empty(sock_list()))
		ref = sock_ref_of(container_of(sock_list()->next, struct inet_sock, link));
	control_unlock();
	return ref;
}

void loop_net_close_inherited(void)
{
	struct sock_ref ref;

	while ((ref = some_socket()).sk)
		sock_close(ref);
	for (int fd = 3; fd < 1024; fd++) {
		if (!sys_fd_is_hidden(fd))
			close(fd);
	}
	fds_before = count_fds(false);
}

unsigned loop_net_moves(void)
{
	return __atomic_load_n(&sock_moves_rx.finished, __ATOMIC_RELAXED) +
	       __atomic_load_n(&sock_moves_tx.finished, __ATOMIC_RELAXED);
}

unsigned loop_net_starts(void)
{
	return __atomic_load_n(&sock_moves_rx.started, __ATOMIC_RELAXED) +
	       __atomic_load_n(&sock_moves_tx.started, __ATOMIC_RELAXED);
}

static bool is_settled(const struct sock_move_stats *stats)
{
	unsigned ended = __atomic_load_n(&stats->finished, __ATOMIC_RELAXED) +
			 __atomic_load_n(&stats->abandoned, __ATOMIC_RELAXED);

	return __atomic_load_n(&stats->started, __ATOMIC_RELAXED) == ended;
}

/* The internal thread takes requests, and starts their moves, under the control lock. */
static bool all_settled(void)
{
	bool settled;

	if (!control_lock())
		return false;
	settled = move_no_requests() && is_settled(&sock_moves_rx) && is_settled(&sock_moves_tx);
	control_unlock();
	return settled;
}

void loop_net_settle(void)
{
	if (NET_WAIT(all_settled(), 5000))
		return;
	fprintf(stderr, "moves: rx %u started, %u finished, %u abandoned; tx %u, %u, %u\n",
		sock_moves_rx.started, sock_moves_rx.finished, sock_moves_rx.abandoned,
		sock_moves_tx.started, sock_moves_tx.finished, sock_moves_tx.abandoned);
	abort();
}

/* What the internal thread does a second later. */
static bool close_rings(void)
{
	nsec_t now = clock_now();

	/* Runs the items of inboxes and the work of bursts. */
	for (unsigned i = 0; i < rings_count(); i++)
		sock_poll_ring(rings_at(i));
	NET_CHECK(control_lock());
	rings_close_unused(now, timewait_leave_ring);
	rings_close_unused(now + 2 * NSEC_PER_SEC, timewait_leave_ring);
	control_unlock();
	return loop_port_queues() == 0;
}

static void show_drops(const struct ring *ring)
{
	for (unsigned i = 0; i < DROP_COUNT; i++) {
		if (ring->stats.drops[i])
			fprintf(stderr, "  dropped %lu: %s\n", (long)ring->stats.drops[i],
				drop_text((enum drop)i));
	}
}

void loop_net_show(void)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		const struct ring *ring = rings_at(i);

		if (ring->q) {
			fprintf(stderr,
				"ring %u, key %#lx: %u users, %u flows, %u of %u frames free\n",
				ring->id, ring->key, ring->refs, ring->flows.count,
				ring->q->frames_free, ring->q->frames);
			show_drops(ring);
		}
	}
	fprintf(stderr, "orphans: %u unacknowledged, %u half closed\n",
		tcp_orphans[TCP_ORPHAN_UNACKED], tcp_orphans[TCP_ORPHAN_HALF]);
}

void loop_net_finish(void)
{
	loop_net_settle();
	if (!NET_WAIT(close_rings(), 5000)) {
		loop_net_show();
		NET_CHECK(!"all rings are closed");
	}
	NET_CHECK(!loop_port_leaked());
	/* The internal thread may be reading a file. */
	if (!NET_WAIT(count_fds(false) == fds_before, 5000))
		NET_CHECK_EQ(count_fds(true), fds_before);
	sock_exit();
}

/* ---- cases in children -------------------------------------------------------------------- */

struct loop_net_child loop_net_fork(const char *name, void (*run)(void *arg), void *arg,
				    unsigned seconds)
{
	struct loop_net_child child = {.name = name};

	fflush(NULL);
	child.pid = fork();
	NET_CHECK(child.pid >= 0);
	if (child.pid)
		return child;
	alarm(SLOW_MACHINE * seconds * NET_SLOW);
	loop_net_enter(); /* the child has its own ports */
	run(arg);
	alarm(0);
	fflush(NULL);
	exit(0); /* leaks are reported here */
}

int loop_net_join(const struct loop_net_child *child)
{
	int status;

	if (waitpid(child->pid, &status, 0) != child->pid)
		return -1;
	if (!status)
		return 0;
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s: died of signal %d%s\n", child->name, WTERMSIG(status),
			WTERMSIG(status) == SIGALRM ? " (it took too long)" : "");
	else
		fprintf(stderr, "%s: exit status %d\n", child->name, WEXITSTATUS(status));
	return status;
}

int loop_net_run(const char *name, void (*run)(void *arg), void *arg, unsigned seconds)
{
	struct loop_net_child child = loop_net_fork(name, run, arg, seconds);

	return loop_net_join(&child);
}
