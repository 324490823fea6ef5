/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process says to the emulated card, over a SOCK_SEQPACKET socket: one message per request
 * and one per reply.  The socket is the process's open file of /dev/infiniband/uverbs0; the card
 * frees what belongs to it when it is closed, or when the process dies.
 */
#ifndef TESTS_MLX5_PROTOCOL_H
#define TESTS_MLX5_PROTOCOL_H

#include <stdint.h>

#define CARD_SOCKET "CARD_SOCKET" /* environment: path of the card's socket */
#define CARD_NODE "/dev/infiniband/uverbs0"
#define CARD_MESSAGE 4096 /* bytes of the longest message */

enum card_call {
	CARD_WRITE, /* write(2): a command of <rdma/ib_user_verbs.h> follows */
	CARD_MAP,   /* mmap(2) */
};

struct card_request {
	uint32_t call;
	uint32_t len;	 /* CARD_WRITE: bytes of the command; CARD_MAP: of the mapping */
	uint64_t offset; /* CARD_MAP */
};

struct card_reply {
	int32_t rc;	 /* 0 or -errno; a descriptor comes along with what answers with one */
	uint32_t len;	 /* CARD_WRITE: bytes that follow, for the command's response buffer */
	uint64_t offset; /* CARD_MAP: where in the descriptor */
};

#endif
