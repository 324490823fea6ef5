/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes can receive from the other end of a unix(7) socket: sock_diag(7) names
 * that end, and /proc the processes that have it open.
 *
 * Role		any thread; the table of known ends: control lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/param/param_env.h"
#include "base/sys.h"
#include "sock/core/inet_sock.h"
#include "sock/share/pass.h"

#define REMEMBERED 64
#define FRESH_MIN NSEC_PER_SEC
/* An end is not searched for again for this many times the duration of a search. */
#define COST_FACTOR 100

/* Ends that were found good a short while ago; local: also for local connections. */
static struct {
	uint64_t inode;
	bool local;
	nsec_t until;
} known[REMEMBERED];

static bool stat_at(int dir, const char *name, struct stat *st)
{
	return !sys_call(SYS_newfstatat, dir, name, st, *name ? 0 : AT_EMPTY_PATH, 0, 0);
}

/* ---- the other end ----------------------------------------------------------------- */

struct question {
	struct nlmsghdr head;
	struct unix_diag_req req;
};

/* The inode of the other end in an answer. 0: the connection was not accepted yet; -1: none. */
static int64_t peer_in(const char *answer, size_t len)
{
	struct nlmsghdr head;
	size_t at = NLMSG_LENGTH(sizeof(struct unix_diag_msg));

	if (len < sizeof(head))
		return -1;
	memcpy(&head, answer, sizeof(head));
	if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || head.nlmsg_len > len)
		return -1;
	while (at + sizeof(struct nlattr) <= head.nlmsg_len) {
		struct nlattr attr;
		uint32_t inode;

		memcpy(&attr, answer + at, sizeof(attr));
		if (attr.nla_len < sizeof(attr) || attr.nla_len > head.nlmsg_len - at)
			return -1;
		if (attr.nla_type == UNIX_DIAG_PEER &&
		    attr.nla_len >= sizeof(attr) + sizeof(inode)) {
			memcpy(&inode, answer + at + sizeof(attr), sizeof(inode));
			return inode;
		}
		at += NLA_ALIGN(attr.nla_len);
	}
	return -1;
}

