/* SPDX-License-Identifier: BSD-2-Clause */
/* For other programs: JSON, and OpenMetrics 1.0. */
#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/stats/stats_text.h"
#include "tools/vma_stats/vma_stats.h"

/* The counters of a socket: X(member of struct stats_sock, help). */
#define SOCK_COUNTERS(X)                                                   \
	X(rx_packets, "Packets received")                                  \
	X(rx_bytes, "Bytes received")                                      \
	X(rx_reads, "Receive calls that returned data")                    \
	X(rx_misses, "Receive calls that polled in vain")                  \
	X(rx_eagains, "Receive calls that returned EAGAIN")                \
	X(rx_errors, "Receive calls that failed")                          \
	X(rx_drops, "Packets dropped because the receive buffer was full") \
	X(rx_drop_bytes, "Bytes of these packets")                         \
	X(tx_packets, "Packets sent")                                      \
	X(tx_bytes, "Bytes sent")                                          \
	X(tx_eagains, "Send calls that returned EAGAIN")                   \
	X(tx_errors, "Send calls that failed")                             \
	X(tx_drops, "Packets that were not sent")                          \
	X(retransmits, "Segments sent again")                              \
	X(rx_migrations, "Moves to another receiving ring")                \
	X(tx_migrations, "Moves to another sending ring")                  \
	X(os_rx_packets, "Packets received through the kernel")            \
	X(os_rx_bytes, "Bytes received through the kernel")                \
	X(os_rx_errors, "Receive errors of the kernel")                    \
	X(os_tx_packets, "Packets sent through the kernel")                \
	X(os_tx_bytes, "Bytes sent through the kernel")

#define RING_COUNTERS(X)                                               \
	X(rx_packets, "Frames received by the ring")                   \
	X(rx_bytes, "Bytes of received frames")                        \
	X(tx_packets, "Frames sent by the ring")                       \
	X(tx_bytes, "Bytes of sent frames")                            \
	X(copied, "Frames copied because free frames ran low")         \
	X(forwarded, "Datagrams forwarded to another ring")            \
	X(retransmits, "Segments sent again")                          \
	X(interrupt_requests, "Sleeps of threads until frames arrive") \
	X(interrupts, "Sleeps that ended because frames arrived")

/* Of poll, select, and each epoll set. */
#define IOMUX_COUNTERS(X)                                              \
	X(os_ready, "Descriptors returned that the kernel serves")     \
	X(our_ready, "Descriptors returned that are accelerated")      \
	X(hits, "Calls that returned without sleep")                   \
	X(misses, "Calls that slept")                                  \
	X(timeouts, "Calls that returned because their time was over") \
	X(errors, "Calls that failed")

struct metric {
	const char *name, *help;
	size_t at;
};

static const struct metric sock_metrics[] = {
#define X(member, help) {#member, help, offsetof(struct stats_sock, member)},
	SOCK_COUNTERS(X)
#undef X
};

static const struct metric ring_metrics[] = {
#define X(member, help) {#member, help, offsetof(struct stats_ring, member)},
	RING_COUNTERS(X)
#undef X
};

static const struct metric iomux_metrics[] = {
#define X(member, help) {#member, help, offsetof(struct stats_iomux_counts, member)},
	IOMUX_COUNTERS(X)
#undef X
};

#define N(array) (sizeof(array) / sizeof(*(array)))

static uint64_t value(const void *of, const struct metric *m)
{
	uint64_t n;

	memcpy(&n, (const char *)of + m->at, sizeof(n));
	return n;
}

static const char *lower(const char *name, char text[STATS_NAME])
{
	size_t i;

	for (i = 0; i + 1 < STATS_NAME && name[i]; i++)
		text[i] = (char)tolower((unsigned char)name[i]);
	text[i] = '\0';
	return text;
}

/* ---- JSON --------------------------------------------------------------------------- */

void json_begin(void)
{
	puts("[");
}

void json_end(void)
{
	puts("]");
}

static void json_latency(const struct stats_latency *l)
{
	bool comma = false;

	printf(",\"latency\":{\"count\":%" PRIu64 ",\"sum_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64
	       ",\"p50_ns\":%" PRIu64 ",\"p90_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64
	       ",\"p999_ns\":%" PRIu64 ",\"buckets\":[",
	       l->count, l->sum, l->most, latency_percentile(l, 50000),
	       latency_percentile(l, 90000), latency_percentile(l, 99000),
	       latency_percentile(l, 99900));
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		if (!l->buckets[i])
			continue;
		printf("%s[%" PRIu64 ",%" PRIu64 "]", comma ? "," : "", latency_end(i),
		       l->buckets[i]);
		comma = true;
	}
	printf("]}");
}

