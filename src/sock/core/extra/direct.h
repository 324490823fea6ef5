/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The direct rings of the process (ring/direct.h), and settings of rings (vma_extra.h).
 *
 * A direct ring belongs to an interface and a key of the allocation logic, as other rings do.  Sockets
 * that it was asked for keep it; the internal thread closes it when all of them are closed.
 *
 * Role		as each function says; "app": no ring held, and no lock.
 * Lifetime	a number, SOCK_RING_NUMBERS and more, may name another direct ring later: with its life
 *		(direct_life()) it names one.
 * Errors	-errno; -EAGAIN: called in a signal handler that interrupted a holder.
 */
#ifndef SOCK_CORE_EXTRA_DIRECT_H
#define SOCK_CORE_EXTRA_DIRECT_H

#include <mellanox/vma_extra.h>

#include "ring/direct.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/core/inet_sock.h"

#define DIRECT_MAX 64u

struct direct_id {
	unsigned number;
	uint32_t life;
};

/* Once at start.  NULL: there are no direct rings. */
void direct_init(const struct direct_kind *kind);
/* app: could a direct ring be opened on this host? */
bool direct_available(void);

/*
 * Control lock: the number of the direct ring by which so sends through the interface of ring; opened
 * at need, and so keeps it.  Memory of direct_set_memory() is registered.  -EOPNOTSUPP: the interface
 * is not one of a card's, and the user is told once.  -ENOSPC: DIRECT_MAX exist.
 */
int direct_get(struct inet_sock *so, const struct ring *ring);
/*
 * Control lock: SO_VMA_RING_USER_MEMORY: what direct_get() registers for so.  -EINVAL: no memory.
 * -EOPNOTSUPP: not direct_available(), and the user is told once.
 */
int direct_set_memory(struct inet_sock *so, const struct iovec *memory);

/* any: which life the number has now; 0: it names no direct ring. */
uint32_t direct_life(unsigned number);
/* app: the descriptor that is readable after an event, which is the library's; -ENODEV. */
int direct_fd(struct direct_id id);
/* app: as the functions of vma_api_t.  -ENODEV: the ring has ended. */
int direct_describe(struct direct_id id, struct vma_mlx_hw_device_data *data);
int direct_register(struct direct_id id, void *addr, size_t len, uint32_t *key);
int direct_deregister(struct direct_id id, void *addr, size_t len);

/*
 * app: VMA_MODIFY_RING_CQ_MODERATION of the ring with this number, VMA_MODIFY_RING_CQ_ARM if it is a
 * direct one: any other arms whenever a thread waits for it.  -EINVAL: attr.  -ENODEV: the ring has
 * ended.  -EOPNOTSUPP: its port does not moderate, and the user is told once.
 */
int direct_modify(struct direct_id id, const struct vma_modify_ring_attr *attr);

/* Internal thread, control lock, now and then: closes those that no socket keeps. */
void direct_run(void);
/* In a forked child, which has none. */
void direct_fork_child(void);

#endif