static int64_t peer_of(uint64_t inode)
{
	struct question question = {
		.head = {.nlmsg_len = sizeof(question),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.req = {.sdiag_family = AF_UNIX,
			.udiag_states = UINT32_MAX,
			.udiag_ino = (uint32_t)inode,
			.udiag_show = UDIAG_SHOW_PEER,
			.udiag_cookie = {UINT32_MAX, UINT32_MAX}},
	};
	char answer[512] __attribute__((aligned(8)));
	int fd = sys_fd_hide(sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
	int64_t peer = -1;
	ssize_t n;

	if (fd < 0)
		return -1;
	if (sys_write(fd, &question, sizeof(question)) == sizeof(question)) {
		n = sys_read(fd, answer, sizeof(answer)); /* the kernel has answered by now */
		peer = n > 0 ? peer_in(answer, (size_t)n) : -1;
	}
	sys_close(fd);
	return peer;
}

/* ---- a process --------------------------------------------------------------------- */

#define LINE_MAX_ 128 /* how much of a line of maps is looked at */

/* Writes "device inode" of a line of maps. False: the mapping is not of a file. */
static bool file_in(const char *line, unsigned long *from, unsigned long *to, char *file)
{
	unsigned long inode;
	char device[16];

	if (sscanf(line, "%lx-%lx %*s %*s %15s %lu", from, to, device, &inode) != 4 || !inode)
		return false;
	snprintf(file, LINE_MAX_, "%s %lu", device, inode);
	return true;
}

/* Calls fn for each line of a file of /proc, which ends so, until fn returns true. */
static bool find_line(const char *path, char end, bool (*fn)(const char *line, void *arg),
		      void *arg)
{
	char buf[4096], line[LINE_MAX_];
	int fd = sys_fd_hide(sys_open(path, O_RDONLY | O_CLOEXEC, 0));
	bool found = false;
	size_t at = 0;
	ssize_t n;

	if (fd < 0)
		return false;
	while (!found && (n = sys_read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n && !found; i++) {
			if (buf[i] != end) {
				if (at < sizeof(line) - 1)
					line[at++] = buf[i];
				continue;
			}
			line[at] = 0;
			at = 0;
			found = fn(line, arg);
		}
	}
	sys_close(fd);
	return found;
}

static bool is_ours(const char *line, void *arg)
{
	unsigned long from, to, here = (unsigned long)(uintptr_t)is_ours;

	return file_in(line, &from, &to, arg) && from <= here && here < to;
}

struct wanted {
	char file[LINE_MAX_];
	bool local; /* with VMA_LOCAL=1 */
};

static bool is_wanted(const char *line, void *arg)
{
	const struct wanted *wanted = arg;
	unsigned long from, to;
	char file[LINE_MAX_];

	return file_in(line, &from, &to, file) && !strcmp(file, wanted->file);
}

/* Is line the variable? arg: its value. */
static bool is_local_variable(const char *line, void *arg)
{
	char *const env[] = {(char *)(uintptr_t)line, NULL};

	if (strncmp(line, "VMA_LOCAL=", strlen("VMA_LOCAL=")) != 0)
		return false;
	*(bool *)arg = param_switch_in("VMA_LOCAL", env);
	return true;
}

/* Has the process, which has the library, local connections? */
static bool has_local(const char *pid)
{
	bool local = param_switch_in("VMA_LOCAL", NULL);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	(void)find_line(path, 0, is_local_variable, &local);
	return local;
}

/*
 * Has the process this library, this user and this network namespace? proc: descriptor of
 * /proc.
 */
static bool is_like_us(int proc, const char *pid, struct wanted *wanted)
{
	struct stat st, own;
	char path[64];

	if (atoi(pid) == sys_getpid())
		return true;
	if (!stat_at(proc, pid, &st) || st.st_uid != sys_geteuid())
		return false;
	snprintf(path, sizeof(path), "%s/ns/net", pid);
	if (!stat_at(proc, path, &st) || !stat_at(proc, "self/ns/net", &own) ||
	    st.st_ino != own.st_ino)
		return false;
	if (!wanted->file[0] && !find_line("/proc/self/maps", '\n', is_ours, wanted->file))
		return false;
	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	return find_line(path, '\n', is_wanted, wanted) && (!wanted->local || has_local(pid));
}

/* ---- all of them ------------------------------------------------------------------- */

struct entry { /* of getdents64(2) */
	uint64_t inode;
	int64_t next;
	unsigned short len;
	unsigned char type;
	char name[];
};

/* Calls fn for each entry that begins with a digit, until fn returns true. */
static bool each_number(int dir, bool (*fn)(int dir, const char *name, void *arg), void *arg)
{
	char buf[4096] __attribute__((aligned(8)));
	long n;

	while ((n = sys_call(SYS_getdents64, dir, buf, sizeof(buf), 0, 0, 0)) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *entry = (const struct entry *)(void *)(buf + at);

			at += entry->len;
			if (entry->name[0] >= '0' && entry->name[0] <= '9' &&
			    fn(dir, entry->name, arg))
				return true;
		}
	}
	return false;
}

struct search {
	char link[32]; /* what the link of such a descriptor says */
	struct wanted wanted;
	bool found, stranger;
};

static bool is_it(int dir, const char *name, void *arg)
{
	const struct search *search = arg;
	char link[sizeof(search->link)];
	long n = sys_call(SYS_readlinkat, dir, name, link, sizeof(link) - 1, 0, 0);

	if (n <= 0)
		return false;
	link[n] = 0;
	return !strcmp(link, search->link);
}

static bool look_at_process(int proc, const char *pid, void *arg)
{
	struct search *search = arg;
	char path[64];
	bool has;
	int dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = sys_fd_hide(sys_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
	if (dir < 0)
		return false;
	has = each_number(dir, is_it, search);
	sys_close(dir);
	if (!has)
		return false;
	search->found = true;
	search->stranger = !is_like_us(proc, pid, &search->wanted);
	return search->stranger;
}

/*
 * No process has the other end open, so it was not accepted yet: is the listening process
 * like us?
 */
static bool listener_is_ours(int proc, int unix_fd, struct search *search)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	char pid[16];

	if (sys_getsockopt(unix_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || peer.pid <= 0)
		return false;
	snprintf(pid, sizeof(pid), "%d", (int)peer.pid);
	return is_like_us(proc, pid, &search->wanted);
}

static bool search_all(int unix_fd, int64_t peer, bool local)
{
	struct search search = {.wanted.local = local};
	int proc = sys_fd_hide(sys_open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
	bool ours;

	if (proc < 0)
		return false;
	if (peer) {
		snprintf(search.link, sizeof(search.link), "socket:[%lld]", (long long)peer);
		each_number(proc, look_at_process, &search);
	}
	ours = search.found ? !search.stranger : !peer && listener_is_ours(proc, unix_fd, &search);
	sys_close(proc);
	return ours;
}

/* ---- what is remembered ------------------------------------------------------------ */

static bool is_known(uint64_t inode, bool local)
{
	bool is = false;

	if (!control_lock())
		return false;
	for (unsigned i = 0; i < REMEMBERED; i++)
		is |= known[i].inode == inode && known[i].local >= local &&
		      clock_now() < known[i].until;
	control_unlock();
	return is;
}

static void remember(uint64_t inode, bool local, nsec_t began)
{
	nsec_t now = clock_now();
	unsigned oldest = 0;

	if (!control_lock())
		return;
	for (unsigned i = 0; i < REMEMBERED; i++) {
		if (known[i].until < known[oldest].until)
			oldest = i;
	}
	known[oldest].inode = inode;
	known[oldest].local = local;
	known[oldest].until = now + FRESH_MIN + COST_FACTOR * (now - began);
	control_unlock();
}

bool pass_peer_is_ours(int unix_fd, bool local)
{
	socklen_t len = sizeof(int);
	nsec_t began = clock_now();
	struct stat st;
	int64_t peer;
	int domain;

	if (sys_getsockopt(unix_fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) || domain != AF_UNIX ||
	    !stat_at(unix_fd, "", &st))
		return false;
	if (is_known(st.st_ino, local))
		return true;
	peer = peer_of(st.st_ino);
	if (peer < 0 || !search_all(unix_fd, peer, local))
		return false;
	remember(st.st_ino, local, began);
	return true;
}
