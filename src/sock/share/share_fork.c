/* SPDX-License-Identifier: BSD-2-Clause */
/* Process sharing around fork(2): the channel to the child, and what the child forgets. */

#include <fcntl.h>

#include "base/image/sections.h"
#include "base/sys.h"
#include "sock/share/channel.h"
#include "sock/share/share.h"
#include "sock/share/share_internal.h"

static bool has_any(bool connections)
{
	list_for_each(link, sock_list()) {
		const struct inet_sock *so = container_of(link, struct inet_sock, link);

		if ((!connections || so->inet == INET_TCP || so->inet == INET_LOCAL) &&
		    share_is_known_to_children(so))
			return true;
	}
	return false;
}

bool share_has_sockets(void)
{
	return has_any(false);
}

bool share_has_connections(void)
{
	control_assert_held();
	return has_any(true);
}

struct channel *share_new_channel(int *end)
{
	struct channel *ch;
	int fds[2];

	share_init();
	if (!share_has_sockets() ||
	    sys_call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds,
		     0, 0))
		return NULL; /* the child gets no sockets */
	ch = channel_create(sys_fd_hide(fds[0]), sock_last_id());
	if (!ch) {
		sys_close(fds[1]);
		return NULL;
	}
	*end = sys_fd_hide(fds[1]);
	/* The child does not get what the program closed here. */
	list_for_each(link, &share_process.kept)
		idset_add(&ch->closed, container_of(link, struct inet_sock, link)->id);
	return ch;
}

static void stop_local_receiving(struct inet_sock *so, void *arg)
{
	(void)arg;
	if (so->inet != INET_UDP || !so->udp.local)
		return;
	sock_upcalls.local_receive_stop(so);
	if (so->verdict != VERDICT_LOCAL)
		return; /* of its other ways nothing changes here */
	so->verdict = VERDICT_FORKED;
	sock_stats_verdict(so);
}

void share_stop_local_receiving(void)
{
	control_assert_held();
	sock_each(stop_local_receiving, NULL);
}

bool share_fork_prepare(void)
{
	control_assert_held();
	share_process.fresh = share_new_channel(&share_process.fresh_fd);
	return share_process.fresh;
}

void share_fork_parent(void)
{
	control_assert_held();
	sys_close_fd(&share_process.fresh_fd);
	if (share_process.fresh)
		share_listen_to(share_process.fresh);
	share_process.fresh = NULL;
}

EARLY_CODE int share_fork_child_fd(void)
{
	control_assert_held();
	return share_process.fresh_fd;
}

/* The parent's channels are closed with its other descriptors; their memory is leaked. */
void share_fork_child(void)
{
	int fd = share_process.fresh_fd;

	control_assert_held();
	share_init();
	if (share_process.fresh) {
		share_process.fresh->fd = -1;
		sys_fd_unhide(fd); /* the only one that stays */
	}
	share_process.fresh_fd = -1;
	list_for_each(link, &share_process.channels)
		sys_close_fd(&container_of(link, struct channel, link)->fd);
	sys_close_fd(&share_process.epoll_fd);
	share_init_lists();
	share_forget_late();
	pass_fork_child();
	share_process.up = share_process.fresh ? channel_create(fd, share_process.fresh->last_id)
					       : NULL;
	share_process.fresh = NULL;
	share_last_id = 0;
	share_process.readable = false;
	share_process.executing = share_process.fresh_executes;
	share_process.fresh_executes = false;
	share_process.busy = 0;
	share_process.looking = 0;
}

bool share_fork_child_takes(const struct inet_sock *so)
{
	control_assert_held();
	return share_process.up && share_is_known_to_children(so);
}

void share_fork_child_done(unsigned sockets)
{
	control_assert_held();
	if (!share_process.up)
		return;
	sys_fd_hide(share_process.up->fd);
	if (share_process.executing)
		sys_fcntl(share_process.up->fd, F_SETFD, 0);
	share_process.up->toward = sockets;
	share_listen_to(share_process.up);
}
