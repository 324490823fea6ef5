/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process says to the emulated card, over a SOCK_SEQPACKET socket: one message per request
 * and one per reply.  The socket is the process's open file of /dev/infiniband/uverbs0; the card
 * frees what belongs to it when it is closed, or when the process dies.
 */
#ifndef TESTS_MLX5_PROTOCOL_H
#define TESTS_MLX5_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CARD_SOCKET \
	"CARD_SOCKET" /* environment: path of the card's socket; @NAME: see card_address() */
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

/*
 * The address of the card's socket; 0: the path is too long.  @NAME is one of the network namespace
 * alone, so that each may have a card of the same name.
 */
static inline socklen_t card_address(struct sockaddr_un *addr, const char *path)
{
	size_t len = strlen(path);

	if (len >= sizeof(addr->sun_path))
		return 0;
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(addr->sun_path, path, len);
	if (path[0] == '@')
		addr->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

#endif
