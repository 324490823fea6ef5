/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local connections and datagrams in captures (ring/capture.h): frames are made of what goes through
 * shared memory, as the loopback interface would have shown it.
 *
 * Of a connection: its handshake, if it begins during the capture; what each call writes, and what has
 * arrived whenever this process looks, in frames of 64 KB at most; the end.  There are no
 * acknowledgements apart from those in these frames; sequence numbers begin at 0.  Of datagrams: each that is
 * written into the ring of a receiver, and each that a receiver takes from its ring.
 *
 * While a capture runs, no call on these sockets acts at once (wait/quick.h), so without one not an
 * instruction is spent there; the other calls look at a word.
 *
 * Role		holder of local_ring(), but for local_capture_record() and local_capture().
 */
#ifndef SOCK_LOCAL_CAPTURE_LOCAL_CAPTURE_H
#define SOCK_LOCAL_CAPTURE_LOCAL_CAPTURE_H

#include "sock/local/local_udp.h"

/* shm_state.captured. */
#define LOCAL_CAPTURED 1u
#define LOCAL_CAPTURED_OUR_END 2u   /* and it was captured that this end sends no more */
#define LOCAL_CAPTURED_THEIR_END 4u /* likewise, of the peer's */

/* sock_upcalls.local_capture */
void local_capture(void);

/* Its rings are open: it is captured from now on, or not any more. */
void local_capture_conn(struct inet_sock *so, bool on);

/* Those that follow: of a connection with shm.captured. */

/* It is established, or the initiator knows that it will not be. */
void local_capture_opened(struct inet_sock *so);
/* The last n bytes were written now. */
void local_capture_sent(struct inet_sock *so, uint32_t n);
/* Looks at its ring; what has arrived since the last time is captured. */
void local_capture_arrived(struct inet_sock *so);
/* It is about to send no more. */
void local_capture_ended(struct inet_sock *so, bool reset);

/* The datagram was written for the target, with these bytes. */
void local_capture_datagram(const struct local_target *t, const struct record_header *h,
			    const struct msghdr *msg, size_t len);
/* holder of home: the record that was peeked has come.  Does nothing without a capture. */
void local_capture_record(const struct local_udp *l);

#endif
