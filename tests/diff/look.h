/* SPDX-License-Identifier: BSD-2-Clause */
/* What poll, select and epoll report about descriptors. */
#ifndef DIFF_LOOK_H
#define DIFF_LOOK_H

#include <stdint.h>

#define ALL_EVENTS \
	(EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDNORM | EPOLLRDBAND | EPOLLWRNORM | EPOLLRDHUP)

/* Everything that is true of fd now: from poll, from a new epoll set, and from select. */
void look(const char *what, int fd);

/* epoll_ctl(2); the event's data is `name`, which must not be 0. */
int ep_ctl(int ep, int op, int fd, uint32_t events, unsigned name);
/* The same for set-up. */
void ep_add(int ep, int fd, uint32_t events, unsigned name);
void ep_mod(int ep, int fd, uint32_t events, unsigned name);
int ep_new(void);

/* epoll_wait(2): "what: 1 IN, 2 IN|OUT", in the order reported. */
int ep_say(const char *what, int ep, int max, int msec);

#endif