static void json_sock(const struct snapshot *s, const struct stats_sock *slot)
{
	const struct stats_tcp *tcp = &slot->tcp;
	char local[STATS_ENDPOINT], remote[STATS_ENDPOINT], verdict[VERDICT_LINE];

	stats_endpoint_text(&slot->local_addr, slot->local_port, local);
	stats_endpoint_text(&slot->remote_addr, slot->remote_port, remote);
	verdict_line(slot, verdict);
	printf("{\"fd\":%d,\"inode\":%" PRIu64 ",\"protocol\":\"%s\",\"state\":\"%s\","
	       "\"local\":\"%s\",\"remote\":\"%s\",\"accelerated\":%s,\"verdict\":\"%s\","
	       "\"ring\":%u,\"interface\":\"%s\",\"blocking\":%s,"
	       "\"rx_queued_packets\":%" PRIu64 ",\"rx_queued_bytes\":%" PRIu64
	       ",\"rx_limit\":%" PRIu64 ",\"rx_most_packets\":%" PRIu64
	       ",\"rx_most_bytes\":%" PRIu64 ",\"tx_queued_bytes\":%" PRIu64,
	       slot->fd, slot->inode, proto_name(slot), state_name(slot), local, remote,
	       slot->accelerated ? "true" : "false", verdict, slot->ring, slot->interface,
	       slot->flags & STATS_NONBLOCK ? "false" : "true", slot->rx_queued_packets,
	       slot->rx_queued_bytes, slot->rx_limit, slot->rx_most_packets, slot->rx_most_bytes,
	       slot->tx_queued_bytes);
	for (size_t i = 0; i < N(sock_metrics); i++)
		printf(",\"%s\":%" PRIu64, sock_metrics[i].name, value(slot, &sock_metrics[i]));
	if (slot->type == STATS_TCP)
		printf(",\"tcp\":{\"mss\":%u,\"rto_us\":%u,\"rtt_us\":%u,\"rttvar_us\":%u,"
		       "\"cwnd\":%u,\"ssthresh\":%u,\"unacked\":%u,\"notsent\":%u,"
		       "\"snd_wnd\":%u,\"rcv_wnd\":%u}",
		       tcp->mss, tcp->rto, tcp->rtt, tcp->rttvar, tcp->cwnd, tcp->ssthresh,
		       tcp->unacked, tcp->notsent, tcp->snd_wnd, tcp->rcv_wnd);
	if (reader_latency(s, slot))
		json_latency(reader_latency(s, slot));
	printf("}");
}

static void json_ring(const struct snapshot *s, const struct stats_ring *ring)
{
	char name[STATS_NAME];
	bool first = true;

	printf("{\"ring\":%u,\"interface\":\"%s\",\"frames_free\":%" PRIu64
	       ",\"frames_of_a_poll\":%" PRIu64,
	       ring->id, ring->interface, ring->frames_free, ring->most);
	for (size_t i = 0; i < N(ring_metrics); i++)
		printf(",\"%s\":%" PRIu64, ring_metrics[i].name, value(ring, &ring_metrics[i]));
	printf(",\"drops\":{");
	for (unsigned d = 0; d < STATS_DROPS; d++) {
		if (!ring->drops[d])
			continue;
		printf("%s\"%s\":%" PRIu64, first ? "" : ",", lower(s->page.drop_names[d], name),
		       ring->drops[d]);
		first = false;
	}
	printf("}}");
}

static void json_iomux(const char *name, const struct stats_iomux *m)
{
	printf("\"%s\":{\"os_ready\":%" PRIu64 ",\"ready\":%" PRIu64 ",\"hits\":%" PRIu64
	       ",\"misses\":%" PRIu64 ",\"timeouts\":%" PRIu64 ",\"errors\":%" PRIu64
	       ",\"polling_ns\":%" PRIu64 "}",
	       name, m->now.os_ready - m->zero.os_ready, m->now.our_ready - m->zero.our_ready,
	       m->now.hits - m->zero.hits, m->now.misses - m->zero.misses,
	       m->now.timeouts - m->zero.timeouts, m->now.errors - m->zero.errors,
	       m->now.polling - m->zero.polling);
}

