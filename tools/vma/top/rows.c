/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/top/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats/latency.h"
#include "base/stats/stats_text.h"
#include "tools/vma_stats/vma_stats.h"

#define P99 99000 /* of 100,000 */

/* ---- adding ------------------------------------------------------------------------------- */

/* Room for one more of size bytes behind the n at *rows; NULL: no memory. */
static void *grow(struct rows *all, void **rows, unsigned *n, size_t size)
{
	/* Doubled when n is a power of two. */
	if (!(*n & (*n - 1))) {
		size_t room = *n ? 2 * (size_t)*n : 1;
		void *more = aligned_alloc(64, (room * size + 63) & ~(size_t)63);

		if (!more) {
			all->no_memory = true;
			return NULL;
		}
		if (*n)
			memcpy(more, *rows, *n * size);
		free(*rows);
		*rows = more;
	}
	return (char *)*rows + (*n)++ * size;
}

static void add_socket(struct rows *rows, const struct process *p, const struct snapshot *s,
		       const struct stats_sock *sock)
{
	struct socket_row *row =
		grow(rows, (void **)&rows->sockets, &rows->n_sockets, sizeof(*row));
	const struct stats_latency *latency = reader_latency(s, sock);

	if (!row)
		return;
	*row = (struct socket_row){.pid = p->pid, .sock = *sock};
	memcpy(row->program, p->name, sizeof(row->program));
	if (latency)
		row->latency = latency_percentile(latency, P99);
}

static void add_ring(struct rows *rows, const struct process *p, const struct stats_ring *ring)
{
	struct ring_row *row = grow(rows, (void **)&rows->rings, &rows->n_rings, sizeof(*row));

	if (!row)
		return;
	*row = (struct ring_row){.pid = p->pid, .ring = *ring};
	memcpy(row->program, p->name, sizeof(row->program));
	for (unsigned i = 0; i < STATS_DROPS; i++)
		row->drops += ring->drops[i];
}

static void add_waits(struct process_row *row, const struct stats_iomux *m)
{
	row->hits += m->now.hits;
	row->misses += m->now.misses;
}

void rows_add(struct rows *rows, const struct process *p, const struct snapshot *rates)
{
	struct process_row *row =
		grow(rows, (void **)&rows->processes, &rows->n_processes, sizeof(*row));

	if (!row)
		return;
	*row = (struct process_row){.pid = p->pid, .sockets = rates->n_socks};
	memcpy(row->program, p->name, sizeof(row->program));
	add_waits(row, &rates->page.poll);
	add_waits(row, &rates->page.select);
	for (unsigned i = 0; i < STATS_EPOLLS; i++)
		add_waits(row, &rates->page.epolls[i]);
	for (unsigned i = 0; i < rates->n_socks; i++)
		row->accelerated += rates->socks[i].accelerated != 0;
	for (unsigned i = 0; i < rates->n_socks; i++)
		add_socket(rows, p, rates, &rates->socks[i]);
	for (unsigned i = 0; i < rates->page.n_rings; i++) {
		if (rates->page.rings[i].open)
			add_ring(rows, p, &rates->page.rings[i]);
	}
}

void rows_free(struct rows *rows)
{
	free(rows->sockets);
	free(rows->rings);
	free(rows->processes);
	*rows = (struct rows){0};
}

/* ---- order -------------------------------------------------------------------------------- */

static uint64_t packets_of(const struct stats_sock *s)
{
	return s->rx_packets + s->tx_packets + s->os_rx_packets + s->os_tx_packets;
}

static uint64_t bytes_of(const struct stats_sock *s)
{
	return s->rx_bytes + s->tx_bytes + s->os_rx_bytes + s->os_tx_bytes;
}

static uint64_t rank(const struct socket_row *row, enum rows_order order)
{
	switch (order) {
	case ROWS_BYTES:
		return bytes_of(&row->sock);
	case ROWS_DROPS:
		return row->sock.rx_drops + row->sock.tx_drops;
	case ROWS_RETRANSMITS:
		return row->sock.retransmits;
	case ROWS_LATENCY:
		return row->latency;
	default:
		return packets_of(&row->sock);
	}
}

static int descending(uint64_t a, uint64_t b)
{
	return a < b ? 1 : a > b ? -1 : 0;
}

static int compare_sockets(const void *first, const void *second, void *arg)
{
	const struct socket_row *a = first, *b = second;
	enum rows_order order = *(const enum rows_order *)arg;
	int rc = descending(rank(a, order), rank(b, order));

	if (!rc)
		rc = descending(packets_of(&a->sock), packets_of(&b->sock));
	if (!rc)
		rc = descending(b->pid, a->pid);
	return rc ? rc : (a->sock.fd > b->sock.fd) - (a->sock.fd < b->sock.fd);
}

