/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a socket that is a connection through shared memory; its room is sock/local. */
#ifndef SOCK_CORE_SHM_STATE_H
#define SOCK_CORE_SHM_STATE_H

#include "base/clock.h"
#include "base/list.h"
#include "ring/local/byte_ring.h"
#include "ring/local/segment.h"

struct filter;
struct inet_sock;
struct local_keeper;
struct local_link;
struct local_shared;

/* What uses a number of a link, see local/local_link.h. */
struct local_end_ops;
struct local_end {
	/* set by its owner before it gets its number */
	const struct local_end_ops *ops;
	/* holder of the local ring; NULL: it is in no link */
	struct local_link *link;
	uint32_t number;
	struct list wants; /* linked: it waits for something that no notice may announce */
};

/* A connection through shared memory, see local/local_sock.h. */
struct shm_state {
	/* holder */
	struct inet_sock *listener; /* first, as in tcp_state_part */
	uint32_t listener_gen;
	struct local_end end;
	struct local_shared *shared; /* NULL: its rings are not open */
	struct byte_ring_reader in;
	struct byte_ring_writer out;
	struct filter *filter;	     /* its receive callback, local_filter.c; NULL: none */
	uint64_t filter_to;	     /* the position behind what its thread has taken */
	struct local_keeper *keeper; /* of bytes that the program has in place; NULL: none so far */
	/* its ends may move to other processes: local/local_move.h */
	uint64_t token;	     /* names the connection, at both ends alike */
	struct list known;   /* by token */
	struct segment own;  /* has the slot, if the link's memory has not: since an end moved */
	uint32_t slot;	     /* its place in the segment */
	uint32_t moves_seen; /* how often the peer's end has moved, as far as this end knows */
	uint64_t told;	     /* a process that has not answered LOCAL_MOVE; 0: none */
	struct list limbo;   /* linked: the peer's end is between two processes */
	nsec_t limbo_until;
	uint64_t seen;	       /* the tail that was notified last */
	uint64_t urgent_done;  /* the urgent position that was read by MSG_OOB */
	uint32_t reads, sends; /* calls that moved bytes */
	uint32_t wants_space;  /* bytes that make it writable; 0: it is */
	uint32_t memory;       /* bytes counted for it */
	union {
		struct {
			int32_t peek_offset;   /* SO_PEEK_OFF plus one; 0: it is off */
			uint32_t filter_state; /* enum tcp_filter; any, atomic */
		};
		uint64_t aside; /* 0: nothing of these is looked at after a read */
	};
	bool initiator;
	bool established; /* the handshake is over */
	bool reported;	  /* connect() or accept() has said so */
	bool ended;	  /* reset, refused, or the peer has died */
	bool died;	  /* the peer's process has ended */
	bool refused; /* any, atomic: nobody here accepts it; the kernel is to connect (local_connect.c) */
	bool stays;    /* control lock: the program to be executed has a descriptor of it */
	uint8_t error; /* errno that ended the connection; reported once */
	union {
		struct {
			uint8_t kept_error; /* any, atomic: met by a call that moved bytes; for the next one */
			uint8_t captured; /* LOCAL_CAPTURED and others; 0: it is not */
		};
		uint16_t unusual; /* any, atomic: not 0: nothing is done at once */
	};
	uint64_t captured_to; /* what had arrived before this position was captured, or came before */
};

#endif
