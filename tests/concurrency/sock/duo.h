/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two sockets that talk to each other, and are moved on purpose: their logic is the
 * user's number, which the test changes.
 *
 * Role		one thread, unless said otherwise.
 */
#ifndef TESTS_CONCURRENCY_SOCK_DUO_H
#define TESTS_CONCURRENCY_SOCK_DUO_H

#include "tests/lib/loop_net.h"

#define DUO_MESSAGE 64 /* bytes; of a stream, they come in any pieces */

enum duo_kind { DUO_TCP, DUO_UDP, DUO_UDP_UNCONNECTED, DUO_KINDS };

struct duo {
	enum duo_kind kind;
	struct tsock end[2];
	struct sockaddr_in name[2];
	uint64_t sent[2], got[2]; /* messages from end[i]; bytes of a stream */
	bool ended[2];		  /* a stream: after what was got */
};

/* params for these tests: sockets move when they are asked to. */
void duo_params(int mode);

/* A case in a process of its own: duo_params(), start; and the end, all closed. */
void duo_begin(void);
void duo_end(struct tsock *listener);

struct tsock duo_listener(unsigned port);
/* The child of a connection that was begun; waits for it. */
struct tsock duo_accept(struct tsock *listener, struct sockaddr_in *from);

/* listener: for DUO_TCP. */
void duo_open(struct duo *duo, enum duo_kind kind, struct tsock *listener);
void duo_close(struct duo *duo);

int duo_set_nodelay(struct tsock *ts, bool on); /* as it is opened: on */

/* n messages from one end; they go out at once. */
void duo_send(struct duo *duo, unsigned from, unsigned n);
/* What is there now; how many messages, or bytes. */
unsigned duo_take(struct duo *duo, unsigned from);
/* Everything that was sent comes, in order, and nothing else. */
void duo_drain(struct duo *duo, unsigned from);
/* Some messages both ways. */
void duo_talk(struct duo *duo, unsigned n);

/* ---- moving ------------------------------------------------------------------------- */

/* The key of a user's number, and of the ring a socket lives on. */
uint64_t duo_key(unsigned user);
uint64_t duo_home(const struct tsock *ts);

/* Asks for the ring of a user's number, for receiving and sending. */
void duo_ask(struct tsock *ts, unsigned user);
bool duo_arrives(const struct tsock *ts, unsigned user);
/* Both. */
void duo_move(struct tsock *ts, unsigned user);

/* Asks, and waits until the move has come to its barrier, which is shut. */
void duo_begin_move(struct tsock *ts, unsigned user);

/* Moves, receiving, since the last duo_open(): an accepted connection may have had one. */
struct sock_move_stats duo_moves(void);
/* Waits until nothing moves. */
void duo_expect_moves(unsigned started, unsigned finished, unsigned abandoned);

#endif
