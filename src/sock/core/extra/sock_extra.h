/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What intercept calls for the functions of the extra API (include/mellanox/vma_extra.h).
 *
 * Role		app, holding no ring and no lock.
 * Errors	as in sock.h; SOCK_KERNEL: the kernel serves the socket.
 */
#ifndef SOCK_CORE_EXTRA_SOCK_EXTRA_H
#define SOCK_CORE_EXTRA_SOCK_EXTRA_H

#include <mellanox/vma_extra.h>
#include <vma/vma.h>

#include "sock/core/sock.h"

/* A call of recvfrom_zcopy(). */
struct sock_zcopy {
	/*
	 * One iovec: the program's buffer, for a struct vma_packets_t or for data.  The sender is
	 * stored as recvmsg(2) does.
	 */
	struct msghdr msg;
	bool force; /* in: -EIO if data could only be copied, which is not received then */
	bool done;  /* out: without a copy */
};

/*
 * Does a send call have VMA_SND_FLAGS_DUMMY? Such a call must not reach the kernel, which would send.
 * struct sock_ops.send returns SOCK_KERNEL, or an error, if it cannot do it.
 */
static inline bool sock_is_dummy(int flags)
{
	return __builtin_expect(flags & VMA_SND_FLAGS_DUMMY, 0);
}

/* As filter_register(). */
int sock_set_callback(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context);
/* flags: MSG_DONTWAIT or 0.  SOCK_KERNEL: also if data of this socket can only be copied. */
ssize_t sock_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags);
/*
 * vma_recv_batch(), vma_send_batch() as of struct sock_kind, which may do nothing and return
 * SOCK_KERNEL.
 */
int sock_recv_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		    unsigned *done);
int sock_send_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		    unsigned *done);
/* vma_get_verdict() of a descriptor of the program; ref.sk NULL: the kernel serves it.  tell.c */
void sock_tell_verdict(struct sock_ref ref, int fd, struct vma_verdict_t *verdict);
/*
 * The last count events of the socket, oldest first, in *events, which the caller frees (mem_free()).
 * Returns how many; -ENOMEM.
 */
int sock_last_events(struct sock_ref ref, struct vma_event_t **events, unsigned count);
/* As held_free(). */
int sock_free_packet(void *id, struct sock_ref ref);
/* As rules_add(); -EAGAIN: called in a signal handler. */
int sock_add_rule(const char *line);
/* Logs what is known about a descriptor, 0: about all.  -EAGAIN: called in a signal handler. */
int sock_dump(int fd, int level);
/* The headers of what a connected socket sends; FRAME_HDR_MAX bytes at most.  -ENOTCONN. */
#define SOCK_HEADERS_MAX 128
int sock_headers(struct sock_ref ref, uint8_t header[SOCK_HEADERS_MAX]);

/*
 * The numbers of the rings that the socket receives by, max at most; returns how many.  A number
 * below SOCK_RING_NUMBERS names one ring as long as the process lives.
 */
#define SOCK_RING_NUMBERS 1024
unsigned sock_ring_numbers(const struct sock *sk, unsigned *numbers, unsigned max);
/*
 * The number of the ring by which a datagram socket sends to an address; of the direct ring, if it has
 * asked for one, with errors of direct_get().  -ENOSYS: another kind of
 * socket; -ENODATA: the kernel sends there; -EINVAL: no address; -EAGAIN: called in a signal
 * handler; -EBADF.
 */
int sock_tx_ring_number(struct sock_ref ref, const struct sockaddr *to, socklen_t len);

#endif
