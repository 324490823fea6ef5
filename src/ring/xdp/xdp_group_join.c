/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a process becomes a member of the group, by a Unix socket with a name (xdp_group_name.c).
 *
 * A process that takes the name makes the group and answers newcomers from then on: it is the
 * answerer.  A process that finds the name taken is a newcomer: it asks the answerer, which sends
 * the group's descriptors.
 *
 * The user of the group is the effective user that opened the port, even if the process changes
 * its user later.  A newcomer proves that it could open the port itself: with its question it
 * sends descriptors that only a process with the capabilities can make (xdp_group_proof.c).
 *
 * The connection stays open; when it ends, each side knows that the other one is gone.  When the
 * answerer is gone, another member takes the name.  A newcomer that takes the name first sees the
 * group's program on the interface, gives up the name, and asks again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "ring/xdp/xdp_internal.h"

#define OTHER_MAX (300 * NSEC_PER_MSEC) /* if another user seems to have the interface */
#define PAUSE (5 * NSEC_PER_MSEC)
#define FIXED_FDS 16 /* descriptors that are handed over, without the anchors */
#define FDS_MAX (FIXED_FDS + XDP_STEER_QUEUES)
#define ACCEPTED_MAX 32 /* newcomers that are accepted before the answerer does something else */

nsec_t xdp_wait_max = 2 * NSEC_PER_SEC;
/* for an answerer that runs, but gets no processor: other threads use them */
#define STARVED_MAX (8 * NSEC_PER_SEC)

enum hello_kind { HELLO_NEW, HELLO_MEMBER, HELLO_ANSWER, HELLO_NONE /* never sent */ };

struct hello {
	uint64_t magic;
	uint32_t version;
	uint32_t kind;
};

/* The descriptors that are handed over, in this order. */
static unsigned shared_fds(struct xdp_port *port, int *fds[FDS_MAX])
{
	unsigned n = 0;

	fds[n++] = &port->group.ctl_fd;
	fds[n++] = &port->umem_fd;
	fds[n++] = &port->wake_fd;
	fds[n++] = &port->link_fd;
	fds[n++] = &port->xsks_fd;
	fds[n++] = &port->flows3_fd;
	fds[n++] = &port->flows5_fd;
	fds[n++] = &port->local_ports_fd;
	fds[n++] = &port->shares_fd;
	fds[n++] = &port->gone_fd;
	fds[n++] = &port->fences_fd;
	fds[n++] = &port->grants_fd;
	fds[n++] = &port->lives_fd;
	fds[n++] = &port->kernel_fd;
	fds[n++] = &port->exact_fd;
	fds[n++] = &port->conf_fd;
	for (unsigned i = 0; i < XDP_STEER_QUEUES; i++)
		fds[n++] = &port->anchors[i];
	return n;
}

bool xdp_group_outgrown(const struct xdp_port *port)
{
	return __atomic_load_n(&port->conf->outgrown, __ATOMIC_RELAXED);
}

bool xdp_group_is_opener(const struct xdp_port *port)
{
	return port->uid == sys_geteuid();
}

bool xdp_group_needs(struct port *base)
{
	const struct xdp_port *port = (struct xdp_port *)base;

	/* Slots of others: this port has no queues. Also of those that are not fenced yet. */
	return xdp_group_is_opener(port) && !port->fenced &&
	       __atomic_load_n(&port->group.ctl->n_slots, __ATOMIC_RELAXED);
}

static int say(int fd, enum hello_kind kind, const int *fds, unsigned n)
{
	struct hello hello = {.magic = GROUP_MAGIC, .version = GROUP_VERSION, .kind = kind};
	struct iovec iov = {&hello, sizeof(hello)};

	return unix_socket_send(fd, &iov, 1, fds, n);
}

/*
 * Receives a message.  False: none has come yet.  A message that is no hello gets the kind
 * HELLO_NONE, a hello of another library the version 0.  *n descriptors came with it.
 */
