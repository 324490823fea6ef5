/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/stats_text.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct text {
	char *at;
	size_t used;
};

/* Appends; what does not fit is cut off. */
static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *fmt, ...)
{
	size_t left = STATS_TEXT_SIZE - t->used;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->at + t->used, left, fmt, args);
	va_end(args);
	if (n > 0)
		t->used += (size_t)n < left ? (size_t)n : left - 1;
}

bool stats_place_parse(const char *text, struct stats_place *place)
{
	char again[STATS_PLACE_SIZE];
	uint64_t namespace;
	unsigned pid, fd;

	if (sscanf(text, STATS_PLACE_FORMAT, &pid, &namespace, &fd) != 3)
		return false;
	*place = (struct stats_place){.pid = pid, .namespace = namespace, .fd = fd};
	/* sscanf(3) accepts signs, spaces and numbers that are too large. */
	snprintf(again, sizeof(again), STATS_PLACE_FORMAT, pid, namespace, fd);
	return !strcmp(text, again);
}

static void add_addr(struct text *t, uint32_t addr)
{
	const uint8_t *b = (const uint8_t *)&addr;

	add(t, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
}

void stats_endpoint_text(const struct stats_addr *addr, uint16_t port, char text[STATS_ENDPOINT])
{
	const uint8_t *b = (const uint8_t *)&addr->w[3];
	char ip[INET6_ADDRSTRLEN] = "";

	if (stats_addr_is_ipv4(addr)) {
		snprintf(text, STATS_ENDPOINT, "%u.%u.%u.%u:%u", b[0], b[1], b[2], b[3],
			 ntohs(port));
		return;
	}
	inet_ntop(AF_INET6, addr, ip, sizeof(ip));
	snprintf(text, STATS_ENDPOINT, "[%s]:%u", ip, ntohs(port));
}

double stats_share(uint64_t hits, uint64_t misses)
{
	return hits + misses ? 100.0 * (double)hits / ((double)hits + (double)misses) : 0;
}

static void add_endpoint(struct text *t, const char *label, const struct stats_addr *addr,
			 uint16_t port)
{
	char shown[STATS_ENDPOINT];

	stats_endpoint_text(addr, port, shown);
	if (!stats_addr_is_any(addr) || port)
		add(t, "- %-15s = [%s]\n", label, shown);
}

static void add_head(struct text *t, const struct stats_sock *slot, unsigned how)
{
	unsigned n = slot->n_groups < STATS_GROUPS ? slot->n_groups : STATS_GROUPS;

	add(t, "\tFd=[%d]\n", slot->fd);
	add(t, "- %s, %s", slot->type == STATS_UDP ? "UDP" : "TCP",
	    slot->flags & STATS_NONBLOCK ? "Non-blocked" : "Blocked");
	if (slot->type == STATS_UDP)
		add(t, ", MC Loop %s", slot->flags & STATS_MC_LOOP ? "Enabled " : "Disabled");
	if (slot->mc_addr) {
		add(t, ", MC IF = [");
		add_addr(t, slot->mc_addr);
		add(t, "]");
	}
	add(t, "\n");
	add_endpoint(t, "Local Address", &slot->local_addr, slot->local_port);
	add_endpoint(t, "Foreign Address", &slot->remote_addr, slot->remote_port);
	for (unsigned i = 0; (how & STATS_TEXT_GROUPS) && i < n; i++) {
		add(t, "- Member of = [");
		add_addr(t, slot->groups[i]);
		add(t, "]\n");
	}
}

/* A line of traffic, if there was any. */
static void add_traffic(struct text *t, const char *label, uint64_t bytes, uint64_t packets,
			uint64_t eagains, uint64_t errors)
{
	if (bytes || packets || eagains || errors)
		add(t,
		    "%s: %" PRIu64 " / %" PRIu64 " / %" PRIu64 " / %" PRIu64
		    " [kilobytes/packets/eagains/errors]\n",
		    label, bytes / 1024, packets, eagains, errors);
}

static void add_queue(struct text *t, const struct stats_sock *slot, const char *per)
{
	if (slot->rx_queued_bytes || slot->rx_most_bytes || slot->rx_drop_bytes || slot->rx_limit)
		add(t,
		    "Rx byte: cur %" PRIu64 " / max %" PRIu64 " / dropped%s %" PRIu64
		    " / limit %" PRIu64 "\n",
		    slot->rx_queued_bytes, slot->rx_most_bytes, per, slot->rx_drop_bytes,
		    slot->rx_limit);
	if (slot->rx_queued_packets || slot->rx_most_packets || slot->rx_drops)
		add(t, "Rx pkt : cur %" PRIu64 " / max %" PRIu64 " / dropped%s %" PRIu64 "\n",
		    slot->rx_queued_packets, slot->rx_most_packets, per, slot->rx_drops);
}

size_t stats_sock_text(const struct stats_sock *slot, unsigned how, char text[STATS_TEXT_SIZE])
{
	const char *per = how & STATS_TEXT_RATES ? "/s" : "";
	struct text t = {text, 0};
	size_t before;

	text[0] = '\0';
	add_head(&t, slot, how);
	before = t.used;
	add_traffic(&t, "Tx Offload", slot->tx_bytes, slot->tx_packets, slot->tx_eagains,
		    slot->tx_errors);
	add_traffic(&t, "Tx OS info", slot->os_tx_bytes, slot->os_tx_packets, slot->os_tx_eagains,
		    slot->os_tx_errors);
	add_traffic(&t, "Rx Offload", slot->rx_bytes, slot->rx_packets, slot->rx_eagains,
		    slot->rx_errors);
	add_traffic(&t, "Rx OS info", slot->os_rx_bytes, slot->os_rx_packets, slot->os_rx_eagains,
		    slot->os_rx_errors);
	if (slot->rx_packets || slot->rx_drops || slot->rx_queued_packets)
		add_queue(&t, slot, per);
	if (slot->rx_reads || slot->rx_misses)
		add(&t, "Rx poll: %" PRIu64 " / %" PRIu64 " (%2.2f%%) [miss/hit]\n",
		    slot->rx_misses, slot->rx_reads, stats_share(slot->rx_reads, slot->rx_misses));
	if (slot->rx_migrations || slot->tx_migrations)
		add(&t, "Ring migrations Rx: %" PRIu64 ", Tx: %" PRIu64 "\n", slot->rx_migrations,
		    slot->tx_migrations);
	if (slot->retransmits)
		add(&t, "Retransmissions: %" PRIu64 "\n", slot->retransmits);
	if (t.used == before)
		add(&t, "Rx and Tx where not active\n");
	return t.used;
}
