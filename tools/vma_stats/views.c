/* SPDX-License-Identifier: BSD-2-Clause */
/* Views 1 to 3: tables and blocks of counters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats/stats_text.h"
#include "tools/vma_stats/vma_stats.h"

#define WIDE_RULE "-------------------------------------------------------------------------------"

/* ---- differences -------------------------------------------------------------------- */

/* Rounded to the nearest; a page may contain any number. */
static uint64_t whole(double n)
{
	return n < 0x1p63 ? (uint64_t)(n + 0.5) : UINT64_MAX;
}

/* Per second. */
static uint64_t rate(uint64_t now, uint64_t before, uint64_t nsec)
{
	uint64_t n = now >= before ? now - before : now;

	return nsec ? whole((double)n * NSEC_PER_SEC / (double)nsec) : 0;
}

static void rates(uint64_t *now, const uint64_t *before, size_t n, uint64_t nsec)
{
	for (size_t i = 0; i < n; i++)
		now[i] = rate(now[i], before ? before[i] : 0, nsec);
}

#define COUNTERS(first, last) ((size_t)(&(last) - &(first)) + 1)

/* The same socket, some time before; or NULL. */
static const struct stats_sock *find_before(const struct snapshot *before,
					    const struct stats_sock *slot)
{
	for (unsigned i = 0; i < before->n_socks; i++) {
		const struct stats_sock *old = &before->socks[i];

		if (old->fd == slot->fd && (old->inode == slot->inode || !old->inode))
			return &before->socks[i];
	}
	return NULL;
}

static void sock_rates(struct stats_sock *slot, const struct snapshot *before, uint64_t nsec)
{
	const struct stats_sock *old = find_before(before, slot);
	uint64_t bytes = slot->rx_most_bytes, packets = slot->rx_most_packets;

	rates(&slot->rx_packets, old ? &old->rx_packets : NULL,
	      COUNTERS(slot->rx_packets, slot->retransmits), nsec);
	slot->rx_most_bytes = bytes;
	slot->rx_most_packets = packets;
}

static void iomux_rates(struct stats_iomux *m, const struct stats_iomux *old, uint64_t nsec)
{
	struct stats_iomux_counts last = old->now;

	if (m->zero.hits != old->zero.hits || m->zero.misses != old->zero.misses ||
	    m->fd != old->fd)
		last = m->zero; /* zeroed, or another set, in between */
	rates(&m->now.os_ready, &last.os_ready, COUNTERS(m->now.os_ready, m->now.polling), nsec);
	memset(&m->zero, 0, sizeof(m->zero));
}

/* What was counted in between, not per second: percentiles are of all of it. */
static bool delta_latencies(const struct snapshot *now, const struct snapshot *before,
			    struct snapshot *to)
{
	const size_t words = sizeof(struct stats_latency) / sizeof(uint64_t);

	to->latencies = NULL;
	if (!now->latencies || !before->latencies || before->n_places != now->n_places)
		return true;
	to->latencies = aligned_alloc(_Alignof(struct stats_latency),
				      now->n_places * sizeof(*to->latencies));
	if (!to->latencies)
		return false;
	for (unsigned i = 0; i < now->n_places; i++) {
		const uint64_t *n = (const uint64_t *)&now->latencies[i];
		const uint64_t *b = (const uint64_t *)&before->latencies[i];
		uint64_t *t = (uint64_t *)&to->latencies[i];
		bool same = now->latencies[i].count >= before->latencies[i].count;

		for (size_t k = 0; k < words; k++)
			t[k] = same ? n[k] - b[k] : n[k];
		to->latencies[i].most = now->latencies[i].most;
	}
	return true;
}

