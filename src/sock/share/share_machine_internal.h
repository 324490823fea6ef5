/* SPDX-License-Identifier: BSD-2-Clause */
/* What share_machine.c, for connections and in general, and share_machine_member.c share. */
#ifndef SOCK_SHARE_SHARE_MACHINE_INTERNAL_H
#define SOCK_SHARE_SHARE_MACHINE_INTERNAL_H

#include "sock/share/share_machine.h"

/* Sends a message about s, by the rule of its senders. */
void shared_send(struct share_sink *sink, const struct shared *s, struct channel *ch,
		 enum message_kind kind, uint64_t flags);

/* ---- share_machine_member.c ------------------------------------------------------------ */

/*
 * s is exported, and its receivers share: joins them, and tells the other holders.  used: when
 * the program asked for it; 0: it did not.  False: it does not receive; s may be gone.
 */
bool shared_join(struct share_sink *sink, struct shared *s, nsec_t used);
/* Lets ch's side join the receivers.  False: not now, try again. */
bool shared_admit(struct share_sink *sink, struct shared *s, struct channel *ch);
/* A holder has closed it. If s is closed, too, its place is offered to those left.  May drop s. */
void shared_offer_again(struct share_sink *sink, struct shared *s);
/* s is closed and exported: drops it, unless the others need it.  True: it did. */
bool shared_settle_member(struct share_sink *sink, struct shared *s);
/* What came with MESSAGE_PENDING goes to that channel, within limits of hops and messages. */
bool shared_forward(struct share_sink *sink, uint64_t id, struct channel *to, uint64_t hops);
/* toward is gone, or does not know s.  May drop s. */
void shared_lose_member(struct share_sink *sink, struct shared *s);
void shared_on_join(struct share_sink *sink, struct shared *s, struct channel *ch,
		    const struct message *message);
/* May drop s. */
void shared_on_member_offer(struct share_sink *sink, struct shared *s, struct channel *ch,
			    const struct message *message);
/* True: s waits until its owner has left it; false: it falls back now. */
bool shared_on_member_to_kernel(struct share_sink *sink, struct shared *s, struct channel *ch);

#endif
