/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments of 100 bytes over the loop-back port; steps counts the instructions.
 *
 *	loop COUNT
 *
 * Rounds of BURST messages, one segment each.  Counted in each round: loop_send, the second
 * message; loop_recv, the call that receives and reads all of them; loop_ack, the poll of the
 * sender that processes their acknowledgements.
 */
#include <time.h>

#include "sock/core/inet_sock.h"
#include "tests/lib/loop_net.h"
#include "tests/lib/loop_pair.h"
#include "tools/bench/steps.h"

#define SIZE 100
#define BURST 16		       /* VMA_CQ_POLL_BATCH_MAX: one poll */
#define WARM_UP (1200 * NSEC_PER_MSEC) /* the clock is calibrated once a second from then on */

enum counted { NOTHING, SEND, RECV, ACK };

static void count(const void *function, const char *name, bool wanted)
{
	if (wanted)
		steps_count(function, name);
}

/*
 * Counts at most one call of a round. Counted step by step, a receive takes longer than the
 * sender waits before it probes, and the next poll would include the probe.
 */
static void go_round(struct loop_pair *pair, enum counted what)
{
	static char message[SIZE], heard[BURST * SIZE + 1];

	for (int i = 0; i < BURST; i++) {
		count((void *)pair->from.ref.sk->ops->send, "loop_send", what == SEND && i == 1);
		NET_CHECK_EQ(tsock_send(&pair->from, message, SIZE, 0), SIZE);
	}
	count((void *)pair->to.ref.sk->ops->recv, "loop_recv", what == RECV);
	NET_CHECK_EQ(tsock_recv(&pair->to, heard, sizeof(heard), 0), BURST * SIZE);
	count((void *)sock_poll_ring, "loop_ack", what == ACK);
	sock_poll_ring(tsock_home(&pair->from));
}

int main(int argc, char **argv)
{
	struct loop_pair pair;
	nsec_t warm;

	if (argc != 2)
		return 2;
	loop_pair_start();
	loop_pair_open(&pair, true);
	warm = clock_now() + WARM_UP;
	while (clock_now() < warm)
		go_round(&pair, NOTHING);
	for (int n = atoi(argv[1]); n > 0; n--) {
		for (enum counted what = SEND; what <= ACK; what++) {
			go_round(&pair, NOTHING);
			go_round(&pair, what);
		}
	}
	loop_pair_close(&pair);
	return 0;
}
