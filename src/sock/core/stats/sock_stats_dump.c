/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fd dump: a socket's state and counters in the log, as `vma_stats -S` asks.  Of all sockets:
 * with the last events of the flight recorder.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/stats/recorder.h"
#include "base/stats/stats_text.h"
#include "sock/core/extra/held.h"
#include "sock/core/extra/room.h"
#include "sock/core/stats/sock_stats.h"

#define RECORDS_OF_DUMP 32 /* the last events of each ring */

static void dump_line(const char *label, const char *value, int level)
{
	log_at((enum log_level)level, "%-20s: %s", label, value);
}

static void dump_sock(const struct stats_sock *slot, int level)
{
	char text[STATS_TEXT_SIZE], value[64], *line, *rest = text;

	log_at((enum log_level)level, "==================== SOCKET FD ===================");
	snprintf(value, sizeof(value), "%d", slot->fd);
	dump_line("Fd number", value, level);
	stats_endpoint_text(&slot->local_addr, slot->local_port, value);
	dump_line("Bind info", value, level);
	stats_endpoint_text(&slot->remote_addr, slot->remote_port, value);
	dump_line("Connection info", value, level);
	dump_line("Protocol", slot->type == STATS_UDP ? "PROTO_UDP" : "PROTO_TCP", level);
	dump_line("Is blocking", slot->flags & STATS_NONBLOCK ? "false" : "true", level);
	dump_line("Is offloaded", slot->accelerated ? "true" : "false", level);
	stats_sock_text(slot, STATS_TEXT_GROUPS, text);
	while ((line = strsep(&rest, "\n")))
		if (line[0] && line[0] != '\t')
			log_at((enum log_level)level, "%s", line);
	if (slot->type == STATS_TCP) {
		const struct stats_tcp *tcp = &slot->tcp;

		log_at((enum log_level)level, "Segment size : mss %u, advtsd_mss %u", tcp->mss,
		       tcp->advmss);
		log_at((enum log_level)level, "Window scaling : rcv_scale %u, snd_scale %u",
		       tcp->rcv_wscale, tcp->snd_wscale);
		log_at((enum log_level)level, "Receive window : rcv_wnd_max %u", tcp->rcv_wnd);
		log_at((enum log_level)level, "Send window : snd_wnd %u", tcp->snd_wnd);
		log_at((enum log_level)level, "Congestion : cwnd %u, ssthresh %u [segments]",
		       tcp->cwnd, tcp->ssthresh);
		log_at((enum log_level)level, "Sender data : unacked %u [segments], unsent %u",
		       tcp->unacked, tcp->notsent);
		log_at((enum log_level)level, "RTT variables : rtt %u, rttvar %u, rto %u [usec]",
		       tcp->rtt, tcp->rttvar, tcp->rto);
	}
	log_at((enum log_level)level, "==================================================");
}

void sock_stats_dump(uint32_t argument, unsigned n)
{
	unsigned fd = argument >> 4;
	int level = (int)(argument & 15) - 1;

	if (fd)
		log_at((enum log_level)level,
		       "============ DUMPING FD %u STATISTICS ============", fd);
	else
		log_at((enum log_level)level, "======= DUMPING STATISTICS FOR ALL OPEN FDS ======");
	for (unsigned i = 1; i <= n; i++) {
		const struct stats_sock *slot = stats_slot(i);

		if (slot->state == STATS_OURS && (!fd || slot->fd == (int)fd))
			dump_sock(slot, level);
	}
	log_at((enum log_level)level, "Packets that the program holds: %u", held_count());
	log_at((enum log_level)level, "Rooms that the program has reserved: %u", room_count());
	if (!fd)
		recorder_log_all(RECORDS_OF_DUMP, level);
	log_at((enum log_level)level, "==================================================");
}
