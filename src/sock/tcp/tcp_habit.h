/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Do the accepted connections of this process end with their first response, as those of a server
 * without keep-alive do?  Then the response waits for the FIN that follows it (tcp_expect_fin()).
 * Two segments, of which the first wakes a client that then gets this processor, let the client
 * close first: its ports stay in TIME_WAIT, and run out.
 *
 * Role		any; all in one number, which is a guess.
 * Ordering	relaxed; a change that is lost does no harm.
 */
#ifndef SOCK_TCP_TCP_HABIT_H
#define SOCK_TCP_TCP_HABIT_H

#include <stdbool.h>

#include "base/clock.h"

/*
 * What the end of one connection shows:
 * HABIT_FIN: the program closed it right after its first response, before any other call that polls;
 * HABIT_LATE: it did, but worked for a while in between, or another process had the processor;
 * HABIT_NONE: it did not;
 * HABIT_IN_VAIN: a response has waited for a FIN that did not come, or came late.  Without a FIN it is
 * sent at the next poll of its ring.  One in 64 at most may wait so long: HABIT_FIN counts 1,
 * HABIT_IN_VAIN counts -64.
 */
enum tcp_habit { HABIT_FIN, HABIT_LATE, HABIT_NONE, HABIT_IN_VAIN };

/* spent: nanoseconds between the last poll before the response and the FIN; waited: for the FIN. */
enum tcp_habit tcp_habit_of(nsec_t spent, bool waited);
void tcp_habit_learn(enum tcp_habit what);
/* The next connection shall wait. */
bool tcp_habit_expects_fin(void);

#endif
