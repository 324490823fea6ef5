/* SPDX-License-Identifier: BSD-2-Clause */
/* The extra API: the functions of include/mellanox/vma_extra.h. */
#ifndef INTERCEPT_EXTRA_H
#define INTERCEPT_EXTRA_H

#include <stdbool.h>
#include <sys/socket.h>

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

#endif
