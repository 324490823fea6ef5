/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two sockets that exchange messages, and that a test moves: their allocation logic is the
 * user's number, which the test changes.
 *
 * Role		one thread, unless said otherwise.
 */
#ifndef TESTS_CONCURRENCY_SOCK_DUO_H
#define TESTS_CONCURRENCY_SOCK_DUO_H

#include "tests/lib/loop_net.h"

#define DUO_MESSAGE 64 /* bytes; of a stream: in pieces of any length */

enum duo_kind { DUO_TCP, DUO_UDP, DUO_UDP_UNCONNECTED, DUO_KINDS };

struct duo {
	enum duo_kind kind;
	struct tsock end[2];
	struct sockaddr_in name[2];
	uint64_t sent[2], got[2]; /* messages from end[i]; bytes of a stream */
	bool ended[2];		  /* a stream: the peer ended it after these bytes */
};

/* Sets params for these tests: sockets move only when they are asked to. */
void duo_params(int mode);

/* Begin and end a case in a separate process: duo_params(), start; all sockets closed. */
void duo_begin(void);
void duo_end(struct tsock *listener);

struct tsock duo_listener(unsigned port);
/* Accepts the child of a connection; waits for it. */
struct tsock duo_accept(struct tsock *listener, struct sockaddr_in *from);

/* Opens the pair. listener: for DUO_TCP. */
void duo_open(struct duo *duo, enum duo_kind kind, struct tsock *listener);
void duo_close(struct duo *duo);

int duo_set_nodelay(struct tsock *ts, bool on); /* on by default */

/* The byte at this position of each stream. */
uint8_t duo_byte(uint64_t pos);
/* Sends n messages from one end; they leave at once. */
void duo_send(struct duo *duo, unsigned from, unsigned n);
/* Receives what has arrived; returns the number of messages, or bytes. */
unsigned duo_take(struct duo *duo, unsigned from);
/* Receives everything that was sent, in order, and checks that nothing else comes. */
void duo_drain(struct duo *duo, unsigned from);
/* Sends and receives some messages in both directions. */
void duo_talk(struct duo *duo, unsigned n);

/* ---- moving ------------------------------------------------------------------------- */

/* The key of a user's number, and of the ring that is a socket's home. */
uint64_t duo_key(unsigned user);
uint64_t duo_home(const struct tsock *ts);

/* Requests the ring of a user's number, for receiving and sending. */
void duo_ask(struct tsock *ts, unsigned user);
bool duo_arrives(const struct tsock *ts, unsigned user);
/* Requests it, and waits for the move. */
void duo_move(struct tsock *ts, unsigned user);

/* Requests a move, and waits until it is at its barrier, which is closed. */
void duo_begin_move(struct tsock *ts, unsigned user);

/* Receive moves since the last duo_open(): an accepted connection may have moved once. */
struct sock_move_stats duo_moves(void);
/* Waits until no socket moves. */
void duo_expect_moves(unsigned started, unsigned finished, unsigned abandoned);

#endif