bool delta(const struct snapshot *now, const struct snapshot *before, struct snapshot *to)
{
	uint64_t nsec = now->at - before->at;
	size_t size = (now->n_socks + 1) * sizeof(*now->socks);

	*to = *now;
	to->socks = aligned_alloc(64, size);
	if (!to->socks)
		return false;
	memcpy(to->socks, now->socks, now->n_socks * sizeof(*now->socks));
	if (!delta_latencies(now, before, to)) {
		free(to->socks);
		return false;
	}
	for (unsigned i = 0; i < to->n_socks; i++)
		sock_rates(&to->socks[i], before, nsec);
	iomux_rates(&to->page.poll, &before->page.poll, nsec);
	iomux_rates(&to->page.select, &before->page.select, nsec);
	for (unsigned i = 0; i < STATS_EPOLLS; i++)
		iomux_rates(&to->page.epolls[i], &before->page.epolls[i], nsec);
	for (unsigned i = 0; i < to->page.n_rings; i++) {
		struct stats_ring *ring = &to->page.rings[i];
		const struct stats_ring *old = &before->page.rings[i];

		rates(&ring->rx_packets, &old->rx_packets,
		      COUNTERS(ring->rx_packets, ring->interrupts), nsec);
		rates(ring->drops, old->drops, STATS_DROPS, nsec);
	}
	to->page.zeroed_at = now->at - NSEC_PER_SEC; /* for shares of the time */
	return true;
}

/* ---- iomux -------------------------------------------------------------------------- */

struct iomux_shown {
	struct stats_iomux_counts n;
	char name[24];
	uint64_t cpu; /* per cent of the time that was spent polling */
};

/* False: nobody calls it. */
static bool iomux_show(const struct snapshot *s, const struct stats_iomux *m, const char *name,
		       struct iomux_shown *shown)
{
	const uint64_t *now = (const uint64_t *)&m->now, *zero = (const uint64_t *)&m->zero;
	uint64_t *n = (uint64_t *)&shown->n;
	uint64_t time = s->at - s->page.zeroed_at;

	for (size_t i = 0; i < sizeof(m->now) / sizeof(*now); i++)
		n[i] = now[i] >= zero[i] ? now[i] - zero[i] : now[i];
	snprintf(shown->name, sizeof(shown->name), "%s", name);
	shown->cpu = time ? whole((double)shown->n.polling * 100 / (double)time) : 0;
	return shown->n.hits || shown->n.misses;
}

static void iomux_each(const struct options *options, const struct snapshot *s,
		       void (*fn)(const struct options *options, const struct iomux_shown *shown))
{
	struct iomux_shown shown;
	char name[24];

	if (iomux_show(s, &s->page.select, "select()", &shown))
		fn(options, &shown);
	if (iomux_show(s, &s->page.poll, "poll()", &shown))
		fn(options, &shown);
	for (unsigned i = 0; i < STATS_EPOLLS; i++) {
		const struct stats_iomux *m = &s->page.epolls[i];

		snprintf(name, sizeof(name), "epoll[%d]", m->fd);
		if (m->taken && iomux_show(s, m, name, &shown))
			fn(options, &shown);
	}
}

static void iomux_row(const struct options *options, const struct iomux_shown *m)
{
	printf("%-8s%-2s %-9s%" PRIu64 "%-1s%" PRIu64 " %-12s %-9s%-5" PRIu64 " %-7s%-4" PRIu64
	       " %-5s%-2.2f%-3s %-5s%" PRIu64 "%-1s\n",
	       m->name, options->deltas ? "/s" : "", "Rx Ready:", m->n.os_ready, "/",
	       m->n.our_ready, "[os/offload]", "Timeouts:", m->n.timeouts, "Errors:", m->n.errors,
	       "Poll:", stats_share(m->n.hits, m->n.misses), "%", "Polling CPU:", m->cpu, "%");
}

static void iomux_block(const struct options *options, const struct iomux_shown *m)
{
	(void)options;
	printf(STATS_RULE "\n\t%s\n", m->name);
	if (m->cpu)
		printf("Polling CPU:%" PRIu64 "%%\n", m->cpu);
	if (m->n.os_ready || m->n.our_ready)
		printf("Rx fds ready: %" PRIu64 " / %" PRIu64 " [os/offload]\n", m->n.os_ready,
		       m->n.our_ready);
	printf("Polls [miss/hit]: %" PRIu64 " / %" PRIu64 " (%2.2f%%)\n", m->n.misses, m->n.hits,
	       stats_share(m->n.hits, m->n.misses));
	if (m->n.timeouts)
		printf("Timeouts: %" PRIu64 "\n", m->n.timeouts);
	if (m->n.errors)
		printf("Errors: %" PRIu64 "\n", m->n.errors);
	printf(STATS_RULE "\n");
}

