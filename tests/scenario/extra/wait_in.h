/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls in which a receive callback may run; C, and C++. */
#ifndef TESTS_SCENARIO_EXTRA_WAIT_IN_H
#define TESTS_SCENARIO_EXTRA_WAIT_IN_H

#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>

/*
 * One call, of 10 ms at most; each kind in turn.  sock has a SO_RCVTIMEO of 10 ms, epfd has sock.  The
 * result of recv(), or -1.
 */
static inline ssize_t wait_in(int sock, int epfd, unsigned kind)
{
	struct pollfd p = {sock, POLLIN, 0};
	struct epoll_event event;
	fd_set set;
	struct timeval tv = {0, 10000};
	char buf[2048];

	switch (kind % 4) {
	case 0:
		poll(&p, 1, 10);
		break;
	case 1:
		epoll_wait(epfd, &event, 1, 10);
		break;
	case 2:
		return recv(sock, buf, sizeof(buf), 0);
	default:
		FD_ZERO(&set);
		FD_SET(sock, &set);
		select(sock + 1, &set, NULL, NULL, &tv);
		break;
	}
	return -1;
}

#endif
