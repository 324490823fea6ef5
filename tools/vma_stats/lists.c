/* SPDX-License-Identifier: BSD-2-Clause */
/* Views 4 to 6: multicast groups, a list of sockets as netstat shows it, verdicts. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "base/stats/stats_text.h"
#include "tools/vma_stats/vma_stats.h"

const char *proto_name(const struct stats_sock *slot)
{
	return slot->type == STATS_UDP ? "udp" : "tcp";
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

void verdict_line(const struct stats_sock *slot, char text[160])
{
	if (!slot->accelerated)
		snprintf(text, 160, "kernel: %s", slot->verdict);
	else if (slot->flags & STATS_EXPORTED)
		snprintf(text, 160, "accelerated, another process has it");
	else if (!slot->interface[0])
		snprintf(text, 160, "accelerated, not in use yet");
	else
		snprintf(text, 160, "accelerated over %s on ring %u", slot->interface, slot->ring);
}

static void endpoints(const struct stats_sock *slot, char local[24], char remote[24])
{
	stats_endpoint_text(slot->local_addr, slot->local_port, local);
	if (slot->remote_addr || slot->remote_port)
		stats_endpoint_text(slot->remote_addr, slot->remote_port, remote);
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
	char local[24], remote[24];

	for (unsigned i = 0; i < s->n_socks; i++) {
		const struct stats_sock *slot = &s->socks[i];

		if (!options_show_fd(options, slot->fd))
			continue;
		endpoints(slot, local, remote);
		printf("%-5s %-9s %-20" PRIu64 " %-20" PRIu64 " %-22s %-21s %-11s %-10" PRIu64
		       " %u/%s\n",
		       proto_name(slot), slot->accelerated ? "Yes" : "No", slot->rx_queued_bytes,
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
	char local[24], remote[24], verdict[160], process[32];

	for (unsigned i = 0; i < s->n_socks; i++) {
		const struct stats_sock *slot = &s->socks[i];

		if (!options_show_fd(options, slot->fd))
			continue;
		endpoints(slot, local, remote);
		verdict_line(slot, verdict);
		snprintf(process, sizeof(process), "%u/%s", p->pid, p->name);
		printf("%-7d %-5s %-22s %-21s %-24s %s\n", slot->fd, proto_name(slot), local,
		       remote, process, verdict);
	}
	if (s->page.without_slot)
		printf("%u more sockets have no counters: see VMA_STATS_FD_NUM\n",
		       s->page.without_slot);
}
