/* SPDX-License-Identifier: BSD-2-Clause */
/* Views 4 to 7: multicast groups, a list of sockets as netstat shows it, verdicts, latencies. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "base/stats/stats_text.h"
#include "tools/vma_stats/vma_stats.h"

const char *proto_name(const struct stats_sock *slot)
{
	return slot->type == STATS_UDP ? "udp" : "tcp";
}

/* As netstat(8) shows it. */
static const char *shown_proto(const struct stats_sock *slot)
{
	bool six = slot->flags & STATS_INET6;

	return slot->type == STATS_UDP ? six ? "udp6" : "udp" : six ? "tcp6" : "tcp";
}

const char *state_name(const struct stats_sock *slot)
{
	static const char *const names[] = {"",		  "ESTABLISHED", "SYN_SENT",  "SYN_RECV",
					    "FIN_WAIT1",  "FIN_WAIT2",	 "TIME_WAIT", "CLOSE",
					    "CLOSE_WAIT", "LAST_ACK",	 "LISTEN",    "CLOSING"};

	if (slot->type == STATS_UDP || slot->tcp_state >= sizeof(names) / sizeof(*names))
		return "";
	return names[slot->tcp_state];
}

void verdict_line(const struct stats_sock *slot, char text[VERDICT_LINE])
{
	int n;

	if (!slot->accelerated)
		n = snprintf(text, VERDICT_LINE, "kernel");
	else if (slot->flags & STATS_EXPORTED)
		n = snprintf(text, VERDICT_LINE, "accelerated, another process has it");
	else if (!slot->interface[0])
		n = snprintf(text, VERDICT_LINE, "accelerated, not in use yet");
	else
		n = snprintf(text, VERDICT_LINE, "accelerated over %s on ring %u", slot->interface,
			     slot->ring);
	if (slot->verdict[0])
		snprintf(text + n, VERDICT_LINE - (size_t)n, "%s %s", slot->accelerated ? "," : ":",
			 slot->verdict);
}

static void endpoints(const struct stats_sock *slot, char local[STATS_ENDPOINT],
		      char remote[STATS_ENDPOINT])
{
	stats_endpoint_text(&slot->local_addr, slot->local_port, local);
	if (!stats_addr_is_any(&slot->remote_addr) || slot->remote_port)
		stats_endpoint_text(&slot->remote_addr, slot->remote_port, remote);
	else
		strcpy(remote, "0.0.0.0:*");
}

/* ---- view 4 ------------------------------------------------------------------------- */

static bool is_member(const struct stats_sock *slot, uint32_t group)
{
	for (unsigned i = 0; i < slot->n_groups; i++) {
		if (slot->groups[i] == group)
			return true;
	}
	return false;
}

/* Was the group shown for a socket before this one, or before this entry? */
static bool is_repeated(const struct options *options, const struct snapshot *s, unsigned sock,
			unsigned entry)
{
	uint32_t group = s->socks[sock].groups[entry];

	for (unsigned i = 0; i < entry; i++) {
		if (s->socks[sock].groups[i] == group)
			return true;
	}
	for (unsigned i = 0; i < sock; i++) {
		if (options_show_fd(options, s->socks[i].fd) && is_member(&s->socks[i], group))
			return true;
	}
	return false;
}

static void group_row(const struct options *options, const struct snapshot *s, uint32_t group)
{
	char addr[INET_ADDRSTRLEN], shown[INET_ADDRSTRLEN + 2];

	inet_ntop(AF_INET, &group, addr, sizeof(addr));
	snprintf(shown, sizeof(shown), "[%s]", addr);
	printf("%-22s", shown);
	for (unsigned i = 0; i < s->n_socks; i++) {
		if (options_show_fd(options, s->socks[i].fd) && is_member(&s->socks[i], group))
			printf("%d ", s->socks[i].fd);
	}
	putchar('\n');
}

