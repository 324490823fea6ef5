/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move/kernel_pair.h"

#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <string.h>

#include "base/random.h"
#include "base/sys.h"
#include "sock/move/repair.h"

#define STRANGERS_MAX 64 /* connections of others that are refused before ours */
#define LO_MSS 65483	 /* of the loopback interface */
#define WINDOW 65535
#define WSCALE 7

#define ACCEPT_SECONDS 1

static int new_socket(const struct sock_addr *name)
{
	return sys_socket(name->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* 0: it is not bound. */
static uint16_t port_of(int fd)
{
	struct sock_addr addr = {.len = sizeof(addr.in6)};

	return sys_getsockname(fd, &addr.sa, &addr.len) ? 0 : addr.in.sin_port;
}

/* A socket that is bound stays so: its address is the right one, or chosen when it is connected. */
static int bind_to(int fd, const struct sock_addr *name)
{
	return port_of(fd) ? 0 : sys_bind(fd, &name->sa, name->len);
}

/* ---- in repair mode ------------------------------------------------------------------- */

static struct tcp_handover describe(uint32_t send_seq, uint32_t read_seq)
{
	return (struct tcp_handover){
		.send_seq = send_seq,
		.read_seq = read_seq,
		.snd_wl1 = read_seq,
		.snd_wnd = WINDOW,
		.snd_wnd_max = WINDOW,
		.rcv_wnd = WINDOW,
		.mss = LO_MSS,
		.snd_wscale = WSCALE,
		.rcv_wscale = WSCALE,
		.wscale = true,
		.sack = true,
	};
}

static int restore(int fd, const struct sock_addr *name, const struct sock_addr *peer,
		   const struct tcp_handover *h)
{
	int rc = repair_set(fd, TCP_REPAIR, TCP_REPAIR_ON);

	rc = rc ? rc : bind_to(fd, name);
	rc = rc ? rc : repair_set_sequence(fd, TCP_SEND_QUEUE, h->send_seq);
	rc = rc ? rc : repair_set_sequence(fd, TCP_RECV_QUEUE, h->read_seq);
	rc = rc ? rc : sys_connect(fd, &peer->sa, peer->len);
	rc = rc ? rc : repair_set_negotiated(fd, h);
	rc = rc ? rc : repair_set(fd, TCP_REPAIR_QUEUE, TCP_NO_QUEUE);
	return rc ? rc : repair_set_window(fd, h);
}

/* What stays in repair mode ends without a segment. */
static int make_repaired(const struct sock_addr *name, const struct sock_addr *peer, int fds[2])
{
	const int on = 1;
	struct tcp_handover h;
	uint32_t seq[2];
	int rc = random_bytes(seq, sizeof(seq)) ? 0 : -ENOSYS;

	h = describe(seq[1], seq[0]);
	rc = rc ? rc : restore(fds[1], peer, name, &h);
	h = describe(seq[0], seq[1]);
	rc = rc ? rc : restore(fds[0], name, peer, &h);
	rc = rc ? rc : repair_set(fds[0], TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	rc = rc ? rc : repair_set(fds[1], TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	/* Repair mode clears it, and without it no listener could bind its port again. */
	return rc ? rc : sys_setsockopt(fds[1], SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

/* ---- by a listener --------------------------------------------------------------------- */

static void set_port(struct sock_addr *addr, uint16_t port)
{
	addr->in.sin_port = port; /* at the same place in both families */
}

/* Anybody on this host may connect to the listener first. */
static int accept_from(int listener, int fd)
{
	struct sock_addr ours = {.len = sizeof(ours.in6)}, theirs;
	int rc = sys_getsockname(fd, &ours.sa, &ours.len), child = -ECONNABORTED;

	for (int i = 0; !rc && i < STRANGERS_MAX; i++) {
		struct timespec most = {.tv_sec = ACCEPT_SECONDS};
		struct pollfd pfd = {.fd = listener, .events = POLLIN};

		if (sys_ppoll(&pfd, 1, &most, NULL) != 1)
			return -ETIMEDOUT;
		theirs = (struct sock_addr){.len = sizeof(theirs.in6)};
		child = sys_accept4(listener, &theirs.sa, &theirs.len, SOCK_CLOEXEC);
		if (child < 0)
			return child;
		if (theirs.len == ours.len && !memcmp(&theirs.in6, &ours.in6, ours.len))
			return child;
		sys_close(child);
	}
	return rc ? rc : -ECONNABORTED;
}

/* The handshake is over when the other end was accepted. */
static int connect_to(int fd, const struct sock_addr *to)
{
	int rc = sys_connect(fd, &to->sa, to->len);

	return rc == -EINPROGRESS ? 0 : rc;
}

static int make_accepted(const struct sock_addr *name, const struct sock_addr *peer, int fds[2])
{
	struct sock_addr from = *name, to = *peer;
	int listener = new_socket(peer), rc = listener < 0 ? listener : 0;

	set_port(&from, 0);
	set_port(&to, 0);
	rc = rc ? rc : sys_bind(listener, &to.sa, to.len);
	rc = rc ? rc : sys_listen(listener, STRANGERS_MAX);
	rc = rc ? rc : sys_getsockname(listener, &to.sa, &to.len);
	rc = rc ? rc : bind_to(fds[0], &from);
	rc = rc ? rc : connect_to(fds[0], &to);
	if (!rc) {
		sys_close_fd(&fds[1]);
		fds[1] = accept_from(listener, fds[0]);
		rc = fds[1] < 0 ? fds[1] : 0;
	}
	sys_close_fd(&listener);
	return rc;
}

/* ---- either ----------------------------------------------------------------------------- */

int kernel_pair(const struct sock_addr *name, const struct sock_addr *peer, int fds[2])
{
	const int on = 1;

	fds[0] = new_socket(name);
	fds[1] = fds[0] < 0 ? -1 : kernel_pair_join(fds[0], name, peer);
	if (fds[1] < 0) {
		int rc = fds[0] < 0 ? fds[0] : fds[1];

		sys_close_fd(&fds[0]);
		return rc;
	}
	/* Without it no listener could bind either port again. */
	sys_setsockopt(fds[0], SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return 0;
}

/* Not in repair mode, and not connected: as it was, except for the port. */
static void put_back(int fd)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	(void)repair_set(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
	(void)sys_connect(fd, &nobody, sizeof(nobody));
}

/* One way of making them; fd is as it was if it fails. */
static int join_by(int fd, const struct sock_addr *name, const struct sock_addr *peer,
		   int (*fn)(const struct sock_addr *, const struct sock_addr *, int[2]))
{
	int fds[2] = {fd, new_socket(peer)}, rc = fds[1] < 0 ? fds[1] : fn(name, peer, fds);

	if (!rc)
		return fds[1];
	put_back(fd);
	sys_close_fd(&fds[1]);
	return rc;
}

int kernel_pair_join(int fd, const struct sock_addr *name, const struct sock_addr *peer)
{
	int reuse = 0, other;
	socklen_t len = sizeof(reuse);

	(void)sys_getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &len);
	other = join_by(fd, name, peer, make_repaired);
	if (other < 0)
		other = join_by(fd, name, peer, make_accepted);
	(void)sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
	return other;
}

/* ---- to a listener that another one accepts from ----------------------------------------- */

/* Repair mode binds a port that another socket has, too. */
static int bind_from(int fd, const struct sock_addr *from)
{
	struct sock_addr any_port = *from;
	int rc = repair_set(fd, TCP_REPAIR, TCP_REPAIR_ON);

	if (!rc) {
		rc = sys_bind(fd, &from->sa, from->len);
		(void)repair_set(fd, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP); /* or it cannot connect */
	}
	if (!rc)
		return 0;
	set_port(&any_port, 0);
	return sys_bind(fd, &any_port.sa, any_port.len);
}

/* A full queue drops the handshake. */
static int connect_soon(int fd, const struct sock_addr *to)
{
	struct timespec most = {.tv_sec = ACCEPT_SECONDS};
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};
	int rc = sys_connect(fd, &to->sa, to->len);
	int error = 0;
	socklen_t len = sizeof(error);

	if (rc != -EINPROGRESS)
		return rc;
	if (sys_ppoll(&pfd, 1, &most, NULL) != 1)
		return -ETIMEDOUT;
	sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return -error;
}

int kernel_pair_connect(const struct sock_addr *from, const struct sock_addr *to)
{
	const int on = 1;
	int fd = sys_socket(from->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = fd < 0 ? fd : bind_from(fd, from);

	rc = rc ? rc : connect_soon(fd, to);
	/* Without it no listener could bind the port again. */
	rc = rc ? rc : sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (!rc)
		return fd;
	sys_close_fd(&fd);
	return rc;
}