static int compare_rings(const void *first, const void *second)
{
	const struct ring_row *a = first, *b = second;
	int rc = descending(a->ring.rx_packets + a->ring.tx_packets,
			    b->ring.rx_packets + b->ring.tx_packets);

	if (!rc)
		rc = descending(b->pid, a->pid);
	return rc ? rc : descending(b->ring.id, a->ring.id);
}

void rows_sort(struct rows *rows, enum rows_order order)
{
	if (rows->n_sockets)
		qsort_r(rows->sockets, rows->n_sockets, sizeof(*rows->sockets), compare_sockets,
			&order);
	if (rows->n_rings)
		qsort(rows->rings, rows->n_rings, sizeof(*rows->rings), compare_rings);
}

/* ---- lines -------------------------------------------------------------------------------- */

/* Five characters: 1234, 12.3k, 1.23M. */
static const char *shortened(uint64_t n, char text[8])
{
	static const char units[] = "kMGTPE";
	double value = (double)n;
	unsigned unit = 0;

	if (n < 10000) {
		snprintf(text, 8, "%" PRIu64, n);
		return text;
	}
	value /= 1000;
	while (value >= 999.5) {
		value /= 1000;
		unit++;
	}
	snprintf(text, 8, "%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
	return text;
}

static void write_process(const struct process_row *row, FILE *out)
{
	char hits[8], misses[8];

	fprintf(out, "%7u %-15s %4u sockets, %u accelerated; waits: %s/s at once, %s/s slept\n",
		row->pid, row->program, row->sockets, row->accelerated, shortened(row->hits, hits),
		shortened(row->misses, misses));
}

static void write_ring(const struct ring_row *row, FILE *out)
{
	const struct stats_ring *r = &row->ring;
	char text[8][8];

	fprintf(out, "%7u %-15s %4u %-15s %5" PRIu64 " %7s %7s %7s %7s %6s %6s %6s\n", row->pid,
		row->program, r->id, r->interface, r->sockets, shortened(r->rx_packets, text[0]),
		shortened(r->tx_packets, text[1]), shortened(r->rx_bytes, text[2]),
		shortened(r->tx_bytes, text[3]), shortened(row->drops, text[4]),
		shortened(r->retransmits, text[5]), shortened(r->frames_free, text[6]));
}

static void write_socket(const struct socket_row *row, FILE *out)
{
	const struct stats_sock *s = &row->sock;
	char local[STATS_ENDPOINT], remote[STATS_ENDPOINT] = "-", text[6][8], latency[16] = "-",
				    verdict[VERDICT_LINE];

	stats_endpoint_text(&s->local_addr, s->local_port, local);
	if (!stats_addr_is_any(&s->remote_addr) || s->remote_port)
		stats_endpoint_text(&s->remote_addr, s->remote_port, remote);
	if (row->latency)
		snprintf(latency, sizeof(latency), "%.1f", (double)row->latency / 1000);
	verdict_line(s, verdict);
	fprintf(out, "%7u %-15s %5d %-4s %-21s %-21s %7s %7s %7s %7s %6s %6s %8s %s\n", row->pid,
		row->program, s->fd, proto_name(s), local, remote,
		shortened(s->rx_packets + s->os_rx_packets, text[0]),
		shortened(s->tx_packets + s->os_tx_packets, text[1]),
		shortened(s->rx_bytes + s->os_rx_bytes, text[2]),
		shortened(s->tx_bytes + s->os_tx_bytes, text[3]),
		shortened(s->rx_drops + s->tx_drops, text[4]), shortened(s->retransmits, text[5]),
		latency, verdict);
}

void rows_write(const struct rows *rows, unsigned rings, unsigned sockets, FILE *out)
{
	for (unsigned i = 0; i < rows->n_processes; i++)
		write_process(&rows->processes[i], out);
	fprintf(out, "\n%7s %-15s %4s %-15s %5s %7s %7s %7s %7s %6s %6s %6s\n", "PID", "PROGRAM",
		"RING", "INTERFACE", "SOCKS", "RX/s", "TX/s", "RXB/s", "TXB/s", "DROP/s", "RETR/s",
		"FREE");
	for (unsigned i = 0; i < rows->n_rings && (!rings || i < rings); i++)
		write_ring(&rows->rings[i], out);
	fprintf(out, "\n%7s %-15s %5s %-4s %-21s %-21s %7s %7s %7s %7s %6s %6s %8s %s\n", "PID",
		"PROGRAM", "FD", "", "LOCAL", "REMOTE", "RX/s", "TX/s", "RXB/s", "TXB/s", "DROP/s",
		"RETR/s", "P99 us", "VERDICT");
	for (unsigned i = 0; i < rows->n_sockets && (!sockets || i < sockets); i++)
		write_socket(&rows->sockets[i], out);
}
