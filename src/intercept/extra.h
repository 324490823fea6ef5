/* SPDX-License-Identifier: BSD-2-Clause */
/* The extra API: the functions of include/mellanox/vma_extra.h. */
#ifndef INTERCEPT_EXTRA_H
#define INTERCEPT_EXTRA_H

#include <errno.h>
#include <mellanox/vma_extra.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "sock/core/sock.h"

struct direct_id;

/* What a function of the API returns that fails. */
static inline int extra_failed(int error)
{
	errno = error;
	return -1;
}

/* The socket that fd names and the library serves; ref.sk NULL: the kernel serves it. */
struct sock_ref extra_served(int fd);

/* getsockopt(2) of descriptor -1: SO_VMA_GET_API. False: any other option. */
bool extra_get_api(int level, int name, void *val, socklen_t *len, int *rc);

/* The same of SO_VMA_GET_EXT of <vma/vma.h>; ext.c. 0 or -errno. */
int ext_get(void *val, socklen_t *len);

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
/* The number of the ring that fd is a descriptor of; -EBADF: of none. */
int extra_ring_number(int fd);
/* The ring that fd is a descriptor of, a direct one or another; it may have ended.  -EBADFD: of none. */
int extra_ring_id(int fd, struct direct_id *id);
/* In a forked child, which has no rings: the descriptors are ordinary epoll sets of the parent. */
void extra_rings_fork_child(void);

/* ---- extra_direct.c: members of struct vma_api_t, and what the mask says of them --------- */

int extra_add_ring_profile(struct vma_ring_type_attr *profile, int *key);
int extra_direct_descriptors(int fd, struct vma_mlx_hw_device_data *data);
int extra_register_memory(int fd, void *addr, size_t length, uint32_t *key);
int extra_deregister_memory(int fd, void *addr, size_t length);
int extra_modify_ring(struct vma_modify_ring_attr *attr);
int extra_ioctl(void *cmsg_hdr, size_t cmsg_len);
uint64_t extra_direct_mask(void);

/* ---- extra_xtreme.c: with VMA_SOCKETXTREME; results as of sock.h ------------------------ */

int extra_xtreme_poll(int fd, struct vma_completion_t *completions, unsigned n);
/* 0, or -1 and errno: success costs nothing more. */
int extra_xtreme_free_packets(const struct vma_packet_desc_t *packets, int n);

/*
 * socket.c: as accept4(2), flags as of sock_ops.accept.  The descriptor, or -errno; child: its socket,
 * sk NULL: the kernel serves it.
 */
int socket_accept(struct sock_ref ref, struct sockaddr_storage *from, socklen_t *len, int flags,
		  struct sock_ref *child);

/* epoll_calls.c: a new epoll set of ours; *epfd: its descriptor. sk NULL: *epfd is -errno. */
struct sock_ref epoll_make(int *epfd);

#endif
