/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rooms: what vma_reserve() of <vma/vma.h> gives to the program, to write a message there.  A room is
 * in a frame of the ring that was the socket's home then, or in ordinary memory.  The program names
 * it by a number, which is checked and never followed.
 *
 * Role		app, holding no ring.  A room is used by the thread that has claimed it.
 * Lifetime	from room_reserve() until room_done() or room_free(); its slot is used for rooms
 *		only.  A room may outlive its socket, and the socket's home: its frame goes back to
 *		the ring that it came from.
 * Ordering	a slot's generation is odd while the program may name the room.  Of several threads
 *		that claim it, the one that makes the generation even does so; the others find nothing.
 * Progress	lock-free.
 */
#ifndef SOCK_CORE_EXTRA_ROOM_H
#define SOCK_CORE_EXTRA_ROOM_H

#include <vma/vma.h>

#include "sock/core/inet_sock.h"

struct room {
	uint32_t gen;	/* any, atomic; odd: the program may name it */
	uint32_t index; /* of the slot */
	/* written before gen becomes odd; atomic, because room_claim() reads them before it knows */
	struct sock *sk;
	uint32_t sock_gen;
	/* whoever has claimed the room */
	uint32_t at;	   /* the message, from pkt->frame; the bytes before are for headers */
	struct pkt *pkt;   /* its memory */
	struct ring *ring; /* whose frame pkt is; NULL: ordinary memory */
	size_t size;	   /* bytes at `at` */
};

/*
 * Fills *out.  0; -EMSGSIZE: *max is the room of a frame; -ENOBUFS: there are VMA_ROOM_MAX; -ENOTCONN;
 * -ENOMEM; or as sock_hold_cold().
 */
int room_reserve(struct sock_ref ref, size_t size, struct vma_room_t *out, size_t *max);

/*
 * Takes the room from the program: until room_done(), room_keep() or room_free() nobody else finds it.
 * ref: the socket that the program names; sk NULL: none.  ended: also a room whose socket has ended,
 * with any ref.  NULL: id names no room of this socket.
 */
struct room *room_claim(uint64_t id, struct sock_ref ref, bool ended);

/*
 * Sends the first len bytes in the frame, as sock_kind.commit(); addr: NULL: the connected peer.  >= 0: they were sent, and the frame
 * is the ring's.  SOCK_KERNEL: they have to be copied.  -errno: nothing was sent.
 */
ssize_t room_commit(struct room *room, struct sock_ref ref, size_t len, const struct sockaddr *addr,
		    socklen_t addr_len);

/* The message: len bytes of a claimed room. */
static inline struct iovec room_iov(const struct room *room, size_t len)
{
	return (struct iovec){room->pkt->frame + room->at, len};
}

/* len bytes of asked were sent as a copy; if these are not all, the program has the rest again. */
void room_done(struct room *room, size_t len, size_t asked);
/* The program has the room again. */
void room_keep(struct room *room);
void room_free(struct room *room);

/* How many rooms the process has. */
unsigned room_count(void);

/* In a forked child: the rooms are the parent's. */
void rooms_fork_child(void);

#endif
