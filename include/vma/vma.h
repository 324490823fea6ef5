/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libvma offers beyond the original VMA: batches, sending without a copy, what became of a
 * socket and why.  <mellanox/vma_extra.h> has the original's functions.
 *
 *	#include <vma/vma.h>
 *
 *	const struct vma_ext_t *vma = vma_get_ext();
 *
 *	if (vma)
 *		n = vma->vma_recv_batch(fd, messages, 16, 0);
 *
 * The program links with nothing: vma_get_ext() asks the library that is preloaded, and returns
 * NULL without one.  A later library may have more members: those that this header has are in
 * every library for which VMA_EXT_HAS() is true, and never change.
 *
 * Every function returns -1 and sets errno when it fails; nothing has happened then, unless its
 * comment says otherwise.  A pointer that is not of the program gives EFAULT.  All functions may be
 * called by any thread, and from within a receive callback.
 */
#ifndef VMA_VMA_H
#define VMA_VMA_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SO_VMA_GET_EXT 2850 /* getsockopt() of descriptor -1, SOL_SOCKET: see vma_get_ext() */

#define VMA_EXT_VERSION 1u /* of this header */

/* ---- batches -------------------------------------------------------------------------- */

/* A message of a batch: a datagram, or a buffer for a part of a connection's stream. */
struct vma_message_t {
	void *data;
	size_t size; /* bytes at data: to send, or room */
	/* Datagrams: the peer.  To send: NULL: the connected one.  To receive: NULL: not wanted. */
	struct sockaddr *addr;
	socklen_t addr_len; /* bytes at addr; receiving stores the length of the address */
	int flags;	    /* out, receiving: MSG_TRUNC: the datagram was longer than size */
	size_t done;	    /* out: bytes that were received or sent */
	int error;	    /* out: 0, or the errno of this message */
	int reserved;	    /* 0 */
};

/* ---- sending without a copy ------------------------------------------------------------- */

/* Room that vma_reserve() gave to the program. */
struct vma_room_t {
	void *data;   /* the program writes the message here */
	size_t size;  /* bytes at data */
	uint64_t id;  /* for vma_commit() and vma_abandon() */
	int in_frame; /* 1: data is in a frame of the port; 0: in memory that will be copied */
	int reserved; /* 0 */
};

#define VMA_ROOM_MAX 1024u /* rooms that a process has at a time */

/* ---- what became of a socket ------------------------------------------------------------ */

/* Who serves a socket. */
enum {
	VMA_SERVED_UNDECIDED = 0,   /* a call that decides it was not made yet */
	VMA_SERVED_ACCELERATED = 1, /* the library, by a port */
	VMA_SERVED_LOCAL = 2,	    /* the library, through shared memory */
	VMA_SERVED_KERNEL = 3,	    /* the kernel: see reason */
};

struct vma_verdict_t {
	int served;
	/* Where it lives: the ring's number, as vma_stats shows it, and its interface. */
	int ring;	  /* -1: none */
	int ifindex;	  /* 0: none */
	int reserved;	  /* 0 */
	char reason[176]; /* one sentence, as vma_stats has it */
};

/* An event of the flight recorder. */
struct vma_event_t {
	uint64_t when;	   /* nsec, CLOCK_MONOTONIC */
	uint32_t argument; /* what it is depends on the event; text shows it */
	uint32_t reserved; /* 0 */
	char name[16];	   /* one word: "state", "retransmit" ...; as in `vma trace --json` */
	char text[96];	   /* for people */
};

/* ---- the functions -------------------------------------------------------------------- */

