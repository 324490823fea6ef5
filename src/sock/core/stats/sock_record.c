/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/stats/sock_record.h"

#include <netinet/in.h>

#include "base/stats/stats.h"
#include "net/netlink/netlink.h"
#include "sock/core/verdict.h"

_Static_assert((unsigned)LIFE_COUNT <= RECORDER_TEXTS && (unsigned)DROP_COUNT <= RECORDER_TEXTS &&
		       (unsigned)VERDICT_COUNT <= RECORDER_TEXTS,
	       "each has a text in the recorder");

/* In the order of enum tcp_state. */
static const char *const state_names[] = {
	"CLOSED",     "LISTEN",	    "SYN_SENT", "SYN_RECEIVED", "ESTABLISHED", "FIN_WAIT_1",
	"FIN_WAIT_2", "CLOSE_WAIT", "CLOSING",	"LAST_ACK",	"TIME_WAIT",
};

static const uint8_t tcp_records[TCP_EVENTS] = {
	[TCP_EVENT_STATE] = RECORD_STATE,
	[TCP_EVENT_RETRANSMIT] = RECORD_RETRANSMIT,
	[TCP_EVENT_TIMEOUT] = RECORD_TIMEOUT,
	[TCP_EVENT_TAIL_PROBE] = RECORD_TAIL_PROBE,
	[TCP_EVENT_RECOVERY] = RECORD_RECOVERY,
	[TCP_EVENT_RECOVERED] = RECORD_RECOVERED,
	[TCP_EVENT_SPURIOUS] = RECORD_SPURIOUS,
	[TCP_EVENT_WINDOW_CLOSED] = RECORD_WINDOW_CLOSED,
	[TCP_EVENT_WINDOW_OPEN] = RECORD_WINDOW_OPEN,
	[TCP_EVENT_PROBE] = RECORD_PROBE,
	[TCP_EVENT_RESET] = RECORD_RESET,
};

void sock_record(const struct inet_sock *so, enum record_event event, uint32_t argument)
{
	struct ring *home = sock_home(so); /* NULL: the object is new */

	if (home && hold_current == &home->hold && home->recorder)
		ring_record(home, event, sock_record_id(so), argument);
	else
		recorder_write_any(RECORDER_CALLS, event, sock_record_id(so), argument);
}

void sock_record_tcp(const struct inet_sock *so, enum tcp_event event, uint32_t argument)
{
	if (event == TCP_EVENT_RETRANSMIT)
		sock_home(so)->stats.retransmits++;
	sock_record(so, (enum record_event)tcp_records[event], argument);
}

static void name(const struct inet_sock *so, enum sock_life life)
{
	struct recorder_conn conn = {
		.local_addr = sock_stats_addr(&so->local.addr),
		.remote_addr = sock_stats_remote(so),
		.local_port = so->local.port,
		.remote_port = so->remote.port,
	};

	recorder_name(sock_record_id(so), sock_twin(&so->sk),
		      so->inet == INET_UDP ? IPPROTO_UDP : IPPROTO_TCP, &conn,
		      life >= LIFE_HANDSHAKE);
}

void sock_record_renumbered(const struct inet_sock *so, uint64_t old_id)
{
	control_assert_held();
	recorder_name_closed((uint32_t)old_id);
	name(so, sock_life(so));
}

/* Sockets that end keep the name that they had. */
static void record_life(const struct inet_sock *so, enum sock_life from, enum sock_life next)
{
	if (from == LIFE_FREE || next == LIFE_FREE)
		return; /* an object, but no socket that does anything */
	if (next == LIFE_CLOSED)
		recorder_name_closed(sock_record_id(so));
	else
		name(so, next);
	sock_record(so, RECORD_LIFE, (uint32_t)from << 8 | next);
}

void sock_record_start(void)
{
	control_assert_held();
	if (recorder() || !stats_wanted())
		return;
	recorder_in_namespace(netlink_namespace());
	if (!recorder_open())
		return;
	for (unsigned i = 0; i < LIFE_COUNT; i++)
		recorder_set_text(RECORDER_LIFE, i, sock_life_name((enum sock_life)i));
	for (unsigned i = 0; i < sizeof(state_names) / sizeof(*state_names); i++)
		recorder_set_text(RECORDER_STATE, i, state_names[i]);
	for (unsigned i = 0; i < DROP_COUNT; i++)
		recorder_set_text(RECORDER_DROP, i, drop_text((enum drop)i));
	for (unsigned i = 0; i < VERDICT_COUNT; i++)
		recorder_set_text(RECORDER_VERDICT, i, verdict_text((enum verdict)i));
	recorder_ready();
	sock_life_trace = record_life;
}

void sock_record_forget(void)
{
	sock_life_trace = NULL;
	recorder_fork_child();
}
