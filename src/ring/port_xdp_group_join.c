/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How processes find each other: an abstract Unix socket named after interface
 * and user (such names are of the network namespace).
 *
 *	whoever binds it	makes the group, and answers newcomers from then on
 *	who finds it taken	asks, and gets the descriptors
 *
 * The connection stays: its end tells either side that the other one is gone.
 * When the answerer goes, another member takes the name; a newcomer that comes
 * in between, and takes the name itself, sees the group's program on the
 * interface, lets go, and asks again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include "base/log.h"
#include "base/sys.h"
#include "ring/port_xdp_internal.h"

#define WAIT_MAX (2 * NSEC_PER_SEC) /* for an answer, or somebody who answers */
#define PAUSE (5 * NSEC_PER_MSEC)
#define BACKLOG 128
#define FIXED_FDS 10 /* and the anchors */
#define FDS_MAX (FIXED_FDS + XDP_STEER_QUEUES)

enum hello_kind { HELLO_NEW, HELLO_MEMBER, HELLO_ANSWER };

struct hello {
	uint64_t magic;
	uint32_t version;
	uint32_t kind;
};

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

/* What is handed over, in this order. */
static unsigned shared_fds(struct xdp_port *port, int *fds[FDS_MAX])
{
	unsigned n = 0;

	fds[n++] = &port->group.ctl_fd;
	fds[n++] = &port->umem_fd;
	fds[n++] = &port->bell_fd;
	fds[n++] = &port->link_fd;
	fds[n++] = &port->xsks_fd;
	fds[n++] = &port->flows3_fd;
	fds[n++] = &port->flows5_fd;
	fds[n++] = &port->local_ports_fd;
	fds[n++] = &port->shares_fd;
	fds[n++] = &port->conf_fd;
	for (unsigned i = 0; i < XDP_STEER_QUEUES; i++)
		fds[n++] = &port->anchors[i];
	return n;
}