/* The order of members is part of the ABI; new ones are added at the end. */
struct vma_ext_t {
	uint32_t version; /* of the library's table: VMA_EXT_VERSION at least */
	uint32_t size;	  /* of the library's table, in bytes: see VMA_EXT_HAS() */
	/*
	 * Receives up to count messages with one visit of the socket's ring for each 32.  Blocks, as recv(),
	 * until there is one; then takes what is there, and does not wait for more.  A datagram
	 * socket fills one message with each datagram.  A connection fills the messages one after
	 * the other: only the last one that is used may be shorter than its size.
	 * Returns the number of messages that were filled, whose done, error and flags are set;
	 * 0: the end of the stream.  An error behind the first message is reported by the next
	 * call, but if a message's memory cannot be written: then its datagram is lost, its error
	 * is EFAULT, and it ends the batch.
	 * flags: MSG_DONTWAIT, or 0.  Of sockets that the kernel serves: as recvmsg() for each.
	 * EINVAL: flags, or count is 0 or more than 1024.  Others as recvmsg().
	 */
	int (*vma_recv_batch)(int fd, struct vma_message_t *messages, unsigned int count,
			      int flags);
	/*
	 * Sends up to count messages with one visit of the ring for each 32, whose frames go to the
	 * port together.  Datagrams leave in order.  Of a connection, the messages are consecutive parts
	 * of the stream, and addr must be NULL.
	 * Returns the number of messages that were sent; done is set in them, and in a part of
	 * a message (a connection that does not block).  The first message that was not sent has
	 * an error: why; no later one was sent.  If it is the first of all, the function fails
	 * with this errno.  A socket that blocks waits as send(), also within a batch.
	 * flags: MSG_DONTWAIT, MSG_NOSIGNAL, MSG_MORE (of the last message; connections only).
	 * EINVAL: as above.  EISCONN: addr of a connection.  Others as sendmsg().
	 */
	int (*vma_send_batch)(int fd, struct vma_message_t *messages, unsigned int count,
			      int flags);
	/*
	 * Reserves room for a message of size bytes at most.  If the socket is accelerated and has
	 * a ring, it is in a frame, behind the place of the headers: vma_commit() sends that very
	 * frame.  Otherwise, and when frames run low, it is in memory that is copied.  The
	 * program writes there until it commits or abandons the room.  Room is for one message of
	 * this socket; it may be reserved and committed in any order, by any thread.
	 * A room of a socket that is closed stays until vma_abandon(), and costs only room:
	 * a process has VMA_ROOM_MAX rooms at most, and they hold an eighth of a ring's frames
	 * at most, so that others can send.  A forked child has none of its parent's.
	 * EMSGSIZE: no frame has so much room; it has *max bytes, if max is not NULL.
	 * ENOBUFS: VMA_ROOM_MAX rooms are reserved.  ENOTCONN: a TCP socket without a connection.
	 * EOPNOTSUPP: the kernel serves the socket, or it is none.  ENOMEM.
	 */
	int (*vma_reserve)(int fd, size_t size, struct vma_room_t *room, size_t *max);
	/*
	 * Sends the first size bytes of a room, and takes it from the program.  It is free when the
	 * card has sent it; of a connection, bytes are kept until the peer acknowledges them.
	 * Never waits and raises no signal.  addr: a datagram's destination; NULL: the connected
	 * one.  Returns size; or less, of a connection without room for all: then the rest is still
	 * reserved, and begins behind what was sent.
	 * After an error the room is as before.  The message is copied if the frame does not fit
	 * any more: the socket moved to another ring, was given to the kernel or to another
	 * process, or needs headers of another length; if data of the connection waits to be sent;
	 * if datagrams are delayed, split or stamped by an option.
	 * ENOENT: no room of fd has this id: it was committed or abandoned, is another socket's, or
	 * another thread commits it now.  EINVAL: size is more than there is, flags are not 0, or
	 * addr of a connection.  EAGAIN: no place in the send buffer: wait for POLLOUT.
	 * Others as send().
	 */
	ssize_t (*vma_commit)(int fd, uint64_t id, size_t size, int flags,
			      const struct sockaddr *addr, socklen_t addr_len);
	/*
	 * Gives a room back, unsent.  Room of a socket that has been closed is given back with any
	 * fd.  ENOENT: as above.
	 */
	int (*vma_abandon)(int fd, uint64_t id);
	/*
	 * Who serves the socket, and why: stores size bytes of struct vma_verdict_t at most.
	 * Sockets that the library never served: VMA_SERVED_KERNEL.  EBADF, ENOTSOCK.
	 */
	int (*vma_get_verdict)(int fd, struct vma_verdict_t *verdict, size_t size);
	/*
	 * The last events that the flight recorder has of the socket, oldest first, count at most;
	 * size: of struct vma_event_t.  Returns how many; 0: it has none, or is off.
	 * EINVAL: size is not this header's.  EBADF: the library does not know the socket.  ENOMEM.
	 */
	int (*vma_get_events)(int fd, struct vma_event_t *events, unsigned int count, size_t size);
};

/* Does the library have this member? */
#define VMA_EXT_HAS(vma, member) \
	((vma) && (vma)->size >= offsetof(struct vma_ext_t, member) + sizeof((vma)->member))

/*
 * The functions of the library; NULL: the process runs without it, or with an older one.  The
 * pointer is valid while the process lives, also in a forked child.  errno is unchanged.
 */
static inline const struct vma_ext_t *vma_get_ext(void)
{
	const struct vma_ext_t *vma = NULL;
	socklen_t len = sizeof(vma);
	int saved = errno;

	if (getsockopt(-1, SOL_SOCKET, SO_VMA_GET_EXT, &vma, &len) < 0)
		vma = NULL;
	errno = saved;
	return vma;
}

#ifdef __cplusplus
}
#endif

#endif