void json_process(const struct options *options, const struct process *p, const struct snapshot *s,
		  bool first)
{
	char name[24];
	bool comma = false;

	printf("%s{\"pid\":%u,\"name\":\"%s\",\"version\":\"%s\",\"log_level\":%d,"
	       "\"sockets_without_counters\":%u,\n \"sockets\":[",
	       first ? "" : ",\n", p->pid, p->name, s->page.version_text, s->page.log_level,
	       s->page.without_slot);
	for (unsigned i = 0; i < s->n_socks; i++) {
		if (!options_show_fd(options, s->socks[i].fd))
			continue;
		printf("%s", comma ? ",\n  " : "\n  ");
		json_sock(s, &s->socks[i]);
		comma = true;
	}
	printf("],\n \"rings\":[");
	comma = false;
	for (unsigned i = 0; i < s->page.n_rings; i++) {
		if (!s->page.rings[i].open)
			continue;
		printf("%s", comma ? ",\n  " : "\n  ");
		json_ring(s, &s->page.rings[i]);
		comma = true;
	}
	printf("],\n \"pools\":{\"rx\":%" PRIu64 ",\"tx\":%" PRIu64 "},\n \"iomux\":{",
	       s->page.pools[STATS_POOL_RX].size, s->page.pools[STATS_POOL_TX].size);
	json_iomux("poll", &s->page.poll);
	printf(",");
	json_iomux("select", &s->page.select);
	for (unsigned i = 0; i < STATS_EPOLLS; i++) {
		if (!s->page.epolls[i].taken)
			continue;
		printf(",");
		snprintf(name, sizeof(name), "epoll%d", s->page.epolls[i].fd);
		json_iomux(name, &s->page.epolls[i]);
	}
	printf("}}\n");
}

/* ---- OpenMetrics -------------------------------------------------------------------- */

static void metric_head(const char *what, const char *name, const char *type, const char *help)
{
	printf("# TYPE vma_%s_%s %s\n# HELP vma_%s_%s %s.\n", what, name, type, what, name, help);
}

static void sock_labels(const struct process *p, const struct stats_sock *slot)
{
	char local[STATS_ENDPOINT], remote[STATS_ENDPOINT];

	stats_endpoint_text(&slot->local_addr, slot->local_port, local);
	stats_endpoint_text(&slot->remote_addr, slot->remote_port, remote);
	printf("pid=\"%u\",process=\"%s\",fd=\"%d\",protocol=\"%s\",local=\"%s\",remote=\"%s\"",
	       p->pid, p->name, slot->fd, proto_name(slot), local, remote);
}

static void sock_samples(const struct options *options, const struct process *p,
			 const struct snapshot *s, const struct metric *m)
{
	for (unsigned i = 0; i < s->n_socks; i++) {
		const struct stats_sock *slot = &s->socks[i];

		if (!options_show_fd(options, slot->fd) || slot->state != STATS_OURS)
			continue;
		printf("vma_socket_%s_total{", m->name);
		sock_labels(p, slot);
		printf("} %" PRIu64 "\n", value(slot, m));
	}
}

/* The buckets of a power of two together; nanoseconds are shown as seconds. */
static void latency_samples(const struct options *options, const struct process *p,
			    const struct snapshot *s)
{
	for (unsigned i = 0; i < s->n_socks; i++) {
		const struct stats_sock *slot = &s->socks[i];
		const struct stats_latency *l = reader_latency(s, slot);
		uint64_t seen = 0;

		if (!l || !options_show_fd(options, slot->fd))
			continue;
		for (unsigned b = 0; b < LATENCY_BUCKETS; b++) {
			seen += l->buckets[b];
			if (b % LATENCY_STEPS != LATENCY_STEPS - 1 || b + 1 == LATENCY_BUCKETS)
				continue;
			printf("vma_socket_latency_seconds_bucket{");
			sock_labels(p, slot);
			printf(",le=\"%.9f\"} %" PRIu64 "\n", (double)latency_end(b) / 1e9, seen);
		}
		printf("vma_socket_latency_seconds_bucket{");
		sock_labels(p, slot);
		printf(",le=\"+Inf\"} %" PRIu64 "\nvma_socket_latency_seconds_count{", seen);
		sock_labels(p, slot);
		printf("} %" PRIu64 "\nvma_socket_latency_seconds_sum{", seen);
		sock_labels(p, slot);
		printf("} %.9f\n", (double)l->sum / 1e9);
	}
}

