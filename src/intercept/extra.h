/* SPDX-License-Identifier: BSD-2-Clause */
/* The extra API: the functions of include/mellanox/vma_extra.h. */
#ifndef INTERCEPT_EXTRA_H
#define INTERCEPT_EXTRA_H

#include <stdbool.h>
#include <sys/socket.h>

#include "sock/core/sock.h"

/* getsockopt(2) of descriptor -1: SO_VMA_GET_API. False: any other option. */
bool extra_get_api(int level, int name, void *val, socklen_t *len, int *rc);

/*
 * Are sockets that this thread makes accelerated? As thread_offload() said, else
 * VMA_OFFLOADED_SOCKETS.
 */
bool extra_offloads(void);
/* thread_offload(). 0 or -ENOMEM. */
int extra_set_offload(bool offload, unsigned long tid);
/* In a forked child, which has one thread: settings of others that did not take effect are gone. */
void extra_fork_child(void);

/* ---- extra_rings.c: descriptors of rings ----------------------------------------------- */

#define EXTRA_RINGS_MAX 64 /* of one socket */

/*
 * The descriptors of the rings that ref receives by, at most max, in fds; they report its events from
 * now on. How many, or -errno.
 */
int extra_rings_fds(struct sock_ref ref, int fd, int *fds, unsigned max);
/* The descriptor of a ring, by its number; -errno. */
int extra_ring_fd(unsigned number);
/* In a forked child, which has no rings: the descriptors are ordinary epoll sets of the parent. */
void extra_rings_fork_child(void);

/* epoll_calls.c: a new epoll set of ours; *epfd: its descriptor. sk NULL: *epfd is -errno. */
struct sock_ref epoll_make(int *epfd);

#endif