void view_groups(const struct options *options, const struct snapshot *s)
{
	puts("VMA Group Memberships Information");
	puts("Group                fd number");
	puts("------------------------------");
	for (unsigned i = 0; i < s->n_socks; i++) {
		for (unsigned g = 0; g < s->socks[i].n_groups; g++) {
			if (options_show_fd(options, s->socks[i].fd) &&
			    !is_repeated(options, s, i, g))
				group_row(options, s, s->socks[i].groups[g]);
		}
	}
	puts("-------------------------------------------------------------------------------");
}

/* ---- view 5 ------------------------------------------------------------------------- */

void view_netstat_head(void)
{
	printf("%-5s %-9s %-20s %-20s %-22s %-21s %-11s %-10s %s\n", "Proto", "Offloaded", "Recv-Q",
	       "Send-Q", "Local Address", "Foreign Address", "State", "Inode", "PID/Program name");
}

void view_netstat(const struct options *options, const struct process *p, const struct snapshot *s)
{
	char local[STATS_ENDPOINT], remote[STATS_ENDPOINT];

	for (unsigned i = 0; i < s->n_socks; i++) {
		const struct stats_sock *slot = &s->socks[i];

		if (!options_show_fd(options, slot->fd))
			continue;
		endpoints(slot, local, remote);
		printf("%-5s %-9s %-20" PRIu64 " %-20" PRIu64 " %-22s %-21s %-11s %-10" PRIu64
		       " %u/%s\n",
		       shown_proto(slot), slot->accelerated ? "Yes" : "No", slot->rx_queued_bytes,
		       slot->tx_queued_bytes, local, remote, state_name(slot), slot->inode, p->pid,
		       p->name);
	}
}

/* ---- view 6 ------------------------------------------------------------------------- */

void view_verdicts_head(void)
{
	printf("%-7s %-5s %-22s %-21s %-24s %s\n", "fd", "Proto", "Local Address",
	       "Foreign Address", "PID/Program name", "Verdict");
}

void view_verdicts(const struct options *options, const struct process *p, const struct snapshot *s)
{
	char local[STATS_ENDPOINT], remote[STATS_ENDPOINT], verdict[VERDICT_LINE], process[32];

	for (unsigned i = 0; i < s->n_socks; i++) {
		const struct stats_sock *slot = &s->socks[i];

		if (!options_show_fd(options, slot->fd))
			continue;
		endpoints(slot, local, remote);
		verdict_line(slot, verdict);
		snprintf(process, sizeof(process), "%u/%s", p->pid, p->name);
		printf("%-7d %-5s %-22s %-21s %-24s %s\n", slot->fd, shown_proto(slot), local,
		       remote, process, verdict);
	}
	if (s->page.without_slot)
		printf("%u more sockets have no counters: see VMA_STATS_FD_NUM\n",
		       s->page.without_slot);
}

/* ---- view 7 ------------------------------------------------------------------------- */

static double usec(uint64_t nsec)
{
	return (double)nsec / 1000;
}

void view_latencies(const struct options *options, const struct snapshot *s)
{
	char local[STATS_ENDPOINT], remote[STATS_ENDPOINT];

	if (!s->latencies) {
		puts("Latencies are not measured: see VMA_STATS_LATENCY");
		return;
	}
	printf("%-5s %-5s %-22s %-21s %10s %9s %9s %9s %9s %9s %9s\n", "fd", "Proto",
	       "Local Address", "Foreign Address", "reads", "mean us", "50%", "90%", "99%", "99.9%",
	       "most");
	for (unsigned i = 0; i < s->n_socks; i++) {
		const struct stats_sock *slot = &s->socks[i];
		const struct stats_latency *l = reader_latency(s, slot);

		if (!l || !l->count || !options_show_fd(options, slot->fd))
			continue;
		endpoints(slot, local, remote);
		printf("%-5d %-5s %-22s %-21s %10" PRIu64 " %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f\n",
		       slot->fd, proto_name(slot), local, remote, l->count,
		       usec(l->sum) / (double)l->count, usec(latency_percentile(l, 50000)),
		       usec(latency_percentile(l, 90000)), usec(latency_percentile(l, 99000)),
		       usec(latency_percentile(l, 99900)), usec(l->most));
	}
}