/* Of all sockets, also those that the kernel serves; the verdict is a label. */
static void verdict_samples(const struct options *options, const struct process *p,
			    const struct snapshot *s)
{
	char verdict[VERDICT_LINE];

	for (unsigned i = 0; i < s->n_socks; i++) {
		const struct stats_sock *slot = &s->socks[i];

		if (!options_show_fd(options, slot->fd))
			continue;
		verdict_line(slot, verdict);
		printf("vma_socket_accelerated{");
		sock_labels(p, slot);
		printf(",verdict=\"%s\"} %d\n", verdict, slot->accelerated ? 1 : 0);
	}
}

static void ring_samples(const struct process *p, const struct snapshot *s, const struct metric *m)
{
	for (unsigned i = 0; i < s->page.n_rings; i++) {
		const struct stats_ring *ring = &s->page.rings[i];

		if (ring->open)
			printf("vma_ring_%s_total{pid=\"%u\",process=\"%s\",ring=\"%u\","
			       "interface=\"%s\"} %" PRIu64 "\n",
			       m->name, p->pid, p->name, ring->id, ring->interface, value(ring, m));
	}
}

static void drop_samples(const struct process *p, const struct snapshot *s)
{
	char name[STATS_NAME];

	for (unsigned i = 0; i < s->page.n_rings; i++) {
		const struct stats_ring *ring = &s->page.rings[i];

		for (unsigned d = 0; d < STATS_DROPS; d++) {
			if (ring->open && ring->drops[d])
				printf("vma_ring_drops_total{pid=\"%u\",process=\"%s\",ring=\"%u\","
				       "interface=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
				       p->pid, p->name, ring->id, ring->interface,
				       lower(s->page.drop_names[d], name), ring->drops[d]);
		}
	}
}

static void iomux_sample(const struct process *p, const char *call, const struct stats_iomux *of,
			 const struct metric *m)
{
	uint64_t now = value(&of->now, m), zero = value(&of->zero, m);

	printf("vma_iomux_%s_total{pid=\"%u\",process=\"%s\",call=\"%s\"", m->name, p->pid, p->name,
	       call);
	if (of->taken)
		printf(",fd=\"%d\"", of->fd);
	printf("} %" PRIu64 "\n", now >= zero ? now - zero : now);
}

static void iomux_samples(const struct process *p, const struct snapshot *s, const struct metric *m)
{
	iomux_sample(p, "poll", &s->page.poll, m);
	iomux_sample(p, "select", &s->page.select, m);
	for (unsigned i = 0; i < STATS_EPOLLS; i++) {
		if (s->page.epolls[i].taken)
			iomux_sample(p, "epoll", &s->page.epolls[i], m);
	}
}

static void rings(const struct process *ps, const struct snapshot *ss, unsigned n)
{
	for (size_t m = 0; m < N(ring_metrics); m++) {
		metric_head("ring", ring_metrics[m].name, "counter", ring_metrics[m].help);
		for (unsigned i = 0; i < n; i++)
			ring_samples(&ps[i], &ss[i], &ring_metrics[m]);
	}
	metric_head("ring", "drops", "counter", "Packets dropped, by reason");
	for (unsigned i = 0; i < n; i++)
		drop_samples(&ps[i], &ss[i]);
}

void openmetrics(const struct options *options, const struct process *ps, const struct snapshot *ss,
		 unsigned n)
{
	for (size_t m = 0; m < N(sock_metrics); m++) {
		metric_head("socket", sock_metrics[m].name, "counter", sock_metrics[m].help);
		for (unsigned i = 0; i < n; i++)
			sock_samples(options, &ps[i], &ss[i], &sock_metrics[m]);
	}
	metric_head("socket", "accelerated", "gauge", "1: accelerated; 0: the kernel serves it");
	for (unsigned i = 0; i < n; i++)
		verdict_samples(options, &ps[i], &ss[i]);
	metric_head("socket", "latency_seconds", "histogram",
		    "How long received data waits until the program reads it");
	puts("# UNIT vma_socket_latency_seconds seconds");
	for (unsigned i = 0; i < n; i++)
		latency_samples(options, &ps[i], &ss[i]);
	rings(ps, ss, n);
	for (size_t m = 0; m < N(iomux_metrics); m++) {
		metric_head("iomux", iomux_metrics[m].name, "counter", iomux_metrics[m].help);
		for (unsigned i = 0; i < n; i++)
			iomux_samples(&ps[i], &ss[i], &iomux_metrics[m]);
	}
	puts("# EOF");
}
