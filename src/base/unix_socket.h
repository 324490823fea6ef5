/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unix sockets by which processes of the library meet, and send each other messages with
 * descriptors.  They keep the borders of messages (SOCK_SEQPACKET) and do not block.
 *
 * Role		any thread.
 * Trust	the other end may be any process.  What it sends is bounded by what the caller asks
 *		for; the caller checks what the bytes and the descriptors are.
 * Errors	-errno.
 */
#ifndef BASE_UNIX_SOCKET_H
#define BASE_UNIX_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#define UNIX_SOCKET_FDS 253u /* most descriptors of a message: the kernel's limit */

/* A hidden descriptor (base/sys.h) that the caller closes, or -errno. */
int unix_socket_new(void);

/*
 * Stores an abstract name, unix(7), which the kernel frees with its socket; arguments as of
 * printf(3).  Returns the length of the address.
 */
socklen_t unix_socket_name(struct sockaddr_un *un, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Was the process at the other end of this user when it connected, or listened?  peer: gets its
 * credentials; or NULL.
 */
bool unix_socket_is_of(int fd, uid_t user, struct ucred *peer);

/*
 * A socket that is connected to this name.  -EACCES: another user than the effective one listens
 * there; -ECONNREFUSED: nobody does; -EAGAIN: its backlog is full; -errno.
 */
int unix_socket_connect(const struct sockaddr_un *un, socklen_t len);

/* Sends one message with copies of n descriptors.  0; -EAGAIN: no room; -EPIPE: the end is gone. */
int unix_socket_send(int fd, const struct iovec *iov, int iovcnt, const int *fds, unsigned n);

/*
 * Receives one message, or (flags: MSG_PEEK) copies it, up to the size of iov.  Returns its length;
 * 0: the other end is closed, or sent nothing; -EAGAIN: none is there; -EBADMSG: it is longer, or
 * had more than max descriptors.  In each case *n descriptors came, at most max, which the caller
 * closes; they are hidden.
 */
ssize_t unix_socket_receive(int fd, const struct iovec *iov, int iovcnt, int flags, int *fds,
			    unsigned max, unsigned *n);

/* Closes n descriptors; each becomes -1. */
void unix_socket_close_fds(int *fds, unsigned n);

#endif