/* ---- views 1 and 2 ------------------------------------------------------------------ */

static void table_head(const struct options *options)
{
	const char *per = options->deltas ? "/s" : "";
	char pkt[8], kbyte[8], eagain[16], error[16];

	snprintf(pkt, sizeof(pkt), "pkt%s", per);
	snprintf(kbyte, sizeof(kbyte), "Kbyte%s", per);
	snprintf(eagain, sizeof(eagain), "eagain%s", per);
	snprintf(error, sizeof(error), "error%s", per);
	if (options->view == VIEW_BASIC) {
		printf(" %-7s %42s %31s\n", "fd",
		       options->deltas ? "--------------- offloaded ----------------"
				       : "------------ total offloaded -------------",
		       options->deltas ? "---------- os ---------"
				       : "--------- total os ----------");
		printf(" %-7s %10s %7s %8s %7s %6s %7s %7s %7s %7s\n", "", pkt, kbyte, eagain,
		       error, "poll%", pkt, kbyte, eagain, error);
		return;
	}
	printf(" %-7s %65s %31s\n", "fd",
	       options->deltas
		       ? "--------------------------- offloaded ---------------------------"
		       : "------------------------ total offloaded ------------------------",
	       options->deltas ? "---------- os ---------" : "--------- total os ----------");
	printf(" %-7s %10s %7s %8s %7s %6s%23s %7s %7s %7s %7s\n", "", pkt, kbyte, eagain, error,
	       "poll%", "---- queue pkt -----", pkt, kbyte, eagain, error);
	printf(" %50s %6s  %6s  %6s \n", "", "cur", "max", "drop");
}

static void basic_rows(const struct stats_sock *s)
{
	printf(" %-3d %-3s %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64 " %6.1f %7" PRIu64
	       " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 "\n",
	       s->fd, "Rx:", s->rx_packets, s->rx_bytes / 1024, s->rx_eagains, s->rx_errors,
	       stats_share(s->rx_reads, s->rx_misses), s->os_rx_packets, s->os_rx_bytes / 1024,
	       s->os_rx_eagains, s->os_rx_errors);
	printf(" %-3s %-3s %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64 " %-6s %7" PRIu64
	       " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 "\n",
	       "", "Tx:", s->tx_packets, s->tx_bytes / 1024, s->tx_eagains, s->tx_errors, "",
	       s->os_tx_packets, s->os_tx_bytes / 1024, s->os_tx_eagains, s->os_tx_errors);
}

static void medium_rows(const struct stats_sock *s)
{
	printf(" %-3d %-3s %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64 " %6.1f %6" PRIu64
	       "  %6" PRIu64 "  %6" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 "\n",
	       s->fd, "Rx:", s->rx_packets, s->rx_bytes / 1024, s->rx_eagains, s->rx_errors,
	       stats_share(s->rx_reads, s->rx_misses), s->rx_queued_packets, s->rx_most_packets,
	       s->rx_drops, s->os_rx_packets, s->os_rx_bytes / 1024, s->os_rx_eagains,
	       s->os_rx_errors);
	printf(" %-3s %-3s %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %7" PRIu64 " %29s %7" PRIu64
	       " %7" PRIu64 " %7" PRIu64 " %7" PRIu64 "\n",
	       "", "Tx:", s->tx_packets, s->tx_bytes / 1024, s->tx_eagains, s->tx_errors, "",
	       s->os_tx_packets, s->os_tx_bytes / 1024, s->os_tx_eagains, s->os_tx_errors);
}

