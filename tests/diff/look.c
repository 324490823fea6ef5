/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/diff/look.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "tests/diff/diff.h"

#define MAX 32

static void look_by_select(const char *what, int fd)
{
	struct timeval zero = {0, 0};
	fd_set r, w, e;
	int n;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(fd, &r);
	FD_SET(fd, &w);
	FD_SET(fd, &e);
	n = select(fd + 1, &r, &w, &e, &zero);
	say("%s: select %d, %s%s%s", what, n, FD_ISSET(fd, &r) ? "read " : "",
	    FD_ISSET(fd, &w) ? "write " : "", FD_ISSET(fd, &e) ? "except" : "");
}

void look(const char *what, int fd)
{
	struct pollfd p = {.fd = fd, .events = (short)ALL_EVENTS};
	struct epoll_event event = {.events = ALL_EVENTS};
	char text[64];
	int ep, n;

	poll(&p, 1, 0);
	say_events(what, (uint16_t)p.revents);
	ep = ep_new();
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
	event.events = 0;
	n = epoll_wait(ep, &event, 1, 0);
	if (n != (p.revents != 0) || event.events != (uint16_t)p.revents) {
		snprintf(text, sizeof(text), "epoll has %d,", n);
		say_events(text, event.events);
	}
	close(ep);
	look_by_select(what, fd);
}

int ep_new(void)
{
	return (int)MUST(epoll_create1(EPOLL_CLOEXEC));
}

int ep_ctl(int ep, int op, int fd, uint32_t events, unsigned name)
{
	struct epoll_event event = {.events = events, .data.u32 = name};

	return epoll_ctl(ep, op, fd, &event);
}

void ep_add(int ep, int fd, uint32_t events, unsigned name)
{
	MUST(ep_ctl(ep, EPOLL_CTL_ADD, fd, events, name));
}

void ep_mod(int ep, int fd, uint32_t events, unsigned name)
{
	MUST(ep_ctl(ep, EPOLL_CTL_MOD, fd, events, name));
}

int ep_say(const char *what, int ep, int max, int msec)
{
	struct epoll_event events[MAX];
	char text[64];
	int n = epoll_wait(ep, events, max < MAX ? max : MAX, msec);

	if (n < 0) {
		say_result(what, n);
		return n;
	}
	say("%s: %d of them", what, n);
	for (int i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%s: %u", what, events[i].data.u32);
		say_events(text, events[i].events);
	}
	return n;
}