static socklen_t name_of(const struct xdp_port *port, struct sockaddr_un *addr)
{
	int len;

	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(addr->sun_path + 1, sizeof(addr->sun_path) - 1, "libvma-xdp-%d-%u",
		       port->base.ifindex, (unsigned)sys_call(SYS_geteuid, 0, 0, 0, 0, 0, 0));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int open_socket(void)
{
	return sys_fd_hide(sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* The listening socket, or -EADDRINUSE... */
static int take_name(const struct xdp_port *port)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(port, &addr);
	int fd = open_socket(), rc;

	if (fd < 0)
		return fd;
	rc = sys_bind(fd, (struct sockaddr *)&addr, len);
	if (!rc)
		rc = sys_listen(fd, BACKLOG);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

/* Who is at the other end; false: a stranger. */
static bool is_same_user(int fd, struct ucred *peer)
{
	socklen_t len = sizeof(*peer);

	return !sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) &&
	       peer->uid == (uid_t)sys_call(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

static int say(int fd, enum hello_kind kind)
{
	struct hello hello = {.magic = GROUP_MAGIC, .version = GROUP_VERSION, .kind = kind};
	ssize_t rc = sys_sendto(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);

	return rc < 0 ? (int)rc : 0;
}

/* A connection to whoever has the name; -ECONNREFUSED and -EAGAIN: not yet. */
static int call(const struct xdp_port *port, enum hello_kind kind, struct ucred *peer)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(port, &addr);
	int fd = open_socket(), rc;

	if (fd < 0)
		return fd;
	rc = sys_connect(fd, (struct sockaddr *)&addr, len);
	if (!rc && !is_same_user(fd, peer))
		rc = -EPERM;
	if (!rc)
		rc = say(fd, kind);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

/* ---- the answerer ----------------------------------------------------------------------- */

static void drop_conn(struct xdp_port *port, int conn)
{
	for (unsigned i = 0; i < port->n_conns; i++) {
		if (port->conns[i] != conn)
			continue;
		xdp_service_close(port, &port->conns[i]);
		port->conns[i] = port->conns[--port->n_conns];
		return;
	}
}

void xdp_group_accept(struct xdp_port *port)
{
	struct ucred peer;
	int fd;

	while ((fd = sys_accept4(port->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		fd = sys_fd_hide(fd);
		if (!is_same_user(fd, &peer) || port->n_conns == GROUP_MEMBERS) {
			sys_close(fd);
			continue;
		}
		port->conns[port->n_conns++] = fd;
		xdp_service_watch(port, fd, EPOLLIN);
	}
}

static int hand_over(struct xdp_port *port, int conn)
{
	struct hello hello = {.magic = GROUP_MAGIC, .version = GROUP_VERSION, .kind = HELLO_ANSWER};
	struct iovec iov = {&hello, sizeof(hello)};
	union control control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	int *from[FDS_MAX], fds[FDS_MAX];
	unsigned n = FIXED_FDS + port->group.queues;
	ssize_t rc;

	shared_fds(port, from);
	for (unsigned i = 0; i < n; i++)
		fds[i] = *from[i];
	msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
	rc = sys_sendmsg(conn, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return rc < 0 ? (int)rc : 0;
}

bool xdp_group_answer(struct xdp_port *port, int conn)
{
	struct hello hello;
	ssize_t len = sys_recvfrom(conn, &hello, sizeof(hello), MSG_DONTWAIT, NULL, NULL);

	if (len == -EAGAIN)
		return true;
	if (len == sizeof(hello) && hello.magic == GROUP_MAGIC) {
		if (hello.kind == HELLO_MEMBER)
			return true;
		/* Another version gets the news of ours, and no descriptors. */
		if (hello.version == GROUP_VERSION ? !hand_over(port, conn)
						   : !say(conn, HELLO_ANSWER))
			return true;
	}
	drop_conn(port, conn);
	return false;
}

void xdp_group_find_answerer(struct xdp_port *port)
{
	struct ucred peer;
	int fd = take_name(port);

	if (fd >= 0) {
		port->listen_fd = fd;
		xdp_service_watch(port, fd, EPOLLIN);
		return;
	}
	fd = call(port, HELLO_MEMBER, &peer);
	if (fd >= 0) {
		port->lifeline_fd = fd;
		xdp_service_watch(port, fd, EPOLLIN);
	}
}

/* ---- the newcomer ------------------------------------------------------------------------- */

static void forget_fds(struct xdp_port *port)
{
	int *fds[FDS_MAX];
	unsigned n = shared_fds(port, fds);

	for (unsigned i = 0; i < n; i++)
		*fds[i] = -1;
}

static void undo(struct xdp_port *port)
{
	group_member_leave(&port->group);
	xdp_unload(port);
	xdp_group_drop(port);
}

/* The descriptors that came with a message; how many. */
static unsigned take_fds(struct xdp_port *port, struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	int *to[FDS_MAX], fd;
	unsigned n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	shared_fds(port, to);
	n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	for (unsigned i = 0; i < n && i < FDS_MAX; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		*to[i] = sys_fd_hide(fd);
	}
	return n;
}

static int why_silent(const struct xdp_port *port, const struct ucred *peer, char why[PORT_WHY])
{
	return xdp_why(why, -EBUSY,
		       "Interface %s is not accelerated: process %d, which shares it, does not\n"
		       "answer.  Is it stopped?\n",
		       port->base.name, (int)peer->pid);
}

/* -EAGAIN: the answerer gave up, or died. */
static int receive_group(struct xdp_port *port, int fd, const struct ucred *peer, nsec_t deadline,
			 char why[PORT_WHY])
{
	struct hello hello = {0};
	struct iovec iov = {&hello, sizeof(hello)};
	union control control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	nsec_t left = deadline - group_now();
	struct timespec ts = {.tv_sec = left / NSEC_PER_SEC, .tv_nsec = left % NSEC_PER_SEC};
	unsigned n;

	if (left <= 0 || sys_ppoll(&pfd, 1, &ts, NULL) == 0)
		return why_silent(port, peer, why);
	if (sys_recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(hello))
		return -EAGAIN;
	n = take_fds(port, &msg);
	if (hello.magic != GROUP_MAGIC || hello.version != GROUP_VERSION)
		return xdp_why(why, -EPROTO,
			       "Interface %s is not accelerated: process %d, which has it, uses\n"
			       "another version of this library.\n",
			       port->base.name, (int)peer->pid);
	return n > FIXED_FDS ? 0 : -EAGAIN;
}

static int try_join(struct xdp_port *port, nsec_t deadline, char why[PORT_WHY])
{
	struct ucred peer = {0};
	int fd = call(port, HELLO_NEW, &peer), rc;

	if (fd == -EPERM)
		return xdp_why(why, -EBUSY,
			       "Interface %s is not accelerated: a process of user %u pretends to\n"
			       "share it (pid %d).\n",
			       port->base.name, peer.uid, (int)peer.pid);
	if (fd < 0)
		return xdp_why(why, -EAGAIN,
			       "Interface %s is not accelerated: the process that shares it does\n"
			       "not answer.\n",
			       port->base.name);
	if (peer.pid == (pid_t)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0))
		rc = xdp_why(
			why, -EBUSY,
			"Interface %s is not accelerated twice: this process has it already.\n",
			port->base.name);
	else
		rc = receive_group(port, fd, &peer, deadline, why);
	if (!rc) {
		rc = xdp_group_adopt(port, why);
		port->lifeline_fd = fd;
	}
	if (!rc)
		return 0;
	sys_close(fd);
	port->lifeline_fd = -1;
	undo(port);
	return rc;
}

static int try_make(struct xdp_port *port, const struct xdp_device *dev, char why[PORT_WHY])
{
	int rc;

	port->listen_fd = take_name(port);
	if (port->listen_fd < 0)
		return port->listen_fd;
	rc = xdp_group_memory(port, why);
	if (!rc)
		rc = xdp_load(port, dev, why); /* sleeps for some 10 ms */
	xdp_group_memory_wait(port);
	if (!rc)
		rc = xdp_group_create(port, why);
	if (!rc)
		return 0;
	/* Whoever waits for an answer sees the end of it, and tries in turn. */
	sys_close_fd(&port->listen_fd);
	undo(port);
	return rc;
}

int xdp_group_join(struct xdp_port *port, const struct xdp_device *dev, char why[PORT_WHY])
{
	nsec_t deadline = group_now() + WAIT_MAX;
	int rc;

	forget_fds(port);
	for (;;) {
		struct timespec pause = {.tv_nsec = PAUSE};

		rc = try_make(port, dev, why);
		if (rc == -EADDRINUSE)
			rc = try_join(port, deadline, why);
		if (rc != -EAGAIN)
			return rc;
		if (group_now() > deadline)
			return -EBUSY;
		sys_ppoll(NULL, 0, &pause, NULL);
	}
}