void view_table(const struct options *options, const struct snapshot *s, unsigned *lines)
{
	for (unsigned i = 0; i < s->n_socks; i++) {
		if (!options_show_fd(options, s->socks[i].fd) || s->socks[i].state != STATS_OURS)
			continue;
		if (*lines % VIEW_LINES == 0)
			table_head(options);
		*lines += 2;
		if (options->view == VIEW_BASIC)
			basic_rows(&s->socks[i]);
		else
			medium_rows(&s->socks[i]);
	}
	iomux_each(options, s, iomux_row);
	puts(WIDE_RULE);
}

/* ---- view 3 ------------------------------------------------------------------------- */

static void counter(const char *label, uint64_t n)
{
	printf("%-20s %10" PRIu64 "\n", label, n);
}

static void cq_block(const struct stats_ring *ring, unsigned i)
{
	uint64_t drops = 0;

	for (unsigned d = 0; d < STATS_DROPS; d++)
		drops += ring->drops[d];
	printf(STATS_RULE "\n\tCQ=[%u]\n", i);
	counter("Packets dropped:", drops);
	counter("Packets queue len:", ring->queue_len);
	counter("Drained max:", ring->most);
	counter("Buffer pool size:", ring->frames_free);
	puts(STATS_RULE);
}

static void ring_block(const struct snapshot *s, const struct stats_ring *ring, unsigned i)
{
	printf(STATS_RULE "\n\tRING_ETH=[%u]\n", i);
	if (ring->interface[0])
		printf("Interface: %s\n", ring->interface);
	if (ring->tx_packets)
		printf("%-14s %" PRIu64 " / %" PRIu64 " [kilobytes/packets]\n",
		       "Tx Offload:", ring->tx_bytes / 1024, ring->tx_packets);
	if (ring->rx_packets)
		printf("%-14s %" PRIu64 " / %" PRIu64 " [kilobytes/packets]\n",
		       "Rx Offload:", ring->rx_bytes / 1024, ring->rx_packets);
	if (ring->retransmits)
		printf("%-14s %" PRIu64 "\n", "Retransmissions:", ring->retransmits);
	if (ring->interrupt_requests || ring->interrupts)
		printf("%-14s %" PRIu64 " / %" PRIu64 " [requests/received]\n",
		       "Interrupts:", ring->interrupt_requests, ring->interrupts);
	if (ring->copied || ring->forwarded)
		printf("%-14s %" PRIu64 " / %" PRIu64 " [copied/forwarded]\n",
		       "Rx Frames:", ring->copied, ring->forwarded);
	for (unsigned d = 0; d < STATS_DROPS; d++) {
		if (ring->drops[d])
			printf("%-14s %" PRIu64 " [%s]\n", "Dropped:", ring->drops[d],
			       s->page.drop_names[d]);
	}
	puts(STATS_RULE);
}

static void pool_block(const struct stats_pool *pool, const char *name, unsigned i)
{
	printf("\tBUFFER_POOL(%s)=[%u]\n", name, i);
	counter("Size:", pool->size);
	counter("No buffers error:", pool->errors);
	puts(STATS_RULE);
}

void view_full(const struct options *options, const struct snapshot *s)
{
	unsigned how = STATS_TEXT_GROUPS | (options->deltas ? STATS_TEXT_RATES : 0);
	char text[STATS_TEXT_SIZE];

	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	for (unsigned i = 0; i < s->n_socks; i++) {
		if (!options_show_fd(options, s->socks[i].fd) || s->socks[i].state != STATS_OURS)
			continue;
		stats_sock_text(&s->socks[i], how, text);
		printf(STATS_RULE "\n%s" STATS_RULE "\n", text);
	}
	iomux_each(options, s, iomux_block);
	for (unsigned i = 0; i < s->page.n_rings; i++) {
		if (s->page.rings[i].open)
			cq_block(&s->page.rings[i], i);
	}
	for (unsigned i = 0; i < s->page.n_rings; i++) {
		if (s->page.rings[i].open)
			ring_block(s, &s->page.rings[i], i);
	}
	puts(STATS_RULE);
	pool_block(&s->page.pools[STATS_POOL_RX], "RX", STATS_POOL_RX);
	pool_block(&s->page.pools[STATS_POOL_TX], "TX", STATS_POOL_TX);
}