static bool hear(int fd, struct hello *hello, int fds[FDS_MAX], unsigned *n)
{
	struct iovec iov = {hello, sizeof(*hello)};
	ssize_t len = unix_socket_receive(fd, &iov, 1, 0, fds, FDS_MAX, n);

	if (len != sizeof(*hello))
		hello->kind = HELLO_NONE;
	else if (hello->magic != GROUP_MAGIC)
		hello->version = 0;
	return len != -EAGAIN;
}

/* ---- calling ---------------------------------------------------------------------------- */

/*
 * A connection to the process that has the name, with a message sent.  -ECONNREFUSED, -EAGAIN:
 * not possible yet; -EREMOTE: another user has the name.
 */
static int call_answerer(const struct xdp_port *port, enum hello_kind kind, const int *fds,
			 unsigned n, struct ucred *peer)
{
	int fd = xdp_group_name_call(port), rc;

	if (fd < 0)
		return fd;
	rc = unix_socket_is_of(fd, port->uid, peer) ? 0 : -EREMOTE;
	if (!rc)
		rc = say(fd, kind, fds, n);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

/* As call_answerer(), with a proof.  It is made first: who is connected and silent is soon dropped. */
static int ask_to_join(const struct xdp_port *port, struct ucred *peer)
{
	int proof[XDP_PROOFS], rc = xdp_group_prove(proof);

	if (!rc)
		rc = call_answerer(port, HELLO_NEW, proof, XDP_PROOFS, peer);
	unix_socket_close_fds(proof, XDP_PROOFS);
	return rc;
}

/* ---- the answerer ----------------------------------------------------------------------- */

static struct group_conn *find_conn(struct xdp_port *port, int fd)
{
	for (unsigned i = 0; i < port->n_conns; i++) {
		if (port->conns[i].fd == fd)
			return &port->conns[i];
	}
	return NULL;
}

static void drop_conn(struct xdp_port *port, struct group_conn *conn)
{
	struct group_conn *end = &port->conns[port->n_conns--];

	xdp_service_close(port, &conn->fd);
	memmove(conn, conn + 1, (size_t)(end - conn - 1) * sizeof(*conn));
}

/* The first connection to give way to a newcomer.  NULL: all have sent a proof. */
static struct group_conn *lowest(struct xdp_port *port)
{
	struct group_conn *lowest = NULL;

	for (struct group_conn *conn = port->conns; conn < port->conns + port->n_conns; conn++) {
		if (conn->rank < (lowest ? lowest->rank : GROUP_CONN_PROVEN))
			lowest = conn;
	}
	return lowest;
}

/* False: no connection can give way. */
static bool make_room(struct xdp_port *port)
{
	struct group_conn *conn;

	while (port->n_conns == GROUP_MEMBERS && (conn = lowest(port))) {
		enum group_conn_rank rank = conn->rank;

		/* Its message may be here. */
		if (rank == GROUP_CONN_SILENT && !xdp_group_answer(port, conn->fd))
			break;
		if (conn->rank == rank)
			drop_conn(port, conn);
	}
	return port->n_conns < GROUP_MEMBERS;
}

bool xdp_group_accept(struct xdp_port *port)
{
	struct ucred peer;
	int fd = 0;

	for (unsigned i = 0; i < ACCEPTED_MAX; i++) {
		fd = sys_accept4(port->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		fd = sys_fd_hide(fd);
		if (!unix_socket_is_of(fd, port->uid, &peer) || !make_room(port)) {
			sys_close(fd);
			continue;
		}
		port->conns[port->n_conns++] = (struct group_conn){.fd = fd};
		xdp_service_watch(port, fd, EPOLLIN);
	}
	return fd >= 0 || fd == -EAGAIN || fd == -ECONNABORTED;
}

static int hand_over(struct xdp_port *port, int conn)
{
	int *from[FDS_MAX], fds[FDS_MAX];
	unsigned n = FIXED_FDS + port->group.queues;

	shared_fds(port, from);
	for (unsigned i = 0; i < n; i++)
		fds[i] = *from[i];
	return say(conn, HELLO_ANSWER, fds, n);
}

/* Answers a hello.  A process with another version gets our version and no descriptors. */
static bool answer(struct xdp_port *port, struct group_conn *conn, const struct hello *hello,
		   const int *fds, unsigned n)
{
	if (hello->version != GROUP_VERSION)
		return !say(conn->fd, HELLO_ANSWER, NULL, 0);
	if (hello->kind != HELLO_NEW || !xdp_group_is_opener(port) || port->fenced ||
	    xdp_group_outgrown(port) || !xdp_group_is_proof(port, fds, n))
		return false;
	conn->rank = GROUP_CONN_PROVEN;
	return !hand_over(port, conn->fd);
}

bool xdp_group_answer(struct xdp_port *port, int fd)
{
	struct group_conn *conn = find_conn(port, fd);
	struct hello hello;
	int fds[FDS_MAX];
	unsigned n;
	bool stays;

	if (!conn || !hear(fd, &hello, fds, &n))
		return true;
	stays = hello.kind == HELLO_MEMBER ||
		(hello.kind != HELLO_NONE && answer(port, conn, &hello, fds, n));
	if (hello.kind == HELLO_MEMBER && conn->rank == GROUP_CONN_SILENT)
		conn->rank = GROUP_CONN_MEMBER;
	unix_socket_close_fds(fds, n);
	if (!stays)
		drop_conn(port, conn);
	return stays;
}

void xdp_group_stop_answering(struct xdp_port *port)
{
	/* The name first: a member that loses its connection looks for the name. */
	if (port->listen_fd >= 0)
		xdp_service_close(port, &port->listen_fd);
	while (port->n_conns)
		xdp_service_close(port, &port->conns[--port->n_conns].fd);
}

void xdp_group_find_answerer(struct xdp_port *port)
{
	struct ucred peer;
	int fd = xdp_group_name_take(port);

	if (fd >= 0) {
		port->listen_fd = fd;
		xdp_service_watch(port, fd, EPOLLIN);
		return;
	}
	fd = call_answerer(port, HELLO_MEMBER, NULL, 0, &peer);
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

static int why_silent(const struct xdp_port *port, const struct ucred *peer, char why[PORT_WHY])
{
	return xdp_why(why, -EBUSY,
		       "Interface %s is not accelerated: process %d, which shares it, does not\n"
		       "answer.  Is it stopped?\n",
		       port->base.name, (int)peer->pid);
}

/* Is it known not to be stopped, by a signal or a debugger?  Its state follows the name: proc(5). */
static bool is_running(pid_t pid)
{
	char path[32], text[512], *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (sys_read_text(path, text, sizeof(text)) < 0)
		return false;
	state = strrchr(text, ')');
	return state && !strchr("Tt", state[2]);
}

/* False: the answerer is silent. */
static bool await_answer(int fd, const struct ucred *peer, nsec_t deadline)
{
	for (nsec_t at = deadline; at <= deadline + STARVED_MAX; at += NSEC_PER_SEC) {
		nsec_t left = at - group_now();
		struct timespec ts = {.tv_sec = left / NSEC_PER_SEC,
				      .tv_nsec = left % NSEC_PER_SEC};
		struct pollfd pfd = {.fd = fd, .events = POLLIN};

		if (left > 0 && sys_ppoll(&pfd, 1, &ts, NULL) != 0)
			return true;
		if (!is_running(peer->pid))
			return false;
	}
	return false;
}

/* Receives the group's descriptors.  -EAGAIN: the answerer refused, or died. */
static int receive_group(struct xdp_port *port, int fd, const struct ucred *peer, nsec_t deadline,
			 char why[PORT_WHY])
{
	struct hello hello;
	int fds[FDS_MAX], *to[FDS_MAX];
	unsigned n;

	if (!await_answer(fd, peer, deadline))
		return why_silent(port, peer, why);
	(void)hear(fd, &hello, fds, &n);
	if (hello.kind != HELLO_ANSWER || (hello.version == GROUP_VERSION && n <= FIXED_FDS)) {
		unix_socket_close_fds(fds, n);
		return -EAGAIN;
	}
	if (hello.version != GROUP_VERSION) {
		unix_socket_close_fds(fds, n);
		return xdp_why(why, -EPROTO,
			       "Interface %s is not accelerated: process %d, which has it, uses\n"
			       "another version of this library.\n",
			       port->base.name, (int)peer->pid);
	}
	shared_fds(port, to);
	for (unsigned i = 0; i < n; i++)
		*to[i] = fds[i];
	return 0;
}

/* Joins the group.  -EREMOTE: there is no group to join; -EAGAIN: not possible yet. */
static int try_join(struct xdp_port *port, nsec_t deadline, char why[PORT_WHY])
{
	struct ucred peer = {0};
	int fd = ask_to_join(port, &peer), rc;

	if (fd == -EREMOTE)
		log_debug("%s: process %d of user %u has the name of its port group",
			  port->base.name, (int)peer.pid, peer.uid);
	/* -EPERM, -EACCES: the process cannot make proofs.  make_group() says what it lacks. */
	if (fd == -EREMOTE || fd == -EPERM || fd == -EACCES)
		return -EREMOTE;
	if (fd < 0)
		return xdp_why(why, -EAGAIN,
			       "Interface %s is not accelerated: the process that shares it does\n"
			       "not answer.\n",
			       port->base.name);
	if (peer.pid == sys_getpid())
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

/*
 * Counts the RX queues again, now that the program is attached: virtio_net adds a queue for each
 * processor, for frames that programs redirect, and receives on these queues, too.
 */
static int recount_queues(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY])
{
	int rc = xdp_device_recount(dev);

	if (rc)
		return xdp_why(why, rc, "Interface %s is not accelerated: %s.\n", dev->name,
			       strerrordesc_np(-rc));
	rc = xdp_device_check_queues(dev, why);
	if (rc)
		return rc;
	port->rx_queues = dev->rx_queues;
	dev->grew |= port->grew;
	port->grew = dev->grew;
	return xdp_group_memory_fit(port, why);
}

static int make_group(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY])
{
	int rc = xdp_group_memory(port, why);

	if (!rc)
		rc = xdp_load(port, dev, why); /* blocks for some 10 ms */
	xdp_group_memory_wait(port);
	if (!rc)
		rc = recount_queues(port, dev, why);
	if (!rc)
		rc = xdp_group_create(port, why);
	if (!rc) {
		if (dev->carrier)
			port->group.ctl->settle_until = group_now() + GROUP_SETTLE_MAX;
		xdp_mode_tell(port, dev);
		return 0;
	}
	/* Newcomers that wait for an answer see the end of their connections, and try again. */
	sys_close_fd(&port->listen_fd);
	undo(port);
	return rc;
}

/* Makes the group.  If the name cannot be taken at all, no other process can join the group. */
static int try_make(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY])
{
	int fd = xdp_group_name_take(port);

	if (fd == -EADDRINUSE || fd == -EAGAIN)
		return xdp_why(
			why, fd,
			"Interface %s is not accelerated: another process is about to share\n"
			"it, and does not go on.  Is one of this user stopped?\n",
			port->base.name);
	if (fd < 0)
		log_debug("%s: its port group has no name, no process can join: %s",
			  port->base.name, strerrordesc_np(-fd));
	port->listen_fd = fd < 0 ? -1 : fd;
	return make_group(port, dev, why);
}

static int try_both(struct xdp_port *port, struct xdp_device *dev, nsec_t deadline,
		    char why[PORT_WHY])
{
	int rc = try_make(port, dev, why);

	if (rc != -EADDRINUSE)
		return rc;
	rc = try_join(port, deadline, why);
	/* Another user has the name, or no process answers: make a group without a name. */
	if (rc == -EREMOTE || (rc == -EAGAIN && group_now() > deadline))
		rc = make_group(port, dev, why);
	return rc;
}

int xdp_group_join(struct xdp_port *port, struct xdp_device *dev, char why[PORT_WHY])
{
	nsec_t begun = group_now();
	int rc;

	port->uid = sys_geteuid();
	forget_fds(port);
	for (;;) {
		rc = try_both(port, dev, begun + xdp_wait_max, why);
		if (rc != -EAGAIN && rc != -ENOTUNIQ)
			break;
		if (group_now() > begun + (rc == -EAGAIN ? xdp_wait_max : OTHER_MAX)) {
			rc = -EBUSY;
			break;
		}
		sys_sleep(PAUSE);
	}
	xdp_link_let_go(port->base.ifindex);
	return rc;
}
